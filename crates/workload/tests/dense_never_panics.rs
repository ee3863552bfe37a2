//! Nothing that a file can say makes the dense families panic: any shape text, any dtypes, any operator call.

use kbench_workload::{ArgDims, CaseOptions, Dtypes, Family, Fp8Flavor, OpArg, OpCall, ShapeMap, Value, case, recover};
use proptest::prelude::*;

const OPTIONS: CaseOptions = CaseOptions { fp8: Fp8Flavor::Ocp, seed: 0 };

const NAMES: &[&str] = &[
    "aten::mm",
    "aten::addmm",
    "aten::baddbmm",
    "aten::linear",
    "aten::_scaled_mm",
    "aiter::gemm_a8w8_blockscale",
    "aiter::gemm_a8w8_ck",
    "aiter::gemm_a4w4_asm",
    "aiter::hipb_mm",
    "_rocm_C::wvSplitKQ",
    "_C::cutlass_scaled_mm",
    "aiter::rms_norm",
    "aten::rms_norm",
    "aiter::add_rmsnorm_quant",
    "aiter::fused_rms_fp8_group_quant",
    "_C::rms_norm_per_block_quant",
    "vllm::rocm_aiter_rmsnorm_fp8_group_quant",
    "aten::gelu",
    "_C::silu_and_mul",
    "_C::silu_and_mul_per_block_quant",
    "aiter::act_and_mul",
    "aiter::dynamic_per_token_scaled_quant",
    "_C::per_token_group_fp8_quant",
    "aten::embedding",
    "aten::index_select",
    "aten::argmax",
    "aiter::mixed_sample_outer_exponential",
];

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..5,
        6 => prop::sample::select(vec![1u64, 16, 32, 64, 128, 256]),
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => Just(1 << 48),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        size().prop_map(|size| Value::Int(size.into())),
        any::<f64>().prop_map(Value::Float),
        any::<bool>().prop_map(Value::Bool),
        prop::collection::vec(size().prop_map(|size| Value::Int(size.into())), 0..4).prop_map(Value::List),
        prop::collection::vec(Just(Value::Text("c10::BFloat16".into())), 0..3).prop_map(Value::List),
        "\\PC{0,6}".prop_map(Value::Text),
        Just(Value::None),
    ]
}

fn arg() -> impl Strategy<Value = OpArg> {
    let dims = prop_oneof![
        1 => Just(ArgDims::None),
        6 => prop::collection::vec(size(), 0..4).prop_map(ArgDims::Tensor),
        1 => prop::collection::vec(prop::collection::vec(size(), 0..3), 0..3).prop_map(ArgDims::List),
    ];
    let types =
        ["c10::BFloat16", "float", "c10::Float8_e4m3fn", "unsigned char", "signed char", "", "Scalar", "c10::x"];
    let strides = prop::collection::vec(prop_oneof![Just(1i64), any::<i64>(), 0i64..300], 0..4);
    let concrete = prop_oneof!["[0-9.e+-]{0,8}", "\\PC{0,6}", Just("15".to_owned())];
    (dims, prop::sample::select(types.to_vec()), strides, concrete).prop_map(|(dims, dtype, strides, concrete)| OpArg {
        dims,
        dtype: dtype.to_owned(),
        strides,
        concrete,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30_000))]

    #[test]
    fn any_call_is_a_shape_an_error_or_unknown(
        name in prop::sample::select(NAMES),
        args in prop::collection::vec(arg(), 0..8),
        params in prop::collection::btree_map(
            prop::sample::select(vec!["M", "N", "K", "B", "bias", "stride_B", "dtype_A_B", "op_shape", "num_channels", "dtype_in_out"]),
            value(),
            0..10,
        ),
    ) {
        let params = params.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let op = OpCall { name: name.to_owned(), args, params, kernels: Vec::new() };
        if let Some(Ok(recovered)) = recover(&op) {
            // What is recovered is a case, or is refused with a reason; its work can be counted.
            if let Ok(case) = case(recovered.family, &recovered.shape, &recovered.dtypes, OPTIONS) {
                prop_assert!(case.work().total_bytes() > 0);
            }
        }
    }

    #[test]
    fn any_shape_is_a_case_or_an_error(
        family in prop::sample::select(vec![Family::Gemm, Family::Rmsnorm, Family::Activation, Family::Quant]),
        sizes in prop::collection::btree_map(
            prop::sample::select(vec!["m", "n", "k", "batch", "rows", "hidden", "group", "eps"]),
            size(),
            0..8,
        ),
        words in prop::collection::btree_map(
            prop::sample::select(vec!["quant", "kind", "bias", "add", "mul", "trans_a", "trans_b", "eps"]),
            prop::sample::select(vec!["true", "false", "full", "per_token", "group", "block128", "mx32", "gelu", "1e-5", "inf"]),
            0..4,
        ),
        dtypes in prop::sample::select(vec!["bf16", "fp8", "fp4", "i8", "a=bf16,b=fp8", "f64", "bf16,out=fp8", "", "e8m0"]),
    ) {
        let shape = sizes.iter().fold(ShapeMap::new(), |shape, (key, size)| shape.with(key, *size));
        let shape = words.iter().fold(shape, |shape, (key, word)| shape.with_word(key, word));
        let dtypes: Dtypes = dtypes.parse().unwrap();
        if let Ok(built) = case(family, &shape, &dtypes, OPTIONS) {
            let bytes: u128 = built.tensors().iter().map(|tensor| tensor.bytes()).sum();
            prop_assert_eq!(built.work().total_bytes(), bytes + residual_bytes(built.as_ref()));
            let again = case(family, &built.shape(), &built.dtypes(), OPTIONS).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{built:?}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn any_shape_of_table_or_logits_is_a_case_or_an_error(
        family in prop::sample::select(vec![Family::Embedding, Family::Sampling]),
        sizes in prop::collection::btree_map(
            prop::sample::select(vec!["tokens", "vocab", "hidden", "batch"]), size(), 2..5,
        ),
        words in prop::collection::btree_map(
            prop::sample::select(vec!["ids", "mode"]),
            prop::sample::select(vec!["zipf", "uniform", "greedy", "random", "mixed", "true"]),
            0..2,
        ),
        dtypes in prop::sample::select(vec!["bf16", "f32,ids=i32", "f16,out=i64", "i8", "", "bf16,ids=i8"]),
    ) {
        let shape = sizes.iter().fold(ShapeMap::new(), |shape, (key, size)| shape.with(key, *size));
        let shape = words.iter().fold(shape, |shape, (key, word)| shape.with_word(key, word));
        let dtypes: Dtypes = dtypes.parse().unwrap();
        if let Ok(built) = case(family, &shape, &dtypes, OPTIONS) {
            // At most what all tensors hold: rows of a table and noise need not all be read.
            let bytes: u128 = built.tensors().iter().map(|tensor| tensor.bytes()).sum();
            let work = built.work().total_bytes();
            prop_assert!(0 < work && work <= bytes, "{work} of {bytes}");
            let again = case(family, &built.shape(), &built.dtypes(), OPTIONS).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{built:?}"));
        }
    }
}

/// Tensors that are read and written count twice.
fn residual_bytes(case: &dyn kbench_workload::Workload) -> u128 {
    let inout = |spec: &&kbench_workload::TensorSpec| spec.role == kbench_workload::Role::InOut;
    case.tensors().iter().filter(inout).map(|spec| spec.bytes()).sum()
}
