//! How many sets of a case's tensors the samples rotate through.

use super::DeviceError;
use crate::measure::Cache;

/// Sets beyond this many are not made: smaller cases cannot be rotated out of the cache and are measured warm.
const MAX_SETS: u128 = 1 << 16;

/// How many sets to rotate through. Cold needs twice the last-level cache in total; where memory or the case's
/// smallness forbid that, the case is warm and says so.
pub(super) fn rotation(
    set_bytes: u128,
    cache: Cache,
    llc_bytes: u64,
    available_bytes: u64,
) -> Result<(usize, (Cache, Option<String>)), DeviceError> {
    let available = u128::from(available_bytes);
    // A quarter more than one set leaves room for the reference's scratch.
    let needed = set_bytes + set_bytes / 4;
    if needed > available {
        return Err(DeviceError::OutOfMemory { needed_bytes: needed, available_bytes });
    }
    if cache == Cache::Warm {
        return Ok((1, (Cache::Warm, None)));
    }
    // At least two, so that no launch finds what the one before it left.
    let wanted = (2 * u128::from(llc_bytes)).div_ceil(set_bytes.max(1)).max(2);
    let fitting = (available * 4 / 5 / set_bytes.max(1)).max(1);
    let sets = wanted.min(fitting).min(MAX_SETS);
    if sets == wanted {
        return Ok((sets as usize, (Cache::Cold, None)));
    }
    let why = if sets == fitting {
        format!("only {available_bytes} B of memory are available")
    } else {
        format!("one set is only {set_bytes} B")
    };
    let note = format!(
        "measured warm: a cold run rotates through {} B (twice the last-level cache), but {why}",
        2 * u128::from(llc_bytes)
    );
    Ok((1, (Cache::Warm, Some(note))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cold_rotates_through_twice_the_cache() {
        let (sets, cache) = rotation(1000, Cache::Cold, 100_000, 1 << 30).unwrap();
        assert_eq!((sets, cache), (200, (Cache::Cold, None)));
        let (sets, _) = rotation(500_000, Cache::Cold, 100_000, 1 << 30).unwrap();
        assert_eq!(sets, 2, "one set already exceeds twice the cache, and still two take turns");
    }

    #[test]
    fn cold_that_cannot_be_is_warm_and_says_so() {
        let (sets, (cache, note)) = rotation(1000, Cache::Cold, 100_000, 100_000).unwrap();
        assert_eq!((sets, cache), (1, Cache::Warm));
        assert!(note.unwrap().contains("only 100000 B of memory"));
        let (_, (cache, note)) = rotation(1, Cache::Cold, 100_000, 1 << 30).unwrap();
        assert_eq!(cache, Cache::Warm);
        assert!(note.unwrap().contains("one set is only 1 B"));
    }

    #[test]
    fn a_case_that_does_not_fit_is_an_error_with_numbers() {
        let error = rotation(1000, Cache::Warm, 1, 1200).unwrap_err().to_string();
        assert!(error.contains("1250") && error.contains("1200"), "{error}");
    }
}
