//! Narrow floats on CDNA3: a group of products is added at once. Each product is exact; all are aligned to the largest exponent
//! of the group, cut toward zero at 24 fraction bits, and added; the sum (floored at 31 bits) and C (floored at 24) are
//! aligned to the larger exponent, added, and rounded to nearest even. The next group starts from that. Groups are 8 products
//! deep (f16, bf16), 4 (xf32) or 16 (8-bit types, whose even and odd products are added apart and then joined, floored at
//! 24 bits, and which drop a C that is far smaller). Found by bit-exact comparison with hardware by others (facts, section 2.8).
//!
//! Here it is done in integers, all columns of a row side by side, for every host and every number; `wide` has the same for
//! hosts with AVX-512 and numbers of ordinary size.

use super::element::{Element, Layout, Top};
use super::layout::Tile;
use super::shape::Shape;
use super::{CDNA, DEPTH, SIDE, inputs, load_c, moved, sparse, store_d};
use crate::exec::{Step, Vreg, Wave};
use crate::isa::Arch;

/// An exponent below that of every product: zeros have it, so that they never set the alignment.
const NOTHING: i32 = -4096;
/// Marks infinities and NaN.
const SPECIAL: i32 = 4096;

/// Significands and exponents of one k, for all rows or columns. A number is `magnitude * 2^(exponent - mantissa bits)`.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    /// Signed significand.
    pub(super) value: [i32; SIDE],
    pub(super) exponent: [i32; SIDE],
}

/// A whole operand: as many rows as the shape is deep.
pub(super) type Operand = [std::mem::MaybeUninit<Parts>; DEPTH];

/// Splits codes of `N` neighbouring lanes.
#[inline(always)]
pub(super) fn split<const N: usize>(layout: Layout, codes: &[u32; N], out: &mut Parts) -> bool {
    let (mantissa, width) = (layout.mantissa, layout.exponent);
    let last = (1_u32 << width) - 1;
    let full = (1_u32 << mantissa) - 1;
    // A code is special when its fields, under the masks, are these: numbers instead of cases, so that lanes vectorise.
    let (special_field, fraction_mask, special_fraction, sign_mask) = match layout.top {
        Top::Ieee => (last, 0, 0, 0),
        Top::OnlyNan => (last, full, full, 0),
        Top::NegativeZeroIsNan => (0, full, 0, 1),
        Top::None => (u32::MAX, 0, 0, 0),
    };
    let mut any = 0_u32;
    for j in 0..N {
        let code = codes[j];
        let sign = code >> (width + mantissa) & 1;
        let field = code >> mantissa & last;
        let fraction = code & full;
        let normal = u32::from(field != 0);
        let significand = (fraction | normal << mantissa) as i32;
        let special = u32::from(field == special_field)
            & u32::from(fraction & fraction_mask == special_fraction)
            & u32::from(sign & sign_mask == sign_mask);
        any |= special;
        out.value[j] = (significand ^ (sign as i32).wrapping_neg()) + sign as i32;
        let exponent = field.max(1) as i32 - layout.bias;
        let exponent = if significand == 0 { NOTHING } else { exponent };
        out.exponent[j] = if special != 0 { SPECIAL } else { exponent };
    }
    any != 0
}

/// The codes of item `item` in `N` lanes from `lane` on.
///
/// # Safety
/// The item's register exists.
#[inline(always)]
pub(super) unsafe fn codes<const N: usize>(from: *const Vreg, element: Element, item: usize, lane: usize) -> [u32; N] {
    let bits = element.bits();
    let (register, shift) = (item * bits / 32, item * bits % 32);
    let mut out = [0; N];
    // SAFETY: the caller's.
    let row = unsafe { super::lanes::<N>(from, register, lane) };
    for j in 0..N {
        let word = row[j];
        out[j] = match element {
            Element::Xf32 => word >> 13,
            _ if bits == 16 => word >> shift & 0xffff,
            _ => word >> shift & 0xff,
        };
    }
    out
}

/// Runs a dense or sparse instruction.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
pub(super) unsafe fn run<const N: usize>(step: &Step, shape: &Shape, wave: &mut Wave) {
    let ocp = step.aux[CDNA] == Arch::Gfx950 as u8;
    let (a_layout, b_layout) = (shape.a.float(ocp), shape.b.float(ocp));
    let clamp = wave.mode.fp16_ovfl();
    // SAFETY: the caller's.
    let lanes = unsafe { moved(step, shape, wave) };
    // SAFETY: the caller's.
    let (a_registers, b_registers) = unsafe { inputs(step, wave, &lanes) };
    let mut a: Operand = [const { std::mem::MaybeUninit::uninit() }; DEPTH];
    let mut b: Operand = [const { std::mem::MaybeUninit::uninit() }; DEPTH];
    let mut c = [[0_u32; N]; SIDE];
    for block in 0..shape.blocks {
        let mut special = false;
        for k in 0..shape.k {
            let empty = Parts { value: [0; SIDE], exponent: [NOTHING; SIDE] };
            // SAFETY: items and lanes come from the shape, whose registers exist.
            unsafe {
                let (item, lane) =
                    if shape.sparse { sparse::b_place(shape, k) } else { Tile::operand(shape, shape.n, block, k) };
                let column = codes::<N>(b_registers, shape.b, item, lane);
                special |= split(b_layout, &column, b[k].write(empty));
                if !shape.sparse {
                    let (item, lane) = Tile::operand(shape, shape.m, block, k);
                    let row = codes::<N>(a_registers, shape.a, item, lane);
                    special |= split(a_layout, &row, a[k].write(empty));
                }
            }
        }
        if shape.sparse {
            // SAFETY: the caller's.
            unsafe {
                for parts in a.iter_mut().take(shape.k) {
                    parts.write(Parts { value: [0; SIDE], exponent: [NOTHING; SIDE] });
                }
                sparse::each(step, shape, wave, a_registers, |k, row, code| {
                    let mut one = Parts { value: [0; SIDE], exponent: [NOTHING; SIDE] };
                    special |= split::<1>(a_layout, &[code], &mut one);
                    let parts = a[k].assume_init_mut();
                    (parts.value[row], parts.exponent[row]) = (one.value[0], one.exponent[0]);
                });
            }
        }
        // SAFETY: the caller's; every k below the depth has been written.
        unsafe {
            load_c::<N>(step, shape, wave, block, &mut c);
            let (a, b) = (filled(&a, shape.k), filled(&b, shape.k));
            multiply::<N>(shape, a_layout, b_layout, a, b, &mut c, special);
            if clamp {
                clamp_infinities(&mut c);
            }
            store_d::<N>(step, shape, wave, block, &c);
        }
    }
}

/// The written part of an operand.
///
/// # Safety
/// The first `depth` rows have been written.
#[inline(always)]
unsafe fn filled(operand: &Operand, depth: usize) -> &[Parts] {
    // SAFETY: the caller's; `MaybeUninit<Parts>` has the layout of `Parts`.
    unsafe { std::slice::from_raw_parts(operand.as_ptr().cast(), depth) }
}

/// FP16_OVFL: infinities become the largest number.
fn clamp_infinities<const N: usize>(rows: &mut [[u32; N]; SIDE]) {
    for word in rows.iter_mut().flatten() {
        let value = f32::from_bits(*word);
        if value.is_infinite() {
            *word = f32::MAX.copysign(value).to_bits();
        }
    }
}

/// How many products are added at once, and whether its even and odd ones are first added apart.
#[inline]
pub(super) fn group(shape: &Shape) -> (usize, bool) {
    match shape.a.bits() {
        8 => (16, true),
        32 => (4, false),
        _ => (8.min(shape.k), false),
    }
}

#[inline(always)]
fn multiply<const N: usize>(
    shape: &Shape,
    a_layout: Layout,
    b_layout: Layout,
    a: &[Parts],
    b: &[Parts],
    c: &mut [[u32; N]; SIDE],
    special: bool,
) {
    let bits = a_layout.mantissa + b_layout.mantissa;
    let (group, split) = group(shape);
    for (row, words) in c.iter_mut().enumerate().take(shape.m) {
        for (a, b) in a.chunks(group).zip(b.chunks(group)) {
            let done = !special && {
                if split { joined::<N>(row, bits, a, b, words) } else { aligned::<N>(row, bits, a, b, words) }
            };
            if !done {
                slowly::<N>(row, bits, split, a, b, words);
            }
        }
    }
}

/// The largest exponent of the group's products, by column.
#[inline(always)]
fn largest<const N: usize>(row: usize, a: &[Parts], b: &[Parts]) -> [i32; N] {
    let mut most = [2 * NOTHING; N];
    for (a, b) in a.iter().zip(b) {
        let exponent = a.exponent[row];
        for j in 0..N {
            most[j] = most[j].max(exponent + b.exponent[j]);
        }
        // Otherwise compilers vectorise over k, with gathers, instead of over the columns.
        std::hint::black_box(&mut most);
    }
    most
}

/// The sum of products cut at 24 fraction bits below `most`, in units of 2^(most - 24).
#[inline(always)]
fn sum<const N: usize>(row: usize, bits: u32, a: &[Parts], b: &[Parts], most: &[i32; N]) -> [i32; N] {
    let mut sums = [0_i32; N];
    for (a, b) in a.iter().zip(b) {
        let (value, exponent) = (a.value[row], a.exponent[row]);
        for j in 0..N {
            // At most 22 bits and the shift up to 24: below 2^27.
            let product = (value * b.value[j]) << (24 - bits);
            let down = (most[j] - exponent - b.exponent[j]).min(31);
            // Cut toward zero: the magnitude is shifted.
            let magnitude = product.unsigned_abs() >> down;
            sums[j] += if product < 0 { -(magnitude as i32) } else { magnitude as i32 };
        }
    }
    sums
}

/// Adds a group to C; false when a product overflows or C is special, so that the slow form has to decide.
#[inline(always)]
fn aligned<const N: usize>(row: usize, bits: u32, a: &[Parts], b: &[Parts], c: &mut [u32; N]) -> bool {
    let most = largest::<N>(row, a, b);
    if !ordinary(&most, c) {
        return false;
    }
    let sums = sum::<N>(row, bits, a, b, &most);
    for j in 0..N {
        c[j] = join(f64::from(sums[j]), most[j], c[j], false);
    }
    true
}

/// The same for 8-bit types.
#[inline(always)]
fn joined<const N: usize>(row: usize, bits: u32, a: &[Parts], b: &[Parts], c: &mut [u32; N]) -> bool {
    let mut halves_a = [[a[0]; 8]; 2];
    let mut halves_b = [[b[0]; 8]; 2];
    let depth = a.len() / 2;
    for k in 0..depth {
        for odd in 0..2 {
            halves_a[odd][k] = a[2 * k + odd];
            halves_b[odd][k] = b[2 * k + odd];
        }
    }
    let even = largest::<N>(row, &halves_a[0][..depth], &halves_b[0][..depth]);
    let odd = largest::<N>(row, &halves_a[1][..depth], &halves_b[1][..depth]);
    if !ordinary(&even, c) || !ordinary(&odd, c) {
        return false;
    }
    let even_sum = sum::<N>(row, bits, &halves_a[0][..depth], &halves_b[0][..depth], &even);
    let odd_sum = sum::<N>(row, bits, &halves_a[1][..depth], &halves_b[1][..depth], &odd);
    for j in 0..N {
        let most = even[j].max(odd[j]);
        // An arithmetic shift floors.
        let total = (even_sum[j] >> (most - even[j]).min(31)) + (odd_sum[j] >> (most - odd[j]).min(31));
        c[j] = join(f64::from(total), most, c[j], true);
    }
    true
}

/// True when no product can overflow and no C is infinite or NaN.
#[inline(always)]
fn ordinary<const N: usize>(most: &[i32; N], c: &[u32; N]) -> bool {
    let mut fine = true;
    for j in 0..N {
        // A product of exponent e is below 2^(e + 2).
        fine &= most[j] < 126;
        fine &= c[j] & 0x7f80_0000 != 0x7f80_0000;
    }
    fine
}

/// 2^exponent for exponents of normal doubles.
#[inline(always)]
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The sum `sum * 2^(most - 24)` and C, aligned, added and rounded. All in f64, exact: the aligned terms span less than 53 bits.
#[inline(always)]
fn join(sum: f64, most: i32, c: u32, drop: bool) -> u32 {
    let value = f64::from(f32::from_bits(c));
    let field = (c >> 23 & 0xff) as i32;
    // Denormals have the smallest exponent, zero has none.
    let exponent = if c & 0x7fff_ffff == 0 { 2 * NOTHING } else { field.max(1) - 127 };
    let top = most.max(exponent).max(-400);
    let near = (most - top).max(-100);
    let total = (sum * power(near + 7)).floor();
    let addend = if drop && exponent < top - 25 { 0.0 } else { (value * power(24 - top)).floor() };
    // In units of 2^(top - 31) and 2^(top - 24).
    let result = (total * power(-7) + addend) * power(top - 24);
    let result = result as f32;
    // A sum of nothing keeps C's bits, the sign of zero included.
    if sum == 0.0 && value == 0.0 { if c >> 31 == 1 && most <= NOTHING { c } else { 0 } } else { result.to_bits() }
}

/// One row with infinities, NaN or overflow, by definition.
#[cold]
#[inline(never)]
fn slowly<const N: usize>(row: usize, bits: u32, split: bool, a: &[Parts], b: &[Parts], c: &mut [u32; N]) {
    for j in 0..N {
        c[j] = one(row, j, bits, split, a, b, c[j]);
    }
}

fn one(row: usize, column: usize, bits: u32, split: bool, a: &[Parts], b: &[Parts], c: u32) -> u32 {
    let c_value = f32::from_bits(c);
    let mut infinite: Option<f64> = None;
    let mut nan = c_value.is_nan();
    let add_infinity = |sign: f64, infinite: &mut Option<f64>, nan: &mut bool| {
        if infinite.is_some_and(|other| other != sign) {
            *nan = true;
        }
        *infinite = Some(sign);
    };
    if c_value.is_infinite() {
        add_infinity(f64::from(c_value.signum()), &mut infinite, &mut nan);
    }
    let limit = 2_f64.powi(128);
    for (a, b) in a.iter().zip(b) {
        let (ea, eb) = (a.exponent[row], b.exponent[column]);
        let (va, vb) = (a.value[row], b.value[column]);
        let special = |exponent: i32, value: i32| (exponent == SPECIAL).then(|| is_nan(value));
        match (special(ea, va), special(eb, vb)) {
            (Some(true), _) | (_, Some(true)) => nan = true,
            (Some(_), None) if vb == 0 => nan = true,
            (None, Some(_)) if va == 0 => nan = true,
            (None, None) => {
                let product = f64::from(va) * f64::from(vb) * 2_f64.powi((ea + eb).max(-2000) - bits as i32);
                if product.abs() >= limit {
                    add_infinity(product.signum(), &mut infinite, &mut nan);
                }
            }
            _ => add_infinity(f64::from(va.signum() * vb.signum()), &mut infinite, &mut nan),
        }
    }
    if nan {
        return 0x7fc0_0000;
    }
    if let Some(sign) = infinite {
        return (f32::INFINITY * sign as f32).to_bits();
    }
    let mut words = [c; 1];
    let column_only: Vec<Parts> = b.iter().map(|parts| column_of(parts, column)).collect();
    // All finite and no overflow: the fast arithmetic holds, whatever its guard says.
    let most = |from: usize, by: usize| {
        (from..a.len())
            .step_by(by)
            .map(|k| a[k].exponent[row] + column_only[k].exponent[0])
            .max()
            .unwrap_or(2 * NOTHING)
    };
    let sums = |from: usize, by: usize, most: i32| {
        (from..a.len())
            .step_by(by)
            .map(|k| sum::<1>(row, bits, &a[k..=k], &column_only[k..=k], &[most])[0])
            .sum::<i32>()
    };
    if split {
        let (even, odd) = (most(0, 2), most(1, 2));
        let top = even.max(odd);
        let total = (sums(0, 2, even) >> (top - even).min(31)) + (sums(1, 2, odd) >> (top - odd).min(31));
        words[0] = join(f64::from(total), top, c, true);
    } else {
        let top = most(0, 1);
        words[0] = join(f64::from(sums(0, 1, top)), top, c, false);
    }
    words[0]
}

/// Whether a special number with this significand is NaN: infinity has the hidden bit alone, and the NaN of the 8-bit types
/// that write it as -0 has none.
fn is_nan(value: i32) -> bool {
    value.unsigned_abs().count_ones() != 1
}

/// A column of an operand, as column 0.
fn column_of(parts: &Parts, column: usize) -> Parts {
    let mut one = *parts;
    one.value[0] = parts.value[column];
    one.exponent[0] = parts.exponent[column];
    one
}
