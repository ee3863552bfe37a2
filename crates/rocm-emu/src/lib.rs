//! The HIP and rocprofiler-sdk C interfaces over the emulated GPU, as tables of functions.
//!
//! [`symbol`] gives the functions of an emulated HIP 7 by name. They behave as the real runtime was seen to, mistakes
//! included; kernels are executed by `kbench-gfx-emu`; times are those of a virtual clock, which no real time enters. The crate exports no C symbol: in a
//! program that has it linked in, a `hip*` name still means the real library's. The crates `rocm-emu-hip` and `rocm-emu-sdk` export the
//! same functions under their real names.
//!
//! What it emulates, its faults on purpose and its clock scripts: `docs/emulated-hip.md`.

// Functions of a C interface follow their callers' pointers.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod api;
mod clock;
mod config;
mod device;
mod error;
mod event;
mod extension;
mod fault;
mod graph;
pub mod hooks;
mod image;
mod launch;
mod memory;
mod module;
pub mod report;
pub mod sdk;
mod state;
mod stream;
mod tool;
mod work;

#[doc(hidden)]
pub mod c {
    //! The C functions, for the shared library that exports them.
    pub use crate::api::*;
}

pub use api::{names, symbol};
pub use clock::{ClockScript, ClockScriptError};
pub use config::{Config, ConfigError, MAX_DEVICES, configure};
pub use device::{DeviceInfo, devices};
pub use error::HipError;
pub use fault::{FaultPlan, FaultPlanError};

use std::ffi::{c_char, c_int};

/// Writes an output of a C function.
///
/// # Errors
/// `hipErrorInvalidValue` when the pointer is null.
///
/// # Safety
/// The pointer is null or valid for a write; it need not be aligned.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> error::Result {
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: not null, so it is valid.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Writes as much of a text as fits into a buffer, with its NUL.
///
/// # Errors
/// `hipErrorInvalidValue` when the pointer is null or there is no room at all.
///
/// # Safety
/// The pointer is null or valid for writes of `length` bytes.
pub(crate) unsafe fn put_text(out: *mut c_char, length: c_int, text: &str) -> error::Result {
    let room = usize::try_from(length).ok().filter(|room| *room > 0 && !out.is_null()).ok_or(HipError::InvalidValue)?;
    let bytes = text.len().min(room - 1);
    // SAFETY: at most `room` bytes are written.
    unsafe {
        out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), bytes);
        out.add(bytes).write(0);
    }
    Ok(())
}
