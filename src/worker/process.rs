//! One child process: its pipes, the threads that serve them, and its end.

use super::frame::{self, FrameError};
use super::message::{ToChild, ToParent};
use crate::counters::{DEVICE_NOT_LOCKED, is_of_device_lock};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, BufWriter, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Lines of stderr that are kept for the reason of a failure.
const KEPT_LINES: usize = 6;

/// A longer line of stderr is broken.
const LONGEST_LINE: u64 = 4096;

/// How long a killed process may take to end. In a driver call that cannot be interrupted it does not.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait for the last lines of stderr of a process that has ended.
const STDERR_PATIENCE: Duration = Duration::from_millis(500);

/// How a child is started.
#[derive(Clone, Debug)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// This very program as a worker.
    ///
    /// # Errors
    /// When the system does not tell what this program is.
    pub fn this() -> io::Result<Self> {
        let path = std::env::current_exe()?;
        // A program that was replaced while it runs is still there under this name.
        let path = if path.exists() { path } else { PathBuf::from("/proc/self/exe") };
        Ok(Self { path, arguments: vec!["worker".into()] })
    }
}

/// What comes from a child.
#[derive(Debug)]
pub(super) struct Event {
    /// Which of the supervisor's places.
    pub(super) slot: usize,
    /// Which child in that place, counted up with each start: what an earlier one left in the queue is told from it.
    pub(super) generation: u64,
    /// What.
    pub(super) what: What,
}

/// See [`Event`].
#[derive(Debug)]
pub(super) enum What {
    /// A message.
    Message(Box<ToParent>),
    /// A line of stderr.
    Line(String),
    /// Its pipe is of no further use.
    Broken(FrameError),
    /// Its pipe has ended.
    End,
}

/// How a child ended.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    /// `signal 6 (SIGABRT)`, `exit code 101`, ...
    pub(super) how: String,
    /// The last lines of its stderr.
    pub(super) last_words: Vec<String>,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.how)?;
        match self.last_words.as_slice() {
            [] => f.write_str("; it wrote nothing to stderr"),
            lines => write!(f, "; its last words: {}", lines.join(" | ")),
        }
    }
}

/// A running child in a process group of its own. Dropping it kills the group.
pub(super) struct Process {
    child: Child,
    pid: Option<Pid>,
    /// Messages for the thread that writes them: a child that does not read must not block the supervisor.
    outbox: Option<Sender<ToChild>>,
    tail: Arc<Mutex<VecDeque<String>>>,
    stderr: Option<JoinHandle<()>>,
    reaped: Option<ExitStatus>,
}

impl Process {
    /// Starts a child whose messages go to `events`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(
        program: &Program,
        slot: usize,
        generation: u64,
        events: &SyncSender<Event>,
    ) -> io::Result<Self> {
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut process = Self { child, pid, outbox: None, tail: Arc::default(), stderr: None, reaped: None };
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(io::Error::other("the child has no pipes"));
        };
        let (outbox, letters) = mpsc::channel();
        process.outbox = Some(outbox);
        let post = Post { slot, generation, events: events.clone() };
        let reader = post.clone();
        let heard = Heard { stderr: stderr.as_fd().try_clone_to_owned()?, no_device_lock: Arc::default() };
        let no_device_lock = Arc::clone(&heard.no_device_lock);
        thread::Builder::new().name("worker-in".into()).spawn(move || write_letters(stdin, &letters))?;
        thread::Builder::new().name("worker-out".into()).spawn(move || read_messages(stdout, &reader, &heard))?;
        let tail = Arc::clone(&process.tail);
        let read = move || read_lines(stderr, &post, &tail, &no_device_lock);
        process.stderr = Some(thread::Builder::new().name("worker-err".into()).spawn(read)?);
        Ok(process)
    }

    /// Sends a message. That a child does not take it shows in its end or by the watchdog.
    pub(super) fn send(&self, message: ToChild) {
        if let Some(outbox) = &self.outbox {
            let _ = outbox.send(message);
        }
    }

    /// Asks the child to end; [`Process::end`] sees to it.
    pub(super) fn ask_to_end(&mut self) {
        self.send(ToChild::Stop);
        self.outbox = None;
    }

    /// Waits for the child to end by itself, kills its group if it does not, and says how it ended.
    pub(super) fn end(&mut self, patience: Duration) -> Ending {
        self.outbox = None;
        let ended = self.wait(patience);
        // What it started must not outlive it either.
        self.kill();
        let how = match ended.or_else(|| self.wait(KILL_PATIENCE)) {
            Some(status) => how(status),
            None => "SIGKILL, which it has not obeyed yet: it is stuck in the operating system or a driver".to_owned(),
        };
        let until = Instant::now() + STDERR_PATIENCE;
        while self.stderr.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        Ending { how, last_words: tail.iter().cloned().collect() }
    }

    /// Kills the child and what it has started, once: later its number may be another's.
    fn kill(&mut self) {
        if let Some(pid) = self.pid.take() {
            // It fails when there is nobody left in the group.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        if self.reaped.is_none() {
            let _ = self.child.kill();
        }
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            if self.reaped.is_none() {
                self.reaped = self.child.try_wait().ok().flatten();
            }
            if self.reaped.is_some() || Instant::now() >= until {
                return self.reaped;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.outbox = None;
        self.kill();
        self.wait(KILL_PATIENCE);
    }
}

/// Where a thread reports to.
#[derive(Clone)]
struct Post {
    slot: usize,
    generation: u64,
    events: SyncSender<Event>,
}

impl Post {
    /// False when nobody listens any more.
    fn send(&self, what: What) -> bool {
        self.events.send(Event { slot: self.slot, generation: self.generation, what }).is_ok()
    }
}

fn write_letters(stdin: ChildStdin, letters: &mpsc::Receiver<ToChild>) {
    let mut out = BufWriter::new(stdin);
    // A closed pipe is a child that has ended: the other side of the pipe says so.
    while let Ok(letter) = letters.recv() {
        if frame::send(&mut out, &letter).is_err() {
            return;
        }
    }
}

/// What a child's results are to say of lines on its stderr: some things a library tells only there.
struct Heard {
    /// The pipe, to see whether all of it was read.
    stderr: OwnedFd,
    /// rocprofiler-sdk could not lock the device.
    no_device_lock: Arc<AtomicBool>,
}

impl Heard {
    /// Adds it to the counters of a result. The line came before the result, on a pipe that another thread reads: that thread is
    /// waited for until the pipe is empty, and for the moment that it needs to look at what it has taken.
    fn add_to(&self, message: &mut ToParent) {
        let ToParent::Result(finished) = message else { return };
        let Some(counting) = finished.case.counting.as_mut().filter(|counting| counting.failed.is_none()) else {
            return;
        };
        let until = Instant::now() + STDERR_PATIENCE;
        while rustix::io::ioctl_fionread(&self.stderr).is_ok_and(|bytes| bytes > 0) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(2));
        if self.no_device_lock.load(Ordering::SeqCst) {
            counting.incomplete.push(DEVICE_NOT_LOCKED.to_owned());
        }
    }
}

fn read_messages(stdout: ChildStdout, post: &Post, heard: &Heard) {
    let mut input = BufReader::new(stdout);
    loop {
        let what = match frame::receive::<ToParent>(&mut input) {
            Ok(Some(mut message)) => {
                heard.add_to(&mut message);
                What::Message(Box::new(message))
            }
            Ok(None) => What::End,
            Err(error) => What::Broken(error),
        };
        let last = !matches!(what, What::Message(_));
        if !post.send(what) || last {
            return;
        }
    }
}

fn read_lines(stderr: ChildStderr, post: &Post, tail: &Mutex<VecDeque<String>>, no_device_lock: &AtomicBool) {
    let mut input = BufReader::new(stderr);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        if line.is_empty() {
            continue;
        }
        if is_of_device_lock(&line) {
            no_device_lock.store(true, Ordering::SeqCst);
        }
        {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.len() == KEPT_LINES {
                tail.pop_front();
            }
            tail.push_back(line.clone());
        }
        // The pipe is emptied whether somebody listens or not: a child must not block on it, and its last words must be
        // there when its end is waited for. Of a flood, what finds no room is only kept in the tail.
        let event = Event { slot: post.slot, generation: post.generation, what: What::Line(line) };
        let _ = post.events.try_send(event);
    }
}

/// The end of a process in words.
fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => match signal_name(signal) {
            Some(name) => format!("signal {signal} ({name})"),
            None => format!("signal {signal}"),
        },
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => status.to_string(),
    }
}

/// Names of the signals that end processes (Linux numbers).
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}
