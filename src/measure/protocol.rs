//! Settings of the protocol and their defaults.

use kbench_stats::{LookSchedule, PrecisionRule, StatsError, SteadyRule, SteadyState};
use serde::{Deserialize, Serialize};

/// Looks are at `min_samples` and then each this much further: some 30 looks from 10 to 5000 samples.
const LOOK_RATIO: f64 = 1.25;

/// Looks in a row that must meet the precision.
const LOOKS_IN_A_ROW: u32 = 2;

/// Samples of one case are held in memory and resampled.
const MOST_SAMPLES: usize = 1_000_000;

/// Cache state before each launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Each launch uses the next input set, round-robin; the sets together exceed the last-level cache, so the inputs of a
    /// launch have been evicted since they were last used.
    Cold,
    /// Every launch uses set 0, which stays in whatever caches hold it.
    Warm,
}

impl Cache {
    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Cache::Cold => "cold",
            Cache::Warm => "warm",
        }
    }
}

/// When the warm-up is over: after at least `min_launches` launches (and one on every input set when cold) and `min_ns`,
/// as soon as the launch time (and the core clock, where the device gives readings) is steady, and at the latest after `cap_ns` or a quarter of the budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmupRule {
    /// Fewest launches, and fewest to judge steadiness by: 3..=512.
    pub min_launches: usize,
    /// Shortest warm-up, ns of the session clock.
    pub min_ns: u64,
    /// Longest warm-up, ns of the session clock. A launch under way is not interrupted.
    pub cap_ns: u64,
    /// Trailing window in which the launch time must not change, ns of the session clock.
    pub window_ns: u64,
    /// Largest change over the window that is steady, relative to the median in it.
    pub tolerance: f64,
}

/// How one case is measured. `docs/protocol.md` says why each default is what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Protocol {
    /// The warm-up.
    pub warmup: WarmupRule,
    /// Cache state before each launch.
    pub cache: Cache,
    /// Relative half-width of the 95 % interval of the median at which sampling stops (0.005 is ±0.5 %).
    pub precision: f64,
    /// Fewest samples before the first look; only the budget and failures end sampling earlier.
    pub min_samples: usize,
    /// Most samples, at least `min_samples` and at most a million.
    pub max_samples: usize,
    /// Session time for warm-up and samples together, ns. One sample is taken whatever the budget.
    pub budget_ns: u64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Protocol {
    /// Defaults for kernels on the host's CPU: clocks ramp within tens of milliseconds, and a case gets 5 s.
    pub fn host() -> Self {
        let warmup = WarmupRule {
            min_launches: 5,
            min_ns: 50_000_000,
            cap_ns: 1_000_000_000,
            window_ns: 50_000_000,
            tolerance: 0.005,
        };
        Self {
            warmup,
            cache: Cache::Cold,
            precision: 0.005,
            min_samples: 10,
            max_samples: 5_000,
            budget_ns: 5_000_000_000,
            seed: 0,
        }
    }

    /// Defaults for GPUs: an MI300X takes 400 ms or more to ramp its clocks, and some settle only after seconds.
    pub fn gpu() -> Self {
        let warmup = WarmupRule {
            min_launches: 5,
            min_ns: 400_000_000,
            cap_ns: 3_000_000_000,
            window_ns: 200_000_000,
            tolerance: 0.01,
        };
        Self { warmup, min_samples: 20, budget_ns: 15_000_000_000, ..Self::host() }
    }

    /// Checks the settings and makes the deciders that they describe.
    pub(super) fn deciders(&self) -> Result<Deciders, StatsError> {
        if self.max_samples < self.min_samples {
            let value = self.max_samples as f64;
            return Err(StatsError::Parameter {
                name: "max_samples",
                value,
                reason: "it must not be below min_samples",
            });
        }
        if self.max_samples > MOST_SAMPLES {
            let value = self.max_samples as f64;
            return Err(StatsError::Parameter { name: "max_samples", value, reason: "it must be at most 1000000" });
        }
        let steady = SteadyState::new(SteadyRule {
            window: self.warmup.window_ns as f64,
            min_points: self.warmup.min_launches,
            tolerance: self.warmup.tolerance,
        })?;
        let looks = LookSchedule::new(self.min_samples, LOOK_RATIO)?;
        let precision = PrecisionRule::new(self.precision, LOOKS_IN_A_ROW)?;
        Ok(Deciders { steady_clock: steady.clone(), steady, looks, precision })
    }
}

/// What decides when a stage is over.
pub(super) struct Deciders {
    pub(super) steady: SteadyState,
    /// The same rule for the core clock.
    pub(super) steady_clock: SteadyState,
    pub(super) looks: LookSchedule,
    pub(super) precision: PrecisionRule,
}
