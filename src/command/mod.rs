//! One module a command.

pub mod ab;
pub mod build;
pub mod compare;
pub mod completions;
pub mod counters;
pub mod devices;
pub mod doctor;
pub mod emu;
pub mod inspect;
pub mod inventory;
mod kept;
pub mod kernels;
mod pairs;
pub mod peaks;
mod probe;
pub mod run;
pub mod selfcheck;
pub mod store;
pub mod worker;

use crate::device::gpu::{Gpu, GpuOptions, NO_GPU};
use crate::device::host::Host;
use crate::device::{Device, DeviceInfo, DeviceSpec, Kind};
use crate::exit::{Exit, Failure, OrExit as _, usage};
use crate::report::Format;
use crate::worker::message::Open;
use crate::worker::{Limits, Program, Supervisor, WorkerError};
use anyhow::Context as _;
use directories::ProjectDirs;
use indicatif::{ProgressBar, ProgressStyle};
use kbench_workload::Fp8Flavor;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Opens the host device.
pub(crate) fn open_host(fp8: Fp8Flavor) -> Host {
    Host::open(fp8, cache_dir())
}

/// Opens a device in this process. `kernels` are the builds to run on a GPU, `candidate` those that they are compared with.
///
/// # Errors
/// When its kernels cannot be read.
pub(crate) fn open_device(
    spec: &DeviceSpec,
    fp8: Fp8Flavor,
    kernels: Option<&Path>,
    candidate: Option<&str>,
    options: GpuOptions,
) -> Result<Box<dyn Device>, Failure> {
    if *spec == DeviceSpec::Host {
        let host = open_host(fp8);
        return Ok(Box::new(match candidate {
            Some(candidate) => {
                let base = kernels.map_or("reference".into(), Path::to_string_lossy);
                host.with_pair(&base, candidate).map_err(usage)?
            }
            None => host,
        }));
    }
    let library = |build: &Path| match build.to_str() {
        Some("builtin") => crate::kernels::builtin(),
        _ => crate::kernels::open(build),
    };
    let base = kernels.map(library).transpose().or_usage()?;
    let gpu = Gpu::of_spec(spec, base, options).or_device()?;
    Ok(Box::new(match candidate {
        Some(candidate) => gpu.with_candidate(library(Path::new(candidate)).or_usage()?),
        None => gpu,
    }))
}

/// Says on stderr which device is used, and what its numbers are.
pub(crate) fn announce(spec: &DeviceSpec, info: &DeviceInfo, no_gpu: bool) {
    let chosen = match spec {
        DeviceSpec::Auto if no_gpu => "no GPU can be driven, so the emulated one is taken: ",
        _ => "",
    };
    let (units, what) = match info.kind {
        Kind::Emu if info.scripted => ("CUs", "times are not measured, they follow a script"),
        Kind::Emu => ("CUs", "times are not measured, bounds and counters are of what was executed"),
        Kind::Hip => ("CUs", "times are measured on the GPU"),
        Kind::Host => ("threads", "the CPU references are timed by the host clock"),
    };
    let _ = writeln!(io::stderr(), "device: {chosen}{}, {}, {} {units}; {what}", info.name, info.arch, info.units);
}

/// Where measured peaks are kept.
fn cache_dir() -> Option<PathBuf> {
    ProjectDirs::from("", "", "kbench").map(|dirs| dirs.cache_dir().to_owned())
}

/// Where the last run is kept, so that an interrupted one is not lost.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let dirs = ProjectDirs::from("", "", "kbench")?;
    dirs.state_dir().map(Path::to_owned)
}

/// The format asked for, or what a file's ending says.
pub(crate) fn format_of(format: Option<Format>, output: Option<&Path>) -> Result<Format, Failure> {
    if let Some(format) = format {
        return Ok(format);
    }
    let Some(path) = output else { return Ok(Format::Table) };
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Ok(Format::Json),
        Some("csv") => Ok(Format::Csv),
        Some("md") => Ok(Format::Md),
        Some("txt") => Ok(Format::Table),
        _ => Err(usage(format!(
            "{}: the ending does not tell the format; end it in .json, .csv, .md or .txt, or give --format",
            path.display()
        ))),
    }
}

/// Opens a device in a child process and says on stderr which it is.
///
/// # Errors
/// When the device cannot be opened.
pub(crate) fn open_worker<'a>(device: &DeviceSpec, limits: Limits, open: Open) -> Result<Supervisor<'a>, Failure> {
    let program = Program::this().context("this program cannot be started again as a worker").or_device()?;
    let supervisor = Supervisor::open(program, open, limits, &mut note).map_err(worker_failure)?;
    let hello = supervisor.hello();
    announce(device, &hello.info, hello.environment.contains_key(NO_GPU));
    Ok(supervisor)
}

/// The failure of a device's process, with its exit code.
pub(crate) fn worker_failure(error: WorkerError) -> Failure {
    let exit = if error.is_usage() { Exit::Usage } else { Exit::Device };
    Failure { exit, error: error.into() }
}

/// A line on stderr.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes a file whole: beside it first, then renamed over it, so that a reader (or a crash) never sees half of it. A link is
/// followed; what is no plain file (a pipe, a device) is written to as it is.
pub(crate) fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let attempt = || -> io::Result<()> {
        if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let mut out = BufWriter::new(File::options().write(true).open(path)?);
            return write(&mut out).and_then(|()| out.flush());
        }
        // A link to a file that is not there yet has no canonical path, but says where to write.
        let linked = || fs::read_link(path).ok().map(|to| path.parent().unwrap_or(Path::new("")).join(to));
        let path = &path.canonicalize().ok().or_else(linked).unwrap_or_else(|| path.to_owned());
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let beside = path.with_file_name(name);
        let mut out = BufWriter::new(File::create(&beside)?);
        let written = write(&mut out).and_then(|()| out.flush());
        drop(out);
        let renamed = written.and_then(|()| fs::rename(&beside, path));
        if renamed.is_err() {
            let _ = fs::remove_file(&beside);
        }
        renamed
    };
    attempt().with_context(|| format!("{} could not be written", path.display())).or_usage()
}

/// The time that a run may take: what was asked for, else what is usual where times are measured; emulated cases end by themselves.
fn time_budget(given: Option<Duration>, usual: Duration, device: &DeviceInfo) -> Duration {
    given.unwrap_or(if device.is_timed() { usual } else { Duration::from_secs(3600) })
}

/// The part of the time until `deadline` that a case gets while `waiting` others wait for `devices`, and all that is left: what
/// quick cases leave over goes to the later ones.
fn part_of_budget(deadline: Instant, waiting: usize, devices: usize) -> (Duration, Duration) {
    let left = deadline.saturating_duration_since(Instant::now());
    let cases = u32::try_from(waiting + 1).unwrap_or(u32::MAX);
    let devices = u32::try_from(devices).unwrap_or(1).min(cases);
    ((left / cases * devices).min(left), left)
}

/// A bar on a terminal; elsewhere nothing is shown.
fn progress_bar(cases: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {msg}");
    let bar = ProgressBar::new(cases).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
