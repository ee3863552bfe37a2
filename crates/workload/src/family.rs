//! Families and the interface of a case.

use crate::dtype::{Dtypes, Fp8Flavor};
use crate::error::ShapeError;
use crate::families;
use crate::op::{OpCall, Recovered};
use crate::shape::ShapeMap;
use crate::tensor::{Role, TensorSet, TensorSpec};
use crate::verify::Tolerance;
use crate::work::Work;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a kernel computes. Those in [`Family::REPLAYABLE`] have a workload; the others are only named and weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Family {
    PagedAttention,
    Fmha,
    MoeGemm,
    Gemm,
    Rmsnorm,
    Activation,
    Mla,
    LinearAttention,
    MoeSort,
    MoeGate,
    Rope,
    KvCache,
    Quant,
    Embedding,
    Sampling,
    LayerNorm,
    Softmax,
    Conv,
    Elementwise,
    Reduction,
    Copy,
    Comm,
    Other,
}

const NAMES: &[(Family, &str)] = &[
    (Family::PagedAttention, "paged_attention"),
    (Family::Fmha, "fmha"),
    (Family::MoeGemm, "moe_gemm"),
    (Family::Gemm, "gemm"),
    (Family::Rmsnorm, "rmsnorm"),
    (Family::Activation, "activation"),
    (Family::Mla, "mla"),
    (Family::LinearAttention, "linear_attention"),
    (Family::MoeSort, "moe_sort"),
    (Family::MoeGate, "moe_gate"),
    (Family::Rope, "rope"),
    (Family::KvCache, "kv_cache"),
    (Family::Quant, "quant"),
    (Family::Embedding, "embedding"),
    (Family::Sampling, "sampling"),
    (Family::LayerNorm, "layer_norm"),
    (Family::Softmax, "softmax"),
    (Family::Conv, "conv"),
    (Family::Elementwise, "elementwise"),
    (Family::Reduction, "reduction"),
    (Family::Copy, "copy"),
    (Family::Comm, "comm"),
    (Family::Other, "other"),
];

impl Family {
    /// Families that kbench can replay.
    pub const REPLAYABLE: &[Family] = &[
        Family::PagedAttention,
        Family::Fmha,
        Family::MoeGemm,
        Family::Gemm,
        Family::Rmsnorm,
        Family::Activation,
        Family::Rope,
        Family::KvCache,
        Family::MoeGate,
        Family::MoeSort,
        Family::Quant,
        Family::Embedding,
        Family::Sampling,
    ];

    /// Every family.
    pub fn all() -> impl Iterator<Item = Family> {
        NAMES.iter().map(|(family, _)| *family)
    }

    /// Name in documents and on the command line.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(family, _)| *family == self).map_or("other", |(_, name)| name)
    }

    /// True when it has a workload.
    pub fn is_replayable(self) -> bool {
        Self::REPLAYABLE.contains(&self)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Family {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let wanted = text.trim().to_ascii_lowercase().replace('-', "_");
        NAMES.iter().find(|(_, name)| *name == wanted).map(|(family, _)| *family).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
            ShapeError::grammar(text, format!("no such family; known are {}", known.join(", ")))
        })
    }
}

/// What a case depends on beyond its shape.
#[derive(Clone, Copy, Debug)]
pub struct CaseOptions {
    /// The device's fp8.
    pub fp8: Fp8Flavor,
    /// Seed of everything drawn: data, routing, page tables, lengths.
    pub seed: u64,
}

/// One case: a family at a validated shape. Implementations hold typed sizes; an invalid case cannot be built.
pub trait Workload: fmt::Debug + Send + Sync {
    /// Its family.
    fn family(&self) -> Family;

    /// The complete canonical shape, defaults filled in: building a case from it gives this case again.
    fn shape(&self) -> ShapeMap;

    /// The complete dtypes, resolved.
    fn dtypes(&self) -> Dtypes;

    /// Its tensors; inputs before outputs.
    fn tensors(&self) -> Vec<TensorSpec>;

    /// Compulsory work of one call.
    fn work(&self) -> Work;

    /// Fills the inputs (and what in-out tensors hold before the call) with seeded data; the same seed gives the same bytes.
    fn fill(&self, seed: u64, tensors: &mut TensorSet);

    /// Computes the outputs: parallel, f32 accumulation or better. It may allocate scratch, but touches no input.
    fn reference(&self, tensors: &mut TensorSet);

    /// A naive second form: elements `indices` (row-major) of output `name`, computed one by one in f64 from the inputs
    /// as they were before the call.
    fn naive(&self, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64>;

    /// FLOPs that [`Workload::naive`] spends on one element, so that callers can choose how many to check. By default every
    /// output costs its share of the call; families whose elements share work (the scores of an attention row) say more.
    fn naive_flops(&self) -> u128 {
        self.work().total_flops() / written_elements(&self.tensors())
    }

    /// How far output `name` of a correct kernel may be from the reference.
    fn tolerance(&self, name: &str) -> Tolerance;
}

/// Elements of all tensors that a call writes, at least 1.
pub(crate) fn written_elements(specs: &[TensorSpec]) -> u128 {
    specs.iter().filter(|spec| spec.role != Role::In).map(TensorSpec::elements).sum::<u128>().max(1)
}

/// Builds a case from a shape.
///
/// # Errors
/// When the family has no workload, a key is missing, unknown or out of range, or the dtypes do not fit.
pub fn case(
    family: Family,
    shape: &ShapeMap,
    dtypes: &Dtypes,
    options: CaseOptions,
) -> Result<Box<dyn Workload>, ShapeError> {
    match family {
        Family::Rmsnorm => families::rmsnorm::build(shape, dtypes, options),
        Family::Gemm => families::gemm::build(shape, dtypes, options),
        Family::Activation => families::activation::build(shape, dtypes, options),
        Family::Fmha => families::fmha::build(shape, dtypes, options),
        Family::PagedAttention => families::paged_attention::build(shape, dtypes, options),
        Family::MoeGemm => families::moe_gemm::build(shape, dtypes, options),
        Family::Rope => families::rope::build(shape, dtypes, options),
        Family::KvCache => families::kv_cache::build(shape, dtypes, options),
        Family::MoeGate => families::moe_gate::build(shape, dtypes, options),
        Family::MoeSort => families::moe_sort::build(shape, dtypes, options),
        Family::Quant => families::quant::build(shape, dtypes, options),
        Family::Embedding => families::embedding::build(shape, dtypes, options),
        Family::Sampling => families::sampling::build(shape, dtypes, options),
        other => Err(ShapeError::NoWorkload(other.name())),
    }
}

/// Recovers family and shape from an operator call: the first family that knows the operator. `None` when none does.
/// A known operator whose arguments cannot be right is an error, not a guess.
pub fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    families::rmsnorm::recover(op)
        .or_else(|| families::gemm::recover(op))
        .or_else(|| families::activation::recover(op))
        .or_else(|| families::fmha::recover(op))
        .or_else(|| families::paged_attention::recover(op))
        .or_else(|| families::moe_gemm::recover(op))
        .or_else(|| families::rope::recover(op))
        .or_else(|| families::kv_cache::recover(op))
        .or_else(|| families::moe_gate::recover(op))
        .or_else(|| families::moe_sort::recover(op))
        .or_else(|| families::quant::recover(op))
        .or_else(|| families::embedding::recover(op))
        .or_else(|| families::sampling::recover(op))
}
