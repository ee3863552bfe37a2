//! Real traces of three AMD dialects and NVIDIA's, when they are there.
//!
//! Kernel counts and time sums are those of the fact sheet (section 1 and R12), refined to the nanosecond; the other
//! numbers come from an independent script (Python's `json` with `Decimal` times, joins by brute force over all
//! operators and annotations).

// Helpers of tests may fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kbench_profile::kineto::{self, LaunchKind, OpLink, Trace, TraceError};
use kbench_workload::ArgDims;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

/// The folder of real traces, or a line that says why the test does nothing.
fn traces(test: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = std::env::var_os("KBENCH_REAL_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let folder = root.join(data).join("traces");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("{test}: skipped, no real traces in {} (set KBENCH_REAL_DATA)", folder.display());
    None
}

fn inflated(path: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_end(&mut text).unwrap();
    text
}

fn codes(trace: &Trace) -> Vec<&str> {
    trace.health.iter().map(|finding| finding.code.as_str()).collect()
}

/// One file: text bytes, events, kernels, distinct kernel names, kernel ns, operators, launches and copies; kernels by
/// link (replayed, own operator, enclosing operator, operator without dims, none), kernels without launch, labels.
struct Golden {
    file: &'static str,
    bytes: u64,
    events: u64,
    kernels: usize,
    names: usize,
    kernel_ns: u128,
    ops: usize,
    launches: usize,
    links: [usize; 5],
    unlinked: usize,
    labels: [usize; 2],
    /// The label nearest to most kernels (its start) and how many have it.
    label: (&'static str, usize),
    health: &'static [&'static str],
}

macro_rules! golden {
    ($($file:literal: $bytes:literal, $events:literal, $kernels:literal, $names:literal, $ns:literal, $ops:literal, $launches:literal,
       $links:expr, $unlinked:literal, $labels:expr, $label:expr, $health:expr;)*) => {
        &[$(Golden {
            file: $file, bytes: $bytes, events: $events, kernels: $kernels, names: $names, kernel_ns: $ns, ops: $ops,
            launches: $launches, links: $links, unlinked: $unlinked, labels: $labels, label: $label, health: &$health,
        }),*]
    };
}

#[rustfmt::skip]
const GOLDEN: &[Golden] = golden! {
    "b200_eager_vllm_gptoss120b_tp8_prefill.json.gz":
        14243131, 24656, 768, 29, 10862916, 4809, 929, [0, 766, 0, 0, 2], 0, [3, 3],
        ("execute_context_1(888_788544)_generation", 766), ["overlap_small"];
    "mi210_gpu_only.json.gz":
        741456, 2443, 562, 45, 5343422, 0, 562, [0, 0, 0, 0, 562], 0, [0, 0], ("", 562), ["no_ops"];
    "mi300_capture_sglang_qwen3_8b_bs32.json.gz":
        16836039, 61713, 2, 1, 11015, 3556, 546, [0, 2, 0, 0, 0], 0, [2, 1],
        ("capture_32_DECODE", 2), ["rocm_loses_kernels"];
    "mi300_capture_vllm_gptoss20b_bs32_FULL.json.gz":
        34051142, 131243, 7, 3, 19633, 3819, 431, [0, 7, 0, 0, 0], 0, [26, 1], ("capture_32_FULL", 7), [];
    "mi300_eager_bert_small.json.gz":
        1201758, 2653, 60, 11, 388344, 519, 61, [0, 60, 0, 0, 0], 0, [1, 1], ("ProfilerStep#6", 60), [];
    "mi300_eager_qwen15_0p5b.json.gz":
        9675670, 18090, 1516, 28, 43062042, 4619, 1054, [0, 1053, 0, 0, 463], 463, [1, 1],
        ("ProfilerStep#6", 1053), ["unlinked_kernels"];
    "mi300_eager_sglang_qwen3_8b_prefill.json.gz":
        15250182, 60315, 527, 27, 492773592, 3786, 534, [0, 525, 0, 0, 2], 0, [2, 0],
        ("step[EXTEND bs=15 toks=15360]", 521), ["rocm_loses_kernels"];
    "mi300_eager_timesformer.json.gz":
        19477181, 49950, 447, 26, 118758892, 3591, 449, [0, 447, 0, 0, 0], 0, [1, 1], ("ProfilerStep#6", 447), [];
    "mi300_graph_sglang_qwen3_30b_a3b_decode_bs16.json.gz":
        1432826, 4112, 802, 31, 10896105, 198, 34, [772, 27, 0, 0, 3], 0, [2, 3],
        ("step[DECODE bs=16]", 778), ["rocm_loses_kernels"];
    "mi300_graph_sglang_qwen3_8b_decode_bs32.json.gz":
        594881, 2058, 555, 27, 9765437, 61, 15, [544, 8, 0, 0, 3], 0, [2, 0],
        ("step[DECODE bs=32]", 550), ["rocm_loses_kernels"];
    "mi300_graph_vllm_gptoss20b_decode_bs32.json.gz":
        498299, 1993, 425, 24, 10674517, 100, 14, [421, 4, 0, 0, 0], 0, [1, 0],
        ("execute_32_context_0(sq0sk0sqsq0sqsk0)_g", 425), [];
    "mi300_norms.json.gz":
        2563769, 8500, 168, 36, 991996, 978, 173, [0, 159, 0, 9, 0], 0, [30, 30], ("", 99), [];
    "mi300_rocprofsdk_backend_sdpa01.json":
        195566, 585, 10, 1, 658460038, 270, 10, [0, 10, 0, 0, 0], 0, [0, 0], ("", 10), ["overlap_small"];
    "mi300_torch_compile_triton_tiny.json.gz":
        64480, 246, 12, 8, 12549021, 41, 12, [0, 12, 0, 0, 0], 0, [1, 1],
        ("## Call CompiledFxGraph fal4xpiah2v6blbf", 12), ["rocm_loses_kernels"];
};

/// Kernel time as the fact sheet's R12 has it, µs.
const R12: &[(&str, u128)] = &[
    ("mi300_eager_qwen15_0p5b", 43_062),
    ("mi300_graph_sglang_qwen3_8b_decode_bs32", 9_765),
    ("mi300_graph_vllm_gptoss20b_decode_bs32", 10_675),
    ("mi300_graph_sglang_qwen3_30b_a3b_decode_bs16", 10_896),
    ("mi300_eager_timesformer", 118_759),
    ("mi300_eager_bert_small", 388),
    ("mi300_norms", 992),
    ("mi300_torch_compile_triton_tiny", 12_549),
    ("mi210_gpu_only", 5_343),
    ("b200_eager_vllm_gptoss120b_tp8_prefill", 10_863),
];

#[test]
fn every_file_gives_the_golden_numbers() {
    let Some(folder) = traces("every_file_gives_the_golden_numbers") else { return };
    for golden in GOLDEN {
        let file = golden.file;
        let trace = kineto::read(folder.join(file)).unwrap();
        assert_eq!((trace.stats.bytes, trace.stats.events), (golden.bytes, golden.events), "{file}");
        let names: std::collections::HashSet<_> = trace.kernels.iter().map(|kernel| kernel.name).collect();
        assert_eq!((trace.kernels.len(), names.len()), (golden.kernels, golden.names), "{file}");
        assert_eq!(trace.kernel_ns(), golden.kernel_ns, "{file}");
        assert_eq!((trace.ops.len(), trace.launches.len()), (golden.ops, golden.launches), "{file}");
        assert_eq!([trace.annotations.len(), trace.gpu_annotations.len()], golden.labels, "{file}");
        assert_eq!(codes(&trace), golden.health, "{file}: {:?}", trace.health);
        assert!(trace.require_kernels().is_ok());

        let joined = trace.joined();
        let (mut links, mut unlinked, mut labelled) = ([0; 5], 0, 0);
        for kernel in joined.kernels() {
            let link = match (kernel.is_replayed(), kernel.op().map(|(_, link)| link)) {
                (true, None) => 0,
                (false, Some(OpLink::Own)) => 1,
                (false, Some(OpLink::Enclosing)) => 2,
                (false, Some(OpLink::WithoutDims)) => 3,
                (false, None) => 4,
                (true, Some(_)) => panic!("{file}: a replayed kernel has no operator of its own"),
            };
            links[link] += 1;
            unlinked += usize::from(kernel.launch().is_none());
            let label = kernel.annotation().map_or("", |label| trace.name(label.label));
            labelled += usize::from(label.starts_with(golden.label.0) && label.is_empty() == golden.label.0.is_empty());
        }
        assert_eq!((links, unlinked, labelled), (golden.links, golden.unlinked, golden.label.1), "{file}");
    }
    for (file, micros) in R12 {
        let golden = GOLDEN.iter().find(|golden| golden.file.starts_with(file)).unwrap();
        let sum = golden.kernel_ns as f64 / 1e3;
        assert!((sum - *micros as f64).abs() <= 0.5, "{file}: {sum} against {micros} in R12");
    }
}

#[test]
fn grids_are_in_workgroups_and_args_decode() {
    let Some(folder) = traces("grids_are_in_workgroups_and_args_decode") else { return };
    let trace = kineto::read(folder.join("mi300_eager_qwen15_0p5b.json.gz")).unwrap();
    let joined = trace.joined();
    // The fact sheet's example (6.2): 8944x1024 · 1024x2816 with macro tile 128x224 is 22·40 workgroups of 256; the
    // trace says 225280 work-items.
    let gemm = joined.kernels().find(|kernel| {
        let call = kernel.op_call();
        call.is_some_and(|call| call.tensor(0) == Some(&[8944, 1024]) && call.tensor(1) == Some(&[1024, 2816]))
    });
    let gemm = gemm.unwrap();
    assert!(gemm.name().contains("MT128x224"), "{}", gemm.name());
    let geometry = gemm.geometry().unwrap();
    assert_eq!((geometry.grid, geometry.block), (Some([22 * 40, 1, 1]), Some([256, 1, 1])));
    assert_eq!(gemm.launch().map(|launch| trace.name(launch.api)), Some("hipExtModuleLaunchKernel"));
    let call = gemm.op_call().unwrap();
    assert_eq!((call.name.as_str(), call.args[0].dtype.as_str()), ("aten::mm", "c10::BFloat16"));
    assert_eq!(call.kernels, [gemm.name()]);

    let embedding = trace.ops.iter().find(|op| trace.name(op.name) == "aten::embedding").unwrap();
    let embedding = trace.op_call(embedding.name, embedding.args);
    assert_eq!(embedding.args[0].dims, ArgDims::Tensor(vec![151_936, 1024]));
    assert_eq!(embedding.args[1].dims, ArgDims::Tensor(vec![16, 559]));
    assert_eq!((embedding.args[2].concrete.as_str(), embedding.args[2].dtype.as_str()), ("-1", "Scalar"));
    assert_eq!(embedding.args[0].strides, [1024, 1]);
}

#[test]
fn one_graph_launch_has_many_kernels_and_captured_launches_are_marked() {
    let Some(folder) = traces("one_graph_launch_has_many_kernels_and_captured_launches_are_marked") else { return };
    let run = kineto::read(folder.join("mi300_graph_sglang_qwen3_8b_decode_bs32.json.gz")).unwrap();
    let joined = run.joined();
    let graphs: Vec<_> = run.launches.iter().filter(|launch| launch.kind == LaunchKind::Graph).collect();
    assert_eq!(graphs.len(), 1);
    let replayed = joined
        .kernels()
        .filter(|kernel| kernel.launch().map(|launch| launch.correlation) == Some(graphs[0].correlation));
    assert_eq!(replayed.filter(|kernel| kernel.geometry().is_none()).count(), 544);

    // 544 kernels were replayed, so 544 of the 546 launches of the capture trace were captured (two more ran before).
    let capture = kineto::read(folder.join("mi300_capture_sglang_qwen3_8b_bs32.json.gz")).unwrap();
    assert_eq!(capture.captures.len(), 1);
    assert_eq!(capture.launches.iter().filter(|launch| launch.captured).count(), 544);
    assert!(capture.launches.iter().all(|launch| launch.geometry.is_some()));
}

#[test]
fn what_the_trace_says_about_itself() {
    let Some(folder) = traces("what_the_trace_says_about_itself") else { return };
    let trace = kineto::read(folder.join("mi300_eager_bert_small.json.gz")).unwrap();
    let metadata = &trace.metadata;
    assert_eq!(metadata.profiler, kineto::Profiler::Roctracer);
    assert_eq!(metadata.hip_version().as_deref(), Some("6.4.43483"));
    assert_eq!(
        (metadata.devices[0].name.as_str(), metadata.devices[0].compute_units),
        ("AMD Instinct MI300X VF", Some(304))
    );
    assert!(metadata.record_shapes && metadata.with_stack);
    assert_eq!(metadata.base_time_ns, Some(1_751_410_836_000_000_000));
    assert_eq!(metadata.keys.first().map(String::as_str), Some("metadata"));
    let sdk = kineto::read(folder.join("mi300_rocprofsdk_backend_sdpa01.json")).unwrap();
    assert_eq!(sdk.metadata.profiler, kineto::Profiler::RocprofilerSdk);
    assert!(sdk.kernels.iter().all(|kernel| sdk.name(kernel.name).ends_with(".kd") && kernel.geometry.is_none()));
    let nvidia = kineto::read(folder.join("b200_eager_vllm_gptoss120b_tp8_prefill.json.gz")).unwrap();
    assert_eq!(nvidia.metadata.profiler, kineto::Profiler::Cupti);
    assert!(nvidia.kernels.iter().all(|kernel| kernel.geometry.is_some()));
    assert_eq!((nvidia.metadata.rank, nvidia.metadata.world_size), (Some(0), Some(8)));
}

#[test]
fn a_text_cut_anywhere_keeps_the_kernels_before_the_cut() {
    let Some(folder) = traces("a_text_cut_anywhere_keeps_the_kernels_before_the_cut") else { return };
    let text = inflated(&folder.join("mi300_torch_compile_triton_tiny.json.gz"));
    let start = memchr::memmem::find(&text, b"\"traceEvents\"").unwrap();
    for cut in (0..text.len()).step_by(61) {
        let read = kineto::read_text(&text[..cut], "cut");
        let Ok(trace) = read else {
            assert!(cut < start + 40, "cut at {cut}: {:?}", read.err());
            continue;
        };
        // A kernel is whole when its text is: the next event's start has been reached or its own end has.
        let whole = kernels_before(&text[..cut]);
        assert_eq!(trace.kernels.len(), whole, "cut at {cut}");
        assert!(codes(&trace).contains(&"truncated"));
        let _ = trace.joined().kernels().filter_map(|kernel| kernel.op_call()).count();
    }
}

/// Kernel events that are whole in a text, found by the standard parser.
fn kernels_before(text: &[u8]) -> usize {
    let marks: Vec<usize> = memchr::memmem::find_iter(text, b"\"cat\": \"kernel\"").collect();
    let whole = |mark: &usize| {
        let open = memchr::memrchr(b'{', &text[..*mark]).unwrap();
        serde_json::Deserializer::from_slice(&text[open..])
            .into_iter::<serde_json::Value>()
            .next()
            .is_some_and(|event| event.is_ok())
    };
    marks.iter().filter(|mark| whole(mark)).count()
}

#[test]
fn a_gzip_file_cut_or_damaged_anywhere_is_salvaged() {
    let Some(folder) = traces("a_gzip_file_cut_or_damaged_anywhere_is_salvaged") else { return };
    let file = std::fs::read(folder.join("mi300_graph_sglang_qwen3_8b_decode_bs32.json.gz")).unwrap();
    let mut kernels = 0;
    for cut in (1..file.len()).step_by(file.len() / 60) {
        match kineto::read_from(Cursor::new(file[..cut].to_vec()), "cut") {
            Ok(trace) => {
                assert!(trace.kernels.len() >= kernels, "a later cut gives no less");
                kernels = trace.kernels.len();
                assert!(codes(&trace).contains(&"gzip_truncated"), "{:?}", trace.health);
            }
            Err(error) => assert!(matches!(error, TraceError::NotATrace { .. }) && cut < 4000, "cut at {cut}: {error}"),
        }
    }
    assert!(kernels > 500, "the last cuts keep most of the 555 kernels");
    for at in (20..file.len()).step_by(file.len() / 60) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x5a;
        if let Ok(trace) = kineto::read_from(Cursor::new(damaged), "damaged") {
            assert!(codes(&trace).iter().any(|code| code.starts_with("gzip_")), "byte {at}: {:?}", trace.health);
            assert!(trace.kernels.len() <= 555);
        }
    }
}

#[test]
fn several_members_are_one_text_and_a_damaged_one_costs_only_itself() {
    use std::io::Write;
    let Some(folder) = traces("several_members_are_one_text_and_a_damaged_one_costs_only_itself") else { return };
    let text = inflated(&folder.join("mi300_graph_sglang_qwen3_8b_decode_bs32.json.gz"));
    let members: Vec<Vec<u8>> = text
        .chunks(50_000)
        .map(|part| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap()
        })
        .collect();
    let trace = kineto::read_from(Cursor::new(members.concat()), "members").unwrap();
    assert_eq!((trace.kernels.len(), trace.kernel_ns()), (555, 9_765_437));
    assert!(codes(&trace).contains(&"gzip_members"));

    // Member 8 holds kernels only: damage in its first bytes costs about its share of them.
    let in_member = |number: usize| kernels_before(&text[(number - 1) * 50_000..number * 50_000]);
    let mut damaged = members.clone();
    damaged[7][12..40].fill(0);
    let trace = kineto::read_from(Cursor::new(damaged.concat()), "members").unwrap();
    assert!(codes(&trace).iter().any(|code| *code == "gzip_corrupt" || *code == "gzip_checksum"), "{:?}", trace.health);
    let lost = 555 - trace.kernels.len();
    assert!(in_member(8) > 20 && lost >= in_member(8) && lost <= in_member(8) + 3, "{lost} lost");
}
