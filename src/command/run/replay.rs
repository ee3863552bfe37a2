//! A run under way: the journal, the progress bar, the budget, and results in the order of the plan.

use super::super::{part_of_budget, progress_bar};
use super::sinks::Sinks;
use crate::cli::RunArgs;
use crate::exit::{Failure, OrExit as _, Outcome};
use crate::journal::Journal;
use crate::measure::{Cache, Progress};
use crate::plan::Planned;
use crate::report::{CaseResult, Status, units};
use crate::runner::{PairResult, Settings};
use crate::worker::message::Notice;
use crate::worker::{Task, Watcher};
use indicatif::ProgressBar;
use kbench_counters::rocprofv3::{Kernel, Run};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Every case in every cache mode, in the order of the plan; its id tells modes apart when there are several.
pub(super) fn all_tasks<'a>(cases: &'a [Planned], modes: &[Cache]) -> (Vec<Task<'a>>, Vec<String>) {
    let each = cases.iter().flat_map(|planned| modes.iter().map(move |cache| (planned, *cache)));
    let id = |planned: &Planned, cache: Cache| {
        if modes.len() > 1 { format!("{}@{}", planned.id, cache.name()) } else { planned.id.clone() }
    };
    each.enumerate().map(|(index, (planned, cache))| (Task { index, planned, cache }, id(planned, cache))).unzip()
}

/// See the module.
pub(super) struct Replay<'r, 'a> {
    args: &'r RunArgs,
    sinks: &'r Sinks<'r>,
    tasks: &'r [Task<'a>],
    ids: &'r [String],
    journal: Option<Journal>,
    bar: ProgressBar,
    deadline: Instant,
    results: Vec<Option<CaseResult>>,
    /// Results below this place have been shown.
    shown: usize,
    /// Counted dispatches of all cases.
    records: Option<Run>,
    /// Why no case is counted although that was asked for.
    not_counted: Option<String>,
}

impl<'r, 'a> Replay<'r, 'a> {
    /// A run with the results that are known before it: those taken over, and cases that cannot be built.
    pub(super) fn new(
        args: &'r RunArgs,
        sinks: &'r Sinks<'r>,
        (tasks, ids): (&'r [Task<'a>], &'r [String]),
        journal: Option<Journal>,
        known: BTreeMap<usize, CaseResult>,
        deadline: Instant,
    ) -> Self {
        let mut results: Vec<Option<CaseResult>> = tasks.iter().map(|_| None).collect();
        let mut records = None;
        for (index, mut case) in known {
            take_records(&mut records, &mut case);
            if let Some(place) = results.get_mut(index) {
                *place = Some(case);
            }
        }
        Self {
            args,
            sinks,
            tasks,
            ids,
            journal,
            bar: progress_bar(tasks.len() as u64),
            deadline,
            results,
            shown: 0,
            records,
            not_counted: None,
        }
    }

    /// The same, with the reason why no case is counted.
    pub(super) fn not_counted(self, reason: Option<String>) -> Self {
        Self { not_counted: reason, ..self }
    }

    /// The tasks that have no result yet.
    pub(super) fn open_tasks(&self) -> Vec<Task<'a>> {
        self.tasks.iter().zip(&self.results).filter(|(_, result)| result.is_none()).map(|(task, _)| *task).collect()
    }

    /// Shows every result whose predecessors have been shown.
    pub(super) fn show(&mut self) -> Outcome<()> {
        while let (Some(Some(result)), Some(task)) = (self.results.get(self.shown), self.tasks.get(self.shown)) {
            self.bar.suspend(|| self.sinks.case(result, task.planned, self.args.explain))?;
            self.shown += 1;
        }
        let ended = self.results.iter().flatten().count();
        self.bar.set_position(ended as u64);
        Ok(())
    }

    /// The results in order, the journal, and the counted dispatches.
    pub(super) fn into_results(self) -> (Vec<CaseResult>, Option<Journal>, Option<Run>) {
        self.bar.finish_and_clear();
        (self.results.into_iter().flatten().collect(), self.journal, self.records)
    }
}

impl Watcher for Replay<'_, '_> {
    fn settings(&mut self, task: &Task<'_>, waiting: usize, devices: usize) -> Settings {
        self.bar.set_message(units::shorten(&task.planned.id, 60));
        let (budget, left) = part_of_budget(self.deadline, waiting, devices);
        Settings { cache: task.cache, seed: self.args.seed, precision: self.args.precision, budget, left, pair: None }
    }

    fn notice(&mut self, task: &Task<'_>, notice: &Notice) {
        let what = match notice {
            Notice::Prepare | Notice::Built(_) => "preparing".to_owned(),
            Notice::Verify => "verifying".to_owned(),
            Notice::Measure(Progress::Warmup { launches, .. }) => format!("warm-up, {launches} launches"),
            Notice::Measure(Progress::Sampling { samples, median_ns, .. }) => {
                format!("{samples} samples, {}", units::time(*median_ns, 3))
            }
            Notice::VerifyAgain => "verifying again".to_owned(),
            Notice::Count(_) => "counting".to_owned(),
            Notice::CountPass { pass, of } => format!("counting, pass {} of {of}", pass + 1),
        };
        self.bar.set_message(format!("{}: {what}", units::shorten(&task.planned.id, 60)));
    }

    fn wasted(&mut self, time: Duration) {
        self.deadline += time;
    }

    fn line(&mut self, line: &str) {
        self.bar.suspend(|| super::super::note(line));
    }

    fn done(&mut self, task: &Task<'_>, mut result: CaseResult, _pair: Option<PairResult>) -> Result<(), Failure> {
        if let Some(id) = self.ids.get(task.index) {
            result.id.clone_from(id);
        }
        if let Some(reason) = self.not_counted.as_ref().filter(|_| result.status == Status::Ok) {
            result.set_not_counted(reason.clone());
        }
        // What had no turn is not kept: a resumed run runs it.
        if let Some(journal) = self.journal.as_mut().filter(|_| !result.unfinished) {
            journal.add(task.index, &result).or_usage()?;
        }
        take_records(&mut self.records, &mut result);
        if let Some(place) = self.results.get_mut(task.index) {
            *place = Some(result);
        }
        self.show()
    }
}

/// Takes the counted dispatches out of a case: they go to files of their own, not into the document.
fn take_records(all: &mut Option<Run>, case: &mut CaseResult) {
    if let Some(found) = case.counting.as_mut().and_then(|counting| counting.records.take()) {
        add_records(all, *found);
    }
}

/// Adds the dispatches of a case. Numbers of the profiler are those of one process: they are given anew, in order.
fn add_records(all: &mut Option<Run>, found: Run) {
    let Some(all) = all else {
        *all = Some(found);
        return;
    };
    for mut dispatch in found.dispatches {
        let kernel = found.kernels.iter().find(|kernel| kernel.id == dispatch.kernel_id);
        let same = |known: &&Kernel| kernel.is_some_and(|kernel| Kernel { id: known.id, ..kernel.clone() } == **known);
        dispatch.kernel_id = match all.kernels.iter().find(same) {
            Some(known) => known.id,
            None => {
                let id = all.kernels.iter().map(|kernel| kernel.id).max().unwrap_or(0) + 1;
                all.kernels.extend(kernel.map(|kernel| Kernel { id, ..kernel.clone() }));
                id
            }
        };
        dispatch.dispatch_id = all.dispatches.iter().map(|dispatch| dispatch.dispatch_id).max().unwrap_or(0) + 1;
        all.dispatches.push(dispatch);
    }
    for agent in found.agents {
        if !all.agents.iter().any(|known| known.logical_node_id == agent.logical_node_id) {
            all.agents.push(agent);
        }
    }
}
