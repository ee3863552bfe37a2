//! The children of a run: a place a device, each with the process that is there now.

use super::frame::VERSION;
use super::limits::Limits;
use super::message::{Open, Refused, Stage, ToChild, ToParent};
use super::process::{Event, Process, Program, What};
use super::tasks::Task;
use crate::report::CaseResult;
use crate::report::document::BuildDoc;
use crate::runner::Settings;
use kbench_workload::Work;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

/// Events that wait at most; a child that floods its pipes is slowed down by them.
const EVENTS: usize = 256;

/// What a child that was asked to end, or whose pipe has ended, has to end in.
pub(super) const LEAVE: Duration = Duration::from_secs(2);

/// Why a device could not be used at all.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// No child could be started.
    #[error("the process that drives the device could not be started: {program}: {cause}")]
    Start {
        /// What was started.
        program: String,
        /// The system's words.
        cause: io::Error,
    },
    /// The device cannot be opened; the child's own paragraph.
    #[error("{}", .0.message)]
    Refused(Refused),
    /// The child is of another version.
    #[error(
        "the process that drives the device speaks version {found} of the messages, this program {VERSION}: the program \
         was replaced while it ran; start it again"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// The child ended, or its messages could not be read.
    #[error("the process that drives the device {device} ended while {doing}: {how}")]
    Died {
        /// The device as `--device` takes it.
        device: String,
        /// What it was doing.
        doing: &'static str,
        /// How it ended, with its last words.
        how: String,
    },
    /// The child did not answer in time and was killed.
    #[error(
        "the device {device} did not answer within {:.1} s while {doing}, so its process was killed; --watchdog makes the \
         limits longer",
        after.as_secs_f64()
    )]
    Hung {
        /// The device as `--device` takes it.
        device: String,
        /// What it was doing.
        doing: &'static str,
        /// The limit.
        after: Duration,
    },
}

impl WorkerError {
    /// True for a mistake of the user.
    pub fn is_usage(&self) -> bool {
        matches!(self, WorkerError::Refused(Refused { usage: true, .. }))
    }
}

/// What a child is doing.
pub(super) enum State<'a> {
    /// Opening its device.
    Opening { until: Option<Instant> },
    /// Waiting for a case.
    Idle,
    /// Running a case.
    Busy(Box<Busy<'a>>),
    /// Its device could not be opened again, or was left out: final, no child is started for it any more.
    Lost,
}

/// A case under way.
pub(super) struct Busy<'a> {
    pub(super) task: Task<'a>,
    pub(super) number: u64,
    pub(super) settings: Settings,
    pub(super) work: Work,
    pub(super) stage: Stage,
    /// The limit of the stage.
    pub(super) limit: Duration,
    pub(super) until: Option<Instant>,
    pub(super) build: Option<BuildDoc>,
    /// What the case has when its launches begin to be counted.
    pub(super) measured: Option<Box<CaseResult>>,
    pub(super) interrupted: bool,
}

/// A device with a child of its own.
pub(super) struct Slot<'a> {
    pub(super) open: Open,
    pub(super) generation: u64,
    pub(super) process: Option<Process>,
    pub(super) state: State<'a>,
    pub(super) failed_opens: usize,
}

impl Slot<'_> {
    /// A place whose child has not been started.
    pub(super) fn new(open: Open) -> Self {
        Self { open, generation: 0, process: None, state: State::Lost, failed_opens: 0 }
    }
}

/// The places; the first one is there always.
pub(super) struct Pool<'a> {
    program: Program,
    pub(super) limits: Limits,
    pub(super) slots: Vec<Slot<'a>>,
    pub(super) events: Receiver<Event>,
    /// What the other children said while the first one was waited for; it comes before `events`.
    pub(super) deferred: VecDeque<Event>,
    post: SyncSender<Event>,
}

impl Pool<'_> {
    /// One place, whose child has not been started.
    pub(super) fn new(program: Program, open: Open, limits: Limits) -> Self {
        let (post, events) = mpsc::sync_channel(EVENTS);
        Self { program, limits, slots: vec![Slot::new(open)], events, deferred: VecDeque::new(), post }
    }

    /// Starts the child of a place.
    pub(super) fn start(&mut self, index: usize) -> Result<(), WorkerError> {
        let slot = &mut self.slots[index];
        slot.generation += 1;
        slot.process = None;
        let process = Process::start(&self.program, index, slot.generation, &self.post)
            .map_err(|cause| WorkerError::Start { program: self.program.path.display().to_string(), cause })?;
        process.send(ToChild::Open(Box::new(slot.open.clone())));
        slot.process = Some(process);
        slot.state = State::Opening { until: Instant::now().checked_add(self.limits.of_open()) };
        Ok(())
    }

    /// Waits for an answer of the first child. What the others say besides lines is kept in `deferred`: what a child may be,
    /// and what becomes of one that is refused or ends, is decided in one place, the supervisor.
    pub(super) fn wait<T>(
        &mut self,
        doing: &'static str,
        limit: Duration,
        line: &mut dyn FnMut(&str),
        mut answer: impl FnMut(ToParent) -> Option<Result<T, WorkerError>>,
    ) -> Result<T, WorkerError> {
        let device = self.slots[0].open.device.clone();
        let until = Instant::now().checked_add(limit);
        loop {
            let left = until.map_or(LEAVE, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                self.end(0, Duration::ZERO);
                self.slots[0].state = State::Lost;
                return Err(WorkerError::Hung { device, doing, after: limit });
            }
            let Ok(event) = self.events.recv_timeout(left) else { continue };
            match event.what {
                What::Line(text) => line(&text),
                _ if event.slot != 0 => self.deferred.push_back(event),
                What::Message(message) => match *message {
                    ToParent::Refused(refused) => return Err(WorkerError::Refused(refused)),
                    message => {
                        if let Some(answer) = answer(message) {
                            return answer;
                        }
                    }
                },
                What::Broken(error) => {
                    self.slots[0].state = State::Lost;
                    let how = format!("{error}; {}", self.end(0, Duration::ZERO));
                    return Err(WorkerError::Died { device, doing, how });
                }
                What::End => {
                    self.slots[0].state = State::Lost;
                    let how = self.end(0, LEAVE);
                    return Err(WorkerError::Died { device, doing, how });
                }
            }
        }
    }

    /// Ends the child of a place and says how it ended.
    pub(super) fn end(&mut self, index: usize, patience: Duration) -> String {
        match self.slots[index].process.take() {
            Some(mut process) => process.end(patience).to_string(),
            None => "it had ended before".to_owned(),
        }
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        // All are asked first, so that they end at the same time. One with a case under way is not waited for.
        for slot in &mut self.slots {
            if let (State::Idle | State::Opening { .. }, Some(process)) = (&slot.state, &mut slot.process) {
                process.ask_to_end();
            }
        }
        for slot in &mut self.slots {
            if let Some(mut process) = slot.process.take() {
                let patience = if matches!(slot.state, State::Busy(_)) { Duration::ZERO } else { LEAVE };
                process.end(patience);
            }
        }
    }
}
