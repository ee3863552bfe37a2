//! What the protocol asks of a device.

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

    /// The step of the device's duration clock, ns. Intervals narrower than this mean nothing.
    fn resolution_ns(&self) -> f64 {
        1.0
    }
}
