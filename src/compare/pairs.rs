//! Two builds that ran side by side: launches taken in turn, or what an emulated device says of each.

use super::case::{self, paired};
use super::document::{Comparison, Method, NotCompared, RuleDoc, SideDoc};
use super::read::{Case, Device};
use super::runs::{Parts, assemble};
use super::summary::Around;
use crate::measure::Cache;
use crate::report::Status;
use crate::report::document::CaseResult;
use crate::runner::{OTHER_FAILED, PairResult, PairRule, PairSamples};
use kbench_stats::{BetweenRuns, Correction, PairedComparison, Reference, StatsError};
use std::collections::BTreeSet;

/// A case that ran in both builds, or did not.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The cache state asked for.
    pub cache: Cache,
    /// The base's side.
    pub base: CaseResult,
    /// The candidate's side and the samples; absent when it did not come to that.
    pub pair: Option<PairResult>,
}

/// Why pairs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum PairsError {
    /// Numbers that cannot be analysed.
    #[error("case `{id}` cannot be compared: {error}")]
    Stats {
        /// The case.
        id: String,
        /// Why.
        error: StatsError,
    },
    /// A result that cannot be read back.
    #[error("a result cannot be read back: {0}")]
    Json(#[from] serde_json::Error),
}

/// What the blocks of a pair say: the comparison of the look at which sampling stopped, or of all blocks.
///
/// # Errors
/// When there are no blocks.
pub fn evaluate(samples: &PairSamples, rule: &PairRule) -> Result<PairedComparison, StatsError> {
    let (times, cycles) = samples.blocks();
    let mut session = rule.session(samples.seed)?;
    let mut safe = None;
    for (index, block) in times.iter().enumerate() {
        let cycles = cycles.as_ref().and_then(|cycles| cycles.get(index).copied());
        safe = session.push(*block, cycles)?;
    }
    safe.map_or_else(|| session.finish(), Ok)
}

/// Compares pairs; `labels` are those of base and candidate as asked for. Pairs without samples, of an emulated device, are
/// compared exactly.
///
/// # Errors
/// [`PairsError`].
pub fn compare_pairs(
    labels: [&str; 2],
    device: &Device,
    pairs: &[Pair],
    (asked, correction): (&PairRule, Correction),
    wanted: &BTreeSet<String>,
) -> Result<Comparison, PairsError> {
    let (mut compared, mut calls, mut not_compared) = (Vec::new(), Vec::new(), Vec::new());
    let stats = |id: &str| {
        let id = id.to_owned();
        move |error| PairsError::Stats { id, error }
    };
    let rule = &asked.rule().map_err(stats("all"))?;
    let is_timed = device.kind != "emu" || pairs.iter().any(|pair| samples(pair).is_some());
    for pair in pairs {
        let Some(result) = both_ok(pair).filter(|result| result.samples.is_some() || !is_timed) else {
            not_compared.push(left_out(pair));
            continue;
        };
        let (base, candidate) = (read(&pair.base, pair.cache)?, read(&result.candidate, pair.cache)?);
        compared.push(match &result.samples {
            Some(samples) => {
                let found = evaluate(samples, asked).map_err(stats(&pair.base.id))?;
                paired(&base, &candidate, samples.cache.name(), samples.medians(), found, wanted)
            }
            None => case::compare(&base, &candidate, &BetweenRuns::Assumed { sd: 0.0 }, rule, wanted)
                .map_err(stats(&pair.base.id))?,
        });
        calls.push(pair.base.weight.calls);
    }
    let side = |label: &str| SideDoc {
        label: label.to_owned(),
        device: Some(device.name.clone()),
        arch: Some(device.arch.clone()),
        steps: None,
        kernel_ns: None,
    };
    let parts = Parts {
        method: if is_timed { Method::Paired } else { Method::Exact },
        base: side(labels[0]),
        candidate: side(labels[1]),
        environment: Vec::new(),
        allowed: Vec::new(),
        rule: RuleDoc {
            threshold: rule.threshold(),
            margin: rule.margin(),
            noise_floor: rule.noise_floor(),
            alpha: rule.alpha().get(),
            correction: correction.name(),
            between_runs: None,
        },
        compared,
        around: Around { calls, one_sided: Vec::new(), reference: Reference::Normal, common_error: 0.0 },
        not_compared,
    };
    assemble(parts, rule, correction).map_err(stats("all"))
}

/// The candidate's side of a pair in which both are right.
fn both_ok(pair: &Pair) -> Option<&PairResult> {
    let result = pair.pair.as_ref()?;
    (pair.base.status == Status::Ok && result.candidate.status == Status::Ok).then_some(result)
}

fn samples(pair: &Pair) -> Option<&PairSamples> {
    pair.pair.as_ref()?.samples.as_ref()
}

fn left_out(pair: &Pair) -> NotCompared {
    let candidate = pair.pair.as_ref().map(|pair| &pair.candidate);
    let said = |side: &str, case: &CaseResult| {
        let own = case.reason.as_deref().filter(|reason| case.status != Status::Ok && *reason != OTHER_FAILED)?;
        Some(format!("{} in the {side}: {own}", case.status.name()))
    };
    let reason: Vec<String> = match candidate {
        Some(candidate) => said("base", &pair.base).into_iter().chain(said("candidate", candidate)).collect(),
        // It did not come to either of the two.
        None => pair.base.reason.iter().cloned().collect(),
    };
    NotCompared {
        id: pair.base.id.clone(),
        family: pair.base.family.to_string(),
        cache: Some(pair.cache.name().to_owned()),
        base: Some(pair.base.status.name().to_owned()),
        candidate: candidate.map(|case| case.status.name().to_owned()),
        reason: if reason.is_empty() { "nothing was measured".to_owned() } else { reason.join("; ") },
    }
}

/// A result as cases are read. Through text: sums of bytes may be wider than a value's integers.
fn read(result: &CaseResult, requested: Cache) -> Result<Case, serde_json::Error> {
    let case: Case = serde_json::from_str(&serde_json::to_string(result)?)?;
    Ok(Case { requested: Some(requested.name().to_owned()), ..case })
}
