//! The journal of a run: every case that has ended, on disk before the next result is waited for. A run that is killed loses
//! the cases under way and no other, and `--resume` goes on from its journal or from the document it wrote.
//!
//! A journal is lines of JSON (docs/formats.md): a header with the run's document without cases and the ids of all
//! cases, then a line a case. A last line that was cut off is passed over.

use crate::report::document::{CountingOptions, DocumentError, RunDocument};
use crate::report::{CaseResult, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The schema that journals name.
pub const SCHEMA: &str = "kbench.journal/1";

/// A journal reaches the disk at least this often while cases end: a power failure loses no more.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What went wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It could not be written.
    #[error("the journal {file} could not be written: {cause}")]
    Write {
        /// The journal.
        file: String,
        /// The system's words.
        cause: io::Error,
    },
    /// Another run writes it.
    #[error("the journal {file} is being written by another kbench: give this run another output file (-o)")]
    Busy {
        /// The journal.
        file: String,
    },
    /// It could not be read.
    #[error("{file}: {cause}")]
    Read {
        /// The file.
        file: String,
        /// The system's words.
        cause: io::Error,
    },
    /// A line in the middle is broken.
    #[error("{file}:{line}: this line of the journal is broken: {cause}")]
    Line {
        /// The journal.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        cause: serde_json::Error,
    },
    /// It is neither a journal nor a document.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// It is of another run.
    #[error("{file} cannot be resumed: {reason}")]
    Other {
        /// The file.
        file: String,
        /// What differs.
        reason: String,
    },
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    schema: String,
    /// The document, still without cases.
    run: RunDocument,
    /// Ids of all cases in order.
    ids: Vec<String>,
}

/// Any later line.
#[derive(Debug, Serialize, Deserialize)]
struct Entry<C> {
    /// The case's place among the ids.
    index: usize,
    case: C,
}

/// A journal that is being written. The file is locked while this lives.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    synced: Instant,
}

impl Journal {
    /// Begins a journal with the cases that have ended already. A journal that is there is replaced when `replaces` says that
    /// its cases are among them; else it is kept under another name, which is returned.
    ///
    /// # Errors
    /// When another run writes it, or it cannot be written.
    pub fn create(
        path: &Path,
        run: &RunDocument,
        ids: &[String],
        ended: &BTreeMap<usize, CaseResult>,
        replaces: bool,
    ) -> Result<(Self, Option<PathBuf>), JournalError> {
        let failed = |cause| JournalError::Write { file: path.display().to_string(), cause };
        let mut aside = None;
        if let Ok(there) = File::open(path) {
            if matches!(there.try_lock(), Err(TryLockError::WouldBlock)) {
                return Err(JournalError::Busy { file: path.display().to_string() });
            }
            if !replaces && holds_cases(path) {
                let old = with_ending(path, "old");
                fs::rename(path, &old).map_err(failed)?;
                aside = Some(old);
            }
        }
        let beside = with_ending(path, &format!("{}.tmp", std::process::id()));
        let journal = Self::write(&beside, run, ids, ended).map_err(failed).and_then(|file| {
            fs::rename(&beside, path).map_err(failed)?;
            Ok(Self { file, path: path.to_owned(), synced: Instant::now() })
        });
        if journal.is_err() {
            let _ = fs::remove_file(&beside);
        }
        Ok((journal?, aside))
    }

    fn write(path: &Path, run: &RunDocument, ids: &[String], ended: &BTreeMap<usize, CaseResult>) -> io::Result<File> {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
        // A file system without locks costs the protection against a second run, not this one.
        let _ = file.try_lock();
        let run = RunDocument { cases: Vec::new(), ..run.clone() };
        write_line(&mut file, &Header { schema: SCHEMA.to_owned(), run, ids: ids.to_vec() })?;
        for (index, case) in ended {
            write_line(&mut file, &Entry { index: *index, case })?;
        }
        file.sync_data()?;
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a case that has ended. When this returns, the line is the operating system's: only a failure of the machine can
    /// lose it, and only for a second.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, index: usize, case: &CaseResult) -> Result<(), JournalError> {
        write_line(&mut self.file, &Entry { index, case }).map_err(|cause| self.failed(cause))?;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Sees to it that all is on disk.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.synced = Instant::now();
        self.file.sync_data().map_err(|cause| self.failed(cause))
    }

    /// Deletes it: the document holds everything.
    pub fn delete(self) {
        // One that stays is only in the way: the next run puts it aside.
        let _ = fs::remove_file(&self.path);
    }

    fn failed(&self, cause: io::Error) -> JournalError {
        JournalError::Write { file: self.path.display().to_string(), cause }
    }
}

/// One line in one write, so that no reader sees half of it but after a crash.
fn write_line(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    file.write_all(&bytes)
}

/// `name.ending` beside a file.
fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

/// The journal of an output file.
pub fn beside(output: &Path) -> PathBuf {
    with_ending(output, "journal")
}

/// Whether a file is a journal with cases that would be missed.
fn holds_cases(path: &Path) -> bool {
    matches!(Saved::read(path), Ok(saved) if saved.cases.iter().any(Option::is_some))
}

/// What a journal or a document says of a run.
#[derive(Debug)]
pub struct Saved {
    file: String,
    /// The run; its cases are in `cases`.
    pub run: RunDocument,
    /// Ids of all cases in order.
    pub ids: Vec<String>,
    /// The cases that have ended, at their places.
    pub cases: Vec<Option<CaseResult>>,
}

impl Saved {
    /// Reads a journal or a document.
    ///
    /// # Errors
    /// When it is neither, or broken elsewhere than in its last line.
    pub fn read(path: &Path) -> Result<Self, JournalError> {
        let file = path.display().to_string();
        let bytes = fs::read(path).map_err(|cause| JournalError::Read { file: file.clone(), cause })?;
        match Self::journal(&file, &bytes)? {
            Some(saved) => Ok(saved),
            None => {
                let mut run = RunDocument::from_json(&file, &bytes)?;
                let cases: Vec<CaseResult> = std::mem::take(&mut run.cases);
                let ids = cases.iter().map(|case| case.id.clone()).collect();
                Ok(Self { file, run, ids, cases: cases.into_iter().map(Some).collect() })
            }
        }
    }

    /// A journal's text; `None` when it is none.
    fn journal(file: &str, bytes: &[u8]) -> Result<Option<Self>, JournalError> {
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
        let Some((_, first)) = lines.next() else { return Ok(None) };
        let Ok(header) = serde_json::from_slice::<Header>(first) else { return Ok(None) };
        if header.schema != SCHEMA {
            return Ok(None);
        }
        let mut cases: Vec<Option<CaseResult>> = header.ids.iter().map(|_| None).collect();
        for (number, line) in lines {
            match serde_json::from_slice::<Entry<CaseResult>>(line) {
                Ok(entry) => {
                    if let Some(place) = cases.get_mut(entry.index) {
                        *place = Some(entry.case);
                    }
                }
                // The run was killed while it wrote this line.
                Err(_) if line.last() != Some(&b'\n') => {}
                Err(cause) => return Err(JournalError::Line { file: file.to_owned(), line: number + 1, cause }),
            }
        }
        Ok(Some(Self { file: file.to_owned(), run: header.run, ids: header.ids, cases }))
    }

    /// The cases that need not run again in a run of the same cases with the same options on the same device; with `retry`
    /// not those that failed, hung or could not be counted either.
    ///
    /// # Errors
    /// [`JournalError::Other`] with the first thing that differs.
    pub fn taken_over(
        self,
        now: &RunDocument,
        ids: &[String],
        retry: bool,
    ) -> Result<BTreeMap<usize, CaseResult>, JournalError> {
        if let Some(reason) = self.difference(now, ids) {
            return Err(JournalError::Other { file: self.file, reason });
        }
        let failed = |case: &CaseResult| {
            matches!(case.status, Status::Failed | Status::Hung)
                || case.counting.as_ref().is_some_and(|counting| counting.failed.is_some())
        };
        let ended = |case: &CaseResult| !(case.unfinished || retry && failed(case));
        let places = self.cases.into_iter().enumerate();
        Ok(places.filter_map(|(index, case)| Some((index, case.filter(ended)?))).collect())
    }

    /// The first thing in which two runs differ, when their cases cannot stand in one document.
    fn difference(&self, now: &RunDocument, ids: &[String]) -> Option<String> {
        let then = &self.run;
        if then.device != now.device {
            let name = |run: &RunDocument| format!("{} ({})", run.device.name, run.device.arch);
            return Some(format!("it ran on {}, this run is on {}", name(then), name(now)));
        }
        let (old, new) = (&then.options, &now.options);
        if old.seed != new.seed {
            return Some(format!("its seed was {}, this run's is {} (--seed)", old.seed, new.seed));
        }
        if old.precision != new.precision {
            return Some(format!("its precision was {}, this run's is {} (--precision)", old.precision, new.precision));
        }
        if old.cache != new.cache {
            let modes = |options: &crate::report::document::Options| {
                options.cache.iter().map(|mode| mode.name()).collect::<Vec<_>>().join(" and ")
            };
            return Some(format!("it measured {}, this run {} (--cache)", modes(old), modes(new)));
        }
        if old.kernels != new.kernels {
            let kernels = |given: &Option<String>| given.clone().unwrap_or_else(|| "those in the program".to_owned());
            return Some(format!(
                "its kernels were {}, this run's are {} (--kernels)",
                kernels(&old.kernels),
                kernels(&new.kernels)
            ));
        }
        if old.emu_sample != new.emu_sample {
            return Some("it emulated another number of workgroups (--emu-sample)".to_owned());
        }
        if old.flush_icache != new.flush_icache {
            return Some(
                "one of them flushes the instruction caches, the other one does not (--flush-icache)".to_owned(),
            );
        }
        if old.counting != new.counting {
            let counting = |options: &Option<CountingOptions>| match options {
                None => "nothing".to_owned(),
                Some(CountingOptions { counters, repeats, only, include, exclude }) => {
                    let timing = if *only { ", without timing" } else { "" };
                    let filter = |word: &str, pattern: &Option<String>| {
                        pattern.as_ref().map_or_else(String::new, |pattern| format!(", {word} kernels `{pattern}`"))
                    };
                    let (only_of, but) = (filter("only of", include), filter("not of", exclude));
                    format!("{counters} in {repeats} launches a pass{timing}{only_of}{but}")
                }
            };
            return Some(format!(
                "it counted {}, this run counts {} (--counters, --pmc, --pmc-repeats)",
                counting(&old.counting),
                counting(&new.counting)
            ));
        }
        if self.ids.len() != ids.len() {
            return Some(format!(
                "it has {} cases, this run has {}: the profile or the selection is another one",
                self.ids.len(),
                ids.len()
            ));
        }
        if let Some(place) = self.ids.iter().zip(ids).position(|(old, new)| old != new) {
            return Some(format!(
                "its case {} is {}, this run's is {}: the profile or the selection is another one",
                place + 1,
                self.ids[place],
                ids[place]
            ));
        }
        if then.inventory.total_ns != now.inventory.total_ns || then.inventory.rows != now.inventory.rows {
            return Some("the profile has other kernels or times than then".to_owned());
        }
        None
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
