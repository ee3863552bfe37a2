//! Columns by name, and the numbers that stand in cells.

use crate::error::ReadError;
use crate::records::Record;
use crate::sniff::Dialect;
use std::path::Path;

/// Column names of a file. They are compared without case, without outer blanks, and with `µ` in any of its encodings as `u`.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    shown: Vec<String>,
    keys: Vec<String>,
}

fn key(name: &str) -> String {
    name.trim()
        .chars()
        .map(|c| if matches!(c, 'µ' | 'μ' | '\u{fffd}') { 'u' } else { c.to_ascii_lowercase() })
        .collect()
}

impl Header {
    pub(crate) fn new(record: Record<'_>) -> Self {
        Self::of((0..record.len()).map(|index| record.text(index).trim().to_owned()).collect())
    }

    pub(crate) fn of(shown: Vec<String>) -> Self {
        Self { keys: shown.iter().map(|name| key(name)).collect(), shown }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Column of a name (given in lower case, `us` for `µs`).
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.keys.iter().position(|known| known == name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    pub(crate) fn has_all(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.has(name))
    }

    /// Column of the first name that is there.
    pub(crate) fn first_of(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.find(name))
    }

    /// Names as comparison keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// Name of a column as found.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.shown.get(index).map_or("", String::as_str)
    }

    /// The column names for an error text, shortened.
    pub(crate) fn list(&self) -> String {
        const LONGEST: usize = 300;
        let mut list = self.shown.join(",");
        if let Some((cut, _)) = list.char_indices().nth(LONGEST) {
            list.truncate(cut);
            list.push('…');
        }
        list
    }

    /// A column that the reader cannot do without.
    pub(crate) fn need(&self, name: &'static str, path: &Path, dialect: Dialect) -> Result<usize, ReadError> {
        self.find(name).ok_or_else(|| ReadError::MissingColumn {
            path: path.to_owned(),
            dialect,
            column: name,
            columns: self.list(),
        })
    }
}

/// A real number of a cell; nothing when it is empty, malformed, or not finite. A trailing `%` is dropped.
pub(crate) fn real(cell: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(cell).ok()?.trim();
    let number: f64 = text.strip_suffix('%').unwrap_or(text).trim_end().parse().ok()?;
    number.is_finite().then_some(number)
}

/// A count of a cell: `48`, also `48.0`.
pub(crate) fn count(cell: &[u8]) -> Option<u64> {
    match digits(cell) {
        Some(number) => Some(number),
        None => real(cell).filter(|number| *number >= 0.0 && number.fract() == 0.0 && *number < 9e15).map(|n| n as u64),
    }
}

/// A plain decimal number, the fast path of timestamps; surrounding blanks are allowed.
pub(crate) fn digits(cell: &[u8]) -> Option<u64> {
    let cell = cell.trim_ascii();
    if cell.is_empty() || cell.len() > 20 {
        return None;
    }
    cell.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Microseconds as ns; nothing when negative or beyond 64 bits.
pub(crate) fn us_to_ns(us: f64) -> Option<u64> {
    let ns = (us * 1000.0).round();
    (0.0..1.8e19).contains(&ns).then_some(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_without_case_and_micro_sign() {
        let header = Header::of(vec![" Kernel Time (µs)_sum".into(), "NAME".into(), "x (\u{fffd}s)".into()]);
        assert_eq!(header.find("kernel time (us)_sum"), Some(0));
        assert_eq!(header.find("name"), Some(1));
        assert_eq!(header.find("x (us)"), Some(2));
        assert_eq!(header.first_of(&["none", "name"]), Some(1));
    }

    #[test]
    fn numbers_of_cells() {
        assert_eq!(real(b" 2.197% "), Some(2.197));
        assert_eq!(real(b"1e3"), Some(1000.0));
        for bad in [&b""[..], b"nan", b"inf", b"x", b"\xff"] {
            assert_eq!(real(bad), None);
        }
        assert_eq!(count(b"32785.0"), Some(32785));
        assert_eq!(count(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b"18446744073709551616"[..], b"-1", b"1.5", b"", b"1e30"] {
            assert_eq!(count(bad), None, "{}", String::from_utf8_lossy(bad));
        }
        assert_eq!(us_to_ns(5308.273), Some(5_308_273));
        assert_eq!(us_to_ns(-0.001), None);
        assert_eq!(us_to_ns(1e300), None);
    }
}
