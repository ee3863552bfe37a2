//! Where the values of a matrix sit in registers (CDNA3 ISA, 7.1.4): `K_L` values of k are together in a lane; lanes count
//! rows (of A) or columns (of B) first, then blocks, then groups of k.

use super::shape::{Accumulator, Shape};

/// The layout rules.
pub(super) struct Tile;

impl Tile {
    /// Where k of block `block` sits: the item inside a lane, and the first lane of the group whose lanes are the `side` rows
    /// of A or columns of B.
    #[inline(always)]
    pub(super) fn operand(shape: &Shape, side: usize, block: usize, k: usize) -> (usize, usize) {
        let together = shape.k * side * shape.blocks / 64;
        (k % together, side * (block + shape.blocks * (k / together)))
    }

    /// Where row `row` of block `block` of C and D sits: the item, and the lane of its first column.
    #[inline(always)]
    pub(super) fn accumulator(shape: &Shape, block: usize, row: usize) -> (usize, usize) {
        let height: usize = if shape.accumulator == Accumulator::F64 { 1 } else { 4 };
        let blocks_across = (64 * height).div_ceil(shape.n * shape.m).max(1);
        let rows_across = 64 / blocks_across / shape.n;
        let groups = shape.m / (height * rows_across);
        let item = row % height + height * (row / (height * rows_across) + groups * (block / blocks_across));
        let lane = shape.n * (row / height % rows_across + rows_across * (block % blocks_across));
        (item, lane)
    }
}
