//! Limits on changes, for CI.

use super::case::{change_text, figure};
use super::document::{CaseDoc, CheckDoc, Comparison, GateDoc, NotCompared, Outcome, RuleDoc, StepDoc};
use super::metric;
use crate::report::units;
use kbench_stats::Doubt;
use kbench_workload::Family;
use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, str::FromStr};

/// The name that a limit on the whole step has in a list.
const STEP: &str = "step";
/// Rounding that a limit forgives, relative.
const ROUNDING: f64 = 1e-9;

/// How far a quantity may move. A `+` bounds growth, a `-` bounds decline; with `%` relative to the base, else in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Signed amount: 0.01 for `+1%`.
    amount: f64,
    is_relative: bool,
    is_upper: bool,
}

impl Limit {
    /// The last value that passes.
    fn last(self, base: f64) -> f64 {
        if self.is_relative { base + self.amount * base.abs() } else { base + self.amount }
    }

    /// Whether a candidate is within the limit.
    pub fn holds(self, base: f64, candidate: f64) -> bool {
        let last = self.last(base);
        // Whole counts against an amount, or against no change at all, need no rounding and get none.
        let is_exact = base.fract() == 0.0 && candidate.fract() == 0.0 && (!self.is_relative || self.amount == 0.0);
        let slack = if is_exact { 0.0 } else { ROUNDING * last.abs() };
        if self.is_upper { candidate <= last + slack } else { candidate >= last - slack }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_upper { '+' } else { '-' };
        match self.is_relative {
            // Six decimals undo what parsing a percentage does.
            true => write!(f, "{sign}{}%", (self.amount.abs() * 1e8).round() / 1e6),
            false => write!(f, "{sign}{}", self.amount.abs()),
        }
    }
}

/// A text that is no limit, metric or list of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No limit.
    #[error(
        "`{0}` is no limit: a sign and an amount are needed, such as +1% (grows by at most 1 %), +8 (by at most 8) or -0 (does not fall)"
    )]
    Limit(String),
    /// No metric.
    #[error("`{0}` is no metric: known are {known}, step, and counters by name (SQ_INSTS_VALU)", known = metric_names())]
    Metric(String),
    /// An entry that is not `metric:limit`.
    #[error("`{0}` is no gate: metric:limit is needed, such as bound:+1%")]
    Entry(String),
    /// A limit that a statistical quantity cannot have.
    #[error("the limit `{limit}` of `{metric}` must be a growth in percent, such as +3%")]
    Statistical {
        /// `time` or `step`.
        metric: String,
        /// The limit.
        limit: String,
    },
    /// No family.
    #[error("`{0}` is no family of kernels")]
    Family(String),
    /// A gate whose metric no case has.
    #[error(
        "the gate asks for `{0}`, which no case of these runs has: it would pass whatever happens; take it out, or compare runs that have it"
    )]
    Nowhere(String),
    /// A pattern that no case has.
    #[error(
        "no case of these runs is like `{0}`, which [[case]] has limits for: they would pass whatever happens; take them out, or compare runs that have such a case"
    )]
    NoCase(String),
    /// A file that is no gate file.
    #[error("{0}")]
    File(String),
}

fn metric_names() -> String {
    metric::NAMES.map(|(name, _)| name).join(", ")
}

impl FromStr for Limit {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let bad = || GateError::Limit(text.to_owned());
        let trimmed = text.trim();
        let is_upper = match trimmed.as_bytes().first() {
            Some(b'+') => true,
            Some(b'-') => false,
            _ => return Err(bad()),
        };
        let (number, is_relative) = match trimmed[1..].strip_suffix('%') {
            Some(number) => (number, true),
            None => (&trimmed[1..], false),
        };
        let is_plain = number.trim().starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let amount: f64 = number.trim().parse().map_err(|_| bad())?;
        if !is_plain || !amount.is_finite() || amount > 1e15 {
            return Err(bad());
        }
        let amount = if is_relative { amount / 100.0 } else { amount };
        Ok(Self { amount: if is_upper { amount } else { -amount }, is_relative, is_upper })
    }
}

/// Limits by metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits(BTreeMap<String, Limit>);

impl Limits {
    /// Adds one.
    ///
    /// # Errors
    /// When the name is no metric, or `time` has a limit that is not a growth in percent.
    pub fn set(&mut self, name: &str, limit: Limit) -> Result<(), GateError> {
        if !metric::is_name(name) {
            return Err(GateError::Metric(name.to_owned()));
        }
        if name == "time" {
            statistical(name, limit)?;
        }
        self.0.insert(name.to_owned(), limit);
        Ok(())
    }

    fn over(&self, below: &mut BTreeMap<String, Limit>) {
        below.extend(self.0.iter().map(|(name, limit)| (name.clone(), *limit)));
    }
}

fn statistical(name: &str, limit: Limit) -> Result<(), GateError> {
    match limit.is_upper && limit.is_relative {
        true => Ok(()),
        false => Err(GateError::Statistical { metric: name.to_owned(), limit: limit.to_string() }),
    }
}

/// All limits of a gate. A case's own limits go before its family's, and those before the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    /// For every case.
    pub default: Limits,
    /// By family.
    pub family: BTreeMap<String, Limits>,
    /// By pattern of the id (`*` stands for anything); later ones go before earlier ones.
    pub case: Vec<(String, Limits)>,
    /// For the expected change of the whole step.
    pub step: Option<Limit>,
}

impl Gate {
    /// Adds a list such as `bound:+1%,insts:+2%,step:+0.5%` to the default.
    ///
    /// # Errors
    /// When an entry is not one.
    pub fn add_list(&mut self, list: &str) -> Result<(), GateError> {
        for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, limit) = entry.split_once(':').ok_or_else(|| GateError::Entry(entry.to_owned()))?;
            let limit = limit.parse()?;
            match name.trim() {
                STEP => self.set_step(limit)?,
                name => self.default.set(name, limit)?,
            }
        }
        Ok(())
    }

    /// Limits the expected change of the step.
    ///
    /// # Errors
    /// When the limit is not a growth in percent.
    pub fn set_step(&mut self, limit: Limit) -> Result<(), GateError> {
        statistical(STEP, limit)?;
        self.step = Some(limit);
        Ok(())
    }

    /// The limits of a family.
    ///
    /// # Errors
    /// When there is no such family.
    pub fn family_mut(&mut self, family: &str) -> Result<&mut Limits, GateError> {
        if Family::from_str(family).is_err() {
            return Err(GateError::Family(family.to_owned()));
        }
        Ok(self.family.entry(family.to_owned()).or_default())
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.metrics().is_empty() && self.step.is_none()
    }

    /// Every metric that it names.
    pub fn metrics(&self) -> BTreeSet<String> {
        let lists =
            [&self.default].into_iter().chain(self.family.values()).chain(self.case.iter().map(|(_, limits)| limits));
        lists.flat_map(|limits| limits.0.keys().cloned()).collect()
    }

    fn limits_of(&self, case: &CaseDoc) -> BTreeMap<String, Limit> {
        let mut limits = self.default.0.clone();
        if let Some(own) = self.family.get(&case.family) {
            own.over(&mut limits);
        }
        for (_, own) in self.case.iter().filter(|(pattern, _)| matches(pattern, &case.id)) {
            own.over(&mut limits);
        }
        limits
    }

    /// Checks a comparison and writes what it found into it.
    ///
    /// # Errors
    /// When something was compared, and it asks for what no case has.
    pub fn check(&self, comparison: &mut Comparison) -> Result<(), GateError> {
        let mut checks = Vec::new();
        let mut met = BTreeSet::new();
        let several = comparison.has_several_caches();
        for case in &comparison.cases {
            let cache = case.requested_cache.clone().filter(|_| several);
            for (name, limit) in self.limits_of(case) {
                let check = if name == "time" {
                    check_time(case, limit, &comparison.rule)
                } else {
                    check_metric(case, &name, limit)
                };
                let found = check.or_else(|| check_lost(case, &name, limit));
                if found.is_some() {
                    met.insert(name.clone());
                }
                let check = found.unwrap_or_else(|| not_known(case, &name, limit));
                checks.push(CheckDoc { cache: cache.clone(), ..check });
            }
        }
        // Where nothing was compared, no gate can have asked for the right thing: what became of the cases says more.
        if !comparison.cases.is_empty() {
            self.is_met(&met, comparison)?;
        }
        checks.extend(self.family.iter().filter_map(|(family, limits)| check_family(family, limits, comparison)));
        if let Some(limit) = self.step {
            let step = comparison.summary.as_ref().and_then(|summary| summary.step.as_ref());
            checks.push(check_step(step, limit, comparison.rule.noise_floor));
        }
        let missing = comparison.not_compared.iter().filter_map(check_presence);
        checks.extend(missing.map(|check| CheckDoc { cache: check.cache.clone().filter(|_| several), ..check }));
        let passed = checks.iter().all(|check| check.outcome != Outcome::Fail);
        comparison.gate = Some(GateDoc { passed, checks });
        Ok(())
    }

    /// Whether everything that it asks for is somewhere.
    fn is_met(&self, met: &BTreeSet<String>, comparison: &Comparison) -> Result<(), GateError> {
        // A metric may be that of cases which were not compared: what became of them says more.
        let all_compared = !comparison.not_compared.iter().any(NotCompared::is_open);
        if let Some(missing) = self.metrics().into_iter().find(|name| all_compared && !met.contains(name)) {
            return Err(GateError::Nowhere(missing));
        }
        if self.step.is_some() && comparison.summary.is_none() {
            return Err(GateError::Nowhere(STEP.to_owned()));
        }
        let (cases, rest) = (&comparison.cases, &comparison.not_compared);
        let ids: Vec<&String> = cases.iter().map(|case| &case.id).chain(rest.iter().map(|case| &case.id)).collect();
        match self.case.iter().find(|(pattern, _)| !ids.iter().any(|id| matches(pattern, id))) {
            Some((pattern, _)) => Err(GateError::NoCase(pattern.clone())),
            None => Ok(()),
        }
    }
}

/// A check of a case before its outcome is known.
fn open(case: &CaseDoc, name: &str, limit: Limit) -> CheckDoc {
    open_of((&case.id, &case.family), name, limit)
}

/// The same of anything that has a name and, maybe, a family.
fn open_of((what, family): (&str, &str), name: &str, limit: impl fmt::Display) -> CheckDoc {
    CheckDoc {
        case: what.to_owned(),
        family: family.to_owned(),
        cache: None,
        metric: name.to_owned(),
        limit: limit.to_string(),
        base: None,
        candidate: None,
        outcome: Outcome::Inconclusive,
        message: String::new(),
    }
}

fn check_metric(case: &CaseDoc, name: &str, limit: Limit) -> Option<CheckDoc> {
    let found = case.metrics.iter().find(|metric| metric.name == name)?;
    let holds = limit.holds(found.base, found.candidate);
    let (base, candidate) = (figure(found.base), figure(found.candidate));
    Some(CheckDoc {
        base: Some(found.base),
        candidate: Some(found.candidate),
        outcome: if holds { Outcome::Pass } else { Outcome::Fail },
        message: format!(
            "{name} {base} → {candidate} {} ({}), the limit is {limit}",
            found.unit,
            change_text(found.change)
        ),
        ..open(case, name, limit)
    })
}

/// What the base has and the candidate has not leaves the gate open.
fn check_lost(case: &CaseDoc, name: &str, limit: Limit) -> Option<CheckDoc> {
    case.lost.iter().any(|lost| lost == name).then(|| CheckDoc {
        message: format!("the base has `{name}`, the candidate has not; the limit is {limit}"),
        ..open(case, name, limit)
    })
}

/// What both sides do not have leaves the gate open too.
fn not_known(case: &CaseDoc, name: &str, limit: Limit) -> CheckDoc {
    let message = format!("`{name}` is not known on both sides; the limit is {limit}");
    CheckDoc { message, ..open(case, name, limit) }
}

/// Limits of a family that no case is of have checked nothing.
fn check_family(family: &str, limits: &Limits, comparison: &Comparison) -> Option<CheckDoc> {
    let compared = comparison.cases.iter().map(|case| &case.family);
    let families = compared.chain(comparison.not_compared.iter().map(|case| &case.family));
    let (name, limit) = limits.0.first_key_value()?;
    (!families.into_iter().any(|other| other == family)).then(|| CheckDoc {
        message: format!("no case of these runs is of the family `{family}`, which has limits of its own"),
        ..open_of((&format!("family.{family}"), family), name, limit)
    })
}

/// A growth of time beyond the limit must be significant to fail, and beyond what equal builds show; to pass, the interval must
/// exclude it. Times that cycles do not confirm do neither.
fn check_time(case: &CaseDoc, limit: Limit, rule: &RuleDoc) -> Option<CheckDoc> {
    let ratio = case.ratio.filter(|_| case.of == "time")?;
    let last = 1.0 + limit.amount;
    let fails_from = 1.0 + limit.amount.max(rule.noise_floor);
    let clocks_differ = case.doubt == Some(Doubt::ClocksDiffer.name());
    let outcome = match ratio.interval {
        _ if clocks_differ => Outcome::Inconclusive,
        Some(_) if ratio.ratio > fails_from && ratio.p_adjusted <= rule.alpha => Outcome::Fail,
        Some([_, hi]) if hi <= last => Outcome::Pass,
        _ => Outcome::Inconclusive,
    };
    let within = ratio.interval.map_or_else(String::new, |[lo, hi]| {
        format!(", interval {} to {}", change_text(Some(lo - 1.0)), change_text(Some(hi - 1.0)))
    });
    let clocks = if clocks_differ { format!("; {}", Doubt::ClocksDiffer) } else { String::new() };
    Some(CheckDoc {
        base: Some(ratio.base_ns),
        candidate: Some(ratio.candidate_ns),
        outcome,
        message: format!("time {}{within}, the limit is {limit}{clocks}", change_text(Some(ratio.ratio - 1.0))),
        ..open(case, "time", limit)
    })
}

/// A part that is not known cannot pass: it is taken as unchanged only to have a figure.
fn check_step(step: Option<&StepDoc>, limit: Limit, noise_floor: f64) -> CheckDoc {
    let check = |outcome, message| CheckDoc { outcome, message, ..open_of((STEP, ""), STEP, limit) };
    let Some(step) = step else {
        let text = format!("no change of a case is known well enough to tell that of the step, the limit is {limit}");
        return check(Outcome::Inconclusive, text);
    };
    let [lo, hi] = step.interval;
    let outcome = match () {
        () if step.change > limit.amount.max(noise_floor) + ROUNDING && lo > 0.0 => Outcome::Fail,
        () if hi <= limit.amount + ROUNDING && step.left_out <= ROUNDING => Outcome::Pass,
        () => Outcome::Inconclusive,
    };
    let [change, lo, hi] = [step.change, lo, hi].map(|change| change_text(Some(change)));
    let left_out = match step.left_out > ROUNDING {
        true => format!("; not known is {} of it", units::percent(step.left_out)),
        false => String::new(),
    };
    check(
        outcome,
        format!("expected change of the step {change}, interval {lo} to {hi}, the limit is {limit}{left_out}"),
    )
}

/// A candidate that fails, hangs or is wrong is a regression, whatever the base says; what else was not compared leaves the
/// gate open. A case that is new in the candidate has nothing to be compared with.
fn check_presence(case: &NotCompared) -> Option<CheckDoc> {
    let outcome = match () {
        () if case.has_failed() => Outcome::Fail,
        () if case.is_open() => Outcome::Inconclusive,
        () => return None,
    };
    Some(CheckDoc {
        cache: case.cache.clone(),
        outcome,
        message: case.reason.clone(),
        ..open_of((&case.id, &case.family), "status", "runs as in the base")
    })
}

/// Whether a text is as a pattern says; `*` stands for any run of characters, everything else for itself.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    // The earliest place of each part leaves the most for those behind it.
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
