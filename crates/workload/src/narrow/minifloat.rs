//! Bit-level codecs of the floats of 8 bits and fewer.
//!
//! Formats: OCP 8-bit Floating Point Specification 1.0 (e4m3fn, e5m2), OCP Microscaling Formats 1.0 (e2m1, e8m0), and the
//! FNUZ variants of gfx940 to gfx942 (bias one higher, no infinity, no negative zero, the single NaN 0x80).

/// A sign-magnitude float of at most 8 bits.
pub(super) trait Minifloat {
    /// Stored mantissa bits.
    const MANTISSA: u32;
    /// Exponent bias.
    const BIAS: u32;
    /// Position of the sign bit.
    const SIGN: u32;
    /// Code of the largest finite magnitude.
    const LARGEST: u8;
    /// Code of infinity, where there is one.
    const INFINITY: Option<u8>;
    /// Code that a NaN becomes, before the sign; `None` when the format has no NaN.
    const NAN: Option<u8>;
    /// FNUZ: the code of minus zero is the only NaN.
    const FNUZ: bool;
}

macro_rules! minifloat {
    ($name:ident, $mantissa:literal, $bias:literal, $sign:literal, $largest:literal, $inf:expr, $nan:expr, $fnuz:literal) => {
        pub(super) struct $name;
        impl Minifloat for $name {
            const MANTISSA: u32 = $mantissa;
            const BIAS: u32 = $bias;
            const SIGN: u32 = $sign;
            const LARGEST: u8 = $largest;
            const INFINITY: Option<u8> = $inf;
            const NAN: Option<u8> = $nan;
            const FNUZ: bool = $fnuz;
        }
    };
}

minifloat!(E4m3fn, 3, 7, 7, 0x7E, None, Some(0x7F), false);
minifloat!(E4m3fnuz, 3, 8, 7, 0x7F, None, Some(0x80), true);
minifloat!(E5m2, 2, 15, 7, 0x7B, Some(0x7C), Some(0x7F), false);
minifloat!(E5m2fnuz, 2, 16, 7, 0x7F, None, Some(0x80), true);
minifloat!(E2m1, 1, 1, 3, 0x07, None, None, false);

/// Decodes one code; bits above the sign are ignored. Free of branches, so that loops over it vectorise.
#[inline(always)]
pub(super) const fn decode<F: Minifloat>(code: u8) -> f32 {
    let sign = (code >> F::SIGN) as u32 & 1;
    let magnitude = (code & ((1 << F::SIGN) - 1)) as u32;
    let normal = f32::from_bits((magnitude + ((127 - F::BIAS) << F::MANTISSA)) << (23 - F::MANTISSA));
    // 2^(1 - BIAS - MANTISSA), the unit of the subnormals, is a normal f32 in every format.
    let subnormal = magnitude as f32 * f32::from_bits((128 - F::BIAS - F::MANTISSA) << 23);
    let finite = if magnitude >> F::MANTISSA == 0 { subnormal } else { normal };
    let is_infinity = matches!(F::INFINITY, Some(infinity) if infinity as u32 == magnitude);
    let beyond = if is_infinity { f32::INFINITY } else { f32::NAN };
    let value = if magnitude > F::LARGEST as u32 { beyond } else { finite };
    let value = if F::FNUZ && sign == 1 && magnitude == 0 { f32::NAN } else { value };
    f32::from_bits(value.to_bits() | sign << 31)
}

/// Encodes with round to nearest even and saturation. Free of branches, so that loops over it vectorise.
#[inline(always)]
pub(super) fn encode<F: Minifloat>(value: f32) -> u8 {
    const INFINITY: u32 = 0x7F80_0000;
    let bits = value.to_bits();
    let magnitude = bits & 0x7FFF_FFFF;
    let dropped = 23 - F::MANTISSA;

    // Adding half a unit less one, plus the kept lowest bit, carries exactly when round to nearest even goes up.
    let odd = magnitude >> dropped & 1;
    let rounded = (magnitude + (1 << (dropped - 1)) - 1 + odd) >> dropped;
    let normal = rounded.wrapping_sub((127 - F::BIAS) << F::MANTISSA);

    // For subnormals the f32 adder rounds: beside this constant one unit in the last place is the subnormal unit.
    let aligned = f32::from_bits((151 - F::BIAS - F::MANTISSA) << 23);
    let subnormal = (f32::from_bits(magnitude) + aligned).to_bits().wrapping_sub(aligned.to_bits());

    let smallest_normal = (128 - F::BIAS) << 23;
    let code = if magnitude < smallest_normal { subnormal } else { normal };
    let code = code.min(u32::from(F::LARGEST)) as u8;
    let sign = (bits >> 31 << F::SIGN) as u8;
    let signed = if F::FNUZ && code == 0 { 0 } else { code | sign };
    match F::NAN {
        Some(nan) if magnitude > INFINITY => nan | if F::FNUZ { 0 } else { sign },
        _ => signed,
    }
}

/// Decodes a power-of-two scale: 2^(code − 127), 0xFF is NaN.
#[inline(always)]
pub(super) const fn decode_e8m0(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(0x0040_0000),
        0xFF => f32::NAN,
        _ => f32::from_bits((code as u32) << 23),
    }
}

/// Encodes the nearest power of two (halfway, 1.5·2^n, goes up), clamped to 2^−127 ..= 2^127. Zero becomes the smallest
/// scale. NaN, infinities and negative values have no scale: NaN.
#[inline(always)]
pub(super) fn encode_e8m0(value: f32) -> u8 {
    let bits = value.to_bits();
    if bits >= 0x7F80_0000 && bits != 0x8000_0000 {
        return 0xFF;
    }
    let bits = bits & 0x7FFF_FFFF;
    // Half of the mantissa's range carries into the exponent from 1.5·2^n up. Below 2^-126 f32 is subnormal and has no
    // exponent to carry into: halfway between 2^-127 and 2^-126 is 0x60_0000.
    if bits < 0x0080_0000 { u8::from(bits >= 0x0060_0000) } else { ((bits + 0x0040_0000) >> 23).min(254) as u8 }
}

/// Both nibbles of every byte decoded, the low one first.
pub(super) const fn table_e2m1_pairs() -> [[f32; 2]; 256] {
    let mut values = [[0.0; 2]; 256];
    let mut code = 0;
    while code < 256 {
        values[code] = [decode::<E2m1>(code as u8 & 15), decode::<E2m1>((code >> 4) as u8)];
        code += 1;
    }
    values
}
