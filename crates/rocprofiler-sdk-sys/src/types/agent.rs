//! Agents.

use super::{AgentId, Dim3};
use std::ffi::{c_char, c_int, c_void};

/// Memory of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AgentMemBank {
    /// Kind of heap, as KFD numbers it.
    pub heap_type: u32,
    /// Flags of KFD.
    pub flags: u32,
    /// Bits of the interface.
    pub width: u32,
    /// Highest memory clock, MHz.
    pub mem_clk_max: u32,
    /// Bytes.
    pub size_in_bytes: u64,
}

/// A cache of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AgentCache {
    /// Processor it belongs to.
    pub processor_id_low: u64,
    /// Size as KFD gives it (KiB).
    pub size: u64,
    /// Level, from 1.
    pub level: u32,
    /// Bytes of a line.
    pub cache_line_size: u32,
    /// Lines a tag.
    pub cache_lines_per_tag: u32,
    /// Ways.
    pub association: u32,
    /// ns.
    pub latency: u32,
    /// Kind, as KFD numbers it.
    pub cache_type: u32,
}

/// An agent. The first [`AGENT_PREFIX_SIZE`] bytes are the same in all versions; `uuid` is there when `size` says so.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AgentV0 {
    /// Bytes of this struct that the SDK wrote.
    pub size: u64,
    /// The agent.
    pub id: AgentId,
    /// [`AGENT_TYPE_CPU`] or [`AGENT_TYPE_GPU`].
    pub agent_type: i32,
    /// CPU cores.
    pub cpu_cores_count: u32,
    /// SIMDs.
    pub simd_count: u32,
    /// Entries of `mem_banks`.
    pub mem_banks_count: u32,
    /// Entries of `caches`.
    pub caches_count: u32,
    /// Entries of `io_links`.
    pub io_links_count: u32,
    /// First CPU core.
    pub cpu_core_id_base: u32,
    /// First SIMD.
    pub simd_id_base: u32,
    /// Waves that a SIMD can hold.
    pub max_waves_per_simd: u32,
    /// LDS of a CU, KiB.
    pub lds_size_in_kb: u32,
    /// Global data share, KiB.
    pub gds_size_in_kb: u32,
    /// GWS barriers.
    pub num_gws: u32,
    /// Lanes of a wave.
    pub wave_front_size: u32,
    /// XCDs.
    pub num_xcc: u32,
    /// CUs.
    pub cu_count: u32,
    /// Shader arrays.
    pub array_count: u32,
    /// Shader engines.
    pub num_shader_banks: u32,
    /// Shader arrays of an engine.
    pub simd_arrays_per_engine: u32,
    /// CUs of a shader array.
    pub cu_per_simd_array: u32,
    /// SIMDs of a CU.
    pub simd_per_cu: u32,
    /// Scratch slots of a CU.
    pub max_slots_scratch_cu: u32,
    /// major x 10000 + minor x 100 + stepping, such as 90402.
    pub gfx_target_version: u32,
    /// PCI vendor.
    pub vendor_id: u16,
    /// PCI device.
    pub device_id: u16,
    /// bus << 8 | device << 3 | function.
    pub location_id: u32,
    /// PCI domain.
    pub domain: u32,
    /// N of `renderDN`.
    pub drm_render_minor: u32,
    /// SDMA engines.
    pub num_sdma_engines: u32,
    /// SDMA engines for XGMI.
    pub num_sdma_xgmi_engines: u32,
    /// Queues of an SDMA engine.
    pub num_sdma_queues_per_engine: u32,
    /// Compute queues.
    pub num_cp_queues: u32,
    /// Highest clock of the CPU, MHz.
    pub max_engine_clk_ccompute: u32,
    /// Highest clock of the GPU, MHz.
    pub max_engine_clk_fcompute: u32,
    /// SDMA firmware.
    pub sdma_fw_version: u32,
    /// Firmware.
    pub fw_version: u32,
    /// Capability bits of KFD.
    pub capability: u32,
    /// CUs of a shader engine.
    pub cu_per_engine: u32,
    /// Waves that a CU can hold.
    pub max_waves_per_cu: u32,
    /// Family of the GPU.
    pub family_id: u32,
    /// Work-items of the largest workgroup.
    pub workgroup_max_size: u32,
    /// Work-items of the largest grid.
    pub grid_max_size: u32,
    /// Device memory, bytes.
    pub local_mem_size: u64,
    /// XGMI hive.
    pub hive_id: u64,
    /// KFD's number of the GPU.
    pub gpu_id: u64,
    /// Largest workgroup by dimension.
    pub workgroup_max_dim: Dim3,
    /// Largest grid by dimension.
    pub grid_max_dim: Dim3,
    /// Memories.
    pub mem_banks: *const AgentMemBank,
    /// Caches.
    pub caches: *const AgentCache,
    /// Links.
    pub io_links: *const c_void,
    /// Such as `gfx942`.
    pub name: *const c_char,
    /// Vendor.
    pub vendor_name: *const c_char,
    /// Marketing name.
    pub product_name: *const c_char,
    /// Model, such as `ip discovery`.
    pub model_name: *const c_char,
    /// KFD node.
    pub node_id: u32,
    /// Position among all agents.
    pub logical_node_id: i32,
    /// Position among agents of its type.
    pub logical_node_type_id: i32,
    /// Bits: 0 HSA, 1 HIP, 2 RCCL, 3 rocDecode may see it.
    pub runtime_visibility: u32,
    /// Unique id; versions in which the struct ends 8 bytes earlier have the first 8.
    pub uuid: [u8; 16],
}

/// Bytes of [`AgentV0`] that every version has.
pub const AGENT_PREFIX_SIZE: usize = 296;
/// [`AgentV0::agent_type`] of a CPU.
pub const AGENT_TYPE_CPU: i32 = 1;
/// [`AgentV0::agent_type`] of a GPU.
pub const AGENT_TYPE_GPU: i32 = 2;
/// Version of [`AgentV0`] for `rocprofiler_query_available_agents`.
pub const AGENT_INFO_V0: c_int = 1;
