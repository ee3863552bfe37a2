//! Runs that are killed, lose their worker, or hang: what is kept, who survives, and how they go on. On the emulated device,
//! whose results are the same every time.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Bench;
use predicates::str::contains;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CASES: usize = 60;

/// A folder with an inventory of many small cases.
fn bench() -> Bench {
    let bench = Bench::new();
    let rows: String = (1..=CASES).map(|row| format!("rmsnorm,bf16,rows={row} hidden=256,{}\n", 1000 - row)).collect();
    bench.file("shapes.csv", &format!("family,dtype,shape,calls\n{rows}"));
    bench
}

/// Starts a run that writes `run.json`.
fn start(bench: &Bench, arguments: &[&str]) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin!("kbench"))
        .args(["--shapes", "shapes.csv", "--device", "emu", "-o", "run.json"])
        .args(arguments)
        .current_dir(bench.dir.path())
        .env("XDG_STATE_HOME", bench.dir.path().join("state"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(180), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until so many cases are in the journal.
fn wait_for_cases(run: &mut Child, bench: &Bench, count: usize) {
    let journal = bench.dir.path().join("run.json.journal");
    wait_until("no case ends", || {
        assert_eq!(run.try_wait().unwrap(), None, "the run ended too early");
        std::fs::read_to_string(&journal).is_ok_and(|text| text.lines().count() > count)
    });
}

/// The worker of a run.
fn worker(run: &Child) -> u32 {
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    std::fs::read_to_string(children).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

fn is_running(pid: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) else { return false };
    !text.rsplit(')').next().unwrap_or("").trim_start().starts_with(['Z', 'X'])
}

/// A document without what differs between two runs of the same: where the time of running went.
fn lasting(bench: &Bench, name: &str) -> Value {
    let mut document: Value = serde_json::from_str(&bench.read(name)).unwrap();
    document["environment"].as_object_mut().unwrap().remove("resumed");
    for case in document["cases"].as_array_mut().unwrap() {
        case.as_object_mut().unwrap().remove("stages");
    }
    document
}

fn statuses(document: &Value) -> Vec<&str> {
    document["cases"].as_array().unwrap().iter().map(|case| case["status"].as_str().unwrap()).collect()
}

#[test]
fn a_killed_run_goes_on_and_ends_as_if_it_had_not_been() {
    let bench = bench();
    let whole = ["--shapes", "shapes.csv", "--device", "emu", "-o", "whole.json"];
    bench.kbench().args(whole).assert().success();
    assert!(!bench.dir.path().join("whole.json.journal").exists(), "the document is complete");

    let mut run = start(&bench, &[]);
    wait_for_cases(&mut run, &bench, 3);
    let child = worker(&run);
    assert!(is_running(child));
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("the worker survives its parent", || !is_running(child));
    assert!(!bench.dir.path().join("run.json").exists(), "nothing half is left where the result belongs");

    let kept = bench.read("run.json.journal").lines().count() - 1;
    assert!((3..CASES).contains(&kept), "{kept} cases");
    // A line that was being written when it was killed.
    let torn = format!("{}{{\"index\":59,\"case\":{{\"id\":", bench.read("run.json.journal"));
    bench.file("run.json.journal", &torn);
    bench
        .kbench()
        .args(["--shapes", "shapes.csv", "--device", "emu", "-o", "run.json", "--resume", "run.json.journal"])
        .assert()
        .success()
        .stderr(contains(format!("{kept} of {CASES} cases taken over")));
    assert_eq!(lasting(&bench, "run.json"), lasting(&bench, "whole.json"));
    assert!(!bench.dir.path().join("run.json.journal").exists());
}

#[test]
fn a_killed_worker_costs_one_case_and_retry_runs_it() {
    let bench = bench();
    let mut run = start(&bench, &[]);
    wait_for_cases(&mut run, &bench, 2);
    signal("KILL", worker(&run));
    assert_eq!(run.wait().unwrap().code(), Some(5));
    let document: Value = serde_json::from_str(&bench.read("run.json")).unwrap();
    let failed: Vec<&Value> =
        document["cases"].as_array().unwrap().iter().filter(|case| case["status"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{:?}", statuses(&document));
    assert!(failed[0]["reason"].as_str().unwrap().contains("signal 9 (SIGKILL)"), "{}", failed[0]["reason"]);
    assert_eq!(statuses(&document).iter().filter(|status| **status == "ok").count(), CASES - 1);

    let again = ["--shapes", "shapes.csv", "--device", "emu", "-o", "again.json", "--resume", "run.json"];
    bench.kbench().args(again).assert().code(5);
    assert_eq!(lasting(&bench, "again.json"), lasting(&bench, "run.json"), "without --retry it is taken over");
    bench.kbench().args(again).arg("--retry").assert().success();
    let document: Value = serde_json::from_str(&bench.read("again.json")).unwrap();
    assert_eq!(statuses(&document), ["ok"; CASES]);
}

#[test]
fn a_worker_that_stands_still_is_hung() {
    let bench = bench();
    // The limit of a check on the emulated device is 330 s, that of every other stage is shorter.
    let mut run = start(&bench, &["--watchdog", "0.1", "--time-budget", "10m"]);
    wait_for_cases(&mut run, &bench, 2);
    let child = worker(&run);
    signal("STOP", child);
    assert_eq!(run.wait().unwrap().code(), Some(5));
    assert!(!is_running(child));
    let document: Value = serde_json::from_str(&bench.read("run.json")).unwrap();
    let all = statuses(&document);
    assert_eq!(all.iter().filter(|status| **status == "hung").count(), 1, "{all:?}");
    assert_eq!(all.iter().filter(|status| **status == "ok").count(), CASES - 1, "{all:?}");
}

#[test]
fn another_run_is_not_resumed() {
    let bench = bench();
    let run = |arguments: &[&str]| {
        bench
            .kbench()
            .args(["--shapes", "shapes.csv", "--device", "emu", "--top", "2", "-o", "out.json"])
            .args(arguments)
            .assert()
    };
    run(&[]).success();
    run(&["--resume", "out.json"]).success().stderr(contains("2 of 2 cases taken over"));
    run(&["--resume", "out.json", "--seed", "2"]).code(2).stderr(contains("its seed was 1, this run's is 2"));
    run(&["--resume", "shapes.csv"]).code(2).stderr(contains("kbench.run/1"));
    run(&["--resume", "none.json"]).code(2).stderr(contains("none.json"));
    run(&["--retry"]).code(2).stderr(contains("--resume"));
}

#[test]
fn the_first_line_names_the_device() {
    let bench = bench();
    let first = |device: &str| {
        let output =
            bench.kbench().args(["--shapes", "shapes.csv", "--dry-run", "--device", device]).assert().success();
        let stderr = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        stderr.lines().next().unwrap().to_owned()
    };
    assert!(first("auto").contains("MI300X"), "{}", first("auto"));
    assert!(first("emu:mi210").contains("gfx90a"), "{}", first("emu:mi210"));
    assert!(first("host").contains("host clock"), "{}", first("host"));
}

#[test]
fn the_worker_is_no_command_for_people() {
    let bench = Bench::new();
    bench.kbench().arg("worker").write_stdin("hello\n").assert().code(5).stderr(contains("hello"));
    bench
        .kbench()
        .arg("worker")
        .write_stdin("kbench-worker/1 7\n\"Peaks\"\n")
        .assert()
        .code(2)
        .stderr(contains("started by kbench itself"));
    let help = bench.kbench().arg("--help").assert().success();
    assert!(!String::from_utf8_lossy(&help.get_output().stdout).contains("Own a device"));
}
