//! Opening the file.

use crate::error::PATIENCE_S;
use crate::schema::{self, Found, SCHEMA};
use crate::{Selector, StoreError};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The number of a run: unique in its file, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub(crate) i64);

impl RunId {
    /// The number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
}

impl Store {
    /// Opens a store, or makes one (and its folder).
    ///
    /// # Errors
    /// When the file cannot be made or opened, is no kbench store, is damaged, or is of a newer schema.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let io = |error: std::io::Error| StoreError::Io { path: path.to_owned(), reason: error.to_string() };
            std::fs::create_dir_all(folder).map_err(io)?;
        }
        Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens a store that must exist.
    ///
    /// # Errors
    /// As [`Store::open`], and when there is no file.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing { path: path.to_owned() });
        }
        Self::open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    /// Opens a store that must exist, to read it. One that cannot be written, or stands where nothing can be, is read as it is.
    ///
    /// # Errors
    /// As [`Store::open_existing`]; and when the file cannot be written but would have to be: a log beside it holds changes, or
    /// its schema is an older one.
    pub fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        match Self::open_existing(path) {
            Err(StoreError::Io { reason, .. }) => Self::open_read_only(path, false).or_else(|_| match has_log(path) {
                true => Err(StoreError::Io { path: path.to_owned(), reason }),
                false => Self::open_read_only(path, true),
            }),
            opened => opened,
        }
    }

    /// Opens without writing anything. `immutable` is for media on which SQLite cannot make its files beside a write-ahead log;
    /// with it a log is passed over, and so are locks.
    fn open_read_only(path: &Path, immutable: bool) -> Result<Self, StoreError> {
        let sql = |error| StoreError::sql(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match immutable {
            true => Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI),
            false => Connection::open_with_flags(path, flags),
        };
        let connection = connection.map_err(sql)?;
        connection.busy_timeout(Duration::from_secs(PATIENCE_S)).map_err(sql)?;
        let store = Self { connection, path: path.to_owned() };
        match schema::find(&store.connection).map_err(sql)? {
            Found::Store(found) if found < SCHEMA => {
                let reason = format!(
                    "it has schema {found}, which is changed to {SCHEMA} when it is opened, and it cannot be written here: copy it to where it can"
                );
                Err(StoreError::Io { path: path.to_owned(), reason })
            }
            Found::Empty => Err(StoreError::NotAStore { path: path.to_owned(), found: "an empty file".to_owned() }),
            found => store.refuse(found).map(|()| store),
        }
    }

    fn open_with(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let sql = |error| StoreError::sql(path, error);
        // Without SQLITE_OPEN_URI: a path is a path, whatever it begins with.
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(sql)?;
        connection.busy_timeout(Duration::from_secs(PATIENCE_S)).map_err(sql)?;
        let mut store = Self { connection, path: path.to_owned() };
        // Told before anything is written: a foreign file stays as it is.
        store.refuse(schema::find(&store.connection).map_err(sql)?)?;
        store.configure()?;
        store.bring_up_to_date()?;
        Ok(store)
    }

    /// An error for what is not a store of a known schema.
    fn refuse(&self, found: Found) -> Result<(), StoreError> {
        let path = self.path.clone();
        match found {
            Found::Foreign => {
                Err(StoreError::NotAStore { path, found: "an SQLite file of another program".to_owned() })
            }
            Found::Store(found) if found > SCHEMA => Err(StoreError::Newer { path, found, known: SCHEMA }),
            _ => Ok(()),
        }
    }

    fn configure(&self) -> Result<(), StoreError> {
        let sql = |error| StoreError::sql(&self.path, error);
        let set = || -> rusqlite::Result<()> {
            self.connection.pragma_update(None, "foreign_keys", true)?;
            // A commit is on the disk before it returns: runs are saved seldom, and a baseline must survive a power cut.
            self.connection.pragma_update(None, "synchronous", "FULL")?;
            self.connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
        };
        // SQLite does not wait by itself when two connections change the journal mode at once.
        let deadline = Instant::now() + Duration::from_secs(PATIENCE_S);
        loop {
            match set() {
                Err(rusqlite::Error::SqliteFailure(failure, _))
                    if failure.code == ErrorCode::DatabaseBusy && Instant::now() < deadline =>
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => return other.map_err(sql),
            }
        }
    }

    fn bring_up_to_date(&mut self) -> Result<(), StoreError> {
        let sql = |path: &Path, error| StoreError::sql(path, error);
        if schema::find(&self.connection).map_err(|error| sql(&self.path, error))? == Found::Store(SCHEMA) {
            return Ok(());
        }
        let path = self.path.clone();
        let transaction = self.begin()?;
        // Another process may have done it while this one waited for the lock.
        let found = schema::find(&transaction).map_err(|error| sql(&path, error))?;
        if found != Found::Store(SCHEMA) {
            schema::migrate(&transaction, found).map_err(|error| sql(&path, error))?;
        }
        transaction.commit().map_err(|error| sql(&path, error))?;
        self.refuse(found)
    }

    /// A transaction that holds the right to write from its start, so that it cannot fail half-way for want of it.
    pub(crate) fn begin(&mut self) -> Result<Transaction<'_>, StoreError> {
        let path = &self.path;
        self.connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| StoreError::sql(path, error))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the whole file: pages, indexes, references, and that every document can be put together.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] with the first finding.
    pub fn check(&self) -> Result<(), StoreError> {
        let sql = |error| StoreError::sql(&self.path, error);
        let damaged = |detail| StoreError::Damaged { path: self.path.clone(), detail };
        let verdict: String =
            self.connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(sql)?;
        if verdict != "ok" {
            return Err(damaged(verdict));
        }
        let orphan: Option<String> =
            self.connection.query_row("PRAGMA foreign_key_check", [], |row| row.get(0)).optional().map_err(sql)?;
        if let Some(table) = orphan {
            return Err(damaged(format!("rows of `{table}` belong to no run")));
        }
        for run in self.list(None)? {
            self.export(&Selector::Id(run.id.0))?;
        }
        Ok(())
    }
}

/// Whether a write-ahead log with changes is beside the file.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

/// The path as a URI that says that nothing changes the file.
fn immutable_uri(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = "file://".to_owned();
    for byte in absolute.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn store(folder: &Path) -> PathBuf {
        let path = folder.join("a file?#%.db");
        let mut store = Store::open(&path).unwrap();
        store.save(&"main".parse().unwrap(), 7, &json!({"schema": "x", "cases": []})).unwrap();
        path
    }

    /// As on read-only media: neither the file nor its folder can be written. (Modes do not hold back root, so the fallback is
    /// called itself.)
    #[test]
    fn a_store_is_read_without_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = store(folder.path());
        assert!(!has_log(&path));
        let before = std::fs::read(&path).unwrap();
        let read = Store::open_read_only(&path, true).unwrap();
        assert_eq!(read.list(None).unwrap().len(), 1);
        read.check().unwrap();
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!((files.len(), std::fs::read(&path).unwrap()), (1, before));
        let mut read = read;
        assert!(matches!(read.delete(&Selector::Id(1)), Err(StoreError::Io { .. })));
    }

    #[test]
    fn an_older_schema_is_not_changed_where_nothing_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = store(folder.path());
        Store::open(&path).unwrap().connection.pragma_update(None, "user_version", 1).unwrap();
        let error = Store::open_read_only(&path, false).unwrap_err().to_string();
        assert!(error.contains("it has schema 1") && error.contains("copy it"), "{error}");
    }
}
