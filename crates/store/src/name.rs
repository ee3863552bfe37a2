//! Names of runs, and how a run is asked for.

use crate::StoreError;
use std::{fmt, str::FromStr};

/// Longest name, in bytes.
const LONGEST: usize = 200;

/// The name of a run: a label, not a key. Saving again under a name keeps both runs; the name then means the newer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunName(String);

impl RunName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for RunName {
    type Err = StoreError;

    /// A name is 1 to 200 bytes without `~`, control characters, blanks at its ends or a leading `#` or `-`.
    fn from_str(text: &str) -> Result<Self, StoreError> {
        let reason = match () {
            () if text.is_empty() => "it is empty",
            () if text.len() > LONGEST => "it is longer than 200 bytes",
            () if text.trim() != text => "it begins or ends with a blank",
            () if text.starts_with(['#', '-']) => "it begins with `#` (which asks for a run by number) or `-`",
            () if text.contains('~') => "it contains `~` (which asks for an older run of a name)",
            () if text.chars().any(char::is_control) => "it contains a control character",
            () => return Ok(Self(text.to_owned())),
        };
        Err(StoreError::BadName { name: text.escape_debug().to_string(), reason })
    }
}

/// Which run: `main` the newest of that name by date, `main~2` the one two before it, `#17` by number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// By number.
    Id(i64),
    /// By name, so many runs before the newest.
    Name(RunName, u32),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Id(id) => write!(f, "#{id}"),
            Selector::Name(name, 0) => write!(f, "{name}"),
            Selector::Name(name, back) => write!(f, "{name}~{back}"),
        }
    }
}

impl FromStr for Selector {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let bad = |reason| StoreError::BadName { name: text.escape_debug().to_string(), reason };
        if let Some(number) = text.strip_prefix('#') {
            let id = number.parse().map_err(|_| bad("a number is needed behind `#`, such as #17"))?;
            return Ok(Self::Id(id));
        }
        match text.rsplit_once('~') {
            Some((name, back)) => {
                let back = back.parse().map_err(|_| bad("a count is needed behind `~`, such as main~1"))?;
                Ok(Self::Name(name.parse()?, back))
            }
            None => Ok(Self::Name(text.parse()?, 0)),
        }
    }
}
