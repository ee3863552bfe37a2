//! Datasheet peaks: the device models that come with kbench, by what a runtime says of a device.

use crate::device::{Bandwidth, Peaks, Throughput};
use kbench_gfx_emu::model::{MatrixInput, Model};
use kbench_workload::Dtype;

/// Memory sizes that differ by less than this share are the same: firmware keeps some of it.
const MEMORY_SLACK: f64 = 0.15;

/// The model of a real device: by its name, else by architecture, CUs and memory; `None` for devices (and partitions) that no
/// model describes.
pub(super) fn model_of(name: &str, arch: &str, cus: u32, memory_bytes: u64) -> Option<&'static Model> {
    let of_arch = || Model::all().iter().filter(|model| model.arch().name() == arch && model.cus() == cus);
    let near = |model: &&Model| {
        let bytes = model.memory_bytes() as f64;
        (memory_bytes as f64 - bytes).abs() < MEMORY_SLACK * bytes
    };
    let named = |model: &&Model| model.marketing_name.split_whitespace().last().is_some_and(|last| name.contains(last));
    of_arch().find(named).or_else(|| of_arch().find(near))
}

/// The matrix type whose peak bounds products of a dtype; `None` for those that matrix cores do not take. Types narrower than
/// what a device multiplies are widened by its kernels, so the f32 and f64 peaks hold for the rest.
fn matrix_input(dtype: Dtype) -> Option<MatrixInput> {
    Some(match dtype {
        Dtype::F64 => MatrixInput::F64,
        Dtype::F32 => MatrixInput::F32,
        Dtype::F16 => MatrixInput::F16,
        Dtype::Bf16 => MatrixInput::Bf16,
        Dtype::I8 => MatrixInput::I8,
        Dtype::Fp8E4m3fn | Dtype::Fp8E4m3fnuz | Dtype::Fp8E5m2 | Dtype::Fp8E5m2fnuz => MatrixInput::F8,
        Dtype::Fp4E2m1 => MatrixInput::F6f4,
        _ => return None,
    })
}

/// A model's peaks. A device without a model has none: percent of peak is then refused rather than guessed.
pub(super) fn datasheet(model: Option<&Model>) -> Peaks {
    let bandwidth = model
        .and_then(|model| model.hbm_bytes_per_second.as_ref())
        .map(|rate| Bandwidth { working_set_bytes: u64::MAX, gbps: rate.value / 1e9 });
    let gflops = Dtype::all()
        .filter_map(|dtype| {
            let flops = model?.peak_matrix_flops(matrix_input(dtype)?)?;
            Some(Throughput { dtype: dtype.name().to_owned(), gflops: flops / 1e9 })
        })
        .collect();
    let source = if model.is_some() { "datasheet" } else { "unknown device" };
    Peaks { bandwidth: bandwidth.into_iter().collect(), gflops, source: source.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart_by_name_or_memory() {
        let name = |name, arch, cus, memory: u64| model_of(name, arch, cus, memory).map(|model| model.name.as_str());
        assert_eq!(name("AMD Instinct MI300X", "gfx942", 304, 0), Some("mi300x"));
        // MI300X and MI325X differ in their memory only.
        assert_eq!(name("", "gfx942", 304, 191 << 30), Some("mi300x"));
        assert_eq!(name("", "gfx942", 304, 255 << 30), Some("mi325x"));
        // A partition of a device is not that device.
        assert_eq!(name("AMD Instinct MI300X", "gfx942", 38, 24 << 30), None);
        assert_eq!(name("AMD Radeon RX 7900 XTX", "gfx1100", 48, 24 << 30), None);
    }

    #[test]
    fn a_device_without_a_model_has_no_peaks() {
        let peaks = datasheet(None);
        assert!(peaks.bandwidth.is_empty() && peaks.gflops.is_empty());
        let peaks = datasheet(Model::named("mi300x").ok());
        // 5.325 TB/s and 1307.4 TFLOP/s dense bf16: AMD's data sheet of the MI300X.
        assert!((peaks.memory_gbps().unwrap() - 5325.0).abs() < 5.0);
        assert!((peaks.gflops_of("bf16").unwrap() - 1_307_400.0).abs() < 100.0);
    }
}
