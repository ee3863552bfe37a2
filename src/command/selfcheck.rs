//! `kbench selfcheck`: a build against itself, again and again.

use super::pairs::{self, Builds, Ran};
use crate::cli::SelfcheckArgs;
use crate::compare::pairs::{Pair, evaluate};
use crate::device::{DeviceSpec, Kind};
use crate::exit::{Exit, OrExit as _, Outcome, reported, usage};
use crate::report::{CaseResult, Status, units};
use crate::runner::PairRule;
use anyhow::Context as _;
use kbench_stats::{Correction, PairedComparison, Verdict};
use serde::Serialize;
use std::io::{self, Write};

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    device: String,
    /// Comparisons of a build with itself.
    pairs: usize,
    /// Pairs that could not be measured: those whose outputs were wrong, that failed, hung or were skipped.
    failed: usize,
    /// Pairs that had no time (`--time-budget`), or no turn before an interrupt.
    unfinished: usize,
    /// Why the first of them failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<String>,
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
    /// The change that equal builds were said to show.
    noise_floor: f64,
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
    let noise_floor = args.noise_floor.unwrap_or(0.0);
    let rule = PairRule { min_effect: args.min_effect, noise_floor, alpha: args.alpha, cases: 1 };
    rule.rule().context("--min-effect, --noise-floor, --alpha").or_usage()?;
    let usual = if args.pair.on.device == DeviceSpec::Host { "reference" } else { "builtin" };
    let build = args.build.as_deref().unwrap_or(usual);
    let builds = Builds { base: build, candidate: build, rule, correction: Correction::None, times: args.pairs };
    let Ran { info, pairs, rule, interrupted, .. } = pairs::run(&args.pair, &builds, |info| {
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
        found.push(evaluate(samples, &rule).with_context(|| pair.base.id.clone()).or_device()?);
    }
    let report = Report::of(&found, &pairs, args, info.name);
    let mut out = io::stdout().lock();
    if args.json {
        reported(writeln!(out, "{}", serde_json::to_string_pretty(&report).or_device()?))?;
    } else {
        reported(report.print(&mut out))?;
    }
    match () {
        () if interrupted => Ok(Exit::Interrupted),
        () if any(&pairs, &[Status::Wrong]) => Ok(Exit::Wrong),
        () if report.failed > 0 => Ok(Exit::Device),
        () if found.is_empty() => Err(usage(
            "the time budget was used up before the first comparison; give more with --time-budget, or fewer cases with --top",
        )),
        () => Ok(Exit::Ok),
    }
}

/// Both sides of pairs.
fn sides(pairs: &[Pair]) -> impl Iterator<Item = &CaseResult> {
    pairs.iter().flat_map(|pair| [Some(&pair.base), pair.pair.as_ref().map(|pair| &pair.candidate)]).flatten()
}

fn any(pairs: &[Pair], wanted: &[Status]) -> bool {
    sides(pairs).any(|side| wanted.contains(&side.status))
}

impl Report {
    fn of(found: &[PairedComparison], pairs: &[Pair], args: &SelfcheckArgs, device: String) -> Self {
        let unfinished = pairs.iter().filter(|pair| pair.base.unfinished).count();
        let first = sides(pairs).find(|side| side.status != Status::Ok && !side.unfinished);
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
            failed: pairs.len().saturating_sub(found.len() + unfinished),
            unfinished,
            first_failure: first.map(|side| {
                let reason = side.reason.as_deref().unwrap_or("no reason was given");
                format!("{}: {}: {reason}", side.id, side.status.name())
            }),
            significant: count(&|found| found.time.p_changed <= args.alpha),
            false_changes: count(&|found| matches!(found.verdict, Verdict::Faster | Verdict::Slower)),
            same: count(&|found| found.verdict == Verdict::Same),
            alpha: args.alpha,
            min_effect: args.min_effect,
            noise_floor: args.noise_floor.unwrap_or(0.0),
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
        if let Some(reason) = &self.first_failure {
            writeln!(out, "  the first: {reason}")?;
        }
        if self.unfinished > 0 {
            writeln!(out, "  {} had no time (--time-budget)", self.unfinished)?;
        }
        writeln!(
            out,
            "  {} ({}) called different at {} alone, {} ({}) FASTER or SLOWER (also beyond {}), {} SAME",
            self.significant,
            share(self.significant),
            units::percent(self.alpha),
            self.false_changes,
            share(self.false_changes),
            units::percent(self.min_effect.max(self.noise_floor)),
            self.same
        )?;
        if let (Some(detectable), Some(largest)) = (self.detectable, self.largest_ratio) {
            writeln!(
                out,
                "  smallest change that can be told from none: {} (median over the comparisons); the largest false one was {}, which is what to give to `kbench ab --noise-floor`",
                units::percent(detectable),
                units::percent(largest)
            )?;
        }
        Ok(())
    }
}
