//! The protocol with a GPU's defaults on scripted devices: clocks, throttling, time sources, and an A/A calibration.

use super::scripted::{Scripted, ScriptedLauncher};
use super::tests::{Noise, check, codes, run};
use super::*;

const US: f64 = 1e3;

/// Seconds since the first launch.
fn seconds(launch: Scripted) -> f64 {
    let start = ScriptedLauncher::of(1, |_| 1.0).clock().get();
    (launch.now_ns - start) as f64 / 1e9
}

/// A GPU whose kernel takes `kernel_ns` at `mhz(t)` of 2000 MHz, with noise of `noise` (relative), timed by dispatch
/// timestamps; clock readings too.
fn gpu(kernel_ns: f64, noise: f64, seed: u64, mhz: fn(f64) -> f64) -> ScriptedLauncher {
    let mut random = Noise(seed);
    let script = move |l: Scripted| kernel_ns * 2000.0 / mhz(seconds(l)) * (1.0 + noise * random.normal());
    let mut launcher = ScriptedLauncher::of(4, script);
    launcher.source = TimeSource::Dispatch;
    launcher.mhz = Some(Box::new(move |l| Some(mhz(seconds(l)))));
    launcher
}

/// Batches that cost 8 µs, and a launch and its gap each.
fn with_batches(launcher: &mut ScriptedLauncher, launch_ns: f64, seed: u64) {
    let mut random = Noise(seed);
    launcher.batches =
        Some(Box::new(move |batch| Ok(8_000.0 + 200.0 * random.normal() + launch_ns * batch.launches as f64)));
}

#[test]
fn the_defaults_are_those_of_the_protocol() {
    let protocol = Protocol::gpu();
    assert_eq!((protocol.warmup.min_ns, protocol.warmup.cap_ns), (400_000_000, 3_000_000_000));
    assert_eq!((protocol.warmup.window_ns, protocol.warmup.tolerance), (200_000_000, 0.01));
    assert_eq!(protocol.precision, 0.005);
}

/// A clock that falls from 2000 to 1300 MHz with a time constant of 300 ms: the warm-up outlasts it, and what is measured is
/// the sustained clock. The rest of the fall over 200 ms is below 1 % where
/// 700/1300·e^(−t/0.3)·(e^(2/3) − 1) = 0.01, at 1.18 s.
#[test]
fn warm_up_outlasts_a_falling_clock() {
    let mut launcher = gpu(100.0 * US, 0.002, 1, |t| 1300.0 + 700.0 * (-t / 0.3).exp());
    let m = run(&mut launcher, &Protocol::gpu()).unwrap();
    assert_eq!(m.warmup.ended, Ended::Steady);
    assert!((1.05e9..1.45e9).contains(&(m.warmup.ns as f64)), "{:?}", m.warmup);
    let clock = m.clock.unwrap();
    assert!((1300.0..1330.0).contains(&clock.sustained_mhz), "{clock:?}");
    assert_eq!((clock.throttled, clock.readings), (0, m.samples_ns.len()));
    assert_eq!(codes(&m), [""; 0]);
}

/// Launch times too noisy to show the ramp: the clock readings do, and keep the warm-up going.
#[test]
fn the_clock_has_a_say_where_the_time_is_too_noisy() {
    let ramp = |t: f64| 2000.0 - 900.0 * (-t / 0.5).exp();
    let warmup = |with_clock: bool| {
        let mut launcher = gpu(100.0 * US, 0.3, 3, |_| 2000.0);
        launcher.mhz = with_clock.then(|| Box::new(move |l| Some(ramp(seconds(l)))) as super::scripted::ClockScript);
        let protocol = Protocol { max_samples: 50, ..Protocol::gpu() };
        run(&mut launcher, &protocol).unwrap().warmup
    };
    let (without, with) = (warmup(false), warmup(true));
    assert!(without.ns < 500_000_000, "{without:?}");
    assert!(with.ns > 1_000_000_000 && with.ended == Ended::Steady, "{with:?}");
}

#[test]
fn a_clock_that_never_settles_ends_at_the_cap() {
    let mut launcher = gpu(100.0 * US, 0.001, 5, |t| 2000.0 / (1.0 + 0.3 * t));
    let m = run(&mut launcher, &Protocol { max_samples: 60, ..Protocol::gpu() }).unwrap();
    assert_eq!(m.warmup.ended, Ended::Cap);
    assert!((3.0e9..3.01e9).contains(&(m.warmup.ns as f64)), "{:?}", m.warmup);
    assert!(codes(&m).contains(&"warmup_not_steady"));
}

/// Throttling that begins after the warm-up: told against what this session sustained before, not against a data sheet.
#[test]
fn throttling_is_told_against_the_sustained_clock() {
    let mut launcher = gpu(100.0 * US, 0.002, 7, |t| if t < 0.45 { 1400.0 } else { 1000.0 });
    let protocol = Protocol { min_samples: 800, max_samples: 2000, ..Protocol::gpu() };
    let m = run(&mut launcher, &protocol).unwrap();
    check(&m, &launcher, &protocol, 0);
    let clock = m.clock.unwrap();
    assert_eq!((clock.sustained_mhz, clock.min_mhz), (1400.0, 1000.0));
    assert!(clock.throttled > clock.readings / 2, "{clock:?}");
    assert!(codes(&m).contains(&"throttled"), "{:?}", m.warnings);
    // 1400 MHz all the time is no throttling, whatever the data sheet says.
    let steady = run(&mut gpu(100.0 * US, 0.002, 7, |_| 1400.0), &protocol).unwrap();
    assert_eq!(steady.clock.unwrap().throttled, 0);
    assert!(!codes(&steady).contains(&"throttled"));
}

#[test]
fn readings_that_cannot_be_clocks_are_none() {
    let mut launcher = gpu(100.0 * US, 0.001, 9, |_| 2000.0);
    let bad = [0.0, -5.0, f64::NAN, f64::INFINITY, 1e12];
    launcher.mhz = Some(Box::new(move |l| if l.index % 2 == 0 { Some(bad[l.index / 2 % 5]) } else { Some(1500.0) }));
    let m = run(&mut launcher, &Protocol::gpu()).unwrap();
    let clock = m.clock.unwrap();
    assert_eq!((clock.min_mhz, clock.sustained_mhz, clock.throttled), (1500.0, 1500.0, 0));
    assert!(clock.readings < m.samples_ns.len());
    assert_eq!(run(&mut ScriptedLauncher::of(4, |_| 1e5), &Protocol::gpu()).unwrap().clock, None);
}

/// A kernel of 20 µs with a gap of 500 ns: both sources are reported, dispatch is used, nobody warns.
#[test]
fn dispatch_and_slope_are_both_reported() {
    let mut launcher = gpu(20.0 * US, 0.002, 11, |_| 2000.0);
    with_batches(&mut launcher, 20.5 * US, 12);
    launcher.event_ns = Some(6.0 * US);
    let protocol = Protocol::gpu();
    let m = run(&mut launcher, &protocol).unwrap();
    check(&m, &launcher, &protocol, 0);
    let ladder = m.ladder.as_ref().unwrap();
    let sources: Vec<TimeSource> = ladder.readings.iter().map(|reading| reading.source).collect();
    assert_eq!(sources, [TimeSource::Dispatch, TimeSource::Graph, TimeSource::Event]);
    assert_eq!(m.time().source, TimeSource::Dispatch);
    assert!((m.time().ns - 20.0 * US).abs() < 100.0);
    let graph = ladder.readings[1];
    assert!((graph.ns - 20.5 * US).abs() < 50.0 && graph.ci95_ns.unwrap().contains(20.5 * US), "{graph:?}");
    let overhead = graph.overhead.unwrap();
    assert!((overhead.ns - 8_000.0).abs() < 300.0 && overhead.ci95_ns.unwrap().contains(8_000.0), "{overhead:?}");
    // 100 µs of the smallest batch, at a median of 20 µs or a little less.
    assert!((5..=6).contains(&overhead.n0), "{overhead:?}");
    assert!((ladder.readings[2].ns - 26.0 * US).abs() < 200.0);
    assert_eq!(codes(&m), [""; 0]);
}

#[test]
fn a_gap_that_is_too_long_is_told() {
    let mut launcher = gpu(20.0 * US, 0.002, 13, |_| 2000.0);
    with_batches(&mut launcher, 23.0 * US, 14);
    let m = run(&mut launcher, &Protocol::gpu()).unwrap();
    assert_eq!(codes(&m), ["time_sources_disagree"]);
    let text = m.warnings[0].to_string();
    assert!(text.contains("20.0") && text.contains("23.0"), "{text}");
}

/// Without dispatch timestamps the slope is believed, not the events with their cost.
#[test]
fn events_stand_behind_the_slope() {
    let mut launcher = gpu(26.0 * US, 0.002, 15, |_| 2000.0);
    launcher.source = TimeSource::Event;
    with_batches(&mut launcher, 20.0 * US, 16);
    let m = run(&mut launcher, &Protocol::gpu()).unwrap();
    assert_eq!((m.time().source, m.source), (TimeSource::Graph, TimeSource::Event));
    assert!((m.time().ns - 20.0 * US).abs() < 50.0 && (m.median_ns - 26.0 * US).abs() < 100.0);
    assert_eq!(codes(&m), [""; 0], "an event's cost is no disagreement");
}

#[test]
fn batches_that_fail_or_cannot_be_are_told() {
    // A launch of 2 s: six rounds of 15 would be far beyond a tenth of 15 s.
    let mut long = gpu(2e9, 0.0, 17, |_| 2000.0);
    with_batches(&mut long, 2e9, 18);
    let m = run(&mut long, &Protocol::gpu()).unwrap();
    assert!(codes(&m).contains(&"no_graph_slope") && m.batched == 0, "{:?}", m.warnings);

    let mut negative = gpu(20.0 * US, 0.002, 19, |_| 2000.0);
    negative.batches = Some(Box::new(|_| Ok(-1.0)));
    let m = run(&mut negative, &Protocol::gpu()).unwrap();
    assert_eq!(codes(&m), ["no_graph_slope"]);
    assert_eq!(m.time().source, TimeSource::Dispatch);

    let mut broken = gpu(20.0 * US, 0.002, 21, |_| 2000.0);
    broken.batches = Some(Box::new(|_| Err(LaunchError::Failed("capture failed".into()))));
    let error = run(&mut broken, &Protocol::gpu()).unwrap_err();
    assert!(error.to_string().contains("capture failed") && error.partial().is_some(), "{error}");
}

#[test]
fn batches_rotate_when_cold_and_stay_when_warm() {
    let batch = Batch { launches: 9, first_set: 3, rotate: true };
    assert_eq!((0..9).map(|index| batch.set_of(index, 4)).collect::<Vec<_>>(), [3, 0, 1, 2, 3, 0, 1, 2, 3]);
    let warm = Batch { rotate: false, first_set: 0, ..batch };
    assert!((0..9).all(|index| warm.set_of(index, 4) == 0));
    let mut launcher = gpu(20.0 * US, 0.002, 23, |_| 2000.0);
    with_batches(&mut launcher, 20.0 * US, 24);
    let m = run(&mut launcher, &Protocol::gpu()).unwrap();
    let batched = &launcher.log[launcher.log.len() - m.batched..];
    assert!(batched.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 4), "batch follows batch without a jump");
}

/// One launch in twelve takes many times as long (Pareto, exponent 1.1: its mean is hardly defined). The median stays.
#[test]
fn heavy_tails_do_not_move_the_median() {
    let mut random = Noise(25);
    let mut launcher = ScriptedLauncher::of(4, move |_| {
        let base = 50.0 * US * (1.0 + 0.003 * random.normal());
        if random.uniform() < 1.0 / 12.0 { base * (2.0 * random.uniform().powf(-1.0 / 1.1)).min(1e4) } else { base }
    });
    let protocol = Protocol { min_samples: 200, ..Protocol::gpu() };
    let m = run(&mut launcher, &protocol).unwrap();
    check(&m, &launcher, &protocol, 0);
    // An eleventh of the rest above the middle moves it by what 4.5 % more of a normal of 0.3 % move it: 0.04 %.
    assert!((m.median_ns / (50.0 * US) - 1.0).abs() < 0.002, "{}", m.median_ns);
    assert!(m.outliers.total() as f64 > 0.04 * m.samples_ns.len() as f64);
    let mean = m.samples_ns.iter().sum::<f64>() / m.samples_ns.len() as f64;
    assert!(mean > 1.2 * m.median_ns, "a mean would have moved: {mean}");
}

/// A/A: the same kernel measured twice, 200 pairs, noise of 1 %. A pair differs when the medians are further apart than
/// their intervals allow (half-widths added as independent errors), which at 95 % happens to 5 % of equal pairs: 10 of 200,
/// with a standard deviation of 3.1. With the rule that a difference must also be above 1 %, it hardly ever happens.
#[test]
fn two_hundred_equal_pairs_rarely_differ() {
    let measured = |seed: u64| {
        let mut random = Noise(seed.wrapping_mul(0x9e37_79b9));
        let mut launcher = ScriptedLauncher::of(4, move |_| 100.0 * US * (0.01 * random.normal()).exp());
        launcher.source = TimeSource::Dispatch;
        run(&mut launcher, &Protocol { seed, ..Protocol::gpu() }).unwrap()
    };
    let (mut differ, mut relevant) = (0, 0);
    for pair in 0..200 {
        let (a, b) = (measured(2 * pair + 1), measured(2 * pair + 2));
        let change = (b.median_ns / a.median_ns).ln().abs();
        let error = |m: &Measurement| m.relative_half_width().unwrap();
        let apart = change > error(&a).hypot(error(&b));
        differ += usize::from(apart);
        relevant += usize::from(apart && change > 0.01);
    }
    eprintln!("A/A: {differ} of 200 pairs differ, {relevant} by more than 1 %");
    assert!(differ <= 16, "{differ} of 200 equal pairs differ");
    assert!(relevant <= 2, "{relevant} of 200 equal pairs differ by more than 1 %");
}
