//! One case on a device: prepare, verify, measure, verify again, judge.

mod pair;

pub(crate) use pair::OTHER_FAILED;
pub use pair::{PairResult, PairRule, PairSamples, run_pair};

use crate::counters::{CaseFacts, Counting};
use crate::device::{Device, DeviceError, Floor, Kind, Means, Peaks, Prepared};
use crate::measure::{Batch, Cache, LaunchError, Launcher, MeasureError, Measurement, Protocol, TimeSource, measure};
use crate::plan::Planned;
use crate::report::document::{BuildDoc, CaseResult, Stages, Status, VerifyDoc, WarningDoc};
use crate::report::units;
use crate::worker::message::Notice;
use kbench_counters::metric::{self, Compulsory, Kind as CounterKind};
use kbench_workload::{Dtype, Work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A measured median this much below the floor is refused: the peaks themselves are measured, and no better than that.
const FLOOR_SLACK: f64 = 0.05;

/// Launches that a case needs at the very least: one to verify, one to warm up, one sample, one to verify again.
const FEWEST_LAUNCHES: f64 = 4.0;

/// How a case is run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Cache state asked for.
    pub cache: Cache,
    /// Seed of data.
    pub seed: u64,
    /// Wanted relative half-width of the interval.
    pub precision: f64,
    /// This case's part of the budget.
    pub budget: Duration,
    /// What is left of the whole budget.
    pub left: Duration,
    /// Two builds run in turn, and this counts as a change; without it one build runs.
    pub pair: Option<PairRule>,
}

/// Who watches a case: is told each stage, and may forbid a build.
pub trait Watch {
    /// The case has come to a stage, or further in one.
    fn notice(&mut self, notice: Notice);

    /// Whether a build may be launched. When not, the case ends as skipped.
    fn admits(&mut self, build: &BuildDoc) -> bool;
}

/// Runs a case; every way it can end is a status with a reason. Once `stop` is set, it ends after the launch under way.
pub fn run_case(
    device: &mut dyn Device,
    planned: &Planned,
    peaks: &Peaks,
    settings: &Settings,
    counting: &mut Counting,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
) -> CaseResult {
    let begin = Instant::now();
    let kind = device.info().kind;
    let mut result = CaseResult::new(planned);
    let workload = match &planned.workload {
        Ok(workload) => workload.as_ref(),
        Err(reason) => return result.ended(Status::Skipped, reason.clone()),
    };
    let work = workload.work();
    let floor = peaks.floor(&work, settings.cache);
    result.work = Some(work);
    if let Some(floor) = &floor {
        result.set_floor(floor, &peaks.source);
    }
    // On an emulated device the floor is a GPU's time, and says nothing of how long the emulation takes.
    let floor_of_this_device = floor.as_ref().filter(|_| kind != Kind::Emu);
    if let Some(reason) = over_budget(floor_of_this_device, settings) {
        return result.unfinished(reason);
    }
    watch.notice(Notice::Prepare);
    let mut prepared = match device.prepare(workload, settings.cache, settings.seed) {
        Ok(prepared) => prepared,
        Err(error) => return result.ended(status_of(&error), error.to_string()),
    };
    let build = BuildDoc::from(prepared.build());
    result.build = Some(build.clone());
    if !watch.admits(&build) {
        return result.ended(Status::Skipped, "its build is quarantined");
    }
    watch.notice(Notice::Built(build));
    let mut stages = Stages { prepare_ns: nanoseconds(begin.elapsed()), ..Stages::default() };
    let (cache, cache_note) = prepared.cache();
    // A case that turned out warm is bounded by the cache it fits in.
    let floor =
        if cache == settings.cache { floor } else { result.work.as_ref().and_then(|work| peaks.floor(work, cache)) };
    if let Some(floor) = &floor {
        result.set_floor(floor, &peaks.source);
    }

    watch.notice(Notice::Verify);
    let verify_begin = Instant::now();
    match prepared.verify(settings.seed) {
        Ok(outputs) => result.verify = VerifyDoc::new(&outputs),
        Err(error) => return result.ended(status_of(&error), error.to_string()),
    }
    let verifying = verify_begin.elapsed();
    stages.verify_ns = nanoseconds(verifying);
    if let Some(reason) = not_verified(&result, "before timing") {
        return result.ended(Status::Wrong, reason);
    }

    let defaults = if kind == Kind::Host { Protocol::host() } else { Protocol::gpu() };
    let protocol = Protocol {
        cache,
        precision: settings.precision,
        budget_ns: nanoseconds(measuring_budget(settings.budget, begin.elapsed(), verifying)),
        seed: settings.seed,
        ..defaults
    };
    let inner = match prepared.means() {
        Means::Timed(_) if counting.is_all() => {
            result.stages = Some(stages);
            result.status = Status::Ok;
            count(&mut result, kind, counting, prepared.as_mut(), watch);
            return result;
        }
        Means::Timed(launcher) => launcher,
        Means::Emulated(emulated) => {
            result.set_emulated(emulated);
            result.stages = Some(stages);
            result.status = Status::Ok;
            count(&mut result, kind, counting, prepared.as_mut(), watch);
            return result;
        }
        Means::Nothing => return result.ended(Status::Failed, "the device ran nothing"),
    };
    let mut launcher = Interruptible { inner, stop };
    let from = Instant::now();
    let measured = match measure(&mut launcher, &protocol, &mut |progress| watch.notice(Notice::Measure(progress))) {
        Ok(measured) => measured,
        Err(error) => return not_measured(result, &error, stop),
    };

    stages.measure_ns = measured.elapsed_ns;
    result.telemetry = prepared.telemetry(from, Instant::now());

    // Fresh data after timing: a build that only replays an old answer does not survive it.
    watch.notice(Notice::VerifyAgain);
    let verify_begin = Instant::now();
    match prepared.verify(settings.seed.wrapping_add(1)) {
        Ok(outputs) => result.verify = merge(result.verify.take(), VerifyDoc::new(&outputs)),
        Err(error) => return result.ended(status_of(&error), error.to_string()),
    }
    stages.verify_ns += nanoseconds(verify_begin.elapsed());
    result.stages = Some(stages);
    if let Some(reason) = not_verified(&result, "after timing") {
        return result.ended(Status::Wrong, reason);
    }

    result.set_timing(&measured, cache, prepared.rotation_bytes(), floor.as_ref());
    if let (Some(note), Some(timing)) = (cache_note, &mut result.timing) {
        timing.warnings.push(WarningDoc { code: "measured_warm".into(), message: note });
    }
    let mut result = judge(result, &measured, floor.as_ref());
    if result.status == Status::Ok {
        count(&mut result, kind, counting, prepared.as_mut(), watch);
    }
    result
}

/// Counts the case's launches where that was asked for. Nothing that was measured is lost when it fails.
fn count(
    result: &mut CaseResult,
    kind: Kind,
    counting: &mut Counting,
    prepared: &mut dyn Prepared,
    watch: &mut dyn Watch,
) {
    if matches!(counting, Counting::Off) {
        return;
    }
    result.status = Status::Ok;
    watch.notice(Notice::Count(Box::new(result.clone())));
    let known: BTreeMap<String, CounterKind> =
        result.counters.iter().map(|(name, counter)| (name.clone(), counter.kind)).collect();
    // An emulated device knows how it came by each counter; a real one counts.
    let emulated = kind == Kind::Emu;
    let kind_of = |name: &str| {
        let unknown = if emulated { CounterKind::Model } else { CounterKind::Measured };
        known.get(name).copied().unwrap_or(unknown)
    };
    let facts = facts(result, prepared.cache().0);
    let mut passed = |pass, of| watch.notice(Notice::CountPass { pass, of });
    match counting.count(prepared, &facts, &kind_of, &mut passed) {
        Some(Ok(counted)) => result.set_counted(counted),
        Some(Err(reason)) => result.set_not_counted(reason),
        None => {}
    }
}

/// What counters are judged by.
fn facts(result: &CaseResult, cache: Cache) -> CaseFacts {
    // A sample of the workgroups does a part of the work.
    let whole = result.work.as_ref().filter(|_| result.sampled().is_none());
    CaseFacts {
        duration_ns: result.timing.as_ref().map(|timing| timing.median_ns),
        compulsory: whole.map(compulsory),
        cache: Some(match cache {
            Cache::Cold => metric::Cache::Cold,
            Cache::Warm => metric::Cache::Warm,
        }),
    }
}

/// The work that counters can be held against.
fn compulsory(work: &Work) -> Compulsory {
    let mut matrix_flops: BTreeMap<String, u128> = BTreeMap::new();
    for (dtype, flops) in &work.flops {
        if let Some(name) = matrix_input(*dtype) {
            *matrix_flops.entry(name.to_owned()).or_default() += flops;
        }
    }
    Compulsory { bytes_read: work.bytes_read, bytes_written: work.bytes_written, matrix_flops }
}

/// The matrix counters of a dtype. f32 and f64 have none here: vector instructions do them as well, and in most families only they do.
fn matrix_input(dtype: Dtype) -> Option<&'static str> {
    Some(match dtype {
        Dtype::F16 => "f16",
        Dtype::Bf16 => "bf16",
        Dtype::Fp8E4m3fn | Dtype::Fp8E4m3fnuz | Dtype::Fp8E5m2 | Dtype::Fp8E5m2fnuz => "f8",
        Dtype::Fp4E2m1 => "f6f4",
        Dtype::I8 => "i8",
        _ => return None,
    })
}

/// How a case ends that ended in this before it was timed: what the device cannot hold, or nothing runs, is left out; all else is a failure, a refusal
/// of memory that is free included.
fn status_of(error: &DeviceError) -> Status {
    match error {
        DeviceError::NoBuild(_) => Status::Skipped,
        DeviceError::OutOfMemory { needed_bytes, available_bytes } if u128::from(*available_bytes) < *needed_bytes => {
            Status::Skipped
        }
        DeviceError::Hung { .. } => Status::Hung,
        DeviceError::OutOfMemory { .. } | DeviceError::Failed(_) => Status::Failed,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// What is left of a case's budget for measuring, once it is prepared and verified and the second verification is paid
/// for: at least a quarter, so that a case whose data take long to make still gets samples.
fn measuring_budget(budget: Duration, spent: Duration, verifying: Duration) -> Duration {
    budget.saturating_sub(spent + verifying).max(budget / 4)
}

/// Says why a case cannot be measured within the budget, with the numbers; `None` when it may.
fn over_budget(floor: Option<&Floor>, settings: &Settings) -> Option<String> {
    if settings.left.is_zero() {
        return Some("the time budget is used up (--time-budget)".into());
    }
    let needed_ns = floor?.ns * FEWEST_LAUNCHES;
    (needed_ns > settings.left.as_nanos() as f64).then(|| {
        format!(
            "needs at least {} at this device's peak, {} of the time budget are left (--time-budget)",
            units::time(needed_ns, 2),
            units::time(settings.left.as_nanos() as f64, 2)
        )
    })
}

/// A launcher that ends the measuring when the user interrupts the run.
struct Interruptible<'a> {
    inner: &'a mut dyn Launcher,
    stop: &'a AtomicBool,
}

impl Interruptible<'_> {
    fn interrupted(&self) -> Result<(), LaunchError> {
        if self.stop.load(Ordering::SeqCst) { Err(LaunchError::Failed("interrupted".into())) } else { Ok(()) }
    }
}

impl Launcher for Interruptible<'_> {
    fn launch(&mut self, set: usize) -> Result<f64, LaunchError> {
        self.interrupted()?;
        self.inner.launch(set)
    }

    fn sets(&self) -> usize {
        self.inner.sets()
    }

    fn sets_touched(&self) -> bool {
        self.inner.sets_touched()
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn source(&self) -> TimeSource {
        self.inner.source()
    }

    fn clock_mhz(&mut self) -> Option<f64> {
        self.inner.clock_mhz()
    }

    fn batch(&mut self, batch: Batch) -> Option<Result<f64, LaunchError>> {
        match self.interrupted() {
            Err(error) => Some(Err(error)),
            Ok(()) => self.inner.batch(batch),
        }
    }

    fn event(&mut self, set: usize) -> Option<Result<f64, LaunchError>> {
        match self.interrupted() {
            Err(error) => Some(Err(error)),
            Ok(()) => self.inner.event(set),
        }
    }

    fn resolution_ns(&self) -> f64 {
        self.inner.resolution_ns()
    }
}

/// The case when measuring ended in an error: what was sampled before is said, but is no result.
fn not_measured(result: CaseResult, error: &MeasureError, stop: &AtomicBool) -> CaseResult {
    let sampled = error.partial().map_or_else(String::new, |partial| {
        let median = units::time(partial.median_ns, 3);
        format!(" (the {} samples before it had a median of {median})", partial.samples_ns.len())
    });
    if stop.load(Ordering::SeqCst) {
        return result.unfinished(format!("interrupted while it was measured{sampled}"));
    }
    let status = match error {
        MeasureError::Launch { source: LaunchError::Hung { .. }, .. } => Status::Hung,
        _ => Status::Failed,
    };
    result.ended(status, format!("{error}{sampled}"))
}

fn merge(before: Option<VerifyDoc>, after: Option<VerifyDoc>) -> Option<VerifyDoc> {
    match (before, after) {
        (Some(before), Some(after)) => Some(before.and(after)),
        // Nothing to compare in one round is no verification at all.
        _ => None,
    }
}

/// The reason when the last verification did not pass.
fn not_verified(result: &CaseResult, when: &str) -> Option<String> {
    let Some(verify) = &result.verify else {
        return Some(format!("{when}: no output could be compared"));
    };
    (!verify.passed).then(|| {
        format!(
            "{when}: output `{}`: {} of {} checked elements are off, by up to {:.3e} (allowed {:.0e} + {:.0e}·|ref|)",
            verify.output,
            verify.mismatches,
            verify.elements,
            verify.max_abs_error,
            verify.tolerance.abs,
            verify.tolerance.rel
        )
    })
}

/// Why a time cannot be true, when it is below the floor.
fn beats(measured_ns: f64, floor: &Floor) -> Option<String> {
    (measured_ns < floor.ns * (1.0 - FLOOR_SLACK)).then(|| {
        format!(
            "beats its floor: {} measured, {} needed by {} alone at peak; the work model, the cache state or the \
             peaks are wrong (`kbench peaks` measures them again)",
            units::time(measured_ns, 4),
            units::time(floor.ns, 4),
            floor.limiter
        )
    })
}

/// Refuses a time that cannot be true.
fn judge(mut result: CaseResult, measured: &Measurement, floor: Option<&Floor>) -> CaseResult {
    if let Some(reason) = floor.and_then(|floor| beats(measured.time().ns, floor)) {
        result.achieved = None;
        return result.ended(Status::Failed, reason);
    }
    result.status = Status::Ok;
    result
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
