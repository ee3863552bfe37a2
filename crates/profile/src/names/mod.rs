//! Kernel names: the form they are joined by, what they are called in tables, what they compute, and what they say about
//! a call.
//!
//! - [`canonical`] makes the names of different tools comparable; [`demangle`] is the tolerant demangler behind it.
//! - [`short`] is a name for tables.
//! - [`Table`] says which [family](kbench_workload::Family) and category a name belongs to. It is data
//!   (`data/kernels.toml`), not code, and users can put their own in front; `docs/names.md` describes the format.
//! - [`parameters`] reads what a name says about its template and tile. These are hints, never a shape.

mod canonical;
mod cpp;
mod demangle;
mod parameters;
mod pattern;
mod short;
mod table;

pub use canonical::canonical;
pub use demangle::demangle;
pub use parameters::parameters;
pub use short::short;
pub use table::{Class, Table, TableError};
