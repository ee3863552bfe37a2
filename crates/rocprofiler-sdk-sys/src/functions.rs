//! The functions, each looked up when first asked for and kept.

use crate::types::*;
use crate::{Sdk, Status};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// A function that the library does not export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{library} lacks the function {symbol}, which every rocprofiler-sdk from 1.0.0 on has: the file is damaged, or another library \
     under this name. Reinstall rocprofiler-sdk, or name the right file"
)]
pub struct MissingSymbol {
    /// The library.
    pub library: String,
    /// The function.
    pub symbol: String,
}

/// An address looked up once. Addresses are kept as numbers, so that a slot can be shared between threads.
type Slot = OnceLock<Option<NonZeroAddress>>;
type NonZeroAddress = std::num::NonZeroUsize;

fn look_up(slot: &Slot, sdk: &Sdk, symbol: &CStr) -> Option<NonNull<c_void>> {
    let address = *slot.get_or_init(|| sdk.address(symbol).map(NonNull::addr));
    address.map(NonNull::with_exposed_provenance)
}

macro_rules! functions {
    (
        mandatory { $($(#[$mdoc:meta])* $m:ident = $msymbol:literal ($($marg:ident: $mtype:ty),*) -> $mret:ty;)* }
        optional { $($(#[$odoc:meta])* $o:ident = $osymbol:literal ($($oarg:ident: $otype:ty),*) -> $oret:ty;)* }
    ) => {
        /// What was looked up so far.
        #[derive(Default)]
        pub(crate) struct Slots {
            $($m: Slot,)*
            $($o: Slot,)*
        }

        /// Names that a library must export.
        pub(crate) const MANDATORY: &[&CStr] = &[$($msymbol,)*];

        /// The functions. Calling one is unsafe: arguments must be what the C headers say, at a time they allow
        /// (see the [crate's documentation](crate)); the SDK ends the process for some wrong ones.
        impl Sdk {
            $(
                $(#[$mdoc])*
                ///
                /// # Errors
                /// [`MissingSymbol`] when the library does not export it.
                pub fn $m(&self) -> Result<unsafe extern "C" fn($($marg: $mtype),*) -> $mret, MissingSymbol> {
                    match look_up(&self.slots.$m, self, $msymbol) {
                        // SAFETY: the symbol of this name has this type in every version that passes the version gate.
                        Some(address) => Ok(unsafe { std::mem::transmute::<
                            NonNull<c_void>,
                            unsafe extern "C" fn($($marg: $mtype),*) -> $mret,
                        >(address) }),
                        None => Err(self.missing($msymbol)),
                    }
                }
            )*
            $(
                $(#[$odoc])*
                ///
                /// `None` when the library does not export it.
                pub fn $o(&self) -> Option<unsafe extern "C" fn($($oarg: $otype),*) -> $oret> {
                    let address = look_up(&self.slots.$o, self, $osymbol)?;
                    // SAFETY: the symbol of this name has this type in every version that passes the version gate.
                    Some(unsafe { std::mem::transmute::<
                        NonNull<c_void>,
                        unsafe extern "C" fn($($oarg: $otype),*) -> $oret,
                    >(address) })
                }
            )*
        }
    };
}

functions! {
    mandatory {
        /// The version; allowed at any time.
        get_version = c"rocprofiler_get_version"(major: *mut u32, minor: *mut u32, patch: *mut u32) -> Status;
        /// Name of a status, such as `ROCPROFILER_STATUS_SUCCESS`; NULL for one that it does not know.
        get_status_name = c"rocprofiler_get_status_name"(status: Status) -> *const c_char;
        /// Text of a status; NULL for one that it does not know.
        get_status_string = c"rocprofiler_get_status_string"(status: Status) -> *const c_char;
        /// Now, ns on the clock of all records.
        get_timestamp = c"rocprofiler_get_timestamp"(ns: *mut u64) -> Status;
        /// Whether the SDK is initialised: 0 no, 1 yes, -1 being so.
        is_initialized = c"rocprofiler_is_initialized"(answer: *mut c_int) -> Status;
        /// Whether it is finalised: 0 no, 1 yes, -1 being so.
        is_finalized = c"rocprofiler_is_finalized"(answer: *mut c_int) -> Status;
        /// Makes a function the configure function of a tool and runs it and its `initialize`. Single-threaded programs only.
        force_configure = c"rocprofiler_force_configure"(configure: Option<ConfigureFn>) -> Status;
        /// Makes a context; in `initialize` only, `*context` 0 on entry.
        create_context = c"rocprofiler_create_context"(context: *mut ContextId) -> Status;
        /// Starts a context's services.
        start_context = c"rocprofiler_start_context"(context: ContextId) -> Status;
        /// Stops them; does not flush. Of a context that is stopped: [`Status::CONTEXT_NOT_FOUND`], harmless.
        stop_context = c"rocprofiler_stop_context"(context: ContextId) -> Status;
        /// Whether a context can be started.
        context_is_valid = c"rocprofiler_context_is_valid"(context: ContextId, answer: *mut c_int) -> Status;
        /// Whether it is started.
        context_is_active = c"rocprofiler_context_is_active"(context: ContextId, answer: *mut c_int) -> Status;
        /// Makes a buffer; in `initialize` only, `*buffer` 0 on entry. Size 0 ends the process.
        create_buffer = c"rocprofiler_create_buffer"(context: ContextId, size: usize, watermark: usize, policy: c_int,
            callback: Option<BufferCallback>, data: *mut c_void, buffer: *mut BufferId) -> Status;
        /// Hands what a buffer holds to its callback, and waits for it.
        flush_buffer = c"rocprofiler_flush_buffer"(buffer: BufferId) -> Status;
        /// Frees a buffer.
        destroy_buffer = c"rocprofiler_destroy_buffer"(buffer: BufferId) -> Status;
        /// Makes a thread for buffer callbacks; in `initialize` only.
        create_callback_thread = c"rocprofiler_create_callback_thread"(thread: *mut CallbackThread) -> Status;
        /// Has a buffer's callbacks run on a thread.
        assign_callback_thread = c"rocprofiler_assign_callback_thread"(buffer: BufferId, thread: CallbackThread) -> Status;
        /// Traces into a buffer; in `initialize` only. No operations: all. An unknown kind ends the process.
        configure_buffer_tracing_service = c"rocprofiler_configure_buffer_tracing_service"(context: ContextId, kind: c_int,
            operations: *const i32, count: usize, buffer: BufferId) -> Status;
        /// Traces into a callback; in `initialize` only.
        configure_callback_tracing_service = c"rocprofiler_configure_callback_tracing_service"(context: ContextId, kind: c_int,
            operations: *const i32, count: usize, callback: Option<CallbackTracingCallback>, data: *mut c_void) -> Status;
        /// Gives all agents to a callback.
        query_available_agents = c"rocprofiler_query_available_agents"(version: c_int, callback: Option<AgentsCallback>,
            agent_size: usize, data: *mut c_void) -> Status;
        /// Gives an agent's counters to a callback.
        iterate_agent_supported_counters = c"rocprofiler_iterate_agent_supported_counters"(agent: AgentId,
            callback: Option<CountersCallback>, data: *mut c_void) -> Status;
        /// Fills [`CounterInfoV0`] or its like.
        query_counter_info = c"rocprofiler_query_counter_info"(counter: CounterId, version: c_int, info: *mut c_void) -> Status;
        /// The counter of a record's instance id.
        query_record_counter_id = c"rocprofiler_query_record_counter_id"(instance_id: u64, counter: *mut CounterId) -> Status;
        /// The position of a record's instance id in a dimension.
        query_record_dimension_position = c"rocprofiler_query_record_dimension_position"(instance_id: u64, dimension: u64,
            position: *mut usize) -> Status;
        /// Makes a configuration; `*config` 0 on entry, or another configuration to start from.
        create_counter_config = c"rocprofiler_create_counter_config"(agent: AgentId, counters: *mut CounterId, count: usize,
            config: *mut CounterConfigId) -> Status;
        /// Frees a configuration.
        destroy_counter_config = c"rocprofiler_destroy_counter_config"(config: CounterConfigId) -> Status;
        /// Counts dispatches into a buffer; in `initialize` only.
        configure_buffer_dispatch_counting_service = c"rocprofiler_configure_buffer_dispatch_counting_service"(context: ContextId,
            buffer: BufferId, callback: Option<DispatchCallback>, data: *mut c_void) -> Status;
        /// Counts dispatches into a callback; in `initialize` only.
        configure_callback_dispatch_counting_service = c"rocprofiler_configure_callback_dispatch_counting_service"(
            context: ContextId, dispatch: Option<DispatchCallback>, dispatch_data: *mut c_void,
            record: Option<CountingRecordCallback>, record_data: *mut c_void) -> Status;
        /// Counts what a device does; in `initialize` only. Buffer 0: only what is sampled is had.
        configure_device_counting_service = c"rocprofiler_configure_device_counting_service"(context: ContextId, buffer: BufferId,
            agent: AgentId, callback: Option<DeviceCountingCallback>, data: *mut c_void) -> Status;
        /// Reads what a device counted.
        sample_device_counting_service = c"rocprofiler_sample_device_counting_service"(context: ContextId, user_data: UserData,
            flags: c_int, records: *mut CounterRecord, count: *mut usize) -> Status;
    }
    optional {
        /// The version as a struct.
        get_version_triplet = c"rocprofiler_get_version_triplet"(version: *mut VersionTriplet) -> Status;
        /// `gettid` of the caller.
        get_thread_id = c"rocprofiler_get_thread_id"(id: *mut u64) -> Status;
        /// Gives a counter's dimensions to a callback; called deprecated from 1.0 on, still exported.
        iterate_counter_dimensions = c"rocprofiler_iterate_counter_dimensions"(counter: CounterId,
            callback: Option<DimensionsCallback>, data: *mut c_void) -> Status;
        /// Instances of a counter; called deprecated from 1.0 on, still exported.
        query_counter_instance_count = c"rocprofiler_query_counter_instance_count"(agent: AgentId, counter: CounterId,
            count: *mut usize) -> Status;
        /// Adds or replaces counter definitions (YAML). Experimental.
        load_counter_definition = c"rocprofiler_load_counter_definition"(yaml: *const c_char, size: usize, flags: c_int) -> Status;
        /// Sets the external correlation id of a thread.
        push_external_correlation_id = c"rocprofiler_push_external_correlation_id"(context: ContextId, thread_id: u64,
            id: UserData) -> Status;
        /// Takes it back.
        pop_external_correlation_id = c"rocprofiler_pop_external_correlation_id"(context: ContextId, thread_id: u64,
            id: *mut UserData) -> Status;
    }
}
