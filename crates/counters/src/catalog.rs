//! What there is to count on an architecture: counters by block, how many of them a block counts at a time, and derived values.
//!
//! The tables are `data/counters.toml` and `data/metrics.toml`. A device's own list adds to them ([`Catalog::add`]) or takes away from them
//! ([`Catalog::restrict_to`]).

use crate::arch::Arch;
use crate::formula::Formula;
use crate::metric::Metric;
use crate::nearest::nearest;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Deepest chain of derived counters that is followed when a device's list is added.
const MAX_CHAIN: usize = 8;

/// A counter of the hardware, or one that only the SDK can compute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// rocprofiler's name.
    pub name: String,
    /// Block that counts it; for one that only the SDK computes, the block of its first operand.
    pub block: String,
    /// Unit of a value.
    pub unit: String,
    /// What it counts.
    pub description: String,
    /// Computed by the SDK from others.
    pub derived: bool,
    /// Events that it occupies: for a counter of the hardware, itself.
    pub events: Vec<Event>,
}

/// Something that a block counts while a pass runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Event {
    /// The block.
    pub block: String,
    /// Name of the event: a counter of the hardware, or `accumulate NAME N` for a level that is summed over time.
    pub name: String,
}

/// Why a name or the built-in tables cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// No counter and no metric has this name.
    #[error("`{name}` is neither a counter nor a metric of {arch}{}", suggestion(.nearest))]
    Unknown {
        /// The name, shortened to what a message can hold.
        name: String,
        /// The architecture.
        arch: Arch,
        /// Names like it.
        nearest: Vec<String>,
    },
    /// A built-in table is damaged: a defect of this program.
    #[error("the built-in table of counters cannot be read: {0}")]
    Table(String),
}

fn suggestion(nearest: &[String]) -> String {
    if nearest.is_empty() {
        ". `kbench counters list` shows what there is".to_owned()
    } else {
        format!(". Near to it: {}", nearest.join(", "))
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Found<'c> {
    /// A counter.
    Counter(&'c Counter),
    /// A value derived by a formula.
    Metric(&'c Metric),
}

/// A counter as a device describes it.
#[derive(Clone, Copy, Debug)]
pub struct DeviceCounter<'d> {
    /// Name.
    pub name: &'d str,
    /// Block; empty for derived ones.
    pub block: &'d str,
    /// The device's description.
    pub description: &'d str,
    /// Expression over other counters, for derived ones.
    pub expression: Option<&'d str>,
}

/// Counters, metrics and block limits of an architecture.
#[derive(Clone, Debug)]
pub struct Catalog {
    arch: Arch,
    limits: BTreeMap<String, u16>,
    counters: BTreeMap<String, Counter>,
    metrics: Vec<Metric>,
}

impl Catalog {
    /// The built-in catalogue.
    ///
    /// # Errors
    /// [`CatalogError::Table`] when the built-in tables are damaged.
    pub fn new(arch: Arch) -> Result<Self, CatalogError> {
        let tables = TABLES.as_ref().map_err(Clone::clone)?;
        let mut counters = BTreeMap::new();
        for group in tables.group.iter().filter(|group| group.archs.contains(&arch)) {
            for (name, unit, description) in &group.counters {
                let event = Event { block: group.block.clone(), name: name.clone() };
                let counter = Counter {
                    name: name.clone(),
                    block: group.block.clone(),
                    unit: unit.clone(),
                    description: description.clone(),
                    derived: false,
                    events: vec![event],
                };
                counters.insert(name.clone(), counter);
            }
        }
        let limits = tables.limits.get(&arch).cloned().unwrap_or_default();
        let metrics = Metric::built_in(arch)?;
        Ok(Self { arch, limits, counters, metrics })
    }

    /// Its architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Events that an instance of a block counts at a time; 1 for blocks of unknown limit.
    pub fn limit(&self, block: &str) -> u16 {
        self.limits.get(block).copied().unwrap_or(1)
    }

    /// Blocks with known limits.
    pub fn limits(&self) -> impl Iterator<Item = (&str, u16)> {
        self.limits.iter().map(|(block, limit)| (block.as_str(), *limit))
    }

    /// All counters, by name.
    pub fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.counters.values()
    }

    /// All metrics that have a formula on this architecture, in the order of the table.
    pub fn metrics(&self) -> impl Iterator<Item = &Metric> {
        self.metrics.iter()
    }

    /// A counter by name; `_sum` may stand behind it, as in rocprofiler.
    pub fn counter(&self, name: &str) -> Option<&Counter> {
        let base = || name.strip_suffix("_sum").and_then(|base| self.counters.get(base));
        self.counters.get(name).or_else(base)
    }

    /// A metric by name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.id == name)
    }

    /// A counter or a metric by name.
    ///
    /// # Errors
    /// [`CatalogError::Unknown`], with names like it.
    pub fn find(&self, name: &str) -> Result<Found<'_>, CatalogError> {
        if let Some(metric) = self.metric(name).filter(|metric| !metric.formula.is_sdk_only()) {
            return Ok(Found::Metric(metric));
        }
        if let Some(counter) = self.counter(name) {
            return Ok(Found::Counter(counter));
        }
        if let Some(metric) = self.metric(name) {
            return Ok(Found::Metric(metric));
        }
        let known =
            self.counters.keys().map(String::as_str).chain(self.metrics.iter().map(|metric| metric.id.as_str()));
        Err(CatalogError::Unknown {
            name: name.chars().take(80).collect(),
            arch: self.arch,
            nearest: nearest(name, known),
        })
    }

    /// What is to be counted for a name: a counter itself; for a metric its operands, or, when only the SDK can compute it, the metric.
    ///
    /// # Errors
    /// [`CatalogError::Unknown`] for the name or an operand that the device lacks.
    pub fn operands(&self, name: &str) -> Result<Vec<String>, CatalogError> {
        match self.find(name)? {
            Found::Counter(counter) => Ok(vec![counter.name.clone()]),
            Found::Metric(metric) if metric.formula.is_sdk_only() => Ok(vec![metric.id.clone()]),
            Found::Metric(metric) => {
                let operands = metric.operands();
                operands.map(|operand| self.find_counter(operand).map(|counter| counter.name.clone())).collect()
            }
        }
    }

    fn find_counter(&self, name: &str) -> Result<&Counter, CatalogError> {
        self.counter(name).ok_or_else(|| CatalogError::Unknown {
            name: name.to_owned(),
            arch: self.arch,
            nearest: Vec::new(),
        })
    }

    /// Events that counting a name takes; none for a name that is not known.
    pub fn events(&self, name: &str) -> Vec<Event> {
        if let Some(counter) = self.counter(name) {
            return counter.events.clone();
        }
        self.metric(name).map(|metric| self.events_of(&metric.id, &metric.formula, 0)).unwrap_or_default()
    }

    fn events_of(&self, name: &str, formula: &Formula, depth: usize) -> Vec<Event> {
        let mut events: BTreeSet<Event> = BTreeSet::new();
        for operand in formula.counters() {
            if let Some(counter) = self.counter(operand) {
                events.extend(counter.events.iter().cloned());
            } else if depth < MAX_CHAIN
                && let Some(metric) = self.metric(operand)
            {
                events.extend(self.events_of(&metric.id, &metric.formula, depth + 1));
            }
        }
        for number in 0..formula.accumulations() {
            events.insert(Event { block: "SQ".to_owned(), name: format!("accumulate {name} {number}") });
        }
        events.into_iter().collect()
    }

    /// Adds what a device lists and the tables lack. Derived ones of the device become counters that only the SDK computes; those whose expression
    /// is not understood occupy nothing that is known, and the device's own check decides. Known names keep their entry.
    pub fn add<'d>(&mut self, list: impl IntoIterator<Item = DeviceCounter<'d>>) {
        let mut derived: Vec<(DeviceCounter<'d>, Option<Formula>)> = Vec::new();
        for device in list {
            if self.counter(device.name).is_some() || self.metric(device.name).is_some() {
                continue;
            }
            match device.expression.filter(|text| !text.is_empty()) {
                Some(text) => derived.push((device, Formula::parse(text).ok())),
                None => self.insert(device, false, Vec::new()),
            }
        }
        // An operand may itself be derived and come later in the list.
        for _ in 0..MAX_CHAIN {
            derived.retain(|(device, formula)| {
                let is_ready = |name: &String| self.counter(name).is_some() || self.metric(name).is_some();
                match formula {
                    Some(formula) if formula.counters().iter().all(is_ready) => {
                        let events = self.events_of(device.name, formula, 0);
                        self.insert(*device, true, events);
                        false
                    }
                    _ => true,
                }
            });
        }
        for (device, formula) in derived {
            let events = formula.map(|formula| self.events_of(device.name, &formula, 0)).unwrap_or_default();
            self.insert(device, true, events);
        }
    }

    fn insert(&mut self, device: DeviceCounter<'_>, derived: bool, events: Vec<Event>) {
        let own = Event { block: device.block.to_owned(), name: device.name.to_owned() };
        let block = if derived { events.first().map_or("", |event| &event.block) } else { device.block };
        let counter = Counter {
            name: device.name.to_owned(),
            block: block.to_owned(),
            unit: String::new(),
            description: device.description.to_owned(),
            derived,
            events: if derived { events.clone() } else { vec![own] },
        };
        self.counters.insert(device.name.to_owned(), counter);
    }

    /// Keeps only what a device lists; `X_sum` stands for `X`. Metrics with an operand that is gone go too.
    pub fn restrict_to<'d>(&mut self, names: impl IntoIterator<Item = &'d str>) {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let bases: BTreeSet<&str> = names.iter().filter_map(|name| name.strip_suffix("_sum")).collect();
        self.counters.retain(|name, _| names.contains(name.as_str()) || bases.contains(name.as_str()));
        let counters = &self.counters;
        self.metrics.retain(|metric| {
            let is_there = |operand: &str| counters.contains_key(operand);
            metric.operands().all(is_there) && (!metric.formula.is_sdk_only() || names.contains(metric.id.as_str()))
        });
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    limits: BTreeMap<Arch, BTreeMap<String, u16>>,
    group: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    block: String,
    archs: Vec<Arch>,
    /// Name, unit, description.
    counters: Vec<(String, String, String)>,
}

static TABLES: LazyLock<Result<Tables, CatalogError>> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/counters.toml")).map_err(|error| CatalogError::Table(error.to_string()))
});

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(arch: Arch) -> Catalog {
        Catalog::new(arch).unwrap()
    }

    /// Block limits of facts section 5.3: aqlprofile's tables.
    #[test]
    fn limits_are_aqlprofiles() {
        for arch in [Arch::Gfx90a, Arch::Gfx942, Arch::Gfx950] {
            let catalog = catalog(arch);
            for (block, limit) in [("SQ", 8), ("TCC", 4), ("TCP", 4), ("TA", 2), ("TD", 2), ("GRBM", 2), ("SPI", 6)] {
                assert_eq!(catalog.limit(block), limit, "{arch} {block}");
            }
        }
        assert_eq!(catalog(Arch::Gfx1100).limit("GL2C"), 4);
        assert_eq!(catalog(Arch::Gfx942).limit("NOTHING"), 1);
    }

    #[test]
    fn every_formula_has_its_counters_on_every_architecture() {
        for arch in Arch::ALL {
            let catalog = catalog(arch);
            assert!(catalog.counters().count() > 30);
            for metric in catalog.metrics() {
                for operand in metric.operands() {
                    assert!(catalog.counter(operand).is_some(), "{arch}: {} lacks {operand}", metric.id);
                }
            }
        }
    }

    /// The column names of a real MI300X run by rocprofiler-compute, where it is at hand.
    #[test]
    fn counters_of_a_recorded_run_are_known() {
        let folder = std::env::var("KBENCH_REAL_DATA").unwrap_or_else(|_| "../../../shared/data".to_owned());
        let path = std::path::Path::new(&folder).join("rocprofv3/rocprof_compute_MI300X_A1_pmc_perf.csv");
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("skipped: no recorded data at {}", path.display());
            return;
        };
        let catalog = catalog(Arch::Gfx942);
        let header = text.lines().next().unwrap();
        let names = header.split(',').map(|name| name.trim_matches('"').split('[').next().unwrap());
        let blocks = ["SQ_", "SQC_", "TCC_", "TCP_", "TA_", "TD_", "SPI_", "CPC_", "CPF_", "GRBM_"];
        let counters: BTreeSet<&str> =
            names.filter(|name| blocks.iter().any(|block| name.starts_with(block))).collect();
        assert!(counters.len() > 150);
        for name in counters {
            assert!(catalog.counter(name).is_some(), "{name}");
        }
    }

    #[test]
    fn unknown_names_come_with_near_ones() {
        let error = catalog(Arch::Gfx942).find("SQ_WAVE").unwrap_err();
        let CatalogError::Unknown { nearest, .. } = &error else { panic!("{error}") };
        assert!(nearest.contains(&"SQ_WAVES".to_owned()));
        assert!(error.to_string().contains("SQ_WAVES"));
        assert!(catalog(Arch::Gfx90a).find("SQ_INSTS_VALU_MFMA_MOPS_F8").is_err());
        assert!(catalog(Arch::Gfx942).find("L2CacheHit").is_err());
    }

    #[test]
    fn sums_and_metrics_are_found_by_what_they_count() {
        let catalog = catalog(Arch::Gfx942);
        assert_eq!(catalog.operands("TCC_HIT_sum").unwrap(), ["TCC_HIT"]);
        assert_eq!(
            catalog.operands("FETCH_SIZE").unwrap(),
            ["TCC_EA0_RDREQ_32B", "TCC_EA0_RDREQ", "TCC_BUBBLE"]
                .map(String::from)
                .to_vec()
                .into_iter()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
        assert_eq!(catalog.operands("MeanOccupancyPerCU").unwrap(), ["MeanOccupancyPerCU"]);
        let blocks: Vec<String> = catalog.events("MeanOccupancyPerCU").into_iter().map(|event| event.block).collect();
        assert_eq!(blocks, ["GRBM", "SQ", "SQ"]);
    }

    #[test]
    fn a_devices_list_adds_and_takes_away() {
        let mut catalog = catalog(Arch::Gfx942);
        let list = [
            DeviceCounter { name: "NEW_RATIO", block: "", description: "", expression: Some("NEW_PART*2") },
            DeviceCounter { name: "NEW_PART", block: "", description: "", expression: Some("TCC_NEW_sum/SQ_WAVES") },
            DeviceCounter { name: "TCC_NEW", block: "TCC", description: "Something new.", expression: None },
            DeviceCounter { name: "ODD", block: "", description: "", expression: Some("???") },
        ];
        catalog.add(list);
        let blocks = |name: &str| catalog.events(name).into_iter().map(|event| event.block).collect::<Vec<_>>();
        assert_eq!(blocks("NEW_RATIO"), ["SQ", "TCC"]);
        assert!(blocks("ODD").is_empty());
        assert!(catalog.counter("NEW_RATIO").unwrap().derived && !catalog.counter("TCC_NEW").unwrap().derived);
        catalog.restrict_to(["TCC_HIT_sum", "TCC_MISS", "SQ_WAVES"]);
        assert!(catalog.metric("l2_hit_rate").is_some() && catalog.metric("fabric_read_bytes").is_none());
        assert_eq!(catalog.counters().count(), 3);
    }
}
