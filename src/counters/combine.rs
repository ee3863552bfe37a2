//! The readings of a case's launches put together: what one after the other they did.

use kbench_counters::metric::{Measured, PassReadings, Reading};
use std::collections::BTreeMap;

/// What a counter's values of launches in a row are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    /// Their sum.
    Count,
    /// One value, of the device.
    Constant,
    /// Nothing: a share or another value that the SDK computed of each launch.
    Derived,
}

/// Whether a derived counter's formula only sums counts: `reduce(TCC_HIT,sum)`, and such added up.
pub(super) fn is_sum(expression: &str, is_count: impl Fn(&str) -> bool) -> bool {
    let term = |term: &str| {
        let inner = term.strip_prefix("reduce(").and_then(|rest| rest.strip_suffix(",sum)"));
        is_count(inner.unwrap_or(term))
    };
    let packed: String = expression.chars().filter(|letter| !letter.is_whitespace()).collect();
    !packed.is_empty() && packed.split('+').all(term)
}

/// Puts the readings of the launches of one sequence together, pass by pass. `None` without any.
pub(super) fn in_sequence(launches: Vec<Measured>, nature: &dyn Fn(&str) -> Nature) -> Option<Measured> {
    launches.into_iter().reduce(|mut sum, next| {
        for (pass, more) in sum.passes.iter_mut().zip(next.passes) {
            add_pass(pass, more, nature, &mut sum.unavailable);
        }
        // What one launch lacks, the sum lacks.
        sum.unavailable.extend(next.unavailable);
        sum
    })
}

fn add_pass(
    sum: &mut PassReadings,
    more: PassReadings,
    nature: &dyn Fn(&str) -> Nature,
    unavailable: &mut BTreeMap<String, String>,
) {
    let mut both = BTreeMap::new();
    for (name, reading) in std::mem::take(&mut sum.counters) {
        let Some(other) = more.counters.get(&name) else { continue };
        match together(reading, other, nature(&name)) {
            Ok(reading) => drop(both.insert(name, reading)),
            Err(why) => drop(unavailable.insert(name, why)),
        }
    }
    sum.counters = both;
    sum.counted_ns = sum.counted_ns.zip(more.counted_ns).map(|(a, b)| a + b);
    sum.problem = sum.problem.take().or(more.problem);
}

/// Two launches' readings of a counter as one, or why they are none.
fn together(a: Reading, b: &Reading, nature: Nature) -> Result<Reading, String> {
    match nature {
        Nature::Count => Ok(add(a, b)),
        Nature::Constant if a.sum == b.sum => Ok(Reading { launches: a.launches.min(b.launches), ..a }),
        Nature::Constant => {
            Err(format!("a constant of the device, but {} in one launch of the case and {} in another", a.sum, b.sum))
        }
        Nature::Derived => {
            Err("the SDK computes it for each launch, and the case has several, whose values do not add up".to_owned())
        }
    }
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

    fn count(_: &str) -> Nature {
        Nature::Count
    }

    #[test]
    fn what_is_no_count_is_not_added() {
        let nature = |name: &str| match name {
            "CU_NUM" | "XCC_NUM" => Nature::Constant,
            "MfmaUtil" => Nature::Derived,
            _ => Nature::Count,
        };
        let launch =
            |xccs| measured(&[("SQ_WAVES", 8.0), ("CU_NUM", 304.0), ("XCC_NUM", xccs), ("MfmaUtil", 40.0)], 1.0);
        let sum = in_sequence(vec![launch(8.0), launch(4.0)], &nature).unwrap();
        let sums = sum.passes[0].counters.iter().map(|(name, reading)| (name.as_str(), reading.sum));
        assert_eq!(sums.collect::<Vec<_>>(), [("CU_NUM", 304.0), ("SQ_WAVES", 16.0)]);
        assert!(sum.unavailable["XCC_NUM"].contains("8 in one launch of the case and 4"));
        assert!(sum.unavailable["MfmaUtil"].contains("do not add up"));
    }

    #[test]
    fn sums_are_told_from_shares() {
        let is_sum = |text| is_sum(text, |name| name.starts_with("TCC_"));
        assert!(is_sum("reduce(TCC_HIT,sum)") && is_sum("reduce(TCC_HIT, sum) + reduce(TCC_MISS, sum)"));
        assert!(!is_sum("reduce(TCC_HIT,max)") && !is_sum("100*TCC_HIT/(TCC_HIT+TCC_MISS)") && !is_sum(""));
        assert!(!is_sum("reduce(CU_NUM,sum)"));
    }

    #[test]
    fn launches_in_a_row_add_up() {
        let sum = in_sequence(vec![measured(&[("SQ_WAVES", 8.0)], 10.0), measured(&[("SQ_WAVES", 2.0)], 5.0)], &count)
            .unwrap();
        let waves = &sum.passes[0].counters["SQ_WAVES"];
        assert_eq!((waves.sum, waves.max, waves.per_xcc.as_slice()), (10.0, 5.0, &[5.0, 5.0][..]));
        assert_eq!(sum.passes[0].counted_ns, Some(15.0));
    }

    #[test]
    fn a_counter_that_one_launch_lacks_has_no_sum() {
        let one = measured(&[("SQ_WAVES", 8.0), ("TCC_HIT", 1.0)], 10.0);
        let sum = in_sequence(vec![one, measured(&[("SQ_WAVES", 2.0)], 5.0)], &count).unwrap();
        assert_eq!(sum.passes[0].counters.keys().collect::<Vec<_>>(), ["SQ_WAVES"]);
        assert!(in_sequence(Vec::new(), &count).is_none());
    }
}
