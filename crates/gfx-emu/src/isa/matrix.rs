//! What the name of a matrix instruction says.

use super::op::Op;

/// The parts of a name such as `v_mfma_f32_32x32x4_2b_f16`, `v_smfmac_f32_16x16x64_bf8_fp8` or
/// `v_mfma_scale_f32_16x16x128_f8f6f4`: `blocks` products of an m x k matrix with a k x n one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatrixName {
    /// Type of C and D.
    pub(crate) accumulator: &'static str,
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) blocks: u32,
    /// Type of A; of B too where that is not named.
    pub(crate) a: &'static str,
    pub(crate) b: Option<&'static str>,
    /// SMFMAC: A holds two of every four values along k.
    pub(crate) sparse: bool,
}

impl MatrixName {
    /// The name of an operation; `None` when it is no matrix operation.
    pub(crate) fn of(op: Op) -> Option<Self> {
        let name = op.name();
        let sparse = name.starts_with("v_smfmac_");
        let rest = name.strip_prefix("v_mfma_").or_else(|| name.strip_prefix("v_smfmac_"))?;
        let mut parts = rest.strip_prefix("scale_").unwrap_or(rest).split('_');
        let accumulator = parts.next()?;
        let mut sizes = parts.next()?.split('x').map(|size| size.parse().ok());
        let (m, n, k) = (sizes.next()??, sizes.next()??, sizes.next()??);
        let mut a = parts.next()?;
        let blocks = a.strip_suffix('b').and_then(|count| count.parse().ok());
        if blocks.is_some() {
            a = parts.next()?;
        }
        Some(Self { accumulator, m, n, k, blocks: blocks.unwrap_or(1), a, b: parts.next(), sparse })
    }
}
