//! Whether and how the cases of a device's process are counted.

use super::profiler::{CaseCounters, CaseFacts, Profiler, ProfilerError};
use super::request::{Request, Survey, Surveyed};
use crate::device::{Device, DeviceSpec, Kind as DeviceKind, Prepared};
use kbench_counters::metric::Kind;
use rocprofiler_sdk_sys::{OpenError, OpenOptions, Sdk};
use std::path::Path;

/// The driver's interface: without it there is no GPU, whatever libraries are there.
const KFD: &str = "/dev/kfd";
/// A library that is to be taken for HIP.
const HIP_VARIABLE: &str = "KBENCH_HIP_LIB";

/// Counting in this process.
pub enum Counting {
    /// Nothing was asked for.
    Off,
    /// The profiler.
    Ready(Box<Profiler>),
    /// It cannot be had; each case says why. Times are not lost because of counters.
    Failed(NotCounted),
}

/// Why nothing is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCounted {
    /// One paragraph.
    pub reason: String,
    /// True for a mistake of the user, not a failure of device or SDK.
    pub is_usage: bool,
}

impl From<ProfilerError> for NotCounted {
    fn from(error: ProfilerError) -> Self {
        Self { reason: error.to_string(), is_usage: error.is_usage() }
    }
}

impl NotCounted {
    /// The host's CPU has no counters here.
    pub fn host() -> Self {
        let reason = "the host's CPU is not counted: --device hip or emu has counters".to_owned();
        Self { reason, is_usage: true }
    }

    fn no_address() -> Self {
        let reason = "the device does not tell its PCI address, by which rocprofiler-sdk would know it".to_owned();
        Self { reason, is_usage: false }
    }
}

impl Counting {
    /// Configures the profiler. Before the device is opened: HIP tells a profiler that comes later of nothing.
    pub fn configure(request: Option<Request>, spec: &DeviceSpec) -> Self {
        let Some(request) = request else { return Counting::Off };
        if *spec == DeviceSpec::Host {
            return Counting::Failed(NotCounted::host());
        }
        let profiler = sdk_of(spec).and_then(|sdk| Profiler::configure(sdk, request));
        match profiler {
            Ok(profiler) => Counting::Ready(Box::new(profiler)),
            Err(error) => Counting::Failed(error.into()),
        }
    }

    /// Finds the device that has been opened, and plans.
    pub fn attach(&mut self, device: &dyn Device) {
        if let Counting::Ready(profiler) = self {
            let is_emulated = device.info().kind == DeviceKind::Emu;
            let attached = match device.pci() {
                Some(pci) => profiler.attach(&pci, &device.info().arch, is_emulated).map_err(NotCounted::from),
                None => Err(NotCounted::no_address()),
            };
            if let Err(why) = attached {
                *self = Counting::Failed(why);
            }
        }
    }

    /// Says what the device that has been opened can count, and plans requests; nothing is counted.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub fn survey(&self, device: &dyn Device, survey: &Survey) -> Result<Surveyed, NotCounted> {
        match self {
            Counting::Off => Err(NotCounted { reason: "no profiler was asked for".to_owned(), is_usage: false }),
            Counting::Failed(why) => Err(why.clone()),
            Counting::Ready(profiler) => {
                let pci = device.pci().ok_or_else(NotCounted::no_address)?;
                Ok(profiler.survey(&pci, &device.info().arch, survey)?)
            }
        }
    }

    /// Why nothing can be counted in this process, when that is known.
    pub fn failure(&self) -> Option<&NotCounted> {
        match self {
            Counting::Failed(why) => Some(why),
            Counting::Off | Counting::Ready(_) => None,
        }
    }

    /// True when cases are counted and not timed.
    pub fn is_all(&self) -> bool {
        matches!(self, Counting::Ready(profiler) if profiler.request().only_count)
    }

    /// Counts a case that has been verified; `None` when nothing was asked for. `replaying` is told before each replay which pass of how
    /// many it is of.
    pub fn count(
        &mut self,
        prepared: &mut dyn Prepared,
        facts: &CaseFacts,
        kind: &dyn Fn(&str) -> Kind,
        replaying: &mut dyn FnMut(usize, usize),
    ) -> Option<Result<CaseCounters, String>> {
        match self {
            Counting::Off => None,
            Counting::Failed(why) => Some(Err(why.reason.clone())),
            Counting::Ready(profiler) => {
                Some(profiler.collect(prepared, facts, kind, replaying).map_err(|error| error.to_string()))
            }
        }
    }
}

/// The emulated GPU's, whose functions are in this program.
#[allow(unsafe_code)]
fn emulated_sdk() -> Result<Sdk, OpenError> {
    // SAFETY: the table's functions are the SDK's by name, with the types of its headers: its own tests call them from C.
    unsafe { Sdk::from_symbols("the emulated rocprofiler-sdk", kbench_rocm_emu::sdk::symbol, OpenOptions::default()) }
}

/// The SDK that belongs to the HIP of a device: the emulated one to the emulated GPU, in this process; else the system's.
fn sdk_of(spec: &DeviceSpec) -> Result<Sdk, ProfilerError> {
    let emulated = match spec {
        DeviceSpec::Emu(_) => true,
        DeviceSpec::Auto => std::env::var_os(HIP_VARIABLE).is_none() && !Path::new(KFD).exists(),
        _ => false,
    };
    let sdk = if emulated { emulated_sdk() } else { Sdk::open() };
    Ok(sdk?)
}
