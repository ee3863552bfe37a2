//! gfx950's `f8f6f4` forms: each side has its own type, and each 32 values along k may have a scale (E8M0, a power of two).
//!
//! How the hardware adds is not published. Here the products of a block of 32 are added exactly (f64 holds them), scaled,
//! and added to C with one rounding to f32 a block: approximate in that sense.

use super::chain::plain_nan;
use super::element::Element;
use super::shape::Shape;
use super::{A_ELEMENT, B_ELEMENT, SIDE, inputs, load_c, store_d};
use crate::exec::{Env, Flow, Step, Vreg, Wave};
use crate::isa::{Encoding, Operand};

/// Item and lane group of logical `k`. F8 lanes hold 16 values of the first half of k and 16 of the second; the others hold 32
/// in a row.
fn place(shape: &Shape, element: Element, k: usize) -> (usize, usize) {
    let groups = 64 / shape.m;
    match element {
        Element::Fp8 | Element::Bf8 => {
            let half = 16 * groups;
            (k / half * 16 + k % 16, k % half / 16)
        }
        _ => (k % 32, k / 32),
    }
}

/// A code of `bits` bits from a run of registers of one lane.
///
/// # Safety
/// The registers exist.
unsafe fn code(from: *const Vreg, bits: usize, item: usize, lane: usize) -> u32 {
    let bit = item * bits;
    // SAFETY: the caller's.
    let word = |register: usize| unsafe { (*from.add(register)).0[lane & 63] };
    let low = u64::from(word(bit / 32));
    let high = if bit % 32 + bits > 32 { u64::from(word(bit / 32 + 1)) << 32 } else { 0 };
    ((low | high) >> (bit % 32)) as u32 & ((1 << bits) - 1)
}

/// The scale of each row (or column) and block of 32 values; 1 without scales. NaN for the code 255.
fn scales(step: &Step, wave: &Wave, shape: &Shape, side: usize) -> [[f64; SIDE]; 4] {
    let mut out = [[1.0; SIDE]; 4];
    if step.inst.enc != Encoding::MaiScale {
        return out;
    }
    let shift = 8 * u32::from(step.inst.mods.scale_sel[side] & 3);
    let byte = |lane: usize| -> u32 {
        match step.inst.scale[side] {
            Operand::Vgpr(number) => wave.vgpr.get(usize::from(number)).map_or(127, |reg| reg.0[lane] >> shift & 0xff),
            Operand::Agpr(number) => wave.agpr.get(usize::from(number)).map_or(127, |reg| reg.0[lane] >> shift & 0xff),
            Operand::Scalar(code) => wave.s32(code) >> shift & 0xff,
            // A float constant gives its exponent field.
            Operand::Inline(code) => match super::constant(code, super::Accumulator::F32) {
                Some(bits) if code >= 240 => bits as u32 >> 23 & 0xff,
                Some(bits) => bits as u32 & 0xff,
                None => 127,
            },
            Operand::Literal(bits) => bits >> 23 & 0xff,
            _ => 127,
        }
    };
    for (block, row) in out.iter_mut().enumerate().take(shape.k / 32) {
        for (i, scale) in row.iter_mut().enumerate().take(shape.m) {
            let value = byte(i + shape.m * block);
            *scale = if value == 255 { f64::NAN } else { 2_f64.powi(value as i32 - 127) };
        }
    }
    out
}

/// Runs an `f8f6f4` instruction.
pub(super) unsafe fn run(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let Some(shape) = Shape::of(step.op) else { return Flow::Next };
    // SAFETY: this handler's.
    unsafe { if shape.n == 32 { sized::<32>(step, &shape, wave) } else { sized::<16>(step, &shape, wave) } }
    Flow::Next
}

unsafe fn sized<const N: usize>(step: &Step, shape: &Shape, wave: &mut Wave) {
    let elements = [Element::from_u8(step.aux[A_ELEMENT]), Element::from_u8(step.aux[B_ELEMENT])];
    let [a_scale, b_scale] = [scales(step, wave, shape, 0), scales(step, wave, shape, 1)];
    // SAFETY: this handler's.
    let (a, b) = unsafe { inputs(step, wave, &None) };
    let value = |from: *const Vreg, element: Element, k: usize, i: usize| {
        let (item, group) = place(shape, element, k);
        // SAFETY: items come from the shape and the element, whose registers exist.
        let code = unsafe { code(from, element.bits(), item, i + shape.m * group) };
        f64::from(element.float(true).value(code))
    };
    let mut c = [[0_u32; N]; SIDE];
    // SAFETY: this handler's.
    unsafe { load_c::<N>(step, shape, wave, 0, &mut c) };
    for block in 0..shape.k / 32 {
        let mut left = [[0_f64; SIDE]; 32];
        let mut right = [[0_f64; N]; 32];
        for k in 0..32 {
            for i in 0..shape.m {
                left[k][i] = value(a, elements[0], block * 32 + k, i);
            }
            for (j, right) in right[k].iter_mut().enumerate() {
                *right = value(b, elements[1], block * 32 + k, j);
            }
        }
        for (i, words) in c.iter_mut().enumerate().take(shape.m) {
            for (j, word) in words.iter_mut().enumerate() {
                let dot: f64 = (0..32).map(|k| left[k][i] * right[k][j]).sum();
                let scaled = dot * a_scale[block][i] * b_scale[block][j];
                *word = ((scaled + f64::from(f32::from_bits(*word))) as f32).to_bits();
            }
        }
    }
    finish(wave.mode.fp16_ovfl(), c.as_flattened_mut());
    // SAFETY: this handler's.
    unsafe { store_d::<N>(step, shape, wave, 0, &c) };
}

/// Results as the other matrix instructions have them: infinities cut to the largest number under FP16_OVFL, one NaN.
fn finish(clamp: bool, words: &mut [u32]) {
    for word in words {
        let value = f32::from_bits(*word);
        *word = plain_nan(if clamp && value.is_infinite() { f32::MAX.copysign(value) } else { value });
    }
}
