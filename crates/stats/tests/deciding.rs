//! Steady state, look schedule and stopping rule.

#![allow(clippy::unwrap_used)] // helpers outside of test functions, too

mod common;

use common::{Source, config};
use kbench_stats::{LookSchedule, PrecisionRule, StatsError, Steadiness, SteadyRule, SteadyState};
use proptest::prelude::*;

const RULE: SteadyRule = SteadyRule { window: 100.0, min_points: 8, tolerance: 0.01 };

/// Time of the first steady verdict of a series with one value a unit of time.
fn first_steady(rule: SteadyRule, most: u32, mut value: impl FnMut(f64) -> f64) -> Option<f64> {
    let mut state = SteadyState::new(rule).unwrap();
    (0..most).map(f64::from).find(|&t| {
        state.push(t, value(t)).unwrap();
        matches!(state.assess(), Steadiness::Steady(_))
    })
}

#[test]
fn constant_values_are_steady_after_one_window() {
    assert_eq!(first_steady(RULE, 1000, |_| 5.0), Some(100.0));
}

/// A ramp of 2·exp(−t/300) on a value of 1: over a window of 100 its change falls below 1 % where
/// 2·exp(−t/300)·(e^⅓ − 1) = 0.01, at t = 300·ln(200·0.3956) = 1311.
#[test]
fn a_ramp_is_outlasted() {
    let found = first_steady(RULE, 3000, |t| 1.0 + 2.0 * (-t / 300.0).exp()).unwrap();
    assert!((1250.0..1400.0).contains(&found), "{found}");
}

#[test]
fn a_ramp_in_noise_is_outlasted_and_noise_alone_is_not_a_ramp() {
    let mut source = Source::new(1);
    let ramp = first_steady(RULE, 5000, |t| 1.0 + 2.0 * (-t / 300.0).exp() + 0.01 * source.normal()).unwrap();
    assert!(ramp > 1000.0, "{ramp}");
    // 20 % of noise: two standard errors are exceeded now and then, so a few windows may pass.
    let noise = first_steady(RULE, 5000, |_| 5.0 * (1.0 + 0.2 * source.normal()).max(0.1)).unwrap();
    assert!(noise < 400.0, "{noise}");
}

#[test]
fn steady_change_is_never_steady() {
    assert_eq!(first_steady(RULE, 2000, |t| 1000.0 + t), None);
    let mut state = SteadyState::new(RULE).unwrap();
    assert_eq!(state.assess(), Steadiness::TooEarly);
    for t in 0..200 {
        state.push(f64::from(t), 1000.0 + f64::from(t)).unwrap();
    }
    // Window 99..=199: a change of 100 on a median of 1149.
    let Steadiness::Changing(change) = state.assess() else { panic!("{:?}", state.assess()) };
    assert!((change - 100.0 / 1149.0).abs() < 1e-9, "{change}");
}

/// Spikes of a hundred times the value on one in ten do not prevent the verdict.
#[test]
fn bursts_do_not_prevent_the_verdict() {
    let found = first_steady(RULE, 1000, |t| if t as u32 % 10 == 7 { 500.0 } else { 5.0 });
    assert_eq!(found, Some(100.0));
}

/// Values slower than the window: at least `min_points` of them are judged.
#[test]
fn few_slow_values_are_judged_together() {
    let rule = SteadyRule { window: 0.5, ..RULE };
    assert_eq!(first_steady(rule, 100, |_| 5.0), Some(7.0));
    assert_eq!(first_steady(rule, 40, |t| 100.0 + 2.0 * t), None);
}

/// A million values in one window: thinned to a bounded number, same verdict.
#[test]
fn dense_values_are_thinned() {
    let rule = SteadyRule { window: 1e5, ..RULE };
    let mut state = SteadyState::new(rule).unwrap();
    for i in 0..1_000_000 {
        let t = f64::from(i) * 0.2;
        state.push(t, 1.0 + 1e-6 * t).unwrap();
    }
    // 0.1 over the window, on a median of 1.15.
    let Steadiness::Changing(change) = state.assess() else { panic!("{:?}", state.assess()) };
    assert!((change - 0.1 / 1.15).abs() < 0.002, "{change}");
}

#[test]
fn a_clock_that_stands_still_is_never_steady() {
    let mut state = SteadyState::new(SteadyRule { window: 0.0, ..RULE }).unwrap();
    for _ in 0..50 {
        state.push(3.0, 1.0).unwrap();
    }
    assert_eq!(state.assess(), Steadiness::TooEarly);
}

#[test]
fn settings_and_values_out_of_range_are_refused() {
    for window in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(SteadyState::new(SteadyRule { window, ..RULE }).is_err());
    }
    for min_points in [0, 2, 513] {
        assert!(SteadyState::new(SteadyRule { min_points, ..RULE }).is_err());
    }
    for tolerance in [-0.1, 1.0, f64::NAN] {
        assert!(SteadyState::new(SteadyRule { tolerance, ..RULE }).is_err());
    }
    let mut state = SteadyState::new(RULE).unwrap();
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(state.push(0.0, bad).is_err(), "{bad}");
    }
    assert!(matches!(state.push(f64::NAN, 1.0), Err(StatsError::OutOfRange { index: 0, .. })));
    for (first, ratio) in [(0, 1.5), (10, 1.0), (10, f64::NAN), (10, 11.0)] {
        assert!(LookSchedule::new(first, ratio).is_err(), "{first} {ratio}");
    }
    for (target, needed) in [(-0.1, 2), (1.0, 2), (f64::NAN, 2), (0.01, 0)] {
        assert!(PrecisionRule::new(target, needed).is_err(), "{target} {needed}");
    }
}

#[test]
fn precision_must_hold_at_consecutive_looks() {
    let mut rule = PrecisionRule::new(0.005, 2).unwrap();
    let looks = [None, Some(0.004), Some(0.006), Some(0.005), None, Some(0.001), Some(0.002)];
    let stops: Vec<bool> = looks.into_iter().map(|width| rule.look(width)).collect();
    assert_eq!(stops, [false, false, false, false, false, false, true]);
    assert!(!PrecisionRule::new(0.0, 1).unwrap().look(Some(f64::NAN)));
}

#[test]
fn looks_are_few() {
    let schedule = LookSchedule::new(10, 1.5).unwrap();
    let looks: Vec<usize> =
        std::iter::successors(Some(schedule.first()), |&n| Some(schedule.after(n))).take(6).collect();
    assert_eq!(looks, [10, 15, 23, 35, 53, 80]);
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn looks_always_advance(first in 1..1000_usize, ratio in 1.01..10.0_f64, count in any::<usize>()) {
        let schedule = LookSchedule::new(first, ratio).unwrap();
        let next = schedule.after(count);
        prop_assert!(next > count || count == usize::MAX);
        prop_assert!(next >= first);
    }

    /// Any times and values: no panic, bounded memory, and a verdict with a finite change.
    #[test]
    fn any_series_gets_a_verdict(series in prop::collection::vec((any::<f64>(), any::<f64>()), 0..60)) {
        let mut state = SteadyState::new(RULE).unwrap();
        for (time, value) in series {
            let _ = state.push(time, value);
            match state.assess() {
                Steadiness::Changing(change) | Steadiness::Steady(change) => prop_assert!(change.is_finite()),
                Steadiness::TooEarly => {}
            }
        }
    }
}
