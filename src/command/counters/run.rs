//! `kbench counters run`: every case counted, nothing timed.

use crate::cli::CountersRunArgs;
use crate::counters::{Request, What};
use crate::exit::{Failure, OrExit as _, Outcome, usage};
use anyhow::Context as _;
use kbench_counters::input;
use kbench_counters::rocprofv3::{self, Run, rocpd};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The set that is counted where none is asked for.
const DEFAULT_SET: &str = "default";

/// Runs, and writes rocprofv3's files.
///
/// # Errors
/// As a run; and when a file cannot be read or written.
pub(super) fn run(args: &CountersRunArgs) -> Outcome {
    let asked = match &args.input {
        Some(path) => Some(Request::new(What::List(of_jobs(path)?))),
        None => args.run.counters(),
    };
    let request = asked.unwrap_or_else(|| Request::new(What::Set(DEFAULT_SET.to_owned())));
    let request = Request {
        repeats: args.run.pmc_repeats,
        ring_size: args.run.ring_size,
        ring_policy: args.run.ring_policy,
        only_count: true,
        keep_records: args.output_directory.is_some(),
        ..request
    };
    let mut records = None;
    let exit = crate::command::run::run_with(&args.run, Some(request), &mut records)?;
    if let (Some(folder), Some(records)) = (&args.output_directory, records) {
        write(folder, records)?;
    }
    Ok(exit)
}

/// The counters of an input file's jobs, each once.
fn of_jobs(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string()).or_usage()?;
    let name = path.display().to_string();
    let format = input::Format::of(&name).or_usage()?;
    let jobs = input::parse(&name, format, &text).or_usage()?;
    let mut names: Vec<&str> = Vec::new();
    for name in jobs.iter().flat_map(|job| job.groups.iter().flatten()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Err(usage(format!("{}: no job asks for a counter", path.display())));
    }
    Ok(names.join(","))
}

/// Bits that no other run of this machine has: the time and the process.
fn unique() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() << 32 | u128::from(std::process::id())
}

fn write(folder: &Path, mut run: Run) -> Result<(), Failure> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string()).or_usage()?;
    run.process.hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    run.process.command = std::env::args().collect::<Vec<_>>().join(" ");
    let file = |name: &str| folder.join(format!("kbench_{name}"));
    rocprofv3::write_counter_collection(&file("counter_collection.csv"), &run).or_usage()?;
    rocprofv3::write_kernel_trace(&file("kernel_trace.csv"), &run).or_usage()?;
    rocprofv3::write_agent_info(&file("agent_info.csv"), &run).or_usage()?;
    rocpd::write(&file("results.db"), &run, rocpd::Guid::new(unique()), None).or_usage()?;
    crate::command::note(&format!("{} dispatches written to {}", run.dispatches.len(), folder.display()));
    Ok(())
}
