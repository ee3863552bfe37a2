//! `kbench worker`: the process that owns a device. kbench starts it itself; it is not listed in the help.

use crate::exit::Outcome;

/// Serves the kbench that started it.
///
/// # Errors
/// When standard input and output are no pipes of a kbench.
pub fn run() -> Outcome {
    crate::worker::serve()
}
