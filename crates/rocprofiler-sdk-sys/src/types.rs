//! Structs, handles, numbers and callback types of the C interface, version 1.x. Fields keep the meaning and order of the C
//! headers; sizes and offsets are asserted in [`crate::layout`].
//!
//! Structs that the SDK fills and that grew between versions start with their `size`: read a field only when it lies inside.

mod agent;

pub use agent::*;

use crate::Status;
use std::ffi::{c_char, c_int, c_void};

macro_rules! handle {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(C)]
        pub struct $name {
            /// The SDK's number; 0 is none.
            pub handle: u64,
        }

        impl $name {
            /// A handle that names nothing: what output arguments must hold on entry.
            pub const NONE: $name = $name { handle: 0 };
        }
    )*};
}

handle! {
    /// A context: services that are started and stopped together.
    ContextId
    /// A buffer.
    BufferId
    /// A thread that runs buffer callbacks.
    CallbackThread
    /// An agent: a CPU or a GPU.
    AgentId
    /// A hardware queue.
    QueueId
    /// A counter. The low 16 bits are its number among the counters of its architecture; some versions put the agent above them.
    CounterId
    /// A set of counters to collect at once.
    CounterConfigId
}

impl CounterId {
    /// The number of the counter without the agent that some versions put into the upper bits.
    pub fn base(self) -> u16 {
        (self.handle & 0xffff) as u16
    }
}

/// 64 bits that belong to the tool; in C a union of an integer and a pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct UserData(pub u64);

/// Extent in three dimensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Dim3 {
    /// Innermost.
    pub x: u32,
    /// Middle.
    pub y: u32,
    /// Outermost.
    pub z: u32,
}

/// Ties what an API call caused to the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CorrelationId {
    /// The SDK's number of the API call.
    pub internal: u64,
    /// What the tool pushed for the thread.
    pub external: UserData,
    /// The call around the call.
    pub ancestor: u64,
}

/// [`CorrelationId`] in records of what runs asynchronously.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AsyncCorrelationId {
    /// The SDK's number of the API call.
    pub internal: u64,
    /// What the tool pushed for the thread.
    pub external: UserData,
}

/// What precedes a record in a buffer.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RecordHeader {
    /// One of [`category`].
    pub category: u32,
    /// Within the category: [`buffer_tracing`] or [`counter_record`].
    pub kind: u32,
    /// The record.
    pub payload: *mut c_void,
}

/// A dispatch of a kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelDispatchInfo {
    /// Bytes of this struct that the SDK knows.
    pub size: u64,
    /// Where it runs.
    pub agent_id: AgentId,
    /// Its queue.
    pub queue_id: QueueId,
    /// The kernel; its name comes with the code object.
    pub kernel_id: u64,
    /// Number of the dispatch in this process, in order of enqueueing, from 1.
    pub dispatch_id: u64,
    /// Scratch, bytes a work-item.
    pub private_segment_size: u32,
    /// LDS, bytes a workgroup.
    pub group_segment_size: u32,
    /// Work-items of a workgroup.
    pub workgroup_size: Dim3,
    /// Grid in **work-items**.
    pub grid_size: Dim3,
    /// Kept for the SDK.
    pub reserved: [u8; 56],
}

/// Record of a traced dispatch: category [`category::TRACING`], kind [`buffer_tracing::KERNEL_DISPATCH`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelDispatchRecord {
    /// Bytes of this struct that the SDK wrote; later versions append fields.
    pub size: u64,
    /// [`buffer_tracing::KERNEL_DISPATCH`].
    pub kind: u32,
    /// [`KERNEL_DISPATCH_COMPLETE`].
    pub operation: i32,
    /// The launching call.
    pub correlation_id: AsyncCorrelationId,
    /// The launching thread (`gettid`).
    pub thread_id: u64,
    /// Start, ns on the clock of `rocprofiler_get_timestamp` (CLOCK_BOOTTIME).
    pub start_timestamp: u64,
    /// End, ns.
    pub end_timestamp: u64,
    /// The dispatch.
    pub dispatch_info: KernelDispatchInfo,
}

/// What dispatch counting hands to callbacks, by value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DispatchCountingData {
    /// Bytes of this struct that the SDK knows.
    pub size: u64,
    /// The launching call.
    pub correlation_id: AsyncCorrelationId,
    /// Start, ns; 0 before the kernel ran.
    pub start_timestamp: u64,
    /// End, ns; 0 before the kernel ran.
    pub end_timestamp: u64,
    /// The dispatch.
    pub dispatch_info: KernelDispatchInfo,
}

/// Header of the values of a dispatch in a buffer: category [`category::COUNTERS`], kind
/// [`counter_record::DISPATCH_HEADER`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DispatchCountingRecord {
    /// Bytes of this struct that the SDK wrote.
    pub size: u64,
    /// Values that belong to the dispatch.
    pub num_records: u64,
    /// The launching call.
    pub correlation_id: AsyncCorrelationId,
    /// Start, ns.
    pub start_timestamp: u64,
    /// End, ns.
    pub end_timestamp: u64,
    /// The dispatch.
    pub dispatch_info: KernelDispatchInfo,
}

/// A value of one instance of a counter: category [`category::COUNTERS`], kind [`counter_record::VALUE`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct CounterRecord {
    /// Counter and position in its dimensions; see [`crate::instance`].
    pub instance_id: u64,
    /// The value.
    pub value: f64,
    /// The dispatch; 0 in device counting.
    pub dispatch_id: u64,
    /// What the dispatch callback, or the sampling call, gave.
    pub user_data: UserData,
    /// Where it was counted.
    pub agent_id: AgentId,
}

/// What callback services hand over, by value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CallbackTracingRecord {
    /// The context of the service.
    pub context_id: ContextId,
    /// The calling thread.
    pub thread_id: u64,
    /// The API call.
    pub correlation_id: CorrelationId,
    /// One of [`callback_tracing`].
    pub kind: u32,
    /// Operation of the kind.
    pub operation: i32,
    /// One of [`phase`].
    pub phase: u32,
    /// Data of the kind and operation.
    pub payload: *mut c_void,
}

/// Payload of [`code_object::LOAD`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CodeObjectLoadData {
    /// Bytes of this struct that the SDK knows.
    pub size: u64,
    /// Number of the code object.
    pub code_object_id: u64,
    /// Where it was loaded.
    pub agent_id: AgentId,
    /// HSA's handle of the agent.
    pub hsa_agent: u64,
    /// Where it came from, as a URI.
    pub uri: *const c_char,
    /// Device address of the lowest loaded segment.
    pub load_base: u64,
    /// Bytes loaded.
    pub load_size: u64,
    /// Load address minus the address in the file.
    pub load_delta: i64,
    /// 0 unknown, 1 file, 2 memory.
    pub storage_type: u32,
    /// Of storage in memory: its host address; of a file: the descriptor in the low half.
    pub memory_base: u64,
    /// Of storage in memory: its bytes.
    pub memory_size: u64,
}

/// Payload of [`code_object::DEVICE_KERNEL_SYMBOL_REGISTER`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelSymbolData {
    /// Bytes of this struct that the SDK knows; early versions end after `accum_vgpr_count`.
    pub size: u64,
    /// Number of the kernel, as in dispatches.
    pub kernel_id: u64,
    /// Its code object.
    pub code_object_id: u64,
    /// Mangled name with `.kd` behind it; valid during the callback.
    pub kernel_name: *const c_char,
    /// Device address of the descriptor.
    pub kernel_object: u64,
    /// Bytes of arguments.
    pub kernarg_segment_size: u32,
    /// Their alignment.
    pub kernarg_segment_alignment: u32,
    /// Static LDS, bytes a workgroup.
    pub group_segment_size: u32,
    /// Scratch, bytes a work-item.
    pub private_segment_size: u32,
    /// SGPRs in granules of the descriptor.
    pub sgpr_count: u32,
    /// VGPRs in granules of the descriptor.
    pub arch_vgpr_count: u32,
    /// AGPRs in granules of the descriptor.
    pub accum_vgpr_count: u32,
    /// From the descriptor to the first instruction.
    pub kernel_code_entry_byte_offset: i64,
    /// Device address of the first instruction.
    pub kernel_address: u64,
}

/// [`CounterInfoV0`]: a counter is a constant of the hardware.
pub const COUNTER_IS_CONSTANT: u8 = 1;
/// [`CounterInfoV0`]: a counter is computed from others.
pub const COUNTER_IS_DERIVED: u8 = 2;

/// Version 0 of what is known of a counter ([`COUNTER_INFO_V0`]). Strings live as long as the process.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CounterInfoV0 {
    /// The counter.
    pub id: CounterId,
    /// Name.
    pub name: *const c_char,
    /// Description.
    pub description: *const c_char,
    /// Hardware block; of derived counters empty or NULL.
    pub block: *const c_char,
    /// Formula of derived counters.
    pub expression: *const c_char,
    /// [`COUNTER_IS_CONSTANT`], [`COUNTER_IS_DERIVED`].
    pub flags: u8,
}

/// A dimension of a counter.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DimensionInfo {
    /// Name, such as `DIMENSION_XCC`.
    pub name: *const c_char,
    /// Positions in it.
    pub instance_size: usize,
    /// One of [`dimension`].
    pub id: u64,
}

/// Who a tool is; filled by it in `rocprofiler_configure`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ClientId {
    /// Bytes of this struct that the SDK knows.
    pub size: usize,
    /// Name of the tool, for logs.
    pub name: *const c_char,
    /// The SDK's number of the tool.
    pub handle: u32,
}

/// What `rocprofiler_configure` returns; the SDK copies it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConfigureResult {
    /// Bytes of this struct.
    pub size: usize,
    /// Makes contexts, buffers and services; 0 keeps them.
    pub initialize: Option<InitializeFn>,
    /// Called when the process ends.
    pub finalize: Option<FinalizeFn>,
    /// Handed to both.
    pub tool_data: *mut c_void,
}

/// Three numbers of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VersionTriplet {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}

/// Version of [`CounterInfoV0`] for `rocprofiler_query_counter_info`.
pub const COUNTER_INFO_V0: c_int = 1;
/// Version whose struct grew from 80 to 96 bytes: the SDK writes as much as *it* knows.
pub const COUNTER_INFO_V1: c_int = 2;
/// Operation of a completed dispatch.
pub const KERNEL_DISPATCH_COMPLETE: i32 = 2;

/// Categories of buffered records.
pub mod category {
    /// Traces.
    pub const TRACING: u32 = 1;
    /// Samples of the program counter.
    pub const PC_SAMPLING: u32 = 2;
    /// Counters.
    pub const COUNTERS: u32 = 3;
}

/// Kinds of buffered tracing whose numbers are the same in all versions.
pub mod buffer_tracing {
    use std::ffi::c_int;
    /// Calls of HIP.
    pub const HIP_RUNTIME_API: c_int = 5;
    /// Copies.
    pub const MEMORY_COPY: c_int = 10;
    /// Dispatches.
    pub const KERNEL_DISPATCH: c_int = 11;
}

/// Kinds of callback tracing.
pub mod callback_tracing {
    use std::ffi::c_int;
    /// Code objects and their kernels.
    pub const CODE_OBJECT: c_int = 10;
    /// Dispatches.
    pub const KERNEL_DISPATCH: c_int = 12;
}

/// Operations of [`callback_tracing::CODE_OBJECT`].
pub mod code_object {
    /// A code object.
    pub const LOAD: i32 = 1;
    /// A kernel of it.
    pub const DEVICE_KERNEL_SYMBOL_REGISTER: i32 = 2;
    /// A host function that launches a kernel.
    pub const HOST_KERNEL_SYMBOL_REGISTER: i32 = 3;
}

/// Phases of a callback.
pub mod phase {
    /// Neither.
    pub const NONE: u32 = 0;
    /// Loaded, or about to be called.
    pub const LOAD: u32 = 1;
    /// About to be unloaded, or back from the call.
    pub const UNLOAD: u32 = 2;
}

/// Kinds of records of [`category::COUNTERS`].
pub mod counter_record {
    /// [`super::DispatchCountingRecord`].
    pub const DISPATCH_HEADER: u32 = 1;
    /// [`super::CounterRecord`].
    pub const VALUE: u32 = 2;
}

/// What happens when a buffer is full.
pub mod buffer_policy {
    use std::ffi::c_int;
    /// The record is lost. After the first flush the SDK loses all others too, without counting them.
    pub const DISCARD: c_int = 1;
    /// The thread that has the record waits.
    pub const LOSSLESS: c_int = 2;
}

/// Dimensions of counters.
pub mod dimension {
    /// The 48 bits of all dimensions at once.
    pub const NONE: u64 = 0;
    /// XCD.
    pub const XCC: u64 = 1;
    /// I/O die.
    pub const AID: u64 = 2;
    /// Shader engine.
    pub const SHADER_ENGINE: u64 = 3;
    /// Agent.
    pub const AGENT: u64 = 4;
    /// Shader array.
    pub const SHADER_ARRAY: u64 = 5;
    /// Workgroup processor.
    pub const WGP: u64 = 6;
    /// Instance of the block.
    pub const INSTANCE: u64 = 7;
}

/// Flags of `rocprofiler_sample_device_counting_service` and `rocprofiler_load_counter_definition`.
pub mod counter_flag {
    use std::ffi::c_int;
    /// Wait for the values.
    pub const NONE: c_int = 0;
    /// Do not wait; values go to the buffer.
    pub const ASYNC: c_int = 1;
    /// Add definitions instead of replacing them.
    pub const APPEND_DEFINITION: c_int = 2;
}

/// `rocprofiler_configure` of a tool.
pub type ConfigureFn = unsafe extern "C" fn(
    version: u32,
    runtime: *const c_char,
    priority: u32,
    client: *mut ClientId,
) -> *mut ConfigureResult;
/// Ends a client; by value.
pub type ClientFinalizeFn = unsafe extern "C" fn(ClientId);
/// `initialize` of a tool.
pub type InitializeFn = unsafe extern "C" fn(Option<ClientFinalizeFn>, *mut c_void) -> c_int;
/// `finalize` of a tool.
pub type FinalizeFn = unsafe extern "C" fn(*mut c_void);
/// Gets full buffers.
pub type BufferCallback =
    unsafe extern "C" fn(ContextId, BufferId, *mut *mut RecordHeader, usize, data: *mut c_void, drop_count: u64);
/// Gets code objects and the like.
pub type CallbackTracingCallback = unsafe extern "C" fn(CallbackTracingRecord, *mut UserData, *mut c_void);
/// Gets agents.
pub type AgentsCallback = unsafe extern "C" fn(c_int, *const *const c_void, usize, *mut c_void) -> Status;
/// Gets counters.
pub type CountersCallback = unsafe extern "C" fn(AgentId, *mut CounterId, usize, *mut c_void) -> Status;
/// Gets dimensions.
pub type DimensionsCallback = unsafe extern "C" fn(CounterId, *const DimensionInfo, usize, *mut c_void) -> Status;
/// Chooses what to count for a dispatch.
pub type DispatchCallback =
    unsafe extern "C" fn(DispatchCountingData, *mut CounterConfigId, *mut UserData, *mut c_void);
/// Gets the values of a dispatch.
pub type CountingRecordCallback =
    unsafe extern "C" fn(DispatchCountingData, *mut CounterRecord, usize, UserData, *mut c_void);
/// Sets the configuration of device counting.
pub type SetConfigFn = unsafe extern "C" fn(ContextId, CounterConfigId) -> Status;
/// Chooses what a device counts.
pub type DeviceCountingCallback = unsafe extern "C" fn(ContextId, AgentId, Option<SetConfigFn>, *mut c_void);
