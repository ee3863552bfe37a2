//! What the launches of an emulated case say together: a bound, counters, and how faithful the run was.

use kbench_rocm_emu::report::{LaunchBound, LaunchCounter, LaunchReport};
use std::collections::BTreeMap;

/// What an emulated case says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Emulated {
    /// The bound of all launches, one after another; absent when a figure of the device is not public.
    pub bound: Option<LaunchBound>,
    /// Why there is no bound.
    pub no_bound: Option<String>,
    /// Counters by rocprofiler's names, summed over the launches; percentages are left to the launches.
    pub counters: BTreeMap<String, LaunchCounter>,
    /// Each launch.
    pub launches: Vec<LaunchReport>,
}

impl Emulated {
    /// Of a runtime that is known to be emulated and tells nothing of what it executes.
    pub(super) fn untold() -> Self {
        let reason =
            "the emulator under HIP does not tell what it executed: outputs are verified, and nothing else is known";
        Self { no_bound: Some(reason.to_owned()), ..Self::default() }
    }

    /// Of the launches of a case, in order.
    pub fn of(reports: Vec<LaunchReport>) -> Self {
        let mut all = Self::default();
        let mut total = LaunchBound { ns: 0.0, limiter: String::new(), by_resource: BTreeMap::new() };
        let mut longest = 0.0;
        for report in &reports {
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
        all.launches = reports;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let emulated = Emulated::of(vec![report(Some(100.0), "lds", 8.0), report(Some(300.0), "hbm", 4.0)]);
        let bound = emulated.bound.unwrap();
        assert_eq!((bound.ns, bound.limiter.as_str(), bound.by_resource["hbm"]), (400.0, "hbm", 400.0));
        assert_eq!(emulated.counters["SQ_WAVES"].value, 12.0);
        assert!(!emulated.counters.contains_key("OccupancyPercent"));
        assert_eq!(emulated.launches.len(), 2);
    }

    #[test]
    fn one_launch_without_a_bound_leaves_none() {
        let emulated = Emulated::of(vec![report(Some(100.0), "lds", 8.0), report(None, "", 4.0)]);
        assert_eq!((emulated.bound, emulated.no_bound.as_deref()), (None, Some("no clock")));
        assert_eq!(Emulated::of(vec![]).bound, None);
    }
}
