//! How a model is split over GPUs.

use super::ModelError;
use kbench_workload::DtypeTag;

/// The most ranks of one model.
const MOST_RANKS: u64 = 4096;

/// How a model is served: what neither its config nor a label says.
///
/// Tensor parallelism (`--tp`) splits heads, MLP widths and the vocabulary. Expert parallelism (`--ep`) splits the
/// experts: within the tensor-parallel group when `ep` ≤ `tp` (experts are then tp/ep-way split in width too), over
/// `ep/tp` data-parallel groups of it when `ep` > `tp`, whose tokens are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    tp: u64,
    ep: u64,
    /// Dtype of the KV cache; `None`: the model's, which is then an assumption.
    pub kv_dtype: Option<DtypeTag>,
    /// Tokens of a KV-cache page; `None`: not known, left to the family's default.
    pub block_size: Option<u64>,
}

impl Serving {
    /// Tensor- and expert-parallel ranks, each at least 1; one must divide the other.
    ///
    /// # Errors
    /// When a count is 0 or absurd, or neither divides the other.
    pub fn new(tp: u64, ep: u64) -> Result<Self, ModelError> {
        if !(1..=MOST_RANKS).contains(&tp) || !(1..=MOST_RANKS).contains(&ep) {
            return Err(split(format!("tp={tp} and ep={ep} must be from 1 to {MOST_RANKS}")));
        }
        if !tp.is_multiple_of(ep) && !ep.is_multiple_of(tp) {
            return Err(split(format!("of tp={tp} and ep={ep} one must divide the other")));
        }
        Ok(Self { tp, ep, kv_dtype: None, block_size: None })
    }

    /// Tensor-parallel ranks.
    pub fn tp(&self) -> u64 {
        self.tp
    }

    /// Expert-parallel ranks.
    pub fn ep(&self) -> u64 {
        self.ep
    }

    /// A head count or width of one rank.
    pub(super) fn share(&self, what: &str, whole: u64) -> Result<u64, ModelError> {
        divide(what, whole, self.tp, "tp")
    }

    /// Key/value heads of one rank: heads / tp, and one where there are fewer heads than ranks (replicated then).
    pub(super) fn kv_heads(&self, heads: u64) -> Result<u64, ModelError> {
        if heads >= self.tp {
            return self.share("key/value heads", heads);
        }
        if !self.tp.is_multiple_of(heads) {
            return Err(split(format!("{heads} key/value heads do not divide tp={}", self.tp)));
        }
        Ok(1)
    }

    /// Rows of the vocabulary on one rank, rounded up.
    pub(super) fn vocab(&self, vocab: u64) -> u64 {
        vocab.div_ceil(self.tp)
    }

    /// Experts on one rank, rounded up.
    pub(super) fn experts(&self, experts: u64) -> u64 {
        experts.div_ceil(self.ep)
    }

    /// Width of an expert on one rank.
    pub(super) fn expert_width(&self, width: u64) -> Result<u64, ModelError> {
        divide("expert width", width, (self.tp / self.ep).max(1), "tp/ep")
    }

    /// Data-parallel groups that exchange tokens for their experts.
    pub(super) fn data_groups(&self) -> u64 {
        (self.ep / self.tp).max(1)
    }
}

impl Default for Serving {
    /// One GPU.
    fn default() -> Self {
        Self { tp: 1, ep: 1, kv_dtype: None, block_size: None }
    }
}

fn divide(what: &str, whole: u64, by: u64, name: &str) -> Result<u64, ModelError> {
    if whole.is_multiple_of(by) {
        Ok(whole / by)
    } else {
        Err(split(format!("{what} {whole} is not a multiple of {name}={by}")))
    }
}

fn split(reason: String) -> ModelError {
    ModelError::Split { reason }
}
