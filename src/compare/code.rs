//! Whether two cases ran the same machine code: that of the kernels they launched, not of the files these are in.

use super::read::{Build, Case};
use kbench_code_object::{CodeMatch, CodeObject, Comparison, Content, compare, load};
use kbench_kernels::compile::sha256;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;

/// Largest file that is read, bytes.
const LARGEST: u64 = 1 << 30;

/// Whether the launched kernels are the same, but perhaps for where symbols were put. Equal hashes of the files say so; files
/// that differ are read again and compared kernel by kernel. `None` when a hash is not known, or a file that differs is gone or
/// is not what ran.
pub fn identical(base: &Case, candidate: &Case) -> Option<bool> {
    let (one, other) = (base.build.as_ref()?, candidate.build.as_ref()?);
    let are_told = !one.kernels.is_empty() && !other.kernels.is_empty();
    if are_told && one.kernels != other.kernels {
        return Some(false);
    }
    if one.sha256.as_ref()? == other.sha256.as_ref()? {
        return Some(true);
    }
    let comparison = compare(&object(one)?, &object(other)?);
    let names = if are_told { one.kernels.iter().cloned().collect() } else { BTreeSet::new() };
    same_kernels(&comparison, &names)
}

/// Whether the named kernels are the same; all of both files without names, as in documents that do not tell them.
fn same_kernels(comparison: &Comparison, names: &BTreeSet<String>) -> Option<bool> {
    if names.is_empty() && !(comparison.added.is_empty() && comparison.removed.is_empty()) {
        return Some(false);
    }
    let chosen: Vec<_> =
        comparison.kernels.iter().filter(|kernel| names.is_empty() || names.contains(&kernel.name)).collect();
    match () {
        () if chosen.is_empty() || chosen.len() < names.len() => Some(false),
        () if chosen.iter().any(|kernel| kernel.code == CodeMatch::Unknown) => None,
        () => Some(chosen.iter().all(|kernel| kernel.is_same())),
    }
}

/// The code object of a build, when its file still is the one that ran.
fn object(build: &Build) -> Option<CodeObject> {
    // The name of the build stands in brackets behind the file.
    let file =
        build.file.strip_suffix(')').and_then(|file| file.rsplit_once(" (")).map_or(&*build.file, |(file, _)| file);
    let bytes = match file.strip_prefix("builtin/") {
        Some(name) => Cow::Borrowed(crate::kernels::object(name)?),
        None => {
            let size = fs::metadata(file).ok()?.len();
            Cow::Owned(fs::read(file).ok().filter(|_| size <= LARGEST)?)
        }
    };
    if build.sha256.as_deref() != Some(&sha256(&bytes)) {
        return None;
    }
    let images = load(bytes.into_owned()).ok()?;
    let objects = images.iter().filter(|image| image.content == Content::CodeObject);
    let mut objects: Vec<CodeObject> = objects.filter_map(|image| image.code_object().ok()).collect();
    let at = objects.iter().position(|object| object.arch().name() == build.arch);
    at.or((objects.len() == 1).then_some(0)).map(|at| objects.swap_remove(at))
}
