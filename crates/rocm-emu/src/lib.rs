//! The HIP and rocprofiler-sdk C interfaces over the emulated GPU, as tables of functions.
//!
//! [`symbol`] gives the functions of an emulated HIP 7 by name. They behave as the real runtime was seen to, mistakes
//! included; kernels are executed by `kbench-gfx-emu`; times are those of a virtual clock, which no real time enters. The crate exports no C symbol: in a
//! program that has it linked in, a `hip*` name still means the real library's. The crates `rocm-emu-hip` and `rocm-emu-sdk` export the
//! same functions under their real names.
//!
//! What it emulates, its faults on purpose and its clock scripts: `docs/emulated-hip.md`.

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
mod out;
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
pub(crate) use out::{put, put_text};
