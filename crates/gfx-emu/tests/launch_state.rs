//! What a kernel finds when it starts: arguments, preloaded and hidden ones, the dispatch packet, counters of what ran.
#![allow(clippy::unwrap_used, clippy::panic, clippy::precedence)]

mod support;

use kbench_gfx_emu::isa::Arch;
use kbench_gfx_emu::launch::{Launch, Outcome, launch};
use support::asm::{Kernel, assemble, assemble_file};
use support::{Args, Device, compile, compile_with};

fn run(device: &mut Device, grid: [u32; 3], block: [u32; 3], dynamic_lds: u32, kernarg: Vec<u8>) -> Outcome {
    let request = Launch { kernel: "k".into(), grid, block, dynamic_lds, kernarg };
    launch(&mut device.memory, &device.module, &request, &device.options).unwrap()
}

/// The first 256 bytes trap: the kernel starts behind them, with its arguments in registers.
#[test]
fn preloaded_arguments() {
    let source = "KERNEL void k(u32 *out, u32 a, u32 b, u64 c, unsigned char d, unsigned short e) {
        out[tid() + wg() * 64] = a + b * tid() + (u32)(c >> 32) + d * 1000 + e + wg(); }";
    for arch in [Arch::Gfx942, Arch::Gfx90a] {
        let Some(code) = compile_with(arch, source, &["-O3", "-mllvm", "-amdgpu-kernarg-preload-count=16"]) else {
            return;
        };
        let mut device = Device::new(arch, &code);
        let preload = device.module.kernel("k").unwrap().descriptor.kernarg_preload;
        assert!(preload.length_dwords >= 6, "{preload:?}");
        let out = device.buffer("out", &[0_u32; 128]);
        let kernarg = Args::default().u64(out).u32(100).u32(3).u64(7 << 32 | 5).u32(2 | 500 << 16).done();
        run(&mut device, [2, 1, 1], [64, 1, 1], 0, kernarg);
        let want: Vec<u32> = (0..128).map(|i| 100 + 3 * (i % 64) + 7 + 2000 + 500 + i / 64).collect();
        assert_eq!(device.read::<u32>(out, 128), want, "{arch:?}");
    }
}

#[test]
fn hidden_arguments_of_every_code_object_version() {
    // The library's functions read implicit arguments at fixed places: version 5's, and the dispatch packet of version 4.
    let source = r#"
    KERNEL void k(u32 *out, u32 x) {
        SHARED u32 s[4];
        const u32 *packet = (const u32 *)__builtin_amdgcn_dispatch_ptr();
        const unsigned short *halves = (const unsigned short *)packet;
        if (tid() == 0 && wg() == 0 && __builtin_amdgcn_workgroup_id_y() == 0) {
            out[0] = __builtin_amdgcn_workgroup_size_x();
            out[1] = __builtin_amdgcn_workgroup_size_y();
            out[2] = __builtin_amdgcn_grid_size_x();
            out[3] = __builtin_amdgcn_grid_size_y();
            out[4] = halves[2]; out[5] = halves[3]; out[6] = packet[3]; out[7] = packet[4]; out[8] = packet[7];
            out[9] = halves[1] & 3;
            s[0] = x; out[10] = s[x - 5];
        }
    }"#;
    for arch in [Arch::Gfx942, Arch::Gfx90a] {
        for version in ["4", "5", "6"] {
            let option = format!("-mcode-object-version={version}");
            let Some(code) = compile_with(arch, source, &["-O2", &option]) else { return };
            let mut device = Device::new(arch, &code);
            let out = device.buffer("out", &[0_u32; 11]);
            run(&mut device, [3, 2, 1], [32, 4, 1], 96, Args::default().u64(out).u32(5).done());
            let lds = 16 + 96;
            assert_eq!(device.read::<u32>(out, 11), [32, 4, 96, 8, 32, 4, 96, 8, lds, 3, 5], "{arch:?} {version}");
        }
    }
}

/// The implicit block of version 5, read where the ABI puts it.
#[test]
fn the_implicit_block() {
    let source = r#"
    extern SHARED u32 dynamic[];
    KERNEL void k(u64 *out, char odd) {
        const unsigned char *p = (const unsigned char *)__builtin_amdgcn_implicitarg_ptr();
        const u32 *w = (const u32 *)p; const unsigned short *h = (const unsigned short *)p;
        if (tid() == 0 && wg() == 1) {
            out[0] = w[0]; out[1] = w[1]; out[2] = w[2];
            out[3] = h[6]; out[4] = h[7]; out[5] = h[8]; out[6] = h[9]; out[7] = h[10]; out[8] = h[11];
            out[9] = *(const u64 *)(p + 40); out[10] = h[32]; out[11] = w[30];
            dynamic[odd] = odd; out[12] = dynamic[77];
        }
    }"#;
    for arch in [Arch::Gfx942, Arch::Gfx90a] {
        let Some(code) = compile_with(arch, source, &["-O2", "-mcode-object-version=5"]) else { return };
        let mut device = Device::new(arch, &code);
        let out = device.buffer("out", &[0_u64; 13]);
        let mut kernarg = Args::default().u64(out).done();
        kernarg.push(77);
        run(&mut device, [4, 5, 1], [16, 2, 3], 512, kernarg);
        let want = [4, 5, 1, 16, 2, 3, 0, 0, 0, 0, 3, 512, 77];
        assert_eq!(device.read::<u64>(out, 13), want, "{arch:?}");
    }
}

/// Hand-written kernels read more arguments than their metadata declares, or declare none at all.
#[test]
fn arguments_beyond_the_metadata() {
    let body = "s_load_dwordx2 s[4:5], s[0:1], 0\ns_load_dword s6, s[0:1], 0x90\nv_lshlrev_b32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v2, s6\nglobal_store_dword v1, v2, s[4:5]";
    let Some(code) = assemble(Arch::Gfx942, body, &Kernel::default()) else { return };
    let mut device = Device::new(Arch::Gfx942, &code);
    let out = device.buffer("out", &[0_u32; 64]);
    let mut kernarg = Args::default().u64(out).done();
    kernarg.resize(0x94, 0);
    kernarg[0x90..].copy_from_slice(&1234_u32.to_le_bytes());
    run(&mut device, [1; 3], [64, 1, 1], 0, kernarg);
    assert_eq!(device.read::<u32>(out, 64), [1234; 64]);

    // Descriptor and metadata say that there are no arguments.
    let text = format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\n.text\n.globl k\n.p2align 8\n.type k,@function\nk:\n{body}\ns_endpgm\n\
         .section .rodata,\"a\",@progbits\n.p2align 6\n.amdhsa_kernel k\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n\
         .amdhsa_next_free_vgpr 4\n.amdhsa_accum_offset 4\n.amdhsa_next_free_sgpr 16\n.amdhsa_kernarg_size 0\n.end_amdhsa_kernel\n\
         .amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.kernels:\n  - .name: k\n    .symbol: k.kd\n    .kernarg_segment_size: 0\n\
         \x20   .kernarg_segment_align: 4\n    .group_segment_fixed_size: 0\n    .private_segment_fixed_size: 0\n    .wavefront_size: 64\n\
         \x20   .sgpr_count: 16\n    .vgpr_count: 4\n    .max_flat_workgroup_size: 256\n...\n.end_amdgpu_metadata\n"
    );
    let Some(code) = assemble_file(Arch::Gfx942, &text) else { return };
    let mut device = Device::new(Arch::Gfx942, &code);
    let out = device.buffer("out", &[0_u32; 64]);
    let mut kernarg = Args::default().u64(out).done();
    kernarg.resize(0x94, 0);
    kernarg[0x90..].copy_from_slice(&4321_u32.to_le_bytes());
    run(&mut device, [1; 3], [64, 1, 1], 0, kernarg);
    assert_eq!(device.read::<u32>(out, 64), [4321; 64]);
}

/// System registers: workgroup numbers in the order that the descriptor enables them, the packed work-item number.
#[test]
fn registers_at_the_start() {
    let descriptor = ".amdhsa_user_sgpr_dispatch_ptr 1\n.amdhsa_system_sgpr_workgroup_id_y 1\n.amdhsa_system_sgpr_workgroup_id_z 1\n\
        .amdhsa_system_sgpr_workgroup_info 1\n.amdhsa_system_vgpr_workitem_id 2";
    // s[0:1] packet, s[2:3] arguments, s4..s6 the workgroup, s7 what the workgroup is like.
    let body = "s_load_dwordx2 s[8:9], s[2:3], 0\ns_load_dword s10, s[0:1], 4\ns_waitcnt lgkmcnt(0)\n\
        s_mul_i32 s11, s6, 6\ns_mul_i32 s12, s5, 2\ns_add_u32 s11, s11, s12\ns_add_u32 s11, s11, s4\ns_mul_i32 s11, s11, 96\n\
        v_and_b32 v1, 0x3ff, v0\nv_bfe_u32 v2, v0, 10, 10\nv_lshrrev_b32 v3, 20, v0\n\
        v_mul_u32_u24 v4, 8, v2\nv_add_u32 v4, v4, v1\nv_mul_u32_u24 v5, 32, v3\nv_add_u32 v4, v4, v5\n\
        v_add_u32 v5, s11, v4\nv_lshlrev_b32 v5, 3, v5\nv_mov_b32 v6, v0\nv_mov_b32 v7, s10\nv_and_b32 v8, 63, v4\n\
        v_cmp_eq_u32 vcc, 0, v8\nv_mov_b32 v9, s7\nv_cndmask_b32 v7, v7, v9, vcc\nglobal_store_dwordx2 v5, v[6:7], s[8:9]";
    let Some(code) = assemble(Arch::Gfx942, body, &Kernel { descriptor: descriptor.into(), ..Kernel::default() })
    else {
        return;
    };
    let mut device = Device::new(Arch::Gfx942, &code);
    let out = device.buffer("out", &vec![0_u64; 12 * 96]);
    let outcome = run(&mut device, [2, 3, 2], [8, 4, 3], 0, Args::default().u64(out).done());
    assert_eq!((outcome.workgroups, outcome.waves), (12, 24));
    for (index, value) in device.read::<u64>(out, 12 * 96).into_iter().enumerate() {
        let item = index as u64 % 96;
        let packed = item % 8 | (item / 8 % 4) << 10 | (item / 32) << 20;
        let wave = item / 64;
        // First wave: bit 31; the wave's number from bit 20; waves of the workgroup below.
        let info = if wave == 0 { 1 << 31 | 2 } else { 1 << 20 | 2 };
        let second = if item.is_multiple_of(64) { info } else { 8 | 4 << 16 };
        assert_eq!(value, packed | second << 32, "{index}");
    }
}

/// Counts of executions are those of the instructions, and sampling runs the workgroups it says.
#[test]
fn counts_and_samples() {
    let source = "KERNEL void k(u32 *out) { out[wg() * 64 + tid()] = wg() + 1; }";
    let Some(code) = compile(Arch::Gfx942, source) else { return };
    let mut device = Device::new(Arch::Gfx942, &code);
    let out = device.buffer("out", &vec![0_u32; 64 * 100]);
    let whole = run(&mut device, [100, 1, 1], [64, 1, 1], 0, Args::default().u64(out).done());
    let entry = whole.counts.iter().position(|count| *count > 0).unwrap();
    let instructions = whole.counts[entry..].iter().filter(|count| **count > 0).count() as u64;
    // Without branches each wave executes each instruction once.
    assert!(whole.counts.iter().all(|count| *count == 0 || *count == 100));
    assert_eq!((whole.instructions(), whole.sample.clone()), (instructions * 100, None));
    assert_eq!(whole.steps_by_xcd, [13, 13, 13, 13, 12, 12, 12, 12].map(|groups| groups * instructions));

    device.memory.write(out, &[0; 64 * 400]).unwrap();
    device.options.sample = Some(5);
    let part = run(&mut device, [100, 1, 1], [64, 1, 1], 0, Args::default().u64(out).done());
    assert_eq!((part.workgroups, part.ran, part.sample), (100, 5, Some(vec![0, 24, 49, 74, 99])));
    let ran: Vec<u32> = device.read::<u32>(out, 6400).into_iter().step_by(64).filter(|value| *value > 0).collect();
    assert_eq!(ran, [1, 25, 50, 75, 100]);
}

/// Steps are kept from launch to launch, but what runs is what device memory holds.
#[test]
fn code_that_was_written_to_runs_as_it_is_now() {
    let body = "s_load_dwordx2 s[4:5], s[0:1], 0\nv_lshlrev_b32 v1, 2, v0\nv_mov_b32 v2, 0x12345678\ns_waitcnt lgkmcnt(0)\nglobal_store_dword v1, v2, s[4:5]";
    let Some(code) = assemble(Arch::Gfx942, body, &Kernel::default()) else { return };
    let mut device = Device::new(Arch::Gfx942, &code);
    let out = device.buffer("out", &[0_u32; 64]);
    let kernarg = Args::default().u64(out).done();
    let first = run(&mut device, [1; 3], [64, 1, 1], 0, kernarg.clone());
    assert_eq!(device.read::<u32>(out, 64), [0x1234_5678; 64]);
    let second = run(&mut device, [1; 3], [64, 1, 1], 0, kernarg.clone());
    assert_eq!((first.counts, first.waves), (second.counts.clone(), second.waves));

    let start = device.module.base() + device.module.code_start();
    let words = device.read::<u32>(start, second.counts.len());
    let literal = words.iter().position(|word| *word == 0x1234_5678).unwrap() as u64;
    device.memory.write(start + literal * 4, &0x9abc_def0_u32.to_le_bytes()).unwrap();
    for _ in 0..2 {
        let third = run(&mut device, [1; 3], [64, 1, 1], 0, kernarg.clone());
        assert_eq!(device.read::<u32>(out, 64), [0x9abc_def0; 64]);
        assert_eq!(third.counts, second.counts);
    }
}
