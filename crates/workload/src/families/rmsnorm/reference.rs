//! The reference and its naive twin.

use super::Rmsnorm;
use crate::families::row_quant::{RowQuant, largest_code};
use crate::{TensorSet, narrow};
use pulp::Arch;
use rayon::prelude::*;

/// Rows that one task takes at least, so that short rows do not drown in scheduling.
const TASK_ELEMENTS: usize = 1 << 14;

/// Lanes of the partial sums of squares: independent, so that they vectorise.
const LANES: usize = 32;

pub(super) fn reference(case: &Rmsnorm, tensors: &mut TensorSet) {
    let hidden = case.hidden as usize;
    let mut weight = vec![0.0; hidden];
    narrow::decode_slice(case.weight, tensors.get("weight").bytes(), 0, &mut weight);

    let mut out = tensors.take("out");
    let mut residual = case.add.then(|| tensors.take("residual"));
    let mut scale = (case.quant != RowQuant::None).then(|| tensors.take("scale"));
    let x = tensors.get("x").bytes();

    let rows = case.rows as usize;
    let row_bytes = hidden * (case.x.bits() / 8) as usize;
    let residual_rows = rows_of(residual.as_mut().map(|tensor| tensor.bytes_mut()), row_bytes, rows);
    let scales_per_row = case.quant.scales_per_row(case.hidden);
    let scale_rows = rows_of(scale.as_mut().map(|tensor| tensor.view_mut::<f32>()), scales_per_row, rows);
    out.bytes_mut()
        .par_chunks_mut(hidden * (case.out.bits() / 8) as usize)
        .zip(x.par_chunks(row_bytes))
        .zip(residual_rows.into_par_iter().zip(scale_rows))
        .with_min_len(TASK_ELEMENTS.div_ceil(hidden))
        .for_each_init(
            || (vec![0.0; hidden], vec![0.0; if case.add { hidden } else { 0 }]),
            |(values, sum), ((out, x), (residual, scales))| {
                narrow::decode_slice(case.x, x, 0, values);
                if let Some(residual) = residual {
                    narrow::decode_slice(case.x, residual, 0, sum);
                    values.iter_mut().zip(sum.iter()).for_each(|(value, residual)| *value += residual);
                    narrow::encode_slice(case.x, values, 0, residual);
                }
                norm(values, &weight, case.eps);
                case.quant.encode_row(values, case.out, out, scales.unwrap_or_default());
            },
        );

    tensors.put(out);
    residual.into_iter().chain(scale).for_each(|tensor| tensors.put(tensor));
}

/// A tensor's rows, or as many times nothing.
fn rows_of<T>(tensor: Option<&mut [T]>, row: usize, rows: usize) -> Vec<Option<&mut [T]>> {
    match tensor {
        Some(elements) => elements.chunks_mut(row).map(Some).collect(),
        None => std::iter::repeat_with(|| None).take(rows).collect(),
    }
}

/// Norms a row in place.
fn norm(values: &mut [f32], weight: &[f32], eps: f64) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mean = sum_of_squares(values) / values.len() as f64;
            let inverse = (1.0 / (mean + eps).sqrt()) as f32;
            for (value, weight) in values.iter_mut().zip(weight) {
                *value = *value * inverse * weight;
            }
        },
    );
}

#[inline(always)]
fn sum_of_squares(values: &[f32]) -> f64 {
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for block in blocks {
        for (lane, value) in lanes.iter_mut().zip(block) {
            *lane += value * value;
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += value * value;
    }
    lanes.iter().map(|lane| f64::from(*lane)).sum()
}

/// Elements of an output, one by one in f64. Quantised values are what they are before rounding to their dtype.
pub(super) fn naive(case: &Rmsnorm, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
    let hidden = case.hidden as usize;
    let read = |tensor: &str, index| {
        let tensor = tensors.get(tensor);
        narrow::get(tensor.spec.dtype, tensor.bytes(), index)
    };
    let sum = |index| read("x", index) + if case.add { read("residual", index) } else { 0.0 };
    let inverse = |row: usize| {
        let mean = (row * hidden..(row + 1) * hidden).map(|index| sum(index).powi(2)).sum::<f64>() / hidden as f64;
        1.0 / (mean + case.eps).sqrt()
    };
    let normed = |index: usize, inverse: f64| sum(index) * inverse * read("weight", index % hidden);
    let run = case.quant.run(case.hidden);
    // `hidden` is a multiple of the run, so runs count on across rows.
    let scale = |index: usize, inverse: f64| {
        let first = index / run * run;
        let largest = (first..first + run).map(|index| normed(index, inverse).abs()).fold(0.0, f64::max);
        largest / f64::from(largest_code(case.out))
    };
    indices
        .iter()
        .map(|&index| match name {
            "residual" => sum(index),
            "scale" => scale(index * run, inverse(index * run / hidden)),
            _ => {
                let inverse = inverse(index / hidden);
                let value = normed(index, inverse);
                if case.quant == RowQuant::None || value == 0.0 { value } else { value / scale(index, inverse) }
            }
        })
        .collect()
}
