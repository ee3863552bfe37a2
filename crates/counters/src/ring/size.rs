//! Sizes in bytes with units, as users give them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Units, largest first of each system; `K` is taken for `KiB`, as users of buffers mean it.
const UNITS: [(&str, u64); 16] = [
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("KIB", 1 << 10),
    ("MIB", 1 << 20),
    ("GIB", 1 << 30),
    ("TIB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("BYTES", 1),
    ("BYTE", 1),
];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Size(u64);

/// A text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no size; give a number and a unit: 65536, 256KiB, 64MiB, 1.5GiB (KB, MB and GB are powers of 1000)")]
pub struct ParseSizeError(String);

impl Size {
    /// So many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = ParseSizeError;

    /// A number, which may have a fraction, and a unit in any case; fractions of a byte are cut off.
    fn from_str(text: &str) -> Result<Self, ParseSizeError> {
        let wrong = || ParseSizeError(text.chars().take(40).collect());
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let unit = unit.trim().to_ascii_uppercase();
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let mut bytes = whole.checked_mul(*factor).ok_or_else(wrong)?;
        if !fraction.is_empty() {
            // Nine digits are more than a byte of a TiB; the rest cannot matter to a buffer.
            let digits = fraction.get(..fraction.len().min(9)).unwrap_or_default();
            let value: u128 = digits.parse().map_err(|_| wrong())?;
            let scale = 10_u128.pow(digits.len() as u32);
            let part = u64::try_from(value * u128::from(*factor) / scale).map_err(|_| wrong())?;
            bytes = bytes.checked_add(part).ok_or_else(wrong)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match units.into_iter().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_units_are_read() {
        let cases = [
            ("65536", 65536),
            ("256KiB", 262_144),
            ("64MiB", 67_108_864),
            ("64 mib", 67_108_864),
            ("64M", 67_108_864),
            ("1.5GiB", 1_610_612_736),
            ("1.5MB", 1_500_000),
            ("0.5KiB", 512),
            ("10B", 10),
            ("100 bytes", 100),
            ("0", 0),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in [
            "",
            "MiB",
            "64XB",
            "-1",
            "1..5K",
            "1.K",
            ".5K",
            "1e3",
            "18446744073709551616",
            "99999999999TiB",
            "64MiB!",
            "1 2",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(bytes in any::<u64>()) {
            prop_assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,30}") {
            let _ = text.parse::<Size>();
        }
    }
}
