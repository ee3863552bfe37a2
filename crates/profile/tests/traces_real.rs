//! Inventories of real traces, when they are there: time sums of the fact sheet (R12) and its figures for shapes recovered (6.3).

// Helpers of tests may fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kbench_profile::{Inventory, Phase, Provenance, ReadOptions, read};
use kbench_workload::{CaseOptions, Family, Fp8Flavor, case};
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

fn inventory(folder: &Path, file: &str, options: &ReadOptions) -> Inventory {
    read(&[folder.join(file)], options).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn codes(inventory: &Inventory) -> Vec<&str> {
    inventory.health.iter().map(|finding| finding.code.as_str()).collect()
}

/// Prints what an inventory holds, for whoever looks at a failure (or runs with `--nocapture`).
fn show(title: &str, inventory: &Inventory) {
    println!("== {title}: steps {:?}, {:?}", inventory.source.steps, inventory.source.hints);
    println!("{:?}", inventory.coverage());
    for finding in &inventory.health {
        println!("  {:?} {}: {}", finding.severity, finding.code, finding.message);
    }
    for row in inventory.rows.iter().take(60) {
        let name: String = row.kernel.chars().take(60).collect();
        let shapes: Vec<String> =
            row.shapes.iter().take(3).map(|used| format!("{}x[{}] {}", used.calls, used.shape, used.dtypes)).collect();
        println!(
            "  {:5.1}% {:5} {} {} {} {name} {} {}",
            100.0 * row.share,
            row.calls,
            row.phase,
            row.family,
            row.provenance,
            row.shapes.len(),
            shapes.join(" | ")
        );
    }
}

/// Kernels and kernel time in ns: those of the trace reader's golden numbers, which refine R12's µs.
const TOTALS: &[(&str, u64, u128)] = &[
    ("b200_eager_vllm_gptoss120b_tp8_prefill.json.gz", 768, 10_862_916),
    ("mi210_gpu_only.json.gz", 562, 5_343_422),
    ("mi300_eager_bert_small.json.gz", 60, 388_344),
    ("mi300_eager_qwen15_0p5b.json.gz", 1516, 43_062_042),
    ("mi300_eager_sglang_qwen3_8b_prefill.json.gz", 527, 492_773_592),
    ("mi300_eager_timesformer.json.gz", 447, 118_758_892),
    ("mi300_graph_sglang_qwen3_30b_a3b_decode_bs16.json.gz", 802, 10_896_105),
    ("mi300_graph_sglang_qwen3_8b_decode_bs32.json.gz", 555, 9_765_437),
    ("mi300_graph_vllm_gptoss20b_decode_bs32.json.gz", 425, 10_674_517),
    ("mi300_norms.json.gz", 168, 991_996),
    ("mi300_rocprofsdk_backend_sdpa01.json", 10, 658_460_038),
    ("mi300_torch_compile_triton_tiny.json.gz", 12, 12_549_021),
];

#[test]
fn kernels_and_time_are_complete() {
    let Some(folder) = traces("kernels_and_time_are_complete") else { return };
    for (file, kernels, ns) in TOTALS {
        let inventory = inventory(&folder, file, &ReadOptions::default());
        show(file, &inventory);
        let calls: u64 = inventory.rows.iter().filter(|row| !row.is_transfer()).map(|row| row.calls).sum();
        assert_eq!((calls, inventory.total_ns()), (*kernels, *ns), "{file}");
        assert_eq!(inventory.source.dialect, "kineto trace");
    }
}

/// Total and busy time of TraceLens's `gpu_timeline.csv` of the same traces (reports in `../tracelens`), in ms.
#[test]
fn windows_are_those_of_the_peer() {
    let Some(folder) = traces("windows_are_those_of_the_peer") else { return };
    for (file, report) in [
        ("mi210_gpu_only.json.gz", "mi210_gpu_only"),
        ("mi300_graph_vllm_gptoss20b_decode_bs32.json.gz", "mi300_vllm_gptoss20b_decode"),
    ] {
        let text = std::fs::read_to_string(folder.join("../tracelens").join(report).join("gpu_timeline.csv")).unwrap();
        let peer = |row: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(row)).unwrap();
            1e6 * line.split(',').nth(1).unwrap().parse::<f64>().unwrap()
        };
        let window = inventory(&folder, file, &options()).window.unwrap();
        for (own, peer) in [(window.span_ns, peer("total_time")), (window.busy_ns, peer("busy_time"))] {
            // The peer computes in µs as 64-bit floats at 5e12: half a µs is lost.
            assert!((own as f64 - peer).abs() < 1_000.0, "{file}: {own} {peer}");
        }
    }
}

/// Labels of the real traces (facts on profile formats, 4.1): sums as they stand there.
#[test]
fn steps_of_real_traces() {
    let Some(folder) = traces("steps_of_real_traces") else { return };
    for (file, phase, sums, pairs) in [
        ("mi300_graph_vllm_gptoss20b_decode_bs32.json.gz", Phase::Decode, [32, 32, 55_086, 55_086], 55_086),
        ("mi300_graph_sglang_qwen3_8b_decode_bs32.json.gz", Phase::Decode, [32, 32, 32_785, 32_785], 32_785),
        // 15 prompts of 1024: 15·1024·1025/2 pairs.
        (
            "mi300_eager_sglang_qwen3_8b_prefill.json.gz",
            Phase::Prefill,
            [15_360, 15_728_640, 15_728_640, 15_360],
            7_872_000,
        ),
    ] {
        let inventory = inventory(&folder, file, &options());
        let [step] = inventory.steps.as_slice() else { panic!("{file}: {:?}", inventory.steps) };
        assert_eq!(step.phase, phase, "{file}");
        let found = [step.tokens.map(u128::from), step.nq2, step.nq_nkv, step.nkv];
        assert_eq!(found, sums.map(Some), "{file}");
        let work: Vec<_> = step.attention.iter().map(|work| (work.kind.as_str(), work.pairs.exact())).collect();
        assert_eq!(work, [("full", Some(pairs))], "{file}");
        assert!(step.kernel_ns as f64 > 0.95 * inventory.total_ns() as f64, "{file}: {step:?}");
    }
}

/// No launch of a real trace contradicts the shape of its own or its captured operator, and the router's name gives what no one else does.
#[test]
fn names_and_grids_agree_with_operators() {
    let Some(folder) = traces("names_and_grids_agree_with_operators") else { return };
    for (file, ..) in TOTALS {
        let inventory = inventory(&folder, file, &options());
        let codes = codes(&inventory);
        assert!(
            !codes.contains(&"grid_disagrees") && !codes.contains(&"name_disagrees"),
            "{file}: {:?}",
            inventory.health
        );
        // A quantisation with a given scale is known and refused with its reason; nothing else is.
        let refused = inventory.health.iter().filter(|finding| finding.code == "shape_errors");
        for finding in refused {
            assert!(finding.message.contains("it quantises with a given scale"), "{file}: {finding:?}");
        }
    }
    let inventory = inventory(&folder, "mi300_graph_sglang_qwen3_30b_a3b_decode_bs16.json.gz", &options());
    let gate = inventory.rows.iter().find(|row| row.kernel.contains("topksoftmax_4x128x8")).unwrap();
    assert_eq!((gate.calls, gate.provenance, gate.family), (48, Provenance::Name, Family::MoeGate));
    assert_eq!(gate.shapes[0].shape.to_string(), "tokens=16,experts=128,topk=8");
}

fn options() -> ReadOptions {
    ReadOptions::default()
}

/// Facts 6.3-2: 544/544 and 421/421 replayed kernels have a launch in the capture, with dims for all of the time.
#[test]
fn captures_give_shapes_to_replays() {
    let Some(folder) = traces("captures_give_shapes_to_replays") else { return };
    for (run, capture, replayed) in [
        ("mi300_graph_sglang_qwen3_8b_decode_bs32.json.gz", "mi300_capture_sglang_qwen3_8b_bs32.json.gz", 544),
        ("mi300_graph_vllm_gptoss20b_decode_bs32.json.gz", "mi300_capture_vllm_gptoss20b_bs32_FULL.json.gz", 421),
    ] {
        let without = inventory(&folder, run, &options());
        assert!(codes(&without).contains(&"graph_replay"), "{run}");
        let with = inventory(&folder, run, &ReadOptions { capture: Some(folder.join(capture)), ..options() });
        show(run, &with);
        assert_eq!(with.total_ns(), without.total_ns(), "{run}");
        let coverage = with.coverage();
        assert!(coverage.with_shape >= 0.99, "{run}: {coverage:?}");
        let name = coverage.by_provenance.get("name").copied().unwrap_or(0.0);
        assert!(coverage.by_provenance["capture"] + name > 0.95, "{run}: {coverage:?}");
        // vLLM's `kernel_unified_attention` says nothing in its name: it keeps the dims of its operator.
        let attention = with.rows.iter().filter(|row| row.kernel.starts_with("paged_attention_ll4mi"));
        let attention: Vec<_> = attention.collect();
        assert!(
            attention.iter().all(|row| row.shaped().0 == row.calls && !row.shapes[0].is_generic()),
            "{run}: {attention:?}"
        );
        for used in attention.iter().flat_map(|row| &row.shapes).filter(|used| used.provenance == Provenance::Name) {
            // Heads and head size of the captured operator's arguments ([32, 32, 128] and [835874, 1, 8, 128]); contexts of the label.
            let expected = "q_heads=32,kv_heads=8,head_dim=128,batch=32,ctx_total=32785,q_len=1,block_size=1";
            assert_eq!(used.shape.to_string(), expected, "{run}");
        }
        let joined = with.health.iter().find(|finding| finding.code == "capture_joined").unwrap();
        assert!(joined.message.starts_with(&format!("{replayed} of {replayed} replayed")), "{}", joined.message);
        assert!(!codes(&with).contains(&"incomplete_graph_replay"), "{run}: {:?}", with.health);
    }
}

/// The model's public figures (issue 3) at batch 16, 8193 context tokens in all: Σ N_KV of the label.
#[test]
fn label_and_model_give_shapes_to_a_decode_step() {
    let Some(folder) = traces("label_and_model_give_shapes_to_a_decode_step") else { return };
    let file = "mi300_graph_sglang_qwen3_30b_a3b_decode_bs16.json.gz";
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/models/qwen3-30b-a3b.json");
    let inventory = inventory(&folder, file, &ReadOptions { model: Some(model), ..options() });
    show(file, &inventory);
    assert_eq!(inventory.source.steps, Some(1));
    let mut found: Vec<(String, u64)> = Vec::new();
    // The families that a label and a model's figures give.
    let given = [Family::Gemm, Family::MoeGemm, Family::PagedAttention, Family::Rmsnorm];
    for row in inventory.rows.iter().filter(|row| given.contains(&row.family)) {
        assert_eq!((row.phase, row.shaped().0), (Phase::Decode, row.calls), "{} {:?}", row.kernel, row.shapes);
        for used in &row.shapes {
            assert_eq!(used.provenance, Provenance::LabelModel, "{}", row.kernel);
            let built = case(row.family, &used.shape, &used.dtypes, CaseOptions { fp8: Fp8Flavor::Fnuz, seed: 1 });
            assert!(built.is_ok(), "{} {}: {:?}", row.kernel, used.shape, built.err());
            found.push((format!("{} {}", row.family, used.shape), used.calls));
        }
    }
    found.sort();
    let expected = [
        ("gemm m=16,n=128,k=2048", 48),
        ("gemm m=16,n=151936,k=2048", 1),
        ("gemm m=16,n=2048,k=4096", 48),
        ("gemm m=16,n=5120,k=2048", 48),
        ("moe_gemm tokens=16,hidden=2048,inter=768,experts=128,topk=8,stage=down", 48),
        ("moe_gemm tokens=16,hidden=2048,inter=768,experts=128,topk=8,stage=gate_up,gated=true,act=silu", 48),
        ("paged_attention q_heads=32,kv_heads=4,head_dim=128,batch=16,ctx_total=8193,q_len=1", 48),
        ("paged_attention q_heads=32,kv_heads=4,head_dim=128,batch=16,ctx_total=8193,q_len=1", 48),
        ("rmsnorm rows=16,hidden=2048", 1),
        ("rmsnorm rows=16,hidden=2048,add=true", 96),
        ("rmsnorm rows=512,hidden=128", 48),
        ("rmsnorm rows=64,hidden=128", 48),
    ];
    assert_eq!(found, expected.map(|(shape, calls)| (shape.to_owned(), calls)));
}

/// Two ways to one answer: what label and model give must be what the capture's operators say, kernel by kernel.
#[test]
fn label_and_model_agree_with_the_capture() {
    let Some(folder) = traces("label_and_model_agree_with_the_capture") else { return };
    let file = "mi300_graph_sglang_qwen3_8b_decode_bs32.json.gz";
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/models/qwen3-8b.json");
    let capture = folder.join("mi300_capture_sglang_qwen3_8b_bs32.json.gz");
    let captured = inventory(&folder, file, &ReadOptions { capture: Some(capture), ..options() });
    let modelled = inventory(&folder, file, &ReadOptions { model: Some(model), ..options() });
    show(file, &modelled);
    let sizes = |inventory: &Inventory, family: Family, keys: &[&str]| {
        let mut found = Vec::new();
        for row in inventory.rows.iter().filter(|row| row.family == family) {
            for used in &row.shapes {
                let sizes: Vec<u64> = keys.iter().map(|key| used.shape.int(key).unwrap().unwrap()).collect();
                found.push((row.kernel.clone(), sizes, used.calls));
            }
        }
        found.sort();
        found
    };
    for (family, keys, kinds) in [
        (Family::Gemm, &["m", "n", "k"][..], 5),
        (Family::Rmsnorm, &["rows", "hidden"], 4),
        (Family::Activation, &["rows", "hidden"], 1),
    ] {
        let found = sizes(&modelled, family, keys);
        assert_eq!(found, sizes(&captured, family, keys), "{family}");
        assert_eq!(found.len(), kinds, "{family}: {found:?}");
    }
    assert!(modelled.coverage().by_provenance["label+model"] > 0.9, "{:?}", modelled.coverage());
}
