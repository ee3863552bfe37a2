//! Small f32 matrix kernels for references, in safe code over the widest vectors that this CPU has (chosen at run time).
//!
//! Operands are scratch blocks that were just decoded from narrow data, so they are small, row-major and padded: every
//! column count `n` and row stride of a vectorised operand is a multiple of [`PAD`].

use pulp::{Arch, Simd, WithSimd};

/// Columns of vectorised operands are padded to a multiple of this many f32 (one 512-bit vector).
pub(crate) const PAD: usize = 16;

/// `n` rounded up to a multiple of [`PAD`].
pub(crate) fn padded(n: usize) -> usize {
    n.next_multiple_of(PAD)
}

/// Multiplies each block of `block` values with its scale.
pub(crate) fn scale_blocks(values: &mut [f32], block: usize, scales: &[f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (values, scale) in values.chunks_mut(block).zip(scales) {
                values.iter_mut().for_each(|value| *value *= scale);
            }
        },
    );
}

/// C[m×n] += A·B with B[k×n] row-major; A is given by [`Left`]. C has row stride `c_stride`.
pub(crate) struct Matmul<'a> {
    /// Output, accumulated into.
    pub(crate) c: &'a mut [f32],
    /// Elements between rows of C.
    pub(crate) c_stride: usize,
    /// Left operand.
    pub(crate) a: Left<'a>,
    /// Right operand, row-major.
    pub(crate) b: &'a [f32],
    /// Elements between rows of B.
    pub(crate) b_stride: usize,
    /// Rows of C.
    pub(crate) m: usize,
    /// Columns of C, a multiple of [`PAD`].
    pub(crate) n: usize,
    /// Inner size.
    pub(crate) k: usize,
}

/// The left operand of a [`Matmul`], whose elements are broadcast.
#[derive(Clone, Copy)]
pub(crate) enum Left<'a> {
    /// A[m×k] in rows of stride `.1`.
    Rows(&'a [f32], usize),
    /// A stored transposed, [k×m] in rows of stride `.1`.
    Columns(&'a [f32], usize),
}

impl Matmul<'_> {
    /// Runs it.
    ///
    /// # Panics
    /// When a slice is shorter than the sizes need: a mistake in the caller.
    pub(crate) fn run(self) {
        assert!(self.n.is_multiple_of(PAD), "columns are padded");
        if self.m > 0 && self.n > 0 && self.k > 0 {
            Arch::new().dispatch(self);
        }
    }
}

impl WithSimd for Matmul<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // 8×2 accumulators fill half of the 32 registers of 512-bit machines; 4×2 half of the 16 of narrower ones.
        let mut row = 0;
        let Matmul { c, c_stride, a, b, b_stride, m, n, k } = self;
        let right = Right { b, stride: b_stride, n, k };
        while row < m {
            let c = &mut c[row * c_stride..];
            let left = m - row;
            row += match (S::F32_LANES >= 16, left) {
                (true, 8..) => tile_row::<S, 8>(simd, c, c_stride, a, row, right),
                (_, 4..) => tile_row::<S, 4>(simd, c, c_stride, a, row, right),
                (_, 2..) => tile_row::<S, 2>(simd, c, c_stride, a, row, right),
                _ => tile_row::<S, 1>(simd, c, c_stride, a, row, right),
            };
        }
    }
}

/// The right operand of a [`Matmul`] and the sizes it has.
#[derive(Clone, Copy)]
struct Right<'a> {
    b: &'a [f32],
    stride: usize,
    n: usize,
    k: usize,
}

/// `MR` rows of C across all columns; returns `MR`.
#[inline(always)]
fn tile_row<S: Simd, const MR: usize>(
    simd: S,
    c: &mut [f32],
    c_stride: usize,
    a: Left<'_>,
    row: usize,
    right: Right<'_>,
) -> usize {
    match a {
        Left::Rows(data, stride) => {
            let rows: [&[f32]; MR] = std::array::from_fn(|i| &data[(row + i) * stride..][..right.k]);
            columns::<S, RowPanel<'_, MR>, MR>(simd, c, c_stride, RowPanel(rows), right);
        }
        Left::Columns(data, stride) => {
            columns::<S, ColumnPanel<'_>, MR>(simd, c, c_stride, ColumnPanel(&data[row..], stride), right);
        }
    }
    MR
}

/// Walks the columns of one row of tiles: two vectors at a time, then one.
#[inline(always)]
fn columns<S: Simd, P: Panel<MR>, const MR: usize>(
    simd: S,
    c: &mut [f32],
    c_stride: usize,
    panel: P,
    right: Right<'_>,
) {
    let mut column = 0;
    let part = |column: usize| Right { b: &right.b[column..], ..right };
    while column + 2 * S::F32_LANES <= right.n {
        tile::<S, P, MR, 2>(simd, &mut c[column..], c_stride, panel, part(column));
        column += 2 * S::F32_LANES;
    }
    while column < right.n {
        tile::<S, P, MR, 1>(simd, &mut c[column..], c_stride, panel, part(column));
        column += S::F32_LANES;
    }
}

/// `MR` rows of A, read one inner index at a time.
trait Panel<const MR: usize>: Copy {
    fn at(&self, p: usize) -> [f32; MR];
}

#[derive(Clone, Copy)]
struct RowPanel<'a, const MR: usize>([&'a [f32]; MR]);

impl<const MR: usize> Panel<MR> for RowPanel<'_, MR> {
    #[inline(always)]
    fn at(&self, p: usize) -> [f32; MR] {
        std::array::from_fn(
            #[inline(always)]
            |i| self.0[i][p],
        )
    }
}

#[derive(Clone, Copy)]
struct ColumnPanel<'a>(&'a [f32], usize);

impl<const MR: usize> Panel<MR> for ColumnPanel<'_> {
    #[inline(always)]
    fn at(&self, p: usize) -> [f32; MR] {
        let values = &self.0[p * self.1..][..MR];
        std::array::from_fn(
            #[inline(always)]
            |i| values[i],
        )
    }
}

/// One register tile of `MR` rows × `NV` vectors.
#[inline(always)]
fn tile<S: Simd, P: Panel<MR>, const MR: usize, const NV: usize>(
    simd: S,
    c: &mut [f32],
    c_stride: usize,
    panel: P,
    right: Right<'_>,
) {
    let width = NV * S::F32_LANES;
    let mut sums = [[simd.splat_f32s(0.0); NV]; MR];
    for (p, b_row) in right.b.chunks(right.stride).take(right.k).enumerate() {
        let (vectors, _) = S::as_simd_f32s(&b_row[..width]);
        let vectors = &vectors[..NV];
        let scalars = panel.at(p);
        for i in 0..MR {
            let scalar = simd.splat_f32s(scalars[i]);
            for j in 0..NV {
                sums[i][j] = simd.mul_add_e_f32s(scalar, vectors[j], sums[i][j]);
            }
        }
    }
    for (i, row_sums) in sums.iter().enumerate() {
        let (vectors, _) = S::as_mut_simd_f32s(&mut c[i * c_stride..][..width]);
        for (vector, sum) in vectors.iter_mut().zip(row_sums) {
            *vector = simd.add_f32s(*vector, *sum);
        }
    }
}

/// C[m×n] += A[m×k]·B[n×k]ᵀ as dot products, for few rows in B: both operands run along `k`, which is a multiple of
/// [`PAD`] (pad with zeros).
pub(crate) struct DotRows<'a> {
    /// Output, accumulated into.
    pub(crate) c: &'a mut [f32],
    /// Elements between rows of C.
    pub(crate) c_stride: usize,
    /// A[m×k], row-major, stride `k`.
    pub(crate) a: &'a [f32],
    /// B[n×k] in rows of stride `b_stride`.
    pub(crate) b: &'a [f32],
    /// Elements between rows of B.
    pub(crate) b_stride: usize,
    /// Rows of C.
    pub(crate) m: usize,
    /// Columns of C.
    pub(crate) n: usize,
    /// Inner size, a multiple of [`PAD`].
    pub(crate) k: usize,
}

impl DotRows<'_> {
    /// Runs it.
    ///
    /// # Panics
    /// When a slice is shorter than the sizes need: a mistake in the caller.
    pub(crate) fn run(self) {
        assert!(self.k.is_multiple_of(PAD), "the inner size is padded");
        if self.m > 0 && self.n > 0 && self.k > 0 {
            Arch::new().dispatch(self);
        }
    }
}

impl WithSimd for DotRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let DotRows { c, c_stride, a, b, b_stride, m, n, k } = self;
        let mut i = 0;
        while i < m {
            let (a, c) = (&a[i * k..], &mut c[i * c_stride..]);
            let rows = if m - i >= 4 { 4 } else { 1 };
            let mut j = 0;
            while j < n {
                let (b, c) = (&b[j * b_stride..], &mut c[j..]);
                j += match (rows, n - j) {
                    (4, 4..) => dots::<S, 4, 4>(simd, c, c_stride, a, b, b_stride, k),
                    (4, 2..) => dots::<S, 4, 2>(simd, c, c_stride, a, b, b_stride, k),
                    (4, _) => dots::<S, 4, 1>(simd, c, c_stride, a, b, b_stride, k),
                    (_, 4..) => dots::<S, 1, 4>(simd, c, c_stride, a, b, b_stride, k),
                    _ => dots::<S, 1, 1>(simd, c, c_stride, a, b, b_stride, k),
                };
            }
            i += rows;
        }
    }
}

/// `MR`×`NR` dot products of length `k`; returns `NR`.
#[inline(always)]
fn dots<S: Simd, const MR: usize, const NR: usize>(
    simd: S,
    c: &mut [f32],
    c_stride: usize,
    a: &[f32],
    b: &[f32],
    b_stride: usize,
    k: usize,
) -> usize {
    let steps = k / S::F32_LANES;
    let a: [&[S::f32s]; MR] = std::array::from_fn(|i| &S::as_simd_f32s(&a[i * k..][..k]).0[..steps]);
    let b: [&[S::f32s]; NR] = std::array::from_fn(|j| &S::as_simd_f32s(&b[j * b_stride..][..k]).0[..steps]);
    let mut sums = [[simd.splat_f32s(0.0); NR]; MR];
    for p in 0..steps {
        for i in 0..MR {
            for j in 0..NR {
                sums[i][j] = simd.mul_add_e_f32s(a[i][p], b[j][p], sums[i][j]);
            }
        }
    }
    for (i, row) in sums.iter().enumerate() {
        for (j, sum) in row.iter().enumerate() {
            c[i * c_stride + j] += simd.reduce_sum_f32s(*sum);
        }
    }
    NR
}

/// e^x for x ≤ 0, within 2 units in the last place; 0 below the normal range and for −∞.
///
/// Argument reduction by ln 2 in two parts (Cody and Waite) and a degree-6 Taylor polynomial on ±ln 2 / 2. Branch-free,
/// so that it vectorises where it is inlined.
#[inline(always)]
pub(crate) fn exp_nonpositive(x: f32) -> f32 {
    const LOWEST: f32 = -87.0;
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = if x > LOWEST { x } else { LOWEST };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = clamped - whole * LN2_HIGH - whole * LN2_LOW;
    let mut series = 1.0 / 720.0;
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * rest + coefficient;
    }
    // The low bits of `shifted` hold `whole` as an integer; moved into the exponent field they are 2^whole.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    if x > LOWEST { series * power } else { 0.0 }
}

/// One block of scores in an online softmax. Lane `r` of every row is one query; a score of −∞ is a masked pair.
pub(crate) struct SoftmaxBlock<'a> {
    /// Scores [keys × rows]; replaced by their exponentials against the new maximum.
    pub(crate) scores: &'a mut [f32],
    /// Running maximum a row, −∞ at first.
    pub(crate) maximum: &'a mut [f32],
    /// Running sum a row, 0 at first.
    pub(crate) sum: &'a mut [f32],
    /// Out: what earlier sums and outputs of a row must be multiplied with.
    pub(crate) correction: &'a mut [f32],
    /// Rows, a multiple of [`PAD`].
    pub(crate) rows: usize,
}

impl SoftmaxBlock<'_> {
    /// Runs it.
    pub(crate) fn run(self) {
        assert!(self.rows.is_multiple_of(PAD), "rows are padded");
        Arch::new().dispatch(self);
    }
}

impl WithSimd for SoftmaxBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let SoftmaxBlock { scores, maximum, sum, correction, rows } = self;
        for first in (0..rows).step_by(PAD) {
            let mut new_maximum = lanes(&maximum[first..]);
            for row in scores.chunks_exact(rows) {
                let row = lanes(&row[first..]);
                for i in 0..PAD {
                    new_maximum[i] = if row[i] > new_maximum[i] { row[i] } else { new_maximum[i] };
                }
            }
            let old_maximum = lanes(&maximum[first..]);
            let mut new_sum = lanes(&sum[first..]);
            let mut base = new_maximum;
            let mut factor = [0.0; PAD];
            for i in 0..PAD {
                // A row with nothing visible yet: −∞ − 0 is −∞ and its exponential 0, where −∞ − −∞ were NaN.
                base[i] = if new_maximum[i] == f32::NEG_INFINITY { 0.0 } else { new_maximum[i] };
                factor[i] = exp_nonpositive(old_maximum[i] - base[i]);
                new_sum[i] *= factor[i];
            }
            for row in scores.chunks_exact_mut(rows) {
                let row = &mut row[first..][..PAD];
                for i in 0..PAD {
                    let value = exp_nonpositive(row[i] - base[i]);
                    new_sum[i] += value;
                    row[i] = value;
                }
            }
            maximum[first..][..PAD].copy_from_slice(&new_maximum);
            sum[first..][..PAD].copy_from_slice(&new_sum);
            correction[first..][..PAD].copy_from_slice(&factor);
        }
    }
}

#[inline(always)]
fn lanes(values: &[f32]) -> [f32; PAD] {
    let mut lanes = [0.0; PAD];
    lanes.copy_from_slice(&values[..PAD]);
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Small whole numbers: every product and sum is exact in f32, so results must be equal.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 17) as f32 - 8.0).collect()
    }

    proptest! {
        #[test]
        fn matmul_is_the_sum_of_products(m in 0usize..20, n in 1usize..5, k in 0usize..40, extra in 0usize..5, transposed: bool) {
            let n = n * PAD;
            let b_stride = n + 2 * extra;
            let (a, b) = (numbers(m * k, 1), numbers(k * b_stride, 2));
            let c_stride = n + extra;
            let mut c = numbers(m * c_stride, 3);
            let before = c.clone();
            let columns: Vec<f32> = (0..k * m).map(|x| a[(x % m.max(1)) * k + x / m.max(1)]).collect();
            let left = if transposed { Left::Columns(&columns, m) } else { Left::Rows(&a, k) };
            Matmul { c: &mut c, c_stride, a: left, b: &b, b_stride, m, n, k }.run();
            for i in 0..m {
                for j in 0..c_stride {
                    let products: f32 = if j < n { (0..k).map(|p| a[i * k + p] * b[p * b_stride + j]).sum() } else { 0.0 };
                    prop_assert_eq!(c[i * c_stride + j], before[i * c_stride + j] + products);
                }
            }
        }

        #[test]
        fn dot_rows_is_the_sum_of_products(m in 0usize..10, n in 0usize..10, k in 0usize..4, extra in 0usize..5) {
            let k = k * PAD;
            let b_stride = k + extra;
            let (a, b) = (numbers(m * k, 1), numbers(n * b_stride, 2));
            let mut c = vec![1.0; m * n];
            DotRows { c: &mut c, c_stride: n, a: &a, b: &b, b_stride, m, n, k }.run();
            for i in 0..m {
                for j in 0..n {
                    let products: f32 = (0..k).map(|p| a[i * k + p] * b[j * b_stride + p]).sum();
                    prop_assert_eq!(c[i * n + j], 1.0 + products);
                }
            }
        }

        #[test]
        fn exponential_is_close(x in -87.0f32..=0.0) {
            let exact = f64::from(x).exp();
            prop_assert!((f64::from(exp_nonpositive(x)) - exact).abs() <= exact * 2.5e-7, "{}", x);
        }
    }

    #[test]
    fn exponential_at_its_ends() {
        assert_eq!(exp_nonpositive(0.0), 1.0);
        assert_eq!(exp_nonpositive(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_nonpositive(-1e30), 0.0);
    }

    #[test]
    fn masked_rows_stay_empty() {
        let mut scores = vec![f32::NEG_INFINITY; 3 * PAD];
        scores[PAD] = 2.0;
        scores[2 * PAD] = 2.0;
        let (mut maximum, mut sum, mut correction) = (vec![f32::NEG_INFINITY; PAD], vec![0.0; PAD], vec![0.0; PAD]);
        let block = SoftmaxBlock {
            scores: &mut scores,
            maximum: &mut maximum,
            sum: &mut sum,
            correction: &mut correction,
            rows: PAD,
        };
        block.run();
        assert_eq!((maximum[0], sum[0]), (2.0, 2.0));
        assert_eq!((maximum[1], sum[1]), (f32::NEG_INFINITY, 0.0));
        assert!(scores[1..PAD].iter().all(|score| *score == 0.0));
    }
}
