//! Where code objects are kept: offload bundles, compressed bundles, host files.
//!
//! Formats: clang's documentation "Clang Offload Bundler" (bundle layout, entry ids, compressed bundle header).

use crate::compressed;
use crate::elf::{self, Header};
use crate::error::{Error, Result};
use crate::object::CodeObject;
use crate::raw::Raw;
use crate::target::Target;
use bytes::Bytes;
use serde::Serialize;
use std::ops::Range;

const BUNDLE_MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const FATBIN_SECTION: &[u8] = b".hip_fatbin";
/// A bundle has an entry a target; a device library has some dozens.
const MAX_ENTRIES: u64 = 4096;
const LONGEST_ENTRY_ID: u64 = 4096;
const EXPECTED: &str = "an AMDGPU code object, a clang offload bundle (plain or compressed) or a host ELF file with a \
                        .hip_fatbin section";

/// One device image found in a file.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its bundle entry; `None` for a bare code object.
    pub entry: Option<BundleEntry>,
    /// Offset in the file of the image, or of the compressed bundle that holds it.
    pub file_offset: u64,
    /// How the bundle was compressed.
    pub compression: Option<Compression>,
    /// What the bytes are.
    pub content: Content,
    /// The bytes, shared with the file when it was not compressed.
    pub bytes: Bytes,
}

impl Image {
    /// Parses the code object in it.
    ///
    /// # Errors
    /// When it is something else or damaged; offsets in the error count from the start of the image.
    pub fn code_object(&self) -> Result<CodeObject> {
        match self.content {
            Content::CodeObject => CodeObject::from_bytes(self.bytes.clone()),
            other => Err(Error::WrongKind { found: other.describe().to_owned(), expected: "an AMDGPU code object" }),
        }
    }
}

/// What an image is, told by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// An AMDGPU ELF file.
    CodeObject,
    /// An ELF file for another machine (a bundle's host entry).
    HostElf,
    /// LLVM bitcode (`-emit-llvm`, `-fgpu-rdc`).
    Bitcode,
    /// SPIR-V (`amdgcnspirv`), compiled when it is loaded.
    Spirv,
    /// Something else, such as assembly text.
    Other,
}

impl Content {
    fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(elf::MAGIC) {
            let machine = Raw::new(bytes).u16(18, "e_machine");
            if machine == Ok(elf::EM_AMDGPU) { Content::CodeObject } else { Content::HostElf }
        } else if bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(b"\xde\xc0\x17\x0b") {
            Content::Bitcode
        } else if bytes.starts_with(b"\x03\x02\x23\x07") {
            Content::Spirv
        } else {
            Content::Other
        }
    }

    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Content::CodeObject => "an AMDGPU code object",
            Content::HostElf => "an ELF file for another machine",
            Content::Bitcode => "LLVM bitcode",
            Content::Spirv => "SPIR-V",
            Content::Other => "neither an ELF file, LLVM bitcode nor SPIR-V",
        }
    }
}

/// The compression of a bundle (`CCOB`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Compression {
    /// The method.
    pub method: CompressionMethod,
    /// Version of the header: 1, 2 or 3.
    pub version: u16,
    /// Bytes of the compressed bundle in the file, header included.
    pub compressed_bytes: u64,
    /// Bytes of the bundle in it.
    pub uncompressed_bytes: u64,
}

/// How a bundle is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CompressionMethod {
    /// zlib.
    Zlib,
    /// Zstandard.
    Zstd,
}

impl CompressionMethod {
    /// `zlib` or `zstd`.
    pub fn as_str(self) -> &'static str {
        match self {
            CompressionMethod::Zlib => "zlib",
            CompressionMethod::Zstd => "zstd",
        }
    }
}

/// The id of a bundle entry: `hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct BundleEntry {
    /// The whole id.
    pub id: String,
    /// Offload kind: `hip`, `hipv4`, `openmp`, `host`.
    pub kind: String,
    /// Target triple: `amdgcn-amd-amdhsa`.
    pub triple: String,
    /// Target ID: `gfx942:sramecc+:xnack-`; `None` for host entries.
    pub target_id: Option<String>,
}

impl BundleEntry {
    /// Splits an id. What has no dash is all kind.
    pub fn parse(id: &str) -> Self {
        let (kind, rest) = id.split_once('-').unwrap_or((id, ""));
        // The environment of the triple may be missing or empty, and target IDs have dashes of their own.
        let (triple, target_id) = match rest.find("-gfx") {
            Some(at) => (rest.get(..at).unwrap_or(""), rest.get(at + 1..).map(str::to_owned)),
            None => (rest, None),
        };
        Self { id: id.to_owned(), kind: kind.to_owned(), triple: triple.trim_end_matches('-').to_owned(), target_id }
    }

    /// The target, when the target ID names a known one.
    pub fn target(&self) -> Option<Target> {
        Target::parse(self.target_id.as_deref()?)
    }
}

/// Finds the device images of a file, told by content: a code object is one image; an offload bundle, compressed or not, has
/// one an entry; a host ELF file has those of all bundles in its `.hip_fatbin` section. Empty entries (the host's, usually)
/// are left out. Images are not parsed: [`Image::code_object`] does.
///
/// # Errors
/// When the file is none of these, holds no device image, or is damaged.
pub fn load(data: impl Into<Bytes>) -> Result<Vec<Image>> {
    let data: Bytes = data.into();
    let mut loader = Loader { budget: compressed::budget(data.len()), images: Vec::new() };
    if data.starts_with(elf::MAGIC) {
        match Content::of(&data) {
            Content::CodeObject => loader.images.push(Image {
                entry: None,
                file_offset: 0,
                compression: None,
                content: Content::CodeObject,
                bytes: data,
            }),
            _ => {
                for section in fatbin_sections(&data)? {
                    let origin = section.start as u64;
                    loader.bundles(&data.slice(section), origin)?;
                }
            }
        }
    } else if data.starts_with(BUNDLE_MAGIC) || data.starts_with(compressed::MAGIC) {
        loader.bundles(&data, 0)?;
    } else {
        return Err(Error::WrongKind { found: sniff(&data), expected: EXPECTED });
    }
    if loader.images.is_empty() {
        return Err(Error::WrongKind {
            found: "offload bundles whose entries are all empty".into(),
            expected: EXPECTED,
        });
    }
    Ok(loader.images)
}

fn sniff(data: &[u8]) -> String {
    let head = data.get(..8.min(data.len())).unwrap_or(&[]);
    match Content::of(data) {
        Content::Bitcode => "LLVM bitcode (compile it: clang --target=amdgcn-amd-amdhsa -mcpu=...)".into(),
        Content::Spirv => "SPIR-V".into(),
        _ if data.is_empty() => "an empty file".into(),
        _ if data.starts_with(b"!<arch>\n") => "an archive (extract its members: ar x FILE)".into(),
        _ if data.starts_with(b"\x1f\x8b") => "a gzip file (unpack it first)".into(),
        _ if head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) => "a text file".into(),
        _ => format!("a file that begins with {head:02x?}"),
    }
}

/// File ranges of the sections with device code.
fn fatbin_sections(data: &[u8]) -> Result<Vec<Range<usize>>> {
    let raw = Raw::new(data);
    let header = Header::read(&raw)?;
    let sections = header.sections(&raw)?;
    let names = header.section_names(&raw, &sections)?;
    let mut found: Vec<Range<usize>> = Vec::new();
    for section in sections.iter().filter(|section| section.kind != elf::SHT_NOBITS && section.size > 0) {
        if elf::string(names, section.name, FATBIN_SECTION.len()) == Some(FATBIN_SECTION) {
            let range = raw.range(section.offset, section.size, "the .hip_fatbin section")?;
            // Overlapping sections would make the work quadratic.
            if let Some(last) = found.last()
                && range.start < last.end
            {
                return Err(Error::damaged(section.offset, ".hip_fatbin sections overlap or are out of order"));
            }
            found.push(range);
        }
    }
    if found.is_empty() {
        let found = format!("an ELF file for machine {} without a .hip_fatbin section", header.machine);
        return Err(Error::WrongKind { found, expected: EXPECTED });
    }
    Ok(found)
}

struct Loader {
    /// How many bytes may still be decompressed.
    budget: u64,
    images: Vec<Image>,
}

impl Loader {
    /// Bundles one after the other, with padding between them (the linker aligns each to a page).
    fn bundles(&mut self, area: &Bytes, origin: u64) -> Result<()> {
        let mut at = 0;
        while let Some(padding) = area.get(at..).and_then(|rest| rest.iter().position(|&byte| byte != 0)) {
            at += padding;
            let rest = area.slice(at..);
            let offset = origin + at as u64;
            at += if rest.starts_with(BUNDLE_MAGIC) {
                self.bundle(&rest, offset, None)?
            } else if rest.starts_with(compressed::MAGIC) {
                let unpacked = compressed::unpack(&rest, offset, &mut self.budget)?;
                if !unpacked.bundle.starts_with(BUNDLE_MAGIC) {
                    let problem = "a compressed bundle holds no offload bundle";
                    return Err(Error::damaged(offset, problem));
                }
                self.bundle(&unpacked.bundle, offset, Some(unpacked.compression))?;
                usize::try_from(unpacked.compression.compressed_bytes).unwrap_or(usize::MAX)
            } else {
                let head = rest.get(..8.min(rest.len())).unwrap_or(&[]);
                let problem = format!("{head:02x?}, but an offload bundle or zero padding was expected");
                return Err(Error::damaged(offset, problem));
            };
        }
        Ok(())
    }

    /// One plain bundle at the start of `data`; how many bytes it takes.
    fn bundle(&mut self, data: &Bytes, origin: u64, compression: Option<Compression>) -> Result<usize> {
        // In a compressed bundle, offsets count inside it.
        let raw = Raw::with_origin(data, if compression.is_some() { 0 } else { origin });
        let count = raw.u64(BUNDLE_MAGIC.len() as u64, "the bundle's entry count")?;
        if count > MAX_ENTRIES {
            let problem = format!("a bundle of {count} entries, more than {MAX_ENTRIES}");
            return Err(Error::damaged(origin + BUNDLE_MAGIC.len() as u64, problem));
        }
        let mut at = BUNDLE_MAGIC.len() as u64 + 8;
        let mut end = 0;
        for _ in 0..count {
            let offset = raw.u64(at, "a bundle entry")?;
            let size = raw.u64(at + 8, "a bundle entry")?;
            let id_size = raw.u64(at + 16, "a bundle entry")?;
            if id_size > LONGEST_ENTRY_ID {
                let problem = format!("a bundle entry's id of {id_size} bytes, more than {LONGEST_ENTRY_ID}");
                return Err(Error::damaged(origin + at + 16, problem));
            }
            let id = raw.slice(at + 24, id_size, "a bundle entry's id")?;
            at += 24 + id_size;
            let range = raw.range(offset, size, "a bundle entry's image")?;
            end = end.max(range.end);
            if !range.is_empty() {
                let bytes = data.slice(range);
                self.images.push(Image {
                    entry: Some(BundleEntry::parse(&String::from_utf8_lossy(id))),
                    file_offset: if compression.is_some() { origin } else { origin + offset },
                    compression,
                    content: Content::of(&bytes),
                    bytes,
                });
            }
        }
        Ok(end.max(usize::try_from(at).unwrap_or(usize::MAX)))
    }
}
