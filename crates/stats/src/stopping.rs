//! When to look at the samples, and when to stop taking them.

use crate::StatsError;

/// Sample counts at which the interval is looked at: `first`, then each `ratio` times the one before. Looking after
/// every sample would let the interval be narrow by chance once and stop there; a geometric schedule looks only
/// `log(n)/log(ratio)` times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookSchedule {
    first: usize,
    ratio: f64,
}

impl LookSchedule {
    /// # Errors
    /// [`StatsError::Parameter`] when `first` is 0 or `ratio` is not in 1.01..=10.
    pub fn new(first: usize, ratio: f64) -> Result<Self, StatsError> {
        if first == 0 {
            return Err(StatsError::Parameter { name: "first look", value: 0.0, reason: "it must be at least 1" });
        }
        if !(1.01..=10.0).contains(&ratio) {
            return Err(StatsError::Parameter { name: "look ratio", value: ratio, reason: "it must be in 1.01..=10" });
        }
        Ok(Self { first, ratio })
    }

    /// The first look.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The look after one at `count` samples: always a larger count.
    pub fn after(&self, count: usize) -> usize {
        let scaled = (count as f64 * self.ratio).ceil() as usize;
        scaled.max(count.saturating_add(1)).max(self.first)
    }
}

/// Stops when the relative half-width of the interval is at or below the target at several looks in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrecisionRule {
    target: f64,
    needed: u32,
    met: u32,
}

impl PrecisionRule {
    /// Stop at a relative half-width of `target` (0.005 is ±0.5 %) seen at `needed` consecutive looks.
    ///
    /// # Errors
    /// [`StatsError::Parameter`] when `target` is not in 0..1 (0 asks for samples that are all equal) or `needed` is 0.
    pub fn new(target: f64, needed: u32) -> Result<Self, StatsError> {
        if !(0.0..1.0).contains(&target) {
            return Err(StatsError::Parameter { name: "precision", value: target, reason: "it must be in 0..1" });
        }
        if needed == 0 {
            return Err(StatsError::Parameter { name: "looks in a row", value: 0.0, reason: "it must be at least 1" });
        }
        Ok(Self { target, needed, met: 0 })
    }

    /// The target.
    pub fn target(&self) -> f64 {
        self.target
    }

    /// Takes note of a look (`None`: no interval yet); true when sampling may stop.
    pub fn look(&mut self, relative_half_width: Option<f64>) -> bool {
        match relative_half_width {
            Some(width) if width <= self.target => self.met = self.met.saturating_add(1),
            _ => self.met = 0,
        }
        self.met >= self.needed
    }
}
