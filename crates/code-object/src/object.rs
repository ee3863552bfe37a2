//! A loaded code object: segments, sections, symbols, relocations, kernels.

use crate::descriptor::{DESCRIPTOR_BYTES, KernelDescriptor};
use crate::dynamic::Dynamic;
use crate::elf::{self, Header, Program, SectionHeader};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::metadata::{KernelMetadata, Metadata};
use crate::raw::{Raw, align_up};
use crate::relocation::Relocation;
use crate::symbol::{self, Symbol, SymbolKind};
use crate::target::{CodeObjectVersion, Target};
use bytes::Bytes;
use std::fmt;
use std::ops::Range;

/// Code reaches its data by 32-bit offsets, and a file of some kilobytes must not make a loader allocate terabytes.
const MAX_MEMORY: u64 = 1 << 32;
const NOTE_NAME: &[u8] = b"AMDGPU\0";
const NT_AMDGPU_METADATA: u32 = 32;
const OSABI_HSA: u8 = 64;

/// An AMDGPU code object of version 3 to 6: one linked ELF file for one target.
///
/// It owns its bytes (shared with the [`Image`](crate::Image) it came from). All addresses are virtual addresses of the
/// file; a loader adds the address where it puts the object.
#[derive(Clone)]
pub struct CodeObject {
    data: Bytes,
    target: Target,
    version: CodeObjectVersion,
    flags: u32,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
    by_name: Vec<u32>,
    relocations: Vec<Relocation>,
    kernels: Vec<Kernel>,
    metadata_version: Option<[u32; 2]>,
    metadata_target: Option<String>,
    printf: Vec<String>,
    undescribed: Vec<String>,
}

/// A part of the file that is loaded (`PT_LOAD`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Virtual address.
    pub address: u64,
    /// Bytes in memory; what the file does not fill is zero.
    pub memory_size: u64,
    /// Where the file's bytes are.
    pub file: Range<usize>,
    /// Alignment in bytes.
    pub align: u64,
    /// Loads are allowed.
    pub readable: bool,
    /// Stores are allowed.
    pub writable: bool,
    /// It holds code.
    pub executable: bool,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name.
    pub name: String,
    /// Virtual address, 0 when it is not loaded.
    pub address: u64,
    /// Bytes, in memory for sections without file contents.
    pub size: u64,
    /// Where the file's bytes are; empty for `.bss` and its like.
    pub file: Range<usize>,
    /// It is loaded (`SHF_ALLOC`).
    pub allocated: bool,
    /// It holds code (`SHF_EXECINSTR`).
    pub executable: bool,
}

impl Segment {
    fn read(raw: &Raw<'_>, program: &Program) -> Result<Self> {
        let Program { address, memory_size, file_size, at, .. } = *program;
        if file_size > memory_size {
            let problem = format!("a segment of {memory_size} bytes claims {file_size} bytes of the file");
            return Err(Error::damaged(at, problem));
        }
        if address.checked_add(memory_size).is_none() {
            let problem = format!("a segment of {memory_size} bytes at address {address:#x} passes 2^64");
            return Err(Error::damaged(at, problem));
        }
        Ok(Self {
            address,
            memory_size,
            file: raw.range(program.offset, file_size, "a loadable segment")?,
            align: program.align,
            executable: program.flags & 1 != 0,
            writable: program.flags & 2 != 0,
            readable: program.flags & 4 != 0,
        })
    }

    /// First address after it.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.memory_size)
    }

    /// Whether the address lies in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.address..self.end()).contains(&address)
    }

    /// File offset of an address that has `size` bytes in the file.
    fn file_offset(&self, address: u64, size: u64) -> Option<u64> {
        let inside = address.checked_sub(self.address)?;
        let end = inside.checked_add(size)?;
        (end <= self.file.len() as u64).then_some(self.file.start as u64 + inside)
    }
}

/// File offset of `size` bytes at a virtual address.
pub(crate) fn file_offset(segments: &[Segment], address: u64, size: u64) -> Option<u64> {
    segments.iter().find_map(|segment| segment.file_offset(address, size))
}

impl CodeObject {
    /// Parses a code object; the bytes are copied.
    ///
    /// # Errors
    /// When the bytes are not a linked AMDGPU HSA code object of version 3 to 6, or are damaged.
    pub fn parse(data: &[u8]) -> Result<Self> {
        Self::from_bytes(Bytes::copy_from_slice(data))
    }

    /// Parses a code object and keeps the bytes without copying them.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    pub fn from_bytes(data: Bytes) -> Result<Self> {
        let raw = Raw::new(&data);
        let header = Header::read(&raw)?;
        check_kind(&header)?;
        let version = CodeObjectVersion::from_abi(header.abi_version)?;
        let target = Target::from_flags(header.flags, version)?;

        let programs = header.programs(&raw)?;
        let segments = loadable(&raw, &programs)?;
        let headers = header.sections(&raw)?;
        let sections = sections(&raw, &header, &headers)?;
        let dynamic = Dynamic::read(&raw, &programs, &segments)?;
        let symbols = all_symbols(&raw, &headers, dynamic.as_ref(), &segments)?;
        let by_name = index_by_name(&symbols);
        let relocations = match &dynamic {
            Some(dynamic) => dynamic.relocations(&raw, &segments, symbols.len())?,
            None => Vec::new(),
        };

        let (note, origin) = metadata_note(&raw, &programs, &headers)?;
        let metadata = Metadata::read(note, origin)?;
        let mut object = Self {
            target,
            version,
            flags: header.flags,
            segments,
            sections,
            symbols,
            by_name,
            relocations,
            kernels: Vec::new(),
            metadata_version: metadata.version,
            metadata_target: metadata.target,
            printf: metadata.printf,
            undescribed: Vec::new(),
            data: data.clone(),
        };
        let functions = object.function_starts();
        let kernels: Result<Vec<Kernel>> =
            metadata.kernels.into_iter().map(|kernel| object.kernel_from(kernel, &functions)).collect();
        object.kernels = kernels?;
        object.undescribed = object.descriptors_without_metadata();
        Ok(object)
    }

    /// What it was compiled for, from `e_flags`.
    pub fn arch(&self) -> &Target {
        &self.target
    }

    /// Version of the code object ABI.
    pub fn version(&self) -> CodeObjectVersion {
        self.version
    }

    /// `e_flags` as they are.
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// The file.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The kernels, in the order of the metadata.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The kernel of a name; as a second choice, of a descriptor symbol.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        let named = self.kernels.iter().find(|kernel| kernel.name == name);
        named.or_else(|| self.kernels.iter().find(|kernel| kernel.symbol == name))
    }

    /// The segments, by ascending address and without overlap.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The sections; none when the file was stripped of their headers.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The section of a name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Bytes of memory that the loaded object takes: from address 0 to the end of the last segment. At most 4 GiB.
    pub fn memory_size(&self) -> u64 {
        self.segments.last().map_or(0, Segment::end)
    }

    /// Dynamic relocations, in the order of the file.
    pub fn relocations(&self) -> &[Relocation] {
        &self.relocations
    }

    /// All symbols: the dynamic table first (with its null symbol, so that a relocation's index fits), then what only the
    /// static table has.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// The symbol of a name: a defined one before an undefined one.
    pub fn symbol(&self, name: &str) -> Option<&Symbol> {
        let first = self.by_name.partition_point(|&index| self.name_at(index) < name);
        let same = self.by_name.get(first..)?.iter().take_while(|&&index| self.name_at(index) == name);
        let mut candidates = same.filter_map(|&index| self.symbols.get(index as usize));
        let defined = candidates.clone().find(|symbol| symbol.is_defined());
        defined.or_else(|| candidates.next())
    }

    fn name_at(&self, index: u32) -> &str {
        self.symbols.get(index as usize).map_or("", |symbol| &symbol.name)
    }

    /// `amdhsa.version` of the metadata: 1.0 for v3, 1.1 for v4, 1.2 for v5 and v6.
    pub fn metadata_version(&self) -> Option<[u32; 2]> {
        self.metadata_version
    }

    /// `amdhsa.target` of the metadata, such as `amdgcn-amd-amdhsa--gfx942`. Often missing: [`arch`](Self::arch) decides.
    pub fn metadata_target(&self) -> Option<&str> {
        self.metadata_target.as_deref()
    }

    /// Format strings of device `printf` (`amdhsa.printf`).
    pub fn printf(&self) -> &[String] {
        &self.printf
    }

    /// Descriptor symbols (`NAME.kd`) that the metadata does not mention: no runtime can launch them.
    pub fn descriptors_without_kernel(&self) -> &[String] {
        &self.undescribed
    }

    /// The file's bytes of a segment; memory beyond them is zero.
    pub fn segment_bytes(&self, segment: &Segment) -> &[u8] {
        self.data.get(segment.file.clone()).unwrap_or(&[])
    }

    /// The file's bytes of a section.
    pub fn section_bytes(&self, section: &Section) -> &[u8] {
        self.data.get(section.file.clone()).unwrap_or(&[])
    }

    /// `size` bytes at a virtual address, before relocation; `None` when the file does not hold all of them.
    pub fn read(&self, address: u64, size: u64) -> Option<&[u8]> {
        let offset = usize::try_from(file_offset(&self.segments, address, size)?).ok()?;
        self.data.get(offset..offset.checked_add(usize::try_from(size).ok()?)?)
    }

    /// Machine code of a kernel; `None` when the file does not hold it.
    pub fn code(&self, kernel: &Kernel) -> Option<&[u8]> {
        self.read(kernel.entry_address, kernel.code_size)
    }

    /// The memory image, relocated for loading at the device address `base`: [`memory_size`](Self::memory_size) bytes.
    /// `resolve` gives the device address of a symbol that this code object does not define; an undefined weak symbol that
    /// it does not know is 0.
    ///
    /// # Errors
    /// When a symbol stays unresolved, or a relocation writes outside the segments or is of an unknown kind.
    pub fn memory_image(&self, base: u64, mut resolve: impl FnMut(&Symbol) -> Option<u64>) -> Result<Vec<u8>> {
        let outside = |address: u64, what: &str| Error::damaged(address, format!("{what} lies outside the segments"));
        let size = usize::try_from(self.memory_size()).map_err(|_| outside(self.memory_size(), "the memory image"))?;
        let mut image = vec![0; size];
        for segment in &self.segments {
            let bytes = self.segment_bytes(segment);
            let start = segment.address as usize;
            let place = image.get_mut(start..start + bytes.len());
            place.ok_or_else(|| outside(segment.address, "a segment"))?.copy_from_slice(bytes);
        }
        for relocation in &self.relocations {
            let symbol = self.symbols.get(relocation.symbol as usize).filter(|_| relocation.symbol != 0);
            let address = match symbol {
                None => base,
                Some(symbol) => self.symbol_address(symbol, base, &mut resolve)?,
            };
            let patch = relocation.patch(base, address).ok_or_else(|| Error::Unsupported {
                what: format!("dynamic relocation {:?} at address {:#x}", relocation.kind, relocation.address),
                instead: "link the code object with ld.lld -shared",
            })?;
            let start = usize::try_from(relocation.address).ok();
            let place = start.and_then(|start| image.get_mut(start..start.checked_add(patch.bytes().len())?));
            place.ok_or_else(|| outside(relocation.address, "a relocation"))?.copy_from_slice(patch.bytes());
        }
        Ok(image)
    }

    fn symbol_address(
        &self,
        symbol: &Symbol,
        base: u64,
        resolve: &mut impl FnMut(&Symbol) -> Option<u64>,
    ) -> Result<u64> {
        match symbol.place {
            symbol::SymbolPlace::Absolute => Ok(symbol.address),
            symbol::SymbolPlace::Section(_) => Ok(base.wrapping_add(symbol.address)),
            symbol::SymbolPlace::Undefined => {
                let weak = (symbol.binding == symbol::Binding::Weak).then_some(0);
                resolve(symbol).or(weak).ok_or_else(|| Error::Unsupported {
                    what: format!("the undefined symbol {}", symbol.name),
                    instead: "link the code object with what defines it",
                })
            }
        }
    }

    fn kernel_from(&self, metadata: KernelMetadata, functions: &[u64]) -> Result<Kernel> {
        let missing = |key: &str| Error::damaged(metadata.offset, format!("a kernel has no {key} in the metadata"));
        let name = metadata.name.ok_or_else(|| missing(".name"))?;
        let symbol_name = metadata.symbol.ok_or_else(|| missing(".symbol"))?;
        let symbol = self.symbol(&symbol_name).filter(|symbol| symbol.is_defined()).ok_or_else(|| {
            Error::damaged(metadata.offset, format!("kernel {name}: no symbol {symbol_name}, its descriptor"))
        })?;
        let descriptor_address = symbol.address;
        let descriptor_bytes = self.read(descriptor_address, DESCRIPTOR_BYTES).and_then(|bytes| bytes.try_into().ok());
        let descriptor_bytes: &[u8; DESCRIPTOR_BYTES as usize] = descriptor_bytes.ok_or_else(|| {
            let problem =
                format!("kernel {name}: its descriptor at address {descriptor_address:#x} is not in the file");
            Error::damaged(metadata.offset, problem)
        })?;
        let descriptor = KernelDescriptor::read(descriptor_bytes, self.target.generation());
        let entry_address = descriptor_address.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
        let code_size = self.code_size(entry_address, &symbol_name, functions).ok_or_else(|| {
            let problem = format!("kernel {name}: its entry at address {entry_address:#x} is in no executable segment");
            Error::damaged(metadata.offset, problem)
        })?;
        let wave_size = metadata.wave_size.unwrap_or_else(|| descriptor.wave_size());
        Ok(Kernel {
            name,
            symbol: symbol_name,
            descriptor_address,
            entry_address,
            code_size,
            args: metadata.args,
            kernarg_size: metadata.kernarg_size.unwrap_or(descriptor.kernarg_size),
            kernarg_align: metadata.kernarg_align.unwrap_or(8),
            lds_bytes: metadata.lds_bytes.unwrap_or(descriptor.group_segment_fixed_size),
            scratch_bytes: metadata.scratch_bytes.unwrap_or(descriptor.private_segment_fixed_size),
            sgprs: metadata.sgprs.or(descriptor.allocated_sgprs()).unwrap_or(0),
            vgprs: metadata.vgprs.unwrap_or_else(|| descriptor.allocated_vgprs()),
            agprs: metadata.agprs.unwrap_or(0),
            sgpr_spills: metadata.sgpr_spills,
            vgpr_spills: metadata.vgpr_spills,
            wave_size,
            max_workgroup: metadata.max_workgroup,
            reqd_workgroup: metadata.reqd_workgroup,
            workgroup_hint: metadata.workgroup_hint,
            uniform_workgroup: metadata.uniform_workgroup,
            uses_dynamic_stack: metadata.uses_dynamic_stack.unwrap_or(descriptor.code_properties.uses_dynamic_stack),
            workgroup_processor_mode: metadata.workgroup_processor_mode,
            language: metadata.language,
            language_version: metadata.language_version,
            kind: metadata.kind,
            other: metadata.other,
            descriptor,
        })
    }

    /// Bytes of code from `entry`; `None` when no executable segment holds it.
    fn code_size(&self, entry: u64, descriptor_symbol: &str, functions: &[u64]) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.executable && segment.contains(entry))?;
        let file_end = segment.address.saturating_add(segment.file.len() as u64);
        let sized = descriptor_symbol.strip_suffix(".kd").and_then(|name| self.symbol(name));
        if let Some(symbol) = sized.filter(|symbol| symbol.address == entry && symbol.size > 0) {
            return Some(symbol.size.min(file_end.saturating_sub(entry)));
        }
        let section = self.sections.iter().find(|section| {
            section.allocated && (section.address..section.address.saturating_add(section.size)).contains(&entry)
        });
        let section_end = section.map_or(file_end, |section| section.address.saturating_add(section.size));
        let next = functions.get(functions.partition_point(|&start| start <= entry)).copied().unwrap_or(u64::MAX);
        Some(next.min(section_end).min(file_end).saturating_sub(entry))
    }

    /// Addresses of all functions, ascending.
    fn function_starts(&self) -> Vec<u64> {
        let functions = self.symbols.iter().filter(|symbol| symbol.is_defined() && symbol.kind == SymbolKind::Function);
        let mut starts: Vec<u64> = functions.map(|symbol| symbol.address).collect();
        starts.sort_unstable();
        starts
    }

    fn descriptors_without_metadata(&self) -> Vec<String> {
        let mut described: Vec<&str> = self.kernels.iter().map(|kernel| kernel.symbol.as_str()).collect();
        described.sort_unstable();
        let candidates = self.symbols.iter().filter(|symbol| {
            symbol.is_defined()
                && symbol.kind == SymbolKind::Object
                && symbol.size == DESCRIPTOR_BYTES
                && symbol.name.ends_with(".kd")
        });
        let missing = candidates.filter(|symbol| described.binary_search(&symbol.name.as_str()).is_err());
        missing.map(|symbol| symbol.name.clone()).collect()
    }
}

impl fmt::Debug for CodeObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeObject")
            .field("target", &self.target.to_string())
            .field("version", &self.version)
            .field("bytes", &self.data.len())
            .field("kernels", &self.kernels.len())
            .finish_non_exhaustive()
    }
}

fn check_kind(header: &Header) -> Result<()> {
    let expected = "a linked AMDGPU HSA code object";
    if header.machine != elf::EM_AMDGPU {
        let found = format!("an ELF file for machine {}", header.machine);
        return Err(Error::WrongKind { found, expected });
    }
    if header.os_abi != OSABI_HSA {
        let found = format!("an AMDGPU ELF file for OS ABI {} (PAL, Mesa or none)", header.os_abi);
        return Err(Error::WrongKind { found, expected });
    }
    match header.file_type {
        elf::ET_DYN => Ok(()),
        elf::ET_REL => Err(Error::Unsupported {
            what: "a relocatable AMDGPU object file".into(),
            instead: "link it first: ld.lld -shared FILE.o -o FILE.co",
        }),
        other => Err(Error::WrongKind { found: format!("an AMDGPU ELF file of type {other}"), expected }),
    }
}

fn loadable(raw: &Raw<'_>, programs: &[Program]) -> Result<Vec<Segment>> {
    let mut segments: Vec<(u64, Segment)> = Vec::new();
    for program in programs.iter().filter(|program| program.kind == elf::PT_LOAD) {
        let segment = Segment::read(raw, program)?;
        if segment.end() > MAX_MEMORY {
            let problem = format!("a segment ends at address {:#x}, beyond 4 GiB", segment.end());
            return Err(Error::damaged(program.at, problem));
        }
        segments.push((program.at, segment));
    }
    segments.sort_by_key(|(_, segment)| segment.address);
    for pair in segments.windows(2) {
        if let [(_, before), (at, after)] = pair
            && after.address < before.end()
        {
            let problem =
                format!("segments overlap: one ends at {:#x}, the next begins at {:#x}", before.end(), after.address);
            return Err(Error::damaged(*at, problem));
        }
    }
    Ok(segments.into_iter().map(|(_, segment)| segment).collect())
}

fn sections(raw: &Raw<'_>, header: &Header, headers: &[SectionHeader]) -> Result<Vec<Section>> {
    const LONGEST_NAME: usize = 4096;
    let names = header.section_names(raw, headers)?;
    let mut budget = names.len() * 4 + 4096;
    let mut sections = Vec::with_capacity(headers.len());
    for section in headers {
        let name = elf::string(names, section.name, LONGEST_NAME.min(budget)).unwrap_or(&[]);
        budget = budget.saturating_sub(name.len());
        let file = match section.kind {
            elf::SHT_NOBITS | 0 => 0..0,
            _ => raw.range(section.offset, section.size, "a section")?,
        };
        sections.push(Section {
            name: String::from_utf8_lossy(name).into_owned(),
            address: section.address,
            size: section.size,
            file,
            allocated: section.flags & 2 != 0,
            executable: section.flags & 4 != 0,
        });
    }
    Ok(sections)
}

fn all_symbols(
    raw: &Raw<'_>,
    headers: &[SectionHeader],
    dynamic: Option<&Dynamic>,
    segments: &[Segment],
) -> Result<Vec<Symbol>> {
    // Honest tables share names at most between the two of them and between suffixes.
    let mut budget = raw.data.len() as u64 * 8 + 4096;
    let mut read = |kind: u32| -> Result<Option<Vec<Symbol>>> {
        let Some(section) = headers.iter().find(|section| section.kind == kind) else { return Ok(None) };
        let names = headers.get(section.link as usize).filter(|_| section.link != 0);
        let names = match names {
            Some(table) => raw.slice(table.offset, table.size, "a string table")?,
            None => &[],
        };
        symbol::read_table(raw, section.offset, section.size, names, &mut budget).map(Some)
    };
    let from_sections = read(elf::SHT_DYNSYM)?;
    let static_symbols = read(elf::SHT_SYMTAB)?.unwrap_or_default();
    let mut symbols = match (from_sections, dynamic) {
        (Some(symbols), _) => symbols,
        (None, Some(dynamic)) => dynamic.symbols(raw, segments, &mut budget)?,
        (None, None) => Vec::new(),
    };
    let known = index_by_name(&symbols);
    let mut extra: Vec<Symbol> = Vec::new();
    for symbol in static_symbols {
        let name_at = |index: u32| symbols.get(index as usize).map_or("", |known| known.name.as_str());
        let first = known.partition_point(|&index| name_at(index) < symbol.name.as_str());
        let same = known.get(first).and_then(|&index| symbols.get(index as usize));
        if !symbol.name.is_empty() && same.is_none_or(|same| same.name != symbol.name) {
            extra.push(symbol);
        }
    }
    symbols.append(&mut extra);
    Ok(symbols)
}

fn index_by_name(symbols: &[Symbol]) -> Vec<u32> {
    let mut index: Vec<u32> = (0..symbols.len() as u32).collect();
    index.sort_by(|&a, &b| {
        let name = |index: u32| symbols.get(index as usize).map(|symbol| symbol.name.as_str());
        name(a).cmp(&name(b))
    });
    index
}

/// The metadata note's contents and their offset in the file.
fn metadata_note<'d>(raw: &Raw<'d>, programs: &[Program], headers: &[SectionHeader]) -> Result<(&'d [u8], u64)> {
    let from_segments = programs.iter().filter(|program| program.kind == elf::PT_NOTE);
    let from_sections = headers.iter().filter(|section| section.kind == elf::SHT_NOTE);
    let areas = from_segments
        .map(|program| (program.offset, program.file_size, program.align))
        .chain(from_sections.map(|section| (section.offset, section.size, 4)));
    // Hostile headers may name the same area again and again.
    let mut budget = raw.data.len() as u64 * 2;
    for (offset, size, align) in areas {
        let area = raw.slice(offset, size, "a note area")?;
        if size > budget {
            break;
        }
        budget -= size;
        if let Some(found) = find_note(area, offset, if align == 8 { 8 } else { 4 })? {
            return Ok(found);
        }
    }
    Err(Error::WrongKind {
        found: "an AMDGPU code object without a metadata note (name AMDGPU, type 32)".into(),
        expected: "a code object that a HIP or OpenCL compiler, or an assembler with .amdgpu_metadata, made",
    })
}

fn find_note(area: &[u8], origin: u64, align: u64) -> Result<Option<(&[u8], u64)>> {
    let notes = Raw::with_origin(area, origin);
    let mut at = 0;
    while at + 12 <= area.len() as u64 {
        let name_size = u64::from(notes.u32(at, "a note")?);
        let size = u64::from(notes.u32(at + 4, "a note")?);
        let kind = notes.u32(at + 8, "a note")?;
        let name = notes.slice(at + 12, name_size, "a note's name")?;
        let contents = align_up(at + 12 + name_size, align);
        if name == NOTE_NAME && kind == NT_AMDGPU_METADATA {
            return Ok(Some((notes.slice(contents, size, "the metadata note")?, origin + contents)));
        }
        at = align_up(contents.saturating_add(size), align);
    }
    Ok(None)
}
