//! What the emulated SDK knows: one of it a process.

use super::agents::AgentEntry;
use super::buffer::{Buffer, CallbackThread};
use super::fault::Faults;
use super::instance::Encoding;
use super::objects::Object;
use super::services::Context;
use super::signals::Signals;
use super::{Data, Options};
use crate::hooks;
use rocprofiler_sdk_sys::Version;
use rocprofiler_sdk_sys::types::FinalizeFn;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

/// A tool that was configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) handle: u32,
    pub(crate) finalize: Option<FinalizeFn>,
    pub(crate) data: Data,
    pub(crate) has_ended: bool,
}

/// Counters to collect at once.
#[derive(Debug)]
pub(crate) struct Config {
    /// Place of the agent among all.
    pub(crate) agent: usize,
    /// Places of the counters in the agent's list, each once.
    pub(crate) counters: Vec<usize>,
}

/// What changes, behind one lock that is never held during a callback.
#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) clients: Vec<Client>,
    pub(crate) contexts: Vec<Arc<Context>>,
    pub(crate) buffers: HashMap<u64, Arc<Buffer>>,
    pub(crate) threads: Vec<Arc<CallbackThread>>,
    pub(crate) configs: HashMap<u64, Arc<Config>>,
    pub(crate) objects: Vec<Arc<Object>>,
    /// Pushed correlation ids by context and thread.
    pub(crate) external: HashMap<(u64, u64), Vec<u64>>,
    last_id: u64,
}

impl Inner {
    /// A handle that was not used before.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn context(&self, id: u64) -> Option<Arc<Context>> {
        self.contexts.iter().find(|context| context.id == id).cloned()
    }
}

/// The SDK.
pub(crate) struct Sdk {
    pub(crate) version: Version,
    pub(crate) faults: Faults,
    pub(crate) encoding: Encoding,
    pub(crate) agents: OnceLock<Vec<AgentEntry>>,
    pub(crate) signals: Signals,
    /// 0 not, -1 being, 1 initialised.
    pub(crate) initialized: AtomicI32,
    /// 0 not, -1 being, 1 finalised.
    pub(crate) finalized: AtomicI32,
    /// The runtime's clock, once it is attached.
    pub(crate) clock: OnceLock<unsafe extern "C" fn() -> u64>,
    /// HIP was initialised before a tool was there, and will never report.
    pub(crate) is_deaf: AtomicBool,
    /// Records made so far, and flushes asked for, for faults that count.
    pub(crate) records: AtomicU64,
    pub(crate) flushes: AtomicU64,
    inner: Mutex<Inner>,
}

static WANTED: Mutex<Option<Options>> = Mutex::new(None);

static SDK: LazyLock<Sdk> = LazyLock::new(|| {
    let wanted = WANTED.lock().unwrap_or_else(PoisonError::into_inner).take();
    let options = wanted.unwrap_or_else(|| {
        Options::from_env().unwrap_or_else(|error| {
            eprintln!("rocm-emu: {error}. The emulated SDK is 1.0.0 without faults.");
            Options::default()
        })
    });
    Sdk::new(options)
});

/// The SDK of this process.
pub(crate) fn sdk() -> &'static Sdk {
    &SDK
}

/// Options for the first use; `false` when it was used already.
pub(crate) fn want(options: Options) -> bool {
    let is_early = LazyLock::get(&SDK).is_none();
    if is_early {
        *WANTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(options);
    }
    is_early
}

impl Sdk {
    fn new(options: Options) -> Self {
        let (late, reorder) = (options.faults.late, options.faults.reorder);
        let initialized = i32::from(options.faults.locked);
        Sdk {
            version: options.version,
            encoding: Encoding::of(options.version),
            faults: options.faults,
            agents: OnceLock::new(),
            signals: Signals::new(late, reorder),
            initialized: AtomicI32::new(initialized),
            finalized: AtomicI32::new(0),
            clock: OnceLock::new(),
            is_deaf: AtomicBool::new(false),
            records: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            inner: Mutex::new(Inner::default()),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a tool's `initialize` runs, the only time at which things can be made.
    pub(crate) fn is_initializing(&self) -> bool {
        self.initialized.load(Ordering::Acquire) < 0
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.finalized.load(Ordering::Acquire) > 0
    }

    /// Contexts that are started.
    pub(crate) fn active(&self) -> Vec<Arc<Context>> {
        self.lock().contexts.iter().filter(|context| context.is_active()).cloned().collect()
    }

    pub(crate) fn buffer(&self, id: u64) -> Option<Arc<Buffer>> {
        self.lock().buffers.get(&id).cloned()
    }

    /// Time of the records' clock: the runtime's virtual one.
    pub(crate) fn now_ns(&self) -> u64 {
        // SAFETY: the runtime's own function, valid as long as the process.
        self.clock.get().map_or(hooks::CLOCK_START_NS, |now| unsafe { now() })
    }
}
