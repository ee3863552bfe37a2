//! Arguments of every command.

use super::ab::{AbArgs, SelfcheckArgs};
use super::compare::CompareArgs;
use super::counters::{CountersArgs, counter_list, counter_set, ring_size};
use super::doctor::{DevicesArgs, DoctorArgs};
use super::emu::EmuArgs;
use super::kernels::{BuildArgs, KernelsArgs};
use super::select::{DeviceArgs, SelectArgs};
use super::store::{ExportArgs, HistoryArgs, ImportArgs, PruneArgs, ShowArgs, StoreFile};
use crate::counters::{DEFAULT_REPEATS, Request, What};
use crate::device::DeviceSpec;
use crate::measure::Cache;
use crate::report::Format;
use clap::{Args, Parser, Subcommand, ValueEnum};
use kbench_counters::ring::{Policy, Size};
use kbench_profile::{Phase, ReadOptions, StepRange};
use kbench_store::RunName;
use kbench_workload::Fp8Flavor;
use regex::Regex;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kbench --shapes examples/gptoss20b_decode.csv            replay an inventory, print a table
  kbench --shapes tracelens_report/ --top 10 -o run.json   the ten heaviest cases of a TraceLens report
  kbench --shapes rank_0.pt.trace.json.gz --model config.json --tp 8
                                                           a PyTorch trace, shapes from step labels and model
  kbench --shapes kernels.csv --family gemm --cache both   only GEMMs, cold and warm
  kbench --shapes kernels.csv --dry-run --explain          what would run, with every formula
  kbench inventory tracelens_report/ -o inventory.csv      a profile as kbench's own CSV
  kbench peaks                                             this device's measured peaks

A hand-written inventory needs four columns:
  family,dtype,shape,calls
  gemm,bf16,m=16 n=2048 k=4096,48

Exit codes: 0 fine, 1 regression, 2 bad usage or input, 3 inconclusive (--strict), 4 wrong results,
5 device or tool failure, 130 interrupted (what was measured is written).";

/// Replays the hot GPU kernels of an LLM serving profile alone, at the very shapes the profile saw, and says how long
/// each takes and how far that is from what the hardware could do.
#[derive(Debug, Parser)]
#[command(name = "kbench", version = version(), after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// The command; `run` when there is none.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Arguments of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

fn version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("KBENCH_COMMIT"), ")")
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replay an inventory or profile (the default command)
    #[command(after_help = EXAMPLES)]
    Run(Box<RunArgs>),
    /// Read a profile and print or write its inventory
    #[command(after_help = "\
Examples:
  kbench inventory tracelens_report/                  kernels, shapes, coverage and health as a table
  kbench inventory conc16_layer.csv --format json     the same as a document
  kbench inventory kernel_trace.csv -o inventory.csv  kbench's own CSV, accepted by --shapes
  kbench inventory trace.json.gz --steps              forward passes: times, tokens, attention work
  kbench inventory trace.json.gz --phase decode -o PROFILE.md
                                                      where the time of decoding goes, as a summary")]
    Inventory(InventoryArgs),
    /// Measure this device's peaks and keep them
    Peaks(PeaksArgs),
    /// Show the kernels, resources and occupancy of a code object, or compare two
    #[command(after_help = "\
Examples:
  kbench inspect gemm.co                              kernels, registers, LDS, occupancy
  kbench inspect libattention.so --target gfx942      the code objects for gfx942 inside a host library
  kbench inspect new.co --compare old.co              what a change of source or compiler did to each kernel
  kbench inspect fmha.co --kernel fwd --block 512 --lds 16384
                                                      one kernel in full, its occupancy with dynamic LDS")]
    Inspect(InspectArgs),
    /// Compile kernels into a folder that --kernels takes
    #[command(after_help = "\
Examples:
  kbench build -o build                               for gfx942, with the compiler that is found
  kbench build --arch gfx942,gfx90a --compiler clang-20 -o build
  kbench build --flags=-mllvm --flags=-amdgpu-early-inline-all=false -o candidate
  kbench build --arch gfx950 --compiler zig:.venv/lib/python3.11/site-packages/ziglang/zig -o build
  kbench build --arch gfx942 --compiler clang-19 -o kernels/prebuilt
                                                      refresh the code objects that are checked in")]
    Build(BuildArgs),
    /// List kernels, or say which one would run a case and why the others would not, or check a launch descriptor
    #[command(after_help = "\
Examples:
  kbench kernels                                      what is in the program
  kbench kernels list --kernels build --format json   what is in a build folder, as a document
  kbench kernels list --shapes decode.csv --arch gfx942
                                                      which build runs each case, and why the others do not
  kbench kernels check pa.toml pa_bf16.co             a launch descriptor against a code object")]
    Kernels(KernelsArgs),
    /// Hardware counters: what there is, how many passes a request takes, and runs of rocprofv3 as metrics
    #[command(after_help = "\
Examples:
  kbench counters list --arch gfx950                  counters, metrics and sets
  kbench counters plan --pmc FETCH_SIZE,WRITE_SIZE    the passes that it takes, and why
  kbench counters plan --arch gfx90a -i input.yaml    the same for rocprofv3's input file
  kbench counters import out_counter_collection.csv   what rocprofv3 collected, as metrics")]
    Counters(CountersArgs),
    /// Run one kernel of any code object on an emulated GPU: buffers from and to files, counters and a bound on time
    #[command(after_help = "\
Examples:
  kbench emu axpy.co --kernel axpy --grid 40 --block 256 --arg in:x.bin --arg inout:y.bin:out.bin --arg f32:2 --arg u32:10000
  kbench emu pa.co --grid 8,64 --block 256 --kernarg-size 272 --arg @0=out:1048576:o.bin --arg @16=in:q.bin ...
                                                      a hand-written kernel with padded argument slots
  kbench emu k.co --grid 1 --block 64 --trace         every instruction that is executed")]
    Emu(EmuArgs),
    /// Say what this machine has for driving GPUs, what is missing, and what to do about it
    #[command(after_help = "\
Exit codes: 0 when nothing is broken (a machine without a GPU is not), 5 when something is there that cannot be used.")]
    Doctor(DoctorArgs),
    /// List the devices that --device takes: GPUs, emulated GPUs and the host
    Devices(DevicesArgs),
    /// Own a device and run cases for the kbench that started this (not for people)
    #[command(hide = true)]
    Worker,
    /// Compare two builds in turn on one device: the strongest comparison there is
    #[command(after_help = "\
Examples:
  kbench ab --base builtin --cand build/ --shapes decode.csv
                                                      a build folder against the program's own kernels
  kbench ab --base old/ --cand kernels/ --shapes decode.csv --device emu --gate bound:+1%,insts:+2%
                                                      CI without a GPU: exact, exit 1 on a regression
  kbench ab --base reference --cand reference+3% --shapes decode.csv --device host
                                                      a known slow-down, to see what can be seen")]
    Ab(Box<AbArgs>),
    /// Compare a build with itself: how often this device calls equal builds different, and the smallest change it can tell
    #[command(after_help = "Example:\n  kbench selfcheck --shapes decode.csv --top 3 --pairs 20")]
    Selfcheck(Box<SelfcheckArgs>),
    /// Compare two runs, or two profiles of a whole program, and gate on the changes
    #[command(after_help = "\
Examples:
  kbench compare base.json cand.json                  what changed, with intervals
  kbench compare main topic --gate time:+3%,step:+1% --strict
                                                      stored runs; exit 1 on a regression, 3 when it is open
  kbench compare base.json cand.json --gate bound:+1%,insts:+2%,conflicts:+0
                                                      runs on the emulated GPU: exact, for CI without a GPU
  kbench compare before_trace.csv after_trace.csv     rocprofv3 kernel traces, kernel by kernel, per step
  kbench compare main topic --gate-file gate.toml --junit gate.xml --markdown comment.md")]
    Compare(Box<CompareArgs>),
    /// Show how stored cases changed over time
    #[command(after_help = "\
Examples:
  kbench history gemm --last 10                       every stored gemm, in the newest ten runs that have one
  kbench history 'gemm:*m=16*' --name main --format csv")]
    History(HistoryArgs),
    /// List stored runs, or show one
    #[command(after_help = "\
Examples:
  kbench show                                         all runs
  kbench show main~1                                  the cases of the run named main before the newest
  kbench show --check                                 whether the store is sound")]
    Show(ShowArgs),
    /// Write a stored run as the document that it was
    Export(ExportArgs),
    /// Keep documents of runs in the store
    Import(ImportArgs),
    /// Remove stored runs, and builds that no run refers to
    #[command(after_help = "\
Examples:
  kbench prune --keep 10 --older-than 30d             of each name the ten newest stay, and all of the last 30 days
  kbench prune --run '#17' topic                      these two")]
    Prune(PruneArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  kbench completions bash > ~/.local/share/bash-completion/completions/kbench")]
    Completions(CompletionsArgs),
}

/// How profiles are read.
#[derive(Args, Clone, Debug)]
pub struct ReadArgs {
    /// A table of kernel names that goes before the built-in one (docs/names.md)
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// Capture trace (or the folder of them) of the graphs that a PyTorch trace replays; by default `capture_traces/`
    /// beside the trace, when there is one
    #[arg(long, value_name = "FILE|DIR")]
    pub capture: Option<PathBuf>,
    /// Trace of the same work without graphs, to take shapes from
    #[arg(long, value_name = "TRACE")]
    pub eager: Option<PathBuf>,
    /// The model's Hugging Face config.json, to take shapes from together with the step labels of a trace
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// Tensor-parallel ranks of the profiled server
    #[arg(long, default_value_t = 1, value_name = "N", requires = "model", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub tp: u64,
    /// Expert-parallel ranks of the profiled server
    #[arg(long, default_value_t = 1, value_name = "N", requires = "model", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub ep: u64,
    /// Only the kernels of this step of a PyTorch trace, or of a range of steps with both ends (2..5);
    /// `kbench inventory --steps` lists them
    #[arg(long, value_name = "N|A..B")]
    pub step: Option<StepRange>,
}

impl From<&ReadArgs> for ReadOptions {
    fn from(args: &ReadArgs) -> Self {
        Self {
            names: args.names.clone(),
            capture: args.capture.clone(),
            eager: args.eager.clone(),
            model: args.model.clone(),
            tp: args.tp,
            ep: args.ep,
            steps: args.step,
        }
    }
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Profile or inventory: a file or folder of any dialect that kbench reads, told apart by content; repeatable
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    pub shapes: Vec<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub on: DeviceArgs,
    /// Kernels to run on a GPU: a build folder (`kbench build`) or a launch descriptor; by default those in the program
    #[arg(long, value_name = "DIR|FILE.toml")]
    pub kernels: Option<PathBuf>,
    /// Collect a set of hardware counters of each case: default, memory, compute, lds, occupancy or all
    #[arg(long, value_name = "SET", conflicts_with = "pmc", value_parser = counter_set)]
    pub counters: Option<String>,
    /// Collect these counters and metrics of each case, e.g. FETCH_SIZE,SQ_WAVES
    #[arg(long, value_name = "LIST", value_parser = counter_list)]
    pub pmc: Option<String>,
    /// Launches that each pass of counters takes; medians are reported
    #[arg(long, default_value_t = DEFAULT_REPEATS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pmc_repeats: u32,
    /// Memory between the profiler's callbacks and kbench, e.g. 64MiB
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = ring_size)]
    pub ring_size: Size,
    /// What happens when it is full: lossless (the profiler waits), drop-newest or overwrite-oldest
    #[arg(long, default_value = "lossless", value_name = "POLICY")]
    pub ring_policy: Policy,
    /// Each timed launch fetches its instructions from memory, not from the caches of the CUs
    #[arg(long)]
    pub flush_icache: bool,
    /// Which cases.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Cache state of the samples: cold rotates inputs through twice the last-level cache
    #[arg(long, default_value = "cold", value_name = "MODE")]
    pub cache: CacheChoice,
    /// Stop a case when half the 95 % interval of its median is below this share of the median
    #[arg(long, default_value = "0.5%", value_name = "SHARE", value_parser = share)]
    pub precision: f64,
    /// Time for the whole run, e.g. 60s or 5m; each case gets an equal part of what is left. 30s, or 1h on an emulated device, where no time
    /// is measured
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_budget: Option<Duration>,
    /// Seed of data, routing and page tables
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Show what would run, with its work and memory, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Show the formulas of FLOPs and bytes, with numbers, and what was assumed
    #[arg(long)]
    pub explain: bool,
    /// Output format; by default a table, or what the ending of -o says
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Go on with a run that was killed or interrupted: its journal, or the result it wrote. Cases that ended are taken over;
    /// profile and options must be the same
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// With --resume: run cases that failed or hung again, too
    #[arg(long, requires = "resume")]
    pub retry: bool,
    /// Write the result to a file instead of stdout; while the run goes on, FILE.journal keeps every case that has ended
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also write run.json, cases.csv and report.md into this folder
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Keep the run in the store under a name, for `kbench compare`, `history` and `show`
    #[arg(long, value_name = "NAME")]
    pub save: Option<RunName>,
    /// Where it is kept.
    #[command(flatten)]
    pub store: StoreFile,
    /// How profiles are read.
    #[command(flatten)]
    pub read: ReadArgs,
}

impl RunArgs {
    /// The counters that were asked for.
    pub fn counters(&self) -> Option<Request> {
        let what = match (&self.counters, &self.pmc) {
            (_, Some(list)) => What::List(list.clone()),
            (Some(set), None) => What::Set(set.clone()),
            (None, None) => return None,
        };
        let (repeats, ring_size, ring_policy) = (self.pmc_repeats, self.ring_size, self.ring_policy);
        Some(Request { repeats, ring_size, ring_policy, ..Request::new(what) })
    }
}

/// `--cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheChoice {
    /// Inputs rotate through at least twice the last-level cache.
    Cold,
    /// The same inputs every time.
    Warm,
    /// Each case both ways.
    Both,
}

impl CacheChoice {
    /// The modes to measure.
    pub fn modes(self) -> Vec<Cache> {
        match self {
            CacheChoice::Cold => vec![Cache::Cold],
            CacheChoice::Warm => vec![Cache::Warm],
            CacheChoice::Both => vec![Cache::Cold, Cache::Warm],
        }
    }
}

/// `--fp8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fp8Choice {
    /// e4m3fn, e5m2.
    Ocp,
    /// e4m3fnuz, e5m2fnuz.
    Fnuz,
}

impl From<Fp8Choice> for Fp8Flavor {
    fn from(choice: Fp8Choice) -> Self {
        match choice {
            Fp8Choice::Ocp => Fp8Flavor::Ocp,
            Fp8Choice::Fnuz => Fp8Flavor::Fnuz,
        }
    }
}

/// Arguments of `inventory`.
#[derive(Args, Debug)]
pub struct InventoryArgs {
    /// Profile: files or folders, told apart by content
    #[arg(required = true, value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Output format; by default a table, or what the ending of -o says
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// List the steps (forward passes) of a PyTorch trace instead of its kernels
    #[arg(long)]
    pub steps: bool,
    /// Only kernels (or steps) of this phase: prefill, decode, mixed or unknown
    #[arg(long, value_name = "PHASE")]
    pub phase: Option<Phase>,
    /// Most rows of the table and of the Markdown summary; CSV and JSON always hold everything
    #[arg(long, default_value_t = 40, value_name = "N")]
    pub top: usize,
    /// How profiles are read.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Arguments of `peaks`.
#[derive(Args, Debug)]
pub struct PeaksArgs {
    /// Which device
    #[arg(long, default_value_t = DeviceSpec::Auto, value_name = "DEVICE")]
    pub device: DeviceSpec,
    /// Show the kept figures, if they are for this machine, instead of measuring again
    #[arg(long)]
    pub kept: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `inspect`.
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// Code object, offload bundle (plain or compressed), or host program or library with device code
    pub file: PathBuf,
    /// The base to compare with: FILE is the candidate
    #[arg(long, value_name = "OTHER")]
    pub compare: Option<PathBuf>,
    /// Only kernels whose name, mangled or not, matches; their arguments and descriptors are shown too
    #[arg(long, value_name = "REGEX")]
    pub kernel: Option<Regex>,
    /// Only images for this target, such as gfx942 or gfx942:xnack-
    #[arg(long, value_name = "TARGET")]
    pub target: Option<String>,
    /// Work-items of a workgroup, for the occupancy; by default what the kernel was compiled for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub block: Option<u32>,
    /// Dynamic LDS of a launch in bytes, for the occupancy
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub lds: u32,
    /// Output format
    #[arg(long, value_enum, default_value_t = InspectFormat::Table, value_name = "FORMAT")]
    pub format: InspectFormat,
}

/// `--format` of `inspect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InspectFormat {
    /// Aligned columns for people.
    Table,
    /// The whole document (docs/code-objects.md).
    Json,
}

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `0.95` or `95%`, above 0 and at most 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let value = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|value| value / 100.0),
        None => text.trim().parse::<f64>(),
    };
    match value {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err("a share above 0 and at most 1 is needed, such as 0.005 or 0.5%".into()),
    }
}

/// A factor above 0.
pub(super) fn scale(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err("a factor above 0 and at most 1000000 is needed, such as 3".into()),
    }
}

/// `60s`, `5m`, `500ms` or seconds without a unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => 0.0,
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && seconds > 0.0 && value * seconds < 1e7 => {
            Ok(Duration::from_secs_f64(value * seconds))
        }
        _ => Err("a time is needed, such as 60s, 500ms or 5m".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn shares_and_times() {
        assert_eq!(share("0.5%"), Ok(0.005));
        assert_eq!(share("95%"), Ok(0.95));
        assert_eq!(share("1"), Ok(1.0));
        for bad in ["0", "-1%", "101%", "nan", "x"] {
            assert!(share(bad).is_err(), "{bad}");
        }
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for bad in ["0s", "-1s", "5 fortnights", "infs", "1e99h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn run_is_the_default_command() {
        let cli = Cli::try_parse_from(["kbench", "--shapes", "a.csv", "--top", "3"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.run.select.top, Some(3));
        let cli = Cli::try_parse_from(["kbench", "run", "--shapes", "a.csv"]).unwrap();
        assert!(matches!(cli.command, Some(Command::Run(args)) if args.shapes.len() == 1));
    }
}
