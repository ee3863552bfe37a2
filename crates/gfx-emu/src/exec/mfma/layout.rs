//! Where the values of a matrix sit in registers (CDNA3 ISA, 7.1.4): `K_L` values of k are together in a lane; lanes count
//! rows (of A) or columns (of B) first, then blocks, then groups of k.

use super::shape::{Accumulator, Shape};

/// The layout rules. All sizes are powers of two, so that nothing has to be divided.
pub(super) struct Tile;

/// Quotient and remainder by a power of two.
#[inline(always)]
fn divide(value: usize, power: usize) -> (usize, usize) {
    (value >> power.trailing_zeros(), value & (power - 1))
}

impl Tile {
    /// Where k of block `block` sits: the item inside a lane, and the first lane of the group whose lanes are the `side` rows
    /// of A or columns of B.
    #[inline(always)]
    pub(super) fn operand(shape: &Shape, side: usize, block: usize, k: usize) -> (usize, usize) {
        let together = shape.k * side * shape.blocks / 64;
        let (group, item) = divide(k, together);
        (item, side * (block + shape.blocks * group))
    }

    /// Where row `row` of block `block` of C and D sits: the item, and the lane of its first column.
    #[inline(always)]
    pub(super) fn accumulator(shape: &Shape, block: usize, row: usize) -> (usize, usize) {
        let height: usize = if shape.accumulator == Accumulator::F64 { 1 } else { 4 };
        let blocks_across = divide(64 * height, shape.n * shape.m).0.max(1);
        let rows_across = divide(64, blocks_across * shape.n).0;
        let groups = divide(shape.m, height * rows_across).0;
        let (row_group, rest) = divide(row, height * rows_across);
        let (across, item) = divide(rest, height);
        let (block_group, block) = divide(block, blocks_across);
        (item + height * (row_group + groups * block_group), shape.n * (across + rows_across * block))
    }
}
