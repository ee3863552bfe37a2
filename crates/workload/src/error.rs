//! Why a shape or dtype cannot be a case.

/// A shape, dtype or value that the family cannot be built from. The text says which key, what was found and what
/// would be right; callers add the file and line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The text of a shape or dtype cell does not follow the grammar (`docs/formats.md`).
    #[error("`{text}` is not a shape: {reason}")]
    Grammar {
        /// The offending text, shortened.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A key that the family needs is not there.
    #[error("{family} needs `{key}` ({what})")]
    Missing {
        /// Family name.
        family: &'static str,
        /// The missing key.
        key: &'static str,
        /// What the key means.
        what: &'static str,
    },
    /// A key that the family does not know.
    #[error("{family} has no `{key}`; it knows {known}")]
    Unknown {
        /// Family name.
        family: &'static str,
        /// The unknown key.
        key: String,
        /// The keys it knows, joined.
        known: String,
    },
    /// A value of the wrong kind or out of range.
    #[error("`{key}={value}`: {reason}")]
    Invalid {
        /// The key.
        key: String,
        /// Its value as text.
        value: String,
        /// What would be right.
        reason: String,
    },
    /// A dtype name or combination that the family cannot run.
    #[error("dtype {dtype}: {reason}")]
    Dtype {
        /// The dtype cell or role.
        dtype: String,
        /// What would be right.
        reason: String,
    },
    /// The family is known but has no workload.
    #[error("kbench has no workload for the family {0}")]
    NoWorkload(&'static str),
}

impl ShapeError {
    /// A value that is well-formed but cannot be right.
    pub fn invalid(key: &str, value: impl ToString, reason: impl Into<String>) -> Self {
        Self::Invalid { key: key.to_owned(), value: value.to_string(), reason: reason.into() }
    }

    /// A dtype that the family cannot run.
    pub fn dtype(dtype: impl ToString, reason: impl Into<String>) -> Self {
        Self::Dtype { dtype: dtype.to_string(), reason: reason.into() }
    }

    /// A text that does not parse; long texts are shortened.
    pub fn grammar(text: &str, reason: impl Into<String>) -> Self {
        const LONGEST: usize = 80;
        let mut shown: String = text.chars().take(LONGEST).collect();
        if text.chars().count() > LONGEST {
            shown.push('…');
        }
        Self::Grammar { text: shown, reason: reason.into() }
    }
}
