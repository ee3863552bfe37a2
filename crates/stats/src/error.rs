//! Why numbers cannot be analysed.

/// Input that has no answer. Nothing in this crate returns NaN or infinity instead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// Fewer values than the estimate needs.
    #[error("{what} needs at least {needed} values, there are {got}")]
    TooFew {
        /// The estimate asked for.
        what: &'static str,
        /// How many it needs.
        needed: usize,
        /// How many there are.
        got: usize,
    },
    /// More values than the algorithm can index.
    #[error("{got} values are more than the {most} that can be analysed")]
    TooMany {
        /// The largest count accepted.
        most: usize,
        /// How many there are.
        got: usize,
    },
    /// A value that is NaN, infinite, or so large or small that products of such values leave the range of `f64`.
    #[error("value {index} is {value}: it must be finite, and its magnitude 0 or between 1e-140 and 1e140")]
    OutOfRange {
        /// Position in the input, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A duration or other quantity that must be above zero and is not.
    #[error("value {index} is {value}: it must be above zero")]
    NotPositive {
        /// Position in the input, from 0.
        index: usize,
        /// The value.
        value: f64,
    },
    /// The two coordinates of a trend have different lengths.
    #[error("{x} abscissas do not go with {y} ordinates")]
    Mismatch {
        /// Count of x.
        x: usize,
        /// Count of y.
        y: usize,
    },
    /// All abscissas are (nearly) the same, so no line is determined.
    #[error("the abscissas span {span}: a slope needs at least two that differ")]
    NoSpan {
        /// Largest minus smallest x.
        span: f64,
    },
    /// A setting outside its range.
    #[error("{name} is {value}: {reason}")]
    Parameter {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What would be right.
        reason: &'static str,
    },
}
