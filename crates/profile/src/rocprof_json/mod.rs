//! rocprofv3's JSON (`-f json`, `*_results.json`): kernel dispatches of one or more processes, plain or gzip, in one pass.
//!
//! Dispatches are joined with the kernel symbols of their process by `kernel_id`, whichever come first; times are ns. Memory grows with the kernels,
//! not with the dispatches. Of a file that is cut off, every whole dispatch counts.

mod scan;

use crate::dispatches::{Agent, Process, SymbolNames, duration};
use crate::error::ReadError;
use crate::health::Issue;
use crate::inventory::Severity;
use crate::kineto::json::{Members, text, unquoted};
use crate::kineto::number::id;
use crate::kineto::source::{Piece, Pieces, SourceReport};
use crate::ledger::Ledger;
use crate::sniff::Dialect;
use scan::{Part, ScanReport, Scanner, Sink};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of text in which the root's key must stand for a file to be recognised.
const HEAD: u64 = 64 << 10;

/// True when the file, plain or gzip, starts like rocprofv3's JSON.
pub(crate) fn is_it(path: &Path) -> io::Result<bool> {
    let mut file = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut file)?;
    let mut inflated = Vec::new();
    let text = match file.starts_with(b"\x1f\x8b") {
        false => &file,
        true => {
            // An end or damage within the head is for the reader to tell.
            let _ = flate2::read::GzDecoder::new(file.as_slice()).take(HEAD).read_to_end(&mut inflated);
            &inflated
        }
    };
    struct Ignore;
    impl Sink for Ignore {
        fn element(&mut self, _: Part, _: &[u8]) {}
        fn process_end(&mut self) {}
    }
    let mut scanner = Scanner::new();
    scanner.push(text, &mut Ignore);
    Ok(scanner.found_tool())
}

/// Reads a file.
pub(crate) fn read(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    let io = |source| ReadError::io(path, source);
    let mut pieces = Pieces::start(File::open(path).map_err(io)?).map_err(io)?;
    let mut collector = Collector::new(path, ledger);
    let mut scanner = Scanner::new();
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Bytes(bytes) => {
                scanner.push(&bytes, &mut collector);
                pieces.recycle(bytes);
            }
            Piece::Member => {}
            Piece::Gap => scanner.gap(),
        }
        if scanner.is_done() {
            break;
        }
    }
    let scan = scanner.finish(&mut collector);
    let source = pieces.finish();
    collector.finish(path, &scan, source)
}

/// What is known of a file so far.
struct Collector<'l> {
    ledger: &'l mut Ledger,
    file: String,
    process: Process,
    /// Process id by the metadata; unknown without.
    pid: Option<u64>,
    processes: u64,
    /// Dispatches seen, good or bad.
    dispatches: u64,
    /// Dispatches whose counters were collected.
    counted: u64,
}

impl Sink for Collector<'_> {
    fn element(&mut self, part: Part, element: &[u8]) {
        match part {
            Part::Metadata => {
                self.pid = Members::of(element).find(|(key, _)| *key == b"pid").and_then(|(_, value)| id(value));
            }
            Part::Agent => self.agent(element),
            Part::Symbol => self.symbol(element),
            Part::Dispatch => self.dispatch(element),
            Part::Counted => self.counted += 1,
        }
    }

    fn process_end(&mut self) {
        let process = std::mem::take(&mut self.process);
        let pid = self.pid.take();
        if process.is_empty() {
            return;
        }
        self.processes += 1;
        let name = pid.map_or_else(|| format!("entry {}", self.processes), |pid| format!("process {pid}"));
        process.finish(self.ledger, &self.file, &name);
    }
}

impl<'l> Collector<'l> {
    fn new(path: &Path, ledger: &'l mut Ledger) -> Self {
        let file = path.display().to_string();
        Self { ledger, file, process: Process::default(), pid: None, processes: 0, dispatches: 0, counted: 0 }
    }

    fn agent(&mut self, element: &[u8]) {
        /// `ROCPROFILER_AGENT_TYPE_GPU`.
        const GPU: u64 = 2;
        let (mut handle, mut agent, mut kind) = (None, Agent::default(), None);
        for (key, value) in Members::of(element) {
            match key {
                b"id" => handle = inner_handle(value),
                b"type" => kind = id(value),
                b"name" => agent.arch = text(unquoted(value)).into_owned(),
                b"product_name" => agent.product = text(unquoted(value)).into_owned(),
                _ => {}
            }
        }
        if let (Some(handle), Some(GPU)) = (handle, kind) {
            self.process.gpu(handle, agent);
        }
    }

    fn symbol(&mut self, element: &[u8]) {
        let mut kernel = None;
        let [mut demangled, mut formatted, mut mangled, mut truncated] = [const { Cow::Borrowed("") }; 4];
        for (key, value) in Members::of(element) {
            match key {
                b"kernel_id" => kernel = id(value),
                b"kernel_name" => mangled = text(unquoted(value)),
                b"formatted_kernel_name" => formatted = text(unquoted(value)),
                b"demangled_kernel_name" => demangled = text(unquoted(value)),
                b"truncated_kernel_name" => truncated = text(unquoted(value)),
                _ => {}
            }
        }
        if let Some(kernel) = kernel {
            let names =
                SymbolNames { demangled: &demangled, formatted: &formatted, mangled: &mangled, truncated: &truncated };
            self.process.symbol(kernel, names);
        }
    }

    fn dispatch(&mut self, element: &[u8]) {
        self.dispatches += 1;
        let issue = match record(element) {
            Some(Record { kernel, agent, start, end }) => match duration(start.into(), end.into()) {
                Ok(ns) => return self.process.dispatch(kernel, agent, ns),
                Err(issue) => issue,
            },
            None => Issue::BadRows,
        };
        let (file, number) = (&self.file, self.dispatches);
        self.ledger.health.count(issue, || format!("{file}, kernel dispatch {number}"));
    }

    /// Findings, and the check that there is something.
    fn finish(self, path: &Path, scan: &ScanReport, source: SourceReport) -> Result<(), ReadError> {
        let Self { ledger, file, dispatches, counted, .. } = self;
        if let Some(error) = source.error {
            return Err(ReadError::io(path, error));
        }
        if scan.truncated {
            let text = format!(
                "{file} is cut off after {} bytes of text: the {dispatches} kernel dispatches before the cut were read, later ones are missing. \
                 rocprofv3 writes the file when the program ends: let it end by itself, and check the free space of the disk",
                scan.bytes
            );
            ledger.health.tell(Severity::Warning, "truncated", text);
        }
        if let Some(damage) = source.damage.first() {
            let text = format!(
                "the gzip data of {file} is damaged at byte {} ({} places): what could be unpacked was read",
                damage.offset,
                source.damage.len()
            );
            ledger.health.tell(Severity::Warning, "gzip_damaged", text);
        }
        if scan.damaged > 0 {
            let text = format!("{} damaged stretches of {file} were skipped, with the records in them", scan.damaged);
            ledger.health.tell(Severity::Warning, "damaged_events", text);
        }
        if counted > 0 && dispatches > 0 {
            let text = format!(
                "counters of {counted} dispatches were collected in the run of {file}: its dispatches were serialised for that and may have taken \
                 longer than usual. Trace without --pmc for times"
            );
            ledger.health.tell(Severity::Warning, "counted_dispatches", text);
        }
        if dispatches > 0 {
            return Ok(());
        }
        let reason = match (scan.truncated, counted) {
            (true, _) => "it is cut off before the first dispatch. Check that the profiled program ended by itself".to_owned(),
            (_, 0) => "it has no kernel dispatches. Run rocprofv3 with --kernel-trace, and check that the program used the GPU".to_owned(),
            (_, counted) => format!(
                "it has counters of {counted} dispatches and no kernel trace; counted dispatches are serialised, so their times are not those of the \
                 program. Run rocprofv3 with --kernel-trace and without --pmc"
            ),
        };
        Err(ReadError::Empty { path: path.to_owned(), dialect: Dialect::RocprofJson, reason })
    }
}

/// One dispatch; timestamps in ns.
struct Record {
    kernel: u64,
    agent: Option<u64>,
    start: u64,
    end: u64,
}

/// The fields of a dispatch that matter; nothing when one of them is missing or no number.
fn record(element: &[u8]) -> Option<Record> {
    let (mut start, mut end, mut kernel, mut agent) = (None, None, None, None);
    for (key, value) in Members::of(element) {
        match key {
            b"start_timestamp" => start = id(value),
            b"end_timestamp" => end = id(value),
            b"dispatch_info" => {
                for (key, value) in Members::of(value) {
                    match key {
                        b"kernel_id" => kernel = id(value),
                        b"agent_id" => agent = inner_handle(value),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(Record { kernel: kernel?, agent, start: start?, end: end? })
}

/// The number in `{"handle": 5}`, or a bare one.
fn inner_handle(value: &[u8]) -> Option<u64> {
    match value.first() {
        Some(b'{') => Members::of(value).find(|(key, _)| *key == b"handle").and_then(|(_, value)| id(value)),
        _ => id(value),
    }
}
