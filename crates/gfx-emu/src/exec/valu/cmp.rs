//! Compares: `v_cmp_*`, `v_cmpx_*`, and their class forms.
//!
//! A lane's relation is one of four bits (less, equal, greater, unordered), and an opcode's condition is the set of bits that
//! it is true for: the hardware numbers the conditions just so (`LT` 1, `EQ` 2, `GT` 4, `U` 8).

use super::cmp_table::condition;
use super::fp::*;
use super::general::{Index, Kernel32, Kernel64, Kernels, evaluate, evaluate64};
use super::lane::{DIVERTED, Lane32, Lane64, Ty, input, kernels32, kernels64};
use super::simd::{BASE, V3, V4, test};
use super::{mask_code, no_modifiers, step, uniform_sources};
use crate::exec::Env;
use crate::exec::step::{Compiler, Flow, Handler, Level, Step, Unsupported};
use crate::exec::wave::{Vreg, Wave};
use crate::isa::Inst;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    F16,
    F32,
    F64,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    ClassF16,
    ClassF32,
    ClassF64,
}

/// `Step::aux`: the condition, and whether EXEC is written too.
const AUX_CONDITION: usize = 1;
const AUX_EXEC: usize = 2;

/// Relation bits of an ordered pair.
#[inline(always)]
fn relation(less: bool, equal: bool) -> u32 {
    if less {
        1
    } else if equal {
        2
    } else {
        4
    }
}

/// The bit of `v_cmp_class`'s mask that a number belongs to.
#[inline(always)]
fn class(negative: bool, nan: bool, quiet: bool, infinite: bool, normal: bool, zero: bool) -> u32 {
    if nan {
        return if quiet { 2 } else { 1 };
    }
    let rank = if infinite {
        0
    } else if normal {
        1
    } else if zero {
        3
    } else {
        2
    };
    if negative { 4 << rank } else { 0x200 >> rank }
}

/// Defines the lane operations of the relations.
macro_rules! relations {
    ($($trait:ident $word:ident $name:ident ($a_ty:ident, $b_ty:ident) = |$p:ident, $a:ident, $b:ident| $body:expr;)*) => {
        $(struct $name;
        relations!(@ $trait $word $name ($a_ty, $b_ty) $p $a $b $body);)*
    };
    (@ Lane32 $word:ident $name:ident ($a_ty:ident, $b_ty:ident) $p:ident $a:ident $b:ident $body:expr) => {
        impl Lane32 for $name {
            const N: u8 = 2;
            const SRC: [Ty; 3] = [Ty::$a_ty, Ty::$b_ty, Ty::B32];
            const DST: Ty = Ty::B32;
            const KEEP: bool = false;
            const HOT: bool = false;
            const SATURATES: bool = false;
            #[inline(always)]
            fn lane<P: Fp>($p: P, [$a, $b, _]: [u32; 3]) -> u32 {
                let _ = $p;
                $body
            }
            fn exact(_: [u32; 3]) -> i64 {
                0
            }
        }
    };
    (@ Lane64 $word:ident $name:ident ($a_ty:ident, $b_ty:ident) $p:ident $a:ident $b:ident $body:expr) => {
        impl Lane64 for $name {
            const N: u8 = 2;
            const SRC: [Ty; 3] = [Ty::$a_ty, Ty::$b_ty, Ty::B32];
            const DST: Ty = Ty::B32;
            const HOT: bool = false;
            #[inline(always)]
            fn lane<P: Fp>($p: P, [$a, $b, _]: [u64; 3]) -> u64 {
                let _ = $p;
                u64::from($body)
            }
        }
    };
}

relations! {
    Lane32 u32 RelF32(F32, F32) = |p, a, b| {
        let (a, b) = (f(in32(p, a)), f(in32(p, b)));
        if a.is_nan() | b.is_nan() { 8 } else { relation(a < b, a == b) }
    };
    Lane32 u32 RelF16(F16, F16) = |p, a, b| {
        let (a, b) = (f(widen16(in16(p, a))), f(widen16(in16(p, b))));
        if a.is_nan() | b.is_nan() { 8 } else { relation(a < b, a == b) }
    };
    Lane32 u32 RelI32(I32, I32) = |p, a, b| relation((a as i32) < b as i32, a == b);
    Lane32 u32 RelU32(U32, U32) = |p, a, b| relation(a < b, a == b);
    Lane32 u32 RelI16(I16, I16) = |p, a, b| relation((a as i16) < b as i16, a as i16 == b as i16);
    Lane32 u32 RelU16(U16, U16) = |p, a, b| relation((a as u16) < b as u16, a as u16 == b as u16);
    Lane64 u64 RelF64(F64, F64) = |p, a, b| {
        let (a, b) = (d(in64(p, a)), d(in64(p, b)));
        if a.is_nan() | b.is_nan() { 8u32 } else { relation(a < b, a == b) }
    };
    Lane64 u64 RelI64(I64, I64) = |p, a, b| relation((a as i64) < b as i64, a == b);
    Lane64 u64 RelU64(U64, U64) = |p, a, b| relation(a < b, a == b);
    Lane32 u32 ClsF32(F32, B32) = |p, a, b| {
        let field = a & 0x7f80_0000;
        b & class(a >> 31 != 0, is_nan32(a), a & 0x0040_0000 != 0, field == 0x7f80_0000, field != 0, a << 1 == 0)
    };
    Lane32 u32 ClsF16(F16, B32) = |p, a, b| {
        let field = a & 0x7c00;
        b & class(a & 0x8000 != 0, is_nan16(a), a & 0x200 != 0, field == 0x7c00, field != 0, a & 0x7fff == 0)
    };
    Lane64 u64 ClsF64(F64, B32) = |p, a, b| {
        let field = a & 0x7ff0_0000_0000_0000;
        let (nan, quiet) = (is_nan64(a), a & 0x0008_0000_0000_0000 != 0);
        b as u32 & class(a >> 63 != 0, nan, quiet, field == 0x7ff0_0000_0000_0000, field != 0, a << 1 == 0)
    };
}

/// The step of a compare.
pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    let (kind, condition, exec) = condition(inst.op)?;
    Some(match kind {
        Kind::F32 => narrow::<RelF32>(c, inst, condition, exec),
        Kind::F16 => narrow::<RelF16>(c, inst, condition, exec),
        Kind::I32 => narrow::<RelI32>(c, inst, condition, exec),
        Kind::U32 => narrow::<RelU32>(c, inst, condition, exec),
        Kind::I16 => narrow::<RelI16>(c, inst, condition, exec),
        Kind::U16 => narrow::<RelU16>(c, inst, condition, exec),
        Kind::F64 => wide::<RelF64>(c, inst, condition, exec),
        Kind::I64 => wide::<RelI64>(c, inst, condition, exec),
        Kind::U64 => wide::<RelU64>(c, inst, condition, exec),
        Kind::ClassF32 => narrow::<ClsF32>(c, inst, 0xff, exec),
        Kind::ClassF16 => narrow::<ClsF16>(c, inst, 0xff, exec),
        Kind::ClassF64 => wide::<ClsF64>(c, inst, 0xff, exec),
    })
}

fn narrow<O: Lane32>(c: &Compiler, inst: &Inst, condition: u8, exec: bool) -> Result<Step, Unsupported> {
    let general: Handler = match c.level {
        Level::Base => general::<O, BASE>,
        Level::V3 => general::<O, V3>,
        Level::V4 => general::<O, V4>,
    };
    let mut step = finish(step(c, inst, general, &O::SRC[..2], None)?, condition, exec)?;
    if no_modifiers(&inst.mods) && inst.mods.op_sel == 0 {
        #[cfg(target_arch = "x86_64")]
        match (c.level, uniform_sources(&step, 2)) {
            (Level::V3, 0) => step.run = fast_v3::<O, 0>,
            (Level::V3, 1) => step.run = fast_v3::<O, 1>,
            (Level::V3, 2) => step.run = fast_v3::<O, 2>,
            (Level::V4, 0) => step.run = fast_v4::<O, 0>,
            (Level::V4, 1) => step.run = fast_v4::<O, 1>,
            (Level::V4, 2) => step.run = fast_v4::<O, 2>,
            _ => {}
        }
    }
    Ok(step)
}

fn wide<O: Lane64>(c: &Compiler, inst: &Inst, condition: u8, exec: bool) -> Result<Step, Unsupported> {
    let run: Handler = match c.level {
        Level::Base => general64::<O, BASE>,
        Level::V3 => general64::<O, V3>,
        Level::V4 => general64::<O, V4>,
    };
    finish(step(c, inst, run, &O::SRC[..2], None)?, condition, exec)
}

fn finish(mut step: Step, condition: u8, exec: bool) -> Result<Step, Unsupported> {
    step.dst[0] = u16::from(mask_code(step.inst.dst[0])?);
    step.aux[AUX_CONDITION] = condition;
    step.aux[AUX_EXEC] = u8::from(exec);
    Ok(step)
}

/// Lanes of a relation that meet the step's condition. The classes have ten bits, all of which count.
#[inline(always)]
fn wanted(step: &Step) -> u32 {
    let condition = u32::from(step.aux[AUX_CONDITION]);
    if condition == 0xff { !0 } else { condition }
}

/// Writes the mask: lanes that are not in `lanes` give 0.
#[inline(always)]
fn write(step: &Step, wave: &mut Wave, mask: u64) -> Flow {
    wave.set_s64(step.dst[0] as u8, mask);
    if step.aux[AUX_EXEC] != 0 {
        wave.set_exec(mask);
    }
    Flow::Next
}

#[inline(always)]
unsafe fn fast<O: Lane32, const F: u8, const L: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (mask, bits) = if O::SRC[0].is_float() { (PLAIN_MASK | DIVERTED, PLAIN_BITS) } else { (DIVERTED, 0) };
    if wave.mode.0 & mask != bits {
        // SAFETY: the same step and level.
        return unsafe { general::<O, L>(step, wave, env) };
    }
    let mut codes = Vreg([0; 64]);
    // SAFETY: register numbers were checked when the step was made, and the forms fit the step's sources.
    unsafe {
        let a = if F & 1 != 0 { input::<true>(step, wave, 0) } else { input::<false>(step, wave, 0) };
        let b = if F & 2 != 0 { input::<true>(step, wave, 1) } else { input::<false>(step, wave, 1) };
        for lane in 0..64 {
            codes.0[lane] = O::lane(Plain, [a.get(lane), b.get(lane), 0]);
        }
        let hits = test::<L>(&codes, wanted(step)) & wave.exec();
        write(step, wave, hits)
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn fast_v3<O: Lane32, const F: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    // SAFETY: the caller vouches for the features and the step.
    unsafe { fast::<O, F, V3>(step, wave, env) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn fast_v4<O: Lane32, const F: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    // SAFETY: the caller vouches for the features and the step.
    unsafe { fast::<O, F, V4>(step, wave, env) }
}

unsafe fn general<O: Lane32, const L: u8>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    // SAFETY: the kernels are of the step's level.
    unsafe { masked(step, wave, const { &kernels32::<O, L>() }) }
}

unsafe fn masked(step: &Step, wave: &mut Wave, k: &Kernels<Kernel32>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let mut codes = Vreg([0; 64]);
    // SAFETY: the caller vouches for the kernels; the base form of the test needs no features.
    unsafe {
        let lanes = evaluate(step, wave, Index::of(wave), k, &mut codes);
        let hits = test::<BASE>(&codes, wanted(step));
        write(step, wave, hits & lanes)
    }
}

unsafe fn general64<O: Lane64, const L: u8>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    // SAFETY: the kernels are of the step's level.
    unsafe { masked64(step, wave, const { &kernels64::<O, L>() }) }
}

unsafe fn masked64(step: &Step, wave: &mut Wave, k: &Kernels<Kernel64>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let mut codes = [Vreg([0; 64]); 2];
    // SAFETY: the caller vouches for the kernels; the base form of the test needs no features.
    unsafe {
        let lanes = evaluate64(step, wave, Index::of(wave), k, &mut codes);
        let hits = test::<BASE>(&codes[0], wanted(step));
        write(step, wave, hits & lanes)
    }
}
