//! Reads GPU profiles of every dialect into an [`Inventory`]: which kernels ran, how long, at which shapes, and how
//! each shape became known.
//!
//! This crate reads and classifies; it will never launch a kernel, time anything, or invent a shape.

mod atom;
mod csv_inventory;
mod dispatches;
mod error;
mod header;
mod health;
pub mod inventory;
pub mod kineto;
pub mod labels;
mod ledger;
pub mod model;
pub mod names;
mod naming;
pub mod pyrepr;
mod read;
mod records;
mod rocpd;
mod rocprof_json;
mod rocprofv3;
mod sniff;
mod timeline;
mod trace_head;
mod trace_inventory;
mod tracelens;

pub use csv_inventory::SCHEMA;
pub use error::ReadError;
pub use inventory::{Coverage, Finding, Inventory, Location, Phase, Provenance, Row, Severity, ShapeUse, Source};
pub use read::{ReadOptions, read};
pub use sniff::{Dialect, sniff};
pub use timeline::{StepRange, StepSummary, Window};
