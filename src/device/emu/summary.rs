//! What the launches of an emulated case say: a bound, counters, and how faithful the run was.

use kbench_code_object::{Kernel, LaunchShape};
use kbench_gfx_emu::bound::{CacheState, bound};
use kbench_gfx_emu::counters::{Counters, Fidelity, FidelityReport, Kind, Mix, Unit};
use kbench_gfx_emu::launch::{Launch, Outcome};
use kbench_gfx_emu::model::Model;
use serde::Serialize;
use std::collections::BTreeMap;

/// A launch that has run.
pub(crate) struct Run {
    pub(crate) request: Launch,
    pub(crate) outcome: Outcome,
    pub(crate) kernel: Option<Kernel>,
}

/// What an emulated case says.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Emulated {
    /// The bound of all launches, one after another; absent when a figure of the device is not public.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<EmulatedBound>,
    /// Why there is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_bound: Option<String>,
    /// Counters by rocprofiler's names, summed over the launches; percentages are left to the launches.
    pub counters: BTreeMap<String, EmulatedCounter>,
    /// Each launch.
    pub launches: Vec<EmulatedLaunch>,
}

/// A bound on time.
#[derive(Clone, Debug, Serialize)]
pub struct EmulatedBound {
    /// ns.
    pub ns: f64,
    /// The resource that sets it.
    pub limiter: String,
    /// Each resource alone, ns.
    pub by_resource: BTreeMap<String, f64>,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmulatedCounter {
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// `exact`, `model` or `derived`.
    pub kind: &'static str,
}

/// How much of a grid ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sampled {
    /// Workgroups that ran.
    pub ran: u64,
    /// Workgroups of the grid.
    pub workgroups: u64,
}

/// One launch.
#[derive(Clone, Debug, Serialize)]
pub struct EmulatedLaunch {
    /// Kernel.
    pub kernel: String,
    /// Workgroups.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// LDS of a workgroup, bytes, dynamic LDS included.
    pub lds_bytes: u32,
    /// VGPRs, AGPRs and SGPRs of a wave; scratch bytes of a work-item.
    pub resources: BTreeMap<&'static str, u32>,
    /// Waves on a SIMD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waves_per_simd: Option<f64>,
    /// Its own bound, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<f64>,
    /// What sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limiter: Option<String>,
    /// There when a sample of the workgroups ran: counters and bound are scaled from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Wave instructions executed.
    pub instructions: u64,
    /// Executed operations whose results may differ from hardware's bits, and how.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_exact: BTreeMap<String, &'static str>,
    /// Findings: what a kernel did that hardware lets pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

/// The name of a kind in documents.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Exact => "exact",
        Kind::Model => "model",
        Kind::Derived => "derived",
    }
}

/// Sums launches up.
pub(crate) fn summarise(model: &Model, runs: &[Run]) -> Emulated {
    let mut all = Emulated::default();
    let mut total = EmulatedBound { ns: 0.0, limiter: String::new(), by_resource: BTreeMap::new() };
    let mut longest = 0.0;
    for run in runs {
        let counters = Counters::of(&run.outcome, model);
        for counter in counters.list.iter().filter(|counter| counter.unit != Unit::Percent) {
            let entry = all.counters.entry(counter.name.to_owned()).or_insert_with(|| EmulatedCounter {
                value: 0.0,
                unit: counter.unit.to_string(),
                kind: kind_name(counter.kind),
            });
            entry.value += counter.value;
        }
        let bound = bound(&run.outcome, model, CacheState::Cold);
        match &bound {
            Ok(bound) => {
                total.ns += bound.ns;
                for (resource, ns) in &bound.by_resource {
                    *total.by_resource.entry(resource.name().to_owned()).or_default() += ns;
                }
                // The longest launch names the limiter.
                if bound.ns >= longest {
                    longest = bound.ns;
                    total.limiter = bound.limiter.name().to_owned();
                }
            }
            Err(error) => all.no_bound = Some(error.to_string()),
        }
        all.launches.push(one(model, run, bound.ok()));
    }
    all.bound = all.no_bound.is_none().then_some(total).filter(|_| !runs.is_empty());
    all
}

fn one(model: &Model, run: &Run, bound: Option<kbench_gfx_emu::bound::Bound>) -> EmulatedLaunch {
    let Run { request, outcome, kernel } = run;
    let kernel_of = kernel.as_ref();
    let number = |field: fn(&Kernel) -> u32| kernel_of.map_or(0, field);
    let resources = BTreeMap::from([
        ("vgprs", number(|kernel| kernel.vgprs)),
        ("agprs", number(|kernel| kernel.agprs)),
        ("sgprs", number(|kernel| kernel.sgprs)),
        ("scratch_bytes", number(|kernel| kernel.scratch_bytes)),
    ]);
    let shape = LaunchShape { block: request.work_items() as u32, dynamic_lds_bytes: request.dynamic_lds };
    let target = kbench_code_object::Target::parse(&format!("amdgcn-amd-amdhsa--{}", model.arch().name()));
    let occupancy = kernel_of.zip(target).and_then(|(kernel, target)| kernel.occupancy(&target, shape).ok());
    let fidelity = FidelityReport::of(&Mix::of(outcome), model.arch());
    let not_exact = fidelity.others.iter().filter_map(|row| match row.fidelity {
        Fidelity::Exact => None,
        Fidelity::Approximate(how) | Fidelity::Assumed(how) => Some((row.mnemonic.clone(), how)),
    });
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
    EmulatedLaunch {
        kernel: request.kernel.clone(),
        grid: request.grid,
        block: request.block,
        lds_bytes: number(|kernel| kernel.lds_bytes) + request.dynamic_lds,
        resources,
        waves_per_simd: occupancy.map(|occupancy| occupancy.waves_per_simd),
        limiter: bound.as_ref().map(|bound| bound.limiter.name().to_owned()),
        bound_ns: bound.map(|bound| bound.ns),
        sampled: outcome.sample.as_ref().map(|_| Sampled { ran: outcome.ran, workgroups: outcome.workgroups }),
        instructions: outcome.instructions(),
        not_exact: not_exact.collect(),
        findings,
    }
}
