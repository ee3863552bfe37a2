//! Which tables and columns a rocpd database has: the schema changes with ROCm's versions.

use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// Names of dispatch tables start with this; what follows is the suffix of the set.
const DISPATCH: &str = "rocpd_kernel_dispatch";
/// Most sets of tables in one file; a merged run of many nodes has thousands of processes.
const MAX_SETS: usize = 1 << 16;

/// One process's (or, unsuffixed, everybody's) set of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tables {
    /// Name of the table of dispatches.
    pub(super) dispatch: String,
    /// `_0000cafe_...`, or empty.
    suffix: String,
}

impl Tables {
    fn name(&self, stem: &str) -> String {
        format!("{stem}{}", self.suffix)
    }
}

/// The tables that are stored in the file. A view or a virtual table runs what somebody wrote into the file, and rocpd's views only unite the tables:
/// they are left aside.
pub(super) struct Schema<'c> {
    connection: &'c Connection,
    stored: BTreeSet<String>,
}

impl<'c> Schema<'c> {
    /// Lists the tables.
    pub(super) fn read(connection: &'c Connection) -> rusqlite::Result<Self> {
        let mut statement =
            connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0")?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        let stored = names.collect::<rusqlite::Result<_>>()?;
        Ok(Self { connection, stored })
    }

    /// True when the file stores a table of this name.
    pub(super) fn has_table(&self, name: &str) -> bool {
        self.stored.contains(name)
    }

    /// The sets of tables that have dispatches, by suffix.
    pub(super) fn sets(&self) -> Vec<Tables> {
        let names = self.stored.range(DISPATCH.to_owned()..).take_while(|name| name.starts_with(DISPATCH));
        let sets = names.map(|name| Tables { dispatch: name.clone(), suffix: name[DISPATCH.len()..].to_owned() });
        let mut sets: Vec<Tables> =
            sets.filter(|set| set.suffix.is_empty() || set.suffix.starts_with('_')).take(MAX_SETS).collect();
        // A plain table beside suffixed ones is somebody's copy of a view.
        if sets.iter().any(|set| !set.suffix.is_empty()) {
            sets.retain(|set| !set.suffix.is_empty());
        }
        sets
    }

    /// The columns of a table and whether each is (the first of) its primary key; none when there is no such table. Computed columns are not among
    /// them.
    fn columns_of(&self, table: &str) -> rusqlite::Result<BTreeMap<String, bool>> {
        if !self.has_table(table) {
            return Ok(BTreeMap::new());
        }
        let mut statement = self.connection.prepare_cached("SELECT name, pk FROM pragma_table_info(?1)")?;
        let columns = statement.query_map([table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)? == 1)))?;
        columns.map(|column| column.map(|(name, is_key)| (name.to_ascii_lowercase(), is_key))).collect()
    }

    /// The columns of a set's dispatches, or a sentence on what is missing.
    pub(super) fn dispatch_columns(&self, tables: &Tables) -> rusqlite::Result<Result<Columns, String>> {
        let found = self.columns_of(&tables.dispatch)?;
        let stamps = tables.name("rocpd_timestamp");
        let times = if has(&found, &["start", "end"]) {
            Some(Times::Own)
        } else if has(&found, &["start_id", "end_id"]) && self.are_stamps(&stamps)? {
            Some(Times::Table(stamps))
        } else {
            None
        };
        Ok(match times {
            Some(times) if has(&found, &["kernel_id"]) => Ok(Columns {
                table: tables.dispatch.clone(),
                has_guid: has(&found, &["guid"]),
                has_agent: has(&found, &["agent_id"]),
                times,
            }),
            _ => {
                let found: Vec<&str> = found.keys().take(40).map(String::as_str).collect();
                let version = self.version(tables).unwrap_or_else(|| "unknown".to_owned());
                Err(format!(
                    "its table `{}` has neither the columns of schema 3 (kernel_id, start, end) nor those of schema 4 (kernel_id, start_id, end_id \
                     with a table of timestamps); its schema version is {version}, its columns are: {}. Convert it to CSV with the rocpd of its own \
                     ROCm version: rocpd convert -f csv",
                    shortened(&tables.dispatch),
                    shortened(&found.join(", "))
                ))
            }
        })
    }

    /// True for a table of timestamps that can be looked up by `id` without a scan.
    fn are_stamps(&self, table: &str) -> rusqlite::Result<bool> {
        let columns = self.columns_of(table)?;
        Ok(columns.get("id") == Some(&true) && columns.contains_key("value"))
    }

    /// The schema version that the set's metadata states.
    fn version(&self, tables: &Tables) -> Option<String> {
        let metadata = tables.name("rocpd_metadata");
        if !has(&self.columns_of(&metadata).ok()?, &["tag", "value"]) {
            return None;
        }
        let query = format!("SELECT value FROM {} WHERE tag = 'schema_version' LIMIT 1", quoted(&metadata));
        self.connection.query_row(&query, [], |row| row.get::<_, String>(0)).ok().map(|version| shortened(&version))
    }

    /// `guid, kernel, display name, mangled name` of every kernel symbol; nothing without such a table.
    pub(super) fn symbols_query(&self, tables: &Tables) -> rusqlite::Result<Option<String>> {
        let table = tables.name("rocpd_info_kernel_symbol");
        let found = self.columns_of(&table)?;
        Ok(has(&found, &["id"]).then(|| {
            let columns = ["guid", "display_name", "kernel_name"].map(|name| column(&found, name));
            let [guid, display, mangled] = columns;
            format!("SELECT {guid}, \"id\", {display}, {mangled} FROM {} NOT INDEXED", quoted(&table))
        }))
    }

    /// `guid, id, type, architecture, product` of every agent; nothing without such a table.
    pub(super) fn agents_query(&self, tables: &Tables) -> rusqlite::Result<Option<String>> {
        let table = tables.name("rocpd_info_agent");
        let found = self.columns_of(&table)?;
        Ok(has(&found, &["id", "type"]).then(|| {
            let [guid, arch, product] = ["guid", "name", "product_name"].map(|name| column(&found, name));
            format!("SELECT {guid}, \"id\", \"type\", {arch}, {product} FROM {} NOT INDEXED", quoted(&table))
        }))
    }
}

fn has(columns: &BTreeMap<String, bool>, names: &[&str]) -> bool {
    names.iter().all(|name| columns.contains_key(*name))
}

/// A name as SQL text.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A column of a table, or an empty text where the version lacks it.
fn column(columns: &BTreeMap<String, bool>, name: &str) -> String {
    if columns.contains_key(name) { quoted(name) } else { "''".to_owned() }
}

/// Where the timestamps of dispatches stand.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Times {
    /// In the dispatch (schema 3).
    Own,
    /// In a table of timestamps (schema 4).
    Table(String),
}

/// How to read a set's dispatches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    table: String,
    has_guid: bool,
    has_agent: bool,
    times: Times,
}

/// A text from the file, short enough for a message.
fn shortened(text: &str) -> String {
    text.chars().take(400).collect()
}

impl Columns {
    pub(super) fn table(&self) -> &str {
        &self.table
    }

    /// `guid, kernel, agent, start, end` of every dispatch.
    pub(super) fn dispatches_query(&self) -> String {
        let guid = if self.has_guid { "d.\"guid\"" } else { "''" };
        let agent = if self.has_agent { "d.\"agent_id\"" } else { "NULL" };
        let table = quoted(&self.table);
        match &self.times {
            Times::Own => {
                format!("SELECT {guid}, d.\"kernel_id\", {agent}, d.\"start\", d.\"end\" FROM {table} d NOT INDEXED")
            }
            Times::Table(stamps) => {
                let stamp = |id: &str| {
                    format!("(SELECT t.\"value\" FROM {} t WHERE t.\"id\" = d.\"{id}\" LIMIT 1)", quoted(stamps))
                };
                format!(
                    "SELECT {guid}, d.\"kernel_id\", {agent}, {}, {} FROM {table} d NOT INDEXED",
                    stamp("start_id"),
                    stamp("end_id")
                )
            }
        }
    }
}
