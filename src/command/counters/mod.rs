//! `kbench counters`: what there is to count, passes, and runs of rocprofv3 as metrics. Without `--device` only `run` needs one.

mod import;
mod jobs;
mod run;

use super::open_worker;
use crate::cli::{CountersArgs, CountersCommand, CountersFormat, CountersListArgs, CountersPlanArgs};
use crate::counters::{NotCounted, Survey, Surveyed, What};
use crate::device::{DeviceInfo, DeviceSpec};
use crate::exit::{Exit, OrExit as _, Outcome, from_output, usage};
use crate::worker::Limits;
use crate::worker::message::Open;
use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use kbench_counters::Catalog;
use kbench_counters::plan::{Placement, Plan};
use kbench_counters::set::CounterSet;
use kbench_workload::Fp8Flavor;
use serde::Serialize;
use std::io::{self, Write};

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

/// What a device's own process says of its counters.
struct Asked {
    info: DeviceInfo,
    surveyed: Surveyed,
}

/// Opens a device and asks it.
fn ask(device: &DeviceSpec, survey: Survey) -> Outcome<Asked> {
    if *device == DeviceSpec::Host {
        return Err(usage(NotCounted::host().reason));
    }
    let open = Open { survey: Some(survey), ..Open::new(device, Fp8Flavor::Ocp, None, None) };
    let supervisor = open_worker(device, Limits::default(), open)?;
    let hello = supervisor.hello();
    let surveyed = hello.surveyed.as_deref().cloned().context("the device's process did not answer").or_device()?;
    Ok(Asked { info: hello.info.clone(), surveyed })
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
    let asked = args.device.as_ref().map(|device| ask(device, Survey::default())).transpose()?;
    let catalog = match &asked {
        Some(asked) => asked.surveyed.catalog(&asked.info.arch).or_device()?,
        None => Catalog::new(args.arch).or_device()?,
    };
    let arch = catalog.arch();
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
        return Err(usage(format!("{arch} has no counters in those blocks; its blocks are {}", blocks.join(", "))));
    }
    let sets = CounterSet::descriptions().or_device()?;
    let mut out = io::stdout().lock();
    if args.format == CountersFormat::Json {
        let limits: serde_json::Map<String, serde_json::Value> =
            catalog.limits().map(|(block, limit)| (block.to_owned(), limit.into())).collect();
        let sets: Vec<_> =
            sets.iter().map(|(name, text)| serde_json::json!({ "name": name, "description": text })).collect();
        let mut document = serde_json::json!({
            "schema": "kbench.counter-list/1", "arch": arch, "limits": limits, "sets": sets, "counters": rows,
        });
        add_device(&mut document, asked.as_ref());
        return json(&mut out, &document);
    }
    let mut table = plain_table(["name", "block", "unit", "description"]);
    for row in &rows {
        let block = if row.derived { "derived" } else { row.block };
        table.add_row([row.name, block, row.unit, row.description]);
    }
    let of = asked.as_ref().map_or_else(|| arch.to_string(), |asked| format!("{}, {arch}", asked.info.name));
    writeln!(out, "{of}: {} counters and metrics\n\n{table}", rows.len()).map_err(from_output)?;
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
    let wanted: Vec<(String, What)> = match (&args.counters, &args.pmc, &args.input) {
        (_, Some(list), _) => vec![("pmc".to_owned(), What::List(list.clone()))],
        (_, _, Some(file)) => {
            jobs::groups(file)?.into_iter().map(|group| (format!("job {}", group.job), group.what)).collect()
        }
        (set, ..) => {
            let set = set.as_deref().unwrap_or("default");
            vec![(set.to_owned(), What::Set(set.to_owned()))]
        }
    };
    let (catalog, asked, plans) = match &args.device {
        Some(device) => {
            let survey = Survey { plans: wanted.iter().map(|(_, what)| what.clone()).collect() };
            let asked = ask(device, survey)?;
            let catalog = asked.surveyed.catalog(&asked.info.arch).or_device()?;
            let plans = asked.surveyed.plans.clone();
            (catalog, Some(asked), plans)
        }
        None => {
            let catalog = Catalog::new(args.arch).or_device()?;
            let plans = wanted.iter().map(|(name, what)| offline(&catalog, name, what)).collect::<Outcome<_>>()?;
            (catalog, None, plans)
        }
    };
    let plans: Vec<Planned> = wanted.into_iter().zip(plans).map(|((name, _), plan)| Planned { name, plan }).collect();
    let mut out = io::stdout().lock();
    if args.format == CountersFormat::Json {
        let mut document = serde_json::json!({ "schema": "kbench.counter-plan/1", "plans": plans });
        add_device(&mut document, asked.as_ref());
        return json(&mut out, &document);
    }
    let by = match &asked {
        Some(asked) => format!("confirmed by rocprofiler-sdk {}", asked.surveyed.sdk),
        None => "by the table of block limits".to_owned(),
    };
    for planned in &plans {
        print(&mut out, planned, &by, &catalog).map_err(from_output)?;
    }
    Ok(Exit::Ok)
}

/// The passes that the table of block limits gives.
fn offline(catalog: &Catalog, name: &str, what: &What) -> Outcome<Plan> {
    let names = what.names(catalog).context(name.to_owned()).or_usage()?;
    Plan::offline(catalog, names.iter().map(String::as_str)).or_usage()
}

/// Which device was asked.
fn add_device(document: &mut serde_json::Value, asked: Option<&Asked>) {
    if let (Some(Asked { info, surveyed }), Some(keys)) = (asked, document.as_object_mut()) {
        keys.insert(
            "device".to_owned(),
            serde_json::json!({ "kind": info.kind, "name": info.name, "sdk": surveyed.sdk }),
        );
    }
}

fn print(out: &mut dyn Write, Planned { name, plan }: &Planned, by: &str, catalog: &Catalog) -> io::Result<()> {
    let passes = plan.passes.len();
    writeln!(out, "{}, {name}: {passes} pass{} ({by})\n", plan.arch, if passes == 1 { "" } else { "es" })?;
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
