//! HIP and hiprtc, loaded at run time.
//!
//! Three layers:
//! - [`sys`]: raw declarations of the part of HIP that is the same in HIP 5, 6 and 7, with sizes and offsets asserted, and tables that
//!   find each function when it is first needed.
//! - [`api`]: the library itself (dlopen, or a table of functions in this process) and one error type, [`HipError`].
//! - owners, at the root of this crate: [`Runtime`], [`Device`], [`Buffer`], [`Stream`], [`Event`], [`Module`], [`Function`], [`Graph`],
//!   [`GraphExec`] and hiprtc's [`Compiler`]. They release what they own when dropped; an error of a release is kept in
//!   [`Runtime::take_drop_errors`].
//!
//! This crate links no HIP, so programs that use it start on machines without ROCm. It knows nothing of what its caller measures, prints nothing,
//! never falls back from one library to another silently, and never unloads a HIP library (its own threads may still run).
//!
//! ```no_run
//! use kbench_hip::{Dim3, HipError, Runtime};
//! # fn main() -> Result<(), HipError> {
//! let runtime = Runtime::open()?;
//! let device = runtime.device(0)?;
//! let code = std::fs::read("copy.co").unwrap_or_default();
//! let kernel = device.load(&code)?.function("copy")?;
//! let stream = device.stream()?;
//! let (from, to) = (device.alloc(4096)?, device.alloc(4096)?);
//! from.fill_u32(7)?;
//! let mut arguments = from.address().to_le_bytes().to_vec();
//! arguments.extend_from_slice(&to.address().to_le_bytes());
//! kernel.launch(&stream, Dim3::x(4), Dim3::x(256), 0, &arguments)?;
//! stream.synchronize()?;
//! # Ok(())
//! # }
//! ```
// The point of this crate is to call C; `sys`, `api` and `owner` each say at every call why it is sound.
#![allow(unsafe_code)]

pub mod api;
mod owner;
pub mod sys;

pub use api::{HipError, Version};
pub use owner::{
    Attribute, Buffer, BufferSlice, Compiled, Compiler, Device, Dim3, DropErrors, Event, EventOptions, Function,
    FunctionAttribute, Graph, GraphExec, Module, Runtime, Stream, Uuid,
};
