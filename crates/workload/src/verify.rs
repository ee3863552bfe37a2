//! Comparing a kernel's output with the reference.

use serde::{Deserialize, Serialize};

/// How far a correct kernel may be from the reference. Two tiers, as aiter's `checkAllclose` has them: an element is a
/// mismatch when |Δ| > abs + rel·|ref|; the whole fails when more than `mismatch_share` of the elements mismatch, or
/// when one is catastrophic (not finite where the reference is, or |Δ| > abs + rel·|ref| and > half of max |ref|).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Absolute part.
    pub abs: f64,
    /// Relative part.
    pub rel: f64,
    /// Share of elements that may mismatch.
    pub mismatch_share: f64,
}

/// The outcome of one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// True when the output is right within the tolerance.
    pub passed: bool,
    /// Largest |Δ| over finite elements.
    pub max_abs_error: f64,
    /// Largest |Δ| / |ref| over elements with |ref| above the absolute tolerance.
    pub max_rel_error: f64,
    /// Elements outside the tolerance.
    pub mismatches: u64,
    /// Elements compared.
    pub elements: u64,
    /// The tolerance used.
    pub tolerance: Tolerance,
}

/// Compares element by element. NaN equals NaN; infinities must match in sign. Nothing compared is never a pass.
///
/// # Panics
/// When the slices differ in length: a mistake in the caller.
pub fn compare(expected: &[f64], actual: &[f64], tolerance: Tolerance) -> Verification {
    assert_eq!(expected.len(), actual.len());
    let largest = expected.iter().filter(|value| value.is_finite()).fold(0.0_f64, |m, v| m.max(v.abs()));
    let mut result = Verification {
        passed: false,
        max_abs_error: 0.0,
        max_rel_error: 0.0,
        mismatches: 0,
        elements: expected.len() as u64,
        tolerance,
    };
    let mut catastrophic = false;
    for (&want, &got) in expected.iter().zip(actual) {
        if !want.is_finite() || !got.is_finite() {
            let same = (want.is_nan() && got.is_nan()) || want == got;
            result.mismatches += u64::from(!same);
            catastrophic |= !same;
            continue;
        }
        let delta = (want - got).abs();
        result.max_abs_error = result.max_abs_error.max(delta);
        if want.abs() > tolerance.abs {
            result.max_rel_error = result.max_rel_error.max(delta / want.abs());
        }
        if delta > tolerance.abs + tolerance.rel * want.abs() {
            result.mismatches += 1;
            catastrophic |= delta > 0.5 * largest;
        }
    }
    let share = result.mismatches as f64 / result.elements.max(1) as f64;
    result.passed = result.elements > 0 && !catastrophic && share <= tolerance.mismatch_share;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Tolerance = Tolerance { abs: 0.01, rel: 0.01, mismatch_share: 0.05 };

    #[test]
    fn within_tolerance_passes() {
        let result = compare(&[1.0, -2.0, 0.0], &[1.005, -2.01, 0.005], TOLERANCE);
        assert!(result.passed);
        assert_eq!(result.mismatches, 0);
    }

    #[test]
    fn few_small_mismatches_pass_many_do_not() {
        let want = vec![10.0; 100];
        let mut got = want.clone();
        got[0] = 10.5;
        assert!(compare(&want, &got, TOLERANCE).passed);
        got[..10].fill(10.5);
        assert!(!compare(&want, &got, TOLERANCE).passed);
    }

    #[test]
    fn one_catastrophe_fails() {
        let want = vec![1.0; 1000];
        for bad in [f64::NAN, f64::INFINITY, 2.0] {
            let mut got = want.clone();
            got[500] = bad;
            assert!(!compare(&want, &got, TOLERANCE).passed, "{bad}");
        }
    }

    #[test]
    fn nothing_compared_is_no_pass() {
        assert!(!compare(&[], &[], TOLERANCE).passed);
    }

    #[test]
    fn nan_and_infinity_match_themselves() {
        assert!(compare(&[f64::NAN, f64::INFINITY], &[f64::NAN, f64::INFINITY], TOLERANCE).passed);
        assert!(!compare(&[f64::INFINITY], &[f64::NEG_INFINITY], TOLERANCE).passed);
    }
}
