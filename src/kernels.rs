//! The kernels in the program, and cases as they see them.

use kbench_kernels::library::EmbeddedFiles;
use kbench_kernels::{DeviceInfo, Library, LibraryError, Symbols, TensorInfo, Value};
use kbench_workload::{Dtypes, Fp8Flavor, ShapeMap, ShapeValue, TensorSpec, Workload};
use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;

/// A build folder: compiled when the program was, or checked in.
const OBJECTS: EmbeddedFiles = include!(concat!(env!("OUT_DIR"), "/kernels.objects.rs"));
/// The kernel folder's sources, headers and manifests.
const SOURCES: EmbeddedFiles = include!(concat!(env!("OUT_DIR"), "/kernels.sources.rs"));

/// The builds in the program.
///
/// # Errors
/// When what was embedded is no build folder.
pub fn builtin() -> Result<Library, LibraryError> {
    Library::embedded(OBJECTS)
}

/// A file of the builds in the program, such as `gfx942/gemm.co`.
pub fn object(name: &str) -> Option<&'static [u8]> {
    OBJECTS.iter().find(|(file, _)| *file == name).map(|(_, bytes)| *bytes)
}

/// The builds of a build folder, or of a launch descriptor.
///
/// # Errors
/// When it cannot be read.
pub fn open(path: &Path) -> Result<Library, LibraryError> {
    if path.is_dir() { Library::open(path) } else { Library::descriptor(path) }
}

/// Writes the sources of the program's kernels into a folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write_sources(folder: &Path) -> io::Result<()> {
    for (file, bytes) in SOURCES {
        let path = folder.join(file);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// A device of an architecture with the compute units of its largest model (AMD's GPU specification table), or those given.
pub fn device(arch: &str) -> DeviceInfo {
    let cu_count = match arch.split(':').next().unwrap_or(arch) {
        "gfx90a" => 104,
        "gfx942" => 304,
        "gfx950" => 256,
        "gfx1100" => 96,
        "gfx1201" => 64,
        _ => 1,
    };
    DeviceInfo::of_arch(arch, cu_count)
}

/// A case as launch rules see it: its complete shape, dtypes and tensors.
#[derive(Clone, Debug)]
pub struct CaseSymbols {
    shape: ShapeMap,
    dtypes: Dtypes,
    tensors: Vec<TensorSpec>,
    fp8: Fp8Flavor,
}

impl CaseSymbols {
    /// Of a case on a device with this fp8.
    pub fn new(workload: &dyn Workload, fp8: Fp8Flavor) -> Self {
        Self { shape: workload.shape(), dtypes: workload.dtypes(), tensors: workload.tensors(), fp8 }
    }

    /// The dtype of a role, by its name.
    pub fn dtype(&self, role: &str) -> Option<String> {
        self.dtypes.get(role).map(|tag| tag.resolve(self.fp8).name().to_owned())
    }
}

impl Symbols for CaseSymbols {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        self.shape.get(name).map(value)
    }

    fn tensor(&self, name: &str) -> Option<TensorInfo> {
        let spec = self.tensors.iter().find(|spec| spec.name == name)?;
        Some(TensorInfo { dims: spec.dims.clone(), bits: spec.dtype.bits() })
    }
}

/// `true` and `false` are truth values to launch rules, words that are numbers (`eps=1e-6`) numbers, other words are words.
fn value(value: &ShapeValue) -> Value<'_> {
    match value {
        ShapeValue::Int(value) => Value::Int((*value).into()),
        ShapeValue::List(values) => Value::List(Cow::Borrowed(values)),
        ShapeValue::Word(word) => match word.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            word => match word.parse::<f64>() {
                // `inf` and `nan` parse too, but are words.
                Ok(number) if number.is_finite() => Value::Float(number),
                _ => Value::Word(Cow::Borrowed(word)),
            },
        },
    }
}
