//! The typed shape of `moe_gate`.

use crate::families::checks::{check_allowed, dtype_of, only_roles, own_dtype};
use crate::families::sizes;
use crate::{CaseOptions, Dtype, Dtypes, ShapeError, ShapeMap, ShapeValue};

const FAMILY: &str = "moe_gate";
const KEYS: &[&str] = &["tokens", "experts", "topk", "score", "renormalize", "bias", "groups", "topk_groups", "scale"];
pub(super) const FLOATS: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];
const MOST_TOKENS: u64 = 1 << 22;
const MOST_EXPERTS: u64 = 1 << 10;
const MOST_TOPK: u64 = 32;

/// What a logit's score is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// exp(l) / Σ exp(l).
    Softmax,
    /// 1 / (1 + exp(−l)).
    Sigmoid,
}

impl Score {
    fn name(self) -> &'static str {
        match self {
            Score::Softmax => "softmax",
            Score::Sigmoid => "sigmoid",
        }
    }
}

/// A validated case.
#[derive(Clone, Debug, PartialEq)]
pub struct MoeGate {
    /// Tokens of the step.
    pub tokens: u64,
    /// Experts, the shared ones left out.
    pub experts: u64,
    /// Experts chosen for a token.
    pub topk: u64,
    /// Score of a logit.
    pub score: Score,
    /// Weights of a token add up to `scale`.
    pub renormalize: bool,
    /// Dtype of the bias that is added to choose, when there is one.
    pub bias: Option<Dtype>,
    /// Groups of neighbouring experts.
    pub groups: u64,
    /// Groups that take part.
    pub topk_groups: u64,
    /// Factor of all weights.
    pub scale: f64,
    /// Dtype of the logits.
    pub logits: Dtype,
}

impl MoeGate {
    /// Validates a shape.
    ///
    /// # Errors
    /// On a missing, unknown, contradictory or impossible key, or a dtype that the family does not take.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, KEYS)?;
        only_roles(FAMILY, dtypes, &["logits", "bias"])?;
        let tokens = sizes::need(shape, FAMILY, "tokens", "tokens of the step", MOST_TOKENS)?;
        let experts = sizes::need(shape, FAMILY, "experts", "experts of the layer", MOST_EXPERTS)?;
        let topk = sizes::need(shape, FAMILY, "topk", "experts of a token", experts.min(MOST_TOPK))?;
        let groups = sizes::optional(shape, "groups", 1, experts)?;
        if !experts.is_multiple_of(groups) {
            return Err(ShapeError::invalid("groups", groups, format!("must divide experts={experts}")));
        }
        let topk_groups = sizes::optional(shape, "topk_groups", 1, groups)?;
        let size = experts / groups;
        if topk > topk_groups * size {
            let reason = format!("{topk_groups} groups of {size} experts are fewer than topk={topk}");
            return Err(ShapeError::invalid("topk_groups", topk_groups, reason));
        }
        let biased = shape.flag("bias")?.unwrap_or(false);
        if groups > 1 && biased && size < 2 {
            return Err(ShapeError::invalid("groups", groups, "with a bias a group has at least two experts"));
        }
        let own_bias = own_dtype(dtypes, "bias", options.fp8);
        let bias = match (biased, own_bias) {
            (true, own) => Some(check_allowed(FAMILY, "bias", own.unwrap_or(Dtype::F32), FLOATS)?),
            (false, Some(dtype)) => {
                return Err(ShapeError::dtype(format!("bias={dtype}"), "there is none without bias=true"));
            }
            (false, None) => None,
        };
        let logits = dtype_of(FAMILY, dtypes, "logits", options.fp8, FLOATS)?;
        Ok(Self {
            tokens,
            experts,
            topk,
            score: score(shape)?,
            renormalize: shape.flag("renormalize")?.unwrap_or(true),
            bias,
            groups,
            topk_groups,
            scale: scale(shape)?,
            logits,
        })
    }

    /// The complete canonical shape.
    pub(super) fn canonical(&self) -> ShapeMap {
        let shape = ShapeMap::new()
            .with("tokens", self.tokens)
            .with("experts", self.experts)
            .with("topk", self.topk)
            .with_word("score", self.score.name())
            .with_flag("renormalize", self.renormalize)
            .with_flag("bias", self.bias.is_some())
            .with("groups", self.groups)
            .with("topk_groups", self.topk_groups);
        match self.scale {
            scale if scale.fract() == 0.0 => shape.with("scale", scale as u64),
            scale => shape.with_word("scale", &scale.to_string()),
        }
    }
}

fn score(shape: &ShapeMap) -> Result<Score, ShapeError> {
    match shape.word("score")? {
        None | Some("softmax") => Ok(Score::Softmax),
        Some("sigmoid") => Ok(Score::Sigmoid),
        Some(other) => Err(ShapeError::invalid("score", other, "softmax or sigmoid is needed")),
    }
}

/// Reads `scale`: 1 unless given.
fn scale(shape: &ShapeMap) -> Result<f64, ShapeError> {
    let text = match shape.get("scale") {
        None => return Ok(1.0),
        Some(ShapeValue::List(_)) => String::new(),
        Some(value) => value.to_string(),
    };
    match text.parse::<f64>() {
        Ok(scale) if (1e-3..=1e3).contains(&scale) => Ok(scale),
        _ => Err(ShapeError::invalid("scale", text, "a number from 0.001 to 1000 such as 2.5 is needed")),
    }
}
