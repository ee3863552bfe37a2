//! Events.

use std::time::Instant;

use super::Handle;
use super::device::Device;
use super::stream::Stream;
use super::wait::wait_until;
use crate::api::HipError;
use crate::sys;

/// A mark in a stream, with the time at which the device came to it.
pub struct Event {
    device: Device,
    handle: Handle<sys::ihipEvent_t>,
}

/// What kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOptions {
    /// It has a time.
    pub timing: bool,
    /// [`Event::synchronize`] sleeps rather than spins.
    pub blocking_sync: bool,
    /// Recording it flushes caches to the system, as HIP does by default. Without, records are cheaper (HIP 6 and later).
    pub system_fence: bool,
}

impl Default for EventOptions {
    /// HIP's defaults.
    fn default() -> Self {
        Self { timing: true, blocking_sync: false, system_fence: true }
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event").field("device", &self.device.index()).finish_non_exhaustive()
    }
}

impl Event {
    pub(super) fn new(device: &Device, options: EventOptions) -> Result<Self, HipError> {
        let flag = |set: bool, flag: u32| if set { flag } else { sys::hipEventDefault };
        let flags = flag(options.blocking_sync, sys::hipEventBlockingSync)
            | flag(!options.timing, sys::hipEventDisableTiming)
            | flag(!options.system_fence, sys::hipEventDisableSystemFence);
        device.make_current()?;
        let handle = Handle(device.api().event_create(flags)?);
        Ok(Self { device: device.clone(), handle })
    }

    pub(super) fn raw(&self) -> sys::hipEvent_t {
        self.handle.raw()
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Puts it into a stream, after what is there now.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for a stream of another device, or what HIP says.
    pub fn record(&self, stream: &Stream) -> Result<(), HipError> {
        stream.same_device(&self.device, "an event")?;
        // SAFETY: both handles are live: their owners are borrowed.
        unsafe { self.device.api().event_record(self.raw(), stream.raw()) }
    }

    /// Waits for it, forever if the device hangs.
    ///
    /// # Errors
    /// What HIP says; also errors of kernels before it.
    pub fn synchronize(&self) -> Result<(), HipError> {
        // SAFETY: the handle is live.
        unsafe { self.device.api().event_synchronize(self.raw()) }
    }

    /// Whether the device has come to it. An event that was never recorded counts as done.
    ///
    /// # Errors
    /// What HIP says.
    pub fn query(&self) -> Result<bool, HipError> {
        // SAFETY: the handle is live.
        unsafe { self.device.api().event_done(self.raw()) }
    }

    /// Waits for it until a deadline.
    ///
    /// # Errors
    /// [`HipError::timed_out`] after the deadline, or what HIP says.
    pub fn wait_until(&self, deadline: Instant) -> Result<(), HipError> {
        wait_until("an event", deadline, || self.query())
    }

    /// Milliseconds from `start` to this event, as HIP gives them: faulty clocks have been seen to make it zero or negative.
    ///
    /// # Errors
    /// What HIP says: `hipErrorNotReady` (600) when the device has not come to both, `hipErrorInvalidHandle` (400) for events without
    /// timing or never recorded.
    pub fn elapsed_ms_since(&self, start: &Self) -> Result<f32, HipError> {
        if !self.device.is(&start.device) {
            return Err(HipError::invalid("the time between events of two devices has no meaning".into()));
        }
        // SAFETY: both handles are live.
        unsafe { self.device.api().event_elapsed_ms(start.raw(), self.raw()) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and not used after this.
        let result = unsafe { self.device.api().event_destroy(self.raw()) };
        self.device.runtime().released(result);
    }
}
