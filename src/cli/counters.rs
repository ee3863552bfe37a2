//! Arguments of `kbench counters`.

use super::RunArgs;
use crate::device::DeviceSpec;
use clap::{Args, Subcommand, ValueEnum};
use kbench_counters::Arch;
use kbench_counters::ring::{self, Size};
use kbench_counters::set::CounterSet;
use std::path::PathBuf;

/// Arguments of `counters`.
#[derive(Args, Debug)]
pub struct CountersArgs {
    /// What to do
    #[command(subcommand)]
    pub command: CountersCommand,
}

/// What `counters` can do.
#[derive(Debug, Subcommand)]
pub enum CountersCommand {
    /// List the counters, metrics and sets of an architecture
    List(CountersListArgs),
    /// Say how many passes a set or list of counters takes, and what is in each
    Plan(CountersPlanArgs),
    /// Count the launches of every case, and time nothing; rocprofv3's files with -d
    #[command(after_help = "\
Examples:
  kbench counters run --shapes decode.csv             the default set
  kbench counters run --shapes decode.csv --pmc FETCH_SIZE,WRITE_SIZE,SQ_LDS_BANK_CONFLICT -d out
                                                      and out/kbench_counter_collection.csv, ..., out/kbench_results.db
  kbench counters run --shapes pa.csv --kernels pa.toml --counters memory
                                                      a code object that has a launch descriptor")]
    Run(Box<CountersRunArgs>),
    /// Read what rocprofv3 collected (counter_collection.csv, or a rocpd database) into metrics
    Import(CountersImportArgs),
}

/// Arguments of `counters run`.
#[derive(Args, Debug)]
pub struct CountersRunArgs {
    /// Also write rocprofv3's files (counter_collection, kernel_trace and agent_info as CSV, and a rocpd database) into this folder
    #[arg(short = 'd', long, value_name = "DIR")]
    pub output_directory: Option<PathBuf>,
    /// rocprofv3's input file (pmc: lines, or jobs in YAML or JSON): the counters of its jobs, of the kernels that they choose
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["pmc", "counters"])]
    pub input: Option<PathBuf>,
    /// Only this job of the input file, from 1 (jobs that choose different kernels are run one by one)
    #[arg(long, value_name = "N", requires = "input", value_parser = clap::value_parser!(u32).range(1..))]
    pub job: Option<u32>,
    /// What is run.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Arguments of `counters list`.
#[derive(Args, Debug)]
pub struct CountersListArgs {
    /// Architecture
    #[arg(long, default_value = "gfx942", value_name = "ARCH")]
    pub arch: Arch,
    /// Ask this device instead of the tables (auto, hip or hip:N, emu or emu:MODEL): what it lists
    #[arg(long, value_name = "DEVICE", conflicts_with = "arch")]
    pub device: Option<DeviceSpec>,
    /// Only counters of these blocks (SQ, TCC, ...)
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub block: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = CountersFormat::Table, value_name = "FORMAT")]
    pub format: CountersFormat,
}

/// Arguments of `counters plan`.
#[derive(Args, Debug)]
pub struct CountersPlanArgs {
    /// Architecture
    #[arg(long, default_value = "gfx942", value_name = "ARCH")]
    pub arch: Arch,
    /// Ask this device instead of the tables (auto, hip or hip:N, emu or emu:MODEL): its profiler confirms the passes
    #[arg(long, value_name = "DEVICE", conflicts_with = "arch")]
    pub device: Option<DeviceSpec>,
    /// A set: default, memory, compute, lds, occupancy, all
    #[arg(long, value_name = "SET", conflicts_with_all = ["pmc", "input"], value_parser = counter_set)]
    pub counters: Option<String>,
    /// Counters and metrics, with commas between them
    #[arg(long, value_name = "LIST", conflicts_with = "input", value_parser = counter_list)]
    pub pmc: Option<String>,
    /// rocprofv3's input file: pmc: lines (.txt), or jobs in YAML or JSON
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = CountersFormat::Table, value_name = "FORMAT")]
    pub format: CountersFormat,
}

/// Arguments of `counters import`.
#[derive(Args, Debug)]
pub struct CountersImportArgs {
    /// counter_collection.csv (one or several passes), or a rocpd database
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// agent_info.csv of the run; by default the one beside each CSV file
    #[arg(long, value_name = "FILE")]
    pub agents: Option<PathBuf>,
    /// Only launches on this agent (the N of `Agent N`); by default the first GPU with launches
    #[arg(long, value_name = "N")]
    pub agent: Option<u32>,
    /// Output format
    #[arg(long, value_enum, default_value_t = CountersFormat::Table, value_name = "FORMAT")]
    pub format: CountersFormat,
}

/// `--format` of `counters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CountersFormat {
    /// Aligned columns for people.
    Table,
    /// One document.
    Json,
}

/// The name of a set.
pub(super) fn counter_set(text: &str) -> Result<String, String> {
    CounterSet::check_name(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// A list of names; which of them there are, the device says.
pub(super) fn counter_list(text: &str) -> Result<String, String> {
    CounterSet::check_list(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// A size that a ring may have.
pub(super) fn ring_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: ring::ParseSizeError| error.to_string())?;
    ring::check(size).map_err(|error| error.to_string())?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_device_could_take_is_refused() {
        assert!(counter_set("memory").is_ok() && counter_set("nope").is_err());
        assert!(counter_list("ANY,NAMES").is_ok() && counter_list(",").is_err());
        for text in ["1KiB", "1TiB", "much"] {
            assert!(ring_size(text).is_err(), "{text}");
        }
        assert_eq!(ring_size("4KiB").unwrap().bytes(), 4096);
    }
}
