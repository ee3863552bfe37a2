//! Measured peaks of the CPU: streaming bandwidth by working set, and fused multiply-adds by element type.
//!
//! Each figure is the best of many short runs on all threads at once: a peak is what the machine can do, so that noise
//! only ever lowers a run, never the peak.

use super::super::{Bandwidth, DeviceInfo, Peaks, Throughput};
use kbench_workload::Dtype;
use pulp::{Arch, Simd, WithSimd};
use serde::{Deserialize, Serialize};
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// How long each figure is measured.
const EACH: Duration = Duration::from_millis(150);

/// Changes when what is measured, or how, changes: kept figures of another version are measured again.
const METHOD: u32 = 1;

/// What measured peaks hold for.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct MeasuredOn {
    method: u32,
    cpu: String,
    arch: String,
    threads: u64,
    llc_bytes: Option<u64>,
    os_kernel: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    measured_on: MeasuredOn,
    peaks: Peaks,
}

impl MeasuredOn {
    fn here(info: &DeviceInfo, os_kernel: &str) -> Self {
        Self {
            method: METHOD,
            cpu: info.name.clone(),
            arch: info.arch.clone(),
            threads: info.units,
            llc_bytes: info.llc_bytes,
            os_kernel: os_kernel.to_owned(),
        }
    }
}

fn file(dir: &Path) -> PathBuf {
    dir.join("peaks-host.json")
}

/// Peaks kept in `dir`, when they were measured on this very machine and method.
pub(super) fn kept(dir: &Path, info: &DeviceInfo, os_kernel: &str) -> Option<Peaks> {
    let text = fs::read_to_string(file(dir)).ok()?;
    let kept: Kept = serde_json::from_str(&text).ok()?;
    (kept.measured_on == MeasuredOn::here(info, os_kernel)).then_some(kept.peaks)
}

/// Keeps peaks in `dir`.
pub(super) fn keep(dir: &Path, info: &DeviceInfo, os_kernel: &str, peaks: &Peaks) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let kept = Kept { measured_on: MeasuredOn::here(info, os_kernel), peaks: peaks.clone() };
    let whole = serde_json::to_vec_pretty(&kept)?;
    // Written beside and renamed: a reader sees the old or the new file, never half of one.
    let beside = dir.join(format!("peaks-host.{}.tmp", std::process::id()));
    fs::write(&beside, whole)?;
    fs::rename(&beside, file(dir))
}

/// The widest vector unit that the measuring (and the references' GEMM) uses.
pub(super) fn vector_unit() -> &'static str {
    struct Width;
    impl WithSimd for Width {
        type Output = usize;
        fn with_simd<S: Simd>(self, _simd: S) -> usize {
            S::F32_LANES
        }
    }
    match Arch::new().dispatch(Width) {
        16 => "avx512",
        8 => "avx2+fma",
        4 => "128-bit simd",
        _ => "scalar",
    }
}

/// Measures everything; about two seconds.
pub(super) fn measure(info: &DeviceInfo) -> Peaks {
    let threads = info.units;
    let memory = memory_working_set(info.llc_bytes);
    // L1-, L2- and LLC-sized sets a thread, then main memory. A set larger than the LLC is skipped on small machines.
    let mut sets: Vec<u64> =
        [16 << 10, 256 << 10, 1 << 20, 8 << 20].iter().map(|bytes| bytes * threads).filter(|b| *b < memory).collect();
    sets.push(memory);
    let mut bandwidth: Vec<Bandwidth> = sets
        .into_iter()
        .map(|working_set_bytes| Bandwidth { working_set_bytes, gbps: stream(working_set_bytes) })
        .collect();
    // A larger set cannot truly be faster; where noise says so, the bound stays on the safe (faster) side.
    for index in (1..bandwidth.len()).rev() {
        bandwidth[index - 1].gbps = bandwidth[index - 1].gbps.max(bandwidth[index].gbps);
    }
    let single = multiply_adds::<f32>();
    let double = multiply_adds::<f64>();
    // The references compute every narrow float in f32, so that is their peak.
    let gflops = Dtype::all()
        .filter(|dtype| dtype.is_float())
        .map(|dtype| Throughput {
            dtype: dtype.name().to_owned(),
            gflops: if dtype == Dtype::F64 { double } else { single },
        })
        .collect();
    let source =
        format!("measured on {} with {} threads; floats narrower than f32 are computed in f32", info.name, threads);
    Peaks { bandwidth, gflops, source }
}

/// Bytes that are main memory for sure: four times the last-level cache, within what every machine can spare.
fn memory_working_set(llc_bytes: Option<u64>) -> u64 {
    (llc_bytes.unwrap_or(super::cpu::ASSUMED_LLC_BYTES).saturating_mul(4)).clamp(256 << 20, 1536 << 20)
}

/// The best bandwidth of reading, copying and triad over `bytes` in total, GB/s.
fn stream(bytes: u64) -> f64 {
    let threads = rayon::current_num_threads();
    // Three equal arrays of f32 a thread.
    let elements = (bytes as usize / threads / 3 / 4).max(64);
    let barrier = Barrier::new(threads);
    let rates = rayon::broadcast(|_| {
        let mut a = vec![0.0_f32; elements];
        let b = vec![1.0_f32; elements];
        let c = vec![2.0_f32; elements];
        let size = (elements * 4) as f64;
        // Enough passes between two looks at the clock that the look itself costs nothing.
        let passes = (1_usize << 20).div_ceil(elements * 12).max(1);
        let read = best_rate(&barrier, passes, 3.0 * size, || {
            black_box(sum(&a) + sum(&b) + sum(&c));
        });
        let copy = best_rate(&barrier, passes, 2.0 * size, || {
            a.copy_from_slice(black_box(&b));
            black_box(&mut a);
        });
        let triad = best_rate(&barrier, passes, 3.0 * size, || {
            triad(&mut a, black_box(&b), black_box(&c));
            black_box(&mut a);
        });
        [read, copy, triad]
    });
    (0..3).map(|kind| rates.iter().map(|rate| rate[kind]).sum::<f64>()).fold(0.0, f64::max)
}

/// Bytes per ns of the fastest look, measured for [`EACH`] on every thread together.
fn best_rate(barrier: &Barrier, passes: usize, bytes_a_pass: f64, mut pass: impl FnMut()) -> f64 {
    pass();
    barrier.wait();
    let begin = Instant::now();
    let mut best = 0.0_f64;
    loop {
        let look = Instant::now();
        for _ in 0..passes {
            pass();
        }
        let ns = look.elapsed().as_nanos().max(1) as f64;
        best = best.max(bytes_a_pass * passes as f64 / ns);
        if begin.elapsed() >= EACH / 3 {
            return best;
        }
    }
}

/// Sum with enough independent accumulators to be bound by loads alone.
fn sum(values: &[f32]) -> f32 {
    struct Sum<'a>(&'a [f32]);
    impl WithSimd for Sum<'_> {
        type Output = f32;
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> f32 {
            let (vectors, _) = S::as_simd_f32s(self.0);
            let mut totals = [simd.splat_f32s(0.0); 8];
            for eight in vectors.as_chunks::<8>().0 {
                for (total, vector) in totals.iter_mut().zip(eight) {
                    *total = simd.add_f32s(*total, *vector);
                }
            }
            totals.iter().map(|total| simd.reduce_sum_f32s(*total)).sum()
        }
    }
    Arch::new().dispatch(Sum(values))
}

/// `a = b + s·c`.
fn triad(a: &mut [f32], b: &[f32], c: &[f32]) {
    struct Triad<'a>(&'a mut [f32], &'a [f32], &'a [f32]);
    impl WithSimd for Triad<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let scale = simd.splat_f32s(0.5);
            let (a, _) = S::as_mut_simd_f32s(self.0);
            let (b, _) = S::as_simd_f32s(self.1);
            let (c, _) = S::as_simd_f32s(self.2);
            for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                *a = simd.mul_add_e_f32s(scale, *c, *b);
            }
        }
    }
    Arch::new().dispatch(Triad(a, b, c));
}

/// Independent accumulators: enough to cover the latency of a fused multiply-add on two ports.
const CHAINS: usize = 16;

/// One run of multiply-adds in registers: returns a value that depends on all of them and how many FLOPs they were.
trait Chains {
    fn run(rounds: usize) -> (f64, f64);
}

macro_rules! chains {
    ($type:ty, $splat:ident, $mul_add:ident, $reduce:ident, $lanes:ident) => {
        impl Chains for $type {
            fn run(rounds: usize) -> (f64, f64) {
                struct Run(usize);
                impl WithSimd for Run {
                    type Output = (f64, f64);
                    #[inline(always)]
                    fn with_simd<S: Simd>(self, simd: S) -> (f64, f64) {
                        let factor = simd.$splat(black_box(0.999));
                        let addend = simd.$splat(black_box(0.001));
                        let mut chains = [simd.$splat(1.0); CHAINS];
                        for _ in 0..self.0 {
                            for chain in &mut chains {
                                *chain = simd.$mul_add(*chain, factor, addend);
                            }
                        }
                        let total: $type = chains.iter().map(|chain| simd.$reduce(*chain)).sum();
                        (f64::from(total), (self.0 * CHAINS * S::$lanes * 2) as f64)
                    }
                }
                Arch::new().dispatch(Run(rounds))
            }
        }
    };
}

chains!(f32, splat_f32s, mul_add_f32s, reduce_sum_f32s, F32_LANES);
chains!(f64, splat_f64s, mul_add_f64s, reduce_sum_f64s, F64_LANES);

/// FLOP per ns (= GFLOP/s) of fused multiply-adds on all threads together.
fn multiply_adds<T: Chains>() -> f64 {
    const ROUNDS: usize = 20_000;
    let barrier = Barrier::new(rayon::current_num_threads());
    let (_, flops) = T::run(1);
    let rates = rayon::broadcast(|_| {
        best_rate(&barrier, 1, flops * ROUNDS as f64, || {
            black_box(T::run(black_box(ROUNDS)));
        })
    });
    rates.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Kind;
    use kbench_workload::Fp8Flavor;

    fn info() -> DeviceInfo {
        DeviceInfo {
            kind: Kind::Host,
            name: "a CPU".into(),
            arch: "x".into(),
            units: 2,
            llc_bytes: Some(1 << 20),
            fp8: Fp8Flavor::Ocp,
            scripted: false,
        }
    }

    #[test]
    fn kernels_compute_what_they_say() {
        // 1031 is prime: whole vectors are summed, the tail is not part of the streamed bytes.
        let values: Vec<f32> = (0..1024).map(|i| i as f32).collect();
        assert_eq!(sum(&values), 1023.0 * 512.0);
        let mut a = vec![0.0; 1024];
        triad(&mut a, &values, &values);
        assert!(a.iter().zip(&values).all(|(a, v)| *a == v + 0.5 * v));
        let (value, flops) = f64::run(100);
        assert!(value.is_finite() && flops > 0.0);
    }

    #[test]
    fn kept_peaks_are_for_this_machine_only() {
        let dir = tempfile::tempdir().unwrap();
        let peaks = Peaks {
            bandwidth: vec![Bandwidth { working_set_bytes: 1, gbps: 2.0 }],
            gflops: vec![Throughput { dtype: "f32".into(), gflops: 3.0 }],
            source: "test".into(),
        };
        assert_eq!(kept(dir.path(), &info(), "6.1"), None);
        keep(dir.path(), &info(), "6.1", &peaks).unwrap();
        assert_eq!(kept(dir.path(), &info(), "6.1"), Some(peaks));
        assert_eq!(kept(dir.path(), &info(), "6.2"), None);
        let other = DeviceInfo { units: 4, ..info() };
        assert_eq!(kept(dir.path(), &other, "6.1"), None);
        fs::write(file(dir.path()), "not json").unwrap();
        assert_eq!(kept(dir.path(), &info(), "6.1"), None);
    }
}
