//! Two builds in turn: blocks of four launches, ABBA or BAAB by seed, until the verdict is safe or the budget ends.
//!
//! What disturbs both alike (clocks, heat, other work) cancels inside a block; the statistics are `kbench-stats`'
//! ([`PairedSession`]).

use super::measurement::Refused;
use super::{Cache, LaunchError, Launcher, Progress, TimeSource};
use kbench_stats::{Arm, Block, PairedSession, Rule, Schedule, StatsError};

/// Blocks beyond this many tell nothing new: the interval is below a thousandth of the noise.
const MOST_BLOCKS: usize = 50_000;
/// Part of the budget that the warm-up may take.
const WARMUP_SHARE: f64 = 0.2;
/// Time between two notices, ns.
const NOTICE_NS: u64 = 200_000_000;
/// Blocks in a row without four durations after which a pair is given up.
const MOST_REFUSED: usize = 100;

/// How a pair is measured.
#[derive(Clone, Copy, Debug)]
pub struct PairProtocol {
    /// Cache state before each launch.
    pub cache: Cache,
    /// What counts as a change.
    pub rule: Rule,
    /// Cases whose changes are corrected together: sampling goes on until a change would be one among so many.
    pub cases: u32,
    /// Seed of the order of launches and of the bootstrap.
    pub seed: u64,
    /// Shortest warm-up of both in turn, ns of the session clock; a fifth of the budget at most.
    pub warmup_ns: u64,
    /// Session time for everything, ns. One block is taken whatever the budget.
    pub budget_ns: u64,
}

/// The blocks of a pair.
#[derive(Clone, Debug, PartialEq)]
pub struct PairMeasurement {
    /// Durations, ns.
    pub times: Vec<Block>,
    /// The same in thousands of core cycles, where every launch had a clock.
    pub cycles: Option<Vec<Block>>,
    /// Where durations come from.
    pub source: TimeSource,
    /// Launches of the warm-up.
    pub warmup_launches: usize,
    /// Durations that were refused as impossible; their blocks were taken again.
    pub refused: usize,
    /// Session time, ns.
    pub elapsed_ns: u64,
}

/// Why a pair could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A launch.
    #[error("{0}")]
    Launch(#[from] LaunchError),
    /// Numbers that are none.
    #[error("{0}")]
    Stats(#[from] StatsError),
    /// The device's durations cannot be durations.
    #[error("{refused} durations in a row could not be durations: the device's clock cannot be used")]
    Refused {
        /// How many were refused.
        refused: usize,
    },
}

/// Both builds. They share their input sets, so that where data lie cannot look like a difference of the builds; each launch
/// takes the next set, whichever build it is of.
struct Sides<'a> {
    base: &'a mut dyn Launcher,
    candidate: &'a mut dyn Launcher,
    next: usize,
    rotate: bool,
}

impl Sides<'_> {
    fn launch(&mut self, arm: Arm) -> Result<(f64, Option<f64>), LaunchError> {
        let launcher = match arm {
            Arm::Base => &mut *self.base,
            Arm::Candidate => &mut *self.candidate,
        };
        let set = self.next % launcher.sets().max(1);
        if self.rotate {
            self.next = self.next.wrapping_add(1);
        }
        let ns = launcher.launch(set)?;
        Ok((ns, launcher.clock_mhz()))
    }

    /// The session clock since `begin`, ns.
    fn since(&self, begin: u64) -> u64 {
        self.base.now_ns().saturating_sub(begin)
    }
}

/// Measures base and candidate in turn. `progress` is told of blocks and the base's last duration, a few times a second.
///
/// # Errors
/// When a launch fails, or durations are none again and again.
pub fn measure_pair(
    base: &mut dyn Launcher,
    candidate: &mut dyn Launcher,
    protocol: &PairProtocol,
    progress: &mut dyn FnMut(Progress),
) -> Result<PairMeasurement, PairError> {
    let rotate = protocol.cache == Cache::Cold;
    let source = base.source();
    let begin = base.now_ns();
    let mut sides = Sides { base, candidate, next: 0, rotate };
    let warmup_launches = warm_up(&mut sides, protocol, begin)?;
    let mut session = PairedSession::new(protocol.rule, protocol.seed)?.among(protocol.cases);
    let mut refused = Refused::default();
    let (mut cycles, mut in_a_row, mut told) = (Some(Vec::new()), 0, 0);
    for order in Schedule::new(protocol.seed) {
        let Some((times, clocks)) = block(&mut sides, order.arms(), &mut refused)? else {
            in_a_row += 1;
            if in_a_row >= MOST_REFUSED {
                return Err(PairError::Refused { refused: refused.total() });
            }
            continue;
        };
        in_a_row = 0;
        match (&mut cycles, clocks) {
            (Some(list), Some(block)) => list.push(block),
            _ => cycles = None,
        }
        let safe = session.push(times, clocks)?;
        let blocks = session.blocks().len();
        let elapsed_ns = sides.since(begin);
        if elapsed_ns >= told + NOTICE_NS {
            told = elapsed_ns;
            let median_ns = times.base[0];
            progress(Progress::Sampling { samples: blocks, median_ns, relative_half_width: None, elapsed_ns });
        }
        let over = elapsed_ns >= protocol.budget_ns;
        if safe.is_some() || over || blocks >= MOST_BLOCKS {
            break;
        }
    }
    let elapsed_ns = sides.since(begin);
    let times = session.blocks().to_vec();
    Ok(PairMeasurement { times, cycles, source, warmup_launches, refused: refused.total(), elapsed_ns })
}

/// Launches both in turn until the clocks have had time to come up.
fn warm_up(sides: &mut Sides<'_>, protocol: &PairProtocol, begin: u64) -> Result<usize, LaunchError> {
    let limit = protocol.warmup_ns.min((protocol.budget_ns as f64 * WARMUP_SHARE) as u64);
    let mut launches = 0;
    loop {
        sides.launch(Arm::Base)?;
        sides.launch(Arm::Candidate)?;
        launches += 2;
        if sides.since(begin) >= limit {
            return Ok(launches);
        }
    }
}

/// Four launches; `None` when one of the durations cannot be one. The cycles are there when every launch had a clock.
fn block(
    sides: &mut Sides<'_>,
    arms: [Arm; 4],
    refused: &mut Refused,
) -> Result<Option<(Block, Option<Block>)>, LaunchError> {
    let empty = Block { base: [0.0; 2], candidate: [0.0; 2] };
    let (mut times, mut cycles) = (empty, Some(empty));
    let (mut taken, mut usable) = ([0, 0], true);
    for arm in arms {
        let index = usize::from(arm == Arm::Candidate);
        let (ns, mhz) = sides.launch(arm)?;
        usable &= refused.accepts(ns);
        let place = taken[index];
        taken[index] += 1;
        let put = |block: &mut Block, value: f64| match arm {
            Arm::Base => block.base[place] = value,
            Arm::Candidate => block.candidate[place] = value,
        };
        put(&mut times, ns);
        match (&mut cycles, mhz.filter(|mhz| *mhz > 0.0 && mhz.is_finite())) {
            // ns x MHz are thousandths of a cycle.
            (Some(block), Some(mhz)) => put(block, ns * mhz / 1e6),
            _ => cycles = None,
        }
    }
    Ok(usable.then_some((times, cycles)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::scripted::ScriptedLauncher;
    use kbench_stats::{Probability, Verdict};
    use std::cell::Cell;
    use std::rc::Rc;

    fn rule() -> Rule {
        Rule::new(0.01, 0.0, Probability::new(0.05).unwrap()).unwrap()
    }

    fn protocol() -> PairProtocol {
        PairProtocol { cache: Cache::Warm, rule: rule(), cases: 1, seed: 7, warmup_ns: 0, budget_ns: 2_000_000_000 }
    }

    /// A pair on one drifting clock: durations of `base_ns` and `candidate_ns` times a slow drift and a little noise.
    fn pair(base_ns: f64, candidate_ns: f64) -> (ScriptedLauncher, ScriptedLauncher) {
        let at = Rc::new(Cell::new(0_u64));
        let launcher = |ns: f64, at: Rc<Cell<u64>>| {
            ScriptedLauncher::of(1, move |_| {
                at.set(at.get() + 1);
                let index = at.get();
                // A drift of 20 % over a thousand launches, and a repeating wobble of half a percent.
                ns * (1.0 + 0.0002 * index as f64) * (1.0 + 0.005 * ((index * 37 % 101) as f64 / 50.0 - 1.0))
            })
        };
        (launcher(base_ns, Rc::clone(&at)), launcher(candidate_ns, at))
    }

    fn verdict(found: &PairMeasurement) -> Verdict {
        let mut session = PairedSession::new(rule(), 7).unwrap();
        let safe = found.times.iter().find_map(|block| session.push(*block, None).unwrap());
        safe.unwrap_or_else(|| session.finish().unwrap()).verdict
    }

    #[test]
    fn a_change_is_found_under_a_drift_that_is_larger() {
        for (candidate_ns, wanted) in [(97_000.0, Verdict::Faster), (103_000.0, Verdict::Slower)] {
            let (mut base, mut candidate) = pair(100_000.0, candidate_ns);
            let found = measure_pair(&mut base, &mut candidate, &protocol(), &mut |_| ()).unwrap();
            assert_eq!(verdict(&found), wanted);
            assert!(found.times.len() < 1000, "it stops when the verdict is safe: {}", found.times.len());
        }
    }

    #[test]
    fn equal_builds_are_the_same() {
        let (mut base, mut candidate) = pair(100_000.0, 100_000.0);
        let found = measure_pair(&mut base, &mut candidate, &protocol(), &mut |_| ()).unwrap();
        assert_eq!(verdict(&found), Verdict::Same);
    }

    #[test]
    fn a_clock_without_durations_is_given_up() {
        let (mut base, mut candidate) = (ScriptedLauncher::of(1, |_| -1.0), ScriptedLauncher::of(1, |_| 5.0));
        let error = measure_pair(&mut base, &mut candidate, &protocol(), &mut |_| ()).unwrap_err();
        assert!(matches!(error, PairError::Refused { refused: 200 }), "{error}");
    }

    #[test]
    fn cold_sets_take_turns_over_both_builds() {
        let (mut base, mut candidate) = (ScriptedLauncher::of(5, |_| 100.0), ScriptedLauncher::of(5, |_| 100.0));
        let protocol = PairProtocol { cache: Cache::Cold, budget_ns: 1, ..protocol() };
        measure_pair(&mut base, &mut candidate, &protocol, &mut |_| ()).unwrap();
        let mut all: Vec<usize> = base.log.iter().chain(&candidate.log).copied().collect();
        all.sort_unstable();
        // A warm-up of two and one block of four: sets 0 to 4, and 0 again.
        assert_eq!(all, [0, 0, 1, 2, 3, 4]);
        assert!(base.log.len() == 3 && candidate.log.len() == 3);
    }
}
