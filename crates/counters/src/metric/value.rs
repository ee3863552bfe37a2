//! What is known about a counter or a metric, and the form it has in the result document.

use serde::{Deserialize, Serialize};

/// How a value came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Counted by hardware.
    Measured,
    /// Counted by the emulated GPU as hardware is documented to count.
    Exact,
    /// By the emulated GPU's model of the hardware.
    Model,
    /// By a formula from counters.
    Derived,
    /// A value outside of what is possible, or from counters that cannot be right; it is not given.
    Invalid,
    /// Not counted, or not there on this device.
    Unavailable,
}

impl Kind {
    /// Its word in documents and tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Measured => "measured",
            Kind::Exact => "exact",
            Kind::Model => "model",
            Kind::Derived => "derived",
            Kind::Invalid => "invalid",
            Kind::Unavailable => "unavailable",
        }
    }
}

/// The outcome of a formula.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It has a value within its range.
    Known(f64),
    /// It has none that could be right: why.
    Invalid(String),
    /// An operand is missing: why.
    Unavailable(String),
}

/// A metric of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// The value, or why there is none.
    pub outcome: Outcome,
    /// Its operands were counted in different launches.
    pub cross_pass: bool,
    /// The formula that was used.
    pub formula: String,
}

impl Evaluated {
    /// The value, where there is one.
    pub fn value(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Known(value) => Some(value),
            Outcome::Invalid(_) | Outcome::Unavailable(_) => None,
        }
    }
}

/// An entry of `counters{name: {value, unit, kind, ...}}` in the result document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The value; absent (null) when it is invalid or unavailable, which is not 0.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// How it came about.
    pub kind: Kind,
    /// Why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Operands were counted in different launches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cross_pass: bool,
    /// Does not agree with the work of the case: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspicious: Option<String>,
    /// The formula of a derived value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Passes (from 0) that counted it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<usize>,
    /// Launches behind the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_value_is_null_and_not_zero() {
        let entry = Entry {
            value: None,
            unit: "%".to_owned(),
            kind: Kind::Unavailable,
            reason: Some("not counted".to_owned()),
            cross_pass: false,
            suspicious: None,
            formula: None,
            passes: Vec::new(),
            launches: None,
        };
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(text, r#"{"value":null,"unit":"%","kind":"unavailable","reason":"not counted"}"#);
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }
}
