//! This machine's CPU as a device: the references themselves, timed with the host clock against this CPU's measured
//! peaks. It needs no compiler and no GPU, and it gives real noise to try the measuring on.

mod cpu;
mod peaks;
mod prepared;

use super::{Device, DeviceError, DeviceInfo, Kind, Peaks, Prepared};
use crate::measure::Cache;
use kbench_workload::{Fp8Flavor, Workload};
use std::io;
use std::path::PathBuf;

/// The host device.
pub struct Host {
    info: DeviceInfo,
    cpu: cpu::Cpu,
    /// Where measured peaks are kept; `None` keeps nothing.
    cache_dir: Option<PathBuf>,
    /// What base and candidate of a comparison are slowed down by, as a share of the reference's time.
    slow: [f64; 2],
}

impl Host {
    /// Describes this machine. `fp8` is the flavour that `fp8` in an inventory stands for. Measured peaks are kept in
    /// `cache_dir`.
    pub fn open(fp8: Fp8Flavor, cache_dir: Option<PathBuf>) -> Self {
        let cpu = cpu::Cpu::read();
        let info = DeviceInfo {
            kind: Kind::Host,
            name: cpu.model.clone(),
            arch: format!("{} {}", std::env::consts::ARCH, peaks::vector_unit()),
            units: rayon::current_num_threads() as u64,
            llc_bytes: cpu.llc_bytes,
            fp8,
            scripted: false,
        };
        Self { info, cpu, cache_dir, slow: [0.0; 2] }
    }

    /// Measures the peaks now, whatever is kept, and keeps the result.
    ///
    /// # Errors
    /// When the result cannot be kept.
    pub fn measure_peaks(&mut self) -> Result<Peaks, DeviceError> {
        let peaks = peaks::measure(&self.info);
        self.keep(&peaks)
            .map_err(|error| DeviceError::Failed(format!("the measured peaks could not be kept: {error}")))?;
        Ok(peaks)
    }

    fn keep(&self, peaks: &Peaks) -> io::Result<()> {
        match &self.cache_dir {
            Some(dir) => peaks::keep(dir, &self.info, &self.cpu.kernel, peaks),
            None => Ok(()),
        }
    }
}

impl Device for Host {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn environment(&self) -> Vec<(String, String)> {
        self.cpu.environment()
    }

    fn peaks(&mut self) -> Result<Peaks, DeviceError> {
        let kept = self.cache_dir.as_ref().and_then(|dir| peaks::kept(dir, &self.info, &self.cpu.kernel));
        Ok(kept.unwrap_or_else(|| {
            let peaks = peaks::measure(&self.info);
            // A cache folder that cannot be written costs a few seconds next time, not this run.
            let _ = self.keep(&peaks);
            peaks
        }))
    }

    fn available_bytes(&self) -> u64 {
        cpu::available_bytes()
    }

    fn prepare<'a>(
        &'a mut self,
        case: &'a dyn Workload,
        cache: Cache,
        seed: u64,
    ) -> Result<Box<dyn Prepared + 'a>, DeviceError> {
        Ok(Box::new(self.prepare_slowed(case, cache, seed, 0.0)?))
    }

    fn prepare_pair<'a>(
        &'a mut self,
        case: &'a dyn Workload,
        cache: Cache,
        seed: u64,
    ) -> Result<[Box<dyn Prepared + 'a>; 2], DeviceError> {
        let [base, candidate] = self.slow;
        let base = self.prepare_slowed(case, cache, seed, base)?;
        let candidate = base.beside(candidate);
        Ok([Box::new(base), Box::new(candidate)])
    }
}

impl Host {
    /// The builds of the host are its references, alone or slowed down on purpose: `reference`, `reference+3%`.
    ///
    /// # Errors
    /// A sentence when a word names no such build.
    pub fn with_pair(mut self, base: &str, candidate: &str) -> Result<Self, String> {
        self.slow = [slow_down(base)?, slow_down(candidate)?];
        Ok(self)
    }

    fn prepare_slowed<'a>(
        &self,
        case: &'a dyn Workload,
        cache: Cache,
        seed: u64,
        slow: f64,
    ) -> Result<prepared::HostPrepared<'a>, DeviceError> {
        let llc = self.info.llc_bytes.unwrap_or(cpu::ASSUMED_LLC_BYTES);
        prepared::HostPrepared::new(case, &self.info, cache, llc, self.available_bytes(), seed)
            .map(|case| case.slowed(slow))
    }
}

/// The share that a host build is slowed down by.
fn slow_down(build: &str) -> Result<f64, String> {
    let unknown = || {
        format!("the host's builds are `reference` and, slowed down on purpose, such as `reference+3%`; not `{build}`")
    };
    let rest = build.strip_prefix("reference").ok_or_else(unknown)?;
    if rest.is_empty() {
        return Ok(0.0);
    }
    let percent = rest.strip_prefix('+').and_then(|rest| rest.strip_suffix('%')).ok_or_else(unknown)?;
    percent
        .parse()
        .ok()
        .filter(|percent| (0.0..=1000.0).contains(percent))
        .map(|percent: f64| percent / 100.0)
        .ok_or_else(unknown)
}
