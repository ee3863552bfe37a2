//! Mutated traces: whatever the bytes, reading ends, with a trace or a clear error.

// Helpers of tests may fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kbench_profile::kineto::{self, TraceError};
use std::io::Cursor;

/// A generator of numbers (PCG-like), so that every run does the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// What a trace is made of, and what breaks one.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ":",
    ",",
    "\\u",
    "\\ud800",
    "null",
    "true",
    "-",
    "e999",
    "1e308",
    "1e2147483647",
    "18446744073709551615",
    "NaN",
    "[[[[",
    "{\"ph\":\"X\"",
    "\"cat\":\"kernel\"",
    "\"cat\":\"cpu_op\"",
    "\"traceEvents\":[",
    "\"args\":{",
    "\"External id\":1",
    "\"correlation\":1",
    "\"ts\":",
    "\"dur\":",
    "hipGraphLaunch",
    "hipStreamBeginCapture",
    "\u{0}",
    "\n",
    "é",
    "0x",
    "\"Input Dims\":[[",
    "\"grid\":[0,0,0]",
];

const SEED: &str = r###"{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X", "numSms": 304}], "roctracer_version": 4.1,
"hip_runtime_version": 70226015, "distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [
{"ph": "X", "cat": "user_annotation", "name": "decode[bs=2 tok=2 d=2]", "pid": 5, "tid": 5, "ts": 100.5, "dur": 80, "args": {"External id": 1}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 5, "ts": 101.001, "dur": 20.5, "args": {"External id": 2, "Concrete Inputs": ["", ""], "Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Strides": [[8, 1], [1, 8]], "Input Dims": [[2, 8], [8, 4]]}},
{"ph": "X", "cat": "python_function", "name": "nn.Module: A{\"q\"}", "pid": 5, "tid": 5, "ts": 101, "dur": 2, "args": {"Python id": 3}},
{"ph": "X", "cat": "cuda_runtime", "name": "hipExtModuleLaunchKernel", "pid": 5, "tid": 5, "ts": 103, "dur": 2, "args": {"External id": 2, "kernel": "k", "correlation": 7, "grid": [512, 1, 1], "block": [256, 1, 1]}},
{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 1, "ts": 110.25, "dur": 7.5, "args": {"External id": 2, "device": 0, "stream": 1, "correlation": 7, "kind": "Dispatch Kernel", "grid": [512, 1, 1], "block": [256, 1, 1]}},
{"ph": "s", "id": 7, "pid": 5, "tid": 5, "ts": 103, "cat": "ac2g", "name": "ac2g"},
{"ph": "X", "cat": "cuda_runtime", "name": "hipGraphLaunch", "pid": 5, "tid": 5, "ts": 120, "dur": 2, "args": {"correlation": 8}},
{"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 1, "ts": 130, "dur": 1.25, "args": {"device": 0, "stream": 1, "correlation": 8, "kind": "Dispatch Task"}},
{"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 1, "ts": 132, "dur": 1.25, "args": {"device": 0, "stream": 1, "correlation": 8, "kind": "Dispatch Task"}},
{"ph": "X", "cat": "gpu_user_annotation", "name": "decode[bs=2 tok=2 d=2]", "pid": 0, "tid": 1, "ts": 110.25, "dur": 25, "args": {"External id": 1}},
{"ph": "X", "cat": "Kernel", "name": "old", "pid": 0, "tid": 1, "ts": 150, "dur": 3, "args": {"External id": 2}},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 1, "ts": 160, "dur": 3, "args": {"device": 0, "stream": 1, "correlation": 9, "bytes": 64}}
], "traceName": "t.json"}"###;

/// One to eight changes: a byte, a stretch removed, doubled or moved, a word put in.
fn mutate(random: &mut Random, text: &mut Vec<u8>) {
    for _ in 0..=random.below(8) {
        let at = random.below(text.len() + 1);
        let longest = 1 << random.below(9);
        let length = random.below(longest).min(text.len() - at);
        match random.below(6) {
            0 if at < text.len() => text[at] = random.next() as u8,
            1 => drop(text.drain(at..at + length)),
            2 => {
                let copy = text[at..at + length].to_vec();
                let to = random.below(text.len() + 1);
                text.splice(to..to, copy);
            }
            3 => text.truncate(at.max(text.len() / 2)),
            _ => {
                let word = WORDS[random.below(WORDS.len())];
                text.splice(at..at, word.bytes());
            }
        }
    }
}

/// Reads and joins; checks what must hold for any input.
fn digest(text: &[u8]) -> bool {
    match kineto::read_text(text, "fuzz") {
        Ok(trace) => {
            assert!(trace.kernels.iter().all(|kernel| kernel.dur_ns > 0 && kernel.ts_ns > 0));
            let joined = trace.joined();
            for kernel in joined.kernels() {
                let _ = (kernel.name(), kernel.op_call(), kernel.geometry(), kernel.annotations().count());
                assert!(!(kernel.is_replayed() && kernel.op().is_some()));
            }
            assert!(trace.require_kernels().is_ok() != trace.kernels.is_empty());
            true
        }
        Err(error) => {
            assert!(matches!(error, TraceError::NotATrace { .. }));
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

fn fuzz(variants: u64, seed: u64) {
    let mut random = Random(seed);
    let mut read = 0;
    for _ in 0..variants {
        let mut text = SEED.as_bytes().to_vec();
        mutate(&mut random, &mut text);
        read += u64::from(digest(&text));
    }
    assert!(read > variants / 2, "most variants are still traces: {read} of {variants}");
}

#[test]
fn twenty_thousand_variants() {
    assert!(digest(SEED.as_bytes()));
    fuzz(20_000, 1);
}

#[test]
#[ignore = "takes minutes"]
fn a_million_variants() {
    fuzz(1_000_000, 2);
}

#[test]
fn gzip_variants() {
    use std::io::Write;
    let mut random = Random(3);
    for _ in 0..500 {
        let mut file = Vec::new();
        for part in SEED.as_bytes().chunks(1 + random.below(SEED.len())) {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(part).unwrap();
            file.extend(encoder.finish().unwrap());
            if file.len() > 4000 {
                break;
            }
        }
        mutate(&mut random, &mut file);
        match kineto::read_from(Cursor::new(file), "fuzz.gz") {
            Ok(trace) => assert_eq!(trace.joined().kernels().len(), trace.kernels.len()),
            Err(error) => assert!(matches!(error, TraceError::NotATrace { .. }), "{error}"),
        }
    }
}

#[test]
fn hostile_traces_end_soon_and_stay_small() {
    let many = 100_000;
    let events = [
        // One label or operator inside the other, all ending together, and a launch at the bottom of each.
        (0..many).map(|at| format!(r#"{{"ph":"X","cat":"cpu_op","name":"o","pid":1,"tid":1,"ts":{at},"dur":{},"args":{{"External id":{at}}}}}"#, many - at)).collect::<Vec<_>>(),
        (0..many).map(|at| format!(r#"{{"ph":"X","cat":"user_annotation","name":"l","pid":1,"tid":1,"ts":{at},"dur":{},"args":{{}}}}"#, 2 * (many - at))).collect(),
        (0..many).map(|at| format!(r#"{{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":1,"tid":1,"ts":{at},"args":{{"correlation":{at}}}}}"#)).collect(),
        (0..many).map(|at| format!(r#"{{"ph":"X","cat":"kernel","name":"k{at}","pid":1,"tid":{at},"ts":{},"dur":9999999,"args":{{"External id":{at},"correlation":{at}}}}}"#, at + 1)).collect(),
    ]
    .concat();
    let text = format!("{{\"traceEvents\":[{}]}}", events.join(","));
    let started = std::time::Instant::now();
    let trace = kineto::read_text(text.as_bytes(), "hostile").unwrap();
    assert_eq!(trace.kernels.len(), many);
    let joined = trace.joined();
    let labels: usize = joined.kernels().step_by(1000).map(|kernel| kernel.annotations().count()).sum();
    assert!(labels > 0);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
