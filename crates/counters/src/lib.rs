//! Hardware counters without hardware: what there is to count, how many passes it takes, what the counts mean, and the formats of rocprofv3.
//!
//! - [`catalog`]: counters by architecture, blocks and their limits; [`set`]: named sets and free lists; [`input`]: rocprofv3's input files.
//! - [`plan`]: passes, so that the operands of a ratio are counted together and guards are in every pass.
//! - [`ring`]: the bounded buffer between the profiler's callback and the writer.
//! - [`collect`]: records to values per launch, medians over repeats, launches reconciled with records.
//! - [`metric`]: derived values by kbench's formulas ([`formula`]), and what is wrong with them where something is.
//! - [`rocprofv3`]: CSV files and rocpd databases that rocprofv3's readers accept, and reading them back.
//!
//! It knows no device, no FFI and no emulator: the caller brings records, durations and the device's geometry.

pub mod arch;
pub mod catalog;
pub mod collect;
pub mod formula;
pub mod input;
pub mod metric;
mod nearest;
pub mod plan;
pub mod ring;
pub mod rocprofv3;
pub mod set;

pub use arch::{Arch, Geometry};
pub use catalog::Catalog;
