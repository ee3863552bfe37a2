//! Shapes of replayed kernels from an eager run of the same work.
//!
//! A pass of the eager run stands for those of the replay with the same phase, batch and tokens. In it, the nth call of a kernel is the nth
//! of the replay when both call it equally often; when they do not, the kernel must have had one shape in all of its calls.

use super::run::Run;
use super::shapes::{Given, ShapeId, Shapes};
use crate::error::ReadError;
use crate::health::Health;
use crate::inventory::{Phase, Provenance, Severity};
use crate::kineto;
use crate::labels::Step;
use crate::naming::{KernelId, Names};
use std::collections::HashMap;
use std::path::Path;

/// What must agree for a pass to stand for another: phase, rows that kernels ran, sequences.
type Work = (Phase, Option<u64>, Option<u64>);

fn work(step: &Step) -> Work {
    let rows = step.rows().map(|rows| rows.rows);
    (step.phase, rows, step.graph_batch.or(step.batch()))
}

/// Shapes of each kernel's calls in one pass, in order of time; `None` where a call has none.
type Calls = HashMap<KernelId, Vec<Option<ShapeId>>>;

/// Gives kernels without a shape that of the same call in the eager run.
pub(super) fn join(
    run: &mut Run<'_>,
    path: &Path,
    names: &mut Names,
    health: &mut Health,
    shapes: &mut Shapes,
) -> Result<(), ReadError> {
    let trace = kineto::read(path)?;
    trace.require_kernels()?;
    let twin = Run::new(&trace, names, health, shapes);
    let mut passes: HashMap<Work, Calls> = HashMap::new();
    for (step, kernels) in twin.by_step() {
        // The first pass of a kind stands for it.
        passes.entry(work(twin.steps.get(step))).or_insert_with(|| {
            let mut calls = Calls::new();
            for kernel in kernels.iter().map(|index| &twin.kernels[*index]) {
                calls.entry(kernel.id).or_default().push(kernel.shape);
            }
            calls
        });
    }
    let mut renamed: HashMap<ShapeId, ShapeId> = HashMap::new();
    let (mut open, mut matched, mut without) = (0_u64, 0_u64, 0_u64);
    for (step, kernels) in run.by_step() {
        let Some(calls) = passes.get(&work(run.steps.get(step))) else {
            without += 1;
            continue;
        };
        let mut ran: HashMap<KernelId, Vec<usize>> = HashMap::new();
        for index in kernels {
            ran.entry(run.kernels[index].id).or_default().push(index);
        }
        for (kernel, indices) in ran {
            let known = calls.get(&kernel).map_or(&[][..], Vec::as_slice);
            for (place, index) in indices.iter().enumerate() {
                if run.kernels[*index].shape.is_some() {
                    continue;
                }
                open += 1;
                let same_count = known.len() == indices.len();
                let shape = if same_count { known[place] } else { only_shape(known, shapes) };
                let Some(shape) = shape else { continue };
                matched += 1;
                run.kernels[*index].shape = Some(*renamed.entry(shape).or_insert_with(|| {
                    let Given { family, shape } = shapes.get(shape).clone();
                    let shape = crate::ledger::Shape { provenance: Provenance::Eager, ..shape };
                    shapes.add(Given { family, shape })
                }));
            }
        }
    }
    let text = format!(
        "{matched} of {open} kernels without a shape were found in the eager run ({}); {without} steps have no eager step of the same phase, \
         batch and tokens",
        path.display()
    );
    let severity = if matched == open && without == 0 { Severity::Note } else { Severity::Warning };
    health.tell(severity, "eager_joined", text);
    Ok(())
}

/// The shape that all calls have.
fn only_shape(known: &[Option<ShapeId>], shapes: &Shapes) -> Option<ShapeId> {
    let first = (*known.first()?)?;
    let same = |shape: &Option<ShapeId>| shape.is_some_and(|shape| shapes.get(shape) == shapes.get(first));
    known.iter().all(same).then_some(first)
}
