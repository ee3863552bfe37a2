//! What the emulated HIP runtime tells a profiler: the C interface between it and the emulated rocprofiler-sdk.
//!
//! Both may live in one process image (kbench itself, this crate linked in) or in two shared libraries that each contain a
//! copy of this crate. So nothing here relies on shared statics: the two halves find each other once, at the first HIP call
//! that initialises the runtime, and then talk through a table of callbacks.
//!
//! # Order of events
//! 1. The SDK half, when a tool has configured it, offers an [`Attach`] function: in one image through
//!    [`register`], in a shared library by exporting it as `rocm_emu_sdk_attach` beside `rocprofiler_set_api_table`, in the
//!    global symbol scope.
//! 2. The HIP half initialises. It asks [`register`]ed functions first, then looks up the two symbols, and calls the
//!    function **once** with a [`Runtime`]. An answer other than 0, or no function, means that nothing is ever reported:
//!    a tool that is configured after HIP gets no records, as with the real libraries.
//! 3. The SDK half fills a [`Tool`]. Callbacks that are `None` are not called.
//! 4. For each device that HIP initialises: [`Tool::code_object_loaded`] for the runtime's own code object (copies and fills,
//!    `__amd_rocclr_*`, without bytes). For each module: the same with its bytes; [`Tool::code_object_unloaded`] at unload.
//! 5. For each dispatch: [`Tool::dispatch_enqueued`] on the launching thread before it runs (its answer says whether counters
//!    are wanted), then [`Tool::dispatch_completed`] with times and counters. `hipMemset*` and device-to-device copies are
//!    dispatches of the runtime's own kernels, nodes of graphs are dispatches like any other.
//!
//! # Rules
//! Pointers in the structures are valid during the callback only, unless said otherwise: copy what is to be kept. Callbacks run on the
//! thread that called HIP, never while a lock of the HIP half is held. They must not unwind and must not call HIP. Each structure starts with its own
//! size in bytes, as the HIP half knows it: fields are only ever added at the end. Times are ns of the virtual clock
//! ([`Runtime::now_ns`]), which starts at [`CLOCK_START_NS`].

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, size_of};
use std::sync::Mutex;

/// Version of this interface. A half that meets another version stays away.
pub const ABI_VERSION: u32 = 1;
/// Where the virtual clock starts, ns.
pub const CLOCK_START_NS: u64 = 1_000_000_000_000;
/// The exported name of the attach function in a shared library.
pub const ATTACH_SYMBOL: &std::ffi::CStr = c"rocm_emu_sdk_attach";
/// The symbol by which HIP knows that a profiler is loaded: the same that the real runtime looks for.
pub const REGISTRATION_SYMBOL: &std::ffi::CStr = c"rocprofiler_set_api_table";

/// The SDK half's function: reads `runtime`, fills `tool`, gives 0; anything else means that it wants no reports.
pub type Attach = unsafe extern "C" fn(runtime: *const Runtime, tool: *mut Tool) -> c_int;

/// What the HIP half says of itself. It stays valid as long as the process.
#[derive(Debug)]
#[repr(C)]
pub struct Runtime {
    /// Bytes of this structure.
    pub size: usize,
    /// [`ABI_VERSION`].
    pub abi_version: u32,
    /// Emulated devices. Device `i` is the agent with handle [`agent_handle`]`(i)`.
    pub devices: u32,
    /// HIP's version number, such as 70253211.
    pub hip_version: u32,
    /// Zero.
    pub reserved: u32,
    /// The virtual clock now, ns.
    pub now_ns: unsafe extern "C" fn() -> u64,
}

/// The SDK half's callbacks; `data` comes back with each.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Tool {
    /// Bytes of this structure, set by the HIP half before [`Attach`] is called. Callbacks beyond it do not exist.
    pub size: usize,
    /// Passed to each callback.
    pub data: *mut c_void,
    /// A code object is on a device.
    pub code_object_loaded: Option<unsafe extern "C" fn(data: *mut c_void, object: *const CodeObject)>,
    /// It is leaving.
    pub code_object_unloaded: Option<unsafe extern "C" fn(data: *mut c_void, object: *const CodeObject)>,
    /// A dispatch is about to run; its times are 0. Gives whether counters are wanted (not 0), which costs time.
    pub dispatch_enqueued: Option<unsafe extern "C" fn(data: *mut c_void, dispatch: *const Dispatch) -> c_int>,
    /// It has ended. Dispatches that fault or hang are never completed.
    pub dispatch_completed: Option<unsafe extern "C" fn(data: *mut c_void, dispatch: *const Dispatch)>,
}

// SAFETY: `data` belongs to the SDK half, which takes its callbacks on any thread.
unsafe impl Send for Tool {}
// SAFETY: as above.
unsafe impl Sync for Tool {}

impl Tool {
    /// A table without callbacks.
    pub const fn empty() -> Self {
        Self {
            size: size_of::<Self>(),
            data: std::ptr::null_mut(),
            code_object_loaded: None,
            code_object_unloaded: None,
            dispatch_enqueued: None,
            dispatch_completed: None,
        }
    }
}

/// A loaded code object.
#[derive(Debug)]
#[repr(C)]
pub struct CodeObject {
    /// Bytes of this structure.
    pub size: usize,
    /// Its number, from 1, never used twice.
    pub code_object_id: u64,
    /// Agent handle of the device.
    pub agent: u64,
    /// The ELF file; null for the runtime's own.
    pub bytes: *const u8,
    /// Its bytes; 0 for the runtime's own.
    pub bytes_len: usize,
    /// Device address that virtual address 0 was loaded at.
    pub load_base: u64,
    /// Bytes of device memory it takes.
    pub load_size: u64,
    /// Device address minus virtual address: the same as `load_base` here.
    pub load_delta: i64,
    /// Where it came from (`file://...` or `memory://...`), NUL-terminated.
    pub uri: *const c_char,
    /// Its kernels.
    pub kernels: *const KernelSymbol,
    /// How many.
    pub kernels_len: usize,
}

/// A kernel of a loaded code object.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelSymbol {
    /// Bytes of this structure: the stride of the list.
    pub size: usize,
    /// Its number, from 1, never used twice; one a kernel and device.
    pub kernel_id: u64,
    /// Name of the descriptor symbol (`_Z4axpyPKfPfid.kd`), NUL-terminated.
    pub name: *const c_char,
    /// Device address of the descriptor.
    pub kernel_object: u64,
    /// Device address of the first instruction.
    pub entry_address: u64,
    /// Offset of the first instruction from the descriptor.
    pub entry_offset: i64,
    /// Bytes of the argument block.
    pub kernarg_size: u32,
    /// Alignment of the argument block.
    pub kernarg_align: u32,
    /// Static LDS of a workgroup, bytes.
    pub group_segment: u32,
    /// Scratch of a work-item, bytes.
    pub private_segment: u32,
    /// SGPRs as the descriptor's granules allocate them.
    pub sgprs: u32,
    /// Architectural VGPRs, likewise.
    pub vgprs: u32,
    /// Accumulation VGPRs, likewise.
    pub agprs: u32,
    /// Zero.
    pub reserved: u32,
}

/// A dispatch.
#[derive(Debug)]
#[repr(C)]
pub struct Dispatch {
    /// Bytes of this structure.
    pub size: usize,
    /// Its number, from 1, process-wide, in the order of enqueueing.
    pub dispatch_id: u64,
    /// Number of the HIP call it belongs to; the nodes of a graph launch share it.
    pub correlation_id: u64,
    /// [`KernelSymbol::kernel_id`].
    pub kernel_id: u64,
    /// [`CodeObject::code_object_id`].
    pub code_object_id: u64,
    /// Agent handle of the device.
    pub agent: u64,
    /// Number of the hardware queue, from 1: one a stream.
    pub queue: u64,
    /// OS thread that enqueued it.
    pub thread: u64,
    /// Name of the kernel without `.kd`, NUL-terminated.
    pub name: *const c_char,
    /// Grid in **work-items**, x y z.
    pub grid: [u32; 3],
    /// Workgroup in work-items, x y z.
    pub workgroup: [u32; 3],
    /// LDS of a workgroup, static and dynamic, bytes.
    pub group_segment: u32,
    /// Scratch of a work-item, bytes.
    pub private_segment: u32,
    /// When it was enqueued, virtual ns.
    pub enqueued_ns: u64,
    /// When it started, virtual ns; 0 before.
    pub start_ns: u64,
    /// When it ended, virtual ns; 0 before. A clock script may put it before the start.
    pub end_ns: u64,
    /// What was counted; null unless it was asked for. Values are sums over all instances of a block.
    pub counters: *const CounterValue,
    /// How many.
    pub counters_len: usize,
}

/// A counter of a dispatch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CounterValue {
    /// rocprofiler's name of the counter, without `_sum`, NUL-terminated.
    pub name: *const c_char,
    /// The sum over all instances (`GRBM_*`: of one XCD).
    pub value: f64,
    /// [`CounterKind`].
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
}

/// How a counter's value came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CounterKind {
    /// Counted as the hardware is documented to count.
    Exact = 0,
    /// By a model of the hardware.
    Model = 1,
    /// By a formula from other counters.
    Derived = 2,
}

// The layout is a contract between two shared libraries.
const _: () = {
    assert!(size_of::<Runtime>() == 32 && offset_of!(Runtime, now_ns) == 24);
    assert!(size_of::<Tool>() == 48 && offset_of!(Tool, dispatch_completed) == 40);
    assert!(size_of::<CodeObject>() == 88 && offset_of!(CodeObject, kernels) == 72);
    assert!(size_of::<KernelSymbol>() == 80 && offset_of!(KernelSymbol, kernarg_size) == 48);
    assert!(size_of::<Dispatch>() == 144 && offset_of!(Dispatch, grid) == 72 && offset_of!(Dispatch, counters) == 128);
    assert!(size_of::<CounterValue>() == 24);
};

/// The SDK's agent handle of emulated device `index`, the same in every copy of this crate.
pub const fn agent_handle(index: u32) -> u64 {
    0x656d_7500 + index as u64 + 1
}

static ATTACH: Mutex<Option<Attach>> = Mutex::new(None);

/// Offers the SDK half of the same image to the HIP half. It counts only when it comes before HIP is initialised; `None` takes
/// it back. The function must keep to [`Attach`]'s contract.
pub fn register(attach: Option<Attach>) {
    *ATTACH.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = attach;
}

/// The function that the HIP half has to call: the registered one, else that of a loaded shared library.
pub(crate) fn find() -> Option<Attach> {
    let registered = *ATTACH.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    registered.or_else(in_global_scope)
}

#[cfg(unix)]
fn in_global_scope() -> Option<Attach> {
    let scope = libloading::os::unix::Library::this();
    // SAFETY: only the presence of the first symbol is looked at; the second has the documented type in every library that
    // exports it, which only this project's does.
    unsafe {
        scope.get::<*const c_void>(REGISTRATION_SYMBOL.to_bytes_with_nul()).ok()?;
        scope.get::<Attach>(ATTACH_SYMBOL.to_bytes_with_nul()).ok().map(|symbol| *symbol)
    }
}

#[cfg(not(unix))]
fn in_global_scope() -> Option<Attach> {
    None
}
