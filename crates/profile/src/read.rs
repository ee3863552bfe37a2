//! The way in: files and folders of any dialect to one [`Inventory`].

use crate::error::ReadError;
use crate::inventory::{Inventory, Row, Severity, Source};
use crate::ledger::Ledger;
use crate::naming::Names;
use crate::sniff::{Dialect, sniff};
use crate::timeline::StepRange;
use crate::trace_inventory::RankTraces;
use crate::tracelens::{self, Report};
use crate::{atom, csv_inventory, rocpd, rocprof_json, rocprofv3, trace_inventory};
use kbench_workload::Family;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Deepest folder below a given one that is looked into (rocprofv3 writes `<host>/<pid>_kernel_trace.csv`, also below `pmc_1/`).
const MAX_DEPTH: usize = 5;
/// Most files of a folder that are looked at.
const MAX_FILES: usize = 10_000;

/// How to read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The user's table of kernel names, asked before the built-in one.
    pub names: Option<PathBuf>,
    /// Capture trace of the graphs that a PyTorch trace replays, or the folder of them; `None`: the folder `capture_traces` beside the
    /// trace, when there is one.
    pub capture: Option<PathBuf>,
    /// Trace of the same work without graphs.
    pub eager: Option<PathBuf>,
    /// The model's Hugging Face `config.json`.
    pub model: Option<PathBuf>,
    /// Tensor-parallel ranks of the profiled server; used with `model`.
    pub tp: u64,
    /// Expert-parallel ranks of the profiled server; used with `model`.
    pub ep: u64,
    /// Only the kernels of these steps of a PyTorch trace; `None`: all kernels, those outside of steps too.
    pub steps: Option<StepRange>,
}

impl Default for ReadOptions {
    /// One GPU, and nothing beside the profile.
    fn default() -> Self {
        Self { names: None, capture: None, eager: None, model: None, tp: 1, ep: 1, steps: None }
    }
}

/// Reads profiles into an inventory: files of any readable dialect, report folders, rocprofv3 output folders. Several paths are added up; sheets
/// of one TraceLens report (files in one folder) count once, whether the folder or its files are given.
///
/// # Errors
/// When a path cannot be read, nothing in it gives an inventory, or a folder holds several profiles. Damaged lines of a profiler's file
/// are no error: they are skipped, counted, and told in [`Inventory::health`]. A wrong line of a kbench inventory is one.
pub fn read<P: AsRef<Path>>(paths: &[P], options: &ReadOptions) -> Result<Inventory, ReadError> {
    let mut units = Vec::new();
    let mut files: BTreeMap<PathBuf, Vec<(PathBuf, Dialect)>> = BTreeMap::new();
    let mut refused = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let metadata = std::fs::metadata(path).map_err(|source| ReadError::io(path, source))?;
        if metadata.is_dir() {
            units.extend(folder(path)?);
            continue;
        }
        let dialect = sniff(path)?;
        if dialect.is_readable() || dialect == Dialect::GpuTimeline {
            let parent = path.parent().unwrap_or(Path::new("")).to_owned();
            let group = files.entry(parent).or_default();
            if !group.iter().any(|(known, _)| known == path) {
                group.push((path.to_owned(), dialect));
            }
        }
        if !dialect.is_readable() {
            refused.push((path.to_owned(), dialect));
        }
    }
    for (parent, group) in &files {
        units.extend(group_units(parent, group, false)?);
    }
    if units.is_empty() {
        return Err(match refused.into_iter().next() {
            Some((path, dialect)) => ReadError::NoInventory { path, dialect },
            None => ReadError::Nothing { path: PathBuf::new(), found: "No path was given".to_owned() },
        });
    }
    let mut ledger = Ledger::new(Names::new(options)?, Source::default());
    let mut own_rows = Vec::new();
    for unit in &units {
        unit.read(&mut ledger, &mut own_rows, options)?;
    }
    if let Some(steps) = options.steps.filter(|_| ledger.steps.is_empty()) {
        let path = paths.first().map(|path| path.as_ref().to_owned()).unwrap_or_default();
        return Err(ReadError::NoSuchStep { path, steps, count: ledger.steps_seen });
    }
    trace_inventory::tell_attention(&mut ledger);
    if units.len() > 1 {
        let text = format!("{} profiles were added up", units.len());
        ledger.health.tell(Severity::Note, "merged", text);
    }
    for (path, dialect) in refused.iter().filter(|(_, dialect)| *dialect != Dialect::GpuTimeline) {
        let text = format!("{} was left aside: {}", path.display(), dialect.refusal().0);
        ledger.health.tell(Severity::Note, "ignored_files", text);
    }
    finish(ledger, own_rows, &units, paths)
}

/// One profile: what is read together.
#[derive(Debug)]
enum Unit {
    Report(Report),
    RocprofReport { summary: Option<PathBuf>, details: Option<PathBuf>, timeline: Option<PathBuf> },
    Traces(RankTraces),
    File(PathBuf, Dialect),
}

impl Unit {
    fn read(&self, ledger: &mut Ledger, own_rows: &mut Vec<Row>, options: &ReadOptions) -> Result<(), ReadError> {
        match self {
            Unit::Report(report) => tracelens::read(report, ledger),
            Unit::RocprofReport { summary: Some(summary), timeline, .. } => {
                tracelens::rocprof::read_summary(summary, timeline.as_deref(), ledger)
            }
            Unit::RocprofReport { details: Some(details), .. } => tracelens::rocprof::read_details(details, ledger),
            Unit::RocprofReport { .. } => Ok(()),
            Unit::Traces(ranks) => trace_inventory::read_ranks(ranks, options, ledger),
            Unit::File(path, dialect) => match dialect {
                Dialect::AtomBreakdown => atom::read_breakdown(path, ledger),
                Dialect::AtomLayer => atom::read_layer(path, ledger),
                Dialect::AtomModules => atom::read_modules(path, ledger),
                Dialect::AtomKernels => atom::read_kernels(path, ledger),
                Dialect::KernelTrace => rocprofv3::read_trace(path, ledger),
                Dialect::KernelStats => rocprofv3::read_stats(path, ledger),
                Dialect::RocprofJson => rocprof_json::read(path, ledger),
                Dialect::Rocpd => rocpd::read(path, ledger),
                Dialect::Inventory => {
                    own_rows.extend(csv_inventory::read(path, ledger)?);
                    Ok(())
                }
                Dialect::KinetoTrace => trace_inventory::read(path, options, ledger).map(|_| ()),
                other => Err(ReadError::NoInventory { path: path.clone(), dialect: *other }),
            },
        }
    }

    /// True for a single file of the dialect.
    fn is_of(&self, dialect: Dialect) -> bool {
        matches!(self, Unit::File(_, own) if *own == dialect)
    }

    fn files(&self) -> Vec<(&Path, Dialect)> {
        fn some(path: &Option<PathBuf>, dialect: Dialect) -> impl Iterator<Item = (&Path, Dialect)> {
            path.as_deref().map(|path| (path, dialect)).into_iter()
        }
        match self {
            Unit::Report(report) => some(&report.unified, Dialect::UnifiedPerfSummary)
                .chain(some(&report.unique, Dialect::OpsUniqueArgs))
                .chain(some(&report.category, Dialect::CategorySheet))
                .chain(some(&report.kernel_summary, Dialect::KernelSummary))
                .collect(),
            Unit::RocprofReport { summary: Some(summary), .. } => vec![(summary, Dialect::RocprofKernelSummary)],
            Unit::RocprofReport { details, .. } => some(details, Dialect::RocprofKernelDetails).collect(),
            Unit::Traces(ranks) => vec![(&ranks.first, Dialect::KinetoTrace)],
            Unit::File(path, dialect) => vec![(path, *dialect)],
        }
    }
}

/// The profiles of one folder's files. `is_found` says that the folder was given and its files found in it.
fn group_units(parent: &Path, group: &[(PathBuf, Dialect)], is_found: bool) -> Result<Vec<Unit>, ReadError> {
    let all = |wanted: Dialect| group.iter().filter(move |(_, dialect)| *dialect == wanted).map(|(path, _)| path);
    let one = |wanted: Dialect| all(wanted).next().cloned();
    let mut units = Vec::new();
    let category: Vec<&PathBuf> = all(Dialect::CategorySheet).collect();
    let mut report = Report {
        unified: one(Dialect::UnifiedPerfSummary),
        unique: one(Dialect::OpsUniqueArgs),
        category: None,
        kernel_summary: one(Dialect::KernelSummary),
        timeline: one(Dialect::GpuTimeline),
    };
    if report.unified.is_none() && report.unique.is_none() && !category.is_empty() {
        if category.len() > 1 || is_found {
            let names = category.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy());
            let sheets = names.collect::<Vec<_>>().join(", ");
            return Err(ReadError::CategorySheets { path: parent.to_owned(), sheets });
        }
        report.category = category.first().map(|path| (*path).clone());
    }
    let has_rows = report.unified.is_some() || report.unique.is_some() || report.category.is_some();
    if has_rows || report.kernel_summary.is_some() {
        units.push(Unit::Report(report.clone()));
    }
    let (summary, details) = (one(Dialect::RocprofKernelSummary), one(Dialect::RocprofKernelDetails));
    if summary.is_some() || details.is_some() {
        units.push(Unit::RocprofReport { summary, details, timeline: report.timeline });
    }
    let has_trace = all(Dialect::KernelTrace).next().is_some();
    for (path, dialect) in group {
        let is_single = match dialect {
            // The trace has every launch that the statistics sum up.
            Dialect::KernelStats => !(is_found && has_trace),
            Dialect::KernelTrace | Dialect::RocprofJson | Dialect::Rocpd => true,
            Dialect::Inventory | Dialect::KinetoTrace => true,
            Dialect::AtomBreakdown | Dialect::AtomLayer | Dialect::AtomModules | Dialect::AtomKernels => true,
            _ => false,
        };
        if is_single {
            units.push(Unit::File(path.clone(), *dialect));
        }
    }
    Ok(units)
}

/// The profile of a folder.
fn folder(root: &Path) -> Result<Vec<Unit>, ReadError> {
    let mut paths = Vec::new();
    walk(root, 0, &mut paths)?;
    paths.sort();
    let mut groups: BTreeMap<PathBuf, Vec<(PathBuf, Dialect)>> = BTreeMap::new();
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    let mut unreadable = None;
    let mut traces = Vec::new();
    for path in paths {
        match sniff(&path) {
            Ok(Dialect::KinetoTrace) => traces.push(path),
            Ok(dialect) => {
                if !dialect.is_readable() {
                    *others.entry(dialect.describe()).or_default() += 1;
                }
                let parent = path.parent().unwrap_or(root).to_owned();
                groups.entry(parent).or_default().push((path, dialect));
            }
            Err(error @ ReadError::Database { .. }) => unreadable = unreadable.or(Some(error)),
            Err(ReadError::NotCsv { what, .. }) => *others.entry(what.to_owned()).or_default() += 1,
            Err(ReadError::Io { .. }) => *others.entry("unreadable file".to_owned()).or_default() += 1,
            Err(_) => *others.entry("a text file that is no known CSV".to_owned()).or_default() += 1,
        }
    }
    let mut units = Vec::new();
    for (parent, group) in &groups {
        units.extend(group_units(parent, group, true)?);
    }
    // A database that cannot be read may be one process of the run: the others alone would pass for the whole.
    if let Some(error) = unreadable.filter(|_| units.iter().all(|unit| unit.is_of(Dialect::Rocpd))) {
        return Err(error);
    }
    let is_process_file = |unit: &Unit| PROCESS_FILES.iter().any(|dialect| unit.is_of(*dialect));
    if !traces.is_empty() {
        others.insert("a kineto trace of a graph's capture".to_owned(), traces.len() as u64);
    }
    match RankTraces::of_folder(root, traces) {
        Ok(ranks) => units.extend(ranks.map(Unit::Traces)),
        Err(several) => units.extend(several.into_iter().map(|path| Unit::File(path, Dialect::KinetoTrace))),
    }
    // rocprofv3 writes a set of files for each process of one run: only those are parts of one profile. Statistics of other things have the
    // header of kernel_stats and are sorted out by their names.
    if units.len() > 1 && units.iter().all(is_process_file) {
        units.retain(|unit| match unit {
            Unit::File(path, Dialect::KernelStats) => rocprofv3::holds_kernels(path),
            _ => true,
        });
        one_format(&mut units);
    }
    match units.len() {
        0 => {
            let found: Vec<String> = others.iter().map(|(what, count)| format!("{what} ({count})")).collect();
            let found = match found.is_empty() {
                true => "The folder holds no files".to_owned(),
                false => format!(
                    "Found: {}. Give a PyTorch trace or the folder of its ranks, a TraceLens report folder (--output_csvs_dir) or a \
                     rocprofv3 output folder",
                    found.join(", ")
                ),
            };
            Err(ReadError::Nothing { path: root.to_owned(), found })
        }
        1 => Ok(units),
        _ if units.iter().all(is_process_file) => Ok(units),
        _ => {
            let files = units
                .iter()
                .flat_map(Unit::files)
                .map(|(path, dialect)| format!("{} ({})", path.display(), dialect.name()));
            Err(ReadError::Several { path: root.to_owned(), files: files.collect::<Vec<_>>().join(", ") })
        }
    }
}

/// What rocprofv3 writes for each process, the richest first.
const PROCESS_FILES: [Dialect; 4] = [Dialect::Rocpd, Dialect::RocprofJson, Dialect::KernelTrace, Dialect::KernelStats];

/// A run written in several formats is read once, in the richest. CSVs among themselves are told apart by folder.
fn one_format(units: &mut Vec<Unit>) {
    let raw = [Dialect::Rocpd, Dialect::RocprofJson];
    if let Some(richest) = raw.into_iter().find(|dialect| units.iter().any(|unit| unit.is_of(*dialect))) {
        units.retain(|unit| unit.is_of(richest));
    }
}

fn walk(folder: &Path, depth: usize, paths: &mut Vec<PathBuf>) -> Result<(), ReadError> {
    let error = |source| ReadError::io(folder, source);
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        // Links are followed for files only: folders cannot form a circle.
        let kind = entry.file_type().map_err(error)?;
        if kind.is_dir() && depth < MAX_DEPTH {
            walk(&entry.path(), depth + 1, paths)?;
        } else if (kind.is_file() || kind.is_symlink() && entry.path().is_file()) && paths.len() < MAX_FILES {
            paths.push(entry.path());
        }
    }
    Ok(())
}

/// Source, hints, and the check that there is something.
fn finish<P: AsRef<Path>>(
    mut ledger: Ledger,
    own_rows: Vec<Row>,
    units: &[Unit],
    paths: &[P],
) -> Result<Inventory, ReadError> {
    let files: Vec<(&Path, Dialect)> = units.iter().flat_map(Unit::files).collect();
    // A lone inventory that kbench wrote says where its rows come from; everything else comes from what was given.
    if ledger.source.dialect.is_empty() || units.len() > 1 {
        let mut names: Vec<&str> = files.iter().map(|(_, dialect)| dialect.name()).collect();
        names.dedup();
        ledger.source.dialect = names.join(" + ");
        ledger.source.paths = paths.iter().map(|path| path.as_ref().display().to_string()).collect();
        let batches: Vec<&str> =
            files.iter().filter_map(|(path, _)| atom::batch_hint(path.file_name()?.to_str()?)).collect();
        if !batches.is_empty() {
            ledger.source.hints.insert("batch".to_owned(), batches.join(","));
        }
    }
    let bad = ledger.health.counted(crate::health::Issue::BadRows);
    let mut inventory = ledger.finish();
    let is_named_here = own_rows.is_empty();
    inventory.rows.extend(own_rows);
    inventory.finish();
    let unknown = inventory.rows.iter().filter(|row| row.family == Family::Other);
    let unknown: f64 = unknown.map(|row| row.share).sum();
    if is_named_here && unknown >= 0.0005 {
        let text = format!(
            "{:.1} % of kernel time is in kernels whose names say nothing to the table of names; they are `other` and keep their share",
            100.0 * unknown
        );
        inventory.note(Severity::Note, "unknown_names", text);
    }
    match (inventory.rows.is_empty(), files.first()) {
        (true, Some((path, dialect))) => {
            let reason = match bad {
                0 => "there are no lines with a time behind the header. Check that the profiler traced kernels and ended properly".to_owned(),
                _ => format!("none of its {bad} lines could be read. Check that the file is whole"),
            };
            Err(ReadError::Empty { path: path.to_path_buf(), dialect: *dialect, reason })
        }
        _ => Ok(inventory),
    }
}
