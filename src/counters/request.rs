//! What is to be counted, and how.

use kbench_counters::catalog::CatalogError;
use kbench_counters::ring::{DEFAULT_SIZE, Policy, Size};
use kbench_counters::set::{CounterSet, SetError};
use kbench_counters::{Arch, Catalog};
use serde::{Deserialize, Serialize};

/// Launches that each pass counts, unless asked otherwise: a median of three survives one disturbed launch.
pub const DEFAULT_REPEATS: u32 = 3;

/// Which counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A named set (`--counters`).
    Set(String),
    /// Names with commas between them (`--pmc`).
    List(String),
}

/// A request for counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Which.
    pub what: What,
    /// Counted launches of each pass.
    pub repeats: u32,
    /// Size of the ring.
    pub ring_size: Size,
    /// What happens when the ring is full.
    pub ring_policy: Policy,
    /// Nothing is timed.
    pub only_count: bool,
    /// Every counted dispatch is kept, for rocprofv3's files.
    pub keep_records: bool,
}

/// A request that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The architecture has no counters that are known.
    #[error(transparent)]
    Arch(#[from] kbench_counters::arch::UnknownArch),
    /// The catalogue is damaged, or a name is not known.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// No such set, or no list.
    #[error(transparent)]
    Set(#[from] SetError),
}

impl Request {
    /// With the usual repeats and ring.
    pub fn new(what: What) -> Self {
        let (ring_size, ring_policy) = (DEFAULT_SIZE, Policy::default());
        Self { what, repeats: DEFAULT_REPEATS, ring_size, ring_policy, only_count: false, keep_records: false }
    }

    /// The catalogue of an architecture and the names that are asked for.
    ///
    /// # Errors
    /// When the architecture, the set or a name is not known.
    pub fn resolve(&self, arch: &str) -> Result<(Catalog, Vec<String>), RequestError> {
        let arch: Arch = arch.parse()?;
        let catalog = Catalog::new(arch)?;
        let set = match &self.what {
            What::Set(name) => CounterSet::named(name, &catalog)?,
            What::List(list) => CounterSet::list(list, &catalog)?,
        };
        Ok((catalog, set.names))
    }
}
