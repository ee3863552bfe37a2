//! Exact floating-point arithmetic in integers, rounded once: what the host's units do not offer (directed rounding of any
//! format, a fused multiply-add of halves). It is slow and is only used where the fast forms do not apply.

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// Bits of the significand with the hidden one.
    pub(super) precision: u32,
    /// Bits of the exponent field.
    pub(super) exponent_bits: u32,
}

/// IEEE binary16.
pub(super) const F16: Format = Format { precision: 11, exponent_bits: 5 };
/// bfloat16.
pub(super) const BF16: Format = Format { precision: 8, exponent_bits: 8 };
/// IEEE binary32.
pub(super) const F32: Format = Format { precision: 24, exponent_bits: 8 };
/// IEEE binary64.
pub(super) const F64: Format = Format { precision: 53, exponent_bits: 11 };

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Exponent of the smallest normal number.
    fn min_exponent(self) -> i32 {
        1 - self.bias()
    }

    fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << (self.precision - 1)
    }

    fn sign(self) -> u64 {
        1 << (self.precision - 1 + self.exponent_bits)
    }
}

/// Directions of rounding, by the value of the MODE field.
pub(super) const NEAREST: u32 = 0;
const UP: u32 = 1;
const DOWN: u32 = 2;

/// `magnitude · 2^exponent` with `sign`, rounded to `format`. A lowest bit that stands for "and something more" may be set.
pub(super) fn round(sign: bool, magnitude: u128, exponent: i32, format: Format, mode: u32) -> u64 {
    let sign_bit = if sign { format.sign() } else { 0 };
    if magnitude == 0 {
        return sign_bit;
    }
    let top = 127 - magnitude.leading_zeros() as i32 + exponent;
    let last = top.max(format.min_exponent()) - (format.precision as i32 - 1);
    let shift = last - exponent;
    let (mut kept, rest, half) = if shift <= 0 {
        ((magnitude << (-shift).min(127)) as u64, 0, 1)
    } else if shift > 127 {
        (0, 1, 2)
    } else {
        let kept = (magnitude >> shift) as u64;
        (kept, magnitude & ((1u128 << shift) - 1), 1u128 << (shift - 1))
    };
    let up = match mode {
        NEAREST => rest > half || (rest == half && kept & 1 == 1),
        UP => rest != 0 && !sign,
        DOWN => rest != 0 && sign,
        _ => false,
    };
    kept += u64::from(up);
    // A significand that carried into the next power of two needs no special case: the carry runs into the exponent.
    let biased = (top.max(format.min_exponent()) + format.bias()) as u64;
    let bits = if top < format.min_exponent() { kept } else { kept + ((biased - 1) << (format.precision - 1)) };
    if bits < format.infinity() {
        return sign_bit | bits;
    }
    let away = match mode {
        NEAREST => true,
        UP => !sign,
        DOWN => sign,
        _ => false,
    };
    sign_bit | (format.infinity() - u64::from(!away))
}

/// Sign, significand and exponent of a finite double.
fn split(x: f64) -> (bool, u64, i32) {
    let bits = x.to_bits();
    let field = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (significand, exponent) = if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
    (bits >> 63 != 0, significand, exponent)
}

/// A finite double rounded to `format`.
pub(super) fn round_f64(x: f64, format: Format, mode: u32) -> u64 {
    let (sign, significand, exponent) = split(x);
    round(sign, u128::from(significand), exponent, format, mode)
}

/// Puts the top bit of a nonzero magnitude at bit 124.
fn normalise(magnitude: u128, exponent: i32) -> (u128, i32) {
    let shift = magnitude.leading_zeros() as i32 - 3;
    (magnitude << shift, exponent - shift)
}

/// `a · b + c` of finite doubles with one rounding to `format`.
pub(super) fn fma(a: f64, b: f64, c: f64, format: Format, mode: u32) -> u64 {
    let (sign_a, significand_a, exponent_a) = split(a);
    let (sign_b, significand_b, exponent_b) = split(b);
    let (sign_c, significand_c, exponent_c) = split(c);
    let sign_p = sign_a != sign_b;
    let product = u128::from(significand_a) * u128::from(significand_b);
    let addend = u128::from(significand_c);
    let exponent_p = exponent_a + exponent_b;
    match (product, addend) {
        (0, 0) => {
            let sign = if sign_p == sign_c { sign_p } else { mode == DOWN };
            return if sign { format.sign() } else { 0 };
        }
        (0, _) => return round(sign_c, addend, exponent_c, format, mode),
        (_, 0) => return round(sign_p, product, exponent_p, format, mode),
        _ => {}
    }
    let (product, exponent_p) = normalise(product, exponent_p);
    let (addend, exponent_c) = normalise(addend, exponent_c);
    let (big, sign, exponent, small, sign_small, below) = if (exponent_p, product) >= (exponent_c, addend) {
        (product, sign_p, exponent_p, addend, sign_c, exponent_p - exponent_c)
    } else {
        (addend, sign_c, exponent_c, product, sign_p, exponent_c - exponent_p)
    };
    // Both have their top bit in one place and at least 18 zeros below: what is shifted out only matters as "something".
    let small = if below > 124 { 1 } else { (small >> below) | u128::from(small & ((1u128 << below) - 1) != 0) };
    let sum = if sign == sign_small { big + small } else { big - small };
    if sum == 0 {
        return if mode == DOWN { format.sign() } else { 0 };
    }
    round(sign, sum, exponent, format, mode)
}
