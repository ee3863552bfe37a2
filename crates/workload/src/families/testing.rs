//! What the tests of every family check the same way.

use crate::verify::compare;
use crate::{ArgDims, Family};
use crate::{
    CaseOptions, Fp8Flavor, OpArg, OpCall, Role, ShapeError, TensorSet, Tolerance, Value, Workload, case, narrow,
};

/// Options of tests.
pub(crate) const OPTIONS: CaseOptions = CaseOptions { fp8: Fp8Flavor::Fnuz, seed: 1 };

/// Builds a case from texts.
pub(crate) fn build(family: Family, shape: &str, dtypes: &str) -> Result<Box<dyn Workload>, ShapeError> {
    case(family, &shape.parse()?, &dtypes.parse()?, OPTIONS)
}

/// Runs the reference of a filled case and compares every output with the naive form, whole. Inputs must stay untouched, and a
/// case built from the case's own shape and dtypes must be the same. Returns the largest error in units of the tolerance.
pub(crate) fn check_reference(case: &dyn Workload, tolerance: impl Fn(&str) -> Tolerance) {
    let specs = case.tensors();
    let mut tensors = TensorSet::zeroed(&specs).unwrap();
    case.fill(11, &mut tensors);
    check_filled(case, &mut tensors, tolerance);

    let again = super::super::case(case.family(), &case.shape(), &case.dtypes(), OPTIONS).unwrap();
    assert_eq!(format!("{again:?}"), format!("{case:?}"));
    assert_eq!(again.tensors(), specs);
}

/// As [`check_reference`] for tensors that are filled already.
pub(crate) fn check_filled(case: &dyn Workload, tensors: &mut TensorSet, tolerance: impl Fn(&str) -> Tolerance) {
    let specs = case.tensors();
    let before = tensors.clone();
    let outputs: Vec<_> = specs.iter().filter(|spec| spec.role != Role::In).collect();
    let naive: Vec<Vec<f64>> = outputs
        .iter()
        .map(|spec| case.naive(tensors, spec.name, &(0..spec.elements() as usize).collect::<Vec<_>>()))
        .collect();
    // A poisoned output shows what the reference does not write.
    for spec in specs.iter().filter(|spec| spec.role == Role::Out) {
        tensors.get_mut(spec.name).bytes_mut().fill(0xFF);
    }
    case.reference(tensors);
    for spec in specs.iter().filter(|spec| spec.role == Role::In) {
        assert_eq!(tensors.get(spec.name).bytes(), before.get(spec.name).bytes(), "{} was written", spec.name);
    }
    for (spec, naive) in outputs.iter().zip(naive) {
        let bytes = tensors.get(spec.name).bytes();
        let reference: Vec<f64> = (0..naive.len()).map(|index| narrow::get(spec.dtype, bytes, index)).collect();
        let result = compare(&naive, &reference, tolerance(spec.name));
        assert!(result.passed && result.mismatches == 0, "{} of {case:?}: {result:?}", spec.name);
    }
}

/// Half a unit of the output's dtype, and f32 noise: what a reference may be off its naive form.
pub(crate) fn half_unit(dtype: crate::Dtype, abs: f64) -> Tolerance {
    Tolerance { abs, rel: narrow::epsilon(dtype) / 2.0 + 1e-5, mismatch_share: 0.0 }
}

/// Walks every tensor: each byte of an input is read once, of an output written once, of an in-out tensor both.
pub(crate) fn check_bytes(case: &dyn Workload) {
    let (mut read, mut written) = (0_u128, 0_u128);
    for spec in case.tensors() {
        let tensor = crate::Tensor::zeroed(spec).unwrap();
        let bytes = tensor.bytes().iter().count() as u128;
        read += if tensor.spec.role == Role::Out { 0 } else { bytes };
        written += if tensor.spec.role == Role::In { 0 } else { bytes };
    }
    let work = case.work();
    assert_eq!((work.bytes_read, work.bytes_written), (read, written), "{case:?}");
}

/// An operator call from dims (empty for a scalar), types and, for scalars, values.
pub(crate) fn call(name: &str, args: &[(&[u64], &str)]) -> OpCall {
    let args = args
        .iter()
        .map(|(dims, text)| {
            let is_tensor = !dims.is_empty();
            OpArg {
                dims: if is_tensor { ArgDims::Tensor(dims.to_vec()) } else { ArgDims::None },
                dtype: if is_tensor { (*text).to_owned() } else { "Scalar".to_owned() },
                strides: Vec::new(),
                concrete: if is_tensor { String::new() } else { (*text).to_owned() },
            }
        })
        .collect();
    OpCall { name: name.to_owned(), args, ..OpCall::default() }
}

/// Adds derived parameters to a call.
pub(crate) fn with_params(mut op: OpCall, params: &[(&str, Value)]) -> OpCall {
    op.params.extend(params.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    op
}
