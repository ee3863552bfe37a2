//! What the changes of single cases mean for a whole step.

use crate::{Interval, Probability, Reference, StatsError};

/// A case in the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightedRatio {
    /// Share of the step's time in the base, 0 to 1: calls × time of this case over the time of all.
    pub share: f64,
    /// Candidate over base.
    pub ratio: f64,
    /// Standard error of the logarithm of the ratio that this case has for itself.
    pub own_error: f64,
    /// The part that all cases have in common, such as a run at other clocks; 0 where builds ran in turn.
    pub common_error: f64,
}

/// What of a step only one side has, as shares of the step's time in the base.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OneSided {
    /// Time that only the candidate has: it adds to the step.
    pub added: f64,
    /// Time that only the base has: the step is without it.
    pub removed: f64,
    /// As [`WeightedRatio::common_error`]: what is added errs as all of the candidate does.
    pub common_error: f64,
}

/// The expected change of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepChange {
    /// Relative change of the step's time, `Σ share·(ratio − 1) + added − removed`: −0.02 is 2 % less. What is not known is
    /// taken as unchanged.
    pub change: f64,
    /// Its interval.
    pub interval: Interval,
    /// Share of the step's time that was compared, or is gone.
    pub share: f64,
    /// Cases.
    pub cases: usize,
}

/// Expected change of a step from its cases, with an interval by the delta method: `ratio` has standard error
/// `ratio·error`; own errors add as squares, common ones as they are (all cases err the same way). `reference` is the
/// distribution that the intervals of the cases rest on: Student's where the common error was estimated.
///
/// # Errors
/// [`StatsError::TooFew`] without cases; [`StatsError::Parameter`] when a share or an error is negative or not finite, a
/// ratio is not above zero, or the shares sum to more than 1 (beyond rounding).
pub fn step_change(
    cases: &[WeightedRatio],
    alone: &OneSided,
    reference: Reference,
    confidence: Probability,
) -> Result<StepChange, StatsError> {
    if cases.is_empty() {
        return Err(StatsError::TooFew { what: "the change of a step", needed: 1, got: 0 });
    }
    let not_negative = |name, value: f64| match value.is_finite() && value >= 0.0 {
        true => Ok(value),
        false => Err(StatsError::Parameter { name, value, reason: "it must be finite and not negative" }),
    };
    let (added, removed) = (not_negative("added share", alone.added)?, not_negative("removed share", alone.removed)?);
    let mut common = added * not_negative("common error", alone.common_error)?;
    let (mut change, mut own, mut share) = (added - removed, 0.0, removed);
    for case in cases {
        if !(case.ratio > 0.0 && case.ratio < 1e100) {
            let reason = "it must be above zero and finite";
            return Err(StatsError::Parameter { name: "ratio", value: case.ratio, reason });
        }
        share += not_negative("share", case.share)?;
        change += case.share * (case.ratio - 1.0);
        own += (case.share * case.ratio * not_negative("own error", case.own_error)?).powi(2);
        common += case.share * case.ratio * not_negative("common error", case.common_error)?;
    }
    if share > 1.0 + 1e-9 {
        return Err(StatsError::Parameter { name: "sum of shares", value: share, reason: "it must be at most 1" });
    }
    let error = (own + common * common).sqrt() * reference.reach(confidence);
    if !error.is_finite() {
        return Err(StatsError::Parameter { name: "error", value: error, reason: "it must be finite" });
    }
    let interval = Interval::new(change - error, change + error, confidence);
    Ok(StepChange { change, interval, share: share.min(1.0), cases: cases.len() })
}

/// Geometric mean of ratios, every case counting the same. A secondary figure: it says nothing about the step.
///
/// # Errors
/// [`StatsError::TooFew`] without ratios; [`StatsError::NotPositive`] when one is not above zero.
pub fn geometric_mean(ratios: &[f64]) -> Result<f64, StatsError> {
    if ratios.is_empty() {
        return Err(StatsError::TooFew { what: "a geometric mean", needed: 1, got: 0 });
    }
    if let Some(index) = ratios.iter().position(|ratio| !(*ratio > 0.0 && ratio.is_finite())) {
        return Err(StatsError::NotPositive { index, value: ratios[index] });
    }
    Ok((ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp())
}
