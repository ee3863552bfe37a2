//! Bootstrap interval of the median.

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};

use crate::{Interval, Probability, Sample, StatsError, block_length, sample::quantile_in_place};

/// The longest run the bootstrap can be asked for.
const MOST_RESAMPLES: usize = 1_000_000;

/// What is drawn with replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Single samples (Efron 1979): for independent samples.
    Independent,
    /// Runs of this many neighbouring samples (moving blocks, Künsch 1989), which keeps the dependence inside a run.
    /// Clamped to the sample count; 1 is [`Blocks::Independent`].
    Moving(usize),
    /// The length of [`block_length`].
    Automatic,
}

/// How to resample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// How many medians to draw; 2000 place the ends of a 95 % interval to about a tenth of its width.
    pub resamples: usize,
    /// What is drawn.
    pub blocks: Blocks,
    /// Seed of the generator (PCG, 64 bits out of 128).
    pub seed: u64,
}

impl Bootstrap {
    /// 2000 resamples of blocks of automatic length.
    pub fn new(seed: u64) -> Self {
        Self { resamples: 2000, blocks: Blocks::Automatic, seed }
    }
}

/// Percentile bootstrap interval of the median (Efron and Tibshirani, An Introduction to the Bootstrap, 13).
///
/// Percentile and not BCa: the acceleration of BCa is estimated by the jackknife, which is inconsistent for the median.
///
/// It falls short of its confidence on small samples: in simulation 95 % intervals cover the median of 8 samples in
/// about 90 % of cases and of 12 in 90–94 % (use [`crate::order_statistic_median`] beside it there), of 25 in 94 %, of 100
/// in 95 %; with blocks, on 200 samples of an AR(1) of 0.6, in 90 % where intervals for independent samples cover 78 %.
///
/// A resample is drawn as counts over the sorted samples; its median is then where the running count passes the middle.
/// No value is copied, sorted or allocated per resample.
///
/// # Errors
/// [`StatsError::TooFew`] for a single sample; [`StatsError::Parameter`] when `resamples` is below 100 or above a million.
pub fn bootstrap_median(
    sample: &Sample,
    confidence: Probability,
    bootstrap: &Bootstrap,
) -> Result<Interval, StatsError> {
    let n = sample.len();
    if n < 2 {
        return Err(StatsError::TooFew { what: "a bootstrap interval", needed: 2, got: n });
    }
    if !(100..=MOST_RESAMPLES).contains(&bootstrap.resamples) {
        let value = bootstrap.resamples as f64;
        return Err(StatsError::Parameter { name: "resamples", value, reason: "it must be in 100..=1000000" });
    }
    let block = match bootstrap.blocks {
        Blocks::Independent => 1,
        Blocks::Moving(length) => length.clamp(1, n),
        Blocks::Automatic => block_length(sample),
    };

    let mut rng = Pcg64Mcg::seed_from_u64(bootstrap.seed);
    let mut counts = vec![0_u32; n];
    let positions = if block > 1 { sample.positions() } else { Vec::new() };
    let mut medians = Vec::with_capacity(bootstrap.resamples);
    for _ in 0..bootstrap.resamples {
        counts.fill(0);
        if block > 1 {
            draw_blocks(&mut rng, &positions, block, &mut counts);
        } else {
            draw_single(&mut rng, &mut counts);
        }
        medians.push(median_of_counts(sample.sorted(), &counts));
    }

    let tail = (1.0 - confidence.get()) / 2.0;
    let lo = quantile_in_place(&mut medians, Probability::new(tail)?);
    let hi = quantile_in_place(&mut medians, Probability::new(1.0 - tail)?);
    Ok(Interval::new(lo, hi, confidence))
}

/// A number in `0..n` from 32 random bits by multiplication; the bias is below `n / 2^32`.
fn scale(bits: u32, n: usize) -> usize {
    ((u64::from(bits) * n as u64) >> 32) as usize
}

/// Counts `counts.len()` independent draws. The order of independent draws does not matter, so positions among the sorted
/// samples are drawn directly, two from each random word.
fn draw_single(rng: &mut Pcg64Mcg, counts: &mut [u32]) {
    let n = counts.len();
    for _ in 0..n / 2 {
        let bits = rng.next_u64();
        counts[scale(bits as u32, n)] += 1;
        counts[scale((bits >> 32) as u32, n)] += 1;
    }
    if n % 2 == 1 {
        counts[scale((rng.next_u64() >> 32) as u32, n)] += 1;
    }
}

/// Counts as many draws as there are positions, in runs of `block` neighbours; the last run is cut short.
fn draw_blocks(rng: &mut Pcg64Mcg, positions: &[u32], block: usize, counts: &mut [u32]) {
    let n = positions.len();
    let mut left = n;
    while left > 0 {
        let start = scale((rng.next_u64() >> 32) as u32, n - block + 1);
        let run = block.min(left);
        for &position in &positions[start..start + run] {
            counts[position as usize] += 1;
        }
        left -= run;
    }
}

/// Median of the multiset that holds `sorted[i]` as often as `counts[i]` says, `sorted.len()` in all.
fn median_of_counts(sorted: &[f64], counts: &[u32]) -> f64 {
    let n = sorted.len();
    let (lower, upper) = ((n - 1) / 2, n / 2);
    let mut seen = 0;
    let mut index = 0;
    while seen + counts[index] as usize <= lower {
        seen += counts[index] as usize;
        index += 1;
    }
    let a = sorted[index];
    while seen + counts[index] as usize <= upper {
        seen += counts[index] as usize;
        index += 1;
    }
    a + (sorted[index] - a) / 2.0
}
