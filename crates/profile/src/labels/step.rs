//! What a step label means: the batch of one forward pass.

use super::lengths::Lengths;
use crate::inventory::Phase;

/// What a label's sums can and cannot give; shown wherever they are used.
pub const DENSE_SUMS_CAVEAT: &str = "the label's sums count every query against the whole context of its sequence \
    (dense attention); work of sliding-window and sparse layers is derived from them with the model's window or top-k, \
    exactly where the sequence lengths are known and as bounds elsewhere; linear-attention layers have no query-key pairs";

/// Which program wrote the label, in which of its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// ATOM, `decode[bs=…]`.
    Atom,
    /// ATOM before that form, `decode_step_bs_…`, `prefill_bs_…_ctxlens_…`.
    AtomHistory,
    /// vLLM with detailed annotation, `execute_…_context_…(sq…)_generation_…(sq…)`.
    VllmDetailed,
    /// vLLM, `execute_context_…(…)_generation_…(…)`.
    VllmNative,
    /// vLLM's first form, `execute_new_…_cached_…`.
    VllmOld,
    /// SGLang, `step[DECODE bs=…]`.
    Sglang,
    /// A diffusion model's step, `execute_diffusion_1_256x256`.
    Diffusion,
}

/// How the step's kernels were launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Launch {
    /// Replay of a captured graph: row-parallel kernels run the graph's batch.
    Graph,
    /// One launch a kernel: kernels run the real batch.
    Eager,
    /// The label does not say.
    NotTold,
}

/// Sums over the sequences of a step (or of one part of it). `None` where the label has none, or an impossible one.
///
/// N_Q is the number of query tokens that a sequence runs in this step, N_KV its context length including them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Σ N_Q² (`sqsq`, `nq2`, `attn_sum_nq2`).
    pub nq2: Option<u128>,
    /// Σ N_Q·N_KV (`sqsk`, `nqnkv`, `attn_sum_nq_nkv`).
    pub nq_nkv: Option<u128>,
    /// Σ N_KV (`sk`, `nkv`, `attn_sum_nkv`).
    pub nkv: Option<u128>,
}

impl Sums {
    /// True when the label gave none.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Sums of two disjoint parts; a sum that one part lacks is unknown.
    pub(super) fn plus(&self, other: &Sums) -> Option<Sums> {
        let add = |a: Option<u128>, b: Option<u128>| match (a, b) {
            (Some(a), Some(b)) => a.checked_add(b).map(Some),
            _ => Some(None),
        };
        Some(Sums {
            nq2: add(self.nq2, other.nq2)?,
            nq_nkv: add(self.nq_nkv, other.nq_nkv)?,
            nkv: add(self.nkv, other.nkv)?,
        })
    }
}

/// Context lengths as a label lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contexts {
    /// The lengths that the label shows, in order.
    pub listed: Vec<u64>,
    /// How many more sequences it says there are.
    pub more: u64,
}

impl Contexts {
    /// All lengths, when none was left out.
    pub fn complete(&self) -> Option<&[u64]> {
        (self.more == 0).then_some(self.listed.as_slice())
    }
}

/// The sequences of one phase in a step. `seqs` 0 means that the step has none of that phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Sequences.
    pub seqs: Option<u64>,
    /// Query tokens: Σ N_Q.
    pub tokens: Option<u64>,
    /// Sums.
    pub sums: Sums,
    /// Context lengths N_KV.
    pub contexts: Option<Contexts>,
}

impl Part {
    /// A phase that the step does not have.
    pub(super) fn none() -> Self {
        let zero = Some(0);
        Self { seqs: Some(0), tokens: Some(0), sums: Sums { nq2: zero, nq_nkv: zero, nkv: zero }, contexts: None }
    }

    /// True when the label says that there is no such sequence.
    pub fn is_none(&self) -> bool {
        self.seqs == Some(0)
    }

    /// Lengths of the single sequences, as far as they follow from this part.
    pub fn lengths(&self) -> Lengths {
        Lengths::of(self)
    }
}

/// How a step's row count relates to the rows that row-parallel kernels ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// The rows are exact: the step ran eagerly, or the label names the graph's batch.
    Told,
    /// The label gives the real rows only; a graph may have run more.
    NotTold,
}

/// Rows of row-parallel kernels (GEMMs, norms, activations, MoE) in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Rows.
    pub rows: u64,
    /// Whether padding is accounted for.
    pub padding: Padding,
}

/// One finding about a label: what is wrong and what was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field it is about.
    pub field: &'static str,
    /// One sentence.
    pub message: String,
}

/// One forward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who wrote the label.
    pub source: Source,
    /// Prefill, decode, or both in one step.
    pub phase: Phase,
    /// How its kernels were launched.
    pub launch: Launch,
    /// Batch that a graph replay ran, padding included. `None`: no graph, or the label does not say.
    pub graph_batch: Option<u64>,
    /// All sequences of the step: its real batch, tokens and sums.
    pub total: Part,
    /// Its prefill (context) sequences.
    pub prefill: Part,
    /// Its decode (generation) sequences.
    pub decode: Part,
    /// Speculative tokens a sequence (`spec`).
    pub spec: Option<u64>,
    /// The step ran as two overlapped micro-batches (`tbo=1`): kernels run about half the rows, twice.
    pub two_batch_overlap: bool,
    /// Fields that this parser does not know, as found, in order. A word without `=` has an empty value.
    pub other: Vec<(String, String)>,
    /// What is wrong with the label. Sums that cannot be are not in `sums` but told of here.
    pub problems: Vec<Problem>,
}

impl Step {
    pub(super) fn new(source: Source, launch: Launch) -> Self {
        Self {
            source,
            phase: Phase::Unknown,
            launch,
            graph_batch: None,
            total: Part::default(),
            prefill: Part::default(),
            decode: Part::default(),
            spec: None,
            two_batch_overlap: false,
            other: Vec::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn problem(&mut self, field: &'static str, message: impl Into<String>) {
        self.problems.push(Problem { field, message: message.into() });
    }

    /// Real sequences.
    pub fn batch(&self) -> Option<u64> {
        self.total.seqs
    }

    /// Real query tokens.
    pub fn tokens(&self) -> Option<u64> {
        self.total.tokens
    }

    /// Query tokens that each sequence of a pure decode step runs (1, or k+1 with k speculative tokens), when all run
    /// the same number.
    pub fn q_len(&self) -> Option<u64> {
        if self.phase != Phase::Decode {
            return None;
        }
        match (self.total.tokens, self.total.seqs) {
            (Some(tokens), Some(batch)) if batch > 0 && tokens > 0 && tokens.is_multiple_of(batch) => {
                Some(tokens / batch)
            }
            (None, _) => self.spec.and_then(|spec| spec.checked_add(1)),
            _ => None,
        }
    }

    /// Rows of row-parallel kernels: graph batch × query length on a replay, the real tokens elsewhere. `None` when the
    /// label holds no token count.
    pub fn rows(&self) -> Option<Rows> {
        let replay = match (self.graph_batch, self.q_len()) {
            (Some(batch), Some(q_len)) => Some(batch.checked_mul(q_len)?),
            _ => None,
        };
        let told = match self.launch {
            Launch::Graph => replay.is_some(),
            Launch::Eager => true,
            Launch::NotTold => false,
        };
        let padding = if told { Padding::Told } else { Padding::NotTold };
        let tokens = || self.total.tokens.or_else(|| self.total.seqs?.checked_mul(self.q_len()?));
        replay.or_else(tokens).map(|rows| Rows { rows, padding })
    }

    /// True when sums are split into prefill and decode (or the step has one phase only), so that each phase's
    /// attention can be counted alone.
    pub fn sums_are_split(&self) -> bool {
        self.phase != Phase::Mixed || (!self.prefill.sums.is_empty() && !self.decode.sums.is_empty())
    }
}
