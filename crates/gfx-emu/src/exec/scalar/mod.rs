//! Scalar instructions: arithmetic, compares, branches and other control, scalar memory, hardware registers.

mod arith;
mod compare;
mod control;
mod hwreg;
mod smem;
mod unary;

use super::constants::Inline;
use super::step::{Compiler, Handler, Src, Step, Unsupported};
use super::wave::Wave;
use crate::isa::{Encoding, Inst, Op, Operand};

/// Base of the LDS aperture in flat addresses.
pub const SHARED_BASE: u64 = 1 << 48;
/// Base of the scratch aperture in flat addresses.
pub const PRIVATE_BASE: u64 = 2 << 48;
/// Size of each aperture, bytes.
pub const APERTURE: u64 = 1 << 32;

/// Makes a step of a scalar instruction; `None` for other encodings.
pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    let run = match inst.enc {
        Encoding::Sop2 => arith::handler(inst.op).or_else(|| control::handler(inst.op)),
        Encoding::Sop1 => unary::handler(inst.op).or_else(|| control::handler(inst.op)),
        Encoding::Sopk => compare::immediate(inst.op).or_else(|| control::handler(inst.op)),
        Encoding::Sopc => compare::handler(inst.op).or_else(|| control::handler(inst.op)),
        Encoding::Sopp => control::handler(inst.op),
        Encoding::Smem => return Some(smem::compile(c, inst)),
        _ => return None,
    };
    Some(run.ok_or(Unsupported::NoHandler).and_then(|run| step(inst, run)))
}

/// A step with scalar operands.
fn step(inst: &Inst, run: Handler) -> Result<Step, Unsupported> {
    let mut src = [Src::None; 4];
    for (i, (to, from)) in src.iter_mut().zip(&inst.src).enumerate() {
        *to = match *from {
            Operand::Literal(value) => Src::Const(literal(inst.op, i, value)),
            other => source(other)?,
        };
    }
    let mut dst = [0; 2];
    for (to, from) in dst.iter_mut().zip(&inst.dst) {
        *to = match from {
            Operand::None | Operand::Off => 0,
            Operand::Scalar(code) => u16::from(*code),
            _ => return Err(Unsupported::NoHandler),
        };
    }
    let imm = inst
        .src
        .iter()
        .find_map(|operand| if let Operand::Imm(value) = operand { Some(i64::from(*value as i16)) } else { None });
    Ok(Step { dst, src, imm: imm.unwrap_or(0), ..Step::new(inst, run) })
}

/// A literal as source `i`, extended to 64 bits: by its sign where that source is a signed number of 64 bits, else by zeros,
/// which is what compilers count on when they write 0x80000000 or 0xffffffff for an i64. 32-bit sources take the low half.
fn literal(op: Op, i: usize, value: u32) -> u64 {
    let signed = i == 0 && matches!(op, Op::SAshrI64 | Op::SBfeI64 | Op::SFlbitI32I64);
    if signed { value as i32 as u64 } else { value.into() }
}

/// A scalar source. Inline integers and immediates are sign-extended to 64 bits, so that either width can be taken; float
/// constants stand as the bits of an f32.
fn source(operand: Operand) -> Result<Src, Unsupported> {
    Ok(match operand {
        Operand::None | Operand::Off => Src::None,
        Operand::Scalar(code) => Src::Scalar(code),
        Operand::Inline(code) => Src::Const(Inline::of(code).ok_or(Unsupported::NoHandler)?.narrow()),
        Operand::Literal(value) => Src::Const(value.into()),
        Operand::Special(code) => Src::Special(code),
        Operand::Imm(value) => Src::Const(value as i16 as i64 as u64),
        Operand::Vgpr(_) | Operand::Agpr(_) => return Err(Unsupported::NoHandler),
    })
}

/// Reads source `index` as 32 bits.
#[inline(always)]
fn read32(step: &Step, wave: &Wave, index: usize) -> u32 {
    match step.src[index] {
        Src::Scalar(code) => wave.s32(code),
        Src::Const(value) => value as u32,
        other => special(other, wave) as u32,
    }
}

/// Reads source `index` as 64 bits.
#[inline(always)]
fn read64(step: &Step, wave: &Wave, index: usize) -> u64 {
    match step.src[index] {
        Src::Scalar(code) => wave.s64(code),
        Src::Const(value) => match step.inst.src[index] {
            Operand::Inline(code) => Inline::of(code).map_or(value, Inline::wide),
            _ => value,
        },
        other => special(other, wave),
    }
}

/// A special source, or 0 where there is none.
#[cold]
pub(super) fn special(source: Src, wave: &Wave) -> u64 {
    match source {
        Src::Special(235) => SHARED_BASE,
        Src::Special(236) => SHARED_BASE + APERTURE - 1,
        Src::Special(237) => PRIVATE_BASE,
        Src::Special(238) => PRIVATE_BASE + APERTURE - 1,
        Src::Special(251) => u64::from(wave.vcc() == 0),
        Src::Special(252) => u64::from(wave.exec() == 0),
        Src::Special(253) => u64::from(wave.scc),
        _ => 0,
    }
}

/// Sets destination 0 to 32 bits.
#[inline(always)]
fn write32(step: &Step, wave: &mut Wave, value: u32) {
    wave.set_s32(step.dst[0] as u8, value);
}

/// Sets destination 0 to 64 bits.
#[inline(always)]
fn write64(step: &Step, wave: &mut Wave, value: u64) {
    wave.set_s64(step.dst[0] as u8, value);
}
