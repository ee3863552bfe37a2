//! Runs kept in an embedded SQLite file: saved whole, listed, compared over time, exported as they were saved.
//!
//! A run is a JSON document (`kbench.run/1`). The store keeps it as text, with long arrays of numbers (samples) taken out and
//! compressed, and beside it the columns that questions are asked about: device, cases, times, bounds, builds by hash. An
//! exported document equals the saved one.
//!
//! Writers may be many processes: each change is one immediate transaction in a write-ahead log, so a reader never waits,
//! and a process that is killed at any point leaves the changes that it had committed and nothing else. A file of a newer
//! schema is refused; one of an older schema is brought up to date when it is opened.
//!
//! The crate knows the names of some keys of a document, and no kernel, device or statistic. It chooses no path: the caller
//! gives it.

mod codec;
mod document;
mod error;
mod name;
mod read;
mod schema;
mod store;
mod write;

pub use codec::{CodecError, Numbers, decode, encode};
pub use error::StoreError;
pub use name::{RunName, Selector};
pub use read::{BuildRow, CaseRow, HistoryFilter, HistoryPoint, RunRow};
pub use schema::SCHEMA;
pub use store::{RunId, Store};
pub use write::{Prune, Pruned};
