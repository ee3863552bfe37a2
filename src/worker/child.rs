//! The child's side: one device, and the cases that the parent sends.

use super::frame::{self, FrameError, VERSION};
use super::message::{Finished, Hello, Job, Notice, Open, Refused, ToChild, ToParent};
use crate::command::open_device;
use crate::counters::{Counting, NotCounted, Request, What};
use crate::device::gpu::GpuOptions;
use crate::device::{Device, DeviceSpec};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, usage};
use crate::report::document::BuildDoc;
use crate::runner::{self, Watch};
use anyhow::Context as _;
use kbench_counters::ring::{MIN_SIZE, Size};
use rustix::process::{Signal, getpid, kill_process};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

/// How long a worker whose parent is gone may take to end by itself.
const ORPHANED: Duration = Duration::from_secs(2);

/// Serves the parent on standard input and output until it says stop or is gone.
///
/// # Errors
/// When the pipes are none, or the parent's messages cannot be read.
pub fn serve() -> Outcome {
    let (input, output) = take_pipes().context("the pipes of the worker could not be set up").or_device()?;
    let mut input = BufReader::new(input);
    let open = first(&mut input)?;
    // Before any thread is started: making this process the SDK's tool sets environment variables.
    let counting = configured(&open);
    let stop = Arc::new(AtomicBool::new(false));
    let (letters, inbox) = mpsc::channel();
    let interrupt = Arc::clone(&stop);
    thread::Builder::new()
        .name("pipe".into())
        .spawn(move || read_letters(input, letters, &interrupt))
        .context("the thread that reads the parent's messages could not be started")
        .or_device()?;
    let mut out = BufWriter::new(output);
    match serve_parent(&open, counting, &inbox, &mut out, &stop) {
        // The parent is gone or does not listen: nobody is left to tell.
        Err(Failure { error, .. }) if error.downcast_ref::<FrameError>().is_some_and(is_closed) => Ok(Exit::Ok),
        outcome => outcome.map(|()| Exit::Ok),
    }
}

fn is_closed(error: &FrameError) -> bool {
    matches!(error, FrameError::Io { cause } if cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Standard input and output under other numbers. What a library prints to number 1 goes to stderr from now on, and what
/// one reads from number 0 is empty, so that neither disturbs the messages.
fn take_pipes() -> io::Result<(File, File)> {
    end_with_parent();
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((input, output))
}

/// Asks the kernel to kill this process when the parent dies. The end of the pipe tells it too, but not inside a driver
/// call; and where the parent died before this line, only the pipe tells.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

/// Reads the parent's messages; an interrupt takes effect at once, whatever the main thread is doing.
fn read_letters(mut input: BufReader<File>, letters: Sender<Result<ToChild, FrameError>>, stop: &AtomicBool) {
    loop {
        match frame::receive::<ToChild>(&mut input) {
            Ok(Some(ToChild::Interrupt)) => stop.store(true, Ordering::SeqCst),
            Ok(Some(ToChild::Stop)) => {
                let _ = letters.send(Ok(ToChild::Stop));
                return;
            }
            Ok(Some(letter)) => {
                if letters.send(Ok(letter)).is_err() {
                    return;
                }
            }
            Ok(None) => return end_soon(letters, stop),
            Err(error) => {
                let _ = letters.send(Err(error));
                return;
            }
        }
    }
}

/// The parent has ended without a word. The main thread may be inside a driver, where no exit handler gets through: it has
/// some time to end, then the process is killed.
fn end_soon(letters: Sender<Result<ToChild, FrameError>>, stop: &AtomicBool) {
    stop.store(true, Ordering::SeqCst);
    drop(letters);
    thread::sleep(ORPHANED);
    let _ = kill_process(getpid(), Signal::KILL);
}

type Inbox = Receiver<Result<ToChild, FrameError>>;

/// The parent's first message: which device.
fn first(input: &mut BufReader<File>) -> Outcome<Open> {
    match frame::receive::<ToChild>(input).context("the first message of the parent").or_device()? {
        Some(ToChild::Open(open)) => Ok(*open),
        _ => Err(usage("`kbench worker` is started by kbench itself: it opens a device and runs cases on it")),
    }
}

/// The profiler, where something is to be counted or asked of counters.
fn configured(open: &Open) -> Counting {
    let to_ask = || Request { ring_size: Size::from_bytes(MIN_SIZE), ..Request::new(What::List(String::new())) };
    let request = open.counters.clone().or_else(|| open.survey.is_some().then(to_ask));
    match spec(open) {
        Ok(spec) => Counting::configure(request, &spec),
        Err(_) => Counting::Off,
    }
}

fn serve_parent(
    open: &Open,
    mut counting: Counting,
    inbox: &Inbox,
    out: &mut dyn Write,
    stop: &AtomicBool,
) -> Outcome<()> {
    let mut device = match opened(open) {
        Ok(device) => device,
        Err(Failure { exit, error }) => {
            let refused = Refused { usage: exit == Exit::Usage, message: format!("{error:#}") };
            return say(out, &ToParent::Refused(refused));
        }
    };
    let surveyed = match open.survey.as_ref().map(|survey| counting.survey(device.as_ref(), survey)).transpose() {
        Ok(surveyed) => surveyed.map(Box::new),
        Err(why) => return say(out, &refused(why)),
    };
    if let Some(request) = &open.counters {
        counting.attach(device.as_ref());
        // Where nothing else is wanted, no case need run without counters.
        if let (true, Some(why)) = (request.only_count, counting.failure()) {
            return say(out, &refused(why.clone()));
        }
    }
    let hello = Hello {
        surveyed,
        version: VERSION,
        info: device.info().clone(),
        environment: device.environment().into_iter().collect(),
        others: device.others(),
    };
    say(out, &ToParent::Hello(Box::new(hello)))?;
    while let Some(letter) = next(inbox)? {
        match letter {
            ToChild::Peaks => {
                let answer = match device.peaks() {
                    Ok(peaks) => ToParent::Peaks(peaks),
                    Err(error) => ToParent::Refused(Refused { usage: false, message: error.to_string() }),
                };
                say(out, &answer)?;
            }
            ToChild::Job(job) => run(&job, device.as_mut(), &mut counting, out, stop)?,
            ToChild::Interrupt => {}
            ToChild::Open(_) => return Err(usage("a second device was asked for")),
            ToChild::Stop => break,
        }
    }
    Ok(())
}

fn refused(why: NotCounted) -> ToParent {
    ToParent::Refused(Refused { usage: why.is_usage, message: why.reason })
}

/// The parent's next message; `None` when it has none any more.
fn next(inbox: &Inbox) -> Outcome<Option<ToChild>> {
    inbox.recv().ok().transpose().context("a message of the parent").or_device()
}

fn say(out: &mut dyn Write, message: &ToParent) -> Outcome<()> {
    frame::send(out, message).or_device()
}

fn opened(open: &Open) -> Outcome<Box<dyn Device>> {
    if open.version != VERSION {
        return Err(usage(format!(
            "the parent speaks version {} of the messages, this program {VERSION}",
            open.version
        )));
    }
    let options = GpuOptions { sample: open.emu_sample, flush_icache: open.flush_icache };
    open_device(&spec(open)?, open.fp8, open.kernels.as_deref(), open.candidate.as_deref(), options)
}

fn spec(open: &Open) -> Outcome<DeviceSpec> {
    open.device.parse().map_err(usage)
}

/// Runs a case and tells how it goes.
fn run(
    job: &Job,
    device: &mut dyn Device,
    counting: &mut Counting,
    out: &mut dyn Write,
    stop: &AtomicBool,
) -> Outcome<()> {
    let mut teller = Teller { out, avoid: &job.avoid, avoided: None, failed: None };
    let planned = job.planned();
    let (case, pair) = match &job.settings.pair {
        Some(rule) => runner::run_pair(device, &planned, &job.peaks, &job.settings, rule, &mut teller, stop),
        None => (runner::run_case(device, &planned, &job.peaks, &job.settings, counting, &mut teller, stop), None),
    };
    let Teller { avoided, failed, .. } = teller;
    for sentence in device.release_errors() {
        // A closed stderr costs the line alone.
        let _ = writeln!(io::stderr(), "{}: {sentence}", job.id);
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    let answer = match avoided {
        Some(build) => ToParent::Avoided { number: job.number, build },
        None => {
            let spent = device.is_spent();
            ToParent::Result(Box::new(Finished { number: job.number, case, pair, spent }))
        }
    };
    say(out, &answer)
}

/// Tells the parent each stage.
struct Teller<'a> {
    out: &'a mut dyn Write,
    avoid: &'a [String],
    avoided: Option<BuildDoc>,
    /// The pipe failed: nothing more is told, and the worker ends after the case.
    failed: Option<Failure>,
}

impl Watch for Teller<'_> {
    fn notice(&mut self, notice: Notice) {
        if self.failed.is_none() {
            self.failed = say(self.out, &ToParent::Stage(notice)).err();
        }
    }

    fn admits(&mut self, build: &BuildDoc) -> bool {
        let avoided = self.avoid.contains(&build.key());
        if avoided {
            self.avoided = Some(build.clone());
        }
        !avoided
    }
}
