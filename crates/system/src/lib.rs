//! What this machine says about its GPUs without a driver call.
//!
//! Reads sysfs, procfs and the environment: the KFD topology, DRM cards with their clocks, power, temperatures and throttling, permissions of device nodes,
//! libraries loaded twice, attached profilers and emulators, device compilers. [`Telemetry`] reads one card's changing figures cheaply, and
//! [`Sampler`] does so in the background.
//!
//! All of it is data that can be serialised. What cannot be read is `None`, never 0, and so are the all-ones values by which drivers say "unknown". Every
//! path is taken below a [`Root`], so that tests read a tree of their own. This crate writes nothing, opens no device for use, and never guesses.

mod access;
mod card;
mod compilers;
mod environment;
mod kfd;
mod libraries;
mod metrics;
mod pci;
mod process;
mod root;
mod sampler;
mod telemetry;
mod throttle;

pub use access::{Access, Capabilities, DeviceNode, Group, Permissions};
pub use card::{Card, DpmClocks, PcieLink};
pub use compilers::{CompilerFile, compilers};
pub use environment::{Attachment, AttachmentKind, Environment, RECORDED_VARIABLES, Variable};
pub use kfd::{Cache, MemoryBank, Node, Topology, arch_of_target_version};
pub use libraries::{InstalledLibrary, installed_libraries};
pub use metrics::{GpuMetrics, MetricsError};
pub use pci::{PciAddress, PciAddressError};
pub use process::{Container, Duplicate, MappedLibrary, Software, mapped_libraries};
pub use root::Root;
pub use sampler::{Range, Sampler, Summary};
pub use telemetry::{Reading, Telemetry, TelemetryError};
pub use throttle::{ThrottleReason, ThrottleReasons, ThrottleResidency};

use serde::Serialize;

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct System {
    /// Kernel, driver and ROCm.
    pub software: Software,
    /// What KFD knows of CPUs and GPUs.
    pub topology: Topology,
    /// AMD cards, by number.
    pub cards: Vec<Card>,
    /// What this process may do.
    pub permissions: Permissions,
    /// Signs of a container; empty outside one.
    pub container: Container,
    /// GPU libraries that are installed, and those that are not.
    pub installed: Vec<InstalledLibrary>,
    /// GPU libraries in this process.
    pub libraries: Vec<MappedLibrary>,
    /// Libraries of which this process has more than one file.
    pub duplicates: Vec<Duplicate>,
    /// Variables that matter, and what they attach.
    pub environment: Environment,
    /// Device compilers.
    pub compilers: Vec<CompilerFile>,
}

impl System {
    /// Reads all of it below `root`, with the variables of `environment`.
    #[must_use]
    pub fn read(root: &Root, environment: Environment, variables: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let libraries = mapped_libraries(root);
        Self {
            software: Software::read(root),
            topology: Topology::read(root),
            cards: Card::all(root),
            permissions: Permissions::read(root),
            container: Container::read(root, variables),
            installed: installed_libraries(root, variables),
            duplicates: Duplicate::among(&libraries),
            libraries,
            environment,
            compilers: compilers(root, variables),
        }
    }

    /// Reads all of it from this machine and this process.
    #[must_use]
    pub fn current() -> Self {
        Self::read(&Root::system(), Environment::current(), &|name| std::env::var_os(name))
    }
}
