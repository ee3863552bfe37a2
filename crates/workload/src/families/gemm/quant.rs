//! Scales of narrow operands.

use super::{Gemm, is_narrow};
use crate::{Dtype, ShapeError, ShapeMap, narrow};

/// How elements of an operand share scales. A scale belongs to a block of rows (of `a`: m, of `b`: n) and of k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quant {
    /// No scales.
    None,
    /// One scale an operand.
    PerTensor,
    /// One scale a row: a token of `a`, an output channel of `b`.
    PerToken,
    /// 1×128 blocks of `a`, 128×128 blocks of `b`.
    Block128,
    /// 1×32 blocks of both with power-of-two scales (OCP Microscaling).
    Mx32,
}

const QUANTS: &[(Quant, &str)] = &[
    (Quant::None, "none"),
    (Quant::PerTensor, "per_tensor"),
    (Quant::PerToken, "per_token"),
    (Quant::Block128, "block128"),
    (Quant::Mx32, "mx32"),
];

impl Quant {
    pub(super) fn parse(shape: &ShapeMap) -> Result<Self, ShapeError> {
        let Some(word) = shape.word("quant")? else { return Ok(Quant::None) };
        QUANTS.iter().find(|(_, name)| *name == word).map(|(quant, _)| *quant).ok_or_else(|| {
            let names: Vec<&str> = QUANTS.iter().map(|(_, name)| *name).collect();
            ShapeError::invalid("quant", word, format!("one of {} is needed", names.join(", ")))
        })
    }

    /// Name in shapes.
    pub fn name(self) -> &'static str {
        QUANTS.iter().find(|(quant, _)| *quant == self).map_or("?", |(_, name)| name)
    }

    /// Dtype of the scales.
    pub(super) fn scale_dtype(self) -> Dtype {
        if self == Quant::Mx32 { Dtype::E8m0 } else { Dtype::F32 }
    }

    /// Checks that operands, scales and layout go together.
    pub(super) fn check(self, case: &Gemm) -> Result<(), ShapeError> {
        let wrong = |reason: &str| Err(ShapeError::invalid("quant", self.name(), reason));
        if self == Quant::None {
            return if is_narrow(case.a) || is_narrow(case.b) {
                wrong("operands of 8 bits and fewer have scales: quant=per_tensor, per_token, block128 or mx32")
            } else {
                Ok(())
            };
        }
        if !is_narrow(case.a) && !is_narrow(case.b) {
            return wrong("scales go with fp8, i8 or fp4 operands");
        }
        if case.trans_a || !case.trans_b {
            return wrong("operands with scales are stored [m, k] and [n, k]: trans_a=false, trans_b=true");
        }
        for dtype in [case.a, case.b] {
            let fits = match self {
                Quant::Mx32 => dtype != Dtype::I8,
                Quant::Block128 => dtype != Dtype::I8 && dtype != Dtype::Fp4E2m1,
                _ => dtype != Dtype::Fp4E2m1,
            };
            if !fits {
                return wrong(&format!(
                    "is not how {dtype} operands are scaled (fp4: mx32; i8: per_tensor, per_token)"
                ));
            }
        }
        if self == Quant::Mx32 && !case.k.is_multiple_of(32) {
            return Err(ShapeError::invalid("k", case.k, "must be a multiple of 32 with quant=mx32"));
        }
        Ok(())
    }

    /// Rows and elements of k in one block of `a`.
    pub(super) fn a_block(self, case: &Gemm) -> [u64; 2] {
        match self {
            Quant::None | Quant::PerTensor => [case.m, case.k],
            Quant::PerToken => [1, case.k],
            Quant::Block128 => [1, 128],
            Quant::Mx32 => [1, 32],
        }
    }

    /// Rows and elements of k in one block of `b`.
    pub(super) fn b_block(self, case: &Gemm) -> [u64; 2] {
        match self {
            Quant::None | Quant::PerTensor => [case.n, case.k],
            Quant::PerToken => [1, case.k],
            Quant::Block128 => [128, 128],
            Quant::Mx32 => [1, 32],
        }
    }

    /// Scales of `a`: block rows and block columns.
    pub(super) fn a_grid(self, case: &Gemm) -> [u64; 2] {
        let [rows, depth] = self.a_block(case);
        [case.m.div_ceil(rows), case.k.div_ceil(depth)]
    }

    /// Scales of `b`: block rows and block columns.
    pub(super) fn b_grid(self, case: &Gemm) -> [u64; 2] {
        let [rows, depth] = self.b_block(case);
        [case.n.div_ceil(rows), case.k.div_ceil(depth)]
    }
}

/// Standard deviation of test data in a narrow float: such that they use much of its range and hardly ever saturate. For fp8
/// the largest value is 12 deviations out, as with amax scaling of activations with outliers; fp4 has no room for that.
pub(super) fn usual_spread(dtype: Dtype) -> f32 {
    let largest = narrow::max_finite(dtype).map_or(127.0, |largest| largest as f32);
    if dtype == Dtype::Fp4E2m1 { largest / 3.0 } else { 20.0_f32.min(largest / 12.0) }
}
