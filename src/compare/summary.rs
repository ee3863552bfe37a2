//! What the changes of the cases mean for the step.

use super::document::{CaseDoc, RatioDoc, StepDoc, SummaryDoc};
use kbench_stats::{
    Doubt, OneSided, Probability, Reference, StatsError, Verdict, WeightedRatio, geometric_mean, step_change,
};
use std::collections::BTreeMap;

/// Time of kernels that one side alone has, in a phase; as shares of the base's step.
#[derive(Clone, Debug, PartialEq)]
pub struct OneSidedTime {
    /// The phase.
    pub phase: String,
    /// Only in the candidate.
    pub added: f64,
    /// Only in the base.
    pub removed: f64,
}

/// What the step takes beside the cases.
#[derive(Clone, Debug)]
pub struct Around {
    /// Calls of each case by position, which weigh the cases where a profile has no times.
    pub calls: Vec<u64>,
    /// Kernels of profiles that one side alone has.
    pub one_sided: Vec<OneSidedTime>,
    /// The distribution that the intervals of the cases rest on.
    pub reference: Reference,
    /// The error between runs, [`WeightedRatio::common_error`].
    pub common_error: f64,
}

/// Sums up the cases that have a ratio, and sets the share of each; `None` when none has.
///
/// A case's share is that of the profile's kernel time. Without times in the profile it is calls × time in the base over
/// the cases that count. A case that ran in several cache modes counts once, cold. One without an interval, or whose times and
/// cycles disagree, is left out of the step: its error is not known, and it must not look like none. The step's interval is at
/// `confidence`.
///
/// # Errors
/// When a ratio or an error is out of range.
pub fn summarise(
    cases: &mut [CaseDoc],
    around: &Around,
    confidence: Probability,
) -> Result<Option<SummaryDoc>, StatsError> {
    let counted = counted(cases);
    let from_profile = cases.iter().any(|case| case.share > 0.0);
    if !from_profile {
        shares_from_calls(cases, &counted, &around.calls);
    }
    let chosen: Vec<(&CaseDoc, RatioDoc)> =
        counted.iter().filter_map(|at| cases.get(*at)).filter_map(|case| Some((case, case.ratio?))).collect();
    let Some((first, _)) = chosen.first() else { return Ok(None) };
    let of = first.of;
    let ratios: Vec<f64> = chosen.iter().map(|(_, ratio)| ratio.ratio).collect();
    let mut phases: BTreeMap<&str, Vec<(&CaseDoc, RatioDoc)>> = BTreeMap::new();
    for (case, ratio) in &chosen {
        phases.entry(&case.phase).or_default().push((case, *ratio));
    }
    let mut by_phase = BTreeMap::new();
    for (phase, cases) in phases.iter().filter(|_| phases.len() > 1) {
        let here: Vec<&OneSidedTime> = around.one_sided.iter().filter(|time| time.phase == *phase).collect();
        let total = total(cases, &here);
        if total > 0.0
            && let Some(step) = step(cases, &here, total, (around, confidence))?
        {
            by_phase.insert((*phase).to_owned(), step);
        }
    }
    let all: Vec<&OneSidedTime> = around.one_sided.iter().collect();
    let mut verdicts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for verdict in [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::Inconclusive] {
        let count = cases.iter().filter(|case| case.verdict == verdict.word()).count();
        verdicts.insert(verdict.word(), count);
    }
    Ok(Some(SummaryDoc {
        of,
        // Sums of shares carry float noise.
        step: step(&chosen, &all, total(&chosen, &all).max(1.0), (around, confidence))?,
        by_phase,
        geometric_mean: geometric_mean(&ratios)?,
        verdicts,
        weights: match from_profile {
            true => "share of the profile's kernel time",
            false => "calls × time in the base, over the compared cases",
        },
    }))
}

/// The rows that count, one an id and phase: the one that was asked for cold, else one that was measured cold, else the first.
fn counted(cases: &[CaseDoc]) -> Vec<usize> {
    let rank = |case: &CaseDoc| match (case.requested_cache.as_deref(), case.cache.as_deref()) {
        (Some("cold"), _) => 0,
        (_, Some("cold")) => 1,
        _ => 2,
    };
    let mut best: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (at, case) in cases.iter().enumerate().filter(|(_, case)| case.ratio.is_some()) {
        let place = best.entry((&case.id, &case.phase)).or_insert(at);
        if rank(case) < rank(&cases[*place]) {
            *place = at;
        }
    }
    let mut counted: Vec<usize> = best.into_values().collect();
    counted.sort_unstable();
    counted
}

/// Shares by calls × time over the rows that count; the same case in another cache mode has the same share.
fn shares_from_calls(cases: &mut [CaseDoc], counted: &[usize], calls: &[u64]) {
    let time = |at: usize| {
        let ratio = cases.get(at).and_then(|case| case.ratio);
        ratio.map_or(0.0, |ratio| ratio.base_ns * calls.get(at).copied().unwrap_or(0) as f64)
    };
    let total: f64 = counted.iter().map(|at| time(*at)).sum();
    if total <= 0.0 {
        return;
    }
    let shares: BTreeMap<(String, String), f64> =
        counted.iter().map(|at| ((cases[*at].id.clone(), cases[*at].phase.clone()), time(*at) / total)).collect();
    for case in cases.iter_mut() {
        case.share = shares.get(&(case.id.clone(), case.phase.clone())).copied().unwrap_or(0.0);
    }
}

fn total(cases: &[(&CaseDoc, RatioDoc)], alone: &[&OneSidedTime]) -> f64 {
    cases.iter().map(|(case, _)| case.share).sum::<f64>() + alone.iter().map(|time| time.removed).sum::<f64>()
}

/// The change of cases whose shares are of a whole of `total`; `None` when no ratio among them is known well enough.
fn step(
    cases: &[(&CaseDoc, RatioDoc)],
    alone: &[&OneSidedTime],
    total: f64,
    (around, confidence): (&Around, Probability),
) -> Result<Option<StepDoc>, StatsError> {
    let is_known =
        |case: &CaseDoc, ratio: &RatioDoc| ratio.interval.is_some() && case.doubt != Some(Doubt::ClocksDiffer.name());
    let (known, open): (Vec<_>, Vec<_>) = cases.iter().partition(|(case, ratio)| is_known(case, ratio));
    if known.is_empty() {
        return Ok(None);
    }
    let weighted: Vec<WeightedRatio> = known
        .iter()
        .map(|(case, ratio)| WeightedRatio {
            share: case.share / total,
            ratio: ratio.ratio,
            own_error: ratio.own_error,
            common_error: ratio.common_error,
        })
        .collect();
    let alone = OneSided {
        added: alone.iter().map(|time| time.added).sum::<f64>() / total,
        removed: alone.iter().map(|time| time.removed).sum::<f64>() / total,
        common_error: around.common_error,
    };
    let found = step_change(&weighted, &alone, around.reference, confidence)?;
    Ok(Some(StepDoc {
        change: found.change,
        interval: [found.interval.lo(), found.interval.hi()],
        share: found.share,
        cases: found.cases,
        left_out: open.iter().map(|(case, _)| case.share / total).sum::<f64>().min(1.0),
        added: alone.added,
        removed: alone.removed,
    }))
}
