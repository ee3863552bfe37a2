//! Where the tokens of a step go.

use crate::random;
use rand::Rng as _;

/// Tokens of each sequence: as equal as they can be, the first ones longer.
fn lengths(tokens: u64, batch: u64) -> impl Iterator<Item = u64> {
    let (each, more) = (tokens / batch, tokens % batch);
    (0..batch).map(move |sequence| each + u64::from(sequence < more))
}

/// Pages of a sequence of `length` tokens that begins at the last place of a page, the worst it can draw.
fn pages_of(length: u64, block_size: u64) -> u64 {
    (length + block_size - 1).div_ceil(block_size)
}

/// Pages that hold the tokens wherever their sequences begin.
pub(super) fn pages_needed(tokens: u64, batch: u64, block_size: u64) -> u64 {
    lengths(tokens, batch).map(|length| pages_of(length, block_size)).sum()
}

/// Slots of `tokens` tokens, then −1 for each padding token. All slots differ.
pub(super) fn draw(tokens: u64, padding: u64, batch: u64, block_size: u64, pages: u64, seed: u64) -> Vec<i64> {
    let mut rng = random::rng(seed, "slot_mapping");
    let mut below = |limit: u64| ((u128::from(rng.next_u64()) * u128::from(limit)) >> 64) as u64;
    // A permutation drawn as far as it is used; the rest is not looked at.
    let mut order: Vec<u32> = (0..pages as u32).collect();
    let mut next = 0;
    let mut take_page = |below: &mut dyn FnMut(u64) -> u64| {
        let other = next + below((order.len() - next) as u64) as usize;
        order.swap(next, other);
        next += 1;
        u64::from(order[next - 1])
    };
    let mut slots = Vec::with_capacity((tokens + padding) as usize);
    for length in lengths(tokens, batch) {
        let first = below(block_size);
        let mut page = 0;
        for place in first..first + length {
            if place == first || place % block_size == 0 {
                page = take_page(&mut below);
            }
            slots.push((page * block_size + place % block_size) as i64);
        }
    }
    slots.extend(std::iter::repeat_n(-1, padding as usize));
    slots
}
