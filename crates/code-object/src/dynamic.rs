//! The dynamic section: relocations, and symbols of files without section headers.

use crate::elf::{self, Program};
use crate::error::{Error, Result};
use crate::object::{Segment, file_offset};
use crate::raw::{Raw, field};
use crate::relocation::{Relocation, RelocationKind};
use crate::symbol::{self, Symbol};

const DT_NULL: u64 = 0;
const DT_PLTRELSZ: u64 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_STRSZ: u64 = 10;
const DT_REL: u64 = 17;
const DT_JMPREL: u64 = 23;
const DT_RELR: u64 = 36;
const RELA_BYTES: u64 = 24;

/// What the dynamic section says; addresses are virtual.
#[derive(Debug, Default)]
pub(crate) struct Dynamic {
    offset: u64,
    rela: Option<u64>,
    rela_size: u64,
    plt_rela: Option<u64>,
    plt_rela_size: u64,
    symbols: Option<u64>,
    strings: Option<u64>,
    strings_size: u64,
    hash: Option<u64>,
}

impl Dynamic {
    /// Reads it; `None` when there is none.
    pub(crate) fn read(raw: &Raw<'_>, programs: &[Program], segments: &[Segment]) -> Result<Option<Self>> {
        let Some(program) = programs.iter().find(|program| program.kind == elf::PT_DYNAMIC) else { return Ok(None) };
        // The loader sees memory, so the address decides where the contents are.
        let offset = file_offset(segments, program.address, program.file_size).unwrap_or(program.offset);
        let entries = raw.slice(offset, program.file_size, "the dynamic section")?;
        let mut dynamic = Dynamic { offset, ..Self::default() };
        for (index, entry) in entries.chunks_exact(16).enumerate() {
            let value = u64::from_le_bytes(field(entry, 8));
            match u64::from_le_bytes(field(entry, 0)) {
                DT_NULL => break,
                DT_RELA => dynamic.rela = Some(value),
                DT_RELASZ => dynamic.rela_size = value,
                DT_JMPREL => dynamic.plt_rela = Some(value),
                DT_PLTRELSZ => dynamic.plt_rela_size = value,
                DT_SYMTAB => dynamic.symbols = Some(value),
                DT_STRTAB => dynamic.strings = Some(value),
                DT_STRSZ => dynamic.strings_size = value,
                DT_HASH => dynamic.hash = Some(value),
                tag @ (DT_REL | DT_RELR) => {
                    return Err(Error::Unsupported {
                        what: format!(
                            "dynamic tag {tag} (relocations without addends) at offset {:#x}",
                            offset + index as u64 * 16
                        ),
                        instead: "link with ld.lld, without -z rel or --pack-dyn-relocs",
                    });
                }
                _ => {}
            }
        }
        Ok(Some(dynamic))
    }

    /// All relocations; `symbols` is how many symbols there are.
    pub(crate) fn relocations(&self, raw: &Raw<'_>, segments: &[Segment], symbols: usize) -> Result<Vec<Relocation>> {
        let mut relocations = Vec::new();
        for (address, size) in [(self.rela, self.rela_size), (self.plt_rela, self.plt_rela_size)] {
            let Some(address) = address else { continue };
            let offset = self.locate(segments, address, size, "relocations")?;
            let table = raw.slice(offset, size, "the relocation table")?;
            relocations.reserve(table.len() / RELA_BYTES as usize);
            for (index, entry) in table.chunks_exact(RELA_BYTES as usize).enumerate() {
                let at = offset + index as u64 * RELA_BYTES;
                relocations.push(relocation(entry, at, symbols)?);
            }
        }
        Ok(relocations)
    }

    /// The dynamic symbols, counted by the hash table.
    pub(crate) fn symbols(&self, raw: &Raw<'_>, segments: &[Segment], budget: &mut u64) -> Result<Vec<Symbol>> {
        let (Some(symbols), Some(strings), Some(hash)) = (self.symbols, self.strings, self.hash) else {
            return Ok(Vec::new());
        };
        let hash = self.locate(segments, hash, 8, "the symbol hash table")?;
        let size = u64::from(raw.u32(hash + 4, "the symbol hash table")?) * 24;
        let symbols = self.locate(segments, symbols, size, "the symbol table")?;
        let strings = self.locate(segments, strings, self.strings_size, "the string table")?;
        let names = raw.slice(strings, self.strings_size, "the string table")?;
        symbol::read_table(raw, symbols, size, names, budget)
    }

    fn locate(&self, segments: &[Segment], address: u64, size: u64, what: &str) -> Result<u64> {
        file_offset(segments, address, size).ok_or_else(|| {
            let problem = format!("{what}: {size} bytes at address {address:#x} are in no segment's file contents");
            Error::damaged(self.offset, problem)
        })
    }
}

fn relocation(entry: &[u8], at: u64, symbols: usize) -> Result<Relocation> {
    let info = u64::from_le_bytes(field(entry, 8));
    let relocation = Relocation {
        address: u64::from_le_bytes(field(entry, 0)),
        kind: RelocationKind::from_number(info as u32),
        symbol: (info >> 32) as u32,
        addend: i64::from_le_bytes(field(entry, 16)),
    };
    if relocation.symbol as usize >= symbols.max(1) {
        let problem = format!("a relocation names symbol {}, but there are {symbols}", relocation.symbol);
        return Err(Error::damaged(at, problem));
    }
    Ok(relocation)
}
