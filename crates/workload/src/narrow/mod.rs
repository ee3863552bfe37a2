//! Codecs of the narrow floats: bf16, fp16, e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, e2m1, e8m0; and of every other dtype, so
//! that a family can treat all tensors alike.
//!
//! Encoding rounds to nearest even. fp8 and fp4 *saturate*: what rounds beyond the largest finite value, infinities
//! included, becomes that value (the saturating conversion of the OCP specifications, which serving stacks use). NaN stays NaN
//! where the format has one; fp4 has none, and there NaN becomes the largest magnitude with NaN's sign, so that an error stays
//! visible instead of vanishing as a zero. bf16 and fp16 overflow to infinity as IEEE 754 says. FNUZ has no minus zero: it
//! becomes zero. e8m0 takes the nearest power of two; negative or non-finite scales become NaN.
//!
//! fp4 packs two elements a byte, the even one in the low nibble. Multi-byte elements are little-endian, as on the device.

mod minifloat;
mod slices;
#[cfg(test)]
mod tests;

pub use slices::{decode_slice, encode_slice};

use crate::dtype::Dtype;
use half::{bf16, f16};
use minifloat::{E2m1, E4m3fn, E4m3fnuz, E5m2, E5m2fnuz};

/// Decodes one element of at most 16 bits from its code (in the low bits of `bits`).
///
/// # Panics
/// On a dtype of 32 or 64 bits: a mistake in the caller, never caused by input.
#[allow(clippy::panic)]
pub fn decode(dtype: Dtype, bits: u16) -> f32 {
    let code = bits as u8;
    match dtype {
        Dtype::Bf16 => bf16::from_bits(bits).to_f32(),
        Dtype::F16 => f16::from_bits(bits).to_f32(),
        Dtype::Fp8E4m3fn => minifloat::decode::<E4m3fn>(code),
        Dtype::Fp8E4m3fnuz => minifloat::decode::<E4m3fnuz>(code),
        Dtype::Fp8E5m2 => minifloat::decode::<E5m2>(code),
        Dtype::Fp8E5m2fnuz => minifloat::decode::<E5m2fnuz>(code),
        Dtype::Fp4E2m1 => minifloat::decode::<E2m1>(code),
        Dtype::E8m0 => minifloat::decode_e8m0(code),
        Dtype::I16 => f32::from(bits as i16),
        Dtype::I8 => f32::from(code as i8),
        Dtype::U8 => f32::from(code),
        Dtype::Bool => f32::from(u8::from(code != 0)),
        Dtype::F64 | Dtype::F32 | Dtype::I64 | Dtype::I32 => panic!("{dtype} does not fit 16 bits"),
    }
}

/// Encodes one element of at most 16 bits (see the module's rounding rules; integers round to nearest even and saturate).
///
/// # Panics
/// On a dtype of 32 or 64 bits: a mistake in the caller, never caused by input.
#[allow(clippy::panic)]
pub fn encode(dtype: Dtype, value: f32) -> u16 {
    match dtype {
        Dtype::Bf16 => slices::encode_bf16(value),
        Dtype::F16 => f16::from_f32(value).to_bits(),
        Dtype::Fp8E4m3fn => minifloat::encode::<E4m3fn>(value).into(),
        Dtype::Fp8E4m3fnuz => minifloat::encode::<E4m3fnuz>(value).into(),
        Dtype::Fp8E5m2 => minifloat::encode::<E5m2>(value).into(),
        Dtype::Fp8E5m2fnuz => minifloat::encode::<E5m2fnuz>(value).into(),
        Dtype::Fp4E2m1 => minifloat::encode::<E2m1>(value).into(),
        Dtype::E8m0 => minifloat::encode_e8m0(value).into(),
        Dtype::I16 => value.round_ties_even() as i16 as u16,
        Dtype::I8 => u16::from(value.round_ties_even() as i8 as u8),
        Dtype::U8 => u16::from(value.round_ties_even() as u8),
        Dtype::Bool => u16::from(value != 0.0),
        Dtype::F64 | Dtype::F32 | Dtype::I64 | Dtype::I32 => panic!("{dtype} does not fit 16 bits"),
    }
}

/// Element `index` of packed `bytes`, exactly (i64 beyond 2^53 is rounded).
///
/// # Panics
/// When the element lies outside `bytes`.
pub fn get(dtype: Dtype, bytes: &[u8], index: usize) -> f64 {
    match dtype {
        Dtype::F64 => f64::from_le_bytes(element(bytes, index)),
        Dtype::F32 => f32::from_le_bytes(element(bytes, index)).into(),
        Dtype::I64 => i64::from_le_bytes(element(bytes, index)) as f64,
        Dtype::I32 => i32::from_le_bytes(element(bytes, index)).into(),
        Dtype::Fp4E2m1 => decode(dtype, u16::from(bytes[index / 2] >> (index % 2 * 4) & 15)).into(),
        _ if dtype.bits() == 16 => decode(dtype, u16::from_le_bytes(element(bytes, index))).into(),
        _ => decode(dtype, bytes[index].into()).into(),
    }
}

/// Sets element `index` of packed `bytes`, rounding once from f64.
///
/// # Panics
/// When the element lies outside `bytes`.
pub fn set(dtype: Dtype, bytes: &mut [u8], index: usize, value: f64) {
    match dtype {
        Dtype::F64 => set_element(bytes, index, value.to_le_bytes()),
        Dtype::F32 => set_element(bytes, index, (value as f32).to_le_bytes()),
        Dtype::I64 => set_element(bytes, index, (value.round_ties_even() as i64).to_le_bytes()),
        Dtype::I32 => set_element(bytes, index, (value.round_ties_even() as i32).to_le_bytes()),
        Dtype::Fp4E2m1 => {
            let shift = index % 2 * 4;
            let code = encode(dtype, round_to_odd(value)) as u8;
            bytes[index / 2] = bytes[index / 2] & !(15 << shift) | code << shift;
        }
        _ if dtype.bits() == 16 => set_element(bytes, index, encode(dtype, round_to_odd(value)).to_le_bytes()),
        _ => bytes[index] = encode(dtype, round_to_odd(value)) as u8,
    }
}

fn element<const N: usize>(bytes: &[u8], index: usize) -> [u8; N] {
    let mut element = [0; N];
    element.copy_from_slice(&bytes[index * N..(index + 1) * N]);
    element
}

fn set_element<const N: usize>(bytes: &mut [u8], index: usize, element: [u8; N]) {
    bytes[index * N..(index + 1) * N].copy_from_slice(&element);
}

/// Converts to f32 so that rounding the result to any format of at most 22 mantissa bits rounds `value` once: inexact results
/// get an odd last bit, and so never look like a tie that they are not.
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    let away = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(away)) | 1)
}

/// The largest finite value; `None` for integers.
pub fn max_finite(dtype: Dtype) -> Option<f64> {
    match dtype {
        Dtype::F64 => Some(f64::MAX),
        Dtype::F32 => Some(f32::MAX.into()),
        Dtype::Bf16 => Some(bf16::MAX.to_f64()),
        Dtype::F16 => Some(65504.0),
        Dtype::Fp8E4m3fn => Some(448.0),
        Dtype::Fp8E4m3fnuz => Some(240.0),
        Dtype::Fp8E5m2 | Dtype::Fp8E5m2fnuz => Some(57344.0),
        Dtype::Fp4E2m1 => Some(6.0),
        Dtype::E8m0 => Some(2.0_f64.powi(127)),
        Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 | Dtype::U8 | Dtype::Bool => None,
    }
}

/// The spacing of values from 1.0 upwards (1.0 for integers and for powers of two).
pub fn epsilon(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => f64::EPSILON,
        Dtype::F32 => f32::EPSILON.into(),
        Dtype::Bf16 => 2.0_f64.powi(-7),
        Dtype::F16 => 2.0_f64.powi(-10),
        Dtype::Fp8E4m3fn | Dtype::Fp8E4m3fnuz => 0.125,
        Dtype::Fp8E5m2 | Dtype::Fp8E5m2fnuz => 0.25,
        Dtype::Fp4E2m1 => 0.5,
        Dtype::E8m0 | Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 | Dtype::U8 | Dtype::Bool => 1.0,
    }
}
