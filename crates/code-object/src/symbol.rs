//! Symbols of a code object.

use crate::elf;
use crate::error::{Error, Result};
use crate::raw::{Raw, field};
use serde::Serialize;

const SYMBOL_BYTES: u64 = 24;

/// A symbol of the dynamic or the static table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Name; empty for the null symbol and for sections.
    pub name: String,
    /// Virtual address, relative to where the code object is loaded.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// What it names.
    pub kind: SymbolKind,
    /// Who sees it.
    pub binding: Binding,
    /// Where it is defined.
    pub place: SymbolPlace,
}

/// `STT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SymbolKind {
    /// Not said.
    NoType,
    /// Data, kernel descriptors among them.
    Object,
    /// Code.
    Function,
    /// A section.
    Section,
    /// A source file.
    File,
    /// Common data.
    Common,
    /// Another kind.
    Other(u8),
}

/// `STB_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// Only this code object.
    Local,
    /// Everyone.
    Global,
    /// Everyone, until someone defines it better.
    Weak,
    /// Another binding.
    Other(u8),
}

/// Where a symbol is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolPlace {
    /// Elsewhere: the loader must find it.
    Undefined,
    /// Its address is a number that loading does not move.
    Absolute,
    /// In the section of this index.
    Section(u16),
}

impl Symbol {
    /// Whether this code object defines it.
    pub fn is_defined(&self) -> bool {
        self.place != SymbolPlace::Undefined
    }
}

/// Reads a symbol table of `size` bytes at `offset` with its names. `budget` is how many bytes of names may still be
/// copied: names may overlap in a hostile table, so that a small file claims gigabytes of them.
pub(crate) fn read_table(raw: &Raw<'_>, offset: u64, size: u64, names: &[u8], budget: &mut u64) -> Result<Vec<Symbol>> {
    let table = raw.slice(offset, size, "the symbol table")?;
    let mut symbols = Vec::with_capacity(table.len() / SYMBOL_BYTES as usize);
    for (index, bytes) in table.chunks_exact(SYMBOL_BYTES as usize).enumerate() {
        let at = offset + index as u64 * SYMBOL_BYTES;
        let name_offset = u32::from_le_bytes(field(bytes, 0));
        let limit = usize::try_from(*budget).unwrap_or(usize::MAX);
        let name = match name_offset {
            0 => &[][..],
            offset => elf::string(names, offset, limit).ok_or_else(|| {
                let length = names.len();
                Error::damaged(
                    at,
                    format!("symbol {index}: no name at {offset:#x} of a string table of {length} bytes"),
                )
            })?,
        };
        *budget = budget.saturating_sub(name.len() as u64 + 1);
        let [info] = field(bytes, 4);
        symbols.push(Symbol {
            name: String::from_utf8_lossy(name).into_owned(),
            address: u64::from_le_bytes(field(bytes, 8)),
            size: u64::from_le_bytes(field(bytes, 16)),
            kind: match info & 0xf {
                0 => SymbolKind::NoType,
                1 => SymbolKind::Object,
                2 => SymbolKind::Function,
                3 => SymbolKind::Section,
                4 => SymbolKind::File,
                5 => SymbolKind::Common,
                other => SymbolKind::Other(other),
            },
            binding: match info >> 4 {
                0 => Binding::Local,
                1 => Binding::Global,
                2 => Binding::Weak,
                other => Binding::Other(other),
            },
            place: match u16::from_le_bytes(field(bytes, 6)) {
                0 => SymbolPlace::Undefined,
                0xfff1 => SymbolPlace::Absolute,
                section => SymbolPlace::Section(section),
            },
        });
    }
    Ok(symbols)
}
