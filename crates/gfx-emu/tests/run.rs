//! Small kernels, compiled by clang and run: launch state, memory, LDS, barriers, atomics, divergence, scratch, calls.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use kbench_gfx_emu::isa::Arch;
use support::{Args, Device, compile, compile_with};

const BOTH: [Arch; 2] = [Arch::Gfx942, Arch::Gfx90a];

#[test]
fn saxpy_touches_every_element_and_no_other() {
    for arch in BOTH {
        let Some(code) = compile(arch, "KERNEL void k(const float *x, float *y, float a, u32 n) { u32 i = wg() * 256 + tid(); if (i < n) y[i] = a * x[i] + y[i]; }") else { return };
        let mut device = Device::new(arch, &code);
        let n = 10_007;
        let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let y: Vec<f32> = (0..n).map(|i| 1000.0 - i as f32).collect();
        let (dx, dy) = (device.buffer("x", &x), device.buffer("y", &y));
        let outcome = device.run("k", 40, 256, Args::default().u64(dx).u64(dy).f32(3.0).u32(n as u32).done()).unwrap();
        let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
        assert_eq!(device.read::<f32>(dy, n), want);
        assert_eq!((outcome.workgroups, outcome.waves), (40, 160));
        let counts = outcome.traffic.counts;
        assert_eq!((counts.vector_bytes_read, counts.vector_bytes_written), (2 * 4 * n as u64, 4 * n as u64));
    }
}

#[test]
fn lds_reduction_with_barriers() {
    for arch in BOTH {
        let source = r#"KERNEL void k(const float *x, float *out) {
            SHARED float s[256];
            u32 t = tid();
            s[t] = x[wg() * 256 + t];
            barrier();
            for (u32 w = 128; w; w >>= 1) { if (t < w) s[t] += s[t + w]; barrier(); }
            if (t == 0) out[wg()] = s[0];
        }"#;
        let Some(code) = compile(arch, source) else { return };
        let mut device = Device::new(arch, &code);
        let x: Vec<f32> = (0..256 * 33).map(|i| (i % 17) as f32).collect();
        let (dx, dy) = (device.buffer("x", &x), device.buffer("out", &[0_f32; 33]));
        device.run("k", 33, 256, Args::default().u64(dx).u64(dy).done()).unwrap();
        let want: Vec<f32> = x.chunks(256).map(|row| row.iter().sum()).collect();
        assert_eq!(device.read::<f32>(dy, 33), want);
    }
}

#[test]
fn divergence_loops_and_integer_division() {
    let source = r#"KERNEL void k(const u32 *a, const u32 *b, u32 *q, u32 *steps) {
        u32 i = wg() * 64 + tid();
        u32 n = a[i], c = 0;
        while (n != 1) { n = (n & 1) ? 3 * n + 1 : n / 2; c++; }
        steps[i] = c;
        q[i] = a[i] / b[i] + (a[i] % b[i]) * 1000000;
    }"#;
    for arch in BOTH {
        let Some(code) = compile(arch, source) else { return };
        let mut device = Device::new(arch, &code);
        let a: Vec<u32> = (1..=256).map(|i| i * 37 + 5).collect();
        let b: Vec<u32> = (1..=256).map(|i| i % 19 + 1).collect();
        let (da, db) = (device.buffer("a", &a), device.buffer("b", &b));
        let (dq, ds) = (device.buffer("q", &[0_u32; 256]), device.buffer("steps", &[0_u32; 256]));
        device.run("k", 4, 64, Args::default().u64(da).u64(db).u64(dq).u64(ds).done()).unwrap();
        let collatz = |mut n: u32| {
            let mut count = 0;
            while n != 1 {
                n = if n % 2 == 1 { 3 * n + 1 } else { n / 2 };
                count += 1;
            }
            count
        };
        assert_eq!(device.read::<u32>(ds, 256), a.iter().map(|n| collatz(*n)).collect::<Vec<_>>());
        let want: Vec<u32> = a.iter().zip(&b).map(|(a, b)| a / b + a % b * 1_000_000).collect();
        assert_eq!(device.read::<u32>(dq, 256), want);
    }
}

#[test]
fn atomics_give_the_same_with_any_number_of_threads() {
    let source = r#"KERNEL void k(u32 *count, float *sum, u32 *ticket, const float *x) {
        u32 i = wg() * 64 + tid();
        __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
        __builtin_amdgcn_global_atomic_fadd_f32((__attribute__((address_space(1))) float *)sum, x[i]);
        if (tid() == 0) ticket[wg()] = __atomic_fetch_add(count + 1, 1, __ATOMIC_RELAXED);
    }"#;
    let mut seen = None;
    for threads in [1, 2, 5] {
        let Some(code) = compile(Arch::Gfx942, source) else { return };
        let mut device = Device::new(Arch::Gfx942, &code);
        device.options.threads = threads;
        let x: Vec<f32> = (0..64 * 100).map(|i| 1.0 / (i + 1) as f32).collect();
        let (count, sum) = (device.buffer("count", &[0_u32; 2]), device.buffer("sum", &[0_f32]));
        let (ticket, dx) = (device.buffer("ticket", &[0_u32; 100]), device.buffer("x", &x));
        device.run("k", 100, 64, Args::default().u64(count).u64(sum).u64(ticket).u64(dx).done()).unwrap();
        assert_eq!(device.read::<u32>(count, 2), [6400, 100]);
        let result = (device.read::<f32>(sum, 1)[0].to_bits(), device.read::<u32>(ticket, 100));
        let exact: f64 = x.iter().map(|x| f64::from(*x)).sum();
        assert!((f64::from(f32::from_bits(result.0)) - exact).abs() < 1e-4);
        assert_eq!(*seen.get_or_insert(result.clone()), result);
    }
}

#[test]
fn scratch_arrays_and_calls() {
    let source = r#"
    __attribute__((device, noinline)) u32 mix(u32 *v, u32 n) { u32 s = 0; for (u32 i = 0; i < n; i++) s = s * 31 + v[(s + i) % n]; return s; }
    KERNEL void k(const u32 *x, u32 *out) {
        u32 v[24];
        u32 i = wg() * 128 + tid();
        for (u32 j = 0; j < 24; j++) v[(j * 7 + x[i]) % 24] = x[i] + j * j;
        out[i] = mix(v, 24);
    }"#;
    for arch in BOTH {
        for options in [&["-O3"][..], &["-O0"][..], &["-O1", "-fno-inline"][..]] {
            let Some(code) = compile_with(arch, source, options) else { return };
            let mut device = Device::new(arch, &code);
            let x: Vec<u32> = (0..384_u32).map(|i| i.wrapping_mul(2_654_435_761) >> 20).collect();
            let (dx, dy) = (device.buffer("x", &x), device.buffer("out", &[0_u32; 384]));
            device.run("k", 3, 128, Args::default().u64(dx).u64(dy).done()).unwrap();
            let want: Vec<u32> = x
                .iter()
                .map(|x| {
                    let mut v = [0_u32; 24];
                    for j in 0..24 {
                        v[((j * 7 + x) % 24) as usize] = x + j * j;
                    }
                    let mut s = 0_u32;
                    for i in 0..24 {
                        s = s.wrapping_mul(31).wrapping_add(v[(s.wrapping_add(i) % 24) as usize]);
                    }
                    s
                })
                .collect();
            assert_eq!(device.read::<u32>(dy, 384), want, "{arch:?} {options:?}");
        }
    }
}

#[test]
fn a_workgroup_may_wait_for_a_later_ones_flag() {
    let source = r#"KERNEL void k(volatile u32 *flag, u32 *out, u32 last) {
        if (wg() == last) { if (tid() == 0) *flag = 7; }
        else { while (*flag == 0) {} }
        if (tid() == 0) out[wg()] = *flag;
    }"#;
    for (arch, threads) in [(Arch::Gfx942, 1), (Arch::Gfx942, 2), (Arch::Gfx90a, 2)] {
        let Some(code) = compile(arch, source) else { return };
        let mut device = Device::new(arch, &code);
        device.options.threads = threads;
        let (flag, out) = (device.buffer("flag", &[0_u32]), device.buffer("out", &[0_u32; 12]));
        device.run("k", 12, 64, Args::default().u64(flag).u64(out).u32(11).done()).unwrap();
        assert_eq!(device.read::<u32>(out, 12), [7; 12]);
    }
}

#[test]
fn grid_and_block_ids_in_three_dimensions() {
    let source = r#"KERNEL void k(u32 *out, u32 gx, u32 gy) {
        u32 x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();
        u32 g = (__builtin_amdgcn_workgroup_id_z() * gy + __builtin_amdgcn_workgroup_id_y()) * gx + __builtin_amdgcn_workgroup_id_x();
        out[g * 60 + (z * 4 + y) * 5 + x] = g * 1000 + z * 100 + y * 10 + x;
    }"#;
    for arch in BOTH {
        let Some(code) = compile(arch, source) else { return };
        let mut device = Device::new(arch, &code);
        let out = device.buffer("out", &[0_u32; 60 * 24]);
        let request = kbench_gfx_emu::launch::Launch {
            kernel: "k".into(),
            grid: [2, 3, 4],
            block: [5, 4, 3],
            dynamic_lds: 0,
            kernarg: Args::default().u64(out).u32(2).u32(3).done(),
        };
        kbench_gfx_emu::launch::launch(&mut device.memory, &device.module, &request, &device.options).unwrap();
        let want: Vec<u32> = (0..24).flat_map(|g| (0..60).map(move |i| g * 1000 + i / 20 * 100 + i / 5 % 4 * 10 + i % 5)).collect();
        assert_eq!(device.read::<u32>(out, 60 * 24), want);
    }
}
