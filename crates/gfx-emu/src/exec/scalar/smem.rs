//! Scalar memory: loads, stores and atomics through an address or a buffer resource, and the clocks.

use super::{read32, read64};
use crate::exec::memory::{Atomic, Change, change};
use crate::exec::{Compiler, Env, Flow, Handler, Src, Step, Unsupported, Wave};
use crate::fault::{Access, FaultKind};
use crate::isa::{Inst, Op, Operand};

/// Makes a step of a SMEM instruction: `aux[0]` dwords.
pub(super) fn compile(_: &Compiler, inst: &Inst) -> Result<Step, Unsupported> {
    let (run, dwords): (Handler, u8) = match inst.op {
        Op::SLoadDword => (load::<1>, 1),
        Op::SLoadDwordx2 => (load::<2>, 2),
        Op::SLoadDwordx4 => (load::<4>, 4),
        Op::SLoadDwordx8 => (load::<8>, 8),
        Op::SLoadDwordx16 => (load::<16>, 16),
        Op::SBufferLoadDword => (buffer_load::<1>, 1),
        Op::SBufferLoadDwordx2 => (buffer_load::<2>, 2),
        Op::SBufferLoadDwordx4 => (buffer_load::<4>, 4),
        Op::SBufferLoadDwordx8 => (buffer_load::<8>, 8),
        Op::SBufferLoadDwordx16 => (buffer_load::<16>, 16),
        Op::SStoreDword => (store::<1>, 1),
        Op::SStoreDwordx2 => (store::<2>, 2),
        Op::SStoreDwordx4 => (store::<4>, 4),
        Op::SBufferStoreDword => (buffer_store::<1>, 1),
        Op::SBufferStoreDwordx2 => (buffer_store::<2>, 2),
        Op::SBufferStoreDwordx4 => (buffer_store::<4>, 4),
        Op::SMemtime => (memtime, 2),
        Op::SMemrealtime => (memrealtime, 2),
        // One flat memory: there is nothing to write back, to forget or to look ahead for.
        Op::SDcacheInv | Op::SDcacheWb | Op::SDcacheInvVol | Op::SDcacheWbVol => (nothing, 0),
        Op::SDcacheDiscard | Op::SDcacheDiscardX2 | Op::SAtcProbe | Op::SAtcProbeBuffer => (nothing, 0),
        op => return atomic_step(op, inst),
    };
    let mut step = super::step(inst, run)?;
    step.imm = i64::from(inst.mods.offset);
    step.aux[0] = dwords;
    if let Operand::Scalar(data) = inst.src[2] {
        // Stores keep their data where loads keep their destination.
        step.dst[0] = data.into();
    }
    if usize::from(step.dst[0]) + usize::from(dwords) > 128 {
        return Err(Unsupported::Register(format!("s{}", step.dst[0])));
    }
    Ok(step)
}

/// The atomics in the order of their opcodes, by the name behind `s_atomic_` or `s_buffer_atomic_`.
const ATOMICS: [(&str, Change); 13] = [
    ("swap", Change::Swap),
    ("cmpswap", Change::CompareSwap),
    ("add", Change::Add),
    ("sub", Change::Sub),
    ("smin", Change::SMin),
    ("umin", Change::UMin),
    ("smax", Change::SMax),
    ("umax", Change::UMax),
    ("and", Change::And),
    ("or", Change::Or),
    ("xor", Change::Xor),
    ("inc", Change::Inc),
    ("dec", Change::Dec),
];

/// A step of a scalar atomic: `aux` holds the index in [`ATOMICS`], whether it is 64 bits wide, whether it returns, and
/// whether it goes through a buffer resource; `dst[0]` the data, which the old value replaces.
fn atomic_step(op: Op, inst: &Inst) -> Result<Step, Unsupported> {
    let name = op.name();
    let plain = name.strip_prefix("s_atomic_");
    let rest = plain.or_else(|| name.strip_prefix("s_buffer_atomic_")).ok_or(Unsupported::NoHandler)?;
    let (rest, wide) = rest.strip_suffix("_x2").map_or((rest, false), |rest| (rest, true));
    let index = ATOMICS.iter().position(|(name, _)| *name == rest).ok_or(Unsupported::NoHandler)?;
    let Operand::Scalar(data) = inst.src[2] else { return Err(Unsupported::NoHandler) };
    let registers = if ATOMICS[index].1 == Change::CompareSwap { 2 } else { 1 } << u8::from(wide);
    if data + registers > 128 {
        return Err(Unsupported::Register(format!("s{data}")));
    }
    let mut step = super::step(inst, atomic)?;
    step.imm = i64::from(inst.mods.offset);
    step.aux = [index as u8, wide.into(), inst.mods.sc0.into(), plain.is_none().into(), 0];
    step.dst[0] = data.into();
    Ok(step)
}

/// Immediate and register offset together.
#[inline(always)]
fn offset(step: &Step, wave: &Wave) -> i64 {
    let register = if matches!(step.src[1], Src::None) { 0 } else { i64::from(read32(step, wave, 1)) };
    step.imm + register
}

#[inline(always)]
unsafe fn fetch<const N: usize>(address: u64, step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let address = address & !3;
    let bytes = N as u32 * 4;
    match env.memory.resolve(&mut env.ranges, Access::Read, address, bytes) {
        Ok(host) => {
            if env.memory.tracks()
                && let Err(kind) = env.memory.check_written(address, bytes)
            {
                return env.raise(kind, None);
            }
            let first = usize::from(step.dst[0]);
            // SAFETY: `resolve` vouches for `4 * N` bytes at `host`; that the registers exist was checked when the step was made.
            unsafe {
                let to = wave.sgpr.as_mut_ptr().add(first);
                std::ptr::copy_nonoverlapping(host, to.cast::<u8>(), N * 4);
            }
            env.traffic.smem(address, bytes);
            Flow::Next
        }
        Err(kind) => env.raise(kind, None),
    }
}

unsafe fn load<const N: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let address = read64(step, wave, 0).wrapping_add_signed(offset(step, wave));
    // SAFETY: as this handler's.
    unsafe { fetch::<N>(address, step, wave, env) }
}

/// Base and size in bytes of the buffer resource in four scalar registers.
fn resource(step: &Step, wave: &Wave) -> (u64, u64) {
    let Src::Scalar(code) = step.src[0] else { return (0, 0) };
    let (low, high) = (wave.s64(code), wave.s64(code + 2));
    let stride = low >> 48 & 0x3fff;
    let records = high & 0xffff_ffff;
    (low & 0xffff_ffff_ffff, if stride == 0 { records } else { records * stride })
}

/// Range-checked against the resource: dwords outside read 0.
unsafe fn buffer_load<const N: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (base, size) = resource(step, wave);
    let offset = (offset(step, wave) as u64) & !3;
    if offset.checked_add(N as u64 * 4).is_some_and(|end| end <= size) {
        // SAFETY: as this handler's.
        return unsafe { fetch::<N>(base.wrapping_add(offset), step, wave, env) };
    }
    for dword in 0..N as u64 {
        let at = offset.wrapping_add(dword * 4);
        let mut one = step.clone();
        one.dst[0] += dword as u16;
        if at.checked_add(4).is_some_and(|end| end <= size) {
            // SAFETY: as this handler's; the register lies inside the ones that were checked.
            let flow = unsafe { fetch::<1>(base.wrapping_add(at), &one, wave, env) };
            if flow != Flow::Next {
                return flow;
            }
        } else {
            super::write32(&one, wave, 0);
        }
    }
    Flow::Next
}

/// Stores `words` at `address`, whose low two bits are ignored.
fn put(address: u64, words: &[u32], env: &mut Env<'_>) -> Flow {
    let (address, bytes) = (address & !3, words.len() as u32 * 4);
    match env.memory.resolve(&mut env.ranges, Access::Write, address, bytes) {
        Ok(host) => {
            if env.memory.tracks() {
                env.memory.mark_written(address, bytes.into());
            }
            // SAFETY: `resolve` vouches for the bytes at `host`.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u8>(), host, bytes as usize) };
            Flow::Next
        }
        Err(kind) => env.raise(kind, None),
    }
}

/// The registers of a store.
fn words<const N: usize>(step: &Step, wave: &Wave) -> [u32; N] {
    std::array::from_fn(|word| wave.s32(step.dst[0] as u8 + word as u8))
}

unsafe fn store<const N: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let address = read64(step, wave, 0).wrapping_add_signed(offset(step, wave));
    put(address, &words::<N>(step, wave), env)
}

/// Dwords outside the resource are dropped.
unsafe fn buffer_store<const N: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (base, size) = resource(step, wave);
    let offset = (offset(step, wave) as u64) & !3;
    for (index, word) in words::<N>(step, wave).into_iter().enumerate() {
        let at = offset.wrapping_add(index as u64 * 4);
        if at.checked_add(4).is_some_and(|end| end <= size) && put(base.wrapping_add(at), &[word], env) != Flow::Next {
            return Flow::Fault;
        }
    }
    Flow::Next
}

/// A read-modify-write of 4 or 8 bytes. Outside a resource nothing happens, and 0 is returned.
unsafe fn atomic(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let [index, wide, returns, buffer, _] = step.aux;
    let (wide, bytes, data) = (wide != 0, 4 << wide, step.dst[0] as u8);
    let atomic = Atomic { change: ATOMICS[usize::from(index)].1, wide };
    let read = |wave: &Wave, code: u8| if wide { wave.s64(code) } else { wave.s32(code).into() };
    let (value, comparand) = (read(wave, data), read(wave, data.wrapping_add(1 << u8::from(wide))));
    let offset = offset(step, wave);
    let address = if buffer == 0 {
        Some(read64(step, wave, 0).wrapping_add_signed(offset) & !3)
    } else {
        let (base, size) = resource(step, wave);
        let offset = offset as u64 & !3;
        offset.checked_add(bytes.into()).filter(|end| *end <= size).map(|_| base.wrapping_add(offset))
    };
    let old = match address {
        None => 0,
        Some(address) if address % u64::from(bytes) != 0 => {
            let kind = FaultKind::Misaligned { space: "global", address, bytes, align: bytes };
            return env.raise(kind, None);
        }
        Some(address) => {
            if env.memory.tracks()
                && let Err(kind) = env.memory.check_written(address, bytes)
            {
                return env.raise(kind, None);
            }
            match env.memory.resolve(&mut env.ranges, Access::Atomic, address, bytes) {
                // SAFETY: `resolve` vouches for the bytes.
                Ok(host) => unsafe { change(host, atomic, value, comparand, true) },
                Err(kind) => return env.raise(kind, None),
            }
        }
    };
    match (returns != 0, wide) {
        (true, true) => wave.set_s64(data, old),
        (true, false) => wave.set_s32(data, old as u32),
        _ => {}
    }
    Flow::Next
}

unsafe fn memtime(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    super::write64(step, wave, env.now(wave));
    Flow::Next
}

/// 100 MHz beside a core clock of about 2 GHz.
unsafe fn memrealtime(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    super::write64(step, wave, env.now(wave) / 20);
    Flow::Next
}

unsafe fn nothing(_: &Step, _: &mut Wave, _: &mut Env<'_>) -> Flow {
    Flow::Next
}
