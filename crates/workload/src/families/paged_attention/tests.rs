use super::*;
use crate::op::{ArgDims, OpArg, OpCall, Value};
use crate::{narrow, verify};
use proptest::prelude::*;

fn options() -> CaseOptions {
    CaseOptions { fp8: crate::Fp8Flavor::Ocp, seed: 5 }
}

fn typed(shape: &str, dtypes: &str) -> Result<PagedAttention, ShapeError> {
    PagedAttention::new(&shape.parse()?, &dtypes.parse()?, options())
}

fn filled(case: &PagedAttention) -> TensorSet {
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    case.fill(7, &mut tensors);
    tensors
}

fn shapes() -> impl Strategy<Value = (String, &'static str)> {
    let heads = (1u64..4, prop_oneof![1u64..5, Just(20u64)], 1u64..4);
    let lengths = (1u64..4, prop::collection::vec(0u64..300, 1..9));
    let cache =
        (prop_oneof![Just(1u64), Just(3), Just(16), Just(64)], 0u64..4, prop_oneof![Just("flash"), Just("aiter")]);
    let window = prop_oneof![Just(0u64), 1u64..200];
    let dtypes = prop_oneof![
        Just(("bf16", "none")),
        Just(("f16,kv=bf16", "none")),
        Just(("f32", "none")),
        Just(("bf16,kv=fp8", "per_tensor")),
        Just(("fp8,out=f32", "per_token"))
    ];
    (heads, lengths, cache, window, dtypes).prop_map(|(heads, lengths, cache, window, (dtypes, scale))| {
        let ((kv_heads, group, d16), (q_len, past), (block, spare, layout)) = (heads, lengths, cache);
        let ctx: Vec<u64> = past.iter().map(|past| past + q_len).collect();
        let pages: u64 = ctx.iter().map(|ctx| ctx.div_ceil(block)).sum::<u64>() + spare;
        let (q_heads, d) = (kv_heads * group, d16 * 16);
        let shape = format!(
            "ctx={},q_len={q_len},q_heads={q_heads},kv_heads={kv_heads},head_dim={d},block_size={block},pages={pages},\
             window={window},layout={layout},kv_scale={scale}",
            crate::ShapeValue::List(ctx)
        );
        (shape, dtypes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// On every element. f32 rounding apart the two must agree, so the tolerance is the output's own rounding.
    #[test]
    fn reference_agrees_with_naive((shape, dtypes) in shapes()) {
        let case = typed(&shape, dtypes).unwrap();
        let mut tensors = filled(&case);
        case.reference(&mut tensors);
        let out = tensors.get("out");
        let all: Vec<usize> = (0..out.spec.elements() as usize).collect();
        let actual: Vec<f64> = all.iter().map(|i| narrow::get(out.spec.dtype, out.bytes(), *i)).collect();
        let expected = case.naive(&tensors, "out", &all);
        let tight = Tolerance { abs: 2e-5, rel: narrow::epsilon(out.spec.dtype) + 2e-5, mismatch_share: 0.0 };
        let result = verify::compare(&expected, &actual, tight);
        prop_assert!(result.passed, "{:?}", result);
    }

    #[test]
    fn work_equals_enumeration((shape, dtypes) in shapes()) {
        let case = typed(&shape, dtypes).unwrap();
        let (d, heads) = (u128::from(case.heads.d_qk), u128::from(case.heads.kv_heads));
        let (mut multiply_adds, mut pages, mut sequences) = (0u128, 0u128, 0u128);
        for span in &case.spans {
            let mut touched = std::collections::BTreeSet::new();
            for query in 0..span.q_len {
                let position = (span.kv_len - span.q_len + query) as i64;
                for key in 0..span.kv_len as i64 {
                    if key <= position && (case.mask.window() == 0 || key > position - case.mask.window() as i64) {
                        multiply_adds += 2 * d * u128::from(case.heads.q_heads);
                        touched.insert(key as u64 / case.block_size);
                    }
                }
            }
            pages += touched.len() as u128;
            sequences += 1;
        }
        let work = case.work();
        prop_assert_eq!(work.flops[&case.q], 2 * multiply_adds);
        let page_tokens = pages * u128::from(case.block_size);
        let scales = match case.kv_scale {
            KvScale::None => 0,
            KvScale::PerTensor => 8,
            KvScale::PerToken => page_tokens * heads * 8,
        };
        let rows = sequences * u128::from(case.q_len * case.heads.q_heads);
        let kv = page_tokens * heads * 2 * d * u128::from(case.kv.bits() / 8);
        let q = rows * d * u128::from(case.q.bits() / 8);
        prop_assert_eq!(work.bytes_read, q + kv + scales + 4 * (pages + sequences));
        prop_assert_eq!(work.bytes_written, rows * d * u128::from(case.out.bits() / 8));
    }

    #[test]
    fn every_sequence_has_pages_of_its_own((shape, dtypes) in shapes()) {
        let case = typed(&shape, dtypes).unwrap();
        let tensors = filled(&case);
        let table: &[i32] = tensors.get("block_table").view();
        let mut seen = std::collections::BTreeSet::new();
        for (span, row) in case.spans.iter().zip(table.chunks(case.longest_table() as usize)) {
            for page in &row[..span.kv_len.div_ceil(case.block_size) as usize] {
                prop_assert!((0..case.pages as i32).contains(page) && seen.insert(*page));
            }
        }
    }

    #[test]
    fn drawn_contexts_have_the_exact_sum(batch in 1u64..300, q_len in 1u64..4, spare in 0u64..1_000_000, seed: u64) {
        let total = batch * q_len + spare;
        let shape = format!("batch={batch},ctx_total={total},q_len={q_len},q_heads=1,kv_heads=1,head_dim=16");
        let case = PagedAttention::new(&shape.parse().unwrap(), &Dtypes::default(), CaseOptions { seed, ..options() }).unwrap();
        prop_assert_eq!(case.spans.len() as u64, batch);
        prop_assert_eq!(case.spans.iter().map(|span| span.kv_len).sum::<u64>(), total);
        prop_assert!(case.spans.iter().all(|span| span.kv_len >= q_len));
        let again = PagedAttention::new(&case.canonical(), &case.dtypes(), options()).unwrap();
        prop_assert_eq!(format!("{case:?}"), format!("{again:?}"));
    }

    #[test]
    fn no_shape_panics(text in "(ctx|batch|ctx_total|ctx_mean|q_heads|q_len)=(0|1|7|[0-9]{1,20}|\\[3,9\\])( (batch|ctx_total|pages|q_heads|kv_heads|head_dim|block_size|window)=(1|16|[0-9]{1,20}|x)){0,6}") {
        if let Ok(shape) = text.parse::<ShapeMap>() && let Ok(case) = build(&shape, &"bf16".parse().unwrap(), options()) {
            prop_assert!(case.work().total_bytes() > 0);
        }
    }
}

/// The gpt-oss decode step of a real MI300X profile: 32 sequences, 55,086 tokens of context, 64 query and 8 KV heads of 64.
fn profiled_call() -> OpCall {
    let arg = |dims: &[u64]| OpArg {
        dims: ArgDims::Tensor(dims.to_vec()),
        dtype: "c10::BFloat16".into(),
        ..OpArg::default()
    };
    let mut op = OpCall { name: "vllm::unified_attention_with_output".into(), ..OpCall::default() };
    op.args = vec![arg(&[32, 64, 64]), arg(&[32, 8, 64]), arg(&[32, 8, 64]), arg(&[32, 64, 64])];
    for (key, value) in [
        ("c_sq", 0),
        ("c_sk", 0),
        ("c_sqsq", 0),
        ("c_sqsk", 0),
        ("g_sq", 32),
        ("g_sk", 55_086),
        ("g_sqsq", 32),
        ("g_sqsk", 55_086),
    ] {
        op.params.insert(key.into(), Value::Int(value));
    }
    for key in ["dtype_Q", "dtype_KV"] {
        op.params.insert(key.into(), Value::Text("c10::BFloat16".into()));
    }
    op
}

#[test]
fn the_profiled_decode_step() {
    let op = profiled_call();
    let found = recover(&op).unwrap().unwrap();
    assert_eq!(found.shape.to_string(), "batch=32,ctx_total=55086,q_heads=64,kv_heads=8,head_dim=64,layout=flash");
    assert_eq!(found.assumed.len(), 3, "{:?}", found.assumed);
    let case = build(&found.shape, &found.dtypes, options()).unwrap();
    // TraceLens: 0.902529024 GFLOP of this call, and 108.08984375 MiB with KV bytes not rounded to pages.
    assert_eq!(case.work().total_flops(), 902_529_024);
    let tracelens = 108.089_843_75 * 1024.0 * 1024.0;
    let more = case.work().total_bytes() as f64 - tracelens;
    let page_tails = 32.0 * 15.0 * 8.0 * 128.0 * 2.0;
    let tables = 4.0 * (55_086.0 / 16.0 + 64.0);
    assert!((0.0..page_tails + tables).contains(&more), "{more}");
}

#[test]
fn a_window_is_taken_only_when_given() {
    let mut op = profiled_call();
    op.params.insert("sliding_window".into(), Value::Int(128));
    let found = recover(&op).unwrap().unwrap();
    assert_eq!(found.shape.int("window").unwrap(), Some(128));
    let case = build(&found.shape, &found.dtypes, options()).unwrap();
    // Every context is longer than the window, so each of 32 sequences sees 128 keys.
    assert_eq!(case.work().total_flops(), 4 * 32 * 128 * 64 * 64);
}

#[test]
fn unknown_lengths_are_never_guessed() {
    let mut op = profiled_call();
    op.params.insert("g_sqsq".into(), Value::Int(64));
    assert!(recover(&op).is_none());
    op.params.remove("g_sqsq");
    assert!(recover(&op).is_none());
}

/// Arguments of a real SGLang capture; its trace has no sums, so those of a made-up step are added.
#[test]
fn ragged_paged_attention_has_its_page_size() {
    let mut op = profiled_call();
    op.name = "sglang_profiler::attention_paged_attention_ragged_100".into();
    let arg = |dims: &[u64], dtype: &str| OpArg {
        dims: ArgDims::Tensor(dims.to_vec()),
        dtype: dtype.into(),
        ..OpArg::default()
    };
    let bf16 = "c10::BFloat16";
    let cache = [835_874, 1, 8, 128];
    op.args = vec![
        arg(&[32, 32, 128], bf16),
        arg(&[10_905_190_400], "unsigned char"),
        arg(&[32, 32, 128], bf16),
        arg(&cache, bf16),
        arg(&cache, bf16),
        arg(&[33], "int"),
    ];
    let found = recover(&op).unwrap().unwrap();
    assert_eq!(
        found.shape.to_string(),
        "batch=32,ctx_total=55086,q_heads=32,kv_heads=8,head_dim=128,block_size=1,layout=flash"
    );
    assert_eq!(found.dtypes.to_string(), "bf16");
}

#[test]
fn errors_say_what_to_do() {
    let base = "q_heads=4,kv_heads=2,head_dim=16";
    for (shape, dtypes, part) in [
        ("", "bf16", "needs `ctx`"),
        ("batch=4", "bf16", "ctx_total or ctx_mean"),
        ("ctx_mean=4", "bf16", "needs `batch`"),
        ("ctx=[4,5] batch=3", "bf16", "as many as `batch`"),
        ("ctx=4 ctx_mean=4", "bf16", "only one"),
        ("ctx=2 q_len=3", "bf16", "at least as long"),
        ("ctx=100 pages=6", "bf16", "need 7 pages"),
        ("ctx=4 kv_scale=per_token", "bf16", "real values"),
        ("ctx=4 kv_scale=none", "bf16,kv=fp8", "per_tensor or per_token"),
        ("ctx=4 layout=nhd", "bf16", "flash or aiter"),
        ("ctx=4 v_head_dim=8", "bf16", "no `v_head_dim`"),
        ("ctx=4", "bf16,q=fp8", "must be bf16, f16 or f32"),
        ("batch=4 ctx_total=3", "bf16", "must be batch"),
    ] {
        let error = typed(&format!("{base} {shape}"), dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape}: {error}");
    }
    let odd = typed("q_heads=1,kv_heads=1,head_dim=12,ctx=4,layout=aiter", "bf16").unwrap_err().to_string();
    assert!(odd.contains("multiple"), "{odd}");
}
