//! A comparison as Markdown, for a pull request.

use super::document::{CaseDoc, Comparison, Outcome};
use super::render_table::{
    NO_STEP, cache_text, difference_text, gate_text, ratio_text, rule, shown, step_aside, step_text, values_text,
};
use crate::report::units;
use std::io::{self, Write};

/// Writes the comparison; at most `top` cases that are SAME.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, comparison: &Comparison, top: usize) -> io::Result<()> {
    writeln!(out, "## kbench: {} → {}\n", text(&comparison.base.label), text(&comparison.candidate.label))?;
    if let Some(gate) = &comparison.gate {
        writeln!(out, "**{}**\n", text(&gate_text(gate)))?;
        for check in gate.checks.iter().filter(|check| check.outcome != Outcome::Pass) {
            let word = if check.outcome == Outcome::Fail { "**failed**" } else { "open" };
            writeln!(out, "- {word}: {}: {}", code(&check.case), text(&check.message))?;
        }
        writeln!(out)?;
    }
    if let Some(summary) = &comparison.summary {
        let of = if summary.of == "bound" { "bound of the step" } else { "the step" };
        match &summary.step {
            Some(step) => {
                let share = units::percent(step.share);
                let aside = text(&step_aside(step));
                writeln!(out, "Expected change of {of}: **{}**, from {share} of it{aside}.\n", step_text(step))?;
            }
            None => writeln!(out, "Expected change of {of}: **{NO_STEP}**.\n")?,
        }
        for (phase, step) in &summary.by_phase {
            writeln!(out, "- {}: {} over {} compared cases", text(phase), step_text(step), step.cases)?;
        }
        if !summary.by_phase.is_empty() {
            writeln!(out)?;
        }
    }
    let (cases, hidden) = shown(&comparison.cases, top);
    writeln!(out, "| verdict | case | share | base → candidate | change, % | what changed |")?;
    writeln!(out, "| --- | --- | ---: | --- | --- | --- |")?;
    for case in cases {
        row(out, case)?;
    }
    if hidden > 0 {
        writeln!(out, "\n{hidden} more cases are SAME.")?;
    }
    if !comparison.not_compared.is_empty() {
        writeln!(out, "\n### Not compared\n")?;
        for case in &comparison.not_compared {
            let cache = case.cache.as_deref().map_or_else(String::new, |cache| format!(" {}", text(cache)));
            writeln!(out, "- {}{cache}: {}", code(&case.id), text(&case.reason))?;
        }
    }
    writeln!(out, "\n{}.", text(&rule(comparison)))?;
    for (word, list) in [("Differs", &comparison.environment), ("Allowed", &comparison.allowed)] {
        for difference in list {
            writeln!(out, "\n- {word}: {}", text(&difference_text(difference)))?;
        }
    }
    Ok(())
}

fn row(out: &mut dyn Write, case: &CaseDoc) -> io::Result<()> {
    let share = if case.share > 0.0 { units::percent(case.share) } else { "–".to_owned() };
    let mut notes: Vec<&str> = case.reason.as_deref().into_iter().collect();
    if case.identical_code == Some(true) {
        notes.push("identical machine code");
    }
    notes.extend(case.why.iter().map(String::as_str));
    writeln!(
        out,
        "| {} | {}{} | {share} | {} | {} | {} |",
        case.verdict,
        code(&case.id),
        cache_text(case).map_or_else(String::new, |cache| format!(" {}", text(&cache))),
        values_text(case),
        ratio_text(case),
        text(&notes.join("; "))
    )
}

/// A code span: what would end it, or a cell of the table, is replaced.
fn code(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("`{}`", plain.replace('`', "'").replace('|', "\\|"))
}

/// Text of a line: nothing in it is markup, and it is one line.
fn text(plain: &str) -> String {
    let mut escaped = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '<' | '>' | '|' | '[' | ']' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
