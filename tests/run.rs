//! `kbench run` from the outside: results, documents, exit codes, errors.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Bench, ONE_OF_EACH};
use kbench::report::RunDocument;
use predicates::prelude::*;
use serde_json::Value;

/// Asserts that a document follows docs/run.schema.json.
fn assert_schema(document: &Value) {
    let schema: Value = serde_json::from_str(include_str!("../docs/run.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

fn run_json(bench: &Bench, arguments: &[&str]) -> Value {
    bench.kbench().args(arguments).args(["--device", "host", "-o", "run.json"]).assert().success();
    let document = serde_json::from_str(&bench.read("run.json")).unwrap();
    assert_schema(&document);
    assert_reads_back(&bench.read("run.json"));
    document
}

/// Asserts that a document survives being read and written, and that keys of later versions do not disturb.
fn assert_reads_back(text: &str) {
    let read = RunDocument::from_json("run.json", text.as_bytes()).unwrap();
    let as_written: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), as_written);
    let later = text.replacen("\"status\":", "\"later\": {\"a\": [1]}, \"status\":", 1).replacen(
        "\"interrupted\":",
        "\"later\": 1, \"interrupted\":",
        1,
    );
    assert!(later.len() > text.len());
    assert!(RunDocument::from_json("run.json", later.as_bytes()).unwrap() == read, "unknown keys are passed over");
}

#[test]
fn every_family_is_measured_and_verified() {
    let bench = Bench::new();
    bench.file("shapes.csv", ONE_OF_EACH);
    let document = run_json(&bench, &["--shapes", "shapes.csv", "--time-budget", "20s", "--precision", "5%"]);
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 6);
    for case in cases {
        assert_eq!(case["status"], "ok", "{case:#}");
        assert_eq!(case["verify"]["passed"], true);
        assert_eq!(case["verify"]["rounds"], 2, "before and after timing");
        assert_eq!(case["weight"]["provenance"], "given");
        let median = case["timing"]["median_ns"].as_f64().unwrap();
        let floor = case["floor_ns"].as_f64().unwrap();
        let of_peak = case["achieved"]["of_peak"].as_f64().unwrap();
        assert!((of_peak - floor / median).abs() < 1e-9);
        assert!(of_peak <= 1.0 / 0.95 + 1e-9);
        let samples = case["timing"]["samples_ns"].as_array().unwrap();
        assert_eq!(samples.len() as u64, case["timing"]["samples"].as_u64().unwrap());
    }
}

#[test]
fn ids_and_work_are_the_same_in_every_run() {
    let bench = Bench::new();
    bench.file("shapes.csv", ONE_OF_EACH);
    let arguments = ["--shapes", "shapes.csv", "--time-budget", "5s", "--precision", "20%", "--cache", "warm"];
    let facts = |document: &Value| -> Vec<(String, String)> {
        let cases = document["cases"].as_array().unwrap();
        cases.iter().map(|case| (case["id"].to_string(), case["work"].to_string())).collect()
    };
    let first = facts(&run_json(&bench, &arguments));
    assert_eq!(first, facts(&run_json(&bench, &arguments)));
}

#[test]
fn cold_and_warm_are_two_cases() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=64 hidden=2048,1\n");
    let document =
        run_json(&bench, &["--shapes", "shapes.csv", "--cache", "both", "--time-budget", "10s", "--precision", "5%"]);
    let ids: Vec<&str> = document["cases"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    assert!(ids[0].ends_with("@cold") && ids[1].ends_with("@warm"), "{ids:?}");
    let cold = &document["cases"][0]["timing"];
    assert_eq!(cold["cache"], "cold");
    let llc = document["device"]["llc_bytes"].as_u64().unwrap_or(0);
    assert!(cold["rotation_bytes"].as_u64().unwrap() >= 2 * llc);
}

#[test]
fn table_csv_and_markdown_name_every_case() {
    let bench = Bench::new();
    bench.file("shapes.csv", ONE_OF_EACH);
    let run = |format: &str| {
        let output = bench
            .kbench()
            .args(["--shapes", "shapes.csv", "--device", "host", "--format", format])
            .args(["--time-budget", "4s", "--precision", "20%", "--cache", "warm"])
            .assert()
            .success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    for format in ["table", "csv", "md"] {
        let text = run(format);
        for family in ["gemm", "rmsnorm", "activation", "fmha", "paged_attention", "moe_gemm"] {
            assert!(text.contains(family), "{format}: {family}\n{text}");
        }
    }
    let csv = run("csv");
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let columns = reader.headers().unwrap().len();
    for record in reader.records() {
        assert_eq!(record.unwrap().len(), columns);
    }
}

#[test]
fn cases_over_budget_or_memory_are_skipped_with_numbers() {
    let bench = Bench::new();
    bench.file(
        "shapes.csv",
        "family,dtype,shape,calls\n\
         gemm,bf16,m=100000 n=100000 k=100000,1\n\
         rmsnorm,bf16,rows=4000000000 hidden=8192,1\n\
         rmsnorm,bf16,rows=4 hidden=64,1\n",
    );
    let document = run_json(&bench, &["--shapes", "shapes.csv", "--time-budget", "5s", "--precision", "20%"]);
    let by_status = |wanted: &str| -> Vec<String> {
        let cases = document["cases"].as_array().unwrap();
        cases.iter().filter(|case| case["status"] == wanted).map(|case| case["reason"].to_string()).collect()
    };
    let skipped = by_status("skipped");
    assert_eq!(skipped.len(), 2, "{document:#}");
    assert!(skipped.iter().all(|reason| reason.chars().any(|c| c.is_ascii_digit())), "{skipped:?}");
    assert_eq!(by_status("ok").len(), 1);
}

#[test]
fn a_used_up_budget_skips_the_rest_and_still_ends_well() {
    let bench = Bench::new();
    bench.file("shapes.csv", ONE_OF_EACH);
    let document = run_json(&bench, &["--shapes", "shapes.csv", "--time-budget", "1ms"]);
    let reasons: Vec<String> =
        document["cases"].as_array().unwrap().iter().map(|case| case["reason"].to_string()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("time budget")), "{reasons:?}");
}

#[test]
fn dry_run_runs_nothing_and_explains() {
    let bench = Bench::new();
    bench.file("shapes.csv", ONE_OF_EACH);
    bench.kbench().args(["--shapes", "shapes.csv", "--dry-run", "--explain"]).assert().success().stdout(
        predicate::str::contains("gemm:").and(predicate::str::contains("FLOP")).and(predicate::str::contains("2·")),
    );
    assert!(!bench.dir.path().join("state/kbench/last-run.json").exists());
}

#[test]
fn filters_and_top_choose_cases() {
    let bench = Bench::new();
    bench.file("shapes.csv", ONE_OF_EACH);
    let listed = |arguments: &[&str]| -> usize {
        let output = bench.kbench().args(["--shapes", "shapes.csv", "--dry-run"]).args(arguments).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap().lines().count()
    };
    assert_eq!(listed(&[]), 6);
    assert_eq!(listed(&["--family", "gemm,rmsnorm"]), 2);
    assert_eq!(listed(&["--top", "3"]), 3);
}

#[test]
fn the_last_run_is_kept() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=4 hidden=64,1\n");
    bench
        .kbench()
        .args(["--shapes", "shapes.csv", "--device", "host", "--time-budget", "2s", "--precision", "20%"])
        .assert()
        .success();
    let kept: Value = serde_json::from_str(&bench.read("state/kbench/last-run.json")).unwrap();
    assert_schema(&kept);
    assert_eq!(kept["cases"][0]["status"], "ok");
}

#[test]
fn report_folder_holds_all_three_forms() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=4 hidden=64,1\n");
    bench
        .kbench()
        .args(["--shapes", "shapes.csv", "--device", "host", "--time-budget", "2s", "--precision", "20%"])
        .args(["--report", "out/report"])
        .assert()
        .success();
    for name in ["run.json", "cases.csv", "report.md"] {
        assert!(bench.read(&format!("out/report/{name}")).contains("rmsnorm"), "{name}");
    }
}

#[test]
fn an_interrupt_writes_what_was_measured() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    let bench = Bench::new();
    let rows: String = (1..400).map(|rows| format!("rmsnorm,bf16,rows={rows} hidden=64,1\n")).collect();
    bench.file("many.csv", &format!("family,dtype,shape,calls\n{rows}"));
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("kbench"))
        .args(["--shapes", "many.csv", "--device", "host", "--time-budget", "600s", "-o", "run.json"])
        .current_dir(bench.dir.path())
        .env("XDG_CACHE_HOME", bench.dir.path())
        .env("XDG_STATE_HOME", bench.dir.path().join("state"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let journal = bench.dir.path().join("run.json.journal");
    let begin = Instant::now();
    let lines = || std::fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    while lines() < 2 && begin.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let document: Value = serde_json::from_str(&bench.read("run.json")).unwrap();
    assert_schema(&document);
    assert_eq!(document["interrupted"], true);
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 399, "those that had no turn are there with their reason");
    assert_eq!(cases[0]["status"], "ok");
    assert_eq!(cases[398]["status"], "skipped");
    assert_eq!(cases[398]["unfinished"], true);
    assert!(journal.exists(), "it goes on with --resume");
}

#[test]
fn every_example_gives_cases() {
    let bench = Bench::new();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut examples = 0;
    for example in std::fs::read_dir(folder).unwrap().flatten() {
        let output = bench.kbench().arg("--shapes").arg(example.path()).arg("--dry-run").assert().success();
        let stdout = String::from_utf8(output.get_output().stdout.clone()).unwrap();
        let (unusable, cases): (Vec<&str>, Vec<&str>) =
            stdout.lines().filter(|line| !line.contains("no workload")).partition(|line| line.contains("skipped"));
        assert!(cases.len() >= 8, "{}:\n{stdout}", example.path().display());
        assert!(unusable.iter().all(|line| line.contains("does not tell the shape")), "{unusable:?}");
        examples += 1;
    }
    assert_eq!(examples, 2);
}

/// What is no measured time does not stand under that heading, and a sample of workgroups is said to be one.
#[test]
fn emulated_and_scripted_tables_say_what_their_numbers_are() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\ngemm,bf16,m=128 n=256 k=64,1\n");
    let table = |arguments: &[&str], clock: Option<&str>| {
        let mut command = bench.kbench();
        command.args(["--shapes", "shapes.csv", "--device", "emu"]).args(arguments);
        clock.map(|clock| command.env("ROCM_EMU_CLOCK", clock));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let head =
        |text: &str| text.lines().next().unwrap().split("  ").map(str::trim).map(str::to_owned).collect::<Vec<_>>();
    let (text, _) = table(&["--emu-sample", "2"], None);
    assert!(head(&text).contains(&"bound".to_owned()) && !head(&text).contains(&"time".to_owned()), "{text}");
    assert!(text.contains("    2 of ") && text.contains("workgroups ran"), "{text}");
    let (csv, _) = table(&["--emu-sample", "2", "--format", "csv"], None);
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let columns = rows.headers().unwrap().clone();
    let row = rows.records().next().unwrap().unwrap();
    let column = |name: &str| &row[columns.iter().position(|column| column == name).unwrap()];
    assert!(
        column("workgroups_ran") == "2"
            && column("workgroups").parse::<u64>().unwrap() > 2
            && column("median_ns").is_empty()
    );
    let (markdown, _) = table(&["--emu-sample", "2", "--format", "md"], None);
    assert!(markdown.contains("| bound |") && markdown.contains("2 of "), "{markdown}");
    let (text, words) = table(&["--cache", "both"], Some("cv=1%"));
    assert!(head(&text).contains(&"scripted time".to_owned()), "{text}");
    assert!(text.contains(" cold ") && text.contains(" warm ") && text.contains("no time was measured"), "{text}");
    assert!(words.contains("they follow a script"), "{words}");
    // Counted only: a row of its own kind, not a failure without a reason.
    let mut command = bench.kbench();
    command.args(["counters", "run", "--shapes", "shapes.csv", "--device", "emu", "--pmc", "SQ_WAVES"]);
    let output = command.env("ROCM_EMU_CLOCK", "cv=1%").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("counted, not timed") && text.contains("1 verified and counted, not timed"), "{text}");
    assert!(!text.contains("measured\n") || text.contains("0 measured"), "{text}");
    let counter = text.lines().find(|line| line.contains("SQ_WAVES")).unwrap();
    assert!(!counter.contains("measured"), "{counter}");
}
