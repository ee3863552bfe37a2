//! From the runtime's reports to records: the SDK half of [`crate::hooks`].

use super::services::{Context, Counting, Deliver};
use super::state::{Config, Sdk, sdk};
use super::{Data, bytes_of, guarded};
use crate::hooks;
use crate::sdk::derived::Values;
use crate::sdk::objects::Object;
use rocprofiler_sdk_sys::Version;
use rocprofiler_sdk_sys::types::*;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// What tools want of a dispatch that runs.
#[derive(Debug, Default)]
struct Wanted {
    /// Buffers of traces, with the external correlation id of their context.
    traces: Vec<(u64, UserData)>,
    counted: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    service: Counting,
    config: Arc<Config>,
    user: UserData,
    external: UserData,
}

static RUNNING: Mutex<Option<HashMap<u64, Wanted>>> = Mutex::new(None);

fn running<R>(change: impl FnOnce(&mut HashMap<u64, Wanted>) -> R) -> R {
    change(RUNNING.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Bytes of a dispatch's info without its reserve: what its `size` says.
const INFO_SIZE: u64 = offset_of!(KernelDispatchInfo, reserved) as u64;

/// The function that the runtime calls when it is initialised.
///
/// # Safety
/// As [`hooks::Attach`] says.
pub unsafe extern "C" fn attach(runtime: *const hooks::Runtime, tool: *mut hooks::Tool) -> c_int {
    guarded(1, || {
        let sdk = sdk();
        // SAFETY: both are valid, as the contract says.
        let (Some(runtime), Some(tool)) = (unsafe { (runtime.as_ref(), tool.as_mut()) }) else { return 1 };
        if runtime.abi_version != hooks::ABI_VERSION || sdk.faults.unregistered {
            return 1;
        }
        let is_configured = !sdk.lock().clients.is_empty();
        // Late tools are heard of from 1.3 on only.
        if !is_configured && sdk.version < Version::new(1, 3, 0) {
            sdk.is_deaf.store(true, Ordering::Release);
            return 1;
        }
        let gpus = sdk.agents().iter().filter(|agent| agent.is_gpu).count();
        if gpus < runtime.devices as usize {
            eprintln!("rocprofiler-sdk: agent.cpp: Found {gpus} rocprofiler agents and {} HSA agents", runtime.devices);
            std::process::abort();
        }
        let _ = sdk.clock.set(runtime.now_ns);
        tool.data = std::ptr::null_mut();
        tool.code_object_loaded = Some(code_object_loaded);
        tool.code_object_unloaded = Some(code_object_unloaded);
        tool.dispatch_enqueued = Some(dispatch_enqueued);
        tool.dispatch_completed = Some(dispatch_completed);
        0
    })
}

unsafe extern "C" fn code_object_loaded(_: *mut c_void, object: *const hooks::CodeObject) {
    guarded((), || {
        // SAFETY: valid during the call.
        let Some(object) = (unsafe { object.as_ref().map(|object| Arc::new(Object::of(object))) }) else { return };
        let sdk = sdk();
        sdk.lock().objects.push(Arc::clone(&object));
        sdk.announce(&sdk.active(), &object, true);
    });
}

unsafe extern "C" fn code_object_unloaded(_: *mut c_void, object: *const hooks::CodeObject) {
    guarded((), || {
        // SAFETY: valid during the call.
        let Some(object) = (unsafe { object.as_ref().map(|object| Object::of(object)) }) else { return };
        let sdk = sdk();
        sdk.lock().objects.retain(|kept| kept.id() != object.id());
        sdk.announce(&sdk.active(), &object, false);
    });
}

unsafe extern "C" fn dispatch_enqueued(_: *mut c_void, dispatch: *const hooks::Dispatch) -> c_int {
    guarded(0, || {
        // SAFETY: valid during the call.
        let Some(dispatch) = (unsafe { dispatch.as_ref() }) else { return 0 };
        c_int::from(sdk().enqueued(dispatch))
    })
}

unsafe extern "C" fn dispatch_completed(_: *mut c_void, dispatch: *const hooks::Dispatch) {
    guarded((), || {
        // SAFETY: valid during the call.
        if let Some(dispatch) = unsafe { dispatch.as_ref() } {
            sdk().completed(dispatch);
        }
    });
}

/// A dispatch that ended, with copies of all that its records need.
struct Ended {
    info: KernelDispatchInfo,
    correlation: u64,
    thread_id: u64,
    start_ns: u64,
    end_ns: u64,
    totals: Vec<(String, f64)>,
    wanted: Wanted,
}

fn info_of(dispatch: &hooks::Dispatch) -> KernelDispatchInfo {
    let dim = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
    KernelDispatchInfo {
        size: INFO_SIZE,
        agent_id: AgentId { handle: dispatch.agent },
        queue_id: QueueId { handle: dispatch.queue },
        kernel_id: dispatch.kernel_id,
        dispatch_id: dispatch.dispatch_id,
        private_segment_size: dispatch.private_segment,
        group_segment_size: dispatch.group_segment,
        workgroup_size: dim(dispatch.workgroup),
        grid_size: dim(dispatch.grid),
        reserved: [0; 56],
    }
}

impl Sdk {
    /// Asks the tools what they want of a dispatch; whether counters are wanted.
    fn enqueued(&self, dispatch: &hooks::Dispatch) -> bool {
        let info = info_of(dispatch);
        let mut wanted = Wanted::default();
        let mut counts_device = false;
        for context in self.active() {
            let services = context.services();
            let external = self.external(context.id, dispatch.thread);
            wanted.traces.extend(services.traces.iter().map(|buffer| (*buffer, external)));
            for service in &services.counting {
                wanted.counted.extend(self.choose(&context, service, &info, dispatch, external));
            }
            counts_device |=
                services.devices.iter().any(|device| device.agent == dispatch.agent && device.lock().config.is_some());
        }
        let counts = counts_device || !wanted.counted.is_empty();
        running(|running| running.insert(dispatch.dispatch_id, wanted));
        counts
    }

    fn choose(
        &self,
        context: &Context,
        service: &Counting,
        info: &KernelDispatchInfo,
        dispatch: &hooks::Dispatch,
        external: UserData,
    ) -> Option<Counted> {
        let data = DispatchCountingData {
            size: size_of::<DispatchCountingData>() as u64,
            correlation_id: AsyncCorrelationId { internal: dispatch.correlation_id, external },
            start_timestamp: 0,
            end_timestamp: 0,
            dispatch_info: *info,
        };
        let (mut config, mut user) = (CounterConfigId::NONE, UserData(0));
        let Data(pointer) = service.choose_data;
        // SAFETY: the tool's callback and data, and two outputs.
        unsafe { service.choose?(data, &mut config, &mut user, pointer) };
        if config == CounterConfigId::NONE {
            return None;
        }
        let Some(found) = self.lock().configs.get(&config.handle).cloned() else {
            eprintln!(
                "rocprofiler-sdk: Callback threw an exception: no counter config {} (context {})",
                config.handle, context.id
            );
            std::process::abort();
        };
        if self.agents().get(found.agent).is_none_or(|agent| agent.handle != dispatch.agent) {
            eprintln!("rocprofiler-sdk: counter config {} is for another agent: dispatch not counted", config.handle);
            return None;
        }
        Some(Counted { service: *service, config: found, user, external })
    }

    /// What a thread's tool pushed last.
    fn external(&self, context: u64, thread: u64) -> UserData {
        UserData(self.lock().external.get(&(context, thread)).and_then(|stack| stack.last().copied()).unwrap_or(0))
    }

    fn completed(&'static self, dispatch: &hooks::Dispatch) {
        let wanted = running(|running| running.remove(&dispatch.dispatch_id)).unwrap_or_default();
        // SAFETY: as many counters as said, with terminated names, valid during the call.
        let mut totals = unsafe { totals_of(dispatch) };
        for (_, value) in &mut totals {
            *value *= self.faults.inflate.map_or(1.0, |factor| factor as f64);
            if self.faults.zero_counters {
                *value = 0.0;
            }
        }
        for device in self.active().iter().flat_map(|context| context.services().devices) {
            if device.agent == dispatch.agent {
                let mut state = device.lock();
                for (name, value) in &totals {
                    *state.totals.entry(name.clone()).or_default() += value;
                }
            }
        }
        if wanted.traces.is_empty() && wanted.counted.is_empty() {
            return;
        }
        let number = self.records.fetch_add(1, Ordering::Relaxed) + 1;
        let is_every = |every: u64| every != 0 && number.is_multiple_of(every);
        if is_every(self.faults.lose) {
            return;
        }
        let (start_ns, end_ns) = if is_every(self.faults.zero_time) {
            (0, 0)
        } else {
            adjusted(dispatch.enqueued_ns, dispatch.start_ns, dispatch.end_ns)
        };
        let (info, thread_id, correlation) = (info_of(dispatch), dispatch.thread, dispatch.correlation_id);
        let ended = Ended { info, correlation, thread_id, start_ns, end_ns, totals, wanted };
        self.signals.push(Box::new(move || guarded((), || self.record(&ended))));
    }

    /// Makes the records of a dispatch.
    fn record(&self, ended: &Ended) {
        let correlation = |external| AsyncCorrelationId { internal: ended.correlation, external };
        for (buffer, external) in &ended.wanted.traces {
            let Some(buffer) = self.buffer(*buffer) else { continue };
            // Newer versions append the pipe that ran the kernel; faults append more.
            let pipe = if self.version >= Version::new(1, 3, 5) { 8 } else { 0 };
            let size = size_of::<KernelDispatchRecord>() + pipe + self.faults.grow;
            let record = KernelDispatchRecord {
                size: size as u64,
                kind: buffer_tracing::KERNEL_DISPATCH as u32,
                operation: KERNEL_DISPATCH_COMPLETE,
                correlation_id: correlation(*external),
                thread_id: ended.thread_id,
                start_timestamp: ended.start_ns,
                end_timestamp: ended.end_ns,
                dispatch_info: ended.info,
            };
            let mut bytes = bytes_of(&record).to_vec();
            bytes.resize(size, 0xff);
            buffer.emplace(category::TRACING, buffer_tracing::KERNEL_DISPATCH as u32, &bytes);
        }
        for counted in &ended.wanted.counted {
            let mut values = Vec::new();
            let totals = ended.totals.iter().map(|(name, value)| (name.as_str(), *value));
            self.records_of(&counted.config, totals, ended.info.dispatch_id, counted.user, &mut values);
            match counted.service.deliver {
                Deliver::Callback(callback, Data(pointer)) => {
                    let data = DispatchCountingData {
                        size: size_of::<DispatchCountingData>() as u64,
                        correlation_id: correlation(counted.external),
                        start_timestamp: ended.start_ns,
                        end_timestamp: ended.end_ns,
                        dispatch_info: ended.info,
                    };
                    if let Some(callback) = callback {
                        // SAFETY: the tool's callback and data, and as many values as said.
                        unsafe { callback(data, values.as_mut_ptr(), values.len(), counted.user, pointer) };
                    }
                }
                Deliver::Buffer(buffer) => self.put_group(buffer, ended, correlation(counted.external), &values),
            }
        }
    }

    /// A header and its values into a buffer.
    fn put_group(&self, buffer: u64, ended: &Ended, correlation_id: AsyncCorrelationId, values: &[CounterRecord]) {
        // One group at a time, as the real SDK has it.
        static GROUPS: Mutex<()> = Mutex::new(());
        let Some(buffer) = self.buffer(buffer) else { return };
        let _one = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
        let header = DispatchCountingRecord {
            size: size_of::<DispatchCountingRecord>() as u64,
            num_records: values.len() as u64,
            correlation_id,
            start_timestamp: ended.start_ns,
            end_timestamp: ended.end_ns,
            dispatch_info: ended.info,
        };
        buffer.emplace(category::COUNTERS, counter_record::DISPATCH_HEADER, bytes_of(&header));
        for (index, value) in values.iter().enumerate() {
            if self.faults.split && index == values.len() / 2 {
                buffer.flush_after();
            }
            buffer.emplace(category::COUNTERS, counter_record::VALUE, bytes_of(value));
        }
    }

    /// The values of a configuration's counters; a counter that was not counted has none.
    pub(crate) fn records_of<'a>(
        &self,
        config: &Config,
        totals: impl Iterator<Item = (&'a str, f64)>,
        dispatch_id: u64,
        user_data: UserData,
        out: &mut Vec<CounterRecord>,
    ) {
        let Some(agent) = self.agents().get(config.agent) else { return };
        let totals = Values::new(totals, agent.cus, agent.simds);
        let place = config.agent as u32;
        for counter in config.counters.iter().filter_map(|counter| agent.counters.get(*counter)) {
            for (index, value) in counter.values(&totals).unwrap_or_default().into_iter().enumerate() {
                out.push(CounterRecord {
                    instance_id: self.encoding.instance(counter, place, index),
                    value,
                    dispatch_id,
                    user_data,
                    agent_id: AgentId { handle: agent.handle },
                });
            }
        }
    }
}

/// What the SDK does to times: a start after the end changes places with it, and none is before the dispatch was enqueued.
fn adjusted(enqueued: u64, start: u64, end: u64) -> (u64, u64) {
    let (start, end) = (start.min(end), start.max(end));
    let shift = enqueued.saturating_sub(start);
    (start + shift, end + shift)
}

/// # Safety
/// As many counters as the dispatch says, with terminated names.
unsafe fn totals_of(dispatch: &hooks::Dispatch) -> Vec<(String, f64)> {
    if dispatch.counters.is_null() {
        return Vec::new();
    }
    // SAFETY: as above.
    let list = unsafe { std::slice::from_raw_parts(dispatch.counters, dispatch.counters_len) };
    let read = |counter: &hooks::CounterValue| {
        // SAFETY: NULL or terminated.
        let name = unsafe { rocprofiler_name(counter.name)? };
        Some((name, counter.value))
    };
    list.iter().filter_map(read).collect()
}

/// # Safety
/// NULL or terminated.
unsafe fn rocprofiler_name(name: *const std::ffi::c_char) -> Option<String> {
    // SAFETY: not NULL, hence terminated.
    (!name.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::adjusted;

    #[test]
    fn times_are_adjusted_as_the_sdk_does() {
        assert_eq!(adjusted(100, 110, 150), (110, 150));
        assert_eq!(adjusted(100, 150, 110), (110, 150));
        assert_eq!(adjusted(100, 90, 120), (100, 130));
        assert_eq!(adjusted(100, 0, 0), (100, 100));
    }
}
