//! `kbench compare`: reads both sides, compares, checks the gate, writes.

use super::kept;
use crate::cli::{CompareArgs, CompareFormat, JudgeArgs};
use crate::compare::document::{NotCompared, Outcome as Check};
use crate::compare::gate::Gate;
use crate::compare::profiles::{Profile, compare_profiles};
use crate::compare::read::Run;
use crate::compare::{
    Comparison, Settings, between, compare_runs, gate_file, render_junit, render_markdown, render_table,
};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, reported, usage};
use anyhow::{Context as _, anyhow};
use kbench_profile::ReadOptions;
use kbench_stats::{BetweenRuns, Probability, Rule};
use kbench_store::{HistoryFilter, Selector, Store};
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;

/// Deviation between runs of one build when nothing is known: separate runs at unlocked clocks seldom agree better.
const BETWEEN_RUNS: f64 = 0.01;
/// The same for profiles of a whole server, whose kernels share the GPU with others.
const BETWEEN_PROFILES: f64 = 0.02;
/// The smallest change between separate runs that is called one.
const MIN_EFFECT: f64 = 0.01;
/// Bytes of a file that are looked at to see whether it is a run.
const HEAD: u64 = 4096;
/// Largest JSON file that is looked through when its head does not tell.
const LOOKED_THROUGH: u64 = 64 << 20;

/// Compares.
///
/// # Errors
/// When a side cannot be read, the two are not comparable, the gate is wrong, or an output cannot be written.
pub fn run(args: &CompareArgs) -> Outcome {
    let gate = gate(&args.judge)?;
    let format = format_of(&args.judge)?;
    let (base, candidate) = (read(&args.base, args)?, read(&args.candidate, args)?);
    let mut comparison = compare(args, base, candidate, &gate)?;
    let checked = if gate.is_empty() { Ok(()) } else { gate.check(&mut comparison) };
    write(&args.judge, args.top, format, &comparison)?;
    checked.or_usage()?;
    Ok(exit_of(&comparison, args.judge.strict))
}

pub(super) fn gate(args: &JudgeArgs) -> Result<Gate, Failure> {
    let mut gate = match &args.gate_file {
        Some(path) => {
            let name = || path.display().to_string();
            let file = File::open(path).with_context(name).or_usage()?;
            let mut text = String::new();
            file.take(gate_file::LARGEST + 1).read_to_string(&mut text).with_context(name).or_usage()?;
            gate_file::parse(&text).with_context(name).or_usage()?
        }
        None => Gate::default(),
    };
    args.gate.iter().try_for_each(|list| gate.add_list(list)).context("--gate").or_usage()?;
    if gate.is_empty() && (args.gate_file.is_some() || !args.gate.is_empty()) {
        return Err(usage("the gate holds no limit: give metric:limit, such as --gate bound:+1%"));
    }
    Ok(gate)
}

/// One side.
enum Side {
    Run { label: String, run: Box<Run>, is_stored: bool },
    Profile(Profile),
}

/// A file, or a stored run. A folder beside which a stored run has the same plain name is taken as the run: build folders are
/// often named as the runs of their kernels. `./name` is the folder.
fn read(given: &str, args: &CompareArgs) -> Result<Side, Failure> {
    let path = Path::new(given);
    if path.is_file() && is_run(path).with_context(|| given.to_owned()).or_usage()? {
        let document = kept::read_document(path)?;
        let run = Run::of(document).with_context(|| given.to_owned()).or_usage()?;
        return Ok(Side::Run { label: given.to_owned(), run: Box::new(run), is_stored: false });
    }
    let is_shadowed = path.is_dir() && !given.contains('/') && stored(given, args).is_ok();
    if path.exists() && !is_shadowed {
        let inventory = kbench_profile::read(&[path], &ReadOptions::from(&args.read)).or_usage()?;
        return Ok(Side::Profile(Profile { label: given.to_owned(), inventory, steps: None }));
    }
    let document = stored(given, args)?;
    let run = Run::of(document).with_context(|| format!("stored run {given}")).or_usage()?;
    Ok(Side::Run { label: given.to_owned(), run: Box::new(run), is_stored: true })
}

/// The document of a stored run.
fn stored(given: &str, args: &CompareArgs) -> Result<Value, Failure> {
    let missing = || format!("`{given}` is no file, and no stored run either");
    let selector: Selector = given.parse().with_context(missing).or_usage()?;
    let store = Store::open_to_read(&kept::path(&args.store)?).with_context(missing).or_usage()?;
    store.export(&selector).with_context(missing).or_usage()
}

/// Whether a file is a run's document. Traces are JSON too and may be large: the head tells them apart.
fn is_run(path: &Path) -> io::Result<bool> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head)?;
    let text = String::from_utf8_lossy(&head);
    if !text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return Ok(false);
    }
    if text.contains("\"kbench.run/") {
        return Ok(true);
    }
    let is_whole = size <= LOOKED_THROUGH && !text.contains("\"traceEvents\"");
    let found: Option<Head> = if is_whole { serde_json::from_slice(&std::fs::read(path)?).ok() } else { None };
    Ok(found.and_then(|head| head.schema).is_some_and(|schema| schema.starts_with("kbench.")))
}

fn compare(args: &CompareArgs, base: Side, candidate: Side, gate: &Gate) -> Result<Comparison, Failure> {
    let alpha = Probability::new(args.judge.alpha).context("--alpha").or_usage()?;
    let rule = Rule::new(args.judge.min_effect.unwrap_or(MIN_EFFECT), 0.0, alpha)
        .context("--min-effect, --alpha")
        .or_usage()?;
    let settings = |(between, between_source)| Settings {
        rule,
        correction: args.judge.correction.into(),
        between,
        between_source,
        allow: args.allow.iter().copied().collect(),
        wanted: gate.metrics(),
    };
    match (base, candidate) {
        (
            Side::Run { label, run, is_stored },
            Side::Run { label: other_label, run: other, is_stored: other_is_stored },
        ) => {
            let runs = (is_stored || other_is_stored).then_some((&*run, &*other));
            let settings = settings(between_runs(args, runs, BETWEEN_RUNS)?);
            compare_runs((&label, &run), (&other_label, &other), &settings).or_usage()
        }
        (Side::Profile(base), Side::Profile(candidate)) => {
            let settings = settings(between_runs(args, None, BETWEEN_PROFILES)?);
            let base = Profile { steps: args.base_steps, ..base };
            let candidate = Profile { steps: args.candidate_steps, ..candidate };
            compare_profiles(&base, &candidate, &settings).or_usage()
        }
        _ => Err(usage(format!(
            "{} and {}: one is a run of kbench and the other a profile; compare two of a kind",
            args.base, args.candidate
        ))),
    }
}

/// The error between runs: given, from the store that one of the two `runs` is in, or assumed.
fn between_runs(
    args: &CompareArgs,
    runs: Option<(&Run, &Run)>,
    assumed: f64,
) -> Result<(BetweenRuns, String), Failure> {
    if let Some(sd) = args.between_runs {
        return Ok((BetweenRuns::Assumed { sd }, "given".to_owned()));
    }
    let estimated = match runs {
        Some((base, candidate)) => {
            let store = Store::open_to_read(&kept::path(&args.store)?).or_usage()?;
            let filter = HistoryFilter { device: Some(base.device.name.clone()), ..HistoryFilter::default() };
            between::estimate(&store.history(&filter).or_usage()?, base, candidate)
        }
        None => None,
    };
    Ok(estimated.unwrap_or((BetweenRuns::Assumed { sd: assumed }, "assumed".to_owned())))
}

pub(super) fn format_of(args: &JudgeArgs) -> Result<CompareFormat, Failure> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let Some(path) = &args.output else { return Ok(CompareFormat::Table) };
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => Ok(CompareFormat::Json),
        Some("md") => Ok(CompareFormat::Md),
        Some("xml") => Ok(CompareFormat::Junit),
        Some("txt") => Ok(CompareFormat::Table),
        _ => Err(usage(format!(
            "{}: the ending does not tell the format; end it in .json, .md, .xml or .txt, or give --format",
            path.display()
        ))),
    }
}

pub(super) fn write(
    args: &JudgeArgs,
    top: usize,
    format: CompareFormat,
    comparison: &Comparison,
) -> Result<(), Failure> {
    let render = |out: &mut dyn Write, format: CompareFormat| match format {
        CompareFormat::Table => render_table::write(out, comparison, top),
        CompareFormat::Md => render_markdown::write(out, comparison, top),
        CompareFormat::Junit => render_junit::write(out, comparison, args.strict),
        CompareFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, comparison)?;
            writeln!(out)
        }
    };
    let also = [
        (&args.junit, CompareFormat::Junit),
        (&args.markdown, CompareFormat::Md),
        (&args.json, CompareFormat::Json),
        (&args.output, format),
    ];
    for (path, format) in also {
        if let Some(path) = path {
            super::write_whole(path, |out| render(out, format))?;
        }
    }
    match &args.output {
        Some(_) => Ok(()),
        None => reported(render(&mut io::stdout().lock(), format)),
    }
}

/// A wrong candidate goes before a regression, and that before an open question. A gate of which nothing was compared does not
/// pass, strict or not.
pub(super) fn exit_of(comparison: &Comparison, strict: bool) -> Exit {
    let is_wrong = comparison.not_compared.iter().any(|case| case.candidate.as_deref() == Some("wrong"));
    let is_open = match &comparison.gate {
        Some(gate) => gate.checks.iter().any(|check| check.outcome == Check::Inconclusive),
        None => {
            comparison.cases.iter().any(|case| case.verdict == "INCONCLUSIVE")
                || comparison.not_compared.iter().any(NotCompared::is_open)
        }
    };
    match &comparison.gate {
        _ if is_wrong => Exit::Wrong,
        Some(gate) if !gate.passed => Exit::Regression,
        Some(_) if comparison.cases.is_empty() => Exit::Inconclusive,
        _ if strict && is_open => Exit::Inconclusive,
        _ => Exit::Ok,
    }
}

/// A failure that names a file.
pub(super) fn in_file(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure { exit: Exit::Usage, error: anyhow!("{}: {error}", path.display()) }
}
