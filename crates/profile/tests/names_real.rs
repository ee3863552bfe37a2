//! Real profiles: how much of their kernel time the table puts somewhere. They are not part of the repository;
//! `KBENCH_REAL_DATA` says where they are.

use kbench_profile::names::{Table, canonical, short};
use kbench_workload::Family;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn real_data() -> Option<PathBuf> {
    let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("KBENCH_REAL_DATA").map_or_else(default, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no real profiles (set KBENCH_REAL_DATA)");
    None
}

/// Kernel names of a CSV with their time in the file's unit; a file without times counts each row once.
fn kernels(path: &PathBuf) -> Vec<(String, f64)> {
    const NAMES: &[&str] = &["Kernel name", "Kernel_Name", "kernel", "name"];
    const TIMES: &[&str] =
        &["Kernel duration (µs)_sum", "Total Kernel Time (ms)", "time_us_per_layer", "avg_us", "End_Timestamp"];
    let mut reader = csv::Reader::from_path(path).unwrap();
    let headers = reader.headers().unwrap().clone();
    let column = |wanted: &[&str]| wanted.iter().find_map(|name| headers.iter().position(|header| header == *name));
    let Some(name) = column(NAMES) else { return Vec::new() };
    let time = column(TIMES);
    let start = column(&["Start_Timestamp"]);
    let number = |record: &csv::StringRecord, column: usize| record[column].parse::<f64>().ok();
    reader
        .records()
        .map(Result::unwrap)
        .filter(|record| !record[name].is_empty() && &record[name] != "LAYER TOTAL")
        .map(|record| {
            let end = time.and_then(|time| number(&record, time));
            let start = start.and_then(|start| number(&record, start)).unwrap_or(0.0);
            (record[name].to_owned(), end.map_or(1.0, |end| end - start))
        })
        .collect()
}

/// The floors are what the table reaches today, rounded down; what is missing are kernels that no family covers (sorts,
/// attention backward) and bookkeeping.
#[test]
fn share_of_kernel_time_with_a_family() {
    let Some(folder) = real_data() else { return };
    let files = [
        ("tracelens/mi300_qwen15/kernel_summary.csv", 0.999),
        ("tracelens/mi210_gpu_only/kernel_summary.csv", 0.999),
        ("tracelens/rocprof_report_256thread/kernel_summary.csv", 0.85),
        ("atom/conc16_layer.csv", 0.999),
        ("atom/decode_breakdown.csv", 0.999),
        ("rocprofv3/kernel_trace.csv", 0.999),
        ("rocprofv3/kernel_trace_truncated.csv", 0.999),
        ("rocprofv3/counter_collection.csv", 0.999),
        ("rocprofv3/kernel_names.csv", 0.999),
    ];
    let table = Table::builtin();
    for (file, floor) in files {
        let path = folder.join(file);
        let kernels = kernels(&path);
        assert!(!kernels.is_empty(), "{file} has no kernel column");
        let total: f64 = kernels.iter().map(|(_, time)| time).sum();
        let mut by_family: BTreeMap<Family, f64> = BTreeMap::new();
        for (name, time) in &kernels {
            let class = table.classify(&canonical(name), None);
            *by_family.entry(class.family).or_default() += time;
            if class.family == Family::Other {
                println!("{file}: other: {:.2} % {}", 100.0 * time / total, short(&canonical(name)));
            }
        }
        let other = by_family.get(&Family::Other).copied().unwrap_or(0.0);
        let shares: Vec<String> =
            by_family.iter().map(|(family, time)| format!("{family} {:.1} %", 100.0 * time / total)).collect();
        println!("{file}: {:.2} % with a family: {}", 100.0 * (1.0 - other / total), shares.join(", "));
        assert!(1.0 - other / total >= floor, "{file}: only {:.4} with a family", 1.0 - other / total);
    }
}
