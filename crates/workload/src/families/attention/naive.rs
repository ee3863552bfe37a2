//! The naive form: one output element at a time in f64, scores first, softmax second.

use super::{Heads, Mask, Span};
use crate::narrow;
use crate::tensor::Tensor;

/// How a family reads single elements; written apart from its block loads so that one checks the other.
pub(crate) trait Elements {
    /// Element `d` of a query.
    fn query(&self, sequence: usize, index: u64, head: u64, d: u64) -> f64;
    /// Element `d` of a key.
    fn key(&self, sequence: usize, position: u64, head: u64, d: u64) -> f64;
    /// Element `d` of a value.
    fn value(&self, sequence: usize, position: u64, head: u64, d: u64) -> f64;
}

/// An element of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Sequence.
    pub(crate) sequence: usize,
    /// Query within the sequence.
    pub(crate) index: u64,
    /// Query head.
    pub(crate) head: u64,
    /// Element of the head.
    pub(crate) d: u64,
}

/// Output elements at `places`. Weights are computed once for neighbouring places of one row.
pub(crate) fn attend(
    heads: Heads,
    mask: Mask,
    spans: &[Span],
    elements: &impl Elements,
    places: impl Iterator<Item = Place>,
) -> Vec<f64> {
    let mut row = None;
    let mut weights: Vec<(u64, f64)> = Vec::new();
    places
        .map(|place| {
            let Place { sequence, index, head, d } = place;
            let kv_head = head / heads.group();
            if row != Some((sequence, index, head)) {
                row = Some((sequence, index, head));
                weights = mask
                    .visible(spans[sequence], index)
                    .map(|key| {
                        let products = (0..heads.d_qk).map(|i| {
                            elements.query(sequence, index, head, i) * elements.key(sequence, key, kv_head, i)
                        });
                        (key, products.sum::<f64>() / (heads.d_qk as f64).sqrt())
                    })
                    .collect();
                let largest = weights.iter().fold(f64::NEG_INFINITY, |m, (_, score)| m.max(*score));
                weights.iter_mut().for_each(|(_, score)| *score = (*score - largest).exp());
                let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
                weights.iter_mut().for_each(|(_, weight)| *weight /= total);
            }
            weights.iter().map(|(key, weight)| weight * elements.value(sequence, *key, kv_head, d)).sum()
        })
        .collect()
}

/// Element at full coordinates, by the dims of the tensor itself.
pub(crate) fn at(tensor: &Tensor, coordinates: &[u64]) -> f64 {
    let index = tensor.spec.dims.iter().zip(coordinates).fold(0, |index, (dim, at)| index * dim + at);
    narrow::get(tensor.spec.dtype, tensor.bytes(), index as usize)
}
