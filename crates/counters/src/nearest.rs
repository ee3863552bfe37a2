//! Names close to a mistyped one.

/// Longest name that is compared; longer ones are no counters.
const MAX_NAME: usize = 128;
/// Suggestions given at most.
const SUGGESTIONS: usize = 3;

/// The known names nearest to `name`, best first; none when all are far off. Case is ignored.
pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Vec<String> {
    let wanted = name.to_ascii_uppercase();
    if wanted.len() > MAX_NAME {
        return Vec::new();
    }
    let limit = (wanted.len() / 3).max(2);
    let mut found: Vec<(usize, &str)> = known
        .filter_map(|candidate| {
            let upper = candidate.to_ascii_uppercase();
            let is_part = wanted.len() >= 4 && upper.contains(&wanted);
            let distance = if is_part { 1 } else { distance(&wanted, &upper) };
            (distance <= limit).then_some((distance, candidate))
        })
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().take(SUGGESTIONS).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// Insertions, deletions and substitutions between two names.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        if let Some(first) = row.first_mut() {
            *first = before;
        }
        for (cell, right) in row.iter_mut().skip(1).zip(b.bytes()) {
            let best = (diagonal + usize::from(left != right)).min(before + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            before = best;
        }
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        // The textbook's examples.
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("flaw", "lawn"), 2);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn the_nearest_come_first_and_far_ones_not_at_all() {
        let known = ["SQ_WAVES", "SQ_WAVE_CYCLES", "TCC_HIT", "GRBM_COUNT"];
        assert_eq!(nearest("sq_wave", known.into_iter()), ["SQ_WAVES", "SQ_WAVE_CYCLES"]);
        assert_eq!(nearest("TCC_HTI", known.into_iter()), ["TCC_HIT"]);
        assert!(nearest("XYZZY", known.into_iter()).is_empty());
        assert!(nearest(&"A".repeat(10_000), known.into_iter()).is_empty());
    }
}
