//! The core clock beside the samples: the session's own sustained clock, and samples taken below it.

use std::collections::VecDeque;

use kbench_stats::{Sample, StatsError};

/// A sample below this share of the sustained clock was throttled.
const THROTTLED: f64 = 0.9;

/// Readings of the warm-up that are kept: those of its last launches.
const KEPT: usize = 512;

/// A reading that can be a clock, MHz: a stopped or a stuck counter gives none.
const BELIEVED_MHZ: std::ops::RangeInclusive<f64> = 1.0..=100_000.0;

/// The clock of a session's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// The session's own sustained clock, MHz: the median at the end of the warm-up or over the samples, whichever is
    /// higher. No data sheet's: a GPU under load runs far below that.
    pub sustained_mhz: f64,
    /// Median over the samples, MHz.
    pub median_mhz: f64,
    /// Lowest of the samples, MHz.
    pub min_mhz: f64,
    /// Samples with a reading.
    pub readings: usize,
    /// Samples below nine tenths of the sustained clock.
    pub throttled: usize,
}

/// A reading that can be believed.
pub(super) fn believed(mhz: Option<f64>) -> Option<f64> {
    mhz.filter(|mhz| BELIEVED_MHZ.contains(mhz))
}

/// Readings at the end of the warm-up.
#[derive(Clone, Debug, Default)]
pub(super) struct WarmClock(VecDeque<(u64, f64)>);

impl WarmClock {
    /// Adds a reading at a session time; those before the window are forgotten.
    pub(super) fn push(&mut self, now_ns: u64, mhz: f64, window_ns: u64) {
        self.0.push_back((now_ns, mhz));
        while self.0.len() > KEPT || self.0.front().is_some_and(|(then, _)| then.saturating_add(window_ns) < now_ns) {
            self.0.pop_front();
        }
    }

    /// The median of the readings kept; `None` without any.
    pub(super) fn median(&self) -> Option<f64> {
        let readings: Vec<f64> = self.0.iter().map(|(_, mhz)| *mhz).collect();
        Sample::positive(&readings).ok().map(|sample| sample.median())
    }
}

impl Clock {
    /// Sums up the readings of the samples (`None` where there was none); `None` when no sample has one.
    ///
    /// # Errors
    /// None for readings that [`believed`] let pass.
    pub(super) fn of(readings: &[Option<f64>], warm_mhz: Option<f64>) -> Result<Option<Self>, StatsError> {
        let known: Vec<f64> = readings.iter().copied().flatten().collect();
        if known.is_empty() {
            return Ok(None);
        }
        let sample = Sample::positive(&known)?;
        let median_mhz = sample.median();
        let sustained_mhz = median_mhz.max(warm_mhz.unwrap_or(0.0));
        let throttled = known.iter().filter(|mhz| **mhz < THROTTLED * sustained_mhz).count();
        Ok(Some(Self { sustained_mhz, median_mhz, min_mhz: sample.min(), readings: known.len(), throttled }))
    }
}
