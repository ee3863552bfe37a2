//! Streams: creation, waiting, asking.

#![allow(unsafe_code)]

use crate::error::{HipError, Result};
use crate::event;
use crate::graph;
use crate::put;
use crate::state::{Runtime, State, block_forever, runtime};
use crate::work::{HostCall, Work, enqueue};
use std::ffi::{c_int, c_uint, c_void};

/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// `hipStreamLegacy`.
const LEGACY: usize = 1;
/// `hipStreamPerThread`.
const PER_THREAD: usize = 2;
/// Priorities: low, high.
const PRIORITIES: (c_int, c_int) = (1, -1);

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) device: usize,
    pub(crate) flags: c_uint,
    priority: c_int,
    /// Number of its hardware queue, for profilers.
    pub(crate) queue_id: u64,
    /// When all that it was given will have run, ns.
    pub(crate) tail_ns: u64,
    /// A thread does its work at this moment.
    pub(crate) is_running: bool,
    /// The clock script has put the next event's time stamp before the last one's.
    pub(crate) is_skewed: bool,
    /// Time stamp of the last event, ns.
    pub(crate) last_event_ns: u64,
    /// The capture that it is part of.
    pub(crate) capture: Option<u64>,
    /// Nodes that the next captured one depends on.
    pub(crate) frontier: Vec<usize>,
    /// A capture has failed on it: from then on it captures nothing, as was seen of the real runtime.
    pub(crate) is_broken: bool,
}

impl Stream {
    pub(crate) fn new(device: usize, flags: c_uint, priority: c_int, queue_id: u64) -> Self {
        Self {
            device,
            flags,
            priority,
            queue_id,
            tail_ns: 0,
            is_running: false,
            is_skewed: false,
            last_event_ns: 0,
            capture: None,
            frontier: Vec::new(),
            is_broken: false,
        }
    }

    /// True when it does not wait for the default stream, nor that for it.
    pub(crate) fn is_non_blocking(&self) -> bool {
        self.flags & NON_BLOCKING != 0
    }
}

/// The key of a stream that a caller gave: null and the two special values are streams of the current device.
pub(crate) fn resolve(runtime: &Runtime, stream: *mut c_void) -> Result<usize> {
    let device = runtime.current()?.index;
    let mut state = runtime.state();
    match stream as usize {
        0 | LEGACY => state.default_streams.get(device).copied().ok_or(HipError::InvalidDevice),
        PER_THREAD => {
            let key = (std::thread::current().id(), device);
            if let Some(handle) = state.thread_streams.get(&key) {
                return Ok(*handle);
            }
            let handle = create(&mut state, device, 0, 0);
            state.thread_streams.insert(key, handle);
            Ok(handle)
        }
        handle if state.streams.contains_key(&handle) && !state.default_streams.contains(&handle) => Ok(handle),
        _ => Err(HipError::ContextIsDestroyed),
    }
}

fn create(state: &mut State, device: usize, flags: c_uint, priority: c_int) -> usize {
    let queue_id = state.id();
    let handle = state.handle();
    state.streams.insert(handle, Stream::new(device, flags, priority, queue_id));
    handle
}

pub(crate) unsafe fn create_with_priority(out: *mut *mut c_void, flags: c_uint, priority: c_int) -> Result {
    let runtime = runtime()?;
    let device = runtime.current()?.index;
    if out.is_null() || flags & !NON_BLOCKING != 0 {
        return Err(HipError::InvalidValue);
    }
    let mut state = runtime.state();
    state.healthy(device)?;
    let handle = create(&mut state, device, flags, priority.clamp(PRIORITIES.1, PRIORITIES.0));
    // SAFETY: the caller's pointer.
    unsafe { put(out, std::ptr::without_provenance_mut(handle)) }
}

pub(crate) unsafe fn create_with_flags(out: *mut *mut c_void, flags: c_uint) -> Result {
    // SAFETY: the caller's pointer.
    unsafe { create_with_priority(out, flags, 0) }
}

pub(crate) unsafe fn create_plain(out: *mut *mut c_void) -> Result {
    // SAFETY: the caller's pointer.
    unsafe { create_with_priority(out, 0, 0) }
}

pub(crate) unsafe fn priority_range(least: *mut c_int, greatest: *mut c_int) -> Result {
    runtime()?;
    // SAFETY: the caller's pointers, either of which may be null.
    unsafe {
        if !least.is_null() {
            put(least, PRIORITIES.0)?;
        }
        if greatest.is_null() { Ok(()) } else { put(greatest, PRIORITIES.1) }
    }
}

pub(crate) unsafe fn destroy(stream: *mut c_void) -> Result {
    let runtime = runtime()?;
    if [0, LEGACY, PER_THREAD].contains(&(stream as usize)) {
        return Err(HipError::InvalidHandle);
    }
    let key = resolve(runtime, stream)?;
    let capture = runtime.state().streams.get(&key).and_then(|stream| stream.capture);
    match capture {
        Some(capture) => drop(graph::abandon(&mut runtime.state(), capture)),
        // A stream is destroyed once its work is done; what the work ended with concerns other calls.
        None => drop(wait(runtime, key)),
    }
    runtime.state().streams.remove(&key);
    Ok(())
}

/// Waits for a stream. On a hung device it never returns.
pub(crate) fn wait(runtime: &Runtime, key: usize) -> Result {
    let mut state = runtime.state();
    loop {
        let stream = state.streams.get(&key).ok_or(HipError::ContextIsDestroyed)?;
        let device = stream.device;
        state.healthy(device)?;
        if state.queues.get(device).is_some_and(|queue| queue.is_hung) {
            drop(state);
            block_forever();
        }
        let stream = state.streams.get(&key).ok_or(HipError::ContextIsDestroyed)?;
        if !stream.is_running {
            let until = state.ready_ns(key);
            runtime.wait_until(until);
            return Ok(());
        }
        state = runtime.wait_ended(state);
    }
}

/// Waits for every stream of a device.
pub(crate) fn wait_device(runtime: &Runtime, device: usize) -> Result {
    let keys: Vec<usize> = {
        let state = runtime.state();
        state.healthy(device)?;
        state.streams.iter().filter(|(_, stream)| stream.device == device).map(|(key, _)| *key).collect()
    };
    keys.into_iter().try_for_each(|key| match wait(runtime, key) {
        // Another thread has destroyed it meanwhile, when it was done.
        Err(HipError::ContextIsDestroyed) if runtime.state().healthy(device).is_ok() => Ok(()),
        other => other,
    })
}

/// Forgets the streams, events, modules and graphs of a device, and its faults.
pub(crate) fn reset(runtime: &Runtime, device: usize) {
    let mut state = runtime.state();
    let default = state.default_streams.get(device).copied();
    state.streams.retain(|key, stream| stream.device != device || Some(*key) == default);
    state.events.retain(|_, event| event.device != device);
    state.functions.retain(|_, function| function.loaded.device != device);
    let gone: Vec<usize> =
        state.modules.iter().filter(|(_, loaded)| loaded.device == device).map(|(key, _)| *key).collect();
    for key in gone {
        if let (Some(loaded), Ok(gpu)) = (state.modules.remove(&key), runtime.gpu(device)) {
            // Its memory is live: it is freed where a module is removed, and only there.
            let _ = gpu.memory().free(loaded.module.base());
        }
    }
    state.thread_streams.retain(|(_, of), _| *of != device);
    if let Some(queue) = state.queues.get_mut(device) {
        queue.error = None;
        queue.is_hung = false;
    }
}

pub(crate) unsafe fn synchronize(stream: *mut c_void) -> Result {
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    graph::forbid_on_stream(runtime, key)?;
    wait(runtime, key)
}

pub(crate) unsafe fn query(stream: *mut c_void) -> Result {
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    graph::forbid_on_stream(runtime, key)?;
    let state = runtime.state();
    let stream = state.streams.get(&key).ok_or(HipError::ContextIsDestroyed)?;
    state.healthy(stream.device)?;
    let is_hung = state.queues.get(stream.device).is_some_and(|queue| queue.is_hung);
    if is_hung || stream.is_running { Err(HipError::NotReady) } else { Ok(()) }
}

pub(crate) unsafe fn wait_event(stream: *mut c_void, event: *mut c_void, flags: c_uint) -> Result {
    let runtime = runtime()?;
    if flags > 1 {
        return Err(HipError::InvalidValue);
    }
    let key = resolve(runtime, stream)?;
    let mut state = runtime.state();
    let recorded = event::get(&state, event)?.record.clone();
    graph::wait_event(&mut state, key, &recorded)?;
    if let event::Record::Done { ns, .. } = recorded
        && let Some(stream) = state.streams.get_mut(&key)
        && stream.capture.is_none()
    {
        stream.tail_ns = stream.tail_ns.max(ns);
    }
    Ok(())
}

/// Reads something of a stream.
fn ask<T>(stream: *mut c_void, read: impl Fn(&Stream) -> T) -> Result<T> {
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    runtime.state().streams.get(&key).map(read).ok_or(HipError::ContextIsDestroyed)
}

pub(crate) unsafe fn flags(stream: *mut c_void, out: *mut c_uint) -> Result {
    let flags = ask(stream, |stream| stream.flags)?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, flags) }
}

pub(crate) unsafe fn priority(stream: *mut c_void, out: *mut c_int) -> Result {
    let priority = ask(stream, |stream| stream.priority)?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, priority) }
}

pub(crate) unsafe fn device(stream: *mut c_void, out: *mut c_int) -> Result {
    let device = ask(stream, |stream| stream.device)?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, device as c_int) }
}

/// `hipStreamCallback_t`.
pub(crate) type StreamCallback = Option<unsafe extern "C" fn(*mut c_void, c_int, *mut c_void)>;
/// `hipHostFn_t`.
pub(crate) type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

pub(crate) unsafe fn add_callback(
    stream: *mut c_void,
    function: StreamCallback,
    data: *mut c_void,
    flags: c_uint,
) -> Result {
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    let function = function.filter(|_| flags == 0).ok_or(HipError::InvalidValue)?;
    enqueue(runtime, key, Work::Host(HostCall::OfStream(function, stream, data))).map(|_| ())
}

pub(crate) unsafe fn launch_host(stream: *mut c_void, function: HostFunction, data: *mut c_void) -> Result {
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    let function = function.ok_or(HipError::InvalidValue)?;
    enqueue(runtime, key, Work::Host(HostCall::Plain(function, data))).map(|_| ())
}
