//! Two code objects side by side.

use crate::code::{self, Code, CodeMatch, Places};
use crate::kernel::Kernel;
use crate::object::CodeObject;
use serde::Serialize;
use std::collections::HashMap;

/// How a candidate differs from a base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The base's target, then the candidate's.
    pub targets: [String; 2],
    /// Kernels of both, in the base's order.
    pub kernels: Vec<KernelComparison>,
    /// Kernels of the candidate alone.
    pub added: Vec<String>,
    /// Kernels of the base alone.
    pub removed: Vec<String>,
}

/// A kernel that both code objects have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelComparison {
    /// Its name.
    pub name: String,
    /// Whether the machine code is the same.
    pub code: CodeMatch,
    /// Whether the arguments (offsets, sizes, kinds) are the same: a launch of one fits the other.
    pub same_arguments: bool,
    /// Figures that differ.
    pub differences: Vec<Difference>,
}

/// A figure that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What: a field of [`Kernel`], or a word of the descriptor.
    pub field: &'static str,
    /// In the base; `None` when it does not say.
    pub base: Option<u64>,
    /// In the candidate.
    pub candidate: Option<u64>,
}

impl Comparison {
    /// Whether nothing differs that can change what a launch does or costs: same target, same kernels, same figures, and
    /// code that is the same but perhaps for addresses.
    pub fn is_same(&self) -> bool {
        let [base, candidate] = &self.targets;
        base == candidate
            && self.added.is_empty()
            && self.removed.is_empty()
            && self.kernels.iter().all(KernelComparison::is_same)
    }
}

impl KernelComparison {
    /// Whether nothing differs.
    pub fn is_same(&self) -> bool {
        let same_code = matches!(self.code, CodeMatch::Identical | CodeMatch::SameButForAddresses);
        same_code && self.same_arguments && self.differences.is_empty()
    }
}

/// Compares two code objects, kernel by kernel, matched by name.
pub fn compare(base: &CodeObject, candidate: &CodeObject) -> Comparison {
    let by_name = |object: &'_ CodeObject| -> HashMap<String, usize> {
        // Of kernels with the same name, the first counts.
        object.kernels().iter().enumerate().rev().map(|(index, kernel)| (kernel.name.clone(), index)).collect()
    };
    let (in_base, in_candidate) = (by_name(base), by_name(candidate));
    let (places_base, places_candidate) = (Places::new(base), Places::new(candidate));
    let mut kernels = Vec::new();
    let mut removed = Vec::new();
    for kernel in base.kernels() {
        match in_candidate.get(&kernel.name).and_then(|&index| candidate.kernels().get(index)) {
            Some(other) => kernels.push(KernelComparison {
                name: kernel.name.clone(),
                code: compare_code((base, &places_base, kernel), (candidate, &places_candidate, other)),
                same_arguments: same_arguments(kernel, other),
                differences: differences(kernel, other),
            }),
            None => removed.push(kernel.name.clone()),
        }
    }
    let added = candidate.kernels().iter().filter(|kernel| !in_base.contains_key(&kernel.name));
    Comparison {
        targets: [base.arch().to_string(), candidate.arch().to_string()],
        added: added.map(|kernel| kernel.name.clone()).collect(),
        kernels,
        removed,
    }
}

type Placed<'o> = (&'o CodeObject, &'o Places<'o>, &'o Kernel);

fn compare_code(base: Placed<'_>, candidate: Placed<'_>) -> CodeMatch {
    let (object_a, object_b) = (base.0, candidate.0);
    let (Some(bytes_a), Some(bytes_b)) = (object_a.code(base.2), object_b.code(candidate.2)) else {
        return CodeMatch::Unknown;
    };
    let generation = object_a.arch().generation();
    if generation != object_b.arch().generation() {
        return CodeMatch::Different;
    }
    let a = Code { places: base.1, address: base.2.entry_address, bytes: bytes_a };
    let b = Code { places: candidate.1, address: candidate.2.entry_address, bytes: bytes_b };
    code::compare(&a, &b, generation)
}

fn same_arguments(a: &Kernel, b: &Kernel) -> bool {
    let essence = |kernel: &Kernel| -> Vec<(u32, u32, String)> {
        kernel.args.iter().map(|arg| (arg.offset, arg.size, arg.kind.to_string())).collect()
    };
    essence(a) == essence(b)
}

/// A figure of a kernel, by name.
type Figure = (&'static str, fn(&Kernel) -> Option<u64>);

const FIGURES: &[Figure] = &[
    ("code_size", |kernel| Some(kernel.code_size)),
    ("vgprs", |kernel| Some(kernel.vgprs.into())),
    ("agprs", |kernel| Some(kernel.agprs.into())),
    ("sgprs", |kernel| Some(kernel.sgprs.into())),
    ("vgpr_spills", |kernel| kernel.vgpr_spills.map(u64::from)),
    ("sgpr_spills", |kernel| kernel.sgpr_spills.map(u64::from)),
    ("lds_bytes", |kernel| Some(kernel.lds_bytes.into())),
    ("scratch_bytes", |kernel| Some(kernel.scratch_bytes.into())),
    ("kernarg_size", |kernel| Some(kernel.kernarg_size.into())),
    ("wave_size", |kernel| Some(kernel.wave_size.into())),
    ("max_workgroup", |kernel| kernel.max_workgroup.map(u64::from)),
    ("accum_offset", |kernel| kernel.accum_offset().map(u64::from)),
    ("compute_pgm_rsrc1", |kernel| Some(kernel.descriptor.rsrc1.raw.into())),
    ("compute_pgm_rsrc2", |kernel| Some(kernel.descriptor.rsrc2.raw.into())),
    ("compute_pgm_rsrc3", |kernel| Some(kernel.descriptor.rsrc3.raw.into())),
    ("kernel_code_properties", |kernel| Some(kernel.descriptor.code_properties.raw.into())),
    ("kernarg_preload_dwords", |kernel| Some(kernel.descriptor.kernarg_preload.length_dwords.into())),
];

fn differences(a: &Kernel, b: &Kernel) -> Vec<Difference> {
    let both = FIGURES.iter().map(|&(field, figure)| Difference { field, base: figure(a), candidate: figure(b) });
    both.filter(|difference| difference.base != difference.candidate).collect()
}
