//! What is to be counted, and how.

use kbench_counters::catalog::CatalogError;
use kbench_counters::plan::Plan;
use kbench_counters::ring::{DEFAULT_SIZE, Policy, Size};
use kbench_counters::set::{CounterSet, SetError};
use kbench_counters::{Arch, Catalog};
use regex::Regex;
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
    /// Whose launches are counted.
    pub kernels: KernelFilter,
}

/// Kernels whose launches are counted, as rocprofv3's input files choose them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFilter {
    /// Only kernels in whose name this regular expression is found; all without one.
    pub include: Option<String>,
    /// Not those in whose name this one is.
    pub exclude: Option<String>,
}

/// A filter, ready to be asked.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelChoice {
    include: Option<Regex>,
    exclude: Option<Regex>,
}

impl KernelFilter {
    /// Whether its expressions can be read.
    ///
    /// # Errors
    /// The first that cannot, with its key in the file.
    pub fn check(&self) -> Result<(), PatternError> {
        self.choice().map(|_| ())
    }

    /// True when it may leave launches out.
    pub fn chooses(&self) -> bool {
        self.include.is_some() || self.exclude.is_some()
    }

    pub(super) fn choice(&self) -> Result<KernelChoice, PatternError> {
        let read = |key: &'static str, pattern: &Option<String>| -> Result<Option<Regex>, PatternError> {
            let Some(pattern) = pattern else { return Ok(None) };
            Regex::new(pattern).map(Some).map_err(|error| PatternError { key, why: error.to_string() })
        };
        Ok(KernelChoice {
            include: read("kernel_include_regex", &self.include)?,
            exclude: read("kernel_exclude_regex", &self.exclude)?,
        })
    }
}

impl KernelChoice {
    /// Whether a kernel's launches are counted, by its demangled name.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.include.as_ref().is_none_or(|pattern| pattern.is_match(name))
            && self.exclude.as_ref().is_none_or(|pattern| !pattern.is_match(name))
    }
}

/// An expression that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is no regular expression of the kind that is read here (no look-around, no back references): {why}")]
pub struct PatternError {
    key: &'static str,
    why: String,
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
    /// A filter of kernels.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl Request {
    /// With the usual repeats and ring.
    pub fn new(what: What) -> Self {
        let (ring_size, ring_policy) = (DEFAULT_SIZE, Policy::default());
        let kernels = KernelFilter::default();
        Self { what, repeats: DEFAULT_REPEATS, ring_size, ring_policy, only_count: false, keep_records: false, kernels }
    }
}

impl What {
    /// The names that are asked for, in a catalogue to which a device may have added.
    ///
    /// # Errors
    /// When the set or a name is not known.
    pub fn names(&self, catalog: &Catalog) -> Result<Vec<String>, RequestError> {
        let set = match self {
            What::Set(name) => CounterSet::named(name, catalog)?,
            What::List(list) => CounterSet::list(list, catalog)?,
        };
        Ok(set.names)
    }
}

/// The built-in catalogue of an architecture.
pub(super) fn catalog(arch: &str) -> Result<Catalog, RequestError> {
    let arch: Arch = arch.parse()?;
    Ok(Catalog::new(arch)?)
}

/// A question about a device's counters, without counting: what it has, and the passes of some requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Requests to plan.
    pub plans: Vec<What>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Surveyed {
    /// The SDK's version.
    pub sdk: String,
    /// What the device's own list has.
    pub counters: Vec<OwnCounter>,
    /// A plan for each request, confirmed by the SDK.
    pub plans: Vec<Plan>,
}

/// A counter of a device's own list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCounter {
    /// Name.
    pub name: String,
    /// Hardware block; empty for derived ones.
    pub block: String,
    /// The device's description.
    pub description: String,
    /// Formula of a derived one; empty for others.
    pub expression: String,
}

impl Surveyed {
    /// The catalogue of an architecture as far as the device lists it, with what only the device knows.
    ///
    /// # Errors
    /// When the architecture is not known.
    pub fn catalog(&self, arch: &str) -> Result<Catalog, RequestError> {
        let mut catalog = catalog(arch)?;
        catalog.add(self.counters.iter().map(OwnCounter::described));
        catalog.restrict_to(self.counters.iter().map(|counter| counter.name.as_str()));
        Ok(catalog)
    }
}

impl OwnCounter {
    pub(super) fn described(&self) -> kbench_counters::catalog::DeviceCounter<'_> {
        kbench_counters::catalog::DeviceCounter {
            name: &self.name,
            block: &self.block,
            description: &self.description,
            expression: Some(self.expression.as_str()).filter(|text| !text.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(include: Option<&str>, exclude: Option<&str>, name: &str) -> bool {
        let filter = KernelFilter { include: include.map(str::to_owned), exclude: exclude.map(str::to_owned) };
        filter.choice().unwrap().takes(name)
    }

    #[test]
    fn kernels_are_chosen_as_in_rocprofv3s_files() {
        assert!(takes(None, None, "kb_gemm_bf16"));
        // Expressions are searched for, not matched whole.
        assert!(takes(Some("gemm"), None, "kb_gemm_bf16") && !takes(Some("^gemm"), None, "kb_gemm_bf16"));
        assert!(!takes(Some("gemm"), Some("bf16$"), "kb_gemm_bf16"));
        assert!(takes(None, Some("rmsnorm"), "kb_gemm_bf16"));
        let wrong = KernelFilter { include: Some("(".to_owned()), exclude: None };
        assert!(wrong.check().unwrap_err().to_string().contains("`kernel_include_regex`"));
    }
}
