//! The owners, over a library made of functions in the test (`common`): what is called with which arguments, what is released when, and what becomes of
//! errors. How the real library behaves is known from runs of it; the fake keeps to that where it matters here.
#![allow(unsafe_code, clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{calls, fake, live, table};
use kbench_hip::{
    Attribute, Compiler, Device, Dim3, DropErrors, EventOptions, FunctionAttribute, HipError, Runtime, Stream,
};

fn runtime() -> Runtime {
    Runtime::from_symbols("fake", table)
}

fn device() -> Device {
    let device = runtime().device(0).unwrap();
    calls();
    device
}

/// The least that passes for a code object: an ELF header without tables.
fn code() -> Vec<u8> {
    let mut image = vec![0; 64];
    image[..6].copy_from_slice(b"\x7fELF\x02\x01");
    image
}

#[test]
fn a_device_says_what_it_is() {
    let device = runtime().device(0).unwrap();
    assert_eq!(device.name().unwrap(), "AMD Instinct MI300X");
    assert_eq!(device.arch_with_features().unwrap(), "gfx942:sramecc+:xnack-");
    assert_eq!(device.arch().unwrap(), "gfx942");
    assert_eq!(device.compute_units().unwrap(), Some(304));
    assert_eq!(device.xccs().unwrap(), Some(8));
    assert_eq!(device.warp_size().unwrap(), Some(64));
    assert_eq!(device.clock_khz().unwrap(), Some(2_100_000));
    assert_eq!(device.pci_bus_id().unwrap(), "0000:c3:00.0", "lower case, as sysfs has it");
    let uuid = device.uuid().unwrap().unwrap();
    assert_eq!(uuid.to_string(), "1122334455667701");
    assert_eq!(uuid.unique_id(), Some(0x1122_3344_5566_7701));
    calls();
    assert_eq!(device.mem_info().unwrap(), (100, 200));
    assert_eq!(calls(), ["hipSetDevice(0)", "hipMemGetInfo()"], "HIP reports on the current device");
}

#[test]
fn unknown_attributes_are_no_errors_and_no_zeros() {
    let device = device();
    assert_eq!(device.attribute(Attribute::WallClockRate).unwrap(), None);
    fake(|f| f.attributes.insert(Attribute::L2CacheSize.id(), 0));
    assert_eq!(device.attribute(Attribute::L2CacheSize).unwrap(), Some(0), "as the library says it");
    assert_eq!(device.l2_bytes().unwrap(), None, "no cache has 0 bytes");
    fake(|f| f.fails.insert("hipDeviceGetAttribute", 101));
    assert_eq!(device.attribute(Attribute::ClockRate).unwrap_err().code(), Some(101));
}

#[test]
fn multiprocessors_of_rdna_are_not_its_compute_units() {
    fake(|f| f.attributes.extend([(63, 48), (10015, 96)]));
    assert_eq!(device().compute_units().unwrap(), Some(96));
    fake(|f| f.attributes.remove(&10015));
    assert_eq!(device().compute_units().unwrap(), Some(48));
}

#[test]
fn hip_5_gives_the_architecture_in_its_own_layout() {
    fake(|f| (f.absent, f.version) = (vec!["hipGetDevicePropertiesR0600"], 50_221_153));
    assert_eq!(device().arch().unwrap(), "gfx90a");
}

#[test]
fn the_name_without_a_version_is_not_used_from_hip_6_on() {
    fake(|f| f.absent = vec!["hipGetDevicePropertiesR0600"]);
    let error = device().arch().unwrap_err();
    assert!(error.missing_symbol(), "{error}");
    assert!(!calls().iter().any(|call| call.starts_with("hipGetDeviceProperties")));
}

#[test]
fn no_gpu_and_no_visible_gpu_are_told_apart() {
    fake(|f| f.devices = 0);
    assert_eq!(runtime().device_count(), Ok(0));
    let hidden = runtime().device(0).unwrap_err();
    assert!(!hidden.no_device());
    assert_eq!(hidden.to_string(), "no HIP device 0: none is visible");
    fake(|f| f.fails.insert("hipGetDeviceCount", 100));
    let none = runtime().device(0).unwrap_err();
    assert!(none.no_device());
    assert_eq!(
        none.to_string(),
        "hipGetDeviceCount failed: hipErrorNoDevice (100): no ROCm-capable device is detected"
    );
    assert_eq!(none.code(), Some(100));
}

#[test]
fn hip_5_calls_a_missing_gpu_an_invalid_device() {
    fake(|f| f.fails = [("hipInit", 101), ("hipGetDeviceCount", 100)].into());
    assert!(runtime().init().unwrap_err().no_device());
    fake(|f| f.fails.remove("hipGetDeviceCount"));
    assert_eq!(runtime().init().unwrap_err().code(), Some(101), "another reason stays what it is");
}

#[test]
fn devices_beyond_the_last_are_refused() {
    assert!(runtime().device(1).is_ok());
    assert_eq!(runtime().device(2).unwrap_err().to_string(), "no HIP device 2: there are devices 0 to 1");
}

#[test]
fn a_missing_function_names_library_symbol_and_need() {
    fake(|f| f.absent = vec!["hipMalloc"]);
    let error = device().alloc(16).unwrap_err();
    let text = error.to_string();
    for part in ["fake", "hipMalloc", "allocating device memory"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn functions_are_looked_up_when_first_needed_and_once() {
    let runtime = runtime();
    fake(|f| f.lookups.clear());
    for _ in 0..3 {
        runtime.init().unwrap();
    }
    let lookups = fake(|f| f.lookups.clone());
    assert_eq!(lookups, [("hipInit".to_owned(), 1)].into());
    fake(|f| f.absent = vec!["hipMalloc"]);
    let device = runtime.device(0).unwrap();
    assert!(device.alloc(16).is_err() && device.alloc(16).is_err());
    assert_eq!(fake(|f| f.lookups["hipMalloc"]), 1, "absence is remembered as well");
    assert!(runtime.extension(c"hipFree").is_some());
    assert!(runtime.extension(c"hipNoSuchThing").is_none());
}

#[test]
fn memory_is_copied_filled_and_freed() {
    let device = device();
    let (a, b) = (device.alloc(16).unwrap(), device.alloc(16).unwrap());
    assert_eq!(live(), 2);
    a.copy_from_host(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    a.slice(8..).unwrap().fill_u32(0x0a0b_0c0d).unwrap();
    b.copy_from_device(&a).unwrap();
    b.slice(1..3).unwrap().fill_u8(0xff).unwrap();
    let mut host = [0; 16];
    b.copy_to_host(&mut host).unwrap();
    assert_eq!(host, [1, 0xff, 0xff, 4, 5, 6, 7, 8, 0xd, 0xc, 0xb, 0xa, 0xd, 0xc, 0xb, 0xa]);
    let inner = b.slice(4..12).unwrap().slice(2..=3).unwrap();
    assert_eq!((inner.address(), inner.len()), (b.address() + 6, 2));
    drop((a, b));
    assert_eq!(live(), 0);
    assert_eq!(device.runtime().take_drop_errors(), DropErrors::default());
}

#[test]
fn synchronous_fills_wait_and_fills_in_a_stream_do_not() {
    let device = device();
    let (buffer, stream) = (device.alloc(8).unwrap(), device.stream().unwrap());
    calls();
    buffer.fill_u8(0).unwrap();
    assert_eq!(calls(), ["hipSetDevice(0)", "hipMemsetD8Async(8, null stream)", "hipStreamSynchronize(null stream)"]);
    buffer.all().fill_u32_on(0, &stream).unwrap();
    buffer.slice(..4).unwrap().copy_from_device_on(buffer.slice(4..).unwrap(), &stream).unwrap();
    assert_eq!(calls(), ["hipMemsetD32Async(2, stream)", "hipMemcpyDtoDAsync(4, stream)"]);
}

#[test]
fn ranges_are_checked_before_hip_sees_them() {
    let buffer = device().alloc(16).unwrap();
    calls();
    assert!(buffer.slice(9..17).is_err());
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = buffer.slice(9..8);
    assert!(backwards.is_err());
    assert!(buffer.slice(0..=u64::MAX).is_err());
    assert!(buffer.slice(4..8).unwrap().slice(0..5).is_err(), "a part of a part stays within it");
    assert!(buffer.copy_from_host(&[0; 17]).is_err());
    assert!(buffer.copy_to_host(&mut [0; 17]).is_err());
    assert!(buffer.all().copy_from_host(&[0; 15]).is_err());
    assert!(buffer.slice(..6).unwrap().fill_u32(0).is_err());
    assert!(buffer.slice(2..6).unwrap().fill_u32(0).is_err());
    assert_eq!(calls(), [""; 0]);
}

#[test]
fn nothing_is_not_allocated() {
    let buffer = device().alloc(0).unwrap();
    buffer.fill_u8(1).unwrap();
    buffer.copy_from_host(&[]).unwrap();
    assert_eq!((buffer.address(), buffer.is_empty()), (0, true));
    drop(buffer);
    assert_eq!(calls(), [""; 0]);
}

#[test]
fn running_out_of_memory_is_recognised() {
    fake(|f| f.fails.insert("hipMalloc", 2));
    let error = device().alloc(1 << 40).unwrap_err();
    assert!(error.out_of_memory());
    assert_eq!(error.to_string(), "hipMalloc (1099511627776 bytes) failed: hipErrorOutOfMemory (2): out of memory");
}

#[test]
fn errors_of_releases_are_kept_and_counted() {
    let device = device();
    fake(|f| f.fails.insert("hipEventDestroy", 709));
    for _ in 0..40 {
        drop(device.event().unwrap());
    }
    let errors = device.runtime().take_drop_errors();
    assert_eq!((errors.count, errors.first.len()), (40, 32));
    let first = &errors.first[0];
    assert_eq!(first.code(), Some(709));
    assert_eq!(first.to_string(), "hipEventDestroy failed: hipError (709)", "a library without a name for it");
    assert_eq!(device.runtime().take_drop_errors(), DropErrors::default());
}

#[test]
fn a_stream_and_its_events_are_made_and_used() {
    let device = device();
    let stream = device.stream().unwrap();
    let (start, stop) = (device.event().unwrap(), device.event().unwrap());
    let quiet = EventOptions { timing: false, blocking_sync: true, system_fence: false };
    drop(device.event_with(quiet).unwrap());
    start.record(&stream).unwrap();
    stream.wait_for(&stop).unwrap();
    assert_eq!(stop.elapsed_ms_since(&start).unwrap(), 1.0);
    assert_eq!(start.elapsed_ms_since(&stop).unwrap(), -1.0, "times are given as they come");
    let made: Vec<_> = calls().into_iter().filter(|call| call.contains("WithFlags")).collect();
    assert_eq!(
        made,
        [
            "hipStreamCreateWithFlags(1)",
            "hipEventCreateWithFlags(0x0)",
            "hipEventCreateWithFlags(0x0)",
            "hipEventCreateWithFlags(0x20000003)",
        ]
    );
    drop((stream, start, stop));
    assert_eq!(live(), 0);
}

#[test]
fn a_hanging_device_is_given_up_at_the_deadline() {
    let device = device();
    let (stream, event) = (device.stream().unwrap(), device.event().unwrap());
    fake(|f| f.busy = u32::MAX);
    assert_eq!(event.query(), Ok(false));
    let soon = || Instant::now() + Duration::from_millis(5);
    assert!(event.wait_until(soon()).unwrap_err().timed_out());
    assert!(stream.wait_until(soon()).unwrap_err().timed_out());
    fake(|f| f.busy = 100);
    assert_eq!(stream.wait_until(Instant::now() + Duration::from_secs(60)), Ok(()));
    fake(|f| f.fails.insert("hipEventQuery", 719));
    assert_eq!(event.wait_until(soon()).unwrap_err().code(), Some(719), "a failed kernel is not a timeout");
}

#[test]
fn a_launch_hands_over_grid_block_and_argument_bytes() {
    let device = device();
    let stream = device.stream().unwrap();
    let kernel = device.load(&code()).unwrap().function("axpy").unwrap();
    calls();
    kernel.launch(&stream, Dim3::new(3, 2, 1), Dim3::x(256), 512, &[1, 2, 3, 4]).unwrap();
    assert_eq!(fake(|f| f.kernarg.clone()), [1, 2, 3, 4]);
    kernel.launch(&stream, Dim3::x(1), Dim3::x(64), 0, &[]).unwrap();
    assert_eq!(
        calls(),
        [
            "hipModuleLaunchKernel(3 2 1, 256 1 1, 512, extra true)",
            "hipModuleLaunchKernel(1 1 1, 64 1 1, 0, extra false)"
        ]
    );
    fake(|f| f.fails.insert("hipModuleLaunchKernel", 719));
    let error = kernel.launch(&stream, Dim3::x(2), Dim3::x(1024), 0, &[]).unwrap_err();
    assert!(error.to_string().contains("(axpy, 2x1x1 workgroups of 1024x1x1, 0 bytes of dynamic LDS)"), "{error}");
}

#[test]
fn a_timed_launch_counts_work_items_and_uses_either_name() {
    let device = device();
    let (stream, start, stop) = (device.stream().unwrap(), device.event().unwrap(), device.event().unwrap());
    let kernel = device.load(&code()).unwrap().function("axpy").unwrap();
    calls();
    fake(|f| f.absent = vec!["hipExtModuleLaunchKernel"]);
    assert!(device.runtime().has_launch_timed(), "under its C++ name");
    kernel.launch_timed(&stream, Dim3::new(3, 2, 5), Dim3::new(64, 4, 1), 16, &[9], &start, &stop).unwrap();
    assert_eq!(calls(), ["hipExtModuleLaunchKernel(192 8 5, 64 4 1, 16)"]);
    assert_eq!(fake(|f| f.kernarg.clone()), [9]);
    let error = kernel.launch_timed(&stream, Dim3::x(1 << 24), Dim3::x(256), 0, &[], &start, &stop).unwrap_err();
    assert!(matches!(error, HipError::Invalid(_)), "{error}");
}

#[test]
fn timed_launches_are_optional() {
    fake(|f| {
        let mangled = "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j";
        f.absent = vec!["hipExtModuleLaunchKernel", mangled];
    });
    let device = device();
    let (stream, event) = (device.stream().unwrap(), device.event().unwrap());
    let kernel = device.load(&code()).unwrap().function("axpy").unwrap();
    assert!(!device.runtime().has_launch_timed());
    let error = kernel.launch_timed(&stream, Dim3::x(1), Dim3::x(64), 0, &[], &event, &event).unwrap_err();
    assert!(error.missing_symbol(), "{error}");
}

#[test]
fn kernels_have_attributes_and_occupancy() {
    let module = device().load(&code()).unwrap();
    let kernel = module.function("axpy").unwrap();
    assert_eq!(kernel.attribute(FunctionAttribute::MaxThreadsPerBlock).unwrap(), Some(256));
    assert_eq!(kernel.attribute(FunctionAttribute::MaxDynamicSharedSizeBytes).unwrap(), None);
    assert_eq!(kernel.occupancy(256, 2048).unwrap(), 6, "the fake's own rule: 2048 / block - KiB of LDS");
    let error = module.function("absent").unwrap_err();
    assert_eq!(error.code(), Some(500));
    assert!(error.to_string().contains("(absent)"), "{error}");
    assert!(module.function("a\0b").is_err());
}

#[test]
fn bytes_that_are_no_code_object_never_reach_hip() {
    let device = device();
    assert!(matches!(device.load(b"MZ not this"), Err(HipError::Invalid(_))));
    assert!(matches!(device.load(&code()[..63]), Err(HipError::Invalid(_))));
    assert_eq!(calls(), [""; 0]);
}

#[test]
fn a_code_object_stays_loaded_while_a_kernel_of_it_lives() {
    let device = device();
    let module = device.load(&code()).unwrap();
    let kernel = module.function("axpy").unwrap();
    calls();
    drop(module);
    assert_eq!(calls(), [""; 0]);
    drop(kernel);
    assert_eq!(calls(), ["hipModuleUnload()"]);
}

#[test]
fn a_captured_graph_keeps_its_code_objects_loaded() {
    let device = device();
    let kernel = device.load(&code()).unwrap().function("axpy").unwrap();
    let launch = |stream: &Stream| kernel.launch(stream, Dim3::x(1), Dim3::x(64), 0, &[]);
    let (graph, stream) = device.stream().unwrap().capture(launch).unwrap();
    assert_eq!(graph.nodes().unwrap(), 3);
    let exec = graph.instantiate().unwrap();
    drop((graph, kernel));
    calls();
    exec.launch(&stream).unwrap();
    assert_eq!(calls(), ["hipGraphLaunch()"]);
    drop((exec, stream));
    assert_eq!(calls(), ["hipGraphExecDestroy()", "hipModuleUnload()", "hipStreamDestroy()"]);
    assert_eq!(live(), 0);
}

#[test]
fn a_failed_capture_is_ended_and_its_stream_thrown_away() {
    let device = device();
    let failure = HipError::Invalid("no".into());
    let result = device.capture(|_| Err(failure.clone()));
    assert_eq!(result.unwrap_err(), failure);
    let expected = [
        "hipSetDevice(0)",
        "hipStreamCreateWithFlags(1)",
        "hipStreamBeginCapture(1)",
        "hipStreamEndCapture()",
        "hipGraphDestroy()",
        "hipStreamDestroy()",
    ];
    assert_eq!(calls(), expected);
    // What HIP does after a call that a capture does not allow: the end fails and gives no graph.
    fake(|f| f.fails.insert("hipStreamEndCapture", 901));
    assert_eq!(device.capture::<HipError>(|_| Ok(())).unwrap_err().code(), Some(901));
    assert_eq!(live(), 0);
}

#[test]
fn a_panic_while_capturing_ends_the_capture() {
    let device = device();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        device.capture::<HipError>(|_| panic!("on purpose")).map(drop)
    }));
    assert!(panicked.is_err());
    assert_eq!(calls()[3..], ["hipStreamEndCapture()", "hipGraphDestroy()", "hipStreamDestroy()"]);
    assert_eq!(live(), 0);
}

#[test]
fn things_of_two_devices_are_not_mixed() {
    let runtime = runtime();
    let (one, two) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let stream = two.stream().unwrap();
    let kernel = one.load(&code()).unwrap().function("axpy").unwrap();
    let (event, other) = (one.event().unwrap(), two.event().unwrap());
    let (from, to) = (one.alloc(4).unwrap(), two.alloc(4).unwrap());
    calls();
    let text = kernel.launch(&stream, Dim3::x(1), Dim3::x(64), 0, &[]).unwrap_err().to_string();
    assert_eq!(text, "a kernel of device 0 cannot be used in a stream of device 1");
    assert!(event.record(&stream).is_err());
    assert!(stream.wait_for(&event).is_err());
    assert!(other.elapsed_ms_since(&event).is_err());
    assert!(to.copy_from_device(&from).is_err());
    assert!(from.all().fill_u8_on(0, &stream).is_err());
    assert_eq!(calls(), [""; 0]);
    // Device numbers alone do not make devices equal: another library has a device 0 of its own.
    let elsewhere = Runtime::from_symbols("another", table).device(1).unwrap();
    assert!(elsewhere.event().unwrap().record(&stream).is_err());
}

#[test]
fn a_source_is_compiled_and_its_program_destroyed() {
    let compiler = Compiler::from_symbols("fake", table);
    let compiled = compiler.compile("__global__ void k() {}", "k.hip", &["--offload-arch=gfx942", "-O3"]).unwrap();
    assert_eq!((&compiled.code[..], compiled.log.as_str()), (&b"\x7fELF"[..], "1:1: no"));
    let expected = [
        "hiprtcCreateProgram(__global__ void k() {})",
        "hiprtcCompileProgram(--offload-arch=gfx942 -O3)",
        "hiprtcDestroyProgram()",
    ];
    assert_eq!(calls(), expected);
    assert_eq!(live(), 0);
}

#[test]
fn a_source_that_does_not_compile_gives_the_log() {
    let compiler = Compiler::from_symbols("fake", table);
    fake(|f| f.fails.insert("hiprtcCompileProgram", 6));
    let error = compiler.compile("x", "k.hip", &["-O3"]).unwrap_err();
    assert_eq!(error.to_string(), "k.hip did not compile for `-O3`: HIPRTC_ERROR_COMPILATION (6)\n1:1: no");
    assert_eq!(live(), 0);
    // hiprtc has no text for statuses above 11: NULL.
    fake(|f| f.fails.insert("hiprtcCompileProgram", 12));
    assert_eq!(compiler.compile("x", "k.hip", &[]).unwrap_err().code(), Some(12));
    assert!(matches!(compiler.compile("a\0b", "k.hip", &[]), Err(HipError::Invalid(_))));
}

#[test]
fn owners_can_be_sent_and_shared() {
    fn both<T: Send + Sync>() {}
    both::<Runtime>();
    both::<kbench_hip::Buffer>();
    both::<Stream>();
    both::<kbench_hip::Event>();
    both::<kbench_hip::Function>();
    both::<kbench_hip::GraphExec>();
    both::<Compiler>();
}
