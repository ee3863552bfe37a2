//! Ten million records through each policy, with several producers and a writer that is slower than they are: every record is accounted for.

#![allow(clippy::unwrap_used)]

use kbench_counters::ring::{Policy, Pushed, Size, Summary, ring};
use std::thread;
use std::time::{Duration, Instant};

const RECORDS: u64 = 10_000_000;
const PRODUCERS: u64 = 4;
/// Bytes of a counter record, and of those that are longer.
const SHORT: usize = 48;
const LONG: usize = 112;

struct Outcome {
    summary: Summary,
    /// Records that the writer saw, by producer.
    seen: Vec<u64>,
    pushed: Vec<[u64; 2]>,
    elapsed: Duration,
}

/// Runs the load. Each record holds its producer and number; the writer checks their order and contents, and sleeps now and then.
fn run(policy: Policy, size: &str, pause: Duration) -> Outcome {
    let (producer, mut reader) = ring(size.parse::<Size>().unwrap(), policy).unwrap();
    let start = Instant::now();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|id| {
            let producer = producer.clone();
            thread::spawn(move || {
                let mut outcomes = [0_u64; 2];
                let mut record = [0_u8; LONG];
                for number in 0..RECORDS / PRODUCERS {
                    let length = if number % 7 == 0 { LONG } else { SHORT };
                    record[..8].copy_from_slice(&id.to_le_bytes());
                    record[8..16].copy_from_slice(&number.to_le_bytes());
                    record[length - 8..length].copy_from_slice(&(id ^ number).to_le_bytes());
                    match producer.push(&record[..length]) {
                        Pushed::Kept => outcomes[0] += 1,
                        Pushed::Dropped => outcomes[1] += 1,
                        other => unreachable!("{other:?}"),
                    }
                }
                outcomes
            })
        })
        .collect();
    drop(producer);
    let mut seen = vec![0_u64; PRODUCERS as usize];
    let mut next = vec![0_u64; PRODUCERS as usize];
    let mut batches = 0_u64;
    while let Some(batch) = reader.next_batch() {
        for record in batch {
            let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
            let (id, number) = (word(0), word(8));
            let producer = id as usize;
            assert_eq!(word(record.len() - 8), id ^ number, "a record was torn");
            assert!(number >= next[producer], "a producer's records came out of order");
            if policy == Policy::Lossless {
                assert_eq!(number, next[producer], "a record was lost");
            }
            next[producer] = number + 1;
            seen[producer] += 1;
        }
        batches += 1;
        if batches.is_multiple_of(16) {
            thread::sleep(pause);
        }
    }
    let pushed = producers.into_iter().map(|producer| producer.join().unwrap()).collect();
    Outcome { summary: reader.summary(), seen, pushed, elapsed: start.elapsed() }
}

fn check(policy: Policy, size: &str, pause: Duration) -> Outcome {
    let outcome = run(policy, size, pause);
    let summary = outcome.summary;
    println!("{policy:?}: {summary:?}, {:?}", outcome.elapsed);
    assert_eq!(summary.received, RECORDS);
    assert_eq!(summary.received, summary.kept + summary.dropped + summary.overwritten);
    assert_eq!(summary.kept, outcome.seen.iter().sum::<u64>());
    assert_eq!(summary.dropped, outcome.pushed.iter().map(|[_, dropped]| dropped).sum::<u64>());
    assert_eq!(summary.kept + summary.overwritten, outcome.pushed.iter().map(|[kept, _]| kept).sum::<u64>());
    assert_eq!(summary.size_bytes, size.parse::<Size>().unwrap().bytes());
    outcome
}

#[test]
fn lossless_loses_nothing() {
    let outcome = check(Policy::Lossless, "1MiB", Duration::from_millis(2));
    assert_eq!((outcome.summary.dropped, outcome.summary.overwritten), (0, 0));
    assert!(outcome.summary.waits > 0, "the writer was not slow enough to test anything");
}

#[test]
fn drop_newest_counts_what_it_drops() {
    let outcome = check(Policy::DropNewest, "1MiB", Duration::from_millis(20));
    assert!(outcome.summary.dropped > 0 && outcome.summary.overwritten == 0);
}

#[test]
fn overwrite_oldest_counts_what_it_overwrites() {
    let outcome = check(Policy::OverwriteOldest, "1MiB", Duration::from_millis(20));
    assert!(outcome.summary.overwritten > 0 && outcome.summary.dropped == 0);
}
