//! Rows of the operator sheets: `unified_perf_summary`, `ops_unique_args` and the category sheets.

use super::cells::{self, KernelUse};
use crate::error::ReadError;
use crate::header::{Header, count, real, us_to_ns};
use crate::health::{Health, Issue};
use crate::inventory::Provenance;
use crate::ledger::Shape;
use crate::records::{Record, Records};
use crate::sniff::{Dialect, read_header};
use kbench_workload::{ArgDims, DtypeTag, Dtypes, Family, OpArg, OpCall, ShapeMap, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// Most tensors whose dims a generic shape lists.
const MAX_LISTED: usize = 32;

/// What an operator row tells about the shape of its kernels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    /// A family knows the operator.
    Family(Family, Shape),
    /// No family does: the dims of its arguments by position.
    Arguments(Shape),
    /// No arguments, or impossible ones.
    Nothing,
}

/// One operator row.
#[derive(Clone, Debug)]
pub(crate) struct OpRow {
    pub(crate) op: String,
    pub(crate) found: Found,
    pub(crate) calls: u64,
    /// Busy time of its kernels, when the sheet says.
    pub(crate) busy_ns: Option<u64>,
    pub(crate) kernels: Vec<KernelUse>,
    pub(crate) line: u64,
    /// Kernels of a replayed graph: the operator is the graph launch, not what computed.
    pub(crate) is_graph: bool,
}

/// Derived parameters by the cells that identify an operator row.
pub(crate) type ParamsByRow = BTreeMap<[String; 5], BTreeMap<String, Value>>;

/// Columns of an operator sheet.
struct Columns {
    op: usize,
    dims: Option<usize>,
    types: Option<usize>,
    strides: Option<usize>,
    concrete: Option<usize>,
    calls: Option<usize>,
    busy_sum: Option<usize>,
    busy_mean: Option<usize>,
    kernels: Option<usize>,
    params: Option<usize>,
    param_columns: Vec<(String, usize)>,
}

impl Columns {
    fn new(header: &Header, path: &Path, dialect: Dialect) -> Result<Self, ReadError> {
        let param_columns = (0..header.len())
            .filter_map(|index| header.name(index).strip_prefix("param: ").map(|name| (name.to_owned(), index)))
            .collect();
        Ok(Self {
            op: header.need("name", path, dialect)?,
            dims: header.first_of(&["input dims", "input dims_first"]),
            types: header.first_of(&["input type", "input type_first"]),
            strides: header.first_of(&["input strides", "input strides_first"]),
            concrete: header.first_of(&["concrete inputs", "concrete inputs_first"]),
            calls: header.first_of(&["operation_count", "name_count"]),
            busy_sum: header.first_of(&["kernel time (us)_sum", "total_direct_kernel_time_sum"]),
            busy_mean: header.first_of(&["kernel time (us)_mean", "total_direct_kernel_time_mean"]),
            kernels: header.first_of(&["kernel_details_summary", "kernel_details__summarize_kernel_stats"]),
            params: header.find("perf_params"),
            param_columns,
        })
    }
}

/// Reads an operator sheet row by row. `known` adds parameters that another sheet of the same report derived.
pub(crate) fn read(
    path: &Path,
    dialect: Dialect,
    known: &mut ParamsByRow,
    health: &mut Health,
    mut row: impl FnMut(OpRow),
) -> Result<(), ReadError> {
    let mut records = Records::open(path)?;
    let header = read_header(&mut records)?;
    let columns = Columns::new(&header, path, dialect)?;
    while let Some(record) = records.next()? {
        let line = record.line;
        if record.len() != header.len() || record.bytes(columns.op).is_empty() {
            health.count(Issue::BadRows, || {
                format!("{}:{line}: {} cells under {} columns", path.display(), record.len(), header.len())
            });
            continue;
        }
        if let Some(op_row) = read_row(path, record, &columns, known, health) {
            row(op_row);
        }
    }
    Ok(())
}

fn read_row(
    path: &Path,
    record: Record<'_>,
    columns: &Columns,
    known: &mut ParamsByRow,
    health: &mut Health,
) -> Option<OpRow> {
    let line = record.line;
    let at = |reason: String| format!("{}:{line}: {reason}", path.display());
    let text = |column: Option<usize>| column.map(|index| record.text(index)).unwrap_or_default();
    let op = record.text(columns.op).into_owned();
    let calls = columns.calls.and_then(|index| count(record.bytes(index))).unwrap_or(1);
    let number = |column: Option<usize>| column.and_then(|index| real(record.bytes(index)));
    let busy_ns = number(columns.busy_sum)
        .or_else(|| number(columns.busy_mean).map(|mean| mean * calls as f64))
        .and_then(us_to_ns);
    let kernels = cells::kernels(&text(columns.kernels)).unwrap_or_else(|reason| {
        health.count(Issue::BadKernelLists, || at(reason));
        Vec::new()
    });
    if kernels.is_empty() && busy_ns.unwrap_or(0) == 0 {
        // An operator that launched nothing.
        return None;
    }
    let is_graph = op.starts_with("hipGraphLaunch") || op.starts_with("cudaGraphLaunch");
    let identity =
        [columns.dims, columns.types, columns.strides, columns.concrete].map(|column| text(column).into_owned());
    let params = derived(record, columns, &op, &identity, known);
    let found = params
        .and_then(|params| Ok((cells::arguments(&identity[0], &identity[1], &identity[2], &identity[3])?, params)))
        .and_then(|(args, params)| {
            let kernels = kernels.iter().map(|kernel| kernel.name.clone()).collect();
            find(OpCall { name: op.clone(), args, params, kernels })
        })
        .unwrap_or_else(|reason| {
            health.count(Issue::ShapeErrors, || at(format!("{op}: {reason}")));
            Found::Nothing
        });
    let found = if is_graph { Found::Nothing } else { found };
    Some(OpRow { op, found, calls, busy_ns, kernels, line, is_graph })
}

/// Parameters that the report derived: the row's own, else those that another sheet has for the same call.
fn derived(
    record: Record<'_>,
    columns: &Columns,
    op: &str,
    identity: &[String; 4],
    known: &mut ParamsByRow,
) -> Result<BTreeMap<String, Value>, String> {
    let mut params = match columns.params {
        Some(index) => cells::parameters(&record.text(index))?,
        None => BTreeMap::new(),
    };
    for (name, index) in &columns.param_columns {
        if let Some(value) = cells::parameter(&record.text(*index)) {
            params.insert(name.clone(), value);
        }
    }
    if identity[0].is_empty() {
        return Ok(params);
    }
    let [dims, types, strides, concrete] = identity.clone();
    let key = [op.to_owned(), dims, types, strides, concrete];
    if params.is_empty() {
        return Ok(known.get(&key).cloned().unwrap_or_default());
    }
    known.insert(key, params.clone());
    Ok(params)
}

/// What the call says about shapes.
pub(crate) fn find(call: OpCall) -> Result<Found, String> {
    match kbench_workload::recover(&call) {
        Some(Ok(recovered)) => Ok(Found::Family(
            recovered.family,
            Shape {
                shape: recovered.shape,
                dtypes: recovered.dtypes,
                provenance: Provenance::Exact,
                assumed: recovered.assumed,
            },
        )),
        Some(Err(error)) => Err(error.to_string()),
        None => Ok(match generic(&call.args) {
            Some(shape) => Found::Arguments(shape),
            None => Found::Nothing,
        }),
    }
}

/// True when kernel `index` of a call's kernels takes the shape that was found. The shape of a family goes to the kernels of that family,
/// companions (a memset before, a reduction behind) get none; without one of that family, to the only kernel, or the only one of which the
/// name says nothing. A generic shape goes to all.
pub(crate) fn is_carrier(found: &Found, families: &[Family], index: usize) -> bool {
    match found {
        Found::Nothing => false,
        Found::Arguments(_) => true,
        Found::Family(family, _) => {
            let count_of = |wanted: Family| families.iter().filter(|found| **found == wanted).count();
            match (count_of(*family), count_of(Family::Other)) {
                (0, 1) => families[index] == Family::Other,
                (0, _) => families.len() == 1,
                _ => families[index] == *family,
            }
        }
    }
}

/// The dims of all tensor arguments: `in0=[16,559,1024],in1=[16,559,1]`, those of a list as `in0_0`, `in0_1`; dtypes by the same roles.
fn generic(args: &[OpArg]) -> Option<Shape> {
    let mut shape = ShapeMap::new();
    let mut dtypes = Dtypes::default();
    let mut left_out = 0;
    let mut listed = 0;
    let mut put = |shape: &mut ShapeMap, dtypes: &mut Dtypes, role: String, dims: &[u64], dtype: &str| {
        if listed == MAX_LISTED {
            left_out += 1;
            return;
        }
        listed += 1;
        *shape = std::mem::take(shape).with_list(&role, dims.to_vec());
        if let Ok(tag) = dtype.parse::<DtypeTag>() {
            *dtypes = std::mem::take(dtypes).with(&role, tag);
        }
    };
    for (index, arg) in args.iter().enumerate() {
        match &arg.dims {
            ArgDims::None => {}
            ArgDims::Tensor(dims) => put(&mut shape, &mut dtypes, format!("in{index}"), dims, &arg.dtype),
            ArgDims::List(tensors) => {
                for (place, dims) in tensors.iter().enumerate() {
                    put(&mut shape, &mut dtypes, format!("in{index}_{place}"), dims, &arg.dtype);
                }
            }
        }
    }
    let assumed = if left_out > 0 { vec![format!("{left_out} more tensors are not listed")] } else { Vec::new() };
    (!shape.is_empty()).then_some(Shape { shape, dtypes, provenance: Provenance::Exact, assumed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generic_shape_lists_tensors_by_position() {
        let args =
            cells::arguments("((16, 559, 1), (), ((4,), (5, 6)))", "('c10::BFloat16', 'Scalar', 'TensorList')", "", "");
        let shape = generic(&args.unwrap()).unwrap();
        assert_eq!(shape.shape.to_string(), "in0=[16,559,1],in2_0=[4],in2_1=[5,6]");
        assert_eq!(shape.dtypes.to_string(), "in0=bf16");
        assert_eq!(generic(&[OpArg::default()]), None);
    }

    #[test]
    fn long_tensor_lists_are_cut_and_say_so() {
        let args = [OpArg { dims: ArgDims::List(vec![vec![8]; 500]), ..OpArg::default() }];
        let shape = generic(&args).unwrap();
        assert_eq!(shape.shape.iter().count(), MAX_LISTED);
        assert_eq!(shape.assumed, ["468 more tensors are not listed"]);
    }
}
