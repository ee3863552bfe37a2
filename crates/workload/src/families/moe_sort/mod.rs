//! `moe_sort`: the tables that grouped expert kernels run by, from the experts of each token.
//!
//! Choices are sorted by expert, then token, then slot (the place of the choice in its token), and each expert's are padded to whole
//! blocks of `block_m`, an expert without tokens to none. This is the layout of aiter's and CK's MoE kernels.
//!
//! Keys: `tokens`, `experts`, `topk`, `block_m` (default 32), and `routing=balanced|uniform|zipf` (default uniform) or
//! `expert_tokens=[..]`, as in `moe_gemm`. There are no dtypes to choose.
//!
//! | tensor | dims | |
//! |---|---|---|
//! | `topk_ids` | i32 \[tokens, topk\] | different within a token |
//! | `topk_weights` | f32 \[tokens, topk\] | |
//! | `sorted_token_ids` | i32 \[L\] | slot << 24 \| token; padding topk << 24 \| tokens |
//! | `sorted_weights` | f32 \[L\] | weight of the choice; 0 for padding |
//! | `sorted_expert_ids` | i32 \[⌈L / block_m⌉\] | expert of each block |
//! | `num_valid_ids` | i32 \[2\] | padded length, tokens |
//!
//! L = tokens·topk + experts·block_m − topk holds whatever the routing. Entries beyond the padded length are not written.
//! Routing is drawn when the case is built, so that [`Workload::work`] is exact for the very routing that is run.

mod recover;
mod reference;
#[cfg(test)]
mod tests;

pub(crate) use recover::recover;

use crate::families::checks::{only_roles, own_dtype};
use crate::families::moe_gemm::Routing;
use crate::families::moe_gemm::routing::Sorted;
use crate::families::sizes;
use crate::{
    CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, TensorSet, TensorSpec, Tolerance, Work, Workload, random,
};
use rand::Rng as _;

const FAMILY: &str = "moe_sort";
const KEYS: &[&str] = &["tokens", "experts", "topk", "block_m", "routing", "expert_tokens"];
/// Tokens and slots share 32 bits, 24 for the token; the padding's are one more.
const MOST_TOKENS: u64 = (1 << 24) - 1;
const MOST_TOPK: u64 = (1 << 7) - 1;
const MOST_EXPERTS: u64 = 1 << 14;
const MOST_BLOCK: u64 = 1 << 12;
/// Routing is drawn when a case is built: this bounds its memory and time.
const MOST_SLOTS: u64 = 1 << 24;

/// A validated case with its routing.
#[derive(Clone, Debug)]
pub struct MoeSort {
    /// Tokens of the step.
    pub tokens: u64,
    /// Experts of this rank.
    pub experts: u64,
    /// Experts of a token.
    pub topk: u64,
    /// Rows of a block.
    pub block_m: u64,
    /// How tokens are spread over experts.
    pub routing: Routing,
    /// Experts of each token, [tokens × topk].
    ids: Vec<u32>,
    /// Blocks of all experts.
    blocks: u64,
}

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(MoeSort::new(shape, dtypes, options)?))
}

impl MoeSort {
    /// Validates a shape and draws the routing from the options' seed.
    ///
    /// # Errors
    /// On a missing, unknown, contradictory or impossible key, or a dtype.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, KEYS)?;
        only_roles(FAMILY, dtypes, &["weights"])?;
        if let Some(dtype) = own_dtype(dtypes, "weights", options.fp8).filter(|dtype| *dtype != Dtype::F32) {
            return Err(ShapeError::dtype(dtype, "weights are f32 and ids i32: leave the dtype out or give f32"));
        }
        let tokens = sizes::need(shape, FAMILY, "tokens", "tokens of the step", MOST_TOKENS)?;
        let experts = sizes::need(shape, FAMILY, "experts", "experts of this rank", MOST_EXPERTS)?;
        let topk = sizes::need(shape, FAMILY, "topk", "experts of a token", experts.min(MOST_TOPK))?;
        if tokens * topk > MOST_SLOTS {
            return Err(ShapeError::invalid("tokens", tokens, format!("tokens·topk must be at most {MOST_SLOTS}")));
        }
        let block_m = sizes::optional(shape, "block_m", 32, MOST_BLOCK)?;
        let routing = Routing::from_shape(shape, tokens, topk, experts)?;
        let ids = routing.draw(tokens as usize, topk as usize, experts as usize, options.seed);
        let blocks = Sorted::new(&ids, experts as usize).counts().map(|count| count.div_ceil(block_m)).sum();
        Ok(Self { tokens, experts, topk, block_m, routing, ids, blocks })
    }

    /// Entries that the tables have room for.
    fn capacity(&self) -> u64 {
        self.tokens * self.topk + self.experts * self.block_m - self.topk
    }
}

impl Workload for MoeSort {
    fn family(&self) -> Family {
        Family::MoeSort
    }

    fn shape(&self) -> ShapeMap {
        let shape = ShapeMap::new()
            .with("tokens", self.tokens)
            .with("experts", self.experts)
            .with("topk", self.topk)
            .with("block_m", self.block_m);
        match &self.routing {
            Routing::Given(counts) => shape.with_list("expert_tokens", counts.clone()),
            drawn => shape.with_word("routing", drawn.name()),
        }
    }

    fn dtypes(&self) -> Dtypes {
        Dtypes::uniform(Dtype::F32)
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let choices = [self.tokens, self.topk];
        let capacity = self.capacity();
        vec![
            TensorSpec::input("topk_ids", Dtype::I32, &choices),
            TensorSpec::input("topk_weights", Dtype::F32, &choices),
            TensorSpec::inout("sorted_token_ids", Dtype::I32, &[capacity]),
            TensorSpec::inout("sorted_weights", Dtype::F32, &[capacity]),
            TensorSpec::inout("sorted_expert_ids", Dtype::I32, &[capacity.div_ceil(self.block_m)]),
            TensorSpec::output("num_valid_ids", Dtype::I32, &[2]),
        ]
    }

    /// No FLOPs: it moves and counts. What is not written of the tables is not counted.
    fn work(&self) -> Work {
        let choices = u128::from(self.tokens * self.topk);
        let padded = u128::from(self.blocks * self.block_m);
        let work = Work {
            bytes_read: 8 * choices,
            bytes_written: 8 * padded + 4 * u128::from(self.blocks) + 8,
            ..Work::default()
        };
        let explain = vec![
            format!("read {} = id and weight of {choices} choices", work.bytes_read),
            format!(
                "written {} = token and weight of {padded} entries ({} of them padding) + experts of {} blocks + lengths",
                work.bytes_written,
                padded - choices,
                self.blocks
            ),
        ];
        Work { explain, ..work }
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        let ids = tensors.get_mut("topk_ids").view_mut::<i32>();
        ids.iter_mut().zip(&self.ids).for_each(|(entry, id)| *entry = *id as i32);
        let mut rng = random::rng(seed, "topk_weights");
        for token in tensors.get_mut("topk_weights").view_mut::<f32>().chunks_exact_mut(self.topk as usize) {
            token.iter_mut().for_each(|weight| *weight = 0.5 + (rng.next_u64() >> 40) as f32 / (1 << 24) as f32);
            let sum: f32 = token.iter().sum();
            token.iter_mut().for_each(|weight| *weight /= sum);
        }
        // What no correct kernel writes, so that what it leaves can be told from what it writes.
        tensors.get_mut("sorted_token_ids").view_mut::<i32>().fill(-1);
        tensors.get_mut("sorted_expert_ids").view_mut::<i32>().fill(-1);
        tensors.get_mut("sorted_weights").view_mut::<f32>().fill(-1.0);
    }

    fn reference(&self, tensors: &mut TensorSet) {
        reference::reference(self, tensors);
    }

    fn naive(&self, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
        reference::naive(self, tensors, name, indices)
    }

    /// The tables are built once a call of `naive`: a pass over the choices an expert.
    fn naive_flops(&self) -> u128 {
        1
    }

    /// The order is fixed and nothing is computed: exact.
    fn tolerance(&self, _name: &str) -> Tolerance {
        Tolerance { abs: 0.0, rel: 0.0, mismatch_share: 0.0 }
    }
}
