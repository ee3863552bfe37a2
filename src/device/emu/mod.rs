//! The emulated GPU as a device: real code objects of kbench's kernels, executed on the CPU. Nothing here is a measurement of
//! time: what a case reports is whether its output is right, what was executed, and a bound.

mod prepared;
mod summary;

use super::builds::Builds;
use super::{Bandwidth, Device, DeviceError, DeviceInfo, Kind, Peaks, Prepared, Throughput};
use crate::kernels;
use crate::measure::Cache;
use kbench_gfx_emu::model::{MatrixInput, Model};
use kbench_kernels::Library;
use kbench_workload::{Dtype, Fp8Flavor, Workload};
use prepared::EmuPrepared;
pub use summary::{Emulated, EmulatedBound, EmulatedCounter, EmulatedLaunch, Sampled};
pub(crate) use summary::{Run, kind_name, summarise};

/// Work beyond which a sample of a launch's workgroups runs instead of all: about ten seconds on one core.
const SAMPLE_FLOPS: u128 = 6_000_000_000;
/// The same for bytes moved.
const SAMPLE_BYTES: u128 = 2_000_000_000;

/// An emulated GPU.
pub struct Emu {
    model: &'static Model,
    info: DeviceInfo,
    builds: Builds,
    /// Workgroups to run of a large launch; `None` decides by the work.
    sample: Option<u64>,
}

impl Emu {
    /// The model of that name with the kernels of `library`, the program's own without one.
    ///
    /// # Errors
    /// When there is no such model, or the program's kernels cannot be read.
    pub fn open(model: &str, library: Option<Library>, sample: Option<u64>) -> Result<Self, DeviceError> {
        let failed = |error: &dyn std::fmt::Display| DeviceError::Failed(error.to_string());
        let model = Model::named(model).map_err(|error| failed(&error))?;
        let library = match library {
            Some(library) => library,
            None => kernels::builtin().map_err(|error| failed(&error))?,
        };
        let arch = model.arch().name();
        let info = DeviceInfo {
            kind: Kind::Emu,
            name: format!("{} (emulated)", model.marketing_name),
            arch: arch.to_owned(),
            units: model.cus().into(),
            llc_bytes: Some(model.last_level_bytes()),
            fp8: Fp8Flavor::of_arch(arch),
        };
        let builds = Builds::new(library, arch, model.cus());
        Ok(Self { model, info, builds, sample })
    }

    /// Workgroups to run of the case's launch, when not all.
    fn sample_of(&self, case: &dyn Workload) -> Option<u64> {
        let work = case.work();
        let large = work.total_flops() > SAMPLE_FLOPS || work.total_bytes() > SAMPLE_BYTES;
        self.sample.or(large.then_some(64))
    }
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

impl Device for Emu {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn environment(&self) -> Vec<(String, String)> {
        vec![
            ("emulated".to_owned(), "true: no time is measured on this device".to_owned()),
            ("kernels".to_owned(), self.builds.library.name.clone()),
        ]
    }

    fn peaks(&mut self) -> Result<Peaks, DeviceError> {
        let bandwidth = self
            .model
            .hbm_bytes_per_second
            .as_ref()
            .map(|rate| Bandwidth { working_set_bytes: u64::MAX, gbps: rate.value / 1e9 });
        let gflops = Dtype::all()
            .filter_map(|dtype| {
                let flops = self.model.peak_matrix_flops(matrix_input(dtype)?)?;
                Some(Throughput { dtype: dtype.name().to_owned(), gflops: flops / 1e9 })
            })
            .collect();
        Ok(Peaks { bandwidth: bandwidth.into_iter().collect(), gflops, source: "datasheet".to_owned() })
    }

    fn available_bytes(&self) -> u64 {
        self.model.memory_bytes()
    }

    fn prepare<'a>(
        &'a mut self,
        case: &'a dyn Workload,
        cache: Cache,
        _seed: u64,
    ) -> Result<Box<dyn Prepared + 'a>, DeviceError> {
        let needed: u128 = case.tensors().iter().map(|spec| spec.bytes()).sum();
        let available = self.available_bytes();
        if needed > available.into() {
            return Err(DeviceError::OutOfMemory { needed_bytes: needed, available_bytes: available });
        }
        let chosen = self.builds.choose(case)?;
        let sample = self.sample_of(case);
        let counted = chosen.plan.launches.iter().filter(|launch| !launch.setup).count();
        if sample.is_some() && counted > 1 {
            return Err(DeviceError::NoBuild(format!(
                "too large to emulate whole ({} launches that need each other's results; a sample of workgroups would \
                 not give right ones): choose a smaller shape, or a GPU",
                counted
            )));
        }
        Ok(Box::new(EmuPrepared::new(self.model, case, chosen, cache, sample)))
    }
}
