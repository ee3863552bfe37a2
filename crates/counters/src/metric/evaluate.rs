//! Computing metrics from the readings of passes.

use super::{Check, Entry, Evaluated, Kind, Metric, Outcome};
use crate::arch::Geometry;
use crate::catalog::{Catalog, Found};
use crate::formula::{Constant, EvalError, Formula, Operand, Reduction};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A counter in a pass: medians over its launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Sum of all instances.
    pub sum: f64,
    /// Largest instance.
    pub max: f64,
    /// Smallest instance.
    pub min: f64,
    /// Mean of the instances.
    pub mean: f64,
    /// Sum of the instances of each XCC; one entry where XCCs are not told apart.
    pub per_xcc: Vec<f64>,
    /// Launches behind the medians.
    pub launches: u32,
    /// Measured, exact or model.
    pub kind: Kind,
}

impl Reading {
    /// The value by a reduction. The usual one of `GRBM_*` is the largest XCC, so `max` is taken over XCCs where they are known.
    pub fn reduced(&self, reduction: Reduction) -> f64 {
        match reduction {
            Reduction::Sum => self.sum,
            Reduction::Max => self.max,
            Reduction::Min => self.min,
            Reduction::Mean => self.mean,
        }
    }
}

/// What a pass counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassReadings {
    /// Counters by name.
    pub counters: BTreeMap<String, Reading>,
    /// Median duration of the counted launches, ns.
    pub counted_ns: Option<f64>,
    /// Why nothing of this pass can be believed (its guards say so).
    pub problem: Option<String>,
}

/// What all passes of a case counted, and what formulas need beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Passes in the plan's order.
    pub passes: Vec<PassReadings>,
    /// The device.
    pub geometry: Geometry,
    /// Duration that the case is reported with, ns: from timing, not from the counted launches, which run serialised.
    pub duration_ns: Option<f64>,
    /// Counters that were asked for and could not be had, with the reason.
    pub unavailable: BTreeMap<String, String>,
}

impl Measured {
    /// The pass that has all of `names`: the first whose guards are good, else the first.
    fn pass_with<'n>(&self, names: impl Iterator<Item = &'n str> + Clone) -> Option<usize> {
        let has_all = |pass: &PassReadings| names.clone().all(|name| pass.counters.contains_key(name));
        let mut all = self.passes.iter().enumerate().filter(|(_, pass)| has_all(pass));
        let first = all.next()?;
        let healthy = std::iter::once(first).chain(all).find(|(_, pass)| pass.problem.is_none());
        Some(healthy.unwrap_or(first).0)
    }

    fn why_missing(&self, name: &str) -> String {
        self.unavailable.get(name).map_or_else(|| format!("{name} was not counted"), |why| format!("{name}: {why}"))
    }

    fn constant(&self, constant: Constant, counted_ns: Option<f64>) -> Result<f64, String> {
        let geometry = &self.geometry;
        Ok(match constant {
            Constant::CuNum => f64::from(geometry.cus),
            Constant::SimdNum => geometry.simds() as f64,
            Constant::XccNum => f64::from(geometry.xccs),
            Constant::WaveSize => f64::from(geometry.wave_size),
            Constant::MaxWavesPerCu => f64::from(geometry.max_waves_per_cu),
            Constant::DurationNs => self.duration_ns.ok_or("no duration was measured")?,
            Constant::CountedNs => counted_ns.ok_or("the counted launches have no duration")?,
        })
    }
}

/// Where a formula's operands come from.
struct Source<'m> {
    measured: &'m Measured,
    /// One pass for all; else each operand's first good one.
    pass: Option<usize>,
}

impl Source<'_> {
    fn pass_of(&self, name: &str) -> Option<&PassReadings> {
        let index = self.pass.or_else(|| self.measured.pass_with(std::iter::once(name)))?;
        self.measured.passes.get(index)
    }

    fn compute(&self, formula: &Formula) -> Result<f64, EvalError<String>> {
        formula.eval(|operand| match operand {
            Operand::Counter(name, reduction) => {
                let reading = self.pass_of(name).and_then(|pass| pass.counters.get(name));
                reading.map(|reading| reading.reduced(reduction)).ok_or_else(|| self.measured.why_missing(name))
            }
            Operand::Constant(constant) => {
                let counted = self.pass.and_then(|pass| self.measured.passes.get(pass)?.counted_ns);
                self.measured.constant(constant, counted)
            }
        })
    }
}

/// Computes a metric: by its formula; where operands are missing, from what rocprofiler-sdk derived itself, if that was recorded.
pub fn evaluate(metric: &Metric, measured: &Measured) -> Evaluated {
    let own = if metric.formula.is_sdk_only() {
        sdk_value(metric, measured)
    } else {
        by(metric, &metric.formula, &metric.checks, measured)
    };
    if !matches!(own.outcome, Outcome::Unavailable(_)) {
        return own;
    }
    let other = match &metric.instead {
        Some(formula) => by(metric, formula, &[], measured),
        None if metric.is_sdk => sdk_value(metric, measured),
        None => return own,
    };
    // The reason that matters is that of the formula itself.
    if matches!(other.outcome, Outcome::Unavailable(_)) { own } else { other }
}

/// By a formula.
fn by(metric: &Metric, formula: &Formula, checks: &[Check], measured: &Measured) -> Evaluated {
    let terms = checks.iter().map(|check| &check.term);
    let names: BTreeSet<&str> =
        std::iter::once(formula).chain(terms).flat_map(Formula::counters).map(String::as_str).collect();
    let pass = measured.pass_with(names.iter().copied());
    let source = Source { measured, pass };
    let cross_pass = pass.is_none() && names.iter().all(|name| source.pass_of(name).is_some());
    let problem = || names.iter().find_map(|name| source.pass_of(name)?.problem.clone());
    let outcome = match source.compute(formula) {
        Err(error) => Outcome::Unavailable(error.to_string()),
        Ok(value) => match problem() {
            Some(problem) => Outcome::Invalid(problem),
            None => judged(metric, checks, value, |check| source.compute(&check.term).is_ok_and(|term| term < 0.0)),
        },
    };
    Evaluated { outcome, cross_pass, formula: formula.text().to_owned() }
}

/// A metric that the SDK computed.
fn sdk_value(metric: &Metric, measured: &Measured) -> Evaluated {
    let id = metric.id.as_str();
    let pass = measured.pass_with(std::iter::once(id)).and_then(|pass| measured.passes.get(pass));
    let outcome = match pass.and_then(|pass| Some((pass, pass.counters.get(id)?))) {
        None => Outcome::Unavailable(measured.why_missing(id)),
        Some((PassReadings { problem: Some(problem), .. }, _)) => Outcome::Invalid(problem.clone()),
        Some((_, reading)) => judged(metric, &[], reading.sum, |_| false),
    };
    let formula = format!("{id} as rocprofiler-sdk computed it");
    Evaluated { outcome, cross_pass: false, formula }
}

/// A computed value, if it can be right.
fn judged(metric: &Metric, checks: &[Check], value: f64, is_broken: impl Fn(&Check) -> bool) -> Outcome {
    if let Some(check) = checks.iter().find(|check| is_broken(check)) {
        return Outcome::Invalid(format!("{} ({} is negative)", check.reason, check.term));
    }
    let (least, most) = metric.range;
    if value.is_nan() {
        Outcome::Unavailable(format!("the denominator of {} is 0: there is nothing to take a share of", metric.formula))
    } else if (least..=most).contains(&value) {
        Outcome::Known(value)
    } else {
        let unit = &metric.unit;
        Outcome::Invalid(format!("it came out as {value:.4} {unit}, but only {least} to {most} {unit} is possible"))
    }
}

/// The entries of the result document for what was asked for (counters, and metrics with their raw counters beside them), by name.
pub fn report<'n>(
    catalog: &Catalog,
    measured: &Measured,
    names: impl IntoIterator<Item = &'n str>,
) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    for name in names {
        match catalog.find(name) {
            Ok(Found::Metric(metric)) => {
                for operand in metric.operands().filter(|_| !metric.formula.is_sdk_only()) {
                    entries.entry(operand.to_owned()).or_insert_with(|| raw(catalog, measured, operand));
                }
                entries.insert(metric.id.clone(), derived(metric, &evaluate(metric, measured)));
            }
            Ok(Found::Counter(counter)) => {
                entries.insert(counter.name.clone(), raw(catalog, measured, &counter.name));
            }
            Err(error) => {
                let entry = missing(String::new(), error.to_string());
                entries.insert(name.to_owned(), entry);
            }
        }
    }
    entries
}

fn missing(unit: String, reason: String) -> Entry {
    Entry {
        value: None,
        unit,
        kind: Kind::Unavailable,
        reason: Some(reason),
        cross_pass: false,
        suspicious: None,
        formula: None,
        passes: Vec::new(),
        launches: None,
    }
}

/// The entry of a metric.
fn derived(metric: &Metric, evaluated: &Evaluated) -> Entry {
    let (value, kind, reason) = match &evaluated.outcome {
        Outcome::Known(value) => (Some(*value), Kind::Derived, None),
        Outcome::Invalid(why) => (None, Kind::Invalid, Some(why.clone())),
        Outcome::Unavailable(why) => (None, Kind::Unavailable, Some(why.clone())),
    };
    Entry {
        value,
        kind,
        reason,
        cross_pass: evaluated.cross_pass,
        formula: Some(evaluated.formula.clone()),
        ..missing(metric.unit.clone(), String::new())
    }
}

/// The entry of a counter as it was counted, by its usual reduction.
fn raw(catalog: &Catalog, measured: &Measured, name: &str) -> Entry {
    let unit = catalog.counter(name).map(|counter| counter.unit.clone()).unwrap_or_default();
    let holds = |(index, pass): (usize, &PassReadings)| pass.counters.contains_key(name).then_some(index);
    let passes: Vec<usize> = measured.passes.iter().enumerate().filter_map(holds).collect();
    let best = measured.pass_with(std::iter::once(name)).and_then(|pass| measured.passes.get(pass));
    let Some((pass, reading)) = best.and_then(|pass| Some((pass, pass.counters.get(name)?))) else {
        return missing(unit, measured.why_missing(name));
    };
    let (value, kind) = match pass.problem {
        Some(_) => (None, Kind::Invalid),
        None => (Some(reading.reduced(Reduction::usual(name))), reading.kind),
    };
    Entry {
        value,
        kind,
        reason: pass.problem.clone(),
        passes,
        launches: Some(reading.launches),
        ..missing(unit, String::new())
    }
}
