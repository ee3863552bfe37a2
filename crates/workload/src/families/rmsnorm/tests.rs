use super::*;
use crate::families::testing::{OPTIONS, build, call, check_bytes, check_reference, half_unit, with_params};
use crate::{OpArg, OpCall, Recovered, Value, recover};
use proptest::prelude::*;

fn rmsnorm(shape: &str, dtypes: &str) -> Rmsnorm {
    Rmsnorm::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), OPTIONS).unwrap()
}

/// What the reference itself may be off: half a unit of each output; quantised values are compared before rounding.
fn tight(case: &Rmsnorm, name: &str) -> Tolerance {
    match name {
        "residual" => half_unit(case.x, 1e-7),
        "scale" => Tolerance { abs: 0.0, rel: 1e-5, mismatch_share: 0.0 },
        _ if case.out == Dtype::I8 => Tolerance { abs: 0.501, rel: 0.0, mismatch_share: 0.0 },
        // fp16's subnormals are 2^-24 apart.
        _ if case.quant == RowQuant::None => half_unit(case.out, 1e-7),
        _ => half_unit(case.out, smallest_step(case.out) * 0.501),
    }
}

fn quant() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop_oneof![
        Just(("", "")),
        Just((",quant=per_token", "")),
        Just((",quant=per_token", ",out=fp8_e4m3fn")),
        Just((",quant=per_token", ",out=bf8")),
        Just((",quant=per_token", ",out=i8")),
        Just((",quant=group,group=16", "")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn reference_and_bytes_are_right(
        rows in 1u64..6,
        sixteens in 1u64..12,
        odd in 0u64..16,
        add: bool,
        (quant, out) in quant(),
        x in prop_oneof![Just("bf16"), Just("f16"), Just("f32")],
        weight in prop_oneof![Just(""), Just(",weight=f32"), Just(",weight=bf16")],
    ) {
        let hidden = sixteens * 16 + if quant.contains("group") { 0 } else { odd };
        let case = rmsnorm(&format!("rows={rows},hidden={hidden},add={add}{quant}"), &format!("{x}{weight}{out}"));
        check_reference(&case, |name| tight(&case, name));
        check_bytes(&case);
        prop_assert_eq!(case.work().total_flops(), walked_flops(&case));
    }
}

/// Counts operations by doing them.
fn walked_flops(case: &Rmsnorm) -> u128 {
    let mut flops = 0;
    for _ in 0..case.rows {
        for term in 0..case.hidden {
            flops += u128::from(case.add); // x + residual
            flops += 1; // square
            flops += u128::from(term > 0); // sum
        }
        flops += 3; // mean, + eps, reciprocal root
        for _ in 0..case.hidden {
            flops += 2; // · reciprocal root, · weight
            flops += if case.quant == RowQuant::None { 0 } else { 2 }; // maximum, · 1/scale
        }
    }
    flops
}

#[test]
fn work_at_a_real_shape() {
    // (32, 2880) in bf16 with residual: two matrices read, two written, one weight.
    let work = rmsnorm("rows=32,hidden=2880,add=true", "bf16").work();
    assert_eq!(work.total_bytes(), 4 * 32 * 2880 * 2 + 2880 * 2);
    // TraceLens: rows·(2N+2) + 2·elements + elements for the sum.
    assert_eq!(work.total_flops(), 32 * (2 * 2880 + 2) + 3 * 32 * 2880);
}

#[test]
fn zero_rows_stay_zero() {
    let case = rmsnorm("rows=2,hidden=32,quant=group,group=16", "bf16");
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    case.fill(1, &mut tensors);
    tensors.get_mut("x").bytes_mut().fill(0);
    case.reference(&mut tensors);
    assert!(tensors.get("out").bytes().iter().all(|byte| *byte == 0));
    assert!(tensors.get("scale").view::<f32>().iter().all(|scale| *scale == 0.0));
}

#[test]
fn impossible_cases_say_why() {
    for (shape, dtypes, part) in [
        ("hidden=8", "bf16", "rows"),
        ("rows=0,hidden=8", "bf16", "at least 1"),
        ("rows=18446744073709551615,hidden=18446744073709551615", "bf16", "2^48"),
        ("rows=1,hidden=8", "", "needs a dtype"),
        ("rows=1,hidden=8", "fp8", "rmsnorm takes bf16"),
        ("rows=1,hidden=8", "bf16,out=fp8", "quant="),
        ("rows=1,hidden=8,quant=per_token", "bf16,out=bf16", "fp8_e4m3fn"),
        ("rows=1,hidden=130,quant=group", "bf16", "divide"),
        ("rows=1,hidden=8,quant=group,group=0", "bf16", "divide"),
        ("rows=1,hidden=8,group=4", "bf16", "quant=group only"),
        ("rows=1,hidden=8,quant=tensor", "bf16", "per_token"),
        ("rows=1,hidden=8,eps=abc", "bf16", "eps"),
        ("rows=1,hidden=8,eps=nan", "bf16", "eps"),
        ("rows=1,hidden=8,epsilon=1", "bf16", "epsilon"),
        ("rows=1,hidden=8", "bf16,y=bf16", "no such role"),
    ] {
        let error = build(Family::Rmsnorm, shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape} {dtypes}: {error}");
    }
}

const BF16: &str = "c10::BFloat16";
const FP8: &str = "c10::Float8_e4m3fnuz";
const M: &[u64] = &[32, 2880];
const W: &[u64] = &[2880];

fn recovered(op: &OpCall) -> (String, String) {
    let Recovered { family, shape, dtypes, .. } = recover(op).unwrap().unwrap();
    assert_eq!(family, Family::Rmsnorm);
    build(family, &shape.to_string(), &dtypes.to_string()).unwrap();
    (shape.to_string(), dtypes.to_string())
}

#[test]
fn operators_give_shapes() {
    let scale: &[u64] = &[32, 1];
    let groups: &[u64] = &[32, 45];
    let mut none = call("aten::rms_norm", &[(M, BF16), (&[], ""), (W, BF16), (&[], "1e-05")]);
    none.args[1] = OpArg { concrete: "[2880]".into(), ..OpArg::default() };
    // As a trace has it: 128 workgroups, one a row, were launched for it.
    let mut several = call("aten::_fused_rms_norm", &[(&[8, 16, 32, 32], "float"), (&[], ""), (&[32, 32], "float")]);
    several.args[1] = OpArg { concrete: "[32, 32]".into(), ..OpArg::default() };
    let mut unweighted = several.clone();
    unweighted.args[2] = OpArg::default();
    for (op, shape, dtypes) in [
        (several, "rows=128,hidden=1024,add=false", "f32"),
        (unweighted, "rows=128,hidden=1024,add=false", "f32"),
        (
            call("aiter::rms_norm", &[(M, BF16), (W, BF16), (&[], "1.0000000000000001e-05"), (&[], "0")]),
            "rows=32,hidden=2880,add=false,eps=1e-5",
            "bf16",
        ),
        (
            call("_C::rms_norm", &[(M, "c10::Half"), (M, "c10::Half"), (W, "c10::Half"), (&[], "1e-06")]),
            "rows=32,hidden=2880,add=false,eps=1e-6",
            "f16",
        ),
        (
            call(
                "aiter::rmsnorm2d_fwd_with_add_ck",
                &[(M, BF16), (M, BF16), (M, BF16), (M, BF16), (W, BF16), (&[], "1.0000000000000001e-05"), (&[], "0")],
            ),
            "rows=32,hidden=2880,add=true,eps=1e-5",
            "bf16",
        ),
        (
            call("_C::fused_add_rms_norm", &[(M, BF16), (M, BF16), (W, "float"), (&[], "1e-06")]),
            "rows=32,hidden=2880,add=true,eps=1e-6",
            "bf16,weight=f32",
        ),
        (
            call(
                "aiter::add_rmsnorm_quant",
                &[(M, FP8), (M, BF16), (M, BF16), (M, BF16), (scale, "float"), (W, BF16), (&[], "1e-06"), (&[], "0")],
            ),
            "rows=32,hidden=2880,add=true,quant=per_token,eps=1e-6",
            "bf16,out=fp8_e4m3fnuz",
        ),
        (
            call(
                "aiter::rmsnorm2d_fwd_with_dynamicquant",
                &[(M, FP8), (M, BF16), (groups, "float"), (W, BF16), (&[], "1e-06"), (&[], "0"), (&[], "64")],
            ),
            "rows=32,hidden=2880,add=false,quant=group,group=64,eps=1e-6",
            "bf16,out=fp8_e4m3fnuz",
        ),
        (
            call(
                "_C::rms_norm_dynamic_per_token_quant",
                &[(M, FP8), (M, BF16), (W, BF16), (scale, "float"), (&[], "1e-06"), (&[], ""), (M, BF16)],
            ),
            "rows=32,hidden=2880,add=true,quant=per_token,eps=1e-6",
            "bf16,out=fp8_e4m3fnuz",
        ),
        (
            call(
                "vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant",
                &[(&[8, 4096], BF16), (&[8, 4096], BF16), (&[4096], BF16), (&[], "1e-06"), (&[], "128")],
            ),
            "rows=8,hidden=4096,add=true,quant=group,group=128,eps=1e-6",
            "bf16,out=fp8",
        ),
        (
            call(
                "aiter::fused_rms_fp8_group_quant",
                &[(M, BF16), (W, BF16), (&[], "1e-06"), (&[], ""), (&[], ""), (&[], ""), (&[], "64")],
            ),
            "rows=32,hidden=2880,add=false,quant=group,group=64,eps=1e-6",
            "bf16,out=fp8",
        ),
        (none, "rows=32,hidden=2880,add=false,eps=1e-5", "bf16"),
        (
            // Leading dims are rows: norms over the heads of a query.
            call("aiter::rms_norm", &[(&[7, 8, 128], BF16), (&[128], BF16), (&[], "1e-06")]),
            "rows=56,hidden=128,add=false,eps=1e-6",
            "bf16",
        ),
    ] {
        assert_eq!(recovered(&op), (shape.to_owned(), dtypes.to_owned()), "{}", op.name);
    }
}

#[test]
fn parameters_stand_in_for_arguments_and_are_checked_against_them() {
    let tuple = |sizes: &[i128]| Value::List(sizes.iter().copied().map(Value::Int).collect());
    let params = [
        ("op_shape", tuple(&[32, 4096])),
        ("num_channels", Value::Int(4096)),
        ("dtype_in_out", Value::List(vec![Value::Text(BF16.into()), Value::None])),
    ];
    // The sample row of shared facts, section 3.5.
    let op = with_params(call("aiter::add_rmsnorm", &[]), &params);
    assert_eq!(recovered(&op), ("rows=32,hidden=4096,add=true".to_owned(), "bf16".to_owned()));
    assert_eq!(recover(&op).unwrap().unwrap().assumed.len(), 2);

    let op = with_params(call("aiter::rms_norm", &[(M, BF16), (W, BF16), (&[], "1e-06")]), &params);
    let error = recover(&op).unwrap().unwrap_err().to_string();
    assert!(error.contains("4096") && error.contains("2880"), "{error}");
}

#[test]
fn unclear_calls_are_errors() {
    let mut wrong = call("aten::rms_norm", &[(M, BF16), (&[], ""), (W, BF16)]);
    wrong.args[1] = OpArg { concrete: "[32, 45]".into(), ..OpArg::default() };
    let error = recover(&wrong).unwrap().unwrap_err().to_string();
    assert!(error.contains("normalized_shape") && error.contains("[32, 2880]"), "{error}");
    for (op, part) in [
        (call("aiter::rms_norm", &[]), "op_shape"),
        (call("aiter::rms_norm", &[(M, "unsigned char"), (W, BF16)]), "bf16, f16 or f32"),
        (call("aiter::rms_norm", &[(M, "c10::Complex"), (W, BF16)]), "c10::Complex"),
        (call("aiter::rms_norm", &[(M, BF16), (&[128], BF16)]), "2880"),
        (call("aiter::rms_norm", &[(&[0, 2880], BF16), (W, BF16)]), "empty"),
        (call("aiter::rms_norm", &[(&[u64::MAX, u64::MAX], BF16), (W, BF16)]), "2^48"),
        (call("aiter::rmsnorm2d_fwd_with_smoothquant", &[(M, BF16)]), "given vector"),
        (call("aiter::fused_rms_fp8_group_quant", &[(M, BF16), (W, BF16), (&[], "1e-06"), (M, BF16)]), "second tensor"),
        (call("_C::rms_norm_static_fp8_quant", &[(M, FP8), (M, BF16)]), "given scale"),
        (
            call("aiter::add_rmsnorm_quant", &[(M, FP8), (M, BF16), (M, BF16), (M, BF16), (&[7], "float"), (W, BF16)]),
            "scales",
        ),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
    assert!(super::recover(&call("aten::layer_norm", &[(M, BF16)])).is_none());
}
