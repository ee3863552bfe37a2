//! `kbench run`: inventory → cases → a device → results.

mod replay;
mod sinks;

use super::{note, worker_failure};
use crate::cli::RunArgs;
use crate::command::inventory;
use crate::counters::Request;
use crate::device::Peaks;
use crate::exit::{Exit, Failure, OrExit as _, Outcome, from_output, usage};
use crate::journal::{Journal, Saved};
use crate::plan::{Plan, Planned};
use crate::report::document::{CountingOptions, InventorySummary, Options, RunDocument, Schema, Tool};
use crate::report::{CaseResult, Status, units};
use crate::worker::Supervisor;
use crate::worker::message::Open;
use kbench_counters::rocprofv3::Run;
use kbench_workload::CaseOptions;
use replay::{Replay, all_tasks};
use sinks::Sinks;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that a run may take where times are measured, unless asked otherwise.
const USUAL_BUDGET: Duration = Duration::from_secs(30);

/// Runs everything.
///
/// # Errors
/// On bad input, on an output that cannot be written, on a device without peaks.
pub fn run(args: &RunArgs) -> Outcome {
    run_with(args, args.counters(), &mut Counts::default())
}

/// What a run has of counters, for who wants nothing else of it.
#[derive(Default)]
pub(super) struct Counts {
    /// The counted dispatches, where they are asked for.
    pub(super) records: Option<Run>,
    /// Cases of the run.
    pub(super) cases: usize,
    /// Those of them that have counters.
    pub(super) counted: usize,
    /// Why the first of the others has none.
    pub(super) why: Option<String>,
}

impl Counts {
    fn note(&mut self, cases: &[CaseResult], records: Option<Run>) {
        let is_counted = |case: &&CaseResult| case.counting.as_ref().is_some_and(|counting| counting.failed.is_none());
        let why = |case: &CaseResult| {
            case.counting.as_ref().and_then(|counting| counting.failed.clone()).or(case.reason.clone())
        };
        self.records = records;
        self.cases = cases.len();
        self.counted = cases.iter().filter(is_counted).count();
        self.why = cases.iter().find(|case| !is_counted(case)).and_then(why);
    }
}

/// Runs with these counters; `counts` takes what there is of them.
///
/// # Errors
/// As [`run`].
pub(super) fn run_with(args: &RunArgs, counters: Option<Request>, counts: &mut Counts) -> Outcome {
    if args.shapes.is_empty() {
        return Err(usage(
            "no profile was given: `kbench --shapes FILE|DIR` replays one, `kbench --help` shows examples",
        ));
    }
    let format = super::format_of(args.format, args.output.as_deref())?;
    let inventory = inventory::read(&args.shapes, &args.read)?;
    let saved = args.resume.as_deref().map(Saved::read).transpose().or_usage()?;
    let counting = counters.as_ref().map(CountingOptions::from);
    let keeps_records = counters.as_ref().is_some_and(|request| request.keep_records);
    let open = Open { flush_icache: args.flush_icache, counters, ..args.on.open(args.kernels.clone()) };
    let plan;
    let (mut supervisor, not_counted) = opened(args, open)?;
    let hello = supervisor.hello().clone();
    plan = Plan::new(&inventory, &args.select.selection(), CaseOptions { fp8: hello.info.fp8, seed: args.seed });
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
    if args.save.is_some() {
        super::kept::check(&args.store)?;
    }
    let peaks = measured_peaks(&mut supervisor)?;
    let budget = super::time_budget(args.time_budget, USUAL_BUDGET, &hello.info);
    let document = RunDocument {
        schema: Schema,
        tool: Tool::this(),
        device: hello.info,
        environment: hello.environment,
        options: Options {
            seed: args.seed,
            precision: args.precision,
            time_budget_ns: budget.as_nanos() as u64,
            cache: args.cache.modes(),
            kernels: args.kernels.as_ref().map(|path| path.display().to_string()),
            emu_sample: args.on.emu_sample,
            flush_icache: args.flush_icache,
            counting,
        },
        inventory: InventorySummary::new(&inventory, &plan),
        cases: Vec::new(),
        interrupted: false,
    };
    let sinks = Sinks::new(args, format, keeps_records, document.device.clone())?;
    let outcome = Counted { counts, keeps_records, not_counted };
    replay(args, &mut supervisor, (&plan, &peaks), document, &sinks, saved, outcome)
}

/// What becomes of counters: where they are noted, and why there are none.
struct Counted<'r> {
    counts: &'r mut Counts,
    /// Dispatches go to rocprofv3's files.
    keeps_records: bool,
    not_counted: Option<String>,
}

/// Opens the device. A profiler that ends the process on the way costs the counters and nothing else: the device is then opened
/// without it, and the reason is given.
fn opened<'a>(args: &RunArgs, open: Open) -> Result<(Supervisor<'a>, Option<String>), Failure> {
    match super::open_worker(&args.on.device, args.on.limits(), open.clone()) {
        Err(failure)
            if open.counters.as_ref().is_some_and(|request| !request.only_count) && failure.exit == Exit::Device =>
        {
            let supervisor = super::open_worker(&args.on.device, args.on.limits(), Open { counters: None, ..open })?;
            let reason = format!("{:#}", failure.error);
            note(&format!("without counters, because the device could not be opened with the profiler: {reason}"));
            Ok((supervisor, Some(reason)))
        }
        opened => opened.map(|supervisor| (supervisor, None)),
    }
}

fn nothing_to_do(args: &RunArgs, inventory: &kbench_profile::Inventory) -> Failure {
    let what = if args.select.filters() {
        "no kernel passes the filters"
    } else {
        "no kernel is of a family that kbench can replay"
    };
    usage(format!(
        "{}: {what}: it holds {} kernels, {}; `kbench inventory` lists them",
        inventory.source.paths.join(", "),
        inventory.rows.len(),
        inventory::coverage_line(inventory)
    ))
}

fn measured_peaks(supervisor: &mut Supervisor<'_>) -> Result<Peaks, Failure> {
    let begin = Instant::now();
    let peaks = supervisor.peaks(&mut note).map_err(worker_failure)?;
    if begin.elapsed() > Duration::from_millis(500) {
        note(&format!(
            "peaks measured in {:.1} s and kept (`kbench peaks` measures again)",
            begin.elapsed().as_secs_f64()
        ));
    }
    Ok(peaks)
}

/// Runs the cases that have no result yet; each one that ends is in the journal before the next is waited for.
fn replay<'a>(
    args: &RunArgs,
    supervisor: &mut Supervisor<'a>,
    (plan, peaks): (&'a Plan, &Peaks),
    mut document: RunDocument,
    sinks: &Sinks<'_>,
    saved: Option<Saved>,
    counted: Counted<'_>,
) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&stop);
    // Without a handler (another one is set, as in an embedding program) an interrupt simply ends the process.
    let _ = ctrlc::set_handler(move || handler.store(true, Ordering::SeqCst));
    let (tasks, ids) = all_tasks(&plan.cases, &args.cache.modes());
    let mut known = match saved {
        Some(saved) => take_over(saved, &mut document, &ids, args, counted.keeps_records)?,
        None => BTreeMap::new(),
    };
    let journal = begin_journal(args, sinks, &document, &ids, &known)?;
    for task in &tasks {
        if let Err(reason) = &task.planned.workload {
            let result = CaseResult::new(task.planned).ended(Status::Skipped, reason.clone());
            known.entry(task.index).or_insert(CaseResult { id: ids[task.index].clone(), ..result });
        }
    }
    let deadline = Instant::now() + Duration::from_nanos(document.options.time_budget_ns);
    let mut replay =
        Replay::new(args, sinks, (&tasks, &ids), journal, known, deadline).not_counted(counted.not_counted);
    sinks.begin()?;
    replay.show()?;
    supervisor.run(&replay.open_tasks(), peaks, &stop, &mut replay)?;
    let (cases, journal, found) = replay.into_results();
    counted.counts.note(&cases, found);
    document.interrupted = stop.load(Ordering::SeqCst);
    document.cases = cases;
    let finished = sinks.finish(&document);
    match journal {
        // The results may not have gone where they were to go: then the journal is all there is.
        Some(journal) if finished.is_ok() && !document.interrupted => journal.delete(),
        Some(mut journal) => {
            journal.sync().or_usage()?;
            note(&format!("`--resume {}` with the same arguments goes on", journal.path().display()));
        }
        None => {}
    }
    finished?;
    if let Some(name) = &args.save {
        let id = super::kept::save(&args.store, name, &document)?;
        note(&format!("saved as {name} ({id})"));
    }
    let statuses: Vec<Status> = document.cases.iter().map(|case| case.status).collect();
    Ok(exit_of(document.interrupted, &statuses))
}

/// The cases of an earlier run that need not run again; the document says where they come from.
fn take_over(
    saved: Saved,
    document: &mut RunDocument,
    ids: &[String],
    args: &RunArgs,
    needs_records: bool,
) -> Result<BTreeMap<usize, CaseResult>, Failure> {
    let tool = saved.run.tool.clone();
    let mut known = saved.taken_over(document, ids, args.retry).or_usage()?;
    // A document does not hold counted dispatches, a journal does.
    known.retain(|_, case| {
        let has_records = || case.counting.as_ref().is_some_and(|counting| counting.records.is_some());
        !needs_records || case.status != Status::Ok || has_records()
    });
    let words = format!(
        "{} of {} cases taken over from a run of kbench {} ({})",
        known.len(),
        ids.len(),
        tool.version,
        tool.commit
    );
    note(&words);
    document.environment.insert("resumed".to_owned(), words);
    Ok(known)
}

/// Begins the journal. Where there is no place for one, the run goes on without.
fn begin_journal(
    args: &RunArgs,
    sinks: &Sinks<'_>,
    document: &RunDocument,
    ids: &[String],
    known: &BTreeMap<usize, CaseResult>,
) -> Result<Option<Journal>, Failure> {
    let Some(path) = sinks.journal() else { return Ok(None) };
    let replaces = args.resume.as_ref().is_some_and(|resumed| same_file(resumed, &path));
    match Journal::create(&path, document, ids, known, replaces) {
        Ok((journal, None)) => Ok(Some(journal)),
        Ok((journal, Some(old))) => {
            note(&format!(
                "an earlier run was not finished; its journal is now {} (--resume goes on with it)",
                old.display()
            ));
            Ok(Some(journal))
        }
        Err(error) if args.output.is_some() => Err(error).or_usage(),
        Err(error) => {
            note(&format!("without a journal: {error}"));
            Ok(None)
        }
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
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
