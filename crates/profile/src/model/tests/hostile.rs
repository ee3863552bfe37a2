//! Configs with keys replaced by anything, served anyhow, for any label: errors, never a panic.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

const KEYS: &[&str] = &[
    "architectures",
    "attention_bias",
    "attention_chunk_size",
    "attn_type_list",
    "decoder_sparse_step",
    "dtype",
    "first_k_dense_replace",
    "full_attention_interval",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "index_head_dim",
    "index_n_heads",
    "index_topk",
    "interleave_moe_layer_step",
    "intermediate_size",
    "intermediate_size_mlp",
    "kv_lora_rank",
    "layer_types",
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_value_head_dim",
    "max_window_layers",
    "mlp_only_layers",
    "model_type",
    "moe_intermediate_size",
    "moe_layer_freq",
    "moe_layers",
    "n_routed_experts",
    "n_shared_experts",
    "no_rope_layers",
    "num_attention_heads",
    "num_experts",
    "num_experts_per_tok",
    "num_hidden_layers",
    "num_key_value_heads",
    "num_local_experts",
    "num_nextn_predict_layers",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "quantization_config",
    "shared_expert_intermediate_size",
    "sliding_window",
    "sliding_window_pattern",
    "text_config",
    "torch_dtype",
    "use_sliding_window",
    "v_head_dim",
    "vocab_size",
];

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0u64..20).prop_map(Value::from),
        prop::sample::select(vec![1u64 << 20, 1 << 28, u64::MAX]).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
        Just(json!([])),
        Just(json!([1, 2, 3])),
        Just(Value::from(vec!["sliding_attention"; 48])),
        Just(json!({"quant_method": "fp8", "weight_block_size": [128]})),
        Just(json!({"quant_method": 3})),
        "[a-z_]{0,12}".prop_map(Value::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_change_gives_shapes_or_an_error(
        config in prop::sample::select(CONFIGS.to_vec()),
        changes in prop::collection::vec((prop::sample::select(KEYS.to_vec()), value()), 0..4),
        (tp, ep) in prop::sample::select(vec![(1u64, 1u64), (8, 1), (8, 8), (2, 16), (64, 4)]),
        batch in prop_oneof![1u64..300, Just(u64::MAX)],
        tokens in prop_oneof![1u64..3000, Just(u64::MAX)],
        sums in any::<[u128; 3]>(),
        kind in prop::sample::select(vec!["decode", "prefill", "eager_decode"]),
    ) {
        let mut json: Value = serde_json::from_str(config.1).unwrap();
        for (key, value) in changes {
            json[key] = value;
        }
        if let Ok(model) = Model::from_json(&json.to_string()) {
            let [nq2, nq_nkv, nkv] = sums;
            let label = format!("{kind}[bs={batch} tok={tokens} p=1 sqsq={nq2} sqsk={nq_nkv} sk={nkv}]");
            let _ = model.step_shapes(&step(&label), &Serving::new(tp, ep).unwrap());
        }
    }

    #[test]
    fn any_text_is_a_model_or_an_error(text in "\\PC{0,200}") {
        let _ = Model::from_json(&text);
    }
}
