//! The KFD topology: `/sys/class/kfd/kfd/topology`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::pci::PciAddress;
use crate::root::{Root, number, numbered, text};

/// Nodes of the topology: CPUs and GPUs. Empty without the amdgpu driver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Topology {
    /// By number.
    pub nodes: Vec<Node>,
}

/// One CPU socket or one GPU (one partition of it, when it is partitioned).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Number.
    pub id: u32,
    /// KFD's hash by which it names the GPU; `None` for CPUs.
    pub gpu_id: Option<u64>,
    /// Name, such as `aqua_vanjaram`.
    pub name: Option<String>,
    /// Its properties could not be read: KFD hides GPUs whose render node a container was not given.
    pub hidden: bool,
    /// CPU cores; 0 for a GPU.
    pub cpu_cores: Option<u64>,
    /// Architecture, such as `gfx942`.
    pub arch: Option<String>,
    /// SIMDs.
    pub simds: Option<u64>,
    /// SIMDs of a CU.
    pub simds_per_cu: Option<u64>,
    /// Lanes of a wave.
    pub wave_size: Option<u64>,
    /// Most waves of a SIMD.
    pub max_waves_per_simd: Option<u64>,
    /// LDS of a CU in KiB.
    pub lds_kib: Option<u64>,
    /// XCDs.
    pub xccs: Option<u64>,
    /// Peak engine clock in MHz.
    pub max_engine_clock_mhz: Option<u64>,
    /// Identity; HIP's uuid spells it in hexadecimal.
    pub unique_id: Option<u64>,
    /// PCI address.
    pub pci: Option<PciAddress>,
    /// Its render node is `/dev/dri/renderD` and this number.
    pub render_minor: Option<u32>,
    /// Caches.
    pub caches: Vec<Cache>,
    /// Memory.
    pub memory: Vec<MemoryBank>,
}

/// One kind of cache of a node, as often as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// Level: 1, 2, 3.
    pub level: u64,
    /// Size of one in KiB.
    pub size_kib: u64,
    /// Bytes of a line.
    pub line_bytes: Option<u64>,
    /// KFD's type bits: 1 data, 2 instructions, 4 of a CPU, 8 of a SIMD.
    pub kind: Option<u64>,
    /// How many there are.
    pub count: u64,
}

/// One memory bank of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBank {
    /// KFD's heap type: 0 system, 1 device memory that the host sees, 2 device memory that it does not see.
    pub heap: Option<u64>,
    /// Bytes.
    pub bytes: u64,
    /// Bits of its bus.
    pub bus_bits: Option<u64>,
    /// Peak memory clock in MHz.
    pub max_clock_mhz: Option<u64>,
}

impl Topology {
    /// Reads it.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let nodes = numbered(&root.path("/sys/class/kfd/kfd/topology/nodes"), "");
        Self { nodes: nodes.iter().map(|(id, directory)| Node::read(*id, directory)).collect() }
    }

    /// The nodes that are GPUs.
    pub fn gpus(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.gpu_id.is_some())
    }
}

impl Node {
    fn read(id: u32, directory: &Path) -> Self {
        let properties = Properties::read(&directory.join("properties"));
        let get = |name| properties.as_ref().and_then(|properties| properties.get(name));
        let positive = |name| get(name).filter(|&value| value != 0);
        let small = |name| get(name).and_then(|value| u32::try_from(value).ok());
        let gpu_id = number(&directory.join("gpu_id")).filter(|&id| id != 0);
        let pci = small("location_id")
            .filter(|_| gpu_id.is_some())
            .map(|l| PciAddress::from_location(small("domain").unwrap_or(0), l));
        Self {
            id,
            gpu_id,
            name: text(&directory.join("name")),
            hidden: properties.is_none(),
            cpu_cores: get("cpu_cores_count"),
            arch: positive("gfx_target_version").and_then(arch_of_target_version),
            simds: positive("simd_count"),
            simds_per_cu: positive("simd_per_cu"),
            wave_size: positive("wave_front_size"),
            max_waves_per_simd: positive("max_waves_per_simd"),
            lds_kib: positive("lds_size_in_kb"),
            xccs: positive("num_xcc"),
            max_engine_clock_mhz: positive("max_engine_clk_fcompute"),
            unique_id: positive("unique_id"),
            pci,
            render_minor: small("drm_render_minor").filter(|&minor| minor != 0),
            caches: caches(&directory.join("caches")),
            memory: banks(&directory.join("mem_banks")),
        }
    }

    /// CUs: SIMDs by SIMDs of a CU.
    #[must_use]
    pub fn compute_units(&self) -> Option<u64> {
        self.simds?.checked_div(self.simds_per_cu?)
    }

    /// Bytes of device memory.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.iter().map(|bank| bank.bytes).try_fold(0, u64::checked_add).filter(|&bytes| bytes > 0)
    }
}

/// The name of a target version: `major * 10000 + minor * 100 + stepping`, the last two in hexadecimal.
#[must_use]
pub fn arch_of_target_version(version: u64) -> Option<String> {
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    (major > 0 && major < 100 && minor < 16 && stepping < 16).then(|| format!("gfx{major}{minor:x}{stepping:x}"))
}

/// Lines of a name and a number.
struct Properties(String);

impl Properties {
    fn read(path: &Path) -> Option<Self> {
        text(path).map(Self)
    }

    /// A number by its name; all ones mean that the driver does not know it.
    fn get(&self, name: &str) -> Option<u64> {
        let value = self.0.lines().find_map(|line| {
            let (key, value) = line.split_once(' ')?;
            (key == name).then(|| value.trim().parse::<u64>().ok())?
        });
        value.filter(|&value| value != u64::MAX && value != u64::from(u32::MAX))
    }
}

fn caches(directory: &Path) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for (_, entry) in numbered(directory, "") {
        let Some(properties) = Properties::read(&entry.join("properties")) else { continue };
        let (Some(level), Some(size_kib)) = (properties.get("level"), properties.get("size")) else { continue };
        let cache = Cache {
            level,
            size_kib,
            line_bytes: properties.get("cache_line_size"),
            kind: properties.get("type"),
            count: 1,
        };
        match caches.iter_mut().find(|known| Cache { count: 1, ..**known } == cache) {
            Some(known) => known.count += 1,
            None => caches.push(cache),
        }
    }
    caches.sort();
    caches
}

fn banks(directory: &Path) -> Vec<MemoryBank> {
    let bank = |(_, entry): (u32, std::path::PathBuf)| {
        let properties = Properties::read(&entry.join("properties"))?;
        Some(MemoryBank {
            heap: properties.get("heap_type"),
            bytes: properties.get("size_in_bytes")?,
            bus_bits: properties.get("width").filter(|&width| width != 0),
            max_clock_mhz: properties.get("mem_clk_max").filter(|&clock| clock != 0),
        })
    };
    numbered(directory, "").into_iter().filter_map(bank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_versions_have_the_names_that_compilers_use() {
        // Versions of KFD's source with the names of LLVM's AMDGPU documentation.
        let pairs = [
            (90_010, "gfx90a"),
            (90_402, "gfx942"),
            (90_500, "gfx950"),
            (110_000, "gfx1100"),
            (120_001, "gfx1201"),
            (90_012, "gfx90c"),
        ];
        for (version, name) in pairs {
            assert_eq!(arch_of_target_version(version).as_deref(), Some(name));
        }
        assert_eq!(arch_of_target_version(0), None);
        assert_eq!(arch_of_target_version(u64::MAX), None);
    }

    #[test]
    fn unknown_values_are_absent() {
        let properties =
            Properties("simd_count 1216\nunique_id 18446744073709551615\nwidth 4294967295\nbroken\nname x\n".into());
        assert_eq!(properties.get("simd_count"), Some(1216));
        for name in ["unique_id", "width", "broken", "name", "simd", "count"] {
            assert_eq!(properties.get(name), None, "{name}");
        }
    }
}
