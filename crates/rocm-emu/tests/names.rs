//! Error names against Debian's libamdhip64 5.2.3.
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic, clippy::macro_metavars_in_unsafe)]

mod support;

use std::ffi::{CStr, c_char, c_int};
use support::*;

#[test]
fn error_names_are_those_of_the_real_library() {
    // SAFETY: loading it runs nothing but its own start-up code.
    let library = match unsafe { libloading::Library::new("libamdhip64.so.5") } {
        Ok(library) => library,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "libamdhip64-5 is missing: {error}");
            println!("skipped: no libamdhip64.so.5");
            return;
        }
    };
    type Name = unsafe extern "C" fn(c_int) -> *const c_char;
    // SAFETY: the C type of this function.
    let real = unsafe { library.get::<Name>(c"hipGetErrorName".to_bytes_with_nul()) }.unwrap();
    for code in -2..1100 {
        // SAFETY: both give a string for every number.
        let (real, ours) = unsafe { (CStr::from_ptr(real(code)), CStr::from_ptr(hipGetErrorName(code))) };
        // Newer than that library.
        let expected = match code {
            911 => c"hipErrorInvalidChannelDescriptor",
            912 => c"hipErrorInvalidTexture",
            _ => real,
        };
        assert_eq!(ours, expected, "{code}");
    }
}
