//! Two builds whose launches were taken in turn.

use super::case::paired;
use super::document::{Comparison, Method, NotCompared, RuleDoc, SideDoc};
use super::read::{Case, Device, ReadError};
use super::runs::{Parts, assemble};
use crate::report::Status;
use crate::report::document::CaseResult;
use crate::runner::{PairResult, PairSamples};
use kbench_stats::{Correction, PairedComparison, PairedSession, Rule, StatsError};
use std::collections::BTreeSet;

/// A case that ran in both builds, or did not.
#[derive(Clone, Debug)]
pub struct Pair {
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
    Read(#[from] ReadError),
    /// The same.
    #[error("a result cannot be read back: {0}")]
    Json(#[from] serde_json::Error),
}

/// What the blocks of a pair say: the comparison of the look at which sampling stopped, or of all blocks.
///
/// # Errors
/// When there are no blocks.
pub fn evaluate(samples: &PairSamples, rule: Rule) -> Result<PairedComparison, StatsError> {
    let (times, cycles) = samples.blocks();
    let mut session = PairedSession::new(rule, samples.seed)?;
    let mut safe = None;
    for (index, block) in times.iter().enumerate() {
        let cycles = cycles.as_ref().and_then(|cycles| cycles.get(index).copied());
        safe = session.push(*block, cycles)?;
    }
    safe.map_or_else(|| session.finish(), Ok)
}

/// Compares pairs; `labels` are those of base and candidate as asked for.
///
/// # Errors
/// [`PairsError`].
pub fn compare_pairs(
    labels: [&str; 2],
    device: &Device,
    pairs: &[Pair],
    (rule, correction): (&Rule, Correction),
    wanted: &BTreeSet<String>,
) -> Result<Comparison, PairsError> {
    let (mut compared, mut calls, mut not_compared) = (Vec::new(), Vec::new(), Vec::new());
    for pair in pairs {
        let Some((result, samples)) = measured(pair) else {
            not_compared.push(left_out(pair));
            continue;
        };
        let id = &pair.base.id;
        let stats = |error| PairsError::Stats { id: id.clone(), error };
        let found = evaluate(samples, *rule).map_err(stats)?;
        let (base, candidate) = (case(&pair.base)?, case(&result.candidate)?);
        compared.push(paired(&base, &candidate, medians(samples), found, wanted));
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
        method: Method::Paired,
        base: side(labels[0]),
        candidate: side(labels[1]),
        environment: Vec::new(),
        allowed: Vec::new(),
        rule: RuleDoc {
            threshold: rule.threshold(),
            margin: rule.margin(),
            alpha: rule.alpha().get(),
            correction: correction.name(),
            between_runs: None,
        },
        compared,
        calls,
        not_compared,
    };
    assemble(parts, rule, correction).map_err(|error| PairsError::Stats { id: "all".to_owned(), error })
}

fn measured(pair: &Pair) -> Option<(&PairResult, &PairSamples)> {
    let result = pair.pair.as_ref()?;
    let fine = pair.base.status == Status::Ok && result.candidate.status == Status::Ok;
    result.samples.as_ref().filter(|_| fine).map(|samples| (result, samples))
}

fn left_out(pair: &Pair) -> NotCompared {
    let candidate = pair.pair.as_ref().map(|pair| &pair.candidate);
    let base_reason = pair.base.reason.as_deref().filter(|_| pair.base.status != Status::Ok);
    let reasons = [
        base_reason.map(|reason| format!("base: {reason}")),
        candidate.and_then(|case| case.reason.as_deref()).map(|reason| format!("candidate: {reason}")),
    ];
    let reason: Vec<String> = reasons.into_iter().flatten().collect();
    NotCompared {
        id: pair.base.id.clone(),
        family: pair.base.family.to_string(),
        base: Some(pair.base.status.name().to_owned()),
        candidate: candidate.map(|case| case.status.name().to_owned()),
        reason: if reason.is_empty() { "nothing was measured".to_owned() } else { reason.join("; ") },
    }
}

/// A result as cases are read.
fn case(result: &CaseResult) -> Result<Case, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(result)?)
}

/// Medians of base and candidate over all launches, ns.
fn medians(samples: &PairSamples) -> [f64; 2] {
    [0, 2].map(|first| {
        let mut all: Vec<f64> = samples.times.iter().flat_map(|block| [block[first], block[first + 1]]).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    })
}
