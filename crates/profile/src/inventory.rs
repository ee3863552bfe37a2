//! What a profile holds: kernels, their time, their shapes, and how each shape became known.

use crate::naming::TRANSFER_CATEGORY;
use crate::timeline::{StepSummary, Window};
use kbench_workload::{Dtypes, Family, ShapeMap};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How a shape became known, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Provenance {
    /// The kernel's own operator arguments.
    #[serde(rename = "exact")]
    Exact,
    /// Joined with a capture trace of the replayed graph.
    #[serde(rename = "capture")]
    Capture,
    /// Joined with an eager twin run.
    #[serde(rename = "eager")]
    Eager,
    /// Step label and model config.
    #[serde(rename = "label+model")]
    LabelModel,
    /// Parameters in the kernel's name.
    #[serde(rename = "name")]
    Name,
    /// Given by the user.
    #[serde(rename = "given")]
    Given,
    /// Not known.
    #[serde(rename = "none")]
    None,
}

const PROVENANCES: &[(Provenance, &str)] = &[
    (Provenance::Exact, "exact"),
    (Provenance::Capture, "capture"),
    (Provenance::Eager, "eager"),
    (Provenance::LabelModel, "label+model"),
    (Provenance::Name, "name"),
    (Provenance::Given, "given"),
    (Provenance::None, "none"),
];

impl Provenance {
    /// Name in documents.
    pub fn name(self) -> &'static str {
        PROVENANCES.iter().find(|(known, _)| *known == self).map_or("none", |(_, name)| name)
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Provenance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        PROVENANCES.iter().find(|(_, name)| *name == text.trim()).map(|(known, _)| *known).ok_or_else(|| {
            let names: Vec<&str> = PROVENANCES.iter().map(|(_, name)| *name).collect();
            format!("`{text}` is no provenance; known are {}", names.join(", "))
        })
    }
}

/// The phase of serving that a kernel ran in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Prompt processing.
    Prefill,
    /// Token generation.
    Decode,
    /// Both in one step.
    Mixed,
    /// The profile does not say.
    #[default]
    Unknown,
}

impl Phase {
    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
            Phase::Mixed => "mixed",
            Phase::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown]
            .into_iter()
            .find(|phase| phase.name() == text.trim())
            .ok_or_else(|| format!("`{text}` is no phase; known are prefill, decode, mixed, unknown"))
    }
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know; nothing is wrong.
    Note,
    /// Numbers were corrected or are incomplete.
    Warning,
}

/// One thing about a profile's health. Findings are data in the output, not only log lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable word to filter by: `units_fixed`, `truncated_names`, `zero_durations`, `unlinked_kernels`, ...
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence: what was found, how often, what was done.
    pub message: String,
}

/// Where the inventory came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Files or folders as given.
    pub paths: Vec<String>,
    /// Dialect as told from the content: `tracelens unified_perf_summary`, `rocprofv3 kernel_trace`, ...
    pub dialect: String,
    /// What the file name or a label hints at (`batch` from `conc16_layer.csv`), never used as a shape by itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hints: BTreeMap<String, String>,
    /// Steps (forward passes) in the profile, when it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
}

/// Where a row stands in its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// File as given or found.
    pub file: String,
    /// Line, counted from 1 with the header as line 1; 0 when the source has no lines.
    pub line: u64,
}

/// One shape at which a kernel ran, with its weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShapeUse {
    /// Sizes.
    pub shape: ShapeMap,
    /// Dtypes.
    pub dtypes: Dtypes,
    /// Calls at this shape.
    pub calls: u64,
    /// Time of those calls in ns; 0 when only the row's total is known.
    pub total_ns: u64,
    /// How the shape became known.
    pub provenance: Provenance,
    /// Assumptions made where the source was silent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
}

/// One kernel in one phase (and, in per-layer sources, at one position).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Canonical kernel name (`names::canonical`).
    pub kernel: String,
    /// The name as found.
    pub kernel_raw: String,
    /// What it computes.
    pub family: Family,
    /// Category of the workflow table: `Dense GEMM (BF16)`, `MoE Sort`, ...
    pub category: String,
    /// Operator that launched it, when known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Position in a layer or module tag, where the source tells calls of one kernel apart by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<String>,
    /// Phase.
    pub phase: Phase,
    /// Launches.
    pub calls: u64,
    /// Time of all launches, ns.
    pub total_ns: u64,
    /// Share of the inventory's kernel time, 0 to 1; filled by [`Inventory::finish`].
    pub share: f64,
    /// Weakest provenance of its shapes, [`Provenance::None`] without any; filled by [`Inventory::finish`].
    pub provenance: Provenance,
    /// Shapes with weights; empty when unknown.
    pub shapes: Vec<ShapeUse>,
    /// Where it was found.
    pub location: Location,
}

/// Share of kernel time by provenance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Share of kernel time with a shape, 0 to 1.
    pub with_shape: f64,
    /// Share of kernel time by provenance name.
    pub by_provenance: BTreeMap<String, f64>,
    /// Share of kernel time in families that kbench can replay, at a known shape.
    pub replayable: f64,
}

/// What a profile holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inventory {
    /// Where it came from.
    pub source: Source,
    /// Findings about the source's health.
    pub health: Vec<Finding>,
    /// Kernels, longest total time first.
    pub rows: Vec<Row>,
    /// The stretch of time that it covers, when the source is a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Forward passes of a trace in order; empty when the source tells of none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepSummary>,
}

impl Inventory {
    /// Kernel time, ns: that of all rows but memory transfers ([`Row::is_transfer`]).
    pub fn total_ns(&self) -> u128 {
        self.rows.iter().filter(|row| !row.is_transfer()).map(|row| u128::from(row.total_ns)).sum()
    }

    /// Time of memory transfers, ns.
    pub fn transfer_ns(&self) -> u128 {
        self.rows.iter().filter(|row| row.is_transfer()).map(|row| u128::from(row.total_ns)).sum()
    }

    /// Keeps the rows and steps of one phase; shares are then shares of that phase's kernel time. Returns the share that it had before.
    pub fn retain_phase(&mut self, phase: Phase) -> f64 {
        let before = self.total_ns();
        self.rows.retain(|row| row.phase == phase);
        self.steps.retain(|step| step.phase == phase);
        self.finish();
        if before == 0 { 0.0 } else { self.total_ns() as f64 / before as f64 }
    }

    /// Kernel time (ns) of each phase that has any, in the order of [`Phase`].
    pub fn ns_by_phase(&self) -> BTreeMap<Phase, u128> {
        let mut found = BTreeMap::new();
        for row in self.rows.iter().filter(|row| !row.is_transfer()) {
            *found.entry(row.phase).or_default() += u128::from(row.total_ns);
        }
        found
    }

    /// Adds a finding.
    pub fn note(&mut self, severity: Severity, code: &str, message: impl Into<String>) {
        self.health.push(Finding { code: code.to_owned(), severity, message: message.into() });
    }

    /// Sorts rows by time, fills shares (0 for memory transfers) and row provenances, drops shapes that say nothing, and raises a row's totals
    /// to those of its shapes where they are less. Readers call it last.
    pub fn finish(&mut self) {
        for row in &mut self.rows {
            row.shapes.retain(|used| !used.shape.is_empty() || used.provenance != Provenance::None);
            let (calls, ns) = row.shaped();
            row.calls = row.calls.max(calls);
            row.total_ns = row.total_ns.max(ns);
        }
        let total = self.total_ns() as f64;
        for row in &mut self.rows {
            row.share = if total > 0.0 && !row.is_transfer() { row.total_ns as f64 / total } else { 0.0 };
            row.provenance = row.shapes.iter().map(|used| used.provenance).max().unwrap_or(Provenance::None);
            row.shapes.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then(b.calls.cmp(&a.calls)));
        }
        self.rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.kernel.cmp(&b.kernel)));
    }

    /// Coverage of kernel time by shapes. A row's time is covered by the time of its shapes, or in proportion to their calls when no time is known per
    /// shape; what is left of the row is `none`.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        let total = self.total_ns() as f64;
        if total <= 0.0 {
            return coverage;
        }
        for row in self.rows.iter().filter(|row| !row.is_transfer()) {
            let share = row.total_ns as f64 / total;
            let mut known = 0.0;
            for (used, part) in row.shapes.iter().zip(row.shape_parts()) {
                known += part;
                *coverage.by_provenance.entry(used.provenance.name().to_owned()).or_default() += share * part;
                if row.family.is_replayable() && !used.is_generic() {
                    coverage.replayable += share * part;
                }
            }
            coverage.with_shape += share * known;
            if share * (1.0 - known) > 1e-12 {
                *coverage.by_provenance.entry(Provenance::None.name().to_owned()).or_default() += share * (1.0 - known);
            }
        }
        // Sums of shares carry float noise.
        coverage.with_shape = coverage.with_shape.min(1.0);
        coverage.replayable = coverage.replayable.min(1.0);
        coverage
    }
}

impl ShapeUse {
    /// True when the shape only lists the dims of an operator's arguments (`in0=[16,559,1024]`): no family knows them.
    pub fn is_generic(&self) -> bool {
        let is_argument =
            |key: &str| key.strip_prefix("in").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        !self.shape.is_empty() && self.shape.iter().all(|(key, _)| is_argument(key))
    }
}

impl Row {
    /// True for copies and fills that the runtime records by itself (`Memcpy DtoD (Device -> Device)`). They stay in the list, but their time is no
    /// kernel time. Kernels that copy (`__amd_rocclr_copyBuffer`) are kernels.
    pub fn is_transfer(&self) -> bool {
        self.family == Family::Copy && self.category == TRANSFER_CATEGORY
    }

    /// Calls and time (ns) of all shapes.
    pub fn shaped(&self) -> (u64, u64) {
        let sum = |of: fn(&ShapeUse) -> u64| self.shapes.iter().map(of).fold(0, u64::saturating_add);
        (sum(|used| used.calls), sum(|used| used.total_ns))
    }

    /// The part of the row's time that each shape stands for, together at most 1: by time, or by calls when no time is known per shape.
    pub fn shape_parts(&self) -> Vec<f64> {
        let whole = match self.shaped() {
            (_, 1..) => self.total_ns,
            (1.., 0) => self.calls,
            (0, 0) => return self.shape_weights(),
        };
        let by_time = self.shaped().1 > 0;
        let part = |used: &ShapeUse| if by_time { used.total_ns } else { used.calls } as f64 / whole.max(1) as f64;
        self.shapes.iter().map(part).collect()
    }

    /// The weight of each shape within the row; they sum to 1. Empty without shapes.
    pub fn shape_weights(&self) -> Vec<f64> {
        let by = |weight: fn(&ShapeUse) -> u64| -> Option<Vec<f64>> {
            let total: u128 = self.shapes.iter().map(|used| u128::from(weight(used))).sum();
            (total > 0).then(|| self.shapes.iter().map(|used| weight(used) as f64 / total as f64).collect())
        };
        by(|used| used.total_ns)
            .or_else(|| by(|used| used.calls))
            .unwrap_or_else(|| vec![1.0 / self.shapes.len().max(1) as f64; self.shapes.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kernel: &str, total_ns: u64, shapes: Vec<ShapeUse>) -> Row {
        Row {
            kernel: kernel.into(),
            kernel_raw: kernel.into(),
            family: Family::Gemm,
            category: "Dense GEMM (BF16)".into(),
            op: None,
            position: None,
            phase: Phase::Unknown,
            calls: 4,
            total_ns,
            share: 0.0,
            provenance: Provenance::None,
            shapes,
            location: Location::default(),
        }
    }

    fn shape(calls: u64, total_ns: u64, provenance: Provenance) -> ShapeUse {
        let shape = ShapeMap::new().with("m", calls);
        ShapeUse { shape, dtypes: Dtypes::default(), calls, total_ns, provenance, assumed: Vec::new() }
    }

    #[test]
    fn coverage_splits_a_row_by_its_shapes_time() {
        let mut inventory = Inventory::default();
        inventory.rows.push(row("none", 100, vec![]));
        inventory.rows.push(row(
            "two",
            300,
            vec![shape(1, 200, Provenance::Exact), shape(3, 100, Provenance::Capture)],
        ));
        inventory.finish();
        let coverage = inventory.coverage();
        assert!((coverage.with_shape - 0.75).abs() < 1e-12);
        assert!((coverage.by_provenance["exact"] - 0.5).abs() < 1e-12);
        assert!((coverage.by_provenance["capture"] - 0.25).abs() < 1e-12);
        assert!((coverage.by_provenance["none"] - 0.25).abs() < 1e-12);
        assert_eq!(inventory.rows[0].kernel, "two");
        assert_eq!(inventory.rows[0].provenance, Provenance::Capture);
    }

    #[test]
    fn time_that_no_shape_accounts_for_is_not_covered() {
        let mut inventory = Inventory::default();
        // 60 of 100 ns at a known shape; 3 of 4 calls at one, no times; a copy of the runtime.
        inventory.rows.push(row("by time", 100, vec![shape(1, 60, Provenance::Exact)]));
        inventory.rows.push(row("by calls", 100, vec![shape(3, 0, Provenance::Given)]));
        let mut copy = row("Memcpy DtoD", 900, vec![]);
        (copy.family, copy.category) = (Family::Copy, TRANSFER_CATEGORY.to_owned());
        inventory.rows.push(copy);
        inventory.finish();
        assert_eq!((inventory.total_ns(), inventory.transfer_ns()), (200, 900));
        let coverage = inventory.coverage();
        assert!((coverage.with_shape - 0.675).abs() < 1e-12, "{coverage:?}");
        assert!((coverage.by_provenance["none"] - 0.325).abs() < 1e-12, "{coverage:?}");
        assert_eq!(inventory.rows[0].share, 0.0);
        assert_eq!(inventory.rows[1].share, 0.5);
    }

    #[test]
    fn a_generic_shape_is_covered_but_not_replayable() {
        let mut inventory = Inventory::default();
        let mut generic = shape(4, 100, Provenance::Exact);
        generic.shape = ShapeMap::new().with_list("in0", vec![16, 4]).with_list("in2_1", vec![4]);
        assert!(generic.is_generic());
        assert!(!shape(1, 1, Provenance::Exact).is_generic());
        inventory.rows.push(row("k", 100, vec![generic]));
        inventory.finish();
        let coverage = inventory.coverage();
        assert_eq!((coverage.with_shape, coverage.replayable), (1.0, 0.0));
    }

    #[test]
    fn shapes_without_time_are_weighed_by_calls() {
        let row = row("k", 100, vec![shape(1, 0, Provenance::Given), shape(3, 0, Provenance::Given)]);
        assert_eq!(row.shape_weights(), [0.25, 0.75]);
    }
}
