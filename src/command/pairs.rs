//! What `ab` and `selfcheck` share: cases run in two builds, in a child process that owns the device.

use super::worker_failure;
use crate::cli::PairArgs;
use crate::command::inventory;
use crate::compare::pairs::Pair;
use crate::device::DeviceInfo;
use crate::exit::{Failure, usage};
use crate::measure::{Cache, Progress};
use crate::plan::{Plan, Planned};
use crate::report::document::BuildDoc;
use crate::report::{CaseResult, Status, units};
use crate::runner::{OTHER_FAILED, PairResult, PairRule, Settings};
use crate::worker::message::{Notice, Open};
use crate::worker::{Task, Watcher};
use indicatif::ProgressBar;
use kbench_stats::Correction;
use kbench_workload::CaseOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that a comparison may take where times are measured, unless asked otherwise.
const USUAL_BUDGET: Duration = Duration::from_secs(60);

/// What came of running cases in two builds.
pub(super) struct Ran {
    /// The device.
    pub(super) info: DeviceInfo,
    /// Each case in each cache mode, as often as was asked for, in order.
    pub(super) pairs: Vec<Pair>,
    /// What counted as a change, with the number of cases that are corrected together.
    pub(super) rule: PairRule,
    /// Cases that could not be made, with the reason, in each cache mode.
    pub(super) not_made: Vec<Pair>,
    /// There would have been more.
    pub(super) interrupted: bool,
}

/// Which builds, and how often.
pub(super) struct Builds<'b> {
    /// As `--kernels` takes it; on the host as `Host::with_pair`.
    pub(super) base: &'b str,
    /// Likewise.
    pub(super) candidate: &'b str,
    /// What counts as a change; the number of cases is filled in.
    pub(super) rule: PairRule,
    /// How the cases are corrected for their number.
    pub(super) correction: Correction,
    /// Runs of each case and cache mode, each with a seed of its own.
    pub(super) times: u32,
}

/// Reads the inventory, opens the device with both builds, plans, and runs every case in every cache mode. `admits` may
/// refuse the device before anything runs.
pub(super) fn run(
    args: &PairArgs,
    builds: &Builds<'_>,
    admits: impl FnOnce(&DeviceInfo) -> Result<(), Failure>,
) -> Result<Ran, Failure> {
    let inventory = inventory::read(&args.shapes, &args.read)?;
    let open = args.on.open(Some(PathBuf::from(builds.base)));
    let plan;
    let mut supervisor = super::open_worker(
        &args.on.device,
        args.on.limits(),
        Open { candidate: Some(builds.candidate.to_owned()), ..open },
    )?;
    let info = supervisor.hello().info.clone();
    admits(&info)?;
    plan = Plan::new(&inventory, &args.select.selection(), CaseOptions { fp8: info.fp8, seed: args.seed });
    let (runnable, rest): (Vec<_>, Vec<_>) = plan.cases.iter().partition(|case| case.workload.is_ok());
    if runnable.is_empty() {
        return Err(usage(format!(
            "{}: there is no case to compare builds with; `kbench inventory` lists what it holds",
            inventory.source.paths.join(", ")
        )));
    }
    let peaks = supervisor.peaks(&mut super::note).map_err(worker_failure)?;
    let stop = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&stop);
    // Without a handler (another one is set) an interrupt simply ends the process.
    let _ = ctrlc::set_handler(move || handler.store(true, Ordering::SeqCst));
    let modes = args.cache.modes();
    let each = runnable.iter().flat_map(|planned| modes.iter().map(move |cache| (*planned, *cache)));
    let repeated = (0..builds.times).flat_map(|_| each.clone());
    let tasks: Vec<Task<'_>> =
        repeated.enumerate().map(|(index, (planned, cache))| Task { index, planned, cache }).collect();
    let bar = super::progress_bar(tasks.len() as u64);
    let corrected = if builds.correction == Correction::None { 1 } else { tasks.len() };
    let rule = PairRule { cases: u32::try_from(corrected).unwrap_or(u32::MAX), ..builds.rule };
    let mut watcher = Collect {
        args,
        rule,
        bar: &bar,
        deadline: Instant::now() + super::time_budget(args.time_budget, USUAL_BUDGET, &info),
        results: tasks.iter().map(|_| None).collect(),
        running: tasks.iter().map(|_| Running::default()).collect(),
    };
    supervisor.run(&tasks, &peaks, &stop, &mut watcher)?;
    let pairs = watcher.results.into_iter().flatten().collect();
    bar.finish_and_clear();
    let not_made = rest.iter().flat_map(|planned| modes.iter().map(move |cache| not_made(planned, *cache))).collect();
    Ok(Ran { info, pairs, rule, not_made, interrupted: stop.load(Ordering::SeqCst) })
}

/// A case without a workload, as a pair that was skipped.
fn not_made(planned: &Planned, cache: Cache) -> Pair {
    let reason = planned.workload.as_ref().err().cloned().unwrap_or_default();
    Pair { cache, base: CaseResult::new(planned).ended(Status::Skipped, reason), pair: None }
}

/// Keeps the pairs of a run.
struct Collect<'r> {
    args: &'r PairArgs,
    rule: PairRule,
    bar: &'r ProgressBar,
    deadline: Instant,
    results: Vec<Option<Pair>>,
    running: Vec<Running>,
}

/// Which build of a case was running when it was last heard of.
#[derive(Debug, Default)]
struct Running {
    /// The base's build: the first one that was ready.
    base: Option<BuildDoc>,
    /// The one that was told last.
    last: Option<BuildDoc>,
    /// It runs alone, to be verified.
    alone: bool,
}

impl Running {
    fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Built(build) => {
                self.base.get_or_insert_with(|| build.clone());
                self.last = Some(build.clone());
            }
            Notice::Verify | Notice::VerifyAgain => self.alone = true,
            Notice::Prepare | Notice::Measure(_) | Notice::Count(_) | Notice::CountPass { .. } => self.alone = false,
        }
    }

    /// What a case whose process is gone says of both sides: while the candidate was verified it is the candidate that failed.
    fn blame(self, base: CaseResult) -> (CaseResult, Option<PairResult>) {
        let failed = matches!(base.status, Status::Failed | Status::Hung);
        if !(failed && self.alone && self.last.is_some() && self.last != self.base) {
            return (base, None);
        }
        let candidate = CaseResult { build: self.last, ..base.clone() };
        let base = CaseResult { build: self.base, ..base }.ended(Status::Skipped, OTHER_FAILED);
        (base, Some(PairResult { candidate, samples: None }))
    }
}

impl Watcher for Collect<'_> {
    fn settings(&mut self, task: &Task<'_>, waiting: usize, devices: usize) -> Settings {
        self.bar.set_message(units::shorten(&task.planned.id, 60));
        let (budget, left) = super::part_of_budget(self.deadline, waiting, devices);
        Settings {
            cache: task.cache,
            seed: self.args.seed.wrapping_add(task.index as u64),
            precision: 0.0,
            budget,
            left,
            pair: Some(self.rule),
        }
    }

    fn notice(&mut self, task: &Task<'_>, notice: &Notice) {
        if let Some(running) = self.running.get_mut(task.index) {
            running.notice(notice);
        }
        if let Notice::Measure(Progress::Sampling { samples, .. }) = notice {
            self.bar.set_message(format!("{}: {samples} blocks", units::shorten(&task.planned.id, 60)));
        }
    }

    fn wasted(&mut self, time: Duration) {
        self.deadline += time;
    }

    fn line(&mut self, line: &str) {
        self.bar.suspend(|| super::note(line));
    }

    fn done(&mut self, task: &Task<'_>, base: CaseResult, pair: Option<PairResult>) -> Result<(), Failure> {
        let running = self.running.get_mut(task.index).map(std::mem::take).unwrap_or_default();
        let (base, pair) = if pair.is_some() { (base, pair) } else { running.blame(base) };
        if let Some(place) = self.results.get_mut(task.index) {
            *place = Some(Pair { cache: task.cache, base, pair });
        }
        self.bar.inc(1);
        Ok(())
    }
}
