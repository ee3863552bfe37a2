//! Arguments of `ab` and `selfcheck`.

use super::args::{CacheChoice, duration};
use super::{DeviceArgs, JudgeArgs, ReadArgs, SelectArgs};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Which cases run, and how: the same for `ab` and `selfcheck`.
#[derive(Args, Debug)]
pub struct PairArgs {
    /// Profile or inventory: a file or folder of any dialect that kbench reads; repeatable
    #[arg(long, value_name = "FILE|DIR", num_args = 1.., required = true)]
    pub shapes: Vec<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub on: DeviceArgs,
    /// Which cases.
    #[command(flatten)]
    pub select: SelectArgs,
    /// Cache state of the samples
    #[arg(long, default_value = "cold", value_name = "MODE")]
    pub cache: CacheChoice,
    /// Time for everything, e.g. 60s or 5m; a case whose verdict is safe leaves its part to the others. 60s, or 1h on an emulated device, where
    /// no time is measured
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_budget: Option<Duration>,
    /// Seed of data and of the order of launches
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// How profiles are read.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// Arguments of `ab`.
#[derive(Args, Debug)]
pub struct AbArgs {
    /// What to compare with: builtin, a build folder, a launch descriptor (or the code object beside it), or a folder of kernel sources,
    /// which is built first;
    /// on the host `reference`
    #[arg(long, value_name = "BUILD")]
    pub base: String,
    /// What is under test, likewise; on the host also such as `reference+3%`
    #[arg(long, value_name = "BUILD")]
    pub cand: String,
    /// Change that equal builds show on this device, such as the largest false one that `kbench selfcheck` found: a smaller one is
    /// not called a change, and SAME excludes no less
    #[arg(long, value_name = "SHARE", value_parser = super::args::share)]
    pub noise_floor: Option<f64>,
    /// Compiler for source folders, as `kbench build --compiler` takes it
    #[arg(long, value_name = "COMPILER")]
    pub compiler: Option<std::ffi::OsString>,
    /// Cases.
    #[command(flatten)]
    pub pair: PairArgs,
    /// What counts as a change, and where it is written.
    #[command(flatten)]
    pub judge: JudgeArgs,
}

/// Arguments of `selfcheck`.
#[derive(Args, Debug)]
pub struct SelfcheckArgs {
    /// The build: as `ab --base` takes it
    #[arg(long, value_name = "BUILD")]
    pub build: Option<String>,
    /// How often each case is compared with itself
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub pairs: u32,
    /// The smallest change that is called one
    #[arg(long, default_value = "0.5%", value_name = "SHARE", value_parser = super::args::share)]
    pub min_effect: f64,
    /// Change that equal builds show on this device, as `ab` takes it: to see what is left of false changes with it
    #[arg(long, value_name = "SHARE", value_parser = super::args::share)]
    pub noise_floor: Option<f64>,
    /// Chance of calling equal builds different
    #[arg(long, default_value = "5%", value_name = "SHARE", value_parser = super::args::share)]
    pub alpha: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Cases.
    #[command(flatten)]
    pub pair: PairArgs,
}
