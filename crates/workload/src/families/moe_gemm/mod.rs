//! `moe_gemm`: the grouped matrix products of a mixture-of-experts layer.
//!
//! Keys: `tokens`, `hidden`, `inter` (of this rank), `experts`, `topk`, `stage`, `gated` (default true) and `act` (`silu` or
//! `gelu`, the exact one) where the stage has an activation, `routing=balanced|uniform|zipf` or `expert_tokens=[..]`, `quant`,
//! `block_m` (default 32: rows a kernel pads each expert to; it changes only the padding reported). Dtype roles `x`, `w`, `out`.
//!
//! | stage | input | weights | output |
//! |---|---|---|---|
//! | `gate_up` | `x` \[tokens, hidden\] | `w` \[experts, 2·inter, hidden\], gate then up (\[experts, inter, hidden\] when not gated) | \[tokens·topk, inter\]: act(gate)·up |
//! | `down` | `x` \[tokens·topk, inter\] | `w` \[experts, hidden, inter\] | \[tokens, hidden\]: Σ over a token's experts, times `topk_weights` |
//! | `fused` | `x` \[tokens, hidden\] | `w1`, `w2` as above | \[tokens, hidden\]: both in one operator, the intermediate not stored |
//!
//! Row token·topk + choice of a \[tokens·topk, ..\] tensor belongs to that choice. `topk_ids` i32 \[tokens, topk\] (different
//! within a token) and, where outputs are summed, `topk_weights` f32 \[tokens, topk\]. Sort tables that a device kernel wants are
//! derived from `topk_ids` and are not compulsory work. Routing is drawn when the case is built, so that [`Workload::work`] is
//! exact for the very routing that is run.
//!
//! | quant | x | w | scales: stored · scale is real |
//! |---|---|---|---|
//! | `none` | bf16, f16, f32 | the same | |
//! | `per_token` | fp8 | fp8 | `x_scale` f32 \[rows\], `w_scale` f32 \[experts, n\] |
//! | `block128` | fp8 | fp8 | `x_scale` f32 \[rows, ⌈k/128⌉\], `w_scale` f32 \[experts, ⌈n/128⌉, ⌈k/128⌉\] |
//! | `mx32` | bf16, f16, f32 | fp4_e2m1 | `w_scale` e8m0 \[experts, n, k/32\] |

mod activation;
mod grouped;
mod naive;
mod recover;
pub(crate) mod routing;
mod shape;
#[cfg(test)]
mod tests;
mod weights;

pub use routing::Routing;
pub use shape::{Activation, MoeGemm, Quant, Stage};

pub(crate) use recover::recover;

use crate::families::sizes;
use crate::tensor::{Tensor, TensorSet, TensorSpec};
use crate::{CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, Tolerance, Work, Workload, random};
use grouped::{Epilogue, Rows};
use rand::Rng as _;
use shape::Product;

/// What 1.0 of real data is stored as in fp8: it leaves fifteen deviations of range.
const FP8_UNIT: f32 = 16.0;
/// The same in fp4, whose largest value is 6.
const FP4_UNIT: f32 = 2.0;

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(MoeGemm::new(shape, dtypes, options)?))
}

impl Workload for MoeGemm {
    fn family(&self) -> Family {
        Family::MoeGemm
    }

    fn shape(&self) -> ShapeMap {
        self.canonical()
    }

    fn dtypes(&self) -> Dtypes {
        sizes::shown(&[("x", self.x), ("w", self.w), ("out", self.out)])
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let rows = self.input_rows();
        let mut specs = vec![TensorSpec::input("x", self.x, &[rows, self.products()[0].k])];
        if let Some(dims) = self.quant.input_scale_dims(rows, self.products()[0].k) {
            specs.push(TensorSpec::input("x_scale", Dtype::F32, &dims));
        }
        for product in self.products() {
            specs.push(TensorSpec::input(product.name, self.w, &[self.experts, product.n, product.k]));
            if let Some((dtype, dims)) = self.quant.weight_scale(self.experts, product) {
                specs.push(TensorSpec::input(product.scale_name, dtype, &dims));
            }
        }
        specs.push(TensorSpec::input("topk_ids", Dtype::I32, &[self.tokens, self.topk]));
        if self.stage.sums() {
            specs.push(TensorSpec::input("topk_weights", Dtype::F32, &[self.tokens, self.topk]));
        }
        specs.push(TensorSpec::output("out", self.out, &self.output_dims()));
        specs
    }

    fn work(&self) -> Work {
        let slots = u128::from(self.tokens * self.topk);
        let hit = self.sorted.counts().filter(|count| *count > 0).count() as u128;
        let padding: u128 =
            self.sorted.counts().map(|count| u128::from(count.next_multiple_of(self.block_m) - count)).sum();
        let mut work = Work::default();
        for product in self.products() {
            let weights = u128::from(product.n) * u128::from(product.k);
            let scales = self
                .quant
                .weight_scale(1, product)
                .map_or(0, |(dtype, dims)| dtype.bytes(dims.iter().map(|dim| u128::from(*dim)).product()));
            let bytes = hit * (self.w.bytes(weights) + scales);
            work.add_flops(self.x, 2 * slots * weights);
            work.bytes_read += bytes;
            if padding > 0 {
                *work.padding_flops.entry(self.x).or_default() += 2 * padding * weights;
            }
            work.explain.push(format!(
                "{}: FLOPs {} = 2·{slots} routed rows·{}·{}; weights read {bytes} = {hit} of {} experts hit, scales included",
                product.name,
                2 * slots * weights,
                product.n,
                product.k,
                self.experts
            ));
        }
        let others: u128 = self
            .tensors()
            .iter()
            .filter(|spec| !self.is_weight(spec.name) && spec.name != "out")
            .map(TensorSpec::bytes)
            .sum();
        work.bytes_read += others;
        work.bytes_written = self.out.bytes(self.output_dims().iter().map(|dim| u128::from(*dim)).product());
        work.explain
            .push(format!("read besides weights {others} = x, its scales, routing; written {}", work.bytes_written));
        work.explain.push(format!("padding to {} rows an expert: {padding} rows", self.block_m));
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        let x_unit = if self.x.is_fp8() { FP8_UNIT } else { 1.0 };
        random::fill_normal(tensors.get_mut("x"), seed, 0.0, x_unit);
        if self.quant.scales_input() {
            random::fill_scales(tensors.get_mut("x_scale"), seed ^ 1, 1.0 / x_unit);
        }
        for (salt, product) in (2..).step_by(2).zip(self.products()) {
            // Deviation 1/√k keeps sums of k products at that of x.
            let deviation = 1.0 / (product.k as f32).sqrt();
            let unit = match self.quant {
                Quant::None => deviation,
                Quant::PerToken | Quant::Block128 => FP8_UNIT,
                Quant::Mx32 => FP4_UNIT,
            };
            random::fill_normal(tensors.get_mut(product.name), seed ^ salt, 0.0, unit);
            if self.quant != Quant::None {
                random::fill_scales(tensors.get_mut(product.scale_name), seed ^ (salt + 1), deviation / unit);
            }
        }
        let ids = tensors.get_mut("topk_ids").view_mut::<i32>();
        ids.iter_mut().zip(&self.ids).for_each(|(entry, id)| *entry = *id as i32);
        if self.stage.sums() {
            fill_weights(seed, self.topk as usize, tensors.get_mut("topk_weights"));
        }
    }

    fn reference(&self, tensors: &mut TensorSet) {
        let mut out = tensors.take("out");
        let x = Rows::tensor(self, tensors);
        let gate_up = Epilogue::Activate { gated: self.gated, act: self.act };
        let weights: &[f32] = if self.stage.sums() { tensors.get("topk_weights").view() } else { &[] };
        let down = Epilogue::Sum { weights, topk: self.topk as usize };
        match self.products() {
            [product] if self.stage == Stage::GateUp => {
                grouped::run(self, product, tensors, &x, gate_up, self.out, out.bytes_mut());
            }
            [product] => grouped::run(self, product, tensors, &x, down, self.out, out.bytes_mut()),
            [first, second, ..] => {
                let mut intermediate = vec![0.0f32; self.ids.len() * self.inter as usize];
                let bytes = bytemuck::cast_slice_mut(&mut intermediate);
                grouped::run(self, first, tensors, &x, gate_up, Dtype::F32, bytes);
                let rows = Rows::plain(&intermediate, self.inter as usize);
                grouped::run(self, second, tensors, &rows, down, self.out, out.bytes_mut());
            }
            [] => {}
        }
        tensors.put(out);
    }

    fn naive(&self, tensors: &TensorSet, _name: &str, indices: &[usize]) -> Vec<f64> {
        naive::elements(self, tensors, indices)
    }

    /// Data are made so that outputs are of order 1. Kernels round the output once (1e-2 of bf16 and f16 is 2.5 and 20 units in
    /// the last place); where they sum over experts they may round each part before (2e-2), and in one fused operator they may
    /// quantise the intermediate too (5e-2 with fp8, aiter's figure for block scales).
    fn tolerance(&self, _name: &str) -> Tolerance {
        let (abs, rel) = match (self.stage, self.x, self.out) {
            (_, Dtype::F32, Dtype::F32) => (1e-4, 1e-3),
            (Stage::Fused, x, _) if x.is_fp8() => (5e-2, 5e-2),
            (Stage::Down | Stage::Fused, ..) => (2e-2, 2e-2),
            (Stage::GateUp, ..) => (1e-2, 1e-2),
        };
        Tolerance { abs, rel, mismatch_share: 0.01 }
    }
}

/// Positive routing weights that sum to 1 over a token's experts.
fn fill_weights(seed: u64, topk: usize, tensor: &mut Tensor) {
    let mut rng = random::rng(seed, "topk_weights");
    for token in tensor.view_mut::<f32>().chunks_exact_mut(topk) {
        token.iter_mut().for_each(|weight| *weight = 0.5 + (rng.next_u64() >> 40) as f32 / (1 << 24) as f32);
        let sum: f32 = token.iter().sum();
        token.iter_mut().for_each(|weight| *weight /= sum);
    }
}

impl MoeGemm {
    fn is_weight(&self, name: &str) -> bool {
        self.products().iter().any(|product: &Product| name == product.name || name == product.scale_name)
    }
}
