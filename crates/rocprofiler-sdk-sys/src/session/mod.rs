//! A safe layer: what a tool does with the SDK, without `unsafe`, and without what the SDK answers with `abort()`.
//!
//! State that callbacks reach is leaked on purpose: the SDK may call until the process ends. Closures given here are kept that long.
//!
//! ```no_run
//! use rocprofiler_sdk_sys::{Sdk, session};
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sdk: &'static Sdk = Box::leak(Box::new(Sdk::open()?));
//! let seen = Arc::new(AtomicUsize::new(0));
//! let count = Arc::clone(&seen);
//! let (context, buffer) = session::force_configure(sdk, c"example", move |setup| {
//!     let context = setup.context()?;
//!     let buffer = setup.buffer(context, session::BufferOptions::default(), move |batch| {
//!         count.fetch_add(batch.iter().count(), Ordering::Relaxed);
//!     })?;
//!     setup.trace_dispatches(context, buffer)?;
//!     Ok((context, buffer))
//! })?;
//! context.start()?;
//! // The first HIP call, and 10 launches; then:
//! let complete = buffer.flush_until(session::Patience::default(), || seen.load(Ordering::Relaxed) >= 10)?;
//! context.stop()?;
//! # let _ = complete;
//! # Ok(())
//! # }
//! ```

mod buffer;
mod context;
mod groups;
mod query;
mod records;
mod services;
mod tool;

pub use buffer::{Buffer, BufferOptions, Patience, Policy};
pub use context::Context;
pub use groups::{CounterGroup, CounterGroups};
pub use query::{
    Agent, AgentKind, Counter, CounterConfig, Dimension, agents, counter_dimensions, counter_instances, fits,
    supported_counters,
};
pub use records::{Batch, Dispatch, Record};
pub use services::{CodeObject, CodeObjectEvent, DeviceCounting, KernelSymbol};
pub use tool::{Setup, Tool, force_configure};

use crate::{MissingSymbol, Sdk, Status};
use std::ffi::{CStr, c_char, c_void};
use std::mem::{MaybeUninit, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The SDK refused.
    #[error("{call} answered {words}")]
    Status {
        /// The function.
        call: &'static str,
        /// Its answer.
        status: Status,
        /// The answer in the SDK's words.
        words: String,
    },
    /// A function is missing.
    #[error(transparent)]
    Missing(#[from] MissingSymbol),
    /// Something else uses the SDK in this process.
    #[error(
        "rocprofiler-sdk {}: another tool has it in this process{}. Start the program without that tool to collect counters",
        if *.in_progress { "is being initialised" } else { "is initialised already" },
        variables(.environment)
    )]
    Taken {
        /// Initialisation is under way.
        in_progress: bool,
        /// Environment variables that start tools and are set.
        environment: Vec<String>,
    },
    /// `force_configure` succeeded, but the SDK never asked for the tool.
    #[error("rocprofiler-sdk accepted the tool but did not call its {what}; no records would come")]
    NotCalled {
        /// What it did not call.
        what: &'static str,
    },
    /// The process is ending.
    #[error("rocprofiler-sdk is finalised, because the process is ending: nothing can be asked of it any more")]
    Finalized,
    /// A buffer of no bytes, which the SDK answers with an abort.
    #[error("a buffer needs at least one byte, and a watermark below its size")]
    NoBuffer,
    /// A closure of the tool panicked in `initialize`.
    #[error("the tool's initialisation panicked: {0}")]
    Panicked(String),
    /// A dimension that there is not.
    #[error("there is no counter dimension {dimension}")]
    NoDimension {
        /// The number.
        dimension: u64,
    },
    /// A struct smaller than its first version.
    #[error("rocprofiler-sdk gave a {what} of {size} bytes, which is less than any known version has")]
    Truncated {
        /// Which struct.
        what: &'static str,
        /// What its `size` says.
        size: u64,
    },
}

impl Error {
    /// The SDK's answer, when it is one.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

fn variables(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" (set in the environment: {})", names.join(", ")) }
}

/// An error unless the status is success.
pub(crate) fn check(sdk: &Sdk, call: &'static str, status: Status) -> Result<(), Error> {
    if status.is_success() { Ok(()) } else { Err(Error::Status { call, status, words: sdk.describe(status) }) }
}

/// A C string, copied; `None` for NULL.
///
/// # Safety
/// `string` is NULL or points to a NUL-terminated string.
pub(crate) unsafe fn text(string: *const c_char) -> Option<String> {
    if string.is_null() {
        return None;
    }
    // SAFETY: not NULL, hence terminated.
    Some(unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

/// Structs of integers and raw pointers only: every bit pattern is a value.
///
/// # Safety
/// The type must be `repr(C)`, and all zeros must be a value of it.
pub(crate) unsafe trait Plain: Copy {
    /// Bytes that every version has.
    const LEAST: usize;
    /// For messages.
    const NAME: &'static str;
}

/// A struct that starts with its size, as far as it is there; the rest is zero.
///
/// # Safety
/// `from` points to a struct that starts with a `u64` of its own size and has as many bytes.
pub(crate) unsafe fn read_sized<T: Plain>(from: *const c_void) -> Result<T, Error> {
    // SAFETY: the size is there.
    let size = unsafe { from.cast::<u64>().read_unaligned() };
    if size < T::LEAST as u64 {
        return Err(Error::Truncated { what: T::NAME, size });
    }
    let bytes = usize::try_from(size).unwrap_or(usize::MAX).min(size_of::<T>());
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: both have so many bytes, and `Plain` types may have any; the copy does not overlap a fresh local.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), bytes);
        Ok(value.assume_init())
    }
}

static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// The message of the first panic that a closure of the tool raised in a callback. It was stopped there, because the SDK is C++:
/// what the callback would have recorded is missing.
pub fn callback_panicked() -> Option<String> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs a callback's body; a panic is kept for [`callback_panicked`] and `otherwise` given.
pub(crate) fn guard<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    catch(body).unwrap_or(otherwise)
}

/// Runs a callback's body; a panic is kept for [`callback_panicked`] and its message given.
pub(crate) fn catch<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|panic| {
        let message = message(panic.as_ref());
        PANIC.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| message.clone());
        // Dropping a payload may panic again, across the callback.
        std::mem::forget(panic);
        message
    })
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

/// Keeps a value until the process ends, for callbacks.
pub(crate) fn keep<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}
