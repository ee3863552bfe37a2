//! Capture traces: which there are, and what each captured.

use super::shapes::{Call, call_of};
use crate::error::ReadError;
use crate::health::Health;
use crate::inventory::Severity;
use crate::kineto::{self, Geometry, Launch, LaunchKind, Place, Trace};
use crate::labels::{self, CaptureFile, CaptureSize, Parsed};
use crate::naming::{KernelId, Names};
use crate::trace_head;
use std::path::{Path, PathBuf};

/// Folder that engines write capture traces to, beside the trace of the run.
pub(crate) const FOLDER: &str = "capture_traces";
/// Most files of a folder of captures that are looked at.
const MAX_FILES: usize = 4096;
/// Most files without a batch in their name that are read to find out.
const MAX_UNNAMED: usize = 16;

/// A file that may hold captures.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) named: Option<CaptureFile>,
}

/// One launch that was captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Captured {
    /// `None` where the profiler does not name kernels in launches.
    pub(super) kernel: Option<KernelId>,
    pub(super) call: Option<Call>,
    pub(super) geometry: Option<Geometry>,
}

/// One captured graph.
#[derive(Debug)]
pub(super) struct Graph {
    /// Its size, when a label or the file's name tells.
    pub(super) size: Option<(u64, CaptureSize)>,
    pub(super) launches: Vec<Captured>,
    /// True when the trace marks where the capture begins and ends, so that every launch is one of the graph.
    pub(super) is_bounded: bool,
}

/// A capture trace that was read.
pub(super) struct Loaded {
    pub(super) trace: Trace,
    pub(super) graphs: Vec<Graph>,
}

/// The files to look for captures in: those that were given, else the folder beside the trace.
pub(super) fn candidates(given: Option<&Path>, trace: &Path, rank: Option<u64>) -> Result<Vec<Candidate>, ReadError> {
    let beside = trace.parent().unwrap_or(Path::new("")).join(FOLDER);
    let root = match given {
        Some(root) => root.to_owned(),
        None if beside.is_dir() => beside,
        None => return Ok(Vec::new()),
    };
    let metadata = std::fs::metadata(&root).map_err(|source| ReadError::io(&root, source))?;
    if !metadata.is_dir() {
        let named = name_of(&root);
        return Ok(vec![Candidate { path: root, named }]);
    }
    let inner = root.join(FOLDER);
    let root = if inner.is_dir() { inner } else { root };
    let mut found = Vec::new();
    let entries = std::fs::read_dir(&root).map_err(|source| ReadError::io(&root, source))?;
    for entry in entries.take(MAX_FILES) {
        let path = entry.map_err(|source| ReadError::io(&root, source))?.path();
        if path.is_file() && trace_head::of(&path).is_ok_and(|head| head.is_some()) {
            found.push(Candidate { named: name_of(&path), path });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    // A folder of all ranks: those of the trace's own rank, where there are any.
    let of_rank = |candidate: &Candidate| candidate.named.and_then(|named| named.rank) == Some(rank.unwrap_or(0));
    if found.iter().any(of_rank) {
        found.retain(of_rank);
    }
    Ok(found)
}

fn name_of(path: &Path) -> Option<CaptureFile> {
    labels::capture_file(path.file_name()?.to_str()?)
}

/// Reads the files that may hold a graph of one of the wanted batches; all of those whose name tells no batch.
pub(super) fn load(
    candidates: &[Candidate],
    wanted: &[u64],
    names: &mut Names,
    health: &mut Health,
) -> Result<Vec<Loaded>, ReadError> {
    let batches: Vec<u64> = candidates.iter().filter_map(|candidate| Some(candidate.named?.batch)).collect();
    // A graph of a batch that was not captured runs in the next larger one.
    let needed = |batch: u64| {
        let next = |wanted: &u64| batches.iter().filter(|batch| *batch >= wanted).min().copied();
        wanted.is_empty() || wanted.iter().any(|wanted| next(wanted) == Some(batch))
    };
    let mut loaded = Vec::new();
    let mut unnamed = 0;
    for candidate in candidates {
        let is_needed = candidates.len() == 1 || candidate.named.is_none_or(|named| needed(named.batch));
        unnamed += usize::from(candidate.named.is_none());
        if !is_needed || candidate.named.is_none() && unnamed > MAX_UNNAMED {
            continue;
        }
        loaded.push(read(candidate, names)?);
    }
    if unnamed > MAX_UNNAMED {
        let text = format!(
            "{unnamed} capture traces do not tell their batch by name (bs_32_q_1_rank0.json.gz); only {MAX_UNNAMED} were read"
        );
        health.tell(Severity::Warning, "capture_files", text);
    }
    Ok(loaded)
}

fn read(candidate: &Candidate, names: &mut Names) -> Result<Loaded, ReadError> {
    let trace = kineto::read(&candidate.path)?;
    let named = candidate.named.map(|named| (named.batch, CaptureSize::Batch));
    let ops = trace.launch_ops();
    let kernels: Vec<(&Launch, Captured)> = trace
        .launches
        .iter()
        .zip(ops)
        .filter(|(launch, _)| launch.kind == LaunchKind::Kernel)
        .map(|(launch, op)| {
            let name = trace.name(launch.kernel);
            let kernel = (!name.is_empty()).then(|| names.intern(name));
            let geometry = launch.geometry.map(|geometry| trace.geometry(geometry));
            (launch, Captured { kernel, call: call_of(op), geometry })
        })
        .collect();
    let mut graphs: Vec<Graph> = Vec::new();
    for span in &trace.captures {
        let ends = span.end_ns.unwrap_or(i64::MAX);
        // Launches are in order of time.
        let until = |ns: i64| kernels.partition_point(|(launch, _)| launch.ts_ns < ns);
        let inside = kernels.get(until(span.begin_ns)..until(ends)).unwrap_or_default();
        let captured = inside.iter().filter(|(launch, _)| launch.captured);
        let launches: Vec<Captured> = captured.map(|(_, captured)| *captured).collect();
        if !launches.is_empty() {
            let size = size_at(&trace, span.begin_ns, ends).or(named);
            graphs.push(Graph { size, launches, is_bounded: true });
        }
    }
    if graphs.is_empty() && !kernels.is_empty() {
        let size = size_at(&trace, i64::MIN, i64::MAX).or(named);
        let launches = kernels.iter().map(|(_, captured)| *captured).collect();
        graphs.push(Graph { size, launches, is_bounded: false });
    }
    Ok(Loaded { trace, graphs })
}

/// The size of a capture, from the label around it or, when there is but one, inside of it.
fn size_at(trace: &Trace, begin_ns: i64, end_ns: i64) -> Option<(u64, CaptureSize)> {
    let capture = |label| match labels::parse(trace.name(label)) {
        Parsed::Capture(capture) => Some((capture.size, capture.measure)),
        _ => None,
    };
    let on_cpu = trace.annotations.iter().filter(|label| matches!(label.place, Place::Thread(_)));
    let around = on_cpu
        .clone()
        .filter(|label| label.ts_ns <= begin_ns && label.ts_ns.saturating_add_unsigned(label.dur_ns) >= begin_ns);
    let innermost = around.filter_map(|label| Some((label.dur_ns, capture(label.label)?))).min_by_key(|found| found.0);
    if let Some((_, size)) = innermost {
        return Some(size);
    }
    let inside = on_cpu.filter(|label| label.ts_ns >= begin_ns && label.ts_ns < end_ns);
    let mut sizes: Vec<_> = inside.filter_map(|label| capture(label.label)).collect();
    sizes.dedup();
    if sizes.len() == 1 { sizes.pop() } else { None }
}
