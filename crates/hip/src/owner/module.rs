//! Code objects and their kernels.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use super::Handle;
use super::attribute::FunctionAttribute;
use super::device::Device;
use super::event::Event;
use super::image;
use super::stream::Stream;
use crate::api::HipError;
use crate::sys;

/// Zeros behind the copy of a code object, for readers of strings in it that is cut off.
const PADDING: usize = 64;

/// A size in three dimensions: a grid in workgroups, or a workgroup in work-items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Size in x.
    pub x: u32,
    /// Size in y.
    pub y: u32,
    /// Size in z.
    pub z: u32,
}

impl Dim3 {
    /// All three sizes.
    #[must_use]
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// One dimension.
    #[must_use]
    pub const fn x(x: u32) -> Self {
        Self::new(x, 1, 1)
    }

    fn array(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self { x, y, z }
    }
}

impl std::fmt::Display for Dim3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

/// A code object on a device. Cloning is cheap; the last clone, kernel and graph of it that is dropped unloads it: see to it that its kernels have
/// finished by then.
#[derive(Debug, Clone)]
pub struct Module(Arc<LoadedModule>);

/// A kernel of a code object, which it keeps loaded.
#[derive(Clone)]
pub struct Function {
    module: Arc<LoadedModule>,
    handle: Arc<Handle<sys::ihipModuleSymbol_t>>,
    name: Arc<str>,
}

/// A loaded code object, with the bytes that HIP may still read (it need not copy them).
pub(super) struct LoadedModule {
    device: Device,
    handle: Handle<sys::ihipModule_t>,
    _image: Vec<u8>,
}

impl std::fmt::Debug for LoadedModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedModule").field("device", &self.device.index()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function").field("name", &self.name).field("module", &self.module).finish_non_exhaustive()
    }
}

impl Module {
    /// Loads a code object (ELF) or an offload bundle, plain or compressed.
    ///
    /// # Errors
    /// [`HipError::Invalid`] when the bytes are neither, or are cut off; [`HipError::no_binary_for_gpu`] for code of another architecture or with
    /// other features; or what else HIP says.
    pub fn load(device: &Device, bytes: &[u8]) -> Result<Self, HipError> {
        image::check(bytes)?;
        let mut image = Vec::with_capacity(bytes.len() + PADDING);
        image.extend_from_slice(bytes);
        image.resize(bytes.len() + PADDING, 0);
        device.make_current()?;
        // SAFETY: the parts of the image lie in it (checked above), and it lives as long as the module.
        let handle = unsafe { device.api().module_load(image.as_ptr()) }
            .map_err(|e| e.about(|| format!("{} bytes", bytes.len())))?;
        Ok(Self(Arc::new(LoadedModule { device: device.clone(), handle: Handle(handle), _image: image })))
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// A kernel by its name as the code object spells it (mangled, without `.kd`).
    ///
    /// # Errors
    /// What HIP says: `hipErrorNotFound` (500) when there is none.
    pub fn function(&self, name: &str) -> Result<Function, HipError> {
        let c_name =
            CString::new(name).map_err(|_| HipError::invalid(format!("a kernel's name has no NUL in it: {name:?}")))?;
        // SAFETY: the handle is live.
        let handle = unsafe { self.0.device.api().module_function(self.0.handle.raw(), &c_name) }
            .map_err(|e| e.about(|| name.to_owned()))?;
        Ok(Function { module: Arc::clone(&self.0), handle: Arc::new(Handle(handle)), name: name.into() })
    }
}

impl Function {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.module.device
    }

    /// One attribute; `None` when the library does not know it.
    ///
    /// # Errors
    /// What HIP says.
    pub fn attribute(&self, attribute: FunctionAttribute) -> Result<Option<u32>, HipError> {
        // SAFETY: the handle is live, because its module is held.
        match unsafe { self.device().api().function_attribute(attribute.id(), self.handle.raw()) } {
            Ok(value) => Ok(u32::try_from(value).ok()),
            Err(HipError::Call { code: sys::hipErrorInvalidValue | sys::hipErrorNotSupported, .. }) => Ok(None),
            Err(error) => Err(error.about(|| format!("{attribute:?} of {}", self.name))),
        }
    }

    /// How many workgroups of `block` work-items with `dynamic_lds` bytes of dynamic LDS fit on a multiprocessor at a time.
    ///
    /// # Errors
    /// What HIP says.
    pub fn occupancy(&self, block: u32, dynamic_lds: u32) -> Result<u32, HipError> {
        let block =
            i32::try_from(block).map_err(|_| HipError::invalid(format!("a workgroup of {block} work-items")))?;
        // SAFETY: the handle is live, because its module is held.
        let blocks = unsafe { self.device().api().occupancy(self.handle.raw(), block, dynamic_lds as usize) }
            .map_err(|e| e.about(|| self.name.to_string()))?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// Launches it with a grid of `grid` workgroups of `block` work-items, `dynamic_lds` bytes of dynamic LDS, and the bytes of its explicit arguments laid
    /// out as its metadata says. HIP copies the bytes before it returns.
    ///
    /// The bytes hold device addresses, and nothing can check them: a kernel that is given wrong ones reads or overwrites other device memory, or faults
    /// (which ends the process).
    ///
    /// # Errors
    /// [`HipError::Invalid`] for a stream of another device, or what HIP says, such as `hipErrorInvalidValue` for an empty grid or too much LDS and
    /// `hipErrorLaunchFailure` (719) for a workgroup above the kernel's launch bounds.
    pub fn launch(
        &self,
        stream: &Stream,
        grid: Dim3,
        block: Dim3,
        dynamic_lds: u32,
        kernarg: &[u8],
    ) -> Result<(), HipError> {
        stream.same_device(self.device(), "a kernel")?;
        stream.launched(&self.module);
        let mut bytes = kernarg.len();
        let mut extra = Self::extra(kernarg, &mut bytes);
        // SAFETY: both handles are live; `extra` points to the bytes and their length, which live until HIP has copied them.
        unsafe {
            self.device().api().launch(
                self.handle.raw(),
                grid.array(),
                block.array(),
                dynamic_lds,
                stream.raw(),
                Self::extra_or_null(&mut extra, bytes),
            )
        }
        .map_err(|e| self.launch_error(e, grid, block, dynamic_lds))
    }

    /// Launches it as [`Function::launch`] does, between two events that take the start and the end of this very dispatch: their difference is the kernel's
    /// own time, without the launch.
    ///
    /// # Errors
    /// As [`Function::launch`]; [`HipError::missing_symbol`] when the library cannot do it (see
    /// [`Runtime::has_launch_timed`](super::Runtime::has_launch_timed)), [`HipError::Invalid`] for a grid of 2^32 work-items or more in a dimension.
    #[allow(clippy::too_many_arguments)]
    pub fn launch_timed(
        &self,
        stream: &Stream,
        grid: Dim3,
        block: Dim3,
        dynamic_lds: u32,
        kernarg: &[u8],
        start: &Event,
        stop: &Event,
    ) -> Result<(), HipError> {
        stream.same_device(self.device(), "a kernel")?;
        stream.same_device(start.device(), "an event")?;
        stream.same_device(stop.device(), "an event")?;
        let items = |grid: u32, block: u32| {
            let too_large = || {
                HipError::invalid(format!(
                    "{}: {grid} workgroups of {block} work-items are too many for one launch",
                    self.name
                ))
            };
            grid.checked_mul(block).ok_or_else(too_large)
        };
        let items = [items(grid.x, block.x)?, items(grid.y, block.y)?, items(grid.z, block.z)?];
        stream.launched(&self.module);
        let mut bytes = kernarg.len();
        let mut extra = Self::extra(kernarg, &mut bytes);
        // SAFETY: all handles are live; `extra` points to the bytes and their length, which live until HIP has copied them.
        unsafe {
            self.device().api().launch_timed(
                self.handle.raw(),
                [items, block.array()],
                dynamic_lds,
                stream.raw(),
                Self::extra_or_null(&mut extra, bytes),
                [start.raw(), stop.raw()],
            )
        }
        .map_err(|e| self.launch_error(e, grid, block, dynamic_lds))
    }

    /// HIP's list that says where the bytes of the arguments are, and how many.
    fn extra(kernarg: &[u8], bytes: &mut usize) -> [*mut c_void; 5] {
        [
            sys::HIP_LAUNCH_PARAM_BUFFER_POINTER,
            kernarg.as_ptr().cast_mut().cast(),
            sys::HIP_LAUNCH_PARAM_BUFFER_SIZE,
            std::ptr::from_mut(bytes).cast(),
            sys::HIP_LAUNCH_PARAM_END,
        ]
    }

    /// The list, or NULL for a kernel without arguments.
    fn extra_or_null(extra: &mut [*mut c_void; 5], bytes: usize) -> *mut *mut c_void {
        if bytes == 0 { std::ptr::null_mut() } else { extra.as_mut_ptr() }
    }

    fn launch_error(&self, error: HipError, grid: Dim3, block: Dim3, dynamic_lds: u32) -> HipError {
        error.about(|| format!("{}, {grid} workgroups of {block}, {dynamic_lds} bytes of dynamic LDS", self.name))
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and not used after this: kernels and graphs hold this value.
        let result = unsafe { self.device.api().module_unload(self.handle.raw()) };
        self.device.runtime().released(result);
    }
}
