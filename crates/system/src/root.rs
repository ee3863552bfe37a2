//! Reading small files below a directory that stands for `/`.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Files of sysfs and procfs are shorter; more is not read.
const TEXT_LIMIT: u64 = 64 << 10;
/// Entries of a directory beyond so many are not looked at.
const ENTRY_LIMIT: usize = 4096;

/// The directory that stands for `/`: the system's own, or a tree of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// This machine.
    #[must_use]
    pub fn system() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A tree elsewhere.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// Where the absolute path `path` lies below this root.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A path below this root as the system would name it.
    pub(crate) fn name(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.0).map_or_else(|_| path.to_owned(), |rest| Path::new("/").join(rest))
    }
}

/// The beginning of a file as text, without blanks around it; nothing when it cannot be read or is empty.
pub(crate) fn text(path: &Path) -> Option<String> {
    text_up_to(path, TEXT_LIMIT)
}

/// As [`text`], with another limit in bytes.
pub(crate) fn text_up_to(path: &Path, limit: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// A decimal number in a file.
pub(crate) fn number<T: FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// A hexadecimal number in a file, with or without `0x`.
pub(crate) fn hexadecimal(path: &Path) -> Option<u64> {
    let text = text(path)?;
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
}

/// Entries of a directory whose names are `prefix` and a number, by that number.
pub(crate) fn numbered(directory: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let digits = name.to_str()?.strip_prefix(prefix)?;
        let decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        Some((decimal.then(|| digits.parse().ok())??, entry.path()))
    };
    let mut found: Vec<(u32, PathBuf)> = entries.take(ENTRY_LIMIT).filter_map(Result::ok).filter_map(number).collect();
    found.sort();
    found
}
