//! How much runs of one build differ, from the runs that the store holds.

use kbench_stats::{BetweenRuns, Probability, RunEstimate};
use kbench_store::HistoryPoint;
use std::collections::BTreeMap;

/// Fewer degrees of freedom make the interval wider than an assumed figure would.
const ENOUGH: u32 = 5;

/// Estimates the deviation between runs from repeated runs of the same machine code in the same case, on the same device,
/// in the same cache state and by the same time source. `None` with fewer than five repetitions in all.
pub fn estimate(history: &[HistoryPoint]) -> Option<(BetweenRuns, String)> {
    let mut groups: BTreeMap<[&str; 6], Vec<RunEstimate>> = BTreeMap::new();
    for point in history {
        let case = &point.case;
        let key = [
            Some(case.case_id.as_str()),
            case.build.as_deref(),
            point.device_name.as_deref(),
            point.arch.as_deref(),
            case.cache.as_deref(),
            case.time_source.as_deref(),
        ];
        let [Some(a), Some(b), Some(c), Some(d), Some(e), Some(f)] = key else { continue };
        let (Some(median), Some((lo, hi))) = (case.median_ns, case.ci95_ns) else { continue };
        let Ok(run) = RunEstimate::from_interval(median, lo, hi, Probability::P95) else { continue };
        groups.entry([a, b, c, d, e, f]).or_default().push(run);
    }
    let groups: Vec<Vec<RunEstimate>> = groups.into_values().collect();
    match BetweenRuns::estimate(&groups)? {
        found @ BetweenRuns::Estimated { degrees, .. } if degrees >= ENOUGH => {
            Some((found, format!("from {degrees} repetitions in the store")))
        }
        _ => None,
    }
}
