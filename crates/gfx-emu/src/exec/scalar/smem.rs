//! Scalar memory: loads of 1 to 16 dwords, through an address or a buffer resource, and the clocks.

use super::{read32, read64};
use crate::exec::{Compiler, Env, Flow, Handler, Src, Step, Unsupported, Wave};
use crate::fault::{Access, FaultKind};
use crate::isa::{Inst, Op};

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
        Op::SMemtime => (memtime, 2),
        Op::SMemrealtime => (memrealtime, 2),
        Op::SDcacheInv | Op::SDcacheWb | Op::SDcacheInvVol | Op::SDcacheWbVol => (nothing, 0),
        _ => return Err(Unsupported::NoHandler),
    };
    let mut step = super::step(inst, run)?;
    step.imm = i64::from(inst.mods.offset);
    step.aux[0] = dwords;
    if usize::from(step.dst[0]) + usize::from(dwords) > 128 {
        return Err(Unsupported::Register(format!("s{}", step.dst[0])));
    }
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

/// Range-checked against the resource: dwords outside read 0.
unsafe fn buffer_load<const N: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let Src::Scalar(code) = step.src[0] else {
        return env.raise(FaultKind::Unsupported("a buffer resource that is no register".to_owned()), None);
    };
    let (low, high) = (wave.s64(code), wave.s64(code + 2));
    let base = low & 0xffff_ffff_ffff;
    let stride = low >> 48 & 0x3fff;
    let records = high & 0xffff_ffff;
    let size = if stride == 0 { records } else { records * stride };
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

unsafe fn memtime(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    super::write64(step, wave, env.clock);
    Flow::Next
}

/// 100 MHz beside a core clock of about 2 GHz.
unsafe fn memrealtime(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    super::write64(step, wave, env.clock / 20);
    Flow::Next
}

unsafe fn nothing(_: &Step, _: &mut Wave, _: &mut Env<'_>) -> Flow {
    Flow::Next
}
