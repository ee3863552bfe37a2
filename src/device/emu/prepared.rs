//! A case on the emulated GPU: tensors to device memory, launches in order, outputs back and compared.

use super::summary::{Emulated, Run, summarise};
use crate::device::builds::Chosen;
use crate::device::outputs;
use crate::device::{Build, DeviceError, Means, Prepared};
use crate::measure::Cache;
use kbench_gfx_emu::launch::{Launch, LaunchError, Module, Options, launch};
use kbench_gfx_emu::mem::{Memory, MemoryError};
use kbench_gfx_emu::model::Model;
use kbench_kernels::kernarg;
use kbench_kernels::plan::{Fill, PlannedBuffer, PlannedLaunch};
use kbench_kernels::{ObjectInfo, validate};
use kbench_workload::{Role, TensorSet, Verification, Workload};
use std::collections::BTreeMap;
use std::time::Duration;

/// What scratch buffers hold before a launch, where the manifest says nothing: a kernel that relies on zeros is found out.
const POISON: u8 = 0xff;
/// A launch that takes longer is given up.
const TIME_LIMIT: Duration = Duration::from_secs(240);

/// A case ready to be emulated.
pub(super) struct EmuPrepared<'a> {
    model: &'static Model,
    case: &'a dyn Workload,
    chosen: Chosen,
    cache: Cache,
    sample: Option<u64>,
    emulated: Option<Emulated>,
}

impl<'a> EmuPrepared<'a> {
    pub(super) fn new(
        model: &'static Model,
        case: &'a dyn Workload,
        chosen: Chosen,
        cache: Cache,
        sample: Option<u64>,
    ) -> Self {
        Self { model, case, chosen, cache, sample, emulated: None }
    }

    fn options(&self) -> Options {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Options { threads, time_limit: Some(TIME_LIMIT), sample: self.sample, ..self.model.launch_options() }
    }
}

/// Device memory with a case's tensors, buffers and code.
struct Loaded {
    memory: Memory,
    module: Module,
    addresses: BTreeMap<String, u64>,
}

fn memory_error(error: MemoryError) -> DeviceError {
    match error {
        MemoryError::OutOfMemory { requested, free, .. } => {
            DeviceError::OutOfMemory { needed_bytes: requested.into(), available_bytes: free }
        }
        other => DeviceError::Failed(other.to_string()),
    }
}

/// Loads the code object and puts tensors and buffers into a fresh device memory.
fn load(model: &Model, chosen: &Chosen, set: &TensorSet) -> Result<Loaded, DeviceError> {
    let mut memory = Memory::new(model.memory_bytes());
    let module = Module::load(&mut memory, model.arch(), &chosen.bytes)
        .map_err(|error| DeviceError::Failed(format!("{}: {error}", chosen.file)))?;
    let mut addresses = BTreeMap::new();
    for tensor in &set.tensors {
        let address = memory.allocate(tensor.bytes().len() as u64, tensor.spec.name).map_err(memory_error)?;
        memory.write(address, tensor.bytes()).map_err(memory_error)?;
        addresses.insert(tensor.spec.name.to_owned(), address);
    }
    for buffer in &chosen.plan.buffers {
        let address = memory.allocate(buffer.bytes, &buffer.name).map_err(memory_error)?;
        fill(&mut memory, address, buffer, &addresses)?;
        addresses.insert(buffer.name.clone(), address);
    }
    Ok(Loaded { memory, module, addresses })
}

/// The first contents of a buffer.
fn fill(
    memory: &mut Memory,
    address: u64,
    buffer: &PlannedBuffer,
    addresses: &BTreeMap<String, u64>,
) -> Result<(), DeviceError> {
    let mut outcome = Ok(());
    memory
        .with_bytes(address, buffer.bytes, |bytes| match &buffer.fill {
            _ if buffer.zero_before => bytes.fill(0),
            Fill::Uninitialised => bytes.fill(POISON),
            Fill::Pointers(names) => {
                for (place, name) in bytes.chunks_exact_mut(8).zip(names) {
                    place.copy_from_slice(&addresses.get(name).copied().unwrap_or(0).to_le_bytes());
                }
            }
            Fill::File(name) => {
                outcome =
                    Err(DeviceError::Failed(format!("buffer `{}`: reading {name} is not possible here", buffer.name)));
            }
            other => {
                other.write(bytes);
            }
        })
        .map_err(memory_error)?;
    outcome
}

/// One launch of the plan as the emulator takes it.
fn request(
    launch: &PlannedLaunch,
    info: &ObjectInfo,
    addresses: &BTreeMap<String, u64>,
) -> Result<Launch, DeviceError> {
    let failed = |text: String| DeviceError::Failed(text);
    let kernel = if launch.kernel == "*" { info.kernels.first() } else { info.kernel(&launch.kernel) };
    let kernel = kernel.ok_or_else(|| failed(format!("the code object has no kernel `{}`", launch.kernel)))?;
    let size = launch.kernarg_size.unwrap_or_else(|| validate::explicit_size(launch, kernel));
    let kernarg = kernarg::pack(&launch.args, size, addresses)
        .map_err(|error| failed(format!("{}: {error}", kernel.resources.name)))?;
    Ok(Launch {
        kernel: kernel.resources.name.clone(),
        grid: launch.grid,
        block: launch.block,
        dynamic_lds: launch.dynamic_lds,
        kernarg,
    })
}

impl Prepared for EmuPrepared<'_> {
    fn build(&self) -> Build {
        Build {
            origin: self.chosen.origin,
            file: format!("{} ({})", self.chosen.file, self.chosen.plan.build),
            arch: self.model.arch().name().to_owned(),
            sha256: Some(self.chosen.sha256.clone()),
        }
    }

    fn cache(&self) -> (Cache, Option<String>) {
        (self.cache, None)
    }

    fn rotation_bytes(&self) -> u128 {
        self.case.tensors().iter().map(|spec| spec.bytes()).sum()
    }

    fn verify(&mut self, seed: u64) -> Result<Vec<(&'static str, Verification)>, DeviceError> {
        let specs = self.case.tensors();
        let mut before = TensorSet::zeroed(&specs)
            .ok_or_else(|| DeviceError::Failed("the tensors do not fit the host's memory".to_owned()))?;
        self.case.fill(seed, &mut before);
        for tensor in before.tensors.iter_mut().filter(|tensor| tensor.spec.role == Role::Out) {
            tensor.bytes_mut().fill(POISON);
        }
        let mut loaded = load(self.model, &self.chosen, &before)?;
        let info = ObjectInfo::of(loaded.module.object());
        let options = self.options();
        let mut runs = Vec::new();
        for planned in &self.chosen.plan.launches {
            let request = request(planned, &info, &loaded.addresses)?;
            if planned.setup {
                let whole = Options { sample: None, ..self.options() };
                launch(&mut loaded.memory, &loaded.module, &request, &whole).map_err(launch_error)?;
                continue;
            }
            let outcome = launch(&mut loaded.memory, &loaded.module, &request, &options).map_err(launch_error)?;
            let kernel = loaded.module.kernel(&request.kernel).cloned();
            runs.push(Run { request, outcome, kernel });
        }
        let mut after = before.clone();
        for tensor in after.tensors.iter_mut().filter(|tensor| tensor.spec.role != Role::In) {
            let address = loaded.addresses.get(tensor.spec.name).copied().unwrap_or(0);
            loaded.memory.read(address, tensor.bytes_mut()).map_err(memory_error)?;
        }
        drop(loaded);
        self.emulated = Some(summarise(self.model, &runs));
        let sampled = runs.iter().any(|run| run.outcome.sample.is_some());
        Ok(if sampled {
            outputs::compare_written(self.case, &before, &after, seed)
        } else {
            outputs::compare_all(self.case, before, &after)
        })
    }

    fn means(&mut self) -> Means<'_> {
        match &self.emulated {
            Some(emulated) => Means::Emulated(emulated),
            // Nothing has run: the runner verifies first.
            None => Means::Nothing,
        }
    }
}

fn launch_error(error: LaunchError) -> DeviceError {
    match error {
        LaunchError::Memory(error) => memory_error(error),
        other => DeviceError::Failed(other.to_string()),
    }
}
