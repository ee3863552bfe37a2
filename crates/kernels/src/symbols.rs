//! What expressions can see: the sizes of a case, its tensors, the device.

use std::borrow::Cow;
use std::fmt;

/// A value of the expression language.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// A whole number.
    Int(i128),
    /// A finite number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A word, such as a routing's name.
    Word(Cow<'a, str>),
    /// One size per sequence.
    List(Cow<'a, [u64]>),
}

impl Value<'_> {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a fractional number",
            Value::Bool(_) => "a truth value",
            Value::Word(_) => "a word",
            Value::List(_) => "a list",
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Word(word) => write!(f, "'{word}'"),
            Value::List(values) => write!(f, "a list of {}", values.len()),
        }
    }
}

/// A tensor's layout: row-major and dense, the last dimension contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Sizes, outermost first.
    pub dims: Vec<u64>,
    /// Bits of one element (4 for fp4, two elements a byte).
    pub bits: u64,
}

impl TensorInfo {
    /// Number of elements; `None` when it does not fit.
    pub fn elements(&self) -> Option<i128> {
        self.dims.iter().try_fold(1i128, |product, dim| product.checked_mul(i128::from(*dim)))
    }

    /// Size in bytes, the last byte of a 4-bit tensor rounded up.
    pub fn bytes(&self) -> Option<i128> {
        self.elements()?.checked_mul(i128::from(self.bits)).map(|bits| bits.div_euclid(8) + i128::from(bits % 8 != 0))
    }

    /// Bytes from one index of dimension `axis` to the next; `None` when there is no such dimension, the size does not
    /// fit, or it is no whole number of bytes.
    pub fn stride(&self, axis: usize) -> Option<i128> {
        let inner = self.dims.get(axis + 1..)?;
        let bits = inner.iter().try_fold(i128::from(self.bits), |bits, dim| bits.checked_mul(i128::from(*dim)))?;
        (axis < self.dims.len() && bits % 8 == 0).then_some(bits / 8)
    }
}

/// Names that a case gives to expressions.
pub trait Symbols {
    /// The value of a shape key.
    fn value(&self, name: &str) -> Option<Value<'_>>;

    /// A tensor of the case.
    fn tensor(&self, name: &str) -> Option<TensorInfo>;
}

/// No names at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn value(&self, _: &str) -> Option<Value<'_>> {
        None
    }

    fn tensor(&self, _: &str) -> Option<TensorInfo> {
        None
    }
}

/// What expressions and checks need to know of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Architecture without feature suffixes: `gfx942`.
    pub arch: String,
    /// Compute units (`cu_count`).
    pub cu_count: u32,
    /// Lanes of a wave (`wave_size`).
    pub wave_size: u32,
    /// LDS that one workgroup may have, bytes.
    pub lds_bytes: u32,
    /// Work-items that one workgroup may have.
    pub max_block: u32,
}

/// LDS of a workgroup by architecture, bytes: 160 KiB on gfx950, 320 KiB on gfx1250, 64 KiB on the others
/// (LLVM's AMDGPU usage guide, AMD's GPU specification table).
pub fn lds_bytes_of(arch: &str) -> u32 {
    match arch {
        "gfx950" => 160 << 10,
        "gfx1250" => 320 << 10,
        _ => 64 << 10,
    }
}

/// Lanes of a wave by architecture: 64 on gfx9, 32 on gfx10 and later (what HIP compiles for there).
pub fn wave_size_of(arch: &str) -> u32 {
    if arch.starts_with("gfx9") { 64 } else { 32 }
}

impl DeviceInfo {
    /// A device of an architecture with its usual limits.
    pub fn of_arch(arch: &str, cu_count: u32) -> Self {
        let arch = arch.split(':').next().unwrap_or(arch).to_owned();
        let (lds_bytes, wave_size) = (lds_bytes_of(&arch), wave_size_of(&arch));
        Self { arch, cu_count, wave_size, lds_bytes, max_block: 1024 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_bytes_of_dense_rows() {
        let tensor = TensorInfo { dims: vec![3, 5, 8], bits: 16 };
        assert_eq!(tensor.bytes(), Some(240));
        assert_eq!([0, 1, 2, 3].map(|axis| tensor.stride(axis)), [Some(80), Some(16), Some(2), None]);
        let packed = TensorInfo { dims: vec![3, 5], bits: 4 };
        assert_eq!((packed.bytes(), packed.stride(0), packed.stride(1)), (Some(8), None, None));
        let empty = TensorInfo { dims: vec![], bits: 32 };
        assert_eq!((empty.bytes(), empty.stride(0)), (Some(4), None));
        assert_eq!(TensorInfo { dims: vec![u64::MAX; 3], bits: 32 }.bytes(), None);
    }
}
