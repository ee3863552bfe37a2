//! Which case goes with which, and whether two runs may be compared at all.

use super::document::{Difference, NotCompared};
use super::read::{Case, Run, Sampled, plain};
use clap::ValueEnum;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A difference that forbids a comparison unless it is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Obstacle {
    /// Another device, or another kind of device.
    Device,
    /// Another architecture.
    Arch,
    /// Another cache state.
    Cache,
    /// Another time source.
    TimeSource,
    /// Another part of the workgroups was emulated.
    EmuSample,
}

impl Obstacle {
    /// The word of `--allow`.
    pub fn word(self) -> &'static str {
        match self {
            Obstacle::Device => "device",
            Obstacle::Arch => "arch",
            Obstacle::Cache => "cache",
            Obstacle::TimeSource => "time-source",
            Obstacle::EmuSample => "emu-sample",
        }
    }
}

/// Two runs side by side.
#[derive(Debug)]
pub struct Pairing<'a> {
    /// Cases that ran on both sides, in the base's order.
    pub pairs: Vec<(&'a Case, &'a Case)>,
    /// The others.
    pub rest: Vec<NotCompared>,
    /// What forbids the comparison.
    pub obstacles: Vec<(Obstacle, Difference)>,
}

/// Whether two cases of one id and phase go together.
type Together = fn(&Case, &Case) -> bool;

/// What cases are paired by, strictest first: each rule pairs what those before it left.
const RULES: [Together; 3] = [
    |base, candidate| base.cache() == candidate.cache() && base.requested == candidate.requested,
    |base, candidate| base.cache() == candidate.cache(),
    // A case that failed or was skipped before it was measured does not tell its state.
    |base, candidate| base.cache().is_none() || candidate.cache().is_none(),
];

/// Pairs the cases of two runs by id, phase and cache state. `any_cache` pairs those of different cache states too, once
/// equal ones have met.
pub fn pair<'a>(base: &'a Run, candidate: &'a Run, any_cache: bool) -> Pairing<'a> {
    let mut obstacles = device_obstacles(base, candidate);
    let any: Option<Together> = any_cache.then_some(|_, _| true);
    let (partners, unmet) = partners(base, candidate, RULES.into_iter().chain(any));
    let mut pairing = Pairing { pairs: Vec::new(), rest: Vec::new(), obstacles: Vec::new() };
    let mut lone = Vec::new();
    for (case, partner) in base.cases.iter().zip(partners) {
        match partner {
            Some(other) => pairing.meet(case, other, &mut obstacles),
            None => {
                lone.push(case);
                pairing.rest.push(alone(case, true));
            }
        }
    }
    pairing.rest.extend(unmet.iter().map(|case| alone(case, false)));
    if pairing.pairs.is_empty() {
        obstacles.extend(cache_obstacle(&lone, &unmet));
    }
    obstacles.sort_by_key(|(obstacle, _)| *obstacle);
    obstacles.dedup();
    pairing.obstacles = obstacles;
    pairing
}

impl<'a> Pairing<'a> {
    fn meet(&mut self, base: &'a Case, candidate: &'a Case, obstacles: &mut Vec<(Obstacle, Difference)>) {
        if !base.is_ok() || !candidate.is_ok() {
            let (side, case) = if candidate.is_ok() { ("base", base) } else { ("candidate", candidate) };
            let why = case.reason.as_deref().unwrap_or("no reason was given");
            self.rest.push(NotCompared {
                id: base.plain_id().to_owned(),
                family: base.family.clone(),
                cache: base.requested.clone().or_else(|| candidate.requested.clone()),
                base: Some(base.status.clone()),
                candidate: Some(candidate.status.clone()),
                reason: format!("{} in the {side}: {why}", case.status),
            });
            return;
        }
        if let (Some(one), Some(other)) = (&base.timing, &candidate.timing) {
            let mut differ = |obstacle, what: &str, one: &str, other: &str| {
                if one != other {
                    obstacles.push((obstacle, difference(what, Some(one), Some(other))));
                }
            };
            differ(Obstacle::TimeSource, "time source", &one.source, &other.source);
            differ(Obstacle::Cache, "cache state", &one.cache, &other.cache);
        }
        obstacles.extend(sample_obstacle(base, candidate));
        self.pairs.push((base, candidate));
    }
}

/// Each base case's partner, and the candidate's cases without one.
fn partners<'a>(
    base: &'a Run,
    candidate: &'a Run,
    rules: impl Iterator<Item = Together>,
) -> (Vec<Option<&'a Case>>, Vec<&'a Case>) {
    fn key(case: &Case) -> (&str, &str) {
        (case.plain_id(), case.weight.phase.as_str())
    }
    let mut free: BTreeMap<(&str, &str), Vec<&'a Case>> = BTreeMap::new();
    for case in &candidate.cases {
        free.entry(key(case)).or_default().push(case);
    }
    let mut partners: Vec<Option<&'a Case>> = vec![None; base.cases.len()];
    for together in rules {
        for (case, partner) in base.cases.iter().zip(&mut partners).filter(|(_, partner)| partner.is_none()) {
            let Some(others) = free.get_mut(&key(case)) else { continue };
            *partner = others.iter().position(|other| together(case, other)).map(|at| others.remove(at));
        }
    }
    let is_free =
        |case: &&Case| free.get(&key(case)).is_some_and(|left| left.iter().any(|other| std::ptr::eq(*other, *case)));
    (partners, candidate.cases.iter().filter(is_free).collect())
}

/// Another grid is part of what a build changes; only another choice of the workgroups of one grid is in the way.
fn sample_obstacle(base: &Case, candidate: &Case) -> Option<(Obstacle, Difference)> {
    let part = |case: &Case| case.launches.iter().map(|launch| launch.sampled).collect::<Vec<_>>();
    let (one, other) = (part(base), part(candidate));
    let is_other_part = |one: &Sampled, other: &Sampled| one.workgroups == other.workgroups && one.ran != other.ran;
    let differs = one.iter().flatten().zip(other.iter().flatten()).any(|(one, other)| is_other_part(one, other));
    if base.is_sampled() == candidate.is_sampled() && !differs {
        return None;
    }
    let text = |parts: &[Option<Sampled>]| match parts.iter().flatten().next() {
        Some(part) => format!("{} of {} workgroups", part.ran, part.workgroups),
        None => "all workgroups".to_owned(),
    };
    Some((Obstacle::EmuSample, difference("emulated", Some(&text(&one)), Some(&text(&other)))))
}

fn alone(case: &Case, in_base: bool) -> NotCompared {
    let status = Some(case.status.clone());
    let cache = case.cache().map_or_else(String::new, |cache| format!(" ({cache})"));
    let side = if in_base { "base" } else { "candidate" };
    NotCompared {
        id: case.plain_id().to_owned(),
        family: case.family.clone(),
        cache: case.requested.clone(),
        base: status.clone().filter(|_| in_base),
        candidate: status.filter(|_| !in_base),
        reason: format!("only in the {side}{cache}"),
    }
}

fn difference(what: &str, base: Option<&str>, candidate: Option<&str>) -> Difference {
    Difference { what: what.to_owned(), base: base.map(str::to_owned), candidate: candidate.map(str::to_owned) }
}

fn device_obstacles(base: &Run, candidate: &Run) -> Vec<(Obstacle, Difference)> {
    let (one, other) = (&base.device, &candidate.device);
    let mut found = Vec::new();
    let mut differ = |obstacle, what: &str, one: &str, other: &str| {
        if one != other {
            found.push((obstacle, difference(what, Some(one), Some(other))));
        }
    };
    differ(Obstacle::Device, "kind of device", &one.kind, &other.kind);
    differ(Obstacle::Device, "device", &one.name, &other.name);
    differ(Obstacle::Arch, "architecture", &one.arch, &other.arch);
    found
}

/// Runs that share cases, but none in the same cache state.
fn cache_obstacle(base: &[&Case], candidate: &[&Case]) -> Option<(Obstacle, Difference)> {
    let shared = |one: &[&Case], other: &[&Case]| -> String {
        let ids: BTreeSet<&str> = other.iter().map(|case| case.plain_id()).collect();
        let shared = one.iter().filter(|case| ids.contains(case.plain_id()));
        let caches: BTreeSet<&str> = shared.filter_map(|case| case.cache()).collect();
        caches.into_iter().collect::<Vec<_>>().join(", ")
    };
    let (one, other) = (shared(base, candidate), shared(candidate, base));
    (one != other).then(|| (Obstacle::Cache, difference("cache state", Some(&one), Some(&other))))
}

/// Facts about the surroundings that differ: environment, options that shape results, the tool.
pub fn environment(base: &Run, candidate: &Run) -> Vec<Difference> {
    let mut found = Vec::new();
    for (what, one, other) in [
        ("", &base.environment, &candidate.environment),
        ("option ", &base.options, &candidate.options),
        ("kbench ", &base.tool, &candidate.tool),
    ] {
        let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
        for name in names.into_iter().filter(|name| one.get(*name) != other.get(*name)) {
            let text = |map: &BTreeMap<String, Value>| map.get(name).map(plain);
            found.push(Difference { what: format!("{what}{name}"), base: text(one), candidate: text(other) });
        }
    }
    for (what, run) in [("base", base), ("candidate", candidate)] {
        if run.interrupted {
            found.push(difference(&format!("the {what} was interrupted"), None, None));
        }
    }
    found
}
