//! `rope`: rotary position embedding of queries and keys, with cosines and sines from a table and one position a token.
//!
//! The first `rotary_dim` elements of a head are R/2 pairs; pair i of a token at position p turns by the angle whose cosine and
//! sine stand in row p, column i of the table: (a, b) becomes (a·cos − b·sin, b·cos + a·sin). `style=neox` pairs element i with
//! i + R/2, `style=gptj` 2i with 2i + 1. Elements from `rotary_dim` on stay as they are.
//!
//! Keys: `tokens`, `q_heads`, `kv_heads` (0, the default, rotates queries alone), `head_dim`, `rotary_dim` (even, default
//! `head_dim`), `style=neox|gptj`, `inplace=true|false` (default true, as serving stacks call it), `table=joint|split`, `max_pos`
//! (rows of the table, default 32768), `batch` (sequences that share the tokens, default one a token: a decode step).
//! Dtype roles: `x` (queries and keys), `table` (default that of `x`).
//!
//! | tensor | dims | |
//! |---|---|---|
//! | `positions` | i64 \[tokens\] | |
//! | `cos_sin` | \[max_pos, rotary_dim\] | `table=joint` (default): cosines, then sines (vLLM, SGLang) |
//! | `cos`, `sin` | \[max_pos, rotary_dim/2\] | `table=split` (aiter) |
//! | `q`, `k` | \[tokens, heads, head_dim\] | read and written with `inplace=true` |
//! | `q_out`, `k_out` | the same | with `inplace=false` |
//!
//! Positions: each sequence has an equal number of consecutive tokens (the first ones one more where it does not divide) and
//! begins at a drawn position. They are drawn when the case is built, so that [`Workload::work`] knows the rows that are read.

mod recover;
mod reference;
#[cfg(test)]
mod tests;

pub(crate) use recover::recover;

use crate::families::checks::{check_allowed, dtype_of, only_roles, own_dtype};
use crate::families::sizes;
use crate::{
    CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, TensorSet, TensorSpec, Tolerance, Work, Workload, narrow,
    random,
};
use rand::Rng as _;

const FAMILY: &str = "rope";
const FLOATS: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];
const KEYS: &[&str] =
    &["tokens", "q_heads", "kv_heads", "head_dim", "rotary_dim", "style", "inplace", "table", "max_pos", "batch"];
/// Positions are drawn when a case is built: this bounds its memory.
const MOST_TOKENS: u64 = 1 << 22;
const MOST_HEADS: u64 = 1 << 12;
const MOST_HEAD_DIM: u64 = 1 << 12;
const MOST_POSITIONS: u64 = 1 << 24;
const DEFAULT_POSITIONS: u64 = 1 << 15;

/// Which elements of a head turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// i and i + R/2.
    Neox,
    /// 2i and 2i + 1.
    Gptj,
}

impl Style {
    fn name(self) -> &'static str {
        match self {
            Style::Neox => "neox",
            Style::Gptj => "gptj",
        }
    }

    /// The two elements of pair `pair` of `pairs`.
    fn elements(self, pair: usize, pairs: usize) -> (usize, usize) {
        match self {
            Style::Neox => (pair, pair + pairs),
            Style::Gptj => (2 * pair, 2 * pair + 1),
        }
    }
}

/// Where cosines and sines stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// In one tensor, a row's cosines before its sines.
    Joint,
    /// In two tensors.
    Split,
}

/// A validated case.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Tokens of the step.
    pub tokens: u64,
    /// Query heads.
    pub q_heads: u64,
    /// Key heads; 0 when only queries are rotated.
    pub kv_heads: u64,
    /// Elements of a head.
    pub head_dim: u64,
    /// Elements of a head that turn: even.
    pub rotary_dim: u64,
    /// Pairing.
    pub style: Style,
    /// Results replace the operands.
    pub inplace: bool,
    /// Form of the table.
    pub table: Table,
    /// Rows of the table.
    pub max_pos: u64,
    /// Sequences.
    pub batch: u64,
    /// Dtype of queries and keys.
    pub x: Dtype,
    /// Dtype of the table.
    pub table_dtype: Dtype,
    /// Position of each token.
    positions: Vec<u32>,
}

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(Rope::new(shape, dtypes, options)?))
}

impl Rope {
    /// Validates a shape and draws the positions from the options' seed.
    ///
    /// # Errors
    /// On a missing, unknown or impossible key, or a dtype that the family does not take.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, KEYS)?;
        only_roles(FAMILY, dtypes, &["x", "table"])?;
        let tokens = sizes::need(shape, FAMILY, "tokens", "tokens of the step", MOST_TOKENS)?;
        let q_heads = sizes::need(shape, FAMILY, "q_heads", "query heads", MOST_HEADS)?;
        let head_dim = sizes::need(shape, FAMILY, "head_dim", "elements of a head", MOST_HEAD_DIM)?;
        let kv_heads = match shape.int("kv_heads")? {
            None | Some(0) => 0,
            Some(heads) => sizes::bounded("kv_heads", heads, MOST_HEADS)?,
        };
        let rotary_dim = sizes::optional(shape, "rotary_dim", head_dim, head_dim)?;
        if rotary_dim % 2 == 1 {
            return Err(ShapeError::invalid("rotary_dim", rotary_dim, "elements turn in pairs: must be even"));
        }
        let batch = sizes::optional(shape, "batch", tokens, tokens)?;
        let max_pos = sizes::optional(shape, "max_pos", DEFAULT_POSITIONS, MOST_POSITIONS)?;
        if tokens.div_ceil(batch) > max_pos {
            let reason = format!("a sequence has {} tokens, each at a position of its own", tokens.div_ceil(batch));
            return Err(ShapeError::invalid("max_pos", max_pos, reason));
        }
        let x = dtype_of(FAMILY, dtypes, "x", options.fp8, FLOATS)?;
        let table_dtype = own_dtype(dtypes, "table", options.fp8).unwrap_or(x);
        let case = Self {
            tokens,
            q_heads,
            kv_heads,
            head_dim,
            rotary_dim,
            style: style(shape)?,
            inplace: shape.flag("inplace")?.unwrap_or(true),
            table: table(shape)?,
            max_pos,
            batch,
            x,
            table_dtype: check_allowed(FAMILY, "table", table_dtype, FLOATS)?,
            positions: draw_positions(tokens, batch, max_pos, options.seed),
        };
        sizes::check_tensors(&case.tensors())?;
        Ok(case)
    }

    /// Rows of the table that the tokens read.
    fn distinct_positions(&self) -> u128 {
        let mut positions = self.positions.clone();
        positions.sort_unstable();
        positions.dedup();
        positions.len() as u128
    }

    /// Elements of all heads of all tokens, `width` of each head.
    fn elements(&self, width: u64) -> u128 {
        u128::from(self.tokens) * u128::from(self.q_heads + self.kv_heads) * u128::from(width)
    }
}

fn style(shape: &ShapeMap) -> Result<Style, ShapeError> {
    match shape.word("style")? {
        None | Some("neox") => Ok(Style::Neox),
        Some("gptj") => Ok(Style::Gptj),
        Some(other) => Err(ShapeError::invalid("style", other, "neox or gptj is needed")),
    }
}

fn table(shape: &ShapeMap) -> Result<Table, ShapeError> {
    match shape.word("table")? {
        None | Some("joint") => Ok(Table::Joint),
        Some("split") => Ok(Table::Split),
        Some(other) => Err(ShapeError::invalid("table", other, "joint or split is needed")),
    }
}

/// Consecutive positions for each sequence, from a start that leaves room for its tokens.
fn draw_positions(tokens: u64, batch: u64, max_pos: u64, seed: u64) -> Vec<u32> {
    let mut rng = random::rng(seed, "positions");
    let (each, more) = (tokens / batch, tokens % batch);
    (0..batch)
        .flat_map(|sequence| {
            let length = each + u64::from(sequence < more);
            let starts = u128::from(max_pos - length) + 1;
            let start = ((u128::from(rng.next_u64()) * starts) >> 64) as u32;
            start..start + length as u32
        })
        .collect()
}

impl Workload for Rope {
    fn family(&self) -> Family {
        Family::Rope
    }

    fn shape(&self) -> ShapeMap {
        ShapeMap::new()
            .with("tokens", self.tokens)
            .with("q_heads", self.q_heads)
            .with("kv_heads", self.kv_heads)
            .with("head_dim", self.head_dim)
            .with("rotary_dim", self.rotary_dim)
            .with_word("style", self.style.name())
            .with_flag("inplace", self.inplace)
            .with_word("table", if self.table == Table::Joint { "joint" } else { "split" })
            .with("max_pos", self.max_pos)
            .with("batch", self.batch)
    }

    fn dtypes(&self) -> Dtypes {
        sizes::shown(&[("x", self.x), ("table", self.table_dtype)])
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let mut tensors = vec![TensorSpec::input("positions", Dtype::I64, &[self.tokens])];
        match self.table {
            Table::Joint => {
                tensors.push(TensorSpec::input("cos_sin", self.table_dtype, &[self.max_pos, self.rotary_dim]));
            }
            Table::Split => {
                let dims = [self.max_pos, self.rotary_dim / 2];
                tensors.extend(["cos", "sin"].map(|name| TensorSpec::input(name, self.table_dtype, &dims)));
            }
        }
        let q = [self.tokens, self.q_heads, self.head_dim];
        let k = [self.tokens, self.kv_heads, self.head_dim];
        let operands = [("q", "q_out", q), ("k", "k_out", k)];
        let operands = &operands[..if self.kv_heads > 0 { 2 } else { 1 }];
        if self.inplace {
            tensors.extend(operands.iter().map(|(name, _, dims)| TensorSpec::inout(name, self.x, dims)));
        } else {
            tensors.extend(operands.iter().map(|(name, _, dims)| TensorSpec::input(name, self.x, dims)));
            tensors.extend(operands.iter().map(|(_, out, dims)| TensorSpec::output(out, self.x, dims)));
        }
        tensors
    }

    /// Six f32 operations a pair (four products, a sum, a difference). In place only what turns is read and written; the table's
    /// rows count once however many tokens share a position.
    fn work(&self) -> Work {
        let rotated = self.elements(self.rotary_dim);
        let moved = if self.inplace { rotated } else { self.elements(self.head_dim) };
        let rows = self.distinct_positions();
        let table = self.table_dtype.bytes(rows * u128::from(self.rotary_dim));
        let positions = Dtype::I64.bytes(u128::from(self.tokens));
        let mut work = Work::default();
        work.add_flops(Dtype::F32, 3 * rotated);
        work.bytes_read = positions + table + self.x.bytes(moved);
        work.bytes_written = self.x.bytes(moved);
        work.explain = vec![
            format!("FLOPs {} = 3·{rotated} rotated elements (f32)", 3 * rotated),
            format!(
                "read {} = positions {positions} + {rows} rows of the table {table} + heads {}",
                work.bytes_read, work.bytes_written
            ),
            format!("written {} = {moved} elements of heads", work.bytes_written),
        ];
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        let positions = tensors.get_mut("positions").view_mut::<i64>();
        positions.iter_mut().zip(&self.positions).for_each(|(entry, position)| *entry = i64::from(*position));
        reference::fill_table(self, tensors);
        random::fill_normal(tensors.get_mut("q"), seed, 0.0, 1.0);
        if self.kv_heads > 0 {
            random::fill_normal(tensors.get_mut("k"), seed, 0.0, 1.0);
        }
    }

    fn reference(&self, tensors: &mut TensorSet) {
        reference::reference(self, tensors);
    }

    fn naive(&self, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
        reference::naive(self, tensors, name, indices)
    }

    /// Kernels that round each product to the dtype (vLLM's) are off by half a unit of each of the two products, which for data
    /// within four deviations together reach 4·√2, and by the rounding of the result.
    fn tolerance(&self, _name: &str) -> Tolerance {
        let unit = narrow::epsilon(self.x);
        Tolerance { abs: 3.0 * unit + 1e-6, rel: unit, mismatch_share: 0.0 }
    }
}
