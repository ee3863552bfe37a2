//! The store as commands use it: where it is, what goes in, dates.

use super::compare::in_file;
use crate::cli::StoreFile;
use crate::exit::{Failure, OrExit as _, usage};
use crate::report::RunDocument;
use anyhow::Context as _;
use directories::ProjectDirs;
use kbench_store::{RunId, RunName, Store};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest document that is read, bytes: ten thousand cases of ten thousand samples.
const LARGEST: u64 = 1 << 31;

/// The file: the one given, or `kbench.db` in the user's data folder.
///
/// # Errors
/// When none is given and the user has no data folder.
pub(crate) fn path(given: &StoreFile) -> Result<PathBuf, Failure> {
    let default = || ProjectDirs::from("", "", "kbench").map(|dirs| dirs.data_dir().join("kbench.db"));
    let none = || {
        usage("there is no data folder to keep runs in (neither $XDG_DATA_HOME nor $HOME is set); give --store FILE")
    };
    given.path.clone().or_else(default).ok_or_else(none)
}

/// Saves a run. `created_ms` is when it was made.
///
/// # Errors
/// When the store cannot be opened or written.
pub(crate) fn save(file: &StoreFile, name: &RunName, document: &RunDocument) -> Result<RunId, Failure> {
    // Through text: sums of bytes may be wider than a value's integers.
    let document: Value = serde_json::to_string(document).and_then(|text| serde_json::from_str(&text)).or_device()?;
    let mut store = Store::open(&path(file)?).or_usage()?;
    store.save(name, now_ms(), &document).or_usage()
}

/// Opens the store before a run is made that is to be saved in it: what is no store must not cost the run.
///
/// # Errors
/// When the store cannot be opened or made.
pub(crate) fn check(file: &StoreFile) -> Result<(), Failure> {
    Store::open(&path(file)?).map(drop).or_usage()
}

/// Reads a JSON document.
///
/// # Errors
/// When the file cannot be read, is too large, or is no JSON.
pub(crate) fn read_document(path: &Path) -> Result<Value, Failure> {
    let name = || path.display().to_string();
    let size = std::fs::metadata(path).with_context(name).or_usage()?.len();
    if size > LARGEST {
        return Err(in_file(path, format!("a document of {size} bytes is larger than the {LARGEST} that are read")));
    }
    let bytes = std::fs::read(path).with_context(name).or_usage()?;
    serde_json::from_slice(&bytes).map_err(|error| in_file(path, format!("it is no whole JSON document: {error}")))
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    ms_of(SystemTime::now())
}

/// A time in milliseconds since 1970, negative before.
pub(crate) fn ms_of(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    }
}

/// `2026-11-29 23:22` in UTC, by the civil calendar (Hinnant, "chrono-compatible low-level date algorithms").
pub(crate) fn date(ms: i64) -> String {
    let minutes = ms.div_euclid(60_000);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    let z = days.saturating_add(719_468);
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values by `date -u -d @SECONDS`.
    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (4_107_542_400, "2100-03-01 00:00"),
            (1_795_994_520, "2026-11-29 23:22"),
            (-1, "1969-12-31 23:59"),
        ] {
            assert_eq!(date(seconds * 1000), text, "{seconds}");
        }
        assert!(!date(i64::MAX).is_empty() && !date(i64::MIN).is_empty());
    }
}
