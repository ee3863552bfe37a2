//! Turns events into the compact records of a [`Trace`].

use super::event::{Category, RawArgs, RawEvent};
use super::intern::Interner;
use super::join::LaunchIndex;
use super::json;
use super::metadata::{Metadata, Profiler};
use super::model::*;
use super::number::micros_to_ns;
use super::scan::Sink;
use std::collections::HashMap;
use std::num::NonZeroU32;

/// Records kept; a trace of 2 GB of text has about 5 million. More are counted, not kept.
const MAX_RECORDS: u64 = 32 << 20;

/// Takes events, gives a trace.
pub(super) struct Collector {
    trace: Trace,
    records: u64,
    pub(super) beyond_limit: u64,
    geometries: HashMap<Geometry, NonZeroU32>,
    tracks: HashMap<Track, u32>,
    threads: HashMap<[u32; 2], u32>,
    args: HashMap<ArgTexts, NonZeroU32>,
    graph_nodes: HashMap<GraphNode, NonZeroU32>,
    /// The thread of the event before, in most cases that of the next.
    latest_thread: (Vec<u8>, Vec<u8>, ThreadId),
    /// Begin (true) and end of graph captures.
    capture_calls: Vec<(ThreadId, i64, bool)>,
}

/// Start and duration of an event.
struct Time {
    ts_ns: i64,
    dur_ns: u64,
}

impl Collector {
    pub(super) fn new(path: &str) -> Self {
        let tables = Tables {
            names: Interner::new(),
            texts: Interner::new(),
            args: Vec::new(),
            geometries: Vec::new(),
            tracks: Vec::new(),
            threads: vec![[0, 0]],
            graph_nodes: Vec::new(),
        };
        let trace = Trace {
            path: path.to_owned(),
            metadata: Metadata::default(),
            kernels: Vec::new(),
            copies: Vec::new(),
            ops: Vec::new(),
            launches: Vec::new(),
            annotations: Vec::new(),
            gpu_annotations: Vec::new(),
            captures: Vec::new(),
            health: Vec::new(),
            stats: Stats::default(),
            tables,
        };
        Self {
            trace,
            records: 0,
            beyond_limit: 0,
            geometries: HashMap::new(),
            tracks: HashMap::new(),
            threads: HashMap::from([([0, 0], 0)]),
            args: HashMap::new(),
            graph_nodes: HashMap::new(),
            latest_thread: (Vec::new(), Vec::new(), ThreadId(0)),
            capture_calls: Vec::new(),
        }
    }

    pub(super) fn metadata_keys(&self) -> &[String] {
        &self.trace.metadata.keys
    }

    /// Orders the records and settles what needed all of them: grid units and captured launches.
    pub(super) fn finish(mut self) -> Trace {
        let tracks = &self.trace.tables.tracks;
        self.trace.kernels.sort_unstable_by_key(|kernel| {
            (tracks.get(kernel.track.0 as usize).copied(), kernel.ts_ns, kernel.dur_ns, kernel.correlation, kernel.name)
        });
        self.trace.launches.sort_by_key(|launch| launch.ts_ns);
        self.mark_captured();
        self.settle_grids();
        self.trace
    }

    fn mark_captured(&mut self) {
        self.capture_calls.sort_unstable_by_key(|(thread, ts, _)| (*thread, *ts));
        let mut spans: Vec<CaptureSpan> = Vec::new();
        for (thread, ts, begins) in self.capture_calls.drain(..) {
            if begins {
                spans.push(CaptureSpan { thread, begin_ns: ts, end_ns: None });
            } else if let Some(open) = spans.last_mut().filter(|span| span.thread == thread && span.end_ns.is_none()) {
                open.end_ns = Some(ts);
            }
        }
        for launch in &mut self.trace.launches {
            let before = spans.partition_point(|span| (span.thread, span.begin_ns) <= (launch.thread, launch.ts_ns));
            let span = before.checked_sub(1).and_then(|index| spans.get(index));
            launch.captured = span
                .is_some_and(|span| span.thread == launch.thread && span.end_ns.is_none_or(|end| launch.ts_ns <= end));
        }
        self.trace.captures = spans;
    }

    /// Turns grids in work-items into workgroups. kineto copies a launch's grid into the kernel, so the unit of a
    /// kernel's grid is that of the API that launched it; without a launch the unit is not known on AMD, and the grid
    /// is dropped.
    fn settle_grids(&mut self) {
        let index = LaunchIndex::new(&self.trace.launches);
        let nvidia = self.trace.metadata.profiler == Profiler::Cupti;
        let in_work_items: Vec<bool> =
            self.trace.launches.iter().map(|launch| counts_work_items(self.trace.name(launch.api))).collect();
        let mut kernels = std::mem::take(&mut self.trace.kernels);
        for kernel in &mut kernels {
            let Some(geometry) = kernel.geometry else { continue };
            let launch = kernel.correlation.and_then(|correlation| index.of(correlation));
            kernel.geometry = match launch {
                Some(launch) if in_work_items[launch as usize] => self.in_workgroups(geometry),
                None if !nvidia => None,
                _ => Some(geometry),
            };
        }
        self.trace.kernels = kernels;
        let mut launches = std::mem::take(&mut self.trace.launches);
        for (launch, in_work_items) in launches.iter_mut().zip(in_work_items) {
            if in_work_items {
                launch.geometry = launch.geometry.and_then(|geometry| self.in_workgroups(geometry));
            }
        }
        self.trace.launches = launches;
    }

    fn in_workgroups(&mut self, geometry: GeometryId) -> Option<GeometryId> {
        let mut geometry = self.trace.geometry(geometry);
        geometry.grid = match (geometry.grid, geometry.block) {
            (Some(items), Some(block)) => Some(std::array::from_fn(|axis| items[axis].div_ceil(block[axis]))),
            _ => None,
        };
        self.geometry(geometry)
    }

    fn geometry(&mut self, geometry: Geometry) -> Option<GeometryId> {
        if geometry.grid.is_none() && geometry.block.is_none() {
            return None;
        }
        intern(&mut self.geometries, &mut self.trace.tables.geometries, geometry).map(GeometryId)
    }

    fn track(&mut self, event: &RawEvent<'_>, args: &RawArgs<'_>) -> TrackId {
        // Old dialects have no device and stream in the arguments; process and thread of a GPU event are the same.
        let device = args.device.or_else(|| super::number::id(event.pid)).unwrap_or(0);
        let stream = args.stream.or_else(|| super::number::id(event.tid)).unwrap_or(0);
        let tracks = &mut self.trace.tables.tracks;
        TrackId(*self.tracks.entry(Track { device, stream }).or_insert_with_key(|track| {
            tracks.push(*track);
            tracks.len() as u32 - 1
        }))
    }

    fn thread(&mut self, event: &RawEvent<'_>) -> ThreadId {
        let (pid, tid, latest) = &self.latest_thread;
        if pid == event.pid && tid == event.tid {
            return *latest;
        }
        let key = [self.name(event.pid).0, self.name(event.tid).0];
        let threads = &mut self.trace.tables.threads;
        let thread = ThreadId(*self.threads.entry(key).or_insert_with(|| {
            threads.push(key);
            threads.len() as u32 - 1
        }));
        self.latest_thread = (event.pid.to_vec(), event.tid.to_vec(), thread);
        thread
    }

    fn name(&mut self, raw: &[u8]) -> Name {
        Name(self.trace.tables.names.intern(&json::text(raw)))
    }

    fn op_args(&mut self, args: &RawArgs<'_>) -> Option<ArgsId> {
        if args.dims.is_empty() && args.types.is_empty() && args.concrete.is_empty() {
            return None;
        }
        let mut text = |raw: &[u8]| self.trace.tables.texts.intern(&String::from_utf8_lossy(raw));
        let texts = ArgTexts {
            dims: text(args.dims),
            types: text(args.types),
            strides: text(args.strides),
            concrete: text(args.concrete),
        };
        intern(&mut self.args, &mut self.trace.tables.args, texts).map(ArgsId)
    }

    fn kernel(&mut self, event: &RawEvent<'_>, time: Option<Time>) {
        let Some(time) = time.filter(|time| time.ts_ns > 0 && time.dur_ns > 0) else {
            self.trace.stats.bad_kernels += 1;
            return;
        };
        let args = RawArgs::parse(event.args);
        let graph_node = args.graph.map(|graph| GraphNode { graph, node: args.graph_node });
        let kernel = KernelEvent {
            name: self.name(event.name),
            track: self.track(event, &args),
            ts_ns: time.ts_ns,
            dur_ns: time.dur_ns,
            correlation: args.correlation,
            external_id: args.external_id,
            geometry: self.geometry(args.geometry),
            kind: args.kind,
            graph_node: graph_node
                .and_then(|node| intern(&mut self.graph_nodes, &mut self.trace.tables.graph_nodes, node)),
        };
        self.trace.kernels.push(kernel);
    }

    fn copy(&mut self, event: &RawEvent<'_>, time: Option<Time>) {
        let Some(time) = time.filter(|time| time.ts_ns > 0 && time.dur_ns > 0) else {
            self.trace.stats.bad_others += 1;
            return;
        };
        let args = RawArgs::parse(event.args);
        let copy = CopyEvent {
            name: self.name(event.name),
            is_memset: event.category == Category::Memset,
            track: self.track(event, &args),
            ts_ns: time.ts_ns,
            dur_ns: time.dur_ns,
            bytes: args.bytes,
            correlation: args.correlation,
            external_id: args.external_id,
        };
        self.trace.copies.push(copy);
    }

    fn call(&mut self, event: &RawEvent<'_>, time: &Time) {
        let args = RawArgs::parse(event.args);
        let api = json::text(event.name);
        if api.contains("StreamBeginCapture") || api.contains("StreamEndCapture") {
            let thread = self.thread(event);
            self.capture_calls.push((thread, time.ts_ns, api.contains("Begin")));
        }
        let Some(kind) = launch_kind(&api, &args) else {
            self.trace.stats.other_calls += 1;
            return;
        };
        let launch = Launch {
            api: self.name(event.name),
            kind,
            kernel: self.name(args.kernel),
            thread: self.thread(event),
            ts_ns: time.ts_ns,
            dur_ns: time.dur_ns,
            correlation: args.correlation,
            external_id: args.external_id,
            geometry: self.geometry(args.geometry),
            captured: false,
        };
        self.trace.launches.push(launch);
    }

    fn op(&mut self, event: &RawEvent<'_>, time: &Time) {
        let args = RawArgs::parse(event.args);
        let op = OpEvent {
            name: self.name(event.name),
            thread: self.thread(event),
            ts_ns: time.ts_ns,
            dur_ns: time.dur_ns,
            external_id: args.external_id,
            args: self.op_args(&args),
        };
        self.trace.ops.push(op);
    }

    fn annotation(&mut self, event: &RawEvent<'_>, time: &Time) {
        let args = RawArgs::parse(event.args);
        let on_gpu = event.category == Category::GpuAnnotation;
        let place = if on_gpu { Place::Track(self.track(event, &args)) } else { Place::Thread(self.thread(event)) };
        let annotation = Annotation {
            label: self.name(event.name),
            place,
            ts_ns: time.ts_ns,
            dur_ns: time.dur_ns,
            external_id: args.external_id,
        };
        let list = if on_gpu { &mut self.trace.gpu_annotations } else { &mut self.trace.annotations };
        list.push(annotation);
    }

    /// What the scanner and the source counted, for [`Stats`].
    pub(super) fn counted(&mut self, bytes: u64, events: u64) {
        self.trace.stats.bytes = bytes;
        self.trace.stats.events = events;
    }
}

impl Sink for Collector {
    fn metadata(&mut self, key: &[u8], value: &[u8]) {
        self.trace.metadata.take(key, value);
    }

    fn event(&mut self, text: &[u8]) {
        let Some(event) = RawEvent::parse(text) else {
            self.trace.stats.skipped += 1;
            return;
        };
        if self.records >= MAX_RECORDS {
            self.beyond_limit += 1;
            return;
        }
        self.records += 1;
        let duration = micros_to_ns(event.dur).and_then(|dur| u64::try_from(dur).ok());
        let time = micros_to_ns(event.ts).map(|ts_ns| Time { ts_ns, dur_ns: duration.unwrap_or(0) });
        match (event.category, time) {
            (Category::Kernel, time) => self.kernel(&event, time),
            (Category::Memcpy | Category::Memset, time) => self.copy(&event, time),
            (Category::Other, _) => {}
            (_, None) => self.trace.stats.bad_others += 1,
            (Category::Call, Some(time)) => self.call(&event, &time),
            (Category::Op, Some(time)) => self.op(&event, &time),
            (Category::CpuAnnotation | Category::GpuAnnotation, Some(time)) => self.annotation(&event, &time),
        }
    }
}

/// The number (from 1) of a value in a table, new or known; `None` when 2^32 values are there.
fn intern<T: Copy + Eq + std::hash::Hash>(
    known: &mut HashMap<T, NonZeroU32>,
    table: &mut Vec<T>,
    value: T,
) -> Option<NonZeroU32> {
    if let Some(number) = known.get(&value) {
        return Some(*number);
    }
    let number = u32::try_from(table.len() + 1).ok().and_then(NonZeroU32::new)?;
    table.push(value);
    known.insert(value, number);
    Some(number)
}

/// What a call launches, if anything.
fn launch_kind(api: &str, args: &RawArgs<'_>) -> Option<LaunchKind> {
    if api.contains("GraphLaunch") {
        Some(LaunchKind::Graph)
    } else if api.contains("Memcpy") || api.contains("Memset") {
        Some(LaunchKind::Copy)
    } else if (api.contains("Launch") && !api.contains("HostFunc")) || !args.kernel.is_empty() {
        Some(LaunchKind::Kernel)
    } else {
        None
    }
}

/// Launch APIs whose grid is in work-items (their HIP signatures take a global work size); all others count workgroups.
fn counts_work_items(api: &str) -> bool {
    matches!(api, "hipExtModuleLaunchKernel" | "hipHccModuleLaunchKernel")
}
