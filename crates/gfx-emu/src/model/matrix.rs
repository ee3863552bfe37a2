//! What a matrix instruction computes, read off its name.

use crate::isa::{Inst, MatrixName, Op};
use serde::Deserialize;

/// Input type of a matrix instruction, as the counters tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatrixInput {
    /// 16-bit IEEE floats.
    F16,
    /// bfloat16.
    Bf16,
    /// fp8 and bf8 in any mix.
    F8,
    /// fp6, bf6 and fp4 in any mix.
    F6f4,
    /// 8-bit integers.
    I8,
    /// f32 cut to 10 significand bits.
    Xf32,
    /// f32.
    F32,
    /// f64.
    F64,
}

impl MatrixInput {
    /// Every input type.
    pub const ALL: [MatrixInput; 8] = [
        MatrixInput::F16,
        MatrixInput::Bf16,
        MatrixInput::F8,
        MatrixInput::F6f4,
        MatrixInput::I8,
        MatrixInput::Xf32,
        MatrixInput::F32,
        MatrixInput::F64,
    ];
}

/// The product that a matrix instruction computes: `blocks` times m x k by k x n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixOp {
    /// Rows of A.
    pub m: u32,
    /// Columns of B.
    pub n: u32,
    /// Depth; of a sparse instruction that of the dense product it stands for.
    pub k: u32,
    /// Independent products.
    pub blocks: u32,
    /// Input type; of an `f8f6f4` instruction f8 unless [`MatrixOp::of_inst`] saw otherwise.
    pub input: MatrixInput,
    /// A holds two of every four values along k (SMFMAC).
    pub sparse: bool,
    /// Both operands are of one kind (an `f8f6f4` instruction can mix f8 with f6 or f4).
    pub pure: bool,
}

impl MatrixOp {
    /// The product of an operation; `None` when it is no matrix operation.
    pub fn of(op: Op) -> Option<Self> {
        let MatrixName { m, n, k, blocks, a, sparse, .. } = MatrixName::of(op)?;
        let input = match a {
            "f16" => MatrixInput::F16,
            "bf16" => MatrixInput::Bf16,
            "fp8" | "bf8" | "f8f6f4" => MatrixInput::F8,
            "i8" => MatrixInput::I8,
            "xf32" => MatrixInput::Xf32,
            "f32" => MatrixInput::F32,
            "f64" => MatrixInput::F64,
            _ => return None,
        };
        Some(Self { m, n, k, blocks, input, sparse, pure: true })
    }

    /// The same with the operand formats of an `f8f6f4` instruction: CBSZ is A's and BLGP B's, 0 and 1 are f8 (ISA). Such an
    /// instruction counts as f8, and takes f8's time, when either operand is.
    pub fn of_inst(inst: &Inst) -> Option<Self> {
        let mut matrix = Self::of(inst.op)?;
        if inst.op.name().ends_with("f8f6f4") {
            let is_f8 = |format: u8| format < 2;
            let (a, b) = (is_f8(inst.mods.cbsz), is_f8(inst.mods.blgp));
            matrix.input = if a || b { MatrixInput::F8 } else { MatrixInput::F6f4 };
            matrix.pure = a == b;
        }
        Some(matrix)
    }

    /// Operations: 2 m n k blocks, a multiply-add being two; of a sparse instruction those of the dense product.
    pub fn flops(&self) -> u64 {
        2 * u64::from(self.m) * u64::from(self.n) * u64::from(self.k) * u64::from(self.blocks)
    }
}
