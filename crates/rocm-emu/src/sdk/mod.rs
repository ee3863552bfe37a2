//! rocprofiler-sdk's C interface over the emulated GPU.
//!
//! It behaves as rocprofiler-sdk 1.0.0 was seen to behave over a GPU model, unchecked arguments and defects included, and can play
//! the versions 1.0, 1.1 and 1.3 ([`Options::version`]) and the failures that users report ([`Faults`]). What it counts is
//! what [`kbench_gfx_emu::counters`] counts or models, dealt out over the instances of a counter so that sums are right. It
//! never makes up a counter: an agent supports those that the emulator has.
//!
//! Functions are reached by name ([`symbol`]); this crate exports no C symbol. `docs/emulated-sdk.md` is its manual.

#![allow(unsafe_code)]

mod agents;
pub mod api;
mod buffer;
pub mod catalog;
pub mod derived;
mod dispatch;
mod fault;
mod instance;
mod lifecycle;
mod objects;
mod query;
mod services;
mod signals;
mod state;
mod table;

pub use dispatch::attach;
pub use fault::{Faults, FaultsError};
/// The types of the interface.
pub use rocprofiler_sdk_sys::types as abi;
pub use rocprofiler_sdk_sys::{Status, Version};
pub use table::symbol;

use std::ffi::c_void;
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Which SDK to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Its version.
    pub version: Version,
    /// What goes wrong.
    pub faults: Faults,
}

impl Default for Options {
    /// 1.0.0, nothing that goes wrong.
    fn default() -> Self {
        Options { version: Version::new(1, 0, 0), faults: Faults::default() }
    }
}

/// Why there are no such options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A variable's value is no good.
    #[error("{variable}={value}: {reason}")]
    Variable {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The SDK was used before.
    #[error("the emulated SDK is in use already: choose its version and faults before its first function is called")]
    InUse,
}

impl Options {
    /// What `ROCM_EMU_SDK_VERSION` (such as `1.3.2`) and `ROCM_EMU_SDK_FAULT` say.
    ///
    /// # Errors
    /// When a value is no good.
    pub fn from_env() -> Result<Self, OptionsError> {
        Options::from_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// The same from any source of variables.
    ///
    /// # Errors
    /// When a value is no good.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Self, OptionsError> {
        let mut options = Options::default();
        let set = |variable: &'static str| get(variable).filter(|value| !value.trim().is_empty());
        if let Some(value) = set("ROCM_EMU_SDK_VERSION") {
            options.version = version(value.trim()).ok_or_else(|| OptionsError::Variable {
                variable: "ROCM_EMU_SDK_VERSION",
                value,
                reason: "it is not three numbers below 100, such as 1.3.2".to_owned(),
            })?;
        }
        if let Some(value) = set("ROCM_EMU_SDK_FAULT") {
            options.faults = value.parse().map_err(|error: FaultsError| OptionsError::Variable {
                variable: "ROCM_EMU_SDK_FAULT",
                value,
                reason: error.to_string(),
            })?;
        }
        Ok(options)
    }
}

/// `1.3.2` or `1.3`.
fn version(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().ok().filter(|number| *number < 100));
    let (major, minor) = (parts.next()??, parts.next()??);
    let patch = parts.next().unwrap_or(Some(0))?;
    parts.next().is_none().then_some(Version::new(major, minor, patch))
}

/// Chooses what the SDK of this process is, before its first use. Without it the environment does.
///
/// # Errors
/// [`OptionsError::InUse`] when it was used.
pub fn configure(options: Options) -> Result<(), OptionsError> {
    if state::want(options) { Ok(()) } else { Err(OptionsError::InUse) }
}

/// A tool's pointer, which it wants back in its callbacks, on whichever thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data(pub(crate) *mut c_void);

// SAFETY: never looked into here; the interface says that callbacks come on any thread.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

/// The bytes of a record.
fn bytes_of<T: Copy>(record: &T) -> &[u8] {
    let from: *const T = record;
    // SAFETY: a `repr(C)` struct of integers without padding between its fields, all of which are set.
    unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size_of::<T>()) }
}

unsafe extern "C" {
    /// The C library's number of the thread.
    safe fn gettid() -> i32;
}

fn thread_id() -> u64 {
    u64::from(gettid().unsigned_abs())
}

/// Runs a body that must not unwind into C.
fn guarded<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Runs a function of the interface, or plays what a fault says of it.
fn call(name: &str, body: impl FnOnce() -> Status) -> Status {
    guarded(Status::ERROR, || {
        let faults = &state::sdk().faults;
        let is = |function: &String| function == name;
        if faults.aborts.iter().any(is) {
            eprintln!("rocprofiler-sdk: {name}: fatal error");
            std::process::abort();
        }
        if faults.hangs.iter().any(is) || (faults.finalize_lock && lifecycle::is_finalizing()) {
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        match faults.answers.iter().find(|(function, _)| is(function)) {
            Some((_, status)) => *status,
            None => body(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(version: &str, fault: &str) -> Result<Options, OptionsError> {
        let owned = |text: &str| Some(text.to_owned());
        Options::from_variables(|name| if name == "ROCM_EMU_SDK_VERSION" { owned(version) } else { owned(fault) })
    }

    #[test]
    fn variables_say_what_they_mean() {
        let options = read("1.3.2", "late=3").unwrap();
        assert_eq!((options.version, options.faults.late), (Version::new(1, 3, 2), 3));
        assert_eq!(read("1.1", "").unwrap().version, Version::new(1, 1, 0));
        assert_eq!(read("", " ").unwrap(), Options::default());
    }

    #[test]
    fn wrong_values_name_their_variable() {
        for text in ["one", "1", "1.2.3.4", "1.2.x", "1.2.100", "-1.0", "1..2"] {
            let error = read(text, "").unwrap_err().to_string();
            assert!(error.starts_with(&format!("ROCM_EMU_SDK_VERSION={text}: ")), "{error}");
        }
        let error = read("", "melt").unwrap_err().to_string();
        assert!(error.starts_with("ROCM_EMU_SDK_FAULT=melt: `melt` is no fault"), "{error}");
    }

    proptest! {
        #[test]
        fn no_version_text_panics(text in "[0-9.x-]{0,12}") {
            let _ = version(&text);
        }
    }
}
