//! What a measurement says.

use std::fmt;

use kbench_stats::{
    Fences, Interval, Outliers, Probability, Sample, StatsError, autocorrelation, mann_kendall, theil_sen,
};

use serde::{Deserialize, Serialize};

use super::{Cache, Clock, Ladder, Protocol, Reading, TimeSource, Warning, estimate::Estimate};

/// A drift is reported when it is more than this, relative to the median, and more than twice the precision,
const DRIFT: f64 = 0.01;
/// and when Mann–Kendall's z, corrected for autocorrelation, exceeds this (two-sided p = 0.001).
const DRIFT_Z: f64 = 3.29;

/// Share of outliers worth a warning. Of normal samples 0.7 % lie beyond Tukey's fences.
const MANY_OUTLIERS: f64 = 0.1;

/// Share of throttled samples worth a warning: a single reading can be wrong.
const THROTTLED: f64 = 0.02;

/// Shortest and longest duration that is believed, ns: a picosecond and 30 years.
const BELIEVED_NS: std::ops::RangeInclusive<f64> = 1e-3..=1e18;

/// Durations that were refused, by what was wrong with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// NaN or infinite.
    pub non_finite: usize,
    /// Zero or negative.
    pub non_positive: usize,
    /// Below a picosecond or above 30 years.
    pub out_of_range: usize,
}

impl Refused {
    /// All of them.
    pub fn total(&self) -> usize {
        self.non_finite + self.non_positive + self.out_of_range
    }

    /// Whether `ns` can be a duration; counts it when not.
    pub(super) fn accepts(&mut self, ns: f64) -> bool {
        if !ns.is_finite() {
            self.non_finite += 1;
        } else if ns <= 0.0 {
            self.non_positive += 1;
        } else if !BELIEVED_NS.contains(&ns) {
            self.out_of_range += 1;
        } else {
            return true;
        }
        false
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { non_finite, non_positive, out_of_range } = self;
        write!(f, "{non_positive} not above zero, {non_finite} not finite, {out_of_range} out of range")
    }
}

/// Why the warm-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The launch time was steady.
    Steady,
    /// The cap on its length.
    Cap,
    /// It had used its quarter of the budget.
    Budget,
    /// A million launches, on a clock that hardly moves.
    LaunchCap,
}

/// The warm-up as it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmup {
    /// Launches.
    pub launches: usize,
    /// Its length on the session clock, ns.
    pub ns: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Change over the last window, relative to the median in it, where it could be judged.
    pub change: Option<f64>,
    /// Durations refused in it.
    pub refused: Refused,
}

/// Why sampling stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The interval was narrow enough at two looks in a row.
    Precision,
    /// The budget does not allow another sample.
    Budget,
    /// The most samples allowed.
    MaxSamples,
    /// A launch failed, or most durations were refused: the measurement is a partial one.
    Failed,
}

impl Stopped {
    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Stopped::Precision => "precision",
            Stopped::Budget => "budget",
            Stopped::MaxSamples => "max_samples",
            Stopped::Failed => "failed",
        }
    }
}

/// The samples of one case and what they say. There is at least one sample, and every number is finite.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// Accepted durations in the order taken, ns.
    pub samples_ns: Vec<f64>,
    /// Their median, ns.
    pub median_ns: f64,
    /// 95 % interval of the median, ns: bootstrap and order-statistic interval joined; unknown below 6 samples.
    pub ci95_ns: Option<Interval>,
    /// 5 % quantile (type 7), ns.
    pub p05_ns: f64,
    /// 95 % quantile (type 7), ns.
    pub p95_ns: f64,
    /// The fastest sample, ns.
    pub min_ns: f64,
    /// Cache state asked for.
    pub cache: Cache,
    /// Input sets rotated through.
    pub sets: usize,
    /// The warm-up.
    pub warmup: Warmup,
    /// Why sampling stopped.
    pub stopped: Stopped,
    /// Samples beyond Tukey's fences, flagged and kept.
    pub outliers: Outliers,
    /// Durations refused while sampling.
    pub refused: Refused,
    /// Launches after a pause for looking at the samples, not recorded: they restore caches and clocks. The launches of
    /// the case are `warmup.launches + samples + refused + unrecorded + batched` (and one that failed).
    pub unrecorded: usize,
    /// Lag-1 autocorrelation of the samples' ranks, −1..1.
    pub autocorrelation: f64,
    /// Block length of the bootstrap. 1: the samples were treated as independent.
    pub block: usize,
    /// Warm-up and samples together on the session clock, ns.
    pub elapsed_ns: u64,
    /// Launches for other time sources (batches, events).
    pub batched: usize,
    /// Where the samples come from.
    pub source: TimeSource,
    /// The time sources held against each other; `None` where there is only that of the samples.
    pub ladder: Option<Ladder>,
    /// Clock readings beside the samples; `None` without any.
    pub clock: Option<Clock>,
    /// What must be said beside the time, gravest first.
    pub warnings: Vec<Warning>,
}

/// The facts about a session that are not in its samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    pub(super) sets: usize,
    pub(super) sets_touched: bool,
    pub(super) resolution_ns: f64,
    pub(super) warmup: Warmup,
    pub(super) refused: Refused,
    pub(super) unrecorded: usize,
    pub(super) elapsed_ns: u64,
    pub(super) stopped: Stopped,
    pub(super) source: TimeSource,
    pub(super) clock: Option<Clock>,
}

impl Measurement {
    /// Analyses accepted samples.
    ///
    /// # Errors
    /// When there are none.
    pub(super) fn new(samples_ns: Vec<f64>, protocol: &Protocol, facts: &Circumstances) -> Result<Self, StatsError> {
        let sample = Sample::positive(&samples_ns)?;
        let estimate = Estimate::of(&sample, protocol.seed)?;
        let mut measurement = Self {
            median_ns: estimate.median,
            ci95_ns: estimate.interval,
            p05_ns: sample.quantile(Probability::P05),
            p95_ns: sample.quantile(Probability::P95),
            min_ns: sample.min(),
            cache: protocol.cache,
            sets: facts.sets,
            warmup: facts.warmup,
            stopped: facts.stopped,
            outliers: Fences::of(&sample).count(&sample),
            refused: facts.refused,
            unrecorded: facts.unrecorded,
            autocorrelation: autocorrelation(&sample.ranks(), 1)?,
            block: estimate.block,
            elapsed_ns: facts.elapsed_ns,
            source: facts.source,
            batched: 0,
            ladder: None,
            clock: facts.clock,
            warnings: Vec::new(),
            samples_ns,
        };
        measurement.warnings = measurement.find_warnings(protocol, facts, drift(&sample)?);
        Ok(measurement)
    }

    /// The time of one launch by the most trusted source there is, with its 95 % interval.
    pub fn time(&self) -> Reading {
        self.ladder.as_ref().map_or_else(|| self.sampled(), |ladder| ladder.used)
    }

    /// What the samples say.
    pub(super) fn sampled(&self) -> Reading {
        Reading { source: self.source, ns: self.median_ns, ci95_ns: self.ci95_ns, overhead: None }
    }

    /// Takes over the time sources, and what must be said of them.
    pub(super) fn set_ladder(&mut self, ladder: Option<Ladder>, no_slope: Option<&'static str>) {
        if let Some(disagreement) = ladder.as_ref().and_then(|ladder| ladder.disagreement) {
            self.warnings.push(Warning::SourcesDisagree(disagreement));
        }
        self.warnings.extend(no_slope.map(|reason| Warning::NoSlope { reason }));
        self.ladder = ladder;
    }

    /// Half of the width of the interval relative to the median.
    pub fn relative_half_width(&self) -> Option<f64> {
        self.ci95_ns.map(|interval| interval.half_width() / self.median_ns)
    }

    fn find_warnings(&self, protocol: &Protocol, facts: &Circumstances, drift: Drift) -> Vec<Warning> {
        let mut found = Vec::new();
        let samples = self.samples_ns.len();
        if self.cache == Cache::Cold && self.sets == 1 {
            found.push(Warning::NotCold);
        }
        match self.relative_half_width() {
            None => found.push(Warning::IntervalUnknown { samples }),
            Some(reached) if reached > protocol.precision => {
                found.push(Warning::PrecisionNotReached { reached, target: protocol.precision });
            }
            Some(_) => {}
        }
        if drift.z.abs() > DRIFT_Z && drift.change.abs() > DRIFT.max(2.0 * protocol.precision) {
            found.push(Warning::Drift { change: drift.change });
        }
        if let Some(clock) = &self.clock
            && clock.throttled as f64 > THROTTLED * clock.readings as f64
        {
            let Clock { throttled, readings, sustained_mhz, min_mhz, .. } = *clock;
            found.push(Warning::Throttled { throttled, readings, sustained_mhz, min_mhz });
        }
        if self.warmup.ended != Ended::Steady {
            found.push(Warning::WarmupNotSteady { change: self.warmup.change, launches: self.warmup.launches });
        }
        if self.cache == Cache::Cold && !facts.sets_touched && self.warmup.launches < self.sets {
            found.push(Warning::SetsNotTouched { touched: self.warmup.launches, sets: self.sets });
        }
        if self.refused.total() > 0 {
            let launches = samples + self.refused.total();
            found.push(Warning::Refused { refused: self.refused.total(), launches });
        }
        if facts.resolution_ns > protocol.precision * self.median_ns {
            found.push(Warning::CoarseClock { resolution_ns: facts.resolution_ns, median_ns: self.median_ns });
        }
        if self.outliers.total() as f64 > MANY_OUTLIERS * samples as f64 {
            found.push(Warning::ManyOutliers { outliers: self.outliers.total(), samples });
        }
        if self.block > 1 {
            found.push(Warning::Autocorrelated { autocorrelation: self.autocorrelation, block: self.block });
        }
        found
    }
}

/// A trend over the samples.
struct Drift {
    /// From the first to the last, relative to the median.
    change: f64,
    /// Mann–Kendall's z divided by the root of the variance inflation `(1 + r)/(1 − r)` of an AR(1), `r` being the lag-1
    /// autocorrelation of what the trend leaves (trend-free pre-whitening in the manner of Yue et al. 2002).
    z: f64,
}

fn drift(sample: &Sample) -> Result<Drift, StatsError> {
    let samples = sample.ordered();
    if samples.len() < 10 {
        return Ok(Drift { change: 0.0, z: 0.0 });
    }
    let order: Vec<f64> = (0..samples.len()).map(|i| i as f64).collect();
    let slope = theil_sen(&order, samples)?.slope;
    let rest: Vec<f64> = samples.iter().zip(&order).map(|(ns, i)| ns - slope * i).collect();
    let dependence = autocorrelation(&Sample::new(&rest)?.ranks(), 1)?.clamp(0.0, 0.95);
    let inflation = (1.0 + dependence) / (1.0 - dependence);
    let change = slope * (samples.len() - 1) as f64 / sample.median();
    Ok(Drift { change, z: mann_kendall(sample).z / inflation.sqrt() })
}
