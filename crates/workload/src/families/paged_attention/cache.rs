//! Loading rows and elements through a block table.

use super::{KvScale, Layout, PagedAttention};
use crate::families::attention::naive::{Elements, at};
use crate::families::attention::reference::Rows;
use crate::narrow;
use crate::simd::scale_blocks;
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

    /// Loads tokens `range` of some heads from one half of the cache: token by token, then head by head.
    fn load(
        &self,
        cache: Cache<'_>,
        sequence: usize,
        heads: &Range<u64>,
        range: Range<u64>,
        size: Size,
        out: &mut [f32],
    ) {
        let together = (heads.end - heads.start) as usize;
        let mut rest = out;
        for run in self.runs(sequence, range) {
            let (rows, after) = rest.split_at_mut(run.slots.len() * together * size.stride);
            match self.case.layout {
                Layout::Flash => self.load_tokens(cache.tensor, heads, &run, size, rows),
                Layout::Aiter => {
                    for (index, head) in heads.clone().enumerate() {
                        let rows = &mut rows[index * size.stride..];
                        self.load_chunks(cache.tensor, head as usize, &run, size, together * size.stride, rows);
                    }
                }
            }
            self.scale(cache, heads, &run, size.stride, rows);
            rest = after;
        }
    }

    /// Multiplies the rows of a run with their scales.
    fn scale(&self, cache: Cache<'_>, heads: &Range<u64>, run: &Run, stride: usize, rows: &mut [f32]) {
        let Some(scales) = cache.scales else { return };
        let scales: &[f32] = scales.view();
        if self.case.kv_scale != KvScale::PerToken {
            return scale_blocks(rows, rows.len(), scales);
        }
        let (block, count) = (self.case.block_size as usize, self.case.heads.kv_heads as usize);
        let vectors = run.slots.clone().flat_map(|slot| heads.clone().map(move |head| (slot, head as usize)));
        for ((slot, head), row) in vectors.zip(rows.chunks_mut(stride)) {
            let index = match self.case.layout {
                Layout::Flash => (run.page * block + slot) * count + head,
                Layout::Aiter => (run.page * count + head) * block + slot,
            };
            scale_blocks(row, stride, &[scales[index]]);
        }
    }

    /// Decodes tokens of a page in which the heads of a token stand together.
    fn load_tokens(&self, tensor: &Tensor, heads: &Range<u64>, run: &Run, size: Size, rows: &mut [f32]) {
        let (block, count) = (self.case.block_size as usize, self.case.heads.kv_heads as usize);
        let together = (heads.end - heads.start) as usize;
        for (slot, token) in run.slots.clone().zip(rows.chunks_mut(together * size.stride)) {
            let first = ((run.page * block + slot) * count + heads.start as usize) * size.d;
            if size.d == size.stride {
                narrow::decode_slice(tensor.spec.dtype, tensor.bytes(), first, token);
                continue;
            }
            for (index, row) in token.chunks_mut(size.stride).enumerate() {
                narrow::decode_slice(tensor.spec.dtype, tensor.bytes(), first + index * size.d, &mut row[..size.d]);
            }
        }
    }

    /// Decodes tokens of a page that is stored as [d / chunk, block, chunk]; a chunk of 1 is a transposed page.
    fn load_chunks(&self, tensor: &Tensor, head: usize, run: &Run, size: Size, stride: usize, rows: &mut [f32]) {
        let Size { d, chunk, .. } = size;
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

/// Elements of a vector in the cache.
#[derive(Clone, Copy)]
struct Size {
    d: usize,
    /// Elements that `layout=aiter` keeps together.
    chunk: usize,
    /// Elements between vectors as they are loaded.
    stride: usize,
}

impl Rows for Inputs<'_> {
    fn query(&self, sequence: usize, index: u64, head: u64, out: &mut [f32]) {
        let first = self.output_row(sequence, index, head) * out.len();
        narrow::decode_slice(self.q.spec.dtype, self.q.bytes(), first, out);
    }

    fn keys(&self, sequence: usize, heads: Range<u64>, range: Range<u64>, out: &mut [f32]) {
        let d = self.case.heads.d_qk as usize;
        let size = Size { d, chunk: self.case.chunk() as usize, stride: d };
        self.load(self.keys, sequence, &heads, range, size, out);
    }

    fn values(&self, sequence: usize, heads: Range<u64>, range: Range<u64>, stride: usize, out: &mut [f32]) {
        let size = Size { d: self.case.heads.d_v as usize, chunk: 1, stride };
        self.load(self.values, sequence, &heads, range, size, out);
    }

    /// Heads of a token that stand together: about a kilobyte, which the CPU's prefetchers can stream.
    fn heads_together(&self) -> u64 {
        const BYTES: u64 = 1024;
        match self.case.layout {
            Layout::Flash => (BYTES * 8 / (self.case.heads.d_qk * self.case.kv.bits())).max(1),
            Layout::Aiter => 1,
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
