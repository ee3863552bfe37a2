use super::*;
use crate::families::testing::{OPTIONS, build, call, check_bytes, check_reference, half_unit, with_params};
use crate::{OpArg, OpCall, Recovered, Value, recover};
use proptest::prelude::*;

fn activation(shape: &str, dtypes: &str) -> Activation {
    Activation::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), OPTIONS).unwrap()
}

/// What the reference itself may be off: half a unit of the output, and the 1e-6 of its fast functions.
fn tight(case: &Activation, name: &str) -> Tolerance {
    match name {
        "scale" => Tolerance { abs: 0.0, rel: 1e-5, mismatch_share: 0.0 },
        _ if case.out == Dtype::I8 => Tolerance { abs: 0.501, rel: 0.0, mismatch_share: 0.0 },
        _ if case.quant == RowQuant::None => half_unit(case.out, 5e-6),
        _ => half_unit(case.out, smallest_step(case.out) * 0.501),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn reference_and_bytes_are_right(
        rows in 1u64..5,
        sixteens in 1u64..9,
        odd in 0u64..16,
        kind in prop_oneof![Just(Kind::Silu), Just(Kind::Gelu), Just(Kind::GeluTanh)],
        mul: bool,
        (quant, out) in prop_oneof![
            Just(("", "")),
            Just((",quant=per_token", "")),
            Just((",quant=per_token", ",out=i8")),
            Just((",quant=group,group=16", ",out=fp8_e4m3fn")),
        ],
        x in prop_oneof![Just("bf16"), Just("f16"), Just("f32")],
    ) {
        let hidden = sixteens * 16 + if quant.contains("group") { 0 } else { odd };
        let shape = format!("rows={rows},hidden={hidden},kind={},mul={mul}{quant}", kind.name());
        let case = activation(&shape, &format!("{x}{out}"));
        check_reference(&case, |name| tight(&case, name));
        check_bytes(&case);
        prop_assert_eq!(case.work().total_flops(), walked_flops(&case));
    }
}

/// Counts operations by doing them, element by element.
fn walked_flops(case: &Activation) -> u128 {
    let steps: &[&str] = match case.kind {
        Kind::Silu => &["negate", "exp", "1 +", "x /"],
        Kind::Gelu => &["x / √2", "erf", "1 +", "x ·", "½ ·"],
        Kind::GeluTanh => &["x · x", "c ·", "1 +", "x · ", "tanh", "1 +", "x ·", "½ ·"],
    };
    let mut flops = 0;
    for _ in 0..case.rows * case.hidden {
        flops += steps.len() as u128;
        flops += u128::from(case.mul);
        flops += if case.quant == RowQuant::None { 0 } else { 2 };
    }
    flops
}

#[test]
fn long_rows_are_cut_and_put_together() {
    for mul in [true, false] {
        let case = activation(&format!("rows=2,hidden=5001,mul={mul}"), "bf16");
        check_reference(&case, |name| tight(&case, name));
    }
}

#[test]
fn work_at_a_real_shape() {
    // TraceLens, shared facts 5.7: silu_and_mul FLOPs 5·out, bytes 2·out·b_in + out·b_out.
    let work = activation("rows=8944,hidden=2816", "bf16").work();
    assert_eq!(work.total_flops(), 5 * 8944 * 2816);
    assert_eq!(work.total_bytes(), 3 * 2 * 8944 * 2816);
}

#[test]
fn impossible_cases_say_why() {
    for (shape, dtypes, part) in [
        ("rows=4", "bf16", "hidden"),
        ("rows=4,hidden=0", "bf16", "at least 1"),
        ("rows=281474976710656,hidden=1", "bf16", "2^48"),
        ("rows=4,hidden=8,kind=relu", "bf16", "gelu_tanh"),
        ("rows=4,hidden=8,gate=1", "bf16", "gate"),
        ("rows=4,hidden=8", "", "needs a dtype"),
        ("rows=4,hidden=8", "i32", "activation takes"),
        ("rows=4,hidden=8", "bf16,out=fp8", "quant="),
        ("rows=4,hidden=8,quant=group", "bf16", "divide"),
    ] {
        let error = build(Family::Activation, shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape} {dtypes}: {error}");
    }
}

const BF16: &str = "c10::BFloat16";

fn recovered(op: &OpCall) -> (String, String) {
    let Recovered { family, shape, dtypes, .. } = recover(op).unwrap().unwrap();
    build(family, &shape.to_string(), &dtypes.to_string()).unwrap();
    (shape.to_string(), dtypes.to_string())
}

#[test]
fn operators_give_shapes() {
    let mut tanh = call("aten::gelu", &[(&[4, 8], "float"), (&[], "tanh")]);
    tanh.args[1] = OpArg { concrete: "tanh".into(), ..OpArg::default() };
    let mut act = call("aiter::act_and_mul", &[(&[4, 8], BF16), (&[4, 16], BF16)]);
    act.kernels = vec!["void aiter::act_and_mul_kernel<__hip_bfloat16, gelu_tanh_kernel>".into()];
    for (op, shape, dtypes) in [
        (call("aten::silu", &[(&[16, 559, 2816], BF16)]), "rows=8944,hidden=2816,kind=silu,mul=false", "bf16"),
        (
            call("_C::silu_and_mul", &[(&[32, 768], BF16), (&[32, 1536], BF16)]),
            "rows=32,hidden=768,kind=silu,mul=true",
            "bf16",
        ),
        (
            call("sgl_kernel::gelu_and_mul", &[(&[32, 768], "c10::Half"), (&[32, 1536], "c10::Half")]),
            "rows=32,hidden=768,kind=gelu,mul=true",
            "f16",
        ),
        (
            call(
                "_C::silu_and_mul_per_block_quant",
                &[(&[32, 768], "c10::Float8_e4m3fnuz"), (&[32, 1536], BF16), (&[32, 6], "float"), (&[], "128")],
            ),
            "rows=32,hidden=768,kind=silu,mul=true,quant=group,group=128",
            "bf16,out=fp8_e4m3fnuz",
        ),
        (tanh, "rows=4,hidden=8,kind=gelu_tanh,mul=false", "f32"),
        (act, "rows=4,hidden=8,kind=gelu_tanh,mul=true", "bf16"),
        (
            with_params(
                call("aten::silu", &[]),
                &[
                    ("op_shape", Value::List([16, 559, 2816].map(Value::Int).to_vec())),
                    ("dtype_in_out", Value::List(vec![Value::Text(BF16.into()), Value::None])),
                ],
            ),
            "rows=8944,hidden=2816,kind=silu,mul=false",
            "bf16",
        ),
    ] {
        assert_eq!(recovered(&op), (shape.to_owned(), dtypes.to_owned()), "{}", op.name);
    }
}

#[test]
fn unclear_calls_are_errors() {
    for (op, part) in [
        (call("_C::silu_and_mul", &[(&[32, 768], BF16), (&[32, 1535], BF16)]), "even"),
        (call("_C::silu_and_mul", &[(&[32, 767], BF16), (&[32, 1536], BF16)]), "768"),
        (call("_C::silu_and_mul", &[(&[32, 768], BF16), (&[32, 1536], "long long")]), "long long"),
        (call("_C::silu_and_mul_quant", &[]), "given scale"),
        (call("aiter::act_and_mul", &[(&[4, 8], BF16), (&[4, 16], BF16)]), "which activation"),
        (call("aten::silu", &[]), "op_shape"),
        (call("aten::silu", &[(&[4, 0], BF16)]), "empty"),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
    assert!(super::recover(&call("vllm::silu", &[(&[4, 4], BF16)])).is_none());
}
