//! Traces written for these tests in the form of kineto over roctracer; expected values follow from their few events by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod steps;

use kbench_profile::{Inventory, Phase, Provenance, ReadOptions, Row, read};
use kbench_workload::Family;
use proptest::prelude::*;
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

const GEMM: &str = "Cijk_Alik_Bljk_BBS_BH_MT256x32x64";
const OTHER_GEMM: &str = "Cijk_Alik_Bljk_BBS_BH_MT16x16x64";

/// A trace under construction. Times are in µs; every kernel runs 10 µs.
#[derive(Default)]
struct Events {
    list: Vec<String>,
    time: u64,
    id: u64,
}

impl Events {
    fn tick(&mut self) -> (u64, u64) {
        (self.time, self.id) = (self.time + 20, self.id + 1);
        (self.time, self.id)
    }

    fn event(&mut self, cat: &str, name: &str, ts: u64, dur: u64, args: &str) {
        self.list.push(format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        ));
    }

    /// `aten::mm` of m×k by k×n, and its id.
    fn mm(&mut self, [m, n, k]: [u64; 3]) -> u64 {
        let (ts, id) = self.tick();
        let args = format!(
            r#""External id":{id},"Input Dims":[[{m},{k}],[{k},{n}]],"Input type":["c10::BFloat16","c10::BFloat16"],"Input Strides":[[{k},1],[1,{k}]],"Concrete Inputs":["",""]"#
        );
        self.event("cpu_op", "aten::mm", ts, 15, &args);
        id
    }

    fn launch(&mut self, kernel: &str, op: u64) -> u64 {
        let (ts, correlation) = self.tick();
        let args = format!(
            r#""External id":{op},"kernel":"{kernel}","cid":107,"correlation":{correlation},"grid":[4,1,1],"block":[256,1,1]"#
        );
        self.event("cuda_runtime", "hipLaunchKernel", ts, 2, &args);
        correlation
    }

    /// An operator that launches a kernel which runs.
    fn run_mm(&mut self, kernel: &str, sizes: [u64; 3]) {
        let op = self.mm(sizes);
        let correlation = self.launch(kernel, op);
        let ts = self.tick().0;
        let args = format!(
            r#""External id":{op},"device":0,"stream":0,"correlation":{correlation},"kind":"Dispatch Kernel","grid":[4,1,1],"block":[256,1,1]"#
        );
        self.event("kernel", kernel, ts, 10, &args);
    }

    /// A graph launch that replays kernels on streams.
    fn replay(&mut self, kernels: &[(&str, u64)]) {
        let (ts, correlation) = self.tick();
        self.event("cuda_runtime", "hipGraphLaunch", ts, 2, &format!(r#""cid":215,"correlation":{correlation}"#));
        for (kernel, stream) in kernels {
            let ts = self.tick().0;
            let args = format!(r#""device":0,"stream":{stream},"correlation":{correlation},"kind":"Dispatch Task""#);
            self.event("kernel", kernel, ts, 10, &args);
        }
    }

    /// What `inside` adds, under a label.
    fn label(&mut self, label: &str, inside: impl FnOnce(&mut Self)) {
        let (start, id) = self.tick();
        inside(self);
        let dur = self.tick().0 - start;
        self.event("user_annotation", label, start, dur, &format!(r#""External id":{id}"#));
    }

    /// A capture of a graph: launches that do not run.
    fn capture(&mut self, calls: &[(&str, [u64; 3])]) {
        let ts = self.tick().0;
        self.event("cuda_runtime", "hipStreamBeginCapture", ts, 1, r#""cid":1,"correlation":0"#);
        for (kernel, sizes) in calls {
            let op = self.mm(*sizes);
            self.launch(kernel, op);
        }
        let ts = self.tick().0;
        self.event("cuda_runtime", "hipStreamEndCapture", ts, 1, r#""cid":1,"correlation":0"#);
    }

    fn text(&self, rank: u64) -> String {
        format!(
            r#"{{"schemaVersion":1,"roctracer_version":4.1,"record_shapes":1,"distributedInfo":{{"rank":{rank},"world_size":1}},"traceEvents":[{}]}}"#,
            self.list.join(",\n")
        )
    }
}

fn events(build: impl FnOnce(&mut Events)) -> Events {
    let mut events = Events::default();
    build(&mut events);
    events
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    folder
}

fn inventory(path: &Path) -> Inventory {
    read(&[path], &ReadOptions::default()).unwrap()
}

fn row<'i>(inventory: &'i Inventory, kernel: &str) -> &'i Row {
    inventory.rows.iter().find(|row| row.kernel == kernel).unwrap_or_else(|| panic!("no {kernel} in {inventory:#?}"))
}

/// Shapes of a row as `calls x shape`, sorted.
fn shapes(row: &Row) -> Vec<String> {
    let mut shapes: Vec<String> = row.shapes.iter().map(|used| format!("{} x {}", used.calls, used.shape)).collect();
    shapes.sort();
    shapes
}

fn finding(inventory: &Inventory, code: &str) -> Option<String> {
    inventory.health.iter().find(|finding| finding.code == code).map(|finding| finding.message.clone())
}

/// The shape that `aten::mm` gives, as the gemm family writes it.
fn gemm([m, n, k]: [u64; 3]) -> String {
    format!("batch=1,m={m},n={n},k={k},trans_b=true")
}

const A: [u64; 3] = [16, 128, 64];
const B: [u64; 3] = [16, 256, 64];

#[test]
fn phases_steps_and_shapes_of_an_eager_trace() {
    let trace = events(|trace| {
        trace.run_mm(OTHER_GEMM, A);
        trace.label("prefill[bs=1 tok=16 ctx=16]", |trace| trace.run_mm(GEMM, A));
        for _ in 0..2 {
            trace.label("decode[bs=16 tok=16 d=16]", |trace| {
                trace.run_mm(GEMM, A);
                trace.run_mm(GEMM, B);
            });
        }
        trace.label("dummy_decode[bs=1 tok=1 d=1]", |trace| trace.run_mm(GEMM, [1, 1, 1]));
        trace.label("new_kind[bs=4 tok=4]", |trace| trace.run_mm(OTHER_GEMM, B));
    });
    let folder = folder(&[("trace", gzip(&trace.text(0)))]);
    let inventory = inventory(&folder.path().join("trace"));
    assert_eq!((inventory.source.steps, inventory.source.dialect.as_str()), (Some(3), "kineto trace"));
    let of = |phase| inventory.rows.iter().find(|row| row.kernel == GEMM && row.phase == phase).unwrap();
    assert_eq!(shapes(of(Phase::Prefill)), [format!("1 x {}", gemm(A))]);
    let decode = of(Phase::Decode);
    assert_eq!(shapes(decode), [format!("2 x {}", gemm(A)), format!("2 x {}", gemm(B))]);
    assert_eq!((decode.calls, decode.total_ns, decode.provenance), (4, 40_000, Provenance::Exact));
    assert_eq!(row(&inventory, OTHER_GEMM).phase, Phase::Unknown);
    assert_eq!(row(&inventory, OTHER_GEMM).calls, 2);
    assert_eq!(inventory.total_ns(), 70_000, "dummies do not count");
    assert!(finding(&inventory, "dummy_steps").unwrap().starts_with("1 kernels (0.010 ms)"));
    assert!(finding(&inventory, "unknown_labels").unwrap().contains("new_kind[bs=4 tok=4]"));
    assert!(finding(&inventory, "outside_steps").unwrap().starts_with("2 kernels"));
}

/// A run that replays a graph of `kernels` for a batch of 30, and captures of batches 16, 32 and 64 beside it.
fn captured(replayed: &[(&str, u64)], calls: &[(&str, [u64; 3])]) -> Inventory {
    let run = events(|trace| trace.label("decode[bs=30/32 tok=30 d=30]", |trace| trace.replay(replayed)));
    let mut files = vec![("rank_0/run.pt.trace.json.gz".to_owned(), gzip(&run.text(0)))];
    for batch in [16, 32, 64] {
        let capture = events(|trace| {
            trace.run_mm("warm_up", [1, 1, 1]);
            trace.label(&format!("capture_graph_bs_{batch}"), |trace| {
                let calls: Vec<_> = calls.iter().map(|(name, [_, n, k])| (*name, [batch, *n, *k])).collect();
                trace.capture(&calls);
            });
        });
        files.push((format!("rank_0/capture_traces/bs_{batch}_q_1_rank0.json.gz"), gzip(&capture.text(0))));
    }
    let files: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let folder = folder(&files);
    inventory(folder.path())
}

#[test]
fn captures_beside_the_trace_are_found_and_chosen_by_batch() {
    let calls = [(GEMM, A), (OTHER_GEMM, B), (GEMM, B)];
    let inventory = captured(&[(GEMM, 0), (OTHER_GEMM, 0), (GEMM, 0)], &calls);
    let expected = |[_, n, k]: [u64; 3]| gemm([32, n, k]);
    let found = row(&inventory, GEMM);
    assert_eq!(shapes(found), [format!("1 x {}", expected(A)), format!("1 x {}", expected(B))]);
    assert_eq!((found.provenance, found.family, found.phase), (Provenance::Capture, Family::Gemm, Phase::Decode));
    assert_eq!(shapes(row(&inventory, OTHER_GEMM)), [format!("1 x {}", expected(B))]);
    assert!(finding(&inventory, "capture_joined").unwrap().starts_with("3 of 3 replayed kernels"));
    assert_eq!(finding(&inventory, "graph_replay"), None);
}

#[test]
fn streams_of_a_replay_are_lined_up_apart() {
    // Captured one after the other, run side by side.
    let calls = [(GEMM, A), (GEMM, B), ("side_a", A), ("side_b", A)];
    let inventory = captured(&[(GEMM, 0), ("side_a", 1), (GEMM, 0), ("side_b", 1)], &calls);
    assert_eq!(shapes(row(&inventory, GEMM)).len(), 2);
    assert!(finding(&inventory, "capture_joined").unwrap().starts_with("4 of 4"));
}

#[test]
fn what_a_damaged_replay_leaves_open_stays_open() {
    // One GEMM of two was lost: nothing says which. The other kernel has one shape only.
    let inventory = captured(&[(GEMM, 0), (OTHER_GEMM, 0)], &[(GEMM, A), (OTHER_GEMM, B), (GEMM, B)]);
    assert_eq!(row(&inventory, GEMM).provenance, Provenance::None);
    assert_eq!(row(&inventory, OTHER_GEMM).provenance, Provenance::Capture);
    assert!(finding(&inventory, "incomplete_graph_replay").unwrap().contains("2 of 3 kernels"));
}

#[test]
fn no_capture_of_the_batch_is_no_shape() {
    let run = events(|trace| trace.label("decode[bs=8/8 tok=8 d=8]", |trace| trace.replay(&[(GEMM, 0)])));
    let capture = events(|trace| trace.label("capture_graph_bs_16", |trace| trace.capture(&[(GEMM, A)])));
    let folder = folder(&[("run", gzip(&run.text(0))), ("capture", gzip(&capture.text(0)))]);
    let options = ReadOptions { capture: Some(folder.path().join("capture")), ..ReadOptions::default() };
    let inventory = read(&[folder.path().join("run")], &options).unwrap();
    assert_eq!(row(&inventory, GEMM).provenance, Provenance::None);
    assert!(finding(&inventory, "capture_size").unwrap().contains("batch 8; captured sizes: 16"));
}

#[test]
fn an_eager_run_of_the_same_batch_gives_shapes() {
    let label = "decode[bs=16 tok=16 d=16]";
    let run = events(|trace| trace.label(label, |trace| trace.replay(&[(GEMM, 0), (OTHER_GEMM, 0), (GEMM, 0)])));
    let eager = |label: &str| {
        events(|trace| {
            trace.label(label, |trace| {
                trace.run_mm(GEMM, A);
                trace.run_mm(GEMM, B);
                trace.run_mm(OTHER_GEMM, A);
                trace.run_mm(OTHER_GEMM, A);
            });
        })
    };
    let read_with = |eager: &Events| {
        let folder = folder(&[("run", gzip(&run.text(0))), ("eager", gzip(&eager.text(0)))]);
        let options = ReadOptions { eager: Some(folder.path().join("eager")), ..ReadOptions::default() };
        read(&[folder.path().join("run")], &options).unwrap()
    };
    let inventory = read_with(&eager("eager_decode[bs=16 tok=16 ctx=[1, 1]]"));
    assert_eq!(shapes(row(&inventory, GEMM)), [format!("1 x {}", gemm(A)), format!("1 x {}", gemm(B))]);
    assert_eq!(row(&inventory, GEMM).provenance, Provenance::Eager);
    // Called twice in the eager run, but always at one shape.
    assert_eq!(shapes(row(&inventory, OTHER_GEMM)), [format!("1 x {}", gemm(A))]);
    let inventory = read_with(&eager("eager_decode[bs=32 tok=32 ctx=[1, 1]]"));
    assert_eq!(row(&inventory, GEMM).provenance, Provenance::None);
    assert!(finding(&inventory, "eager_joined").unwrap().contains("1 steps have no eager step"));
}

#[test]
fn one_rank_stands_for_a_run() {
    let rank = |kernels: usize| events(|trace| (0..kernels).for_each(|_| trace.run_mm(GEMM, A)));
    let folder = folder(&[
        ("dp0_tp1/a.json.gz", gzip(&rank(2).text(1))),
        ("dp0_tp0/a.json.gz", gzip(&rank(2).text(0))),
        ("dp0_tp0/b.json", rank(9).text(0).into_bytes()),
        ("dp1_tp0/a.json.gz", gzip(&rank(5).text(2))),
    ]);
    let inventory = inventory(folder.path());
    assert_eq!(inventory.total_ns(), 20_000);
    assert!(finding(&inventory, "orphan_json").unwrap().contains("b.json"));
    let ranks = finding(&inventory, "ranks").unwrap();
    assert!(ranks.contains("dp0_tp1") && ranks.contains("dp1_tp0"), "{ranks}");
    let differ = finding(&inventory, "ranks_disagree").unwrap();
    assert!(differ.contains("5 kernels") && !differ.contains("dp0_tp1"), "{differ}");
}

#[test]
fn traces_of_several_windows_are_not_one_profile() {
    let trace = events(|trace| trace.run_mm(GEMM, A)).text(0).into_bytes();
    let folder = folder(&[("a.json", trace.clone()), ("b.json", trace)]);
    let error = read(&[folder.path()], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("several profiles") && error.contains("a.json"), "{error}");
    let both = read(&[folder.path().join("a.json"), folder.path().join("b.json")], &ReadOptions::default()).unwrap();
    assert_eq!(both.total_ns(), 20_000);
}

#[test]
fn a_trace_without_kernels_says_why() {
    let capture = events(|trace| trace.capture(&[(GEMM, A)]));
    let folder = folder(&[("x.json", capture.text(0).into_bytes())]);
    let error = read(&[folder.path()], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("capture trace of a graph"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is cut out of a trace, and of its capture, reading gives an inventory or an error; time is never invented.
    #[test]
    fn damaged_traces_are_read_or_refused(from in 0_usize..4000, length in 0_usize..600, flip in any::<u8>(), both in any::<bool>()) {
        let damage = |text: String| {
            let mut bytes = text.into_bytes();
            let from = from % bytes.len();
            let to = (from + length).min(bytes.len());
            bytes.drain(from..to);
            if let Some(byte) = bytes.get_mut(from / 2) {
                *byte ^= flip;
            }
            bytes
        };
        let run = events(|trace| {
            trace.label("decode[bs=16 tok=16 d=16 sqsq=16 sqsk=65600 sk=65600]", |trace| {
                trace.replay(&[(GEMM, 0), (OTHER_GEMM, 1)]);
                trace.run_mm(GEMM, A);
            });
        });
        let capture = events(|trace| trace.label("capture_graph_bs_16", |trace| trace.capture(&[(GEMM, A), (OTHER_GEMM, B)])));
        let capture = if both { damage(capture.text(0)) } else { capture.text(0).into_bytes() };
        let folder = folder(&[("run", damage(run.text(0))), ("capture", capture)]);
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/models/qwen3-8b.json");
        let options = ReadOptions {
            capture: Some(folder.path().join("capture")),
            model: Some(model),
            ..ReadOptions::default()
        };
        if let Ok(inventory) = read(&[folder.path().join("run")], &options) {
            for row in &inventory.rows {
                prop_assert!(row.shaped().0 <= row.calls, "{row:?}");
            }
        }
    }
}
