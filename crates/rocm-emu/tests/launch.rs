//! Launches, events, captures, faults, reports: what real HIP was seen to do, and the virtual clock.
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic, clippy::macro_metavars_in_unsafe)]

mod support;

use kbench_rocm_emu::{Config, configure};
use std::ffi::c_void;
use support::*;

struct Machine {
    module: Handle,
    _guard: std::sync::MutexGuard<'static, ()>,
}

/// An MI300X with the tests' kernels; `None` without a compiler.
fn machine() -> Option<Machine> {
    let guard = alone();
    let config = Config { threads: 2, instruction_limit: 50_000_000, ..Config::default() };
    // Only the first test of the process can configure it, and all do it alike.
    let _ = configure(config);
    let code = compile("gfx942", SOURCE)?;
    ok!(hipDeviceReset());
    reports();
    Some(Machine { module: module(&code), _guard: guard })
}

impl Machine {
    fn function(&self, name: &str) -> Handle {
        function(self.module, name)
    }
}

const NONE: *mut Handle = std::ptr::null_mut();

#[test]
fn geometry_that_is_refused() {
    let Some(machine) = machine() else { return };
    let (bounded, increment) = (machine.function("bounded"), machine.function("increment"));
    let mut buffer = malloc(4096 * 4);
    let mut params = [arg(&mut buffer)];
    let mut go = |function, grid: [u32; 3], block: [u32; 3], lds| {
        let ([x, y, z], [a, b, c]) = (grid, block);
        code!(hipModuleLaunchKernel(function, x, y, z, a, b, c, lds, NULL, params.as_mut_ptr(), NONE))
    };
    // More than the launch bounds: a launch failure, and the next launch works.
    assert_eq!(go(bounded, [1, 1, 1], [1024, 1, 1], 0), 719);
    assert_eq!(go(bounded, [1, 1, 1], [256, 1, 1], 0), 0);
    for (grid, block, lds) in [
        ([1, 1, 1], [1025, 1, 1], 0),
        ([1, 1, 1], [32, 32, 2], 0),
        ([0, 1, 1], [64, 1, 1], 0),
        ([1, 1, 0], [64, 1, 1], 0),
        ([1 << 26, 1, 1], [64, 1, 1], 0),
        ([1, 1, 1], [64, 1, 1], 65537),
    ] {
        assert_eq!(go(increment, grid, block, lds), 1, "{grid:?} {block:?} {lds}");
    }
    assert_eq!(go(increment, [1, 1, 1], [0, 1, 1], 0), 9);
    assert_eq!(go(NULL, [1, 1, 1], [64, 1, 1], 0), 200);
    assert_eq!(go(0x99 as Handle, [1, 1, 1], [64, 1, 1], 0), 400);
    let mut extra = [NULL; 5];
    let both =
        code!(hipModuleLaunchKernel(increment, 1, 1, 1, 64, 1, 1, 0, NULL, params.as_mut_ptr(), extra.as_mut_ptr()));
    let neither = code!(hipModuleLaunchKernel(increment, 1, 1, 1, 64, 1, 1, 0, NULL, NONE, NONE));
    let nonsense = code!(hipModuleLaunchKernel(increment, 1, 1, 1, 64, 1, 1, 0, NULL, NONE, extra.as_mut_ptr()));
    assert_eq!((both, neither, nonsense), (1, 1, 1));
    ok!(hipDeviceSynchronize());
    assert_eq!(reports().len(), 1, "only one launch ran");
}

#[test]
fn both_ways_of_passing_arguments_are_the_same() {
    let Some(machine) = machine() else { return };
    let mixed = machine.function("mixed");
    let mut out = malloc(20);
    let (mut a, mut b, mut c, mut d) = (200_u8, 3.9_f64, 60_000_u16, 0xdead_beef_u32);
    let mut params = [arg(&mut out), arg(&mut a), arg(&mut b), arg(&mut c), arg(&mut d)];
    assert_eq!(launch(mixed, 2, 128, NULL, &mut params), 0);
    let by_params = download(out, 5);
    assert_eq!(by_params, [200, 3, 60_000, 0xdead_beef, 128]);
    ok!(hipMemset(out, 0, 20));
    // The layout of a C structure with these members; hidden arguments behind it are the runtime's, whatever is there.
    let mut block = vec![0xff_u8; 256];
    block[..8].copy_from_slice(&(out as u64).to_le_bytes());
    block[8] = a;
    block[16..24].copy_from_slice(&b.to_le_bytes());
    block[24..26].copy_from_slice(&c.to_le_bytes());
    block[28..32].copy_from_slice(&d.to_le_bytes());
    let mut size = block.len();
    let mut extra = [1 as Handle, block.as_mut_ptr().cast(), 2 as Handle, arg(&mut size), 3 as Handle];
    ok!(hipModuleLaunchKernel(mixed, 2, 1, 1, 128, 1, 1, 0, NULL, NONE, extra.as_mut_ptr()));
    assert_eq!(download(out, 5), by_params);
}

#[test]
fn events_tell_the_bound_and_the_launch_cost() {
    let Some(machine) = machine() else { return };
    let increment = machine.function("increment");
    let mut buffer = malloc(64 << 10);
    let (stream, start, stop) = (stream(), event(0), event(0));
    let mut ms = 0.0_f32;
    assert_eq!(code!(hipEventElapsedTime(&mut ms, start, stop)), 400, "never recorded");
    let mut run = || {
        ok!(hipEventRecord(start, stream));
        assert_eq!(launch(increment, 64, 256, stream, &mut [arg(&mut buffer)]), 0);
        ok!(hipEventRecord(stop, stream));
        ok!(hipEventSynchronize(stop));
        ok!(hipEventElapsedTime(&mut ms, start, stop));
        ms
    };
    let (first, second) = (run(), run());
    let reports = reports();
    let bound = reports[0].bound.as_ref().unwrap();
    assert_eq!(reports[0].end_ns - reports[0].start_ns, bound.ns.round() as u64);
    // The host's call (2000 ns) and the launch (1000 ns) lie between the first event and the kernel.
    let want = (3000.0 + bound.ns.round()) / 1e6;
    assert!((f64::from(first) - want).abs() < 1e-9, "{first} {want}");
    assert_eq!(first.to_bits(), second.to_bits());
    // Events of the launch itself hold the kernel alone.
    let mut params = [arg(&mut buffer)];
    let ext = |x, params: *mut Handle| {
        code!(hipExtModuleLaunchKernel(increment, x, 1, 1, 256, 1, 1, 0, stream, params, NONE, start, stop, 0))
    };
    assert_eq!(ext(64 * 256, params.as_mut_ptr()), 0);
    ok!(hipStreamSynchronize(stream));
    ok!(hipEventElapsedTime(&mut ms, start, stop));
    assert!((f64::from(ms) * 1e6 - bound.ns.round()).abs() < 0.01, "{ms}");
    assert_eq!(ext(64 * 256 + 1, params.as_mut_ptr()), 801, "partial workgroups");
    assert_eq!(download(buffer, 3), [3; 3]);
}

#[test]
fn events_that_tell_no_time() {
    let Some(_machine) = machine() else { return };
    let (timed, untimed) = (event(0), event(2));
    ok!(hipEventRecord(timed, NULL));
    ok!(hipEventRecord(untimed, NULL));
    ok!(hipDeviceSynchronize());
    let mut ms = -1.0;
    assert_eq!(code!(hipEventElapsedTime(&mut ms, timed, untimed)), 400);
    assert_eq!((ms, code!(hipEventQuery(event(0)))), (-1.0, 0));
    let mut handle = NULL;
    for flags in [0x8, 0x4, 0x4000_0000 | 0x8000_0000] {
        assert_eq!(code!(hipEventCreateWithFlags(&mut handle, flags)), 1, "{flags:#x}");
    }
    ok!(hipEventDestroy(timed));
    assert_eq!(code!(hipEventDestroy(timed)), 709);
    assert_eq!(code!(hipEventDestroy(NULL)), 400);
    assert_eq!(code!(hipStreamSynchronize(0x99 as Handle)), 709);
}

#[test]
fn calls_that_end_a_capture() {
    let Some(machine) = machine() else { return };
    let increment = machine.function("increment");
    let mut buffer = malloc(256);
    let outside = event(0);
    ok!(hipEventRecord(outside, NULL));
    let calls: [&dyn Fn(Handle) -> i32; 4] = [
        &|_| code!(hipMalloc(&mut NULL.clone(), 64)),
        &|_| code!(hipEventSynchronize(outside)),
        &|stream| code!(hipStreamSynchronize(stream)),
        &|stream| code!(hipStreamQuery(stream)),
    ];
    for call in calls {
        let stream = stream();
        ok!(hipStreamBeginCapture(stream, 0));
        assert_eq!(launch(increment, 1, 64, stream, &mut [arg(&mut buffer)]), 0);
        assert_eq!(call(stream), 900);
        let mut status = 0;
        ok!(hipStreamIsCapturing(stream, &mut status));
        assert_eq!(status, 2);
        assert_eq!(launch(increment, 1, 64, stream, &mut [arg(&mut buffer)]), 901);
        let mut graph = 0x55 as Handle;
        assert_eq!(code!(hipStreamEndCapture(stream, &mut graph)), 901);
        assert_eq!(graph, NULL);
        // The stream stays broken: it captures nothing, though every call says that it does.
        ok!(hipStreamBeginCapture(stream, 0));
        assert_eq!(launch(increment, 1, 64, stream, &mut [arg(&mut buffer)]), 0);
        ok!(hipStreamEndCapture(stream, &mut graph));
        assert_eq!(code!(hipGraphInstantiate(&mut NULL.clone(), graph, NONE, std::ptr::null_mut(), 0)), 1);
        ok!(hipStreamDestroy(stream));
    }
    ok!(hipDeviceSynchronize());
    assert_eq!(download(buffer, 1), [0], "nothing ran");
}

#[test]
fn healthy_captures_replay() {
    let Some(machine) = machine() else { return };
    let increment = machine.function("increment");
    for mode in 0..3 {
        let stream = stream();
        let mut buffer = malloc(256);
        ok!(hipStreamBeginCapture(stream, mode));
        ok!(hipMemsetD32Async(buffer, 7, 64, stream));
        for _ in 0..9 {
            assert_eq!(launch(increment, 1, 64, stream, &mut [arg(&mut buffer)]), 0);
        }
        let (mut graph, mut exec, mut count) = (NULL, NULL, 0);
        ok!(hipStreamEndCapture(stream, &mut graph));
        ok!(hipGraphGetNodes(graph, NONE, &mut count));
        assert_eq!(count, 10);
        let mut nodes = [NULL; 12];
        count = 12;
        ok!(hipGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count));
        let kinds = nodes[..10].iter().map(|node| {
            let mut kind = -1;
            ok!(hipGraphNodeGetType(*node, &mut kind));
            kind
        });
        assert_eq!(kinds.collect::<Vec<_>>(), [2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((count, nodes[10]), (10, NULL));
        ok!(hipGraphGetRootNodes(graph, nodes.as_mut_ptr(), &mut count));
        assert_eq!(count, 1);
        assert_eq!(download(buffer, 1), [0], "captured, not run");
        ok!(hipGraphInstantiate(&mut exec, graph, NONE, std::ptr::null_mut(), 0));
        ok!(hipGraphDestroy(graph));
        for _ in 0..2 {
            ok!(hipGraphLaunch(exec, stream));
            ok!(hipStreamSynchronize(stream));
            assert_eq!(download(buffer, 64), [16; 64]);
        }
        ok!(hipGraphExecDestroy(exec));
        assert_eq!(code!(hipGraphLaunch(exec, stream)), 1);
        let reports = reports();
        assert_eq!(reports.len(), 18);
        // Nodes follow each other at the documented distance.
        let gaps: Vec<u64> = reports[..9].windows(2).map(|pair| pair[1].start_ns - pair[0].end_ns).collect();
        assert_eq!(gaps, [500; 8]);
    }
}

#[test]
fn captures_fork_and_join() {
    let Some(machine) = machine() else { return };
    let increment = machine.function("increment");
    let mut buffer = malloc(256);
    let (origin, side, fork, join) = (stream(), stream(), event(2), event(2));
    let mut graph = NULL;
    let mut begin = || {
        ok!(hipStreamBeginCapture(origin, 0));
        assert_eq!(launch(increment, 1, 64, origin, &mut [arg(&mut buffer)]), 0);
        ok!(hipEventRecord(fork, origin));
        ok!(hipStreamWaitEvent(side, fork, 0));
        assert_eq!(launch(increment, 1, 64, side, &mut [arg(&mut buffer)]), 0);
    };
    begin();
    assert_eq!(code!(hipStreamEndCapture(side, &mut graph)), 903);
    ok!(hipEventRecord(join, side));
    ok!(hipStreamWaitEvent(origin, join, 0));
    assert_eq!(code!(hipStreamBeginCapture(origin, 0)), 401);
    ok!(hipStreamEndCapture(origin, &mut graph));
    let mut count = 0;
    ok!(hipGraphGetNodes(graph, NONE, &mut count));
    assert_eq!(count, 2);
    begin();
    assert_eq!(code!(hipStreamEndCapture(origin, &mut graph)), 904);
    assert_eq!(code!(hipStreamEndCapture(origin, &mut graph)), 401);
    assert_eq!(code!(hipStreamBeginCapture(NULL, 0)), 900);
    // The default stream must keep out of a global capture; an event from outside cannot be waited for; two captures stay two.
    let [first, second, third] = [stream(), stream(), stream()];
    ok!(hipStreamBeginCapture(first, 0));
    assert_eq!(launch(increment, 1, 64, NULL, &mut [arg(&mut buffer)]), 906);
    assert_eq!(code!(hipStreamEndCapture(first, &mut graph)), 901);
    ok!(hipEventRecord(join, NULL));
    ok!(hipStreamBeginCapture(second, 2));
    assert_eq!(code!(hipStreamWaitEvent(second, join, 0)), 905);
    assert_eq!(code!(hipStreamEndCapture(second, &mut graph)), 901);
    ok!(hipStreamBeginCapture(third, 2));
    ok!(hipEventRecord(fork, third));
    assert_eq!(code!(hipEventQuery(fork)), 907);
    let other = std::thread::spawn({
        let (third, out) = (third as usize, 0x55_usize);
        move || code!(hipStreamEndCapture(third as Handle, &mut (out as Handle)))
    });
    assert_eq!(other.join().unwrap(), 901);
}

#[test]
fn a_fault_stays_until_the_device_is_reset() {
    let Some(machine) = machine() else { return };
    let mut buffer = malloc(256);
    assert_eq!(launch(machine.function("wild"), 1, 64, NULL, &mut [arg(&mut buffer)]), 0, "the call itself succeeds");
    let stream = code!(hipStreamSynchronize(NULL));
    let codes = [
        stream,
        code!(hipDeviceSynchronize()),
        code!(hipMalloc(&mut NULL.clone(), 8)),
        code!(hipEventRecord(event(0), NULL)),
    ];
    assert_eq!(codes, [700; 4]);
    let mut needed = 0;
    ok!(rocmEmuLastFault(std::ptr::null_mut(), 0, &mut needed));
    let mut text = vec![0_u8; needed];
    assert_eq!(code!(rocmEmuLastFault(text.as_mut_ptr().cast(), needed - 1, std::ptr::null_mut())), 1);
    ok!(rocmEmuLastFault(text.as_mut_ptr().cast(), needed, std::ptr::null_mut()));
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("memory fault: write of 4 B") && text.contains("`wild`"), "{text}");
    assert!(text.contains(&format!("{:#x}", buffer as u64 + (4 << 28))), "2^28 words past the start: {text}");
    ok!(hipFree(buffer));
    ok!(hipDeviceReset());
    ok!(hipFree(malloc(8)));
    assert!(reports().is_empty());
}

#[test]
fn reports_and_samples() {
    let Some(machine) = machine() else { return };
    let mut buffer = malloc(4 * 64 * 100);
    let scratchpad = machine.function("scratchpad");
    let mut which = 5_u32;
    assert_eq!(launch(scratchpad, 100, 64, NULL, &mut [arg(&mut buffer), arg(&mut which)]), 0);
    ok!(rocmEmuSetSample(10));
    assert_eq!(launch(scratchpad, 100, 64, NULL, &mut [arg(&mut buffer), arg(&mut which)]), 0);
    ok!(rocmEmuSetSample(0));
    ok!(rocmEmuSetReports(0));
    assert_eq!(launch(scratchpad, 100, 64, NULL, &mut [arg(&mut buffer), arg(&mut which)]), 0);
    ok!(rocmEmuSetReports(1));
    let reports = reports();
    assert_eq!(reports.len(), 2);
    let (whole, part) = (&reports[0], &reports[1]);
    assert_eq!((whole.kernel.as_str(), whole.grid, whole.block), ("scratchpad", [100, 1, 1], [64, 1, 1]));
    assert_eq!((whole.lds_bytes, whole.sampled), (4096, None));
    let part_of = part.sampled.unwrap();
    assert_eq!((part_of.ran, part_of.workgroups), (10, 100));
    for report in &reports {
        let waves = &report.counters["SQ_WAVES"];
        assert_eq!((waves.value, waves.unit.as_str()), (100.0, "count"));
        let bound = report.bound.as_ref().unwrap();
        assert_eq!(bound.by_resource[&bound.limiter], bound.ns);
        assert_eq!(report.no_bound, None);
    }
    assert_eq!((whole.counters["SQ_WAVES"].kind.as_str(), part.counters["SQ_WAVES"].kind.as_str()), ("exact", "model"));
    // Each wave executes each instruction once.
    assert_eq!(whole.mix.iter().map(|(_, count)| count).sum::<u64>(), whole.instructions);
    assert!(whole.mix.iter().all(|(_, count)| count % 100 == 0));
    assert_eq!(whole.instructions, part.instructions * 10);
    assert!(whole.resources.vgprs > 0 && whole.waves_per_simd.is_some());
}

#[test]
fn host_functions_run_in_order() {
    let Some(machine) = machine() else { return };
    unsafe extern "C" fn look(data: *mut c_void) {
        // SAFETY: the test passes a number that lives long enough.
        unsafe { *data.cast::<u32>() += 1 };
    }
    let mut calls = 0_u32;
    let stream = stream();
    let data = (&raw mut calls).cast();
    ok!(hipLaunchHostFunc(stream, Some(look), data));
    let mut graph = NULL;
    ok!(hipStreamBeginCapture(stream, 2));
    ok!(hipLaunchHostFunc(stream, Some(look), data));
    ok!(hipStreamEndCapture(stream, &mut graph));
    let mut exec = NULL;
    ok!(hipGraphInstantiateWithFlags(&mut exec, graph, 0));
    ok!(hipGraphLaunch(exec, stream));
    ok!(hipStreamSynchronize(stream));
    assert_eq!(calls, 2);
    drop(machine);
}

#[test]
fn streams_overlap_where_the_device_can() {
    let Some(machine) = machine() else { return };
    let mut buffer = malloc(64 << 10);
    let (a, b, done) = (stream(), stream(), event(2));
    for stream in [a, b] {
        assert_eq!(launch(machine.function("increment"), 64, 256, stream, &mut [arg(&mut buffer)]), 0);
    }
    let of = reports();
    assert!(of[1].start_ns >= of[0].end_ns, "one kernel at a time");
    // A stream that waits for an event starts after it, whatever the host's time.
    ok!(hipEventRecord(done, b));
    ok!(hipStreamWaitEvent(a, done, 0));
    assert_eq!(launch(machine.function("increment"), 1, 64, a, &mut [arg(&mut buffer)]), 0);
    assert!(reports()[0].start_ns >= of[1].end_ns);
    let mut device = 7;
    ok!(hipStreamGetDevice(a, &mut device));
    assert_eq!(device, 0);
}

#[test]
fn threads_share_a_device() {
    let Some(machine) = machine() else { return };
    let increment = machine.function("increment") as usize;
    let buffers = [malloc(1024) as usize, malloc(1024) as usize];
    let shared = stream() as usize;
    std::thread::scope(|scope| {
        for buffer in buffers {
            scope.spawn(move || {
                let (mut buffer, own) = (buffer as Handle, stream());
                for turn in 0..20 {
                    let on = if turn % 2 == 0 { own } else { shared as Handle };
                    assert_eq!(launch(increment as Handle, 4, 64, on, &mut [arg(&mut buffer)]), 0);
                    assert!([0, 600].contains(&code!(hipStreamQuery(on))));
                }
                ok!(hipStreamSynchronize(own));
                ok!(hipStreamDestroy(own));
            });
        }
    });
    ok!(hipDeviceSynchronize());
    for buffer in buffers {
        assert_eq!(download(buffer as Handle, 256), [20; 256]);
    }
    let mut reports = reports();
    assert_eq!(reports.len(), 40);
    // Whatever the order, the device ran one kernel after the other.
    reports.sort_by_key(|report| report.start_ns);
    assert!(reports.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
}

#[test]
fn launches_do_not_use_addresses_up() {
    let Some(machine) = machine() else { return };
    let mut buffer = malloc(256);
    let before = malloc(8) as u64;
    for _ in 0..10 {
        assert_eq!(launch(machine.function("increment"), 1, 64, NULL, &mut [arg(&mut buffer)]), 0);
    }
    // The next place for an allocation.
    assert_eq!(malloc(8) as u64, before + (2 << 20));
    assert!(buffer as u64 >= 0x10_0000_0000);
}

#[test]
fn source_lines_are_counted() {
    let Some(_machine) = machine() else { return };
    let source = format!("{SOURCE}\n#line 1000 \"here.hip\"\nKERNEL void lined(u32 *p) {{\n    p[id()] = 7;\n}}\n");
    let Some(code) = compile_with("gfx942", &source, &["-g"]) else { return };
    let mut buffer = malloc(256);
    let module = module(&code);
    assert_eq!(launch(function(module, "lined"), 1, 64, NULL, &mut [arg(&mut buffer)]), 0);
    let report = &reports()[0];
    let lines = report.lines.iter().map(|line| line.instructions).sum::<u64>();
    assert_eq!(lines, report.instructions);
    assert!(report.lines.iter().any(|line| line.file.ends_with("here.hip") && line.line == 1001), "{:?}", report.lines);
}
