//! The HIP runtime.

use std::ffi::{CStr, c_void};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::device::Device;
use crate::api::{Api, HIP_LIBRARY_VARIABLE, HipError, Library, SymbolTable, Version};
use crate::sys::{self, Symbols};

/// So many errors of releases are kept; later ones are only counted.
const KEPT_DROP_ERRORS: usize = 32;

/// A HIP library. Cloning is cheap; all clones are the same library.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

struct Inner {
    api: Api,
    drop_errors: Mutex<DropErrors>,
}

/// Errors of releases (`hipFree`, `hipStreamDestroy`, ...), which a destructor cannot return.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DropErrors {
    /// The first of them, at most 32.
    pub first: Vec<HipError>,
    /// How many there were.
    pub count: u64,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Runtime").field(&self.library()).finish()
    }
}

impl Runtime {
    /// Loads HIP: `$KBENCH_HIP_LIB` when set, else the newest `libamdhip64` in `$ROCM_PATH/lib`, `/opt/rocm/lib` or where the system's loader looks.
    ///
    /// # Errors
    /// [`HipError::NoLibrary`] with every place and reason.
    pub fn open() -> Result<Self, HipError> {
        Ok(Self::new(Library::hip()?))
    }

    /// Loads one file as HIP.
    ///
    /// # Errors
    /// [`HipError::NoLibrary`] when it cannot be loaded, or has no `hipInit`.
    pub fn open_file(file: &Path) -> Result<Self, HipError> {
        Ok(Self::new(Library::file("HIP", HIP_LIBRARY_VARIABLE, file, c"hipInit")?))
    }

    /// HIP from a table of functions in this process, under a name for messages.
    ///
    /// The table is trusted as a library's symbols are: **every address it gives for a name must be that of an `extern "C"` function with HIP's
    /// signature and behaviour of that name**, for as long as the process lives. That cannot be checked here, and a table that breaks it
    /// breaks the process, exactly as a wrong file given to [`Runtime::open_file`] does; neither function is `unsafe`, because what must be trusted is
    /// the other library's code and not the caller's.
    #[must_use]
    pub fn from_symbols(name: &str, table: SymbolTable) -> Self {
        // SAFETY: what the documentation above asks of the table.
        Self::new(unsafe { Library::table(name, table) })
    }

    fn new(library: Library) -> Self {
        Self(Arc::new(Inner { api: Api::new(library), drop_errors: Mutex::default() }))
    }

    pub(super) fn api(&self) -> &Api {
        &self.0.api
    }

    /// The file that was loaded, as the system names it, or the name of the table.
    #[must_use]
    pub fn library(&self) -> &Path {
        self.0.api.library.name()
    }

    /// `hipInit(0)`. Other calls do it by themselves; this one says whether it works.
    ///
    /// # Errors
    /// What HIP says; [`HipError::no_device`] without a GPU.
    pub fn init(&self) -> Result<(), HipError> {
        let result = self.api().init();
        // HIP 5 says `hipErrorInvalidDevice` where later ones say `hipErrorNoDevice`; counting devices gives the latter in all of them.
        if let Err(HipError::Call { code: sys::hipErrorInvalidDevice, .. }) = result {
            self.device_count()?;
        }
        result
    }

    /// Version of the runtime; works without a GPU.
    ///
    /// # Errors
    /// What HIP says.
    pub fn runtime_version(&self) -> Result<Version, HipError> {
        self.api().runtime_version()
    }

    /// Version of the driver interface; works without a GPU.
    ///
    /// # Errors
    /// What HIP says.
    pub fn driver_version(&self) -> Result<Version, HipError> {
        self.api().driver_version()
    }

    /// How many devices HIP sees.
    ///
    /// # Errors
    /// What HIP says; [`HipError::no_device`] when there is no GPU that it can use (a count of 0 means that all are hidden).
    pub fn device_count(&self) -> Result<u32, HipError> {
        self.api().device_count()
    }

    /// One device, by its number.
    ///
    /// # Errors
    /// [`HipError::no_device`] without a GPU, [`HipError::Invalid`] for a number that is none.
    pub fn device(&self, index: u32) -> Result<Device, HipError> {
        let count = self.device_count()?;
        if index >= count {
            let which = match count {
                0 => "none is visible".to_owned(),
                1 => "there is only device 0".to_owned(),
                _ => format!("there are devices 0 to {}", count - 1),
            };
            return Err(HipError::invalid(format!("no HIP device {index}: {which}")));
        }
        let number = i32::try_from(index).map_err(|_| HipError::invalid(format!("no HIP device {index}")))?;
        Ok(Device::new(self.clone(), number))
    }

    /// The address of a function beyond those this crate knows, if the library has it.
    #[must_use]
    pub fn extension(&self, name: &CStr) -> Option<NonNull<c_void>> {
        self.0.api.library.find(name)
    }

    /// Whether [`Function::launch_timed`](super::Function::launch_timed) works with this library (it has `hipExtModuleLaunchKernel`).
    #[must_use]
    pub fn has_launch_timed(&self) -> bool {
        self.api().has_launch_timed()
    }

    /// The errors of releases since the last call of this.
    #[must_use]
    pub fn take_drop_errors(&self) -> DropErrors {
        std::mem::take(&mut *self.0.drop_errors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps the error of a release.
    pub(super) fn released(&self, result: Result<(), HipError>) {
        if let Err(error) = result {
            let mut errors = self.0.drop_errors.lock().unwrap_or_else(PoisonError::into_inner);
            errors.count += 1;
            if errors.first.len() < KEPT_DROP_ERRORS {
                errors.first.push(error);
            }
        }
    }
}
