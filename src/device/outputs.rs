//! Comparing what a kernel wrote with the reference: all of it, or what a sample of workgroups wrote.

use kbench_workload::{Role, Tensor, TensorSet, Verification, Workload, narrow, random, verify};
use rand::RngExt as _;
use rayon::prelude::*;

/// Elements compared at a time.
const CHUNK: usize = 1 << 20;
/// Elements of a sampled output that are checked.
const CHECKED: usize = 2048;

/// Compares every element of every output with the reference. `before` becomes the reference's result.
pub(super) fn compare_all(
    case: &dyn Workload,
    mut before: TensorSet,
    after: &TensorSet,
) -> Vec<(&'static str, Verification)> {
    case.reference(&mut before);
    let written = before.tensors.iter().filter(|tensor| tensor.spec.role != Role::In);
    written
        .map(|want| {
            let got = after.get(want.spec.name);
            (want.spec.name, compare(case, want, got))
        })
        .collect()
}

fn compare(case: &dyn Workload, want: &Tensor, got: &Tensor) -> Verification {
    let elements = want.spec.elements() as usize;
    let tolerance = case.tolerance(want.spec.name);
    let starts: Vec<usize> = (0..elements.max(1)).step_by(CHUNK).collect();
    let value = |tensor: &Tensor, index| narrow::get(tensor.spec.dtype, tensor.bytes(), index);
    let parts: Vec<Verification> = starts
        .into_par_iter()
        .map(|start| {
            let range = start..(start + CHUNK).min(elements);
            let expected: Vec<f64> = range.clone().map(|index| value(want, index)).collect();
            let actual: Vec<f64> = range.map(|index| value(got, index)).collect();
            verify::compare(&expected, &actual, tolerance)
        })
        .collect();
    parts
        .into_iter()
        .reduce(|a, b| Verification {
            passed: a.passed && b.passed,
            max_abs_error: a.max_abs_error.max(b.max_abs_error),
            max_rel_error: a.max_rel_error.max(b.max_rel_error),
            mismatches: a.mismatches + b.mismatches,
            elements: a.elements + b.elements,
            tolerance,
        })
        .unwrap_or_else(|| verify::compare(&[], &[], tolerance))
}

/// Compares a choice of the elements that changed with the naive form: what a sample of workgroups wrote. An output that
/// nothing was written to fails.
pub(super) fn compare_written(
    case: &dyn Workload,
    before: &TensorSet,
    after: &TensorSet,
    seed: u64,
) -> Vec<(&'static str, Verification)> {
    let written = after.tensors.iter().filter(|tensor| tensor.spec.role != Role::In);
    written
        .map(|got| {
            let name = got.spec.name;
            let indices = changed(before.get(name), got, seed);
            let expected: Vec<f64> =
                indices.par_chunks(32).flat_map_iter(|some| case.naive(before, name, some)).collect();
            let actual: Vec<f64> =
                indices.iter().map(|index| narrow::get(got.spec.dtype, got.bytes(), *index)).collect();
            let mut check = verify::compare(&expected, &actual, case.tolerance(name));
            check.passed &= !indices.is_empty();
            (name, check)
        })
        .collect()
}

/// Up to [`CHECKED`] elements whose bytes differ, chosen by `seed`.
fn changed(before: &Tensor, after: &Tensor, seed: u64) -> Vec<usize> {
    let bits = after.spec.dtype.bits() as usize;
    let (a, b) = (before.bytes(), after.bytes());
    let differs = |index: usize| {
        let range = index * bits / 8..((index + 1) * bits).div_ceil(8);
        a.get(range.clone()) != b.get(range)
    };
    let all: Vec<usize> = (0..after.spec.elements() as usize).into_par_iter().filter(|index| differs(*index)).collect();
    if all.len() <= CHECKED {
        return all;
    }
    let mut rng = random::rng(seed, after.spec.name);
    let mut chosen: Vec<usize> = (0..CHECKED).map(|_| all[rng.random_range(0..all.len())]).collect();
    chosen.extend([all[0], all[all.len() - 1]]);
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}
