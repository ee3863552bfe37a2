//! Tables, and how files of older schemas are brought up to date.

use rusqlite::{Connection, Transaction};

/// The schema that this kbench writes (`PRAGMA user_version`).
pub const SCHEMA: i64 = 2;

/// Marks a file as a kbench store (`PRAGMA application_id`): "kbn1" in ASCII.
pub(crate) const APPLICATION: i64 = 0x6b62_6e31;

/// Schema 1.
const FIRST: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    created_ms INTEGER NOT NULL,      -- since 1970, UTC
    schema TEXT,                      -- of the document
    tool_version TEXT,
    tool_commit TEXT,
    device_kind TEXT,
    device_name TEXT,
    arch TEXT,
    environment TEXT,                 -- JSON
    options TEXT,                     -- JSON
    document TEXT NOT NULL            -- JSON, long arrays replaced by null
) STRICT;
CREATE INDEX runs_by_name ON runs (name, id);
CREATE TABLE builds (
    hash TEXT PRIMARY KEY,            -- SHA-256 of the code object
    arch TEXT,
    origin TEXT,
    file TEXT,
    resources TEXT                    -- JSON
) STRICT, WITHOUT ROWID;
CREATE TABLE cases (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,        -- in the document, from 0
    case_id TEXT NOT NULL,
    family TEXT,
    kernel TEXT,
    phase TEXT,
    shape TEXT,                       -- JSON
    dtypes TEXT,                      -- JSON
    status TEXT,
    calls INTEGER,
    total_ns INTEGER,
    share REAL,
    cache TEXT,
    time_source TEXT,
    samples INTEGER,
    median_ns REAL,
    lo_ns REAL,
    hi_ns REAL,
    bound TEXT,                       -- JSON
    counters TEXT,                    -- JSON
    build TEXT REFERENCES builds (hash),
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX cases_by_id ON cases (case_id, run);
CREATE INDEX cases_by_build ON cases (build);
CREATE TABLE arrays (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    pointer TEXT NOT NULL,            -- place in the document (RFC 6901)
    data BLOB NOT NULL,
    PRIMARY KEY (run, pointer)
) STRICT, WITHOUT ROWID;
";

/// Each step leads from its index + 1 to the next schema.
const STEPS: [&str; 1] = [
    // Histories of emulated cases are asked for by bound, which was inside JSON only.
    "ALTER TABLE cases ADD COLUMN bound_ns REAL;
     ALTER TABLE cases ADD COLUMN limiter TEXT;
     UPDATE cases SET bound_ns = CAST(json_extract(bound, '$.ns') AS REAL), limiter = json_extract(bound, '$.limiter')
     WHERE json_valid(bound);",
];

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing is in it.
    Empty,
    /// A store of this schema.
    Store(i64),
    /// An SQLite file of another program.
    Foreign,
}

pub(crate) fn find(connection: &Connection) -> rusqlite::Result<Found> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, version, tables) {
        (0, 0, 0) => Found::Empty,
        (APPLICATION, 1.., _) => Found::Store(version),
        _ => Found::Foreign,
    })
}

/// Makes the tables, or changes those of an older schema, in a transaction that the caller commits.
pub(crate) fn migrate(transaction: &Transaction<'_>, found: Found) -> rusqlite::Result<()> {
    let from = match found {
        Found::Empty => {
            transaction.execute_batch(FIRST)?;
            1
        }
        Found::Store(version) => version,
        Found::Foreign => return Ok(()),
    };
    for step in STEPS.iter().skip(usize::try_from(from - 1).unwrap_or(usize::MAX)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", SCHEMA)
}
