//! Why a case could not be measured.

use kbench_stats::StatsError;

use super::{LaunchError, Measurement, Refused};

/// A measurement that failed. What was sampled before is kept: see [`MeasureError::partial`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MeasureError {
    /// A setting of the protocol is out of range.
    #[error("the measuring protocol cannot be followed: {0}")]
    Protocol(#[from] StatsError),
    /// The launcher has no input set to launch on.
    #[error("there is no input set to launch on")]
    NoSets,
    /// A launch failed.
    #[error("launch {launch}: {source}")]
    Launch {
        /// Which launch, from 1, warm-up included.
        launch: usize,
        /// Why.
        source: LaunchError,
        /// What the samples before it say.
        partial: Option<Box<Measurement>>,
    },
    /// More than half of the durations cannot be durations: the time source is broken, and what is left of it is not to
    /// be trusted either.
    #[error(
        "{} of {launches} launches had a duration that cannot be one ({refused}; the last was {last_ns} ns): the time \
         source of this device does not work for this kernel; choose another one or leave the case out",
        refused.total()
    )]
    MostlyRefused {
        /// What was refused.
        refused: Refused,
        /// Launches in that stage.
        launches: usize,
        /// The last duration refused, ns.
        last_ns: f64,
        /// What the accepted samples say.
        partial: Option<Box<Measurement>>,
    },
}

impl MeasureError {
    /// What the samples taken before the failure say, when there were any.
    pub fn partial(&self) -> Option<&Measurement> {
        match self {
            Self::Launch { partial, .. } | Self::MostlyRefused { partial, .. } => partial.as_deref(),
            Self::Protocol(_) | Self::NoSets => None,
        }
    }
}
