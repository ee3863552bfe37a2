//! Which counters are collected together.
//!
//! A block counts only a few events at a time, so a request becomes passes, and the launch is replayed for each. The operands of a metric are one
//! group and share a pass; what no pass can hold is spread and marked, never refused. `GRBM_GUI_ACTIVE` and `SQ_WAVES` are in every pass: they
//! tell whether its counts can be believed. The plan is made from the table of block limits and, with a device, confirmed by the device's own check.

mod confirm;
mod pack;

pub use confirm::{Oracle, PlanError};

use crate::arch::Arch;
use crate::catalog::{Catalog, CatalogError, Event};
use pack::{Packer, Problem};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Counters that every pass collects.
pub const GUARDS: [&str; 2] = ["GRBM_GUI_ACTIVE", "SQ_WAVES"];

/// Counters that are collected together, in one replay of the launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// Names, guards first.
    pub counters: Vec<String>,
    /// Events counted at a time by block, by the table.
    pub load: BTreeMap<String, u16>,
    /// Guards are among the counters. A device may refuse them beside a counter that fills a block alone.
    pub guarded: bool,
}

/// Where what was asked for is collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// All of it in one pass.
    Pass(usize),
    /// Its operands do not fit one pass: they are spread over these, and its value is marked `cross_pass`.
    Spread(Vec<usize>),
    /// It cannot be counted: why.
    Refused(String),
}

impl Placement {
    /// What keeps it from being counted; `None` for what is.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Placement::Refused(why) => Some(why),
            Placement::Pass(_) | Placement::Spread(_) => None,
        }
    }
}

/// Passes for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The architecture.
    pub arch: Arch,
    /// The passes, in order.
    pub passes: Vec<Pass>,
    /// Where each name that was asked for is collected.
    pub placements: BTreeMap<String, Placement>,
    /// A device has agreed to every pass; else they follow from the table alone.
    pub confirmed: bool,
}

/// What was asked for under one name.
#[derive(Clone, Debug)]
struct Group {
    name: String,
    counters: Vec<String>,
}

impl Plan {
    /// Passes for counters and metrics by name, from the table of block limits. A name given twice counts once.
    ///
    /// # Errors
    /// [`CatalogError::Unknown`] for a name that the catalogue lacks. Too many counters are no error.
    pub fn offline<'n>(catalog: &Catalog, names: impl IntoIterator<Item = &'n str>) -> Result<Self, CatalogError> {
        let groups = groups(catalog, names)?;
        Ok(Builder::new(catalog).plan(&groups))
    }

    /// Launches that a collection with so many repeats of each pass takes.
    pub fn launches(&self, repeats: u32) -> u64 {
        self.passes.len() as u64 * u64::from(repeats)
    }
}

fn groups<'n>(catalog: &Catalog, names: impl IntoIterator<Item = &'n str>) -> Result<Vec<Group>, CatalogError> {
    let mut seen = BTreeSet::new();
    let mut groups = Vec::new();
    for name in names {
        if seen.insert(name) {
            groups.push(Group { name: name.to_owned(), counters: catalog.operands(name)? });
        }
    }
    Ok(groups)
}

/// Turns groups of names into a packing problem and back.
struct Builder<'c> {
    catalog: &'c Catalog,
    /// Counters that every pass has.
    guards: Vec<&'static str>,
}

impl<'c> Builder<'c> {
    fn new(catalog: &'c Catalog) -> Self {
        let guards = GUARDS.into_iter().filter(|guard| catalog.counter(guard).is_some()).collect();
        Self { catalog, guards }
    }

    fn plan(&self, groups: &[Group]) -> Plan {
        let mut problem = Problem::new(|block| self.catalog.limit(block));
        for guard in &self.guards {
            problem.occupy(&self.catalog.events(guard));
        }
        // A group that no pass can hold is packed counter by counter.
        let mut parts: Vec<Vec<&str>> = Vec::new();
        let mut refused: BTreeMap<String, String> = BTreeMap::new();
        for group in groups {
            let whole: Vec<&str> = group.counters.iter().map(String::as_str).collect();
            if problem.fits(&self.events(&whole)) {
                parts.push(whole);
                continue;
            }
            for counter in whole {
                if problem.fits(&self.events(&[counter])) {
                    parts.push(vec![counter]);
                } else {
                    refused.insert(counter.to_owned(), self.too_large(counter));
                }
            }
        }
        let items: Vec<Vec<Event>> = parts.iter().map(|part| self.events(part)).collect();
        let packed = Packer::new(&problem, &items).pack();
        let passes: Vec<Pass> =
            packed.iter().map(|bin| self.pass(bin.iter().filter_map(|item| parts.get(*item)))).collect();
        // What takes no room beside the guards still needs a pass to be in.
        let wants_guards = passes.is_empty() && groups.iter().any(|group| self.is_guarded(group));
        let passes = if wants_guards { vec![self.pass(std::iter::empty())] } else { passes };
        let placements = placements(groups, &passes, &refused);
        Plan { arch: self.catalog.arch(), passes, placements, confirmed: false }
    }

    /// True for a group of nothing but guards.
    fn is_guarded(&self, group: &Group) -> bool {
        group.counters.iter().all(|counter| self.guards.contains(&counter.as_str()))
    }

    fn events(&self, counters: &[&str]) -> Vec<Event> {
        counters.iter().flat_map(|counter| self.catalog.events(counter)).collect()
    }

    fn pass<'p>(&self, parts: impl Iterator<Item = &'p Vec<&'p str>>) -> Pass {
        let mut counters: Vec<String> = self.guards.iter().map(|guard| (*guard).to_owned()).collect();
        for counter in parts.flatten() {
            if !counters.iter().any(|known| known == counter) {
                counters.push((*counter).to_owned());
            }
        }
        Pass { load: self.load(&counters), counters, guarded: true }
    }

    fn load(&self, counters: &[String]) -> BTreeMap<String, u16> {
        let events: BTreeSet<Event> = counters.iter().flat_map(|counter| self.catalog.events(counter)).collect();
        let mut load = BTreeMap::new();
        for event in events {
            let count = load.entry(event.block).or_insert(0_u16);
            *count = count.saturating_add(1);
        }
        load
    }

    fn too_large(&self, counter: &str) -> String {
        let load = self.load(&[counter.to_owned()]);
        let over = load.iter().find(|(block, count)| **count > self.catalog.limit(block));
        let (block, count) = over.map_or(("its block", 0), |(block, count)| (block.as_str(), *count));
        format!(
            "{counter} alone takes {count} events of {block} beside the guards, which counts {} at a time",
            self.catalog.limit(block)
        )
    }
}

/// Where each group's counters ended up.
fn placements(groups: &[Group], passes: &[Pass], refused: &BTreeMap<String, String>) -> BTreeMap<String, Placement> {
    let has = |pass: &Pass, counter: &String| pass.counters.contains(counter);
    let place = |group: &Group| {
        if let Some(why) = group.counters.iter().find_map(|counter| refused.get(counter)) {
            return Placement::Refused(why.clone());
        }
        let whole = passes.iter().position(|pass| group.counters.iter().all(|counter| has(pass, counter)));
        whole.map(Placement::Pass).unwrap_or_else(|| {
            let first = |counter| passes.iter().position(|pass| has(pass, counter));
            let spread: BTreeSet<usize> = group.counters.iter().filter_map(first).collect();
            Placement::Spread(spread.into_iter().collect())
        })
    };
    groups.iter().map(|group| (group.name.clone(), place(group))).collect()
}

#[cfg(test)]
mod tests;
