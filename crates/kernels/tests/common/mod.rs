//! What the tests of this crate share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's kernel folder.
pub fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels")
}

/// False, with a line that says so, when a tool is absent; a failure in CI.
pub fn has_tool(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{tool} is needed in CI");
        eprintln!("skipped: there is no {tool}");
    }
    found
}

/// Assembles text to a code object.
pub fn assemble(folder: &Path, name: &str, arch: &str, text: &str) -> Vec<u8> {
    let (source, object, linked) =
        (folder.join(format!("{name}.s")), folder.join(format!("{name}.o")), folder.join(format!("{name}.co")));
    std::fs::write(&source, text).unwrap();
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let mut mc = Command::new("llvm-mc-19");
    mc.args(["-triple=amdgcn-amd-amdhsa", &format!("-mcpu={arch}"), "-filetype=obj", "-o"]).arg(&object).arg(&source);
    run(&mut mc);
    run(Command::new("ld.lld-19").arg("-shared").arg("-o").arg(&linked).arg(&object));
    std::fs::read(&linked).unwrap()
}

/// Assembly of a kernel that does nothing, with these argument entries (offset, size, value kind, name) in its metadata.
pub fn kernel_text(
    arch: &str,
    name: &str,
    kernarg: u32,
    lds: u32,
    block: u32,
    args: &[(u32, u32, &str, &str)],
) -> String {
    let mut text = format!(
        "\t.amdgcn_target \"amdgcn-amd-amdhsa--{arch}\"\n\t.text\n\t.globl {name}\n\t.p2align 8\n\t.type {name},@function\n{name}:\n\
         \ts_endpgm\n.Lend_{name}:\n\t.size {name}, .Lend_{name}-{name}\n\t.rodata\n\t.p2align 6\n\
         \t.amdhsa_kernel {name}\n\t\t.amdhsa_next_free_vgpr 8\n\t\t.amdhsa_next_free_sgpr 16\n\
         \t\t.amdhsa_accum_offset 8\n\t\t.amdhsa_group_segment_fixed_size {lds}\n\
         \t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1\n\t.end_amdhsa_kernel\n\t.amdgpu_metadata\n---\n\
         amdhsa.version: [1, 0]\namdhsa.kernels:\n  - .name: {name}\n    .symbol: {name}.kd\n\
         \x20   .kernarg_segment_size: {kernarg}\n    .kernarg_segment_align: 8\n    .group_segment_fixed_size: {lds}\n\
         \x20   .private_segment_fixed_size: 0\n    .wavefront_size: 64\n    .sgpr_count: 16\n    .vgpr_count: 8\n\
         \x20   .max_flat_workgroup_size: {block}\n    .args:\n"
    );
    for (offset, size, kind, name) in args {
        let space = if *kind == "global_buffer" { ", .address_space: global" } else { "" };
        text.push_str(&format!(
            "      - {{ .name: {name}, .offset: {offset}, .size: {size}, .value_kind: {kind}{space} }}\n"
        ));
    }
    text.push_str("...\n\t.end_amdgpu_metadata\n");
    text
}
