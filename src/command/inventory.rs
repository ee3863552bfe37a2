//! `kbench inventory`.

use crate::cli::{InventoryArgs, ReadArgs};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, from_output, usage};
use crate::report::profile::{kernels, steps, summary};
use crate::report::{Format, units};
use kbench_profile::{Inventory, Phase, ReadOptions, Severity};
use std::io::{self, Write};
use std::path::PathBuf;

pub(crate) use crate::report::profile::coverage_line;

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
    let mut inventory = read(&args.paths, &args.read)?;
    if let Some(phase) = args.phase {
        select_phase(&mut inventory, phase)?;
    }
    let write = |out: &mut dyn Write| match args.steps {
        true => steps::write(out, &inventory, format, args.top),
        false => write(out, &inventory, format, args.top),
    };
    match &args.output {
        Some(path) => super::write_whole(path, write)?,
        None => write(&mut io::stdout().lock()).map_err(from_output)?,
    }
    Ok(Exit::Ok)
}

/// Keeps one phase; a phase that the profile does not have is an error that says which it has.
fn select_phase(inventory: &mut Inventory, phase: Phase) -> Result<(), Failure> {
    let phases: Vec<&str> = inventory.ns_by_phase().keys().map(|phase| phase.name()).collect();
    let share = inventory.retain_phase(phase);
    if inventory.rows.is_empty() {
        return Err(usage(format!(
            "{}: no kernel is of phase {phase}: the profile has {}",
            inventory.source.paths.join(", "),
            phases.join(", ")
        )));
    }
    let text = format!("only phase {phase} is shown: {} of the profile's kernel time", units::percent(share));
    inventory.note(Severity::Note, "selected_phase", text);
    Ok(())
}

fn write(out: &mut dyn Write, inventory: &Inventory, format: Format, top: usize) -> io::Result<()> {
    match format {
        Format::Table => kernels::table(out, inventory, top),
        Format::Csv => inventory.write_csv(out),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &inventory.to_json())?;
            writeln!(out)
        }
        Format::Md => summary::markdown(out, inventory, top),
    }
}
