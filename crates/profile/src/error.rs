//! Why a file gives no inventory.

use crate::sniff::Dialect;
use crate::timeline::StepRange;
use std::path::PathBuf;

/// A profile that cannot be read. The text is one paragraph: what, where, what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The content is no CSV text.
    #[error("{} is {what}. {instead}", path.display())]
    NotCsv {
        /// The file.
        path: PathBuf,
        /// What it is, as told from its first bytes.
        what: &'static str,
        /// What would be right.
        instead: &'static str,
    },
    /// A CSV that is known, but holds no kernels with times.
    #[error("{} is {}: {}. {}", path.display(), dialect.describe(), dialect.refusal().0, dialect.refusal().1)]
    NoInventory {
        /// The file.
        path: PathBuf,
        /// What it is.
        dialect: Dialect,
    },
    /// A CSV whose header no reader knows.
    #[error(
        "{}: no known profile has these columns: {columns}. {hint}kbench reads PyTorch traces, TraceLens report sheets, ATOM breakdown and layer CSVs, \
         rocprofv3 kernel_trace and kernel_stats, and its own inventory (the header `family,dtype,shape,calls` is enough)",
        path.display()
    )]
    UnknownHeader {
        /// The file.
        path: PathBuf,
        /// The columns found, shortened.
        columns: String,
        /// What the header looks like, ending in a blank; empty when nothing comes to mind.
        hint: String,
    },
    /// A known CSV that lacks a column it cannot be read without.
    #[error("{}: this looks like {}, but the column `{column}` is missing; found are: {columns}", path.display(), dialect.describe())]
    MissingColumn {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        dialect: Dialect,
        /// The missing column.
        column: &'static str,
        /// The columns found, shortened.
        columns: String,
    },
    /// A cell of a kbench inventory that is wrong. (Lines of profilers' files are skipped and counted instead.)
    #[error("{}:{line}: column `{column}`: {reason}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// Column name.
        column: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A line or quoted cell that does not end.
    #[error("{}:{line}: a line longer than {limit} bytes: the file is no CSV, or a quote is never closed", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Line on which it starts.
        line: u64,
        /// The longest that is read.
        limit: usize,
    },
    /// A known CSV without a single usable row.
    #[error("{} is {} without a single kernel: {reason}", path.display(), dialect.describe())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What it is.
        dialect: Dialect,
        /// What was found instead, and what to do.
        reason: String,
    },
    /// An SQLite database that cannot be read.
    #[error("{}: {what}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A folder, or a list of files, without anything to read.
    #[error("{}: nothing here gives an inventory. {found}", path.display())]
    Nothing {
        /// The folder, or the first file.
        path: PathBuf,
        /// What was found and what each is.
        found: String,
    },
    /// Category sheets together: they list nested operators twice.
    #[error(
        "{}: only category sheets ({sheets}). They list nested operators more than once, so they are never added up: give \
         unified_perf_summary.csv or ops_unique_args.csv of the same report, or one sheet alone",
        path.display()
    )]
    CategorySheets {
        /// Their folder.
        path: PathBuf,
        /// Their names.
        sheets: String,
    },
    /// A folder with more than one profile.
    #[error(
        "{}: several profiles: {files}. A folder is read as one: give one of them, or list those that are to be added up",
        path.display()
    )]
    Several {
        /// The folder.
        path: PathBuf,
        /// The files and what each is.
        files: String,
    },
    /// Steps were asked for that the profile does not have.
    #[error("{}: there is no step {steps}: {}", path.display(), steps_there(*count))]
    NoSuchStep {
        /// The profile.
        path: PathBuf,
        /// The steps asked for.
        steps: StepRange,
        /// How many steps it has.
        count: u64,
    },
    /// The user's table of kernel names is wrong.
    #[error(transparent)]
    Names(#[from] crate::names::TableError),
    /// The model's config, or its split over GPUs, gives no shapes.
    #[error(transparent)]
    Model(#[from] crate::model::ModelError),
    /// A PyTorch trace that cannot be read, or has no kernels.
    #[error(transparent)]
    Trace(#[from] crate::kineto::TraceError),
}

fn steps_there(count: u64) -> String {
    match count {
        0 => "no label in it tells of steps. Only PyTorch traces of a serving engine that labels its forward passes have steps".to_owned(),
        1 => "it has one, step 0 (`kbench inventory --steps` shows it)".to_owned(),
        _ => format!("it has {count}, from 0 to {} (`kbench inventory --steps` lists them)", count - 1),
    }
}

impl ReadError {
    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        ReadError::Io { path: path.into(), source }
    }
}
