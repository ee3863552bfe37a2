//! The reference and its naive twin.

use super::MoeSort;
use crate::TensorSet;
use crate::families::moe_gemm::routing::Sorted;

/// Bits of a table entry that hold the token.
const TOKEN_BITS: u32 = 24;

/// Counting sort, one pass over the choices and one over the tables.
pub(super) fn reference(case: &MoeSort, tensors: &mut TensorSet) {
    let (topk, block) = (case.topk as usize, case.block_m as usize);
    let ids: Vec<u32> = tensors.get("topk_ids").view::<i32>().iter().map(|id| *id as u32).collect();
    let sorted = Sorted::new(&ids, case.experts as usize);
    let mut token_ids = tensors.take("sorted_token_ids");
    let mut weights = tensors.take("sorted_weights");
    let mut experts = tensors.take("sorted_expert_ids");
    let given = tensors.get("topk_weights").view::<f32>();
    let mut entries = token_ids.view_mut::<i32>().iter_mut().zip(weights.view_mut::<f32>());
    let mut blocks = experts.view_mut::<i32>().iter_mut();
    let mut used = 0;
    for (expert, bounds) in sorted.starts.windows(2).enumerate() {
        let choices = &sorted.slots[bounds[0]..bounds[1]];
        let padded = choices.len().next_multiple_of(block);
        for (choice, (entry, weight)) in choices.iter().zip(entries.by_ref()) {
            let (token, slot) = (*choice as usize / topk, *choice as usize % topk);
            *entry = (slot as i32) << TOKEN_BITS | token as i32;
            *weight = given[*choice as usize];
        }
        for (entry, weight) in entries.by_ref().take(padded - choices.len()) {
            *entry = (topk as i32) << TOKEN_BITS | case.tokens as i32;
            *weight = 0.0;
        }
        blocks.by_ref().take(padded / block).for_each(|block| *block = expert as i32);
        used += padded;
    }
    tensors.get_mut("num_valid_ids").view_mut::<i32>().copy_from_slice(&[used as i32, case.tokens as i32]);
    [token_ids, weights, experts].into_iter().for_each(|tensor| tensors.put(tensor));
}

/// Elements of tables that are built by looking at every choice once for every expert.
pub(super) fn naive(case: &MoeSort, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
    let ids = tensors.get("topk_ids").view::<i32>();
    let weights = tensors.get("topk_weights").view::<f32>();
    let mut entries: Vec<(f64, f64)> = Vec::new();
    let mut blocks: Vec<f64> = Vec::new();
    for expert in 0..case.experts {
        for token in 0..case.tokens {
            for slot in 0..case.topk {
                let choice = (token * case.topk + slot) as usize;
                if ids[choice] as u64 == expert {
                    entries.push(((slot * (1 << TOKEN_BITS) + token) as f64, weights[choice].into()));
                }
            }
        }
        while !(entries.len() as u64).is_multiple_of(case.block_m) {
            entries.push(((case.topk * (1 << TOKEN_BITS) + case.tokens) as f64, 0.0));
        }
        blocks.resize((entries.len() as u64 / case.block_m) as usize, expert as f64);
    }
    let old = tensors.get(name);
    let was = |index| crate::narrow::get(old.spec.dtype, old.bytes(), index);
    indices
        .iter()
        .map(|&index| match name {
            "sorted_token_ids" => entries.get(index).map_or_else(|| was(index), |(entry, _)| *entry),
            "sorted_weights" => entries.get(index).map_or_else(|| was(index), |(_, weight)| *weight),
            "sorted_expert_ids" => blocks.get(index).copied().unwrap_or_else(|| was(index)),
            _ => [entries.len() as f64, case.tokens as f64][index],
        })
        .collect()
}
