//! Why the store cannot answer.

use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};

/// A request that the store could not fulfil. Each text is a paragraph: what, which file, what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file cannot be opened, made or written.
    #[error(
        "{path}: the store cannot be opened or written: {reason}; check the path, the permissions and the free space, or give another file with --store"
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// There is no file.
    #[error("{path}: there is no store yet; `--save NAME` of a run makes one, `--store FILE` names another")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{path}: this is not a kbench store ({found}); give the file that `--save` wrote, or a new name")]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// A later kbench made the file.
    #[error(
        "{path}: the store has schema {found}, this kbench knows up to {known}; use the kbench that wrote it, or export its runs with that one and import them here"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest known here.
        known: i64,
    },
    /// What the file holds contradicts itself.
    #[error(
        "{path}: the store is damaged ({detail}); restore it from a backup, or save what can be read with `sqlite3 {path} .recover`"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// Another process held the file for longer than the store waits.
    #[error("{path}: another process has been writing to the store for {seconds} s; try again when it is done")]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long the store waited, s.
        seconds: u64,
    },
    /// No run has the name or number.
    #[error("no run `{selector}` is in the store {path}; {known}")]
    NoSuchRun {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        selector: String,
        /// What there is.
        known: String,
    },
    /// A name that cannot name a run.
    #[error("`{name}` cannot name a run: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What would be right.
        reason: &'static str,
    },
    /// The document is not one that can be kept.
    #[error("the document cannot be stored: {reason}")]
    Document {
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else that SQLite said.
    #[error("{path}: {reason}")]
    Sql {
        /// The file.
        path: PathBuf,
        /// SQLite's words.
        reason: String,
    },
}

/// How long a writer waits for another, s.
pub(crate) const PATIENCE_S: u64 = 30;

impl StoreError {
    /// Tells SQLite's errors apart.
    pub(crate) fn sql(path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let reason = error.to_string();
        match &error {
            rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
                ErrorCode::NotADatabase => Self::NotAStore { path, found: "no SQLite file".to_owned() },
                ErrorCode::DatabaseCorrupt => Self::Damaged { path, detail: reason },
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy { path, seconds: PATIENCE_S },
                ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::DiskFull
                | ErrorCode::PermissionDenied
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::SystemIoFailure => Self::Io { path, reason },
                _ => Self::Sql { path, reason },
            },
            // The columns' types are the store's own: other ones come from a damaged or edited file.
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::SqlInputError { .. } => Self::Damaged { path, detail: reason },
            _ => Self::Sql { path, reason },
        }
    }
}
