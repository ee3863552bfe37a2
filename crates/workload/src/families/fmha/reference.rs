//! Loading rows and elements of `fmha` tensors.

use super::{Fmha, Layout};
use crate::families::attention::naive::{Elements, at};
use crate::families::attention::reference::Rows;
use crate::narrow;
use crate::simd::scale_blocks;
use crate::tensor::{Tensor, TensorSet};
use std::ops::Range;

/// The inputs of a case.
pub(super) struct Inputs<'a> {
    case: &'a Fmha,
    q: &'a Tensor,
    k: &'a Tensor,
    v: &'a Tensor,
    /// Descales of q, k and v, when the operands are fp8.
    descales: Option<[&'a [f32]; 3]>,
}

/// Position of a tensor's descale in [`Inputs::descales`].
#[derive(Clone, Copy)]
enum Operand {
    Q,
    K,
    V,
}

impl<'a> Inputs<'a> {
    pub(super) fn new(case: &'a Fmha, tensors: &'a TensorSet) -> Self {
        let descales = case
            .operands
            .is_fp8()
            .then(|| ["q_descale", "k_descale", "v_descale"].map(|name| tensors.get(name).view::<f32>()));
        Self { case, q: tensors.get("q"), k: tensors.get("k"), v: tensors.get("v"), descales }
    }

    fn descale(&self, operand: Operand, sequence: usize, kv_head: u64) -> f32 {
        let index = sequence * self.case.heads.kv_heads as usize + kv_head as usize;
        self.descales.map_or(1.0, |descales| descales[operand as usize][index])
    }

    /// Vector `position` of head `head` of `count`, in a tensor whose sequences start at `starts`.
    fn vector(&self, starts: &[u64], sequence: usize, position: u64, head: u64, count: u64) -> u64 {
        let start = starts[sequence];
        match self.case.layout {
            Layout::Bshd | Layout::Thd => (start + position) * count + head,
            Layout::Bhsd => start * count + head * (starts[sequence + 1] - start) + position,
        }
    }

    /// Loads keys or values of some heads in rows of `stride`.
    fn load(
        &self,
        operand: Operand,
        (sequence, heads): (usize, Range<u64>),
        range: Range<u64>,
        (d, stride): (usize, usize),
        out: &mut [f32],
    ) {
        let tensor = match operand {
            Operand::Q => self.q,
            Operand::K => self.k,
            Operand::V => self.v,
        };
        let vectors = range.flat_map(|position| heads.clone().map(move |head| (position, head)));
        for ((position, head), row) in vectors.zip(out.chunks_mut(stride)) {
            let vector = self.vector(&self.case.kv_starts, sequence, position, head, self.case.heads.kv_heads);
            narrow::decode_slice(tensor.spec.dtype, tensor.bytes(), vector as usize * d, &mut row[..d]);
            scale(&mut row[..d], self.descale(operand, sequence, head));
        }
    }
}

fn scale(values: &mut [f32], factor: f32) {
    if factor != 1.0 {
        scale_blocks(values, values.len(), &[factor]);
    }
}

impl Rows for Inputs<'_> {
    fn query(&self, sequence: usize, index: u64, head: u64, out: &mut [f32]) {
        let heads = self.case.heads;
        let vector = self.vector(&self.case.q_starts, sequence, index, head, heads.q_heads);
        narrow::decode_slice(self.q.spec.dtype, self.q.bytes(), vector as usize * out.len(), out);
        scale(out, self.descale(Operand::Q, sequence, head / heads.group()));
    }

    fn keys(&self, sequence: usize, heads: Range<u64>, range: Range<u64>, out: &mut [f32]) {
        let d = self.case.heads.d_qk as usize;
        self.load(Operand::K, (sequence, heads), range, (d, d), out);
    }

    fn values(&self, sequence: usize, heads: Range<u64>, range: Range<u64>, stride: usize, out: &mut [f32]) {
        self.load(Operand::V, (sequence, heads), range, (self.case.heads.d_v as usize, stride), out);
    }

    fn output_row(&self, sequence: usize, index: u64, head: u64) -> usize {
        self.vector(&self.case.q_starts, sequence, index, head, self.case.heads.q_heads) as usize
    }
}

impl Inputs<'_> {
    fn element(&self, operand: Operand, sequence: usize, position: u64, head: u64, d: u64) -> f64 {
        let (tensor, starts, group) = match operand {
            Operand::Q => (self.q, &self.case.q_starts, self.case.heads.group()),
            Operand::K => (self.k, &self.case.kv_starts, 1),
            Operand::V => (self.v, &self.case.kv_starts, 1),
        };
        let stored = match self.case.layout {
            Layout::Bshd => at(tensor, &[sequence as u64, position, head, d]),
            Layout::Bhsd => at(tensor, &[sequence as u64, head, position, d]),
            Layout::Thd => at(tensor, &[starts[sequence] + position, head, d]),
        };
        stored * f64::from(self.descale(operand, sequence, head / group))
    }
}

impl Elements for Inputs<'_> {
    fn query(&self, sequence: usize, index: u64, head: u64, d: u64) -> f64 {
        self.element(Operand::Q, sequence, index, head, d)
    }

    fn key(&self, sequence: usize, position: u64, head: u64, d: u64) -> f64 {
        self.element(Operand::K, sequence, position, head, d)
    }

    fn value(&self, sequence: usize, position: u64, head: u64, d: u64) -> f64 {
        self.element(Operand::V, sequence, position, head, d)
    }
}
