//! Integer and bit operations.

use super::lane::{exact_or_zero, flag, has_exact, lanes32, lanes64, types};

/// Sign-extends the low 24 bits.
#[inline(always)]
fn sx24(x: u32) -> i64 {
    i64::from(((x << 8) as i32) >> 8)
}

#[inline(always)]
fn sx16(x: u32) -> i64 {
    i64::from(x as u16 as i16)
}

#[inline(always)]
fn i(x: u32) -> i64 {
    i64::from(x as i32)
}

#[inline(always)]
fn u(x: u32) -> i64 {
    i64::from(x)
}

/// The low half, unsigned.
#[inline(always)]
fn h(x: u32) -> u32 {
    x & 0xffff
}

/// The low half, signed.
#[inline(always)]
fn sh(x: u32) -> i32 {
    i32::from(x as u16 as i16)
}

#[inline(always)]
fn imin(a: u32, b: u32) -> u32 {
    (a as i32).min(b as i32) as u32
}

#[inline(always)]
fn imax(a: u32, b: u32) -> u32 {
    (a as i32).max(b as i32) as u32
}

/// The median of three numbers of any order.
#[inline(always)]
fn med3<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.min(b).max(a.max(b).min(c))
}

/// Both halves of two or three packed sources.
#[inline(always)]
fn both(a: u32, b: u32, c: u32, op: impl Fn(u32, u32, u32) -> u32) -> u32 {
    h(op(h(a), h(b), h(c))) | op(a >> 16, b >> 16, c >> 16) << 16
}

/// Byte `n`.
#[inline(always)]
fn byte(x: u32, n: u32) -> u32 {
    (x >> (8 * n)) & 0xff
}

/// Sum of the absolute differences of four bytes, those with a zero reference left out when `masked`.
#[inline(always)]
fn sad8(a: u32, b: u32, masked: bool) -> u32 {
    (0..4)
        .map(|n| if masked && byte(b, n) == 0 { 0 } else { byte(a, n).abs_diff(byte(b, n)) })
        .fold(0, u32::wrapping_add)
}

/// One byte of `v_perm_b32`: byte `sel` of `{a, b}`, a repeated sign, or a constant.
#[inline(always)]
fn permuted(a: u32, b: u32, sel: u32) -> u32 {
    let source = if sel & 4 != 0 { a } else { b };
    let picked = (source >> (8 * (sel & 3))) & 0xff;
    // Selects 8..11: the sign of bytes 1, 3, 5, 7 of the pair.
    let signed = if sel & 2 != 0 { a } else { b };
    let sign = if sel & 1 != 0 { signed >> 31 } else { (signed >> 15) & 1 };
    if sel < 8 {
        picked
    } else if sel < 12 {
        sign * 0xff
    } else if sel == 12 {
        0
    } else {
        0xff
    }
}

#[inline(always)]
fn bfe_i32(a: u32, offset: u32, width: u32) -> u32 {
    let width = width & 31;
    let up = (32 - width) & 31;
    let field = ((((a as i32) >> (offset & 31)) as u32) << up) as i32 >> up;
    if width == 0 { 0 } else { field as u32 }
}

/// Sum of products of packed `BITS`-wide items.
#[inline(always)]
fn dot<const BITS: u32>(a: u32, b: u32, signed: bool) -> i64 {
    let up = 32 - BITS;
    let item = |x: u32, n: u32| {
        let top = x << (up - n * BITS);
        if signed { i64::from((top as i32) >> up) } else { i64::from(top >> up) }
    };
    (0..32 / BITS).map(|n| item(a, n) * item(b, n)).sum()
}

#[inline(always)]
fn saturate8(x: i32, low: i32, high: i32) -> u32 {
    (x.clamp(low, high) as u32) & 0xff
}

/// Four sums of absolute differences of bytes n..n+4 of `a`, added to packed 16-bit sums.
#[inline(always)]
fn quad_sad(a: u64, b: u32, c: u64, masked: bool) -> u64 {
    (0..4).fold(0, |sums, n| {
        let sum = u64::from(sad8((a >> (8 * n)) as u32, b, masked)) + ((c >> (16 * n)) & 0xffff);
        sums | (sum & 0xffff) << (16 * n)
    })
}

/// Sums of `v_mqsad_u32_u8`: window `n` of `a` against `b`.
pub(super) fn masked_sad(a: u64, b: u32, n: u32) -> u32 {
    sad8((a >> (8 * n)) as u32, b, true)
}

lanes32! { unary_binary:
    VMovB32(B32) -> B32 [hot] = |p, a| a;
    VNotB32(B32) -> B32 [hot] = |p, a| !a;
    VBfrevB32(B32) -> B32 = |p, a| a.reverse_bits();
    VFfbhU32(B32) -> B32 = |p, a| if a == 0 { !0 } else { a.leading_zeros() };
    VFfblB32(B32) -> B32 = |p, a| if a == 0 { !0 } else { a.trailing_zeros() };
    VFfbhI32(B32) -> B32 = |p, a| {
        let changes = a ^ ((a as i32) >> 31) as u32;
        if changes == 0 { !0 } else { changes.leading_zeros() }
    };
    VPrngB32(B32) -> B32 = |p, a| (a << 1) ^ (if a >> 31 != 0 { 197 } else { 0 });
    VSatPkU8I16(B32) -> U16 = |p, a| {
        saturate8(sh(a), 0, 255) | saturate8(sh(a >> 16), 0, 255) << 8
    };
    VAddU32(U32, U32) -> U32 [hot] = |p, a, b| a.wrapping_add(b) => u(a) + u(b);
    VSubU32(U32, U32) -> U32 [hot] = |p, a, b| a.wrapping_sub(b) => u(a) - u(b);
    VSubrevU32(U32, U32) -> U32 [hot] = |p, a, b| b.wrapping_sub(a) => u(b) - u(a);
    VAddI32(I32, I32) -> I32 = |p, a, b| a.wrapping_add(b) => i(a) + i(b);
    VSubI32(I32, I32) -> I32 = |p, a, b| a.wrapping_sub(b) => i(a) - i(b);
    VMulI32I24(I32, I32) -> I32 = |p, a, b| ((sx24(a) as i32).wrapping_mul(sx24(b) as i32)) as u32 => sx24(a) * sx24(b);
    VMulHiI32I24(I32, I32) -> I32 = |p, a, b| ((sx24(a) * sx24(b)) >> 32) as u32;
    VMulU32U24(U32, U32) -> U32 [hot] = |p, a, b| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff)
        => u(a & 0xff_ffff) * u(b & 0xff_ffff);
    VMulHiU32U24(U32, U32) -> U32 = |p, a, b| ((u(a & 0xff_ffff) * u(b & 0xff_ffff)) >> 32) as u32;
    VMinI32(I32, I32) -> I32 [hot] = |p, a, b| imin(a, b);
    VMaxI32(I32, I32) -> I32 [hot] = |p, a, b| imax(a, b);
    VMinU32(U32, U32) -> U32 [hot] = |p, a, b| a.min(b);
    VMaxU32(U32, U32) -> U32 [hot] = |p, a, b| a.max(b);
    VLshrrevB32(B32, B32) -> B32 [hot] = |p, a, b| b >> (a & 31);
    VAshrrevI32(B32, B32) -> B32 [hot] = |p, a, b| ((b as i32) >> (a & 31)) as u32;
    VLshlrevB32(B32, B32) -> B32 [hot] = |p, a, b| b << (a & 31);
    VAndB32(B32, B32) -> B32 [hot] = |p, a, b| a & b;
    VOrB32(B32, B32) -> B32 [hot] = |p, a, b| a | b;
    VXorB32(B32, B32) -> B32 [hot] = |p, a, b| a ^ b;
    VXnorB32(B32, B32) -> B32 = |p, a, b| !(a ^ b);
    VMulLoU32(U32, U32) -> U32 [hot] = |p, a, b| a.wrapping_mul(b);
    VMulHiU32(U32, U32) -> U32 [hot] = |p, a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32;
    VMulHiI32(I32, I32) -> I32 = |p, a, b| ((i(a) * i(b)) >> 32) as u32;
    VBcntU32B32(B32, B32) -> B32 = |p, a, b| a.count_ones().wrapping_add(b);
    VBfmB32(B32, B32) -> B32 = |p, a, b| ((1u32 << (a & 31)) - 1) << (b & 31);
    VCvtPkU16U32(B32, B32) -> B32 = |p, a, b| a.min(0xffff) | b.min(0xffff) << 16;
    VCvtPkI16I32(B32, B32) -> B32 = |p, a, b| {
        h((a as i32).clamp(-32768, 32767) as u32) | ((b as i32).clamp(-32768, 32767) as u32) << 16
    };
}

lanes32! { ternary:
    VMadI32I24(I32, I32, I32) -> I32 = |p, a, b, c| (sx24(a) as i32).wrapping_mul(sx24(b) as i32).wrapping_add(c as i32) as u32
        => sx24(a) * sx24(b) + i(c);
    VMadU32U24(U32, U32, U32) -> U32 [hot] = |p, a, b, c| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c)
        => u(a & 0xff_ffff) * u(b & 0xff_ffff) + u(c);
    VBfeU32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| (a >> (b & 31)) & ((1u32 << (c & 31)) - 1);
    VBfeI32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| bfe_i32(a, b, c);
    VBfiB32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| (a & b) | (!a & c);
    VLerpU8(B32, B32, B32) -> B32 = |p, a, b, c| (0..4).fold(0, |r, n| {
        r | ((byte(a, n) + byte(b, n) + (byte(c, n) & 1)) >> 1) << (8 * n)
    });
    VAlignbitB32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32;
    VAlignbyteB32(B32, B32, B32) -> B32 = |p, a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32;
    VMin3I32(I32, I32, I32) -> I32 = |p, a, b, c| imin(imin(a, b), c);
    VMax3I32(I32, I32, I32) -> I32 = |p, a, b, c| imax(imax(a, b), c);
    VMed3I32(I32, I32, I32) -> I32 = |p, a, b, c| med3(a as i32, b as i32, c as i32) as u32;
    VMin3U32(U32, U32, U32) -> U32 = |p, a, b, c| a.min(b).min(c);
    VMax3U32(U32, U32, U32) -> U32 = |p, a, b, c| a.max(b).max(c);
    VMed3U32(U32, U32, U32) -> U32 = |p, a, b, c| med3(a, b, c);
    VSadU8(U32, U32, U32) -> U32 = |p, a, b, c| c.wrapping_add(sad8(a, b, false)) => u(c) + u(sad8(a, b, false));
    VSadHiU8(U32, U32, U32) -> U32 = |p, a, b, c| c.wrapping_add(sad8(a, b, false) << 16)
        => u(c) + u(sad8(a, b, false) << 16);
    VMsadU8(U32, U32, U32) -> U32 = |p, a, b, c| c.wrapping_add(sad8(a, b, true)) => u(c) + u(sad8(a, b, true));
    VSadU16(U32, U32, U32) -> U32 = |p, a, b, c| {
        c.wrapping_add(h(a).abs_diff(h(b))).wrapping_add((a >> 16).abs_diff(b >> 16))
    } => u(c) + u(h(a).abs_diff(h(b))) + u((a >> 16).abs_diff(b >> 16));
    VSadU32(U32, U32, U32) -> U32 = |p, a, b, c| a.abs_diff(b).wrapping_add(c) => u(a.abs_diff(b)) + u(c);
    VPermB32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| {
        permuted(a, b, byte(c, 0))
            | permuted(a, b, byte(c, 1)) << 8
            | permuted(a, b, byte(c, 2)) << 16
            | permuted(a, b, byte(c, 3)) << 24
    };
    VMadU32U16(U16, U16, U32) -> U32 = |p, a, b, c| (h(a) * h(b)).wrapping_add(c) => u(h(a) * h(b)) + u(c);
    VMadI32I16(I16, I16, I32) -> I32 = |p, a, b, c| (sh(a) * sh(b)).wrapping_add(c as i32) as u32
        => sx16(a) * sx16(b) + i(c);
    VXadU32(B32, B32, B32) -> B32 = |p, a, b, c| (a ^ b).wrapping_add(c);
    VLshlAddU32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| (a << (b & 31)).wrapping_add(c);
    VAddLshlU32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| a.wrapping_add(b) << (c & 31);
    VAdd3U32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| a.wrapping_add(b).wrapping_add(c);
    VLshlOrB32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| (a << (b & 31)) | c;
    VAndOrB32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| (a & b) | c;
    VOr3B32(B32, B32, B32) -> B32 [hot] = |p, a, b, c| a | b | c;
    VDot4I32I8(B32, B32, I32) -> I32 [hot] = |p, a, b, c| (dot::<8>(a, b, true) as i32).wrapping_add(c as i32) as u32
        => dot::<8>(a, b, true) + i(c);
    VDot4U32U8(B32, B32, U32) -> U32 = |p, a, b, c| (dot::<8>(a, b, false) as u32).wrapping_add(c)
        => dot::<8>(a, b, false) + u(c);
    VDot8I32I4(B32, B32, I32) -> I32 = |p, a, b, c| (dot::<4>(a, b, true) as i32).wrapping_add(c as i32) as u32
        => dot::<4>(a, b, true) + i(c);
    VDot8U32U4(B32, B32, U32) -> U32 = |p, a, b, c| (dot::<4>(a, b, false) as u32).wrapping_add(c)
        => dot::<4>(a, b, false) + u(c);
    VDot2I32I16(PI16, PI16, I32) -> I32 = |p, a, b, c| (dot::<16>(a, b, true) + i(c)) as u32
        => dot::<16>(a, b, true) + i(c);
    VDot2U32U16(PU16, PU16, U32) -> U32 = |p, a, b, c| (dot::<16>(a, b, false) + u(c)) as u32
        => dot::<16>(a, b, false) + u(c);
    VDot4cI32I8(B32, B32, I32) -> I32 [acc] = |p, a, b, c| (dot::<8>(a, b, true) as i32).wrapping_add(c as i32) as u32
        => dot::<8>(a, b, true) + i(c);
    VDot8cI32I4(B32, B32, I32) -> I32 [acc] = |p, a, b, c| (dot::<4>(a, b, true) as i32).wrapping_add(c as i32) as u32
        => dot::<4>(a, b, true) + i(c);
    VDot2cI32I16(B32, B32, I32) -> I32 [acc] = |p, a, b, c| (dot::<16>(a, b, true) + i(c)) as u32
        => dot::<16>(a, b, true) + i(c);
    VAshrPkI8I32(B32, B32, B32) -> U16 [keep] = |p, a, b, c| {
        saturate8((a as i32) >> (c & 31), -128, 127) | saturate8((b as i32) >> (c & 31), -128, 127) << 8
    };
    VAshrPkU8I32(B32, B32, B32) -> U16 [keep] = |p, a, b, c| {
        saturate8((a as i32) >> (c & 31), 0, 255) | saturate8((b as i32) >> (c & 31), 0, 255) << 8
    };
}

lanes32! { half:
    VAddU16(U16, U16) -> U16 = |p, a, b| h(a.wrapping_add(b)) => u(h(a)) + u(h(b));
    VSubU16(U16, U16) -> U16 = |p, a, b| h(a.wrapping_sub(b)) => u(h(a)) - u(h(b));
    VSubrevU16(U16, U16) -> U16 = |p, a, b| h(b.wrapping_sub(a)) => u(h(b)) - u(h(a));
    VMulLoU16(U16, U16) -> U16 = |p, a, b| h(h(a) * h(b)) => u(h(a)) * u(h(b));
    VLshlrevB16(U16, U16) -> U16 = |p, a, b| h(h(b) << (a & 15));
    VLshrrevB16(U16, U16) -> U16 = |p, a, b| h(b) >> (a & 15);
    VAshrrevI16(U16, I16) -> I16 = |p, a, b| h((sh(b) >> (a & 15)) as u32);
    VMaxU16(U16, U16) -> U16 = |p, a, b| h(a).max(h(b));
    VMinU16(U16, U16) -> U16 = |p, a, b| h(a).min(h(b));
    VMaxI16(I16, I16) -> I16 = |p, a, b| h(sh(a).max(sh(b)) as u32);
    VMinI16(I16, I16) -> I16 = |p, a, b| h(sh(a).min(sh(b)) as u32);
    VAddI16(I16, I16) -> I16 [keep] = |p, a, b| h(a.wrapping_add(b)) => sx16(a) + sx16(b);
    VSubI16(I16, I16) -> I16 [keep] = |p, a, b| h(a.wrapping_sub(b)) => sx16(a) - sx16(b);
    VMadU16(U16, U16, U16) -> U16 [keep] = |p, a, b, c| h((h(a) * h(b)).wrapping_add(c)) => u(h(a)) * u(h(b)) + u(h(c));
    VMadI16(I16, I16, I16) -> I16 [keep] = |p, a, b, c| h((h(a) * h(b)).wrapping_add(c)) => sx16(a) * sx16(b) + sx16(c);
    VMadLegacyU16(U16, U16, U16) -> U16 = |p, a, b, c| h((h(a) * h(b)).wrapping_add(c)) => u(h(a)) * u(h(b)) + u(h(c));
    VMadLegacyI16(I16, I16, I16) -> I16 = |p, a, b, c| h((h(a) * h(b)).wrapping_add(c)) => sx16(a) * sx16(b) + sx16(c);
    VMin3I16(I16, I16, I16) -> I16 [keep] = |p, a, b, c| h(sh(a).min(sh(b)).min(sh(c)) as u32);
    VMax3I16(I16, I16, I16) -> I16 [keep] = |p, a, b, c| h(sh(a).max(sh(b)).max(sh(c)) as u32);
    VMed3I16(I16, I16, I16) -> I16 [keep] = |p, a, b, c| h(med3(sh(a), sh(b), sh(c)) as u32);
    VMin3U16(U16, U16, U16) -> U16 [keep] = |p, a, b, c| h(a).min(h(b)).min(h(c));
    VMax3U16(U16, U16, U16) -> U16 [keep] = |p, a, b, c| h(a).max(h(b)).max(h(c));
    VMed3U16(U16, U16, U16) -> U16 [keep] = |p, a, b, c| med3(h(a), h(b), h(c));
}

lanes32! { packed:
    VPkMadI16(PI16, PI16, PI16) -> PI16 = |p, a, b, c| both(a, b, c, |a, b, c| (a * b).wrapping_add(c))
        => sx16(a) * sx16(b) + sx16(c);
    VPkMadU16(PU16, PU16, PU16) -> PU16 = |p, a, b, c| both(a, b, c, |a, b, c| (a * b).wrapping_add(c))
        => u(h(a)) * u(h(b)) + u(h(c));
    VPkMulLoU16(PU16, PU16) -> PU16 = |p, a, b| both(a, b, 0, |a, b, _| a * b) => u(h(a)) * u(h(b));
    VPkAddI16(PI16, PI16) -> PI16 = |p, a, b| both(a, b, 0, |a, b, _| a + b) => sx16(a) + sx16(b);
    VPkSubI16(PI16, PI16) -> PI16 = |p, a, b| both(a, b, 0, |a, b, _| a.wrapping_sub(b)) => sx16(a) - sx16(b);
    VPkAddU16(PU16, PU16) -> PU16 = |p, a, b| both(a, b, 0, |a, b, _| a + b) => u(h(a)) + u(h(b));
    VPkSubU16(PU16, PU16) -> PU16 = |p, a, b| both(a, b, 0, |a, b, _| a.wrapping_sub(b)) => u(h(a)) - u(h(b));
    VPkLshlrevB16(PU16, PU16) -> PU16 = |p, a, b| both(a, b, 0, |a, b, _| b << (a & 15));
    VPkLshrrevB16(PU16, PU16) -> PU16 = |p, a, b| both(a, b, 0, |a, b, _| b >> (a & 15));
    VPkAshrrevI16(PU16, PI16) -> PI16 = |p, a, b| both(a, b, 0, |a, b, _| (sh(b) >> (a & 15)) as u32);
    VPkMaxI16(PI16, PI16) -> PI16 = |p, a, b| both(a, b, 0, |a, b, _| sh(a).max(sh(b)) as u32);
    VPkMinI16(PI16, PI16) -> PI16 = |p, a, b| both(a, b, 0, |a, b, _| sh(a).min(sh(b)) as u32);
    VPkMaxU16(PU16, PU16) -> PU16 = |p, a, b| both(a, b, 0, |a, b, _| a.max(b));
    VPkMinU16(PU16, PU16) -> PU16 = |p, a, b| both(a, b, 0, |a, b, _| a.min(b));
}

lanes64! { wide:
    VMovB64(B64) -> B64 [hot] = |p, a| a;
    VLshlAddU64(B64, B32, B64) -> B64 [hot] = |p, a, b, c| (a << (b & 7)).wrapping_add(c);
    VLshlrevB64(B32, B64) -> B64 [hot] = |p, a, b| b << (a & 63);
    VLshrrevB64(B32, B64) -> B64 [hot] = |p, a, b| b >> (a & 63);
    VAshrrevI64(B32, I64) -> I64 [hot] = |p, a, b| ((b as i64) >> (a & 63)) as u64;
    VQsadPkU16U8(B64, B32, B64) -> B64 = |p, a, b, c| quad_sad(a, b as u32, c, false);
    VMqsadPkU16U8(B64, B32, B64) -> B64 = |p, a, b, c| quad_sad(a, b as u32, c, true);
}
