//! One case in two builds: prepare both, verify both, measure them in turn, verify both again.

use super::{Interruptible, Settings, Watch, beats, measuring_budget, nanoseconds, not_verified, status_of};
use crate::device::{Device, Floor, Kind, Means, Peaks, Prepared};
use crate::measure::{Cache, LaunchError, PairError, PairMeasurement, PairProtocol, TimeSource, measure_pair};
use crate::plan::Planned;
use crate::report::document::{BuildDoc, CaseResult, Status, VerifyDoc};
use crate::worker::message::Notice;
use kbench_stats::{Block, PairedSession, Probability, Rule, StatsError};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Warm-up of a pair, ns: on a GPU until clocks have come up (docs/protocol.md), on the host until caches and clocks have.
const GPU_WARMUP_NS: u64 = 400_000_000;
const HOST_WARMUP_NS: u64 = 50_000_000;

/// Why a side that was fine by itself has no result.
pub(crate) const OTHER_FAILED: &str = "the other build of the pair is not right";

/// What counts as a change, as settings carry it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairRule {
    /// Smallest relative change that matters.
    pub min_effect: f64,
    /// Relative change that equal builds show on this machine.
    pub noise_floor: f64,
    /// Error level.
    pub alpha: f64,
    /// Cases whose changes are corrected together; 1 without a correction.
    pub cases: u32,
}

/// The candidate's side of a case, and what was measured in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairResult {
    /// The candidate.
    pub candidate: CaseResult,
    /// The samples; absent where nothing is timed, or where it did not come to that.
    pub samples: Option<PairSamples>,
}

/// Blocks of four launches: base, base, candidate, candidate, each in the order of launch within its build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairSamples {
    /// ns.
    pub times: Vec<[f64; 4]>,
    /// Thousands of core cycles, where every launch had a clock.
    pub cycles: Option<Vec<[f64; 4]>>,
    /// The cache state that launches were in, which for small cases need not be the one asked for.
    pub cache: Cache,
    /// Where durations come from.
    pub source: TimeSource,
    /// Launches of the warm-up.
    pub warmup_launches: usize,
    /// Durations that were refused as impossible.
    pub refused: usize,
    /// Session time, ns.
    pub elapsed_ns: u64,
    /// Seed of the order of the blocks and of the resampling that decided when to stop.
    pub seed: u64,
}

impl PairRule {
    /// As the statistics take it.
    ///
    /// # Errors
    /// When a value is out of range.
    pub fn rule(&self) -> Result<Rule, StatsError> {
        Rule::new(self.min_effect, self.noise_floor, Probability::new(self.alpha)?)
    }

    /// The session that decides when sampling stops, and what the samples said then.
    ///
    /// # Errors
    /// As [`PairRule::rule`].
    pub fn session(&self, seed: u64) -> Result<PairedSession, StatsError> {
        Ok(PairedSession::new(self.rule()?, seed)?.among(self.cases))
    }
}

impl PairSamples {
    fn of(measured: PairMeasurement, cache: Cache, seed: u64) -> Self {
        let flat = |block: &Block| [block.base[0], block.base[1], block.candidate[0], block.candidate[1]];
        Self {
            times: measured.times.iter().map(flat).collect(),
            cycles: measured.cycles.map(|cycles| cycles.iter().map(flat).collect()),
            cache,
            source: measured.source,
            warmup_launches: measured.warmup_launches,
            refused: measured.refused,
            elapsed_ns: measured.elapsed_ns,
            seed,
        }
    }

    /// Medians of base and candidate over all launches, ns.
    pub fn medians(&self) -> [f64; 2] {
        [0, 2].map(|first| {
            let mut all: Vec<f64> = self.times.iter().flat_map(|block| [block[first], block[first + 1]]).collect();
            all.sort_by(f64::total_cmp);
            let (lower, upper) = (all.get(all.len().saturating_sub(1) / 2), all.get(all.len() / 2));
            lower.zip(upper).map_or(0.0, |(lower, upper)| f64::midpoint(*lower, *upper))
        })
    }

    /// The blocks of times, and of cycles.
    pub fn blocks(&self) -> (Vec<Block>, Option<Vec<Block>>) {
        let block = |[a, b, c, d]: &[f64; 4]| Block { base: [*a, *b], candidate: [*c, *d] };
        let cycles = self.cycles.as_ref().map(|cycles| cycles.iter().map(block).collect());
        (self.times.iter().map(block).collect(), cycles)
    }
}

/// Runs a case in both builds of the device. The first result is the base's; the pair is absent when it did not come to the
/// candidate.
pub fn run_pair(
    device: &mut dyn Device,
    planned: &Planned,
    peaks: &Peaks,
    settings: &Settings,
    asked: &PairRule,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
) -> (CaseResult, Option<PairResult>) {
    let begin = Instant::now();
    let kind = device.info().kind;
    let mut base = CaseResult::new(planned);
    let workload = match &planned.workload {
        Ok(workload) => workload.as_ref(),
        Err(reason) => return (base.ended(Status::Skipped, reason.clone()), None),
    };
    let work = workload.work();
    if let Some(floor) = peaks.floor(&work, settings.cache) {
        base.set_floor(&floor, &peaks.source);
    }
    base.work = Some(work);
    let mut candidate = base.clone();
    if settings.left.is_zero() {
        return (base.unfinished("the time budget is used up (--time-budget)"), None);
    }
    watch.notice(Notice::Prepare);
    let mut pair = match device.prepare_pair(workload, settings.cache, settings.seed) {
        Ok(pair) => pair,
        Err(error) => return (base.ended(status_of(&error), error.to_string()), None),
    };
    let mut results = [&mut base, &mut candidate];
    for (result, prepared) in results.iter_mut().zip(&pair) {
        let build = BuildDoc::from(prepared.build());
        result.build = Some(build.clone());
        if !watch.admits(&build) {
            return (base.ended(Status::Skipped, "its build is quarantined"), None);
        }
        watch.notice(Notice::Built(build));
    }
    let verify_begin = Instant::now();
    let right = verify(&mut results, &mut pair, settings.seed, &Notice::Verify, watch);
    let samples = if right {
        let verifying = verify_begin.elapsed();
        let protocol = asked.rule().map(|rule| PairProtocol {
            cache: settings.cache,
            rule,
            cases: asked.cases,
            seed: settings.seed,
            warmup_ns: if kind == Kind::Host { HOST_WARMUP_NS } else { GPU_WARMUP_NS },
            budget_ns: nanoseconds(measuring_budget(settings.budget, begin.elapsed(), verifying)),
        });
        match protocol {
            Ok(protocol) => timed(&mut results, &mut pair, &protocol, watch, stop),
            Err(error) => {
                end_both(&mut results, Status::Failed, &error.to_string());
                None
            }
        }
    } else {
        None
    };
    drop(pair);
    let samples = samples.filter(|samples| {
        let floor = base.work.as_ref().and_then(|work| peaks.floor(work, samples.cache));
        floor.is_none_or(|floor| are_possible(&mut [&mut base, &mut candidate], samples, &floor, &peaks.source))
    });
    (base, Some(PairResult { candidate, samples }))
}

/// Whether no side beats the floor of the cache state that was measured; the one that does then says so.
fn are_possible(results: &mut [&mut CaseResult; 2], samples: &PairSamples, floor: &Floor, source: &str) -> bool {
    let mut possible = true;
    for (result, median) in results.iter_mut().zip(samples.medians()) {
        result.set_floor(floor, source);
        if let Some(reason) = beats(median, floor) {
            end(result, Status::Failed, &reason);
            possible = false;
        }
    }
    if !possible {
        for result in results.iter_mut().filter(|result| result.status == Status::Ok) {
            end(result, Status::Skipped, OTHER_FAILED);
        }
    }
    possible
}

/// Checks the outputs of both; false when one is not right, which its result then says. Each build is told before it runs, so
/// that the one that ends the process is known. After one that failed the other does not run: the device may be lost, and
/// what it then says is not the other's doing.
fn verify(
    results: &mut [&mut CaseResult; 2],
    pair: &mut [Box<dyn Prepared + '_>; 2],
    seed: u64,
    stage: &Notice,
    watch: &mut dyn Watch,
) -> bool {
    let when = if *stage == Notice::Verify { "before timing" } else { "after timing" };
    let mut right = true;
    for (result, prepared) in results.iter_mut().zip(pair) {
        result.status = Status::Ok;
        watch.notice(Notice::Built(BuildDoc::from(prepared.build())));
        watch.notice(stage.clone());
        match prepared.verify(seed) {
            Ok(outputs) => {
                let round = VerifyDoc::new(&outputs);
                result.verify = match (result.verify.take(), round) {
                    (Some(before), Some(after)) => Some(before.and(after)),
                    (None, round) => round,
                    (Some(_), None) => None,
                };
                if let Some(reason) = not_verified(result, when) {
                    end(result, Status::Wrong, &reason);
                    right = false;
                }
            }
            Err(error) => {
                end(result, status_of(&error), &error.to_string());
                right = false;
                break;
            }
        }
    }
    // What was fine by itself is no result while the other is not.
    if !right {
        for result in results.iter_mut().filter(|result| matches!(result.status, Status::Ok | Status::Skipped)) {
            end(result, Status::Skipped, OTHER_FAILED);
        }
    }
    right
}

/// Measures both in turn and checks them again; on an emulated device takes what it says of each instead.
fn timed(
    results: &mut [&mut CaseResult; 2],
    pair: &mut [Box<dyn Prepared + '_>; 2],
    protocol: &PairProtocol,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
) -> Option<PairSamples> {
    let [one, other] = &mut *pair;
    // Both share their input sets: a state that one of them does not have, the pair has not.
    let cache = if one.cache().0 == other.cache().0 { one.cache().0 } else { Cache::Warm };
    let measured = match (one.means(), other.means()) {
        (Means::Emulated(base), Means::Emulated(candidate)) => {
            results[0].set_emulated(base);
            results[1].set_emulated(candidate);
            return None;
        }
        (Means::Timed(base), Means::Timed(candidate)) => {
            let (mut base, mut candidate) =
                (Interruptible { inner: base, stop }, Interruptible { inner: candidate, stop });
            measure_pair(&mut base, &mut candidate, protocol, &mut |progress| {
                watch.notice(Notice::Measure(progress));
            })
        }
        _ => {
            end_both(results, Status::Failed, "the device ran nothing");
            return None;
        }
    };
    let measured = match measured {
        Ok(measured) => measured,
        Err(_) if stop.load(Ordering::SeqCst) => {
            for result in results.iter_mut() {
                end(result, Status::Skipped, "interrupted while it was measured");
                result.unfinished = true;
            }
            return None;
        }
        Err(error) => {
            let hung = matches!(error, PairError::Launch(LaunchError::Hung { .. }));
            end_both(results, if hung { Status::Hung } else { Status::Failed }, &error.to_string());
            return None;
        }
    };
    verify(results, pair, protocol.seed.wrapping_add(1), &Notice::VerifyAgain, watch)
        .then(|| PairSamples::of(measured, cache, protocol.seed))
}

fn end(result: &mut CaseResult, status: Status, reason: &str) {
    result.status = status;
    result.reason = Some(reason.to_owned());
}

fn end_both(results: &mut [&mut CaseResult; 2], status: Status, reason: &str) {
    for result in results {
        end(result, status, reason);
    }
}
