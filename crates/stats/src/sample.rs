//! Samples that have been checked once, so that nothing after has to.

use crate::{Probability, StatsError};

/// Magnitudes above this could overflow when squared and summed; below its inverse, when divided by.
const LARGEST: f64 = 1e140;
const SMALLEST: f64 = 1e-140;

/// Positions are drawn as 32-bit numbers (bootstrap), and 2^28 samples are 2 GiB already.
const MOST: usize = 1 << 28;

/// A non-empty set of finite values, kept both in the order they were taken and sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    ordered: Vec<f64>,
    sorted: Vec<f64>,
}

/// Checks that every value is finite and of a magnitude that arithmetic cannot take out of range.
pub(crate) fn check_values(values: &[f64]) -> Result<(), StatsError> {
    let fits = |v: f64| v == 0.0 || (SMALLEST..=LARGEST).contains(&v.abs());
    match values.iter().position(|&v| !fits(v)) {
        Some(index) => Err(StatsError::OutOfRange { index, value: values[index] }),
        None => Ok(()),
    }
}

impl Sample {
    /// Samples of a quantity of any sign (differences, log-ratios), in the order they were taken.
    ///
    /// # Errors
    /// When there are none, too many, or one is NaN, infinite or of extreme magnitude.
    pub fn new(values: &[f64]) -> Result<Self, StatsError> {
        if values.is_empty() {
            return Err(StatsError::TooFew { what: "a sample", needed: 1, got: 0 });
        }
        if values.len() > MOST {
            return Err(StatsError::TooMany { most: MOST, got: values.len() });
        }
        check_values(values)?;
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(Self { ordered: values.to_vec(), sorted })
    }

    /// Samples of a quantity that is above zero by nature, such as a duration.
    ///
    /// # Errors
    /// As [`Sample::new`], and when a value is zero or negative.
    pub fn positive(values: &[f64]) -> Result<Self, StatsError> {
        if let Some(index) = values.iter().position(|&v| v <= 0.0) {
            return Err(StatsError::NotPositive { index, value: values[index] });
        }
        Self::new(values)
    }

    /// How many, at least 1.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The values in the order they were taken.
    pub fn ordered(&self) -> &[f64] {
        &self.ordered
    }

    /// The values in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The smallest.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// The largest.
    pub fn max(&self) -> f64 {
        self.sorted[self.len() - 1]
    }

    /// The middle value, or the mean of the two middle ones.
    pub fn median(&self) -> f64 {
        self.quantile(Probability::P50)
    }

    /// The quantile of type 7 in the numbering of Hyndman and Fan, "Sample Quantiles in Statistical Packages" (The
    /// American Statistician 50, 1996): linear between order statistics at position `(n − 1)·p` counted from 0. It is the
    /// default of R and NumPy.
    pub fn quantile(&self, p: Probability) -> f64 {
        quantile_of_sorted(&self.sorted, p)
    }

    /// Median absolute deviation from the median, unscaled. Times 1.4826 it estimates the standard deviation of
    /// normal data.
    pub fn mad(&self) -> f64 {
        let centre = self.median();
        let mut deviations: Vec<f64> = self.sorted.iter().map(|v| (v - centre).abs()).collect();
        median_in_place(&mut deviations)
    }

    /// Arithmetic mean. Summed as differences from the smallest value, so that a small spread on a large value keeps
    /// its digits.
    pub fn mean(&self) -> f64 {
        let origin = self.min();
        let excess: f64 = self.sorted.iter().map(|v| v - origin).sum();
        (origin + excess / self.len() as f64).clamp(self.min(), self.max())
    }

    /// Sample standard deviation, with `n − 1` (Bessel's correction).
    ///
    /// # Errors
    /// [`StatsError::TooFew`] for a single value.
    pub fn sd(&self) -> Result<f64, StatsError> {
        if self.len() < 2 {
            return Err(StatsError::TooFew { what: "a standard deviation", needed: 2, got: self.len() });
        }
        let mean = self.mean();
        let squares: f64 = self.sorted.iter().map(|v| (v - mean) * (v - mean)).sum();
        Ok((squares / (self.len() - 1) as f64).sqrt())
    }

    /// Position of each value, in the order taken, among the sorted ones, from 0; equal values in the order taken.
    pub(crate) fn positions(&self) -> Vec<u32> {
        let mut by_value: Vec<u32> = (0..self.len() as u32).collect();
        by_value.sort_by(|&a, &b| self.ordered[a as usize].total_cmp(&self.ordered[b as usize]));
        let mut positions = vec![0; self.len()];
        for (position, &taken) in by_value.iter().enumerate() {
            positions[taken as usize] = position as u32;
        }
        positions
    }

    /// Rank of each value, in the order taken, from 1; equal values share the mean of their ranks (midranks).
    pub fn ranks(&self) -> Vec<f64> {
        let below = |v: f64| self.sorted.partition_point(|&s| s < v);
        let up_to = |v: f64| self.sorted.partition_point(|&s| s <= v);
        self.ordered.iter().map(|&v| (below(v) + 1 + up_to(v)) as f64 / 2.0).collect()
    }
}

/// [`Sample::quantile`] of values that are sorted and not empty.
fn quantile_of_sorted(sorted: &[f64], p: Probability) -> f64 {
    let position = (sorted.len() - 1) as f64 * p.get();
    let below = position as usize;
    let (a, b) = (sorted[below], sorted[(below + 1).min(sorted.len() - 1)]);
    (a + (position - below as f64) * (b - a)).clamp(a, b)
}

/// Median of finite values that may be reordered; there must be at least one.
pub(crate) fn median_in_place(values: &mut [f64]) -> f64 {
    quantile_in_place(values, Probability::P50)
}

/// [`Sample::quantile`] of finite values that may be reordered; there must be at least one.
pub(crate) fn quantile_in_place(values: &mut [f64], p: Probability) -> f64 {
    let position = (values.len() - 1) as f64 * p.get();
    let below = position as usize;
    let (_, &mut a, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let b = above.iter().copied().min_by(f64::total_cmp).unwrap_or(a);
    (a + (position - below as f64) * (b - a)).clamp(a, b)
}
