use super::*;
use crate::families::testing::{OPTIONS, build, call, check_bytes, check_reference, half_unit};
use crate::{OpCall, Recovered, recover};
use proptest::prelude::*;

fn quant(shape: &str, dtypes: &str) -> Quant {
    Quant::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), OPTIONS).unwrap()
}

/// What the reference itself may be off: quantised values are compared with what they are before rounding.
fn tight(case: &Quant, name: &str) -> Tolerance {
    match name {
        "scale" => Tolerance { abs: 0.0, rel: 2e-7, mismatch_share: 0.0 },
        _ if case.out == Dtype::I8 => Tolerance { abs: 0.501, rel: 0.0, mismatch_share: 0.0 },
        _ => half_unit(case.out, smallest_step(case.out) * 0.501),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn reference_and_bytes_are_right(
        rows in 1u64..6,
        sixteens in 1u64..12,
        odd in 0u64..16,
        quant in prop_oneof![Just(""), Just(",quant=per_token"), Just(",quant=group,group=16")],
        out in prop_oneof![Just(""), Just(",out=fp8_e4m3fn"), Just(",out=bf8"), Just(",out=i8")],
        x in prop_oneof![Just("bf16"), Just("f16"), Just("f32")],
    ) {
        let hidden = sixteens * 16 + if quant.contains("group") { 0 } else { odd };
        let case = super::tests::quant(&format!("rows={rows},hidden={hidden}{quant}"), &format!("{x}{out}"));
        check_reference(&case, |name| tight(&case, name));
        check_bytes(&case);
        prop_assert_eq!(case.work().total_flops(), 2 * u128::from(rows * hidden));
    }
}

#[test]
fn codes_of_a_known_row() {
    // 240 is the largest e4m3fnuz: the scale of a row with largest magnitude 480 is 2, and codes are of halves.
    let case = quant("rows=1,hidden=4", "f32");
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    tensors.get_mut("x").view_mut::<f32>().copy_from_slice(&[480.0, -2.0, 0.0, 3.0]);
    case.reference(&mut tensors);
    assert_eq!(tensors.get("scale").view::<f32>(), [2.0]);
    let values: Vec<f64> = (0..4).map(|index| narrow::get(case.out, tensors.get("out").bytes(), index)).collect();
    assert_eq!(values, [240.0, -1.0, 0.0, 1.5]);
}

#[test]
fn zero_rows_stay_zero() {
    let case = quant("rows=2,hidden=32,quant=group,group=16", "bf16");
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    tensors.get_mut("out").bytes_mut().fill(0xFF);
    case.reference(&mut tensors);
    assert!(tensors.get("out").bytes().iter().all(|byte| *byte == 0));
    assert!(tensors.get("scale").view::<f32>().iter().all(|scale| *scale == 0.0));
}

#[test]
fn impossible_cases_say_why() {
    for (shape, dtypes, part) in [
        ("hidden=8", "bf16", "rows"),
        ("rows=1,hidden=0", "bf16", "at least 1"),
        ("rows=281474976710656,hidden=2", "bf16", "2^48"),
        ("rows=1,hidden=8", "", "needs a dtype"),
        ("rows=1,hidden=8", "fp8", "quant takes bf16"),
        ("rows=1,hidden=8", "bf16,out=bf16", "fp8_e4m3fn"),
        ("rows=1,hidden=8,quant=none", "bf16", "per_token or group"),
        ("rows=1,hidden=8,quant=3", "bf16", "a word"),
        ("rows=1,hidden=130,quant=group", "bf16", "divide"),
        ("rows=1,hidden=8,group=4", "bf16", "quant=group only"),
        ("rows=1,hidden=8,scale=1", "bf16", "scale"),
        ("rows=1,hidden=8", "bf16,weight=bf16", "no such role"),
    ] {
        let error = build(Family::Quant, shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape} {dtypes}: {error}");
    }
}

const BF16: &str = "c10::BFloat16";
const FP8: &str = "c10::Float8_e4m3fnuz";
const M: &[u64] = &[32, 768];

fn recovered(op: &OpCall) -> (String, String) {
    let Recovered { family, shape, dtypes, .. } = recover(op).unwrap().unwrap();
    assert_eq!(family, Family::Quant);
    build(family, &shape.to_string(), &dtypes.to_string()).unwrap();
    (shape.to_string(), dtypes.to_string())
}

#[test]
fn operators_give_shapes() {
    let token = "rows=32,hidden=768,quant=per_token";
    let group = "rows=32,hidden=768,quant=group,group=128";
    for (op, shape, dtypes) in [
        (
            call("aiter::dynamic_per_token_scaled_quant", &[(M, FP8), (M, BF16), (&[32, 1], "float"), (&[], "")]),
            token,
            "bf16,out=fp8_e4m3fnuz",
        ),
        (
            // aiter quantises groups as short rows.
            call(
                "aiter::dynamic_per_token_scaled_quant",
                &[(&[192, 128], FP8), (&[192, 128], BF16), (&[192], "float"), (&[], "")],
            ),
            "rows=192,hidden=128,quant=per_token",
            "bf16,out=fp8_e4m3fnuz",
        ),
        (
            call(
                "_C::dynamic_scaled_int8_quant",
                &[(M, "signed char"), (M, "c10::Half"), (&[32, 1], "float"), (&[], "")],
            ),
            token,
            "f16,out=i8",
        ),
        (
            call("_C::per_token_group_fp8_quant", &[(M, BF16), (M, FP8), (&[32, 6], "float"), (&[], "128")]),
            group,
            "bf16,out=fp8_e4m3fnuz",
        ),
        (
            // Scales stored transposed have as many elements.
            call(
                "sgl_kernel::sgl_per_token_group_quant_fp8",
                &[(M, BF16), (M, "c10::Float8_e4m3fn"), (&[6, 32], "float"), (&[], "128")],
            ),
            group,
            "bf16,out=fp8_e4m3fn",
        ),
        (
            call("aiter::dynamic_per_group_scaled_quant", &[(M, FP8), (M, BF16), (&[32, 6], "float"), (&[], "128")]),
            group,
            "bf16,out=fp8_e4m3fnuz",
        ),
    ] {
        assert_eq!(recovered(&op), (shape.to_owned(), dtypes.to_owned()), "{}", op.name);
    }
}

#[test]
fn unclear_calls_are_errors() {
    let scale: &[u64] = &[32, 1];
    for (op, part) in [
        (call("aiter::dynamic_per_token_scaled_quant", &[]), "no tensor"),
        (call("aiter::static_per_tensor_quant", &[(M, FP8), (M, BF16), (&[1], "float")]), "given scale"),
        (call("_C::dynamic_scaled_fp8_quant", &[(M, FP8), (M, BF16), (&[1], "float")]), "whole tensor"),
        (
            call("_C::dynamic_per_token_scaled_fp8_quant", &[(M, FP8), (M, BF16), (scale, "float"), (&[1], "float")]),
            "bounds the scales",
        ),
        (
            call(
                "_C::dynamic_scaled_int8_quant",
                &[(M, "signed char"), (M, BF16), (scale, "float"), (&[32, 1], "int")],
            ),
            "zero points",
        ),
        (call("_C::per_token_group_fp8_quant", &[(M, BF16), (M, FP8), (&[7], "float")]), "scales"),
        (call("_C::per_token_group_fp8_quant", &[(M, BF16), (M, FP8), (&[32, 6], "int")]), "f32 ones"),
        (call("_C::per_token_group_fp8_quant", &[(M, BF16), (&[32, 384], FP8), (&[32, 6], "float")]), "768"),
        (call("_C::per_token_group_fp8_quant", &[(M, "int"), (M, FP8), (&[32, 6], "float")]), "bf16, f16 or f32"),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
    assert!(super::recover(&call("aten::mm", &[(M, BF16)])).is_none());
}
