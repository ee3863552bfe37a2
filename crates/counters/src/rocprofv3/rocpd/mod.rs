//! rocpd databases: rocprofv3's default output from 1.0 on, schema 3.
//!
//! A process has a set of tables whose names end in its guid; views with the plain names stand over them, and `kernels`, `counters_collection` and
//! others over those. The writer makes all tables of the schema, also those that stay empty, because rocpd's own tools expect them.

mod read;
mod schema;
mod write;

pub use read::read;
pub use write::write;

use std::fmt;

/// Identifies the process of a run among all others: the suffix of its tables. Must differ from run to run, or merging tools take two runs for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guid(u128);

impl Guid {
    /// From 128 bits that no other run has.
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }

    /// Suffix of the tables' names: `_00000000_0000_...`.
    fn suffix(self) -> String {
        format!("_{}", self.to_string().replace('-', "_"))
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:032x}", self.0);
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        write!(f, "{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }
}
