//! Small traces written for these tests, one per dialect and per thing that can be wrong with a trace.

// Helpers of tests may fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kbench_profile::kineto::{self, DispatchKind, Geometry, JoinedKernel, LaunchKind, OpLink, Trace, TraceError};
use kbench_profile::{Finding, Severity};
use kbench_workload::ArgDims;
use serde_json::{Value, json};

fn read(document: Value) -> Trace {
    kineto::read_text(document.to_string().as_bytes(), "test.json").unwrap()
}

/// A trace of the roctracer dialect with these events.
fn roctracer(events: Vec<Value>) -> Trace {
    read(json!({ "roctracer_version": 4.1, "record_shapes": 1, "traceEvents": events, "traceName": "t" }))
}

fn event(cat: &str, name: &str, place: [u64; 2], time: [f64; 2], args: Value) -> Value {
    json!({ "ph": "X", "cat": cat, "name": name, "pid": place[0], "tid": place[1], "ts": time[0], "dur": time[1], "args": args })
}

fn kernel(name: &str, ts: f64, dur: f64, correlation: u64) -> Value {
    let args = json!({ "device": 0, "stream": 7, "correlation": correlation, "kind": "Dispatch Kernel" });
    event("kernel", name, [0, 7], [ts, dur], args)
}

fn launch(api: &str, ts: f64, correlation: u64) -> Value {
    event("cuda_runtime", api, [50, 51], [ts, 1.0], json!({ "cid": 1, "correlation": correlation }))
}

fn label(name: &str, ts: f64, dur: f64) -> Value {
    event("user_annotation", name, [50, 51], [ts, dur], json!({}))
}

fn finding<'t>(trace: &'t Trace, code: &str) -> &'t Finding {
    trace
        .health
        .iter()
        .find(|finding| finding.code == code)
        .unwrap_or_else(|| panic!("no {code} in {:?}", trace.health))
}

fn has(trace: &Trace, code: &str) -> bool {
    trace.health.iter().any(|finding| finding.code == code)
}

fn labels(trace: &Trace, kernel: &JoinedKernel<'_>) -> Vec<String> {
    kernel.annotations().map(|label| trace.name(label.label).to_owned()).collect()
}

#[test]
fn roctracer_dialect() {
    let dims = json!([[16, 64], [64, 32], []]);
    let args = json!({ "External id": 5, "Input Dims": dims, "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"],
        "Input Strides": [[64, 1], [1, 64], []], "Concrete Inputs": ["", "", "0.5"] });
    let trace = roctracer(vec![
        label("decode[bs=16 tok=16 d=16]", 100.0, 50.0),
        event("cpu_op", "aten::mm", [50, 51], [101.0, 20.0], args),
        event(
            "cuda_runtime",
            "hipExtModuleLaunchKernel",
            [50, 51],
            [105.0, 2.0],
            json!({ "External id": 5, "kernel": "Cijk", "cid": 1, "correlation": 9, "grid": [1000, 2, 1], "block": [256, 1, 1], "shared memory": 64 }),
        ),
        event(
            "kernel",
            "Cijk",
            [3, 4],
            [110.001, 7.25],
            json!({ "External id": 5, "device": 3, "stream": 4, "correlation": 9, "kind": "Dispatch Kernel", "grid": [1000, 2, 1], "block": [256, 1, 1] }),
        ),
        event(
            "cuda_runtime",
            "hipLaunchKernel",
            [50, 51],
            [108.0, 2.0],
            json!({ "External id": 5, "kernel": "k", "correlation": 10, "grid": [8, 1, 1], "block": [64, 1, 1] }),
        ),
        event(
            "kernel",
            "k",
            [3, 4],
            [120.0, 1.0],
            json!({ "External id": 5, "device": 3, "stream": 4, "correlation": 10 }),
        ),
    ]);
    assert_eq!(trace.health, []);
    let joined = trace.joined();
    let kernels: Vec<_> = joined.kernels().collect();
    assert_eq!((kernels[0].name(), kernels[0].kernel.ts_ns, kernels[0].kernel.dur_ns), ("Cijk", 110_001, 7_250));
    // 1000 work-items in workgroups of 256 are 4 workgroups, the last one partly filled.
    let geometry = Geometry { grid: Some([4, 2, 1]), block: Some([256, 1, 1]), shared_bytes: 0 };
    assert_eq!(kernels[0].geometry(), Some(geometry));
    let launched = trace.geometry(kernels[0].launch().unwrap().geometry.unwrap());
    assert_eq!(launched, Geometry { shared_bytes: 64, ..geometry });
    assert_eq!(kernels[1].geometry().unwrap().grid, Some([8, 1, 1]), "taken from the launch, already in workgroups");
    let (op, link) = kernels[0].op().unwrap();
    assert_eq!((trace.name(op.name), link), ("aten::mm", OpLink::Own));
    let call = kernels[0].op_call().unwrap();
    assert_eq!(call.args[1].dims, ArgDims::Tensor(vec![64, 32]));
    assert_eq!((call.args[1].strides.as_slice(), call.args[2].concrete.as_str()), (&[1, 64][..], "0.5"));
    assert_eq!(labels(&trace, &kernels[0]), ["decode[bs=16 tok=16 d=16]"]);
    let track = trace.track(kernels[0].kernel.track);
    assert_eq!((track.device, track.stream), (3, 4));
}

#[test]
fn rocprofiler_sdk_dialect() {
    let trace = read(json!({ "rocprofiler-sdk_version": 1.0, "hip_runtime_version": 70125424, "traceEvents": [
        event("cpu_op", "aten::scaled_dot_product_attention", [5, 5], [1.0, 9.0],
            json!({ "External id": 1, "Input Dims": [[1, 32, 128, 64]] })),
        event("cuda_runtime", "hipModuleLaunchKernel", [5, 5], [2.0, 1.0],
            json!({ "External id": 1, "correlation": 3, "grid": [0, 0, 0], "block": [0, 0, 0] })),
        event("kernel", "attn_fwd.kd", [2, 1], [20.0, 5.0],
            json!({ "External id": 1, "device": 2, "stream": 18446744073709551615u64, "correlation": 3, "kind": "<unknown>",
                    "grid": [0, 0, 0], "block": [0, 0, 0] })),
    ]}));
    let joined = trace.joined();
    let kernel = joined.kernels().next().unwrap();
    assert_eq!(kernel.geometry(), None, "zeros mean unknown");
    assert_eq!((kernel.kernel.kind, trace.track(kernel.kernel.track).stream), (DispatchKind::Unknown, u64::MAX));
    assert_eq!(kernel.op_call().unwrap().tensor(0), Some(&[1, 32, 128, 64][..]));
    assert_eq!(kernel.launch().map(|launch| trace.name(launch.kernel)), Some(""));
}

#[test]
fn legacy_dialect_joins_in_order_under_one_external_id() {
    let call = |kernel: &str, ts: f64| {
        event(
            "cuda_runtime",
            "hipLaunchKernel",
            [5, 6],
            [ts, 1.0],
            json!({ "External id": 4, "Kernel": kernel, "grid dim": "[8, 2, 1]", "block dim": "[64, 1, 1]", "shared size": 128, "stream": "0x0" }),
        )
    };
    let run = |kernel: &str, ts: u64| json!({ "ph": "X", "cat": "Kernel", "name": kernel, "pid": 0, "tid": 3, "ts": ts, "dur": 2, "args": { "External id": 4 } });
    let trace = read(json!({ "traceEvents": [
        event("cpu_op", "aten::add", [5, 6], [1.0, 20.0], json!({ "External id": 4, "Input Dims": [[9]] })),
        call("first", 2.0), call("second", 3.0), call("first", 4.0),
        run("first", 30), run("second", 40), run("first", 50), run("first", 60),
    ]}));
    let joined = trace.joined();
    let launched: Vec<Option<i64>> =
        joined.kernels().map(|kernel| kernel.launch().map(|launch| launch.ts_ns)).collect();
    assert_eq!(launched, [Some(2000), Some(3000), Some(4000), None]);
    let first = joined.kernels().next().unwrap();
    let geometry = Geometry { grid: Some([8, 2, 1]), block: Some([64, 1, 1]), shared_bytes: 128 };
    assert_eq!((first.geometry(), first.op().map(|(_, link)| link)), (Some(geometry), Some(OpLink::Own)));
    assert_eq!((first.kernel.ts_ns, first.kernel.dur_ns, trace.track(first.kernel.track).stream), (30_000, 2_000, 3));
}

#[test]
fn nvidia_dialect_keeps_geometry_on_replay() {
    let trace = read(json!({ "cupti_version": 28, "traceEvents": [
        launch("cudaGraphLaunch", 1.0, 8),
        event("kernel", "nvjet", [0, 7], [5.0, 2.0],
            json!({ "device": 0, "context": 1, "stream": 7, "correlation": 8, "grid": [140, 1, 1], "block": [256, 1, 1],
                    "shared memory": 0, "graph id": 6, "graph node id": 77, "est. achieved occupancy %": 12 })),
        event("kernel", "nvjet", [0, 7], [9.0, 2.0], json!({ "device": 0, "stream": 7, "grid": [3, 1, 1], "block": [32, 1, 1] })),
    ]}));
    let joined = trace.joined();
    let kernels: Vec<_> = joined.kernels().collect();
    assert!(kernels[0].is_replayed() && !kernels[1].is_replayed());
    assert_eq!(kernels[0].geometry().unwrap().grid, Some([140, 1, 1]));
    assert_eq!(kernels[1].geometry().unwrap().grid, Some([3, 1, 1]), "CUPTI gives kernels a grid of their own");
    assert_eq!(trace.graph_node(kernels[0].kernel).map(|node| (node.graph, node.node)), Some((6, 77)));
}

#[test]
fn kernels_of_a_replay_have_no_operator_even_with_an_external_id() {
    let task = json!({ "External id": 5, "device": 0, "stream": 7, "correlation": 8, "kind": "Dispatch Task" });
    let trace = roctracer(vec![
        event("cpu_op", "CompiledFxGraph", [50, 51], [0.5, 9.0], json!({ "External id": 5, "Input Dims": [[4]] })),
        launch("hipGraphLaunch", 1.0, 8),
        event("kernel", "a", [0, 7], [5.0, 1.0], task.clone()),
        event("kernel", "b", [0, 7], [7.0, 1.0], task),
    ]);
    let joined = trace.joined();
    assert!(joined.kernels().all(|kernel| kernel.is_replayed() && kernel.op().is_none()));
    let launches: Vec<_> = joined.kernels().map(|kernel| kernel.launch().unwrap().kind).collect();
    assert_eq!(launches, [LaunchKind::Graph; 2], "many kernels share one correlation");
}

#[test]
fn operators_without_dims_give_way_to_those_around_them() {
    let op = |name: &str, id: u64, ts: f64, dur: f64, dims: Value| {
        event("cpu_op", name, [50, 51], [ts, dur], json!({ "External id": id, "Input Dims": dims }))
    };
    let with_id = |ts: f64, id: u64| {
        event(
            "kernel",
            "k",
            [0, 7],
            [ts, 1.0],
            json!({ "External id": id, "device": 0, "stream": 7, "correlation": id }),
        )
    };
    let trace = roctracer(vec![
        op("vllm::moe_forward", 1, 10.0, 50.0, json!([[32, 2880]])),
        op("triton_wrapper", 2, 12.0, 30.0, json!([])),
        op("inner", 3, 13.0, 2.0, json!([[], []])),
        op("elsewhere", 4, 100.0, 5.0, json!([[]])),
        // The same time on another thread encloses nothing.
        event("cpu_op", "other thread", [50, 99], [90.0, 50.0], json!({ "External id": 6, "Input Dims": [[7]] })),
        event(
            "cpu_op",
            "aten::cat",
            [50, 51],
            [200.0, 9.0],
            json!({ "External id": 7, "Input Dims": [[[2, 3], [4, 3]], []] }),
        ),
        launch("hipLaunchKernel", 14.0, 3),
        launch("hipLaunchKernel", 101.0, 4),
        launch("hipLaunchKernel", 203.0, 99),
        with_id(300.0, 3),
        with_id(310.0, 4),
        kernel("k", 320.0, 1.0, 99),
        kernel("k", 330.0, 1.0, 1000),
    ]);
    let joined = trace.joined();
    let found: Vec<_> =
        joined.kernels().map(|kernel| kernel.op().map(|(op, link)| (trace.name(op.name), link))).collect();
    assert_eq!(
        found,
        [
            Some(("vllm::moe_forward", OpLink::Enclosing)),
            Some(("elsewhere", OpLink::WithoutDims)),
            Some(("aten::cat", OpLink::Own)), // no External id anywhere: by the time of the launch
            None,
        ]
    );
    let cat = joined.kernels().nth(2).unwrap().op_call().unwrap();
    assert_eq!(cat.args[0].dims, ArgDims::List(vec![vec![2, 3], vec![4, 3]]));
}

#[test]
fn labels_come_from_the_stream_then_from_the_launch() {
    let on_gpu = |name: &str, stream: u64, ts: f64, dur: f64| {
        event("gpu_user_annotation", name, [0, stream], [ts, dur], json!({}))
    };
    let trace = roctracer(vec![
        label("step[DECODE bs=16]", 10.0, 20.0),
        label("## Call CompiledFxGraph ##", 11.0, 3.0),
        launch("hipLaunchKernel", 12.0, 1),
        launch("hipLaunchKernel", 20.0, 2),
        event("cuda_runtime", "hipLaunchKernel", [50, 77], [21.0, 1.0], json!({ "correlation": 3 })),
        event("cuda_runtime", "hipLaunchKernel", [60, 77], [21.0, 1.0], json!({ "correlation": 4 })),
        on_gpu("ProfilerStep#1", 7, 100.0, 50.0),
        on_gpu("other stream", 8, 100.0, 50.0),
        kernel("a", 100.0, 1.0, 1),
        kernel("b", 200.0, 1.0, 2),
        kernel("c", 210.0, 1.0, 3),
        kernel("d", 220.0, 1.0, 4),
    ]);
    let joined = trace.joined();
    let found: Vec<_> = joined.kernels().map(|kernel| labels(&trace, &kernel)).collect();
    assert_eq!(found[0], ["ProfilerStep#1", "## Call CompiledFxGraph ##", "step[DECODE bs=16]"]);
    assert_eq!(found[1], ["step[DECODE bs=16]"]);
    assert_eq!(found[2], ["step[DECODE bs=16]"], "a thread without labels takes those of its process");
    assert_eq!(found[3], [""; 0]);
}

#[test]
fn processes_and_threads_may_be_words() {
    let mut op = event("cpu_op", "op", [0, 0], [1.0, 5.0], json!({ "External id": 1 }));
    op["pid"] = json!("Worker 0");
    op["tid"] = json!("main \u{e9}");
    let trace = roctracer(vec![op, kernel("k", 2.0, 1.0, 1)]);
    let thread = trace.thread(trace.ops[0].thread);
    assert_eq!((thread.pid, thread.tid), ("Worker 0", "main \u{e9}"));
}

#[test]
fn impossible_times_are_dropped_and_counted() {
    let mut missing = kernel("missing", 5.0, 1.0, 1);
    missing.as_object_mut().unwrap().remove("dur");
    let trace = roctracer(vec![
        kernel("good", 10.0, 1.0, 1),
        kernel("zero", 20.0, 0.0, 1),
        kernel("negative", 30.0, -1.0, 1),
        kernel("at zero", 0.0, 1.0, 1),
        kernel("absurd", 1e300, 1.0, 1),
        missing,
    ]);
    assert_eq!((trace.kernels.len(), trace.stats.bad_kernels), (1, 5));
    assert!(finding(&trace, "zero_durations").message.starts_with("5 kernels"));
}

#[test]
fn durations_that_overrun_the_next_kernel_are_clipped() {
    let trace = roctracer(vec![
        kernel("overlong", 100.0, 31_000.0, 1),
        kernel("next", 150.0, 10.0, 2),
        kernel("by 2 µs", 200.0, 12.0, 3),
        kernel("twin", 210.0, 50.0, 4),
        kernel("twin", 210.0, 40.0, 5),
        kernel("last", 255.0, 1e6, 6),
        event("kernel", "elsewhere", [0, 8], [90.0, 1e6], json!({ "device": 0, "stream": 8 })),
    ]);
    let found: Vec<(&str, u64)> = trace.kernels.iter().map(|kernel| (trace.name(kernel.name), kernel.dur_ns)).collect();
    assert_eq!(
        found,
        [
            ("overlong", 50_000),
            ("next", 10_000),
            ("by 2 µs", 12_000),
            ("twin", 40_000),
            ("twin", 50_000),
            ("last", 1_000_000_000),
            ("elsewhere", 1_000_000_000),
        ]
    );
    let clipped = finding(&trace, "overlap_clipped");
    assert!(clipped.message.starts_with("1 kernels") && clipped.message.contains("30.950 ms"), "{}", clipped.message);
    assert!(finding(&trace, "overlap_small").message.contains("2 kernels overlap"));
}

#[test]
fn no_kernels_says_why() {
    let cause = |trace: &Trace| match trace.require_kernels() {
        Err(TraceError::NoKernels { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let launched = roctracer(vec![launch("hipLaunchKernel", 1.0, 1)]);
    assert!(cause(&launched).starts_with("1 launches were recorded"));
    assert_eq!(finding(&launched, "no_kernels").severity, Severity::Warning);
    let captured = roctracer(vec![
        launch("hipStreamBeginCapture", 1.0, 1),
        launch("hipLaunchKernel", 2.0, 2),
        launch("hipStreamEndCapture", 3.0, 3),
    ]);
    assert!(captured.launches.iter().all(|launch| launch.captured));
    assert!(cause(&captured).contains("--capture"));
    assert!(cause(&roctracer(vec![label("x", 1.0, 1.0)])).contains("CPU only"));
    assert!(cause(&roctracer(vec![kernel("k", 1.0, 0.0, 1)])).contains("all 1 kernel records"));
    assert!(roctracer(vec![kernel("k", 1.0, 1.0, 1)]).require_kernels().is_ok());
}

#[test]
fn lost_records_are_told_apart() {
    // 100 launches in 10 steps, GPU records of the last 20 only.
    let mut events: Vec<Value> =
        (0..10).map(|step| label(&format!("step {step}"), 1000.0 * f64::from(step) + 1.0, 999.0)).collect();
    for index in 0..100u32 {
        let (ts, correlation) = (100.0 * f64::from(index) + 50.0, u64::from(index) + 1);
        events.push(launch("hipLaunchKernel", ts, correlation));
        if index >= 80 {
            events.push(kernel("k", ts + 5.0, 1.0, correlation));
        }
    }
    let trace = roctracer(events);
    assert!(finding(&trace, "launches_without_kernels").message.starts_with("80 of 100 launches"));
    assert!(finding(&trace, "gpu_tail_only").message.contains("KINETO_BUFFER_SIZE_MB"));
    assert!(finding(&trace, "leading_steps_without_gpu").message.starts_with("the first 8 of 10"));
    // The last launches before the profiler stops are nothing to worry about.
    let tail =
        roctracer(vec![launch("hipLaunchKernel", 1.0, 1), kernel("k", 2.0, 1.0, 1), launch("hipLaunchKernel", 3.0, 2)]);
    assert!(!has(&tail, "launches_without_kernels") && !has(&tail, "gpu_tail_only"));
}

#[test]
fn replays_of_one_graph_that_differ_are_incomplete() {
    let replays = |counts: &[usize], with_id: bool| {
        let mut events = Vec::new();
        for (replay, count) in counts.iter().enumerate() {
            let (ts, correlation) = (1e4 * replay as f64 + 1.0, replay as u64 + 1);
            events.push(launch("hipGraphLaunch", ts, correlation));
            for index in 0..*count {
                let mut one = kernel(["a", "b"][index % 2], ts + 10.0 * (index as f64 + 1.0), 1.0, correlation);
                if with_id {
                    one["args"]["graph id"] = json!(1 + correlation % 2);
                }
                events.push(one);
            }
        }
        roctracer(events)
    };
    let lossy = replays(&[64, 56, 64, 8], false);
    let message = &finding(&lossy, "incomplete_replays").message;
    assert!(message.contains("2 of 4 replays") && message.contains("its 64 kernels, the worst 8"), "{message}");
    assert!(!has(&replays(&[64, 64, 64], false), "incomplete_replays"));
    assert!(!has(&replays(&[64, 8, 64, 8], true), "incomplete_replays"), "two graphs by their id");
    assert!(has(&replays(&[64, 8, 60, 8], true), "incomplete_replays"));
}

#[test]
fn runtimes_known_to_lose_kernels_are_named() {
    for (version, severity) in [
        (70_226_015u64, Some(Severity::Warning)),
        (70_253_211, Some(Severity::Note)),
        (70_125_424, None),
        (71_300_000, None),
    ] {
        let trace = read(json!({ "hip_runtime_version": version, "traceEvents": [kernel("k", 1.0, 1.0, 1)] }));
        let found =
            trace.health.iter().find(|finding| finding.code == "rocm_loses_kernels").map(|finding| finding.severity);
        assert_eq!(found, severity, "{version}");
    }
}

#[test]
fn shapes_that_were_not_recorded_are_missed() {
    let op = event("cpu_op", "aten::mm", [50, 51], [1.0, 5.0], json!({ "External id": 1, "Input Dims": [[], []] }));
    assert!(has(&roctracer(vec![op, kernel("k", 2.0, 1.0, 1)]), "no_shapes"));
    assert!(has(&roctracer(vec![kernel("k", 2.0, 1.0, 1)]), "no_ops"));
}

#[test]
fn other_files_get_an_error_that_says_what_they_are() {
    for (content, word) in [
        (&b"Kernel Name,Calls\n"[..], "starts with \"Kernel Name,Call\""),
        (b"", "empty"),
        (b"{}", "no `traceEvents`"),
        (b"{\"schema\": 1, \"rows\": []}", "keys: schema, rows"),
        (b"{\"schemaVersion\": 1, \"dev", "cut off after"),
        (b"{\"rocprofiler-sdk-tool\": [{}]}", "rocprofv3"),
        (b"\x28\xb5\x2f\xfd\0\0", "zstd"),
        (b"SQLite format 3\0", "rocpd"),
        (b"PK\x03\x04", "zip"),
        (b"\xfd7zXZ\0", "xz"),
    ] {
        let error = kineto::read_from(content, "some.json").unwrap_err();
        assert!(matches!(error, TraceError::NotATrace { .. }));
        let message = error.to_string();
        assert!(message.contains(word) && message.starts_with("some.json is not a PyTorch"), "{message}");
        assert!(!message.contains('\n'));
    }
    assert!(matches!(kineto::read("/nonexistent/trace.json"), Err(TraceError::Open { .. })));
}

#[test]
fn a_bare_list_is_a_trace() {
    let trace = read(json!([kernel("k", 2.0, 1.0, 1)]));
    assert_eq!(trace.kernel_ns(), 1000);
}

#[test]
fn unlinked_kernels_are_noted_with_their_share() {
    let trace = roctracer(vec![launch("hipLaunchKernel", 1.0, 1), kernel("a", 2.0, 3.0, 1), kernel("b", 9.0, 1.0, 2)]);
    assert!(finding(&trace, "unlinked_kernels").message.starts_with("1 kernels (25.0 %"));
}

/// A file that several ranks wrote: gzip members of different traces, whole or cut off by the next.
#[test]
fn ranks_that_share_a_file_are_not_mixed() {
    use std::io::Write;
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let rank = |rank: u64| {
        let events: Vec<Value> = (1..=4).map(|at| kernel(&format!("rank {rank}"), at as f64 * 10.0, 1.0, at)).collect();
        json!({ "schemaVersion": 1, "roctracer_version": 4.1, "traceEvents": events, "traceName": "t" })
    };
    // The order of keys decides what the scanner can know of a document at its start.
    let text = |number| format!("{{\"schemaVersion\": 1, {}", &rank(number).to_string()[1..]);
    let third = |whole: &str| whole.match_indices("{\"args\"").nth(2).map(|(at, _)| at + 30).unwrap();
    for (first, kernels) in [(text(0), 4), (text(0)[..third(&text(0))].to_owned(), 2)] {
        let file = [gzip(&first), gzip(&text(1))].concat();
        let trace = kineto::read_from(std::io::Cursor::new(file), "shared.json.gz").unwrap();
        assert_eq!(trace.kernels.len(), kernels);
        assert!(trace.kernels.iter().all(|kernel| trace.name(kernel.name) == "rank 0"));
        let message = &finding(&trace, "several_documents").message;
        assert_eq!(message.contains("is whole"), kernels == 4, "{message}");
    }
}
