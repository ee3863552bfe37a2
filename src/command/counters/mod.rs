//! `kbench counters`: what there is to count, passes, and runs of rocprofv3 as metrics. Only `run` needs a device.

mod import;
mod run;

use crate::cli::{CountersArgs, CountersCommand, CountersFormat, CountersListArgs, CountersPlanArgs};
use crate::exit::{Exit, OrExit as _, Outcome, from_output, usage};
use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use kbench_counters::Catalog;
use kbench_counters::catalog::CatalogError;
use kbench_counters::input::{self, Format, Job};
use kbench_counters::plan::{Placement, Plan};
use kbench_counters::set::CounterSet;
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Lists, plans or imports.
///
/// # Errors
/// When a name, a file or an architecture cannot be used.
pub fn run(args: &CountersArgs) -> Outcome {
    match &args.command {
        CountersCommand::List(args) => list(args),
        CountersCommand::Plan(args) => plan(args),
        CountersCommand::Run(args) => run::run(args),
        CountersCommand::Import(args) => import::run(args),
    }
}

/// A counter or metric, for output.
#[derive(Serialize)]
struct Listed<'c> {
    name: &'c str,
    #[serde(skip_serializing_if = "str::is_empty")]
    block: &'c str,
    unit: &'c str,
    derived: bool,
    description: &'c str,
    #[serde(skip_serializing_if = "Option::is_none")]
    formula: Option<&'c str>,
}

fn list(args: &CountersListArgs) -> Outcome {
    let catalog = Catalog::new(args.arch).or_device()?;
    let is_wanted =
        |block: &str| args.block.is_empty() || args.block.iter().any(|wanted| wanted.eq_ignore_ascii_case(block));
    let counters = catalog.counters().filter(|counter| is_wanted(&counter.block)).map(|counter| Listed {
        name: &counter.name,
        block: &counter.block,
        unit: &counter.unit,
        derived: counter.derived,
        description: &counter.description,
        formula: None,
    });
    let metrics = catalog.metrics().filter(|_| args.block.is_empty()).map(|metric| Listed {
        name: &metric.id,
        block: "",
        unit: &metric.unit,
        derived: true,
        description: &metric.text,
        formula: Some(metric.formula.text()),
    });
    let rows: Vec<Listed<'_>> = metrics.chain(counters).collect();
    if rows.is_empty() {
        let blocks: Vec<&str> = catalog.limits().map(|(block, _)| block).collect();
        return Err(usage(format!(
            "{} has no counters in those blocks; its blocks are {}",
            args.arch,
            blocks.join(", ")
        )));
    }
    let sets = CounterSet::descriptions().or_device()?;
    let mut out = io::stdout().lock();
    if args.format == CountersFormat::Json {
        let limits: serde_json::Map<String, serde_json::Value> =
            catalog.limits().map(|(block, limit)| (block.to_owned(), limit.into())).collect();
        let sets: Vec<_> =
            sets.iter().map(|(name, text)| serde_json::json!({ "name": name, "description": text })).collect();
        return json(
            &mut out,
            &serde_json::json!({
                "schema": "kbench.counter-list/1", "arch": args.arch, "limits": limits, "sets": sets, "counters": rows,
            }),
        );
    }
    let mut table = plain_table(["name", "block", "unit", "description"]);
    for row in &rows {
        let block = if row.derived { "derived" } else { row.block };
        table.add_row([row.name, block, row.unit, row.description]);
    }
    writeln!(out, "{}: {} counters and metrics\n\n{table}", args.arch, rows.len()).map_err(from_output)?;
    if args.block.is_empty() {
        let mut table = plain_table(["set", "for"]);
        for (name, text) in sets {
            table.add_row([name, text]);
        }
        writeln!(out, "\n{table}").map_err(from_output)?;
    }
    Ok(Exit::Ok)
}

/// The plan of a request, for output.
#[derive(Serialize)]
struct Planned {
    name: String,
    #[serde(flatten)]
    plan: Plan,
}

fn plan(args: &CountersPlanArgs) -> Outcome {
    let catalog = Catalog::new(args.arch).or_device()?;
    let sets = match (&args.counters, &args.pmc, &args.input) {
        (_, Some(list), _) => vec![CounterSet::list(list, &catalog).or_usage()?],
        (_, _, Some(file)) => jobs(file, &catalog)?,
        (set, ..) => vec![CounterSet::named(set.as_deref().unwrap_or("default"), &catalog).or_usage()?],
    };
    let offline = |set: CounterSet| -> Result<Planned, CatalogError> {
        let plan = Plan::offline(&catalog, set.names.iter().map(String::as_str))?;
        Ok(Planned { name: set.name, plan })
    };
    let plans: Vec<Planned> = sets.into_iter().map(offline).collect::<Result<_, _>>().or_usage()?;
    let mut out = io::stdout().lock();
    if args.format == CountersFormat::Json {
        return json(&mut out, &serde_json::json!({ "schema": "kbench.counter-plan/1", "plans": plans }));
    }
    for planned in &plans {
        print(&mut out, planned, &catalog).map_err(from_output)?;
    }
    Ok(Exit::Ok)
}

/// The counters of an input file's jobs, one set a group; what of it is not used is said on stderr.
fn jobs(file: &Path, catalog: &Catalog) -> Outcome<Vec<CounterSet>> {
    let name = file.display().to_string();
    let format = Format::of(&name).or_usage()?;
    let text = fs::read_to_string(file).with_context(|| format!("{name} cannot be read")).or_usage()?;
    let jobs = input::parse(&name, format, &text).or_usage()?;
    let mut sets = Vec::new();
    for (number, job) in (1..).zip(&jobs) {
        tell_unused(&name, number, job);
        for group in &job.groups {
            let set = CounterSet::of(group.iter().map(String::as_str), catalog);
            let set = set.with_context(|| format!("{name}: job {number}")).or_usage()?;
            sets.push(CounterSet { name: format!("job {number}"), ..set });
        }
    }
    if sets.is_empty() { Err(usage(format!("{name}: none of its jobs collects counters (pmc)"))) } else { Ok(sets) }
}

fn tell_unused(name: &str, number: usize, job: &Job) {
    if !job.unused.is_empty() {
        let _ = writeln!(io::stderr(), "{name}: job {number}: not used here: {}", job.unused.join(", "));
    }
}

fn print(out: &mut dyn Write, Planned { name, plan }: &Planned, catalog: &Catalog) -> io::Result<()> {
    let passes = plan.passes.len();
    writeln!(
        out,
        "{}, {name}: {passes} pass{} (by the table of block limits)\n",
        plan.arch,
        if passes == 1 { "" } else { "es" }
    )?;
    let mut table = plain_table(["pass", "blocks", "counters"]);
    for (number, pass) in (1..).zip(&plan.passes) {
        let load: Vec<String> =
            pass.load.iter().map(|(block, count)| format!("{block} {count}/{}", catalog.limit(block))).collect();
        table.add_row([number.to_string(), load.join(" "), pass.counters.join(" ")]);
    }
    writeln!(out, "{table}\n")?;
    for (name, placement) in &plan.placements {
        match placement {
            Placement::Pass(_) => {}
            Placement::Spread(passes) => {
                let passes: Vec<String> = passes.iter().map(|pass| (pass + 1).to_string()).collect();
                writeln!(
                    out,
                    "{name}: no pass holds its counters; it is taken from passes {} and marked cross_pass",
                    passes.join(", ")
                )?;
            }
            Placement::Refused(why) => writeln!(out, "{name}: not collected: {why}")?,
        }
    }
    Ok(())
}

fn plain_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

fn json(out: &mut dyn Write, value: &serde_json::Value) -> Outcome {
    let text = serde_json::to_string_pretty(value).or_device()?;
    writeln!(out, "{text}").map_err(from_output)?;
    Ok(Exit::Ok)
}
