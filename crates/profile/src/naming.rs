//! Kernel names as small numbers: each distinct name is cleaned and classified once.

use crate::error::ReadError;
use crate::names::{Class, Table, canonical};
use crate::read::ReadOptions;
use kbench_workload::Family;
use std::collections::HashMap;

/// A canonical kernel name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct KernelId(u32);

/// The interned names of one inventory.
pub(crate) struct Names {
    table: Table,
    by_raw: HashMap<String, KernelId>,
    by_canonical: HashMap<String, KernelId>,
    kernels: Vec<Kernel>,
    classes: HashMap<(KernelId, Option<String>), (Family, String)>,
    bytes: usize,
}

struct Kernel {
    canonical: String,
    raw: String,
}

/// Most distinct names; a distributed training run of 44,000 dispatches has 10,000.
const MAX_NAMES: usize = 1 << 20;
/// Most bytes of distinct names.
const MAX_NAME_BYTES: usize = 256 << 20;
/// The name that stands for all beyond.
const FURTHER: &str = "(further kernels)";

/// Category of copies and fills that the runtime records by itself. They are no kernels: their time is no kernel time.
pub(crate) const TRANSFER_CATEGORY: &str = "Memory transfer";

impl Names {
    /// No names yet; the user's table is read here.
    pub(crate) fn new(options: &ReadOptions) -> Result<Self, ReadError> {
        let table = match &options.names {
            None => Table::builtin(),
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|source| ReadError::io(path, source))?;
                Table::builtin().with_user(Table::parse(&text, &path.display().to_string())?)
            }
        };
        Ok(Self {
            table,
            by_raw: HashMap::new(),
            by_canonical: HashMap::new(),
            kernels: Vec::new(),
            classes: HashMap::new(),
            bytes: 0,
        })
    }

    /// The number of a name as found.
    pub(crate) fn intern(&mut self, raw: &str) -> KernelId {
        if let Some(id) = self.by_raw.get(raw) {
            return *id;
        }
        // Beyond what any profile holds, further names share one: a hostile file cannot ask for memory.
        if self.is_full() && raw != FURTHER {
            return self.intern(FURTHER);
        }
        self.bytes += raw.len();
        let canonical = canonical(raw);
        let next = KernelId(u32::try_from(self.kernels.len()).unwrap_or(u32::MAX));
        let id = *self.by_canonical.entry(canonical.clone()).or_insert(next);
        if id == next {
            self.kernels.push(Kernel { canonical, raw: raw.to_owned() });
        }
        self.by_raw.insert(raw.to_owned(), id);
        id
    }

    /// True when no further distinct name is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.by_raw.len() >= MAX_NAMES || self.bytes >= MAX_NAME_BYTES
    }

    pub(crate) fn canonical(&self, id: KernelId) -> &str {
        &self.kernels[id.0 as usize].canonical
    }

    /// The first of its names as found.
    pub(crate) fn raw(&self, id: KernelId) -> &str {
        &self.kernels[id.0 as usize].raw
    }

    /// Family and category; the operator helps when the name says nothing.
    pub(crate) fn class(&mut self, id: KernelId, op: Option<&str>) -> (Family, String) {
        let key = (id, op.map(str::to_owned));
        if let Some(class) = self.classes.get(&key) {
            return class.clone();
        }
        let kernel = &self.kernels[id.0 as usize];
        let class = match is_transfer(&kernel.raw) {
            true => (Family::Copy, TRANSFER_CATEGORY.to_owned()),
            false => {
                let Class { family, category, .. } = self.table.classify(&kernel.canonical, op);
                (family, category)
            }
        };
        self.classes.insert(key, class.clone());
        class
    }
}

/// Names under which kineto records copies and fills of the runtime: `Memcpy DtoD (Device -> Device)`, `Memset (Device)`.
pub(crate) fn is_transfer(raw: &str) -> bool {
    ["Memcpy ", "Memset ", "Memcpy(", "Memset("].iter().any(|head| raw.starts_with(head))
        || matches!(raw, "Memcpy" | "Memset")
}
