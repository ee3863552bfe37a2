//! Error rates, power and coverage on scripted clocks. The full figures:
//! `cargo test -p kbench-stats --test comparing_simulated -- --ignored --nocapture`.

#![allow(clippy::unwrap_used)] // helpers outside of test functions, too

mod common;

use common::clock::{Behaviour, ScriptedClock};
use kbench_stats::{Look, PairedComparison, PairedSession, Probability, Rule, Schedule, Verdict, compare_paired};

const BUDGET_NS: f64 = 2e9;
/// The minimum effect of comparisons in turn.
const MIN_EFFECT: f64 = 0.005;

fn rule() -> Rule {
    Rule::new(MIN_EFFECT, 0.0, Probability::new(0.05).unwrap()).unwrap()
}

/// An adaptive comparison within two seconds of device time, and the device time that it took in ns.
fn compare(behaviour: Behaviour, seed: u64) -> (PairedComparison, f64) {
    let mut clock = ScriptedClock::new(behaviour, seed);
    let mut session = PairedSession::new(rule(), seed).unwrap();
    for order in Schedule::new(seed) {
        let block = clock.block(order);
        if clock.now_ns > BUDGET_NS {
            break;
        }
        if let Some(found) = session.push(block, None).unwrap() {
            return (found, clock.now_ns);
        }
    }
    (session.finish().unwrap(), clock.now_ns)
}

/// Runs in which a change of `ratio` was found as what it is, and the mean device time in s.
fn found(launch_ns: f64, ratio: f64, seeds: std::ops::Range<u64>) -> (usize, f64) {
    let expected = if ratio > 1.0 { Verdict::Slower } else { Verdict::Faster };
    let runs: Vec<_> = seeds.map(|seed| compare(Behaviour::noisy(launch_ns, ratio), seed)).collect();
    let seconds = runs.iter().map(|run| run.1).sum::<f64>() / runs.len() as f64 / 1e9;
    (runs.iter().filter(|run| run.0.verdict == expected).count(), seconds)
}

/// Of equal builds: runs that call a change significant, runs that give a verdict of a change, and runs that say SAME.
fn equal_builds(launch_ns: f64, seeds: std::ops::Range<u64>) -> (usize, usize, usize) {
    let runs: Vec<_> = seeds.map(|seed| compare(Behaviour::noisy(launch_ns, 1.0), seed).0).collect();
    let count = |of: &dyn Fn(&PairedComparison) -> bool| runs.iter().filter(|run| of(run)).count();
    (
        count(&|run| run.time.p_changed <= 0.05),
        count(&|run| matches!(run.verdict, Verdict::Faster | Verdict::Slower)),
        count(&|run| run.verdict == Verdict::Same),
    )
}

/// Intervals that hold the true ratio: of a fixed number of blocks, and of adaptive runs (repeated intervals).
fn covered(launch_ns: f64, ratio: f64, blocks: usize, seeds: std::ops::Range<u64>) -> (usize, usize) {
    let (mut fixed, mut adaptive) = (0, 0);
    for seed in seeds {
        let behaviour = Behaviour::noisy(launch_ns, ratio);
        let mut clock = ScriptedClock::new(behaviour, seed);
        let taken: Vec<_> = Schedule::new(seed).take(blocks).map(|order| clock.block(order)).collect();
        let at_once = compare_paired(&taken, None, &rule(), Look::ONLY, seed).unwrap();
        fixed += usize::from(at_once.time.interval.unwrap().contains(ratio));
        adaptive += usize::from(compare(behaviour, seed).0.time.interval.unwrap().contains(ratio));
    }
    (fixed, adaptive)
}

#[test]
fn a_change_of_one_percent_is_found() {
    for (launch_ns, ratio) in [(1e5, 1.01), (1e7, 1.01), (1e7, 0.99)] {
        let (hits, seconds) = found(launch_ns, ratio, 1..11);
        assert!(hits >= 9, "{launch_ns} ns, {ratio}: {hits} of 10");
        assert!(seconds <= 2.0, "{seconds}");
    }
}

#[test]
fn equal_builds_are_not_called_different() {
    let (raw, verdicts, same) = equal_builds(2e6, 1..61);
    // Binomial of 60 at 5 %: more than 8 has a chance of 0.4 %. At 1 %: more than 3, of 0.3 %.
    assert!(raw <= 8 && verdicts <= 3, "{raw} {verdicts}");
    assert!(same >= 55, "{same}");
}

#[test]
#[ignore = "prints figures; takes a minute"]
fn figures() {
    println!(
        "device: CV 1 %, drift 3 % a second, bursts of up to 6 launches at 1.2 times; minimum effect 0.5 %, alpha 5 %"
    );
    for launch_us in [10.0, 100.0, 1000.0, 10_000.0] {
        let launch_ns = launch_us * 1e3;
        for ratio in [1.01, 0.99] {
            let (hits, seconds) = found(launch_ns, ratio, 1..101);
            println!(
                "{launch_us} us, ratio {ratio}: found in {hits} of 100 (seeds 1..100), mean device time {seconds:.3} s"
            );
            assert!(hits >= 90);
        }
        let (raw, verdicts, same) = equal_builds(launch_ns, 1..201);
        println!(
            "{launch_us} us, equal: {raw} of 200 significant, {verdicts} called a change, {same} SAME (seeds 1..200)"
        );
        assert!(raw <= 10 && verdicts <= 2);
    }
    for (ratio, blocks) in [(1.0, 40), (1.01, 40), (1.03, 200)] {
        let (fixed, adaptive) = covered(1e6, ratio, blocks, 1..501);
        println!(
            "ratio {ratio}: intervals of {blocks} blocks cover in {fixed} of 500, adaptive ones in {adaptive} of 500 (seeds 1..500)"
        );
        // 95 % of 500 is 475; a binomial is below 465 with a chance of 1.5 %.
        assert!(fixed >= 465 && adaptive >= 465);
    }
}
