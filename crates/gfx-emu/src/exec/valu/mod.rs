//! The vector ALU: VOP1, VOP2, VOPC, VOP3 and VOP3P except matrix instructions.
//!
//! Most operations are rows of tables that say what a lane does (`int`, `float`, `trans`, `cvt`); what reads or writes
//! masks, other lanes or several registers is written out (`mask`, `cross`, `packed`, `divide`, `narrow`).

mod cmp;
mod cmp_table;
mod cross;
mod cvt;
mod divide;
mod dpp;
mod float;
mod fp;
mod general;
mod index;
mod int;
mod lane;
mod mask;
mod narrow;
mod packed;
pub(super) mod simd;
mod small;
mod soft;
mod trans;
mod wide;

use super::constants::Inline;
use super::step::{Compiler, Handler, Src, Step, Unsupported};
use crate::isa::{Encoding, Inst, Mods, Op, Operand};
use general::AUX_ACCUMULATES;
use lane::{Entry, Ty};

/// The step of a vector ALU instruction; `None` when it is not one.
pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    let op = inst.op;
    let entry = int::unary_binary(op)
        .or_else(|| int::ternary(op))
        .or_else(|| int::half(op))
        .or_else(|| int::packed(op))
        .or_else(|| int::wide(op))
        .or_else(|| float::single(op))
        .or_else(|| float::half(op))
        .or_else(|| float::double(op))
        .or_else(|| trans::single(op))
        .or_else(|| trans::double(op))
        .or_else(|| cvt::narrow(op))
        .or_else(|| cvt::wide(op));
    if let Some(entry) = entry {
        return Some(from_entry(c, inst, &entry));
    }
    mask::compile(c, inst)
        .or_else(|| cmp::compile(c, inst))
        .or_else(|| cross::compile(c, inst))
        .or_else(|| packed::compile(c, inst))
        .or_else(|| divide::compile(c, inst))
        .or_else(|| narrow::compile(c, inst))
}

/// The step of a tabled operation.
fn from_entry(c: &Compiler, inst: &Inst, entry: &Entry) -> Result<Step, Unsupported> {
    let general = (entry.general)(c.level);
    let mut step = step(c, inst, general, &entry.src[..usize::from(entry.n)], Some(entry.dst))?;
    if entry.accumulates {
        step.src[2] = Src::Vgpr(step.dst[0]);
        step.aux[AUX_ACCUMULATES] = 1;
    }
    let float = entry.dst.is_float();
    if (inst.mods.clamp && !float && !entry.saturates) || (inst.mods.omod != 0 && !float) {
        return Err(Unsupported::NoHandler);
    }
    if ignores_signs(inst) {
        return Err(Unsupported::NoHandler);
    }
    fold_modifiers(&mut step, &entry.src[..usize::from(entry.n)]);
    if !entry.keep
        && is_plain(&step.inst, entry)
        && let Some(handler) = (entry.fast)(c.level, uniform_sources(&step, entry.n))
    {
        step.run = handler;
    }
    Ok(step)
}

/// True for |x| or -x of a source of two halves where the encoding has no bits to say which half: nothing documents what the
/// hardware makes of them.
fn ignores_signs(inst: &Inst) -> bool {
    let pairs = matches!(inst.op, Op::VDot2cF32F16 | Op::VDot2cF32Bf16 | Op::VPkFmacF16);
    pairs && inst.enc != Encoding::Vop3p && (inst.mods.abs | inst.mods.neg) != 0
}

/// Bit i: source i is the same for all lanes; bit 7: a source is neither that nor a vector register.
fn uniform_sources(step: &Step, n: u8) -> u8 {
    (0..n).fold(0, |form, i| match step.src[usize::from(i)] {
        Src::Scalar(_) | Src::Const(_) => form | 1 << i,
        Src::Vgpr(_) => form,
        _ => form | 0x80,
    })
}

/// Applies |x|, -x and half selects to constant sources, so that they need not be applied at run time.
fn fold_modifiers(step: &mut Step, types: &[Ty]) {
    let packs = step.inst.enc == Encoding::Vop3p;
    let mods = &mut step.inst.mods;
    for (i, ty) in types.iter().enumerate() {
        let Src::Const(value) = step.src[i] else { continue };
        let bit = 1u8 << i;
        let folded = if packs && ty.is_packed() {
            let half = |high: bool| if high { (value >> 16) & 0xffff } else { value & 0xffff };
            let float = *ty == Ty::PF16;
            let low = half(mods.op_sel & bit != 0) ^ if float && mods.neg & bit != 0 { 0x8000 } else { 0 };
            let high = half(mods.op_sel_hi & bit != 0) ^ if float && mods.abs & bit != 0 { 0x8000 } else { 0 };
            mods.op_sel_hi |= bit;
            mods.op_sel &= !bit;
            low | high << 16
        } else if *ty == Ty::F32 && !packs {
            let magnitude = if mods.abs & bit != 0 { value & 0x7fff_ffff } else { value };
            if mods.neg & bit != 0 { magnitude ^ 0x8000_0000 } else { magnitude }
        } else {
            continue;
        };
        mods.neg &= !bit;
        mods.abs &= !bit;
        step.src[i] = Src::Const(folded);
    }
}

/// True when no modifier is left to apply at run time.
fn is_plain(inst: &Inst, entry: &Entry) -> bool {
    let mods = &inst.mods;
    let mut selects = mods.op_sel;
    if inst.enc == Encoding::Vop3p {
        let packed = (0..entry.n).filter(|&i| entry.src[usize::from(i)].is_packed()).fold(0u8, |m, i| m | 1 << i);
        selects = (mods.op_sel | !mods.op_sel_hi) & packed;
    } else if !entry.dst.is_half() && !entry.src.iter().any(|ty| ty.is_half()) {
        selects = 0;
    }
    selects == 0 && no_modifiers(mods)
}

/// True without |x|, -x, clamp, output modifier, DPP and SDWA.
fn no_modifiers(mods: &Mods) -> bool {
    let has_lanes = mods.dpp.is_some() || mods.dpp8.is_some();
    (mods.abs | mods.neg | mods.omod) == 0 && !mods.clamp && !has_lanes && mods.sdwa.is_none()
}

/// A step with its operands resolved: sources of the given types, a vector destination of type `dst` when there is one.
fn step(c: &Compiler, inst: &Inst, run: Handler, types: &[Ty], dst: Option<Ty>) -> Result<Step, Unsupported> {
    let mut step = Step::new(inst, run);
    let wide = types.iter().chain(&dst).any(|ty| ty.width() == 2);
    if let Some(dpp) = &inst.mods.dpp {
        let newbcast = matches!(dpp.ctrl, 0x150..=0x15f);
        if !dpp::known(dpp.ctrl) || (wide && !newbcast) {
            return Err(Unsupported::NoHandler);
        }
    }
    if inst.mods.sdwa.is_some() && wide {
        return Err(Unsupported::NoHandler);
    }
    for (i, ty) in types.iter().enumerate() {
        // An accumulating operation's last source is its destination.
        if i < 3 && inst.src[i] != Operand::None {
            step.src[i] = source(c, inst.src[i], *ty)?;
        }
    }
    if let Some(ty) = dst {
        let (number, acc) = c.vreg(inst.dst[0], ty.width())?;
        if acc {
            return Err(Unsupported::NoHandler);
        }
        step.dst[0] = number;
    }
    Ok(step)
}

/// A source operand of a type.
fn source(c: &Compiler, operand: Operand, ty: Ty) -> Result<Src, Unsupported> {
    match operand {
        Operand::Vgpr(_) | Operand::Agpr(_) => match c.vreg(operand, ty.width())? {
            (number, false) => Ok(Src::Vgpr(number)),
            (_, true) => Err(Unsupported::NoHandler),
        },
        Operand::Scalar(code) => Ok(Src::Scalar(code)),
        Operand::Inline(code) => constant(code, ty).map(Src::Const).ok_or(Unsupported::NoHandler),
        Operand::Literal(value) => Ok(Src::Const(match ty {
            Ty::F64 => u64::from(value) << 32,
            Ty::I64 => value as i32 as u64,
            _ => u64::from(value),
        })),
        Operand::Special(code) if matches!(code, 235..=238 | 251..=253) => Ok(Src::Special(code)),
        _ => Err(Unsupported::NoHandler),
    }
}

/// What an inline constant stands for in an operand of a type. Integers are sign-extended to the operand; fractions are of
/// the operand's float format, and f32 for 16-bit integer operands (LLVM's notes on what the hardware does).
fn constant(code: u8, ty: Ty) -> Option<u64> {
    let constant = Inline::of(code)?;
    Some(match (constant, ty) {
        (_, ty) if ty.width() == 2 => constant.wide(),
        (Inline::Float { f16, .. }, Ty::F16 | Ty::PF16) => f16.into(),
        (Inline::Float { f32, .. }, Ty::Bf16) => u64::from(f32 >> 16),
        _ => u64::from(constant.narrow() as u32),
    })
}

/// The scalar pair of a mask operand; VCC where the encoding implies it.
fn mask_code(operand: Operand) -> Result<u8, Unsupported> {
    match operand {
        Operand::Scalar(code) => Ok(code),
        Operand::None => Ok(super::wave::code::VCC),
        _ => Err(Unsupported::NoHandler),
    }
}
