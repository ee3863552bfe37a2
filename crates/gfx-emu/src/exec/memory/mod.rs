//! Memory instructions: FLAT, GLOBAL, SCRATCH, buffers and LDS.
//!
//! All of them complete when they are issued, so that waits need nothing. Addresses of all lanes are computed first; lanes
//! that lie one after another take one check and one copy, others one of each.

mod atomic;
mod buffer;
mod ds;
mod ds_cross;
mod ds_kind;
mod flat;
mod format;
mod kind;
mod lanes;

pub(super) use atomic::{Atomic, Change, change};

use super::constants::Inline;
use super::step::{Compiler, Handler, Src, Step, Unsupported};
use super::wave::Wave;
use crate::isa::{Encoding, Inst, Operand};

/// Makes a step of a memory instruction; `None` for other encodings.
pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    match inst.enc {
        Encoding::Flat | Encoding::Global | Encoding::Scratch => Some(flat::compile(c, inst)),
        Encoding::Mubuf | Encoding::Mtbuf => Some(buffer::compile(c, inst)),
        Encoding::Ds => Some(ds::compile(c, inst)),
        _ => None,
    }
}

/// A vector source, by [`Compiler::register`]; nothing where the operand is `off` or absent.
fn vector(c: &Compiler, operand: Operand, width: u16) -> Result<Src, Unsupported> {
    match operand {
        Operand::None | Operand::Off => Ok(Src::None),
        _ => c.register(operand, width).map(Src::Vgpr),
    }
}

/// A scalar source: register or constant.
fn scalar(operand: Operand) -> Result<Src, Unsupported> {
    Ok(match operand {
        Operand::None | Operand::Off => Src::None,
        Operand::Scalar(code) => Src::Scalar(code),
        Operand::Inline(code) => match Inline::of(code) {
            Some(Inline::Integer(value)) => Src::Const(value as u64),
            _ => return Err(Unsupported::NoHandler),
        },
        Operand::Literal(value) => Src::Const(value.into()),
        Operand::Special(code) => Src::Special(code),
        _ => return Err(Unsupported::NoHandler),
    })
}

/// A scalar source's 32 bits.
#[inline(always)]
fn scalar32(source: Src, wave: &Wave) -> u32 {
    match source {
        Src::Scalar(code) => wave.s32(code),
        Src::Const(value) => value as u32,
        other => super::scalar::special(other, wave) as u32,
    }
}

/// A step with its handler and the instruction's offset.
fn step(inst: &Inst, run: Handler) -> Step {
    Step { imm: i64::from(inst.mods.offset), ..Step::new(inst, run) }
}
