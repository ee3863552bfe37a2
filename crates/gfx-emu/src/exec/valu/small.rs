//! The narrow floating-point formats: fp8 and bf8 of both kinds, fp6, bf6, fp4.

/// A narrow format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Small {
    /// Bits of an item.
    pub(super) bits: u32,
    /// Stored bits of the significand.
    pub(super) fraction: u32,
    bias: i32,
    /// The largest finite code, without sign.
    largest: u32,
    special: Special,
}

/// What a format has besides numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    /// Nothing: results saturate.
    Nothing,
    /// One NaN, in the place of minus zero (FNUZ).
    Unsigned,
    /// NaN above the largest number, no infinity (OCP E4M3).
    Nan,
    /// Infinity and NaN (OCP E5M2).
    Infinity,
}

/// FP8 E4M3 of gfx942: bias 8, no infinity, no minus zero.
pub(super) const FP8_FNUZ: Small = Small { bits: 8, fraction: 3, bias: 8, largest: 0x7f, special: Special::Unsigned };
/// BF8 E5M2 of gfx942: bias 16.
pub(super) const BF8_FNUZ: Small = Small { bits: 8, fraction: 2, bias: 16, largest: 0x7f, special: Special::Unsigned };
/// OCP E4M3.
pub(super) const FP8: Small = Small { bits: 8, fraction: 3, bias: 7, largest: 0x7e, special: Special::Nan };
/// OCP E5M2.
pub(super) const BF8: Small = Small { bits: 8, fraction: 2, bias: 15, largest: 0x7b, special: Special::Infinity };
/// OCP E2M3.
pub(super) const FP6: Small = Small { bits: 6, fraction: 3, bias: 1, largest: 0x1f, special: Special::Nothing };
/// OCP E3M2.
pub(super) const BF6: Small = Small { bits: 6, fraction: 2, bias: 3, largest: 0x1f, special: Special::Nothing };
/// OCP E2M1.
pub(super) const FP4: Small = Small { bits: 4, fraction: 1, bias: 1, largest: 0x7, special: Special::Nothing };

/// 2^n for -1022..=1023.
fn power(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

impl Small {
    fn sign(self) -> u32 {
        1 << (self.bits - 1)
    }

    /// The value of a code; exact.
    pub(super) fn decode(self, code: u32) -> f64 {
        let magnitude = code & (self.sign() - 1);
        let negative = code & self.sign() != 0;
        let nan = f64::from_bits(if negative { 0xfff8_0000_0000_0000 } else { 0x7ff8_0000_0000_0000 });
        match self.special {
            Special::Unsigned if negative && magnitude == 0 => return f64::from_bits(0x7ff8_0000_0000_0000),
            Special::Nan if magnitude > self.largest => return nan,
            Special::Infinity if magnitude > self.largest + 1 => return nan,
            Special::Infinity if magnitude == self.largest + 1 => {
                return if negative { f64::NEG_INFINITY } else { f64::INFINITY };
            }
            _ => {}
        }
        let field = (magnitude >> self.fraction) as i32;
        let fraction = magnitude & ((1 << self.fraction) - 1);
        let significand = if field == 0 { fraction } else { fraction | 1 << self.fraction };
        let value = f64::from(significand) * power(field.max(1) - self.bias - self.fraction as i32);
        if negative { -value } else { value }
    }

    /// The code of a value: to nearest even, or stochastically when `random` gives 32 bits. `saturate` makes what is too
    /// large the largest number instead of NaN or infinity.
    ///
    /// Stochastic rounding adds the top `23 - fraction` random bits below the last place and truncates, as published
    /// software references of the instructions do.
    pub(super) fn encode(self, value: f64, random: Option<u32>, saturate: bool) -> u32 {
        let negative = value.is_sign_negative();
        let sign = if negative { self.sign() } else { 0 };
        let saturates = saturate || self.special == Special::Nothing;
        if value.is_nan() {
            return match self.special {
                Special::Nothing => sign | self.largest,
                Special::Unsigned => self.sign(),
                Special::Nan | Special::Infinity => sign | (self.sign() - 1),
            };
        }
        if value.is_infinite() {
            return if saturates { sign | self.largest } else { self.overflow(sign) };
        }
        let lowest = 1 - self.bias;
        // Exponent of the value; what is denormal as f64 is far below every narrow format.
        let exponent = (((value.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(lowest);
        if exponent > 64 {
            return if saturates { sign | self.largest } else { self.overflow(sign) };
        }
        // The significand in units of its last place, which rounding makes an integer.
        let units = value.abs() * power(self.fraction as i32 - exponent);
        let rounded = match random {
            None => units.round_ties_even() as u32,
            Some(bits) => {
                let extra = 23 - self.fraction;
                let scaled = (units * power(extra as i32)) as u64;
                ((scaled + u64::from(bits >> (32 - extra))) >> extra) as u32
            }
        };
        let code = rounded + (((exponent - lowest) as u32) << self.fraction);
        if code > self.largest {
            return if saturates { sign | self.largest } else { self.overflow(sign) };
        }
        if code == 0 && self.special == Special::Unsigned { 0 } else { sign | code }
    }

    fn overflow(self, sign: u32) -> u32 {
        match self.special {
            Special::Nothing => sign | self.largest,
            Special::Unsigned => self.sign(),
            Special::Nan => sign | 0x7f,
            Special::Infinity => sign | (self.largest + 1),
        }
    }
}
