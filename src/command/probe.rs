//! Asking HIP what it sees, in a child process: a driver that hangs or aborts costs the answer, not kbench.

use kbench_hip::{Compiler, Device, HipError, Runtime};
use kbench_system::{Duplicate, Root, mapped_libraries};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// HIP's first call can take many seconds on a machine with eight GPUs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Stands before the answer: HIP's own libraries also write to standard output.
const MARK: &str = "kbench-probe: ";
/// An answer is a few kB; what a driver logs beyond this is not kept.
const OUTPUT_LIMIT: u64 = 4 << 20;

/// What HIP said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HipProbe {
    /// The library that was loaded.
    pub library: Option<PathBuf>,
    /// Its runtime version.
    pub runtime_version: Option<String>,
    /// Its driver version.
    pub driver_version: Option<String>,
    /// Why it could not be loaded or sees no device.
    pub error: Option<String>,
    /// It works, but there is no GPU (`hipErrorNoDevice`).
    pub no_device: bool,
    /// GPUs.
    pub devices: Vec<HipDevice>,
    /// Dispatches can be timed one by one (`hipExtModuleLaunchKernel`).
    pub times_dispatches: Option<bool>,
    /// The hiprtc that was loaded.
    pub hiprtc: Option<PathBuf>,
    /// Its version.
    pub hiprtc_version: Option<String>,
    /// Why it could not be loaded.
    pub hiprtc_error: Option<String>,
    /// Libraries of which loading them brought two files.
    pub duplicates: Vec<Duplicate>,
}

/// A GPU as HIP describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HipDevice {
    pub index: u32,
    pub name: Option<String>,
    pub arch: Option<String>,
    pub compute_units: Option<u32>,
    pub xccs: Option<u32>,
    pub memory_total_bytes: Option<u64>,
    pub memory_free_bytes: Option<u64>,
    pub clock_khz: Option<u32>,
    pub memory_clock_khz: Option<u32>,
    pub pci: Option<String>,
    pub uuid: Option<String>,
    /// The first thing that HIP would not say.
    pub error: Option<String>,
}

/// Asks in this process and prints the answer, for [`ask`].
pub(crate) fn answer() -> io::Result<()> {
    let text = serde_json::to_string(&probe())?;
    let mut out = io::stdout().lock();
    writeln!(out, "\n{MARK}{text}")?;
    out.flush()
}

fn probe() -> HipProbe {
    let mut found = HipProbe::default();
    let opened = Runtime::open();
    // hiprtc out of another installation would bring a second HIP, and the finding of it.
    let compiler = match &opened {
        Ok(runtime) => Compiler::open_with(runtime),
        Err(_) => Compiler::open(),
    };
    match opened {
        Ok(runtime) => {
            found.library = Some(runtime.library().to_owned());
            found.runtime_version = runtime.runtime_version().ok().map(|version| version.to_string());
            found.driver_version = runtime.driver_version().ok().map(|version| version.to_string());
            found.times_dispatches = Some(runtime.has_launch_timed());
            match runtime.device_count() {
                Ok(count) => found.devices = (0..count).map(|index| describe(&runtime, index)).collect(),
                Err(error) => (found.no_device, found.error) = (error.no_device(), Some(error.to_string())),
            }
        }
        Err(error) => found.error = Some(error.to_string()),
    }
    match compiler {
        Ok(compiler) => {
            found.hiprtc = Some(compiler.library().to_owned());
            found.hiprtc_version = compiler.version().ok().map(|(major, minor)| format!("{major}.{minor}"));
        }
        Err(error) => found.hiprtc_error = Some(error.to_string()),
    }
    found.duplicates = Duplicate::among(&mapped_libraries(&Root::system()));
    found
}

fn describe(runtime: &Runtime, index: u32) -> HipDevice {
    let mut found = HipDevice { index, ..HipDevice::default() };
    let device = match runtime.device(index) {
        Ok(device) => device,
        Err(error) => return HipDevice { error: Some(error.to_string()), ..found },
    };
    let mut error = None;
    found.name = said(&mut error, device.name()).filter(|name| !name.is_empty());
    found.arch = said(&mut error, device.arch_with_features());
    found.compute_units = said(&mut error, device.compute_units()).flatten();
    found.xccs = said(&mut error, device.xccs()).flatten();
    found.memory_total_bytes = said(&mut error, device.total_memory());
    found.memory_free_bytes = said(&mut error, Device::mem_info(&device)).map(|(free, _total)| free);
    found.clock_khz = said(&mut error, device.clock_khz()).flatten();
    found.memory_clock_khz = said(&mut error, device.memory_clock_khz()).flatten();
    found.pci = said(&mut error, device.pci_bus_id());
    found.uuid = said(&mut error, device.uuid()).flatten().map(|uuid| uuid.to_string());
    found.error = error;
    found
}

/// An answer, or nothing, with the first error kept.
fn said<T>(first: &mut Option<String>, answer: Result<T, HipError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            first.get_or_insert(error.to_string());
            None
        }
    }
}

/// Asks in a child process.
///
/// # Errors
/// A paragraph on what became of the child.
pub(crate) fn ask() -> Result<HipProbe, String> {
    let program = std::env::current_exe().map_err(|error| format!("kbench's own file cannot be found: {error}"))?;
    let mut child = Command::new(program)
        .args(["doctor", "--probe"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("a process to ask HIP in could not be started: {error}"))?;
    let (out, log) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let status = wait(&mut child, Instant::now() + PATIENCE);
    let status = status.map_err(|error| format!("waiting for the process that asks HIP failed: {error}"))?;
    let Some(status) = status else {
        return Err(format!(
            "HIP did not answer within {} s; the process that asked it was killed. A GPU that hangs may need a reset",
            PATIENCE.as_secs()
        ));
    };
    let (out, log) = (out.join().unwrap_or_default(), log.join().unwrap_or_default());
    let answer = out.lines().find_map(|line| line.strip_prefix(MARK));
    match answer.map(serde_json::from_str) {
        Some(Ok(probe)) => Ok(probe),
        Some(Err(error)) => Err(format!("the answer of the process that asks HIP cannot be read: {error}")),
        None => Err(died(status, &log)),
    }
}

/// What ended a child that gave no answer.
fn died(status: ExitStatus, log: &str) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("ended with code {code}"),
        (None, None) => "ended".to_owned(),
    };
    let last = log.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.map(|line| format!("; its last line was `{}`", line.trim())).unwrap_or_default();
    format!("HIP's library {how} when it was asked for its devices{last}")
}

/// Reads a pipe to its end in a thread, so that a child that writes much is never blocked.
fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ended_early = pipe.by_ref().take(OUTPUT_LIMIT).read_to_end(&mut bytes);
            let _ended_early = io::copy(&mut pipe, &mut io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits until the deadline, then kills; nothing for a child that was killed.
fn wait(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_hangs_is_killed_at_the_deadline() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let begin = Instant::now();
        assert_eq!(wait(&mut child, begin + Duration::from_millis(50)).unwrap(), None);
        assert!(begin.elapsed() < Duration::from_secs(60));
        assert!(child.try_wait().unwrap().is_some(), "it is gone");
    }

    #[test]
    fn an_abort_is_told_with_the_last_line_of_the_log() {
        let output =
            Command::new("sh").args(["-c", "echo first; echo Assertion failed >&2; kill -ABRT $$"]).output().unwrap();
        let text = died(output.status, &String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("signal 6") && text.contains("`Assertion failed`"), "{text}");
    }
}
