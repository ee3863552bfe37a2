//! DS instructions that move data between lanes: swizzle, permutes, and gfx950's transposing reads.

use super::lanes::{self, Space};
use super::{step, vector};
use crate::exec::levels::{leveled, pick};
use crate::exec::valu::simd::{self, blend};
use crate::exec::{Compiler, Env, Flow, Handler, Src, Step, Unsupported, Vreg, Wave};
use crate::fault::FaultKind;
use crate::isa::{Inst, Op};
use crate::traffic::LdsOp;

/// Makes a step of one of these.
pub(super) fn compile(c: &Compiler, inst: &Inst) -> Result<Step, Unsupported> {
    let (run, dwords, data): (Handler, u16, bool) = match inst.op {
        Op::DsSwizzleB32 => (pick!(c, swizzle), 1, false),
        Op::DsPermuteB32 => (permute, 1, true),
        Op::DsBpermuteB32 => (pick!(c, bpermute), 1, true),
        Op::DsReadB64TrB16 => (transpose::<16, 4>, 2, false),
        Op::DsReadB64TrB8 => (transpose::<8, 8>, 2, false),
        Op::DsReadB64TrB4 => (transpose::<4, 16>, 2, false),
        Op::DsReadB96TrB6 => (transpose::<6, 16>, 3, false),
        _ => return Err(Unsupported::NoHandler),
    };
    let mut step = step(inst, run);
    step.dst[0] = c.register(inst.dst[0], dwords)?;
    step.src[0] = vector(c, inst.src[0], 1)?;
    if data {
        step.src[1] = vector(c, inst.src[1], 1)?;
    }
    Ok(step)
}

pub(super) unsafe fn nothing(_: &Step, _: &mut Wave, _: &mut Env<'_>) -> Flow {
    Flow::Next
}

/// A copy of a source register, since the destination may be the same.
///
/// # Safety
/// The register exists.
#[inline(always)]
unsafe fn copy(wave: &mut Wave, source: Src) -> [u32; 64] {
    match source {
        // SAFETY: the caller's.
        Src::Vgpr(number) => unsafe { (*wave.registers(number)).0 },
        _ => [0; 64],
    }
}

/// Writes the active lanes.
///
/// # Safety
/// The destination exists; the host has the features of level `L`.
#[inline(always)]
unsafe fn write<const L: u8>(step: &Step, wave: &mut Wave, values: &Vreg) {
    let exec = wave.exec();
    // SAFETY: the caller's.
    unsafe { blend::<L>(wave.registers(step.dst[0]), values, exec) };
}

/// Lane i gets the data of lane `source[i]` (below 64), 0 where that is inactive.
///
/// # Safety
/// As [`write`].
#[inline(always)]
unsafe fn take<const L: u8>(step: &Step, wave: &mut Wave, source: &[u8; 64], data: [u32; 64]) {
    let exec = wave.exec();
    let mut data = Vreg(data);
    if exec != !0 {
        for lane in 0..64 {
            data.0[lane] &= 0_u32.wrapping_sub((exec >> lane & 1) as u32);
        }
    }
    // SAFETY: the caller's.
    unsafe {
        simd::permute::<L>(&mut data, source);
        write::<L>(step, wave, &data);
    }
}

#[inline(always)]
fn crossed(env: &mut Env<'_>, exec: u64) -> Flow {
    env.traffic.crossed(exec);
    Flow::Next
}

/// The lane that `lane` reads from by the swizzle's 16-bit pattern; `None` when the pattern has no such lane.
fn swizzle_source(pattern: u32, lane: usize) -> usize {
    if pattern >= 0xe000 {
        // FFT: a butterfly order inside 32 lanes, narrowed by the mask in bits 4:0.
        let mask = (pattern & 0x1f) as usize;
        let low = lane & 0x1f;
        let reversed = (low as u8).reverse_bits() as usize >> 3;
        let order = match mask {
            0x1f => low,
            _ => {
                let kept = mask.count_ones();
                (reversed >> kept) | (low & mask)
            }
        };
        return (lane & 0x20) | order;
    }
    if pattern >= 0xc000 {
        // Rotate inside 32 lanes; bit 10 is the direction (0 left), bits 9:5 the distance, bits 4:0 the lanes kept.
        let distance = (pattern >> 5 & 0x1f) as usize;
        let kept = (pattern & 0x1f) as usize;
        let low = lane & 0x1f;
        let moved = if pattern >> 10 & 1 == 0 { low + distance } else { low + 32 - distance };
        return (lane & 0x20) | (low & kept) | (moved & !kept & 0x1f);
    }
    if pattern & 0x8000 != 0 {
        return (lane & !3) | (pattern >> (2 * (lane & 3)) & 3) as usize;
    }
    let (and, or, xor) = (pattern & 0x1f, pattern >> 5 & 0x1f, pattern >> 10 & 0x1f);
    (lane & 0x20) | ((((lane as u32 & 0x1f) & and) | or) ^ xor) as usize
}

leveled!(swizzle = swizzle_body + level);
leveled!(bpermute = bpermute_body + level);

#[inline(always)]
unsafe fn swizzle_body<const L: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let pattern = step.imm as u32 & 0xffff;
    let source = std::array::from_fn(|lane| swizzle_source(pattern, lane) as u8);
    // SAFETY: registers were checked when the step was made.
    unsafe {
        let data = copy(wave, step.src[0]);
        take::<L>(step, wave, &source, data);
    }
    crossed(env, wave.exec())
}

/// Each active lane sends its data to lane (address + offset) / 4; the highest sender wins.
unsafe fn permute(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let exec = wave.exec();
    // SAFETY: registers were checked when the step was made.
    let (address, data) = unsafe { (copy(wave, step.src[0]), copy(wave, step.src[1])) };
    let mut values = Vreg([0; 64]);
    for lane in (0..64).filter(|lane| exec >> lane & 1 == 1) {
        values.0[(address[lane].wrapping_add(step.imm as u32) / 4 % 64) as usize] = data[lane];
    }
    // SAFETY: as above.
    unsafe { write::<{ simd::BASE }>(step, wave, &values) };
    crossed(env, exec)
}

/// Each active lane takes the data of lane (address + offset) / 4; an inactive one gives 0.
#[inline(always)]
unsafe fn bpermute_body<const L: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    // SAFETY: registers were checked when the step was made.
    unsafe {
        let (address, data) = (copy(wave, step.src[0]), copy(wave, step.src[1]));
        let mut source = [0; 64];
        for lane in 0..64 {
            source[lane] = (address[lane].wrapping_add(step.imm as u32) >> 2 & 63) as u8;
        }
        take::<L>(step, wave, &source, data);
    }
    crossed(env, wave.exec())
}

/// Transposing read in groups of 16 lanes: `ROWS` rows of 16 items of `BITS` bits, spread over the lanes as they were
/// addressed, come back so that lane `i` has item `i` of each row. Every lane has to be active.
unsafe fn transpose<const BITS: usize, const ROWS: usize>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let exec = wave.exec();
    if exec != u64::MAX {
        return env.raise(FaultKind::Unsupported("a transposing LDS read with inactive lanes".to_owned()), None);
    }
    let bytes = (BITS * ROWS / 8) as u32;
    // SAFETY: registers were checked when the step was made.
    let at = unsafe { super::ds::addresses(step, wave, step.imm as u32) };
    let mut raw = [[0_u32; 4]; 64];
    let outcome = lanes::for_lanes(exec, |lane| {
        let align = if bytes == 12 { 4 } else { 8 };
        if at[lane] % align != 0 {
            return Err(FaultKind::Misaligned { space: "LDS", address: at[lane].into(), bytes, align });
        }
        raw[lane] = lanes::read(env, wave, lane, (Space::Lds, at[lane].into()), bytes)?;
        Ok(())
    });
    if outcome.is_err() || env.lds_done(wave.id, LdsOp::Read, exec, &at, bytes) != Flow::Next {
        return if outcome.is_err() { lanes::finish(env, outcome) } else { Flow::Fault };
    }
    let item = |words: &[u32; 4], index: usize| -> u32 {
        let bit = index * BITS;
        let pair = u64::from(words[bit / 32]) | u64::from(words[(bit / 32 + 1) & 3]) << 32;
        (pair >> (bit % 32)) as u32 & ((1 << BITS) - 1)
    };
    // A row of 16 items takes this many lanes of `ROWS` items each.
    let lanes_a_row = 16 / ROWS;
    for lane in 0..64 {
        let (base, i) = (lane & !15, lane & 15);
        let mut words = [0_u32; 4];
        for row in 0..ROWS {
            let source = &raw[base + lanes_a_row * row + i / ROWS];
            let value = u64::from(item(source, i % ROWS)) << (row * BITS % 32);
            words[row * BITS / 32] |= value as u32;
            if value >> 32 != 0 {
                words[row * BITS / 32 + 1] |= (value >> 32) as u32;
            }
        }
        for (k, word) in words.iter().enumerate().take(bytes as usize / 4) {
            // SAFETY: as above.
            unsafe { (*wave.registers(step.dst[0] + k as u16)).0[lane] = *word };
        }
    }
    Flow::Next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        // xor 1: neighbours swap; masks 0x1f, 0, 1.
        assert_eq!(swizzle_source(0x1f | 1 << 10, 6), 7);
        assert_eq!(swizzle_source(0x1f | 16 << 10, 35), 51);
        // Broadcast of lane 0 of each 32.
        assert_eq!(swizzle_source(0, 45), 32);
        // Quad permute [3,2,1,0].
        assert_eq!(swizzle_source(0x8000 | 0x1b, 9), 10);
        // Rotate by one.
        assert_eq!(swizzle_source(0xc000 | 1 << 5, 31), 0);
        assert_eq!(swizzle_source(0xc000 | 1 << 10 | 1 << 5, 0), 31);
    }
}
