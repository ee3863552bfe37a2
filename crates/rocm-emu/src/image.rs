//! Code objects that C programs hand over as a pointer without a size: how long they are, read without trusting them.

#![allow(unsafe_code)]

use crate::error::{HipError, Result};
use std::ffi::c_void;
use std::fs::File;
use std::sync::OnceLock;

/// Larger images are refused.
const LARGEST: u64 = 4 << 30;
const ELF_MAGIC: &[u8] = b"\x7fELF";
const BUNDLE_MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_MAGIC: &[u8] = b"CCOB";
/// A bundle has an entry a target.
const MOST_ENTRIES: u64 = 4096;
const LONGEST_ID: u64 = 4096;
/// A section without bytes in the file.
const NOBITS: u64 = 8;

/// The process's own memory, read so that an address nobody has mapped is an error and no signal.
fn memory() -> Option<&'static File> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    FILE.get_or_init(|| File::open("/proc/self/mem").ok()).as_ref()
}

/// An image in memory.
struct Source(u64);

impl Source {
    /// `count` bytes at `offset`.
    ///
    /// # Errors
    /// `hipErrorInvalidImage` when they are not all mapped.
    fn bytes(&self, offset: u64, count: u64) -> Result<Vec<u8>> {
        let start = self.0.checked_add(offset).filter(|_| count <= LARGEST).ok_or(HipError::InvalidImage)?;
        start.checked_add(count).ok_or(HipError::InvalidImage)?;
        let mut bytes = vec![0; count as usize];
        read(start, &mut bytes)?;
        Ok(bytes)
    }

    /// A little-endian number of up to 8 bytes.
    fn number(&self, offset: u64, bytes: u64) -> Result<u64> {
        let bytes = self.bytes(offset, bytes)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn starts_with(&self, magic: &[u8]) -> bool {
        self.bytes(0, magic.len() as u64).is_ok_and(|bytes| bytes == magic)
    }

    /// Bytes of an ELF file: to the end of its last header, segment or section.
    fn elf(&self) -> Result<u64> {
        let (segments, sections) = (self.number(32, 8)?, self.number(40, 8)?);
        let (segment_bytes, segment_count) = (self.number(54, 2)?, self.number(56, 2)?);
        let (section_bytes, section_count) = (self.number(58, 2)?, self.number(60, 2)?);
        let mut end =
            extent(segments, segment_bytes * segment_count)?.max(extent(sections, section_bytes * section_count)?);
        for index in 0..segment_count {
            let at = extent(segments, index * segment_bytes)?;
            end = end.max(extent(self.number(at + 8, 8)?, self.number(at + 32, 8)?)?);
        }
        for index in 0..section_count {
            let at = extent(sections, index * section_bytes)?;
            if self.number(at + 4, 4)? != NOBITS {
                end = end.max(extent(self.number(at + 24, 8)?, self.number(at + 32, 8)?)?);
            }
        }
        Ok(end)
    }

    /// Bytes of an offload bundle: to the end of its last entry.
    fn bundle(&self) -> Result<u64> {
        let count = self.number(24, 8)?;
        if count > MOST_ENTRIES {
            return Err(HipError::InvalidImage);
        }
        let (mut at, mut end) = (32, 32);
        for _ in 0..count {
            let (offset, size, id) = (self.number(at, 8)?, self.number(at + 8, 8)?, self.number(at + 16, 8)?);
            if id > LONGEST_ID {
                return Err(HipError::InvalidImage);
            }
            at += 24 + id;
            end = end.max(at).max(extent(offset, size)?);
        }
        Ok(end)
    }

    /// Bytes of a compressed bundle. Version 1 does not say: such a bundle can be loaded from a file only.
    fn compressed(&self) -> Result<u64> {
        match self.number(4, 2)? {
            2 => self.number(8, 4),
            3 => self.number(8, 8),
            _ => Err(HipError::InvalidImage),
        }
    }
}

/// The end of a range that has to lie in an image.
fn extent(offset: u64, bytes: u64) -> Result<u64> {
    offset.checked_add(bytes).filter(|end| *end <= LARGEST).ok_or(HipError::InvalidImage)
}

#[cfg(unix)]
fn read(address: u64, out: &mut [u8]) -> Result {
    use std::os::unix::fs::FileExt;
    match memory() {
        Some(file) => file.read_exact_at(out, address).map_err(|_| HipError::InvalidImage),
        None => {
            // SAFETY: without /proc the caller's word has to do, as for the real runtime.
            unsafe {
                std::ptr::with_exposed_provenance::<u8>(address as usize)
                    .copy_to_nonoverlapping(out.as_mut_ptr(), out.len())
            };
            Ok(())
        }
    }
}

/// The bytes of the image at a pointer.
///
/// # Errors
/// `hipErrorInvalidImage` when it is none, or its headers point outside mapped memory.
pub(crate) fn at(pointer: *const c_void) -> Result<Vec<u8>> {
    let source = Source(pointer.expose_provenance() as u64);
    let bytes = if source.starts_with(ELF_MAGIC) {
        source.elf()?
    } else if source.starts_with(BUNDLE_MAGIC) {
        source.bundle()?
    } else if source.starts_with(COMPRESSED_MAGIC) {
        source.compressed()?
    } else {
        return Err(HipError::InvalidImage);
    };
    source.bytes(0, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(bytes: &[u8]) -> Result<Vec<u8>> {
        at(bytes.as_ptr().cast())
    }

    fn bundle(code: &[u8]) -> Vec<u8> {
        let id = b"hipv4-amdgcn-amd-amdhsa--gfx942";
        let mut bytes = BUNDLE_MAGIC.to_vec();
        let offset = 32 + 24 + id.len() as u64;
        for number in [1, offset, code.len() as u64, id.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(id);
        bytes.extend(code);
        bytes
    }

    #[test]
    fn images_are_as_long_as_they_say() {
        let mut bytes = bundle(&[7; 100]);
        let whole = bytes.clone();
        bytes.extend([9; 50]);
        assert_eq!(of(&bytes).unwrap(), whole);
        let mut compressed = b"CCOB\x02\0\x01\0\x18\0\0\0".to_vec();
        compressed.resize(64, 1);
        assert_eq!(of(&compressed).unwrap(), &compressed[..24]);
        compressed[4] = 1;
        assert_eq!(of(&compressed), Err(HipError::InvalidImage));
    }

    #[test]
    fn what_is_not_mapped_is_an_error() {
        assert_eq!(at(std::ptr::without_provenance(16)), Err(HipError::InvalidImage));
        assert_eq!(at(std::ptr::without_provenance(usize::MAX - 8)), Err(HipError::InvalidImage));
        let mut far = bundle(&[7; 4]);
        far[40..48].copy_from_slice(&(3_u64 << 30).to_le_bytes());
        assert_eq!(of(&far), Err(HipError::InvalidImage));
    }

    proptest! {
        #[test]
        fn damaged_headers_never_crash(
            kind in 0..3_usize,
            changes in proptest::collection::vec((0..200_usize, any::<u8>()), 0..6),
        ) {
            let mut bytes = match kind {
                0 => bundle(&[7; 100]),
                1 => b"CCOB\x03\0\x01\0\x40\0\0\0\0\0\0\0".to_vec(),
                _ => b"\x7fELF\x02\x01\x01\x40".to_vec(),
            };
            bytes.resize(256, 0);
            for (at, value) in changes {
                bytes[at + 4] = value;
            }
            // Large sizes that happen to be mapped would only take time.
            if let Ok(image) = of(&bytes) {
                prop_assert!(image.len() as u64 <= LARGEST);
            }
        }
    }
}
