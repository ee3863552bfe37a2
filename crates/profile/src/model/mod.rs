//! Models: what a Hugging Face `config.json` says about the sizes of a model's kernels.
//!
//! [`Model::from_json`] reads the config of the architectures in [`known_architectures`]: dense and mixture-of-experts
//! transformers with grouped-query, multi-head latent, sliding-window, chunked, sparse (top-k) and linear attention.
//! [`Model::step_shapes`] joins it with a step label and the split over GPUs into the shapes that the kernels of one
//! forward pass are expected to have.
//!
//! Values come from the config only. Where Hugging Face itself documents a default for a missing key, that is used and
//! listed in [`Model::assumed`]; everything else that is missing is an error that names it.

mod attention;
mod attention_layers;
mod builder;
mod config;
mod count;
mod error;
mod keys;
mod mlp_layers;
mod order;
mod parallel;
mod quant;
mod shapes;
#[cfg(test)]
mod tests;

pub use attention::AttentionWork;
pub use count::Count;
pub use error::ModelError;
pub use parallel::Serving;
pub use quant::{Quant, WeightGroup};
pub use shapes::{Expected, StepShapes};

use kbench_workload::DtypeTag;

/// Names that [`Model::from_json`] accepts in `architectures`.
pub fn known_architectures() -> impl Iterator<Item = &'static str> {
    config::ARCHITECTURES.iter().flat_map(|(names, _)| names.iter().copied())
}

/// A model: the sizes that its kernels depend on, before it is split over GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// `architectures[0]` of the config.
    pub architecture: String,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Entries of the vocabulary.
    pub vocab: u64,
    /// Dtype of activations and of weights that are not quantised (`torch_dtype`).
    pub dtype: DtypeTag,
    /// How weights are quantised.
    pub quant: Quant,
    /// Activation function of the MLPs, in the words of the `activation` family: `silu`, `gelu`, `gelu_tanh`.
    pub activation: &'static str,
    /// Norms around each block.
    pub norms: NormStyle,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
    /// What the config did not say and a documented default filled in, one sentence each.
    pub assumed: Vec<String>,
}

/// Where a layer normalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormStyle {
    /// Before attention and before the MLP; each norm but the first adds the residual.
    Pre,
    /// Before and after both (Gemma).
    Sandwich,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layer {
    /// Its attention.
    pub attention: Attention,
    /// Its MLP.
    pub mlp: Mlp,
}

/// Attention of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attention {
    /// Multi-head or grouped-query attention.
    Gqa(Gqa),
    /// Multi-head latent attention (DeepSeek V2 and later, Kimi-K2, GLM-5).
    Mla(Mla),
    /// Gated delta net: no query-key pairs, a state of fixed size per head instead of a KV cache.
    Linear(Linear),
}

/// Grouped-query attention, all heads of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gqa {
    /// Query heads.
    pub heads: u64,
    /// Key/value heads.
    pub kv_heads: u64,
    /// Elements of a query and key per head.
    pub head_dim: u64,
    /// Elements of a value per head.
    pub v_head_dim: u64,
    /// The query-key-value projection has a bias.
    pub qkv_bias: bool,
    /// The output projection has a bias.
    pub out_bias: bool,
    /// Queries and keys are normalised before attention.
    pub qk_norm: QkNorm,
    /// The query projection also gives a gate per query element (Qwen3-Next).
    pub gate: bool,
    /// Which keys a query sees.
    pub mask: Mask,
}

/// Norm of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QkNorm {
    /// None.
    No,
    /// One norm per head.
    PerHead,
    /// One norm over all heads together (MiniMax-M2).
    AllHeads,
}

/// Multi-head latent attention.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mla {
    /// Query heads.
    pub heads: u64,
    /// Rank of the query projection; `None` when queries are projected directly (V2-Lite).
    pub q_lora: Option<u64>,
    /// Rank of the key/value latent.
    pub kv_lora: u64,
    /// Rotary elements of a query and key.
    pub rope: u64,
    /// Other elements of a query and key per head.
    pub nope: u64,
    /// Elements of a value per head.
    pub v_head_dim: u64,
    /// Sizes of the indexer of sparse attention (V3.2, GLM-5).
    pub indexer: Option<Indexer>,
    /// Which keys a query sees.
    pub mask: Mask,
}

/// The indexer that picks the keys of sparse attention.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Indexer {
    /// Heads (`index_n_heads`).
    pub heads: u64,
    /// Elements per head (`index_head_dim`).
    pub head_dim: u64,
}

/// Gated delta net.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Linear {
    /// Key heads.
    pub k_heads: u64,
    /// Value heads.
    pub v_heads: u64,
    /// Elements of a key per head.
    pub k_dim: u64,
    /// Elements of a value per head.
    pub v_dim: u64,
    /// Width of the causal convolution.
    pub conv: u64,
}

/// Which keys the query at position p sees; always causal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mask {
    /// All keys up to p.
    Full,
    /// The last W keys: positions (p − W, p].
    Window(u64),
    /// The keys of its own chunk of C positions (Llama-4).
    Chunk(u64),
    /// The K keys that an indexer picked, of those up to p.
    TopK(u64),
}

/// The MLP of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Mlp {
    /// Gate, up and down projections of this width.
    Dense {
        /// Width before the down projection.
        inter: u64,
        /// The projections have biases.
        bias: bool,
    },
    /// A mixture of experts.
    Moe(Moe),
}

/// A mixture of experts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Moe {
    /// Routed experts.
    pub experts: u64,
    /// Experts a token is routed to.
    pub topk: u64,
    /// Width of one expert before its down projection.
    pub inter: u64,
    /// Width of all shared experts together; `None` without them.
    pub shared_inter: Option<u64>,
    /// The shared experts' output is scaled by a learnt gate (Qwen2-MoE, Qwen3-Next).
    pub shared_gate: bool,
    /// The router has a bias as a GEMM operand (gpt-oss).
    pub router_bias: bool,
    /// The experts have biases (gpt-oss).
    pub expert_bias: bool,
}
