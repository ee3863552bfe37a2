//! What the launches of an emulated case say together: a bound, counters, and how faithful the run was.

use kbench_rocm_emu::report::LaunchReport;
pub use kbench_rocm_emu::report::Sampled;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an emulated case says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
pub use kbench_rocm_emu::report::LaunchBound as EmulatedBound;

/// A counter: its value, its unit, and whether it is `exact`, `model` or `derived`.
pub use kbench_rocm_emu::report::LaunchCounter as EmulatedCounter;

/// One launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub resources: BTreeMap<String, u32>,
    /// Waves on a SIMD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves_per_simd: Option<f64>,
    /// Its own bound, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<f64>,
    /// What sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limiter: Option<String>,
    /// There when a sample of the workgroups ran: counters and bound are scaled from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Wave instructions executed.
    pub instructions: u64,
    /// Wave instructions by mnemonic, most executed first: at most 64 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<(String, u64)>,
    /// Executed operations whose results may differ from hardware's bits, and how.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_exact: BTreeMap<String, String>,
    /// Findings: what a kernel did that hardware lets pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl Emulated {
    /// Of the launches of a case, in order.
    pub fn of(reports: &[LaunchReport]) -> Self {
        let mut all = Self { launches: reports.iter().map(EmulatedLaunch::of).collect(), ..Self::default() };
        let mut total = EmulatedBound { ns: 0.0, limiter: String::new(), by_resource: BTreeMap::new() };
        let mut longest = 0.0;
        for report in reports {
            // Percentages of several launches have no sum.
            for (name, counter) in report.counters.iter().filter(|(_, counter)| counter.unit != "%") {
                let entry = all.counters.entry(name.clone());
                entry.and_modify(|sum| sum.value += counter.value).or_insert_with(|| counter.clone());
            }
            let Some(bound) = &report.bound else {
                all.no_bound.clone_from(&report.no_bound);
                continue;
            };
            total.ns += bound.ns;
            for (resource, ns) in &bound.by_resource {
                *total.by_resource.entry(resource.clone()).or_default() += ns;
            }
            // The longest launch names the limiter.
            if bound.ns >= longest {
                longest = bound.ns;
                total.limiter.clone_from(&bound.limiter);
            }
        }
        all.bound = (all.no_bound.is_none() && !reports.is_empty()).then_some(total);
        all
    }
}

impl EmulatedLaunch {
    fn of(report: &LaunchReport) -> Self {
        let resources = [
            ("vgprs", report.resources.vgprs),
            ("agprs", report.resources.agprs),
            ("sgprs", report.resources.sgprs),
            ("scratch_bytes", report.resources.scratch_bytes),
        ];
        Self {
            kernel: report.kernel.clone(),
            grid: report.grid,
            block: report.block,
            lds_bytes: report.lds_bytes,
            resources: resources.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            waves_per_simd: report.waves_per_simd,
            bound_ns: report.bound.as_ref().map(|bound| bound.ns),
            limiter: report.bound.as_ref().map(|bound| bound.limiter.clone()),
            sampled: report.sampled,
            instructions: report.instructions,
            mix: report.mix.clone(),
            not_exact: report.not_exact.clone(),
            findings: report.findings.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kbench_rocm_emu::report::{LaunchBound, LaunchCounter};

    fn report(ns: Option<f64>, limiter: &str, waves: f64) -> LaunchReport {
        let counter = |value, unit: &str| LaunchCounter { value, unit: unit.to_owned(), kind: "exact".to_owned() };
        LaunchReport {
            bound: ns.map(|ns| LaunchBound {
                ns,
                limiter: limiter.to_owned(),
                by_resource: BTreeMap::from([("hbm".to_owned(), ns)]),
            }),
            no_bound: ns.is_none().then(|| "no clock".to_owned()),
            counters: BTreeMap::from([
                ("SQ_WAVES".to_owned(), counter(waves, "count")),
                ("OccupancyPercent".to_owned(), counter(50.0, "%")),
            ]),
            ..LaunchReport::default()
        }
    }

    #[test]
    fn launches_one_after_another_add_up() {
        let emulated = Emulated::of(&[report(Some(100.0), "lds", 8.0), report(Some(300.0), "hbm", 4.0)]);
        let bound = emulated.bound.unwrap();
        assert_eq!((bound.ns, bound.limiter.as_str(), bound.by_resource["hbm"]), (400.0, "hbm", 400.0));
        assert_eq!(emulated.counters["SQ_WAVES"].value, 12.0);
        assert!(!emulated.counters.contains_key("OccupancyPercent"));
        assert_eq!(emulated.launches.len(), 2);
    }

    #[test]
    fn one_launch_without_a_bound_leaves_none() {
        let emulated = Emulated::of(&[report(Some(100.0), "lds", 8.0), report(None, "", 4.0)]);
        assert_eq!((emulated.bound, emulated.no_bound.as_deref()), (None, Some("no clock")));
        assert_eq!(Emulated::of(&[]).bound, None);
    }
}
