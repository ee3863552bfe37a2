//! Device compilers that are there.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::root::Root;

/// Names that are looked for in `PATH`, in the order in which builds take them.
const NAMES: [&str; 7] = ["amdclang++", "hipcc", "clang-22", "clang-21", "clang-20", "clang-19", "clang"];

/// A compiler's file. Whether it has the AMDGPU target, only running it tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompilerFile {
    /// What named it: a variable, ROCm's directory, or `PATH`.
    pub found_by: String,
    /// The file.
    pub path: PathBuf,
}

/// Device compilers in the order in which builds take them: `$KBENCH_CLANG`, `$ROCM_PATH/llvm/bin`, `/opt/rocm/llvm/bin`, then names in `PATH`.
#[must_use]
pub fn compilers(root: &Root, variables: &dyn Fn(&str) -> Option<OsString>) -> Vec<CompilerFile> {
    let variable = |name: &str| variables(name).filter(|value| !value.is_empty());
    let paths: Vec<PathBuf> = variable("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let in_path =
        |name: &str| paths.iter().map(|directory| root.path(directory).join(name)).find(|file| executable(file));

    let mut found: Vec<CompilerFile> = Vec::new();
    let mut add = |found_by: &str, file: PathBuf| {
        let path = root.name(&file);
        if executable(&file) && !found.iter().any(|known| known.path == path) {
            found.push(CompilerFile { found_by: found_by.to_owned(), path });
        }
    };
    if let Some(named) = variable("KBENCH_CLANG") {
        // A zig executable is named with its kind before it.
        let named = named.to_string_lossy().into_owned();
        let file = named.strip_prefix("zig:").unwrap_or(&named);
        let file = if file.contains('/') { Some(root.path(file)) } else { in_path(file) };
        file.into_iter().for_each(|file| add("$KBENCH_CLANG", file));
    }
    let rocm = variable("ROCM_PATH").map(|path| ("$ROCM_PATH", PathBuf::from(path)));
    for (found_by, directory) in rocm.into_iter().chain([("/opt/rocm", PathBuf::from("/opt/rocm"))]) {
        for name in ["amdclang++", "clang++", "clang"] {
            add(found_by, root.path(directory.join("llvm/bin")).join(name));
        }
    }
    for name in NAMES {
        in_path(name).into_iter().for_each(|file| add("$PATH", file));
    }
    found
}

fn executable(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
