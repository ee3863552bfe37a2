//! `kbench kernels` and `kbench build` from the outside, in folders without a checkout.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Bench;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::path::PathBuf;

fn json(bench: &Bench, args: &[&str]) -> Value {
    let output = bench.kbench().args(args).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

fn descriptor(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("kernels/descriptors/aiter/{name}.toml"))
}

/// False, with a line that says so, when there is no compiler; a failure in CI.
fn has_clang() -> bool {
    let found = std::process::Command::new("clang-19").arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "clang-19 is needed in CI");
        eprintln!("skipped: there is no clang-19");
    }
    found
}

#[test]
fn the_program_has_kernels_for_gfx942_wherever_it_runs() {
    let document = json(&Bench::new(), &["kernels", "--arch", "gfx942", "--format", "json"]);
    let kernels = document["kernels"].as_array().unwrap();
    for family in ["gemm", "fmha", "paged_attention", "moe_gemm", "rmsnorm", "activation"] {
        assert!(kernels.iter().any(|kernel| kernel["family"] == family), "{family}");
    }
    for kernel in kernels {
        assert_eq!((&kernel["arch"], &kernel["origin"]), (&"gfx942".into(), &"builtin".into()));
        assert_eq!((&kernel["spills"], &kernel["scratch_bytes"]), (&0.into(), &0.into()), "{kernel}");
        assert!(kernel["waves_per_simd"].as_f64().is_some_and(|waves| waves > 0.0 && waves <= 8.0), "{kernel}");
    }
    Bench::new().kbench().arg("kernels").assert().success().stdout(contains("VGPR").and(contains("kb_rmsnorm")));
    Bench::new().kbench().args(["kernels", "--family", "conv"]).assert().code(2).stderr(contains("no kernel"));
}

#[test]
fn each_case_gets_a_build_or_the_reasons() {
    let bench = Bench::new();
    bench.file(
        "shapes.csv",
        "family,dtype,shape,calls\n\
         rmsnorm,bf16,rows=16 hidden=4096,96\n\
         gemm,bf16,m=16 n=96 k=64,48\n\
         paged_attention,f32,ctx=[1024] q_heads=8 kv_heads=1 head_dim=80,1\n",
    );
    let document = json(&bench, &["kernels", "list", "--shapes", "shapes.csv", "--format", "json"]);
    let cases = document["cases"].as_array().unwrap();
    let case = |family: &str| cases.iter().find(|case| case["id"].as_str().unwrap().contains(family)).unwrap();
    assert!(case("rmsnorm")["kernels"][0].as_str().unwrap().starts_with("kb_rmsnorm"), "{document}");
    assert!(case("gemm")["kernels"][0].as_str().unwrap().starts_with("kb_gemm"), "{document}");
    let refused = case("paged_attention");
    assert!(refused["build"].is_null());
    let reasons = refused["refused"].as_array().unwrap();
    assert!(reasons.iter().any(|reason| reason.as_str().unwrap().contains("the case has f32")), "{refused}");
    bench
        .kbench()
        .args(["kernels", "--shapes", "shapes.csv", "--arch", "gfx906"])
        .assert()
        .success()
        .stdout(contains("0 of 3 cases have a build for gfx906").and(contains("not gfx906")));
}

#[test]
fn a_descriptor_is_checked_alone_and_at_a_shape() {
    let bench = Bench::new();
    bench
        .kbench()
        .args(["kernels", "check"])
        .arg(descriptor("pa"))
        .assert()
        .success()
        .stdout(contains("pa.toml: fits"));
    // 17 arguments; grid of KV heads by sequences as aiter launches pa_fwd.
    bench
        .kbench()
        .args(["kernels", "check"])
        .arg(descriptor("pa"))
        .args(["--shape", "ctx=[1024,77] q_heads=64 kv_heads=8 head_dim=128 layout=aiter kv_scale=per_token"])
        .args(["--dtypes", "bf16,kv=fp8"])
        .assert()
        .success()
        .stdout(contains("*: grid [8, 2, 1], block [256, 1, 1], 0 bytes of dynamic LDS, 17 arguments"));
    bench
        .kbench()
        .args(["kernels", "check"])
        .arg(descriptor("pa"))
        .args(["--shape", "ctx=[1024] q_heads=64 kv_heads=8 head_dim=64 layout=aiter", "--dtypes", "bf16"])
        .assert()
        .success()
        .stdout(contains("not run: takes fp8 for kv, the case has bf16"));
    let broken =
        std::fs::read_to_string(descriptor("pa")).unwrap().replace("layout = \"slot16\"", "layout = \"slot8\"");
    bench.file("broken.toml", &broken);
    bench
        .kbench()
        .args(["kernels", "check", "broken.toml"])
        .assert()
        .code(2)
        .stderr(contains("broken.toml:").and(contains("slot16")));
}

#[test]
fn the_program_builds_its_kernels_without_a_checkout() {
    if !has_clang() {
        return;
    }
    let bench = Bench::new();
    let build = || {
        let mut command = bench.kbench();
        command.args(["build", "--compiler", "clang-19", "--family", "embedding", "-o", "out"]);
        command
    };
    build().assert().success().stderr(contains("0 failed").and(contains("clang version 19")));
    build().assert().success().stderr(contains("(0 compiled,"));
    let document = json(&bench, &["kernels", "list", "--kernels", "out", "--format", "json"]);
    assert_eq!(document["kernels"][0]["origin"], "folder");
    bench
        .kbench()
        .args(["build", "--compiler", "clang-19", "--arch", "gfx9999", "-o", "out"])
        .assert()
        .code(2)
        .stderr(contains("no kernel is for gfx9999"));
    bench.kbench().args(["build", "--compiler", "absent", "-o", "out"]).assert().code(2).stderr(contains("absent"));
}
