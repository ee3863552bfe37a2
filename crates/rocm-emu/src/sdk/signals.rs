//! The thread that learns of ended dispatches, as the HSA runtime's signal thread does: records are made in it, later than the
//! program's own waiting returns.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Time without news after which records that stay behind come all the same.
const QUIET: Duration = Duration::from_millis(50);
/// Time to wait for more completions to change places with.
const GATHER: Duration = Duration::from_millis(5);

/// One completion's work.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

struct Queue {
    waiting: VecDeque<Work>,
    is_busy: bool,
    /// Flushes since the last completion arrived.
    flushes: u32,
    last_arrival: Instant,
    is_draining: bool,
}

/// The queue and its thread.
pub(crate) struct Signals {
    queue: Mutex<Queue>,
    changed: Condvar,
    thread: OnceLock<Option<ThreadId>>,
    late: usize,
    reorder: usize,
}

impl Signals {
    /// With so many completions that stay behind at a first flush, and so many at a time in reverse order (0: none).
    pub(crate) fn new(late: usize, reorder: usize) -> Self {
        let queue = Queue {
            waiting: VecDeque::new(),
            is_busy: false,
            flushes: 0,
            last_arrival: Instant::now(),
            is_draining: false,
        };
        Signals { queue: Mutex::new(queue), changed: Condvar::new(), thread: OnceLock::new(), late, reorder }
    }

    /// Hands a completion to the thread.
    pub(crate) fn push(&'static self, work: Work) {
        let thread = self.thread.get_or_init(|| {
            let spawned = std::thread::Builder::new().name("hsa-signals".to_owned()).spawn(|| self.run());
            spawned.ok().map(|handle| handle.thread().id())
        });
        if thread.is_none() {
            return work();
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.push_back(work);
        queue.flushes = 0;
        queue.last_arrival = Instant::now();
        drop(queue);
        self.changed.notify_all();
    }

    /// Waits until all completions but those that stay behind were worked on. In the thread itself it does nothing.
    pub(crate) fn drain(&self) {
        if self.thread.get().is_none_or(|thread| *thread == Some(std::thread::current().id())) {
            return;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.flushes = queue.flushes.saturating_add(1);
        queue.is_draining = true;
        self.changed.notify_all();
        while queue.is_busy || self.available(&queue) > 0 {
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.is_draining = false;
    }

    /// Completions that may be worked on now.
    fn available(&self, queue: &Queue) -> usize {
        let stays = if queue.flushes >= 2 || queue.last_arrival.elapsed() >= QUIET { 0 } else { self.late };
        queue.waiting.len().saturating_sub(stays)
    }

    fn run(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let available = self.available(&queue);
            let gathers = self.reorder > available && !queue.is_draining && queue.last_arrival.elapsed() < GATHER;
            if available == 0 || gathers {
                // Some wait for time to pass rather than for news.
                let pause = if queue.waiting.is_empty() { Duration::from_secs(3600) } else { GATHER };
                queue = self.changed.wait_timeout(queue, pause).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let mut batch: Vec<Work> = queue.waiting.drain(..available.min(self.reorder.max(1))).collect();
            batch.reverse();
            queue.is_busy = true;
            drop(queue);
            for work in batch {
                work();
            }
            queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.is_busy = false;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn signals(late: usize, reorder: usize) -> (&'static Signals, Arc<Mutex<Vec<u32>>>) {
        (Box::leak(Box::new(Signals::new(late, reorder))), Arc::default())
    }

    fn push(signals: &'static Signals, seen: &Arc<Mutex<Vec<u32>>>, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let seen = Arc::clone(seen);
            signals.push(Box::new(move || seen.lock().unwrap().push(number)));
        }
    }

    #[test]
    fn in_order_and_all_by_default() {
        let (signals, seen) = signals(0, 0);
        signals.drain();
        push(signals, &seen, 0..1000);
        signals.drain();
        assert_eq!(*seen.lock().unwrap(), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn the_tail_comes_with_the_second_drain() {
        let (signals, seen) = signals(3, 0);
        push(signals, &seen, 0..10);
        signals.drain();
        // On a machine that stood still for the quiet time the tail may be there already.
        assert!([7, 10].contains(&seen.lock().unwrap().len()));
        signals.drain();
        assert_eq!(seen.lock().unwrap().len(), 10);
        // Without a second drain it comes by itself.
        push(signals, &seen, 10..12);
        std::thread::sleep(QUIET * 4);
        assert_eq!(seen.lock().unwrap().len(), 12);
    }

    #[test]
    fn batches_are_reversed() {
        let (signals, seen) = signals(0, 4);
        push(signals, &seen, 0..8);
        signals.drain();
        let mut seen = seen.lock().unwrap().clone();
        assert_ne!(seen, (0..8).collect::<Vec<_>>());
        seen.sort_unstable();
        assert_eq!(seen, (0..8).collect::<Vec<_>>());
    }
}
