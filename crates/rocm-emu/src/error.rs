//! HIP's error codes, the error that each thread remembers, and the guard around every C function.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Declares the codes with their names and texts.
macro_rules! codes {
    ($($variant:ident = $code:literal, $name:literal => $text:literal;)*) => {
        /// An error of the HIP interface, by its number in HIP 6 and 7 (those of HIP 5 are the same).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum HipError {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] $variant = $code,)*
        }

        /// Number, name and text of each, by number.
        static CODES: &[(c_int, &CStr, &CStr)] = &[$(
            ($code, c_str(concat!($name, "\0")), c_str(concat!($text, "\0"))),
        )*];
    };
}

/// A literal that ends in NUL as a C string; anything else does not compile.
const fn c_str(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    }
}

codes! {
    Success = 0, "hipSuccess" => "no error";
    InvalidValue = 1, "hipErrorInvalidValue" => "invalid argument";
    OutOfMemory = 2, "hipErrorOutOfMemory" => "out of memory";
    NotInitialized = 3, "hipErrorNotInitialized" => "not initialized";
    Deinitialized = 4, "hipErrorDeinitialized" => "already shut down";
    ProfilerDisabled = 5, "hipErrorProfilerDisabled" => "the profiler is disabled";
    ProfilerNotInitialized = 6, "hipErrorProfilerNotInitialized" => "the profiler is not initialized";
    ProfilerAlreadyStarted = 7, "hipErrorProfilerAlreadyStarted" => "the profiler has already been started";
    ProfilerAlreadyStopped = 8, "hipErrorProfilerAlreadyStopped" => "the profiler has already been stopped";
    InvalidConfiguration = 9, "hipErrorInvalidConfiguration" => "invalid launch configuration";
    InvalidPitchValue = 12, "hipErrorInvalidPitchValue" => "invalid pitch";
    InvalidSymbol = 13, "hipErrorInvalidSymbol" => "invalid device symbol";
    InvalidDevicePointer = 17, "hipErrorInvalidDevicePointer" => "invalid device pointer";
    InvalidMemcpyDirection = 21, "hipErrorInvalidMemcpyDirection" => "invalid copy direction";
    InsufficientDriver = 35, "hipErrorInsufficientDriver" => "the driver is older than the runtime needs";
    MissingConfiguration = 52, "hipErrorMissingConfiguration" => "a launch has not been configured";
    PriorLaunchFailure = 53, "hipErrorPriorLaunchFailure" => "an earlier launch failed";
    InvalidDeviceFunction = 98, "hipErrorInvalidDeviceFunction" => "invalid device function";
    NoDevice = 100, "hipErrorNoDevice" => "no ROCm-capable device is there";
    InvalidDevice = 101, "hipErrorInvalidDevice" => "invalid device number";
    InvalidImage = 200, "hipErrorInvalidImage" => "not a device code image";
    InvalidContext = 201, "hipErrorInvalidContext" => "invalid device context";
    ContextAlreadyCurrent = 202, "hipErrorContextAlreadyCurrent" => "the context is already current";
    MapFailed = 205, "hipErrorMapFailed" => "mapping failed";
    UnmapFailed = 206, "hipErrorUnmapFailed" => "unmapping failed";
    ArrayIsMapped = 207, "hipErrorArrayIsMapped" => "the array is mapped";
    AlreadyMapped = 208, "hipErrorAlreadyMapped" => "already mapped";
    NoBinaryForGpu = 209, "hipErrorNoBinaryForGpu" => "no code for this GPU";
    AlreadyAcquired = 210, "hipErrorAlreadyAcquired" => "already acquired";
    NotMapped = 211, "hipErrorNotMapped" => "not mapped";
    NotMappedAsArray = 212, "hipErrorNotMappedAsArray" => "not mapped as an array";
    NotMappedAsPointer = 213, "hipErrorNotMappedAsPointer" => "not mapped as a pointer";
    ECCNotCorrectable = 214, "hipErrorECCNotCorrectable" => "an ECC error that cannot be corrected";
    UnsupportedLimit = 215, "hipErrorUnsupportedLimit" => "this device has no such limit";
    ContextAlreadyInUse = 216, "hipErrorContextAlreadyInUse" => "the context is bound to another thread";
    PeerAccessUnsupported = 217, "hipErrorPeerAccessUnsupported" => "these devices cannot reach each other's memory";
    InvalidKernelFile = 218, "hipErrorInvalidKernelFile" => "invalid kernel file";
    InvalidGraphicsContext = 219, "hipErrorInvalidGraphicsContext" => "invalid graphics context";
    InvalidSource = 300, "hipErrorInvalidSource" => "invalid source";
    FileNotFound = 301, "hipErrorFileNotFound" => "file not found";
    SharedObjectSymbolNotFound = 302, "hipErrorSharedObjectSymbolNotFound" => "a symbol of a shared object was not found";
    SharedObjectInitFailed = 303, "hipErrorSharedObjectInitFailed" => "a shared object failed to initialize";
    OperatingSystem = 304, "hipErrorOperatingSystem" => "an operating system call failed";
    InvalidHandle = 400, "hipErrorInvalidHandle" => "invalid handle";
    IllegalState = 401, "hipErrorIllegalState" => "not possible in this state";
    NotFound = 500, "hipErrorNotFound" => "symbol not found";
    NotReady = 600, "hipErrorNotReady" => "work has not ended yet";
    IllegalAddress = 700, "hipErrorIllegalAddress" => "an illegal memory address was used";
    LaunchOutOfResources = 701, "hipErrorLaunchOutOfResources" => "too many resources asked for a launch";
    LaunchTimeOut = 702, "hipErrorLaunchTimeOut" => "the launch took too long and was ended";
    PeerAccessAlreadyEnabled = 704, "hipErrorPeerAccessAlreadyEnabled" => "peer access is already enabled";
    PeerAccessNotEnabled = 705, "hipErrorPeerAccessNotEnabled" => "peer access is not enabled";
    SetOnActiveProcess = 708, "hipErrorSetOnActiveProcess" => "not possible once the process uses the device";
    ContextIsDestroyed = 709, "hipErrorContextIsDestroyed" => "the context or handle has been destroyed";
    Assert = 710, "hipErrorAssert" => "a device assertion failed";
    HostMemoryAlreadyRegistered = 712, "hipErrorHostMemoryAlreadyRegistered" => "part of this host memory is registered already";
    HostMemoryNotRegistered = 713, "hipErrorHostMemoryNotRegistered" => "this host memory is not registered";
    LaunchFailure = 719, "hipErrorLaunchFailure" => "a launch failed";
    CooperativeLaunchTooLarge = 720, "hipErrorCooperativeLaunchTooLarge" => "too many workgroups for a cooperative launch";
    NotSupported = 801, "hipErrorNotSupported" => "not supported";
    StreamCaptureUnsupported = 900, "hipErrorStreamCaptureUnsupported" => "not permitted while a stream is capturing";
    StreamCaptureInvalidated = 901, "hipErrorStreamCaptureInvalidated" => "the capture failed because of an earlier error";
    StreamCaptureMerge = 902, "hipErrorStreamCaptureMerge" => "two captures must not be merged";
    StreamCaptureUnmatched = 903, "hipErrorStreamCaptureUnmatched" => "the capture did not begin in this stream";
    StreamCaptureUnjoined = 904, "hipErrorStreamCaptureUnjoined" => "a forked stream has not been joined";
    StreamCaptureIsolation = 905, "hipErrorStreamCaptureIsolation" => "a dependency would leave the capture";
    StreamCaptureImplicit = 906, "hipErrorStreamCaptureImplicit" => "the default stream must not be used while a stream is capturing";
    CapturedEvent = 907, "hipErrorCapturedEvent" => "not permitted on an event of a capture";
    StreamCaptureWrongThread = 908, "hipErrorStreamCaptureWrongThread" => "the capture began in another thread";
    GraphExecUpdateFailure = 910, "hipErrorGraphExecUpdateFailure" => "the graph cannot be updated this way";
    InvalidChannelDescriptor = 911, "hipErrorInvalidChannelDescriptor" => "invalid channel descriptor";
    InvalidTexture = 912, "hipErrorInvalidTexture" => "invalid texture";
    Unknown = 999, "hipErrorUnknown" => "unknown error";
    RuntimeMemory = 1052, "hipErrorRuntimeMemory" => "a memory call of the runtime below failed";
    RuntimeOther = 1053, "hipErrorRuntimeOther" => "a call of the runtime below failed";
    Tbd = 1054, "hipErrorTbd" => "an error without a number yet";
}

impl HipError {
    /// The number.
    pub fn code(self) -> c_int {
        self as c_int
    }

    /// The name, such as `hipErrorInvalidValue`.
    pub fn name(self) -> &'static str {
        row(self.code()).1.to_str().unwrap_or_default()
    }
}

impl std::fmt::Display for HipError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.code())
    }
}

/// What an implementation gives.
pub(crate) type Result<T = ()> = std::result::Result<T, HipError>;

/// The row of a number; of `hipErrorUnknown` when there is none.
fn row(code: c_int) -> &'static (c_int, &'static CStr, &'static CStr) {
    let find = |code| CODES.binary_search_by_key(&code, |row| row.0).ok().and_then(|index| CODES.get(index));
    static UNKNOWN: (c_int, &CStr, &CStr) = (999, c"hipErrorUnknown", c"unknown error");
    find(code).unwrap_or(&UNKNOWN)
}

thread_local! {
    /// The last error of the thread, 0 without one.
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// Runs the body of a C function: its error becomes the return value and the thread's last error, a panic becomes
/// `hipErrorUnknown` and a line on standard error. `hipErrorNotReady` is an answer, not an error, and is not remembered.
pub(crate) fn call(name: &str, body: impl FnOnce() -> Result) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        eprintln!("rocm-emu: {name} failed inside the emulator: please report it, with the lines above");
        Err(HipError::Unknown)
    });
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            if error != HipError::NotReady {
                LAST.set(error.code());
            }
            error.code()
        }
    }
}

/// `hipGetLastError`: the thread's last error, which is forgotten.
pub(crate) fn take_last() -> c_int {
    LAST.replace(0)
}

/// `hipPeekAtLastError`: the same, but it stays.
pub(crate) fn peek_last() -> c_int {
    LAST.get()
}

/// `hipGetErrorName`: never null.
pub(crate) fn name(code: c_int) -> *const c_char {
    row(code).1.as_ptr()
}

/// `hipGetErrorString`: never null.
pub(crate) fn text(code: c_int) -> *const c_char {
    row(code).2.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_unknown_ones_have_a_name() {
        assert!(CODES.is_sorted_by(|a, b| a.0 < b.0));
        for code in [-1, 10, 913, i32::MAX, i32::MIN] {
            assert_eq!((row(code).1, row(code).2), (c"hipErrorUnknown", c"unknown error"));
        }
        assert_eq!(HipError::NoBinaryForGpu.to_string(), "hipErrorNoBinaryForGpu (209)");
    }

    #[test]
    fn errors_are_remembered_once_and_not_ready_never() {
        assert_eq!(call("f", || Err(HipError::InvalidValue)), 1);
        assert_eq!(call("f", || Err(HipError::NotReady)), 600);
        assert_eq!(call("f", || Ok(())), 0);
        assert_eq!((peek_last(), take_last(), take_last()), (1, 1, 0));
        assert_eq!(call("f", || panic!("on purpose")), 999);
        assert_eq!(take_last(), 999);
    }
}
