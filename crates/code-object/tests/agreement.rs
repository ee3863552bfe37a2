//! Agreement with LLVM's tools on every code object that they can build here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "common/yaml.rs"]
mod yaml;

use common::{Bench, KERNELS, SMALL, read};
use kbench_code_object::{
    CodeObject, CodeObjectVersion, Feature, Kernel, KernelDescriptor, Processor, Relocation, RelocationKind, SymbolKind,
    Target, WorkitemIds,
};
use std::collections::BTreeMap;
use std::path::Path;

const BUILDS: &[(&str, &[&str])] = &[
    ("gfx900", &[]),
    ("gfx908", &[]),
    ("gfx90a", &[]),
    ("gfx90a:xnack+", &["-mcode-object-version=4"]),
    ("gfx942", &[]),
    ("gfx942:sramecc+:xnack-", &["-mcode-object-version=6"]),
    ("gfx942", &["-mcode-object-version=4"]),
    ("gfx942", &["-O0"]),
    ("gfx942", &["-mllvm", "-amdgpu-kernarg-preload-count=6"]),
    ("gfx1030", &[]),
    ("gfx1100", &[]),
    ("gfx1100", &["-mwavefrontsize64", "-mcumode"]),
    ("gfx1102", &["-mcode-object-version=6"]),
    ("gfx1201", &[]),
    ("gfx1201", &["-mwavefrontsize64"]),
    ("gfx9-generic", &["-mcode-object-version=6"]),
    ("gfx11-generic", &["-mcode-object-version=6"]),
];

#[test]
fn everything_that_readelf_and_objdump_show() {
    let Some(bench) = Bench::with(&["clang-19", "llvm-readelf-19", "llvm-objdump-19", "ld.lld-19"]) else { return };
    for (index, (arch, flags)) in BUILDS.iter().enumerate() {
        let name = format!("build{index}");
        let path = bench.hip(&name, KERNELS, arch, flags);
        let object = CodeObject::parse(&read(&path)).unwrap_or_else(|error| panic!("{arch} {flags:?}: {error}"));
        assert_eq!(object.kernels().len(), 7, "{arch}");
        agrees(&bench, &path, &object, &format!("{arch} {flags:?}"));
    }
}

#[test]
fn opencl_argument_information() {
    let Some(bench) = Bench::with(&["clang-19", "llvm-readelf-19", "llvm-objdump-19", "ld.lld-19"]) else { return };
    bench.write(
        "f.cl",
        "typedef float float4 __attribute__((ext_vector_type(4)));\n\
         __attribute__((reqd_work_group_size(64,2,1))) kernel void f(global const float *restrict a, global volatile int *b,\n\
           local float *l, constant int *c, read_only image2d_t im, float4 v) { b[0] = a[1] * l[0] + c[2] + v.x; }\n\
         __attribute__((work_group_size_hint(128,1,1))) __attribute__((vec_type_hint(float4)))\n\
         kernel void g(global int *p) { p[0] = p[7]; }\n",
    );
    let args = ["-x", "cl", "-cl-std=CL2.0", "-cl-kernel-arg-info", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx900"];
    bench.run("clang-19", &[&args[..], &["-nogpulib", "-O2", "f.cl", "-o", "f.co"]].concat());
    let path = bench.path("f.co");
    let object = CodeObject::parse(&read(&path)).unwrap();
    agrees(&bench, &path, &object, "OpenCL");
    // What was written in the source above.
    let f = object.kernel("f").unwrap();
    assert_eq!(f.reqd_workgroup, Some([64, 2, 1]));
    assert_eq!(f.default_block(), 128);
    assert_eq!(f.language.as_deref(), Some("OpenCL C"));
    let names: Vec<&str> = f.args.iter().map(|arg| arg.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["a", "b", "l", "c", "im", "v"]);
    assert!(f.args[0].is_const && f.args[0].is_restrict && f.args[1].is_volatile && !f.args[1].is_const);
    assert_eq!(object.kernel("g").unwrap().workgroup_hint, Some([128, 1, 1]));
}

#[test]
fn the_fixture_is_what_its_source_gives() {
    let Some(bench) = Bench::with(&["llvm-mc-19", "ld.lld-19", "llvm-readelf-19", "llvm-objdump-19"]) else { return };
    let path = bench.assemble("small", include_str!("data/small.s"), "gfx942", &["-mattr=+sramecc,-xnack"]);
    assert_eq!(read(&path), SMALL);
    let object = CodeObject::parse(SMALL).unwrap();
    agrees(&bench, &path, &object, "fixture");
    // What small.s says.
    let kernel = &object.kernels()[0];
    assert_eq!(kernel.accum_offset(), Some(36));
    assert_eq!((kernel.lds_bytes, kernel.kernarg_size, kernel.agprs), (512, 8, 4));
    assert_eq!(kernel.reqd_workgroup, Some([64, 2, 1]));
    assert_eq!(object.arch().to_string(), "gfx942:sramecc+:xnack-");
}

#[test]
fn processor_numbers_are_those_of_the_assembler() {
    let Some(bench) = Bench::with(&["llvm-mc-19"]) else { return };
    bench.write("empty.s", "");
    let mut checked = 0;
    for processor in Processor::all() {
        let cpu = format!("-mcpu={}", processor.name);
        let known = std::process::Command::new("llvm-mc-19")
            .args(["-triple=amdgcn-amd-amdhsa", "--amdhsa-code-object-version=6", &cpu, "-filetype=obj", "empty.s", "-o", "empty.o"])
            .current_dir(bench.dir.path())
            .output()
            .unwrap();
        if !String::from_utf8_lossy(&known.stderr).is_empty() {
            continue;
        }
        let object = read(&bench.path("empty.o"));
        assert_eq!(object[48], processor.mach, "{}", processor.name);
        // Bits 8-9 and 10-11 of e_flags: 0 where the feature is not supported.
        assert_eq!(object[49] & 3 != 0, processor.supports_xnack, "xnack of {}", processor.name);
        assert_eq!(object[49] & 12 != 0, processor.supports_sramecc, "sramecc of {}", processor.name);
        checked += 1;
    }
    assert!(checked >= 50, "only {checked} processors were known to the assembler");
}

#[test]
fn targets_of_flags_and_versions() {
    let Some(bench) = Bench::with(&["clang-19", "ld.lld-19"]) else { return };
    let source = "extern \"C\" GLOBAL void k(int *p) { *p = 1; }";
    let cases = [
        ("gfx942", "4", CodeObjectVersion::V4, Feature::Any, Feature::Any),
        ("gfx942:xnack+", "5", CodeObjectVersion::V5, Feature::On, Feature::Any),
        ("gfx942:sramecc-:xnack-", "6", CodeObjectVersion::V6, Feature::Off, Feature::Off),
        ("gfx906:sramecc+", "5", CodeObjectVersion::V5, Feature::Any, Feature::On),
        ("gfx1100", "5", CodeObjectVersion::V5, Feature::Unsupported, Feature::Unsupported),
    ];
    for (arch, version, expected, xnack, sramecc) in cases {
        let path = bench.hip("k", source, arch, &[&format!("-mcode-object-version={version}")]);
        let object = CodeObject::parse(&read(&path)).unwrap();
        assert_eq!(object.version(), expected);
        assert_eq!((object.arch().xnack, object.arch().sramecc), (xnack, sramecc), "{arch}");
        assert_eq!(object.arch().to_string(), arch);
        assert_eq!(object.metadata_target(), Some(format!("amdgcn-amd-amdhsa--{arch}").as_str()));
        assert_eq!(Target::parse(arch), Some(*object.arch()));
    }
    let path = bench.hip("k", source, "gfx11-generic", &["-mcode-object-version=6"]);
    let object = CodeObject::parse(&read(&path)).unwrap();
    assert_eq!(object.arch().generic_version, 1);
    assert!(object.arch().runs_on(&Target::parse("gfx1101").unwrap()));
    assert!(!object.arch().runs_on(&Target::parse("gfx1201").unwrap()));
}

fn agrees(bench: &Bench, path: &Path, object: &CodeObject, what: &str) {
    let file = path.to_str().unwrap();
    let notes = yaml::flatten_notes(&bench.run("llvm-readelf-19", &["--notes", file]));
    assert_eq!(metadata_as_shown(object), notes, "{what}");
    symbols_agree(bench, file, object, what);
    layout_agrees(bench, file, object, what);
    relocations_agree(bench, file, object, what);
    for kernel in object.kernels() {
        descriptor_agrees(bench, file, kernel, what);
    }
}

/// Our metadata in the flat form of the tool's.
fn metadata_as_shown(object: &CodeObject) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    let [major, minor] = object.metadata_version().unwrap();
    flat.insert("amdhsa.version/0".into(), major.to_string());
    flat.insert("amdhsa.version/1".into(), minor.to_string());
    if let Some(target) = object.metadata_target() {
        flat.insert("amdhsa.target".into(), target.to_owned());
    }
    for (index, kernel) in object.kernels().iter().enumerate() {
        let mut put = |key: &str, value: String| {
            flat.insert(format!("amdhsa.kernels/{index}/{key}"), value);
        };
        put(".name", kernel.name.clone());
        put(".symbol", kernel.symbol.clone());
        put(".kernarg_segment_size", kernel.kernarg_size.to_string());
        put(".kernarg_segment_align", kernel.kernarg_align.to_string());
        put(".group_segment_fixed_size", kernel.lds_bytes.to_string());
        put(".private_segment_fixed_size", kernel.scratch_bytes.to_string());
        put(".sgpr_count", kernel.sgprs.to_string());
        put(".vgpr_count", kernel.vgprs.to_string());
        put(".wavefront_size", kernel.wave_size.to_string());
        if has_agprs(object) {
            put(".agpr_count", kernel.agprs.to_string());
        }
        let numbers = [
            (".sgpr_spill_count", kernel.sgpr_spills),
            (".vgpr_spill_count", kernel.vgpr_spills),
            (".max_flat_workgroup_size", kernel.max_workgroup),
            (".uniform_work_group_size", kernel.uniform_workgroup.map(u32::from)),
            (".workgroup_processor_mode", kernel.workgroup_processor_mode.map(u32::from)),
        ];
        for (key, value) in numbers {
            if let Some(value) = value {
                put(key, value.to_string());
            }
        }
        // llvm-mc keeps what the source says; our fixture does not say it.
        if object.version() >= CodeObjectVersion::V5 && kernel.sgpr_spills.is_some() {
            put(".uses_dynamic_stack", kernel.uses_dynamic_stack.to_string());
        }
        let triples = [(".reqd_workgroup_size", kernel.reqd_workgroup), (".workgroup_size_hint", kernel.workgroup_hint)];
        for (key, triple) in triples {
            for (index, value) in triple.iter().flatten().enumerate() {
                put(&format!("{key}/{index}"), value.to_string());
            }
        }
        for (index, value) in kernel.language_version.iter().flatten().enumerate() {
            put(&format!(".language_version/{index}"), value.to_string());
        }
        if let Some(language) = &kernel.language {
            put(".language", language.clone());
        }
        for (key, value) in &kernel.other {
            put(key, value.clone());
        }
        for (index, arg) in kernel.args.iter().enumerate() {
            let texts = [
                (".name", arg.name.clone()),
                (".type_name", arg.type_name.clone()),
                (".offset", Some(arg.offset.to_string())),
                (".size", Some(arg.size.to_string())),
                (".value_kind", Some(arg.kind.to_string())),
                (".address_space", arg.address_space.as_ref().map(ToString::to_string)),
                (".access", arg.access.as_ref().map(ToString::to_string)),
                (".actual_access", arg.actual_access.as_ref().map(ToString::to_string)),
                (".pointee_align", arg.pointee_align.map(|align| align.to_string())),
                (".is_const", arg.is_const.then(|| "true".into())),
                (".is_restrict", arg.is_restrict.then(|| "true".into())),
                (".is_volatile", arg.is_volatile.then(|| "true".into())),
                (".is_pipe", arg.is_pipe.then(|| "true".into())),
            ];
            for (key, text) in texts {
                if let Some(text) = text {
                    put(&format!(".args/{index}/{key}"), text);
                }
            }
        }
    }
    flat
}

/// The compiler writes `.agpr_count` for processors with accumulation registers.
fn has_agprs(object: &CodeObject) -> bool {
    object.arch().name() == "gfx908" || object.arch().generation().has_unified_registers()
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

fn symbols_agree(bench: &Bench, file: &str, object: &CodeObject, what: &str) {
    let table = bench.run("llvm-readelf-19", &["--dyn-syms", "--symbols", "-W", file]);
    let mut shown = 0;
    for line in table.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [number, value, size, kind, _, _, section, name] = cells[..] else { continue };
        if !number.ends_with(':') || number == "Num:" {
            continue;
        }
        let symbol = object.symbol(name).unwrap_or_else(|| panic!("{what}: no symbol {name}"));
        let expected = match kind {
            "FUNC" => SymbolKind::Function,
            "OBJECT" => SymbolKind::Object,
            "NOTYPE" => SymbolKind::NoType,
            other => panic!("{what}: symbol {name} of kind {other}"),
        };
        assert_eq!((symbol.address, symbol.kind), (hex(value), expected), "{what}: {name}");
        assert_eq!(symbol.size.to_string(), size, "{what}: {name}");
        assert_eq!(symbol.is_defined(), section != "UND", "{what}: {name}");
        shown += 1;
    }
    assert!(shown >= object.kernels().len() * 2, "{what}: {shown} symbols");
    for kernel in object.kernels() {
        let function = object.symbol(kernel.symbol.strip_suffix(".kd").unwrap()).unwrap();
        assert_eq!((function.address, function.size), (kernel.entry_address, kernel.code_size), "{what}");
        assert_eq!(object.code(kernel).unwrap().len() as u64, kernel.code_size);
    }
}

fn layout_agrees(bench: &Bench, file: &str, object: &CodeObject, what: &str) {
    let table = bench.run("llvm-readelf-19", &["-lSW", file]);
    let loads: Vec<_> = table.lines().filter(|line| line.trim_start().starts_with("LOAD")).collect();
    assert_eq!(loads.len(), object.segments().len(), "{what}");
    for (line, segment) in loads.iter().zip(object.segments()) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(segment.file.start as u64, hex(cells[1]), "{what}: {line}");
        assert_eq!(segment.address, hex(cells[2]), "{what}: {line}");
        assert_eq!(segment.file.len() as u64, hex(cells[4]), "{what}: {line}");
        assert_eq!(segment.memory_size, hex(cells[5]), "{what}: {line}");
        let flags = cells[6..cells.len() - 1].concat();
        let ours = [(segment.readable, 'R'), (segment.writable, 'W'), (segment.executable, 'E')];
        let ours: String = ours.iter().filter(|(set, _)| *set).map(|(_, letter)| *letter).collect();
        assert_eq!(ours, flags, "{what}: {line}");
        assert_eq!(segment.align, hex(cells[cells.len() - 1]), "{what}: {line}");
    }
    for section in object.sections().iter().skip(1) {
        let line = table.lines().find(|line| line.contains(&format!("] {} ", section.name))).expect("the section is shown");
        let after: Vec<&str> = line.split(']').nth(1).unwrap().split_whitespace().collect();
        assert_eq!((section.address, section.size), (hex(after[2]), hex(after[4])), "{what}: {line}");
    }
}

fn relocations_agree(bench: &Bench, file: &str, object: &CodeObject, what: &str) {
    let table = bench.run("llvm-readelf-19", &["-rW", file]);
    let mut shown = Vec::new();
    for line in table.lines().filter(|line| line.contains("R_AMDGPU_")) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let kind = match cells[2] {
            "R_AMDGPU_RELATIVE64" => RelocationKind::Relative64,
            "R_AMDGPU_ABS64" => RelocationKind::Abs64,
            other => panic!("{what}: relocation {other}"),
        };
        let info = hex(cells[1]);
        let addend = if kind == RelocationKind::Relative64 { hex(cells[3]) } else { hex(cells[cells.len() - 1]) };
        shown.push(Relocation { address: hex(cells[0]), kind, symbol: (info >> 32) as u32, addend: addend as i64 });
    }
    assert_eq!(object.relocations(), shown, "{what}");
}

/// The directives that the disassembler makes of a descriptor.
fn descriptor_agrees(bench: &Bench, file: &str, kernel: &Kernel, what: &str) {
    let symbol = format!("--disassemble-symbols={}", kernel.symbol);
    let text = bench.run("llvm-objdump-19", &["-d", "-j", ".rodata", &symbol, file]);
    if text.contains("error decoding") {
        // clang 19 sets bits that its own disassembler calls reserved on gfx12.
        assert!(what.starts_with("gfx12"), "{what}: {text}");
        return;
    }
    let mut shown = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| line.starts_with(".amdhsa_")) {
        if let Some((key, value)) = line.split_once(' ') {
            shown.insert(key.trim_start_matches(".amdhsa_").to_owned(), value.to_owned());
        }
    }
    assert!(shown.len() > 20, "{what}: {text}");
    let ours = directives(&kernel.descriptor, kernel.wave_size);
    for (key, value) in &ours {
        if let Some(shown) = shown.get(*key) {
            assert_eq!(value, shown, "{what}: {} {key}", kernel.name);
        }
    }
    let unknown: Vec<_> = shown.keys().filter(|key| !ours.contains_key(key.as_str())).collect();
    // Reservations are part of the register counts; the kernel's name is its own line.
    let allowed = ["reserve_vcc", "reserve_xnack_mask", "reserve_flat_scratch", "kernel"];
    assert!(unknown.iter().all(|key| allowed.contains(&key.as_str())), "{what}: {unknown:?}");
}

fn directives(descriptor: &KernelDescriptor, wave_size: u32) -> BTreeMap<&'static str, String> {
    let KernelDescriptor { rsrc1, rsrc2, rsrc3, code_properties, kernarg_preload, .. } = descriptor;
    let flag = |value: bool| u32::from(value).to_string();
    let mut all = BTreeMap::from([
        ("group_segment_fixed_size", descriptor.group_segment_fixed_size.to_string()),
        ("private_segment_fixed_size", descriptor.private_segment_fixed_size.to_string()),
        ("kernarg_size", descriptor.kernarg_size.to_string()),
        ("next_free_vgpr", descriptor.allocated_vgprs().to_string()),
        // The disassembler prints what assembles to the same field.
        ("next_free_sgpr", descriptor.allocated_sgprs().unwrap_or(8).to_string()),
        ("float_round_mode_32", (rsrc1.float_round_mode_32 as u32).to_string()),
        ("float_round_mode_16_64", (rsrc1.float_round_mode_16_64 as u32).to_string()),
        ("float_denorm_mode_32", (rsrc1.float_denorm_mode_32 as u32).to_string()),
        ("float_denorm_mode_16_64", (rsrc1.float_denorm_mode_16_64 as u32).to_string()),
        ("enable_private_segment", flag(rsrc2.enable_private_segment)),
        ("system_sgpr_private_segment_wavefront_offset", flag(rsrc2.enable_private_segment)),
        ("system_sgpr_workgroup_id_x", flag(rsrc2.enable_sgpr_workgroup_id_x)),
        ("system_sgpr_workgroup_id_y", flag(rsrc2.enable_sgpr_workgroup_id_y)),
        ("system_sgpr_workgroup_id_z", flag(rsrc2.enable_sgpr_workgroup_id_z)),
        ("system_sgpr_workgroup_info", flag(rsrc2.enable_sgpr_workgroup_info)),
        ("system_vgpr_workitem_id", (rsrc2.enable_vgpr_workitem_id as u32).to_string()),
        ("user_sgpr_private_segment_buffer", flag(code_properties.enable_sgpr_private_segment_buffer)),
        ("user_sgpr_dispatch_ptr", flag(code_properties.enable_sgpr_dispatch_ptr)),
        ("user_sgpr_queue_ptr", flag(code_properties.enable_sgpr_queue_ptr)),
        ("user_sgpr_kernarg_segment_ptr", flag(code_properties.enable_sgpr_kernarg_segment_ptr)),
        ("user_sgpr_dispatch_id", flag(code_properties.enable_sgpr_dispatch_id)),
        ("user_sgpr_flat_scratch_init", flag(code_properties.enable_sgpr_flat_scratch_init)),
        ("user_sgpr_private_segment_size", flag(code_properties.enable_sgpr_private_segment_size)),
        ("user_sgpr_kernarg_preload_length", kernarg_preload.length_dwords.to_string()),
        ("user_sgpr_kernarg_preload_offset", kernarg_preload.offset_dwords.to_string()),
        ("wavefront_size32", flag(wave_size == 32)),
        ("uses_dynamic_stack", flag(code_properties.uses_dynamic_stack)),
    ]);
    let exceptions = [
        "exception_fp_ieee_invalid_op", "exception_fp_denorm_src", "exception_fp_ieee_div_zero",
        "exception_fp_ieee_overflow", "exception_fp_ieee_underflow", "exception_fp_ieee_inexact", "exception_int_div_zero",
    ];
    for (bit, name) in exceptions.into_iter().enumerate() {
        all.insert(name, flag(rsrc2.enable_exceptions >> bit & 1 == 1));
    }
    let optional = [
        ("dx10_clamp", rsrc1.dx10_clamp.map(flag)),
        ("ieee_mode", rsrc1.ieee_mode.map(flag)),
        ("round_robin_scheduling", rsrc1.wg_rr_en.map(flag)),
        ("fp16_overflow", rsrc1.fp16_overflow.map(flag)),
        ("workgroup_processor_mode", rsrc1.wgp_mode.map(flag)),
        ("memory_ordered", rsrc1.mem_ordered.map(flag)),
        ("forward_progress", rsrc1.fwd_progress.map(flag)),
        ("accum_offset", rsrc3.accum_offset.map(|offset| offset.to_string())),
        ("tg_split", rsrc3.tg_split.map(flag)),
        ("shared_vgpr_count", rsrc3.shared_vgpr_count.map(|count| count.to_string())),
        ("inst_pref_size", rsrc3.inst_pref_size.map(|size| size.to_string())),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            all.insert(key, value);
        }
    }
    all
}

/// Descriptors with every field set to something else than its default, gfx9 to gfx12, through the assembler.
#[test]
fn descriptors_by_directive() {
    let Some(bench) = Bench::with(&["llvm-mc-19", "ld.lld-19", "llvm-objdump-19"]) else { return };
    let common = "\
        .amdhsa_group_segment_fixed_size 4660\n.amdhsa_private_segment_fixed_size 20\n.amdhsa_kernarg_size 88\n\
        .amdhsa_user_sgpr_dispatch_ptr 1\n.amdhsa_user_sgpr_queue_ptr 1\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n\
        .amdhsa_user_sgpr_dispatch_id 1\n.amdhsa_user_sgpr_private_segment_size 1\n.amdhsa_uses_dynamic_stack 1\n\
        .amdhsa_system_sgpr_workgroup_id_x 0\n.amdhsa_system_sgpr_workgroup_id_y 1\n.amdhsa_system_sgpr_workgroup_id_z 1\n\
        .amdhsa_system_sgpr_workgroup_info 1\n.amdhsa_system_vgpr_workitem_id 2\n.amdhsa_next_free_vgpr 77\n\
        .amdhsa_next_free_sgpr 50\n.amdhsa_float_round_mode_32 1\n.amdhsa_float_round_mode_16_64 2\n\
        .amdhsa_float_denorm_mode_32 2\n.amdhsa_float_denorm_mode_16_64 1\n.amdhsa_exception_fp_denorm_src 1\n\
        .amdhsa_exception_fp_ieee_overflow 1\n.amdhsa_exception_int_div_zero 1\n.amdhsa_fp16_overflow 1\n";
    let gfx9 = ".amdhsa_dx10_clamp 0\n.amdhsa_ieee_mode 0\n";
    let unified = ".amdhsa_accum_offset 44\n.amdhsa_tg_split 1\n";
    let rdna = ".amdhsa_memory_ordered 0\n.amdhsa_forward_progress 1\n";
    let cases = [
        ("gfx900", vec![gfx9, ".amdhsa_user_sgpr_flat_scratch_init 1\n.amdhsa_user_sgpr_private_segment_buffer 1\n"]),
        ("gfx90a", vec![gfx9, unified]),
        ("gfx942", vec![gfx9, unified, ".amdhsa_user_sgpr_kernarg_preload_length 3\n.amdhsa_user_sgpr_kernarg_preload_offset 5\n"]),
        ("gfx1030", vec![gfx9, rdna, ".amdhsa_workgroup_processor_mode 0\n"]),
        ("gfx1100", vec![gfx9, rdna, ".amdhsa_wavefront_size32 0\n.amdhsa_shared_vgpr_count 3\n"]),
        ("gfx1100", vec![rdna, ".amdhsa_wavefront_size32 1\n.amdhsa_workgroup_processor_mode 0\n"]),
        ("gfx1201", vec![rdna, ".amdhsa_round_robin_scheduling 1\n"]),
    ];
    for (index, (cpu, extra)) in cases.iter().enumerate() {
        let wave = if extra.concat().contains("size32 0") || cpu.starts_with("gfx9") { 64 } else { 32 };
        let source = format!(
            ".text\n.globl k\n.p2align 8\n.type k,@function\nk:\n s_endpgm\n.size k, .-k\n.section .rodata,\"a\"\n\
             .p2align 6\n.amdhsa_kernel k\n{common}{}.end_amdhsa_kernel\n.amdgpu_metadata\n---\namdhsa.version: [1, 2]\n\
             amdhsa.kernels:\n  - {{.name: k, .symbol: k.kd, .kernarg_segment_size: 88, .kernarg_segment_align: 8,\n     \
             .group_segment_fixed_size: 4660, .private_segment_fixed_size: 20, .wavefront_size: {wave}, .sgpr_count: 50,\n     \
             .vgpr_count: 77, .max_flat_workgroup_size: 256}}\n...\n.end_amdgpu_metadata\n",
            extra.concat()
        );
        let attributes: &[&str] = if wave == 64 && cpu.starts_with("gfx11") { &["-mattr=+wavefrontsize64"] } else { &[] };
        let path = bench.assemble(&format!("k{index}"), &source, cpu, attributes);
        let object = CodeObject::parse(&read(&path)).unwrap();
        let kernel = &object.kernels()[0];
        let what = format!("{cpu} by directive");
        let text = bench.run(
            "llvm-objdump-19",
            &["-d", "-j", ".rodata", "--disassemble-symbols=k.kd", path.to_str().unwrap()],
        );
        assert!(!text.contains("error decoding"), "{text}");
        descriptor_agrees(&bench, path.to_str().unwrap(), kernel, &what);
        assert_eq!(kernel.descriptor.wave_size(), wave, "{what}");
        assert_eq!(kernel.descriptor.rsrc2.enable_vgpr_workitem_id, WorkitemIds::Xyz);
        assert_eq!(kernel.descriptor.rsrc2.user_sgpr_count > 8, true);
    }
}
