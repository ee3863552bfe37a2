//! rocprofv3's `kernel_trace` (one line a dispatch) and `kernel_stats` (one line a kernel), of every version, and rocprof's older forms.
//!
//! Times are ns; grids are in work-items and are not read. Strings stand between quotes with nothing escaped, so the name is what is left between the
//! columns before and behind it. A trace of a gigabyte is read in one pass, with one entry a distinct name in memory.

use crate::dispatches;
use crate::error::ReadError;
use crate::header::{Header, count, digits, real};
use crate::health::{Health, Issue};
use crate::inventory::Severity;
use crate::ledger::{Launches, Ledger};
use crate::naming::KernelId;
use crate::records::{Lines, Records, split_around};
use crate::sniff::{Dialect, STATS_TOTAL, read_header};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// Lines behind the header, split around the name column.
struct Wild {
    lines: Lines,
    name: usize,
    columns: usize,
    /// The file was written by something that doubles quotes inside quotes (pandas, a spreadsheet).
    is_escaped: bool,
    fields: Vec<Range<usize>>,
}

impl Wild {
    /// Opens a file whose header is known and skips to its first data line.
    fn open(path: &Path, header: &Header, name: usize) -> Result<Self, ReadError> {
        let mut fields = Vec::with_capacity(header.len());
        let after = header.len() - name - 1;
        let is_escaped = doubles_quotes(path, name, after, &mut fields)?;
        let mut lines = Lines::open(path)?;
        skip_header(&mut lines)?;
        Ok(Self { lines, name, columns: header.len(), is_escaped, fields })
    }

    /// The next line's number, bytes and field places; lines that do not split are counted.
    fn next(&mut self, health: &mut Health) -> Result<Option<WildLine<'_>>, ReadError> {
        loop {
            // Borrowed anew each round: the line lives in the reader's buffer.
            let Some((number, line)) = self.lines.next()? else { return Ok(None) };
            if line.is_empty() {
                continue;
            }
            if split_around(line, self.name, self.columns - self.name - 1, &mut self.fields) {
                break;
            }
            health.count(Issue::BadRows, || format!("{}:{number}", self.lines.path().display()));
        }
        let (number, line) = self.lines.current();
        Ok(Some(WildLine { number, line, fields: &self.fields }))
    }
}

/// One line of such a file.
struct WildLine<'l> {
    /// Line number from 1.
    number: u64,
    line: &'l [u8],
    /// Places of the fields in the line.
    fields: &'l [Range<usize>],
}

/// Reads the header line; true when it stands in quotes.
fn skip_header(lines: &mut Lines) -> Result<bool, ReadError> {
    while let Some((_, line)) = lines.next()? {
        if !line.is_empty() && line[0] != b'#' {
            return Ok(line[0] == b'"');
        }
    }
    Ok(false)
}

/// True when the file was written again by something that quotes only where it must: its header and a text beside the name are bare.
fn doubles_quotes(path: &Path, name: usize, after: usize, fields: &mut Vec<Range<usize>>) -> Result<bool, ReadError> {
    let mut lines = Lines::open(path)?;
    if skip_header(&mut lines)? {
        return Ok(false);
    }
    let Some((_, line)) = lines.next()? else { return Ok(false) };
    if !split_around(line, name, after, fields) {
        return Ok(false);
    }
    let others = fields.iter().enumerate().filter(|(index, _)| *index != name);
    Ok(others.map(|(_, field)| field).any(|field| {
        let is_quoted = field.start > 0 && line[field.start - 1] == b'"';
        !is_quoted && line[field.clone()].first().is_some_and(u8::is_ascii_alphabetic)
    }))
}

/// A name as text, with doubled quotes undone where the file doubles them.
fn name_text(bytes: &[u8], is_escaped: bool) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    match is_escaped && text.contains("\"\"") {
        true => Cow::Owned(text.replace("\"\"", "\"")),
        false => text,
    }
}

/// Where a dispatch's duration stands.
#[derive(Clone, Copy)]
enum Times {
    StartEnd(usize, usize),
    Duration(usize),
}

impl Times {
    fn new(header: &Header, path: &Path) -> Result<Self, ReadError> {
        let start = header.first_of(&["start_timestamp", "beginns"]);
        let end = header.first_of(&["end_timestamp", "endns"]);
        match (start, end, header.find("durationns")) {
            (Some(start), Some(end), _) => Ok(Times::StartEnd(start, end)),
            (_, _, Some(duration)) => Ok(Times::Duration(duration)),
            _ => Ok(Times::Duration(header.need("start_timestamp", path, Dialect::KernelTrace)?)),
        }
    }

    /// Duration in ns, or why the line is dropped.
    fn duration(self, line: &[u8], fields: &[Range<usize>]) -> Result<u64, Issue> {
        let number = |column: usize| digits(&line[fields[column].clone()]).ok_or(Issue::BadRows);
        match self {
            Times::StartEnd(start, end) => dispatches::duration(number(start)?.into(), number(end)?.into()),
            Times::Duration(duration) => match number(duration)? {
                0 => Err(Issue::ZeroDurations),
                ns => Ok(ns),
            },
        }
    }
}

/// Launches and time of one name.
#[derive(Clone, Copy)]
struct Total {
    kernel: KernelId,
    calls: u64,
    ns: u64,
    line: u64,
}

/// Reads a `kernel_trace`.
pub(crate) fn read_trace(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    let header = read_header(&mut Records::open(path)?)?;
    let name = match header.find("kernelname") {
        Some(column) => column,
        None => header.need("kernel_name", path, Dialect::KernelTrace)?,
    };
    let times = Times::new(&header, path)?;
    let mut wild = Wild::open(path, &header, name)?;
    let is_escaped = wild.is_escaped;
    let file = path.display().to_string();
    let mut by_name: HashMap<Box<[u8]>, usize> = HashMap::new();
    let mut totals: Vec<Total> = Vec::new();
    while let Some(WildLine { number, line, fields }) = wild.next(&mut ledger.health)? {
        let bytes = &line[fields[name].clone()];
        let issue = match times.duration(line, fields) {
            Ok(_) if bytes.is_empty() => Issue::BadRows,
            Err(issue) => issue,
            Ok(duration) => {
                let index = by_name.get(bytes).copied().unwrap_or_else(|| {
                    let kernel = ledger.names.intern(&name_text(bytes, is_escaped));
                    match totals.last() {
                        // Names beyond the limit share the entry behind the last one that had its own.
                        Some(last) if ledger.names.is_full() && last.kernel == kernel => {}
                        _ => totals.push(Total { kernel, calls: 0, ns: 0, line: number }),
                    }
                    if !ledger.names.is_full() {
                        by_name.insert(bytes.into(), totals.len() - 1);
                    }
                    totals.len() - 1
                });
                let total = &mut totals[index];
                total.calls += 1;
                total.ns = total.ns.saturating_add(duration);
                continue;
            }
        };
        ledger.health.count(issue, || format!("{file}:{number}"));
    }
    for total in &totals {
        add(ledger, total, &file);
    }
    tell_truncated(ledger, totals.iter().map(|total| total.kernel));
    for product in emulated_beside(path) {
        dispatches::tell_emulated(ledger, &file, &product);
    }
    Ok(())
}

/// The emulated GPUs in the `agent_info` that rocprofv3 writes beside a `kernel_trace`: the trace itself does not name products. Nothing where there
/// is no such file, or none that can be read.
fn emulated_beside(path: &Path) -> Vec<String> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = path.with_file_name(name.replace("kernel_trace", "agent_info"));
    if beside == path || !beside.is_file() {
        return Vec::new();
    }
    let products = || -> Result<Vec<String>, ReadError> {
        let mut records = Records::open(&beside)?;
        let header = read_header(&mut records)?;
        let Some(product) = header.find("product_name") else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        while let Some(record) = records.next()? {
            found.push(record.text(product).into_owned());
        }
        Ok(found)
    };
    let mut found = products().unwrap_or_default();
    found.retain(|product| product.ends_with(dispatches::EMULATED));
    found.dedup();
    found
}

/// Reads a `kernel_stats`. Statistics of API calls have the very same header: a file of them is refused by its names.
pub(crate) fn read_stats(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    const DIALECT: Dialect = Dialect::KernelStats;
    let header = read_header(&mut Records::open(path)?)?;
    let name = header.need("name", path, DIALECT)?;
    let calls = header.need("calls", path, DIALECT)?;
    let total = match header.first_of(STATS_TOTAL) {
        Some(column) => column,
        None => header.need(STATS_TOTAL[0], path, DIALECT)?,
    };
    let mut wild = Wild::open(path, &header, name)?;
    let is_escaped = wild.is_escaped;
    let file = path.display().to_string();
    let (mut kernels, mut others) = (Vec::new(), Vec::new());
    while let Some(WildLine { number, line, fields }) = wild.next(&mut ledger.health)? {
        let cell = |column: usize| &line[fields[column].clone()];
        let text = name_text(cell(name), is_escaped);
        let ns = digits(cell(total))
            .or_else(|| real(cell(total)).and_then(|ns| (0.0..1.8e19).contains(&ns).then_some(ns as u64)));
        let issue = match (count(cell(calls)), ns) {
            (Some(_), Some(_)) if text.is_empty() => Issue::BadRows,
            (Some(_), Some(_)) if not_a_kernel(&text).is_some() => {
                others.push((number, text.into_owned()));
                continue;
            }
            (Some(_), Some(0)) => Issue::ZeroDurations,
            (Some(calls), Some(ns)) => {
                kernels.push(Total { kernel: ledger.names.intern(&text), calls, ns, line: number });
                continue;
            }
            _ => Issue::BadRows,
        };
        ledger.health.count(issue, || format!("{file}:{number}"));
    }
    if let Some((number, name)) = others.first()
        && others.len() > kernels.len()
    {
        let what = not_a_kernel(name).unwrap_or("no kernels");
        let reason = format!(
            "line {number} is `{name}`: these are statistics of {what} (the header is the same). Give kernel_stats.csv or kernel_trace.csv of the \
             same run (rocprofv3 --kernel-trace --stats)"
        );
        return Err(ReadError::Empty { path: path.to_owned(), dialect: DIALECT, reason });
    }
    for (number, name) in others {
        ledger.health.count(Issue::ApiRows, || format!("{file}:{number}: {name}"));
    }
    for total in &kernels {
        add(ledger, total, &file);
    }
    tell_truncated(ledger, kernels.iter().map(|total| total.kernel));
    Ok(())
}

/// True when the first name in a file with the header of `kernel_stats` is that of a kernel.
pub(crate) fn holds_kernels(path: &Path) -> bool {
    let first_name = || -> Result<Option<bool>, ReadError> {
        let mut records = Records::open(path)?;
        let header = read_header(&mut records)?;
        let name = header.need("name", path, Dialect::KernelStats)?;
        Ok(records.next()?.map(|record| not_a_kernel(&record.text(name)).is_none()))
    };
    first_name().is_ok_and(|found| found.unwrap_or(false))
}

fn add(ledger: &mut Ledger, total: &Total, file: &str) {
    ledger.add(&Launches { line: total.line, ..Launches::of_name(total.kernel, total.calls, total.ns, file) });
}

/// What a name in statistics stands for when it is no kernel.
fn not_a_kernel(name: &str) -> Option<&'static str> {
    let followed_by_capital =
        |head: &str| name.strip_prefix(head).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    if name.starts_with("MEMORY_COPY_") || name == "MEMORY_COPY" || name.starts_with("MEMORY_ALLOCATION") {
        return Some("memory copies or allocations");
    }
    let domains = ["_API", "_API_EXT", "_DISPATCH", "_MEMORY"];
    if domains.iter().any(|tail| name.ends_with(tail))
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    {
        return Some("whole domains");
    }
    let is_api = followed_by_capital("hip")
        || name.starts_with("hsa_")
        || name.starts_with("roctx")
        || name.starts_with("__hip")
        || followed_by_capital("nccl") && !name.contains("Kernel")
        || followed_by_capital("rocDec")
        || followed_by_capital("rocJpeg");
    is_api.then_some("API calls on the CPU")
}

/// A whole file of names without a parameter list or a mangled form was most likely made with `--truncate-kernels`; names of assembly and Triton
/// kernels have none either, so this is a note.
pub(crate) fn tell_truncated(ledger: &mut Ledger, kernels: impl Iterator<Item = KernelId>) {
    let mut seen = 0;
    for kernel in kernels {
        let name = ledger.names.raw(kernel);
        if name.contains(['(', '<']) || name.starts_with("_Z") {
            return;
        }
        seen += 1;
    }
    if seen > 0 {
        let text = format!(
            "none of the {seen} kernel names has template or parameter lists: if the profile was taken with --truncate-kernels, instances of one \
             template stand in one row"
        );
        ledger.health.tell(Severity::Note, "truncated_names", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_calls_and_domains_are_no_kernels() {
        for name in [
            "hipMalloc",
            "hsa_queue_create",
            "HIP_API",
            "KERNEL_DISPATCH",
            "MEMORY_COPY_HOST_TO_DEVICE",
            "ncclAllReduce",
        ] {
            assert!(not_a_kernel(name).is_some(), "{name}");
        }
        for name in [
            "ncclDevKernel_Generic_1(ncclDevKernelArgs)",
            "hip_kernel",
            "ncclDevKernel_Generic_1",
            "attn_fwd",
            "Cijk_Alik",
            "void f<int>(int)",
        ] {
            assert!(not_a_kernel(name).is_none(), "{name}");
        }
    }
}
