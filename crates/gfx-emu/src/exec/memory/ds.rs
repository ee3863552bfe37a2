//! LDS: reads, writes, two-address forms, atomics and append/consume.
//!
//! ROCm runs with unaligned access allowed: plain accesses of up to 8 bytes may lie anywhere, 12- and 16-byte ones on any
//! dword, atomics on multiples of their size.

use super::atomic::{self, Atomic, Change};
use super::ds_kind::{Kind, kind};
use super::kind::Extend;
use super::lanes::{self, Space};
use super::{ds_cross, step, vector};
use crate::exec::levels::{leveled, pick};
use crate::exec::{Compiler, Env, Flow, Src, Step, Unsupported, Vreg, Wave};
use crate::fault::{Access, FaultKind};
use crate::isa::{Inst, Op};
use crate::traffic::LdsOp;

// `aux`: 0 bytes of an access, 1 the extension or the store's half, 2 the stride of the two-address forms.
const BYTES: usize = 0;
const EXTEND: usize = 1;
const STRIDE: usize = 2;

const N1: usize = 1;
const N2: usize = 2;
const N3: usize = 3;
const N4: usize = 4;

leveled!(read_dwords = read_dwords_body<const N: usize>);
leveled!(write_dwords = write_dwords_body<const N: usize>);
leveled!(read2 = read2_body<const N: usize>);
leveled!(write2 = write2_body<const N: usize>);

/// Makes a step of a DS instruction.
pub(super) fn compile(c: &Compiler, inst: &Inst) -> Result<Step, Unsupported> {
    if inst.mods.gds {
        return Err(Unsupported::NoHandler);
    }
    let Some(kind) = kind(inst.op) else { return ds_cross::compile(c, inst) };
    let run: crate::exec::Handler = match kind {
        Kind::Nothing => ds_cross::nothing,
        Kind::Read(4, Extend::Zero) => pick!(c, read_dwords::<N1>),
        Kind::Read(8, _) => pick!(c, read_dwords::<N2>),
        Kind::Read(12, _) => pick!(c, read_dwords::<N3>),
        Kind::Read(16, _) => pick!(c, read_dwords::<N4>),
        Kind::Read(..) => read_part,
        Kind::Write(4, false) => pick!(c, write_dwords::<N1>),
        Kind::Write(8, _) => pick!(c, write_dwords::<N2>),
        Kind::Write(12, _) => pick!(c, write_dwords::<N3>),
        Kind::Write(16, _) => pick!(c, write_dwords::<N4>),
        Kind::Write(..) => write_part,
        Kind::Read2(4, _) => pick!(c, read2::<N1>),
        Kind::Read2(..) => pick!(c, read2::<N2>),
        Kind::Write2(4, _) => pick!(c, write2::<N1>),
        Kind::Write2(..) => pick!(c, write2::<N2>),
        Kind::Swap2(..) => swap2,
        Kind::Atomic(..) => atomics,
        Kind::ReadThread => read_thread,
        Kind::WriteThread => write_thread,
        Kind::Append => append,
        Kind::ConditionalSwap => conditional_swap,
    };
    let mut step = step(inst, run);
    let mut operands = |dst: u16, data0: u16, data1: u16| -> Result<(), Unsupported> {
        if dst > 0 {
            step.dst[0] = c.register(inst.dst[0], dst)?;
        }
        if data0 > 0 {
            step.src[1] = vector(c, inst.src[1], data0)?;
        }
        if data1 > 0 {
            step.src[2] = vector(c, inst.src[2], data1)?;
        }
        Ok(())
    };
    let dwords = |bytes: u8| u16::from(bytes.div_ceil(4));
    match kind {
        Kind::Nothing => return Ok(step),
        Kind::Read(bytes, _) => operands(dwords(bytes), 0, 0)?,
        Kind::Write(bytes, _) => operands(0, dwords(bytes), 0)?,
        Kind::Read2(bytes, _) => operands(2 * dwords(bytes), 0, 0)?,
        Kind::Write2(bytes, _) => operands(0, dwords(bytes), dwords(bytes))?,
        Kind::Swap2(bytes, _) => operands(2 * dwords(bytes), dwords(bytes), dwords(bytes))?,
        Kind::Atomic(change, wide, returns) => {
            let width = 1 + u16::from(wide);
            let second = has_second(change);
            operands(if returns { width } else { 0 }, width, if second { width } else { 0 })?;
        }
        Kind::ConditionalSwap => operands(2, 2, 0)?,
        Kind::ReadThread | Kind::Append => operands(1, 0, 0)?,
        Kind::WriteThread => operands(0, 1, 0)?,
    }
    if !matches!(kind, Kind::ReadThread | Kind::WriteThread | Kind::Append) {
        step.src[0] = vector(c, inst.src[0], 1)?;
    }
    match kind {
        Kind::Read(bytes, extend) => (step.aux[BYTES], step.aux[EXTEND]) = (bytes, extend as u8),
        Kind::Write(bytes, high) => (step.aux[BYTES], step.aux[EXTEND]) = (bytes, u8::from(high)),
        Kind::Read2(bytes, stride) | Kind::Write2(bytes, stride) | Kind::Swap2(bytes, stride) => {
            step.aux[BYTES] = bytes;
            step.aux[STRIDE] = stride.trailing_zeros() as u8;
        }
        _ => {}
    }
    Ok(step)
}

/// Atomics with two data operands.
fn has_second(change: Change) -> bool {
    matches!(change, Change::CompareSwap | Change::CompareSwapFloat | Change::MaskOr | Change::Wrap)
}

/// LDS addresses of all lanes, `offset` added.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
pub(super) unsafe fn addresses(step: &Step, wave: &mut Wave, offset: u32) -> [u32; 64] {
    let Src::Vgpr(number) = step.src[0] else { return [offset; 64] };
    // SAFETY: the caller's.
    let base = unsafe { &(*wave.registers(number)).0 };
    let mut at = [0; 64];
    for lane in 0..64 {
        at[lane] = base[lane].wrapping_add(offset);
    }
    at
}

/// True when `bytes` at each active lane's address lie in the LDS.
#[inline(always)]
fn all_inside(env: &Env<'_>, exec: u64, at: &[u32; 64], bytes: u32) -> bool {
    let Some(last) = (env.lds.len() as u64).checked_sub(bytes.into()) else { return exec == 0 };
    let mut inside = true;
    if exec == u64::MAX {
        for lane in 0..64 {
            inside &= u64::from(at[lane]) <= last;
        }
    } else {
        for lane in 0..64 {
            inside &= u64::from(at[lane]) <= last || exec >> lane & 1 == 0;
        }
    }
    inside
}

/// The fault of the first active lane that is outside.
#[cold]
fn outside(env: &mut Env<'_>, access: Access, exec: u64, at: &[u32; 64], bytes: u32) -> Flow {
    let size = env.lds.len() as u32;
    let lane = (0..64).find(|lane| exec >> lane & 1 == 1 && u64::from(at[*lane]) + u64::from(bytes) > u64::from(size));
    let lane = lane.unwrap_or(0);
    env.raise(FaultKind::LdsRange { access, address: at[lane], bytes, size }, Some(lane as u8))
}

/// A fault when a 12- or 16-byte access is not on a dword.
#[inline(always)]
fn aligned<const N: usize>(env: &mut Env<'_>, exec: u64, at: &[u32; 64]) -> bool {
    if N < 3 {
        return true;
    }
    let mut low = 0;
    for lane in 0..64 {
        low |= if exec >> lane & 1 == 1 { at[lane] } else { 0 };
    }
    if low & 3 == 0 {
        return true;
    }
    let lane = (0..64).find(|lane| exec >> lane & 1 == 1 && at[*lane] & 3 != 0).unwrap_or(0);
    let (address, bytes) = (u64::from(at[lane]), N as u32 * 4);
    env.raise(FaultKind::Misaligned { space: "LDS", address, bytes, align: 4 }, Some(lane as u8));
    false
}

/// Reads `N` dwords for each active lane into registers.
///
/// # Safety
/// Every active lane's bytes lie in the LDS, and `to` is good for `N` registers.
#[inline(always)]
unsafe fn gather<const N: usize>(lds: *const u8, exec: u64, at: &[u32; 64], to: *mut Vreg) {
    if exec == u64::MAX {
        for lane in 0..64 {
            // SAFETY: the caller's.
            let words = unsafe { lds.add(at[lane] as usize).cast::<[u32; N]>().read_unaligned() };
            for (k, word) in words.into_iter().enumerate() {
                // SAFETY: the caller's.
                unsafe { (*to.add(k)).0[lane] = word };
            }
        }
        return;
    }
    let mut rest = exec;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        // SAFETY: the caller's.
        let words = unsafe { lds.add(at[lane] as usize).cast::<[u32; N]>().read_unaligned() };
        for (k, word) in words.into_iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { (*to.add(k)).0[lane] = word };
        }
    }
}

/// Writes `N` dwords of each active lane; of two lanes on one address the higher wins.
///
/// # Safety
/// As [`gather`].
#[inline(always)]
unsafe fn scatter<const N: usize>(lds: *mut u8, exec: u64, at: &[u32; 64], from: *const Vreg) {
    let mut rest = exec;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let mut words = [0; N];
        for (k, word) in words.iter_mut().enumerate() {
            // SAFETY: the caller's.
            *word = unsafe { (*from.add(k)).0[lane] };
        }
        // SAFETY: the caller's.
        unsafe { lds.add(at[lane] as usize).cast::<[u32; N]>().write_unaligned(words) };
    }
}

#[inline(always)]
unsafe fn read_dwords_body<const N: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes) = (wave.exec(), N as u32 * 4);
    // SAFETY: registers were checked when the step was made; `all_inside` vouches for the bytes.
    unsafe {
        let at = addresses(step, wave, step.imm as u32);
        if !all_inside(env, exec, &at, bytes) {
            return outside(env, Access::Read, exec, &at, bytes);
        }
        if !aligned::<N>(env, exec, &at) {
            return Flow::Fault;
        }
        gather::<N>(env.lds.as_ptr(), exec, &at, wave.registers(step.dst[0]));
        env.lds_done(wave.id, LdsOp::Read, exec, &at, bytes)
    }
}

#[inline(always)]
unsafe fn write_dwords_body<const N: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes) = (wave.exec(), N as u32 * 4);
    let Src::Vgpr(data) = step.src[1] else { return Flow::Next };
    // SAFETY: registers were checked when the step was made; `all_inside` vouches for the bytes.
    unsafe {
        let at = addresses(step, wave, step.imm as u32);
        if !all_inside(env, exec, &at, bytes) {
            return outside(env, Access::Write, exec, &at, bytes);
        }
        if !aligned::<N>(env, exec, &at) {
            return Flow::Fault;
        }
        scatter::<N>(env.lds.as_mut_ptr(), exec, &at, wave.registers(data));
        env.lds_done(wave.id, LdsOp::Write, exec, &at, bytes)
    }
}

/// Byte offsets of the two addresses.
#[inline(always)]
fn two_offsets(step: &Step) -> [u32; 2] {
    let shift = step.aux[STRIDE];
    [(step.imm as u32 & 0xff) << shift, u32::from(step.inst.mods.offset1) << shift]
}

#[inline(always)]
unsafe fn read2_body<const N: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes) = (wave.exec(), N as u32 * 4);
    // The address register may be one of the destinations: both addresses first.
    // SAFETY: registers were checked when the step was made; `all_inside` vouches for the bytes.
    unsafe {
        let both = two_offsets(step).map(|offset| addresses(step, wave, offset));
        for (half, at) in both.iter().enumerate() {
            if !all_inside(env, exec, at, bytes) {
                return outside(env, Access::Read, exec, at, bytes);
            }
            let to = wave.registers(step.dst[0]).add(half * N);
            gather::<N>(env.lds.as_ptr(), exec, at, to);
            if env.lds_done(wave.id, LdsOp::Read, exec, at, bytes) != Flow::Next {
                return Flow::Fault;
            }
        }
    }
    Flow::Next
}

#[inline(always)]
unsafe fn write2_body<const N: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes) = (wave.exec(), N as u32 * 4);
    for (half, offset) in two_offsets(step).into_iter().enumerate() {
        let Src::Vgpr(data) = step.src[1 + half] else { return Flow::Next };
        // SAFETY: registers were checked when the step was made; `all_inside` vouches for the bytes.
        unsafe {
            let at = addresses(step, wave, offset);
            if !all_inside(env, exec, &at, bytes) {
                return outside(env, Access::Write, exec, &at, bytes);
            }
            scatter::<N>(env.lds.as_mut_ptr(), exec, &at, wave.registers(data));
            if env.lds_done(wave.id, LdsOp::Write, exec, &at, bytes) != Flow::Next {
                return Flow::Fault;
            }
        }
    }
    Flow::Next
}

unsafe fn read_part(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, extend) = (wave.exec(), u32::from(step.aux[BYTES]), Extend::from_u8(step.aux[EXTEND]));
    // SAFETY: registers were checked when the step was made.
    let at = unsafe { addresses(step, wave, step.imm as u32) };
    let outcome = lanes::for_lanes(exec, |lane| {
        let words = lanes::read(env, wave, lane, (Space::Lds, at[lane].into()), bytes)?;
        // SAFETY: as above.
        unsafe { (*wave.registers(step.dst[0])).0[lane] = extend.apply(words[0]) };
        Ok(())
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    env.lds_done(wave.id, LdsOp::Read, exec, &at, bytes)
}

unsafe fn write_part(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, high) = (wave.exec(), u32::from(step.aux[BYTES]), step.aux[EXTEND] == 1);
    let Src::Vgpr(data) = step.src[1] else { return Flow::Next };
    // SAFETY: registers were checked when the step was made.
    let at = unsafe { addresses(step, wave, step.imm as u32) };
    let outcome = lanes::for_lanes(exec, |lane| {
        // SAFETY: as above.
        let word = unsafe { (*wave.registers(data)).0[lane] };
        let words = [if high { word >> 16 } else { word }, 0, 0, 0];
        lanes::write(env, wave, lane, (Space::Lds, at[lane].into()), &words, bytes)
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    env.lds_done(wave.id, LdsOp::Write, exec, &at, bytes)
}

/// The pointer of a lane's atomic, aligned to its size.
fn atomic_place(env: &mut Env<'_>, address: u32, bytes: u32) -> Result<*mut u8, FaultKind> {
    if !address.is_multiple_of(bytes) {
        return Err(FaultKind::Misaligned { space: "LDS", address: address.into(), bytes, align: bytes });
    }
    lanes::locate(env, Space::Lds, Access::Atomic, address.into(), bytes)
}

unsafe fn atomics(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let Some(Kind::Atomic(change, wide, returns)) = kind(step.op) else { return Flow::Next };
    let (exec, atomic) = (wave.exec(), Atomic { change, wide });
    let bytes = u32::from(atomic.bytes());
    let flush = !wave.mode.denorm_in_f32();
    // A compare-and-store has the comparand first, the new value second.
    let swaps = matches!(change, Change::CompareSwap | Change::CompareSwapFloat);
    // SAFETY: registers were checked when the step was made.
    let at = unsafe { addresses(step, wave, step.imm as u32) };
    let outcome = lanes::for_lanes(exec, |lane| {
        let host = atomic_place(env, at[lane], bytes)?;
        // SAFETY: as above; `atomic_place` vouches for the bytes.
        unsafe {
            let first = atomic::operand(wave, step.src[1], wide, lane);
            let second = atomic::operand(wave, step.src[2], wide, lane);
            let (data, second) = if swaps { (second, first) } else { (first, second) };
            let old = atomic::change(host, atomic, data, second, flush);
            if returns {
                atomic::put(wave, step.dst[0], wide, lane, old);
            }
        }
        Ok(())
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    env.lds_done(wave.id, LdsOp::Atomic, exec, &at, bytes)
}

unsafe fn swap2(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes) = (wave.exec(), u32::from(step.aux[BYTES]));
    let wide = bytes == 8;
    // SAFETY: registers were checked when the step was made.
    let both = unsafe { two_offsets(step).map(|offset| addresses(step, wave, offset)) };
    let outcome = lanes::for_lanes(exec, |lane| {
        let mut old = [0; 2];
        for half in 0..2 {
            let host = atomic_place(env, both[half][lane], bytes)?;
            // SAFETY: as above; `atomic_place` vouches for the bytes.
            old[half] = unsafe {
                let data = atomic::operand(wave, step.src[1 + half], wide, lane);
                atomic::change(host, Atomic { change: Change::Swap, wide }, data, 0, false)
            };
        }
        for (half, old) in old.into_iter().enumerate() {
            let to = step.dst[0] + half as u16 * (1 + u16::from(wide));
            // SAFETY: as above.
            unsafe { atomic::put(wave, to, wide, lane, old) };
        }
        Ok(())
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    for at in &both {
        if env.lds_done(wave.id, LdsOp::Atomic, exec, at, bytes) != Flow::Next {
            return Flow::Fault;
        }
    }
    Flow::Next
}

/// `ds_condxchg32_rtn_b64`: of two neighbouring dwords, each whose data has bit 31 set gets the other 31 bits; both old
/// values are returned. The address is cut to 8 bytes and to 64 KiB.
unsafe fn conditional_swap(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let exec = wave.exec();
    // SAFETY: registers were checked when the step was made.
    let at = unsafe { addresses(step, wave, step.imm as u32) }.map(|address| address & 0xfff8);
    let outcome = lanes::for_lanes(exec, |lane| {
        let host = lanes::locate(env, Space::Lds, Access::Atomic, at[lane].into(), 8)?;
        // SAFETY: as above; `locate` vouches for the bytes.
        unsafe {
            let data = atomic::operand(wave, step.src[1], true, lane);
            let old = host.cast::<u64>().read_unaligned();
            let pick = |shift: u32| {
                let (data, old) = ((data >> shift) as u32, (old >> shift) as u32);
                u64::from(if data >> 31 == 1 { data & 0x7fff_ffff } else { old }) << shift
            };
            host.cast::<u64>().write_unaligned(pick(0) | pick(32));
            atomic::put(wave, step.dst[0], true, lane, old);
        }
        Ok(())
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    env.lds_done(wave.id, LdsOp::Atomic, exec, &at, 8)
}

/// Addresses of the forms that use the lane: offset + M0[15:0] + lane * 4.
fn thread_addresses(step: &Step, wave: &Wave) -> [u32; 64] {
    let base = (step.imm as u32).wrapping_add(wave.m0() & 0xffff);
    std::array::from_fn(|lane| base.wrapping_add(lane as u32 * 4))
}

unsafe fn read_thread(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, at) = (wave.exec(), thread_addresses(step, wave));
    if !all_inside(env, exec, &at, 4) {
        return outside(env, Access::Read, exec, &at, 4);
    }
    // SAFETY: `all_inside` vouches for the bytes, the step's maker for the register.
    unsafe { gather::<1>(env.lds.as_ptr(), exec, &at, wave.registers(step.dst[0])) };
    env.lds_done(wave.id, LdsOp::Read, exec, &at, 4)
}

unsafe fn write_thread(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, at) = (wave.exec(), thread_addresses(step, wave));
    let Src::Vgpr(data) = step.src[1] else { return Flow::Next };
    if !all_inside(env, exec, &at, 4) {
        return outside(env, Access::Write, exec, &at, 4);
    }
    // SAFETY: `all_inside` vouches for the bytes, the step's maker for the register.
    unsafe { scatter::<1>(env.lds.as_mut_ptr(), exec, &at, wave.registers(data)) };
    env.lds_done(wave.id, LdsOp::Write, exec, &at, 4)
}

/// `ds_append` adds the number of active lanes to the counter at M0[15:0] + offset, `ds_consume` takes it away; all lanes
/// get the old value. The base is where LLVM puts the pointer for LDS; the upper half of M0 is that of GDS.
unsafe fn append(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let exec = wave.exec();
    let address = (wave.m0() & 0xffff).wrapping_add(step.imm as u32);
    let change = if step.op == Op::DsAppend { Change::Add } else { Change::Sub };
    match atomic_place(env, address, 4) {
        Err(kind) => env.raise(kind, None),
        Ok(host) => {
            let lanes = u64::from(exec.count_ones());
            // SAFETY: `atomic_place` vouches for the bytes, the step's maker for the register.
            unsafe {
                let old = atomic::change(host, Atomic { change, wide: false }, lanes, 0, false);
                for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
                    atomic::put(wave, step.dst[0], false, lane, old);
                }
            }
            env.lds_done(wave.id, LdsOp::Atomic, u64::from(exec != 0), &[address; 64], 4)
        }
    }
}
