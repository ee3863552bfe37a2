//! The activations of gate_up, twice: in f32 for the reference, in f64 and by other formulas for the naive form.

use super::Activation;

impl Activation {
    /// In f32.
    pub(super) fn apply(self, x: f32) -> f32 {
        match self {
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Gelu => x * normal_cdf(x),
        }
    }

    /// In f64.
    pub(super) fn apply_f64(self, x: f64) -> f64 {
        match self {
            Activation::Silu => x * 0.5 * (1.0 + (x / 2.0).tanh()),
            Activation::Gelu => x * normal_cdf_f64(x),
        }
    }
}

/// Φ(x) by the rational approximation 7.1.26 of Abramowitz and Stegun, error below 1e-7.
fn normal_cdf(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series = t * (0.254_829_6 + t * (-0.284_496_72 + t * (1.421_413_8 + t * (-1.453_152_1 + t * 1.061_405_4))));
    let upper = 0.5 * series * (-z * z).exp();
    if x >= 0.0 { 1.0 - upper } else { upper }
}

/// Φ(x) from ½ + φ(x)·Σ x^(2k+1)/(2k+1)!! (Abramowitz and Stegun 26.2.11), whose terms are all of one sign.
fn normal_cdf_f64(x: f64) -> f64 {
    const BEYOND: f64 = 9.0;
    if x.abs() > BEYOND {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > sum.abs() * 1e-17 {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_agree_and_meet_known_values() {
        for act in [Activation::Silu, Activation::Gelu] {
            for step in -120..=120 {
                let x = f64::from(step) / 10.0;
                let (fast, exact) = (f64::from(act.apply(x as f32)), act.apply_f64(x));
                assert!((fast - exact).abs() < 2e-6 * (1.0 + x.abs()), "{act:?}({x}): {fast} {exact}");
            }
        }
        // 1·σ(1) and 1·Φ(1) from tables.
        assert!((Activation::Silu.apply_f64(1.0) - 0.731_058_578_6).abs() < 1e-9);
        assert!((Activation::Gelu.apply_f64(1.0) - 0.841_344_746_1).abs() < 1e-9);
    }
}
