//! What streams do: kernels, copies, fills and host functions, done at once and in order, with times on the virtual clock.
//!
//! # The virtual clock
//! The host has a time that calls advance by fixed costs and that waits carry to the end of what is waited for; no real time enters it,
//! so every run of a program gives the same times. A kernel starts when the host has enqueued it, its stream is free and the device's
//! compute engine is free, after a launch cost; it takes its [bound](kbench_gfx_emu::bound) with cold caches, as changed by
//! the clock script. Copies between host and device have an engine of their own.

#![allow(unsafe_code)]

use crate::error::{HipError, Result};
use crate::fault::Fault;
use crate::graph;
use crate::hooks::CLOCK_START_NS;
use crate::launch::{self, KernelLaunch};
use crate::memory::{Place, Region};
use crate::state::{Gpu, Runtime, State};
use crate::tool::{self, About};
use kbench_gfx_emu::mem::Memory;
use std::ffi::c_void;
use std::sync::{Arc, MutexGuard};

/// What the host spends on a call that enqueues something, ns.
pub(crate) const HOST_CALL_NS: u64 = 2_000;
/// What lies between a kernel's or copy's turn and its start, ns.
const LAUNCH_NS: u64 = 1_000;
/// The same between the nodes of a graph, ns.
const GRAPH_NODE_NS: u64 = 500;
/// Bytes a second between host and device: what a PCIe 5.0 link of 16 lanes carries at best, 63 GB/s, less protocol.
const HOST_LINK_BYTES_PER_SECOND: f64 = 55e9;

/// Something that a stream does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A kernel.
    Kernel(Arc<KernelLaunch>),
    /// A copy of bytes.
    Copy { to: Place, from: Place, bytes: u64 },
    /// A fill with copies of the lowest `width` bytes of `value`.
    Fill { to: Place, value: u32, width: u8, count: u64 },
    /// A call of a host function.
    Host(HostCall),
}

/// A host function with its argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostCall {
    /// Of `hipLaunchHostFunc`.
    Plain(unsafe extern "C" fn(*mut c_void), *mut c_void),
    /// Of `hipStreamAddCallback`, with the stream it was given.
    OfStream(unsafe extern "C" fn(*mut c_void, i32, *mut c_void), *mut c_void, *mut c_void),
}

// SAFETY: the caller of HIP hands the function and its data over for any thread to call.
unsafe impl Send for HostCall {}
// SAFETY: as above.
unsafe impl Sync for HostCall {}

/// When something ran, ns of the virtual clock; a clock script may put the end before the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// What a device does at the same time as another thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Compute,
    Copy,
}

/// Does work on a stream, or adds it to the graph that the stream captures. Without an interval it was not done: it was captured,
/// or waits behind a hung kernel, or faulted.
pub(crate) fn enqueue(runtime: &Runtime, stream: usize, work: Work) -> Result<Option<Interval>> {
    let call = {
        let mut state = runtime.state();
        if graph::capture(&mut state, stream, &work)? {
            return Ok(None);
        }
        state.id()
    };
    runtime.spend(HOST_CALL_NS);
    perform(runtime, stream, &work, call, LAUNCH_NS)
}

/// Does the nodes of a graph on a stream, in their order.
pub(crate) fn replay(runtime: &Runtime, stream: usize, nodes: &[Work]) -> Result {
    let call = runtime.state().id();
    runtime.spend(HOST_CALL_NS);
    for (index, work) in nodes.iter().enumerate() {
        perform(runtime, stream, work, call, if index == 0 { LAUNCH_NS } else { GRAPH_NODE_NS })?;
    }
    Ok(())
}

/// Marks a stream as busy, and ends that when dropped.
struct Turn<'r> {
    runtime: &'r Runtime,
    stream: usize,
}

impl<'r> Turn<'r> {
    /// Waits for the stream's turn; `None` when a hung kernel is before it.
    fn take(runtime: &'r Runtime, stream: usize) -> Result<Option<Self>> {
        let mut state = runtime.state();
        loop {
            let it = state.streams.get_mut(&stream).ok_or(HipError::ContextIsDestroyed)?;
            let device = it.device;
            if !it.is_running {
                it.is_running = true;
                break;
            }
            state.healthy(device)?;
            state = runtime.wait_ended(state);
        }
        let turn = Self { runtime, stream };
        let device = state.streams.get(&stream).map_or(0, |it| it.device);
        let is_hung = state.queues.get(device).is_some_and(|queue| queue.is_hung);
        let healthy = state.healthy(device);
        drop(state);
        healthy.map(|()| (!is_hung).then_some(turn))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.runtime.state().streams.get_mut(&self.stream) {
            stream.is_running = false;
        }
        self.runtime.notify_ended();
    }
}

fn perform(runtime: &Runtime, stream: usize, work: &Work, call: u64, gap_ns: u64) -> Result<Option<Interval>> {
    let Some(_turn) = Turn::take(runtime, stream)? else { return Ok(None) };
    let (device, queue) = match runtime.state().streams.get(&stream) {
        Some(stream) => (stream.device, stream.queue_id),
        None => return Err(HipError::ContextIsDestroyed),
    };
    let at = At { runtime, gpu: runtime.gpu(device)?, stream, queue, call, gap_ns };
    match work {
        Work::Kernel(kernel) => at.kernel(kernel),
        Work::Copy { to, from, bytes } => at.copy(*to, *from, *bytes),
        Work::Fill { to, value, width, count } => at.fill(*to, *value, *width, *count),
        Work::Host(function) => {
            match *function {
                // SAFETY: the program gave the function and its data for this call.
                HostCall::Plain(function, data) => unsafe { function(data) },
                // SAFETY: as above.
                HostCall::OfStream(function, stream, data) => unsafe { function(stream, 0, data) },
            }
            Ok(None)
        }
    }
}

/// Where and why something is done.
pub(crate) struct At<'r> {
    pub(crate) runtime: &'r Runtime,
    pub(crate) gpu: &'r Gpu,
    pub(crate) stream: usize,
    pub(crate) queue: u64,
    pub(crate) call: u64,
    gap_ns: u64,
}

impl At<'_> {
    fn kernel(&self, kernel: &KernelLaunch) -> Result<Option<Interval>> {
        let name = kernel.launch.kernel.as_str();
        let fault = self.runtime.state().faults.launch(name);
        match fault {
            None => launch::run(self, kernel),
            Some(Fault::LaunchFails) => Err(HipError::LaunchFailure),
            Some(Fault::Hang) => {
                if let Some(queue) = self.runtime.state().queues.get_mut(self.gpu.index) {
                    queue.is_hung = true;
                }
                Ok(None)
            }
            Some(Fault::Abort) => {
                eprintln!("rocm-emu: the process is aborted in kernel `{name}`, as ROCM_EMU_FAULT asks for");
                std::process::abort();
            }
            Some(Fault::Memory) => {
                let text = format!("memory fault in `{name}`, as ROCM_EMU_FAULT asks for");
                self.fail(HipError::IllegalAddress, text);
                Ok(None)
            }
            Some(Fault::Lost) => {
                self.fail(HipError::ContextIsDestroyed, "the device is lost, as ROCM_EMU_FAULT asks for".to_owned());
                Err(HipError::ContextIsDestroyed)
            }
        }
    }

    /// Leaves the device in a state in which every call that needs it fails.
    pub(crate) fn fail(&self, error: HipError, text: String) {
        eprintln!("rocm-emu: device {}: {text}", self.gpu.index);
        if let Some(queue) = self.runtime.state().queues.get_mut(self.gpu.index) {
            queue.error.get_or_insert(error);
            queue.fault = Some(text);
        }
    }

    /// Lets time pass for something that takes `duration_ns` on an engine.
    pub(crate) fn advance(&self, state: &mut State, engine: Engine, duration_ns: f64) -> Interval {
        let now = self.runtime.now_ns();
        let ready = state.ready_ns(self.stream).max(now);
        let Some(queue) = state.queues.get_mut(self.gpu.index) else { return Interval { start_ns: now, end_ns: now } };
        let free = match engine {
            Engine::Compute => &mut queue.compute_ns,
            Engine::Copy => &mut queue.copy_ns,
        };
        let start = ready.max(*free) + self.gap_ns;
        let shown = state.clock.show(start.saturating_sub(CLOCK_START_NS), duration_ns);
        let end = start + shown.ns;
        *free = end;
        if let Some(stream) = state.streams.get_mut(&self.stream) {
            stream.tail_ns = end;
            stream.is_skewed = shown.negative;
        }
        if shown.negative {
            Interval { start_ns: end.max(start + 1), end_ns: start }
        } else {
            Interval { start_ns: start, end_ns: end }
        }
    }

    fn copy(&self, to: Place, from: Place, bytes: u64) -> Result<Option<Interval>> {
        let on_device = matches!((to, from), (Place::Device { .. }, Place::Device { .. }));
        let announced = on_device.then(|| self.announce(About::own(true, bytes, self.gpu.index, self.queue))).flatten();
        {
            let region = Region::lock(self.runtime, to, from);
            let (target, source) = (region.pointer(to, bytes)?, region.pointer(from, bytes)?);
            // SAFETY: both ranges were just found to be that long, or are the program's own memory as it says; device memory
            // stays allocated while it is locked.
            unsafe { std::ptr::copy(source, target, bytes as usize) };
            region.written(to, bytes);
        }
        let mut state = self.runtime.state();
        let interval = if on_device {
            let ns = self.memory_ns(bytes.saturating_mul(2));
            self.advance(&mut state, Engine::Compute, ns)
        } else {
            self.advance(&mut state, Engine::Copy, bytes as f64 / HOST_LINK_BYTES_PER_SECOND * 1e9)
        };
        drop(state);
        self.complete(announced, interval);
        Ok(Some(interval))
    }

    fn fill(&self, to: Place, value: u32, width: u8, count: u64) -> Result<Option<Interval>> {
        let bytes = count.saturating_mul(width.into());
        let announced = self.announce(About::own(false, bytes, self.gpu.index, self.queue));
        {
            let region = Region::lock(self.runtime, to, to);
            let target = region.pointer(to, bytes)?;
            // SAFETY: the range was just found to be that long, and stays allocated while it is locked. Whole items of their size are
            // written, at whatever alignment.
            unsafe { fill_items(target, value, width, count as usize) };
            region.written(to, bytes);
        }
        let ns = self.memory_ns(bytes);
        let interval = self.advance(&mut self.runtime.state(), Engine::Compute, ns);
        self.complete(announced, interval);
        Ok(Some(interval))
    }

    /// What the device's memory needs at peak for so many bytes, ns.
    fn memory_ns(&self, bytes: u64) -> f64 {
        let rate = self.gpu.model.hbm_bytes_per_second.as_ref().map_or(1e12, |rate| rate.value);
        bytes as f64 / rate * 1e9
    }

    /// Numbers a dispatch of the runtime's own and tells the profiler of it.
    fn announce(&self, about: About<'_>) -> Option<tool::Announced> {
        if !tool::is_connected() {
            return None;
        }
        let dispatch_id = self.runtime.state().dispatch();
        let enqueued_ns = self.runtime.now_ns();
        tool::enqueued(&About { dispatch_id, correlation_id: self.call, enqueued_ns, ..about })
    }

    fn complete(&self, announced: Option<tool::Announced>, interval: Interval) {
        if let Some(announced) = announced {
            announced.completed(interval.start_ns, interval.end_ns, None);
        }
    }
}

impl State {
    /// Numbers a dispatch.
    pub(crate) fn dispatch(&mut self) -> u64 {
        self.dispatches += 1;
        self.dispatches
    }

    /// When all that a stream has to wait for will have run: its own work; of the default stream all blocking streams' too, and the
    /// other way round.
    pub(crate) fn ready_ns(&self, stream: usize) -> u64 {
        let Some(it) = self.streams.get(&stream) else { return 0 };
        let default = self.default_streams.get(it.device).copied();
        if default == Some(stream) {
            let blocking = self.streams.values().filter(|other| other.device == it.device && !other.is_non_blocking());
            blocking.map(|other| other.tail_ns).max().unwrap_or(0)
        } else if it.is_non_blocking() {
            it.tail_ns
        } else {
            let of_default = default.and_then(|default| self.streams.get(&default)).map_or(0, |stream| stream.tail_ns);
            it.tail_ns.max(of_default)
        }
    }
}

/// Writes `count` items of `width` bytes.
///
/// # Safety
/// `target` is valid for writes of all of them.
unsafe fn fill_items(target: *mut u8, value: u32, width: u8, count: usize) {
    // SAFETY: inside the range that the caller vouches for.
    unsafe {
        match width {
            1 => target.write_bytes(value as u8, count),
            2 => (0..count).for_each(|i| target.cast::<u16>().add(i).write_unaligned(value as u16)),
            _ => (0..count).for_each(|i| target.cast::<u32>().add(i).write_unaligned(value)),
        }
    }
}

/// A device's memory that is locked.
pub(crate) type Locked<'r> = (usize, MutexGuard<'r, Memory>);
