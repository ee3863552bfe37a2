//! What `ab` and `selfcheck` share: cases run in two builds, in a child process that owns the device.

use super::worker_failure;
use crate::cli::PairArgs;
use crate::command::inventory;
use crate::compare::pairs::Pair;
use crate::device::DeviceInfo;
use crate::exit::{Failure, usage};
use crate::measure::Progress;
use crate::plan::Plan;
use crate::report::{CaseResult, units};
use crate::runner::{PairResult, PairRule, Settings};
use crate::worker::message::{Notice, Open};
use crate::worker::{Task, Watcher};
use indicatif::ProgressBar;
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
    /// There would have been more.
    pub(super) interrupted: bool,
}

/// Which builds, and how often.
pub(super) struct Builds<'b> {
    /// As `--kernels` takes it; on the host as `Host::with_pair`.
    pub(super) base: &'b str,
    /// Likewise.
    pub(super) candidate: &'b str,
    /// What counts as a change.
    pub(super) rule: PairRule,
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
    let mut supervisor = super::open_worker(&args.on, Open { candidate: Some(builds.candidate.to_owned()), ..open })?;
    let info = supervisor.hello().info.clone();
    admits(&info)?;
    plan = Plan::new(&inventory, &args.select.selection(), CaseOptions { fp8: info.fp8, seed: args.seed });
    let runnable: Vec<_> = plan.cases.iter().filter(|case| case.workload.is_ok()).collect();
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
    let mut watcher = Collect {
        args,
        rule: builds.rule,
        bar: &bar,
        deadline: Instant::now() + super::time_budget(args.time_budget, USUAL_BUDGET, &info),
        both: modes.len() > 1,
        results: tasks.iter().map(|_| None).collect(),
    };
    supervisor.run(&tasks, &peaks, &stop, &mut watcher)?;
    let pairs = watcher.results.into_iter().flatten().collect();
    bar.finish_and_clear();
    Ok(Ran { info, pairs, interrupted: stop.load(Ordering::SeqCst) })
}

/// Keeps the pairs of a run.
struct Collect<'r> {
    args: &'r PairArgs,
    rule: PairRule,
    bar: &'r ProgressBar,
    deadline: Instant,
    /// Ids tell cold from warm.
    both: bool,
    results: Vec<Option<Pair>>,
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

    fn done(&mut self, task: &Task<'_>, mut base: CaseResult, mut pair: Option<PairResult>) -> Result<(), Failure> {
        if self.both {
            base.id = format!("{}@{}", base.id, task.cache.name());
        }
        if let Some(pair) = &mut pair {
            pair.candidate.id.clone_from(&base.id);
        }
        if let Some(place) = self.results.get_mut(task.index) {
            *place = Some(Pair { base, pair });
        }
        self.bar.inc(1);
        Ok(())
    }
}
