//! Operations with lane masks: selects, carries, and the wide multiply-add.

use super::general::{Index, fetch, fetch64, store, store64};
use super::lane::Ty;
use super::simd::{BASE, V3, V4, blend, spread, test};
use super::{mask_code, step};
use crate::exec::Env;
use crate::exec::step::{Compiler, Flow, Handler, Level, Src, Step, Unsupported};
use crate::exec::wave::{Vreg, Wave};
use crate::isa::{Inst, Op, Operand};

/// What a carry operation does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carry {
    Add,
    Sub,
    Subrev,
}

/// `Step::aux`: [`Carry`], and whether there is a carry in.
const AUX_KIND: usize = 1;
const AUX_CARRY_IN: usize = 2;
/// `Step::aux`: the scalar code of the mask that is read.
const AUX_MASK: usize = 3;

pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    let (kind, carries) = match inst.op {
        Op::VCndmaskB32 => return Some(cndmask(c, inst)),
        Op::VMadU64U32 => return Some(mad64(c, inst, mad_u64 as Handler, Ty::B64)),
        Op::VMadI64I32 => return Some(mad64(c, inst, mad_i64 as Handler, Ty::I64)),
        Op::VAddCoU32 => (Carry::Add, false),
        Op::VSubCoU32 => (Carry::Sub, false),
        Op::VSubrevCoU32 => (Carry::Subrev, false),
        Op::VAddcCoU32 => (Carry::Add, true),
        Op::VSubbCoU32 => (Carry::Sub, true),
        Op::VSubbrevCoU32 => (Carry::Subrev, true),
        _ => return None,
    };
    Some(carry(c, inst, kind, carries))
}

fn cndmask(c: &Compiler, inst: &Inst) -> Result<Step, Unsupported> {
    let run = match c.level {
        Level::Base => cndmask_base as Handler,
        #[cfg(target_arch = "x86_64")]
        Level::V3 => cndmask_v3 as Handler,
        #[cfg(target_arch = "x86_64")]
        Level::V4 => cndmask_v4 as Handler,
        #[cfg(not(target_arch = "x86_64"))]
        _ => cndmask_base as Handler,
    };
    let mut step = step(c, inst, run, &[Ty::F32, Ty::F32], Some(Ty::F32))?;
    if inst.mods.clamp || inst.mods.omod != 0 {
        return Err(Unsupported::NoHandler);
    }
    step.aux[AUX_MASK] = mask_code(inst.src[2])?;
    Ok(step)
}

fn carry(c: &Compiler, inst: &Inst, kind: Carry, carries: bool) -> Result<Step, Unsupported> {
    let run = match c.level {
        Level::Base => carry_base as Handler,
        #[cfg(target_arch = "x86_64")]
        Level::V3 => carry_v3 as Handler,
        #[cfg(target_arch = "x86_64")]
        Level::V4 => carry_v4 as Handler,
        #[cfg(not(target_arch = "x86_64"))]
        _ => carry_base as Handler,
    };
    let mut step = step(c, inst, run, &[Ty::U32, Ty::U32], Some(Ty::U32))?;
    step.dst[1] = u16::from(mask_code(inst.dst[1])?);
    step.aux[AUX_KIND] = kind as u8;
    step.aux[AUX_CARRY_IN] = u8::from(carries);
    if carries {
        step.aux[AUX_MASK] = mask_code(inst.src[2])?;
    }
    Ok(step)
}

fn mad64(c: &Compiler, inst: &Inst, run: Handler, ty: Ty) -> Result<Step, Unsupported> {
    let narrow = if ty == Ty::I64 { Ty::I32 } else { Ty::U32 };
    let mut step = step(c, inst, run, &[narrow, narrow, ty], Some(ty))?;
    step.dst[1] = u16::from(match inst.dst[1] {
        Operand::Scalar(code) => code,
        _ => return Err(Unsupported::NoHandler),
    });
    Ok(step)
}

/// Source `i`: the register itself where no modifier applies, else a fetched copy.
#[inline(always)]
fn source<'a>(
    step: &Step,
    wave: &'a Wave,
    index: Index,
    ty: Ty,
    i: usize,
    scratch: &'a mut Vreg,
    writable: &mut u64,
) -> &'a Vreg {
    let mods = &step.inst.mods;
    let plain = mods.dpp.is_none() && mods.sdwa.is_none() && (mods.abs | mods.neg) == 0 && !wave.mode.gpr_idx();
    if plain {
        match step.src[i] {
            Src::Vgpr(number) => {
                if let Some(register) = wave.vgpr.get(usize::from(number)) {
                    return register;
                }
            }
            Src::Scalar(code) => *scratch = Vreg([wave.s32(code); 64]),
            Src::Const(value) => *scratch = Vreg([value as u32; 64]),
            _ => {
                fetch(step, wave, index, ty, i, scratch);
            }
        }
        return scratch;
    }
    *writable &= fetch(step, wave, index, ty, i, scratch);
    scratch
}

/// Writes a 32-bit result.
#[inline(always)]
unsafe fn finish<const L: u8>(step: &Step, wave: &mut Wave, index: Index, r: &mut Vreg, mask: u64) {
    if step.inst.mods.sdwa.is_some() || wave.mode.gpr_idx() {
        store(step, wave, index, Ty::U32, false, r, mask);
    } else if let Some(to) = wave.vgpr.get_mut(usize::from(step.dst[0])) {
        if mask == !0 {
            *to = *r;
        } else {
            // SAFETY: `to` is a register, and the step is of level `L`.
            unsafe { blend::<L>(to, r, mask) }
        }
    }
}

#[inline(always)]
unsafe fn cndmask_at<const L: u8>(step: &Step, wave: &mut Wave) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let select = wave.s64(step.aux[AUX_MASK]);
    let mut writable = wave.exec();
    let (mut scratch, mut other) = (Vreg([0; 64]), Vreg([0; 64]));
    let mut r = *source(step, wave, index, Ty::F32, 0, &mut scratch, &mut writable);
    let b = source(step, wave, index, Ty::F32, 1, &mut other, &mut writable);
    // SAFETY: the step is of level `L`.
    unsafe {
        blend::<L>(&mut r, b, select);
        finish::<L>(step, wave, index, &mut r, writable);
    }
    Flow::Next
}

#[inline(always)]
unsafe fn carry_at<const L: u8>(step: &Step, wave: &mut Wave) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    if !index.reaches(wave, step.dst[0], 1) {
        return Flow::Next;
    }
    let mut writable = wave.exec();
    let mut scratch = [Vreg([0; 64]); 2];
    let [first, second] = &mut scratch;
    let a = source(step, wave, index, Ty::U32, 0, first, &mut writable);
    let b = source(step, wave, index, Ty::U32, 1, second, &mut writable);
    let kind = step.aux[AUX_KIND];
    let (a, b) = if kind == Carry::Subrev as u8 { (b, a) } else { (a, b) };
    let mut carry = Vreg([0; 64]);
    if step.aux[AUX_CARRY_IN] != 0 {
        spread(wave.s64(step.aux[AUX_MASK]), 1, &mut carry);
    }
    let mut r = Vreg([0; 64]);
    let adds = kind == Carry::Add as u8;
    if adds {
        for lane in 0..64 {
            let sum = a.0[lane].wrapping_add(b.0[lane]);
            let all = sum.wrapping_add(carry.0[lane]);
            carry.0[lane] = u32::from(sum < a.0[lane]) | u32::from(all < sum);
            r.0[lane] = all;
        }
    } else {
        for lane in 0..64 {
            let difference = a.0[lane].wrapping_sub(b.0[lane]);
            let all = difference.wrapping_sub(carry.0[lane]);
            carry.0[lane] = u32::from(a.0[lane] < b.0[lane]) | u32::from(difference < carry.0[lane]);
            r.0[lane] = all;
        }
    }
    if step.inst.mods.clamp {
        let limit = if adds { !0 } else { 0 };
        for lane in 0..64 {
            r.0[lane] = if carry.0[lane] != 0 { limit } else { r.0[lane] };
        }
    }
    // SAFETY: the step is of level `L`.
    unsafe {
        let out = test::<L>(&carry, 1) & writable;
        finish::<L>(step, wave, index, &mut r, writable);
        wave.set_s64(step.dst[1] as u8, out);
    }
    Flow::Next
}

/// The handlers of one level.
macro_rules! level {
    ($features:literal, $level:expr, $cndmask:ident, $carry:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $cndmask(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
            // SAFETY: the caller vouches for the features.
            unsafe { cndmask_at::<{ $level }>(step, wave) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $carry(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
            // SAFETY: the caller vouches for the features.
            unsafe { carry_at::<{ $level }>(step, wave) }
        }
    };
}

level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt", V3, cndmask_v3, carry_v3);
level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl", V4, cndmask_v4, carry_v4);

unsafe fn cndmask_base(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    // SAFETY: the base level needs no features.
    unsafe { cndmask_at::<BASE>(step, wave) }
}

unsafe fn carry_base(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    // SAFETY: the base level needs no features.
    unsafe { carry_at::<BASE>(step, wave) }
}

/// `D = S0 · S1 + S2` in 64 bits, the carry (or the sign of the 65-bit sum) to a scalar pair. A clamp saturates.
fn mad_at(step: &Step, wave: &mut Wave, signed: bool) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    if !index.reaches(wave, step.dst[0], 2) {
        return Flow::Next;
    }
    let (mut a, mut b) = (Vreg([0; 64]), Vreg([0; 64]));
    let mut c = [Vreg([0; 64]); 2];
    let exec = wave.exec();
    fetch(step, wave, index, Ty::U32, 0, &mut a);
    fetch(step, wave, index, Ty::U32, 1, &mut b);
    fetch64(step, wave, index, Ty::B64, 2, &mut c);
    let mut r = [Vreg([0; 64]); 2];
    let mut carries = 0u64;
    let clamp = step.inst.mods.clamp;
    for lane in 0..64 {
        let addend = u64::from(c[0].0[lane]) | u64::from(c[1].0[lane]) << 32;
        let (sum, carry, limit) = if signed {
            let product = i64::from(a.0[lane] as i32) * i64::from(b.0[lane] as i32);
            let sum = i128::from(product) + i128::from(addend as i64);
            let limit = if sum < 0 { i64::MIN } else { i64::MAX } as u64;
            (sum as u64, (sum >> 64) & 1 != 0, (sum != i128::from(sum as i64)).then_some(limit))
        } else {
            let product = u64::from(a.0[lane]) * u64::from(b.0[lane]);
            let (sum, carry) = product.overflowing_add(addend);
            (sum, carry, carry.then_some(u64::MAX))
        };
        let value = if clamp { limit.unwrap_or(sum) } else { sum };
        carries |= u64::from(carry) << lane;
        r[0].0[lane] = value as u32;
        r[1].0[lane] = (value >> 32) as u32;
    }
    store64(step, wave, index, Ty::B64, &r, exec);
    wave.set_s64(step.dst[1] as u8, carries & exec);
    Flow::Next
}

unsafe fn mad_u64(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    mad_at(step, wave, false)
}

unsafe fn mad_i64(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    mad_at(step, wave, true)
}
