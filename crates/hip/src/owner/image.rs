//! Whether bytes may be given to HIP as a code object: it takes an address without a length and believes the offsets it finds there.

use crate::api::HipError;

const ELF: &[u8] = b"\x7fELF";
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_BUNDLE: &[u8] = b"CCOB";
/// Bytes of an ELF64 header, of its program headers and of its section headers.
const ELF_HEADER: usize = 64;
const PROGRAM_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;
/// Type of a section that has no bytes in the file.
const NOBITS: u64 = 8;

/// Refuses bytes that are not a code object, or whose parts lie beyond their end.
pub(super) fn check(image: &[u8]) -> Result<(), HipError> {
    let checked = if image.starts_with(ELF) {
        elf(image)
    } else if image.starts_with(BUNDLE) {
        bundle(image)
    } else if image.starts_with(COMPRESSED_BUNDLE) {
        compressed(image)
    } else {
        Err("it is neither an ELF file nor an offload bundle")
    };
    checked.map_err(|why| {
        HipError::invalid(format!("not a code object that HIP could load ({} bytes): {why}", image.len()))
    })
}

/// A little-endian number of `bytes` bytes.
fn number(image: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = image.get(at..at.checked_add(bytes)?)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// Whether `offset..offset + size` lies in the image.
fn holds(image: &[u8], offset: u64, size: u64) -> bool {
    offset.checked_add(size).is_some_and(|end| end <= image.len() as u64)
}

fn elf(image: &[u8]) -> Result<(), &'static str> {
    const SHORT: &str = "the file is cut off: its headers point beyond its end";
    if image.len() < ELF_HEADER {
        return Err(SHORT);
    }
    // Class 64-bit, little-endian: all that AMDGPU has.
    if image.get(4..6) != Some(&[2, 1]) {
        return Err("it is not a 64-bit little-endian ELF file");
    }
    let field = |at, bytes| number(image, at, bytes).ok_or(SHORT);
    let (program, sections) = (field(32, 8)?, field(40, 8)?);
    let (program_size, programs) = (field(54, 2)?, field(56, 2)?);
    let (section_size, section_count) = (field(58, 2)?, field(60, 2)?);
    if (programs > 0 && program_size != PROGRAM_HEADER) || (section_count > 0 && section_size != SECTION_HEADER) {
        return Err("its headers have an unknown size");
    }
    for index in 0..programs {
        let header = program.checked_add(index * PROGRAM_HEADER).ok_or(SHORT)?;
        let at = |offset: u64| header.checked_add(offset).ok_or(SHORT).and_then(|at| field(at, 8));
        if !holds(image, at(8)?, at(32)?) {
            return Err(SHORT);
        }
    }
    for index in 0..section_count {
        let header = sections.checked_add(index * SECTION_HEADER).ok_or(SHORT)?;
        let at = |offset: u64, bytes: usize| header.checked_add(offset).ok_or(SHORT).and_then(|at| field(at, bytes));
        if at(4, 4)? != NOBITS && !holds(image, at(24, 8)?, at(32, 8)?) {
            return Err(SHORT);
        }
    }
    Ok(())
}

fn bundle(image: &[u8]) -> Result<(), &'static str> {
    const SHORT: &str = "the bundle is cut off: its entries point beyond its end";
    let mut at = BUNDLE.len() as u64;
    let count = number(image, at, 8).ok_or(SHORT)?;
    at += 8;
    for _ in 0..count {
        let entry = [0, 8, 16].map(|field| number(image, at + field, 8));
        let [Some(offset), Some(size), Some(name)] = entry else { return Err(SHORT) };
        at = at.checked_add(24).and_then(|at| at.checked_add(name)).ok_or(SHORT)?;
        if at > image.len() as u64 || !holds(image, offset, size) {
            return Err(SHORT);
        }
    }
    Ok(())
}

/// A compressed bundle says its own size from version 2 on (32 bits, 64 from version 3); version 1 does not, so HIP could not know it either.
fn compressed(image: &[u8]) -> Result<(), &'static str> {
    const SHORT: &str = "the compressed bundle is cut off";
    let total = match number(image, 4, 2).ok_or(SHORT)? {
        1 => return Err("compressed bundles of version 1 do not say their size; unbundle it first"),
        2 => number(image, 8, 4),
        _ => number(image, 8, 8),
    };
    match total {
        Some(total) if total <= image.len() as u64 => Ok(()),
        _ => Err(SHORT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(image: &mut [u8], at: usize, value: u64, bytes: usize) {
        image[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    /// An ELF file with one program header and one section header behind the file header.
    fn small_elf() -> Vec<u8> {
        let mut image = vec![0; 64 + 56 + 64 + 16];
        image[..6].copy_from_slice(b"\x7fELF\x02\x01");
        for (at, value, bytes) in [(32, 64, 8), (40, 120, 8), (54, 56, 2), (56, 1, 2), (58, 64, 2), (60, 1, 2)] {
            put(&mut image, at, value, bytes);
        }
        put(&mut image, 64 + 8, 184, 8);
        put(&mut image, 64 + 32, 16, 8);
        put(&mut image, 120 + 24, 184, 8);
        put(&mut image, 120 + 32, 16, 8);
        image
    }

    #[test]
    fn a_whole_elf_file_passes_and_every_cut_of_it_fails() {
        let image = small_elf();
        assert_eq!(check(&image), Ok(()));
        for length in 0..image.len() {
            assert!(check(&image[..length]).is_err(), "cut to {length}");
        }
    }

    #[test]
    fn parts_beyond_the_end_are_refused_and_bss_may_be_long() {
        let mut image = small_elf();
        put(&mut image, 120 + 32, 17, 8);
        assert!(check(&image).is_err());
        put(&mut image, 120 + 4, NOBITS, 4);
        assert_eq!(check(&image), Ok(()));
        put(&mut image, 64 + 8, u64::MAX, 8);
        assert!(check(&image).is_err(), "an offset that wraps");
    }

    #[test]
    fn bundles_are_bounded() {
        let mut image = BUNDLE.to_vec();
        image.extend(1_u64.to_le_bytes());
        let data = image.len() as u64 + 24 + 4;
        for value in [data, 8, 4] {
            image.extend(value.to_le_bytes());
        }
        image.extend(b"host");
        image.extend([0; 8]);
        assert_eq!(check(&image), Ok(()));
        for length in 0..image.len() {
            assert!(check(&image[..length]).is_err(), "cut to {length}");
        }
        // A count that no file could hold ends at the file's end, not after 2^64 entries.
        put(&mut image, 24, u64::MAX, 8);
        assert!(check(&image).is_err());
    }

    #[test]
    fn compressed_bundles_say_their_size() {
        let mut image = b"CCOB\x02\x00\x01\x00".to_vec();
        image.extend(32_u32.to_le_bytes());
        image.resize(32, 0);
        assert_eq!(check(&image), Ok(()));
        assert!(check(&image[..31]).is_err());
        put(&mut image, 4, 3, 2);
        put(&mut image, 8, 32, 8);
        assert_eq!(check(&image), Ok(()));
        put(&mut image, 4, 1, 2);
        assert!(check(&image).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_run_long(magic in 0_usize..3, mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let magic = [ELF, BUNDLE, COMPRESSED_BUNDLE][magic];
            let length = magic.len().min(bytes.len());
            bytes[..length].copy_from_slice(&magic[..length]);
            let _either = check(&bytes);
        }

        #[test]
        fn an_elf_file_with_a_changed_header_never_reaches_beyond_its_end(at in 4_usize..184, value in proptest::num::u8::ANY) {
            let mut image = small_elf();
            image[at] = value;
            if check(&image).is_ok() {
                // Read again in another way: every part that the headers name ends within the file.
                let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
                let half = |at: usize| usize::from(u16::from_le_bytes(image[at..at + 2].try_into().unwrap()));
                for index in 0..half(56) {
                    let header = usize::try_from(word(32)).unwrap() + index * 56;
                    proptest::prop_assert!(u128::from(word(header + 8)) + u128::from(word(header + 32)) <= image.len() as u128);
                }
                for index in 0..half(60) {
                    let header = usize::try_from(word(40)).unwrap() + index * 64;
                    let in_file = image[header + 4..header + 8] != [8, 0, 0, 0];
                    proptest::prop_assert!(!in_file || u128::from(word(header + 24)) + u128::from(word(header + 32)) <= image.len() as u128);
                }
            }
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for image in [&b""[..], b"MZ", b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE"] {
            assert!(check(image).is_err());
        }
    }
}
