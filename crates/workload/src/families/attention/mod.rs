//! What the attention families share: which key a query sees and how many such pairs there are ([`Mask`]), and softmax
//! attention over rows that a family knows how to load (`reference`, `naive`).
//!
//! out\[q\] = Σ_k softmax_k(scale · q·k) · v\[k\] over the keys that the query sees, with scale 1/√d_qk. A query that sees no
//! key gives zeros, as flash-attention kernels do.

pub(crate) mod call;
pub(crate) mod data;
mod mask;
pub(crate) mod naive;
pub(crate) mod reference;

pub use mask::{Mask, Span};

use crate::families::sizes;
use crate::{Dtype, ShapeError, ShapeMap, Tolerance};
use std::num::NonZeroU64;

/// Head counts and sizes of one attention call. Query head h uses key/value head h / (q_heads / kv_heads).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads, a multiple of the key/value heads.
    pub q_heads: u64,
    /// Key/value heads.
    pub kv_heads: u64,
    /// Elements of a query and of a key.
    pub d_qk: u64,
    /// Elements of a value and of an output.
    pub d_v: u64,
}

impl Heads {
    /// Query heads that share a key/value head.
    pub fn group(&self) -> u64 {
        self.q_heads / self.kv_heads
    }

    /// The factor of the scores, 1/√d_qk.
    pub fn scale(&self) -> f64 {
        1.0 / (self.d_qk as f64).sqrt()
    }

    /// FLOPs of so many query/key pairs of every query head: two per multiply-add of q·k and of p·v. The softmax itself
    /// is not counted, as nobody does.
    pub fn flops(&self, pairs: u128) -> u128 {
        2 * pairs * u128::from(self.q_heads) * u128::from(self.d_qk + self.d_v)
    }
}

/// Head counts and sizes from the keys `q_heads`, `kv_heads`, `head_dim` and, where a family has it, `v_head_dim`.
pub(crate) fn heads(shape: &ShapeMap, family: &'static str) -> Result<Heads, ShapeError> {
    const MOST_HEADS: u64 = 1 << 16;
    const MOST_DIM: u64 = 1 << 14;
    let q_heads = sizes::need(shape, family, "q_heads", "query heads of this rank", MOST_HEADS)?;
    let kv_heads = sizes::need(shape, family, "kv_heads", "key/value heads of this rank", MOST_HEADS)?;
    if !q_heads.is_multiple_of(kv_heads) {
        let reason = format!("must divide q_heads={q_heads}");
        return Err(ShapeError::invalid("kv_heads", kv_heads, reason));
    }
    let d_qk = sizes::need(shape, family, "head_dim", "elements of a query and key", MOST_DIM)?;
    let d_v = sizes::optional(shape, "v_head_dim", d_qk, MOST_DIM)?;
    Ok(Heads { q_heads, kv_heads, d_qk, d_v })
}

/// The mask from `causal` (default `causal`) and `window` (0 or absent: none).
pub(crate) fn mask(shape: &ShapeMap, causal: bool) -> Result<Mask, ShapeError> {
    let causal = shape.flag("causal")?.unwrap_or(causal);
    match (NonZeroU64::new(shape.int("window")?.unwrap_or(0)), causal) {
        (Some(window), true) => Ok(Mask::Window(window)),
        (Some(window), false) => {
            Err(ShapeError::invalid("window", window, "a sliding window looks back only: it needs causal=true"))
        }
        (None, true) => Ok(Mask::Causal),
        (None, false) => Ok(Mask::Full),
    }
}

/// How far a correct attention kernel may be from the f32 reference. Data are made so that outputs are of order 1
/// ([`data`]); kernels round weights to the dtype of the values before p·v and the output to its own. The figures are
/// aiter's for 16-bit attention (1e-2 both), two thirds of its 1.5e-1 for fp8, and 1e-4 / 1e-3 where all is f32.
pub(crate) fn tolerance(operands: Dtype, out: Dtype) -> Tolerance {
    const MISMATCH_SHARE: f64 = 0.01;
    let (abs, rel) = match (operands, out) {
        (operands, _) if operands.is_fp8() => (0.1, 0.1),
        (Dtype::F32, Dtype::F32) => (1e-4, 1e-3),
        _ => (1e-2, 1e-2),
    };
    Tolerance { abs, rel, mismatch_share: MISMATCH_SHARE }
}
