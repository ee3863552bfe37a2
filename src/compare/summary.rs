//! What the changes of the cases mean for the step.

use super::document::{CaseDoc, StepDoc, SummaryDoc};
use kbench_stats::{Probability, StatsError, Verdict, WeightedRatio, geometric_mean, step_change};
use std::collections::{BTreeMap, BTreeSet};

/// Sums up the cases that have a ratio, and sets the share of each; `None` when none has.
///
/// A case's share is that of the profile's kernel time. Without times in the profile it is calls × time in the base over
/// the compared cases; `calls` are by position. A case that was measured cold and warm counts once, cold.
///
/// # Errors
/// When a ratio or an error is out of range.
pub fn summarise(cases: &mut [CaseDoc], calls: &[u64]) -> Result<Option<SummaryDoc>, StatsError> {
    let from_profile = cases.iter().any(|case| case.share > 0.0);
    if !from_profile {
        shares_from_calls(cases, calls);
    }
    let is = |case: &CaseDoc, cache: &str| case.cache.as_deref() == Some(cache);
    let cold: BTreeSet<(&str, &str)> =
        cases.iter().filter(|case| is(case, "cold")).map(|case| (case.id.as_str(), case.phase.as_str())).collect();
    let counts_cold = |case: &CaseDoc| is(case, "warm") && cold.contains(&(case.id.as_str(), case.phase.as_str()));
    let counted = |case: &&CaseDoc| case.ratio.is_some() && !counts_cold(case);
    let chosen: Vec<&CaseDoc> = cases.iter().filter(counted).collect();
    if chosen.is_empty() {
        return Ok(None);
    }
    let ratios: Vec<f64> = chosen.iter().filter_map(|case| case.ratio.map(|ratio| ratio.ratio)).collect();
    let mut phases: BTreeMap<String, Vec<&CaseDoc>> = BTreeMap::new();
    for case in &chosen {
        phases.entry(case.phase.clone()).or_default().push(case);
    }
    let mut by_phase = BTreeMap::new();
    for (phase, cases) in phases.iter().filter(|_| phases.len() > 1) {
        let total: f64 = cases.iter().map(|case| case.share).sum();
        if total > 0.0 {
            by_phase.insert(phase.clone(), step(cases, total)?);
        }
    }
    let total: f64 = chosen.iter().map(|case| case.share).sum();
    let mut verdicts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for verdict in [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::Inconclusive] {
        let count = cases.iter().filter(|case| case.verdict == verdict.word()).count();
        verdicts.insert(verdict.word(), count);
    }
    Ok(Some(SummaryDoc {
        of: chosen[0].of,
        // Sums of shares carry float noise.
        step: step(&chosen, total.max(1.0))?,
        by_phase,
        geometric_mean: geometric_mean(&ratios)?,
        verdicts,
        weights: match from_profile {
            true => "share of the profile's kernel time",
            false => "calls × time in the base, over the compared cases",
        },
    }))
}

fn shares_from_calls(cases: &mut [CaseDoc], calls: &[u64]) {
    let ns = |case: &CaseDoc, calls: &u64| case.ratio.map_or(0.0, |ratio| ratio.base_ns * *calls as f64);
    let total: f64 = cases.iter().zip(calls).map(|(case, calls)| ns(case, calls)).sum();
    if total > 0.0 {
        for (case, calls) in cases.iter_mut().zip(calls) {
            case.share = ns(case, calls) / total;
        }
    }
}

/// The change of cases whose shares are of a whole of `total`.
fn step(cases: &[&CaseDoc], total: f64) -> Result<StepDoc, StatsError> {
    let weighted: Vec<WeightedRatio> = cases
        .iter()
        .filter_map(|case| {
            let ratio = case.ratio?;
            Some(WeightedRatio {
                share: case.share / total,
                ratio: ratio.ratio,
                own_error: ratio.own_error,
                common_error: ratio.common_error,
            })
        })
        .collect();
    let found = step_change(&weighted, Probability::P95)?;
    Ok(StepDoc {
        change: found.change,
        interval: [found.interval.lo(), found.interval.hi()],
        share: found.share,
        cases: found.cases,
    })
}
