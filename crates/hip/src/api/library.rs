//! Finding and loading a library.

use std::ffi::{CStr, OsString, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

use super::error::{HipError, Tried};
use crate::sys::{MissingSymbol, Symbols};

/// Names the HIP library to load; nothing else is tried then.
pub const HIP_LIBRARY_VARIABLE: &str = "KBENCH_HIP_LIB";
/// Names the hiprtc library to load; nothing else is tried then.
pub const HIPRTC_LIBRARY_VARIABLE: &str = "KBENCH_HIPRTC_LIB";

/// Newest first. `.so` alone exists only where development packages are installed.
const SUFFIXES: [&str; 4] = [".so.7", ".so.6", ".so.5", ".so"];

/// What only hiprtc has.
const HIPRTC_PROBE: &CStr = c"hiprtcCreateProgram";

/// A table of functions in this process: gives the address of a function by its name.
pub type SymbolTable = fn(&CStr) -> Option<NonNull<c_void>>;

/// A library whose functions can be looked up: a loaded file, or a table in this process.
#[derive(Debug)]
pub struct Library {
    name: PathBuf,
    source: Source,
}

enum Source {
    /// Never unloaded: a HIP runtime has threads and exit handlers of its own.
    File(ManuallyDrop<Loaded>),
    Table(SymbolTable),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Table(_) => "Table",
        })
    }
}

// SAFETY: a file is loaded as the HIP or hiprtc library that its user says it is, and never unloaded; a table is given under the contract of `table`.
unsafe impl Symbols for Library {
    fn find(&self, name: &CStr) -> Option<NonNull<c_void>> {
        match &self.source {
            // SAFETY: only the address is taken, as a pointer without a target type.
            Source::File(library) => {
                unsafe { library.get::<*mut c_void>(name) }.ok().and_then(|symbol| NonNull::new(symbol.into_raw()))
            }
            Source::Table(table) => table(name),
        }
    }
}

impl Library {
    /// HIP: `$KBENCH_HIP_LIB`, or the newest of `$ROCM_PATH/lib`, `/opt/rocm/lib` and the loader's own places, in this order.
    ///
    /// # Errors
    /// [`HipError::NoLibrary`] with everything that was tried.
    pub fn hip() -> Result<Self, HipError> {
        let places = places(std::env::var_os(HIP_LIBRARY_VARIABLE), std::env::var_os("ROCM_PATH"), &["libamdhip64"]);
        first("HIP", HIP_LIBRARY_VARIABLE, &places, c"hipInit")
    }

    /// hiprtc: `$KBENCH_HIPRTC_LIB`, or the newest `libhiprtc` in the places of [`Library::hip`], or a `libamdhip64` that has it (HIP 5).
    ///
    /// # Errors
    /// [`HipError::NoLibrary`] with everything that was tried.
    pub fn hiprtc() -> Result<Self, HipError> {
        let stems = ["libhiprtc", "libamdhip64"];
        let places = places(std::env::var_os(HIPRTC_LIBRARY_VARIABLE), std::env::var_os("ROCM_PATH"), &stems);
        first("hiprtc", HIPRTC_LIBRARY_VARIABLE, &places, HIPRTC_PROBE)
    }

    /// hiprtc for a process that has HIP: `$KBENCH_HIPRTC_LIB`, or that HIP itself where it has hiprtc (HIP 5), or the `libhiprtc` beside it, or
    /// the newest one in the places of [`Library::hip`]. Never another `libamdhip64`: two of them in one process keep separate states.
    ///
    /// # Errors
    /// [`HipError::NoLibrary`] with everything that was tried.
    pub fn hiprtc_with(hip: &Library) -> Result<Self, HipError> {
        let file = match hip.source {
            Source::File(_) => hip.name.as_path(),
            Source::Table(table) if table(HIPRTC_PROBE).is_some() => {
                return Ok(Self { name: hip.name.clone(), source: Source::Table(table) });
            }
            Source::Table(_) => Path::new(""),
        };
        let places = places_with(file, std::env::var_os(HIPRTC_LIBRARY_VARIABLE), std::env::var_os("ROCM_PATH"));
        first("hiprtc", HIPRTC_LIBRARY_VARIABLE, &places, HIPRTC_PROBE)
    }

    /// One file, which must have the function `probe`.
    ///
    /// # Errors
    /// [`HipError::NoLibrary`] when it cannot be loaded or is another library.
    pub fn file(what: &'static str, variable: &'static str, file: &Path, probe: &CStr) -> Result<Self, HipError> {
        load(file, probe).map_err(|tried| HipError::NoLibrary { what, variable, tried: vec![tried] })
    }

    /// A table of functions in this process, under a name for messages.
    ///
    /// # Safety
    /// Every address the table gives is that of a function that keeps to the C interface of HIP or hiprtc under that name, for as long as the
    /// process lives.
    #[must_use]
    pub unsafe fn table(name: &str, table: SymbolTable) -> Self {
        Self { name: name.into(), source: Source::Table(table) }
    }

    /// The file that was loaded, as the system names it, or the name of the table.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The error for a function that is not there.
    pub(crate) fn missing(&self, missing: MissingSymbol) -> HipError {
        HipError::MissingSymbol { library: self.name.clone(), symbol: missing.symbol, needed_for: missing.needed_for }
    }
}

/// Where to look, in order: the file that the user named and nothing else, or the directories of ROCm and then bare names.
fn places(named: Option<OsString>, rocm_path: Option<OsString>, stems: &[&str]) -> Vec<PathBuf> {
    if let Some(file) = named.filter(|f| !f.is_empty()) {
        return vec![file.into()];
    }
    let rocm_path = rocm_path.filter(|p| !p.is_empty()).map(PathBuf::from);
    let mut directories: Vec<PathBuf> =
        rocm_path.into_iter().chain([PathBuf::from("/opt/rocm")]).map(|d| d.join("lib")).collect();
    directories.dedup();
    // An empty directory stands for the loader's own search.
    directories.push(PathBuf::new());
    let names: Vec<String> =
        stems.iter().flat_map(|stem| SUFFIXES.iter().map(move |suffix| format!("{stem}{suffix}"))).collect();
    directories.iter().flat_map(|directory| names.iter().map(move |name| directory.join(name))).collect()
}

/// Where hiprtc is looked for beside a HIP that was loaded from `hip`; empty for one that is no file.
fn places_with(hip: &Path, named: Option<OsString>, rocm_path: Option<OsString>) -> Vec<PathBuf> {
    let is_named = named.as_ref().is_some_and(|file| !file.is_empty());
    let others = places(named, rocm_path, &["libhiprtc"]);
    if is_named || hip.as_os_str().is_empty() {
        return others;
    }
    let beside = SUFFIXES.iter().map(|suffix| hip.with_file_name(format!("libhiprtc{suffix}")));
    let mut all: Vec<PathBuf> = [hip.to_owned()].into_iter().chain(beside).collect();
    all.extend(others);
    all
}

/// The first of `places` that loads and has `probe`.
fn first(what: &'static str, variable: &'static str, places: &[PathBuf], probe: &CStr) -> Result<Library, HipError> {
    let mut tried = Vec::new();
    for place in places {
        match load(place, probe) {
            Ok(library) => return Ok(library),
            Err(failure) => tried.push(failure),
        }
    }
    Err(HipError::NoLibrary { what, variable, tried })
}

/// Loads one file and checks that it has `probe`.
fn load(file: &Path, probe: &CStr) -> Result<Library, Tried> {
    let failure = |reason: String| Tried { file: file.to_owned(), reason: reason.into() };
    // SAFETY: loading runs the library's initialisers; the user asked for this library, and it stays loaded.
    let loaded = unsafe { Loaded::open(Some(file), RTLD_NOW | RTLD_LOCAL) }
        .map_err(|error| failure(loader_reason(&error, file)))?;
    let mut library = Library { name: file.to_owned(), source: Source::File(ManuallyDrop::new(loaded)) };
    let address =
        library.find(probe).ok_or_else(|| failure(format!("it has no function {}", probe.to_string_lossy())))?;
    if let Some(path) = mapped_file(address) {
        library.name = path;
    }
    Ok(library)
}

/// The loader's reason without the file name it begins with, which is said already.
fn loader_reason(error: &libloading::Error, file: &Path) -> String {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let prefix = format!("{}: ", file.display());
    text.strip_prefix(&prefix).map(str::to_owned).unwrap_or(text)
}

/// The file that is mapped at an address of this process.
fn mapped_file(address: NonNull<c_void>) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    file_at(&maps, address.as_ptr() as u64)
}

/// The path in the line of `/proc/self/maps` whose range holds `address`.
fn file_at(maps: &str, address: u64) -> Option<PathBuf> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let range = u64::from_str_radix(from, 16).ok()?..u64::from_str_radix(to, 16).ok()?;
        let path = rest.find('/').and_then(|at| rest.get(at..))?;
        range.contains(&address).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_is_the_only_place() {
        assert_eq!(places(Some("/x/y.so".into()), Some("/r".into()), &["libamdhip64"]), [PathBuf::from("/x/y.so")]);
    }

    #[test]
    fn rocm_directories_come_before_the_loaders_own_and_newer_before_older() {
        let all = places(Some("".into()), Some("/r".into()), &["libamdhip64"]);
        let all: Vec<String> = all.iter().map(|p| p.display().to_string()).collect();
        assert_eq!(
            all,
            [
                "/r/lib/libamdhip64.so.7",
                "/r/lib/libamdhip64.so.6",
                "/r/lib/libamdhip64.so.5",
                "/r/lib/libamdhip64.so",
                "/opt/rocm/lib/libamdhip64.so.7",
                "/opt/rocm/lib/libamdhip64.so.6",
                "/opt/rocm/lib/libamdhip64.so.5",
                "/opt/rocm/lib/libamdhip64.so",
                "libamdhip64.so.7",
                "libamdhip64.so.6",
                "libamdhip64.so.5",
                "libamdhip64.so",
            ]
        );
        let same = places(None, Some("/opt/rocm".into()), &["libhiprtc", "libamdhip64"]);
        assert_eq!(same.len(), 16, "ROCM_PATH=/opt/rocm is one directory, not two");
        assert_eq!(same.get(4), Some(&PathBuf::from("/opt/rocm/lib/libamdhip64.so.7")));
    }

    #[test]
    fn hiprtc_comes_from_the_loaded_hip_or_from_beside_it_and_never_from_another_hip() {
        let all = places_with(Path::new("/mine/libamdhip64.so.7.1"), None, Some("/r".into()));
        let all: Vec<String> = all.iter().map(|p| p.display().to_string()).collect();
        assert_eq!(
            all.get(..6).unwrap(),
            [
                "/mine/libamdhip64.so.7.1",
                "/mine/libhiprtc.so.7",
                "/mine/libhiprtc.so.6",
                "/mine/libhiprtc.so.5",
                "/mine/libhiprtc.so",
                "/r/lib/libhiprtc.so.7",
            ]
        );
        assert_eq!(all.iter().filter(|place| place.contains("libamdhip64")).count(), 1, "{all:?}");
        let named = places_with(Path::new("/mine/libamdhip64.so.7"), Some("/x/rtc.so".into()), None);
        assert_eq!(named, [PathBuf::from("/x/rtc.so")]);
        assert_eq!(
            places_with(Path::new(""), None, None).first(),
            Some(&PathBuf::from("/opt/rocm/lib/libhiprtc.so.7"))
        );
    }

    #[test]
    fn the_file_of_an_address_is_found_in_a_map() {
        let maps = "55d0-55d8 r--p 00000000 08:01 12 /usr/bin/a b\n7f00-7f10 rw-p 00000000 00:00 0 \n7f10-7f20 r-xp 00001000 08:01 3    /lib/x.so\n";
        assert_eq!(file_at(maps, 0x55d7), Some(PathBuf::from("/usr/bin/a b")));
        assert_eq!(file_at(maps, 0x7f10), Some(PathBuf::from("/lib/x.so")));
        assert_eq!(file_at(maps, 0x7f08), None, "anonymous memory has no file");
        assert_eq!(file_at(maps, 0x7f20), None);
    }

    #[test]
    fn what_was_tried_is_in_the_error() {
        let missing = PathBuf::from("/nowhere/libamdhip64.so.7");
        let error =
            first("HIP", HIP_LIBRARY_VARIABLE, &[missing, PathBuf::from("/proc/self/exe")], c"hipInit").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/nowhere/libamdhip64.so.7 (cannot open shared object file"), "{text}");
        assert!(text.contains("/proc/self/exe ("), "{text}");
        assert!(text.contains("KBENCH_HIP_LIB"), "{text}");
    }
}
