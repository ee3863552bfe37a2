//! Point estimates and trends against other implementations and brute force.

mod common;

use common::{Source, config};
use kbench_stats::{Fences, Probability, Sample, StatsError, autocorrelation, least_squares, mann_kendall, theil_sen};
use proptest::prelude::*;
use statrs::statistics::{Data, Max, Min, OrderStatistics, Statistics};

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

/// Expected values from Python 3: `statistics.quantiles(d, n=20, method='inclusive')`, `mean`, `stdev`.
#[test]
fn seven_values_agree_with_python() {
    let sample = Sample::positive(&[13.0, 3.5, 2.0, 40.0, 3.5, 7.25, 11.0]).unwrap();
    assert!(close(sample.quantile(Probability::P05), 2.45));
    assert!(close(sample.quantile(Probability::P25), 3.5));
    assert_eq!(sample.median(), 7.25);
    assert!(close(sample.quantile(Probability::P75), 12.0));
    assert!(close(sample.quantile(Probability::P95), 31.9));
    assert!(close(sample.mean(), 11.464_285_714_285_714));
    assert!(close(sample.sd().unwrap(), 13.235_391_767_458_008));
    assert_eq!(sample.mad(), 3.75); // |d - 7.25| sorted: 0 3.75 3.75 3.75 5.25 5.75 32.75
    assert_eq!(sample.ranks(), [6.0, 2.5, 1.0, 7.0, 2.5, 4.0, 5.0]);
}

#[test]
fn a_single_value_is_its_own_quantiles() {
    let sample = Sample::positive(&[3.0]).unwrap();
    assert_eq!((sample.median(), sample.mean(), sample.mad(), sample.min(), sample.max()), (3.0, 3.0, 0.0, 3.0, 3.0));
    assert_eq!(sample.quantile(Probability::P95), 3.0);
    assert!(matches!(sample.sd(), Err(StatsError::TooFew { needed: 2, got: 1, .. })));
}

#[test]
fn what_is_not_a_sample_is_refused() {
    assert!(matches!(Sample::new(&[]), Err(StatsError::TooFew { .. })));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e200, 1e-200, -1e200] {
        assert!(matches!(Sample::new(&[1.0, bad]), Err(StatsError::OutOfRange { index: 1, .. })), "{bad}");
    }
    assert_eq!(Sample::positive(&[1.0, 2.0, 0.0]), Err(StatsError::NotPositive { index: 2, value: 0.0 }));
    assert_eq!(Sample::positive(&[-1.0]), Err(StatsError::NotPositive { index: 0, value: -1.0 }));
    assert!(Sample::positive(&[f64::NAN]).is_err());
    for p in [0.0, 1.0, -0.1, f64::NAN, f64::INFINITY] {
        assert!(Probability::new(p).is_err(), "{p}");
    }
}

/// A spread of 1 on a value of 10^9 (a second in ns): the textbook formula `E[x²] − E[x]²` would lose it.
#[test]
fn a_small_spread_on_a_large_value_keeps_its_digits() {
    let values: Vec<f64> = (0..1000).map(|i| 1e12 + f64::from(i % 2)).collect();
    let sample = Sample::positive(&values).unwrap();
    assert_eq!(sample.mean(), 1e12 + 0.5);
    assert!(close(sample.sd().unwrap(), (250.0_f64 / 999.0).sqrt()));
}

/// Quartiles of 1..=11 and 100 by hand (type 7, n = 12): 3.75 and 9.25; fences 9.25 + 1.5·5.5 = 17.5 and 25.75.
#[test]
fn tukey_fences_flag_and_keep() {
    let mut values: Vec<f64> = (1..=11).map(f64::from).collect();
    values.push(100.0);
    let sample = Sample::positive(&values).unwrap();
    let fences = Fences::of(&sample);
    assert_eq!((fences.low_mild, fences.high_mild, fences.high_severe), (-4.5, 17.5, 25.75));
    let found = fences.count(&sample);
    assert_eq!((found.high_severe, found.total()), (1, 1));
    assert!(fences.is_outlier(100.0) && !fences.is_outlier(17.5));
    assert_eq!(sample.len(), 12);
}

/// An alternating series of even length: r1 = −(n−1)/n, r2 = (n−2)/n.
#[test]
fn autocorrelation_of_known_series() {
    let alternating: Vec<f64> = (0..10).map(|i| f64::from(i % 2)).collect();
    assert!(close(autocorrelation(&alternating, 1).unwrap(), -0.9));
    assert!(close(autocorrelation(&alternating, 2).unwrap(), 0.8));
    assert!(close(autocorrelation(&alternating, 0).unwrap(), 1.0));
    assert_eq!(autocorrelation(&[5.0; 9], 1), Ok(0.0));
    assert_eq!(autocorrelation(&[1.0, 2.0], 7), Ok(0.0));
    assert_eq!(autocorrelation(&[], 1), Ok(0.0));
    assert!(autocorrelation(&[1.0, f64::NAN], 1).is_err());
    // A first-order autoregression has r1 = phi; 20 000 values place it to about 0.01.
    let series = Source::new(1).autoregression(0.6, 20_000);
    assert!((autocorrelation(&series, 1).unwrap() - 0.6).abs() < 0.03);
}

/// Expected values from Python 3: `statistics.linear_regression` and the residuals' standard error by its definition.
#[test]
fn least_squares_agrees_with_python() {
    let line = least_squares(&[1.0, 2.0, 4.0, 7.0, 11.0], &[3.1, 4.9, 9.2, 15.0, 23.4]).unwrap();
    assert!(close(line.slope, 2.031_818_181_818_181_7));
    assert!(close(line.intercept, 0.960_909_090_909_092_7));
    assert!(close(line.slope_error.unwrap(), 0.020_248_683_481_561_3));
}

#[test]
fn lines_without_an_answer_are_refused() {
    for fit in [least_squares, theil_sen] {
        assert!(matches!(fit(&[1.0, 2.0], &[1.0]), Err(StatsError::Mismatch { x: 2, y: 1 })));
        assert!(matches!(fit(&[1.0], &[1.0]), Err(StatsError::TooFew { .. })));
        assert!(matches!(fit(&[3.0, 3.0], &[1.0, 2.0]), Err(StatsError::NoSpan { .. })));
        assert!(matches!(fit(&[1.0, f64::NAN], &[1.0, 2.0]), Err(StatsError::OutOfRange { index: 1, .. })));
        assert_eq!(fit(&[1.0, 2.0], &[1.0, 3.0]).unwrap().slope_error, None);
    }
}

/// A quarter of the points thrown far off: least squares follows them, Theil–Sen does not.
#[test]
fn theil_sen_withstands_wild_points() {
    for n in [40, 2000] {
        let mut source = Source::new(3);
        let x: Vec<f64> = (0..n).map(f64::from).collect();
        let y: Vec<f64> = (0..n)
            .map(|i| {
                let wild = if source.below(4) == 0 { 50.0 * f64::from(i) } else { 0.0 };
                7.0 + 0.5 * f64::from(i) + 0.1 * source.normal() + wild
            })
            .collect();
        assert!((theil_sen(&x, &y).unwrap().slope - 0.5).abs() < 0.05, "n = {n}");
        assert!((least_squares(&x, &y).unwrap().slope - 0.5).abs() > 5.0, "n = {n}");
    }
}

/// The stated error of a slope against the scatter of slopes over many data sets (all pairs, n = 60).
#[test]
fn slope_errors_are_of_the_right_size() {
    let x: Vec<f64> = (0..60).map(f64::from).collect();
    for fit in [least_squares, theil_sen] {
        let mut source = Source::new(4);
        let fits: Vec<_> = (0..500)
            .map(|_| fit(&x, &x.iter().map(|x| 5.0 + 0.1 * x + source.normal()).collect::<Vec<_>>()).unwrap())
            .collect();
        let slopes: Vec<f64> = fits.iter().map(|l| l.slope).collect();
        let scatter = Sample::new(&slopes).unwrap().sd().unwrap();
        let stated = fits.iter().filter_map(|l| l.slope_error).sum::<f64>() / fits.len() as f64;
        assert!((stated / scatter - 1.0).abs() < 0.12, "stated {stated}, scatter {scatter}");
    }
}

/// Without a trend |z| > 1.96 in about 5 % of data sets (1000 sets: 3.0 % to 7.0 % is ±3 standard errors).
#[test]
fn mann_kendall_keeps_its_level_and_finds_trends() {
    let mut source = Source::new(5);
    let mut false_alarms = 0;
    for _ in 0..1000 {
        let values: Vec<f64> = (0..40).map(|_| source.normal()).collect();
        false_alarms += usize::from(mann_kendall(&Sample::new(&values).unwrap()).z.abs() > 1.96);
    }
    assert!((30..=70).contains(&false_alarms), "{false_alarms} of 1000");
    let rising: Vec<f64> = (0..40).map(|i| f64::from(i) * 0.1 + source.normal()).collect();
    assert!(mann_kendall(&Sample::new(&rising).unwrap()).z > 4.0);
    assert_eq!(mann_kendall(&Sample::new(&[2.0; 30]).unwrap()).z, 0.0);
}

fn values(most: usize) -> impl Strategy<Value = Vec<f64>> {
    // Few distinct values half of the time, so that ties are common.
    prop_oneof![
        prop::collection::vec(-1e6..1e6_f64, 1..most),
        prop::collection::vec((0..6_i32).prop_map(f64::from), 1..most)
    ]
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn estimates_agree_with_statrs(values in values(60)) {
        let sample = Sample::new(&values).unwrap();
        let mut data = Data::new(values.clone());
        prop_assert!(close(sample.median(), OrderStatistics::median(&mut data)));
        prop_assert_eq!(sample.min(), Min::min(&data));
        prop_assert_eq!(sample.max(), Max::max(&data));
        prop_assert!(close(sample.mean(), Statistics::mean(&values)));
        if values.len() > 1 {
            prop_assert!(close(sample.sd().unwrap(), Statistics::std_dev(&values)));
        }
    }

    /// A midrank by its definition: 1, plus the values below, plus half of the other equal ones.
    #[test]
    fn ranks_agree_with_counting(values in values(60)) {
        let found = Sample::new(&values).unwrap().ranks();
        for (value, rank) in values.iter().zip(found) {
            let below = values.iter().filter(|v| *v < value).count() as f64;
            let equal = values.iter().filter(|v| *v == value).count() as f64;
            prop_assert_eq!(rank, 1.0 + below + (equal - 1.0) / 2.0);
        }
    }

    #[test]
    fn quantiles_are_ordered_bounded_and_blind_to_order(values in values(60), p in 0.001..0.999_f64, step in 0.0..0.5_f64) {
        let sample = Sample::new(&values).unwrap();
        let p_low = Probability::new(p * 0.5).unwrap();
        let p_high = Probability::new(p * 0.5 + step).unwrap();
        let (low, high) = (sample.quantile(p_low), sample.quantile(p_high));
        prop_assert!(sample.min() <= low && low <= high && high <= sample.max());
        let mut reversed = values.clone();
        reversed.reverse();
        prop_assert_eq!(Sample::new(&reversed).unwrap().quantile(p_low), low);
    }

    #[test]
    fn estimates_scale_and_shift(values in values(40), scale in 0.01..100.0_f64, shift in -1e3..1e3_f64) {
        let sample = Sample::new(&values).unwrap();
        let moved: Vec<f64> = values.iter().map(|v| v * scale + shift).collect();
        let moved = Sample::new(&moved).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + a.abs());
        prop_assert!(close(moved.median(), sample.median() * scale + shift));
        prop_assert!(close(moved.mad(), sample.mad() * scale));
        prop_assert!(close(moved.quantile(Probability::P95), sample.quantile(Probability::P95) * scale + shift));
    }

    #[test]
    fn mann_kendall_agrees_with_counting_pairs(values in values(80)) {
        let mut s = 0_i64;
        for i in 0..values.len() {
            for j in i + 1..values.len() {
                s += i64::from(values[j] > values[i]) - i64::from(values[j] < values[i]);
            }
        }
        let found = mann_kendall(&Sample::new(&values).unwrap());
        prop_assert_eq!(found.s, s);
        prop_assert!(found.z.is_finite() && found.tau.abs() <= 1.0);
    }

    #[test]
    fn lines_pass_through_points_on_a_line(
        x in prop::collection::vec(-1e3..1e3_f64, 2..700),
        slope in -1e3..1e3_f64,
        intercept in -1e3..1e3_f64,
    ) {
        let y: Vec<f64> = x.iter().map(|x| intercept + slope * x).collect();
        for fit in [least_squares, theil_sen] {
            let line = fit(&x, &y);
            // Two random x may be too close to determine a line; a handful never is here.
            if x.len() > 5 {
                let line = line.unwrap();
                prop_assert!((line.slope - slope).abs() < 1e-5 && (line.intercept - intercept).abs() < 1e-2, "{line:?}");
            }
        }
    }

    /// Theil–Sen by its definition: the median over all pairs.
    #[test]
    fn theil_sen_agrees_with_its_definition(y in prop::collection::vec(-100.0..100.0_f64, 2..30)) {
        let x: Vec<f64> = (0..y.len()).map(|i| (i * i) as f64).collect();
        let mut slopes = Vec::new();
        for i in 0..y.len() {
            for j in i + 1..y.len() {
                slopes.push((y[j] - y[i]) / (x[j] - x[i]));
            }
        }
        let expected = OrderStatistics::median(&mut Data::new(slopes));
        prop_assert!(close(theil_sen(&x, &y).unwrap().slope, expected));
    }

    /// Any bits whatever: an error or finite numbers, never a panic.
    #[test]
    fn any_numbers_give_finite_results_or_an_error(bits in prop::collection::vec(any::<u64>(), 0..40)) {
        let values: Vec<f64> = bits.iter().map(|&b| f64::from_bits(b)).collect();
        let usable: Vec<f64> = values.iter().copied().filter(|v| Sample::new(&[*v]).is_ok()).collect();
        if usable.len() < values.len() {
            prop_assert!(Sample::new(&values).is_err());
        }
        if let Ok(sample) = Sample::new(&usable) {
            prop_assert!(sample.median().is_finite() && sample.mean().is_finite() && sample.mad().is_finite());
            prop_assert!(sample.sd().map_or(true, f64::is_finite));
            prop_assert!(mann_kendall(&sample).z.is_finite());
            let x: Vec<f64> = (0..usable.len()).map(|i| i as f64).collect();
            for (x, y) in [(&x, &usable), (&usable, &x)] {
                for line in [least_squares(x, y), theil_sen(x, y)].into_iter().flatten() {
                    prop_assert!(line.slope.is_finite() && line.intercept.is_finite(), "{line:?}");
                    prop_assert!(line.slope_error.is_none_or(f64::is_finite));
                }
            }
        }
    }
}
