//! `fmha` shapes from operator calls of PyTorch, flash-attention, aiter, SGLang and vLLM.

use super::Layout;
use crate::families::attention::call::{self, even_prefill};
use crate::op::OpCall;
use crate::shape::MAX_LIST;
use crate::{Dtypes, Family, Recovered, ShapeError, ShapeMap};

/// Where an operator keeps what shapes need; indices count its arguments from 0. q, k and v are always 0, 1 and 2.
struct Signature {
    names: &'static [&'static str],
    form: Form,
    /// Index of the causal flag.
    causal: Option<usize>,
    /// Index of the left window size (-1: none).
    window: Option<usize>,
    /// Index of a bias or mask tensor.
    bias: Option<usize>,
}

#[derive(Clone, Copy)]
enum Form {
    /// [B, H, S, D].
    HeadsFirst,
    /// [B, S, H, D], or packed with offsets at 3 and 4 when these are tensors.
    TokensFirst,
    /// [T, H, D], offsets at 3 and 4, longest lengths at 5 and 6.
    Packed,
    /// As packed, but keys and values lie in pages and 4, 5 are page tables; longest lengths at 6 and 7.
    Paged,
}

const SIGNATURES: &[Signature] = &[
    Signature {
        names: &["aten::_scaled_dot_product_flash_attention"],
        form: Form::HeadsFirst,
        causal: Some(4),
        window: None,
        bias: None,
    },
    Signature {
        names: &["aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_cudnn_attention"],
        form: Form::HeadsFirst,
        causal: Some(6),
        window: None,
        bias: Some(3),
    },
    Signature {
        names: &[
            "aten::_scaled_dot_product_attention_math",
            "aten::_scaled_dot_product_fused_attention_overrideable",
            "aten::scaled_dot_product_attention",
        ],
        form: Form::HeadsFirst,
        causal: Some(5),
        window: None,
        bias: Some(3),
    },
    Signature {
        names: &["aten::_flash_attention_forward"],
        form: Form::TokensFirst,
        causal: Some(8),
        window: Some(11),
        bias: None,
    },
    Signature {
        names: &["flash_attn::_flash_attn_forward", "aiter::mha_fwd", "aiter::fmha_v3_fwd"],
        form: Form::TokensFirst,
        causal: Some(5),
        window: Some(6),
        bias: None,
    },
    Signature {
        names: &["flash_attn::_flash_attn_varlen_forward"],
        form: Form::Packed,
        causal: Some(9),
        window: Some(10),
        bias: None,
    },
    Signature {
        names: &["aiter::mha_varlen_fwd", "aiter::fmha_v3_varlen_fwd"],
        form: Form::Packed,
        causal: Some(12),
        window: Some(13),
        bias: None,
    },
    Signature {
        names: &["aiter::mha_batch_prefill"],
        form: Form::Paged,
        causal: Some(12),
        window: Some(13),
        bias: None,
    },
];

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let name = op.base_name();
    let signature = SIGNATURES.iter().find(|signature| signature.names.contains(&name));
    match signature {
        Some(_) if op.args.is_empty() => from_params(op),
        Some(signature) => from_args(op, signature),
        None if is_prefill_wrapper(name) => from_sums(op),
        None => None,
    }
}

/// Operators whose arguments are q [T, H, D], k and v, and whose lengths only the step's sums tell.
fn is_prefill_wrapper(name: &str) -> bool {
    const NAMES: &[&str] = &["mha_varlen_fwd", "fmha_v3_varlen_fwd", "mha_batch_prefill", "flash_attn_varlen_func"];
    name == "vllm::unified_attention_with_output"
        || (name.starts_with("sglang_profiler::") && NAMES.iter().any(|known| name.ends_with(known)))
}

/// Lengths and sizes before they become a shape.
struct Found {
    lengths: ShapeMap,
    q_heads: u64,
    kv_heads: u64,
    d_qk: u64,
    d_v: u64,
    layout: Layout,
    assumed: Vec<String>,
}

fn from_args(op: &OpCall, signature: &Signature) -> Option<Result<Recovered, ShapeError>> {
    let found = match signature.form {
        Form::HeadsFirst => dense(op, true),
        Form::TokensFirst if op.tensor(3).is_some() && op.tensor(0).is_some_and(|q| q.len() == 3) => {
            packed(op, signature)?
        }
        Form::TokensFirst => dense(op, false),
        Form::Packed | Form::Paged => packed(op, signature)?,
    };
    Some(found.and_then(|mut found| {
        if signature.bias.is_some_and(|index| op.tensor(index).is_some()) {
            found.assumed.push("an additive mask or bias tensor is neither read nor applied".to_owned());
        }
        let causal = signature.causal.and_then(|index| call::flag(op, index));
        let causal = causal.or_else(|| op.params.get("causal").and_then(crate::Value::as_bool));
        let window = signature.window.and_then(|index| call::int(op, index)).filter(|left| *left >= 0);
        finish(op, found, causal, window)
    }))
}

/// Adds mask and dtypes. flash-attention's left window W sees W keys before the query's own position.
fn finish(
    op: &OpCall,
    mut found: Found,
    causal: Option<bool>,
    window_left: Option<i64>,
) -> Result<Recovered, ShapeError> {
    let causal = causal.unwrap_or_else(|| {
        found.assumed.push("the call does not say whether it is causal: causal, as in serving".to_owned());
        true
    });
    let window = match window_left.and_then(|left| u64::try_from(left).ok()) {
        Some(left) if causal => left + 1,
        Some(_) => {
            found.assumed.push("a window of a call that is not causal is ignored".to_owned());
            0
        }
        None => 0,
    };
    let q = call::dtype(op, 0)?;
    let (k, v) = (call::dtype(op, 1)?, call::dtype(op, 2)?);
    let dtypes =
        if q == k && q == v { Dtypes::uniform(q) } else { Dtypes::default().with("q", q).with("k", k).with("v", v) };
    let shape = found
        .lengths
        .with("q_heads", found.q_heads)
        .with("kv_heads", found.kv_heads)
        .with("head_dim", found.d_qk)
        .with("v_head_dim", found.d_v)
        .with_flag("causal", causal)
        .with("window", window)
        .with_word("layout", found.layout.name());
    Ok(Recovered { family: Family::Fmha, shape, dtypes, assumed: found.assumed })
}

/// Dense q, k, v of four dimensions.
fn dense(op: &OpCall, heads_first: bool) -> Result<Found, ShapeError> {
    let (Some(q), Some(k), Some(v)) = (call::tensor::<4>(op, 0), call::tensor::<4>(op, 1), call::tensor::<4>(op, 2))
    else {
        return Err(call::contradiction(op, "q, k and v of four dimensions are needed"));
    };
    let (sequence, head) = if heads_first { (2, 1) } else { (1, 2) };
    let agree = k[0] == q[0] && v[..3] == k[..3] && k[3] == q[3];
    if !agree {
        return Err(call::contradiction(op, "q, k and v disagree in batch, head size or keys"));
    }
    let mut assumed = Vec::new();
    let layout = match op.args.first().map(|arg| arg.strides.as_slice()) {
        Some(strides @ [_, _, _, _]) if heads_first && strides[1] < strides[2] => Layout::Bshd,
        Some([_, _, _, _]) if heads_first => Layout::Bhsd,
        _ if heads_first => {
            assumed.push("strides are unknown: heads before tokens in memory, as the dims stand".to_owned());
            Layout::Bhsd
        }
        _ => Layout::Bshd,
    };
    let lengths = ShapeMap::new().with("batch", q[0]).with("q_len", q[sequence]).with("kv_len", k[sequence]);
    Ok(Found { lengths, q_heads: q[head], kv_heads: k[head], d_qk: q[3], d_v: v[3], layout, assumed })
}

/// Packed sequences. `None` when the lengths are not determined.
fn packed(op: &OpCall, signature: &Signature) -> Option<Result<Found, ShapeError>> {
    let paged = matches!(signature.form, Form::Paged);
    let q = call::tensor::<3>(op, 0)?;
    let heads_and_size = |index| op.tensor(index).and_then(|dims| dims.last_chunk::<2>().copied());
    let ([kv_heads, k_size], [_, d_v]) = (heads_and_size(1)?, heads_and_size(2)?);
    let sequences = op.tensor(3)?.first()?.checked_sub(1).filter(|count| *count > 0)?;
    let first = if paged { 6 } else { 5 };
    let longest = |index| call::int(op, index).and_then(|length| u64::try_from(length).ok());
    let total = Totals {
        queries: q[0],
        keys: if paged { None } else { op.tensor(1).and_then(|dims| dims.first().copied()) },
        max_q: longest(first),
        max_k: longest(first + 1),
    };
    let (q_len, kv_len) = total.even_lengths(sequences).or_else(|| even_prefill(op, Some(sequences)))?;
    let mut assumed = Vec::new();
    if paged {
        assumed.push("keys and values that lie in pages are replayed packed".to_owned());
    }
    if k_size != q[2] {
        return Some(Err(call::contradiction(op, "q and k disagree in head size")));
    }
    let Some(count) = usize::try_from(sequences).ok().filter(|count| *count <= MAX_LIST) else {
        return Some(Err(call::contradiction(op, "more sequences than a shape may list")));
    };
    let lengths = ShapeMap::new().with_list("q_lens", vec![q_len; count]).with_list("kv_lens", vec![kv_len; count]);
    Some(Ok(Found { lengths, q_heads: q[1], kv_heads, d_qk: q[2], d_v, layout: Layout::Thd, assumed }))
}

/// What a packed call says about its lengths.
struct Totals {
    queries: u64,
    keys: Option<u64>,
    max_q: Option<u64>,
    max_k: Option<u64>,
}

impl Totals {
    /// (q_len, kv_len) of every sequence, when the totals leave no other choice: the longest times the number of
    /// sequences is the total only when all are equal.
    fn even_lengths(&self, sequences: u64) -> Option<(u64, u64)> {
        let all_equal = |total: u64, longest: Option<u64>| match sequences {
            1 => Some(total),
            _ => longest.filter(|longest| longest.checked_mul(sequences) == Some(total)),
        };
        let q_len = all_equal(self.queries, self.max_q)?;
        let kv_len = match self.keys {
            Some(keys) => all_equal(keys, self.max_k)?,
            // Queries are the last positions of their keys, so q_len <= kv_len <= max_k.
            None => self.max_k.filter(|longest| sequences == 1 || *longest == q_len)?,
        };
        Some((q_len, kv_len))
    }
}

/// A prefill wrapper: q [T, H, D], k and v [.., HK, D]; lengths from the sums of the step.
fn from_sums(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let q = call::tensor::<3>(op, 0)?;
    let [kv_heads, k_size] = op.tensor(1)?.last_chunk::<2>().copied()?;
    let [_, d_v] = op.tensor(2)?.last_chunk::<2>().copied()?;
    let sequences = op.tensor(3).filter(|dims| dims.len() == 1).and_then(|dims| dims.first()?.checked_sub(1));
    let (q_len, kv_len, count) = match even_prefill(op, None) {
        Some((q_len, kv_len)) => (q_len, kv_len, 1),
        None => {
            let count = sequences.filter(|count| *count <= MAX_LIST as u64)?;
            let (q_len, kv_len) = even_prefill(op, Some(count))?;
            (q_len, kv_len, count as usize)
        }
    };
    if k_size != q[2] || q_len.saturating_mul(count as u64) > q[0] {
        return Some(Err(call::contradiction(op, "q, k and the step's sums disagree")));
    }
    let lengths = ShapeMap::new().with_list("q_lens", vec![q_len; count]).with_list("kv_lens", vec![kv_len; count]);
    let mut assumed = vec!["causal, and keys that lie in pages are replayed packed".to_owned()];
    let window = op.size("sliding_window").filter(|window| *window > 0);
    if window.is_none() {
        assumed.push("no sliding window: the call does not name one".to_owned());
    }
    let found = Found { lengths, q_heads: q[1], kv_heads, d_qk: q[2], d_v, layout: Layout::Thd, assumed };
    // `sliding_window` counts the query's own position, flash-attention's left size does not.
    Some(finish(op, found, Some(true), window.and_then(|window| i64::try_from(window - 1).ok())))
}

/// A dense call of which only a report's parameters are left.
fn from_params(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let mut shape = ShapeMap::new();
    for (key, param) in [
        ("batch", "B"),
        ("q_len", "N_Q"),
        ("kv_len", "N_KV"),
        ("q_heads", "H_Q"),
        ("kv_heads", "H_KV"),
        ("head_dim", "d_h_qk"),
        ("v_head_dim", "d_h_v"),
    ] {
        shape = shape.with(key, op.size(param)?);
    }
    let causal = op.params.get("causal")?.as_bool()?;
    let tag = call::dtype_param(op, "dtype_A_B")?;
    let layout = if op.name.starts_with("aten::_scaled") { Layout::Bhsd } else { Layout::Bshd };
    let shape = shape.with_flag("causal", causal).with("window", 0).with_word("layout", layout.name());
    let assumed = vec!["the order in memory and the absence of a window: the report does not say".to_owned()];
    Some(Ok(Recovered { family: Family::Fmha, shape, dtypes: Dtypes::uniform(tag), assumed }))
}
