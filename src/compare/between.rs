//! How much runs of one build differ, from the runs that the store holds.

use super::read::Run;
use kbench_stats::{BetweenRuns, Probability, RunEstimate};
use kbench_store::{HistoryPoint, RunId};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer degrees of freedom make the interval wider than an assumed figure would.
const ENOUGH: u32 = 5;
/// Smallest deviation that is believed: a handful of runs made one after the other agree better than those of another day.
const FLOOR: f64 = 0.002;

/// What runs have in common that are repetitions of each other: case, phase, build, cache state, time source.
type Key<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

/// Estimates the deviation between runs from repeated runs of the same machine code in the same case, on the device of `base`
/// and `candidate`, in cache states and by time sources that they have. A document that was stored twice is one run. What a run
/// differs by it has in all of its cases, so that repetitions are counted in runs, not in cases. `None` with fewer than five of
/// them, or when the two ran on different devices.
pub fn estimate(history: &[HistoryPoint], base: &Run, candidate: &Run) -> Option<(BetweenRuns, String)> {
    let device = |run: &Run| (run.device.name.clone(), run.device.arch.clone());
    if device(base) != device(candidate) {
        return None;
    }
    let timings = base.cases.iter().chain(&candidate.cases).filter_map(|case| case.timing.as_ref());
    let ways: BTreeSet<(&str, &str)> = timings.map(|timing| (timing.cache.as_str(), timing.source.as_str())).collect();
    let mut groups: BTreeMap<Key<'_>, BTreeMap<[u64; 3], (RunId, RunEstimate)>> = BTreeMap::new();
    for point in history {
        let case = &point.case;
        let here =
            point.device_name.as_ref() == Some(&base.device.name) && point.arch.as_ref() == Some(&base.device.arch);
        let (Some(build), Some(cache), Some(source)) = (&case.build, &case.cache, &case.time_source) else { continue };
        let (Some(median), Some((lo, hi))) = (case.median_ns, case.ci95_ns) else { continue };
        if !here || !ways.contains(&(cache.as_str(), source.as_str())) {
            continue;
        }
        let Ok(run) = RunEstimate::from_interval(median, lo, hi, Probability::P95) else { continue };
        let phase = case.phase.as_deref().unwrap_or_default();
        // Two runs do not agree to the last digit: what does is one run, stored again.
        let figures = [median, lo, hi].map(f64::to_bits);
        let group = groups.entry((&case.case_id, phase, build, cache, source)).or_default();
        group.entry(figures).or_insert((point.run, run));
    }
    let groups: Vec<Vec<(RunId, RunEstimate)>> =
        groups.into_values().map(|runs| runs.into_values().collect()).collect();
    let degrees = repetitions(&groups);
    let estimates: Vec<Vec<RunEstimate>> =
        groups.iter().map(|group| group.iter().map(|(_, run)| *run).collect()).collect();
    let sd = BetweenRuns::estimate(&estimates).filter(|_| degrees >= ENOUGH)?.sd();
    let text = if sd < FLOOR { ", which agree better than is believed" } else { "" };
    let found = BetweenRuns::Estimated { sd: sd.max(FLOOR), degrees };
    Some((found, format!("from {degrees} repetitions in the store{text}")))
}

/// Runs that repeat another one: of those that groups tie together, directly or through others, all but one.
fn repetitions(groups: &[Vec<(RunId, RunEstimate)>]) -> u32 {
    let mut sets: Vec<BTreeSet<RunId>> = Vec::new();
    for group in groups {
        let runs: BTreeSet<RunId> = group.iter().map(|(run, _)| *run).collect();
        let (tied, apart): (Vec<_>, Vec<_>) = sets.into_iter().partition(|set| !set.is_disjoint(&runs));
        sets = apart;
        sets.push(tied.into_iter().fold(runs, |all, set| &all | &set));
    }
    sets.iter().map(|set| set.len().saturating_sub(1) as u32).sum()
}
