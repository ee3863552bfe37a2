//! The reference and its naive twin.

use super::{CLEAR_LEAD, Mode, Sampling};
use crate::{Dtype, TensorSet, narrow};
use rayon::prelude::*;

/// The two best of a row, by logarithmic score.
#[derive(Clone, Copy)]
struct Race {
    first: usize,
    score: f64,
    second: f64,
}

impl Race {
    /// Scores in order of their tokens; of equal ones the first wins. NaN never does.
    fn run(scores: impl Iterator<Item = f64>) -> Self {
        let mut race = Race { first: 0, score: f64::NEG_INFINITY, second: f64::NEG_INFINITY };
        for (token, score) in scores.enumerate() {
            if score > race.score {
                race = Race { first: token, score, second: race.score };
            } else if score > race.second {
                race.second = score;
            }
        }
        race
    }
}

/// ln(softmax(logit / t) / noise) without what is the same for the whole row.
fn log_score(logit: f32, temperature: f32, noise: f32) -> f64 {
    f64::from(logit) / f64::from(temperature) - f64::from(noise).ln()
}

/// Temperature and noise of a row; `None` when it is greedy.
fn drawn_row<'a>(case: &Sampling, tensors: &'a TensorSet, row: usize) -> Option<(f32, &'a [f32])> {
    if case.mode == Mode::Greedy {
        return None;
    }
    let vocab = case.vocab as usize;
    let temperature = tensors.get("temperature").view::<f32>()[row];
    (temperature != 0.0).then(|| (temperature, &tensors.get("noise").view::<f32>()[row * vocab..(row + 1) * vocab]))
}

/// Races of all rows.
fn races(case: &Sampling, tensors: &TensorSet) -> Vec<Race> {
    let vocab = case.vocab as usize;
    let logits = tensors.get("logits").bytes();
    (0..case.batch as usize)
        .into_par_iter()
        .map_init(
            || vec![0.0_f32; vocab],
            |values, row| {
                narrow::decode_slice(case.logits, logits, row * vocab, values);
                match drawn_row(case, tensors, row) {
                    None => Race::run(values.iter().map(|value| f64::from(*value))),
                    Some((temperature, noise)) => {
                        let pairs = values.iter().zip(noise);
                        Race::run(pairs.map(|(logit, noise)| log_score(*logit, temperature, *noise)))
                    }
                }
            },
        )
        .collect()
}

pub(super) fn reference(case: &Sampling, tensors: &mut TensorSet) {
    let races = races(case, tensors);
    let out = tensors.get_mut("out");
    match case.out {
        Dtype::I32 => out.view_mut::<i32>().iter_mut().zip(races).for_each(|(out, race)| *out = race.first as i32),
        _ => out.view_mut::<i64>().iter_mut().zip(races).for_each(|(out, race)| *out = race.first as i64),
    }
}

/// Halves the winner's noise, which doubles its score, in rows where it leads by less than [`CLEAR_LEAD`].
pub(super) fn part_close_races(case: &Sampling, tensors: &mut TensorSet) {
    let vocab = case.vocab as usize;
    for (row, race) in races(case, tensors).into_iter().enumerate() {
        if drawn_row(case, tensors, row).is_some() && race.score - race.second < CLEAR_LEAD {
            tensors.get_mut("noise").view_mut::<f32>()[row * vocab + race.first] *= 0.5;
        }
    }
}

/// Tokens, one by one in f64, by probabilities as they are defined.
pub(super) fn naive(case: &Sampling, tensors: &TensorSet, indices: &[usize]) -> Vec<f64> {
    let vocab = case.vocab as usize;
    let logits = tensors.get("logits");
    let largest = |scores: Vec<f64>| {
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        scores.iter().position(|score| *score == most).unwrap_or(0) as f64
    };
    indices
        .iter()
        .map(|&row| {
            let logit = |token: usize| narrow::get(logits.spec.dtype, logits.bytes(), row * vocab + token);
            let Some((temperature, noise)) = drawn_row(case, tensors, row) else {
                return largest((0..vocab).map(logit).collect());
            };
            let temperature = f64::from(temperature);
            let most = (0..vocab).map(logit).fold(f64::NEG_INFINITY, f64::max);
            let powers: Vec<f64> = (0..vocab).map(|token| ((logit(token) - most) / temperature).exp()).collect();
            let sum: f64 = powers.iter().sum();
            largest(powers.iter().zip(noise).map(|(power, noise)| power / sum / f64::from(*noise)).collect())
        })
        .collect()
}
