//! The distribution-free interval of the median.

use crate::{Interval, Probability, Sample, StatsError};

/// An interval between two order statistics and the confidence it really has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrderStatisticInterval {
    /// The interval, labelled with the confidence that was asked for.
    pub interval: Interval,
    /// Rank of its lower end, from 1; the upper end has rank `n + 1 − rank`.
    pub rank: usize,
    /// Its exact coverage for independent samples of a continuous distribution: at least what was asked for.
    pub coverage: f64,
}

/// Interval of the median from the binomial distribution (sign test inverted; David and Nagaraja, Order Statistics,
/// 7.1): `[x_(r), x_(n+1−r)]` with the largest `r` for which `P(Bin(n, ½) < r) <= (1 − confidence)/2`. It assumes
/// independence and nothing else, needs no resampling, and is exact but for the steps of the binomial.
///
/// # Errors
/// [`StatsError::TooFew`] when even the range of the samples has less confidence than asked for (95 %: below 6 samples).
pub fn order_statistic_median(sample: &Sample, confidence: Probability) -> Result<OrderStatisticInterval, StatsError> {
    let n = sample.len();
    let tail = (1.0 - confidence.get()) / 2.0;

    // Where the binomial meets the tail exactly (n = 2, 50 %), rounding must not decide.
    let limit = tail * (1.0 + 1e-9);
    // Logarithms, because 2^-n underflows beyond a thousand samples.
    let mut ln_mass = -(n as f64) * std::f64::consts::LN_2;
    let (mut below, mut rank) = (0.0, 0);
    for k in 0..n.div_ceil(2) {
        let with_k = below + ln_mass.exp();
        if with_k > limit {
            break;
        }
        below = with_k;
        rank = k + 1;
        ln_mass += ((n - k) as f64 / (k + 1) as f64).ln();
    }
    if rank == 0 {
        let needed = (-limit.log2()).ceil() as usize;
        return Err(StatsError::TooFew { what: "an order-statistic interval of the median", needed, got: n });
    }
    let interval = Interval::new(sample.sorted()[rank - 1], sample.sorted()[n - rank], confidence);
    Ok(OrderStatisticInterval { interval, rank, coverage: 1.0 - 2.0 * below })
}
