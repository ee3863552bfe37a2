//! Whatever a profile says of an attention or MoE operator: an answer or an error, never a panic, and what is recovered without
//! an error builds a case or says why not.

use kbench_workload::{ArgDims, CaseOptions, Fp8Flavor, OpArg, OpCall, Value, case, recover};
use proptest::prelude::*;

const NAMES: &[&str] = &[
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_flash_attention_forward",
    "flash_attn::_flash_attn_varlen_forward",
    "aiter::mha_varlen_fwd",
    "aiter::mha_batch_prefill",
    "sglang_profiler::mha__mha_batch_prefill_167",
    "vllm::unified_attention_with_output",
    "sglang_profiler::attention_paged_attention_ragged_100",
    "_rocm_C::paged_attention",
    "aiter::pa_fwd_asm",
    "pseudo_op::moe_triton_unfused_up",
    "pseudo_op::moe_aiter_fused_1stage",
    "aiter::fmoe_fp8_blockscale_g1u1",
    "aiter::ck_moe_stage1",
    "aiter::ck_moe_stage2",
    "vllm::outplace_fused_experts",
];

const PARAMS: &[&str] = &[
    "B",
    "N_Q",
    "H_Q",
    "N_KV",
    "H_KV",
    "d_h_qk",
    "d_h_v",
    "c_sq",
    "c_sk",
    "c_sqsq",
    "c_sqsk",
    "g_sq",
    "g_sk",
    "g_sqsq",
    "g_sqsk",
    "sliding_window",
    "num_tokens",
    "hidden_dim",
    "inter_dim",
    "num_experts",
    "topk",
];

/// Few small sizes, so that dims often agree, and the ends of the range.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![4 => prop_oneof![Just(1u64), Just(2), Just(8), Just(64)], 1 => 0u64..200, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn argument() -> impl Strategy<Value = OpArg> {
    let dims = prop_oneof![
        1 => Just(ArgDims::None),
        3 => prop::collection::vec(size(), 0..6).prop_map(ArgDims::Tensor)
    ];
    let dtype = prop_oneof![
        4 => Just("c10::BFloat16"), 1 => Just("c10::Float8_e4m3fnuz"), 1 => Just("unsigned char"), 1 => Just("Scalar"), 1 => Just("?")
    ];
    let concrete = prop_oneof![
        Just(String::new()),
        Just("True".to_owned()),
        Just("fp8".to_owned()),
        size().prop_map(|size| size.to_string()),
        any::<i64>().prop_map(|number| number.to_string())
    ];
    (dims, dtype, prop::collection::vec(any::<i64>(), 0..5), concrete)
        .prop_map(|(dims, dtype, strides, concrete)| OpArg { dims, dtype: dtype.to_owned(), strides, concrete })
}

fn call() -> impl Strategy<Value = OpCall> {
    let number = prop_oneof![4 => size().prop_map(|size| Value::Int(i128::from(size))), 1 => any::<i64>().prop_map(|n| Value::Int(n.into()))];
    let params = prop::collection::btree_map(prop::sample::select(PARAMS), number, 0..PARAMS.len());
    let args = prop_oneof![1 => Just(Vec::new()), 5 => prop::collection::vec(argument(), 0..15)];
    (prop::sample::select(NAMES), args, params, any::<bool>()).prop_map(|(name, args, params, flags)| {
        let mut op = OpCall { name: name.to_owned(), args, ..OpCall::default() };
        op.params.extend(params.into_iter().map(|(key, value)| (key.to_owned(), value)));
        if flags {
            for (key, value) in [
                ("causal", Value::Bool(true)),
                ("gated", Value::Bool(true)),
                ("dtype_Q", Value::Text("c10::BFloat16".into())),
                ("dtype_A_B", Value::List(vec![Value::Text("c10::Half".into())])),
                ("input_dtype", Value::Text("c10::BFloat16".into())),
                ("weight_dtype", Value::Text("FP4".into())),
            ] {
                op.params.insert(key.to_owned(), value);
            }
        }
        op
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_call_is_recovered_or_refused(op in call()) {
        if let Some(Ok(found)) = recover(&op) {
            let options = CaseOptions { fp8: Fp8Flavor::Ocp, seed: 1 };
            // A routing of millions of tokens takes a second to draw: what is built here stays small.
            let large = found.shape.iter().any(|(_, value)| value.to_string().len() > 6);
            if !large && let Ok(case) = case(found.family, &found.shape, &found.dtypes, options) {
                prop_assert!(case.work().total_bytes() > 0);
                prop_assert!(!case.tensors().is_empty());
            }
        }
    }
}
