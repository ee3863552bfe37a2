//! `kv_cache`: writing a step's keys and values into a cache in pages.
//!
//! Token t goes to slot `slot_mapping`\[t\]: page slot / block_size, place slot % block_size; −1 is a padding token that goes
//! nowhere. Slots differ, and what no token goes to keeps its content.
//!
//! Keys: `tokens`, `block_size` (tokens of a page, default 16), `layout`, `quant=none|per_tensor|per_token`, `batch` (sequences
//! that share the tokens, default one a token: a decode step), `padding` (trailing tokens with slot −1, default 0), `pages` (of the
//! whole cache, default what the tokens need); `kv_heads` and `head_dim`, or with `layout=mla` `kv_lora` (default 512) and
//! `rope_dim` (default 64). Dtype roles: `x` (what is written), `kv` (the cache: `x`'s dtype without `quant`, fp8 or i8 with it).
//!
//! | tensor | dims | |
//! |---|---|---|
//! | `key`, `value` | \[tokens, kv_heads, head_dim\] | |
//! | `kv_c`, `k_pe` | \[tokens, kv_lora\], \[tokens, rope_dim\] | instead, with `layout=mla` |
//! | `slot_mapping` | i64 \[tokens\] | |
//! | `k_cache`, `v_cache` | \[pages, block_size, kv_heads, head_dim\] | `layout=flash` (default) |
//! | `k_cache` | \[pages, kv_heads, head_dim/x, block_size, x\] | `layout=aiter` and `shuffled`, x = 16 bytes |
//! | `v_cache` | \[pages, kv_heads, head_dim, block_size\] | `layout=aiter` |
//! | `v_cache` | \[pages, kv_heads, block_size/x, head_dim, x\] | `layout=shuffled` (aiter's assembly kernels) |
//! | `kv_cache` | \[pages, block_size, kv_lora + rope_dim\] | `layout=mla`: latent, then rotary part |
//! | `k_scale`, `v_scale` | f32 \[1\] (`kv_scale` with `mla`) | `per_tensor`, read: stored · scale is real |
//! | `k_scale`, `v_scale` | f32 \[pages, block_size, kv_heads\] | `per_token`, written: max of a token's head / largest code |
//! | | f32 \[pages, kv_heads, block_size\] | the same for `aiter` and `shuffled` |
//!
//! Slots: each sequence has an equal number of consecutive tokens (the first ones one more where it does not divide); it begins at a
//! drawn place of its first page and goes on through pages that are a random permutation of the cache's.

mod recover;
mod reference;
mod shape;
mod slots;
#[cfg(test)]
mod tests;

pub use shape::{KvCache, KvQuant, Layout};

pub(crate) use recover::recover;

use crate::families::row_quant::smallest_step;
use crate::families::sizes;
use crate::{
    CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, TensorSet, TensorSpec, Tolerance, Work, Workload, narrow,
    random,
};

/// Magnitude of real data that a given scale maps to the largest code: normal data stay within it.
const SCALED_RANGE: f32 = 4.5;

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(KvCache::new(shape, dtypes, options)?))
}

impl Workload for KvCache {
    fn family(&self) -> Family {
        Family::KvCache
    }

    fn shape(&self) -> ShapeMap {
        self.canonical()
    }

    fn dtypes(&self) -> Dtypes {
        sizes::shown(&[("x", self.x), ("kv", self.kv)])
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let mut tensors: Vec<TensorSpec> =
            self.parts().iter().map(|part| TensorSpec::input(part.source, self.x, &part.source_dims)).collect();
        tensors.push(TensorSpec::input("slot_mapping", Dtype::I64, &[self.tokens]));
        let scales = self.scales();
        if self.quant == KvQuant::PerTensor {
            tensors.extend(scales.iter().map(|name| TensorSpec::input(name, Dtype::F32, &[1])));
        }
        tensors.extend(self.caches().into_iter().map(|(name, dims)| TensorSpec::inout(name, self.kv, &dims)));
        if self.quant == KvQuant::PerToken {
            let dims = self.token_scale_dims();
            tensors.extend(scales.iter().map(|name| TensorSpec::inout(name, Dtype::F32, &dims)));
        }
        tensors
    }

    /// A multiplication by the reciprocal scale an element with `quant`, and for `per_token` a comparison for the maximum too;
    /// reciprocals are not counted. Bytes are those of tokens that have a slot, and of all slots.
    fn work(&self) -> Work {
        let tokens = u128::from(self.written());
        let width: u128 = self.parts().iter().map(|part| u128::from(part.width())).sum();
        let elements = tokens * width;
        let slots = Dtype::I64.bytes(u128::from(self.tokens));
        let token_scales = tokens * u128::from(self.scales_per_token());
        let (per_element, scales_read, scales_written) = match self.quant {
            KvQuant::None => (0, 0, 0),
            KvQuant::PerTensor => (1, Dtype::F32.bytes(self.scales().len() as u128), 0),
            KvQuant::PerToken => (2, 0, Dtype::F32.bytes(token_scales)),
        };
        let mut work = Work::default();
        if per_element > 0 {
            work.add_flops(Dtype::F32, per_element * elements);
        }
        work.bytes_read = self.x.bytes(elements) + slots + scales_read;
        work.bytes_written = self.kv.bytes(elements) + scales_written;
        work.explain = vec![
            format!("FLOPs {} = {per_element}·{elements} elements (f32)", work.total_flops()),
            format!(
                "read {} = {tokens} tokens of {width} elements {} + slots {slots} + scales {scales_read}",
                work.bytes_read,
                self.x.bytes(elements)
            ),
            format!("written {} = cache {} + scales {scales_written}", work.bytes_written, self.kv.bytes(elements)),
        ];
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        for part in self.parts() {
            random::fill_normal(tensors.get_mut(part.source), seed, 0.0, 1.0);
        }
        tensors.get_mut("slot_mapping").view_mut::<i64>().copy_from_slice(&self.slots);
        for name in self.scales() {
            match self.quant {
                KvQuant::None => {}
                KvQuant::PerTensor => {
                    let scale = SCALED_RANGE / shape::largest(self.kv);
                    tensors.get_mut(name).view_mut::<f32>()[0] = scale;
                }
                KvQuant::PerToken => random::fill_scales(tensors.get_mut(name), seed, 0.02),
            }
        }
        for (name, _) in self.caches() {
            let cache = tensors.get_mut(name);
            match self.kv {
                Dtype::I8 => random::fill_uniform_int(cache, seed, -127, 127),
                _ => random::fill_normal(cache, seed, 0.0, if self.kv.is_fp8() { 16.0 } else { 1.0 }),
            }
        }
    }

    fn reference(&self, tensors: &mut TensorSet) {
        reference::reference(self, tensors);
    }

    fn naive(&self, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
        reference::naive(self, tensors, name, indices)
    }

    /// Copies are exact. Quantised values may be off one unit, in subnormals and integers too, where scales differ by rounding.
    fn tolerance(&self, name: &str) -> Tolerance {
        let (abs, rel) = match self.quant {
            KvQuant::None => (0.0, 0.0),
            _ if self.scales().contains(&name) => (0.0, 1e-5),
            _ if self.kv == Dtype::I8 => (1.0, 0.0),
            _ => (smallest_step(self.kv), narrow::epsilon(self.kv)),
        };
        Tolerance { abs, rel, mismatch_share: 0.0 }
    }
}
