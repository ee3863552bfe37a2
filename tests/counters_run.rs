//! Counters through the (emulated) rocprofiler-sdk, end to end: passes, values, failures that keep what was measured, files.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Bench;
use kbench::counters::{Request, What};
use kbench::report::document::CaseResult;
use kbench::report::{RunDocument, Status};
use kbench::worker::frame;
use kbench::worker::message::{Open, ToChild};
use kbench_counters::metric::{ColdVerdict, Kind};
use kbench_workload::Fp8Flavor;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

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
    for fault in ["late=2", "reorder", "split"] {
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

/// Runs and gives exit code, stdout and stderr.
fn said(bench: &Bench, arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let output = bench.kbench().args(arguments).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// `counters run` of the GEMM on the emulated MI300X.
const COUNT: [&str; 6] = ["counters", "run", "--shapes", "shapes.csv", "--device", "emu:mi300x"];

/// The model is that of `--device`, not that of the environment: MI300A has 228 CUs of 4 SIMDs in 6 XCCs.
#[test]
fn the_device_that_was_asked_for_is_counted() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\ngemm,bf16,m=64 n=64 k=64,10\n");
    let arguments = ["--device", "emu:mi300a", "--pmc", "occupancy,mfma_util", "-d", "out", "-o", "run.json"];
    for variable in [None, Some(("ROCM_EMU_DEVICE", "mi300a"))] {
        let mut command = bench.kbench();
        command.args(["counters", "run", "--shapes", "shapes.csv"]).args(arguments);
        command.env_remove("ROCM_EMU_DEVICE").envs(variable).assert().success();
        let run = RunDocument::read(&bench.dir.path().join("run.json")).unwrap();
        let rounded = |name: &str| (value(&run.cases[0], name) * 1e6).round();
        assert_eq!((rounded("occupancy"), rounded("mfma_util")), (219_298.0, 265_439.0), "{variable:?}");
        let agents = kbench_counters::rocprofv3::read_agent_info(&bench.dir.path().join("out/kbench_agent_info.csv"));
        let agent = &agents.unwrap()[0];
        assert_eq!((agent.numbers["Simd_Count"], agent.numbers["Num_Xcc"]), (912, 6), "{variable:?}");
    }
}

#[test]
fn what_cannot_be_counted_is_refused_before_anything_runs() {
    let bench = Bench::new();
    bench.file("shapes.csv", GEMM);
    for (more, words) in [
        (["--pmc", "NOPE"], "`NOPE` is neither a counter nor a metric"),
        (["--pmc", "SQ_WAVE"], "SQ_WAVES"),
        (["--pmc", ","], "the list of counters is empty"),
        (["--counters", "nope"], "there is no counter set `nope`"),
        (["--ring-size", "1KiB"], "at least 4KiB"),
        (["--ring-size", "1TiB"], "at most 16GiB"),
    ] {
        let (code, out, error) = said(&bench, &[&COUNT[..], &more].concat(), &[]);
        assert!(code == 2 && out.is_empty() && error.contains(words), "{more:?}: {code} {out}{error}");
    }
    let host = ["counters", "run", "--shapes", "shapes.csv", "--device", "host"];
    let (code, _, error) = said(&bench, &host, &[]);
    assert!(code == 2 && error.contains("the host's CPU is not counted"), "{code} {error}");
}

/// Only counters were wanted: without any the run has failed, and says so once.
#[test]
fn a_run_that_counts_nothing_fails() {
    let bench = Bench::new();
    bench.file("shapes.csv", GEMM);
    for (fault, words) in [
        ("locked", "another tool"),
        ("unregistered", "rocprofiler-register"),
        ("permission-denied", "CAP_PERFMON"),
        ("unsupported-agent", "39"),
        ("abort@start_context", "SIGABRT"),
    ] {
        let arguments = [&COUNT[..], &["--pmc", "SQ_WAVES", "-d", "out"]].concat();
        let (code, _, error) = said(&bench, &arguments, &[("ROCM_EMU_SDK_FAULT", fault)]);
        let last = error.lines().last().unwrap_or_default();
        assert_eq!(code, 5, "{fault}: {error}");
        assert!(last.starts_with("kbench: ") && last.contains(words), "{fault}: {error}");
        assert!(last.ends_with("no file was written to out") && !bench.dir.path().join("out").exists(), "{error}");
    }
    let hip = ["counters", "run", "--shapes", "shapes.csv", "--device", "hip"];
    let (code, _, error) = said(&bench, &hip, &[("KBENCH_HIP_LIB", "/nonexistent/libamdhip64.so")]);
    assert_eq!((code, error.matches("no GPU can be driven through HIP").count()), (5, 1), "{error}");
}

#[test]
fn the_kernels_of_an_input_file_are_counted_and_no_others() {
    let bench = Bench::new();
    bench.file("shapes.csv", &format!("{GEMM}rmsnorm,bf16,rows=4 hidden=256,20\n"));
    let job = |counters: &str, include: &str| {
        format!("  - pmc: [{counters}]\n    kernel_include_regex: \"{include}\"\n    kernel_exclude_regex: silu\n")
    };
    bench.file("one.yaml", &format!("jobs:\n{}{}", job("SQ_WAVES", "rmsnorm"), job("TCC_HIT_sum", "rmsnorm")));
    let arguments = [&COUNT[..], &["-o", "run.json", "-i", "one.yaml"]].concat();
    let (code, _, error) = said(&bench, &arguments, &[]);
    assert_eq!(code, 0, "{error}");
    let run = RunDocument::read(&bench.dir.path().join("run.json")).unwrap();
    let case = |family: &str| run.cases.iter().find(|case| case.family.name() == family).unwrap();
    let (counted, other) = (case("rmsnorm"), case("gemm"));
    assert!(counted.counting.as_ref().unwrap().failed.is_none() && counted.counters.contains_key("TCC_HIT"));
    let why = other.counting.as_ref().unwrap().failed.as_deref().unwrap();
    assert!(why.contains("kernel_include_regex"), "{why}");
    bench.file("two.yaml", &format!("jobs:\n{}{}", job("SQ_WAVES", "rmsnorm"), job("TCC_HIT_sum", "gemm")));
    let (code, _, error) = said(&bench, &[&COUNT[..], &["-i", "two.yaml"]].concat(), &[]);
    assert!(code == 2 && error.contains("one by one (--job 1, --job 2)"), "{code} {error}");
    let second = [&COUNT[..], &["-i", "two.yaml", "--job", "2", "-o", "second.json"]].concat();
    let (code, _, error) = said(&bench, &second, &[]);
    assert_eq!(code, 0, "{error}");
    let run = RunDocument::read(&bench.dir.path().join("second.json")).unwrap();
    let counted = |case: &CaseResult| case.counting.as_ref().unwrap().failed.is_none();
    let all: Vec<_> = run.cases.iter().map(|case| (case.family.name(), counted(case))).collect();
    assert_eq!(all, [("gemm", true), ("rmsnorm", false)]);
    let (code, _, error) = said(&bench, &[&COUNT[..], &["-i", "two.yaml", "--job", "3"]].concat(), &[]);
    assert!(code == 2 && error.contains("there is no job 3; it has 2"), "{code} {error}");
    bench.file("bad.yaml", &format!("jobs:\n{}", job("SQ_WAVES", "(")));
    let (code, _, error) = said(&bench, &[&COUNT[..], &["-i", "bad.yaml"]].concat(), &[]);
    assert!(code == 2 && error.contains("`kernel_include_regex`"), "{code} {error}");
    bench.file(
        "unused.yaml",
        "jobs:\n  - pmc: [SQ_WAVES]\n    kernel_trace: True\n    kernel_iteration_range: \"[1]\"\n",
    );
    let (code, _, error) = said(&bench, &[&COUNT[..], &["-i", "unused.yaml"]].concat(), &[]);
    let words = "unused.yaml: job 1: not used here: kernel_trace, kernel_iteration_range";
    assert!(code == 0 && error.contains(words), "{code} {error}");
}

/// What the SDK tells on stderr alone is in the result.
#[test]
fn a_device_that_could_not_be_locked_is_told_in_the_result() {
    let bench = Bench::new();
    let (run, code) = run(&bench, &["--pmc", PMC], &[("ROCM_EMU_SDK_FAULT", "device-lock")]);
    let counting = run.cases[0].counting.as_ref().unwrap();
    assert_eq!((code, counting.failed.as_deref()), (0, None));
    assert!(counting.incomplete.len() == 1 && counting.incomplete[0].contains("could not be locked"), "{counting:?}");
    let failed = not_counted(&[("ROCM_EMU_SDK_FAULT", "permission-denied")]);
    assert!(failed.contains("CAP_PERFMON") && failed.contains("perf_event_paranoid"), "{failed}");
}

/// The tables do not have CU_NUM, the device's own list does.
#[test]
fn counters_that_only_the_device_knows_are_counted() {
    let bench = Bench::new();
    let (run, code) = run(&bench, &["--pmc", "CU_NUM"], &[]);
    let counting = run.cases[0].counting.as_ref().unwrap();
    assert_eq!((code, counting.failed.as_deref()), (0, None));
    assert_eq!(value(&run.cases[0], "CU_NUM"), 304.0);
}

#[test]
fn a_device_confirms_a_plan_and_lists_its_own_counters() {
    let bench = Bench::new();
    let plan = ["counters", "plan", "--device", "emu:mi210", "--pmc", "FETCH_SIZE,CU_NUM", "--format", "json"];
    let (code, out, error) = said(&bench, &plan, &[]);
    assert_eq!(code, 0, "{error}");
    let plan: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&plan["plans"][0]["confirmed"], &plan["plans"][0]["arch"]), (&true.into(), &"gfx90a".into()));
    // gfx90a's names of the requests to memory.
    assert!(plan["plans"][0]["passes"][0]["counters"].as_array().unwrap().contains(&"TCC_EA_RDREQ".into()), "{plan}");
    let (_, out, _) = said(&bench, &["counters", "list", "--device", "emu:mi300x", "--format", "json"], &[]);
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    let has = |name: &str| list["counters"].as_array().unwrap().iter().any(|counter| counter["name"] == name);
    assert!(has("CU_NUM") && has("SQ_WAVES") && !has("MeanOccupancyPerCU"), "{list}");
    for (arguments, code, words) in [
        (["plan", "--device", "emu:mi300x", "--pmc", "NOPE"], 2, "`NOPE`"),
        (["plan", "--device", "host", "--pmc", "SQ_WAVES"], 2, "the host's CPU is not counted"),
        (["plan", "--device", "emu:mi300x", "--arch", "gfx942"], 2, "cannot be used with"),
    ] {
        let (found, _, error) = said(&bench, &[&["counters"][..], &arguments].concat(), &[]);
        assert!(found == code && error.contains(words), "{arguments:?}: {found} {error}");
    }
    let fault = [("ROCM_EMU_SDK_FAULT", "locked")];
    let (code, _, error) = said(&bench, &["counters", "list", "--device", "emu:mi300x"], &fault);
    assert!(code == 5 && error.contains("another tool"), "{code} {error}");
}

/// Durations of an emulated GPU are bounds, also where its files are read again.
#[test]
fn files_of_an_emulated_gpu_do_not_pass_for_measurements() {
    let bench = Bench::new();
    run(&bench, &["counters", "run", "--pmc", "clock_mhz,mfma_tflops,FETCH_SIZE", "-d", "out"], &[]);
    for file in ["out/kbench_counter_collection.csv", "out/kbench_results.db"] {
        let (_, table, _) = said(&bench, &["counters", "import", file], &[]);
        assert!(table.contains("calls, bound ") && table.contains("nothing was measured"), "{file}: {table}");
        assert!(!table.contains("clock_mhz") && !table.contains("TFLOP/s"), "{file}: {table}");
        let (_, document, _) = said(&bench, &["counters", "import", file, "--format", "json"], &[]);
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        let case = &document["cases"][0];
        assert!(case["duration_ns"].is_null() && case["bound_ns"].as_f64().unwrap() > 0.0, "{case}");
        assert_eq!(document["device"]["emulated"], true);
        let kinds = case["counters"].as_object().unwrap().values().map(|counter| counter["kind"].as_str().unwrap());
        assert!(kinds.clone().count() > 2 && kinds.clone().all(|kind| kind != "measured"), "{case}");
    }
    for source in ["out", "out/kbench_kernel_trace.csv", "out/kbench_results.db"] {
        let (_, document, _) = said(&bench, &["inventory", source, "--format", "json"], &[]);
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        let codes = document["health"].as_array().unwrap().iter().map(|finding| &finding["code"]);
        assert!(codes.clone().any(|code| code == "emulated_durations"), "{source}: {document}");
    }
}

#[test]
fn launches_do_not_count_twice() {
    let bench = Bench::new();
    run(&bench, &["counters", "run", "--pmc", "FETCH_SIZE", "-d", "out"], &[]);
    run(&bench, &["counters", "run", "--pmc", "TCC_HIT_sum", "-d", "other"], &[]);
    let csv = "out/kbench_counter_collection.csv";
    for (twice, words) in [(csv, "it is given twice"), ("out/kbench_results.db", "its launches are those of")] {
        let (code, _, error) = said(&bench, &["counters", "import", csv, twice], &[]);
        assert!(code == 2 && error.contains(words), "{twice}: {code} {error}");
    }
    let (code, out, error) = said(&bench, &["counters", "import", csv, "other/kbench_counter_collection.csv"], &[]);
    assert!(code == 0 && out.contains("6 calls"), "{code} {out}{error}");
    let (_, _, error) = said(&bench, &["counters", "import", "none.csv"], &[]);
    assert_eq!(error.matches("No such file").count(), 1, "{error}");
}

/// The SDK sets environment variables when it is configured: no other thread may run then.
#[test]
fn the_profiler_is_configured_while_the_process_has_one_thread() {
    let bench = Bench::new();
    let request = Request::new(What::List("SQ_WAVES".to_owned()));
    let device = "emu:mi300x".parse().unwrap();
    let open = Open { counters: Some(request), ..Open::new(&device, Fp8Flavor::Ocp, None, None) };
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("kbench"))
        .arg("worker")
        .current_dir(bench.dir.path())
        .env("ROCM_EMU_SDK_FAULT", "hang@force_configure")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    frame::send(&mut child.stdin.take().unwrap(), &ToChild::Open(Box::new(open))).unwrap();
    // The sleep of a thread that hangs is the only sign of where it is: nothing else of a worker sleeps for so long.
    let wchan = PathBuf::from(format!("/proc/{}/wchan", child.id()));
    let until = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&wchan).is_ok_and(|at| at.contains("nanosleep")) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(threads, 1);
}

/// Counts a shape with a fault of the SDK.
fn faulty(bench: &Bench, shapes: &str, more: &[&str], variables: &[(&str, &str)]) -> (RunDocument, String) {
    bench.file("shapes.csv", &format!("family,dtype,shape,calls\n{shapes}"));
    let _ = std::fs::remove_file(bench.dir.path().join("run.json"));
    let arguments = [&COUNT[..], &["-o", "run.json"], more].concat();
    let (_, _, error) = said(bench, &arguments, variables);
    (RunDocument::read(&bench.dir.path().join("run.json")).unwrap_or_else(|why| panic!("{why}: {error}")), error)
}

const SMALL_GEMM: &str = "gemm,bf16,m=64 n=64 k=64,10\n";

/// A ring that drops parts of a launch's values leaves no whole launch, so no file may have one.
#[test]
fn launches_that_came_in_part_are_not_in_files() {
    let bench = Bench::new();
    let list = ["--pmc", "TCC_HIT,TCC_MISS,TCC_REQ,TCC_EA0_RDREQ", "-d", "out"];
    let (whole, _) = faulty(&bench, SMALL_GEMM, &list, &[]);
    let missed = value(&whole.cases[0], "TCC_MISS");
    std::fs::remove_dir_all(bench.dir.path().join("out")).unwrap();
    let small = [&list[..], &["--ring-size", "8KiB", "--ring-policy", "drop-newest"]].concat();
    let (part, _) = faulty(&bench, SMALL_GEMM, &small, &[]);
    let counting = part.cases[0].counting.as_ref().unwrap();
    assert!(counting.reconciliation.as_ref().unwrap().partial > 0, "{counting:?}");
    let told = |line: &String| line.contains("are not in rocprofv3's files");
    assert!(counting.incomplete.iter().any(told), "{counting:?}");
    let csv = std::fs::read_to_string(bench.dir.path().join("out/kbench_counter_collection.csv")).unwrap_or_default();
    for line in csv.lines().filter(|line| line.contains("TCC_MISS")) {
        assert!(line.split(',').any(|cell| cell.trim_matches('"').parse() == Ok(missed)), "{line}");
    }
}

#[test]
fn values_that_cannot_be_placed_make_a_case_incomplete() {
    let bench = Bench::new();
    let variables = |fault| [("ROCM_EMU_SDK_VERSION", "1.3.0"), ("ROCM_EMU_SDK_FAULT", fault)];
    let list = ["--pmc", "TCC_HIT,SQ_WAVES"];
    let (lost, _) = faulty(&bench, SMALL_GEMM, &list, &variables("status@query_record_counter_id=5"));
    let counting = lost.cases[0].counting.as_ref().unwrap();
    let launches = counting.reconciliation.as_ref().unwrap();
    assert!(launches.partial == launches.launched && launches.malformed > 0, "{counting:?}");
    assert!(counting.incomplete.iter().any(|line| line.contains("could not be understood")), "{counting:?}");
    let (twice, _) = faulty(&bench, SMALL_GEMM, &list, &variables("status@query_record_dimension_position=5"));
    let counting = twice.cases[0].counting.as_ref().unwrap();
    let launches = counting.reconciliation.as_ref().unwrap();
    assert_eq!((launches.partial, launches.rejected), (0, launches.launched), "{counting:?}");
    assert!(counting.incomplete[0].contains("twice"), "{counting:?}");
}

#[test]
fn launches_that_the_sdk_saw_are_no_unregistered_library() {
    let bench = Bench::new();
    let (run, error) = faulty(&bench, SMALL_GEMM, &["--pmc", "SQ_WAVES"], &[("ROCM_EMU_SDK_FAULT", "lose=1")]);
    let failed = run.cases[0].counting.as_ref().and_then(|counting| counting.failed.clone());
    let failed = failed.unwrap_or_else(|| panic!("{error}"));
    assert!(failed.contains("saw 3 launches") && !failed.contains("rocprofiler-register"), "{failed}");
    let two = format!("{SMALL_GEMM}gemm,bf16,m=64 n=128 k=64,10\n");
    let (run, _) = faulty(&bench, &two, &["--pmc", "SQ_WAVES"], &[("ROCM_EMU_SDK_FAULT", "unregistered")]);
    let reason = |index: usize| run.cases[index].counting.as_ref().unwrap().failed.clone().unwrap();
    // Nothing is replayed twice for an SDK that sees nothing: one launch told enough.
    assert!(reason(0).contains("no record of 1 counted") && reason(0) == reason(1), "{}", reason(0));
}

/// What is counted is held against what the case must do: a GEMM that does just that has no mark.
#[test]
fn a_case_is_held_against_its_compulsory_work() {
    let bench = Bench::new();
    let shape = "gemm,bf16,m=128 n=1024 k=1024,48\n";
    let list = ["--pmc", "fabric_read_bytes,mfma_flops_bf16"];
    let marks = |variables: &[(&str, &str)]| {
        let (run, _) = faulty(&bench, shape, &list, variables);
        let case = run.cases[0].clone();
        assert_eq!(case.status, Status::Ok);
        let mark = |name: &str| case.counters[name].suspicious.clone();
        (mark("fabric_read_bytes"), mark("mfma_flops_bf16"), case.counting.unwrap().cold)
    };
    let (read, flops, cold) = marks(&[]);
    assert_eq!((read, flops), (None, None));
    assert!(matches!(cold, Some(ColdVerdict::Cold { memory_side_cache: true, .. })), "{cold:?}");
    // Of some of a case's kernels not all of its work can be expected.
    let filter = "jobs:\n  - pmc: [mfma_flops_bf16]\n    kernel_include_regex: gemm\n";
    bench.file("one.yaml", filter);
    let (run, _) = faulty(&bench, shape, &["-i", "one.yaml"], &[]);
    assert_eq!(run.cases[0].counting.as_ref().unwrap().cold, None);
}
