//! The parent's side: starts children, hands out cases, watches stages, replaces what hangs or dies.

use super::frame::VERSION;
use super::limits::Limits;
use super::message::{Hello, Job, Notice, Open, Stage, ToChild, ToParent};
use super::pool::{Busy, LEAVE, Pool, Slot, State, WorkerError};
use super::process::{Event, Program, What};
use super::tasks::{Queue, Task, Verdict, Watcher};
use crate::device::{DeviceSpec, Peaks};
use crate::exit::Failure;
use crate::report::{CaseResult, Status};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How often the interrupt flag is looked at.
const TICK: Duration = Duration::from_millis(50);

/// A place is given up when so many children in a row cannot open its device.
const MOST_FAILED_OPENS: usize = 2;

/// Children that own devices, one each. They end with it.
pub struct Supervisor<'a> {
    pool: Pool<'a>,
    hello: Hello,
    jobs: u64,
}

impl<'a> Supervisor<'a> {
    /// Starts a child, waits until it has opened its device, and starts the others that the device stands for. Lines of
    /// stderr go to `line`.
    ///
    /// # Errors
    /// [`WorkerError`] when the first device cannot be opened.
    pub fn open(program: Program, open: Open, limits: Limits, line: &mut dyn FnMut(&str)) -> Result<Self, WorkerError> {
        let mut pool = Pool::new(program, open.clone(), limits);
        pool.start(0)?;
        let hello = pool.wait("it was opened", limits.of_open(), line, |message| match message {
            ToParent::Hello(hello) if hello.version != VERSION => {
                Some(Err(WorkerError::Version { found: hello.version }))
            }
            ToParent::Hello(hello) => Some(Ok(*hello)),
            _ => None,
        })?;
        pool.slots[0].state = State::Idle;
        // Its cases, and the child that may follow it, are of one device and not of all.
        if open.device == DeviceSpec::HipAll.to_string() {
            pool.slots[0].open.device = DeviceSpec::Hip(0).to_string();
        }
        for device in &hello.others {
            pool.slots.push(Slot::new(Open { device: device.clone(), ..open.clone() }));
            pool.start(pool.slots.len() - 1)?;
        }
        Ok(Self { pool, hello, jobs: 0 })
    }

    /// What the first device is.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The first device's peaks.
    ///
    /// # Errors
    /// [`WorkerError`] when there are none.
    pub fn peaks(&mut self, line: &mut dyn FnMut(&str)) -> Result<Peaks, WorkerError> {
        if let Some(process) = &self.pool.slots[0].process {
            process.send(ToChild::Peaks);
        }
        let limit = self.pool.limits.of_peaks();
        self.pool.wait("its peaks were measured", limit, line, |message| match message {
            ToParent::Peaks(peaks) => Some(Ok(peaks)),
            _ => None,
        })
    }

    /// Runs tasks until all have ended or `stop` is set; those without a turn then end as unfinished. Results come as tasks
    /// end, which need not be in their order.
    ///
    /// # Errors
    /// When `watcher` cannot keep a result.
    pub fn run(
        &mut self,
        tasks: &[Task<'a>],
        peaks: &Peaks,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<(), Failure> {
        let mut queue = Queue::new(tasks);
        // All of them before the first look at the limits: a child that has answered in time must not be ended for it.
        for event in std::mem::take(&mut self.pool.deferred) {
            self.handle(event, &mut queue, watcher)?;
        }
        loop {
            if stop.load(Ordering::SeqCst) {
                for task in queue.drain() {
                    let result = CaseResult::new(task.planned).unfinished("the run was interrupted before its turn");
                    watcher.done(&task, result, None)?;
                }
                self.interrupt();
            }
            self.hand_out(&mut queue, peaks, watcher);
            let busy = self.pool.slots.iter().any(|slot| matches!(slot.state, State::Busy(_)));
            if !busy && queue.len() == 0 {
                return Ok(());
            }
            if self.pool.slots.iter().all(|slot| matches!(slot.state, State::Lost)) {
                for task in queue.drain() {
                    let reason =
                        "the device could not be opened again after an earlier case; nothing more can run on it";
                    watcher.done(&task, CaseResult::new(task.planned).unfinished(reason), None)?;
                }
                return Ok(());
            }
            match self.pool.events.recv_timeout(self.patience()) {
                Ok(event) => self.handle(event, &mut queue, watcher)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            self.watch(&mut queue, watcher)?;
        }
    }

    /// Gives waiting cases to idle children.
    fn hand_out(&mut self, queue: &mut Queue<'a>, peaks: &Peaks, watcher: &mut dyn Watcher) {
        let devices = self.pool.slots.iter().filter(|slot| !matches!(slot.state, State::Lost)).count().max(1);
        for slot in &mut self.pool.slots {
            let (State::Idle, Some(process)) = (&slot.state, &slot.process) else { continue };
            let Some((task, avoid)) = queue.next() else { return };
            let settings = watcher.settings(&task, queue.len(), devices);
            let work = task.planned.workload.as_ref().map(|workload| workload.work()).unwrap_or_default();
            self.jobs += 1;
            let job = Job::new(self.jobs, task.planned, self.hello.info.fp8, settings, peaks.clone());
            process.send(ToChild::Job(Box::new(Job { avoid, ..job })));
            let limit = self.pool.limits.of_stage(Stage::Prepare, self.hello.info.kind, &work, &settings);
            slot.state = State::Busy(Box::new(Busy {
                task,
                number: self.jobs,
                settings,
                work,
                stage: Stage::Prepare,
                limit,
                until: Instant::now().checked_add(limit),
                build: None,
                measured: None,
                interrupted: false,
            }));
        }
    }

    /// How long nothing needs to be done.
    fn patience(&self) -> Duration {
        let now = Instant::now();
        let next = self.pool.slots.iter().filter_map(|slot| match &slot.state {
            State::Opening { until } => *until,
            State::Busy(busy) => busy.until,
            State::Idle | State::Lost => None,
        });
        next.map(|until| until.saturating_duration_since(now)).min().unwrap_or(TICK).min(TICK)
    }

    /// Asks every child with a case to end it.
    fn interrupt(&mut self) {
        for slot in &mut self.pool.slots {
            if let (State::Busy(busy), Some(process)) = (&mut slot.state, &slot.process)
                && !busy.interrupted
            {
                busy.interrupted = true;
                busy.until = Instant::now().checked_add(self.pool.limits.interrupt);
                process.send(ToChild::Interrupt);
            }
        }
    }

    fn handle(&mut self, event: Event, queue: &mut Queue<'a>, watcher: &mut dyn Watcher) -> Result<(), Failure> {
        let index = event.slot;
        if self.pool.slots[index].generation != event.generation {
            return Ok(());
        }
        match event.what {
            What::Line(line) => {
                watcher.line(&line);
                Ok(())
            }
            // A place is given up on purpose: that its child's pipe ends afterwards is no reason to start another.
            _ if matches!(self.pool.slots[index].state, State::Lost) => Ok(()),
            What::Message(message) => self.message(index, *message, queue, watcher),
            What::Broken(error) => {
                let how = format!("{error}; it was killed ({})", self.pool.end(index, Duration::ZERO));
                self.died(index, &how, queue, watcher)
            }
            What::End => {
                let how = self.pool.end(index, LEAVE);
                self.died(index, &how, queue, watcher)
            }
        }
    }

    fn message(
        &mut self,
        index: usize,
        message: ToParent,
        queue: &mut Queue<'a>,
        watcher: &mut dyn Watcher,
    ) -> Result<(), Failure> {
        let (limits, kind, several) = (self.pool.limits, self.hello.info.kind, self.pool.slots.len() > 1);
        let slot = &mut self.pool.slots[index];
        match (message, &mut slot.state) {
            (ToParent::Hello(hello), State::Opening { .. }) => {
                slot.failed_opens = 0;
                slot.state = State::Idle;
                if hello.info != self.hello.info {
                    // One document speaks of one device: its peaks, its fp8, its builds.
                    let (device, found, first) = (&slot.open.device, &hello.info, &self.hello.info);
                    watcher.line(&format!(
                        "device {device} is left out: it is {} ({}, {} units), the first one is {} ({}, {} units); run it alone with \
                         --device {device}",
                        found.name, found.arch, found.units, first.name, first.arch, first.units
                    ));
                    slot.state = State::Lost;
                    self.pool.end(index, LEAVE);
                }
                Ok(())
            }
            (ToParent::Refused(refused), State::Opening { .. }) => {
                watcher.line(&format!("device {}: {}", slot.open.device, refused.message));
                slot.process = None;
                slot.state = State::Lost;
                Ok(())
            }
            (ToParent::Stage(notice), State::Busy(busy)) => {
                busy.stage = notice.stage();
                if !busy.interrupted {
                    busy.limit = limits.of_stage(busy.stage, kind, &busy.work, &busy.settings);
                    busy.until = Instant::now().checked_add(busy.limit);
                }
                match &notice {
                    Notice::Built(build) => busy.build = Some(build.clone()),
                    Notice::Count(measured) => busy.measured = Some(measured.clone()),
                    _ => {}
                }
                watcher.notice(&busy.task, &notice);
                Ok(())
            }
            (ToParent::Result(finished), State::Busy(busy)) if finished.number == busy.number => {
                let task = busy.task;
                slot.state = State::Idle;
                let case = CaseResult { device: several.then(|| slot.open.device.clone()), ..finished.case };
                watcher.done(&task, case, finished.pair)?;
                if finished.spent {
                    self.pool.end(index, LEAVE);
                    self.again(index, watcher);
                }
                Ok(())
            }
            (ToParent::Avoided { number, build }, State::Busy(busy)) if number == busy.number => {
                let task = busy.task;
                slot.state = State::Idle;
                match queue.suspect(task, &build) {
                    Verdict::Later => Ok(()),
                    Verdict::Never(cases) => {
                        let mut result = CaseResult::new(task.planned).ended(
                            Status::Skipped,
                            format!("its build hung or killed its process before, in {}: not run", cases.join(" and ")),
                        );
                        result.build = Some(build);
                        watcher.done(&task, result, None)
                    }
                }
            }
            (_, _) => {
                let how =
                    format!("it sent a message out of turn; it was killed ({})", self.pool.end(index, Duration::ZERO));
                self.died(index, &how, queue, watcher)
            }
        }
    }

    /// A child is gone that was not asked to end.
    fn died(
        &mut self,
        index: usize,
        how: &str,
        queue: &mut Queue<'a>,
        watcher: &mut dyn Watcher,
    ) -> Result<(), Failure> {
        match std::mem::replace(&mut self.pool.slots[index].state, State::Lost) {
            State::Busy(busy) if busy.interrupted => {
                self.lost_case(&busy, Status::Skipped, "the run was interrupted while it ran", queue, watcher)?;
            }
            State::Busy(busy) => {
                let reason = format!("the process that ran it ended while {}: {how}", busy.stage.doing());
                self.lost_case(&busy, Status::Failed, &reason, queue, watcher)?;
            }
            State::Opening { .. } => {
                self.pool.slots[index].failed_opens += 1;
                watcher.line(&format!(
                    "device {}: its process ended while it was opened: {how}",
                    self.pool.slots[index].open.device
                ));
            }
            State::Idle | State::Lost => {
                watcher.line(&format!("device {}: its process ended: {how}", self.pool.slots[index].open.device));
            }
        }
        self.again(index, watcher);
        Ok(())
    }

    /// Starts the child of a place again, unless its device cannot be opened any more.
    fn again(&mut self, index: usize, watcher: &mut dyn Watcher) {
        let device = self.pool.slots[index].open.device.clone();
        if self.pool.slots[index].failed_opens >= MOST_FAILED_OPENS {
            watcher
                .line(&format!("device {device}: given up, it could not be opened {MOST_FAILED_OPENS} times in a row"));
            self.pool.slots[index].state = State::Lost;
        } else if let Err(error) = self.pool.start(index) {
            watcher.line(&format!("device {device}: {error}"));
            self.pool.slots[index].state = State::Lost;
        }
    }

    /// Ends a case whose process is gone.
    fn lost_case(
        &self,
        busy: &Busy<'a>,
        status: Status,
        reason: &str,
        queue: &mut Queue<'a>,
        watcher: &mut dyn Watcher,
    ) -> Result<(), Failure> {
        // A profiler that ends or hangs the process costs the counters and nothing else.
        if let Some(measured) = &busy.measured {
            let mut result = CaseResult { unfinished: status == Status::Skipped, ..CaseResult::clone(measured) };
            result.set_not_counted(reason);
            return watcher.done(&busy.task, result, None);
        }
        let case = CaseResult::new(busy.task.planned);
        let mut result = if status == Status::Skipped { case.unfinished(reason) } else { case.ended(status, reason) };
        result.build.clone_from(&busy.build);
        if let Some(build) = busy.build.as_ref().filter(|_| status != Status::Skipped) {
            let sentence = queue.strike(build, &busy.task.planned.id);
            if queue.len() > 0 {
                watcher.line(&sentence);
            }
        }
        watcher.done(&busy.task, result, None)
    }

    /// Ends what has used up its limit.
    fn watch(&mut self, queue: &mut Queue<'a>, watcher: &mut dyn Watcher) -> Result<(), Failure> {
        let now = Instant::now();
        for index in 0..self.pool.slots.len() {
            let over = |until: &Option<Instant>| until.is_some_and(|until| until <= now);
            match &self.pool.slots[index].state {
                State::Busy(busy) if over(&busy.until) => {
                    let ending = self.pool.end(index, Duration::ZERO);
                    let State::Busy(busy) = std::mem::replace(&mut self.pool.slots[index].state, State::Lost) else {
                        continue;
                    };
                    if busy.interrupted {
                        self.lost_case(&busy, Status::Skipped, "the run was interrupted while it ran", queue, watcher)?;
                    } else {
                        let reason = format!(
                            "it did not go on within {:.1} s while {}, so its process was killed ({ending}); --watchdog \
                             makes the limits longer",
                            busy.limit.as_secs_f64(),
                            busy.stage.doing(),
                        );
                        watcher.wasted(busy.limit);
                        self.lost_case(&busy, Status::Hung, &reason, queue, watcher)?;
                    }
                    self.again(index, watcher);
                }
                State::Opening { until } if over(until) => {
                    let ending = self.pool.end(index, Duration::ZERO);
                    let how = format!("it did not answer in time and was killed ({ending})");
                    self.died(index, &how, queue, watcher)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
