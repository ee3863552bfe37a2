//! Speed of the readers. `cargo bench -p kbench-profile --bench readers`; real sheets are taken from `KBENCH_REAL_DATA` (default `shared/data` beside
//! the workspace) and left out, with a line that says so, when it is absent.
//!
//! For comparison: TraceLens takes 1.2 to 3.3 s to make such a report from a trace, most of it the import of its Python packages.

#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kbench_profile::{ReadOptions, pyrepr, read};
use std::hint::black_box;
use std::path::{Path, PathBuf};

#[path = "generate.rs"]
mod generate;

fn real_data() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("KBENCH_REAL_DATA").map_or(default, PathBuf::from).join("tracelens");
    if !folder.is_dir() {
        eprintln!("real sheets are left out: {} is absent", folder.display());
        return None;
    }
    Some(folder)
}

/// Target: below 50 ms for the largest sheet.
fn sheets(criterion: &mut Criterion) {
    let Some(folder) = real_data() else { return };
    let mut group = criterion.benchmark_group("tracelens");
    for name in ["mi300_vllm_gptoss20b_decode/unified_perf_summary.csv", "mi300_qwen15", "mi300_vllm_gptoss20b_decode"]
    {
        let path = folder.join(name);
        group.bench_function(name, |bencher| {
            bencher.iter(|| read(black_box(&[&path]), &ReadOptions::default()).unwrap());
        });
    }
}

/// A graph replay's cell: 800 kernels, as in the largest real one.
fn cell(criterion: &mut Criterion) {
    let kernel = "{'name': '_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib', 'stream': 0, 'count': 1, \
                  'total_duration_us': np.float64(4.419), 'mean_duration_us': np.float64(4.419), 'std_dev_duration_us': np.float64(nan)}";
    let cell = format!("[{}]", vec![kernel; 800].join(", "));
    let mut group = criterion.benchmark_group("pyrepr");
    group.throughput(Throughput::Bytes(cell.len() as u64));
    group.bench_function("graph cell", |bencher| bencher.iter(|| pyrepr::parse(black_box(&cell)).unwrap()));
}

/// A trace in rocprofv3's columns; the throughput is what a gigabyte takes.
fn trace(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let bytes = generate::kernel_trace(&path, 32 << 20).unwrap();
    let mut group = criterion.benchmark_group("rocprofv3");
    group.throughput(Throughput::Bytes(bytes)).sample_size(10);
    group.bench_function("kernel_trace", |bencher| {
        bencher.iter(|| read(black_box(&[&path]), &ReadOptions::default()).unwrap());
    });
}

criterion_group!(benches, sheets, cell, trace);
criterion_main!(benches);
