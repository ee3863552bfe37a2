//! Shapes from operator calls of vLLM, SGLang and aiter.

use super::FLOATS;
use crate::families::args::{dtype, elements, local_name, tensor, unclear};
use crate::families::attention::call::{flag, int};
use crate::{DtypeTag, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap};

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let local = local_name(op);
    match local {
        // rotary_embedding(positions, query!, key!?, head_size, cos_sin_cache, is_neox) of vLLM and SGLang.
        "rotary_embedding" => Some(from_joint(op)),
        _ if op.base_name().starts_with("aiter::") => aiter(op, local).map(|call| from_split(op, &call)),
        _ => None,
    }
}

fn from_joint(op: &OpCall) -> Result<Recovered, ShapeError> {
    let tokens = elements(op, "positions", tensor(op, 0, "positions")?)?;
    let head_dim = int(op, 3)
        .and_then(|size| u64::try_from(size).ok())
        .filter(|size| *size > 0)
        .ok_or_else(|| unclear(op, "head_size", "argument 3", "a whole number is needed"))?;
    let &[max_pos, rotary_dim] = tensor(op, 4, "cos_sin_cache")? else {
        return Err(unclear(op, "cos_sin_cache", "argument 4", "two dimensions are needed"));
    };
    let heads = |index, what| heads(op, index, what, tokens, head_dim);
    let q_heads = heads(1, "query")?;
    let kv_heads = if op.tensor(2).is_some() { heads(2, "key")? } else { 0 };
    let mut assumed = vec![ONE_A_SEQUENCE.to_owned()];
    let style = style(flag(op, 5), &mut assumed);
    let shape = ShapeMap::new()
        .with("tokens", tokens)
        .with("q_heads", q_heads)
        .with("kv_heads", kv_heads)
        .with("head_dim", head_dim)
        .with("rotary_dim", rotary_dim)
        .with_word("style", style)
        .with("max_pos", max_pos);
    Ok(Recovered { family: Family::Rope, shape, dtypes: dtypes(op, 1, 4)?, assumed })
}

const ONE_A_SEQUENCE: &str = "one token a sequence: the positions are values of a tensor, which no profile holds";

/// The style's name, where the call says it.
fn style(is_neox: Option<bool>, assumed: &mut Vec<String>) -> &'static str {
    match is_neox {
        Some(true) => "neox",
        Some(false) => "gptj",
        None => {
            assumed.push("the style is neox: the call does not record it".to_owned());
            "neox"
        }
    }
}

/// Heads of an operand of `tokens` rows.
fn heads(op: &OpCall, index: usize, what: &str, tokens: u64, head_dim: u64) -> Result<u64, ShapeError> {
    let dims = tensor(op, index, what)?;
    let all = elements(op, what, dims)?;
    let token = u128::from(tokens) * u128::from(head_dim);
    if token == 0 || all == 0 || u128::from(all) % token != 0 {
        let reason = format!("{tokens} tokens of whole heads of {head_dim} elements do not make it up");
        return Err(unclear(op, what, format!("{dims:?}"), reason));
    }
    Ok((u128::from(all) / token) as u64)
}

/// Where aiter's rope operators have their arguments; indices count from 0.
struct Aiter {
    inplace: bool,
    q: usize,
    k: Option<usize>,
    cos: usize,
    positions: usize,
    style: usize,
}

/// `rope_cached_positions_{2c_}fwd{_impl,_inplace}` of aiter/ops/rope.py: operands \[s, b, heads, d\], cos and sin
/// \[max_pos, 1, 1, d/2\], positions \[s, b\].
fn aiter(op: &OpCall, local: &str) -> Option<Aiter> {
    let (two, form) = match local.strip_prefix("rope_cached_positions_2c_fwd") {
        Some(form) => (true, form),
        None => (false, local.strip_prefix("rope_cached_positions_fwd")?),
    };
    let operands = if two { 2 } else { 1 };
    let first = match form {
        "_impl" => operands,
        "" | "_inplace" => 0,
        _ => return None,
    };
    let inplace = form == "_inplace" || (form == "_impl" && op.kernels.iter().any(|name| name.contains("_inplace")));
    Some(Aiter {
        inplace,
        q: first,
        k: two.then_some(first + 1),
        cos: first + operands,
        positions: first + operands + 2,
        style: first + operands + 3,
    })
}

fn from_split(op: &OpCall, call: &Aiter) -> Result<Recovered, ShapeError> {
    // (rotate_style, reuse_freqs_front_part, nope_first)
    if flag(op, call.style + 1) == Some(false) {
        return Err(unclear(
            op,
            "reuse_freqs_front_part",
            "False",
            "no case has a column of the table for each element",
        ));
    }
    if flag(op, call.style + 2) == Some(true) {
        return Err(unclear(op, "nope_first", "True", "no case rotates the last elements of a head"));
    }
    let tokens = elements(op, "positions", tensor(op, call.positions, "positions")?)?;
    let q_dims = tensor(op, call.q, "input")?;
    let head_dim = *q_dims.last().unwrap_or(&0);
    let cos_dims = tensor(op, call.cos, "cos")?;
    let (max_pos, half) = match cos_dims {
        [max_pos, .., half] => (*max_pos, *half),
        _ => return Err(unclear(op, "cos", format!("{cos_dims:?}"), "at least two dimensions are needed")),
    };
    let rotary_dim = half.checked_mul(2).ok_or_else(|| unclear(op, "cos", half, "is no possible width"))?;
    let heads = |index, what| heads(op, index, what, tokens, head_dim);
    let q_heads = heads(call.q, "input")?;
    let kv_heads = call.k.map_or(Ok(0), |index| heads(index, "second input"))?;
    let mut assumed = vec![ONE_A_SEQUENCE.to_owned()];
    let is_neox = match int(op, call.style) {
        Some(0) => Some(true),
        Some(1) => Some(false),
        _ => None,
    };
    let style = style(is_neox, &mut assumed);
    let shape = ShapeMap::new()
        .with("tokens", tokens)
        .with("q_heads", q_heads)
        .with("kv_heads", kv_heads)
        .with("head_dim", head_dim)
        .with("rotary_dim", rotary_dim)
        .with_word("style", style)
        .with_flag("inplace", call.inplace)
        .with_word("table", "split")
        .with("max_pos", max_pos);
    Ok(Recovered { family: Family::Rope, shape, dtypes: dtypes(op, call.q, call.cos)?, assumed })
}

fn dtypes(op: &OpCall, x: usize, table: usize) -> Result<Dtypes, ShapeError> {
    let x = dtype(op, x, "query")?;
    let table = dtype(op, table, "table")?;
    for tag in [x, table] {
        if !matches!(tag, DtypeTag::Exact(dtype) if FLOATS.contains(&dtype)) {
            return Err(ShapeError::dtype(tag, format!("is not what {} takes: bf16, f16 or f32", op.base_name())));
        }
    }
    Ok(if x == table { Dtypes::uniform(x) } else { Dtypes::uniform(x).with("table", table) })
}
