//! What is wrong with a trace, found after reading. Overlong durations are corrected here; all else is only said.

use super::error::TraceError;
use super::intervals::{Intervals, Span};
use super::join::LaunchIndex;
use super::model::*;
use super::scan::ScanReport;
use super::source::{DamageKind, SourceReport};
use crate::inventory::{Finding, Severity};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZeroU64;

/// Kernels of one stream may overlap by this much: clocks of start and end differ by nanoseconds on AMD, dependent
/// launches by microseconds on NVIDIA. Beyond it the duration is wrong.
const OVERLAP_TOLERANCE_NS: i64 = 10_000;
/// Launches without GPU records that are not worth a word: the last ones before the profiler stopped.
const FEW_LAUNCHES: usize = 3;
/// GPU records that start this late in the span of the launches are only its tail.
const TAIL_SHARE: f64 = 0.1;

/// Runs every check.
pub(super) fn check(trace: &mut Trace, scan: &ScanReport, source: &SourceReport, beyond_limit: u64) {
    let mut findings = Findings(Vec::new());
    findings.of_gzip(source);
    findings.of_text(scan);
    findings.of_times(&trace.stats);
    findings.of_limits(trace, beyond_limit);
    clip_overlaps(trace, &mut findings);
    findings.of_runtime(trace);
    findings.of_shapes(trace);
    let seen = Seen::new(trace);
    findings.of_missing_records(trace, &seen);
    findings.of_unlinked(trace);
    findings.of_replays(trace);
    trace.health = findings.0;
}

impl Trace {
    /// An error when no kernel is left to work with.
    ///
    /// # Errors
    /// [`TraceError::NoKernels`] with the likely cause.
    pub fn require_kernels(&self) -> Result<(), TraceError> {
        if !self.kernels.is_empty() {
            return Ok(());
        }
        let launches = self.launches.iter().filter(|launch| launch.kind != LaunchKind::Copy);
        let (captured, run): (Vec<&Launch>, Vec<&Launch>) = launches.partition(|launch| launch.captured);
        let reason = if self.stats.bad_kernels > 0 {
            format!(
                "all {} kernel records have a start or duration that is zero, negative, missing or absurd. Profile \
                 again; if it persists, the profiler and the runtime do not fit together.",
                self.stats.bad_kernels
            )
        } else if !run.is_empty() {
            format!(
                "{} launches were recorded on the CPU, but no GPU record at all. The usual causes: the profiler's GPU \
                 part was registered after the runtime had started, the GPU records were dropped as out of range of \
                 the window, or the wheel brings a roctracer/rocprofiler-sdk that does not fit the installed ROCm. \
                 Try ROCm >= 7.2.2, a longer window with a warm-up step, and KINETO_LOG_LEVEL=0 to see what is dropped.",
                run.len()
            )
        } else if !captured.is_empty() {
            format!(
                "it is the capture trace of a graph ({} launches recorded into the graph, none run). Give the trace of \
                 the run, and this one as --capture.",
                captured.len()
            )
        } else {
            "neither kernels nor launches were recorded: a profile of the CPU only. Profile with \
             activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]."
                .to_owned()
        };
        Err(TraceError::NoKernels { path: self.path.clone(), reason })
    }
}

/// Which correlations have a GPU record.
struct Seen(HashSet<NonZeroU64>);

impl Seen {
    fn new(trace: &Trace) -> Self {
        let copies = trace.copies.iter().map(|copy| copy.correlation);
        Self(trace.kernels.iter().map(|kernel| kernel.correlation).chain(copies).flatten().collect())
    }

    fn has(&self, launch: &Launch) -> bool {
        launch.correlation.is_some_and(|correlation| self.0.contains(&correlation))
    }
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, code: &str, message: String) {
        self.0.push(Finding { code: code.to_owned(), severity, message });
    }

    fn warn(&mut self, code: &str, message: String) {
        self.add(Severity::Warning, code, message);
    }

    fn note(&mut self, code: &str, message: String) {
        self.add(Severity::Note, code, message);
    }

    fn of_gzip(&mut self, source: &SourceReport) {
        for damage in &source.damage {
            let (member, offset) = (damage.member, damage.offset);
            match damage.kind {
                DamageKind::Truncated => self.warn(
                    "gzip_truncated",
                    format!("the gzip file ends at byte {offset}, inside member {member}; what could be decompressed was used"),
                ),
                DamageKind::Corrupt => self.warn(
                    "gzip_corrupt",
                    format!("the gzip data is corrupt at about byte {offset}, in member {member}; what could be decompressed was used"),
                ),
                DamageKind::Checksum => self.warn(
                    "gzip_checksum",
                    format!("the checksum of gzip member {member}, at byte {offset}, does not match; its data was used"),
                ),
                DamageKind::Trailing => self.warn(
                    "gzip_trailing",
                    format!("bytes that are no gzip follow member {member} at byte {offset}; they were ignored"),
                ),
            }
        }
        if source.members > 1 {
            self.note("gzip_members", format!("the file is made of {} gzip members", source.members));
        }
    }

    fn of_text(&mut self, scan: &ScanReport) {
        if scan.truncated {
            let message = format!(
                "the trace is cut off: truncated at byte {} of its text, complete up to byte {}; the {} events before \
                 were used",
                scan.bytes, scan.whole_until, scan.events
            );
            self.warn("truncated", message);
        }
        if scan.damaged > 0 {
            let message =
                format!("{} damaged stretches of the text were skipped, with the events in them", scan.damaged);
            self.warn("damaged_events", message);
        }
        if scan.oversized > 0 {
            let message =
                format!("{} events larger than {} MiB were skipped", scan.oversized, super::scan::MAX_EVENT >> 20);
            self.warn("oversized_events", message);
        }
        if let Some(offset) = scan.second_document {
            let first = if scan.interrupted { "the first one is cut off there" } else { "the first one is whole" };
            let message = format!(
                "at byte {offset} of the text something else starts, as when several ranks write one file; {first} and \
                 only it was used"
            );
            self.warn("several_documents", message);
        }
    }

    fn of_times(&mut self, stats: &Stats) {
        if stats.bad_kernels > 0 {
            let message = format!(
                "{} kernels have a start or duration that is zero, negative, missing or absurd; they were dropped",
                stats.bad_kernels
            );
            self.warn("zero_durations", message);
        }
        if stats.bad_others > 0 {
            self.note("bad_times", format!("{} other events without a usable time were dropped", stats.bad_others));
        }
    }

    fn of_limits(&mut self, trace: &Trace, beyond_limit: u64) {
        if beyond_limit > 0 {
            let message = format!("{beyond_limit} events are beyond the number that is kept; use a shorter window");
            self.warn("too_many_events", message);
        }
        let refused = trace.tables.names.refused() + trace.tables.texts.refused();
        if refused > 0 {
            let message = format!("{refused} names or argument lists found no room and are not told apart");
            self.warn("too_many_texts", message);
        }
    }

    fn of_runtime(&mut self, trace: &Trace) {
        let (Some(number), Some(version)) = (trace.metadata.hip_runtime_version, trace.metadata.hip_version()) else {
            return;
        };
        if number / 100_000 != 702 {
            return;
        }
        // HIP 7.2.53211 is ROCm 7.2.1 and stayed the number up to 7.2.4; 7.2.0 is below.
        if number % 100_000 < 53_211 {
            let message = format!(
                "HIP {version} is ROCm 7.2.0, whose profiler loses kernels of replayed graphs (12 to 87 % of them, \
                 differently each run); fixed in ROCm 7.2.2"
            );
            self.warn("rocm_loses_kernels", message);
        } else if number % 100_000 == 53_211 {
            let message = format!(
                "HIP {version} is ROCm 7.2.1 to 7.2.4; in 7.2.1 the profiler loses kernels of replayed graphs (fixed \
                 in 7.2.2)"
            );
            self.note("rocm_loses_kernels", message);
        }
    }

    fn of_shapes(&mut self, trace: &Trace) {
        if trace.kernels.is_empty() {
            return;
        }
        if trace.ops.is_empty() {
            self.note("no_ops", "the trace holds no operators, so no shapes of its own".to_owned());
        } else if !trace.ops.iter().any(|op| op.args.is_some_and(|args| trace.has_dims(args))) {
            let message = "no operator has its shapes recorded; profile with record_shapes=True".to_owned();
            self.warn("no_shapes", message);
        }
    }

    /// Launches whose kernels are not there: the records of the first ones overwritten, the last ones not yet flushed,
    /// or all of them lost.
    fn of_missing_records(&mut self, trace: &Trace, seen: &Seen) {
        if let Err(error) = trace.require_kernels() {
            self.warn("no_kernels", error.to_string());
            return;
        }
        let run: Vec<&Launch> = trace
            .launches
            .iter()
            .filter(|launch| launch.kind != LaunchKind::Copy && !launch.captured && launch.correlation.is_some())
            .collect();
        let missing = run.iter().filter(|launch| !seen.has(launch)).count();
        let leading = run.iter().position(|launch| seen.has(launch)).unwrap_or(0);
        if missing > FEW_LAUNCHES {
            let message = format!(
                "{missing} of {} launches have no GPU record ({leading} of them before the first that has one)",
                run.len()
            );
            self.warn("launches_without_kernels", message);
        }
        if leading > FEW_LAUNCHES {
            self.of_tail(trace, &run, leading);
        }
        self.of_leading_steps(trace, &run, seen);
    }

    fn of_tail(&mut self, trace: &Trace, run: &[&Launch], leading: usize) {
        let labelled = trace.annotations.iter().map(|label| label.ts_ns);
        let start = run.iter().map(|launch| launch.ts_ns).chain(labelled).min();
        let end = run.iter().map(|launch| launch.ts_ns).max();
        let (Some(start), Some(end)) = (start, end) else { return };
        let span = (end - start) as f64;
        let lost = (run[leading].ts_ns - start) as f64;
        if span > 0.0 && lost / span > TAIL_SHARE {
            let message = format!(
                "GPU records cover only the last {:.3} s of the {:.3} s that were profiled: the profiler's buffer was \
                 too small and kept the newest. Set KINETO_BUFFER_SIZE_MB=256 (or more), or profile fewer steps",
                (span - lost) / 1e9,
                span / 1e9
            );
            self.warn("gpu_tail_only", message);
        }
    }

    fn of_leading_steps(&mut self, trace: &Trace, run: &[&Launch], seen: &Seen) {
        let spans = trace.annotations.iter().map(|label| Span {
            group: match label.place {
                Place::Thread(ThreadId(place)) | Place::Track(TrackId(place)) => place,
            },
            start: label.ts_ns,
            end: label.ts_ns.saturating_add_unsigned(label.dur_ns),
        });
        let labels = Intervals::new(spans);
        // Outermost label of each launch, by start: does any of its launches have a GPU record?
        let mut steps: BTreeMap<(i64, u32), bool> = BTreeMap::new();
        for launch in run {
            if let Some(step) = labels.containing(launch.thread.0, launch.ts_ns).last() {
                *steps.entry((trace.annotations[step as usize].ts_ns, step)).or_default() |= seen.has(launch);
            }
        }
        let empty = steps.values().take_while(|has_records| !**has_records).count();
        if empty > 0 && empty < steps.len() {
            let message = format!(
                "the first {empty} of {} labelled steps have launches but no GPU record: the profiler dropped them; \
                 add warm-up steps to the schedule",
                steps.len()
            );
            self.warn("leading_steps_without_gpu", message);
        }
    }

    fn of_unlinked(&mut self, trace: &Trace) {
        if trace.launches.is_empty() || trace.kernels.iter().all(|kernel| kernel.correlation.is_none()) {
            return;
        }
        let index = LaunchIndex::new(&trace.launches);
        let unlinked = |kernel: &&KernelEvent| kernel.correlation.and_then(|id| index.of(id)).is_none();
        let (mut count, mut time) = (0u64, 0u128);
        for kernel in trace.kernels.iter().filter(unlinked) {
            count += 1;
            time += u128::from(kernel.dur_ns);
        }
        if count > 0 {
            let message = format!(
                "{count} kernels ({:.1} % of kernel time) have no launch in the trace; they were launched before the \
                 window",
                100.0 * time as f64 / trace.kernel_ns().max(1) as f64
            );
            self.note("unlinked_kernels", message);
        }
    }

    /// Replays of one graph run the same kernels: where they do not, records were lost. Without the profiler's graph
    /// id, replays with the same set of kernel names are taken for replays of one graph.
    fn of_replays(&mut self, trace: &Trace) {
        let index = LaunchIndex::new(&trace.launches);
        let mut replays: BTreeMap<NonZeroU64, (Option<u64>, Vec<Name>)> = BTreeMap::new();
        for kernel in &trace.kernels {
            let Some(correlation) = kernel.correlation else { continue };
            let launch = index.of(correlation).map(|launch| trace.launches[launch as usize].kind);
            if launch == Some(LaunchKind::Graph) {
                let graph = trace.graph_node(kernel).map(|node| node.graph);
                let replay = replays.entry(correlation).or_insert((graph, Vec::new()));
                replay.1.push(kernel.name);
            }
        }
        let mut graphs: BTreeMap<(Option<u64>, BTreeSet<Name>), Vec<usize>> = BTreeMap::new();
        for (graph, names) in replays.into_values() {
            let count = names.len();
            let names = if graph.is_some() { BTreeSet::new() } else { names.into_iter().collect() };
            graphs.entry((graph, names)).or_default().push(count);
        }
        for counts in graphs.values() {
            let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
            if let (Some(least), Some(most)) = (least, most)
                && least < most
            {
                let short = counts.iter().filter(|count| **count < most).count();
                let message = format!(
                    "incomplete graph replays: {short} of {} replays of what seems one graph have fewer than its {most} \
                     kernels, the worst {least}; weigh per step, not per trace",
                    counts.len()
                );
                self.warn("incomplete_replays", message);
            }
        }
    }
}

/// Clips durations that overrun the next start on the same stream by more than the tolerance. Kernels that start
/// together are left alone: nothing says which of them is wrong.
fn clip_overlaps(trace: &mut Trace, findings: &mut Findings) {
    let (mut clipped, mut cut_ns) = (0u64, 0u128);
    let (mut small, mut largest_small) = (0u64, 0i64);
    // The latest two distinct starts seen, walking backwards along a stream.
    let mut later: Option<(TrackId, i64, Option<i64>)> = None;
    for kernel in trace.kernels.iter_mut().rev() {
        let next = match later {
            Some((track, start, after)) if track == kernel.track => {
                if start > kernel.ts_ns {
                    Some(start)
                } else {
                    after
                }
            }
            _ => None,
        };
        later = Some((kernel.track, kernel.ts_ns, next));
        let Some(next) = next else { continue };
        let room = next - kernel.ts_ns;
        let overlap = i64::try_from(kernel.dur_ns).unwrap_or(i64::MAX).saturating_sub(room);
        if overlap > OVERLAP_TOLERANCE_NS {
            clipped += 1;
            cut_ns += u128::from(overlap.unsigned_abs());
            kernel.dur_ns = room.unsigned_abs();
        } else if overlap > 0 {
            small += 1;
            largest_small = largest_small.max(overlap);
        }
    }
    if clipped > 0 {
        let message = format!(
            "{clipped} kernels run longer than until the next kernel of their stream starts; {:.3} ms of their time \
             were clipped",
            cut_ns as f64 / 1e6
        );
        findings.warn("overlap_clipped", message);
    }
    if small > 0 {
        let message = format!(
            "{small} kernels overlap the next one of their stream by up to {:.3} µs, which is usual",
            largest_small as f64 / 1e3
        );
        findings.note("overlap_small", message);
    }
}
