//! A launcher on virtual time whose durations follow a script.

use std::{cell::Cell, rc::Rc};

use super::{LaunchError, Launcher};

/// What a script is told about a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scripted {
    /// Which launch, from 0.
    pub(crate) index: usize,
    /// Virtual time at its start, ns.
    pub(crate) now_ns: u64,
}

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
    /// The set of every launch, in order.
    pub(crate) log: Vec<usize>,
}

impl ScriptedLauncher {
    pub(crate) fn new(sets: usize, script: impl FnMut(Scripted) -> Result<f64, LaunchError> + 'static) -> Self {
        let clock = Rc::new(Cell::new(1_000_000_007)); // an arbitrary origin
        Self { script: Box::new(script), sets, clock, overhead_ns: 1_000, resolution_ns: 1.0, log: Vec::new() }
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
