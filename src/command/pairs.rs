//! What `ab` and `selfcheck` share: cases run in two builds, in a child process that owns the device.

use super::worker_failure;
use crate::cli::PairArgs;
use crate::command::inventory;
use crate::compare::pairs::Pair;
use crate::device::{DeviceInfo, Peaks};
use crate::exit::{Failure, OrExit as _, usage};
use crate::measure::Progress;
use crate::plan::{Plan, Selection};
use crate::report::{CaseResult, units};
use crate::runner::{PairResult, PairRule, Settings};
use crate::worker::message::{Notice, Open};
use crate::worker::{Limits, Supervisor, Task, Watcher};
use indicatif::ProgressBar;
use kbench_workload::CaseOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Cases on an open device.
pub(super) struct Cases {
    plan: Plan,
    peaks: Peaks,
    open: Open,
    limits: Limits,
    /// The device.
    pub(super) info: DeviceInfo,
    stop: Arc<AtomicBool>,
}

impl Cases {
    /// Reads the inventory, opens the device with both builds, and plans.
    pub(super) fn open(args: &PairArgs, base: &str, candidate: &str) -> Result<Self, Failure> {
        let inventory = inventory::read(&args.shapes, &args.read)?;
        let open = Open::new(&args.device, args.fp8.into(), Some(PathBuf::from(base)), args.emu_sample);
        let open = Open { candidate: Some(candidate.to_owned()), ..open };
        let limits = Limits { scale: args.watchdog, ..Limits::default() };
        let mut supervisor = super::open_worker(&args.device, open.clone(), limits)?;
        let info = supervisor.hello().info.clone();
        let selection = Selection {
            families: args.family.clone(),
            kernel: args.kernel.clone(),
            phase: args.phase,
            top: args.top,
            coverage: None,
        };
        let plan = Plan::new(&inventory, &selection, CaseOptions { fp8: info.fp8, seed: args.seed });
        if plan.cases.iter().all(|case| case.workload.is_err()) {
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
        Ok(Self { plan, peaks, open, limits, info, stop })
    }

    /// Runs every case in every cache mode `times` times, each with a seed of its own; the pairs in order, and whether the
    /// run was interrupted.
    pub(super) fn run(&mut self, args: &PairArgs, rule: PairRule, times: u32) -> Result<(Vec<Pair>, bool), Failure> {
        let runnable = self.plan.cases.iter().filter(|case| case.workload.is_ok());
        let modes = args.cache.modes();
        let each = runnable.flat_map(|planned| modes.iter().map(move |cache| (planned, *cache)));
        let repeated = (0..times).flat_map(|_| each.clone());
        let tasks: Vec<Task<'_>> =
            repeated.enumerate().map(|(index, (planned, cache))| Task { index, planned, cache }).collect();
        let bar = super::progress_bar(tasks.len() as u64);
        let mut watcher = Collect {
            args,
            rule,
            bar: &bar,
            deadline: Instant::now() + args.time_budget,
            both: modes.len() > 1,
            results: tasks.iter().map(|_| None).collect(),
        };
        let program = crate::worker::Program::this().or_device()?;
        let mut supervisor =
            Supervisor::open(program, self.open.clone(), self.limits, &mut super::note).map_err(worker_failure)?;
        supervisor.run(&tasks, &self.peaks, &self.stop, &mut watcher)?;
        let pairs = watcher.results.into_iter().flatten().collect();
        bar.finish_and_clear();
        Ok((pairs, self.stop.load(Ordering::SeqCst)))
    }
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
