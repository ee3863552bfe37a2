//! The run as a table, one line a case, written as each case ends.

use super::document::{CaseResult, RunDocument, Status};
use super::{brief, units};
use crate::device::DeviceInfo;
use std::io::{self, Write};

const COLUMNS: [(&str, usize); 9] = [
    ("family", 15),
    ("dtypes", 15),
    ("shape", 52),
    ("share", 7),
    ("time", 22),
    ("GB/s", 8),
    ("TFLOP/s", 8),
    ("of peak", 14),
    ("verified", 8),
];

/// Writes the head of the table.
///
/// # Errors
/// When the output cannot be written.
pub fn head(out: &mut dyn Write, device: &DeviceInfo) -> io::Result<()> {
    let heading =
        |(name, _): &(&str, usize)| if *name == "time" { brief::time_heading(device) } else { name }.to_owned();
    let cells: Vec<String> = COLUMNS.iter().map(heading).collect();
    line(out, &cells)?;
    let width: usize = COLUMNS.iter().map(|(_, width)| width + 2).sum();
    writeln!(out, "{}", "─".repeat(width - 2))
}

/// Writes one case.
///
/// # Errors
/// When the output cannot be written.
pub fn row(out: &mut dyn Write, case: &CaseResult) -> io::Result<()> {
    let mut cells = vec![
        case.family.to_string(),
        units::shorten(&brief::dtypes(&case.dtypes), COLUMNS[1].1),
        units::shorten(&brief::shape(&case.shape), COLUMNS[2].1),
        if case.weight.total_ns > 0 { units::percent(case.weight.share) } else { "–".into() },
    ];
    if let (Some(bound), Status::Ok) = (&case.bound, case.status) {
        cells.push(format!("{}{}", units::time(bound.ns, 3), brief::mode(case)));
        let rate = |work: u128| units::significant(work as f64 / bound.ns, 3);
        let work = case.work.as_ref();
        cells.push(work.map_or_else(|| "–".into(), |work| format!("≤{}", rate(work.total_bytes()))));
        let flops = work.map(kbench_workload::Work::total_flops).filter(|flops| *flops > 0);
        cells.push(flops.map_or_else(|| "–".into(), |flops| format!("≤{}", rate(flops / 1000))));
        let best =
            bound.floor_over_bound.map_or_else(|| "no peak".into(), |share| format!("≤{}", units::percent(share)));
        cells.push(format!("{best} {}", bound.limiter));
        cells.push(verified(case));
        line(out, &cells)?;
        return sampled(out, case);
    }
    match (&case.timing, &case.achieved) {
        (Some(timing), achieved) if case.status == Status::Ok => {
            cells.push(format!("{}{}", units::time_with_interval(timing.median_ns, timing.ci95_ns), brief::mode(case)));
            match achieved {
                Some(rates) => cells.extend([
                    units::significant(rates.gbps, 3),
                    if rates.tflops > 0.0 { units::significant(rates.tflops, 3) } else { "–".into() },
                    format!("{} {}", units::percent(rates.of_peak), rates.limiter),
                ]),
                None => cells.extend(["–".into(), "–".into(), "no peak".into()]),
            }
            cells.push(verified(case));
            line(out, &cells)?;
        }
        _ if case.status == Status::Ok => {
            cells.extend(["counted, not timed".into(), "–".into(), "–".into(), "–".into(), verified(case)]);
            line(out, &cells)?;
        }
        _ => {
            line(out, &cells)?;
            let status = case.status.name();
            writeln!(out, "    {status}: {}", case.reason.as_deref().unwrap_or("no reason was given"))?;
        }
    }
    Ok(())
}

/// Says of each launch of which only some workgroups ran how many did.
fn sampled(out: &mut dyn Write, case: &CaseResult) -> io::Result<()> {
    match brief::sampled(case) {
        Some(sentence) => writeln!(out, "    {sentence}"),
        None => Ok(()),
    }
}

/// Writes what stands below the table: what was not replayed, and what may be wrong.
///
/// # Errors
/// When the output cannot be written.
pub fn foot(out: &mut dyn Write, run: &RunDocument) -> io::Result<()> {
    let inventory = &run.inventory;
    writeln!(out)?;
    let counted = |status| run.cases.iter().filter(|case| case.status == status).count();
    let timed = run.device.is_timed();
    let is_untimed = |case: &&CaseResult| timed && case.status == Status::Ok && case.timing.is_none();
    let untimed = run.cases.iter().filter(is_untimed).count();
    let done = if timed { "measured" } else { "emulated and verified" };
    let mut parts = vec![format!("{} {done}", counted(Status::Ok) - untimed)];
    if untimed > 0 {
        parts.push(format!("{untimed} verified and counted, not timed"));
    }
    for (status, word) in
        [(Status::Wrong, "wrong"), (Status::Failed, "failed"), (Status::Hung, "hung"), (Status::Skipped, "skipped")]
    {
        match counted(status) {
            0 => {}
            count => parts.push(format!("{count} {word}")),
        }
    }
    writeln!(out, "{} cases: {}", run.cases.len(), parts.join(", "))?;
    if run.device.scripted {
        writeln!(out, "times: of a script, on {}; no time was measured", run.device.name)?;
    } else if !timed {
        writeln!(
            out,
            "bound: the time that the build could not beat on {} at peak clocks, given what it executed; no time was measured",
            run.device.name
        )?;
    }
    if inventory.total_ns > 0 {
        let measured: f64 =
            run.cases.iter().filter(|case| case.status == Status::Ok).map(|case| case.weight.share).sum();
        writeln!(
            out,
            "they stand for {} of the profile's kernel time ({})",
            units::percent(measured),
            units::time(inventory.total_ns as f64, 4)
        )?;
    }
    if !inventory.not_replayable.is_empty() {
        let mut shares: Vec<_> = inventory.not_replayable.iter().collect();
        shares.sort_by(|a, b| b.1.total_cmp(a.1));
        let shares: Vec<String> =
            shares.iter().map(|(family, share)| format!("{family} {}", units::percent(**share))).collect();
        writeln!(out, "families without a workload: {}", shares.join(", "))?;
    }
    if inventory.left_out.cases > 0 {
        let share = units::percent(inventory.left_out.share);
        writeln!(out, "left out by the selection: {} cases, {share} of kernel time", inventory.left_out.cases)?;
    }
    for case in &run.cases {
        // What the ± column already shows need not be said again.
        let shown = ["interval_unknown", "precision_not_reached"];
        let warnings = case.timing.iter().flat_map(|timing| &timing.warnings);
        let told: Vec<&str> = warnings
            .filter(|warning| !shown.contains(&warning.code.as_ref()))
            .map(|warning| warning.message.as_str())
            .collect();
        if !told.is_empty() {
            writeln!(out, "warning: {} {}: {}", case.family, brief::shape(&case.shape), told.join("; "))?;
        }
    }
    Ok(())
}

/// Writes what was counted of a case through the profiler, one counter or metric a line.
///
/// # Errors
/// When the output cannot be written.
pub fn counted(out: &mut dyn Write, case: &CaseResult) -> io::Result<()> {
    let Some(counting) = &case.counting else { return Ok(()) };
    if let Some(reason) = &counting.failed {
        return writeln!(out, "    not counted: {reason}");
    }
    let asked = |name: &String| counting.passes.iter().flatten().any(|counter| counter == name);
    for (name, counter) in &case.counters {
        // What the emulated device says by itself is in the document.
        if !asked(name) && counter.formula.is_none() {
            continue;
        }
        let value = match (counter.value, &counter.reason) {
            (Some(value), _) if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value}"),
            (Some(value), _) => units::significant(value, 6),
            (None, Some(reason)) => format!("{}: {reason}", counter.kind.name()),
            (None, None) => counter.kind.name().to_owned(),
        };
        let doubt = counter.suspicious.as_ref().map_or_else(String::new, |why| format!("  suspicious: {why}"));
        let spread = if counter.cross_pass { "  cross_pass" } else { "" };
        writeln!(out, "    {name:<36} {value:>18} {:<16} {}{spread}{doubt}", counter.unit, counter.kind.name())?;
    }
    for sentence in &counting.incomplete {
        writeln!(out, "    incomplete: {sentence}")?;
    }
    Ok(())
}

fn verified(case: &CaseResult) -> String {
    match &case.verify {
        Some(verify) if verify.passed => "yes".into(),
        Some(_) => "NO".into(),
        None => "–".into(),
    }
}

/// Pads by characters, not bytes; the last column is not padded.
fn line(out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
    let mut text = String::new();
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        text.push_str(cell);
        let blanks = (width + 2).saturating_sub(cell.chars().count()).max(1);
        text.extend(std::iter::repeat_n(' ', blanks));
    }
    writeln!(out, "{}", text.trim_end())
}
