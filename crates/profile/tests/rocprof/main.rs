//! rocprofv3's JSON and rocpd databases through the front door. Fixtures are written here in the layout that the tools write; expected sums are
//! computed by hand from the dispatches above them, and the three formats of one run must agree.

#![allow(clippy::unwrap_used, clippy::panic)]

mod damage;

use flate2::{Compression, write::GzEncoder};
use kbench_profile::{Dialect, Inventory, ReadError, ReadOptions, read, sniff};
use rusqlite::Connection;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ADD: &str = "void add<float>(float*, float const*, int)";
const ADD_MANGLED: &str = "_Z3addIfEvPT_PKS0_i.kd";
const AXPY: &str = "axpy(float const*, float*, int, double)";
const AXPY_MANGLED: &str = "_Z4axpyPKfPfid.kd";

/// Kernel, agent, start, end. Kernel 1 is `add`, 2 is `axpy`.
type Dispatch = (u64, u64, i64, i64);

/// add: 2 calls, 60 + 40 ns. axpy: 1 call, 500 ns. Dropped: one of 0, one negative, one whose start was never set.
const RUN: &[Dispatch] = &[
    (1, 4, 1_550_151_853_029_637, 1_550_151_853_029_697),
    (2, 4, 1_550_151_853_030_000, 1_550_151_853_030_500),
    (1, 5, 1_550_151_853_031_000, 1_550_151_853_031_040),
    (1, 4, 1_550_151_853_032_000, 1_550_151_853_032_000),
    (2, 4, 1_550_151_853_033_000, 1_550_151_853_032_999),
    (2, 4, 0, 1_550_151_853_034_000),
];

fn symbols_json(truncated: bool) -> String {
    let symbol = |id: u64, mangled: &str, full: &str, short: &str| {
        let formatted = if truncated { short } else { full };
        format!(
            r#"{{"size": 88, "kernel_id": {id}, "code_object_id": 1, "kernel_name": "{mangled}", "formatted_kernel_name": "{formatted}",
                "demangled_kernel_name": "{full}", "truncated_kernel_name": "{short}", "sgpr_count": 16}}"#
        )
    };
    format!(
        r#"[{{"size": 0, "kernel_id": 0, "kernel_name": "", "formatted_kernel_name": ""}}, {}, {}]"#,
        symbol(1, ADD_MANGLED, ADD, "add"),
        symbol(2, AXPY_MANGLED, AXPY, "axpy")
    )
}

fn dispatches_json(dispatches: &[Dispatch]) -> String {
    let each = dispatches.iter().enumerate().map(|(number, (kernel, agent, start, end))| {
        format!(
            r#"{{"size": 184, "kind": 11, "operation": 2, "thread_id": 9, "correlation_id": {{"internal": {number}, "external": 0}},
                "start_timestamp": {start}, "end_timestamp": {end}, "dispatch_info": {{"size": 80, "agent_id": {{"handle": {agent}}},
                "queue_id": {{"handle": 1}}, "kernel_id": {kernel}, "dispatch_id": {number}, "workgroup_size": {{"x": 64, "y": 1, "z": 1}},
                "grid_size": {{"x": 1024, "y": 1, "z": 1}}}}, "stream_id": {{"handle": 1}}}}"#
        )
    });
    format!("[{}]", each.collect::<Vec<_>>().join(",\n"))
}

const AGENTS: &str = r#"[{"id": {"handle": 3}, "type": 1, "name": "EPYC", "product_name": "EPYC"},
    {"id": {"handle": 4}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "gfx_target_version": 90402},
    {"id": {"handle": 5}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X"},
    {"id": {"handle": 6}, "type": 2, "name": "gfx1036", "product_name": "unused"}]"#;

/// One process; its symbols stand before or behind the records.
fn process_json(pid: u64, dispatches: &[Dispatch], symbols_first: bool) -> String {
    let symbols = format!(r#""kernel_symbols": {}"#, symbols_json(false));
    let records = format!(
        r#""callback_records": {{"counter_collection": []}}, "buffer_records": {{"hip_api": [{{"size": 1}}], "kernel_dispatch": {}}}"#,
        dispatches_json(dispatches)
    );
    let (first, second) = if symbols_first { (symbols, records) } else { (records, symbols) };
    format!(r#"{{"metadata": {{"pid": {pid}, "node": {{"id": 1}}}}, "agents": {AGENTS}, {first}, {second}}}"#)
}

fn tool_json(processes: &[String]) -> String {
    format!(r#"{{"rocprofiler-sdk-tool": [{}]}}"#, processes.join(", "))
}

fn csv(dispatches: &[Dispatch]) -> String {
    let mut text = "\"Kind\",\"Agent_Id\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"\n".to_owned();
    for (kernel, agent, start, end) in dispatches {
        let name = if *kernel == 1 { ADD } else { AXPY };
        writeln!(text, "\"KERNEL_DISPATCH\",\"Agent {agent}\",\"{name}\",{start},{end}").unwrap();
    }
    text
}

/// How a schema keeps its dispatches.
#[derive(Clone, Copy, PartialEq)]
enum Schema {
    V3,
    V4,
    /// Schema 3 in tables without a suffix or guids.
    Plain,
}

/// Adds one process to a database: its own set of tables.
fn add_process(database: &Connection, guid: &str, schema: Schema, truncated: bool, dispatches: &[Dispatch]) {
    let suffix = if schema == Schema::Plain { String::new() } else { format!("_{}", guid.replace('-', "_")) };
    let guid_column =
        if schema == Schema::Plain { String::new() } else { format!("guid TEXT NOT NULL DEFAULT '{guid}',") };
    let times = match schema {
        Schema::V4 => "start_id INTEGER, end_id INTEGER",
        _ => "agent_id INTEGER, \"start\" BIGINT NOT NULL, \"end\" BIGINT NOT NULL",
    };
    let (add, axpy) = if truncated { ("add", "axpy") } else { (ADD, AXPY) };
    database
        .execute_batch(&format!(
            "CREATE TABLE \"rocpd_metadata{suffix}\" (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
             INSERT INTO \"rocpd_metadata{suffix}\" (tag, value) VALUES ('schema_version', '{}');
             CREATE TABLE \"rocpd_info_agent{suffix}\" (id INTEGER PRIMARY KEY, {guid_column} type TEXT, name TEXT, product_name TEXT);
             INSERT INTO \"rocpd_info_agent{suffix}\" (id, type, name, product_name) VALUES (3, 'CPU', 'EPYC', 'EPYC'),
                 (4, 'GPU', 'gfx942', 'AMD Instinct MI300X'), (5, 'GPU', 'gfx942', 'AMD Instinct MI300X');
             CREATE TABLE \"rocpd_info_kernel_symbol{suffix}\" (id INTEGER PRIMARY KEY, {guid_column} kernel_name TEXT, display_name TEXT);
             INSERT INTO \"rocpd_info_kernel_symbol{suffix}\" (id, kernel_name, display_name) VALUES
                 (1, '{ADD_MANGLED}', '{add}'), (2, '{AXPY_MANGLED}', '{axpy}');
             CREATE TABLE \"rocpd_timestamp{suffix}\" (id INTEGER PRIMARY KEY, value BIGINT);
             CREATE TABLE \"rocpd_kernel_dispatch{suffix}\" (id INTEGER PRIMARY KEY, {guid_column} kernel_id INTEGER, {times});",
            if schema == Schema::V4 { "4.0.0" } else { "3" }
        ))
        .unwrap();
    for (number, (kernel, agent, start, end)) in dispatches.iter().enumerate() {
        let table = format!("rocpd_kernel_dispatch{suffix}");
        if schema == Schema::V4 {
            let stamp = format!("INSERT INTO \"rocpd_timestamp{suffix}\" (id, value) VALUES (?1, ?2)");
            let ids = (2 * number as i64 + 1, 2 * number as i64 + 2);
            database.execute(&stamp, (ids.0, start)).unwrap();
            database.execute(&stamp, (ids.1, end)).unwrap();
            let insert = format!("INSERT INTO \"{table}\" (kernel_id, start_id, end_id) VALUES (?1, ?2, ?3)");
            database.execute(&insert, (*kernel as i64, ids.0, ids.1)).unwrap();
        } else {
            let insert =
                format!("INSERT INTO \"{table}\" (kernel_id, agent_id, \"start\", \"end\") VALUES (?1, ?2, ?3, ?4)");
            database.execute(&insert, (*kernel as i64, *agent as i64, start, end)).unwrap();
        }
    }
}

const GUID: &str = "0000cafe-7d3b-7a01-9d1e-000000000001";
const GUID2: &str = "0000cafe-7d3b-7a01-9d1e-000000000002";

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn database(&self, name: &str, fill: impl FnOnce(&Connection)) -> PathBuf {
        let path = self.path(name);
        fill(&Connection::open(&path).unwrap());
        path
    }
}

fn inventory(path: &Path) -> Inventory {
    read(&[path], &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(path: &Path) -> String {
    match read(&[path], &ReadOptions::default()) {
        Err(error) => error.to_string(),
        Ok(inventory) => panic!("read as {inventory:#?}"),
    }
}

/// Canonical name, calls and time of every row.
fn rows(inventory: &Inventory) -> Vec<(String, u64, u64)> {
    inventory.rows.iter().map(|row| (row.kernel.clone(), row.calls, row.total_ns)).collect()
}

fn finding(inventory: &Inventory, code: &str) -> Option<String> {
    inventory.health.iter().find(|finding| finding.code == code).map(|finding| finding.message.clone())
}

/// The inventory of [`RUN`]: see its comment.
fn assert_run(inventory: &Inventory, times: u64) {
    let found: Vec<(u64, u64)> = inventory.rows.iter().map(|row| (row.calls, row.total_ns)).collect();
    assert_eq!(found, [(times, 500 * times), (2 * times, 100 * times)], "{inventory:#?}");
    for (code, count) in [("zero_durations", times), ("negative_durations", times), ("unset_times", times)] {
        let message = finding(inventory, code).unwrap_or_else(|| panic!("no {code}"));
        assert!(message.starts_with(&format!("{count} records")), "{message}");
    }
    assert!(finding(inventory, "truncated_names").is_none());
}

#[test]
fn the_formats_of_one_run_agree() {
    let files = Files::new();
    let by_csv = inventory(&files.put("a.csv", csv(RUN)));
    let by_json = inventory(&files.put("a.json", tool_json(&[process_json(7, RUN, true)])));
    let by_rocpd = inventory(&files.database("a.db", |database| add_process(database, GUID, Schema::V3, false, RUN)));
    assert_run(&by_csv, 1);
    assert_eq!(rows(&by_csv), rows(&by_json));
    assert_eq!(rows(&by_csv), rows(&by_rocpd));
    let families = |inventory: &Inventory| inventory.rows.iter().map(|row| row.category.clone()).collect::<Vec<_>>();
    assert_eq!(families(&by_csv), families(&by_json));
    assert_eq!(
        (by_json.source.dialect.as_str(), by_rocpd.source.dialect.as_str()),
        ("rocprofv3 JSON", "rocprofv3 rocpd")
    );
}

#[test]
fn json_joins_symbols_wherever_they_stand() {
    let files = Files::new();
    for symbols_first in [true, false] {
        let found = inventory(&files.put("a.json", tool_json(&[process_json(7, RUN, symbols_first)])));
        assert_run(&found, 1);
        assert_eq!(found.rows[0].kernel_raw, AXPY);
        // Agent 6 ran nothing and the CPU is none.
        assert_eq!(found.source.hints["arch"], "gfx942");
        assert_eq!(found.source.hints["device"], "AMD Instinct MI300X");
    }
}

#[test]
fn json_of_several_processes_adds_up() {
    let files = Files::new();
    // In the second process the numbers stand for the other kernel.
    let swapped = process_json(8, RUN, true).replace("\"kernel_id\": 1,", "\"kernel_id\": 3,");
    let swapped =
        swapped.replace("\"kernel_id\": 2,", "\"kernel_id\": 1,").replace("\"kernel_id\": 3,", "\"kernel_id\": 2,");
    let path = files.put("a.json", tool_json(&[process_json(7, RUN, true), swapped]));
    assert_run(&inventory(&path), 2);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&std::fs::read(&path).unwrap()).unwrap();
    assert_run(&inventory(&files.put("packed", encoder.finish().unwrap())), 2);
}

#[test]
fn json_cut_anywhere_keeps_the_whole_dispatches_before_the_cut() {
    let files = Files::new();
    let many: Vec<Dispatch> = (0..40).map(|number| (1, 4, 1000 * number + 1, 1000 * number + 11)).collect();
    let text = tool_json(&[process_json(7, &many, true)]);
    let first = text.find("\"kernel_dispatch\"").unwrap();
    let ends: Vec<usize> =
        text.match_indices("\"stream_id\"").map(|(at, _)| at + r#""stream_id": {"handle": 1}}"#.len()).collect();
    for cut in (first..text.len()).step_by(331).chain([text.len() - 1]) {
        let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
        let path = files.put("cut.json", &text[..cut]);
        if whole == 0 {
            assert!(refusal(&path).contains("cut off"));
            continue;
        }
        let found = inventory(&path);
        assert_eq!(rows(&found), [(found.rows[0].kernel.clone(), whole, 10 * whole)], "cut at {cut}");
        assert!(finding(&found, "truncated").unwrap().contains(&format!("the {whole} kernel dispatches")));
    }
    // Without the symbols, the dispatches keep their time.
    let records_first = tool_json(&[process_json(7, &many, false)]);
    let cut = records_first.find("\"kernel_symbols\"").unwrap();
    let found = inventory(&files.put("cut.json", &records_first[..cut]));
    assert_eq!(rows(&found), [("(unnamed kernel 1 of process 7)".to_owned(), 40, 400)]);
    assert!(finding(&found, "unnamed_kernels").unwrap().starts_with("40 dispatches (400 ns)"));
}

#[test]
fn json_without_a_kernel_trace_says_what_it_has() {
    let files = Files::new();
    let counters = r#"{"kernel_symbols": [], "callback_records": {"counter_collection": [{"dispatch_data": {}}, {}]}, "buffer_records": {"kernel_dispatch": []}}"#;
    let text = refusal(&files.put("a.json", tool_json(&[counters.to_owned()])));
    assert!(text.contains("counters of 2 dispatches") && text.contains("--kernel-trace"), "{text}");
    let text = refusal(&files.put("a.json", tool_json(&[process_json(7, &[], true)])));
    assert!(text.contains("no kernel dispatches"), "{text}");
    let both = process_json(7, RUN, true).replace(r#""counter_collection": []"#, r#""counter_collection": [{"a": 1}]"#);
    let found = inventory(&files.put("a.json", tool_json(&[both])));
    assert!(finding(&found, "counted_dispatches").unwrap().contains("counters of 1 dispatches"));
}

#[test]
fn each_schema_of_rocpd_is_read() {
    let files = Files::new();
    for (number, schema) in [Schema::V3, Schema::V4, Schema::Plain].into_iter().enumerate() {
        for truncated in [false, true] {
            let name = format!("{number}{truncated}.db");
            let path = files.database(&name, |database| add_process(database, GUID, schema, truncated, RUN));
            assert_eq!(sniff(&path).unwrap(), Dialect::Rocpd);
            let found = inventory(&path);
            assert_run(&found, 1);
            assert_eq!(found.rows[0].kernel_raw, if truncated { AXPY_MANGLED } else { AXPY });
            assert_eq!(found.source.hints["device"], "AMD Instinct MI300X");
        }
    }
}

#[test]
fn processes_of_merged_databases_count_once() {
    let files = Files::new();
    let one = files.database("1_results.db", |database| add_process(database, GUID, Schema::V3, false, RUN));
    let merged = files.database("merged.db", |database| {
        add_process(database, GUID, Schema::V3, false, RUN);
        add_process(database, GUID2, Schema::V4, true, RUN);
        // Views as the tool makes them; the endless one must never be run.
        database
            .execute_batch(
                "CREATE VIEW rocpd_kernel_dispatch AS WITH RECURSIVE n(kernel_id) AS (SELECT 1 UNION ALL SELECT kernel_id + 1 FROM n)
                 SELECT kernel_id, 1 AS start, 2 AS end FROM n;",
            )
            .unwrap();
    });
    assert_run(&inventory(&merged), 2);
    let both = read(&[&one, &merged], &ReadOptions::default()).unwrap();
    assert_run(&both, 2);
    assert!(finding(&both, "repeated_processes").unwrap().starts_with("1 processes"));
    assert_run(&inventory(files.0.path()), 2);
}

#[test]
fn a_folder_in_several_formats_is_read_once() {
    let files = Files::new();
    files.database("1_results.db", |database| add_process(database, GUID, Schema::V3, false, RUN));
    files.database("2_results.db", |database| add_process(database, GUID2, Schema::V3, false, RUN));
    files.put("1_results.json", tool_json(&[process_json(7, RUN, true)]));
    files.put("converted/1_kernel_trace.csv", csv(RUN));
    files.put("converted/1_kernel_stats.csv", "\"Name\",\"Calls\",\"TotalDurationNs\"\n\"f(int)\",1,5\n");
    let found = inventory(files.0.path());
    assert_run(&found, 2);
    assert_eq!(found.source.dialect, "rocprofv3 rocpd");
}

#[test]
fn other_databases_are_named() {
    let files = Files::new();
    let path = files.database("a.db", |database| database.execute_batch("CREATE TABLE notes (a TEXT)").unwrap());
    assert!(refusal(&path).contains("without rocpd's tables"));
    let path = files.database("b.db", |database| database.execute_batch("CREATE TABLE rocpd_op (id INTEGER)").unwrap());
    assert!(refusal(&path).contains("rocmProfileData"));
    let path = files.database("c.db", |database| {
        database.execute_batch("CREATE TABLE rocpd_kernel_dispatch_1 (kernel_id INTEGER, begin INTEGER)").unwrap();
    });
    let text = refusal(&path);
    assert!(text.contains("begin") && text.contains("schema version is unknown"), "{text}");
    let path = files.database("d.db", |database| add_process(database, GUID, Schema::V3, false, &[]));
    assert!(refusal(&path).contains("are empty"));
    let path = files.database("e.db", |database| add_process(database, GUID, Schema::V3, false, &RUN[3..]));
    assert!(refusal(&path).contains("none of its 3"));
}

#[test]
fn a_database_that_is_being_written_says_so() {
    let files = Files::new();
    let path = files.database("a.db", |database| add_process(database, GUID, Schema::V3, false, RUN));
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let text = refusal(&path);
    assert!(text.contains("another program"), "{text}");
    writer.execute_batch("ROLLBACK").unwrap();
    assert_run(&inventory(&path), 1);
}

#[test]
fn values_of_the_wrong_kind_are_counted() {
    let files = Files::new();
    let path = files.database("a.db", |database| {
        add_process(database, GUID, Schema::V3, false, RUN);
        let table = format!("rocpd_kernel_dispatch_{}", GUID.replace('-', "_"));
        let odd = format!(
            "INSERT INTO {table} (kernel_id, \"start\", \"end\") VALUES (NULL, 1, 2), (1, 'x', 5), (1, 1.5, 5), (1, -9223372036854775808, 9223372036854775807);"
        );
        database.execute_batch(&odd).unwrap();
    });
    let found = inventory(&path);
    assert!(finding(&found, "bad_rows").unwrap().starts_with("3 "));
    // The last one's start is no time either.
    assert!(finding(&found, "unset_times").unwrap().starts_with("2 "));
    assert_eq!(found.total_ns(), 600);
}
