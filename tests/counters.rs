//! `kbench counters` from the outside.

#![allow(clippy::unwrap_used)]

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin_cmd;
use kbench_counters::rocprofv3::{
    Agent, AgentKind, Dispatch, Kernel, Run, rocpd, write_agent_info, write_counter_collection,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

fn kbench(args: &[&str]) -> Command {
    let mut command = cargo_bin_cmd!("kbench");
    command.arg("counters").args(args);
    command
}

fn output(args: &[&str]) -> String {
    String::from_utf8(kbench(args).assert().success().get_output().stdout.clone()).unwrap()
}

fn document(args: &[&str]) -> Value {
    serde_json::from_str(&output(args)).unwrap()
}

fn refusal(args: &[&str]) -> String {
    String::from_utf8(kbench(args).assert().code(2).get_output().stderr.clone()).unwrap()
}

#[test]
fn lists_name_block_unit_and_whether_derived() {
    let text = output(&["list", "--arch", "gfx90a"]);
    assert!(text.contains("SQ_LDS_BANK_CONFLICT") && text.contains("l2_hit_rate") && text.contains("occupancy"));
    let list = document(&["list", "--arch", "gfx950", "--format", "json"]);
    let counters = list["counters"].as_array().unwrap();
    let find = |name: &str| counters.iter().find(|counter| counter["name"] == name).unwrap();
    assert_eq!(find("TCC_HIT")["block"], "TCC");
    assert_eq!(find("SQ_WAVE_CYCLES")["unit"], "quad-cycles");
    assert_eq!(
        (&find("FETCH_SIZE")["derived"], &find("TCC_HIT")["derived"]),
        (&Value::Bool(true), &Value::Bool(false))
    );
    assert_eq!(list["limits"]["SQ"], 8);
    assert!(!output(&["list", "--block", "tcc"]).contains("SQ_WAVES"));
    assert!(refusal(&["list", "--block", "XYZ"]).contains("its blocks are"));
    assert!(refusal(&["list", "--arch", "gfx803"]).contains("gfx90a"));
}

/// The request of issue 7.
#[test]
fn fetch_and_write_size_are_two_passes() {
    let list = "FETCH_SIZE,WRITE_SIZE,SQ_INSTS_VALU_MFMA_MOPS_BF16,SQ_LDS_BANK_CONFLICT";
    let plan = document(&["plan", "--pmc", list, "--format", "json"]);
    let passes = plan["plans"][0]["passes"].as_array().unwrap();
    assert_eq!(passes.len(), 2);
    for pass in passes {
        assert!(
            ["GRBM_GUI_ACTIVE", "SQ_WAVES"]
                .iter()
                .all(|guard| pass["counters"].as_array().unwrap().contains(&Value::from(*guard)))
        );
    }
    assert!(output(&["plan", "--pmc", list]).contains("2 passes"));
    assert!(output(&["plan", "--counters", "memory"]).contains("cross_pass"));
    assert!(refusal(&["plan", "--pmc", "SQ_WAVE"]).contains("SQ_WAVES"));
    assert!(refusal(&["plan", "--counters", "memroy"]).contains("memory"));
}

#[test]
fn input_files_of_rocprofv3_are_planned() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let yaml = file(
        "input.yaml",
        "jobs:\n  - pmc: [SQ_WAVES, FETCH_SIZE]\n    kernel_trace: True\n  - pmc:\n    - TCC_HIT_sum\n",
    );
    let plan = document(&["plan", "-i", &yaml, "--format", "json"]);
    assert_eq!(plan["plans"].as_array().unwrap().len(), 2);
    let said = kbench(&["plan", "-i", &yaml]).assert().success().get_output().stderr.clone();
    assert!(String::from_utf8(said).unwrap().contains("not used here: kernel_trace"));
    assert!(refusal(&["plan", "-i", &file("bad.txt", "pmc: SQ_WAVES\nnonsense\n")]).contains("bad.txt:2"));
    assert!(refusal(&["plan", "-i", &file("bad.json", "{\"jobs\": [{\"pmc\": [\"NO_SUCH\"]}]}")]).contains("job 1"));
}

fn recorded() -> Run {
    let numbers =
        [("Cu_Count", 304), ("Simd_Per_Cu", 4), ("Num_Xcc", 8), ("Wave_Front_Size", 64), ("Max_Waves_Per_Cu", 32)];
    let agent = Agent {
        node_id: 4,
        logical_node_id: 4,
        kind: AgentKind::Gpu,
        name: "gfx942".to_owned(),
        product: "AMD Instinct MI300X".to_owned(),
        numbers: numbers.into_iter().map(|(name, number)| (name.to_owned(), number)).collect(),
        ..Agent::default()
    };
    let counters =
        [("GRBM_GUI_ACTIVE", 8.0 * 2100.0), ("SQ_WAVES", 64.0), ("TCC_HIT_sum", 30.0), ("TCC_MISS_sum", 10.0)];
    Run {
        agents: vec![agent],
        kernels: vec![Kernel { id: 7, name: "add(float*)".to_owned(), ..Kernel::default() }],
        dispatches: vec![Dispatch {
            dispatch_id: 1,
            agent: 4,
            kernel_id: 7,
            start_ns: 1000,
            end_ns: 2000,
            workgroup: [256, 1, 1],
            grid: [4096, 1, 1],
            counters: counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<_, _>>(),
            ..Dispatch::default()
        }],
        ..Run::default()
    }
}

#[test]
fn runs_of_rocprofv3_become_metrics() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |path: &Path| path.display().to_string();
    let run = recorded();
    write_counter_collection(&path("a_counter_collection.csv"), &run).unwrap();
    assert!(refusal(&["import", &text(&path("a_counter_collection.csv"))]).contains("--agents"));
    write_agent_info(&path("a_agent_info.csv"), &run).unwrap();
    rocpd::write(&path("a.db"), &run, rocpd::Guid::new(1), None).unwrap();
    for file in ["a_counter_collection.csv", "a.db"] {
        let found = document(&["import", &text(&path(file)), "--format", "json"]);
        let counters = &found["cases"][0]["counters"];
        assert_eq!(found["cases"][0]["kernel"], "add(float*)");
        assert_eq!(
            (&counters["l2_hit_rate"]["value"], &counters["l2_hit_rate"]["kind"]),
            (&Value::from(75.0), &Value::from("derived"))
        );
        // 2100 clocks an XCC in 1000 ns.
        assert_eq!(counters["clock_mhz"]["value"], 2100.0);
        assert_eq!(
            (&counters["TCC_HIT"]["value"], &counters["TCC_HIT"]["kind"]),
            (&Value::from(30.0), &Value::from("measured"))
        );
        assert!(output(&["import", &text(&path(file))]).contains("l2_hit_rate"));
    }
    assert!(refusal(&["import", &text(&path("a.db")), "--agent", "9"]).contains("Agent 4"));
    assert!(refusal(&["import", &text(&path("a_agent_info.csv"))]).contains("counter_collection"));
}

/// A run in `NAME_counter_collection.csv`, with its agents beside it.
fn csv(folder: &TempDir, name: &str, run: &Run) -> String {
    let path = |kind: &str| folder.path().join(format!("{name}_{kind}.csv"));
    write_counter_collection(&path("counter_collection"), run).unwrap();
    write_agent_info(&path("agent_info"), run).unwrap();
    path("counter_collection").display().to_string()
}

/// A later run, which nobody takes for [`recorded`].
fn later(by: u64) -> Run {
    let mut run = recorded();
    run.dispatches[0].start_ns += by;
    run.dispatches[0].end_ns += by;
    run
}

/// `Agent 4` of one file is not `Agent 4` of another.
#[test]
fn agents_of_several_devices_are_not_joined() {
    let folder = TempDir::new().unwrap();
    let first = csv(&folder, "first", &recorded());
    let changed = |name: &str, change: &dyn Fn(&mut Agent)| {
        let mut run = later(5000);
        change(&mut run.agents[0]);
        csv(&folder, name, &run)
    };
    let emulated = changed("emulated", &|agent| agent.product.push_str(" (emulated)"));
    let older = changed("older", &|agent| agent.name = "gfx90a".to_owned());
    let parted = changed("parted", &|agent| {
        agent.numbers.insert("Cu_Count".to_owned(), 38);
    });
    let host = changed("host", &|agent| agent.kind = AgentKind::Cpu);
    let words = ["MI300X (emulated)", "gfx942 and gfx90a", "Cu_Count 304 and 38", "a GPU and a CPU"];
    for (second, words) in [&emulated, &older, &parted, &host].into_iter().zip(words) {
        for pair in [[&first, second], [second, &first]] {
            let said = refusal(&["import", pair[0], pair[1]]);
            assert!(said.contains("Agent 4") && said.contains(&first) && said.contains(second.as_str()), "{said}");
            assert!(pair[1] == &first || said.contains(words), "{said}");
        }
    }
    // Another GPU of the same model: only its place differs.
    let twin = changed("twin", &|agent| {
        agent.node_id = 5;
        agent.numbers.insert("Location_Id".to_owned(), 9);
    });
    assert_eq!(document(&["import", &first, &twin, "--format", "json"])["cases"][0]["calls"], 2);
}

/// One launch that comes again is refused, whatever else a file holds; other counters of the same launch are a pass of their own.
#[test]
fn a_launch_of_two_files_is_refused() {
    let folder = TempDir::new().unwrap();
    let first = csv(&folder, "first", &recorded());
    let mut run = recorded();
    run.dispatches.push(Dispatch { dispatch_id: 2, ..later(5000).dispatches.remove(0) });
    let longer = csv(&folder, "longer", &run);
    for pair in [[&first, &longer], [&longer, &first]] {
        let said = refusal(&["import", pair[0], pair[1]]);
        assert!(said.contains("dispatch 1 (add(float*))") && said.contains("count twice"), "{said}");
        assert!(said.contains(&first) && said.contains(&longer), "{said}");
        assert_eq!(said.contains("some of its launches"), pair[1] == &longer, "{said}");
    }
    let mut run = recorded();
    run.dispatches[0].counters.remove("TCC_HIT_sum");
    let pass = csv(&folder, "pass", &run);
    let found = document(&["import", &first, &pass, "--format", "json"]);
    assert_eq!(found["cases"][0]["counters"]["TCC_MISS"]["value"], 10.0);
}
