//! Optional detectors: reads of memory that nothing has written, LDS races, and poison; and that results and counters do not
//! depend on the number of threads.
#![allow(clippy::unwrap_used, clippy::panic, clippy::precedence)]

mod support;

use kbench_gfx_emu::fault::FaultKind;
use kbench_gfx_emu::isa::Arch;
use kbench_gfx_emu::launch::LaunchError;
use support::asm::{Kernel, assemble};
use support::{Args, Device, compile, compile_with};

const START: &str = "s_load_dwordx4 s[4:7], s[0:1], 0\nv_lshlrev_b32 v1, 2, v0\ns_waitcnt lgkmcnt(0)\n";

fn kind(error: LaunchError) -> (FaultKind, Option<u8>, String) {
    let shown = error.to_string();
    match error {
        LaunchError::Fault(fault) => (fault.kind, fault.lane, shown),
        _ => panic!("{shown}"),
    }
}

#[test]
fn reads_of_what_nothing_wrote() {
    // Bytes written before the launch (of 256), what the kernel does, and the lane that is to blame.
    let cases: [(u64, &str, Option<Option<u8>>); 12] = [
        (256, "global_load_dword v2, v1, s[4:5]", None),
        (255, "global_load_dword v2, v1, s[4:5]", Some(Some(63))),
        (252, "global_load_ubyte v2, v1, s[4:5]", Some(Some(63))),
        (253, "global_load_ubyte v2, v1, s[4:5]", None),
        (16, "s_load_dwordx4 s[8:11], s[4:5], 0x0", None),
        (12, "s_load_dwordx4 s[8:11], s[4:5], 0x0", Some(None)),
        (8, "global_atomic_add v1, v0, s[4:5]", Some(Some(2))),
        // What the kernel itself has written is fine, whole rows and single bytes.
        (0, "global_store_dword v1, v0, s[4:5]\nglobal_load_dword v2, v1, s[4:5]", None),
        (0, "global_store_short v1, v0, s[4:5]\nglobal_load_ushort v2, v1, s[4:5]", None),
        (0, "global_store_short v1, v0, s[4:5]\nglobal_load_dword v2, v1, s[4:5]", Some(Some(0))),
        (
            4,
            "v_cmp_lt_u32 vcc, 0, v0\ns_and_saveexec_b64 s[8:9], vcc\nglobal_store_dword v1, v0, s[4:5]\ns_mov_b64 exec, -1\nglobal_load_dword v2, v1, s[4:5]",
            None,
        ),
        (
            0,
            "scratch_load_dword v2, off, off\ns_mov_b32 s8, s4\ns_and_b32 s9, s5, 0xffff\ns_movk_i32 s10, 256\ns_mov_b32 s11, 0x20000\nbuffer_load_dword v2, off, s[8:11], 0",
            Some(Some(0)),
        ),
    ];
    for (written, body, blamed) in cases {
        let kernel = Kernel { scratch: 16, ..Kernel::default() };
        let Some(code) = assemble(Arch::Gfx942, &format!("{START}{body}"), &kernel) else { return };
        let mut device = Device::new(Arch::Gfx942, &code);
        device.memory.track_uninitialised(true);
        let mem = device.memory.allocate(256, "mem").unwrap();
        device.memory.write(mem, &vec![7; written as usize]).unwrap();
        match (device.run("k", 1, 64, Args::default().u64(mem).u64(0).done()), blamed) {
            (Ok(_), None) => {}
            (Err(error), Some(blamed)) => {
                let (kind, lane, shown) = kind(error);
                assert!(matches!(kind, FaultKind::Uninitialised { .. }), "{shown}");
                assert_eq!(lane, blamed, "{shown}");
                assert!(shown.contains(" B into `mem` (256 B at"), "{shown}");
            }
            (Ok(_), Some(_)) => panic!("nothing found: {written} {body}"),
            (Err(error), None) => panic!("{written} {body}: {error}"),
        }
    }
}

/// A kernel that clang made runs under all detectors, and gives what it gives without.
#[test]
fn sound_kernels_pass_all_detectors() {
    let source = r#"
    KERNEL void k(const float *x, float *out, u32 n) {
        SHARED float s[256];
        SHARED unsigned char flags[256];
        u32 t = tid(), i = wg() * 256 + t;
        s[t] = i < n ? x[i] : 0.0f;
        flags[t] = (unsigned char)t;
        u32 local[8];
        for (u32 j = 0; j < 8; j++) local[(j * 5 + t) % 8] = j;
        barrier();
        for (u32 w = 128; w; w >>= 1) { if (t < w) s[t] += s[t + w]; barrier(); }
        if (t == 0) out[wg()] = s[0] + flags[255] + local[n % 8] * 0;
    }"#;
    for arch in [Arch::Gfx942, Arch::Gfx90a] {
        for options in [&["-O3"][..], &["-O0"][..]] {
            let Some(code) = compile_with(arch, source, options) else { return };
            let mut device = Device::new(arch, &code);
            device.memory.track_uninitialised(true);
            device.memory.set_poison(Some(0xff));
            device.options.lds_races = true;
            device.options.poison = Some(0x7fc0_dead);
            let x: Vec<f32> = (0..1000).map(|i| (i % 13) as f32).collect();
            let dx = device.buffer("x", &x);
            let out = device.memory.allocate(16, "out").unwrap();
            device.run("k", 4, 256, Args::default().u64(dx).u64(out).u32(1000).done()).unwrap();
            let want: Vec<f32> = x.chunks(256).map(|part| part.iter().sum::<f32>() + 255.0).collect();
            assert_eq!(device.read::<f32>(out, 4), want, "{arch:?} {options:?}");
        }
    }
}

#[test]
fn lds_races() {
    // What each of two waves does; whether it is a race.
    let wave = "v_readfirstlane_b32 s8, v0\ns_lshr_b32 s8, s8, 6\nv_and_b32 v2, 63, v0\nv_lshlrev_b32 v2, 2, v2\ns_cmp_eq_u32 s8, 0\n";
    let cases = [
        ("ds_write_b32 v2, v0", true),
        // All waves store the same.
        ("ds_write_b32 v2, v2", false),
        ("ds_read_b32 v3, v2", false),
        ("ds_add_u32 v2, v0", false),
        // Own words only.
        ("ds_write_b32 v1, v0", false),
        // Bytes of one word that belong to different waves.
        ("v_add_u32 v2, s8, v2\nds_write_b8 v2, v0", false),
        ("s_cbranch_scc1 .Lread\nds_write_b32 v2, v0\ns_branch .Lend\n.Lread:\nds_read_b32 v3, v2\n.Lend:", true),
        (
            "s_cbranch_scc1 .Lread\nds_write_b32 v2, v0\ns_barrier\ns_branch .Lend\n.Lread:\ns_barrier\nds_read_b32 v3, v2\n.Lend:",
            false,
        ),
        (
            "s_cbranch_scc1 .Lread\nds_add_u32 v2, v0\ns_branch .Lend\n.Lread:\nds_read_b64 v[4:5], v2 offset:8\n.Lend:",
            true,
        ),
        // Through flat addresses and direct loads.
        ("s_mov_b64 s[10:11], src_shared_base\nv_mov_b32 v3, s11\nflat_store_dword v[2:3], v0", true),
        ("s_mov_b32 m0, 0\nglobal_load_lds_dword v1, s[4:5]", true),
        ("s_lshl_b32 m0, s8, 8\nglobal_load_lds_dword v2, s[4:5]", false),
    ];
    for (body, races) in cases {
        let kernel = Kernel { lds: 1024, ..Kernel::default() };
        let Some(code) = assemble(Arch::Gfx942, &format!("{START}{wave}{body}"), &kernel) else { return };
        let mut device = Device::new(Arch::Gfx942, &code);
        device.options.lds_races = true;
        let mem = device.buffer("mem", &(1..=128).collect::<Vec<u32>>());
        let args = || Args::default().u64(mem).u64(0).done();
        match device.run("k", 2, 128, args()) {
            Ok(_) => assert!(!races, "{body}"),
            Err(error) => {
                let (kind, lane, shown) = kind(error);
                assert!(races, "{body}: {shown}");
                let FaultKind::LdsRace { other, .. } = kind else { panic!("{shown}") };
                assert_eq!((other, lane.is_some()), (0, true), "{shown}");
                assert!(shown.contains("with wave 0") && shown.contains("wave 1, lane"), "{shown}");
            }
        }
        device.options.lds_races = false;
        device.run("k", 2, 128, args()).unwrap();
    }
}

#[test]
fn poison_shows_where_nothing_was_set() {
    let body = "global_store_dword v1, v9, s[4:5]\nv_accvgpr_read_b32 v2, a7\nglobal_store_dword v1, v2, s[4:5] offset:256\n\
        ds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\nglobal_store_dword v1, v2, s[4:5] offset:512\n\
        scratch_load_dword v2, off, off\ns_waitcnt vmcnt(0)\nglobal_store_dword v1, v2, s[4:5] offset:768\n\
        v_mov_b32 v2, s50\nglobal_store_dword v1, v2, s[4:5] offset:1024";
    let kernel = Kernel { lds: 256, scratch: 16, ..Kernel::default() };
    let Some(code) = assemble(Arch::Gfx942, &format!("{START}{body}"), &kernel) else { return };
    for (poison, byte) in [(None, 0), (Some(0xabcd_1234), 0x5a)] {
        let mut device = Device::new(Arch::Gfx942, &code);
        device.options.poison = poison;
        device.memory.set_poison(poison.map(|_| byte));
        let mem = device.memory.allocate(1536, "mem").unwrap();
        device.run("k", 1, 64, Args::default().u64(mem).u64(0).done()).unwrap();
        let found = device.read::<u32>(mem, 384);
        assert!(found[..320].iter().all(|word| *word == poison.unwrap_or(0)), "{found:x?}");
        assert!(found[320..].iter().all(|word| *word == u32::from(byte) * 0x0101_0101), "{found:x?}");
    }
}

#[test]
fn threads_change_nothing() {
    // LDS, atomics of integers and floats on device memory, many workgroups; and a kernel without atomics, which really runs
    // on several threads.
    let sources = [
        r#"KERNEL void k(const float *x, float *out, u32 *count, float *sum) {
            SHARED float s[128];
            SHARED u32 total;
            u32 t = tid(), i = wg() * 128 + t;
            if (t == 0) total = 0;
            s[t] = x[i] * 1.25f;
            barrier();
            __atomic_fetch_add(&total, (u32)x[i], __ATOMIC_RELAXED);
            out[i] = s[127 - t] + x[(i * 7) % 25600];
            barrier();
            if (t == 0) { __atomic_fetch_add(count, total, __ATOMIC_RELAXED); out[i] += __atomic_fetch_add(count + 1, 1, __ATOMIC_RELAXED); }
            __builtin_amdgcn_global_atomic_fadd_f32((__attribute__((address_space(1))) float *)sum, x[i] * 0.1f);
        }"#,
        r#"KERNEL void k(const float *x, float *out, u32 *count, float *sum) {
            SHARED float s[128];
            u32 t = tid(), i = wg() * 128 + t;
            s[t] = x[i] * 1.25f;
            barrier();
            for (u32 j = 0; j < wg() % 9; j++) s[t] = s[t] * 0.5f + x[(i * (j + 3)) % 25600];
            barrier();
            out[i] = s[127 - t];
            if (t == 0) { count[0] = 1; sum[0] = 1; }
        }"#,
    ];
    for source in sources {
        let Some(code) = compile(Arch::Gfx942, source) else { return };
        let mut first = None;
        for threads in [1, 2, 3, 8] {
            let mut device = Device::new(Arch::Gfx942, &code);
            device.options.threads = threads;
            let x: Vec<f32> = (0..25_600).map(|i| (i * 37 % 101) as f32).collect();
            let (dx, out) = (device.buffer("x", &x), device.buffer("out", &vec![0_f32; 25_600]));
            let (count, sum) = (device.buffer("count", &[0_u32; 2]), device.buffer("sum", &[0_f32]));
            let outcome =
                device.run("k", 200, 128, Args::default().u64(dx).u64(out).u64(count).u64(sum).done()).unwrap();
            let memory = (device.read::<u32>(out, 25_600), device.read::<u32>(count, 2), device.read::<u32>(sum, 1));
            let seen =
                (memory, outcome.counts.clone(), outcome.traffic.counts, outcome.steps_by_xcd.clone(), outcome.waves);
            let reference = first.get_or_insert_with(|| seen.clone());
            assert!(seen == *reference, "{threads} threads");
        }
    }
}

/// The fault that is told is the first in the order of one thread.
#[test]
fn threads_tell_the_same_fault() {
    // Workgroups 9 and above store past the end; the lower ones have much more to do.
    let source = r#"KERNEL void k(u32 *out, u32 n) {
        u32 s = wg();
        for (u32 i = 0; i < (wg() < 9 ? n : 1); i++) s = s * 1664525 + 1013904223;
        out[wg() < 9 ? wg() : wg() + 1000] = s;
    }"#;
    let Some(code) = compile(Arch::Gfx942, source) else { return };
    let mut first = None;
    for threads in [1, 2, 3, 8, 2, 3] {
        let mut device = Device::new(Arch::Gfx942, &code);
        device.options.threads = threads;
        let out = device.buffer("out", &[0_u32; 1000]);
        let error = device.run("k", 40, 64, Args::default().u64(out).u32(2000).done()).unwrap_err().to_string();
        assert!(error.contains("past the end of `out`") && error.contains("workgroup (9, 0, 0)"), "{error}");
        assert_eq!(*first.get_or_insert_with(|| error.clone()), error);
    }
}
