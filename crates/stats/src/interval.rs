//! Probabilities and intervals.

use crate::StatsError;

/// A probability strictly between 0 and 1: the place of a quantile, or the confidence of an interval.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// 5 %.
    pub const P05: Self = Self(0.05);
    /// The lower quartile.
    pub const P25: Self = Self(0.25);
    /// The median.
    pub const P50: Self = Self(0.5);
    /// The upper quartile.
    pub const P75: Self = Self(0.75);
    /// 95 %: the upper end of the usual range, and the usual confidence.
    pub const P95: Self = Self(0.95);
    /// 99 %.
    pub const P99: Self = Self(0.99);

    /// # Errors
    /// [`StatsError::Parameter`] unless `0 < p < 1`.
    pub fn new(p: f64) -> Result<Self, StatsError> {
        if p > 0.0 && p < 1.0 {
            Ok(Self(p))
        } else {
            Err(StatsError::Parameter { name: "probability", value: p, reason: "it must be above 0 and below 1" })
        }
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A two-sided confidence interval, `lo <= hi`, both finite, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    lo: f64,
    hi: f64,
    confidence: Probability,
}

impl Interval {
    /// Callers give finite ends in order (they come from one sorted sample).
    pub(crate) fn new(lo: f64, hi: f64, confidence: Probability) -> Self {
        debug_assert!(lo <= hi && lo.is_finite() && hi.is_finite());
        Self { lo, hi, confidence }
    }

    /// Lower end.
    pub fn lo(&self) -> f64 {
        self.lo
    }

    /// Upper end.
    pub fn hi(&self) -> f64 {
        self.hi
    }

    /// The confidence it was made for.
    pub fn confidence(&self) -> Probability {
        self.confidence
    }

    /// Half of the width.
    pub fn half_width(&self) -> f64 {
        (self.hi - self.lo) / 2.0
    }

    /// Whether `value` lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }

    /// The smallest interval that holds both; labelled with the confidence of `self`.
    pub fn hull(&self, other: &Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi), confidence: self.confidence }
    }
}
