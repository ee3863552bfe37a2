//! The run as Markdown, for a report or a pull request.

use super::document::{CaseResult, RunDocument, Status};
use super::{brief, units};
use std::io::{self, Write};

/// Writes the whole run.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, run: &RunDocument) -> io::Result<()> {
    let device = &run.device;
    writeln!(out, "# kbench run\n")?;
    writeln!(out, "- device: {} ({}, {} units)", device.name, device.arch, device.units)?;
    writeln!(out, "- source: {} ({})", run.inventory.source.join(", "), run.inventory.dialect)?;
    writeln!(
        out,
        "- shapes known for {} of kernel time, replayable: {}",
        units::percent(run.inventory.coverage.with_shape),
        units::percent(run.inventory.coverage.replayable)
    )?;
    writeln!(out, "- kbench {} ({})\n", run.tool.version, run.tool.commit)?;
    let time = brief::time_heading(device);
    writeln!(out, "| family | dtypes | shape | share | {time} | GB/s | TFLOP/s | of peak | verified |")?;
    writeln!(out, "| --- | --- | --- | ---: | ---: | ---: | ---: | --- | --- |")?;
    for case in run.cases.iter().filter(|case| case.status == Status::Ok) {
        if let Some(bound) = &case.bound {
            writeln!(
                out,
                "| {} | {} | `{}` | {} | {}{} | – | – | ≤{} {} | {} |",
                case.family,
                brief::dtypes(&case.dtypes),
                brief::shape(&case.shape),
                units::percent(case.weight.share),
                units::time(bound.ns, 3),
                brief::mode(case),
                bound.floor_over_bound.map_or_else(|| "–".to_owned(), units::percent),
                bound.limiter,
                verified(case),
            )?;
            continue;
        }
        let time = case.timing.as_ref().map_or_else(
            || "counted, not timed".to_owned(),
            |timing| format!("{}{}", units::time_with_interval(timing.median_ns, timing.ci95_ns), brief::mode(case)),
        );
        let rates = case.achieved.as_ref().map_or_else(
            || "– | – | –".to_owned(),
            |rates| {
                let (gbps, tflops) = (units::significant(rates.gbps, 3), units::significant(rates.tflops, 3));
                format!("{gbps} | {tflops} | {} {}", units::percent(rates.of_peak), rates.limiter)
            },
        );
        writeln!(
            out,
            "| {} | {} | `{}` | {} | {time} | {rates} | {} |",
            case.family,
            brief::dtypes(&case.dtypes),
            brief::shape(&case.shape),
            units::percent(case.weight.share),
            verified(case),
        )?;
    }
    for case in &run.cases {
        if let Some(sentence) = brief::sampled(case) {
            writeln!(out, "\n- `{}`: {sentence}", case.id)?;
        }
    }
    let rest: Vec<_> = run.cases.iter().filter(|case| case.status != Status::Ok).collect();
    if !rest.is_empty() {
        writeln!(out, "\n## Not measured\n")?;
        for case in rest {
            let reason = case.reason.as_deref().unwrap_or("no reason was given");
            writeln!(out, "- `{}`: {}: {reason}", case.id, case.status.name())?;
        }
    }
    if !run.inventory.health.is_empty() {
        writeln!(out, "\n## Health of the profile\n")?;
        for finding in &run.inventory.health {
            writeln!(out, "- `{}`: {}", finding.code, finding.message)?;
        }
    }
    Ok(())
}
fn verified(case: &CaseResult) -> &'static str {
    case.verify.as_ref().map_or("–", |verify| if verify.passed { "yes" } else { "**no**" })
}
