//! `fmha`: attention of a prefill over dense keys and values.
//!
//! Keys: `batch`, `q_len`, `kv_len` (default `q_len`), or one length a sequence in `q_lens=[..]`, `kv_lens=[..]`; `q_heads`,
//! `kv_heads`, `head_dim`, `v_head_dim` (default `head_dim`), `causal` (default true, aligned to the bottom right),
//! `window`, `layout`. Dtype roles `q`, `k`, `v` (the same for all three: bf16, f16, f32, or fp8) and `out`.
//!
//! | layout | q | k, v | out | more |
//! |---|---|---|---|---|
//! | `bshd` | \[batch, q_len, q_heads, head_dim\] | \[batch, kv_len, kv_heads, ..\] | \[batch, q_len, q_heads, v_head_dim\] | |
//! | `bhsd` | \[batch, q_heads, q_len, head_dim\] | \[batch, kv_heads, kv_len, ..\] | \[batch, q_heads, q_len, v_head_dim\] | |
//! | `thd` | \[Σ q_lens, q_heads, head_dim\] | \[Σ kv_lens, kv_heads, ..\] | \[Σ q_lens, q_heads, v_head_dim\] | `cu_seqlens_q`, `cu_seqlens_k` i32 \[batch+1\] |
//!
//! fp8 operands come with `q_descale`, `k_descale`, `v_descale` f32 \[batch, kv_heads\]: a stored element times its descale is
//! the real one (all query heads of a group share one).

mod recover;
mod reference;
mod shape;
#[cfg(test)]
mod tests;

pub use shape::{Fmha, Layout};

pub(crate) use recover::recover;

use crate::families::attention::{self, data};
use crate::families::sizes;
use crate::family::written_elements;
use crate::tensor::{TensorSet, TensorSpec};
use crate::{CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, Tolerance, Work, Workload, random};

/// What 1.0 of real data is stored as in fp8, before descaling: it leaves fifteen deviations of range.
const FP8_UNIT: f32 = 16.0;

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(Fmha::new(shape, dtypes, options.fp8)?))
}

impl Workload for Fmha {
    fn family(&self) -> Family {
        Family::Fmha
    }

    fn shape(&self) -> ShapeMap {
        self.canonical()
    }

    fn dtypes(&self) -> Dtypes {
        let operands = self.operands;
        sizes::shown(&[("q", operands), ("k", operands), ("v", operands), ("out", self.out)])
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let heads = self.heads;
        let batch = self.spans.len() as u64;
        let input =
            |name, tokens: Tokens, count, d| TensorSpec::input(name, self.operands, &self.dims(tokens, count, d));
        let mut specs = vec![
            input("q", Tokens::Queries, heads.q_heads, heads.d_qk),
            input("k", Tokens::Keys, heads.kv_heads, heads.d_qk),
            input("v", Tokens::Keys, heads.kv_heads, heads.d_v),
        ];
        if self.operands.is_fp8() {
            for name in ["q_descale", "k_descale", "v_descale"] {
                specs.push(TensorSpec::input(name, Dtype::F32, &[batch, heads.kv_heads]));
            }
        }
        if self.layout == Layout::Thd {
            for name in ["cu_seqlens_q", "cu_seqlens_k"] {
                specs.push(TensorSpec::input(name, Dtype::I32, &[batch + 1]));
            }
        }
        specs.push(TensorSpec::output("out", self.out, &self.dims(Tokens::Queries, heads.q_heads, heads.d_v)));
        specs
    }

    fn work(&self) -> Work {
        let heads = self.heads;
        let (mut pairs, mut queries, mut keys, mut written) = (0, 0, 0, 0);
        for span in &self.spans {
            pairs += self.mask.pairs(*span);
            queries += u128::from(self.mask.seeing_queries(*span));
            let touched = self.mask.touched_keys(*span);
            keys += u128::from(touched.end - touched.start);
            written += u128::from(span.q_len);
        }
        let vectors = |tokens: u128, count: u64, d: u64| tokens * u128::from(count) * u128::from(d);
        let q_bytes = self.operands.bytes(vectors(queries, heads.q_heads, heads.d_qk));
        let kv_bytes = self.operands.bytes(vectors(keys, heads.kv_heads, heads.d_qk + heads.d_v));
        let tables: u128 = self
            .tensors()
            .iter()
            .filter(|spec| !["q", "k", "v", "out"].contains(&spec.name))
            .map(TensorSpec::bytes)
            .sum();
        let mut work = Work {
            bytes_read: q_bytes + kv_bytes + tables,
            bytes_written: self.out.bytes(vectors(written, heads.q_heads, heads.d_v)),
            ..Work::default()
        };
        work.add_flops(self.operands, heads.flops(pairs));
        work.explain = vec![
            format!(
                "FLOPs {} = 2·{pairs} pairs·{} query heads·({} + {})",
                heads.flops(pairs),
                heads.q_heads,
                heads.d_qk,
                heads.d_v
            ),
            format!(
                "read {} = Q {q_bytes} + KV {kv_bytes} (once a KV head) + tables and descales {tables}",
                work.bytes_read
            ),
            format!("written {} = out", work.bytes_written),
        ];
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        let fp8 = self.operands.is_fp8();
        let unit = if fp8 { FP8_UNIT } else { 1.0 };
        let row = self.heads.q_heads * self.heads.d_qk;
        data::fill_queries(tensors.get_mut("q"), seed, self.mask, &self.spans, row, unit);
        random::fill_normal(tensors.get_mut("k"), seed ^ 1, 0.0, unit);
        random::fill_normal(tensors.get_mut("v"), seed ^ 2, 0.0, unit);
        if fp8 {
            for (name, salt) in [("q_descale", 3), ("k_descale", 4), ("v_descale", 5)] {
                random::fill_scales(tensors.get_mut(name), seed ^ salt, 1.0 / FP8_UNIT);
            }
        }
        if self.layout == Layout::Thd {
            for (name, starts) in [("cu_seqlens_q", &self.q_starts), ("cu_seqlens_k", &self.kv_starts)] {
                let table = tensors.get_mut(name).view_mut::<i32>();
                table.iter_mut().zip(starts).for_each(|(entry, start)| *entry = *start as i32);
            }
        }
    }

    fn reference(&self, tensors: &mut TensorSet) {
        let mut out = tensors.take("out");
        let rows = reference::Inputs::new(self, tensors);
        attention::reference::attend(self.heads, self.mask, &self.spans, &rows, self.out, out.bytes_mut());
        tensors.put(out);
    }

    fn naive(&self, tensors: &TensorSet, _name: &str, indices: &[usize]) -> Vec<f64> {
        let places = indices.iter().map(|index| self.place(*index as u64));
        let elements = reference::Inputs::new(self, tensors);
        attention::naive::attend(self.heads, self.mask, &self.spans, &elements, places)
    }

    /// All scores of a row for each of its elements.
    fn naive_flops(&self) -> u128 {
        self.work().total_flops() * u128::from(self.heads.d_v) / written_elements(&self.tensors())
    }

    fn tolerance(&self, _name: &str) -> Tolerance {
        attention::tolerance(self.operands, self.out)
    }
}

/// Which lengths a tensor's token dimension has.
#[derive(Clone, Copy)]
enum Tokens {
    Queries,
    Keys,
}
