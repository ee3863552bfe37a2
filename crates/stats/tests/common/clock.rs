//! A scripted device: launch times with noise, drift and bursts, on a clock that only they move.

use super::Source;
use kbench_stats::{Arm, Block, BlockOrder};

/// How a device behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    /// Time of a launch of the base without any disturbance, ns.
    pub(crate) launch_ns: f64,
    /// Candidate over base: what is to be found.
    pub(crate) ratio: f64,
    /// Coefficient of variation of one launch (log-normal).
    pub(crate) cv: f64,
    /// Relative slow-down from start to end of `drift_ns`, linear; then a saw-tooth.
    pub(crate) drift: f64,
    /// Length of the drift, ns.
    pub(crate) drift_ns: f64,
    /// Chance that a burst of slow launches begins at a launch, their number at most and their slow-down.
    pub(crate) bursts: (f64, usize, f64),
}

impl Behaviour {
    /// CV 1 %, 3 % of drift over a second, a burst of up to six launches that take 1.2 times as long at one launch in 100.
    pub(crate) fn noisy(launch_ns: f64, ratio: f64) -> Self {
        Self { launch_ns, ratio, cv: 0.01, drift: 0.03, drift_ns: 1e9, bursts: (0.01, 6, 0.2) }
    }
}

/// The device.
pub(crate) struct ScriptedClock {
    behaviour: Behaviour,
    source: Source,
    burst_left: usize,
    /// Device time spent, ns.
    pub(crate) now_ns: f64,
}

impl ScriptedClock {
    pub(crate) fn new(behaviour: Behaviour, seed: u64) -> Self {
        Self { behaviour, source: Source::new(seed), burst_left: 0, now_ns: 0.0 }
    }

    pub(crate) fn launch(&mut self, arm: Arm) -> f64 {
        let b = self.behaviour;
        let (chance, longest, slow_down) = b.bursts;
        if self.burst_left == 0 && self.source.uniform() < chance {
            self.burst_left = 1 + self.source.below(longest);
        }
        let mut ns = b.launch_ns * (b.cv * self.source.normal()).exp();
        ns *= 1.0 + b.drift * (self.now_ns / b.drift_ns).fract();
        if self.burst_left > 0 {
            self.burst_left -= 1;
            ns *= 1.0 + slow_down;
        }
        if arm == Arm::Candidate {
            ns *= b.ratio;
        }
        self.now_ns += ns;
        ns
    }

    pub(crate) fn block(&mut self, order: BlockOrder) -> Block {
        let (mut base, mut candidate) = (Vec::new(), Vec::new());
        for arm in order.arms() {
            let ns = self.launch(arm);
            if arm == Arm::Base { base.push(ns) } else { candidate.push(ns) }
        }
        Block { base: [base[0], base[1]], candidate: [candidate[0], candidate[1]] }
    }
}
