//! `kbench selfcheck`: a build against itself, again and again.

use super::pairs::{self, Builds, Ran};
use crate::cli::SelfcheckArgs;
use crate::compare::pairs::evaluate;
use crate::device::{DeviceSpec, Kind};
use crate::exit::{Exit, OrExit as _, Outcome, from_output, usage};
use crate::report::units;
use crate::runner::PairRule;
use anyhow::Context as _;
use kbench_stats::{PairedComparison, Verdict};
use serde::Serialize;
use std::io::{self, Write};

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    device: String,
    /// Comparisons of a build with itself.
    pairs: usize,
    /// Pairs that could not be measured.
    failed: usize,
    /// Of them called different at the error level, whatever the size of the difference.
    significant: usize,
    /// Called FASTER or SLOWER: significant and beyond the smallest change that is called one.
    false_changes: usize,
    /// Called SAME.
    same: usize,
    /// The error level.
    alpha: f64,
    /// The smallest change that is called one.
    min_effect: f64,
    /// Median over the pairs of the change that the interval would still have told from none.
    detectable: Option<f64>,
    /// The largest of the ratios' distances from 1.
    largest_ratio: Option<f64>,
}

/// Compares and counts.
///
/// # Errors
/// On bad input, and on a device that cannot be opened or times nothing.
pub fn run(args: &SelfcheckArgs) -> Outcome {
    let rule = PairRule { min_effect: args.min_effect, noise_floor: 0.0, alpha: args.alpha };
    let checked = rule.rule().context("--min-effect, --alpha").or_usage()?;
    let usual = if args.pair.on.device == DeviceSpec::Host { "reference" } else { "builtin" };
    let build = args.build.as_deref().unwrap_or(usual);
    let builds = Builds { base: build, candidate: build, rule, times: args.pairs };
    let Ran { info, pairs, interrupted } = pairs::run(&args.pair, &builds, |info| {
        if info.kind == Kind::Emu && std::env::var_os("ROCM_EMU_CLOCK").is_none() {
            return Err(usage(
                "an emulated device has no noise: nothing is timed, and equal builds are equal to the last instruction; give --device hip or host",
            ));
        }
        Ok(())
    })?;
    let samples: Vec<_> =
        pairs.iter().filter_map(|pair| pair.pair.as_ref()?.samples.as_ref().map(|samples| (pair, samples))).collect();
    let mut found: Vec<PairedComparison> = Vec::new();
    for (pair, samples) in &samples {
        found.push(evaluate(samples, checked).with_context(|| pair.base.id.clone()).or_device()?);
    }
    let report = Report::of(&found, pairs.len(), args, info.name);
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report).or_device()?).map_err(from_output)?;
    } else {
        report.print(&mut out).map_err(from_output)?;
    }
    match () {
        () if interrupted => Ok(Exit::Interrupted),
        () if report.failed > 0 => Ok(Exit::Device),
        () => Ok(Exit::Ok),
    }
}

impl Report {
    fn of(found: &[PairedComparison], pairs: usize, args: &SelfcheckArgs, device: String) -> Self {
        let count = |wanted: &dyn Fn(&PairedComparison) -> bool| found.iter().filter(|found| wanted(found)).count();
        let half = |found: &PairedComparison| {
            let interval = found.time.interval?;
            Some((interval.hi().ln() - interval.lo().ln()).abs() / 2.0)
        };
        let mut halves: Vec<f64> = found.iter().filter_map(half).map(f64::exp_m1).collect();
        halves.sort_by(f64::total_cmp);
        Self {
            schema: "kbench.selfcheck/1",
            device,
            pairs: found.len(),
            failed: pairs - found.len(),
            significant: count(&|found| found.time.p_changed <= args.alpha),
            false_changes: count(&|found| matches!(found.verdict, Verdict::Faster | Verdict::Slower)),
            same: count(&|found| found.verdict == Verdict::Same),
            alpha: args.alpha,
            min_effect: args.min_effect,
            detectable: halves.get(halves.len() / 2).copied(),
            largest_ratio: found.iter().map(|found| found.time.ratio.ln().abs().exp_m1()).reduce(f64::max),
        }
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let share = |count: usize| units::percent(count as f64 / self.pairs.max(1) as f64);
        writeln!(out, "{}: {} comparisons of a build with itself", self.device, self.pairs)?;
        if self.failed > 0 {
            writeln!(out, "  {} could not be measured", self.failed)?;
        }
        writeln!(
            out,
            "  {} ({}) called different at {} alone, {} ({}) FASTER or SLOWER (also beyond {}), {} SAME",
            self.significant,
            share(self.significant),
            units::percent(self.alpha),
            self.false_changes,
            share(self.false_changes),
            units::percent(self.min_effect),
            self.same
        )?;
        if let (Some(detectable), Some(largest)) = (self.detectable, self.largest_ratio) {
            writeln!(
                out,
                "  smallest change that can be told from none: {} (median over the comparisons); the largest false one was {}",
                units::percent(detectable),
                units::percent(largest)
            )?;
        }
        Ok(())
    }
}
