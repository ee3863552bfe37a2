//! Shapes from operator calls: vLLM's, SGLang's and aiter's gated activations, and PyTorch's plain ones.

use super::{FLOATS, Kind};
use crate::families::args::{
    agree, derived_dims, derived_dtype, dtype, elements, local_name, rows_and_width, tensor, unclear,
};
use crate::{DtypeTag, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap};

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let local = local_name(op);
    let gated = |kind, quantised| Some(recover_gated(op, kind, quantised));
    match local {
        "silu" | "silu_" if op.base_name().starts_with("aten::") => Some(recover_plain(op, Kind::Silu)),
        "gelu" | "gelu_" if op.base_name().starts_with("aten::") => Some(recover_plain(op, gelu_kind(op))),
        "silu_and_mul" => gated(Kind::Silu, false),
        "gelu_and_mul" => gated(Kind::Gelu, false),
        "gelu_tanh_and_mul" => gated(Kind::GeluTanh, false),
        "act_and_mul" => Some(kind_from_kernels(op).and_then(|kind| recover_gated(op, kind, false))),
        "silu_and_mul_per_block_quant" => gated(Kind::Silu, true),
        "silu_and_mul_quant" | "scaled_silu_and_mul" => {
            Some(Err(unclear(op, "call", local, "no case can be made of it: it quantises with a given scale")))
        }
        _ => None,
    }
}

/// `aten::gelu(x, approximate='none'|'tanh')`.
fn gelu_kind(op: &OpCall) -> Kind {
    match op.args.get(1) {
        Some(arg) if arg.concrete.contains("tanh") => Kind::GeluTanh,
        _ => Kind::Gelu,
    }
}

/// The function of an operator that does not name it, from the kernels it launched.
fn kind_from_kernels(op: &OpCall) -> Result<Kind, ShapeError> {
    let names = op.kernels.join(" ");
    match () {
        () if names.contains("silu") => Ok(Kind::Silu),
        () if names.contains("gelu_tanh") => Ok(Kind::GeluTanh),
        () if names.contains("gelu") => Ok(Kind::Gelu),
        () => Err(unclear(op, "call", "no kernel that names it", "which activation it is, is not recorded")),
    }
}

/// (out, x), or x alone: x is twice as wide as what comes out.
fn recover_gated(op: &OpCall, kind: Kind, quantised: bool) -> Result<Recovered, ShapeError> {
    let x_index = usize::from(op.tensor(1).is_some());
    let (rows, width) = rows_and_width(op, "input", tensor(op, x_index, "input")?)?;
    if width % 2 == 1 {
        return Err(unclear(op, "input", width, "a gated activation's input has an even width, gate and up"));
    }
    let hidden = width / 2;
    let x = float_dtype(op, dtype(op, x_index, "input")?)?;
    let mut dtypes = Dtypes::uniform(x);
    let mut shape = ShapeMap::new().with("rows", rows).with("hidden", hidden);
    shape = shape.with_word("kind", kind.name()).with_flag("mul", true);
    if x_index == 1 {
        let out_dims = tensor(op, 0, "output")?;
        if rows_and_width(op, "output", out_dims)? != (rows, hidden) {
            return Err(unclear(
                op,
                "output",
                format!("{out_dims:?}"),
                format!("{rows} rows of {hidden} are expected"),
            ));
        }
        let out = dtype(op, 0, "output")?;
        if out != x {
            dtypes = dtypes.with("out", out);
        }
    }
    if quantised {
        let dims = tensor(op, 2, "scales")?;
        let groups = elements(op, "scales", dims)? / rows;
        if groups == 0 || !hidden.is_multiple_of(groups) {
            return Err(unclear(
                op,
                "scales",
                format!("{dims:?}"),
                format!("{rows} rows of {hidden} cannot share them"),
            ));
        }
        shape = match groups {
            1 => shape.with_word("quant", "per_token"),
            _ => shape.with_word("quant", "group").with("group", hidden / groups),
        };
    }
    Ok(Recovered { family: Family::Activation, shape, dtypes, assumed: Vec::new() })
}

/// One input, one output of the same dims and dtype.
fn recover_plain(op: &OpCall, kind: Kind) -> Result<Recovered, ShapeError> {
    let derived = derived_dims(op, "op_shape");
    let (dims, x) = match op.tensor(0) {
        Some(dims) => (dims.to_vec(), dtype(op, 0, "input")?),
        None => match derived.clone() {
            Some(dims) => (dims, derived_dtype(op, "dtype_in_out", 0)?),
            None => return Err(unclear(op, "call", "no arguments", "neither arguments nor `op_shape` give its size")),
        },
    };
    let (rows, hidden) = rows_and_width(op, "input", &dims)?;
    if let Some(derived) = derived.filter(|derived| *derived != dims) {
        return Err(unclear(op, "op_shape", format!("{derived:?}"), format!("the arguments say {dims:?}")));
    }
    agree(op, "num_channels", hidden)?;
    let shape = ShapeMap::new().with("rows", rows).with("hidden", hidden).with_word("kind", kind.name());
    Ok(Recovered {
        family: Family::Activation,
        shape: shape.with_flag("mul", false),
        dtypes: Dtypes::uniform(float_dtype(op, x)?),
        assumed: Vec::new(),
    })
}

fn float_dtype(op: &OpCall, x: DtypeTag) -> Result<DtypeTag, ShapeError> {
    match x {
        DtypeTag::Exact(dtype) if FLOATS.contains(&dtype) => Ok(x),
        other => Err(ShapeError::dtype(other, format!("is not what {} takes: bf16, f16 or f32", op.base_name()))),
    }
}
