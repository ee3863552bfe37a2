//! When kernels ran: the window of a trace and its forward passes.

use crate::inventory::Phase;
use crate::model::AttentionWork;
use serde::Serialize;
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The stretch of time that a trace covers on the GPU, from the first kernel's start to the last one's end. Of several traces that were added
/// up it is their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// From the first start to the last end, ns.
    pub span_ns: u64,
    /// Time in which at least one kernel, copy or fill ran on any stream, ns.
    pub busy_ns: u64,
    /// Kernels that ran.
    pub kernels: u64,
}

impl Window {
    /// Share of the window in which nothing ran, 0 to 1.
    pub fn idle_share(&self) -> f64 {
        idle_share(self.span_ns, self.busy_ns)
    }

    pub(crate) fn add(&mut self, other: Window) {
        self.span_ns = self.span_ns.saturating_add(other.span_ns);
        self.busy_ns = self.busy_ns.saturating_add(other.busy_ns);
        self.kernels = self.kernels.saturating_add(other.kernels);
    }
}

fn idle_share(span_ns: u64, busy_ns: u64) -> f64 {
    match span_ns {
        0 => 0.0,
        _ => 1.0 - busy_ns.min(span_ns) as f64 / span_ns as f64,
    }
}

/// One forward pass of a trace: what its label says, and what its kernels did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepSummary {
    /// Place among the steps in order of their first kernel, from 0; what [`StepRange`] selects by.
    pub index: u64,
    /// The label that tells of it, as written.
    pub label: String,
    /// Phase.
    pub phase: Phase,
    /// Start of its first kernel after that of the trace's first one, ns.
    pub start_ns: u64,
    /// From its first kernel's start to its last one's end, ns.
    pub span_ns: u64,
    /// Time of its kernels, added up over streams, ns.
    pub kernel_ns: u64,
    /// Time in which at least one of its kernels ran, ns.
    pub busy_ns: u64,
    /// Its kernels.
    pub kernels: u64,
    /// Real sequences, when the label tells.
    pub batch: Option<u64>,
    /// Batch of the graph that was replayed, padding included, when the label tells.
    pub graph_batch: Option<u64>,
    /// Query tokens (Σ N_Q), when the label tells.
    pub tokens: Option<u64>,
    /// Σ N_Q² over its sequences, when the label tells.
    pub nq2: Option<u128>,
    /// Σ N_Q·N_KV, when the label tells.
    pub nq_nkv: Option<u128>,
    /// Σ N_KV, when the label tells.
    pub nkv: Option<u128>,
    /// Attention work for each kind of layer and phase; without a model for full attention alone. What dense sums leave open is
    /// [`Count::Between`](crate::model::Count) or unknown.
    pub attention: Vec<AttentionWork>,
}

impl StepSummary {
    /// Share of its span in which none of its kernels ran, 0 to 1.
    pub fn idle_share(&self) -> f64 {
        idle_share(self.span_ns, self.busy_ns)
    }
}

/// Steps to read, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRange {
    first: u64,
    last: u64,
}

impl StepRange {
    /// Steps `first` to `last`, both included; `None` when `last` is the lesser.
    pub fn new(first: u64, last: u64) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// True when the step of this index is one of them.
    pub fn contains(&self, index: u64) -> bool {
        (self.first..=self.last).contains(&index)
    }
}

impl fmt::Display for StepRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}..{}", self.first, self.last),
        }
    }
}

impl FromStr for StepRange {
    type Err = String;

    /// `3`, or `2..5` for steps 2, 3, 4 and 5.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let parsed: Result<u64, ParseIntError> = text.trim().parse();
            parsed.map_err(|_| format!("`{}` is no step number; write one (3) or a range (2..5)", text.trim()))
        };
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
        Self::new(first, last).ok_or_else(|| format!("`{text}` ends before it starts"))
    }
}

/// Span and busy time of intervals given as (start, end) in ns; empty without any.
pub(crate) fn span_and_busy(mut intervals: Vec<(i64, i64)>) -> Option<(i64, u64, u64)> {
    intervals.sort_unstable();
    let (start, _) = *intervals.first()?;
    let (mut busy, mut end) = (0_u64, start);
    for (from, to) in intervals {
        let from = from.max(end);
        if to > from {
            busy = busy.saturating_add(to.abs_diff(from));
            end = to;
        }
    }
    Some((start, end.abs_diff(start), busy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_of_steps() {
        let range = |text: &str| text.parse::<StepRange>();
        assert_eq!(range("3"), Ok(StepRange { first: 3, last: 3 }));
        assert_eq!(range("2..5"), Ok(StepRange { first: 2, last: 5 }));
        assert_eq!(range(" 2 .. 5 ").unwrap().to_string(), "2..5");
        assert!(range("2..5").unwrap().contains(5) && !range("2..5").unwrap().contains(6));
        for wrong in ["", "..", "5..2", "a", "-1", "1..", "18446744073709551616"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        /// Against counting the nanoseconds one by one.
        #[test]
        fn busy_time_counts_no_moment_twice(intervals in prop::collection::vec((0_i64..60, 0_i64..20), 0..12)) {
            let intervals: Vec<(i64, i64)> = intervals.into_iter().map(|(start, dur)| (start, start + dur)).collect();
            let busy = (0..100).filter(|at| intervals.iter().any(|(from, to)| from <= at && at < to)).count() as u64;
            let found = span_and_busy(intervals.clone());
            prop_assert_eq!(found.map(|found| found.2), (!intervals.is_empty()).then_some(busy));
            if let Some((start, span, _)) = found {
                prop_assert_eq!(Some(start), intervals.iter().map(|interval| interval.0).min());
                let last = intervals.iter().filter(|(from, to)| to > from).map(|interval| interval.1).max();
                prop_assert_eq!(start + span as i64, last.unwrap_or(start).max(start));
            }
        }
    }
}
