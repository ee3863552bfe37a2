//! Tukey's fences.

use crate::{Probability, Sample};

/// Tukey's fences (Exploratory Data Analysis, 1977): values beyond 1.5 interquartile ranges from the quartiles are mild
/// outliers, beyond 3 severe ones. Quartiles are of type 7. When more than half of the values are equal the range is 0
/// and every other value is an outlier: true of the definition, and no reason to drop any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fences {
    /// Below it, a severe low outlier.
    pub low_severe: f64,
    /// Below it, a mild low outlier.
    pub low_mild: f64,
    /// Above it, a mild high outlier.
    pub high_mild: f64,
    /// Above it, a severe high outlier.
    pub high_severe: f64,
}

/// How many samples lie beyond the fences, each counted once. They are counted and kept: a slow launch is a fact about
/// the system, and the median does not need it gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outliers {
    /// Below the outer fence.
    pub low_severe: usize,
    /// Between the lower fences.
    pub low_mild: usize,
    /// Between the upper fences.
    pub high_mild: usize,
    /// Above the outer fence.
    pub high_severe: usize,
}

impl Fences {
    /// The fences of a sample.
    pub fn of(sample: &Sample) -> Self {
        let (q1, q3) = (sample.quantile(Probability::P25), sample.quantile(Probability::P75));
        let iqr = q3 - q1;
        Self {
            low_severe: q1 - 3.0 * iqr,
            low_mild: q1 - 1.5 * iqr,
            high_mild: q3 + 1.5 * iqr,
            high_severe: q3 + 3.0 * iqr,
        }
    }

    /// Whether a value lies outside the mild fences.
    pub fn is_outlier(&self, value: f64) -> bool {
        value < self.low_mild || value > self.high_mild
    }

    /// Counts what lies beyond.
    pub fn count(&self, sample: &Sample) -> Outliers {
        let mut found = Outliers::default();
        for &value in sample.ordered() {
            if value < self.low_severe {
                found.low_severe += 1;
            } else if value < self.low_mild {
                found.low_mild += 1;
            } else if value > self.high_severe {
                found.high_severe += 1;
            } else if value > self.high_mild {
                found.high_mild += 1;
            }
        }
        found
    }
}

impl Outliers {
    /// All of them.
    pub fn total(&self) -> usize {
        self.low_severe + self.low_mild + self.high_mild + self.high_severe
    }
}
