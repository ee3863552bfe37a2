//! The instruction sets: opcodes, decoding, and the assembler's text of a decoded instruction.

mod inst;
mod op;

pub use inst::{Arch, Dpp, Encoding, Inst, Mods, Operand, Sdwa};
pub use op::Op;
