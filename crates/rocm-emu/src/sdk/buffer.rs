//! Buffers as the SDK has them, with what is wrong with them.
//!
//! A buffer has two halves. A flush has producers write to the other half and hands the first one to the callback, in a thread;
//! while *any* callback of the buffer runs, every producer waits. A buffer that discards has no second half, yet
//! each flush changes halves: after the first one every record is lost, with a line on standard error, uncounted, until another flush
//! changes back.

use super::Data;
use rocprofiler_sdk_sys::Status;
use rocprofiler_sdk_sys::types::*;
use std::ffi::{c_int, c_void};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

/// Buffers are rounded up to pages.
const PAGE: usize = 4096;

/// A thread that runs callbacks.
#[derive(Debug)]
pub(crate) struct CallbackThread {
    pub(crate) id: u64,
    sender: Mutex<Sender<Job>>,
    thread: OnceLock<ThreadId>,
}

type Job = Box<dyn FnOnce() + Send>;

impl CallbackThread {
    /// Starts it.
    pub(crate) fn start(id: u64) -> Arc<Self> {
        let (sender, receiver): (Sender<Job>, Receiver<Job>) = channel();
        let started = std::thread::Builder::new().name(format!("rocprofiler-{id}")).spawn(move || {
            for job in receiver {
                job();
            }
        });
        let thread = OnceLock::new();
        match started {
            Ok(handle) => {
                let _ = thread.set(handle.thread().id());
            }
            Err(error) => eprintln!("rocprofiler-sdk: no callback thread: {error}"),
        }
        Arc::new(CallbackThread { id, sender: Mutex::new(sender), thread })
    }

    /// The one for buffers that have none of their own.
    fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<CallbackThread>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| CallbackThread::start(0)))
    }

    /// Has it run a job; in the thread itself, or where there is none, it runs at once.
    fn run(&self, job: Job) {
        if self.thread.get().is_none_or(|thread| *thread == std::thread::current().id()) {
            return job();
        }
        if let Err(refused) = self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(job) {
            (refused.0)();
        }
    }
}

#[derive(Debug, Default)]
struct Half {
    /// Empty when it was not allocated.
    storage: Vec<u64>,
    /// Category, kind and first word of each record.
    records: Vec<(u32, u32, usize)>,
    used: usize,
}

impl Half {
    fn new(bytes: usize) -> Self {
        Half { storage: vec![0; bytes / 8], records: Vec::new(), used: 0 }
    }

    fn put(&mut self, category: u32, kind: u32, bytes: &[u8]) {
        for (word, chunk) in self.storage.iter_mut().skip(self.used).zip(bytes.chunks(8)) {
            let mut part = [0; 8];
            part.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            *word = u64::from_ne_bytes(part);
        }
        self.records.push((category, kind, self.used));
        self.used += bytes.len().div_ceil(8);
    }

    fn clear(&mut self) {
        self.records.clear();
        self.used = 0;
    }
}

#[derive(Debug)]
struct Fill {
    halves: [Half; 2],
    index: usize,
    /// A callback runs, or is about to.
    is_flushing: bool,
    dropped: u64,
}

/// A buffer.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) id: u64,
    context: u64,
    words: usize,
    watermark: usize,
    is_lossless: bool,
    callback: Option<BufferCallback>,
    data: Data,
    thread: Mutex<Option<Arc<CallbackThread>>>,
    fill: Mutex<Fill>,
    changed: Condvar,
}

/// What a buffer is made of.
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) context: u64,
    pub(crate) size: usize,
    pub(crate) watermark: usize,
    pub(crate) policy: c_int,
    pub(crate) callback: Option<BufferCallback>,
    pub(crate) data: Data,
}

impl Buffer {
    /// A buffer; any policy but lossless discards, as unchecked as in the real SDK.
    pub(crate) fn new(request: Request) -> Arc<Self> {
        let bytes = request.size.next_multiple_of(PAGE);
        let is_lossless = request.policy == buffer_policy::LOSSLESS;
        let second = if is_lossless { Half::new(bytes) } else { Half::default() };
        Arc::new(Buffer {
            id: request.id,
            context: request.context,
            words: bytes / 8,
            watermark: request.watermark,
            is_lossless,
            callback: request.callback,
            data: request.data,
            thread: Mutex::new(None),
            fill: Mutex::new(Fill { halves: [Half::new(bytes), second], index: 0, is_flushing: false, dropped: 0 }),
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Fill> {
        self.fill.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has its callbacks run on a thread.
    pub(crate) fn assign(&self, thread: Arc<CallbackThread>) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    }

    fn thread(&self) -> Arc<CallbackThread> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).clone();
        thread.unwrap_or_else(CallbackThread::shared)
    }

    /// Adds a record: waits while a callback runs, and in a full lossless buffer for the other half.
    pub(crate) fn emplace(self: &Arc<Self>, category: u32, kind: u32, record: &[u8]) {
        let words = record.len().div_ceil(8);
        let mut fill = self.lock();
        loop {
            while fill.is_flushing {
                fill = self.changed.wait(fill).unwrap_or_else(PoisonError::into_inner);
            }
            let index = fill.index;
            let Some(half) = fill.halves.get_mut(index) else { return };
            if half.storage.is_empty() || words > self.words {
                let size = half.storage.len() * 8;
                drop(fill);
                eprintln!(
                    "rocprofiler-sdk: buffer {} too small (size={size}) for a record of {} bytes",
                    self.id,
                    record.len()
                );
                return;
            }
            if half.used + words <= self.words {
                half.put(category, kind, record);
                if half.used * 8 >= self.watermark {
                    self.start_flush(fill, None);
                }
                return;
            }
            if !self.is_lossless {
                fill.dropped += 1;
                return;
            }
            self.start_flush(fill, None);
            fill = self.lock();
        }
    }

    /// Changes halves and has the full one handed over.
    fn start_flush(self: &Arc<Self>, mut fill: MutexGuard<'_, Fill>, done: Option<SyncSender<()>>) {
        let taken = fill.index;
        fill.is_flushing = true;
        fill.index ^= 1;
        drop(fill);
        let buffer = Arc::clone(self);
        self.thread().run(Box::new(move || {
            buffer.hand_over(taken);
            if let Some(done) = done {
                let _ = done.send(());
            }
        }));
    }

    /// Hands over what it holds and waits for the callback; busy when one runs.
    pub(crate) fn flush(self: &Arc<Self>) -> Status {
        let fill = self.lock();
        if fill.is_flushing {
            return Status::BUFFER_BUSY;
        }
        let (sender, receiver) = sync_channel(1);
        self.start_flush(fill, Some(sender));
        let _ = receiver.recv();
        Status::SUCCESS
    }

    /// The same, after a callback that runs.
    pub(crate) fn flush_after(self: &Arc<Self>) {
        while self.flush() == Status::BUFFER_BUSY {
            let fill = self.lock();
            let wait = self.changed.wait_while(fill, |fill| fill.is_flushing);
            drop(wait.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn hand_over(&self, taken: usize) {
        let mut fill = self.lock();
        let mut half = fill.halves.get_mut(taken).map(std::mem::take).unwrap_or_default();
        let dropped = fill.dropped;
        drop(fill);
        let storage: *mut u64 = half.storage.as_mut_ptr();
        // The word lies in the storage: `put` counted it.
        let payload = |word: usize| storage.wrapping_add(word).cast::<c_void>();
        let mut headers: Vec<RecordHeader> = half
            .records
            .iter()
            .map(|(category, kind, word)| RecordHeader { category: *category, kind: *kind, payload: payload(*word) })
            .collect();
        let mut pointers: Vec<*mut RecordHeader> = headers.iter_mut().map(|header| header as *mut _).collect();
        if let (Some(callback), false) = (self.callback, pointers.is_empty()) {
            let (context, buffer) = (ContextId { handle: self.context }, BufferId { handle: self.id });
            // SAFETY: the tool's callback and data, and as many headers as said, all of which live during the call.
            unsafe { callback(context, buffer, pointers.as_mut_ptr(), pointers.len(), self.data.0, dropped) };
        }
        half.clear();
        let mut fill = self.lock();
        if let Some(place) = fill.halves.get_mut(taken) {
            *place = half;
        }
        fill.is_flushing = false;
        drop(fill);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// What a callback saw: records and the last drop count.
    #[derive(Default)]
    struct Seen(Mutex<(Vec<u64>, u64)>);

    unsafe extern "C" fn take(
        _: ContextId,
        _: BufferId,
        headers: *mut *mut RecordHeader,
        len: usize,
        data: *mut c_void,
        drop: u64,
    ) {
        // SAFETY: the test's own data, and headers as the buffer makes them.
        unsafe {
            let seen = &*data.cast::<Seen>();
            let mut seen = seen.0.lock().unwrap();
            for header in std::slice::from_raw_parts(headers, len) {
                let header = **header;
                assert_eq!((header.category, header.kind), (1, 11));
                seen.0.push(header.payload.cast::<u64>().read());
            }
            seen.1 = drop;
        }
    }

    unsafe extern "C" fn slow(
        a: ContextId,
        b: BufferId,
        headers: *mut *mut RecordHeader,
        len: usize,
        data: *mut c_void,
        drop: u64,
    ) {
        std::thread::sleep(Duration::from_millis(10));
        // SAFETY: as given.
        unsafe { take(a, b, headers, len, data, drop) }
    }

    fn buffer(size: usize, watermark: usize, policy: c_int, callback: BufferCallback) -> (Arc<Buffer>, &'static Seen) {
        let seen: &'static Seen = Box::leak(Box::default());
        let data = Data((seen as *const Seen).cast_mut().cast());
        let request = Request { id: 1, context: 1, size, watermark, policy, callback: Some(callback), data };
        let buffer = Buffer::new(request);
        buffer.assign(CallbackThread::start(7));
        (buffer, seen)
    }

    fn record(number: u64) -> Vec<u8> {
        let mut bytes = vec![0; 184];
        bytes[..8].copy_from_slice(&number.to_ne_bytes());
        bytes
    }

    fn fill(buffer: &Arc<Buffer>, records: std::ops::Range<u64>) {
        for number in records {
            buffer.emplace(1, 11, &record(number));
        }
    }

    /// Records seen and the last drop count.
    fn counts(seen: &Seen) -> (usize, u64) {
        let seen = seen.0.lock().unwrap();
        (seen.0.len(), seen.1)
    }

    /// 4096 bytes hold 22 records of 184, and so does a request for 100 bytes; lossless loses none of 300.
    #[test]
    fn lossless_loses_nothing() {
        for size in [100, 4096] {
            let (buffer, seen) = buffer(size, 3072, buffer_policy::LOSSLESS, take);
            fill(&buffer, 0..300);
            buffer.flush_after();
            let seen = seen.0.lock().unwrap();
            assert_eq!(seen.0, (0..300).collect::<Vec<_>>());
            assert_eq!(seen.1, 0);
        }
    }

    #[test]
    fn lossless_with_four_producers() {
        let (buffer, seen) = buffer(4096, 3072, buffer_policy::LOSSLESS, take);
        std::thread::scope(|scope| {
            for part in 0..4 {
                let buffer = &buffer;
                scope.spawn(move || fill(buffer, part * 2000..(part + 1) * 2000));
            }
        });
        buffer.flush_after();
        let mut records = seen.0.lock().unwrap().0.clone();
        records.sort_unstable();
        assert_eq!(records, (0..8000).collect::<Vec<_>>());
    }

    /// Measured with the real buffer: 200 records into 4096 bytes that discard.
    #[test]
    fn discarding_has_its_defect() {
        // The watermark fires at 17; all others are lost, uncounted.
        let (first, seen) = buffer(4096, 3072, buffer_policy::DISCARD, take);
        fill(&first, 0..200);
        first.flush_after();
        assert_eq!(counts(seen), (17, 0));
        // That flush changed halves back: exactly one filling more.
        fill(&first, 200..400);
        first.flush_after();
        assert_eq!(seen.0.lock().unwrap().0.len(), 34);
        // Watermark 0: one record.
        let (second, seen) = buffer(4096, 0, buffer_policy::DISCARD, take);
        fill(&second, 0..200);
        assert_eq!(second.flush(), Status::SUCCESS);
        assert_eq!(seen.0.lock().unwrap().0.len(), 1);
        // A watermark that is never reached: 22 kept, 178 dropped and counted; after a flush 100 more are lost and not counted.
        let (third, seen) = buffer(4096, 1 << 20, buffer_policy::DISCARD, take);
        fill(&third, 0..200);
        third.flush_after();
        assert_eq!(counts(seen), (22, 178));
        fill(&third, 200..300);
        third.flush_after();
        assert_eq!(counts(seen), (22, 178));
    }

    /// While a callback of 10 ms runs no producer goes on, and a second flush finds the buffer busy.
    #[test]
    fn producers_wait_for_callbacks() {
        let (buffer, _) = buffer(4096, 184, buffer_policy::LOSSLESS, slow);
        buffer.emplace(1, 11, &record(0));
        assert_eq!(buffer.flush(), Status::BUFFER_BUSY);
        let start = Instant::now();
        buffer.emplace(1, 11, &record(1));
        assert!(start.elapsed() > Duration::from_millis(5), "{:?}", start.elapsed());
    }

    #[test]
    fn records_larger_than_the_buffer_are_lost() {
        let (buffer, seen) = buffer(4096, 4000, buffer_policy::LOSSLESS, take);
        buffer.emplace(1, 11, &vec![0; 5000]);
        fill(&buffer, 3..4);
        buffer.flush_after();
        assert_eq!(seen.0.lock().unwrap().0, [3]);
    }
}
