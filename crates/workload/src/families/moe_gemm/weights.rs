//! Dequantising blocks of weights.

use super::shape::{MoeGemm, Product, Quant};
use crate::narrow;
use crate::tensor::{Tensor, TensorSet};
use std::ops::Range;

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

    /// Elements `inner` of row `row` of an expert, as real values. `inner` starts at a multiple of 128.
    pub(super) fn load(&self, expert: usize, row: usize, inner: Range<usize>, out: &mut [f32]) {
        let first = (expert * self.n + row) * self.k + inner.start;
        let out = &mut out[..inner.len()];
        narrow::decode_slice(self.tensor.spec.dtype, self.tensor.bytes(), first, out);
        let Some(scales) = self.scales else { return };
        match self.quant {
            Quant::None => {}
            Quant::PerToken => {
                let scale = scales.view::<f32>()[expert * self.n + row];
                out.iter_mut().for_each(|value| *value *= scale);
            }
            Quant::Block128 => {
                let (rows, columns) = (self.n.div_ceil(BLOCK), self.k.div_ceil(BLOCK));
                let line = &scales.view::<f32>()[(expert * rows + row / BLOCK) * columns..][..columns];
                for (values, scale) in out.chunks_mut(BLOCK).zip(&line[inner.start / BLOCK..]) {
                    values.iter_mut().for_each(|value| *value *= scale);
                }
            }
            Quant::Mx32 => {
                let columns = self.k / MX_BLOCK;
                let line = &scales.bytes()[(expert * self.n + row) * columns..][..columns];
                for (values, code) in out.chunks_mut(MX_BLOCK).zip(&line[inner.start / MX_BLOCK..]) {
                    let scale = narrow::decode(scales.spec.dtype, u16::from(*code));
                    values.iter_mut().for_each(|value| *value *= scale);
                }
            }
        }
    }
}
