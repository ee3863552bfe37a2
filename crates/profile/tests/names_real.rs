//! Real profiles: how much of their kernel time the table puts somewhere. They are not part of the repository;
//! `KBENCH_REAL_DATA` says where they are.

#![allow(clippy::unwrap_used)]

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

/// Kernels of a trace with their operator and time: kernel and copy events, joined with operators by `External id`.
fn trace_kernels(path: &PathBuf) -> Vec<(String, Option<String>, f64)> {
    #[derive(serde::Deserialize)]
    struct Trace {
        #[serde(rename = "traceEvents")]
        events: Vec<Event>,
    }
    #[derive(serde::Deserialize)]
    struct Event {
        #[serde(default)]
        cat: String,
        #[serde(default)]
        name: String,
        #[serde(default)]
        dur: f64,
        #[serde(default)]
        args: Arguments,
    }
    #[derive(serde::Deserialize, Default)]
    struct Arguments {
        #[serde(rename = "External id", default)]
        id: serde_json::Value,
    }
    let text = if path.extension().is_some_and(|extension| extension == "gz") {
        std::process::Command::new("gzip").arg("-dc").arg(path).output().unwrap().stdout
    } else {
        std::fs::read(path).unwrap()
    };
    let trace: Trace = serde_json::from_slice(&text).unwrap();
    let ops: BTreeMap<i64, &str> = trace
        .events
        .iter()
        .filter(|event| event.cat == "cpu_op")
        .filter_map(|event| Some((event.args.id.as_i64()?, event.name.as_str())))
        .collect();
    trace
        .events
        .iter()
        .filter(|event| matches!(event.cat.as_str(), "kernel" | "gpu_memcpy" | "gpu_memset"))
        .map(|event| {
            let op = event.args.id.as_i64().and_then(|id| ops.get(&id));
            (event.name.clone(), op.map(|op| (*op).to_owned()), event.dur)
        })
        .collect()
}

/// Prints what is left over and asserts the share of time with a family.
fn assert_share(file: &str, kernels: &[(String, Option<String>, f64)], floor: f64) {
    let table = Table::builtin();
    let total: f64 = kernels.iter().map(|(_, _, time)| time).sum();
    let mut by_family: BTreeMap<Family, f64> = BTreeMap::new();
    let mut left_over: BTreeMap<String, f64> = BTreeMap::new();
    for (name, op, time) in kernels {
        let name = canonical(name);
        let class = table.classify(&name, op.as_deref());
        *by_family.entry(class.family).or_default() += time / total;
        if class.family == Family::Other {
            *left_over.entry(format!("{} ({})", short(&name), class.category)).or_default() += time / total;
        }
    }
    let covered = 1.0 - by_family.get(&Family::Other).copied().unwrap_or(0.0);
    let shares: Vec<String> =
        by_family.iter().map(|(family, share)| format!("{family} {:.1} %", 100.0 * share)).collect();
    println!("{file}: {:.2} % of kernel time with a family: {}", 100.0 * covered, shares.join(", "));
    for (name, share) in left_over {
        println!("    other: {:.3} % {name}", 100.0 * share);
    }
    assert!(covered >= floor, "{file}: only {covered:.4} with a family");
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
        ("atom/decode_breakdown.csv", 0.995),
        ("rocprofv3/kernel_trace.csv", 0.999),
        ("rocprofv3/kernel_trace_truncated.csv", 0.999),
        ("rocprofv3/counter_collection.csv", 0.999),
        ("rocprofv3/kernel_names.csv", 0.999),
    ];
    for (file, floor) in files {
        let kernels: Vec<_> = kernels(&folder.join(file)).into_iter().map(|(name, time)| (name, None, time)).collect();
        assert!(!kernels.is_empty(), "{file} has no kernel column");
        assert_share(file, &kernels, floor);
    }
}

/// The traces that CSVs are made from, with operators where a trace has them. Captures run few kernels.
#[test]
fn share_of_trace_time_with_a_family() {
    let Some(folder) = real_data() else { return };
    let files = [
        ("b200_eager_vllm_gptoss120b_tp8_prefill.json.gz", 0.995),
        ("mi210_gpu_only.json.gz", 0.999),
        ("mi300_eager_bert_small.json.gz", 0.999),
        ("mi300_eager_qwen15_0p5b.json.gz", 0.999),
        ("mi300_eager_sglang_qwen3_8b_prefill.json.gz", 0.999),
        ("mi300_eager_timesformer.json.gz", 0.999),
        ("mi300_graph_sglang_qwen3_30b_a3b_decode_bs16.json.gz", 0.99),
        ("mi300_graph_sglang_qwen3_8b_decode_bs32.json.gz", 0.99),
        ("mi300_graph_vllm_gptoss20b_decode_bs32.json.gz", 0.99),
        ("mi300_norms.json.gz", 0.99),
        ("mi300_rocprofsdk_backend_sdpa01.json", 0.999),
        ("mi300_torch_compile_triton_tiny.json.gz", 0.999),
    ];
    for (file, floor) in files {
        let kernels = trace_kernels(&folder.join("traces").join(file));
        assert!(!kernels.is_empty(), "{file} has no kernels");
        assert_share(file, &kernels, floor);
    }
}
