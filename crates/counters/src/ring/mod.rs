//! The bounded buffer between the profiler's callback and the writer.
//!
//! Any number of producers push records of any size; one reader takes them out in batches. All memory is taken at the start and is what was
//! asked for, the reader's batch included. A push copies and returns: it allocates nothing and makes no system call unless the reader sleeps
//! above its watermark or, under [`Policy::Lossless`], the ring is full. What happens to every record is counted.
//!
//! A mutex around plain memory is fast enough (`benches/ring.rs`), and it is the only design whose counts are exact under all policies
//! without `unsafe`.

mod size;

pub use size::{ParseSizeError, Size};

use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Smallest ring.
pub const MIN_SIZE: u64 = 4 << 10;
/// Largest ring.
pub const MAX_SIZE: u64 = 16 << 30;
/// Size without a word on it: half a million counter records.
pub const DEFAULT_SIZE: Size = Size::from_bytes(64 << 20);

/// Bytes in front of each record: its length.
const HEADER: usize = 4;
/// Bytes that a batch takes out at once, unless its first record is larger.
const BATCH: usize = 64 << 10;
/// Largest buffer of the reader.
const MAX_CHUNK: usize = 256 << 10;
/// How long the reader sleeps on an almost empty ring.
const POLL: Duration = Duration::from_millis(10);

/// What happens when the ring is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The producer waits: nothing is lost, and the device may wait with it.
    #[default]
    Lossless,
    /// The new record is dropped.
    DropNewest,
    /// The oldest records make room.
    OverwriteOldest,
}

/// A word that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no policy of the ring; give lossless (the profiler waits), drop-newest or overwrite-oldest")]
pub struct ParsePolicyError(String);

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, ParsePolicyError> {
        match text {
            "lossless" => Ok(Policy::Lossless),
            "drop-newest" => Ok(Policy::DropNewest),
            "overwrite-oldest" => Ok(Policy::OverwriteOldest),
            _ => Err(ParsePolicyError(text.chars().take(40).collect())),
        }
    }
}

/// Why there is no ring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Too small or too large.
    #[error("a ring of {0} is not possible; give at least 4KiB and at most 16GiB (the default is 64MiB)")]
    Size(Size),
    /// The memory is not there.
    #[error("there is no memory for a ring of {0}; give a smaller one (--ring-size)")]
    Memory(Size),
}

/// What happened to a pushed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the ring (older ones may have made room). It counts as dropped after all when the reader ends before it takes it.
    Kept,
    /// The ring was full ([`Policy::DropNewest`]).
    Dropped,
    /// It is larger than [`Producer::largest_record`]; dropped under every policy.
    Oversize,
    /// The reader is gone; dropped.
    Closed,
}

/// What became of all records. At the end `received == kept + dropped + overwritten`; before it, `kept` includes what is still in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Memory of the ring, the reader's buffer included.
    pub size_bytes: u64,
    /// What happened when it was full.
    pub policy: Policy,
    /// Records pushed.
    pub received: u64,
    /// Records that reached the reader, or will.
    pub kept: u64,
    /// Records that nobody will see: the ring was full, they were too large, or the reader ended before it took them.
    pub dropped: u64,
    /// Records stored and then overwritten by newer ones.
    pub overwritten: u64,
    /// Of the dropped: larger than a record may be.
    pub oversize: u64,
    /// Pushes that had to wait for room.
    pub waits: u64,
}

/// The memory and what is known about it.
struct State {
    buffer: Box<[u8]>,
    /// Where the oldest record starts.
    head: usize,
    used: usize,
    received: u64,
    dropped: u64,
    overwritten: u64,
    oversize: u64,
    waits: u64,
    /// Producers that wait for room.
    blocked: usize,
    producers: usize,
    reader_sleeps: bool,
    reader_gone: bool,
}

struct Shared {
    state: Mutex<State>,
    records_came: Condvar,
    room_came: Condvar,
    policy: Policy,
    size: Size,
    largest: usize,
    watermark: usize,
}

impl Shared {
    /// The state; a panic elsewhere cannot leave it half-changed in a way that matters here, as no code under the lock panics.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn summary(&self) -> Summary {
        let state = self.lock();
        Summary {
            size_bytes: self.size.bytes(),
            policy: self.policy,
            received: state.received,
            kept: state.received - state.dropped - state.overwritten,
            dropped: state.dropped,
            overwritten: state.overwritten,
            oversize: state.oversize,
            waits: state.waits,
        }
    }
}

impl State {
    fn free(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// Copies bytes behind the newest, around the end. There must be room.
    fn append(&mut self, bytes: &[u8]) {
        let capacity = self.buffer.len();
        let tail = (self.head + self.used) % capacity;
        let until_end = bytes.len().min(capacity - tail);
        let (first, rest) = bytes.split_at(until_end);
        if let Some(place) = self.buffer.get_mut(tail..tail + first.len()) {
            place.copy_from_slice(first);
        }
        if let Some(place) = self.buffer.get_mut(..rest.len()) {
            place.copy_from_slice(rest);
        }
        self.used += bytes.len();
    }

    /// Length of the record that starts so many bytes behind the oldest, its header included.
    fn length_at(&self, offset: usize) -> usize {
        let mut header = [0_u8; HEADER];
        self.copy_out(offset, &mut header);
        HEADER + u32::from_le_bytes(header) as usize
    }

    fn copy_out(&self, offset: usize, to: &mut [u8]) {
        let capacity = self.buffer.len();
        let start = (self.head + offset) % capacity;
        let until_end = to.len().min(capacity - start);
        let (first, rest) = to.split_at_mut(until_end);
        if let Some(place) = self.buffer.get(start..start + first.len()) {
            first.copy_from_slice(place);
        }
        if let Some(place) = self.buffer.get(..rest.len()) {
            rest.copy_from_slice(place);
        }
    }

    fn forget(&mut self, bytes: usize) {
        let bytes = bytes.min(self.used);
        self.head = (self.head + bytes) % self.buffer.len();
        self.used -= bytes;
    }
}

/// Whether a ring may have a size; whether there is memory for it shows when it is made.
///
/// # Errors
/// [`RingError::Size`].
pub fn check(size: Size) -> Result<(), RingError> {
    if (MIN_SIZE..=MAX_SIZE).contains(&size.bytes()) { Ok(()) } else { Err(RingError::Size(size)) }
}

/// Makes a ring.
///
/// # Errors
/// When the size is out of range or the memory is not there.
pub fn ring(size: Size, policy: Policy) -> Result<(Producer, Reader), RingError> {
    check(size)?;
    let bytes = usize::try_from(size.bytes()).map_err(|_| RingError::Memory(size))?;
    let chunk = (bytes / 4).min(MAX_CHUNK);
    let capacity = bytes - chunk;
    let memory = |length: usize| -> Result<Box<[u8]>, RingError> {
        let mut memory = Vec::new();
        memory.try_reserve_exact(length).map_err(|_| RingError::Memory(size))?;
        // Touched now, so that no push takes a page fault.
        memory.resize(length, 0);
        Ok(memory.into_boxed_slice())
    };
    let state = State {
        buffer: memory(capacity)?,
        head: 0,
        used: 0,
        received: 0,
        dropped: 0,
        overwritten: 0,
        oversize: 0,
        waits: 0,
        blocked: 0,
        producers: 1,
        reader_sleeps: false,
        reader_gone: false,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        records_came: Condvar::new(),
        room_came: Condvar::new(),
        policy,
        size,
        largest: chunk - HEADER,
        watermark: BATCH.min(capacity / 4),
    });
    let reader = Reader { shared: Arc::clone(&shared), chunk: memory(chunk)? };
    Ok((Producer { shared }, reader))
}

/// The side of the profiler's callbacks. Cloned for more producers; when the last is dropped, the reader ends.
pub struct Producer {
    shared: Arc<Shared>,
}

impl Producer {
    /// Pushes a record.
    pub fn push(&self, record: &[u8]) -> Pushed {
        self.push_parts(&[record])
    }

    /// Pushes a record that lies in several pieces, so that a header and a body need not be joined first.
    pub fn push_parts(&self, parts: &[&[u8]]) -> Pushed {
        let length = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        let shared = &*self.shared;
        let mut state = shared.lock();
        state.received += 1;
        if length > shared.largest {
            state.dropped += 1;
            state.oversize += 1;
            return Pushed::Oversize;
        }
        let needed = HEADER + length;
        if state.free() < needed && !state.reader_gone {
            match shared.policy {
                Policy::DropNewest => {
                    state.dropped += 1;
                    return Pushed::Dropped;
                }
                Policy::OverwriteOldest => {
                    while state.free() < needed && state.used > 0 {
                        let oldest = state.length_at(0);
                        state.forget(oldest);
                        state.overwritten += 1;
                    }
                }
                Policy::Lossless => {
                    state.waits += 1;
                    state.blocked += 1;
                    while state.free() < needed && !state.reader_gone {
                        shared.records_came.notify_one();
                        state = shared.room_came.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                    state.blocked -= 1;
                }
            }
        }
        if state.reader_gone {
            state.dropped += 1;
            return Pushed::Closed;
        }
        // `length` is at most `largest`, which is below 256 KiB.
        state.append(&(length as u32).to_le_bytes());
        for part in parts {
            state.append(part);
        }
        if state.reader_sleeps && state.used >= shared.watermark {
            state.reader_sleeps = false;
            drop(state);
            shared.records_came.notify_one();
        }
        Pushed::Kept
    }

    /// Largest record that the ring takes, in bytes: a quarter of its size, at most 256 KiB, without the header.
    pub fn largest_record(&self) -> usize {
        self.shared.largest
    }

    /// The counts so far.
    pub fn summary(&self) -> Summary {
        self.shared.summary()
    }
}

impl Clone for Producer {
    fn clone(&self) -> Self {
        self.shared.lock().producers += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.producers -= 1;
        drop(state);
        self.shared.records_came.notify_one();
    }
}

/// The side of the writer.
pub struct Reader {
    shared: Arc<Shared>,
    chunk: Box<[u8]>,
}

impl Reader {
    /// Waits for records and takes out some, oldest first. `None` when all producers are gone and the ring is empty.
    pub fn next_batch(&mut self) -> Option<Batch<'_>> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if state.used < shared.watermark && state.producers > 0 {
            state.reader_sleeps = true;
            let waited = shared.records_came.wait_timeout(state, POLL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.reader_sleeps = false;
        }
        if state.used == 0 && state.producers == 0 {
            return None;
        }
        Some(self.take(state))
    }

    /// Takes out what is there without waiting; an empty batch when there is nothing.
    pub fn take_ready(&mut self) -> Batch<'_> {
        let shared = Arc::clone(&self.shared);
        let state = shared.lock();
        self.take(state)
    }

    /// Copies whole records, up to the size of a batch, into the reader's buffer.
    fn take(&mut self, mut state: MutexGuard<'_, State>) -> Batch<'_> {
        let mut length = 0;
        while length < state.used {
            let next = length + state.length_at(length);
            if next > self.chunk.len() || (next > BATCH && length > 0) {
                break;
            }
            length = next;
        }
        if let Some(place) = self.chunk.get_mut(..length) {
            state.copy_out(0, place);
        }
        state.forget(length);
        let must_wake = state.blocked > 0 && length > 0;
        drop(state);
        if must_wake {
            self.shared.room_came.notify_all();
        }
        Batch { bytes: self.chunk.get(..length).unwrap_or_default() }
    }

    /// The counts so far.
    pub fn summary(&self) -> Summary {
        self.shared.summary()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.reader_gone = true;
        // Nobody will see what is left: it is not kept.
        while state.used > 0 {
            let oldest = state.length_at(0);
            state.forget(oldest);
            state.dropped += 1;
        }
        drop(state);
        self.shared.room_came.notify_all();
    }
}

/// Records taken out of the ring, oldest first.
#[derive(Clone, Debug)]
pub struct Batch<'r> {
    bytes: &'r [u8],
}

impl<'r> Iterator for Batch<'r> {
    type Item = &'r [u8];

    fn next(&mut self) -> Option<&'r [u8]> {
        let (header, rest) = self.bytes.split_first_chunk::<HEADER>()?;
        let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*header) as usize)?;
        self.bytes = rest;
        Some(record)
    }
}

#[cfg(test)]
mod tests;
