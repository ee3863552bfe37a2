//! HIP's calls, with their statuses turned into results and their output parameters into values.
//!
//! Functions that take a handle or an address are `unsafe`: each must be a live one of this very library (or null where HIP takes null), and host
//! memory must be as long as said. The owners keep to that, because they hold what they were given.
#![allow(clippy::missing_safety_doc)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

use super::Version;
use super::error::HipError;
use super::library::Library;
use crate::sys::{self, hipEvent_t, hipFunction_t, hipGraph_t, hipGraphExec_t, hipModule_t, hipStream_t};

/// A library and its functions.
pub(crate) struct Api {
    pub(crate) library: Library,
    functions: sys::Hip,
}

/// Looks a function up, calls it, and turns its status into a result.
macro_rules! call {
    ($api:expr, $name:ident($($arg:expr),* $(,)?)) => {
        match $api.functions.$name(&$api.library) {
            // SAFETY: outputs are locals of the calling function; handles and addresses are vouched for by that function's caller.
            Ok(function) => $api.check(stringify!($name), unsafe { function($($arg),*) }),
            Err(missing) => Err($api.library.missing(missing)),
        }
    };
}

impl Api {
    pub(crate) fn new(library: Library) -> Self {
        Self { library, functions: sys::Hip::new() }
    }

    fn check(&self, function: &'static str, code: sys::hipError_t) -> Result<(), HipError> {
        if code == sys::hipSuccess { Ok(()) } else { Err(self.error(function, code)) }
    }

    /// A failed call, with what the library says about its status.
    #[cold]
    fn error(&self, function: &'static str, code: sys::hipError_t) -> HipError {
        // SAFETY: both functions take a number and give NULL or a static string.
        let text = |found: Result<unsafe extern "C" fn(sys::hipError_t) -> *const c_char, _>| match found {
            Ok(say) => unsafe { text_of(say(code)) },
            Err(sys::MissingSymbol { .. }) => None,
        };
        let name = text(self.functions.hipGetErrorName(&self.library)).unwrap_or_else(|| "hipError".into());
        // HIP 5 gives the name as the text as well.
        let text =
            text(self.functions.hipGetErrorString(&self.library)).filter(|text| *text != name).unwrap_or_default();
        HipError::Call { function, code, name, text, context: Box::default() }
    }

    /// A handle that a call writes; `function` is blamed if it writes none.
    fn created<T>(
        &self,
        function: &'static str,
        make: impl FnOnce(*mut *mut T) -> Result<(), HipError>,
    ) -> Result<NonNull<T>, HipError> {
        let mut handle = std::ptr::null_mut();
        make(&raw mut handle)?;
        NonNull::new(handle)
            .ok_or_else(|| self.error(function, sys::hipErrorUnknown).about(|| "it gave no handle".into()))
    }

    /// Whether a query says that the work is done; not ready is an answer, not an error.
    fn done(result: Result<(), HipError>) -> Result<bool, HipError> {
        match result {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(sys::hipErrorNotReady) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn init(&self) -> Result<(), HipError> {
        call!(self, hipInit(0))
    }

    pub(crate) fn runtime_version(&self) -> Result<Version, HipError> {
        let mut version = 0;
        call!(self, hipRuntimeGetVersion(&raw mut version))?;
        Ok(Version(version.unsigned_abs()))
    }

    pub(crate) fn driver_version(&self) -> Result<Version, HipError> {
        let mut version = 0;
        call!(self, hipDriverGetVersion(&raw mut version))?;
        Ok(Version(version.unsigned_abs()))
    }

    pub(crate) fn device_count(&self) -> Result<u32, HipError> {
        let mut count = 0;
        call!(self, hipGetDeviceCount(&raw mut count))?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    pub(crate) fn set_device(&self, device: c_int) -> Result<(), HipError> {
        call!(self, hipSetDevice(device))
    }

    pub(crate) fn device_synchronize(&self) -> Result<(), HipError> {
        call!(self, hipDeviceSynchronize())
    }

    pub(crate) fn attribute(&self, attribute: sys::hipDeviceAttribute_t, device: c_int) -> Result<c_int, HipError> {
        let mut value = 0;
        call!(self, hipDeviceGetAttribute(&raw mut value, attribute, device))?;
        Ok(value)
    }

    /// Architecture with features, from the properties in whichever layout this library writes.
    pub(crate) fn arch(&self, device: c_int) -> Result<String, HipError> {
        let blank = || {
            // SAFETY: the structs hold bytes only, for which zeros are a value.
            unsafe { std::mem::zeroed::<sys::hipDeviceProp_tR0600>() }
        };
        let mut properties = blank();
        match call!(self, hipGetDevicePropertiesR0600(&raw mut properties, device)) {
            Err(error) if error.missing_symbol() => {}
            result => return result.map(|()| text_in(&properties.gcnArchName)),
        }
        // Before HIP 6. The buffer is that of the longer layout, so that a library with a surprise cannot write beyond it.
        let mut room = blank();
        let old = (&raw mut room).cast::<sys::hipDeviceProp_tR0000>();
        match call!(self, hipGetDevicePropertiesR0000(old, device)) {
            Err(error) if error.missing_symbol() => {
                let version = self.runtime_version()?;
                if version.major() > 5 {
                    return Err(error);
                }
                call!(self, hipGetDeviceProperties(old, device))?;
            }
            result => result?,
        }
        // SAFETY: `old` points into `room`, which is longer, as aligned, and holds bytes only.
        Ok(text_in(unsafe { &(*old).gcnArchName }))
    }

    pub(crate) fn device_name(&self, device: c_int) -> Result<String, HipError> {
        let mut name: [c_char; 256] = [0; 256];
        call!(self, hipDeviceGetName(name.as_mut_ptr(), 256, device))?;
        Ok(text_in(&name))
    }

    pub(crate) fn device_uuid(&self, device: c_int) -> Result<[u8; 16], HipError> {
        let mut uuid = sys::hipUUID { bytes: [0; 16] };
        call!(self, hipDeviceGetUuid(&raw mut uuid, device))?;
        Ok(uuid.bytes.map(|byte| byte.cast_unsigned()))
    }

    pub(crate) fn pci_bus_id(&self, device: c_int) -> Result<String, HipError> {
        let mut id: [c_char; 64] = [0; 64];
        call!(self, hipDeviceGetPCIBusId(id.as_mut_ptr(), 64, device))?;
        Ok(text_in(&id))
    }

    pub(crate) fn total_memory(&self, device: c_int) -> Result<u64, HipError> {
        let mut bytes = 0;
        call!(self, hipDeviceTotalMem(&raw mut bytes, device))?;
        Ok(bytes as u64)
    }

    /// Free and total bytes of the current device.
    pub(crate) fn mem_info(&self) -> Result<(u64, u64), HipError> {
        let (mut free, mut total) = (0, 0);
        call!(self, hipMemGetInfo(&raw mut free, &raw mut total))?;
        Ok((free as u64, total as u64))
    }

    pub(crate) fn malloc(&self, bytes: usize) -> Result<NonNull<c_void>, HipError> {
        self.created("hipMalloc", |out| call!(self, hipMalloc(out, bytes)))
            .map_err(|e| e.about(|| format!("{bytes} bytes")))
    }

    pub(crate) unsafe fn free(&self, pointer: NonNull<c_void>) -> Result<(), HipError> {
        call!(self, hipFree(pointer.as_ptr()))
    }

    pub(crate) unsafe fn copy_to_device(&self, to: *mut c_void, from: &[u8]) -> Result<(), HipError> {
        call!(self, hipMemcpyHtoD(to, from.as_ptr().cast(), from.len()))
    }

    pub(crate) unsafe fn copy_to_host(&self, to: &mut [u8], from: *mut c_void) -> Result<(), HipError> {
        call!(self, hipMemcpyDtoH(to.as_mut_ptr().cast(), from, to.len()))
    }

    pub(crate) unsafe fn copy_on_device(
        &self,
        to: *mut c_void,
        from: *mut c_void,
        bytes: usize,
        stream: hipStream_t,
    ) -> Result<(), HipError> {
        call!(self, hipMemcpyDtoDAsync(to, from, bytes, stream))
    }

    pub(crate) unsafe fn fill_bytes(
        &self,
        to: *mut c_void,
        value: u8,
        count: usize,
        stream: hipStream_t,
    ) -> Result<(), HipError> {
        call!(self, hipMemsetD8Async(to, value, count, stream))
    }

    pub(crate) unsafe fn fill_words(
        &self,
        to: *mut c_void,
        value: u32,
        count: usize,
        stream: hipStream_t,
    ) -> Result<(), HipError> {
        call!(self, hipMemsetD32Async(to, value.cast_signed(), count, stream))
    }

    pub(crate) fn stream_create(&self, flags: u32) -> Result<NonNull<sys::ihipStream_t>, HipError> {
        self.created("hipStreamCreateWithFlags", |out| call!(self, hipStreamCreateWithFlags(out, flags)))
    }

    pub(crate) unsafe fn stream_destroy(&self, stream: hipStream_t) -> Result<(), HipError> {
        call!(self, hipStreamDestroy(stream))
    }

    pub(crate) unsafe fn stream_synchronize(&self, stream: hipStream_t) -> Result<(), HipError> {
        call!(self, hipStreamSynchronize(stream))
    }

    pub(crate) unsafe fn stream_done(&self, stream: hipStream_t) -> Result<bool, HipError> {
        Self::done(call!(self, hipStreamQuery(stream)))
    }

    pub(crate) unsafe fn stream_wait_event(&self, stream: hipStream_t, event: hipEvent_t) -> Result<(), HipError> {
        call!(self, hipStreamWaitEvent(stream, event, 0))
    }

    pub(crate) unsafe fn begin_capture(&self, stream: hipStream_t) -> Result<(), HipError> {
        call!(self, hipStreamBeginCapture(stream, sys::hipStreamCaptureModeThreadLocal))
    }

    pub(crate) unsafe fn end_capture(&self, stream: hipStream_t) -> Result<NonNull<sys::ihipGraph>, HipError> {
        self.created("hipStreamEndCapture", |out| call!(self, hipStreamEndCapture(stream, out)))
    }

    pub(crate) fn event_create(&self, flags: u32) -> Result<NonNull<sys::ihipEvent_t>, HipError> {
        self.created("hipEventCreateWithFlags", |out| call!(self, hipEventCreateWithFlags(out, flags)))
    }

    pub(crate) unsafe fn event_destroy(&self, event: hipEvent_t) -> Result<(), HipError> {
        call!(self, hipEventDestroy(event))
    }

    pub(crate) unsafe fn event_record(&self, event: hipEvent_t, stream: hipStream_t) -> Result<(), HipError> {
        call!(self, hipEventRecord(event, stream))
    }

    pub(crate) unsafe fn event_synchronize(&self, event: hipEvent_t) -> Result<(), HipError> {
        call!(self, hipEventSynchronize(event))
    }

    pub(crate) unsafe fn event_done(&self, event: hipEvent_t) -> Result<bool, HipError> {
        Self::done(call!(self, hipEventQuery(event)))
    }

    pub(crate) unsafe fn event_elapsed_ms(&self, start: hipEvent_t, stop: hipEvent_t) -> Result<f32, HipError> {
        let mut ms = 0.0;
        call!(self, hipEventElapsedTime(&raw mut ms, start, stop))?;
        Ok(ms)
    }

    pub(crate) unsafe fn module_load(&self, image: *const u8) -> Result<NonNull<sys::ihipModule_t>, HipError> {
        self.created("hipModuleLoadData", |out| call!(self, hipModuleLoadData(out, image.cast())))
    }

    pub(crate) unsafe fn module_unload(&self, module: hipModule_t) -> Result<(), HipError> {
        call!(self, hipModuleUnload(module))
    }

    pub(crate) unsafe fn module_function(
        &self,
        module: hipModule_t,
        name: &CStr,
    ) -> Result<NonNull<sys::ihipModuleSymbol_t>, HipError> {
        self.created("hipModuleGetFunction", |out| call!(self, hipModuleGetFunction(out, module, name.as_ptr())))
    }

    pub(crate) unsafe fn function_attribute(
        &self,
        attribute: sys::hipFunction_attribute,
        function: hipFunction_t,
    ) -> Result<c_int, HipError> {
        let mut value = 0;
        call!(self, hipFuncGetAttribute(&raw mut value, attribute, function))?;
        Ok(value)
    }

    pub(crate) unsafe fn occupancy(
        &self,
        function: hipFunction_t,
        block: c_int,
        dynamic_lds: usize,
    ) -> Result<c_int, HipError> {
        let mut blocks = 0;
        call!(self, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, block, dynamic_lds))?;
        Ok(blocks)
    }

    /// Launches with the argument bytes that `extra` points to; the grid is in workgroups.
    pub(crate) unsafe fn launch(
        &self,
        function: hipFunction_t,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_lds: u32,
        stream: hipStream_t,
        extra: *mut *mut c_void,
    ) -> Result<(), HipError> {
        let ([gx, gy, gz], [bx, by, bz], none) = (grid, block, std::ptr::null_mut());
        call!(self, hipModuleLaunchKernel(function, gx, gy, gz, bx, by, bz, dynamic_lds, stream, none, extra))
    }

    /// Whether [`Api::launch_timed`] can be called.
    pub(crate) fn has_launch_timed(&self) -> bool {
        self.functions.hipExtModuleLaunchKernel(&self.library).is_ok()
    }

    /// Launches between two events; the grid is in work-items.
    pub(crate) unsafe fn launch_timed(
        &self,
        function: hipFunction_t,
        [items, block]: [[u32; 3]; 2],
        dynamic_lds: u32,
        stream: hipStream_t,
        extra: *mut *mut c_void,
        [start, stop]: [hipEvent_t; 2],
    ) -> Result<(), HipError> {
        let ([ix, iy, iz], [bx, by, bz], none) = (items, block, std::ptr::null_mut());
        let lds = dynamic_lds as usize;
        call!(
            self,
            hipExtModuleLaunchKernel(function, ix, iy, iz, bx, by, bz, lds, stream, none, extra, start, stop, 0)
        )
    }

    pub(crate) unsafe fn graph_destroy(&self, graph: hipGraph_t) -> Result<(), HipError> {
        call!(self, hipGraphDestroy(graph))
    }

    pub(crate) unsafe fn graph_nodes(&self, graph: hipGraph_t) -> Result<usize, HipError> {
        let mut count = 0;
        call!(self, hipGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count))?;
        Ok(count)
    }

    pub(crate) unsafe fn graph_instantiate(&self, graph: hipGraph_t) -> Result<NonNull<sys::hipGraphExec>, HipError> {
        self.created("hipGraphInstantiate", |out| {
            call!(self, hipGraphInstantiate(out, graph, std::ptr::null_mut(), std::ptr::null_mut(), 0))
        })
    }

    pub(crate) unsafe fn graph_launch(&self, exec: hipGraphExec_t, stream: hipStream_t) -> Result<(), HipError> {
        call!(self, hipGraphLaunch(exec, stream))
    }

    pub(crate) unsafe fn graph_exec_destroy(&self, exec: hipGraphExec_t) -> Result<(), HipError> {
        call!(self, hipGraphExecDestroy(exec))
    }
}

/// A C string as text; nothing for NULL.
///
/// # Safety
/// `text` is NULL or NUL-terminated and lives during this call.
pub(super) unsafe fn text_of(text: *const c_char) -> Option<Box<str>> {
    // SAFETY: not NULL, and NUL-terminated (this function's contract).
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into())
}

/// The text in a field of fixed size, up to its NUL or its end.
fn text_in(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|c| c.cast_unsigned()).take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
