//! Traces of dispatches and code objects.

use super::*;
use kbench_rocm_emu::hooks::CLOCK_START_NS;
use rocprofiler_sdk_sys::session::{Buffer, BufferOptions, CodeObjectEvent, Context, Dispatch, Patience, Record};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What a tracing tool has.
struct Tracer {
    sdk: &'static Sdk,
    context: Context,
    buffer: Buffer,
    records: Arc<Mutex<Vec<Dispatch>>>,
    names: Arc<Mutex<HashMap<u64, String>>>,
}

impl Tracer {
    fn new() -> Self {
        let sdk = open();
        let records: Arc<Mutex<Vec<Dispatch>>> = Arc::default();
        let names: Arc<Mutex<HashMap<u64, String>>> = Arc::default();
        let (kept, named) = (Arc::clone(&records), Arc::clone(&names));
        let (context, buffer) = session::force_configure(sdk, c"a tracer", move |setup| {
            let objects = setup.context()?;
            setup.code_objects(objects, move |event| {
                if let CodeObjectEvent::Kernel(kernel) = event {
                    named.lock().unwrap().insert(kernel.kernel_id, kernel.name);
                }
            })?;
            objects.start()?;
            let context = setup.context()?;
            let options = BufferOptions { bytes: 4096, watermark: 3072, ..BufferOptions::default() };
            let buffer = setup.buffer(context, options, move |batch| {
                let is_dispatch = |record| match record {
                    Record::Dispatch(dispatch) => dispatch,
                    other => panic!("{other:?}"),
                };
                kept.lock().unwrap().extend(batch.iter().map(is_dispatch));
            })?;
            setup.trace_dispatches(context, buffer)?;
            Ok((context, buffer))
        })
        .unwrap();
        Tracer { sdk, context, buffer, records, names }
    }

    fn count(&self) -> usize {
        self.records.lock().unwrap().len()
    }

    fn flush_until(&self, count: usize) -> bool {
        self.buffer.flush_until(Patience::default(), || self.count() >= count).unwrap()
    }

    fn take(&self) -> Vec<Dispatch> {
        std::mem::take(&mut self.records.lock().unwrap())
    }
}

pub(super) fn trace() {
    let tracer = Tracer::new();
    let mut gpu = Gpu::new();
    tracer.context.start().unwrap();
    gpu.launch(1..=100);
    gpu.synchronize();
    assert!(tracer.flush_until(100));
    tracer.context.stop().unwrap();
    // What runs while the context is stopped leaves no record.
    gpu.launch(1..=10);
    gpu.synchronize();
    tracer.flush_until(101);
    let mut records = tracer.take();
    assert_eq!(records.len(), 100);
    records.sort_by_key(|record| record.dispatch_id);
    let agent = super::gpu(tracer.sdk, "gfx942").id;
    for (record, grid) in records.iter().zip(1..) {
        assert_eq!(tracer.names.lock().unwrap().get(&record.kernel_id).map(String::as_str), Some("increment"));
        assert_eq!((record.grid, record.workgroup), (Dim3 { x: 64 * grid, y: 1, z: 1 }, Dim3 { x: 64, y: 1, z: 1 }));
        assert_eq!(record.agent, agent);
        assert!(record.thread_id.is_some_and(|thread| thread > 0));
        assert!(record.start_ns >= CLOCK_START_NS && record.duration_ns().is_some(), "{record:?}");
    }
    // Serial on one queue: none starts before the one before it has ended.
    assert!(records.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
    let own = tracer.names.lock().unwrap().values().filter(|name| name.starts_with("__amd_rocclr_")).count();
    assert!(own >= 2, "the runtime's own kernels are told of");
}

pub(super) fn late() {
    let tracer = Tracer::new();
    let mut gpu = Gpu::new();
    tracer.context.start().unwrap();
    gpu.launch([1; 20]);
    gpu.synchronize();
    tracer.buffer.flush().unwrap();
    let first = tracer.count();
    tracer.buffer.flush().unwrap();
    assert_eq!(tracer.count(), 20);
    // Unless this process stood still for 50 ms between launch and flush.
    assert!([15, 20].contains(&first), "{first}");
}

pub(super) fn reordered() {
    let tracer = Tracer::new();
    let mut gpu = Gpu::new();
    tracer.context.start().unwrap();
    gpu.launch([1; 40]);
    gpu.synchronize();
    assert!(tracer.flush_until(40));
    let mut ids: Vec<u64> = tracer.take().iter().map(|record| record.dispatch_id).collect();
    assert!(!ids.is_sorted(), "{ids:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 40);
}

pub(super) fn lost() {
    let tracer = Tracer::new();
    let mut gpu = Gpu::new();
    tracer.context.start().unwrap();
    gpu.launch([1; 20]);
    gpu.synchronize();
    let patience = Patience { limit: std::time::Duration::from_millis(100), ..Patience::default() };
    assert_eq!(tracer.buffer.flush_until(patience, || tracer.count() >= 20), Ok(false));
    assert_eq!(tracer.count(), 15);
}

pub(super) fn timeless() {
    let tracer = Tracer::new();
    let mut gpu = Gpu::new();
    tracer.context.start().unwrap();
    gpu.launch([1; 20]);
    gpu.synchronize();
    assert!(tracer.flush_until(20));
    assert_eq!(tracer.take().iter().filter(|record| record.duration_ns().is_none()).count(), 5);
}

/// HIP first; so many of 10 records then come.
pub(super) fn hip_first(expected: usize) {
    // The library is there, as it is in a process that links it.
    assert!(kbench_rocm_emu::sdk::symbol(c"rocprofiler_get_version").is_some());
    let mut gpu = Gpu::new();
    let tracer = Tracer::new();
    tracer.context.start().unwrap();
    gpu.launch([1; 10]);
    gpu.synchronize();
    tracer.buffer.flush().unwrap();
    assert_eq!(tracer.count(), expected);
    let is_named = tracer.names.lock().unwrap().values().any(|name| name == "increment");
    assert_eq!(is_named, expected > 0);
}

/// Everything succeeds and nothing comes.
pub(super) fn silent() {
    let tracer = Tracer::new();
    let mut gpu = Gpu::new();
    tracer.context.start().unwrap();
    gpu.launch([1; 10]);
    gpu.synchronize();
    tracer.buffer.flush().unwrap();
    tracer.context.stop().unwrap();
    assert_eq!(tracer.count(), 0);
}

pub(super) fn external() {
    let tracer = Tracer::new();
    let mut gpu = Gpu::new();
    tracer.context.start().unwrap();
    let (push, pop) =
        (tracer.sdk.push_external_correlation_id().unwrap(), tracer.sdk.pop_external_correlation_id().unwrap());
    let mut thread = 0;
    let mut popped = UserData(0);
    // SAFETY: valid pointers and a context of the SDK.
    unsafe {
        assert!(tracer.sdk.get_thread_id().unwrap()(&mut thread).is_success());
        assert!(push(tracer.context.id(), thread, UserData(77)).is_success());
        gpu.launch([1]);
        assert!(pop(tracer.context.id(), thread, &mut popped).is_success());
        gpu.launch([1]);
    }
    gpu.synchronize();
    assert!(tracer.flush_until(2));
    let records = tracer.take();
    assert_eq!(popped, UserData(77));
    assert_eq!(records.iter().map(|record| record.external.0).collect::<Vec<_>>(), [77, 0]);
    assert!(records.iter().all(|record| record.thread_id == Some(thread)));
    assert_ne!(records[0].correlation, records[1].correlation);
}
