//! Raw declarations: types, constants and functions of HIP and hiprtc, under their own names.
//!
//! Only what has the same value and layout in HIP 5, 6 and 7 is here (compared with the headers of 5.2.3, 6.4.3 and 7.2.4). Device properties have
//! changed their layout once, so both layouts have their own name and their own entry point. Types are for x86-64 and AArch64 Linux.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case)]

use std::ffi::{c_char, c_int, c_uint, c_void};

mod functions;

pub use functions::{Hip, Hiprtc, MissingSymbol, Prototype, Symbols};

/// Status of a HIP call. An enumeration without negative values: C compilers make it an `unsigned int`.
pub type hipError_t = c_uint;
/// Status of a hiprtc call.
pub type hiprtcResult = c_uint;
/// Number of a device, from 0.
pub type hipDevice_t = c_int;
/// An address in device memory.
pub type hipDeviceptr_t = *mut c_void;
/// What to ask of a device.
pub type hipDeviceAttribute_t = c_uint;
/// What to ask of a function.
pub type hipFunction_attribute = c_uint;
/// Which other threads' calls may disturb a capture.
pub type hipStreamCaptureMode = c_uint;

/// Declares types that only exist behind a pointer.
macro_rules! opaque {
    ($($(#[$doc:meta])* $target:ident, $pointer:ident;)*) => {$(
        #[doc = concat!("Target of [`", stringify!($pointer), "`].")]
        #[repr(C)]
        #[derive(Debug)]
        pub struct $target {
            _opaque: [u8; 0],
        }
        $(#[$doc])*
        pub type $pointer = *mut $target;
    )*};
}

opaque! {
    /// A stream.
    ihipStream_t, hipStream_t;
    /// An event.
    ihipEvent_t, hipEvent_t;
    /// A loaded code object.
    ihipModule_t, hipModule_t;
    /// A kernel of a loaded code object.
    ihipModuleSymbol_t, hipFunction_t;
    /// A graph.
    ihipGraph, hipGraph_t;
    /// A node of a graph.
    hipGraphNode, hipGraphNode_t;
    /// An instantiated graph.
    hipGraphExec, hipGraphExec_t;
    /// A program that hiprtc compiles.
    _hiprtcProgram, hiprtcProgram;
}

/// Identity of a device: sixteen bytes, which AMD fills with the ASCII hexadecimal digits of the KFD `unique_id`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct hipUUID {
    /// The bytes.
    pub bytes: [c_char; 16],
}

/// Device properties as `hipGetDevicePropertiesR0600` writes them (HIP 6 and 7): 1472 bytes, of which only what no attribute gives is named.
#[repr(C, align(8))]
pub struct hipDeviceProp_tR0600 {
    /// Marketing name, NUL-terminated; may be empty.
    pub name: [c_char; 256],
    _other: [u8; 904],
    /// Architecture with its features, such as `gfx942:sramecc+:xnack-`.
    pub gcnArchName: [c_char; 256],
    _tail: [u8; 56],
}

/// Device properties as the entry point without a version writes them (HIP 5): 792 bytes.
#[repr(C, align(8))]
pub struct hipDeviceProp_tR0000 {
    /// Marketing name, NUL-terminated; may be empty.
    pub name: [c_char; 256],
    _other: [u8; 140],
    /// Architecture with its features.
    pub gcnArchName: [c_char; 256],
    _tail: [u8; 140],
}

const _: () = {
    assert!(size_of::<hipUUID>() == 16);
    assert!(size_of::<hipDeviceProp_tR0600>() == 1472);
    assert!(std::mem::offset_of!(hipDeviceProp_tR0600, gcnArchName) == 1160);
    assert!(size_of::<hipDeviceProp_tR0000>() == 792);
    assert!(std::mem::offset_of!(hipDeviceProp_tR0000, gcnArchName) == 396);
    // The width of a handle and of `size_t` decides the calls' layout.
    assert!(size_of::<hipDeviceptr_t>() == 8 && size_of::<usize>() == 8);
};

/// Declares constants of one type, and lists them by name so that they can be compared with a header.
macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $ty = $value;)*
        /// Every constant of this module that a HIP header defines as well: name and value.
        pub const CONSTANTS: &[(&str, u64)] = &[$((stringify!($name), $name as u64)),*];
    };
}

constants! {
    /// The call did what it should.
    hipSuccess: hipError_t = 0;
    /// An argument is out of its range; also the answer to an attribute that the library does not know.
    hipErrorInvalidValue: hipError_t = 1;
    /// Device memory is short.
    hipErrorOutOfMemory: hipError_t = 2;
    /// HIP is not initialised.
    hipErrorNotInitialized: hipError_t = 3;
    /// HIP has been shut down.
    hipErrorDeinitialized: hipError_t = 4;
    /// There is no GPU that HIP can use.
    hipErrorNoDevice: hipError_t = 100;
    /// No device has this number.
    hipErrorInvalidDevice: hipError_t = 101;
    /// The code object cannot be read.
    hipErrorInvalidImage: hipError_t = 200;
    /// The code object has no code for this device.
    hipErrorNoBinaryForGpu: hipError_t = 209;
    /// The handle is not one of HIP's.
    hipErrorInvalidHandle: hipError_t = 400;
    /// A named thing is not there.
    hipErrorNotFound: hipError_t = 500;
    /// Work is still under way: the answer of a query, not a failure.
    hipErrorNotReady: hipError_t = 600;
    /// A kernel touched memory that is not there.
    hipErrorIllegalAddress: hipError_t = 700;
    /// A kernel ran too long.
    hipErrorLaunchTimeOut: hipError_t = 702;
    /// A kernel failed.
    hipErrorLaunchFailure: hipError_t = 719;
    /// The library or the device cannot do this.
    hipErrorNotSupported: hipError_t = 801;
    /// The call is not allowed during a capture, and has ended it.
    hipErrorStreamCaptureUnsupported: hipError_t = 900;
    /// The capture has been ended by an earlier error.
    hipErrorStreamCaptureInvalidated: hipError_t = 901;
    /// An error without a code of its own.
    hipErrorUnknown: hipError_t = 999;

    /// An event with timing that spins when waited for.
    hipEventDefault: c_uint = 0;
    /// Waiting for the event sleeps rather than spins.
    hipEventBlockingSync: c_uint = 1;
    /// The event has no time.
    hipEventDisableTiming: c_uint = 2;
    /// The event does not flush caches to the system when recorded (HIP 6 and later; earlier ones refuse it).
    hipEventDisableSystemFence: c_uint = 0x2000_0000;
    /// A stream that does not wait for the null stream.
    hipStreamNonBlocking: c_uint = 1;
    /// Only calls of the capturing thread can disturb the capture.
    hipStreamCaptureModeThreadLocal: hipStreamCaptureMode = 1;

    /// Peak clock in kHz.
    hipDeviceAttributeClockRate: hipDeviceAttribute_t = 5;
    /// Bytes of L2 (of one XCD).
    hipDeviceAttributeL2CacheSize: hipDeviceAttribute_t = 19;
    /// Most work-items of a workgroup.
    hipDeviceAttributeMaxThreadsPerBlock: hipDeviceAttribute_t = 56;
    /// Most work-items on a multiprocessor.
    hipDeviceAttributeMaxThreadsPerMultiProcessor: hipDeviceAttribute_t = 57;
    /// Bits of the memory bus.
    hipDeviceAttributeMemoryBusWidth: hipDeviceAttribute_t = 59;
    /// Peak memory clock in kHz.
    hipDeviceAttributeMemoryClockRate: hipDeviceAttribute_t = 60;
    /// Multiprocessors: CUs, but WGPs (two CUs) on RDNA.
    hipDeviceAttributeMultiprocessorCount: hipDeviceAttribute_t = 63;
    /// PCI bus number.
    hipDeviceAttributePciBusId: hipDeviceAttribute_t = 67;
    /// PCI device number.
    hipDeviceAttributePciDeviceId: hipDeviceAttribute_t = 68;
    /// Most bytes of LDS of a workgroup.
    hipDeviceAttributeMaxSharedMemoryPerBlock: hipDeviceAttribute_t = 74;
    /// Lanes of a wave.
    hipDeviceAttributeWarpSize: hipDeviceAttribute_t = 87;
    /// Bytes of LDS of a multiprocessor.
    hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: hipDeviceAttribute_t = 10002;
    /// Silicon revision.
    hipDeviceAttributeAsicRevision: hipDeviceAttribute_t = 10012;
    /// CUs of the device.
    hipDeviceAttributePhysicalMultiProcessorCount: hipDeviceAttribute_t = 10015;
    /// Rate in kHz of the clock behind `wall_clock64()` (HIP 6 and later).
    hipDeviceAttributeWallClockRate: hipDeviceAttribute_t = 10017;
    /// XCDs of the device (HIP 7).
    hipDeviceAttributeNumberOfXccs: hipDeviceAttribute_t = 10018;
    /// Most vector registers of a work-item (HIP 7).
    hipDeviceAttributeMaxAvailableVgprsPerThread: hipDeviceAttribute_t = 10019;
    /// PCI device identity (HIP 7).
    hipDeviceAttributePciChipId: hipDeviceAttribute_t = 10020;

    /// Most work-items of a workgroup of this kernel.
    HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: hipFunction_attribute = 0;
    /// Static LDS in bytes.
    HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: hipFunction_attribute = 1;
    /// Constant memory in bytes.
    HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: hipFunction_attribute = 2;
    /// Scratch in bytes a work-item.
    HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: hipFunction_attribute = 3;
    /// Vector registers a work-item.
    HIP_FUNC_ATTRIBUTE_NUM_REGS: hipFunction_attribute = 4;
    /// Most bytes of dynamic LDS that a launch may ask for.
    HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: hipFunction_attribute = 8;

    /// The program was compiled.
    HIPRTC_SUCCESS: hiprtcResult = 0;
    /// The source has errors; the log says which.
    HIPRTC_ERROR_COMPILATION: hiprtcResult = 6;
    /// hiprtc itself failed.
    HIPRTC_ERROR_INTERNAL_ERROR: hiprtcResult = 11;
}

/// In a launch's `extra`: the next word points to the kernel arguments.
pub const HIP_LAUNCH_PARAM_BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
/// In a launch's `extra`: the next word points to the size in bytes of the kernel arguments.
pub const HIP_LAUNCH_PARAM_BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);
/// In a launch's `extra`: its end.
pub const HIP_LAUNCH_PARAM_END: *mut c_void = std::ptr::without_provenance_mut(3);
