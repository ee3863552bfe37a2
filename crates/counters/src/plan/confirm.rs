//! Plans that a device agrees to.

use super::{Builder, Group, Pass, Plan, groups, placements};
use crate::catalog::{Catalog, CatalogError};
use std::collections::{BTreeMap, BTreeSet};

/// A device's own check of a set of counters (rocprofiler-sdk: creating a counter configuration).
pub trait Oracle {
    /// Why it could not answer; to be told from "does not fit".
    type Error;

    /// True when these can be collected in one pass, false when they exceed the hardware or a name is not valid for the device.
    ///
    /// # Errors
    /// When the check itself failed.
    fn fits(&mut self, counters: &[&str]) -> Result<bool, Self::Error>;
}

/// Why there is no confirmed plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError<E> {
    /// A name is not known.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The device's check failed.
    #[error("the device could not say whether counters fit one pass: {0}")]
    Oracle(E),
}

/// Counters of a pass in the making, as groups that must stay together.
struct Draft {
    groups: Vec<Vec<String>>,
    guarded: bool,
}

impl Plan {
    /// Passes for counters and metrics by name, each confirmed by the device. The offline plan is the first offer; passes that the device refuses
    /// are split, and passes that it would take together are merged.
    ///
    /// # Errors
    /// [`PlanError`]; counters that the device refuses even alone are [`super::Placement::Refused`], no error.
    pub fn confirmed<'n, O: Oracle>(
        catalog: &Catalog,
        names: impl IntoIterator<Item = &'n str>,
        oracle: &mut O,
    ) -> Result<Self, PlanError<O::Error>> {
        let groups = groups(catalog, names)?;
        let builder = Builder::new(catalog);
        let offline = builder.plan(&groups);
        let mut confirm = Confirm { builder: &builder, oracle, drafts: Vec::new(), refused: BTreeMap::new() };
        for pass in &offline.passes {
            confirm.pass(pass, &groups).map_err(PlanError::Oracle)?;
        }
        // What the table thinks impossible is offered too: the table may be too strict.
        for group in &groups {
            for counter in &group.counters {
                let is_placed = confirm.drafts.iter().any(|draft| builder.names(draft).contains(&counter.as_str()));
                if !is_placed && !confirm.refused.contains_key(counter) {
                    confirm.group(vec![counter.clone()]).map_err(PlanError::Oracle)?;
                }
            }
        }
        confirm.merge().map_err(PlanError::Oracle)?;
        let passes: Vec<Pass> = confirm.drafts.iter().map(|draft| builder.confirmed_pass(draft)).collect();
        let placements = placements(&groups, &passes, &confirm.refused);
        Ok(Plan { arch: catalog.arch(), passes, placements, confirmed: true })
    }
}

impl Builder<'_> {
    /// All counters of a draft, guards first.
    fn names<'d>(&self, draft: &'d Draft) -> Vec<&'d str> {
        let mut names: Vec<&str> = if draft.guarded { self.guards.clone() } else { Vec::new() };
        for counter in draft.groups.iter().flatten() {
            if !names.contains(&counter.as_str()) {
                names.push(counter);
            }
        }
        names
    }

    fn confirmed_pass(&self, draft: &Draft) -> Pass {
        let counters: Vec<String> = self.names(draft).into_iter().map(str::to_owned).collect();
        Pass { load: self.load(&counters), counters, guarded: draft.guarded }
    }
}

struct Confirm<'b, 'c, O> {
    builder: &'b Builder<'c>,
    oracle: &'b mut O,
    drafts: Vec<Draft>,
    refused: BTreeMap<String, String>,
}

impl<O: Oracle> Confirm<'_, '_, O> {
    fn fits(&mut self, draft: &Draft) -> Result<bool, O::Error> {
        let names = self.builder.names(draft);
        self.oracle.fits(&names)
    }

    /// Takes an offline pass as it is, or its groups one after the other.
    fn pass(&mut self, pass: &Pass, groups: &[Group]) -> Result<(), O::Error> {
        let own: Vec<String> =
            pass.counters.iter().filter(|counter| !self.builder.guards.contains(&counter.as_str())).cloned().collect();
        let whole = Draft { groups: self.parts(&own, groups), guarded: true };
        if self.fits(&whole)? {
            self.drafts.push(whole);
            return Ok(());
        }
        for part in whole.groups {
            self.group(part)?;
        }
        Ok(())
    }

    /// The groups that lie in a pass, and single counters for what is left.
    fn parts(&self, counters: &[String], groups: &[Group]) -> Vec<Vec<String>> {
        let is_guard = |counter: &String| self.builder.guards.contains(&counter.as_str());
        let mut parts: Vec<Vec<String>> = Vec::new();
        let mut left: BTreeSet<&String> = counters.iter().collect();
        for group in groups {
            if group.counters.iter().all(|counter| is_guard(counter) || counters.contains(counter)) {
                let part: Vec<String> = group.counters.iter().filter(|counter| !is_guard(counter)).cloned().collect();
                part.iter().for_each(|counter| {
                    left.remove(counter);
                });
                if !part.is_empty() && !parts.contains(&part) {
                    parts.push(part);
                }
            }
        }
        parts.extend(left.into_iter().map(|counter| vec![counter.clone()]));
        parts
    }

    /// Puts a group into the first pass that takes it, or a new one; breaks it up when none does.
    fn group(&mut self, group: Vec<String>) -> Result<(), O::Error> {
        for index in 0..self.drafts.len() {
            let Some(draft) = self.drafts.get(index).filter(|draft| draft.guarded) else { continue };
            let mut groups = draft.groups.clone();
            groups.push(group.clone());
            let draft = Draft { groups, guarded: true };
            if self.fits(&draft)?
                && let Some(slot) = self.drafts.get_mut(index)
            {
                *slot = draft;
                return Ok(());
            }
        }
        for guarded in [true, false] {
            let draft = Draft { groups: vec![group.clone()], guarded };
            // Without guards only as the last resort, for a single counter.
            if (guarded || group.len() == 1) && self.fits(&draft)? {
                self.drafts.push(draft);
                return Ok(());
            }
        }
        match group.as_slice() {
            [] => {}
            [counter] => {
                let why = format!("the device refuses {counter} even alone");
                self.refused.insert(counter.clone(), why);
            }
            several => {
                for counter in several {
                    self.group(vec![counter.clone()])?;
                }
            }
        }
        Ok(())
    }

    /// Joins passes while the device takes them together.
    fn merge(&mut self) -> Result<(), O::Error> {
        let mut first = 0;
        while first < self.drafts.len() {
            let mut second = first + 1;
            while let (Some(a), Some(b)) = (self.drafts.get(first), self.drafts.get(second)) {
                let groups = a.groups.iter().chain(&b.groups).cloned().collect();
                let both = Draft { groups, guarded: true };
                let may_join = a.guarded && b.guarded;
                if may_join && self.fits(&both)? {
                    self.drafts.remove(second);
                    if let Some(slot) = self.drafts.get_mut(first) {
                        *slot = both;
                    }
                } else {
                    second += 1;
                }
            }
            first += 1;
        }
        Ok(())
    }
}
