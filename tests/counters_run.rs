//! Counters through the (emulated) rocprofiler-sdk, end to end: passes, values, failures that keep what was measured, files.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Bench;
use kbench::report::document::CaseResult;
use kbench::report::{RunDocument, Status};
use kbench_counters::metric::Kind;

/// A GEMM of whole tiles: what matrix instructions count is what the case needs.
const GEMM: &str = "family,dtype,shape,calls\ngemm,bf16,m=128 n=256 k=256,48\n";
const PMC: &str = "FETCH_SIZE,WRITE_SIZE,SQ_INSTS_VALU_MFMA_MOPS_BF16,SQ_LDS_BANK_CONFLICT";

fn run(bench: &Bench, command: &[&str], variables: &[(&str, &str)]) -> (RunDocument, i32) {
    bench.file("shapes.csv", GEMM);
    let mut kbench = bench.kbench();
    kbench.args(command).args(["--shapes", "shapes.csv", "--device", "emu:mi300x", "-o", "run.json"]);
    let output = kbench.envs(variables.iter().copied()).output().unwrap();
    let path = bench.dir.path().join("run.json");
    assert!(path.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    (RunDocument::read(&path).unwrap(), output.status.code().unwrap())
}

fn value(case: &CaseResult, name: &str) -> f64 {
    case.counters[name].value.unwrap_or_else(|| panic!("{name}: {:?}", case.counters[name]))
}

#[test]
fn two_passes_with_the_emulators_own_values() {
    let bench = Bench::new();
    let (own, _) = run(&bench, &[], &[]);
    let (counted, code) = run(&bench, &["--pmc", PMC], &[]);
    assert_eq!(code, 0);
    let (own, case) = (&own.cases[0], &counted.cases[0]);
    let counting = case.counting.as_ref().unwrap();
    assert_eq!((counting.failed.as_deref(), counting.passes.len(), counting.confirmed), (None, 2, true));
    // Two passes of three launches, all recorded, nothing lost on the way.
    let launches = counting.reconciliation.as_ref().unwrap();
    assert_eq!((launches.launched, launches.recorded, launches.unknown), (6, 6, 0));
    let ring = case.ring.as_ref().unwrap();
    assert_eq!((ring.received, ring.kept, ring.dropped + ring.overwritten), (6, 6, 0));
    for name in ["SQ_WAVES", "SQ_INSTS_VALU_MFMA_MOPS_BF16", "SQ_LDS_BANK_CONFLICT", "FETCH_SIZE", "WRITE_SIZE"] {
        assert_eq!(value(case, name), value(own, name), "{name}");
    }
    assert_eq!(case.counters["SQ_INSTS_VALU_MFMA_MOPS_BF16"].kind, Kind::Exact);
    // MOPS are counted in units of 512 operations.
    let flops = case.work.as_ref().unwrap().total_flops();
    assert_eq!(value(case, "SQ_INSTS_VALU_MFMA_MOPS_BF16") * 512.0, flops as f64);
}

/// Asserts that the case is as good as without counters, and gives why there are none.
fn not_counted(variables: &[(&str, &str)]) -> String {
    let bench = Bench::new();
    let (run, code) = run(&bench, &["--pmc", "SQ_WAVES,FETCH_SIZE", "--watchdog", "0.05"], variables);
    let case = &run.cases[0];
    assert_eq!((code, case.status), (0, Status::Ok), "{variables:?}: {:?}", case.reason);
    assert!(case.bound.is_some() && case.verify.as_ref().unwrap().passed, "{variables:?}");
    let failed = case.counting.as_ref().unwrap_or_else(|| panic!("{variables:?}")).failed.clone();
    failed.unwrap_or_else(|| panic!("{variables:?}: it was counted"))
}

/// Failures of facts that an emulated SDK can play: each has its words, and what was measured stays.
#[test]
fn a_profiler_that_fails_costs_the_counters_alone() {
    for (variable, value, words) in [
        ("ROCM_EMU_SDK_VERSION", "0.7.0", "1.0.0"),
        ("ROCM_EMU_SDK_FAULT", "locked", "another tool"),
        ("ROCM_EMU_SDK_FAULT", "unregistered", "rocprofiler-register"),
        ("ROCM_EMU_SDK_FAULT", "no-driver", "Found 0 rocprofiler agents"),
        ("ROCM_EMU_SDK_FAULT", "unsupported-agent", "39"),
        ("ROCM_EMU_SDK_FAULT", "permission-denied", "40"),
        ("ROCM_EMU_SDK_FAULT", "missing@create_counter_config", "rocprofiler_create_counter_config"),
        ("ROCM_EMU_SDK_FAULT", "abort@start_context", "SIGABRT"),
        ("ROCM_EMU_SDK_FAULT", "hang@stop_context", "SIGKILL"),
    ] {
        let failed = not_counted(&[(variable, value)]);
        assert!(failed.contains(words), "{value}: {failed}");
    }
}

#[test]
fn late_split_and_reordered_records_are_all_found() {
    for fault in ["late=2", "reorder", "split", "device-lock"] {
        let bench = Bench::new();
        let (run, code) = run(&bench, &["--pmc", PMC], &[("ROCM_EMU_SDK_FAULT", fault)]);
        let case = &run.cases[0];
        let counting = case.counting.as_ref().unwrap();
        assert_eq!((code, counting.failed.as_deref()), (0, None), "{fault}");
        assert!(counting.incomplete.is_empty(), "{fault}: {:?}", counting.incomplete);
        let flops = case.work.as_ref().unwrap().total_flops();
        assert_eq!(value(case, "SQ_INSTS_VALU_MFMA_MOPS_BF16") * 512.0, flops as f64, "{fault}");
    }
}

#[test]
fn lost_records_and_counters_that_read_zero_are_told() {
    let bench = Bench::new();
    let (lost, _) = run(&bench, &["--pmc", PMC], &[("ROCM_EMU_SDK_FAULT", "lose=2")]);
    let counting = lost.cases[0].counting.as_ref().unwrap();
    let launches = counting.reconciliation.as_ref().unwrap();
    assert_eq!((launches.launched, launches.recorded + launches.missing), (6, 6));
    assert!(launches.missing > 0 && counting.incomplete[0].contains("no record"), "{:?}", counting.incomplete);
    let (zero, _) = run(&bench, &["--pmc", PMC], &[("ROCM_EMU_SDK_FAULT", "zero-counters")]);
    let counter = &zero.cases[0].counters["FETCH_SIZE"];
    assert_eq!((counter.value, counter.kind), (None, Kind::Invalid));
    assert!(counter.reason.as_ref().unwrap().contains("gated"), "{:?}", counter.reason);
}

#[test]
fn files_of_rocprofv3_pass_back() {
    let bench = Bench::new();
    let (_, code) = run(&bench, &["counters", "run", "--pmc", PMC, "-d", "out"], &[]);
    assert_eq!(code, 0);
    for name in ["counter_collection.csv", "kernel_trace.csv", "agent_info.csv", "results.db"] {
        assert!(bench.dir.path().join(format!("out/kbench_{name}")).exists(), "{name}");
    }
    let inventory =
        bench.kbench().args(["inventory", "out/kbench_kernel_trace.csv", "--format", "json"]).output().unwrap();
    let inventory: serde_json::Value = serde_json::from_slice(&inventory.stdout).unwrap();
    assert_eq!(inventory["rows"][0]["calls"], 6);
    assert!(inventory["rows"][0]["kernel_raw"].as_str().unwrap().starts_with("kb_gemm"), "{inventory:#}");
    for file in ["out/kbench_counter_collection.csv", "out/kbench_results.db"] {
        let mut import = bench.kbench();
        let imported = import.args(["counters", "import", file, "--format", "json"]).output().unwrap();
        let text = String::from_utf8(imported.stdout).unwrap();
        assert!(text.contains("SQ_INSTS_VALU_MFMA_MOPS_BF16"), "{file}: {text}");
    }
}

#[test]
fn a_set_is_counted_and_told_in_the_table() {
    let bench = Bench::new();
    bench.file("shapes.csv", GEMM);
    let mut kbench = bench.kbench();
    kbench.args(["counters", "run", "--shapes", "shapes.csv", "--device", "emu:mi300x", "--counters", "memory"]);
    let output = kbench.assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("TCC_HIT") && text.contains("SQ_WAVES"), "{text}");
}

#[test]
fn an_unknown_counter_is_explained() {
    let bench = Bench::new();
    let (run, code) = run(&bench, &["--pmc", "SQ_WAVE"], &[]);
    let failed = run.cases[0].counting.as_ref().unwrap().failed.as_deref().unwrap();
    assert_eq!(code, 0);
    assert!(failed.contains("SQ_WAVES"), "{failed}");
}
