//! Files that are generated from the opcode table. `KBENCH_BLESS=1` rewrites them.
#![allow(clippy::unwrap_used)]

#[path = "isa/not_executed.rs"]
mod not_executed;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use kbench_gfx_emu::isa::coverage;

fn check(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var("KBENCH_BLESS").is_ok() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} is stale: run this test with KBENCH_BLESS=1", path.display());
}

#[test]
fn coverage_is_current() {
    let head = "# Instructions the emulator decodes\n\n\
        Generated from `crates/gfx-emu/src/isa/opcodes.tsv` and `opcodes_gfx11.tsv` by `tests/isa_table.rs` (`KBENCH_BLESS=1`\n\
        rewrites it). An operation counts once, whatever encodings (e32, e64, SDWA, DPP; FLAT, GLOBAL, SCRATCH) it has. gfx1100\n\
        is decoded, not executed yet.\n\n\
        Not claimed: image instructions (LLVM accepts their encodings on gfx90a; no AMD document of that target has them), and\n\
        on gfx950 the literal operands of VOP3 and the scratch base registers that LLVM 22 reads from reserved source codes. On\n\
        gfx1100: image, export, interpolation and LDS-parameter instructions, `v_mov_b16` and upper halves of registers as 16-bit\n\
        operands (which LLVM's default text of gfx1100 lacks too), `v_dual_dot2acc_f32_bf16`, and reading LDS directly as a source.\n\n";
    check("../../docs/isa-coverage.md", &format!("{head}{}\n{}", not_executed::text(), coverage()));
}

/// `op.rs`: the operations in the order of the tables.
#[test]
fn operations_are_those_of_the_tables() {
    let tables = [include_str!("../src/isa/opcodes.tsv"), include_str!("../src/isa/opcodes_gfx11.tsv")];
    let mut names: Vec<String> = Vec::new();
    let mut headings = BTreeMap::new();
    let (mut encoding, mut has_gfx11) = ("", false);
    for line in tables.into_iter().flat_map(str::lines).filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let name = if fields[4] == "=" { fields[3] } else { fields[4] };
        let rest = name.strip_prefix("global_").or(name.strip_prefix("scratch_"));
        let name = rest.map_or(name.to_owned(), |rest| format!("flat_{rest}"));
        if fields[2] == "11" && !has_gfx11 {
            has_gfx11 = true;
            encoding = "";
        }
        if !names.contains(&name) {
            if fields[0] != encoding {
                encoding = fields[0];
                let family = if has_gfx11 { "GFX11: " } else { "" };
                headings.insert(names.len(), format!("{family}{}", heading(encoding)));
            }
            names.push(name);
        }
    }
    let source = include_str!("../src/isa/op.rs");
    let (head, rest) = source.split_once("pub enum Op {\n").unwrap();
    let (_, rest) = rest.split_once("}\n\nimpl Op").unwrap();
    let (body, _) = rest.split_once("pub(super) static OPS").unwrap();
    let (before, after) = body.split_once("COUNT: usize = ").unwrap();
    let (_, after) = after.split_once(';').unwrap();
    let mut expected = format!("{head}pub enum Op {{\n");
    for (i, name) in names.iter().enumerate() {
        if let Some(heading) = headings.get(&i) {
            writeln!(expected, "    // {heading}").unwrap();
        }
        writeln!(expected, "    {},", camel(name)).unwrap();
    }
    write!(expected, "}}\n\nimpl Op{before}COUNT: usize = {};{after}", names.len()).unwrap();
    expected.push_str("pub(super) static OPS: [Op; Op::COUNT] = [\n");
    names.iter().for_each(|name| writeln!(expected, "    Op::{},", camel(name)).unwrap());
    expected.push_str("];\n\nstatic NAMES: [&str; Op::COUNT] = [\n");
    names.iter().for_each(|name| writeln!(expected, "    \"{name}\",").unwrap());
    expected.push_str("];\n");
    check("src/isa/op.rs", &expected);
}

fn camel(name: &str) -> String {
    name.split('_').map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}

fn heading(encoding: &str) -> &'static str {
    match encoding {
        "SOP2" => "Scalar, two sources.",
        "SOPK" => "Scalar, 16-bit immediate.",
        "SOP1" => "Scalar, one source.",
        "SOPC" => "Scalar compares.",
        "SOPP" => "Program control.",
        "SMEM" => "Scalar memory.",
        "VOP1" => "Vector, one source.",
        "VOP2" => "Vector, two sources.",
        "VOPC" => "Vector compares.",
        "VOP3" => "Vector, only in the three-source encoding.",
        "VOP3P" => "Packed and mixed.",
        "MAI" => "Matrix.",
        "MAISCALE" => "Scaled matrix.",
        "DS" => "LDS and GWS.",
        "FLAT" => "FLAT, GLOBAL and SCRATCH.",
        "GLOBAL" => "GLOBAL and SCRATCH only.",
        "SCRATCH" => "SCRATCH only.",
        "MUBUF" => "Untyped buffers.",
        _ => "Typed buffers.",
    }
}
