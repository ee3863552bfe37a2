//! Shapes from operator calls of aiter, vLLM and SGLang.

use crate::families::args::{local_name, tensor, unclear};
use crate::families::attention::call::int;
use crate::{Dtype, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap};

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    match local_name(op) {
        // aiter: (topk_ids, topk_weights, sorted_token_ids!, sorted_weights!, sorted_expert_ids!, num_valid_ids!, moe_buf!,
        // num_experts, unit_size, local_expert_mask, num_local_tokens, dispatch_policy).
        "moe_sorting_fwd" | "moe_sorting_opus_fwd" => Some(aiter(op)),
        // vLLM and SGLang: (topk_ids, num_experts, block_size, sorted_token_ids!, experts_ids!, num_tokens_post_pad!, ...).
        "moe_align_block_size" => Some(align(op)),
        _ => None,
    }
}

const ROUTING: &str = "uniform routing: the experts of the tokens are values of a tensor, which no profile holds";

fn aiter(op: &OpCall) -> Result<Recovered, ShapeError> {
    if op.tensor(9).is_some() {
        return Err(unclear(op, "local_expert_mask", "a tensor", "no case sorts for some of the experts only"));
    }
    let mut assumed = vec![ROUTING.to_owned()];
    if op.tensor(6).is_some() {
        assumed.push("the output buffer is not zeroed: the operator does it too, the case sorts only".to_owned());
    }
    from_sizes(op, 7, 8, assumed)
}

fn align(op: &OpCall) -> Result<Recovered, ShapeError> {
    let assumed = vec![
        ROUTING.to_owned(),
        "the tables are aiter's: with the weights sorted too, and experts without tokens left out".to_owned(),
    ];
    from_sizes(op, 1, 2, assumed)
}

fn from_sizes(op: &OpCall, experts: usize, block: usize, assumed: Vec<String>) -> Result<Recovered, ShapeError> {
    let &[tokens, topk] = tensor(op, 0, "topk_ids")? else {
        return Err(unclear(op, "topk_ids", "argument 0", "two dimensions are needed"));
    };
    let count = |index, what| {
        int(op, index)
            .and_then(|count| u64::try_from(count).ok())
            .filter(|count| *count > 0)
            .ok_or_else(|| unclear(op, what, format!("argument {index}"), "a whole number is needed"))
    };
    let shape = ShapeMap::new()
        .with("tokens", tokens)
        .with("experts", count(experts, "number of experts")?)
        .with("topk", topk)
        .with("block_m", count(block, "block size")?);
    Ok(Recovered { family: Family::MoeSort, shape, dtypes: Dtypes::uniform(Dtype::F32), assumed })
}
