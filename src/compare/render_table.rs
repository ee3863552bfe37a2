//! A comparison as text for people.

use super::case::{change_text, share_text};
use super::document::{CaseDoc, Comparison, Difference, GateDoc, Method, Outcome, StepDoc};
use crate::report::units;
use std::io::{self, Write};

/// Longest text of a difference or a name that a line shows.
const WIDE: usize = 78;

/// Writes the comparison; at most `top` cases that are SAME. Control characters of foreign names do not reach the terminal.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, comparison: &Comparison, top: usize) -> io::Result<()> {
    let mut text = Vec::new();
    render(&mut text, comparison, top)?;
    for line in String::from_utf8_lossy(&text).split_inclusive('\n') {
        let plain: String = line.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
        out.write_all(plain.as_bytes())?;
    }
    Ok(())
}

fn render(out: &mut dyn Write, comparison: &Comparison, top: usize) -> io::Result<()> {
    head(out, comparison)?;
    let (cases, hidden) = shown(&comparison.cases, top);
    for case in &cases {
        row(out, case)?;
    }
    if hidden > 0 {
        writeln!(out, "... and {hidden} more that are SAME (--top)")?;
    }
    if !comparison.not_compared.is_empty() {
        writeln!(out, "\nnot compared:")?;
        for case in &comparison.not_compared {
            let cache = case.cache.as_deref().map_or_else(String::new, |cache| format!(" {cache}"));
            writeln!(out, "  {}{cache}: {}", units::shorten(&case.id, WIDE), case.reason)?;
        }
    }
    foot(out, comparison)
}

/// The cases that are shown: all that are not SAME, and `top` of those that are; and how many are not shown.
pub(super) fn shown(cases: &[CaseDoc], top: usize) -> (Vec<&CaseDoc>, usize) {
    let mut left = top;
    let chosen: Vec<&CaseDoc> = cases
        .iter()
        .filter(|case| {
            let same = case.verdict == "SAME";
            let fits = !same || left > 0;
            left -= usize::from(same && fits);
            fits
        })
        .collect();
    let hidden = cases.len() - chosen.len();
    (chosen, hidden)
}

fn head(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    for (word, side) in [("base", &comparison.base), ("candidate", &comparison.candidate)] {
        let mut text = format!("{word:<10} {}", side.label);
        if let (Some(device), Some(arch)) = (&side.device, &side.arch) {
            text.push_str(&format!("  ({device}, {arch})"));
        }
        if let Some(ns) = side.kernel_ns {
            let per = side.steps.map_or_else(|| "in all".to_owned(), |steps| format!("a step, {steps} steps"));
            text.push_str(&format!("  ({} of kernels {per})", units::time(ns, 4)));
        }
        writeln!(out, "{text}")?;
    }
    writeln!(out, "{}", rule(comparison))?;
    for (word, list) in [("differs", &comparison.environment), ("allowed", &comparison.allowed)] {
        for difference in list {
            writeln!(out, "{word:<10} {}", difference_text(difference))?;
        }
    }
    writeln!(out)
}

/// What the words mean, in one sentence.
pub(super) fn rule(comparison: &Comparison) -> String {
    let rule = &comparison.rule;
    let (threshold, margin) = (share_text(rule.threshold), share_text(rule.margin));
    match (comparison.method, &rule.between_runs) {
        (Method::Exact, _) => {
            let figures = match comparison.cases.iter().filter(|case| case.sampled).count() {
                0 => "figures are exact".to_owned(),
                sampled => format!(
                    "figures of {sampled} of {} cases are scaled from a part of the workgroups",
                    comparison.cases.len()
                ),
            };
            format!("emulated: {figures}, FASTER and SLOWER are of the bound beyond {threshold}; no time was measured")
        }
        (Method::Paired, _) => format!(
            "in turn: a change is beyond {threshold} and significant at {} (correction: {}); SAME excludes {margin}",
            share_text(rule.alpha),
            rule.correction
        ),
        (_, between) => {
            let error = between.as_ref().map_or_else(String::new, |between| {
                format!("; runs of one build differ by {} ({})", share_text(between.sd), between.source)
            });
            format!(
                "made apart: a change is beyond {threshold} and significant at {} (correction: {}); SAME excludes {margin}{error}",
                share_text(rule.alpha),
                rule.correction
            )
        }
    }
}

pub(super) fn difference_text(difference: &Difference) -> String {
    match (&difference.base, &difference.candidate) {
        (None, None) => difference.what.clone(),
        (base, candidate) => {
            let text =
                |side: &Option<String>| side.as_deref().map_or("none".to_owned(), |text| units::shorten(text, WIDE));
            format!("{}: {} → {}", difference.what, text(base), text(candidate))
        }
    }
}

/// The change and its interval: `+3.1 % (+0.2 to +6.0)`.
pub(super) fn ratio_text(case: &CaseDoc) -> String {
    let Some(ratio) = case.ratio else { return "–".to_owned() };
    let change = change_text(Some(ratio.ratio - 1.0));
    match ratio.interval {
        Some([lo, hi]) if lo < hi => format!("{change} ({:+.2} to {:+.2})", (lo - 1.0) * 100.0, (hi - 1.0) * 100.0),
        Some(_) => change,
        None => format!("{change} (no interval)"),
    }
}

/// Base and candidate values: a bound is never shown as a time.
pub(super) fn values_text(case: &CaseDoc) -> String {
    let word = if case.of == "bound" { "bound " } else { "" };
    case.ratio.map_or_else(
        || "–".to_owned(),
        |ratio| format!("{word}{} → {}", units::time(ratio.base_ns, 4), units::time(ratio.candidate_ns, 4)),
    )
}

fn row(out: &mut dyn Write, case: &CaseDoc) -> io::Result<()> {
    let share = if case.share > 0.0 { units::percent(case.share) } else { "–".to_owned() };
    let cache = cache_text(case).map_or_else(String::new, |cache| format!(" {cache}"));
    let code = if case.identical_code == Some(true) { "  identical machine code" } else { "" };
    writeln!(out, "{:<12} {share:>7}  {}{cache}{code}", case.verdict, units::shorten(&case.id, WIDE))?;
    writeln!(out, "{:22}{}  {}", "", values_text(case), ratio_text(case))?;
    if let Some(reason) = &case.reason {
        writeln!(out, "{:22}{reason}", "")?;
    }
    if !case.why.is_empty() {
        writeln!(out, "{:22}{}", "", case.why.join(", "))?;
    }
    Ok(())
}

/// The cache state, and the one that was asked for where it is another.
pub(super) fn cache_text(case: &CaseDoc) -> Option<String> {
    match (case.requested_cache.as_deref(), case.cache.as_deref()) {
        (Some(requested), Some(measured)) if requested != measured => Some(format!("{requested}, measured {measured}")),
        (requested, measured) => measured.or(requested).map(str::to_owned),
    }
}

/// What is said in the place of a step that is not known.
pub(super) const NO_STEP: &str = "not known, because no case has an interval";

/// What a step leaves out, and what of it one side alone has.
pub(super) fn step_aside(step: &StepDoc) -> String {
    let mut parts = String::new();
    for (share, what) in [
        (step.left_out, "is left out, because it has no interval or its times and cycles disagree"),
        (step.added, "is added by kernels that only the candidate has"),
        (step.removed, "is in kernels that only the base has"),
    ] {
        if share > 0.0 {
            parts.push_str(&format!("; {} {what}", units::percent(share)));
        }
    }
    parts
}

pub(super) fn step_text(step: &StepDoc) -> String {
    let change = change_text(Some(step.change));
    match step.interval {
        [lo, hi] if lo < hi => format!("{change} ({:+.2} to {:+.2})", lo * 100.0, hi * 100.0),
        _ => change,
    }
}

fn foot(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    if let Some(summary) = &comparison.summary {
        let of = if summary.of == "bound" { "bound of the step" } else { "the step" };
        writeln!(out)?;
        match &summary.step {
            Some(step) => writeln!(
                out,
                "expected change of {of}: {}, from {} of it ({}){}",
                step_text(step),
                units::percent(step.share),
                summary.weights,
                step_aside(step)
            )?,
            None => writeln!(out, "expected change of {of}: {NO_STEP}")?,
        }
        for (phase, step) in &summary.by_phase {
            writeln!(out, "  {phase}: {} over {} compared cases", step_text(step), step.cases)?;
        }
        let counts: Vec<String> = summary
            .verdicts
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        writeln!(
            out,
            "{} cases: {}; geometric mean of the ratios {}",
            comparison.cases.len(),
            counts.join(", "),
            units::significant(summary.geometric_mean, 5)
        )?;
    }
    if let Some(gate) = &comparison.gate {
        writeln!(out, "\n{}", gate_text(gate))?;
        for check in gate.checks.iter().filter(|check| check.outcome != Outcome::Pass) {
            let word = if check.outcome == Outcome::Fail { "FAILED" } else { "open" };
            writeln!(out, "  {word}: {}: {}", units::shorten(&check.case, WIDE), check.message)?;
        }
    }
    Ok(())
}

/// The gate in one line.
pub(super) fn gate_text(gate: &GateDoc) -> String {
    let count = |outcome| gate.checks.iter().filter(|check| check.outcome == outcome).count();
    let (failed, open) = (count(Outcome::Fail), count(Outcome::Inconclusive));
    let word = if gate.passed { "gate: passed" } else { "gate: FAILED" };
    format!("{word}: {} checks, {failed} failed, {open} inconclusive", gate.checks.len())
}
