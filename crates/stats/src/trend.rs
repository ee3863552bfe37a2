//! Straight lines through points, and whether there is a trend at all.

use crate::{
    Sample, StatsError,
    sample::{check_values, median_in_place},
};

/// Up to this many points Theil–Sen takes all pairs (131 thousand slopes, 1 MB); beyond, pairs half of the points apart.
const ALL_PAIRS: usize = 512;

/// Abscissas closer than this share of their span, or of their magnitude, count as equal: a slope over them would be
/// rounding error.
const EQUAL_X: f64 = 1e-12;

/// A straight line `y = intercept + slope · x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Change of y per unit of x.
    pub slope: f64,
    /// y at x = 0.
    pub intercept: f64,
    /// Estimated standard error of the slope, assuming independent deviations from the line; `None` below 3 points.
    pub slope_error: Option<f64>,
}

/// Abscissas scaled to 0..1, which keeps every intermediate result in range.
struct Scaled {
    x: Vec<f64>,
    origin: f64,
    span: f64,
}

impl Scaled {
    fn new(x: &[f64], y: &[f64]) -> Result<Self, StatsError> {
        if x.len() != y.len() {
            return Err(StatsError::Mismatch { x: x.len(), y: y.len() });
        }
        if x.len() < 2 {
            return Err(StatsError::TooFew { what: "a line", needed: 2, got: x.len() });
        }
        check_values(x)?;
        check_values(y)?;
        let origin = x.iter().copied().fold(f64::INFINITY, f64::min);
        let span = x.iter().copied().fold(f64::NEG_INFINITY, f64::max) - origin;
        if span <= EQUAL_X * origin.abs() || span < 1e-140 {
            return Err(StatsError::NoSpan { span });
        }
        Ok(Self { x: x.iter().map(|v| (v - origin) / span).collect(), origin, span })
    }

    /// Sum of squared distances of the scaled abscissas from their mean, and that mean.
    fn spread(&self) -> (f64, f64) {
        let mean = self.x.iter().sum::<f64>() / self.x.len() as f64;
        (self.x.iter().map(|x| (x - mean) * (x - mean)).sum(), mean)
    }

    /// A line in scaled abscissas as one in the given ones.
    fn line(&self, slope: f64, at_origin: f64, slope_error: Option<f64>) -> Line {
        let slope_given = slope / self.span;
        Line {
            slope: slope_given,
            intercept: at_origin - slope * (self.origin / self.span),
            slope_error: slope_error.map(|e| e / self.span),
        }
    }
}

/// Ordinary least squares. The error of the slope is `√(SSE/(n−2)/Sxx)`.
///
/// # Errors
/// When lengths differ, there are fewer than 2 points, a value is not finite, or all x are the same.
pub fn least_squares(x: &[f64], y: &[f64]) -> Result<Line, StatsError> {
    let scaled = Scaled::new(x, y)?;
    let n = y.len() as f64;
    let (sxx, x_mean) = scaled.spread();
    let y_mean = y[0] + y.iter().map(|v| v - y[0]).sum::<f64>() / n;
    let sxy: f64 = scaled.x.iter().zip(y).map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let slope = sxy / sxx;
    let residuals = scaled.x.iter().zip(y).map(|(x, y)| y - y_mean - slope * (x - x_mean));
    let squares: f64 = residuals.map(|r| r * r).sum();
    let slope_error = (y.len() > 2).then(|| (squares / (n - 2.0) / sxx).sqrt());
    Ok(scaled.line(slope, y_mean - slope * x_mean, slope_error))
}

/// Theil–Sen: the median of the slopes between points, and the median of `y − slope·x`. Up to 29 % of the points may be
/// wild without moving it much. Up to 512 points all pairs are taken; beyond, in the order of x given, point `i` with
/// point `i + n/2` (Theil's incomplete method, 1950), so that the cost stays linear.
///
/// The error of the slope is `1.4826 · MAD(residuals) / √Sxx · √(π/3)`: for normal deviations the estimator needs π/3
/// times the points of least squares (Sen 1968).
///
/// # Errors
/// When lengths differ, there are fewer than 2 points, a value is not finite, or all x are the same.
pub fn theil_sen(x: &[f64], y: &[f64]) -> Result<Line, StatsError> {
    let scaled = Scaled::new(x, y)?;
    let n = y.len();
    let slope_of = |i: usize, j: usize| {
        let run = scaled.x[j] - scaled.x[i];
        (run.abs() > EQUAL_X).then(|| (y[j] - y[i]) / run)
    };
    let mut slopes: Vec<f64> = if n <= ALL_PAIRS {
        (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).filter_map(|(i, j)| slope_of(i, j)).collect()
    } else {
        (0..n / 2).filter_map(|i| slope_of(i, i + n.div_ceil(2))).collect()
    };
    if slopes.is_empty() {
        return Err(StatsError::NoSpan { span: scaled.span });
    }
    let slope = median_in_place(&mut slopes);
    let mut residuals: Vec<f64> = scaled.x.iter().zip(y).map(|(x, y)| y - slope * x).collect();
    let at_origin = median_in_place(&mut residuals);
    let slope_error = (n > 2).then(|| {
        let mut deviations: Vec<f64> = residuals.iter().map(|r| (r - at_origin).abs()).collect();
        1.4826 * median_in_place(&mut deviations) / scaled.spread().0.sqrt() * (std::f64::consts::PI / 3.0).sqrt()
    });
    Ok(scaled.line(slope, at_origin, slope_error))
}

/// Result of a Mann–Kendall test for a trend in the order the samples were taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannKendall {
    /// Pairs that rise minus pairs that fall.
    pub s: i64,
    /// `S` over the number of pairs, in −1..1 (Kendall's tau-a).
    pub tau: f64,
    /// `S` over its standard deviation without a trend, ties allowed for, with continuity correction: about standard
    /// normal for 10 or more independent samples. 0 when all values are equal.
    pub z: f64,
}

/// Mann–Kendall test (Mann 1945; Kendall, Rank Correlation Methods): rank correlation of the samples with their order, by
/// merge sort in `O(n log n)` (Knight 1966).
pub fn mann_kendall(sample: &Sample) -> MannKendall {
    let n = sample.len() as i64;
    let pairs = n * (n - 1) / 2;
    let mut ties = 0_i64;
    let mut tie_variance = 0.0;
    for run in sample.sorted().chunk_by(|a, b| a == b).filter(|run| run.len() > 1) {
        let t = run.len() as f64;
        ties += (run.len() * (run.len() - 1) / 2) as i64;
        tie_variance += t * (t - 1.0) * (2.0 * t + 5.0);
    }
    let mut values = sample.ordered().to_vec();
    let falling = count_inversions(&mut values);
    let s = pairs - ties - 2 * falling;

    let count = n as f64;
    let variance = (count * (count - 1.0) * (2.0 * count + 5.0) - tie_variance) / 18.0;
    let z = if variance > 0.0 { (s - s.signum()) as f64 / variance.sqrt() } else { 0.0 };
    MannKendall { s, tau: if pairs > 0 { s as f64 / pairs as f64 } else { 0.0 }, z }
}

/// Pairs `i < j` with `values[i] > values[j]`; sorts the values (merge sort from the bottom up).
fn count_inversions(values: &mut Vec<f64>) -> i64 {
    let n = values.len();
    let mut merged = Vec::with_capacity(n);
    let mut inversions = 0;
    let mut width = 1;
    while width < n {
        merged.clear();
        for pair in values.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            let (mut i, mut j) = (0, 0);
            while i < left.len() && j < right.len() {
                if left[i] <= right[j] {
                    merged.push(left[i]);
                    i += 1;
                } else {
                    merged.push(right[j]);
                    j += 1;
                    inversions += (left.len() - i) as i64;
                }
            }
            merged.extend_from_slice(&left[i..]);
            merged.extend_from_slice(&right[j..]);
        }
        std::mem::swap(values, &mut merged);
        width *= 2;
    }
    inversions
}
