//! `kbench counters run`: every case counted, nothing timed.

use super::jobs;
use crate::cli::CountersRunArgs;
use crate::command::run::{Counts, run_with};
use crate::counters::{NotCounted, Request, What};
use crate::device::DeviceSpec;
use crate::exit::{Exit, Failure, OrExit as _, Outcome, usage};
use anyhow::{Context as _, anyhow};
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
    if args.run.on.device == DeviceSpec::Host {
        return Err(usage(NotCounted::host().reason));
    }
    let asked = match &args.input {
        Some(path) => {
            let (what, kernels) = jobs::request(path, args.job)?;
            Request { kernels, ..Request::new(what) }
        }
        None => args.run.counters().unwrap_or_else(|| Request::new(What::Set(DEFAULT_SET.to_owned()))),
    };
    let request = Request {
        repeats: args.run.pmc_repeats,
        ring_size: args.run.ring_size,
        ring_policy: args.run.ring_policy,
        only_count: true,
        keep_records: args.output_directory.is_some(),
        ..asked
    };
    let mut counts = Counts::default();
    let outcome = run_with(&args.run, Some(request), &mut counts);
    let no_file = args.output_directory.as_ref().map(|folder| format!("; no file was written to {}", folder.display()));
    let no_file = no_file.unwrap_or_default();
    let exit = outcome.map_err(|failure| match failure.exit {
        Exit::Device => Failure { error: anyhow!("{:#}{no_file}", failure.error), ..failure },
        _ => failure,
    })?;
    if let (Some(folder), Some(records)) = (&args.output_directory, counts.records.take()) {
        write(folder, records)?;
    } else if exit == Exit::Ok && counts.cases > 0 && counts.counted == 0 {
        // Counters were all that was wanted.
        let why = counts.why.unwrap_or_default();
        return Err(anyhow!("no case has counters: {why}{no_file}")).or_device();
    }
    Ok(exit)
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
