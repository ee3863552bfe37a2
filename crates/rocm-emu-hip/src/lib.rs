//! The emulated HIP runtime as a shared library, under the names of the real one: for programs that are not kbench. Put it where
//! `libamdhip64.so.7` is looked for. See `docs/emulated-hip.md`.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

/// Exports the functions of the table.
macro_rules! export {
    ($($name:ident => $module:ident :: $function:ident ($($argument:ident : $type:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the interface demands.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the caller's arguments, unchanged.
            unsafe { kbench_rocm_emu::c::$name($($argument),*) }
        }
    )*};
}

kbench_rocm_emu::for_each_hip_function!(export);

/// `hipGetLastError`.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> c_int {
    kbench_rocm_emu::c::hipGetLastError()
}

/// `hipPeekAtLastError`.
#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> c_int {
    kbench_rocm_emu::c::hipPeekAtLastError()
}

/// `hipGetErrorName`.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(code: c_int) -> *const c_char {
    kbench_rocm_emu::c::hipGetErrorName(code)
}

/// `hipGetErrorString`.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(code: c_int) -> *const c_char {
    kbench_rocm_emu::c::hipGetErrorString(code)
}

/// The C++ name of [`hipExtModuleLaunchKernel`], which the real library exports too.
///
/// # Safety
/// As the interface demands.
#[unsafe(export_name = "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j")]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn ext_module_launch_kernel(
    function: *mut c_void,
    items_x: u32,
    items_y: u32,
    items_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    dynamic_lds: usize,
    stream: *mut c_void,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    start: *mut c_void,
    stop: *mut c_void,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    unsafe {
        hipExtModuleLaunchKernel(
            function,
            items_x,
            items_y,
            items_z,
            block_x,
            block_y,
            block_z,
            dynamic_lds,
            stream,
            params,
            extra,
            start,
            stop,
            flags,
        )
    }
}
