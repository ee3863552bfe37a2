//! Arguments of `kbench build` and `kbench kernels`.

use clap::{Args, Subcommand, ValueEnum};
use kbench_workload::{Dtypes, Family, ShapeMap};
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `build`.
#[derive(Args, Debug)]
pub struct BuildArgs {
    /// Architectures to compile for
    #[arg(long, value_delimiter = ',', default_value = "gfx942", value_name = "LIST")]
    pub arch: Vec<String>,
    /// Device compiler: a name, a path, or zig:PATH; by default $KBENCH_CLANG, then ROCm's, then clang 19 or later on PATH
    #[arg(long, value_name = "PATH")]
    pub compiler: Option<OsString>,
    /// A flag for the compiler behind its usual ones; repeatable
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub flags: Vec<String>,
    /// Only the manifests that hold a build of one of these families
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub family: Vec<Family>,
    /// Kernel folder; by default ./kernels when it holds manifests, else the sources in the program
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// Folder for code objects and their record; what is up to date in it is kept
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Compilations at the same time; by default the number of CPUs
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
}

/// Arguments of `kernels`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct KernelsArgs {
    /// What to do; `list` when nothing is given
    #[command(subcommand)]
    pub command: Option<KernelsCommand>,
    /// Arguments of `list`.
    #[command(flatten)]
    pub list: ListArgs,
}

/// What `kernels` can do.
#[derive(Debug, Subcommand)]
pub enum KernelsCommand {
    /// List kernels, or, with --shapes, which build runs each case (what is done when nothing else is asked)
    List(ListArgs),
    /// Check a launch descriptor, alone or against a code object and a case
    Check(CheckArgs),
}

/// Arguments of `kernels list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// A build folder or a launch descriptor instead of the kernels in the program
    #[arg(long, value_name = "DIR|FILE")]
    pub kernels: Option<PathBuf>,
    /// Only this architecture; with --shapes the device's, gfx942 by default
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    /// Only these families
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub family: Vec<Family>,
    /// Profile or inventory: say for each of its cases which build runs it, and why the others do not
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    pub shapes: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = KernelsFormat::Table, value_name = "FORMAT")]
    pub format: KernelsFormat,
}

/// `--format` of `kernels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KernelsFormat {
    /// Aligned columns for people.
    Table,
    /// One document.
    Json,
}

/// Arguments of `kernels check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The launch descriptor
    pub descriptor: PathBuf,
    /// The code object; by default the one that each build names, when it is there
    pub file: Option<PathBuf>,
    /// A shape to evaluate the launches at, e.g. "m=16 n=2048 k=4096"
    #[arg(long, value_name = "SHAPE")]
    pub shape: Option<ShapeMap>,
    /// Dtypes of that case, e.g. bf16 or q=bf16,kv=fp8
    #[arg(long, value_name = "DTYPES", requires = "shape")]
    pub dtypes: Option<Dtypes>,
    /// Architecture of the device for that case
    #[arg(long, default_value = "gfx942", value_name = "ARCH")]
    pub arch: String,
}
