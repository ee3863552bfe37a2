//! The table's data, the reference and its naive twin.

use super::{Rope, Table};
use crate::tensor::Tensor;
use crate::{TensorSet, narrow};
use rayon::prelude::*;

/// Base of the geometric series of angles (Su et al., RoFormer): pair i of R/2 turns by position · 10000^(−2i/R).
const BASE: f64 = 10_000.0;

/// Elements that one task takes at least.
const TASK_ELEMENTS: usize = 1 << 14;

/// Fills the table with real cosines and sines.
pub(super) fn fill_table(case: &Rope, tensors: &mut TensorSet) {
    let pairs = case.rotary_dim as usize / 2;
    let frequencies: Vec<f64> = (0..pairs).map(|pair| BASE.powf(-(pair as f64) / pairs as f64)).collect();
    match case.table {
        Table::Joint => fill_rows(tensors.get_mut("cos_sin"), &frequencies, &[f64::cos, f64::sin]),
        Table::Split => {
            fill_rows(tensors.get_mut("cos"), &frequencies, &[f64::cos]);
            fill_rows(tensors.get_mut("sin"), &frequencies, &[f64::sin]);
        }
    }
}

/// Row p gets each function of p · frequency, one function after the other.
fn fill_rows(tensor: &mut Tensor, frequencies: &[f64], functions: &[fn(f64) -> f64]) {
    let dtype = tensor.spec.dtype;
    let row_bytes = frequencies.len() * functions.len() * (dtype.bits() / 8) as usize;
    tensor.bytes_mut().par_chunks_mut(row_bytes).enumerate().for_each(|(position, row)| {
        let angles = functions.iter().flat_map(|function| frequencies.iter().map(move |f| (function, f)));
        for (index, (function, frequency)) in angles.enumerate() {
            narrow::set(dtype, row, index, function(position as f64 * frequency));
        }
    });
}

/// Cosines and sines by position.
struct Angles<'a> {
    cos: &'a Tensor,
    sin: &'a Tensor,
    row: usize,
    /// Where a row's sines begin in their tensor.
    first_sin: usize,
}

impl<'a> Angles<'a> {
    fn new(case: &Rope, tensors: &'a TensorSet) -> Self {
        let pairs = case.rotary_dim as usize / 2;
        match case.table {
            Table::Joint => {
                let joint = tensors.get("cos_sin");
                Self { cos: joint, sin: joint, row: 2 * pairs, first_sin: pairs }
            }
            Table::Split => Self { cos: tensors.get("cos"), sin: tensors.get("sin"), row: pairs, first_sin: 0 },
        }
    }

    /// A position's cosines and sines.
    fn load(&self, position: usize, cos: &mut [f32], sin: &mut [f32]) {
        narrow::decode_slice(self.cos.spec.dtype, self.cos.bytes(), position * self.row, cos);
        narrow::decode_slice(self.sin.spec.dtype, self.sin.bytes(), position * self.row + self.first_sin, sin);
    }

    /// The cosine and sine of one pair.
    fn pair(&self, position: usize, pair: usize) -> (f64, f64) {
        let index = position * self.row + pair;
        let cos = narrow::get(self.cos.spec.dtype, self.cos.bytes(), index);
        (cos, narrow::get(self.sin.spec.dtype, self.sin.bytes(), index + self.first_sin))
    }
}

pub(super) fn reference(case: &Rope, tensors: &mut TensorSet) {
    let operands = [("q", "q_out", case.q_heads), ("k", "k_out", case.kv_heads)];
    for (name, out, heads) in operands.into_iter().filter(|(_, _, heads)| *heads > 0) {
        let mut target = tensors.take(if case.inplace { name } else { out });
        if !case.inplace {
            target.bytes_mut().copy_from_slice(tensors.get(name).bytes());
        }
        let angles = Angles::new(case, tensors);
        rotate(case, heads as usize, &angles, tensors.get("positions").view(), target.bytes_mut());
        tensors.put(target);
    }
}

/// Turns the heads of every token in place.
fn rotate(case: &Rope, heads: usize, angles: &Angles<'_>, positions: &[i64], bytes: &mut [u8]) {
    let head = case.head_dim as usize * (case.x.bits() / 8) as usize;
    let rotary = case.rotary_dim as usize * (case.x.bits() / 8) as usize;
    let pairs = case.rotary_dim as usize / 2;
    bytes
        .par_chunks_mut(heads * head)
        .zip(positions)
        .with_min_len(TASK_ELEMENTS.div_ceil(heads * case.head_dim as usize))
        .for_each_init(
            || (vec![0.0; pairs], vec![0.0; pairs], vec![0.0; 2 * pairs]),
            |(cos, sin, values), (token, position)| {
                angles.load(*position as usize, cos, sin);
                for head in token.chunks_exact_mut(head) {
                    narrow::decode_slice(case.x, head, 0, values);
                    for (pair, (cos, sin)) in cos.iter().zip(sin.iter()).enumerate() {
                        let (first, second) = case.style.elements(pair, pairs);
                        let (a, b) = (values[first], values[second]);
                        values[first] = a * cos - b * sin;
                        values[second] = b * cos + a * sin;
                    }
                    narrow::encode_slice(case.x, values, 0, &mut head[..rotary]);
                }
            },
        );
}

/// Elements one by one in f64, from the operands as they were before the call.
pub(super) fn naive(case: &Rope, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
    let (operand, heads) = if name.starts_with('q') { ("q", case.q_heads) } else { ("k", case.kv_heads) };
    let x = tensors.get(operand);
    let positions: &[i64] = tensors.get("positions").view();
    let angles = Angles::new(case, tensors);
    let (dim, pairs) = (case.head_dim as usize, case.rotary_dim as usize / 2);
    let read = |index| narrow::get(case.x, x.bytes(), index);
    indices
        .iter()
        .map(|&index| {
            let (head, element) = (index / dim, index % dim);
            let Some(pair) = (0..pairs).find(|pair| {
                let (first, second) = case.style.elements(*pair, pairs);
                element == first || element == second
            }) else {
                return read(index);
            };
            let (first, second) = case.style.elements(pair, pairs);
            let (a, b) = (read(head * dim + first), read(head * dim + second));
            let (cos, sin) = angles.pair(positions[head / heads as usize] as usize, pair);
            if element == first { a * cos - b * sin } else { b * cos + a * sin }
        })
        .collect()
}
