//! Stream capture and graphs.

#![allow(unsafe_code)]

use crate::error::{HipError, Result};
use crate::event::Record;
use crate::put;
use crate::state::{Runtime, State, runtime};
use crate::stream::resolve;
use crate::work::{self, Work};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;
use std::thread::ThreadId;

const GLOBAL: c_uint = 0;
const THREAD_LOCAL: c_uint = 1;
const RELAXED: c_uint = 2;

thread_local! {
    /// What `hipThreadExchangeStreamCaptureMode` sets.
    static MODE: Cell<c_uint> = const { Cell::new(GLOBAL) };
}

/// A capture under way.
#[derive(Debug)]
pub(crate) struct Capture {
    origin: usize,
    mode: c_uint,
    thread: ThreadId,
    is_invalid: bool,
    /// It began on a stream that an earlier failed capture has broken: nothing is kept.
    is_broken: bool,
    nodes: Vec<Node>,
}

/// A node, after those that it depends on.
#[derive(Clone, Debug)]
struct Node {
    work: Work,
    after: Vec<usize>,
}

/// A graph. Its nodes are in an order in which they can run.
#[derive(Debug)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    handles: Vec<usize>,
}

/// An instantiated graph.
#[derive(Debug)]
pub(crate) struct Exec {
    works: Vec<Work>,
}

/// Adds work to the graph that a stream captures; `false` when it captures none and the work is to be done.
///
/// # Errors
/// 901 when the capture has failed, 906 when the work is for the default stream while another captures (which ends that).
pub(crate) fn capture(state: &mut State, key: usize, work: &Work) -> Result<bool> {
    let stream = state.streams.get(&key).ok_or(HipError::ContextIsDestroyed)?;
    let (device, after) = (stream.device, stream.frontier.clone());
    let Some(id) = stream.capture else {
        if state.default_streams.get(device) == Some(&key) {
            refuse_implicit(state, device)?;
        }
        state.healthy(device)?;
        return Ok(false);
    };
    let Some(capture) = state.captures.get_mut(&id) else { return Ok(false) };
    if capture.is_invalid {
        return Err(HipError::StreamCaptureInvalidated);
    }
    if !capture.is_broken {
        capture.nodes.push(Node { work: work.clone(), after });
        let node = capture.nodes.len() - 1;
        if let Some(stream) = state.streams.get_mut(&key) {
            stream.frontier = vec![node];
        }
    }
    Ok(true)
}

/// The default stream would wait for streams that capture.
fn refuse_implicit(state: &mut State, device: usize) -> Result {
    let blocking = |capture: &u64| {
        let mut of_it =
            state.streams.values().filter(|stream| stream.capture == Some(*capture) && stream.device == device);
        of_it.any(|stream| !stream.is_non_blocking())
    };
    let refused: Vec<u64> = state
        .captures
        .iter()
        .filter(|(id, capture)| capture.mode == GLOBAL || blocking(id))
        .map(|(id, _)| *id)
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    for id in refused {
        invalidate(state, id);
    }
    Err(HipError::StreamCaptureImplicit)
}

/// Ends a capture's usefulness; `false` when there is none of that number.
pub(crate) fn invalidate(state: &mut State, id: u64) -> bool {
    state.captures.get_mut(&id).map(|capture| capture.is_invalid = true).is_some()
}

/// Refuses a call that is not allowed while streams capture, and ends their captures: those of any thread in global mode, of this
/// one in thread-local mode.
pub(crate) fn forbid_in_capture(runtime: &Runtime) -> Result {
    if MODE.get() == RELAXED {
        return Ok(());
    }
    let mut state = runtime.state();
    let thread = std::thread::current().id();
    let mut refused = false;
    for capture in state.captures.values_mut() {
        let applies = match capture.mode {
            GLOBAL => MODE.get() == GLOBAL || capture.thread == thread,
            THREAD_LOCAL => capture.thread == thread,
            _ => false,
        };
        capture.is_invalid |= applies;
        refused |= applies;
    }
    if refused { Err(HipError::StreamCaptureUnsupported) } else { Ok(()) }
}

/// Refuses a call on a stream that captures, and ends the capture.
pub(crate) fn forbid_on_stream(runtime: &Runtime, key: usize) -> Result {
    let mut state = runtime.state();
    match state.streams.get(&key).and_then(|stream| stream.capture) {
        Some(capture) => {
            invalidate(&mut state, capture);
            Err(HipError::StreamCaptureUnsupported)
        }
        None => Ok(()),
    }
}

/// What an event stands for that is recorded on a stream which captures.
pub(crate) fn mark(state: &mut State, key: usize) -> Result<Option<Record>> {
    let stream = state.streams.get(&key).ok_or(HipError::ContextIsDestroyed)?;
    let Some(id) = stream.capture else { return Ok(None) };
    let nodes = stream.frontier.clone();
    match state.captures.get(&id) {
        Some(capture) if capture.is_invalid => Err(HipError::StreamCaptureInvalidated),
        Some(_) => Ok(Some(Record::Captured { capture: id, nodes })),
        None => Ok(None),
    }
}

/// What it means for captures that a stream waits for an event: a stream joins the event's capture, or depends on its nodes.
pub(crate) fn wait_event(state: &mut State, key: usize, record: &Record) -> Result {
    let own = state.streams.get(&key).ok_or(HipError::ContextIsDestroyed)?.capture;
    match (record, own) {
        (Record::Captured { capture, nodes }, own) if state.captures.contains_key(capture) => {
            if let Some(own) = own.filter(|own| own != capture) {
                invalidate(state, own);
                invalidate(state, *capture);
                return Err(HipError::StreamCaptureMerge);
            }
            if let Some(stream) = state.streams.get_mut(&key) {
                stream.capture = Some(*capture);
                stream.frontier.extend(nodes);
                stream.frontier.sort_unstable();
                stream.frontier.dedup();
            }
            Ok(())
        }
        (Record::Done { .. } | Record::Unreachable, Some(own)) => {
            invalidate(state, own);
            Err(HipError::StreamCaptureIsolation)
        }
        _ => Ok(()),
    }
}

/// Ends a capture without a graph.
pub(crate) fn abandon(state: &mut State, id: u64) -> Option<Capture> {
    for stream in state.streams.values_mut().filter(|stream| stream.capture == Some(id)) {
        stream.capture = None;
        stream.frontier.clear();
    }
    state.captures.remove(&id)
}

pub(crate) unsafe fn begin(stream: *mut c_void, mode: c_uint) -> Result {
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    if mode > RELAXED {
        return Err(HipError::InvalidValue);
    }
    let mut state = runtime.state();
    if state.default_streams.contains(&key) {
        return Err(HipError::StreamCaptureUnsupported);
    }
    let id = state.id();
    let stream = state.streams.get_mut(&key).ok_or(HipError::ContextIsDestroyed)?;
    if stream.capture.is_some() {
        return Err(HipError::IllegalState);
    }
    stream.capture = Some(id);
    stream.frontier.clear();
    let is_broken = stream.is_broken;
    let thread = std::thread::current().id();
    state.captures.insert(id, Capture { origin: key, mode, thread, is_invalid: false, is_broken, nodes: Vec::new() });
    Ok(())
}

pub(crate) unsafe fn end(stream: *mut c_void, out: *mut *mut c_void) -> Result {
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    let mut state = runtime.state();
    let id = state.streams.get(&key).and_then(|stream| stream.capture).ok_or(HipError::IllegalState)?;
    let capture = state.captures.get(&id).ok_or(HipError::IllegalState)?;
    if capture.origin != key {
        return Err(HipError::StreamCaptureUnmatched);
    }
    if capture.mode != RELAXED && capture.thread != std::thread::current().id() {
        return Err(HipError::StreamCaptureWrongThread);
    }
    let failed = if capture.is_invalid {
        Some(HipError::StreamCaptureInvalidated)
    } else {
        let frontier = state.streams.get(&key).map(|stream| stream.frontier.as_slice()).unwrap_or_default();
        (!joins_all(&capture.nodes, frontier)).then_some(HipError::StreamCaptureUnjoined)
    };
    if let Some(error) = failed {
        for stream in state.streams.values_mut().filter(|stream| stream.capture == Some(id)) {
            stream.is_broken = true;
        }
        abandon(&mut state, id);
        // SAFETY: not null, the caller's pointer.
        return unsafe { put(out, std::ptr::null_mut()) }.and(Err(error));
    }
    let nodes = abandon(&mut state, id).map(|capture| capture.nodes).unwrap_or_default();
    let handle = insert(&mut state, nodes);
    // SAFETY: as above.
    unsafe { put(out, std::ptr::without_provenance_mut(handle)) }
}

/// Whether every node is one of `frontier`, or before one of them.
fn joins_all(nodes: &[Node], frontier: &[usize]) -> bool {
    let mut joined = vec![false; nodes.len()];
    let mut open = frontier.to_vec();
    while let Some(index) = open.pop() {
        if let (Some(place), Some(node)) = (joined.get_mut(index), nodes.get(index))
            && !std::mem::replace(place, true)
        {
            open.extend(&node.after);
        }
    }
    joined.into_iter().all(|joined| joined)
}

fn insert(state: &mut State, nodes: Vec<Node>) -> usize {
    let handles = nodes.iter().map(|_| state.handle()).collect();
    let handle = state.handle();
    state.graphs.insert(handle, Graph { nodes, handles });
    handle
}

/// 0 none, 1 active, 2 invalidated; and the capture's number.
fn status(stream: *mut c_void) -> Result<(c_int, u64)> {
    let runtime = runtime()?;
    let key = resolve(runtime, stream)?;
    let state = runtime.state();
    let id = state.streams.get(&key).and_then(|stream| stream.capture);
    Ok(match id.and_then(|id| Some((id, state.captures.get(&id)?))) {
        Some((id, capture)) => (if capture.is_invalid { 2 } else { 1 }, id),
        None => (0, 0),
    })
}

pub(crate) unsafe fn is_capturing(stream: *mut c_void, out: *mut c_int) -> Result {
    let (status, _) = status(stream)?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, status) }
}

pub(crate) unsafe fn capture_info(stream: *mut c_void, out: *mut c_int, id: *mut c_ulonglong) -> Result {
    let (status, number) = status(stream)?;
    // SAFETY: the caller's pointers, the second of which may be null.
    unsafe {
        put(out, status)?;
        if id.is_null() || status != 1 { Ok(()) } else { put(id, number) }
    }
}

pub(crate) unsafe fn exchange_mode(mode: *mut c_uint) -> Result {
    if mode.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: not null, the caller's pointer.
    let wanted = unsafe { mode.read_unaligned() };
    if wanted > RELAXED {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: as above.
    unsafe { put(mode, MODE.replace(wanted)) }
}

pub(crate) unsafe fn create(out: *mut *mut c_void, flags: c_uint) -> Result {
    let runtime = runtime()?;
    if out.is_null() || flags != 0 {
        return Err(HipError::InvalidValue);
    }
    let handle = insert(&mut runtime.state(), Vec::new());
    // SAFETY: the caller's pointer.
    unsafe { put(out, std::ptr::without_provenance_mut(handle)) }
}

pub(crate) unsafe fn destroy(graph: *mut c_void) -> Result {
    let removed = runtime()?.state().graphs.remove(&(graph as usize));
    removed.map(|_| ()).ok_or(HipError::InvalidValue)
}

pub(crate) unsafe fn instantiate_with_flags(out: *mut *mut c_void, graph: *mut c_void, flags: c_ulonglong) -> Result {
    let runtime = runtime()?;
    // Free memory of the graph on launch, upload, device launch, use node priority.
    if out.is_null() || flags & !0xf != 0 {
        return Err(HipError::InvalidValue);
    }
    let mut state = runtime.state();
    let graph = state.graphs.get(&(graph as usize)).ok_or(HipError::InvalidValue)?;
    if graph.nodes.is_empty() {
        return Err(HipError::InvalidValue);
    }
    let exec = Arc::new(Exec { works: graph.nodes.iter().map(|node| node.work.clone()).collect() });
    let handle = state.handle();
    state.execs.insert(handle, exec);
    // SAFETY: not null, the caller's pointer.
    unsafe { put(out, std::ptr::without_provenance_mut(handle)) }
}

pub(crate) unsafe fn instantiate(
    out: *mut *mut c_void,
    graph: *mut c_void,
    _error_node: *mut *mut c_void,
    _log: *mut c_char,
    _log_bytes: usize,
) -> Result {
    // SAFETY: the caller's pointer.
    unsafe { instantiate_with_flags(out, graph, 0) }
}

fn exec(runtime: &Runtime, exec: *mut c_void) -> Result<Arc<Exec>> {
    runtime.state().execs.get(&(exec as usize)).cloned().ok_or(HipError::InvalidValue)
}

pub(crate) unsafe fn launch(graph: *mut c_void, stream: *mut c_void) -> Result {
    let runtime = runtime()?;
    let exec = exec(runtime, graph)?;
    let key = resolve(runtime, stream)?;
    {
        let mut state = runtime.state();
        let mut captured = false;
        for work in &exec.works {
            captured = capture(&mut state, key, work)?;
            if !captured {
                break;
            }
        }
        if captured {
            return Ok(());
        }
    }
    work::replay(runtime, key, &exec.works)
}

pub(crate) unsafe fn upload(graph: *mut c_void, stream: *mut c_void) -> Result {
    let runtime = runtime()?;
    exec(runtime, graph)?;
    resolve(runtime, stream).map(|_| ())
}

pub(crate) unsafe fn destroy_exec(graph: *mut c_void) -> Result {
    let removed = runtime()?.state().execs.remove(&(graph as usize));
    removed.map(|_| ()).ok_or(HipError::InvalidValue)
}

/// Hands out handles of nodes: their number when there is no room to write to, else as many as fit.
///
/// # Safety
/// `count` is null or valid; `out` is null or has room for `*count` handles.
unsafe fn list(out: *mut *mut c_void, count: *mut usize, handles: &[usize]) -> Result {
    if count.is_null() {
        return Err(HipError::InvalidValue);
    }
    if !out.is_null() {
        // SAFETY: the caller says how many fit.
        let room = unsafe { count.read_unaligned() };
        let all = handles.iter().map(|handle| std::ptr::without_provenance_mut(*handle));
        let padded = all.chain(std::iter::repeat(std::ptr::null_mut())).take(room);
        for (index, handle) in padded.enumerate() {
            // SAFETY: below the room that the caller has.
            unsafe { put(out.add(index), handle)? };
        }
    }
    // SAFETY: not null, the caller's pointer.
    unsafe { put(count, handles.len()) }
}

pub(crate) unsafe fn nodes(graph: *mut c_void, out: *mut *mut c_void, count: *mut usize) -> Result {
    let state = runtime()?.state();
    let graph = state.graphs.get(&(graph as usize)).ok_or(HipError::InvalidValue)?;
    // SAFETY: the caller's pointers.
    unsafe { list(out, count, &graph.handles) }
}

pub(crate) unsafe fn root_nodes(graph: *mut c_void, out: *mut *mut c_void, count: *mut usize) -> Result {
    let state = runtime()?.state();
    let graph = state.graphs.get(&(graph as usize)).ok_or(HipError::InvalidValue)?;
    let roots = graph.nodes.iter().zip(&graph.handles).filter(|(node, _)| node.after.is_empty());
    let roots: Vec<usize> = roots.map(|(_, handle)| *handle).collect();
    // SAFETY: the caller's pointers.
    unsafe { list(out, count, &roots) }
}

pub(crate) unsafe fn node_type(node: *mut c_void, out: *mut c_int) -> Result {
    let state = runtime()?.state();
    let find = |graph: &Graph| graph.handles.iter().position(|handle| *handle == node as usize);
    let found = state.graphs.values().find_map(|graph| graph.nodes.get(find(graph)?));
    // `hipGraphNodeType` of HIP 6 and later.
    let kind = match found.ok_or(HipError::InvalidValue)?.work {
        Work::Kernel(_) => 0,
        Work::Copy { .. } => 1,
        Work::Fill { .. } => 2,
        Work::Host(_) => 3,
    };
    // SAFETY: the caller's pointer.
    unsafe { put(out, kind) }
}
