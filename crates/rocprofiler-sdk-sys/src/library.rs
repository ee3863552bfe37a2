//! Finding and loading the library.

use crate::functions::{MANDATORY, MissingSymbol, Slots};
use crate::{Status, Version, VersionError};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Environment variable that names the library to load; no other is tried then.
pub const LIBRARY_VARIABLE: &str = "KBENCH_ROCPROFILER_SDK";

/// File names, the versioned one first: Python wheels of ROCm have no other.
const FILE_NAMES: [&str; 2] = ["librocprofiler-sdk.so.1", "librocprofiler-sdk.so"];

/// Functions by name, for an SDK that is part of the program.
pub type SymbolTable = fn(&CStr) -> Option<NonNull<c_void>>;

/// Why there is no SDK.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No candidate could be loaded.
    #[error(
        "rocprofiler-sdk was not found: {}. Install the package rocprofiler-sdk of ROCm 7.0 or later, or name its library in \
         ${LIBRARY_VARIABLE}",
        list(tried)
    )]
    NotFound {
        /// Each file, and why it could not be loaded.
        tried: Vec<(PathBuf, String)>,
    },
    /// A file that was asked for by name could not be loaded.
    #[error("{} could not be loaded as rocprofiler-sdk: {reason}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The loader's words.
        reason: String,
    },
    /// The version has layouts that are not declared here.
    #[error("{library}: {error}")]
    Version {
        /// The library.
        library: String,
        /// What is wrong with it.
        error: VersionError,
    },
    /// The library does not tell its version.
    #[error("{library} does not tell its version: rocprofiler_get_version answered {status:?}")]
    NoVersion {
        /// The library.
        library: String,
        /// Its answer.
        status: Status,
    },
    /// A function is missing.
    #[error(transparent)]
    Missing(#[from] MissingSymbol),
}

fn list(tried: &[(PathBuf, String)]) -> String {
    let each: Vec<String> = tried.iter().map(|(path, reason)| format!("{} ({reason})", path.display())).collect();
    each.join("; ")
}

/// What to accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Take a major version after 1 too, whose layouts may differ.
    pub allow_unknown_major: bool,
}

enum Source {
    /// Never unloaded: exit handlers and threads of the SDK live in it.
    Library(ManuallyDrop<Library>),
    Table(SymbolTable),
}

/// A loaded SDK. It stays loaded until the process ends: the library has threads and exit handlers of its own.
pub struct Sdk {
    name: String,
    source: Source,
    version: Version,
    pub(crate) slots: Slots,
}

impl fmt::Debug for Sdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sdk").field("name", &self.name).field("version", &self.version).finish_non_exhaustive()
    }
}

/// Files that [`Sdk::open`] tries, in order: the one named by [`LIBRARY_VARIABLE`] and no other; else below `$ROCM_PATH/lib`,
/// `/opt/rocm/lib` and the loader's own paths, each with the versioned name first.
pub fn candidates() -> Vec<PathBuf> {
    candidates_from(std::env::var_os(LIBRARY_VARIABLE).as_deref(), std::env::var_os("ROCM_PATH").as_deref())
}

fn candidates_from(library: Option<&OsStr>, rocm_path: Option<&OsStr>) -> Vec<PathBuf> {
    if let Some(library) = library.filter(|name| !name.is_empty()) {
        return vec![PathBuf::from(library)];
    }
    let default = Path::new("/opt/rocm");
    let mut roots: Vec<&Path> = rocm_path.filter(|path| !path.is_empty()).map(Path::new).into_iter().collect();
    if !roots.contains(&default) {
        roots.push(default);
    }
    let folders = roots.iter().map(|root| root.join("lib"));
    let mut files: Vec<PathBuf> = folders.flat_map(|folder| FILE_NAMES.map(|name| folder.join(name))).collect();
    files.extend(FILE_NAMES.map(PathBuf::from));
    files
}

impl Sdk {
    /// Loads the first of [`candidates`] that can be loaded. Call it before threads are started and before HIP is initialised.
    ///
    /// # Errors
    /// When none can be loaded, the version is refused, or a function is missing.
    pub fn open() -> Result<Sdk, OpenError> {
        Sdk::open_with(OpenOptions::default())
    }

    /// [`Sdk::open`] with options.
    ///
    /// # Errors
    /// As [`Sdk::open`].
    pub fn open_with(options: OpenOptions) -> Result<Sdk, OpenError> {
        let mut tried = Vec::new();
        for path in candidates() {
            match load(&path) {
                Ok(library) => {
                    return Sdk::checked(
                        path.display().to_string(),
                        Source::Library(ManuallyDrop::new(library)),
                        options,
                    );
                }
                Err(reason) => tried.push((path, reason)),
            }
        }
        Err(OpenError::NotFound { tried })
    }

    /// Loads a file.
    ///
    /// # Errors
    /// When it cannot be loaded, the version is refused, or a function is missing.
    pub fn open_file(path: impl AsRef<Path>) -> Result<Sdk, OpenError> {
        Sdk::open_file_with(path, OpenOptions::default())
    }

    /// [`Sdk::open_file`] with options.
    ///
    /// # Errors
    /// As [`Sdk::open_file`].
    pub fn open_file_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<Sdk, OpenError> {
        let path = path.as_ref();
        let library = load(path).map_err(|reason| OpenError::Load { path: path.to_owned(), reason })?;
        Sdk::checked(path.display().to_string(), Source::Library(ManuallyDrop::new(library)), options)
    }

    /// An SDK that is part of the program, or a test's: functions come from a table. The name is for messages.
    ///
    /// # Errors
    /// When the version is refused or a function is missing.
    ///
    /// # Safety
    /// What the table gives for a name must be a function of the type that the C headers of its version declare, for as long as
    /// the process lives.
    pub unsafe fn from_symbols(
        name: impl Into<String>,
        table: SymbolTable,
        options: OpenOptions,
    ) -> Result<Sdk, OpenError> {
        Sdk::checked(name.into(), Source::Table(table), options)
    }

    /// The version first: until it is known, nothing else of the library may be believed.
    fn checked(name: String, source: Source, options: OpenOptions) -> Result<Sdk, OpenError> {
        let mut sdk = Sdk { name, source, version: Version::new(0, 0, 0), slots: Slots::default() };
        let get_version = sdk.get_version()?;
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three valid pointers; the function may be called at any time and has had this form in every version.
        let status = unsafe { get_version(&mut major, &mut minor, &mut patch) };
        if !status.is_success() {
            return Err(OpenError::NoVersion { library: sdk.name, status });
        }
        sdk.version = Version::new(major, minor, patch);
        if let Err(error) = sdk.version.check(options.allow_unknown_major) {
            return Err(OpenError::Version { library: sdk.name, error });
        }
        match MANDATORY.iter().find(|symbol| sdk.address(symbol).is_none()) {
            Some(symbol) => Err(sdk.missing(symbol).into()),
            None => Ok(sdk),
        }
    }

    /// Where it came from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// A status in the SDK's own words, or its number where the SDK has none for it.
    pub fn describe(&self, status: Status) -> String {
        let text = |function: Result<unsafe extern "C" fn(Status) -> *const c_char, MissingSymbol>| {
            // SAFETY: any number may be asked for; the answer is NULL or a string that lives as long as the library.
            function.ok().and_then(|function| unsafe { crate::session::text(function(status)) })
        };
        let (name, words) = (text(self.get_status_name()), text(self.get_status_string()));
        match (name, words) {
            (Some(name), Some(words)) if words != name => format!("{name} ({}): {words}", status.0),
            (Some(name), _) => format!("{name} ({})", status.0),
            (None, Some(words)) => format!("status {}: {words}", status.0),
            (None, None) => format!("status {}, for which the SDK has no name", status.0),
        }
    }

    pub(crate) fn address(&self, symbol: &CStr) -> Option<NonNull<c_void>> {
        match &self.source {
            // SAFETY: the symbol is only made an address here; what it points to is not touched.
            Source::Library(library) => unsafe { library.get::<*mut c_void>(symbol.to_bytes_with_nul()) }
                .ok()
                .and_then(|symbol| NonNull::new(*symbol)),
            Source::Table(table) => table(symbol),
        }
    }

    pub(crate) fn missing(&self, symbol: &CStr) -> MissingSymbol {
        MissingSymbol { library: self.name.clone(), symbol: symbol.to_string_lossy().into_owned() }
    }
}

/// Global, so that `rocprofiler-register` finds the symbols of this very copy.
fn load(path: &Path) -> Result<Library, String> {
    // SAFETY: the library's initialisers run; that is what loading the SDK means.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|error| {
        let reason = error.to_string();
        std::error::Error::source(&error).map_or(reason, |source| source.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_in_order() {
        let names = |files: Vec<PathBuf>| files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        let own = candidates_from(Some(OsStr::new("mine.so")), Some(OsStr::new("/rocm")));
        assert_eq!(names(own), ["mine.so"]);
        let expected = [
            "/rocm/lib/librocprofiler-sdk.so.1",
            "/rocm/lib/librocprofiler-sdk.so",
            "/opt/rocm/lib/librocprofiler-sdk.so.1",
            "/opt/rocm/lib/librocprofiler-sdk.so",
            "librocprofiler-sdk.so.1",
            "librocprofiler-sdk.so",
        ];
        assert_eq!(names(candidates_from(Some(OsStr::new("")), Some(OsStr::new("/rocm")))), expected);
        assert_eq!(names(candidates_from(None, None)), expected[2..]);
        assert_eq!(names(candidates_from(None, Some(OsStr::new("/opt/rocm")))), expected[2..]);
    }

    #[test]
    fn a_table_without_functions_is_refused() {
        // SAFETY: the table has nothing to call.
        let error = unsafe { Sdk::from_symbols("nothing", |_| None, OpenOptions::default()) }.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("nothing lacks the function rocprofiler_get_version"), "{text}");
    }

    #[test]
    fn a_file_that_is_none_is_named() {
        let text = Sdk::open_file("no-such-library.so").unwrap_err().to_string();
        assert!(text.starts_with("no-such-library.so could not be loaded as rocprofiler-sdk: "), "{text}");
        assert!(text.contains("cannot open shared object file"), "{text}");
    }
}
