//! Types whose products are added one after another (f32, f64, integers) or in pairs (f16 and bf16 of gfx90a).

use super::element::Element;
use super::layout::Tile;
use super::shape::Shape;
use super::{DEPTH, SIDE, fused, inputs, load_c, moved, sparse, store_d};
use crate::exec::{Src, Step, Vreg, Wave};

/// One register's `N` lanes from `lane` on.
///
/// # Safety
/// The register exists.
#[inline(always)]
unsafe fn row<const N: usize>(from: *const Vreg, register: usize, lane: usize) -> [u32; N] {
    // SAFETY: the caller's; lanes are below 64.
    std::array::from_fn(|j| unsafe { (*from.add(register)).0[(lane + j) & 63] })
}

/// A result whose NaN is the plain quiet one: which payload and sign hardware hands on is not documented, and the host's
/// depends on the order of operands.
#[inline(always)]
pub(super) fn plain_nan(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}

fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// f32: `d = fma(a, b, d)` in the order of k. Denormals of A and B are flushed where MODE says so.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
pub(super) unsafe fn f32<const N: usize>(step: &Step, shape: &Shape, wave: &mut Wave) {
    // SAFETY: the caller's.
    let lanes = unsafe { moved(step, shape, wave) };
    // SAFETY: the caller's.
    let (a, b) = unsafe { inputs(step, wave, &lanes) };
    let (keep, clamp) = (wave.mode.denorm_in_f32(), wave.mode.fp16_ovfl());
    let mut c = [[0_u32; N]; SIDE];
    for block in 0..shape.blocks {
        // SAFETY: the caller's.
        unsafe { load_c::<N>(step, shape, wave, block, &mut c) };
        for k in 0..shape.k {
            let (a_item, a_lane) = Tile::operand(shape, shape.m, block, k);
            let (b_item, b_lane) = Tile::operand(shape, shape.n, block, k);
            // SAFETY: items and lanes come from the shape, whose registers exist.
            let (column, values) = unsafe { (row::<SIDE>(a, a_item, a_lane), row::<N>(b, b_item, b_lane)) };
            let values = if keep { values } else { values.map(flush) };
            for (i, words) in c.iter_mut().enumerate().take(shape.m) {
                let left = f32::from_bits(if keep { column[i] } else { flush(column[i]) });
                for j in 0..N {
                    words[j] = left.mul_add(f32::from_bits(values[j]), f32::from_bits(words[j])).to_bits();
                }
            }
        }
        for word in c.iter_mut().take(shape.m).flatten() {
            let value = f32::from_bits(*word);
            let value = if clamp && value.is_infinite() { f32::MAX.copysign(value) } else { value };
            *word = plain_nan(value);
        }
        // SAFETY: the caller's.
        unsafe { store_d::<N>(step, shape, wave, block, &c) };
    }
}

/// f64: the same; BLGP negates A, B and C.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
pub(super) unsafe fn f64<const N: usize>(step: &Step, shape: &Shape, wave: &mut Wave) {
    // SAFETY: the caller's.
    let (a, b) = unsafe { inputs(step, wave, &None) };
    let negate = |bit: u8| u64::from(step.inst.mods.blgp >> bit & 1) << 63;
    let wide = |from: *const Vreg, item: usize, lane: usize| {
        // SAFETY: the caller's; items and lanes come from the shape.
        unsafe {
            u64::from((*from.add(2 * item)).0[lane & 63]) | u64::from((*from.add(2 * item + 1)).0[lane & 63]) << 32
        }
    };
    for block in 0..shape.blocks {
        let mut d = [[0_f64; N]; 16];
        let c = match step.src[2] {
            // SAFETY: the caller's.
            Src::Vgpr(number) => Ok(unsafe { wave.registers(number) }.cast_const()),
            Src::Const(value) => Err(value),
            _ => Err(0),
        };
        for (i, words) in d.iter_mut().enumerate().take(shape.m) {
            let (item, lane) = Tile::accumulator(shape, block, i);
            for (j, value) in words.iter_mut().enumerate() {
                let bits = c.map_or_else(|constant| constant, |from| wide(from, item, lane + j));
                *value = f64::from_bits(bits ^ negate(2));
            }
        }
        for k in 0..shape.k {
            let (a_item, a_lane) = Tile::operand(shape, shape.m, block, k);
            let (b_item, b_lane) = Tile::operand(shape, shape.n, block, k);
            for (i, words) in d.iter_mut().enumerate().take(shape.m) {
                let left = f64::from_bits(wide(a, a_item, a_lane + i) ^ negate(0));
                for (j, value) in words.iter_mut().enumerate() {
                    let right = f64::from_bits(wide(b, b_item, b_lane + j) ^ negate(1));
                    *value = left.mul_add(right, *value);
                }
            }
        }
        // SAFETY: the caller's.
        let to = unsafe { wave.registers(step.dst[0]) };
        for (i, words) in d.iter().enumerate().take(shape.m) {
            let (item, lane) = Tile::accumulator(shape, block, i);
            for (j, value) in words.iter().enumerate() {
                let bits = if value.is_nan() { 0x7ff8 << 48 } else { value.to_bits() };
                // SAFETY: as above.
                unsafe {
                    (*to.add(2 * item)).0[(lane + j) & 63] = bits as u32;
                    (*to.add(2 * item + 1)).0[(lane + j) & 63] = (bits >> 32) as u32;
                }
            }
        }
    }
}

/// i8: exact sums that wrap, or saturate under FP16_OVFL.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
pub(super) unsafe fn integer<const N: usize>(step: &Step, shape: &Shape, wave: &mut Wave) {
    // SAFETY: the caller's.
    let lanes = unsafe { moved(step, shape, wave) };
    // SAFETY: the caller's.
    let (a, b) = unsafe { inputs(step, wave, &lanes) };
    let saturate = wave.mode.fp16_ovfl();
    let byte = |code: u32| i32::from(code as u8 as i8);
    let mut left = [[0_i32; SIDE]; DEPTH];
    let mut c = [[0_u32; N]; SIDE];
    for block in 0..shape.blocks {
        if shape.sparse {
            for column in left.iter_mut().take(shape.k) {
                *column = [0; SIDE];
            }
            // SAFETY: the caller's.
            unsafe { sparse::each(step, shape, wave, a, |k, i, code| left[k][i] = byte(code)) };
        } else {
            for (k, column) in left.iter_mut().enumerate().take(shape.k) {
                let (item, lane) = Tile::operand(shape, shape.m, block, k);
                // SAFETY: items and lanes come from the shape.
                *column = unsafe { fused::codes::<SIDE>(a, Element::I8, item, lane) }.map(byte);
            }
        }
        // SAFETY: the caller's.
        unsafe { load_c::<N>(step, shape, wave, block, &mut c) };
        let start = c;
        for (k, column) in left.iter().enumerate().take(shape.k) {
            let (item, lane) =
                if shape.sparse { sparse::b_place(shape, k) } else { Tile::operand(shape, shape.n, block, k) };
            // SAFETY: items and lanes come from the shape.
            let right = unsafe { fused::codes::<N>(b, Element::I8, item, lane) }.map(byte);
            for (i, words) in c.iter_mut().enumerate().take(shape.m) {
                for j in 0..N {
                    words[j] = words[j].wrapping_add((column[i] * right[j]) as u32);
                }
            }
        }
        if saturate {
            for (words, start) in c.iter_mut().flatten().zip(start.iter().flatten()) {
                // The products of at most 128 bytes fit: the true sum is the start plus the wrapped difference.
                let sum = i64::from(*start as i32) + i64::from(words.wrapping_sub(*start) as i32);
                *words = sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32;
            }
        }
        // SAFETY: the caller's.
        unsafe { store_d::<N>(step, shape, wave, block, &c) };
    }
}

/// f16 and bf16 of gfx90a: groups of four (two for the first bf16 forms) add as `(p0 + p1) + (p2 + p3)`, each sum rounded to
/// f32, then to C. Denormals of inputs, products, sums and results are zero.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
pub(super) unsafe fn pairs<const N: usize>(step: &Step, shape: &Shape, wave: &mut Wave) {
    // SAFETY: the caller's.
    let lanes = unsafe { moved(step, shape, wave) };
    // SAFETY: the caller's.
    let (a, b) = unsafe { inputs(step, wave, &lanes) };
    let layout = shape.a.float(false);
    let tiny = 2_f32.powi(1 - layout.bias);
    // Inputs below the smallest normal number are +0.
    let input = |code: u32| {
        let value = layout.value(code);
        if value.abs() < tiny { 0.0 } else { value }
    };
    let result = |value: f32| f32::from_bits(flush(value.to_bits()));
    let group = if shape.a == Element::Bf16 && shape.a_items() == 2 && shape.a_registers(shape.a) == 1 { 2 } else { 4 };
    let mut left = [[0_f32; SIDE]; DEPTH];
    let mut right = [[0_f32; N]; DEPTH];
    let mut c = [[0_u32; N]; SIDE];
    for block in 0..shape.blocks {
        for k in 0..shape.k {
            let (a_item, a_lane) = Tile::operand(shape, shape.m, block, k);
            let (b_item, b_lane) = Tile::operand(shape, shape.n, block, k);
            // SAFETY: items and lanes come from the shape.
            unsafe {
                left[k] = fused::codes::<SIDE>(a, shape.a, a_item, a_lane).map(input);
                right[k] = fused::codes::<N>(b, shape.b, b_item, b_lane).map(input);
            }
        }
        // SAFETY: the caller's.
        unsafe { load_c::<N>(step, shape, wave, block, &mut c) };
        for (i, words) in c.iter_mut().enumerate().take(shape.m) {
            for j in 0..N {
                let product = |k: usize| result(left[k][i] * right[k][j]);
                let mut total = result(f32::from_bits(words[j]));
                for k in (0..shape.k).step_by(group) {
                    let low = result(product(k) + product(k + 1));
                    let sum = if group == 4 { result(low + result(product(k + 2) + product(k + 3))) } else { low };
                    total = result(total + sum);
                }
                words[j] = plain_nan(total);
            }
        }
        // SAFETY: the caller's.
        unsafe { store_d::<N>(step, shape, wave, block, &c) };
    }
}
