//! Loading and the safe layer against a library written in C, which hands over known values by value.

#![allow(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use libloading::os::unix::{Library, Symbol};
use rocprofiler_sdk_sys::instance::InstanceIds;
use rocprofiler_sdk_sys::session::{
    self, AgentKind, BufferOptions, CodeObjectEvent, CounterConfig, CounterGroups, Error, Patience, Policy, Record,
};
use rocprofiler_sdk_sys::types::*;
use rocprofiler_sdk_sys::{OpenError, OpenOptions, Sdk, Status, Version, VersionError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GPU: AgentId = AgentId { handle: 0xa9e47 };

type Counted = (session::Dispatch, Vec<CounterRecord>);

/// One build of the C library. Each is a file of its own, so that each test has its own state.
struct Fake {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Fake {
    fn new(version: [u32; 3], flags: &[&str]) -> Option<Fake> {
        let folder = tempfile::tempdir().unwrap();
        let [major, minor, patch] = version;
        let numbers = [format!("-DMAJOR={major}"), format!("-DMINOR={minor}"), format!("-DPATCH={patch}")];
        let mut all: Vec<&str> = numbers.iter().map(String::as_str).collect();
        // The library's own symbols, not those of another build that is loaded globally too.
        all.push("-Wl,-Bsymbolic");
        all.extend(flags);
        let path = common::shared_library(folder.path(), "librocprofiler-sdk.so.1", "fake_sdk.c", &all)?;
        Some(Fake { _folder: folder, path })
    }

    fn sdk(&self) -> &'static Sdk {
        Box::leak(Box::new(Sdk::open_file(&self.path).unwrap()))
    }

    /// A function with which the test makes something happen.
    fn hook<T>(&self, name: &str) -> Symbol<T> {
        // SAFETY: the same file that is loaded already, and a function that the test knows.
        unsafe {
            // Never unloaded, as the SDK is not.
            let library = Box::leak(Box::new(Library::new(&self.path).unwrap()));
            library.get::<T>(name.as_bytes()).unwrap()
        }
    }
}

#[test]
fn versions_are_looked_at_first() {
    // The old one also lacks a function: the version is what the message must be about.
    let Some(old) = Fake::new([0, 6, 0], &["-DLACKS_SAMPLING"]) else { return };
    let error = Sdk::open_file(&old.path).unwrap_err();
    assert!(
        matches!(error, OpenError::Version { error: VersionError::TooOld(version), .. } if version == Version::new(0, 6, 0))
    );
    let text = error.to_string();
    assert!(text.contains("rocprofiler-sdk 0.6.0 (ROCm older than 7.0) is too old: 1.0.0 or later"), "{text}");
    assert!(text.contains("librocprofiler-sdk.so.1"), "{text}");
    let next = Fake::new([2, 0, 0], &[]).unwrap();
    assert!(Sdk::open_file(&next.path).unwrap_err().to_string().contains("2.0.0 has a major version"));
    let allowed = Sdk::open_file_with(&next.path, OpenOptions { allow_unknown_major: true }).unwrap();
    assert_eq!(allowed.version(), Version::new(2, 0, 0));
}

#[test]
fn missing_functions_are_named() {
    let Some(fake) = Fake::new([1, 0, 0], &["-DLACKS_SAMPLING", "-DWITHOUT_OPTIONAL"]) else { return };
    let text = Sdk::open_file(&fake.path).unwrap_err().to_string();
    assert!(text.contains("lacks the function rocprofiler_sample_device_counting_service"), "{text}");
    assert!(text.contains(fake.path.to_str().unwrap()), "{text}");
    let fake = Fake::new([1, 0, 0], &["-DWITHOUT_OPTIONAL"]).unwrap();
    let sdk = fake.sdk();
    assert!(sdk.iterate_counter_dimensions().is_none());
    assert!(sdk.load_counter_definition().is_none());
    assert_eq!(session::counter_dimensions(sdk, CounterId { handle: 5 }), Ok(Vec::new()));
    assert_eq!(session::counter_instances(sdk, GPU, CounterId { handle: 5 }), Ok(None));
}

#[test]
fn statuses_have_the_words_of_the_sdk_or_none() {
    let Some(fake) = Fake::new([1, 0, 0], &[]) else { return };
    let sdk = fake.sdk();
    assert_eq!(
        sdk.describe(Status::CONFIGURATION_LOCKED),
        "ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED (16): too late"
    );
    assert_eq!(sdk.describe(Status::EXCEEDS_HW_LIMIT), "EXCEEDS (38)");
    assert_eq!(sdk.describe(Status(-1)), "status -1, for which the SDK has no name");
}

#[test]
fn agents_counters_and_configurations() {
    let Some(fake) = Fake::new([1, 1, 0], &[]) else { return };
    let sdk = fake.sdk();
    let agents = session::agents(sdk).unwrap();
    assert_eq!(agents.iter().map(|agent| agent.kind).collect::<Vec<_>>(), [AgentKind::Cpu, AgentKind::Gpu]);
    let gpu = &agents[1];
    assert_eq!((gpu.id, gpu.name.as_str(), gpu.product_name.as_str()), (GPU, "gfx942", "AMD Instinct MI300X"));
    assert_eq!((gpu.simds, gpu.cus, gpu.xccs, gpu.simds_per_cu, gpu.shader_engines), (1216, 304, 8, 4, 32));
    assert_eq!((gpu.domain, gpu.location, gpu.pci_ids), (7, 0x300, (0x1002, 0x74a1)));
    assert_eq!((gpu.max_clock_mhz, gpu.memory_bytes, gpu.gfx_target_version), (2100, 206_158_430_208, 90_402));
    assert_eq!(gpu.memories.iter().map(|bank| (bank.width, bank.mem_clk_max)).collect::<Vec<_>>(), [(8192, 1300)]);
    assert_eq!(gpu.uuid, std::array::from_fn(|index| 0x10 + index as u8));
    // A CPU has no counters; that is told apart from other failures.
    let error = session::supported_counters(sdk, agents[0].id).unwrap_err();
    assert_eq!(error.status(), Some(Status::AGENT_ARCH_NOT_SUPPORTED));
    let counters = session::supported_counters(sdk, GPU).unwrap();
    let seen: Vec<_> =
        counters.iter().map(|counter| (counter.name.as_str(), counter.block.as_str(), counter.is_derived)).collect();
    assert_eq!(seen, [("SQ_WAVES", "SQ", false), ("FETCH_SIZE", "", true)]);
    assert_eq!(counters[1].expression, "x*64");
    let dimensions = session::counter_dimensions(sdk, counters[0].id).unwrap();
    let seen: Vec<_> =
        dimensions.iter().map(|dimension| (dimension.name.as_str(), dimension.id, dimension.size)).collect();
    assert_eq!(seen, [("DIMENSION_XCC", 1, 8), ("DIMENSION_SHADER_ENGINE", 3, 4)]);
    assert_eq!(session::counter_instances(sdk, GPU, counters[0].id), Ok(Some(32)));
    let [waves, fetch] = [counters[0].id, counters[1].id];
    assert_eq!(CounterConfig::new(sdk, GPU, &[waves, fetch]).unwrap().agent(), GPU);
    assert_eq!(session::fits(sdk, GPU, &[waves, fetch]), Ok(true));
    assert_eq!(session::fits(sdk, GPU, &[waves, fetch, waves]), Ok(false));
    let error = session::fits(sdk, GPU, &[CounterId { handle: 99 }]).unwrap_err();
    assert_eq!(error.status(), Some(Status::METRIC_NOT_VALID_FOR_AGENT));
}

#[test]
fn agents_of_every_known_size() {
    for (size, uuid_bytes) in [(296, 0), (304, 8), (312, 16), (376, 16)] {
        let Some(fake) = Fake::new([1, 0, 0], &[&format!("-DAGENT_SIZE={size}")]) else { return };
        let agents = session::agents(fake.sdk()).unwrap();
        let expected: [u8; 16] = std::array::from_fn(|index| if index < uuid_bytes { 0x10 + index as u8 } else { 0 });
        assert_eq!(agents[1].uuid, expected, "{size}");
        assert_eq!(agents[1].model_name, "ip discovery", "{size}");
    }
    let Some(fake) = Fake::new([1, 0, 0], &["-DAGENT_SIZE=288"]) else { return };
    let error = session::agents(fake.sdk()).unwrap_err();
    assert_eq!(error.status(), Some(Status::INCOMPATIBLE_ABI));
}

#[test]
fn traced_dispatches_grow_come_late_and_out_of_order() {
    for size in [184_u64, 192, 256] {
        let Some(fake) = Fake::new([1, 3, 0], &[]) else { return };
        let sdk = fake.sdk();
        let records: Arc<Mutex<Vec<Record>>> = Arc::default();
        let kept = Arc::clone(&records);
        let (context, buffer) = session::force_configure(sdk, c"a test", move |setup| {
            let context = setup.context()?;
            assert_eq!(setup.sdk().version(), Version::new(1, 3, 0));
            let buffer = setup.buffer(context, BufferOptions::default(), move |batch| {
                assert_eq!((batch.drop_count(), batch.is_empty()), (5, false));
                kept.lock().unwrap().extend(batch.iter());
            })?;
            setup.trace_dispatches(context, buffer)?;
            context.start()?;
            Ok((context, buffer))
        })
        .unwrap();
        assert_eq!(context.is_active(), Ok(true));
        let client_name = fake.hook::<unsafe extern "C" fn() -> *const std::ffi::c_char>("fake_client_name");
        // SAFETY: functions of the C library.
        unsafe {
            assert_eq!(std::ffi::CStr::from_ptr(client_name()), c"a test");
            fake.hook::<unsafe extern "C" fn(u64, u64, u64, i32)>("fake_trace")(201, size, 86, 1);
            fake.hook::<unsafe extern "C" fn(u32, u32)>("fake_other")(1, 5);
        }
        let count = || records.lock().unwrap().len();
        // The first flush finds the buffer busy, the second lacks the tail.
        assert_eq!(buffer.flush_until(Patience::default(), || count() >= 202), Ok(true));
        context.stop().unwrap();
        context.stop().expect("a second stop is harmless");
        let records = std::mem::take(&mut *records.lock().unwrap());
        assert_eq!(records[201], Record::Other { category: 1, kind: 5 });
        for (record, id) in records.iter().zip((1..=201).rev()) {
            let Record::Dispatch(dispatch) = record else { panic!("{record:?}") };
            assert_eq!(dispatch.dispatch_id, id);
            assert_eq!(
                (dispatch.start_ns, dispatch.end_ns, dispatch.duration_ns()),
                (100 * id, 100 * id + 40, Some(40))
            );
            assert_eq!(
                (dispatch.correlation, dispatch.external, dispatch.thread_id),
                (1000 + id, UserData(2000 + id), Some(4321))
            );
            assert_eq!((dispatch.kernel_id, dispatch.agent, dispatch.queue), (17, GPU, QueueId { handle: 3 }));
            assert_eq!(dispatch.workgroup, Dim3 { x: 64, y: 2, z: 1 });
            assert_eq!(dispatch.grid, Dim3 { x: 6400, y: 20, z: 3 });
            assert_eq!((dispatch.private_segment_size, dispatch.group_segment_size), (96, 4096));
        }
    }
}

#[test]
fn a_record_that_says_it_is_too_small_is_not_read() {
    let Some(fake) = Fake::new([1, 0, 0], &[]) else { return };
    let records: Arc<Mutex<Vec<Record>>> = Arc::default();
    let kept = Arc::clone(&records);
    let buffer = session::force_configure(fake.sdk(), c"a test", move |setup| {
        let context = setup.context()?;
        setup.buffer(context, BufferOptions::default(), move |batch| kept.lock().unwrap().extend(batch.iter()))
    })
    .unwrap();
    // SAFETY: a function of the C library.
    unsafe { fake.hook::<unsafe extern "C" fn(u64, u64, u64, i32)>("fake_trace")(1, 120, 0, 0) };
    buffer.flush().unwrap();
    assert_eq!(*records.lock().unwrap(), [Record::Truncated { category: 1, kind: 11 }]);
    // Nothing more comes: patience ends.
    let patience = Patience { limit: Duration::from_millis(30), ..Patience::default() };
    assert_eq!(buffer.flush_until(patience, || false), Ok(false));
}

#[test]
fn counted_dispatches_by_callback() {
    let Some(fake) = Fake::new([1, 0, 0], &[]) else { return };
    let sdk = fake.sdk();
    let counted: Arc<Mutex<Vec<Counted>>> = Arc::default();
    let kept = Arc::clone(&counted);
    let config = session::force_configure(sdk, c"a test", move |setup| {
        let context = setup.context()?;
        let config = CounterConfig::new(setup.sdk(), GPU, &[CounterId { handle: 5 }])?;
        let choose = move |dispatch: &session::Dispatch| match dispatch.dispatch_id {
            1 => Some(config),
            2 => None,
            _ => panic!("no dispatch {}", dispatch.dispatch_id),
        };
        setup.count_dispatches(context, choose, move |dispatch, values| {
            kept.lock().unwrap().push((*dispatch, values.to_vec()));
        })?;
        Ok(config)
    })
    .unwrap();
    let dispatch = fake.hook::<unsafe extern "C" fn(u64) -> u64>("fake_dispatch");
    // SAFETY: a function of the C library.
    let chosen = unsafe { [dispatch(1), dispatch(2), dispatch(3)] };
    assert_eq!(chosen, [config.id().handle, 0, 0]);
    // The first panic of the process is kept; another test may have had it.
    assert!(session::callback_panicked().is_some());
    let counted = counted.lock().unwrap();
    let [(dispatch, values)] = counted.as_slice() else { panic!("{counted:?}") };
    assert_eq!((dispatch.dispatch_id, dispatch.start_ns, dispatch.duration_ns()), (1, 100, Some(40)));
    assert_eq!(values.iter().map(|value| value.value).collect::<Vec<_>>(), [0.5, 1.5, 2.5]);
    assert!(values.iter().all(|value| value.dispatch_id == 1 && value.agent_id == GPU));
    let mut ids = InstanceIds::new(sdk);
    assert!(ids.are_fixed());
    assert_eq!(ids.counter(values[2].instance_id), Ok(5));
    assert_eq!(ids.position(values[2].instance_id, dimension::XCC), Ok(2));
    assert_eq!(ids.position(0, 9), Err(Error::NoDimension { dimension: 9 }));
}

#[test]
fn counted_dispatches_by_buffer() {
    let Some(fake) = Fake::new([1, 3, 2], &[]) else { return };
    let sdk = fake.sdk();
    let groups: Arc<Mutex<(CounterGroups, Vec<session::CounterGroup>)>> = Arc::default();
    let kept = Arc::clone(&groups);
    let buffer = session::force_configure(sdk, c"a test", move |setup| {
        let context = setup.context()?;
        let config = CounterConfig::new(setup.sdk(), GPU, &[CounterId { handle: 5 }])?;
        let options = BufferOptions { policy: Policy::Discard, ..BufferOptions::default() };
        let buffer = setup.buffer(context, options, move |batch| {
            let (groups, done) = &mut *kept.lock().unwrap();
            done.extend(batch.iter().filter_map(|record| groups.push(&record)));
        })?;
        setup.count_dispatches_buffered(context, buffer, move |_| Some(config))?;
        Ok(buffer)
    })
    .unwrap();
    let dispatch = fake.hook::<unsafe extern "C" fn(u64) -> u64>("fake_dispatch");
    // SAFETY: a function of the C library.
    unsafe {
        dispatch(7);
        dispatch(8);
    }
    buffer.flush().unwrap();
    let (open, done) = &*groups.lock().unwrap();
    assert_eq!(open.incomplete(), 0);
    assert_eq!(
        done.iter().map(|group| (group.dispatch.dispatch_id, group.values.len())).collect::<Vec<_>>(),
        [(7, 3), (8, 3)]
    );
    assert_eq!(done[1].dispatch.external, UserData(2008));
    // From 1.3 on the SDK is asked: this one puts the agent into the counter and counts positions in its own way.
    let mut ids = InstanceIds::new(sdk);
    assert!(!ids.are_fixed());
    for _ in 0..2 {
        assert_eq!(ids.counter(0x305), Ok(5));
        assert_eq!(ids.position(0x305, dimension::SHADER_ENGINE), Ok(6));
    }
    assert_eq!(ids.position(0x305, 8).unwrap_err().status(), Some(Status::DIM_NOT_FOUND));
}

#[test]
fn device_counting() {
    let Some(fake) = Fake::new([1, 1, 0], &[]) else { return };
    let (context, counting) = session::force_configure(fake.sdk(), c"a test", |setup| {
        let context = setup.context()?;
        let config = CounterConfig::new(setup.sdk(), GPU, &[CounterId { handle: 5 }])?;
        Ok((context, setup.count_device(context, GPU, config)?))
    })
    .unwrap();
    context.start().unwrap();
    let values = counting.sample(8).unwrap();
    assert_eq!(values.iter().map(|value| value.value).collect::<Vec<_>>(), [0.0, 1.5]);
    assert_eq!(counting.sample(1).unwrap_err().status(), Some(Status::OUT_OF_RESOURCES));
}

#[test]
fn code_objects_and_kernels() {
    let Some(fake) = Fake::new([1, 0, 0], &[]) else { return };
    let events: Arc<Mutex<Vec<CodeObjectEvent>>> = Arc::default();
    let kept = Arc::clone(&events);
    session::force_configure(fake.sdk(), c"a test", move |setup| {
        setup.code_objects(setup.context()?, move |event| kept.lock().unwrap().push(event))
    })
    .unwrap();
    let load = fake.hook::<unsafe extern "C" fn(i32, u64)>("fake_code_object");
    // SAFETY: a function of the C library.
    unsafe {
        load(1, 88);
        // As early versions have it, which end after the register counts.
        load(2, 72);
    }
    let events = events.lock().unwrap();
    let [
        CodeObjectEvent::Loaded(object),
        CodeObjectEvent::Kernel(kernel),
        CodeObjectEvent::Unloaded(same),
        CodeObjectEvent::KernelUnloaded(old),
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((object.id, object.agent, object.uri.as_str()), (9, GPU, "memory://1#offset=2"));
    assert_eq!((object.load_base, object.load_size), (0x7000, 0x1000));
    assert_eq!((object, kernel), (same, old));
    assert_eq!((kernel.kernel_id, kernel.code_object_id, kernel.name.as_str()), (17, 9, "_Z4axpyPKfPfid"));
    assert_eq!((kernel.sgprs, kernel.vgprs, kernel.agprs), (16, 8, 4));
    assert_eq!((kernel.kernarg_size, kernel.group_segment_size, kernel.private_segment_size), (272, 4096, 96));
    assert!(!kernel.is_of_runtime());
    assert!(session::KernelSymbol { name: "__amd_rocclr_copyBuffer".to_owned(), ..kernel.clone() }.is_of_runtime());
}

#[test]
fn another_tool_has_it() {
    let Some(fake) = Fake::new([1, 0, 0], &[]) else { return };
    let take = fake.hook::<unsafe extern "C" fn(i32)>("fake_take");
    for (state, words) in [(1, "is initialised already"), (-1, "is being initialised")] {
        // SAFETY: a function of the C library.
        unsafe { take(state) };
        let error = session::force_configure(fake.sdk(), c"a test", |_| Ok(())).unwrap_err();
        assert!(matches!(error, Error::Taken { in_progress, .. } if in_progress == (state < 0)), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn initialisation_that_fails() {
    let Some(fake) = Fake::new([1, 0, 0], &[]) else { return };
    let error = session::force_configure(fake.sdk(), c"a test", |setup| {
        let context = setup.context()?;
        setup.buffer(context, BufferOptions { bytes: 0, ..BufferOptions::default() }, |_| ())
    });
    assert_eq!(error.map(|_| ()), Err(Error::NoBuffer));
    let Some(fake) = Fake::new([1, 0, 0], &[]) else { return };
    let error = session::force_configure(fake.sdk(), c"a test", |_| -> Result<(), Error> { panic!("on purpose") });
    assert_eq!(error, Err(Error::Panicked("on purpose".to_owned())));
}

#[test]
fn after_the_end_nothing_is_called() {
    let Some(fake) = Fake::new([1, 0, 0], &[]) else { return };
    let (context, buffer, tool) = session::force_configure(fake.sdk(), c"a test", |setup| {
        let context = setup.context()?;
        Ok((context, setup.buffer(context, BufferOptions::default(), |_| ())?, setup.tool()))
    })
    .unwrap();
    assert!(!tool.has_ended());
    // SAFETY: a function of the C library.
    unsafe { fake.hook::<unsafe extern "C" fn()>("fake_finalize")() };
    assert!(tool.has_ended());
    assert_eq!(context.start(), Err(Error::Finalized));
    assert_eq!(context.stop(), Err(Error::Finalized));
    assert_eq!(buffer.flush(), Err(Error::Finalized));
}
