//! Asking for what is kept.

use crate::document::put_back;
use crate::{RunId, RunName, Selector, Store, StoreError, decode};
use rusqlite::{OptionalExtension as _, Row, params, types::Type};
use serde_json::Value;

/// A document's text, and pointer and packed numbers of what was taken out of it.
type Kept = (String, Vec<(String, Vec<u8>)>);

/// Names that an error lists.
const NAMES_SHOWN: usize = 12;

/// A run in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// Number.
    pub id: RunId,
    /// Name.
    pub name: RunName,
    /// When it was made, ms since 1970 UTC.
    pub created_ms: i64,
    /// `hip`, `emu` or `host`.
    pub device_kind: Option<String>,
    /// Device.
    pub device_name: Option<String>,
    /// Architecture.
    pub arch: Option<String>,
    /// Version of kbench.
    pub tool_version: Option<String>,
    /// Commit of kbench.
    pub tool_commit: Option<String>,
    /// Cases.
    pub cases: u32,
    /// Cases with status `ok`.
    pub ok: u32,
}

/// A case of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseRow {
    /// Its id.
    pub case_id: String,
    /// Phase.
    pub phase: Option<String>,
    /// How it ended.
    pub status: Option<String>,
    /// Share of kernel time, 0 to 1.
    pub share: Option<f64>,
    /// Cache state.
    pub cache: Option<String>,
    /// Time source.
    pub time_source: Option<String>,
    /// Number of samples.
    pub samples: Option<i64>,
    /// Median, ns.
    pub median_ns: Option<f64>,
    /// Ends of its 95 % interval, ns.
    pub ci95_ns: Option<(f64, f64)>,
    /// Bound of an emulated case, ns.
    pub bound_ns: Option<f64>,
    /// What sets the bound.
    pub limiter: Option<String>,
    /// SHA-256 of the build.
    pub build: Option<String>,
}

/// A case at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPoint {
    /// The run.
    pub run: RunId,
    /// Its name.
    pub name: RunName,
    /// When it was made, ms since 1970 UTC.
    pub created_ms: i64,
    /// Device.
    pub device_name: Option<String>,
    /// Architecture.
    pub arch: Option<String>,
    /// The case.
    pub case: CaseRow,
}

/// Which points of history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    /// Cases whose id is this or holds it; with `*` or `?` a pattern for the whole id (`GLOB`). All without.
    pub case: Option<String>,
    /// Only runs of this name.
    pub name: Option<RunName>,
    /// Only runs on this device (its name as in the document).
    pub device: Option<String>,
    /// Only the newest so many runs.
    pub newest: Option<u32>,
}

/// A build that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRow {
    /// SHA-256 of its code object.
    pub hash: String,
    /// Architecture.
    pub arch: Option<String>,
    /// `builtin`, `prebuilt` or `file`.
    pub origin: Option<String>,
    /// File it came from.
    pub file: Option<String>,
    /// Registers, LDS and scratch.
    pub resources: Option<Value>,
    /// Runs with a case that it ran.
    pub runs: u32,
}

impl Store {
    /// Runs, newest first; those of a name when one is given.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self, name: Option<&RunName>) -> Result<Vec<RunRow>, StoreError> {
        self.query(
            "SELECT id, name, created_ms, device_kind, device_name, arch, tool_version, tool_commit,
                    (SELECT count(*) FROM cases WHERE run = id),
                    (SELECT count(*) FROM cases WHERE run = id AND status = 'ok')
             FROM runs WHERE ?1 IS NULL OR name = ?1 ORDER BY created_ms DESC, id DESC",
            params![name.map(RunName::as_str)],
            run_row,
        )
    }

    /// One run.
    ///
    /// # Errors
    /// When there is no such run, or the file cannot be read.
    pub fn run(&self, run: &Selector) -> Result<RunRow, StoreError> {
        let id = self.resolve(run)?;
        let found = self.query(
            "SELECT id, name, created_ms, device_kind, device_name, arch, tool_version, tool_commit,
                    (SELECT count(*) FROM cases WHERE run = id),
                    (SELECT count(*) FROM cases WHERE run = id AND status = 'ok')
             FROM runs WHERE id = ?1",
            params![id.0],
            run_row,
        )?;
        found.into_iter().next().ok_or_else(|| self.no_such_run(run))
    }

    /// The cases of a run in the order of its document.
    ///
    /// # Errors
    /// When there is no such run, or the file cannot be read.
    pub fn cases(&self, run: &Selector) -> Result<Vec<CaseRow>, StoreError> {
        let id = self.resolve(run)?;
        self.query(
            "SELECT case_id, phase, status, share, cache, time_source, samples, median_ns, lo_ns, hi_ns, bound_ns, limiter, build
             FROM cases WHERE run = ?1 ORDER BY position",
            params![id.0],
            |row| case_row(row, 0),
        )
    }

    /// Cases over time, oldest run first, cases in the order of their run.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn history(&self, filter: &HistoryFilter) -> Result<Vec<HistoryPoint>, StoreError> {
        self.query(
            "WITH chosen AS (
                 SELECT id, name, created_ms, device_name, arch FROM runs
                 WHERE (?2 IS NULL OR name = ?2) AND (?3 IS NULL OR device_name = ?3)
                   AND (?1 IS NULL OR EXISTS (SELECT 1 FROM cases WHERE run = runs.id
                        AND (case_id GLOB ?1 OR instr(case_id, ?1) > 0)))
                 ORDER BY created_ms DESC, id DESC LIMIT coalesce(?4, -1))
             SELECT chosen.id, name, created_ms, device_name, arch, case_id, phase, status, share, cache, time_source, samples,
                    median_ns, lo_ns, hi_ns, bound_ns, limiter, build
             FROM chosen JOIN cases ON cases.run = chosen.id
             WHERE ?1 IS NULL OR case_id GLOB ?1 OR instr(case_id, ?1) > 0
             ORDER BY created_ms, chosen.id, position",
            params![filter.case, filter.name.as_ref().map(RunName::as_str), filter.device, filter.newest],
            |row| {
                Ok(HistoryPoint {
                    run: RunId(row.get(0)?),
                    name: name_of(row, 1)?,
                    created_ms: row.get(2)?,
                    device_name: row.get(3)?,
                    arch: row.get(4)?,
                    case: case_row(row, 5)?,
                })
            },
        )
    }

    /// Builds that runs refer to, by hash.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn builds(&self) -> Result<Vec<BuildRow>, StoreError> {
        self.query(
            "SELECT hash, arch, origin, file, resources, (SELECT count(DISTINCT run) FROM cases WHERE build = hash)
             FROM builds ORDER BY hash",
            [],
            |row| {
                let resources: Option<String> = row.get(4)?;
                let resources = resources.map(|text| serde_json::from_str(&text)).transpose();
                Ok(BuildRow {
                    hash: row.get(0)?,
                    arch: row.get(1)?,
                    origin: row.get(2)?,
                    file: row.get(3)?,
                    resources: resources.map_err(|error| conversion(4, error))?,
                    runs: row.get(5)?,
                })
            },
        )
    }

    /// The document of a run: equal to the one that was saved.
    ///
    /// # Errors
    /// When there is no such run, or what the file holds is damaged.
    pub fn export(&self, run: &Selector) -> Result<Value, StoreError> {
        let id = self.resolve(run)?;
        let damaged =
            |detail: String| StoreError::Damaged { path: self.path.clone(), detail: format!("run {id}: {detail}") };
        // One transaction, so that no other process removes the run between the two statements.
        let read = || -> rusqlite::Result<Option<Kept>> {
            let transaction = self.connection.unchecked_transaction()?;
            let document = transaction
                .query_row("SELECT document FROM runs WHERE id = ?1", [id.0], |row| row.get(0))
                .optional()?;
            let Some(document) = document else { return Ok(None) };
            let mut arrays = transaction.prepare_cached("SELECT pointer, data FROM arrays WHERE run = ?1")?;
            let arrays = arrays.query_map([id.0], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
            Ok(Some((document, arrays)))
        };
        let found = read().map_err(|error| StoreError::sql(&self.path, error))?;
        let (text, arrays) = found.ok_or_else(|| self.no_such_run(run))?;
        let mut document: Value = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        for (pointer, data) in arrays {
            let numbers = decode(&data).map_err(|error| damaged(error.to_string()))?;
            put_back(&mut document, &pointer, numbers).map_err(damaged)?;
        }
        Ok(document)
    }

    /// The number of the run that is asked for.
    ///
    /// # Errors
    /// When there is none, or the file cannot be read.
    pub fn resolve(&self, run: &Selector) -> Result<RunId, StoreError> {
        let found = match run {
            Selector::Id(id) => self.query("SELECT id FROM runs WHERE id = ?1", [id], |row| row.get(0)),
            Selector::Name(name, back) => self.query(
                "SELECT id FROM runs WHERE name = ?1 ORDER BY created_ms DESC, id DESC LIMIT 1 OFFSET ?2",
                params![name.as_str(), back],
                |row| row.get(0),
            ),
        }?;
        found.into_iter().next().map(RunId).ok_or_else(|| self.no_such_run(run))
    }

    /// Says which names there are.
    pub(crate) fn no_such_run(&self, run: &Selector) -> StoreError {
        let names = self.query(
            "SELECT name, count(*) FROM runs GROUP BY name ORDER BY max(created_ms) DESC, max(id) DESC",
            [],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?)),
        );
        let names = names.unwrap_or_default();
        let shown: Vec<String> = names
            .iter()
            .take(NAMES_SHOWN)
            .map(|(name, count)| if *count > 1 { format!("{name} ({count} runs)") } else { name.clone() })
            .collect();
        let known = match names.len().saturating_sub(shown.len()) {
            _ if names.is_empty() => "it holds no runs".to_owned(),
            0 => format!("there are {}", shown.join(", ")),
            more => format!("there are {} and {more} more names", shown.join(", ")),
        };
        StoreError::NoSuchRun { path: self.path.clone(), selector: run.to_string(), known }
    }

    fn query<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        of: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let read = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.query_map(parameters, of)?.collect()
        };
        read().map_err(|error| StoreError::sql(&self.path, error))
    }
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        id: RunId(row.get(0)?),
        name: name_of(row, 1)?,
        created_ms: row.get(2)?,
        device_kind: row.get(3)?,
        device_name: row.get(4)?,
        arch: row.get(5)?,
        tool_version: row.get(6)?,
        tool_commit: row.get(7)?,
        cases: row.get(8)?,
        ok: row.get(9)?,
    })
}

fn case_row(row: &Row<'_>, first: usize) -> rusqlite::Result<CaseRow> {
    let ends: (Option<f64>, Option<f64>) = (row.get(first + 8)?, row.get(first + 9)?);
    Ok(CaseRow {
        case_id: row.get(first)?,
        phase: row.get(first + 1)?,
        status: row.get(first + 2)?,
        share: row.get(first + 3)?,
        cache: row.get(first + 4)?,
        time_source: row.get(first + 5)?,
        samples: row.get(first + 6)?,
        median_ns: row.get(first + 7)?,
        ci95_ns: ends.0.zip(ends.1),
        bound_ns: row.get(first + 10)?,
        limiter: row.get(first + 11)?,
        build: row.get(first + 12)?,
    })
}

/// A name; one that could not have been saved comes from a damaged file.
pub(crate) fn name_of(row: &Row<'_>, column: usize) -> rusqlite::Result<RunName> {
    let name: String = row.get(column)?;
    name.parse().map_err(|error: StoreError| conversion(column, error))
}

fn conversion(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
