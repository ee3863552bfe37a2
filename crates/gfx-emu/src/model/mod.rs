//! Devices as data: what the public sources say of each AMD Instinct GPU, every figure with its source. A figure that no public
//! source gives is absent, and whatever would need it is absent too.
//!
//! `models/arch-*.toml` hold what all devices of an instruction set share (a CU, the caches of an XCD, rates and costs of
//! instructions), `models/mi*.toml` the devices. A user's own device is read with [`Model::from_toml`].

mod figures;
mod matrix;

pub use figures::{CacheFigures, Figure, FlopRates, Machine, MatrixCost, MatrixCosts, MatrixFigures, Rates, ValuQuads};
pub use matrix::{MatrixInput, MatrixOp};

use crate::isa::Arch;
use crate::launch::{Barriers, Options};
use crate::traffic::{CacheShape, LdsBanks, Shape};
use figures::{ArchFile, DeviceFile};
use std::sync::LazyLock;

/// Why a model cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Not one of ours.
    #[error("there is no device model `{name}`; there are {known}")]
    Unknown {
        /// Asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The text is no model.
    #[error("{what} is no device model: {reason}")]
    Invalid {
        /// Which text.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A device. Of MI250X it is one of the two dies, as a runtime shows it.
#[derive(Clone, Debug)]
pub struct Model {
    /// Short name, such as `mi300x`.
    pub name: String,
    /// Marketing name, such as `AMD Instinct MI300X`.
    pub marketing_name: String,
    /// What it shares with the others of its instruction set.
    pub machine: Machine,
    /// PCI device id.
    pub pci_device_id: Option<Figure<u16>>,
    /// XCDs (accelerator complex dies); MI200 counts as one.
    pub xcds: Figure<u32>,
    /// Active CUs of each.
    pub cus_per_xcd: Figure<u32>,
    /// Peak engine clock, MHz.
    pub clock_mhz: Option<Figure<f64>>,
    /// Device memory, bytes.
    pub hbm_bytes: Option<Figure<u64>>,
    /// Peak memory bandwidth, bytes a second.
    pub hbm_bytes_per_second: Option<Figure<f64>>,
    /// Memory-side cache (Infinity Cache), bytes; absent where there is none.
    pub mall_bytes: Option<Figure<u64>>,
    /// Its peak bandwidth, bytes a second.
    pub mall_bytes_per_second: Option<Figure<f64>>,
    /// What AMD calls maximum achievable FLOPs: dense matrix products, FLOP a second.
    pub max_achievable_flops: Vec<(MatrixInput, Figure<f64>)>,
}

static ARCH_FILES: [(Arch, &str); 3] = [
    (Arch::Gfx90a, include_str!("../../models/arch-gfx90a.toml")),
    (Arch::Gfx942, include_str!("../../models/arch-gfx942.toml")),
    (Arch::Gfx950, include_str!("../../models/arch-gfx950.toml")),
];

static DEVICE_FILES: [&str; 8] = [
    include_str!("../../models/mi210.toml"),
    include_str!("../../models/mi250x.toml"),
    include_str!("../../models/mi300a.toml"),
    include_str!("../../models/mi300x.toml"),
    include_str!("../../models/mi308x.toml"),
    include_str!("../../models/mi325x.toml"),
    include_str!("../../models/mi350x.toml"),
    include_str!("../../models/mi355x.toml"),
];

/// Read once. The files are part of the program and a test reads each, so an error here is a damaged build.
static MODELS: LazyLock<Result<Vec<Model>, ModelError>> =
    LazyLock::new(|| DEVICE_FILES.iter().map(|text| Model::from_toml(text)).collect());

impl Model {
    /// Every model that comes with the program.
    pub fn all() -> &'static [Model] {
        MODELS.as_deref().unwrap_or_default()
    }

    /// A model by its short or marketing name, whatever the case.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn named(name: &str) -> Result<&'static Model, ModelError> {
        let models = MODELS.as_deref().map_err(Clone::clone)?;
        let is_it = |model: &&Model| {
            model.name.eq_ignore_ascii_case(name.trim()) || model.marketing_name.eq_ignore_ascii_case(name.trim())
        };
        models.iter().find(is_it).ok_or_else(|| ModelError::Unknown {
            name: name.to_owned(),
            known: models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// A device of one's own, in the form of `models/mi*.toml`; what its instruction set gives it comes from
    /// `models/arch-*.toml`.
    ///
    /// # Errors
    /// When the text is no TOML, lacks a figure that every device has, or has one that no device can have.
    pub fn from_toml(text: &str) -> Result<Model, ModelError> {
        let invalid = |reason: String| ModelError::Invalid { what: "the text".to_owned(), reason };
        let file: DeviceFile = toml::from_str(text).map_err(|error| invalid(error.to_string().trim().to_owned()))?;
        let arch = Arch::from_name(&file.arch)
            .ok_or_else(|| invalid(format!("the emulator has no `{}`, only gfx90a, gfx942 and gfx950", file.arch)))?;
        arch.check_executed().map_err(|error| invalid(error.to_string()))?;
        file.check().map_err(|reason| ModelError::Invalid { what: format!("`{}`", file.name), reason })?;
        Ok(Model {
            machine: machine(arch)?,
            name: file.name,
            marketing_name: file.marketing_name,
            pci_device_id: file.pci_device_id,
            xcds: file.xcds,
            cus_per_xcd: file.cus_per_xcd,
            clock_mhz: file.clock_mhz,
            hbm_bytes: file.hbm_bytes,
            hbm_bytes_per_second: file.hbm_bytes_per_second,
            mall_bytes: file.mall_bytes,
            mall_bytes_per_second: file.mall_bytes_per_second,
            max_achievable_flops: file.max_achievable_flops.unwrap_or_default().list(),
        })
    }

    /// Instruction set.
    pub fn arch(&self) -> Arch {
        self.machine.arch
    }

    /// CUs of the device.
    pub fn cus(&self) -> u32 {
        self.xcds.value * self.cus_per_xcd.value
    }

    /// Peak engine clock, Hz.
    pub fn clock_hz(&self) -> Option<f64> {
        self.clock_mhz.as_ref().map(|clock| clock.value * 1e6)
    }

    /// Peak dense matrix FLOP a second of an input type (CUs x clock x FLOP a clock and CU); `None` where the device lacks the
    /// type or its clock is not known.
    pub fn peak_matrix_flops(&self, input: MatrixInput) -> Option<f64> {
        let rate = self.machine.flops_per_clock_per_cu.matrix(input)?;
        Some(rate * f64::from(self.cus()) * self.clock_hz()?)
    }

    /// Device memory, bytes; 64 GiB where the figure is not known.
    pub fn memory_bytes(&self) -> u64 {
        self.hbm_bytes.as_ref().map_or(64 << 30, |bytes| bytes.value)
    }

    /// L2 of the device, bytes.
    pub fn l2_bytes(&self) -> u64 {
        u64::from(self.machine.l2.bytes.value) * u64::from(self.xcds.value)
    }

    /// The last cache before memory, bytes: the memory-side cache, or the L2 where there is none.
    pub fn last_level_bytes(&self) -> u64 {
        self.mall_bytes.as_ref().map_or(self.l2_bytes(), |mall| mall.value)
    }

    /// Caches and LDS banks for the traffic model.
    pub fn caches(&self) -> Shape {
        let machine = &self.machine;
        Shape {
            l1: machine.l1.shape(),
            scalar: machine.scalar_cache.shape(),
            l2: machine.l2.shape(),
            banks: machine.lds_banks,
        }
    }

    /// Options to launch kernels on the emulated device: its size, all host threads, no limits, every workgroup.
    pub fn launch_options(&self) -> Options {
        Options {
            arch: self.arch(),
            xcds: self.xcds.value,
            cus_per_xcd: self.cus_per_xcd.value,
            lds_per_cu: self.machine.lds_bytes_per_cu.value,
            caches: self.caches(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            instruction_limit: u64::MAX,
            time_limit: None,
            sample: None,
            barriers: Barriers::default(),
            lds_races: false,
            poison: None,
            level: None,
            trace: None,
        }
    }
}

/// What the devices of an instruction set share.
fn machine(arch: Arch) -> Result<Machine, ModelError> {
    let text = ARCH_FILES.iter().find(|(of, _)| *of == arch).map_or("", |(_, text)| text);
    let invalid = |reason: String| ModelError::Invalid { what: format!("models/arch-{}.toml", arch.name()), reason };
    let file: ArchFile = toml::from_str(text).map_err(|error| invalid(error.to_string().trim().to_owned()))?;
    Machine::from_file(arch, file).map_err(invalid)
}

impl CacheFigures {
    fn shape(&self) -> CacheShape {
        CacheShape { bytes: self.bytes.value, line: self.line_bytes.value, ways: self.ways.value }
    }
}

/// The traffic model's name of an LDS organisation.
fn banks(name: &str) -> Option<LdsBanks> {
    match name {
        "cdna3" => Some(LdsBanks::Cdna3),
        "cdna4" => Some(LdsBanks::Cdna4),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
