//! The instruction sets: opcodes, decoding, and the assembler's text of a decoded instruction.

mod class;
mod decode;
mod inst;
mod matrix;
mod op;
mod table;
mod text;

pub use class::{Arithmetic, Class, FloatWidth, coverage, mnemonics};
pub use decode::{DecodeError, decode, decode_wave};
pub use inst::{Arch, Dpp, Dpp8, Dual, Encoding, Inst, Mods, NotExecuted, Operand, Sdwa, WaveSize};
pub(crate) use matrix::MatrixName;
pub use op::Op;
