//! From an estimated ratio to a verdict.

use std::fmt;

use crate::{Interval, Probability, Reference, StatsError};

/// What a comparison concludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The candidate takes less time: significantly, and by more than the threshold.
    Faster,
    /// It takes more.
    Slower,
    /// The two are equivalent: a difference of the margin or more is excluded.
    Same,
    /// The samples tell neither.
    Inconclusive,
}

impl Verdict {
    /// The word, as in tables: `FASTER`, `SLOWER`, `SAME`, `INCONCLUSIVE`.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Faster => "FASTER",
            Verdict::Slower => "SLOWER",
            Verdict::Same => "SAME",
            Verdict::Inconclusive => "INCONCLUSIVE",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Why a comparison is inconclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// There are too few samples for an interval at all.
    TooFew,
    /// The interval holds both no change and a change beyond the threshold.
    TooWide,
    /// A change is certain, but whether it is beyond the threshold is not.
    NearThreshold,
    /// A change is significant by itself, but not among as many cases as were compared.
    AmongMany,
    /// Times differ and cycles do not (or the other way about): the clocks were not the same.
    ClocksDiffer,
}

impl Doubt {
    /// Name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Doubt::TooFew => "too_few",
            Doubt::TooWide => "too_wide",
            Doubt::NearThreshold => "near_threshold",
            Doubt::AmongMany => "among_many",
            Doubt::ClocksDiffer => "clocks_differ",
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doubt::TooFew => "too few samples for an interval",
            Doubt::TooWide => "the interval holds both no change and one beyond the threshold",
            Doubt::NearThreshold => "there is a change, but whether it is beyond the threshold is open",
            Doubt::AmongMany => {
                "the change is significant by itself, but not after the correction for the number of cases: more samples, or fewer cases, would tell"
            }
            Doubt::ClocksDiffer => "times and cycles disagree: the two did not run at the same clocks",
        })
    }
}

/// When a ratio is a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The smallest relative change that matters: 0.01 is 1 %.
    min_effect: f64,
    /// Relative change that this machine shows between equal builds; a change below it is not believed.
    noise_floor: f64,
    /// Relative change that SAME excludes; at least the threshold.
    margin: f64,
    /// Chance of calling equal builds different, and of calling different ones the same.
    alpha: Probability,
}

impl Rule {
    /// # Errors
    /// [`StatsError::Parameter`] unless `0 < min_effect < 1`, `0 <= noise_floor < 1` and `alpha < 0.5`.
    pub fn new(min_effect: f64, noise_floor: f64, alpha: Probability) -> Result<Self, StatsError> {
        if !(min_effect > 0.0 && min_effect < 1.0) {
            let reason = "it must be above 0 and below 1 (0.01 is 1 %)";
            return Err(StatsError::Parameter { name: "minimum effect", value: min_effect, reason });
        }
        if !(0.0..1.0).contains(&noise_floor) {
            return Err(StatsError::Parameter {
                name: "noise floor",
                value: noise_floor,
                reason: "it must be in 0..1",
            });
        }
        if alpha.get() >= 0.5 {
            return Err(StatsError::Parameter { name: "alpha", value: alpha.get(), reason: "it must be below 0.5" });
        }
        Ok(Self { min_effect, noise_floor, margin: min_effect.max(noise_floor), alpha })
    }

    /// The same with a wider margin for SAME, for comparisons that cannot exclude a change of the threshold.
    ///
    /// # Errors
    /// [`StatsError::Parameter`] unless `0 <= margin < 10`.
    pub fn with_margin(self, margin: f64) -> Result<Self, StatsError> {
        if !(0.0..10.0).contains(&margin) {
            return Err(StatsError::Parameter {
                name: "margin",
                value: margin,
                reason: "it must be in 0..10 (0.01 is 1 %)",
            });
        }
        Ok(Self { margin: self.threshold().max(margin), ..self })
    }

    /// The smallest relative change that is told: the larger of minimum effect and noise floor.
    pub fn threshold(&self) -> f64 {
        self.min_effect.max(self.noise_floor)
    }

    /// The relative change that equal builds show.
    pub fn noise_floor(&self) -> f64 {
        self.noise_floor
    }

    /// The threshold as a log-ratio; the band is symmetric there: +1 % is the inverse of −0.99 %.
    pub fn log_threshold(&self) -> f64 {
        self.threshold().ln_1p()
    }

    /// The relative change that SAME excludes: the threshold, or what [`Rule::with_margin`] made of it.
    pub fn margin(&self) -> f64 {
        self.margin
    }

    /// The error level.
    pub fn alpha(&self) -> Probability {
        self.alpha
    }

    /// The verdict on an estimate with the p-value that a correction over cases ([`crate::Correction`]) makes of its own.
    pub fn decide_among(&self, estimate: &RatioEstimate, p_adjusted: f64) -> (Verdict, Option<Doubt>) {
        let corrected = RatioEstimate { p_changed: p_adjusted.max(estimate.p_changed), ..*estimate };
        let (verdict, doubt) = self.decide(&corrected);
        let is_taken_back = estimate.p_changed <= self.alpha.get() && corrected.p_changed > self.alpha.get();
        match doubt {
            Some(Doubt::TooWide) if is_taken_back => (verdict, Some(Doubt::AmongMany)),
            doubt => (verdict, doubt),
        }
    }

    /// The verdict on an estimate whose p-values are corrected for everything that was tried (looks, cases).
    pub fn decide(&self, estimate: &RatioEstimate) -> (Verdict, Option<Doubt>) {
        let Some(_) = estimate.interval else { return (Verdict::Inconclusive, Some(Doubt::TooFew)) };
        let changed = estimate.p_changed <= self.alpha.get();
        let log_ratio = estimate.ratio.ln();
        if changed && log_ratio.abs() > self.log_threshold() {
            return (if log_ratio < 0.0 { Verdict::Faster } else { Verdict::Slower }, None);
        }
        if estimate.p_different <= self.alpha.get() {
            return (Verdict::Same, None);
        }
        (Verdict::Inconclusive, Some(if changed { Doubt::NearThreshold } else { Doubt::TooWide }))
    }
}

/// The ratio of the candidate's time to the base's, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioEstimate {
    /// Candidate over base: below 1 the candidate is faster.
    pub ratio: f64,
    /// Interval of the ratio; `None` below the count at which there is one.
    pub interval: Option<Interval>,
    /// Two-sided p-value of "the ratio is 1".
    pub p_changed: f64,
    /// p-value of "they differ by the margin or more": the larger of the two one-sided tests (TOST; Schuirmann 1987).
    pub p_different: f64,
}

impl RatioEstimate {
    /// Nothing is known but the ratio.
    pub(crate) fn without_interval(log_ratio: f64) -> Self {
        Self { ratio: log_ratio.exp(), interval: None, p_changed: 1.0, p_different: 1.0 }
    }

    /// From a log-ratio and its interval. Standard errors are read off the interval, one for each side, so that the
    /// p-values say exactly what the interval says: `p_changed <= 1 − confidence` when it excludes 1.
    pub(crate) fn from_log_interval(
        log_ratio: f64,
        log_interval: &Interval,
        reference: Reference,
        rule: &Rule,
    ) -> Self {
        let reach = reference.reach(log_interval.confidence());
        let below = ((log_ratio - log_interval.lo()) / reach).max(0.0);
        let above = ((log_interval.hi() - log_ratio) / reach).max(0.0);
        let toward_zero = if log_ratio > 0.0 { below } else { above };
        let band = rule.margin().ln_1p();
        let not_above = reference.tail(standardised(band - log_ratio, above));
        let not_below = reference.tail(standardised(log_ratio + band, below));
        let interval = Interval::new(log_interval.lo().exp(), log_interval.hi().exp(), log_interval.confidence());
        Self {
            ratio: log_ratio.exp(),
            interval: Some(interval),
            p_changed: (2.0 * reference.tail(standardised(log_ratio.abs(), toward_zero))).min(1.0),
            p_different: not_above.max(not_below),
        }
    }

    /// The same with p-values multiplied by what was tried beside this look, at most 1.
    #[must_use]
    pub(crate) fn spent(mut self, factor: f64) -> Self {
        self.p_changed = (self.p_changed * factor).min(1.0);
        self.p_different = (self.p_different * factor).min(1.0);
        self
    }

    /// Relative change, `ratio − 1`: 0.03 is 3 % slower.
    pub fn change(&self) -> f64 {
        self.ratio - 1.0
    }

    /// Standard error of the logarithm of the ratio, from the width of the interval; `None` without one.
    pub fn log_error(&self) -> Option<f64> {
        let interval = self.interval?;
        let reach = Reference::Normal.reach(interval.confidence());
        Some((interval.hi().ln() - interval.lo().ln()) / (2.0 * reach))
    }
}

/// A distance in standard errors. Without any spread a distance is beyond every error, and none is none.
fn standardised(distance: f64, error: f64) -> f64 {
    if error > 0.0 {
        distance / error
    } else if distance == 0.0 {
        0.0
    } else {
        distance.signum() * f64::MAX
    }
}
