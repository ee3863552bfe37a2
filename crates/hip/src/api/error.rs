//! The one error type.

use std::path::PathBuf;
use std::time::Duration;

use crate::sys;

/// Why something with HIP did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HipError {
    /// A call returned an error.
    #[error("{function}{} failed: {name} ({code}){}", about_part(context), text_part(text))]
    Call {
        /// The C function.
        function: &'static str,
        /// Its status.
        code: u32,
        /// The library's name for the status, such as `hipErrorNoDevice`.
        name: Box<str>,
        /// The library's text for the status; may be empty.
        text: Box<str>,
        /// What the call was about (a kernel, a number of bytes); may be empty.
        context: Box<str>,
    },
    /// A source did not compile.
    #[error("{program} did not compile for `{options}`: {name} ({code})\n{log}")]
    Compile {
        /// The program's name.
        program: Box<str>,
        /// The options it was compiled with, separated by blanks.
        options: Box<str>,
        /// Status of `hiprtcCompileProgram`.
        code: u32,
        /// The library's name for the status; `hiprtcResult` when it has none.
        name: Box<str>,
        /// The compiler's messages; may be empty.
        log: Box<str>,
    },
    /// No library could be loaded.
    #[error(
        "no {what} library could be loaded: {}. Install ROCm's {what} runtime, or name the file in ${variable}",
        tried_part(tried)
    )]
    NoLibrary {
        /// `HIP` or `hiprtc`.
        what: &'static str,
        /// The environment variable that names a file.
        variable: &'static str,
        /// What was tried, in order.
        tried: Vec<Tried>,
    },
    /// The library lacks a function.
    #[error("{} has no function {symbol}, which is needed for {needed_for}: it is too old, or not the library it should be", library.display())]
    MissingSymbol {
        /// The library.
        library: PathBuf,
        /// The function.
        symbol: &'static str,
        /// What cannot be done without it.
        needed_for: &'static str,
    },
    /// The deadline passed before the device was done. The work is still under way, and its memory must not be touched.
    #[error("{what} was not done after {:.3} s", waited.as_secs_f64())]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        waited: Duration,
    },
    /// A request that can be told to be wrong without asking HIP.
    #[error("{0}")]
    Invalid(Box<str>),
}

/// A file that could not be loaded, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The file, or a bare name that the loader searches for.
    pub file: PathBuf,
    /// The loader's reason.
    pub reason: Box<str>,
}

impl HipError {
    /// The status of a failed call, if this is one.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Call { code, .. } | Self::Compile { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// HIP works but sees no GPU (`hipErrorNoDevice`). Not the same as a count of 0, which HIP gives when variables such as
    /// `HIP_VISIBLE_DEVICES` hide all GPUs.
    #[must_use]
    pub fn no_device(&self) -> bool {
        self.is(sys::hipErrorNoDevice)
    }

    /// Device memory is short (`hipErrorOutOfMemory`): a smaller request may work.
    #[must_use]
    pub fn out_of_memory(&self) -> bool {
        self.is(sys::hipErrorOutOfMemory)
    }

    /// The code object has no code for this device (`hipErrorNoBinaryForGpu`).
    #[must_use]
    pub fn no_binary_for_gpu(&self) -> bool {
        self.is(sys::hipErrorNoBinaryForGpu)
    }

    /// The deadline of a wait has passed.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        matches!(self, Self::Timeout { .. })
    }

    /// The library lacks the function.
    #[must_use]
    pub fn missing_symbol(&self) -> bool {
        matches!(self, Self::MissingSymbol { .. })
    }

    /// The call returned this status of HIP.
    fn is(&self, status: u32) -> bool {
        matches!(self, Self::Call { code, .. } if *code == status)
    }

    /// The same error, saying what the call was about.
    #[must_use]
    pub(crate) fn about(mut self, what: impl FnOnce() -> String) -> Self {
        if let Self::Call { context, .. } = &mut self {
            *context = what().into();
        }
        self
    }

    /// A wrong request.
    pub(crate) fn invalid(why: String) -> Self {
        Self::Invalid(why.into())
    }
}

fn about_part(context: &str) -> String {
    if context.is_empty() { String::new() } else { format!(" ({context})") }
}

fn text_part(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

fn tried_part(tried: &[Tried]) -> String {
    let parts: Vec<String> = tried.iter().map(|t| format!("{} ({})", t.file.display(), t.reason)).collect();
    parts.join("; ")
}
