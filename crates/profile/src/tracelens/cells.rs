//! List cells of operator sheets: arguments, derived parameters, kernels.

use crate::header::us_to_ns;
use crate::pyrepr;
use kbench_workload::{ArgDims, OpArg, Value};
use std::collections::BTreeMap;

/// Kernels of one operator row: name, launches, time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KernelUse {
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) total_ns: u64,
}

/// A cell as a value; an empty one is nothing.
fn value(cell: &str, what: &str) -> Result<Value, String> {
    match cell.trim() {
        "" => Ok(Value::None),
        text => pyrepr::parse(text).map_err(|error| format!("{what}: {error}")),
    }
}

/// Elements of a tuple cell; none when the cell is empty.
fn elements(cell: &str, what: &str) -> Result<Vec<Value>, String> {
    match value(cell, what)? {
        Value::None => Ok(Vec::new()),
        Value::List(items) => Ok(items),
        _ => Err(format!("{what}: a tuple with one entry an argument is needed")),
    }
}

/// Arguments from the cells `Input Dims`, `Input type`, `Input Strides`, `Concrete Inputs`.
pub(crate) fn arguments(dims: &str, types: &str, strides: &str, concrete: &str) -> Result<Vec<OpArg>, String> {
    let dims = elements(dims, "Input Dims")?;
    let types = elements(types, "Input type")?;
    let strides = elements(strides, "Input Strides")?;
    let concrete = elements(concrete, "Concrete Inputs")?;
    let count = [dims.len(), types.len(), strides.len(), concrete.len()].into_iter().max().unwrap_or(0);
    let mut arguments = vec![OpArg::default(); count];
    for (argument, value) in arguments.iter_mut().zip(&dims) {
        argument.dims = arg_dims(value)?;
    }
    for (argument, value) in arguments.iter_mut().zip(types) {
        argument.dtype = plain(value);
    }
    for (argument, value) in arguments.iter_mut().zip(&strides) {
        argument.strides = value.as_list().unwrap_or_default().iter().filter_map(stride).collect();
    }
    for (argument, value) in arguments.iter_mut().zip(concrete) {
        argument.concrete = plain(value);
    }
    Ok(arguments)
}

fn stride(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => i64::try_from(*number).ok(),
        _ => None,
    }
}

/// `(8944, 1024)` is a tensor, `()` none, `((1, 2), (3,))` a list of tensors.
fn arg_dims(value: &Value) -> Result<ArgDims, String> {
    let tensor = |items: &[Value]| -> Result<Vec<u64>, String> {
        let sizes = items.iter().map(|item| match item {
            Value::Int(_) | Value::Float(_) => item.as_size(),
            _ => None,
        });
        sizes.collect::<Option<_>>().ok_or_else(|| "Input Dims: dims must be whole numbers of 0 or more".to_owned())
    };
    match value {
        Value::None => Ok(ArgDims::None),
        Value::List(items) if items.is_empty() => Ok(ArgDims::None),
        Value::List(items) if items.iter().any(|item| matches!(item, Value::List(_))) => {
            let lists = items.iter().map(|item| match item {
                Value::List(dims) => tensor(dims),
                Value::None => Ok(Vec::new()),
                _ => Err("Input Dims: a list of tensors holds something else".to_owned()),
            });
            Ok(ArgDims::List(lists.collect::<Result<_, _>>()?))
        }
        Value::List(items) => Ok(ArgDims::Tensor(tensor(items)?)),
        _ => Err("Input Dims: an argument needs a tuple of dims".to_owned()),
    }
}

/// A value as the text that a trace would hold for it.
fn plain(value: Value) -> String {
    match value {
        Value::None => String::new(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => text,
        Value::List(items) => format!("[{}]", items.into_iter().map(plain).collect::<Vec<_>>().join(", ")),
        Value::Map(_) => String::new(),
    }
}

/// Parameters of the cell `perf_params`.
pub(crate) fn parameters(cell: &str) -> Result<BTreeMap<String, Value>, String> {
    match value(cell, "perf_params")? {
        Value::Map(pairs) => Ok(pairs.into_iter().filter(|(_, value)| *value != Value::None).collect()),
        Value::None => Ok(BTreeMap::new()),
        _ => Err("perf_params: a dict is needed".to_owned()),
    }
}

/// The value of a `param: X` column: a Python value, or bare text such as `c10::BFloat16`.
pub(crate) fn parameter(cell: &str) -> Option<Value> {
    match cell.trim() {
        "" => None,
        text => Some(pyrepr::parse(text).unwrap_or_else(|_| Value::Text(text.to_owned())))
            .filter(|value| *value != Value::None),
    }
}

/// Kernels of a `kernel_details_summary` cell; none when it is empty.
pub(crate) fn kernels(cell: &str) -> Result<Vec<KernelUse>, String> {
    const WHAT: &str = "kernel_details_summary";
    let kernel = |entry: Value| -> Result<KernelUse, String> {
        let Value::Map(pairs) = entry else { return Err(format!("{WHAT}: a list of dicts is needed")) };
        let find = |key: &str| pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value);
        let us = |key: &str| match find(key) {
            Some(Value::Float(number)) => Some(*number),
            Some(Value::Int(number)) => Some(*number as f64),
            _ => None,
        };
        let name = find("name").and_then(Value::as_text).ok_or_else(|| format!("{WHAT}: an entry without `name`"))?;
        let calls = find("count").and_then(Value::as_size).unwrap_or(1);
        let total = us("total_duration_us").or_else(|| us("mean_duration_us").map(|mean| mean * calls as f64));
        let total_ns = total.and_then(us_to_ns).ok_or_else(|| format!("{WHAT}: `{name}` without a time"))?;
        Ok(KernelUse { name: name.to_owned(), calls, total_ns })
    };
    elements(cell, WHAT)?.into_iter().map(kernel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_a_real_row() {
        // aten::cat of shared data mi300_qwen15/unified_perf_summary, and its GEMM sheet form with lists.
        let arguments = arguments(
            "(((16, 16, 559, 32), (16, 16, 559, 32)), ())",
            "('TensorList', 'Scalar')",
            "(((572416, 35776, 64, 1), (572416, 35776, 64, 1)), ())",
            "('', '-1')",
        )
        .unwrap();
        assert_eq!(arguments[0].dims, ArgDims::List(vec![vec![16, 16, 559, 32]; 2]));
        assert_eq!((arguments[1].tensor(), arguments[1].dtype.as_str()), (None, "Scalar"));
        assert_eq!(arguments[1].concrete, "-1");
        let gemm = super::arguments(
            "[[8944, 1024], [1024, 2816]]",
            "['c10::BFloat16', 'c10::BFloat16']",
            "[[1024, 1], [1, 1024]]",
            "",
        )
        .unwrap();
        assert_eq!(gemm[1].tensor(), Some(&[1024, 2816][..]));
        assert_eq!(gemm[1].strides, [1, 1024]);
        assert_eq!(gemm[0].dtype, "c10::BFloat16");
    }

    #[test]
    fn one_tuples_and_empty_cells() {
        assert_eq!(arguments("((33,), (0,))", "", "", "").unwrap()[1].tensor(), Some(&[0][..]));
        assert_eq!(arguments("", "", "", "").unwrap(), []);
        for bad in ["(8, 2)", "((-1,),)", "((1, (2,)),)", "((1, 2)", "{'a': 1}", "(('x',),)"] {
            assert!(arguments(bad, "", "", "").is_err(), "{bad}");
        }
    }

    #[test]
    fn kernels_with_either_numpy() {
        let cell = "[{'name': 'k', 'stream': 0, 'count': 48, 'total_duration_us': np.float64(5308.273)}, \
                    {'name': \"f('a')\", 'count': 2, 'mean_duration_us': 1.5}]";
        let expected = [("k", 48, 5_308_273), ("f('a')", 2, 3_000)];
        let expected: Vec<KernelUse> = expected
            .into_iter()
            .map(|(name, calls, total_ns)| KernelUse { name: name.into(), calls, total_ns })
            .collect();
        assert_eq!(kernels(cell), Ok(expected));
        for bad in ["[1]", "[{'count': 1}]", "[{'name': 'k'}]", "[{'name': 'k', 'total_duration_us': -1.0}]", "["] {
            assert!(kernels(bad).is_err(), "{bad}");
        }
        assert_eq!(kernels(""), Ok(vec![]));
    }
}
