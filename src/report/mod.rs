//! What a run found: one document, and the ways to print it. Measuring never formats; printing never computes.

pub mod brief;
pub mod csv;
pub mod document;
pub mod markdown;
pub mod profile;
pub mod table;
pub mod units;

pub use document::{CaseResult, RunDocument, Status};

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns for people.
    Table,
    /// The whole document (docs/run.schema.json).
    Json,
    /// One line a case.
    Csv,
    /// Markdown for a report or a pull request.
    Md,
}
