//! Inventory → cases: which shapes are replayed, in which order, with which weight; and what is left out and why.

use kbench_profile::{Inventory, Phase, Provenance, Row, ShapeUse};
use kbench_workload::{CaseOptions, Dtypes, Family, ShapeMap, Workload, case};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// A part of a row's time below this is rounding, not time without a shape.
const ROUNDING: f64 = 1e-3;

/// What to replay.
#[derive(Debug, Default)]
pub struct Selection {
    /// Only these families; empty for all.
    pub families: Vec<Family>,
    /// Only kernels whose canonical or raw name matches.
    pub kernel: Option<Regex>,
    /// Only this phase.
    pub phase: Option<Phase>,
    /// Only the `n` heaviest cases.
    pub top: Option<usize>,
    /// Only the heaviest cases that together make this share of the selected kernel time.
    pub coverage: Option<f64>,
}

/// How much of the profile a case stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    /// Calls in the profile.
    pub calls: u64,
    /// Kernel time in the profile, ns; 0 when the source gives none.
    pub total_ns: u64,
    /// Share of the inventory's kernel time, 0 to 1; 0 when the source gives no time.
    pub share: f64,
    /// Phase.
    pub phase: Phase,
    /// How the shape became known.
    pub provenance: Provenance,
}

/// A case that can be replayed, or a kernel that cannot and why.
#[derive(Debug)]
pub struct Planned {
    /// Stable name: family, dtypes and shape. Equal inventories give equal ids.
    pub id: String,
    /// Family.
    pub family: Family,
    /// Heaviest kernel that ran at this shape.
    pub kernel: String,
    /// Shape: canonical when the case can be built, else as found.
    pub shape: ShapeMap,
    /// Dtypes, likewise.
    pub dtypes: Dtypes,
    /// Weight.
    pub weight: Weight,
    /// What the source did not say and was assumed.
    pub assumed: Vec<String>,
    /// The case, or why there is none.
    pub workload: Result<Box<dyn Workload>, String>,
}

/// What is replayed and what is not.
#[derive(Debug, Default)]
pub struct Plan {
    /// Cases, heaviest first; those that cannot be built are among them with their reason.
    pub cases: Vec<Planned>,
    /// Share of kernel time by family that has no workload, largest first.
    pub not_replayable: Vec<(Family, f64)>,
    /// Cases that the selection left out: how many, and their share of kernel time.
    pub left_out: (usize, f64),
}

/// A shape gathered over the kernels that ran at it.
struct Gathered {
    family: Family,
    shape: ShapeMap,
    dtypes: Dtypes,
    phase: Phase,
    provenance: Provenance,
    total_ns: u64,
    share: f64,
    /// Calls of leading kernels, and of kernels that only finish what another began (reductions).
    calls: (u64, u64),
    kernel: String,
    kernel_ns: u64,
    assumed: Vec<String>,
}

impl Plan {
    /// Chooses and builds cases. Rows of families with a workload but without a shape stay in the plan as cases that
    /// cannot be built: a hot kernel is never dropped silently.
    pub fn new(inventory: &Inventory, selection: &Selection, options: CaseOptions) -> Self {
        let total = inventory.total_ns() as f64;
        let share = |ns: f64| if total > 0.0 { ns / total } else { 0.0 };
        let mut gathered: Vec<Gathered> = Vec::new();
        let mut by_key: HashMap<(Family, String, String, Phase), usize> = HashMap::new();
        let mut unresolved = Vec::new();
        let mut others: BTreeMap<Family, f64> = BTreeMap::new();
        for row in inventory.rows.iter().filter(|row| !row.is_transfer() && selection.takes(row)) {
            if !row.family.is_replayable() {
                *others.entry(row.family).or_default() += share(row.total_ns as f64);
                continue;
            }
            let mut unknown = 1.0;
            for (used, part) in row.shapes.iter().zip(row.shape_parts()).filter(|(used, _)| !used.is_generic()) {
                unknown -= part;
                let ns = row.total_ns as f64 * part;
                let key = (row.family, used.shape.to_string(), used.dtypes.to_string(), row.phase);
                let index = *by_key.entry(key).or_insert_with(|| {
                    gathered.push(Gathered::new(row, used));
                    gathered.len() - 1
                });
                gathered[index].add(row, used, ns, share(ns));
            }
            if unknown > ROUNDING {
                unresolved.push(Planned::without_shape(row, unknown, share(row.total_ns as f64)));
            }
        }
        let mut plan = Plan { not_replayable: others.into_iter().collect(), ..Plan::default() };
        plan.not_replayable.sort_by(|a, b| b.1.total_cmp(&a.1));
        plan.cases = merge_equal(gathered.into_iter().map(|shape| shape.build(options)).collect());
        plan.cases.extend(unresolved);
        plan.cases.sort_by(|a, b| {
            (b.weight.total_ns, b.weight.calls).cmp(&(a.weight.total_ns, a.weight.calls)).then_with(|| a.id.cmp(&b.id))
        });
        plan.cut(selection);
        plan
    }

    /// Applies `--top` and `--coverage`.
    fn cut(&mut self, selection: &Selection) {
        let mut keep = selection.top.unwrap_or(usize::MAX).min(self.cases.len());
        if let Some(coverage) = selection.coverage {
            let all: f64 = self.cases.iter().map(|case| case.weight.total_ns as f64).sum();
            let mut sum = 0.0;
            let enough = self.cases.iter().position(|case| {
                sum += case.weight.total_ns as f64;
                all > 0.0 && sum >= coverage * all
            });
            keep = keep.min(enough.map_or(self.cases.len(), |last| last + 1));
        }
        let dropped = self.cases.split_off(keep);
        self.left_out = (dropped.len(), dropped.iter().fold(0.0, |sum, case| sum + case.weight.share));
    }
}

impl Selection {
    fn takes(&self, row: &Row) -> bool {
        (self.families.is_empty() || self.families.contains(&row.family))
            && self.phase.is_none_or(|phase| phase == row.phase)
            && self.kernel.as_ref().is_none_or(|regex| regex.is_match(&row.kernel) || regex.is_match(&row.kernel_raw))
    }
}

impl Gathered {
    fn new(row: &Row, used: &ShapeUse) -> Self {
        Self {
            family: row.family,
            shape: used.shape.clone(),
            dtypes: used.dtypes.clone(),
            phase: row.phase,
            provenance: used.provenance,
            total_ns: 0,
            share: 0.0,
            calls: (0, 0),
            kernel: row.kernel.clone(),
            kernel_ns: 0,
            assumed: Vec::new(),
        }
    }

    fn add(&mut self, row: &Row, used: &ShapeUse, ns: f64, share: f64) {
        self.total_ns += ns.round() as u64;
        self.share += share;
        self.provenance = self.provenance.max(used.provenance);
        let finishes = row.category.contains("Reduce");
        *(if finishes { &mut self.calls.1 } else { &mut self.calls.0 }) += used.calls;
        if ns as u64 >= self.kernel_ns {
            self.kernel_ns = ns as u64;
            self.kernel.clone_from(&row.kernel);
        }
        for sentence in &used.assumed {
            if !self.assumed.contains(sentence) {
                self.assumed.push(sentence.clone());
            }
        }
    }

    fn build(self, options: CaseOptions) -> Planned {
        let workload = case(self.family, &self.shape, &self.dtypes, options).map_err(|error| error.to_string());
        let (shape, dtypes) = match &workload {
            Ok(workload) => (workload.shape(), workload.dtypes()),
            Err(_) => (self.shape, self.dtypes),
        };
        Planned {
            id: case_id(self.family, &dtypes, &shape),
            family: self.family,
            kernel: self.kernel,
            shape,
            dtypes,
            weight: Weight {
                calls: if self.calls.0 > 0 { self.calls.0 } else { self.calls.1 },
                total_ns: self.total_ns,
                share: self.share,
                phase: self.phase,
                provenance: self.provenance,
            },
            assumed: self.assumed,
            workload,
        }
    }
}

impl Planned {
    /// The part `unknown` (0 to 1) of a row's time that has no shape.
    fn without_shape(row: &Row, unknown: f64, row_share: f64) -> Self {
        let shaped: u64 = row.shapes.iter().filter(|used| !used.is_generic()).map(|used| used.calls).sum();
        let calls = row.calls.saturating_sub(shaped);
        Self {
            id: format!("{}:?:{}", row.family, row.kernel),
            family: row.family,
            kernel: row.kernel.clone(),
            shape: ShapeMap::new(),
            dtypes: Dtypes::default(),
            weight: Weight {
                calls,
                total_ns: (row.total_ns as f64 * unknown).round() as u64,
                share: row_share * unknown,
                phase: row.phase,
                provenance: Provenance::None,
            },
            assumed: Vec::new(),
            workload: Err(format!(
                "the profile does not tell the shape of {calls} of {} calls of {}",
                row.calls,
                kbench_profile::names::short(&row.kernel)
            )),
        }
    }
}

/// The stable id of a case.
pub fn case_id(family: Family, dtypes: &Dtypes, shape: &ShapeMap) -> String {
    format!("{family}:{dtypes}:{shape}")
}

/// Joins cases that turned out equal once their defaults were filled in.
fn merge_equal(cases: Vec<Planned>) -> Vec<Planned> {
    let mut merged: Vec<Planned> = Vec::new();
    let mut by_id: HashMap<(String, Phase), usize> = HashMap::new();
    for case in cases {
        match by_id.get(&(case.id.clone(), case.weight.phase)) {
            Some(&index) => {
                let first = &mut merged[index];
                if case.weight.total_ns > first.weight.total_ns {
                    first.kernel = case.kernel;
                }
                first.weight.calls += case.weight.calls;
                first.weight.total_ns += case.weight.total_ns;
                first.weight.share += case.weight.share;
                first.weight.provenance = first.weight.provenance.max(case.weight.provenance);
            }
            None => {
                by_id.insert((case.id.clone(), case.weight.phase), merged.len());
                merged.push(case);
            }
        }
    }
    merged
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
