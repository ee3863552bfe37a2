//! The functions: their types, and tables that look each one up once, when it is first called.
#![allow(clippy::type_complexity)]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::*;

/// Something that knows addresses of functions by name: a loaded library, or a table in this process.
///
/// # Safety
/// An address given for a name is that of a function that keeps to HIP's C interface of that name, and stays valid until the process ends.
pub unsafe trait Symbols {
    /// The address of `name`, or nothing when there is none.
    fn find(&self, name: &CStr) -> Option<NonNull<c_void>>;
}

/// A function is not in the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingSymbol {
    /// Its name.
    pub symbol: &'static str,
    /// What cannot be done without it.
    pub needed_for: &'static str,
}

/// The declaration of one function as text, to be compared with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prototype {
    /// Its name.
    pub name: &'static str,
    /// The types of its parameters.
    pub parameters: &'static [&'static str],
    /// The type of its result.
    pub result: &'static str,
}

/// A function's address: not looked up, known to be absent, or there.
struct Slot<F>(OnceLock<Option<F>>);

impl<F: Copy> Slot<F> {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The function, found under the first of `names` that the library has.
    ///
    /// # Safety
    /// `F` is the type of the C function that all of `names` stand for, a function pointer.
    unsafe fn get(&self, symbols: &dyn Symbols, names: &[&CStr]) -> Option<F> {
        *self.0.get_or_init(|| {
            let address = names.iter().find_map(|name| symbols.find(name))?;
            const { assert!(size_of::<F>() == size_of::<NonNull<c_void>>()) };
            // SAFETY: `F` is a function pointer (this function's contract), so it has the size of an address (asserted), and the address is
            // that of a function of this type (contract of `Symbols`).
            Some(unsafe { std::mem::transmute_copy::<NonNull<c_void>, F>(&address) })
        })
    }
}

/// Declares a table of functions: a slot each, an accessor each, and the list of prototypes.
macro_rules! functions {
    (
        $(#[$table_doc:meta])*
        $table:ident {
            $($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, $why:literal $(, or $alias:literal)*;)*
        }
    ) => {
        $(#[$table_doc])*
        pub struct $table {
            $($name: Slot<unsafe extern "C" fn($($ty),*) -> $ret>,)*
        }

        impl $table {
            /// An empty table: nothing has been looked up.
            #[must_use]
            pub const fn new() -> Self {
                Self { $($name: Slot::new(),)* }
            }

            /// Every function of this table.
            pub const PROTOTYPES: &'static [Prototype] = &[
                $(Prototype {
                    name: stringify!($name),
                    parameters: &[$(stringify!($ty)),*],
                    result: stringify!($ret),
                },)*
            ];

            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The library does not have it.
                pub fn $name(&self, symbols: &dyn Symbols) -> Result<unsafe extern "C" fn($($arg: $ty),*) -> $ret, MissingSymbol> {
                    const NAMES: &[&CStr] = &[c_name(concat!(stringify!($name), "\0")) $(, c_name(concat!($alias, "\0")))*];
                    // SAFETY: the slot's type is the one declared for this name.
                    unsafe { self.$name.get(symbols, NAMES) }
                        .ok_or(MissingSymbol { symbol: stringify!($name), needed_for: $why })
                }
            )*
        }

        impl Default for $table {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

/// A name that ends in a NUL as a C string.
const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        // An empty name is in no library.
        Err(_) => c"",
    }
}

functions! {
    /// The functions of HIP that this crate calls.
    Hip {
        /// Initialises HIP.
        hipInit(flags: c_uint) -> hipError_t, "initialising HIP";
        /// Version of the driver interface.
        hipDriverGetVersion(version: *mut c_int) -> hipError_t, "the driver's version";
        /// Version of the runtime.
        hipRuntimeGetVersion(version: *mut c_int) -> hipError_t, "the runtime's version";
        /// How many devices there are.
        hipGetDeviceCount(count: *mut c_int) -> hipError_t, "counting devices";
        /// Makes a device the calling thread's current one.
        hipSetDevice(device: c_int) -> hipError_t, "choosing a device";
        /// Waits for all work of the current device.
        hipDeviceSynchronize() -> hipError_t, "waiting for a device";
        /// One attribute of a device.
        hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int) -> hipError_t, "a device's attributes";
        /// Properties of a device in the layout of HIP 6 and 7.
        hipGetDevicePropertiesR0600(properties: *mut hipDeviceProp_tR0600, device: c_int) -> hipError_t, "a device's architecture";
        /// Properties of a device in the layout of HIP 5.
        hipGetDevicePropertiesR0000(properties: *mut hipDeviceProp_tR0000, device: c_int) -> hipError_t, "a device's architecture (HIP 5)";
        /// Properties of a device in the layout of HIP 5, under the name without a version.
        hipGetDeviceProperties(properties: *mut hipDeviceProp_tR0000, device: c_int) -> hipError_t, "a device's architecture (HIP 5)";
        /// Name of a device.
        hipDeviceGetName(name: *mut c_char, length: c_int, device: hipDevice_t) -> hipError_t, "a device's name";
        /// Identity of a device.
        hipDeviceGetUuid(uuid: *mut hipUUID, device: hipDevice_t) -> hipError_t, "a device's identity";
        /// PCI address of a device as text.
        hipDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) -> hipError_t, "a device's PCI address";
        /// Bytes of memory of a device.
        hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) -> hipError_t, "a device's memory size";
        /// Free and total bytes of the current device.
        hipMemGetInfo(free: *mut usize, total: *mut usize) -> hipError_t, "a device's free memory";
        /// Short name of an error.
        hipGetErrorName(error: hipError_t) -> *const c_char, "the name of an error";
        /// Text of an error.
        hipGetErrorString(error: hipError_t) -> *const c_char, "the text of an error";

        /// Allocates device memory.
        hipMalloc(pointer: *mut *mut c_void, bytes: usize) -> hipError_t, "allocating device memory";
        /// Frees device memory.
        hipFree(pointer: *mut c_void) -> hipError_t, "freeing device memory";
        /// Copies to device memory.
        hipMemcpyHtoD(to: hipDeviceptr_t, from: *const c_void, bytes: usize) -> hipError_t, "copying to a device";
        /// Copies from device memory.
        hipMemcpyDtoH(to: *mut c_void, from: hipDeviceptr_t, bytes: usize) -> hipError_t, "copying from a device";
        /// Copies within device memory, in a stream.
        hipMemcpyDtoDAsync(to: hipDeviceptr_t, from: hipDeviceptr_t, bytes: usize, stream: hipStream_t) -> hipError_t, "copying within a device";
        /// Fills with a byte, in a stream.
        hipMemsetD8Async(to: hipDeviceptr_t, value: c_uchar, count: usize, stream: hipStream_t) -> hipError_t, "filling device memory";
        /// Fills with a 32-bit word, in a stream.
        hipMemsetD32Async(to: hipDeviceptr_t, value: c_int, count: usize, stream: hipStream_t) -> hipError_t, "filling device memory";

        /// Creates a stream.
        hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) -> hipError_t, "creating a stream";
        /// Destroys a stream.
        hipStreamDestroy(stream: hipStream_t) -> hipError_t, "destroying a stream";
        /// Waits for a stream.
        hipStreamSynchronize(stream: hipStream_t) -> hipError_t, "waiting for a stream";
        /// Asks whether a stream's work is done.
        hipStreamQuery(stream: hipStream_t) -> hipError_t, "asking for a stream's state";
        /// Makes a stream wait for an event.
        hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> hipError_t, "ordering streams";
        /// Begins to capture.
        hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) -> hipError_t, "capturing a graph";
        /// Ends a capture.
        hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) -> hipError_t, "capturing a graph";

        /// Creates an event.
        hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) -> hipError_t, "creating an event";
        /// Destroys an event.
        hipEventDestroy(event: hipEvent_t) -> hipError_t, "destroying an event";
        /// Records an event.
        hipEventRecord(event: hipEvent_t, stream: hipStream_t) -> hipError_t, "recording an event";
        /// Waits for an event.
        hipEventSynchronize(event: hipEvent_t) -> hipError_t, "waiting for an event";
        /// Asks whether an event has come.
        hipEventQuery(event: hipEvent_t) -> hipError_t, "asking for an event's state";
        /// Milliseconds between two events.
        hipEventElapsedTime(ms: *mut f32, start: hipEvent_t, stop: hipEvent_t) -> hipError_t, "the time between events";

        /// Loads a code object from memory.
        hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) -> hipError_t, "loading a code object";
        /// Unloads a code object.
        hipModuleUnload(module: hipModule_t) -> hipError_t, "unloading a code object";
        /// A kernel by name.
        hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) -> hipError_t, "finding a kernel";
        /// One attribute of a kernel.
        hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t) -> hipError_t, "a kernel's resources";
        /// How many workgroups of a kernel fit on a multiprocessor.
        hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: hipFunction_t, block: c_int, dynamic_lds: usize) -> hipError_t,
            "a kernel's occupancy";
        /// Launches a kernel; the grid is in workgroups.
        hipModuleLaunchKernel(
            function: hipFunction_t, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint,
            dynamic_lds: c_uint, stream: hipStream_t, parameters: *mut *mut c_void, extra: *mut *mut c_void,
        ) -> hipError_t, "launching a kernel";
        /// Launches a kernel between two events that take its own start and end; the grid is in work-items.
        hipExtModuleLaunchKernel(
            function: hipFunction_t, items_x: u32, items_y: u32, items_z: u32, block_x: u32, block_y: u32, block_z: u32,
            dynamic_lds: usize, stream: hipStream_t, parameters: *mut *mut c_void, extra: *mut *mut c_void, start: hipEvent_t, stop: hipEvent_t,
            flags: u32,
        ) -> hipError_t, "timing single dispatches",
            or "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j";

        /// Destroys a graph.
        hipGraphDestroy(graph: hipGraph_t) -> hipError_t, "destroying a graph";
        /// Nodes of a graph.
        hipGraphGetNodes(graph: hipGraph_t, nodes: *mut hipGraphNode_t, count: *mut usize) -> hipError_t, "counting a graph's nodes";
        /// Makes a graph ready to launch.
        hipGraphInstantiate(
            exec: *mut hipGraphExec_t, graph: hipGraph_t, error_node: *mut hipGraphNode_t, log: *mut c_char, log_bytes: usize,
        ) -> hipError_t, "instantiating a graph";
        /// Launches a graph.
        hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t) -> hipError_t, "launching a graph";
        /// Destroys an instantiated graph.
        hipGraphExecDestroy(exec: hipGraphExec_t) -> hipError_t, "destroying an instantiated graph";
    }
}

functions! {
    /// The functions of hiprtc that this crate calls.
    Hiprtc {
        /// Version of hiprtc.
        hiprtcVersion(major: *mut c_int, minor: *mut c_int) -> hiprtcResult, "hiprtc's version";
        /// Text of a status; NULL for statuses that the library does not know.
        hiprtcGetErrorString(result: hiprtcResult) -> *const c_char, "the text of an error";
        /// Makes a program of a source.
        hiprtcCreateProgram(
            program: *mut hiprtcProgram, source: *const c_char, name: *const c_char, headers: c_int, header_sources: *mut *const c_char,
            header_names: *mut *const c_char,
        ) -> hiprtcResult, "compiling at run time";
        /// Compiles a program.
        hiprtcCompileProgram(program: hiprtcProgram, count: c_int, options: *mut *const c_char) -> hiprtcResult, "compiling at run time";
        /// Destroys a program.
        hiprtcDestroyProgram(program: *mut hiprtcProgram) -> hiprtcResult, "compiling at run time";
        /// Bytes of the log, with its NUL.
        hiprtcGetProgramLogSize(program: hiprtcProgram, bytes: *mut usize) -> hiprtcResult, "the compiler's log";
        /// The log.
        hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char) -> hiprtcResult, "the compiler's log";
        /// Bytes of the code.
        hiprtcGetCodeSize(program: hiprtcProgram, bytes: *mut usize) -> hiprtcResult, "compiled code";
        /// The code.
        hiprtcGetCode(program: hiprtcProgram, code: *mut c_char) -> hiprtcResult, "compiled code";
    }
}
