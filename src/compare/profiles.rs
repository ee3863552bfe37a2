//! Two profiles of a whole program, before and after: kernel by kernel, normalised to a step.

use super::case::{Compared, Estimate, change_text, figure};
use super::document::{CaseDoc, Comparison, Difference, Method, MetricDoc, NotCompared, RatioDoc, SideDoc};
use super::metric;
use super::runs::{CompareError, Parts, Settings, assemble, rule_doc};
use super::summary::{Around, OneSidedTime};
use crate::report::units;
use kbench_profile::{Inventory, Phase, Row};
use kbench_stats::{Probability, RunEstimate, StatsError, Verdict, compare_unpaired};
use std::collections::BTreeMap;

/// A profile and the number of steps in it.
#[derive(Clone, Debug)]
pub struct Profile {
    /// As asked for.
    pub label: String,
    /// What it holds.
    pub inventory: Inventory,
    /// Steps, when the user gives them; otherwise those of the profile.
    pub steps: Option<u64>,
}

impl Profile {
    fn steps(&self) -> Option<u64> {
        self.steps.or(self.inventory.source.steps).filter(|steps| *steps > 0)
    }

    /// Kernel time and calls by kernel, phase and position.
    fn kernels(&self) -> BTreeMap<Key, Kernel> {
        let mut found: BTreeMap<Key, Kernel> = BTreeMap::new();
        for row in self.inventory.rows.iter().filter(|row| !row.is_transfer()) {
            let kernel = found
                .entry(Key::of(row))
                .or_insert_with(|| Kernel { family: row.family.to_string(), ..Kernel::default() });
            kernel.calls += row.calls as f64;
            kernel.ns += row.total_ns as f64;
        }
        found
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kernel: String,
    phase: Phase,
    position: Option<String>,
}

impl Key {
    fn of(row: &Row) -> Self {
        Self { kernel: row.kernel.clone(), phase: row.phase, position: row.position.clone() }
    }

    fn id(&self) -> String {
        match &self.position {
            Some(position) => format!("{} @ {position}", self.kernel),
            None => self.kernel.clone(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Kernel {
    family: String,
    calls: f64,
    ns: f64,
}

/// Compares two profiles. Times are divided by the steps of each side when both are known, and compared in all when not:
/// then the two must cover the same work. One number a side has no error of its own: only the error between runs counts.
///
/// # Errors
/// When they have no kernel in common, or hold numbers that cannot be analysed.
pub fn compare_profiles(base: &Profile, candidate: &Profile, settings: &Settings) -> Result<Comparison, CompareError> {
    let stats = |error| CompareError::Stats { id: "all".to_owned(), error };
    let both = base.steps().zip(candidate.steps());
    let (base_steps, candidate_steps) = both.map_or((1.0, 1.0), |(one, other)| (one as f64, other as f64));
    let margin = settings.between.detectable(settings.rule.alpha());
    let rule = margin.and_then(|margin| settings.rule.with_margin(margin)).map_err(stats)?;
    let (ones, mut others) = (base.kernels(), candidate.kernels());
    let total: f64 = ones.values().map(|kernel| kernel.ns).sum();
    let candidate_total: f64 = others.values().map(|kernel| kernel.ns).sum();
    let (mut compared, mut rest, mut one_sided) = (Vec::new(), Vec::new(), Vec::new());
    // A share of the base's step, whichever side's time it is.
    let share_of =
        |kernel: &Kernel, steps: f64| if total > 0.0 { kernel.ns / steps / (total / base_steps) } else { 0.0 };
    for (key, one) in &ones {
        // A kernel without time on a side is one that the other side has alone.
        match others.get(key).filter(|other| other.ns > 0.0 && one.ns > 0.0).cloned() {
            Some(other) => {
                others.remove(key);
                let scaled = |kernel: &Kernel, steps: f64| Kernel {
                    calls: kernel.calls / steps,
                    ns: kernel.ns / steps,
                    family: kernel.family.clone(),
                };
                let share = share_of(one, base_steps);
                let (one, other) = (scaled(one, base_steps), scaled(&other, candidate_steps));
                compared.push(pair(key, &one, &other, share, settings, &rule).map_err(stats)?);
            }
            None if one.ns > 0.0 || !others.contains_key(key) => {
                if others.get(key).is_some_and(|other| other.ns <= 0.0) {
                    others.remove(key);
                }
                let (phase, removed) = (key.phase.name().to_owned(), share_of(one, base_steps));
                one_sided.push(OneSidedTime { phase, added: 0.0, removed });
                rest.push(alone(key, one, base_steps, true));
            }
            None => {}
        }
    }
    for (key, kernel) in &others {
        let (phase, added) = (key.phase.name().to_owned(), share_of(kernel, candidate_steps));
        one_sided.push(OneSidedTime { phase, added, removed: 0.0 });
        rest.push(alone(key, kernel, candidate_steps, false));
    }
    if compared.is_empty() {
        let (base_cases, candidate_cases) = (base.inventory.rows.len(), candidate.inventory.rows.len());
        let (base, candidate) = (base.label.clone(), candidate.label.clone());
        return Err(CompareError::NothingInCommon { base, candidate, base_cases, candidate_cases });
    }
    let side = |profile: &Profile, steps: f64, ns: f64| SideDoc {
        label: profile.label.clone(),
        device: None,
        arch: None,
        steps: both.and(profile.steps()),
        kernel_ns: Some(ns / steps),
    };
    let parts = Parts {
        method: Method::Profiles,
        base: side(base, base_steps, total),
        candidate: side(candidate, candidate_steps, candidate_total),
        environment: surroundings(base, candidate, both.is_some()),
        allowed: Vec::new(),
        rule: rule_doc(&rule, settings, true),
        around: Around {
            calls: Vec::new(),
            one_sided,
            reference: settings.between.reference(),
            common_error: settings.between.log_error(),
        },
        compared,
        not_compared: rest,
    };
    let mut comparison = assemble(parts, &rule, settings.correction).map_err(stats)?;
    // What moved the step most comes first.
    let moved = |case: &CaseDoc| case.ratio.map_or(0.0, |ratio| (ratio.candidate_ns - ratio.base_ns).abs());
    comparison.cases.sort_by(|a, b| moved(b).total_cmp(&moved(a)).then_with(|| a.id.cmp(&b.id)));
    Ok(comparison)
}

fn pair(
    key: &Key,
    one: &Kernel,
    other: &Kernel,
    share: f64,
    settings: &Settings,
    rule: &kbench_stats::Rule,
) -> Result<Compared, StatsError> {
    let run = |ns| RunEstimate::from_interval(ns, ns, ns, Probability::P95);
    let estimate = compare_unpaired(&run(one.ns)?, &run(other.ns)?, &settings.between, rule)?;
    let figures = |name: &str, of: fn(&Kernel) -> f64, unit: &str| MetricDoc {
        name: name.to_owned(),
        base: of(one),
        candidate: of(other),
        change: metric::change(of(one), of(other)),
        unit: unit.to_owned(),
        kind: "measured".to_owned(),
    };
    let metrics = vec![
        figures("calls", |kernel| kernel.calls, "calls"),
        figures("ns_per_call", |kernel| if kernel.calls > 0.0 { kernel.ns / kernel.calls } else { 0.0 }, "ns"),
    ];
    let why = metrics.iter().filter(|metric| metric.base != metric.candidate);
    let why =
        why.map(|m| format!("{} {} → {} ({})", m.name, figure(m.base), figure(m.candidate), change_text(m.change)));
    let doc = CaseDoc {
        id: key.id(),
        family: one.family.clone(),
        kernel: key.kernel.clone(),
        phase: key.phase.name().to_owned(),
        cache: None,
        requested_cache: None,
        share,
        sampled: false,
        identical_code: None,
        verdict: Verdict::Inconclusive.word(),
        reason: None,
        doubt: None,
        of: "time",
        ratio: Some(RatioDoc {
            base_ns: one.ns,
            candidate_ns: other.ns,
            ratio: estimate.ratio,
            interval: estimate.interval.map(|interval| [interval.lo(), interval.hi()]),
            p_adjusted: estimate.p_changed,
            own_error: 0.0,
            common_error: settings.between.log_error(),
        }),
        cycles_ratio: None,
        why: why.collect(),
        metrics,
        lost: Vec::new(),
    };
    Ok(Compared { doc, estimate: Some(Estimate::Separate(estimate)) })
}

fn alone(key: &Key, kernel: &Kernel, steps: f64, in_base: bool) -> NotCompared {
    let side = if in_base { "base" } else { "candidate" };
    let time = units::time(kernel.ns / steps, 3);
    NotCompared {
        id: key.id(),
        family: kernel.family.clone(),
        cache: None,
        base: in_base.then(|| "profiled".to_owned()),
        candidate: (!in_base).then(|| "profiled".to_owned()),
        reason: format!("only in the {side}: {time} in {} calls", figure(kernel.calls / steps)),
    }
}

/// What the two profiles say of themselves and what differs.
fn surroundings(base: &Profile, candidate: &Profile, by_step: bool) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differ = |what: &str, one: Option<String>, other: Option<String>| {
        if one != other {
            found.push(Difference { what: what.to_owned(), base: one, candidate: other });
        }
    };
    let dialect = |profile: &Profile| Some(profile.inventory.source.dialect.clone());
    differ("dialect", dialect(base), dialect(candidate));
    let steps = |profile: &Profile| profile.steps().map(|steps| steps.to_string());
    differ("steps", steps(base), steps(candidate));
    if !by_step {
        let text = "totals are compared, not steps: the number of steps is not known on both sides (--base-steps, --candidate-steps)";
        found.push(Difference { what: text.to_owned(), base: None, candidate: None });
    }
    for (side, profile) in [("base", base), ("candidate", candidate)] {
        for finding in
            profile.inventory.health.iter().filter(|finding| finding.severity == kbench_profile::Severity::Warning)
        {
            let text = Some(finding.message.clone());
            let (one, other) = if side == "base" { (text, None) } else { (None, text) };
            found.push(Difference { what: format!("health {}", finding.code), base: one, candidate: other });
        }
    }
    found
}
