use super::*;
use crate::op::{ArgDims, OpArg, OpCall, Value};
use crate::{narrow, verify};
use proptest::prelude::*;

fn options() -> CaseOptions {
    CaseOptions { fp8: crate::Fp8Flavor::Fnuz, seed: 5 }
}

fn typed(shape: &str, dtypes: &str) -> Result<MoeGemm, ShapeError> {
    MoeGemm::new(&shape.parse()?, &dtypes.parse()?, options())
}

fn filled(case: &MoeGemm) -> TensorSet {
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    case.fill(7, &mut tensors);
    tensors
}

fn shapes() -> impl Strategy<Value = (String, &'static str)> {
    let sizes = (1u64..30, 1u64..7, 1u64..5, 1u64..6, 0.0f64..1.0);
    let stage = prop_oneof![
        Just("stage=gate_up,act=gelu"),
        Just("stage=gate_up,gated=false"),
        Just("stage=down"),
        Just("stage=fused"),
        Just("stage=fused,gated=false,act=gelu")
    ];
    let routing = prop_oneof![Just("balanced"), Just("uniform"), Just("zipf")];
    let dtypes = prop_oneof![
        Just(("none", "bf16")),
        Just(("none", "f16,out=f32")),
        Just(("none", "f32")),
        Just(("per_token", "fp8")),
        Just(("per_token", "x=fp8_e4m3fn,w=fp8_e5m2")),
        Just(("block128", "fp8,out=f32")),
        Just(("mx32", "bf16,w=fp4_e2m1")),
        Just(("mx32", "fp4"))
    ];
    (sizes, stage, routing, dtypes, 1u64..40, any::<bool>()).prop_map(
        |((tokens, hidden, inter, experts, part), stage, routing, (quant, dtypes), block_m, ragged)| {
            let topk = 1 + (part * (experts - 1) as f64) as u64;
            // Beside multiples of 32 also sizes with tails in every block, where the quantisation allows them.
            let off = if ragged && quant != "mx32" { 13 } else { 0 };
            let (hidden, inter) = (hidden * 32 + off, inter * 32 + off);
            let shape = format!(
                "tokens={tokens},hidden={hidden},inter={inter},experts={experts},topk={topk},{stage},routing={routing},\
                 quant={quant},block_m={block_m}"
            );
            (shape, dtypes)
        },
    )
}

/// Against the naive form. The naive form costs a row of the intermediate for each token, so a sample of elements is taken; f32
/// rounding apart the two must agree, so the tolerance is the output's own rounding.
fn agrees(case: &MoeGemm, stride: usize) -> Result<(), TestCaseError> {
    let mut tensors = filled(case);
    case.reference(&mut tensors);
    let out = tensors.get("out");
    let some: Vec<usize> = (0..out.spec.elements() as usize).step_by(stride).collect();
    let actual: Vec<f64> = some.iter().map(|i| narrow::get(out.spec.dtype, out.bytes(), *i)).collect();
    let expected = case.naive(&tensors, "out", &some);
    let tight = Tolerance { abs: 5e-5, rel: narrow::epsilon(out.spec.dtype) + 5e-5, mismatch_share: 0.0 };
    let result = verify::compare(&expected, &actual, tight);
    prop_assert!(result.passed, "{:?}", result);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn reference_agrees_with_naive((shape, dtypes) in shapes()) {
        agrees(&typed(&shape, dtypes).unwrap(), 7)?;
    }

    #[test]
    fn work_equals_enumeration((shape, dtypes) in shapes()) {
        let case = typed(&shape, dtypes).unwrap();
        let mut rows = vec![0u64; case.experts as usize];
        case.ids.iter().for_each(|id| rows[*id as usize] += 1);
        let (mut flops, mut padded, mut bytes) = (0u128, 0u128, 0u128);
        for (n, k) in case.products().iter().map(|product| (product.n, product.k)) {
            for count in rows.iter().filter(|count| **count > 0) {
                // Each routed row: n dot products of k multiply-adds. Then whole blocks of rows.
                flops += u128::from(*count) * u128::from(n) * u128::from(k) * 2;
                let mut blocks = 0;
                while blocks * case.block_m < *count {
                    blocks += 1;
                }
                padded += u128::from(blocks * case.block_m) * u128::from(n) * u128::from(k) * 2;
                let mut bits = 0u64;
                for row in 0..n {
                    bits += k * case.w.bits();
                    bits += match case.quant {
                        Quant::None => 0,
                        Quant::PerToken => 32,
                        Quant::Block128 if row % 128 == 0 => 32 * k.div_ceil(128),
                        Quant::Block128 => 0,
                        Quant::Mx32 => 8 * k.div_ceil(32),
                    };
                }
                bytes += u128::from(bits.div_ceil(8));
            }
        }
        let work = case.work();
        prop_assert_eq!(work.flops[&case.x], flops);
        prop_assert_eq!(work.padding_flops.get(&case.x).copied().unwrap_or(0), padded - flops);
        let (tokens, slots) = (u128::from(case.tokens), u128::from(case.tokens * case.topk));
        let (input_rows, k) = if case.stage == Stage::Down { (slots, case.inter) } else { (tokens, case.hidden) };
        bytes += input_rows * u128::from(k) * u128::from(case.x.bits() / 8);
        bytes += match case.quant {
            Quant::PerToken => input_rows * 4,
            Quant::Block128 => input_rows * 4 * u128::from(k.div_ceil(128)),
            _ => 0,
        };
        bytes += slots * if case.stage == Stage::GateUp { 4 } else { 8 };
        prop_assert_eq!(work.bytes_read, bytes);
        let out = if case.stage == Stage::GateUp { slots * u128::from(case.inter) } else { tokens * u128::from(case.hidden) };
        prop_assert_eq!(work.bytes_written, out * u128::from(case.out.bits() / 8));
    }

    #[test]
    fn canonical_shape_builds_the_same_case((shape, dtypes) in shapes()) {
        let case = typed(&shape, dtypes).unwrap();
        let again = MoeGemm::new(&case.canonical(), &case.dtypes(), options()).unwrap();
        prop_assert_eq!(format!("{case:?}"), format!("{again:?}"));
    }

    #[test]
    fn no_shape_panics(text in "(tokens|hidden|topk|experts)=(0|1|7|[0-9]{1,20})( (hidden|inter|experts|topk|expert_tokens|block_m)=(1|2|64|[0-9]{1,20}|\\[1,2\\])){0,7} stage=(gate_up|down|fused)") {
        if let Ok(shape) = text.parse::<ShapeMap>() && let Ok(case) = build(&shape, &"bf16".parse().unwrap(), options()) {
            prop_assert!(case.work().total_bytes() > 0);
        }
    }
}

/// Sizes that use every path: rows beyond one panel, beyond one group of rows, several blocks of k and of columns.
#[test]
fn large_groups_agree_with_naive() {
    let base = "hidden=1120,inter=160,experts=3,topk=2";
    for (shape, dtypes) in [
        (format!("tokens=1800,{base},stage=gate_up,expert_tokens=[1800,1700,100]"), "bf16"),
        (format!("tokens=1500,{base},stage=down,routing=zipf"), "bf16"),
        (format!("tokens=20,{base},stage=gate_up,quant=mx32,expert_tokens=[20,18,2]"), "bf16,out=f32"),
        (format!("tokens=45,{base},stage=fused,quant=block128"), "fp8,out=f32"),
    ] {
        agrees(&typed(&shape, dtypes).unwrap(), 997).unwrap();
    }
}

/// The gpt-oss layer of a real MI300X profile.
fn profiled_call(stage: &str, gated: bool) -> OpCall {
    let mut op = OpCall { name: format!("pseudo_op::moe_triton_unfused_{stage}"), ..OpCall::default() };
    for (key, value) in
        [("num_tokens", 32), ("hidden_dim", 3072), ("inter_dim", 3072), ("num_experts", 32), ("topk", 4)]
    {
        op.params.insert(key.into(), Value::Int(value));
    }
    op.params.insert("gated".into(), Value::Bool(gated));
    op.params.insert("input_dtype".into(), Value::Text("c10::BFloat16".into()));
    op.params.insert("weight_dtype".into(), Value::Text("FP4".into()));
    op.kernels.push("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu".into());
    op
}

#[test]
fn the_profiled_layer() {
    // GFLOPS of the two rows of MoE_unfused_fwd.csv.
    for (stage, gated, flops) in [("up", true, 4_831_838_208u128), ("down", false, 2_415_919_104)] {
        let found = recover(&profiled_call(stage, gated)).unwrap().unwrap();
        assert_eq!(found.dtypes.to_string(), "x=bf16,w=fp4_e2m1");
        let case = build(&found.shape, &found.dtypes, options()).unwrap();
        assert_eq!(case.work().total_flops(), flops, "{stage}");
        assert_eq!(case.shape().word("quant").unwrap(), Some("mx32"));
        assert!(found.assumed.iter().any(|text| text.contains("uniform routing")));
    }
    let up = recover(&profiled_call("up", true)).unwrap().unwrap();
    let wanted = "tokens=32,hidden=3072,inter=3072,experts=32,topk=4,stage=gate_up,gated=true,act=silu,routing=uniform,quant=mx32";
    assert_eq!(up.shape.to_string(), wanted);
    assert!(recover(&profiled_call("finalize_matmul_scatter", false)).is_none());
}

#[test]
fn aiter_s_operators() {
    let tensor = |dims: &[u64], dtype: &str| OpArg {
        dims: ArgDims::Tensor(dims.to_vec()),
        dtype: dtype.into(),
        ..OpArg::default()
    };
    let number = |value: &str| OpArg { dtype: "Scalar".into(), concrete: value.into(), ..OpArg::default() };
    let (bf16, fp8) = ("c10::BFloat16", "c10::Float8_e4m3fnuz");
    // Qwen3-30B-A3B: 128 experts, top 8, hidden 2048, inter 768.
    let (w1, w2) = ([128, 1536, 2048], [128, 2048, 768]);
    let sort = || vec![tensor(&[5000], "int"), tensor(&[5000], "float"), tensor(&[160], "int"), tensor(&[2], "int")];
    let mut args = vec![tensor(&[16, 2048], bf16), tensor(&[16, 2048], fp8), tensor(&w1, fp8), tensor(&w2, fp8)];
    args.extend(sort());
    args.push(number("8"));
    let fused = OpCall { name: "aiter::fmoe_fp8_blockscale_g1u1".into(), args, ..OpCall::default() };
    let found = recover(&fused).unwrap().unwrap();
    let wanted = "tokens=16,hidden=2048,inter=768,experts=128,topk=8,stage=fused,gated=true,act=silu,routing=uniform,quant=block128";
    assert_eq!((found.shape.to_string().as_str(), found.dtypes.to_string().as_str()), (wanted, "fp8_e4m3fnuz"));

    let mut args = vec![tensor(&[16, 8, 768], fp8), tensor(&w1, fp8), tensor(&w2, fp8)];
    args.extend([tensor(&[5000], "int"), tensor(&[160], "int"), tensor(&[2], "int"), tensor(&[16, 2048], bf16)]);
    args.extend(["8", "", "", "", "32", "", "2", "0"].map(number));
    let stage2 = OpCall { name: "aiter::ck_moe_stage2".into(), args, ..OpCall::default() };
    let found = recover(&stage2).unwrap().unwrap();
    let wanted = "tokens=16,hidden=2048,inter=768,experts=128,topk=8,stage=down,routing=uniform,quant=per_token";
    assert_eq!(found.shape.to_string(), wanted);

    let mut bad = fused.clone();
    bad.args[3] = tensor(&[128, 2048, 700], fp8);
    assert!(recover(&bad).unwrap().unwrap_err().to_string().contains("disagree"));
}

#[test]
fn errors_say_what_to_do() {
    let base = "tokens=4,hidden=64,inter=32,experts=4,topk=2";
    for (shape, dtypes, part) in [
        (base.to_owned(), "bf16", "needs `stage`"),
        (format!("{base},stage=up"), "bf16", "gate_up, down or fused"),
        (format!("{base},stage=down,act=silu"), "bf16", "no activation"),
        (format!("{base},stage=down"), "fp8", "per_token or block128"),
        (format!("{base},stage=down,quant=per_token"), "x=bf16,w=fp8", "fp8 with this quant"),
        (format!("{base},stage=down"), "x=bf16,w=f16", "dtype of x"),
        (format!("{base},stage=down,routing=hot"), "bf16", "balanced, uniform or zipf"),
        (format!("{base},stage=down,expert_tokens=[1,2,3]"), "bf16", "experts=4 counts"),
        (format!("{base},stage=down,expert_tokens=[5,1,1,1]"), "bf16", "at most tokens=4"),
        (format!("{base},stage=down,expert_tokens=[1,1,1,1]"), "bf16", "must be tokens·topk = 8"),
        ("tokens=4,hidden=64,inter=33,experts=4,topk=2,stage=down".into(), "fp4", "multiple of 32"),
        ("tokens=4,hidden=64,inter=32,experts=4,topk=5,stage=down".into(), "bf16", "at most 4"),
        ("tokens=4000000,hidden=64,inter=32,experts=64,topk=50,stage=down".into(), "bf16", "tokens·topk"),
    ] {
        let error = typed(&shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape}: {error}");
    }
}
