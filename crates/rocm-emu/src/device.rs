//! Devices: how many, what they are, and the properties and attributes that HIP gives of them.

#![allow(unsafe_code)]

use crate::error::{HipError, Result};
use crate::memory;
use crate::state::{self, machine, runtime};
use crate::{put, put_text, stream};
use kbench_gfx_emu::isa::Arch;
use kbench_gfx_emu::model::Model;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The HIP version that the runtime says it is, major x 10^7 + minor x 10^5 + patch: 7.2.
pub(crate) const HIP_VERSION: c_int = 70_253_211;
/// Work-items of the largest workgroup.
pub(crate) const MAX_BLOCK: u32 = 1024;
/// Frequency of `s_memrealtime`, kHz (CDNA: 100 MHz).
const WALL_CLOCK_KHZ: c_int = 100_000;

/// A device as HIP shows it.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Marketing name.
    pub name: String,
    /// `gfx942:sramecc+:xnack-`.
    pub arch: String,
    /// The KFD's unique id; its 16 hexadecimal digits are the UUID.
    pub unique_id: u64,
    /// PCI bus; domain, device and function are 0.
    pub pci_bus: u32,
    /// PCI device id; 0 when it is not known.
    pub pci_device_id: u16,
    /// Compute units.
    pub cus: u32,
    /// XCDs.
    pub xccs: u32,
    /// Peak engine clock, kHz; 0 when it is not known.
    pub clock_khz: u32,
    /// Memory clock, kHz; 0 when it is not known.
    pub memory_clock_khz: u32,
    /// Memory bus, bits.
    pub memory_bus_bits: u32,
    /// Device memory, bytes.
    pub memory_bytes: u64,
    /// L2 of an XCD, bytes.
    pub l2_bytes: u32,
    /// LDS of a CU, bytes: also the most of a workgroup.
    pub lds_bytes: u32,
    /// Waves of a CU.
    pub waves_per_cu: u32,
    /// 32-bit vector registers of a CU.
    pub registers_per_cu: u32,
    /// Instruction set version: `[9, 4, 2]` of gfx942.
    pub version: [u32; 3],
}

impl DeviceInfo {
    /// Device `index` of a model.
    pub(crate) fn of(index: usize, model: &Model, memory_bytes: u64) -> Self {
        let machine = &model.machine;
        let index = index as u32;
        let version = match model.arch() {
            Arch::Gfx90a => [9, 0, 10],
            Arch::Gfx942 => [9, 4, 2],
            Arch::Gfx950 => [9, 5, 0],
            Arch::Gfx1100 => [11, 0, 0],
        };
        // HBM2e: 4096 bits a die, two transfers a clock. HBM3 and 3E: 8192 bits, four. Clocks are whole steps of 100 MHz.
        let (memory_bus_bits, transfers) = if model.arch() == Arch::Gfx90a { (4096, 2.0) } else { (8192, 4.0) };
        let memory_clock = model.hbm_bytes_per_second.as_ref().map_or(0.0, |rate| {
            let hertz = rate.value * 8.0 / f64::from(memory_bus_bits) / transfers;
            (hertz / 1e8).round() * 1e5
        });
        let pci_device_id = model.pci_device_id.as_ref().map_or(0, |id| id.value);
        let simds = machine.simds_per_cu.value;
        Self {
            name: model.marketing_name.clone(),
            arch: format!("{}:sramecc+:xnack-", model.arch().name()),
            unique_id: 0xe000_0000_0000_0000 | u64::from(pci_device_id) << 32 | u64::from(index + 1),
            pci_bus: 3 + index * 0x10,
            pci_device_id,
            cus: model.cus(),
            xccs: model.xcds.value,
            clock_khz: model.clock_mhz.as_ref().map_or(0, |clock| (clock.value * 1e3) as u32),
            memory_clock_khz: memory_clock as u32,
            memory_bus_bits,
            memory_bytes,
            l2_bytes: machine.l2.bytes.value,
            lds_bytes: machine.lds_bytes_per_cu.value,
            waves_per_cu: simds * machine.waves_per_simd.value,
            // 512 registers of 64 lanes on each SIMD (CDNA 2 and later, both halves of the unified file).
            registers_per_cu: simds * 512 * 64,
            version,
        }
    }

    /// `0000:03:00.0`.
    pub fn pci_text(&self) -> String {
        format!("0000:{:02x}:00.0", self.pci_bus)
    }

    /// An attribute by its number in HIP 7; `None` when there is no such attribute.
    fn attribute(&self, id: c_int) -> Option<c_int> {
        let threads = self.waves_per_cu * 64;
        let value = match id {
            // EccEnabled, CanMapHostMemory, ConcurrentKernels, CooperativeLaunch, ManagedMemory, UnifiedAddressing, IsLargeBar
            0 | 3 | 8 | 10 | 24 | 85 | 10011 => 1,
            // ComputeMode, ConcurrentManagedAccess, CooperativeMultiDeviceLaunch, Integrated, KernelExecTimeout, IsMultiGpuBoard, PageableMemoryAccess,
            // PciDeviceId (the slot), PciDomainID, MemoryPoolsSupported, HostNumaId, AsicRevision, CanUseStreamWaitValue, ImageSupport
            6 | 9 | 11 | 16..=18 | 65 | 68 | 69 | 88 | 92 | 10012..=10014 => 0,
            5 => self.clock_khz as c_int,
            19 => self.l2_bytes as c_int,
            23 => self.version[0] as c_int,
            61 => self.version[1] as c_int,
            25 => (self.waves_per_cu) as c_int,
            26..=28 | 56 => MAX_BLOCK as c_int,
            29 => c_int::MAX,
            30 | 31 => 65536,
            57 => threads as c_int,
            58 | 83 => c_int::MAX,
            59 => self.memory_bus_bits as c_int,
            60 => self.memory_clock_khz as c_int,
            63 | 10015 => self.cus as c_int,
            67 => self.pci_bus as c_int,
            71 | 72 => self.registers_per_cu as c_int,
            74..=76 | 10002 => self.lds_bytes as c_int,
            84 => c_int::try_from(self.memory_bytes).unwrap_or(c_int::MAX),
            87 => 64,
            10000 | 10017 => WALL_CLOCK_KHZ,
            10016 => 1,
            10018 => self.xccs as c_int,
            10019 => 512,
            10020 => self.pci_device_id.into(),
            _ => return None,
        };
        Some(value)
    }

    /// The properties as HIP 6 and later lay them out (`hipDeviceProp_tR0600`).
    fn properties(&self) -> Properties<1472> {
        let mut p = Properties([0; 1472]);
        p.text(0, &self.name);
        p.bytes(256, format!("{:016x}", self.unique_id).as_bytes());
        p.u64(288, self.memory_bytes);
        p.u64(296, self.lds_bytes.into());
        p.u32s(304, &[self.registers_per_cu, 64]);
        p.u64(312, i32::MAX as u64);
        p.u32s(320, &[MAX_BLOCK, MAX_BLOCK, MAX_BLOCK, MAX_BLOCK, i32::MAX as u32, 65536, 65536, self.clock_khz]);
        p.u64(352, i32::MAX as u64);
        p.u32s(360, &self.version[..2]);
        p.u32s(388, &[self.cus]);
        p.u32s(576, &[1, 1, self.pci_bus, 0, 0]);
        p.u32s(608, &[self.memory_clock_khz, self.memory_bus_bits, self.l2_bytes]);
        p.u32s(624, &[self.waves_per_cu * 64]);
        p.u64(640, self.lds_bytes.into());
        p.u32s(648, &[self.registers_per_cu, 1]);
        p.u32s(688, &[1]);
        p.u64(696, self.lds_bytes.into());
        p.u32s(712, &[self.waves_per_cu]);
        p.text(1160, &self.arch);
        p.u64(1416, self.lds_bytes.into());
        p.u32s(1424, &[WALL_CLOCK_KHZ as u32]);
        p.u32s(1464, &[1]);
        p
    }

    /// The properties as HIP 5 laid them out.
    fn old_properties(&self) -> Properties<792> {
        let mut p = Properties([0; 792]);
        p.text(0, &self.name);
        p.u64(256, self.memory_bytes);
        p.u64(264, self.lds_bytes.into());
        p.u32s(
            272,
            &[self.registers_per_cu, 64, MAX_BLOCK, MAX_BLOCK, MAX_BLOCK, MAX_BLOCK, i32::MAX as u32, 65536, 65536],
        );
        p.u32s(308, &[self.clock_khz, self.memory_clock_khz, self.memory_bus_bits]);
        p.u64(320, i32::MAX as u64);
        p.u32s(
            328,
            &[
                self.version[0],
                self.version[1],
                self.cus,
                self.l2_bytes,
                self.waves_per_cu * 64,
                0,
                WALL_CLOCK_KHZ as u32,
            ],
        );
        p.u32s(360, &[1, 0, self.pci_bus, 0]);
        p.u64(376, self.lds_bytes.into());
        p.u32s(388, &[1, self.version[0] * 100 + self.version[1] * 10 + self.version[2]]);
        p.text(396, &self.arch);
        p.u32s(656, &[1]);
        p.u64(712, i32::MAX as u64);
        p.u32s(740, &[1]);
        p.u32s(764, &[1, 0, 1]);
        p
    }
}

/// A structure under construction; fields that are not set are 0.
struct Properties<const N: usize>([u8; N]);

impl<const N: usize> Properties<N> {
    fn bytes(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// A string in a field of 256 bytes.
    fn text(&mut self, offset: usize, text: &str) {
        self.bytes(offset, text.as_bytes().get(..255).unwrap_or(text.as_bytes()));
    }

    fn u32s(&mut self, offset: usize, values: &[u32]) {
        for (index, value) in values.iter().enumerate() {
            self.bytes(offset + index * 4, &value.to_ne_bytes());
        }
    }

    fn u64(&mut self, offset: usize, value: u64) {
        self.bytes(offset, &value.to_ne_bytes());
    }
}

/// The devices that the environment, or [`crate::configure`], describes, without initialising HIP.
pub fn devices() -> Vec<(&'static Model, DeviceInfo)> {
    if state::is_initialised() {
        return machine().gpus.iter().map(|gpu| (gpu.model, gpu.info.clone())).collect();
    }
    let config = crate::config::current();
    let models = config.models().unwrap_or_default();
    let info = |(index, model): (usize, &'static Model)| {
        (model, DeviceInfo::of(index, model, config.memory_bytes.unwrap_or_else(|| model.memory_bytes())))
    };
    models.into_iter().enumerate().map(info).collect()
}

pub(crate) unsafe fn init(flags: c_uint) -> Result {
    runtime()?;
    if flags == 0 { Ok(()) } else { Err(HipError::InvalidValue) }
}

pub(crate) unsafe fn driver_version(out: *mut c_int) -> Result {
    // SAFETY: the caller's pointer, as HIP demands.
    unsafe { put(out, HIP_VERSION) }
}

pub(crate) unsafe fn count(out: *mut c_int) -> Result {
    let devices = machine().gpus.len();
    // SAFETY: the caller's pointer. Unlike other outputs this one is written when there is no device, too.
    unsafe { put(out, devices as c_int)? };
    if devices == 0 { Err(HipError::NoDevice) } else { Ok(()) }
}

pub(crate) unsafe fn set(device: c_int) -> Result {
    state::set_device(runtime()?.device(device)?.index);
    Ok(())
}

pub(crate) unsafe fn get(out: *mut c_int) -> Result {
    let index = runtime()?.current()?.index;
    // SAFETY: the caller's pointer.
    unsafe { put(out, index as c_int) }
}

pub(crate) unsafe fn by_ordinal(out: *mut c_int, ordinal: c_int) -> Result {
    runtime()?.device(ordinal)?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, ordinal) }
}

pub(crate) unsafe fn name(out: *mut c_char, length: c_int, device: c_int) -> Result {
    let gpu = runtime()?.device(device)?;
    // SAFETY: the caller's buffer of that length.
    unsafe { put_text(out, length, &gpu.info.name) }
}

pub(crate) unsafe fn uuid(out: *mut [u8; 16], device: c_int) -> Result {
    let gpu = runtime()?.device(device)?;
    let mut text = [0; 16];
    let digits = format!("{:016x}", gpu.info.unique_id);
    text.iter_mut().zip(digits.bytes()).for_each(|(place, digit)| *place = digit);
    // SAFETY: the caller's pointer.
    unsafe { put(out, text) }
}

pub(crate) unsafe fn pci_bus_id(out: *mut c_char, length: c_int, device: c_int) -> Result {
    let gpu = runtime()?.device(device)?;
    let text = gpu.info.pci_text();
    if usize::try_from(length).is_ok_and(|length| length > text.len()) {
        // SAFETY: the caller's buffer of that length.
        unsafe { put_text(out, length, &text) }
    } else {
        Err(HipError::InvalidValue)
    }
}

pub(crate) unsafe fn by_pci_bus_id(out: *mut c_int, text: *const c_char) -> Result {
    let runtime = runtime()?;
    if text.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's string, not null.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().to_ascii_lowercase();
    let text = text.strip_suffix(".0").unwrap_or(&text);
    let is_it = |gpu: &&state::Gpu| gpu.info.pci_text().strip_suffix(".0") == Some(text);
    let gpu = runtime.gpus.iter().find(is_it).ok_or(HipError::InvalidValue)?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, gpu.index as c_int) }
}

pub(crate) unsafe fn total_memory(out: *mut usize, device: c_int) -> Result {
    let gpu = runtime()?.device(device)?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, gpu.info.memory_bytes as usize) }
}

pub(crate) unsafe fn capability(major: *mut c_int, minor: *mut c_int, device: c_int) -> Result {
    let [first, second, _] = runtime()?.device(device)?.info.version;
    if major.is_null() || minor.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: the caller's pointers.
    unsafe { put(major, first as c_int).and_then(|()| put(minor, second as c_int)) }
}

pub(crate) unsafe fn attribute(out: *mut c_int, id: c_int, device: c_int) -> Result {
    let gpu = runtime()?.device(device)?;
    let value = gpu.info.attribute(id).ok_or(HipError::InvalidValue)?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, value) }
}

pub(crate) unsafe fn properties(out: *mut c_void, device: c_int) -> Result {
    let gpu = runtime()?.device(device)?;
    // SAFETY: the caller's structure of 1472 bytes; bytes have no alignment.
    unsafe { put(out.cast(), gpu.info.properties().0) }
}

pub(crate) unsafe fn old_properties(out: *mut c_void, device: c_int) -> Result {
    let gpu = runtime()?.device(device)?;
    // SAFETY: the caller's structure of 792 bytes.
    unsafe { put(out.cast(), gpu.info.old_properties().0) }
}

pub(crate) unsafe fn synchronize() -> Result {
    let runtime = runtime()?;
    stream::wait_device(runtime, runtime.current()?.index)
}

pub(crate) unsafe fn reset() -> Result {
    let runtime = runtime()?;
    let device = runtime.current()?.index;
    stream::reset(runtime, device);
    memory::reset(runtime, device)
}

pub(crate) unsafe fn can_access_peer(out: *mut c_int, device: c_int, peer: c_int) -> Result {
    let runtime = runtime()?;
    runtime.device(device).and_then(|_| runtime.device(peer))?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, 0) }
}

pub(crate) unsafe fn enable_peer(peer: c_int, flags: c_uint) -> Result {
    let runtime = runtime()?;
    let is_self = runtime.device(peer)?.index == runtime.current()?.index;
    Err(if flags != 0 || is_self { HipError::InvalidValue } else { HipError::PeerAccessUnsupported })
}

pub(crate) unsafe fn disable_peer(peer: c_int) -> Result {
    runtime()?.device(peer)?;
    Err(HipError::PeerAccessNotEnabled)
}

pub(crate) unsafe fn set_flags(flags: c_uint) -> Result {
    runtime()?;
    // Scheduling (auto, spin, yield, blocking sync) and mapping flags: they change nothing here.
    if flags & !0x1f == 0 { Ok(()) } else { Err(HipError::InvalidValue) }
}

pub(crate) unsafe fn flags(out: *mut c_uint) -> Result {
    runtime()?;
    // SAFETY: the caller's pointer.
    unsafe { put(out, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mi300x() -> DeviceInfo {
        DeviceInfo::of(0, Model::named("mi300x").unwrap(), 1 << 30)
    }

    /// What real HIP 7.2.4 gave on a modelled MI300X.
    #[test]
    fn attributes_of_mi300x() {
        let info = mi300x();
        let want = [
            (5, 2_100_000),
            (60, 1_300_000),
            (59, 8192),
            (63, 304),
            (10018, 8),
            (10019, 512),
            (10020, 0x74a1),
            (10015, 304),
        ];
        for (id, value) in want {
            assert_eq!(info.attribute(id), Some(value), "{id}");
        }
        assert_eq!([-1, 4711, 10021].map(|id| info.attribute(id)), [None; 3]);
    }

    #[test]
    fn properties_are_where_both_layouts_have_them() {
        let info = mi300x();
        let (new, old) = (info.properties().0, info.old_properties().0);
        let word = |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert!(
            new[1160..].starts_with(b"gfx942:sramecc+:xnack-\0") && old[396..].starts_with(b"gfx942:sramecc+:xnack-\0")
        );
        assert!(new.starts_with(b"AMD Instinct MI300X\0") && old.starts_with(b"AMD Instinct MI300X\0"));
        // Clock, CUs, warp size, memory clock, bus, L2, threads of a CU, blocks of threads.
        let fields = [(348, 308), (388, 336), (308, 276), (608, 312), (612, 316), (616, 340), (624, 344), (320, 280)];
        let want = [2_100_000, 304, 64, 1_300_000, 8192, 4 << 20, 2048, 1024];
        for ((r0600, r0000), want) in fields.into_iter().zip(want) {
            assert_eq!((word(&new, r0600), word(&old, r0000)), (want, want), "{r0600}");
        }
        assert_eq!(&new[256..272], format!("{:016x}", info.unique_id).as_bytes());
        assert_eq!(word(&old, 392), 942);
    }

    #[test]
    fn memory_clocks_are_those_of_the_memories() {
        // HBM2e at 3.2 Gb/s, HBM3E at 6 and 8 Gb/s.
        for (model, khz) in [("mi210", 1_600_000), ("mi250x", 1_600_000), ("mi325x", 1_500_000), ("mi355x", 2_000_000)]
        {
            let info = DeviceInfo::of(0, Model::named(model).unwrap(), 0);
            assert_eq!(info.memory_clock_khz, khz, "{model}");
        }
    }
}
