//! Collects the kernels of a step: those around the layers here, those of each kind of layer in the modules beside.

use super::shapes::{Expected, StepRows};
use super::{Attention, Layer, Mlp, Model, ModelError, NormStyle, Serving, WeightGroup};
use crate::inventory::Phase;
use crate::labels::{Part, Step};
use kbench_workload::{Dtypes, Family, ShapeMap};

/// Collects the expectations of one step.
pub(super) struct Builder<'a> {
    pub(super) model: &'a Model,
    pub(super) serving: &'a Serving,
    pub(super) step: &'a Step,
    pub(super) rows: StepRows,
    pub(super) found: Vec<Expected>,
}

/// Where a kernel stands: its layers and how often a step calls it.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) layers: &'a str,
    pub(super) calls: u64,
}

impl<'a> Builder<'a> {
    pub(super) fn new(model: &'a Model, serving: &'a Serving, step: &'a Step, rows: StepRows) -> Self {
        Self { model, serving, step, rows, found: Vec::new() }
    }

    pub(super) fn build(&mut self) -> Result<(), ModelError> {
        self.around()?;
        for (attention, calls) in kinds(&self.model.layers, |layer| &layer.attention) {
            match attention {
                Attention::Gqa(gqa) => self.gqa(gqa, calls)?,
                Attention::Mla(mla) => self.mla(mla, calls)?,
                Attention::Linear(linear) => self.linear(linear, calls)?,
            }
        }
        for (mlp, calls) in kinds(&self.model.layers, |layer| &layer.mlp) {
            match mlp {
                Mlp::Dense { inter, bias } => {
                    let at = At { layers: "dense", calls };
                    self.mlp(["gate_up_proj", "act_and_mul", "down_proj"], *inter, *bias, at)?;
                }
                Mlp::Moe(moe) => self.moe(moe, calls)?,
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Vec<Expected> {
        if self.step.two_batch_overlap {
            for expected in &mut self.found {
                expected.missing.push("micro_batch");
                expected
                    .assumed
                    .push("the step ran as two micro-batches; how it was divided is not in the label".to_owned());
            }
        }
        self.found
    }

    /// Norms of the residual stream, embedding, output head.
    fn around(&mut self) -> Result<(), ModelError> {
        let (rows, hidden, layers) = (self.rows.rows, self.model.hidden, self.model.layers.len() as u64);
        let vocab = self.serving.vocab(self.model.vocab);
        let once = At { layers: "none", calls: 1 };
        let all = At { layers: "all", calls: layers };
        let shape = ShapeMap::new().with("tokens", rows).with("hidden", hidden).with("vocab", vocab);
        self.push("embedding", Family::Embedding, shape, self.plain(), once);
        match self.model.norms {
            NormStyle::Pre => {
                self.norm("input_layernorm", rows, hidden, Some(false), At { layers: "first", calls: 1 });
                self.norm(
                    "input_layernorm",
                    rows,
                    hidden,
                    Some(true),
                    At { layers: "all but first", calls: layers - 1 },
                );
                self.norm("post_attention_layernorm", rows, hidden, Some(true), all);
                self.norm("final_norm", rows, hidden, Some(true), once);
            }
            NormStyle::Sandwich => {
                for role in [
                    "input_layernorm",
                    "post_attention_layernorm",
                    "pre_feedforward_layernorm",
                    "post_feedforward_layernorm",
                ] {
                    self.norm(role, rows, hidden, None, all);
                }
                self.norm("final_norm", rows, hidden, None, once);
            }
        }
        self.output_head(vocab, once)
    }

    /// The head runs on the last token of each prompt and on each decode token: padded with the graph when it is part
    /// of it, the real number of tokens otherwise.
    fn output_head(&mut self, vocab: u64, once: At<'_>) -> Result<(), ModelError> {
        let last = |part: &Part| if part.is_none() { Some(0) } else { part.seqs };
        let sampled = match self.step.phase {
            Phase::Decode => Some(self.rows.tokens),
            Phase::Prefill => self.step.batch(),
            _ => last(&self.step.prefill).zip(self.step.decode.tokens).and_then(|(a, b)| a.checked_add(b)),
        };
        let Some(sampled) = sampled.filter(|rows| *rows > 0) else { return Ok(()) };
        let padded = self.step.phase == Phase::Decode && self.rows.rows != sampled;
        let forms: &[(u64, Option<&'static str>)] = match padded {
            true => &[(self.rows.rows, Some("head in the graph")), (sampled, Some("head outside the graph"))],
            false => &[(sampled, None)],
        };
        let ragged = !self.model.vocab.is_multiple_of(64 * self.serving.tp());
        for (rows, variant) in forms {
            self.gemm("lm_head", WeightGroup::Kept, [*rows, vocab, self.model.hidden], false, once);
            self.amend(|expected| {
                expected.variant = *variant;
                if ragged {
                    expected.assumed.push(format!("a vocabulary share of {vocab} rows; engines may pad it"));
                }
            });
            let shape = ShapeMap::new().with("batch", *rows).with("vocab", self.model.vocab);
            self.push("sampling", Family::Sampling, shape, Dtypes::default(), once);
            self.amend(|expected| expected.variant = *variant);
        }
        Ok(())
    }

    /// out[m,n] = a[m,k]·b[n,k].
    pub(super) fn gemm(&mut self, role: &'static str, group: WeightGroup, [m, n, k]: [u64; 3], bias: bool, at: At<'_>) {
        let operands = self.model.quant.operands(group, self.model.dtype, ["a", "b"]);
        let mut shape = ShapeMap::new().with("m", m).with("n", n).with("k", k);
        if bias {
            shape = shape.with_flag("bias", true);
        }
        if let Some(quant) = operands.quant {
            shape = shape.with_word("quant", quant);
        }
        self.push(role, Family::Gemm, shape, operands.dtypes, at);
        self.amend(|expected| expected.missing.extend(operands.missing));
    }

    /// One GEMM a head.
    pub(super) fn bmm(&mut self, role: &'static str, heads: u64, [m, n, k]: [u64; 3], at: At<'_>) {
        let shape = ShapeMap::new().with("batch", heads).with("m", m).with("n", n).with("k", k);
        self.push(role, Family::Gemm, shape, self.plain(), at);
        self.amend(|expected| {
            expected
                .assumed
                .push("absorbed projection in the model's dtype; engines may keep it in fp8 or fp4".to_owned());
        });
    }

    pub(super) fn norm(&mut self, role: &'static str, rows: u64, hidden: u64, add: Option<bool>, at: At<'_>) {
        let mut shape = ShapeMap::new().with("rows", rows).with("hidden", hidden);
        if let Some(add) = add.filter(|add| *add) {
            shape = shape.with_flag("add", add);
        }
        self.push(role, Family::Rmsnorm, shape, self.plain(), at);
        if add.is_none() {
            self.amend(|expected| expected.assumed.push("without a residual add, which engines may fuse".to_owned()));
        }
    }

    pub(super) fn plain(&self) -> Dtypes {
        Dtypes::uniform(self.model.dtype)
    }

    pub(super) fn push(&mut self, role: &'static str, family: Family, shape: ShapeMap, dtypes: Dtypes, at: At<'_>) {
        if at.calls == 0 {
            return;
        }
        self.found.push(Expected {
            role,
            family,
            shape,
            dtypes,
            calls: at.calls,
            layers: at.layers.to_owned(),
            phase: self.step.phase,
            variant: None,
            missing: Vec::new(),
            assumed: self.rows.assumed.clone(),
        });
    }

    /// Changes the expectation that was pushed last.
    pub(super) fn amend(&mut self, change: impl FnOnce(&mut Expected)) {
        if let Some(last) = self.found.last_mut() {
            change(last);
        }
    }
}

/// Distinct values of a layer's property, with how many layers have each, in the order of first use.
fn kinds<'a, T: PartialEq>(layers: &'a [Layer], of: impl Fn(&'a Layer) -> &'a T) -> Vec<(&'a T, u64)> {
    let mut found: Vec<(&T, u64)> = Vec::new();
    for layer in layers {
        let value = of(layer);
        match found.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => found.push((value, 1)),
        }
    }
    found
}

pub(super) fn product(a: u64, b: u64, what: &'static str) -> Result<u64, ModelError> {
    a.checked_mul(b).ok_or(ModelError::Overflow { what })
}
