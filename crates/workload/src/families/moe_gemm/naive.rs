//! The naive form: single elements in f64, from the tensors' own dims and routing.

use super::shape::{MoeGemm, Product, Quant, Stage};
use crate::families::attention::naive::at;
use crate::tensor::TensorSet;
use std::collections::HashMap;

/// Elements `indices` (row-major) of the output.
pub(super) fn elements(case: &MoeGemm, tensors: &TensorSet, indices: &[usize]) -> Vec<f64> {
    let layer = Layer { case, tensors };
    // One routed row of a fused layer's intermediate costs inter·hidden products: computed once.
    let mut intermediates: HashMap<u64, Vec<f64>> = HashMap::new();
    indices
        .iter()
        .map(|index| {
            let width = case.output_dims()[1];
            let (row, column) = (*index as u64 / width, *index as u64 % width);
            if case.stage == Stage::GateUp {
                return layer.activated(&case.products()[0], row, column);
            }
            let down = &case.products()[case.products().len() - 1];
            (0..case.topk)
                .map(|choice| {
                    let slot = row * case.topk + choice;
                    let value = if case.stage == Stage::Fused {
                        let input = intermediates.entry(slot).or_insert_with(|| {
                            (0..case.inter).map(|i| layer.activated(&case.products()[0], slot, i)).collect()
                        });
                        (0..down.k).map(|i| input[i as usize] * layer.weight(down, slot, column, i)).sum()
                    } else {
                        layer.dot(down, slot, slot, column)
                    };
                    at(tensors.get("topk_weights"), &[row, choice]) * value
                })
                .sum()
        })
        .collect()
}

struct Layer<'a> {
    case: &'a MoeGemm,
    tensors: &'a TensorSet,
}

impl Layer<'_> {
    /// act(gate)·up of a slot.
    fn activated(&self, product: &Product, slot: u64, column: u64) -> f64 {
        let row = slot / self.case.topk;
        let gate = self.case.act.apply_f64(self.dot(product, slot, row, column));
        if self.case.gated { gate * self.dot(product, slot, row, self.case.inter + column) } else { gate }
    }

    fn dot(&self, product: &Product, slot: u64, row: u64, n: u64) -> f64 {
        (0..product.k).map(|k| self.input(row, k) * self.weight(product, slot, n, k)).sum()
    }

    fn input(&self, row: u64, k: u64) -> f64 {
        let stored = at(self.tensors.get("x"), &[row, k]);
        match self.case.quant {
            Quant::None | Quant::Mx32 => stored,
            Quant::PerToken => stored * at(self.tensors.get("x_scale"), &[row]),
            Quant::Block128 => stored * at(self.tensors.get("x_scale"), &[row, k / 128]),
        }
    }

    fn weight(&self, product: &Product, slot: u64, n: u64, k: u64) -> f64 {
        let expert = at(self.tensors.get("topk_ids"), &[slot / self.case.topk, slot % self.case.topk]) as u64;
        let stored = at(self.tensors.get(product.name), &[expert, n, k]);
        let scale = |coordinates: &[u64]| at(self.tensors.get(product.scale_name), coordinates);
        match self.case.quant {
            Quant::None => stored,
            Quant::PerToken => stored * scale(&[expert, n]),
            Quant::Block128 => stored * scale(&[expert, n / 128, k / 128]),
            Quant::Mx32 => stored * scale(&[expert, n, k / 32]),
        }
    }
}
