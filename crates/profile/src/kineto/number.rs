//! Numbers of a trace, read from their decimal text without a detour through floats.

use super::json::unquoted;

/// Times beyond ± this (about 146 years) are no times: they are refused and counted.
const FARTHEST_NS: i128 = 1 << 62;

/// Microseconds in decimal text (`2241346144344.755`, `12`, `1.5e3`, quoted or not) as whole nanoseconds, rounded to
/// the nearest. `None` when it is no number or absurd.
pub(super) fn micros_to_ns(raw: &[u8]) -> Option<i64> {
    let decimal = Decimal::parse(unquoted(raw).trim_ascii())?;
    let ns = decimal.scaled(3)?;
    (ns.abs() < FARTHEST_NS).then_some(ns).and_then(|ns| i64::try_from(ns).ok())
}

/// A number as digits and a power of ten.
struct Decimal {
    negative: bool,
    digits: i128,
    exponent: i32,
}

impl Decimal {
    /// Digits kept; more cannot matter for a number below 2^64 with nanoseconds.
    const LONGEST: u32 = 36;

    fn parse(text: &[u8]) -> Option<Self> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let mut decimal = Self { negative, digits: 0, exponent: 0 };
        let (mut kept, mut seen, mut fraction) = (0, false, false);
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            match byte {
                b'0'..=b'9' => {
                    seen = true;
                    if kept < Self::LONGEST {
                        decimal.digits = decimal.digits * 10 + i128::from(byte - b'0');
                        kept += u32::from(decimal.digits != 0);
                        decimal.exponent = decimal.exponent.checked_sub(i32::from(fraction))?;
                    } else {
                        decimal.exponent = decimal.exponent.checked_add(i32::from(!fraction))?;
                    }
                }
                b'.' if !fraction => fraction = true,
                b'e' | b'E' if seen => {
                    let exponent: i32 = std::str::from_utf8(&text[at + 1..]).ok()?.parse().ok()?;
                    decimal.exponent = decimal.exponent.checked_add(exponent)?;
                    break;
                }
                _ => return None,
            }
            at += 1;
        }
        seen.then_some(decimal)
    }

    /// The number times 10^`power`, rounded half away from zero.
    fn scaled(&self, power: i32) -> Option<i128> {
        if self.digits == 0 {
            return Some(0);
        }
        let shift = self.exponent.checked_add(power)?;
        let magnitude = if shift >= 0 {
            self.digits.checked_mul(10i128.checked_pow(shift.unsigned_abs())?)?
        } else {
            match 10i128.checked_pow(shift.unsigned_abs()) {
                Some(divisor) => (self.digits + divisor / 2) / divisor,
                None => 0,
            }
        };
        Some(if self.negative { -magnitude } else { magnitude })
    }
}

/// An identifier: a whole number up to 2^64 - 1, also quoted, in hexadecimal (`"0x7f3a"`), or written as a float
/// without a fraction. Negative ones (`-1` for none) read as `None`.
pub(crate) fn id(raw: &[u8]) -> Option<u64> {
    let text = unquoted(raw).trim_ascii();
    if let Some(hex) = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) {
        return u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok();
    }
    if !text.is_empty() && text.iter().all(u8::is_ascii_digit) {
        return text
            .iter()
            .try_fold(0u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    }
    let decimal = Decimal::parse(text)?;
    let whole = decimal.scaled(0)?;
    (decimal.exponent >= 0 || decimal.scaled(9)? == whole.checked_mul(1_000_000_000)?)
        .then_some(whole)
        .and_then(|whole| u64::try_from(whole).ok())
}

/// Up to three sizes in a list (`[608, 1, 1]`) or in a string that shows one (`"(608, 1, 1)"`); missing ones are 1.
/// `None` when there is no size, or when one is 0 (profilers write `[0, 0, 0]` for "unknown").
pub(super) fn sizes3(raw: &[u8]) -> Option<[u32; 3]> {
    let mut sizes = [1; 3];
    let mut words = unquoted(raw).split(|byte| !byte.is_ascii_digit()).filter(|word| !word.is_empty());
    let mut found = false;
    for size in &mut sizes {
        let Some(word) = words.next() else { break };
        *size = std::str::from_utf8(word).ok()?.parse().ok().filter(|size| *size > 0)?;
        found = true;
    }
    (found && words.next().is_none()).then_some(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_exact() {
        for (text, ns) in [
            ("2241346144344.755", Some(2_241_346_144_344_755)),
            ("4909914680033.304", Some(4_909_914_680_033_304)),
            ("12", Some(12_000)),
            ("0.001", Some(1)),
            ("0.0004", Some(0)),
            ("0.0005", Some(1)),
            ("1.5e3", Some(1_500_000)),
            ("15E-1", Some(1_500)),
            ("-3.25", Some(-3_250)),
            ("\"7.5\"", Some(7_500)),
            ("1e400", None),
            ("1e2147483647", None),
            ("0e2147483647", Some(0)),
            ("1e-400", Some(0)),
            ("99999999999999999999999999999999999999999999999999", None),
            ("9223372036854775", None),
            ("NaN", None),
            ("Infinity", None),
            ("-", None),
            (".", None),
            ("", None),
            ("1.2.3", None),
            ("null", None),
        ] {
            assert_eq!(micros_to_ns(text.as_bytes()), ns, "{text}");
        }
    }

    #[test]
    fn identifiers_take_the_whole_of_u64() {
        for (text, number) in [
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("\"0x7f3a\"", Some(0x7f3a)),
            ("\"12\"", Some(12)),
            ("7.0", Some(7)),
            ("7.5", None),
            ("-1", None),
            ("\"Spans\"", None),
            ("", None),
        ] {
            assert_eq!(id(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn grids_in_each_spelling() {
        for (text, sizes) in [
            ("[608, 1, 1]", Some([608, 1, 1])),
            ("[\n 65536,\n 1,\n 2\n]", Some([65536, 1, 2])),
            ("\"[4, 2, 1]\"", Some([4, 2, 1])),
            ("\"(4,2)\"", Some([4, 2, 1])),
            ("256", Some([256, 1, 1])),
            ("[0,0,0]", None),
            ("[]", None),
            ("[4294967296,1,1]", None),
            ("[1,2,3,4]", None),
        ] {
            assert_eq!(sizes3(text.as_bytes()), sizes, "{text}");
        }
    }

    proptest! {
        #[test]
        fn three_decimals_round_trip(ns in -(1i64 << 61)..(1i64 << 61)) {
            let sign = if ns < 0 { "-" } else { "" };
            let text = format!("{sign}{}.{:03}", ns.unsigned_abs() / 1000, ns.unsigned_abs() % 1000);
            prop_assert_eq!(micros_to_ns(text.as_bytes()), Some(ns));
        }

        #[test]
        fn any_text_is_a_number_or_none(text in proptest::collection::vec(
            prop_oneof![Just(b'0'), Just(b'9'), Just(b'.'), Just(b'e'), Just(b'-'), Just(b'x'), any::<u8>()], 0..60)) {
            let _ = (micros_to_ns(&text), id(&text), sizes3(&text));
        }
    }
}
