//! Kernels that Triton compiles (softmax, layer norm, matrix product, attention) against references in f64, at sizes that are
//! no multiple of anything. Needs a Python with the package `triton`, which compiles without a GPU: `python3`, or the one
//! that `KBENCH_PYTHON` names. Without it the tests say so and pass.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use half::f16;
use kbench_gfx_emu::isa::Arch;
use kbench_gfx_emu::launch::{Launch, launch};
use std::path::Path;
use std::process::Command;
use support::asm::Random;
use support::{Args, Device};

const ARCHS: [Arch; 2] = [Arch::Gfx942, Arch::Gfx90a];

/// A compiled kernel.
struct Compiled {
    name: String,
    symbol: String,
    warps: u32,
    lds: u32,
    code: Vec<u8>,
}

/// All kernels for an arch; `None` where there is no Triton.
fn compiled(arch: Arch) -> Option<Vec<Compiled>> {
    let python = std::env::var("KBENCH_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import triton"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no package `triton`");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/triton/kernels.py");
    let result = Command::new(python)
        .arg(script)
        .arg(arch.name())
        .arg(folder.path())
        .env("TRITON_CACHE_DIR", folder.path().join("cache"))
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let lines = String::from_utf8(result.stdout).unwrap();
    let kernels = lines.lines().map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let code = std::fs::read(folder.path().join(format!("{}.hsaco", fields[0]))).unwrap();
        Compiled {
            name: fields[0].into(),
            symbol: fields[1].into(),
            warps: fields[2].parse().unwrap(),
            lds: fields[3].parse().unwrap(),
            code,
        }
    });
    Some(kernels.collect())
}

/// A device with the kernel, under the detectors.
fn device(arch: Arch, kernel: &Compiled) -> Device {
    let mut device = Device::new(arch, &kernel.code);
    device.options.lds_races = true;
    device.options.poison = Some(0x7fc0_dead);
    device.memory.track_uninitialised(true);
    device
}

/// Runs the kernel; two null scratch pointers follow its own arguments.
fn run(device: &mut Device, kernel: &Compiled, grid: [u32; 3], args: Args) {
    let request = Launch {
        kernel: kernel.symbol.clone(),
        grid,
        block: [kernel.warps * 64, 1, 1],
        dynamic_lds: kernel.lds,
        kernarg: args.u64(0).u64(0).done(),
    };
    if let Err(error) = launch(&mut device.memory, &device.module, &request, &device.options) {
        panic!("{}: {error}", kernel.name);
    }
}

/// Numbers of about a normal distribution, as f16 holds them.
fn numbers(random: &mut Random, count: usize, scale: f64) -> Vec<f16> {
    let uniform = |random: &mut Random| (random.next() >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
    (0..count).map(|_| f16::from_f64((0..4).map(|_| uniform(random)).sum::<f64>() * 1.7 * scale)).collect()
}

fn close(label: &str, found: impl IntoIterator<Item = f64>, want: &[f64], absolute: f64, relative: f64) {
    for (index, (found, want)) in found.into_iter().zip(want).enumerate() {
        let near = (found - want).abs() <= absolute + relative * want.abs();
        assert!(near, "{label} {index}: {found}, expected {want}");
    }
}

fn softmax(arch: Arch, kernel: &Compiled) {
    let mut random = Random(0x50f7);
    for (rows, columns) in [(5, 333), (3, 512), (2, 1)] {
        let x: Vec<f32> = numbers(&mut random, rows * columns, 3.0).iter().map(|x| x.to_f32()).collect();
        let mut device = device(arch, kernel);
        let dx = device.buffer("x", &x);
        let out = device.memory.allocate((rows * columns * 4) as u64, "out").unwrap();
        run(&mut device, kernel, [rows as u32, 1, 1], Args::default().u64(out).u64(dx).u32(columns as u32));
        let want: Vec<f64> = x
            .chunks(columns)
            .flat_map(|row| {
                let best = row.iter().copied().fold(f32::MIN, f32::max);
                let weights: Vec<f64> = row.iter().map(|x| f64::from(x - best).exp()).collect();
                let sum: f64 = weights.iter().sum();
                weights.into_iter().map(move |weight| weight / sum).collect::<Vec<_>>()
            })
            .collect();
        // f32 exponentials and sums of up to 512 terms.
        close("softmax", device.read::<f32>(out, want.len()).into_iter().map(f64::from), &want, 1e-9, 2e-6);
    }
}

fn layernorm(arch: Arch, kernel: &Compiled) {
    let mut random = Random(0x1a7e);
    for (rows, columns) in [(3, 1000), (2, 77)] {
        let x = numbers(&mut random, rows * columns, 2.0);
        let (weight, bias) = (numbers(&mut random, columns, 1.0), numbers(&mut random, columns, 1.0));
        let mut device = device(arch, kernel);
        let (dx, dw, db) = (device.buffer("x", &x), device.buffer("w", &weight), device.buffer("b", &bias));
        let out = device.memory.allocate((rows * columns * 2) as u64, "out").unwrap();
        let args = Args::default().u64(out).u64(dx).u64(dw).u64(db).u32(columns as u32).f32(1e-5);
        run(&mut device, kernel, [rows as u32, 1, 1], args);
        let want: Vec<f64> = x
            .chunks(columns)
            .flat_map(|row| {
                let mean = row.iter().map(|x| x.to_f64()).sum::<f64>() / columns as f64;
                let variance = row.iter().map(|x| (x.to_f64() - mean).powi(2)).sum::<f64>() / columns as f64;
                let scale = 1.0 / (variance + 1e-5).sqrt();
                let pairs = weight.iter().zip(&bias);
                row.iter()
                    .zip(pairs)
                    .map(move |(x, (w, b))| (x.to_f64() - mean) * scale * w.to_f64() + b.to_f64())
                    .collect::<Vec<_>>()
            })
            .collect();
        // The result is rounded to f16: half a unit of its 11 bits, and a little of the f32 sums.
        close("layernorm", device.read::<f16>(out, want.len()).into_iter().map(f64::from), &want, 1e-6, 5.5e-4);
    }
}

fn matmul(arch: Arch, kernel: &Compiled) {
    let mut random = Random(0x3a7);
    for (m, n, k) in [(70, 130, 51), (64, 64, 96), (1, 3, 7)] {
        let (a, b) = (numbers(&mut random, m * k, 1.0), numbers(&mut random, k * n, 1.0));
        let mut device = device(arch, kernel);
        let (da, db) = (device.buffer("a", &a), device.buffer("b", &b));
        let out = device.memory.allocate((m * n * 4) as u64, "out").unwrap();
        let args = Args::default().u64(out).u64(da).u64(db).u32(m as u32).u32(n as u32).u32(k as u32);
        run(&mut device, kernel, [m.div_ceil(64) as u32, n.div_ceil(64) as u32, 1], args);
        let product = |i: usize, j: usize| (0..k).map(|l| a[i * k + l].to_f64() * b[l * n + j].to_f64()).sum::<f64>();
        let want: Vec<f64> = (0..m * n).map(|index| product(index / n, index % n)).collect();
        // f32 sums of at most 96 products of about 1.
        close("matmul", device.read::<f32>(out, want.len()).into_iter().map(f64::from), &want, 1e-4, 1e-5);
    }
}

fn attention(arch: Arch, kernel: &Compiled) {
    const D: usize = 64;
    let mut random = Random(0xa77);
    for length in [100, 64, 1] {
        let [q, k, v] = [0; 3].map(|_| numbers(&mut random, length * D, 1.0));
        let mut device = device(arch, kernel);
        let (dq, dk, dv) = (device.buffer("q", &q), device.buffer("k", &k), device.buffer("v", &v));
        let out = device.memory.allocate((length * D * 4) as u64, "out").unwrap();
        let args = Args::default().u64(out).u64(dq).u64(dk).u64(dv).u32(length as u32).f32(0.125);
        run(&mut device, kernel, [length.div_ceil(64) as u32, 1, 1], args);
        let mut want = Vec::new();
        for row in 0..length {
            let dot = |col: usize| (0..D).map(|d| q[row * D + d].to_f64() * k[col * D + d].to_f64()).sum::<f64>();
            let weights: Vec<f64> = (0..=row).map(|col| (dot(col) * 0.125).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for d in 0..D {
                want.push((0..=row).map(|col| weights[col] / sum * v[col * D + d].to_f64()).sum());
            }
        }
        // The shares are rounded to f16 before the second product.
        close("attention", device.read::<f32>(out, want.len()).into_iter().map(f64::from), &want, 2e-3, 1e-3);
    }
}

#[test]
fn kernels_of_triton() {
    for arch in ARCHS {
        let Some(kernels) = compiled(arch) else { return };
        assert_eq!(kernels.len(), 4);
        for kernel in &kernels {
            match kernel.name.as_str() {
                "softmax" => softmax(arch, kernel),
                "layernorm" => layernorm(arch, kernel),
                "matmul" => matmul(arch, kernel),
                "attention" => attention(arch, kernel),
                other => panic!("no reference for {other}"),
            }
        }
    }
}
