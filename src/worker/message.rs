//! What parent and child say to each other.
//!
//! The parent opens with [`ToChild::Open`] and the child answers [`ToParent::Hello`]. Then the parent asks for peaks and
//! hands out jobs, one at a time; the child tells each stage as it begins and ends the job with a result.

use crate::counters::{Request, Survey, Surveyed};
use crate::device::{DeviceInfo, DeviceSpec, Peaks};
use crate::measure::Progress;
use crate::plan::{Planned, Weight};
use crate::report::CaseResult;
use crate::report::document::BuildDoc;
use crate::runner::{PairResult, Settings};
use kbench_workload::{CaseOptions, Dtypes, Family, Fp8Flavor, ShapeMap, case};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Parent to child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToChild {
    /// Open a device; the first message, and only once.
    Open(Box<Open>),
    /// Read or measure the device's peaks.
    Peaks,
    /// Run a case.
    Job(Box<Job>),
    /// End the job under way as soon as possible.
    Interrupt,
    /// End.
    Stop,
}

/// Which device, and what runs on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// [`super::frame::VERSION`] of the parent.
    pub version: u32,
    /// The device as `--device` takes it.
    pub device: String,
    /// What `fp8` means on the host device.
    pub fp8: Fp8Flavor,
    /// Builds to run instead of the program's own.
    pub kernels: Option<PathBuf>,
    /// Workgroups of each launch to emulate, when not all.
    pub emu_sample: Option<u64>,
    /// The build that `kernels` is compared with, as [`crate::device::host::Host::with_pair`] and `--kernels` take it.
    pub candidate: Option<String>,
    /// Each timed launch fetches its instructions from memory.
    pub flush_icache: bool,
    /// Counters to collect of each case.
    pub counters: Option<Request>,
    /// What its counters are asked before any case.
    pub survey: Option<Survey>,
}

/// One case to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Number of the job in this run; comes back with the result.
    pub number: u64,
    /// Stable id of the case.
    pub id: String,
    /// Family.
    pub family: Family,
    /// Heaviest kernel of the profile at this shape.
    pub kernel: String,
    /// Canonical shape.
    pub shape: ShapeMap,
    /// Resolved dtypes.
    pub dtypes: Dtypes,
    /// What it stands for.
    pub weight: Weight,
    /// What was assumed of it.
    pub assumed: Vec<String>,
    /// The device's fp8.
    pub fp8: Fp8Flavor,
    /// How it is measured.
    pub settings: Settings,
    /// The peaks that its floor uses.
    pub peaks: Peaks,
    /// Builds ([`BuildDoc::key`]) that are not to be launched: quarantined ones.
    pub avoid: Vec<String>,
}

impl Job {
    /// A job for a planned case.
    pub fn new(number: u64, planned: &Planned, fp8: Fp8Flavor, settings: Settings, peaks: Peaks) -> Self {
        Self {
            number,
            id: planned.id.clone(),
            family: planned.family,
            kernel: planned.kernel.clone(),
            shape: planned.shape.clone(),
            dtypes: planned.dtypes.clone(),
            weight: planned.weight.clone(),
            assumed: planned.assumed.clone(),
            fp8,
            settings,
            peaks,
            avoid: Vec::new(),
        }
    }

    /// The case, built again from its canonical shape.
    pub fn planned(&self) -> Planned {
        let options = CaseOptions { fp8: self.fp8, seed: self.settings.seed };
        Planned {
            id: self.id.clone(),
            family: self.family,
            kernel: self.kernel.clone(),
            shape: self.shape.clone(),
            dtypes: self.dtypes.clone(),
            weight: self.weight.clone(),
            assumed: self.assumed.clone(),
            workload: case(self.family, &self.shape, &self.dtypes, options).map_err(|error| error.to_string()),
        }
    }
}

/// Child to parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToParent {
    /// The device is open.
    Hello(Box<Hello>),
    /// The device cannot be opened, or has no peaks.
    Refused(Refused),
    /// Its peaks.
    Peaks(Peaks),
    /// The job under way has come to a stage.
    Stage(Notice),
    /// The job has ended.
    Result(Box<Finished>),
    /// The job's build is one to be avoided: nothing was launched.
    Avoided {
        /// The job.
        number: u64,
        /// The build.
        build: BuildDoc,
    },
}

/// What was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`super::frame::VERSION`] of the child.
    pub version: u32,
    /// The device.
    pub info: DeviceInfo,
    /// Facts about the surroundings that change results, by name.
    pub environment: BTreeMap<String, String>,
    /// The other devices that the one asked for stands for (`hip:all`), as `--device` takes them: one child each.
    pub others: Vec<String>,
    /// The answer to [`Open::survey`].
    pub surveyed: Option<Box<Surveyed>>,
}

/// Why nothing could be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// True for a mistake of the user (exit 2), false for the device's or a tool's failure (exit 5).
    pub usage: bool,
    /// One paragraph.
    pub message: String,
}

/// A case that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finished {
    /// The job.
    pub number: u64,
    /// What came of it.
    pub case: CaseResult,
    /// The candidate's side, when two builds ran in turn.
    #[serde(default)]
    pub pair: Option<PairResult>,
    /// The device does not run anything any more in this process: the child wants to be replaced.
    #[serde(default)]
    pub spent: bool,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Notice {
    /// Tensors are made and the build is loaded.
    Prepare,
    /// The build was chosen and is ready.
    Built(BuildDoc),
    /// The outputs are checked for the first time.
    Verify,
    /// Warming up or taking samples: where it stands.
    Measure(Progress),
    /// The outputs are checked on fresh data.
    VerifyAgain,
    /// Launches are counted from now on; this is what the case has without it, should the profiler end the process.
    Count(Box<CaseResult>),
    /// A launch is replayed for a pass of counters.
    CountPass {
        /// The pass, from 0.
        pass: usize,
        /// How many there are.
        of: usize,
    },
}

/// A stage of a job, as limits know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Making tensors, choosing and loading the build.
    Prepare,
    /// Checking outputs before timing; on an emulated device the launches that count.
    Verify,
    /// Warming up.
    Warmup,
    /// Taking samples.
    Sample,
    /// Checking outputs after timing.
    VerifyAgain,
    /// Counting launches, pass by pass.
    Count,
}

impl Stage {
    /// What a case was doing, for sentences: "hung while ...".
    pub fn doing(self) -> &'static str {
        match self {
            Stage::Prepare => "it was prepared",
            Stage::Verify => "its outputs were checked before timing",
            Stage::Warmup => "it was warmed up",
            Stage::Sample => "samples were taken",
            Stage::VerifyAgain => "its outputs were checked after timing",
            Stage::Count => "its launches were counted",
        }
    }
}

impl Notice {
    /// The stage that begins or goes on.
    pub fn stage(&self) -> Stage {
        match self {
            Notice::Prepare | Notice::Built(_) => Stage::Prepare,
            Notice::Verify => Stage::Verify,
            Notice::Measure(Progress::Warmup { .. }) => Stage::Warmup,
            Notice::Measure(Progress::Sampling { .. }) => Stage::Sample,
            Notice::VerifyAgain => Stage::VerifyAgain,
            Notice::Count(_) | Notice::CountPass { .. } => Stage::Count,
        }
    }
}

impl Open {
    /// Asks for a device.
    pub fn new(device: &DeviceSpec, fp8: Fp8Flavor, kernels: Option<PathBuf>, emu_sample: Option<u64>) -> Self {
        let device = device.to_string();
        let version = super::frame::VERSION;
        Self {
            version,
            device,
            fp8,
            kernels,
            emu_sample,
            candidate: None,
            flush_icache: false,
            counters: None,
            survey: None,
        }
    }
}
