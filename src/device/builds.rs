//! Which build runs a case on a GPU: the library's builds by the case's dtypes and sizes, and their code for the device.

use super::{DeviceError, runtime_build};
use crate::kernels::CaseSymbols;
use kbench_hip::{Compiler, Runtime};
use kbench_kernels::plan::LaunchPlan;
use kbench_kernels::{Case, DeviceInfo as KernelDevice, Library, Origin, select};
use kbench_workload::{Fp8Flavor, Workload};

/// The build that was chosen for a case.
pub(super) struct Chosen {
    pub(super) origin: &'static str,
    /// What is launched.
    pub(super) plan: LaunchPlan,
    /// The code object's file.
    pub(super) file: String,
    pub(super) sha256: String,
    pub(super) bytes: Vec<u8>,
}

/// Compiling for the device itself.
struct RunTime {
    /// The architecture as hiprtc takes it.
    arch: String,
    /// The HIP whose hiprtc is taken.
    runtime: Runtime,
}

impl RunTime {
    /// Compiles one of the program's own builds.
    fn compile(&self, build: &str) -> Result<runtime_build::Compiled, String> {
        let compiler = Compiler::open_with(&self.runtime).map_err(|error| error.to_string())?;
        runtime_build::compile(&compiler, build, &self.arch)
    }
}

/// The builds for one device.
pub(super) struct Builds {
    pub(super) library: Library,
    device: KernelDevice,
    fp8: Fp8Flavor,
    /// Where the program's own kernels may be compiled when there is no build.
    run_time: Option<RunTime>,
}

impl Builds {
    /// The builds of `library` for a device of an architecture (without feature suffixes) with so many CUs.
    pub(super) fn new(library: Library, arch: &str, cus: u32) -> Self {
        Self { library, device: KernelDevice::of_arch(arch, cus), fp8: Fp8Flavor::of_arch(arch), run_time: None }
    }

    /// Kernels of the program that the device has no build of are compiled by the runtime's hiprtc, for this architecture.
    #[must_use]
    pub(super) fn or_compiled(self, arch: String, runtime: Runtime) -> Self {
        let run_time = (self.library.origin == Origin::Builtin).then_some(RunTime { arch, runtime });
        Self { run_time, ..self }
    }

    /// The build, variant and code object that run a case.
    pub(super) fn choose(&self, case: &dyn Workload) -> Result<Chosen, DeviceError> {
        let symbols = CaseSymbols::new(case, self.fp8);
        let dtype = |role: &str| symbols.dtype(role);
        let asked = Case { family: case.family().name(), dtype: &dtype, symbols: &symbols };
        let device = &self.device;
        let selection = select(self.library.builds(), &asked, device);
        let Some((index, build, variant)) = selection.chosen else {
            return Err(DeviceError::NoBuild(no_build(case, &self.library, &selection.refused)));
        };
        let file = self.library.builds().nth(index).map(|(file, _)| file).unwrap_or_default();
        let failed = |error: &dyn std::fmt::Display| DeviceError::Failed(error.to_string());
        let plan = kbench_kernels::plan(file, build, variant, &symbols, device).map_err(|error| failed(&error))?;
        let code = self.library.code(file, build, &device.arch).map_err(|error| failed(&error))?;
        let missing = |why: String| {
            DeviceError::NoBuild(format!(
                "build `{}` has no code object for {}{why}: `kbench build --arch {} -o DIR` makes one, `--kernels DIR` runs it",
                build.name, device.arch, device.arch
            ))
        };
        let code = match (code, &self.run_time) {
            (Some(code), _) => code,
            (None, None) => return Err(missing(String::new())),
            (None, Some(run_time)) => {
                let compiled = run_time.compile(&build.name);
                let compiled =
                    compiled.map_err(|reason| missing(format!(", and hiprtc did not make one ({reason})")))?;
                let sha256 = kbench_kernels::compile::sha256(&compiled.bytes);
                return Ok(Chosen { origin: "hiprtc", plan, file: compiled.file, sha256, bytes: compiled.bytes });
            }
        };
        Ok(Chosen {
            origin: self.library.origin.name(),
            plan,
            file: code.file.clone(),
            sha256: code.sha256.clone(),
            bytes: code.bytes.into_owned(),
        })
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
