//! What an emulated run says of a case: bound, counters, launches.

use crate::device::emu::{EmulatedCounter, EmulatedLaunch};
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

/// A counter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterDoc {
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// `measured`, `exact`, `model`, `derived`, `invalid` or `unavailable`.
    pub kind: String,
}

impl From<&EmulatedCounter> for CounterDoc {
    fn from(counter: &EmulatedCounter) -> Self {
        Self { value: counter.value, unit: counter.unit.clone(), kind: counter.kind.to_owned() }
    }
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
    /// Executed operations whose results may differ from hardware's bits, and how.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_exact: BTreeMap<String, String>,
    /// Findings: what a kernel did that hardware lets pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl From<&EmulatedLaunch> for LaunchDoc {
    fn from(launch: &EmulatedLaunch) -> Self {
        let owned = |(name, value): (&&str, &u32)| ((*name).to_owned(), *value);
        Self {
            kernel: launch.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            lds_bytes: launch.lds_bytes,
            resources: launch.resources.iter().map(owned).collect(),
            waves_per_simd: launch.waves_per_simd,
            bound_ns: launch.bound_ns,
            limiter: launch.limiter.clone(),
            sampled: launch.sampled.map(|sampled| SampledDoc { ran: sampled.ran, workgroups: sampled.workgroups }),
            instructions: launch.instructions,
            not_exact: launch.not_exact.iter().map(|(name, how)| (name.clone(), (*how).to_owned())).collect(),
            findings: launch.findings.clone(),
        }
    }
}
