//! Events: points of a stream with a time on the virtual clock.

#![allow(unsafe_code)]

use crate::error::{HipError, Result};
use crate::graph;
use crate::put;
use crate::state::{Runtime, State, block_forever, runtime};
use crate::stream::resolve;
use crate::work::Interval;
use std::ffi::{c_uint, c_void};

/// `hipEventDisableTiming`.
const DISABLE_TIMING: c_uint = 0x2;
/// `hipEventInterprocess`.
const INTERPROCESS: c_uint = 0x4;
/// Release to device, to system, no system fence: at most one of them.
const FENCES: c_uint = 0x4000_0000 | 0x8000_0000 | 0x2000_0000;
/// What the host spends on recording one, ns.
const RECORD_NS: u64 = 500;
/// How far a skewed time stamp lies before the last one, ns.
const SKEW_NS: u64 = 1_000;

/// What an event stands for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Record {
    /// It was never recorded.
    #[default]
    Never,
    /// The stream reached it, or reaches it, at this time.
    Done { ns: u64, stream: usize },
    /// A hung kernel is before it.
    Unreachable,
    /// It marks nodes of a capture.
    Captured { capture: u64, nodes: Vec<usize> },
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) device: usize,
    flags: c_uint,
    pub(crate) record: Record,
}

/// The event behind a handle.
pub(crate) fn get(state: &State, event: *mut c_void) -> Result<&Event> {
    state.events.get(&(event as usize)).ok_or(HipError::InvalidHandle)
}

pub(crate) unsafe fn create_with_flags(out: *mut *mut c_void, flags: c_uint) -> Result {
    let runtime = runtime()?;
    let device = runtime.current()?.index;
    let known = 0x1 | DISABLE_TIMING | INTERPROCESS | FENCES;
    let untimed = flags & INTERPROCESS == 0 || flags & DISABLE_TIMING != 0;
    if out.is_null() || flags & !known != 0 || (flags & FENCES).count_ones() > 1 || !untimed {
        return Err(HipError::InvalidValue);
    }
    let mut state = runtime.state();
    let handle = state.handle();
    state.events.insert(handle, Event { device, flags, record: Record::Never });
    // SAFETY: the caller's pointer.
    unsafe { put(out, std::ptr::without_provenance_mut(handle)) }
}

pub(crate) unsafe fn create(out: *mut *mut c_void) -> Result {
    // SAFETY: the caller's pointer.
    unsafe { create_with_flags(out, 0) }
}

pub(crate) unsafe fn destroy(event: *mut c_void) -> Result {
    let runtime = runtime()?;
    if event.is_null() {
        return Err(HipError::InvalidHandle);
    }
    let removed = runtime.state().events.remove(&(event as usize));
    removed.map(|_| ()).ok_or(HipError::ContextIsDestroyed)
}

pub(crate) unsafe fn record_with_flags(event: *mut c_void, stream: *mut c_void, flags: c_uint) -> Result {
    if flags > 1 {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: handles are looked up, never followed.
    unsafe { record(event, stream) }
}

pub(crate) unsafe fn record(event: *mut c_void, stream: *mut c_void) -> Result {
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    let mut state = runtime.state();
    let device = get(&state, event)?.device;
    if state.streams.get(&key).is_some_and(|stream| stream.device != device) {
        return Err(HipError::InvalidHandle);
    }
    let record = match graph::mark(&mut state, key)? {
        Some(captured) => captured,
        None => {
            state.healthy(device)?;
            let now = runtime.spend(RECORD_NS);
            stamp(&mut state, key, device, now)
        }
    };
    if let Some(event) = state.events.get_mut(&(event as usize)) {
        event.record = record;
    }
    Ok(())
}

/// The time at which a stream reaches what is recorded now.
fn stamp(state: &mut State, key: usize, device: usize, now: u64) -> Record {
    if state.queues.get(device).is_some_and(|queue| queue.is_hung) {
        return Record::Unreachable;
    }
    let ns = state.ready_ns(key).max(now);
    let Some(stream) = state.streams.get_mut(&key) else { return Record::Done { ns, stream: key } };
    stream.tail_ns = ns;
    let shown = if std::mem::take(&mut stream.is_skewed) { stream.last_event_ns.saturating_sub(SKEW_NS) } else { ns };
    stream.last_event_ns = shown;
    Record::Done { ns: shown, stream: key }
}

/// Sets the events of a launch to its start and end.
pub(crate) fn bracket(
    runtime: &Runtime,
    key: usize,
    [start, stop]: [*mut c_void; 2],
    interval: Option<Interval>,
) -> Result {
    let mut state = runtime.state();
    let device = state.streams.get(&key).map_or(0, |stream| stream.device);
    let is_hung = state.queues.get(device).is_some_and(|queue| queue.is_hung);
    let times = interval.map_or([0; 2], |interval| [interval.start_ns, interval.end_ns]);
    for (event, ns) in [start, stop].into_iter().zip(times).filter(|(event, _)| !event.is_null()) {
        let event = state.events.get_mut(&(event as usize)).ok_or(HipError::InvalidHandle)?;
        event.record = if is_hung { Record::Unreachable } else { Record::Done { ns, stream: key } };
    }
    Ok(())
}

/// Looks at an event that a call waits for or asks about; an event of a capture ends that capture.
fn look(runtime: &Runtime, event: *mut c_void) -> Result<(usize, Record)> {
    let mut state = runtime.state();
    let event = get(&state, event)?;
    let (device, record) = (event.device, event.record.clone());
    if let Record::Captured { capture, .. } = record
        && graph::invalidate(&mut state, capture)
    {
        return Err(HipError::CapturedEvent);
    }
    state.healthy(device)?;
    Ok((device, record))
}

pub(crate) unsafe fn synchronize(event: *mut c_void) -> Result {
    let runtime = runtime()?;
    graph::forbid_in_capture(runtime)?;
    let (_, record) = look(runtime, event)?;
    match record {
        Record::Done { ns, stream } => {
            let mut state = runtime.state();
            // Another thread may be doing what is before the event.
            while state.streams.get(&stream).is_some_and(|stream| stream.is_running && stream.tail_ns < ns) {
                state = runtime.wait_ended(state);
            }
            drop(state);
            runtime.wait_until(ns);
            Ok(())
        }
        Record::Unreachable => block_forever(),
        Record::Never | Record::Captured { .. } => Ok(()),
    }
}

pub(crate) unsafe fn query(event: *mut c_void) -> Result {
    let runtime = runtime()?;
    graph::forbid_in_capture(runtime)?;
    match look(runtime, event)? {
        (_, Record::Unreachable) => Err(HipError::NotReady),
        _ => Ok(()),
    }
}

pub(crate) unsafe fn elapsed(out: *mut f32, start: *mut c_void, stop: *mut c_void) -> Result {
    let runtime = runtime()?;
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    let state = runtime.state();
    let (start, stop) = (get(&state, start)?, get(&state, stop)?);
    if start.device != stop.device || (start.flags | stop.flags) & DISABLE_TIMING != 0 {
        return Err(HipError::InvalidHandle);
    }
    state.healthy(start.device)?;
    let ns = match (&start.record, &stop.record) {
        (Record::Done { ns: start, .. }, Record::Done { ns: stop, .. }) => *stop as f64 - *start as f64,
        (Record::Never | Record::Captured { .. }, _) | (_, Record::Never | Record::Captured { .. }) => {
            return Err(HipError::InvalidHandle);
        }
        _ => return Err(HipError::NotReady),
    };
    // SAFETY: not null, the caller's pointer.
    unsafe { put(out, (ns / 1e6) as f32) }
}
