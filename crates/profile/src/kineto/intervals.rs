//! Spans of time by group (a thread, a stream), and which of them enclose a point or each other.

use std::collections::HashMap;
use std::ops::Range;

/// Steps that a search goes outwards before it gives up, so that hostile nesting costs no quadratic time. Call stacks
/// of real traces are below 200 deep.
const MAX_STEPS: usize = 1024;
const NONE: u32 = u32::MAX;

/// One span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) group: u32,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Spans by group with, for each, the latest earlier span that was still open when it started.
pub(super) struct Intervals {
    /// Start and index of each span, by group, start and falling end.
    order: Vec<(i64, u32)>,
    groups: HashMap<u32, Range<usize>>,
    /// By index: the next span outwards, or [`NONE`].
    outer: Vec<u32>,
    /// By index.
    ends: Vec<i64>,
}

impl Intervals {
    /// Spans are numbered in the order given. Of two equal spans the earlier one is the outer one.
    pub(super) fn new(spans: impl Iterator<Item = Span>) -> Self {
        let spans: Vec<Span> = spans.collect();
        let mut sorted: Vec<u32> = (0..spans.len() as u32).collect();
        sorted.sort_by_key(|index| {
            let span = spans[*index as usize];
            (span.group, span.start, std::cmp::Reverse(span.end), *index)
        });
        let mut outer = vec![NONE; spans.len()];
        let mut groups: HashMap<u32, Range<usize>> = HashMap::new();
        let mut open: Vec<u32> = Vec::new();
        for (at, index) in sorted.iter().enumerate() {
            let span = spans[*index as usize];
            let range = groups.entry(span.group).or_insert_with(|| {
                open.clear();
                at..at
            });
            range.end = at + 1;
            while open.last().is_some_and(|top| spans[*top as usize].end < span.start) {
                open.pop();
            }
            outer[*index as usize] = open.last().copied().unwrap_or(NONE);
            open.push(*index);
        }
        let order = sorted.iter().map(|index| (spans[*index as usize].start, *index)).collect();
        Self { order, groups, outer, ends: spans.iter().map(|span| span.end).collect() }
    }

    /// The innermost span of a group that contains a point (both ends included).
    pub(super) fn innermost(&self, group: u32, point: i64) -> Option<u32> {
        let range = self.groups.get(&group)?.clone();
        let started = self.order[range.clone()].partition_point(|(start, _)| *start <= point);
        let (_, latest) = self.order[range].get(started.checked_sub(1)?)?;
        self.outwards_from(Some(*latest)).find(|index| self.ends[*index as usize] >= point)
    }

    /// The spans that enclose span `index` as a whole, innermost first.
    pub(super) fn enclosing(&self, index: u32) -> impl Iterator<Item = u32> + '_ {
        let end = self.ends.get(index as usize).copied().unwrap_or(i64::MAX);
        self.outwards(index).filter(move |outer| self.ends[*outer as usize] >= end)
    }

    /// The spans that contain a point, innermost first.
    pub(super) fn containing(&self, group: u32, point: i64) -> impl Iterator<Item = u32> + '_ {
        let first = self.innermost(group, point);
        self.outwards_from(first).filter(move |index| self.ends[*index as usize] >= point)
    }

    fn outwards(&self, index: u32) -> impl Iterator<Item = u32> + '_ {
        let next = self.outer.get(index as usize).copied().filter(|outer| *outer != NONE);
        self.outwards_from(next)
    }

    fn outwards_from(&self, first: Option<u32>) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(first, |index| Some(self.outer[*index as usize]).filter(|outer| *outer != NONE))
            .take(MAX_STEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Brute force over all spans is the oracle.
        #[test]
        fn containment_equals_brute_force(
            spans in proptest::collection::vec((0u32..3, 0i64..40, 0i64..20), 0..40), group in 0u32..4, point in -2i64..70,
        ) {
            let spans: Vec<Span> =
                spans.into_iter().map(|(group, start, length)| Span { group, start, end: start + length }).collect();
            let intervals = Intervals::new(spans.iter().copied());
            let contains = |span: &Span| span.group == group && span.start <= point && point <= span.end;
            let mut expected: Vec<usize> = (0..spans.len()).filter(|index| contains(&spans[*index])).collect();
            // Innermost first: the latest start, then the earliest end, then the later of equals.
            expected.sort_by_key(|index| {
                (std::cmp::Reverse(spans[*index].start), spans[*index].end, std::cmp::Reverse(*index))
            });
            let found: Vec<usize> = intervals.containing(group, point).map(|index| index as usize).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(intervals.innermost(group, point).map(|index| index as usize), expected.first().copied());

            for (index, span) in spans.iter().enumerate() {
                let encloses = |other: usize| {
                    let outer = &spans[other];
                    let before = (outer.start, std::cmp::Reverse(outer.end), other) < (span.start, std::cmp::Reverse(span.end), index);
                    outer.group == span.group && before && outer.start <= span.start && outer.end >= span.end
                };
                let mut expected: Vec<usize> = (0..spans.len()).filter(|other| *other != index && encloses(*other)).collect();
                expected.sort_unstable();
                let mut found: Vec<usize> = intervals.enclosing(index as u32).map(|outer| outer as usize).collect();
                found.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
