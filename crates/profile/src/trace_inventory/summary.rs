//! The steps of a trace and its window, and the choice among them.

use super::run::{Run, RunKernel};
use super::steps::{Purpose, StepId};
use crate::inventory::Severity;
use crate::labels::DENSE_SUMS_CAVEAT;
use crate::ledger::Ledger;
use crate::model::{AttentionWork, Count, Model};
use crate::timeline::{StepRange, StepSummary, Window, span_and_busy};
use std::collections::HashSet;

/// Notes the trace's steps and window in the ledger. With `wanted`, only those steps and their kernels are kept.
pub(super) fn select_steps(run: &mut Run<'_>, wanted: Option<StepRange>, model: Option<&Model>, ledger: &mut Ledger) {
    let by_time = in_order(run);
    let first_ns = run.trace.kernels.iter().map(|kernel| kernel.ts_ns).min().unwrap_or(0);
    let mut kept = HashSet::new();
    for (step, kernels) in &by_time {
        let index = ledger.steps_seen;
        ledger.steps_seen += 1;
        if wanted.is_none_or(|wanted| wanted.contains(index)) {
            kept.insert(*step);
            ledger.steps.extend(summary(run, (index, *step), kernels, first_ns, model));
        }
    }
    if let Some(wanted) = wanted {
        let before = run.kernel_ns();
        run.kernels.retain(|kernel| kernel.standing.step.is_some_and(|step| kept.contains(&step)));
        let text = format!(
            "only step {wanted} was read: {} of the {} steps, with {:.1} % of kernel time",
            kept.len(),
            by_time.len(),
            100.0 * run.kernel_ns() as f64 / before.max(1) as f64
        );
        ledger.health.tell(Severity::Note, "selected_steps", text);
    }
    if let Some(window) = window(run, wanted.is_none()) {
        ledger.window.get_or_insert_default().add(window);
    }
}

/// The steps that have kernels, in order of their first one, each with its kernels as indices in order of time.
fn in_order(run: &Run<'_>) -> Vec<(StepId, Vec<usize>)> {
    let mut steps = run.by_step();
    steps.retain(|(_, kernels)| !kernels.is_empty());
    steps.sort_by_key(|(step, kernels)| (kernels.first().map(|index| run.kernels[*index].event.ts_ns), *step));
    steps
}

fn interval(kernel: &RunKernel<'_>) -> (i64, i64) {
    (kernel.event.ts_ns, kernel.event.ts_ns.saturating_add_unsigned(kernel.event.dur_ns))
}

fn summary(
    run: &Run<'_>,
    (index, step): (u64, StepId),
    kernels: &[usize],
    first_ns: i64,
    model: Option<&Model>,
) -> Option<StepSummary> {
    let pass = run.steps.pass(step);
    let (start, span_ns, busy_ns) = span_and_busy(kernels.iter().map(|at| interval(&run.kernels[*at])).collect())?;
    let told = &pass.step;
    Some(StepSummary {
        index,
        label: run.trace.name(pass.told_by).to_owned(),
        phase: told.phase,
        start_ns: start.abs_diff(first_ns),
        span_ns,
        kernel_ns: kernels.iter().map(|at| run.kernels[*at].event.dur_ns).fold(0, u64::saturating_add),
        busy_ns,
        kernels: kernels.len() as u64,
        batch: told.batch(),
        graph_batch: told.graph_batch,
        tokens: told.tokens(),
        nq2: told.total.sums.nq2,
        nq_nkv: told.total.sums.nq_nkv,
        nkv: told.total.sums.nkv,
        attention: model.map_or_else(|| AttentionWork::without_model(told), |model| model.attention_work(told)),
    })
}

/// From the first to the last kernel; copies count where the whole trace was asked for, since they belong to no step.
fn window(run: &Run<'_>, with_copies: bool) -> Option<Window> {
    let kernels = run.kernels.iter().filter(|kernel| kernel.standing.purpose != Purpose::Dummy).map(interval);
    let kernels: Vec<(i64, i64)> = kernels.collect();
    let count = kernels.len() as u64;
    let copies = run.trace.copies.iter().filter(|_| with_copies);
    let copies = copies.map(|copy| (copy.ts_ns, copy.ts_ns.saturating_add_unsigned(copy.dur_ns)));
    let (_, span_ns, busy_ns) = span_and_busy(kernels.into_iter().chain(copies).collect())?;
    Some(Window { span_ns, busy_ns, kernels: count })
}

/// Says what the labels' sums of all traces give and what they leave open.
pub(crate) fn tell_attention(ledger: &mut Ledger) {
    let steps = ledger.steps.iter().flat_map(|step| &step.attention);
    let mut work = steps.filter(|work| work.nq_nkv.exact().is_some() || work.pairs != Count::Unknown).peekable();
    if work.peek().is_none() {
        return;
    }
    let is_open = |count: &Count| count.exact().is_none();
    let (mut open, mut all, mut unmodelled) = (0_u64, 0_u64, false);
    for work in work {
        all += 1;
        open += u64::from(is_open(&work.pairs) || is_open(&work.keys));
        unmodelled |= work.layers.is_none();
    }
    let model = if unmodelled { "; no model was given, so the counts are those of full attention" } else { "" };
    let text = format!(
        "attention work is exact in {} of {all} counts (steps x kinds of layers x phases){model}; {DENSE_SUMS_CAVEAT}",
        all - open
    );
    ledger.health.tell(Severity::Note, "attention_work", text);
}
