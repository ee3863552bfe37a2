//! Reading a card in the background.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::telemetry::{Reading, Telemetry};
use crate::throttle::{ThrottleReason, ThrottleReasons};

/// Reads a card at an interval, in a thread of its own, and keeps the newest readings.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    stop: Condvar,
}

#[derive(Debug)]
struct Kept {
    readings: VecDeque<Reading>,
    capacity: usize,
    /// Readings that had to make place for newer ones.
    dropped: u64,
    stopping: bool,
}

/// Lowest, middle and highest of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Lowest.
    pub min: f64,
    /// Median: the mean of the two middle ones of an even number.
    pub median: f64,
    /// Highest.
    pub max: f64,
}

/// Readings between two moments.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// How many readings.
    pub readings: usize,
    /// Readings that were no longer kept, since the sampler began: if it is not 0, the begin may be missing.
    pub dropped: u64,
    /// Engine clock, MHz.
    pub engine_clock_mhz: Option<Range>,
    /// Memory clock, MHz.
    pub memory_clock_mhz: Option<Range>,
    /// Power, W.
    pub power_w: Option<Range>,
    /// Temperature of the hottest spot, °C.
    pub hotspot_c: Option<Range>,
    /// Temperature of the memory, °C.
    pub memory_c: Option<Range>,
    /// Share of time in which the shaders were busy, %.
    pub busy_percent: Option<Range>,
    /// Everything that held the GPU back at any time; `None` when the card does not tell.
    pub throttle: Option<ThrottleReasons>,
    /// Share of the readings that tell in which something held the GPU back.
    pub throttled_share: Option<f64>,
}

impl Sampler {
    /// Begins to read `telemetry` every `interval`, keeping the newest `capacity` readings (at least one). The first reading is taken before this returns.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(mut telemetry: Telemetry, interval: Duration, capacity: usize) -> io::Result<Self> {
        let first = telemetry.read();
        let kept = Kept { readings: VecDeque::from([first]), capacity: capacity.max(1), dropped: 0, stopping: false };
        let shared = Arc::new(Shared { kept: Mutex::new(kept), stop: Condvar::new() });
        let of_thread = Arc::clone(&shared);
        let thread =
            Builder::new().name("gpu-telemetry".into()).spawn(move || sample(&mut telemetry, interval, &of_thread))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What was read between two moments.
    #[must_use]
    pub fn summary(&self, from: Instant, to: Instant) -> Summary {
        let kept = self.shared.lock();
        let readings: Vec<Reading> =
            kept.readings.iter().filter(|reading| (from..=to).contains(&reading.at)).copied().collect();
        let dropped = kept.dropped;
        drop(kept);
        Summary { dropped, ..Summary::of(&readings) }
    }

    /// The newest reading.
    #[must_use]
    pub fn latest(&self) -> Option<Reading> {
        self.shared.lock().readings.back().copied()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.stop.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by it; here nothing more can be done.
            let _panicked = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread: waits, reads, keeps.
fn sample(telemetry: &mut Telemetry, interval: Duration, shared: &Shared) {
    loop {
        let waited = shared.stop.wait_timeout_while(shared.lock(), interval, |kept| !kept.stopping);
        let (kept, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if !timeout.timed_out() {
            return;
        }
        // Reading takes as long as the driver likes; nobody waits for it.
        drop(kept);
        let reading = telemetry.read();
        let mut kept = shared.lock();
        if kept.readings.len() >= kept.capacity {
            kept.readings.pop_front();
            kept.dropped += 1;
        }
        kept.readings.push_back(reading);
    }
}

impl Summary {
    /// Sums readings up.
    #[must_use]
    pub fn of(readings: &[Reading]) -> Self {
        let range = |figure: fn(&Reading) -> Option<f64>| Range::of(readings.iter().filter_map(figure).collect());
        let told: Vec<ThrottleReasons> = readings.iter().filter_map(|reading| reading.throttle).collect();
        let throttled = told.iter().filter(|reasons| !reasons.is_empty()).count();
        Self {
            readings: readings.len(),
            dropped: 0,
            engine_clock_mhz: range(|reading| reading.engine_clock_mhz.map(f64::from)),
            memory_clock_mhz: range(|reading| reading.memory_clock_mhz.map(f64::from)),
            power_w: range(|reading| reading.power_w),
            hotspot_c: range(|reading| reading.hotspot_c),
            memory_c: range(|reading| reading.memory_c),
            busy_percent: range(|reading| reading.busy_percent.map(f64::from)),
            throttle: (!told.is_empty()).then(|| told.iter().copied().fold(ThrottleReasons::NONE, ThrottleReasons::or)),
            throttled_share: (!told.is_empty()).then(|| throttled as f64 / told.len() as f64),
        }
    }

    /// The reasons by which the GPU was held back.
    pub fn reasons(&self) -> impl Iterator<Item = ThrottleReason> {
        self.throttle.unwrap_or_default().iter()
    }
}

impl Range {
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.retain(|figure| figure.is_finite());
        figures.sort_by(f64::total_cmp);
        let (&min, &max) = (figures.first()?, figures.last()?);
        let middle = figures.len() / 2;
        let upper = *figures.get(middle)?;
        let median = if figures.len() % 2 == 1 { upper } else { (figures.get(middle.checked_sub(1)?)? + upper) / 2.0 };
        Some(Self { min, median, max })
    }
}
