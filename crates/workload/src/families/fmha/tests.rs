use super::*;
use crate::op::{ArgDims, OpArg, OpCall, Value};
use crate::verify;
use proptest::prelude::*;

fn options() -> CaseOptions {
    CaseOptions { fp8: crate::Fp8Flavor::Fnuz, seed: 1 }
}

fn case(shape: &str, dtypes: &str) -> Result<Box<dyn Workload>, ShapeError> {
    build(&shape.parse()?, &dtypes.parse()?, options())
}

fn filled(case: &dyn Workload) -> TensorSet {
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    case.fill(7, &mut tensors);
    tensors
}

/// Reference against the naive form on every element; f32 rounding apart they must agree, so the tolerance is the output's
/// own rounding.
pub(crate) fn agrees(case: &dyn Workload) -> Result<(), TestCaseError> {
    let mut tensors = filled(case);
    case.reference(&mut tensors);
    let out = tensors.get("out");
    let all: Vec<usize> = (0..out.spec.elements() as usize).collect();
    let actual: Vec<f64> = all.iter().map(|i| crate::narrow::get(out.spec.dtype, out.bytes(), *i)).collect();
    let expected = case.naive(&tensors, "out", &all);
    let rel = crate::narrow::epsilon(out.spec.dtype) + 2e-5;
    let tight = Tolerance { abs: 2e-5, rel, mismatch_share: 0.0 };
    let result = verify::compare(&expected, &actual, tight);
    prop_assert!(result.passed, "{case:?}: {result:?}");
    prop_assert!(verify::compare(&expected, &actual, case.tolerance("out")).passed);
    Ok(())
}

fn shapes() -> impl Strategy<Value = String> {
    let heads = (1u64..4, 1u64..4, 1u64..40, 1u64..40);
    let mask = prop_oneof![
        Just("causal=false".to_owned()),
        Just("causal=true".to_owned()),
        (1u64..30).prop_map(|w| format!("window={w}"))
    ];
    let dense = (1u64..3, 1u64..40, 1u64..50, prop_oneof![Just("bshd"), Just("bhsd"), Just("thd")])
        .prop_map(|(batch, q, kv, layout)| format!("batch={batch},q_len={q},kv_len={kv},layout={layout}"));
    let packed = prop::collection::vec((1u64..40, 1u64..300), 1..4).prop_map(|lens| {
        let (q, kv): (Vec<String>, Vec<String>) = lens.iter().map(|(q, kv)| (q.to_string(), kv.to_string())).unzip();
        format!("q_lens=[{}],kv_lens=[{}]", q.join(","), kv.join(","))
    });
    (heads, mask, prop_oneof![dense, packed]).prop_map(|((kv_heads, group, d, d_v), mask, lengths)| {
        let q_heads = kv_heads * group;
        format!("{lengths},q_heads={q_heads},kv_heads={kv_heads},head_dim={d},v_head_dim={d_v},{mask}")
    })
}

fn dtypes() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("bf16"), Just("f16"), Just("f32"), Just("fp8"), Just("fp8,out=f16"), Just("fp8_e4m3fn,out=f32")]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn reference_agrees_with_naive(shape in shapes(), dtypes in dtypes()) {
        agrees(&*case(&shape, dtypes).unwrap())?;
    }

    #[test]
    fn work_equals_enumeration(shape in shapes(), dtypes in dtypes()) {
        let case = Fmha::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), options().fp8).unwrap();
        let (d, d_v) = (u128::from(case.heads.d_qk), u128::from(case.heads.d_v));
        let (mut multiply_adds, mut q_vectors, mut kv_vectors, mut out_vectors) = (0u128, 0u128, 0u128, 0u128);
        for span in &case.spans {
            let mut key_seen = vec![vec![false; span.kv_len as usize]; case.heads.kv_heads as usize];
            for head in 0..case.heads.q_heads {
                for query in 0..span.q_len {
                    let mut sees_any = false;
                    for key in 0..span.kv_len {
                        let position = span.kv_len as i64 - span.q_len as i64 + query as i64;
                        let causal = !case.mask.is_causal() || key as i64 <= position;
                        let near = case.mask.window() == 0 || key as i64 > position - case.mask.window() as i64;
                        if causal && near {
                            multiply_adds += d + d_v;
                            sees_any = true;
                            key_seen[(head * case.heads.kv_heads / case.heads.q_heads) as usize][key as usize] = true;
                        }
                    }
                    q_vectors += u128::from(sees_any);
                    out_vectors += 1;
                }
            }
            kv_vectors += key_seen.iter().flatten().filter(|seen| **seen).count() as u128;
        }
        let work = case.work();
        prop_assert_eq!(work.flops[&case.operands], 2 * multiply_adds);
        let size = u128::from(case.operands.bits() / 8);
        let extra: u128 = case.tensors().iter().filter(|s| s.name.contains("descale") || s.name.starts_with("cu_")).map(|s| s.elements() * 4).sum();
        prop_assert_eq!(work.bytes_read, size * (q_vectors * d + kv_vectors * (d + d_v)) + extra);
        prop_assert_eq!(work.bytes_written, u128::from(case.out.bits() / 8) * out_vectors * d_v);
    }

    #[test]
    fn canonical_shape_builds_the_same_case(shape in shapes(), dtypes in dtypes()) {
        let first = case(&shape, dtypes).unwrap();
        let again = build(&first.shape(), &first.dtypes(), options()).unwrap();
        prop_assert_eq!(format!("{first:?}"), format!("{again:?}"));
        prop_assert_eq!(first.shape(), again.shape());
    }

    #[test]
    fn no_shape_panics(text in "(batch|q_len|kv_len|q_heads|kv_heads|head_dim|window|q_lens|layout)=(0|1|7|[0-9]{1,20}|\\[3,9\\]|thd)( (batch|q_len|q_heads|kv_heads|head_dim|v_head_dim|causal)=(1|2|[0-9]{1,20}|true)){0,6}") {
        if let Ok(shape) = text.parse::<ShapeMap>() && let Ok(case) = build(&shape, &"bf16".parse().unwrap(), options()) {
            prop_assert!(case.work().total_bytes() > 0);
        }
    }
}

#[test]
fn the_profiled_causal_shape() {
    // facts 5.3 and the real SDPA row: TraceLens counts half of 2·B·H·N²·(d+d); the exact triangle has N more pairs a head.
    let case = case("batch=16,q_len=559,q_heads=16,kv_heads=16,head_dim=64,layout=bhsd", "bf16").unwrap();
    let pairs = 559u128 * 560 / 2;
    assert_eq!(case.work().total_flops(), 2 * 16 * 16 * pairs * 128);
    let tracelens: u128 = 10_239_377_408;
    assert_eq!(case.work().total_flops() - tracelens, 16 * 16 * 559 * 128);
    // Data Moved 69.875 MiB in the same row.
    assert_eq!(case.work().total_bytes(), 69_875 * 1024 * 1024 / 1000);
}

#[test]
fn long_contexts_keep_outputs_of_order_one() {
    let case = case("batch=1,q_len=2,kv_len=20000,q_heads=1,kv_heads=1,head_dim=64", "bf16").unwrap();
    let mut tensors = filled(&*case);
    case.reference(&mut tensors);
    let mut out = vec![0.0f32; 128];
    crate::narrow::decode_slice(Dtype::Bf16, tensors.get("out").bytes(), 0, &mut out);
    let deviation = (out.iter().map(|x| x * x).sum::<f32>() / 128.0).sqrt();
    assert!((0.1..1.5).contains(&deviation), "{deviation}");
    // An output of zeros must not pass.
    let wanted: Vec<f64> = out.iter().map(|value| f64::from(*value)).collect();
    assert!(!verify::compare(&wanted, &[0.0; 128], case.tolerance("out")).passed);
}

#[test]
fn errors_say_what_to_do() {
    for (shape, dtypes, part) in [
        ("batch=1,q_len=4,q_heads=3,kv_heads=2,head_dim=8", "bf16", "must divide q_heads=3"),
        ("batch=1,q_len=4,q_heads=2,kv_heads=2,head_dim=8,window=3,causal=false", "bf16", "causal=true"),
        ("q_lens=[1,2],kv_lens=[1],q_heads=1,kv_heads=1,head_dim=8", "bf16", "as many lengths"),
        ("batch=2,q_lens=[1,2],q_heads=1,kv_heads=1,head_dim=8", "bf16", "either"),
        ("q_lens=[1,2],q_heads=1,kv_heads=1,head_dim=8,layout=bshd", "bf16", "thd"),
        ("batch=1,q_len=4,q_heads=1,kv_heads=1,head_dim=8", "bf16,k=f16", "one dtype"),
        ("batch=1,q_len=4,q_heads=1,kv_heads=1,head_dim=8", "i32", "bf16"),
        ("batch=1,q_len=4,q_heads=1,kv_heads=1,head_dim=8,seq=3", "bf16", "no `seq`"),
        ("batch=1000000,q_len=4000,q_heads=1,kv_heads=1,head_dim=8", "bf16", "at most"),
    ] {
        let error = case(shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape}: {error}");
    }
}

fn arg(dims: &[u64], dtype: &str, strides: &[i64], concrete: &str) -> OpArg {
    let dims = if dims.is_empty() { ArgDims::None } else { ArgDims::Tensor(dims.to_vec()) };
    OpArg { dims, dtype: dtype.into(), strides: strides.to_vec(), concrete: concrete.into() }
}

fn scalars(values: &[&str]) -> Vec<OpArg> {
    values.iter().map(|value| arg(&[], "Scalar", &[], value)).collect()
}

/// The SDPA row of a real MI300X profile (qwen1.5, facts 3.3 and 3.5), by its two operators.
#[test]
fn profiled_calls_are_recovered() {
    let bf16 = "c10::BFloat16";
    let strides = [572_416, 35_776, 64, 1];
    let mut args = vec![arg(&[16, 16, 559, 64], bf16, &strides, ""); 3];
    args.extend(scalars(&["0.", "True", "False", "0.125"]));
    let sdpa = OpCall { name: "aten::_scaled_dot_product_flash_attention".into(), args, ..OpCall::default() };
    let found = recover(&sdpa).unwrap().unwrap();
    let wanted = "batch=16,q_len=559,kv_len=559,q_heads=16,kv_heads=16,head_dim=64,v_head_dim=64,causal=true,window=0";
    assert_eq!(found.shape.to_string(), format!("{wanted},layout=bhsd"));
    assert_eq!(found.dtypes.to_string(), "bf16");
    assert_eq!(found.assumed, Vec::<String>::new());
    assert!(build(&found.shape, &found.dtypes, options()).is_ok());

    let mut args = vec![arg(&[16, 559, 16, 64], bf16, &[], ""); 3];
    args.extend(scalars(&["", "", "559", "559", "0.", "True", "False", "0.125", "", "", "", ""]));
    let flash = OpCall { name: "aten::_flash_attention_forward".into(), args, ..OpCall::default() };
    let found = recover(&flash).unwrap().unwrap();
    assert_eq!(found.shape.to_string(), format!("{wanted},layout=bshd"));
}

/// The prefill of a real SGLang profile: 15 sequences of 1024 new tokens, page size 1.
#[test]
fn paged_prefill_is_recovered_when_lengths_are_certain() {
    let bf16 = "c10::BFloat16";
    let mut args = vec![
        arg(&[15_360, 32, 128], bf16, &[], ""),
        arg(&[835_874, 8, 128], bf16, &[], ""),
        arg(&[835_874, 8, 128], bf16, &[], ""),
    ];
    args.extend([arg(&[16], "int", &[], ""), arg(&[16], "int", &[], ""), arg(&[15_616], "int", &[], "")]);
    args.extend(scalars(&["1024", "1024", "0.", "0.088", "0.", "False", "True", "-1", "-1"]));
    let mut op = OpCall { name: "aiter::mha_batch_prefill".into(), args, ..OpCall::default() };
    let found = recover(&op).unwrap().unwrap();
    let wanted = "q_lens=[1024*15],kv_lens=[1024*15],q_heads=32,kv_heads=8,head_dim=128,v_head_dim=128,causal=true,window=0,layout=thd";
    assert_eq!(found.shape.to_string(), wanted);
    assert_eq!(found.assumed.len(), 1);
    // With a longer longest context the lengths of the others are open.
    op.args[7].concrete = "2048".into();
    assert!(recover(&op).is_none());
}

#[test]
fn sums_settle_a_prefill_of_one_sequence_only() {
    let bf16 = "c10::BFloat16";
    let args =
        vec![arg(&[888, 8, 64], bf16, &[], ""), arg(&[888, 1, 64], bf16, &[], ""), arg(&[888, 1, 64], bf16, &[], "")];
    let mut op = OpCall { name: "vllm::unified_attention_with_output".into(), args, ..OpCall::default() };
    assert!(recover(&op).is_none());
    let sums = |op: &mut OpCall, values: [i128; 4]| {
        for (key, value) in ["c_sq", "c_sk", "c_sqsq", "c_sqsk"].into_iter().zip(values) {
            op.params.insert(key.into(), Value::Int(value));
        }
        for key in ["g_sq", "g_sk", "g_sqsq", "g_sqsk"] {
            op.params.insert(key.into(), Value::Int(0));
        }
    };
    sums(&mut op, [888, 1000, 888 * 888, 888_000]);
    let found = recover(&op).unwrap().unwrap();
    assert!(found.shape.to_string().starts_with("q_lens=[888],kv_lens=[1000],q_heads=8,kv_heads=1,head_dim=64"));
    // Two sequences, 88 and 800 tokens.
    sums(&mut op, [888, 888, 88 * 88 + 800 * 800, 88 * 88 + 800 * 800]);
    assert!(recover(&op).is_none());
}

#[test]
fn contradicting_dims_are_an_error() {
    let bf16 = "c10::BFloat16";
    let mut args = vec![
        arg(&[1, 2, 8, 64], bf16, &[], ""),
        arg(&[2, 2, 8, 64], bf16, &[], ""),
        arg(&[2, 2, 8, 64], bf16, &[], ""),
    ];
    args.extend(scalars(&["0.", "True"]));
    let op = OpCall { name: "aten::_scaled_dot_product_flash_attention".into(), args, ..OpCall::default() };
    assert!(recover(&op).unwrap().unwrap_err().to_string().contains("disagree"));
}
