//! Timing of launches on a GPU.
//!
//! The sources of times (docs/protocol.md): timestamps of the dispatch itself, from `hipExtModuleLaunchKernel`; batches of launches
//! in a graph, between two events; plain events around one launch, which hold the launch's overhead too.

use super::memory::CaseMemory;
use super::probe::Probe;
use super::sequence::Sequence;
use crate::measure::{Batch, LaunchError, TimeSource};
use kbench_hip::{Device, Event, HipError, Stream};
use std::time::{Duration, Instant};

/// A launch (or a batch) that has not ended by then hangs.
const LIMIT: Duration = Duration::from_secs(20);

/// A stream with what times launches on it.
pub(super) struct Timer {
    device: Device,
    stream: Stream,
    /// A pair a launch of the sequence.
    pairs: Vec<(Event, Event)>,
    /// What goes around a launch or a batch.
    around: (Event, Event),
    probe: Option<Probe>,
    flush_icache: bool,
    begin: Instant,
}

fn failed(error: HipError) -> LaunchError {
    LaunchError::Failed(error.to_string())
}

impl Timer {
    /// For sequences of so many launches. With a probe, clocks are read beside each; it can also make each launch fetch its
    /// instructions anew.
    pub(super) fn new(
        device: &Device,
        launches: usize,
        probe: Option<Probe>,
        flush_icache: bool,
    ) -> Result<Self, HipError> {
        let pair = || Ok((device.event()?, device.event()?));
        let dispatches = if device.runtime().has_launch_timed() { launches } else { 0 };
        let pairs = (0..dispatches).map(|_| pair()).collect::<Result<_, HipError>>()?;
        let (stream, around) = (device.stream()?, pair()?);
        Ok(Self { device: device.clone(), stream, pairs, around, probe, flush_icache, begin: Instant::now() })
    }

    /// The stream.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Where [`Timer::launch`] has its durations from.
    pub(super) fn source(&self) -> TimeSource {
        if self.pairs.is_empty() { TimeSource::Event } else { TimeSource::Dispatch }
    }

    /// The session clock, ns.
    pub(super) fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Waits until everything on the stream has ended.
    pub(super) fn wait(&self, limit: Duration) -> Result<(), LaunchError> {
        self.stream.wait_until(Instant::now() + limit).map_err(|error| {
            if error.timed_out() { LaunchError::Hung { after_ns: limit.as_nanos() as u64 } } else { failed(error) }
        })
    }

    /// Launches the sequence on a set; gives its duration in ns, as the device tells it: the sum over its launches by dispatch
    /// timestamps, or from event to event.
    pub(super) fn launch(&self, sequence: &Sequence, memory: &CaseMemory, set: usize) -> Result<f64, LaunchError> {
        if self.pairs.is_empty() {
            return self.launch_between_events(sequence, memory, set);
        }
        self.make_ready(memory, set)?;
        self.stamped(|stream| sequence.enqueue_timed(stream, set, &self.pairs))?;
        self.wait(LIMIT)?;
        self.pairs.iter().map(elapsed_ns).sum()
    }

    /// Zeroes what is to be zero, and forgets instructions if asked to.
    fn make_ready(&self, memory: &CaseMemory, set: usize) -> Result<(), LaunchError> {
        memory.zero(set).map_err(|error| LaunchError::Failed(error.to_string()))?;
        match &self.probe {
            Some(probe) if self.flush_icache => probe.flush_icache(&self.stream).map_err(failed),
            _ => Ok(()),
        }
    }

    /// Enqueues work between two stamps of the clocks.
    fn stamped(&self, enqueue: impl FnOnce(&Stream) -> Result<(), HipError>) -> Result<(), LaunchError> {
        let stamp = |stamp: fn(&Probe, &Stream) -> Result<(), HipError>| match &self.probe {
            Some(probe) => stamp(probe, &self.stream),
            None => Ok(()),
        };
        stamp(Probe::stamp_before)
            .and_then(|()| enqueue(&self.stream))
            .and_then(|()| stamp(Probe::stamp_behind))
            .map_err(failed)
    }

    /// The core clock during the last launch, MHz; `None` where the device's clocks cannot be read.
    pub(super) fn clock_mhz(&self) -> Option<f64> {
        self.probe.as_ref()?.clock_mhz()
    }

    /// Launches the sequence on a set between two events.
    pub(super) fn launch_between_events(
        &self,
        sequence: &Sequence,
        memory: &CaseMemory,
        set: usize,
    ) -> Result<f64, LaunchError> {
        self.make_ready(memory, set)?;
        self.between_events(|stream| sequence.enqueue(stream, set))
    }

    /// Launches a batch as a graph between two events.
    pub(super) fn batch(&self, sequence: &Sequence, sets: usize, batch: Batch) -> Result<f64, LaunchError> {
        let mut indices = 0..batch.launches;
        let graph = self
            .device
            .capture(|stream| indices.try_for_each(|index| sequence.enqueue(stream, batch.set_of(index, sets))));
        let graph = graph.and_then(|graph: kbench_hip::Graph| graph.instantiate()).map_err(failed)?;
        // The first launch of a graph also uploads it.
        self.between_events(|stream| graph.launch(stream))?;
        self.between_events(|stream| graph.launch(stream))
    }

    fn between_events(&self, enqueue: impl FnOnce(&Stream) -> Result<(), HipError>) -> Result<f64, LaunchError> {
        let (start, stop) = &self.around;
        start.record(&self.stream).map_err(failed)?;
        enqueue(&self.stream).map_err(failed)?;
        stop.record(&self.stream).map_err(failed)?;
        self.wait(LIMIT)?;
        elapsed_ns(&self.around)
    }
}

/// HIP gives milliseconds in an f32: of a millisecond, its step is below a tenth of a nanosecond.
fn elapsed_ns((start, stop): &(Event, Event)) -> Result<f64, LaunchError> {
    stop.elapsed_ms_since(start).map(|ms| f64::from(ms) * 1e6).map_err(failed)
}
