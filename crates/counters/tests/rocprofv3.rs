//! Runs through rocprofv3's formats and back, read by this crate, by `kbench inventory`'s readers, and by Python's csv and sqlite3.

#![allow(clippy::unwrap_used, clippy::panic)]

use kbench_counters::metric::report;
use kbench_counters::rocprofv3::{
    Agent, AgentKind, Dispatch, FileError, Kernel, Process, Run, cases, read_agent_info, read_counter_collection,
    read_kernel_trace, rocpd, write_agent_info, write_counter_collection, write_kernel_trace,
};
use kbench_counters::{Arch, Catalog, Geometry};
use kbench_profile::{ReadOptions, read};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const PLAIN: &str = "void add<float>(float*, float const*, int)";
/// A user-defined literal: the name that rocprofv3's own files cannot hold.
const QUOTED: &str = "auto operator\"\"_x<1, 2>(char const*)";

fn numbers(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
    all.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

fn mi300x(node_id: u32) -> Agent {
    Agent {
        node_id,
        logical_node_id: node_id,
        kind: AgentKind::Gpu,
        name: "gfx942".to_owned(),
        vendor: "AMD".to_owned(),
        product: "AMD Instinct MI300X".to_owned(),
        model: "".to_owned(),
        numbers: numbers(&[
            ("Cu_Count", 304),
            ("Simd_Per_Cu", 4),
            ("Num_Xcc", 8),
            ("Wave_Front_Size", 64),
            ("Max_Waves_Per_Cu", 32),
            ("Gfx_Target_Version", 90402),
            ("Workgroup_Max_Dim_X", 1024),
            ("Workgroup_Max_Dim_Y", 512),
            ("Fw_Version", 177),
        ]),
    }
}

/// Two passes of one kernel, twice each, and one launch of another kernel.
fn run(second: &str) -> Run {
    let kernel = |id: u64, name: &str| Kernel {
        id,
        name: name.to_owned(),
        mangled: name.to_owned(),
        sgprs: 16,
        vgprs: 8,
        agprs: 4,
        ..Kernel::default()
    };
    let dispatch = |id: u64, kernel_id: u64, counters: &[(&str, f64)]| Dispatch {
        dispatch_id: id,
        correlation_id: id + 100,
        agent: 4,
        queue_id: 2,
        stream_id: 3,
        thread_id: 834_304,
        kernel_id,
        start_ns: 1_550_151_853_029_637 + id * 10_000,
        end_ns: 1_550_151_853_029_637 + id * 10_000 + 1000 * id,
        workgroup: [256, 1, 1],
        grid: [1 << 20, 2, 1],
        lds_bytes: 512,
        scratch_bytes: 0,
        counters: counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
    };
    let guards = [("GRBM_GUI_ACTIVE", 8.0 * 2100.0), ("SQ_WAVES", 8192.0)];
    let hits = |hits: f64| [guards[0], guards[1], ("TCC_HIT", hits), ("TCC_MISS", 10.0)];
    let writes = [guards[0], guards[1], ("WRITE_SIZE", 0.125)];
    Run {
        process: Process { pid: 834_304, hostname: "host".to_owned(), command: "kbench run".to_owned() },
        agents: vec![Agent { logical_node_id: 0, name: "EPYC".to_owned(), ..Agent::default() }, mi300x(4)],
        kernels: vec![kernel(10, PLAIN), kernel(11, second)],
        dispatches: vec![
            dispatch(1, 10, &hits(30.0)),
            dispatch(2, 10, &hits(30.0)),
            dispatch(3, 10, &writes),
            dispatch(4, 11, &hits(90.0)),
        ],
    }
}

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn with(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// Launches and time by name, from the reader of `kbench inventory`.
fn inventory(path: &Path) -> Vec<(String, u64, u64)> {
    let inventory = read(&[path], &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut rows: Vec<_> = inventory.rows.into_iter().map(|row| (row.kernel_raw, row.calls, row.total_ns)).collect();
    rows.sort();
    rows
}

/// What the inventory must say: dispatch n takes 1000 n ns.
fn expected(second: &str) -> Vec<(String, u64, u64)> {
    let mut rows = vec![(PLAIN.to_owned(), 3, 6000), (second.to_owned(), 1, 4000)];
    rows.sort();
    rows
}

#[test]
fn traces_pass_through_csv_and_the_inventory() {
    for second in ["gemm_kernel", QUOTED] {
        let files = Files::new();
        let run = run(second);
        let path = files.path("a_kernel_trace.csv");
        write_kernel_trace(&path, &run).unwrap();
        assert_eq!(inventory(&path), expected(second));
        let back = read_kernel_trace(&path).unwrap();
        assert_eq!(back.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), [PLAIN, second]);
        let bare = |dispatches: &[Dispatch]| -> Vec<Dispatch> {
            dispatches.iter().map(|dispatch| Dispatch { counters: BTreeMap::new(), ..dispatch.clone() }).collect()
        };
        assert_eq!(back.dispatches, bare(&run.dispatches));
    }
}

#[test]
fn headers_and_rows_are_those_of_rocprofv3() {
    let files = Files::new();
    let path = files.path("x.csv");
    write_kernel_trace(&path, &run("k")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    // The line of rocprofv3's own documentation, with this run's numbers.
    let row = format!(
        "\"KERNEL_DISPATCH\",\"Agent 4\",2,3,834304,1,10,\"{PLAIN}\",101,1550151853039637,1550151853040637,512,0,8,4,16,256,1,1,1048576,2,1"
    );
    assert_eq!(text.lines().nth(1).unwrap(), row);
    write_counter_collection(&path, &run("k")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let row = format!(
        "101,1,\"Agent 4\",2,834304,834304,2097152,10,\"{PLAIN}\",256,512,0,8,4,16,\"GRBM_GUI_ACTIVE\",16800.000000,1550151853039637,1550151853040637"
    );
    assert_eq!(text.lines().nth(1).unwrap(), row);
    assert!(text.contains(",\"WRITE_SIZE\",1.25000000e-01,"));
    for (name, recorded) in [("kernel_trace.csv", true), ("counter_collection.csv", false)] {
        let Some(data) = real(name) else { continue };
        let header = std::fs::read_to_string(data).unwrap().lines().next().unwrap().to_owned();
        if recorded {
            write_kernel_trace(&path, &run("k")).unwrap();
        } else {
            write_counter_collection(&path, &run("k")).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().next().unwrap(), header);
    }
}

#[test]
fn counters_come_back_and_become_metrics() {
    for second in ["gemm_kernel", QUOTED] {
        let files = Files::new();
        let (csv, db) = (files.path("counter_collection.csv"), files.path("results.db"));
        let run = run(second);
        write_counter_collection(&csv, &run).unwrap();
        let catalog = Catalog::new(Arch::Gfx942).unwrap();
        rocpd::write(&db, &run, rocpd::Guid::new(7), Some(&catalog)).unwrap();
        let geometry = mi300x(4).geometry().unwrap();
        assert_eq!(geometry, Geometry { cus: 304, simds_per_cu: 4, xccs: 8, wave_size: 64, max_waves_per_cu: 32 });
        let by_csv = read_counter_collection(&csv).unwrap();
        let by_db = rocpd::read(&db).unwrap().remove(0);
        for back in [&by_csv, &by_db] {
            let cases = cases(back, Some(4), geometry);
            assert_eq!(cases.len(), 2);
            let case = cases.iter().find(|case| case.kernel == PLAIN).unwrap();
            assert_eq!((case.calls, case.measured.passes.len(), case.measured.duration_ns), (3, 2, Some(2000.0)));
            let entries = report(
                &catalog,
                &case.measured,
                ["l2_hit_rate", "fabric_write_bytes", "clock_mhz", "fabric_read_bytes"],
            );
            assert_eq!(entries["l2_hit_rate"].value, Some(75.0));
            assert_eq!(entries["fabric_write_bytes"].value, Some(128.0));
            // 2100 clocks an XCC; the first pass that has them took a median of 1500 ns (1000 and 2000), or 3000.
            let clock = entries["clock_mhz"].value.unwrap();
            assert!([1400.0, 700.0].contains(&clock), "{clock}");
            assert_eq!(entries["fabric_read_bytes"].value, None);
        }
        assert!(cases(&by_csv, Some(5), geometry).is_empty());
    }
}

#[test]
fn agents_come_back() {
    let files = Files::new();
    let path = files.path("agent_info.csv");
    let run = run("k");
    write_agent_info(&path, &run).unwrap();
    assert_eq!(read_agent_info(&path).unwrap(), run.agents);
    let db = files.path("a.db");
    rocpd::write(&db, &run, rocpd::Guid::new(1 << 100), None).unwrap();
    assert_eq!(rocpd::read(&db).unwrap(), [run]);
}

#[test]
fn databases_pass_through_the_inventory_and_replace_older_ones() {
    let files = Files::new();
    let path = files.with("results.db", "something old");
    rocpd::write(&path, &run(QUOTED), rocpd::Guid::new(u128::MAX), None).unwrap();
    assert_eq!(inventory(&path), expected(QUOTED));
    assert_eq!(std::fs::read_dir(files.folder.path()).unwrap().count(), 1);
}

/// Runs Python on a file; false when there is none.
fn python(script: &str, path: &Path) -> bool {
    match Command::new("python3").args(["-c", script]).arg(path).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(_) => {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "python3 is needed in CI");
            eprintln!("skipped: no python3");
            false
        }
    }
}

/// An independent reader: Python's csv module must see the columns and the very name.
#[test]
fn pythons_csv_reads_ours() {
    let files = Files::new();
    for (name, second) in [("a.csv", "k"), ("b.csv", QUOTED)] {
        let path = files.path(name);
        write_counter_collection(&path, &run(second)).unwrap();
        let script = format!(
            "import csv, sys\nrows = list(csv.DictReader(open(sys.argv[1])))\nassert len(rows) == 15, len(rows)\n\
             assert rows[-1]['Kernel_Name'] == {second:?}, rows[-1]\nassert rows[0]['Agent_Id'] == 'Agent 4'\n\
             assert [float(r['Counter_Value']) for r in rows if r['Counter_Name'] == 'TCC_HIT'] == [30, 30, 90]"
        );
        if !python(&script, &path) {
            return;
        }
    }
}

/// rocpd's own tools attach the file, find its guid in the metadata, unite the suffixed tables in views and query `kernels` and
/// `counters_collection`; this does the same steps.
#[test]
fn rocpds_steps_work_on_ours() {
    let files = Files::new();
    let path = files.path("results.db");
    rocpd::write(&path, &run(QUOTED), rocpd::Guid::new(0x1234), Some(&Catalog::new(Arch::Gfx942).unwrap())).unwrap();
    let script = r#"
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
q = lambda sql: db.execute(sql).fetchall()
assert q("PRAGMA integrity_check") == [("ok",)]
assert q("SELECT value FROM rocpd_metadata WHERE tag='schema_version'") == [("3",)]
(uuid,), = q("SELECT value FROM rocpd_metadata WHERE tag='uuid'")
tables = [name for name, in q("SELECT name FROM sqlite_master WHERE type='table' AND name LIKE 'rocpd_%'")]
assert all(name.endswith(uuid) for name in tables) and len(tables) == 20, tables
for name in tables:
    q(f"SELECT * FROM {name.replace(uuid, '')}")
rows = q("SELECT name, duration, 'Agent ' || agent_log_index, queue_id, stream_id, tid, dispatch_id, stack_id, grid_x, grid_y, workgroup_x, vgpr_count, accum_vgpr_count, sgpr_count, lds_size FROM kernels ORDER BY start")
assert len(rows) == 4, rows
assert rows[0][1:] == (1000, "Agent 4", 2, 3, 834304, 1, 101, 1048576, 2, 256, 8, 4, 16, 512), rows[0]
assert rows[3][0] == 'auto operator""_x<1, 2>(char const*)'
values = dict(((d, n), v) for d, n, v in q("SELECT dispatch_id, counter_name, value FROM counters_collection"))
assert values[(1, "TCC_HIT")] == 30 and values[(3, "WRITE_SIZE")] == 0.125 and len(values) == 15, values
assert q("SELECT block, is_derived FROM pmc_info WHERE name = 'TCC_HIT'") == [("TCC", 0)]
assert q("SELECT is_derived FROM pmc_info WHERE name = 'WRITE_SIZE'") == [(1,)]
assert q("SELECT command, pid FROM processes") == [("kbench run", 834304)]
assert q("SELECT tid FROM threads") == [(834304,)]
assert len(q("SELECT * FROM pmc_events")) == 15 and len(q("SELECT * FROM kernel_symbols")) == 2
extra = json.loads(q("SELECT extdata FROM rocpd_info_agent WHERE type='GPU'")[0][0])
assert extra["cu_count"] == 304 and extra["workgroup_max_dim"] == {"x": 1024, "y": 512} and extra["fw_version"]["uCode"] == 177, extra
"#;
    python(script, &path);
}

#[test]
fn runs_that_do_not_hold_together_are_refused() {
    let files = Files::new();
    let mut broken = run("k");
    broken.dispatches[1].kernel_id = 99;
    for result in [
        write_kernel_trace(&files.path("a.csv"), &broken),
        write_counter_collection(&files.path("b.csv"), &broken),
        rocpd::write(&files.path("c.db"), &broken, rocpd::Guid::new(0), None),
    ] {
        assert!(matches!(result, Err(FileError::Dangling { dispatch_id: 2, .. })));
    }
    assert!(matches!(write_kernel_trace(&files.path("no/a.csv"), &run("k")), Err(FileError::Io { .. })));
}

/// Headers and rows of older versions (facts section 4.2), and names that rocprofv3 did not escape.
#[test]
fn older_versions_and_broken_quotes_are_read() {
    let files = Files::new();
    let old = "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Name,Workgroup_Size,LDS_Block_Size,Scratch_Size,\
               VGPR_Count,SGPR_Count,Counter_Name,Counter_Value\n\
               4,4,1,1,36499,36499,1048576,\"divide_kernel(float*, float const*, int)\",64,0,0,12,16,\"SQ_WAVES\",16384\n\
               8,8,1,2,36499,36499,1048576,\"auto operator\"\"_x<1, 2>(char const*)\",64,0,0,12,16,\"SQ_WAVES\",16384\r\n\
               9,9,1,2,36499,36499,64,\"void f<\"a, b\", 3>()\",64,0,0,12,16,\"SQ_WAVES\",1\n";
    let found = read_counter_collection(&files.with("old.csv", old)).unwrap();
    let names: Vec<&str> = found.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    // Doubled quotes are read as RFC 4180 has them; a name that cannot be is what stands between its neighbours.
    assert_eq!(
        names,
        ["divide_kernel(float*, float const*, int)", "auto operator\"_x<1, 2>(char const*)", "void f<\"a, b\", 3>()"]
    );
    assert_eq!(
        (found.process.pid, found.dispatches[0].agent, found.dispatches[0].counters["SQ_WAVES"]),
        (36499, 1, 16384.0)
    );
    assert_eq!(found.dispatches[0].duration_ns(), None);
}

#[test]
fn other_files_are_refused_with_what_they_lack() {
    let files = Files::new();
    let refusal = |text: &str| read_counter_collection(&files.with("x.csv", text)).unwrap_err().to_string();
    assert!(refusal("").contains("empty"));
    assert!(refusal("a,b\n1,2\n").contains("no column `Dispatch_Id`"));
    let header = "Dispatch_Id,Agent_Id,Kernel_Name,Counter_Name,Counter_Value\n";
    assert!(refusal(&format!("{header}1,1,k,SQ_WAVES,many\n")).contains("x.csv:2: `many`"));
    assert!(refusal(&format!("{header}1,1,k\n")).contains("x.csv:2"));
    assert!(refusal(&format!("{header}-1,1,k,A,1\n")).contains("no whole number"));
    assert!(refusal(&"x".repeat(2 << 20)).contains("1 MiB"));
    let other = files.with("other.db", "not a database, but long enough to be looked at as one");
    assert!(matches!(rocpd::read(&other), Err(FileError::Database { .. })));
}

/// A file of the recorded data, where it is at hand.
fn real(name: &str) -> Option<PathBuf> {
    let folder = std::env::var("KBENCH_REAL_DATA").unwrap_or_else(|_| "../../../shared/data".to_owned());
    let path = Path::new(&folder).join("rocprofv3").join(name);
    if !path.exists() {
        eprintln!("skipped: no recorded data at {}", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn recorded_files_are_read() {
    if let Some(path) = real("counter_collection.csv") {
        let run = read_counter_collection(&path).unwrap();
        assert_eq!((run.dispatches.len(), run.kernels.len(), run.dispatches[0].agent), (4, 4, 1));
        assert_eq!(run.dispatches[0].counters["SQ_WAVES"], 16384.0);
    }
    if let Some(path) = real("kernel_names.csv") {
        let run = read_counter_collection(&path).unwrap();
        assert!(run.dispatches.iter().all(|dispatch| dispatch.counters["SQ_WAVES"] == 16384.0));
    }
    if let Some(path) = real("kernel_trace.csv") {
        let run = read_kernel_trace(&path).unwrap();
        assert!(
            run.dispatches.iter().all(|dispatch| dispatch.duration_ns().is_some() && dispatch.grid == [1024, 1024, 1])
        );
        // Written again, it is the same inventory.
        let files = Files::new();
        let ours = files.path("kernel_trace.csv");
        write_kernel_trace(&ours, &run).unwrap();
        assert_eq!(inventory(&ours), inventory(&path));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_files_are_read_or_refused(cut in 0.0_f64..1.0, at in 0.0_f64..1.0, byte in any::<u8>(), is_cut in any::<bool>()) {
        let files = Files::new();
        let run = run(QUOTED);
        let (csv, trace, agents, db) = (files.path("a.csv"), files.path("b.csv"), files.path("c.csv"), files.path("d.db"));
        write_counter_collection(&csv, &run).unwrap();
        write_kernel_trace(&trace, &run).unwrap();
        write_agent_info(&agents, &run).unwrap();
        rocpd::write(&db, &run, rocpd::Guid::new(1), None).unwrap();
        for path in [&csv, &trace, &agents, &db] {
            let mut bytes = std::fs::read(path).unwrap();
            let place = |share: f64| (share * bytes.len() as f64) as usize;
            let (cut, at) = (place(cut), place(at));
            if is_cut {
                bytes.truncate(cut);
            } else if let Some(slot) = bytes.get_mut(at) {
                *slot = byte;
            }
            std::fs::write(path, bytes).unwrap();
        }
        let _ = read_counter_collection(&csv);
        let _ = read_kernel_trace(&trace);
        let _ = read_agent_info(&agents);
        let _ = rocpd::read(&db);
    }

    #[test]
    fn any_text_is_read_or_refused(rows in "[a,\"\n]{0,60}") {
        let files = Files::new();
        let text = format!("Dispatch_Id,Agent_Id,Kernel_Name,Counter_Name,Counter_Value\n{rows}");
        let _ = read_counter_collection(&files.with("x.csv", text));
    }
}
