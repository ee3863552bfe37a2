//! A gate's checks as JUnit XML, which CI servers show as tests: a check beyond its limit is a failure, an inconclusive one
//! is skipped (or a failure when the gate is strict).

use super::case::change_text;
use super::document::{CheckDoc, Comparison, Outcome};
use std::io::{self, Write};

/// Writes the checks. Without a gate each case is a test that passes, with its verdict as output; one that was not compared is
/// skipped, or a failure when the candidate failed, hung or is wrong.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, comparison: &Comparison, strict: bool) -> io::Result<()> {
    let (failed, open) = match &comparison.gate {
        Some(gate) => {
            let count = |outcome| gate.checks.iter().filter(|check| check.outcome == outcome).count();
            (count(Outcome::Fail), count(Outcome::Inconclusive))
        }
        None => {
            let failed = comparison.not_compared.iter().filter(|case| case.has_failed()).count();
            (failed, comparison.not_compared.len() - failed)
        }
    };
    let (failures, skipped) = if strict { (failed + open, 0) } else { (failed, open) };
    let tests = match &comparison.gate {
        Some(gate) => gate.checks.len(),
        None => comparison.cases.len() + comparison.not_compared.len(),
    };
    let several = comparison.has_several_caches();
    let named = |id: &str, cache: &Option<String>| with_cache(id, cache.as_deref().filter(|_| several));
    let name = format!("{} → {}", comparison.base.label, comparison.candidate.label);
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">")?;
    writeln!(
        out,
        "  <testsuite name=\"{}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">",
        escape(&name)
    )?;
    match &comparison.gate {
        Some(gate) => gate.checks.iter().try_for_each(|check| test(out, check, strict))?,
        None => {
            for case in &comparison.cases {
                let change = case.ratio.map_or_else(String::new, |ratio| change_text(Some(ratio.ratio - 1.0)));
                head(out, &case.family, &named(&case.id, &case.requested_cache))?;
                writeln!(out, "><system-out>{} {}</system-out></testcase>", case.verdict, escape(&change))?;
            }
            for case in &comparison.not_compared {
                head(out, &case.family, &named(&case.id, &case.cache))?;
                let reason = escape(&case.reason);
                match strict || case.has_failed() {
                    true => writeln!(
                        out,
                        "><failure type=\"not compared\" message=\"{reason}\">{reason}</failure></testcase>"
                    )?,
                    false => writeln!(out, "><skipped message=\"not compared: {reason}\"/></testcase>")?,
                }
            }
        }
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

fn head(out: &mut dyn Write, family: &str, name: &str) -> io::Result<()> {
    write!(out, "    <testcase classname=\"kbench.{}\" name=\"{}\"", escape(family), escape(name))
}

/// A case with the cache mode that tells it from the same one in another.
fn with_cache(id: &str, cache: Option<&str>) -> String {
    cache.map_or_else(|| id.to_owned(), |cache| format!("{id} ({cache})"))
}

fn test(out: &mut dyn Write, check: &CheckDoc, strict: bool) -> io::Result<()> {
    let family = if check.family.is_empty() { "step" } else { &check.family };
    let case = with_cache(&check.case, check.cache.as_deref());
    head(out, family, &format!("{case}: {} {}", check.metric, check.limit))?;
    let message = escape(&check.message);
    match check.outcome {
        Outcome::Pass => writeln!(out, "><system-out>{message}</system-out></testcase>"),
        Outcome::Inconclusive if !strict => writeln!(out, "><skipped message=\"inconclusive: {message}\"/></testcase>"),
        Outcome::Inconclusive => {
            writeln!(out, "><failure type=\"inconclusive\" message=\"{message}\">{message}</failure></testcase>")
        }
        Outcome::Fail => {
            writeln!(out, "><failure type=\"regression\" message=\"{message}\">{message}</failure></testcase>")
        }
    }
}

/// Text of an attribute or element. Control characters have no form in XML 1.0 and become blanks.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push(' '),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
