//! What a file is, told from its first bytes and its header, never from its name.

use crate::error::ReadError;
use crate::header::Header;
use crate::records::Records;
use crate::{rocpd, rocprof_json, trace_head};
use std::path::Path;

/// The dialects that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// TraceLens `unified_perf_summary`: operators with unique arguments, their kernels, and a model's parameters.
    UnifiedPerfSummary,
    /// TraceLens `ops_unique_args`: operators with unique arguments and their kernels.
    OpsUniqueArgs,
    /// A TraceLens category sheet: `GEMM`, `SDPA_fwd`, `MoE_fused_fwd`, `RMSNorm_fwd`, ...
    CategorySheet,
    /// TraceLens `kernel_summary` of a PyTorch trace, µs.
    KernelSummary,
    /// `kernel_summary` of a TraceLens rocprof report.
    RocprofKernelSummary,
    /// `kernel_details` of a TraceLens rocprof report: one line a dispatch.
    RocprofKernelDetails,
    /// ATOM `parse_trace`: one decode step by module.
    AtomBreakdown,
    /// `conc{bs}_layer.csv`: one transformer layer by position.
    AtomLayer,
    /// Older ATOM `parse_trace`: kernels by module.
    AtomModules,
    /// Older ATOM `parse_trace`: its kernel summary sheet.
    AtomKernels,
    /// rocprofv3 `kernel_trace`: one line a dispatch, ns.
    KernelTrace,
    /// rocprofv3 and rocprof `kernel_stats`; API statistics share its header.
    KernelStats,
    /// rocprofv3's JSON results.
    RocprofJson,
    /// rocprofv3's rocpd database (SQLite).
    Rocpd,
    /// kbench's own inventory.
    Inventory,
    /// A PyTorch (kineto) trace, plain or gzip.
    KinetoTrace,
    /// rocprofv3 `counter_collection`.
    CounterCollection,
    /// TraceLens `ops_summary`.
    OpsSummary,
    /// TraceLens `ops_summary_by_category`, `kernel_summary_by_category`.
    CategorySummary,
    /// TraceLens `gpu_timeline`.
    GpuTimeline,
    /// TraceLens `short_kernels_summary`.
    ShortKernels,
    /// TraceLens `short_kernel_histogram`.
    ShortKernelHistogram,
    /// TraceLens `coll_analysis`.
    Collectives,
    /// A TraceLens comparison of two reports.
    Comparison,
    /// rocprofv3 `memory_copy_trace`.
    MemoryCopyTrace,
    /// rocprofv3 API, marker and memory-allocation traces.
    ApiTrace,
    /// rocprofv3 `agent_info`.
    AgentInfo,
    /// rocprofiler-compute `pmc_perf`.
    PmcPerf,
    /// rocprofiler-compute `pmc_dispatch_info`.
    PmcDispatchInfo,
    /// rocprofiler-compute `sysinfo`.
    SysInfo,
}

/// Names of the total in statistics: rocprofv3 and rocprof, rocpd's summary.
pub(crate) const STATS_TOTAL: &[&str] = &["totaldurationns", "duration (nsec)"];

const TRACELENS: &str = "Give unified_perf_summary.csv or ops_unique_args.csv (kernels with shapes) or kernel_summary.csv (kernels without) of the \
                         same report, or the whole report folder";
const ROCPROFV3: &str = "Give kernel_trace.csv or kernel_stats.csv of the same run (rocprofv3 --kernel-trace --stats)";

impl Dialect {
    /// Short name for `Source::dialect`.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::UnifiedPerfSummary => "tracelens unified_perf_summary",
            Dialect::OpsUniqueArgs => "tracelens ops_unique_args",
            Dialect::CategorySheet => "tracelens category sheet",
            Dialect::KernelSummary => "tracelens kernel_summary",
            Dialect::RocprofKernelSummary => "tracelens rocprof kernel_summary",
            Dialect::RocprofKernelDetails => "tracelens rocprof kernel_details",
            Dialect::AtomBreakdown => "atom parse_trace",
            Dialect::AtomLayer => "atom layer",
            Dialect::AtomModules => "atom parse_trace modules (old)",
            Dialect::AtomKernels => "atom parse_trace kernel_summary (old)",
            Dialect::KernelTrace => "rocprofv3 kernel_trace",
            Dialect::KernelStats => "rocprofv3 kernel_stats",
            Dialect::RocprofJson => "rocprofv3 JSON",
            Dialect::Rocpd => "rocprofv3 rocpd",
            Dialect::Inventory => "kbench inventory",
            Dialect::KinetoTrace => "kineto trace",
            Dialect::CounterCollection => "rocprofv3 counter_collection",
            Dialect::OpsSummary => "tracelens ops_summary",
            Dialect::CategorySummary => "tracelens summary by category",
            Dialect::GpuTimeline => "tracelens gpu_timeline",
            Dialect::ShortKernels => "tracelens short_kernels_summary",
            Dialect::ShortKernelHistogram => "tracelens short_kernel_histogram",
            Dialect::Collectives => "tracelens coll_analysis",
            Dialect::Comparison => "tracelens comparison",
            Dialect::MemoryCopyTrace => "rocprofv3 memory_copy_trace",
            Dialect::ApiTrace => "rocprofv3 API trace",
            Dialect::AgentInfo => "rocprofv3 agent_info",
            Dialect::PmcPerf => "rocprofiler-compute pmc_perf",
            Dialect::PmcDispatchInfo => "rocprofiler-compute pmc_dispatch_info",
            Dialect::SysInfo => "rocprofiler-compute sysinfo",
        }
    }

    /// The name with its article, for sentences.
    pub(crate) fn describe(self) -> String {
        let name = self.name();
        let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        match self {
            Dialect::KinetoTrace => format!("{article} {name}"),
            Dialect::RocprofJson => format!("{article} {name} file"),
            Dialect::Rocpd => format!("{article} {name} database"),
            _ => format!("{article} {name} CSV"),
        }
    }

    /// True when it gives an inventory by itself.
    pub fn is_readable(self) -> bool {
        self.refusal().0.is_empty()
    }

    /// Why it gives no inventory, and what would; empty for readable ones.
    pub(crate) fn refusal(self) -> (&'static str, &'static str) {
        match self {
            Dialect::CounterCollection => (
                "these are counters; the times in it are those of dispatches that were serialised to be counted",
                ROCPROFV3,
            ),
            Dialect::OpsSummary => ("it has operators without kernels or shapes", TRACELENS),
            Dialect::CategorySummary => ("it has categories, no kernels", TRACELENS),
            Dialect::GpuTimeline => ("it has busy and idle time, no kernels", TRACELENS),
            Dialect::ShortKernels => ("it has only the short kernels of a profile", TRACELENS),
            Dialect::ShortKernelHistogram => ("it has a histogram of durations, no kernels", TRACELENS),
            Dialect::Collectives => ("it has collectives by message size, no kernels", TRACELENS),
            Dialect::Comparison => (
                "it joins two reports side by side",
                "Give the sheets of one of the two reports; to compare builds, run both and use `kbench compare`",
            ),
            Dialect::MemoryCopyTrace => ("it has copies, no kernels", ROCPROFV3),
            Dialect::ApiTrace => ("it has calls on the CPU, no kernels", ROCPROFV3),
            Dialect::AgentInfo => ("it describes the machine, no kernels", ROCPROFV3),
            Dialect::PmcPerf => ("these are counters without kernel times", ROCPROFV3),
            Dialect::PmcDispatchInfo => ("it lists dispatches without times", ROCPROFV3),
            Dialect::SysInfo => ("it describes the machine, no kernels", ROCPROFV3),
            _ => ("", ""),
        }
    }

    /// The dialect of a header, if any is known.
    pub(crate) fn of_header(header: &Header) -> Option<Self> {
        let has = |names: &[&str]| header.has_all(names);
        let any = |test: fn(&str) -> bool| header.keys().any(test);
        let is_joined = |name: &str| name.contains("::") || name.ends_with("_diff") && name.contains("__");
        Some(match () {
            () if has(&["family", "shape"]) => Dialect::Inventory,
            () if any(is_joined) => Dialect::Comparison,
            // It has timestamps too, but of runs that were slowed down to count.
            () if has(&["kernel_name", "dispatch_id", "gpu_id", "grid_size"]) => Dialect::PmcPerf,
            () if header.has("counter_name") => Dialect::CounterCollection,
            () if has(&["kernel_name", "start_timestamp", "end_timestamp"]) || has(&["kernelname", "durationns"]) => {
                Dialect::KernelTrace
            }
            () if has(&["name", "calls"]) && header.first_of(STATS_TOTAL).is_some() => Dialect::KernelStats,
            () if has(&["direction", "start_timestamp", "end_timestamp"]) => Dialect::MemoryCopyTrace,
            () if has(&["function", "start_timestamp", "end_timestamp"]) => Dialect::ApiTrace,
            () if has(&["start_timestamp", "end_timestamp"]) || has(&["operation", "agent_id", "start_timestamp"]) => {
                Dialect::ApiTrace
            }
            () if has(&["node_id", "agent_type"]) => Dialect::AgentInfo,
            () if has(&["layer_group", "kernel"]) => Dialect::AtomBreakdown,
            () if has(&["pos", "kernel", "avg_us"]) => Dialect::AtomLayer,
            () if has(&["cpu_module", "gpu_kernel"]) => Dialect::AtomModules,
            () if has(&["gpu_kernel", "calls", "total_duration_us"]) => Dialect::AtomKernels,
            () if has(&["name", "operation_count", "total_direct_kernel_time_sum"])
                || has(&["name", "input dims", "total_direct_kernel_time_sum"]) =>
            {
                Dialect::OpsUniqueArgs
            }
            () if has(&["name", "operation_count"])
                && header.first_of(&["kernel time (us)_sum", "kernel time (us)_mean"]).is_some() =>
            {
                Dialect::UnifiedPerfSummary
            }
            () if has(&["name", "name_count"]) || has(&["name"]) && any(|name| name.starts_with("param: ")) => {
                Dialect::CategorySheet
            }
            () if has(&["kernel name", "kernel duration (us)_sum"]) => Dialect::KernelSummary,
            () if has(&["name", "count", "total kernel time (ms)"]) => Dialect::RocprofKernelSummary,
            () if has(&["name", "kernel duration (us)", "dispatch_id"]) => Dialect::RocprofKernelDetails,
            () if any(|name| name.starts_with("short kernel ")) => Dialect::ShortKernels,
            () if has(&["bin_start", "bin_end"]) => Dialect::ShortKernelHistogram,
            () if has(&["type", "time ms"]) => Dialect::GpuTimeline,
            () if has(&["op category", "total_direct_kernel_time_ms"]) && !header.has("name") => {
                Dialect::CategorySummary
            }
            () if has(&["name", "total_direct_kernel_time_ms"]) || has(&["name", "total_direct_kernel_time_sum"]) => {
                Dialect::OpsSummary
            }
            () if header.has("collective name") => Dialect::Collectives,
            () if has(&["kernel_name", "dispatch_id", "gpu_id"]) => Dialect::PmcDispatchInfo,
            () if has(&["gpu_arch", "hostname"]) => Dialect::SysInfo,
            () => return None,
        })
    }
}

/// Refuses what is no CSV text by its first bytes.
fn refuse_binary(path: &Path, head: &[u8]) -> Result<(), ReadError> {
    let table = "Give the CSV that the profiler wrote";
    let known: [(&[u8], &str, &str); 9] = [
        (b"\x1f\x8b", "a gzip file", "It holds no PyTorch trace; unpack a CSV first (gunzip)"),
        (b"PK\x03\x04", "a zip archive or an XLSX workbook", "Give CSVs: TraceLens writes them with --output_csvs_dir"),
        (
            b"SQLite format 3",
            "an SQLite database without rocpd's tables, or the start of one",
            "Give the *_results.db that rocprofv3 -f rocpd wrote",
        ),
        (b"\x7fELF", "an ELF file", table),
        (b"\x28\xb5\x2f\xfd", "a zstd file", "Unpack it first"),
        (b"\xff\xfe", "UTF-16 text", "Save it as UTF-8"),
        (b"\xfe\xff", "UTF-16 text", "Save it as UTF-8"),
        (b"%PDF", "a PDF", table),
        (b"version https://git-lfs", "a Git LFS pointer, not the file itself", "Fetch it with git lfs pull"),
    ];
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let found =
        known.into_iter().find(|(magic, _, _)| head.starts_with(magic)).map(|(_, what, instead)| (what, instead));
    let found = found.or(match text.first() {
        None => Some(("empty", "The profiler wrote nothing: check that it traced kernels and ended properly")),
        Some(b'{' | b'[') => {
            Some(("JSON", "It is no PyTorch trace (there are no traceEvents at its start); of rocprofv3 give the CSVs"))
        }
        Some(b'<') => Some(("XML or HTML", table)),
        Some(_) if text.split(|byte| *byte == b'\n').next().is_some_and(|line| line.contains(&0)) => {
            Some(("a binary file", table))
        }
        Some(_) => None,
    });
    match found {
        Some((what, instead)) => Err(ReadError::NotCsv { path: path.to_owned(), what, instead }),
        None => Ok(()),
    }
}

/// What a header that no reader knows might be.
fn hint(header: &Header) -> String {
    let first = header.name(0);
    match header.len() {
        1 if first.contains(';') => "The columns are parted by `;`: kbench reads commas. ".to_owned(),
        1 if first.contains('\t') => "The columns are parted by tabs: kbench reads commas. ".to_owned(),
        _ if header.has("shape") || header.has("family") => {
            "An inventory needs both columns `family` and `shape`. ".to_owned()
        }
        _ if header.keys().any(|name| name.starts_with("cijk") || name.parse::<f64>().is_ok()) => {
            "The first line looks like data: the header is missing. ".to_owned()
        }
        _ => String::new(),
    }
}

/// rocprofv3's outputs that are no CSV, told from the first bytes and, in a database, its tables.
fn of_rocprof(path: &Path, head: &[u8]) -> Result<Option<Dialect>, ReadError> {
    /// Bytes of an SQLite header.
    const HEADER: usize = 100;
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    if text.starts_with(b"{") || head.starts_with(b"\x1f\x8b") {
        let is_it = rocprof_json::is_it(path).map_err(|source| ReadError::io(path, source))?;
        return Ok(is_it.then_some(Dialect::RocprofJson));
    }
    if !head.starts_with(b"SQLite format 3\0") || head.len() < HEADER {
        return Ok(None);
    }
    match rocpd::recognise(path)? {
        rocpd::Kind::Rocpd => Ok(Some(Dialect::Rocpd)),
        rocpd::Kind::Rpd => Err(ReadError::NotCsv {
            path: path.to_owned(),
            what: "a database of rocmProfileData (rpd), not of rocprofv3",
            instead: "Trace with rocprofv3 --kernel-trace",
        }),
        rocpd::Kind::Other => Ok(None),
    }
}

/// The dialect of a file.
///
/// # Errors
/// When it cannot be opened, is neither CSV text nor an output of rocprofv3, or has a header that no reader knows.
pub fn sniff(path: &Path) -> Result<Dialect, ReadError> {
    if trace_head::of(path).map_err(|source| ReadError::io(path, source))?.is_some() {
        return Ok(Dialect::KinetoTrace);
    }
    let mut records = Records::open(path)?;
    if let Some(dialect) = of_rocprof(path, records.head()?)? {
        return Ok(dialect);
    }
    refuse_binary(path, records.head()?)?;
    let header = read_header(&mut records)?;
    Dialect::of_header(&header).ok_or_else(|| ReadError::UnknownHeader {
        path: path.to_owned(),
        columns: header.list(),
        hint: hint(&header),
    })
}

/// The header: the first record that is neither blank nor a comment.
pub(crate) fn read_header(records: &mut Records) -> Result<Header, ReadError> {
    let header = records.next()?.map(Header::new);
    header.ok_or_else(|| ReadError::NotCsv {
        path: records.path().to_owned(),
        what: "without a header",
        instead: "The first line must name the columns",
    })
}

#[cfg(test)]
#[path = "sniff_tests.rs"]
mod tests;
