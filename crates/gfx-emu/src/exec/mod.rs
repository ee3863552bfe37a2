//! Execution: the state of a wave, and instructions compiled to steps.
//!
//! A [`Step`] is an instruction made ready to run: a handler and operands resolved as far as the bits allow. Handlers are
//! small functions over whole registers of 64 lanes; each exists once per [`Level`] of the host's vector units, and the
//! level is chosen when the step is made.

mod env;
mod step;
#[allow(dead_code)]
mod valu;
mod wave;

pub use env::Env;
pub use step::{Compiler, Flow, Handler, Level, Limits, Src, Step, Unsupported};
pub use wave::{Mode, Vreg, Wave, code};
