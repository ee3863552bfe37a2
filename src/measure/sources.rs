//! Other time sources than that of the samples: batches of launches back to back, and single events.

use kbench_stats::{Probability, Sample, order_statistic_median};

use super::ladder::{BATCH_SIZES, FEWEST_ROUNDS, Round, graph_slope};
use super::{Batch, Cache, LaunchError, Launcher, Reading, Refused, TimeSource};

/// Time that the smallest batch should take, ns: well above what one event's reading jitters by.
const SMALLEST_BATCH_NS: f64 = 100_000.0;

/// Most launches in the smallest batch: the largest, of 4096, still fits in one graph.
const MOST_N0: usize = 512;

/// Rounds taken when there is time for them.
const ROUNDS: usize = 10;

/// Single launches between events.
const EVENTS: usize = 15;

/// What the other sources gave.
#[derive(Debug, Default)]
pub(super) struct Others {
    pub(super) readings: Vec<Reading>,
    /// Launches made for it.
    pub(super) launches: usize,
    /// Why there is no slope, where the device could have given one.
    pub(super) no_slope: Option<&'static str>,
}

/// Measures the other sources, within about `share_ns` of session time. `typical_ns` is the time of one launch.
///
/// # Errors
/// When a launch fails.
pub(super) fn others(
    launcher: &mut dyn Launcher,
    cache: Cache,
    typical_ns: f64,
    share_ns: u64,
) -> Result<Others, LaunchError> {
    let mut found = Others::default();
    if matches!(launcher.source(), TimeSource::HostClock | TimeSource::Scripted) {
        return Ok(found);
    }
    slope(launcher, cache, typical_ns, share_ns, &mut found)?;
    if launcher.source() != TimeSource::Event {
        events(launcher, cache, typical_ns, share_ns, &mut found)?;
    }
    Ok(found)
}

/// Rounds of batches; each round's sizes in another order, so that what changes from batch to batch does not look like
/// a cost of launches.
fn slope(
    launcher: &mut dyn Launcher,
    cache: Cache,
    typical_ns: f64,
    share_ns: u64,
    found: &mut Others,
) -> Result<(), LaunchError> {
    let round_ns = |n0: usize| typical_ns * (n0 * BATCH_SIZES.iter().sum::<usize>()) as f64;
    let affordable = |n0: usize| round_ns(n0) * FEWEST_ROUNDS as f64 <= share_ns as f64;
    let wanted = ((SMALLEST_BATCH_NS / typical_ns).ceil() as usize).clamp(1, MOST_N0);
    let Some(n0) = [wanted, 1].into_iter().find(|n0| affordable(*n0)) else {
        found.no_slope = Some("batches would take more than a tenth of the case's time");
        return Ok(());
    };
    let begin = launcher.now_ns();
    let mut refused = Refused::default();
    let mut rounds = Vec::with_capacity(ROUNDS);
    let (mut next_set, sets) = (0, launcher.sets());
    for round in 0..ROUNDS {
        let spent = launcher.now_ns().saturating_sub(begin);
        if round >= FEWEST_ROUNDS && spent as f64 + round_ns(n0) > share_ns as f64 {
            break;
        }
        let mut times = [0.0; BATCH_SIZES.len()];
        let mut good = true;
        for place in 0..times.len() {
            let index = (place + round) % times.len();
            let launches = n0 * BATCH_SIZES[index];
            let batch = Batch { launches, first_set: next_set, rotate: cache == Cache::Cold };
            let Some(ns) = launcher.batch(batch) else { return Ok(()) };
            found.launches += launches;
            next_set = batch.set_of(launches, sets);
            times[index] = ns?;
            good &= refused.accepts(times[index]);
        }
        if good {
            rounds.push(Round(times));
        }
    }
    match graph_slope(&rounds, n0) {
        Some(reading) if rounds.len() >= FEWEST_ROUNDS => found.readings.push(reading),
        Some(_) | None if refused.total() > 0 => {
            found.no_slope = Some("batches had durations that cannot be ones");
        }
        _ => found.no_slope = Some("more launches did not take longer"),
    }
    Ok(())
}

fn events(
    launcher: &mut dyn Launcher,
    cache: Cache,
    typical_ns: f64,
    share_ns: u64,
    found: &mut Others,
) -> Result<(), LaunchError> {
    if typical_ns * EVENTS as f64 > share_ns as f64 {
        return Ok(());
    }
    let mut refused = Refused::default();
    let mut times = Vec::with_capacity(EVENTS);
    for launch in 0..EVENTS {
        let set = if cache == Cache::Cold { launch % launcher.sets().max(1) } else { 0 };
        let Some(ns) = launcher.event(set) else { return Ok(()) };
        found.launches += 1;
        let ns = ns?;
        if refused.accepts(ns) {
            times.push(ns);
        }
    }
    if let Ok(sample) = Sample::positive(&times) {
        let interval = order_statistic_median(&sample, Probability::P95).ok().map(|order| order.interval);
        let (source, ns) = (TimeSource::Event, sample.median());
        found.readings.push(Reading { source, ns, ci95_ns: interval, overhead: None });
    }
    Ok(())
}
