//! Streams, and capturing in them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::Handle;
use super::device::Device;
use super::event::Event;
use super::graph::Graph;
use super::module::LoadedModule;
use super::wait::wait_until;
use crate::api::HipError;
use crate::sys;

/// A queue of work on a device, done in order. It does not wait for the null stream, nor the null stream for it.
pub struct Stream {
    device: Device,
    handle: Handle<sys::ihipStream_t>,
    /// A capture is under way.
    capturing: AtomicBool,
    /// Code objects whose kernels were captured: the graph must keep them loaded.
    captured: Mutex<Vec<Arc<LoadedModule>>>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("device", &self.device.index()).finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(device: &Device) -> Result<Self, HipError> {
        device.make_current()?;
        let handle = Handle(device.api().stream_create(sys::hipStreamNonBlocking)?);
        Ok(Self { device: device.clone(), handle, capturing: AtomicBool::new(false), captured: Mutex::default() })
    }

    pub(super) fn raw(&self) -> sys::hipStream_t {
        self.handle.raw()
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Refuses things of another device.
    pub(super) fn same_device(&self, device: &Device, what: &str) -> Result<(), HipError> {
        if self.device.is(device) {
            return Ok(());
        }
        let (own, other) = (self.device.index(), device.index());
        Err(HipError::invalid(format!("{what} of device {other} cannot be used in a stream of device {own}")))
    }

    /// Notes that a kernel of `module` was launched here: if this is being captured, the graph keeps the module.
    pub(super) fn launched(&self, module: &Arc<LoadedModule>) {
        if self.capturing.load(Ordering::Acquire) {
            let mut captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
            if !captured.iter().any(|held| Arc::ptr_eq(held, module)) {
                captured.push(Arc::clone(module));
            }
        }
    }

    /// Waits for its work, forever if the device hangs.
    ///
    /// # Errors
    /// What HIP says; also errors of kernels in it.
    pub fn synchronize(&self) -> Result<(), HipError> {
        // SAFETY: the handle is live.
        unsafe { self.device.api().stream_synchronize(self.raw()) }
    }

    /// Whether its work is done.
    ///
    /// # Errors
    /// What HIP says; also errors of kernels in it.
    pub fn query(&self) -> Result<bool, HipError> {
        // SAFETY: the handle is live.
        unsafe { self.device.api().stream_done(self.raw()) }
    }

    /// Waits for its work until a deadline.
    ///
    /// # Errors
    /// [`HipError::timed_out`] after the deadline, or what HIP says.
    pub fn wait_until(&self, deadline: Instant) -> Result<(), HipError> {
        wait_until("a stream's work", deadline, || self.query())
    }

    /// Lets what is put into it from now on wait for an event.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for an event of another device, or what HIP says.
    pub fn wait_for(&self, event: &Event) -> Result<(), HipError> {
        self.same_device(event.device(), "an event")?;
        // SAFETY: both handles are live.
        unsafe { self.device.api().stream_wait_event(self.raw(), event.raw()) }
    }

    /// Captures what `work` puts into this stream as a graph, without running it. Gives the stream back only when all went well: after a failed capture
    /// HIP leaves a stream broken for good, so it is destroyed.
    ///
    /// Waiting, allocating and copying from or to the host are not allowed in `work`. Buffers that captured kernels use must outlive the graph's launches;
    /// code objects are kept by the graph.
    ///
    /// # Errors
    /// The error of `work`, or what HIP says.
    pub fn capture<E: From<HipError>>(self, work: impl FnOnce(&Self) -> Result<(), E>) -> Result<(Graph, Self), E> {
        let graph = self.captured_by(work)?;
        Ok((graph, self))
    }

    fn captured_by<E: From<HipError>>(&self, work: impl FnOnce(&Self) -> Result<(), E>) -> Result<Graph, E> {
        // SAFETY: the handle is live.
        unsafe { self.device.api().begin_capture(self.raw()) }?;
        self.capturing.store(true, Ordering::Release);
        let mut capture = Capture { stream: self, ended: false };
        let worked = work(self);
        let graph = capture.end();
        worked?;
        Ok(graph?)
    }
}

/// A capture under way, ended even if the work panics.
struct Capture<'a> {
    stream: &'a Stream,
    ended: bool,
}

impl Capture<'_> {
    fn end(&mut self) -> Result<Graph, HipError> {
        self.ended = true;
        let stream = self.stream;
        // SAFETY: the handle is live.
        let graph = unsafe { stream.device.api().end_capture(stream.raw()) };
        stream.capturing.store(false, Ordering::Release);
        let modules = std::mem::take(&mut *stream.captured.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Graph::new(&stream.device, graph?, modules))
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // The graph, if there is one, is of no use: the work that it should hold panicked.
            drop(self.end());
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and not used after this.
        let result = unsafe { self.device.api().stream_destroy(self.raw()) };
        self.device.runtime().released(result);
    }
}
