//! Changing what is kept.

use crate::document::{Parts, json, number, text, whole};
use crate::{RunId, RunName, Selector, Store, StoreError};
use rusqlite::{Transaction, named_params, params};
use serde_json::Value;

/// What to remove. A run goes when every limit that is given allows it; with none nothing goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// Of each name this many of the newest runs stay.
    pub keep: Option<u32>,
    /// Runs made at or after this time (ms since 1970) stay.
    pub older_than_ms: Option<i64>,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Runs.
    pub runs: Vec<(RunId, RunName)>,
    /// Builds that no run refers to any more.
    pub builds: usize,
}

impl Store {
    /// Saves a document under a name. An older run of that name stays (`NAME~1`). It is kept whole or not at all.
    ///
    /// # Errors
    /// When the document is no object or too deep, or the file cannot be written.
    pub fn save(&mut self, name: &RunName, created_ms: i64, document: &Value) -> Result<RunId, StoreError> {
        let parts = Parts::of(document)?;
        let path = self.path.clone();
        let transaction = self.begin()?;
        let id = insert(&transaction, name, created_ms, document, &parts)
            .and_then(|id| transaction.commit().map(|()| id))
            .map_err(|error| StoreError::sql(&path, error))?;
        Ok(RunId(id))
    }

    /// Gives a run another name.
    ///
    /// # Errors
    /// When there is no such run, or the file cannot be written.
    pub fn rename(&mut self, run: &Selector, name: &RunName) -> Result<RunId, StoreError> {
        let id = self.resolve(run)?;
        let changed = self.connection.execute("UPDATE runs SET name = ?1 WHERE id = ?2", params![name.as_str(), id.0]);
        self.changed_one(changed, run).map(|()| id)
    }

    /// Removes a run, and builds that no other run refers to.
    ///
    /// # Errors
    /// When there is no such run, or the file cannot be written.
    pub fn delete(&mut self, run: &Selector) -> Result<RunId, StoreError> {
        let id = self.resolve(run)?;
        let path = self.path.clone();
        let transaction = self.begin()?;
        let removed = || -> rusqlite::Result<usize> {
            let removed = transaction.execute("DELETE FROM runs WHERE id = ?1", [id.0])?;
            drop_unused_builds(&transaction)?;
            transaction.commit()?;
            Ok(removed)
        };
        let removed = removed().map_err(|error| StoreError::sql(&path, error));
        self.changed_one(Ok(removed?), run).map(|()| id)
    }

    /// Removes what the limits allow, and builds that no run refers to; `dry_run` only says what would go.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn prune(&mut self, limits: &Prune, dry_run: bool) -> Result<Pruned, StoreError> {
        let path = self.path.clone();
        let transaction = self.begin()?;
        let pruned = prune(&transaction, limits)
            .and_then(|pruned| if dry_run { transaction.rollback() } else { transaction.commit() }.map(|()| pruned))
            .map_err(|error| StoreError::sql(&path, error))?;
        if !dry_run && !pruned.runs.is_empty() {
            // Gives pages back to the system. Another process at work prevents it, and then the pages are used again later.
            let _ = self.connection.execute_batch("VACUUM");
        }
        Ok(pruned)
    }

    /// A run that another process removed between two statements is one that is not there.
    fn changed_one(&self, changed: rusqlite::Result<usize>, run: &Selector) -> Result<(), StoreError> {
        match changed.map_err(|error| StoreError::sql(&self.path, error))? {
            0 => Err(self.no_such_run(run)),
            _ => Ok(()),
        }
    }
}

fn insert(
    transaction: &Transaction<'_>,
    name: &RunName,
    created_ms: i64,
    document: &Value,
    parts: &Parts,
) -> rusqlite::Result<i64> {
    transaction.execute(
        "INSERT INTO runs (name, created_ms, schema, tool_version, tool_commit, device_kind, device_name, arch, environment,
                           options, document)
         VALUES (:name, :created, :schema, :version, :commit, :kind, :device, :arch, :environment, :options, :document)",
        named_params! {
            ":name": name.as_str(),
            ":created": created_ms,
            ":schema": text(document, "/schema"),
            ":version": text(document, "/tool/version"),
            ":commit": text(document, "/tool/commit"),
            ":kind": text(document, "/device/kind"),
            ":device": text(document, "/device/name"),
            ":arch": text(document, "/device/arch"),
            ":environment": json(document, "/environment"),
            ":options": json(document, "/options"),
            ":document": parts.text,
        },
    )?;
    let run = transaction.last_insert_rowid();
    let cases = document.get("cases").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (position, case) in cases.iter().enumerate() {
        insert_case(transaction, run, position as i64, case)?;
    }
    let mut insert = transaction.prepare_cached("INSERT INTO arrays (run, pointer, data) VALUES (?1, ?2, ?3)")?;
    for (pointer, data) in &parts.arrays {
        insert.execute(params![run, pointer, data])?;
    }
    Ok(run)
}

fn insert_case(transaction: &Transaction<'_>, run: i64, position: i64, case: &Value) -> rusqlite::Result<()> {
    let build = text(case, "/build/sha256");
    if let Some(hash) = build {
        transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO builds (hash, arch, origin, file, resources) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                hash,
                text(case, "/build/arch"),
                text(case, "/build/origin"),
                text(case, "/build/file"),
                json(case, "/build/resources"),
            ])?;
    }
    transaction
        .prepare_cached(
            "INSERT INTO cases (run, position, case_id, family, kernel, phase, shape, dtypes, status, calls, total_ns, share,
                                cache, time_source, samples, median_ns, lo_ns, hi_ns, bound, bound_ns, limiter, counters, build)
             VALUES (:run, :position, :case, :family, :kernel, :phase, :shape, :dtypes, :status, :calls, :total, :share,
                     :cache, :source, :samples, :median, :lo, :hi, :bound, :bound_ns, :limiter, :counters, :build)",
        )?
        .execute(named_params! {
            ":run": run,
            ":position": position,
            ":case": text(case, "/id").unwrap_or_default(),
            ":family": text(case, "/family"),
            ":kernel": text(case, "/kernel"),
            ":phase": text(case, "/weight/phase"),
            ":shape": json(case, "/shape"),
            ":dtypes": json(case, "/dtypes"),
            ":status": text(case, "/status"),
            ":calls": whole(case, "/weight/calls"),
            ":total": whole(case, "/weight/total_ns"),
            ":share": number(case, "/weight/share"),
            ":cache": text(case, "/timing/cache"),
            ":source": text(case, "/timing/source"),
            ":samples": whole(case, "/timing/samples"),
            ":median": number(case, "/timing/median_ns"),
            ":lo": number(case, "/timing/ci95_ns/0"),
            ":hi": number(case, "/timing/ci95_ns/1"),
            ":bound": json(case, "/bound"),
            ":bound_ns": number(case, "/bound/ns"),
            ":limiter": text(case, "/bound/limiter"),
            ":counters": json(case, "/counters"),
            ":build": build,
        })?;
    Ok(())
}

fn drop_unused_builds(transaction: &Transaction<'_>) -> rusqlite::Result<usize> {
    transaction.execute("DELETE FROM builds WHERE NOT EXISTS (SELECT 1 FROM cases WHERE cases.build = builds.hash)", [])
}

fn prune(transaction: &Transaction<'_>, limits: &Prune) -> rusqlite::Result<Pruned> {
    let mut pruned = Pruned::default();
    if limits.keep.is_some() || limits.older_than_ms.is_some() {
        let mut going = transaction.prepare(
            "SELECT id, name FROM (
                 SELECT id, name, created_ms, row_number() OVER (PARTITION BY name ORDER BY created_ms DESC, id DESC) AS newness FROM runs)
             WHERE (?1 IS NULL OR newness > ?1) AND (?2 IS NULL OR created_ms < ?2) ORDER BY id",
        )?;
        let rows = going.query_map(params![limits.keep, limits.older_than_ms], |row| {
            Ok((RunId(row.get(0)?), crate::read::name_of(row, 1)?))
        })?;
        pruned.runs = rows.collect::<rusqlite::Result<_>>()?;
    }
    for (id, _) in &pruned.runs {
        transaction.execute("DELETE FROM runs WHERE id = ?1", [id.0])?;
    }
    pruned.builds = drop_unused_builds(transaction)?;
    Ok(pruned)
}
