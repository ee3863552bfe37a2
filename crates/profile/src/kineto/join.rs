//! Who launched a kernel: its operator, its launch, the labels around it.

use super::intervals::{Intervals, Span};
use super::model::*;
use kbench_workload::OpCall;
use std::collections::HashMap;
use std::num::NonZeroU64;

/// Launches by correlation. Where a runtime call and the driver call below it share one, the one that knows more wins.
pub(super) struct LaunchIndex {
    /// Correlation and launch, sorted by correlation.
    by_correlation: Vec<(NonZeroU64, u32)>,
}

impl LaunchIndex {
    pub(super) fn new(launches: &[Launch]) -> Self {
        let mut by_correlation: Vec<(NonZeroU64, u32)> = launches
            .iter()
            .enumerate()
            .filter_map(|(index, launch)| Some((launch.correlation?, index as u32)))
            .collect();
        let knowledge = |index: u32| {
            let launch = &launches[index as usize];
            (launch.geometry.is_some(), launch.kernel != Name(0))
        };
        by_correlation
            .sort_unstable_by_key(|(correlation, index)| (*correlation, std::cmp::Reverse(knowledge(*index)), *index));
        by_correlation.dedup_by_key(|(correlation, _)| *correlation);
        Self { by_correlation }
    }

    pub(super) fn of(&self, correlation: NonZeroU64) -> Option<u32> {
        let at = self.by_correlation.binary_search_by_key(&correlation, |(known, _)| *known).ok()?;
        Some(self.by_correlation[at].1)
    }
}

/// How the operator of a kernel was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpLink {
    /// The innermost operator, with dims of its own.
    Own,
    /// An operator around the innermost one, the first that has dims.
    Enclosing,
    /// The innermost operator; neither it nor any around it has dims.
    WithoutDims,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// Index of the operator.
    op: Option<(u32, OpLink)>,
    launch: Option<u32>,
    replayed: bool,
}

/// A trace whose kernels know their operator, launch and labels.
pub struct Joined<'t> {
    trace: &'t Trace,
    links: Vec<Link>,
    labels: Labels,
}

/// One kernel of a [`Joined`] trace.
#[derive(Clone, Copy)]
pub struct JoinedKernel<'j> {
    /// The kernel.
    pub kernel: &'j KernelEvent,
    joined: &'j Joined<'j>,
    link: Link,
}

impl Trace {
    /// Joins kernels with operators (by External id, outwards by time where the innermost has no dims), launches (by
    /// correlation; in order under one External id where old traces have no correlation) and labels (by time on the
    /// kernel's stream and on the launching thread).
    ///
    /// A kernel of a replayed graph has no operator of its own: an External id that it may carry points at the replay.
    pub fn joined(&self) -> Joined<'_> {
        let index = LaunchIndex::new(&self.launches);
        let mut in_order = LaunchesInOrder::new(self);
        let mut ops = Ops::new(self);
        let links = self.kernels.iter().map(|kernel| {
            let launch = match kernel.correlation {
                Some(correlation) => index.of(correlation),
                None => in_order.next_for(kernel),
            };
            let call = launch.map(|launch| &self.launches[launch as usize]);
            let replayed = call.is_some_and(|call| call.kind == LaunchKind::Graph)
                || kernel.kind == DispatchKind::Task
                || kernel.graph_node.is_some();
            let op = if replayed { None } else { ops.of(kernel.external_id, call) };
            Link { op, launch, replayed }
        });
        let links = links.collect();
        Joined { trace: self, links, labels: Labels::new(self) }
    }

    /// The operator of each launch, whether it ran or was captured into a graph: by External id, outwards by time where
    /// the innermost has no dims, as for kernels in [`joined`](Self::joined).
    pub fn launch_ops(&self) -> Vec<Option<(&OpEvent, OpLink)>> {
        let mut ops = Ops::new(self);
        let found = |launch: &Launch| ops.of(None, Some(launch)).map(|(op, link)| (&self.ops[op as usize], link));
        self.launches.iter().map(found).collect()
    }
}

impl<'t> Joined<'t> {
    /// The trace.
    pub fn trace(&self) -> &'t Trace {
        self.trace
    }

    /// All kernels by device, stream and start.
    pub fn kernels(&self) -> impl ExactSizeIterator<Item = JoinedKernel<'_>> {
        self.trace.kernels.iter().zip(&self.links).map(|(kernel, link)| JoinedKernel {
            kernel,
            joined: self,
            link: *link,
        })
    }
}

impl<'j> JoinedKernel<'j> {
    /// Kernel name as the profiler wrote it.
    pub fn name(&self) -> &'j str {
        self.joined.trace.name(self.kernel.name)
    }

    /// Its operator and how it was found.
    pub fn op(&self) -> Option<(&'j OpEvent, OpLink)> {
        self.link.op.map(|(op, link)| (&self.joined.trace.ops[op as usize], link))
    }

    /// Its operator call, decoded, with the kernel's name in `kernels`. Decoding is repeated on every call: group by
    /// name and [`OpEvent::args`] first.
    pub fn op_call(&self) -> Option<OpCall> {
        let (op, _) = self.op()?;
        let mut call = self.joined.trace.op_call(op.name, op.args);
        call.kernels.push(self.name().to_owned());
        Some(call)
    }

    /// The call that launched it, when the trace holds it.
    pub fn launch(&self) -> Option<&'j Launch> {
        self.link.launch.map(|launch| &self.joined.trace.launches[launch as usize])
    }

    /// True for a kernel of a replayed graph.
    pub fn is_replayed(&self) -> bool {
        self.link.replayed
    }

    /// Its geometry, its own or that of its launch.
    pub fn geometry(&self) -> Option<Geometry> {
        let launched =
            || self.launch().filter(|launch| launch.kind == LaunchKind::Kernel).and_then(|launch| launch.geometry);
        self.kernel.geometry.or_else(launched).map(|geometry| self.joined.trace.geometry(geometry))
    }

    /// The label nearest to it: see [`annotations`](Self::annotations).
    pub fn annotation(&self) -> Option<&'j Annotation> {
        self.annotations().next()
    }

    /// The labels around it: those on its stream first, then those around its launch, each innermost first.
    pub fn annotations(&self) -> impl Iterator<Item = &'j Annotation> {
        let trace = self.joined.trace;
        let on_gpu = self.joined.labels.on_gpu.containing(self.kernel.track.0, self.kernel.ts_ns);
        let on_gpu = on_gpu.map(|index| &trace.gpu_annotations[index as usize]);
        let on_cpu = self.launch().into_iter().flat_map(|launch| self.joined.labels.around(trace, launch));
        on_gpu.chain(on_cpu.map(|index| &trace.annotations[index as usize]))
    }
}

/// Labels by stream, thread and process.
struct Labels {
    on_gpu: Intervals,
    on_thread: Intervals,
    in_process: Intervals,
}

impl Labels {
    fn new(trace: &Trace) -> Self {
        let span = |annotation: &Annotation, group| {
            let end = annotation.ts_ns.saturating_add_unsigned(annotation.dur_ns);
            Span { group, start: annotation.ts_ns, end }
        };
        let place = |annotation: &Annotation| match annotation.place {
            Place::Thread(thread) => thread.0,
            Place::Track(track) => track.0,
        };
        let by_place = |list: &[Annotation]| Intervals::new(list.iter().map(|label| span(label, place(label))));
        let in_process = trace.annotations.iter().map(|label| span(label, process(trace, ThreadId(place(label)))));
        Self {
            on_gpu: by_place(&trace.gpu_annotations),
            on_thread: by_place(&trace.annotations),
            in_process: Intervals::new(in_process),
        }
    }

    /// Labels around a launch on its thread; where there is none (a backward or worker thread launched), those of its
    /// process.
    fn around<'l>(&'l self, trace: &Trace, launch: &Launch) -> impl Iterator<Item = u32> + use<'l> {
        let own = self.on_thread.innermost(launch.thread.0, launch.ts_ns).is_some();
        let (intervals, group) = match own {
            true => (&self.on_thread, launch.thread.0),
            false => (&self.in_process, process(trace, launch.thread)),
        };
        intervals.containing(group, launch.ts_ns)
    }
}

/// The process of a thread, as the number of its name.
fn process(trace: &Trace, thread: ThreadId) -> u32 {
    trace.tables.threads.get(thread.0 as usize).map_or(0, |[pid, _]| *pid)
}

/// Operators by External id and by time.
struct Ops<'t> {
    trace: &'t Trace,
    by_external_id: HashMap<NonZeroU64, u32>,
    /// Made when the first kernel needs it: traces in which innermost operators have dims do without.
    by_thread: Option<Intervals>,
    /// What was found for an operator: many kernels share one.
    with_dims: HashMap<u32, (u32, OpLink)>,
}

impl<'t> Ops<'t> {
    fn new(trace: &'t Trace) -> Self {
        // Only operators that a kernel or a launch points at are looked up.
        let mut by_external_id: HashMap<NonZeroU64, u32> = HashMap::new();
        let wanted = trace.kernels.iter().map(|kernel| kernel.external_id);
        for id in wanted.chain(trace.launches.iter().map(|launch| launch.external_id)).flatten() {
            by_external_id.insert(id, u32::MAX);
        }
        for (index, op) in trace.ops.iter().enumerate() {
            let Some(id) = op.external_id else { continue };
            if let Some(found) = by_external_id.get_mut(&id).filter(|found| **found == u32::MAX) {
                *found = index as u32;
            }
        }
        by_external_id.retain(|_, index| *index != u32::MAX);
        Self { trace, by_external_id, by_thread: None, with_dims: HashMap::new() }
    }

    fn of(&mut self, external_id: Option<NonZeroU64>, launch: Option<&Launch>) -> Option<(u32, OpLink)> {
        let named = |id: Option<NonZeroU64>| id.and_then(|id| self.by_external_id.get(&id).copied());
        let innermost = named(external_id).or_else(|| named(launch?.external_id)).or_else(|| self.around(launch?))?;
        Some(self.with_dims(innermost))
    }

    /// The innermost operator around a launch, by time.
    fn around(&mut self, launch: &Launch) -> Option<u32> {
        self.by_thread().innermost(launch.thread.0, launch.ts_ns)
    }

    fn with_dims(&mut self, innermost: u32) -> (u32, OpLink) {
        if let Some(known) = self.with_dims.get(&innermost) {
            return *known;
        }
        let trace = self.trace;
        let has_dims = |op: u32| trace.ops[op as usize].args.is_some_and(|args| trace.has_dims(args));
        let found = if has_dims(innermost) {
            (innermost, OpLink::Own)
        } else {
            match self.by_thread().enclosing(innermost).find(|op| has_dims(*op)) {
                Some(outer) => (outer, OpLink::Enclosing),
                None => (innermost, OpLink::WithoutDims),
            }
        };
        self.with_dims.insert(innermost, found);
        found
    }

    fn by_thread(&mut self) -> &Intervals {
        let trace = self.trace;
        self.by_thread.get_or_insert_with(|| {
            Intervals::new(trace.ops.iter().map(|op| Span {
                group: op.thread.0,
                start: op.ts_ns,
                end: op.ts_ns.saturating_add_unsigned(op.dur_ns),
            }))
        })
    }
}

/// Launches of traces without correlations (old libkineto): under one External id, kernels and launches come in the
/// same order.
struct LaunchesInOrder<'t> {
    trace: &'t Trace,
    by_external_id: HashMap<NonZeroU64, std::collections::VecDeque<u32>>,
}

impl<'t> LaunchesInOrder<'t> {
    fn new(trace: &'t Trace) -> Self {
        let mut by_external_id: HashMap<NonZeroU64, std::collections::VecDeque<u32>> = HashMap::new();
        if trace.kernels.iter().any(|kernel| kernel.correlation.is_none()) {
            for (index, launch) in trace.launches.iter().enumerate() {
                if let (Some(id), None, LaunchKind::Kernel) = (launch.external_id, launch.correlation, launch.kind) {
                    by_external_id.entry(id).or_default().push_back(index as u32);
                }
            }
        }
        Self { trace, by_external_id }
    }

    /// The next launch of the kernel's External id, if it does not name another kernel.
    fn next_for(&mut self, kernel: &KernelEvent) -> Option<u32> {
        let waiting = self.by_external_id.get_mut(&kernel.external_id?)?;
        let next = *waiting.front()?;
        let named = self.trace.launches[next as usize].kernel;
        if named != Name(0) && named != kernel.name {
            return None;
        }
        waiting.pop_front()
    }
}
