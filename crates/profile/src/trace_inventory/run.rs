//! The kernels of one trace with what is known about each.

use super::shapes::{CallShapes, ShapeId, Shapes, call_of};
use super::steps::{ModuleId, Standing, StepId, Steps};
use crate::health::Health;
use crate::inventory::{Phase, Provenance};
use crate::kineto::{Geometry, KernelEvent, LaunchKind, Name, Trace};
use crate::naming::{KernelId, Names};
use std::num::NonZeroU64;

/// One execution of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunKernel<'t> {
    pub(super) event: &'t KernelEvent,
    pub(super) id: KernelId,
    /// Name of its operator.
    pub(super) op: Option<Name>,
    pub(super) standing: Standing,
    /// The graph launch that replayed it.
    pub(super) replay: Option<NonZeroU64>,
    pub(super) is_replayed: bool,
    pub(super) shape: Option<ShapeId>,
    /// How it was launched: as the trace says, or the capture of its graph.
    pub(super) geometry: Option<Geometry>,
    /// The module that it ran in, its layer left out.
    pub(super) module: Option<ModuleId>,
}

/// A trace, its passes and kernels.
pub(super) struct Run<'t> {
    pub(super) trace: &'t Trace,
    pub(super) steps: Steps,
    /// By device, stream and start.
    pub(super) kernels: Vec<RunKernel<'t>>,
}

impl<'t> Run<'t> {
    /// Joins the trace and gives kernels the shapes of their own operators.
    pub(super) fn new(trace: &'t Trace, names: &mut Names, health: &mut Health, shapes: &mut Shapes) -> Self {
        let joined = trace.joined();
        let mut steps = Steps::default();
        let mut kernels = Vec::with_capacity(trace.kernels.len());
        let mut calls = Vec::with_capacity(trace.kernels.len());
        for (event, kernel) in trace.kernels.iter().zip(joined.kernels()) {
            let launch = kernel.launch().filter(|launch| launch.kind == LaunchKind::Graph);
            kernels.push(RunKernel {
                event,
                id: names.intern(kernel.name()),
                op: kernel.op().map(|(op, _)| op.name),
                standing: steps.place(&joined, &kernel),
                replay: launch.and(event.correlation),
                is_replayed: kernel.is_replayed(),
                shape: None,
                geometry: kernel.geometry(),
                module: steps.module(&joined, &kernel),
            });
            calls.push(call_of(kernel.op()));
        }
        let launched = kernels.iter().zip(&calls).filter_map(|(kernel, call)| Some(((*call)?, kernel.id)));
        let known = CallShapes::new(trace, launched, Provenance::Exact, names, health, shapes);
        for (kernel, call) in kernels.iter_mut().zip(calls) {
            kernel.shape = call.and_then(|call| known.of(call, kernel.id));
        }
        Self { trace, steps, kernels }
    }

    /// Time of its kernels, ns.
    pub(super) fn kernel_ns(&self) -> u128 {
        self.kernels.iter().map(|kernel| u128::from(kernel.event.dur_ns)).sum()
    }

    pub(super) fn phase(&self, kernel: &RunKernel<'_>) -> Phase {
        kernel.standing.step.map_or(Phase::Unknown, |step| self.steps.get(step).phase)
    }

    /// Kernels of each pass in order of time, as indices; passes without kernels are empty.
    pub(super) fn by_step(&self) -> Vec<(StepId, Vec<usize>)> {
        let mut found: Vec<(StepId, Vec<usize>)> = self.steps.passes().map(|(id, _)| (id, Vec::new())).collect();
        for (index, kernel) in self.kernels.iter().enumerate() {
            if let Some(step) = kernel.standing.step
                && let Some((_, list)) = found.get_mut(step.index())
            {
                list.push(index);
            }
        }
        for (_, list) in &mut found {
            list.sort_by_key(|index| self.kernels[*index].event.ts_ns);
        }
        found
    }
}
