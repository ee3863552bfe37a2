//! Memory: device allocations at emulated addresses, pinned host memory at its own address, copies and fills.

#![allow(unsafe_code)]

use crate::error::{HipError, Result};
use crate::graph::forbid_in_capture;
use crate::put;
use crate::state::{Runtime, runtime};
use crate::stream::{self, resolve};
use crate::work::{Locked, Work, enqueue};
use kbench_gfx_emu::mem::{HostPages, Memory};
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

const HOST_TO_HOST: c_int = 0;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;
const DEFAULT: c_int = 4;
/// `hipMemcpyDeviceToDeviceNoCU`.
const DEVICE_TO_DEVICE_NO_CU: c_int = 1024;

/// Pinned memory.
#[derive(Debug)]
pub(crate) struct HostMemory {
    pages: Arc<HostPages>,
    device: usize,
    flags: c_uint,
    is_managed: bool,
}

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At an address of a device.
    Device { device: usize, address: u64 },
    /// At an address of the host, pinned or not.
    Host(usize),
}

impl Place {
    /// Where a pointer points. Addresses of devices are told by their value.
    fn of(runtime: &Runtime, pointer: *const c_void) -> Result<Self> {
        if pointer.is_null() {
            return Err(HipError::InvalidValue);
        }
        let address = pointer as u64;
        Ok(match runtime.owner(address)? {
            Some(device) => Self::Device { device, address },
            None => Self::Host(pointer as usize),
        })
    }

    fn device(self) -> Option<usize> {
        match self {
            Self::Device { device, .. } => Some(device),
            Self::Host(_) => None,
        }
    }
}

/// The device memories that a copy touches, locked.
pub(crate) struct Region<'r>(Vec<Locked<'r>>);

impl<'r> Region<'r> {
    /// Locks what two places need, always in the same order.
    pub(crate) fn lock(runtime: &'r Runtime, a: Place, b: Place) -> Self {
        let mut devices: Vec<usize> = [a.device(), b.device()].into_iter().flatten().collect();
        devices.sort_unstable();
        devices.dedup();
        Self(devices.into_iter().filter_map(|index| Some((index, runtime.gpu(index).ok()?.memory()))).collect())
    }

    fn of(&self, device: usize) -> Option<&Memory> {
        self.0.iter().find(|(index, _)| *index == device).map(|(_, memory)| &**memory)
    }

    /// The host pointer behind a place that has `bytes`.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when a device place has not. Nobody can tell of host memory that HIP did not allocate.
    pub(crate) fn pointer(&self, place: Place, bytes: u64) -> Result<*mut u8> {
        match place {
            Place::Host(address) => Ok(std::ptr::with_exposed_provenance_mut(address)),
            Place::Device { device, address } => {
                let memory = self.of(device).ok_or(HipError::InvalidValue)?;
                memory.host_pointer(address, bytes).map_err(|_| HipError::InvalidValue)
            }
        }
    }

    /// Notes that a place was written.
    pub(crate) fn written(&self, place: Place, bytes: u64) {
        if let Place::Device { device, address } = place
            && let Some(memory) = self.of(device)
        {
            memory.mark_written(address, bytes);
        }
    }
}

/// Checks that `bytes` lie at a place, as far as that can be known.
fn check(runtime: &Runtime, place: Place, bytes: u64) -> Result {
    match place {
        Place::Device { .. } => Region::lock(runtime, place, place).pointer(place, bytes).map(|_| ()),
        Place::Host(address) => {
            let state = runtime.state();
            let address = address as u64;
            let Some((start, host)) = state.host.range(..=address).next_back() else { return Ok(()) };
            let offset = address - start;
            let inside = offset < host.pages.bytes();
            if inside && bytes > host.pages.bytes() - offset { Err(HipError::InvalidValue) } else { Ok(()) }
        }
    }
}

fn is_pinned(runtime: &Runtime, place: Place) -> bool {
    let Place::Host(address) = place else { return false };
    let state = runtime.state();
    let below = state.host.range(..=address as u64).next_back();
    below.is_some_and(|(start, host)| address as u64 - start < host.pages.bytes())
}

// --- Allocation

pub(crate) unsafe fn malloc(out: *mut *mut c_void, bytes: usize) -> Result {
    let runtime = runtime()?;
    forbid_in_capture(runtime)?;
    // SAFETY: the caller's pointer.
    unsafe { device_memory(runtime, out, bytes) }
}

/// Whether an allocation may be tried. The state is free again meanwhile: a kernel that runs holds its device's memory.
fn admit(runtime: &Runtime, device: usize, bytes: usize) -> Result {
    let mut state = runtime.state();
    state.healthy(device)?;
    if bytes == 0 { Ok(()) } else { state.faults.allocate() }
}

/// Allocates on the current device.
///
/// # Safety
/// `out` is null or valid for a write.
unsafe fn device_memory(runtime: &Runtime, out: *mut *mut c_void, bytes: usize) -> Result {
    let gpu = runtime.current()?;
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    admit(runtime, gpu.index, bytes)?;
    if bytes == 0 {
        // SAFETY: not null, the caller's pointer.
        return unsafe { put(out, std::ptr::null_mut()) };
    }
    let address = gpu.memory().allocate(bytes as u64, "hipMalloc").map_err(|_| HipError::OutOfMemory)?;
    runtime.state().allocations.insert(address, gpu.index);
    // SAFETY: as above.
    unsafe { put(out, std::ptr::without_provenance_mut(address as usize)) }
}

pub(crate) unsafe fn malloc_with_flags(out: *mut *mut c_void, bytes: usize, flags: c_uint) -> Result {
    // Default, fine-grained, signal (8 bytes), uncached, contiguous.
    if ![0, 1, 2, 3, 4].contains(&flags) || (flags == 2 && bytes != 8) {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's pointer.
    unsafe { malloc(out, bytes) }
}

pub(crate) unsafe fn malloc_async(out: *mut *mut c_void, bytes: usize, stream: *mut c_void) -> Result {
    let runtime = runtime()?;
    resolve(runtime, stream)?;
    // SAFETY: the caller's pointer.
    unsafe { malloc(out, bytes) }
}

pub(crate) unsafe fn malloc_managed(out: *mut *mut c_void, bytes: usize, flags: c_uint) -> Result {
    // Attached globally, or to the host.
    if bytes == 0 || ![1, 2].contains(&flags) {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's pointer.
    unsafe { pinned(out, bytes, flags, true) }
}

pub(crate) unsafe fn host_malloc(out: *mut *mut c_void, bytes: usize, flags: c_uint) -> Result {
    // Portable, mapped, write-combined, uncached, NUMA, coherent and non-coherent.
    const KNOWN: c_uint = 0x1 | 0x2 | 0x4 | 0x1000_0000 | 0x2000_0000 | 0x4000_0000 | 0x8000_0000;
    if flags & !KNOWN != 0 || flags & 0xc000_0000 == 0xc000_0000 {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's pointer.
    unsafe { pinned(out, bytes, flags, false) }
}

pub(crate) unsafe fn malloc_host(out: *mut *mut c_void, bytes: usize) -> Result {
    // SAFETY: the caller's pointer.
    unsafe { host_malloc(out, bytes, 0) }
}

/// Allocates host memory that every device reaches at the same address.
///
/// # Safety
/// `out` is null or valid for a write.
unsafe fn pinned(out: *mut *mut c_void, bytes: usize, flags: c_uint, is_managed: bool) -> Result {
    let runtime = runtime()?;
    forbid_in_capture(runtime)?;
    let device = runtime.current()?.index;
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    admit(runtime, device, bytes)?;
    if bytes == 0 {
        // SAFETY: not null, the caller's pointer.
        return unsafe { put(out, std::ptr::null_mut()) };
    }
    let pages = Arc::new(HostPages::new(bytes as u64).map_err(|_| HipError::OutOfMemory)?);
    let name = if is_managed { "hipMallocManaged" } else { "hipHostMalloc" };
    for gpu in &runtime.gpus {
        gpu.memory().attach(&pages, name);
    }
    let start = pages.as_ptr();
    // Copies take it from its address.
    let address = start.expose_provenance() as u64;
    runtime.state().host.insert(address, HostMemory { pages, device, flags, is_managed });
    // SAFETY: as above.
    unsafe { put(out, start.cast()) }
}

pub(crate) unsafe fn free(pointer: *mut c_void) -> Result {
    let runtime = runtime()?;
    if pointer.is_null() {
        return Ok(());
    }
    forbid_in_capture(runtime)?;
    match Place::of(runtime, pointer)? {
        Place::Host(_) => free_pinned(runtime, pointer),
        Place::Device { device, address } => {
            if !runtime.state().allocations.contains_key(&address) {
                return Err(HipError::InvalidValue);
            }
            // What still runs may use it. A device that has faulted does no more harm.
            let _ = stream::wait_device(runtime, device);
            runtime.state().allocations.remove(&address).ok_or(HipError::InvalidValue)?;
            runtime.gpu(device)?.memory().free(address).map_err(|_| HipError::InvalidValue)
        }
    }
}

fn free_pinned(runtime: &Runtime, pointer: *mut c_void) -> Result {
    let address = pointer as u64;
    let device = runtime.state().host.get(&address).map(|host| host.device).ok_or(HipError::InvalidValue)?;
    let _ = stream::wait_device(runtime, device);
    let host = runtime.state().host.remove(&address).ok_or(HipError::InvalidValue)?;
    for gpu in &runtime.gpus {
        // It was attached to every device when it was made.
        let _ = gpu.memory().free(address);
    }
    drop(host);
    Ok(())
}

pub(crate) unsafe fn host_free(pointer: *mut c_void) -> Result {
    let runtime = runtime()?;
    if pointer.is_null() {
        return Ok(());
    }
    forbid_in_capture(runtime)?;
    free_pinned(runtime, pointer)
}

pub(crate) unsafe fn free_async(pointer: *mut c_void, stream: *mut c_void) -> Result {
    resolve(runtime()?, stream)?;
    if pointer.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: nothing is read through the pointer.
    unsafe { free(pointer) }
}

/// Takes back all that was allocated on a device.
pub(crate) fn reset(runtime: &Runtime, device: usize) -> Result {
    let gpu = runtime.gpu(device)?;
    let mut state = runtime.state();
    let mut memory = gpu.memory();
    state.allocations.retain(|address, of| {
        if *of == device {
            // It is in the table, so it is live.
            let _ = memory.free(*address);
        }
        *of != device
    });
    Ok(())
}

// --- Questions

pub(crate) unsafe fn info(free: *mut usize, total: *mut usize) -> Result {
    let gpu = runtime()?.current()?;
    if free.is_null() || total.is_null() {
        return Err(HipError::InvalidValue);
    }
    let memory = gpu.memory();
    // SAFETY: the caller's pointers.
    unsafe { put(free, memory.free_bytes() as usize).and_then(|()| put(total, memory.capacity() as usize)) }
}

/// Start and size of the allocation that a pointer points into.
fn allocation(runtime: &Runtime, pointer: *const c_void) -> Result<(u64, u64)> {
    let address = pointer as u64;
    match Place::of(runtime, pointer)? {
        Place::Device { device, .. } => runtime.gpu(device)?.memory().allocation(address).ok_or(HipError::InvalidValue),
        Place::Host(_) => {
            let state = runtime.state();
            let (start, host) = state.host.range(..=address).next_back().ok_or(HipError::InvalidValue)?;
            if address - start < host.pages.bytes() {
                Ok((*start, host.pages.bytes()))
            } else {
                Err(HipError::InvalidValue)
            }
        }
    }
}

pub(crate) unsafe fn address_range(base: *mut *mut c_void, size: *mut usize, pointer: *mut c_void) -> Result {
    let (start, bytes) = allocation(runtime()?, pointer).map_err(|_| HipError::NotFound)?;
    // SAFETY: the caller's pointers, either of which may be null.
    unsafe {
        if !base.is_null() {
            put(base, std::ptr::without_provenance_mut(start as usize))?;
        }
        if size.is_null() { Ok(()) } else { put(size, bytes as usize) }
    }
}

pub(crate) unsafe fn pointer_size(pointer: *mut c_void, size: *mut usize) -> Result {
    let (_, bytes) = allocation(runtime()?, pointer)?;
    // SAFETY: the caller's pointer.
    unsafe { put(size, bytes as usize) }
}

/// `hipPointerAttribute_t`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PointerAttributes {
    /// 0 not registered, 1 host, 2 device, 3 managed (HIP 6 and later).
    kind: c_int,
    device: c_int,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
    is_managed: c_int,
    flags: c_uint,
}

const _: () = assert!(std::mem::size_of::<PointerAttributes>() == 32);

pub(crate) unsafe fn pointer_attributes(out: *mut c_void, pointer: *const c_void) -> Result {
    let runtime = runtime()?;
    let null = std::ptr::null_mut();
    let attributes = match Place::of(runtime, pointer)? {
        Place::Device { device, .. } => {
            allocation(runtime, pointer)?;
            let device_pointer = pointer.cast_mut();
            let device = device as c_int;
            PointerAttributes { kind: 2, device, device_pointer, host_pointer: null, is_managed: 0, flags: 0 }
        }
        Place::Host(address) => {
            allocation(runtime, pointer)?;
            let state = runtime.state();
            let (_, host) = state.host.range(..=address as u64).next_back().ok_or(HipError::InvalidValue)?;
            let both = pointer.cast_mut();
            PointerAttributes {
                kind: if host.is_managed { 3 } else { 1 },
                device: host.device as c_int,
                device_pointer: both,
                host_pointer: both,
                is_managed: host.is_managed.into(),
                flags: host.flags,
            }
        }
    };
    // SAFETY: the caller's structure.
    unsafe { put(out.cast(), attributes) }
}

pub(crate) unsafe fn host_device_pointer(out: *mut *mut c_void, pointer: *mut c_void, flags: c_uint) -> Result {
    let runtime = runtime()?;
    if flags != 0 || !is_pinned(runtime, Place::of(runtime, pointer)?) {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's pointer.
    unsafe { put(out, pointer) }
}

pub(crate) unsafe fn host_flags(out: *mut c_uint, pointer: *mut c_void) -> Result {
    let state = runtime()?.state();
    let host = state.host.get(&(pointer as u64)).ok_or(HipError::InvalidValue)?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, host.flags) }
}

// --- Copies

/// A copy as asked for; `None` when there is nothing to do.
fn copy_work(
    runtime: &Runtime,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
) -> Result<Option<Work>> {
    if bytes == 0 {
        return Ok(None);
    }
    let (to, from) = (Place::of(runtime, to)?, Place::of(runtime, from)?);
    if !(HOST_TO_HOST..=DEFAULT).contains(&kind) && kind != DEVICE_TO_DEVICE_NO_CU {
        return Err(HipError::InvalidMemcpyDirection);
    }
    let on_device = |place: Place| place.device().is_some() || is_pinned(runtime, place);
    let on_host = |place: Place| place.device().is_none();
    let fits = match kind {
        HOST_TO_HOST => on_host(to) && on_host(from),
        HOST_TO_DEVICE => on_device(to) && on_host(from),
        DEVICE_TO_HOST => on_host(to) && on_device(from),
        DEVICE_TO_DEVICE | DEVICE_TO_DEVICE_NO_CU => on_device(to) && on_device(from),
        _ => true,
    };
    if !fits {
        return Err(HipError::InvalidValue);
    }
    let bytes = bytes as u64;
    check(runtime, to, bytes).and_then(|()| check(runtime, from, bytes))?;
    Ok(Some(Work::Copy { to, from, bytes }))
}

/// Copies on a stream; waits when that is asked for.
fn copy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, stream: *mut c_void, waits: bool) -> Result {
    let runtime = runtime()?;
    let stream = resolve(runtime, stream)?;
    if let Some(work) = copy_work(runtime, to, from, bytes, kind)? {
        enqueue(runtime, stream, work)?;
    }
    if waits { stream::wait(runtime, stream) } else { Ok(()) }
}

pub(crate) unsafe fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> Result {
    copy(to, from, bytes, kind, std::ptr::null_mut(), true)
}

pub(crate) unsafe fn memcpy_async(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: *mut c_void,
) -> Result {
    copy(to, from, bytes, kind, stream, false)
}

pub(crate) unsafe fn memcpy_with_stream(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: *mut c_void,
) -> Result {
    copy(to, from, bytes, kind, stream, true)
}

/// Copies of one direction: waiting and not.
macro_rules! directed {
    ($($now:ident, $later:ident = $kind:ident;)*) => {$(
        pub(crate) unsafe fn $now(to: *mut c_void, from: *mut c_void, bytes: usize) -> Result {
            copy(to, from, bytes, $kind, std::ptr::null_mut(), true)
        }

        pub(crate) unsafe fn $later(to: *mut c_void, from: *mut c_void, bytes: usize, stream: *mut c_void) -> Result {
            copy(to, from, bytes, $kind, stream, false)
        }
    )*};
}

directed! {
    memcpy_htod, memcpy_htod_async = HOST_TO_DEVICE;
    memcpy_dtoh, memcpy_dtoh_async = DEVICE_TO_HOST;
    memcpy_dtod, memcpy_dtod_async = DEVICE_TO_DEVICE;
}

// --- Fills

fn fill(to: *mut c_void, value: u32, width: u8, count: usize, stream: *mut c_void, waits: bool) -> Result {
    let runtime = runtime()?;
    let stream = resolve(runtime, stream)?;
    if count > 0 {
        let place = Place::of(runtime, to)?;
        let bytes = (count as u64).checked_mul(width.into()).ok_or(HipError::InvalidValue)?;
        let reachable = place.device().is_some() || is_pinned(runtime, place);
        if !reachable {
            return Err(HipError::InvalidValue);
        }
        check(runtime, place, bytes)?;
        enqueue(runtime, stream, Work::Fill { to: place, value, width, count: count as u64 })?;
    }
    if waits { stream::wait(runtime, stream) } else { Ok(()) }
}

/// Fills of one width: waiting and not.
macro_rules! fills {
    ($($now:ident, $later:ident: $value:ty, $width:literal;)*) => {$(
        pub(crate) unsafe fn $now(to: *mut c_void, value: $value, count: usize) -> Result {
            fill(to, value as u32, $width, count, std::ptr::null_mut(), true)
        }

        pub(crate) unsafe fn $later(to: *mut c_void, value: $value, count: usize, stream: *mut c_void) -> Result {
            fill(to, value as u32, $width, count, stream, false)
        }
    )*};
}

fills! {
    memset, memset_async: c_int, 1;
    memset_d8, memset_d8_async: u8, 1;
    memset_d16, memset_d16_async: u16, 2;
    memset_d32, memset_d32_async: c_int, 4;
}
