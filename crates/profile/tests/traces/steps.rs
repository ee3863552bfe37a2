//! Steps: their times, what their labels say, choosing among them; modules as positions. Every kernel of the fixtures runs 10 µs; what happens
//! between kernels follows from the events above each check: each event starts 20 µs after the one before it.

use super::*;
use kbench_profile::model::Count;
use kbench_profile::{StepRange, StepSummary};

const PREFILL: &str = "prefill[bs=2 tok=48 ctx=[16, 32]]";
/// 16 sequences of one query each, 160 tokens of context in all.
const DECODE: &str = "decode[bs=16 tok=16 d=16 sqsq=16 sqsk=160 sk=160]";

/// One kernel outside, a prefill of one kernel, two decodes of two.
fn serving() -> Events {
    events(|trace| {
        trace.run_mm(OTHER_GEMM, A);
        trace.label(PREFILL, |trace| trace.run_mm(GEMM, A));
        for _ in 0..2 {
            trace.label(DECODE, |trace| {
                trace.run_mm(GEMM, A);
                trace.run_mm(GEMM, B);
            });
        }
    })
}

fn read_with(trace: &Events, options: ReadOptions) -> Result<Inventory, String> {
    let folder = folder(&[("trace", gzip(&trace.text(0)))]);
    read(&[folder.path().join("trace")], &options).map_err(|error| error.to_string())
}

fn steps(from: u64, to: u64) -> ReadOptions {
    ReadOptions { steps: StepRange::new(from, to), ..ReadOptions::default() }
}

#[test]
fn steps_have_times_and_what_their_labels_say() {
    let inventory = read_with(&serving(), ReadOptions::default()).unwrap();
    let [prefill, decode, last]: [StepSummary; 3] = inventory.steps.clone().try_into().unwrap();
    assert_eq!((prefill.index, prefill.phase, prefill.label.as_str()), (0, Phase::Prefill, PREFILL));
    // Kernels start at 60 µs; 140 (prefill); 240 and 300, 400 and 460 (decode).
    assert_eq!((prefill.start_ns, prefill.span_ns, prefill.kernel_ns, prefill.kernels), (80_000, 10_000, 10_000, 1));
    assert_eq!((prefill.batch, prefill.tokens, prefill.nq_nkv), (Some(2), Some(48), None));
    assert_eq!((decode.index, decode.phase, decode.batch, decode.tokens), (1, Phase::Decode, Some(16), Some(16)));
    assert_eq!((decode.start_ns, decode.span_ns, decode.busy_ns, decode.kernels), (180_000, 70_000, 20_000, 2));
    assert!((decode.idle_share() - 5.0 / 7.0).abs() < 1e-12);
    assert_eq!((decode.nq2, decode.nq_nkv, decode.nkv), (Some(16), Some(160), Some(160)));
    assert_eq!((last.index, last.start_ns, last.span_ns), (2, 340_000, 70_000));
    // From the first kernel's start to the last one's end; six kernels of 10 µs.
    let window = inventory.window.unwrap();
    assert_eq!((window.span_ns, window.busy_ns, window.kernels), (410_000, 60_000, 6));
}

/// Full attention of decode: each query sees its whole context, so pairs = keys = Σ N_KV. Of the prompts, all contexts are listed and none of
/// the tokens was cached: 16·17/2 + 32·33/2 pairs.
#[test]
fn attention_work_of_a_step() {
    let without = read_with(&serving(), ReadOptions::default()).unwrap();
    let work = |inventory: &Inventory, step: usize| -> Vec<(String, Option<u64>, Phase, Count, Count)> {
        let work = inventory.steps[step].attention.iter();
        work.map(|work| (work.kind.clone(), work.layers, work.phase, work.pairs, work.keys)).collect()
    };
    let exact = Count::Exact;
    assert_eq!(work(&without, 0), [("full".to_owned(), None, Phase::Prefill, exact(136 + 528), exact(48))]);
    assert_eq!(work(&without, 1), [("full".to_owned(), None, Phase::Decode, exact(160), exact(160))]);
    let told = finding(&without, "attention_work").unwrap();
    assert!(told.contains("exact in 3 of 3") && told.contains("no model was given"), "{told}");
    // gpt-oss-20b: 12 layers with a window of 128, 12 full ones. Contexts of 10 fit the window; sums alone leave a range.
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/models/gpt-oss-20b.json");
    let with = read_with(&serving(), ReadOptions { model: Some(model), ..ReadOptions::default() }).unwrap();
    let found = work(&with, 1);
    let full = found.iter().find(|work| work.0 == "full").unwrap();
    assert_eq!((full.1, full.3), (Some(12), exact(160)));
    let window = found.iter().find(|work| work.0 == "window 128").unwrap();
    // At least: one sequence has all the context that 15 of one token leave, and its query sees 128 keys of 145. At most: all are equal.
    assert_eq!((window.1, window.3), (Some(12), Count::Between { least: 15 + 128, most: 160 }));
    assert!(
        finding(&with, "attention_work").unwrap().contains("exact in 4 of 6"),
        "{:?}",
        finding(&with, "attention_work")
    );
}

#[test]
fn chosen_steps_are_read_alone() {
    let one = read_with(&serving(), steps(1, 1)).unwrap();
    assert_eq!((one.total_ns(), one.steps.len(), one.steps[0].index), (20_000, 1, 1));
    assert!(one.rows.iter().all(|row| row.phase == Phase::Decode));
    assert_eq!(one.window.map(|window| window.kernels), Some(2));
    assert_eq!(finding(&one, "outside_steps"), None);
    assert!(finding(&one, "selected_steps").unwrap().contains("1 of the 3 steps, with 33.3 % of kernel time"));
    let range = read_with(&serving(), steps(0, 1)).unwrap();
    assert_eq!((range.total_ns(), range.steps.len()), (30_000, 2));
    let error = read_with(&serving(), steps(3, 9)).unwrap_err();
    assert!(error.contains("no step 3..9") && error.contains("from 0 to 2"), "{error}");
    let unlabelled = events(|trace| trace.run_mm(GEMM, A));
    assert!(read_with(&unlabelled, steps(0, 0)).unwrap_err().contains("no label in it tells of steps"));
}

#[test]
fn a_phase_is_shown_alone() {
    let mut inventory = read_with(&serving(), ReadOptions::default()).unwrap();
    assert_eq!(inventory.ns_by_phase().into_values().collect::<Vec<_>>(), [10_000, 40_000, 10_000]);
    let share = inventory.retain_phase(Phase::Decode);
    assert!((share - 4.0 / 6.0).abs() < 1e-12);
    assert_eq!((inventory.total_ns(), inventory.steps.len()), (40_000, 2));
    assert!((inventory.rows.iter().map(|row| row.share).sum::<f64>() - 1.0).abs() < 1e-12);
}

/// `record_function` tags of the modules (ATOM's --mark-trace): the same kernel in two places of a layer makes two rows, in two layers one.
#[test]
fn modules_tell_calls_of_one_kernel_apart() {
    let trace = events(|trace| {
        trace.label(DECODE, |trace| {
            for layer in 0..3 {
                trace.label(&format!("model.layers.{layer}.self_attn.qkv_proj"), |trace| trace.run_mm(GEMM, A));
                trace.label(&format!("model.layers.{layer}.mlp"), |trace| trace.run_mm(GEMM, B));
            }
            trace.run_mm(GEMM, A);
        });
    });
    let inventory = read_with(&trace, ReadOptions::default()).unwrap();
    let mut found: Vec<(Option<&str>, u64)> =
        inventory.rows.iter().map(|row| (row.position.as_deref(), row.calls)).collect();
    found.sort();
    let expected = [(None, 1), (Some("model.layers.*.mlp"), 3), (Some("model.layers.*.self_attn.qkv_proj"), 3)];
    assert_eq!(found, expected);
    assert_eq!(inventory.source.steps, Some(1));
}

/// The GEMM's tiles of 256x32 cover 16 x 128 once; the fixture's grid of 4 fits (K split), and it fits no 16 x 1280, which takes 5.
#[test]
fn a_grid_that_contradicts_the_arguments_is_told() {
    let agrees = read_with(&events(|trace| trace.run_mm(GEMM, A)), ReadOptions::default()).unwrap();
    assert_eq!(finding(&agrees, "grid_disagrees"), None);
    let wrong = read_with(&events(|trace| trace.run_mm(GEMM, [16, 1280, 64])), ReadOptions::default()).unwrap();
    let told = finding(&wrong, "grid_disagrees").unwrap();
    assert!(told.contains("1 kernels (100.0 %") && told.contains("4 workgroups, no multiple of the 5 tiles"), "{told}");
}
