//! Logits whose choice does not hang on rounding.

use super::MoeGate;
use super::reference::{Row, choices};
use crate::random::{self, Generator};
use crate::{TensorSet, narrow};
use rand::Rng as _;
use rayon::prelude::*;

/// Draws of a token before it is taken as it is: far more than it takes, unless equal candidates cannot be avoided (a bias of
/// nothing but ties).
const TRIES: usize = 64;

/// Candidates are told apart when they differ by this share of themselves; f32 scores of different kernels by a tenth of it.
const GAP: f64 = 1e-5;
/// The same for sums of a score and a bias that nearly cancel.
const ABSOLUTE_GAP: f64 = 1e-6;

pub(super) fn fill_logits(case: &MoeGate, seed: u64, tensors: &mut TensorSet) {
    let bias = super::reference::bias(case, tensors);
    let experts = case.experts as usize;
    let levels: Vec<f64> = (0..experts).map(|index| logistic_quantile((index as f64 + 0.5) / experts as f64)).collect();
    let row_bytes = experts * (case.logits.bits() / 8) as usize;
    let rows = tensors.get_mut("logits").bytes_mut().par_chunks_mut(row_bytes);
    rows.enumerate().for_each_init(
        || levels.clone(),
        |values, (token, bytes)| {
            let mut rng = random::rng(seed ^ (token as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15), "logits");
            values.copy_from_slice(&levels);
            for _ in 0..TRIES {
                draw(values, &mut rng, bytes, case);
                let logits: Vec<f64> = (0..experts).map(|index| narrow::get(case.logits, bytes, index)).collect();
                if separated(case, &Row { logits: &logits, bias: &bias }) {
                    break;
                }
            }
        },
    );
}

/// The inverse of the logistic distribution function.
fn logistic_quantile(probability: f64) -> f64 {
    (probability / (1.0 - probability)).ln()
}

fn draw(levels: &mut [f64], rng: &mut Generator, bytes: &mut [u8], case: &MoeGate) {
    for last in (1..levels.len()).rev() {
        let other = ((u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64) as usize;
        levels.swap(last, other);
    }
    let factor = 0.5 + (rng.next_u64() >> 11) as f64 / (1u64 << 54) as f64;
    levels.iter().enumerate().for_each(|(index, level)| narrow::set(case.logits, bytes, index, factor * level));
}

/// True when no rounding can change the groups, the chosen experts or their order.
fn separated(case: &MoeGate, row: &Row<'_>) -> bool {
    let apart = |better: f64, worse: f64| {
        let absolute = if case.bias.is_some() { ABSOLUTE_GAP } else { 0.0 };
        better - worse > GAP * better.abs().max(worse.abs()) + absolute
    };
    let candidates = choices(case, row);
    let mut groups = candidates.groups;
    groups.sort_unstable_by(|a, b| b.total_cmp(a));
    let groups_apart = match groups.get(case.topk_groups as usize - 1..=case.topk_groups as usize) {
        Some(&[last_in, first_out]) => apart(last_in, first_out),
        _ => true,
    };
    let mut experts = candidates.experts;
    experts.sort_unstable_by(|a, b| b.total_cmp(a));
    groups_apart && experts.windows(2).take(case.topk as usize).all(|pair| apart(pair[0], pair[1]))
}
