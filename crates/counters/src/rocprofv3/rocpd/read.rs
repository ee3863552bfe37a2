//! Reading rocpd databases of schema 3, whoever wrote them.
//!
//! Only stored tables are read: a view runs what somebody wrote into the file. Tables are read one after the other and joined here, and a budget of
//! steps ends files whose pages point to each other in circles.

use crate::rocprofv3::{AGENT_COLUMNS, Agent, AgentKind, Dispatch, FileError, Kernel, Process, Run};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Steps of SQLite's machine between two looks at how many were taken.
const STEPS: i32 = 1000;
/// Steps that a byte of the file may cost: a row of a table takes more than 20 bytes and fewer than 200 steps.
const STEPS_PER_BYTE: u64 = 16;
/// Steps that any file may cost.
const FREE_STEPS: u64 = 4_000_000;
/// Most processes of one file.
const MAX_PROCESSES: usize = 1 << 12;
/// Names of dispatch tables start with this; what follows is the suffix of the process.
const DISPATCH: &str = "rocpd_kernel_dispatch";

/// Reads a database: a run for each process in it.
///
/// # Errors
/// A file that is no rocpd database, is damaged, or has another schema; each says what to do.
pub fn read(path: &Path) -> Result<Vec<Run>, FileError> {
    let failed = |error: rusqlite::Error| FileError::Database {
        path: path.to_owned(),
        what: format!(
            "the database cannot be read ({error}). Copy it again, or write it again with rocprofv3 -f rocpd"
        ),
    };
    let wrong = |what: String| FileError::Database { path: path.to_owned(), what };
    let bytes = std::fs::metadata(path).map_err(|cause| FileError::Io { path: path.to_owned(), cause })?.len();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    let reader = Reader::new(connection, bytes).map_err(failed)?;
    let sets = reader.sets();
    if sets.is_empty() {
        return Err(wrong("this is no rocpd database: it has no table of kernel dispatches".to_owned()));
    }
    let mut runs = Vec::with_capacity(sets.len());
    for suffix in sets {
        let columns = reader.columns(&format!("{DISPATCH}{suffix}")).map_err(failed)?;
        if !["start", "end", "kernel_id", "dispatch_id"].iter().all(|column| columns.contains(*column)) {
            return Err(wrong(
                "its schema is not 3.x (no start and end in its dispatches). Convert it with the rocpd of its own ROCm: rocpd convert -f csv".to_owned(),
            ));
        }
        runs.push(reader.run(&suffix).map_err(failed)?);
    }
    Ok(runs)
}

struct Reader {
    connection: Connection,
    stored: BTreeSet<String>,
}

impl Reader {
    fn new(mut connection: Connection, bytes: u64) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        let mut looks = (FREE_STEPS + bytes.saturating_mul(STEPS_PER_BYTE)) / u64::from(STEPS.unsigned_abs());
        let is_endless = move || {
            looks = looks.saturating_sub(1);
            looks == 0
        };
        connection.progress_handler(STEPS, Some(is_endless))?;
        let stored = {
            let mut statement =
                connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")?;
            let names = statement.query_map([], |row| row.get::<_, String>(0))?;
            names.collect::<rusqlite::Result<_>>()?
        };
        Ok(Self { connection, stored })
    }

    /// Suffixes of the processes' tables.
    fn sets(&self) -> Vec<String> {
        let names = self.stored.iter().filter_map(|name| name.strip_prefix(DISPATCH));
        names
            .filter(|suffix| suffix.is_empty() || suffix.starts_with('_'))
            .take(MAX_PROCESSES)
            .map(str::to_owned)
            .collect()
    }

    fn columns(&self, table: &str) -> rusqlite::Result<BTreeSet<String>> {
        if !self.stored.contains(table) {
            return Ok(BTreeSet::new());
        }
        let mut statement = self.connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let names = statement.query_map([table], |row| row.get::<_, String>(0))?;
        names.map(|name| name.map(|name| name.to_ascii_lowercase())).collect()
    }

    /// Hands every row of a table to `take`; columns that the version lacks are NULL, and a table that is not there has no rows.
    fn each(&self, table: &str, wanted: &[&str], mut take: impl FnMut(&Row<'_>)) -> rusqlite::Result<()> {
        let found = self.columns(table)?;
        if found.is_empty() {
            return Ok(());
        }
        let column = |name: &&str| if found.contains(*name) { format!("\"{name}\"") } else { "NULL".to_owned() };
        let columns: Vec<String> = wanted.iter().map(column).collect();
        let table = table.replace('"', "\"\"");
        let mut statement =
            self.connection.prepare(&format!("SELECT {} FROM \"{table}\" NOT INDEXED", columns.join(", ")))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            take(row);
        }
        Ok(())
    }

    fn run(&self, suffix: &str) -> rusqlite::Result<Run> {
        let table = |stem: &str| format!("{stem}{suffix}");
        let mut run = Run { process: self.process(suffix)?, ..Run::default() };
        let mut agents: HashMap<u64, u32> = HashMap::new();
        let columns = [
            "id",
            "type",
            "absolute_index",
            "logical_index",
            "name",
            "model_name",
            "vendor_name",
            "product_name",
            "extdata",
        ];
        self.each(&table("rocpd_info_agent"), &columns, |row| {
            let agent = agent(row);
            agents.insert(number(row, 0), agent.logical_node_id);
            run.agents.push(agent);
        })?;
        let columns = [
            "id",
            "kernel_name",
            "display_name",
            "group_segment_size",
            "private_segment_size",
            "sgpr_count",
            "arch_vgpr_count",
            "accum_vgpr_count",
        ];
        self.each(&table("rocpd_info_kernel_symbol"), &columns, |row| run.kernels.push(kernel(row)))?;
        let mut threads: HashMap<u64, u64> = HashMap::new();
        self.each(&table("rocpd_info_thread"), &["id", "tid"], |row| {
            threads.insert(number(row, 0), number(row, 1));
        })?;
        let mut correlations: HashMap<u64, u64> = HashMap::new();
        self.each(&table("rocpd_event"), &["id", "stack_id"], |row| {
            correlations.insert(number(row, 0), number(row, 1));
        })?;
        let mut events: HashMap<u64, usize> = HashMap::new();
        let columns = [
            "dispatch_id",
            "agent_id",
            "queue_id",
            "stream_id",
            "tid",
            "kernel_id",
            "start",
            "end",
            "private_segment_size",
            "group_segment_size",
            "workgroup_size_x",
            "workgroup_size_y",
            "workgroup_size_z",
            "grid_size_x",
            "grid_size_y",
            "grid_size_z",
            "event_id",
        ];
        self.each(&table(DISPATCH), &columns, |row| {
            let event = number(row, 16);
            events.insert(event, run.dispatches.len());
            run.dispatches.push(Dispatch {
                dispatch_id: number(row, 0),
                correlation_id: correlations.get(&event).copied().unwrap_or(0),
                agent: agents.get(&number(row, 1)).copied().unwrap_or(0),
                queue_id: number(row, 2),
                stream_id: number(row, 3),
                thread_id: threads.get(&number(row, 4)).copied().unwrap_or(0),
                kernel_id: number(row, 5),
                start_ns: number(row, 6),
                end_ns: number(row, 7),
                scratch_bytes: small(row, 8),
                lds_bytes: small(row, 9),
                workgroup: [small(row, 10), small(row, 11), small(row, 12)],
                grid: [number(row, 13), number(row, 14), number(row, 15)],
                counters: Default::default(),
            });
        })?;
        let mut names: HashMap<u64, String> = HashMap::new();
        self.each(&table("rocpd_info_pmc"), &["id", "name"], |row| {
            names.insert(number(row, 0), text(row, 1));
        })?;
        self.each(&table("rocpd_pmc_event"), &["event_id", "pmc_id", "value"], |row| {
            let dispatch = events.get(&number(row, 0)).and_then(|index| run.dispatches.get_mut(*index));
            if let (Some(dispatch), Some(name), Some(value)) = (dispatch, names.get(&number(row, 1)), real(row, 2)) {
                *dispatch.counters.entry(name.clone()).or_insert(0.0) += value;
            }
        })?;
        Ok(run)
    }

    fn process(&self, suffix: &str) -> rusqlite::Result<Process> {
        let mut process = Process::default();
        self.each(&format!("rocpd_info_process{suffix}"), &["pid", "command"], |row| {
            (process.pid, process.command) = (number(row, 0), text(row, 1));
        })?;
        self.each(&format!("rocpd_info_node{suffix}"), &["hostname"], |row| process.hostname = text(row, 0))?;
        Ok(process)
    }
}

fn agent(row: &Row<'_>) -> Agent {
    let more: Value = serde_json::from_str(&text(row, 8)).unwrap_or_default();
    let numbers = AGENT_COLUMNS.iter().filter_map(|column| {
        let key = column.to_ascii_lowercase();
        let nested = key.rsplit_once("_dim_").map(|(stem, axis)| &more[format!("{stem}_dim")][axis]);
        let value = match (key.as_str(), nested) {
            ("sdma_fw_version", _) => &more["sdma_fw_version"]["uCodeSDMA"],
            ("fw_version", _) => &more["fw_version"]["uCode"],
            ("node_id" | "logical_node_id", _) => return None,
            (_, Some(nested)) => nested,
            (key, None) => &more[key],
        };
        Some(((*column).to_owned(), value.as_u64().filter(|number| *number > 0)?))
    });
    Agent {
        node_id: small(row, 2),
        logical_node_id: small(row, 3),
        kind: if text(row, 1) == "GPU" { AgentKind::Gpu } else { AgentKind::Cpu },
        name: text(row, 4),
        model: text(row, 5),
        vendor: text(row, 6),
        product: text(row, 7),
        numbers: numbers.collect(),
    }
}

fn kernel(row: &Row<'_>) -> Kernel {
    let (mangled, display) = (text(row, 1), text(row, 2));
    Kernel {
        id: number(row, 0),
        name: if display.is_empty() { mangled.clone() } else { display },
        mangled,
        lds_bytes: small(row, 3),
        scratch_bytes: small(row, 4),
        sgprs: small(row, 5),
        vgprs: small(row, 6),
        agprs: small(row, 7),
    }
}

/// A number; 0 for what is none.
fn number(row: &Row<'_>, column: usize) -> u64 {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(number)) => number.cast_unsigned(),
        _ => 0,
    }
}

fn small(row: &Row<'_>, column: usize) -> u32 {
    u32::try_from(number(row, column)).unwrap_or(u32::MAX)
}

fn real(row: &Row<'_>, column: usize) -> Option<f64> {
    match row.get_ref(column) {
        Ok(ValueRef::Real(value)) => Some(value).filter(|value| value.is_finite()),
        Ok(ValueRef::Integer(value)) => Some(value as f64),
        _ => None,
    }
}

fn text(row: &Row<'_>, column: usize) -> String {
    match row.get_ref(column) {
        Ok(ValueRef::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}
