//! Raw PyTorch (kineto) traces: read in one pass and constant memory, kept as compact records, joined.
//!
//! [`read`] takes a `.json` or `.json.gz` of any of AMD's three dialects (kineto over roctracer, over rocprofiler-sdk,
//! old libkineto) or NVIDIA's, salvages damaged files as far as they are whole, and says in [`Trace::health`] what was
//! lost or corrected. [`Trace::joined`] gives each kernel its operator, launch and labels.
//!
//! The bytes go through five layers: `source` (inflating, on its own thread), `scan` (cutting into events, no tree),
//! `event` (fields of the events that matter; python frames, flows and memory events are skipped unread), `collect`
//! (records), `health`.

mod collect;
mod error;
mod event;
mod health;
mod intern;
mod intervals;
mod join;
pub(crate) mod json;
mod metadata;
mod model;
pub(crate) mod number;
mod scan;
pub(crate) mod source;

pub use error::TraceError;
pub use join::{Joined, JoinedKernel, OpLink};
pub use metadata::{Metadata, Profiler, TraceDevice};
pub use model::{
    Annotation, ArgsId, CaptureSpan, CopyEvent, DispatchKind, Geometry, GeometryId, GraphNode, KernelEvent, Launch,
    LaunchKind, Name, OpEvent, Place, Stats, Thread, ThreadId, Trace, Track, TrackId,
};

use collect::Collector;
use scan::{ScanReport, Scanner};
use source::{Piece, Pieces, SourceReport};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads a trace file, plain or gzip.
///
/// # Errors
/// When the file cannot be read, or is no PyTorch or Chrome trace. A damaged trace is no error as long as its list of
/// events was reached; a trace without kernels is none either (see [`Trace::require_kernels`]), since a graph's
/// capture trace has none.
pub fn read(path: impl AsRef<Path>) -> Result<Trace, TraceError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => read_from(file, &name),
        Err(source) => Err(TraceError::Open { path: name, source }),
    }
}

/// Reads a trace from anything that gives bytes; `path` is used in messages.
///
/// # Errors
/// As [`read`].
pub fn read_from(reader: impl Read + Send + 'static, path: &str) -> Result<Trace, TraceError> {
    let mut pieces = Pieces::start(reader).map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
    let mut collector = Collector::new(path);
    let mut scanner = Scanner::new();
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Bytes(bytes) => {
                scanner.push(&bytes, &mut collector);
                pieces.recycle(bytes);
            }
            Piece::Member => scanner.member(),
            Piece::Gap => scanner.gap(),
        }
        if scanner.is_hopeless() {
            break;
        }
    }
    finish(scanner, collector, pieces.finish(), path)
}

/// Reads a trace that is in memory as plain JSON text.
///
/// # Errors
/// As [`read`].
pub fn read_text(text: &[u8], path: &str) -> Result<Trace, TraceError> {
    let mut collector = Collector::new(path);
    let mut scanner = Scanner::new();
    scanner.push(text, &mut collector);
    let source =
        SourceReport { bytes_read: text.len() as u64, bytes_out: text.len() as u64, ..SourceReport::default() };
    finish(scanner, collector, source, path)
}

fn finish(
    scanner: Scanner,
    mut collector: Collector,
    mut source: SourceReport,
    path: &str,
) -> Result<Trace, TraceError> {
    let scan = scanner.finish(&mut collector);
    if let Some(error) = source.error.take() {
        return Err(TraceError::Read { path: path.to_owned(), offset: source.bytes_read, source: error });
    }
    if let Some(found) = what_else(&scan, &source, collector.metadata_keys()) {
        return Err(TraceError::NotATrace { path: path.to_owned(), found });
    }
    collector.counted(scan.bytes, scan.events);
    let beyond_limit = collector.beyond_limit;
    let mut trace = collector.finish();
    health::check(&mut trace, &scan, &source, beyond_limit);
    Ok(trace)
}

/// What the content is when it is no trace.
fn what_else(scan: &ScanReport, source: &SourceReport, keys: &[String]) -> Option<String> {
    const RIGHT: &str = "Give the .json or .json.gz that torch.profiler wrote (a JSON object with `traceEvents`)";
    if scan.found_events {
        return None;
    }
    if let Some(start) = &scan.not_json {
        let known: [(&[u8], &str); 5] = [
            (b"\x28\xb5\x2f\xfd", "it is compressed with zstd; decompress it first"),
            (b"\xfd7zXZ", "it is compressed with xz; decompress it first"),
            (b"PK\x03\x04", "it is a zip archive; unpack it first"),
            (b"SQLite format 3", "it is an SQLite database (a rocpd profile?), not JSON"),
            (b"\x1f\x8b", "it is compressed with gzip twice; decompress it once"),
        ];
        let what = known.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, what)| (*what).to_owned());
        let shown: String = json::text(start).chars().take(16).collect();
        return Some(
            what.unwrap_or_else(|| format!("it starts with {shown:?}, not with a JSON object or list. {RIGHT}.")),
        );
    }
    if scan.bytes == 0 {
        let damaged = if source.damage.is_empty() { "" } else { " (its gzip data is damaged from the start)" };
        return Some(format!("it is empty{damaged}. {RIGHT}."));
    }
    if keys.iter().any(|key| key == "rocprofiler-sdk-tool") {
        return Some("it is rocprofv3's JSON output, not a PyTorch trace.".to_owned());
    }
    let shown: Vec<&str> = keys.iter().take(8).map(String::as_str).collect();
    let cut = if scan.truncated { format!(", and it is cut off after {} bytes", scan.bytes) } else { String::new() };
    Some(format!("its JSON has no `traceEvents` (keys: {}){cut}. {RIGHT}.", shown.join(", ")))
}
