//! The document of a comparison, `kbench.compare/1` (docs/comparing.md). Keys are added, never renamed.

use crate::report::document::Tool;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The schema that documents name.
pub const SCHEMA: &str = "kbench.compare/1";

/// A whole comparison: of two runs, of two builds that ran in turn, or of two profiles.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// What made it.
    pub tool: Tool,
    /// How times came about.
    pub method: Method,
    /// What is compared with.
    pub base: SideDoc,
    /// What is under test.
    pub candidate: SideDoc,
    /// Facts about the surroundings that differ.
    pub environment: Vec<Difference>,
    /// Differences that would have forbidden the comparison and were allowed.
    pub allowed: Vec<Difference>,
    /// What counts as a change.
    pub rule: RuleDoc,
    /// Cases (or kernels of profiles), those that weigh most first.
    pub cases: Vec<CaseDoc>,
    /// What only one side has, or did not run.
    pub not_compared: Vec<NotCompared>,
    /// What the cases mean together; absent when nothing has a ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<SummaryDoc>,
    /// What the gate found; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateDoc>,
}

impl Comparison {
    /// Whether cases ran in several cache modes, so that a case's id does not tell its rows apart.
    pub fn has_several_caches(&self) -> bool {
        let modes: BTreeSet<_> = self.cases.iter().map(|case| &case.requested_cache).collect();
        modes.len() > 1
    }
}

/// How the figures of the two sides came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Launches in turn, in blocks.
    Paired,
    /// Two runs made apart: the error between runs is part of every interval.
    SeparateRuns,
    /// Emulated runs: nothing is uncertain.
    Exact,
    /// Whole profiles, kernel by kernel, normalised to a step.
    Profiles,
}

/// One side.
#[derive(Clone, Debug, Serialize)]
pub struct SideDoc {
    /// Name, file or run as asked for.
    pub label: String,
    /// Device; absent for profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Architecture; absent for profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Steps that a profile was divided by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Kernel time of a profile, ns a step (or in all when steps are unknown).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_ns: Option<f64>,
}

/// A fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What.
    pub what: String,
    /// In the base; absent when it says nothing about it.
    pub base: Option<String>,
    /// In the candidate.
    pub candidate: Option<String>,
}

/// What counts as a change.
#[derive(Clone, Debug, Serialize)]
pub struct RuleDoc {
    /// Smallest relative change that is called one.
    pub threshold: f64,
    /// Relative change that SAME excludes.
    pub margin: f64,
    /// Relative change that equal builds were said to show (`--noise-floor`); 0 without.
    pub noise_floor: f64,
    /// Error level of each verdict.
    pub alpha: f64,
    /// Correction of changes over cases.
    pub correction: &'static str,
    /// Relative standard deviation between runs of one build; absent where runs are not apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_runs: Option<BetweenDoc>,
}

/// The error between runs.
#[derive(Clone, Debug, Serialize)]
pub struct BetweenDoc {
    /// Standard deviation of a run's log-median.
    pub sd: f64,
    /// `assumed`, or `stored runs` with their degrees of freedom.
    pub source: String,
}

/// One case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseDoc {
    /// Its id, without cache mode.
    pub id: String,
    /// Family.
    pub family: String,
    /// Kernel.
    pub kernel: String,
    /// Phase.
    pub phase: String,
    /// Cache state; absent on emulated devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// The cache state that was asked for, which a small case need not have been measured in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_cache: Option<String>,
    /// A part of the workgroups was emulated, on one side at least: counts are scaled from it, and no longer exact.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
    /// Share of the base's step.
    pub share: f64,
    /// True when both sides ran the same machine code; absent when a hash is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identical_code: Option<bool>,
    /// `FASTER`, `SLOWER`, `SAME` or `INCONCLUSIVE`.
    pub verdict: &'static str,
    /// Why it is inconclusive, or what else must be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What makes it inconclusive, in a word: `too_few`, `too_wide`, `near_threshold`, `among_many` or `clocks_differ`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<&'static str>,
    /// The quantity the verdict is about: `time`, or `bound` on emulated devices.
    pub of: &'static str,
    /// Its two values and their ratio; absent when one side has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<RatioDoc>,
    /// The ratio in cycles of the median clock, where both sides know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles_ratio: Option<f64>,
    /// Named quantities of both sides: those that changed, and all that a gate can ask for.
    pub metrics: Vec<MetricDoc>,
    /// Named quantities, and counters that a gate asks for, that the base has and the candidate has not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// What changed, what matters most first, as sentences.
    pub why: Vec<String>,
}

/// A ratio and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatioDoc {
    /// Base, ns.
    pub base_ns: f64,
    /// Candidate, ns.
    pub candidate_ns: f64,
    /// Candidate over base.
    pub ratio: f64,
    /// Interval of the ratio at `1 − alpha`; absent when it is not known, equal ends when nothing is uncertain.
    pub interval: Option<[f64; 2]>,
    /// p-value of no change, corrected over cases.
    pub p_adjusted: f64,
    /// Standard error of the ratio's logarithm from the samples of this case.
    pub own_error: f64,
    /// Standard error of the ratio's logarithm that all cases share.
    pub common_error: f64,
}

/// A quantity of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricDoc {
    /// Its name: `bound`, `insts`, ..., or a counter's.
    pub name: String,
    /// Base.
    pub base: f64,
    /// Candidate.
    pub candidate: f64,
    /// Relative change; absent when the base is 0 and the candidate is not.
    pub change: Option<f64>,
    /// Unit.
    pub unit: String,
    /// How it is known: `measured`, `exact`, `model`, `derived` or `resource`.
    pub kind: String,
}

/// A case that could not be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    /// Its id.
    pub id: String,
    /// Family.
    pub family: String,
    /// The cache state that was asked for, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Status in the base; absent when it is not there.
    pub base: Option<String>,
    /// Status in the candidate; absent when it is not there.
    pub candidate: Option<String>,
    /// Why.
    pub reason: String,
}

impl NotCompared {
    /// Whether the candidate failed, hung or is wrong.
    pub fn has_failed(&self) -> bool {
        matches!(self.candidate.as_deref(), Some("failed" | "hung" | "wrong"))
    }

    /// Whether it leaves a question open: the base has it, or it is a kernel of the candidate's profile. A case that only the
    /// candidate ran is new, and there is nothing to compare it with.
    pub fn is_open(&self) -> bool {
        self.base.is_some() || self.candidate.as_deref() == Some("profiled")
    }
}

/// What the cases mean together.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryDoc {
    /// The quantity: `time` or `bound`.
    pub of: &'static str,
    /// Expected change of the whole step; absent when no case's ratio is known well enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepDoc>,
    /// The same for the compared kernels of each phase.
    pub by_phase: BTreeMap<String, StepDoc>,
    /// Geometric mean of the ratios, each case counting the same: a secondary figure.
    pub geometric_mean: f64,
    /// Cases by verdict.
    pub verdicts: BTreeMap<&'static str, usize>,
    /// How shares were made.
    pub weights: &'static str,
}

/// Expected change of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepDoc {
    /// Relative change: −0.02 is 2 % less.
    pub change: f64,
    /// Its interval, at one minus the error level (95 % unless asked otherwise).
    pub interval: [f64; 2],
    /// Share of the step that is known: compared, or gone.
    pub share: f64,
    /// Cases.
    pub cases: usize,
    /// Share of the step that was compared but is taken as unchanged, because its ratios have no interval or its times and
    /// cycles disagree.
    pub left_out: f64,
    /// Profiles: time of kernels that only the candidate has, as a share of the base's step.
    pub added: f64,
    /// Profiles: share of the base's step in kernels that only the base has.
    pub removed: f64,
}

/// What a gate found.
#[derive(Clone, Debug, Serialize)]
pub struct GateDoc {
    /// True when nothing failed (inconclusive checks pass unless asked to be strict).
    pub passed: bool,
    /// Each check.
    pub checks: Vec<CheckDoc>,
}

/// One check of a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckDoc {
    /// Case id; `step` for the whole.
    pub case: String,
    /// Family; empty for the step.
    pub family: String,
    /// The cache state that was asked for, where cases were run in several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Metric.
    pub metric: String,
    /// The limit, as given.
    pub limit: String,
    /// Base.
    pub base: Option<f64>,
    /// Candidate.
    pub candidate: Option<f64>,
    /// What came of it.
    pub outcome: Outcome,
    /// One sentence.
    pub message: String,
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Within the limit.
    Pass,
    /// Beyond it: a regression.
    Fail,
    /// The samples do not tell.
    Inconclusive,
}
