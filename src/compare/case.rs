//! The verdict on a pair of cases.

use super::document::{CaseDoc, MetricDoc, RatioDoc};
use super::read::{Case, Timing};
use super::{code, metric};
use crate::report::units;
use kbench_stats::{
    BetweenRuns, Doubt, PairedComparison, Probability, RatioEstimate, Rule, RunEstimate, StatsError, Verdict,
    compare_unpaired,
};
use std::collections::BTreeSet;

/// Sentences of `why`.
const SENTENCES: usize = 8;

/// What two cases say before corrections over cases.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The document, with a preliminary verdict.
    pub doc: CaseDoc,
    /// The estimate that a corrected p-value goes into; absent where nothing is uncertain or nothing was measured.
    pub estimate: Option<Estimate>,
}

/// What the times of a case say.
#[derive(Clone, Copy, Debug)]
pub enum Estimate {
    /// Of two runs made apart.
    Separate(RatioEstimate),
    /// Of launches in turn.
    Paired(PairedComparison),
}

impl Estimate {
    /// Two-sided p-value of no change, before corrections over cases.
    pub fn p_changed(&self) -> f64 {
        match self {
            Estimate::Separate(estimate) => estimate.p_changed,
            Estimate::Paired(found) => found.time.p_changed,
        }
    }

    fn decide(&self, rule: &Rule, p_adjusted: f64, cycles_ratio: Option<f64>) -> (Verdict, Option<Doubt>) {
        let estimate = match self {
            Estimate::Paired(found) => return found.decide(rule, p_adjusted),
            Estimate::Separate(estimate) => estimate,
        };
        let (verdict, doubt) = rule.decide_among(estimate, p_adjusted);
        // Time that cycles do not confirm is a matter of clocks: the same direction and half of the change are asked for.
        if let (Verdict::Faster | Verdict::Slower, Some(cycles)) = (verdict, cycles_ratio) {
            let (time, cycles) = (estimate.ratio.ln(), cycles.ln());
            if time.signum() != cycles.signum() || cycles.abs() < time.abs() / 2.0 {
                return (Verdict::Inconclusive, Some(Doubt::ClocksDiffer));
            }
        }
        (verdict, doubt)
    }
}

/// Compares two cases that ran on both sides.
///
/// # Errors
/// When a median or interval is out of range.
pub fn compare(
    base: &Case,
    candidate: &Case,
    between: &BetweenRuns,
    rule: &Rule,
    wanted: &BTreeSet<String>,
) -> Result<Compared, StatsError> {
    let mut doc = frame(base, candidate, wanted);
    let estimate = match (&base.timing, &candidate.timing) {
        (Some(one), Some(other)) => Some(Estimate::Separate(measured(&mut doc, one, other, between, rule)?)),
        (None, None) => {
            exact(&mut doc, base, candidate, rule);
            None
        }
        (one, _) => {
            let side = if one.is_some() { "base" } else { "candidate" };
            doc.reason = Some(format!("only the {side} was timed"));
            None
        }
    };
    Ok(Compared { doc, estimate })
}

/// Compares two cases whose launches alternated. `base` and `candidate` say what ran; the times in them are not used but for the
/// medians, `[base, candidate]` in ns, that the ratio stands beside. `cache` is the state that the launches were in.
pub fn paired(
    base: &Case,
    candidate: &Case,
    cache: &str,
    medians_ns: [f64; 2],
    found: PairedComparison,
    wanted: &BTreeSet<String>,
) -> Compared {
    let mut doc = frame(base, candidate, wanted);
    doc.cache = Some(cache.to_owned());
    doc.ratio = Some(RatioDoc {
        base_ns: medians_ns[0],
        candidate_ns: medians_ns[1],
        ratio: found.time.ratio,
        interval: found.time.interval.map(|interval| [interval.lo(), interval.hi()]),
        p_adjusted: found.time.p_changed,
        own_error: found.time.log_error().unwrap_or(0.0),
        common_error: 0.0,
    });
    doc.cycles_ratio = found.cycles.map(|cycles| cycles.ratio);
    Compared { doc, estimate: Some(Estimate::Paired(found)) }
}

/// The document of a pair without its ratio and verdict.
fn frame(base: &Case, candidate: &Case, wanted: &BTreeSet<String>) -> CaseDoc {
    let metrics = metric::compare(base, candidate, wanted);
    CaseDoc {
        id: base.plain_id().to_owned(),
        family: base.family.clone(),
        kernel: base.kernel.clone(),
        phase: base.weight.phase.clone(),
        cache: base.timing.as_ref().map(|timing| timing.cache.clone()),
        requested_cache: base.requested.clone(),
        sampled: base.is_sampled() || candidate.is_sampled(),
        share: base.weight.share,
        identical_code: code::identical(base, candidate),
        verdict: Verdict::Inconclusive.word(),
        reason: None,
        doubt: None,
        of: "time",
        ratio: None,
        cycles_ratio: None,
        why: why(base, candidate, &metrics),
        metrics,
        lost: metric::lost(base, candidate, wanted),
    }
}

fn measured(
    doc: &mut CaseDoc,
    base: &Timing,
    candidate: &Timing,
    between: &BetweenRuns,
    rule: &Rule,
) -> Result<RatioEstimate, StatsError> {
    let run = |timing: &Timing| {
        let [lo, hi] = timing.ci95_ns.unwrap_or([timing.median_ns; 2]);
        RunEstimate::from_interval(timing.median_ns, lo, hi, Probability::P95)
    };
    let (one, other) = (run(base)?, run(candidate)?);
    let mut estimate = compare_unpaired(&one, &other, between, rule)?;
    if base.ci95_ns.is_none() || candidate.ci95_ns.is_none() {
        estimate = RatioEstimate { interval: None, p_changed: 1.0, p_different: 1.0, ..estimate };
    }
    doc.ratio = Some(RatioDoc {
        base_ns: base.median_ns,
        candidate_ns: candidate.median_ns,
        ratio: estimate.ratio,
        interval: estimate.interval.map(|interval| [interval.lo(), interval.hi()]),
        p_adjusted: estimate.p_changed,
        own_error: one.log_error().hypot(other.log_error()),
        common_error: between.log_error(),
    });
    let clocks = base.clock.zip(candidate.clock);
    doc.cycles_ratio = clocks.map(|(one, other)| estimate.ratio * other.median_mhz / one.median_mhz);
    Ok(estimate)
}

/// Emulated cases: the bound, and nothing is uncertain.
fn exact(doc: &mut CaseDoc, base: &Case, candidate: &Case, rule: &Rule) {
    doc.of = "bound";
    let unchanged = doc.metrics.iter().all(|metric| metric.base == metric.candidate);
    let bounds =
        base.bound.as_ref().zip(candidate.bound.as_ref()).filter(|(one, other)| one.ns > 0.0 && other.ns > 0.0);
    let Some((one, other)) = bounds else {
        match () {
            () if doc.metrics.is_empty() => {
                doc.reason = Some("neither time nor bound nor counters are known".to_owned())
            }
            () if base.bound.is_some() != candidate.bound.is_some() || !doc.lost.is_empty() => {
                doc.reason = Some("what is known of one side is not known of the other".to_owned());
            }
            () if unchanged => doc.verdict = Verdict::Same.word(),
            () => doc.reason = Some("there is no bound on this device; what changed is in the metrics".to_owned()),
        }
        return;
    };
    let ratio = other.ns / one.ns;
    doc.ratio = Some(RatioDoc {
        base_ns: one.ns,
        candidate_ns: other.ns,
        ratio,
        interval: Some([ratio; 2]),
        p_adjusted: if ratio == 1.0 { 1.0 } else { 0.0 },
        own_error: 0.0,
        common_error: 0.0,
    });
    let verdict = match () {
        () if ratio.ln().abs() <= rule.log_threshold() => Verdict::Same,
        () if ratio < 1.0 => Verdict::Faster,
        () => Verdict::Slower,
    };
    doc.verdict = verdict.word();
    if verdict == Verdict::Same && !unchanged {
        let threshold = share_text(rule.threshold());
        doc.reason = Some(format!("the bound is within {threshold}, other figures changed"));
    }
}

impl Compared {
    /// Puts in the p-value that is corrected over cases, and the final verdict.
    pub fn decide(&mut self, rule: &Rule, p_adjusted: f64) {
        let Some(estimate) = &self.estimate else { return };
        let (verdict, doubt) = estimate.decide(rule, p_adjusted, self.doc.cycles_ratio);
        if let Some(ratio) = &mut self.doc.ratio {
            ratio.p_adjusted = p_adjusted;
        }
        self.doc.verdict = verdict.word();
        self.doc.reason = doubt.map(|doubt| doubt.to_string());
        self.doc.doubt = doubt.map(Doubt::name);
        if self.doc.identical_code == Some(true) && matches!(verdict, Verdict::Faster | Verdict::Slower) {
            let text = "the machine code is identical: what differs is the run or its surroundings";
            self.doc.reason = Some(text.to_owned());
        }
    }
}

/// What changed, what matters most first: resources by the time that they cost, then quantities by relative change.
fn why(base: &Case, candidate: &Case, metrics: &[MetricDoc]) -> Vec<String> {
    let mut sentences = Vec::new();
    if let Some((one, other)) = base.bound.as_ref().zip(candidate.bound.as_ref()) {
        if one.limiter != other.limiter {
            sentences.push(format!("limiter {} → {}", one.limiter, other.limiter));
        }
        let names: BTreeSet<&String> = one.by_resource.keys().chain(other.by_resource.keys()).collect();
        let mut moved: Vec<(&String, f64, f64)> = names
            .into_iter()
            .map(|name| {
                let ns = |bound: &super::read::Bound| bound.by_resource.get(name).copied().unwrap_or(0.0);
                (name, ns(one), ns(other))
            })
            .filter(|(_, one, other)| one != other)
            .collect();
        moved.sort_by(|a, b| (b.2 - b.1).abs().total_cmp(&(a.2 - a.1).abs()).then_with(|| a.0.cmp(b.0)));
        sentences.extend(moved.into_iter().map(|(name, one, other)| {
            let change = change_text(metric::change(one, other));
            format!("{name} {} → {} ({change})", units::time(one, 3), units::time(other, 3))
        }));
        sentences.truncate(SENTENCES / 2);
    }
    let mut changed: Vec<&MetricDoc> =
        metrics.iter().filter(|metric| metric.base != metric.candidate && metric.name != "bound").collect();
    let size = |metric: &MetricDoc| metric.change.map_or(f64::INFINITY, f64::abs);
    changed.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.name.cmp(&b.name)));
    sentences.extend(changed.into_iter().map(|metric| {
        let (one, other) = (figure(metric.base), figure(metric.candidate));
        format!("{} {one} → {other} ({})", metric.name, change_text(metric.change))
    }));
    sentences.truncate(SENTENCES);
    sentences
}

/// A count as it is, anything else with six digits.
pub(crate) fn figure(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value}") } else { units::significant(value, 6) }
}

/// A setting in percent with the digits that it has, at most two behind the point: `1 %`, `5.23 %`.
pub(crate) fn share_text(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 1e2)
}

/// A relative change with its sign, or that there was nothing before.
pub(crate) fn change_text(change: Option<f64>) -> String {
    match change {
        Some(change) if change.abs() < 5e-7 => "±0 %".to_owned(),
        Some(change) if change.abs() < 0.1 => format!("{:+.2} %", change * 100.0),
        Some(change) => format!("{:+.1} %", change * 100.0),
        None => "new".to_owned(),
    }
}
