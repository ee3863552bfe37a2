//! Buffers.

use super::context::Context;
use super::records::Batch;
use super::tool::{Setup, Tool};
use super::{Error, check, guard, keep};
use crate::Status;
use crate::types::{BufferId, CallbackThread, ContextId, RecordHeader, buffer_policy};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What happens when a buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The thread that has a record waits until the callback has taken some.
    #[default]
    Lossless,
    /// The record is lost. Versions seen so far then lose every record after the first flush without counting it: of use for
    /// one filling only.
    Discard,
}

/// Size and behaviour of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferOptions {
    /// Bytes; the SDK rounds up to pages and takes 32 times as much memory (16 times when it discards), all of which it clears
    /// at each flush.
    pub bytes: usize,
    /// Bytes at which the callback is called without a flush; 0 calls it for every record.
    pub watermark: usize,
    /// When it is full.
    pub policy: Policy,
}

impl Default for BufferOptions {
    /// 256 KiB (8 MB of memory), handed over when three quarters full, lossless.
    fn default() -> Self {
        BufferOptions { bytes: 256 << 10, watermark: 192 << 10, policy: Policy::Lossless }
    }
}

/// How long to wait for records that are late: the SDK writes them on a thread of the HSA runtime, after the program's own
/// waiting for the device has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Altogether.
    pub limit: Duration,
    /// After the first flush; it doubles up to `longest_pause`.
    pub pause: Duration,
    /// Between two flushes.
    pub longest_pause: Duration,
}

impl Default for Patience {
    /// 2 s, with pauses of 1 to 20 ms: in 4 of 10 runs seen the first flush lacked records, and 20 ms later none did.
    fn default() -> Self {
        Patience {
            limit: Duration::from_secs(2),
            pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(20),
        }
    }
}

impl Patience {
    /// Does `step`, asks `is_done`, pauses, and again; whether it was done in time. `step` is done at least once.
    ///
    /// # Errors
    /// That of `step`.
    pub fn wait<E>(
        self,
        mut step: impl FnMut() -> Result<(), E>,
        mut is_done: impl FnMut() -> bool,
    ) -> Result<bool, E> {
        let start = Instant::now();
        let mut pause = self.pause;
        loop {
            step()?;
            if is_done() {
                return Ok(true);
            }
            let left = self.limit.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(pause.min(left));
            pause = pause.saturating_mul(2).min(self.longest_pause);
        }
    }
}

/// A buffer of the SDK, with a callback thread of its own.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    tool: &'static Tool,
    id: BufferId,
}

type Taker = Mutex<Box<dyn FnMut(Batch<'_>) + Send>>;

impl Setup {
    /// A buffer whose records go to `take`, which must copy what it needs and return: every thread that produces records waits
    /// while it runs. It must not call HIP, and take no lock that a launching thread may hold.
    ///
    /// # Errors
    /// [`Error::NoBuffer`] for impossible sizes; what the SDK answers.
    pub fn buffer(
        &self,
        context: Context,
        options: BufferOptions,
        take: impl FnMut(Batch<'_>) + Send + 'static,
    ) -> Result<Buffer, Error> {
        let sdk = self.tool.sdk()?;
        if options.bytes == 0 || options.watermark >= options.bytes {
            return Err(Error::NoBuffer);
        }
        let policy = match options.policy {
            Policy::Lossless => buffer_policy::LOSSLESS,
            Policy::Discard => buffer_policy::DISCARD,
        };
        let taker: &'static Taker = keep(Mutex::new(Box::new(take)));
        let data: *const Taker = taker;
        let data = data.cast_mut().cast();
        let mut id = BufferId::NONE;
        let (create, bytes, watermark) = (sdk.create_buffer()?, options.bytes, options.watermark);
        // SAFETY: the context is the SDK's, size and policy are valid, the callback and its data live as long as the process.
        let status = unsafe { create(context.id, bytes, watermark, policy, Some(hand_over), data, &mut id) };
        check(sdk, "rocprofiler_create_buffer", status)?;
        let mut thread = CallbackThread::NONE;
        // SAFETY: a valid pointer to 0.
        let status = unsafe { sdk.create_callback_thread()?(&mut thread) };
        check(sdk, "rocprofiler_create_callback_thread", status)?;
        // SAFETY: both are the SDK's.
        let status = unsafe { sdk.assign_callback_thread()?(id, thread) };
        check(sdk, "rocprofiler_assign_callback_thread", status)?;
        Ok(Buffer { tool: self.tool, id })
    }
}

impl Buffer {
    /// The SDK's handle.
    pub fn id(&self) -> BufferId {
        self.id
    }

    /// Hands what it holds to its closure and waits for it. A buffer that is being flushed is left alone.
    ///
    /// # Errors
    /// What the SDK answers, except `BUFFER_BUSY`.
    pub fn flush(&self) -> Result<(), Error> {
        let sdk = self.tool.sdk()?;
        // SAFETY: the buffer is the SDK's.
        let status = unsafe { sdk.flush_buffer()?(self.id) };
        if status == Status::BUFFER_BUSY { Ok(()) } else { check(sdk, "rocprofiler_flush_buffer", status) }
    }

    /// Flushes until `is_done` (all launches have records) or the patience is at its end; whether it was done. Synchronise with
    /// the device before, and stop the context after it.
    ///
    /// # Errors
    /// As [`Buffer::flush`].
    pub fn flush_until(&self, patience: Patience, is_done: impl FnMut() -> bool) -> Result<bool, Error> {
        patience.wait(|| self.flush(), is_done)
    }
}

unsafe extern "C" fn hand_over(
    _context: ContextId,
    _buffer: BufferId,
    headers: *mut *mut RecordHeader,
    len: usize,
    data: *mut c_void,
    drop_count: u64,
) {
    guard((), || {
        // SAFETY: the data is the leaked taker; headers are valid during the callback.
        let (taker, batch) = unsafe { (data.cast::<Taker>().as_ref(), Batch::new(headers, len, drop_count)) };
        if let Some(taker) = taker {
            taker.lock().unwrap_or_else(PoisonError::into_inner)(batch);
        }
    });
}
