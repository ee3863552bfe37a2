//! rocpd databases (rocprofv3's default output, `*_results.db`): kernel dispatches of one or more processes out of SQLite.
//!
//! Each process has its own set of tables, with a suffix made of its guid; several sets stand in one file after `rocpd merge`. The plain names are
//! views over them, which are not needed and not trusted. Columns are looked up: schema 3 has `start` and `end` in the dispatch, schema 4 keeps
//! them in a table of timestamps. Rows are streamed; memory grows with the kernels.

mod schema;

use crate::dispatches::{Agent, Process, SymbolNames, duration};
use crate::error::ReadError;
use crate::health::Issue;
use crate::inventory::Severity;
use crate::ledger::Ledger;
use crate::sniff::Dialect;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};
use schema::{Columns, Schema, Tables};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// How long to wait for a program that writes the database.
const BUSY: Duration = Duration::from_secs(2);
/// Steps of SQLite's machine between two looks at how many were taken.
const STEPS: i32 = 1000;
/// Steps that a byte of the file may cost. A dispatch takes more than 50 bytes and at most 50 steps; a file whose pages point to each other in
/// circles takes more.
const STEPS_PER_BYTE: u64 = 4;
/// Steps that any file may cost.
const FREE_STEPS: u64 = 1_000_000;
/// Most processes of one file.
const MAX_PROCESSES: usize = 1 << 16;

/// What an SQLite file turned out to be.
pub(crate) enum Kind {
    /// A rocpd database.
    Rocpd,
    /// rocmProfileData's own older schema.
    Rpd,
    /// Something else.
    Other,
}

/// What an SQLite database is, by its tables.
pub(crate) fn recognise(path: &Path) -> Result<Kind, ReadError> {
    let database = Database::open(path)?;
    let schema = database.schema()?;
    Ok(match () {
        () if !schema.sets().is_empty() => Kind::Rocpd,
        () if schema.has_table("rocpd_op") => Kind::Rpd,
        () => Kind::Other,
    })
}

/// Reads a database.
pub(crate) fn read(path: &Path, ledger: &mut Ledger) -> Result<(), ReadError> {
    let database = Database::open(path)?;
    let schema = database.schema()?;
    let mut reader = Reader { database: &database, schema: &schema, ledger, seen: 0, repeated: 0, good: 0 };
    for set in &schema.sets() {
        reader.set(set)?;
    }
    let Reader { seen, repeated, good, ledger, .. } = reader;
    if repeated > 0 {
        let text = format!(
            "{repeated} processes of {} stand in another database that was read before (rocpd merge keeps the originals); they count once",
            path.display()
        );
        ledger.health.tell(Severity::Note, "repeated_processes", text);
    }
    if good > 0 || repeated > 0 {
        return Ok(());
    }
    let reason = match seen {
        0 => "its tables of kernel dispatches are empty. Run rocprofv3 with --kernel-trace, and check that the program used the GPU".to_owned(),
        _ => format!("none of its {seen} kernel dispatches has a usable time. Check the profiler's version and that it ended properly"),
    };
    Err(ReadError::Empty { path: path.to_owned(), dialect: Dialect::Rocpd, reason })
}

/// An open database and its name for messages.
struct Database<'p> {
    path: &'p Path,
    connection: Connection,
}

impl<'p> Database<'p> {
    fn open(path: &'p Path) -> Result<Self, ReadError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Connection> {
            let mut connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(BUSY)?;
            // The file may come from anywhere: nothing in its schema is run, and pages are checked as they are read.
            connection.pragma_update(None, "trusted_schema", false)?;
            connection.pragma_update(None, "cell_size_check", true)?;
            connection.pragma_update(None, "mmap_size", 0)?;
            let mut looks_left = looks(path);
            let is_endless = move || {
                looks_left = looks_left.saturating_sub(1);
                looks_left == 0
            };
            connection.progress_handler(STEPS, Some(is_endless))?;
            Ok(connection)
        };
        open().map(|connection| Self { path, connection }).map_err(|error| describe(path, &error))
    }

    fn error(&self, error: &rusqlite::Error) -> ReadError {
        describe(self.path, error)
    }

    fn schema(&self) -> Result<Schema<'_>, ReadError> {
        Schema::read(&self.connection).map_err(|error| self.error(&error))
    }
}

/// How often a file may let [`STEPS`] steps pass.
fn looks(path: &Path) -> u64 {
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let bytes = bytes(path).saturating_add(bytes(Path::new(&log)));
    (FREE_STEPS + bytes.saturating_mul(STEPS_PER_BYTE)) / STEPS.unsigned_abs() as u64
}

/// An error of SQLite in words that say what to do.
fn describe(path: &Path, error: &rusqlite::Error) -> ReadError {
    let code = error.sqlite_error_code();
    let what = match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program is writing to it. Wait until the profiled program has ended".to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => format!(
            "the database is damaged or cut off ({error}). Copy it again, or write it again: rocprofv3 --kernel-trace -f rocpd; \
             `sqlite3 FILE .recover` saves what is left"
        ),
        Some(ErrorCode::OperationInterrupted) => {
            "the database is damaged: reading it takes more steps than its size explains. Copy it again, or write it again".to_owned()
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => format!(
            "SQLite cannot open it ({error}). If a file with -wal behind its name stands beside it, copy both to a folder that can be written to"
        ),
        _ => format!("SQLite cannot read it: {error}"),
    };
    ReadError::Database { path: path.to_owned(), what }
}

struct Reader<'r, 'p> {
    database: &'r Database<'p>,
    schema: &'r Schema<'r>,
    ledger: &'r mut Ledger,
    /// Dispatches, good or bad.
    seen: u64,
    /// Processes that an earlier file had.
    repeated: u64,
    /// Dispatches that count.
    good: u64,
}

/// A process of a table set, by its guid.
struct Known {
    process: Process,
    is_repeated: bool,
}

impl Reader<'_, '_> {
    /// Reads one set of tables.
    fn set(&mut self, tables: &Tables) -> Result<(), ReadError> {
        let path = self.database.path.display().to_string();
        let columns = self.columns(tables)?;
        let mut processes = Processes::default();
        self.symbols(tables, &mut processes)?;
        self.agents(tables, &mut processes)?;
        self.dispatches(&columns, &mut processes)?;
        for (guid, known) in processes.finish() {
            self.repeated += u64::from(known.is_repeated);
            let name =
                if guid.is_empty() { format!("tables `{}`", tables.dispatch) } else { format!("process {guid}") };
            if !known.is_repeated {
                known.process.finish(self.ledger, &path, &name);
            }
        }
        Ok(())
    }

    fn columns(&self, tables: &Tables) -> Result<Columns, ReadError> {
        let found = self.schema.dispatch_columns(tables).map_err(|error| self.database.error(&error))?;
        found.map_err(|what| ReadError::Database { path: self.database.path.to_owned(), what })
    }

    /// Runs a query over a whole table.
    fn rows(
        &mut self,
        query: &str,
        mut each: impl FnMut(&mut Self, &Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), ReadError> {
        let database = self.database;
        let error = |error: rusqlite::Error| database.error(&error);
        let mut statement = database.connection.prepare(query).map_err(error)?;
        let mut rows = statement.query([]).map_err(error)?;
        while let Some(row) = rows.next().map_err(error)? {
            each(self, row).map_err(error)?;
        }
        Ok(())
    }

    fn symbols(&mut self, tables: &Tables, processes: &mut Processes) -> Result<(), ReadError> {
        let Some(query) = self.schema.symbols_query(tables).map_err(|error| self.database.error(&error))? else {
            return Ok(());
        };
        self.rows(&query, |reader, row| {
            let (guid, kernel) = (words(row.get_ref(0)?), number(row.get_ref(1)?));
            let (display, mangled) = (words(row.get_ref(2)?), words(row.get_ref(3)?));
            if let (Some(known), Some(kernel)) = (processes.of(&guid, reader.ledger), kernel) {
                let names = SymbolNames { formatted: &display, mangled: &mangled, ..SymbolNames::default() };
                known.process.symbol(kernel.cast_unsigned(), names);
            }
            Ok(())
        })
    }

    fn agents(&mut self, tables: &Tables, processes: &mut Processes) -> Result<(), ReadError> {
        let Some(query) = self.schema.agents_query(tables).map_err(|error| self.database.error(&error))? else {
            return Ok(());
        };
        self.rows(&query, |reader, row| {
            let (guid, agent) = (words(row.get_ref(0)?), number(row.get_ref(1)?));
            if words(row.get_ref(2)?) != "GPU" {
                return Ok(());
            }
            let (arch, product) = (words(row.get_ref(3)?).into_owned(), words(row.get_ref(4)?).into_owned());
            if let (Some(known), Some(agent)) = (processes.of(&guid, reader.ledger), agent) {
                known.process.gpu(agent.cast_unsigned(), Agent { arch, product });
            }
            Ok(())
        })
    }

    fn dispatches(&mut self, columns: &Columns, processes: &mut Processes) -> Result<(), ReadError> {
        let mut place = 0;
        self.rows(&columns.dispatches_query(), |reader, row| {
            place += 1;
            let guid = words(row.get_ref(0)?);
            let Some(known) = processes.of(&guid, reader.ledger) else { return Ok(()) };
            if known.is_repeated {
                return Ok(());
            }
            reader.seen += 1;
            let (kernel, agent) = (number(row.get_ref(1)?), number(row.get_ref(2)?));
            let issue = match (kernel, number(row.get_ref(3)?), number(row.get_ref(4)?)) {
                (Some(kernel), Some(start), Some(end)) => match duration(start.into(), end.into()) {
                    Ok(ns) => {
                        reader.good += 1;
                        known.process.dispatch(kernel.cast_unsigned(), agent.map(i64::cast_unsigned), ns);
                        return Ok(());
                    }
                    Err(issue) => issue,
                },
                _ => Issue::BadRows,
            };
            let file = reader.database.path.display();
            reader.ledger.health.count(issue, || format!("{file}, row {place} of `{}`", columns.table()));
            Ok(())
        })
    }
}

/// The processes of one set of tables. All rows of a set usually have the same guid, so the last one found is tried first.
#[derive(Default)]
struct Processes {
    by_guid: HashMap<String, usize>,
    all: Vec<(String, Known)>,
    last: usize,
}

impl Processes {
    /// The process of a guid; `None` beyond the limit.
    fn of(&mut self, guid: &str, ledger: &mut Ledger) -> Option<&mut Known> {
        let is_last = self.all.get(self.last).is_some_and(|(known, _)| known == guid);
        if !is_last {
            self.last = match self.by_guid.get(guid) {
                Some(index) => *index,
                None if self.all.len() >= MAX_PROCESSES => return None,
                None => {
                    // Tables without guids cannot be known from elsewhere.
                    let is_repeated = !guid.is_empty() && !ledger.processes.insert(guid.to_owned());
                    self.all.push((guid.to_owned(), Known { process: Process::default(), is_repeated }));
                    self.by_guid.insert(guid.to_owned(), self.all.len() - 1);
                    self.all.len() - 1
                }
            };
        }
        self.all.get_mut(self.last).map(|(_, known)| known)
    }

    fn finish(self) -> Vec<(String, Known)> {
        self.all
    }
}

/// A whole number; SQLite lets any column hold anything.
fn number(value: ValueRef<'_>) -> Option<i64> {
    match value {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}

/// A text, empty when it is none.
fn words(value: ValueRef<'_>) -> std::borrow::Cow<'_, str> {
    match value {
        ValueRef::Text(bytes) => String::from_utf8_lossy(bytes),
        _ => "".into(),
    }
}
