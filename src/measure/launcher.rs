//! What the protocol asks of a device.

use serde::{Deserialize, Serialize};

/// Why a launch gave no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The launch was refused or ended in an error; the device's own words.
    #[error("the launch failed: {0}")]
    Failed(String),
    /// The launch did not end in the time allowed to it.
    #[error("the launch did not end within {} ms", after_ns / 1_000_000)]
    Hung {
        /// The time allowed, ns.
        after_ns: u64,
    },
}

/// Where a duration comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeSource {
    /// The host's clock around a call that returns when the work is done.
    HostClock,
    /// Begin and end of the dispatch as the device stamps them: the kernel alone.
    Dispatch,
    /// Batches of launches back to back, and the slope of their time over their number: the kernel and the gap to the next.
    Graph,
    /// Events around one launch: the kernel and what two events cost.
    Event,
    /// The clock of an emulated device, which follows a script: no measurement.
    Scripted,
}

impl TimeSource {
    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            TimeSource::HostClock => "host_clock",
            TimeSource::Dispatch => "dispatch",
            TimeSource::Graph => "graph",
            TimeSource::Event => "event",
            TimeSource::Scripted => "scripted",
        }
    }
}

/// Launches back to back without a pause, timed as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Launches, at least 1.
    pub launches: usize,
    /// Input set of the first launch.
    pub first_set: usize,
    /// Whether each launch takes the next input set (cold) or all take the first (warm).
    pub rotate: bool,
}

impl Batch {
    /// The input set of launch `index` (from 0) of this batch, of `sets` that there are.
    pub fn set_of(&self, index: usize, sets: usize) -> usize {
        let ahead = if self.rotate { index } else { 0 };
        (self.first_set + ahead) % sets.max(1)
    }
}

/// One kernel with its inputs on one device, ready to be launched again and again.
///
/// The device times each launch by its own means (dispatch timestamps, events, the host clock around a reference) and
/// waits until it has ended.
pub trait Launcher {
    /// Launches once on input set `set` (below [`Launcher::sets`]) and returns its duration in ns. The value is
    /// returned as the device gives it: the protocol refuses and counts what cannot be a duration.
    ///
    /// # Errors
    /// When there is no duration to return. The protocol then ends the case and keeps the samples so far.
    fn launch(&mut self, set: usize) -> Result<f64, LaunchError>;

    /// How many input sets there are to rotate through, at least 1.
    fn sets(&self) -> usize;

    /// True when the device has used every input set's memory while it filled them (pages mapped, translations warm), so
    /// that a first launch on a set costs nothing extra. Otherwise the warm-up launches once on each.
    fn sets_touched(&self) -> bool {
        false
    }

    /// The session clock, ns from any origin: for budgets and for the length of the warm-up, not for durations.
    fn now_ns(&self) -> u64;

    /// Where the durations of [`Launcher::launch`] come from.
    fn source(&self) -> TimeSource {
        TimeSource::HostClock
    }

    /// The core clock during the last launch in MHz, where the device can tell (the protocol passes over what cannot be
    /// a clock).
    fn clock_mhz(&mut self) -> Option<f64> {
        None
    }

    /// Launches a batch back to back (in a graph, where the device has them) between two events and returns the ns between
    /// the events; `None` when the device cannot, and the protocol does not ask again.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    fn batch(&mut self, _batch: Batch) -> Option<Result<f64, LaunchError>> {
        None
    }

    /// Launches once between two plain events and returns the ns between them, where that is another time source than that of
    /// [`Launcher::launch`]; `None` when the device cannot.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    fn event(&mut self, _set: usize) -> Option<Result<f64, LaunchError>> {
        None
    }

    /// The step of the device's duration clock, ns. Intervals narrower than this mean nothing.
    fn resolution_ns(&self) -> f64 {
        1.0
    }
}
