//! Two builds measured in turn.

use crate::{
    Bootstrap, Doubt, Look, Looks, RatioEstimate, Reference, Rule, Sample, StatsError, Verdict, block_length,
    bootstrap_median, order_statistic_median, wilcoxon_signed_rank,
};

/// First look, in blocks: the smallest count at which the range of the blocks is an interval at an interim look's level.
const FIRST_LOOK: usize = 12;
/// Growth from look to look.
const LOOK_RATIO: f64 = 1.4;
/// Resamples per unit of tail probability: the end of an interval rests on at least this many medians beyond it.
const DRAWS_BEYOND: f64 = 20.0;

/// A quantity of the four launches of a block, durations (ns) or cycles: all above zero. The order inside an arm is the
/// order of launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// The two launches of the base.
    pub base: [f64; 2],
    /// The two launches of the candidate.
    pub candidate: [f64; 2],
}

impl Block {
    /// Mean of the logarithms of the candidate's launches minus that of the base's. A drift that is linear over the block
    /// cancels, in ABBA and in BAAB.
    ///
    /// # Errors
    /// When a value is not above zero, not finite or of extreme magnitude; the index counts base, base, candidate, candidate.
    pub fn log_ratio(&self) -> Result<f64, StatsError> {
        let values = [self.base[0], self.base[1], self.candidate[0], self.candidate[1]];
        let sample = Sample::positive(&values)?;
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| sample.ordered()[i].ln());
        Ok((c + d - a - b) / 2.0)
    }
}

/// What interleaved launches say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedComparison {
    /// Blocks.
    pub blocks: usize,
    /// Ratio of times. p-values are corrected for the looks taken; the interval is the repeated one.
    pub time: RatioEstimate,
    /// The same in cycles, where the clock of every launch was known.
    pub cycles: Option<RatioEstimate>,
    /// Length of the runs of blocks that the bootstrap drew; 1: blocks were independent.
    pub run_length: usize,
    /// The verdict of this case alone.
    pub verdict: Verdict,
    /// Why it is inconclusive.
    pub doubt: Option<Doubt>,
}

impl PairedComparison {
    /// The verdict with a p-value that is corrected over cases ([`crate::Correction`]) in the place of this case's own.
    pub fn decide(&self, rule: &Rule, p_changed: f64) -> (Verdict, Option<Doubt>) {
        confirm(rule.decide_among(&self.time, p_changed), &self.time, self.cycles.as_ref(), rule)
    }
}

/// Compares blocks that were taken one after the other: the median of the blocks' log-ratios, its interval by a bootstrap
/// over runs of blocks (length from the autocorrelation) joined with the order-statistic interval, and as p-value the
/// larger of Wilcoxon's signed-rank test and what the interval says. A change is confirmed in cycles where they are given.
///
/// # Errors
/// When there are no blocks, a value is not above zero or not finite, or cycles are not of as many blocks as times.
pub fn compare_paired(
    times: &[Block],
    cycles: Option<&[Block]>,
    rule: &Rule,
    look: Look,
    seed: u64,
) -> Result<PairedComparison, StatsError> {
    let (time, run_length) = estimate(&log_ratios(times)?, rule, look, seed)?;
    let cycles = match cycles {
        Some(cycles) if cycles.len() != times.len() => {
            return Err(StatsError::Mismatch { x: times.len(), y: cycles.len() });
        }
        Some(cycles) => Some(estimate(&log_ratios(cycles)?, rule, look, seed)?.0),
        None => None,
    };
    let (verdict, doubt) = confirm(rule.decide(&time), &time, cycles.as_ref(), rule);
    Ok(PairedComparison { blocks: times.len(), time, cycles, run_length, verdict, doubt })
}

fn log_ratios(blocks: &[Block]) -> Result<Vec<f64>, StatsError> {
    blocks.iter().map(Block::log_ratio).collect()
}

fn estimate(log_ratios: &[f64], rule: &Rule, look: Look, seed: u64) -> Result<(RatioEstimate, usize), StatsError> {
    let sample = Sample::new(log_ratios)?;
    let confidence = look.confidence(rule.alpha());
    let run_length = block_length(&sample);
    let Ok(order) = order_statistic_median(&sample, confidence) else {
        return Ok((RatioEstimate::without_interval(sample.median()), run_length));
    };
    let resamples = (DRAWS_BEYOND * 2.0 / (1.0 - confidence.get())).ceil().clamp(2000.0, 1e6) as usize;
    let drawn = bootstrap_median(&sample, confidence, &Bootstrap { resamples, ..Bootstrap::new(seed) })?;
    let interval = order.interval.hull(&drawn);
    let mut estimate = RatioEstimate::from_log_interval(sample.median(), &interval, Reference::Normal, rule);
    estimate.p_changed = estimate.p_changed.max(wilcoxon_signed_rank(log_ratios)?.p);
    Ok((estimate.spent(look.factor()), run_length))
}

/// A change of time must be one of cycles too: in the same direction, significant, and at least half as large.
fn confirm(
    (verdict, doubt): (Verdict, Option<Doubt>),
    time: &RatioEstimate,
    cycles: Option<&RatioEstimate>,
    rule: &Rule,
) -> (Verdict, Option<Doubt>) {
    let (Some(cycles), Verdict::Faster | Verdict::Slower) = (cycles, verdict) else { return (verdict, doubt) };
    let (change, confirmed) = (time.ratio.ln(), cycles.ratio.ln());
    let agrees = change.signum() == confirmed.signum() && confirmed.abs() >= change.abs() / 2.0;
    if agrees && cycles.p_changed <= rule.alpha().get() {
        (verdict, None)
    } else {
        (Verdict::Inconclusive, Some(Doubt::ClocksDiffer))
    }
}

/// Collects blocks and stops when the verdict is safe. The error level holds over all looks ([`Looks`]).
#[derive(Clone, Debug)]
pub struct PairedSession {
    rule: Rule,
    seed: u64,
    cases: u32,
    looks: Looks,
    times: Vec<Block>,
    /// Empty once a block came without cycles.
    cycles: Vec<Block>,
}

impl PairedSession {
    /// A session without blocks. `seed` is that of the bootstrap.
    ///
    /// # Errors
    /// None for the built-in schedule of looks; they are those of [`Looks::new`].
    pub fn new(rule: Rule, seed: u64) -> Result<Self, StatsError> {
        let looks = Looks::new(FIRST_LOOK, LOOK_RATIO)?;
        Ok(Self { rule, seed, cases: 1, looks, times: Vec::new(), cycles: Vec::new() })
    }

    /// The session as one of so many that are corrected together: a change is safe when it would be one even as the least
    /// significant of them (its p-value times their number, Bonferroni's correction). Holm's correction and that of Benjamini
    /// and Hochberg multiply by no more, so neither takes back what sampling stopped at.
    #[must_use]
    pub fn among(self, cases: u32) -> Self {
        Self { cases: cases.max(1), ..self }
    }

    /// Takes a block, with its cycles when the clocks are known. The comparison when a look was due and its verdict is
    /// safe (not inconclusive): sampling may stop.
    ///
    /// # Errors
    /// When a value is not above zero or not finite: the block is not taken.
    pub fn push(&mut self, times: Block, cycles: Option<Block>) -> Result<Option<PairedComparison>, StatsError> {
        times.log_ratio()?;
        match cycles {
            Some(block) if self.cycles.len() == self.times.len() => {
                block.log_ratio()?;
                self.cycles.push(block);
            }
            _ => self.cycles.clear(),
        }
        self.times.push(times);
        let Some(look) = self.looks.due(self.times.len()) else { return Ok(None) };
        let found = self.compare(look)?;
        let corrected = (found.time.p_changed * f64::from(self.cases)).min(1.0);
        let (verdict, _) = found.decide(&self.rule, corrected);
        Ok((verdict != Verdict::Inconclusive).then_some(found))
    }

    /// The comparison of all blocks, at the level kept for the final look. To be asked once, when sampling ends without a
    /// safe verdict.
    ///
    /// # Errors
    /// When there are no blocks.
    pub fn finish(&self) -> Result<PairedComparison, StatsError> {
        self.compare(self.looks.last())
    }

    /// Blocks so far.
    pub fn blocks(&self) -> &[Block] {
        &self.times
    }

    fn compare(&self, look: Look) -> Result<PairedComparison, StatsError> {
        let cycles = (self.cycles.len() == self.times.len()).then_some(self.cycles.as_slice());
        compare_paired(&self.times, cycles, &self.rule, look, self.seed)
    }
}
