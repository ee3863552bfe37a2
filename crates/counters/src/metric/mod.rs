//! Derived values: formulas over what a pass counted, judged before they are believed.
//!
//! The table is `data/metrics.toml`. A ratio takes all its operands from one pass; where no pass has them all, it is marked `cross_pass`. A value
//! outside its possible range is invalid, one with a missing operand unavailable: neither is 0.

mod check;
mod evaluate;
mod value;

pub use check::{Cache, ColdVerdict, Compulsory, check, verify_cold};
pub use evaluate::{Measured, PassReadings, Reading, evaluate, report};
pub use value::{Entry, Evaluated, Kind, Outcome};

use crate::arch::Arch;
use crate::catalog::CatalogError;
use crate::formula::{Formula, FormulaError};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A term that must not be negative, or the value is invalid.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The term.
    pub term: Formula,
    /// What it means when it is negative.
    pub reason: String,
}

/// A derived value of an architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name in output.
    pub id: String,
    /// Unit of a value.
    pub unit: String,
    /// What it says.
    pub text: String,
    /// Where the formula is from.
    pub source: String,
    /// rocprofiler-sdk's own counter of that name, computed by its formula.
    pub is_sdk: bool,
    /// Smallest and largest possible value.
    pub range: (f64, f64),
    /// The formula.
    pub formula: Formula,
    /// Terms that must not be negative.
    pub checks: Vec<Check>,
    /// The same over the SDK's derived counters, for runs that have only those.
    pub instead: Option<Formula>,
}

impl Metric {
    /// Counters that the formula and its checks need, each once.
    pub fn operands(&self) -> impl Iterator<Item = &str> {
        let all = self.formula.counters().iter().chain(self.checks.iter().flat_map(|check| check.term.counters()));
        let names: BTreeSet<&str> = all.map(String::as_str).collect();
        names.into_iter()
    }

    /// The table's metrics that have a formula on an architecture.
    pub(crate) fn built_in(arch: Arch) -> Result<Vec<Metric>, CatalogError> {
        let table = TABLE.as_ref().map_err(Clone::clone)?;
        let mut metrics = Vec::with_capacity(table.metric.len());
        for row in &table.metric {
            let base = match &row.per_ns {
                None => row,
                Some(id) => table.metric.iter().find(|other| other.id == *id).unwrap_or(row),
            };
            let Some(form) = base.formulas.iter().find(|form| form.archs.contains(&arch)) else { continue };
            metrics.push(
                row.with(form, base.instead.as_deref())
                    .map_err(|error| CatalogError::Table(format!("{}: {error}", row.id)))?,
            );
        }
        Ok(metrics)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    metric: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    unit: String,
    text: String,
    source: String,
    #[serde(default)]
    sdk: bool,
    range: (f64, f64),
    #[serde(default)]
    formulas: Vec<Form>,
    instead: Option<String>,
    /// The metric whose rate this is.
    per_ns: Option<String>,
    /// Factor of a rate.
    scale: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    archs: Vec<Arch>,
    formula: String,
    #[serde(default)]
    not_negative: Vec<(String, String)>,
}

impl Row {
    fn with(&self, form: &Form, instead: Option<&str>) -> Result<Metric, FormulaError> {
        let text = |formula: &str| match (&self.per_ns, self.scale) {
            (None, _) => formula.to_owned(),
            (Some(_), None) => format!("({formula}) / DURATION_NS"),
            (Some(_), Some(scale)) => format!("{scale} * ({formula}) / DURATION_NS"),
        };
        let check =
            |(term, reason): &(String, String)| Ok(Check { term: Formula::parse(term)?, reason: reason.clone() });
        Ok(Metric {
            id: self.id.clone(),
            unit: self.unit.clone(),
            text: self.text.clone(),
            source: self.source.clone(),
            is_sdk: self.sdk,
            range: self.range,
            formula: Formula::parse(&text(&form.formula))?,
            instead: instead.map(|formula| Formula::parse(&text(formula))).transpose()?,
            checks: form.not_negative.iter().map(check).collect::<Result<_, _>>()?,
        })
    }
}

static TABLE: LazyLock<Result<Table, CatalogError>> = LazyLock::new(|| {
    toml::from_str(include_str!("../../data/metrics.toml")).map_err(|error| CatalogError::Table(error.to_string()))
});

#[cfg(test)]
mod tests;
