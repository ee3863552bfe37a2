//! The changing figures of one card, read cheaply: files stay open, nothing is allocated.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use crate::card::{Card, current_megahertz, hwmon};
use crate::metrics::GpuMetrics;
use crate::pci::PciAddress;
use crate::root::{Root, text};
use crate::throttle::{ThrottleReasons, ThrottleResidency};

/// The longest `gpu_metrics` table is 3360 bytes; sysfs gives at most a page.
const BUFFER: usize = 4096;

/// Reads one card.
#[derive(Debug)]
pub struct Telemetry {
    pci: PciAddress,
    metrics: Option<File>,
    engine_clock: Option<File>,
    memory_clock: Option<File>,
    busy: Option<File>,
    power: Option<File>,
    hotspot: Option<File>,
    memory_temperature: Option<File>,
    /// Counters of the reading before, to which the next one's are compared.
    residency: Option<ThrottleResidency>,
    /// What held the GPU back when the counters last moved.
    throttle: Option<ThrottleReasons>,
}

/// A card's figures at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// When it was read.
    pub at: Instant,
    /// Engine clock, MHz: the slowest XCD's where each has its own.
    pub engine_clock_mhz: Option<u32>,
    /// Memory clock, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Power, W.
    pub power_w: Option<f64>,
    /// Temperature of the hottest spot, °C.
    pub hotspot_c: Option<f64>,
    /// Temperature of the memory, °C.
    pub memory_c: Option<f64>,
    /// Share of time in which the shaders were busy, %.
    pub busy_percent: Option<u32>,
    /// What held the GPU back: now, or since the reading before, as its firmware tells.
    pub throttle: Option<ThrottleReasons>,
}

/// A card that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TelemetryError {
    /// There is no card with this address.
    #[error(
        "no card in /sys/class/drm has the PCI address {0}: clocks, power and temperatures cannot be read (containers need /sys mounted)"
    )]
    NoCard(PciAddress),
    /// The card has none of the files.
    #[error("the card at {0} has no gpu_metrics, clocks or sensors that can be read")]
    NothingToRead(PciAddress),
}

impl Telemetry {
    /// Opens what the card at a PCI address has.
    ///
    /// # Errors
    /// [`TelemetryError`] when there is no such card, or nothing of it can be read.
    pub fn open(root: &Root, pci: PciAddress) -> Result<Self, TelemetryError> {
        let device = Card::directory(root, pci).ok_or(TelemetryError::NoCard(pci))?;
        let open = |name: &str| File::open(device.join(name)).ok();
        let hwmon = hwmon(&device);
        let sensor = |names: &[&str]| {
            hwmon.as_ref().and_then(|hwmon| names.iter().find_map(|name| File::open(hwmon.join(name)).ok()))
        };
        let temperature = |labels: &[&str]| hwmon.as_ref().and_then(|hwmon| temperature_sensor(hwmon, labels));
        let telemetry = Self {
            pci,
            metrics: open("gpu_metrics"),
            engine_clock: open("pp_dpm_sclk"),
            memory_clock: open("pp_dpm_mclk"),
            busy: open("gpu_busy_percent"),
            power: sensor(&["power1_average", "power1_input"]),
            hotspot: temperature(&["junction", "edge"]),
            memory_temperature: temperature(&["mem"]),
            residency: None,
            throttle: None,
        };
        let first = telemetry.figures(&mut [0; BUFFER], Instant::now()).0;
        if first == Reading::empty(first.at) { Err(TelemetryError::NothingToRead(pci)) } else { Ok(telemetry) }
    }

    /// The card's PCI address.
    #[must_use]
    pub fn pci(&self) -> PciAddress {
        self.pci
    }

    /// Reads it now.
    pub fn read(&mut self) -> Reading {
        let (mut reading, residency) = self.figures(&mut [0; BUFFER], Instant::now());
        if let Some(now) = residency {
            match self.residency.map(|before| now.reasons_since(&before)) {
                Some(Some(reasons)) => (self.throttle, self.residency) = (Some(reasons), Some(now)),
                // The firmware has not renewed the table: what it said last still stands.
                Some(None) => {}
                None => self.residency = Some(now),
            }
            reading.throttle = self.throttle;
        }
        reading
    }

    /// The figures, from the firmware's table first: it is one read, and taken at one moment.
    fn figures(&self, buffer: &mut [u8; BUFFER], at: Instant) -> (Reading, Option<ThrottleResidency>) {
        let mut reading = Reading::empty(at);
        let table = self.metrics.as_ref().and_then(|file| contents(file, buffer));
        let metrics = table.and_then(|table| GpuMetrics::parse(table).ok());
        if let Some(metrics) = &metrics {
            reading.engine_clock_mhz = metrics.slowest_engine_clock_mhz().map(u32::from);
            reading.memory_clock_mhz = metrics.memory_clock_mhz.filter(|&clock| clock != 0).map(u32::from);
            reading.power_w = metrics.power_w.filter(|&power| power != 0).map(f64::from);
            reading.hotspot_c = metrics.hotspot_c.filter(|&hotspot| hotspot != 0).map(f64::from);
            reading.memory_c = metrics.memory_c.filter(|&memory| memory != 0).map(f64::from);
            reading.busy_percent = metrics.busy_percent.filter(|&busy| busy <= 100).map(u32::from);
            reading.throttle = metrics.throttle;
        }
        let residency = metrics.and_then(|metrics| metrics.residency);
        let mut clock = |known: &mut Option<u32>, file: &Option<File>| {
            if known.is_none() {
                *known = file.as_ref().and_then(|file| contents(file, buffer)).and_then(current_megahertz);
            }
        };
        clock(&mut reading.engine_clock_mhz, &self.engine_clock);
        clock(&mut reading.memory_clock_mhz, &self.memory_clock);
        if reading.busy_percent.is_none() {
            let busy = self.busy.as_ref().and_then(|file| whole(file, buffer));
            reading.busy_percent = busy.and_then(|busy| u32::try_from(busy).ok()).filter(|&busy| busy <= 100);
        }
        let mut scaled = |known: &mut Option<f64>, file: &Option<File>, unit: f64| {
            if known.is_none() {
                *known = file.as_ref().and_then(|file| whole(file, buffer)).map(|value| value as f64 / unit);
            }
        };
        // hwmon counts power in microwatts and temperatures in thousandths of a degree.
        scaled(&mut reading.power_w, &self.power, 1e6);
        scaled(&mut reading.hotspot_c, &self.hotspot, 1e3);
        scaled(&mut reading.memory_c, &self.memory_temperature, 1e3);
        (reading, residency)
    }
}

impl Reading {
    /// Nothing is known.
    fn empty(at: Instant) -> Self {
        Self {
            at,
            engine_clock_mhz: None,
            memory_clock_mhz: None,
            power_w: None,
            hotspot_c: None,
            memory_c: None,
            busy_percent: None,
            throttle: None,
        }
    }
}

/// The sensor whose label is the first of `labels` that there is.
fn temperature_sensor(hwmon: &Path, labels: &[&str]) -> Option<File> {
    labels.iter().find_map(|label| {
        // A chip has a handful of sensors; they are numbered from 1.
        let labelled = |index: &u32| text(&hwmon.join(format!("temp{index}_label"))).as_deref() == Some(label);
        let index = (1..=16).find(labelled)?;
        File::open(hwmon.join(format!("temp{index}_input"))).ok()
    })
}

/// What a sysfs file says now: reading from its begin renews it.
fn contents<'a>(file: &File, buffer: &'a mut [u8; BUFFER]) -> Option<&'a [u8]> {
    let length = file.read_at(buffer, 0).ok()?;
    buffer.get(..length)
}

/// A whole number in a sysfs file.
fn whole(file: &File, buffer: &mut [u8; BUFFER]) -> Option<i64> {
    std::str::from_utf8(contents(file, buffer)?).ok()?.trim().parse().ok()
}
