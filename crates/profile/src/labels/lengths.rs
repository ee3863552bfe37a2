//! Lengths of single sequences, where a label's counts and sums leave only one possibility.

use super::step::Part;

/// Equal neighbours as (value, how often): a batch of a million equal sequences takes one entry.
pub type Runs = Vec<(u64, u64)>;

/// Query and context lengths of the sequences of a part. `None` where they do not follow from the label; never a guess.
/// Where both are known they stand in the same order, run by run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// N_Q of each sequence.
    pub queries: Option<Runs>,
    /// N_KV of each sequence (context length, the step's own tokens included).
    pub contexts: Option<Runs>,
}

impl Lengths {
    /// What follows from a part. It uses:
    /// - one sequence: its lengths are the sums;
    /// - B·ΣN_Q² = (ΣN_Q)², or B = ΣN_Q: all query lengths are equal (equality in Cauchy-Schwarz; each runs at least one);
    /// - ΣN_KV = ΣN_Q: nothing was cached, so N_KV = N_Q for each (N_KV ≥ N_Q always);
    /// - two sequences: sum and sum of squares give both lengths, and then two linear equations both contexts;
    /// - a complete list of contexts in the label.
    pub fn of(part: &Part) -> Self {
        let (Some(seqs), Some(tokens)) = (part.seqs, part.tokens) else {
            return Self { queries: None, contexts: listed(part) };
        };
        if seqs == 0 || tokens < seqs {
            return Self::default();
        }
        let listed = listed(part);
        let fresh =
            part.sums.nkv == Some(u128::from(tokens)) || listed.as_ref().and_then(runs_sum) == Some(u128::from(tokens));
        if let Some(queries) = equal_queries(part, seqs, tokens) {
            let contexts = listed
                .or_else(|| fresh.then(|| queries.clone()))
                .or_else(|| if seqs == 1 { one_context(part, tokens) } else { None });
            return Self { queries: Some(queries), contexts }.checked();
        }
        if fresh && listed.is_some() {
            return Self { queries: listed.clone(), contexts: listed };
        }
        let queries = if seqs == 2 { two_queries(part, tokens) } else { None };
        match (queries, listed) {
            (Some(queries), _) if fresh => Self { contexts: Some(queries.clone()), queries: Some(queries) },
            (Some(queries), listed) => match (two_contexts(part, &queries), listed) {
                (Some(contexts), _) => Self { queries: Some(queries), contexts: Some(contexts) },
                // Which of the listed contexts belongs to which query length is open.
                (None, Some(listed)) => Self { queries: None, contexts: Some(listed) },
                (None, None) => Self { queries: Some(queries), contexts: None },
            },
            (None, listed) => Self { queries: None, contexts: listed },
        }
    }

    /// Nothing, when a context is shorter than a query: then the label contradicts itself.
    fn checked(self) -> Self {
        match self.pairs() {
            Some(pairs) if pairs.iter().any(|(query, context, _)| context < query) => Self::default(),
            _ => self,
        }
    }

    /// Both lengths of each sequence as (N_Q, N_KV, how often).
    pub fn pairs(&self) -> Option<Vec<(u64, u64, u64)>> {
        let (queries, contexts) = (self.queries.as_ref()?, self.contexts.as_ref()?);
        let mut pairs = Vec::with_capacity(queries.len() + contexts.len());
        let (mut q, mut c) = (queries.iter().copied(), contexts.iter().copied());
        let (mut query, mut context) = (q.next()?, c.next()?);
        loop {
            let count = query.1.min(context.1);
            pairs.push((query.0, context.0, count));
            query.1 -= count;
            context.1 -= count;
            if query.1 == 0 {
                match q.next() {
                    Some(next) => query = next,
                    None => return Some(pairs),
                }
            }
            if context.1 == 0 {
                context = c.next()?;
            }
        }
    }
}

/// Σ value·count.
pub fn runs_sum(runs: &Runs) -> Option<u128> {
    runs.iter().try_fold(0u128, |sum, (value, count)| sum.checked_add(u128::from(*value) * u128::from(*count)))
}

/// A list of lengths as runs of equal neighbours.
pub fn runs_of(values: &[u64]) -> Runs {
    values.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).collect()
}

fn listed(part: &Part) -> Option<Runs> {
    let contexts = part.contexts.as_ref()?.complete()?;
    let right_count = part.seqs.is_none_or(|seqs| seqs == contexts.len() as u64);
    (right_count && !contexts.is_empty()).then(|| runs_of(contexts))
}

fn equal_queries(part: &Part, seqs: u64, tokens: u64) -> Option<Runs> {
    let wide = |value: u64| u128::from(value);
    let equal = seqs == 1
        || tokens == seqs
        || part.sums.nq2.is_some_and(|nq2| nq2.checked_mul(wide(seqs)) == Some(wide(tokens) * wide(tokens)));
    (equal && tokens.is_multiple_of(seqs)).then(|| vec![(tokens / seqs, seqs)])
}

/// x + y = tokens and x² + y² = nq2: x and y are (tokens ± √(2·nq2 − tokens²)) / 2. The longer one comes first, since
/// the order in the batch does not show in sums.
fn two_queries(part: &Part, tokens: u64) -> Option<Runs> {
    let square = u128::from(tokens) * u128::from(tokens);
    let under_root = part.sums.nq2?.checked_mul(2)?.checked_sub(square)?;
    let root = under_root.isqrt();
    let (longer, shorter) = (u128::from(tokens).checked_add(root)?, u128::from(tokens).checked_sub(root)?);
    if root * root != under_root || longer % 2 != 0 || shorter == 0 {
        return None;
    }
    Some(vec![(u64::try_from(longer / 2).ok()?, 1), (u64::try_from(shorter / 2).ok()?, 1)])
}

fn one_context(part: &Part, tokens: u64) -> Option<Runs> {
    let from_product = || {
        let product = part.sums.nq_nkv?;
        product.is_multiple_of(u128::from(tokens)).then(|| product / u128::from(tokens))
    };
    let context = u64::try_from(part.sums.nkv.or_else(from_product)?).ok()?;
    (context >= tokens).then(|| vec![(context, 1)])
}

/// x + y = nkv and q0·x + q1·y = nq_nkv, for different q0 and q1.
fn two_contexts(part: &Part, queries: &Runs) -> Option<Runs> {
    let [(longer, 1), (shorter, 1)] = queries[..] else { return None };
    let (nkv, nq_nkv) = (part.sums.nkv?, part.sums.nq_nkv?);
    let step = u128::from(longer.checked_sub(shorter)?);
    if step == 0 {
        return None;
    }
    let first = nq_nkv.checked_sub(u128::from(shorter).checked_mul(nkv)?)?;
    if first % step != 0 {
        return None;
    }
    let first = u64::try_from(first / step).ok()?;
    let second = u64::try_from(nkv.checked_sub(u128::from(first))?).ok()?;
    (first >= longer && second >= shorter).then(|| vec![(first, 1), (second, 1)])
}

#[cfg(test)]
mod tests {
    use super::super::step::{Contexts, Sums};
    use super::*;
    use proptest::prelude::*;

    /// The part that a scheduler would describe for these sequences, by direct summation.
    fn part(sequences: &[(u64, u64)]) -> Part {
        let sum = |f: fn(u128, u128) -> u128| sequences.iter().map(|(q, c)| f(u128::from(*q), u128::from(*c))).sum();
        Part {
            seqs: Some(sequences.len() as u64),
            tokens: Some(sequences.iter().map(|(q, _)| q).sum()),
            sums: Sums { nq2: Some(sum(|q, _| q * q)), nq_nkv: Some(sum(|q, c| q * c)), nkv: Some(sum(|_, c| c)) },
            contexts: None,
        }
    }

    #[test]
    fn the_two_sequences_of_a_chunked_prefill_are_found() {
        let lengths = part(&[(6918, 7418), (7803, 8803)]).lengths();
        assert_eq!(lengths.queries, Some(vec![(7803, 1), (6918, 1)]));
        assert_eq!(lengths.contexts, Some(vec![(8803, 1), (7418, 1)]));
        assert_eq!(lengths.pairs(), Some(vec![(7803, 8803, 1), (6918, 7418, 1)]));
    }

    #[test]
    fn equal_queries_with_unequal_contexts_stay_open() {
        let lengths = part(&[(1, 10), (1, 20), (1, 30)]).lengths();
        assert_eq!(lengths.queries, Some(vec![(1, 3)]));
        assert_eq!(lengths.contexts, None);
    }

    #[test]
    fn a_listed_context_gives_fresh_prompts() {
        let mut fresh = part(&[(7803, 7803), (6918, 6918)]);
        fresh.sums = Sums::default();
        fresh.contexts = Some(Contexts { listed: vec![7803, 6918], more: 0 });
        assert_eq!(fresh.lengths().pairs(), Some(vec![(7803, 7803, 1), (6918, 6918, 1)]));
        fresh.contexts = Some(Contexts { listed: vec![7803, 6919], more: 0 });
        assert_eq!(fresh.lengths().queries, None, "one token was cached, nobody knows where");
    }

    proptest! {
        /// Whatever is found is what was there (up to order), for any batch.
        #[test]
        fn never_a_guess(sequences in prop::collection::vec((1u64..60, 0u64..60), 1..5)) {
            let sequences: Vec<(u64, u64)> = sequences.iter().map(|(q, cached)| (*q, q + cached)).collect();
            let lengths = part(&sequences).lengths();
            let spread = |runs: &Runs| {
                let mut all: Vec<u64> = runs.iter().flat_map(|(v, n)| std::iter::repeat_n(*v, *n as usize)).collect();
                all.sort_unstable();
                all
            };
            let sorted = |pick: fn(&(u64, u64)) -> u64| {
                let mut all: Vec<u64> = sequences.iter().map(pick).collect();
                all.sort_unstable();
                all
            };
            if let Some(queries) = &lengths.queries {
                prop_assert_eq!(spread(queries), sorted(|s| s.0));
            }
            if let Some(contexts) = &lengths.contexts {
                prop_assert_eq!(spread(contexts), sorted(|s| s.1));
            }
            if let Some(pairs) = lengths.pairs() {
                let mut found: Vec<(u64, u64)> =
                    pairs.iter().flat_map(|(q, c, n)| std::iter::repeat_n((*q, *c), *n as usize)).collect();
                let mut real = sequences.clone();
                found.sort_unstable();
                real.sort_unstable();
                prop_assert_eq!(found, real);
            }
            if sequences.len() == 1 {
                prop_assert!(lengths.pairs().is_some());
            }
        }
    }
}
