//! Lining up the kernels of a replay with the launches of its capture.

use std::collections::HashMap;
use std::hash::Hash;

/// Largest table of the exact search; beyond it the plain scan stands.
const MAX_CELLS: usize = 8 << 20;

/// For each of `kernels` the index of the launch that it is a replay of: the longest pairing in order, equal names only. Extras on
/// either side are left over.
pub(super) fn in_order<T: Eq + Hash>(kernels: &[T], launches: &[T]) -> Vec<Option<usize>> {
    let scanned = scan(kernels, launches);
    let is_whole = scanned.iter().all(Option::is_some);
    if is_whole || kernels.len().saturating_add(1).saturating_mul(launches.len() + 1) > MAX_CELLS {
        return scanned;
    }
    longest(kernels, launches)
}

/// Each kernel takes the next launch of its name; whole when launches only have extras.
fn scan<T: Eq + Hash>(kernels: &[T], launches: &[T]) -> Vec<Option<usize>> {
    let mut places: HashMap<&T, Vec<usize>> = HashMap::new();
    for (place, launch) in launches.iter().enumerate() {
        places.entry(launch).or_default().push(place);
    }
    let mut from = 0;
    let mut next = |kernel: &T| {
        let places = places.get(kernel)?;
        let found = *places.get(places.partition_point(|place| *place < from))?;
        from = found + 1;
        Some(found)
    };
    kernels.iter().map(&mut next).collect()
}

/// Longest common subsequence by dynamic programming.
fn longest<T: PartialEq>(kernels: &[T], launches: &[T]) -> Vec<Option<usize>> {
    let width = launches.len() + 1;
    // best[i * width + j]: the longest pairing of kernels[i..] with launches[j..].
    let mut best = vec![0_u32; (kernels.len() + 1) * width];
    for (i, kernel) in kernels.iter().enumerate().rev() {
        for (j, launch) in launches.iter().enumerate().rev() {
            best[i * width + j] = match kernel == launch {
                true => best[(i + 1) * width + j + 1] + 1,
                false => best[(i + 1) * width + j].max(best[i * width + j + 1]),
            };
        }
    }
    let mut pairs = vec![None; kernels.len()];
    let (mut i, mut j) = (0, 0);
    while i < kernels.len() && j < launches.len() {
        if kernels[i] == launches[j] {
            pairs[i] = Some(j);
            (i, j) = (i + 1, j + 1);
        } else if best[(i + 1) * width + j] >= best[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn extras_of_either_side_are_left_over() {
        assert_eq!(in_order(b"nganga", b"xxngangaz"), [2, 3, 4, 5, 6, 7].map(Some));
        // Lost at the start and in the middle.
        assert_eq!(in_order(b"gna", b"ngaxnga"), [Some(1), Some(4), Some(6)]);
        // A plain scan would take the last `z` for the stray one and lose all behind it.
        assert_eq!(in_order(b"zabc", b"abcz"), [None, Some(0), Some(1), Some(2)]);
        assert_eq!(in_order(b"", b"a"), []);
        assert_eq!(in_order(b"a", b""), [None]);
    }

    /// The most pairs, by trying everything.
    fn most(kernels: &[u8], launches: &[u8]) -> usize {
        match (kernels, launches) {
            ([], _) | (_, []) => 0,
            ([a, rest @ ..], [b, others @ ..]) => {
                let both = if a == b { 1 + most(rest, others) } else { 0 };
                both.max(most(rest, launches)).max(most(kernels, others))
            }
        }
    }

    proptest! {
        #[test]
        fn pairs_are_in_order_equal_and_as_many_as_can_be(
            kernels in prop::collection::vec(0_u8..3, 0..8),
            launches in prop::collection::vec(0_u8..3, 0..8),
        ) {
            let pairs = in_order(&kernels, &launches);
            let found: Vec<(usize, usize)> = pairs.iter().enumerate().filter_map(|(i, j)| Some((i, (*j)?))).collect();
            prop_assert!(found.windows(2).all(|two| two[0].1 < two[1].1));
            prop_assert!(found.iter().all(|(i, j)| kernels[*i] == launches[*j]));
            prop_assert_eq!(found.len(), most(&kernels, &launches));
        }
    }
}
