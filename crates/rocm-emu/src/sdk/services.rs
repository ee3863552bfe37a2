//! Contexts and their services.

use super::Data;
use super::state::Sdk;
use rocprofiler_sdk_sys::Status;
use rocprofiler_sdk_sys::types::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tells of code objects.
#[derive(Clone, Debug)]
pub(crate) struct CodeObjects {
    /// Operations; none is all.
    pub(crate) operations: Vec<i32>,
    pub(crate) callback: Option<CallbackTracingCallback>,
    pub(crate) data: Data,
}

/// Counts dispatches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    pub(crate) choose: Option<DispatchCallback>,
    pub(crate) choose_data: Data,
    pub(crate) deliver: Deliver,
}

/// Where counters of dispatches go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deliver {
    Callback(Option<CountingRecordCallback>, Data),
    Buffer(u64),
}

/// Counts what an agent does.
#[derive(Debug)]
pub(crate) struct DeviceCounting {
    pub(crate) buffer: u64,
    pub(crate) agent: u64,
    pub(crate) callback: Option<DeviceCountingCallback>,
    pub(crate) data: Data,
    state: Mutex<DeviceState>,
}

/// What was counted since the start.
#[derive(Debug, Default)]
pub(crate) struct DeviceState {
    pub(crate) config: Option<u64>,
    pub(crate) totals: HashMap<String, f64>,
}

impl DeviceCounting {
    pub(crate) fn new(buffer: u64, agent: u64, callback: Option<DeviceCountingCallback>, data: Data) -> Arc<Self> {
        Arc::new(DeviceCounting { buffer, agent, callback, data, state: Mutex::default() })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, DeviceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The services of a context.
#[derive(Clone, Debug, Default)]
pub(crate) struct Services {
    pub(crate) code_objects: Vec<CodeObjects>,
    /// Buffers that dispatches are traced into.
    pub(crate) traces: Vec<u64>,
    pub(crate) counting: Vec<Counting>,
    pub(crate) devices: Vec<Arc<DeviceCounting>>,
}

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) id: u64,
    active: AtomicBool,
    services: Mutex<Services>,
}

impl Context {
    pub(crate) fn new(id: u64) -> Arc<Self> {
        Arc::new(Context { id, active: AtomicBool::new(false), services: Mutex::default() })
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Makes it active or not; whether it was.
    pub(crate) fn set_active(&self, active: bool) -> bool {
        self.active.swap(active, Ordering::AcqRel)
    }

    /// A copy, so that no lock is held during callbacks.
    pub(crate) fn services(&self) -> Services {
        self.services.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Services) -> Status) -> Status {
        change(&mut self.services.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

thread_local! {
    /// The context whose device counting is being started in this thread.
    static STARTING: Cell<Option<u64>> = const { Cell::new(None) };
}

impl Sdk {
    /// Starts a context.
    pub(crate) fn start(&self, id: u64) -> Status {
        if self.has_ended() {
            return Status::CONFIGURATION_LOCKED;
        }
        let Some(context) = self.lock().context(id) else { return Status::CONTEXT_NOT_FOUND };
        if context.is_active() {
            return Status::SUCCESS;
        }
        let services = context.services();
        let counts = !services.counting.is_empty() || !services.devices.is_empty();
        if counts && self.conflicts(&services) {
            return Status::CONTEXT_CONFLICT;
        }
        if counts && self.faults.permission_denied {
            eprintln!("rocprofiler-sdk: counting was denied by the driver (CAP_PERFMON or perf_event_paranoid)");
            return Status::PERMISSION_DENIED;
        }
        if counts && self.faults.device_lock {
            eprintln!(
                "rocprofiler-sdk: device could not be locked for profiling due to lack of permissions (capability SYS_PERFMON)"
            );
        }
        for device in &services.devices {
            if self.clock.get().is_none() {
                return Status::HSA_NOT_LOADED;
            }
            device.lock().totals.clear();
            if let Some(callback) = device.callback {
                let was = STARTING.replace(Some(id));
                // SAFETY: the tool's callback and data; the function given may be called during it.
                unsafe {
                    callback(
                        ContextId { handle: id },
                        AgentId { handle: device.agent },
                        Some(set_config),
                        device.data.0,
                    )
                };
                STARTING.set(was);
            }
        }
        context.set_active(true);
        Status::SUCCESS
    }

    /// Whether an active context counts dispatches, or the same device.
    fn conflicts(&self, wanted: &Services) -> bool {
        self.active().iter().map(|context| context.services()).any(|other| {
            let same = |device: &Arc<DeviceCounting>| wanted.devices.iter().any(|mine| mine.agent == device.agent);
            !wanted.counting.is_empty() && !other.counting.is_empty() || other.devices.iter().any(same)
        })
    }

    /// Stops a context; one that is not active is not found.
    pub(crate) fn stop(&self, id: u64) -> Status {
        let context = self.lock().context(id);
        match context {
            Some(context) if context.set_active(false) => Status::SUCCESS,
            _ => Status::CONTEXT_NOT_FOUND,
        }
    }

    /// Reads what a context's device counted.
    pub(crate) fn sample(
        &self,
        id: u64,
        user: UserData,
        is_async: bool,
        out: Option<&mut [CounterRecord]>,
    ) -> Result<usize, Status> {
        let context = self.lock().context(id).ok_or(Status::CONTEXT_INVALID)?;
        let services = context.services();
        if services.devices.is_empty() {
            return Err(Status::CONTEXT_INVALID);
        }
        if is_async && out.is_some() {
            return Err(Status::INVALID_ARGUMENT);
        }
        if !context.is_active() {
            return Err(Status::CONTEXT_NOT_STARTED);
        }
        let mut records = Vec::new();
        for device in &services.devices {
            let state = device.lock();
            let config = state.config.and_then(|config| self.lock().configs.get(&config).cloned());
            let Some(config) = config else { continue };
            let totals = state.totals.iter().map(|(name, value)| (name.as_str(), *value));
            let first = records.len();
            self.records_of(&config, totals, 0, user, &mut records);
            drop(state);
            if let (Some(buffer), Some(new)) = (self.buffer(device.buffer), records.get(first..)) {
                for record in new {
                    buffer.emplace(category::COUNTERS, counter_record::VALUE, super::bytes_of(record));
                }
            }
        }
        if let Some(out) = out {
            let place = out.get_mut(..records.len()).ok_or(Status::OUT_OF_RESOURCES)?;
            place.copy_from_slice(&records);
        }
        Ok(records.len())
    }
}

/// What a device counting callback calls.
unsafe extern "C" fn set_config(context: ContextId, config: CounterConfigId) -> Status {
    super::call("rocprofiler_device_counting_set_config", || {
        if STARTING.get() != Some(context.handle) {
            return Status::CONFIGURATION_LOCKED;
        }
        let sdk = super::state::sdk();
        let (context, found) = {
            let inner = sdk.lock();
            (inner.context(context.handle), inner.configs.get(&config.handle).cloned())
        };
        let Some(context) = context else { return Status::CONTEXT_INVALID };
        let Some(found) = found else { return Status::CONFIG_NOT_FOUND };
        let agent = sdk.agents().get(found.agent).map(|agent| agent.handle);
        let services = context.services();
        let mut of_agent = services.devices.iter().filter(|device| Some(device.agent) == agent).peekable();
        if of_agent.peek().is_none() {
            return Status::AGENT_MISMATCH;
        }
        of_agent.for_each(|device| device.lock().config = Some(config.handle));
        Status::SUCCESS
    })
}
