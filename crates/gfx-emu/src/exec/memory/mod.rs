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
use super::wave::{Vreg, Wave};
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

/// A register number as steps of this module hold it: accumulation registers follow the 256 architectural ones.
fn number(c: &Compiler, operand: Operand, width: u16) -> Result<u16, Unsupported> {
    let (number, acc) = c.vreg(operand, width)?;
    Ok(if acc { number + 256 } else { number })
}

/// A vector source, by [`number`]; nothing where the operand is `off` or absent.
fn vector(c: &Compiler, operand: Operand, width: u16) -> Result<Src, Unsupported> {
    match operand {
        Operand::None | Operand::Off => Ok(Src::None),
        _ => number(c, operand, width).map(Src::Vgpr),
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

/// The first of a run of registers by [`number`].
///
/// # Safety
/// The step's maker has checked that the run exists in the wave.
#[inline(always)]
unsafe fn registers(wave: &mut Wave, number: u16) -> *mut Vreg {
    let number = usize::from(number);
    // SAFETY: the caller's.
    unsafe { if number < 256 { wave.vgpr.as_mut_ptr().add(number) } else { wave.agpr.as_mut_ptr().add(number - 256) } }
}

/// A step with its handler.
fn step(inst: &Inst, run: Handler) -> Step {
    Step {
        run,
        op: inst.op,
        len: inst.size / 4,
        aux: [0; 5],
        dst: [0; 2],
        src: [Src::None; 4],
        imm: i64::from(inst.mods.offset),
        inst: *inst,
    }
}

/// Picks the copy of a handler that [`leveled`] made for a level.
macro_rules! pick {
    ($c:expr, $module:ident $(::<$($arg:ident),*>)?) => {
        match $c.level {
            #[cfg(target_arch = "x86_64")]
            $crate::exec::Level::V4 => $module::v4 $(::<$($arg),*>)? as $crate::exec::Handler,
            #[cfg(target_arch = "x86_64")]
            $crate::exec::Level::V3 => $module::v3 $(::<$($arg),*>)?,
            _ => $module::base $(::<$($arg),*>)?,
        }
    };
}

/// Makes a module `$name` with copies `base`, `v3` and `v4` of the inlined handler body `$body`.
macro_rules! leveled {
    ($name:ident = $body:ident $(<const $arg:ident: $type:ty>)?) => {
        mod $name {
            use super::$body as body;
            use $crate::exec::{Env, Flow, Step, Wave};

            pub(super) unsafe fn base $(<const $arg: $type>)? (step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
                // SAFETY: as the caller of a handler vouches for.
                unsafe { body $(::<$arg>)? (step, wave, env) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
            pub(super) unsafe fn v3 $(<const $arg: $type>)? (step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
                // SAFETY: as the caller of a handler vouches for.
                unsafe { body $(::<$arg>)? (step, wave, env) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl")]
            pub(super) unsafe fn v4 $(<const $arg: $type>)? (step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
                // SAFETY: as the caller of a handler vouches for.
                unsafe { body $(::<$arg>)? (step, wave, env) }
            }
        }
    };
}

use {leveled, pick};
