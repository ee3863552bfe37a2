//! The run as CSV: one line a case, units in the column names. Absent values are empty, never 0.

use super::document::{CaseResult, RunDocument};
use std::io::Write;

/// Column names, in order. Columns are added at the end, never renamed.
pub const COLUMNS: [&str; 30] = [
    "id",
    "family",
    "kernel",
    "dtypes",
    "shape",
    "phase",
    "calls",
    "share",
    "provenance",
    "status",
    "reason",
    "cache",
    "samples",
    "median_ns",
    "ci95_low_ns",
    "ci95_high_ns",
    "p05_ns",
    "p95_ns",
    "floor_ns",
    "gbps",
    "tflops",
    "of_peak",
    "limiter",
    "verified",
    "max_abs_error",
    "bound_ns",
    "bound_limiter",
    "floor_over_bound",
    "workgroups_ran",
    "workgroups",
];

/// Writes the whole run.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, run: &RunDocument) -> std::io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(COLUMNS)?;
    for case in &run.cases {
        writer.write_record(record(case))?;
    }
    writer.flush()
}

fn record(case: &CaseResult) -> [String; COLUMNS.len()] {
    let timing = case.timing.as_ref();
    let rates = case.achieved.as_ref();
    let sampled = case.sampled();
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    [
        case.id.clone(),
        case.family.to_string(),
        case.kernel.clone(),
        case.dtypes.to_string(),
        case.shape.to_string(),
        case.weight.phase.name().to_owned(),
        case.weight.calls.to_string(),
        if case.weight.total_ns > 0 { case.weight.share.to_string() } else { String::new() },
        case.weight.provenance.name().to_owned(),
        case.status.name().to_owned(),
        case.reason.clone().unwrap_or_default(),
        timing.map_or_else(String::new, |timing| timing.cache.name().to_owned()),
        timing.map_or_else(String::new, |timing| timing.samples.to_string()),
        number(timing.map(|timing| timing.median_ns)),
        number(timing.and_then(|timing| timing.ci95_ns).map(|interval| interval[0])),
        number(timing.and_then(|timing| timing.ci95_ns).map(|interval| interval[1])),
        number(timing.map(|timing| timing.p05_ns)),
        number(timing.map(|timing| timing.p95_ns)),
        number(case.floor_ns),
        number(rates.map(|rates| rates.gbps)),
        number(rates.map(|rates| rates.tflops)),
        number(rates.map(|rates| rates.of_peak)),
        rates.map_or_else(String::new, |rates| rates.limiter.clone().into_owned()),
        case.verify.as_ref().map_or_else(String::new, |verify| verify.passed.to_string()),
        number(case.verify.as_ref().map(|verify| verify.max_abs_error)),
        number(case.bound.as_ref().map(|bound| bound.ns)),
        case.bound.as_ref().map_or_else(String::new, |bound| bound.limiter.clone()),
        number(case.bound.as_ref().and_then(|bound| bound.floor_over_bound)),
        sampled.map_or_else(String::new, |sampled| sampled.ran.to_string()),
        sampled.map_or_else(String::new, |sampled| sampled.workgroups.to_string()),
    ]
}
