//! Reads a generated kernel trace of a gigabyte and prints seconds and peak memory, against the targets of 10 s and 200 MB.
//! `cargo bench -p kbench-profile --bench big_trace`; `KBENCH_BIG_TRACE_MB` sets another size.

#![allow(missing_docs, clippy::unwrap_used)]

use kbench_profile::{ReadOptions, read};
use std::time::Instant;

#[path = "generate.rs"]
mod generate;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        println!("skipped: a gigabyte is read by `cargo bench` only");
        return;
    }
    let megabytes = std::env::var("KBENCH_BIG_TRACE_MB").ok().and_then(|text| text.parse().ok()).unwrap_or(1000_u64);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let bytes = generate::kernel_trace(&path, megabytes * 1_000_000).unwrap();
    let start = Instant::now();
    let inventory = read(&[&path], &ReadOptions::default()).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let calls: u64 = inventory.rows.iter().map(|row| row.calls).sum();
    println!(
        "{:.3} GB, {calls} dispatches, {} kernels: {seconds:.2} s ({:.0} MB/s; target 10 s), peak memory {} (target 200 MB)",
        bytes as f64 / 1e9,
        inventory.rows.len(),
        bytes as f64 / 1e6 / seconds,
        peak_memory().map_or("unknown".to_owned(), |megabytes| format!("{megabytes:.0} MB")),
    );
}

/// Peak resident memory of this process, MB, as Linux tells it.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()? * 1024.0 / 1e6)
}
