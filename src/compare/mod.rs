//! Comparing: what changed between two runs, or between two profiles, and whether a gate lets it pass.
//!
//! Reading ([`read`]), pairing and comparability ([`pairing`]), the verdict on a case ([`case`], [`metric`], [`code`]), the whole step
//! ([`summary`]), foreign profiles ([`profiles`]), limits ([`gate`], [`gate_file`]) and rendering are apart: what computes
//! does not format. Runs made apart and builds that ran in turn give the same [`Comparison`].

pub mod between;
pub mod case;
pub mod code;
pub mod document;
pub mod gate;
pub mod gate_file;
pub mod metric;
pub mod pairing;
pub mod pairs;
pub mod profiles;
pub mod read;
pub mod render_junit;
pub mod render_markdown;
pub mod render_table;
pub mod runs;
pub mod summary;

pub use document::Comparison;
pub use runs::{CompareError, Parts, Settings, assemble, compare_runs};
