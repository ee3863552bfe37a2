//! Builds that can be run: those in the program, those of a build folder, and third-party code objects with a descriptor.

use crate::compile::sha256;
use crate::manifest::{Build, Code, Manifest, ManifestError};
use crate::record::{self, BuildRecord, ObjectRecord};
use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The largest code object file that is read, bytes.
const MAX_OBJECT: u64 = 1 << 30;

/// Files that were put into the program: name relative to the build folder, contents.
pub type EmbeddedFiles = &'static [(&'static str, &'static [u8])];

/// Where a library's files are.
#[derive(Clone, Debug)]
enum Files {
    Embedded(EmbeddedFiles),
    Folder(PathBuf),
}

/// Where builds come from, as results record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the program, compiled when it was.
    Builtin,
    /// A build folder.
    Folder,
    /// A code object that kbench did not build.
    File,
}

impl Origin {
    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Builtin => "builtin",
            Origin::Folder => "folder",
            Origin::File => "file",
        }
    }
}

/// A set of builds with their code objects.
#[derive(Clone, Debug)]
pub struct Library {
    /// Where from.
    pub origin: Origin,
    /// The folder or file, or `builtin`.
    pub name: String,
    /// Manifests. [`Manifest::file`] is what errors show.
    pub manifests: Vec<Manifest>,
    /// Code objects; none for [`Origin::File`].
    pub objects: Vec<ObjectRecord>,
    /// Each manifest's path as [`ObjectRecord::builds`] has it.
    sources: Vec<String>,
    files: Files,
}

/// A code object's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectBytes<'a> {
    /// The file, for messages and results.
    pub file: String,
    /// SHA-256, hex.
    pub sha256: String,
    /// Contents. For [`Origin::File`] this may be an offload bundle or a fat binary.
    pub bytes: Cow<'a, [u8]>,
}

/// A library that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// A file cannot be read.
    #[error("{path} could not be read")]
    Read {
        /// It.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The record is none.
    #[error("{path} is no record of a build: {reason}")]
    Record {
        /// Its file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A manifest is wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A file is not what the record says.
    #[error("{path} is not what was built (its SHA-256 differs from the record's): build the folder again")]
    Changed {
        /// It.
        path: String,
    },
    /// A descriptor's build has a source.
    #[error("{file}: build \"{build}\" has a source, which kbench build compiles; a launch descriptor has a file")]
    NotDescriptor {
        /// The manifest.
        file: String,
        /// The build.
        build: String,
    },
    /// Too big.
    #[error("{path} has {bytes} bytes; code objects up to {MAX_OBJECT} are read")]
    Size {
        /// It.
        path: String,
        /// Its size.
        bytes: u64,
    },
}

impl Library {
    /// The builds in the program.
    ///
    /// # Errors
    /// When the files are no build folder.
    pub fn embedded(files: EmbeddedFiles) -> Result<Self, LibraryError> {
        if files.is_empty() {
            let (origin, name, files) = (Origin::Builtin, "builtin".to_owned(), Files::Embedded(files));
            return Ok(Self { origin, name, manifests: Vec::new(), objects: Vec::new(), sources: Vec::new(), files });
        }
        Self::of_files(Origin::Builtin, "builtin".to_owned(), Files::Embedded(files))
    }

    /// The builds of a build folder (`kbench build -o DIR`).
    ///
    /// # Errors
    /// When the folder is none, or a manifest or code object in it is not what the record says.
    pub fn open(folder: &Path) -> Result<Self, LibraryError> {
        Self::of_files(Origin::Folder, folder.display().to_string(), Files::Folder(folder.to_owned()))
    }

    fn of_files(origin: Origin, name: String, files: Files) -> Result<Self, LibraryError> {
        let bad = |reason: String| LibraryError::Record { path: format!("{name}/{}", record::FILE), reason };
        let text = files.read(record::FILE)?;
        let text = str::from_utf8(&text).map_err(|error| bad(error.to_string()))?;
        let record = BuildRecord::parse(text).map_err(bad)?;
        let mut manifests = Vec::new();
        let mut sources = Vec::new();
        for manifest in &record.manifests {
            let bytes = files.read(&manifest.file)?;
            let path = format!("{name}/{}", manifest.file);
            if sha256(&bytes) != manifest.sha256 {
                return Err(LibraryError::Changed { path });
            }
            let text = str::from_utf8(&bytes)
                .map_err(|error| LibraryError::Record { path: path.clone(), reason: error.to_string() })?;
            manifests.push(Manifest::parse(&path, text)?);
            sources.push(manifest.source.clone());
        }
        Ok(Self { origin, name, manifests, objects: record.objects, sources, files })
    }

    /// A launch descriptor and the code objects that it names, beside it.
    ///
    /// # Errors
    /// When the file cannot be read or is no descriptor. Code objects are read when they are asked for.
    pub fn descriptor(path: &Path) -> Result<Self, LibraryError> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|source| LibraryError::Read { path: name.clone(), source })?;
        let manifest = Manifest::parse(&name, &text)?;
        if let Some(build) = manifest.builds.iter().find(|build| matches!(build.code, Code::Source { .. })) {
            return Err(LibraryError::NotDescriptor { file: name, build: build.name.clone() });
        }
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let (sources, files) = (vec![name.clone()], Files::Folder(folder));
        Ok(Self { origin: Origin::File, name, manifests: vec![manifest], objects: Vec::new(), sources, files })
    }

    /// All builds, each with the file that errors about it name.
    pub fn builds(&self) -> impl Iterator<Item = (&str, &Build)> {
        self.manifests.iter().flat_map(|manifest| manifest.builds.iter().map(|build| (manifest.file.as_str(), build)))
    }

    /// The record of a build's code object for an architecture.
    pub fn object(&self, file: &str, build: &Build, arch: &str) -> Option<&ObjectRecord> {
        let source = self.source(file)?;
        self.objects.iter().find(|object| {
            object.arch == arch && object.builds.iter().any(|(file, name)| file == source && *name == build.name)
        })
    }

    /// A build's code object for an architecture; `None` when there is none. A third-party file is given whole, whatever
    /// it is for.
    ///
    /// # Errors
    /// When the file cannot be read, or is not what was built.
    pub fn code(&self, file: &str, build: &Build, arch: &str) -> Result<Option<ObjectBytes<'_>>, LibraryError> {
        let shown = |name: &str| match &self.files {
            Files::Embedded(_) => format!("builtin/{name}"),
            Files::Folder(folder) => folder.join(name).display().to_string(),
        };
        match &build.code {
            Code::File(name) => {
                let bytes = self.files.read(name)?;
                Ok(Some(ObjectBytes { file: shown(name), sha256: sha256(&bytes), bytes }))
            }
            Code::Source { .. } => {
                let Some(object) = self.object(file, build, arch) else { return Ok(None) };
                let bytes = self.files.read(&object.file)?;
                let found = sha256(&bytes);
                if found != object.sha256 {
                    return Err(LibraryError::Changed { path: shown(&object.file) });
                }
                Ok(Some(ObjectBytes { file: shown(&object.file), sha256: found, bytes }))
            }
        }
    }

    fn source(&self, file: &str) -> Option<&str> {
        let index = self.manifests.iter().position(|manifest| manifest.file == file)?;
        self.sources.get(index).map(String::as_str)
    }
}

impl Files {
    fn read(&self, name: &str) -> Result<Cow<'_, [u8]>, LibraryError> {
        match self {
            Files::Embedded(files) => {
                let found = files.iter().find(|(file, _)| *file == name);
                found.map(|(_, bytes)| Cow::Borrowed(*bytes)).ok_or_else(|| LibraryError::Read {
                    path: format!("builtin/{name}"),
                    source: io::ErrorKind::NotFound.into(),
                })
            }
            Files::Folder(folder) => {
                let path = folder.join(name);
                let read = |source| LibraryError::Read { path: path.display().to_string(), source };
                let bytes = fs::metadata(&path).map_err(read)?.len();
                if bytes > MAX_OBJECT {
                    return Err(LibraryError::Size { path: path.display().to_string(), bytes });
                }
                fs::read(&path).map(Cow::Owned).map_err(read)
            }
        }
    }
}
