//! Dynamic relocations: what a loader writes into the memory image.

use serde::Serialize;

/// A dynamic relocation (`Elf64_Rela`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Virtual address of the field that is written.
    pub address: u64,
    /// What is written.
    pub kind: RelocationKind,
    /// Index into [`CodeObject::symbols`](crate::CodeObject::symbols); 0 is the null symbol: none.
    pub symbol: u32,
    /// Addend in bytes.
    pub addend: i64,
}

/// Kinds of relocations (`R_AMDGPU_*`). Formulas: S symbol, A addend, P address of the field, B load address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum RelocationKind {
    /// Nothing.
    None,
    /// Low half of S + A, 4 bytes.
    Abs32Lo,
    /// High half of S + A, 4 bytes.
    Abs32Hi,
    /// S + A, 8 bytes.
    Abs64,
    /// S + A - P, 4 bytes.
    Rel32,
    /// S + A - P, 8 bytes.
    Rel64,
    /// S + A, 4 bytes.
    Abs32,
    /// Low half of S + A - P, 4 bytes.
    Rel32Lo,
    /// High half of S + A - P, 4 bytes.
    Rel32Hi,
    /// B + A, 8 bytes.
    Relative64,
    /// Another kind, which is not a dynamic relocation.
    Other(u32),
}

impl RelocationKind {
    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            0 => RelocationKind::None,
            1 => RelocationKind::Abs32Lo,
            2 => RelocationKind::Abs32Hi,
            3 => RelocationKind::Abs64,
            4 => RelocationKind::Rel32,
            5 => RelocationKind::Rel64,
            6 => RelocationKind::Abs32,
            10 => RelocationKind::Rel32Lo,
            11 => RelocationKind::Rel32Hi,
            13 => RelocationKind::Relative64,
            other => RelocationKind::Other(other),
        }
    }
}

/// Bytes that a relocation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    bytes: [u8; 8],
    length: usize,
}

impl Patch {
    /// The bytes: none, 4 or 8.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

impl Relocation {
    /// What to write at `base + address`, with the code object loaded at `base` and the symbol at `symbol_address` (both
    /// device addresses). `None` for a kind that no loader knows.
    pub fn patch(&self, base: u64, symbol_address: u64) -> Option<Patch> {
        let absolute = symbol_address.wrapping_add_signed(self.addend);
        let relative = absolute.wrapping_sub(base.wrapping_add(self.address));
        let (value, length) = match self.kind {
            RelocationKind::None => (0, 0),
            RelocationKind::Abs32Lo | RelocationKind::Abs32 => (absolute, 4),
            RelocationKind::Abs32Hi => (absolute >> 32, 4),
            RelocationKind::Abs64 => (absolute, 8),
            RelocationKind::Rel32 | RelocationKind::Rel32Lo => (relative, 4),
            RelocationKind::Rel32Hi => (relative >> 32, 4),
            RelocationKind::Rel64 => (relative, 8),
            RelocationKind::Relative64 => (base.wrapping_add_signed(self.addend), 8),
            RelocationKind::Other(_) => return None,
        };
        Some(Patch { bytes: value.to_le_bytes(), length })
    }
}
