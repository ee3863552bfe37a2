//! Loading rows and elements through a block table.

use super::{KvScale, Layout, PagedAttention};
use crate::families::attention::naive::{Elements, at};
use crate::families::attention::reference::Rows;
use crate::narrow;
use crate::tensor::{Tensor, TensorSet};
use std::ops::Range;

/// The inputs of a case.
pub(super) struct Inputs<'a> {
    case: &'a PagedAttention,
    q: &'a Tensor,
    keys: Cache<'a>,
    values: Cache<'a>,
    table: &'a [i32],
    table_stride: usize,
}

/// One half of the cache with its scales.
#[derive(Clone, Copy)]
struct Cache<'a> {
    tensor: &'a Tensor,
    scales: Option<&'a Tensor>,
}

/// Consecutive tokens of one page.
struct Run {
    page: usize,
    slots: Range<usize>,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(case: &'a PagedAttention, tensors: &'a TensorSet) -> Self {
        let cache = |name, scale| Cache {
            tensor: tensors.get(name),
            scales: (case.kv_scale != KvScale::None).then(|| tensors.get(scale)),
        };
        Self {
            case,
            q: tensors.get("q"),
            keys: cache("k_cache", "k_scale"),
            values: cache("v_cache", "v_scale"),
            table: tensors.get("block_table").view(),
            table_stride: case.longest_table() as usize,
        }
    }

    /// The pages that hold tokens `range` of a sequence.
    fn runs(&self, sequence: usize, range: Range<u64>) -> impl Iterator<Item = Run> {
        let block = self.case.block_size;
        let blocks = range.start / block..range.end.div_ceil(block);
        let row = &self.table[sequence * self.table_stride..][..self.table_stride];
        blocks.map(move |index| {
            let start = range.start.max(index * block) - index * block;
            let end = range.end.min((index + 1) * block) - index * block;
            Run { page: row[index as usize] as usize, slots: start as usize..end as usize }
        })
    }

    /// Multiplies the rows of a run with their scales.
    fn scale(&self, cache: Cache<'_>, head: usize, run: &Run, stride: usize, rows: &mut [f32]) {
        let Some(scales) = cache.scales else { return };
        let scales: &[f32] = scales.view();
        let (block, heads) = (self.case.block_size as usize, self.case.heads.kv_heads as usize);
        for (slot, row) in run.slots.clone().zip(rows.chunks_mut(stride)) {
            let factor = match (self.case.kv_scale, self.case.layout) {
                (KvScale::PerToken, Layout::Flash) => scales[(run.page * block + slot) * heads + head],
                (KvScale::PerToken, Layout::Aiter) => scales[(run.page * heads + head) * block + slot],
                _ => scales[0],
            };
            row.iter_mut().for_each(|value| *value *= factor);
        }
    }

    /// Decodes tokens of a page whose elements stand together: rows of `d` elements.
    fn load_rows(&self, tensor: &Tensor, head: usize, run: &Run, (d, stride): (usize, usize), rows: &mut [f32]) {
        let (block, heads) = (self.case.block_size as usize, self.case.heads.kv_heads as usize);
        for (slot, row) in run.slots.clone().zip(rows.chunks_mut(stride)) {
            let first = ((run.page * block + slot) * heads + head) * d;
            narrow::decode_slice(tensor.spec.dtype, tensor.bytes(), first, &mut row[..d]);
        }
    }

    /// Decodes tokens of a page that is stored as [d / chunk, block, chunk]; a chunk of 1 is a transposed page.
    fn load_chunks(&self, tensor: &Tensor, head: usize, run: &Run, shape: ChunkShape, rows: &mut [f32]) {
        let ChunkShape { d, chunk, stride } = shape;
        let (block, heads) = (self.case.block_size as usize, self.case.heads.kv_heads as usize);
        let page = (run.page * heads + head) * d * block;
        let mut buffer = [0.0; 256];
        let step = buffer.len() / chunk;
        for part in 0..d / chunk {
            for (piece, first) in run.slots.clone().step_by(step).enumerate() {
                let count = step.min(run.slots.end - first);
                let piece_values = &mut buffer[..count * chunk];
                let start = page + (part * block + first) * chunk;
                narrow::decode_slice(tensor.spec.dtype, tensor.bytes(), start, piece_values);
                let rows = rows.chunks_mut(stride).skip(piece * step);
                for (values, row) in piece_values.chunks_exact(chunk).zip(rows) {
                    row[part * chunk..][..chunk].copy_from_slice(values);
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct ChunkShape {
    d: usize,
    chunk: usize,
    stride: usize,
}

impl Rows for Inputs<'_> {
    fn query(&self, sequence: usize, index: u64, head: u64, out: &mut [f32]) {
        let first = self.output_row(sequence, index, head) * out.len();
        narrow::decode_slice(self.q.spec.dtype, self.q.bytes(), first, out);
    }

    fn keys(&self, sequence: usize, head: u64, range: Range<u64>, out: &mut [f32]) {
        let (d, head) = (self.case.heads.d_qk as usize, head as usize);
        let mut rest = out;
        for run in self.runs(sequence, range) {
            let (rows, after) = rest.split_at_mut(run.slots.len() * d);
            match self.case.layout {
                Layout::Flash => self.load_rows(self.keys.tensor, head, &run, (d, d), rows),
                Layout::Aiter => {
                    let shape = ChunkShape { d, chunk: self.case.chunk() as usize, stride: d };
                    self.load_chunks(self.keys.tensor, head, &run, shape, rows);
                }
            }
            self.scale(self.keys, head, &run, d, rows);
            rest = after;
        }
    }

    fn values(&self, sequence: usize, head: u64, range: Range<u64>, stride: usize, out: &mut [f32]) {
        let (d, head) = (self.case.heads.d_v as usize, head as usize);
        let mut rest = out;
        for run in self.runs(sequence, range) {
            let (rows, after) = rest.split_at_mut(run.slots.len() * stride);
            match self.case.layout {
                Layout::Flash => self.load_rows(self.values.tensor, head, &run, (d, stride), rows),
                Layout::Aiter => {
                    self.load_chunks(self.values.tensor, head, &run, ChunkShape { d, chunk: 1, stride }, rows);
                }
            }
            self.scale(self.values, head, &run, stride, rows);
            rest = after;
        }
    }

    fn output_row(&self, sequence: usize, index: u64, head: u64) -> usize {
        (sequence * self.case.q_len as usize + index as usize) * self.case.heads.q_heads as usize + head as usize
    }
}

impl Inputs<'_> {
    fn page_and_slot(&self, sequence: usize, position: u64) -> (u64, u64) {
        let entry = sequence as u64 * self.table_stride as u64 + position / self.case.block_size;
        (self.table[entry as usize] as u64, position % self.case.block_size)
    }

    fn scale_at(&self, cache: Cache<'_>, page: u64, slot: u64, head: u64) -> f64 {
        match (cache.scales, self.case.kv_scale, self.case.layout) {
            (None, ..) => 1.0,
            (Some(scales), KvScale::PerToken, Layout::Flash) => at(scales, &[page, slot, head]),
            (Some(scales), KvScale::PerToken, Layout::Aiter) => at(scales, &[page, head, slot]),
            (Some(scales), ..) => at(scales, &[0]),
        }
    }
}

impl Elements for Inputs<'_> {
    fn query(&self, sequence: usize, index: u64, head: u64, d: u64) -> f64 {
        at(self.q, &[sequence as u64 * self.case.q_len + index, head, d])
    }

    fn key(&self, sequence: usize, position: u64, head: u64, d: u64) -> f64 {
        let (page, slot) = self.page_and_slot(sequence, position);
        let chunk = self.case.chunk();
        let stored = match self.case.layout {
            Layout::Flash => at(self.keys.tensor, &[page, slot, head, d]),
            Layout::Aiter => at(self.keys.tensor, &[page, head, d / chunk, slot, d % chunk]),
        };
        stored * self.scale_at(self.keys, page, slot, head)
    }

    fn value(&self, sequence: usize, position: u64, head: u64, d: u64) -> f64 {
        let (page, slot) = self.page_and_slot(sequence, position);
        let stored = match self.case.layout {
            Layout::Flash => at(self.values.tensor, &[page, slot, head, d]),
            Layout::Aiter => at(self.values.tensor, &[page, head, d, slot]),
        };
        stored * self.scale_at(self.values, page, slot, head)
    }
}
