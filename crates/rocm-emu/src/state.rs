//! The process's emulated machine: devices, handles, queues and the virtual clock, behind one lock, with each device's memory
//! behind its own.

#![allow(unsafe_code)]

use crate::clock::Clock;
use crate::config::{self, Config};
use crate::device::DeviceInfo;
use crate::error::{HipError, Result};
use crate::event::Event;
use crate::fault::Faults;
use crate::graph::{Capture, Exec, Graph};
use crate::hooks::{self, CLOCK_START_NS};
use crate::memory::HostMemory;
use crate::module::{Function, Loaded};
use crate::report::Reports;
use crate::stream::Stream;
use crate::tool;
use kbench_gfx_emu::mem::Memory;
use kbench_gfx_emu::model::Model;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

/// Where the first device's addresses start.
const FIRST_ADDRESS: u64 = 0x10_0000_0000;
/// Devices share these addresses out: Linux on x86-64 and AArch64 puts neither mappings nor programs nor heaps there, so that an
/// address tells by itself whose it is.
const DEVICE_ADDRESSES: u64 = 1 << 46;
/// First handle value: nothing that C programs pass by mistake (small numbers, -1).
const FIRST_HANDLE: usize = 0x6d75_0000;

/// A device.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) index: usize,
    pub(crate) model: &'static Model,
    pub(crate) info: DeviceInfo,
    memory: Mutex<Memory>,
}

impl Gpu {
    /// Its memory; a launch holds it while it runs.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) config: Config,
    /// Workgroups to run of each launch; 0 runs all.
    pub(crate) sample: AtomicU64,
    /// Whether launches are reported.
    pub(crate) reports: AtomicBool,
    /// The host's time on the virtual clock, ns.
    host_ns: AtomicU64,
    state: Mutex<State>,
    /// Something that a stream ran has ended.
    ended: Condvar,
}

/// A device's engines.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// When the kernels enqueued so far will have run, ns.
    pub(crate) compute_ns: u64,
    /// When the copies enqueued so far will have run, ns.
    pub(crate) copy_ns: u64,
    /// What every call that needs the device gives, after a fault.
    pub(crate) error: Option<HipError>,
    /// A kernel does not end, and nothing behind it runs.
    pub(crate) is_hung: bool,
    /// The last fault in words.
    pub(crate) fault: Option<String>,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct State {
    next_handle: usize,
    next_id: u64,
    pub(crate) queues: Vec<Queue>,
    pub(crate) streams: HashMap<usize, Stream>,
    /// The default stream of each device.
    pub(crate) default_streams: Vec<usize>,
    /// Streams behind `hipStreamPerThread`.
    pub(crate) thread_streams: HashMap<(ThreadId, usize), usize>,
    pub(crate) events: HashMap<usize, Event>,
    pub(crate) modules: HashMap<usize, Arc<Loaded>>,
    pub(crate) functions: HashMap<usize, Function>,
    pub(crate) captures: HashMap<u64, Capture>,
    pub(crate) graphs: HashMap<usize, Graph>,
    pub(crate) execs: HashMap<usize, Arc<Exec>>,
    /// Device allocations by address, with their device.
    pub(crate) allocations: BTreeMap<u64, usize>,
    /// Pinned memory by address.
    pub(crate) host: BTreeMap<u64, HostMemory>,
    pub(crate) faults: Faults,
    pub(crate) clock: Clock,
    pub(crate) untaken: Reports,
    /// Dispatches so far.
    pub(crate) dispatches: u64,
}

impl State {
    /// A handle that was never given out.
    pub(crate) fn handle(&mut self) -> usize {
        self.next_handle += 0x10;
        self.next_handle
    }

    /// A number that was never given out: of streams, captures, code objects, kernels and calls.
    pub(crate) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The error that a device is stuck in.
    pub(crate) fn healthy(&self, device: usize) -> Result {
        match self.queues.get(device).and_then(|queue| queue.error) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

thread_local! {
    static DEVICE: Cell<usize> = const { Cell::new(0) };
}

/// True once HIP has been used.
pub(crate) fn is_initialised() -> bool {
    RUNTIME.get().is_some()
}

/// What the machine was made of; `None` until HIP is used.
pub(crate) fn config() -> Option<&'static Config> {
    RUNTIME.get().map(|runtime| &runtime.config)
}

/// The machine; the first call makes it, and connects the profiler that waits for it.
pub(crate) fn machine() -> &'static Runtime {
    let runtime = RUNTIME.get_or_init(|| Runtime::new(config::wanted()));
    tool::connect(runtime);
    runtime
}

/// The machine, when it has a device.
///
/// # Errors
/// `hipErrorNoDevice`.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    let runtime = machine();
    if runtime.gpus.is_empty() { Err(HipError::NoDevice) } else { Ok(runtime) }
}

/// The virtual clock of the host, ns; its start when there is no machine yet.
pub(crate) extern "C" fn now_ns() -> u64 {
    RUNTIME.get().map_or(CLOCK_START_NS, |runtime| runtime.host_ns.load(Ordering::SeqCst))
}

impl Runtime {
    fn new(config: Config) -> Self {
        let models = config.models().unwrap_or_default();
        let gpus: Vec<Gpu> = models.into_iter().enumerate().map(|(index, model)| gpu(index, model, &config)).collect();
        let mut state = State {
            next_handle: FIRST_HANDLE,
            next_id: 0,
            queues: gpus.iter().map(|_| Queue::default()).collect(),
            streams: HashMap::new(),
            default_streams: Vec::new(),
            thread_streams: HashMap::new(),
            events: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            captures: HashMap::new(),
            graphs: HashMap::new(),
            execs: HashMap::new(),
            allocations: BTreeMap::new(),
            host: BTreeMap::new(),
            faults: Faults::new(config.faults.clone()),
            clock: Clock::new(config.clock.clone()),
            untaken: Reports::default(),
            dispatches: 0,
        };
        for device in 0..gpus.len() {
            let stream = Stream::new(device, 0, 0, state.id());
            let handle = state.handle();
            state.streams.insert(handle, stream);
            state.default_streams.push(handle);
        }
        Self {
            gpus,
            sample: AtomicU64::new(config.sample),
            reports: AtomicBool::new(config.reports),
            config,
            host_ns: AtomicU64::new(CLOCK_START_NS),
            state: Mutex::new(state),
            ended: Condvar::new(),
        }
    }

    /// The state. Callbacks of the program and of profilers are never called while it is held.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something that a stream ran has ended.
    pub(crate) fn wait_ended<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.ended.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something has ended.
    pub(crate) fn notify_ended(&self) {
        self.ended.notify_all();
    }

    /// The host's time, ns.
    pub(crate) fn now_ns(&self) -> u64 {
        self.host_ns.load(Ordering::SeqCst)
    }

    /// The host spends `ns`; gives the time after it.
    pub(crate) fn spend(&self, ns: u64) -> u64 {
        self.host_ns.fetch_add(ns, Ordering::SeqCst) + ns
    }

    /// The host waits until `ns`.
    pub(crate) fn wait_until(&self, ns: u64) {
        self.host_ns.fetch_max(ns, Ordering::SeqCst);
    }

    /// The device that an address belongs to by its value; `None` when it is an address of the host.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when it is one of a device that is not there.
    pub(crate) fn owner(&self, address: u64) -> Result<Option<usize>> {
        if !(FIRST_ADDRESS..DEVICE_ADDRESSES).contains(&address) {
            return Ok(None);
        }
        let index = (address / addresses_of_a_device(self.gpus.len())) as usize;
        self.gpu(index).map(|gpu| Some(gpu.index)).map_err(|_| HipError::InvalidValue)
    }

    /// The calling thread's device.
    pub(crate) fn current(&self) -> Result<&Gpu> {
        self.gpu(DEVICE.get())
    }

    /// A device by number.
    ///
    /// # Errors
    /// `hipErrorInvalidDevice`.
    pub(crate) fn gpu(&self, index: usize) -> Result<&Gpu> {
        self.gpus.get(index).ok_or(HipError::InvalidDevice)
    }

    /// A device by the number that a C caller gave.
    ///
    /// # Errors
    /// `hipErrorInvalidDevice`.
    pub(crate) fn device(&self, index: i32) -> Result<&Gpu> {
        usize::try_from(index).map_err(|_| HipError::InvalidDevice).and_then(|index| self.gpu(index))
    }
}

/// Makes a device the calling thread's.
pub(crate) fn set_device(index: usize) {
    DEVICE.set(index);
}

/// How many addresses each of some devices has.
fn addresses_of_a_device(devices: usize) -> u64 {
    DEVICE_ADDRESSES / (devices.max(1) as u64).next_power_of_two()
}

fn gpu(index: usize, model: &'static Model, config: &Config) -> Gpu {
    let capacity = config.memory_bytes.unwrap_or_else(|| model.memory_bytes());
    let size = addresses_of_a_device(config.devices.len());
    let start = index as u64 * size;
    let mut memory = Memory::within(start + FIRST_ADDRESS..start + size, capacity);
    memory.set_bounds(config.bounds);
    let info = DeviceInfo::of(index, model, capacity);
    Gpu { index, model, info, memory: Mutex::new(memory) }
}

/// Never returns: what waits for a hung device does. Whoever watches the process ends it.
pub(crate) fn block_forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// What the runtime says of itself to a profiler.
pub(crate) fn describe(runtime: &Runtime) -> hooks::Runtime {
    hooks::Runtime {
        size: std::mem::size_of::<hooks::Runtime>(),
        abi_version: hooks::ABI_VERSION,
        devices: runtime.gpus.len() as u32,
        hip_version: crate::device::HIP_VERSION as u32,
        reserved: 0,
        now_ns: now_for_tools,
    }
}

unsafe extern "C" fn now_for_tools() -> u64 {
    now_ns()
}
