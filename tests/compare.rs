//! `kbench compare` and the commands of the store, end to end: files, stored runs, profiles, gates and exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use assert_cmd::assert::Assert;
use common::Bench;
use serde_json::{Value, json};
use std::path::Path;

/// A run with two measured cases of these medians (ns, interval ±0.2 %) and statuses.
fn document(medians: [f64; 2], statuses: [&str; 2]) -> Value {
    let case = |i: usize| {
        let median = medians[i];
        json!({
            "id": format!("gemm:bf16:m={i}"), "family": "gemm", "kernel": "k", "shape": {"m": i}, "dtypes": {"default": "bf16"},
            "weight": {"calls": 10, "total_ns": 1000, "share": 0.5, "phase": "decode", "provenance": "given"},
            "status": statuses[i], "reason": "why",
            "build": {"origin": "file", "file": "a.co", "arch": "gfx942", "sha256": "ab".repeat(32)},
            "timing": {"source": "dispatch", "cache": "cold", "samples": 40, "median_ns": median,
                       "ci95_ns": [median * 0.998, median * 1.002],
                       "samples_ns": (0..40).map(|k| median + 0.1 * f64::from(k)).collect::<Vec<_>>()},
        })
    };
    json!({"schema": "kbench.run/1", "tool": {"version": "0.1.0", "commit": "c"},
           "device": {"kind": "hip", "name": "AMD Instinct MI300X", "arch": "gfx942"}, "environment": {}, "options": {},
           "cases": [case(0), case(1)], "interrupted": false})
}

fn fixture() -> Bench {
    let bench = Bench::new();
    let ok = ["ok", "ok"];
    for (name, document) in [
        ("base.json", document([100.0, 200.0], ok)),
        ("same.json", document([100.1, 199.9], ok)),
        ("slow.json", document([100.0, 230.0], ok)),
        ("near.json", document([103.0, 200.0], ok)),
        ("wrong.json", document([100.0, 230.0], ["ok", "wrong"])),
        ("lost.json", document([100.0, 200.0], ["ok", "failed"])),
        ("skipped.json", document([100.0, 200.0], ["ok", "skipped"])),
        ("all-wrong.json", document([100.0, 200.0], ["wrong", "wrong"])),
        ("all-skipped.json", document([100.0, 200.0], ["skipped", "skipped"])),
    ] {
        bench.file(name, &document.to_string());
    }
    bench
}

fn kbench(bench: &Bench, args: &[&str]) -> Assert {
    let mut command = bench.kbench();
    command.env("XDG_DATA_HOME", bench.dir.path().join("data")).args(args).assert()
}

/// Reads a comparison and asserts that it follows docs/compare.schema.json.
fn comparison(text: &str) -> Value {
    let schema: Value = serde_json::from_str(include_str!("../docs/compare.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let document: Value = serde_json::from_str(text).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    document
}

fn stdout(assert: Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn stderr(assert: Assert) -> String {
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

/// docs of design section 11: 0 fine, 1 regression, 2 usage, 3 inconclusive with --strict, 4 wrong.
#[test]
fn exit_codes() {
    let bench = fixture();
    for (args, code) in [
        (vec!["base.json", "same.json"], 0),
        // Without a gate a slower candidate is told, not failed.
        (vec!["base.json", "slow.json"], 0),
        (vec!["base.json", "same.json", "--gate", "time:+3%"], 0),
        (vec!["base.json", "slow.json", "--gate", "time:+3%"], 1),
        (vec!["base.json", "slow.json", "--gate", "step:+3%"], 1),
        (vec!["base.json", "lost.json", "--gate", "time:+3%"], 1),
        (vec!["base.json", "near.json", "--gate", "time:+5%"], 0),
        (vec!["base.json", "near.json", "--gate", "time:+5%", "--strict"], 3),
        (vec!["base.json", "near.json", "--strict"], 3),
        (vec!["base.json", "same.json", "--strict"], 0),
        // A regression says more than an open question, a wrong result more than both.
        (vec!["base.json", "slow.json", "--gate", "time:+0.1%", "--strict"], 1),
        (vec!["base.json", "wrong.json"], 4),
        (vec!["base.json", "wrong.json", "--gate", "time:+3%", "--strict"], 4),
        (vec!["wrong.json", "base.json"], 0),
        // What was not measured is an open question.
        (vec!["wrong.json", "base.json", "--strict"], 3),
        (vec!["base.json", "skipped.json"], 0),
        (vec!["base.json", "skipped.json", "--strict"], 3),
        (vec!["base.json", "skipped.json", "--gate", "time:+3%"], 0),
        // Nothing was compared: what became of the cases decides, and a gate does not pass.
        (vec!["base.json", "all-wrong.json", "--gate", "bound:+1%", "--junit", "all-wrong.xml"], 4),
        (vec!["base.json", "all-skipped.json", "--gate", "time:+3%"], 3),
        (vec!["base.json", "all-skipped.json"], 0),
        (vec!["base.json", "missing.json"], 2),
        (vec!["base.json", "same.json", "--gate", "bound:+1%"], 2),
        (vec!["base.json", "same.json", "--gate", "nonsense"], 2),
        (vec!["base.json", "same.json", "--gate", ","], 2),
        (vec!["base.json", "same.json", "--min-effect", "0"], 2),
        (vec!["base.json"], 2),
    ] {
        let all: Vec<&str> = ["compare"].into_iter().chain(args.iter().copied()).collect();
        let result = kbench(&bench, &all);
        let found = result.get_output().status.code();
        assert_eq!(found, Some(code), "{args:?}: {}", String::from_utf8_lossy(&result.get_output().stderr));
    }
}

#[test]
fn a_candidate_that_is_wrong_everywhere_is_written_whole() {
    let bench = fixture();
    let outputs = ["--junit", "g.xml", "--json", "g.json", "--gate", "bound:+1%"];
    let args: Vec<&str> = ["compare", "base.json", "all-wrong.json"].into_iter().chain(outputs).collect();
    let table = stdout(kbench(&bench, &args).code(4));
    assert!(table.contains("gate: FAILED"), "{table}");
    let document = comparison(&bench.read("g.json"));
    assert_eq!(document["gate"]["passed"], false);
    assert!(bench.read("g.xml").contains("failures=\"2\""), "{}", bench.read("g.xml"));
    // Without a gate, too.
    kbench(&bench, &["compare", "base.json", "all-wrong.json", "-o", "n.xml"]).code(4);
    assert!(bench.read("n.xml").contains("failures=\"2\""), "{}", bench.read("n.xml"));
}

#[test]
fn every_format_holds_the_same() {
    let bench = fixture();
    let all = ["--junit", "g.xml", "--markdown", "g.md", "--json", "g.json", "--gate", "time:+3%"];
    let args: Vec<&str> = ["compare", "base.json", "slow.json"].into_iter().chain(all).collect();
    let table = stdout(kbench(&bench, &args).code(1));
    assert!(table.contains("SLOWER") && table.contains("gate: FAILED"), "{table}");
    let document = comparison(&bench.read("g.json"));
    assert_eq!(document["schema"], "kbench.compare/1");
    let slower = document["cases"].as_array().unwrap().iter().find(|case| case["verdict"] == "SLOWER").unwrap();
    assert_eq!(slower["id"], "gemm:bf16:m=1");
    assert!((slower["ratio"]["ratio"].as_f64().unwrap() - 1.15).abs() < 1e-9);
    // 0.5 · 15 %
    assert!((document["summary"]["step"]["change"].as_f64().unwrap() - 0.075).abs() < 1e-9);
    assert!(bench.read("g.md").contains("| SLOWER | `gemm:bf16:m=1`"));
    let xml = bench.read("g.xml");
    assert!(xml.contains("tests=\"2\" failures=\"1\"") && xml.contains("type=\"regression\""), "{xml}");
    for (output, begin) in [("o.json", "{"), ("o.md", "## kbench"), ("o.xml", "<?xml"), ("o.txt", "base ")] {
        kbench(&bench, &["compare", "base.json", "slow.json", "-o", output]).code(0);
        assert!(bench.read(output).starts_with(begin), "{output}");
    }
}

#[test]
fn runs_that_are_not_alike_are_refused_with_the_word_that_allows_it() {
    let bench = fixture();
    let mut other = document([100.0, 200.0], ["ok", "ok"]);
    other["device"]["arch"] = json!("gfx950");
    bench.file("other.json", &other.to_string());
    let text = stderr(kbench(&bench, &["compare", "base.json", "other.json"]).code(2));
    assert!(text.contains("architecture: gfx942 and gfx950") && text.contains("--allow arch"), "{text}");
    let table = stdout(kbench(&bench, &["compare", "base.json", "other.json", "--allow", "arch"]).code(0));
    assert!(table.contains("allowed    architecture: gfx942 → gfx950"), "{table}");
}

#[test]
fn stored_runs_are_compared_listed_exported_and_pruned() {
    let bench = fixture();
    let text = stderr(kbench(&bench, &["compare", "main", "base.json"]).code(2));
    assert!(text.contains("`main` is no file") && text.contains("no store yet"), "{text}");
    kbench(&bench, &["import", "base.json", "--name", "main"]).code(0);
    kbench(&bench, &["import", "slow.json", "same.json"]).code(0);
    let table = stdout(kbench(&bench, &["compare", "main", "slow", "--gate", "time:+3%"]).code(1));
    assert!(table.contains("SLOWER"), "{table}");
    kbench(&bench, &["compare", "main", "same.json"]).code(0);
    // A folder of the same name (of build output, say) does not hide the run.
    std::fs::create_dir(bench.dir.path().join("main")).unwrap();
    kbench(&bench, &["compare", "main", "same.json"]).code(0);
    kbench(&bench, &["compare", "./main", "same.json"]).code(2);

    let list = stdout(kbench(&bench, &["show"]).code(0));
    assert_eq!(list.lines().count(), 4, "{list}");
    assert!(stdout(kbench(&bench, &["show", "--check"]).code(0)).contains("sound, 3 runs, 1 builds"));
    let shown: Value =
        serde_json::from_str(&stdout(kbench(&bench, &["show", "#2", "--format", "json"]).code(0))).unwrap();
    assert_eq!((&shown["name"], &shown["cases"][1]["median_ns"]), (&json!("slow"), &json!(230.0)));

    kbench(&bench, &["export", "main", "-o", "out.json"]).code(0);
    let exported = bench.read("out.json");
    assert!(exported.starts_with("{\n  \"schema\": \"kbench.run/1\""), "{}", &exported[..60]);
    assert_eq!(serde_json::from_str::<Value>(&exported).unwrap(), document([100.0, 200.0], ["ok", "ok"]));

    let history = stdout(kbench(&bench, &["history", "m=1"]).code(0));
    assert!(history.contains("+15.0 %") && history.contains("main") && history.contains("slow"), "{history}");
    let csv = stdout(kbench(&bench, &["history", "m=1", "--format", "csv"]).code(0));
    assert_eq!(csv.lines().count(), 4, "{csv}");
    let points: Value =
        serde_json::from_str(&stdout(kbench(&bench, &["history", "--last", "1", "--format", "json"]).code(0))).unwrap();
    assert_eq!(points.as_array().unwrap().len(), 2);

    kbench(&bench, &["prune"]).code(2);
    assert!(stdout(kbench(&bench, &["prune", "--keep", "0", "--dry-run"]).code(0)).contains("3 runs would go"));
    assert!(stdout(kbench(&bench, &["prune", "--run", "slow", "#3", "slow", "#2"]).code(0)).contains("2 runs removed"));
    assert!(stdout(kbench(&bench, &["prune", "--keep", "0"]).code(0)).contains("and 1 builds"));
    kbench(&bench, &["export", "main"]).code(2);
}

/// A reader that goes away takes the table, not the verdict.
#[test]
fn a_closed_pipe_does_not_change_the_exit_code() {
    let bench = fixture();
    for (candidate, code) in [("slow.json", 1), ("wrong.json", 4), ("base.json", 0)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("kbench"));
        command.current_dir(bench.dir.path()).args(["compare", "base.json", candidate, "--gate", "time:+3%"]);
        assert_eq!(command.stdout(writer).status().unwrap().code(), Some(code), "{candidate}");
    }
}

/// Links are followed, and a pipe gets what a file would.
#[test]
#[cfg(unix)]
fn outputs_may_be_links_and_pipes() {
    let bench = fixture();
    std::os::unix::fs::symlink("target.json", bench.dir.path().join("link.json")).unwrap();
    for _ in 0..2 {
        kbench(&bench, &["compare", "base.json", "same.json", "-o", "link.json"]).code(0);
        assert!(bench.dir.path().join("link.json").is_symlink());
        comparison(&bench.read("target.json"));
    }
    let fifo = bench.dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = std::thread::spawn(move || std::fs::read_to_string(fifo).unwrap());
    kbench(&bench, &["compare", "base.json", "same.json", "--format", "json", "-o", "fifo"]).code(0);
    comparison(&reader.join().unwrap());
}

/// A gate that asks for what no case has is told after the comparison, which is written all the same.
#[test]
fn a_gate_that_is_a_mistake_costs_no_comparison() {
    let bench = fixture();
    let arguments = ["compare", "base.json", "same.json", "--gate", "SQ_NO_SUCH:+1%", "--json", "found.json"];
    assert!(stderr(kbench(&bench, &arguments).code(2)).contains("SQ_NO_SUCH"));
    comparison(&bench.read("found.json"));
}

/// Repeated runs of the same code give the error between runs; the default is assumed.
#[test]
fn the_error_between_runs_comes_from_the_store() {
    let bench = fixture();
    for (i, median) in [100.0, 100.2, 99.8, 100.1, 99.9, 100.15, 99.85].into_iter().enumerate() {
        bench.file(&format!("r{i}.json"), &document([median, 2.0 * median], ["ok", "ok"]).to_string());
        kbench(&bench, &["import", &format!("r{i}.json"), "--name", "main"]).code(0);
    }
    bench.file("new.json", &document([101.5, 200.0], ["ok", "ok"]).to_string());
    // Seven runs of two cases: what a run differs by it has in both.
    let from_store = stdout(kbench(&bench, &["compare", "main", "new.json"]).code(0));
    assert!(from_store.contains("from 6 repetitions in the store") && from_store.contains("SLOWER"), "{from_store}");
    // The same documents again are no repetitions.
    for i in 0..7 {
        kbench(&bench, &["import", &format!("r{i}.json"), "--name", "main"]).code(0);
    }
    let again = stdout(kbench(&bench, &["compare", "main", "new.json"]).code(0));
    assert!(again.contains("from 6 repetitions in the store"), "{again}");
    // Nor are runs on another device, which may agree better or worse.
    let mut other = document([101.5, 200.0], ["ok", "ok"]);
    other["device"]["name"] = json!("AMD Instinct MI325X");
    bench.file("other.json", &other.to_string());
    kbench(&bench, &["import", "other.json", "--name", "other"]).code(0);
    let alone = stdout(kbench(&bench, &["compare", "other", "other"]).code(0));
    assert!(alone.contains("differ by 1 % (assumed)"), "{alone}");
    let assumed = stdout(kbench(&bench, &["compare", "r0.json", "new.json"]).code(0));
    assert!(assumed.contains("differ by 1 % (assumed)") && !assumed.contains("SLOWER"), "{assumed}");
}

/// Names and `--keep` go by the date of a run, which a file keeps on its way out of the store and back.
#[test]
fn the_newest_run_is_the_one_of_the_latest_date() {
    let bench = fixture();
    let dated = |name: &str, days: u64| {
        let file = std::fs::File::options().write(true).open(bench.dir.path().join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(days * 86_400)).unwrap();
    };
    dated("slow.json", 20_000);
    dated("base.json", 10_000);
    kbench(&bench, &["import", "slow.json", "base.json", "--name", "main"]).code(0);
    let median = |selector: &str| {
        let shown = stdout(kbench(&bench, &["show", selector, "--format", "json"]).code(0));
        serde_json::from_str::<Value>(&shown).unwrap()["cases"][1]["median_ns"].as_f64().unwrap()
    };
    assert_eq!((median("main"), median("main~1")), (230.0, 200.0));
    kbench(&bench, &["export", "main~1", "-o", "out.json"]).code(0);
    kbench(&bench, &["import", "out.json"]).code(0);
    assert!(stdout(kbench(&bench, &["show", "out"]).code(0)).contains("1997-05-19"));
    let history = stdout(kbench(&bench, &["history", "m=1", "--name", "main"]).code(0));
    assert!(history.contains("+15.0 %"), "{history}");
    assert!(stdout(kbench(&bench, &["prune", "--keep", "1"]).code(0)).contains("#2  main"));
    assert_eq!(median("main"), 230.0);
}

#[test]
fn history_tells_phases_and_cache_modes_apart() {
    let bench = Bench::new();
    let mut run = document([100.0, 200.0], ["ok", "ok"]);
    for (index, (id, phase)) in [("a", "prefill"), ("a", "decode")].into_iter().enumerate() {
        run["cases"][index]["id"] = json!(id);
        run["cases"][index]["weight"]["phase"] = json!(phase);
    }
    bench.file("run.json", &run.to_string());
    run["cases"][0]["id"] = json!("a@cold");
    run["cases"][0]["weight"]["phase"] = json!("decode");
    run["cases"][0]["timing"]["cache"] = json!("warm");
    bench.file("both.json", &run.to_string());
    kbench(&bench, &["import", "run.json", "both.json"]).code(0);
    let history = stdout(kbench(&bench, &["history"]).code(0));
    let heads: Vec<&str> = history.lines().filter(|line| line.starts_with("a  ")).collect();
    let device = "AMD Instinct MI300X";
    let expected = ["decode  D  cold", "decode  D  cold, measured warm", "prefill  D  cold"];
    assert_eq!(heads, expected.map(|head| format!("a  {}", head.replace('D', device))), "{history}");
    assert!(
        stdout(kbench(&bench, &["history", "--format", "csv"]).code(0)).lines().next().unwrap().ends_with(",phase")
    );
}

/// A file that is no store must not cost the run that is to be kept in it.
#[test]
fn a_store_is_opened_before_the_run_that_goes_there() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=16 hidden=256,96\n");
    bench.file("foreign.db", "no store");
    let args =
        ["run", "--shapes", "shapes.csv", "--device", "host", "--save", "x", "--store", "foreign.db", "-o", "out.json"];
    let text = stderr(kbench(&bench, &args).code(2));
    assert!(text.contains("not a kbench store"), "{text}");
    assert!(!bench.dir.path().join("out.json").exists());
}

#[test]
fn rocprofv3_statistics_are_compared_kernel_by_kernel() {
    let bench = Bench::new();
    let stats = |often: u64| {
        format!(
            "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\",\"Percentage\",\"MinNs\",\"MaxNs\",\"StdDev\"\n\
             \"gemm_a\",100,{},{},50.0,1,20000,0.0\n\"norm_b\",200,400000,2000.0,50.0,1,3000,0.0\n",
            often * 100,
            often
        )
    };
    bench.file("before_kernel_stats.csv", &stats(9000));
    bench.file("after_kernel_stats.csv", &stats(6000));
    let args = ["compare", "before_kernel_stats.csv", "after_kernel_stats.csv", "--format", "json"];
    let found = comparison(&stdout(kbench(&bench, &args).code(0)));
    assert_eq!(found["method"], "profiles");
    let first = &found["cases"][0];
    assert_eq!((&first["kernel"], &first["verdict"]), (&json!("gemm_a"), &json!("FASTER")));
    assert!((first["ratio"]["ratio"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(found["cases"][1]["verdict"], "SAME");
    // Twice the steps: half of the time each.
    let steps = ["--base-steps", "10", "--candidate-steps", "20", "--gate", "time:+1%"];
    let all: Vec<&str> = args.into_iter().chain(steps).collect();
    let found = comparison(&stdout(kbench(&bench, &all).code(0)));
    assert!((found["cases"][0]["ratio"]["ratio"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-9);
    // A profile and a run are two kinds.
    bench.file("run.json", &document([1.0, 1.0], ["ok", "ok"]).to_string());
    kbench(&bench, &["compare", "run.json", "after_kernel_stats.csv"]).code(2);
}

#[test]
fn a_run_on_the_host_is_saved_and_compared_with_itself() {
    let bench = Bench::new();
    bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=16 hidden=256,96\n");
    let run = [
        "run",
        "--shapes",
        "shapes.csv",
        "--device",
        "host",
        "--time-budget",
        "2s",
        "--save",
        "mine",
        "-o",
        "run.json",
    ];
    let text = stderr(kbench(&bench, &run).code(0));
    assert!(text.contains("saved as mine (#1)"), "{text}");
    kbench(&bench, &["export", "mine", "-o", "kept.json"]).code(0);
    let parse = |name: &str| serde_json::from_str::<Value>(&bench.read(name)).unwrap();
    assert_eq!(parse("kept.json"), parse("run.json"));
    let found = stdout(kbench(&bench, &["compare", "mine", "run.json"]).code(0));
    assert!(found.contains("SAME"), "{found}");
    kbench(&bench, &["run", "--shapes", "shapes.csv", "--save", "a~1"]).code(2);
}

/// Copies this project's activation kernels and plants something into the plain form.
fn sources(bench: &Bench, name: &str, change: impl Fn(String) -> String) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let to = bench.dir.path().join(name);
    for folder in ["include", "activation"] {
        std::fs::create_dir_all(to.join(folder)).unwrap();
        for entry in std::fs::read_dir(from.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, to.join(folder).join(path.file_name().unwrap())).unwrap();
        }
    }
    let source = to.join("activation/activation.hip");
    let text = std::fs::read_to_string(&source).unwrap();
    let changed = change(text.clone());
    assert!(name == "base" || changed != text, "{name}");
    std::fs::write(source, changed).unwrap();
}

/// Two builds of one kernel on the emulated MI300X: the comparison names the resource that changed and by how much, the
/// same to the last byte each time, and a gate that needs no GPU fails on it.
#[test]
fn planted_changes_are_found_on_the_emulated_device() {
    if std::process::Command::new("clang-19").arg("--version").output().is_err() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "clang-19 is needed in CI");
        eprintln!("skipped: there is no clang-19");
        return;
    }
    let bench = Bench::new();
    // 16 rows of 2048 elements, 8 a work-item: 64 waves.
    bench.file("shapes.csv", "family,dtype,shape,calls\nactivation,bf16,rows=16 hidden=2048 kind=silu,48\n");
    let store = "    store8(out + row * hidden + column, activate<act, mul>(decode8(raw_gate), decode8(raw_up)));";
    let before_store = |text: String, planted: &str| text.replace(store, &format!("{planted}\n{store}"));
    sources(&bench, "base", |text| text);
    sources(&bench, "load", |text| before_store(text, "    (void)*(const volatile u32*)(gate + column);"));
    sources(&bench, "conflict", |text| {
        let planted = "    __shared__ volatile u32 planted[64 * 32];\n    planted[(thread_x() & 63) * 32] = column;";
        before_store(text, planted)
    });
    sources(&bench, "rolled", |text| {
        let body =
            "#pragma unroll\n    for (u32 element = 0; element < 8; ++element) {\n        result[element] = activate";
        text.replace(body, &body.replace("#pragma unroll", "#pragma unroll 1"))
    });
    for name in ["base", "load", "conflict", "rolled"] {
        let (built, out) = (format!("built-{name}"), format!("{name}.json"));
        let build = ["build", "--compiler", "clang-19", "--sources", name, "--family", "activation", "-o", &built];
        kbench(&bench, &build).code(0);
        kbench(&bench, &["run", "--shapes", "shapes.csv", "--kernels", &built, "-o", &out]).code(0);
    }
    let compare = |candidate: &str| {
        let text = stdout(kbench(&bench, &["compare", "base.json", candidate, "--format", "json"]).code(0));
        let again = stdout(kbench(&bench, &["compare", "base.json", candidate, "--format", "json"]).code(0));
        assert_eq!(text, again);
        let document = comparison(&text);
        let case = document["cases"][0].clone();
        println!("{candidate}: {} {}", case["verdict"], case["why"]);
        case
    };
    let metric = |case: &Value, name: &str| {
        let list = case["metrics"].as_array().unwrap();
        let found = list.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}: {case}"));
        (found["base"].as_f64().unwrap(), found["candidate"].as_f64().unwrap())
    };
    // One load more in each of the 64 waves.
    let load = compare("load.json");
    let (before, after) = metric(&load, "SQ_INSTS_VMEM_RD");
    assert_eq!((before, after), (128.0, 192.0));
    assert_eq!(load["identical_code"], false);
    // 64 lanes at one of 32 banks.
    let (before, after) = metric(&compare("conflict.json"), "conflicts");
    assert!(before == 0.0 && after > 0.0, "{before} {after}");
    // A loop that is not unrolled branches.
    let rolled = compare("rolled.json");
    let (before, after) = metric(&rolled, "SQ_INSTS_BRANCH");
    assert!(after >= before + 7.0 * 64.0, "{before} {after}");
    for (candidate, list, code) in [
        ("base.json", "bound:+0%,insts:+0,conflicts:+0,bytes:+0,vgprs:+0", 0),
        ("load.json", "SQ_INSTS_VMEM_RD:+10%", 1),
        ("load.json", "SQ_INSTS_VMEM_RD:+50%", 0),
        ("conflict.json", "conflicts:+0", 1),
        ("rolled.json", "insts:+2%", 1),
    ] {
        kbench(&bench, &["compare", "base.json", candidate, "--gate", list]).code(code);
    }
}
