//! Arguments of `compare`.

use super::ReadArgs;
use super::args::share;
use super::store::StoreFile;
use crate::compare::pairing::Obstacle;
use clap::{Args, ValueEnum};
use kbench_stats::Correction;
use std::path::PathBuf;

/// Arguments of `compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// What to compare with: a run (a JSON document, or a run in the store such as main, main~1 or #17) or a profile
    pub base: String,
    /// What is under test: of the same kind as BASE
    #[arg(value_name = "CAND")]
    pub candidate: String,
    /// Where stored runs are.
    #[command(flatten)]
    pub store: StoreFile,
    /// Compare although these differ
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub allow: Vec<Obstacle>,
    /// How much medians of one build differ from run to run (standard deviation); by default from repeated runs in the store,
    /// else 1% for runs and 2% for profiles
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub between_runs: Option<f64>,
    /// Steps (forward passes) in BASE, when it is a profile that does not say
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub base_steps: Option<u64>,
    /// Steps in CAND
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub candidate_steps: Option<u64>,
    /// Most cases shown that are SAME; documents always hold all
    #[arg(long, default_value_t = 40, value_name = "N")]
    pub top: usize,
    /// What counts as a change, and where it is written.
    #[command(flatten)]
    pub judge: JudgeArgs,
    /// How profiles are read.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// What counts as a change, what fails, and where the comparison is written: the same for `compare` and `ab`.
#[derive(Args, Debug)]
pub struct JudgeArgs {
    /// The smallest change that is called one; by default 1% of runs made apart, 0.5% of builds that run in turn
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub min_effect: Option<f64>,
    /// Chance of calling equal builds different, after correction over cases
    #[arg(long, default_value = "5%", value_name = "SHARE", value_parser = share)]
    pub alpha: f64,
    /// Correction for comparing many cases
    #[arg(long, default_value = "holm", value_name = "METHOD")]
    pub correction: CorrectionChoice,
    /// Fail when a change is beyond a limit: metric:limit, e.g. bound:+1%,insts:+2%,time:+3%,step:+1%,vgprs:+8,waves:-0
    #[arg(long, value_name = "LIST")]
    pub gate: Vec<String>,
    /// Limits by family and case, in TOML (docs/comparing.md); --gate adds to it
    #[arg(long, value_name = "FILE")]
    pub gate_file: Option<PathBuf>,
    /// Exit with 3 when a check (or, without a gate, a case) is inconclusive
    #[arg(long)]
    pub strict: bool,
    /// Output format; by default a table, or what the ending of -o says
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<CompareFormat>,
    /// Write to a file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also write JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Also write Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Also write the document
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `--format` of `compare` and `ab`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    /// Text for people.
    Table,
    /// The whole document (docs/comparing.md).
    Json,
    /// Markdown for a pull request.
    Md,
    /// JUnit XML.
    Junit,
}

/// `--correction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CorrectionChoice {
    /// Bounds the chance of even one false change.
    Holm,
    /// Bounds the share of false changes (Benjamini and Hochberg).
    Bh,
    /// None.
    None,
}

impl From<CorrectionChoice> for Correction {
    fn from(choice: CorrectionChoice) -> Self {
        match choice {
            CorrectionChoice::Holm => Correction::Holm,
            CorrectionChoice::Bh => Correction::BenjaminiHochberg,
            CorrectionChoice::None => Correction::None,
        }
    }
}
