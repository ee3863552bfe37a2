//! Shapes from operator calls: each distinct call is recovered once.

use crate::health::{Health, Issue};
use crate::inventory::Provenance;
use crate::kineto::{ArgsId, Name, OpEvent, OpLink, Trace};
use crate::ledger::Shape;
use crate::naming::{KernelId, Names};
use crate::tracelens::ops::{Found, find, is_carrier};
use kbench_workload::Family;
use std::collections::HashMap;

/// A shape that kernels were given. `family` is set when the shape is one of a family.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Given {
    pub(super) family: Option<Family>,
    pub(super) shape: Shape,
}

/// Number of a [`Given`] in a [`Shapes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ShapeId(u32);

/// The shapes of one inventory, each stored once by whoever adds it.
#[derive(Debug, Default)]
pub(super) struct Shapes(Vec<Given>);

impl Shapes {
    pub(super) fn add(&mut self, given: Given) -> ShapeId {
        self.0.push(given);
        ShapeId(u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX))
    }

    pub(super) fn get(&self, id: ShapeId) -> &Given {
        &self.0[id.0 as usize]
    }
}

/// An operator with its arguments.
pub(super) type Call = (Name, Option<ArgsId>);

/// The call of a kernel's or launch's operator, unless neither it nor any operator around it has dims.
pub(super) fn call_of(op: Option<(&OpEvent, OpLink)>) -> Option<Call> {
    op.filter(|(_, link)| *link != OpLink::WithoutDims).map(|(op, _)| (op.name, op.args))
}

/// What the calls of one trace say about the kernels that they launched.
#[derive(Default)]
pub(super) struct CallShapes {
    by_kernel: HashMap<(Call, KernelId), Option<ShapeId>>,
}

impl CallShapes {
    /// Recovers the shapes of `launched`: calls with a kernel that each launched, in any order, repeats allowed. A family's shape
    /// goes to the call's kernels of that family, a generic one to all of them.
    pub(super) fn new(
        trace: &Trace,
        launched: impl Iterator<Item = (Call, KernelId)>,
        provenance: Provenance,
        names: &mut Names,
        health: &mut Health,
        shapes: &mut Shapes,
    ) -> Self {
        let mut by_kernel: HashMap<(Call, KernelId), Option<ShapeId>> = HashMap::new();
        let mut kernels_of: HashMap<Call, Vec<KernelId>> = HashMap::new();
        for (call, kernel) in launched {
            by_kernel.entry((call, kernel)).or_insert_with(|| {
                kernels_of.entry(call).or_default().push(kernel);
                None
            });
        }
        for ((op, args), kernels) in &kernels_of {
            let mut call = trace.op_call(*op, *args);
            call.kernels = kernels.iter().map(|kernel| names.raw(*kernel).to_owned()).collect();
            let found = find(call).unwrap_or_else(|reason| {
                health.count(Issue::ShapeErrors, || format!("{}: {}: {reason}", trace.path, trace.name(*op)));
                Found::Nothing
            });
            let families: Vec<Family> =
                kernels.iter().map(|kernel| names.class(*kernel, Some(trace.name(*op))).0).collect();
            let (family, mut shape) = match &found {
                Found::Family(family, shape) => (Some(*family), shape.clone()),
                Found::Arguments(shape) => (None, shape.clone()),
                Found::Nothing => continue,
            };
            shape.provenance = provenance;
            let id = shapes.add(Given { family, shape });
            for (index, kernel) in kernels.iter().enumerate() {
                if is_carrier(&found, &families, index) {
                    by_kernel.insert(((*op, *args), *kernel), Some(id));
                }
            }
        }
        Self { by_kernel }
    }

    /// The shape of a kernel that a call launched.
    pub(super) fn of(&self, call: Call, kernel: KernelId) -> Option<ShapeId> {
        self.by_kernel.get(&(call, kernel)).copied().flatten()
    }
}
