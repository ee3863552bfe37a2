//! `kbench run`: inventory → cases → a device → results.

use crate::cli::RunArgs;
use crate::command::inventory;
use crate::device::{Device, Peaks};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, from_output, usage};
use crate::plan::{Plan, Planned, Selection};
use crate::report::document::{InventorySummary, Options, RunDocument, SCHEMA, Tool};
use crate::report::{CaseResult, Format, Status, csv, markdown, table, units};
use crate::runner::{self, Settings};
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use kbench_workload::CaseOptions;
use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs everything.
///
/// # Errors
/// On bad input, on an output that cannot be written, on a device without peaks.
pub fn run(args: &RunArgs) -> Outcome {
    if args.shapes.is_empty() {
        return Err(usage(
            "no profile was given: `kbench --shapes FILE|DIR` replays one, `kbench --help` shows examples",
        ));
    }
    let format = super::format_of(args.format, args.output.as_deref())?;
    let inventory = inventory::read(&args.shapes, &args.read)?;
    let mut device = super::open_device(&args.device, args.fp8.into(), args.kernels.as_deref(), args.emu_sample)?;
    let options = CaseOptions { fp8: device.info().fp8, seed: args.seed };
    let plan = Plan::new(&inventory, &selection(args), options);
    if plan.cases.is_empty() {
        return Err(nothing_to_do(args, &inventory));
    }
    note(&inventory::coverage_line(&inventory));
    for finding in &inventory.health {
        note(&format!("{}: {}", finding.code, finding.message));
    }
    if args.dry_run {
        dry_run(&mut io::stdout().lock(), &plan, args.explain).map_err(from_output)?;
        return Ok(Exit::Ok);
    }
    let peaks = measured_peaks(device.as_mut())?;
    let document = RunDocument {
        schema: SCHEMA,
        tool: Tool::this(),
        device: device.info().clone(),
        environment: device.environment().into_iter().collect(),
        options: Options {
            seed: args.seed,
            precision: args.precision,
            time_budget_ns: args.time_budget.as_nanos() as u64,
            cache: args.cache.modes(),
        },
        inventory: InventorySummary::new(&inventory, &plan),
        cases: Vec::new(),
        interrupted: false,
    };
    let sinks = Sinks::new(args, format)?;
    let document = replay(args, device.as_mut(), &plan, &peaks, document, &sinks)?;
    sinks.finish(&document)?;
    if let Some(name) = &args.save {
        let id = super::kept::save(&args.store, name, &document)?;
        note(&format!("saved as {name} ({id})"));
    }
    let statuses: Vec<Status> = document.cases.iter().map(|case| case.status).collect();
    Ok(exit_of(document.interrupted, &statuses))
}

fn selection(args: &RunArgs) -> Selection {
    Selection {
        families: args.family.clone(),
        kernel: args.kernel.clone(),
        phase: args.phase,
        top: args.top,
        coverage: args.coverage,
    }
}

fn nothing_to_do(args: &RunArgs, inventory: &kbench_profile::Inventory) -> Failure {
    let filtered = !args.family.is_empty() || args.kernel.is_some() || args.phase.is_some();
    let what =
        if filtered { "no kernel passes the filters" } else { "no kernel is of a family that kbench can replay" };
    usage(format!(
        "{}: {what}: it holds {} kernels, {}; `kbench inventory` lists them",
        inventory.source.paths.join(", "),
        inventory.rows.len(),
        inventory::coverage_line(inventory)
    ))
}

/// A line on stderr.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn measured_peaks(device: &mut dyn Device) -> Result<Peaks, Failure> {
    let begin = Instant::now();
    let peaks = device.peaks().or_device()?;
    if begin.elapsed() > Duration::from_millis(500) {
        note(&format!(
            "peaks measured in {:.1} s and kept (`kbench peaks` measures again)",
            begin.elapsed().as_secs_f64()
        ));
    }
    Ok(peaks)
}

/// Runs the cases one by one; each result is written before the next begins.
fn replay(
    args: &RunArgs,
    device: &mut dyn Device,
    plan: &Plan,
    peaks: &Peaks,
    mut document: RunDocument,
    sinks: &Sinks,
) -> Result<RunDocument, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&stop);
    // Without a handler (another one is set, as in an embedding program) an interrupt simply ends the process.
    let _ = ctrlc::set_handler(move || handler.store(true, Ordering::SeqCst));
    let modes = args.cache.modes();
    let mut work: Vec<_> = plan.cases.iter().flat_map(|case| modes.iter().map(move |mode| (case, *mode))).collect();
    work.reverse();
    let bar = progress_bar(work.len() as u64);
    let deadline = Instant::now() + args.time_budget;
    sinks.begin()?;
    while let Some((case, cache)) = work.pop() {
        let left = deadline.saturating_duration_since(Instant::now());
        let runnable = work.iter().filter(|(case, _)| case.workload.is_ok()).count() as u32 + 1;
        let settings = Settings {
            cache,
            seed: args.seed,
            precision: args.precision,
            // What quick cases leave over goes to the later ones.
            budget: left / runnable,
            left,
        };
        bar.set_message(units::shorten(&case.id, 60));
        let mut result = if stop.load(Ordering::SeqCst) {
            document.interrupted = true;
            CaseResult::new(case).ended(Status::Skipped, "the run was interrupted before its turn")
        } else {
            runner::run_case(device, case, peaks, &settings, &stop)
        };
        if modes.len() > 1 {
            result.id = format!("{}@{}", result.id, cache.name());
        }
        bar.suspend(|| sinks.case(&result, case, args.explain))?;
        document.cases.push(result);
        sinks.keep(&document)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    document.interrupted |= stop.load(Ordering::SeqCst);
    Ok(document)
}

fn progress_bar(cases: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {msg}");
    let bar = ProgressBar::new(cases).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Where results go.
struct Sinks<'a> {
    format: Format,
    output: Option<&'a Path>,
    report: Option<&'a Path>,
    /// The last run, kept whatever the options, so that a killed run is not lost.
    last_run: Option<PathBuf>,
}

impl<'a> Sinks<'a> {
    fn new(args: &'a RunArgs, format: Format) -> Result<Self, Failure> {
        if let Some(dir) = &args.report {
            fs::create_dir_all(dir).with_context(|| format!("{} could not be made", dir.display())).or_usage()?;
        }
        // Nothing depends on the state folder: where it cannot be made, only the safety copy is missing.
        let last_run =
            super::state_dir().filter(|dir| fs::create_dir_all(dir).is_ok()).map(|dir| dir.join("last-run.json"));
        Ok(Self { format, output: args.output.as_deref(), report: args.report.as_deref(), last_run })
    }

    /// True when table rows appear on stdout as cases end.
    fn streams(&self) -> bool {
        self.format == Format::Table && self.output.is_none()
    }

    fn begin(&self) -> Outcome<()> {
        if self.streams() {
            table::head(&mut io::stdout().lock()).map_err(from_output)?;
        }
        Ok(())
    }

    fn case(&self, result: &CaseResult, planned: &Planned, explain: bool) -> Outcome<()> {
        let mut out = io::stdout().lock();
        if self.streams() {
            table::row(&mut out, result).map_err(from_output)?;
            if explain {
                explain_case(&mut out, planned).map_err(from_output)?;
            }
            out.flush().map_err(from_output)?;
        }
        Ok(())
    }

    /// Writes what there is so far.
    fn keep(&self, document: &RunDocument) -> Outcome<()> {
        if let Some(path) = self.output {
            super::write_whole(path, |out| whole(out, document, self.format))?;
        }
        if let Some(path) = &self.last_run {
            // A full disk must not end a run whose results still reach stdout.
            let _ = super::write_whole(path, |out| whole(out, document, Format::Json));
        }
        Ok(())
    }

    fn finish(&self, document: &RunDocument) -> Outcome<()> {
        let mut out = io::stdout().lock();
        match (self.output, self.format) {
            (None, Format::Table) => table::foot(&mut out, document).map_err(from_output)?,
            (None, format) => whole(&mut out, document, format).map_err(from_output)?,
            (Some(path), _) => {
                self.keep(document)?;
                note(&format!("{} cases written to {}", document.cases.len(), path.display()));
            }
        }
        if let Some(dir) = self.report {
            for (name, format) in [("run.json", Format::Json), ("cases.csv", Format::Csv), ("report.md", Format::Md)] {
                super::write_whole(&dir.join(name), |out| whole(out, document, format))?;
            }
        }
        Ok(())
    }
}

/// A whole document in a format.
fn whole(out: &mut dyn Write, document: &RunDocument, format: Format) -> io::Result<()> {
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, document)?;
            writeln!(out)
        }
        Format::Csv => csv::write(out, document),
        Format::Md => markdown::write(out, document),
        Format::Table => {
            table::head(out)?;
            for case in &document.cases {
                table::row(out, case)?;
            }
            table::foot(out, document)
        }
    }
}

/// The exit code that a run's worst case asks for: a wrong result says more than a failed launch.
fn exit_of(interrupted: bool, statuses: &[Status]) -> Exit {
    match () {
        () if interrupted => Exit::Interrupted,
        () if statuses.contains(&Status::Wrong) => Exit::Wrong,
        () if statuses.contains(&Status::Failed) || statuses.contains(&Status::Hung) => Exit::Device,
        () => Exit::Ok,
    }
}

/// Prints what would run.
fn dry_run(out: &mut dyn Write, plan: &Plan, explain: bool) -> io::Result<()> {
    for case in &plan.cases {
        let share = units::percent(case.weight.share);
        match &case.workload {
            Ok(workload) => {
                let work = workload.work();
                let memory: u128 = workload.tensors().iter().map(|tensor| tensor.bytes()).sum();
                writeln!(
                    out,
                    "{share:>7}  {}  {} FLOP, {} moved, {} of tensors",
                    case.id,
                    units::count(work.total_flops()),
                    units::bytes(work.total_bytes()),
                    units::bytes(memory)
                )?;
                if explain {
                    explain_case(out, case)?;
                }
            }
            Err(reason) => writeln!(out, "{share:>7}  {}  skipped: {reason}", case.id)?,
        }
    }
    for (family, share) in &plan.not_replayable {
        writeln!(out, "{:>7}  {family}: no workload", units::percent(*share))?;
    }
    Ok(())
}

/// Prints a case's formulas with their numbers, and what was assumed.
fn explain_case(out: &mut dyn Write, case: &Planned) -> io::Result<()> {
    writeln!(out, "         kernel: {}", units::shorten(&case.kernel, 100))?;
    if let Ok(workload) = &case.workload {
        for line in workload.work().explain {
            writeln!(out, "         {line}")?;
        }
    }
    for sentence in &case.assumed {
        writeln!(out, "         assumed: {sentence}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_case_decides_the_exit_code() {
        use Status::{Failed, Hung, Ok, Skipped, Wrong};
        for (interrupted, statuses, code) in [
            (false, vec![Ok, Skipped], 0),
            (false, vec![], 0),
            (false, vec![Ok, Failed], 5),
            (false, vec![Hung, Ok], 5),
            (false, vec![Failed, Wrong, Hung], 4),
            (true, vec![Ok, Wrong], 130),
        ] {
            assert_eq!(exit_of(interrupted, &statuses).code(), code, "{interrupted} {statuses:?}");
        }
    }
}
