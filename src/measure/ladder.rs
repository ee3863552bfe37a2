//! The ladder of time sources: dispatch timestamps, else the slope of batches, else single events.
//!
//! The functions here are pure: they judge readings that a session has taken.

use kbench_stats::{Interval, Probability, Sample, least_squares, order_statistic_median};

use super::TimeSource;

/// Batches of a round have this many times `n0` launches.
pub const BATCH_SIZES: [usize; 4] = [1, 2, 4, 8];

/// Fewest rounds from which the median's 95 % interval is known (order statistics).
pub const FEWEST_ROUNDS: usize = 6;

/// Two sources that time the same kernel disagree when they differ by more than this share of the longer one,
const DISAGREEMENT: f64 = 0.02;
/// and by more than this, ns: the gap between two launches is in one of them and not in the other.
const GAP_NS: f64 = 1_000.0;

/// The times of one round: batches of `n0`, 2, 4 and 8 times `n0` launches, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round(pub [f64; 4]);

/// What one launch takes by one time source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The source.
    pub source: TimeSource,
    /// One launch, ns.
    pub ns: f64,
    /// Its 95 % interval; `None` when there are too few values for one.
    pub ci95_ns: Option<Interval>,
    /// [`TimeSource::Graph`]: what a batch costs beside its launches.
    pub overhead: Option<Overhead>,
}

/// What a batch costs beside its launches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// The line's value at no launch, ns; noise can make it negative.
    pub ns: f64,
    /// Its 95 % interval.
    pub ci95_ns: Option<Interval>,
    /// Launches of the smallest batch.
    pub n0: usize,
}

/// All sources that gave a reading, and which one is believed.
#[derive(Clone, Debug, PartialEq)]
pub struct Ladder {
    /// The believed one: the first there is of dispatch, graph, event and host clock.
    pub used: Reading,
    /// Every reading, the believed one included.
    pub readings: Vec<Reading>,
    /// How far dispatch timestamps and the slope are apart, when it is too far.
    pub disagreement: Option<Disagreement>,
}

/// Two sources that should agree and do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disagreement {
    /// By dispatch timestamps, ns.
    pub dispatch_ns: f64,
    /// By the slope of batches, ns.
    pub graph_ns: f64,
}

/// The slope and the intercept of batch times over the number of launches. Each round gives a line of its own (least squares
/// over its four batches, taken close together so that drift does not tilt it); the medians over the rounds are
/// reported, with the order-statistic interval of each.
///
/// `None` without a round, and when the slope is not above zero: then it is no duration.
pub fn graph_slope(rounds: &[Round], n0: usize) -> Option<Reading> {
    let launches = BATCH_SIZES.map(|size| (size * n0.max(1)) as f64);
    let lines: Vec<_> = rounds.iter().filter_map(|round| least_squares(&launches, &round.0).ok()).collect();
    let median = |values: Vec<f64>| {
        let sample = Sample::new(&values).ok()?;
        let interval = order_statistic_median(&sample, Probability::P95).ok().map(|order| order.interval);
        Some((sample.median(), interval))
    };
    let (ns, ci95_ns) = median(lines.iter().map(|line| line.slope).collect())?;
    let (overhead_ns, overhead_ci95) = median(lines.iter().map(|line| line.intercept).collect())?;
    let overhead = Overhead { ns: overhead_ns, ci95_ns: overhead_ci95, n0 };
    (ns > 0.0).then_some(Reading { source: TimeSource::Graph, ns, ci95_ns, overhead: Some(overhead) })
}

/// Chooses among readings; `None` without one. Event times hold the cost of two events, so only dispatch timestamps and
/// the slope are held against each other.
pub fn ladder(readings: Vec<Reading>) -> Option<Ladder> {
    let by = |source| readings.iter().find(|reading| reading.source == source).copied();
    let order =
        [TimeSource::Dispatch, TimeSource::Graph, TimeSource::Event, TimeSource::HostClock, TimeSource::Scripted];
    let used = order.into_iter().find_map(by)?;
    let disagreement = by(TimeSource::Dispatch).zip(by(TimeSource::Graph)).and_then(|(dispatch, graph)| {
        let apart = (dispatch.ns - graph.ns).abs();
        let allowed = GAP_NS.max(DISAGREEMENT * dispatch.ns.max(graph.ns));
        (apart > allowed).then_some(Disagreement { dispatch_ns: dispatch.ns, graph_ns: graph.ns })
    });
    Some(Ladder { used, readings, disagreement })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(source: TimeSource, ns: f64) -> Reading {
        Reading { source, ns, ci95_ns: None, overhead: None }
    }

    /// Batches that cost exactly 7 µs and 3 µs a launch: slope and intercept are these.
    #[test]
    fn slope_and_intercept_of_exact_batches() {
        let rounds = [Round(BATCH_SIZES.map(|size| 7_000.0 + 3_000.0 * (5 * size) as f64)); 7];
        let found = graph_slope(&rounds, 5).unwrap();
        let overhead = found.overhead.unwrap();
        assert!((found.ns - 3_000.0).abs() < 1e-6 && (overhead.ns - 7_000.0).abs() < 1e-4, "{found:?}");
        let interval = found.ci95_ns.unwrap();
        assert!(interval.contains(found.ns) && interval.half_width() < 1e-6);
        assert_eq!(overhead.n0, 5);
    }

    #[test]
    fn few_rounds_have_no_interval_and_a_falling_line_is_no_duration() {
        let flat = Round(BATCH_SIZES.map(|size| 1_000.0 + 10.0 * size as f64));
        assert_eq!(graph_slope(&[flat; FEWEST_ROUNDS - 1], 1).unwrap().ci95_ns, None);
        assert!(graph_slope(&[flat; FEWEST_ROUNDS], 1).unwrap().ci95_ns.is_some());
        assert_eq!(graph_slope(&[], 1), None);
        assert_eq!(graph_slope(&[Round([4.0, 3.0, 2.0, 1.0]); 8], 1), None);
        assert_eq!(graph_slope(&[Round([f64::NAN; 4]); 8], 1), None);
    }

    /// One round in four is hit by something that takes 5 ms: the medians do not move.
    #[test]
    fn disturbed_rounds_do_not_move_the_slope() {
        let rounds: Vec<Round> = (0..12)
            .map(|round| {
                let hit = if round % 4 == 0 { 5e6 } else { 0.0 };
                Round([0, 1, 2, 3].map(|index| {
                    let launches = (BATCH_SIZES[index] * 4) as f64;
                    2_000.0 + 9_000.0 * launches + if index == round % 3 { hit } else { 0.0 }
                }))
            })
            .collect();
        assert!((graph_slope(&rounds, 4).unwrap().ns - 9_000.0).abs() < 1e-6);
    }

    #[test]
    fn the_ladder_takes_dispatch_then_graph_then_event() {
        use TimeSource::{Dispatch, Event, Graph, HostClock};
        let used = |sources: &[TimeSource]| {
            ladder(sources.iter().map(|source| reading(*source, 10.0)).collect()).map(|ladder| ladder.used.source)
        };
        assert_eq!(used(&[Event, Graph, Dispatch]), Some(Dispatch));
        assert_eq!(used(&[Event, Graph]), Some(Graph));
        assert_eq!(used(&[HostClock, Event]), Some(Event));
        assert_eq!(used(&[HostClock]), Some(HostClock));
        assert_eq!(used(&[]), None);
    }

    /// The limit is the larger of 2 % and 1 µs.
    #[test]
    fn disagreement_is_more_than_two_percent_and_a_microsecond() {
        let apart = |dispatch, graph| {
            let readings = vec![reading(TimeSource::Dispatch, dispatch), reading(TimeSource::Graph, graph)];
            ladder(readings).unwrap().disagreement.is_some()
        };
        assert!(!apart(5_000.0, 5_900.0), "a gap of less than 1 µs");
        assert!(apart(5_000.0, 6_100.0));
        assert!(!apart(1e6, 1.015e6), "less than 2 %");
        assert!(apart(1e6, 1.03e6));
        assert!(apart(1.03e6, 1e6), "either way");
        let events = vec![reading(TimeSource::Dispatch, 5_000.0), reading(TimeSource::Event, 12_000.0)];
        assert_eq!(ladder(events).unwrap().disagreement, None, "events hold their own cost");
    }
}
