//! The rows of an inventory in the making: one per kernel, family, phase and position, with its weighted shapes.

use crate::health::Health;
use crate::inventory::{Inventory, Location, Phase, Provenance, Row, ShapeUse, Source};
use crate::naming::{KernelId, Names};
use crate::timeline::{StepSummary, Window};
use kbench_workload::{Dtypes, Family, ShapeMap};
use std::collections::{HashMap, HashSet};

/// A shape and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) shape: ShapeMap,
    pub(crate) dtypes: Dtypes,
    pub(crate) provenance: Provenance,
    pub(crate) assumed: Vec<String>,
}

/// Launches of one kernel, as one record of a source tells them.
#[derive(Clone, Debug)]
pub(crate) struct Launches<'a> {
    pub(crate) kernel: KernelId,
    pub(crate) op: Option<&'a str>,
    /// Set when the operator's arguments settle what the kernel computes; its name does otherwise.
    pub(crate) family: Option<Family>,
    pub(crate) phase: Phase,
    pub(crate) position: Option<&'a str>,
    pub(crate) calls: u64,
    pub(crate) total_ns: u64,
    pub(crate) shape: Option<&'a Shape>,
    pub(crate) file: &'a str,
    pub(crate) line: u64,
}

impl<'a> Launches<'a> {
    /// Launches of which a source tells nothing but the kernel's name.
    pub(crate) fn of_name(kernel: KernelId, calls: u64, total_ns: u64, file: &'a str) -> Self {
        Self {
            kernel,
            op: None,
            family: None,
            phase: Phase::Unknown,
            position: None,
            calls,
            total_ns,
            shape: None,
            file,
            line: 0,
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
struct RowKey {
    kernel: KernelId,
    family: Family,
    phase: Phase,
    position: Option<String>,
}

/// Collects launches into rows.
pub(crate) struct Ledger {
    pub(crate) names: Names,
    pub(crate) health: Health,
    pub(crate) source: Source,
    pub(crate) window: Option<Window>,
    /// Steps of all traces so far, those that were not asked for excepted.
    pub(crate) steps: Vec<StepSummary>,
    /// Steps of all traces so far.
    pub(crate) steps_seen: u64,
    /// Processes that were read, by an identity that no two share (rocpd's guid): one that stands in two files counts once.
    pub(crate) processes: HashSet<String>,
    rows: Vec<Row>,
    /// Largest single contribution to a row: its operator and location are the row's.
    largest: Vec<u64>,
    by_key: HashMap<RowKey, usize>,
    by_kernel: HashMap<KernelId, Vec<usize>>,
    shapes: HashMap<(usize, ShapeMap, Dtypes, Provenance), usize>,
}

impl Ledger {
    pub(crate) fn new(names: Names, source: Source) -> Self {
        Self {
            names,
            health: Health::default(),
            source,
            window: None,
            steps: Vec::new(),
            steps_seen: 0,
            processes: HashSet::new(),
            rows: Vec::new(),
            largest: Vec::new(),
            by_key: HashMap::new(),
            by_kernel: HashMap::new(),
            shapes: HashMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows so far, in the order of their first record.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Adds launches to their row.
    pub(crate) fn add(&mut self, launches: &Launches<'_>) {
        let (named, mut category) = self.names.class(launches.kernel, launches.op);
        let family = launches.family.unwrap_or(named);
        if named == Family::Other && family != named {
            category = family.name().to_owned();
        }
        let key = RowKey {
            kernel: launches.kernel,
            family,
            phase: launches.phase,
            position: launches.position.map(str::to_owned),
        };
        let index = match self.by_key.get(&key) {
            Some(index) => *index,
            None => {
                let index = self.rows.len();
                self.rows.push(Row {
                    kernel: self.names.canonical(launches.kernel).to_owned(),
                    kernel_raw: self.names.raw(launches.kernel).to_owned(),
                    family,
                    category,
                    op: launches.op.map(str::to_owned),
                    position: key.position.clone(),
                    phase: launches.phase,
                    calls: 0,
                    total_ns: 0,
                    share: 0.0,
                    provenance: Provenance::None,
                    shapes: Vec::new(),
                    location: Location { file: launches.file.to_owned(), line: launches.line },
                });
                self.largest.push(0);
                self.by_kernel.entry(launches.kernel).or_default().push(index);
                self.by_key.insert(key, index);
                index
            }
        };
        self.add_to(index, launches);
    }

    /// Adds launches whose operator is not known to the row of their kernel that has most time, so that time without a shape does
    /// not part from the same kernel's time with one; to a row of their own when there is none.
    pub(crate) fn add_unlinked(&mut self, launches: &Launches<'_>) {
        let rows = self.by_kernel.get(&launches.kernel);
        match rows.and_then(|rows| rows.iter().copied().max_by_key(|index| self.rows[*index].total_ns)) {
            Some(index) => self.add_to(index, launches),
            None => self.add(launches),
        }
    }

    fn add_to(&mut self, index: usize, launches: &Launches<'_>) {
        let row = &mut self.rows[index];
        row.calls = row.calls.saturating_add(launches.calls);
        row.total_ns = row.total_ns.saturating_add(launches.total_ns);
        if launches.total_ns > self.largest[index] {
            self.largest[index] = launches.total_ns;
            if launches.op.is_some() {
                row.op = launches.op.map(str::to_owned);
            }
            row.location.line = launches.line;
            if row.location.file != launches.file {
                row.location.file = launches.file.to_owned();
            }
        }
        let Some(shape) = launches.shape else { return };
        let key = (index, shape.shape.clone(), shape.dtypes.clone(), shape.provenance);
        let place = *self.shapes.entry(key).or_insert_with(|| {
            row.shapes.push(ShapeUse {
                shape: shape.shape.clone(),
                dtypes: shape.dtypes.clone(),
                calls: 0,
                total_ns: 0,
                provenance: shape.provenance,
                assumed: Vec::new(),
            });
            row.shapes.len() - 1
        });
        let used = &mut row.shapes[place];
        used.calls = used.calls.saturating_add(launches.calls);
        used.total_ns = used.total_ns.saturating_add(launches.total_ns);
        for sentence in &shape.assumed {
            if !used.assumed.contains(sentence) {
                used.assumed.push(sentence.clone());
            }
        }
    }

    /// Calls and time of a kernel so far.
    pub(crate) fn of_kernel(&self, kernel: KernelId) -> (u64, u64) {
        let rows = self.by_kernel.get(&kernel).into_iter().flatten().map(|index| &self.rows[*index]);
        rows.fold((0, 0), |(calls, ns), row| (row.calls.saturating_add(calls), row.total_ns.saturating_add(ns)))
    }

    /// The finished inventory.
    pub(crate) fn finish(self) -> Inventory {
        let mut inventory = Inventory {
            source: self.source,
            health: self.health.findings(),
            rows: self.rows,
            window: self.window,
            steps: self.steps,
        };
        inventory.finish();
        inventory
    }
}
