//! The GPU path from the outside: a machine without a GPU, the emulated runtime as a shared library, faults, scripted clocks.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Bench, built};
use kbench::measure::TimeSource;
use kbench::report::document::CaseResult;
use kbench::report::{RunDocument, Status};
use predicates::prelude::*;

/// Four families with a kernel each, small enough to be emulated in milliseconds.
const SHAPES: &str = "\
family,dtype,shape,calls
gemm,bf16,m=16 n=96 k=64,48
rmsnorm,bf16,rows=16 hidden=256,96
activation,bf16,rows=16 hidden=128 kind=silu,48
rope,bf16,tokens=8 q_heads=4 kv_heads=2 head_dim=64,48
";

/// Runs the cases on a device with variables set; gives the document and the exit code.
fn run(bench: &Bench, device: &str, variables: &[(&str, &str)], more: &[&str]) -> (RunDocument, i32) {
    bench.file("shapes.csv", SHAPES);
    let mut command = bench.kbench();
    command.args(["--shapes", "shapes.csv", "--device", device, "-o", "run.json"]).args(more);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = bench.dir.path().join("run.json");
    assert!(text.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    (RunDocument::read(&text).unwrap(), output.status.code().unwrap())
}

fn case<'a>(run: &'a RunDocument, family: &str) -> &'a CaseResult {
    run.cases.iter().find(|case| case.family.name() == family).unwrap()
}

fn reason(case: &CaseResult) -> &str {
    case.reason.as_deref().unwrap_or_default()
}

/// Asserts that every case but that of `family` is fine.
fn assert_others_are_fine(run: &RunDocument, family: &str) {
    for case in run.cases.iter().filter(|case| case.family.name() != family) {
        assert_eq!(case.status, Status::Ok, "{}: {}", case.id, reason(case));
    }
}

#[test]
fn without_a_gpu_hip_ends_with_one_paragraph() {
    let bench = Bench::new();
    bench.file("shapes.csv", SHAPES);
    let mut command = bench.kbench();
    command.args(["--shapes", "shapes.csv", "--device", "hip"]).env_remove("KBENCH_HIP_LIB");
    let said =
        predicate::str::contains("no GPU can be driven through HIP").and(predicate::str::contains("kbench doctor"));
    command.assert().code(5).stderr(said.and(predicate::function(|text: &str| text.trim().lines().count() == 1)));
}

#[test]
fn the_shared_library_gives_the_same_run() {
    let Some(library) = built("libamdhip64.so") else { return };
    let bench = Bench::new();
    let (linked, code) = run(&bench, "emu:mi300x", &[], &[]);
    assert_eq!(code, 0);
    let (loaded, code) = run(&bench, "hip", &[("KBENCH_HIP_LIB", library.to_str().unwrap())], &[]);
    assert_eq!(code, 0);
    assert_eq!(loaded.device, linked.device);
    assert_eq!(loaded.environment["hip_library"], library.display().to_string());
    let times_apart = |case: &CaseResult| CaseResult { stages: None, ..case.clone() };
    for (loaded, linked) in loaded.cases.iter().zip(&linked.cases) {
        assert_eq!(times_apart(loaded), times_apart(linked));
        assert!(linked.bound.is_some() && !linked.counters.is_empty() && linked.timing.is_none());
    }
}

#[test]
fn every_row_of_an_emulated_run_is_verified_with_a_bound() {
    let bench = Bench::new();
    let (run, code) = run(&bench, "auto", &[], &[]);
    assert_eq!((code, run.cases.len()), (0, 4));
    assert_others_are_fine(&run, "");
    for case in &run.cases {
        assert!(case.verify.as_ref().unwrap().passed);
        let bound = case.bound.as_ref().unwrap();
        assert!(bound.ns > 0.0 && !bound.limiter.is_empty());
        assert!(case.counters["SQ_WAVES"].value.unwrap() > 0.0);
        let launched: Vec<&str> = case.launches.iter().map(|launch| launch.kernel.as_str()).collect();
        assert_eq!(case.build.as_ref().unwrap().kernels, launched);
    }
}

#[test]
fn a_memory_fault_costs_its_case_and_the_device_is_opened_anew() {
    let bench = Bench::new();
    let (run, code) = run(&bench, "emu", &[("ROCM_EMU_FAULT", "fault@rmsnorm")], &[]);
    assert_eq!(code, 5);
    let faulted = case(&run, "rmsnorm");
    assert_eq!(faulted.status, Status::Failed);
    assert!(reason(faulted).contains("memory fault in `kb_rmsnorm"), "{}", reason(faulted));
    assert!(reason(faulted).contains("hipErrorIllegalAddress"), "{}", reason(faulted));
    assert_others_are_fine(&run, "rmsnorm");
}

#[test]
fn an_abort_costs_its_case() {
    let bench = Bench::new();
    let (run, code) = run(&bench, "emu", &[("ROCM_EMU_FAULT", "abort@rmsnorm")], &[]);
    assert_eq!((code, case(&run, "rmsnorm").status), (5, Status::Failed));
    assert!(reason(case(&run, "rmsnorm")).contains("SIGABRT"), "{}", reason(case(&run, "rmsnorm")));
    assert_others_are_fine(&run, "rmsnorm");
}

#[test]
fn a_failed_launch_and_a_refused_allocation_cost_their_case() {
    let bench = Bench::new();
    // The heaviest case, which runs first, is that of the norm.
    let (failed, code) = run(&bench, "emu", &[("ROCM_EMU_FAULT", "launch-fail@1")], &[]);
    assert_eq!((code, case(&failed, "rmsnorm").status), (5, Status::Failed));
    assert_others_are_fine(&failed, "rmsnorm");
    let (refused, code) = run(&bench, "emu", &[("ROCM_EMU_FAULT", "oom@1")], &[]);
    // The memory is there: a refusal is a failure, not a case that is too large.
    assert_eq!((code, case(&refused, "rmsnorm").status), (5, Status::Failed));
    assert!(
        reason(case(&refused, "rmsnorm")).contains("refused an allocation"),
        "{}",
        reason(case(&refused, "rmsnorm"))
    );
    assert_others_are_fine(&refused, "rmsnorm");
}

#[test]
fn a_lost_device_is_opened_anew() {
    let bench = Bench::new();
    // The second launch is the second case's; each new process has a device that loses itself at its second launch again.
    let (run, code) = run(&bench, "emu", &[("ROCM_EMU_FAULT", "lost-device@2")], &[]);
    assert_eq!(code, 5);
    let lost: Vec<&CaseResult> = run.cases.iter().filter(|case| case.status == Status::Failed).collect();
    assert_eq!(lost.len(), 2, "{:?}", run.cases.iter().map(|case| (&case.id, reason(case))).collect::<Vec<_>>());
    assert!(lost.iter().all(|case| reason(case).contains("device is lost")));
    assert_eq!(run.cases.iter().filter(|case| case.status == Status::Ok).count(), 2);
}

#[test]
fn a_hang_is_killed_and_resume_finishes_the_rest() {
    let bench = Bench::new();
    // A twenty-fifth of the usual limits: some fifteen seconds for a launch that never ends.
    let hang = [("ROCM_EMU_FAULT", "hang@rmsnorm")];
    let (hung, code) = run(&bench, "emu", &hang, &["--watchdog", "0.04"]);
    assert_eq!((code, case(&hung, "rmsnorm").status), (5, Status::Hung));
    assert!(reason(case(&hung, "rmsnorm")).contains("SIGKILL"), "{}", reason(case(&hung, "rmsnorm")));
    assert_others_are_fine(&hung, "rmsnorm");
    std::fs::rename(bench.dir.path().join("run.json"), bench.dir.path().join("hung.json")).unwrap();
    let (finished, code) = run(&bench, "emu", &[], &["--resume", "hung.json", "--retry"]);
    assert_eq!(code, 0);
    assert_others_are_fine(&finished, "");
    assert_eq!(case(&finished, "gemm"), case(&hung, "gemm"), "what had finished is taken over");
}

#[test]
fn scripted_clocks_are_timed_and_told_as_that() {
    let bench = Bench::new();
    let clock = [("ROCM_EMU_CLOCK", "cv=3%;negative=p:15%;seed=3")];
    let more = ["--family", "rmsnorm", "--time-budget", "4s", "--precision", "0.5%"];
    let (run, code) = run(&bench, "emu", &clock, &more);
    assert_eq!(code, 0);
    let case = case(&run, "rmsnorm");
    let timing = case.timing.as_ref().unwrap();
    assert_eq!(timing.source, TimeSource::Scripted);
    assert!(run.environment["scripted_clock"].contains("cv=3%"));
    // The kernel takes its bound, about; times that cannot be are refused and counted.
    let (launches, refused) = (timing.samples as f64 + timing.refused as f64, timing.refused as f64);
    assert!(refused > 0.0 && refused / launches < 0.4, "{refused} of {launches}");
    assert!(timing.samples_ns.iter().all(|ns| *ns > 0.0));
}

/// A destructor returns nothing: what fails when memory is given back is a line after the case.
#[test]
fn releases_that_fail_are_told() {
    let Some(library) = built("libamdhip64.so") else { return };
    let bench = Bench::new();
    // All of HIP but one function comes from the library that it is linked with, under that library's own name.
    std::os::unix::fs::symlink(library.canonicalize().unwrap(), bench.dir.path().join("libamdhip64.so.7")).unwrap();
    bench.file("shim.c", "int hipFree(void *address) { (void)address; return 1; }\n");
    let linked = std::process::Command::new("cc")
        .current_dir(bench.dir.path())
        .args(["-shared", "-fPIC", "-o", "shim.so", "shim.c", "-Wl,--no-as-needed", "libamdhip64.so.7"])
        .arg("-Wl,-rpath,$ORIGIN")
        .status();
    if !linked.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "cc is missing");
        println!("skipped: no cc");
        return;
    }
    bench.file("shapes.csv", SHAPES);
    let mut command = bench.kbench();
    command.args(["--shapes", "shapes.csv", "--device", "hip", "--family", "rmsnorm"]);
    let said = predicate::str::contains("rmsnorm").and(predicate::str::contains("giving back what a case used failed"));
    command.env("KBENCH_HIP_LIB", bench.dir.path().join("shim.so")).assert().success().stderr(said);
}
