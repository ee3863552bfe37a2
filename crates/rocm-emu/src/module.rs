//! Modules: code objects on a device, their functions and globals.

#![allow(unsafe_code)]

use crate::device::MAX_BLOCK;
use crate::error::{HipError, Result};
use crate::graph::forbid_in_capture;
use crate::state::{Gpu, Runtime, runtime};
use crate::{image, put, stream, tool};
use kbench_code_object::{Content, Kernel, LaunchShape, Target, load};
use kbench_gfx_emu::launch::{LoadError, Module};
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::sync::Arc;

/// A loaded code object.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) module: Module,
    pub(crate) device: usize,
    pub(crate) code_object_id: u64,
    /// Of its kernels, in their order.
    pub(crate) kernel_ids: Vec<u64>,
    pub(crate) uri: String,
}

/// A kernel as `hipFunction_t` shows it.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) loaded: Arc<Loaded>,
    /// Its place among the code object's kernels.
    pub(crate) index: usize,
}

impl Function {
    /// The kernel.
    pub(crate) fn kernel(&self) -> Result<&Kernel> {
        self.loaded.module.kernels().get(self.index).ok_or(HipError::InvalidDeviceFunction)
    }

    /// Its number for profilers.
    pub(crate) fn kernel_id(&self) -> u64 {
        self.loaded.kernel_ids.get(self.index).copied().unwrap_or_default()
    }
}

/// The function behind a handle.
pub(crate) fn function(runtime: &Runtime, handle: *mut c_void) -> Result<Function> {
    runtime.state().functions.get(&(handle as usize)).cloned().ok_or(HipError::InvalidHandle)
}

/// Loads what a file or a program's memory holds for the current device.
///
/// # Errors
/// 200 when it is no code object or a damaged one, 209 when none of its code objects is for the device, 2 when it does not fit.
fn load_bytes(runtime: &Runtime, bytes: Vec<u8>, uri: String) -> Result<usize> {
    let gpu = runtime.current()?;
    runtime.state().healthy(gpu.index)?;
    let code = choose(gpu, bytes)?;
    let module = Module::load(&mut gpu.memory(), gpu.model.arch(), &code).map_err(|error| {
        eprintln!("rocm-emu: a code object for {} cannot be loaded: {error}", gpu.info.arch);
        match error {
            LoadError::CodeObject(_) => HipError::InvalidImage,
            LoadError::Arch { .. } | LoadError::NotExecuted(_) => HipError::NoBinaryForGpu,
            LoadError::Memory(_) => HipError::OutOfMemory,
        }
    })?;
    let (loaded, handle) = {
        let mut state = runtime.state();
        let code_object_id = state.id();
        let kernel_ids = module.kernels().iter().map(|_| state.id()).collect();
        let loaded = Arc::new(Loaded { module, device: gpu.index, code_object_id, kernel_ids, uri });
        let handle = state.handle();
        state.modules.insert(handle, Arc::clone(&loaded));
        (loaded, handle)
    };
    tool::code_object(&loaded, true);
    Ok(handle)
}

/// The code object for a device among those of a file.
fn choose(gpu: &Gpu, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let images = load(bytes).map_err(|error| {
        eprintln!("rocm-emu: not a code object that can be loaded: {error}");
        HipError::InvalidImage
    })?;
    let target = Target::parse(&gpu.info.arch).ok_or(HipError::NoBinaryForGpu)?;
    let mut found = HipError::NoBinaryForGpu;
    for image in images.iter().filter(|image| image.content == Content::CodeObject) {
        match image.code_object() {
            Ok(object) if object.arch().runs_on(&target) => return Ok(image.bytes.to_vec()),
            Ok(_) => {}
            Err(_) => found = HipError::InvalidImage,
        }
    }
    Err(found)
}

pub(crate) unsafe fn load_data(out: *mut *mut c_void, image: *const c_void) -> Result {
    let runtime = runtime()?;
    if out.is_null() || image.is_null() {
        return Err(HipError::InvalidValue);
    }
    forbid_in_capture(runtime)?;
    let bytes = image::at(image)?;
    let uri = format!("memory://{}#offset={:#x}&size={}", std::process::id(), image as usize, bytes.len());
    let handle = load_bytes(runtime, bytes, uri)?;
    // SAFETY: not null, the caller's pointer.
    unsafe { put(out, std::ptr::without_provenance_mut(handle)) }
}

pub(crate) unsafe fn load_data_ex(
    out: *mut *mut c_void,
    image: *const c_void,
    _options: c_uint,
    _names: *mut c_int,
    _values: *mut *mut c_void,
) -> Result {
    // SAFETY: the caller's pointers. Options of the just-in-time compiler do not concern code objects.
    unsafe { load_data(out, image) }
}

pub(crate) unsafe fn load_file(out: *mut *mut c_void, path: *const c_char) -> Result {
    let runtime = runtime()?;
    if out.is_null() || path.is_null() {
        return Err(HipError::InvalidValue);
    }
    forbid_in_capture(runtime)?;
    // SAFETY: the caller's string, not null.
    let path = unsafe { CStr::from_ptr(path) };
    let bytes = std::fs::read(as_path(path)).map_err(|_| HipError::FileNotFound)?;
    let handle = load_bytes(runtime, bytes, format!("file://{}", path.to_string_lossy()))?;
    // SAFETY: not null, the caller's pointer.
    unsafe { put(out, std::ptr::without_provenance_mut(handle)) }
}

#[cfg(unix)]
fn as_path(path: &CStr) -> &Path {
    Path::new(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path.to_bytes()))
}

pub(crate) unsafe fn unload(module: *mut c_void) -> Result {
    let runtime = runtime()?;
    let handle = module as usize;
    let loaded = runtime.state().modules.get(&handle).cloned().ok_or(HipError::InvalidHandle)?;
    // What still runs may use it. A device that has faulted does no more harm.
    let _ = stream::wait_device(runtime, loaded.device);
    tool::code_object(&loaded, false);
    let mut state = runtime.state();
    state.modules.remove(&handle).ok_or(HipError::InvalidHandle)?;
    state.functions.retain(|_, function| !Arc::ptr_eq(&function.loaded, &loaded));
    drop(state);
    runtime.gpu(loaded.device)?.memory().free(loaded.module.base()).map_err(|_| HipError::InvalidHandle)
}

/// The module behind a handle and the name of something in it.
///
/// # Safety
/// `name` is null or a string.
unsafe fn named<'n>(runtime: &Runtime, module: *mut c_void, name: *const c_char) -> Result<(Arc<Loaded>, &'n str)> {
    if name.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's string, not null.
    let name = unsafe { CStr::from_ptr(name) };
    if name.is_empty() {
        return Err(HipError::InvalidValue);
    }
    let loaded = runtime.state().modules.get(&(module as usize)).cloned().ok_or(HipError::InvalidHandle)?;
    Ok((loaded, name.to_str().map_err(|_| HipError::NotFound)?))
}

pub(crate) unsafe fn get_function(out: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> Result {
    let runtime = runtime()?;
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's string.
    let (loaded, name) = unsafe { named(runtime, module, name)? };
    let index = loaded.module.kernels().iter().position(|kernel| kernel.name == name).ok_or(HipError::NotFound)?;
    let mut state = runtime.state();
    let same = |function: &Function| function.index == index && Arc::ptr_eq(&function.loaded, &loaded);
    let known = state.functions.iter().find(|(_, function)| same(function)).map(|(handle, _)| *handle);
    let handle = known.unwrap_or_else(|| {
        let handle = state.handle();
        state.functions.insert(handle, Function { loaded: Arc::clone(&loaded), index });
        handle
    });
    // SAFETY: not null, the caller's pointer.
    unsafe { put(out, std::ptr::without_provenance_mut(handle)) }
}

pub(crate) unsafe fn get_global(
    address: *mut *mut c_void,
    size: *mut usize,
    module: *mut c_void,
    name: *const c_char,
) -> Result {
    let runtime = runtime()?;
    if address.is_null() && size.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's string.
    let (loaded, name) = unsafe { named(runtime, module, name)? };
    let symbol = loaded.module.object().symbol(name).filter(|symbol| symbol.is_defined());
    let (start, bytes) = symbol.and_then(|_| loaded.module.global(name)).ok_or(HipError::NotFound)?;
    // SAFETY: the caller's pointers, either of which may be null.
    unsafe {
        if !address.is_null() {
            put(address, std::ptr::without_provenance_mut(start as usize))?;
        }
        if size.is_null() { Ok(()) } else { put(size, bytes as usize) }
    }
}

pub(crate) unsafe fn attribute(out: *mut c_int, attribute: c_int, handle: *mut c_void) -> Result {
    let runtime = runtime()?;
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    let function = function(runtime, handle)?;
    let (kernel, info) = (function.kernel()?, &runtime.gpu(function.loaded.device)?.info);
    let value = match attribute {
        0 => kernel.max_workgroup.unwrap_or(MAX_BLOCK),
        1 => kernel.lds_bytes,
        // Constant memory and the two cache preferences: CDNA has none.
        2 | 7 | 9 => 0,
        3 => kernel.scratch_bytes,
        4 => kernel.vgprs,
        5 | 6 => info.version[0] * 10 + info.version[1],
        8 => info.lds_bytes.saturating_sub(kernel.lds_bytes),
        _ => return Err(HipError::InvalidValue),
    };
    // SAFETY: not null, the caller's pointer.
    unsafe { put(out, c_int::try_from(value).unwrap_or(c_int::MAX)) }
}

// --- Occupancy

/// Workgroups of a block size on a CU; 0 when it does not fit.
fn blocks_per_cu(runtime: &Runtime, function: &Function, block: u32, dynamic_lds: usize) -> Result<u32> {
    let gpu = runtime.gpu(function.loaded.device)?;
    let target = Target::parse(gpu.model.arch().name()).ok_or(HipError::InvalidDevice)?;
    let shape = LaunchShape { block, dynamic_lds_bytes: u32::try_from(dynamic_lds).unwrap_or(u32::MAX) };
    Ok(function.kernel()?.occupancy(&target, shape).map_or(0, |occupancy| occupancy.workgroups))
}

pub(crate) unsafe fn max_blocks(out: *mut c_int, handle: *mut c_void, block: c_int, dynamic_lds: usize) -> Result {
    let runtime = runtime()?;
    let block = u32::try_from(block).ok().filter(|block| *block > 0).ok_or(HipError::InvalidValue)?;
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    let function = function(runtime, handle)?;
    let blocks = blocks_per_cu(runtime, &function, block, dynamic_lds)?;
    // SAFETY: not null, the caller's pointer.
    unsafe { put(out, blocks as c_int) }
}

pub(crate) unsafe fn max_blocks_with_flags(
    out: *mut c_int,
    handle: *mut c_void,
    block: c_int,
    dynamic_lds: usize,
    flags: c_uint,
) -> Result {
    // Default, and no caching override.
    if flags > 1 {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's pointer.
    unsafe { max_blocks(out, handle, block, dynamic_lds) }
}

pub(crate) unsafe fn best_block(
    grid: *mut c_int,
    block: *mut c_int,
    handle: *mut c_void,
    dynamic_lds: usize,
    limit: c_int,
) -> Result {
    let runtime = runtime()?;
    if grid.is_null() || block.is_null() || limit < 0 {
        return Err(HipError::InvalidValue);
    }
    let function = function(runtime, handle)?;
    let most = function.kernel()?.max_workgroup.unwrap_or(MAX_BLOCK).min(MAX_BLOCK);
    let most = if limit == 0 { most } else { most.min(limit as u32) };
    // The block with the most work-items on a CU; of several, the largest.
    let mut best = (0, 0, 0);
    for size in (64..=most.max(64)).step_by(64) {
        let size = size.min(most);
        let blocks = blocks_per_cu(runtime, &function, size, dynamic_lds)?;
        best = best.max((blocks * size, size, blocks));
    }
    let cus = runtime.gpu(function.loaded.device)?.info.cus;
    // SAFETY: not null, the caller's pointers.
    unsafe { put(grid, (best.2 * cus) as c_int).and_then(|()| put(block, best.1 as c_int)) }
}
