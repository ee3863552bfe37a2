//! A case on a GPU: its memory in rotation sets, its launches, their times, and its outputs compared with the reference.

use super::emulator::Emulator;
use super::launcher::Timer;
use super::memory::{CaseMemory, set_bytes};
use super::sequence::{Sequence, object_info};
use super::{Emulated, Gpu, hip_error};
use crate::device::builds::Chosen;
use crate::device::rotation::rotation;
use crate::device::{Build, DeviceError, Means, Prepared, Telemetry, outputs};
use crate::measure::{Batch, Cache, LaunchError, Launcher, TimeSource};
use kbench_system::Sampler;
use kbench_workload::{Role, TensorSet, Verification, Workload};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The last-level cache taken where a device's is not known: the largest there is (MI300X).
const ASSUMED_LLC_BYTES: u64 = 256 << 20;
/// A first launch that has not ended by then hangs: an emulated one takes minutes where a real one takes milliseconds.
const FIRST_LIMIT: Duration = Duration::from_secs(30);
const EMULATED_LIMIT: Duration = Duration::from_secs(300);

/// A case ready to run.
pub(super) struct GpuPrepared<'a> {
    case: &'a dyn Workload,
    chosen: Chosen,
    arch: String,
    memory: CaseMemory,
    sequence: Sequence,
    timer: Timer,
    cache: (Cache, Option<String>),
    emulator: Option<&'a Emulator>,
    timed: bool,
    sampler: Option<&'a Sampler>,
    /// Workgroups to emulate of each launch that counts, when not all.
    sample: Option<u64>,
    /// The host's copy of a set, and the seed whose untouched data it holds.
    tensors: TensorSet,
    filled: Option<u64>,
    emulated: Option<Emulated>,
}

impl<'a> GpuPrepared<'a> {
    /// Allocates the sets (or shares those of the build that it is compared with), fills them from `seed`, and loads the code.
    pub(super) fn new(
        gpu: &'a Gpu,
        case: &'a dyn Workload,
        chosen: Chosen,
        cache: Cache,
        seed: u64,
        beside: Option<&GpuPrepared<'_>>,
    ) -> Result<Self, DeviceError> {
        let specs = case.tensors();
        let bytes = set_bytes(&specs, &chosen.plan.buffers);
        let available = gpu.free_bytes()?;
        let timed = gpu.info.is_timed();
        // Nothing is timed on an emulated device, so there is nothing to keep cold.
        let llc = gpu.info.llc_bytes.unwrap_or(ASSUMED_LLC_BYTES);
        let (sets, granted) = rotation(bytes, if timed { cache } else { Cache::Warm }, llc, available)?;
        let cache = if timed { granted } else { (cache, None) };
        let out_of_memory = || DeviceError::Failed(format!("the host lacks the {bytes} B of memory to make the data"));
        let mut tensors = TensorSet::zeroed(&specs).ok_or_else(out_of_memory)?;
        case.fill(seed, &mut tensors);
        let (memory, cache) = match beside {
            Some(other) => (other.memory.beside(&gpu.device, &chosen.plan.buffers)?, other.cache.clone()),
            None => allocate(gpu, &specs, &chosen, sets, cache)?,
        };
        let info = object_info(&chosen, &gpu.info.arch)?;
        let sequence = Sequence::new(&gpu.device, &chosen, &info, &memory)?;
        let probe = if gpu.emulator.is_none() { gpu.probe() } else { None };
        let timer = Timer::new(&gpu.device, sequence.len(), probe, gpu.options.flush_icache).map_err(hip_error)?;
        let prepared = Self {
            case,
            arch: gpu.info.arch.clone(),
            sample: gpu.sample_of(case),
            emulator: gpu.emulator.as_ref(),
            timed,
            sampler: gpu.sampler.as_ref(),
            chosen,
            memory,
            sequence,
            timer,
            cache,
            tensors,
            filled: Some(seed),
            emulated: None,
        };
        prepared.memory.load(0, &prepared.tensors)?;
        prepared.memory.replicate()?;
        for set in 0..prepared.memory.sets() {
            prepared.set_up(set)?;
        }
        Ok(prepared)
    }

    /// Runs the launches that prepare a set, where the case has any: there may be thousands of sets.
    fn set_up(&self, set: usize) -> Result<(), DeviceError> {
        if !self.sequence.has_setup() {
            return Ok(());
        }
        self.sequence.enqueue_setup(self.timer.stream(), set).map_err(hip_error)?;
        self.wait()
    }

    fn wait(&self) -> Result<(), DeviceError> {
        let limit = if self.emulator.is_some() { EMULATED_LIMIT } else { FIRST_LIMIT };
        self.timer.wait(limit).map_err(|error| match error {
            LaunchError::Hung { after_ns } => DeviceError::Hung { after_ns },
            LaunchError::Failed(reason) => DeviceError::Failed(self.with_fault(reason)),
        })
    }

    /// A runtime's error, and behind it what an emulated device says of the fault.
    fn with_fault(&self, reason: String) -> String {
        match self.emulator.and_then(Emulator::fault) {
            Some(fault) => format!("{fault} ({reason})"),
            None => reason,
        }
    }

    /// A timed launch, its error with what is known of it.
    fn explained(&self, launched: Result<f64, LaunchError>) -> Result<f64, LaunchError> {
        launched.map_err(|error| match error {
            LaunchError::Failed(reason) => LaunchError::Failed(self.with_fault(reason)),
            hung => hung,
        })
    }

    /// Runs the launches that count once on a set, untimed; an emulated device runs its sample of them and reports of them alone.
    fn launch_untimed(&self, set: usize) -> Result<(), DeviceError> {
        if let Some(emulator) = self.emulator {
            emulator.forget()?;
            emulator.sample(self.sample)?;
        }
        let enqueued = self.sequence.enqueue(self.timer.stream(), set);
        enqueued.map_err(|error| DeviceError::Failed(self.with_fault(error.to_string())))?;
        self.wait()?;
        self.emulator.map_or(Ok(()), |emulator| emulator.sample(None))
    }

    /// Runs the launches once on a set; on an emulated device, also takes what it tells of them.
    fn run_once(&mut self, set: usize) -> Result<bool, DeviceError> {
        self.memory.zero(set)?;
        self.launch_untimed(set)?;
        let Some(emulator) = self.emulator else {
            if !self.timed {
                self.emulated = Some(Emulated::untold());
            }
            return Ok(false);
        };
        let reports = emulator.reports()?;
        let sampled = reports.iter().any(|report| report.sampled.is_some());
        self.emulated = Some(Emulated::of(reports));
        Ok(sampled)
    }
}

/// Allocates as many sets as there is memory for: what a driver says is free may not be.
fn allocate(
    gpu: &Gpu,
    specs: &[kbench_workload::TensorSpec],
    chosen: &Chosen,
    sets: usize,
    cache: (Cache, Option<String>),
) -> Result<(CaseMemory, (Cache, Option<String>)), DeviceError> {
    match CaseMemory::new(&gpu.device, specs, &chosen.plan.buffers, sets) {
        Err(DeviceError::OutOfMemory { needed_bytes, .. }) if sets > 1 => {
            let memory = CaseMemory::new(&gpu.device, specs, &chosen.plan.buffers, 1)?;
            let note = format!("measured warm: a cold run needs {needed_bytes} B, and the device ran out of memory");
            Ok((memory, (Cache::Warm, Some(note))))
        }
        other => other.map(|memory| (memory, cache)),
    }
}

impl Prepared for GpuPrepared<'_> {
    fn build(&self) -> Build {
        let launched = self.chosen.plan.launches.iter().filter(|launch| !launch.setup);
        Build {
            origin: self.chosen.origin,
            file: format!("{} ({})", self.chosen.file, self.chosen.plan.build),
            arch: self.arch.clone(),
            sha256: Some(self.chosen.sha256.clone()),
            kernels: launched.map(|launch| launch.kernel.clone()).collect(),
            resources: Some(self.sequence.resources()),
        }
    }

    fn cache(&self) -> (Cache, Option<String>) {
        self.cache.clone()
    }

    fn rotation_bytes(&self) -> u128 {
        self.memory.total_bytes()
    }

    fn verify(&mut self, seed: u64) -> Result<Vec<(&'static str, Verification)>, DeviceError> {
        // The last set: on a cold rotation it is the one whose data has waited longest.
        let set = self.memory.sets() - 1;
        if self.filled.replace(seed) != Some(seed) {
            self.case.fill(seed, &mut self.tensors);
        }
        let mut before = self.tensors.clone();
        for tensor in before.tensors.iter_mut().filter(|tensor| tensor.spec.role == Role::Out) {
            tensor.bytes_mut().fill(super::memory::POISON);
        }
        self.memory.load(set, &before)?;
        self.set_up(set)?;
        let sampled = self.run_once(set)?;
        let mut after = before.clone();
        self.memory.read_outputs(set, &mut after)?;
        Ok(if sampled {
            outputs::compare_written(self.case, &before, &after, seed)
        } else {
            outputs::compare_all(self.case, before, &after)
        })
    }

    fn telemetry(&self, from: Instant, to: Instant) -> Option<Telemetry> {
        self.sampler.map(|sampler| sampler.summary(from, to))
    }

    fn restore(&mut self) -> Result<(), DeviceError> {
        let set = self.memory.sets() - 1;
        self.memory.load(set, &self.tensors)?;
        self.set_up(set)?;
        self.memory.zero(set)?;
        // Every emulated launch starts with empty caches.
        if self.emulator.is_none() {
            run_before_counting(self.cache.0, self.memory.sets()).try_for_each(|set| self.launch_untimed(set))?;
        }
        Ok(())
    }

    fn replay(&mut self) -> Result<Vec<Option<u64>>, DeviceError> {
        self.launch_untimed(self.memory.sets() - 1)?;
        // Of a sampled launch only some waves run.
        Ok(self.sequence.waves().map(|waves| self.sample.is_none().then_some(waves)).collect())
    }

    fn means(&mut self) -> Means<'_> {
        if self.timed {
            return Means::Timed(self);
        }
        match &self.emulated {
            Some(emulated) => Means::Emulated(emulated),
            // Nothing has run: the runner verifies first.
            None => Means::Nothing,
        }
    }
}

/// The sets that run before the last one is counted, as they do before it is timed: cold the others, whose data takes the place
/// of its own in the caches; warm itself.
fn run_before_counting(cache: Cache, sets: usize) -> Range<usize> {
    let last = sets.saturating_sub(1);
    match cache {
        Cache::Cold => 0..last,
        Cache::Warm => last..sets,
    }
}

impl Launcher for GpuPrepared<'_> {
    fn sets(&self) -> usize {
        self.memory.sets()
    }

    fn sets_touched(&self) -> bool {
        true
    }

    fn now_ns(&self) -> u64 {
        self.timer.now_ns()
    }

    fn launch(&mut self, set: usize) -> Result<f64, LaunchError> {
        let set = set % self.memory.sets();
        self.explained(self.timer.launch(&self.sequence, &self.memory, set))
    }

    fn source(&self) -> TimeSource {
        if self.emulator.is_some() { TimeSource::Scripted } else { self.timer.source() }
    }

    fn clock_mhz(&mut self) -> Option<f64> {
        self.timer.clock_mhz()
    }

    fn batch(&mut self, batch: Batch) -> Option<Result<f64, LaunchError>> {
        // Thousands of launches: milliseconds on a GPU, minutes in an emulator.
        if self.emulator.is_some() {
            return None;
        }
        Some(self.explained(self.timer.batch(&self.sequence, self.memory.sets(), batch)))
    }

    fn event(&mut self, set: usize) -> Option<Result<f64, LaunchError>> {
        if self.source() != TimeSource::Dispatch {
            return None;
        }
        let set = set % self.memory.sets();
        Some(self.explained(self.timer.launch_between_events(&self.sequence, &self.memory, set)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_sets_are_in_the_state_of_timed_ones() {
        assert_eq!(run_before_counting(Cache::Cold, 5), 0..4);
        assert_eq!(run_before_counting(Cache::Cold, 1), 0..0);
        assert_eq!(run_before_counting(Cache::Warm, 5), 4..5);
    }
}
