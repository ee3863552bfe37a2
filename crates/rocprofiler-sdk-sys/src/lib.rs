//! rocprofiler-sdk (1.0.0 and later, ROCm 7.0 and later), loaded at run time.
//!
//! The crate declares the part of the SDK's C interface that dispatch tracing and counter collection need, finds and loads the
//! library, refuses versions whose layouts it does not know, and has a safe layer on top, [`session`]. It links nothing: programs
//! that use it build and start where there is no ROCm. It will never decide which counters to collect or what they mean.
//!
//! # Layers
//! - [`types`], [`Status`], [`layout`]: the ABI, declared by hand, with sizes and offsets asserted at compile time.
//! - [`Sdk`]: one loaded library. Each function is looked up when it is first asked for.
//! - [`instance`]: what the id of a counter record says.
//! - [`session`]: life cycle, contexts, buffers, services, enumeration, without `unsafe` for the caller.
//!
//! # Life cycle, in this order
//! 1. Single-threaded still: [`Sdk::open`]. The library is loaded with `RTLD_GLOBAL`, because `rocprofiler-register` (inside HIP and
//!    HSA) looks for `rocprofiler_set_api_table` among global symbols; otherwise it loads the unversioned file name, which may be
//!    absent (it then aborts the process) or a second copy.
//! 2. [`session::force_configure`]: it runs the tool's `initialize` before it returns. It sets environment variables, hence
//!    "single-threaded". Contexts, buffers, callback threads and services can be made *only* inside `initialize`;
//!    everywhere else the SDK answers `CONFIGURATION_LOCKED`.
//! 3. The first HIP call. HIP that was initialised before step 2 never tells an SDK older than 1.3 of its dispatches: every call
//!    succeeds and no record arrives. Launch one kernel as a probe and look for its record.
//! 4. Launch; synchronise with the device; [`session::Buffer::flush_until`] all records are there; stop contexts.
//!
//! # What must never be done when
//! - In `initialize`: no call of HIP or HSA (deadlock). Agents, counters and counter configurations can be had there.
//! - In a buffer's, a dispatch's or a record's callback: no call of HIP, no waiting for a thread that launches, no lock that such a
//!   thread holds. Every producer of records waits while any buffer callback runs. Copy and return.
//! - In `finalize` and after it: no call of the SDK at all. The safe layer refuses by itself.
//! - Never a panic out of a callback: the safe layer catches it and keeps it for [`session::callback_panicked`].
//! - Never a configuration handle that the SDK did not make, a buffer of size 0, or an unknown kind of tracing: the SDK ends the
//!   process with `abort()`. The safe layer cannot express these.
//!
//! # Threads
//! Enumeration, configurations, starting and stopping contexts and flushing may be called from any thread. Buffer callbacks run on
//! the buffer's callback thread (or in the thread that flushes), dispatch callbacks in the thread that launches, record callbacks
//! on threads of the HSA runtime; closures given to the safe layer are therefore `Send`, and `Sync` where calls can overlap.

#![allow(unsafe_code)]

mod functions;
pub mod instance;
pub mod layout;
mod library;
pub mod session;
mod status;
pub mod types;
mod version;

pub use functions::MissingSymbol;
pub use library::{LIBRARY_VARIABLE, OpenError, OpenOptions, Sdk, SymbolTable, candidates};
pub use status::Status;
pub use version::{Version, VersionError};
