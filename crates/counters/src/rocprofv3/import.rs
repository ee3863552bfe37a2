//! Runs of rocprofv3 as readings for metrics.

use super::{Agent, AgentKind, Dispatch, Run};
use crate::arch::Geometry;
use crate::collect::median;
use crate::metric::{Kind, Measured, PassReadings, Reading};
use std::collections::{BTreeMap, BTreeSet};

/// Launches of a kernel with one grid and workgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedCase {
    /// The kernel's name.
    pub kernel: String,
    /// Work-items of the grid.
    pub grid: [u64; 3],
    /// Work-items a workgroup.
    pub workgroup: [u32; 3],
    /// Its launches.
    pub calls: u64,
    /// What was counted; `duration_ns` is the median of all launches, and absent on an emulated agent.
    pub measured: Measured,
    /// On an emulated agent the median of the modelled durations: a bound on time, and no time.
    pub bound_ns: Option<f64>,
}

/// What makes launches one case: kernel, grid, workgroup.
type Key<'r> = (&'r str, [u64; 3], [u32; 3]);

/// Columns that are the same wherever a device is of one model and partitioned alike: what formulas and bounds take from an agent, and what
/// its model is told by. Others (a bus address, the number of a render node, firmware) differ from one machine to the next.
const FACTS: [&str; 9] = [
    "Cu_Count",
    "Simd_Per_Cu",
    "Num_Xcc",
    "Wave_Front_Size",
    "Max_Waves_Per_Simd",
    "Max_Waves_Per_Cu",
    "Gfx_Target_Version",
    "Device_Id",
    "Max_Engine_Clk_Fcompute",
];

impl Agent {
    /// In words, the first fact in which another agent is of another device than this one; what one of them does not tell is no
    /// difference. Two processors are not told apart: nothing is counted on them.
    pub fn difference(&self, other: &Agent) -> Option<String> {
        if self.kind != other.kind {
            return Some(format!("a {} and a {}", self.kind.name(), other.kind.name()));
        }
        if self.kind == AgentKind::Cpu {
            return None;
        }
        let texts = [
            ("architecture", &self.name, &other.name),
            ("product", &self.product, &other.product),
            ("model", &self.model, &other.model),
        ];
        let differs = |(_, one, other): &(&str, &String, &String)| !one.is_empty() && !other.is_empty() && one != other;
        let number = |agent: &Agent, column: &str| agent.numbers.get(column).copied().filter(|number| *number > 0);
        let text = texts.into_iter().find(differs).map(|(what, one, other)| format!("{what} {one} and {other}"));
        text.or_else(|| {
            FACTS.iter().find_map(|column| {
                let (one, other) = (number(self, column)?, number(other, column)?);
                (one != other).then(|| format!("{column} {one} and {other}"))
            })
        })
    }

    /// Sizes that formulas need, where the agent's columns have them.
    pub fn geometry(&self) -> Option<Geometry> {
        let number = |column: &str| {
            self.numbers.get(column).and_then(|number| u32::try_from(*number).ok()).filter(|number| *number > 0)
        };
        let simds_per_cu = number("Simd_Per_Cu")?;
        let waves =
            number("Max_Waves_Per_Cu").or_else(|| Some(number("Max_Waves_Per_Simd")?.saturating_mul(simds_per_cu)))?;
        (self.kind == AgentKind::Gpu).then_some(Geometry {
            cus: number("Cu_Count")?,
            simds_per_cu,
            xccs: number("Num_Xcc").unwrap_or(1),
            wave_size: number("Wave_Front_Size")?,
            max_waves_per_cu: waves,
        })
    }
}

/// Cases of the launches on one agent: medians by kernel, grid and workgroup.
///
/// Launches with the same set of counters are one pass. The files hold sums over all instances: for `GRBM_*`, which count time, the largest XCC is
/// not in them and the mean of the XCCs stands for it. Launches whose guards are 0 are left out of a pass that has others; a pass of nothing else
/// is marked. Of an emulated agent nothing counts as measured, and no duration enters a formula.
pub fn cases(run: &Run, agent: Option<u32>, geometry: Geometry) -> Vec<ImportedCase> {
    let names: BTreeMap<u64, &str> = run.kernels.iter().map(|kernel| (kernel.id, kernel.name.as_str())).collect();
    let is_meant = |known: &&Agent| agent.is_none_or(|agent| known.logical_node_id == agent);
    let is_emulated = run.agents.iter().filter(is_meant).any(Agent::is_emulated);
    let mut groups: BTreeMap<Key<'_>, Vec<&Dispatch>> = BTreeMap::new();
    for dispatch in run.dispatches.iter().filter(|dispatch| agent.is_none_or(|agent| dispatch.agent == agent)) {
        let name = names.get(&dispatch.kernel_id).copied().unwrap_or_default();
        groups.entry((name, dispatch.grid, dispatch.workgroup)).or_default().push(dispatch);
    }
    let case = |((kernel, grid, workgroup), dispatches): (Key<'_>, Vec<&Dispatch>)| {
        let measured = measured(&dispatches, geometry);
        let (bound_ns, measured) =
            if is_emulated { (measured.duration_ns, modelled(measured)) } else { (None, measured) };
        let calls = dispatches.len() as u64;
        ImportedCase { kernel: kernel.to_owned(), grid, workgroup, calls, measured, bound_ns }
    };
    groups.into_iter().map(case).collect()
}

fn measured(dispatches: &[&Dispatch], geometry: Geometry) -> Measured {
    let mut by_set: BTreeMap<BTreeSet<&str>, Vec<&Dispatch>> = BTreeMap::new();
    for dispatch in dispatches.iter().filter(|dispatch| !dispatch.counters.is_empty()) {
        by_set.entry(dispatch.counters.keys().map(String::as_str).collect()).or_default().push(dispatch);
    }
    let passes = by_set.into_iter().map(|(names, launches)| pass(&names, &launches, geometry)).collect();
    Measured { passes, geometry, duration_ns: duration(dispatches), unavailable: BTreeMap::new() }
}

/// The same as of an emulated agent. Its files do not tell what was counted exactly and what came from its model.
fn modelled(mut measured: Measured) -> Measured {
    for pass in &mut measured.passes {
        pass.counted_ns = None;
        pass.counters.values_mut().for_each(|reading| reading.kind = Kind::Model);
    }
    Measured { duration_ns: None, ..measured }
}

fn duration(dispatches: &[&Dispatch]) -> Option<f64> {
    median(&dispatches.iter().filter_map(|dispatch| Some(dispatch.duration_ns()? as f64)).collect::<Vec<_>>())
}

fn pass(names: &BTreeSet<&str>, launches: &[&Dispatch], geometry: Geometry) -> PassReadings {
    let is_zero = |dispatch: &Dispatch, guard: &str| dispatch.counters.get(guard).is_some_and(|value| *value <= 0.0);
    let is_good = |dispatch: &&Dispatch| !is_zero(dispatch, "GRBM_GUI_ACTIVE") && !is_zero(dispatch, "SQ_WAVES");
    let good: Vec<&Dispatch> = launches.iter().copied().filter(is_good).collect();
    let problem = good.is_empty().then(|| {
        "GRBM_GUI_ACTIVE or SQ_WAVES is 0 in every launch: the performance monitors' clock was gated".to_owned()
    });
    let used = if good.is_empty() { launches.to_vec() } else { good };
    let reading = |name: &str| {
        let values: Vec<f64> = used.iter().filter_map(|dispatch| dispatch.counters.get(name).copied()).collect();
        let sum = median(&values)?;
        let instances = f64::from(geometry.xccs.max(1));
        let one = if name.starts_with("GRBM_") { sum / instances } else { sum };
        let launches = u32::try_from(values.len()).unwrap_or(u32::MAX);
        Some(Reading { sum, max: one, min: one, mean: one, per_xcc: Vec::new(), launches, kind: Kind::Measured })
    };
    let counters = names.iter().filter_map(|name| Some((base(name).to_owned(), reading(name)?))).collect();
    PassReadings { counters, counted_ns: duration(&used), problem }
}

/// rocprofv3's `X_sum` is the sum that `X` stands for here.
fn base(name: &str) -> &str {
    let blocks = ["TCC_", "TCP_", "TA_", "TD_", "TCA_", "GL2C_", "SQ_"];
    name.strip_suffix("_sum").filter(|base| blocks.iter().any(|block| base.starts_with(block))).unwrap_or(name)
}
