//! hiprtc: compiling HIP C++ at run time.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::{Handle, Runtime};
use crate::api::{HIPRTC_LIBRARY_VARIABLE, HipError, Library, RtcApi, SymbolTable};
use crate::sys;

/// Held while compiling: hiprtc of HIP 5.2.3 was seen to crash in `hiprtcCompileProgram` when two threads are in it.
static COMPILING: Mutex<()> = Mutex::new(());

/// A hiprtc library. It needs no GPU.
pub struct Compiler {
    api: RtcApi,
}

/// What a compilation gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The code object.
    pub code: Vec<u8>,
    /// The compiler's messages (warnings); mostly empty.
    pub log: String,
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Compiler").field(&self.library()).finish()
    }
}

impl Compiler {
    /// Loads hiprtc: `$KBENCH_HIPRTC_LIB` when set, else the newest `libhiprtc` in `$ROCM_PATH/lib`, `/opt/rocm/lib` or where the system's loader looks, or a
    /// `libamdhip64` there that has hiprtc inside (HIP 5).
    ///
    /// # Errors
    /// [`HipError::NoLibrary`] with every place and reason.
    pub fn open() -> Result<Self, HipError> {
        Ok(Self { api: RtcApi::new(Library::hiprtc()?) })
    }

    /// Loads the hiprtc that belongs to a HIP in this process: that library itself where it has hiprtc inside, or the `libhiprtc` beside it, before
    /// the other places of [`Compiler::open`]. Another `libamdhip64` is never loaded for it.
    ///
    /// # Errors
    /// [`HipError::NoLibrary`] with every place and reason.
    pub fn open_with(runtime: &Runtime) -> Result<Self, HipError> {
        Ok(Self { api: RtcApi::new(Library::hiprtc_with(&runtime.api().library)?) })
    }

    /// Loads one file as hiprtc.
    ///
    /// # Errors
    /// [`HipError::NoLibrary`] when it cannot be loaded, or has no `hiprtcCreateProgram`.
    pub fn open_file(file: &Path) -> Result<Self, HipError> {
        let library = Library::file("hiprtc", HIPRTC_LIBRARY_VARIABLE, file, c"hiprtcCreateProgram")?;
        Ok(Self { api: RtcApi::new(library) })
    }

    /// hiprtc from a table of functions in this process, trusted as that of [`Runtime::from_symbols`](super::Runtime::from_symbols) is.
    #[must_use]
    pub fn from_symbols(name: &str, table: SymbolTable) -> Self {
        // SAFETY: what `Runtime::from_symbols` asks of a table.
        Self { api: RtcApi::new(unsafe { Library::table(name, table) }) }
    }

    /// The file that was loaded, as the system names it, or the name of the table.
    #[must_use]
    pub fn library(&self) -> &Path {
        self.api.library.name()
    }

    /// Version of hiprtc: major and minor.
    ///
    /// # Errors
    /// What hiprtc says.
    pub fn version(&self) -> Result<(u32, u32), HipError> {
        self.api.version()
    }

    /// Compiles HIP C++ to a code object. `name` stands for the file in messages; options are those of clang, such as `--offload-arch=gfx942` and `-O3`.
    /// Compilations in one process wait for each other.
    ///
    /// # Errors
    /// [`HipError::Compile`] with the compiler's messages; [`HipError::Invalid`] for text with a NUL in it.
    pub fn compile(&self, source: &str, name: &str, options: &[&str]) -> Result<Compiled, HipError> {
        let c_text = |text: &str, what: &str| {
            CString::new(text).map_err(|_| HipError::invalid(format!("{what} has a NUL in it")))
        };
        let c_options =
            options.iter().map(|option| c_text(option, "a compiler option")).collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<*const c_char> = c_options.iter().map(|option| option.as_ptr()).collect();
        let (c_source, c_name) = (c_text(source, "the source")?, c_text(name, "a program's name")?);
        let _one_at_a_time = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = Handle(self.api.create(&c_source, &c_name)?);
        let program = Program { api: &self.api, handle, destroyed: false };
        // SAFETY: the handle is live, and the options live until this returns.
        let compiled = unsafe { self.api.compile(program.handle.raw(), &mut pointers) };
        // SAFETY: the handle is live.
        let log = unsafe { self.api.log(program.handle.raw()) };
        if let Err(error) = compiled {
            let HipError::Call { code, name: status, .. } = error else { return Err(error) };
            return Err(HipError::Compile {
                program: name.into(),
                options: options.join(" ").into(),
                code,
                name: status,
                log: log.unwrap_or_default().into(),
            });
        }
        // SAFETY: the handle is live.
        let code = unsafe { self.api.code(program.handle.raw()) }?;
        program.destroy()?;
        Ok(Compiled { code, log: log.unwrap_or_default() })
    }
}

/// A program while it is compiled.
struct Program<'a> {
    api: &'a RtcApi,
    handle: Handle<sys::_hiprtcProgram>,
    destroyed: bool,
}

impl Program<'_> {
    /// Destroys it, with the error that a destructor could not give.
    fn destroy(mut self) -> Result<(), HipError> {
        self.destroyed = true;
        // SAFETY: the handle is live, and not used after this.
        unsafe { self.api.destroy(self.handle.raw()) }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.destroyed {
            // Another error is on its way to the caller; this one would hide it.
            // SAFETY: the handle is live, and not used after this.
            let _less_important = unsafe { self.api.destroy(self.handle.raw()) };
        }
    }
}
