//! The reference and its naive twin.

use super::Quant;
use crate::families::row_quant::largest_code;
use crate::{TensorSet, narrow};
use rayon::prelude::*;

/// Elements that one task takes at least.
const TASK_ELEMENTS: usize = 1 << 14;

pub(super) fn reference(case: &Quant, tensors: &mut TensorSet) {
    let hidden = case.hidden as usize;
    let mut out = tensors.take("out");
    let mut scale = tensors.take("scale");
    let x = tensors.get("x").bytes();
    // Quantised dtypes are one byte wide.
    out.bytes_mut()
        .par_chunks_mut(hidden)
        .zip(scale.view_mut::<f32>().par_chunks_mut(case.quant.scales_per_row(case.hidden)))
        .enumerate()
        .with_min_len(TASK_ELEMENTS.div_ceil(hidden))
        .for_each_init(
            || vec![0.0; hidden],
            |values, (row, (out, scales))| {
                narrow::decode_slice(case.x, x, row * hidden, values);
                case.quant.encode_row(values, case.out, out, scales);
            },
        );
    tensors.put(out);
    tensors.put(scale);
}

/// Elements of an output, one by one in f64. Quantised values are what they are before rounding to their dtype.
pub(super) fn naive(case: &Quant, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
    let x = tensors.get("x");
    let read = |index| narrow::get(x.spec.dtype, x.bytes(), index);
    // `hidden` is a multiple of the run, so runs count on across rows.
    let run = case.quant.run(case.hidden);
    let scale = |number: usize| {
        let largest = (number * run..(number + 1) * run).map(|index| read(index).abs()).fold(0.0, f64::max);
        largest / f64::from(largest_code(case.out))
    };
    indices
        .iter()
        .map(|&index| match name {
            "scale" => scale(index),
            _ if read(index) == 0.0 => 0.0,
            _ => read(index) / scale(index / run),
        })
        .collect()
}
