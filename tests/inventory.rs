//! `kbench inventory` from the outside.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Bench, ONE_OF_EACH, real_data};
use predicates::str::contains;
use serde_json::Value;

#[test]
fn an_inventory_written_is_read_back_the_same() {
    let bench = Bench::new();
    bench.file("shapes.csv", ONE_OF_EACH);
    bench.kbench().args(["inventory", "shapes.csv", "-o", "first.csv"]).assert().success();
    bench.kbench().args(["inventory", "first.csv", "-o", "second.csv"]).assert().success();
    let rows = |name: &str| -> Vec<String> {
        let text = bench.read(name);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(rows("first.csv"), rows("second.csv"));
    assert_eq!(rows("first.csv").len(), 7);
}

#[test]
fn json_has_the_keys_of_the_contract() {
    let bench = Bench::new();
    bench.file("shapes.csv", ONE_OF_EACH);
    bench.kbench().args(["inventory", "shapes.csv", "-o", "inventory.json"]).assert().success();
    let document: Value = serde_json::from_str(&bench.read("inventory.json")).unwrap();
    assert_eq!(document["schema"], "kbench.inventory/1");
    assert!(document["coverage"]["by_provenance"].is_object());
    assert!(document["health"].is_array());
    let row = &document["rows"][0];
    for key in [
        "kernel",
        "kernel_raw",
        "family",
        "category",
        "phase",
        "calls",
        "total_ns",
        "share",
        "provenance",
        "shapes",
        "location",
    ] {
        assert!(row.get(key).is_some(), "{key}");
    }
    assert!(row["shapes"][0]["shape"].is_object() && row["shapes"][0]["dtypes"].is_object());
}

#[test]
fn the_table_names_coverage_and_markdown_has_the_same_rows() {
    let bench = Bench::new();
    bench.file("shapes.csv", &ONE_OF_EACH.replace("shape,calls", "shape,calls,total_us").replace(",48\n", ",48,10\n"));
    bench.file("timed.csv", "family,dtype,shape,calls,total_us\ngemm,bf16,m=16 n=96 k=64,48,75\nother,,,10,25\n");
    for format in ["table", "md"] {
        bench
            .kbench()
            .args(["inventory", "timed.csv", "--format", format])
            .assert()
            .success()
            .stdout(contains("shapes for 75.0 % of kernel time (given 75.0 %)"));
    }
}

/// A prefill of one kernel and a decode of two, under ATOM's labels; µs.
const TRACE: &str = r#"{"schemaVersion":1,"roctracer_version":4.1,"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"prefill[bs=1 tok=16 ctx=16]","pid":1,"tid":1,"ts":100,"dur":50,"args":{"External id":1}},
{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":1,"tid":1,"ts":110,"dur":2,"args":{"cid":1,"correlation":1,"kernel":"attn_fwd"}},
{"ph":"X","cat":"user_annotation","name":"decode[bs=4 tok=4 d=4 sqsq=4 sqsk=4000 sk=4000]","pid":1,"tid":1,"ts":200,"dur":50,"args":{"External id":2}},
{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":1,"tid":1,"ts":210,"dur":2,"args":{"cid":1,"correlation":2,"kernel":"pa_decode"}},
{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":1,"tid":1,"ts":220,"dur":2,"args":{"cid":1,"correlation":3,"kernel":"pa_decode"}},
{"ph":"X","cat":"kernel","name":"attn_fwd","pid":0,"tid":0,"ts":120,"dur":40,"args":{"device":0,"stream":0,"correlation":1,"kind":"Dispatch Kernel"}},
{"ph":"X","cat":"kernel","name":"pa_decode","pid":0,"tid":0,"ts":220,"dur":10,"args":{"device":0,"stream":0,"correlation":2,"kind":"Dispatch Kernel"}},
{"ph":"X","cat":"kernel","name":"pa_decode","pid":0,"tid":0,"ts":240,"dur":10,"args":{"device":0,"stream":0,"correlation":3,"kind":"Dispatch Kernel"}}
]}"#;

#[test]
fn steps_of_a_trace_in_every_format() {
    let bench = Bench::new();
    bench.file("trace.json", TRACE);
    let steps = |format: &str| {
        let output = bench.kbench().args(["inventory", "trace.json", "--steps", "--format", format]).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let document: Value = serde_json::from_str(&steps("json")).unwrap();
    assert_eq!(document["schema"], "kbench.steps/1");
    let decode = &document["steps"][1];
    // 220 to 250 µs, 20 of them busy; 120 µs is the trace's first kernel.
    for (key, value) in
        [("start_ns", 100_000), ("span_ns", 30_000), ("kernel_ns", 20_000), ("kernels", 2), ("nq_nkv", 4000)]
    {
        assert_eq!(decode[key], value, "{key}");
    }
    assert_eq!(decode["attention"][0]["pairs"]["exact"], 4000);
    assert_eq!(document["phases"]["prefill"]["span_ns"]["p50"], 40_000.0);
    let csv = steps("csv");
    let line = csv.lines().nth(2).unwrap();
    assert!(
        line.starts_with("1,decode,decode[bs=4 tok=4 d=4 sqsq=4 sqsk=4000 sk=4000],100000,30000,20000,20000,2,"),
        "{line}"
    );
    assert!(line.ends_with(",4,4,4,4,4000,4000,full decode=4000,full decode=4000"), "{line}");
    for format in ["table", "md"] {
        let text = steps(format);
        assert!(text.contains("30.00 µs") && text.contains("33.3 %") && text.contains("4.00 k"), "{text}");
    }
}

#[test]
fn a_step_or_a_phase_alone_and_the_summary() {
    let bench = Bench::new();
    bench.file("trace.json", TRACE);
    let inventory = |more: &[&str]| bench.kbench().args(["inventory", "trace.json"]).args(more).assert();
    inventory(&["--step", "1"]).success().stdout(contains("kernel time: 20.000 µs")).stdout(contains("selected_steps"));
    inventory(&["--phase", "prefill"]).success().stdout(contains("only phase prefill is shown: 66.7 %"));
    inventory(&["--phase", "mixed"]).code(2).stderr(contains("the profile has prefill, decode"));
    inventory(&["--step", "7"]).code(2).stderr(contains("no step 7: it has 2, from 0 to 1"));
    inventory(&["--step", "x"]).code(2).stderr(contains("is no step number"));
    inventory(&["-o", "PROFILE.md"]).success();
    let summary = bench.read("PROFILE.md");
    // 130 µs from the first start to the last end, 60 busy.
    for part in [
        "busy 60.000 µs (46.2 %)",
        "| Flash Attention |",
        "prefill 40.00 µs (66.7 %)",
        "## Shapes",
        "| none | 100.0 % |",
        "## Health",
    ] {
        assert!(summary.contains(part), "{part} in {summary}");
    }
}

/// Expected kernel-time totals: the facts' R12 where they name the trace, else the source's own sum.
#[test]
fn every_real_file_is_an_inventory_or_a_clear_error() {
    let Some(data) = real_data() else { return };
    let bench = Bench::new();
    for (path, microseconds) in [
        ("tracelens/mi300_qwen15", 43_062.0),
        ("tracelens/mi300_vllm_gptoss20b_decode", 10_675.0),
        ("tracelens/mi210_gpu_only", 5_343.0),
        ("tracelens/rocprof_report_256thread", 31_197_578.6),
    ] {
        let output = bench.kbench().arg("inventory").arg(data.join(path)).args(["--format", "json"]).assert().success();
        let document: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
        let total: f64 = document["rows"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["category"] != "Memory transfer")
            .map(|row| row["total_ns"].as_f64().unwrap())
            .sum();
        assert!((total / 1e3 / microseconds - 1.0).abs() < 1e-3, "{path}: {total} ns, {microseconds} µs");
    }
    for folder in ["tracelens", "atom", "rocprofv3"] {
        let files = walk(&data.join(folder));
        assert!(!files.is_empty(), "{folder}");
        for file in files {
            let output = bench.kbench().arg("inventory").arg(&file).assert().get_output().clone();
            let stderr = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0) => {}
                Some(2) => {
                    assert_eq!(stderr.trim_end().lines().count(), 1, "{}: {stderr}", file.display());
                    assert!(stderr.contains(&*file.display().to_string()), "{stderr}");
                }
                other => panic!("{}: {other:?} {stderr}", file.display()),
            }
        }
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(walk(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn the_qwen_report_gives_its_gemms_with_provenance() {
    let Some(data) = real_data() else { return };
    let bench = Bench::new();
    let output = bench
        .kbench()
        .arg("inventory")
        .arg(data.join("tracelens/mi300_qwen15"))
        .args(["--format", "json"])
        .assert()
        .success();
    let document: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let gemm = |m: u64, n: u64, k: u64| {
        rows.iter().filter(|row| row["family"] == "gemm").flat_map(|row| row["shapes"].as_array().unwrap()).any(
            |used| {
                let shape = &used["shape"];
                shape["m"] == m && shape["n"] == n && shape["k"] == k && used["provenance"] == "exact"
            },
        )
    };
    // aten::mm and aten::addmm rows of the report's unified_perf_summary.
    for (m, n, k) in [(8944, 2816, 1024), (8944, 1024, 1024), (8944, 1024, 2816)] {
        assert!(gemm(m, n, k), "{m}x{n}x{k}");
    }
    // Operators have 29,743.9 of the 43,062.0 µs; more than nine tenths of them have shapes.
    let with_shape = document["coverage"]["with_shape"].as_f64().unwrap();
    assert!(with_shape > 0.9 * 29_743.9 / 43_062.0, "{with_shape}");
}
