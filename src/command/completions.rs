//! `kbench completions`.

use crate::cli::{Cli, CompletionsArgs};
use crate::exit::{Exit, Outcome, from_output};
use clap::CommandFactory as _;
use std::io::{self, Write as _};

/// Prints the script.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kbench", &mut script);
    io::stdout().write_all(&script).map_err(from_output)?;
    Ok(Exit::Ok)
}
