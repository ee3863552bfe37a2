//! The emulated rocprofiler-sdk as a shared library, under the names of the real one: for programs that are not kbench. Put it where
//! `librocprofiler-sdk.so.1` is looked for. See `docs/emulated-sdk.md`.

#![allow(unsafe_code)]

use kbench_rocm_emu::hooks;
use kbench_rocm_emu::sdk::abi::*;
use kbench_rocm_emu::sdk::{Status, api};
use std::ffi::{c_char, c_int, c_void};

/// Exports the functions of the list.
macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the interface demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> Status {
            // SAFETY: the caller's arguments, unchanged.
            unsafe { api::$name($($argument),*) }
        }
    )*};
}

kbench_rocm_emu::for_each_sdk_function!(export);

/// `rocprofiler_get_status_name`.
#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_get_status_name(status: Status) -> *const c_char {
    api::rocprofiler_get_status_name(status)
}

/// `rocprofiler_get_status_string`.
#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_get_status_string(status: Status) -> *const c_char {
    api::rocprofiler_get_status_string(status)
}

/// `rocprofiler_set_api_table`: by it runtimes know that an SDK is loaded.
///
/// # Safety
/// As the interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_set_api_table(
    name: *const c_char,
    version: u64,
    instance: u64,
    tables: *mut *mut c_void,
    count: u64,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    unsafe { api::rocprofiler_set_api_table(name, version, instance, tables, count) }
}

/// What the emulated HIP runtime calls when it is initialised ([`hooks::Attach`]).
///
/// # Safety
/// As [`hooks::Attach`] says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocm_emu_sdk_attach(runtime: *const hooks::Runtime, tool: *mut hooks::Tool) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    unsafe { kbench_rocm_emu::sdk::attach(runtime, tool) }
}
