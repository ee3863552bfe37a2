//! The emulated GPU as a device: real code objects of kbench's kernels, executed on the CPU. Nothing here is a measurement of
//! time: what a case reports is whether its output is right, what was executed, and a bound.

mod prepared;
mod sample;
mod summary;

use super::{Bandwidth, Device, DeviceError, DeviceInfo, Kind, Peaks, Prepared, Throughput};
use crate::kernels::{self, CaseSymbols};
use crate::measure::Cache;
use kbench_gfx_emu::model::{MatrixInput, Model};
use kbench_kernels::{Case, DeviceInfo as KernelDevice, Library, select};
use kbench_workload::{Dtype, Fp8Flavor, Workload};
use prepared::{Chosen, EmuPrepared};
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
    library: Library,
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
        Ok(Self { model, info, library, sample })
    }

    /// What launch rules know of the device.
    fn kernel_device(&self) -> KernelDevice {
        KernelDevice::of_arch(&self.info.arch, self.model.cus())
    }

    /// The build, variant and code object that run a case.
    fn choose(&self, case: &dyn Workload) -> Result<Chosen, DeviceError> {
        let symbols = CaseSymbols::new(case, self.info.fp8);
        let dtype = |role: &str| symbols.dtype(role);
        let asked = Case { family: case.family().name(), dtype: &dtype, symbols: &symbols };
        let device = self.kernel_device();
        let selection = select(self.library.builds(), &asked, &device);
        let Some((index, build, variant)) = selection.chosen else {
            return Err(DeviceError::NoBuild(no_build(case, &self.library, &selection.refused)));
        };
        let file = self.library.builds().nth(index).map(|(file, _)| file).unwrap_or_default();
        let failed = |error: &dyn std::fmt::Display| DeviceError::Failed(error.to_string());
        let plan = kbench_kernels::plan(file, build, variant, &symbols, &device).map_err(|error| failed(&error))?;
        let code = self.library.code(file, build, &device.arch).map_err(|error| failed(&error))?;
        let code = code.ok_or_else(|| {
            DeviceError::NoBuild(format!(
                "build `{}` has no code object for {}: `kbench build --arch {} -o DIR` makes one, `--kernels DIR` runs it",
                build.name, device.arch, device.arch
            ))
        })?;
        Ok(Chosen {
            origin: self.library.origin.name(),
            plan,
            file: code.file.clone(),
            sha256: code.sha256.clone(),
            bytes: code.bytes.into_owned(),
        })
    }

    /// Workgroups to run of the case's launch, when not all.
    fn sample_of(&self, case: &dyn Workload) -> Option<u64> {
        let work = case.work();
        let large = work.total_flops() > SAMPLE_FLOPS || work.total_bytes() > SAMPLE_BYTES;
        self.sample.or(large.then_some(64))
    }
}

/// Why no build runs a case: the nearest few refusals.
fn no_build(
    case: &dyn Workload,
    library: &Library,
    refused: &[(usize, &kbench_kernels::Build, kbench_kernels::Refusal)],
) -> String {
    let family = case.family();
    if refused.is_empty() {
        return format!("{}: there is no kernel of family {family}", library.name);
    }
    let reasons: Vec<String> =
        refused.iter().take(3).map(|(_, build, refusal)| format!("{} {refusal}", build.name)).collect();
    let more = if refused.len() > 3 { format!("; and {} more", refused.len() - 3) } else { String::new() };
    format!("no kernel runs this case: {}{more} (`kbench kernels --shapes FILE` says all)", reasons.join("; "))
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
            ("kernels".to_owned(), self.library.name.clone()),
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
        let chosen = self.choose(case)?;
        let sample = self.sample_of(case);
        if sample.is_some() && chosen.plan.launches.len() > 1 {
            return Err(DeviceError::NoBuild(format!(
                "too large to emulate whole ({} launches that need each other's results; a sample of workgroups would \
                 not give right ones): choose a smaller shape, or a GPU",
                chosen.plan.launches.len()
            )));
        }
        Ok(Box::new(EmuPrepared::new(self.model, case, chosen, cache, sample)))
    }
}
