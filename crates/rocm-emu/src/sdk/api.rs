//! The functions of the interface. What they check is what the real SDK was seen to check, and no more.
//!
//! # Safety
//! All of them: pointers are NULL or valid for what the C headers say, and callbacks keep to their types.

#![allow(clippy::missing_safety_doc)]

use super::buffer::{Buffer, CallbackThread as Thread, Request};
use super::services::{CodeObjects, Context, Counting, Deliver, DeviceCounting};
use super::state::{Inner, Sdk, sdk};
use super::{Data, abi::*, call};
use rocprofiler_sdk_sys::Status;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering;

/// Buffer tracing kinds there are, from 1.
const BUFFER_KINDS: std::ops::RangeInclusive<c_int> = 1..=31;
/// Callback tracing kinds there are, from 1.
const CALLBACK_KINDS: std::ops::RangeInclusive<c_int> = 1..=20;

/// Writes an output; a NULL one is left alone, as some functions allow.
///
/// # Safety
/// NULL or valid for a write.
unsafe fn put<T>(out: *mut T, value: T) -> Status {
    if !out.is_null() {
        // SAFETY: valid for a write.
        unsafe { out.write_unaligned(value) };
    }
    Status::SUCCESS
}

/// Reads what an output holds on entry; 0 for NULL.
///
/// # Safety
/// NULL or valid for a read.
unsafe fn on_entry(out: *const u64) -> u64 {
    // SAFETY: valid for a read.
    if out.is_null() { 0 } else { unsafe { out.read_unaligned() } }
}

/// # Safety
/// NULL or as many entries.
unsafe fn list<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    // SAFETY: as many entries.
    if pointer.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(pointer, count) } }
}

/// The version; any output may be NULL.
pub unsafe extern "C" fn rocprofiler_get_version(major: *mut u32, minor: *mut u32, patch: *mut u32) -> Status {
    call("rocprofiler_get_version", || {
        let version = sdk().version;
        // SAFETY: NULL or valid.
        unsafe {
            put(major, version.major);
            put(minor, version.minor);
            put(patch, version.patch)
        }
    })
}

/// The version as a struct.
pub unsafe extern "C" fn rocprofiler_get_version_triplet(version: *mut VersionTriplet) -> Status {
    call("rocprofiler_get_version_triplet", || {
        let own = sdk().version;
        // SAFETY: NULL or valid.
        unsafe { put(version, VersionTriplet { major: own.major, minor: own.minor, patch: own.patch }) }
    })
}

/// Now, ns of the virtual clock.
pub unsafe extern "C" fn rocprofiler_get_timestamp(ns: *mut u64) -> Status {
    // SAFETY: NULL or valid.
    call("rocprofiler_get_timestamp", || unsafe { put(ns, sdk().now_ns()) })
}

/// `gettid` of the caller.
pub unsafe extern "C" fn rocprofiler_get_thread_id(id: *mut u64) -> Status {
    // SAFETY: NULL or valid.
    call("rocprofiler_get_thread_id", || unsafe { put(id, super::thread_id()) })
}

/// 0 no, 1 yes, -1 while a tool initialises.
pub unsafe extern "C" fn rocprofiler_is_initialized(answer: *mut c_int) -> Status {
    // SAFETY: NULL or valid.
    call("rocprofiler_is_initialized", || unsafe { put(answer, sdk().initialized.load(Ordering::Acquire)) })
}

/// 0 no, 1 yes, -1 while tools finalise.
pub unsafe extern "C" fn rocprofiler_is_finalized(answer: *mut c_int) -> Status {
    // SAFETY: NULL or valid.
    call("rocprofiler_is_finalized", || unsafe { put(answer, sdk().finalized.load(Ordering::Acquire)) })
}

/// Configures a tool and has it initialise before it returns.
pub unsafe extern "C" fn rocprofiler_force_configure(configure: Option<ConfigureFn>) -> Status {
    call("rocprofiler_force_configure", || sdk().force_configure(configure))
}

/// What runtimes hand their tables over with. The emulated one uses [`crate::hooks`] instead and only looks whether there is such
/// a function.
pub unsafe extern "C" fn rocprofiler_set_api_table(
    _: *const c_char,
    _: u64,
    _: u64,
    _: *mut *mut c_void,
    _: u64,
) -> c_int {
    0
}

/// Makes something that can only be made in `initialize` and whose output must be 0.
fn create(name: &str, entry: u64, make: impl FnOnce(&mut Inner) -> Status) -> Status {
    call(name, || {
        let sdk = sdk();
        if !sdk.is_initializing() {
            return Status::CONFIGURATION_LOCKED;
        }
        if entry != 0 {
            return Status::CONTEXT_ID_NOT_ZERO;
        }
        make(&mut sdk.lock())
    })
}

/// Makes a context, in `initialize`.
pub unsafe extern "C" fn rocprofiler_create_context(context: *mut ContextId) -> Status {
    // SAFETY: NULL or valid.
    let entry = unsafe { on_entry(context.cast()) };
    create("rocprofiler_create_context", entry, |inner| {
        let id = inner.next_id();
        inner.contexts.push(Context::new(id));
        // SAFETY: NULL or valid.
        unsafe { put(context, ContextId { handle: id }) }
    })
}

/// Starts a context.
pub unsafe extern "C" fn rocprofiler_start_context(context: ContextId) -> Status {
    call("rocprofiler_start_context", || sdk().start(context.handle))
}

/// Stops a context; one that is not active is not found.
pub unsafe extern "C" fn rocprofiler_stop_context(context: ContextId) -> Status {
    call("rocprofiler_stop_context", || sdk().stop(context.handle))
}

/// Whether there is such a context.
pub unsafe extern "C" fn rocprofiler_context_is_valid(context: ContextId, answer: *mut c_int) -> Status {
    call("rocprofiler_context_is_valid", || {
        let is_there = sdk().lock().context(context.handle).is_some();
        // SAFETY: NULL or valid.
        unsafe { put(answer, c_int::from(is_there)) };
        if is_there { Status::SUCCESS } else { Status::CONTEXT_NOT_FOUND }
    })
}

/// Whether it is started.
pub unsafe extern "C" fn rocprofiler_context_is_active(context: ContextId, answer: *mut c_int) -> Status {
    call("rocprofiler_context_is_active", || {
        let found = sdk().lock().context(context.handle);
        let is_active = found.as_ref().is_some_and(|context| context.is_active());
        // SAFETY: NULL or valid.
        unsafe { put(answer, c_int::from(is_active)) };
        if found.is_some() { Status::SUCCESS } else { Status::CONTEXT_NOT_FOUND }
    })
}

/// Takes any context, policy and callback, as the real one; size 0 ends the process.
pub unsafe extern "C" fn rocprofiler_create_buffer(
    context: ContextId,
    size: usize,
    watermark: usize,
    policy: c_int,
    callback: Option<BufferCallback>,
    data: *mut c_void,
    buffer: *mut BufferId,
) -> Status {
    // SAFETY: NULL or valid.
    let entry = unsafe { on_entry(buffer.cast()) };
    create("rocprofiler_create_buffer", entry, |inner| {
        if size == 0 {
            eprintln!("rocprofiler-sdk: ring_buffer: mmap failed, errno 22: invalid argument");
            std::process::abort();
        }
        let id = inner.next_id();
        let data = Data(data);
        let request = Request { id, context: context.handle, size, watermark, policy, callback, data };
        inner.buffers.insert(id, Buffer::new(request));
        // SAFETY: NULL or valid.
        unsafe { put(buffer, BufferId { handle: id }) }
    })
}

/// Hands over what a buffer holds, after the completions that the runtime has told of.
pub unsafe extern "C" fn rocprofiler_flush_buffer(buffer: BufferId) -> Status {
    call("rocprofiler_flush_buffer", || {
        let sdk = sdk();
        if sdk.has_ended() {
            return Status::FINALIZED;
        }
        let Some(buffer) = sdk.buffer(buffer.handle) else { return Status::BUFFER_NOT_FOUND };
        if sdk.flushes.fetch_add(1, Ordering::Relaxed) < sdk.faults.busy {
            return Status::BUFFER_BUSY;
        }
        sdk.signals.drain();
        buffer.flush()
    })
}

/// Forgets a buffer.
pub unsafe extern "C" fn rocprofiler_destroy_buffer(buffer: BufferId) -> Status {
    call("rocprofiler_destroy_buffer", || match sdk().lock().buffers.remove(&buffer.handle) {
        Some(_) => Status::SUCCESS,
        None => Status::BUFFER_NOT_FOUND,
    })
}

/// Starts a thread for callbacks, in `initialize`.
pub unsafe extern "C" fn rocprofiler_create_callback_thread(thread: *mut CallbackThread) -> Status {
    create("rocprofiler_create_callback_thread", 0, |inner| {
        let id = inner.next_id();
        inner.threads.push(Thread::start(id));
        // SAFETY: NULL or valid.
        unsafe { put(thread, CallbackThread { handle: id }) }
    })
}

/// Has a buffer's callbacks run on a thread.
pub unsafe extern "C" fn rocprofiler_assign_callback_thread(buffer: BufferId, thread: CallbackThread) -> Status {
    call("rocprofiler_assign_callback_thread", || {
        let sdk = sdk();
        let Some(buffer) = sdk.buffer(buffer.handle) else { return Status::BUFFER_NOT_FOUND };
        let thread = sdk.lock().threads.iter().find(|own| own.id == thread.handle).cloned();
        let Some(thread) = thread else { return Status::THREAD_NOT_FOUND };
        buffer.assign(thread);
        Status::SUCCESS
    })
}

/// Changes a context's services, in `initialize`.
fn service(name: &str, context: ContextId, change: impl FnOnce(&Sdk, &Context) -> Status) -> Status {
    call(name, || {
        let sdk = sdk();
        if !sdk.is_initializing() {
            return Status::CONFIGURATION_LOCKED;
        }
        let context = sdk.lock().context(context.handle);
        context.map_or(Status::CONTEXT_NOT_FOUND, |context| change(sdk, &context))
    })
}

/// What the real SDK answers to a number beyond its kinds.
fn unknown_kind(kind: c_int) -> ! {
    eprintln!("terminate called after throwing an instance of 'std::out_of_range' (tracing kind {kind})");
    std::process::abort();
}

/// Takes any buffer, as the real one; an unknown kind ends the process. Kinds other than dispatches have no records here.
pub unsafe extern "C" fn rocprofiler_configure_buffer_tracing_service(
    context: ContextId,
    kind: c_int,
    _operations: *const i32,
    _count: usize,
    buffer: BufferId,
) -> Status {
    service("rocprofiler_configure_buffer_tracing_service", context, |_, context| {
        if !BUFFER_KINDS.contains(&kind) {
            unknown_kind(kind);
        }
        if kind != buffer_tracing::KERNEL_DISPATCH {
            return Status::SUCCESS;
        }
        context.change(|services| {
            if !services.traces.is_empty() {
                return Status::SERVICE_ALREADY_CONFIGURED;
            }
            services.traces.push(buffer.handle);
            Status::SUCCESS
        })
    })
}

/// Takes any operation, as the real one; an unknown kind ends the process. Kinds other than code objects have no records here.
pub unsafe extern "C" fn rocprofiler_configure_callback_tracing_service(
    context: ContextId,
    kind: c_int,
    operations: *const i32,
    count: usize,
    callback: Option<CallbackTracingCallback>,
    data: *mut c_void,
) -> Status {
    service("rocprofiler_configure_callback_tracing_service", context, |_, context| {
        if !CALLBACK_KINDS.contains(&kind) {
            unknown_kind(kind);
        }
        if kind != callback_tracing::CODE_OBJECT {
            return Status::SUCCESS;
        }
        // SAFETY: as many operations.
        let operations = unsafe { list(operations, count) }.to_vec();
        context.change(|services| {
            if !services.code_objects.is_empty() {
                return Status::SERVICE_ALREADY_CONFIGURED;
            }
            services.code_objects.push(CodeObjects { operations, callback, data: Data(data) });
            Status::SUCCESS
        })
    })
}

/// Gives all agents to a callback.
pub unsafe extern "C" fn rocprofiler_query_available_agents(
    version: c_int,
    callback: Option<AgentsCallback>,
    agent_size: usize,
    data: *mut c_void,
) -> Status {
    call("rocprofiler_query_available_agents", || {
        let sdk = sdk();
        if version != AGENT_INFO_V0 {
            return Status::INVALID_ARGUMENT;
        }
        if agent_size > super::agents::agent_size(sdk.version) {
            return Status::INCOMPATIBLE_ABI;
        }
        let pointers: Vec<*const c_void> = sdk.agents().iter().map(super::agents::AgentEntry::pointer).collect();
        // SAFETY: the caller's callback and data; agents live as long as the process.
        callback.map_or(Status::INVALID_ARGUMENT, |callback| unsafe {
            callback(version, pointers.as_ptr(), pointers.len(), data)
        })
    })
}

/// Gives an agent's counters to a callback.
pub unsafe extern "C" fn rocprofiler_iterate_agent_supported_counters(
    agent: AgentId,
    callback: Option<CountersCallback>,
    data: *mut c_void,
) -> Status {
    call("rocprofiler_iterate_agent_supported_counters", || {
        let sdk = sdk();
        let Some((place, entry)) = sdk.agent(agent) else { return Status::AGENT_NOT_FOUND };
        if !entry.is_supported {
            return Status::AGENT_ARCH_NOT_SUPPORTED;
        }
        let id = |counter: &super::catalog::Counter| sdk.encoding.counter(counter.id, place as u32);
        let mut ids: Vec<CounterId> = entry.counters.iter().map(id).collect();
        // SAFETY: the caller's callback and data, and as many counters as said.
        callback
            .map_or(Status::INVALID_ARGUMENT, |callback| unsafe { callback(agent, ids.as_mut_ptr(), ids.len(), data) })
    })
}

/// Fills what is known of a counter, in version 0 or 1 of the struct.
pub unsafe extern "C" fn rocprofiler_query_counter_info(
    counter: CounterId,
    version: c_int,
    info: *mut c_void,
) -> Status {
    call("rocprofiler_query_counter_info", || {
        if info.is_null() {
            return Status::INVALID_ARGUMENT;
        }
        // SAFETY: room for what this version writes.
        unsafe { sdk().counter_info(counter, version, info) }
    })
}

/// The counter of an instance's id.
pub unsafe extern "C" fn rocprofiler_query_record_counter_id(id: u64, counter: *mut CounterId) -> Status {
    call("rocprofiler_query_record_counter_id", || {
        let sdk = sdk();
        let (number, agent) = sdk.encoding.instance_counter(id);
        let found = match agent {
            Some(agent) => sdk.encoding.counter(number, agent),
            None => CounterId { handle: number.into() },
        };
        // SAFETY: NULL or valid.
        unsafe { put(counter, found) }
    })
}

/// The position of an instance's id in a dimension.
pub unsafe extern "C" fn rocprofiler_query_record_dimension_position(
    id: u64,
    dimension: u64,
    position: *mut usize,
) -> Status {
    call("rocprofiler_query_record_dimension_position", || {
        let sdk = sdk();
        if dimension > dimension::INSTANCE {
            return Status::DIM_NOT_FOUND;
        }
        let (number, agent) = sdk.encoding.instance_counter(id);
        let counter = sdk.counter_of(number, agent).map(|(.., counter)| counter);
        // SAFETY: NULL or valid.
        unsafe { put(position, sdk.encoding.position(id, counter, dimension) as usize) }
    })
}

/// Gives a counter's dimensions to a callback.
pub unsafe extern "C" fn rocprofiler_iterate_counter_dimensions(
    counter: CounterId,
    callback: Option<DimensionsCallback>,
    data: *mut c_void,
) -> Status {
    call("rocprofiler_iterate_counter_dimensions", || {
        let Some(dimensions) = sdk().dimensions(counter) else { return Status::COUNTER_NOT_FOUND };
        let (pointer, count) = (dimensions.as_ptr(), dimensions.len());
        // SAFETY: the caller's callback and data, and as many dimensions as said.
        callback.map_or(Status::INVALID_ARGUMENT, |callback| unsafe { callback(counter, pointer, count, data) })
    })
}

/// Instances of a counter on an agent.
pub unsafe extern "C" fn rocprofiler_query_counter_instance_count(
    agent: AgentId,
    counter: CounterId,
    count: *mut usize,
) -> Status {
    call("rocprofiler_query_counter_instance_count", || {
        let sdk = sdk();
        let Some((place, _)) = sdk.agent(agent) else { return Status::AGENT_NOT_FOUND };
        let found = sdk.counter_of(counter.base(), Some(place as u32));
        // SAFETY: NULL or valid.
        found.map_or(Status::COUNTER_NOT_FOUND, |(.., found)| unsafe { put(count, found.instances()) })
    })
}

/// Makes a configuration, after checking that the hardware could count it.
pub unsafe extern "C" fn rocprofiler_create_counter_config(
    agent: AgentId,
    counters: *mut CounterId,
    count: usize,
    config: *mut CounterConfigId,
) -> Status {
    call("rocprofiler_create_counter_config", || {
        // SAFETY: NULL or valid; as many counters.
        let (base, wanted) = unsafe { (on_entry(config.cast()), list(counters, count)) };
        match sdk().create_config(agent, wanted, base) {
            // SAFETY: NULL or valid.
            Ok(made) => unsafe { put(config, made) },
            Err(status) => status,
        }
    })
}

/// Forgets a configuration.
pub unsafe extern "C" fn rocprofiler_destroy_counter_config(config: CounterConfigId) -> Status {
    call("rocprofiler_destroy_counter_config", || match sdk().lock().configs.remove(&config.handle) {
        Some(_) => Status::SUCCESS,
        None => Status::CONFIG_NOT_FOUND,
    })
}

/// Dispatch counting in one of its forms. Both in one context are accepted, and both then ask for each dispatch.
fn count_dispatches(name: &str, context: ContextId, counting: Counting) -> Status {
    service(name, context, |_, context| {
        context.change(|services| {
            if !services.devices.is_empty() {
                return Status::AGENT_DISPATCH_CONFLICT;
            }
            services.counting.push(counting);
            Status::SUCCESS
        })
    })
}

/// Counts dispatches into a buffer.
pub unsafe extern "C" fn rocprofiler_configure_buffer_dispatch_counting_service(
    context: ContextId,
    buffer: BufferId,
    callback: Option<DispatchCallback>,
    data: *mut c_void,
) -> Status {
    let deliver = Deliver::Buffer(buffer.handle);
    let counting = Counting { choose: callback, choose_data: Data(data), deliver };
    count_dispatches("rocprofiler_configure_buffer_dispatch_counting_service", context, counting)
}

/// Counts dispatches into a callback.
pub unsafe extern "C" fn rocprofiler_configure_callback_dispatch_counting_service(
    context: ContextId,
    dispatch: Option<DispatchCallback>,
    dispatch_data: *mut c_void,
    record: Option<CountingRecordCallback>,
    record_data: *mut c_void,
) -> Status {
    let deliver = Deliver::Callback(record, Data(record_data));
    let counting = Counting { choose: dispatch, choose_data: Data(dispatch_data), deliver };
    count_dispatches("rocprofiler_configure_callback_dispatch_counting_service", context, counting)
}

/// Counts what an agent does.
pub unsafe extern "C" fn rocprofiler_configure_device_counting_service(
    context: ContextId,
    buffer: BufferId,
    agent: AgentId,
    callback: Option<DeviceCountingCallback>,
    data: *mut c_void,
) -> Status {
    service("rocprofiler_configure_device_counting_service", context, |sdk, context| {
        if buffer != BufferId::NONE && sdk.buffer(buffer.handle).is_none() {
            return Status::BUFFER_NOT_FOUND;
        }
        context.change(|services| {
            if !services.counting.is_empty() {
                return Status::AGENT_DISPATCH_CONFLICT;
            }
            if services.devices.iter().any(|device| device.agent == agent.handle) {
                return Status::INVALID_ARGUMENT;
            }
            services.devices.push(DeviceCounting::new(buffer.handle, agent.handle, callback, Data(data)));
            Status::SUCCESS
        })
    })
}

/// Reads what an agent did since the context was started.
pub unsafe extern "C" fn rocprofiler_sample_device_counting_service(
    context: ContextId,
    user_data: UserData,
    flags: c_int,
    records: *mut CounterRecord,
    count: *mut usize,
) -> Status {
    call("rocprofiler_sample_device_counting_service", || {
        // SAFETY: NULL or room for as many records as the count says on entry.
        let out = unsafe {
            let room = if count.is_null() { 0 } else { count.read_unaligned() };
            (!records.is_null()).then(|| std::slice::from_raw_parts_mut(records, room))
        };
        match sdk().sample(context.handle, user_data, flags == counter_flag::ASYNC, out) {
            // SAFETY: NULL or valid.
            Ok(written) => unsafe { put(count, written) },
            Err(status) => status,
        }
    })
}

/// Sets a thread's external correlation id for a context.
pub unsafe extern "C" fn rocprofiler_push_external_correlation_id(
    context: ContextId,
    thread: u64,
    id: UserData,
) -> Status {
    call("rocprofiler_push_external_correlation_id", || {
        let mut inner = sdk().lock();
        if inner.context(context.handle).is_none() {
            return Status::CONTEXT_NOT_FOUND;
        }
        inner.external.entry((context.handle, thread)).or_default().push(id.0);
        Status::SUCCESS
    })
}

/// Takes it back.
pub unsafe extern "C" fn rocprofiler_pop_external_correlation_id(
    context: ContextId,
    thread: u64,
    id: *mut UserData,
) -> Status {
    call("rocprofiler_pop_external_correlation_id", || {
        let mut inner = sdk().lock();
        if inner.context(context.handle).is_none() {
            return Status::CONTEXT_NOT_FOUND;
        }
        match inner.external.get_mut(&(context.handle, thread)).and_then(Vec::pop) {
            // SAFETY: NULL or valid.
            Some(value) => unsafe { put(id, UserData(value)) },
            None => Status::INVALID_ARGUMENT,
        }
    })
}

/// Names and words of statuses by number; NULL for others, as the real one.
const STATUSES: [(&std::ffi::CStr, &std::ffi::CStr); 41] = [
    (c"ROCPROFILER_STATUS_SUCCESS", c"Success"),
    (c"ROCPROFILER_STATUS_ERROR", c"Unspecified error"),
    (c"ROCPROFILER_STATUS_ERROR_CONTEXT_NOT_FOUND", c"No active context of this id"),
    (c"ROCPROFILER_STATUS_ERROR_BUFFER_NOT_FOUND", c"No buffer of this id"),
    (c"ROCPROFILER_STATUS_ERROR_KIND_NOT_FOUND", c"No such kind"),
    (c"ROCPROFILER_STATUS_ERROR_OPERATION_NOT_FOUND", c"No such operation"),
    (c"ROCPROFILER_STATUS_ERROR_THREAD_NOT_FOUND", c"No thread of this id"),
    (c"ROCPROFILER_STATUS_ERROR_AGENT_NOT_FOUND", c"No agent of this id"),
    (c"ROCPROFILER_STATUS_ERROR_COUNTER_NOT_FOUND", c"No counter of this id"),
    (c"ROCPROFILER_STATUS_ERROR_CONTEXT_ERROR", c"Context error"),
    (c"ROCPROFILER_STATUS_ERROR_CONTEXT_INVALID", c"Context is not valid"),
    (c"ROCPROFILER_STATUS_ERROR_CONTEXT_NOT_STARTED", c"Context was not started"),
    (c"ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT", c"Context conflicts with an active one"),
    (c"ROCPROFILER_STATUS_ERROR_CONTEXT_ID_NOT_ZERO", c"Id was not zero on entry"),
    (c"ROCPROFILER_STATUS_ERROR_BUFFER_BUSY", c"Buffer is being flushed"),
    (c"ROCPROFILER_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED", c"Context has this service"),
    (c"ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED", c"Only allowed during initialization of a tool"),
    (c"ROCPROFILER_STATUS_ERROR_NOT_IMPLEMENTED", c"Not implemented"),
    (c"ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_ABI", c"Incompatible ABI"),
    (c"ROCPROFILER_STATUS_ERROR_INVALID_ARGUMENT", c"Invalid argument"),
    (c"ROCPROFILER_STATUS_ERROR_METRIC_NOT_VALID_FOR_AGENT", c"Agent lacks the counter"),
    (c"ROCPROFILER_STATUS_ERROR_FINALIZED", c"Finalized"),
    (c"ROCPROFILER_STATUS_ERROR_HSA_NOT_LOADED", c"HSA is not loaded"),
    (c"ROCPROFILER_STATUS_ERROR_DIM_NOT_FOUND", c"Counter lacks the dimension"),
    (c"ROCPROFILER_STATUS_ERROR_PROFILE_COUNTER_NOT_FOUND", c"Counter of the config not found"),
    (c"ROCPROFILER_STATUS_ERROR_AST_GENERATION_FAILED", c"Formula could not be read"),
    (c"ROCPROFILER_STATUS_ERROR_AST_NOT_FOUND", c"Formula not found"),
    (c"ROCPROFILER_STATUS_ERROR_AQL_NO_EVENT_COORD", c"No coordinate of an event"),
    (c"ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_KERNEL", c"Driver is too old"),
    (c"ROCPROFILER_STATUS_ERROR_OUT_OF_RESOURCES", c"Out of resources"),
    (c"ROCPROFILER_STATUS_ERROR_PROFILE_NOT_FOUND", c"No counter config of this id"),
    (c"ROCPROFILER_STATUS_ERROR_AGENT_DISPATCH_CONFLICT", c"Device and dispatch counting in one context"),
    (c"ROCPROFILER_STATUS_INTERNAL_NO_AGENT_CONTEXT", c"No context of the agent"),
    (c"ROCPROFILER_STATUS_ERROR_SAMPLE_RATE_EXCEEDED", c"Sample rate exceeded"),
    (c"ROCPROFILER_STATUS_ERROR_NO_PROFILE_QUEUE", c"No queue for profiling"),
    (c"ROCPROFILER_STATUS_ERROR_NO_HARDWARE_COUNTERS", c"No hardware counters"),
    (c"ROCPROFILER_STATUS_ERROR_AGENT_MISMATCH", c"Config is for another agent"),
    (c"ROCPROFILER_STATUS_ERROR_NOT_AVAILABLE", c"Service is not available"),
    (c"ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT", c"More counters than the hardware can count at once"),
    (c"ROCPROFILER_STATUS_ERROR_AGENT_ARCH_NOT_SUPPORTED", c"Architecture of the agent is not supported"),
    (c"ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED", c"Permission denied"),
];

/// The entry of a status.
fn entry_of(status: Status) -> Option<&'static (&'static std::ffi::CStr, &'static std::ffi::CStr)> {
    STATUSES.get(usize::try_from(status.0).ok()?)
}

/// Name of a status; NULL for one without.
pub extern "C" fn rocprofiler_get_status_name(status: Status) -> *const c_char {
    entry_of(status).map_or(std::ptr::null(), |(name, _)| name.as_ptr())
}

/// Words for a status; NULL for one without.
pub extern "C" fn rocprofiler_get_status_string(status: Status) -> *const c_char {
    entry_of(status).map_or(std::ptr::null(), |(_, words)| words.as_ptr())
}
