//! Named quantities of a case that two sides are compared in.

use super::document::MetricDoc;
use super::read::{Case, Launch, plain};
use std::collections::BTreeSet;

/// Names beside those of counters, and what they are.
pub const NAMES: [(&str, &str); 13] = [
    ("time", "measured median time"),
    ("bound", "bound on time of an emulated case"),
    ("insts", "wave instructions executed"),
    ("bytes", "bytes moved to and from main memory"),
    ("conflicts", "cycles lost to LDS bank conflicts"),
    ("vgprs", "vector registers of a work-item"),
    ("agprs", "accumulation registers of a work-item"),
    ("sgprs", "scalar registers of a wave"),
    ("lds", "LDS of a workgroup, bytes"),
    ("scratch", "scratch (spills) of a work-item, bytes"),
    ("waves", "waves on a SIMD (occupancy)"),
    ("calls", "calls of a kernel in a step (profiles)"),
    ("ns_per_call", "time of a call (profiles)"),
];

/// A quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// How it is known.
    pub kind: String,
}

/// Whether a name can name a metric: one of [`NAMES`], or one formed like a counter's.
pub fn is_name(name: &str) -> bool {
    let counter = name.len() > 2
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_[]=".contains(c));
    counter || NAMES.iter().any(|(known, _)| *known == name)
}

/// The quantity of a case; `None` when it has none of that name, or the counter could not be read.
pub fn of(case: &Case, name: &str) -> Option<Metric> {
    let metric = |value: f64, unit: &str, kind: &str| Metric { value, unit: unit.to_owned(), kind: kind.to_owned() };
    match name {
        "time" => case.timing.as_ref().map(|timing| metric(timing.median_ns, "ns", "measured")),
        "bound" => case.bound.as_ref().map(|bound| metric(bound.ns, "ns", "bound")),
        "insts" => {
            let counts: Option<Vec<f64>> = case.launches.iter().map(instructions).collect();
            let counts = counts.filter(|counts| !counts.is_empty())?;
            let kind = if case.is_sampled() { "model" } else { "exact" };
            Some(metric(counts.iter().sum(), "count", kind))
        }
        "bytes" => {
            let (read, written) = (counter(case, "FETCH_SIZE")?, counter(case, "WRITE_SIZE")?);
            let scale = if read.unit == "KiB" { 1024.0 } else { 1.0 };
            Some(metric((read.value + written.value) * scale, "B", &read.kind))
        }
        "conflicts" => counter(case, "SQ_LDS_BANK_CONFLICT"),
        "vgprs" | "agprs" | "sgprs" => resource(case, name).map(|value| metric(value, "registers", "resource")),
        "scratch" => resource(case, "scratch_bytes").map(|value| metric(value, "B", "resource")),
        "lds" => {
            let launched = case.launches.iter().map(|launch| launch.lds_bytes).max().map(|bytes| bytes as f64);
            launched.or_else(|| resource(case, "lds_bytes")).map(|value| metric(value, "B", "resource"))
        }
        "waves" => {
            let waves: Option<Vec<f64>> = case.launches.iter().map(|launch| launch.waves_per_simd).collect();
            let fewest = waves?.into_iter().reduce(f64::min)?;
            Some(metric(fewest, "waves", "resource"))
        }
        name => counter(case, name),
    }
}

/// Wave instructions of a launch. A sample of its workgroups stands for all of them, as in the counters.
fn instructions(launch: &Launch) -> Option<f64> {
    let executed = launch.instructions? as f64;
    Some(match launch.sampled {
        Some(part) if part.ran > 0 => (executed * part.workgroups as f64 / part.ran as f64).round(),
        _ => executed,
    })
}

fn counter(case: &Case, name: &str) -> Option<Metric> {
    let found = case.counters.get(name).filter(|found| found.kind != "invalid" && found.kind != "unavailable")?;
    let value = found.value.filter(|value| value.is_finite())?;
    Some(Metric { value, unit: found.unit.clone(), kind: found.kind.clone() })
}

/// The largest over the launches; without launches that of the build.
fn resource(case: &Case, name: &str) -> Option<f64> {
    let of_launch = |launch: &Launch| launch.resources.get(name).copied();
    let launched = case.launches.iter().filter_map(of_launch).max().map(|value| value as f64);
    launched.or_else(|| case.build.as_ref()?.resources.get(name).and_then(|value| plain(value).parse().ok()))
}

/// The quantities of both sides: the named ones that both have, and counters that changed or are `wanted`.
pub fn compare(base: &Case, candidate: &Case, wanted: &BTreeSet<String>) -> Vec<MetricDoc> {
    let named = NAMES.iter().map(|(name, _)| *name).filter(|name| *name != "time");
    let counters: BTreeSet<&String> = base.counters.keys().chain(candidate.counters.keys()).collect();
    let mut found: Vec<MetricDoc> = named.filter_map(|name| doc(base, candidate, name)).collect();
    let changed = counters.into_iter().filter_map(|name| doc(base, candidate, name));
    found.extend(changed.filter(|metric| metric.base != metric.candidate || wanted.contains(&metric.name)));
    found
}

/// The named quantities, and counters that are `wanted`, that the base has and the candidate has not.
pub fn lost(base: &Case, candidate: &Case, wanted: &BTreeSet<String>) -> Vec<String> {
    let names: BTreeSet<&str> = NAMES.iter().map(|(name, _)| *name).chain(wanted.iter().map(String::as_str)).collect();
    let is_lost = |name: &&str| of(base, name).is_some() && of(candidate, name).is_none();
    names.into_iter().filter(is_lost).map(str::to_owned).collect()
}

fn doc(base: &Case, candidate: &Case, name: &str) -> Option<MetricDoc> {
    let (base, candidate) = (of(base, name)?, of(candidate, name)?);
    Some(MetricDoc {
        name: name.to_owned(),
        base: base.value,
        candidate: candidate.value,
        change: change(base.value, candidate.value),
        unit: candidate.unit,
        kind: candidate.kind,
    })
}

/// Relative change; `None` from zero to something.
pub fn change(base: f64, candidate: f64) -> Option<f64> {
    match () {
        () if base == candidate => Some(0.0),
        () if base == 0.0 => None,
        () => Some((candidate - base) / base.abs()),
    }
}
