//! GPU libraries that are installed, whether or not this process has loaded them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::root::Root;

/// Libraries that a GPU program or a profiler of one loads, without a version.
const LIBRARIES: [&str; 7] = [
    "libamdhip64.so",
    "libhiprtc.so",
    "libhsa-runtime64.so",
    "libamd_comgr.so",
    "librocprofiler-sdk.so",
    "librocprofiler-register.so",
    "libhsa-amd-aqlprofile64.so",
];
/// Where distributions put libraries.
const DIRECTORIES: [&str; 5] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib"];
/// Entries of a directory beyond so many are not looked at.
const ENTRY_LIMIT: usize = 1 << 16;

/// One library and its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledLibrary {
    /// Its name without a version.
    pub library: String,
    /// Its files, without links that point to one another: more than one are several installations.
    pub paths: Vec<PathBuf>,
}

/// GPU libraries in `$ROCM_PATH/lib`, `/opt/rocm/lib`, `$LD_LIBRARY_PATH` and the system's directories. All are listed, those without a file as well.
#[must_use]
pub fn installed_libraries(root: &Root, variables: &dyn Fn(&str) -> Option<OsString>) -> Vec<InstalledLibrary> {
    let variable = |name: &str| variables(name).filter(|value| !value.is_empty());
    let rocm = variable("ROCM_PATH").map(|path| Path::new(&path).join("lib"));
    let search =
        variable("LD_LIBRARY_PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let mut directories: Vec<PathBuf> =
        rocm.into_iter().chain([PathBuf::from("/opt/rocm/lib")]).chain(search).collect();
    directories.extend(DIRECTORIES.map(PathBuf::from));

    let mut libraries = LIBRARIES.map(|library| InstalledLibrary { library: library.to_owned(), paths: Vec::new() });
    for directory in directories.iter().filter(|directory| directory.is_absolute()) {
        let Ok(entries) = std::fs::read_dir(root.path(directory)) else { continue };
        for entry in entries.take(ENTRY_LIMIT).filter_map(Result::ok) {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let library = libraries.iter_mut().find(|known| versioned(name, &known.library));
            let Some(library) = library else { continue };
            // `libamdhip64.so`, `.so.7` and `.so.7.2` are links to one file.
            let Ok(file) = std::fs::canonicalize(entry.path()) else { continue };
            let file = root.name(&file);
            if !library.paths.contains(&file) {
                library.paths.push(file);
            }
        }
    }
    libraries.iter_mut().for_each(|library| library.paths.sort());
    libraries.into()
}

/// Whether a file name is a library's, with or without a version: only digits and dots may follow.
fn versioned(name: &str, library: &str) -> bool {
    name.strip_prefix(library).is_some_and(|rest| {
        rest.is_empty() || (rest.starts_with('.') && rest.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit()))
    })
}
