//! What a launch did: a bound, counters, and how faithful the run was. The list that `rocmEmuTakeReports` hands out.

use kbench_code_object::{Kernel, LaunchShape, Target};
use kbench_gfx_emu::bound::{Bound, BoundError};
use kbench_gfx_emu::counters::{Counters, Fidelity, FidelityReport, Mix, by_line};
use kbench_gfx_emu::launch::{Launch, Module, Outcome};
use kbench_gfx_emu::model::Model;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Reports that are kept; older ones make room.
const KEPT: usize = 4096;
/// Mnemonics and source lines of a report.
const TOP: usize = 64;

/// A launch that has ended. Nothing in it is a measured time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchReport {
    /// Kernel, as the code object names it.
    pub kernel: String,
    /// Device number.
    pub device: u32,
    /// Number of the dispatch in the process, from 1.
    pub dispatch: u64,
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y, z.
    pub block: [u32; 3],
    /// LDS that the launch added, bytes.
    pub dynamic_lds: u32,
    /// LDS of a workgroup, dynamic LDS included, bytes.
    pub lds_bytes: u32,
    /// Registers and scratch.
    pub resources: LaunchResources,
    /// Waves that a SIMD holds at a time, where occupancy is modelled.
    pub waves_per_simd: Option<f64>,
    /// Wave instructions executed; of a sampled launch, by its sample.
    pub instructions: u64,
    /// There when only a sample of the workgroups ran: counters and bound are scaled from it.
    pub sampled: Option<Sampled>,
    /// Executed operations whose results may differ from hardware's bits, and how.
    pub not_exact: BTreeMap<String, String>,
    /// What the kernel did that hardware lets pass, in words.
    pub findings: Vec<String>,
    /// Counters by rocprofiler's names.
    pub counters: BTreeMap<String, LaunchCounter>,
    /// The time below which the launch cannot be; absent when there is none.
    pub bound: Option<LaunchBound>,
    /// Why there is no bound.
    pub no_bound: Option<String>,
    /// When it started on the virtual clock, ns.
    pub start_ns: u64,
    /// When it ended on the virtual clock, ns.
    pub end_ns: u64,
    /// Wave instructions by mnemonic, most executed first: at most 64 of them.
    pub mix: Vec<(String, u64)>,
    /// Wave instructions by source line, most executed first, at most 64; empty without debug information.
    pub lines: Vec<LaunchLine>,
    /// Reports that were dropped for lack of room between the one before and this one.
    pub dropped_before: u64,
}

/// Registers of a wave and scratch of a work-item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchResources {
    /// Architectural VGPRs.
    pub vgprs: u32,
    /// AGPRs.
    pub agprs: u32,
    /// SGPRs.
    pub sgprs: u32,
    /// Scratch of a work-item, bytes.
    pub scratch_bytes: u32,
}

/// How much of a grid ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    /// Workgroups that ran.
    pub ran: u64,
    /// Workgroups of the grid.
    pub workgroups: u64,
}

/// A counter's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchCounter {
    /// The value.
    pub value: f64,
    /// Its unit: `count`, `cycles`, `quad-cycles`, `KiB`, `%` or `FLOP`.
    pub unit: String,
    /// How it came about: `exact`, `model` or `derived`.
    pub kind: String,
}

/// A bound on the launch's time, with cold caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchBound {
    /// ns.
    pub ns: f64,
    /// The resource that sets it.
    pub limiter: String,
    /// Each resource alone, ns.
    pub by_resource: BTreeMap<String, f64>,
}

/// What a source line executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchLine {
    /// Source file, as the compiler knew it; empty for code of no known line.
    pub file: String,
    /// Line, from 1; 0 for code of no known line.
    pub line: u32,
    /// Wave instructions.
    pub instructions: u64,
}

/// A launch that has run, for its report.
pub struct Ran<'a> {
    /// The device.
    pub model: &'a Model,
    /// The loaded code object.
    pub module: &'a Module,
    /// The kernel.
    pub kernel: &'a Kernel,
    /// What was asked for.
    pub launch: &'a Launch,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// Its bound, or why there is none.
    pub bound: &'a Result<Bound, BoundError>,
    /// Its counters.
    pub counters: &'a Counters,
}

impl LaunchReport {
    /// The report of a launch, without its place and times.
    pub fn of(ran: &Ran<'_>) -> Self {
        let Ran { model, module, kernel, launch, outcome, bound, counters } = *ran;
        let mix = Mix::of(outcome);
        let mut histogram = mix.histogram(model.arch());
        histogram.truncate(TOP);
        let shape = LaunchShape { block: launch.work_items() as u32, dynamic_lds_bytes: launch.dynamic_lds };
        let target = Target::parse(model.arch().name());
        let occupancy = target.and_then(|target| kernel.occupancy(&target, shape).ok());
        let mut findings = findings(outcome);
        let lines = by_line(module.object(), outcome).unwrap_or_else(|error| {
            findings.push(error.to_string());
            None
        });
        let lines = lines.into_iter().flatten().take(TOP).map(|count| LaunchLine {
            file: count.file,
            line: count.line,
            instructions: count.executions,
        });
        Self {
            kernel: kernel.name.clone(),
            grid: launch.grid,
            block: launch.block,
            dynamic_lds: launch.dynamic_lds,
            lds_bytes: kernel.lds_bytes.saturating_add(launch.dynamic_lds),
            resources: LaunchResources {
                vgprs: kernel.vgprs,
                agprs: kernel.agprs,
                sgprs: kernel.sgprs,
                scratch_bytes: kernel.scratch_bytes,
            },
            waves_per_simd: occupancy.map(|occupancy| occupancy.waves_per_simd),
            instructions: outcome.instructions(),
            sampled: outcome.sample.is_some().then_some(Sampled { ran: outcome.ran, workgroups: outcome.workgroups }),
            not_exact: not_exact(&mix, model),
            findings,
            counters: counters.list.iter().map(|counter| (counter.name.to_owned(), value(counter))).collect(),
            bound: bound.as_ref().ok().map(LaunchBound::of),
            no_bound: bound.as_ref().err().map(ToString::to_string),
            mix: histogram,
            lines: lines.collect(),
            ..Self::default()
        }
    }
}

impl LaunchBound {
    fn of(bound: &Bound) -> Self {
        Self {
            ns: bound.ns,
            limiter: bound.limiter.name().to_owned(),
            by_resource: bound.by_resource.iter().map(|(resource, ns)| (resource.name().to_owned(), *ns)).collect(),
        }
    }
}

fn value(counter: &kbench_gfx_emu::counters::Counter) -> LaunchCounter {
    LaunchCounter { value: counter.value, unit: counter.unit.to_string(), kind: counter.kind.name().to_owned() }
}

fn not_exact(mix: &Mix, model: &Model) -> BTreeMap<String, String> {
    let rows = FidelityReport::of(mix, model.arch()).others.into_iter();
    rows.filter_map(|row| match row.fidelity {
        Fidelity::Exact => None,
        Fidelity::Approximate(how) | Fidelity::Assumed(how) => Some((row.mnemonic, how.to_owned())),
    })
    .collect()
}

fn findings(outcome: &Outcome) -> Vec<String> {
    let mut findings = Vec::new();
    if outcome.left_barriers > 0 {
        findings.push(format!(
            "in {} workgroups waves ended while others waited at a barrier: hardware lets that pass",
            outcome.left_barriers
        ));
    }
    if outcome.reads_beyond > 0 {
        findings.push(format!("{} reads went past a buffer inside its last page", outcome.reads_beyond));
    }
    findings
}

/// The reports that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    list: VecDeque<LaunchReport>,
}

impl Reports {
    /// Adds one, and drops the oldest when there are too many.
    pub(crate) fn push(&mut self, report: LaunchReport) {
        if self.list.len() == KEPT
            && let Some(oldest) = self.list.pop_front()
            && let Some(next) = self.list.front_mut()
        {
            next.dropped_before += 1 + oldest.dropped_before;
        }
        self.list.push_back(report);
    }

    /// A JSON array of all.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(&self.list).unwrap_or_else(|_| "[]".to_owned())
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_room_is_counted() {
        let mut reports = Reports::default();
        for dispatch in 1..=KEPT as u64 + 3 {
            reports.push(LaunchReport { dispatch, ..LaunchReport::default() });
        }
        let list: Vec<LaunchReport> = serde_json::from_str(&reports.json()).unwrap();
        assert_eq!(list.len(), KEPT);
        assert_eq!((list[0].dispatch, list[0].dropped_before, list[1].dropped_before), (4, 3, 0));
        reports.clear();
        assert_eq!(reports.json(), "[]");
    }
}
