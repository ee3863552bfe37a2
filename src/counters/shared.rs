//! What the SDK's callbacks and the collection share. Callbacks copy and return; nothing here calls HIP.

use super::request::KernelChoice;
use kbench_counters::collect::wire::{ENTRY_BYTES, Entry, HEADER_BYTES, Header, Position};
use kbench_counters::ring::Producer;
use rocprofiler_sdk_sys::Sdk;
use rocprofiler_sdk_sys::instance::InstanceIds;
use rocprofiler_sdk_sys::session::{CodeObjectEvent, CounterConfig, Dispatch, KernelSymbol};
use rocprofiler_sdk_sys::types::CounterRecord;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// Dimensions that an instance can have a place in (XCC to INSTANCE).
const DIMENSIONS: std::ops::RangeInclusive<u64> = 1..=7;

/// What is counted now.
#[derive(Default)]
struct Now {
    /// The configuration of the pass; without one nothing is counted.
    config: Option<CounterConfig>,
    replayed: Replayed,
}

/// What the SDK told of one replay of a case.
#[derive(Default)]
pub(super) struct Replayed {
    /// Dispatches of the case, counted or not.
    pub(super) seen: usize,
    /// Those that are counted, in order, with their place among all.
    pub(super) launched: Vec<(usize, Dispatch)>,
}

/// A kernel, and whether its launches are counted.
struct Known {
    symbol: KernelSymbol,
    is_chosen: bool,
}

/// Reading of instance ids, with the memory that a record is put together in.
struct Reader {
    ids: InstanceIds,
    /// Index in the collection's list by the SDK's number of a counter.
    indices: HashMap<u16, u32>,
    /// Positions that were asked for before.
    positions: HashMap<u64, Option<(u32, Position)>>,
    /// The bytes of a record's entries.
    entries: Vec<u8>,
}

/// State that lives as long as the process.
pub(super) struct Shared {
    now: Mutex<Now>,
    /// Kernels by the SDK's number. Dispatches of the runtime's own (copies, fills) are nobody's.
    kernels: RwLock<HashMap<u64, Known>>,
    choice: KernelChoice,
    reader: Mutex<Reader>,
    ring: Producer,
}

/// A kernel's name for people.
pub(super) fn demangled(name: &str) -> String {
    kbench_profile::names::demangle(name).unwrap_or_else(|| name.to_owned())
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(sdk: &'static Sdk, ring: Producer, choice: KernelChoice) -> Self {
        let reader = Reader {
            ids: InstanceIds::new(sdk),
            indices: HashMap::new(),
            positions: HashMap::new(),
            entries: Vec::new(),
        };
        Self { now: Mutex::default(), kernels: RwLock::default(), choice, reader: Mutex::new(reader), ring }
    }

    /// The counters of the collection: the SDK's number of each, in the order of the collection's list.
    pub(super) fn set_counters(&self, numbers: impl Iterator<Item = u16>) {
        lock(&self.reader).indices = numbers.zip(0..).collect();
    }

    /// From now on dispatches are counted.
    pub(super) fn begin(&self, config: CounterConfig) {
        let mut now = lock(&self.now);
        now.config = Some(config);
        now.replayed = Replayed::default();
    }

    /// No more; gives what there was since.
    pub(super) fn end(&self) -> Replayed {
        let mut now = lock(&self.now);
        now.config = None;
        std::mem::take(&mut now.replayed)
    }

    /// A kernel or code object was loaded.
    pub(super) fn loaded(&self, event: &CodeObjectEvent) {
        if let CodeObjectEvent::Kernel(kernel) = event {
            let is_chosen = self.choice.takes(&demangled(&kernel.name));
            let known = Known { symbol: kernel.clone(), is_chosen };
            self.kernels.write().unwrap_or_else(PoisonError::into_inner).insert(kernel.kernel_id, known);
        }
    }

    /// A kernel by the SDK's number.
    pub(super) fn kernel(&self, id: u64) -> Option<KernelSymbol> {
        self.kernels.read().unwrap_or_else(PoisonError::into_inner).get(&id).map(|known| known.symbol.clone())
    }

    /// What a dispatch counts, in the launching thread.
    pub(super) fn choose(&self, dispatch: &Dispatch) -> Option<CounterConfig> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        let known = kernels.get(&dispatch.kernel_id);
        if known.is_some_and(|known| known.symbol.is_of_runtime()) {
            return None;
        }
        let is_chosen = known.is_none_or(|known| known.is_chosen);
        drop(kernels);
        let mut now = lock(&self.now);
        let config = now.config.filter(|config| config.agent() == dispatch.agent)?;
        let place = now.replayed.seen;
        now.replayed.seen += 1;
        if is_chosen {
            now.replayed.launched.push((place, *dispatch));
        }
        is_chosen.then_some(config)
    }

    /// The values of a dispatch: into the ring, in as many records as they need.
    pub(super) fn counted(&self, dispatch: &Dispatch, values: &[CounterRecord]) {
        let mut reader = lock(&self.reader);
        reader.entries.clear();
        for value in values {
            reader.add(value);
        }
        let header = Header {
            dispatch_id: dispatch.dispatch_id,
            start_ns: dispatch.start_ns,
            end_ns: dispatch.end_ns,
            total: (reader.entries.len() / ENTRY_BYTES) as u32,
            count: 0,
        };
        let most = (self.ring.largest_record().saturating_sub(HEADER_BYTES) / ENTRY_BYTES).max(1) * ENTRY_BYTES;
        if reader.entries.is_empty() {
            self.ring.push(&header.to_bytes());
        }
        for part in reader.entries.chunks(most) {
            let header = Header { count: (part.len() / ENTRY_BYTES) as u32, ..header };
            self.ring.push_parts(&[&header.to_bytes(), part]);
        }
    }
}

impl Reader {
    fn add(&mut self, record: &CounterRecord) {
        let place = match self.positions.get(&record.instance_id) {
            Some(place) => *place,
            None => {
                let place = self.place(record.instance_id);
                self.positions.insert(record.instance_id, place);
                place
            }
        };
        // What cannot be placed travels as a counter that no collection has, so that it is missed and not merely absent.
        let (counter, position) = place.unwrap_or((u32::MAX, Position::default()));
        self.entries.extend_from_slice(&Entry { counter, position, value: record.value }.to_bytes());
    }

    fn place(&mut self, instance_id: u64) -> Option<(u32, Position)> {
        let number = self.ids.counter(instance_id).ok()?;
        let counter = *self.indices.get(&number)?;
        let mut position = Position::default();
        for dimension in DIMENSIONS {
            // A dimension that the counter lacks is not known to the SDK.
            let at = self.ids.position(instance_id, dimension).unwrap_or(0);
            position = position.with(dimension, usize::try_from(at).ok()?)?;
        }
        Some((counter, position))
    }
}
