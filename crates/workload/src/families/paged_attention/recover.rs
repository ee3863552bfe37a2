//! `paged_attention` shapes from operator calls of vLLM, SGLang and aiter.
//!
//! None of these operators has the context lengths in its arguments: they are values of a tensor. A shape is recovered only
//! with the sums of the step (`g_sq`, `g_sk`, `g_sqsq`, `g_sqsk`), and only when these prove one token a sequence.

use crate::dtype::{Dtype, DtypeTag};
use crate::families::attention::call::{self, plain_decode};
use crate::op::OpCall;
use crate::{Dtypes, Family, Recovered, ShapeError, ShapeMap};

/// Where an operator keeps q and the cache; indices count its arguments from 0.
struct Signature {
    /// Name without its namespace.
    name: &'static str,
    q: usize,
    /// Index of the key cache, when it is an argument.
    cache: Option<(usize, CacheForm)>,
}

#[derive(Clone, Copy)]
enum CacheForm {
    /// [pages, block, heads, d].
    Flash,
    /// [pages, heads, d/x, block, x].
    Chunked,
}

const SIGNATURES: &[Signature] = &[
    Signature { name: "unified_attention_with_output", q: 0, cache: None },
    Signature { name: "unified_attention", q: 0, cache: None },
    Signature { name: "paged_attention_ragged", q: 2, cache: Some((3, CacheForm::Flash)) },
    // _rocm_C::paged_attention and aiter::paged_attention_rocm.
    Signature { name: "paged_attention", q: 4, cache: Some((5, CacheForm::Chunked)) },
    Signature { name: "paged_attention_rocm", q: 4, cache: Some((5, CacheForm::Chunked)) },
    Signature { name: "pa_fwd_asm", q: 0, cache: Some((1, CacheForm::Chunked)) },
    Signature { name: "pa_fwd", q: 0, cache: Some((1, CacheForm::Chunked)) },
];

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let signature = signature(op.base_name())?;
    let (batch, ctx_total) = plain_decode(op)?;
    Some(from_call(op, signature, batch, ctx_total))
}

/// SGLang's profiler puts the Python module before the name: `attention_paged_attention_ragged`.
fn signature(name: &str) -> Option<&'static Signature> {
    let (space, bare) = name.split_once("::")?;
    let bare = if space == "sglang_profiler" { bare.strip_prefix("attention_").unwrap_or(bare) } else { bare };
    let known = matches!(space, "vllm" | "sglang_profiler" | "aiter" | "_rocm_C");
    SIGNATURES.iter().find(|signature| known && signature.name == bare)
}

fn from_call(op: &OpCall, signature: &Signature, batch: u64, ctx_total: u64) -> Result<Recovered, ShapeError> {
    let mut assumed = vec![format!("context lengths drawn around their mean: only their sum {ctx_total} is known")];
    let mut shape = ShapeMap::new().with("batch", batch).with("ctx_total", ctx_total);
    let q = call::tensor::<3>(op, signature.q)
        .or_else(|| op.args.is_empty().then(|| q_from_params(op)).flatten())
        .ok_or_else(|| call::contradiction(op, "q of three dimensions is needed"))?;
    if q[0] < batch {
        return Err(call::contradiction(op, "q has fewer tokens than the step's sums say"));
    }
    let cache = match signature.cache {
        Some((index, form)) => cache_sizes(op, index, form)?,
        None => Cache { kv_heads: kv_heads(op)?, block_size: None, layout: "flash" },
    };
    shape = shape.with("q_heads", q[1]).with("kv_heads", cache.kv_heads).with("head_dim", q[2]);
    match cache.block_size {
        Some(block_size) => shape = shape.with("block_size", block_size),
        None => assumed.push("pages of 16 tokens: the call does not have the cache".to_owned()),
    }
    match op.size("sliding_window").filter(|window| *window > 0) {
        Some(window) => shape = shape.with("window", window),
        None => assumed
            .push("no sliding window: the call does not name one, and layers that have one look the same".to_owned()),
    }
    let dtypes = dtypes(op, signature, &mut assumed)?;
    Ok(Recovered { family: Family::PagedAttention, shape: shape.with_word("layout", cache.layout), dtypes, assumed })
}

struct Cache {
    kv_heads: u64,
    block_size: Option<u64>,
    layout: &'static str,
}

fn cache_sizes(op: &OpCall, index: usize, form: CacheForm) -> Result<Cache, ShapeError> {
    match (form, op.tensor(index)) {
        (CacheForm::Flash, Some([_, block, heads, _])) => {
            Ok(Cache { kv_heads: *heads, block_size: Some(*block), layout: "flash" })
        }
        (CacheForm::Chunked, Some([_, heads, _, block, _])) => {
            Ok(Cache { kv_heads: *heads, block_size: Some(*block), layout: "aiter" })
        }
        _ if op.args.is_empty() => Ok(Cache { kv_heads: kv_heads(op)?, block_size: None, layout: "flash" }),
        _ => Err(call::contradiction(op, "the key cache has other dimensions than this operator's")),
    }
}

/// Key/value heads from k [T, HK, D], or from a report's parameters.
fn kv_heads(op: &OpCall) -> Result<u64, ShapeError> {
    let from_k = call::tensor::<3>(op, 1).map(|k| k[1]);
    from_k
        .or_else(|| op.size("H_KV"))
        .filter(|heads| *heads > 0)
        .ok_or_else(|| call::contradiction(op, "k of three dimensions is needed"))
}

fn q_from_params(op: &OpCall) -> Option<[u64; 3]> {
    Some([op.size("N_Q")?, op.size("H_Q")?, op.size("d_h_qk")?])
}

fn dtypes(op: &OpCall, signature: &Signature, assumed: &mut Vec<String>) -> Result<Dtypes, ShapeError> {
    let q = match op.args.is_empty() {
        true => call::dtype_param(op, "dtype_Q").ok_or_else(|| ShapeError::dtype("dtype_Q", "is not known"))?,
        false => call::dtype(op, signature.q)?,
    };
    // vLLM passes `kv_cache_dtype` as text and the fp8 cache as bytes.
    let says_fp8 = op.args.iter().any(|arg| arg.concrete.starts_with("fp8"));
    let stored = match (signature.cache, call::dtype_param(op, "dtype_KV")) {
        (Some((index, _)), _) if !op.args.is_empty() => call::dtype(op, index)?,
        (_, Some(tag)) => tag,
        _ => {
            assumed.push("the cache has the dtype of k".to_owned());
            call::dtype(op, 1)?
        }
    };
    let kv = match stored {
        _ if says_fp8 => DtypeTag::Fp8,
        DtypeTag::Exact(Dtype::U8) => {
            assumed.push("a cache of bytes is e4m3 fp8".to_owned());
            DtypeTag::Fp8
        }
        other => other,
    };
    Ok(if q == kv { Dtypes::uniform(q) } else { Dtypes::default().with("q", q).with("kv", kv).with("out", q) })
}
