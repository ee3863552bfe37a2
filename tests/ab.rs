//! `kbench ab` and `selfcheck` from the outside: changes planted in a kernel's source are named, exactly; on the host a known
//! slow-down is found.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use assert_cmd::Command;
use common::{Bench, built};
use serde_json::Value;
use std::fs;
use std::path::Path;

const SHAPES: &str = "family,dtype,shape,calls\nactivation,bf16,rows=16 hidden=512 kind=silu,48\n";
/// A line of the kernel that the case runs, and where more can be put.
const LOAD: &str = "    const raw8<X> raw_gate = load_raw8(gate + column);\n";

/// The folder of one family's sources with a change; `None` (and a line) without the compiler.
fn sources(bench: &Bench, name: &str, change: impl Fn(&str) -> String) -> Option<()> {
    if std::process::Command::new("clang-19").arg("--version").output().is_err() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "clang-19 is needed in CI");
        eprintln!("skipped: there is no clang-19");
        return None;
    }
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    for part in ["include", "activation"] {
        let to = bench.dir.path().join(name).join(part);
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(from.join(part)).unwrap() {
            let entry = entry.unwrap();
            let mut text = fs::read_to_string(entry.path()).unwrap();
            if entry.file_name() == "activation.hip" {
                let changed = change(&text);
                assert_eq!(changed == text, name == "base", "the change must be one");
                text = changed;
            }
            fs::write(to.join(entry.file_name()), text).unwrap();
        }
    }
    Some(())
}

/// The call that compares two builds over `shapes.csv`.
fn pair(bench: &Bench, base: &str, candidate: &str, device: &str) -> Command {
    let mut command = bench.kbench();
    command.args(["ab", "--base", base, "--cand", candidate, "--shapes", "shapes.csv", "--device", device]);
    command
}

/// Compares the two folders on the emulated MI300X; gives the document and the exit code.
fn ab(bench: &Bench, candidate: &str, more: &[&str]) -> (Value, i32) {
    bench.file("shapes.csv", SHAPES);
    let output = pair(bench, "base", candidate, "emu")
        .args(["--compiler", "clang-19", "-o", "ab.json"])
        .args(more)
        .output()
        .unwrap();
    let path = bench.dir.path().join("ab.json");
    assert!(path.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap(), output.status.code().unwrap())
}

fn metric<'v>(document: &'v Value, name: &str) -> &'v Value {
    let metrics = document["cases"][0]["metrics"].as_array().unwrap();
    metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("no {name} in {metrics:#?}"))
}

fn grew_by(document: &Value, name: &str) -> f64 {
    metric(document, name)["candidate"].as_f64().unwrap() - metric(document, name)["base"].as_f64().unwrap()
}

#[test]
fn identical_sources_are_the_same() {
    let bench = Bench::new();
    let Some(()) = sources(&bench, "base", str::to_owned) else { return };
    let (document, code) = ab(&bench, "base", &["--gate", "bound:+0%,insts:+0%,bytes:+0%,conflicts:+0"]);
    assert_eq!((code, &document["method"]), (0, &Value::from("exact")));
    assert_eq!(document["cases"][0]["verdict"], "SAME");
    assert_eq!(document["cases"][0]["identical_code"], true);
}

#[test]
fn a_planted_load_is_named_and_fails_the_gate() {
    let bench = Bench::new();
    let Some(()) = sources(&bench, "base", str::to_owned) else { return };
    let again = "    [[maybe_unused]] const u32 again = *reinterpret_cast<const volatile u32*>(gate + column);\n";
    sources(&bench, "load", |text| text.replace(LOAD, &format!("{LOAD}{again}"))).unwrap();
    let gate = ["--gate", "insts:+1%", "--junit", "gate.xml", "--markdown", "gate.md"];
    let (document, code) = ab(&bench, "load", &gate);
    assert_eq!(code, 1, "{document:#}");
    // 16 rows of 512: one wave each, one more load a wave.
    assert_eq!(grew_by(&document, "SQ_INSTS_VMEM_RD"), 16.0);
    assert_eq!(document["gate"]["passed"], false);
    assert!(bench.read("gate.xml").contains("<failure"), "{}", bench.read("gate.xml"));
    assert!(bench.read("gate.md").contains("insts"), "{}", bench.read("gate.md"));
    let first = bench.read("ab.json");
    ab(&bench, "load", &gate);
    assert_eq!(bench.read("ab.json"), first, "byte for byte");
}

#[test]
fn a_planted_bank_conflict_is_named() {
    let bench = Bench::new();
    let Some(()) = sources(&bench, "base", str::to_owned) else { return };
    // Every lane of a wave writes to the same bank.
    let conflict = "    __shared__ volatile u32 table[64 * 32];\n    table[thread_x() % 64 * 32] = hidden;\n";
    sources(&bench, "conflict", |text| text.replace(LOAD, &format!("{conflict}{LOAD}"))).unwrap();
    let (document, code) = ab(&bench, "conflict", &["--gate", "conflicts:+0"]);
    assert_eq!(code, 1);
    assert_eq!(metric(&document, "conflicts")["base"], 0.0);
    assert!(grew_by(&document, "conflicts") > 0.0);
    assert_eq!(grew_by(&document, "lds"), f64::from(64 * 32 * 4));
    let why = document["cases"][0]["why"].to_string();
    assert!(why.contains("conflicts") || why.contains("SQ_LDS_BANK_CONFLICT"), "{why}");
}

#[test]
fn an_unrolling_change_is_named() {
    let bench = Bench::new();
    let Some(()) = sources(&bench, "base", str::to_owned) else { return };
    sources(&bench, "rolled", |text| text.replacen("#pragma unroll\n", "#pragma nounroll\n", 1)).unwrap();
    let (document, code) = ab(&bench, "rolled", &[]);
    assert_eq!(code, 0);
    assert!(grew_by(&document, "SQ_INSTS_BRANCH") > 0.0, "{document:#}");
    assert!(grew_by(&document, "insts") > 0.0);
}

/// Kernels with buffers of their own too, which lie elsewhere for the second build.
#[test]
fn equal_builds_have_equal_figures() {
    let bench = Bench::new();
    bench.file(
        "shapes.csv",
        "family,dtype,shape,calls\nmoe_gemm,bf16,tokens=16 hidden=256 inter=128 experts=16 topk=4 stage=gate_up,1\n",
    );
    let output = pair(&bench, "builtin", "builtin", "emu").args(["-o", "ab.json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_str(&bench.read("ab.json")).unwrap();
    let metrics = document["cases"][0]["metrics"].as_array().unwrap();
    assert!(metrics.len() > 5);
    for metric in metrics {
        assert_eq!(metric["base"], metric["candidate"], "{metric:#}");
    }
}

#[test]
fn sources_are_built_for_the_gpu_that_is_there() {
    let bench = Bench::new();
    let (Some(()), Some(library)) = (sources(&bench, "base", str::to_owned), built("libamdhip64.so")) else { return };
    bench.file("shapes.csv", SHAPES);
    let ab = |device: &str, model: Option<&str>| {
        let mut command = pair(&bench, "base", "base", device);
        command.args(["--compiler", "clang-19", "-o", "ab.json"]);
        // Without a model the library sees no device.
        command.env("KBENCH_HIP_LIB", &library).env("ROCM_EMU_DEVICE", model.unwrap_or("none"));
        command.output().unwrap()
    };
    let output = ab("hip", Some("mi210"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(words.contains("base: building for gfx90a with"), "{words}");
    let document: Value = serde_json::from_str(&bench.read("ab.json")).unwrap();
    assert_eq!(document["cases"][0]["verdict"], "SAME");
    let output = ab("hip", None);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{words}");
    assert!(words.contains("cannot be built for `hip:0`"), "{words}");
    let output = ab("auto", None);
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(words.contains("base: building for gfx942 with"), "{words}");
}

#[test]
fn a_wrong_candidate_is_exit_4() {
    let bench = Bench::new();
    let Some(()) = sources(&bench, "base", str::to_owned) else { return };
    sources(&bench, "wrong", |text| text.replace("return x * rcp(1.0f + exp2(-log2e * x));", "return x;")).unwrap();
    let (document, code) = ab(&bench, "wrong", &[]);
    assert_eq!(code, 4);
    assert_eq!(document["not_compared"][0]["candidate"], "wrong");
}

/// What a candidate cannot do is told whatever the gate asks for: everywhere wrong, faulting, or hanging.
#[test]
fn a_candidate_that_does_not_run_fails_the_gate_with_its_own_exit_code() {
    let bench = Bench::new();
    let Some(()) = sources(&bench, "base", str::to_owned) else { return };
    sources(&bench, "wrong", |text| text.replace("return x * rcp(1.0f + exp2(-log2e * x));", "return x;")).unwrap();
    let fault = "    *reinterpret_cast<volatile u32*>(0x1234567890ull) = 1;\n";
    sources(&bench, "fault", |text| text.replace(LOAD, &format!("{fault}{LOAD}"))).unwrap();
    let hang = "    while (hidden == 512) __builtin_amdgcn_s_sleep(1);\n";
    sources(&bench, "hang", |text| text.replace(LOAD, &format!("{hang}{LOAD}"))).unwrap();
    for (candidate, status, expected) in [("wrong", "wrong", 4), ("fault", "failed", 5), ("hang", "hung", 5)] {
        let more = ["--gate", "bound:+1%", "--junit", "gate.xml", "--watchdog", "0.02"];
        let (document, code) = ab(&bench, candidate, &more);
        assert_eq!(code, expected, "{document:#}");
        assert_eq!(document["not_compared"][0]["base"], "skipped", "{document:#}");
        assert_eq!(document["not_compared"][0]["candidate"], status, "{document:#}");
        assert_eq!(document["gate"]["passed"], false, "{document:#}");
        assert_eq!(document["gate"]["checks"][0]["outcome"], "fail");
        assert!(bench.read("gate.xml").contains("failures=\"1\""), "{}", bench.read("gate.xml"));
    }
}

/// A build that is wrong is not a device that failed, and the reason is told.
#[test]
fn selfcheck_says_why_a_build_cannot_be_checked() {
    let bench = Bench::new();
    let Some(()) = sources(&bench, "base", str::to_owned) else { return };
    sources(&bench, "wrong", |text| text.replace("return x * rcp(1.0f + exp2(-log2e * x));", "return x;")).unwrap();
    bench.file("shapes.csv", SHAPES);
    let mut command = bench.kbench();
    command.args(["build", "--compiler", "clang-19", "--sources", "wrong", "-o", "built"]);
    command.assert().success();
    let mut command = bench.kbench();
    command.args(["selfcheck", "--build", "built", "--shapes", "shapes.csv", "--device", "emu", "--pairs", "2"]);
    command.env("ROCM_EMU_CLOCK", "cv=1%;seed=3");
    let said = String::from_utf8(command.assert().code(4).get_output().stdout.clone()).unwrap();
    assert!(said.contains("2 could not be measured") && said.contains("the first: activation"), "{said}");
    assert!(said.contains("wrong: before timing: output `out`"), "{said}");
}

/// A candidate with no kernel for the case: the reason is told, and the gate does not pass.
#[test]
fn a_candidate_without_a_kernel_for_the_case_says_so() {
    let bench = Bench::new();
    let Some(()) = sources(&bench, "base", str::to_owned) else { return };
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=16 hidden=256,96\n");
    let mut command = pair(&bench, "builtin", "base", "emu");
    command.args(["--compiler", "clang-19", "--gate", "bound:+1%", "--format", "json"]);
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = document["not_compared"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("no kernel of family rmsnorm"), "{reason}");
    assert_eq!(
        (output.status.code(), &document["gate"]["checks"][0]["outcome"]),
        (Some(3), &Value::from("inconclusive"))
    );
}

/// Times that cannot be true are no comparison.
#[test]
fn times_below_the_floor_are_refused() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=512 hidden=1024,96\n");
    let mut command = pair(&bench, "builtin", "builtin", "emu");
    command.args(["--time-budget", "5s", "--json", "ab.json"]).env("ROCM_EMU_CLOCK", "scale=0.05x;cv=1%");
    let output = command.output().unwrap();
    let document: Value = serde_json::from_str(&bench.read("ab.json")).unwrap();
    assert_eq!(output.status.code(), Some(5), "{document:#}");
    assert!(document["not_compared"][0]["reason"].as_str().unwrap().contains("beats its floor"), "{document:#}");
}

/// A case that cannot be made is not silently left out of a strict gate.
#[test]
fn a_case_that_cannot_be_made_is_told() {
    let bench = Bench::new();
    bench.file("shapes.csv", &format!("{SHAPES}gemm,bf16,m=16 n=0 k=64,900\n"));
    let mut command = pair(&bench, "builtin", "builtin", "emu");
    let output = command.args(["--gate", "insts:+2%", "--strict", "--json", "ab.json"]).output().unwrap();
    let document: Value = serde_json::from_str(&bench.read("ab.json")).unwrap();
    assert_eq!(output.status.code(), Some(3), "{document:#}");
    let told = &document["not_compared"][0];
    assert!(told["family"] == "gemm" && !told["reason"].as_str().unwrap().is_empty(), "{told}");
}

/// A change of one kernel is none of the machine code of another in the same file.
#[test]
fn machine_code_is_that_of_the_kernels_that_ran() {
    let bench = Bench::new();
    let Some(()) = sources(&bench, "base", str::to_owned) else { return };
    // The case runs silu; the kernels of the other activation are in the same file.
    sources(&bench, "other", |text| text.replace("0.7978845608f", "0.8f")).unwrap();
    let (document, _) = ab(&bench, "other", &[]);
    assert_eq!(document["cases"][0]["identical_code"], true, "{document:#}");
}

#[test]
fn a_code_object_stands_for_the_descriptor_beside_it() {
    let bench = Bench::new();
    bench.file("shapes.csv", SHAPES);
    bench.file("alone.co", "no descriptor is beside it");
    let mut command = pair(&bench, "builtin", "alone.co", "emu");
    let said = String::from_utf8(command.assert().code(2).get_output().stderr.clone()).unwrap();
    assert!(said.contains("write a launch descriptor beside it (alone.toml"), "{said}");
    // It is read, and here it is none.
    bench.file("alone.toml", "nothing = 1\n");
    let mut command = pair(&bench, "builtin", "alone.co", "emu");
    let said = String::from_utf8(command.assert().code(2).get_output().stderr.clone()).unwrap();
    assert!(said.contains("alone.toml"), "{said}");
}

#[test]
fn a_case_in_two_cache_modes_is_two_rows_and_counts_once() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=16 hidden=256,96\n");
    let mut command = pair(&bench, "reference", "reference", "host");
    command.args(["--cache", "both", "--time-budget", "2s", "--min-effect", "20%", "--format", "json"]);
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = document["cases"].as_array().unwrap();
    assert_eq!((&cases[0]["id"], cases.len()), (&cases[1]["id"], 2));
    let modes: Vec<&str> = cases.iter().map(|case| case["requested_cache"].as_str().unwrap()).collect();
    assert_eq!(modes, ["cold", "warm"]);
    assert_eq!((&cases[0]["share"], &cases[1]["share"]), (&Value::from(1.0), &Value::from(1.0)));
    assert_eq!(document["summary"]["step"]["cases"], 1);
}

/// A budget that is over before a case begins leaves the gate open and is no mistake of the gate.
#[test]
fn a_budget_that_is_over_leaves_the_gate_open() {
    let bench = Bench::new();
    let rows: Vec<String> = (0..40).map(|i| format!("gemm,bf16,m=64 n=256 k={},48", 256 + 64 * i)).collect();
    bench.file("shapes.csv", &format!("family,dtype,shape,calls\n{}\n", rows.join("\n")));
    let mut command = pair(&bench, "reference", "reference", "host");
    command.args(["--time-budget", "1ms", "--gate", "time:+1%", "--format", "json"]);
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["not_compared"][1]["reason"].as_str().unwrap().contains("time budget"), "{document:#}");
    let mut command = bench.kbench();
    command.args(["selfcheck", "--shapes", "shapes.csv", "--device", "host", "--time-budget", "1ms", "--json"]);
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["failed"], 0, "{report:#}");
    assert!(report["unfinished"].as_u64().unwrap() > 0);
    assert_ne!(output.status.code(), Some(5));
}

#[test]
fn on_the_host_a_large_slow_down_is_found() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\ngemm,bf16,m=32 n=128 k=256,48\n");
    let mut command = pair(&bench, "reference", "reference+40%", "host");
    command.args(["--time-budget", "10s", "--min-effect", "5%", "--gate", "time:+5%", "--format", "json"]);
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["cases"][0]["verdict"], "SLOWER", "{document:#}");
    assert_eq!((&document["method"], output.status.code()), (&Value::from("paired"), Some(1)));
    let ratio = document["cases"][0]["ratio"]["ratio"].as_f64().unwrap();
    assert!((1.2..1.7).contains(&ratio), "{ratio}");
}

#[test]
fn what_is_no_build_is_explained() {
    let bench = Bench::new();
    bench.file("shapes.csv", SHAPES);
    let said =
        String::from_utf8(pair(&bench, "nowhere", "builtin", "emu").assert().code(2).get_output().stderr.clone())
            .unwrap();
    assert!(said.contains("`nowhere` is no build"), "{said}");
    let mut command = pair(&bench, "reference", "faster", "host");
    let said = String::from_utf8(command.assert().code(2).get_output().stderr.clone()).unwrap();
    assert!(said.contains("reference+3%"), "{said}");
}

#[test]
fn selfcheck_counts_what_equal_builds_are_called() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=16 hidden=256,96\n");
    let mut command = bench.kbench();
    command.args(["selfcheck", "--shapes", "shapes.csv", "--device", "host", "--pairs", "4", "--time-budget", "20s"]);
    command.args(["--min-effect", "20%", "--json"]);
    let output = command.assert().success().get_output().stdout.clone();
    let report: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!((&report["pairs"], &report["failed"]), (&Value::from(4), &Value::from(0)));
    assert_eq!(report["false_changes"], 0, "{report:#}");
    assert!(report["detectable"].as_f64().unwrap() > 0.0);
    let mut command = bench.kbench();
    command.args(["selfcheck", "--shapes", "shapes.csv", "--device", "emu"]).env_remove("ROCM_EMU_CLOCK");
    let said = String::from_utf8(command.assert().code(2).get_output().stderr.clone()).unwrap();
    assert!(said.contains("has no noise"), "{said}");
}
