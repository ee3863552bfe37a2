//! Containers around a code object, written here from clang's description of the formats.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::io::Write as _;

/// A plain bundle; images are aligned to `align`.
pub fn bundle(entries: &[(&str, &[u8])], align: usize) -> Vec<u8> {
    let header: usize = 32 + entries.iter().map(|(id, _)| 24 + id.len()).sum::<usize>();
    let mut at = header.next_multiple_of(align);
    let mut table = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    table.extend((entries.len() as u64).to_le_bytes());
    let mut images = Vec::new();
    for (id, image) in entries {
        table.extend((at as u64).to_le_bytes());
        table.extend((image.len() as u64).to_le_bytes());
        table.extend((id.len() as u64).to_le_bytes());
        table.extend(id.as_bytes());
        images.push((at, *image));
        at = (at + image.len()).next_multiple_of(align);
    }
    for (at, image) in images {
        table.resize(at, 0);
        table.extend(image);
    }
    table
}

/// A compressed bundle of header version 1, 2 or 3.
pub fn compressed(bundle: &[u8], version: u16, zstd: bool) -> Vec<u8> {
    let stream = if zstd {
        zstd::bulk::compress(bundle, 3).unwrap()
    } else {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bundle).unwrap();
        encoder.finish().unwrap()
    };
    let header = match version {
        1 => 20,
        2 => 24,
        _ => 32,
    };
    let total = header + stream.len();
    let mut file = b"CCOB".to_vec();
    file.extend(version.to_le_bytes());
    file.extend(u16::from(zstd).to_le_bytes());
    match version {
        1 => file.extend((bundle.len() as u32).to_le_bytes()),
        2 => {
            file.extend((total as u32).to_le_bytes());
            file.extend((bundle.len() as u32).to_le_bytes());
        }
        _ => {
            file.extend((total as u64).to_le_bytes());
            file.extend((bundle.len() as u64).to_le_bytes());
        }
    }
    file.extend([0x5a; 8]);
    file.extend(stream);
    file
}

/// An x86-64 ELF file whose only contents are a `.hip_fatbin` section.
pub fn host_file(fatbin: &[u8]) -> Vec<u8> {
    let names = b"\0.hip_fatbin\0.shstrtab\0";
    let names_at = 64 + fatbin.len();
    let sections_at = (names_at + names.len()).next_multiple_of(8);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for half in [3_u16, 62] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for word in [0_u64, 0, sections_at as u64] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 0, 64, 3, 2] {
        file.extend(half.to_le_bytes());
    }
    file.extend(fatbin);
    file.extend(names);
    file.resize(sections_at, 0);
    for (name, kind, offset, size) in [(0_u32, 0_u32, 0, 0), (1, 1, 64, fatbin.len()), (13, 3, names_at, names.len())] {
        file.extend(name.to_le_bytes());
        file.extend(kind.to_le_bytes());
        for word in [0, 0, offset as u64, size as u64, 0, 1, 0] {
            file.extend(word.to_le_bytes());
        }
    }
    file
}
