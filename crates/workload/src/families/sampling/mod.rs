//! `sampling`: one token for each row of logits.
//!
//! | mode | out |
//! |---|---|
//! | `greedy` | the token with the largest logit; the first of equal ones |
//! | `random` | the token with the largest softmax(logits / temperature) / noise: with exponential noise, a draw from that softmax |
//! | `mixed` | as `random`, but rows with an even number have the temperature 0 and are greedy |
//!
//! Tensors: `logits` \[batch, vocab\]; in `random` and `mixed` also `temperature` f32 \[batch\] and `noise` f32 \[batch, vocab\],
//! drawn by another kernel before; `out` \[batch\]. Keys: `batch`, `vocab`, `mode`. Dtype roles: `logits`, `out` (i32 unless given).
//!
//! A token is right or wrong, so the data leave no doubt which it is: noise that makes a close race is changed so that the winner
//! leads clearly ([`CLEAR_LEAD`]), whatever the rounding of a kernel.

mod recover;
mod reference;
#[cfg(test)]
mod tests;

pub(crate) use recover::recover;

use crate::families::checks::{bounded, check_allowed, dtype_of, only_roles, own_dtype};
use crate::families::sizes;
use crate::{
    CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, TensorSet, TensorSpec, Tolerance, Work, Workload, random,
};

const FAMILY: &str = "sampling";
const FLOATS: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];
const TOKENS: &[Dtype] = &[Dtype::I32, Dtype::I64];

/// The most tokens of a vocabulary, so that they fit i32.
const MAX_VOCAB: u64 = 1 << 31;

/// The least distance of the winner's logarithmic score from the next, in data that [`Workload::fill`] makes: a thousand times
/// what f32 loses in logits of up to ten times the temperature.
pub const CLEAR_LEAD: f64 = 1e-3;

/// How a token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The largest logit.
    Greedy,
    /// A draw from the softmax.
    Random,
    /// Greedy in rows 0, 2, 4, ..., random in the others.
    Mixed,
}

const MODES: &[(Mode, &str)] = &[(Mode::Greedy, "greedy"), (Mode::Random, "random"), (Mode::Mixed, "mixed")];

impl Mode {
    /// Name in shapes.
    pub fn name(self) -> &'static str {
        MODES.iter().find(|(mode, _)| *mode == self).map_or("?", |(_, name)| name)
    }
}

/// A validated case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Rows.
    pub batch: u64,
    /// Logits of a row.
    pub vocab: u64,
    /// How tokens are chosen.
    pub mode: Mode,
    /// Dtype of the logits.
    pub logits: Dtype,
    /// Dtype of the tokens.
    pub out: Dtype,
}

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(Sampling::new(shape, dtypes, options)?))
}

impl Sampling {
    /// Validates a shape.
    ///
    /// # Errors
    /// On a missing, unknown or impossible key, or a dtype that the family does not take.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, &["batch", "vocab", "mode"])?;
        only_roles(FAMILY, dtypes, &["logits", "out"])?;
        let batch = shape.need(FAMILY, "batch", "rows of logits")?;
        let vocab = sizes::need(shape, FAMILY, "vocab", "logits of a row", MAX_VOCAB)?;
        bounded("batch,vocab", &[batch, vocab])?;
        let word = shape.word("mode")?.unwrap_or("greedy");
        let mode = MODES.iter().find(|(_, name)| *name == word).map(|(mode, _)| *mode);
        let mode = mode.ok_or_else(|| ShapeError::invalid("mode", word, "greedy, random or mixed is needed"))?;
        let logits = dtype_of(FAMILY, dtypes, "logits", options.fp8, FLOATS)?;
        let out = own_dtype(dtypes, "out", options.fp8).unwrap_or(Dtype::I32);
        Ok(Self { batch, vocab, mode, logits, out: check_allowed(FAMILY, "out", out, TOKENS)? })
    }

    /// Rows that are drawn.
    fn random_rows(&self) -> u64 {
        match self.mode {
            Mode::Greedy => 0,
            Mode::Random => self.batch,
            Mode::Mixed => self.batch / 2,
        }
    }
}

impl Workload for Sampling {
    fn family(&self) -> Family {
        Family::Sampling
    }

    fn shape(&self) -> ShapeMap {
        let shape = ShapeMap::new().with("batch", self.batch).with("vocab", self.vocab);
        shape.with_word("mode", self.mode.name())
    }

    fn dtypes(&self) -> Dtypes {
        Dtypes::uniform(self.logits).with("out", self.out)
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let matrix = [self.batch, self.vocab];
        let mut tensors = vec![TensorSpec::input("logits", self.logits, &matrix)];
        if self.mode != Mode::Greedy {
            tensors.push(TensorSpec::input("temperature", Dtype::F32, &[self.batch]));
            tensors.push(TensorSpec::input("noise", Dtype::F32, &matrix));
        }
        tensors.push(TensorSpec::output("out", self.out, &[self.batch]));
        tensors
    }

    /// FLOPs, as f32: vocab − 1 comparisons a row, and three operations a logit of a drawn row: ÷ temperature, logarithm of the
    /// noise, their difference. Noise of greedy rows need not be read.
    fn work(&self) -> Work {
        let (batch, vocab, random) = (u128::from(self.batch), u128::from(self.vocab), u128::from(self.random_rows()));
        let mut work = Work::default();
        work.add_flops(Dtype::F32, batch * (vocab - 1) + 3 * random * vocab);
        let logits = self.logits.bytes(batch * vocab);
        let noise = Dtype::F32.bytes(random * vocab);
        let temperature = if self.mode == Mode::Greedy { 0 } else { Dtype::F32.bytes(batch) };
        work.bytes_read = logits + noise + temperature;
        work.bytes_written = self.out.bytes(batch);
        work.explain = vec![
            format!("FLOPs = batch·(vocab − 1) + 3·{random} drawn rows·vocab = {} (f32)", work.total_flops()),
            format!("bytes read = logits {logits} + noise {noise} + temperature {temperature}"),
            format!("bytes written = out {}", work.bytes_written),
        ];
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        random::fill_normal(tensors.get_mut("logits"), seed, 0.0, 2.0);
        if self.mode == Mode::Greedy {
            return;
        }
        let temperature = tensors.get_mut("temperature");
        random::fill_scales(temperature, seed, 0.8);
        if self.mode == Mode::Mixed {
            temperature.view_mut::<f32>().iter_mut().step_by(2).for_each(|temperature| *temperature = 0.0);
        }
        random::fill_exponential(tensors.get_mut("noise"), seed);
        reference::part_close_races(self, tensors);
    }

    fn reference(&self, tensors: &mut TensorSet) {
        reference::reference(self, tensors);
    }

    fn naive(&self, tensors: &TensorSet, _name: &str, indices: &[usize]) -> Vec<f64> {
        reference::naive(self, tensors, indices)
    }

    /// A row's scores.
    fn naive_flops(&self) -> u128 {
        4 * u128::from(self.vocab)
    }

    /// The same token.
    fn tolerance(&self, _name: &str) -> Tolerance {
        Tolerance { abs: 0.0, rel: 0.0, mismatch_share: 0.0 }
    }
}
