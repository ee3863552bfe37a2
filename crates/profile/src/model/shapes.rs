//! Shapes that the kernels of one forward pass are expected to have: step label + model + split over GPUs.

use super::attention::AttentionWork;
use super::builder::Builder;
use super::{Model, ModelError, Serving};
use crate::inventory::Phase;
use crate::labels::{DENSE_SUMS_CAVEAT, Padding, Source, Step};
use kbench_workload::{Dtypes, Family, ShapeMap};
use serde::Serialize;

/// One kernel role of a step with its expected shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expected {
    /// What the kernel does in the model: `qkv_proj`, `input_layernorm`, `moe_gate_up`, …
    pub role: &'static str,
    /// Its family.
    pub family: Family,
    /// Sizes on one rank, in the family's keys.
    pub shape: ShapeMap,
    /// Dtypes by role; empty when the config does not tell.
    pub dtypes: Dtypes,
    /// Calls in one step.
    pub calls: u64,
    /// Which layers it belongs to: `all`, `full`, `window 128`, `moe`, `dense`, `none` (outside the layers), …
    pub layers: String,
    /// Phase of the sequences that it serves; row-parallel kernels serve all of a step.
    pub phase: Phase,
    /// Set where engines do the same work in different ways: of the expectations that share role group and layers but
    /// differ in variant, those of one variant run.
    pub variant: Option<&'static str>,
    /// Shape keys (or `dtypes`) that neither label nor config gives. Not empty: it cannot be replayed as it stands.
    pub missing: Vec<&'static str>,
    /// What was assumed, one sentence each.
    pub assumed: Vec<String>,
}

impl Expected {
    /// True when nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

/// What one forward pass is expected to run on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepShapes {
    /// Kernels by role.
    pub expected: Vec<Expected>,
    /// Attention work per kind of layer.
    pub attention: Vec<AttentionWork>,
    /// What the label or config leaves open, for the reader of a report.
    pub notes: Vec<String>,
}

impl Model {
    /// The expected shapes of a step on one rank.
    ///
    /// # Errors
    /// When the model cannot be split so, or a size does not fit 64 bits.
    pub fn step_shapes(&self, step: &Step, serving: &Serving) -> Result<StepShapes, ModelError> {
        let mut shapes = StepShapes { attention: self.attention_work(step), ..StepShapes::default() };
        if !step.total.sums.is_empty() {
            shapes.notes.push(DENSE_SUMS_CAVEAT.to_owned());
        }
        if !step.sums_are_split() && step.phase == Phase::Mixed {
            shapes
                .notes
                .push("the label's sums join prefill and decode sequences: work is counted for both together".into());
        }
        shapes.notes.extend(self.assumed.iter().cloned());
        let Some(rows) = StepRows::of(step) else {
            shapes.notes.push("the label holds no token count: no shape can be derived from it".to_owned());
            return Ok(shapes);
        };
        let mut builder = Builder::new(self, serving, step, rows);
        builder.build()?;
        shapes.expected = builder.finish();
        Ok(shapes)
    }
}

/// Row counts of a step with what had to be assumed for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepRows {
    /// Rows of row-parallel kernels.
    pub(super) rows: u64,
    /// Query tokens of each sequence, in a pure decode step.
    pub(super) q_len: Option<u64>,
    /// Real tokens.
    pub(super) tokens: u64,
    pub(super) assumed: Vec<String>,
}

impl StepRows {
    fn of(step: &Step) -> Option<Self> {
        let mut assumed = Vec::new();
        let found = match step.rows() {
            Some(rows) => {
                Self { rows: rows.rows, q_len: step.q_len(), tokens: step.tokens().unwrap_or(rows.rows), assumed }
            }
            None if step.phase == Phase::Decode && step.spec.is_none() => {
                assumed.push("the label holds no token count: one token a sequence".to_owned());
                let batch = step.batch()?;
                Self { rows: step.graph_batch.unwrap_or(batch), q_len: Some(1), tokens: batch, assumed }
            }
            None => return None,
        };
        if found.rows == 0 {
            return None;
        }
        let padding = step.rows().map_or(Padding::NotTold, |rows| rows.padding);
        Some(found.with_padding_note(step, padding))
    }

    fn with_padding_note(mut self, step: &Step, padding: Padding) -> Self {
        let graph_told = step.source == Source::Atom && step.graph_batch.is_some();
        if padding == Padding::NotTold && !graph_told {
            let note =
                "the label does not tell the batch of a replayed graph: rows are the real tokens, without padding";
            self.assumed.push(note.to_owned());
        }
        self
    }
}
