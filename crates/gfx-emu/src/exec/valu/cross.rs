//! Operations across lanes and register files: lane reads and writes, lane counts, swaps, accumulation registers, and the
//! three-input truth table.

use super::general::{DESTINATION, Index, fetch, put, read, store};
use super::lane::Ty;
use super::{source, step};
use crate::exec::Env;
use crate::exec::step::{Compiler, Flow, Handler, Src, Step, Unsupported};
use crate::exec::wave::{Vreg, Wave};
use crate::isa::{Inst, Op, Operand};

/// `Step::aux`: the truth table of `v_bitop3`.
const AUX_TABLE: usize = 1;

pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    Some(match inst.op {
        Op::VNop | Op::VClrexcp => step(c, inst, nop, &[], None),
        Op::VReadfirstlaneB32 => lane_to_scalar(c, inst, read_first_lane, &[Ty::B32]),
        Op::VReadlaneB32 => lane_to_scalar(c, inst, read_lane, &[Ty::B32, Ty::B32]),
        Op::VWritelaneB32 => step(c, inst, write_lane, &[Ty::B32, Ty::B32], Some(Ty::B32)),
        Op::VMbcntLoU32B32 => step(c, inst, count_low, &[Ty::B32, Ty::B32], Some(Ty::B32)),
        Op::VMbcntHiU32B32 => step(c, inst, count_high, &[Ty::B32, Ty::B32], Some(Ty::B32)),
        Op::VSwapB32 => swap(c, inst, swap_registers),
        Op::VPermlane16SwapB32 => swap(c, inst, swap_rows),
        Op::VPermlane32SwapB32 => swap(c, inst, swap_halves),
        Op::VAccvgprReadB32 => accumulation(c, inst, from_acc, false),
        Op::VAccvgprWriteB32 | Op::VAccvgprMovB32 => accumulation(c, inst, to_acc, true),
        Op::VBitop3B32 => bitop3(c, inst, Ty::B32),
        Op::VBitop3B16 => bitop3(c, inst, Ty::U16),
        _ => return None,
    })
}

unsafe fn nop(_: &Step, _: &mut Wave, _: &mut Env<'_>) -> Flow {
    Flow::Next
}

fn lane_to_scalar(c: &Compiler, inst: &Inst, run: Handler, types: &[Ty]) -> Result<Step, Unsupported> {
    let mut step = step(c, inst, run, types, None)?;
    match inst.dst[0] {
        Operand::Scalar(code) => step.dst[0] = u16::from(code),
        _ => return Err(Unsupported::NoHandler),
    }
    Ok(step)
}

/// One lane of a source.
fn lane_of(step: &Step, wave: &Wave, i: usize, lane: usize) -> u32 {
    match step.src[i] {
        Src::Vgpr(number) => {
            let register = Index::of(wave).register(wave, number, i).unwrap_or(0);
            wave.vgpr.get(register).map_or(0, |from| from.0[lane & 63])
        }
        Src::Scalar(code) => wave.s32(code),
        Src::Const(value) => value as u32,
        _ => {
            let mut scratch = Vreg([0; 64]);
            read(step, wave, Index::of(wave), i, 0, &mut scratch);
            scratch.0[0]
        }
    }
}

/// The lowest active lane's value; lane 0 when none is active.
unsafe fn read_first_lane(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let exec = wave.exec();
    let lane = if exec == 0 { 0 } else { exec.trailing_zeros() };
    let value = lane_of(step, wave, 0, lane as usize);
    wave.set_s32(step.dst[0] as u8, value);
    Flow::Next
}

/// Any lane's value, active or not.
unsafe fn read_lane(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let lane = lane_of(step, wave, 1, 0) & 63;
    let value = lane_of(step, wave, 0, lane as usize);
    wave.set_s32(step.dst[0] as u8, value);
    Flow::Next
}

/// Writes one lane, active or not.
unsafe fn write_lane(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let value = lane_of(step, wave, 0, 0);
    let lane = lane_of(step, wave, 1, 0) & 63;
    if let Some(register) = Index::of(wave).register(wave, step.dst[0], DESTINATION)
        && let Some(to) = wave.vgpr.get_mut(register)
    {
        to.0[lane as usize] = value;
    }
    Flow::Next
}

/// Adds to S1 the number of mask bits of lanes below each lane; `low` counts those of lanes 0..32.
fn count(step: &Step, wave: &mut Wave, low: bool) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let (mut mask, mut base) = (Vreg([0; 64]), Vreg([0; 64]));
    let writable = wave.exec() & fetch(step, wave, index, Ty::B32, 0, &mut mask);
    fetch(step, wave, index, Ty::B32, 1, &mut base);
    for lane in 0..64u32 {
        let below = if low { lane.min(32) } else { lane.saturating_sub(32) };
        let bits = ((1u64 << below) - 1) as u32;
        let at = lane as usize;
        base.0[at] = (mask.0[at] & bits).count_ones().wrapping_add(base.0[at]);
    }
    store(step, wave, index, Ty::B32, false, &mut base, writable);
    Flow::Next
}

unsafe fn count_low(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    count(step, wave, true)
}

unsafe fn count_high(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    count(step, wave, false)
}

/// Exchanges two registers; `dst[0]` and source 0, both written.
fn swap(c: &Compiler, inst: &Inst, run: Handler) -> Result<Step, Unsupported> {
    let step = step(c, inst, run, &[Ty::B32], Some(Ty::B32))?;
    match step.src[0] {
        Src::Vgpr(_) if super::no_modifiers(&inst.mods) => Ok(step),
        _ => Err(Unsupported::NoHandler),
    }
}

/// The two registers of a swap.
fn pair(step: &Step, wave: &Wave) -> Option<(usize, usize)> {
    let Src::Vgpr(source) = step.src[0] else { return None };
    let index = Index::of(wave);
    Some((index.register(wave, step.dst[0], DESTINATION)?, index.register(wave, source, 0)?))
}

/// Runs `exchange(old D, old S) -> (new D, new S)` under EXEC.
fn exchange(step: &Step, wave: &mut Wave, exchange: impl Fn(&Vreg, &Vreg) -> (Vreg, Vreg)) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    if let Some((d, s)) = pair(step, wave) {
        let exec = wave.exec();
        let (new_d, new_s) = exchange(&wave.vgpr[d], &wave.vgpr[s]);
        put(&mut wave.vgpr[d], &new_d, exec);
        put(&mut wave.vgpr[s], &new_s, exec);
    }
    Flow::Next
}

unsafe fn swap_registers(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    exchange(step, wave, |d, s| (*s, *d))
}

/// Odd rows of D change places with even rows of S.
unsafe fn swap_rows(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    exchange(step, wave, |d, s| {
        let (mut new_d, mut new_s) = (*d, *s);
        for row in [0, 32] {
            for lane in row..row + 16 {
                new_s.0[lane] = d.0[lane + 16];
                new_d.0[lane + 16] = s.0[lane];
            }
        }
        (new_d, new_s)
    })
}

/// The upper half of D changes places with the lower half of S.
unsafe fn swap_halves(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    exchange(step, wave, |d, s| {
        let (mut new_d, mut new_s) = (*d, *s);
        for lane in 0..32 {
            new_s.0[lane] = d.0[lane + 32];
            new_d.0[lane + 32] = s.0[lane];
        }
        (new_d, new_s)
    })
}

/// A move between the register files, or inside the accumulation registers.
fn accumulation(c: &Compiler, inst: &Inst, run: Handler, to_acc: bool) -> Result<Step, Unsupported> {
    let mut step = step(c, inst, run, &[], None)?;
    if inst.mods.dpp.is_some() || inst.mods.sdwa.is_some() {
        return Err(Unsupported::NoHandler);
    }
    step.src[0] = match inst.src[0] {
        Operand::Agpr(_) => Src::Agpr(c.vreg(inst.src[0], 1)?.0),
        other => source(c, other, Ty::B32)?,
    };
    let (number, acc) = c.vreg(inst.dst[0], 1)?;
    if acc != to_acc {
        return Err(Unsupported::NoHandler);
    }
    step.dst[0] = number;
    Ok(step)
}

unsafe fn from_acc(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let exec = wave.exec();
    let index = Index::of(wave);
    if let Src::Agpr(number) = step.src[0]
        && let Some(register) = index.register(wave, step.dst[0], DESTINATION)
        && let (Some(from), Some(to)) = (wave.agpr.get(usize::from(number)), wave.vgpr.get_mut(register))
    {
        put(to, from, exec);
    }
    Flow::Next
}

unsafe fn to_acc(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let exec = wave.exec();
    let mut value = Vreg([0; 64]);
    read(step, wave, Index::of(wave), 0, 0, &mut value);
    if let Some(to) = wave.agpr.get_mut(usize::from(step.dst[0])) {
        put(to, &value, exec);
    }
    Flow::Next
}

/// The table is spread over the modifier fields: `{OMOD[1:0], ABS[2:0], NEG[2:0]}`.
fn bitop3(c: &Compiler, inst: &Inst, ty: Ty) -> Result<Step, Unsupported> {
    let mods = &inst.mods;
    let table = mods.omod << 6 | (mods.abs & 7) << 3 | mods.neg & 7;
    let mut plain = *inst;
    plain.mods.omod = 0;
    plain.mods.abs = 0;
    plain.mods.neg = 0;
    let run: Handler = if ty == Ty::B32 { bitop3_b32 } else { bitop3_b16 };
    let mut step = step(c, &plain, run, &[ty; 3], Some(ty))?;
    step.aux[AUX_TABLE] = table;
    Ok(step)
}

fn bitop3_at(step: &Step, wave: &mut Wave, ty: Ty) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut s = [Vreg([0; 64]); 3];
    for (i, source) in s.iter_mut().enumerate() {
        fetch(step, wave, index, ty, i, source);
    }
    let mut r = Vreg([0; 64]);
    let table = step.aux[AUX_TABLE];
    for term in 0..8 {
        if table >> term & 1 == 0 {
            continue;
        }
        // A term's number is {S0, S1, S2}.
        let flip = |bit: u8| if term & bit != 0 { 0 } else { !0u32 };
        for lane in 0..64 {
            r.0[lane] |= (s[0].0[lane] ^ flip(4)) & (s[1].0[lane] ^ flip(2)) & (s[2].0[lane] ^ flip(1));
        }
    }
    let exec = wave.exec();
    store(step, wave, index, ty, true, &mut r, exec);
    Flow::Next
}

unsafe fn bitop3_b32(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    bitop3_at(step, wave, Ty::B32)
}

unsafe fn bitop3_b16(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    bitop3_at(step, wave, Ty::U16)
}
