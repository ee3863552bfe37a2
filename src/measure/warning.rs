//! What must be said beside a time.

use std::fmt;

use super::Disagreement;

/// Something that limits what a measurement means. [`Warning::code`] is stable; the text ([`fmt::Display`]) may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warning {
    /// The warm-up ended before the launch time was steady.
    WarmupNotSteady {
        /// Change over the last window, relative to the median in it; `None`: too few launches to tell.
        change: Option<f64>,
        /// Launches of the warm-up.
        launches: usize,
    },
    /// The warm-up ended before every input set had been used once, so first-touch costs may be in the samples.
    SetsNotTouched {
        /// Sets used.
        touched: usize,
        /// Sets there are.
        sets: usize,
    },
    /// Cold samples were asked for, but there is a single input set: they are warm.
    NotCold,
    /// Too few samples for a 95 % interval.
    IntervalUnknown {
        /// Samples there are.
        samples: usize,
    },
    /// The interval is wider than asked for.
    PrecisionNotReached {
        /// Relative half-width reached.
        reached: f64,
        /// Relative half-width asked for.
        target: f64,
    },
    /// Some durations could not be durations.
    Refused {
        /// How many.
        refused: usize,
        /// Of how many launches.
        launches: usize,
    },
    /// More than a tenth of the samples lie beyond Tukey's fences.
    ManyOutliers {
        /// How many.
        outliers: usize,
        /// Of how many.
        samples: usize,
    },
    /// The launch time went on changing while samples were taken.
    Drift {
        /// Change from the first sample to the last (Theil–Sen), relative to the median.
        change: f64,
    },
    /// Neighbouring samples depend on each other; the interval allows for it.
    Autocorrelated {
        /// Lag-1 autocorrelation of the ranks.
        autocorrelation: f64,
        /// Block length of the bootstrap.
        block: usize,
    },
    /// Samples were taken below nine tenths of the session's own sustained clock.
    Throttled {
        /// How many.
        throttled: usize,
        /// Of how many with a clock reading.
        readings: usize,
        /// The sustained clock, MHz.
        sustained_mhz: f64,
        /// The lowest, MHz.
        min_mhz: f64,
    },
    /// Dispatch timestamps and the slope of batches differ by more than 2 % and 1 µs.
    SourcesDisagree(Disagreement),
    /// The slope of batches was not measured, or is no duration.
    NoSlope {
        /// Why.
        reason: &'static str,
    },
    /// One step of the clock is more than the precision asked for.
    CoarseClock {
        /// The step, ns.
        resolution_ns: f64,
        /// The median, ns.
        median_ns: f64,
    },
}

impl Warning {
    /// A stable name for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::WarmupNotSteady { .. } => "warmup_not_steady",
            Self::SetsNotTouched { .. } => "sets_not_touched",
            Self::NotCold => "not_cold",
            Self::IntervalUnknown { .. } => "interval_unknown",
            Self::PrecisionNotReached { .. } => "precision_not_reached",
            Self::Refused { .. } => "durations_refused",
            Self::ManyOutliers { .. } => "many_outliers",
            Self::Drift { .. } => "drift",
            Self::Autocorrelated { .. } => "autocorrelated",
            Self::Throttled { .. } => "throttled",
            Self::SourcesDisagree(_) => "time_sources_disagree",
            Self::NoSlope { .. } => "no_graph_slope",
            Self::CoarseClock { .. } => "coarse_clock",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::WarmupNotSteady { change: Some(change), launches } => write!(
                f,
                "the warm-up ended after {launches} launches while the time still changed by {:+.1} % a window",
                change * 100.0
            ),
            Self::WarmupNotSteady { change: None, launches } => {
                write!(f, "the warm-up ended after {launches} launches, too few to tell whether the time is steady")
            }
            Self::SetsNotTouched { touched, sets } => {
                write!(f, "only {touched} of {sets} input sets were used in the warm-up: first uses are in the samples")
            }
            Self::NotCold => {
                f.write_str("there is a single input set to rotate through: the samples are warm, not cold")
            }
            Self::IntervalUnknown { samples } => {
                write!(f, "{samples} sample(s) are too few for a 95 % interval: it is unknown")
            }
            Self::PrecisionNotReached { reached, target } => {
                write!(
                    f,
                    "the interval is ±{:.2} %, wider than the ±{:.2} % asked for",
                    reached * 100.0,
                    target * 100.0
                )
            }
            Self::Refused { refused, launches } => {
                write!(f, "{refused} of {launches} durations were not above zero or not finite, and were refused")
            }
            Self::ManyOutliers { outliers, samples } => {
                write!(f, "{outliers} of {samples} samples are outliers (Tukey); they are kept")
            }
            Self::Drift { change } => {
                write!(f, "the time drifted by {:+.1} % while samples were taken", change * 100.0)
            }
            Self::Autocorrelated { autocorrelation, block } => write!(
                f,
                "samples depend on the ones before (autocorrelation {autocorrelation:.2}); the interval is from blocks of {block}"
            ),
            Self::Throttled { throttled, readings, sustained_mhz, min_mhz } => write!(
                f,
                "{throttled} of {readings} samples were taken below nine tenths of the {sustained_mhz:.0} MHz that the \
                 session sustained (lowest {min_mhz:.0} MHz): the device throttled; let it cool down, or check its power limit"
            ),
            Self::SourcesDisagree(Disagreement { dispatch_ns, graph_ns }) => write!(
                f,
                "dispatch timestamps say {:.2} µs and back-to-back launches {:.2} µs a launch: the gap between launches, or \
                 one of the two sources, is not what it should be",
                dispatch_ns / 1e3,
                graph_ns / 1e3
            ),
            Self::NoSlope { reason } => write!(f, "there is no time from back-to-back launches: {reason}"),
            Self::CoarseClock { resolution_ns, median_ns } => write!(
                f,
                "one step of the clock ({resolution_ns} ns) is {:.1} % of the time, more than the precision asked for",
                resolution_ns / median_ns * 100.0
            ),
        }
    }
}
