//! A profiler that comes after HIP gets nothing, as with the real libraries.
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic, clippy::macro_metavars_in_unsafe)]

mod support;

use kbench_rocm_emu::hooks::{self, Runtime, Tool};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use support::*;

static CALLED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn attach(_: *const Runtime, _: *mut Tool) -> c_int {
    CALLED.store(true, Ordering::SeqCst);
    0
}

#[test]
fn a_tool_that_comes_late_is_never_called() {
    ok!(hipInit(0));
    hooks::register(Some(attach));
    ok!(hipFree(malloc(64)));
    ok!(hipDeviceSynchronize());
    assert!(!CALLED.load(Ordering::SeqCst));
}
