//! What a profile holds, printed: its kernels, its steps, its summary.

pub mod kernels;
pub mod steps;
pub mod summary;

use super::units;
use kbench_profile::Inventory;

/// The coverage line: what share of kernel time has shapes, and how they are known.
pub fn coverage_line(inventory: &Inventory) -> String {
    let coverage = inventory.coverage();
    let parts: Vec<String> = coverage
        .by_provenance
        .iter()
        .filter(|(name, _)| *name != "none")
        .map(|(name, share)| format!("{name} {}", units::percent(*share)))
        .collect();
    if inventory.total_ns() == 0 {
        // Shares of no time would all be 0.
        let known = inventory.rows.iter().filter(|row| !row.shapes.is_empty()).count();
        return format!("shapes for {known} of {} kernels, which have no times", inventory.rows.len());
    }
    let how = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!(
        "shapes for {} of kernel time{how}; replayable {}",
        units::percent(coverage.with_shape),
        units::percent(coverage.replayable)
    )
}

/// What stands above every form for people: source, kernel time, coverage, window, hints.
pub fn head(inventory: &Inventory) -> Vec<String> {
    let source = &inventory.source;
    let mut lines = vec![
        format!("source: {} ({})", source.paths.join(", "), source.dialect),
        format!("kernel time: {} in {} rows", units::time(inventory.total_ns() as f64, 5), inventory.rows.len()),
        coverage_line(inventory),
    ];
    if let Some(window) = &inventory.window {
        lines.push(format!(
            "window: {}, idle {}, {} kernels",
            units::time(window.span_ns as f64, 5),
            units::percent(window.idle_share()),
            window.kernels
        ));
    }
    if let Some(steps) = source.steps {
        lines.push(format!("steps: {steps}"));
    }
    for (name, value) in &source.hints {
        lines.push(format!("hint: {name} = {value} (not used as a shape)"));
    }
    lines
}

/// Text for a cell of a Markdown table, as code.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|").replace('`', "'"))
}
