//! `kbench history`, `show`, `export`, `import`, `prune`.

use super::kept::{self, date};
use crate::cli::{ExportArgs, HistoryArgs, HistoryFormat, ImportArgs, PruneArgs, ShowArgs, ShowFormat};
use crate::compare::case::change_text;
use crate::compare::metric;
use crate::compare::read::{Run, split_cache};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, from_output, usage};
use crate::report::units;
use anyhow::Context as _;
use kbench_store::{CaseRow, HistoryFilter, HistoryPoint, Prune, RunName, RunRow, Selector, Store};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

fn open_to_read(file: &crate::cli::StoreFile) -> Result<Store, Failure> {
    Store::open_to_read(&kept::path(file)?).or_usage()
}

fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome {
    write(&mut io::stdout().lock()).map_err(from_output)?;
    Ok(Exit::Ok)
}

fn print_json(value: &Value) -> Outcome {
    print(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    })
}

/// `kbench history`.
///
/// # Errors
/// When the store cannot be read or the output cannot be written.
pub fn history(args: &HistoryArgs) -> Outcome {
    let filter = HistoryFilter {
        case: args.case.clone(),
        name: args.name.clone(),
        device: args.device.clone(),
        newest: args.last,
    };
    let points = open_to_read(&args.store)?.history(&filter).or_usage()?;
    match args.format {
        HistoryFormat::Json => print_json(&Value::Array(points.iter().map(point_json).collect())),
        HistoryFormat::Csv => print(|out| history_csv(out, &points)),
        HistoryFormat::Table => print(|out| history_table(out, &points)),
    }
}

fn point_json(point: &HistoryPoint) -> Value {
    let mut value = case_json(&point.case);
    value["run"] = json!(point.run.get());
    value["name"] = json!(point.name.as_str());
    value["created_ms"] = json!(point.created_ms);
    value["device"] = json!(point.device_name);
    value["arch"] = json!(point.arch);
    value
}

fn case_json(case: &CaseRow) -> Value {
    json!({
        "id": case.case_id, "phase": case.phase, "status": case.status, "share": case.share, "cache": case.cache, "source": case.time_source,
        "samples": case.samples, "median_ns": case.median_ns, "ci95_ns": case.ci95_ns.map(|(lo, hi)| [lo, hi]),
        "bound_ns": case.bound_ns, "limiter": case.limiter, "sha256": case.build,
    })
}

fn history_csv(out: &mut dyn Write, points: &[HistoryPoint]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "case",
        "run",
        "name",
        "created_utc",
        "device",
        "arch",
        "status",
        "cache",
        "source",
        "median_ns",
        "ci95_lo_ns",
        "ci95_hi_ns",
        "bound_ns",
        "limiter",
        "sha256",
        "phase",
    ])?;
    for point in points {
        let case = &point.case;
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        csv.write_record([
            case.case_id.clone(),
            point.run.get().to_string(),
            point.name.to_string(),
            date(point.created_ms),
            text(&point.device_name),
            text(&point.arch),
            text(&case.status),
            text(&case.cache),
            text(&case.time_source),
            number(case.median_ns),
            number(case.ci95_ns.map(|ends| ends.0)),
            number(case.ci95_ns.map(|ends| ends.1)),
            number(case.bound_ns),
            text(&case.limiter),
            text(&case.build),
            text(&case.phase),
        ])?;
    }
    csv.flush()
}

/// Cases that are comparable over time stand together: in one phase, on one device, in one cache state, which is also the one
/// that was asked for or is told with it.
fn history_table(out: &mut dyn Write, points: &[HistoryPoint]) -> io::Result<()> {
    let mut groups: BTreeMap<(&str, &str, &str, String), Vec<&HistoryPoint>> = BTreeMap::new();
    for point in points {
        let device = point.device_name.as_deref().unwrap_or_default();
        let phase = point.case.phase.as_deref().unwrap_or_default();
        let (id, requested) = split_cache(&point.case.case_id);
        let cache = match (requested, point.case.cache.as_deref()) {
            (Some(requested), Some(cache)) if requested != cache => format!("{requested}, measured {cache}"),
            (requested, cache) => cache.or(requested).unwrap_or_default().to_owned(),
        };
        groups.entry((id, phase, device, cache)).or_default().push(point);
    }
    if groups.is_empty() {
        return writeln!(out, "no stored case is like that; `kbench show` lists the runs");
    }
    for ((case, phase, device, cache), points) in groups {
        let head = [case, phase, device, &cache].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        writeln!(out, "{}", head.join("  "))?;
        let mut before: Option<(f64, Option<&str>)> = None;
        for point in points {
            let case = &point.case;
            let value = case.median_ns.or(case.bound_ns);
            let figure = match (case.median_ns, case.bound_ns) {
                (Some(median), _) => units::time_with_interval(median, case.ci95_ns.map(|(lo, hi)| [lo, hi])),
                (None, Some(bound)) => format!("bound {}", units::time(bound, 4)),
                (None, None) => case.status.clone().unwrap_or_default(),
            };
            let moved = before.zip(value).map(|((old, _), new)| change_text(metric::change(old, new)));
            let build = case.build.as_deref().map_or("–", |hash| hash.get(..12).unwrap_or(hash));
            let changed = before.is_some_and(|(_, old)| old != case.build.as_deref());
            writeln!(
                out,
                "  {:<18}{:>6}  {:<24} {figure:<26} {:>9}  {build}{}",
                date(point.created_ms),
                point.run.to_string(),
                units::shorten(point.name.as_str(), 24),
                moved.unwrap_or_default(),
                if changed { " new build" } else { "" }
            )?;
            if let Some(value) = value {
                before = Some((value, case.build.as_deref()));
            }
        }
    }
    Ok(())
}

/// `kbench show`.
///
/// # Errors
/// When the store cannot be read, is not sound (with `--check`), or the output cannot be written.
pub fn show(args: &ShowArgs) -> Outcome {
    let store = open_to_read(&args.store)?;
    if args.check {
        store.check().or_usage()?;
        let (runs, builds) = (store.list(None).or_usage()?.len(), store.builds().or_usage()?.len());
        return print(|out| writeln!(out, "{}: sound, {runs} runs, {builds} builds", store.path().display()));
    }
    match (&args.run, args.builds) {
        (Some(run), _) => show_run(&store, run, args.format),
        (None, true) => show_builds(&store, args.format),
        (None, false) => show_runs(&store, args.format),
    }
}

fn run_json(run: &RunRow) -> Value {
    json!({
        "run": run.id.get(), "name": run.name.as_str(), "created_ms": run.created_ms, "created_utc": date(run.created_ms),
        "device": run.device_name, "device_kind": run.device_kind, "arch": run.arch, "cases": run.cases, "ok": run.ok,
        "tool": {"version": run.tool_version, "commit": run.tool_commit},
    })
}

fn show_runs(store: &Store, format: ShowFormat) -> Outcome {
    let runs = store.list(None).or_usage()?;
    if format == ShowFormat::Json {
        return print_json(&Value::Array(runs.iter().map(run_json).collect()));
    }
    print(|out| {
        writeln!(out, "{:>6}  {:<18}{:<28}{:<36}{:>10}", "run", "made (UTC)", "name", "device", "cases ok")?;
        for run in &runs {
            run_line(out, run)?;
        }
        Ok(())
    })
}

fn run_line(out: &mut dyn Write, run: &RunRow) -> io::Result<()> {
    let device = format!("{} {}", run.device_name.as_deref().unwrap_or("–"), run.arch.as_deref().unwrap_or(""));
    writeln!(
        out,
        "{:>6}  {:<18}{:<28}{:<36}{:>10}",
        run.id.to_string(),
        date(run.created_ms),
        units::shorten(run.name.as_str(), 26),
        units::shorten(device.trim_end(), 34),
        format!("{}/{}", run.ok, run.cases)
    )
}

fn show_run(store: &Store, selector: &Selector, format: ShowFormat) -> Outcome {
    let (run, cases) = (store.run(selector).or_usage()?, store.cases(selector).or_usage()?);
    if format == ShowFormat::Json {
        let mut value = run_json(&run);
        value["cases"] = cases.iter().map(case_json).collect();
        return print_json(&value);
    }
    print(|out| {
        run_line(out, &run)?;
        for case in &cases {
            let share = case.share.filter(|share| *share > 0.0).map_or_else(|| "–".to_owned(), units::percent);
            let figure = match (case.median_ns, case.bound_ns) {
                (Some(median), _) => units::time_with_interval(median, case.ci95_ns.map(|(lo, hi)| [lo, hi])),
                (None, Some(bound)) => format!("bound {}", units::time(bound, 4)),
                (None, None) => case.status.clone().unwrap_or_default(),
            };
            writeln!(out, "{share:>7}  {figure:<26} {:<5} {}", case.cache.as_deref().unwrap_or(""), case.case_id)?;
        }
        Ok(())
    })
}

fn show_builds(store: &Store, format: ShowFormat) -> Outcome {
    let builds = store.builds().or_usage()?;
    if format == ShowFormat::Json {
        let list = builds.iter().map(|build| {
            json!({"sha256": build.hash, "arch": build.arch, "origin": build.origin, "file": build.file,
                   "resources": build.resources, "runs": build.runs})
        });
        return print_json(&Value::Array(list.collect()));
    }
    print(|out| {
        for build in &builds {
            let hash = build.hash.get(..12).unwrap_or(&build.hash);
            let (arch, file) = (build.arch.as_deref().unwrap_or("–"), build.file.as_deref().unwrap_or("–"));
            writeln!(out, "{hash}  {arch:<8} {:>4} runs  {file}", build.runs)?;
        }
        Ok(())
    })
}

/// `kbench export`.
///
/// # Errors
/// When there is no such run, or the output cannot be written.
pub fn export(args: &ExportArgs) -> Outcome {
    let store = open_to_read(&args.store)?;
    let (document, created_ms) = (store.export(&args.run).or_usage()?, store.run(&args.run).or_usage()?.created_ms);
    let write = |out: &mut dyn Write| {
        serde_json::to_writer_pretty(&mut *out, &SchemaFirst(&document))?;
        writeln!(out)
    };
    match &args.output {
        Some(path) => {
            super::write_whole(path, write)?;
            set_date(path, created_ms);
            Ok(Exit::Ok)
        }
        None => print(write),
    }
}

/// Gives a file the date of its run, which is what `import` takes as that. A file system without dates loses no document.
fn set_date(path: &Path, created_ms: i64) {
    let date = u64::try_from(created_ms).ok().and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    if let (Some(date), Ok(file)) = (date, File::options().write(true).open(path)) {
        let _ = file.set_modified(date);
    }
}

/// A document whose first key is `schema`, so that what a file is stands in its first line.
struct SchemaFirst<'a>(&'a Value);

impl serde::Serialize for SchemaFirst<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(map) = self.0 else { return self.0.serialize(serializer) };
        let empty = Map::new();
        let rest = if map.contains_key("schema") { map } else { &empty };
        let first = rest.get_key_value("schema");
        serializer.collect_map(first.into_iter().chain(map.iter().filter(|(key, _)| *key != "schema")))
    }
}

/// `kbench import`.
///
/// # Errors
/// When a file is no run, a name is needed, or the store cannot be written.
pub fn import(args: &ImportArgs) -> Outcome {
    // All files are read before the first is kept: a wrong one must not leave half of the import behind.
    let mut runs = Vec::with_capacity(args.files.len());
    for path in &args.files {
        let document = kept::read_document(path)?;
        Run::of(document.clone()).with_context(|| path.display().to_string()).or_usage()?;
        let name = args.name.clone().map_or_else(|| name_of(path), Ok)?;
        let made = std::fs::metadata(path).and_then(|metadata| metadata.modified());
        runs.push((name, made.map_or_else(|_| kept::now_ms(), kept::ms_of), document));
    }
    let mut store = Store::open(&kept::path(&args.store)?).or_usage()?;
    let mut lines = Vec::with_capacity(runs.len());
    for (name, created_ms, document) in &runs {
        let id = store.save(name, *created_ms, document).or_usage()?;
        lines.push(format!("{id}  {name}"));
    }
    print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
}

fn name_of(path: &Path) -> Result<RunName, Failure> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.parse().with_context(|| format!("{}: give the run a name with --name", path.display())).or_usage()
}

/// `kbench prune`.
///
/// # Errors
/// When there is no such run, or the store cannot be written.
pub fn prune(args: &PruneArgs) -> Outcome {
    if args.keep.is_none() && args.older_than.is_none() && args.run.is_empty() {
        return Err(usage("nothing says what may go: give --keep N, --older-than AGE, both, or --run RUN"));
    }
    let mut store = Store::open_existing(&kept::path(&args.store)?).or_usage()?;
    let mut gone = Vec::new();
    let mut builds = 0;
    if args.run.is_empty() {
        let older_than_ms = args.older_than.map(|age| kept::now_ms().saturating_sub(age));
        let pruned = store.prune(&Prune { keep: args.keep, older_than_ms }, args.dry_run).or_usage()?;
        gone.extend(pruned.runs.into_iter().map(|(id, name)| format!("{id}  {name}")));
        builds = pruned.builds;
    }
    // Names are resolved before anything goes: `main main~1` are two runs, not one twice.
    let chosen: Vec<RunRow> = args.run.iter().map(|run| store.run(run).or_usage()).collect::<Result<_, _>>()?;
    let chosen: BTreeMap<i64, RunRow> = chosen.into_iter().map(|run| (run.id.get(), run)).collect();
    for run in chosen.values() {
        if !args.dry_run {
            store.delete(&Selector::Id(run.id.get())).or_usage()?;
        }
        gone.push(format!("{}  {}", run.id, run.name));
    }
    let word = if args.dry_run { "would go" } else { "removed" };
    print(|out| {
        gone.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(
            out,
            "{} runs {word}{}",
            gone.len(),
            if builds > 0 { format!(", and {builds} builds") } else { String::new() }
        )
    })
}
