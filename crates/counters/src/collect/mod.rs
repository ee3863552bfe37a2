//! From records to values: instances reduced, launches judged by their guards, medians over repeats, records reconciled with launches.

mod arrivals;
mod reconcile;
pub mod wire;

pub use arrivals::{Arrivals, Sums};
pub use reconcile::{Lost, Reconciliation, Rejected};
pub use wire::{Entry, Header, Position, Record};

use crate::arch::Geometry;
use crate::metric::{Kind, Measured, PassReadings, Reading};
use crate::plan::Plan;
use arrivals::{Arrived, Reduced};
use kbench_stats::Sample;
use std::collections::BTreeMap;

/// A launch that records are expected of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The profiler's number of the dispatch.
    pub dispatch_id: u64,
    /// Pass that it was launched for.
    pub pass: usize,
    /// Waves that it starts; `None` where that is not known.
    pub expected_waves: Option<u64>,
}

/// Gathers the records of a collection.
pub struct Collector {
    names: Vec<String>,
    plan: Plan,
    launches: BTreeMap<u64, Launch>,
    arrivals: Arrivals,
}

/// What a collection gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Collected {
    /// Medians by pass.
    pub measured: Measured,
    /// What was launched and what arrived.
    pub reconciliation: Reconciliation,
}

impl Collector {
    /// A collection of a plan. `names` are the counters that entries refer to by index.
    pub fn new(plan: Plan, names: Vec<String>) -> Self {
        let arrivals = Arrivals::new(names.len());
        Self::with(plan, names, arrivals)
    }

    /// A collection of what has arrived already.
    pub fn with(plan: Plan, names: Vec<String>, arrivals: Arrivals) -> Self {
        Self { names, plan, launches: BTreeMap::new(), arrivals }
    }

    /// Notes a launch. May be called before or after its records arrive, but before [`Collector::finish`].
    pub fn launched(&mut self, launch: Launch) {
        self.launches.insert(launch.dispatch_id, launch);
    }

    /// Launches of which all values have arrived; to be compared with those launched while flushing.
    pub fn complete(&self) -> usize {
        self.launches.keys().filter(|id| self.arrivals.has_all_of(**id)).count()
    }

    /// Takes a record out of the ring. What is no record, and values that are none, are counted and left aside.
    pub fn take(&mut self, bytes: &[u8]) {
        self.arrivals.take(bytes);
    }

    /// Judges the launches and takes medians. `kind` says how a counter's values came about.
    pub fn finish(self, geometry: Geometry, kind: impl Fn(&str) -> Kind) -> Collected {
        let strangers = self.arrivals.dispatches().filter(|id| !self.launches.contains_key(id)).count();
        let mut found = Reconciliation {
            launched: self.launches.len() as u64,
            unknown: strangers as u64,
            malformed: self.arrivals.malformed(),
            ..Reconciliation::default()
        };
        let mut passes = Vec::with_capacity(self.plan.passes.len());
        let mut unavailable = BTreeMap::new();
        for pass in 0..self.plan.passes.len() {
            passes.push(self.pass(pass, &mut found, &kind, &mut unavailable));
        }
        // A counter that one pass missed may stand in another.
        unavailable.retain(|name: &String, _| !passes.iter().any(|pass| pass.counters.contains_key(name)));
        for placement in &self.plan.placements {
            if let (name, crate::plan::Placement::Refused(why)) = placement {
                unavailable.insert(name.clone(), why.clone());
            }
        }
        let measured = Measured { passes, geometry, duration_ns: None, unavailable };
        Collected { measured, reconciliation: found }
    }

    fn pass(
        &self,
        index: usize,
        found: &mut Reconciliation,
        kind: &impl Fn(&str) -> Kind,
        unavailable: &mut BTreeMap<String, String>,
    ) -> PassReadings {
        let mut good: Vec<&Arrived> = Vec::new();
        let mut problem = None;
        for launch in self.launches.values().filter(|launch| launch.pass == index) {
            let lost = Lost { pass: index, dispatch_id: launch.dispatch_id };
            match self.arrivals.get(launch.dispatch_id) {
                None => found.missing(lost),
                // A value that came twice stands for one that is missing: the reason is the repetition.
                Some(arrived) if !arrived.is_whole() && !arrived.has_repeats => found.partial(lost),
                Some(arrived) => {
                    found.recorded += 1;
                    found.bad_times += u64::from(arrived.end_ns <= arrived.start_ns);
                    match self.guard(arrived, launch) {
                        None => good.push(arrived),
                        Some(reason) => {
                            problem.get_or_insert_with(|| reason.clone());
                            found.reject(lost, reason);
                        }
                    }
                }
            }
        }
        let all = if good.is_empty() { self.whole(index) } else { good.clone() };
        let wanted = self.plan.passes.get(index).map(|pass| pass.counters.as_slice()).unwrap_or_default();
        let mut counters = BTreeMap::new();
        for name in wanted {
            match self.reading(name, &all, kind(name)) {
                Some(reading) => {
                    counters.insert(name.clone(), reading);
                }
                None => {
                    let why = format!("no value arrived in pass {} ({} launches)", index + 1, all.len());
                    unavailable.insert(name.clone(), why);
                }
            }
        }
        let times: Vec<f64> =
            all.iter().filter(|one| one.end_ns > one.start_ns).map(|one| (one.end_ns - one.start_ns) as f64).collect();
        PassReadings { counters, counted_ns: median(&times), problem: if good.is_empty() { problem } else { None } }
    }

    /// All launches of a pass of which everything arrived, or more.
    fn whole(&self, pass: usize) -> Vec<&Arrived> {
        let own = self.launches.values().filter(|launch| launch.pass == pass);
        own.filter_map(|launch| self.arrivals.get(launch.dispatch_id))
            .filter(|one| one.is_whole() || one.has_repeats)
            .collect()
    }

    fn value<'a>(&self, arrived: &'a Arrived, name: &str) -> Option<&'a Reduced> {
        let index = self.names.iter().position(|known| known == name)?;
        arrived.counters.get(&u32::try_from(index).ok()?)
    }

    /// Why a launch's counts cannot be believed.
    fn guard(&self, arrived: &Arrived, launch: &Launch) -> Option<String> {
        if arrived.has_repeats {
            return Some("the profiler delivered values of this launch twice".to_owned());
        }
        let clocks = self.value(arrived, "GRBM_GUI_ACTIVE").map(|clocks| clocks.max);
        let waves = self.value(arrived, "SQ_WAVES").map(|waves| waves.sum);
        let is_zero = |value: Option<f64>| value.is_some_and(|value| value <= 0.0);
        if is_zero(clocks) || (is_zero(waves) && launch.expected_waves != Some(0)) {
            return Some(
                "counters read zero although the kernel ran: the clock of the performance monitors is gated. Set a stable profile (`amd-smi set -g 0 -l \
                 stable_std`, or write profile_standard to power_dpm_force_performance_level) and collect again"
                    .to_owned(),
            );
        }
        match (waves, launch.expected_waves) {
            (Some(waves), Some(expected)) if waves != expected as f64 => Some(format!(
                "SQ_WAVES is {waves:.0}, but the launch has {expected} waves: something else ran, or not all instances were read"
            )),
            _ => None,
        }
    }

    fn reading(&self, name: &str, launches: &[&Arrived], kind: Kind) -> Option<Reading> {
        let values: Vec<&Reduced> = launches.iter().filter_map(|arrived| self.value(arrived, name)).collect();
        let of = |take: &dyn Fn(&Reduced) -> f64| median(&values.iter().map(|value| take(value)).collect::<Vec<_>>());
        let xccs = values.iter().map(|value| value.per_xcc.len()).max().unwrap_or(0);
        let xcc = |at: usize| of(&|value| value.per_xcc.get(at).copied().unwrap_or(0.0));
        Some(Reading {
            sum: of(&|value| value.sum)?,
            max: of(&|value| value.max)?,
            min: of(&|value| value.min)?,
            mean: of(&|value| value.sum / f64::from(value.instances.max(1)))?,
            per_xcc: (0..xccs).filter_map(xcc).collect(),
            launches: u32::try_from(values.len()).unwrap_or(u32::MAX),
            kind,
        })
    }
}

/// The median; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    Sample::new(values).ok().map(|sample| sample.median())
}

#[cfg(test)]
mod tests;
