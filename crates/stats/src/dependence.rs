//! Dependence between samples that were taken one after the other.

use crate::{Sample, StatsError, sample::check_values};

/// Sample autocorrelation at a lag: `Σ (x_t − m)(x_{t+lag} − m) / Σ (x_t − m)²`, in −1..1 (Box and Jenkins, Time Series
/// Analysis). 0 when all values are equal or there are no pairs at that lag: such samples show no dependence.
///
/// Give it [`Sample::ranks`] where single extreme values must not hide the dependence of the others.
///
/// # Errors
/// When a value is NaN, infinite or of extreme magnitude.
pub fn autocorrelation(values: &[f64], lag: usize) -> Result<f64, StatsError> {
    check_values(values)?;
    Ok(Centred::new(values).autocorrelation(lag))
}

/// Values minus their mean, and the sum of their squares.
struct Centred {
    values: Vec<f64>,
    squares: f64,
}

impl Centred {
    fn new(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let values: Vec<f64> = values.iter().map(|v| v - mean).collect();
        let squares = values.iter().map(|v| v * v).sum();
        Self { values, squares }
    }

    fn autocorrelation(&self, lag: usize) -> f64 {
        if self.squares <= 0.0 || lag >= self.values.len() {
            return 0.0;
        }
        let products: f64 = self.values.iter().zip(&self.values[lag..]).map(|(a, b)| a * b).sum();
        (products / self.squares).clamp(-1.0, 1.0)
    }
}

/// Block length for a moving-block bootstrap, chosen from the data: Politis and White, "Automatic Block-Length Selection
/// for the Dependent Bootstrap" (Econometric Reviews 23, 2004), with the correction of Patton, Politis and White (2009),
/// for the overlapping-block form. 1 when no autocorrelation is seen, that is, when the samples may be treated as
/// independent; never more than a third of the samples nor `3·√n`.
///
/// It is computed from ranks: the median depends on the order of the samples only, and one burst of slow launches would
/// hide the dependence in the moments.
pub fn block_length(sample: &Sample) -> usize {
    let n = sample.len();
    if n < 8 {
        return 1;
    }
    let count = n as f64;
    let longest = (3.0 * count.sqrt()).min(count / 3.0).floor().max(1.0);
    let ranks = Centred::new(&sample.ranks());

    // The first lag after which `run` lags in a row are within the bounds of white noise.
    let run = (count.log10().sqrt().ceil() as usize).max(5);
    let last_lag = (count.sqrt().ceil() as usize + run).min(n - 1);
    let bound = 2.0 * (count.log10() / count).sqrt();
    let rho: Vec<f64> = (0..=last_lag).map(|lag| ranks.autocorrelation(lag)).collect();
    let seen = rho[1..]
        .windows(run)
        .position(|lags| lags.iter().all(|r| r.abs() < bound))
        .unwrap_or_else(|| rho[1..].iter().rposition(|r| r.abs() >= bound).map_or(0, |lag| lag + 1));
    if seen == 0 {
        return 1;
    }

    // Flat-top lag window: weight 1 up to half of the bandwidth, then falling to 0.
    let bandwidth = (2 * seen).min(last_lag);
    let (mut moment, mut spectrum) = (0.0, rho[0]);
    for (lag, r) in rho.iter().enumerate().take(bandwidth + 1).skip(1) {
        let weight = (2.0 * (1.0 - lag as f64 / bandwidth as f64)).min(1.0);
        moment += 2.0 * weight * lag as f64 * r;
        spectrum += 2.0 * weight * r;
    }
    let variance = 4.0 / 3.0 * spectrum * spectrum;
    let optimum = if variance > 0.0 { (2.0 * moment * moment / variance * count).cbrt() } else { longest };
    // A NaN cannot arise: every term is finite. Alternation (negative sums) also needs blocks, at least one period.
    optimum.round().clamp(2.0_f64.min(longest), longest) as usize
}
