//! `embedding`: rows of a table, picked by token ids.
//!
//! out\[token\] = table\[ids\[token\]\]. Bytes read of the table are those of the *different* rows that the very ids of the case
//! name, each once: repeated tokens are served by a cache.
//!
//! Keys: `tokens`, `vocab`, `hidden`, `ids=zipf|uniform`. Dtype roles: `table` (and so `out`), `ids` (i64 unless given).
//!
//! With `ids=zipf`, the default, ids are log-uniform: P(id = r) = ln((r + 2) / (r + 1)) / ln(vocab + 1), close to Zipf's law over
//! a vocabulary in order of frequency, as those of byte-pair encodings roughly are.

mod recover;
#[cfg(test)]
mod tests;

pub(crate) use recover::recover;

use crate::families::checks::{bounded, check_allowed, dtype_of, only_roles, own_dtype};
use crate::families::sizes;
use crate::{
    CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, TensorSet, TensorSpec, Tolerance, Work, Workload, narrow,
    random,
};
use rand::Rng as _;
use rayon::prelude::*;

const FAMILY: &str = "embedding";
const TABLES: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];
const IDS: &[Dtype] = &[Dtype::I32, Dtype::I64];

/// The most tokens of a call: a hundred times what one step batches. Their ids are drawn when a case is built.
const MAX_TOKENS: u64 = 1 << 24;
/// The most rows of a table, so that ids fit i32.
const MAX_VOCAB: u64 = 1 << 31;

/// How ids are spread over the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All equally likely.
    Uniform,
    /// Log-uniform: small ids are frequent.
    Zipf,
}

impl Spread {
    /// Name in shapes.
    pub fn name(self) -> &'static str {
        match self {
            Spread::Uniform => "uniform",
            Spread::Zipf => "zipf",
        }
    }

    /// Draws ids below `vocab`.
    fn draw(self, tokens: usize, vocab: u64, seed: u64) -> Vec<u32> {
        let mut generator = random::rng(seed, "ids");
        let mut unit = move || (generator.next_u64() >> 11) as f64 * 2.0_f64.powi(-53);
        let id = |unit: f64| match self {
            Spread::Uniform => (unit * vocab as f64) as u64,
            Spread::Zipf => (unit * ((vocab + 1) as f64).ln()).exp() as u64 - 1,
        };
        // Rounding of the exponential could reach `vocab` itself.
        (0..tokens).map(|_| id(unit()).min(vocab - 1) as u32).collect()
    }
}

/// A validated case, with its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    /// Tokens.
    pub tokens: u64,
    /// Rows of the table.
    pub vocab: u64,
    /// Elements of a row.
    pub hidden: u64,
    /// How ids are spread.
    pub spread: Spread,
    /// Dtype of `table` and `out`.
    pub table: Dtype,
    /// Dtype of `ids`.
    pub index: Dtype,
    ids: Vec<u32>,
    /// Different ids.
    distinct: u64,
}

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(Embedding::new(shape, dtypes, options)?))
}

impl Embedding {
    /// Validates a shape and draws the ids from the options' seed.
    ///
    /// # Errors
    /// On a missing, unknown or impossible key, or a dtype that the family does not take.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, &["tokens", "vocab", "hidden", "ids"])?;
        only_roles(FAMILY, dtypes, &["table", "ids"])?;
        let tokens = sizes::need(shape, FAMILY, "tokens", "ids of the call", MAX_TOKENS)?;
        let vocab = sizes::need(shape, FAMILY, "vocab", "rows of the table", MAX_VOCAB)?;
        let hidden = shape.need(FAMILY, "hidden", "elements of a row")?;
        bounded("vocab,hidden", &[vocab, hidden])?;
        bounded("tokens,hidden", &[tokens, hidden])?;
        let spread = match shape.word("ids")? {
            None | Some("zipf") => Spread::Zipf,
            Some("uniform") => Spread::Uniform,
            Some(other) => return Err(ShapeError::invalid("ids", other, "zipf or uniform is needed")),
        };
        let table = dtype_of(FAMILY, dtypes, "table", options.fp8, TABLES)?;
        let index = own_dtype(dtypes, "ids", options.fp8).unwrap_or(Dtype::I64);
        let index = check_allowed(FAMILY, "ids", index, IDS)?;
        let ids = spread.draw(tokens as usize, vocab, options.seed);
        let distinct = count_distinct(&ids);
        Ok(Self { tokens, vocab, hidden, spread, table, index, ids, distinct })
    }
}

fn count_distinct(ids: &[u32]) -> u64 {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len() as u64
}

impl Workload for Embedding {
    fn family(&self) -> Family {
        Family::Embedding
    }

    fn shape(&self) -> ShapeMap {
        let shape = ShapeMap::new().with("tokens", self.tokens).with("vocab", self.vocab).with("hidden", self.hidden);
        shape.with_word("ids", self.spread.name())
    }

    fn dtypes(&self) -> Dtypes {
        Dtypes::uniform(self.table).with("ids", self.index)
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        vec![
            TensorSpec::input("ids", self.index, &[self.tokens]),
            TensorSpec::input("table", self.table, &[self.vocab, self.hidden]),
            TensorSpec::output("out", self.table, &[self.tokens, self.hidden]),
        ]
    }

    /// No FLOPs: rows are copied.
    fn work(&self) -> Work {
        let (tokens, hidden, distinct) = (u128::from(self.tokens), u128::from(self.hidden), u128::from(self.distinct));
        let (ids, rows) = (self.index.bytes(tokens), self.table.bytes(distinct * hidden));
        let written = self.table.bytes(tokens * hidden);
        Work {
            bytes_read: ids + rows,
            bytes_written: written,
            explain: vec![
                "FLOPs = 0: rows are copied".to_owned(),
                format!("bytes read = ids {ids} + {distinct} different rows {rows}"),
                format!("bytes written = out {written}"),
            ],
            ..Work::default()
        }
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        random::fill_normal(tensors.get_mut("table"), seed, 0.0, 1.0);
        let ids = tensors.get_mut("ids");
        match self.index {
            Dtype::I32 => ids.view_mut::<i32>().iter_mut().zip(&self.ids).for_each(|(entry, id)| *entry = *id as i32),
            _ => ids.view_mut::<i64>().iter_mut().zip(&self.ids).for_each(|(entry, id)| *entry = i64::from(*id)),
        }
    }

    fn reference(&self, tensors: &mut TensorSet) {
        let row = self.table.bytes(u128::from(self.hidden)) as usize;
        let mut out = tensors.take("out");
        let table = tensors.get("table").bytes();
        out.bytes_mut().par_chunks_mut(row).zip(&self.ids).for_each(|(out, id)| {
            let first = *id as usize * row;
            out.copy_from_slice(&table[first..first + row]);
        });
        tensors.put(out);
    }

    /// By the ids that the tensor holds, not those of the case.
    fn naive(&self, tensors: &TensorSet, _name: &str, indices: &[usize]) -> Vec<f64> {
        let (ids, table) = (tensors.get("ids"), tensors.get("table"));
        let hidden = self.hidden as usize;
        indices
            .iter()
            .map(|index| {
                let id = narrow::get(ids.spec.dtype, ids.bytes(), index / hidden) as usize;
                narrow::get(table.spec.dtype, table.bytes(), id * hidden + index % hidden)
            })
            .collect()
    }

    /// One: nothing is computed, but a look-up is not free.
    fn naive_flops(&self) -> u128 {
        1
    }

    /// Copies are exact.
    fn tolerance(&self, _name: &str) -> Tolerance {
        Tolerance { abs: 0.0, rel: 0.0, mismatch_share: 0.0 }
    }
}
