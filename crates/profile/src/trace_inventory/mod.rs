//! A PyTorch (kineto) trace as an inventory.
//!
//! A kernel's shape comes from the first of these that has one: the arguments of its own operator (exact), the launches of the graph's
//! capture trace (capture), an eager run of the same work (eager), the step's label with the model's config (label+model), parameters in its name
//! with label and launch geometry (name). What none of them tells stays without a shape. Names and geometries are also held against the shapes
//! that came from elsewhere.

mod align;
mod by_name;
mod capture;
mod capture_files;
mod consistency;
mod eager;
mod label_model;
mod places;
mod ranks;
mod run;
mod shapes;
mod steps;
mod summary;

use crate::error::ReadError;
use crate::health::Health;
use crate::inventory::{Phase, Severity};
use crate::kineto::{self, Trace};
use crate::ledger::{Launches, Ledger};
use crate::model::Model;
use crate::naming::KernelId;
use crate::read::ReadOptions;
pub(crate) use ranks::RankTraces;
use run::Run;
use shapes::{ShapeId, Shapes};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use steps::{ModuleId, Purpose};
pub(crate) use summary::tell_attention;

/// Most unknown labels that are named in a finding.
const MAX_LABELS: usize = 5;

/// Reads the traces of one run: the first rank's into the ledger, the others' to compare.
pub(crate) fn read_ranks(ranks: &RankTraces, options: &ReadOptions, ledger: &mut Ledger) -> Result<(), ReadError> {
    let (kernels, ns) = read(&ranks.first, options, ledger)?;
    ranks.compare(kernels, ns, &mut ledger.health);
    Ok(())
}

/// Reads the trace of one rank into the ledger; returns its kernels and their time in ns.
pub(crate) fn read(path: &Path, options: &ReadOptions, ledger: &mut Ledger) -> Result<(u64, u128), ReadError> {
    let trace = kineto::read(path)?;
    trace.require_kernels()?;
    for finding in &trace.health {
        ledger.health.tell(finding.severity, &finding.code, finding.message.clone());
    }
    let mut shapes = Shapes::default();
    let model = options.model.as_deref().map(Model::read).transpose()?;
    let mut run = Run::new(&trace, &mut ledger.names, &mut ledger.health, &mut shapes);
    summary::select_steps(&mut run, options.steps, model.as_ref(), ledger);
    let capture = options.capture.as_deref();
    capture::join(&mut run, capture, path, &mut ledger.names, &mut ledger.health, &mut shapes)?;
    if let Some(eager) = &options.eager {
        eager::join(&mut run, eager, &mut ledger.names, &mut ledger.health, &mut shapes)?;
    }
    if let Some(model) = &model {
        label_model::join(&mut run, model, options, &mut ledger.names, &mut ledger.health, &mut shapes)?;
    }
    by_name::join(&mut run, &mut ledger.names, &mut shapes);
    consistency::check(&run, &mut ledger.names, &shapes, &mut ledger.health);
    tell_labels(&run, &mut ledger.health);
    tell_shapeless_replays(&run, &mut ledger.health);
    add_kernels(&run, &shapes, ledger);
    if options.steps.is_none() {
        add_copies(&trace, ledger);
    }
    describe(&run, ledger);
    Ok((trace.kernels.len() as u64, trace.kernel_ns()))
}

/// What rows tell apart, as far as a trace knows it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Group<'t> {
    kernel: KernelId,
    op: Option<&'t str>,
    phase: Phase,
    is_draft: bool,
    module: Option<ModuleId>,
    shape: Option<ShapeId>,
}

/// Adds kernels to the ledger, those of dummy passes excepted: they are told of, not counted.
fn add_kernels(run: &Run<'_>, shapes: &Shapes, ledger: &mut Ledger) {
    let mut groups: BTreeMap<Group<'_>, (u64, u64)> = BTreeMap::new();
    let (mut dummies, mut dummy_ns) = (0_u64, 0_u128);
    for kernel in &run.kernels {
        if kernel.standing.purpose == Purpose::Dummy {
            (dummies, dummy_ns) = (dummies + 1, dummy_ns + u128::from(kernel.event.dur_ns));
            continue;
        }
        let group = Group {
            kernel: kernel.id,
            op: kernel.op.map(|op| run.trace.name(op)),
            phase: run.phase(kernel),
            is_draft: kernel.standing.purpose == Purpose::Draft,
            module: kernel.module,
            shape: kernel.shape,
        };
        let (calls, ns) = groups.entry(group).or_default();
        (*calls, *ns) = (*calls + 1, ns.saturating_add(kernel.event.dur_ns));
    }
    for (group, (calls, total_ns)) in groups {
        let given = group.shape.map(|shape| shapes.get(shape));
        ledger.add(&Launches {
            kernel: group.kernel,
            op: group.op,
            family: given.and_then(|given| given.family),
            phase: group.phase,
            position: match group.is_draft {
                true => Some("draft"),
                false => group.module.map(|module| run.steps.module_name(module)),
            },
            calls,
            total_ns,
            shape: given.map(|given| &given.shape),
            file: &run.trace.path,
            line: 0,
        });
    }
    if dummies > 0 {
        let text = format!(
            "{dummies} kernels ({:.3} ms) ran in passes over no real batch (warm-up, idle ranks) and were left out",
            dummy_ns as f64 / 1e6
        );
        ledger.health.tell(Severity::Note, "dummy_steps", text);
    }
}

/// Adds the runtime's copies and fills, which are no kernel time.
fn add_copies(trace: &Trace, ledger: &mut Ledger) {
    let mut groups: HashMap<kineto::Name, (u64, u64)> = HashMap::new();
    for copy in &trace.copies {
        let (calls, ns) = groups.entry(copy.name).or_default();
        (*calls, *ns) = (*calls + 1, ns.saturating_add(copy.dur_ns));
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(name, _)| *name);
    for (name, (calls, total_ns)) in groups {
        let kernel = ledger.names.intern(trace.name(name));
        ledger.add(&Launches::of_name(kernel, calls, total_ns, &trace.path));
    }
}

/// Reports what labels do not say: unknown ones, wrong ones, kernels outside of them.
fn tell_labels(run: &Run<'_>, health: &mut Health) {
    if !run.steps.unknown.is_empty() {
        let shown = run.steps.unknown.iter().take(MAX_LABELS);
        let shown: Vec<String> = shown.map(|(label, reason)| format!("`{}` ({reason})", shortened(label))).collect();
        let text = format!(
            "{} labels look like steps but follow no known form, so their kernels have no phase: {}",
            run.steps.unknown.len(),
            shown.join(", ")
        );
        health.tell(Severity::Warning, "unknown_labels", text);
    }
    let problems = run.steps.passes().flat_map(|(_, pass)| &pass.step.problems).collect::<Vec<_>>();
    if let Some(first) = problems.first() {
        let text = format!(
            "step labels have {} values that cannot be right and were not used; the first: {}: {}",
            problems.len(),
            first.field,
            first.message
        );
        health.tell(Severity::Warning, "label_problems", text);
    }
    let outside =
        |kernel: &&run::RunKernel<'_>| kernel.standing.step.is_none() && kernel.standing.purpose == Purpose::Model;
    let count = run.kernels.iter().filter(outside).count();
    if count > 0 && run.steps.passes().next().is_some() {
        let ns = run.kernels.iter().filter(outside).map(|kernel| kernel.event.dur_ns as f64).sum::<f64>();
        let share = 100.0 * ns / run.kernel_ns().max(1) as f64;
        let text = format!(
            "{count} kernels ({share:.1} % of kernel time) ran outside of all labelled steps: no phase is known"
        );
        health.tell(Severity::Note, "outside_steps", text);
    }
}

fn shortened(label: &str) -> String {
    match label.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &label[..end]),
        None => label.to_owned(),
    }
}

/// Says what would give shapes to replayed kernels that have none.
fn tell_shapeless_replays(run: &Run<'_>, health: &mut Health) {
    let shapeless = run.kernels.iter().filter(|kernel| kernel.is_replayed && kernel.shape.is_none());
    let ns: u128 = shapeless.map(|kernel| u128::from(kernel.event.dur_ns)).sum();
    let share = 100.0 * ns as f64 / run.kernel_ns().max(1) as f64;
    if share >= 0.05 {
        let text = format!(
            "{share:.1} % of kernel time was replayed by graphs, which record no arguments, and has no shape: give the trace of the graph's \
             capture, an eager run of the same batch, or the model's config.json"
        );
        health.tell(Severity::Warning, "graph_replay", text);
    }
}

/// Fills in the source: steps and what the trace says about the machine.
fn describe(run: &Run<'_>, ledger: &mut Ledger) {
    let source = &mut ledger.source;
    if let Some(steps) = run.steps.count() {
        source.steps = Some(source.steps.unwrap_or(0).saturating_add(steps));
    }
    let metadata = &run.trace.metadata;
    let used = run.trace.kernels.first().map(|kernel| run.trace.track(kernel.track).device);
    let device = metadata.devices.iter().find(|device| Some(device.id) == used).map(|device| device.name.clone());
    let hints = [
        ("profiler", Some(metadata.profiler.name().to_owned())),
        ("device", device.filter(|name| !name.is_empty())),
        ("hip", metadata.hip_version()),
        ("rank", metadata.rank.map(|rank| rank.to_string())),
        ("world_size", metadata.world_size.map(|size| size.to_string())),
    ];
    for (key, value) in hints {
        if let Some(value) = value {
            source.hints.insert(key.to_owned(), value);
        }
    }
}
