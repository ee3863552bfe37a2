//! Cost of a record to the profiler's callback, while a writer takes records out. To be at most 200 ns.

#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kbench_counters::ring::{DEFAULT_SIZE, Policy, ring};
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// Pushes of one thread, for each policy and for short and long records.
fn push(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ring");
    group.throughput(Throughput::Elements(1)).sample_size(20).measurement_time(Duration::from_secs(3));
    for (policy, name) in [
        (Policy::Lossless, "lossless"),
        (Policy::DropNewest, "drop-newest"),
        (Policy::OverwriteOldest, "overwrite-oldest"),
    ] {
        for length in [48, 1024] {
            let Ok((producer, mut reader)) = ring(DEFAULT_SIZE, policy) else { continue };
            let writer = thread::spawn(move || {
                let mut bytes = 0_usize;
                while let Some(batch) = reader.next_batch() {
                    bytes += batch.map(<[u8]>::len).sum::<usize>();
                }
                bytes
            });
            let record = vec![0x5a_u8; length];
            group.bench_function(format!("{name}/{length}B"), |bencher| {
                bencher.iter_custom(|records| {
                    let start = Instant::now();
                    for _ in 0..records {
                        black_box(producer.push(black_box(&record)));
                    }
                    start.elapsed()
                });
            });
            println!("{:?}", producer.summary());
            drop(producer);
            let _ = black_box(writer.join());
        }
    }
    group.finish();
}

criterion_group!(benches, push);
criterion_main!(benches);
