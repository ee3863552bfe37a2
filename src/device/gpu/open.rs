//! From `--device` to a GPU.

use super::{Gpu, GpuOptions, NO_GPU, hip_error};
use crate::device::{DEFAULT_MODEL, DeviceError, DeviceSpec};
use kbench_hip::{HipError, Runtime};
use kbench_kernels::Library;

/// Why there is no real GPU.
fn no_gpu(error: &dyn std::fmt::Display) -> DeviceError {
    DeviceError::Failed(format!(
        "no GPU can be driven through HIP: {error}. `kbench doctor` says what is missing; `--device emu` runs the same kernels on an \
         emulated GPU, `--device host` the CPU references"
    ))
}

/// The system's HIP, when it has a device.
fn real() -> Result<Runtime, HipError> {
    let runtime = Runtime::open()?;
    match runtime.device_count()? {
        0 => Err(HipError::Invalid("it hides all devices (HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES)".into())),
        _ => Ok(runtime),
    }
}

impl Gpu {
    /// The GPU that `--device` names: of `auto` the first real one, else the emulated default.
    ///
    /// # Errors
    /// When it cannot be opened, or its kernels cannot be read.
    pub fn of_spec(spec: &DeviceSpec, library: Option<Library>, options: GpuOptions) -> Result<Self, DeviceError> {
        match spec {
            DeviceSpec::Auto => match real() {
                Ok(runtime) => Self::open(runtime, 0, library, options),
                Err(error) => {
                    let mut gpu = Self::emulated(DEFAULT_MODEL, library, options)?;
                    gpu.facts.push((NO_GPU.to_owned(), error.to_string()));
                    Ok(gpu)
                }
            },
            DeviceSpec::Hip(ordinal) => Self::open(real().map_err(|error| no_gpu(&error))?, *ordinal, library, options),
            DeviceSpec::HipAll => {
                let runtime = real().map_err(|error| no_gpu(&error))?;
                let count = runtime.device_count().map_err(hip_error)?;
                let mut gpu = Self::open(runtime, 0, library, options)?;
                gpu.others = (1..count).map(|ordinal| DeviceSpec::Hip(ordinal).to_string()).collect();
                Ok(gpu)
            }
            DeviceSpec::Emu(model) => Self::emulated(model, library, options),
            DeviceSpec::Host => Err(DeviceError::Failed("the host is no GPU".to_owned())),
        }
    }
}
