//! TraceLens reports of rocprof profiles. As written, their "(µs)" columns hold ns and their "(ms)" columns µs: the conversion exists in
//! TraceLens and is never called. Timestamps are whole ns, so whole numbers in a µs column give it away; a report with fractions there is
//! taken at its word.

use super::timeline;
use crate::error::ReadError;
use crate::header::{Header, count, real};
use crate::health::Issue;
use crate::inventory::Severity;
use crate::ledger::{Launches, Ledger};
use crate::records::Records;
use crate::sniff::{Dialect, read_header};
use std::path::Path;

/// Largest relative difference between the kernel sum and the timeline's that goes without a finding.
const AGREE: f64 = 1e-3;

/// Reads `kernel_summary`; the timeline of the same report checks the units.
pub(crate) fn read_summary(path: &Path, timeline_path: Option<&Path>, ledger: &mut Ledger) -> Result<(), ReadError> {
    const DIALECT: Dialect = Dialect::RocprofKernelSummary;
    let header = read_header(&mut Records::open(path)?)?;
    let name = header.need("name", path, DIALECT)?;
    let calls = header.need("count", path, DIALECT)?;
    let total = header.need("total kernel time (ms)", path, DIALECT)?;
    let extremes = ["min kernel time (us)", "max kernel time (us)"];
    let is_scaled = all_whole(path, extremes.iter().filter_map(|column| header.find(column)).collect())?;
    let unit_ns = if is_scaled { 1e3 } else { 1e6 };
    rows(path, &header, name, total, unit_ns, Some(calls), ledger)?;
    if is_scaled {
        tell_units(ledger, "kernel_summary: its `(ms)` column holds µs and its `(µs)` columns hold ns");
    }
    tell_truncated(ledger);
    if let Some(timeline_path) = timeline_path
        && let Some(kernel_ms) = timeline(timeline_path)?.get("kernel")
    {
        let rows_ms = ledger.kernel_ns() as f64 / 1e6;
        if (rows_ms - kernel_ms).abs() > kernel_ms * AGREE {
            let text = format!("gpu_timeline has {kernel_ms:.3} ms of kernels, the rows have {rows_ms:.3} ms");
            ledger.health.tell(Severity::Warning, "totals_disagree", text);
        }
    }
    Ok(())
}

/// Reads `kernel_details`: one line a dispatch.
pub(crate) fn read_details(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    const DIALECT: Dialect = Dialect::RocprofKernelDetails;
    let header = read_header(&mut Records::open(path)?)?;
    let name = header.need("name", path, DIALECT)?;
    let duration = header.need("kernel duration (us)", path, DIALECT)?;
    let is_scaled = all_whole(path, vec![duration])?;
    let unit_ns = if is_scaled { 1.0 } else { 1e3 };
    rows(path, &header, name, duration, unit_ns, None, ledger)?;
    if is_scaled {
        tell_units(ledger, "kernel_details: its `(µs)` column holds ns");
    }
    tell_truncated(ledger);
    Ok(())
}

fn rows(
    path: &Path,
    header: &Header,
    name: usize,
    time: usize,
    unit_ns: f64,
    calls: Option<usize>,
    ledger: &mut Ledger,
) -> Result<(), ReadError> {
    let file = path.display().to_string();
    let mut records = Records::open(path)?;
    read_header(&mut records)?;
    while let Some(record) = records.next()? {
        let line = record.line;
        let ns = real(record.bytes(time)).map(|value| (value * unit_ns).round());
        let launches = calls.map_or(Some(1), |index| count(record.bytes(index)));
        match (ns, launches) {
            (Some(0.0), _) => ledger.health.count(Issue::ZeroDurations, || format!("{file}:{line}")),
            (Some(ns), Some(launches))
                if (0.0..1.8e19).contains(&ns) && record.len() == header.len() && !record.bytes(name).is_empty() =>
            {
                let kernel = ledger.names.intern(&record.text(name));
                ledger.add(&Launches { line, ..Launches::of_name(kernel, launches, ns as u64, &file) });
            }
            (Some(ns), _) if ns < 0.0 => ledger.health.count(Issue::NegativeDurations, || format!("{file}:{line}")),
            _ => ledger.health.count(Issue::BadRows, || format!("{file}:{line}")),
        }
    }
    Ok(())
}

/// True when every number in these columns is whole, and there is one.
fn all_whole(path: &Path, columns: Vec<usize>) -> Result<bool, ReadError> {
    let mut records = Records::open(path)?;
    read_header(&mut records)?;
    let mut found = false;
    while let Some(record) = records.next()? {
        for column in &columns {
            if let Some(value) = real(record.bytes(*column)) {
                if value.fract() != 0.0 {
                    return Ok(false);
                }
                found = true;
            }
        }
    }
    Ok(found)
}

fn tell_units(ledger: &mut Ledger, what: &str) {
    let text = format!("{what} (TraceLens rocprof reports skip the conversion); all times were divided by 1000");
    ledger.health.tell(Severity::Warning, "units_fixed", text);
}

fn tell_truncated(ledger: &mut Ledger) {
    let text = "names are truncated in TraceLens rocprof reports: kernels that differ only in template arguments (at::native \
                elementwise kernels) stand in one row";
    ledger.health.tell(Severity::Warning, "truncated_names", text.to_owned());
}
