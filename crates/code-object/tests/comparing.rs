//! Two code objects compared.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Bench, SMALL, read};
use kbench_code_object::{CodeMatch, CodeObject, Comparison, compare};

const BASE: &str = r#"
DEVICE int table[16] = {1, 2, 3};
DEVICE int other[16] = {4, 5, 6};
extern "C" GLOBAL void uses(int *p) { p[LANE] = table[LANE]; }
extern "C" GLOBAL void plain(int *p) { p[LANE] = 7; }
extern "C" GLOBAL void gone(int *p) { p[LANE] = other[LANE]; }
"#;

fn build(bench: &Bench, name: &str, source: &str, arch: &str) -> CodeObject {
    CodeObject::parse(&read(&bench.hip(name, source, arch, &[]))).unwrap()
}

fn code(comparison: &Comparison, name: &str) -> CodeMatch {
    comparison.kernels.iter().find(|kernel| kernel.name == name).unwrap().code
}

#[test]
fn a_file_is_the_same_as_itself() {
    let object = CodeObject::parse(SMALL).unwrap();
    let comparison = compare(&object, &object);
    assert!(comparison.is_same());
    assert_eq!(comparison.kernels[0].code, CodeMatch::Identical);
}

#[test]
fn moved_data_is_told_from_changed_code() {
    let Some(bench) = Bench::with(&["clang-19", "ld.lld-19"]) else { return };
    for arch in ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"] {
        let base = build(&bench, "base", BASE, arch);
        // A kernel before the others and data before the table: everything moves.
        let moved = format!("DEVICE long before[999] = {{1}};\nextern \"C\" GLOBAL void first(long *p) {{ *p = before[LANE]; }}\n{BASE}")
            .replace("extern \"C\" GLOBAL void gone", "// ");
        let candidate = build(&bench, "moved", &moved, arch);
        let comparison = compare(&base, &candidate);
        assert_eq!((&comparison.added[..], &comparison.removed[..]), (&["first".to_owned()][..], &["gone".to_owned()][..]));
        assert_eq!(code(&comparison, "plain"), CodeMatch::Identical, "{arch}");
        assert_eq!(code(&comparison, "uses"), CodeMatch::SameButForAddresses, "{arch}");
        assert!(!comparison.is_same());
        assert!(comparison.kernels.iter().all(|kernel| kernel.is_same()), "{arch}: {comparison:?}");

        // Only the symbol changes: the code would be the same bytes but for the offset, and yet does something else.
        let swapped = BASE.replace("p[LANE] = table", "p[LANE] = other");
        let comparison = compare(&base, &build(&bench, "swapped", &swapped, arch));
        assert_eq!(code(&comparison, "uses"), CodeMatch::Different, "{arch}");

        let changed = BASE.replace("= 7", "= 8");
        let comparison = compare(&base, &build(&bench, "changed", &changed, arch));
        assert_eq!(code(&comparison, "plain"), CodeMatch::Different, "{arch}");
        assert_eq!(code(&comparison, "uses"), CodeMatch::Identical, "{arch}");
    }
}

#[test]
fn figures_that_differ_are_named() {
    let Some(bench) = Bench::with(&["clang-19", "ld.lld-19"]) else { return };
    let kernel = |n: u32, extra: &str| {
        format!("extern \"C\" GLOBAL void k(int *p{extra}) {{ SHARED int b[{n}]; b[LANE] = p[LANE]; \
                 __builtin_amdgcn_s_barrier(); p[LANE] = b[{n} - 1 - LANE]; }}")
    };
    let base = build(&bench, "base", &kernel(64, ""), "gfx942");
    let candidate = build(&bench, "candidate", &kernel(128, ", long more"), "gfx942");
    let comparison = compare(&base, &candidate);
    let kernel = &comparison.kernels[0];
    assert!(!kernel.same_arguments);
    let figure = |name: &str| {
        let found = kernel.differences.iter().find(|difference| difference.field == name)?;
        Some((found.base?, found.candidate?))
    };
    // 64 and 128 ints; a pointer, and a pointer and a long.
    assert_eq!(figure("lds_bytes"), Some((256, 512)));
    assert_eq!(figure("kernarg_size"), Some((8, 16)));
    assert_eq!(figure("wave_size"), None);
}

#[test]
fn other_processors_are_different() {
    let Some(bench) = Bench::with(&["clang-19", "ld.lld-19"]) else { return };
    let comparison = compare(&build(&bench, "a", BASE, "gfx942"), &build(&bench, "b", BASE, "gfx1100"));
    assert!(comparison.kernels.iter().all(|kernel| kernel.code == CodeMatch::Different));
    assert_eq!(comparison.targets, ["gfx942", "gfx1100"]);
    assert!(!comparison.is_same());
}

/// The relocated image holds what a loader would write.
#[test]
fn memory_images_are_relocated() {
    let object = CodeObject::parse(SMALL).unwrap();
    let base = 0x7f00_0000_0000;
    let image = object.memory_image(base, |_| None).unwrap();
    assert_eq!(image.len() as u64, object.memory_size());
    let kernel = &object.kernels()[0];
    // small.s: `pointer: .quad add_one`.
    let pointer = object.symbol("pointer").unwrap().address as usize;
    let value = u64::from_le_bytes(image[pointer..pointer + 8].try_into().unwrap());
    assert_eq!(value, base + kernel.entry_address);
    let code = kernel.entry_address as usize;
    assert_eq!(&image[code..code + kernel.code_size as usize], object.code(kernel).unwrap());
}
