//! Matrix product of narrow operands in f32 on the CPU, decoded tile by tile: the reference behind the GEMM families.
//!
//! out[i, j] = Σ_k a[i, k] · b[j, k]. Both operands are read along k, so nothing is transposed: a tile of `a` is decoded into
//! the second-level cache, a few rows of `b` into the first, and their dot products run over vectors of k. Each element of
//! `b` is decoded once a row panel, so a product with few rows streams the weights at memory speed, and one with many is
//! bound by multiply-adds.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use std::cell::RefCell;
use std::ops::Range;

/// Rows of `a` in a tile.
const TILE_ROWS: usize = 192;
/// Most rows of `b` in a tile.
const TILE_COLUMNS: usize = 512;
/// Elements of k in a tile. With it a tile of `a` takes 576 KiB, and a panel of `b` and a few rows of `a` 42 KiB.
const TILE_DEPTH: usize = 768;
/// Rows of `b` decoded at once.
const PANEL: usize = 8;
/// Rows of `b` multiplied at once.
const COLUMNS: usize = 4;
/// Lanes of the widest vectors: decoded rows are padded with zeros to a multiple.
const LANES: usize = 16;

/// A matrix read along k.
pub(crate) trait Operand: Sync {
    /// Decodes elements `first..first + depth` of each row in `rows` to f32. Row i lands at `out[i * stride..]`; what follows it
    /// up to the stride is not touched.
    fn decode(&self, rows: Range<usize>, first: usize, depth: usize, stride: usize, out: &mut [f32]);
}

/// Sizes of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Rows of `a` and of the output.
    pub(crate) m: usize,
    /// Rows of `b`, columns of the output.
    pub(crate) n: usize,
    /// Length of the dot products.
    pub(crate) k: usize,
}

/// Multiplies, and hands each finished piece of an output row to `store(row, first column, values, bytes)`, which encodes
/// the values into the piece's bytes. `out` is row-major with elements of `element` bytes.
pub(crate) fn multiply(
    sizes: Sizes,
    a: &impl Operand,
    b: &impl Operand,
    out: &mut [u8],
    element: usize,
    store: &(impl Fn(usize, usize, &mut [f32], &mut [u8]) + Sync),
) {
    let Sizes { m, n, k } = sizes;
    // About four tiles a thread, so that the last one to finish is not waited for long.
    let tasks = 4 * rayon::current_num_threads();
    let columns = n.div_ceil(tasks.div_ceil(m.div_ceil(TILE_ROWS))).next_multiple_of(PANEL).clamp(64, TILE_COLUMNS);
    out.par_chunks_mut(TILE_ROWS * n * element).enumerate().for_each(|(panel, bytes)| {
        let first_row = panel * TILE_ROWS;
        let rows = first_row..m.min(first_row + TILE_ROWS);
        pieces(bytes, n * element, columns * element).into_par_iter().enumerate().for_each(|(tile, pieces)| {
            let first_column = tile * columns;
            let columns = first_column..n.min(first_column + columns);
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.multiply(rows.clone(), columns.clone(), k, a, b);
                for (index, piece) in pieces.into_iter().enumerate() {
                    let values = &mut scratch.c[index * columns.len()..][..columns.len()];
                    store(first_row + index, first_column, values, piece);
                }
            });
        });
    });
}

/// Cuts rows of `row` bytes into pieces of at most `piece` bytes, gathered by their place in the row.
fn pieces(bytes: &mut [u8], row: usize, piece: usize) -> Vec<Vec<&mut [u8]>> {
    let mut tiles: Vec<Vec<&mut [u8]>> = Vec::new();
    tiles.resize_with(row.div_ceil(piece), || Vec::with_capacity(bytes.len() / row));
    for row in bytes.chunks_mut(row) {
        for (tile, piece) in tiles.iter_mut().zip(row.chunks_mut(piece)) {
            tile.push(piece);
        }
    }
    tiles
}

thread_local! {
    /// A thread's tiles, kept between calls: allocating them each time would cost page faults.
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch::new()) };
}

struct Scratch {
    a: Buffer,
    b: Buffer,
    c: Vec<f32>,
}

impl Scratch {
    const fn new() -> Self {
        Self { a: Buffer(Vec::new()), b: Buffer(Vec::new()), c: Vec::new() }
    }

    /// Computes one output tile into `c`.
    fn multiply(&mut self, rows: Range<usize>, columns: Range<usize>, k: usize, a: &impl Operand, b: &impl Operand) {
        let c_stride = columns.len();
        self.c.clear();
        self.c.resize(rows.len() * c_stride, 0.0);
        for first in (0..k).step_by(TILE_DEPTH) {
            let depth = TILE_DEPTH.min(k - first);
            let a = self.a.decode(a, rows.clone(), first, depth);
            for column in columns.clone().step_by(PANEL) {
                let panel = column..columns.end.min(column + PANEL);
                let c = &mut self.c[column - columns.start..];
                let (rows, columns) = (rows.len(), panel.len());
                let b = self.b.decode(b, panel, first, depth);
                Arch::new().dispatch(Panel { a, b, depth, rows, columns, c, c_stride });
            }
        }
    }
}

/// Decoded rows, aligned to cache lines.
struct Buffer(Vec<f32>);

impl Buffer {
    /// Decodes part of some rows, each followed by zeros up to a whole number of vectors.
    fn decode(&mut self, operand: &impl Operand, rows: Range<usize>, first: usize, depth: usize) -> &[f32] {
        let (stride, padded) = (stride(depth), depth.next_multiple_of(LANES));
        let size = rows.len() * stride;
        self.0.resize(self.0.len().max(size + LANES), 0.0);
        let aligned = self.0.as_ptr().align_offset(4 * LANES).min(LANES);
        let out = &mut self.0[aligned..][..size];
        operand.decode(rows, first, depth, stride, out);
        if depth < padded {
            for row in out.chunks_exact_mut(stride) {
                row[depth..padded].fill(0.0);
            }
        }
        out
    }
}

/// Distance of decoded rows: one vector more than they hold, or rows of 4 KiB would all meet in one set of the cache.
fn stride(depth: usize) -> usize {
    depth.next_multiple_of(LANES) + LANES
}

/// All rows of a tile of `a` times up to [`PANEL`] rows of `b`, added to `c`.
struct Panel<'a> {
    a: &'a [f32],
    b: &'a [f32],
    depth: usize,
    rows: usize,
    columns: usize,
    c: &'a mut [f32],
    c_stride: usize,
}

impl WithSimd for Panel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (a, b) = (S::as_simd_f32s(self.a).0, S::as_simd_f32s(self.b).0);
        // Accumulators, one vector of `a` and one of each row of `b` must fit the registers.
        if S::REGISTER_COUNT >= 32 {
            self.by_rows::<S, 6>(simd, a, b);
        } else {
            self.by_rows::<S, 3>(simd, a, b);
        }
    }
}

// Plain loops over constant bounds and no closures: whatever is not inlined here runs without the wide vectors.
impl Panel<'_> {
    /// R rows of `a` at a time, so that they stay in the first-level cache for all of the panel.
    #[inline(always)]
    fn by_rows<S: Simd, const R: usize>(&mut self, simd: S, a: &[S::f32s], b: &[S::f32s]) {
        let stride = stride(self.depth) / S::F32_LANES;
        let mut row = 0;
        while row + R <= self.rows {
            self.by_columns::<S, R>(simd, &a[row * stride..], b, row);
            row += R;
        }
        while row < self.rows {
            self.by_columns::<S, 1>(simd, &a[row * stride..], b, row);
            row += 1;
        }
    }

    #[inline(always)]
    fn by_columns<S: Simd, const R: usize>(&mut self, simd: S, a: &[S::f32s], b: &[S::f32s], row: usize) {
        let stride = stride(self.depth) / S::F32_LANES;
        let depth = self.depth.div_ceil(S::F32_LANES);
        let mut column = 0;
        while column + COLUMNS <= self.columns {
            let sums = dots::<S, R, COLUMNS>(simd, a, &b[column * stride..], stride, depth);
            self.add(row, column, sums);
            column += COLUMNS;
        }
        while column < self.columns {
            let sums = dots::<S, R, 1>(simd, a, &b[column * stride..], stride, depth);
            self.add(row, column, sums);
            column += 1;
        }
    }

    #[inline(always)]
    fn add<const R: usize, const C: usize>(&mut self, row: usize, column: usize, sums: [[f32; C]; R]) {
        for (i, sums) in sums.iter().enumerate() {
            let c = &mut self.c[(row + i) * self.c_stride + column..][..C];
            for (c, sum) in c.iter_mut().zip(sums) {
                *c += sum;
            }
        }
    }
}

/// The dot products of R rows of `a` with C rows of `b`, rows of `depth` vectors at a distance of `stride`.
#[inline(always)]
fn dots<S: Simd, const R: usize, const C: usize>(
    simd: S,
    a: &[S::f32s],
    b: &[S::f32s],
    stride: usize,
    depth: usize,
) -> [[f32; C]; R] {
    let mut a_rows = [a; R];
    let mut b_rows = [b; C];
    for i in 0..R {
        a_rows[i] = &a[i * stride..][..depth];
    }
    for j in 0..C {
        b_rows[j] = &b[j * stride..][..depth];
    }
    let mut sums = [[simd.splat_f32s(0.0); C]; R];
    for index in 0..depth {
        let mut b_vectors = [b_rows[0][index]; C];
        for j in 1..C {
            b_vectors[j] = b_rows[j][index];
        }
        for i in 0..R {
            let a_vector = a_rows[i][index];
            for j in 0..C {
                sums[i][j] = simd.mul_add_e_f32s(a_vector, b_vectors[j], sums[i][j]);
            }
        }
    }
    let mut totals = [[0.0; C]; R];
    for i in 0..R {
        for j in 0..C {
            totals[i][j] = simd.reduce_sum_f32s(sums[i][j]);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A dense row-major f32 matrix with rows of `k` elements.
    struct Dense<'a>(&'a [f32], usize);

    impl Operand for Dense<'_> {
        fn decode(&self, rows: Range<usize>, first: usize, depth: usize, stride: usize, out: &mut [f32]) {
            for (row, out) in rows.zip(out.chunks_mut(stride)) {
                out[..depth].copy_from_slice(&self.0[row * self.1 + first..][..depth]);
            }
        }
    }

    /// Whole numbers, whose sums are exact in f32 in any order.
    fn whole_numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 31 + seed * 17 + i * i % 7) % 11) as f32 - 5.0).collect()
    }

    fn check(m: usize, n: usize, k: usize) {
        let (a, b) = (whole_numbers(m * k, 1), whole_numbers(n * k, 2));
        let mut out = vec![0; m * n * 4];
        multiply(Sizes { m, n, k }, &Dense(&a, k), &Dense(&b, k), &mut out, 4, &|_, _, values, bytes| {
            bytes.copy_from_slice(bytemuck::cast_slice(values));
        });
        let out: Vec<f32> = out.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        for i in 0..m {
            for j in 0..n {
                let want: f32 = (0..k).map(|p| a[i * k + p] * b[j * k + p]).sum();
                assert_eq!(out[i * n + j], want, "{m} {n} {k} at {i} {j}");
            }
        }
    }

    proptest! {
        #[test]
        fn small_products_are_exact(m in 1usize..20, n in 1usize..90, k in 1usize..70) {
            check(m, n, k);
        }
    }

    #[test]
    fn products_across_every_tile_edge_are_exact() {
        check(TILE_ROWS * 2 + 5, 67, 33);
        check(3, TILE_COLUMNS * 9 + 3, 17);
        check(7, 9, TILE_DEPTH * 2 + 1);
        check(1, 1, TILE_DEPTH + 15);
    }
}
