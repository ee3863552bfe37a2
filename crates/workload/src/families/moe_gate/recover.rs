//! Shapes from operator calls of vLLM, SGLang, aiter and Triton's MoE kernels.

use super::shape::FLOATS;
use crate::families::args::{dtype, local_name, number, tensor, unclear};
use crate::families::attention::call::{flag, int};
use crate::{DtypeTag, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap};

/// Where an operator has its arguments; indices count from 0.
struct Call {
    logits: usize,
    topk: Topk,
    bias: Option<usize>,
    score: Score,
    /// (groups, groups that take part).
    groups: Option<(usize, usize)>,
    renormalize: Renormalize,
    scale: Option<usize>,
    /// A number of fused shared experts, which must be 0.
    shared: Option<usize>,
}

enum Topk {
    /// The last dim of \[tokens, topk\].
    Columns(usize),
    Number(usize),
}

enum Score {
    Softmax,
    Sigmoid,
    /// A truth value (softmax or not) or the name.
    Told(usize),
}

enum Renormalize {
    Always,
    Told(usize),
}

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let call = call(op)?;
    Some(from_call(op, &call))
}

/// Signatures from vLLM's and SGLang's operator schemas and aiter/ops/{moe_op,topk}.py.
fn call(op: &OpCall) -> Option<Call> {
    // (topk_weights!, topk_indices!, [token_expert_indices!,] gating_output, renormalize).
    let flat = |score| {
        let logits = if op.tensor(3).is_some() { 3 } else { 2 };
        Call {
            logits,
            topk: Topk::Columns(0),
            bias: None,
            score,
            groups: None,
            renormalize: Renormalize::Told(logits + 1),
            scale: None,
            shared: None,
        }
    };
    let local = local_name(op);
    match local {
        "topk_softmax" | "rocm_aiter_topk_softmax" => Some(flat(Score::Softmax)),
        "topk_sigmoid" | "rocm_aiter_topk_sigmoid" => Some(flat(Score::Sigmoid)),
        // (gating_output, topk_weights!, topk_ids!, groups, topk_groups, need_renorm, is_softmax, routed_scaling_factor).
        "grouped_topk" | "rocm_aiter_grouped_topk" if op.tensor(1).is_some() => Some(Call {
            logits: 0,
            topk: Topk::Columns(1),
            bias: None,
            score: Score::Told(6),
            groups: Some((3, 4)),
            renormalize: Renormalize::Told(5),
            scale: Some(7),
            shared: None,
        }),
        // (gating_output, bias, topk_weights!, topk_ids!, groups, topk_groups, need_renorm, routed_scaling_factor).
        "biased_grouped_topk" | "biased_grouped_topk_hip" | "rocm_aiter_biased_grouped_topk" => Some(Call {
            logits: 0,
            topk: Topk::Columns(2),
            bias: Some(1),
            score: Score::Sigmoid,
            groups: Some((4, 5)),
            renormalize: Renormalize::Told(6),
            scale: Some(7),
            shared: None,
        }),
        // aiter: (input, bias, topk_weights!, topk_ids!, groups, topk_groups, topk, shared, scale).
        "moe_fused_gate" if op.tensor(2).is_some() => Some(Call {
            logits: 0,
            topk: Topk::Columns(2),
            bias: Some(1),
            score: Score::Sigmoid,
            groups: Some((4, 5)),
            renormalize: Renormalize::Always,
            scale: Some(8),
            shared: Some(7),
        }),
        // SGLang: (input, bias, groups, topk_groups, topk, shared, scale, apply_scale_on_output).
        "moe_fused_gate" => Some(Call {
            logits: 0,
            topk: Topk::Number(4),
            bias: Some(1),
            score: Score::Sigmoid,
            groups: Some((2, 3)),
            renormalize: Renormalize::Always,
            scale: (flag(op, 7) == Some(true)).then_some(6),
            shared: Some(5),
        }),
        // Triton's: (x, k, apply_softmax, dim, ...). A softmax of the chosen logits is a renormalised softmax of all.
        "TopK" if flag(op, 2) == Some(true) => Some(Call {
            logits: 0,
            topk: Topk::Number(1),
            bias: None,
            score: Score::Softmax,
            groups: None,
            renormalize: Renormalize::Always,
            scale: None,
            shared: None,
        }),
        _ => None,
    }
}

fn from_call(op: &OpCall, call: &Call) -> Result<Recovered, ShapeError> {
    let &[tokens, experts] = tensor(op, call.logits, "gating output")? else {
        return Err(unclear(op, "gating output", format!("argument {}", call.logits), "two dimensions are needed"));
    };
    let topk = match call.topk {
        Topk::Number(index) => count(op, index, "topk")?,
        Topk::Columns(index) => {
            let dims = tensor(op, index, "topk weights")?;
            match dims {
                &[rows, topk] if rows == tokens => topk,
                _ => {
                    return Err(unclear(
                        op,
                        "topk weights",
                        format!("{dims:?}"),
                        format!("the gating output has {tokens} rows"),
                    ));
                }
            }
        }
    };
    if let Some(shared) = call.shared.and_then(|index| int(op, index)).filter(|shared| *shared != 0) {
        return Err(unclear(op, "fused shared experts", shared, "no case lists experts that are not chosen"));
    }
    let mut assumed = Vec::new();
    let mut shape = ShapeMap::new().with("tokens", tokens).with("experts", experts).with("topk", topk);
    shape = shape.with_word("score", score(op, call, &mut assumed));
    let renormalize = match call.renormalize {
        Renormalize::Always => true,
        Renormalize::Told(index) => flag(op, index).unwrap_or_else(|| {
            assumed.push("weights are not renormalized: the call does not record it".to_owned());
            false
        }),
    };
    shape = shape.with_flag("renormalize", renormalize);
    let mut dtypes = Dtypes::uniform(float(op, call.logits, "gating output")?);
    if let Some(index) = call.bias.filter(|index| op.tensor(*index).is_some()) {
        shape = shape.with_flag("bias", true);
        dtypes = dtypes.with("bias", float(op, index, "bias")?);
    }
    if let Some((groups, topk_groups)) = call.groups {
        shape = shape
            .with("groups", count(op, groups, "groups")?)
            .with("topk_groups", count(op, topk_groups, "topk groups")?);
    }
    match call.scale.and_then(|index| number(op, index)) {
        Some(scale) => shape = shape.with_word("scale", &scale.to_string()),
        None if call.scale.is_some() => assumed.push("weights are not scaled: the call does not record it".to_owned()),
        None => {}
    }
    Ok(Recovered { family: Family::MoeGate, shape, dtypes, assumed })
}

fn score(op: &OpCall, call: &Call, assumed: &mut Vec<String>) -> &'static str {
    match call.score {
        Score::Softmax => "softmax",
        Score::Sigmoid => "sigmoid",
        Score::Told(index) => match op.args.get(index).map_or("", |arg| arg.concrete.trim()) {
            "True" | "softmax" => "softmax",
            "False" | "sigmoid" => "sigmoid",
            _ => {
                assumed.push("scores are a softmax: the call does not record it".to_owned());
                "softmax"
            }
        },
    }
}

fn count(op: &OpCall, index: usize, what: &str) -> Result<u64, ShapeError> {
    int(op, index)
        .and_then(|count| u64::try_from(count).ok())
        .filter(|count| *count > 0)
        .ok_or_else(|| unclear(op, what, format!("argument {index}"), "a whole number is needed"))
}

fn float(op: &OpCall, index: usize, what: &str) -> Result<DtypeTag, ShapeError> {
    match dtype(op, index, what)? {
        DtypeTag::Exact(found) if FLOATS.contains(&found) => Ok(found.into()),
        other => Err(ShapeError::dtype(other, format!("is not what {} takes: bf16, f16 or f32", op.base_name()))),
    }
}
