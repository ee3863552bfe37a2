//! Libraries in this process, the container around it, the software under it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::root::{Root, text, text_up_to};

/// Libraries of which a process must have one file only: two have two states, and wait for each other or miss calls.
const WATCHED: [&str; 5] = [
    "libamdhip64.so",
    "libhsa-runtime64.so",
    "librocprofiler-sdk.so",
    "librocprofiler-register.so",
    "libhsa-amd-aqlprofile64.so",
];
/// The list of mappings of a large process; more is not read.
const MAPS_LIMIT: u64 = 16 << 20;

/// A watched library that is mapped into this process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MappedLibrary {
    /// Its name without a version, such as `libamdhip64.so`.
    pub library: String,
    /// Its file.
    pub path: PathBuf,
    /// Device and inode of the file, by which two names of one file are told from two files.
    #[serde(skip)]
    identity: (String, u64),
}

/// A library that is there more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicate {
    /// Its name without a version.
    pub library: String,
    /// Its files.
    pub paths: Vec<PathBuf>,
}

/// Watched libraries in this process, from `/proc/self/maps`.
#[must_use]
pub fn mapped_libraries(root: &Root) -> Vec<MappedLibrary> {
    libraries_in(&text_up_to(&root.path("/proc/self/maps"), MAPS_LIMIT).unwrap_or_default())
}

/// Reads lines of `from-to permissions offset device inode path`.
fn libraries_in(maps: &str) -> Vec<MappedLibrary> {
    let library = |line: &str| {
        let path = Path::new(line.get(line.find('/')?..)?.trim_end_matches(" (deleted)"));
        let name = path.file_name()?.to_str()?;
        // `libamdhip64.so`, `libamdhip64.so.7.2`, but not `libamdhip64.so-backup`.
        let is =
            |watched: &str| name.strip_prefix(watched).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let library = WATCHED.into_iter().find(|watched| is(watched))?.to_owned();
        let mut fields = line.split_whitespace().skip(3);
        let identity = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        Some(MappedLibrary { library, path: path.to_owned(), identity })
    };
    let mut found: Vec<MappedLibrary> = maps.lines().filter_map(library).collect();
    found.sort();
    found.dedup();
    found
}

impl Duplicate {
    /// Those of `libraries` of which there is more than one file.
    #[must_use]
    pub fn among(libraries: &[MappedLibrary]) -> Vec<Self> {
        let mut files: BTreeMap<&str, BTreeMap<&(String, u64), &Path>> = BTreeMap::new();
        for mapped in libraries {
            files.entry(&mapped.library).or_default().entry(&mapped.identity).or_insert(&mapped.path);
        }
        let duplicate = |(library, files): (&str, BTreeMap<_, &Path>)| {
            let paths = files.into_values().map(Path::to_owned).collect();
            Self { library: library.to_owned(), paths }
        };
        files.into_iter().filter(|(_, files)| files.len() > 1).map(duplicate).collect()
    }
}

/// Signs that this process runs in a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Container {
    /// What says so; empty outside a container.
    pub signs: Vec<String>,
}

impl Container {
    /// Looks for signs.
    #[must_use]
    pub fn read(root: &Root, variables: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let mut signs = Vec::new();
        signs.extend(
            ["/.dockerenv", "/run/.containerenv"]
                .iter()
                .filter(|path| root.path(path).exists())
                .map(|path| (*path).to_owned()),
        );
        let runtimes = ["docker", "kubepods", "containerd", "libpod", "lxc", "crio"];
        for file in ["/proc/self/cgroup", "/proc/1/cgroup"] {
            let groups = text(&root.path(file)).unwrap_or_default();
            signs.extend(
                runtimes
                    .iter()
                    .filter(|runtime| groups.contains(**runtime))
                    .map(|runtime| format!("{file} names {runtime}")),
            );
        }
        let set = ["container", "KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"];
        signs.extend(set.iter().filter(|name| variables(name).is_some()).map(|name| format!("${name} is set")));
        Self { signs }
    }

    /// Whether there is any sign.
    #[must_use]
    pub fn likely(&self) -> bool {
        !self.signs.is_empty()
    }
}

/// Versions of what lies under a GPU program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Software {
    /// Release of the Linux kernel.
    pub kernel: Option<String>,
    /// The amdgpu driver is loaded.
    pub amdgpu_loaded: bool,
    /// Version of an amdgpu driver that did not come with the kernel.
    pub amdgpu_version: Option<String>,
    /// Version of the ROCm in `/opt/rocm`.
    pub rocm: Option<String>,
}

impl Software {
    /// Reads them.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        Self {
            kernel: text(&root.path("/proc/sys/kernel/osrelease")),
            amdgpu_loaded: root.path("/sys/module/amdgpu").exists(),
            amdgpu_version: text(&root.path("/sys/module/amdgpu/version")),
            rocm: text(&root.path("/opt/rocm/.info/version")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "\
7f0000000000-7f0000001000 r--p 00000000 08:01 11    /opt/rocm-7.2.4/lib/libamdhip64.so.7.2.70204
7f0000001000-7f0000002000 r-xp 00001000 08:01 11    /opt/rocm-7.2.4/lib/libamdhip64.so.7.2.70204
7f0000003000-7f0000004000 r--p 00000000 08:01 12    /usr/lib/python3/site-packages/torch/lib/libamdhip64.so
7f0000005000-7f0000006000 r--p 00000000 08:01 13    /opt/rocm/lib/libhsa-runtime64.so.1
7f0000007000-7f0000008000 r--p 00000000 08:01 13    /opt/rocm-7.2.4/lib/libhsa-runtime64.so.1
7f0000009000-7f000000a000 r--p 00000000 08:01 14    /tmp/libamdhip64.so-old
7f000000b000-7f000000c000 rw-p 00000000 00:00 0
7f000000d000-7f000000e000 r--p 00000000 08:01 15    /usr/lib/librocprofiler-sdk.so.1 (deleted)
";

    #[test]
    fn two_files_of_a_library_are_found_and_two_names_of_one_are_not() {
        let libraries = libraries_in(MAPS);
        assert_eq!(libraries.len(), 5);
        assert_eq!(libraries[4].path, Path::new("/usr/lib/librocprofiler-sdk.so.1"));
        let duplicates = Duplicate::among(&libraries);
        assert_eq!(duplicates.len(), 1);
        assert_eq!(duplicates[0].library, "libamdhip64.so");
        let paths =
            ["/opt/rocm-7.2.4/lib/libamdhip64.so.7.2.70204", "/usr/lib/python3/site-packages/torch/lib/libamdhip64.so"];
        assert_eq!(duplicates[0].paths, paths.map(PathBuf::from));
    }

    proptest! {
        #[test]
        fn no_mappings_panic(text in "([0-9a-f]{0,4}-? ?r?-?p? ?0? ?08:01 ?[0-9]{0,22} ?(/libamdhip64\\.so[.a-z]{0,3})?\n?){0,6}\\PC{0,20}") {
            let libraries = libraries_in(&text);
            prop_assert!(Duplicate::among(&libraries).len() <= libraries.len());
        }
    }
}
