//! Tests, corrections, schedules and verdicts against other implementations, enumeration and figures of SciPy 1.17.1.

#![allow(clippy::unwrap_used)] // helpers outside of test functions, too

mod common;

use common::{Source, config};
use kbench_stats::*;
use proptest::prelude::*;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * a.abs().max(b.abs()) + 1e-300
}

fn rule() -> Rule {
    Rule::new(0.01, 0.0, Probability::new(0.05).unwrap()).unwrap()
}

#[test]
fn normal_tails_agree_with_statrs() {
    let normal = Normal::new(0.0, 1.0).unwrap();
    // statrs gives ten digits.
    for i in -800..=3000 {
        let z = f64::from(i) / 100.0;
        let (own, other) = (Reference::Normal.tail(z), normal.sf(z));
        assert!(close(own, other, 1e-9) || (own - other).abs() < 1e-15, "{z}: {own} {other}");
    }
    // scipy.stats.norm.sf, which has more digits than statrs; 3 is where the series gives way to the fraction.
    for (z, tail) in [
        (-1.06, 0.855_427_700_336_090_4),
        (0.3, 0.382_088_577_811_047_3),
        (2.999, 1.3543365337271057e-03),
        (3.001, 1.3454728250849653e-03),
        (10.0, 7.619_853_024_160_47e-24),
        (20.0, 2.7536241186061556e-89),
    ] {
        assert!(close(Reference::Normal.tail(z), tail, 1e-12), "{z}: {} {tail}", Reference::Normal.tail(z));
    }
    assert_eq!(Reference::Normal.tail(f64::MAX), 0.0);
    assert_eq!(Reference::Normal.tail(f64::MIN), 1.0);
    for p in [0.5, 0.9, 0.95, 0.99, 0.998_437_5, 0.999_999] {
        let reach = Reference::Normal.reach(Probability::new(p).unwrap());
        assert!(close(reach, normal.inverse_cdf((1.0 + p) / 2.0), 1e-9), "{p}: {reach}");
    }
}

#[test]
fn students_tails_agree_with_statrs_and_scipy() {
    for degrees in [1, 2, 3, 4, 7, 30, 31, 1000] {
        let other = StudentsT::new(0.0, 1.0, f64::from(degrees)).unwrap();
        for i in -40..=80 {
            let t = f64::from(i) / 8.0;
            let own = Reference::Student(degrees).tail(t);
            assert!((own - other.sf(t)).abs() < 1e-11, "{degrees} {t}: {own} {}", other.sf(t));
        }
    }
    // scipy.stats.t.sf(2.5, df), t.ppf(0.975, df)
    for (degrees, tail, reach) in [
        (1, 0.121_118_941_590_843_41, 12.706_204_736_174_694),
        (2, 0.064_805_860_110_755_41, 4.302_652_729_749_462),
        (7, 0.020_496_109_292_876_444, 2.364_624_251_592_784),
        (30, 0.009_057_824_534_033_344, 2.042_272_456_301_237_8),
    ] {
        let reference = Reference::Student(degrees);
        assert!(close(reference.tail(2.5), tail, 1e-12));
        assert!(close(reference.reach(Probability::P95), reach, 1e-9));
    }
    assert!(close(Reference::Student(200_000).tail(1.96), Reference::Normal.tail(1.96), 1e-12));
}

/// Over all 2^n signs: the share whose sum is at most, or at least, the one observed.
fn enumerated_p(differences: &[f64]) -> f64 {
    let values: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    let rank = |v: f64| {
        let below = values.iter().filter(|w| w.abs() < v.abs()).count();
        let equal = values.iter().filter(|w| w.abs() == v.abs()).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    let ranks: Vec<f64> = values.iter().map(|v| rank(*v)).collect();
    let observed: f64 = values.iter().zip(&ranks).filter(|(v, _)| **v > 0.0).map(|(_, r)| r).sum();
    let (mut below, mut above) = (0, 0);
    for signs in 0..1_u32 << values.len() {
        let sum: f64 = ranks.iter().enumerate().filter(|(i, _)| signs >> i & 1 == 1).map(|(_, r)| r).sum();
        below += u32::from(sum <= observed);
        above += u32::from(sum >= observed);
    }
    (2.0 * f64::from(below.min(above)) / f64::from(1_u32 << values.len())).min(1.0)
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn signed_rank_is_what_enumeration_says(values in prop::collection::vec(-6_i32..=6, 1..12)) {
        let differences: Vec<f64> = values.iter().map(|v| f64::from(*v) / 4.0).collect();
        let found = wilcoxon_signed_rank(&differences).unwrap();
        prop_assert!(found.exact);
        prop_assert!(close(found.p, enumerated_p(&differences), 1e-12), "{found:?} {}", enumerated_p(&differences));
    }

    /// Holm is the closed test of Bonferroni: a hypothesis' adjusted p-value is the largest of `|S|·min p(S)` over all
    /// sets S that hold it (Marcus, Peritz and Gabriel 1976).
    #[test]
    fn holm_is_the_closure_of_bonferroni(p in prop::collection::vec(0.0_f64..=1.0, 1..9)) {
        let adjusted = Correction::Holm.adjust(&p).unwrap();
        for i in 0..p.len() {
            let mut largest = 0.0_f64;
            for set in (0..1_usize << p.len()).filter(|set| set >> i & 1 == 1) {
                let members = (0..p.len()).filter(|j| set >> j & 1 == 1);
                let least = members.map(|j| p[j]).fold(1.0, f64::min);
                largest = largest.max((set.count_ones() as f64 * least).min(1.0));
            }
            prop_assert!(close(adjusted[i], largest, 1e-12), "{p:?} {adjusted:?}");
        }
    }

    /// Benjamini–Hochberg by its definition: reject the k smallest for the largest k with `p(k) <= k·q/m`.
    #[test]
    fn benjamini_hochberg_rejects_what_its_definition_rejects(
        p in prop::collection::vec(0.0_f64..=1.0, 1..9), q in 0.01_f64..0.99,
    ) {
        let mut sorted = p.clone();
        sorted.sort_by(f64::total_cmp);
        let count = p.len() as f64;
        let limit = (1..=p.len()).rev().find(|k| sorted[k - 1] <= *k as f64 * q / count).map(|k| sorted[k - 1]);
        for (p, adjusted) in p.iter().zip(Correction::BenjaminiHochberg.adjust(&p).unwrap()) {
            prop_assert_eq!(adjusted <= q, limit.is_some_and(|limit| *p <= limit));
        }
    }

    #[test]
    fn comparing_never_panics_and_never_says_nan(
        values in prop::collection::vec(prop_oneof![Just(0.0), Just(f64::NAN), 1e-200..1e200_f64, 90.0..110.0_f64], 4..80),
        seed in any::<u64>(),
    ) {
        let blocks: Vec<Block> =
            values.chunks_exact(4).map(|v| Block { base: [v[0], v[3]], candidate: [v[1], v[2]] }).collect();
        if let Ok(found) = compare_paired(&blocks, Some(&blocks), &rule(), Look::ONLY, seed) {
            prop_assert!(found.time.ratio > 0.0 && found.time.p_changed <= 1.0 && found.time.p_different <= 1.0);
            prop_assert_eq!(found.time.interval.is_none(), found.doubt == Some(Doubt::TooFew));
        }
    }
}

#[test]
fn signed_rank_agrees_with_scipy() {
    // scipy.stats.wilcoxon of nine differences: statistic 5.0, p = 0.0390625.
    let found = wilcoxon_signed_rank(&[0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01]).unwrap();
    assert_eq!((found.used, found.w_plus), (9, 40.0));
    assert!(close(found.p, 0.039_062_5, 1e-12));
    // wilcoxon(correction=True, method="asymptotic") of 80 values with ties and a zero: 1392.5, p = 0.3607594931428083.
    let many: Vec<f64> = (0..80).map(|i| f64::from((i * 37) % 101 - 47) / 10.0).collect();
    let found = wilcoxon_signed_rank(&many).unwrap();
    assert_eq!((found.used, found.exact), (79, false));
    assert_eq!(found.w_plus.min(79.0 * 80.0 / 2.0 - found.w_plus), 1392.5);
    assert!(close(found.p, 0.360_759_493_142_808_3, 1e-10), "{found:?}");
    // Nothing to rank.
    assert_eq!(wilcoxon_signed_rank(&[0.0, 0.0]).unwrap().p, 1.0);
    assert!(wilcoxon_signed_rank(&[]).is_err());
    assert!(wilcoxon_signed_rank(&[f64::NAN]).is_err());
}

#[test]
fn corrections_agree_with_scipy() {
    let p = [0.01, 0.04, 0.03, 0.005, 0.2, 0.03];
    // scipy.stats.false_discovery_control
    let expected = [0.03, 0.048, 0.045, 0.03, 0.2, 0.045];
    for (own, other) in Correction::BenjaminiHochberg.adjust(&p).unwrap().iter().zip(expected) {
        assert!(close(*own, other, 1e-12), "{own} {other}");
    }
    assert_eq!(Correction::None.adjust(&p).unwrap(), p);
    assert!(Correction::Holm.adjust(&[0.5, 1.5]).is_err());
    assert!(Correction::Holm.adjust(&[f64::NAN]).is_err());
    assert!(Correction::Holm.adjust(&[]).unwrap().is_empty());
}

#[test]
fn blocks_are_balanced_in_pairs_and_repeat_by_seed() {
    let take = |seed| Schedule::new(seed).take(400).collect::<Vec<_>>();
    assert_eq!(take(7), take(7));
    assert_ne!(take(7), take(8));
    for pair in take(7).chunks(2) {
        assert_ne!(pair[0], pair[1]);
    }
    let first = take(7).iter().step_by(2).filter(|order| **order == BlockOrder::Abba).count();
    assert!((70..=130).contains(&first), "{first} of 200"); // binomial: beyond 4 standard deviations
}

/// A time that grows linearly with the launch leaves nothing in a block; a curved one leaves opposite things in the two.
#[test]
fn drift_cancels() {
    let block = |order: BlockOrder, time: fn(f64) -> f64| {
        let (mut base, mut candidate) = (vec![], vec![]);
        for (i, arm) in order.arms().into_iter().enumerate() {
            if arm == Arm::Base { &mut base } else { &mut candidate }.push(time(i as f64).exp());
        }
        Block { base: [base[0], base[1]], candidate: [candidate[0], candidate[1]] }.log_ratio().unwrap()
    };
    for order in [BlockOrder::Abba, BlockOrder::Baab] {
        assert!(block(order, |i| 3.0 + 0.1 * i).abs() < 1e-12);
    }
    let curved: fn(f64) -> f64 = |i| 0.01 * i * i;
    // ABBA: (1 + 4 − 0 − 9)/2 · 0.01
    assert!((block(BlockOrder::Abba, curved) + 0.02).abs() < 1e-12);
    assert!((block(BlockOrder::Baab, curved) - 0.02).abs() < 1e-12);
}

/// Blocks whose log-ratios are `centre ± spread·k`, symmetric about the centre.
fn blocks(centre: f64, spread: f64, count: usize) -> Vec<Block> {
    (0..count)
        .map(|i| {
            // A fixed shuffle: neighbours are far apart, so that no dependence is seen.
            let k = (i * 7919 % count) as f64 - (count - 1) as f64 / 2.0;
            let candidate = 100.0 * (centre + spread * k / count as f64).exp();
            Block { base: [100.0, 100.0], candidate: [candidate, candidate] }
        })
        .collect()
}

#[test]
fn verdicts() {
    for (centre, spread, count, verdict, doubt) in [
        (0.03_f64, 0.02, 40, Verdict::Slower, None),
        (-0.03, 0.02, 40, Verdict::Faster, None),
        (0.0, 0.02, 40, Verdict::Same, None),
        (0.0, 0.5, 40, Verdict::Inconclusive, Some(Doubt::TooWide)),
        (0.03, 0.02, 5, Verdict::Inconclusive, Some(Doubt::TooFew)),
        // Certain and small: the interval lies within the band.
        (0.004, 0.005, 40, Verdict::Same, None),
        // Certain, but the threshold of 1 % lies in the interval, and the median below it.
        (0.009, 0.02, 40, Verdict::Inconclusive, Some(Doubt::NearThreshold)),
    ] {
        let found = compare_paired(&blocks(centre, spread, count), None, &rule(), Look::ONLY, 1).unwrap();
        assert_eq!((found.verdict, found.doubt), (verdict, doubt), "{centre} {spread} {found:?}");
        assert!(close(found.time.ratio, centre.exp(), 1e-9));
        if let Some(interval) = found.time.interval {
            assert!(interval.contains(found.time.ratio));
            assert_eq!(interval.confidence(), Probability::P95);
        }
    }
}

#[test]
fn the_noise_floor_is_a_threshold_too() {
    let noisy = Rule::new(0.01, 0.05, Probability::new(0.05).unwrap()).unwrap();
    assert_eq!(noisy.threshold(), 0.05);
    let found = compare_paired(&blocks(0.03, 0.02, 40), None, &noisy, Look::ONLY, 1).unwrap();
    assert_eq!(found.verdict, Verdict::Same);
    for (effect, floor, alpha) in
        [(0.0, 0.0, 0.05), (1.0, 0.0, 0.05), (0.01, 1.0, 0.05), (0.01, -0.1, 0.05), (0.01, 0.0, 0.5)]
    {
        assert!(Rule::new(effect, floor, Probability::new(alpha).unwrap()).is_err(), "{effect} {floor} {alpha}");
    }
}

#[test]
fn a_change_of_time_that_is_none_of_cycles_is_doubted() {
    let times = blocks(0.03, 0.02, 40);
    for (cycles, verdict) in [
        (blocks(0.028, 0.02, 40), Verdict::Slower),
        (blocks(0.0, 0.02, 40), Verdict::Inconclusive),
        (blocks(-0.03, 0.02, 40), Verdict::Inconclusive),
        (blocks(0.01, 0.02, 40), Verdict::Inconclusive),
    ] {
        let found = compare_paired(&times, Some(&cycles), &rule(), Look::ONLY, 1).unwrap();
        assert_eq!(found.verdict, verdict, "{found:?}");
        assert_eq!(found.doubt, (verdict == Verdict::Inconclusive).then_some(Doubt::ClocksDiffer));
    }
    assert!(compare_paired(&times, Some(&times[1..]), &rule(), Look::ONLY, 1).is_err());
}

#[test]
fn a_correction_over_cases_can_take_a_verdict_back_and_never_gives_one() {
    let found = compare_paired(&blocks(0.03, 0.02, 40), None, &rule(), Look::ONLY, 1).unwrap();
    assert_eq!(found.decide(&rule(), 0.04).0, Verdict::Slower);
    assert_eq!(found.decide(&rule(), 0.06).0, Verdict::Inconclusive);
    let wide = compare_paired(&blocks(0.03, 0.9, 40), None, &rule(), Look::ONLY, 1).unwrap();
    assert_eq!(wide.decide(&rule(), 0.0).0, Verdict::Inconclusive);
}

#[test]
fn what_a_correction_takes_back_is_told_apart_from_what_is_too_wide() {
    let found = compare_paired(&blocks(0.03, 0.02, 40), None, &rule(), Look::ONLY, 1).unwrap();
    assert_eq!(found.decide(&rule(), 0.06).1, Some(Doubt::AmongMany));
    let wide = compare_paired(&blocks(0.03, 0.9, 40), None, &rule(), Look::ONLY, 1).unwrap();
    assert_eq!(wide.decide(&rule(), 1.0).1, Some(Doubt::TooWide));
}

/// Sampling goes on until the change would be one among all cases; the correction then does not take it back.
#[test]
fn a_session_among_many_stops_where_the_correction_holds() {
    let mut taken_back = [0, 0];
    for (index, cases) in [1, 24].into_iter().enumerate() {
        let found: Vec<PairedComparison> = (0..24)
            .map(|seed| {
                let mut session = PairedSession::new(rule(), seed).unwrap().among(cases);
                let mut source = Source::new(100 + seed);
                loop {
                    let candidate = 102.0 * (0.02 * source.normal()).exp();
                    let block = Block { base: [100.0, 100.0], candidate: [candidate, candidate] };
                    if let Some(found) = session.push(block, None).unwrap() {
                        return found;
                    }
                    assert!(session.blocks().len() < 2000);
                }
            })
            .collect();
        let p: Vec<f64> = found.iter().map(|found| found.time.p_changed).collect();
        let adjusted = Correction::Holm.adjust(&p).unwrap();
        let verdicts = found.iter().zip(adjusted).map(|(found, p)| found.decide(&rule(), p).0);
        taken_back[index] = verdicts.filter(|verdict| *verdict == Verdict::Inconclusive).count();
    }
    assert!(taken_back[0] > 12 && taken_back[1] == 0, "{taken_back:?}");
}

/// The shares of all looks that can be taken sum to 1, and intervals are the wider the smaller the share.
#[test]
fn looks_spend_the_level_once() {
    let mut looks = Looks::new(12, 1.4).unwrap();
    assert_eq!(looks.last(), Look::ONLY);
    let taken: Vec<Look> = (1..=1_000_000).filter_map(|count| looks.due(count)).collect();
    assert_eq!(taken.len(), 16);
    let shares = taken.iter().chain([&looks.last()]).map(|look| 1.0 / look.factor()).sum::<f64>();
    assert!((shares - 1.0).abs() < 1e-12, "{shares}");
    let alpha = Probability::new(0.05).unwrap();
    assert!(close(taken[0].confidence(alpha).get(), 1.0 - 0.05 / 32.0, 1e-12));
    assert!(close(looks.last().confidence(alpha).get(), 0.975, 1e-12));
}

#[test]
fn a_session_stops_at_a_look_when_the_verdict_is_safe() {
    let mut session = PairedSession::new(rule(), 1).unwrap();
    let mut source = Source::new(5);
    let mut stopped = None;
    for _ in 0..100 {
        let candidate = 120.0 * (0.01 * source.normal()).exp();
        let block = Block { base: [100.0, 100.0], candidate: [candidate, candidate] };
        stopped = session.push(block, Some(block)).unwrap();
        if stopped.is_some() {
            break;
        }
    }
    let found = stopped.unwrap();
    assert_eq!((found.verdict, found.blocks, session.blocks().len()), (Verdict::Slower, 12, 12));
    // A bad block is refused and not kept.
    assert!(session.push(Block { base: [0.0, 1.0], candidate: [1.0, 1.0] }, None).is_err());
    assert_eq!(session.blocks().len(), 12);
    // Without cycles for one block there are none for the comparison.
    session.push(Block { base: [100.0, 100.0], candidate: [120.0, 120.0] }, None).unwrap();
    assert!(session.finish().unwrap().cycles.is_none());
    assert!(PairedSession::new(rule(), 1).unwrap().finish().is_err());
}

fn run(median: f64, half_width: f64) -> RunEstimate {
    let reach = half_width.ln_1p();
    RunEstimate::from_interval(median, median * (-reach).exp(), median * reach.exp(), Probability::P95).unwrap()
}

#[test]
fn separate_runs_have_the_error_between_runs_beside_their_own() {
    let z = 1.959_963_984_540_054; // standard normal quantile at 0.975
    let between = BetweenRuns::Assumed { sd: 0.01 };
    let found = compare_unpaired(&run(100.0, 0.002), &run(105.0, 0.003), &between, &rule()).unwrap();
    let own = (0.002_f64.ln_1p() / z).powi(2) + (0.003_f64.ln_1p() / z).powi(2);
    let error = (own + 2.0 * 0.01_f64.powi(2)).sqrt();
    let interval = found.interval.unwrap();
    assert!(close(interval.hi().ln(), 1.05_f64.ln() + z * error, 1e-9));
    assert!(close(interval.lo().ln(), 1.05_f64.ln() - z * error, 1e-9));
    assert!(close(found.log_error().unwrap(), error, 1e-9));
    let normal = Normal::new(0.0, 1.0).unwrap();
    assert!(close(found.p_changed, 2.0 * normal.sf(1.05_f64.ln() / error), 1e-8));
    assert_eq!(rule().decide(&found).0, Verdict::Slower);
    // The same medians 2 % apart are within what two runs differ by anyway; without that term they would not be.
    let near =
        |sd| compare_unpaired(&run(100.0, 0.002), &run(102.0, 0.003), &BetweenRuns::Assumed { sd }, &rule()).unwrap();
    assert_eq!(rule().decide(&near(0.01)).0, Verdict::Inconclusive);
    assert_eq!(rule().decide(&near(0.0)).0, Verdict::Slower);
    assert!(compare_unpaired(&run(1.0, 0.1), &run(1.0, 0.1), &BetweenRuns::Assumed { sd: f64::NAN }, &rule()).is_err());
    for (median, lo, hi) in [(0.0, 0.0, 0.0), (1.0, 2.0, 1.0), (1.0, -1.0, 1.0), (f64::NAN, 1.0, 1.0)] {
        assert!(RunEstimate::from_interval(median, lo, hi, Probability::P95).is_err(), "{median} {lo} {hi}");
    }
}

/// Two runs of one build: about 95 of 100 pairs are SAME within the detectable change, 5 of 100 at most are called different,
/// and a change as large as the detectable one is found in about 95 of 100.
#[test]
fn the_detectable_change_is_detected() {
    let between = BetweenRuns::Assumed { sd: 0.01 };
    let alpha = Probability::new(0.05).unwrap();
    let detectable = between.detectable(alpha).unwrap();
    // Normal quantiles at 0.975 and 0.95: (1.959964 + 1.644854)·0.01414214 = 0.0509798
    assert!(close(detectable.ln_1p(), 0.050_979_8, 1e-6), "{detectable}");
    let wide = rule().with_margin(detectable).unwrap();
    assert_eq!((wide.threshold(), wide.margin()), (0.01, detectable));
    let mut source = Source::new(11);
    let mut verdicts = |ratio: f64| {
        let runs: Vec<Verdict> = (0..2000)
            .map(|_| {
                let mut at = |centre: f64| run(centre * (0.01 * source.normal()).exp(), 1e-4);
                wide.decide(&compare_unpaired(&at(100.0), &at(100.0 * ratio), &between, &wide).unwrap()).0
            })
            .collect();
        move |wanted: Verdict| runs.iter().filter(|verdict| **verdict == wanted).count()
    };
    let equal = verdicts(1.0);
    assert!((1860..=1940).contains(&equal(Verdict::Same)), "{}", equal(Verdict::Same));
    assert!((70..=130).contains(&(equal(Verdict::Faster) + equal(Verdict::Slower))));
    let slower = verdicts(1.0 + detectable);
    assert!((1860..=1940).contains(&slower(Verdict::Slower)), "{}", slower(Verdict::Slower));
}

#[test]
fn the_error_between_runs_can_be_estimated() {
    // Two groups, log-medians ±0.01 and −0.02, 0, 0.02; no error inside: (2·1e-4 + 8e-4)/3 = 1e-3/3.
    let at = |log: f64| run(100.0 * log.exp(), 0.0);
    let groups = [vec![at(0.01), at(-0.01)], vec![at(-0.02), at(0.0), at(0.02)], vec![at(0.5)]];
    let Some(BetweenRuns::Estimated { sd, degrees }) = BetweenRuns::estimate(&groups) else { panic!() };
    assert_eq!(degrees, 3);
    assert!(close(sd, (1e-3_f64 / 3.0).sqrt(), 1e-9), "{sd}");
    assert_eq!(BetweenRuns::estimate(&[vec![at(0.0)], vec![]]), None);
    // An error inside the runs that explains everything leaves nothing between them.
    let wide = [vec![run(100.0, 0.1), run(101.0, 0.1)]];
    assert_eq!(BetweenRuns::estimate(&wide).unwrap().sd(), 0.0);
    // Few degrees of freedom reach farther: t(3) is 3.182 at 97.5 %.
    let found =
        compare_unpaired(&at(0.0), &at(0.0), &BetweenRuns::Estimated { sd: 0.01, degrees: 3 }, &rule()).unwrap();
    assert!(close(found.interval.unwrap().hi().ln(), 3.182_446_305_283_708 * 0.01 * 2.0_f64.sqrt(), 1e-9));
}

#[test]
fn a_step_changes_by_its_cases_shares() {
    let case = |share, ratio, own_error, common_error| WeightedRatio { share, ratio, own_error, common_error };
    let found = step_change(
        &[case(0.5, 0.9, 0.01, 0.0), case(0.2, 1.1, 0.02, 0.0)],
        &OneSided::default(),
        Reference::Normal,
        Probability::P95,
    )
    .unwrap();
    assert!(close(found.change, -0.05 + 0.02, 1e-12));
    assert!(close(found.share, 0.7, 1e-12));
    // The interval against simulation: normal log-ratios, 95 % of the sums lie in it.
    let mut source = Source::new(3);
    let inside = (0..20_000).filter(|_| {
        let sum =
            0.5 * (0.9 * (0.01 * source.normal()).exp() - 1.0) + 0.2 * (1.1 * (0.02 * source.normal()).exp() - 1.0);
        found.interval.contains(sum)
    });
    let share = inside.count() as f64 / 20_000.0;
    assert!((0.945..0.955).contains(&share), "{share}");
    // Common errors add up: two cases of half the step are as uncertain as one of the whole.
    let halves = step_change(
        &[case(0.5, 1.0, 0.0, 0.01), case(0.5, 1.0, 0.0, 0.01)],
        &OneSided::default(),
        Reference::Normal,
        Probability::P95,
    )
    .unwrap();
    let whole =
        step_change(&[case(1.0, 1.0, 0.0, 0.01)], &OneSided::default(), Reference::Normal, Probability::P95).unwrap();
    assert!(close(halves.interval.hi(), whole.interval.hi(), 1e-12));
    for bad in
        [case(1.1, 1.0, 0.0, 0.0), case(-0.1, 1.0, 0.0, 0.0), case(0.5, 0.0, 0.0, 0.0), case(0.5, 1.0, f64::NAN, 0.0)]
    {
        assert!(step_change(&[bad], &OneSided::default(), Reference::Normal, Probability::P95).is_err(), "{bad:?}");
    }
    // What one side alone has adds and subtracts; with half of the step added, the candidate is 1.3 steps that err together.
    let alone = OneSided { added: 0.5, removed: 0.2, common_error: 0.01 };
    let found = step_change(&[case(0.8, 1.0, 0.0, 0.01)], &alone, Reference::Normal, Probability::P95).unwrap();
    assert!(close(found.change, 0.3, 1e-12) && close(found.share, 1.0, 1e-12));
    assert!(close(found.interval.hi() - 0.3, 1.3 * 0.01 * 1.959_963_984_540_054, 1e-9));
    assert!(step_change(&[case(0.9, 1.0, 0.0, 0.0)], &alone, Reference::Normal, Probability::P95).is_err());
    // An error that was estimated from few runs reaches as far as in the intervals of the cases: t(3).
    let found =
        step_change(&[case(1.0, 1.0, 0.0, 0.01)], &OneSided::default(), Reference::Student(3), Probability::P95);
    assert!(close(found.unwrap().interval.hi(), 0.01 * 3.182_446_305_283_708, 1e-9));
    assert!(step_change(&[], &OneSided::default(), Reference::Normal, Probability::P95).is_err());
    assert!(close(geometric_mean(&[0.5, 2.0, 1.0]).unwrap(), 1.0, 1e-12));
    assert!(geometric_mean(&[]).is_err() && geometric_mean(&[0.0]).is_err());
}
