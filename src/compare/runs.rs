//! Two runs made apart.

use super::case::{self, Compared};
use super::document::{BetweenDoc, CaseDoc, Comparison, Difference, Method, NotCompared, RuleDoc, SCHEMA, SideDoc};
use super::pairing::{self, Obstacle};
use super::read::{Case, Run};
use super::summary::{Around, summarise};
use crate::report::document::Tool;
use kbench_stats::{BetweenRuns, Correction, Probability, Reference, Rule, StatsError};
use std::collections::BTreeSet;

/// How runs are compared.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What counts as a change; its margin is widened to what separate runs can tell.
    pub rule: Rule,
    /// Correction of changes over cases.
    pub correction: Correction,
    /// How much runs of one build differ.
    pub between: BetweenRuns,
    /// Where that figure comes from.
    pub between_source: String,
    /// Differences that do not forbid the comparison.
    pub allow: BTreeSet<Obstacle>,
    /// Counters that a gate asks for.
    pub wanted: BTreeSet<String>,
}

/// Why runs are not compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// They differ in what a comparison must hold fixed.
    #[error("{base} and {candidate} cannot be compared: {what}; measure both alike, or allow it with --allow {words}")]
    NotComparable {
        /// Base, as asked for.
        base: String,
        /// Candidate, as asked for.
        candidate: String,
        /// What differs.
        what: String,
        /// The words of `--allow`.
        words: String,
    },
    /// No case is on both sides.
    #[error(
        "{base} and {candidate} have no case in common: {base} has {base_cases} cases, {candidate} {candidate_cases}; compare runs of the same inventory"
    )]
    NothingInCommon {
        /// Base, as asked for.
        base: String,
        /// Candidate, as asked for.
        candidate: String,
        /// Cases of the base.
        base_cases: usize,
        /// Cases of the candidate.
        candidate_cases: usize,
    },
    /// Numbers that cannot be analysed.
    #[error("case `{id}` cannot be compared: {error}")]
    Stats {
        /// The case.
        id: String,
        /// Why.
        error: StatsError,
    },
}

/// Compares two runs.
///
/// # Errors
/// When they are not comparable and that is not allowed, have no case in common, or hold numbers that cannot be analysed.
pub fn compare_runs(
    (base_label, base): (&str, &Run),
    (candidate_label, candidate): (&str, &Run),
    settings: &Settings,
) -> Result<Comparison, CompareError> {
    let paired = pairing::pair(base, candidate, settings.allow.contains(&Obstacle::Cache));
    let (allowed, refused): (Vec<_>, Vec<_>) =
        paired.obstacles.iter().cloned().partition(|(obstacle, _)| settings.allow.contains(obstacle));
    if !refused.is_empty() {
        return Err(not_comparable(base_label, candidate_label, &refused));
    }
    let (base_cases, candidate_cases) = (base.cases.len(), candidate.cases.len());
    if paired.pairs.is_empty() && paired.rest.iter().all(|case| case.base.is_none() || case.candidate.is_none()) {
        let (base, candidate) = (base_label.to_owned(), candidate_label.to_owned());
        return Err(CompareError::NothingInCommon { base, candidate, base_cases, candidate_cases });
    }
    let stats = |id: &str| {
        let id = id.to_owned();
        move |error| CompareError::Stats { id, error }
    };
    let is_timed = |(one, other): &(&Case, &Case)| one.timing.is_some() || other.timing.is_some();
    let is_measured = base.device.kind != "emu" || paired.pairs.iter().any(is_timed);
    let rule = match is_measured {
        true => settings.between.detectable(settings.rule.alpha()).and_then(|margin| settings.rule.with_margin(margin)),
        false => Ok(settings.rule),
    };
    let rule = rule.map_err(stats("all"))?;
    let mut compared: Vec<Compared> = Vec::with_capacity(paired.pairs.len());
    for (base, candidate) in &paired.pairs {
        let found = case::compare(base, candidate, &settings.between, &rule, &settings.wanted);
        compared.push(found.map_err(stats(&base.id))?);
    }
    let side = |label: &str, run: &Run| SideDoc {
        label: label.to_owned(),
        device: Some(run.device.name.clone()),
        arch: Some(run.device.arch.clone()),
        steps: None,
        kernel_ns: None,
    };
    let parts = Parts {
        method: if is_measured { Method::SeparateRuns } else { Method::Exact },
        base: side(base_label, base),
        candidate: side(candidate_label, candidate),
        environment: pairing::environment(base, candidate),
        allowed: allowed.into_iter().map(|(_, difference)| difference).collect(),
        rule: rule_doc(&rule, settings, is_measured),
        around: Around {
            calls: paired.pairs.iter().map(|(base, _)| base.weight.calls).collect(),
            one_sided: Vec::new(),
            reference: if is_measured { settings.between.reference() } else { Reference::Normal },
            common_error: settings.between.log_error(),
        },
        compared,
        not_compared: paired.rest,
    };
    assemble(parts, &rule, settings.correction).map_err(stats("all"))
}

/// What a comparison is made of, however its cases were measured.
#[derive(Clone, Debug)]
pub struct Parts {
    /// How times came about.
    pub method: Method,
    /// What is compared with.
    pub base: SideDoc,
    /// What is under test.
    pub candidate: SideDoc,
    /// Facts about the surroundings that differ.
    pub environment: Vec<Difference>,
    /// Differences that were allowed.
    pub allowed: Vec<Difference>,
    /// What counts as a change.
    pub rule: RuleDoc,
    /// Cases that were compared.
    pub compared: Vec<Compared>,
    /// What the step takes beside them.
    pub around: Around,
    /// The others.
    pub not_compared: Vec<NotCompared>,
}

/// Corrects over cases, decides, sums up; cases that weigh most come first.
///
/// # Errors
/// When a ratio or an error is out of range.
pub fn assemble(mut parts: Parts, rule: &Rule, correction: Correction) -> Result<Comparison, StatsError> {
    correct(&mut parts.compared, rule, correction)?;
    let mut cases: Vec<CaseDoc> = parts.compared.into_iter().map(|compared| compared.doc).collect();
    let summary = summarise(&mut cases, &parts.around, Probability::new(1.0 - rule.alpha().get())?)?;
    cases.sort_by(|a, b| b.share.total_cmp(&a.share));
    Ok(Comparison {
        schema: SCHEMA,
        tool: Tool::this(),
        method: parts.method,
        base: parts.base,
        candidate: parts.candidate,
        environment: parts.environment,
        allowed: parts.allowed,
        rule: parts.rule,
        cases,
        not_compared: parts.not_compared,
        summary,
        gate: None,
    })
}

/// The rule as the document tells it.
pub(super) fn rule_doc(rule: &Rule, settings: &Settings, with_between: bool) -> RuleDoc {
    RuleDoc {
        threshold: rule.threshold(),
        margin: rule.margin(),
        noise_floor: rule.noise_floor(),
        alpha: rule.alpha().get(),
        correction: settings.correction.name(),
        between_runs: with_between
            .then(|| BetweenDoc { sd: settings.between.sd(), source: settings.between_source.clone() }),
    }
}

/// Corrects the p-values of the measured cases for their number, and decides.
fn correct(compared: &mut [Compared], rule: &Rule, correction: Correction) -> Result<(), StatsError> {
    let measured: Vec<&mut Compared> = compared.iter_mut().filter(|case| case.estimate.is_some()).collect();
    let p: Vec<f64> = measured.iter().filter_map(|case| case.estimate.map(|estimate| estimate.p_changed())).collect();
    for (case, p) in measured.into_iter().zip(correction.adjust(&p)?) {
        case.decide(rule, p);
    }
    Ok(())
}

fn not_comparable(base: &str, candidate: &str, refused: &[(Obstacle, Difference)]) -> CompareError {
    let mut texts: Vec<String> = Vec::new();
    for (_, difference) in refused {
        let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "none".to_owned());
        texts.push(format!("{}: {} and {}", difference.what, side(&difference.base), side(&difference.candidate)));
    }
    let words: BTreeSet<&str> = refused.iter().map(|(obstacle, _)| obstacle.word()).collect();
    let words = words.into_iter().collect::<Vec<_>>().join(",");
    let (base, candidate) = (base.to_owned(), candidate.to_owned());
    CompareError::NotComparable { base, candidate, what: texts.join("; "), words }
}
