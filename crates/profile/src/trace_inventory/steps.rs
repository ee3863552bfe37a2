//! The forward passes of a trace, told from the labels around its kernels.

use crate::inventory::Phase;
use crate::kineto::{Annotation, Joined, JoinedKernel, Name, Place};
use crate::labels::{self, Module, Parsed, Step};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Number of a step in a [`Steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct StepId(u32);

impl StepId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a module path in a [`Steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ModuleId(u32);

/// What a kernel ran for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// The model, or something around it.
    Model,
    /// The drafter of speculative decoding.
    Draft,
    /// A pass over no real batch.
    Dummy,
}

/// Where a kernel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) step: Option<StepId>,
    pub(super) purpose: Purpose,
}

/// One forward pass.
#[derive(Debug)]
pub(super) struct Pass {
    /// Its labels; nested ones speak of one pass.
    labels: Vec<Name>,
    /// The one of them that says most.
    pub(super) told_by: Name,
    /// What its labels say together.
    pub(super) step: Step,
}

/// The passes of a trace.
#[derive(Default)]
pub(super) struct Steps {
    parsed: HashMap<Name, Parsed>,
    passes: Vec<Pass>,
    /// Passes by the id or start of their outermost label.
    by_label: HashMap<Key, StepId>,
    profiler_steps: HashSet<Name>,
    /// Labels that look like steps and follow no known form, with the reason.
    pub(super) unknown: BTreeMap<String, String>,
    around: Vec<(Name, Key)>,
    /// Module paths without the layer's number: `model.layers.*.mlp`.
    modules: Vec<String>,
    /// The module of each label that names one.
    by_module_label: HashMap<Name, Option<ModuleId>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Id(u64),
    Start(i64),
}

fn key(annotation: &Annotation) -> Key {
    annotation.external_id.map_or(Key::Start(annotation.ts_ns), |id| Key::Id(id.get()))
}

impl Steps {
    /// Passes in the order of their first kernel.
    pub(super) fn passes(&self) -> impl Iterator<Item = (StepId, &Pass)> {
        self.passes.iter().enumerate().map(|(index, pass)| (StepId(index as u32), pass))
    }

    pub(super) fn get(&self, id: StepId) -> &Step {
        &self.passes[id.0 as usize].step
    }

    pub(super) fn pass(&self, id: StepId) -> &Pass {
        &self.passes[id.0 as usize]
    }

    /// Steps of the trace: its passes, or the profiler's own steps when no label tells of passes.
    pub(super) fn count(&self) -> Option<u64> {
        let count = if self.passes.is_empty() { self.profiler_steps.len() } else { self.passes.len() };
        (count > 0).then_some(count as u64)
    }

    /// Finds the pass of a kernel. The labels around its launch decide; those on its stream only where there are none, since
    /// they are projections by time.
    pub(super) fn place(&mut self, joined: &Joined<'_>, kernel: &JoinedKernel<'_>) -> Standing {
        let mut around = std::mem::take(&mut self.around);
        let mut purpose = None;
        for on_cpu in [true, false] {
            around.clear();
            let annotations = kernel.annotations().filter(|label| matches!(label.place, Place::Thread(_)) == on_cpu);
            for annotation in annotations {
                let trace = joined.trace();
                let parsed =
                    self.parsed.entry(annotation.label).or_insert_with(|| labels::parse(trace.name(annotation.label)));
                match parsed {
                    Parsed::Step(_) => around.push((annotation.label, key(annotation))),
                    // The nearest label tells what the kernel is for.
                    Parsed::Draft(_) if around.is_empty() => purpose = purpose.or(Some(Purpose::Draft)),
                    Parsed::Dummy(_) if around.is_empty() => purpose = purpose.or(Some(Purpose::Dummy)),
                    Parsed::NotAStep { profiler_step: Some(_) } => {
                        self.profiler_steps.insert(annotation.label);
                    }
                    Parsed::Unknown { reason } => {
                        let label = trace.name(annotation.label);
                        if !self.unknown.contains_key(label) {
                            self.unknown.insert(label.to_owned(), reason.clone());
                        }
                    }
                    _ => {}
                }
            }
            if !around.is_empty() || purpose.is_some() {
                break;
            }
        }
        let step = if purpose == Some(Purpose::Dummy) { None } else { self.pass_of(&around) };
        self.around = around;
        Standing { step, purpose: purpose.unwrap_or(Purpose::Model) }
    }

    /// The innermost module around a kernel's launch that names a layer, so that calls of one kernel in different places of a layer can be told
    /// apart. Layers of a model are alike: their number is left out.
    pub(super) fn module(&mut self, joined: &Joined<'_>, kernel: &JoinedKernel<'_>) -> Option<ModuleId> {
        kernel.annotations().find_map(|annotation| match self.by_module_label.get(&annotation.label) {
            Some(known) => *known,
            None => {
                let found = module_path(joined.trace().name(annotation.label)).map(|path| self.module_id(path));
                self.by_module_label.insert(annotation.label, found);
                found
            }
        })
    }

    fn module_id(&mut self, path: String) -> ModuleId {
        let place = self.modules.iter().position(|known| *known == path).unwrap_or_else(|| {
            self.modules.push(path);
            self.modules.len() - 1
        });
        ModuleId(place as u32)
    }

    /// The path of a module.
    pub(super) fn module_name(&self, id: ModuleId) -> &str {
        self.modules.get(id.0 as usize).map_or("", String::as_str)
    }

    /// The pass of nested labels, innermost first: the outermost one names it.
    fn pass_of(&mut self, around: &[(Name, Key)]) -> Option<StepId> {
        let (_, outermost) = *around.last()?;
        let id = match self.by_label.get(&outermost) {
            Some(id) => *id,
            None => {
                let step = self.parsed_step(around.last()?.0)?.clone();
                let id = StepId(u32::try_from(self.passes.len()).ok()?);
                let label = around.last()?.0;
                self.passes.push(Pass { labels: vec![label], told_by: label, step });
                self.by_label.insert(outermost, id);
                id
            }
        };
        for (label, _) in around.iter().rev() {
            if self.passes[id.0 as usize].labels.contains(label) {
                continue;
            }
            let Some(inner) = self.parsed_step(*label).cloned() else { continue };
            let pass = &mut self.passes[id.0 as usize];
            pass.labels.push(*label);
            // Nested labels that disagree speak of different things: the outer one stands.
            if agree(&pass.step, &inner) && knowledge(&inner) > knowledge(&pass.step) {
                (pass.told_by, pass.step) = (*label, inner);
            }
        }
        Some(id)
    }

    fn parsed_step(&self, label: Name) -> Option<&Step> {
        match self.parsed.get(&label)? {
            Parsed::Step(step) => Some(step),
            _ => None,
        }
    }
}

/// `model.layers.3.mlp` as `model.layers.*.mlp`; nothing for what is no module of a layer.
fn module_path(label: &str) -> Option<String> {
    let Parsed::Module(Module::Path { path, layer: Some(layer) }) = labels::parse(label) else { return None };
    let number = layer.to_string();
    let mut fields: Vec<&str> = path.split('.').collect();
    let place = fields.iter().position(|field| *field == number)?;
    fields[place] = "*";
    Some(fields.join("."))
}

/// True when two labels may speak of one pass.
fn agree(a: &Step, b: &Step) -> bool {
    let phases = a.phase == b.phase || a.phase == Phase::Unknown || b.phase == Phase::Unknown;
    let same = |a: Option<u64>, b: Option<u64>| a.is_none() || b.is_none() || a == b;
    phases && same(a.batch(), b.batch()) && same(a.tokens(), b.tokens())
}

/// How much a label says, most important first.
fn knowledge(step: &Step) -> [bool; 5] {
    [
        step.phase != Phase::Unknown,
        step.graph_batch.is_some(),
        step.total.contexts.is_some(),
        step.total.sums.nkv.is_some(),
        step.tokens().is_some(),
    ]
}
