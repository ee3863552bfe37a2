//! The launches of a case with their functions and argument bytes, made once: a launch in the timed loop allocates nothing.

use super::hip_error;
use super::memory::CaseMemory;
use crate::device::builds::Chosen;
use crate::device::{DeviceError, Resources};
use kbench_hip::{Device, Dim3, Event, Function, HipError, Module, Stream};
use kbench_kernels::object::KernelInfo;
use kbench_kernels::plan::PlannedLaunch;
use kbench_kernels::{ObjectInfo, kernarg, validate};

/// A kernel of the sequence.
struct Step {
    function: Function,
    grid: Dim3,
    block: Dim3,
    dynamic_lds: u32,
    /// Lanes of a wave.
    wave_size: u64,
    resources: Resources,
    /// Argument bytes of each set.
    kernargs: Vec<Vec<u8>>,
}

/// The launches of a case, in order.
pub(super) struct Sequence {
    /// Run once when the data of a set are there.
    setup: Vec<Step>,
    steps: Vec<Step>,
    /// Keeps the code loaded.
    _module: Module,
}

/// The kernels of a code object.
pub(super) fn object_info(chosen: &Chosen, arch: &str) -> Result<ObjectInfo, DeviceError> {
    let failed = |error: &dyn std::fmt::Display| DeviceError::Failed(format!("{}: {error}", chosen.file));
    let images = kbench_code_object::load(chosen.bytes.clone()).map_err(|error| failed(&error))?;
    let mut objects = images.iter().filter_map(|image| image.code_object().ok());
    let object = objects.find(|object| object.arch().name() == arch);
    let object = object.ok_or_else(|| failed(&format!("it holds no code object for {arch}")))?;
    Ok(ObjectInfo::of(&object))
}

fn kernel<'a>(planned: &PlannedLaunch, info: &'a ObjectInfo, file: &str) -> Result<&'a KernelInfo, DeviceError> {
    let kernel = if planned.kernel == "*" { info.kernels.first() } else { info.kernel(&planned.kernel) };
    kernel.ok_or_else(|| DeviceError::Failed(format!("{file}: it has no kernel `{}`", planned.kernel)))
}

fn dims(sizes: [u32; 3]) -> Dim3 {
    Dim3 { x: sizes[0], y: sizes[1], z: sizes[2] }
}

impl Sequence {
    /// Loads the code and packs the arguments of every set.
    pub(super) fn new(
        device: &Device,
        chosen: &Chosen,
        info: &ObjectInfo,
        memory: &CaseMemory,
    ) -> Result<Self, DeviceError> {
        let module =
            device.load(&chosen.bytes).map_err(|error| DeviceError::Failed(format!("{}: {error}", chosen.file)))?;
        let (mut setup, mut steps) = (Vec::new(), Vec::new());
        for planned in &chosen.plan.launches {
            let kernel = kernel(planned, info, &chosen.file)?;
            let name = &kernel.resources.name;
            let size = planned.kernarg_size.unwrap_or_else(|| validate::explicit_size(planned, kernel));
            let pack = |set| {
                kernarg::pack(&planned.args, size, &memory.addresses(set))
                    .map_err(|error| DeviceError::Failed(format!("{name}: {error}")))
            };
            let step = Step {
                function: module.function(name).map_err(hip_error)?,
                grid: dims(planned.grid),
                block: dims(planned.block),
                dynamic_lds: planned.dynamic_lds,
                wave_size: kernel.resources.wave_size.max(1).into(),
                resources: Resources {
                    vgprs: kernel.resources.vgprs,
                    agprs: kernel.resources.agprs,
                    sgprs: kernel.resources.sgprs,
                    lds_bytes: kernel.resources.lds_bytes.saturating_add(planned.dynamic_lds),
                    scratch_bytes: kernel.resources.scratch_bytes,
                },
                kernargs: (0..memory.sets()).map(pack).collect::<Result<_, _>>()?,
            };
            (if planned.setup { &mut setup } else { &mut steps }).push(step);
        }
        Ok(Self { setup, steps, _module: module })
    }

    /// Waves of each launch that counts.
    pub(super) fn waves(&self) -> impl Iterator<Item = u64> {
        self.steps.iter().map(|step| {
            let product = |sizes: Dim3| u64::from(sizes.x) * u64::from(sizes.y) * u64::from(sizes.z);
            product(step.grid) * product(step.block).div_ceil(step.wave_size)
        })
    }

    /// What the launches that count take at most.
    pub(super) fn resources(&self) -> Resources {
        self.steps.iter().map(|step| step.resources).fold(Resources::default(), Resources::most)
    }

    /// Launches that count.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether sets are prepared by launches.
    pub(super) fn has_setup(&self) -> bool {
        !self.setup.is_empty()
    }

    /// Enqueues the launches that prepare a set.
    pub(super) fn enqueue_setup(&self, stream: &Stream, set: usize) -> Result<(), HipError> {
        self.setup.iter().try_for_each(|step| step.enqueue(stream, set))
    }

    /// Enqueues every launch that counts on one set.
    pub(super) fn enqueue(&self, stream: &Stream, set: usize) -> Result<(), HipError> {
        self.steps.iter().try_for_each(|step| step.enqueue(stream, set))
    }

    /// The same, each launch between its own pair of events (dispatch timestamps); there is a pair a launch.
    pub(super) fn enqueue_timed(&self, stream: &Stream, set: usize, pairs: &[(Event, Event)]) -> Result<(), HipError> {
        for (step, (start, stop)) in self.steps.iter().zip(pairs) {
            let kernarg = step.kernarg(set);
            step.function.launch_timed(stream, step.grid, step.block, step.dynamic_lds, kernarg, start, stop)?;
        }
        Ok(())
    }
}

impl Step {
    fn enqueue(&self, stream: &Stream, set: usize) -> Result<(), HipError> {
        self.function.launch(stream, self.grid, self.block, self.dynamic_lds, self.kernarg(set))
    }

    fn kernarg(&self, set: usize) -> &[u8] {
        self.kernargs.get(set).map_or(&[], Vec::as_slice)
    }
}
