//! The record of a build folder (`build.json`): everything that decides what the code objects in it do.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the record's file.
pub const FILE: &str = "build.json";
/// The schema's name.
pub const SCHEMA: &str = "kbench.build/1";

/// A build folder's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// Manifests, relative to the folder: copies of those that were built.
    pub manifests: Vec<ManifestRecord>,
    /// Code objects.
    pub objects: Vec<ObjectRecord>,
    /// What did not compile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureRecord>,
}

/// A manifest of a build folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestRecord {
    /// The copy, relative to the build folder.
    pub file: String,
    /// The original, relative to the kernel folder.
    pub source: String,
    /// SHA-256 of the text, hex.
    pub sha256: String,
}

/// A compiler, as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompilerRecord {
    /// The executable.
    pub path: String,
    /// `driver` or `zig`.
    pub kind: String,
    /// The first line of its `--version`.
    pub version: String,
}

/// A code object of a build folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectRecord {
    /// File, relative to the build folder: `gfx942/rmsnorm.co`.
    pub file: String,
    /// Architecture.
    pub arch: String,
    /// Source, relative to the kernel folder.
    pub source: String,
    /// Macros.
    pub defines: BTreeMap<String, String>,
    /// Flags beyond those that every compilation has, in order.
    pub flags: Vec<String>,
    /// The compiler.
    pub compiler: CompilerRecord,
    /// SHA-256, hex, over sources with includes, flags, macros, architecture and compiler version.
    pub inputs_sha256: String,
    /// SHA-256 of the object, hex.
    pub sha256: String,
    /// Size of the object.
    pub bytes: u64,
    /// Its builds: manifest (relative to the kernel folder) and name.
    pub builds: Vec<(String, String)>,
    /// Its kernels.
    pub kernels: Vec<KernelRecord>,
    /// What the compiler said although it succeeded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub warnings: String,
}

/// A kernel's resources, from the code object's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRecord {
    /// Symbol without `.kd`.
    pub name: String,
    /// Vector registers of a lane, AGPRs included where the register file is unified.
    pub vgprs: u32,
    /// Of those, accumulation registers.
    pub agprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Static LDS of a workgroup, bytes.
    pub lds_bytes: u32,
    /// Scratch of a work-item, bytes.
    pub scratch_bytes: u32,
    /// Spilled registers, vector and scalar.
    pub spills: u32,
    /// Bytes of kernel arguments, hidden ones included.
    pub kernarg_bytes: u32,
    /// Work-items of a workgroup at most.
    pub max_block: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Machine code, bytes.
    pub code_bytes: u64,
}

/// A source that did not compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureRecord {
    /// Source, relative to the kernel folder.
    pub source: String,
    /// Architecture.
    pub arch: String,
    /// The compiler's words.
    pub message: String,
}

impl BuildRecord {
    /// A record of nothing.
    pub fn empty() -> Self {
        Self { schema: SCHEMA.to_owned(), manifests: Vec::new(), objects: Vec::new(), failures: Vec::new() }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When the text is no record of this schema, or names a file outside the folder.
    pub fn parse(text: &str) -> Result<Self, String> {
        let record: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if record.schema != SCHEMA {
            return Err(format!("schema \"{}\" is not known; this version reads \"{SCHEMA}\"", record.schema));
        }
        let files = record.objects.iter().map(|object| &object.file);
        for file in files.chain(record.manifests.iter().map(|manifest| &manifest.file)) {
            let inside = !file.contains(['\\', ':', '\0'])
                && file.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
            if !inside {
                return Err(format!("\"{file}\" is no path below the folder"));
            }
        }
        Ok(record)
    }

    /// The text of the record, with a newline at its end. Equal records give equal text.
    ///
    /// # Errors
    /// Never for a record that this program made.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}
