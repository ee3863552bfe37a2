//! Findings that are counted while reading and told once.

use crate::inventory::{Finding, Severity};
use std::collections::BTreeMap;

/// What is counted. The text of each says what was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Issue {
    /// A line with too few or too many cells, or a cell that cannot be read.
    BadRows,
    /// Duration 0.
    ZeroDurations,
    /// End before start.
    NegativeDurations,
    /// A start that was never set.
    UnsetTimes,
    /// Operator arguments that cannot be right.
    ShapeErrors,
    /// An operator row whose list of kernels is there but cannot be read.
    BadKernelLists,
    /// Operator rows without any list of kernels.
    NoKernelNames,
    /// Operator rows whose listed kernels take less than the row says.
    UnlistedKernels,
    /// A parser's rows for kernels that it could not place.
    UnmatchedKernels,
    /// API calls among kernels.
    ApiRows,
    /// Columns of an inventory that nobody reads.
    UnknownColumns,
}

impl Issue {
    fn describe(self) -> (&'static str, Severity, &'static str) {
        match self {
            Issue::BadRows => ("bad_rows", Severity::Warning, "lines or records that could not be read were skipped"),
            Issue::ZeroDurations => ("zero_durations", Severity::Warning, "records of duration 0 were dropped"),
            Issue::NegativeDurations => {
                ("negative_durations", Severity::Warning, "records that end before they start were dropped")
            }
            Issue::UnsetTimes => ("unset_times", Severity::Warning, "records whose start was never set were dropped"),
            Issue::ShapeErrors => (
                "shape_errors",
                Severity::Warning,
                "operator rows had arguments that cannot be right; their kernels stay without a shape",
            ),
            Issue::BadKernelLists => (
                "bad_kernel_lists",
                Severity::Warning,
                "operator rows had a list of kernels that could not be read; the operator stands for them",
            ),
            Issue::NoKernelNames => (
                "no_kernel_names",
                Severity::Warning,
                "operator rows did not list their kernels; the operator stands for them",
            ),
            Issue::UnlistedKernels => (
                "unlisted_kernels",
                Severity::Warning,
                "operator rows list fewer kernels than they spent time on; the rest stands under the operator's name",
            ),
            Issue::UnmatchedKernels => (
                "unmatched_kernels",
                Severity::Warning,
                "kernels that the profile's own parser could not place have no time and were left out",
            ),
            Issue::ApiRows => {
                ("api_rows", Severity::Note, "calls on the CPU stood among the kernels and were left out")
            }
            Issue::UnknownColumns => {
                ("unknown_columns", Severity::Warning, "columns that an inventory does not have were ignored")
            }
        }
    }
}

/// Counts by issue, with the first example of each.
#[derive(Debug, Default)]
pub(crate) struct Health {
    counted: BTreeMap<Issue, (u64, String)>,
    told: Vec<Finding>,
}

impl Health {
    /// Counts an issue; `example` is asked for the first time only.
    pub(crate) fn count(&mut self, issue: Issue, example: impl FnOnce() -> String) {
        self.counted.entry(issue).or_insert_with(|| (0, example())).0 += 1;
    }

    /// How often an issue was counted.
    pub(crate) fn counted(&self, issue: Issue) -> u64 {
        self.counted.get(&issue).map_or(0, |(count, _)| *count)
    }

    /// Adds a finding, once.
    pub(crate) fn tell(&mut self, severity: Severity, code: &str, message: String) {
        let finding = Finding { code: code.to_owned(), severity, message };
        if !self.told.contains(&finding) {
            self.told.push(finding);
        }
    }

    /// All findings: told ones first.
    pub(crate) fn findings(self) -> Vec<Finding> {
        let mut findings = self.told;
        findings.extend(self.counted.into_iter().map(|(issue, (count, example))| {
            let (code, severity, text) = issue.describe();
            Finding { code: code.to_owned(), severity, message: format!("{count} {text}; the first: {example}") }
        }));
        findings
    }
}
