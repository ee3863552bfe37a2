//! The kernels of a profile as a table.

use crate::report::units;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use kbench_profile::{Inventory, Row};
use std::io::{self, Write};

/// Writes the `top` heaviest kernels, with what stands above and below them.
///
/// # Errors
/// When the output cannot be written.
pub fn table(out: &mut dyn Write, inventory: &Inventory, top: usize) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["share", "calls", "mean", "family", "kernel", "shapes (heaviest)", "provenance"]);
    for row in inventory.rows.iter().take(top) {
        table.add_row(cells(row));
    }
    for column in 0..3 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in super::head(inventory) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "\n{table}")?;
    let hidden = inventory.rows.get(top..).unwrap_or_default();
    if !hidden.is_empty() {
        let share: f64 = hidden.iter().map(|row| row.share).sum();
        let (count, share) = (hidden.len(), units::percent(share));
        writeln!(out, "… and {count} more rows, {share} of kernel time (--top {})", top + count)?;
    }
    for finding in &inventory.health {
        writeln!(out, "{}: {}", finding.code, finding.message)?;
    }
    Ok(())
}

fn cells(row: &Row) -> [String; 7] {
    let mean = row.total_ns as f64 / row.calls.max(1) as f64;
    let shape = match row.shapes.as_slice() {
        [] => "–".to_owned(),
        [only] => units::shorten(&only.shape.to_string(), 56),
        [first, rest @ ..] => format!("{} +{}", units::shorten(&first.shape.to_string(), 50), rest.len()),
    };
    let name = units::shorten(&kbench_profile::names::short(&row.kernel), 48);
    [
        units::percent(row.share),
        row.calls.to_string(),
        units::time(mean, 3),
        row.family.to_string(),
        match &row.position {
            Some(position) => format!("{name} ({position})"),
            None => name,
        },
        shape,
        row.provenance.to_string(),
    ]
}
