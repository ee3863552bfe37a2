//! Agents: the machine's CPU and the emulated GPUs, as structs that live as long as the process.

use super::catalog::{self, Counter};
use super::state::Sdk;
use crate::device::DeviceInfo;
use crate::hooks;
use kbench_gfx_emu::model::Model;
use rocprofiler_sdk_sys::Version;
use rocprofiler_sdk_sys::types::*;
use std::ffi::CString;
use std::mem::size_of;

/// An agent, its counters, and the device behind it.
#[derive(Debug)]
pub(crate) struct AgentEntry {
    pub(crate) handle: u64,
    /// The struct, in as many bytes as the version has.
    raw: Box<[u64]>,
    pub(crate) counters: Vec<Counter>,
    /// CUs and SIMDs, for formulas.
    pub(crate) cus: u32,
    pub(crate) simds: u32,
    pub(crate) is_gpu: bool,
    /// Whether there are counter definitions for it.
    pub(crate) is_supported: bool,
}

impl AgentEntry {
    pub(crate) fn pointer(&self) -> *const std::ffi::c_void {
        self.raw.as_ptr().cast()
    }
}

/// Handle of the CPU.
const CPU_HANDLE: u64 = 0x6370_7501;
/// KFD's bits of a heap: device memory that the host cannot see.
const HEAP_FRAME_BUFFER_PRIVATE: u32 = 2;

/// Bytes of an agent's struct: firmware versions were added behind the unique id.
pub(crate) fn agent_size(version: Version) -> usize {
    size_of::<AgentV0>() + if version >= Version::new(1, 3, 5) { 64 } else { 0 }
}

impl Sdk {
    /// All agents; none without a driver.
    pub(crate) fn agents(&self) -> &[AgentEntry] {
        self.agents.get_or_init(|| {
            if self.faults.no_driver {
                eprintln!("rocprofiler-sdk: no topology of a GPU driver; no agents");
                return Vec::new();
            }
            let config = crate::config::current();
            let models = config.models().unwrap_or_default();
            let mut list = vec![cpu(self.version)];
            let shown = models.len() - usize::from(self.faults.agents_short && !models.is_empty());
            for (index, model) in models.into_iter().enumerate().take(shown) {
                let memory = config.memory_bytes.unwrap_or_else(|| model.memory_bytes());
                let is_supported = self.faults.unsupported_agent != Some(index as u32);
                list.push(gpu(self.version, index, model, memory, is_supported));
            }
            list
        })
    }

    /// An agent's place.
    pub(crate) fn agent(&self, id: AgentId) -> Option<(usize, &AgentEntry)> {
        self.agents().iter().enumerate().find(|(_, agent)| agent.handle == id.handle)
    }
}

/// A string that lives as long as the process.
pub(crate) fn leak(text: &str) -> *const std::ffi::c_char {
    CString::new(text.replace('\0', " ")).unwrap_or_default().into_raw()
}

fn empty(version: Version) -> AgentV0 {
    // SAFETY: integers, handles and raw pointers, for which zero is a value.
    let mut raw: AgentV0 = unsafe { std::mem::zeroed() };
    raw.size = agent_size(version) as u64;
    raw.model_name = leak("");
    raw.runtime_visibility = 0b1111;
    raw
}

fn entry(version: Version, raw: AgentV0, counters: Vec<Counter>, is_supported: bool) -> AgentEntry {
    let mut words = vec![0_u64; agent_size(version).div_ceil(8)].into_boxed_slice();
    let from: *const AgentV0 = &raw;
    // SAFETY: both have at least the bytes of the struct.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), words.as_mut_ptr().cast::<u8>(), size_of::<AgentV0>()) };
    AgentEntry {
        handle: raw.id.handle,
        raw: words,
        counters,
        cus: raw.cu_count,
        simds: raw.simd_count,
        is_gpu: raw.agent_type == AGENT_TYPE_GPU,
        is_supported,
    }
}

fn cpu(version: Version) -> AgentEntry {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let name = leak("CPU");
    let raw = AgentV0 {
        id: AgentId { handle: CPU_HANDLE },
        agent_type: AGENT_TYPE_CPU,
        cpu_cores_count: cores,
        name,
        vendor_name: leak("CPU"),
        product_name: name,
        ..empty(version)
    };
    entry(version, raw, Vec::new(), false)
}

fn gpu(version: Version, index: usize, model: &Model, memory_bytes: u64, is_supported: bool) -> AgentEntry {
    let info = DeviceInfo::of(index, model, memory_bytes);
    let machine = &model.machine;
    let engines = machine.shader_engines_per_xcd.value * model.xcds.value;
    let simds_per_cu = machine.simds_per_cu.value;
    let bank = AgentMemBank {
        heap_type: HEAP_FRAME_BUFFER_PRIVATE,
        flags: 0,
        width: info.memory_bus_bits,
        mem_clk_max: info.memory_clock_khz / 1000,
        size_in_bytes: memory_bytes,
    };
    let caches = caches(model);
    let [major, minor, step] = info.version;
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&info.unique_id.to_le_bytes());
    let raw = AgentV0 {
        id: AgentId { handle: hooks::agent_handle(index as u32) },
        agent_type: AGENT_TYPE_GPU,
        simd_count: model.cus() * simds_per_cu,
        mem_banks_count: 1,
        caches_count: caches.len() as u32,
        max_waves_per_simd: machine.waves_per_simd.value,
        lds_size_in_kb: machine.lds_bytes_per_cu.value / 1024,
        num_gws: 64,
        wave_front_size: 64,
        num_xcc: model.xcds.value,
        cu_count: model.cus(),
        array_count: engines,
        num_shader_banks: engines,
        simd_arrays_per_engine: 1,
        cu_per_simd_array: model.cus_per_xcd.value.div_ceil(machine.shader_engines_per_xcd.value.max(1)),
        simd_per_cu: simds_per_cu,
        max_slots_scratch_cu: 32,
        gfx_target_version: major * 10_000 + minor * 100 + step,
        vendor_id: 0x1002,
        device_id: info.pci_device_id,
        location_id: info.pci_bus << 8,
        domain: 0,
        drm_render_minor: 128 + index as u32,
        num_cp_queues: 24,
        max_engine_clk_fcompute: info.clock_khz / 1000,
        cu_per_engine: model.cus().div_ceil(engines.max(1)),
        max_waves_per_cu: info.waves_per_cu,
        workgroup_max_size: crate::device::MAX_BLOCK,
        grid_max_size: u32::MAX,
        local_mem_size: memory_bytes,
        gpu_id: info.unique_id & 0xffff,
        workgroup_max_dim: Dim3 {
            x: crate::device::MAX_BLOCK,
            y: crate::device::MAX_BLOCK,
            z: crate::device::MAX_BLOCK,
        },
        grid_max_dim: Dim3 { x: u32::MAX, y: u32::MAX, z: u32::MAX },
        mem_banks: Box::leak(Box::new(bank)),
        caches: Box::leak(caches).as_ptr(),
        name: leak(model.arch().name()),
        vendor_name: leak("AMD"),
        product_name: leak(&info.name),
        model_name: leak("ip discovery"),
        node_id: index as u32 + 1,
        logical_node_id: index as i32 + 1,
        logical_node_type_id: index as i32,
        uuid,
        ..empty(version)
    };
    let counters = if is_supported { catalog::counters(model) } else { Vec::new() };
    entry(version, raw, counters, is_supported)
}

/// Vector L1, L2 of an XCD and the memory-side cache; sizes in KiB, as KFD has them.
fn caches(model: &Model) -> Box<[AgentCache]> {
    let cache = |level: u32, bytes: u64, line: u32| AgentCache {
        size: bytes / 1024,
        level,
        cache_line_size: line,
        ..AgentCache::default()
    };
    let (l1, l2) = (&model.machine.l1, &model.machine.l2);
    let mut list = vec![
        cache(1, l1.bytes.value.into(), l1.line_bytes.value),
        cache(2, l2.bytes.value.into(), l2.line_bytes.value),
    ];
    list.extend(model.mall_bytes.as_ref().map(|bytes| cache(3, bytes.value, l2.line_bytes.value)));
    list.into_boxed_slice()
}
