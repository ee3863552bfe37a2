//! The reference and its naive twin.

use super::{Activation, Kind};
use crate::families::row_quant::{RowQuant, largest_code};
use crate::{TensorSet, narrow};
use pulp::Arch;
use rayon::prelude::*;
use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

/// Elements that one task takes at least.
const TASK_ELEMENTS: usize = 1 << 14;

/// Elements decoded at once when rows need not be whole: a block and its gate stay in the first-level cache.
const BLOCK: usize = 2048;

pub(super) fn reference(case: &Activation, tensors: &mut TensorSet) {
    let hidden = case.hidden as usize;
    let mut out = tensors.take("out");
    let mut scale = (case.quant != RowQuant::None).then(|| tensors.take("scale"));
    let x = tensors.get("x").bytes();
    let width = if case.mul { 2 * hidden } else { hidden };
    let row_bytes = hidden * (case.out.bits() / 8) as usize;

    match &mut scale {
        None => {
            // Without scales a row may be cut anywhere: pieces of rows, so that few long rows fill all threads too.
            let piece = BLOCK.min(hidden);
            let element = (case.out.bits() / 8) as usize;
            out.bytes_mut().par_chunks_mut(row_bytes).enumerate().for_each(|(row, out)| {
                out.par_chunks_mut(piece * element).with_min_len(TASK_ELEMENTS / BLOCK).enumerate().for_each_init(
                    Vec::new,
                    |scratch: &mut Vec<f32>, (index, out)| {
                        let count = out.len() / element;
                        scratch.resize(2 * piece, 0.0);
                        let values = activate(case, x, row * width + index * piece, count, scratch);
                        narrow::encode_slice(case.out, values, 0, out);
                    },
                );
            });
        }
        Some(scale) => out
            .bytes_mut()
            .par_chunks_mut(row_bytes)
            .zip(scale.view_mut::<f32>().par_chunks_mut(case.quant.scales_per_row(case.hidden)))
            .enumerate()
            .with_min_len(TASK_ELEMENTS.div_ceil(hidden))
            .for_each_init(
                || vec![0.0; 2 * hidden],
                |scratch, (row, (out, scales))| {
                    let values = activate(case, x, row * width, hidden, scratch);
                    case.quant.encode_row(values, case.out, out, scales);
                },
            ),
    }
    tensors.put(out);
    scale.into_iter().for_each(|tensor| tensors.put(tensor));
}

/// Activates `count` elements from element `first` of `x` on, gated by those `hidden` further on. The result is the head of
/// the scratch, which must hold twice as many.
fn activate<'a>(case: &Activation, x: &[u8], first: usize, count: usize, scratch: &'a mut [f32]) -> &'a mut [f32] {
    let (values, rest) = scratch.split_at_mut(count);
    let gate = if case.mul { &mut rest[..count] } else { &mut rest[..0] };
    narrow::decode_slice(case.x, x, first, values);
    narrow::decode_slice(case.x, x, first + case.hidden as usize * usize::from(case.mul), gate);
    match case.kind {
        Kind::Silu => apply(values, gate, silu),
        Kind::Gelu => apply(values, gate, gelu),
        Kind::GeluTanh => apply(values, gate, gelu_tanh),
    }
    values
}

#[inline(always)]
fn apply(values: &mut [f32], gate: &[f32], function: impl Fn(f32) -> f32) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            if gate.is_empty() {
                for value in values {
                    *value = function(*value);
                }
            } else {
                for (value, gate) in values.iter_mut().zip(gate) {
                    *value = function(*value) * gate;
                }
            }
        },
    );
}

#[inline(always)]
fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// By Abramowitz and Stegun 7.1.26 for erf (absolute error below 1.5e-7).
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let z = x.abs() * FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series = t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    let upper_tail = 0.5 * series * exp(-z * z);
    x * if x < 0.0 { upper_tail } else { 1.0 - upper_tail }
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    // (1 + tanh(y)) / 2 = 1 / (1 + e^-2y)
    const SLOPE: f32 = 0.797_884_6;
    let y = SLOPE * (x + 0.044_715 * x * x * x);
    x / (1.0 + exp(-2.0 * y))
}

/// e^x to about 1e-7 relative, free of branches and calls so that loops over it vectorise: 2^n · e^f with whole n and
/// |f| ≤ ½·ln 2, and the Taylor polynomial of e^f. Beyond ±87 it stays at the value there; NaN stays NaN.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding and subtracting 1.5·2^23 rounds to a whole number.
    const ROUND: f32 = 12_582_912.0;
    let clamped = x.clamp(-87.0, 87.0);
    let n = (clamped * LOG2_E + ROUND) - ROUND;
    // The fraction by two subtractions: ln 2 in a part that multiplies exactly and a rest.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let f = (clamped - n * LN_2_HIGH) - n * LN_2_LOW;
    let tail = 1.0 / 24.0 + f * (1.0 / 120.0 + f * (1.0 / 720.0 + f * (1.0 / 5040.0)));
    let polynomial = 1.0 + f * (1.0 + f * (1.0 / 2.0 + f * (1.0 / 6.0 + f * tail)));
    let power = f32::from_bits(((n as i32 + 127) as u32) << 23);
    polynomial * power
}

/// Elements of an output, one by one in f64. Quantised values are what they are before rounding to their dtype.
pub(super) fn naive(case: &Activation, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
    let hidden = case.hidden as usize;
    let x = tensors.get("x");
    let read = |index| narrow::get(x.spec.dtype, x.bytes(), index);
    let activated = |index: usize| {
        let (row, column) = (index / hidden, index % hidden);
        match case.mul {
            true => exact(case.kind, read(row * 2 * hidden + column)) * read((row * 2 + 1) * hidden + column),
            false => exact(case.kind, read(index)),
        }
    };
    let run = case.quant.run(case.hidden);
    let scale = |first: usize| {
        let largest = (first..first + run).map(|index| activated(index).abs()).fold(0.0, f64::max);
        largest / f64::from(largest_code(case.out))
    };
    indices
        .iter()
        .map(|&index| match name {
            "scale" => scale(index * run),
            _ => {
                let value = activated(index);
                if case.quant == RowQuant::None || value == 0.0 { value } else { value / scale(index / run * run) }
            }
        })
        .collect()
}

/// The functions as they are defined.
fn exact(kind: Kind, x: f64) -> f64 {
    match kind {
        Kind::Silu => x / (1.0 + (-x).exp()),
        Kind::Gelu => x * (1.0 - upper_tail(x)),
        Kind::GeluTanh => {
            let y = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + y.tanh())
        }
    }
}

/// P(N(0, 1) > x): the series of Abramowitz and Stegun 26.2.11 near zero, the continued fraction 26.2.14 in the tails.
fn upper_tail(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    if x.abs() > 3.0 {
        let fraction = (1..200).rev().fold(x.abs(), |below, index| x.abs() + f64::from(index) / below);
        let tail = density / fraction;
        return if x > 0.0 { tail } else { 1.0 - tail };
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-18 {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 - density * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_is_exact_to_two_units() {
        for step in -86_900..=86_900 {
            let x = step as f32 * 1e-3;
            let (want, got) = (f64::from(x).exp(), f64::from(exp(x)));
            assert!((got / want - 1.0).abs() < 2.5e-7, "{x}: {got} {want}");
        }
        assert!(exp(f32::NAN).is_nan());
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn the_naive_tail_is_the_normal_distribution_s() {
        // Standard tables of the normal distribution.
        for (x, tail) in [
            (0.0, 0.5),
            (1.959_963_984_540_054, 0.025),
            (-1.0, 0.841_344_746_068_543),
            (4.0, 3.167_124_183_311_98e-5),
            (6.0, 9.865_876_450_377e-10),
        ] {
            assert!((upper_tail(x) / tail - 1.0).abs() < 1e-12, "{x}: {}", upper_tail(x));
        }
    }

    #[test]
    fn fast_functions_follow_the_exact_ones() {
        for step in -12_000..=12_000 {
            let x = step as f32 * 1e-3;
            for (kind, got) in [(Kind::Silu, silu(x)), (Kind::Gelu, gelu(x)), (Kind::GeluTanh, gelu_tanh(x))] {
                let want = exact(kind, x.into());
                assert!((f64::from(got) - want).abs() < 1e-6 + 1e-6 * want.abs(), "{kind:?} {x}: {got} {want}");
            }
        }
        for function in [silu, gelu, gelu_tanh] {
            assert_eq!(function(1e30), 1e30);
            assert!(function(-1e5).abs() < 1e-30);
            assert!(function(f32::NAN).is_nan());
        }
    }
}
