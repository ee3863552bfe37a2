//! Inline constants: what a source code between 128 and 248 stands for.

/// The value of an inline constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inline {
    /// -16 to 64, sign-extended to whatever width is read.
    Integer(i64),
    /// A float, as the bits of each width.
    Float { f16: u16, f32: u32, f64: u64 },
}

impl Inline {
    /// The constant of a hardware code: 128..=208 integers, 240..=247 ±0.5, ±1, ±2, ±4, 248 1/(2π) as the ISA writes it.
    pub(super) fn of(code: u8) -> Option<Self> {
        Some(match code {
            128..=192 => Inline::Integer(i64::from(code) - 128),
            193..=208 => Inline::Integer(192 - i64::from(code)),
            240..=247 => {
                let exponent = i32::from((code - 240) / 2) - 1;
                let negative = code & 1;
                Inline::Float {
                    f16: ((exponent + 15) as u16) << 10 | u16::from(negative) << 15,
                    f32: ((exponent + 127) as u32) << 23 | u32::from(negative) << 31,
                    f64: ((exponent + 1023) as u64) << 52 | u64::from(negative) << 63,
                }
            }
            248 => Inline::Float { f16: 0x3118, f32: 0x3e22_f983, f64: 0x3fc4_5f30_6dc9_c882 },
            _ => return None,
        })
    }

    /// What a source holds that is read as 32 bits, or as 64 where it is an integer.
    pub(super) fn narrow(self) -> u64 {
        match self {
            Inline::Integer(value) => value as u64,
            Inline::Float { f32, .. } => f32.into(),
        }
    }

    /// What is read as 64 bits.
    pub(super) fn wide(self) -> u64 {
        match self {
            Inline::Integer(value) => value as u64,
            Inline::Float { f64, .. } => f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_stand_for_their_values() {
        assert_eq!((Inline::of(128), Inline::of(192)), (Some(Inline::Integer(0)), Some(Inline::Integer(64))));
        assert_eq!((Inline::of(193), Inline::of(208)), (Some(Inline::Integer(-1)), Some(Inline::Integer(-16))));
        for (code, value) in (240..).zip([0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0]) {
            let constant = Inline::of(code).unwrap();
            assert_eq!(constant.narrow(), u64::from((value as f32).to_bits()));
            assert_eq!(constant.wide(), f64::to_bits(value));
            let Inline::Float { f16, .. } = constant else { panic!("{code}") };
            assert_eq!(f16, half::f16::from_f64(value).to_bits());
        }
        assert!([0, 127, 209, 239, 249, 255].into_iter().all(|code| Inline::of(code).is_none()));
    }
}
