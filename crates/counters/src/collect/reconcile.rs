//! Launches against records.

use crate::ring::Summary;
use serde::{Deserialize, Serialize};

/// Launches that are listed by number; more are only counted.
const LISTED: usize = 32;

/// A launch whose values are missing, all or some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Its pass, from 0.
    pub pass: usize,
    /// The profiler's number of the dispatch.
    pub dispatch_id: u64,
}

/// A launch whose values arrived and cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Its pass, from 0.
    pub pass: usize,
    /// The profiler's number of the dispatch.
    pub dispatch_id: u64,
    /// Why.
    pub reason: String,
}

/// What was launched and what arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// Counted launches.
    pub launched: u64,
    /// Launches of which everything arrived.
    pub recorded: u64,
    /// Launches of which nothing arrived.
    pub missing: u64,
    /// Launches of which a part arrived; they are not used.
    pub partial: u64,
    /// The first of the missing and partial ones.
    pub lost: Vec<Lost>,
    /// Launches whose guards say that their counts are wrong; they are not used.
    pub rejected: u64,
    /// The first of the rejected ones.
    pub rejections: Vec<Rejected>,
    /// Dispatches with records that were not launched for counting.
    pub unknown: u64,
    /// Records and values that are none.
    pub malformed: u64,
    /// Launches whose end is not after their start; their duration is not used.
    pub bad_times: u64,
}

impl Reconciliation {
    pub(super) fn missing(&mut self, lost: Lost) {
        self.missing += 1;
        self.list(lost);
    }

    pub(super) fn partial(&mut self, lost: Lost) {
        self.partial += 1;
        self.list(lost);
    }

    fn list(&mut self, lost: Lost) {
        if self.lost.len() < LISTED {
            self.lost.push(lost);
        }
    }

    pub(super) fn reject(&mut self, Lost { pass, dispatch_id }: Lost, reason: String) {
        self.rejected += 1;
        if self.rejections.len() < LISTED {
            self.rejections.push(Rejected { pass, dispatch_id, reason });
        }
    }

    /// True when every launch has all its records and can be used.
    pub fn is_complete(&self) -> bool {
        self.missing == 0 && self.partial == 0 && self.rejected == 0
    }

    /// What is missing, in sentences; empty when nothing is. `ring` tells what the ring lost on the way.
    pub fn describe(&self, ring: Option<&Summary>) -> Vec<String> {
        let mut lines = Vec::new();
        let launched = self.launched;
        if self.missing > 0 || self.partial > 0 {
            let first: Vec<String> = self
                .lost
                .iter()
                .take(3)
                .map(|lost| format!("dispatch {} of pass {}", lost.dispatch_id, lost.pass + 1))
                .collect();
            let mut line = format!(
                "of {launched} counted launches, {} have no record and {} only a part (first: {})",
                self.missing,
                self.partial,
                first.join(", ")
            );
            match ring {
                Some(ring) if ring.dropped + ring.overwritten > 0 => line.push_str(&format!(
                    "; the ring dropped {} records and overwrote {}: a larger --ring-size or --ring-policy lossless keeps them",
                    ring.dropped, ring.overwritten
                )),
                _ if self.malformed > 0 => {
                    line.push_str("; the ring lost none, but values came that could not be understood");
                }
                _ => line.push_str("; the ring lost none, so the profiler did not deliver them"),
            }
            lines.push(line);
        }
        if let Some(first) = self.rejections.first() {
            lines.push(format!(
                "{} of {launched} counted launches are not used; dispatch {} of pass {}: {}",
                self.rejected,
                first.dispatch_id,
                first.pass + 1,
                first.reason
            ));
        }
        if self.bad_times > 0 {
            lines.push(format!(
                "{} of {launched} counted launches end before or when they start; their durations are not used",
                self.bad_times
            ));
        }
        if self.malformed > 0 {
            lines.push(format!("{} records or values could not be understood", self.malformed));
        }
        lines
    }
}
