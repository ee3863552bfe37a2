//! The C interface: one list of all functions, from which the table and the shared library's exports are made.

#![allow(unsafe_code)]

use crate::error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

/// Calls a macro with the list of the functions that give an error code: `name => module::function(argument: type, ...);`.
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_hip_function {
    ($callback:ident) => {
        $callback! {
            hipInit => device::init(flags: u32);
            hipDriverGetVersion => device::driver_version(out: *mut i32);
            hipRuntimeGetVersion => device::driver_version(out: *mut i32);
            hipGetDeviceCount => device::count(out: *mut i32);
            hipSetDevice => device::set(device: i32);
            hipGetDevice => device::get(out: *mut i32);
            hipDeviceGet => device::by_ordinal(out: *mut i32, ordinal: i32);
            hipDeviceGetName => device::name(out: *mut c_char, length: i32, device: i32);
            hipDeviceGetUuid => device::uuid(out: *mut [u8; 16], device: i32);
            hipDeviceGetPCIBusId => device::pci_bus_id(out: *mut c_char, length: i32, device: i32);
            hipDeviceGetByPCIBusId => device::by_pci_bus_id(out: *mut i32, text: *const c_char);
            hipDeviceTotalMem => device::total_memory(out: *mut usize, device: i32);
            hipDeviceComputeCapability => device::capability(major: *mut i32, minor: *mut i32, device: i32);
            hipDeviceGetAttribute => device::attribute(out: *mut i32, attribute: i32, device: i32);
            hipGetDevicePropertiesR0600 => device::properties(out: *mut c_void, device: i32);
            hipGetDevicePropertiesR0000 => device::old_properties(out: *mut c_void, device: i32);
            hipGetDeviceProperties => device::old_properties(out: *mut c_void, device: i32);
            hipDeviceSynchronize => device::synchronize();
            hipDeviceReset => device::reset();
            hipDeviceCanAccessPeer => device::can_access_peer(out: *mut i32, device: i32, peer: i32);
            hipDeviceEnablePeerAccess => device::enable_peer(peer: i32, flags: u32);
            hipDeviceDisablePeerAccess => device::disable_peer(peer: i32);
            hipSetDeviceFlags => device::set_flags(flags: u32);
            hipGetDeviceFlags => device::flags(out: *mut u32);
            hipDeviceGetStreamPriorityRange => stream::priority_range(least: *mut i32, greatest: *mut i32);

            hipMalloc => memory::malloc(out: *mut *mut c_void, bytes: usize);
            hipExtMallocWithFlags => memory::malloc_with_flags(out: *mut *mut c_void, bytes: usize, flags: u32);
            hipMallocAsync => memory::malloc_async(out: *mut *mut c_void, bytes: usize, stream: *mut c_void);
            hipMallocManaged => memory::malloc_managed(out: *mut *mut c_void, bytes: usize, flags: u32);
            hipHostMalloc => memory::host_malloc(out: *mut *mut c_void, bytes: usize, flags: u32);
            hipHostAlloc => memory::host_malloc(out: *mut *mut c_void, bytes: usize, flags: u32);
            hipMallocHost => memory::malloc_host(out: *mut *mut c_void, bytes: usize);
            hipMemAllocHost => memory::malloc_host(out: *mut *mut c_void, bytes: usize);
            hipFree => memory::free(pointer: *mut c_void);
            hipFreeAsync => memory::free_async(pointer: *mut c_void, stream: *mut c_void);
            hipHostFree => memory::host_free(pointer: *mut c_void);
            hipFreeHost => memory::host_free(pointer: *mut c_void);
            hipHostGetDevicePointer => memory::host_device_pointer(out: *mut *mut c_void, pointer: *mut c_void, flags: u32);
            hipHostGetFlags => memory::host_flags(out: *mut u32, pointer: *mut c_void);
            hipMemGetInfo => memory::info(free: *mut usize, total: *mut usize);
            hipMemGetAddressRange => memory::address_range(base: *mut *mut c_void, size: *mut usize, pointer: *mut c_void);
            hipMemPtrGetInfo => memory::pointer_size(pointer: *mut c_void, size: *mut usize);
            hipPointerGetAttributes => memory::pointer_attributes(out: *mut c_void, pointer: *const c_void);
            hipMemcpy => memory::memcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: i32);
            hipMemcpyAsync => memory::memcpy_async(to: *mut c_void, from: *const c_void, bytes: usize, kind: i32, stream: *mut c_void);
            hipMemcpyWithStream => memory::memcpy_with_stream(to: *mut c_void, from: *const c_void, bytes: usize, kind: i32, stream: *mut c_void);
            hipMemcpyHtoD => memory::memcpy_htod(to: *mut c_void, from: *mut c_void, bytes: usize);
            hipMemcpyDtoH => memory::memcpy_dtoh(to: *mut c_void, from: *mut c_void, bytes: usize);
            hipMemcpyDtoD => memory::memcpy_dtod(to: *mut c_void, from: *mut c_void, bytes: usize);
            hipMemcpyHtoDAsync => memory::memcpy_htod_async(to: *mut c_void, from: *mut c_void, bytes: usize, stream: *mut c_void);
            hipMemcpyDtoHAsync => memory::memcpy_dtoh_async(to: *mut c_void, from: *mut c_void, bytes: usize, stream: *mut c_void);
            hipMemcpyDtoDAsync => memory::memcpy_dtod_async(to: *mut c_void, from: *mut c_void, bytes: usize, stream: *mut c_void);
            hipMemset => memory::memset(to: *mut c_void, value: i32, bytes: usize);
            hipMemsetAsync => memory::memset_async(to: *mut c_void, value: i32, bytes: usize, stream: *mut c_void);
            hipMemsetD8 => memory::memset_d8(to: *mut c_void, value: u8, count: usize);
            hipMemsetD8Async => memory::memset_d8_async(to: *mut c_void, value: u8, count: usize, stream: *mut c_void);
            hipMemsetD16 => memory::memset_d16(to: *mut c_void, value: u16, count: usize);
            hipMemsetD16Async => memory::memset_d16_async(to: *mut c_void, value: u16, count: usize, stream: *mut c_void);
            hipMemsetD32 => memory::memset_d32(to: *mut c_void, value: i32, count: usize);
            hipMemsetD32Async => memory::memset_d32_async(to: *mut c_void, value: i32, count: usize, stream: *mut c_void);

            hipStreamCreate => stream::create_plain(out: *mut *mut c_void);
            hipStreamCreateWithFlags => stream::create_with_flags(out: *mut *mut c_void, flags: u32);
            hipStreamCreateWithPriority => stream::create_with_priority(out: *mut *mut c_void, flags: u32, priority: i32);
            hipStreamDestroy => stream::destroy(stream: *mut c_void);
            hipStreamSynchronize => stream::synchronize(stream: *mut c_void);
            hipStreamQuery => stream::query(stream: *mut c_void);
            hipStreamWaitEvent => stream::wait_event(stream: *mut c_void, event: *mut c_void, flags: u32);
            hipStreamGetFlags => stream::flags(stream: *mut c_void, out: *mut u32);
            hipStreamGetPriority => stream::priority(stream: *mut c_void, out: *mut i32);
            hipStreamGetDevice => stream::device(stream: *mut c_void, out: *mut i32);
            hipStreamAddCallback => stream::add_callback(stream: *mut c_void, function: Option<unsafe extern "C" fn(*mut c_void, i32, *mut c_void)>, data: *mut c_void, flags: u32);
            hipLaunchHostFunc => stream::launch_host(stream: *mut c_void, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void);

            hipEventCreate => event::create(out: *mut *mut c_void);
            hipEventCreateWithFlags => event::create_with_flags(out: *mut *mut c_void, flags: u32);
            hipEventRecord => event::record(event: *mut c_void, stream: *mut c_void);
            hipEventRecordWithFlags => event::record_with_flags(event: *mut c_void, stream: *mut c_void, flags: u32);
            hipEventSynchronize => event::synchronize(event: *mut c_void);
            hipEventQuery => event::query(event: *mut c_void);
            hipEventElapsedTime => event::elapsed(out: *mut f32, start: *mut c_void, stop: *mut c_void);
            hipEventDestroy => event::destroy(event: *mut c_void);

            hipModuleLoad => module::load_file(out: *mut *mut c_void, path: *const c_char);
            hipModuleLoadData => module::load_data(out: *mut *mut c_void, image: *const c_void);
            hipModuleLoadDataEx => module::load_data_ex(out: *mut *mut c_void, image: *const c_void, options: u32, names: *mut i32, values: *mut *mut c_void);
            hipModuleUnload => module::unload(module: *mut c_void);
            hipModuleGetFunction => module::get_function(out: *mut *mut c_void, module: *mut c_void, name: *const c_char);
            hipModuleGetGlobal => module::get_global(address: *mut *mut c_void, size: *mut usize, module: *mut c_void, name: *const c_char);
            hipFuncGetAttribute => module::attribute(out: *mut i32, attribute: i32, function: *mut c_void);
            hipModuleOccupancyMaxActiveBlocksPerMultiprocessor => module::max_blocks(out: *mut i32, function: *mut c_void, block: i32, dynamic_lds: usize);
            hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => module::max_blocks_with_flags(out: *mut i32, function: *mut c_void, block: i32, dynamic_lds: usize, flags: u32);
            hipModuleOccupancyMaxPotentialBlockSize => module::best_block(grid: *mut i32, block: *mut i32, function: *mut c_void, dynamic_lds: usize, limit: i32);
            hipModuleLaunchKernel => launch::module_launch(function: *mut c_void, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, dynamic_lds: u32, stream: *mut c_void, params: *mut *mut c_void, extra: *mut *mut c_void);
            hipExtModuleLaunchKernel => launch::ext_module_launch(function: *mut c_void, items_x: u32, items_y: u32, items_z: u32, block_x: u32, block_y: u32, block_z: u32, dynamic_lds: usize, stream: *mut c_void, params: *mut *mut c_void, extra: *mut *mut c_void, start: *mut c_void, stop: *mut c_void, flags: u32);

            hipStreamBeginCapture => graph::begin(stream: *mut c_void, mode: u32);
            hipStreamEndCapture => graph::end(stream: *mut c_void, out: *mut *mut c_void);
            hipStreamIsCapturing => graph::is_capturing(stream: *mut c_void, out: *mut i32);
            hipStreamGetCaptureInfo => graph::capture_info(stream: *mut c_void, out: *mut i32, id: *mut u64);
            hipThreadExchangeStreamCaptureMode => graph::exchange_mode(mode: *mut u32);
            hipGraphCreate => graph::create(out: *mut *mut c_void, flags: u32);
            hipGraphDestroy => graph::destroy(graph: *mut c_void);
            hipGraphInstantiate => graph::instantiate(out: *mut *mut c_void, graph: *mut c_void, error_node: *mut *mut c_void, log: *mut c_char, log_bytes: usize);
            hipGraphInstantiateWithFlags => graph::instantiate_with_flags(out: *mut *mut c_void, graph: *mut c_void, flags: u64);
            hipGraphLaunch => graph::launch(graph: *mut c_void, stream: *mut c_void);
            hipGraphUpload => graph::upload(graph: *mut c_void, stream: *mut c_void);
            hipGraphExecDestroy => graph::destroy_exec(graph: *mut c_void);
            hipGraphGetNodes => graph::nodes(graph: *mut c_void, out: *mut *mut c_void, count: *mut usize);
            hipGraphGetRootNodes => graph::root_nodes(graph: *mut c_void, out: *mut *mut c_void, count: *mut usize);
            hipGraphNodeGetType => graph::node_type(node: *mut c_void, out: *mut i32);

            rocmEmuTakeReports => extension::take_reports(out: *mut c_char, capacity: usize, needed: *mut usize);
            rocmEmuLastFault => extension::last_fault(out: *mut c_char, capacity: usize, needed: *mut usize);
            rocmEmuSetSample => extension::set_sample(workgroups: u64);
            rocmEmuSetReports => extension::set_reports(on: i32);
        }
    };
}

/// Makes the functions and the table's rows.
macro_rules! define {
    ($($name:ident => $module:ident :: $function:ident ($($argument:ident : $type:ty),*);)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, as HIP describes it (the emulator's own: `docs/emulated-hip.md`).")]
            ///
            /// # Safety
            /// Pointers are as the interface demands.
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                // SAFETY: the caller's arguments.
                error::call(stringify!($name), || unsafe { crate::$module::$function($($argument),*) })
            }
        )*

        static TABLE: &[(&str, Entry)] = &[
            $((stringify!($name), Entry($name as *const c_void)),)*
            ("hipGetLastError", Entry(hipGetLastError as *const c_void)),
            ("hipPeekAtLastError", Entry(hipPeekAtLastError as *const c_void)),
            ("hipGetErrorName", Entry(hipGetErrorName as *const c_void)),
            ("hipGetErrorString", Entry(hipGetErrorString as *const c_void)),
            (EXT_LAUNCH_MANGLED, Entry(hipExtModuleLaunchKernel as *const c_void)),
        ];
    };
}

/// The C++ name of `hipExtModuleLaunchKernel`, which real libraries export too.
const EXT_LAUNCH_MANGLED: &str =
    "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j";

/// A function's address.
struct Entry(*const c_void);

// SAFETY: the address of a function is the same in every thread.
unsafe impl Sync for Entry {}

for_each_hip_function!(define);

/// `hipGetLastError`.
#[allow(non_snake_case)]
pub extern "C" fn hipGetLastError() -> c_int {
    error::take_last()
}

/// `hipPeekAtLastError`.
#[allow(non_snake_case)]
pub extern "C" fn hipPeekAtLastError() -> c_int {
    error::peek_last()
}

/// `hipGetErrorName`.
#[allow(non_snake_case)]
pub extern "C" fn hipGetErrorName(code: c_int) -> *const c_char {
    error::name(code)
}

/// `hipGetErrorString`.
#[allow(non_snake_case)]
pub extern "C" fn hipGetErrorString(code: c_int) -> *const c_char {
    error::text(code)
}

/// The emulated runtime's function of a name, to be called with the C signature that HIP gives it; `None` when there is none.
/// hiprtc is not emulated.
pub fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    let name = name.to_str().ok()?;
    let entry = TABLE.iter().find(|(of, _)| *of == name).map(|(_, entry)| entry.0)?;
    NonNull::new(entry.cast_mut())
}

/// Names of all functions.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}
