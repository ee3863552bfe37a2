//! Writing a run as a rocpd database.

use super::{Guid, schema};
use crate::catalog::{Catalog, Found};
use crate::rocprofv3::{Agent, AgentKind, FileError, Run};
use rusqlite::{Connection, Transaction, params};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// The one node, process and code object of a file.
const ONE: i64 = 1;

/// Writes a run to a database, which replaces a file of that name once it is complete. `catalog` gives descriptions of counters where it knows them.
///
/// # Errors
/// SQLite's or the operating system's; a dispatch of a kernel or an agent that the run does not hold.
pub fn write(path: &Path, run: &Run, guid: Guid, catalog: Option<&Catalog>) -> Result<(), FileError> {
    check(run)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    let partial = PathBuf::from(name);
    let io = |cause| FileError::Io { path: path.to_owned(), cause };
    if partial.exists() {
        std::fs::remove_file(&partial).map_err(io)?;
    }
    let written = Connection::open(&partial).and_then(|connection| fill(connection, run, guid, catalog));
    if let Err(error) = written {
        // What is left of it is of no use; that it cannot be removed is the smaller problem.
        let _ = std::fs::remove_file(&partial);
        return Err(FileError::Database { path: path.to_owned(), what: format!("SQLite cannot write it: {error}") });
    }
    std::fs::rename(&partial, path).map_err(io)
}

/// Every dispatch must have its kernel and agent, or views would leave it out in silence.
fn check(run: &Run) -> Result<(), FileError> {
    let agents: BTreeSet<u32> = run.agents.iter().map(|agent| agent.logical_node_id).collect();
    let kernels: BTreeSet<u64> = run.kernels.iter().map(|kernel| kernel.id).collect();
    for dispatch in &run.dispatches {
        let dangling = |what| FileError::Dangling { dispatch_id: dispatch.dispatch_id, what };
        if !kernels.contains(&dispatch.kernel_id) {
            return Err(dangling(format!("kernel {}", dispatch.kernel_id)));
        }
        if !agents.contains(&dispatch.agent) {
            return Err(dangling(format!("agent {}", dispatch.agent)));
        }
    }
    Ok(())
}

fn fill(mut connection: Connection, run: &Run, guid: Guid, catalog: Option<&Catalog>) -> rusqlite::Result<()> {
    // The file is renamed when it is complete: no journal is needed for what nobody else sees.
    connection.pragma_update(None, "journal_mode", "OFF")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(&schema::statements(&guid.to_string(), &guid.suffix()))?;
    let mut writer = Writer { transaction: &transaction, suffix: guid.suffix(), strings: HashMap::new() };
    writer.surroundings(run, guid)?;
    writer.kernels(run)?;
    let pmcs = writer.counters(run, catalog)?;
    writer.dispatches(run, &pmcs)?;
    transaction.commit()
}

/// Numbers of files are signed; the profiler's handles use all 64 bits.
fn signed(number: u64) -> i64 {
    number.cast_signed()
}

struct Writer<'t> {
    transaction: &'t Transaction<'t>,
    suffix: String,
    strings: HashMap<String, i64>,
}

impl Writer<'_> {
    /// `INSERT INTO table (columns) VALUES (?, ...)`.
    fn insert(&self, table: &str, columns: &str) -> String {
        let holes = vec!["?"; columns.split(',').count()].join(", ");
        format!("INSERT INTO \"{table}{}\" ({columns}) VALUES ({holes})", self.suffix)
    }

    fn string(&mut self, text: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.strings.get(text) {
            return Ok(*id);
        }
        self.transaction.prepare_cached(&self.insert("rocpd_string", "string"))?.execute([text])?;
        let id = self.transaction.last_insert_rowid();
        self.strings.insert(text.to_owned(), id);
        Ok(id)
    }

    fn surroundings(&self, run: &Run, guid: Guid) -> rusqlite::Result<()> {
        let metadata = self.insert("rocpd_metadata", "tag, value");
        let tags =
            [("schema_version", schema::VERSION.to_owned()), ("uuid", guid.suffix()), ("guid", guid.to_string())];
        for (tag, value) in tags {
            self.transaction.prepare_cached(&metadata)?.execute(params![tag, value])?;
        }
        let host = &run.process.hostname;
        let node = self.insert("rocpd_info_node", "id, hash, machine_id, system_name, hostname");
        self.transaction.execute(&node, params![ONE, ONE, host, "Linux", host])?;
        let times = run.dispatches.iter().map(|dispatch| (dispatch.start_ns, dispatch.end_ns));
        let (start, end) = times.fold((u64::MAX, 0), |(start, end), (from, to)| (start.min(from), end.max(to)));
        let process = self.insert("rocpd_info_process", "id, nid, pid, init, fini, start, \"end\", command");
        let (start, end) = (signed(start.min(end)), signed(end));
        self.transaction.execute(
            &process,
            params![ONE, ONE, signed(run.process.pid), start, end, start, end, run.process.command],
        )?;
        self.agents(run)
    }

    fn agents(&self, run: &Run) -> rusqlite::Result<()> {
        let insert = self.insert(
            "rocpd_info_agent",
            "id, nid, pid, type, absolute_index, logical_index, type_index, uuid, name, model_name, vendor_name, product_name, user_name, extdata",
        );
        let mut of_type: BTreeMap<&str, i64> = BTreeMap::new();
        for (id, agent) in (ONE..).zip(&run.agents) {
            let index = of_type.entry(agent.kind.name()).or_insert(-1);
            *index += 1;
            let uuid = agent.numbers.get("Gpu_Id").copied().unwrap_or(0);
            self.transaction.prepare_cached(&insert)?.execute(params![
                id,
                ONE,
                ONE,
                agent.kind.name(),
                agent.node_id,
                agent.logical_node_id,
                *index,
                signed(uuid),
                agent.name,
                agent.model,
                agent.vendor,
                agent.product,
                "",
                extdata(agent).to_string(),
            ])?;
        }
        Ok(())
    }

    fn kernels(&self, run: &Run) -> rusqlite::Result<()> {
        let object = self.insert("rocpd_info_code_object", "id, nid, pid, agent_id, uri, storage_type");
        self.transaction.execute(&object, params![ONE, ONE, ONE, gpu(run), "memory://", "MEMORY"])?;
        let insert = self.insert(
            "rocpd_info_kernel_symbol",
            "id, nid, pid, code_object_id, kernel_name, display_name, group_segment_size, private_segment_size, sgpr_count, arch_vgpr_count, accum_vgpr_count, extdata",
        );
        for kernel in &run.kernels {
            let mangled = if kernel.mangled.is_empty() { &kernel.name } else { &kernel.mangled };
            let more = json!({
                "kernel_id": kernel.id,
                "formatted_kernel_name": kernel.name,
                "demangled_kernel_name": kernel.name,
                "truncated_kernel_name": kernel.name,
            });
            self.transaction.prepare_cached(&insert)?.execute(params![
                signed(kernel.id),
                ONE,
                ONE,
                ONE,
                mangled,
                kernel.name,
                kernel.lds_bytes,
                kernel.scratch_bytes,
                kernel.sgprs,
                kernel.vgprs,
                kernel.agprs,
                more.to_string(),
            ])?;
        }
        Ok(())
    }

    /// Describes the counters; their numbers by agent and name.
    fn counters<'r>(&self, run: &'r Run, catalog: Option<&Catalog>) -> rusqlite::Result<HashMap<(u32, &'r str), i64>> {
        let insert = self.insert(
            "rocpd_info_pmc",
            "id, nid, pid, agent_id, target_arch, event_code, instance_id, name, symbol, description, component, units, value_type, block, expression, is_constant, is_derived",
        );
        let names =
            run.dispatches.iter().flat_map(|one| one.counters.keys().map(move |name| (one.agent, name.as_str())));
        let names: BTreeSet<(u32, &str)> = names.collect();
        let rows: HashMap<u32, i64> = (ONE..).zip(&run.agents).map(|(id, agent)| (agent.logical_node_id, id)).collect();
        let mut ids = HashMap::new();
        for (id, (agent, name)) in (ONE..).zip(names) {
            let (description, units, block, expression) = describe(catalog, name);
            let is_derived = i64::from(!expression.is_empty());
            self.transaction.prepare_cached(&insert)?.execute(params![
                id,
                ONE,
                ONE,
                rows.get(&agent),
                "GPU",
                0,
                0,
                name,
                name,
                description,
                "rocprofiler-sdk",
                units,
                "ABS",
                block,
                expression,
                0,
                is_derived
            ])?;
            ids.insert((agent, name), id);
        }
        Ok(ids)
    }

    fn dispatches(&mut self, run: &Run, pmcs: &HashMap<(u32, &str), i64>) -> rusqlite::Result<()> {
        let category = self.string("KERNEL_DISPATCH")?;
        let agents: HashMap<u32, i64> =
            (ONE..).zip(&run.agents).map(|(id, agent)| (agent.logical_node_id, id)).collect();
        let mut regions: HashMap<u64, i64> = HashMap::new();
        for kernel in &run.kernels {
            let region = self.string(&kernel.name)?;
            regions.insert(kernel.id, region);
        }
        let threads = self.places(run)?;
        let event = self.insert("rocpd_event", "id, category_id, stack_id, parent_stack_id, correlation_id");
        let value = self.insert("rocpd_pmc_event", "event_id, pmc_id, value");
        let insert = self.insert(
            "rocpd_kernel_dispatch",
            "nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start, \"end\", private_segment_size, group_segment_size, workgroup_size_x, \
             workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, region_name_id, event_id",
        );
        for (id, dispatch) in (ONE..).zip(&run.dispatches) {
            let correlation = signed(dispatch.correlation_id);
            self.transaction.prepare_cached(&event)?.execute(params![id, category, correlation, 0, correlation])?;
            let ([wx, wy, wz], [gx, gy, gz]) = (dispatch.workgroup, dispatch.grid);
            self.transaction.prepare_cached(&insert)?.execute(params![
                ONE,
                ONE,
                threads.get(&dispatch.thread_id),
                agents.get(&dispatch.agent),
                signed(dispatch.kernel_id),
                signed(dispatch.dispatch_id),
                signed(dispatch.queue_id),
                signed(dispatch.stream_id),
                signed(dispatch.start_ns),
                signed(dispatch.end_ns),
                dispatch.scratch_bytes,
                dispatch.lds_bytes,
                wx,
                wy,
                wz,
                signed(gx),
                signed(gy),
                signed(gz),
                regions.get(&dispatch.kernel_id),
                id,
            ])?;
            for (name, counted) in &dispatch.counters {
                let pmc = pmcs.get(&(dispatch.agent, name.as_str()));
                self.transaction.prepare_cached(&value)?.execute(params![id, pmc, counted])?;
            }
        }
        Ok(())
    }

    /// Queues, streams and threads of the dispatches; the threads' row numbers.
    fn places(&self, run: &Run) -> rusqlite::Result<HashMap<u64, i64>> {
        let queues: BTreeSet<u64> = run.dispatches.iter().map(|dispatch| dispatch.queue_id).collect();
        let streams: BTreeSet<u64> = run.dispatches.iter().map(|dispatch| dispatch.stream_id).collect();
        for (table, ids, what) in [("rocpd_info_queue", queues, "Queue"), ("rocpd_info_stream", streams, "Stream")] {
            let insert = self.insert(table, "id, nid, pid, name");
            for id in ids {
                self.transaction.prepare_cached(&insert)?.execute(params![
                    signed(id),
                    ONE,
                    ONE,
                    format!("{what} {id}")
                ])?;
            }
        }
        let threads: BTreeSet<u64> = run.dispatches.iter().map(|dispatch| dispatch.thread_id).collect();
        let insert = self.insert("rocpd_info_thread", "id, nid, pid, tid, name");
        let mut rows = HashMap::new();
        for (row, thread) in (ONE..).zip(threads) {
            self.transaction.prepare_cached(&insert)?.execute(params![
                row,
                ONE,
                ONE,
                signed(thread),
                format!("Thread {thread}")
            ])?;
            rows.insert(thread, row);
        }
        Ok(rows)
    }
}

/// Row of the first device.
fn gpu(run: &Run) -> Option<i64> {
    (ONE..).zip(&run.agents).find(|(_, agent)| agent.kind == AgentKind::Gpu).map(|(id, _)| id)
}

/// Description, unit, block and expression of a counter.
fn describe(catalog: Option<&Catalog>, name: &str) -> (String, String, String, String) {
    match catalog.map(|catalog| catalog.find(name)) {
        Some(Ok(Found::Counter(counter))) => {
            (counter.description.clone(), counter.unit.clone(), counter.block.clone(), String::new())
        }
        Some(Ok(Found::Metric(metric))) => {
            (metric.text.clone(), metric.unit.clone(), String::new(), metric.formula.text().to_owned())
        }
        Some(Err(_)) | None => Default::default(),
    }
}

/// The agent's columns as the JSON that rocpd keeps beside it: the driver's names, sizes in three dimensions and firmware versions as objects.
fn extdata(agent: &Agent) -> Value {
    let mut map = Map::new();
    map.insert("node_id".to_owned(), json!(agent.node_id));
    map.insert("logical_node_id".to_owned(), json!(agent.logical_node_id));
    map.insert("vendor_name".to_owned(), json!(agent.vendor));
    map.insert("product_name".to_owned(), json!(agent.product));
    for (column, number) in &agent.numbers {
        let key = column.to_ascii_lowercase();
        let (outer, inner) = match key.as_str() {
            "sdma_fw_version" => (key.as_str(), Some("uCodeSDMA")),
            "fw_version" => (key.as_str(), Some("uCode")),
            "workgroup_max_dim_x" | "grid_max_dim_x" => (key.trim_end_matches("_x"), Some("x")),
            "workgroup_max_dim_y" | "grid_max_dim_y" => (key.trim_end_matches("_y"), Some("y")),
            "workgroup_max_dim_z" | "grid_max_dim_z" => (key.trim_end_matches("_z"), Some("z")),
            _ => (key.as_str(), None),
        };
        match inner {
            None => {
                map.insert(outer.to_owned(), json!(number));
            }
            Some(inner) => {
                let object = map.entry(outer).or_insert_with(|| json!({}));
                if let Value::Object(object) = object {
                    object.insert(inner.to_owned(), json!(number));
                }
            }
        }
    }
    Value::Object(map)
}
