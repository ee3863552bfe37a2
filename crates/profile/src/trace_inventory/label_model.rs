//! Shapes of kernels from the step's label and the model's config.
//!
//! Label and config give what a forward pass calls, layer by layer, with sizes; the trace gives what ran. Family by family the two are
//! laid side by side in order. Where the counts agree, and what is taken for one role is one kernel throughout, each kernel gets the shape of
//! its place. Where they do not agree, or agree in two ways that differ, kernels stay without a shape.

use super::places::{self, Place};
use super::run::Run;
use super::shapes::{Given, ShapeId, Shapes};
use crate::error::ReadError;
use crate::health::Health;
use crate::inventory::{Phase, Provenance, Severity};
use crate::labels::{DENSE_SUMS_CAVEAT, Step};
use crate::ledger::Shape;
use crate::model::{Expected, Model, Serving, StepShapes};
use crate::naming::{KernelId, Names};
use crate::read::ReadOptions;
use kbench_workload::Family;
use std::collections::{BTreeMap, BTreeSet};

/// Gives kernels without a shape, or with nothing but the dims of an operator that no family knows, that of their place in the model.
pub(super) fn join(
    run: &mut Run<'_>,
    model: &Model,
    options: &ReadOptions,
    names: &mut Names,
    health: &mut Health,
    shapes: &mut Shapes,
) -> Result<(), ReadError> {
    let serving = Serving::new(options.tp, options.ep)?;
    if let Some(size) = run.trace.metadata.world_size.filter(|size| *size > 1 && options.tp == 1 && options.ep == 1) {
        let text = format!(
            "the trace is of one of {size} ranks, but the model was taken to run on one GPU: give tp and ep if it is split"
        );
        health.tell(Severity::Warning, "model_split", text);
    }
    let mut tally = Tally::default();
    for (step, kernels) in run.by_step() {
        let step = run.steps.get(step);
        let expected = model.step_shapes(step, &serving)?;
        let order = model.call_order(&expected.expected);
        let found = place_step(run, step, &kernels, &expected, &order, names, shapes, &mut tally);
        tally.notes.extend(expected.notes);
        for (kernel, index) in found {
            let expected = &expected.expected[index];
            if !expected.is_complete() {
                tally.incomplete.insert(format!("{} ({})", expected.role, expected.missing.join(", ")));
                continue;
            }
            let shape = tally.shape_of(expected, shapes);
            run.kernels[kernel].shape = Some(shape);
        }
    }
    tally.tell(run, health);
    Ok(())
}

/// Kernels of one pass without a shape, each with the index of what it is.
#[expect(clippy::too_many_arguments, reason = "all of them are one step's")]
fn place_step(
    run: &Run<'_>,
    step: &Step,
    kernels: &[usize],
    expected: &StepShapes,
    order: &[usize],
    names: &mut Names,
    shapes: &Shapes,
    tally: &mut Tally,
) -> Vec<(usize, usize)> {
    let expected = &expected.expected;
    let mut by_family: BTreeMap<Family, Vec<usize>> = BTreeMap::new();
    for index in kernels {
        let kernel = &run.kernels[*index];
        let given = kernel.shape.and_then(|shape| shapes.get(shape).family);
        let named = || names.class(kernel.id, kernel.op.map(|op| run.trace.name(op))).0;
        by_family.entry(given.unwrap_or_else(named)).or_default().push(*index);
    }
    // One kernel may serve prompts and decoding together: its shape is then neither of the two.
    let attention = [Family::Fmha, Family::PagedAttention, Family::Mla];
    let joins_phases = step.phase == Phase::Mixed
        && expected.iter().map(|one| one.family).filter(|one| attention.contains(one)).collect::<BTreeSet<_>>()
            != by_family.keys().copied().filter(|one| attention.contains(one)).collect();
    let mut found = Vec::new();
    for (family, kernels) in &by_family {
        let order: Vec<usize> = order.iter().copied().filter(|index| expected[*index].family == *family).collect();
        // The dims of an operator's arguments name no family's sizes: a shape of the family says more.
        let needs_shape = |kernel: &usize| {
            run.kernels[*kernel].shape.is_none_or(|shape| shapes.get(shape).family.is_none() && family.is_replayable())
        };
        let is_open = kernels.iter().any(needs_shape);
        if order.is_empty() || !is_open {
            continue;
        }
        let ran: Vec<_> = kernels.iter().map(|kernel| run.kernels[*kernel].id).collect();
        let place = match joins_phases && attention.contains(family) {
            true => Place::Unknown,
            false => {
                let finishes = |kernel: &KernelId| names.class(*kernel, None).1.contains("Reduce");
                let finishes: Vec<bool> = ran.iter().map(finishes).collect();
                places::find_finished(&ran, &finishes, &order, expected)
            }
        };
        // Attention of one shape in all layers needs no place.
        let is_one =
            attention.contains(family) && order.iter().all(|one| expected[*one].shape == expected[order[0]].shape);
        let place = match place {
            Place::Unknown if is_one && !joins_phases => Place::Known(vec![order[0]; kernels.len()]),
            place => place,
        };
        match place {
            Place::Known(indices) => {
                let open = kernels.iter().zip(indices).filter(|(kernel, _)| needs_shape(kernel));
                found.extend(open.map(|(kernel, index)| (*kernel, index)));
            }
            Place::Unknown => {
                tally.unplaced.entry(*family).or_insert((kernels.len(), order.len(), 0)).2 += 1;
            }
        }
    }
    found
}

/// What was found, to be told; and the shapes made so far.
#[derive(Default)]
struct Tally {
    made: Vec<(Expected, ShapeId)>,
    notes: BTreeSet<String>,
    incomplete: BTreeSet<String>,
    /// Kernels and expected calls of the first step, and how many steps.
    unplaced: BTreeMap<Family, (usize, usize, u64)>,
}

impl Tally {
    /// The shape of an expectation; equal ones of different steps share it.
    fn shape_of(&mut self, expected: &Expected, shapes: &mut Shapes) -> ShapeId {
        let same = |made: &Expected| {
            made.role == expected.role
                && made.shape == expected.shape
                && made.dtypes == expected.dtypes
                && made.assumed == expected.assumed
        };
        if let Some((_, id)) = self.made.iter().rev().find(|(made, _)| same(made)) {
            return *id;
        }
        let mut assumed = expected.assumed.clone();
        assumed.push(format!("taken for {} by its place in the step", expected.role));
        let shape = Shape {
            shape: expected.shape.clone(),
            dtypes: expected.dtypes.clone(),
            provenance: Provenance::LabelModel,
            assumed,
        };
        let id = shapes.add(Given { family: Some(expected.family), shape });
        self.made.push((expected.clone(), id));
        id
    }

    fn tell(self, run: &Run<'_>, health: &mut Health) {
        if run.steps.passes().next().is_none() {
            let text = "a model was given, but no kernel ran under a step label, so it gives no shapes".to_owned();
            health.tell(Severity::Warning, "model_without_labels", text);
        }
        // What dense sums leave open is told with the steps' attention work.
        for note in self.notes.into_iter().filter(|note| note != DENSE_SUMS_CAVEAT) {
            health.tell(Severity::Note, "label_model", note);
        }
        if !self.incomplete.is_empty() {
            let roles: Vec<String> = self.incomplete.into_iter().collect();
            let text =
                format!("neither label nor config gives all sizes of {}: they stay without a shape", roles.join(", "));
            health.tell(Severity::Warning, "label_model_incomplete", text);
        }
        for (family, (ran, calls, steps)) in self.unplaced {
            let text = format!(
                "{steps} steps do not fit the model in {family}: {ran} kernels ran for at most {calls} expected calls in the first; they stay \
                 without a shape"
            );
            health.tell(Severity::Warning, "label_model_unplaced", text);
        }
    }
}
