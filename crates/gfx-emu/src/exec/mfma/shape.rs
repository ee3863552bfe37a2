//! Sizes and types of a matrix instruction, read off its name.

use super::element::Element;
use crate::isa::{MatrixName, Op};
use std::sync::LazyLock;

/// Type of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulator {
    F32,
    F64,
    I32,
}

/// `blocks` products of an m x k matrix with a k x n one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) blocks: usize,
    pub(super) a: Element,
    pub(super) b: Element,
    pub(super) accumulator: Accumulator,
    /// SMFMAC: A holds two of every four values along k.
    pub(super) sparse: bool,
    /// `f8f6f4`: the types are in CBSZ and BLGP.
    pub(super) mixed: bool,
}

impl Shape {
    /// The shape of an operation; `None` when it is no matrix operation.
    #[inline]
    pub(super) fn of(op: Op) -> Option<Self> {
        static SHAPES: LazyLock<Vec<Option<Shape>>> = LazyLock::new(|| {
            let mut shapes = vec![None; Op::COUNT];
            for op in Op::all() {
                if let Some(slot) = shapes.get_mut(op as usize) {
                    *slot = MatrixName::of(op).and_then(Shape::read);
                }
            }
            shapes
        });
        *SHAPES.get(op as usize)?
    }

    fn read(name: MatrixName) -> Option<Self> {
        let accumulator = match name.accumulator {
            "f32" => Accumulator::F32,
            "f64" => Accumulator::F64,
            "i32" => Accumulator::I32,
            _ => return None,
        };
        let mixed = name.a == "f8f6f4";
        let a = if mixed { Element::Fp8 } else { Element::named(name.a)? };
        let b = name.b.map_or(Some(a), Element::named)?;
        let [m, n, k, blocks] = [name.m, name.n, name.k, name.blocks].map(|size| size as usize);
        Some(Self { m, n, k, blocks, a, b, accumulator, sparse: name.sparse, mixed })
    }

    /// Values of A that a lane holds.
    pub(super) fn a_items(&self) -> usize {
        let items = self.m * self.k * self.blocks / 64;
        if self.sparse { items / 2 } else { items }
    }

    /// Values of B that a lane holds.
    pub(super) fn b_items(&self) -> usize {
        self.n * self.k * self.blocks / 64
    }

    /// Registers of A.
    pub(super) fn a_registers(&self, element: Element) -> u16 {
        registers(self.a_items(), element)
    }

    /// Registers of B.
    pub(super) fn b_registers(&self, element: Element) -> u16 {
        registers(self.b_items(), element)
    }

    /// Registers of C and D.
    pub(super) fn d_registers(&self) -> u16 {
        let wide = if self.accumulator == Accumulator::F64 { 2 } else { 1 };
        (self.m * self.n * self.blocks / 64 * wide) as u16
    }
}

fn registers(items: usize, element: Element) -> u16 {
    (items * element.bits()).div_ceil(32).max(1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers of A, B and D from AMD's tables (facts, section 2.1).
    #[test]
    fn registers_match_the_published_tables() {
        let of = |name: &str| {
            let shape = Shape::of(Op::from_name(name).unwrap()).unwrap();
            (shape.a_registers(shape.a), shape.b_registers(shape.b), shape.d_registers())
        };
        assert_eq!(of("v_mfma_f32_32x32x1_2b_f32"), (1, 1, 32));
        assert_eq!(of("v_mfma_f32_4x4x4_16b_f16"), (2, 2, 4));
        assert_eq!(of("v_mfma_f32_32x32x8_f16"), (2, 2, 16));
        assert_eq!(of("v_mfma_f32_16x16x16_bf16"), (2, 2, 4));
        assert_eq!(of("v_mfma_f32_32x32x2_2b_bf16"), (1, 1, 32));
        assert_eq!(of("v_mfma_i32_16x16x32_i8"), (2, 2, 4));
        assert_eq!(of("v_mfma_i32_4x4x4_16b_i8"), (1, 1, 4));
        assert_eq!(of("v_mfma_f32_16x16x8_xf32"), (2, 2, 4));
        assert_eq!(of("v_mfma_f64_16x16x4_f64"), (2, 2, 8));
        assert_eq!(of("v_mfma_f64_4x4x4_4b_f64"), (2, 2, 2));
        assert_eq!(of("v_mfma_f32_32x32x16_fp8_bf8"), (2, 2, 16));
        assert_eq!(of("v_smfmac_f32_16x16x32_f16"), (2, 4, 4));
        assert_eq!(of("v_smfmac_f32_32x32x32_fp8_fp8"), (2, 4, 16));
        assert_eq!(of("v_smfmac_i32_16x16x128_i8"), (4, 8, 4));
        assert_eq!(of("v_mfma_f32_16x16x128_f8f6f4"), (8, 8, 4));
    }
}
