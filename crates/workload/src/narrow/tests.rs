//! Exhaustive checks against the formats' definitions, computed in f64 without looking at f32 bits.

use super::*;
use half::slice::HalfFloatSliceExt;
use proptest::prelude::*;

/// The narrow floats with at most 8 bits and a sign.
const MINIFLOATS: [Dtype; 5] =
    [Dtype::Fp8E4m3fn, Dtype::Fp8E4m3fnuz, Dtype::Fp8E5m2, Dtype::Fp8E5m2fnuz, Dtype::Fp4E2m1];

fn codes(dtype: Dtype) -> std::ops::Range<u16> {
    0..1 << dtype.bits()
}

/// The value of a code by the format's definition: OCP OFP8 1.0 table 1, OCP MX 1.0 table 5, and FNUZ as in LLVM's
/// `Float8E4M3FNUZ` / `Float8E5M2FNUZ` semantics.
fn defined(dtype: Dtype, code: u16) -> f64 {
    let (exponent_bits, mantissa_bits, bias) = match dtype {
        Dtype::Fp8E4m3fn => (4, 3, 7),
        Dtype::Fp8E4m3fnuz => (4, 3, 8),
        Dtype::Fp8E5m2 => (5, 2, 15),
        Dtype::Fp8E5m2fnuz => (5, 2, 16),
        _ => (2, 1, 1),
    };
    let mantissa = code % (1 << mantissa_bits);
    let exponent = (code >> mantissa_bits) % (1 << exponent_bits);
    let negative = code >> (mantissa_bits + exponent_bits) == 1;
    match dtype {
        Dtype::Fp8E4m3fn if exponent == 15 && mantissa == 7 => return f64::NAN,
        Dtype::Fp8E5m2 if exponent == 31 && mantissa > 0 => return f64::NAN,
        Dtype::Fp8E5m2 if exponent == 31 => return if negative { f64::NEG_INFINITY } else { f64::INFINITY },
        Dtype::Fp8E4m3fnuz | Dtype::Fp8E5m2fnuz if code == 0x80 => return f64::NAN,
        _ => {}
    }
    let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
    let magnitude = match exponent {
        0 => fraction * 2.0_f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2.0_f64.powi(i32::from(exponent) - bias),
    };
    if negative { -magnitude } else { magnitude }
}

/// The code nearest to `value` by trying all of them: ties to the even code, saturating.
fn nearest(dtype: Dtype, value: f64) -> u16 {
    let largest = max_finite(dtype).unwrap();
    let value = value.clamp(-largest, largest);
    let is_zero_twin = |code: &u16| defined(dtype, *code) == 0.0 && defined(dtype, *code).is_sign_negative();
    let sign_fits = |code: &u16| defined(dtype, *code).is_sign_negative() == value.is_sign_negative();
    let has_minus_zero = codes(dtype).any(|code| is_zero_twin(&code));
    codes(dtype)
        .filter(|code| defined(dtype, *code).is_finite())
        .filter(|code| sign_fits(code) || (!has_minus_zero && defined(dtype, *code) == 0.0))
        .min_by(|a, b| {
            let distance = |code: &u16| (defined(dtype, *code) - value).abs();
            distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2)))
        })
        .unwrap()
}

#[test]
fn every_code_decodes_to_its_definition() {
    for dtype in MINIFLOATS {
        for code in codes(dtype) {
            let (want, got) = (defined(dtype, code), f64::from(decode(dtype, code)));
            assert!(want == got || want.is_nan() && got.is_nan(), "{dtype} {code:#x}: {want} {got}");
            assert_eq!(want.is_sign_negative() && !want.is_nan(), got.is_sign_negative() && !got.is_nan());
        }
    }
    for code in 0..255 {
        assert_eq!(f64::from(decode(Dtype::E8m0, code)), 2.0_f64.powi(i32::from(code) - 127));
    }
    assert!(decode(Dtype::E8m0, 255).is_nan());
}

#[test]
fn every_code_round_trips() {
    for dtype in MINIFLOATS.into_iter().chain([Dtype::E8m0]) {
        for code in codes(dtype) {
            let value = decode(dtype, code);
            let again = encode(dtype, value);
            if value.is_nan() {
                assert!(decode(dtype, again).is_nan(), "{dtype} {code:#x}");
            } else if value.is_infinite() {
                assert_eq!(f64::from(decode(dtype, again)).abs(), max_finite(dtype).unwrap(), "{dtype} {code:#x}");
            } else {
                assert_eq!(again, code, "{dtype} {value}");
            }
        }
    }
}

#[test]
fn midpoints_tie_to_even_and_their_neighbours_do_not() {
    for dtype in MINIFLOATS {
        let mut values: Vec<f32> = codes(dtype).map(|code| decode(dtype, code)).filter(|v| v.is_finite()).collect();
        values.sort_by(f32::total_cmp);
        values.dedup();
        for pair in values.windows(2) {
            // Exact: the midpoint of two neighbours needs one more bit than they have.
            let middle = (pair[0] + pair[1]) / 2.0;
            for value in [middle, middle.next_up(), middle.next_down(), pair[0].next_up(), pair[1].next_down()] {
                assert_eq!(encode(dtype, value), nearest(dtype, value.into()), "{dtype} {value}");
            }
            if pair[0] != 0.0 || pair[1] != 0.0 {
                assert_eq!(encode(dtype, middle) % 2, 0, "{dtype} {middle}");
                assert_ne!(encode(dtype, middle.next_up()), encode(dtype, middle.next_down()));
            }
        }
    }
}

#[test]
fn beyond_the_largest_saturates() {
    for dtype in MINIFLOATS {
        let largest = max_finite(dtype).unwrap();
        let by_table = codes(dtype).map(|code| defined(dtype, code)).filter(|v| v.is_finite()).fold(0.0, f64::max);
        assert_eq!(largest, by_table);
        for value in [largest as f32 * 1.01, largest as f32 * 2.0, f32::MAX, f32::INFINITY] {
            assert_eq!(f64::from(decode(dtype, encode(dtype, value))), largest, "{dtype} {value}");
            assert_eq!(f64::from(decode(dtype, encode(dtype, -value))), -largest, "{dtype} -{value}");
        }
    }
}

#[test]
fn nan_and_minus_zero() {
    for (dtype, nan, minus_nan, minus_zero) in [
        (Dtype::Fp8E4m3fn, 0x7F, 0xFF, 0x80),
        (Dtype::Fp8E4m3fnuz, 0x80, 0x80, 0x00),
        (Dtype::Fp8E5m2, 0x7F, 0xFF, 0x80),
        (Dtype::Fp8E5m2fnuz, 0x80, 0x80, 0x00),
        (Dtype::Fp4E2m1, 0x7, 0xF, 0x8),
        (Dtype::E8m0, 0xFF, 0xFF, 0x00),
    ] {
        let nan_bits = f32::from_bits(0x7FC0_0000);
        assert_eq!(encode(dtype, nan_bits), nan, "{dtype}");
        assert_eq!(encode(dtype, -nan_bits), minus_nan, "{dtype}");
        assert_eq!(encode(dtype, -0.0), minus_zero, "{dtype}");
        // The smallest negative f32 rounds to minus zero.
        if dtype != Dtype::E8m0 {
            assert_eq!(encode(dtype, -f32::from_bits(1)), minus_zero, "{dtype}");
        }
    }
}

#[test]
fn scales_take_the_nearest_power_of_two() {
    for exponent in -126..127 {
        let power = 2.0_f64.powi(exponent);
        let code = (exponent + 127) as u16;
        assert_eq!(encode(Dtype::E8m0, power as f32), code);
        assert_eq!(encode(Dtype::E8m0, (power * 1.5) as f32), code + 1, "{power}");
        assert_eq!(encode(Dtype::E8m0, ((power * 1.5) as f32).next_down()), code, "{power}");
    }
    let smallest = 2.0_f32.powi(-127);
    for (value, code) in [
        (0.0, 0),
        (f32::from_bits(1), 0),
        (smallest, 0),
        (smallest * 1.5, 1),
        ((smallest * 1.5).next_down(), 0),
        (f32::MAX, 254),
        (f32::INFINITY, 255),
        (-1.0, 255),
        (-f32::from_bits(1), 255),
    ] {
        assert_eq!(encode(Dtype::E8m0, value), code, "{value:e}");
    }
}

#[test]
fn every_16_bit_code_agrees_with_half() {
    let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    for code in 0..=u16::MAX {
        let (brain, half) = (bf16::from_bits(code), f16::from_bits(code));
        assert!(same(decode(Dtype::Bf16, code), brain.to_f32()), "{code:#x}");
        assert!(same(decode(Dtype::F16, code), half.to_f32()), "{code:#x}");
        // A signalling NaN becomes quiet; all else comes back.
        let quiet = |nan: bool, bit: u16| if nan { code | bit } else { code };
        assert_eq!(encode(Dtype::Bf16, brain.to_f32()), quiet(brain.is_nan(), 0x40));
        assert_eq!(encode(Dtype::F16, half.to_f32()), quiet(half.is_nan(), 0x200));
    }
    assert_eq!(encode(Dtype::Bf16, f32::MAX), 0x7F80);
    assert_eq!(encode(Dtype::F16, 65520.0), 0x7C00);
    assert_eq!(encode(Dtype::F16, 65519.996), 0x7BFF);
}

#[test]
fn epsilon_is_the_spacing_at_one() {
    for dtype in MINIFLOATS.into_iter().chain([Dtype::Bf16, Dtype::F16, Dtype::E8m0]) {
        let next = decode(dtype, encode(dtype, 1.0) + 1);
        assert_eq!(f64::from(next) - 1.0, epsilon(dtype), "{dtype}");
    }
}

#[test]
fn setting_rounds_once() {
    // Just above the midpoint of 1 and 1 + 2^-7: rounding to f32 first would land on the midpoint and tie to 1.
    let value = 1.0 + 2.0_f64.powi(-8) + 2.0_f64.powi(-40);
    let mut bytes = [0; 2];
    set(Dtype::Bf16, &mut bytes, 0, value);
    assert_eq!(get(Dtype::Bf16, &bytes, 0), 1.0 + 2.0_f64.powi(-7));
    set(Dtype::Bf16, &mut bytes, 0, -value);
    assert_eq!(get(Dtype::Bf16, &bytes, 0), -1.0 - 2.0_f64.powi(-7));
    for (value, want) in [(f64::MAX, f64::INFINITY), (f64::MIN_POSITIVE, 0.0), (f64::INFINITY, f64::INFINITY)] {
        set(Dtype::Bf16, &mut bytes, 0, value);
        assert_eq!(get(Dtype::Bf16, &bytes, 0), want);
    }
}

#[test]
fn integers_saturate_and_round() {
    for (dtype, value, want) in [
        (Dtype::I8, 300.0, 127.0),
        (Dtype::I8, -2.5, -2.0),
        (Dtype::U8, -1.0, 0.0),
        (Dtype::I16, 40000.0, 32767.0),
        (Dtype::I32, -3e9, -2147483648.0),
        (Dtype::I64, 1e15 + 1.0, 1e15 + 1.0),
        (Dtype::Bool, 2.0, 1.0),
        (Dtype::F64, 0.1, 0.1),
    ] {
        let mut bytes = [0; 16];
        set(dtype, &mut bytes, 1, value);
        assert_eq!(get(dtype, &bytes, 1), want, "{dtype}");
        assert_eq!(get(dtype, &bytes, 0), 0.0, "{dtype}");
    }
}

#[test]
fn slices_do_what_elements_do() {
    let values: Vec<f32> = (0..67).map(|i| (i as f32 - 33.0) * 0.37).collect();
    for dtype in Dtype::all() {
        // Odd firsts and lengths: heads and tails of the packed fp4.
        for (first, count) in [(0, 67), (1, 64), (3, 61), (2, 1), (5, 0)] {
            let size = dtype.bytes(80) as usize;
            let (mut whole, mut single) = (vec![0xA5_u8; size], vec![0xA5_u8; size]);
            encode_slice(dtype, &values[..count], first, &mut whole);
            for (index, value) in values[..count].iter().enumerate() {
                set(dtype, &mut single, first + index, (*value).into());
            }
            assert_eq!(whole, single, "{dtype} {first} {count}");
            let mut decoded = vec![0.0; count];
            decode_slice(dtype, &whole, first, &mut decoded);
            for (index, value) in decoded.iter().enumerate() {
                let want = get(dtype, &whole, first + index) as f32;
                assert!(*value == want || want.is_nan() && value.is_nan(), "{dtype} {index}: {value} {want}");
            }
        }
    }
}

#[test]
fn unaligned_halves_decode() {
    let mut bytes = vec![0_u8];
    bytes.extend([1.5_f32, -2.0, 0.25].iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()));
    let mut decoded = [0.0; 3];
    decode_slice(Dtype::F16, &bytes[1..], 0, &mut decoded);
    assert_eq!(decoded, [1.5, -2.0, 0.25]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_f32_encodes_to_the_nearest(bits in any::<u32>(), exponent in 90u32..140) {
        for bits in [bits, bits & 0x807F_FFFF | exponent << 23] {
            let value = f32::from_bits(bits);
            if value.is_nan() {
                continue;
            }
            for dtype in MINIFLOATS {
                prop_assert_eq!(encode(dtype, value), nearest(dtype, value.into()), "{} {}", dtype, value);
            }
            prop_assert_eq!(encode(Dtype::Bf16, value), bf16::from_f32(value).to_bits());
            let (mut half, mut bytes) = ([f16::ZERO; 9], [0; 18]);
            half.convert_from_f32_slice(&[value; 9]);
            encode_slice(Dtype::F16, &[value; 9], 0, &mut bytes);
            prop_assert_eq!(half[8].to_le_bytes(), [bytes[16], bytes[17]]);
            prop_assert_eq!(half[0], f16::from_f32_const(value));
        }
    }

    #[test]
    fn any_f64_is_rounded_once(value in prop_oneof![-500.0..500.0_f64, -1e-6..1e-6_f64, -1e5..1e5_f64]) {
        for dtype in MINIFLOATS {
            let mut bytes = [0];
            set(dtype, &mut bytes, 0, value);
            prop_assert_eq!(u16::from(bytes[0]), nearest(dtype, value), "{} {}", dtype, value);
        }
    }
}
