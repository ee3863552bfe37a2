//! The reference and its naive twin.

use super::{MoeGate, Score};
use crate::{TensorSet, narrow};
use rayon::prelude::*;

/// Rows that one task takes at least.
const TASK_ELEMENTS: usize = 1 << 12;

/// One token's logits and, when there is one, the bias of all.
pub(super) struct Row<'a> {
    pub(super) logits: &'a [f64],
    pub(super) bias: &'a [f64],
}

/// The bias in f64; empty when there is none.
pub(super) fn bias(case: &MoeGate, tensors: &TensorSet) -> Vec<f64> {
    let Some(dtype) = case.bias else { return Vec::new() };
    let bytes = tensors.get("bias").bytes();
    (0..case.experts as usize).map(|index| narrow::get(dtype, bytes, index)).collect()
}

pub(super) fn reference(case: &MoeGate, tensors: &mut TensorSet) {
    let (experts, topk) = (case.experts as usize, case.topk as usize);
    let bias: Vec<f32> = bias(case, tensors).iter().map(|bias| *bias as f32).collect();
    let mut weights = tensors.take("topk_weights");
    let mut ids = tensors.take("topk_ids");
    let logits = tensors.get("logits").bytes();
    weights
        .view_mut::<f32>()
        .par_chunks_mut(topk)
        .zip(ids.view_mut::<i32>().par_chunks_mut(topk))
        .enumerate()
        .with_min_len(TASK_ELEMENTS.div_ceil(experts))
        .for_each_init(
            || (vec![0.0; experts], vec![0.0; experts], Vec::with_capacity(experts)),
            |(scores, keys, order), (token, (weights, ids))| {
                narrow::decode_slice(case.logits, logits, token * experts, keys);
                scores.copy_from_slice(keys);
                score(case.score, scores);
                if !bias.is_empty() {
                    keys.iter_mut().zip(scores.iter()).zip(&bias).for_each(|((key, score), bias)| *key = score + bias);
                }
                order.clear();
                order.extend(0..experts as u32);
                keep_best_groups(case, keys, order);
                // Larger keys first, of equal ones the lowest expert first; 0.0 and −0.0 are equal.
                let better = |a: &u32, b: &u32| {
                    let (x, y) = (keys[*a as usize], keys[*b as usize]);
                    y.partial_cmp(&x).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(b))
                };
                if topk < order.len() {
                    order.select_nth_unstable_by(topk - 1, better);
                }
                order[..topk].sort_unstable_by(better);
                let chosen = order[..topk].iter().map(|expert| scores[*expert as usize]);
                let factor = case.scale as f32 / if case.renormalize { chosen.clone().sum::<f32>() } else { 1.0 };
                weights.iter_mut().zip(chosen).for_each(|(weight, score)| *weight = score * factor);
                ids.iter_mut().zip(order.iter()).for_each(|(id, expert)| *id = *expert as i32);
            },
        );
    tensors.put(weights);
    tensors.put(ids);
}

/// Scores logits in place.
fn score(score: Score, values: &mut [f32]) {
    match score {
        Score::Sigmoid => values.iter_mut().for_each(|value| *value = 1.0 / (1.0 + (-*value).exp())),
        Score::Softmax => {
            let largest = values.iter().fold(f32::NEG_INFINITY, |largest, value| largest.max(*value));
            values.iter_mut().for_each(|value| *value = (*value - largest).exp());
            let inverse = 1.0 / values.iter().sum::<f32>();
            values.iter_mut().for_each(|value| *value *= inverse);
        }
    }
}

/// Leaves the experts of the best groups in `order`.
fn keep_best_groups(case: &MoeGate, keys: &[f32], order: &mut Vec<u32>) {
    if case.groups == 1 {
        return;
    }
    let size = (case.experts / case.groups) as usize;
    let mut groups: Vec<(f32, usize)> = keys
        .chunks_exact(size)
        .map(|keys| {
            let (first, second) = best_two(keys);
            if case.bias.is_some() { first + second } else { first }
        })
        .zip(0..)
        .collect();
    // Stable: of equal groups the lowest stays first.
    groups.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(std::cmp::Ordering::Equal));
    let kept = &groups[..case.topk_groups as usize];
    order.retain(|expert| kept.iter().any(|(_, group)| *expert as usize / size == *group));
}

fn best_two(keys: &[f32]) -> (f32, f32) {
    keys.iter().fold((f32::NEG_INFINITY, f32::NEG_INFINITY), |(first, second), key| match *key {
        key if key > first => (key, first),
        key => (first, second.max(key)),
    })
}

/// What experts and groups are chosen by, in f64.
pub(super) struct Choices {
    /// Keys of the experts that take part.
    pub(super) experts: Vec<f64>,
    /// Which experts these are.
    pub(super) ids: Vec<usize>,
    /// Keys of all groups.
    pub(super) groups: Vec<f64>,
}

/// Scores of all experts, in f64.
fn scores(case: &MoeGate, row: &Row<'_>) -> Vec<f64> {
    match case.score {
        Score::Sigmoid => row.logits.iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect(),
        Score::Softmax => {
            let sum: f64 = row.logits.iter().map(|logit| logit.exp()).sum();
            row.logits.iter().map(|logit| logit.exp() / sum).collect()
        }
    }
}

/// Keys of groups and of the experts that take part, by counting who is better.
pub(super) fn choices(case: &MoeGate, row: &Row<'_>) -> Choices {
    let keys: Vec<f64> = match row.bias {
        [] => row.logits.to_vec(),
        bias => scores(case, row).iter().zip(bias).map(|(score, bias)| score + bias).collect(),
    };
    let size = (case.experts / case.groups) as usize;
    let group_key = |group: &[f64]| {
        let mut sorted = group.to_vec();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        if row.bias.is_empty() { sorted[0] } else { sorted.iter().take(2).sum() }
    };
    let groups: Vec<f64> = if case.groups == 1 { vec![0.0] } else { keys.chunks(size).map(group_key).collect() };
    let takes_part = |expert: usize| rank(&groups, expert / size) < case.topk_groups as usize;
    let ids: Vec<usize> = (0..keys.len()).filter(|expert| takes_part(*expert)).collect();
    Choices { experts: ids.iter().map(|expert| keys[*expert]).collect(), ids, groups }
}

/// How many entries are better than entry `index`: larger, or equal and before it.
fn rank(keys: &[f64], index: usize) -> usize {
    let better = |(other, key): (usize, &f64)| *key > keys[index] || (*key == keys[index] && other < index);
    keys.iter().enumerate().filter(|entry| better(*entry)).count()
}

/// Elements one by one in f64.
pub(super) fn naive(case: &MoeGate, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
    let (experts, topk) = (case.experts as usize, case.topk as usize);
    let bias = bias(case, tensors);
    let bytes = tensors.get("logits").bytes();
    indices
        .iter()
        .map(|&index| {
            let (token, place) = (index / topk, index % topk);
            let first = token * experts;
            let logits: Vec<f64> = (first..first + experts).map(|at| narrow::get(case.logits, bytes, at)).collect();
            let row = Row { logits: &logits, bias: &bias };
            let candidates = choices(case, &row);
            let mut chosen = vec![0; topk];
            for (at, expert) in candidates.ids.iter().enumerate() {
                if let Some(entry) = chosen.get_mut(rank(&candidates.experts, at)) {
                    *entry = *expert;
                }
            }
            if name == "topk_ids" {
                return chosen[place] as f64;
            }
            let scores = scores(case, &row);
            let sum: f64 = chosen.iter().map(|expert| scores[*expert]).sum();
            scores[chosen[place]] * case.scale / if case.renormalize { sum } else { 1.0 }
        })
        .collect()
}
