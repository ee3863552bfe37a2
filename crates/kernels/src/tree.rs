//! The kernel folder: sources, shared headers, manifests.

use crate::manifest::{Code, Manifest, ManifestError};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of the kernel folder that hold no manifests of own kernels.
const NOT_FAMILIES: &[&str] = &["prebuilt", "descriptors", "include", "tests"];

/// A kernel folder.
#[derive(Clone, Debug)]
pub struct KernelTree {
    /// The folder.
    pub root: PathBuf,
    /// The manifests (`*/*.toml`), by path. [`Manifest::file`] is relative to the folder.
    pub manifests: Vec<Manifest>,
}

/// A kernel folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A file or folder cannot be read.
    #[error("{path} could not be read")]
    Read {
        /// It.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A manifest is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// There is no manifest.
    #[error("{0} holds no kernel manifest (FAMILY/FAMILY.toml)")]
    Empty(PathBuf),
    /// A manifest of a kernel folder names a file that is no source.
    #[error("{0}: build \"{1}\" has a file and no source: a descriptor, which is not built")]
    NotSource(String, String),
}

/// One code object to build: a source with its macros, and the builds that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Name of the object file without folder and ending.
    pub name: String,
    /// Source, relative to the kernel folder.
    pub source: String,
    /// Macros.
    pub defines: BTreeMap<String, String>,
    /// Architectures that one of its builds is for.
    pub targets: Vec<String>,
    /// Its builds: the manifest's file and the build's name.
    pub builds: Vec<(String, String)>,
}

impl KernelTree {
    /// Reads the manifests of a kernel folder.
    ///
    /// # Errors
    /// When the folder or a manifest cannot be read or is wrong, or there is none.
    pub fn open(root: &Path) -> Result<Self, TreeError> {
        let mut manifests = Vec::new();
        for family in entries(root)? {
            let name = family.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !family.is_dir() || NOT_FAMILIES.contains(&name) || name.starts_with('.') {
                continue;
            }
            for path in entries(&family)? {
                let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if path.extension().is_some_and(|ending| ending == "toml") {
                    let text =
                        fs::read_to_string(&path).map_err(|source| TreeError::Read { path: path.clone(), source })?;
                    manifests.push(Manifest::parse(&format!("{name}/{file}"), &text)?);
                }
            }
        }
        if manifests.is_empty() {
            return Err(TreeError::Empty(root.to_owned()));
        }
        Ok(Self { root: root.to_owned(), manifests })
    }

    /// The code objects to build, each source and set of macros once.
    ///
    /// # Errors
    /// When a build has no source.
    pub fn units(&self) -> Result<Vec<Unit>, TreeError> {
        let mut units: Vec<Unit> = Vec::new();
        for manifest in &self.manifests {
            for build in &manifest.builds {
                let Code::Source { path, defines } = &build.code else {
                    return Err(TreeError::NotSource(manifest.file.clone(), build.name.clone()));
                };
                let folder = manifest.file.rsplit_once('/').map_or("", |(folder, _)| folder);
                let source = format!("{folder}/{path}");
                let user = (manifest.file.clone(), build.name.clone());
                match units.iter_mut().find(|unit| unit.source == source && unit.defines == *defines) {
                    Some(unit) => {
                        unit.builds.push(user);
                        let new = build.targets.iter().filter(|target| !unit.targets.contains(target));
                        unit.targets.extend(new.cloned().collect::<Vec<_>>());
                    }
                    None => {
                        let mut name = unit_name(&source, (!defines.is_empty()).then_some(build.name.as_str()));
                        while units.iter().any(|unit| unit.name == name) {
                            name.push('_');
                        }
                        let targets = build.targets.clone();
                        units.push(Unit { name, source, defines: defines.clone(), targets, builds: vec![user] });
                    }
                }
            }
        }
        Ok(units)
    }
}

/// `rmsnorm` for `rmsnorm/rmsnorm.hip`, `gemm.skinny` for `gemm/skinny.hip`; with macros, the first build's name behind.
fn unit_name(source: &str, build: Option<&str>) -> String {
    let stem = source.rsplit_once('.').map_or(source, |(stem, _)| stem);
    let mut name = match stem.split_once('/') {
        Some((folder, file)) if folder == file => folder.to_owned(),
        _ => stem.replace('/', "."),
    };
    if let Some(build) = build {
        name.push('-');
        name.push_str(build);
    }
    name
}

/// The entries of a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, TreeError> {
    let read = |source| TreeError::Read { path: folder.to_owned(), source };
    let mut entries = fs::read_dir(folder)
        .map_err(read)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(read)?;
    entries.sort();
    Ok(entries)
}
