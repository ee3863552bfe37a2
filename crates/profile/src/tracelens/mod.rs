//! TraceLens reports of PyTorch traces: operator sheets and `kernel_summary`, alone or as a folder.
//!
//! How the sheets of one report become one list without counting anything twice:
//! 1. Operator rows give kernels with shapes. For each kernel the sheet that links more of its time is taken, `unified_perf_summary` when
//!    both link the same: it merges calls that `ops_unique_args` keeps apart and then lists the kernels of only the first group.
//! 2. `kernel_summary` knows every kernel. What it has beyond the operator rows (kernels launched before the window, replayed by a
//!    graph) is added to the kernel's row as time without a shape.
//! 3. Category sheets repeat nested operators and are never added to anything.

pub(crate) mod cells;
mod nested;
pub(crate) mod ops;
pub(crate) mod rocprof;

use crate::error::ReadError;
use crate::header::{count, real, us_to_ns};
use crate::health::Issue;
use crate::inventory::Severity;
use crate::ledger::{Launches, Ledger};
use crate::naming::{KernelId, is_transfer};
use crate::records::Records;
use crate::sniff::{Dialect, read_header};
use kbench_workload::Family;
use ops::{Found, OpRow, ParamsByRow, is_carrier};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Totals that two sheets give for the same thing may differ by float noise and rounding, not by more than this.
const AGREE: f64 = 1e-3;

/// The sheets of one report that matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) unified: Option<PathBuf>,
    pub(crate) unique: Option<PathBuf>,
    /// A category sheet that was given alone.
    pub(crate) category: Option<PathBuf>,
    pub(crate) kernel_summary: Option<PathBuf>,
    pub(crate) timeline: Option<PathBuf>,
}

/// Reads a report into the ledger.
pub(crate) fn read(report: &Report, ledger: &mut Ledger) -> Result<(), ReadError> {
    let mut known = ParamsByRow::new();
    let mut sheet = |path: &Option<PathBuf>, dialect, ledger: &mut Ledger| -> Result<Sheet, ReadError> {
        let Some(path) = path else { return Ok(Sheet::default()) };
        let mut rows = Vec::new();
        ops::read(path, dialect, &mut known, &mut ledger.health, |row| rows.push(row))?;
        Ok(Sheet { file: path.display().to_string(), rows })
    };
    let unified = match report.category {
        Some(_) => {
            let mut category = sheet(&report.category, Dialect::CategorySheet, ledger)?;
            let removed = nested::remove(&mut category.rows);
            if removed > 0 {
                let text = format!(
                    "{:.3} µs stood twice in the sheet, under an operator and under the one that called it; they count once",
                    removed as f64 / 1000.0
                );
                ledger.health.tell(Severity::Warning, "nested_ops", text);
            }
            category
        }
        None => sheet(&report.unified, Dialect::UnifiedPerfSummary, ledger)?,
    };
    let unique = sheet(&report.unique, Dialect::OpsUniqueArgs, ledger)?;
    let in_unified = unified.time_by_kernel(ledger);
    let in_unique = unique.time_by_kernel(ledger);
    let better_in_unique = |kernel: KernelId| {
        let (here, there) = (in_unified.get(&kernel).copied(), in_unique.get(&kernel).copied().unwrap_or(0));
        here.is_none_or(|here| there as f64 > here as f64 * (1.0 + AGREE))
    };
    // With a second sheet, the time that one does not list is listed by the other.
    let is_alone = report.kernel_summary.is_none() && (unified.rows.is_empty() || unique.rows.is_empty());
    place_all(&unified, ledger, is_alone, |kernel| !better_in_unique(kernel));
    place_all(&unique, ledger, is_alone, better_in_unique);
    tell_graph_share(&unified, &unique, ledger);
    let linked_ns = ledger.kernel_ns();
    if let Some(path) = &report.kernel_summary {
        add_kernel_summary(path, ledger)?;
    }
    if let Some(path) = &report.timeline {
        check_timeline(path, linked_ns, ledger)?;
    }
    Ok(())
}

/// The rows of one operator sheet.
#[derive(Default)]
struct Sheet {
    file: String,
    rows: Vec<OpRow>,
}

impl Sheet {
    fn time_by_kernel(&self, ledger: &mut Ledger) -> HashMap<KernelId, u64> {
        let mut times = HashMap::new();
        for kernel in self.rows.iter().flat_map(|row| &row.kernels) {
            let total: &mut u64 = times.entry(ledger.names.intern(&kernel.name)).or_default();
            *total = total.saturating_add(kernel.total_ns);
        }
        times
    }
}

fn place_all(sheet: &Sheet, ledger: &mut Ledger, is_alone: bool, takes: impl Fn(KernelId) -> bool) {
    for row in &sheet.rows {
        place(row, &sheet.file, ledger, &takes);
        let listed = row.kernels.iter().map(|kernel| kernel.total_ns).fold(0, u64::saturating_add);
        let unlisted = row.busy_ns.unwrap_or(0).saturating_sub(listed);
        if is_alone && (row.kernels.is_empty() || unlisted as f64 > row.busy_ns.unwrap_or(0) as f64 * AGREE) {
            place_unlisted(row, unlisted, &sheet.file, ledger);
        } else if row.kernels.is_empty() {
            ledger.health.count(Issue::NoKernelNames, || format!("{}:{}: {}", sheet.file, row.line, row.op));
        }
    }
}

/// Adds the kernels of an operator row that this sheet is taken for.
fn place(row: &OpRow, file: &str, ledger: &mut Ledger, takes: impl Fn(KernelId) -> bool) {
    let op = operator(row);
    let kernels: Vec<KernelId> = row.kernels.iter().map(|kernel| ledger.names.intern(&kernel.name)).collect();
    let families: Vec<Family> = kernels.iter().map(|kernel| ledger.names.class(*kernel, Some(op)).0).collect();
    for (index, kernel) in row.kernels.iter().enumerate() {
        let id = kernels[index];
        if !takes(id) {
            continue;
        }
        let (family, shape) = match (&row.found, is_carrier(&row.found, &families, index)) {
            (Found::Family(family, shape), true) => (Some(*family), Some(shape)),
            (Found::Arguments(shape), true) => (None, Some(shape)),
            _ => (None, None),
        };
        let of_name = Launches::of_name(id, kernel.calls, kernel.total_ns, file);
        ledger.add(&Launches { op: Some(op), family, shape, line: row.line, ..of_name });
    }
}

/// Adds the time of an operator row that no listed kernel accounts for, under the operator's name.
fn place_unlisted(row: &OpRow, total_ns: u64, file: &str, ledger: &mut Ledger) {
    let op = operator(row);
    let at = || format!("{file}:{}: {op}", row.line);
    let (issue, name) = match row.kernels.is_empty() {
        true => (Issue::NoKernelNames, op.to_owned()),
        false => (Issue::UnlistedKernels, format!("{op} (kernels not listed)")),
    };
    ledger.health.count(issue, at);
    let (family, shape) = match &row.found {
        Found::Family(family, shape) => (Some(*family), Some(shape)),
        Found::Arguments(shape) => (None, Some(shape)),
        Found::Nothing => (None, None),
    };
    let listed = row.kernels.iter().map(|kernel| kernel.calls).max().unwrap_or(0);
    let kernel = ledger.names.intern(&name);
    let of_name = Launches::of_name(kernel, row.calls.saturating_sub(listed).max(1), total_ns, file);
    ledger.add(&Launches { op: Some(op), family, shape, line: row.line, ..of_name });
}

/// The operator's own name, without TraceLens's `->kernel (Synthetic Op)`.
fn operator(row: &OpRow) -> &str {
    row.op.split("->").next().unwrap_or(&row.op).trim()
}

fn tell_graph_share(unified: &Sheet, unique: &Sheet, ledger: &mut Ledger) {
    let sheet = if unified.rows.is_empty() { unique } else { unified };
    let time = |graph_only: bool| -> u128 {
        let rows = sheet.rows.iter().filter(|row| row.is_graph || !graph_only);
        rows.flat_map(|row| &row.kernels).map(|kernel| u128::from(kernel.total_ns)).sum()
    };
    let (graph, all) = (time(true), time(false));
    if graph > 0 {
        let share = 100.0 * graph as f64 / all as f64;
        let text = format!(
            "{share:.1} % of the time of all operator rows was replayed by a graph, which records no arguments: make the report with the \
             capture trace (--capture_folder) to get shapes"
        );
        ledger.health.tell(Severity::Warning, "graph_replay", text);
    }
}

/// Adds what `kernel_summary` has beyond the operator rows.
fn add_kernel_summary(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    struct Total {
        calls: u64,
        ns: u64,
        op: Option<String>,
        line: u64,
    }
    let file = path.display().to_string();
    let mut totals: BTreeMap<KernelId, Total> = BTreeMap::new();
    let has_ops = !ledger.is_empty();
    kernel_rows(path, ledger, |ledger, name, op, calls, ns, line| {
        let total = totals.entry(ledger.names.intern(name)).or_insert(Total { calls: 0, ns: 0, op: None, line });
        total.calls = total.calls.saturating_add(calls);
        total.ns = total.ns.saturating_add(ns);
        if total.op.is_none() && !op.is_empty() {
            total.op = Some(op.to_owned());
        }
    })?;
    let (mut unlinked, mut all, mut more_linked) = (0_u128, 0_u128, Vec::new());
    for (kernel, total) in totals {
        let (linked_calls, linked_ns) = ledger.of_kernel(kernel);
        all += u128::from(total.ns);
        if linked_ns as f64 > total.ns as f64 * (1.0 + AGREE) {
            more_linked.push(ledger.names.canonical(kernel).to_owned());
        }
        let rest_ns = total.ns.saturating_sub(linked_ns);
        // Both sheets round the same events: below a nanosecond a launch there is nothing left.
        if rest_ns <= total.calls {
            continue;
        }
        unlinked += u128::from(rest_ns);
        let of_name = Launches::of_name(kernel, total.calls.saturating_sub(linked_calls), rest_ns, &file);
        ledger.add_unlinked(&Launches { op: total.op.as_deref(), line: total.line, ..of_name });
    }
    if has_ops && unlinked > 0 {
        let share = 100.0 * unlinked as f64 / all as f64;
        let text = format!(
            "{share:.1} % of kernel time belongs to no operator row (launched before the profiling window, or by something that is not \
             traced); it is kept without a shape"
        );
        ledger.health.tell(Severity::Warning, "unlinked_kernels", text);
    }
    if let Some(name) = more_linked.first() {
        let text = format!(
            "operator rows give {} kernels more time than kernel_summary does, first `{name}`; the larger is kept",
            more_linked.len()
        );
        ledger.health.tell(Severity::Warning, "totals_disagree", text);
    }
    Ok(())
}

/// Rows of a PyTorch `kernel_summary`: name, parent operator (may be empty), launches, ns, line.
fn kernel_rows(
    path: &Path,
    ledger: &mut Ledger,
    mut row: impl FnMut(&mut Ledger, &str, &str, u64, u64, u64),
) -> Result<(), ReadError> {
    const DIALECT: Dialect = Dialect::KernelSummary;
    let mut records = Records::open(path)?;
    let header = read_header(&mut records)?;
    let name = header.need("kernel name", path, DIALECT)?;
    let sum = header.need("kernel duration (us)_sum", path, DIALECT)?;
    let calls = header.find("kernel duration (us)_count");
    let op = header.find("parent cpu_op");
    while let Some(record) = records.next()? {
        let ns = real(record.bytes(sum)).and_then(us_to_ns);
        let launches = calls.map_or(Some(1), |index| count(record.bytes(index)));
        match (ns, launches) {
            (Some(0), _) => ledger.health.count(Issue::ZeroDurations, || format!("{}:{}", path.display(), record.line)),
            (Some(ns), Some(launches)) if record.len() == header.len() && !record.bytes(name).is_empty() => {
                let op = op.map(|index| record.text(index)).unwrap_or_default();
                let op = if op.starts_with("hipGraphLaunch") || op.starts_with("cudaGraphLaunch") { "" } else { &op };
                row(ledger, &record.text(name), op, launches, ns, record.line);
            }
            _ => ledger.health.count(Issue::BadRows, || format!("{}:{}", path.display(), record.line)),
        }
    }
    Ok(())
}

/// Compares kernel time with `gpu_timeline`, which counts only kernels that belong to operators (all of them when there are none).
fn check_timeline(path: &Path, linked_ns: u128, ledger: &mut Ledger) -> Result<(), ReadError> {
    let times = timeline(path)?;
    let Some(compute) = times.get("computation_time") else { return Ok(()) };
    let timeline_ns = (compute + times.get("exposed_comm_time").copied().unwrap_or(0.0)) * 1e6;
    let all_ns = ledger.kernel_ns();
    let agrees = |ns: u128| (ns as f64 - timeline_ns).abs() <= timeline_ns * AGREE;
    if timeline_ns > 0.0 && !agrees(linked_ns) && !agrees(all_ns) {
        let text = format!(
            "gpu_timeline has {:.3} ms of computation, the rows have {:.3} ms (kernels that overlap count once there, each here)",
            timeline_ns / 1e6,
            all_ns as f64 / 1e6
        );
        ledger.health.tell(Severity::Note, "totals_disagree", text);
    }
    Ok(())
}

/// `gpu_timeline` as ms by type.
pub(crate) fn timeline(path: &Path) -> Result<BTreeMap<String, f64>, ReadError> {
    let mut records = Records::open(path)?;
    let header = read_header(&mut records)?;
    let (kind, ms) =
        (header.need("type", path, Dialect::GpuTimeline)?, header.need("time ms", path, Dialect::GpuTimeline)?);
    let mut times = BTreeMap::new();
    while let Some(record) = records.next()? {
        if let Some(time) = real(record.bytes(ms)) {
            times.insert(record.text(kind).into_owned(), time);
        }
    }
    Ok(times)
}

impl Ledger {
    /// Kernel time so far: all rows but the runtime's own copies and fills.
    pub(crate) fn kernel_ns(&self) -> u128 {
        self.rows().iter().filter(|row| !is_transfer(&row.kernel_raw)).map(|row| u128::from(row.total_ns)).sum()
    }
}
