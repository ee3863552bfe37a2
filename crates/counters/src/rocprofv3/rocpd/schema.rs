//! Tables and views of rocpd's schema 3.

/// Version that the metadata states.
pub(super) const VERSION: &str = "3";

/// A table's columns behind `id` and `guid`, with their SQL types.
pub(super) type Columns = &'static [(&'static str, &'static str)];

/// Place in a run: node and process.
const NID: (&str, &str) = ("nid", "INTEGER NOT NULL");
const PID: (&str, &str) = ("pid", "INTEGER NOT NULL");
const START: (&str, &str) = ("start", "BIGINT NOT NULL");
const END: (&str, &str) = ("end", "BIGINT NOT NULL");
const EXTDATA: (&str, &str) = ("extdata", "JSONB DEFAULT '{}' NOT NULL");

/// All tables with a guid. `rocpd_metadata` has none and is made apart.
pub(super) const TABLES: &[(&str, Columns)] = &[
    ("rocpd_string", &[("string", "TEXT NOT NULL UNIQUE ON CONFLICT ABORT")]),
    (
        "rocpd_info_node",
        &[
            ("hash", "BIGINT NOT NULL UNIQUE"),
            ("machine_id", "TEXT NOT NULL UNIQUE"),
            ("system_name", "TEXT"),
            ("hostname", "TEXT"),
            ("release", "TEXT"),
            ("version", "TEXT"),
            ("hardware_name", "TEXT"),
            ("domain_name", "TEXT"),
        ],
    ),
    (
        "rocpd_info_process",
        &[
            NID,
            ("ppid", "INTEGER"),
            PID,
            ("init", "BIGINT"),
            ("fini", "BIGINT"),
            ("start", "BIGINT"),
            ("end", "BIGINT"),
            ("command", "TEXT"),
            ("environment", "JSONB DEFAULT '{}' NOT NULL"),
            EXTDATA,
        ],
    ),
    (
        "rocpd_info_thread",
        &[
            NID,
            ("ppid", "INTEGER"),
            PID,
            ("tid", "INTEGER NOT NULL"),
            ("name", "TEXT"),
            ("start", "BIGINT"),
            ("end", "BIGINT"),
            EXTDATA,
        ],
    ),
    (
        "rocpd_info_agent",
        &[
            NID,
            PID,
            ("type", "TEXT CHECK (\"type\" IN ('CPU', 'GPU'))"),
            ("absolute_index", "INTEGER"),
            ("logical_index", "INTEGER"),
            ("type_index", "INTEGER"),
            ("uuid", "INTEGER"),
            ("name", "TEXT"),
            ("model_name", "TEXT"),
            ("vendor_name", "TEXT"),
            ("product_name", "TEXT"),
            ("user_name", "TEXT"),
            EXTDATA,
        ],
    ),
    ("rocpd_info_queue", &[NID, PID, ("name", "TEXT"), EXTDATA]),
    ("rocpd_info_stream", &[NID, PID, ("name", "TEXT"), EXTDATA]),
    (
        "rocpd_info_pmc",
        &[
            NID,
            PID,
            ("agent_id", "INTEGER"),
            ("target_arch", "TEXT CHECK (\"target_arch\" IN ('CPU', 'GPU'))"),
            ("event_code", "INT"),
            ("instance_id", "INTEGER"),
            ("name", "TEXT NOT NULL"),
            ("symbol", "TEXT NOT NULL"),
            ("description", "TEXT"),
            ("long_description", "TEXT DEFAULT ''"),
            ("component", "TEXT"),
            ("units", "TEXT DEFAULT ''"),
            ("value_type", "TEXT CHECK (\"value_type\" IN ('ABS', 'ACCUM', 'RELATIVE'))"),
            ("block", "TEXT"),
            ("expression", "TEXT"),
            ("is_constant", "INTEGER"),
            ("is_derived", "INTEGER"),
            EXTDATA,
        ],
    ),
    (
        "rocpd_info_code_object",
        &[
            NID,
            PID,
            ("agent_id", "INTEGER"),
            ("uri", "TEXT"),
            ("load_base", "BIGINT"),
            ("load_size", "BIGINT"),
            ("load_delta", "BIGINT"),
            ("storage_type", "TEXT CHECK (\"storage_type\" IN ('FILE', 'MEMORY'))"),
            EXTDATA,
        ],
    ),
    (
        "rocpd_info_kernel_symbol",
        &[
            NID,
            PID,
            ("code_object_id", "INTEGER NOT NULL"),
            ("kernel_name", "TEXT"),
            ("display_name", "TEXT"),
            ("kernel_object", "INTEGER"),
            ("kernarg_segment_size", "INTEGER"),
            ("kernarg_segment_alignment", "INTEGER"),
            ("group_segment_size", "INTEGER"),
            ("private_segment_size", "INTEGER"),
            ("sgpr_count", "INTEGER"),
            ("arch_vgpr_count", "INTEGER"),
            ("accum_vgpr_count", "INTEGER"),
            EXTDATA,
        ],
    ),
    ("rocpd_track", &[NID, ("pid", "INTEGER"), ("tid", "INTEGER"), ("name_id", "INTEGER"), EXTDATA]),
    (
        "rocpd_event",
        &[
            ("category_id", "INTEGER"),
            ("stack_id", "INTEGER"),
            ("parent_stack_id", "INTEGER"),
            ("correlation_id", "INTEGER"),
            ("call_stack", "JSONB DEFAULT '{}' NOT NULL"),
            ("line_info", "JSONB DEFAULT '{}' NOT NULL"),
            EXTDATA,
        ],
    ),
    (
        "rocpd_arg",
        &[
            ("event_id", "INTEGER NOT NULL"),
            ("position", "INTEGER NOT NULL"),
            ("type", "TEXT NOT NULL"),
            ("name", "TEXT NOT NULL"),
            ("value", "TEXT"),
            EXTDATA,
        ],
    ),
    (
        "rocpd_pmc_event",
        &[
            ("event_id", "INTEGER"),
            ("pmc_id", "INTEGER NOT NULL"),
            ("value", "REAL DEFAULT 0.0"),
            ("extdata", "JSONB DEFAULT '{}'"),
        ],
    ),
    (
        "rocpd_region",
        &[
            NID,
            PID,
            ("tid", "INTEGER NOT NULL"),
            START,
            END,
            ("name_id", "INTEGER NOT NULL"),
            ("event_id", "INTEGER"),
            EXTDATA,
        ],
    ),
    (
        "rocpd_sample",
        &[("track_id", "INTEGER NOT NULL"), ("timestamp", "BIGINT NOT NULL"), ("event_id", "INTEGER"), EXTDATA],
    ),
    (
        "rocpd_kernel_dispatch",
        &[
            NID,
            PID,
            ("tid", "INTEGER"),
            ("agent_id", "INTEGER NOT NULL"),
            ("kernel_id", "INTEGER NOT NULL"),
            ("dispatch_id", "INTEGER NOT NULL"),
            ("queue_id", "INTEGER NOT NULL"),
            ("stream_id", "INTEGER NOT NULL"),
            START,
            END,
            ("private_segment_size", "INTEGER"),
            ("group_segment_size", "INTEGER"),
            ("workgroup_size_x", "INTEGER NOT NULL"),
            ("workgroup_size_y", "INTEGER NOT NULL"),
            ("workgroup_size_z", "INTEGER NOT NULL"),
            ("grid_size_x", "INTEGER NOT NULL"),
            ("grid_size_y", "INTEGER NOT NULL"),
            ("grid_size_z", "INTEGER NOT NULL"),
            ("region_name_id", "INTEGER"),
            ("event_id", "INTEGER"),
            EXTDATA,
        ],
    ),
    (
        "rocpd_memory_copy",
        &[
            NID,
            PID,
            ("tid", "INTEGER"),
            START,
            END,
            ("name_id", "INTEGER NOT NULL"),
            ("dst_agent_id", "INTEGER"),
            ("dst_address", "INTEGER"),
            ("src_agent_id", "INTEGER"),
            ("src_address", "INTEGER"),
            ("size", "INTEGER NOT NULL"),
            ("queue_id", "INTEGER"),
            ("stream_id", "INTEGER"),
            ("region_name_id", "INTEGER"),
            ("event_id", "INTEGER"),
            EXTDATA,
        ],
    ),
    (
        "rocpd_memory_allocate",
        &[
            NID,
            PID,
            ("tid", "INTEGER"),
            ("agent_id", "INTEGER"),
            ("type", "TEXT CHECK (\"type\" IN ('ALLOC', 'FREE', 'REALLOC', 'RECLAIM'))"),
            ("level", "TEXT CHECK (\"level\" IN ('REAL', 'VIRTUAL', 'SCRATCH'))"),
            START,
            END,
            ("address", "INTEGER"),
            ("size", "INTEGER NOT NULL"),
            ("queue_id", "INTEGER"),
            ("stream_id", "INTEGER"),
            ("event_id", "INTEGER"),
            EXTDATA,
        ],
    ),
];

/// Statements that make the tables and views of one process.
pub(super) fn statements(guid: &str, suffix: &str) -> String {
    let mut sql = format!(
        "CREATE TABLE \"rocpd_metadata{suffix}\" (\"id\" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, \"tag\" TEXT NOT NULL, \"value\" TEXT NOT NULL);\n\
         CREATE VIEW \"rocpd_metadata\" AS SELECT * FROM \"rocpd_metadata{suffix}\";\n"
    );
    for (table, columns) in TABLES {
        let columns: Vec<String> = columns.iter().map(|(name, kind)| format!("\"{name}\" {kind}")).collect();
        sql += &format!(
            "CREATE TABLE \"{table}{suffix}\" (\"id\" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, \"guid\" TEXT DEFAULT '{guid}' NOT NULL, {});\n\
             CREATE VIEW \"{table}\" AS SELECT * FROM \"{table}{suffix}\";\n",
            columns.join(", ")
        );
    }
    sql + VIEWS
}

/// Views for people and tools, over the plain names. Their names and columns are rocpd's interface.
const VIEWS: &str = "
CREATE VIEW kernel_symbols AS
    SELECT s.id, s.guid, s.nid, p.pid, s.code_object_id, s.kernel_name, s.display_name, s.kernel_object, s.kernarg_segment_size,
        s.kernarg_segment_alignment, s.group_segment_size, s.private_segment_size, s.sgpr_count, s.arch_vgpr_count, s.accum_vgpr_count
    FROM rocpd_info_kernel_symbol s JOIN rocpd_info_process p ON p.id = s.pid AND p.guid = s.guid;
CREATE VIEW processes AS
    SELECT n.id AS nid, n.machine_id, n.system_name, n.hostname, n.release AS system_release, n.version AS system_version, p.guid, p.ppid, p.pid,
        p.init, p.start, p.\"end\", p.fini, p.command
    FROM rocpd_info_process p JOIN rocpd_info_node n ON n.id = p.nid AND n.guid = p.guid;
CREATE VIEW threads AS
    SELECT n.id AS nid, n.machine_id, n.system_name, n.hostname, n.release AS system_release, n.version AS system_version, p.guid, p.ppid, p.pid,
        t.tid, t.start, t.\"end\", t.name
    FROM rocpd_info_thread t JOIN rocpd_info_process p ON p.id = t.pid AND p.guid = t.guid JOIN rocpd_info_node n ON n.id = t.nid AND n.guid = t.guid;
CREATE VIEW kernels AS
    SELECT d.id, d.guid, t.tid, c.string AS category, r.string AS region, s.display_name AS name, d.nid, p.pid, a.absolute_index AS agent_abs_index,
        a.logical_index AS agent_log_index, a.type_index AS agent_type_index, a.type AS agent_type, s.code_object_id, d.kernel_id, d.dispatch_id,
        d.stream_id, d.queue_id, q.name AS queue, st.name AS stream, d.start, d.\"end\", d.\"end\" - d.start AS duration,
        d.grid_size_x AS grid_x, d.grid_size_y AS grid_y, d.grid_size_z AS grid_z,
        d.workgroup_size_x AS workgroup_x, d.workgroup_size_y AS workgroup_y, d.workgroup_size_z AS workgroup_z,
        d.group_segment_size AS lds_size, d.private_segment_size AS scratch_size, s.arch_vgpr_count AS vgpr_count, s.accum_vgpr_count, s.sgpr_count,
        s.group_segment_size AS static_lds_size, s.private_segment_size AS static_scratch_size, e.stack_id, e.parent_stack_id, e.correlation_id AS corr_id
    FROM rocpd_kernel_dispatch d
        JOIN rocpd_info_agent a ON a.id = d.agent_id AND a.guid = d.guid
        JOIN rocpd_event e ON e.id = d.event_id AND e.guid = d.guid
        JOIN rocpd_info_kernel_symbol s ON s.id = d.kernel_id AND s.guid = d.guid
        JOIN rocpd_info_process p ON p.id = d.pid AND p.guid = d.guid
        JOIN rocpd_info_thread t ON t.id = d.tid AND t.guid = d.guid
        LEFT JOIN rocpd_string r ON r.id = d.region_name_id AND r.guid = d.guid
        LEFT JOIN rocpd_string c ON c.id = e.category_id AND c.guid = d.guid
        LEFT JOIN rocpd_info_queue q ON q.id = d.queue_id AND q.guid = d.guid
        LEFT JOIN rocpd_info_stream st ON st.id = d.stream_id AND st.guid = d.guid;
CREATE VIEW pmc_info AS
    SELECT i.id, i.guid, i.nid, p.pid, a.absolute_index AS agent_abs_index, i.is_constant, i.is_derived, i.name, i.description, i.block, i.expression
    FROM rocpd_info_pmc i JOIN rocpd_info_agent a ON a.id = i.agent_id AND a.guid = i.guid JOIN rocpd_info_process p ON p.id = i.pid AND p.guid = i.guid;
CREATE VIEW pmc_events AS
    SELECT v.id, v.guid, v.pmc_id, v.event_id, c.string AS category, s.display_name AS name, d.nid, p.pid, d.dispatch_id, d.start, d.\"end\",
        d.\"end\" - d.start AS duration, i.name AS counter_name, v.value AS counter_value
    FROM rocpd_pmc_event v
        JOIN rocpd_info_pmc i ON i.id = v.pmc_id AND i.guid = v.guid
        JOIN rocpd_event e ON e.id = v.event_id AND e.guid = v.guid
        JOIN rocpd_kernel_dispatch d ON d.event_id = v.event_id AND d.guid = v.guid
        JOIN rocpd_info_kernel_symbol s ON s.id = d.kernel_id AND s.guid = d.guid
        JOIN rocpd_info_process p ON p.id = d.pid AND p.guid = d.guid
        LEFT JOIN rocpd_string c ON c.id = e.category_id AND c.guid = e.guid;
CREATE VIEW counters_collection AS
    SELECT MIN(v.id) AS id, v.guid, d.dispatch_id, d.kernel_id, e.id AS event_id, e.correlation_id, e.stack_id, e.parent_stack_id, p.pid, t.tid, d.agent_id,
        a.absolute_index AS agent_abs_index, a.logical_index AS agent_log_index, a.type_index AS agent_type_index, a.type AS agent_type, d.queue_id,
        d.grid_size_x, d.grid_size_y, d.grid_size_z, d.grid_size_x * d.grid_size_y * d.grid_size_z AS grid_size, s.display_name AS kernel_name,
        r.string AS kernel_region, d.workgroup_size_x, d.workgroup_size_y, d.workgroup_size_z,
        d.workgroup_size_x * d.workgroup_size_y * d.workgroup_size_z AS workgroup_size, d.group_segment_size AS lds_block_size,
        d.private_segment_size AS scratch_size, s.arch_vgpr_count AS vgpr_count, s.accum_vgpr_count, s.sgpr_count, i.name AS counter_name,
        i.symbol AS counter_symbol, i.component, i.description, i.block, i.expression, i.value_type, i.id AS counter_id, SUM(v.value) AS value, d.start,
        d.\"end\", i.is_constant, i.is_derived, d.\"end\" - d.start AS duration, c.string AS category, d.nid, e.extdata, s.code_object_id
    FROM rocpd_pmc_event v
        JOIN rocpd_info_pmc i ON i.id = v.pmc_id AND i.guid = v.guid
        JOIN rocpd_event e ON e.id = v.event_id AND e.guid = v.guid
        JOIN rocpd_kernel_dispatch d ON d.event_id = v.event_id AND d.guid = v.guid
        JOIN rocpd_info_agent a ON a.id = d.agent_id AND a.guid = d.guid
        JOIN rocpd_info_kernel_symbol s ON s.id = d.kernel_id AND s.guid = d.guid
        JOIN rocpd_info_process p ON p.id = d.pid AND p.guid = d.guid
        JOIN rocpd_info_thread t ON t.id = d.tid AND t.guid = d.guid
        LEFT JOIN rocpd_string r ON r.id = d.region_name_id AND r.guid = d.guid
        LEFT JOIN rocpd_string c ON c.id = e.category_id AND c.guid = e.guid
    GROUP BY v.guid, d.dispatch_id, i.name, d.agent_id;
";
