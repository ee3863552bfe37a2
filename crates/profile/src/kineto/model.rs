//! What a trace holds, as compact records: texts, streams, threads, grids and argument lists are stored once and
//! referred to by number.

use super::intern::Interner;
use super::metadata::Metadata;
use crate::inventory::Finding;
use kbench_workload::{ArgDims, OpArg, OpCall, Value};
use std::num::{NonZeroU32, NonZeroU64};

/// An interned name; [`Trace::name`] gives its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub(super) u32);

/// A stream of a device; [`Trace::track`] says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackId(pub(super) u32);

/// A thread of a process; [`Trace::thread`] says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub(super) u32);

/// A launch geometry; [`Trace::geometry`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GeometryId(pub(super) NonZeroU32);

/// A list of operator arguments; [`Trace::op_call`] decodes it. Equal lists have equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArgsId(pub(super) NonZeroU32);

/// A stream of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Track {
    /// Device index as the profiler counts.
    pub device: u64,
    /// Stream; may be a full 64-bit HIP handle.
    pub stream: u64,
}

/// A thread as the trace names it: numbers in most, words in some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread<'t> {
    /// Process.
    pub pid: &'t str,
    /// Thread.
    pub tid: &'t str,
}

/// How a kernel was launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Geometry {
    /// Workgroups in x, y, z. Launch APIs that count work-items are converted.
    pub grid: Option<[u32; 3]>,
    /// Work-items of a workgroup in x, y, z.
    pub block: Option<[u32; 3]>,
    /// Dynamic LDS (shared memory) in bytes, 0 when none or unknown.
    pub shared_bytes: u32,
}

/// What the profiler says a kernel record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DispatchKind {
    /// The trace does not say.
    #[default]
    Unknown,
    /// `Dispatch Kernel`: launched on its own.
    Kernel,
    /// `Dispatch Task`: roctracer's word for a kernel of a replayed graph.
    Task,
}

/// Identity of a kernel inside a graph, where the profiler records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphNode {
    /// The graph.
    pub graph: u64,
    /// The node in it; 0 when not recorded.
    pub node: u64,
}

/// One execution of a kernel.
#[derive(Clone, Debug)]
pub struct KernelEvent {
    /// Kernel name as the profiler wrote it.
    pub name: Name,
    /// Where it ran.
    pub track: TrackId,
    /// Start, ns.
    pub ts_ns: i64,
    /// Duration, ns, > 0. Durations that overran the next kernel of the stream are clipped (health `overlap_clipped`).
    pub dur_ns: u64,
    /// Joins it with its launch; all kernels of one graph launch share it.
    pub correlation: Option<NonZeroU64>,
    /// Joins it with the innermost operator.
    pub external_id: Option<NonZeroU64>,
    /// Its own geometry; graph replays on ROCm have none.
    pub geometry: Option<GeometryId>,
    /// What the profiler says it is.
    pub kind: DispatchKind,
    /// Index into the trace's graph nodes + 1; see [`Trace::graph_node`].
    pub(super) graph_node: Option<NonZeroU32>,
}

/// One copy or fill by the runtime.
#[derive(Clone, Debug)]
pub struct CopyEvent {
    /// Name: `Memcpy HtoD (Host -> Device)`, `Memset (Device)`.
    pub name: Name,
    /// True for a fill.
    pub is_memset: bool,
    /// Where it ran.
    pub track: TrackId,
    /// Start, ns.
    pub ts_ns: i64,
    /// Duration, ns, > 0.
    pub dur_ns: u64,
    /// Bytes; 0 when not recorded.
    pub bytes: u64,
    /// Joins it with its call.
    pub correlation: Option<NonZeroU64>,
    /// Joins it with the innermost operator.
    pub external_id: Option<NonZeroU64>,
}

/// One operator call on the CPU.
#[derive(Clone, Debug)]
pub struct OpEvent {
    /// Operator name.
    pub name: Name,
    /// Thread it ran on.
    pub thread: ThreadId,
    /// Start, ns.
    pub ts_ns: i64,
    /// Duration, ns; 0 when not recorded.
    pub dur_ns: u64,
    /// Its id, which kernels point at.
    pub external_id: Option<NonZeroU64>,
    /// Its arguments, when recorded.
    pub args: Option<ArgsId>,
}

/// What a launch API does, and in which unit it counts its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaunchKind {
    /// Launches one kernel.
    Kernel,
    /// Launches a graph: many kernels with one correlation.
    Graph,
    /// Copies or fills memory.
    Copy,
}

/// One call of the runtime or driver that puts work on a device.
#[derive(Clone, Debug)]
pub struct Launch {
    /// API: `hipLaunchKernel`, `hipGraphLaunch`, ...
    pub api: Name,
    /// What it does.
    pub kind: LaunchKind,
    /// Kernel name, when the profiler wrote it into the call; the empty name otherwise.
    pub kernel: Name,
    /// Thread that called.
    pub thread: ThreadId,
    /// Start, ns.
    pub ts_ns: i64,
    /// Duration, ns; 0 when not recorded.
    pub dur_ns: u64,
    /// Joins it with what it launched.
    pub correlation: Option<NonZeroU64>,
    /// The innermost operator around it.
    pub external_id: Option<NonZeroU64>,
    /// Geometry, when recorded; grids in workgroups.
    pub geometry: Option<GeometryId>,
    /// Called while its thread captured a graph: recorded into the graph, not run.
    pub captured: bool,
}

/// A named span: a step label, a `ProfilerStep#N`, a module tag, a compiled graph.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// The label as written.
    pub label: Name,
    /// Where it was recorded.
    pub place: Place,
    /// Start, ns.
    pub ts_ns: i64,
    /// Duration, ns; 0 when not recorded.
    pub dur_ns: u64,
    /// The id that its CPU and GPU forms share.
    pub external_id: Option<NonZeroU64>,
}

/// Where an annotation was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// On the CPU (`user_annotation`): the time of the calls.
    Thread(ThreadId),
    /// On a stream (`gpu_user_annotation`): the time of the kernels.
    Track(TrackId),
}

/// A stretch of a thread in which it captured a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureSpan {
    /// The thread.
    pub thread: ThreadId,
    /// Start of the call that began the capture, ns.
    pub begin_ns: i64,
    /// Start of the call that ended it, ns; `None` when the trace ends before.
    pub end_ns: Option<i64>,
}

/// Counts of what was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of JSON text.
    pub bytes: u64,
    /// Events in the text.
    pub events: u64,
    /// Events of categories that say nothing about kernels (python frames, flows, memory, ...).
    pub skipped: u64,
    /// Runtime and driver calls that launch nothing.
    pub other_calls: u64,
    /// Kernels dropped for a zero, negative, missing or absurd time.
    pub bad_kernels: u64,
    /// Other events dropped for the same reason.
    pub bad_others: u64,
}

/// A trace: what ran, what launched it, under which labels.
#[derive(Clone, Debug)]
pub struct Trace {
    /// File as given.
    pub path: String,
    /// What the trace says about itself.
    pub metadata: Metadata,
    /// Kernels by device, stream and start.
    pub kernels: Vec<KernelEvent>,
    /// Copies and fills in the order of the file.
    pub copies: Vec<CopyEvent>,
    /// Operators in the order of the file.
    pub ops: Vec<OpEvent>,
    /// Launches in order of time.
    pub launches: Vec<Launch>,
    /// CPU annotations in the order of the file.
    pub annotations: Vec<Annotation>,
    /// GPU annotations in the order of the file.
    pub gpu_annotations: Vec<Annotation>,
    /// Stretches of graph capture.
    pub captures: Vec<CaptureSpan>,
    /// What is wrong with the trace or worth knowing.
    pub health: Vec<Finding>,
    /// Counts of what was read.
    pub stats: Stats,
    pub(super) tables: Tables,
}

/// The texts of an operator's arguments, as numbers in [`Tables::texts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ArgTexts {
    pub(super) dims: u32,
    pub(super) types: u32,
    pub(super) strides: u32,
    pub(super) concrete: u32,
}

/// What records refer to by number.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) names: Interner,
    pub(super) texts: Interner,
    pub(super) args: Vec<ArgTexts>,
    pub(super) geometries: Vec<Geometry>,
    pub(super) tracks: Vec<Track>,
    pub(super) threads: Vec<[u32; 2]>,
    pub(super) graph_nodes: Vec<GraphNode>,
}

impl Trace {
    /// The text of a name.
    pub fn name(&self, name: Name) -> &str {
        self.tables.names.get(name.0)
    }

    /// Device and stream of a track.
    pub fn track(&self, track: TrackId) -> Track {
        self.tables.tracks.get(track.0 as usize).copied().unwrap_or(Track { device: 0, stream: 0 })
    }

    /// Process and thread.
    pub fn thread(&self, thread: ThreadId) -> Thread<'_> {
        let [pid, tid] = self.tables.threads.get(thread.0 as usize).copied().unwrap_or_default();
        Thread { pid: self.tables.names.get(pid), tid: self.tables.names.get(tid) }
    }

    /// A launch geometry.
    pub fn geometry(&self, geometry: GeometryId) -> Geometry {
        self.tables.geometries.get(geometry.0.get() as usize - 1).copied().unwrap_or_default()
    }

    /// Graph and node of a kernel, where the profiler recorded them.
    pub fn graph_node(&self, kernel: &KernelEvent) -> Option<GraphNode> {
        kernel.graph_node.and_then(|node| self.tables.graph_nodes.get(node.get() as usize - 1)).copied()
    }

    /// Time of all kernels, ns.
    pub fn kernel_ns(&self) -> u128 {
        self.kernels.iter().map(|kernel| u128::from(kernel.dur_ns)).sum()
    }

    /// True when one argument of the list is a tensor (or list of tensors) with at least one dimension.
    pub fn has_dims(&self, args: ArgsId) -> bool {
        // Outside of brackets and commas a list of dims holds nothing but numbers.
        self.arg_text(args, |texts| texts.dims).bytes().any(|byte| byte.is_ascii_digit())
    }

    fn arg_text(&self, args: ArgsId, which: fn(ArgTexts) -> u32) -> &str {
        let texts = self.tables.args.get(args.0.get() as usize - 1).copied().unwrap_or_default();
        self.tables.texts.get(which(texts))
    }

    /// An operator call with its arguments decoded. Lists of different lengths (damage) are filled up with absent
    /// values. `kernels` and `params` are left empty.
    pub fn op_call(&self, name: Name, args: Option<ArgsId>) -> OpCall {
        let args = args.map(|args| self.op_args(args)).unwrap_or_default();
        OpCall { name: self.name(name).to_owned(), args, ..OpCall::default() }
    }

    fn op_args(&self, args: ArgsId) -> Vec<OpArg> {
        let list = |which| match super::json::value(self.arg_text(args, which).as_bytes()) {
            Value::List(items) => items,
            _ => Vec::new(),
        };
        let mut dims = list(|texts| texts.dims).into_iter();
        let mut types = list(|texts| texts.types).into_iter();
        let mut strides = list(|texts| texts.strides).into_iter();
        let mut concrete = list(|texts| texts.concrete).into_iter();
        let longest = dims.len().max(types.len()).max(strides.len()).max(concrete.len());
        (0..longest)
            .map(|_| OpArg {
                dims: dims.next().map_or(ArgDims::None, arg_dims),
                dtype: types.next().map_or_else(String::new, plain_text),
                strides: strides.next().map_or_else(Vec::new, arg_strides),
                concrete: concrete.next().map_or_else(String::new, plain_text),
            })
            .collect()
    }
}

/// `[8944, 1024]` is a tensor, `[[16, 4], [16, 4]]` a list of tensors, everything else none.
fn arg_dims(value: Value) -> ArgDims {
    let Value::List(items) = value else { return ArgDims::None };
    if items.is_empty() {
        return ArgDims::None;
    }
    if let Some(dims) = items.iter().map(Value::as_size).collect() {
        return ArgDims::Tensor(dims);
    }
    let tensor = |item: &Value| item.as_list()?.iter().map(Value::as_size).collect::<Option<Vec<u64>>>();
    items.iter().map(tensor).collect::<Option<Vec<_>>>().map_or(ArgDims::None, ArgDims::List)
}

fn arg_strides(value: Value) -> Vec<i64> {
    let stride = |item: &Value| match item {
        Value::Int(stride) => i64::try_from(*stride).ok(),
        _ => None,
    };
    value.as_list().and_then(|items| items.iter().map(stride).collect()).unwrap_or_default()
}

fn plain_text(value: Value) -> String {
    match value {
        Value::Text(text) => text,
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::None | Value::List(_) | Value::Map(_) => String::new(),
    }
}
