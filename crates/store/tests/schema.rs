//! Files of older and newer schemas, of other programs, and damaged ones.

#![allow(clippy::unwrap_used)] // helpers outside of test functions, too

mod common;

use common::{document, name, which};
use kbench_store::{Numbers, SCHEMA, Store, StoreError, encode};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Schema 1 as the first kbench wrote it. It must never change: it stands for the files that are out there.
const SCHEMA_1: &str = "
PRAGMA journal_mode = WAL;
CREATE TABLE runs (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, created_ms INTEGER NOT NULL, schema TEXT,
    tool_version TEXT, tool_commit TEXT, device_kind TEXT, device_name TEXT, arch TEXT, environment TEXT, options TEXT,
    document TEXT NOT NULL) STRICT;
CREATE INDEX runs_by_name ON runs (name, id);
CREATE TABLE builds (hash TEXT PRIMARY KEY, arch TEXT, origin TEXT, file TEXT, resources TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE cases (run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, position INTEGER NOT NULL,
    case_id TEXT NOT NULL, family TEXT, kernel TEXT, phase TEXT, shape TEXT, dtypes TEXT, status TEXT, calls INTEGER,
    total_ns INTEGER, share REAL, cache TEXT, time_source TEXT, samples INTEGER, median_ns REAL, lo_ns REAL, hi_ns REAL,
    bound TEXT, counters TEXT, build TEXT REFERENCES builds (hash), PRIMARY KEY (run, position)) STRICT, WITHOUT ROWID;
CREATE INDEX cases_by_id ON cases (case_id, run);
CREATE INDEX cases_by_build ON cases (build);
CREATE TABLE arrays (run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, pointer TEXT NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (run, pointer)) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1801612849;
PRAGMA user_version = 1;
";

/// A file of schema 1 with two runs; the documents that it holds.
fn first_schema(path: &Path) -> Vec<Value> {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(SCHEMA_1).unwrap();
    let samples: Vec<f64> = (0..50).map(|i| 1000.5 + f64::from(i)).collect();
    (0..2)
        .map(|run| {
            let mut document = json!({"schema": "kbench.run/1", "run": run, "cases": [
                {"id": "a", "status": "ok", "bound": {"ns": 12.5, "limiter": "hbm"}},
                {"id": "b", "status": "ok", "timing": {"median_ns": 1025.0, "samples_ns": null}},
                {"id": "c", "status": "skipped"}]});
            connection
                .execute("INSERT INTO runs (name, created_ms, document) VALUES ('old', ?1, ?2)", params![run, document.to_string()])
                .unwrap();
            connection.execute("INSERT OR IGNORE INTO builds (hash) VALUES ('abc')", []).unwrap();
            for (position, case) in ["a", "b", "c"].iter().enumerate() {
                connection
                    .execute(
                        "INSERT INTO cases (run, position, case_id, status, bound, median_ns, build) VALUES (?1, ?2, ?3, 'ok', ?4, ?5, 'abc')",
                        params![
                            run + 1,
                            position as i64,
                            case,
                            (*case == "a").then_some(r#"{"ns":12.5,"limiter":"hbm"}"#),
                            (*case == "b").then_some(1025.0)
                        ],
                    )
                    .unwrap();
            }
            let packed = encode(&Numbers::Floats(samples.clone())).unwrap();
            connection
                .execute("INSERT INTO arrays VALUES (?1, '/cases/1/timing/samples_ns', ?2)", params![run + 1, packed])
                .unwrap();
            document["cases"][1]["timing"]["samples_ns"] = json!(samples);
            document
        })
        .collect()
}

#[test]
fn the_first_schema_is_brought_up_to_date_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let documents = first_schema(&path);
    let mut store = Store::open_existing(&path).unwrap();
    assert_eq!(store.export(&which("old~1")).unwrap(), documents[0]);
    assert_eq!(store.export(&which("old")).unwrap(), documents[1]);
    // The new columns are filled from what the old ones held.
    let cases = store.cases(&which("#1")).unwrap();
    assert_eq!((cases[0].bound_ns, cases[0].limiter.as_deref()), (Some(12.5), Some("hbm")));
    assert_eq!((cases[1].bound_ns, cases[1].median_ns), (None, Some(1025.0)));
    store.save(&name("new"), 1, &document(1, 1)).unwrap();
    store.check().unwrap();
    let version: i64 =
        Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, SCHEMA);
}

/// Tables and columns of a file that was brought up to date are those of a new one.
#[test]
fn old_and_new_files_end_with_the_same_columns() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
    first_schema(&old);
    drop((Store::open(&old).unwrap(), Store::open(&new).unwrap()));
    let columns = |path: &Path| -> Vec<(String, String, String)> {
        let connection = Connection::open(path).unwrap();
        let mut found = connection
            .prepare(
                "SELECT t.name, c.name, c.type FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type IN ('table', 'index')
                 UNION SELECT name, 'index', '' FROM sqlite_schema WHERE type = 'index' ORDER BY 1, 2",
            )
            .unwrap();
        found.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(columns(&old), columns(&new));
    assert!(columns(&new).len() > 30);
}

/// Many processes may open an old file at once: it is changed once. Threads with connections of their own stand for them.
#[test]
fn opening_an_old_file_at_once_changes_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    first_schema(&path);
    std::thread::scope(|scope| {
        let opened: Vec<_> =
            (0..8).map(|_| scope.spawn(|| Store::open(&path).map(|store| store.list(None).unwrap().len()))).collect();
        for thread in opened {
            assert_eq!(thread.join().unwrap().unwrap(), 2);
        }
    });
}

#[test]
fn newer_foreign_and_missing_files_are_refused_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let newer = folder.path().join("newer.db");
    drop(Store::open(&newer).unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", SCHEMA + 1).unwrap();
    let error = Store::open(&newer).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found, known: SCHEMA, .. } if found == SCHEMA + 1), "{error}");
    assert!(error.to_string().contains("newer.db"), "{error}");

    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    let before = fs::read(&foreign).unwrap();
    let error = Store::open(&foreign).unwrap_err();
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
    assert_eq!(fs::read(&foreign).unwrap(), before);

    let text = folder.path().join("text.db");
    fs::write(&text, "family,dtype,shape,calls\n".repeat(100)).unwrap();
    let error = Store::open(&text).unwrap_err();
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");

    let missing = folder.path().join("missing.db");
    assert!(matches!(Store::open_existing(&missing), Err(StoreError::Missing { .. })));
    assert!(!missing.exists());
    assert!(matches!(Store::open(&text.join("below/a.db")), Err(StoreError::Io { .. })));
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Io { .. })));
}

/// Whatever bytes of the file change or are cut off: an answer, equal to what was saved, or an error; never a panic.
#[test]
fn damage_is_an_error_or_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, copy) = (folder.path().join("whole.db"), folder.path().join("copy.db"));
    let saved = document(1, 6);
    let mut store = Store::open(&whole).unwrap();
    store.save(&name("a"), 0, &saved).unwrap();
    store.save(&name("b"), 0, &saved).unwrap();
    drop(store);
    let bytes = fs::read(&whole).unwrap();
    let (mut errors, mut answers) = (0, 0);
    for i in 0..300_usize {
        let at = i.wrapping_mul(2_654_435_761) % bytes.len();
        let mut damaged = bytes.clone();
        if i % 3 == 0 {
            damaged.truncate(at);
        } else {
            damaged[at..].iter_mut().take(1 + i % 40).for_each(|byte| *byte = byte.wrapping_add(i as u8 | 1));
        }
        fs::write(&copy, damaged).unwrap();
        for side in ["copy.db-wal", "copy.db-shm"] {
            let _ = fs::remove_file(folder.path().join(side));
        }
        let answer = Store::open_existing(&copy).and_then(|store| {
            store.check()?;
            store.cases(&which("a"))?;
            store.export(&which("a"))
        });
        match answer {
            // Text and samples carry no checksum of their own beyond zstd's and JSON's: a changed digit may pass.
            Ok(_) => answers += 1,
            Err(error) => {
                errors += 1;
                assert!(error.to_string().contains("copy.db"), "{error}");
            }
        }
    }
    assert!(errors > 150 && answers > 0, "{errors} errors, {answers} answers");
}
