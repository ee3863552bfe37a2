//! Agents, counters and configurations. All of it works before the tool is configured, and in `initialize`.

use super::{Error, Plain, check, guard, read_sized, text};
use crate::types::*;
use crate::{Sdk, Status};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

// SAFETY: integers and raw pointers only.
unsafe impl Plain for AgentV0 {
    const LEAST: usize = AGENT_PREFIX_SIZE;
    const NAME: &'static str = "agent";
}

/// What an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentKind {
    /// A CPU.
    Cpu,
    /// A GPU.
    Gpu,
    /// Neither that is known.
    Other(i32),
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The SDK's handle.
    pub id: AgentId,
    /// What it is.
    pub kind: AgentKind,
    /// Such as `gfx942`.
    pub name: String,
    /// Marketing name; may be empty.
    pub product_name: String,
    /// Vendor.
    pub vendor_name: String,
    /// Model, such as `ip discovery`.
    pub model_name: String,
    /// KFD's node.
    pub node_id: u32,
    /// Position among all agents.
    pub logical_node_id: i32,
    /// Position among agents of its kind, before `HIP_VISIBLE_DEVICES`.
    pub logical_node_type_id: i32,
    /// major x 10000 + minor x 100 + stepping.
    pub gfx_target_version: u32,
    /// PCI vendor and device.
    pub pci_ids: (u16, u16),
    /// PCI domain. With `location` it finds HIP's device: positions differ when devices are hidden from HIP.
    pub domain: u32,
    /// bus << 8 | device << 3 | function.
    pub location: u32,
    /// Unique id; zeros when the version has none.
    pub uuid: [u8; 16],
    /// XCDs.
    pub xccs: u32,
    /// CUs of the whole device.
    pub cus: u32,
    /// SIMDs of the whole device.
    pub simds: u32,
    /// SIMDs of a CU.
    pub simds_per_cu: u32,
    /// Shader engines of the whole device.
    pub shader_engines: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Waves that a SIMD can hold.
    pub max_waves_per_simd: u32,
    /// LDS of a CU, KiB.
    pub lds_kib: u32,
    /// Highest engine clock, MHz.
    pub max_clock_mhz: u32,
    /// Device memory, bytes.
    pub memory_bytes: u64,
    /// Its memories.
    pub memories: Vec<AgentMemBank>,
    /// The whole struct, as far as the version has it; pointers in it stay valid as long as the process.
    pub raw: RawAgent,
}

/// The SDK's struct, for what [`Agent`] leaves out.
#[derive(Clone, Copy, Debug)]
pub struct RawAgent(pub AgentV0);

impl PartialEq for RawAgent {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for RawAgent {}

// SAFETY: the pointers are to data of the SDK that does not change, and are only read in unsafe code of the reader.
unsafe impl Send for RawAgent {}
// SAFETY: as above.
unsafe impl Sync for RawAgent {}

/// A counter of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The SDK's handle.
    pub id: CounterId,
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Hardware block; empty for derived counters.
    pub block: String,
    /// Formula of a derived counter.
    pub expression: String,
    /// A property of the device rather than a count.
    pub is_constant: bool,
    /// Computed from others.
    pub is_derived: bool,
}

/// A dimension of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Name, such as `DIMENSION_XCC`.
    pub name: String,
    /// One of [`crate::types::dimension`].
    pub id: u64,
    /// Positions in it.
    pub size: usize,
}

/// Counters to collect at once on one agent. It is never destroyed, so that no dispatch can be given one that is gone: the SDK
/// would end the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterConfig {
    id: CounterConfigId,
    agent: AgentId,
}

/// Where a list callback leaves what it read.
struct Sink<T> {
    list: Vec<T>,
    error: Option<Error>,
}

impl<T> Sink<T> {
    fn new() -> Self {
        Sink { list: Vec::new(), error: None }
    }

    fn pointer(&mut self) -> *mut c_void {
        let sink: *mut Self = self;
        sink.cast()
    }

    fn finish(self) -> Result<Vec<T>, Error> {
        self.error.map_or(Ok(self.list), Err)
    }
}

/// All agents, CPUs too. None without the GPU driver: that is no error.
///
/// # Errors
/// What the SDK answers, or when it gives structs smaller than any known version's.
pub fn agents(sdk: &Sdk) -> Result<Vec<Agent>, Error> {
    let mut sink = Sink::<Agent>::new();
    let query = sdk.query_available_agents()?;
    // SAFETY: the callback only uses the sink, which outlives the call. The size is the prefix that all versions have.
    let status = unsafe { query(AGENT_INFO_V0, Some(take_agents), AGENT_PREFIX_SIZE, sink.pointer()) };
    check(sdk, "rocprofiler_query_available_agents", status)?;
    sink.finish()
}

unsafe extern "C" fn take_agents(
    _version: c_int,
    agents: *const *const c_void,
    count: usize,
    sink: *mut c_void,
) -> Status {
    guard(Status::ERROR, || {
        // SAFETY: our own sink, and so many pointers to agents, valid as long as the process.
        unsafe {
            let Some(sink) = sink.cast::<Sink<Agent>>().as_mut() else { return Status::ERROR };
            let agents = if agents.is_null() { &[][..] } else { std::slice::from_raw_parts(agents, count) };
            for agent in agents.iter().filter(|agent| !agent.is_null()) {
                match read_sized::<AgentV0>(*agent) {
                    Ok(raw) => sink.list.push(read_agent(&raw)),
                    Err(error) => sink.error = Some(error),
                }
            }
        }
        Status::SUCCESS
    })
}

/// # Safety
/// Pointers of the agent are valid or NULL.
unsafe fn read_agent(raw: &AgentV0) -> Agent {
    // SAFETY: strings are NULL or terminated, and the array has as many entries as its count says.
    let (name, vendor_name, product_name, model_name, memories) = unsafe {
        let banks = raw.mem_banks_count as usize;
        let memories = if raw.mem_banks.is_null() { &[][..] } else { std::slice::from_raw_parts(raw.mem_banks, banks) };
        let read = |string| text(string).unwrap_or_default();
        (read(raw.name), read(raw.vendor_name), read(raw.product_name), read(raw.model_name), memories.to_vec())
    };
    Agent {
        id: raw.id,
        kind: match raw.agent_type {
            AGENT_TYPE_CPU => AgentKind::Cpu,
            AGENT_TYPE_GPU => AgentKind::Gpu,
            other => AgentKind::Other(other),
        },
        name,
        product_name,
        vendor_name,
        model_name,
        node_id: raw.node_id,
        logical_node_id: raw.logical_node_id,
        logical_node_type_id: raw.logical_node_type_id,
        gfx_target_version: raw.gfx_target_version,
        pci_ids: (raw.vendor_id, raw.device_id),
        domain: raw.domain,
        location: raw.location_id,
        uuid: raw.uuid,
        xccs: raw.num_xcc,
        cus: raw.cu_count,
        simds: raw.simd_count,
        simds_per_cu: raw.simd_per_cu,
        shader_engines: raw.num_shader_banks,
        wave_size: raw.wave_front_size,
        max_waves_per_simd: raw.max_waves_per_simd,
        lds_kib: raw.lds_size_in_kb,
        max_clock_mhz: raw.max_engine_clk_fcompute,
        memory_bytes: raw.local_mem_size,
        memories,
        raw: RawAgent(*raw),
    }
}

/// Counters that an agent has.
///
/// # Errors
/// `AGENT_ARCH_NOT_SUPPORTED` for an agent without counter definitions (integrated and unknown GPUs): leave it out.
pub fn supported_counters(sdk: &Sdk, agent: AgentId) -> Result<Vec<Counter>, Error> {
    let mut sink = Sink::<CounterId>::new();
    let iterate = sdk.iterate_agent_supported_counters()?;
    // SAFETY: the callback only uses the sink, which outlives the call.
    let status = unsafe { iterate(agent, Some(take_counters), sink.pointer()) };
    check(sdk, "rocprofiler_iterate_agent_supported_counters", status)?;
    sink.finish()?.into_iter().map(|id| counter(sdk, id)).collect()
}

unsafe extern "C" fn take_counters(
    _agent: AgentId,
    counters: *mut CounterId,
    count: usize,
    sink: *mut c_void,
) -> Status {
    guard(Status::ERROR, || {
        // SAFETY: our own sink, and so many counters.
        unsafe {
            let Some(sink) = sink.cast::<Sink<CounterId>>().as_mut() else { return Status::ERROR };
            if !counters.is_null() {
                sink.list.extend_from_slice(std::slice::from_raw_parts(counters, count));
            }
        }
        Status::SUCCESS
    })
}

fn counter(sdk: &Sdk, id: CounterId) -> Result<Counter, Error> {
    // Room to spare: an SDK writes as much as its own version of the struct has.
    #[repr(C, align(8))]
    struct Room(MaybeUninit<CounterInfoV0>, [u8; 208]);
    let mut room = Room(MaybeUninit::zeroed(), [0; 208]);
    let query = sdk.query_counter_info()?;
    let pointer: *mut Room = &mut room;
    // SAFETY: 256 zeroed bytes, more than any version's struct.
    let status = unsafe { query(id, COUNTER_INFO_V0, pointer.cast()) };
    check(sdk, "rocprofiler_query_counter_info", status)?;
    // SAFETY: integers and pointers, zero or written by the SDK; strings are NULL or terminated.
    let (info, [name, description, block, expression]) = unsafe {
        let info = room.0.assume_init();
        let strings = [info.name, info.description, info.block, info.expression];
        (info, strings.map(|string| text(string).unwrap_or_default()))
    };
    Ok(Counter {
        id,
        name,
        description,
        block,
        expression,
        is_constant: info.flags & COUNTER_IS_CONSTANT != 0,
        is_derived: info.flags & COUNTER_IS_DERIVED != 0,
    })
}

/// A counter's dimensions; empty when the SDK has no function for it.
///
/// # Errors
/// What the SDK answers.
pub fn counter_dimensions(sdk: &Sdk, counter: CounterId) -> Result<Vec<Dimension>, Error> {
    let Some(iterate) = sdk.iterate_counter_dimensions() else { return Ok(Vec::new()) };
    let mut sink = Sink::<Dimension>::new();
    // SAFETY: the callback only uses the sink, which outlives the call.
    let status = unsafe { iterate(counter, Some(take_dimensions), sink.pointer()) };
    check(sdk, "rocprofiler_iterate_counter_dimensions", status)?;
    sink.finish()
}

unsafe extern "C" fn take_dimensions(
    _counter: CounterId,
    dimensions: *const DimensionInfo,
    count: usize,
    sink: *mut c_void,
) -> Status {
    guard(Status::ERROR, || {
        // SAFETY: our own sink, and so many dimensions with NULL or terminated names.
        unsafe {
            let Some(sink) = sink.cast::<Sink<Dimension>>().as_mut() else { return Status::ERROR };
            let list = if dimensions.is_null() { &[][..] } else { std::slice::from_raw_parts(dimensions, count) };
            sink.list.extend(list.iter().map(|dimension| Dimension {
                name: text(dimension.name).unwrap_or_default(),
                id: dimension.id,
                size: dimension.instance_size,
            }));
        }
        Status::SUCCESS
    })
}

/// Instances of a counter on an agent, which is the number of values a dispatch gives; `None` when the SDK has no function for it.
///
/// # Errors
/// What the SDK answers.
pub fn counter_instances(sdk: &Sdk, agent: AgentId, counter: CounterId) -> Result<Option<usize>, Error> {
    let Some(query) = sdk.query_counter_instance_count() else { return Ok(None) };
    let mut count = 0;
    // SAFETY: a valid pointer.
    let status = unsafe { query(agent, counter, &mut count) };
    check(sdk, "rocprofiler_query_counter_instance_count", status)?;
    Ok(Some(count))
}

impl CounterConfig {
    /// A configuration. The SDK accepts no counters, and one twice; the values of both come once.
    ///
    /// # Errors
    /// `EXCEEDS_HW_LIMIT` when the hardware cannot count them at once, `METRIC_NOT_VALID_FOR_AGENT` or `COUNTER_NOT_FOUND` for a
    /// counter that the agent does not have, and whatever else the SDK answers.
    pub fn new(sdk: &Sdk, agent: AgentId, counters: &[CounterId]) -> Result<CounterConfig, Error> {
        let mut counters = counters.to_vec();
        let mut id = CounterConfigId::NONE;
        let create = sdk.create_counter_config()?;
        // SAFETY: so many counters, and a valid pointer to 0.
        let status = unsafe { create(agent, counters.as_mut_ptr(), counters.len(), &mut id) };
        check(sdk, "rocprofiler_create_counter_config", status)?;
        Ok(CounterConfig { id, agent })
    }

    /// The SDK's handle.
    pub fn id(self) -> CounterConfigId {
        self.id
    }

    /// The agent it is for: a dispatch elsewhere must not be given it.
    pub fn agent(self) -> AgentId {
        self.agent
    }
}

/// Whether the hardware can count these at once. The SDK answers by making a configuration (0.2 ms; the first 0.1 s), which is
/// destroyed.
///
/// # Errors
/// As [`CounterConfig::new`], except `EXCEEDS_HW_LIMIT`.
pub fn fits(sdk: &Sdk, agent: AgentId, counters: &[CounterId]) -> Result<bool, Error> {
    match CounterConfig::new(sdk, agent, counters) {
        Ok(config) => {
            // SAFETY: the configuration is the SDK's and nobody else has it.
            let status = unsafe { sdk.destroy_counter_config()?(config.id) };
            check(sdk, "rocprofiler_destroy_counter_config", status)?;
            Ok(true)
        }
        Err(error) if error.status() == Some(Status::EXCEEDS_HW_LIMIT) => Ok(false),
        Err(error) => Err(error),
    }
}
