//! Shapes of replayed kernels from the trace of the graph's capture.
//!
//! A replay runs the launches of its capture in order, so the kernels of each graph launch are lined up with them by name. That is sure when
//! every kernel finds its launch and none is left over; where records were lost, only kernels whose name has one shape in the whole graph
//! get it.

use super::align;
use super::capture_files::{Captured, Graph, Loaded, candidates, load};
use super::run::Run;
use super::shapes::{CallShapes, ShapeId, Shapes};
use crate::error::ReadError;
use crate::health::Health;
use crate::inventory::{Provenance, Severity};
use crate::labels::{CaptureSize, Step};
use crate::naming::{KernelId, Names};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::Path;

/// One graph launch: its kernels in order of time, as indices into the run's.
struct Replay {
    kernels: Vec<usize>,
    step: Option<super::steps::StepId>,
}

/// A replay's kernels lined up with a graph's launches.
struct Paired {
    /// For each kernel of the replay the launch.
    launches: Vec<Option<usize>>,
    is_sure: bool,
}

/// What was found, to be told.
#[derive(Default)]
struct Tally {
    replayed: u64,
    matched: u64,
    /// Kernels of a replay and of its capture, where they differ, with how many replays do.
    incomplete: BTreeMap<(usize, usize), u64>,
    without_graph: BTreeSet<String>,
}

/// Gives replayed kernels without a shape that of their captured launch.
pub(super) fn join(
    run: &mut Run<'_>,
    given: Option<&Path>,
    path: &Path,
    names: &mut Names,
    health: &mut Health,
    shapes: &mut Shapes,
) -> Result<(), ReadError> {
    let replays = replays(run);
    let files = candidates(given, path, run.trace.metadata.rank)?;
    if files.is_empty() || replays.is_empty() {
        if let Some(given) = given {
            let what =
                if files.is_empty() { "holds no capture trace" } else { "was not needed: no graph was replayed" };
            health.tell(Severity::Warning, "capture_files", format!("{} {what}", given.display()));
        }
        return Ok(());
    }
    let wanted: Vec<u64> = replays
        .values()
        .filter_map(|replay| replay.step.and_then(|step| batch(run.steps.get(step))))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let loaded = load(&files, &wanted, names, health)?;
    let graphs: Vec<(usize, &Graph)> = loaded
        .iter()
        .enumerate()
        .flat_map(|(file, loaded)| loaded.graphs.iter().map(move |graph| (file, graph)))
        .collect();
    let mut tally = Tally::default();
    let mut pairs: Vec<Vec<(usize, Captured)>> = loaded.iter().map(|_| Vec::new()).collect();
    let mut unsure: Vec<(usize, usize)> = Vec::new();
    let mut last = 0;
    for replay in replays.values() {
        tally.replayed += replay.kernels.len() as u64;
        let step = replay.step.map(|step| run.steps.get(step));
        let Some(fitting) = fitting(&graphs, step, &mut tally) else { continue };
        let Some((graph, paired)) = best(run, replay, &graphs, &fitting, last) else { continue };
        last = graph;
        let (file, found) = graphs[graph];
        if found.is_bounded && replay.kernels.len() != found.launches.len() {
            *tally.incomplete.entry((replay.kernels.len(), found.launches.len())).or_default() += 1;
        }
        for (kernel, launch) in replay.kernels.iter().zip(&paired.launches) {
            match launch {
                Some(launch) if paired.is_sure => pairs[file].push((*kernel, found.launches[*launch])),
                _ => unsure.push((*kernel, graph)),
            }
        }
    }
    for (file, pairs) in pairs.iter().enumerate() {
        let known = known_shapes(run, &loaded[file], pairs, names, health, shapes);
        for (kernel, captured) in pairs {
            let kernel = &mut run.kernels[*kernel];
            let shape = captured.call.and_then(|call| known.of(call, kernel.id));
            tally.matched += 1;
            kernel.shape = kernel.shape.or(shape);
            kernel.geometry = kernel.geometry.or(captured.geometry);
        }
        let unsure = unsure.iter().filter(|(_, graph)| graphs[*graph].0 == file);
        for (kernel, graph) in unsure {
            let kernel = &mut run.kernels[*kernel];
            if let Some(shape) = only_shape(graphs[*graph].1, kernel.id, &known, shapes) {
                tally.matched += 1;
                kernel.shape = kernel.shape.or(Some(shape));
            }
        }
    }
    tally.tell(&loaded, health);
    Ok(())
}

/// The graph launches that have a kernel without a shape, in order of their correlation.
fn replays(run: &Run<'_>) -> BTreeMap<NonZeroU64, Replay> {
    let mut found: BTreeMap<NonZeroU64, Replay> = BTreeMap::new();
    for (index, kernel) in run.kernels.iter().enumerate() {
        if let Some(correlation) = kernel.replay {
            let replay = found.entry(correlation).or_insert(Replay { kernels: Vec::new(), step: kernel.standing.step });
            replay.kernels.push(index);
        }
    }
    for replay in found.values_mut() {
        replay.kernels.sort_by_key(|index| run.kernels[*index].event.ts_ns);
    }
    found
}

/// Batch of the graph that a step ran in, or at least its own.
fn batch(step: &Step) -> Option<u64> {
    step.graph_batch.or(step.batch())
}

/// The graphs of the size that a step ran: as its label says, else the smallest that holds it. `None` when there is none, or no way to tell.
fn fitting(graphs: &[(usize, &Graph)], step: Option<&Step>, tally: &mut Tally) -> Option<Vec<usize>> {
    let sizes: BTreeSet<Option<(u64, bool)>> = graphs
        .iter()
        .map(|(_, graph)| graph.size.map(|(size, measure)| (size, measure == CaptureSize::Tokens)))
        .collect();
    if sizes.len() == 1 && (step.and_then(batch).is_none() || sizes.contains(&None)) {
        return Some((0..graphs.len()).collect());
    }
    let wanted = |measure: CaptureSize| {
        let step = step?;
        let tokens = || step.rows().map(|rows| rows.rows);
        match measure {
            CaptureSize::Batch => batch(step),
            CaptureSize::Tokens => tokens().or_else(|| batch(step)),
        }
    };
    let fits = |graph: &Graph| {
        let (size, measure) = graph.size?;
        let wanted = wanted(measure)?;
        let told = step.is_some_and(|step| step.graph_batch.is_some());
        (size == wanted || size > wanted && !told).then_some(size)
    };
    let Some(smallest) = graphs.iter().filter_map(|(_, graph)| fits(graph)).min() else {
        let what = match step.and_then(batch) {
            Some(batch) => format!("batch {batch}"),
            None => "a replay without a step label".to_owned(),
        };
        tally.without_graph.insert(what);
        return None;
    };
    let fitting = graphs.iter().enumerate().filter(|(_, (_, graph))| fits(graph) == Some(smallest));
    Some(fitting.map(|(index, _)| index).collect())
}

/// The graph that a replay is one of: the one with most kernels paired and fewest launches left over; of equal ones (the layers of a model
/// captured piece by piece) the next after the last replay's.
fn best(
    run: &Run<'_>,
    replay: &Replay,
    graphs: &[(usize, &Graph)],
    fitting: &[usize],
    last: usize,
) -> Option<(usize, Paired)> {
    let rank = |index: usize, paired: &Paired| {
        let matched = paired.launches.iter().flatten().count();
        let left = graphs[index].1.launches.len() - matched;
        (matched, std::cmp::Reverse(left), index > last, std::cmp::Reverse(index))
    };
    let found = fitting.iter().map(|index| (*index, pair(run, replay, graphs[*index].1)));
    found
        .max_by_key(|(index, paired)| rank(*index, paired))
        .filter(|(_, paired)| paired.launches.iter().any(Option::is_some))
}

fn pair(run: &Run<'_>, replay: &Replay, graph: &Graph) -> Paired {
    let launches: Option<Vec<KernelId>> = graph.launches.iter().map(|captured| captured.kernel).collect();
    let Some(launches) = launches else {
        // Launches without names pair by their place, which takes equal counts.
        let is_sure = graph.launches.len() == replay.kernels.len();
        let by_place = |place| is_sure.then_some(place);
        return Paired { launches: (0..replay.kernels.len()).map(by_place).collect(), is_sure };
    };
    let kernels: Vec<KernelId> = replay.kernels.iter().map(|index| run.kernels[*index].id).collect();
    let mut paired = align::in_order(&kernels, &launches);
    if paired.iter().any(Option::is_none) {
        paired = by_stream(run, replay, &launches).unwrap_or(paired);
    }
    let matched = paired.iter().flatten().count();
    let left = launches.len() - matched;
    // Kernels that the capture does not have can be told apart as long as it has no launch left that might be theirs.
    let is_sure = left == 0 || !graph.is_bounded && matched == kernels.len();
    Paired { launches: paired, is_sure }
}

/// Pairs each stream's kernels on their own, each with the launches that the streams before left; `None` for a single stream.
fn by_stream(run: &Run<'_>, replay: &Replay, launches: &[KernelId]) -> Option<Vec<Option<usize>>> {
    let mut streams: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (place, index) in replay.kernels.iter().enumerate() {
        streams.entry(run.kernels[*index].event.track).or_default().push(place);
    }
    if streams.len() < 2 {
        return None;
    }
    let mut streams: Vec<Vec<usize>> = streams.into_values().collect();
    streams.sort_by_key(|places| std::cmp::Reverse(places.len()));
    let mut free: Vec<usize> = (0..launches.len()).collect();
    let mut paired = vec![None; replay.kernels.len()];
    for places in streams {
        let kernels: Vec<KernelId> = places.iter().map(|place| run.kernels[replay.kernels[*place]].id).collect();
        let left: Vec<KernelId> = free.iter().map(|launch| launches[*launch]).collect();
        let found = align::in_order(&kernels, &left);
        for (place, launch) in places.iter().zip(&found) {
            paired[*place] = launch.map(|launch| free[launch]);
        }
        let taken: BTreeSet<usize> = found.into_iter().flatten().collect();
        free = free.into_iter().enumerate().filter(|(at, _)| !taken.contains(at)).map(|(_, launch)| launch).collect();
    }
    Some(paired)
}

/// Shapes of a file's calls, for the kernels that it names and those paired with it.
fn known_shapes(
    run: &Run<'_>,
    loaded: &Loaded,
    pairs: &[(usize, Captured)],
    names: &mut Names,
    health: &mut Health,
    shapes: &mut Shapes,
) -> CallShapes {
    let named = loaded.graphs.iter().flat_map(|graph| &graph.launches);
    let named = named.filter_map(|captured| Some((captured.call?, captured.kernel?)));
    let paired = pairs.iter().filter_map(|(kernel, captured)| Some((captured.call?, run.kernels[*kernel].id)));
    CallShapes::new(&loaded.trace, named.chain(paired), Provenance::Capture, names, health, shapes)
}

/// The shape that all launches of a kernel in a graph share.
fn only_shape(graph: &Graph, kernel: KernelId, known: &CallShapes, shapes: &Shapes) -> Option<ShapeId> {
    let mut of_kernel = graph.launches.iter().filter(|captured| captured.kernel == Some(kernel));
    let first = known.of(of_kernel.next()?.call?, kernel)?;
    let same = |captured: &Captured| {
        let shape = captured.call.and_then(|call| known.of(call, kernel));
        shape.is_some_and(|shape| shapes.get(shape) == shapes.get(first))
    };
    of_kernel.all(same).then_some(first)
}

impl Tally {
    fn tell(self, loaded: &[Loaded], health: &mut Health) {
        let files: Vec<&str> = loaded.iter().map(|loaded| loaded.trace.path.as_str()).collect();
        let files = match files.as_slice() {
            [] => "no file".to_owned(),
            [file] => (*file).to_owned(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        let text = format!(
            "{} of {} replayed kernels were matched with launches of the graph's capture ({files})",
            self.matched, self.replayed
        );
        let severity = if self.matched == self.replayed { Severity::Note } else { Severity::Warning };
        health.tell(severity, "capture_joined", text);
        for ((kernels, launches), replays) in &self.incomplete {
            let text = match kernels < launches {
                true => format!(
                    "incomplete graph replay: {kernels} of {launches} kernels were recorded ({replays} replays): the profiler lost the others. \
                     Weigh per step, not per trace; ROCm 7.2.2 and later lose none"
                ),
                false => format!(
                    "{replays} replays ran {kernels} kernels where the capture has {launches}: it is of another build or batch"
                ),
            };
            health.tell(Severity::Warning, "incomplete_graph_replay", text);
        }
        if !self.without_graph.is_empty() {
            let missing: Vec<&str> = self.without_graph.iter().map(String::as_str).collect();
            let graphs = loaded.iter().flat_map(|loaded| &loaded.graphs);
            let sizes: BTreeSet<u64> = graphs.filter_map(|graph| Some(graph.size?.0)).collect();
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            let text = format!("no captured graph fits {}; captured sizes: {}", missing.join(", "), sizes.join(", "));
            health.tell(Severity::Warning, "capture_size", text);
        }
    }
}
