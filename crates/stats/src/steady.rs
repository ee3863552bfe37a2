//! When a warm-up has reached its steady state.

use std::collections::VecDeque;

use crate::{
    StatsError,
    sample::{check_values, median_in_place},
    theil_sen,
};

/// Points kept at most; beyond, every second one is dropped and only every second later one is taken.
const MOST_POINTS: usize = 1024;

/// A change smaller than this many standard errors is not told from noise.
const ERRORS: f64 = 2.0;

/// What counts as steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyRule {
    /// Length of the trailing window, in the unit of the time given to [`SteadyState::push`].
    pub window: f64,
    /// Fewest points to judge by, at least 3; the window is extended back to hold them.
    pub min_points: usize,
    /// Largest change over the window, relative to its median, that is steady (0.01 is 1 %).
    pub tolerance: f64,
}

/// Follows the values of a warm-up and says whether they still change: the Theil–Sen slope over a trailing window, times
/// the length of the window, relative to the median in it. Steady is a change within the tolerance, or one that the
/// scatter of the values does not allow to be told from none (2 standard errors): a noisy kernel must not warm up for ever,
/// and a trend that comes out of the noise later is seen by the drift check on the samples.
///
/// Memory is bounded whatever the number of values.
#[derive(Clone, Debug)]
pub struct SteadyState {
    rule: SteadyRule,
    points: VecDeque<(f64, f64)>,
    started: Option<f64>,
    stride: usize,
    skipped: usize,
}

/// A verdict of [`SteadyState::assess`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Steadiness {
    /// Not yet a full window, or too few points in it.
    TooEarly,
    /// Still changing by this much over the window, relative to the median (negative: getting faster).
    Changing(f64),
    /// Steady; the change seen.
    Steady(f64),
}

impl SteadyState {
    /// # Errors
    /// [`StatsError::Parameter`] for a window that is negative or not finite, fewer than 3 or more than 512 points, or a
    /// tolerance outside 0..1.
    pub fn new(rule: SteadyRule) -> Result<Self, StatsError> {
        let refuse = |name, value, reason| Err(StatsError::Parameter { name, value, reason });
        if !(rule.window >= 0.0 && rule.window <= 1e140) {
            return refuse("steady window", rule.window, "it must be a length of time, 0 or more");
        }
        if !(3..=MOST_POINTS / 2).contains(&rule.min_points) {
            return refuse("points in the steady window", rule.min_points as f64, "it must be in 3..=512");
        }
        if !(0.0..1.0).contains(&rule.tolerance) {
            return refuse("steady tolerance", rule.tolerance, "it must be in 0..1");
        }
        Ok(Self { rule, points: VecDeque::new(), started: None, stride: 1, skipped: 0 })
    }

    /// Adds a value seen at a time; times must not go back.
    ///
    /// # Errors
    /// [`StatsError::OutOfRange`] (index 0 the time, 1 the value) or [`StatsError::NotPositive`] (the value).
    pub fn push(&mut self, time: f64, value: f64) -> Result<(), StatsError> {
        check_values(&[time, value])?;
        if value <= 0.0 {
            return Err(StatsError::NotPositive { index: 1, value });
        }
        self.started.get_or_insert(time);
        self.skipped += 1;
        if self.skipped < self.stride {
            return Ok(());
        }
        self.skipped = 0;
        self.points.push_back((time, value));
        while self.points.len() > self.rule.min_points && self.points[0].0 < time - self.rule.window {
            self.points.pop_front();
        }
        if self.points.len() > MOST_POINTS {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
        Ok(())
    }

    /// Judges the trailing window. Costs up to a few milliseconds: call it a few times a window, not at every value.
    pub fn assess(&self) -> Steadiness {
        let (Some(started), Some(&(last, _)), Some(&(first, _))) =
            (self.started, self.points.back(), self.points.front())
        else {
            return Steadiness::TooEarly;
        };
        if self.points.len() < self.rule.min_points || last - started < self.rule.window {
            return Steadiness::TooEarly;
        }
        let (times, mut values): (Vec<f64>, Vec<f64>) = self.points.iter().map(|&(t, v)| (t - first, v)).unzip();
        // Points at one and the same time (a clock that stands still) show no change over time.
        let Ok(line) = theil_sen(&times, &values) else { return Steadiness::TooEarly };
        let median = median_in_place(&mut values);
        let change = line.slope * (last - first) / median;
        let error = line.slope_error.unwrap_or(0.0) * (last - first) / median;
        if change.abs() <= self.rule.tolerance.max(ERRORS * error) {
            Steadiness::Steady(change)
        } else {
            Steadiness::Changing(change)
        }
    }
}
