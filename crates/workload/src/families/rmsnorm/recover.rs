//! Shapes from operator calls: aiter, vLLM, SGLang and PyTorch names.

use super::FLOATS;
use crate::families::args::{
    agree, derived_dims, derived_dtype, dtype, elements, local_name, number, rows_and_width, tensor, unclear,
};
use crate::{DtypeTag, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap};

/// Where an operator has its arguments.
struct Signature {
    out: Option<usize>,
    x: usize,
    residual: Residual,
    /// Scales that the call writes.
    scale: Option<usize>,
    weight: usize,
    quantised: bool,
}

/// Whether an operator adds the residual stream.
enum Residual {
    No,
    Yes,
    /// When this optional argument is a tensor.
    If(usize),
}

/// Signatures from the operator schemas of aiter (`aiter/ops/rmsnorm.py`), vLLM (`csrc/torch_bindings.cpp`), SGLang and PyTorch.
fn signature(op: &OpCall) -> Option<Signature> {
    use Residual::{If, No, Yes};
    let name = op.base_name();
    let local = local_name(op);
    let local = ["_ck", "_cu", "_opus"].iter().find_map(|tail| local.strip_suffix(tail)).unwrap_or(local);
    let plain = |out, x, residual, weight| Some(Signature { out, x, residual, scale: None, weight, quantised: false });
    let quantised =
        |out, x, residual, scale, weight| Some(Signature { out, x, residual, scale, weight, quantised: true });
    match local {
        "rms_norm" | "_fused_rms_norm" if name.starts_with("aten::") => plain(None, 0, No, 2),
        "rms_norm" | "rmsnorm2d_fwd" | "rmsnorm" | "rocm_aiter_rms_norm" | "rocm_aiter_rmsnorm2d_fwd" => {
            // With an output argument first in vLLM's, SGLang's and some of aiter's.
            match op.tensor(2) {
                Some(dims) if dims.len() == 1 => plain(Some(0), 1, No, 2),
                _ => plain(None, 0, No, 1),
            }
        }
        "fused_add_rms_norm" | "fused_add_rmsnorm" => plain(None, 0, Yes, 2),
        "rocm_aiter_rmsnorm2d_fwd_with_add" | "rocm_aiter_rmsnorm_fused_add" => plain(None, 0, Yes, 2),
        "rmsnorm2d_fwd_with_add" | "add_rmsnorm" => plain(Some(0), 1, Yes, 4),
        "rmsnorm2d_fwd_with_dynamicquant" | "rmsnorm_quant" => quantised(Some(0), 1, No, Some(2), 3),
        "rmsnorm2d_fwd_with_add_dynamicquant" | "add_rmsnorm_quant" => quantised(Some(0), 1, Yes, Some(4), 5),
        "rms_norm_dynamic_per_token_quant" | "rms_norm_per_block_quant" => quantised(Some(0), 1, If(6), Some(3), 2),
        "rocm_aiter_rmsnorm_fp8_group_quant" => quantised(None, 0, No, None, 1),
        "rocm_aiter_rmsnorm_with_add_fp8_group_quant" => quantised(None, 0, Yes, None, 2),
        // (inp1, weight, eps, inp2, weight2, eps2, group_size, dtype_quant, residual)
        "fused_rms_fp8_group_quant" => quantised(None, 0, If(8), None, 1),
        _ => None,
    }
}

/// RMS norms that are known but compute something this family does not.
const OTHERS: &[(&str, &str)] = &[
    ("smoothquant", "it scales the input by a given vector before quantisation"),
    ("static_fp8_quant", "it quantises with a given scale"),
];

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let local = local_name(op);
    if let Some((_, why)) = OTHERS.iter().find(|(part, _)| local.contains("rms") && local.contains(part)) {
        return Some(Err(unclear(op, "call", local, format!("no case can be made of it: {why}"))));
    }
    let signature = signature(op)?;
    if local == "fused_rms_fp8_group_quant" && op.tensor(3).is_some() {
        return Some(Err(unclear(op, "call", local, "no case can be made of it: it norms a second tensor")));
    }
    Some(if op.args.iter().any(|arg| arg.tensor().is_some()) {
        from_args(op, &signature)
    } else {
        from_params(op, &signature)
    })
}

fn from_args(op: &OpCall, signature: &Signature) -> Result<Recovered, ShapeError> {
    let mut assumed = Vec::new();
    let dims = tensor(op, signature.x, "input")?;
    // PyTorch norms over `normalized_shape`, the input's last dims together; the others over the last dim.
    let weight_dims = op.tensor(signature.weight).unwrap_or_default();
    let (rows, hidden) = match normalized_shape(op) {
        Some(normalized) => rows_and_normalized(op, dims, &normalized)?,
        None => rows_and_width(op, "input", dims)?,
    };
    if !weight_dims.is_empty() && elements(op, "weight", weight_dims)? != hidden {
        return Err(unclear(
            op,
            "weight",
            format!("{weight_dims:?}"),
            format!("the input's rows have {hidden} elements"),
        ));
    }
    if weight_dims.is_empty() {
        assumed.push("the call has no weight; the case multiplies by one".to_owned());
    }
    agree_with_params(op, rows, hidden)?;

    let x = dtype(op, signature.x, "input")?;
    let mut dtypes = Dtypes::uniform(x);
    if !weight_dims.is_empty() {
        let weight = dtype(op, signature.weight, "weight")?;
        if weight != x {
            dtypes = dtypes.with("weight", weight);
        }
    }
    let mut shape = ShapeMap::new().with("rows", rows).with("hidden", hidden);
    let add = match signature.residual {
        Residual::No => false,
        Residual::Yes => true,
        Residual::If(index) => op.tensor(index).is_some(),
    };
    shape = shape.with_flag("add", add);
    if signature.quantised {
        (shape, dtypes) = quantised(op, signature, shape, dtypes, rows, hidden, &mut assumed)?;
    }
    // The output of a plain norm has x's dtype in every operator of the table.
    match (signature.weight..op.args.len()).filter_map(|index| number(op, index)).find(|eps| is_eps(*eps)) {
        Some(eps) => shape = shape.with_word("eps", &format!("{eps:e}")),
        None => assumed.push("eps is 1e-6: the call's is not recorded".to_owned()),
    }
    check_float(op, x)?;
    Ok(Recovered { family: Family::Rmsnorm, shape, dtypes, assumed })
}

/// The `normalized_shape` of PyTorch's norms, `[32, 32]`.
fn normalized_shape(op: &OpCall) -> Option<Vec<u64>> {
    if !op.base_name().starts_with("aten::") {
        return None;
    }
    let text = op.args.get(1)?.concrete.trim().strip_prefix('[')?.strip_suffix(']')?;
    text.split(',').map(|size| size.trim().parse().ok()).collect()
}

/// Rows and their elements when the last dims are normed together.
fn rows_and_normalized(op: &OpCall, dims: &[u64], normalized: &[u64]) -> Result<(u64, u64), ShapeError> {
    let Some(leading) = dims.strip_suffix(normalized) else {
        let reason = format!("the input's dims are {dims:?}, which do not end so");
        return Err(unclear(op, "normalized_shape", format!("{normalized:?}"), reason));
    };
    let hidden = elements(op, "normalized_shape", normalized)?;
    let rows = elements(op, "input", leading)?;
    if rows == 0 || hidden == 0 {
        return Err(unclear(op, "input", format!("{dims:?}"), "is empty: nothing to compute"));
    }
    Ok((rows, hidden))
}

/// Epsilons in use lie between 1e-12 and 1e-3; what else is a number is a group size or a flag.
fn is_eps(number: f64) -> bool {
    (1e-15..0.01).contains(&number)
}

fn quantised(
    op: &OpCall,
    signature: &Signature,
    shape: ShapeMap,
    mut dtypes: Dtypes,
    rows: u64,
    hidden: u64,
    assumed: &mut Vec<String>,
) -> Result<(ShapeMap, Dtypes), ShapeError> {
    match signature.out {
        Some(out) => dtypes = dtypes.with("out", dtype(op, out, "output")?),
        None => {
            dtypes = dtypes.with("out", DtypeTag::Fp8);
            assumed.push("out is e4m3 in the device's flavour: the call does not record its output".to_owned());
        }
    }
    let Some(scale) = signature.scale else {
        let group = op.args.iter().enumerate().skip(signature.weight).filter_map(|(index, _)| number(op, index));
        let group = group.map(|number| number as u64).find(|group| *group >= 16 && hidden.is_multiple_of(*group));
        if group.is_none() {
            assumed.push("group is 128: the call does not record its scales".to_owned());
        }
        return Ok((shape.with_word("quant", "group").with("group", group.unwrap_or(128)), dtypes));
    };
    let dims = tensor(op, scale, "scales")?;
    let scales = elements(op, "scales", dims)?;
    if scales == rows {
        return Ok((shape.with_word("quant", "per_token"), dtypes));
    }
    let groups = scales / rows;
    if scales == 0 || !scales.is_multiple_of(rows) || !hidden.is_multiple_of(groups) {
        let reason = format!("{rows} rows of {hidden} elements cannot share that many scales evenly");
        return Err(unclear(op, "scales", format!("{dims:?}"), reason));
    }
    Ok((shape.with_word("quant", "group").with("group", hidden / groups), dtypes))
}

/// A report's derived parameters alone: they tell the size, and the name tells the rest.
fn from_params(op: &OpCall, signature: &Signature) -> Result<Recovered, ShapeError> {
    let dims = derived_dims(op, "op_shape")
        .ok_or_else(|| unclear(op, "call", "no arguments", "neither arguments nor `op_shape` give its size"))?;
    if signature.quantised || matches!(signature.residual, Residual::If(_)) {
        return Err(unclear(op, "call", "no arguments", "its quantisation is told by its arguments only"));
    }
    let (rows, hidden) = rows_and_width(op, "op_shape", &dims)?;
    if let Some(channels) = op.size("num_channels").filter(|channels| *channels != hidden) {
        return Err(unclear(op, "num_channels", channels, format!("op_shape {dims:?} says {hidden}")));
    }
    let x = derived_dtype(op, "dtype_in_out", 0)?;
    check_float(op, x)?;
    let shape = ShapeMap::new().with("rows", rows).with("hidden", hidden);
    Ok(Recovered {
        family: Family::Rmsnorm,
        shape: shape.with_flag("add", matches!(signature.residual, Residual::Yes)),
        dtypes: Dtypes::uniform(x),
        assumed: vec![
            "eps is 1e-6: the report does not give it".to_owned(),
            "the weight has the input's dtype: the report does not give it".to_owned(),
        ],
    })
}

fn agree_with_params(op: &OpCall, rows: u64, hidden: u64) -> Result<(), ShapeError> {
    agree(op, "num_channels", hidden)?;
    let Some(dims) = derived_dims(op, "op_shape") else { return Ok(()) };
    // `op_shape` is the input's: a row may be more than its last dim.
    let (outer, width) = rows_and_width(op, "op_shape", &dims)?;
    let is_same_size = outer.checked_mul(width) == rows.checked_mul(hidden);
    if is_same_size && hidden.is_multiple_of(width) {
        return Ok(());
    }
    Err(unclear(op, "op_shape", format!("{dims:?}"), format!("the arguments say {rows} rows of {hidden} elements")))
}

fn check_float(op: &OpCall, x: DtypeTag) -> Result<(), ShapeError> {
    match x {
        DtypeTag::Exact(dtype) if FLOATS.contains(&dtype) => Ok(()),
        other => Err(ShapeError::dtype(other, format!("is not what {} norms: bf16, f16 or f32", op.base_name()))),
    }
}
