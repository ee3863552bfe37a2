//! The launch descriptors of aiter's hand-written kernels: their fields lie where aiter's argument structs have them, and
//! they fit code objects whose metadata has that layout.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{assemble, has_tool, kernel_text, kernels};
use kbench_kernels::manifest::{ArgSource, Build, Launch, ScalarType};
use kbench_kernels::validate::{Severity, check_build, check_object};
use kbench_kernels::{Manifest, ObjectInfo, kernarg};

/// The argument structs as aiter declares them, for gfx9: file of the descriptor, bytes, then the fields in order. Each takes
/// 16 bytes; p is a pointer, u a u32, f an f32.
const STRUCTS: &[(&str, u32, &str)] = &[
    ("pa", 272, "pppppppp f uuuuuuu p"),
    ("pa_ps", 368, "pppppppp f uuuuuu pppppp uu"),
    ("fmha_v3", 656, "ppppp f uuuuuuuuuuuuuuuuuuuuu pp u pp ppp uuuuuu"),
    ("fmoe", 448, "pppppppppppp uuuuuuuuuuuuuuuu"),
    ("fmoe_stage1", 368, "ppppppppp uuuuuuuuuuuuu p"),
    ("mla_decode", 368, "ppppppp f uuuuu ppppp u pp uu"),
    ("gemm_bf16", 352, "pppp ff uuuuuuuu uuuuu p u p"),
    ("gemm_i8", 208, "pppppp uuuuuuu"),
    ("gemm_fp8_blockscale", 256, "pppppp uuuuuuuuuu"),
    ("topksoftmax", 128, "ppp uuuuu"),
];

/// Offsets that the facts about aiter give by name: descriptor, name of the argument, offset.
const NAMED: &[(&str, &str, u32)] = &[
    ("pa", "block_table", 64),
    ("pa", "sclg2e", 128),
    ("pa", "kv_nheads", 160),
    ("pa", "GQA", 240),
    ("pa", "QTP", 256),
    ("pa_ps", "kv_indices", 64),
    ("pa_ps", "kv_nheads", 144),
    ("pa_ps", "qo_indptr", 240),
    ("pa_ps", "work_info", 288),
    ("pa_ps", "stride_scale_page", 352),
    ("fmha_v3", "scalar", 80),
    ("fmha_v3", "gqa", 176),
    ("fmha_v3", "opt", 240),
    ("fmha_v3", "kv_seq_len", 272),
    ("fmha_v3", "q_head_num", 320),
    ("fmha_v3", "o_Seqs", 384),
    ("fmha_v3", "ptr_qseq", 432),
    ("fmha_v3", "lse_Hs", 464),
    ("fmha_v3", "q_descale", 512),
    ("fmha_v3", "descale_v_Hs", 640),
    ("fmoe", "XC", 48),
    ("fmoe", "STP", 144),
    ("fmoe", "dim", 192),
    ("fmoe", "eGUs", 320),
    ("fmoe", "ps_deno", 432),
    ("fmoe_stage1", "STP", 112),
    ("fmoe_stage1", "dim", 144),
    ("fmoe_stage1", "activation", 336),
    ("fmoe_stage1", "SW", 352),
    ("mla_decode", "scalar", 112),
    ("mla_decode", "log2_plen", 192),
    ("mla_decode", "STP", 224),
    ("mla_decode", "out_16_nosplit", 288),
    ("mla_decode", "cp_rank", 352),
    ("gemm_bf16", "alpha", 64),
    ("gemm_bf16", "strideB1", 208),
    ("gemm_bf16", "is_out_b16", 288),
    ("gemm_bf16", "semaphore", 336),
    ("gemm_i8", "M", 96),
    ("gemm_i8", "KS", 192),
    ("gemm_fp8_blockscale", "scale_m", 208),
    ("gemm_fp8_blockscale", "scale_k", 240),
    ("topksoftmax", "batch", 48),
    ("topksoftmax", "out_stride", 112),
];

fn descriptor(name: &str) -> Manifest {
    let path = kernels().join(format!("descriptors/aiter/{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Manifest::parse(&format!("{name}.toml"), &text).unwrap_or_else(|error| panic!("{error}"))
}

fn launches(manifest: &Manifest) -> impl Iterator<Item = (&Build, &Launch)> {
    manifest.builds.iter().flat_map(|build| build.launches.iter().map(move |launch| (build, launch)))
}

#[test]
fn there_is_one_for_each_struct_and_no_other() {
    let folder = std::fs::read_dir(kernels().join("descriptors/aiter")).unwrap();
    let mut found: Vec<String> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap().replace(".toml", "")).collect();
    let mut wanted: Vec<&str> = STRUCTS.iter().map(|(name, ..)| *name).collect();
    found.sort();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn they_are_sound_without_a_file() {
    for (name, ..) in STRUCTS {
        let manifest = descriptor(name);
        for build in &manifest.builds {
            assert_eq!(check_build(&manifest.file, build), [], "{name}");
        }
    }
}

#[test]
fn fields_lie_where_aiter_has_them() {
    for (name, size, fields) in STRUCTS {
        let manifest = descriptor(name);
        for (build, launch) in launches(&manifest) {
            let kinds: String = launch
                .args
                .iter()
                .map(|arg| match arg.source {
                    ArgSource::Pointer { .. } | ArgSource::Null => 'p',
                    ArgSource::Scalar(ScalarType::F32, _) => 'f',
                    ArgSource::Scalar(ScalarType::U32, _) => 'u',
                    ArgSource::Scalar(other, _) => panic!("{name}: {other:?}"),
                })
                .collect();
            assert_eq!(kinds, fields.replace(' ', ""), "{name}: {}", build.name);
            let placed = kernarg::fields(launch).unwrap();
            for (index, field) in placed.iter().enumerate() {
                assert_eq!(field.offset as usize, 16 * index, "{name}: {}", field.name);
            }
            assert_eq!(launch.kernarg_size, Some(*size), "{name}");
            for (_, field, offset) in NAMED.iter().filter(|(of, ..)| of == name) {
                let placed = placed.iter().find(|placed| placed.name == *field);
                assert_eq!(placed.map(|placed| placed.offset), Some(*offset), "{name}: {field}");
            }
        }
    }
}

/// Metadata as those files have it: each field, then its slot's rest as an argument of its own.
fn slots(fields: &str, bytes: u32) -> Vec<(u32, u32, &'static str, &'static str)> {
    let mut args = Vec::new();
    for (index, kind) in fields.replace(' ', "").chars().enumerate() {
        let at = 16 * index as u32;
        if at >= bytes {
            break;
        }
        let (size, value) = if kind == 'p' { (8, "global_buffer") } else { (4, "by_value") };
        args.push((at, size, value, "field"));
        args.push((at + size, 16 - size, "by_value", "pad"));
    }
    args
}

#[test]
fn they_fit_code_objects_of_that_layout() {
    if !has_tool("llvm-mc-19") || !has_tool("ld.lld-19") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, size, fields) in STRUCTS {
        let manifest = descriptor(name);
        // Kernels that read less than the struct occur: the first 208 bytes are in all of them but the smallest.
        for read in [*size, 208.min(*size)] {
            let text = kernel_text("gfx942", "k", read, 65536, 1024, &slots(fields, read));
            let object = ObjectInfo::read(&assemble(folder.path(), "k", "gfx942", &text)).unwrap();
            for build in &manifest.builds {
                let findings = check_object(&manifest.file, build, &object);
                let errors: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
                assert!(errors.is_empty(), "{name}: {errors:?}");
                assert_eq!(!findings.is_empty(), read < *size, "{name}: {findings:?}");
            }
        }
        // gfx90a is no target of any; the block of 64 is less than all need.
        let text = kernel_text("gfx90a", "k", *size, 0, 64, &slots(fields, *size));
        let object = ObjectInfo::read(&assemble(folder.path(), "k", "gfx90a", &text)).unwrap();
        let findings = check_object(&manifest.file, &manifest.builds[0], &object);
        let said = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(said.contains("is for gfx90a") && said.contains("takes at most 64"), "{name}: {said}");
    }
}

#[test]
fn a_pointer_where_stage_1_has_four_bytes_is_a_warning() {
    if !has_tool("llvm-mc-19") || !has_tool("ld.lld-19") {
        return;
    }
    let (_, size, fields) = STRUCTS.iter().find(|(name, ..)| *name == "fmoe_stage1").unwrap();
    let mut args = slots(fields, *size);
    args.truncate(args.len() - 2);
    args.push((352, 4, "by_value", "SW"));
    args.push((356, 12, "by_value", "pad"));
    let folder = tempfile::tempdir().unwrap();
    let text = kernel_text("gfx942", "k", *size, 4352, 256, &args);
    let object = ObjectInfo::read(&assemble(folder.path(), "k", "gfx942", &text)).unwrap();
    let manifest = descriptor("fmoe_stage1");
    let findings = check_object(&manifest.file, &manifest.builds[0], &object);
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning), "{findings:?}");
    assert!(findings.iter().any(|finding| finding.message.contains("4 bytes for 8")), "{findings:?}");
}

#[test]
fn a_raw_argument_block_takes_any_field() {
    if !has_tool("llvm-mc-19") || !has_tool("ld.lld-19") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = kernel_text("gfx942", "k", 368, 58624, 256, &[(0, 368, "by_value", "_kernarg_raw")]);
    let object = ObjectInfo::read(&assemble(folder.path(), "k", "gfx942", &text)).unwrap();
    let manifest = descriptor("mla_decode");
    assert_eq!(check_object(&manifest.file, &manifest.builds[0], &object), []);
}
