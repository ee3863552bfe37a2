//! The summary of a profile for people who decide what to look at (`PROFILE.md`): window, where time goes, top kernels, how far shapes are known,
//! health.

use super::{code, steps};
use crate::report::units;
use kbench_profile::{Inventory, Severity};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the summary as Markdown with the `top` heaviest kernels.
///
/// # Errors
/// When the output cannot be written.
pub fn markdown(out: &mut dyn Write, inventory: &Inventory, top: usize) -> io::Result<()> {
    let source = &inventory.source;
    writeln!(out, "# Profile\n")?;
    writeln!(out, "- source: {} ({})", source.paths.join(", "), source.dialect)?;
    for (name, value) in &source.hints {
        writeln!(out, "- {name}: {value}")?;
    }
    window(out, inventory)?;
    where_time_goes(out, inventory)?;
    kernels(out, inventory, top)?;
    coverage(out, inventory)?;
    health(out, inventory)
}

fn window(out: &mut dyn Write, inventory: &Inventory) -> io::Result<()> {
    writeln!(out, "\n## Window\n")?;
    let kernel_ns = inventory.total_ns() as f64;
    let calls: u64 = inventory.rows.iter().filter(|row| !row.is_transfer()).map(|row| row.calls).sum();
    writeln!(out, "- kernel time: {} in {calls} calls of {} rows", units::time(kernel_ns, 5), inventory.rows.len())?;
    if let Some(window) = &inventory.window {
        let busy = 1.0 - window.idle_share();
        writeln!(
            out,
            "- span: {}, of which the GPU was busy {} ({}) and idle {}",
            units::time(window.span_ns as f64, 5),
            units::time(window.busy_ns as f64, 5),
            units::percent(busy),
            units::percent(window.idle_share())
        )?;
    }
    if inventory.transfer_ns() > 0 {
        let ns = units::time(inventory.transfer_ns() as f64, 4);
        writeln!(out, "- copies and fills by the runtime: {ns} (not kernel time)")?;
    }
    match (inventory.steps.is_empty(), inventory.source.steps) {
        (false, _) => {
            writeln!(out, "- steps: {}\n", inventory.steps.len())?;
            steps::phase_table(out, &inventory.steps)?;
            if inventory.steps.iter().any(|step| !step.attention.is_empty()) {
                writeln!(out, "\nAttention work of all steps:\n")?;
                steps::attention_table(out, &inventory.steps)?;
            }
        }
        (true, Some(steps)) => writeln!(out, "- steps: {steps}")?,
        (true, None) => {}
    }
    Ok(())
}

/// Kernel time by category, with a column for each phase when there are several.
fn where_time_goes(out: &mut dyn Write, inventory: &Inventory) -> io::Result<()> {
    let phases: Vec<_> = inventory.ns_by_phase().into_iter().collect();
    let mut categories: BTreeMap<&str, (u128, u64, Vec<u128>)> = BTreeMap::new();
    for row in inventory.rows.iter().filter(|row| !row.is_transfer()) {
        let (ns, calls, by_phase) = categories.entry(&row.category).or_insert_with(|| (0, 0, vec![0; phases.len()]));
        *ns += u128::from(row.total_ns);
        *calls = calls.saturating_add(row.calls);
        for ((phase, _), sum) in phases.iter().zip(by_phase) {
            *sum += if *phase == row.phase { u128::from(row.total_ns) } else { 0 };
        }
    }
    let mut categories: Vec<_> = categories.into_iter().collect();
    categories.sort_by_key(|(name, (ns, ..))| (std::cmp::Reverse(*ns), *name));
    let total = inventory.total_ns().max(1) as f64;
    let share = |ns: u128, of: u128| units::percent(ns as f64 / of.max(1) as f64);
    writeln!(out, "\n## Where time goes\n")?;
    let shown = if phases.len() > 1 { phases.as_slice() } else { &[] };
    let names: String = shown.iter().map(|(phase, _)| format!(" share of {phase} |")).collect();
    writeln!(out, "| category | time | share | calls |{names}")?;
    writeln!(out, "| --- | ---: | ---: | ---: |{}", " ---: |".repeat(shown.len()))?;
    for (name, (ns, calls, by_phase)) in categories {
        let parts: String =
            shown.iter().zip(by_phase).map(|((_, all), ns)| format!(" {} |", share(ns, *all))).collect();
        let (time, part) = (units::time(ns as f64, 4), units::percent(ns as f64 / total));
        writeln!(out, "| {} | {time} | {part} | {calls} |{parts}", name.replace('|', "\\|"))?;
    }
    if let [(phase, _)] = phases.as_slice() {
        return writeln!(out, "\nAll of it is of phase {phase}.");
    }
    let by_phase: Vec<String> = phases
        .iter()
        .map(|(phase, ns)| format!("{phase} {} ({})", units::time(*ns as f64, 4), units::percent(*ns as f64 / total)))
        .collect();
    writeln!(out, "\nBy phase: {}.", if by_phase.is_empty() { "nothing".to_owned() } else { by_phase.join(", ") })
}

fn kernels(out: &mut dyn Write, inventory: &Inventory, top: usize) -> io::Result<()> {
    writeln!(out, "\n## Kernels\n")?;
    writeln!(out, "| share | calls | total | mean | phase | family | category | kernel | shapes | provenance |")?;
    writeln!(out, "| ---: | ---: | ---: | ---: | --- | --- | --- | --- | --- | --- |")?;
    for row in inventory.rows.iter().take(top) {
        let more = if row.shapes.len() > 3 { format!("<br>+{}", row.shapes.len() - 3) } else { String::new() };
        let shapes: Vec<String> = row.shapes.iter().take(3).map(|used| code(&used.shape.to_string())).collect();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {}{more} | {} |",
            units::percent(row.share),
            row.calls,
            units::time(row.total_ns as f64, 4),
            units::time(row.total_ns as f64 / row.calls.max(1) as f64, 3),
            row.phase,
            row.family,
            row.category.replace('|', "\\|"),
            code(&units::shorten(&row.kernel, 80)),
            shapes.join("<br>"),
            row.provenance
        )?;
    }
    let hidden = inventory.rows.get(top..).unwrap_or_default();
    if hidden.is_empty() {
        return Ok(());
    }
    let share: f64 = hidden.iter().map(|row| row.share).sum();
    writeln!(out, "\n{} more rows with {} of kernel time (`--top`).", hidden.len(), units::percent(share))
}

fn coverage(out: &mut dyn Write, inventory: &Inventory) -> io::Result<()> {
    writeln!(out, "\n## Shapes\n\n{}\n", super::coverage_line(inventory))?;
    let coverage = inventory.coverage();
    if coverage.by_provenance.is_empty() {
        return Ok(());
    }
    writeln!(out, "| provenance | share of kernel time |\n| --- | ---: |")?;
    for (name, share) in &coverage.by_provenance {
        writeln!(out, "| {name} | {} |", units::percent(*share))?;
    }
    let without = inventory.rows.iter().filter(|row| row.family.is_replayable() && row.shapes.is_empty());
    let mut without: Vec<_> = without.collect();
    without.truncate(5);
    if !without.is_empty() {
        writeln!(out, "\nHeaviest kernels that could be replayed if their shapes were known:\n")?;
        for row in without {
            writeln!(out, "- {} {}", units::percent(row.share), code(&units::shorten(&row.kernel, 80)))?;
        }
    }
    Ok(())
}

fn health(out: &mut dyn Write, inventory: &Inventory) -> io::Result<()> {
    writeln!(out, "\n## Health\n")?;
    if inventory.health.is_empty() {
        return writeln!(out, "Nothing was found wrong.");
    }
    let mut findings: Vec<_> = inventory.health.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings {
        let word = if finding.severity == Severity::Warning { "**warning** " } else { "" };
        writeln!(out, "- {word}`{}`: {}", finding.code, finding.message)?;
    }
    Ok(())
}
