//! Arithmetic of f32, f16 and f64.

use super::fp::*;
use super::lane::{exact_or_zero, flag, has_exact, lanes32, lanes64, types};

/// The f32 result of a function that is exact in f32 (rounding to an integer, a part of the number).
#[inline(always)]
fn exact32<P: Fp>(p: P, a: u32, op: impl Fn(f32) -> f32) -> u32 {
    let a = in32(p, a);
    out32(p, nan32::<P>(op(f(a)).to_bits(), [a, 0, 0]))
}

/// The f16 result of a function of an f16 that is exact in f16.
#[inline(always)]
fn exact16<P: Fp>(p: P, a: u32, op: impl Fn(f32) -> f32) -> u32 {
    let a = in16(p, a);
    let r = nan16::<P>(narrow16(op(f(widen16(a))).to_bits()), [a, 0, 0]);
    // Multiplying by one changes nothing but puts the result under MODE.
    mul16(p, r, 0x3c00)
}

#[inline(always)]
fn exact64<P: Fp>(p: P, a: u64, op: impl Fn(f64) -> f64) -> u64 {
    let a = in64(p, a);
    let r = op(d(a)).to_bits();
    out64(p, if is_nan64(a) { quiet64(a) } else { r })
}

/// `x - floor(x)`, below one: the largest f32 below one where the difference rounds up.
#[inline(always)]
fn fract32(x: f32) -> f32 {
    let r = x - x.floor();
    if r >= 1.0 { 1.0 - f32::EPSILON / 2.0 } else { r }
}

#[inline(always)]
fn fract16(x: f32) -> f32 {
    let r = x - x.floor();
    // The largest half below one: what lies above in f32 might round to one. A NaN is no more than it, and stays.
    let largest = 1.0 - 1.0 / 2048.0;
    if r > largest { largest } else { r }
}

#[inline(always)]
fn fract64(x: f64) -> f64 {
    let r = x - x.floor();
    if r >= 1.0 { 1.0 - f64::EPSILON / 2.0 } else { r }
}

/// Exponent such that `x = m · 2^e` with m in 0.5..1; 0 for zeros, infinities and NaN.
fn frexp_exponent(x: f64) -> i32 {
    let field = (x.to_bits() >> 52) & 0x7ff;
    match field {
        0 if x == 0.0 => 0,
        0 => frexp_exponent(x * (1u64 << 54) as f64) - 54,
        0x7ff => 0,
        _ => field as i32 - 1022,
    }
}

fn frexp_mantissa(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let x = if x.is_subnormal() { x * (1u64 << 54) as f64 } else { x };
    f64::from_bits(x.to_bits() & 0x800f_ffff_ffff_ffff | 0x3fe0_0000_0000_0000)
}

/// 2^n as f64, exact for -1074..=1023.
fn power(n: i32) -> f64 {
    if n < -1022 { f64::from_bits(1 << (n + 1074)) } else { f64::from_bits(((n + 1023) as u64) << 52) }
}

#[inline(always)]
fn ldexp32<P: Fp>(p: P, a: u32, n: u32) -> u32 {
    let a = in32(p, a);
    let r = round_to32(p, f64::from(f(a)) * power((n as i32).clamp(-400, 400)));
    out32(p, nan32::<P>(r, [a, 0, 0]))
}

/// `x · 2^n`, rounded once.
fn ldexp64<P: Fp>(p: P, a: u64, n: i32) -> u64 {
    let a = in64(p, a);
    if is_nan64(a) {
        return quiet64(a);
    }
    let n = n.clamp(-4000, 4000);
    let x = d(a);
    if x == 0.0 || x.is_infinite() {
        return a;
    }
    let significand = frexp_mantissa(x);
    let exponent = frexp_exponent(x) + n;
    let magnitude = (significand.abs() * power(53)) as u128;
    let round = if P::NEAREST { 0 } else { p.mode().round_f16_f64() };
    out64(p, super::soft::round(x < 0.0, magnitude, exponent - 53, super::soft::F64, round))
}

/// `v_mul_legacy_f32`: zero times anything is zero.
#[inline(always)]
fn zero_wins(a: u32, b: u32) -> bool {
    (a & 0x7fff_ffff == 0) | (b & 0x7fff_ffff == 0)
}

/// Puts a division's result right where the iteration cannot give it: `q` the quotient, `a / b`.
fn fixup32(q: u32, b: u32, a: u32) -> u32 {
    let sign = (a ^ b) & 0x8000_0000;
    let (magnitude_a, magnitude_b) = (a & 0x7fff_ffff, b & 0x7fff_ffff);
    let infinity = 0x7f80_0000;
    let exponent = |x: u32| ((x >> 23) & 0xff) as i32;
    if is_nan32(a) {
        quiet32(a)
    } else if is_nan32(b) {
        quiet32(b)
    } else if (magnitude_a == 0 && magnitude_b == 0) || (magnitude_a == infinity && magnitude_b == infinity) {
        NAN32
    } else if magnitude_b == 0 || magnitude_a == infinity {
        sign | infinity
    } else if magnitude_b == infinity || magnitude_a == 0 || exponent(a) - exponent(b) < -150 {
        sign
    } else if is_nan32(q) {
        // The iteration overflowed; hardware tests published with tinygrad show infinity here, the documents nothing.
        sign | infinity
    } else {
        sign | q & 0x7fff_ffff
    }
}

fn fixup64(q: u64, b: u64, a: u64) -> u64 {
    let top = 1u64 << 63;
    let sign = (a ^ b) & top;
    let (magnitude_a, magnitude_b) = (a & !top, b & !top);
    let infinity = 0x7ff0_0000_0000_0000;
    let exponent = |x: u64| ((x >> 52) & 0x7ff) as i32;
    if is_nan64(a) {
        quiet64(a)
    } else if is_nan64(b) {
        quiet64(b)
    } else if (magnitude_a == 0 && magnitude_b == 0) || (magnitude_a == infinity && magnitude_b == infinity) {
        NAN64
    } else if magnitude_b == 0 || magnitude_a == infinity {
        sign | infinity
    } else if magnitude_b == infinity || magnitude_a == 0 || exponent(a) - exponent(b) < -1075 {
        sign
    } else if is_nan64(q) {
        sign | infinity
    } else {
        sign | q & !top
    }
}

fn fixup16(q: u32, b: u32, a: u32) -> u32 {
    let (q, b, a) = (q & 0xffff, b & 0xffff, a & 0xffff);
    let sign = (a ^ b) & 0x8000;
    let (magnitude_a, magnitude_b) = (a & 0x7fff, b & 0x7fff);
    if is_nan16(a) {
        a | 0x200
    } else if is_nan16(b) {
        b | 0x200
    } else if (magnitude_a == 0 && magnitude_b == 0) || (magnitude_a == 0x7c00 && magnitude_b == 0x7c00) {
        NAN16
    } else if magnitude_b == 0 || magnitude_a == 0x7c00 {
        sign | 0x7c00
    } else if magnitude_b == 0x7c00 || magnitude_a == 0 {
        sign
    } else {
        sign | q & 0x7fff
    }
}

/// The major axis of a cube map direction: 0 x, 1 y, 2 z.
#[inline(always)]
fn major(x: f32, y: f32, z: f32) -> u32 {
    if z.abs() >= x.abs() && z.abs() >= y.abs() {
        2
    } else if y.abs() >= x.abs() {
        1
    } else {
        0
    }
}

#[inline(always)]
fn negate(x: u32) -> u32 {
    x ^ 0x8000_0000
}

/// Both halves of packed halves. `op` is a function and no closure: those called twice are not inlined, and the loop over the
/// lanes then is no vector code.
#[inline(always)]
fn both<P: Fp>(p: P, s: [u32; 3], op: impl Fn(P, u32, u32, u32) -> u32) -> u32 {
    let [a, b, c] = s;
    op(p, a & 0xffff, b & 0xffff, c & 0xffff) | op(p, a >> 16, b >> 16, c >> 16) << 16
}

#[inline(always)]
fn pk_add<P: Fp>(p: P, a: u32, b: u32, _: u32) -> u32 {
    add16(p, a, b)
}

#[inline(always)]
fn pk_mul<P: Fp>(p: P, a: u32, b: u32, _: u32) -> u32 {
    mul16(p, a, b)
}

#[inline(always)]
fn pk_min<P: Fp>(p: P, a: u32, b: u32, _: u32) -> u32 {
    min16(p, a, b)
}

#[inline(always)]
fn pk_max<P: Fp>(p: P, a: u32, b: u32, _: u32) -> u32 {
    max16(p, a, b)
}

#[inline(always)]
fn pk_minimum3<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32 {
    propagate16(p, propagate16(p, a, b, false), c, false)
}

#[inline(always)]
fn pk_maximum3<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32 {
    propagate16(p, propagate16(p, a, b, true), c, true)
}

/// A dot product of two pairs: products and sums one after another in f32, denormals flushed, nearest even.
#[inline(always)]
fn dot2(a: [u32; 2], b: [u32; 2], c: u32, c_first: bool) -> u32 {
    let flush = |x: u32| flush32(x, true);
    let product = |i: usize| flush((f(flush(a[i])) * f(flush(b[i]))).to_bits());
    let add = |x: u32, y: u32| flush((f(x) + f(y)).to_bits());
    let c = flush(c);
    let r = if c_first { add(add(c, product(0)), product(1)) } else { add(add(product(0), product(1)), c) };
    if is_nan32(r) {
        nan32::<Any>(
            r,
            [
                a[0],
                b[0],
                if is_nan32(a[1]) {
                    a[1]
                } else if is_nan32(b[1]) {
                    b[1]
                } else {
                    c
                },
            ],
        )
    } else {
        r
    }
}

/// f16 pairs as f32, denormal halves flushed.
#[inline(always)]
fn halves(x: u32) -> [u32; 2] {
    let one = |h: u32| widen16(if h & 0x7c00 == 0 { h & 0x8000 } else { h });
    [one(x & 0xffff), one(x >> 16)]
}

/// bf16 pairs as f32.
#[inline(always)]
fn brains(x: u32) -> [u32; 2] {
    [x << 16, x & 0xffff_0000]
}

lanes32! { single:
    VAddF32(F32, F32) -> F32 [hot] = |p, a, b| add32(p, a, b);
    VSubF32(F32, F32) -> F32 [hot] = |p, a, b| sub32(p, a, b);
    VSubrevF32(F32, F32) -> F32 [hot] = |p, a, b| sub32(p, b, a);
    VMulF32(F32, F32) -> F32 [hot] = |p, a, b| mul32(p, a, b);
    VMulLegacyF32(F32, F32) -> F32 = |p, a, b| if zero_wins(in32(p, a), in32(p, b)) { 0 } else { mul32(p, a, b) };
    VMinF32(F32, F32) -> F32 [hot] = |p, a, b| min32(p, a, b);
    VMaxF32(F32, F32) -> F32 [hot] = |p, a, b| max32(p, a, b);
    VFmaF32(F32, F32, F32) -> F32 [hot] = |p, a, b, c| fma32(p, a, b, c);
    VFmacF32(F32, F32, F32) -> F32 [acc, hot] = |p, a, b, c| fma32(p, a, b, c);
    VFmamkF32(F32, F32, F32) -> F32 [hot] = |p, a, b, c| fma32(p, a, b, c);
    VFmaakF32(F32, F32, F32) -> F32 [hot] = |p, a, b, c| fma32(p, a, b, c);
    VMadF32(F32, F32, F32) -> F32 = |p, a, b, c| mad32(p, a, b, c);
    VMacF32(F32, F32, F32) -> F32 [acc] = |p, a, b, c| mad32(p, a, b, c);
    VMadmkF32(F32, F32, F32) -> F32 = |p, a, b, c| mad32(p, a, b, c);
    VMadakF32(F32, F32, F32) -> F32 = |p, a, b, c| mad32(p, a, b, c);
    VMadLegacyF32(F32, F32, F32) -> F32 = |p, a, b, c| {
        if zero_wins(flush32(a, true), flush32(b, true)) { add32(p, 0, flush32(c, true)) } else { mad32(p, a, b, c) }
    };
    VMin3F32(F32, F32, F32) -> F32 = |p, a, b, c| min32(p, min32(p, a, b), c);
    VMax3F32(F32, F32, F32) -> F32 [hot] = |p, a, b, c| max32(p, max32(p, a, b), c);
    VMed3F32(F32, F32, F32) -> F32 [hot] = |p, a, b, c| med32(p, a, b, c);
    VMinimum3F32(F32, F32, F32) -> F32 = |p, a, b, c| propagate32(p, propagate32(p, a, b, false), c, false);
    VMaximum3F32(F32, F32, F32) -> F32 = |p, a, b, c| propagate32(p, propagate32(p, a, b, true), c, true);
    VDivFixupF32(F32, F32, F32) -> F32 = |p, a, b, c| out32(p, fixup32(a, in32(p, b), in32(p, c)));
    VLdexpF32(F32, I32) -> F32 [hot] = |p, a, b| ldexp32(p, a, b);
    VFractF32(F32) -> F32 = |p, a| exact32(p, a, fract32);
    VTruncF32(F32) -> F32 = |p, a| exact32(p, a, f32::trunc);
    VCeilF32(F32) -> F32 = |p, a| exact32(p, a, f32::ceil);
    VRndneF32(F32) -> F32 [hot] = |p, a| exact32(p, a, f32::round_ties_even);
    VFloorF32(F32) -> F32 [hot] = |p, a| exact32(p, a, f32::floor);
    VFrexpExpI32F32(F32) -> B32 = |p, a| frexp_exponent(f64::from(f(in32(p, a)))) as u32;
    VFrexpMantF32(F32) -> F32 = |p, a| exact32(p, a, |x| frexp_mantissa(f64::from(x)) as f32);
    VCubeidF32(F32, F32, F32) -> F32 = |p, a, b, c| {
        let axis = major(f(a), f(b), f(c));
        let negative = f([a, b, c][axis as usize]) < 0.0;
        ((2 * axis + u32::from(negative)) as f32).to_bits()
    };
    VCubescF32(F32, F32, F32) -> F32 = |p, a, b, c| match major(f(a), f(b), f(c)) {
        2 => if f(c) < 0.0 { negate(a) } else { a },
        1 => a,
        _ => if f(a) < 0.0 { c } else { negate(c) },
    };
    VCubetcF32(F32, F32, F32) -> F32 = |p, a, b, c| match major(f(a), f(b), f(c)) {
        1 => if f(b) < 0.0 { negate(c) } else { c },
        _ => negate(b),
    };
    VCubemaF32(F32, F32, F32) -> F32 = |p, a, b, c| {
        let axis = major(f(a), f(b), f(c));
        mul32(p, [a, b, c][axis as usize], 0x4000_0000)
    };
    VDot2F32F16(PF16, PF16, F32) -> F32 [hot] = |p, a, b, c| dot2(halves(a), halves(b), c, true);
    VDot2F32Bf16(PF16, PF16, F32) -> F32 = |p, a, b, c| dot2(brains(a), brains(b), c, false);
    VDot2cF32F16(B32, B32, F32) -> F32 [acc] = |p, a, b, c| dot2(halves(a), halves(b), c, true);
    VDot2cF32Bf16(B32, B32, F32) -> F32 [acc] = |p, a, b, c| dot2(brains(a), brains(b), c, true);
}

lanes32! { half:
    VAddF16(F16, F16) -> F16 = |p, a, b| add16(p, a, b);
    VSubF16(F16, F16) -> F16 = |p, a, b| sub16(p, a, b);
    VSubrevF16(F16, F16) -> F16 = |p, a, b| sub16(p, b, a);
    VMulF16(F16, F16) -> F16 = |p, a, b| mul16(p, a, b);
    VMinF16(F16, F16) -> F16 = |p, a, b| min16(p, a, b);
    VMaxF16(F16, F16) -> F16 = |p, a, b| max16(p, a, b);
    VMacF16(F16, F16, F16) -> F16 [keep, acc] = |p, a, b, c| mad16(p, a, b, c);
    VMadmkF16(F16, F16, F16) -> F16 [keep] = |p, a, b, c| mad16(p, a, b, c);
    VMadakF16(F16, F16, F16) -> F16 [keep] = |p, a, b, c| mad16(p, a, b, c);
    VMadF16(F16, F16, F16) -> F16 [keep] = |p, a, b, c| mad16(p, a, b, c);
    VMadLegacyF16(F16, F16, F16) -> F16 = |p, a, b, c| mad16(p, a, b, c);
    VFmaF16(F16, F16, F16) -> F16 [keep] = |p, a, b, c| fma16(p, a, b, c);
    VFmaLegacyF16(F16, F16, F16) -> F16 = |p, a, b, c| fma16(p, a, b, c);
    VDivFixupF16(F16, F16, F16) -> F16 [keep] = |p, a, b, c| fixup16(a, in16(p, b), in16(p, c));
    VDivFixupLegacyF16(F16, F16, F16) -> F16 = |p, a, b, c| fixup16(a, in16(p, b), in16(p, c));
    VMin3F16(F16, F16, F16) -> F16 [keep] = |p, a, b, c| min16(p, min16(p, a, b), c);
    VMax3F16(F16, F16, F16) -> F16 [keep] = |p, a, b, c| max16(p, max16(p, a, b), c);
    VMed3F16(F16, F16, F16) -> F16 [keep] = |p, a, b, c| med16(p, a, b, c);
    VLdexpF16(F16, I16) -> F16 = |p, a, b| {
        let n = i32::from(b as u16 as i16).clamp(-60, 60);
        let a = in16(p, a);
        finish16(p, ((f64::from(f(widen16(a))) * power(n)) as f32).to_bits(), [a, 0, 0])
    };
    VFloorF16(F16) -> F16 = |p, a| exact16(p, a, f32::floor);
    VCeilF16(F16) -> F16 = |p, a| exact16(p, a, f32::ceil);
    VTruncF16(F16) -> F16 = |p, a| exact16(p, a, f32::trunc);
    VRndneF16(F16) -> F16 = |p, a| exact16(p, a, f32::round_ties_even);
    VFractF16(F16) -> F16 = |p, a| exact16(p, a, fract16);
    VFrexpMantF16(F16) -> F16 = |p, a| exact16(p, a, |x| frexp_mantissa(f64::from(x)) as f32);
    VFrexpExpI16F16(F16) -> I16 = |p, a| (frexp_exponent(f64::from(f(widen16(in16(p, a))))) as u32) & 0xffff;
    VPkFmaF16(PF16, PF16, PF16) -> PF16 [hot] = |p, a, b, c| both(p, [a, b, c], fma16);
    VPkFmacF16(PF16, PF16, PF16) -> PF16 [acc] = |p, a, b, c| both(p, [a, b, c], fma16);
    VPkAddF16(PF16, PF16) -> PF16 [hot] = |p, a, b| both(p, [a, b, 0], pk_add);
    VPkMulF16(PF16, PF16) -> PF16 [hot] = |p, a, b| both(p, [a, b, 0], pk_mul);
    VPkMinF16(PF16, PF16) -> PF16 [hot] = |p, a, b| both(p, [a, b, 0], pk_min);
    VPkMaxF16(PF16, PF16) -> PF16 [hot] = |p, a, b| both(p, [a, b, 0], pk_max);
    VPkMinimum3F16(PF16, PF16, PF16) -> PF16 = |p, a, b, c| both(p, [a, b, c], pk_minimum3);
    VPkMaximum3F16(PF16, PF16, PF16) -> PF16 = |p, a, b, c| both(p, [a, b, c], pk_maximum3);
    VPackB32F16(F16, F16) -> B32 = |p, a, b| in16(p, a) | in16(p, b) << 16;
}

lanes64! { double:
    VAddF64(F64, F64) -> F64 = |p, a, b| add64(p, a, b);
    VMulF64(F64, F64) -> F64 = |p, a, b| mul64(p, a, b);
    VMinF64(F64, F64) -> F64 = |p, a, b| select64(p, a, b, false);
    VMaxF64(F64, F64) -> F64 = |p, a, b| select64(p, a, b, true);
    VFmaF64(F64, F64, F64) -> F64 = |p, a, b, c| fma64(p, a, b, c);
    VFmacF64(F64, F64, F64) -> F64 [acc] = |p, a, b, c| fma64(p, a, b, c);
    VDivFixupF64(F64, F64, F64) -> F64 = |p, a, b, c| out64(p, fixup64(a, in64(p, b), in64(p, c)));
    VLdexpF64(F64, I32) -> F64 = |p, a, b| ldexp64(p, a, b as i32);
    VTruncF64(F64) -> F64 = |p, a| exact64(p, a, f64::trunc);
    VCeilF64(F64) -> F64 = |p, a| exact64(p, a, f64::ceil);
    VRndneF64(F64) -> F64 = |p, a| exact64(p, a, f64::round_ties_even);
    VFloorF64(F64) -> F64 = |p, a| exact64(p, a, f64::floor);
    VFractF64(F64) -> F64 = |p, a| exact64(p, a, fract64);
    VFrexpMantF64(F64) -> F64 = |p, a| exact64(p, a, frexp_mantissa);
    VFrexpExpI32F64(F64) -> B32 = |p, a| frexp_exponent(d(in64(p, a))) as u32 as u64;
}
