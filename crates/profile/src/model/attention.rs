//! Attention work of a step, per kind of layer.

use super::count::{keys_read, pairs};
use super::{Attention, Count, Mask, Model};
use crate::inventory::Phase;
use crate::labels::{Part, Step};
use serde::Serialize;

/// Attention work of the layers that share a kind, in one phase of a step. Counts are for one layer and one head; FLOPs
/// of a layer are 2 · pairs · q_heads · (d_qk + d_v), and keys are read once per key/value head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttentionWork {
    /// Kind: `full`, `window 128`, `chunk 8192`, `topk 2048`, `linear`.
    pub kind: String,
    /// Layers of this kind; `None` when no model was given, so that the counts hold for layers of full attention, should there be any.
    pub layers: Option<u64>,
    /// Phase of the sequences counted; mixed when the label does not split its sums.
    pub phase: Phase,
    /// Sequences, when the label tells.
    pub seqs: Option<u64>,
    /// Σ N_Q: query tokens.
    pub queries: Count,
    /// Σ N_Q², as scheduled.
    pub nq2: Count,
    /// Σ N_Q·N_KV over whole contexts (dense), as scheduled.
    pub nq_nkv: Count,
    /// Σ N_KV: whole contexts.
    pub nkv: Count,
    /// Query-key pairs that the mask leaves, causality included. 0 for linear attention, which has none.
    pub pairs: Count,
    /// Keys that must be read, each once a sequence, under the mask. 0 for linear attention.
    pub keys: Count,
}

/// The parts of a step whose attention can be counted apart.
pub(super) fn parts(step: &Step) -> Vec<(Phase, &Part)> {
    if !step.sums_are_split() || step.phase == Phase::Unknown {
        return vec![(step.phase, &step.total)];
    }
    let both = [(Phase::Prefill, &step.prefill), (Phase::Decode, &step.decode)];
    both.into_iter().filter(|(_, part)| !part.is_none()).collect()
}

/// Distinct attention masks of the model with their layers, in the order of first use. `None` is linear attention.
pub(super) fn masks(model: &Model) -> Vec<(Option<Mask>, u64)> {
    let mut found: Vec<(Option<Mask>, u64)> = Vec::new();
    for layer in &model.layers {
        let mask = match &layer.attention {
            Attention::Gqa(gqa) => Some(gqa.mask),
            Attention::Mla(mla) => Some(mla.mask),
            Attention::Linear(_) => None,
        };
        match found.iter_mut().find(|(known, _)| *known == mask) {
            Some((_, layers)) => *layers += 1,
            None => found.push((mask, 1)),
        }
    }
    found
}

/// The name of a mask in documents.
pub(super) fn mask_name(mask: Option<Mask>) -> String {
    match mask {
        Some(Mask::Full) => "full".to_owned(),
        Some(Mask::Window(window)) => format!("window {window}"),
        Some(Mask::Chunk(chunk)) => format!("chunk {chunk}"),
        Some(Mask::TopK(topk)) => format!("topk {topk}"),
        None => "linear".to_owned(),
    }
}

impl AttentionWork {
    /// What a label alone gives: the work of one layer of full attention, for each phase.
    pub fn without_model(step: &Step) -> Vec<AttentionWork> {
        parts(step).into_iter().map(|(phase, part)| AttentionWork::of(Some(Mask::Full), None, phase, part)).collect()
    }

    fn of(mask: Option<Mask>, layers: Option<u64>, phase: Phase, part: &Part) -> Self {
        let told = |sum: Option<u128>| sum.map_or(Count::Unknown, Count::Exact);
        AttentionWork {
            kind: mask_name(mask),
            layers,
            phase,
            seqs: part.seqs,
            queries: told(part.tokens.map(u128::from)),
            nq2: told(part.sums.nq2),
            nq_nkv: told(part.sums.nq_nkv),
            nkv: told(part.sums.nkv),
            pairs: mask.map_or(Count::Exact(0), |mask| pairs(mask, part)),
            keys: mask.map_or(Count::Exact(0), |mask| keys_read(mask, part)),
        }
    }
}

impl Model {
    /// Attention work of a step for each kind of layer and each phase, in exact integers where the label allows.
    pub fn attention_work(&self, step: &Step) -> Vec<AttentionWork> {
        let parts = parts(step);
        let of_mask =
            |(mask, layers)| parts.iter().map(move |(phase, part)| AttentionWork::of(mask, Some(layers), *phase, part));
        masks(self).into_iter().flat_map(of_mask).collect()
    }
}
