//! The element types of A and B.

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Element {
    F32,
    F64,
    Xf32,
    F16,
    Bf16,
    I8,
    /// e4m3: FNUZ on gfx942, OCP on gfx950.
    Fp8,
    /// e5m2: FNUZ on gfx942, OCP on gfx950.
    Bf8,
    Fp6E2m3,
    Bf6E3m2,
    Fp4E2m1,
}

impl Element {
    /// From the name in an instruction.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "f32" => Element::F32,
            "f64" => Element::F64,
            "xf32" => Element::Xf32,
            "f16" => Element::F16,
            "bf16" => Element::Bf16,
            "i8" => Element::I8,
            "fp8" => Element::Fp8,
            "bf8" => Element::Bf8,
            _ => return None,
        })
    }

    /// From the format code in CBSZ or BLGP of the `f8f6f4` forms.
    pub(super) fn mixed(code: u8) -> Option<Self> {
        Some(match code {
            0 => Element::Fp8,
            1 => Element::Bf8,
            2 => Element::Fp6E2m3,
            3 => Element::Bf6E3m2,
            4 => Element::Fp4E2m1,
            _ => return None,
        })
    }

    pub(super) fn from_u8(value: u8) -> Self {
        match value {
            1 => Element::F64,
            2 => Element::Xf32,
            3 => Element::F16,
            4 => Element::Bf16,
            5 => Element::I8,
            6 => Element::Fp8,
            7 => Element::Bf8,
            8 => Element::Fp6E2m3,
            9 => Element::Bf6E3m2,
            10 => Element::Fp4E2m1,
            _ => Element::F32,
        }
    }

    /// Width.
    pub(super) fn bits(self) -> usize {
        match self {
            Element::F64 => 64,
            Element::F32 | Element::Xf32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::I8 | Element::Fp8 | Element::Bf8 => 8,
            Element::Fp6E2m3 | Element::Bf6E3m2 => 6,
            Element::Fp4E2m1 => 4,
        }
    }

    /// Exponent and mantissa bits, bias, and what the top codes mean, of a narrow float.
    pub(super) fn float(self, ocp: bool) -> Layout {
        let layout = |exponent, mantissa, bias, top| Layout { exponent, mantissa, bias, top };
        match (self, ocp) {
            (Element::F16, _) => layout(5, 10, 15, Top::Ieee),
            (Element::Bf16, _) => layout(8, 7, 127, Top::Ieee),
            (Element::Fp8, true) => layout(4, 3, 7, Top::OnlyNan),
            (Element::Fp8, false) => layout(4, 3, 8, Top::NegativeZeroIsNan),
            (Element::Bf8, true) => layout(5, 2, 15, Top::Ieee),
            (Element::Bf8, false) => layout(5, 2, 16, Top::NegativeZeroIsNan),
            (Element::Fp6E2m3, _) => layout(2, 3, 1, Top::None),
            (Element::Bf6E3m2, _) => layout(3, 2, 3, Top::None),
            (Element::Fp4E2m1, _) => layout(2, 1, 1, Top::None),
            // f32 cut to 10 bits of mantissa.
            _ => layout(8, 10, 127, Top::Ieee),
        }
    }
}

/// What codes other than numbers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Top {
    /// The largest exponent is infinity and NaN.
    Ieee,
    /// All ones is NaN; there is no infinity.
    OnlyNan,
    /// The code of -0 is the only NaN.
    NegativeZeroIsNan,
    /// Every code is a number.
    None,
}

/// Bits of a narrow float.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) exponent: u32,
    pub(super) mantissa: u32,
    pub(super) bias: i32,
    pub(super) top: Top,
}

impl Layout {
    /// The value of a code, exactly.
    pub(super) fn value(self, code: u32) -> f32 {
        let sign = code >> (self.exponent + self.mantissa) & 1;
        let field = code >> self.mantissa & ((1 << self.exponent) - 1);
        let fraction = code & ((1 << self.mantissa) - 1);
        let last = (1 << self.exponent) - 1;
        let full = (1 << self.mantissa) - 1;
        match self.top {
            Top::Ieee if field == last => {
                let value = if fraction == 0 { f32::INFINITY } else { f32::NAN };
                return if sign == 1 { -value } else { value };
            }
            Top::OnlyNan if field == last && fraction == full => return f32::NAN,
            Top::NegativeZeroIsNan if sign == 1 && field == 0 && fraction == 0 => return f32::NAN,
            _ => {}
        }
        let (significand, exponent) = if field == 0 {
            (fraction, 1 - self.bias)
        } else {
            (fraction | 1 << self.mantissa, field as i32 - self.bias)
        };
        let value = (f64::from(significand) * 2_f64.powi(exponent - self.mantissa as i32)) as f32;
        if sign == 1 { -value } else { value }
    }
}
