//! One list of all functions, from which the table of names and the shared library's exports are made.

use super::state::sdk;
use super::{Version, abi::*, api};
use rocprofiler_sdk_sys::Status;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Once;

/// Calls a macro with the list of the functions that give a status: `name(argument: type, ...);`. Types are those of [`super::abi`],
/// `std::ffi` and [`Status`].
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_sdk_function {
    ($callback:ident) => {
        $callback! {
            rocprofiler_get_version(major: *mut u32, minor: *mut u32, patch: *mut u32);
            rocprofiler_get_version_triplet(version: *mut VersionTriplet);
            rocprofiler_get_timestamp(ns: *mut u64);
            rocprofiler_get_thread_id(id: *mut u64);
            rocprofiler_is_initialized(answer: *mut c_int);
            rocprofiler_is_finalized(answer: *mut c_int);
            rocprofiler_force_configure(configure: Option<ConfigureFn>);
            rocprofiler_create_context(context: *mut ContextId);
            rocprofiler_start_context(context: ContextId);
            rocprofiler_stop_context(context: ContextId);
            rocprofiler_context_is_valid(context: ContextId, answer: *mut c_int);
            rocprofiler_context_is_active(context: ContextId, answer: *mut c_int);
            rocprofiler_create_buffer(context: ContextId, size: usize, watermark: usize, policy: c_int,
                callback: Option<BufferCallback>, data: *mut c_void, buffer: *mut BufferId);
            rocprofiler_flush_buffer(buffer: BufferId);
            rocprofiler_destroy_buffer(buffer: BufferId);
            rocprofiler_create_callback_thread(thread: *mut CallbackThread);
            rocprofiler_assign_callback_thread(buffer: BufferId, thread: CallbackThread);
            rocprofiler_configure_buffer_tracing_service(context: ContextId, kind: c_int, operations: *const i32, count: usize,
                buffer: BufferId);
            rocprofiler_configure_callback_tracing_service(context: ContextId, kind: c_int, operations: *const i32, count: usize,
                callback: Option<CallbackTracingCallback>, data: *mut c_void);
            rocprofiler_query_available_agents(version: c_int, callback: Option<AgentsCallback>, agent_size: usize,
                data: *mut c_void);
            rocprofiler_iterate_agent_supported_counters(agent: AgentId, callback: Option<CountersCallback>, data: *mut c_void);
            rocprofiler_query_counter_info(counter: CounterId, version: c_int, info: *mut c_void);
            rocprofiler_query_record_counter_id(id: u64, counter: *mut CounterId);
            rocprofiler_query_record_dimension_position(id: u64, dimension: u64, position: *mut usize);
            rocprofiler_iterate_counter_dimensions(counter: CounterId, callback: Option<DimensionsCallback>, data: *mut c_void);
            rocprofiler_query_counter_instance_count(agent: AgentId, counter: CounterId, count: *mut usize);
            rocprofiler_create_counter_config(agent: AgentId, counters: *mut CounterId, count: usize,
                config: *mut CounterConfigId);
            rocprofiler_destroy_counter_config(config: CounterConfigId);
            rocprofiler_configure_buffer_dispatch_counting_service(context: ContextId, buffer: BufferId,
                callback: Option<DispatchCallback>, data: *mut c_void);
            rocprofiler_configure_callback_dispatch_counting_service(context: ContextId, dispatch: Option<DispatchCallback>,
                dispatch_data: *mut c_void, record: Option<CountingRecordCallback>, record_data: *mut c_void);
            rocprofiler_configure_device_counting_service(context: ContextId, buffer: BufferId, agent: AgentId,
                callback: Option<DeviceCountingCallback>, data: *mut c_void);
            rocprofiler_sample_device_counting_service(context: ContextId, user_data: UserData, flags: c_int,
                records: *mut CounterRecord, count: *mut usize);
            rocprofiler_push_external_correlation_id(context: ContextId, thread: u64, id: UserData);
            rocprofiler_pop_external_correlation_id(context: ContextId, thread: u64, id: *mut UserData);
        }
    };
}

macro_rules! look_up {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        /// The address of a function of the list.
        fn address(name: &str) -> Option<*const c_void> {
            Some(match name {
                $(stringify!($name) => {
                    let function: unsafe extern "C" fn($($type),*) -> Status = api::$name;
                    function as *const c_void
                })*
                _ => return None,
            })
        }
    };
}

for_each_sdk_function!(look_up);

/// A function of the SDK by its name, as the version has it; `None` for one that it does not export.
///
/// The first call makes the SDK known to the emulated HIP runtime of the same program, as loading the library does.
pub fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    let sdk = sdk();
    static LOADED: Once = Once::new();
    LOADED.call_once(|| crate::hooks::register(Some(super::attach)));
    let name = name.to_str().ok()?;
    if sdk.faults.missing.iter().any(|missing| missing == name) {
        return None;
    }
    let name = in_version(sdk.version, name)?;
    let of_other_types: Option<*const c_void> = match name {
        "rocprofiler_get_status_name" => {
            let function: extern "C" fn(Status) -> *const c_char = api::rocprofiler_get_status_name;
            Some(function as *const c_void)
        }
        "rocprofiler_get_status_string" => {
            let function: extern "C" fn(Status) -> *const c_char = api::rocprofiler_get_status_string;
            Some(function as *const c_void)
        }
        "rocprofiler_set_api_table" => {
            let function: SetApiTable = api::rocprofiler_set_api_table;
            Some(function as *const c_void)
        }
        _ => None,
    };
    NonNull::new(of_other_types.or_else(|| address(name))?.cast_mut())
}

/// What runtimes call to hand their tables over.
type SetApiTable = unsafe extern "C" fn(*const c_char, u64, u64, *mut *mut c_void, u64) -> c_int;

/// Names that changed with 1.0: before, since.
const RENAMED: [(&str, &str); 2] = [
    (
        "rocprofiler_configure_buffered_dispatch_counting_service",
        "rocprofiler_configure_buffer_dispatch_counting_service",
    ),
    ("rocprofiler_create_profile_config", "rocprofiler_create_counter_config"),
];

/// Functions that came with 1.0.
const SINCE_1_0: [&str; 1] = ["rocprofiler_get_version_triplet"];

/// The present name of a function that a version exports under `name`.
fn in_version(version: Version, name: &str) -> Option<&str> {
    let is_old = version < Version::MINIMUM;
    let renamed = RENAMED.iter().find(|(before, since)| *before == name || *since == name);
    match renamed {
        Some((before, since)) if (*before == name) == is_old => Some(since),
        Some(_) => None,
        None if is_old && SINCE_1_0.contains(&name) => None,
        None => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_changed_with_1_0() {
        let (old, new) = (Version::new(0, 6, 0), Version::new(1, 0, 0));
        for (before, since) in RENAMED {
            assert_eq!(in_version(old, before), Some(since));
            assert_eq!(in_version(old, since), None);
            assert_eq!(in_version(new, before), None);
            assert_eq!(in_version(new, since), Some(since));
        }
        assert_eq!(in_version(old, "rocprofiler_get_version_triplet"), None);
        assert_eq!(in_version(old, "rocprofiler_get_version"), Some("rocprofiler_get_version"));
    }

    #[test]
    fn functions_are_found_by_name() {
        for name in [c"rocprofiler_get_version", c"rocprofiler_get_status_name", c"rocprofiler_set_api_table"] {
            assert!(symbol(name).is_some(), "{name:?}");
        }
        assert!(symbol(c"rocprofiler_create_counter").is_none());
        assert!(symbol(c"hipInit").is_none());
    }
}
