//! A launcher on virtual time whose durations follow a script.

use std::{cell::Cell, rc::Rc};

use super::{Batch, LaunchError, Launcher, TimeSource};

/// What a script is told about a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scripted {
    /// Which launch, from 0.
    pub(crate) index: usize,
    /// Virtual time at its start, ns.
    pub(crate) now_ns: u64,
}

/// Clock readings in MHz.
pub(crate) type ClockScript = Box<dyn FnMut(Scripted) -> Option<f64>>;

/// Times of batches in ns.
pub(crate) type BatchScript = Box<dyn FnMut(Batch) -> Result<f64, LaunchError>>;

/// A duration, or why there is none.
pub(crate) type Script = Box<dyn FnMut(Scripted) -> Result<f64, LaunchError>>;

/// Launches take the time that the script says, on a clock that nothing else moves (but [`ScriptedLauncher::clock`]).
pub(crate) struct ScriptedLauncher {
    script: Script,
    sets: usize,
    clock: Rc<Cell<u64>>,
    /// Time that passes with a launch whose duration is no duration, ns; and beside the duration with every launch.
    pub(crate) overhead_ns: u64,
    /// See [`Launcher::resolution_ns`].
    pub(crate) resolution_ns: f64,
    /// Where its durations come from.
    pub(crate) source: TimeSource,
    /// The core clock during the last launch; without it there is no reading.
    pub(crate) mhz: Option<ClockScript>,
    /// Batches; without it the device has none.
    pub(crate) batches: Option<BatchScript>,
    /// What a plain event adds to a launch, ns; without it the device has none.
    pub(crate) event_ns: Option<f64>,
    /// The set of every launch, in order; those of batches too.
    pub(crate) log: Vec<usize>,
}

impl ScriptedLauncher {
    pub(crate) fn new(sets: usize, script: impl FnMut(Scripted) -> Result<f64, LaunchError> + 'static) -> Self {
        let clock = Rc::new(Cell::new(1_000_000_007)); // an arbitrary origin
        Self {
            script: Box::new(script),
            sets,
            clock,
            overhead_ns: 1_000,
            resolution_ns: 1.0,
            source: TimeSource::HostClock,
            mhz: None,
            batches: None,
            event_ns: None,
            log: Vec::new(),
        }
    }

    /// A script that gives a duration to every launch.
    pub(crate) fn of(sets: usize, mut duration_ns: impl FnMut(Scripted) -> f64 + 'static) -> Self {
        Self::new(sets, move |launch| Ok(duration_ns(launch)))
    }

    /// The clock, for progress callbacks that take time.
    pub(crate) fn clock(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.clock)
    }
}

impl Launcher for ScriptedLauncher {
    fn launch(&mut self, set: usize) -> Result<f64, LaunchError> {
        let launch = Scripted { index: self.log.len(), now_ns: self.clock.get() };
        self.log.push(set);
        let duration = (self.script)(launch);
        // What is no duration takes no time beside the overhead.
        let spent = duration.as_ref().map_or(0, |ns| if (0.0..1e15).contains(ns) { *ns as u64 } else { 0 });
        self.clock.set(self.clock.get().saturating_add(spent).saturating_add(self.overhead_ns));
        duration
    }

    fn source(&self) -> TimeSource {
        self.source
    }

    fn clock_mhz(&mut self) -> Option<f64> {
        let launch = Scripted { index: self.log.len(), now_ns: self.clock.get() };
        self.mhz.as_mut()?(launch)
    }

    fn batch(&mut self, batch: Batch) -> Option<Result<f64, LaunchError>> {
        let time = self.batches.as_mut()?(batch);
        self.log.extend((0..batch.launches).map(|index| batch.set_of(index, self.sets)));
        let spent = time.as_ref().map_or(0, |ns| if (0.0..1e15).contains(ns) { *ns as u64 } else { 0 });
        self.clock.set(self.clock.get().saturating_add(spent));
        Some(time)
    }

    fn event(&mut self, set: usize) -> Option<Result<f64, LaunchError>> {
        let added = self.event_ns?;
        Some(self.launch(set).map(|ns| ns + added))
    }

    fn sets(&self) -> usize {
        self.sets
    }

    fn now_ns(&self) -> u64 {
        self.clock.get()
    }

    fn resolution_ns(&self) -> f64 {
        self.resolution_ns
    }
}
