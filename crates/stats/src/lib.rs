//! Estimators, intervals and stopping rules for timing samples.
//!
//! Pure functions over slices: no I/O, no clock, no device, no global state. Randomness (the bootstrap) comes from an
//! explicit seed, so the same samples give the same interval on every machine. Input that would lead to NaN or infinity
//! is refused with a [`StatsError`] at the door: every number that comes out is finite.
//!
//! - [`Sample`]: validated samples in the order they were taken; median, quantiles, MAD, mean, standard deviation, ranks.
//! - [`Fences`]: Tukey's fences; outliers are counted, never dropped.
//! - [`bootstrap_median`] and [`order_statistic_median`]: two intervals of the median that check each other.
//! - [`autocorrelation`], [`block_length`]: dependence between neighbouring samples, and what the bootstrap makes of it.
//! - [`least_squares`], [`theil_sen`], [`mann_kendall`]: trends.
//! - [`SteadyState`], [`LookSchedule`], [`PrecisionRule`]: when warm-up ends and when sampling ends.

mod bootstrap;
mod dependence;
mod error;
mod interval;
mod order_statistic;
mod outliers;
mod sample;
mod steady;
mod stopping;
mod trend;

pub use bootstrap::{Blocks, Bootstrap, bootstrap_median};
pub use dependence::{autocorrelation, block_length};
pub use error::StatsError;
pub use interval::{Interval, Probability};
pub use order_statistic::{OrderStatisticInterval, order_statistic_median};
pub use outliers::{Fences, Outliers};
pub use sample::Sample;
pub use steady::{Steadiness, SteadyRule, SteadyState};
pub use stopping::{LookSchedule, PrecisionRule};
pub use trend::{Line, MannKendall, least_squares, mann_kendall, theil_sen};
