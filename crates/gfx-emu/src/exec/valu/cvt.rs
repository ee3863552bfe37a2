//! Conversions between integers, f16, f32 and f64.

use super::fp::*;
use super::lane::{exact_or_zero, flag, has_exact, lanes32, lanes64, types};
use super::soft;

/// f32 as f16 under MODE.
#[inline(always)]
fn to_half<P: Fp>(p: P, a: u32) -> u32 {
    let a = in32(p, a);
    let infinite = a & 0x7fff_ffff == 0x7f80_0000;
    let r = finish16(p, a, [if infinite { 0x7c00 } else { 0 }, 0, 0]);
    if is_nan32(a) { narrow16(a) } else { r }
}

/// f32 as f16 toward zero.
#[inline(always)]
pub(super) fn toward_zero16(x: u32) -> u32 {
    let magnitude = x & 0x7fff_ffff;
    let exponent = magnitude >> 23;
    let significand = magnitude & 0x007f_ffff | 0x0080_0000;
    // Halves below 2^-14 count in 2^-24.
    let denormal = significand >> 126u32.saturating_sub(exponent).min(31);
    let normal = (magnitude.wrapping_sub(0x3800_0000) >> 13).min(0x7bff);
    let finite = if magnitude < 0x3880_0000 { denormal } else { normal };
    let r = if magnitude == 0x7f80_0000 { 0x7c00 } else { finite };
    let r = if magnitude > 0x7f80_0000 { 0x7e00 | ((magnitude >> 13) & 0x1ff) } else { r };
    r | (x >> 16) & 0x8000
}

/// f32 as bf16, to nearest even; NaN quieted.
#[inline(always)]
pub(super) fn to_brain(x: u32) -> u32 {
    let rounded = x.wrapping_add(0x7fff + ((x >> 16) & 1)) >> 16;
    if is_nan32(x) { (x >> 16) | 0x40 } else { rounded }
}

/// A signed or unsigned number normalised to 16 bits: x · (2^15 - 1) or x · (2^16 - 1), clamped, to nearest even; NaN is 0.
#[inline(always)]
fn normalised(x: f32, signed: bool) -> u32 {
    let low = if signed { -1.0 } else { 0.0 };
    let x = if x.is_nan() { 0.0 } else { x.clamp(low, 1.0) };
    let scaled = f64::from(x) * if signed { 32767.0 } else { 65535.0 };
    (scaled.round_ties_even() as i32 as u32) & 0xffff
}

/// `x` as the byte that `sel` names, in `old`.
#[inline(always)]
fn insert_byte(x: u32, sel: u32, old: u32) -> u32 {
    let shift = 8 * (sel & 3);
    old & !(0xff << shift) | u32::from(f(x) as u8) << shift
}

#[inline(always)]
fn from_int<P: Fp>(p: P, x: f64, nearest: f32) -> u32 {
    if P::NEAREST { nearest.to_bits() } else { round_to32(p, x) }
}

lanes32! { narrow:
    VCvtF32I32(B32) -> F32 [hot] = |p, a| from_int(p, f64::from(a as i32), a as i32 as f32);
    VCvtF32U32(B32) -> F32 [hot] = |p, a| from_int(p, f64::from(a), a as f32);
    VCvtU32F32(F32) -> B32 [hot] = |p, a| f(a) as u32;
    VCvtI32F32(F32) -> B32 [hot] = |p, a| f(a) as i32 as u32;
    VCvtRpiI32F32(F32) -> B32 = |p, a| (f(in32(p, a)) + 0.5).floor() as i32 as u32;
    VCvtFlrI32F32(F32) -> B32 = |p, a| f(in32(p, a)).floor() as i32 as u32;
    VCvtOffF32I4(B32) -> F32 = |p, a| ((((a << 28) as i32) >> 28) as f32 * 0.0625).to_bits();
    VCvtF32Ubyte0(B32) -> F32 = |p, a| ((a & 0xff) as f32).to_bits();
    VCvtF32Ubyte1(B32) -> F32 = |p, a| (((a >> 8) & 0xff) as f32).to_bits();
    VCvtF32Ubyte2(B32) -> F32 = |p, a| (((a >> 16) & 0xff) as f32).to_bits();
    VCvtF32Ubyte3(B32) -> F32 = |p, a| ((a >> 24) as f32).to_bits();
    VCvtF16F32(F32) -> F16 [hot] = |p, a| to_half(p, a);
    VCvtF32F16(F16) -> F32 [hot] = |p, a| {
        let wide = widen16(in16(p, a));
        if is_nan32(wide) { quiet32(wide) } else { wide }
    };
    VCvtF32Bf16(Bf16) -> F32 = |p, a| {
        let wide = a << 16;
        if is_nan32(wide) { quiet32(wide) } else { wide }
    };
    VCvtF16U16(U16) -> F16 = |p, a| finish16(p, ((a & 0xffff) as f32).to_bits(), [0, 0, 0]);
    VCvtF16I16(I16) -> F16 = |p, a| finish16(p, (a as u16 as i16 as f32).to_bits(), [0, 0, 0]);
    VCvtU16F16(F16) -> U16 = |p, a| u32::from(f(widen16(a & 0xffff)) as u16);
    VCvtI16F16(F16) -> I16 = |p, a| u32::from(f(widen16(a & 0xffff)) as i16 as u16);
    VCvtNormI16F16(F16) -> I16 = |p, a| normalised(f(widen16(in16(p, a))), true);
    VCvtNormU16F16(F16) -> U16 = |p, a| normalised(f(widen16(in16(p, a))), false);
    VCvtPkrtzF16F32(F32, F32) -> PF16 [hot] = |p, a, b| {
        out16(p, toward_zero16(in32(p, a))) | out16(p, toward_zero16(in32(p, b))) << 16
    };
    VCvtPkF16F32(F32, F32) -> PF16 [hot] = |p, a, b| to_half(p, a) | to_half(p, b) << 16;
    VCvtPkBf16F32(F32, F32) -> B32 [hot] = |p, a, b| to_brain(in32(p, a)) | to_brain(in32(p, b)) << 16;
    VCvtPknormI16F32(F32, F32) -> B32 = |p, a, b| {
        normalised(f(in32(p, a)), true) | normalised(f(in32(p, b)), true) << 16
    };
    VCvtPknormU16F32(F32, F32) -> B32 = |p, a, b| {
        normalised(f(in32(p, a)), false) | normalised(f(in32(p, b)), false) << 16
    };
    VCvtPknormI16F16(F16, F16) -> B32 = |p, a, b| {
        normalised(f(widen16(in16(p, a))), true) | normalised(f(widen16(in16(p, b))), true) << 16
    };
    VCvtPknormU16F16(F16, F16) -> B32 = |p, a, b| {
        normalised(f(widen16(in16(p, a))), false) | normalised(f(widen16(in16(p, b))), false) << 16
    };
    VCvtPkU8F32(F32, B32, B32) -> B32 = |p, a, b, c| insert_byte(in32(p, a), b, c);
    VCvtPkaccumU8F32(F32, B32, B32) -> B32 [acc] = |p, a, b, c| insert_byte(in32(p, a), b, c);
}

lanes64! { wide:
    VCvtI32F64(F64) -> B32 = |p, a| d(a) as i32 as u32 as u64;
    VCvtU32F64(F64) -> B32 = |p, a| u64::from(d(a) as u32);
    VCvtF64I32(B32) -> F64 = |p, a| f64::from(a as i32).to_bits();
    VCvtF64U32(B32) -> F64 = |p, a| f64::from(a as u32).to_bits();
    VCvtF64F32(F32) -> F64 = |p, a| {
        let a = in32(p, a as u32);
        let wide = f64::from(f(a)).to_bits();
        if is_nan32(a) { quiet64(u64::from(a >> 31) << 63 | 0x7ff0 << 48 | u64::from(a & 0x7f_ffff) << 29) } else { wide }
    };
    VCvtF32F64(F64) -> F32 = |p, a| {
        let a = in64(p, a);
        if is_nan64(a) {
            u64::from(quiet32((a >> 32) as u32 & 0x8000_0000 | 0x7f80_0000 | (a >> 29) as u32 & 0x7f_ffff))
        } else if P::NEAREST || p.mode().round_f32() == 0 || d(a).is_infinite() {
            u64::from(out32(p, (d(a) as f32).to_bits()))
        } else {
            u64::from(out32(p, soft::round_f64(d(a), soft::F32, p.mode().round_f32()) as u32))
        }
    };
}
