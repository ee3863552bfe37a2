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
/// The same where a task has several key/value heads.
const KEYS_OF_SEVERAL: u64 = 64;

/// How a family loads its rows as f32. Positions count within the sequence.
pub(crate) trait Rows: Sync {
    /// Query `index` of `sequence`, head `head`, into `out[..d_qk]`.
    fn query(&self, sequence: usize, index: u64, head: u64, out: &mut [f32]);
    /// Keys `range` of key/value heads `heads`: key by key, then head by head, d_qk elements each.
    fn keys(&self, sequence: usize, heads: Range<u64>, range: Range<u64>, out: &mut [f32]);
    /// Values in the same order, `stride` elements each; what lies beyond d_v of these stays untouched.
    fn values(&self, sequence: usize, heads: Range<u64>, range: Range<u64>, stride: usize, out: &mut [f32]);
    /// Key/value heads that are best loaded together, because they stand together in memory.
    fn heads_together(&self) -> u64 {
        1
    }
    /// Row of the output tensor, counted in vectors of d_v elements.
    fn output_row(&self, sequence: usize, index: u64, head: u64) -> usize;
}

/// One unit of parallel work: a block of queries of one sequence, for every query head of some key/value heads.
struct Task<'a> {
    sequence: usize,
    kv_heads: Range<u64>,
    queries: Range<u64>,
    /// Output rows by key/value head, then by query, then by member of the group.
    out: Vec<&'a mut [u8]>,
}

/// Computes the whole output tensor `out` of dtype `out_dtype`.
pub(crate) fn attend<R: Rows>(heads: Heads, mask: Mask, spans: &[Span], rows: &R, out_dtype: Dtype, out: &mut [u8]) {
    let row_bytes = out_dtype.bytes(u128::from(heads.d_v)) as usize;
    let mut slots: Vec<Option<&mut [u8]>> = out.chunks_exact_mut(row_bytes).map(Some).collect();
    let mut tasks = Vec::new();
    let group = heads.group();
    let block = (ROWS / group).max(1);
    let together = heads_a_task(heads, spans, block, rows.heads_together());
    for (sequence, span) in spans.iter().enumerate() {
        for start in (0..span.q_len).step_by(block as usize) {
            let queries = start..(start + block).min(span.q_len);
            for first in (0..heads.kv_heads).step_by(together as usize) {
                let kv_heads = first..(first + together).min(heads.kv_heads);
                let members = kv_heads.clone().flat_map(|kv_head| {
                    queries
                        .clone()
                        .flat_map(move |index| (0..group).map(move |member| (index, kv_head * group + member)))
                });
                let out =
                    members.filter_map(|(index, head)| slots[rows.output_row(sequence, index, head)].take()).collect();
                tasks.push(Task { sequence, kv_heads, queries: queries.clone(), out });
            }
        }
    }
    drop(slots);
    tasks.into_par_iter().for_each_init(
        || Scratch::new(heads, block, together),
        |scratch, task| {
            scratch.run(heads, mask, spans[task.sequence], rows, &task);
            let rows = task.out.len() / (task.kv_heads.end - task.kv_heads.start) as usize;
            for (index, bytes) in task.out.into_iter().enumerate() {
                let values = scratch.states[index / rows].output_row(index % rows, scratch.d_v, heads.d_v as usize);
                narrow::encode_slice(out_dtype, values, 0, bytes);
            }
        },
    );
}

/// As many heads as are best loaded together, unless that leaves threads without work.
fn heads_a_task(heads: Heads, spans: &[Span], block: u64, together: u64) -> u64 {
    let together = together.clamp(1, heads.kv_heads);
    let blocks: u64 = spans.iter().map(|span| span.q_len.div_ceil(block)).sum();
    let tasks = blocks * heads.kv_heads.div_ceil(together);
    if tasks >= 2 * rayon::current_num_threads() as u64 { together } else { 1 }
}

/// Buffers of one thread, reused over its tasks.
struct Scratch {
    /// Rows, padded.
    rows: usize,
    /// Stride of values and outputs.
    d_v: usize,
    /// Keys in a block.
    block: u64,
    /// One query row.
    row: Vec<f32>,
    /// [keys × heads × d_qk].
    keys: Vec<f32>,
    /// [keys × heads × d_v].
    values: Vec<f32>,
    /// Scores, then weights, of one head, transposed: [keys × rows].
    scores: Vec<f32>,
    correction: Vec<f32>,
    /// Keys that each row sees.
    visible: Vec<Range<u64>>,
    /// One a key/value head.
    states: Vec<State>,
}

/// Query rows of one key/value head and what they have gathered so far.
struct State {
    /// Scaled queries, transposed: [d_qk × rows].
    queries: Vec<f32>,
    /// [rows × d_v].
    output: Vec<f32>,
    maximum: Vec<f32>,
    sum: Vec<f32>,
}

impl Scratch {
    fn new(heads: Heads, queries: u64, together: u64) -> Self {
        let real_rows = (queries * heads.group()) as usize;
        let (rows, d_qk, d_v) = (padded(real_rows), heads.d_qk as usize, padded(heads.d_v as usize));
        let block = if together > 1 { KEYS_OF_SEVERAL } else { KEYS };
        let vectors = (block * together) as usize;
        let state = || State {
            queries: vec![0.0; d_qk * rows],
            output: vec![0.0; real_rows * d_v],
            maximum: vec![0.0; rows],
            sum: vec![0.0; rows],
        };
        Self {
            rows,
            d_v,
            block,
            row: vec![0.0; d_qk],
            keys: vec![0.0; vectors * d_qk],
            values: vec![0.0; vectors * d_v],
            scores: vec![0.0; block as usize * rows],
            correction: vec![0.0; rows],
            visible: Vec::with_capacity(real_rows),
            states: (0..together).map(|_| state()).collect(),
        }
    }

    fn run<R: Rows>(&mut self, heads: Heads, mask: Mask, span: Span, rows: &R, task: &Task<'_>) {
        self.visible.clear();
        for index in task.queries.clone() {
            self.visible.extend((0..heads.group()).map(|_| mask.visible(span, index)));
        }
        for state in 0..(task.kv_heads.end - task.kv_heads.start) as usize {
            self.load_queries(heads, rows, task, state);
        }
        let seeing = self.visible.iter().filter(|range| !range.is_empty());
        let range = seeing.cloned().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
        let mut start = range.start;
        while start < range.end {
            let block = start..(start + self.block).min(range.end);
            start = block.end;
            rows.keys(task.sequence, task.kv_heads.clone(), block.clone(), &mut self.keys);
            rows.values(task.sequence, task.kv_heads.clone(), block.clone(), self.d_v, &mut self.values);
            for state in 0..(task.kv_heads.end - task.kv_heads.start) as usize {
                self.accumulate(heads, task, &block, state);
            }
        }
    }

    /// Loads the query rows of one of the task's heads, and empties what it has gathered.
    fn load_queries<R: Rows>(&mut self, heads: Heads, rows: &R, task: &Task<'_>, state: usize) {
        let (scale, group) = (heads.scale() as f32, heads.group());
        let kv_head = task.kv_heads.start + state as u64;
        let state = &mut self.states[state];
        let members = task.queries.clone().flat_map(|index| (0..group).map(move |member| (index, member)));
        for (lane, (index, member)) in members.enumerate() {
            rows.query(task.sequence, index, kv_head * group + member, &mut self.row);
            for (d, value) in self.row.iter().enumerate() {
                state.queries[d * self.rows + lane] = value * scale;
            }
        }
        state.output.fill(0.0);
        state.maximum.fill(f32::NEG_INFINITY);
        state.sum.fill(0.0);
    }

    /// Adds one loaded block of keys to one of the task's heads.
    fn accumulate(&mut self, heads: Heads, task: &Task<'_>, block: &Range<u64>, index: usize) {
        let together = (task.kv_heads.end - task.kv_heads.start) as usize;
        let (count, d_qk) = ((block.end - block.start) as usize, heads.d_qk as usize);
        let scores = &mut self.scores[..count * self.rows];
        scores.fill(0.0);
        Matmul {
            c: scores,
            c_stride: self.rows,
            a: Left::Rows(&self.keys[index * d_qk..], together * d_qk),
            b: &self.states[index].queries,
            b_stride: self.rows,
            m: count,
            n: self.rows,
            k: d_qk,
        }
        .run();
        self.hide(block);
        let state = &mut self.states[index];
        SoftmaxBlock {
            scores: &mut self.scores[..count * self.rows],
            maximum: &mut state.maximum,
            sum: &mut state.sum,
            correction: &mut self.correction,
            rows: self.rows,
        }
        .run();
        for (row, correction) in state.output.chunks_exact_mut(self.d_v).zip(&self.correction) {
            if *correction != 1.0 {
                row.iter_mut().for_each(|value| *value *= correction);
            }
        }
        Matmul {
            c: &mut state.output,
            c_stride: self.d_v,
            a: Left::Columns(&self.scores, self.rows),
            b: &self.values[index * self.d_v..],
            b_stride: together * self.d_v,
            m: self.visible.len(),
            n: self.d_v,
            k: count,
        }
        .run();
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
}

impl State {
    /// Row `row` of the output, divided by its sum.
    fn output_row(&mut self, row: usize, stride: usize, d_v: usize) -> &[f32] {
        let values = &mut self.output[row * stride..][..d_v];
        let sum = self.sum[row];
        let factor = if sum > 0.0 { 1.0 / sum } else { 0.0 };
        values.iter_mut().for_each(|value| *value *= factor);
        values
    }
}
