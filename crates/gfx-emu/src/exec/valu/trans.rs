//! Transcendental functions.
//!
//! f32 and f16: computed in f64 to about 2^-40, then rounded to nearest; the hardware promises one unit in the last place.
//! f32 flushes denormal operands and results whatever MODE says, as the hardware does. f64 reciprocal and roots are
//! correctly rounded (the hardware gives about 24 good bits, which compilers refine).

use super::fp::*;
use super::lane::{exact_or_zero, flag, has_exact, lanes32, lanes64, types};

/// Adding it to a double of moderate size rounds that to an integer, which is then in the low bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// 2^x by a polynomial around the nearest integer: relative error below 2^-42.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    let x = if x > 200.0 { 200.0 } else { x };
    let x = if x < -200.0 { -200.0 } else { x };
    let shifted = x + ROUNDER;
    let r = x - (shifted - ROUNDER);
    // ln(2)^k / k!
    let p = 7.054_911_620_801_121e-9;
    let p = r.mul_add(p, 1.017_808_600_923_97e-7);
    let p = r.mul_add(p, 1.321_548_679_014_431e-6);
    let p = r.mul_add(p, 1.525_273_380_405_984e-5);
    let p = r.mul_add(p, 1.540_353_039_338_161e-4);
    let p = r.mul_add(p, 1.333_355_814_642_844_3e-3);
    let p = r.mul_add(p, 9.618_129_107_628_477e-3);
    let p = r.mul_add(p, 5.550_410_866_482_158e-2);
    let p = r.mul_add(p, 2.402_265_069_591_007e-1);
    let p = r.mul_add(p, std::f64::consts::LN_2);
    let p = r.mul_add(p, 1.0);
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    p * scale
}

/// log2 of a positive, finite f32 that is no denormal: relative error below 2^-45.
#[inline(always)]
fn log2(x: u32) -> f64 {
    let exponent = ((x >> 23) & 0xff) as i32 - 127;
    let significand = f64::from(f(x & 0x007f_ffff | 0x3f80_0000));
    let big = significand > std::f64::consts::SQRT_2;
    let m = if big { significand * 0.5 } else { significand };
    let e = f64::from(exponent + i32::from(big));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    // 2 / ln(2) / (2k + 1): the series of the inverse hyperbolic tangent.
    let p = 2.885_390_081_777_927 / 19.0;
    let p = z.mul_add(p, 2.885_390_081_777_927 / 17.0);
    let p = z.mul_add(p, 2.885_390_081_777_927 / 15.0);
    let p = z.mul_add(p, 2.885_390_081_777_927 / 13.0);
    let p = z.mul_add(p, 2.885_390_081_777_927 / 11.0);
    let p = z.mul_add(p, 2.885_390_081_777_927 / 9.0);
    let p = z.mul_add(p, 2.885_390_081_777_927 / 7.0);
    let p = z.mul_add(p, 2.885_390_081_777_927 / 5.0);
    let p = z.mul_add(p, 2.885_390_081_777_927 / 3.0);
    let p = z.mul_add(p, 2.885_390_081_777_927);
    s.mul_add(p, e)
}

/// log2 of any f32 whose denormals were flushed.
#[inline(always)]
fn log2_all(x: u32) -> u32 {
    let magnitude = x & 0x7fff_ffff;
    let r = (log2(x) as f32).to_bits();
    let r = if magnitude == 0x7f80_0000 { magnitude } else { r };
    let r = if x >> 31 != 0 { NAN32 } else { r };
    let r = if magnitude == 0 { 0xff80_0000 } else { r };
    if is_nan32(x) { quiet32(x) } else { r }
}

/// The fraction of a turn, in -0.5..=0.5; exact.
#[inline(always)]
fn turn(x: f32) -> f64 {
    let x = f64::from(x);
    let r = x - ((x + ROUNDER) - ROUNDER);
    // From 2^24 on an f32 is a whole number.
    if x.is_infinite() {
        f64::NAN
    } else if x.abs() >= 16_777_216.0 {
        0.0
    } else {
        r
    }
}

/// sin(2πx) for x in -0.5..=0.75.
#[inline(always)]
fn sine(x: f64) -> f64 {
    let x = if x > 0.5 { x - 1.0 } else { x };
    let x = if x > 0.25 { 0.5 - x } else { x };
    let x = if x < -0.25 { -0.5 - x } else { x };
    let t = x * std::f64::consts::TAU;
    let z = t * t;
    // (-1)^k / (2k + 1)!
    let p = 2.811_457_254_345_520_6e-15;
    let p = z.mul_add(p, -7.647_163_731_819_816e-13);
    let p = z.mul_add(p, 1.605_904_383_682_161_3e-10);
    let p = z.mul_add(p, -2.505_210_838_544_172e-8);
    let p = z.mul_add(p, 2.755_731_922_398_589e-6);
    let p = z.mul_add(p, -1.0 / 5040.0);
    let p = z.mul_add(p, 8.333_333_333_333_333e-3);
    let p = z.mul_add(p, -1.0 / 6.0);
    (z * t).mul_add(p, t)
}

/// An f32 operand: denormals always flushed.
#[inline(always)]
fn flush(x: u32) -> u32 {
    flush32(x, true)
}

/// An f32 result of operand `a`.
#[inline(always)]
fn finish<P: Fp>(r: f64, a: u32) -> u32 {
    flush32(nan32::<P>((r as f32).to_bits(), [a, 0, 0]), true)
}

/// The f16 result of a function from f32 to f64.
#[inline(always)]
fn half<P: Fp>(p: P, a: u32, op: impl Fn(u32) -> f64) -> u32 {
    let a = in16(p, a);
    finish16(p, (op(widen16(a)) as f32).to_bits(), [a, 0, 0])
}

/// A root's reciprocal; minus infinity for minus zero.
#[inline(always)]
fn rsq(x: f64) -> f64 {
    if x == 0.0 { 1.0 / x } else { 1.0 / x.sqrt() }
}

lanes32! { single:
    VExpF32(F32) -> F32 [hot] = |p, a| finish::<P>(exp2(f64::from(f(flush(a)))), a);
    VExpLegacyF32(F32) -> F32 = |p, a| finish::<P>(exp2(f64::from(f(flush(a)))), a);
    VLogF32(F32) -> F32 [hot] = |p, a| log2_all(flush(a));
    VLogLegacyF32(F32) -> F32 = |p, a| log2_all(flush(a));
    VRcpF32(F32) -> F32 [hot] = |p, a| flush(nan32::<P>((1.0 / f(flush(a))).to_bits(), [a, 0, 0]));
    VRcpIflagF32(F32) -> F32 = |p, a| flush(nan32::<P>((1.0 / f(flush(a))).to_bits(), [a, 0, 0]));
    VRsqF32(F32) -> F32 [hot] = |p, a| finish::<P>(rsq(f64::from(f(flush(a)))), a);
    VSqrtF32(F32) -> F32 = |p, a| flush(nan32::<P>(f(flush(a)).sqrt().to_bits(), [a, 0, 0]));
    VSinF32(F32) -> F32 = |p, a| finish::<P>(sine(turn(f(flush(a)))), a);
    VCosF32(F32) -> F32 = |p, a| finish::<P>(sine(turn(f(flush(a))) + 0.25), a);
    VExpF16(F16) -> F16 = |p, a| half(p, a, |x| exp2(f64::from(f(x))));
    VLogF16(F16) -> F16 = |p, a| half(p, a, |x| f64::from(f(log2_all(x))));
    VRcpF16(F16) -> F16 = |p, a| half(p, a, |x| 1.0 / f64::from(f(x)));
    VRsqF16(F16) -> F16 = |p, a| half(p, a, |x| rsq(f64::from(f(x))));
    VSqrtF16(F16) -> F16 = |p, a| half(p, a, |x| f64::from(f(x)).sqrt());
    VSinF16(F16) -> F16 = |p, a| half(p, a, |x| sine(turn(f(x))));
    VCosF16(F16) -> F16 = |p, a| half(p, a, |x| sine(turn(f(x)) + 0.25));
}

lanes64! { double:
    VRcpF64(F64) -> F64 = |p, a| unary64(p, a, |x| 1.0 / x);
    VRsqF64(F64) -> F64 = |p, a| unary64(p, a, rsq);
    VSqrtF64(F64) -> F64 = |p, a| unary64(p, a, f64::sqrt);
}

#[inline(always)]
fn unary64<P: Fp>(p: P, a: u64, op: impl Fn(f64) -> f64) -> u64 {
    let a = in64(p, a);
    let r = op(d(a)).to_bits();
    let r = if is_nan64(r) { NAN64 } else { r };
    out64(p, if is_nan64(a) { quiet64(a) } else { r })
}
