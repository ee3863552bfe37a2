//! Query-key pairs and keys read under a mask, counted exactly where sequence lengths are known and bounded where only
//! sums are.
//!
//! Queries of a sequence are its last N_Q positions of N_KV (bottom-right causal mask), so the query at position p
//! (1 to N_KV) sees min(p, limit) keys. Summed over positions 1 to n that is `seen(n)`, and a sequence has
//! seen(N_KV) − seen(N_KV − N_Q) pairs.

use super::Mask;
use crate::labels::{Part, runs_sum};
use serde::Serialize;

/// A count of work that is known exactly, between bounds, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// Exactly this many.
    Exact(u128),
    /// The label leaves this range; both ends are possible or as near as sums allow.
    Between {
        /// No less than this.
        least: u128,
        /// No more than this.
        most: u128,
    },
    /// The label does not hold what is needed.
    Unknown,
}

impl Count {
    fn of(exact: Option<u128>) -> Self {
        exact.map_or(Count::Unknown, Count::Exact)
    }

    fn between(least: Option<u128>, most: Option<u128>) -> Self {
        match (least, most) {
            (Some(least), Some(most)) if least == most => Count::Exact(least),
            (Some(least), Some(most)) => Count::Between { least, most },
            _ => Count::Unknown,
        }
    }

    /// The sum of two counts; unknown when one is, or when it does not fit 128 bits.
    #[must_use]
    pub fn plus(self, other: Count) -> Count {
        let ends = |count| match count {
            Count::Exact(count) => Some((count, count)),
            Count::Between { least, most } => Some((least, most)),
            Count::Unknown => None,
        };
        let sum = ends(self).zip(ends(other));
        let sum = sum.map(|(a, b)| (a.0.checked_add(b.0), a.1.checked_add(b.1)));
        sum.map_or(Count::Unknown, |(least, most)| Count::between(least, most))
    }

    /// The count, when exact.
    pub fn exact(self) -> Option<u128> {
        match self {
            Count::Exact(count) => Some(count),
            _ => None,
        }
    }
}

/// Query-key pairs of a part under a mask.
pub(super) fn pairs(mask: Mask, part: &Part) -> Count {
    if part.is_none() {
        return Count::Exact(0);
    }
    if let Some(sequences) = part.lengths().pairs() {
        return Count::of(total(&sequences, |queries, context| sequence_pairs(mask, queries, context)));
    }
    let full = full_pairs(part);
    let limit = match mask {
        Mask::Full => return Count::of(full),
        Mask::Window(limit) | Mask::TopK(limit) | Mask::Chunk(limit) => limit,
    };
    let (Some(seqs), Some(tokens)) = (part.seqs, part.tokens.map(u128::from)) else { return Count::Unknown };
    let capped = tokens.checked_mul(u128::from(limit));
    if let (Mask::Window(_) | Mask::TopK(_), Some((queries, nkv))) = (mask, decode_sums(part)) {
        let one = |context| sequence_pairs(mask, queries, context);
        return concave(seqs, queries, nkv, one);
    }
    let most = match (full, capped) {
        (Some(full), Some(capped)) => Some(full.min(capped)),
        (full, capped) => full.or(capped),
    };
    let least = match mask {
        // The query at position p sees min(p, W) keys or more, and that sum is least for equal lengths.
        Mask::Window(_) | Mask::TopK(_) => even_split(seqs, tokens, |queries| sequence_pairs(mask, queries, queries)),
        _ => Some(tokens),
    };
    Count::between(least, most)
}

/// Keys (and values) that a layer reads from the cache or the step, each once a sequence.
pub(super) fn keys_read(mask: Mask, part: &Part) -> Count {
    if part.is_none() {
        return Count::Exact(0);
    }
    if let Mask::Full = mask {
        let listed = part.lengths().contexts.and_then(|runs| runs_sum(&runs));
        return Count::of(part.sums.nkv.or(listed));
    }
    if let Some(sequences) = part.lengths().pairs() {
        let least = total(&sequences, |queries, context| sequence_keys(mask, queries, context).map(|keys| keys.0));
        let most = total(&sequences, |queries, context| sequence_keys(mask, queries, context).map(|keys| keys.1));
        return Count::between(least, most);
    }
    let Some(seqs) = part.seqs else { return Count::Unknown };
    if let (Mask::Window(_) | Mask::TopK(_), Some((queries, nkv))) = (mask, decode_sums(part)) {
        let least = concave(seqs, queries, nkv, |context| sequence_keys(mask, queries, context).map(|keys| keys.0));
        let most = concave(seqs, queries, nkv, |context| sequence_keys(mask, queries, context).map(|keys| keys.1));
        return match (least, most) {
            (Count::Exact(least), Count::Exact(most)) => Count::between(Some(least), Some(most)),
            (Count::Exact(least) | Count::Between { least, .. }, Count::Exact(most) | Count::Between { most, .. }) => {
                Count::Between { least, most }
            }
            _ => Count::Unknown,
        };
    }
    let Some(tokens) = part.tokens.map(u128::from) else { return Count::Unknown };
    match mask {
        Mask::Window(window) => {
            let reach = u128::from(window.saturating_sub(1)).checked_mul(u128::from(seqs));
            let most = part.sums.nkv.and_then(|nkv| Some(nkv.min(tokens.checked_add(reach?)?)));
            let least = (window > 0).then_some(tokens);
            Count::between(least, most)
        }
        Mask::Full | Mask::TopK(_) | Mask::Chunk(_) => Count::Unknown,
    }
}

/// Pairs of one sequence under a mask; `None` when they do not fit 128 bits or the context is shorter than the queries.
pub(super) fn sequence_pairs(mask: Mask, queries: u64, context: u64) -> Option<u128> {
    let before = context.checked_sub(queries)?;
    Some(seen(mask, context)? - seen(mask, before)?)
}

/// Σ over positions 1 to n of the keys that the query there sees.
fn seen(mask: Mask, n: u64) -> Option<u128> {
    let n = u128::from(n);
    match mask {
        Mask::Full => Some(triangle(n)),
        Mask::Window(limit) | Mask::TopK(limit) => {
            let limit = u128::from(limit);
            if n <= limit { Some(triangle(n)) } else { triangle(limit).checked_add((n - limit) * limit) }
        }
        Mask::Chunk(chunk) => {
            let chunk = u128::from(chunk.max(1));
            (n / chunk).checked_mul(triangle(chunk))?.checked_add(triangle(n % chunk))
        }
    }
}

/// 1 + 2 + … + n for n of 64 bits.
fn triangle(n: u128) -> u128 {
    n * (n + 1) / 2
}

/// Keys that one sequence reads: least and most.
fn sequence_keys(mask: Mask, queries: u64, context: u64) -> Option<(u128, u128)> {
    let before = context.checked_sub(queries)?;
    let (wide_queries, wide_context) = (u128::from(queries), u128::from(context));
    Some(match mask {
        Mask::Full => (wide_context, wide_context),
        Mask::Window(window) => {
            let keys = wide_context.min(wide_queries + u128::from(window.saturating_sub(1)));
            (keys, keys)
        }
        Mask::Chunk(chunk) => {
            let chunk = chunk.max(1);
            let keys = u128::from(context - before / chunk * chunk);
            (keys, keys)
        }
        // All queries of a sequence may pick the same keys or different ones.
        Mask::TopK(topk) => {
            let topk = u128::from(topk);
            (wide_context.min(topk), wide_context.min(wide_queries.checked_mul(topk)?))
        }
    })
}

/// Σ (N_Q·N_KV − N_Q·(N_Q − 1)/2), from the sums alone.
fn full_pairs(part: &Part) -> Option<u128> {
    let tokens = u128::from(part.tokens?);
    let (nq2, nq_nkv) = match part.lengths().queries.as_deref() {
        Some([(queries, count)]) => {
            let (queries, count) = (u128::from(*queries), u128::from(*count));
            let nq2 = queries.checked_mul(queries)?.checked_mul(count)?;
            (nq2, part.sums.nq_nkv.or_else(|| part.sums.nkv?.checked_mul(queries))?)
        }
        _ => (part.sums.nq2?, part.sums.nq_nkv?),
    };
    nq_nkv.checked_sub(nq2.checked_sub(tokens)? / 2)
}

/// The query length that all sequences share and the sum of their contexts.
fn decode_sums(part: &Part) -> Option<(u64, u128)> {
    let lengths = part.lengths();
    let [(queries, _)] = lengths.queries.as_deref()? else { return None };
    Some((*queries, part.sums.nkv?))
}

/// Bounds of Σ f(N_KV) for a concave, growing f, when only the sum of contexts is known and each is at least `least`:
/// equal contexts give most, all the rest in one sequence gives least.
fn concave(seqs: u64, least: u64, nkv: u128, f: impl Fn(u64) -> Option<u128>) -> Count {
    let wide = u128::from(seqs);
    let spread = || {
        let others = u128::from(least).checked_mul(wide.checked_sub(1)?)?;
        let longest = u64::try_from(nkv.checked_sub(others)?).ok()?;
        f(least)?.checked_mul(wide - 1)?.checked_add(f(longest)?)
    };
    Count::between(spread(), even_split(seqs, nkv, f))
}

/// Σ f over `seqs` lengths that sum to `sum` and differ by at most one.
fn even_split(seqs: u64, sum: u128, f: impl Fn(u64) -> Option<u128>) -> Option<u128> {
    let seqs = u128::from(seqs);
    let short = u64::try_from(sum.checked_div(seqs)?).ok()?;
    let longer = sum % seqs;
    let shorts = f(short)?.checked_mul(seqs - longer)?;
    if longer == 0 { Some(shorts) } else { shorts.checked_add(f(short.checked_add(1)?)?.checked_mul(longer)?) }
}

fn total(sequences: &[(u64, u64, u64)], f: impl Fn(u64, u64) -> Option<u128>) -> Option<u128> {
    sequences.iter().try_fold(0u128, |sum, (queries, context, count)| {
        sum.checked_add(f(*queries, *context)?.checked_mul(u128::from(*count))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Contexts, Sums};
    use proptest::prelude::*;

    /// Keys seen by each query, position by position.
    fn brute(mask: Mask, sequences: &[(u64, u64)]) -> (u128, u128) {
        let (mut pairs, mut keys) = (0, 0);
        for (queries, context) in sequences {
            let mut read = vec![false; *context as usize + 1];
            for p in context - queries + 1..=*context {
                for key in 1..=p {
                    let sees = match mask {
                        Mask::Full => true,
                        Mask::Window(window) => p - key < window,
                        Mask::Chunk(chunk) => (p - 1) / chunk == (key - 1) / chunk,
                        Mask::TopK(topk) => key <= topk,
                    };
                    pairs += u128::from(sees);
                    read[key as usize] |= sees;
                }
            }
            keys += read.iter().filter(|read| **read).count() as u128;
        }
        (pairs, keys)
    }

    fn part(sequences: &[(u64, u64)], listed: bool) -> Part {
        let sum = |f: fn(u128, u128) -> u128| sequences.iter().map(|(q, c)| f(u128::from(*q), u128::from(*c))).sum();
        Part {
            seqs: Some(sequences.len() as u64),
            tokens: Some(sequences.iter().map(|(q, _)| q).sum()),
            sums: Sums { nq2: Some(sum(|q, _| q * q)), nq_nkv: Some(sum(|q, c| q * c)), nkv: Some(sum(|_, c| c)) },
            contexts: listed.then(|| Contexts { listed: sequences.iter().map(|(_, c)| *c).collect(), more: 0 }),
        }
    }

    fn masks() -> impl Strategy<Value = Mask> {
        prop_oneof![
            Just(Mask::Full),
            (1u64..20).prop_map(Mask::Window),
            (1u64..20).prop_map(Mask::Chunk),
            (1u64..20).prop_map(Mask::TopK),
        ]
    }

    fn holds(count: Count, real: u128) -> bool {
        match count {
            Count::Exact(exact) => exact == real,
            Count::Between { least, most } => least <= real && real <= most,
            Count::Unknown => true,
        }
    }

    proptest! {
        #[test]
        fn sums_of_any_batch_hold_the_real_work(
            mask in masks(),
            sequences in prop::collection::vec((1u64..12, 0u64..40), 1..5),
        ) {
            let sequences: Vec<(u64, u64)> = sequences.iter().map(|(q, cached)| (*q, q + cached)).collect();
            let (real_pairs, real_keys) = brute(mask, &sequences);
            let part = part(&sequences, false);
            let found = pairs(mask, &part);
            prop_assert!(holds(found, real_pairs), "{:?} {}", found, real_pairs);
            let found = keys_read(mask, &part);
            prop_assert!(holds(found, real_keys), "{:?} {}", found, real_keys);
            if mask == Mask::Full {
                prop_assert_eq!(pairs(mask, &part), Count::Exact(real_pairs));
                prop_assert_eq!(keys_read(mask, &part), Count::Exact(real_keys));
            }
        }

        #[test]
        fn listed_contexts_of_a_decode_are_exact(
            mask in masks(),
            queries in 1u64..5,
            cached in prop::collection::vec(0u64..60, 1..6),
        ) {
            let sequences: Vec<(u64, u64)> = cached.iter().map(|cached| (queries, queries + cached)).collect();
            let (real_pairs, real_keys) = brute(mask, &sequences);
            let part = part(&sequences, true);
            prop_assert_eq!(pairs(mask, &part), Count::Exact(real_pairs));
            match mask {
                Mask::TopK(_) => prop_assert!(holds(keys_read(mask, &part), real_keys)),
                _ => prop_assert_eq!(keys_read(mask, &part), Count::Exact(real_keys)),
            }
        }

        /// No count panics, however large.
        #[test]
        fn hostile_sums_do_not_overflow(
            mask in prop_oneof![
                Just(Mask::Full),
                any::<u64>().prop_map(Mask::Window),
                any::<u64>().prop_map(Mask::Chunk),
                any::<u64>().prop_map(Mask::TopK),
            ],
            seqs in any::<u64>(),
            tokens in any::<u64>(),
            nq2 in any::<Option<u128>>(),
            nq_nkv in any::<Option<u128>>(),
            nkv in any::<Option<u128>>(),
        ) {
            let part = Part { seqs: Some(seqs), tokens: Some(tokens), sums: Sums { nq2, nq_nkv, nkv }, contexts: None };
            let _ = (pairs(mask, &part), keys_read(mask, &part));
        }
    }

    /// Both bounds of a decode with equal query lengths are reached by some batch with the same sums.
    #[test]
    fn decode_bounds_are_tight() {
        for (seqs, nkv, window) in [(3u64, 12u64, 5u64), (4, 9, 2), (2, 30, 8)] {
            let mut reached = Vec::new();
            let mut stack = vec![Vec::new()];
            while let Some(contexts) = stack.pop() {
                let left: u64 = nkv - contexts.iter().sum::<u64>();
                if contexts.len() as u64 == seqs - 1 {
                    let mut all: Vec<(u64, u64)> = contexts.iter().map(|c| (1, *c)).collect();
                    all.push((1, left));
                    reached.push(brute(Mask::Window(window), &all).0);
                    continue;
                }
                let rest = seqs - contexts.len() as u64 - 1;
                stack.extend((1..=left - rest).map(|next| [contexts.clone(), vec![next]].concat()));
            }
            let sums = Sums { nq2: Some(seqs.into()), nq_nkv: Some(nkv.into()), nkv: Some(nkv.into()) };
            let part = Part { seqs: Some(seqs), tokens: Some(seqs), sums, contexts: None };
            let (least, most) = (*reached.iter().min().unwrap(), *reached.iter().max().unwrap());
            assert_eq!(pairs(Mask::Window(window), &part), Count::Between { least, most }, "{seqs} {nkv} {window}");
        }
    }
}
