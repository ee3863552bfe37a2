//! Floating-point arithmetic under the MODE register, on bit patterns.
//!
//! Each operation is written once, generic over what is known of MODE: [`Plain`] (round to nearest even, denormals kept,
//! IEEE on, no NaN comes out: the caller looks for NaN and repeats with [`Any`]), [`Nearest`] (any denormal flags) and
//! [`Any`] (everything). The first two become vector code.
//!
//! A NaN result is the first NaN among the operands, quieted, or else [`NAN32`] and its kin: what x86 hosts give for two
//! operands, made independent of the host here.

use super::soft;
use crate::exec::Mode;

/// The NaN of an invalid operation, f32.
pub(super) const NAN32: u32 = 0xffc0_0000;
/// The NaN of an invalid operation, f16.
pub(super) const NAN16: u32 = 0xfe00;
/// The NaN of an invalid operation, f64.
pub(super) const NAN64: u64 = 0xfff8_0000_0000_0000;
const SIGN: u32 = 0x8000_0000;

/// MODE bits that [`Plain`] stands for: rounding, denormals, IEEE and FP16_OVFL.
pub(super) const PLAIN_MASK: u32 = 0xff | 1 << 9 | 1 << 23;
/// Their values.
pub(super) const PLAIN_BITS: u32 = 0xf0 | 1 << 9;

/// What is known of MODE.
pub(super) trait Fp: Copy {
    /// Everything has its usual value and NaN results are looked for afterwards.
    const PLAIN: bool;
    /// Rounding is to nearest even.
    const NEAREST: bool;
    /// MODE.
    fn mode(self) -> Mode;
}

/// The usual MODE.
#[derive(Clone, Copy)]
pub(super) struct Plain;

/// Rounding to nearest even.
#[derive(Clone, Copy)]
pub(super) struct Nearest(pub(super) Mode);

/// Any MODE.
#[derive(Clone, Copy)]
pub(super) struct Any(pub(super) Mode);

impl Fp for Plain {
    const PLAIN: bool = true;
    const NEAREST: bool = true;
    #[inline(always)]
    fn mode(self) -> Mode {
        Mode(PLAIN_BITS | 0x100)
    }
}

impl Fp for Nearest {
    const PLAIN: bool = false;
    const NEAREST: bool = true;
    #[inline(always)]
    fn mode(self) -> Mode {
        self.0
    }
}

impl Fp for Any {
    const PLAIN: bool = false;
    const NEAREST: bool = false;
    #[inline(always)]
    fn mode(self) -> Mode {
        self.0
    }
}

/// Bits as a value.
#[inline(always)]
pub(super) fn f(x: u32) -> f32 {
    f32::from_bits(x)
}

/// Bits as a value.
#[inline(always)]
pub(super) fn d(x: u64) -> f64 {
    f64::from_bits(x)
}

#[inline(always)]
pub(super) fn is_nan32(x: u32) -> bool {
    x & !SIGN > 0x7f80_0000
}

#[inline(always)]
pub(super) fn is_nan16(x: u32) -> bool {
    x & 0x7fff > 0x7c00
}

#[inline(always)]
pub(super) fn is_nan64(x: u64) -> bool {
    x & !(1 << 63) > 0x7ff0_0000_0000_0000
}

#[inline(always)]
pub(super) fn quiet32(x: u32) -> u32 {
    x | 0x0040_0000
}

#[inline(always)]
pub(super) fn quiet64(x: u64) -> u64 {
    x | 0x0008_0000_0000_0000
}

/// An f32 operand as the units see it: denormals flushed when MODE says so.
#[inline(always)]
pub(super) fn in32<P: Fp>(p: P, x: u32) -> u32 {
    if P::PLAIN { x } else { flush32(x, !p.mode().denorm_in_f32()) }
}

/// An f32 result as MODE has it.
#[inline(always)]
pub(super) fn out32<P: Fp>(p: P, x: u32) -> u32 {
    if P::PLAIN { x } else { flush32(x, !p.mode().denorm_out_f32()) }
}

/// Denormals to zeros of their sign.
#[inline(always)]
pub(super) fn flush32(x: u32, flush: bool) -> u32 {
    if flush & (x & 0x7f80_0000 == 0) { x & SIGN } else { x }
}

#[inline(always)]
fn flush16(x: u32, flush: bool) -> u32 {
    if flush & (x & 0x7c00 == 0) { x & 0x8000 } else { x }
}

#[inline(always)]
fn flush64(x: u64, flush: bool) -> u64 {
    if flush & (x & 0x7ff0_0000_0000_0000 == 0) { x & 1 << 63 } else { x }
}

/// An f16 operand (low 16 bits) as the units see it.
#[inline(always)]
pub(super) fn in16<P: Fp>(p: P, x: u32) -> u32 {
    if P::PLAIN { x & 0xffff } else { flush16(x & 0xffff, !p.mode().denorm_in_f16_f64()) }
}

#[inline(always)]
pub(super) fn out16<P: Fp>(p: P, x: u32) -> u32 {
    if P::PLAIN { x } else { flush16(x, !p.mode().denorm_out_f16_f64()) }
}

/// An f64 operand as the units see it.
#[inline(always)]
pub(super) fn in64<P: Fp>(p: P, x: u64) -> u64 {
    if P::PLAIN { x } else { flush64(x, !p.mode().denorm_in_f16_f64()) }
}

#[inline(always)]
pub(super) fn out64<P: Fp>(p: P, x: u64) -> u64 {
    if P::PLAIN { x } else { flush64(x, !p.mode().denorm_out_f16_f64()) }
}

/// The rule for NaN results of f32 operations: `r` unless it is a NaN.
#[inline(always)]
pub(super) fn nan32<P: Fp>(r: u32, s: [u32; 3]) -> u32 {
    if P::PLAIN || !is_nan32(r) {
        return r;
    }
    if is_nan32(s[0]) {
        quiet32(s[0])
    } else if is_nan32(s[1]) {
        quiet32(s[1])
    } else if is_nan32(s[2]) {
        quiet32(s[2])
    } else {
        NAN32
    }
}

/// The same of f16 operations.
#[inline(always)]
pub(super) fn nan16<P: Fp>(r: u32, s: [u32; 3]) -> u32 {
    if P::PLAIN || !is_nan16(r) {
        return r;
    }
    if is_nan16(s[0]) {
        s[0] | 0x200
    } else if is_nan16(s[1]) {
        s[1] | 0x200
    } else if is_nan16(s[2]) {
        s[2] | 0x200
    } else {
        NAN16
    }
}

#[inline(always)]
fn nan64<P: Fp>(r: u64, s: [u64; 3]) -> u64 {
    if P::PLAIN || !is_nan64(r) {
        return r;
    }
    if is_nan64(s[0]) {
        quiet64(s[0])
    } else if is_nan64(s[1]) {
        quiet64(s[1])
    } else if is_nan64(s[2]) {
        quiet64(s[2])
    } else {
        NAN64
    }
}

/// True when MODE rounds f32 otherwise than to nearest even, and all operands are finite: then the sum is done in integers.
#[inline(always)]
fn soft32<P: Fp>(p: P, s: [u32; 3]) -> bool {
    !P::NEAREST && p.mode().round_f32() != 0 && s.iter().all(|&x| x & 0x7f80_0000 != 0x7f80_0000)
}

#[inline(always)]
fn soft64<P: Fp>(p: P, s: [u64; 3]) -> bool {
    let infinity = 0x7ff0_0000_0000_0000;
    !P::NEAREST && p.mode().round_f16_f64() != 0 && s.iter().all(|&x| x & infinity != infinity)
}

#[inline(never)]
fn soft_fma32(a: u32, b: u32, c: u32, round: u32) -> u32 {
    soft::fma(f64::from(f(a)), f64::from(f(b)), f64::from(f(c)), soft::F32, round) as u32
}

#[inline(never)]
fn soft_fma64(a: u64, b: u64, c: u64, round: u32) -> u64 {
    soft::fma(d(a), d(b), d(c), soft::F64, round)
}

/// Minus zero: the addend that leaves a product as it is.
fn negative_zero(negative: bool) -> u32 {
    if negative { SIGN } else { 0 }
}

/// f32 `a + b`.
#[inline(always)]
pub(super) fn add32<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    let (a, b) = (in32(p, a), in32(p, b));
    let r = if soft32(p, [a, b, 0]) {
        soft_fma32(a, 0x3f80_0000, b, p.mode().round_f32())
    } else {
        (f(a) + f(b)).to_bits()
    };
    out32(p, nan32::<P>(r, [a, b, 0]))
}

/// f32 `a - b`.
#[inline(always)]
pub(super) fn sub32<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    let (a, b) = (in32(p, a), in32(p, b));
    let r = if soft32(p, [a, b, 0]) {
        soft_fma32(a, 0x3f80_0000, b ^ SIGN, p.mode().round_f32())
    } else {
        (f(a) - f(b)).to_bits()
    };
    out32(p, nan32::<P>(r, [a, b, 0]))
}

/// f32 `a · b`.
#[inline(always)]
pub(super) fn mul32<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    let (a, b) = (in32(p, a), in32(p, b));
    let r = if soft32(p, [a, b, 0]) {
        soft_fma32(a, b, negative_zero((a ^ b) & SIGN != 0), p.mode().round_f32())
    } else {
        (f(a) * f(b)).to_bits()
    };
    out32(p, nan32::<P>(r, [a, b, 0]))
}

/// f32 `a · b + c`, rounded once.
#[inline(always)]
pub(super) fn fma32<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (in32(p, a), in32(p, b), in32(p, c));
    let r = if soft32(p, [a, b, c]) {
        soft_fma32(a, b, c, p.mode().round_f32())
    } else {
        f(a).mul_add(f(b), f(c)).to_bits()
    };
    out32(p, nan32::<P>(r, [a, b, c]))
}

/// f32 `a · b + c` with the product rounded and denormals flushed throughout (`v_mad_f32`, `v_mac_f32`).
#[inline(always)]
pub(super) fn mad32<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (flush32(a, true), flush32(b, true), flush32(c, true));
    let product = flush32(mul32(p, a, b), true);
    let r = add32(p, product, c);
    flush32(nan32::<P>(r, [a, b, c]), true)
}

/// f64 `a + b`.
#[inline(always)]
pub(super) fn add64<P: Fp>(p: P, a: u64, b: u64) -> u64 {
    let (a, b) = (in64(p, a), in64(p, b));
    let r = if soft64(p, [a, b, 0]) {
        soft_fma64(a, 1f64.to_bits(), b, p.mode().round_f16_f64())
    } else {
        (d(a) + d(b)).to_bits()
    };
    out64(p, nan64::<P>(r, [a, b, 0]))
}

/// f64 `a · b`.
#[inline(always)]
pub(super) fn mul64<P: Fp>(p: P, a: u64, b: u64) -> u64 {
    let (a, b) = (in64(p, a), in64(p, b));
    let r = if soft64(p, [a, b, 0]) {
        soft_fma64(a, b, (a ^ b) & 1 << 63, p.mode().round_f16_f64())
    } else {
        (d(a) * d(b)).to_bits()
    };
    out64(p, nan64::<P>(r, [a, b, 0]))
}

/// f64 `a · b + c`, rounded once.
#[inline(always)]
pub(super) fn fma64<P: Fp>(p: P, a: u64, b: u64, c: u64) -> u64 {
    let (a, b, c) = (in64(p, a), in64(p, b), in64(p, c));
    let r = if soft64(p, [a, b, c]) {
        soft_fma64(a, b, c, p.mode().round_f16_f64())
    } else {
        d(a).mul_add(d(b), d(c)).to_bits()
    };
    out64(p, nan64::<P>(r, [a, b, c]))
}

/// An f16 (low 16 bits) as f32 bits: exact, NaN payloads kept.
#[inline(always)]
pub(super) fn widen16(h: u32) -> u32 {
    let magnitude = (h & 0x7fff) << 13;
    // A half's bits in place are the value times 2^-112, for denormals too.
    let scaled = (f(magnitude) * f(0x7780_0000)).to_bits();
    let wide = if magnitude >= 0x0f80_0000 { magnitude | 0x7f80_0000 } else { scaled };
    wide | (h & 0x8000) << 16
}

/// f32 bits as f16, to nearest even; denormals kept; NaN quieted with the payload's top bits.
#[inline(always)]
pub(super) fn narrow16(x: u32) -> u32 {
    let magnitude = x & !SIGN;
    // Halves below 2^-14 are multiples of 2^-24: what 0.5 can just hold, so that this addition rounds.
    let denormal = (f(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let normal = magnitude.wrapping_sub(0x3800_0000).wrapping_add(0xfff + ((magnitude >> 13) & 1)) >> 13;
    let normal = if magnitude >= 0x4780_0000 { 0x7c00 } else { normal };
    let finite = if magnitude < 0x3880_0000 { denormal } else { normal };
    let nan = 0x7e00 | ((magnitude >> 13) & 0x1ff);
    let r = if magnitude > 0x7f80_0000 { nan } else { finite };
    r | (x >> 16) & 0x8000
}

/// f32 bits as f16 under a rounding mode.
#[inline(always)]
pub(super) fn narrow16_mode(x: u32, round: u32) -> u32 {
    if round == 0 || x & 0x7f80_0000 == 0x7f80_0000 {
        narrow16(x)
    } else {
        soft::round_f64(f64::from(f(x)), soft::F16, round) as u32
    }
}

/// An f32 value that is exact, or rounded to odd, as the f16 result of an operation.
#[inline(always)]
pub(super) fn finish16<P: Fp>(p: P, x: u32, s: [u32; 3]) -> u32 {
    let mut r = if P::NEAREST { narrow16(x) } else { narrow16_mode(x, p.mode().round_f16_f64()) };
    if !P::PLAIN {
        r = nan16::<P>(r, s);
        let infinite = s.iter().any(|&v| v & 0x7fff >= 0x7c00);
        if p.mode().fp16_ovfl() && r & 0x7fff == 0x7c00 && !infinite {
            r -= 1;
        }
    }
    out16(p, r)
}

/// f16 `a + b`. The f32 sum may round, but so finely that the f16 result is the one of a single rounding to nearest; the
/// directed modes take the exact way.
#[inline(always)]
pub(super) fn add16<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    fma16(p, a, 0x3c00, b)
}

/// f16 `a - b`.
#[inline(always)]
pub(super) fn sub16<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    let r = fma16(p, a, 0x3c00, b ^ 0x8000);
    // The subtrahend's NaN keeps its own sign.
    if P::PLAIN { r } else { nan16::<P>(r, [a & 0xffff, b & 0xffff, 0]) }
}

/// f16 `a · b`: the f32 product is exact.
#[inline(always)]
pub(super) fn mul16<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    let (a, b) = (in16(p, a), in16(p, b));
    let product = f(widen16(a)) * f(widen16(b));
    finish16(p, product.to_bits(), [a, b, 0])
}

/// f32 `p + c` rounded to odd: a further rounding to fewer bits then is as if the sum had been exact.
#[inline(always)]
fn add_to_odd(p: f32, c: f32) -> u32 {
    let sum = p + c;
    let part = sum - p;
    let error = (p - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    let toward = if (error > 0.0) == (sum > 0.0) { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    // Infinite sums give a NaN error, which is not unequal in the ordered sense used here.
    let inexact = (error > 0.0) | (error < 0.0);
    if inexact & (bits & 1 == 0) { toward } else { bits }
}

/// f16 `a · b + c`, rounded once.
#[inline(always)]
pub(super) fn fma16<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (in16(p, a), in16(p, b), in16(p, c));
    let product = f(widen16(a)) * f(widen16(b));
    let addend = f(widen16(c));
    let sum = add_to_odd(product, addend);
    let sum = if !P::NEAREST && p.mode().round_f16_f64() == 2 && product == -addend && product + addend == 0.0 {
        // An exact zero sum is negative when rounding down, unless both terms are positive zeros.
        if product.to_bits() == 0 && addend.to_bits() == 0 { 0 } else { SIGN }
    } else {
        sum
    };
    finish16(p, sum, [a, b, c])
}

/// f16 `a · b + c` with the product rounded and denormals flushed (`v_mad_f16`, `v_mac_f16`).
#[inline(always)]
pub(super) fn mad16<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (flush16(a & 0xffff, true), flush16(b & 0xffff, true), flush16(c & 0xffff, true));
    let r = add16(p, flush16(mul16(p, a, b), true), c);
    flush16(nan16::<P>(r, [a, b, c]), true)
}

/// An f32 result given as an f64 that is exact, under the f32 rounding mode.
#[inline(always)]
pub(super) fn round_to32<P: Fp>(p: P, x: f64) -> u32 {
    if !P::NEAREST && p.mode().round_f32() != 0 && x.is_finite() {
        soft::round_f64(x, soft::F32, p.mode().round_f32()) as u32
    } else {
        (x as f32).to_bits()
    }
}

/// f32 minimum: IEEE-754 2008 minNum with the order -0 < +0; a signalling NaN is quieted and wins when IEEE is on.
#[inline(always)]
pub(super) fn min32<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    select32(p, a, b, false)
}

/// f32 maximum.
#[inline(always)]
pub(super) fn max32<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    select32(p, a, b, true)
}

/// A key whose order as an integer is the order of the numbers, with -0 below +0.
#[inline(always)]
fn order32(x: u32) -> i32 {
    let x = x as i32;
    x ^ ((x >> 31) as u32 >> 1) as i32
}

#[inline(always)]
fn order16(x: u32) -> i32 {
    let x = i32::from(x as u16 as i16);
    x ^ ((x >> 31) & 0x7fff)
}

#[inline(always)]
fn select32<P: Fp>(p: P, a: u32, b: u32, max: bool) -> u32 {
    let (a, b) = (in32(p, a), in32(p, b));
    let first = if max { order32(a) >= order32(b) } else { order32(a) < order32(b) };
    let number = if first { a } else { b };
    let (nan_a, nan_b) = (is_nan32(a), is_nan32(b));
    let r = if nan_b & !nan_a { a } else { number };
    let r = if nan_a { b } else { r };
    let r = if p.mode().ieee() {
        let signals = |x: u32| is_nan32(x) & (x & 0x0040_0000 == 0);
        let r = if signals(b) { quiet32(b) } else { r };
        if signals(a) { quiet32(a) } else { r }
    } else {
        r
    };
    out32(p, r)
}

/// f16 minimum.
#[inline(always)]
pub(super) fn min16<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    select16(p, a, b, false)
}

/// f16 maximum.
#[inline(always)]
pub(super) fn max16<P: Fp>(p: P, a: u32, b: u32) -> u32 {
    select16(p, a, b, true)
}

#[inline(always)]
fn select16<P: Fp>(p: P, a: u32, b: u32, max: bool) -> u32 {
    let (a, b) = (in16(p, a), in16(p, b));
    let first = if max { order16(a) >= order16(b) } else { order16(a) < order16(b) };
    let number = if first { a } else { b };
    let (nan_a, nan_b) = (is_nan16(a), is_nan16(b));
    let r = if nan_b & !nan_a { a } else { number };
    let r = if nan_a { b } else { r };
    let r = if p.mode().ieee() {
        let signals = |x: u32| is_nan16(x) & (x & 0x200 == 0);
        let r = if signals(b) { b | 0x200 } else { r };
        if signals(a) { a | 0x200 } else { r }
    } else {
        r
    };
    out16(p, r)
}

/// f64 minimum or maximum.
#[inline(always)]
pub(super) fn select64<P: Fp>(p: P, a: u64, b: u64, max: bool) -> u64 {
    let (a, b) = (in64(p, a), in64(p, b));
    let order = |x: u64| {
        let x = x as i64;
        x ^ ((x >> 63) as u64 >> 1) as i64
    };
    let first = if max { order(a) >= order(b) } else { order(a) < order(b) };
    let number = if first { a } else { b };
    let (nan_a, nan_b) = (is_nan64(a), is_nan64(b));
    let r = if nan_b & !nan_a { a } else { number };
    let r = if nan_a { b } else { r };
    let r = if p.mode().ieee() {
        let signals = |x: u64| is_nan64(x) & (x & 0x0008_0000_0000_0000 == 0);
        let r = if signals(b) { quiet64(b) } else { r };
        if signals(a) { quiet64(a) } else { r }
    } else {
        r
    };
    out64(p, r)
}

/// f32 median of three: a NaN among them gives `min3`.
#[inline(always)]
pub(super) fn med32<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32 {
    let low = min32(p, a, b);
    let high = max32(p, a, b);
    let median = max32(p, low, min32(p, high, c));
    if is_nan32(a) | is_nan32(b) | is_nan32(c) { min32(p, low, c) } else { median }
}

/// f16 median of three.
#[inline(always)]
pub(super) fn med16<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32 {
    let low = min16(p, a, b);
    let high = max16(p, a, b);
    let median = max16(p, low, min16(p, high, c));
    if is_nan16(a) | is_nan16(b) | is_nan16(c) { min16(p, low, c) } else { median }
}

/// IEEE-754 2019 minimum/maximum of f32: a NaN operand makes a NaN (gfx950 `v_minimum3_f32`).
#[inline(always)]
pub(super) fn propagate32<P: Fp>(p: P, a: u32, b: u32, max: bool) -> u32 {
    if is_nan32(a) {
        quiet32(a)
    } else if is_nan32(b) {
        quiet32(b)
    } else {
        select32(p, a, b, max)
    }
}

/// The same of f16.
#[inline(always)]
pub(super) fn propagate16<P: Fp>(p: P, a: u32, b: u32, max: bool) -> u32 {
    let (a, b) = (a & 0xffff, b & 0xffff);
    if is_nan16(a) {
        a | 0x200
    } else if is_nan16(b) {
        b | 0x200
    } else {
        select16(p, a, b, max)
    }
}
