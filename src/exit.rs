//! Exit codes and the one way a command fails.

use std::process::ExitCode;

/// What the process tells its caller (docs/formats.md, "Exit codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything asked for was done.
    Ok,
    /// A gate found a regression.
    Regression,
    /// Bad usage, input or configuration.
    Usage,
    /// Inconclusive under `--strict`.
    Inconclusive,
    /// A result was wrong.
    Wrong,
    /// The device or a tool failed.
    Device,
    /// Stopped by the user; what was measured was written.
    Interrupted,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Regression => 1,
            Exit::Usage => 2,
            Exit::Inconclusive => 3,
            Exit::Wrong => 4,
            Exit::Device => 5,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// A command that could not do its work: an exit code and one paragraph (what, where, what to do).
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The paragraph, with causes.
    pub error: anyhow::Error,
}

/// The result of a command.
pub type Outcome<T = Exit> = Result<T, Failure>;

/// Attaches an exit code to any error.
pub trait OrExit<T> {
    /// Bad usage, input or configuration: exit 2.
    fn or_usage(self) -> Result<T, Failure>;
    /// A device or tool failure: exit 5.
    fn or_device(self) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_usage(self) -> Result<T, Failure> {
        self.map_err(|error| Failure { exit: Exit::Usage, error: error.into() })
    }

    fn or_device(self) -> Result<T, Failure> {
        self.map_err(|error| Failure { exit: Exit::Device, error: error.into() })
    }
}

/// A usage failure from a message.
pub fn usage(message: impl std::fmt::Display) -> Failure {
    Failure { exit: Exit::Usage, error: anyhow::anyhow!("{message}") }
}

/// The report of a command whose exit code says more than the report: a reader that went away (`kbench … | head`) has what it
/// wanted, and what was found still is the exit code.
///
/// # Errors
/// When it could not be written for another reason.
pub fn reported(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(from_output),
    }
}

/// A failed write to standard output. A closed pipe (`kbench … | head`) is not an error.
pub fn from_output(error: std::io::Error) -> Failure {
    let exit = if error.kind() == std::io::ErrorKind::BrokenPipe { Exit::Ok } else { Exit::Device };
    Failure { exit, error: anyhow::Error::new(error).context("the output could not be written") }
}
