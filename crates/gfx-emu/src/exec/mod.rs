//! Execution: the state of a wave, and instructions compiled to steps.
//!
//! A [`Step`] is an instruction made ready to run: a handler and operands resolved as far as the bits allow. Handlers are
//! small functions over whole registers of 64 lanes; each exists once per [`Level`] of the host's vector units, and the
//! level is chosen when the step is made.

mod constants;
mod env;
mod levels;
mod memory;
mod mfma;
mod race;
mod scalar;
mod step;
mod valu;
mod wave;

pub use env::Env;
pub use race::Races;
pub use scalar::{APERTURE, PRIVATE_BASE, SHARED_BASE};
pub use step::{Compiler, Flow, Handler, Level, Limits, Src, Step, Unsupported};
pub use wave::{Mode, Vreg, Wave, code};

use crate::isa::Inst;

/// Makes an instruction ready to run.
///
/// # Errors
/// When the executor lacks it, or it names registers that the kernel does not allocate.
pub fn compile(c: &Compiler, inst: &Inst) -> Result<Step, Unsupported> {
    c.arch.check_executed()?;
    scalar::compile(c, inst)
        .or_else(|| valu::compile(c, inst))
        .or_else(|| memory::compile(c, inst))
        .or_else(|| mfma::compile(c, inst))
        .unwrap_or(Err(Unsupported::NoHandler))
}
