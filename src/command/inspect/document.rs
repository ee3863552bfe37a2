//! The document `kbench.inspect/1`.

use super::{Found, launch_shape, selected};
use crate::cli::InspectArgs;
use crate::exit::{Failure, usage};
use kbench_code_object::{
    BundleEntry, CodeObject, CodeObjectVersion, Comparison, Compression, Content, Kernel, Occupancy, Target, compare,
};
use serde::Serialize;
use std::path::Path;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    schema: &'static str,
    pub(super) file: String,
    pub(super) images: Vec<ImageReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) comparison: Option<FileComparison>,
}

/// One image of the file.
#[derive(Debug, Serialize)]
pub(super) struct ImageReport {
    pub(super) entry: Option<BundleEntry>,
    pub(super) file_offset: u64,
    pub(super) compression: Option<Compression>,
    pub(super) content: Content,
    pub(super) bytes: usize,
    pub(super) target: Option<Target>,
    pub(super) code_object_version: Option<CodeObjectVersion>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) relocations: Option<usize>,
    /// Descriptors that the metadata does not mention: no runtime can launch them.
    pub(super) descriptors_without_kernel: Vec<String>,
    pub(super) kernels: Vec<KernelReport>,
}

/// A kernel with its occupancy.
#[derive(Debug, Serialize)]
pub(super) struct KernelReport {
    #[serde(flatten)]
    pub(super) kernel: Kernel,
    /// For `--block` and `--lds`; `null` with the reason beside it when such a launch cannot run.
    pub(super) occupancy: Option<Occupancy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) occupancy_error: Option<String>,
}

/// Two files, target by target.
#[derive(Debug, Serialize)]
pub(super) struct FileComparison {
    pub(super) base: String,
    pub(super) code_objects: Vec<ObjectComparison>,
    /// Targets that only the candidate has.
    pub(super) added_targets: Vec<String>,
    /// Targets that only the base has.
    pub(super) removed_targets: Vec<String>,
}

/// Two code objects.
#[derive(Debug, Serialize)]
pub(super) struct ObjectComparison {
    /// Whether nothing differs but, perhaps, where symbols were put.
    pub(super) same: bool,
    #[serde(flatten)]
    pub(super) comparison: Comparison,
    /// Occupancy of each kernel of `kernels`: base, candidate.
    pub(super) occupancy: Vec<[Option<Occupancy>; 2]>,
}

impl Document {
    pub(super) fn new(file: &Path) -> Self {
        Self { schema: "kbench.inspect/1", file: file.display().to_string(), images: Vec::new(), comparison: None }
    }

    /// Compares with another file: code objects of equal targets in order, or the only ones of both files.
    pub(super) fn compare(
        &mut self,
        path: &Path,
        base: &[Found],
        candidate: &[Found],
        args: &InspectArgs,
    ) -> Result<(), Failure> {
        let objects =
            |found: &'_ [Found]| -> Vec<CodeObject> { found.iter().filter_map(|found| found.object.clone()).collect() };
        let (base, mut candidate) = (objects(base), objects(candidate));
        if base.is_empty() || candidate.is_empty() {
            let empty = if base.is_empty() { path.display().to_string() } else { self.file.clone() };
            return Err(usage(format!("{empty}: no code object to compare (bitcode and SPIR-V cannot be)")));
        }
        let mut comparison = FileComparison {
            base: path.display().to_string(),
            code_objects: Vec::new(),
            added_targets: Vec::new(),
            removed_targets: Vec::new(),
        };
        let only = base.len() == 1 && candidate.len() == 1;
        for object in &base {
            match candidate.iter().position(|other| only || other.arch() == object.arch()) {
                Some(at) => comparison.code_objects.push(ObjectComparison::new(object, &candidate.remove(at), args)),
                None => comparison.removed_targets.push(object.arch().to_string()),
            }
        }
        comparison.added_targets = candidate.iter().map(|object| object.arch().to_string()).collect();
        self.comparison = Some(comparison);
        Ok(())
    }
}

impl ImageReport {
    pub(super) fn new(found: &Found, args: &InspectArgs) -> Self {
        let Found { image, object } = found;
        let object = object.as_ref();
        let kernels = object.map_or_else(Vec::new, |object| {
            let kernels = object.kernels().iter().filter(|kernel| selected(kernel, args));
            kernels.map(|kernel| KernelReport::new(kernel, object.arch(), args)).collect()
        });
        Self {
            entry: image.entry.clone(),
            file_offset: image.file_offset,
            compression: image.compression,
            content: image.content,
            bytes: image.bytes.len(),
            target: object.map(|object| *object.arch()),
            code_object_version: object.map(CodeObject::version),
            memory_bytes: object.map(CodeObject::memory_size),
            relocations: object.map(|object| object.relocations().len()),
            descriptors_without_kernel: object
                .map_or_else(Vec::new, |object| object.descriptors_without_kernel().to_vec()),
            kernels,
        }
    }
}

impl KernelReport {
    fn new(kernel: &Kernel, target: &Target, args: &InspectArgs) -> Self {
        let (occupancy, occupancy_error) = match kernel.occupancy(target, launch_shape(kernel, args)) {
            Ok(occupancy) => (Some(occupancy), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { kernel: kernel.clone(), occupancy, occupancy_error }
    }
}

impl ObjectComparison {
    fn new(base: &CodeObject, candidate: &CodeObject, args: &InspectArgs) -> Self {
        let mut comparison = compare(base, candidate);
        if let Some(pattern) = &args.kernel {
            let matches =
                |name: &str| pattern.is_match(name) || pattern.is_match(&kbench_profile::names::canonical(name));
            comparison.kernels.retain(|kernel| matches(&kernel.name));
            comparison.added.retain(|name| matches(name));
            comparison.removed.retain(|name| matches(name));
        }
        let occupancy = |object: &CodeObject, name: &str| {
            let kernel = object.kernel(name)?;
            kernel.occupancy(object.arch(), launch_shape(kernel, args)).ok()
        };
        let both = |name: &str| [occupancy(base, name), occupancy(candidate, name)];
        Self {
            same: comparison.is_same(),
            occupancy: comparison.kernels.iter().map(|kernel| both(&kernel.name)).collect(),
            comparison,
        }
    }
}
