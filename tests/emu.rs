//! `kbench emu`: any kernel of any code object, buffers from and to files, faults that are named.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Bench;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use std::process::Command;

const SOURCE: &str = r#"
extern "C" __attribute__((global)) void axpy(const float *x, float *y, float a, unsigned n) {
    unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __attribute__((global)) void spin(volatile unsigned *flag) { while (*flag == 0) {} }
"#;

/// A folder with `k.co`, `x.bin` and `y.bin`; `None` without clang.
fn bench() -> Option<Bench> {
    let bench = Bench::new();
    bench.file("k.hip", SOURCE);
    let compiled = Command::new("clang-19")
        .current_dir(bench.dir.path())
        .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O3"])
        .args(["-gline-tables-only", "--offload-arch=gfx942", "-o", "k.co", "k.hip"])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "clang-19 is missing");
        println!("skipped: no clang-19");
        return None;
    }
    let floats = |f: fn(u32) -> f32| (0..1000).flat_map(|i| f(i).to_le_bytes()).collect::<Vec<u8>>();
    std::fs::write(bench.dir.path().join("x.bin"), floats(|i| i as f32)).unwrap();
    std::fs::write(bench.dir.path().join("y.bin"), floats(|i| 0.5 * i as f32)).unwrap();
    Some(bench)
}

const LAUNCH: [&str; 8] = ["emu", "k.co", "--kernel", "axpy", "--grid", "16", "--block", "64"];

#[test]
fn buffers_come_from_files_and_go_to_files() {
    let Some(bench) = bench() else { return };
    let arguments = ["--arg", "in:x.bin", "--arg", "inout:y.bin:out.bin", "--arg", "f32:2", "--arg", "u32:1000"];
    let output = bench.kbench().args(LAUNCH).args(arguments).args(["--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result = std::fs::read(bench.dir.path().join("out.bin")).unwrap();
    let values: Vec<f32> = result.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let want: Vec<f32> = (0..1000).map(|i| 2.5 * i as f32).collect();
    assert_eq!(values, want);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "kbench.emu/1");
    assert_eq!(document["counters"]["SQ_WAVES"]["value"], 16.0);
    assert_eq!(document["counters"]["SQ_WAVES"]["kind"], "exact");
    assert!(document["bound"]["ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn explicit_offsets_give_the_same() {
    let Some(bench) = bench() else { return };
    let arguments =
        ["--arg", "@16=f32:2", "--arg", "@0=in:x.bin", "--arg", "@20=u32:1000", "--arg", "@8=inout:y.bin:o.bin"];
    bench.kbench().args(LAUNCH).args(arguments).assert().success().stdout(contains("SQ_WAVES"));
    let result = std::fs::read(bench.dir.path().join("o.bin")).unwrap();
    assert_eq!(result[3996..], 2497.5_f32.to_le_bytes());
}

#[test]
fn one_element_too_many_is_a_named_fault() {
    let Some(bench) = bench() else { return };
    let arguments = ["--arg", "in:x.bin", "--arg", "inout:y.bin:out.bin", "--arg", "f32:2", "--arg", "u32:1001"];
    bench.kbench().args(LAUNCH).args(arguments).assert().code(5).stderr(
        contains("memory fault: read of 4 B")
            .and(contains("0 B past the end of `argument 0` (4000 B"))
            .and(contains("global_load_dword"))
            .and(contains("workgroup (15, 0, 0), wave 0, lane 40")),
    );
}

#[test]
fn an_endless_loop_ends_at_the_limit() {
    let Some(bench) = bench() else { return };
    let arguments =
        ["emu", "k.co", "--kernel", "spin", "--grid", "1", "--block", "64", "--arg", "zero:4", "--limit", "100000"];
    bench.kbench().args(arguments).assert().code(5).stderr(contains("limit of 100000 wave instructions"));
}

#[test]
fn wrong_arguments_are_explained() {
    let Some(bench) = bench() else { return };
    let wrong = |arguments: &[&str], what: &str| {
        bench.kbench().args(LAUNCH).args(arguments).assert().code(2).stderr(contains(what.to_owned()));
    };
    wrong(&["--arg", "in:x.bin"], "takes 4 arguments");
    wrong(&["--arg", "in:no.bin", "--arg", "null", "--arg", "f32:1", "--arg", "u32:1"], "no.bin could not be read");
    wrong(&["--arg", "u32:1", "--arg", "null", "--arg", "f32:1", "--arg", "u32:1"], "argument 0 of `axpy` has 8 B");
    wrong(&["--arg", "@0=null", "--arg", "null"], "@OFFSET");
    wrong(&["--arg", "@4294967296=null"], "ends at byte 65536");
    wrong(&["--arg", "@0=null", "--arg", "@4=u32:1"], "overlap");
    wrong(&["--arg", "null", "--arg", "null", "--arg", "f32:1e40", "--arg", "u32:1"], "out of the range");
    wrong(&["--sample", "0"], "0 is not in");
    wrong(&["--device", "no.toml"], "no.toml could not be read");
    wrong(&["--device", "mi1"], "mi1");
    wrong(&["--device", "mi210"], "needs a code object for gfx90a");
    bench
        .kbench()
        .args(["emu", "k.co", "--grid", "1", "--block", "64"])
        .assert()
        .code(2)
        .stderr(contains("axpy, spin"));
    bench.kbench().args(["emu", "k.hip", "--grid", "1", "--block", "64"]).assert().code(2);
    bench.kbench().args(["emu", "k.co", "--grid", "0", "--block", "64"]).assert().code(2).stderr(contains("no size"));
}

#[test]
fn source_lines_are_told_where_there_is_debug_information() {
    let Some(bench) = bench() else { return };
    let arguments = ["--arg", "zero:4000", "--arg", "zero:4000", "--arg", "f32:2", "--arg", "u32:1000"];
    let output = bench.kbench().args(LAUNCH).args(arguments).args(["--format", "json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = document["lines"].as_array().unwrap();
    // Lines 3 and 4 of the source are the kernel's two statements.
    let of =
        |line: u64| lines.iter().find(|found| found["line"] == line).and_then(|found| found["instructions"].as_u64());
    assert!(of(4).unwrap() >= 16 && of(3).unwrap() >= 16, "{lines:?}");
    let counts: Vec<u64> = lines.iter().map(|found| found["instructions"].as_u64().unwrap()).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    bench.kbench().args(LAUNCH).args(arguments).assert().success().stdout(contains("most executed lines:"));
}

/// A model in a file, here one of half an MI300X.
#[test]
fn a_model_of_ones_own_is_a_file() {
    let Some(bench) = bench() else { return };
    let model = include_str!("../crates/gfx-emu/models/mi300x.toml");
    let mine =
        model.replace("AMD Instinct MI300X", "Half an MI300X").replace("xcds = { value = 8", "xcds = { value = 4");
    assert_ne!(mine, model);
    bench.file("mine.toml", &mine);
    let arguments =
        ["--device", "mine.toml", "--arg", "zero:4000", "--arg", "zero:4000", "--arg", "f32:2", "--arg", "u32:1"];
    bench.kbench().args(LAUNCH).args(arguments).assert().success().stdout(contains("Half an MI300X (emulated)"));
    bench.file("broken.toml", "name = 1");
    bench.kbench().args(LAUNCH).args(["--device", "broken.toml"]).assert().code(2).stderr(contains("broken.toml"));
}
