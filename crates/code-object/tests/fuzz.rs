//! Mutated files: whatever the bytes, reading ends, with code objects or a clear error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/containers.rs"]
mod write;

use common::SMALL;
use kbench_code_object::{CodeObject, LaunchShape, compare, load};
use std::time::Instant;

/// A generator of numbers (PCG-like), so that every run does the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Numbers at which sizes and offsets break.
const EDGES: &[u64] = &[
    0, 1, 7, 23, 24, 63, 64, 255, 256, 4095, 0x7fff, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000,
    0x7fff_ffff_ffff_ffff, 0x8000_0000_0000_0000, 0xffff_ffff_ffff_fff8, u64::MAX,
];

fn mutate(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        // Headers decide most, so half of the mutations go there.
        let length = if random.below(2) == 0 { bytes.len().min(512) } else { bytes.len() };
        let at = random.below(length);
        match random.below(6) {
            0 | 1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 | 4 => {
                let width = [2, 4, 8][random.below(3)];
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let at = at / width * width;
                if let Some(place) = bytes.get_mut(at..at + width) {
                    place.copy_from_slice(&edge[..width]);
                }
            }
            _ => bytes.truncate(random.below(bytes.len())),
        }
    }
    bytes
}

/// Everything that can be asked of a file. Returns whether a code object came out.
fn exercise(bytes: Vec<u8>, reference: &CodeObject) -> bool {
    let images = match load(bytes) {
        Ok(images) => images,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let mut parsed = false;
    for image in images.iter().take(8) {
        let Ok(object) = image.code_object() else { continue };
        parsed = true;
        for kernel in object.kernels() {
            let shape = LaunchShape { block: kernel.default_block(), dynamic_lds_bytes: 64 };
            if let Ok(occupancy) = kernel.occupancy(object.arch(), shape) {
                assert!(occupancy.workgroups > 0 && occupancy.occupancy <= 1.0, "{occupancy:?}");
            }
            let code = object.code(kernel).map_or(0, <[u8]>::len);
            assert!(code as u64 <= kernel.code_size);
        }
        let _ = compare(reference, &object);
        if object.memory_size() < 1 << 16
            && let Ok(memory) = object.memory_image(0x1000, |_| Some(0))
        {
            assert_eq!(memory.len() as u64, object.memory_size());
        }
        let _ = object.symbol("add_one").map(|symbol| object.read(symbol.address, symbol.size));
    }
    parsed
}

fn fuzz(rounds: usize, start: u64) {
    let reference = CodeObject::parse(SMALL).unwrap();
    let plain = write::bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx942", SMALL)], 64);
    let seeds = [
        SMALL.to_vec(),
        SMALL.to_vec(),
        SMALL.to_vec(),
        plain.clone(),
        write::host_file(&plain),
        write::compressed(&plain, 3, true),
        write::compressed(&plain, 2, false),
        write::compressed(&plain, 1, true),
    ];
    for seed in &seeds {
        assert!(exercise(seed.clone(), &reference));
    }
    let mut random = Random(start);
    let begin = Instant::now();
    let mut parsed = 0;
    for round in 0..rounds {
        let bytes = mutate(&seeds[round % seeds.len()], &mut random);
        parsed += usize::from(exercise(bytes, &reference));
    }
    println!("{rounds} files in {:?}, {parsed} with a code object", begin.elapsed());
    // Mutations must reach past the first check: some files stay readable, most do not.
    assert!(parsed > rounds / 50 && parsed < rounds, "{parsed} of {rounds}");
}

#[test]
fn mutated_files_end_well() {
    fuzz(100_000, 1);
}

#[test]
#[ignore = "ten times as many files, other seeds"]
fn many_mutated_files_end_well() {
    fuzz(1_000_000, 2);
}

#[test]
fn every_truncation_ends_well() {
    let reference = CodeObject::parse(SMALL).unwrap();
    for length in 0..SMALL.len() {
        exercise(SMALL[..length].to_vec(), &reference);
    }
}

/// Tables that point into each other's strings must not multiply the file.
#[test]
fn overlapping_names_are_refused() {
    let object = CodeObject::parse(SMALL).unwrap();
    let dynsym = object.section(".dynsym").unwrap().file.clone();
    let dynstr = object.section(".dynstr").unwrap().file.clone();
    // A megabyte of one string, and forty thousand symbols that all name it.
    let mut file = SMALL.to_vec();
    let strings_at = file.len();
    file.extend(std::iter::repeat_n(b'a', 1 << 20));
    file.push(0);
    let symbols_at = file.len();
    for _ in 0..40_000 {
        let mut symbol = [0_u8; 24];
        symbol[0] = 1;
        file.extend(symbol);
    }
    // The section headers are at e_shoff; type at 4, offset at 24, size at 32.
    let headers = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes(file[60..62].try_into().unwrap()));
    let mut changed = 0;
    for header in (0..count).map(|index| headers + index * 64) {
        let offset = u64::from_le_bytes(file[header + 24..header + 32].try_into().unwrap()) as usize;
        let replacement = match offset {
            offset if offset == dynsym.start => (symbols_at, 40_000 * 24),
            offset if offset == dynstr.start => (strings_at, (1 << 20) + 1),
            _ => continue,
        };
        file[header + 24..header + 32].copy_from_slice(&(replacement.0 as u64).to_le_bytes());
        file[header + 32..header + 40].copy_from_slice(&(replacement.1 as u64).to_le_bytes());
        changed += 1;
    }
    assert_eq!(changed, 2);
    let error = CodeObject::parse(&file).unwrap_err().to_string();
    assert!(error.contains("no name at"), "{error}");
}
