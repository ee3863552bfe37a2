//! Whole slices at once, with the widest vectors the CPU has.

use super::minifloat::{self, E2m1, E4m3fn, E4m3fnuz, E5m2, E5m2fnuz, Minifloat};
use crate::dtype::Dtype;
use half::f16;
use half::slice::HalfFloatSliceExt;
use pulp::Arch;

static E2M1_PAIRS: [[f32; 2]; 256] = minifloat::table_e2m1_pairs();

/// Decodes elements `first..first + out.len()` of packed `bytes` into f32. f64 and wide integers are rounded to f32.
///
/// # Panics
/// When an element lies outside `bytes`.
pub fn decode_slice(dtype: Dtype, bytes: &[u8], first: usize, out: &mut [f32]) {
    if dtype == Dtype::Fp4E2m1 {
        return decode_e2m1(bytes, first, out);
    }
    let size = (dtype.bits() / 8) as usize;
    let bytes = &bytes[first * size..(first + out.len()) * size];
    match dtype {
        Dtype::Bf16 => map_in(bytes, out, |b: [u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)),
        Dtype::F16 => match bytemuck::try_cast_slice::<u8, f16>(bytes) {
            Ok(halves) => halves.convert_to_f32_slice(out),
            Err(_) => map_in(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
        },
        Dtype::F32 => map_in(bytes, out, f32::from_le_bytes),
        Dtype::F64 => map_in(bytes, out, |b| f64::from_le_bytes(b) as f32),
        Dtype::Fp8E4m3fn => map_in(bytes, out, |[b]: [u8; 1]| minifloat::decode::<E4m3fn>(b)),
        Dtype::Fp8E4m3fnuz => map_in(bytes, out, |[b]: [u8; 1]| minifloat::decode::<E4m3fnuz>(b)),
        Dtype::Fp8E5m2 => map_in(bytes, out, |[b]: [u8; 1]| minifloat::decode::<E5m2>(b)),
        Dtype::Fp8E5m2fnuz => map_in(bytes, out, |[b]: [u8; 1]| minifloat::decode::<E5m2fnuz>(b)),
        Dtype::E8m0 => map_in(bytes, out, |[b]: [u8; 1]| minifloat::decode_e8m0(b)),
        Dtype::I64 => map_in(bytes, out, |b| i64::from_le_bytes(b) as f32),
        Dtype::I32 => map_in(bytes, out, |b| i32::from_le_bytes(b) as f32),
        Dtype::I16 => map_in(bytes, out, |b| i16::from_le_bytes(b).into()),
        Dtype::I8 => map_in(bytes, out, |[b]: [u8; 1]| f32::from(b as i8)),
        Dtype::U8 => map_in(bytes, out, |[b]: [u8; 1]| f32::from(b)),
        Dtype::Bool => map_in(bytes, out, |[b]: [u8; 1]| f32::from(u8::from(b != 0))),
        Dtype::Fp4E2m1 => {}
    }
}

/// Encodes `values` into elements `first..first + values.len()` of packed `bytes`, by the module's rounding rules.
///
/// # Panics
/// When an element lies outside `bytes`.
pub fn encode_slice(dtype: Dtype, values: &[f32], first: usize, bytes: &mut [u8]) {
    if dtype == Dtype::Fp4E2m1 {
        return encode_e2m1(values, first, bytes);
    }
    let size = (dtype.bits() / 8) as usize;
    let bytes = &mut bytes[first * size..(first + values.len()) * size];
    match dtype {
        Dtype::Bf16 => map_out(values, bytes, |v| encode_bf16(v).to_le_bytes()),
        Dtype::F16 => match bytemuck::try_cast_slice_mut::<u8, f16>(bytes) {
            Ok(halves) => halves.convert_from_f32_slice(values),
            Err(_) => map_out(values, bytes, |v| f16::from_f32(v).to_le_bytes()),
        },
        Dtype::F32 => map_out(values, bytes, f32::to_le_bytes),
        Dtype::F64 => map_out(values, bytes, |v| f64::from(v).to_le_bytes()),
        Dtype::Fp8E4m3fn => encode_minifloat::<E4m3fn>(values, bytes),
        Dtype::Fp8E4m3fnuz => encode_minifloat::<E4m3fnuz>(values, bytes),
        Dtype::Fp8E5m2 => encode_minifloat::<E5m2>(values, bytes),
        Dtype::Fp8E5m2fnuz => encode_minifloat::<E5m2fnuz>(values, bytes),
        Dtype::E8m0 => map_out(values, bytes, |v| [minifloat::encode_e8m0(v)]),
        Dtype::I64 => map_out(values, bytes, |v| (v.round_ties_even() as i64).to_le_bytes()),
        Dtype::I32 => map_out(values, bytes, |v| (v.round_ties_even() as i32).to_le_bytes()),
        Dtype::I16 => map_out(values, bytes, |v| (v.round_ties_even() as i16).to_le_bytes()),
        Dtype::I8 => map_out(values, bytes, |v| (v.round_ties_even() as i8).to_le_bytes()),
        Dtype::U8 => map_out(values, bytes, |v| [v.round_ties_even() as u8]),
        Dtype::Bool => map_out(values, bytes, |v| [u8::from(v != 0.0)]),
        Dtype::Fp4E2m1 => {}
    }
}

/// Round to nearest even; NaN keeps its sign and upper payload and becomes quiet.
#[inline(always)]
pub(super) fn encode_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16) as u16;
    let nan = (bits >> 16) as u16 | 0x40;
    if bits & 0x7FFF_FFFF > 0x7F80_0000 { nan } else { rounded }
}

#[inline(always)]
fn map_in<const N: usize>(bytes: &[u8], out: &mut [f32], decode: impl Fn([u8; N]) -> f32) {
    let (elements, _) = bytes.as_chunks::<N>();
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (value, element) in out.iter_mut().zip(elements) {
                *value = decode(*element);
            }
        },
    );
}

#[inline(always)]
fn map_out<const N: usize>(values: &[f32], bytes: &mut [u8], encode: impl Fn(f32) -> [u8; N]) {
    let (elements, _) = bytes.as_chunks_mut::<N>();
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (element, value) in elements.iter_mut().zip(values) {
                *element = encode(*value);
            }
        },
    );
}

fn encode_minifloat<F: Minifloat>(values: &[f32], bytes: &mut [u8]) {
    map_out(values, bytes, |value| [minifloat::encode::<F>(value)]);
}

fn decode_e2m1(bytes: &[u8], first: usize, out: &mut [f32]) {
    let (head, rest) = out.split_at_mut((first % 2).min(out.len()));
    for value in head {
        *value = E2M1_PAIRS[usize::from(bytes[first / 2])][1];
    }
    let bytes = &bytes[first.div_ceil(2)..];
    let (pairs, tail) = rest.as_chunks_mut::<2>();
    let (whole, last) = bytes.split_at(pairs.len());
    for (pair, byte) in pairs.iter_mut().zip(whole) {
        *pair = E2M1_PAIRS[usize::from(*byte)];
    }
    for value in tail {
        *value = E2M1_PAIRS[usize::from(last[0])][0];
    }
}

fn encode_e2m1(values: &[f32], first: usize, bytes: &mut [u8]) {
    let (head, rest) = values.split_at((first % 2).min(values.len()));
    for value in head {
        let byte = &mut bytes[first / 2];
        *byte = *byte & 0x0F | minifloat::encode::<E2m1>(*value) << 4;
    }
    let bytes = &mut bytes[first.div_ceil(2)..];
    let (pairs, tail) = rest.as_chunks::<2>();
    let (whole, last) = bytes.split_at_mut(pairs.len());
    for (byte, [even, odd]) in whole.iter_mut().zip(pairs) {
        *byte = minifloat::encode::<E2m1>(*even) | minifloat::encode::<E2m1>(*odd) << 4;
    }
    for value in tail {
        last[0] = last[0] & 0xF0 | minifloat::encode::<E2m1>(*value);
    }
}
