//! What [`fused`](super::fused) does, for 16 columns at a time with AVX-512: dense forms of 16 or 32 rows and columns.
//!
//! A product of two numbers of these types is exact in f32. Scaled by the power of two that makes the group's largest
//! exponent 24, it is cut toward zero by the conversion to an integer, and integers add exactly. The sum and C are joined in
//! 64-bit integers, whose conversion to f32 is the one rounding. Exponents have to lie in the middle of f32's range for
//! that ([`LEAST`] to [`MOST`]); numbers beyond it, infinities and NaN leave the whole instruction to `fused`.

use super::element::{Element, Layout, Top};
use super::layout::Tile;
use super::shape::{Accumulator, Shape};
use super::{CDNA, SIDE, fused, inputs};
use crate::exec::{Compiler, Env, Flow, Handler, Level, Src, Step, Vreg, Wave};
use crate::isa::{Arch, Inst, Op};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::sync::{LazyLock, OnceLock};

/// Exponents of products and of C for which every step is exact: products that f32 cannot hold are then cut to 0 anyway, and
/// no power of two that is used is a denormal.
const LEAST: i32 = -90;
const MOST: i32 = 40;
/// The exponent of 0: so low that it never sets the alignment.
const NOTHING: i32 = -4096;
/// Fraction bits of an aligned product.
const FRACTION: i32 = 24;
/// Further fraction bits of an aligned sum.
const SUM_FRACTION: u32 = 7;
/// Lanes of a vector.
const LANES: usize = 16;
/// Values of k, over all blocks, and rows, over all blocks.
const DEEPEST: usize = 32;
const ROWS: usize = 64;
/// Words of C over all blocks.
const WORDS: usize = 2048;

/// The handler of an instruction that this way is for.
pub(super) fn handler(c: &Compiler, inst: &Inst, shape: &Shape) -> Option<Handler> {
    let narrow = !matches!(shape.a, Element::F32 | Element::F64 | Element::I8);
    let fits = !shape.sparse && !shape.mixed && shape.accumulator == Accumulator::F32 && matches!(shape.n, 16 | 32);
    let small = shape.k * shape.blocks <= DEEPEST && shape.m * shape.blocks <= ROWS;
    let pairs = c.arch == Arch::Gfx90a;
    let still = (inst.mods.cbsz | inst.mods.blgp) == 0;
    if c.level != Level::V4 || !narrow || !fits || !small || !still || pairs || shape.m != shape.n {
        return None;
    }
    match fused::group(shape) {
        (4, false) => Some(run::<4, false>),
        (8, false) => Some(run::<8, false>),
        (16, true) => Some(run::<16, true>),
        _ => None,
    }
}

/// Where a run of lanes is.
#[derive(Clone, Copy, Default)]
struct Place {
    register: u8,
    /// Bit of the register where the value begins.
    shift: u8,
    lane: u8,
}

/// What an operation needs at run time.
struct Plan {
    shape: Shape,
    a: [Place; DEEPEST],
    b: [Place; DEEPEST],
    rows: [Place; ROWS],
}

impl Plan {
    fn new(shape: Shape) -> Self {
        let place = |(item, lane): (usize, usize), bits: usize| Place {
            register: (item * bits / 32) as u8,
            shift: (item * bits % 32) as u8,
            lane: lane as u8,
        };
        let (mut a, mut b, mut rows) =
            ([Place::default(); DEEPEST], [Place::default(); DEEPEST], [Place::default(); ROWS]);
        for block in 0..shape.blocks {
            for k in 0..shape.k {
                a[block * shape.k + k] = place(Tile::operand(&shape, shape.m, block, k), shape.a.bits());
                b[block * shape.k + k] = place(Tile::operand(&shape, shape.n, block, k), shape.b.bits());
            }
            for row in 0..shape.m {
                rows[block * shape.m + row] = place(Tile::accumulator(&shape, block, row), 32);
            }
        }
        Self { shape, a, b, rows }
    }

    fn of(op: Op) -> Option<&'static Self> {
        static PLANS: LazyLock<Vec<OnceLock<Option<Plan>>>> =
            LazyLock::new(|| (0..Op::COUNT).map(|_| OnceLock::new()).collect());
        PLANS.get(op as usize)?.get_or_init(|| Shape::of(op).map(Plan::new)).as_ref()
    }
}

/// Values and exponents of all rows or columns for one k.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Numbers {
    value: [f32; SIDE],
    exponent: [i32; SIDE],
}

/// All of A, or of B, of a block.
type Operand = [MaybeUninit<Numbers>; DEEPEST];

/// `G` products are added at once; `APART`: first the even ones and the odd ones.
///
/// # Safety
/// As [`Handler`] asks.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run<const G: usize, const APART: bool>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let Some(plan) = Plan::of(step.op) else { return Flow::Next };
    // SAFETY: this handler's; the fallback is of the same level.
    unsafe {
        if multiply::<G, APART>(plan, step, wave) {
            Flow::Next
        } else {
            super::multiply::v4::<{ super::FUSED }>(step, wave, env)
        }
    }
}

/// Runs a step; false where this way leaves it to the other one.
///
/// # Safety
/// As [`Handler`] asks.
#[cfg(test)]
pub(super) unsafe fn alone(step: &Step, wave: &mut Wave) -> bool {
    let Some(plan) = Plan::of(step.op) else { return false };
    // SAFETY: the caller's.
    unsafe {
        match fused::group(&plan.shape) {
            (4, false) => multiply::<4, false>(plan, step, wave),
            (8, false) => multiply::<8, false>(plan, step, wave),
            (16, true) => multiply::<16, true>(plan, step, wave),
            _ => false,
        }
    }
}

/// Writes D; false, without having written anything, where the numbers are not ordinary.
///
/// # Safety
/// The step's registers exist.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn multiply<const G: usize, const APART: bool>(plan: &Plan, step: &Step, wave: &mut Wave) -> bool {
    let shape = &plan.shape;
    let ocp = step.aux[CDNA] == Arch::Gfx950 as u8;
    let (a_layout, b_layout) = (shape.a.float(ocp), shape.b.float(ocp));
    // SAFETY: the caller's.
    let (a_registers, b_registers) = unsafe { inputs(step, wave, &None) };
    let c = match step.src[2] {
        // SAFETY: the caller's.
        Src::Vgpr(number) => Ok(unsafe { wave.registers(number) }.cast_const()),
        Src::Const(value) => Err(value as i32),
        _ => Err(0),
    };
    let mut a: Operand = [const { MaybeUninit::uninit() }; DEEPEST];
    let mut b: Operand = [const { MaybeUninit::uninit() }; DEEPEST];
    let mut d = [const { MaybeUninit::<__m512i>::uninit() }; WORDS / LANES];
    let halves = shape.n / LANES;
    let mut limits = Limits::new();
    for block in 0..shape.blocks {
        let depth = block * shape.k..(block + 1) * shape.k;
        // SAFETY: places come from the shape, whose registers exist.
        let (a, b) = unsafe {
            let a = unpack(&plan.a[depth.clone()], shape.m, a_registers, a_layout, shape.a.bits(), &mut a);
            let b = unpack(&plan.b[depth], shape.n, b_registers, b_layout, shape.b.bits(), &mut b);
            let (Some(a), Some(b)) = (a, b) else { return false };
            (a.as_chunks::<G>().0, b.as_chunks::<G>().0)
        };
        for row in 0..shape.m {
            let place = plan.rows[block * shape.m + row];
            for half in 0..halves {
                let mut sum = match c {
                    // SAFETY: places come from the shape, whose registers exist.
                    Ok(from) => unsafe { load(from, place, half) },
                    Err(value) => _mm512_set1_epi32(value),
                };
                for (a, b) in a.iter().zip(b) {
                    sum = if APART {
                        both(row, half * LANES, a, b, sum, &mut limits)
                    } else {
                        let (sums, most) = added::<G, 0, 1>(row, half * LANES, a, b, &mut limits);
                        joined::<false>(sums, most, sum, &mut limits)
                    };
                }
                d[(block * shape.m + row) * halves + half].write(sum);
            }
        }
    }
    if !limits.held() {
        return false;
    }
    // SAFETY: the caller's; places come from the shape; every row was written above.
    unsafe {
        let to = wave.registers(step.dst[0]);
        for (row, place) in plan.rows.iter().enumerate().take(shape.m * shape.blocks) {
            for half in 0..halves {
                let lanes = (*to.add(place.register.into())).0.as_mut_ptr().add(usize::from(place.lane) + half * LANES);
                _mm512_storeu_si512(lanes.cast(), d[row * halves + half].assume_init());
            }
        }
    }
    true
}

/// 16 lanes of a register, `half` times 16 lanes behind a place.
///
/// # Safety
/// The registers exist.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const Vreg, place: Place, half: usize) -> __m512i {
    // SAFETY: the caller's: runs of lanes end inside the register.
    unsafe {
        let lanes = (*from.add(place.register.into())).0.as_ptr();
        _mm512_loadu_si512(lanes.add(usize::from(place.lane) + half * LANES).cast())
    }
}

/// Values and exponents of an operand; `None` when an infinity, a NaN or a number that is too large is among them.
///
/// # Safety
/// The registers exist.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn unpack<'a>(
    places: &[Place],
    side: usize,
    from: *const Vreg,
    layout: Layout,
    bits: usize,
    out: &'a mut Operand,
) -> Option<&'a [Numbers]> {
    let mask = _mm512_set1_epi32(if bits == 16 { 0xffff } else { 0xff });
    let mut special = 0;
    for (place, numbers) in places.iter().zip(out.iter_mut()) {
        let to = numbers.as_mut_ptr();
        for half in 0..side / LANES {
            // SAFETY: the caller's.
            let word = unsafe { load(from, *place, half) };
            let (value, exponent, odd) = match (layout.exponent, bits) {
                // The upper bits of an f32, in either half of a register for bf16.
                (8, 32) => numbers_of_f32(_mm512_and_si512(word, _mm512_set1_epi32(-1 << 13))),
                (8, _) if place.shift == 0 => numbers_of_f32(_mm512_slli_epi32::<16>(word)),
                (8, _) => numbers_of_f32(_mm512_and_si512(word, _mm512_set1_epi32(-1 << 16))),
                _ => {
                    let code = _mm512_srl_epi32(word, _mm_cvtsi32_si128(place.shift.into()));
                    numbers_of(layout, _mm512_and_si512(code, mask))
                }
            };
            special |= odd | _mm512_cmpgt_epi32_mask(exponent, _mm512_set1_epi32(MOST / 2));
            // SAFETY: `to` points to numbers of at least `side` rows.
            unsafe {
                _mm512_storeu_ps((*to).value.as_mut_ptr().add(half * LANES), value);
                _mm512_storeu_si512((*to).exponent.as_mut_ptr().add(half * LANES).cast(), exponent);
            }
        }
    }
    // SAFETY: as many numbers as there are places were written, in the rows that are used; any bits are numbers.
    (special == 0).then(|| unsafe { std::slice::from_raw_parts(out.as_ptr().cast(), places.len().min(out.len())) })
}

/// Value and exponent of numbers with the exponent of f32, and which are infinity or NaN.
#[inline]
#[target_feature(enable = "avx512f")]
fn numbers_of_f32(value: __m512i) -> (__m512, __m512i, __mmask16) {
    let magnitude = _mm512_slli_epi32::<1>(value);
    let field = _mm512_srli_epi32::<24>(magnitude);
    let exponent = _mm512_sub_epi32(_mm512_max_epi32(field, _mm512_set1_epi32(1)), _mm512_set1_epi32(127));
    let zero = _mm512_testn_epi32_mask(magnitude, magnitude);
    let exponent = _mm512_mask_mov_epi32(exponent, zero, _mm512_set1_epi32(NOTHING));
    (_mm512_castsi512_ps(value), exponent, _mm512_cmpeq_epi32_mask(field, _mm512_set1_epi32(255)))
}

/// Value and exponent of codes with a shorter exponent, and which are infinity or NaN. The exponent is that of the code, whatever the leading zeros
/// of a denormal.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn numbers_of(layout: Layout, code: __m512i) -> (__m512, __m512i, __mmask16) {
    let shifted = |value: __m512i, by: u32| _mm512_srl_epi32(value, _mm_cvtsi32_si128(by as i32));
    let last = (1 << layout.exponent) - 1;
    let full = (1 << layout.mantissa) - 1;
    let field = _mm512_and_si512(shifted(code, layout.mantissa), _mm512_set1_epi32(last));
    let fraction = _mm512_and_si512(code, _mm512_set1_epi32(full));
    let zero_field = _mm512_testn_epi32_mask(field, field);
    let zero = zero_field & _mm512_testn_epi32_mask(fraction, fraction);
    let unbiased = _mm512_sub_epi32(_mm512_max_epi32(field, _mm512_set1_epi32(1)), _mm512_set1_epi32(layout.bias));
    let exponent = _mm512_mask_mov_epi32(unbiased, zero, _mm512_set1_epi32(NOTHING));
    let is_last = _mm512_cmpeq_epi32_mask(field, _mm512_set1_epi32(last));
    let negative = _mm512_test_epi32_mask(code, _mm512_set1_epi32(1 << (layout.exponent + layout.mantissa)));
    let special = match layout.top {
        Top::Ieee => is_last,
        Top::OnlyNan => is_last & _mm512_cmpeq_epi32_mask(fraction, _mm512_set1_epi32(full)),
        Top::NegativeZeroIsNan => zero & negative,
        Top::None => 0,
    };
    let hidden = _mm512_mask_mov_epi32(_mm512_set1_epi32(1 << layout.mantissa), zero_field, _mm512_setzero_si512());
    let magnitude = _mm512_cvtepi32_ps(_mm512_or_si512(fraction, hidden));
    let scaled = _mm512_mul_ps(magnitude, power(_mm512_sub_epi32(unbiased, _mm512_set1_epi32(layout.mantissa as i32))));
    let value = _mm512_mask_sub_ps(scaled, negative, _mm512_setzero_ps(), scaled);
    (value, exponent, special)
}

/// 2^exponent, for exponents of normal numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn power(exponent: __m512i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(exponent, _mm512_set1_epi32(127))))
}

/// Watches that all exponents stay between [`LEAST`] and [`MOST`]; looked at once, at the end.
#[derive(Clone, Copy)]
struct Limits {
    /// How far the largest exponent of a group was below [`LEAST`], at least: huge where it never was.
    below: __m512i,
    /// How far an exponent of C was above [`LEAST`], at most: huge where it was below.
    above: __m512i,
}

impl Limits {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        Self { below: _mm512_set1_epi32(-1), above: _mm512_setzero_si512() }
    }

    /// The largest exponent of a group. That of products which all are 0 is far below what numbers can have.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn group(&mut self, most: __m512i) {
        self.below = _mm512_min_epu32(self.below, _mm512_sub_epi32(_mm512_set1_epi32(LEAST - 1), most));
    }

    /// A C and its exponent field less 127. A C of +0 is fine; -0 may stay what it is, which the other way decides.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn addend(&mut self, c: __m512i, exponent: __m512i) {
        let above = _mm512_sub_epi32(exponent, _mm512_set1_epi32(LEAST));
        self.above = _mm512_mask_max_epu32(self.above, _mm512_test_epi32_mask(c, c), self.above, above);
    }

    /// True when all were where they have to be.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn held(&self) -> bool {
        let below = _mm512_cmplt_epu32_mask(self.below, _mm512_set1_epi32(-NOTHING / 2));
        below | _mm512_cmpgt_epu32_mask(self.above, _mm512_set1_epi32(MOST - LEAST)) == 0
    }
}

/// The sum of every `STEP`th product of a group, from `FIRST` on, cut at 24 fraction bits below the largest exponent, and
/// that exponent.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn added<const G: usize, const FIRST: usize, const STEP: usize>(
    row: usize,
    column: usize,
    a: &[Numbers; G],
    b: &[Numbers; G],
    limits: &mut Limits,
) -> (__m512i, __m512i) {
    let (row, column) = (row & (SIDE - 1), column & LANES);
    let mut most = _mm512_set1_epi32(2 * NOTHING);
    let mut k = FIRST;
    while k < G {
        let (a, b) = (&a[k], &b[k]);
        k += STEP;
        // SAFETY: 16 columns are behind each of the two possible ones.
        let right = unsafe { _mm512_load_si512(b.exponent.as_ptr().add(column).cast()) };
        most = _mm512_max_epi32(most, _mm512_add_epi32(_mm512_set1_epi32(a.exponent[row]), right));
    }
    limits.group(most);
    let most = _mm512_max_epi32(most, _mm512_set1_epi32(LEAST));
    let scale = power(_mm512_sub_epi32(_mm512_set1_epi32(FRACTION), most));
    let mut sum = _mm512_setzero_si512();
    let mut k = FIRST;
    while k < G {
        let (a, b) = (&a[k], &b[k]);
        k += STEP;
        // SAFETY: as above.
        let right = unsafe { _mm512_load_ps(b.value.as_ptr().add(column)) };
        let product = _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(a.value[row]), right), scale);
        sum = _mm512_add_epi32(sum, _mm512_cvttps_epi32(product));
    }
    (sum, most)
}

/// Adds a group of an 8-bit type to C: its even and odd products apart, then floored to the larger exponent.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn both<const G: usize>(
    row: usize,
    column: usize,
    a: &[Numbers; G],
    b: &[Numbers; G],
    c: __m512i,
    limits: &mut Limits,
) -> __m512i {
    let (even, even_most) = added::<G, 0, 2>(row, column, a, b, limits);
    let (odd, odd_most) = added::<G, 1, 2>(row, column, a, b, limits);
    let most = _mm512_max_epi32(even_most, odd_most);
    // Shifts by 32 and more leave the sign alone.
    let even = _mm512_srav_epi32(even, _mm512_sub_epi32(most, even_most));
    let odd = _mm512_srav_epi32(odd, _mm512_sub_epi32(most, odd_most));
    joined::<true>(_mm512_add_epi32(even, odd), most, c, limits)
}

/// `sum * 2^(most - 24)` and C, floored where the larger exponent says, added, and rounded to nearest even. With `DROP` a C
/// that is far smaller does not count.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn joined<const DROP: bool>(sum: __m512i, most: __m512i, c: __m512i, limits: &mut Limits) -> __m512i {
    let field = _mm512_and_si512(_mm512_srli_epi32::<23>(c), _mm512_set1_epi32(0xff));
    let exponent = _mm512_sub_epi32(field, _mm512_set1_epi32(127));
    limits.addend(c, exponent);
    // A C of 0 has the exponent -127: below all others.
    let top = _mm512_max_epi32(most, exponent);
    let scale = power(_mm512_sub_epi32(_mm512_set1_epi32(FRACTION), top));
    let scaled = _mm512_mul_ps(_mm512_castsi512_ps(c), scale);
    let mut addend = _mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(scaled);
    if DROP {
        let far = _mm512_cmplt_epi32_mask(exponent, _mm512_sub_epi32(top, _mm512_set1_epi32(FRACTION + 1)));
        addend = _mm512_mask_mov_epi32(addend, far, _mm512_setzero_si512());
    }
    let down = _mm512_sub_epi32(top, most);
    // In units of 2^(top - 31): at most 37 bits. Multiplication takes the even lanes as signed numbers of 64 bits.
    let one = _mm512_set1_epi64(1 << SUM_FRACTION);
    let total = |sum: __m512i, down: __m512i, addend: __m512i| {
        let sum = _mm512_srav_epi64(_mm512_mul_epi32(sum, one), down);
        _mm512_cvtepi64_ps(_mm512_add_epi64(sum, _mm512_mul_epi32(addend, one)))
    };
    let odd = |lanes: __m512i| _mm512_srli_epi64::<32>(lanes);
    let low_half = _mm512_set1_epi64(0xffff_ffff);
    let even_totals = _mm512_castps256_ps512(total(sum, _mm512_and_si512(down, low_half), addend));
    let odd_totals = _mm512_castps256_ps512(total(odd(sum), odd(down), odd(addend)));
    let order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    let total = _mm512_permutex2var_ps(even_totals, order, odd_totals);
    let unit = power(_mm512_sub_epi32(top, _mm512_set1_epi32(FRACTION + SUM_FRACTION as i32)));
    _mm512_castps_si512(_mm512_mul_ps(total, unit))
}
