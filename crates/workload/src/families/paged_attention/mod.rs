//! `paged_attention`: attention of a decode step over a key/value cache in pages.
//!
//! Keys: `q_heads`, `kv_heads`, `head_dim`, `ctx` (one context length a sequence, or with `batch` one for all; or `batch` with
//! `ctx_total` or `ctx_mean`, drawn), `q_len` (queries a sequence, the last positions of its context; default 1), `window`,
//! `block_size` (tokens of a page, default 16), `pages` (of the whole cache; default what the contexts need), `layout`,
//! `kv_scale`. Dtype roles `q` and `out` (bf16, f16, f32), `kv` (these or fp8). A query sees the keys up to its own position.
//!
//! | tensor | dims | |
//! |---|---|---|
//! | `q` | \[batch·q_len, q_heads, head_dim\] | |
//! | `k_cache`, `v_cache` | \[pages, block_size, kv_heads, head_dim\] | `layout=flash` (default): vLLM's flash and unified attention |
//! | `k_cache` | \[pages, kv_heads, head_dim/x, block_size, x\] | `layout=aiter`, x = 16 bytes: vLLM's and aiter's HIP kernels |
//! | `v_cache` | \[pages, kv_heads, head_dim, block_size\] | `layout=aiter` |
//! | `k_scale`, `v_scale` | f32 \[1\] | `kv_scale=per_tensor` (default for fp8): stored · scale is real |
//! | `k_scale`, `v_scale` | f32 \[pages, block_size, kv_heads\] | `kv_scale=per_token`; \[pages, kv_heads, block_size\] for `aiter` |
//! | `block_table` | i32 \[batch, longest context in pages\] | page of each block of a sequence, a random permutation; 0 where unused |
//! | `context_lens` | i32 \[batch\] | |
//! | `out` | \[batch·q_len, q_heads, head_dim\] | |
//!
//! Drawn contexts: each sequence gets `q_len` tokens and a share of the rest in proportion to a weight drawn uniformly from
//! \[½, 1½); what rounding leaves goes to the first sequences one by one, so that the sum is `ctx_total` exactly
//! (`ctx_mean`·`batch` for `ctx_mean`).

mod cache;
mod recover;
mod shape;
#[cfg(test)]
mod tests;

pub use shape::{KvScale, Layout, PagedAttention};

pub(crate) use recover::recover;

use crate::families::attention::naive::Place;
use crate::families::attention::{self, data};
use crate::families::sizes;
use crate::family::written_elements;
use crate::tensor::{TensorSet, TensorSpec};
use crate::{CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, Tolerance, Work, Workload, random};
use rand::Rng as _;

/// What 1.0 of real data is stored as in fp8, before scaling: it leaves fifteen deviations of range.
const FP8_UNIT: f32 = 16.0;

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(PagedAttention::new(shape, dtypes, options)?))
}

impl Workload for PagedAttention {
    fn family(&self) -> Family {
        Family::PagedAttention
    }

    fn shape(&self) -> ShapeMap {
        self.canonical()
    }

    fn dtypes(&self) -> Dtypes {
        sizes::shown(&[("q", self.q), ("kv", self.kv), ("out", self.out)])
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let batch = self.spans.len() as u64;
        let rows = [batch * self.q_len, self.heads.q_heads, self.heads.d_qk];
        let mut specs = vec![
            TensorSpec::input("q", self.q, &rows),
            TensorSpec::input("k_cache", self.kv, &self.key_dims()),
            TensorSpec::input("v_cache", self.kv, &self.value_dims()),
        ];
        if let Some(dims) = self.scale_dims() {
            specs.push(TensorSpec::input("k_scale", Dtype::F32, &dims));
            specs.push(TensorSpec::input("v_scale", Dtype::F32, &dims));
        }
        specs.push(TensorSpec::input("block_table", Dtype::I32, &[batch, self.longest_table()]));
        specs.push(TensorSpec::input("context_lens", Dtype::I32, &[batch]));
        specs.push(TensorSpec::output("out", self.out, &rows));
        specs
    }

    /// KV bytes are those of whole pages that hold a visible key, once a KV head: kernels fetch pages, and the tail of a last
    /// page is in the same cache lines. What the visible tokens alone take is in `explain`.
    fn work(&self) -> Work {
        let heads = self.heads;
        let batch = self.spans.len() as u128;
        let (mut pairs, mut pages, mut tokens) = (0, 0, 0);
        for span in &self.spans {
            let touched = self.mask.touched_keys(*span);
            pairs += self.mask.pairs(*span);
            tokens += u128::from(touched.end - touched.start);
            pages += u128::from(touched.end.div_ceil(self.block_size) - touched.start / self.block_size);
        }
        let rows = batch * u128::from(self.q_len) * u128::from(heads.q_heads) * u128::from(heads.d_qk);
        let head_tokens = |tokens: u128| tokens * u128::from(heads.kv_heads);
        let kv_bytes = |tokens: u128| self.kv.bytes(head_tokens(tokens) * u128::from(heads.d_qk + heads.d_v));
        let paged_tokens = pages * u128::from(self.block_size);
        let scales = match self.kv_scale {
            KvScale::None => 0,
            KvScale::PerTensor => 2 * Dtype::F32.bytes(1),
            KvScale::PerToken => 2 * Dtype::F32.bytes(head_tokens(paged_tokens)),
        };
        let tables = Dtype::I32.bytes(pages + batch);
        let q_bytes = self.q.bytes(rows);
        let mut work = Work {
            bytes_read: q_bytes + kv_bytes(paged_tokens) + scales + tables,
            bytes_written: self.out.bytes(rows),
            ..Work::default()
        };
        work.add_flops(self.q, heads.flops(pairs));
        let per_head = format!("{} query heads·({} + {})", heads.q_heads, heads.d_qk, heads.d_v);
        work.explain = vec![
            format!("FLOPs {} = 2·{pairs} pairs·{per_head}", heads.flops(pairs)),
            format!(
                "read {} = Q {q_bytes} + KV {} ({pages} pages of {} tokens, once a KV head; the {tokens} visible tokens alone: \
                 {}) + scales {scales} + block table and lengths {tables}",
                work.bytes_read,
                kv_bytes(paged_tokens),
                self.block_size,
                kv_bytes(tokens)
            ),
            format!("written {} = out", work.bytes_written),
        ];
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        let row = self.heads.q_heads * self.heads.d_qk;
        data::fill_queries(tensors.get_mut("q"), seed, self.mask, &self.spans, row, 1.0);
        let unit = if self.kv.is_fp8() { FP8_UNIT } else { 1.0 };
        random::fill_normal(tensors.get_mut("k_cache"), seed ^ 1, 0.0, unit);
        random::fill_normal(tensors.get_mut("v_cache"), seed ^ 2, 0.0, unit);
        if self.kv_scale != KvScale::None {
            random::fill_scales(tensors.get_mut("k_scale"), seed ^ 3, 1.0 / unit);
            random::fill_scales(tensors.get_mut("v_scale"), seed ^ 4, 1.0 / unit);
        }
        self.fill_tables(seed, tensors);
    }

    fn reference(&self, tensors: &mut TensorSet) {
        let mut out = tensors.take("out");
        let rows = cache::Inputs::new(self, tensors);
        attention::reference::attend(self.heads, self.mask, &self.spans, &rows, self.out, out.bytes_mut());
        tensors.put(out);
    }

    fn naive(&self, tensors: &TensorSet, _name: &str, indices: &[usize]) -> Vec<f64> {
        let places = indices.iter().map(|index| {
            let index = *index as u64;
            let (row, d) = (index / self.heads.d_v, index % self.heads.d_v);
            let (token, head) = (row / self.heads.q_heads, row % self.heads.q_heads);
            Place { sequence: (token / self.q_len) as usize, index: token % self.q_len, head, d }
        });
        let elements = cache::Inputs::new(self, tensors);
        attention::naive::attend(self.heads, self.mask, &self.spans, &elements, places)
    }

    /// As for every attention, but for an fp8 cache beside wider queries 2e-2, which aiter allows its bf16/fp8 kernels.
    /// All scores of a row for each of its elements.
    fn naive_flops(&self) -> u128 {
        self.work().total_flops() * u128::from(self.heads.d_v) / written_elements(&self.tensors())
    }

    fn tolerance(&self, _name: &str) -> Tolerance {
        const FP8_CACHE: f64 = 2e-2;
        let tolerance = attention::tolerance(self.q, self.out);
        if self.kv.is_fp8() { Tolerance { abs: FP8_CACHE, rel: FP8_CACHE, ..tolerance } } else { tolerance }
    }
}

impl PagedAttention {
    /// Gives every sequence its pages, in an order that is a random permutation of the cache's.
    fn fill_tables(&self, seed: u64, tensors: &mut TensorSet) {
        let mut order: Vec<i32> = (0..self.pages as i32).collect();
        let mut rng = random::rng(seed, "block_table");
        for last in (1..order.len()).rev() {
            let other = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
            order.swap(last, other as usize);
        }
        let stride = self.longest_table() as usize;
        let table = tensors.get_mut("block_table").view_mut::<i32>();
        table.fill(0);
        let mut next = order.iter();
        for (span, row) in self.spans.iter().zip(table.chunks_exact_mut(stride)) {
            let used = span.kv_len.div_ceil(self.block_size) as usize;
            row[..used].iter_mut().zip(&mut next).for_each(|(entry, page)| *entry = *page);
        }
        let lens = tensors.get_mut("context_lens").view_mut::<i32>();
        lens.iter_mut().zip(&self.spans).for_each(|(len, span)| *len = span.kv_len as i32);
    }
}
