//! The parts of ELF64, little endian, that code objects and host files have in common.

use crate::error::{Error, Result};
use crate::raw::{Raw, field};

pub(crate) const MAGIC: &[u8; 4] = b"\x7fELF";
pub(crate) const EM_AMDGPU: u16 = 224;
pub(crate) const ET_REL: u16 = 1;
pub(crate) const ET_DYN: u16 = 3;
pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_DYNAMIC: u32 = 2;
pub(crate) const PT_NOTE: u32 = 4;
pub(crate) const SHT_SYMTAB: u32 = 2;
pub(crate) const SHT_NOTE: u32 = 7;
pub(crate) const SHT_NOBITS: u32 = 8;
pub(crate) const SHT_DYNSYM: u32 = 11;

const PROGRAM_HEADER_BYTES: u64 = 56;
const SECTION_HEADER_BYTES: u64 = 64;
/// Linkers write about ten; the cap keeps hostile files linear.
const MAX_PROGRAM_HEADERS: u16 = 512;
/// A host file built with one section a function has some hundred thousand.
const MAX_SECTIONS: u64 = 1 << 20;

/// The ELF header's fields that decide what a file is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) os_abi: u8,
    pub(crate) abi_version: u8,
    pub(crate) file_type: u16,
    pub(crate) machine: u16,
    pub(crate) flags: u32,
    program_offset: u64,
    program_count: u16,
    section_offset: u64,
    section_count: u16,
    names_index: u16,
}

/// A program header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
    pub(crate) align: u64,
    /// Where this header itself is in the file.
    pub(crate) at: u64,
}

/// A section header, with the offset of its name in the section name table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionHeader {
    pub(crate) name: u32,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
}

impl Header {
    /// Reads the header; refuses what is not ELF64 little endian.
    pub(crate) fn read(raw: &Raw<'_>) -> Result<Self> {
        let ident: [u8; 16] = raw.array(0, "the ELF identification")?;
        let expected = "a 64-bit little-endian ELF file";
        if !ident.starts_with(MAGIC) {
            return Err(Error::WrongKind { found: format!("the bytes begin with {:02x?}", &ident[..4]), expected });
        }
        let [_, _, _, _, class, encoding, version, os_abi, abi_version, ..] = ident;
        if class != 2 || encoding != 1 {
            let bits = if class == 1 { "32-bit" } else { "unknown-class" };
            let found = if class == 2 { "a big-endian ELF file".into() } else { format!("a {bits} ELF file") };
            return Err(Error::WrongKind { found, expected });
        }
        if version != 1 {
            return Err(Error::damaged(6_u64, format!("ELF version {version}, but only 1 exists")));
        }
        let header: [u8; 64] = raw.array(0, "the ELF header")?;
        let header = Self {
            os_abi,
            abi_version,
            file_type: u16::from_le_bytes(field(&header, 16)),
            machine: u16::from_le_bytes(field(&header, 18)),
            flags: u32::from_le_bytes(field(&header, 48)),
            program_offset: u64::from_le_bytes(field(&header, 32)),
            program_count: u16::from_le_bytes(field(&header, 56)),
            section_offset: u64::from_le_bytes(field(&header, 40)),
            section_count: u16::from_le_bytes(field(&header, 60)),
            names_index: u16::from_le_bytes(field(&header, 62)),
        };
        let program_size = raw.u16(54, "e_phentsize")?;
        if header.program_count > 0 && u64::from(program_size) != PROGRAM_HEADER_BYTES {
            let problem = format!("e_phentsize is {program_size}, but {PROGRAM_HEADER_BYTES} was expected");
            return Err(Error::damaged(54_u64, problem));
        }
        let section_size = raw.u16(58, "e_shentsize")?;
        if header.section_offset != 0 && u64::from(section_size) != SECTION_HEADER_BYTES {
            let problem = format!("e_shentsize is {section_size}, but {SECTION_HEADER_BYTES} was expected");
            return Err(Error::damaged(58_u64, problem));
        }
        Ok(header)
    }

    pub(crate) fn programs(&self, raw: &Raw<'_>) -> Result<Vec<Program>> {
        if self.program_count > MAX_PROGRAM_HEADERS {
            let problem = format!("{} program headers, more than {MAX_PROGRAM_HEADERS}", self.program_count);
            return Err(Error::damaged(56_u64, problem));
        }
        let size = u64::from(self.program_count) * PROGRAM_HEADER_BYTES;
        let table = raw.slice(self.program_offset, size, "the program header table")?;
        let headers = table.chunks_exact(PROGRAM_HEADER_BYTES as usize).enumerate().map(|(index, bytes)| Program {
            kind: u32::from_le_bytes(field(bytes, 0)),
            flags: u32::from_le_bytes(field(bytes, 4)),
            offset: u64::from_le_bytes(field(bytes, 8)),
            address: u64::from_le_bytes(field(bytes, 16)),
            file_size: u64::from_le_bytes(field(bytes, 32)),
            memory_size: u64::from_le_bytes(field(bytes, 40)),
            align: u64::from_le_bytes(field(bytes, 48)),
            at: self.program_offset + index as u64 * PROGRAM_HEADER_BYTES,
        });
        Ok(headers.collect())
    }

    /// The section headers; none when the file was stripped of them.
    pub(crate) fn sections(&self, raw: &Raw<'_>) -> Result<Vec<SectionHeader>> {
        if self.section_offset == 0 {
            return Ok(Vec::new());
        }
        // A count that does not fit 16 bits is in the size field of section 0.
        let count = match self.section_count {
            0 => raw.u64(self.section_offset.saturating_add(32), "the section count in section 0")?,
            count => u64::from(count),
        };
        if count > MAX_SECTIONS {
            let problem = format!("{count} sections, more than {MAX_SECTIONS}");
            return Err(Error::damaged(self.section_offset, problem));
        }
        let table = raw.slice(self.section_offset, count * SECTION_HEADER_BYTES, "the section header table")?;
        let headers = table.chunks_exact(SECTION_HEADER_BYTES as usize).map(|bytes| SectionHeader {
            name: u32::from_le_bytes(field(bytes, 0)),
            kind: u32::from_le_bytes(field(bytes, 4)),
            flags: u64::from_le_bytes(field(bytes, 8)),
            address: u64::from_le_bytes(field(bytes, 16)),
            offset: u64::from_le_bytes(field(bytes, 24)),
            size: u64::from_le_bytes(field(bytes, 32)),
            link: u32::from_le_bytes(field(bytes, 40)),
        });
        Ok(headers.collect())
    }

    /// The table of section names; empty when there is none.
    pub(crate) fn section_names<'d>(&self, raw: &Raw<'d>, sections: &[SectionHeader]) -> Result<&'d [u8]> {
        let index = match (self.names_index, sections.first()) {
            (0xffff, Some(first)) => first.link as usize,
            (index, _) => usize::from(index),
        };
        match sections.get(index) {
            Some(table) if index != 0 => raw.slice(table.offset, table.size, "the section name table"),
            _ => Ok(&[]),
        }
    }
}

/// The zero-terminated bytes at `offset` of a string table; at most `limit` of them.
pub(crate) fn string(table: &[u8], offset: u32, limit: usize) -> Option<&[u8]> {
    let tail = table.get(offset as usize..)?;
    let window = tail.get(..limit.saturating_add(1)).unwrap_or(tail);
    let end = window.iter().position(|&byte| byte == 0)?;
    window.get(..end)
}
