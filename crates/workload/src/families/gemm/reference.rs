//! The reference and its naive twin.

use super::{Bias, Gemm, is_narrow};
use crate::matmul::{self, Operand, Sizes};
use crate::{Dtype, Tensor, TensorSet, narrow};
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// Elements of a bias matrix decoded at once.
const BIAS_BLOCK: usize = 256;

pub(super) fn reference(case: &Gemm, tensors: &mut TensorSet) {
    let mut out = tensors.take("out");
    {
        let a = StoredOperand::new(case, tensors, "a");
        let b = StoredOperand::new(case, tensors, "b");
        let bias = (case.bias != Bias::None).then(|| tensors.get("bias"));
        let sizes = Sizes { m: case.m as usize, n: case.n as usize, k: case.k as usize };
        let element = (case.out.bits() / 8) as usize;
        let product = sizes.m * sizes.n;
        out.bytes_mut().par_chunks_mut(product * element).enumerate().for_each(|(batch, out)| {
            let (first, row_length) = match case.bias {
                Bias::Full(_) => (batch * product, sizes.n),
                Bias::None | Bias::Row(_) => (0, 0),
            };
            matmul::multiply(
                sizes,
                &a.of_batch(batch),
                &b.of_batch(batch),
                out,
                element,
                &|row, column, values, bytes| {
                    if let Some(bias) = bias {
                        add_bias(bias, first + row * row_length + column, values);
                    }
                    narrow::encode_slice(case.out, values, 0, bytes);
                },
            );
        });
    }
    tensors.put(out);
}

fn add_bias(bias: &Tensor, first: usize, values: &mut [f32]) {
    let mut decoded = [0.0; BIAS_BLOCK];
    for (block, values) in values.chunks_mut(BIAS_BLOCK).enumerate() {
        let decoded = &mut decoded[..values.len()];
        narrow::decode_slice(bias.spec.dtype, bias.bytes(), first + block * BIAS_BLOCK, decoded);
        values.iter_mut().zip(decoded.iter()).for_each(|(value, bias)| *value += *bias);
    }
}

/// An operand of all batches as rows along k.
struct StoredOperand<'a> {
    dtype: Dtype,
    bytes: Cow<'a, [u8]>,
    rows: usize,
    k: usize,
    scales: Option<Scales>,
}

/// Decoded scales: one for each block of rows and k.
struct Scales {
    values: Vec<f32>,
    block: [usize; 2],
    grid: [usize; 2],
}

impl<'a> StoredOperand<'a> {
    fn new(case: &Gemm, tensors: &'a TensorSet, name: &'static str) -> Self {
        let tensor = tensors.get(name);
        let is_a = name == "a";
        let rows = if is_a { case.m } else { case.n } as usize;
        let along_k = if is_a { !case.trans_a } else { case.trans_b };
        let k = case.k as usize;
        let bytes = match (along_k, tensor.spec.dtype.bits()) {
            (true, _) => Cow::Borrowed(tensor.bytes()),
            (false, 16) => Cow::Owned(transposed::<2>(tensor.bytes(), k, rows)),
            (false, _) => Cow::Owned(transposed::<4>(tensor.bytes(), k, rows)),
        };
        let scales = is_narrow(tensor.spec.dtype).then(|| {
            let tensor = tensors.get(if is_a { "a_scale" } else { "b_scale" });
            let (block, grid) = match is_a {
                true => (case.quant.a_block(case), case.quant.a_grid(case)),
                false => (case.quant.b_block(case), case.quant.b_grid(case)),
            };
            let mut values = vec![0.0; tensor.spec.elements() as usize];
            narrow::decode_slice(tensor.spec.dtype, tensor.bytes(), 0, &mut values);
            Scales { values, block: block.map(|size| size as usize), grid: grid.map(|size| size as usize) }
        });
        Self { dtype: tensor.spec.dtype, bytes, rows, k, scales }
    }

    fn of_batch(&self, batch: usize) -> BatchOperand<'_> {
        BatchOperand { stored: self, batch }
    }
}

/// Matrices stored [depth, rows] as [rows, depth], in elements of N bytes. Sixteen rows at a time: one cache line or less of
/// each source row.
fn transposed<const N: usize>(bytes: &[u8], depth: usize, rows: usize) -> Vec<u8> {
    const BLOCK: usize = 16;
    let mut out = vec![0; bytes.len()];
    out.par_chunks_mut(depth * rows * N).zip(bytes.par_chunks(depth * rows * N)).for_each(|(out, bytes)| {
        let (source, _) = bytes.as_chunks::<N>();
        out.par_chunks_mut(BLOCK * depth * N).enumerate().for_each(|(block, out)| {
            let (out, _) = out.as_chunks_mut::<N>();
            let count = out.len() / depth;
            for (index, source) in source.chunks_exact(rows).enumerate() {
                for (row, element) in source[block * BLOCK..][..count].iter().enumerate() {
                    out[row * depth + index] = *element;
                }
            }
        });
    });
    out
}

/// An operand of one batch.
struct BatchOperand<'a> {
    stored: &'a StoredOperand<'a>,
    batch: usize,
}

impl Operand for BatchOperand<'_> {
    fn decode(&self, rows: Range<usize>, first: usize, depth: usize, stride: usize, out: &mut [f32]) {
        let StoredOperand { dtype, bytes, rows: all_rows, k, scales } = self.stored;
        for (row, out) in rows.zip(out.chunks_mut(stride)) {
            let out = &mut out[..depth];
            narrow::decode_slice(*dtype, bytes, (self.batch * all_rows + row) * k + first, out);
            if let Some(scales) = scales {
                scales.apply(self.batch, row, first, out);
            }
        }
    }
}

impl Scales {
    /// Multiplies part of a row, which starts at `first` of k, with its scales.
    fn apply(&self, batch: usize, row: usize, first: usize, values: &mut [f32]) {
        let [rows, columns] = self.grid;
        let scales = &self.values[(batch * rows + row / self.block[0]) * columns..][..columns];
        let depth = self.block[1];
        let (head, rest) = values.split_at_mut((depth - first % depth).min(values.len()));
        let scale = scales[first / depth];
        head.iter_mut().for_each(|value| *value *= scale);
        for (run, scale) in rest.chunks_mut(depth).zip(&scales[first / depth + 1..]) {
            run.iter_mut().for_each(|value| *value *= *scale);
        }
    }
}

/// Output elements one by one in f64.
pub(super) fn naive(case: &Gemm, tensors: &TensorSet, indices: &[usize]) -> Vec<f64> {
    let [m, n, k] = [case.m, case.n, case.k].map(|size| size as usize);
    let read = |name: &str, index: usize| {
        let tensor = tensors.get(name);
        narrow::get(tensor.spec.dtype, tensor.bytes(), index)
    };
    let scale = |name: &str, dtype: Dtype, block: [u64; 2], grid: [u64; 2], batch: usize, row: usize, p: usize| {
        if !is_narrow(dtype) {
            return 1.0;
        }
        let [block, grid] = [block, grid].map(|pair| pair.map(|size| size as usize));
        read(name, (batch * grid[0] + row / block[0]) * grid[1] + p / block[1])
    };
    let (a_block, a_grid) = (case.quant.a_block(case), case.quant.a_grid(case));
    let (b_block, b_grid) = (case.quant.b_block(case), case.quant.b_grid(case));
    indices
        .iter()
        .map(|&index| {
            let (batch, row, column) = (index / (m * n), index / n % m, index % n);
            let product = |p: usize| {
                let a = if case.trans_a { (batch * k + p) * m + row } else { (batch * m + row) * k + p };
                let b = if case.trans_b { (batch * n + column) * k + p } else { (batch * k + p) * n + column };
                let a_scale = scale("a_scale", case.a, a_block, a_grid, batch, row, p);
                let b_scale = scale("b_scale", case.b, b_block, b_grid, batch, column, p);
                read("a", a) * a_scale * (read("b", b) * b_scale)
            };
            let bias = match case.bias {
                Bias::None => 0.0,
                Bias::Row(_) => read("bias", column),
                Bias::Full(_) => read("bias", index),
            };
            (0..k).map(product).sum::<f64>() + bias
        })
        .collect()
}
