//! Arguments of `kbench counters`.

use super::RunArgs;
use clap::{Args, Subcommand, ValueEnum};
use kbench_counters::Arch;
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
    /// rocprofv3's input file (pmc: lines, or jobs in YAML or JSON): the counters of its jobs
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["pmc", "counters"])]
    pub input: Option<PathBuf>,
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
    /// A set: default, memory, compute, lds, occupancy, all
    #[arg(long, value_name = "SET", conflicts_with_all = ["pmc", "input"])]
    pub counters: Option<String>,
    /// Counters and metrics, with commas between them
    #[arg(long, value_name = "LIST", conflicts_with = "input")]
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
