//! The median of the samples so far and its interval.

use kbench_stats::{
    Bootstrap, Interval, Probability, Sample, StatsError, block_length, bootstrap_median, order_statistic_median,
};

/// The confidence of every interval that is reported.
const CONFIDENCE: Probability = Probability::P95;

/// The median and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) median: f64,
    /// `None` when the samples are too few for the confidence.
    pub(super) interval: Option<Interval>,
    /// Block length of the bootstrap.
    pub(super) block: usize,
}

impl Estimate {
    /// The bootstrap interval (in blocks where the samples depend on each other) and the order-statistic interval, joined:
    /// each covers what the other misses. The bootstrap is too narrow on small samples, the other when samples are
    /// dependent, and stopping at a narrow interval costs either some of its coverage. No interval where not even the range of
    /// the samples would be a 95 % one (below 6).
    pub(super) fn of(sample: &Sample, seed: u64) -> Result<Self, StatsError> {
        let median = sample.median();
        let block = block_length(sample);
        let Ok(order) = order_statistic_median(sample, CONFIDENCE) else {
            return Ok(Self { median, interval: None, block });
        };
        let bootstrap = bootstrap_median(sample, CONFIDENCE, &Bootstrap::new(seed))?;
        Ok(Self { median, interval: Some(bootstrap.hull(&order.interval)), block })
    }

    /// As [`Estimate::of`], but without the bootstrap when the order-statistic interval alone is wider than the target: such
    /// a look cannot be the last, and long ones disturb the launches that follow.
    pub(super) fn for_look(sample: &Sample, seed: u64, target: f64) -> Result<Self, StatsError> {
        let median = sample.median();
        match order_statistic_median(sample, CONFIDENCE) {
            Ok(order) if order.interval.half_width() > target * median => {
                Ok(Self { median, interval: Some(order.interval), block: 1 })
            }
            _ => Self::of(sample, seed),
        }
    }

    pub(super) fn relative_half_width(&self) -> Option<f64> {
        self.interval.map(|interval| interval.half_width() / self.median)
    }
}
