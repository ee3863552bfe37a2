//! One module a command.

pub mod build;
pub mod completions;
pub mod counters;
pub mod emu;
pub mod inspect;
pub mod inventory;
pub mod kernels;
pub mod peaks;
pub mod run;

use crate::device::emu::Emu;
use crate::device::host::Host;
use crate::device::{DEFAULT_MODEL, Device, DeviceSpec};
use crate::exit::{Failure, OrExit as _, usage};
use crate::report::Format;
use anyhow::Context as _;
use directories::ProjectDirs;
use kbench_workload::Fp8Flavor;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Opens the host device.
pub(crate) fn open_host(fp8: Fp8Flavor) -> Host {
    Host::open(fp8, cache_dir())
}

/// Opens a device; says on stderr which it is when it is emulated. `kernels` are the builds to run on a GPU.
///
/// # Errors
/// When its kernels cannot be read.
pub(crate) fn open_device(
    spec: &DeviceSpec,
    fp8: Fp8Flavor,
    kernels: Option<&Path>,
    sample: Option<u64>,
) -> Result<Box<dyn Device>, Failure> {
    let model = match spec {
        DeviceSpec::Host => return Ok(Box::new(open_host(fp8))),
        DeviceSpec::Auto => DEFAULT_MODEL,
        DeviceSpec::Emu(model) => model,
    };
    let library = kernels.map(crate::kernels::open).transpose().or_usage()?;
    let emu = Emu::open(model, library, sample).or_device()?;
    let chosen = if *spec == DeviceSpec::Auto { "no GPU can be driven, so the emulated one is taken: " } else { "" };
    let info = emu.info();
    let _ = writeln!(
        io::stderr(),
        "device: {chosen}{}, {}, {} CUs; times are not measured, bounds and counters are of what was executed",
        info.name,
        info.arch,
        info.units
    );
    Ok(Box::new(emu))
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

/// Writes a file whole: beside it first, then renamed over it, so that a reader (or a crash) never sees half of it.
pub(crate) fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let attempt = || -> io::Result<()> {
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
