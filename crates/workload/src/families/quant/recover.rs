//! Shapes from operator calls: the dynamic quantisations of aiter, vLLM and SGLang.

use super::FLOATS;
use crate::families::args::{dtype, elements, local_name, rows_and_width, tensor, unclear};
use crate::{Dtype, DtypeTag, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap};

/// Where an operator has its arguments; scales are always the third.
struct Signature {
    x: usize,
    out: usize,
    /// An optional tensor that makes it another computation, and what that is.
    forbidden: Option<(usize, &'static str)>,
}

/// From the operator schemas of aiter (`aiter/ops/quant.py`), vLLM (`csrc/torch_bindings.cpp`) and SGLang (`sgl-kernel`).
fn signature(local: &str) -> Option<Signature> {
    let out_first = |forbidden| Some(Signature { x: 1, out: 0, forbidden });
    match local {
        "dynamic_per_token_scaled_quant" | "dynamic_per_token_scaled_fp8_quant" => {
            out_first(Some((3, "it bounds the scales by a given one")))
        }
        "dynamic_scaled_int8_quant" => out_first(Some((3, "it is asymmetric, with zero points"))),
        "dynamic_per_group_scaled_quant" => out_first(None),
        "per_token_group_fp8_quant"
        | "per_token_group_quant_fp8"
        | "per_token_group_quant_int8"
        | "sgl_per_token_group_quant_fp8"
        | "sgl_per_token_group_quant_int8"
        | "sgl_per_token_group_quant_8bit"
        | "sgl_per_token_quant_fp8" => Some(Signature { x: 0, out: 1, forbidden: None }),
        _ => None,
    }
}

/// Quantisations that are known but compute something this family does not.
const OTHERS: &[(&str, &str)] = &[
    ("static_per_tensor_quant", "it quantises with a given scale"),
    ("static_scaled_fp8_quant", "it quantises with a given scale"),
    ("static_scaled_int8_quant", "it quantises with a given scale"),
    ("dynamic_per_tensor_quant", "it has one scale for the whole tensor"),
    ("dynamic_scaled_fp8_quant", "it has one scale for the whole tensor"),
    ("sgl_per_tensor_quant_fp8", "it has one scale for the whole tensor"),
    ("dynamic_per_group_scaled_quant_fp4", "it writes fp4 with power-of-two scales"),
    ("per_token_group_quant_mxfp4", "it writes fp4 with power-of-two scales"),
    ("per_token_group_fp8_quant_packed", "it packs power-of-two scales"),
];

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let local = local_name(op);
    if let Some((_, why)) = OTHERS.iter().find(|(name, _)| *name == local) {
        return Some(Err(unclear(op, "call", local, format!("no case can be made of it: {why}"))));
    }
    signature(local).map(|signature| from_args(op, &signature))
}

fn from_args(op: &OpCall, signature: &Signature) -> Result<Recovered, ShapeError> {
    if let Some((index, why)) = signature.forbidden
        && op.tensor(index).is_some()
    {
        return Err(unclear(op, "call", format!("argument {index}"), format!("no case can be made of it: {why}")));
    }
    let (rows, hidden) = rows_and_width(op, "input", tensor(op, signature.x, "input")?)?;
    let x = dtype(op, signature.x, "input")?;
    if !matches!(x, DtypeTag::Exact(x) if FLOATS.contains(&x)) {
        return Err(ShapeError::dtype(x, format!("is not what {} quantises: bf16, f16 or f32", op.base_name())));
    }
    let out_dims = tensor(op, signature.out, "output")?;
    if elements(op, "output", out_dims)? != elements(op, "input", &[rows, hidden])? {
        return Err(unclear(op, "output", format!("{out_dims:?}"), format!("{rows} rows of {hidden} are expected")));
    }
    let out = dtype(op, signature.out, "output")?;
    let scale = dtype(op, 2, "scales")?;
    if scale != DtypeTag::Exact(Dtype::F32) {
        return Err(ShapeError::dtype(scale, format!("of the scales of {}: this family has f32 ones", op.base_name())));
    }
    let dims = tensor(op, 2, "scales")?;
    let scales = elements(op, "scales", dims)?;
    let groups = scales / rows;
    if scales == 0 || !scales.is_multiple_of(rows) || !hidden.is_multiple_of(groups) {
        let reason = format!("{rows} rows of {hidden} elements cannot share that many scales evenly");
        return Err(unclear(op, "scales", format!("{dims:?}"), reason));
    }
    let shape = ShapeMap::new().with("rows", rows).with("hidden", hidden);
    let shape = match groups {
        1 => shape.with_word("quant", "per_token"),
        _ => shape.with_word("quant", "group").with("group", hidden / groups),
    };
    Ok(Recovered { family: Family::Quant, shape, dtypes: Dtypes::uniform(x).with("out", out), assumed: Vec::new() })
}
