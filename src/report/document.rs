//! The result document `kbench.run/1`: docs/formats.md and docs/run.schema.json describe it. Keys are added, never renamed.

mod launches;
mod read;
mod timing;

pub use launches::{BoundDoc, CounterDoc, CountingDoc, LaunchDoc, SampledDoc};
pub use read::{DocumentError, Schema};
pub use timing::{Achieved, ClockDoc, SourceDoc, TimingDoc, WarmupDoc, WarningDoc};

use crate::counters::{CaseCounters, KernelFilter, Request, What};
use crate::device::gpu::Emulated;
use crate::device::{Build, DeviceInfo, Floor, Resources, Telemetry};
use crate::measure::{Cache, Measurement};
use crate::plan::Planned;
use kbench_counters::ring::Summary;
use kbench_profile::{Coverage, Finding, Inventory, Phase, Provenance};
use kbench_workload::{Dtypes, Family, ShapeMap, Tolerance, Verification, Work};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The schema that documents name.
pub const SCHEMA: &str = "kbench.run/1";

/// A whole run. It reads back equal to what was written; keys that this version does not know are passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunDocument {
    /// Always [`SCHEMA`].
    pub schema: Schema,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Version.
    pub version: Cow<'static, str>,
    /// Commit it was built from.
    pub commit: Cow<'static, str>,
}

impl Tool {
    /// This build.
    pub fn this() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").into(), commit: env!("KBENCH_COMMIT").into() }
    }
}

/// Options that shape results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Seed of data, routing and schedules.
    pub seed: u64,
    /// Wanted relative half-width of the interval of the median.
    pub precision: f64,
    /// Budget of the whole run in ns.
    pub time_budget_ns: u64,
    /// Cache modes measured.
    pub cache: Vec<Cache>,
    /// The folder or descriptor of kernels given (`--kernels`); absent when those in the program ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<String>,
    /// Workgroups of each launch that were emulated (`--emu-sample`), when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emu_sample: Option<u64>,
    /// Timed launches fetched their instructions from memory (`--flush-icache`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flush_icache: bool,
    /// What was asked to be counted of each case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<CountingOptions>,
}

/// What was asked to be counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountingOptions {
    /// The set or list.
    pub counters: String,
    /// Launches that each pass took.
    pub repeats: u32,
    /// Nothing was timed (`kbench counters run`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only: bool,
    /// Only kernels in whose name this regular expression is found (rocprofv3's input files).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
    /// Not those in whose name this one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
}

impl From<&Request> for CountingOptions {
    fn from(request: &Request) -> Self {
        let counters = match &request.what {
            What::Set(name) => format!("the set {name}"),
            What::List(list) => list.clone(),
        };
        let KernelFilter { include, exclude } = request.kernels.clone();
        Self { counters, repeats: request.repeats, only: request.only_count, include, exclude }
    }
}

/// The inventory in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl Status {
    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Skipped => "skipped",
            Status::Wrong => "wrong",
            Status::Failed => "failed",
            Status::Hung => "hung",
        }
    }
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// True when it had no turn, or not a whole one (an interrupt, no time, no device left): `--resume` runs it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
    /// What the source did not say and was assumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// The device that ran it, as `--device` takes it, where several share a run (`hip:all`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Which build ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildDoc>,
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
    /// Clocks, power, temperatures and throttling while it was timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// Rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub achieved: Option<Achieved>,
    /// The time that this build could not beat on an emulated device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<BoundDoc>,
    /// Counters by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, CounterDoc>,
    /// How they were collected through rocprofiler-sdk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<CountingDoc>,
    /// The ring between the profiler and kbench, in this case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<Summary>,
    /// The launches of an emulated case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launches: Vec<LaunchDoc>,
    /// Where the time of running the case went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<Stages>,
}

/// Which build of a kernel ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildDoc {
    /// `builtin`, `prebuilt` or `file`.
    pub origin: String,
    /// The file or module it comes from.
    pub file: String,
    /// Architecture it is built for.
    pub arch: String,
    /// SHA-256 of the code object; absent for the CPU references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The kernels that a run of the case launches, in their order, without those that only set up; none for the CPU references.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// What its kernels take; absent for the CPU references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

impl BuildDoc {
    /// What tells this build from others: where it is, for what, and its hash.
    pub fn key(&self) -> String {
        format!("{}@{}#{}", self.file, self.arch, self.sha256.as_deref().unwrap_or(""))
    }
}

impl From<Build> for BuildDoc {
    fn from(build: Build) -> Self {
        let Build { origin, file, arch, sha256, kernels, resources } = build;
        Self { origin: origin.to_owned(), file, arch, sha256, kernels, resources }
    }
}

/// Where the time of running one case went, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Making and copying data.
    pub prepare_ns: u64,
    /// Both verifications, fresh data included.
    pub verify_ns: u64,
    /// Warm-up and samples.
    pub measure_ns: u64,
}

/// A case's weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WeightDoc {
    /// Calls in the profile.
    pub calls: u64,
    /// Kernel time in the profile, ns.
    pub total_ns: u64,
    /// Share of kernel time.
    pub share: f64,
    /// Phase.
    pub phase: Phase,
    /// How the shape became known.
    pub provenance: Provenance,
}

/// A verification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyDoc {
    /// True when every output was right every time.
    pub passed: bool,
    /// Times that all outputs were checked.
    pub rounds: u64,
    /// The worst output's figures.
    pub output: Cow<'static, str>,
    /// Largest absolute error.
    pub max_abs_error: f64,
    /// Largest relative error.
    pub max_rel_error: f64,
    /// Elements outside the tolerance, over all outputs.
    pub mismatches: u64,
    /// Elements compared, over all outputs.
    pub elements: u64,
    /// The worst output's tolerance.
    pub tolerance: Tolerance,
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
            output: (*output).into(),
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeaksDoc {
    /// GB/s.
    pub gbps: f64,
    /// TFLOP/s of the dominant dtype; absent when the case computes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tflops: Option<f64>,
    /// `measured on …` or `datasheet`.
    pub source: String,
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
                phase: weight.phase,
                provenance: weight.provenance,
            },
            status: Status::Skipped,
            reason: None,
            unfinished: false,
            assumed: planned.assumed.clone(),
            device: None,
            build: None,
            verify: None,
            work: None,
            floor_ns: None,
            peaks: None,
            timing: None,
            telemetry: None,
            achieved: None,
            bound: None,
            counters: BTreeMap::new(),
            counting: None,
            ring: None,
            launches: Vec::new(),
            stages: None,
        }
    }

    /// The case as skipped because it had no turn, or not a whole one.
    #[must_use]
    pub fn unfinished(self, reason: impl Into<String>) -> Self {
        Self { unfinished: true, ..self.ended(Status::Skipped, reason) }
    }

    /// The case with a status and a reason.
    #[must_use]
    pub fn ended(mut self, status: Status, reason: impl Into<String>) -> Self {
        self.status = status;
        self.reason = Some(reason.into());
        self
    }

    /// Workgroups that ran and that there are, over all launches; `None` when all ran.
    pub fn sampled(&self) -> Option<SampledDoc> {
        let sampled: Vec<SampledDoc> = self.launches.iter().filter_map(|launch| launch.sampled).collect();
        let sum = |of: fn(&SampledDoc) -> u64| sampled.iter().map(of).sum();
        (!sampled.is_empty())
            .then(|| SampledDoc { ran: sum(|sampled| sampled.ran), workgroups: sum(|sampled| sampled.workgroups) })
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
        self.counters =
            emulated.counters.iter().map(|(name, counter)| (name.clone(), launches::emulated(counter))).collect();
        self.launches = emulated.launches.iter().map(LaunchDoc::from).collect();
    }

    /// Takes over what was counted: requested counters replace what an emulated run says under the same names.
    pub fn set_counted(&mut self, counted: CaseCounters) {
        self.counters.extend(counted.entries);
        self.ring = Some(counted.ring);
        self.counting = Some(CountingDoc {
            failed: None,
            passes: counted.passes,
            confirmed: counted.confirmed,
            reconciliation: Some(counted.reconciliation),
            incomplete: counted.incomplete,
            counted_ns: counted.counted_ns,
            cold: counted.cold,
            records: counted.records.map(Box::new),
        });
    }

    /// Says why nothing was counted; everything else stays.
    pub fn set_not_counted(&mut self, reason: impl Into<String>) {
        self.counting = Some(CountingDoc { failed: Some(reason.into()), ..CountingDoc::default() });
    }

    /// Takes over a measurement, and the rates that follow from it.
    pub fn set_timing(&mut self, measured: &Measurement, cache: Cache, rotation_bytes: u128, floor: Option<&Floor>) {
        let timing = TimingDoc::new(measured, cache, rotation_bytes);
        let median_ns = timing.median_ns;
        self.timing = Some(timing);
        if let (Some(work), Some(floor)) = (&self.work, floor) {
            self.achieved = Some(Achieved {
                gbps: work.total_bytes() as f64 / median_ns,
                tflops: work.total_flops() as f64 / median_ns / 1e3,
                of_peak: floor.ns / median_ns,
                limiter: floor.limiter.into(),
            });
        }
    }
}
