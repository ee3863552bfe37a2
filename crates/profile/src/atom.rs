//! ATOM's CSVs: `parse_trace` (one decode step by module) in its present and older forms, and `conc{bs}_layer.csv` (one transformer
//! layer by position). None has shapes; the position tells apart calls of one kernel that compute different things (gate-up and down of an MoE).

use crate::error::ReadError;
use crate::header::{Header, count, real, us_to_ns};
use crate::health::Issue;
use crate::inventory::{Phase, Severity};
use crate::ledger::{Launches, Ledger};
use crate::records::{Record, Records};
use crate::sniff::{Dialect, read_header};
use kbench_workload::Family;
use std::path::Path;

/// What every reader here needs.
struct Table {
    file: String,
    records: Records,
    header: Header,
}

impl Table {
    fn open(path: &Path) -> Result<Self, ReadError> {
        let mut records = Records::open(path)?;
        let header = read_header(&mut records)?;
        Ok(Self { file: path.display().to_string(), records, header })
    }
}

/// One kernel of these tables, times in ns.
struct Line<'a> {
    kernel: &'a str,
    position: Option<&'a str>,
    phase: Phase,
    calls: u64,
    total_ns: u64,
    line: u64,
}

fn add(ledger: &mut Ledger, file: &str, line: &Line<'_>) {
    let kernel = ledger.names.intern(line.kernel);
    if line.total_ns == 0 {
        ledger.health.count(Issue::ZeroDurations, || format!("{file}:{}", line.line));
        return;
    }
    ledger.add(&Launches {
        phase: line.phase,
        position: line.position,
        line: line.line,
        ..Launches::of_name(kernel, line.calls, line.total_ns, file)
    });
}

/// A cell that the writer leaves blank while it repeats.
fn fill_forward(last: &mut String, record: Record<'_>, column: Option<usize>) -> bool {
    let Some(column) = column else { return false };
    let cell = record.text(column);
    let is_new = !cell.trim().is_empty();
    if is_new {
        *last = cell.trim().to_owned();
    }
    is_new
}

/// Reads `parse_trace`: group, layer count and module are blank while they repeat; times are of one layer, so a row takes time × layer count in a
/// step, and is launched once a layer.
pub(crate) fn read_breakdown(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    const DIALECT: Dialect = Dialect::AtomBreakdown;
    let Table { file, mut records, header } = Table::open(path)?;
    let group_column = header.need("layer_group", path, DIALECT)?;
    let layers_column = header.need("layer_count", path, DIALECT)?;
    let kernel_column = header.need("kernel", path, DIALECT)?;
    let time_column = header.need("time_us_per_layer", path, DIALECT)?;
    let module_column = header.first_of(&["module/tag", "module", "tag"]);
    let phase = if header.has("percent_of_decode_step") { Phase::Decode } else { Phase::Unknown };
    let (mut group, mut module) = (String::new(), String::new());
    let (mut layers, mut groups) = (None, 0_u64);
    // Sum of the lines of the present group, to hold against its LAYER TOTAL.
    let (mut sum_us, mut lines) = (0.0, 0_u64);
    while let Some(record) = records.next()? {
        let line = record.line;
        let bad = || format!("{file}:{line}");
        if record.len() != header.len() {
            ledger.health.count(Issue::BadRows, bad);
            continue;
        }
        let kernel = record.text(kernel_column);
        if record.text(group_column).trim_start().starts_with("unmatched") {
            ledger.health.count(Issue::UnmatchedKernels, || format!("{file}:{line}: {kernel}"));
            continue;
        }
        if fill_forward(&mut group, record, Some(group_column)) {
            (layers, sum_us, lines) = (None, 0.0, 0);
            groups += 1;
            module.clear();
        }
        if let Some(number) = count(record.bytes(layers_column)) {
            layers = Some(number);
        }
        fill_forward(&mut module, record, module_column);
        let time = real(record.bytes(time_column)).filter(|time| *time >= 0.0);
        if kernel.trim() == "LAYER TOTAL" || module == "__layer_total__" {
            check_total(ledger, &file, line, &group, time, sum_us, lines);
            module.clear();
            continue;
        }
        let (Some(time), Some(layers), false) = (time, layers, kernel.is_empty()) else {
            ledger.health.count(Issue::BadRows, bad);
            continue;
        };
        (sum_us, lines) = (sum_us + time, lines + 1);
        let position = if module.is_empty() { group.clone() } else { format!("{group}/{module}") };
        match us_to_ns(time * layers as f64) {
            Some(total_ns) => {
                add(
                    ledger,
                    &file,
                    &Line { kernel: &kernel, position: Some(&position), phase, calls: layers, total_ns, line },
                );
            }
            None => ledger.health.count(Issue::BadRows, bad),
        }
    }
    if groups > 0 {
        ledger.source.steps = Some(1);
        let text = format!(
            "times are of one layer: each of the {groups} layer groups was multiplied by its layer count and each line counted as one launch a \
             layer, which gives one step"
        );
        ledger.health.tell(Severity::Note, "layers_summed", text);
    }
    Ok(())
}

/// Holds a group's lines against its total: they are printed to 0.001 µs each.
fn check_total(ledger: &mut Ledger, file: &str, line: u64, group: &str, total: Option<f64>, sum_us: f64, lines: u64) {
    let Some(total) = total else { return };
    if (total - sum_us).abs() > 0.001 * total + 0.0005 * (lines + 1) as f64 {
        let text = format!(
            "{file}:{line}: LAYER TOTAL of `{group}` says {total:.3} µs, its lines sum to {sum_us:.3} µs (streams overlap, or lines are missing)"
        );
        ledger.health.tell(Severity::Warning, "totals_disagree", text);
    }
}

/// Reads `conc{bs}_layer.csv`: mean time by position over the layers that were sampled; total = mean × count. The tool that writes it cuts layers at the
/// attention kernel, so a layer that starts with paged attention is one of decode.
pub(crate) fn read_layer(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    const DIALECT: Dialect = Dialect::AtomLayer;
    struct Position {
        position: String,
        kernel: String,
        mean_us: f64,
        calls: u64,
        percent: Option<f64>,
        line: u64,
    }
    let Table { file, mut records, header } = Table::open(path)?;
    let position_column = header.need("pos", path, DIALECT)?;
    let kernel_column = header.need("kernel", path, DIALECT)?;
    let mean_column = header.need("avg_us", path, DIALECT)?;
    let count_column = header.find("count");
    let percent_column = header.first_of(&["pct", "pct%"]);
    let mut positions = Vec::new();
    while let Some(record) = records.next()? {
        let (line, kernel) = (record.line, record.text(kernel_column).into_owned());
        let mean = real(record.bytes(mean_column)).filter(|mean| *mean >= 0.0);
        let calls = count_column.map_or(Some(1), |column| count(record.bytes(column)));
        match (mean, calls) {
            (Some(mean_us), Some(calls)) if record.len() == header.len() && !kernel.is_empty() => {
                positions.push(Position {
                    position: record.text(position_column).trim().to_owned(),
                    kernel,
                    mean_us,
                    calls,
                    percent: percent_column.and_then(|column| real(record.bytes(column))),
                    line,
                })
            }
            _ => ledger.health.count(Issue::BadRows, || format!("{file}:{line}")),
        }
    }
    let Some(first) = positions.first() else { return Ok(()) };
    let id = ledger.names.intern(&first.kernel);
    let phase = match ledger.names.class(id, None).0 {
        Family::PagedAttention | Family::Mla => Phase::Decode,
        _ => Phase::Unknown,
    };
    let layer_us: f64 = positions.iter().map(|position| position.mean_us).sum();
    for Position { position, kernel, mean_us, calls, percent, line } in &positions {
        // Both are printed to one decimal.
        let share = 100.0 * mean_us / layer_us;
        if percent.is_some_and(|percent| (percent - share).abs() > 0.1 + 5.0 / layer_us) {
            let text = format!("{file}:{line}: pct does not fit avg_us ({share:.1} % of the layer): lines are missing");
            ledger.health.tell(Severity::Warning, "totals_disagree", text);
        }
        match us_to_ns(mean_us * *calls as f64) {
            Some(total_ns) => {
                let line = Line { kernel, position: Some(position), phase, calls: *calls, total_ns, line: *line };
                add(ledger, &file, &line);
            }
            None => ledger.health.count(Issue::BadRows, || format!("{file}:{line}")),
        }
    }
    let text = format!("one layer of {layer_us:.1} µs; totals are mean × sampled layers, means are printed to 0.1 µs");
    ledger.health.tell(Severity::Note, "layers_summed", text);
    Ok(())
}

/// Reads the older `parse_trace` table: one line a launch, module blank while it repeats, `TOTAL` at the end.
pub(crate) fn read_modules(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    const DIALECT: Dialect = Dialect::AtomModules;
    let Table { file, mut records, header } = Table::open(path)?;
    let module_column = header.need("cpu_module", path, DIALECT)?;
    let kernel_column = header.need("gpu_kernel", path, DIALECT)?;
    let time_column = header.need("duration_us", path, DIALECT)?;
    let mut module = String::new();
    while let Some(record) = records.next()? {
        let line = record.line;
        fill_forward(&mut module, record, Some(module_column));
        let kernel = record.text(kernel_column);
        if module == "TOTAL" || kernel.trim() == "TOTAL" {
            continue;
        }
        match real(record.bytes(time_column)).and_then(us_to_ns) {
            Some(total_ns) if !kernel.is_empty() && record.len() == header.len() => {
                let position = (!module.is_empty()).then_some(module.as_str());
                add(ledger, &file, &Line { kernel: &kernel, position, phase: Phase::Decode, calls: 1, total_ns, line });
            }
            _ => ledger.health.count(Issue::BadRows, || format!("{file}:{line}")),
        }
    }
    Ok(())
}

/// Reads the older `parse_trace`'s kernel summary.
pub(crate) fn read_kernels(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    const DIALECT: Dialect = Dialect::AtomKernels;
    let Table { file, mut records, header } = Table::open(path)?;
    let kernel_column = header.need("gpu_kernel", path, DIALECT)?;
    let calls_column = header.need("calls", path, DIALECT)?;
    let time_column = header.need("total_duration_us", path, DIALECT)?;
    while let Some(record) = records.next()? {
        let (line, kernel) = (record.line, record.text(kernel_column));
        if kernel.trim() == "TOTAL" {
            continue;
        }
        let total = real(record.bytes(time_column)).and_then(us_to_ns);
        match (total, count(record.bytes(calls_column))) {
            (Some(total_ns), Some(calls)) if !kernel.is_empty() && record.len() == header.len() => {
                add(
                    ledger,
                    &file,
                    &Line { kernel: &kernel, position: None, phase: Phase::Decode, calls, total_ns, line },
                );
            }
            _ => ledger.health.count(Issue::BadRows, || format!("{file}:{line}")),
        }
    }
    Ok(())
}

/// The batch that a file name such as `conc16_layer.csv` speaks of.
pub(crate) fn batch_hint(file_name: &str) -> Option<&str> {
    let rest = file_name.strip_prefix("conc")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    (digits > 0 && rest[digits..].starts_with('_')).then_some(&rest[..digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_is_told_by_the_writers_file_name_only() {
        assert_eq!(batch_hint("conc16_layer.csv"), Some("16"));
        assert_eq!(batch_hint("conc128_fp8.csv"), Some("128"));
        for other in ["conc_layer.csv", "conc16.csv", "layer_conc16_.csv", "conc"] {
            assert_eq!(batch_hint(other), None, "{other}");
        }
    }
}
