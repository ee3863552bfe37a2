//! What `run`, `ab` and `selfcheck` share: which cases of a profile, on which device.

use super::args::{Fp8Choice, scale, share};
use crate::device::DeviceSpec;
use crate::plan::Selection;
use crate::worker::Limits;
use crate::worker::message::Open;
use clap::Args;
use kbench_profile::Phase;
use kbench_workload::Family;
use regex::Regex;
use std::path::PathBuf;

/// Which cases.
#[derive(Args, Debug)]
pub struct SelectArgs {
    /// Only these families, e.g. gemm,rmsnorm
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub family: Vec<Family>,
    /// Only kernels whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    pub kernel: Option<Regex>,
    /// Only kernels of this phase: prefill, decode, mixed or unknown
    #[arg(long, value_name = "PHASE")]
    pub phase: Option<Phase>,
    /// Only the N heaviest cases
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Only the heaviest cases that together make this share of the selected time, e.g. 0.95 or 95%
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "top")]
    pub coverage: Option<f64>,
}

impl SelectArgs {
    /// As the plan takes it.
    pub fn selection(&self) -> Selection {
        Selection {
            families: self.family.clone(),
            kernel: self.kernel.clone(),
            phase: self.phase,
            top: self.top,
            coverage: self.coverage,
        }
    }

    /// Rows are chosen by what they are, not only by how heavy they are.
    pub fn filters(&self) -> bool {
        !self.family.is_empty() || self.kernel.is_some() || self.phase.is_some()
    }
}

/// On which device.
#[derive(Args, Debug)]
pub struct DeviceArgs {
    /// Where to run: auto (the first GPU, else the emulated MI300X), hip, hip:N or hip:all (real GPUs), emu or emu:MODEL (the same kernels
    /// on an emulated GPU: mi210, mi250x, mi300a, mi300x, mi308x, mi325x, mi350x, mi355x; instructions, bytes, conflicts and a bound on
    /// time instead of times), or host (this CPU runs the references and is timed)
    #[arg(long, default_value_t = DeviceSpec::Auto, value_name = "DEVICE")]
    pub device: DeviceSpec,
    /// Emulate only N workgroups of each launch, spread over the grid; large launches are sampled without it too
    #[arg(long, value_name = "N")]
    pub emu_sample: Option<u64>,
    /// What `fp8` stands for on the host device: ocp (gfx950 and later) or fnuz (gfx942)
    #[arg(long, default_value = "ocp", value_name = "FLAVOR")]
    pub fp8: Fp8Choice,
    /// Make the time after which a stage of a case counts as hung N times as long
    #[arg(long, default_value_t = 1.0, value_name = "N", value_parser = scale)]
    pub watchdog: f64,
}

impl DeviceArgs {
    /// What a device's process is asked for: this device, with these kernels.
    pub fn open(&self, kernels: Option<PathBuf>) -> Open {
        Open::new(&self.device, self.fp8.into(), kernels, self.emu_sample)
    }

    /// The watchdog's limits.
    pub fn limits(&self) -> Limits {
        Limits { scale: self.watchdog, ..Limits::default() }
    }
}
