//! Why a file cannot be read as a trace.

use std::io;

/// A file that is no trace, or a trace from which nothing can be learnt about kernels. Damage that leaves something to
/// work with is no error: it is a finding in [`Trace::health`](super::Trace::health).
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot open the trace {path}: {source}")]
    Open {
        /// File as given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Reading stopped with an error of the system.
    #[error("cannot read the trace {path} beyond byte {offset}: {source}")]
    Read {
        /// File as given.
        path: String,
        /// Bytes of the file read before.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The content is not a PyTorch or Chrome trace.
    #[error("{path} is not a PyTorch (kineto) trace: {found}")]
    NotATrace {
        /// File as given.
        path: String,
        /// What the content is, and what would be right.
        found: String,
    },
    /// A trace in which no kernel ran (or none was recorded).
    #[error("{path} holds no GPU kernel to take time from: {reason}")]
    NoKernels {
        /// File as given.
        path: String,
        /// What is there, the usual causes, and what to do.
        reason: String,
    },
}
