//! SMFMAC: A holds two of every four values along k, and an index register says which.

use super::fused;
use super::shape::Shape;
use crate::exec::{Src, Step, Vreg, Wave};

/// Halves of k that a lane's registers hold one after the other: the deep forms of gfx950 have two.
fn halves(shape: &Shape) -> usize {
    if shape.b_registers(shape.b) == 8 { 2 } else { 1 }
}

/// The k of a lane group's dense item.
fn dense_k(shape: &Shape, group: usize, item: usize) -> usize {
    let halves = halves(shape);
    let together = shape.b_items() / halves;
    item / together * (shape.k / halves) + group * together + item % together
}

/// Where B's k sits: item, and the lane of column 0.
pub(super) fn b_place(shape: &Shape, k: usize) -> (usize, usize) {
    let halves = halves(shape);
    let (together, half) = (shape.b_items() / halves, shape.k / halves);
    let rest = k % half;
    (k / half * together + rest % together, shape.n * (rest / together))
}

/// Calls `each(k, row, code)` for every value of the compressed A.
///
/// # Safety
/// The step's registers exist.
pub(super) unsafe fn each(
    step: &Step,
    shape: &Shape,
    wave: &mut Wave,
    a: *const Vreg,
    mut each: impl FnMut(usize, usize, u32),
) {
    let Src::Vgpr(number) = step.src[2] else { return };
    // SAFETY: the caller's.
    let index = unsafe { (*wave.registers(number)).0 };
    let items = shape.a_items();
    let bits = 2 * items as u32;
    let mods = &step.inst.mods;
    let set = if mods.cbsz & 3 == 0 && bits < 32 { u32::from(mods.abid) % (32 / bits) } else { 0 };
    for lane in 0..64 {
        let (row, group) = (lane % shape.m, lane / shape.m);
        let indices = index[lane] >> (set * bits);
        for item in 0..items {
            let place = item / 2 * 4 + (indices >> (2 * item) & 3) as usize;
            // SAFETY: the caller's.
            let code = unsafe { fused::codes::<1>(a, shape.a, item, lane)[0] };
            each(dense_k(shape, group, place), row, code);
        }
    }
}
