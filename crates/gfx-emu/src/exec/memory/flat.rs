//! FLAT, GLOBAL and SCRATCH: loads, stores, atomics, and loads into LDS.

use super::kind::{Extend, Kind, kind};
use super::lanes::{self, Space};
use super::{scalar, step, vector};
use crate::exec::levels::{leveled, pick};
use crate::exec::{Compiler, Env, Flow, Src, Step, Unsupported, Wave};
use crate::fault::{Access, FaultKind};
use crate::isa::{Encoding, Inst, Operand};

// `aux` of these steps: 0 the address form, 1 bytes a lane, 2 the extension, 3 the segment, 4 whether an atomic returns.
const FORM: usize = 0;
const BYTES: usize = 1;
const EXTEND: usize = 2;
const SEGMENT: usize = 3;
pub(super) const RETURNS: usize = 4;

/// The address is a pair of vector registers.
const PAIR: u8 = 0;
/// A pair of scalar registers and a 32-bit vector offset.
const BASE_OFFSET: u8 = 1;
/// Scratch: a vector offset, a scalar offset, either or none.
const OFFSETS: u8 = 2;

const GLOBAL: u8 = 0;
const FLAT: u8 = 1;
const SCRATCH: u8 = 2;

/// Makes a step of a FLAT, GLOBAL or SCRATCH instruction.
pub(super) fn compile(c: &Compiler, inst: &Inst) -> Result<Step, Unsupported> {
    let kind = kind(inst.op).ok_or(Unsupported::NoHandler)?;
    let run = match kind {
        Kind::Load(4, Extend::Zero) => pick!(c, load_dwords::<N1>),
        Kind::Load(8, Extend::Zero) => pick!(c, load_dwords::<N2>),
        Kind::Load(12, Extend::Zero) => pick!(c, load_dwords::<N3>),
        Kind::Load(16, Extend::Zero) => pick!(c, load_dwords::<N4>),
        Kind::Load(..) => pick!(c, load_part),
        Kind::Store(4, _) => pick!(c, store_dwords::<N1>),
        Kind::Store(8, _) => pick!(c, store_dwords::<N2>),
        Kind::Store(12, _) => pick!(c, store_dwords::<N3>),
        Kind::Store(16, _) => pick!(c, store_dwords::<N4>),
        Kind::Store(..) => pick!(c, store_part),
        Kind::ToLds(..) => pick!(c, load_to_lds),
        Kind::Atomic(_) => pick!(c, atomics),
    };
    let mut step = step(inst, run);
    let [address, data, base] = [inst.src[0], inst.src[1], inst.src[2]];
    step.aux[SEGMENT] = match inst.enc {
        Encoding::Scratch => SCRATCH,
        Encoding::Flat => FLAT,
        _ => GLOBAL,
    };
    let has_base = !matches!(base, Operand::None | Operand::Off);
    step.aux[FORM] = match (inst.enc, has_base) {
        (Encoding::Scratch, _) => OFFSETS,
        (_, true) => BASE_OFFSET,
        _ => PAIR,
    };
    step.src[0] = vector(c, address, if step.aux[FORM] == PAIR { 2 } else { 1 })?;
    step.src[2] = scalar(base)?;
    match kind {
        Kind::Load(bytes, extend) => {
            (step.aux[BYTES], step.aux[EXTEND]) = (bytes, extend as u8);
            step.dst[0] = c.register(inst.dst[0], u16::from(bytes.div_ceil(4)))?;
        }
        Kind::ToLds(bytes, extend) => (step.aux[BYTES], step.aux[EXTEND]) = (bytes, extend as u8),
        Kind::Store(bytes, high) => {
            (step.aux[BYTES], step.aux[EXTEND]) = (bytes, u8::from(high));
            step.src[1] = vector(c, data, u16::from(bytes.div_ceil(4)))?;
        }
        Kind::Atomic(atomic) => {
            step.aux[BYTES] = atomic.bytes();
            step.src[1] = vector(c, data, atomic.data_registers())?;
            if !matches!(inst.dst[0], Operand::None | Operand::Off) {
                step.aux[RETURNS] = 1;
                step.dst[0] = c.register(inst.dst[0], u16::from(atomic.bytes() / 4))?;
            }
        }
    }
    Ok(step)
}

const N1: usize = 1;
const N2: usize = 2;
const N3: usize = 3;
const N4: usize = 4;

leveled!(load_dwords = load_dwords_body<const N: usize> + level);
leveled!(load_part = load_part_body);
leveled!(store_dwords = store_dwords_body<const N: usize> + level);
leveled!(store_part = store_part_body);
leveled!(load_to_lds = load_to_lds_body);
leveled!(atomics = atomics_body);

/// Addresses of all lanes, whether active or not.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
unsafe fn addresses(step: &Step, wave: &mut Wave, out: &mut [u64; 64]) {
    let offset = step.imm as u64;
    match (step.aux[FORM], step.src[0]) {
        (PAIR, Src::Vgpr(number)) => {
            // SAFETY: the caller's.
            let (low, high) = unsafe {
                let first = wave.registers(number);
                (&(*first).0, &(*first.add(1)).0)
            };
            for lane in 0..64 {
                out[lane] = (u64::from(low[lane]) | u64::from(high[lane]) << 32).wrapping_add(offset);
            }
        }
        (BASE_OFFSET, source) => {
            let Src::Scalar(code) = step.src[2] else { return };
            let base = wave.s64(code).wrapping_add(offset);
            match source {
                Src::Vgpr(number) => {
                    // SAFETY: the caller's.
                    let low = unsafe { &(*wave.registers(number)).0 };
                    for lane in 0..64 {
                        out[lane] = base.wrapping_add(u64::from(low[lane]));
                    }
                }
                _ => *out = [base; 64],
            }
        }
        (_, source) => {
            let base = super::scalar32(step.src[2], wave).wrapping_add(offset as u32);
            match source {
                Src::Vgpr(number) => {
                    // SAFETY: the caller's.
                    let low = unsafe { &(*wave.registers(number)).0 };
                    for lane in 0..64 {
                        out[lane] = u64::from(base.wrapping_add(low[lane]));
                    }
                }
                _ => *out = [base.into(); 64],
            }
        }
    }
}

/// The space and address of one lane.
#[inline(always)]
fn place(step: &Step, address: u64) -> (Space, u64) {
    match step.aux[SEGMENT] {
        GLOBAL => (Space::Global, address),
        SCRATCH => (Space::Scratch, address),
        _ => lanes::aperture(address),
    }
}

/// True when the lanes are all active, in device memory and one after another: the checked pointer to the first.
#[inline(always)]
fn whole(step: &Step, env: &mut Env<'_>, access: Access, exec: u64, at: &[u64; 64], bytes: u32) -> Option<*mut u8> {
    let global = match step.aux[SEGMENT] {
        GLOBAL => true,
        FLAT => lanes::aperture(at[0]).0 == Space::Global && lanes::aperture(at[63]).0 == Space::Global,
        _ => false,
    };
    if exec != u64::MAX || !global || !lanes::is_linear(at, bytes.into()) {
        return None;
    }
    lanes::locate(env, Space::Global, access, at[0], bytes * 64).ok()
}

/// Counts an instruction that went lane by lane; a fault when its lanes in LDS race.
#[inline(always)]
fn count(step: &Step, wave: &Wave, env: &mut Env<'_>, access: Access, exec: u64, at: &[u64; 64]) -> Flow {
    let bytes = u32::from(step.aux[BYTES]);
    match step.aux[SEGMENT] {
        GLOBAL => env.traffic.vmem(access, exec, at, bytes),
        SCRATCH => count_scratch(wave, env, access, exec, at, bytes),
        _ => {
            // Each space gets its own lanes.
            let mut masks = [0_u64; 3];
            let mut local = [0_u32; 64];
            let mut private = [0_u64; 64];
            for lane in 0..64 {
                let (space, address) = lanes::aperture(at[lane]);
                masks[space as usize] |= (exec >> lane & 1) << lane;
                local[lane] = address as u32;
                private[lane] = address;
            }
            let [global, scratch, lds] = masks;
            env.traffic.vmem(access, global, at, bytes);
            if scratch != 0 {
                count_scratch(wave, env, access, scratch, &private, bytes);
            }
            if lds != 0 {
                return env.lds_done(wave.id, lds_op(access), lds, &local, bytes);
            }
        }
    }
    Flow::Next
}

fn lds_op(access: Access) -> crate::traffic::LdsOp {
    match access {
        Access::Read => crate::traffic::LdsOp::Read,
        Access::Write => crate::traffic::LdsOp::Write,
        Access::Atomic => crate::traffic::LdsOp::Atomic,
    }
}

/// Scratch is device memory: a dword of each lane side by side.
fn count_scratch(wave: &Wave, env: &mut Env<'_>, access: Access, exec: u64, at: &[u64; 64], bytes: u32) {
    for dword in 0..u64::from(bytes.div_ceil(4)) {
        let real = std::array::from_fn(|lane| {
            // Lanes that are off may hold anything.
            let offset = (at[lane] & 0xffff_ffff) + dword * 4;
            wave.scratch_base.wrapping_add((offset / 4 * 64 + lane as u64) * 4 + offset % 4)
        });
        env.traffic.vmem(access, exec, &real, bytes.min(4));
    }
}

#[inline(always)]
unsafe fn load_dwords_body<const N: usize, const L: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let exec = wave.exec();
    if exec == 0 {
        return Flow::Next;
    }
    let mut at = [0; 64];
    // SAFETY: registers were checked when the step was made; `whole` vouches for the bytes of all lanes.
    unsafe {
        addresses(step, wave, &mut at);
        if let Some(host) = whole(step, env, Access::Read, exec, &at, N as u32 * 4) {
            lanes::load_rows::<N, L>(host, wave.registers(step.dst[0]));
            env.traffic.vmem_linear(Access::Read, at[0], N as u32 * 4);
            return Flow::Next;
        }
    }
    let outcome = lanes::for_lanes(exec, |lane| {
        let words = lanes::read(env, wave, lane, place(step, at[lane]), N as u32 * 4)?;
        // SAFETY: as above.
        let to = unsafe { wave.registers(step.dst[0]) };
        for (k, word) in words.iter().enumerate().take(N) {
            // SAFETY: as above.
            unsafe { (*to.add(k)).0[lane] = *word };
        }
        Ok(())
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    count(step, wave, env, Access::Read, exec, &at)
}

#[inline(always)]
unsafe fn load_part_body(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, extend) = (wave.exec(), u32::from(step.aux[BYTES]), Extend::from_u8(step.aux[EXTEND]));
    let mut at = [0; 64];
    // SAFETY: registers were checked when the step was made.
    unsafe { addresses(step, wave, &mut at) };
    let outcome = lanes::for_lanes(exec, |lane| {
        let words = lanes::read(env, wave, lane, place(step, at[lane]), bytes)?;
        // SAFETY: as above.
        unsafe { (*wave.registers(step.dst[0])).0[lane] = extend.apply(words[0]) };
        Ok(())
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    count(step, wave, env, Access::Read, exec, &at)
}

#[inline(always)]
unsafe fn store_dwords_body<const N: usize, const L: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let exec = wave.exec();
    let Src::Vgpr(data) = step.src[1] else { return Flow::Next };
    if exec == 0 {
        return Flow::Next;
    }
    let mut at = [0; 64];
    // SAFETY: registers were checked when the step was made; `whole` vouches for the bytes of all lanes.
    unsafe {
        addresses(step, wave, &mut at);
        if let Some(host) = whole(step, env, Access::Write, exec, &at, N as u32 * 4) {
            lanes::store_rows::<N, L>(host, wave.registers(data));
            env.traffic.vmem_linear(Access::Write, at[0], N as u32 * 4);
            return Flow::Next;
        }
    }
    let outcome = lanes::for_lanes(exec, |lane| {
        let mut words = [0; 4];
        // SAFETY: as above.
        let from = unsafe { wave.registers(data) };
        for (k, word) in words.iter_mut().enumerate().take(N) {
            // SAFETY: as above.
            *word = unsafe { (*from.add(k)).0[lane] };
        }
        lanes::write(env, wave, lane, place(step, at[lane]), &words, N as u32 * 4)
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    count(step, wave, env, Access::Write, exec, &at)
}

#[inline(always)]
unsafe fn store_part_body(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, high) = (wave.exec(), u32::from(step.aux[BYTES]), step.aux[EXTEND] == 1);
    let Src::Vgpr(data) = step.src[1] else { return Flow::Next };
    let mut at = [0; 64];
    // SAFETY: registers were checked when the step was made.
    unsafe { addresses(step, wave, &mut at) };
    let outcome = lanes::for_lanes(exec, |lane| {
        // SAFETY: as above.
        let word = unsafe { (*wave.registers(data)).0[lane] };
        let words = [if high { word >> 16 } else { word }, 0, 0, 0];
        lanes::write(env, wave, lane, place(step, at[lane]), &words, bytes)
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    count(step, wave, env, Access::Write, exec, &at)
}

/// LDS address: M0[17:2] * 4 + the same immediate offset + lane * 4 (16 for the wide forms).
#[inline(always)]
unsafe fn load_to_lds_body(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (exec, bytes, extend) = (wave.exec(), u32::from(step.aux[BYTES]), Extend::from_u8(step.aux[EXTEND]));
    let mut at = [0; 64];
    // SAFETY: registers were checked when the step was made.
    unsafe { addresses(step, wave, &mut at) };
    let base = (wave.m0() & 0x3fffc).wrapping_add(step.imm as u32);
    let flow = to_lds(env, wave, exec, base, bytes, |env, lane| {
        let words = lanes::read(env, wave, lane, place(step, at[lane]), bytes)?;
        Ok(if bytes < 4 { [extend.apply(words[0]), 0, 0, 0] } else { words })
    });
    if flow == Flow::Next { count(step, wave, env, Access::Read, exec, &at) } else { flow }
}

/// Puts what `fetch` gives for each active lane into LDS: a dword each, or 12 or 16 bytes at every 16th.
#[inline(always)]
pub(super) fn to_lds(
    env: &mut Env<'_>,
    wave: &Wave,
    exec: u64,
    base: u32,
    bytes: u32,
    fetch: impl Fn(&mut Env<'_>, usize) -> Result<[u32; 4], FaultKind>,
) -> Flow {
    let stride = if bytes > 4 { 16 } else { 4 };
    let local: [u32; 64] = std::array::from_fn(|lane| base.wrapping_add(lane as u32 * stride));
    let outcome = lanes::for_lanes(exec, |lane| {
        let words = fetch(env, lane)?;
        lanes::write(env, wave, lane, (Space::Lds, local[lane].into()), &words, bytes.max(4))
    });
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    env.lds_done(wave.id, crate::traffic::LdsOp::Write, exec, &local, bytes.max(4))
}

#[inline(always)]
unsafe fn atomics_body(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let exec = wave.exec();
    let mut at = [0; 64];
    // SAFETY: registers were checked when the step was made.
    unsafe { addresses(step, wave, &mut at) };
    // SAFETY: as this handler's.
    let outcome = unsafe { super::atomic::run(step, wave, env, exec, |lane| Some(place(step, at[lane]))) };
    if outcome.is_err() {
        return lanes::finish(env, outcome);
    }
    count(step, wave, env, Access::Atomic, exec, &at)
}
