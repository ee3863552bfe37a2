//! The result document `kbench.run/1`: docs/formats.md and docs/run.schema.json describe it. Keys are added, never renamed.

use crate::device::gpu::{Emulated, EmulatedCounter, EmulatedLaunch};
use crate::device::{Build, DeviceInfo, Floor};
use crate::measure::{Cache, Measurement};
use crate::plan::Planned;
use kbench_profile::{Coverage, Finding, Inventory};
use kbench_workload::{Dtypes, Family, ShapeMap, Verification, Work};
use serde::Serialize;
use std::collections::BTreeMap;

/// The schema that documents name.
pub const SCHEMA: &str = "kbench.run/1";

/// A whole run.
#[derive(Clone, Debug, Serialize)]
pub struct RunDocument {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// What made it.
    pub tool: Tool,
    /// What ran it.
    pub device: DeviceInfo,
    /// Facts about the surroundings, by name.
    pub environment: BTreeMap<String, String>,
    /// Options that shape results.
    pub options: Options,
    /// What was replayed.
    pub inventory: InventorySummary,
    /// Cases, heaviest first.
    pub cases: Vec<CaseResult>,
    /// True when the run ended before every case had its turn.
    pub interrupted: bool,
}

/// The tool.
#[derive(Clone, Debug, Serialize)]
pub struct Tool {
    /// Version.
    pub version: &'static str,
    /// Commit it was built from.
    pub commit: &'static str,
}

impl Tool {
    /// This build.
    pub fn this() -> Self {
        Self { version: env!("CARGO_PKG_VERSION"), commit: env!("KBENCH_COMMIT") }
    }
}

/// Options that shape results.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Seed of data, routing and schedules.
    pub seed: u64,
    /// Wanted relative half-width of the interval of the median.
    pub precision: f64,
    /// Budget of the whole run in ns.
    pub time_budget_ns: u64,
    /// Cache modes measured.
    pub cache: Vec<Cache>,
}

/// The inventory in a few numbers.
#[derive(Clone, Debug, Serialize)]
pub struct InventorySummary {
    /// Files or folders.
    pub source: Vec<String>,
    /// Dialect.
    pub dialect: String,
    /// Kernels.
    pub rows: usize,
    /// Kernel time, ns.
    pub total_ns: u128,
    /// Coverage by shapes.
    pub coverage: Coverage,
    /// Health of the source.
    pub health: Vec<Finding>,
    /// Share of kernel time by family without a workload.
    pub not_replayable: BTreeMap<String, f64>,
    /// Cases that `--top` or `--coverage` left out, and their share of kernel time.
    pub left_out: LeftOut,
}

/// What a selection left out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LeftOut {
    /// Cases.
    pub cases: usize,
    /// Share of kernel time.
    pub share: f64,
}

impl InventorySummary {
    /// Sums an inventory up.
    pub fn new(inventory: &Inventory, plan: &crate::plan::Plan) -> Self {
        Self {
            source: inventory.source.paths.clone(),
            dialect: inventory.source.dialect.clone(),
            rows: inventory.rows.len(),
            total_ns: inventory.total_ns(),
            coverage: inventory.coverage(),
            health: inventory.health.clone(),
            not_replayable: plan.not_replayable.iter().map(|(family, share)| (family.to_string(), *share)).collect(),
            left_out: LeftOut { cases: plan.left_out.0, share: plan.left_out.1 },
        }
    }
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Verified and measured.
    Ok,
    /// Not run; `reason` says why.
    Skipped,
    /// It ran and its output was wrong.
    Wrong,
    /// The launch, the allocation or the measuring failed, or the time cannot be true.
    Failed,
    /// It did not come back.
    Hung,
}

/// One case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseResult {
    /// Stable name.
    pub id: String,
    /// Family.
    pub family: Family,
    /// Heaviest kernel of the profile at this shape.
    pub kernel: String,
    /// Shape.
    pub shape: ShapeMap,
    /// Dtypes.
    pub dtypes: Dtypes,
    /// What it stands for.
    pub weight: WeightDoc,
    /// How it ended.
    pub status: Status,
    /// Why it is not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the source did not say and was assumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// Which build ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Whether its output was right, before and after timing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyDoc>,
    /// Compulsory work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// The time below which no build can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_ns: Option<f64>,
    /// The peaks that the floor uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peaks: Option<PeaksDoc>,
    /// Measured times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingDoc>,
    /// Rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved: Option<Achieved>,
    /// The time that this build could not beat on an emulated device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundDoc>,
    /// Counters by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, EmulatedCounter>,
    /// The launches of an emulated case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub launches: Vec<EmulatedLaunch>,
    /// Where the time of running the case went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Stages>,
}

/// The time that a build could not beat at peak clocks, given what it executed. It is no measured time.
#[derive(Clone, Debug, Serialize)]
pub struct BoundDoc {
    /// All launches of the case together, ns.
    pub ns: f64,
    /// The resource that sets it.
    pub limiter: String,
    /// Each resource alone, ns.
    pub by_resource: BTreeMap<String, f64>,
    /// Floor over bound, 0 to 1: how good the build could be at best. Absent without a floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_over_bound: Option<f64>,
}

/// Where the time of running one case went, ns.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stages {
    /// Making and copying data.
    pub prepare_ns: u64,
    /// Both verifications, fresh data included.
    pub verify_ns: u64,
    /// Warm-up and samples.
    pub measure_ns: u64,
}

/// A case's weight.
#[derive(Clone, Debug, Serialize)]
pub struct WeightDoc {
    /// Calls in the profile.
    pub calls: u64,
    /// Kernel time in the profile, ns.
    pub total_ns: u64,
    /// Share of kernel time.
    pub share: f64,
    /// Phase.
    pub phase: &'static str,
    /// How the shape became known.
    pub provenance: &'static str,
}

/// A verification.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyDoc {
    /// True when every output was right every time.
    pub passed: bool,
    /// Times that all outputs were checked.
    pub rounds: u64,
    /// The worst output's figures.
    pub output: &'static str,
    /// Largest absolute error.
    pub max_abs_error: f64,
    /// Largest relative error.
    pub max_rel_error: f64,
    /// Elements outside the tolerance, over all outputs.
    pub mismatches: u64,
    /// Elements compared, over all outputs.
    pub elements: u64,
    /// The worst output's tolerance.
    pub tolerance: kbench_workload::Tolerance,
}

impl VerifyDoc {
    /// Sums up the outputs of one round; `None` when there was nothing to compare.
    pub fn new(outputs: &[(&'static str, Verification)]) -> Option<Self> {
        let badness = |check: &Verification| (!check.passed, check.mismatches);
        let (output, worst) = outputs
            .iter()
            .max_by(|a, b| badness(&a.1).cmp(&badness(&b.1)).then(a.1.max_abs_error.total_cmp(&b.1.max_abs_error)))?;
        Some(Self {
            passed: outputs.iter().all(|(_, check)| check.passed),
            rounds: 1,
            output,
            max_abs_error: worst.max_abs_error,
            max_rel_error: worst.max_rel_error,
            mismatches: outputs.iter().map(|(_, check)| check.mismatches).sum(),
            elements: outputs.iter().map(|(_, check)| check.elements).sum(),
            tolerance: worst.tolerance,
        })
    }

    /// Adds a later round: the worse figures stay.
    #[must_use]
    pub fn and(self, later: VerifyDoc) -> Self {
        let (passed, rounds) = (self.passed && later.passed, self.rounds + later.rounds);
        let (mismatches, elements) = (self.mismatches + later.mismatches, self.elements + later.elements);
        let later_is_worse = (!later.passed, later.max_abs_error) > (!self.passed, self.max_abs_error);
        let worse = if later_is_worse { later } else { self };
        Self { passed, rounds, mismatches, elements, ..worse }
    }
}

/// The peaks that a floor uses.
#[derive(Clone, Debug, Serialize)]
pub struct PeaksDoc {
    /// GB/s.
    pub gbps: f64,
    /// TFLOP/s of the dominant dtype; absent when the case computes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tflops: Option<f64>,
    /// `measured on …` or `datasheet`.
    pub source: String,
}

/// Times of one case.
#[derive(Clone, Debug, Serialize)]
pub struct TimingDoc {
    /// Time source: `host_clock`, `dispatch`, `graph`, `event`.
    pub source: &'static str,
    /// Cache state that the samples were taken in.
    pub cache: Cache,
    /// Bytes that the samples rotated through.
    pub rotation_bytes: u128,
    /// Number of samples.
    pub samples: usize,
    /// Median, ns.
    pub median_ns: f64,
    /// 95 % interval of the median, ns; `null` when there were too few samples for one.
    pub ci95_ns: Option<[f64; 2]>,
    /// 5th percentile, ns.
    pub p05_ns: f64,
    /// 95th percentile, ns.
    pub p95_ns: f64,
    /// Why sampling ended.
    pub stopped: &'static str,
    /// Launches before the first sample.
    pub warmup_launches: u64,
    /// Samples outside Tukey's fences: flagged, not dropped.
    pub outliers: usize,
    /// Durations that were refused as impossible (not positive or not finite).
    pub refused: usize,
    /// What may be wrong.
    pub warnings: Vec<WarningDoc>,
    /// Samples in order, ns.
    pub samples_ns: Vec<f64>,
}

/// Something that limits what a time means.
#[derive(Clone, Debug, Serialize)]
pub struct WarningDoc {
    /// Stable word.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
}

/// Rates.
#[derive(Clone, Debug, Serialize)]
pub struct Achieved {
    /// Compulsory bytes over the median, GB/s.
    pub gbps: f64,
    /// Compulsory FLOPs over the median, TFLOP/s.
    pub tflops: f64,
    /// Floor over median, 0 to 1: how near to the bound the build is.
    pub of_peak: f64,
    /// What sets the floor: `memory` or `compute`.
    pub limiter: &'static str,
}

impl CaseResult {
    /// A case before it ran.
    pub fn new(planned: &Planned) -> Self {
        let weight = &planned.weight;
        Self {
            id: planned.id.clone(),
            family: planned.family,
            kernel: planned.kernel.clone(),
            shape: planned.shape.clone(),
            dtypes: planned.dtypes.clone(),
            weight: WeightDoc {
                calls: weight.calls,
                total_ns: weight.total_ns,
                share: weight.share,
                phase: weight.phase.name(),
                provenance: weight.provenance.name(),
            },
            status: Status::Skipped,
            reason: None,
            assumed: planned.assumed.clone(),
            build: None,
            verify: None,
            work: None,
            floor_ns: None,
            peaks: None,
            timing: None,
            achieved: None,
            bound: None,
            counters: BTreeMap::new(),
            launches: Vec::new(),
            stages: None,
        }
    }

    /// The case with a status and a reason.
    #[must_use]
    pub fn ended(mut self, status: Status, reason: impl Into<String>) -> Self {
        self.status = status;
        self.reason = Some(reason.into());
        self
    }

    /// Takes over the floor and the peaks it uses.
    pub fn set_floor(&mut self, floor: &Floor, source: &str) {
        self.floor_ns = Some(floor.ns);
        self.peaks = Some(PeaksDoc { gbps: floor.gbps, tflops: floor.tflops, source: source.to_owned() });
    }

    /// Takes over what an emulated run says.
    pub fn set_emulated(&mut self, emulated: &Emulated) {
        // The floor is a bound too: it is the larger one where a sample of workgroups tells too little of the memory.
        self.bound = emulated.bound.as_ref().map(|bound| {
            let floor = self.floor_ns.filter(|floor| *floor > bound.ns);
            let ns = floor.unwrap_or(bound.ns);
            BoundDoc {
                ns,
                limiter: if floor.is_some() { "floor".to_owned() } else { bound.limiter.clone() },
                by_resource: bound.by_resource.clone(),
                floor_over_bound: self.floor_ns.filter(|_| ns > 0.0).map(|floor| floor / ns),
            }
        });
        self.counters.clone_from(&emulated.counters);
        self.launches.clone_from(&emulated.launches);
    }

    /// Takes over a measurement, and the rates that follow from it.
    pub fn set_timing(&mut self, measured: &Measurement, cache: Cache, rotation_bytes: u128, floor: Option<&Floor>) {
        let median_ns = measured.median_ns;
        self.timing = Some(TimingDoc {
            source: "host_clock",
            cache,
            rotation_bytes,
            samples: measured.samples_ns.len(),
            median_ns,
            ci95_ns: measured.ci95_ns.map(|interval| [interval.lo(), interval.hi()]),
            p05_ns: measured.p05_ns,
            p95_ns: measured.p95_ns,
            stopped: measured.stopped.name(),
            warmup_launches: measured.warmup.launches as u64,
            outliers: measured.outliers.total(),
            refused: measured.refused.total(),
            warnings: measured
                .warnings
                .iter()
                .map(|warning| WarningDoc { code: warning.code(), message: warning.to_string() })
                .collect(),
            samples_ns: measured.samples_ns.clone(),
        });
        if let (Some(work), Some(floor)) = (&self.work, floor) {
            self.achieved = Some(Achieved {
                gbps: work.total_bytes() as f64 / median_ns,
                tflops: work.total_flops() as f64 / median_ns / 1e3,
                of_peak: floor.ns / median_ns,
                limiter: floor.limiter,
            });
        }
    }
}
