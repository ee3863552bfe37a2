//! What an emulated run says of a case: bound, counters, launches.

use kbench_counters::collect::Reconciliation;
use kbench_counters::metric::{ColdVerdict, Kind};
use kbench_counters::rocprofv3::Run;
use kbench_rocm_emu::report::{LaunchCounter, LaunchReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The time that a build could not beat at peak clocks, given what it executed. It is no measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoundDoc {
    /// All launches of the case together, ns.
    pub ns: f64,
    /// The resource that sets it.
    pub limiter: String,
    /// Each resource alone, ns.
    pub by_resource: BTreeMap<String, f64>,
    /// Floor over bound, 0 to 1: how good the build could be at best. Absent without a floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_over_bound: Option<f64>,
}

/// A counter or a metric: its value (none when it is invalid or unavailable), unit, kind, and why.
pub use kbench_counters::metric::Entry as CounterDoc;

/// A counter of an emulated launch.
pub(super) fn emulated(counter: &LaunchCounter) -> CounterDoc {
    CounterDoc {
        value: Some(counter.value),
        unit: counter.unit.clone(),
        kind: match counter.kind.as_str() {
            "exact" => Kind::Exact,
            "derived" => Kind::Derived,
            _ => Kind::Model,
        },
        reason: None,
        cross_pass: false,
        suspicious: None,
        formula: None,
        passes: Vec::new(),
        launches: None,
    }
}

/// How counters were collected through rocprofiler-sdk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountingDoc {
    /// Why nothing was collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Counters of each pass.
    pub passes: Vec<Vec<String>>,
    /// The SDK agreed to every pass.
    pub confirmed: bool,
    /// Launches against records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconciliation: Option<Reconciliation>,
    /// What is missing or doubtful, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
    /// Median duration of the counted launches, which run one by one, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_ns: Option<f64>,
    /// Whether a case that was to be cold was, by what its launches read from the fabric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<ColdVerdict>,
    /// The dispatches on their way to rocprofv3's files; never in a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<Box<Run>>,
}

/// How much of a grid ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledDoc {
    /// Workgroups that ran.
    pub ran: u64,
    /// Workgroups of the grid.
    pub workgroups: u64,
}

/// One launch of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchDoc {
    /// Kernel.
    pub kernel: String,
    /// Workgroups.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// LDS of a workgroup, bytes, dynamic LDS included.
    pub lds_bytes: u32,
    /// VGPRs, AGPRs and SGPRs of a wave; scratch bytes of a work-item.
    pub resources: BTreeMap<String, u32>,
    /// Waves on a SIMD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves_per_simd: Option<f64>,
    /// Its own bound, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<f64>,
    /// What sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<String>,
    /// There when a sample of the workgroups ran: counters and bound are scaled from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledDoc>,
    /// Wave instructions executed.
    pub instructions: u64,
    /// Wave instructions by mnemonic, most executed first: at most 64 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<(String, u64)>,
    /// Executed operations whose results may differ from hardware's bits, and how.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_exact: BTreeMap<String, String>,
    /// Findings: what a kernel did that hardware lets pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl From<&LaunchReport> for LaunchDoc {
    fn from(launch: &LaunchReport) -> Self {
        let resources = [
            ("vgprs", launch.resources.vgprs),
            ("agprs", launch.resources.agprs),
            ("sgprs", launch.resources.sgprs),
            ("scratch_bytes", launch.resources.scratch_bytes),
        ];
        Self {
            kernel: launch.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            lds_bytes: launch.lds_bytes,
            resources: resources.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            waves_per_simd: launch.waves_per_simd,
            bound_ns: launch.bound.as_ref().map(|bound| bound.ns),
            limiter: launch.bound.as_ref().map(|bound| bound.limiter.clone()),
            sampled: launch.sampled.map(|sampled| SampledDoc { ran: sampled.ran, workgroups: sampled.workgroups }),
            instructions: launch.instructions,
            mix: launch.mix.clone(),
            not_exact: launch.not_exact.clone(),
            findings: launch.findings.clone(),
        }
    }
}
