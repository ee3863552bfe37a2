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
//! - [`Schedule`], [`PairedSession`], [`compare_paired`]: two builds launched in turn; [`compare_unpaired`]: two runs made apart.
//! - [`Rule`], [`Verdict`]: when a ratio is a change; [`Correction`]: many cases at once; [`step_change`]: what they mean together.
//! - [`wilcoxon_signed_rank`], [`Reference`]: the test and the distributions behind them.
//! - [`SteadyState`], [`LookSchedule`], [`PrecisionRule`]: when warm-up ends and when sampling ends.

mod bootstrap;
mod dependence;
mod distribution;
mod error;
mod interval;
mod looks;
mod multiplicity;
mod order_statistic;
mod outliers;
mod paired;
mod sample;
mod schedule;
mod signed_rank;
mod steady;
mod step;
mod stopping;
mod trend;
mod unpaired;
mod verdict;

pub use bootstrap::{Blocks, Bootstrap, bootstrap_median};
pub use dependence::{autocorrelation, block_length};
pub use distribution::Reference;
pub use error::StatsError;
pub use interval::{Interval, Probability};
pub use looks::{Look, Looks};
pub use multiplicity::Correction;
pub use order_statistic::{OrderStatisticInterval, order_statistic_median};
pub use outliers::{Fences, Outliers};
pub use paired::{Block, PairedComparison, PairedSession, compare_paired};
pub use sample::Sample;
pub use schedule::{Arm, BlockOrder, Schedule};
pub use signed_rank::{SignedRank, wilcoxon_signed_rank};
pub use steady::{Steadiness, SteadyRule, SteadyState};
pub use step::{OneSided, StepChange, WeightedRatio, geometric_mean, step_change};
pub use stopping::{LookSchedule, PrecisionRule};
pub use trend::{Line, MannKendall, least_squares, mann_kendall, theil_sen};
pub use unpaired::{BetweenRuns, RunEstimate, compare_unpaired};
pub use verdict::{Doubt, RatioEstimate, Rule, Verdict};
