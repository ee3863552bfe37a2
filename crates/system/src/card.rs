//! AMD cards in `/sys/class/drm`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::metrics::GpuMetrics;
use crate::pci::PciAddress;
use crate::root::{Root, hexadecimal, number, numbered, text};

const AMD: u64 = 0x1002;

/// One card: what does not change while it runs, and what it was at the moment of reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Its number in `/dev/dri/card`.
    pub number: u32,
    /// PCI address.
    pub pci: PciAddress,
    /// PCI device identity.
    pub device_id: Option<u64>,
    /// PCI revision.
    pub revision: Option<u64>,
    /// Kernel driver.
    pub driver: Option<String>,
    /// Product name that the board carries.
    pub product_name: Option<String>,
    /// Identity, as KFD has it.
    pub unique_id: Option<u64>,
    /// VBIOS version.
    pub vbios: Option<String>,
    /// NUMA node of its slot; `None` when the machine has none.
    pub numa_node: Option<u32>,
    /// Its render node is `/dev/dri/renderD` and this number.
    pub render_minor: Option<u32>,
    /// PCIe link.
    pub link: PcieLink,
    /// Device memory in bytes.
    pub vram_total_bytes: Option<u64>,
    /// Device memory in use in bytes.
    pub vram_used_bytes: Option<u64>,
    /// How its XCDs are partitioned, such as `SPX` or `CPX`.
    pub compute_partition: Option<String>,
    /// How its memory is partitioned, such as `NPS1`.
    pub memory_partition: Option<String>,
    /// `auto`, `high`, `profile_standard`, ...
    pub performance_level: Option<String>,
    /// Power limit, W.
    pub power_cap_w: Option<f64>,
    /// Engine clocks.
    pub engine_clock: Option<DpmClocks>,
    /// Memory clocks.
    pub memory_clock: Option<DpmClocks>,
    /// Share of time in which the shaders were busy, %.
    pub busy_percent: Option<u32>,
    /// The firmware's table, when it is one that can be read.
    pub metrics: Option<GpuMetrics>,
}

/// Clock levels of `pp_dpm_*`, MHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DpmClocks {
    /// Level in use.
    pub current_mhz: Option<u32>,
    /// Slowest level.
    pub min_mhz: u32,
    /// Fastest level.
    pub max_mhz: u32,
}

/// A PCIe link, as it is and as it could be.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PcieLink {
    /// GT/s a lane.
    pub speed_gts: Option<f64>,
    /// Lanes.
    pub width: Option<u32>,
    /// Most GT/s a lane.
    pub max_speed_gts: Option<f64>,
    /// Most lanes.
    pub max_width: Option<u32>,
}

impl Card {
    /// Every AMD card, by number.
    #[must_use]
    pub fn all(root: &Root) -> Vec<Self> {
        let cards = numbered(&root.path("/sys/class/drm"), "card");
        cards.iter().filter_map(|(number, directory)| Self::read(*number, &directory.join("device"))).collect()
    }

    /// The sysfs directory of the card at a PCI address. HIP gives partitions of one GPU different functions, while there is one card: function 0.
    pub(crate) fn directory(root: &Root, pci: PciAddress) -> Option<PathBuf> {
        let devices: Vec<PathBuf> =
            numbered(&root.path("/sys/class/drm"), "card").into_iter().map(|(_, card)| card.join("device")).collect();
        let at = |pci: PciAddress| devices.iter().find(|device| pci_of(device) == Some(pci)).cloned();
        at(pci).or_else(|| at(PciAddress { function: 0, ..pci }))
    }

    fn read(card: u32, device: &Path) -> Option<Self> {
        if hexadecimal(&device.join("vendor")) != Some(AMD) {
            return None;
        }
        let pci = pci_of(device)?;
        let speed = |name: &str| {
            text(&device.join(name))?.split_whitespace().next()?.parse().ok().filter(|s: &f64| s.is_finite())
        };
        let hwmon = hwmon(device);
        let cap = hwmon.as_ref().and_then(|hwmon| number::<u64>(&hwmon.join("power1_cap")));
        Some(Self {
            number: card,
            pci,
            device_id: hexadecimal(&device.join("device")),
            revision: hexadecimal(&device.join("revision")),
            driver: uevent(device, "DRIVER"),
            product_name: text(&device.join("product_name")),
            unique_id: hexadecimal(&device.join("unique_id")).filter(|&id| id != 0 && id != u64::MAX),
            vbios: text(&device.join("vbios_version")),
            // -1 for machines without NUMA, which is no number of a node.
            numa_node: number(&device.join("numa_node")),
            render_minor: numbered(&device.join("drm"), "renderD").first().map(|(minor, _)| *minor),
            link: PcieLink {
                speed_gts: speed("current_link_speed"),
                width: number(&device.join("current_link_width")).filter(|&width| width != 0),
                max_speed_gts: speed("max_link_speed"),
                max_width: number(&device.join("max_link_width")).filter(|&width| width != 0 && width != 255),
            },
            vram_total_bytes: number(&device.join("mem_info_vram_total")),
            vram_used_bytes: number(&device.join("mem_info_vram_used")),
            compute_partition: text(&device.join("current_compute_partition")),
            memory_partition: text(&device.join("current_memory_partition")),
            performance_level: text(&device.join("power_dpm_force_performance_level")),
            power_cap_w: cap.filter(|&cap| cap != 0).map(|microwatts| microwatts as f64 / 1e6),
            engine_clock: text(&device.join("pp_dpm_sclk")).and_then(|levels| DpmClocks::parse(&levels)),
            memory_clock: text(&device.join("pp_dpm_mclk")).and_then(|levels| DpmClocks::parse(&levels)),
            busy_percent: number(&device.join("gpu_busy_percent")),
            metrics: read_metrics(&device.join("gpu_metrics")),
        })
    }
}

fn read_metrics(path: &Path) -> Option<GpuMetrics> {
    use std::io::Read as _;
    let mut table = Vec::new();
    std::fs::File::open(path).ok()?.take(8192).read_to_end(&mut table).ok()?;
    GpuMetrics::parse(&table).ok()
}

/// The directory of a card's sensors.
pub(crate) fn hwmon(device: &Path) -> Option<PathBuf> {
    numbered(&device.join("hwmon"), "hwmon").into_iter().next().map(|(_, directory)| directory)
}

/// A line of a device's `uevent`.
fn uevent(device: &Path, name: &str) -> Option<String> {
    let lines = text(&device.join("uevent"))?;
    lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// The PCI address of a device; partitions beyond the first are platform devices without one.
fn pci_of(device: &Path) -> Option<PciAddress> {
    uevent(device, "PCI_SLOT_NAME")?.parse().ok()
}

impl DpmClocks {
    /// Reads the levels of `pp_dpm_sclk` and its like: lines such as `1: 2100Mhz *`, the star at the level in use. A level `S` is sleep, and counts only as the one in use.
    #[must_use]
    pub fn parse(levels: &str) -> Option<Self> {
        let mut clocks: Option<Self> = None;
        let mut current = None;
        for line in levels.lines() {
            let Some((level, clock)) = line.trim().split_once(':') else { continue };
            let used = clock.trim_end().ends_with('*');
            let Some(mhz) = megahertz(clock.trim_end().trim_end_matches('*')) else { continue };
            if used {
                current = Some(mhz);
            }
            if level.bytes().all(|b| b.is_ascii_digit()) {
                let known = clocks.get_or_insert(Self { current_mhz: None, min_mhz: mhz, max_mhz: mhz });
                (known.min_mhz, known.max_mhz) = (known.min_mhz.min(mhz), known.max_mhz.max(mhz));
            }
        }
        clocks.map(|clocks| Self { current_mhz: current, ..clocks })
    }
}

/// `2100Mhz`, as the driver writes it.
fn megahertz(text: &str) -> Option<u32> {
    let text = text.trim();
    let digits = text.get(..text.len().checked_sub(3)?)?;
    let unit = text.get(digits.len()..)?;
    if unit.eq_ignore_ascii_case("mhz") { digits.trim_end().parse().ok() } else { None }
}

/// The clock of the level in use in `pp_dpm_*`.
pub(crate) fn current_megahertz(levels: &[u8]) -> Option<u32> {
    let levels = std::str::from_utf8(levels).ok()?;
    let used = levels.lines().find_map(|line| line.trim_end().strip_suffix('*'))?;
    megahertz(used.split_once(':')?.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clock_levels_are_read_as_amdgpu_writes_them() {
        let mi300x = DpmClocks::parse("0: 132Mhz *\n1: 2100Mhz\n").unwrap();
        assert_eq!(mi300x, DpmClocks { current_mhz: Some(132), min_mhz: 132, max_mhz: 2100 });
        let memory = DpmClocks::parse("0: 900Mhz\n1: 1100Mhz\n2: 1200Mhz\n3: 1300Mhz *").unwrap();
        assert_eq!(memory, DpmClocks { current_mhz: Some(1300), min_mhz: 900, max_mhz: 1300 });
        let asleep = DpmClocks::parse("S: 19Mhz *\n0: 500Mhz\n1: 1700Mhz\n").unwrap();
        assert_eq!(asleep, DpmClocks { current_mhz: Some(19), min_mhz: 500, max_mhz: 1700 });
        assert_eq!(DpmClocks::parse("0: 500Mhz\n").unwrap().current_mhz, None, "no level is marked");
        for nothing in ["", "off", "0: fast *", "0:", ": *", "0: Mhz *", "0: é*"] {
            assert_eq!(DpmClocks::parse(nothing), None, "{nothing:?}");
        }
        assert_eq!(current_megahertz(b"0: 132Mhz\n1: 2100Mhz *\n"), Some(2100));
        assert_eq!(current_megahertz(b"0: 132Mhz\n"), None);
    }

    proptest! {
        #[test]
        fn no_levels_panic(text in "([0-9S:]{0,3} ?[0-9]{0,12}(Mhz|é)? ?\\*?\n?){0,4}\\PC{0,10}") {
            let clocks = DpmClocks::parse(&text);
            let _either = current_megahertz(text.as_bytes());
            if let Some(clocks) = clocks {
                prop_assert!(clocks.min_mhz <= clocks.max_mhz);
            }
        }
    }
}
