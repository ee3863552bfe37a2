//! Bad usage and bad input: one paragraph that says what, where and what to do, and the right exit code.
#![allow(clippy::unwrap_used)]

mod common;

use common::Bench;
use predicates::prelude::*;
use predicates::str::contains;

#[test]
fn without_a_profile_the_way_is_shown() {
    Bench::new().kbench().assert().code(2).stderr(contains("--shapes"));
}

#[test]
fn a_missing_file_is_named() {
    let bench = Bench::new();
    bench.kbench().args(["--shapes", "absent.csv"]).assert().code(2).stderr(contains("absent.csv"));
}

#[test]
fn errors_are_one_paragraph() {
    let bench = Bench::new();
    bench.file("bad.csv", "family,dtype,shape,calls\ngemm,bf16,m=16 n=oops k=2,1\n");
    let output = bench.kbench().args(["--shapes", "bad.csv", "--dry-run"]).assert();
    let stdout = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let stderr = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(stderr.contains("oops") || stdout.contains("oops"), "{stderr}{stdout}");
    assert!(!stderr.contains("panicked"));
}

#[test]
fn a_grammar_error_names_file_and_line() {
    let bench = Bench::new();
    bench.file("bad.csv", "family,dtype,shape,calls\ngemm,bf16,m=16 n=2 k=2,1\ngemm,bf16,m,1\n");
    bench.kbench().args(["--shapes", "bad.csv"]).assert().code(2).stderr(contains("bad.csv:3"));
}

#[test]
fn an_unknown_family_is_named_with_the_known_ones() {
    let bench = Bench::new();
    bench.file("bad.csv", "family,dtype,shape,calls\nconvolution,bf16,m=1,1\n");
    bench
        .kbench()
        .args(["--shapes", "bad.csv"])
        .assert()
        .code(2)
        .stderr(contains("convolution").and(contains("paged_attention")));
    bench.kbench().args(["--shapes", "bad.csv", "--family", "nope"]).assert().code(2);
}

#[test]
fn devices_that_are_none_are_explained() {
    let bench = Bench::new();
    bench.kbench().args(["--shapes", "x", "--device", "cuda"]).assert().code(2).stderr(contains("no device"));
    bench.kbench().args(["--shapes", "x", "--device", "hip:first"]).assert().code(2).stderr(contains("hip:0"));
}

#[test]
fn an_output_without_a_telling_ending_asks_for_the_format() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=4 hidden=64,1\n");
    bench.kbench().args(["--shapes", "shapes.csv", "-o", "result"]).assert().code(2).stderr(contains("--format"));
}

#[test]
fn an_output_that_cannot_be_written_is_exit_2() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=4 hidden=64,1\n");
    bench
        .kbench()
        .args(["inventory", "shapes.csv", "-o", "no/such/folder/out.csv"])
        .assert()
        .code(2)
        .stderr(contains("could not be written"));
}

#[test]
fn an_empty_file_and_a_binary_file_are_explained() {
    let bench = Bench::new();
    bench.file("empty.csv", "");
    bench.kbench().args(["inventory", "empty.csv"]).assert().code(2).stderr(contains("empty"));
    std::fs::write(bench.dir.path().join("binary"), [0u8, 159, 146, 150, 0, 1, 2, 3]).unwrap();
    bench.kbench().args(["inventory", "binary"]).assert().code(2).stderr(contains("binary"));
}

/// Runs kbench with nobody at the other end of its standard output; it must end well.
fn run_unread(bench: &Bench, arguments: &[&str]) {
    use std::process::{Command, Stdio};
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("kbench"))
        .args(arguments)
        .current_dir(bench.dir.path())
        .env("XDG_STATE_HOME", bench.dir.path().join("state"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let bench = Bench::new();
    let rows: String = (1..3000).map(|m| format!("gemm,bf16,m={m} n=16 k=16,1\n")).collect();
    bench.file("many.csv", &format!("family,dtype,shape,calls\n{rows}"));
    run_unread(&bench, &["inventory", "many.csv", "--format", "csv"]);
}

/// Files asked for are written although nobody reads the table any more.
#[test]
fn a_closed_pipe_does_not_cost_the_report() {
    let bench = Bench::new();
    let cases = "gemm,bf16,m=16 n=96 k=64,48\nrmsnorm,bf16,rows=4 hidden=64,1\n";
    bench.file("shapes.csv", &format!("family,dtype,shape,calls\n{cases}"));
    let run = ["--shapes", "shapes.csv", "--device", "emu", "--report", "report"];
    run_unread(&bench, &[&run[..], &["--save", "main", "--store", "store.db"]].concat());
    let document: serde_json::Value = serde_json::from_str(&bench.read("report/run.json")).unwrap();
    assert_eq!(document["cases"].as_array().unwrap().len(), 2);
    bench.kbench().args(["show", "main", "--store", "store.db"]).assert().success();
}

#[test]
fn help_teaches() {
    let bench = Bench::new();
    bench
        .kbench()
        .arg("--help")
        .assert()
        .success()
        .stdout(contains("Examples:").and(contains("--shapes")).and(contains("Exit codes")));
    bench.kbench().args(["inventory", "--help"]).assert().success().stdout(contains("Examples:"));
    bench.kbench().arg("--version").assert().success().stdout(contains(env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        bench.kbench().args(["completions", shell]).assert().success().stdout(contains("kbench"));
    }
}
