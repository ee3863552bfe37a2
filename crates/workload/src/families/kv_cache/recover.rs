//! Shapes from operator calls of vLLM, SGLang and aiter.

use super::shape::FAMILY;
use crate::families::args::{dtype, local_name, tensor, unclear};
use crate::{Dtype, DtypeTag, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap};

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let local = local_name(op);
    match local {
        // (key, value, key_cache!, value_cache!, slot_mapping, kv_cache_dtype, k_scale, v_scale) of vLLM and aiter.
        "reshape_and_cache_flash" | "reshape_and_cache" => Some(paged(op, None)),
        // (key, value, key_cache!, value_cache!, k_dequant_scales!, v_dequant_scales!, slot_mapping, asm_layout) of aiter.
        "reshape_and_cache_with_pertoken_quant" => Some(paged(op, Some(4))),
        "reshape_and_cache_with_block_quant" | "reshape_and_cache_with_block_quant_for_asm_pa" => Some(Err(unclear(
            op,
            "call",
            local,
            "no case can be made of it: it has a scale a page and requantises pages",
        ))),
        // (kv_c, k_pe, kv_cache!, slot_mapping, kv_cache_dtype, scale) of vLLM and aiter.
        "concat_and_cache_mla" => Some(latent(op)),
        // (k, v, k_cache!, v_cache!, indices, ...) of SGLang, whose pages hold one token.
        "store_cache" if op.base_name().starts_with("sglang::") => Some(rows(op)),
        "memory_pool__set_kv_buffer_impl" if op.base_name().starts_with("sglang_profiler::") => Some(rows(op)),
        _ => None,
    }
}

const SLOTS: &str =
    "one token a sequence, and none without a slot: slots are values of a tensor, which no profile holds";
const PAGES: &str = "as many pages as the tokens need: what the cache holds besides does not matter";

fn paged(op: &OpCall, token_scales: Option<usize>) -> Result<Recovered, ShapeError> {
    let (tokens, kv_heads, head_dim) = heads(op, 0, "key")?;
    if heads(op, 1, "value")? != (tokens, kv_heads, head_dim) {
        return Err(unclear(op, "value", format!("{:?}", tensor(op, 1, "value")?), "key has other dimensions"));
    }
    let keys = tensor(op, 2, "key cache")?;
    let (layout, block_size) = match (keys, tensor(op, 3, "value cache")?) {
        (&[_, block, heads, d], _) if (heads, d) == (kv_heads, head_dim) => ("flash", block),
        (&[_, heads, _, block, _], [_, _, _, _]) if heads == kv_heads => ("aiter", block),
        (&[_, heads, _, block, _], [_, _, _, _, _]) if heads == kv_heads => ("shuffled", block),
        _ => {
            return Err(unclear(
                op,
                "key cache",
                format!("{keys:?}"),
                format!("does not hold {kv_heads} heads of {head_dim}"),
            ));
        }
    };
    let mut assumed = vec![SLOTS.to_owned(), PAGES.to_owned()];
    let x = dtype(op, 0, "key")?;
    let stored = cache_dtype(op, 2, &mut assumed)?;
    let quant = match token_scales {
        Some(_) => "per_token",
        None if stored == x => "none",
        None => "per_tensor",
    };
    let shape = ShapeMap::new()
        .with("tokens", tokens)
        .with("kv_heads", kv_heads)
        .with("head_dim", head_dim)
        .with("block_size", block_size)
        .with_word("layout", layout)
        .with_word("quant", quant);
    Ok(Recovered { family: Family::KvCache, shape, dtypes: dtypes(x, stored), assumed })
}

fn latent(op: &OpCall) -> Result<Recovered, ShapeError> {
    let latent = tensor(op, 0, "kv_c")?;
    let rotary = tensor(op, 1, "k_pe")?;
    let cache = tensor(op, 2, "kv_cache")?;
    let (&[tokens, kv_lora], (Some(&rope_dim), Some(&rows)), &[_, block_size, width]) =
        (latent, (rotary.last(), rotary.first()), cache)
    else {
        return Err(unclear(
            op,
            "call",
            format!("{latent:?} {rotary:?} {cache:?}"),
            "kv_c [tokens, latent], k_pe and a cache of three dimensions are needed",
        ));
    };
    if rows != tokens {
        return Err(unclear(op, "k_pe", format!("{rotary:?}"), format!("kv_c has {tokens} tokens")));
    }
    if kv_lora.checked_add(rope_dim) != Some(width) {
        let reason = format!("a place of the cache is not the {kv_lora} + {rope_dim} elements of a token");
        return Err(unclear(op, "kv_cache", format!("{cache:?}"), reason));
    }
    let mut assumed = vec![SLOTS.to_owned(), PAGES.to_owned()];
    let x = dtype(op, 0, "kv_c")?;
    let stored = cache_dtype(op, 2, &mut assumed)?;
    let shape = ShapeMap::new()
        .with("tokens", tokens)
        .with("kv_lora", kv_lora)
        .with("rope_dim", rope_dim)
        .with("block_size", block_size)
        .with_word("layout", "mla")
        .with_word("quant", if stored == x { "none" } else { "per_tensor" });
    Ok(Recovered { family: Family::KvCache, shape, dtypes: dtypes(x, stored), assumed })
}

/// SGLang's pools: [slots, heads, d] or [slots, heads·d].
fn rows(op: &OpCall) -> Result<Recovered, ShapeError> {
    let (tokens, kv_heads, head_dim) = match tensor(op, 0, "k")? {
        &[tokens, width] => (tokens, 1, width),
        _ => heads(op, 0, "k")?,
    };
    let cache = tensor(op, 2, "k_cache")?;
    let same_row = match (cache, tensor(op, 0, "k")?) {
        ([_, cache @ ..], [_, token @ ..]) => cache == token,
        _ => false,
    };
    if !same_row {
        return Err(unclear(op, "k_cache", format!("{cache:?}"), "its rows are not those of k"));
    }
    let mut assumed = vec![SLOTS.to_owned(), PAGES.to_owned()];
    let x = dtype(op, 0, "k")?;
    let stored = cache_dtype(op, 2, &mut assumed)?;
    if stored != x {
        return Err(unclear(op, "k_cache", stored, format!("SGLang stores k as it is, and that is {x}")));
    }
    let shape = ShapeMap::new()
        .with("tokens", tokens)
        .with("kv_heads", kv_heads)
        .with("head_dim", head_dim)
        .with("block_size", 1)
        .with_word("layout", "flash")
        .with_word("quant", "none");
    Ok(Recovered { family: Family::KvCache, shape, dtypes: Dtypes::uniform(x), assumed })
}

fn heads(op: &OpCall, index: usize, what: &str) -> Result<(u64, u64, u64), ShapeError> {
    match tensor(op, index, what)? {
        &[tokens, heads, d] => Ok((tokens, heads, d)),
        dims => Err(unclear(op, what, format!("{dims:?}"), "three dimensions are needed: tokens, heads, elements")),
    }
}

/// vLLM passes `kv_cache_dtype` as text and an fp8 cache as bytes.
fn cache_dtype(op: &OpCall, index: usize, assumed: &mut Vec<String>) -> Result<DtypeTag, ShapeError> {
    let stored = dtype(op, index, "cache")?;
    if stored != DtypeTag::Exact(Dtype::U8) {
        return Ok(stored);
    }
    match op.args.iter().map(|arg| arg.concrete.as_str()).find(|text| text.starts_with("fp8")) {
        Some(text) if text.contains("e5m2") => Ok(DtypeTag::Bf8),
        Some("fp8_ds_mla") => Err(ShapeError::dtype(
            "fp8_ds_mla",
            format!("{FAMILY} has no case of latents with a scale for each 128 elements"),
        )),
        Some(_) => Ok(DtypeTag::Fp8),
        None => {
            assumed.push("a cache of bytes is e4m3 fp8".to_owned());
            Ok(DtypeTag::Fp8)
        }
    }
}

fn dtypes(x: DtypeTag, kv: DtypeTag) -> Dtypes {
    if x == kv { Dtypes::uniform(x) } else { Dtypes::default().with("x", x).with("kv", kv) }
}
