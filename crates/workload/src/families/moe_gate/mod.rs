//! `moe_gate`: choosing the experts of each token of a mixture-of-experts layer, and their weights.
//!
//! Scores s are the softmax of a token's logits over all experts, or the sigmoid of each. Chosen are the `topk` experts with the
//! largest s, or s + bias when `bias=true`; of equal ones the lowest first, and they are listed in that order. With `groups` > 1 only the
//! `topk_groups` best groups of experts / groups neighbours take part: a group is as good as its best expert, or with a bias as
//! the sum of its best two (DeepSeek V2 and V3). Weights are the s of the chosen, divided by their sum when `renormalize=true`,
//! times `scale`.
//!
//! Keys: `tokens`, `experts` (at most 1024), `topk` (at most 32), `score=softmax|sigmoid`, `renormalize=true|false` (default true),
//! `bias=true|false` (default false), `groups`, `topk_groups` (default 1), `scale` (default 1). Dtype roles: `logits` (bf16, f16,
//! f32), `bias` (the same; default f32).
//!
//! | tensor | dims | |
//! |---|---|---|
//! | `logits` | \[tokens, experts\] | |
//! | `bias` | \[experts\] | with `bias=true` |
//! | `topk_weights` | f32 \[tokens, topk\] | |
//! | `topk_ids` | i32 \[tokens, topk\] | |
//!
//! Data: each token has the quantiles of a logistic distribution in an order of its own, times a factor of its own between ½ and 1,
//! and is drawn again while two candidates stand so close that rounding could swap them. So ids are the same for every
//! correct kernel, and are compared exactly.

mod data;
mod recover;
mod reference;
mod shape;
#[cfg(test)]
mod tests;

pub use shape::{MoeGate, Score};

pub(crate) use recover::recover;

use crate::families::sizes;
use crate::{
    CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, TensorSet, TensorSpec, Tolerance, Work, Workload, random,
};

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(MoeGate::new(shape, dtypes, options)?))
}

impl Workload for MoeGate {
    fn family(&self) -> Family {
        Family::MoeGate
    }

    fn shape(&self) -> ShapeMap {
        self.canonical()
    }

    fn dtypes(&self) -> Dtypes {
        match self.bias {
            None => Dtypes::uniform(self.logits),
            Some(bias) => sizes::shown(&[("logits", self.logits), ("bias", bias)]),
        }
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let mut tensors = vec![TensorSpec::input("logits", self.logits, &[self.tokens, self.experts])];
        if let Some(bias) = self.bias {
            tensors.push(TensorSpec::input("bias", bias, &[self.experts]));
        }
        let chosen = [self.tokens, self.topk];
        tensors.push(TensorSpec::output("topk_weights", Dtype::F32, &chosen));
        tensors.push(TensorSpec::output("topk_ids", Dtype::I32, &chosen));
        tensors
    }

    /// What no kernel can leave out, in f32 operations a token. E − 1 comparisons choose; both scores grow with the logit, so that
    /// without a bias only the experts whose score enters a result are scored.
    fn work(&self) -> Work {
        let (experts, topk) = (u128::from(self.experts), u128::from(self.topk));
        let biased = self.bias.is_some();
        let choosing = experts - 1 + if biased { experts } else { 0 };
        let groups = match (self.groups, biased) {
            (1, _) => 0,
            // Comparing groups, and adding the best two of each.
            (groups, true) => 2 * u128::from(groups) - 1,
            (groups, false) => u128::from(groups) - 1,
        };
        let scored = match self.score {
            _ if biased => experts,
            Score::Softmax if !self.renormalize => experts,
            _ => topk,
        };
        let scoring = match self.score {
            // exp(−l), 1 + it, its reciprocal.
            Score::Sigmoid => 3 * scored,
            // l − max, exp, and their sum; times its reciprocal where the score itself is needed.
            Score::Softmax => 3 * scored - 1 + if biased { experts } else { topk },
        };
        // A softmax of the chosen alone is normalised already.
        let renormalised = self.renormalize && (biased || self.score == Score::Sigmoid);
        let normalising = if renormalised { 2 * topk - 1 } else { 0 };
        let per_token = choosing + groups + scoring + normalising;
        let tokens = u128::from(self.tokens);
        let mut work = Work::default();
        work.add_flops(Dtype::F32, tokens * per_token);
        let logits = self.logits.bytes(tokens * experts);
        let bias = self.bias.map_or(0, |bias| bias.bytes(experts));
        work.bytes_read = logits + bias;
        work.bytes_written = (Dtype::F32.bytes(1) + Dtype::I32.bytes(1)) * tokens * topk;
        work.explain = vec![
            format!(
                "FLOPs {} = {tokens} tokens·({choosing} to choose + {groups} for groups + {scoring} to score {scored} experts + \
                 {normalising} to renormalize) (f32)",
                tokens * per_token
            ),
            format!("read {} = logits {logits} + bias {bias}", work.bytes_read),
            format!("written {} = weights and ids of {topk} experts a token", work.bytes_written),
        ];
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        if self.bias.is_some() {
            random::fill_normal(tensors.get_mut("bias"), seed, 0.0, 0.1);
        }
        data::fill_logits(self, seed, tensors);
    }

    fn reference(&self, tensors: &mut TensorSet) {
        reference::reference(self, tensors);
    }

    fn naive(&self, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
        reference::naive(self, tensors, name, indices)
    }

    /// Every element scores its whole row.
    fn naive_flops(&self) -> u128 {
        u128::from(self.experts) * (u128::from(self.experts) + 4)
    }

    /// Ids are exact; weights differ by the hardware's exponential and by the order of f32 sums.
    fn tolerance(&self, name: &str) -> Tolerance {
        let (abs, rel) = if name == "topk_ids" { (0.0, 0.0) } else { (1e-6, 1e-4) };
        Tolerance { abs, rel, mismatch_share: 0.0 }
    }
}
