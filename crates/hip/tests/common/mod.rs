//! A HIP library made of functions in this test: it keeps memory and handles, notes every call, and fails where a test tells it to.
//!
//! All state belongs to the calling thread, so tests do not see each other.
#![allow(dead_code, non_snake_case)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr::NonNull;

/// What the library does, and what was done to it.
pub(crate) struct Fake {
    /// Calls in order, as `name(important arguments)`.
    pub calls: Vec<String>,
    /// Names that are not in the library.
    pub absent: Vec<&'static str>,
    /// How often each name was looked up.
    pub lookups: HashMap<String, u32>,
    /// Functions that fail, with their status.
    pub fails: HashMap<&'static str, u32>,
    pub devices: c_int,
    pub version: c_int,
    /// Attributes of every device; others are unknown.
    pub attributes: HashMap<u32, c_int>,
    /// Queries still to be answered with "not ready".
    pub busy: u32,
    /// Argument bytes of the last launch.
    pub kernarg: Vec<u8>,
    memory: HashMap<usize, Box<[u8]>>,
    live: Vec<usize>,
    next: usize,
}

thread_local! {
    static FAKE: RefCell<Fake> = RefCell::new(Fake::new());
}

/// Looks at or changes this thread's library.
pub(crate) fn fake<R>(f: impl FnOnce(&mut Fake) -> R) -> R {
    FAKE.with_borrow_mut(f)
}

/// The calls since the last call of this.
pub(crate) fn calls() -> Vec<String> {
    fake(|f| std::mem::take(&mut f.calls))
}

/// Handles that were created and not destroyed, and memory that was not freed.
pub(crate) fn live() -> usize {
    fake(|f| f.live.len() + f.memory.len())
}

impl Fake {
    fn new() -> Self {
        // The attributes of an MI300X that HIP 7.2.4 was seen to give.
        let attributes = [(5, 2_100_000), (63, 304), (87, 64), (10015, 304), (10018, 8)].into();
        Self {
            calls: Vec::new(),
            absent: Vec::new(),
            lookups: HashMap::new(),
            fails: HashMap::new(),
            devices: 2,
            version: 70_253_211,
            attributes,
            busy: 0,
            kernarg: Vec::new(),
            memory: HashMap::new(),
            live: Vec::new(),
            next: 0x1000,
        }
    }

    fn call(&mut self, name: &'static str, arguments: String) -> u32 {
        self.calls.push(format!("{name}({arguments})"));
        self.fails.get(name).copied().unwrap_or(0)
    }

    /// A new handle in `out`, unless the call fails.
    fn create<T>(&mut self, name: &'static str, arguments: String, out: *mut *mut T) -> u32 {
        let status = self.call(name, arguments);
        if status == 0 {
            self.next += 0x10;
            self.live.push(self.next);
            unsafe { *out = std::ptr::without_provenance_mut(self.next) };
        }
        status
    }

    fn destroy<T>(&mut self, name: &'static str, handle: *mut T) -> u32 {
        let status = self.call(name, String::new());
        let known = self.live.iter().position(|&live| live == handle.addr());
        match known {
            Some(at) => _ = self.live.swap_remove(at),
            None => return 400,
        }
        status
    }

    fn query(&mut self, name: &'static str) -> u32 {
        let status = self.call(name, String::new());
        if self.busy > 0 {
            self.busy -= 1;
            return 600;
        }
        status
    }
}

type Handle = *mut c_void;
type Out = *mut Handle;

unsafe extern "C" fn hipInit(_: c_uint) -> u32 {
    fake(|f| f.call("hipInit", String::new()))
}
unsafe extern "C" fn hipRuntimeGetVersion(v: *mut c_int) -> u32 {
    unsafe { *v = fake(|f| f.version) };
    0
}
unsafe extern "C" fn hipGetDeviceCount(n: *mut c_int) -> u32 {
    fake(|f| {
        unsafe { *n = f.devices };
        f.call("hipGetDeviceCount", String::new())
    })
}
unsafe extern "C" fn hipSetDevice(d: c_int) -> u32 {
    fake(|f| f.call("hipSetDevice", d.to_string()))
}
unsafe extern "C" fn hipDeviceSynchronize() -> u32 {
    fake(|f| f.call("hipDeviceSynchronize", String::new()))
}
unsafe extern "C" fn hipDeviceGetAttribute(v: *mut c_int, a: c_uint, d: c_int) -> u32 {
    fake(|f| {
        let status = f.call("hipDeviceGetAttribute", format!("{a}, {d}"));
        match f.attributes.get(&a) {
            Some(&value) if status == 0 => unsafe { *v = value },
            Some(_) => return status,
            None => return 1,
        }
        0
    })
}
/// Writes a name at a byte offset of a struct, as the real library does.
unsafe fn write_text(to: *mut u8, offset: usize, text: &CStr) {
    let bytes = text.to_bytes_with_nul();
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(offset), bytes.len()) };
}
unsafe extern "C" fn hipGetDevicePropertiesR0600(p: *mut u8, d: c_int) -> u32 {
    // The real one writes 1472 bytes.
    unsafe { p.write_bytes(0xee, 1472) };
    unsafe { write_text(p, 1160, c"gfx942:sramecc+:xnack-") };
    fake(|f| f.call("hipGetDevicePropertiesR0600", d.to_string()))
}
unsafe extern "C" fn hipGetDeviceProperties(p: *mut u8, d: c_int) -> u32 {
    // The real one writes 792 bytes.
    unsafe { p.write_bytes(0xee, 792) };
    unsafe { write_text(p, 396, c"gfx90a") };
    fake(|f| f.call("hipGetDeviceProperties", d.to_string()))
}
unsafe extern "C" fn hipDeviceGetName(p: *mut u8, length: c_int, _: c_int) -> u32 {
    assert_eq!(length, 256);
    unsafe { write_text(p, 0, c"AMD Instinct MI300X") };
    0
}
unsafe extern "C" fn hipDeviceGetUuid(p: *mut u8, _: c_int) -> u32 {
    unsafe { std::ptr::copy_nonoverlapping(b"1122334455667701".as_ptr(), p, 16) };
    0
}
unsafe extern "C" fn hipDeviceGetPCIBusId(p: *mut u8, _: c_int, d: c_int) -> u32 {
    unsafe { write_text(p, 0, if d == 0 { c"0000:C3:00.0" } else { c"0000:03:00.0" }) };
    0
}
unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> u32 {
    unsafe { (*free, *total) = (100, 200) };
    fake(|f| f.call("hipMemGetInfo", String::new()))
}
unsafe extern "C" fn hipGetErrorName(e: u32) -> *const c_char {
    match e {
        2 => c"hipErrorOutOfMemory".as_ptr(),
        100 => c"hipErrorNoDevice".as_ptr(),
        _ => std::ptr::null(),
    }
}
unsafe extern "C" fn hipGetErrorString(e: u32) -> *const c_char {
    match e {
        2 => c"out of memory".as_ptr(),
        100 => c"no ROCm-capable device is detected".as_ptr(),
        _ => std::ptr::null(),
    }
}
unsafe extern "C" fn hipMalloc(out: Out, bytes: usize) -> u32 {
    fake(|f| {
        let status = f.call("hipMalloc", bytes.to_string());
        if status == 0 {
            let mut memory = vec![0xcd_u8; bytes].into_boxed_slice();
            unsafe { *out = memory.as_mut_ptr().cast() };
            f.memory.insert(memory.as_ptr().addr(), memory);
        }
        status
    })
}
unsafe extern "C" fn hipFree(p: Handle) -> u32 {
    fake(|f| {
        let status = f.call("hipFree", String::new());
        if f.memory.remove(&p.addr()).is_some() { status } else { 1 }
    })
}
unsafe extern "C" fn hipMemcpyHtoD(to: Handle, from: Handle, bytes: usize) -> u32 {
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    fake(|f| f.call("hipMemcpyHtoD", bytes.to_string()))
}
unsafe extern "C" fn hipMemcpyDtoH(to: Handle, from: Handle, bytes: usize) -> u32 {
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    fake(|f| f.call("hipMemcpyDtoH", bytes.to_string()))
}
unsafe extern "C" fn hipMemcpyDtoDAsync(to: Handle, from: Handle, bytes: usize, s: Handle) -> u32 {
    unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    fake(|f| f.call("hipMemcpyDtoDAsync", format!("{bytes}, {}", stream_text(s))))
}
unsafe extern "C" fn hipMemsetD8Async(to: Handle, value: c_uchar, count: usize, s: Handle) -> u32 {
    unsafe { to.cast::<u8>().write_bytes(value, count) };
    fake(|f| f.call("hipMemsetD8Async", format!("{count}, {}", stream_text(s))))
}
unsafe extern "C" fn hipMemsetD32Async(to: Handle, value: c_int, count: usize, s: Handle) -> u32 {
    for at in 0..count {
        unsafe { to.cast::<c_int>().add(at).write_unaligned(value) };
    }
    fake(|f| f.call("hipMemsetD32Async", format!("{count}, {}", stream_text(s))))
}
fn stream_text(stream: Handle) -> &'static str {
    if stream.is_null() { "null stream" } else { "stream" }
}
unsafe extern "C" fn hipStreamCreateWithFlags(out: Out, flags: c_uint) -> u32 {
    fake(|f| f.create("hipStreamCreateWithFlags", flags.to_string(), out))
}
unsafe extern "C" fn hipStreamDestroy(s: Handle) -> u32 {
    fake(|f| f.destroy("hipStreamDestroy", s))
}
unsafe extern "C" fn hipStreamSynchronize(s: Handle) -> u32 {
    fake(|f| f.call("hipStreamSynchronize", stream_text(s).into()))
}
unsafe extern "C" fn hipStreamQuery(_: Handle) -> u32 {
    fake(|f| f.query("hipStreamQuery"))
}
unsafe extern "C" fn hipStreamWaitEvent(_: Handle, _: Handle, flags: c_uint) -> u32 {
    fake(|f| f.call("hipStreamWaitEvent", flags.to_string()))
}
unsafe extern "C" fn hipStreamBeginCapture(_: Handle, mode: c_uint) -> u32 {
    fake(|f| f.call("hipStreamBeginCapture", mode.to_string()))
}
unsafe extern "C" fn hipStreamEndCapture(_: Handle, out: Out) -> u32 {
    fake(|f| f.create("hipStreamEndCapture", String::new(), out))
}
unsafe extern "C" fn hipEventCreateWithFlags(out: Out, flags: c_uint) -> u32 {
    fake(|f| f.create("hipEventCreateWithFlags", format!("{flags:#x}"), out))
}
unsafe extern "C" fn hipEventDestroy(e: Handle) -> u32 {
    fake(|f| f.destroy("hipEventDestroy", e))
}
unsafe extern "C" fn hipEventRecord(_: Handle, _: Handle) -> u32 {
    fake(|f| f.call("hipEventRecord", String::new()))
}
unsafe extern "C" fn hipEventQuery(_: Handle) -> u32 {
    fake(|f| f.query("hipEventQuery"))
}
unsafe extern "C" fn hipEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle) -> u32 {
    // Handles are numbered in order of creation, so the sign shows which way round they came.
    unsafe { *ms = (stop.addr() as f32 - start.addr() as f32) / 16.0 };
    0
}
unsafe extern "C" fn hipModuleLoadData(out: Out, image: *const u8) -> u32 {
    let magic = unsafe { std::slice::from_raw_parts(image, 4) };
    assert_eq!(magic, b"\x7fELF");
    fake(|f| f.create("hipModuleLoadData", String::new(), out))
}
unsafe extern "C" fn hipModuleUnload(m: Handle) -> u32 {
    fake(|f| f.destroy("hipModuleUnload", m))
}
unsafe extern "C" fn hipModuleGetFunction(out: Out, module: Handle, name: *const c_char) -> u32 {
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    if name == "absent" {
        return 500;
    }
    // Kernels are not destroyed, so they are no handles that live.
    unsafe { *out = module.wrapping_byte_add(1) };
    fake(|f| f.call("hipModuleGetFunction", name))
}
unsafe extern "C" fn hipFuncGetAttribute(v: *mut c_int, a: c_uint, _: Handle) -> u32 {
    match a {
        0 => unsafe { *v = 256 },
        4 => unsafe { *v = 32 },
        _ => return 1,
    }
    0
}
unsafe extern "C" fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
    n: *mut c_int,
    _: Handle,
    block: c_int,
    lds: usize,
) -> u32 {
    unsafe { *n = 2048 / block - c_int::try_from(lds / 1024).unwrap() };
    0
}
/// Reads the list through which argument bytes are given.
unsafe fn take_kernarg(extra: *mut Handle) -> Vec<u8> {
    if extra.is_null() {
        return Vec::new();
    }
    let list = unsafe { std::slice::from_raw_parts(extra, 5) };
    assert_eq!((list[0].addr(), list[2].addr(), list[4].addr()), (1, 2, 3));
    unsafe { std::slice::from_raw_parts(list[1].cast::<u8>(), *list[3].cast::<usize>()) }.to_vec()
}
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn hipModuleLaunchKernel(
    _: Handle,
    gx: u32,
    gy: u32,
    gz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    lds: u32,
    _: Handle,
    parameters: *mut Handle,
    extra: *mut Handle,
) -> u32 {
    assert!(parameters.is_null());
    fake(|f| {
        f.kernarg = unsafe { take_kernarg(extra) };
        f.call("hipModuleLaunchKernel", format!("{gx} {gy} {gz}, {bx} {by} {bz}, {lds}, extra {}", !extra.is_null()))
    })
}
#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn hipExtModuleLaunchKernel(
    _: Handle,
    ix: u32,
    iy: u32,
    iz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    lds: usize,
    _: Handle,
    parameters: *mut Handle,
    extra: *mut Handle,
    start: Handle,
    stop: Handle,
    flags: u32,
) -> u32 {
    assert!(parameters.is_null() && flags == 0 && start != stop);
    fake(|f| {
        f.kernarg = unsafe { take_kernarg(extra) };
        f.call("hipExtModuleLaunchKernel", format!("{ix} {iy} {iz}, {bx} {by} {bz}, {lds}"))
    })
}
unsafe extern "C" fn hipGraphDestroy(g: Handle) -> u32 {
    fake(|f| f.destroy("hipGraphDestroy", g))
}
unsafe extern "C" fn hipGraphGetNodes(_: Handle, nodes: Handle, n: *mut usize) -> u32 {
    assert!(nodes.is_null());
    unsafe { *n = 3 };
    0
}
unsafe extern "C" fn hipGraphInstantiate(out: Out, _: Handle, _: Handle, _: Handle, _: usize) -> u32 {
    fake(|f| f.create("hipGraphInstantiate", String::new(), out))
}
unsafe extern "C" fn hipGraphLaunch(_: Handle, _: Handle) -> u32 {
    fake(|f| f.call("hipGraphLaunch", String::new()))
}
unsafe extern "C" fn hipGraphExecDestroy(e: Handle) -> u32 {
    fake(|f| f.destroy("hipGraphExecDestroy", e))
}
unsafe extern "C" fn hiprtcGetErrorString(e: u32) -> *const c_char {
    if e == 6 { c"HIPRTC_ERROR_COMPILATION".as_ptr() } else { std::ptr::null() }
}
unsafe extern "C" fn hiprtcCreateProgram(
    out: Out,
    source: *const c_char,
    _: *const c_char,
    n: c_int,
    _: Handle,
    _: Handle,
) -> u32 {
    assert_eq!(n, 0);
    let source = unsafe { CStr::from_ptr(source) }.to_string_lossy().into_owned();
    fake(|f| f.create("hiprtcCreateProgram", source, out))
}
unsafe extern "C" fn hiprtcCompileProgram(_: Handle, n: c_int, options: *mut *const c_char) -> u32 {
    let options = unsafe { std::slice::from_raw_parts(options, usize::try_from(n).unwrap()) };
    let options: Vec<_> = options.iter().map(|&o| unsafe { CStr::from_ptr(o) }.to_string_lossy()).collect();
    fake(|f| f.call("hiprtcCompileProgram", options.join(" ")))
}
unsafe extern "C" fn hiprtcDestroyProgram(p: Out) -> u32 {
    fake(|f| f.destroy("hiprtcDestroyProgram", unsafe { *p }))
}
unsafe extern "C" fn hiprtcGetProgramLogSize(_: Handle, n: *mut usize) -> u32 {
    unsafe { *n = 8 };
    0
}
unsafe extern "C" fn hiprtcGetProgramLog(_: Handle, log: *mut u8) -> u32 {
    unsafe { write_text(log, 0, c"1:1: no") };
    0
}
unsafe extern "C" fn hiprtcGetCodeSize(_: Handle, n: *mut usize) -> u32 {
    unsafe { *n = 4 };
    0
}
unsafe extern "C" fn hiprtcGetCode(_: Handle, code: *mut u8) -> u32 {
    unsafe { std::ptr::copy_nonoverlapping(b"\x7fELF".as_ptr(), code, 4) };
    0
}

/// The table: the address of each function above.
pub(crate) fn table(name: &CStr) -> Option<NonNull<c_void>> {
    let name = name.to_str().ok()?;
    let absent = fake(|f| {
        *f.lookups.entry(name.to_owned()).or_default() += 1;
        f.absent.contains(&name)
    });
    if absent {
        return None;
    }
    macro_rules! addresses {
        ($($known:ident)*) => {
            match name {
                $(stringify!($known) => $known as *mut c_void,)*
                // The C++ name under which HIP 5 exports it.
                "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j" => {
                    hipExtModuleLaunchKernel as *mut c_void
                }
                _ => return None,
            }
        };
    }
    NonNull::new(addresses! {
        hipInit hipRuntimeGetVersion hipGetDeviceCount hipSetDevice hipDeviceSynchronize hipDeviceGetAttribute
        hipGetDevicePropertiesR0600 hipGetDeviceProperties hipDeviceGetName hipDeviceGetUuid hipDeviceGetPCIBusId hipMemGetInfo
        hipGetErrorName hipGetErrorString hipMalloc hipFree hipMemcpyHtoD hipMemcpyDtoH hipMemcpyDtoDAsync hipMemsetD8Async
        hipMemsetD32Async hipStreamCreateWithFlags hipStreamDestroy hipStreamSynchronize hipStreamQuery hipStreamWaitEvent
        hipStreamBeginCapture hipStreamEndCapture hipEventCreateWithFlags hipEventDestroy hipEventRecord hipEventQuery
        hipEventElapsedTime hipModuleLoadData hipModuleUnload hipModuleGetFunction hipFuncGetAttribute
        hipModuleOccupancyMaxActiveBlocksPerMultiprocessor hipModuleLaunchKernel hipExtModuleLaunchKernel hipGraphDestroy
        hipGraphGetNodes hipGraphInstantiate hipGraphLaunch hipGraphExecDestroy hiprtcGetErrorString hiprtcCreateProgram
        hiprtcCompileProgram hiprtcDestroyProgram hiprtcGetProgramLogSize hiprtcGetProgramLog hiprtcGetCodeSize hiprtcGetCode
    })
}
