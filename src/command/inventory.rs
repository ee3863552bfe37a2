//! `kbench inventory`.

use crate::cli::{InventoryArgs, ReadArgs};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, from_output};
use crate::report::{Format, units};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use kbench_profile::{Inventory, ReadOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// Reads profiles with the options of the command line.
pub(crate) fn read(paths: &[PathBuf], args: &ReadArgs) -> Result<Inventory, Failure> {
    kbench_profile::read(paths, &ReadOptions::from(args)).or_usage()
}

/// Reads and prints or writes.
///
/// # Errors
/// When a source cannot be read or the output cannot be written.
pub fn run(args: &InventoryArgs) -> Outcome {
    let format = super::format_of(args.format, args.output.as_deref())?;
    let inventory = read(&args.paths, &args.read)?;
    match &args.output {
        Some(path) => super::write_whole(path, |out| write(out, &inventory, format, args.top))?,
        None => write(&mut io::stdout().lock(), &inventory, format, args.top).map_err(from_output)?,
    }
    Ok(Exit::Ok)
}

fn write(out: &mut dyn Write, inventory: &Inventory, format: Format, top: usize) -> io::Result<()> {
    match format {
        Format::Table => table(out, inventory, top),
        Format::Csv => inventory.write_csv(out),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &inventory.to_json())?;
            writeln!(out)
        }
        Format::Md => markdown(out, inventory, top),
    }
}

/// The coverage line: what share of kernel time has shapes, and how they are known.
pub(crate) fn coverage_line(inventory: &Inventory) -> String {
    let coverage = inventory.coverage();
    let parts: Vec<String> = coverage
        .by_provenance
        .iter()
        .filter(|(name, _)| *name != "none")
        .map(|(name, share)| format!("{name} {}", units::percent(*share)))
        .collect();
    let how = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    format!(
        "shapes for {} of kernel time{how}; replayable {}",
        units::percent(coverage.with_shape),
        units::percent(coverage.replayable)
    )
}

fn summary(inventory: &Inventory) -> Vec<String> {
    let source = &inventory.source;
    let mut lines = vec![
        format!("source: {} ({})", source.paths.join(", "), source.dialect),
        format!("kernel time: {} in {} rows", units::time(inventory.total_ns() as f64, 5), inventory.rows.len()),
        coverage_line(inventory),
    ];
    if let Some(steps) = source.steps {
        lines.push(format!("steps: {steps}"));
    }
    for (name, value) in &source.hints {
        lines.push(format!("hint: {name} = {value} (not used as a shape)"));
    }
    lines
}

fn table(out: &mut dyn Write, inventory: &Inventory, top: usize) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["share", "calls", "mean", "family", "kernel", "shapes (heaviest)", "provenance"]);
    for row in inventory.rows.iter().take(top) {
        let mean = row.total_ns as f64 / row.calls.max(1) as f64;
        let shape = match row.shapes.as_slice() {
            [] => "–".to_owned(),
            [only] => units::shorten(&only.shape.to_string(), 56),
            [first, rest @ ..] => format!("{} +{}", units::shorten(&first.shape.to_string(), 50), rest.len()),
        };
        table.add_row([
            units::percent(row.share),
            row.calls.to_string(),
            units::time(mean, 3),
            row.family.to_string(),
            units::shorten(&kbench_profile::names::short(&row.kernel), 48),
            shape,
            row.provenance.to_string(),
        ]);
    }
    for column in 0..3 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in summary(inventory) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "\n{table}")?;
    let hidden = inventory.rows.len().saturating_sub(top);
    if hidden > 0 {
        let share: f64 = inventory.rows[top..].iter().map(|row| row.share).sum();
        writeln!(out, "… and {hidden} more rows, {} of kernel time (--top {})", units::percent(share), top + hidden)?;
    }
    for finding in &inventory.health {
        writeln!(out, "{}: {}", finding.code, finding.message)?;
    }
    Ok(())
}

fn markdown(out: &mut dyn Write, inventory: &Inventory, top: usize) -> io::Result<()> {
    writeln!(out, "# Kernel inventory\n")?;
    for line in summary(inventory) {
        writeln!(out, "- {line}")?;
    }
    writeln!(out, "\n| share | calls | total | family | category | kernel | shapes | provenance |")?;
    writeln!(out, "| ---: | ---: | ---: | --- | --- | --- | --- | --- |")?;
    for row in inventory.rows.iter().take(top) {
        let shapes: Vec<String> = row.shapes.iter().take(3).map(|used| format!("`{}`", used.shape)).collect();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | `{}` | {} | {} |",
            units::percent(row.share),
            row.calls,
            units::time(row.total_ns as f64, 4),
            row.family,
            row.category,
            units::shorten(&row.kernel, 80).replace('|', "\\|"),
            shapes.join("<br>"),
            row.provenance
        )?;
    }
    if !inventory.health.is_empty() {
        writeln!(out, "\n## Health\n")?;
        for finding in &inventory.health {
            writeln!(out, "- `{}`: {}", finding.code, finding.message)?;
        }
    }
    Ok(())
}
