//! The fast form: blocks of keys against a group of query rows, online softmax in f32, parallel over sequences, key/value
//! heads and blocks of queries.

use super::{Heads, Mask, Span};
use crate::dtype::Dtype;
use crate::narrow;
use crate::simd::{Left, Matmul, SoftmaxBlock, padded};
use rayon::prelude::*;
use std::ops::Range;

/// Query rows (queries × heads of a group) that share a loaded block of keys.
const ROWS: u64 = 64;
/// Keys in a block: with 64 rows of head size 128 the working set is 200 kB, a second-level cache's.
const KEYS: u64 = 128;

/// How a family loads its rows as f32. Positions count within the sequence.
pub(crate) trait Rows: Sync {
    /// Query `index` of `sequence`, head `head`, into `out[..d_qk]`.
    fn query(&self, sequence: usize, index: u64, head: u64, out: &mut [f32]);
    /// Keys `range` of a key/value head, one after another, into `out[..len·d_qk]`.
    fn keys(&self, sequence: usize, head: u64, range: Range<u64>, out: &mut [f32]);
    /// Values `range` of a key/value head in rows of `stride` elements; what lies beyond d_v in a row stays untouched.
    fn values(&self, sequence: usize, head: u64, range: Range<u64>, stride: usize, out: &mut [f32]);
    /// Row of the output tensor, counted in vectors of d_v elements.
    fn output_row(&self, sequence: usize, index: u64, head: u64) -> usize;
}

/// One unit of parallel work: a block of queries of one sequence, for every query head of one key/value head.
struct Task<'a> {
    sequence: usize,
    kv_head: u64,
    queries: Range<u64>,
    /// Output rows, query by query, then head by head.
    out: Vec<&'a mut [u8]>,
}

/// Computes the whole output tensor `out` of dtype `out_dtype`.
pub(crate) fn attend<R: Rows>(heads: Heads, mask: Mask, spans: &[Span], rows: &R, out_dtype: Dtype, out: &mut [u8]) {
    let row_bytes = out_dtype.bytes(u128::from(heads.d_v)) as usize;
    let mut slots: Vec<Option<&mut [u8]>> = out.chunks_exact_mut(row_bytes).map(Some).collect();
    let mut tasks = Vec::new();
    let group = heads.group();
    let block = (ROWS / group).max(1);
    for (sequence, span) in spans.iter().enumerate() {
        for start in (0..span.q_len).step_by(block as usize) {
            let queries = start..(start + block).min(span.q_len);
            for kv_head in 0..heads.kv_heads {
                let members = queries.clone().flat_map(|index| (0..group).map(move |member| (index, member)));
                let out = members
                    .filter_map(|(index, member)| {
                        slots[rows.output_row(sequence, index, kv_head * group + member)].take()
                    })
                    .collect();
                tasks.push(Task { sequence, kv_head, queries: queries.clone(), out });
            }
        }
    }
    drop(slots);
    tasks.into_par_iter().for_each_init(
        || Scratch::new(heads, block),
        |scratch, task| {
            let span = spans[task.sequence];
            scratch.run(heads, mask, span, rows, &task);
            for (row, bytes) in task.out.into_iter().enumerate() {
                narrow::encode_slice(out_dtype, scratch.output_row(row, heads.d_v as usize), 0, bytes);
            }
        },
    );
}

/// Buffers of one thread, reused over its tasks.
struct Scratch {
    /// Rows, padded.
    rows: usize,
    /// Stride of values and outputs.
    d_v: usize,
    /// Scaled queries, transposed: [d_qk × rows].
    queries: Vec<f32>,
    /// One query row.
    row: Vec<f32>,
    /// [KEYS × d_qk].
    keys: Vec<f32>,
    /// [KEYS × d_v].
    values: Vec<f32>,
    /// Scores, then weights, transposed: [KEYS × rows].
    scores: Vec<f32>,
    /// [rows × d_v].
    output: Vec<f32>,
    maximum: Vec<f32>,
    sum: Vec<f32>,
    correction: Vec<f32>,
    /// Keys that each row sees.
    visible: Vec<Range<u64>>,
}

impl Scratch {
    fn new(heads: Heads, block: u64) -> Self {
        let real_rows = (block * heads.group()) as usize;
        let (rows, d_qk, d_v) = (padded(real_rows), heads.d_qk as usize, padded(heads.d_v as usize));
        let keys = KEYS as usize;
        Self {
            rows,
            d_v,
            queries: vec![0.0; d_qk * rows],
            row: vec![0.0; d_qk],
            keys: vec![0.0; keys * d_qk],
            values: vec![0.0; keys * d_v],
            scores: vec![0.0; keys * rows],
            output: vec![0.0; real_rows * d_v],
            maximum: vec![0.0; rows],
            sum: vec![0.0; rows],
            correction: vec![0.0; rows],
            visible: Vec::with_capacity(real_rows),
        }
    }

    fn run<R: Rows>(&mut self, heads: Heads, mask: Mask, span: Span, rows: &R, task: &Task<'_>) {
        let range = self.load_queries(heads, mask, span, rows, task);
        self.output.fill(0.0);
        self.maximum.fill(f32::NEG_INFINITY);
        self.sum.fill(0.0);
        let mut start = range.start;
        while start < range.end {
            let block = start..(start + KEYS).min(range.end);
            self.accumulate(heads, rows, task, block.clone());
            start = block.end;
        }
    }

    /// Loads the task's query rows and returns the keys that any of them sees.
    fn load_queries<R: Rows>(&mut self, heads: Heads, mask: Mask, span: Span, rows: &R, task: &Task<'_>) -> Range<u64> {
        let scale = heads.scale() as f32;
        let group = heads.group();
        self.visible.clear();
        for index in task.queries.clone() {
            for member in 0..group {
                let lane = self.visible.len();
                rows.query(task.sequence, index, task.kv_head * group + member, &mut self.row);
                for (d, value) in self.row.iter().enumerate() {
                    self.queries[d * self.rows + lane] = value * scale;
                }
                self.visible.push(mask.visible(span, index));
            }
        }
        let seeing = self.visible.iter().filter(|range| !range.is_empty());
        seeing.cloned().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }

    /// Adds one block of keys.
    fn accumulate<R: Rows>(&mut self, heads: Heads, rows: &R, task: &Task<'_>, block: Range<u64>) {
        let (count, d_qk) = ((block.end - block.start) as usize, heads.d_qk as usize);
        rows.keys(task.sequence, task.kv_head, block.clone(), &mut self.keys[..count * d_qk]);
        let scores = &mut self.scores[..count * self.rows];
        scores.fill(0.0);
        let product = Matmul {
            c: scores,
            c_stride: self.rows,
            a: Left::Rows(&self.keys, d_qk),
            b: &self.queries,
            m: count,
            n: self.rows,
            k: d_qk,
        };
        product.run();
        self.hide(&block);
        let softmax = SoftmaxBlock {
            scores: &mut self.scores[..count * self.rows],
            maximum: &mut self.maximum,
            sum: &mut self.sum,
            correction: &mut self.correction,
            rows: self.rows,
        };
        softmax.run();
        for (row, correction) in self.output.chunks_exact_mut(self.d_v).zip(&self.correction) {
            if *correction != 1.0 {
                row.iter_mut().for_each(|value| *value *= correction);
            }
        }
        rows.values(task.sequence, task.kv_head, block, self.d_v, &mut self.values);
        let product = Matmul {
            c: &mut self.output,
            c_stride: self.d_v,
            a: Left::Columns(&self.scores, self.rows),
            b: &self.values,
            m: self.visible.len(),
            n: self.d_v,
            k: count,
        };
        product.run();
    }

    /// Sets scores of pairs outside the mask to −∞; blocks that every row sees whole are left alone.
    fn hide(&mut self, block: &Range<u64>) {
        for (lane, visible) in self.visible.iter().enumerate() {
            if visible.start <= block.start && visible.end >= block.end {
                continue;
            }
            for (key, row) in block.clone().zip(self.scores.chunks_exact_mut(self.rows)) {
                if !visible.contains(&key) {
                    row[lane] = f32::NEG_INFINITY;
                }
            }
        }
    }

    /// Row `row` of the output, divided by its sum.
    fn output_row(&mut self, row: usize, d_v: usize) -> &[f32] {
        let values = &mut self.output[row * self.d_v..][..d_v];
        let sum = self.sum[row];
        let factor = if sum > 0.0 { 1.0 / sum } else { 0.0 };
        values.iter_mut().for_each(|value| *value *= factor);
        values
    }
}
