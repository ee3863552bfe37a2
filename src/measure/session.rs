//! The protocol in action: warm up, sample, stop.

use kbench_stats::{LookSchedule, PrecisionRule, Sample, Steadiness, SteadyState};
use serde::{Deserialize, Serialize};

use super::{
    Cache, Clock, Ended, LaunchError, Launcher, MeasureError, Measurement, Protocol, Refused, Stopped, Warmup,
    clock::{WarmClock, believed},
    estimate::Estimate,
    ladder::ladder,
    measurement::Circumstances,
    protocol::Deciders,
    sources,
};

/// The warm-up gets at most this share of the budget: one in so many.
const WARMUP_SHARE: u64 = 4;

/// Other time sources get this share of the budget, beyond it: one in so many.
const SOURCES_SHARE: u64 = 10;

/// A warm-up ends after this many launches even when the session clock does not move.
const MOST_WARMUP_LAUNCHES: usize = 1_000_000;

/// Steadiness is judged this often a window.
const JUDGED_PER_WINDOW: u64 = 4;

/// Refusals are judged from this many launches on; before, a first odd one would end the case.
const ENOUGH_TO_JUDGE: usize = 16;

/// A pause longer than this share of the median is followed by a launch that is not recorded.
const NOTICEABLE_PAUSE: f64 = 0.1;

/// Where a measurement stands, for a progress display. Sent a few times a second at most, never between two samples
/// that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Progress {
    /// Warming up.
    Warmup {
        /// Launches so far.
        launches: usize,
        /// Session time so far, ns.
        elapsed_ns: u64,
    },
    /// Taking samples.
    Sampling {
        /// Samples so far.
        samples: usize,
        /// Their median, ns.
        median_ns: f64,
        /// Relative half-width of the interval so far.
        relative_half_width: Option<f64>,
        /// Session time so far, ns, warm-up included.
        elapsed_ns: u64,
    },
}

/// Measures one case: warm-up, then samples until the interval of the median is narrow enough, the budget is spent or
/// there are `max_samples`. The same durations and the same protocol give the same measurement.
///
/// # Errors
/// [`MeasureError`]: settings out of range, no input set, a launch that fails, or more than half of the durations
/// refused. Samples taken before a failure are in the error.
pub fn measure(
    launcher: &mut dyn Launcher,
    protocol: &Protocol,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, MeasureError> {
    let Deciders { steady, steady_clock, looks, precision } = protocol.deciders()?;
    if launcher.sets() == 0 {
        return Err(MeasureError::NoSets);
    }
    let mut session = Session::new(launcher, protocol, progress);
    session.warm_up(steady, steady_clock)?;
    let stopped = session.take_samples(looks, precision)?;
    if session.mostly_refused(&session.refused, session.samples.len(), 1) {
        return Err(session.refuse(session.refused, session.samples.len()));
    }
    let mut measurement = session.analyse(stopped)?;
    session.compare_sources(&mut measurement)?;
    Ok(measurement)
}

struct Session<'a> {
    launcher: &'a mut dyn Launcher,
    protocol: &'a Protocol,
    progress: &'a mut dyn FnMut(Progress),
    sets: usize,
    started_ns: u64,
    /// Latest reading of the session clock since the start; never goes back.
    elapsed_ns: u64,
    launches: usize,
    samples: Vec<f64>,
    /// The core clock beside each sample.
    clocks: Vec<Option<f64>>,
    /// The core clock at the end of the warm-up, MHz.
    warm_mhz: Option<f64>,
    warmup: Warmup,
    /// Refused while sampling.
    refused: Refused,
    last_refused_ns: f64,
    unrecorded: usize,
}

impl<'a> Session<'a> {
    fn new(launcher: &'a mut dyn Launcher, protocol: &'a Protocol, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            sets: launcher.sets(),
            started_ns: launcher.now_ns(),
            launcher,
            protocol,
            progress,
            elapsed_ns: 0,
            launches: 0,
            samples: Vec::with_capacity(protocol.max_samples.min(1 << 16)),
            clocks: Vec::with_capacity(protocol.max_samples.min(1 << 16)),
            warm_mhz: None,
            warmup: Warmup { launches: 0, ns: 0, ended: Ended::Cap, change: None, refused: Refused::default() },
            refused: Refused::default(),
            last_refused_ns: 0.0,
            unrecorded: 0,
        }
    }

    fn tick(&mut self) -> u64 {
        self.elapsed_ns = self.elapsed_ns.max(self.launcher.now_ns().saturating_sub(self.started_ns));
        self.elapsed_ns
    }

    /// Launches on the next input set; the duration as the device gives it.
    fn launch(&mut self) -> Result<f64, MeasureError> {
        let set = match self.protocol.cache {
            Cache::Cold => self.launches % self.sets,
            Cache::Warm => 0,
        };
        self.launches += 1;
        let duration = self.launcher.launch(set);
        self.tick();
        duration.map_err(|source| self.fail(source))
    }

    fn warm_up(&mut self, mut steady: SteadyState, mut steady_clock: SteadyState) -> Result<(), MeasureError> {
        let rule = &self.protocol.warmup;
        let share_ns = self.protocol.budget_ns / WARMUP_SHARE;
        let limit_ns = rule.cap_ns.min(share_ns);
        let at_limit = if share_ns < rule.cap_ns { Ended::Budget } else { Ended::Cap };
        let least_launches = match self.protocol.cache {
            Cache::Cold if !self.launcher.sets_touched() => rule.min_launches.max(self.sets),
            Cache::Cold | Cache::Warm => rule.min_launches,
        };
        let judge_every_ns = rule.window_ns / JUDGED_PER_WINDOW;
        let mut judge_at_ns = rule.min_ns;
        let mut warm_clock = WarmClock::default();
        loop {
            let ns = self.launch()?;
            if self.warmup.refused.accepts(ns) {
                steady.push(self.elapsed_ns as f64, ns)?;
            } else {
                self.last_refused_ns = ns;
            }
            if let Some(mhz) = believed(self.launcher.clock_mhz()) {
                steady_clock.push(self.elapsed_ns as f64, mhz)?;
                warm_clock.push(self.elapsed_ns, mhz, rule.window_ns);
            }
            self.warmup.launches = self.launches;
            self.warmup.ns = self.elapsed_ns;
            let accepted = self.launches - self.warmup.refused.total();
            if self.mostly_refused(&self.warmup.refused, accepted, ENOUGH_TO_JUDGE) {
                return Err(self.refuse(self.warmup.refused, accepted));
            }

            let limit = if self.elapsed_ns >= limit_ns {
                Some(at_limit)
            } else {
                (self.launches >= MOST_WARMUP_LAUNCHES).then_some(Ended::LaunchCap)
            };
            let judge = self.launches >= least_launches && self.elapsed_ns >= judge_at_ns;
            if !judge && limit.is_none() {
                continue;
            }
            let steadiness = steady.assess();
            self.warmup.change = match steadiness {
                Steadiness::TooEarly => None,
                Steadiness::Changing(change) | Steadiness::Steady(change) => {
                    judge_at_ns = self.elapsed_ns.saturating_add(judge_every_ns);
                    Some(change)
                }
            };
            let long_enough = self.launches >= least_launches && self.elapsed_ns >= rule.min_ns;
            // Without readings enough to judge by, the clock has no say.
            let clock_changes = matches!(steady_clock.assess(), Steadiness::Changing(_));
            let is_steady = matches!(steadiness, Steadiness::Steady(_)) && long_enough && !clock_changes;
            if let Some(ended) = if is_steady { Some(Ended::Steady) } else { limit } {
                self.warmup.ended = ended;
                self.warm_mhz = warm_clock.median();
                return self.settle(self.elapsed_ns, ns);
            }
            if self.warmup.change.is_some() {
                (self.progress)(Progress::Warmup { launches: self.launches, elapsed_ns: self.elapsed_ns });
            }
        }
    }

    fn take_samples(&mut self, looks: LookSchedule, mut precision: PrecisionRule) -> Result<Stopped, MeasureError> {
        let mut next_look = looks.first();
        let mut typical_ns = 0;
        let mut attempts = 0_u64;
        loop {
            if attempts > 0 && self.elapsed_ns.saturating_add(typical_ns) > self.protocol.budget_ns {
                return Ok(Stopped::Budget);
            }
            if self.samples.len() >= self.protocol.max_samples {
                return Ok(Stopped::MaxSamples);
            }
            let ns = self.launch()?;
            attempts += 1;
            typical_ns = (self.elapsed_ns - self.warmup.ns) / attempts;
            if !self.refused.accepts(ns) {
                self.last_refused_ns = ns;
                if self.mostly_refused(&self.refused, self.samples.len(), ENOUGH_TO_JUDGE) {
                    return Err(self.refuse(self.refused, self.samples.len()));
                }
                continue;
            }
            self.samples.push(ns);
            self.clocks.push(believed(self.launcher.clock_mhz()));
            if self.samples.len() >= next_look {
                next_look = looks.after(self.samples.len());
                if self.look(&mut precision)? {
                    return Ok(Stopped::Precision);
                }
            }
        }
    }

    /// Looks at the samples so far; true when they suffice.
    fn look(&mut self, precision: &mut PrecisionRule) -> Result<bool, MeasureError> {
        let before_ns = self.tick();
        let sample = Sample::positive(&self.samples)?;
        let estimate = Estimate::for_look(&sample, self.protocol.seed, precision.target())?;
        let relative_half_width = estimate.relative_half_width();
        let enough = precision.look(relative_half_width);
        (self.progress)(Progress::Sampling {
            samples: self.samples.len(),
            median_ns: estimate.median,
            relative_half_width,
            elapsed_ns: before_ns,
        });
        if !enough && self.samples.len() < self.protocol.max_samples {
            self.settle(before_ns, estimate.median)?;
        }
        Ok(enough)
    }

    /// Ends a pause that began at `since_ns`. Clocks fall and caches are overwritten in a pause, so a launch that is not
    /// recorded follows it, unless the pause was short beside a launch (`launch_ns`) or the budget is spent.
    fn settle(&mut self, since_ns: u64, launch_ns: f64) -> Result<(), MeasureError> {
        let pause_ns = self.tick() - since_ns;
        if pause_ns as f64 > NOTICEABLE_PAUSE * launch_ns && self.elapsed_ns < self.protocol.budget_ns {
            self.launch()?;
            self.unrecorded += 1;
        }
        Ok(())
    }

    /// Whether more than half of the launches of a stage were refused, once there are enough to say so.
    fn mostly_refused(&self, refused: &Refused, accepted: usize, enough: usize) -> bool {
        refused.total() > accepted && refused.total() + accepted >= enough
    }

    fn refuse(&mut self, refused: Refused, accepted: usize) -> MeasureError {
        MeasureError::MostlyRefused {
            refused,
            launches: refused.total() + accepted,
            last_ns: self.last_refused_ns,
            partial: self.partial(),
        }
    }

    fn fail(&mut self, source: LaunchError) -> MeasureError {
        MeasureError::Launch { launch: self.launches, source, partial: self.partial() }
    }

    /// What there is when the session fails; nothing when it fails before the first sample.
    fn partial(&mut self) -> Option<Box<Measurement>> {
        if self.samples.is_empty() { None } else { self.analyse(Stopped::Failed).ok().map(Box::new) }
    }

    /// Holds the time of the samples against other sources, where the device has them.
    fn compare_sources(&mut self, measurement: &mut Measurement) -> Result<(), MeasureError> {
        let share_ns = self.protocol.budget_ns / SOURCES_SHARE;
        let others =
            sources::others(self.launcher, self.protocol.cache, measurement.median_ns, share_ns).map_err(|source| {
                MeasureError::Launch { launch: self.launches + 1, source, partial: Some(Box::new(measurement.clone())) }
            })?;
        measurement.batched = others.launches;
        measurement.elapsed_ns = self.tick();
        let mut readings = others.readings;
        let found = if readings.is_empty() {
            None
        } else {
            readings.insert(0, measurement.sampled());
            ladder(readings)
        };
        measurement.set_ladder(found, others.no_slope);
        Ok(())
    }

    fn analyse(&mut self, stopped: Stopped) -> Result<Measurement, kbench_stats::StatsError> {
        let facts = Circumstances {
            sets: self.sets,
            sets_touched: self.launcher.sets_touched(),
            resolution_ns: self.launcher.resolution_ns(),
            warmup: self.warmup,
            refused: self.refused,
            unrecorded: self.unrecorded,
            elapsed_ns: self.elapsed_ns,
            stopped,
            source: self.launcher.source(),
            clock: Clock::of(&self.clocks, self.warm_mhz)?,
        };
        Measurement::new(std::mem::take(&mut self.samples), self.protocol, &facts)
    }
}
