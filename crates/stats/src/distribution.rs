//! Tails and quantiles of the normal and of Student's distribution.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

use crate::Probability;

/// From here on the continued fraction of the tail converges faster than the series of the centre.
const CENTRE: f64 = 3.0;
/// Beyond this the tail is below the smallest `f64`.
const FARTHEST: f64 = 40.0;
/// With more degrees of freedom Student's tail is the normal one to eight digits.
const LARGE_DEGREES: u32 = 100_000;

/// The distribution of a standardised estimate when there is no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Standard normal: the scale is known.
    Normal,
    /// Student's with this many degrees of freedom: the scale was estimated. 0 is taken as 1.
    Student(u32),
}

impl Reference {
    /// `P(X > x)`.
    pub fn tail(self, x: f64) -> f64 {
        match self {
            Reference::Normal => normal_tail(x),
            Reference::Student(degrees) if degrees > LARGE_DEGREES => normal_tail(x),
            Reference::Student(degrees) => student_tail(x, degrees.max(1)),
        }
    }

    /// The x with `P(|X| > x) = 1 − confidence`: how many standard errors an interval reaches to either side.
    pub fn reach(self, confidence: Probability) -> f64 {
        let tail = (1.0 - confidence.get()) / 2.0;
        // The tail falls monotonously. Student's with one degree of freedom reaches far.
        let (mut lo, mut hi) = (0.0, FARTHEST);
        while self.tail(hi) > tail && hi < 1e300 {
            hi *= 2.0;
        }
        // Halving ends when no number is left between the ends.
        loop {
            let middle = lo + (hi - lo) / 2.0;
            if middle <= lo || middle >= hi {
                return middle;
            }
            if self.tail(middle) > tail { lo = middle } else { hi = middle }
        }
    }
}

/// `P(Z > z)` of a standard normal `Z`, to about 13 digits: the series of Marsaglia (Journal of Statistical Software 11,
/// 2004) in the centre, the continued fraction of Laplace (Abramowitz and Stegun 26.2.14) in the tail.
fn normal_tail(z: f64) -> f64 {
    if z.is_nan() {
        return 0.5;
    }
    if z < 0.0 {
        return 1.0 - normal_tail(-z);
    }
    if z > FARTHEST {
        return 0.0;
    }
    let density = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (-z * z / 2.0).exp();
    if z < CENTRE {
        let (mut term, mut sum, mut odd) = (z, z, 1.0);
        while term > sum * 1e-17 {
            odd += 2.0;
            term *= z * z / odd;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..=150).rev().fold(z, |rest, k| z + f64::from(k) / rest);
    density / fraction
}

/// `P(T > t)` for whole degrees of freedom, by the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4.
fn student_tail(t: f64, degrees: u32) -> f64 {
    if t.is_nan() {
        return 0.5;
    }
    let angle = (t / f64::from(degrees).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let odd = degrees % 2 == 1;
    // Terms cos^k with k = 1, 3, ... or 0, 2, ..., up to degrees − 2.
    let (mut term, mut k) = if odd { (cos, 1) } else { (1.0, 0) };
    let mut sum = 0.0;
    while k + 2 <= degrees {
        sum += term;
        term *= cos * cos * f64::from(k + 1) / f64::from(k + 2);
        k += 2;
    }
    let within = if odd { 2.0 / PI * (angle + sin * sum) } else { sin * sum };
    ((1.0 - within) / 2.0).clamp(0.0, 1.0)
}
