//! Intervals of the median: against exact distributions, brute force and simulation.

#![allow(clippy::unwrap_used)] // helpers outside of test functions, too

mod common;

use std::time::Instant;

use common::{Source, config};
use kbench_stats::{
    Blocks, Bootstrap, Probability, Sample, StatsError, block_length, bootstrap_median, order_statistic_median,
};
use proptest::prelude::*;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

const P95: Probability = Probability::P95;

fn independent(seed: u64) -> Bootstrap {
    Bootstrap { blocks: Blocks::Independent, ..Bootstrap::new(seed) }
}

/// The rank and coverage from statrs' binomial distribution, for every n to 300 and three confidences.
#[test]
fn order_statistic_ranks_agree_with_the_binomial() {
    for confidence in [0.5, 0.95, 0.99] {
        let tail = (1.0 - confidence) / 2.0;
        for n in 1..300_u64 {
            let binomial = Binomial::new(0.5, n).unwrap();
            let rank = (1..=n.div_ceil(2)).rev().find(|r| binomial.cdf(r - 1) <= tail * (1.0 + 1e-9));
            let values: Vec<f64> = (1..=n).map(|i| i as f64).collect();
            let found = order_statistic_median(&Sample::new(&values).unwrap(), Probability::new(confidence).unwrap());
            match rank {
                Some(rank) => {
                    let found = found.unwrap();
                    assert_eq!(found.rank as u64, rank, "n = {n}");
                    assert_eq!((found.interval.lo(), found.interval.hi()), (rank as f64, (n + 1 - rank) as f64));
                    assert!((found.coverage - (1.0 - 2.0 * binomial.cdf(rank - 1))).abs() < 1e-9);
                }
                None => assert!(matches!(found, Err(StatsError::TooFew { .. })), "n = {n}"),
            }
        }
    }
    let five = Sample::new(&[1.0; 5]).unwrap();
    assert!(matches!(order_statistic_median(&five, P95), Err(StatsError::TooFew { needed: 6, got: 5, .. })));
}

/// 2^-n underflows beyond 1074: the rank must still be that of the normal approximation, n/2 − 0.98·√n.
#[test]
fn order_statistic_ranks_of_many_samples() {
    let n = 100_000;
    let values: Vec<f64> = (0..n).map(f64::from).collect();
    let found = order_statistic_median(&Sample::new(&values).unwrap(), P95).unwrap();
    let expected = f64::from(n) / 2.0 - 0.98 * f64::from(n).sqrt();
    assert!((found.rank as f64 - expected).abs() < 3.0, "{} against {expected}", found.rank);
}

/// For odd n and independent draws the bootstrap distribution of the median is known (Efron 1979):
/// P(median* <= x_(k)) = P(Bin(n, k/n) >= (n+1)/2). The ends must be quantiles of it, up to Monte Carlo error.
#[test]
fn bootstrap_agrees_with_its_exact_distribution() {
    for n in [7_u64, 15, 51, 101] {
        let values: Vec<f64> = (1..=n).map(|i| i as f64).collect();
        let plan = Bootstrap { resamples: 200_000, ..independent(n) };
        let found = bootstrap_median(&Sample::new(&values).unwrap(), P95, &plan).unwrap();
        // P(median* <= k)
        let cdf = |k: f64| {
            let p = (k / n as f64).clamp(0.0, 1.0);
            1.0 - Binomial::new(p, n).unwrap().cdf(n.div_ceil(2) - 1)
        };
        for (end, tail) in [(found.lo(), 0.025), (found.hi(), 0.975)] {
            // 0.0012 is more than 3 standard errors of a 2.5 % tail of 200 000 draws.
            assert!(cdf(end - 1.0) < tail + 0.0012 && cdf(end) > tail - 0.0012, "n = {n}: end {end}");
        }
    }
}

/// All n^n resamples of a sample of 4: the median of the smallest and largest 2.5 % of them.
#[test]
fn bootstrap_agrees_with_all_resamples() {
    let values = [1.0, 2.0, 4.0, 8.0];
    let mut medians = Vec::new();
    for code in 0..256_usize {
        let mut drawn: Vec<f64> = (0..4).map(|i| values[code >> (2 * i) & 3]).collect();
        drawn.sort_by(f64::total_cmp);
        medians.push((drawn[1] + drawn[2]) / 2.0);
    }
    let all = Sample::new(&medians).unwrap();
    let confidence = Probability::new(0.8).unwrap();
    let plan = Bootstrap { resamples: 100_000, ..independent(9) };
    let found = bootstrap_median(&Sample::new(&values).unwrap(), confidence, &plan).unwrap();
    assert_eq!(found.lo(), all.quantile(Probability::new(0.1).unwrap()));
    assert_eq!(found.hi(), all.quantile(Probability::new(0.9).unwrap()));
}

#[test]
fn bootstrap_is_decided_by_its_seed() {
    let mut source = Source::new(11);
    let values: Vec<f64> = (0..50).map(|_| source.normal()).collect();
    let sample = Sample::new(&values).unwrap();
    let ends = |seed| bootstrap_median(&sample, P95, &Bootstrap::new(seed)).unwrap();
    assert_eq!(ends(1), ends(1));
    assert!((1..20).any(|seed| ends(seed) != ends(0)));
}

#[test]
fn bootstrap_refuses_what_it_cannot_do() {
    let one = Sample::new(&[1.0]).unwrap();
    assert!(matches!(bootstrap_median(&one, P95, &Bootstrap::new(0)), Err(StatsError::TooFew { .. })));
    let two = Sample::new(&[1.0, 2.0]).unwrap();
    for resamples in [0, 99, 1_000_001, usize::MAX] {
        let plan = Bootstrap { resamples, ..Bootstrap::new(0) };
        assert!(matches!(bootstrap_median(&two, P95, &plan), Err(StatsError::Parameter { .. })));
    }
    let huge = Bootstrap { blocks: Blocks::Moving(usize::MAX), ..Bootstrap::new(0) };
    let whole = bootstrap_median(&two, P95, &huge).unwrap();
    assert_eq!((whole.lo(), whole.hi()), (1.5, 1.5)); // the only block is the sample itself
}

/// Median of a mixture of two normal distributions, by bisection of its distribution function.
fn mixture_median(share: f64, far: f64) -> f64 {
    let normal = Normal::new(0.0, 1.0).unwrap();
    let (mut lo, mut hi) = (-10.0, far + 10.0);
    for _ in 0..200 {
        let mid = (lo + hi) / 2.0;
        if (1.0 - share) * normal.cdf(mid) + share * normal.cdf(mid - far) < 0.5 { lo = mid } else { hi = mid }
    }
    lo
}

/// Share of intervals that hold the true median, bootstrap and order statistics, of `runs` samples of `n`.
fn coverage(n: usize, runs: usize, truth: f64, mut draw: impl FnMut(&mut Source, usize) -> Vec<f64>) -> (f64, f64) {
    let mut source = Source::new(n as u64);
    let (mut bootstrap, mut order) = (0, 0);
    for run in 0..runs {
        let sample = Sample::new(&draw(&mut source, n)).unwrap();
        let plan = Bootstrap { resamples: 1000, ..Bootstrap::new(run as u64) };
        bootstrap += usize::from(bootstrap_median(&sample, P95, &plan).unwrap().contains(truth));
        order += usize::from(order_statistic_median(&sample, P95).is_ok_and(|o| o.interval.contains(truth)));
    }
    (bootstrap as f64 / runs as f64, order as f64 / runs as f64)
}

/// 1000 runs place a coverage of 95 % to ±2.1 % (3 standard errors). The order-statistic interval is conservative by
/// construction; the percentile bootstrap is allowed its known shortfall on small samples.
#[test]
fn intervals_cover_the_median_of_independent_samples() {
    type Draw = fn(&mut Source) -> f64;
    let bimodal: Draw = |s| if s.uniform() < 0.3 { 6.0 + s.normal() } else { s.normal() };
    let cases: [(&str, f64, Draw); 3] = [
        ("normal", 0.0, |s| s.normal()),
        ("lognormal", 1.0, |s| s.normal().exp()),
        ("bimodal", mixture_median(0.3, 6.0), bimodal),
    ];
    for (name, truth, draw) in cases {
        for (n, least) in [(8, 0.88), (12, 0.88), (25, 0.92), (100, 0.925)] {
            let (bootstrap, order) = coverage(n, 1000, truth, |s, n| (0..n).map(|_| draw(s)).collect());
            eprintln!("{name}, n = {n}: bootstrap {bootstrap:.3}, order statistics {order:.3}");
            assert!((least..=0.985).contains(&bootstrap), "{name}, n = {n}: bootstrap covers {bootstrap}");
            assert!(order >= 0.929, "{name}, n = {n}: order statistics cover {order}");
        }
    }
}

/// Autocorrelated samples carry less information than their number says: intervals for independent ones are far too
/// narrow, blocks repair most of it.
#[test]
fn blocks_repair_the_coverage_of_dependent_samples() {
    let (blocks, independent) = coverage(200, 500, 0.0, |s, n| s.autoregression(0.6, n));
    eprintln!("AR(1) 0.6, n = 200: blocks {blocks:.3}, order statistics {independent:.3}");
    assert!(independent < 0.80, "the case is not hard enough: {independent}");
    assert!(blocks >= 0.88, "blocks cover {blocks}");
}

/// White noise needs no blocks (few false alarms); an autoregression needs about (√6·φ/(1−φ²))^⅔ · n^⅓ (the optimum of
/// the mean for an AR(1), from its spectrum: Politis and White 2004).
#[test]
fn block_lengths_are_about_the_optimum() {
    let mut source = Source::new(21);
    let alarms = (0..400).filter(|_| block_length(&Sample::new(&source.autoregression(0.0, 100)).unwrap()) > 1).count();
    assert!(alarms <= 40, "{alarms} of 400 independent samples got blocks");
    for phi in [0.3, 0.6, 0.8] {
        let n = 2000_usize;
        let expected = (6.0_f64.sqrt() * phi / (1.0 - phi * phi)).powf(2.0 / 3.0) * (n as f64).cbrt();
        let lengths: Vec<f64> =
            (0..50).map(|_| block_length(&Sample::new(&source.autoregression(phi, n)).unwrap()) as f64).collect();
        let typical = Sample::new(&lengths).unwrap().median();
        assert!((typical / expected).ln().abs() < 0.4, "phi {phi}: {typical} against {expected:.1}");
    }
}

/// The budget of the inner loop: 100 samples, 2000 resamples, within a millisecond. Only a release build is held to it,
/// and then with slack for a busy machine.
#[test]
fn bootstrap_is_fast() {
    let mut source = Source::new(31);
    let values: Vec<f64> = (0..100).map(|_| source.normal()).collect();
    let sample = Sample::new(&values).unwrap();
    for blocks in [Blocks::Independent, Blocks::Moving(5)] {
        let plan = Bootstrap { blocks, ..Bootstrap::new(0) };
        let best = (0..50)
            .map(|_| {
                let start = Instant::now();
                std::hint::black_box(bootstrap_median(&sample, P95, &plan).unwrap());
                start.elapsed().as_secs_f64()
            })
            .fold(f64::INFINITY, f64::min);
        eprintln!("{blocks:?}: {:.3} ms", best * 1e3);
        assert!(cfg!(debug_assertions) || best < 2e-3, "{blocks:?}: {best} s");
    }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn intervals_lie_within_the_samples_and_scale(
        values in prop::collection::vec(prop_oneof![0.1..1e6_f64, (1..5_i32).prop_map(f64::from)], 6..120),
        seed in any::<u64>(),
        power in -3..4_i32,
    ) {
        let sample = Sample::positive(&values).unwrap();
        // A power of two scales without rounding, so results must scale exactly.
        let scale = 2.0_f64.powi(power);
        let scaled = Sample::positive(&values.iter().map(|v| v * scale).collect::<Vec<_>>()).unwrap();
        let plan = Bootstrap { resamples: 200, ..Bootstrap::new(seed) };
        let pairs = [
            (bootstrap_median(&sample, P95, &plan).unwrap(), bootstrap_median(&scaled, P95, &plan).unwrap()),
            (
                order_statistic_median(&sample, P95).unwrap().interval,
                order_statistic_median(&scaled, P95).unwrap().interval,
            ),
        ];
        for (interval, scaled) in &pairs {
            prop_assert!(sample.min() <= interval.lo() && interval.lo() <= interval.hi());
            prop_assert!(interval.hi() <= sample.max());
            prop_assert_eq!((interval.lo() * scale, interval.hi() * scale), (scaled.lo(), scaled.hi()));
            prop_assert!(interval.half_width() >= 0.0 && interval.contains(interval.lo()));
        }
        let (a, b) = (pairs[0].0, pairs[1].0);
        let hull = a.hull(&b);
        prop_assert_eq!((hull.lo(), hull.hi()), (a.lo().min(b.lo()), a.hi().max(b.hi())));
        // Independent draws do not see the order of the samples.
        let mut reversed = values;
        reversed.reverse();
        let plan = Bootstrap { blocks: Blocks::Independent, ..plan };
        prop_assert_eq!(
            bootstrap_median(&Sample::positive(&reversed).unwrap(), P95, &plan),
            bootstrap_median(&sample, P95, &plan)
        );
        let length = block_length(&sample);
        prop_assert!(length >= 1 && length <= (sample.len() / 3).max(1));
    }

    #[test]
    fn equal_samples_have_an_interval_of_no_width(value in 0.1..1e9_f64, n in 6..80_usize) {
        let sample = Sample::positive(&vec![value; n]).unwrap();
        let bootstrap = bootstrap_median(&sample, P95, &Bootstrap::new(0)).unwrap();
        prop_assert_eq!((bootstrap.lo(), bootstrap.hi()), (value, value));
    }
}
