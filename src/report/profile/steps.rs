//! The steps of a trace: one line a step, percentiles by phase below.

use super::code;
use crate::report::{Format, units};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use kbench_profile::model::{AttentionWork, Count};
use kbench_profile::{Finding, Inventory, Phase, Source, StepSummary, Window};
use kbench_stats::{Probability, Sample};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Name and version of the JSON form.
pub const SCHEMA: &str = "kbench.steps/1";

/// The steps of one phase together. Percentiles are linear between order statistics (type 7, NumPy's default).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseSteps {
    /// Steps.
    pub steps: u64,
    /// Query tokens of the steps whose labels tell.
    pub tokens: u64,
    /// Time of their kernels, ns.
    pub kernel_ns: u64,
    /// Share of their spans in which none of their kernels ran, 0 to 1.
    pub idle_share: f64,
    /// Spans: from the first kernel's start to the last one's end, ns.
    pub span_ns: Percentiles,
}

/// The spread of a time, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Percentiles {
    pub min: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// The steps by phase.
pub fn by_phase(steps: &[StepSummary]) -> BTreeMap<Phase, PhaseSteps> {
    let mut groups: BTreeMap<Phase, Vec<&StepSummary>> = BTreeMap::new();
    for step in steps {
        groups.entry(step.phase).or_default().push(step);
    }
    groups.into_iter().filter_map(|(phase, steps)| Some((phase, phase_steps(&steps)?))).collect()
}

fn phase_steps(steps: &[&StepSummary]) -> Option<PhaseSteps> {
    let spans: Vec<f64> = steps.iter().map(|step| step.span_ns as f64).collect();
    let spans = Sample::new(&spans).ok()?;
    let sum = |of: fn(&StepSummary) -> u64| steps.iter().map(|step| of(step)).fold(0, u64::saturating_add);
    let window = Window { span_ns: sum(|step| step.span_ns), busy_ns: sum(|step| step.busy_ns), kernels: 0 };
    Some(PhaseSteps {
        steps: steps.len() as u64,
        tokens: sum(|step| step.tokens.unwrap_or(0)),
        kernel_ns: sum(|step| step.kernel_ns),
        idle_share: window.idle_share(),
        span_ns: Percentiles {
            min: spans.min(),
            p50: spans.median(),
            p95: spans.quantile(Probability::P95),
            p99: spans.quantile(Probability::P99),
            max: spans.max(),
        },
    })
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    source: &'a Source,
    window: &'a Option<Window>,
    phases: BTreeMap<&'static str, PhaseSteps>,
    steps: Vec<Line<'a>>,
    health: &'a [Finding],
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    step: &'a StepSummary,
    idle_share: f64,
}

/// Writes the steps in a format; `top` bounds the lines of the forms for people.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, inventory: &Inventory, format: Format, top: usize) -> io::Result<()> {
    match format {
        Format::Table => table(out, inventory, top),
        Format::Md => markdown(out, inventory, top),
        Format::Csv => csv(out, &inventory.steps),
        Format::Json => {
            let phases = by_phase(&inventory.steps);
            let document = Document {
                schema: SCHEMA,
                source: &inventory.source,
                window: &inventory.window,
                phases: phases.into_iter().map(|(phase, steps)| (phase.name(), steps)).collect(),
                steps: inventory.steps.iter().map(|step| Line { step, idle_share: step.idle_share() }).collect(),
                health: &inventory.health,
            };
            serde_json::to_writer_pretty(&mut *out, &document)?;
            writeln!(out)
        }
    }
}

const HEADER: [&str; 14] = [
    "step",
    "phase",
    "start",
    "span",
    "kernel time",
    "kernels",
    "idle",
    "batch",
    "tokens",
    "Σ N_Q²",
    "Σ N_Q·N_KV",
    "Σ N_KV",
    "attention pairs a layer",
    "label",
];

fn cells(step: &StepSummary) -> [String; HEADER.len()] {
    let told = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), |number| number.to_string());
    let sum = |sum: Option<u128>| sum.map_or_else(|| "–".to_owned(), units::count);
    let batch = match (step.batch, step.graph_batch) {
        (batch, Some(graph)) if batch != Some(graph) => format!("{}/{graph}", told(batch)),
        (batch, _) => told(batch),
    };
    [
        step.index.to_string(),
        step.phase.to_string(),
        units::time(step.start_ns as f64, 4),
        units::time(step.span_ns as f64, 4),
        units::time(step.kernel_ns as f64, 4),
        step.kernels.to_string(),
        units::percent(step.idle_share()),
        batch,
        told(step.tokens),
        sum(step.nq2),
        sum(step.nq_nkv),
        sum(step.nkv),
        pairs(&step.attention),
        units::shorten(&step.label, 48),
    ]
}

/// `full x24 55.1 k; window 128 x12 4.10 k`: layers of each kind, and the pairs of one of them.
fn pairs(work: &[AttentionWork]) -> String {
    let known = work.iter().filter(|work| work.pairs != Count::Unknown);
    let shown: Vec<String> = known
        .map(|work| {
            let layers = work.layers.map_or_else(String::new, |layers| format!(" x{layers}"));
            format!("{}{layers} {}", work.kind, count(&work.pairs))
        })
        .collect();
    if shown.is_empty() { "–".to_owned() } else { shown.join("; ") }
}

fn count(count: &Count) -> String {
    match count {
        Count::Exact(count) => units::count(*count),
        Count::Between { least, most } => format!("{} to {}", units::count(*least), units::count(*most)),
        Count::Unknown => "–".to_owned(),
    }
}

fn table(out: &mut dyn Write, inventory: &Inventory, top: usize) -> io::Result<()> {
    for line in super::head(inventory) {
        writeln!(out, "{line}")?;
    }
    if inventory.steps.is_empty() {
        writeln!(out, "\n{}", NO_STEPS)?;
    } else {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(HEADER);
        for step in inventory.steps.iter().take(top) {
            table.add_row(cells(step));
        }
        for column in (0..12).filter(|column| *column != 1) {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(out, "\n{table}")?;
        hidden(out, inventory, top)?;
        writeln!(out)?;
        for (phase, steps) in by_phase(&inventory.steps) {
            writeln!(out, "{phase}: {}", phase_line(&steps))?;
        }
    }
    for finding in &inventory.health {
        writeln!(out, "{}: {}", finding.code, finding.message)?;
    }
    Ok(())
}

const NO_STEPS: &str = "no steps: only PyTorch traces of a serving engine that labels its forward passes have them";

fn hidden(out: &mut dyn Write, inventory: &Inventory, top: usize) -> io::Result<()> {
    match inventory.steps.len().saturating_sub(top) {
        0 => Ok(()),
        hidden => writeln!(out, "… and {hidden} more steps (--top {})", inventory.steps.len()),
    }
}

fn phase_line(steps: &PhaseSteps) -> String {
    let span = &steps.span_ns;
    let time = |ns: f64| units::time(ns, 4);
    format!(
        "{} steps, span p50 {}, p95 {}, p99 {} (min {}, max {}), kernel time {}, idle {}, {} tokens",
        steps.steps,
        time(span.p50),
        time(span.p95),
        time(span.p99),
        time(span.min),
        time(span.max),
        time(steps.kernel_ns as f64),
        units::percent(steps.idle_share),
        steps.tokens
    )
}

/// Writes the steps by phase as a Markdown table.
///
/// # Errors
/// When the output cannot be written.
pub fn phase_table(out: &mut dyn Write, steps: &[StepSummary]) -> io::Result<()> {
    writeln!(out, "| phase | steps | tokens | kernel time | idle in steps | span p50 | p95 | p99 | max |")?;
    writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    for (phase, steps) in by_phase(steps) {
        let span = &steps.span_ns;
        let times = [steps.kernel_ns as f64, span.p50, span.p95, span.p99, span.max].map(|ns| units::time(ns, 4));
        let [kernel, p50, p95, p99, max] = times;
        let (count, tokens, idle) = (steps.steps, steps.tokens, units::percent(steps.idle_share));
        writeln!(out, "| {phase} | {count} | {tokens} | {kernel} | {idle} | {p50} | {p95} | {p99} | {max} |")?;
    }
    Ok(())
}

/// Writes the attention work of the steps, by phase and kind of layer, as a Markdown table.
///
/// # Errors
/// When the output cannot be written.
pub fn attention_table(out: &mut dyn Write, steps: &[StepSummary]) -> io::Result<()> {
    let mut sums: BTreeMap<(Phase, &str, Option<u64>), [Count; 5]> = BTreeMap::new();
    for work in steps.iter().flat_map(|step| &step.attention) {
        let sums = sums.entry((work.phase, &work.kind, work.layers)).or_insert([Count::Exact(0); 5]);
        for (sum, count) in sums.iter_mut().zip([work.nq2, work.nq_nkv, work.nkv, work.pairs, work.keys]) {
            *sum = sum.plus(count);
        }
    }
    writeln!(out, "| phase | layers | Σ N_Q² | Σ N_Q·N_KV | Σ N_KV | pairs a layer and head | keys read a layer |")?;
    writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: | ---: |")?;
    for ((phase, kind, layers), sums) in sums {
        let [nq2, nq_nkv, nkv, pairs, keys] = sums.map(|sum| count(&sum));
        let layers = layers.map_or_else(|| "any number".to_owned(), |layers| layers.to_string());
        writeln!(out, "| {phase} | {layers} x {kind} | {nq2} | {nq_nkv} | {nkv} | {pairs} | {keys} |")?;
    }
    Ok(())
}

fn markdown(out: &mut dyn Write, inventory: &Inventory, top: usize) -> io::Result<()> {
    writeln!(out, "# Steps\n")?;
    for line in super::head(inventory) {
        writeln!(out, "- {line}")?;
    }
    if inventory.steps.is_empty() {
        return writeln!(out, "\n{NO_STEPS}");
    }
    writeln!(out)?;
    phase_table(out, &inventory.steps)?;
    writeln!(out, "\n| {} |", HEADER.join(" | "))?;
    writeln!(out, "| ---: | --- |{} --- | --- |", " ---: |".repeat(HEADER.len() - 4))?;
    for step in inventory.steps.iter().take(top) {
        let mut cells = cells(step);
        if let Some(label) = cells.last_mut() {
            *label = code(&step.label);
        }
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    writeln!(out)?;
    hidden(out, inventory, top)
}

/// Columns of the CSV form, units in the names. Columns are added at the end, never renamed.
pub const COLUMNS: [&str; 17] = [
    "step",
    "phase",
    "label",
    "start_ns",
    "span_ns",
    "kernel_ns",
    "busy_ns",
    "kernels",
    "idle_share",
    "batch",
    "graph_batch",
    "tokens",
    "sum_nq2",
    "sum_nq_nkv",
    "sum_nkv",
    "attention_pairs",
    "attention_keys",
];

fn csv(out: &mut dyn Write, steps: &[StepSummary]) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    writer.write_record(COLUMNS)?;
    let told = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let sum = |number: Option<u128>| number.map_or_else(String::new, |number| number.to_string());
    for step in steps {
        writer.write_record([
            step.index.to_string(),
            step.phase.to_string(),
            step.label.clone(),
            step.start_ns.to_string(),
            step.span_ns.to_string(),
            step.kernel_ns.to_string(),
            step.busy_ns.to_string(),
            step.kernels.to_string(),
            format!("{:.6}", step.idle_share()),
            told(step.batch),
            told(step.graph_batch),
            told(step.tokens),
            sum(step.nq2),
            sum(step.nq_nkv),
            sum(step.nkv),
            by_kind(&step.attention, |work| work.pairs),
            by_kind(&step.attention, |work| work.keys),
        ])?;
    }
    writer.flush()
}

/// `full x24 decode=55086; window 128 x12 decode=4096`: the exact count of one layer, `least..most` where only bounds are known.
fn by_kind(work: &[AttentionWork], of: fn(&AttentionWork) -> Count) -> String {
    let entries = work.iter().filter_map(|work| {
        let count = match of(work) {
            Count::Exact(count) => count.to_string(),
            Count::Between { least, most } => format!("{least}..{most}"),
            Count::Unknown => return None,
        };
        let layers = work.layers.map_or_else(String::new, |layers| format!(" x{layers}"));
        Some(format!("{}{layers} {}={count}", work.kind, work.phase))
    });
    entries.collect::<Vec<_>>().join("; ")
}
