//! The measuring protocol: how many launches, in which order, and what is concluded from their durations.
//!
//! The device times each launch itself ([`Launcher`]); the protocol decides when the warm-up is over, which input set the
//! next launch uses, when the interval of the median is narrow enough, and what must be said about the samples. It touches
//! no clock of its own, so tests script time. `docs/protocol.md` describes it for users.

mod clock;
mod error;
mod estimate;
mod ladder;
mod launcher;
mod measurement;
mod pair;
mod protocol;
mod session;
mod sources;
mod warning;

#[cfg(test)]
mod gpu_tests;
#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;

pub use clock::Clock;
pub use error::MeasureError;
pub use ladder::{BATCH_SIZES, Disagreement, FEWEST_ROUNDS, Ladder, Overhead, Reading, Round, graph_slope, ladder};
pub use launcher::{Batch, LaunchError, Launcher, TimeSource};
pub use measurement::{Ended, Measurement, Refused, Stopped, Warmup};
pub use pair::{PairError, PairMeasurement, PairProtocol, measure_pair};
pub use protocol::{Cache, Protocol, WarmupRule};
pub use session::{Progress, measure};
pub use warning::Warning;
