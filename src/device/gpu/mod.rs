//! A GPU driven through HIP: a real one through the system's library, or the emulated one, whose functions are those of
//! `crates/rocm-emu` (or its shared library). The code is the same; an emulated device is known by functions that no real library
//! has, and its times are no measurements.

mod emulator;
mod launcher;
mod memory;
mod open;
mod peaks;
mod prepared;
mod probe;
mod sequence;
mod summary;

use super::builds::Builds;
use super::{Device, DeviceError, DeviceInfo, Kind, Peaks, Prepared};
use crate::kernels;
use crate::measure::Cache;
use emulator::Emulator;
use kbench_gfx_emu::model::Model;
use kbench_hip::{HipError, Runtime, Version};
use kbench_kernels::Library;
use kbench_system::{Environment, Root, Sampler};
use kbench_workload::{Fp8Flavor, Workload};
use prepared::GpuPrepared;
use probe::Probe;
use std::collections::BTreeMap;
use std::time::Duration;
pub use summary::Emulated;

/// Work beyond which a sample of a launch's workgroups is emulated instead of all: about ten seconds on one core.
const SAMPLE_FLOPS: u128 = 6_000_000_000;
/// The same for bytes moved.
const SAMPLE_BYTES: u128 = 2_000_000_000;
/// Workgroups of such a sample.
const SAMPLE: u64 = 64;
/// Pause between two readings of clocks and power: firmware renews them every few milliseconds at most.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Readings that are kept: half an hour.
const READINGS: usize = 36_000;
/// The fact that says why no real GPU is driven.
pub const NO_GPU: &str = "no_gpu";
/// The variable that scripts an emulated device's clock (docs/emulated-hip.md).
const CLOCK_VARIABLE: &str = "ROCM_EMU_CLOCK";

/// How cases are run on a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct GpuOptions {
    /// Workgroups to emulate of each launch; without it the work of a case decides.
    pub sample: Option<u64>,
    /// Each timed launch fetches its instructions from memory.
    pub flush_icache: bool,
}

/// A GPU.
pub struct Gpu {
    device: kbench_hip::Device,
    info: DeviceInfo,
    builds: Builds,
    /// Clocks, power and temperatures, read in the background.
    sampler: Option<Sampler>,
    /// The builds of the other side of a comparison.
    candidate: Option<Builds>,
    model: Option<&'static Model>,
    emulator: Option<Emulator>,
    options: GpuOptions,
    /// The other devices that the one asked for stands for.
    others: Vec<String>,
    /// What else is to be known of it, by name.
    facts: Vec<(String, String)>,
}

/// A HIP error as a device's.
fn hip_error(error: HipError) -> DeviceError {
    DeviceError::Failed(error.to_string())
}

/// Reads the card's clocks, power and temperatures from sysfs; `None` where the driver does not show them.
fn sampler(device: &kbench_hip::Device) -> Option<Sampler> {
    let pci = device.pci_bus_id().ok()?.parse().ok()?;
    let telemetry = kbench_system::Telemetry::open(&Root::system(), pci).ok()?;
    Sampler::start(telemetry, READ_EVERY, READINGS).ok()
}

impl Gpu {
    /// The emulated device of a model, in this process. A process has one: the model of the first call is taken.
    ///
    /// # Errors
    /// When there is no such model, or the program's kernels cannot be read.
    pub fn emulated(model: &str, library: Option<Library>, options: GpuOptions) -> Result<Self, DeviceError> {
        let failed = |error: kbench_rocm_emu::ConfigError| DeviceError::Failed(error.to_string());
        let config = kbench_rocm_emu::Config::from_env().map_err(failed)?;
        kbench_rocm_emu::configure(kbench_rocm_emu::Config { devices: vec![model.to_owned()], ..config })
            .map_err(failed)?;
        Self::open(Runtime::from_symbols("the emulated HIP", kbench_rocm_emu::symbol), 0, library, options)
    }

    /// Opens the device of that number with the kernels of `library`, the program's own without one.
    ///
    /// # Errors
    /// When the runtime has no such device, or the program's kernels cannot be read.
    pub fn open(
        runtime: Runtime,
        ordinal: u32,
        library: Option<Library>,
        options: GpuOptions,
    ) -> Result<Self, DeviceError> {
        let library = match library {
            Some(library) => library,
            None => kernels::builtin().map_err(|error| DeviceError::Failed(error.to_string()))?,
        };
        let device = runtime.device(ordinal).map_err(hip_error)?;
        let emulator = Emulator::of(&runtime);
        let name = device.name().map_err(hip_error)?;
        let arch = device.arch().map_err(hip_error)?;
        let cus = device.compute_units().map_err(hip_error)?.unwrap_or(0);
        let model = peaks::model_of(&name, &arch, cus, device.total_memory().map_err(hip_error)?);
        // A stranger's emulator under the real library (AMD's rocjitsu is one): its times are no measurements either.
        let preloaded = Environment::current().emulators().map(|found| found.entry.clone()).next();
        let emulated = emulator.is_some() || preloaded.is_some();
        let attached = Environment::current();
        let attached = attached.profilers().map(|found| format!("{}={}", found.variable, found.entry));
        let mut facts: Vec<(String, String)> = attached.map(|what| ("profiler_attached".to_owned(), what)).collect();
        facts.extend(preloaded.map(|what| ("emulated_by".to_owned(), what)));
        let info = DeviceInfo {
            kind: if emulated { Kind::Emu } else { Kind::Hip },
            name: if emulated { format!("{name} (emulated)") } else { name },
            arch: arch.clone(),
            units: cus.into(),
            llc_bytes: model.map(Model::last_level_bytes),
            fp8: Fp8Flavor::of_arch(&arch),
            scripted: emulator.is_some() && std::env::var_os(CLOCK_VARIABLE).is_some(),
        };
        let builds = Builds::new(library, &arch, cus);
        let builds = match device.arch_with_features() {
            Ok(full) if emulator.is_none() => builds.or_compiled(full, device.runtime().clone()),
            _ => builds,
        };
        let sampler = if emulator.is_none() { sampler(&device) } else { None };
        let candidate = None;
        Ok(Self { device, info, builds, sampler, candidate, model, emulator, options, others: Vec::new(), facts })
    }

    /// Workgroups to emulate of the case's launches, when not all.
    fn sample_of(&self, case: &dyn Workload) -> Option<u64> {
        self.emulator.as_ref()?;
        let work = case.work();
        let large = work.total_flops() > SAMPLE_FLOPS || work.total_bytes() > SAMPLE_BYTES;
        self.options.sample.or(large.then_some(SAMPLE))
    }

    /// The kernels that run beside timed launches, where the device has them.
    fn probe(&self) -> Option<Probe> {
        let xccs = self.device.xccs().ok().flatten().or(self.model.map(|model| model.xcds.value)).unwrap_or(1);
        Probe::open(&self.device, &self.info.arch, xccs, self.info.units as u32)
    }

    /// Free device memory, bytes.
    fn free_bytes(&self) -> Result<u64, DeviceError> {
        self.device.mem_info().map(|(free, _)| free).map_err(hip_error)
    }
}

impl Device for Gpu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn environment(&self) -> Vec<(String, String)> {
        let runtime = self.device.runtime();
        let mut facts = self.facts.clone();
        facts.extend([
            ("hip_library".to_owned(), runtime.library().display().to_string()),
            ("kernels".to_owned(), self.builds.library.name.clone()),
        ]);
        // What a library does not tell is left out.
        let mut add = |name: &str, value: Option<String>| facts.extend(value.map(|value| (name.to_owned(), value)));
        add("hip_runtime_version", runtime.runtime_version().ok().as_ref().map(Version::to_string));
        add("hip_driver_version", runtime.driver_version().ok().as_ref().map(Version::to_string));
        add("arch", self.device.arch_with_features().ok());
        add("pci", self.device.pci_bus_id().ok());
        add("clock_khz", self.device.clock_khz().ok().flatten().map(|khz| khz.to_string()));
        add("memory_clock_khz", self.device.memory_clock_khz().ok().flatten().map(|khz| khz.to_string()));
        if self.emulator.is_some() {
            add("emulated", Some("true: no time is measured on this device".to_owned()));
        }
        if self.info.scripted {
            add("scripted_clock", std::env::var(CLOCK_VARIABLE).ok());
        }
        facts
    }

    fn is_spent(&self) -> bool {
        // Queries may still work on a device that is lost.
        self.device.alloc(1).is_err()
    }

    fn release_errors(&self) -> Vec<String> {
        let errors = self.device.runtime().take_drop_errors();
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        for error in &errors.first {
            *kinds.entry(error.to_string()).or_default() += 1;
        }
        let told = |(error, times): (String, u64)| match times {
            1 => format!("giving back what a case used failed: {error}"),
            _ => format!("giving back what a case used failed {times} times: {error}"),
        };
        let mut sentences: Vec<String> = kinds.into_iter().map(told).collect();
        let more = errors.count.saturating_sub(errors.first.len() as u64);
        sentences.extend((more > 0).then(|| format!("giving back what a case used failed {more} times more")));
        sentences
    }

    fn pci(&self) -> Option<String> {
        self.device.pci_bus_id().ok()
    }

    fn others(&self) -> Vec<String> {
        self.others.clone()
    }

    fn peaks(&mut self) -> Result<Peaks, DeviceError> {
        Ok(peaks::datasheet(self.model))
    }

    fn available_bytes(&self) -> u64 {
        self.free_bytes().unwrap_or(0)
    }

    fn prepare<'a>(
        &'a mut self,
        case: &'a dyn Workload,
        cache: Cache,
        seed: u64,
    ) -> Result<Box<dyn Prepared + 'a>, DeviceError> {
        Ok(Box::new(self.prepare_with(&self.builds, case, cache, seed, None)?))
    }

    fn prepare_pair<'a>(
        &'a mut self,
        case: &'a dyn Workload,
        cache: Cache,
        seed: u64,
    ) -> Result<[Box<dyn Prepared + 'a>; 2], DeviceError> {
        let Some(candidate) = &self.candidate else {
            return Err(DeviceError::Failed("the device was opened without a second build".to_owned()));
        };
        let base = self.prepare_with(&self.builds, case, cache, seed, None)?;
        let candidate = self.prepare_with(candidate, case, cache, seed, Some(&base))?;
        Ok([Box::new(base), Box::new(candidate)])
    }
}

impl Gpu {
    /// Adds the builds of the other side of a comparison.
    #[must_use]
    pub fn with_candidate(mut self, library: Library) -> Self {
        self.candidate = Some(Builds::new(library, &self.info.arch, self.info.units as u32));
        self
    }

    fn prepare_with<'a>(
        &'a self,
        builds: &Builds,
        case: &'a dyn Workload,
        cache: Cache,
        seed: u64,
        beside: Option<&GpuPrepared<'_>>,
    ) -> Result<GpuPrepared<'a>, DeviceError> {
        let chosen = builds.choose(case)?;
        let counted = chosen.plan.launches.iter().filter(|launch| !launch.setup).count();
        if self.sample_of(case).is_some() && counted > 1 {
            return Err(DeviceError::NoBuild(format!(
                "too large to emulate whole ({counted} launches that need each other's results; a sample of workgroups would \
                 not give right ones): choose a smaller shape, or a GPU"
            )));
        }
        GpuPrepared::new(self, case, chosen, cache, seed, beside)
    }
}
