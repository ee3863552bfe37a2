//! The parts of a division that compilers put together: scaling before, a scaled multiply-add after; and the operand of a
//! trigonometric argument reduction.

use super::fp::*;
use super::general::{Index, fetch, fetch64, modify, modify64, store, store64};
use super::lane::Ty;
use super::{mask_code, step};
use crate::exec::Env;
use crate::exec::step::{Compiler, Flow, Step, Unsupported};
use crate::exec::wave::{Vreg, Wave};
use crate::isa::{Inst, Op};

pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    Some(match inst.op {
        Op::VDivScaleF32 => scale(c, inst, scale32 as crate::exec::Handler, Ty::F32),
        Op::VDivScaleF64 => scale(c, inst, scale64, Ty::F64),
        Op::VDivFmasF32 => step(c, inst, fmas32, &[Ty::F32; 3], Some(Ty::F32)),
        Op::VDivFmasF64 => step(c, inst, fmas64, &[Ty::F64; 3], Some(Ty::F64)),
        Op::VTrigPreopF64 => step(c, inst, trig, &[Ty::F64, Ty::B32], Some(Ty::F64)),
        _ => return None,
    })
}

fn scale(c: &Compiler, inst: &Inst, run: crate::exec::Handler, ty: Ty) -> Result<Step, Unsupported> {
    let mut step = step(c, inst, run, &[ty; 3], Some(ty))?;
    step.dst[1] = u16::from(mask_code(inst.dst[1])?);
    Ok(step)
}

/// What becomes of the operand that is scaled.
enum Scaled {
    Nan,
    Up,
    Down,
    Kept,
}

/// What `v_div_scale` asks of a division.
struct Division {
    /// The numerator or the denominator is 0.
    of_zero: bool,
    /// The quotient is so large that rounding steps could overflow.
    huge_quotient: bool,
    denormal_denominator: bool,
    denormal_reciprocal: bool,
    denormal_quotient: bool,
    /// The numerator is so small that remainders lose bits.
    small_numerator: bool,
    /// The operand that is scaled equals the denominator, the numerator.
    is: [bool; 2],
}

impl Division {
    /// What becomes of the operand, so that the division of the numerator by the denominator neither overflows nor loses bits, and whether
    /// `v_div_fmas` has to undo it.
    fn scaled(&self) -> (Scaled, bool) {
        let [is_denominator, is_numerator] = self.is;
        let only = |which: bool, how: Scaled| (if which { how } else { Scaled::Kept }, true);
        if self.of_zero {
            (Scaled::Nan, false)
        } else if self.huge_quotient {
            only(is_denominator, Scaled::Up)
        } else if self.denormal_denominator {
            (Scaled::Up, false)
        } else if self.denormal_reciprocal && self.denormal_quotient {
            // The documents print "up", which would make it infinite.
            only(is_denominator, Scaled::Down)
        } else if self.denormal_reciprocal {
            (Scaled::Down, false)
        } else if self.denormal_quotient {
            only(is_numerator, Scaled::Up)
        } else if self.small_numerator {
            (Scaled::Up, false)
        } else {
            (Scaled::Kept, false)
        }
    }
}

/// `v_div_scale_f32` of one lane: the first operand, which is one of the others, scaled by 2^64 up or down, and whether
/// `v_div_fmas_f32` has to undo it.
fn div_scale32([operand, denominator, numerator]: [u32; 3]) -> (u32, bool) {
    let (x, n, m) = (f(operand), f(numerator), f(denominator));
    let exponent = |x: u32| ((x >> 23) & 0xff) as i32;
    let division = Division {
        of_zero: n == 0.0 || m == 0.0,
        huge_quotient: exponent(numerator) - exponent(denominator) >= 96,
        denormal_denominator: m.is_subnormal(),
        // The documents compare the reciprocal with f64's range, which it never leaves.
        denormal_reciprocal: (1.0 / m).is_subnormal(),
        denormal_quotient: (n / m).is_subnormal(),
        small_numerator: exponent(numerator) <= 23,
        is: [x == m, x == n],
    };
    let (scaled, undo) = division.scaled();
    let result = match scaled {
        Scaled::Nan => NAN32,
        Scaled::Up => (x * f(0x5f80_0000)).to_bits(),
        Scaled::Down => (x * f(0x1f80_0000)).to_bits(),
        Scaled::Kept => operand,
    };
    (result, undo)
}

/// The same for f64; scaling is by 2^128.
fn div_scale64([operand, denominator, numerator]: [u64; 3]) -> (u64, bool) {
    let (x, n, m) = (d(operand), d(numerator), d(denominator));
    let exponent = |x: u64| ((x >> 52) & 0x7ff) as i32;
    let division = Division {
        of_zero: n == 0.0 || m == 0.0,
        huge_quotient: exponent(numerator) - exponent(denominator) >= 768,
        denormal_denominator: m.is_subnormal(),
        denormal_reciprocal: (1.0 / m).is_subnormal(),
        denormal_quotient: (n / m).is_subnormal(),
        small_numerator: exponent(numerator) <= 53,
        is: [x == m, x == n],
    };
    let (scaled, undo) = division.scaled();
    let result = match scaled {
        Scaled::Nan => NAN64,
        Scaled::Up => (x * d(0x47f0_0000_0000_0000)).to_bits(),
        Scaled::Down => (x * d(0x37f0_0000_0000_0000)).to_bits(),
        Scaled::Kept => operand,
    };
    (result, undo)
}

unsafe fn scale32(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    if !index.reaches(wave, step.dst[0], 1) {
        return Flow::Next;
    }
    let mut s = [Vreg([0; 64]); 3];
    for (i, source) in s.iter_mut().enumerate() {
        fetch(step, wave, index, Ty::F32, i, source);
    }
    let (mut r, mut mask) = (Vreg([0; 64]), 0u64);
    for lane in 0..64 {
        let p = Any(wave.mode);
        let (value, flag) = div_scale32([0, 1, 2].map(|i: usize| in32(p, s[i].0[lane])));
        r.0[lane] = value;
        mask |= u64::from(flag) << lane;
    }
    let exec = wave.exec();
    modify(Ty::F32, step, wave.mode, &mut r);
    store(step, wave, index, Ty::F32, false, &mut r, exec);
    wave.set_s64(step.dst[1] as u8, mask & exec);
    Flow::Next
}

/// A lane of a register pair.
fn pair(s: &[Vreg; 2], lane: usize) -> u64 {
    u64::from(s[0].0[lane]) | u64::from(s[1].0[lane]) << 32
}

fn set_pair(r: &mut [Vreg; 2], lane: usize, value: u64) {
    r[0].0[lane] = value as u32;
    r[1].0[lane] = (value >> 32) as u32;
}

unsafe fn scale64(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    if !index.reaches(wave, step.dst[0], 2) {
        return Flow::Next;
    }
    let mut s = [[Vreg([0; 64]); 2]; 3];
    for (i, source) in s.iter_mut().enumerate() {
        fetch64(step, wave, index, Ty::F64, i, source);
    }
    let (mut r, mut mask) = ([Vreg([0; 64]); 2], 0u64);
    for lane in 0..64 {
        let p = Any(wave.mode);
        let (value, flag) = div_scale64([0, 1, 2].map(|i: usize| in64(p, pair(&s[i], lane))));
        set_pair(&mut r, lane, value);
        mask |= u64::from(flag) << lane;
    }
    let exec = wave.exec();
    modify64(step, wave.mode, &mut r);
    store64(step, wave, index, Ty::F64, &r, exec);
    wave.set_s64(step.dst[1] as u8, mask & exec);
    Flow::Next
}

/// `fma`, then the scaling of `v_div_scale` undone where VCC says so: by 2^64 when the quotient's estimate S2 is 2 or more
/// (the denominator had been scaled), by 2^-64 otherwise (the numerator had been). ISA documents print 2^32; hardware tests
/// published with tinygrad show this, and only this gives right quotients.
unsafe fn fmas32(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut s = [Vreg([0; 64]); 3];
    for (i, source) in s.iter_mut().enumerate() {
        fetch(step, wave, index, Ty::F32, i, source);
    }
    let mut r = Vreg([0; 64]);
    let vcc = wave.vcc();
    let p = Any(wave.mode);
    for lane in 0..64 {
        let [a, b, c] = [s[0].0[lane], s[1].0[lane], s[2].0[lane]];
        r.0[lane] = if vcc >> lane & 1 == 0 {
            fma32(p, a, b, c)
        } else {
            let up = (c >> 23) & 0xff > 127;
            scaled_fma32(p, a, b, c, if up { 64 } else { -64 })
        };
    }
    let exec = wave.exec();
    modify(Ty::F32, step, wave.mode, &mut r);
    store(step, wave, index, Ty::F32, false, &mut r, exec);
    Flow::Next
}

/// `(a · b + c) · 2^n`: the sum rounded to f32 without bounds of the exponent, then scaled and rounded by MODE.
fn scaled_fma32(p: Any, a: u32, b: u32, c: u32, n: i32) -> u32 {
    let sum = fma32(p, a, b, c);
    mul32(p, sum, ((127 + n) as u32) << 23)
}

unsafe fn fmas64(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut s = [[Vreg([0; 64]); 2]; 3];
    for (i, source) in s.iter_mut().enumerate() {
        fetch64(step, wave, index, Ty::F64, i, source);
    }
    let mut r = [Vreg([0; 64]); 2];
    let vcc = wave.vcc();
    let p = Any(wave.mode);
    for lane in 0..64 {
        let [a, b, c] = [0, 1, 2].map(|i: usize| pair(&s[i], lane));
        let sum = fma64(p, a, b, c);
        let up = (c >> 52) & 0x7ff > 1023;
        let factor = if up { 1023 + 128 } else { 1023 - 128u64 };
        let value = if vcc >> lane & 1 == 0 { sum } else { mul64(p, sum, factor << 52) };
        set_pair(&mut r, lane, value);
    }
    let exec = wave.exec();
    modify64(step, wave.mode, &mut r);
    store64(step, wave, index, Ty::F64, &r, exec);
    Flow::Next
}

/// 2/π as a binary fraction: the first 1216 bits, most significant word first (computed by Machin's formula).
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// `v_trig_preop_f64` of one lane: segment `segment` (53 bits) of the first 1201 bits of 2/π, scaled to its place; for large
/// operands the segments start lower, and from 2^945 on results are scaled up by 2^128.
fn trig_segment(x: u64, segment: u32) -> f64 {
    let exponent = ((x >> 52) & 0x7ff) as i32;
    let shift = 53 * (segment & 31) as i32 + (exponent - 1077).max(0);
    // Bits shift..shift+53 after the point; what lies beyond the 1201 bits is 0.
    let bits = (0..53).fold(0u64, |bits, i| {
        let at = shift as usize + i;
        let one = TWO_OVER_PI.get(at / 64).map_or(0, |word| word >> (63 - at % 64) & 1);
        bits << 1 | if at < 1201 { one } else { 0 }
    });
    let scale = -53 - shift + if exponent >= 1968 { 128 } else { 0 };
    // Two factors, since the power of two alone may be too small for a double.
    let power = |n: i32| f64::from_bits(((n + 1023) as u64) << 52);
    bits as f64 * power(scale / 2) * power(scale - scale / 2)
}

unsafe fn trig(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let (mut x, mut segment) = ([Vreg([0; 64]); 2], Vreg([0; 64]));
    fetch64(step, wave, index, Ty::F64, 0, &mut x);
    fetch(step, wave, index, Ty::B32, 1, &mut segment);
    let mut r = [Vreg([0; 64]); 2];
    for lane in 0..64 {
        set_pair(&mut r, lane, trig_segment(pair(&x, lane), segment.0[lane]).to_bits());
    }
    let exec = wave.exec();
    modify64(step, wave.mode, &mut r);
    store64(step, wave, index, Ty::F64, &r, exec);
    Flow::Next
}
