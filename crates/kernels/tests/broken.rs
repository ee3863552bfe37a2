//! Broken descriptors: each gets the error that names its fault, at its line.
#![allow(clippy::unwrap_used, clippy::panic)]

use kbench_kernels::object::{ArgInfo, KernelInfo};
use kbench_kernels::record::KernelRecord;
use kbench_kernels::validate::{Severity, check_build, check_object, check_plan};
use kbench_kernels::{DeviceInfo, Manifest, ObjectInfo, Symbols, TensorInfo, Value, plan};

/// A descriptor that is right for [`object`] and [`Sizes`].
const RIGHT: &str = r#"schema = "kbench.kernels/1"
[[build]]
name = "scale"
family = "activation"
file = "scale.co"
targets = ["gfx942"]
dtypes = { x = "f32" }
when = ["n > 0"]
variant = [{ name = "wide", const = { BLOCK = 256 } }, { name = "tall", const = { BLOCK = 128 } }]
[[build.buffer]]
name = "scratch"
bytes = "n * 4"
[[build.launch]]
kernel = "scale"
grid = ["ceil_div(n, BLOCK)", 1, 1]
block = ["BLOCK", 1, 1]
lds = "0"
layout = "natural"
args = [
  { ptr = "out" },
  { ptr = "x" },
  { u32 = "n" },
  { f32 = 0.5 },
]
"#;

struct Sizes(i128);

impl Symbols for Sizes {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        (name == "n").then_some(Value::Int(self.0))
    }

    fn tensor(&self, name: &str) -> Option<TensorInfo> {
        matches!(name, "x" | "out").then(|| TensorInfo { dims: vec![self.0 as u64], bits: 32 })
    }
}

fn object() -> ObjectInfo {
    let arg = |offset, size, kind: &str| ArgInfo { name: None, offset, size, kind: kind.to_owned() };
    let resources = KernelRecord {
        name: "scale".to_owned(),
        vgprs: 8,
        agprs: 0,
        sgprs: 16,
        lds_bytes: 1024,
        scratch_bytes: 0,
        spills: 0,
        kernarg_bytes: 32,
        max_block: 256,
        wave_size: 64,
        code_bytes: 64,
    };
    let args = vec![
        arg(0, 8, "global_buffer"),
        arg(8, 8, "global_buffer"),
        arg(16, 4, "by_value"),
        arg(20, 4, "by_value"),
        arg(24, 4, "hidden_block_count_x"),
    ];
    ObjectInfo { arch: "gfx942".to_owned(), kernels: vec![KernelInfo { resources, args, reqd_block: None }] }
}

/// Everything that is said about a descriptor: by the parser, else by the checks, else by the plan of a case of `n`.
fn said(text: &str, n: i128) -> Vec<String> {
    let manifest = match Manifest::parse("d.toml", text) {
        Ok(manifest) => manifest,
        Err(error) => return vec![error.to_string()],
    };
    let (file, object) = (manifest.file.as_str(), object());
    let device = DeviceInfo::of_arch("gfx942", 304);
    let mut said = Vec::new();
    for build in &manifest.builds {
        let mut findings = check_build(file, build);
        findings.extend(check_object(file, build, &object));
        match plan(file, build, &build.variants[0], &Sizes(n), &device) {
            Ok(plan) => findings.extend(check_plan(file, build, &plan, &object, &device)),
            Err(error) => said.push(error.to_string()),
        }
        said.extend(findings.iter().filter(|finding| finding.severity == Severity::Error).map(ToString::to_string));
    }
    said
}

#[test]
fn the_right_one_is_right() {
    assert_eq!(said(RIGHT, 1000), Vec::<String>::new());
}

/// What is replaced, by what, the line that the error names, and words of it.
const BROKEN: &[(&str, &str, usize, &str)] = &[
    ("schema = \"kbench.kernels/1\"", "schema = \"kbench.kernels/9\"", 1, "this version reads \"kbench.kernels/1\""),
    ("schema = \"kbench.kernels/1\"", "", 1, "the key schema is missing"),
    ("family = \"activation\"", "", 2, "missing field `family`"),
    ("family = \"activation\"", "familly = \"activation\"", 4, "unknown field `familly`"),
    ("file = \"scale.co\"", "", 2, "one of source and file is needed"),
    ("file = \"scale.co\"", "file = \"../scale.co\"", 5, "below the folder of this file"),
    ("targets = [\"gfx942\"]", "targets = [\"mi300x\"]", 6, "\"mi300x\" is no architecture"),
    ("targets = [\"gfx942\"]", "targets = [\"gfx90a\"]", 3, "the code object is for gfx942, the build for gfx90a"),
    ("dtypes = { x = \"f32\" }", "dtypes = { x = [] }", 7, "dtypes: x: the name of a dtype"),
    ("\"n > 0\"", "\"n >\"", 8, "when[0]: in \"n >\", column 4: the end"),
    ("\"n > 0\"", "\"n > BLOCK\"", 8, "uses BLOCK, a constant of a variant"),
    (
        "{ name = \"tall\", const = { BLOCK = 128 } }",
        "{ name = \"tall\" }",
        3,
        "variant \"tall\" has no constant BLOCK",
    ),
    ("name = \"tall\"", "name = \"wide\"", 9, "another variant of this build has this name"),
    ("const = { BLOCK = 256 }", "const = { cu_count = 256 }", 9, "\"cu_count\" is no name that can be given"),
    (
        "const = { BLOCK = 256 }",
        "const = { BLOCK = 512 }",
        14,
        "has 512 work-items, the kernel scale takes at most 256",
    ),
    ("const = { BLOCK = 256 }", "const = { BLOCK = 2048 }", 14, "no GPU takes more than 1024"),
    ("bytes = \"n * 4\"", "", 11, "one of bytes and pointers is needed"),
    ("bytes = \"n * 4\"", "pointers = [\"nothing\"]", 3, "no tensor or buffer `nothing` to point to"),
    ("name = \"scratch\"", "name = \"out\"", 11, "has the name of a tensor of the case"),
    ("bytes = \"n * 4\"", "bytes = \"rows * 4\"", 12, "column 1: the name `rows` is neither"),
    ("bytes = \"n * 4\"", "bytes = \"n * 4\"\ninit = \"ones\"", 13, "\"zero\", \"poison\", \"iota_u32\""),
    ("kernel = \"scale\"", "kernel = \"scale.kd\"", 14, "write it without .kd"),
    ("kernel = \"scale\"", "kernel = \"scael\"", 14, "no kernel scael; it has scale"),
    ("\"ceil_div(n, BLOCK)\", 1, 1]", "\"ceil_div(n, BLOCK)\", 1]", 15, "three sizes (x, y, z) are needed, not 2"),
    ("\"ceil_div(n, BLOCK)\"", "\"n / 4096\"", 15, "grid[0]: \"n / 4096\" is 0"),
    (
        "\"ceil_div(n, BLOCK)\"",
        "\"n * 16777216\"",
        15,
        "grid[0]: in \"n * 16777216\", column 1: 16777216000 does not fit u32",
    ),
    ("\"ceil_div(n, BLOCK)\"", "\"n * 16778\"", 15, "2^32 work-items or more"),
    ("\"ceil_div(n, BLOCK)\"", "\"ceil_div(n)\"", 15, "`ceil_div` takes 2 arguments, not 1"),
    ("lds = \"0\"", "lds = \"lds_limit\"", 14, "66560 bytes of LDS (1024 static, 65536 dynamic)"),
    ("layout = \"natural\"", "layout = \"slot8\"", 18, "\"slot8\" is none of natural, slot16 and packed"),
    ("layout = \"natural\"", "layout = \"slot16\"", 23, "`0.5` ends at byte 52, beyond the kernel's 32 bytes"),
    ("{ ptr = \"x\" }", "{ ptr = \"y\" }", 21, "no tensor and the build no buffer `y`"),
    ("{ ptr = \"x\" }", "{ u32 = \"n\" }", 21, "lies on the kernel's pointer global_buffer at bytes 8..16"),
    ("{ ptr = \"x\" }", "{ ptr = \"x\", u32 = 1 }", 21, "one of ptr, null = true, u8"),
    ("{ ptr = \"x\" }", "{ ptr = \"x\", at = 4 }", 21, "at bytes 4..12 overlaps `out` at 0..8"),
    ("{ u32 = \"n\" }", "{ u32 = \"n\", offset = 4 }", 22, "offset and optional go with ptr only"),
    ("{ u32 = \"n\" }", "{ u32 = \"0 - n\" }", 22, "-1000 does not fit u32"),
    ("{ u32 = \"n\" }", "{ u64 = \"n\" }", 22, "does not fit the kernel's argument by_value at bytes 16..20"),
    ("{ u32 = \"n\" }", "{ u16 = \"n\" }", 22, "`n` gives 2 of the 4 bytes"),
    ("{ f32 = 0.5 },", "", 14, "nothing is given for the kernel's argument by_value at bytes 20..24"),
    ("{ f32 = 0.5 }", "{ f32 = \"1e300\" }", 23, "does not fit f32"),
    ("{ f32 = 0.5 }", "{ f32 = 0.5, at = 24 }", 23, "lies on hidden_block_count_x, which the driver writes"),
    ("layout = \"natural\"", "kernarg_size = 16", 22, "beyond the kernarg_size of 16"),
    ("layout = \"natural\"", "kernarg_size = 1000000", 18, "1000000 is not between 0 and 65536"),
];

#[test]
fn broken_ones_get_the_right_error() {
    assert!(BROKEN.len() >= 30);
    let mut wrong = Vec::new();
    for (old, new, line, words) in BROKEN {
        assert_eq!(RIGHT.matches(old).count(), 1, "{old}");
        let said = said(&RIGHT.replacen(old, new, 1), 1000);
        let right = said.iter().any(|said| said.contains(words) && said.starts_with(&format!("d.toml:{line}:")));
        if !right {
            wrong.push(format!("{old} -> {new}: wanted line {line} \"{words}\", got {said:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_required_block_is_required() {
    let manifest = Manifest::parse("d.toml", RIGHT).unwrap();
    let mut object = object();
    object.kernels[0].reqd_block = Some([64, 4, 1]);
    let findings = check_object("d.toml", &manifest.builds[0], &object);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].message.contains("the block is 256 x 1 x 1, the kernel scale needs 64 x 4 x 1"));
}

#[test]
fn no_text_is_no_manifest_and_nothing_panics() {
    for text in ["", "schema = 1", "[[build]]", "schema = \"kbench.kernels/1\"\nbuild = []", "\u{0}", "[[[["] {
        assert!(Manifest::parse("d.toml", text).is_err(), "{text:?}");
    }
    let long = "#".repeat((1 << 20) + 1);
    assert!(Manifest::parse("d.toml", &long).unwrap_err().message.contains("at most 1048576 bytes"));
    let deep = format!("schema = {}1{}", "[".repeat(5000), "]".repeat(5000));
    assert!(Manifest::parse("d.toml", &deep).is_err());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 3000, ..Default::default() })]

    /// Damaged descriptors are refused or understood, and whatever is understood can be checked and planned.
    #[test]
    fn damage_never_panics(
        edits in proptest::collection::vec((0usize..RIGHT.len(), proptest::prelude::any::<u8>(), 0u8..4), 1..8),
        n in proptest::prelude::any::<i64>(),
    ) {
        let mut bytes = RIGHT.as_bytes().to_vec();
        for (at, byte, how) in edits {
            let at = at % bytes.len();
            match how {
                0 => bytes[at] = byte % 128,
                1 => { bytes.remove(at); }
                2 => bytes.insert(at, b"0123456789\"'(),[]{}=\n.-"[usize::from(byte) % 23]),
                _ => { let end = (at + usize::from(byte)).min(bytes.len()); let part = bytes[at..end].to_vec(); bytes.extend(part); }
            }
        }
        let _ = said(&String::from_utf8_lossy(&bytes), n.into());
    }
}
