//! Dequantising blocks of weights.

use super::shape::{MoeGemm, Product, Quant};
use crate::narrow;
use crate::simd::scale_blocks;
use crate::tensor::{Tensor, TensorSet};
use std::ops::Range;

/// Elements of k decoded at a time, a multiple of every quantisation block: 32 rows of it stay in a second-level cache.
pub(super) const INNER: usize = 512;
/// Elements of k that share a scale.
const BLOCK: usize = 128;
const MX_BLOCK: usize = 32;

/// The weights of one product.
pub(super) struct Weights<'a> {
    tensor: &'a Tensor,
    scales: Option<&'a Tensor>,
    quant: Quant,
    n: usize,
    k: usize,
}

impl<'a> Weights<'a> {
    pub(super) fn new(case: &MoeGemm, product: &Product, tensors: &'a TensorSet) -> Self {
        Self {
            tensor: tensors.get(product.name),
            scales: (case.quant != Quant::None).then(|| tensors.get(product.scale_name)),
            quant: case.quant,
            n: product.n as usize,
            k: product.k as usize,
        }
    }

    /// Elements `inner` of row `row` of an expert, as real values. `inner` starts at a multiple of 128 and
    /// is at most [`INNER`] long.
    pub(super) fn load(&self, expert: usize, row: usize, inner: Range<usize>, out: &mut [f32]) {
        let first = (expert * self.n + row) * self.k + inner.start;
        let out = &mut out[..inner.len()];
        narrow::decode_slice(self.tensor.spec.dtype, self.tensor.bytes(), first, out);
        let Some(scales) = self.scales else { return };
        match self.quant {
            Quant::None => {}
            Quant::PerToken => {
                let scale = scales.view::<f32>()[expert * self.n + row];
                scale_blocks(out, INNER, &[scale]);
            }
            Quant::Block128 => {
                let (rows, columns) = (self.n.div_ceil(BLOCK), self.k.div_ceil(BLOCK));
                let line = &scales.view::<f32>()[(expert * rows + row / BLOCK) * columns..][..columns];
                scale_blocks(out, BLOCK, &line[inner.start / BLOCK..]);
            }
            Quant::Mx32 => {
                let first = ((expert * self.n + row) * self.k + inner.start) / MX_BLOCK;
                let mut line = [0.0; INNER / MX_BLOCK];
                let line = &mut line[..out.len() / MX_BLOCK];
                narrow::decode_slice(scales.spec.dtype, scales.bytes(), first, line);
                scale_blocks(out, MX_BLOCK, line);
            }
        }
    }
}
