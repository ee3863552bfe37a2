//! Launches: geometry and arguments as HIP checks them, then the kernel itself.

#![allow(unsafe_code)]

use crate::device::MAX_BLOCK;
use crate::error::{HipError, Result};
use crate::event;
use crate::module::{Function, function};
use crate::report::{LaunchReport, Ran};
use crate::state::{Runtime, runtime};
use crate::stream::resolve;
use crate::tool::{self, About};
use crate::work::{At, Engine, Interval, Work, enqueue};
use kbench_code_object::{Kernel, ValueKind};
use kbench_gfx_emu::bound::{CacheState, bound};
use kbench_gfx_emu::counters::Counters;
use kbench_gfx_emu::fault::FaultKind;
use kbench_gfx_emu::launch::{Launch, LaunchError, Options, launch};
use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

// Words of `extra`.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;
const END: usize = 3;
/// Virtual ns an instruction of the busiest workgroup, on devices whose bound cannot be told.
const UNKNOWN_NS_PER_STEP: f64 = 1.0;

/// A launch that has been checked.
#[derive(Debug)]
pub(crate) struct KernelLaunch {
    function: Function,
    pub(crate) launch: Launch,
}

/// What a launch call is given, with the grid in workgroups.
struct Request {
    function: *mut c_void,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_lds: usize,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
}

#[expect(clippy::too_many_arguments, reason = "the C interface")]
pub(crate) unsafe fn module_launch(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_lds: c_uint,
    stream: *mut c_void,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let request = Request { function, grid, block, dynamic_lds: dynamic_lds as usize, params, extra };
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    // SAFETY: the caller's arguments, as HIP describes them.
    let work = unsafe { prepare(runtime, key, &request)? };
    enqueue(runtime, key, Work::Kernel(Arc::new(work))).map(|_| ())
}

#[expect(clippy::too_many_arguments, reason = "the C interface")]
pub(crate) unsafe fn ext_module_launch(
    function: *mut c_void,
    items_x: u32,
    items_y: u32,
    items_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    dynamic_lds: usize,
    stream: *mut c_void,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    start: *mut c_void,
    stop: *mut c_void,
    _flags: u32,
) -> Result {
    let (items, block) = ([items_x, items_y, items_z], [block_x, block_y, block_z]);
    let mut grid = [0; 3];
    for ((groups, items), block) in grid.iter_mut().zip(items).zip(block) {
        if items.checked_rem(block).is_some_and(|rest| rest != 0) {
            eprintln!(
                "rocm-emu: a grid of {items} work-items is no whole number of workgroups of {block}: not emulated"
            );
            return Err(HipError::NotSupported);
        }
        *groups = items.checked_div(block).unwrap_or(items);
    }
    let request = Request { function, grid, block, dynamic_lds, params, extra };
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    for event in [start, stop].into_iter().filter(|event| !event.is_null()) {
        event::get(&runtime.state(), event)?;
    }
    // SAFETY: the caller's arguments, as HIP describes them.
    let work = unsafe { prepare(runtime, key, &request)? };
    let interval = enqueue(runtime, key, Work::Kernel(Arc::new(work)))?;
    event::bracket(runtime, key, [start, stop], interval)
}

/// Checks a launch and packs its arguments.
///
/// # Safety
/// `params` or `extra` are as HIP describes them for the function.
unsafe fn prepare(runtime: &Runtime, key: usize, request: &Request) -> Result<KernelLaunch> {
    if request.function.is_null() {
        return Err(HipError::InvalidImage);
    }
    let function = function(runtime, request.function)?;
    let device = runtime.state().streams.get(&key).map(|stream| stream.device);
    if device != Some(function.loaded.device) {
        return Err(HipError::InvalidHandle);
    }
    let lds_per_cu = runtime.gpu(function.loaded.device)?.info.lds_bytes;
    let kernel = function.kernel()?;
    check(kernel, request, lds_per_cu)?;
    // SAFETY: as the caller of this function says.
    let kernarg = unsafe { kernarg(kernel, request.params, request.extra)? };
    let launch = Launch {
        kernel: kernel.name.clone(),
        grid: request.grid,
        block: request.block,
        dynamic_lds: request.dynamic_lds as u32,
        kernarg,
    };
    Ok(KernelLaunch { function, launch })
}

/// The checks of the real runtime, in its order.
fn check(kernel: &Kernel, request: &Request, lds_per_cu: u32) -> Result {
    let Request { grid, block, dynamic_lds, params, extra, .. } = request;
    if (!params.is_null() && !extra.is_null()) || grid.contains(&0) {
        return Err(HipError::InvalidValue);
    }
    if block.contains(&0) {
        return Err(HipError::InvalidConfiguration);
    }
    let fits = |(grid, block): (&u32, &u32)| u64::from(*grid) * u64::from(*block) <= u64::from(u32::MAX);
    let items = block.iter().fold(1_u64, |product, size| product.saturating_mul((*size).into()));
    let lds = (*dynamic_lds as u64).saturating_add(kernel.lds_bytes.into());
    if !grid.iter().zip(block).all(fits) || lds > lds_per_cu.into() || items > MAX_BLOCK.into() {
        return Err(HipError::InvalidValue);
    }
    if params.is_null() && extra.is_null() && kernel.explicit_args().next().is_some() {
        return Err(HipError::InvalidValue);
    }
    // More work-items than `__launch_bounds__` allows.
    if items > kernel.max_workgroup.unwrap_or(MAX_BLOCK).into() { Err(HipError::LaunchFailure) } else { Ok(()) }
}

/// The argument block of a launch.
///
/// # Safety
/// `params` is null or points to a pointer for each explicit argument of the kernel; `extra` is null or a list as HIP describes
/// it.
unsafe fn kernarg(kernel: &Kernel, params: *mut *mut c_void, extra: *mut *mut c_void) -> Result<Vec<u8>> {
    if !extra.is_null() {
        // SAFETY: as the caller says.
        let given = unsafe { buffer(extra)? };
        // The runtime fills hidden arguments in itself, whatever the program's buffer holds there.
        let hidden = kernel.args.iter().filter(|arg| arg.kind.is_hidden()).map(|arg| arg.offset as usize).min();
        let keep = hidden.map_or(given.len(), |hidden| hidden.min(given.len()));
        return Ok(given.get(..keep).unwrap_or_default().to_vec());
    }
    let mut block = vec![0; kernel.explicit_kernarg_size() as usize];
    if params.is_null() {
        return Ok(block);
    }
    for (index, arg) in kernel.explicit_args().enumerate() {
        // SAFETY: the list has an entry for each explicit argument.
        let value = unsafe { params.add(index).read_unaligned() };
        if value.is_null() {
            return Err(HipError::InvalidValue);
        }
        let (offset, size) = (arg.offset as usize, arg.size as usize);
        let Some(place) = block.get_mut(offset..offset.saturating_add(size)) else { continue };
        // SAFETY: the entry points to a value of the argument's size, and so long is `place`.
        unsafe { value.cast::<u8>().copy_to_nonoverlapping(place.as_mut_ptr(), size) };
        if arg.kind == ValueKind::DynamicSharedPointer {
            // An offset into LDS; HIP programs pass a size there, which the launch has too.
            place.fill(0);
        }
    }
    Ok(block)
}

/// The buffer that `extra` names.
///
/// # Safety
/// The list is as HIP describes it: pointer and size of a buffer that can be read, in either order, then the end.
unsafe fn buffer<'b>(extra: *mut *mut c_void) -> Result<&'b [u8]> {
    let (mut start, mut size) = (std::ptr::null::<u8>(), None);
    for pair in 0..3 {
        // SAFETY: the end has not been met, so there is another word.
        let word = unsafe { extra.add(pair * 2).read_unaligned() } as usize;
        if word == END {
            break;
        }
        // SAFETY: each word but the end has a value behind it.
        let value = unsafe { extra.add(pair * 2 + 1).read_unaligned() };
        match word {
            BUFFER_POINTER => start = value.cast_const().cast(),
            // SAFETY: the value points to the size.
            BUFFER_SIZE if !value.is_null() => size = Some(unsafe { value.cast::<usize>().read_unaligned() }),
            _ => return Err(HipError::InvalidValue),
        }
    }
    let size = size.filter(|size| *size <= 1 << 20).ok_or(HipError::InvalidValue)?;
    match (start.is_null(), size) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(HipError::InvalidValue),
        // SAFETY: the program says that so many bytes are there; they are copied before the call returns.
        (false, size) => Ok(unsafe { std::slice::from_raw_parts(start, size) }),
    }
}

/// Runs a kernel to its end. Without an interval it faulted.
pub(crate) fn run(at: &At<'_>, work: &KernelLaunch) -> Result<Option<Interval>> {
    let KernelLaunch { function, launch: request } = work;
    let (runtime, gpu, loaded) = (at.runtime, at.gpu, &function.loaded);
    let kernel = function.kernel()?;
    let dispatch_id = runtime.state().dispatch();
    let announced = tool::enqueued(&About {
        dispatch_id,
        correlation_id: at.call,
        kernel_id: function.kernel_id(),
        code_object_id: loaded.code_object_id,
        device: gpu.index,
        queue: at.queue,
        name: &kernel.name,
        grid: items(request),
        workgroup: request.block,
        group_segment: kernel.lds_bytes.saturating_add(request.dynamic_lds),
        private_segment: kernel.scratch_bytes,
        enqueued_ns: runtime.now_ns(),
    });
    let options = options(at);
    let outcome = launch(&mut gpu.memory(), &loaded.module, request, &options);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return failed(at, error).map(|()| None),
    };
    let bound = bound(&outcome, gpu.model, CacheState::Cold);
    let duration_ns = match &bound {
        Ok(bound) => bound.ns,
        Err(_) => outcome.steps_per_workgroup.1 as f64 * UNKNOWN_NS_PER_STEP,
    };
    let reports = runtime.reports.load(Ordering::Relaxed);
    let wanted = reports || announced.as_ref().is_some_and(tool::Announced::wants_counters);
    let counters = wanted.then(|| Counters::of(&outcome, gpu.model));
    let report = counters.as_ref().filter(|_| reports).map(|counters| {
        let ran = Ran {
            model: gpu.model,
            module: &loaded.module,
            kernel,
            launch: request,
            outcome: &outcome,
            bound: &bound,
            counters,
        };
        LaunchReport { device: gpu.index as u32, dispatch: dispatch_id, ..LaunchReport::of(&ran) }
    });
    let interval = finish(at, duration_ns, report);
    if let Some(announced) = announced {
        announced.completed(interval.start_ns, interval.end_ns, counters.as_ref());
    }
    Ok(Some(interval))
}

/// Lets the launch's time pass and keeps its report.
fn finish(at: &At<'_>, duration_ns: f64, report: Option<LaunchReport>) -> Interval {
    let mut state = at.runtime.state();
    let interval = at.advance(&mut state, Engine::Compute, duration_ns);
    if let Some(report) = report {
        let Interval { start_ns, end_ns } = interval;
        state.untaken.push(LaunchReport { start_ns, end_ns, ..report });
    }
    interval
}

/// The grid in work-items.
fn items(launch: &Launch) -> [u32; 3] {
    let mut items = launch.grid;
    items.iter_mut().zip(launch.block).for_each(|(items, block)| *items = items.saturating_mul(block));
    items
}

fn options(at: &At<'_>) -> Options {
    let config = &at.runtime.config;
    let sample = at.runtime.sample.load(Ordering::Relaxed);
    Options {
        threads: config.threads,
        instruction_limit: config.instruction_limit,
        time_limit: config.time_limit,
        sample: (sample > 0).then_some(sample),
        ..at.gpu.model.launch_options()
    }
}

/// What a launch that did not run to its end does to its device, as far as that is not the call's own error.
fn failed(at: &At<'_>, error: LaunchError) -> Result {
    let code = match &error {
        LaunchError::NoKernel { .. } | LaunchError::Arch { .. } => return Err(HipError::InvalidDeviceFunction),
        LaunchError::Geometry(_) => return Err(HipError::InvalidValue),
        LaunchError::Memory(kbench_gfx_emu::mem::MemoryError::NotAllocated { .. }) => HipError::IllegalAddress,
        LaunchError::Memory(_) => {
            eprintln!("rocm-emu: a launch needs more memory than there is: {error}");
            return Err(HipError::OutOfMemory);
        }
        LaunchError::Fault(fault) => match fault.kind {
            FaultKind::Memory { .. } | FaultKind::Uninitialised { .. } | FaultKind::Misaligned { .. } => {
                HipError::IllegalAddress
            }
            _ => HipError::LaunchFailure,
        },
    };
    at.fail(code, error.to_string());
    Ok(())
}
