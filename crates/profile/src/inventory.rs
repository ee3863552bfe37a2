//! What a profile holds: kernels, their time, their shapes, and how each shape became known.

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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
}

impl Inventory {
    /// Kernel time of all rows, ns.
    pub fn total_ns(&self) -> u128 {
        self.rows.iter().map(|row| u128::from(row.total_ns)).sum()
    }

    /// Adds a finding.
    pub fn note(&mut self, severity: Severity, code: &str, message: impl Into<String>) {
        self.health.push(Finding { code: code.to_owned(), severity, message: message.into() });
    }

    /// Sorts rows by time, fills shares and row provenances. Readers call it last.
    pub fn finish(&mut self) {
        let total = self.total_ns() as f64;
        for row in &mut self.rows {
            row.share = if total > 0.0 { row.total_ns as f64 / total } else { 0.0 };
            row.provenance = row.shapes.iter().map(|used| used.provenance).max().unwrap_or(Provenance::None);
            row.shapes.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then(b.calls.cmp(&a.calls)));
        }
        self.rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.kernel.cmp(&b.kernel)));
    }

    /// Coverage of kernel time by shapes. A row's time is split over its shapes by their time, or by their calls when
    /// no time is known per shape.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        let total = self.total_ns() as f64;
        if total <= 0.0 {
            return coverage;
        }
        for row in &self.rows {
            let share = row.total_ns as f64 / total;
            let weights = row.shape_weights();
            if weights.is_empty() {
                *coverage.by_provenance.entry(Provenance::None.name().to_owned()).or_default() += share;
                continue;
            }
            coverage.with_shape += share;
            if row.family.is_replayable() {
                coverage.replayable += share;
            }
            for (used, weight) in row.shapes.iter().zip(weights) {
                *coverage.by_provenance.entry(used.provenance.name().to_owned()).or_default() += share * weight;
            }
        }
        coverage
    }
}

impl Row {
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
    fn shapes_without_time_are_weighed_by_calls() {
        let row = row("k", 100, vec![shape(1, 0, Provenance::Given), shape(3, 0, Provenance::Given)]);
        assert_eq!(row.shape_weights(), [0.25, 0.75]);
    }
}
