//! The readings of a case's launches put together: what one after the other they did.

use kbench_counters::metric::{Measured, PassReadings, Reading};
use std::collections::BTreeMap;

/// Sums the readings of the launches of one sequence, pass by pass. `None` without any.
pub(super) fn in_sequence(launches: Vec<Measured>) -> Option<Measured> {
    launches.into_iter().reduce(|mut sum, next| {
        for (pass, more) in sum.passes.iter_mut().zip(next.passes) {
            add_pass(pass, more);
        }
        // What one launch lacks, the sum lacks.
        sum.unavailable.extend(next.unavailable);
        sum
    })
}

fn add_pass(sum: &mut PassReadings, more: PassReadings) {
    let mut both = BTreeMap::new();
    for (name, reading) in std::mem::take(&mut sum.counters) {
        if let Some(other) = more.counters.get(&name) {
            both.insert(name, add(reading, other));
        }
    }
    sum.counters = both;
    sum.counted_ns = sum.counted_ns.zip(more.counted_ns).map(|(a, b)| a + b);
    sum.problem = sum.problem.take().or(more.problem);
}

/// One launch behind another: all counts add up, those of the busiest XCC too.
fn add(a: Reading, b: &Reading) -> Reading {
    let longest = a.per_xcc.len().max(b.per_xcc.len());
    let at = |list: &[f64], index: usize| list.get(index).copied().unwrap_or(0.0);
    Reading {
        sum: a.sum + b.sum,
        max: a.max + b.max,
        min: a.min + b.min,
        mean: a.mean + b.mean,
        per_xcc: (0..longest).map(|index| at(&a.per_xcc, index) + at(&b.per_xcc, index)).collect(),
        launches: a.launches.min(b.launches),
        kind: a.kind.max(b.kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kbench_counters::Geometry;
    use kbench_counters::metric::Kind;

    fn measured(names: &[(&str, f64)], ns: f64) -> Measured {
        let reading = |value: f64| Reading {
            sum: value,
            max: value / 2.0,
            min: 0.0,
            mean: value / 8.0,
            per_xcc: vec![value / 2.0; 2],
            launches: 3,
            kind: Kind::Measured,
        };
        let counters = names.iter().map(|(name, value)| ((*name).to_owned(), reading(*value))).collect();
        let geometry = Geometry { cus: 304, simds_per_cu: 4, xccs: 8, wave_size: 64, max_waves_per_cu: 32 };
        Measured {
            passes: vec![PassReadings { counters, counted_ns: Some(ns), problem: None }],
            geometry,
            duration_ns: None,
            unavailable: BTreeMap::new(),
        }
    }

    #[test]
    fn launches_in_a_row_add_up() {
        let sum = in_sequence(vec![measured(&[("SQ_WAVES", 8.0)], 10.0), measured(&[("SQ_WAVES", 2.0)], 5.0)]).unwrap();
        let waves = &sum.passes[0].counters["SQ_WAVES"];
        assert_eq!((waves.sum, waves.max, waves.per_xcc.as_slice()), (10.0, 5.0, &[5.0, 5.0][..]));
        assert_eq!(sum.passes[0].counted_ns, Some(15.0));
    }

    #[test]
    fn a_counter_that_one_launch_lacks_has_no_sum() {
        let one = measured(&[("SQ_WAVES", 8.0), ("TCC_HIT", 1.0)], 10.0);
        let sum = in_sequence(vec![one, measured(&[("SQ_WAVES", 2.0)], 5.0)]).unwrap();
        assert_eq!(sum.passes[0].counters.keys().collect::<Vec<_>>(), ["SQ_WAVES"]);
        assert!(in_sequence(Vec::new()).is_none());
    }
}
