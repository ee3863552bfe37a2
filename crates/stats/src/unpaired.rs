//! Two runs that were made apart.

use crate::{
    Bootstrap, Interval, Probability, RatioEstimate, Reference, Rule, Sample, StatsError, bootstrap_median,
    order_statistic_median, sample::check_values,
};

/// The median of one run of a case and its error inside that run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunEstimate {
    log_median: f64,
    log_error: f64,
}

impl RunEstimate {
    /// From samples: the bootstrap interval joined with the order-statistic interval, at 95 %.
    ///
    /// # Errors
    /// [`StatsError::TooFew`] below 6 samples.
    pub fn of(sample: &Sample, seed: u64) -> Result<Self, StatsError> {
        let order = order_statistic_median(sample, Probability::P95)?.interval;
        let interval = bootstrap_median(sample, Probability::P95, &Bootstrap::new(seed))?.hull(&order);
        Self::from_interval(sample.median(), interval.lo(), interval.hi(), Probability::P95)
    }

    /// From a median and the ends of its interval (any unit above zero). The error is half of the interval's width in
    /// logarithms over the normal quantile.
    ///
    /// # Errors
    /// When a value is not above zero or not finite, or the ends are not in order.
    pub fn from_interval(median: f64, lo: f64, hi: f64, confidence: Probability) -> Result<Self, StatsError> {
        let values = [median, lo, hi];
        check_values(&values)?;
        if let Some(index) = values.iter().position(|v| *v <= 0.0) {
            return Err(StatsError::NotPositive { index, value: values[index] });
        }
        if lo > hi {
            let reason = "the upper end of an interval must not be below the lower one";
            return Err(StatsError::Parameter { name: "upper end", value: hi, reason });
        }
        let reach = Reference::Normal.reach(confidence);
        Ok(Self { log_median: median.ln(), log_error: (hi.ln() - lo.ln()) / (2.0 * reach) })
    }

    /// The median, in the unit it came in.
    pub fn median(&self) -> f64 {
        self.log_median.exp()
    }

    /// Standard error of the logarithm of the median within the run.
    pub fn log_error(&self) -> f64 {
        self.log_error
    }
}

/// How much medians of one build differ from run to run beyond what samples inside a run show: clocks, placement in memory,
/// temperature, another process. Relative, as the standard deviation of one run's log-median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BetweenRuns {
    /// Taken as known.
    Assumed {
        /// Standard deviation, relative (0.01 is 1 %).
        sd: f64,
    },
    /// Estimated from repeated runs.
    Estimated {
        /// Standard deviation, relative.
        sd: f64,
        /// Degrees of freedom of the estimate, at least 1.
        degrees: u32,
    },
}

impl BetweenRuns {
    /// From groups of runs of one case by one build each: the variance of log-medians inside the groups, pooled, minus
    /// the mean variance inside runs (method of moments for a random effect), not below 0. `None` when no group has two.
    pub fn estimate(groups: &[Vec<RunEstimate>]) -> Option<Self> {
        let (mut squares, mut within, mut runs, mut degrees) = (0.0, 0.0, 0_u32, 0_u32);
        for group in groups.iter().filter(|group| group.len() > 1) {
            let count = group.len() as f64;
            let mean = group.iter().map(|run| run.log_median).sum::<f64>() / count;
            squares += group.iter().map(|run| (run.log_median - mean).powi(2)).sum::<f64>();
            within += group.iter().map(|run| run.log_error.powi(2)).sum::<f64>();
            runs = runs.saturating_add(group.len() as u32);
            degrees = degrees.saturating_add(group.len() as u32 - 1);
        }
        (degrees > 0).then(|| {
            let variance = squares / f64::from(degrees) - within / f64::from(runs);
            Self::Estimated { sd: variance.max(0.0).sqrt(), degrees }
        })
    }

    /// The standard deviation.
    pub fn sd(&self) -> f64 {
        match self {
            Self::Assumed { sd } | Self::Estimated { sd, .. } => *sd,
        }
    }

    /// Error of the log-ratio of two runs from this source alone.
    pub fn log_error(&self) -> f64 {
        self.sd() * std::f64::consts::SQRT_2
    }

    /// The smallest relative change that two separate runs tell from none with a chance of `1 − alpha` when they err with
    /// `alpha`, by this source of error alone: `(q(1 − alpha/2) + q(1 − alpha))·√2·s` in logarithms, `q` the quantiles. It is
    /// the margin for SAME: two runs of one build are within it about as often as the confidence says.
    ///
    /// # Errors
    /// [`StatsError::Parameter`] when `alpha` is not below 0.5.
    pub fn detectable(&self, alpha: Probability) -> Result<f64, StatsError> {
        let reference = self.reference();
        let two_sided = reference.reach(Probability::new(1.0 - alpha.get())?);
        let one_sided = reference.reach(Probability::new(1.0 - 2.0 * alpha.get())?);
        Ok(((two_sided + one_sided) * self.log_error()).min(2.0).exp_m1())
    }

    /// The distribution that intervals with this error rest on.
    pub fn reference(&self) -> Reference {
        match self {
            Self::Assumed { .. } => Reference::Normal,
            // With the whole error attributed to the part with the fewest degrees of freedom: wider than needed, never narrower.
            Self::Estimated { degrees, .. } => Reference::Student(*degrees),
        }
    }
}

/// Compares two runs. The error of the log-ratio is `√(e_base² + e_cand² + 2·s²)`, `e` the errors inside the runs and `s`
/// the standard deviation between runs: no number of samples makes two separate runs tell less than that apart.
///
/// # Errors
/// [`StatsError::Parameter`] when the standard deviation between runs is not in 0..1.
pub fn compare_unpaired(
    base: &RunEstimate,
    candidate: &RunEstimate,
    between: &BetweenRuns,
    rule: &Rule,
) -> Result<RatioEstimate, StatsError> {
    let sd = between.sd();
    if !(0.0..1.0).contains(&sd) {
        let reason = "it must be in 0..1 (0.01 is 1 %)";
        return Err(StatsError::Parameter { name: "deviation between runs", value: sd, reason });
    }
    let log_ratio = candidate.log_median - base.log_median;
    let error = (base.log_error.powi(2) + candidate.log_error.powi(2) + between.log_error().powi(2)).sqrt();
    let confidence = Probability::new(1.0 - rule.alpha().get())?;
    let reference = between.reference();
    // Beyond this the ends would leave the range of f64 when taken out of logarithms.
    let reach = (reference.reach(confidence) * error).min(600.0);
    let interval = Interval::new(log_ratio - reach, log_ratio + reach, confidence);
    Ok(RatioEstimate::from_log_interval(log_ratio, &interval, reference, rule))
}
