//! What runs cases. A device prepares a case (memory, build, rotation sets), verifies it and launches it; everything
//! above, the protocol included, is the same for every kind.

mod builds;
pub mod gpu;
pub mod host;
mod outputs;
mod rotation;
mod runtime_build;
mod spec;

pub use spec::{DEFAULT_MODEL, DeviceSpec};

use crate::measure::{Cache, Launcher};
pub use kbench_system::Summary as Telemetry;
use kbench_workload::{Fp8Flavor, Verification, Work, Workload};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The kind of a device. Only on [`Kind::Hip`] and [`Kind::Host`] is time a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A real AMD GPU.
    Hip,
    /// The emulated GPU.
    Emu,
    /// This machine's CPU, running the references.
    Host,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Kind.
    pub kind: Kind,
    /// Marketing name or CPU model.
    pub name: String,
    /// `gfx942`, or the CPU's architecture and widest vector unit in use.
    pub arch: String,
    /// Compute units, or threads used.
    pub units: u64,
    /// Last-level cache in bytes (the whole device's); `None` when it could not be found out.
    pub llc_bytes: Option<u64>,
    /// Its fp8.
    pub fp8: Fp8Flavor,
    /// An emulated device's clock follows a script (tests of the measuring): its times are of that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scripted: bool,
}

impl DeviceInfo {
    /// Whether launches take a time that is reported: not on an emulated device, unless its clock is scripted.
    pub fn is_timed(&self) -> bool {
        self.kind != Kind::Emu || self.scripted
    }
}

/// A device's peaks and where they come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Streaming bandwidth by working set, smallest set first; the last entry is main memory.
    pub bandwidth: Vec<Bandwidth>,
    /// FLOP/s by the dtype of the multiplied operands, in 1e9 per second.
    pub gflops: Vec<Throughput>,
    /// `measured on …` or `datasheet`.
    pub source: String,
}

/// Streaming bandwidth with one working set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Bytes streamed over and over, all threads together.
    pub working_set_bytes: u64,
    /// The best of read, copy and triad in GB/s (1e9 bytes per second, reads and writes counted once each).
    pub gbps: f64,
}

/// Arithmetic throughput of one dtype.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Dtype name of the operands.
    pub dtype: String,
    /// 1e9 FLOP/s; a fused multiply-add is two.
    pub gflops: f64,
}

/// The time below which no build can be, and what sets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// Nanoseconds.
    pub ns: f64,
    /// `memory` or `compute`.
    pub limiter: &'static str,
    /// The bandwidth used, GB/s.
    pub gbps: f64,
    /// The throughput used for the dominant dtype, TFLOP/s; `None` without FLOPs or peak.
    pub tflops: Option<f64>,
}

impl Peaks {
    /// Main-memory bandwidth in GB/s; `None` without any figure.
    pub fn memory_gbps(&self) -> Option<f64> {
        self.bandwidth.last().map(|entry| entry.gbps)
    }

    /// The bandwidth that bounds a case: main memory when cold; when warm, that of the largest measured working set
    /// which is not larger than a quarter of the case's footprint, so that the bound stays a bound.
    pub fn bounding_gbps(&self, footprint_bytes: u128, cache: Cache) -> Option<f64> {
        let memory = self.memory_gbps()?;
        if cache == Cache::Cold {
            return Some(memory);
        }
        let held = self.bandwidth.iter().rev().find(|entry| u128::from(entry.working_set_bytes) * 4 <= footprint_bytes);
        let fastest = self.bandwidth.iter().map(|entry| entry.gbps).fold(memory, f64::max);
        Some(held.map_or(fastest, |entry| entry.gbps.max(memory)))
    }

    /// Throughput of a dtype in 1e9 FLOP/s.
    pub fn gflops_of(&self, dtype: &str) -> Option<f64> {
        self.gflops.iter().find(|entry| entry.dtype == dtype).map(|entry| entry.gflops)
    }

    /// The floor of some work: the slower of moving its bytes and computing its FLOPs, each at peak. `None` when there
    /// is no bandwidth figure, or a dtype has no peak: then percent-of-peak is refused rather than guessed.
    pub fn floor(&self, work: &Work, cache: Cache) -> Option<Floor> {
        let gbps = self.bounding_gbps(work.total_bytes(), cache)?;
        let memory_ns = work.total_bytes() as f64 / gbps;
        let mut compute_ns = 0.0;
        let mut dominant: Option<(u128, f64)> = None;
        for (dtype, flops) in &work.flops {
            let gflops = self.gflops_of(dtype.name())?;
            compute_ns += *flops as f64 / gflops;
            if dominant.is_none_or(|(most, _)| *flops > most) {
                dominant = Some((*flops, gflops));
            }
        }
        let (ns, limiter) = if compute_ns > memory_ns { (compute_ns, "compute") } else { (memory_ns, "memory") };
        Some(Floor { ns, limiter, gbps, tflops: dominant.map(|(_, gflops)| gflops / 1e3) })
    }
}

/// Why a device could not do something. None of these ends the run: they cost the case.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The case needs more memory than there is.
    #[error(
        "{} ({needed_bytes} B are needed, {available_bytes} B are said to be available)",
        if u128::from(*available_bytes) < *needed_bytes { "there is not enough memory" } else { "the device refused an allocation" }
    )]
    OutOfMemory {
        /// Bytes that one set of tensors and its scratch need.
        needed_bytes: u128,
        /// Bytes the device can give.
        available_bytes: u64,
    },
    /// There is nothing that could run the case on this device.
    #[error("{0}")]
    NoBuild(String),
    /// A launch outside of measuring did not come back.
    #[error("the launch did not end within {} s", after_ns / 1_000_000_000)]
    Hung {
        /// The time allowed, ns.
        after_ns: u64,
    },
    /// Anything the device or its driver reports.
    #[error("{0}")]
    Failed(String),
}

/// Which build of a kernel ran.
#[derive(Clone, Debug, Serialize)]
pub struct Build {
    /// `builtin`, `prebuilt` or `file`.
    pub origin: &'static str,
    /// The file or module it comes from.
    pub file: String,
    /// Architecture it is built for.
    pub arch: String,
    /// SHA-256 of the code object; absent for the CPU references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The kernels that a run of the case launches, in their order, without those that only set up; none for the CPU references.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// What its kernels take; absent for the CPU references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// What the launches of a case take: of each resource the most that one of them does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Vector registers of a work-item, AGPRs included where the register file is unified.
    pub vgprs: u32,
    /// Of those, accumulation registers.
    pub agprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// LDS of a workgroup, dynamic LDS included, bytes.
    pub lds_bytes: u32,
    /// Scratch of a work-item, bytes.
    pub scratch_bytes: u32,
}

impl Resources {
    /// The larger of each.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self {
            vgprs: self.vgprs.max(other.vgprs),
            agprs: self.agprs.max(other.agprs),
            sgprs: self.sgprs.max(other.sgprs),
            lds_bytes: self.lds_bytes.max(other.lds_bytes),
            scratch_bytes: self.scratch_bytes.max(other.scratch_bytes),
        }
    }
}

/// A device that cases can be prepared on.
pub trait Device {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Facts about the surroundings that change results (clock governor, load, memory), by name.
    fn environment(&self) -> Vec<(String, String)>;

    /// The other devices that the one asked for stands for (`hip:all`), as `--device` takes them.
    fn others(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its PCI address as HIP tells it (`0000:03:00.0`); `None` for what is no GPU. A profiler finds the device by it.
    fn pci(&self) -> Option<String> {
        None
    }

    /// True when it will not run anything any more in this process, as a GPU after a memory fault: a new process has it anew.
    fn is_spent(&self) -> bool {
        false
    }

    /// What failed since the last call of this when memory, streams and modules were given back, in sentences: no case can tell
    /// it, because a destructor returns nothing.
    fn release_errors(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its peaks: measured on first use and kept, or a table.
    ///
    /// # Errors
    /// When they can be neither read nor measured.
    fn peaks(&mut self) -> Result<Peaks, DeviceError>;

    /// Bytes that a case may use now.
    fn available_bytes(&self) -> u64;

    /// Allocates and fills a case's tensors, in as many rotation sets as the cache mode needs.
    ///
    /// # Errors
    /// When memory does not suffice for one set, or the device has no build for the case.
    fn prepare<'a>(
        &'a mut self,
        case: &'a dyn Workload,
        cache: Cache,
        seed: u64,
    ) -> Result<Box<dyn Prepared + 'a>, DeviceError>;

    /// The same in two builds, the base and the candidate that the device was opened with, both ready at once.
    ///
    /// # Errors
    /// As [`Device::prepare`]; and when the device was opened without a candidate.
    fn prepare_pair<'a>(
        &'a mut self,
        _case: &'a dyn Workload,
        _cache: Cache,
        _seed: u64,
    ) -> Result<[Box<dyn Prepared + 'a>; 2], DeviceError> {
        Err(DeviceError::Failed("the device was opened without a second build".to_owned()))
    }
}

/// A case that is ready to run.
pub trait Prepared {
    /// The build that will run.
    fn build(&self) -> Build;

    /// The cache state that this preparation really gives, and a sentence when it is not what was asked for.
    fn cache(&self) -> (Cache, Option<String>);

    /// Bytes of all rotation sets.
    fn rotation_bytes(&self) -> u128;

    /// Restores inputs from `seed`, poisons outputs, runs once and compares every output with the oracle; one
    /// verification an output, in order.
    ///
    /// # Errors
    /// When the launch fails.
    fn verify(&mut self, seed: u64) -> Result<Vec<(&'static str, Verification)>, DeviceError>;

    /// Restores what a launch may have changed, and brings the caches into the state that timed launches find: the next launch
    /// is as those are.
    ///
    /// # Errors
    /// When the device fails, or is none whose launches are counted one by one.
    fn restore(&mut self) -> Result<(), DeviceError> {
        Err(DeviceError::NoBuild("launches of this device cannot be counted".to_owned()))
    }

    /// Launches once, untimed, and waits; gives the waves of each launch of the case, where they are known.
    ///
    /// # Errors
    /// As [`Prepared::restore`].
    fn replay(&mut self) -> Result<Vec<Option<u64>>, DeviceError> {
        Err(DeviceError::NoBuild("launches of this device cannot be counted".to_owned()))
    }

    /// Clocks, power, temperatures and throttling between two moments, where the device's driver tells them.
    fn telemetry(&self, _from: Instant, _to: Instant) -> Option<Telemetry> {
        None
    }

    /// How the case says how good the build is, once it has been verified.
    fn means(&mut self) -> Means<'_>;
}

/// How a prepared case says how good its build is.
pub enum Means<'a> {
    /// By launches that the protocol times.
    Timed(&'a mut dyn Launcher),
    /// By what was executed: no time is measured.
    Emulated(&'a gpu::Emulated),
    /// Not at all: it has not run.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use kbench_workload::Dtype;

    fn peaks() -> Peaks {
        let entry = |working_set_bytes, gbps| Bandwidth { working_set_bytes, gbps };
        Peaks {
            bandwidth: vec![entry(1 << 16, 400.0), entry(1 << 22, 100.0), entry(1 << 30, 20.0)],
            gflops: vec![Throughput { dtype: "bf16".into(), gflops: 1000.0 }],
            source: "test".into(),
        }
    }

    #[test]
    fn floor_is_the_slower_of_moving_and_computing() {
        let mut work = Work { bytes_read: 1 << 30, ..Work::default() };
        let floor = peaks().floor(&work, Cache::Cold).unwrap();
        assert_eq!((floor.limiter, floor.ns), ("memory", (1_u64 << 30) as f64 / 20.0));
        work.add_flops(Dtype::Bf16, 1 << 40);
        let floor = peaks().floor(&work, Cache::Cold).unwrap();
        assert_eq!((floor.limiter, floor.ns), ("compute", (1_u64 << 40) as f64 / 1000.0));
    }

    #[test]
    fn a_dtype_without_peak_has_no_floor() {
        let mut work = Work { bytes_read: 1, ..Work::default() };
        work.add_flops(Dtype::Fp4E2m1, 1);
        assert_eq!(peaks().floor(&work, Cache::Cold), None);
    }

    #[test]
    fn warm_cases_are_bounded_by_the_cache_they_fit_in() {
        let gbps = |bytes| peaks().bounding_gbps(bytes, Cache::Warm).unwrap();
        assert_eq!(gbps(1000), 400.0);
        assert_eq!(gbps(1 << 19), 400.0);
        assert_eq!(gbps(1 << 24), 100.0);
        assert_eq!(gbps(1 << 33), 20.0);
        assert_eq!(peaks().bounding_gbps(1000, Cache::Cold), Some(20.0));
    }
}
