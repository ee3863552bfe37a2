//! The cases of a run as the supervisor hands them out, and the builds that it does not trust any more.

use crate::exit::Failure;
use crate::measure::Cache;
use crate::plan::Planned;
use crate::report::CaseResult;
use crate::report::document::BuildDoc;
use crate::runner::{PairResult, Settings};
use crate::worker::message::Notice;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// One case in one cache mode, in the order of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Its place among the results.
    pub index: usize,
    /// The case; its workload is there.
    pub planned: &'a Planned,
    /// Cache mode.
    pub cache: Cache,
}

/// Who is told how a run goes.
pub trait Watcher {
    /// The settings of a task that is about to be handed out; `waiting` others are left after it, `devices` share them.
    fn settings(&mut self, task: &Task<'_>, waiting: usize, devices: usize) -> Settings;

    /// A task has come to a stage.
    fn notice(&mut self, task: &Task<'_>, notice: &Notice);

    /// A stage was waited for in vain for so long: time that the other tasks are not to pay for.
    fn wasted(&mut self, time: Duration);

    /// A line for the user: of a child's stderr, or about a child.
    fn line(&mut self, line: &str);

    /// A task has ended; `pair` is the candidate's side when two builds ran in turn.
    ///
    /// # Errors
    /// When the result cannot be kept; the run ends.
    fn done(&mut self, task: &Task<'_>, result: CaseResult, pair: Option<PairResult>) -> Result<(), Failure>;
}

/// A build is not launched again after this many cases that it hung or killed its process in.
const STRIKES: usize = 2;

/// What waits: cases in order, then those whose build is under suspicion.
#[derive(Debug, Default)]
pub(super) struct Queue<'a> {
    first: VecDeque<Task<'a>>,
    suspects: VecDeque<Task<'a>>,
    /// The cases that each build hung or died in.
    strikes: HashMap<String, Vec<String>>,
}

/// What becomes of a case whose build is under suspicion.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It runs after all others.
    Later,
    /// It does not run, because of these cases.
    Never(Vec<String>),
}

impl<'a> Queue<'a> {
    pub(super) fn new(tasks: &[Task<'a>]) -> Self {
        Self { first: tasks.iter().copied().collect(), ..Self::default() }
    }

    /// Cases that wait.
    pub(super) fn len(&self) -> usize {
        self.first.len() + self.suspects.len()
    }

    /// The next case, and the builds that it must not launch: at first every build that has a strike, and in the end those
    /// with too many.
    pub(super) fn next(&mut self) -> Option<(Task<'a>, Vec<String>)> {
        let (task, fewest) = match self.first.pop_front() {
            Some(task) => (task, 1),
            None => (self.suspects.pop_front()?, STRIKES),
        };
        let avoid = self.strikes.iter().filter(|(_, cases)| cases.len() >= fewest).map(|(build, _)| build.clone());
        Some((task, avoid.collect()))
    }

    /// A build hung or died in a case. The sentence for the user says what follows from it.
    pub(super) fn strike(&mut self, build: &BuildDoc, case: &str) -> String {
        let cases = self.strikes.entry(build.key()).or_default();
        cases.push(case.to_owned());
        let follows =
            if cases.len() < STRIKES { "its other cases run after all others" } else { "its other cases do not run" };
        format!("{} is quarantined after {case}: {follows}", build.file)
    }

    /// A case whose build must not be launched now.
    pub(super) fn suspect(&mut self, task: Task<'a>, build: &BuildDoc) -> Verdict {
        match self.strikes.get(&build.key()) {
            Some(cases) if cases.len() >= STRIKES => Verdict::Never(cases.clone()),
            _ => {
                self.suspects.push_back(task);
                Verdict::Later
            }
        }
    }

    /// Everything that waits, in the order of the plan; nothing waits any more.
    pub(super) fn drain(&mut self) -> Vec<Task<'a>> {
        let mut rest: Vec<Task<'a>> = self.first.drain(..).chain(self.suspects.drain(..)).collect();
        rest.sort_by_key(|task| task.index);
        rest
    }
}
