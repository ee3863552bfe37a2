//! What can be wrong with a file.

use thiserror::Error;

/// Why a file, or a part of it, could not be read.
///
/// Offsets count bytes from the start of what was given to the function that failed: the file for
/// [`load`](crate::load), the code object for [`CodeObject::parse`](crate::CodeObject::parse).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are something else.
    #[error("{found}, but {expected} was expected")]
    WrongKind {
        /// What the bytes look like.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The right kind of file, but its structure contradicts itself or ends early.
    #[error("damaged at offset {offset:#x}: {problem}")]
    Damaged {
        /// Where.
        offset: u64,
        /// What was found and what was expected.
        problem: String,
    },
    /// Well formed, but of a kind that this crate does not read.
    #[error("{what} is not supported; {instead}")]
    Unsupported {
        /// What it is.
        what: String,
        /// What to do.
        instead: &'static str,
    },
    /// A decompressor refused.
    #[error("compressed bundle at offset {offset:#x}: {method} failed: {cause}")]
    Decompression {
        /// Start of the compressed bundle.
        offset: u64,
        /// `zlib` or `zstd`.
        method: &'static str,
        /// The decompressor's words.
        cause: String,
    },
}

impl Error {
    pub(crate) fn damaged(offset: impl TryInto<u64>, problem: impl Into<String>) -> Self {
        Error::Damaged { offset: offset.try_into().unwrap_or(u64::MAX), problem: problem.into() }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
