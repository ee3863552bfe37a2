//! Reading configs: kinds of layers, defaults, and errors.

use super::*;
use kbench_workload::{Dtype, DtypeTag};

#[test]
fn every_config_reads_and_every_layer_has_its_kind() {
    for (name, _) in CONFIGS {
        let model = model(name);
        let serving = Serving::default();
        for label in ["decode[bs=16 tok=16 d=16]", "prefill[bs=1 tok=512 ctx=512]"] {
            assert!(!model.step_shapes(&step(label), &serving).unwrap().expected.is_empty(), "{name}");
        }
    }
    let kinds = |name| -> Vec<String> {
        let model = model(name);
        let kind = |layer: &Layer| match &layer.attention {
            Attention::Gqa(gqa) => format!("{:?}", gqa.mask),
            Attention::Mla(mla) => format!("latent {:?}", mla.mask),
            Attention::Linear(_) => "linear".to_owned(),
        };
        model.layers[..4].iter().map(kind).collect()
    };
    assert_eq!(kinds("gpt-oss-20b"), ["Window(128)", "Full", "Window(128)", "Full"]);
    assert_eq!(kinds("gpt-oss-120b"), ["Window(128)", "Full", "Window(128)", "Full"]);
    assert_eq!(kinds("qwen3-next-80b"), ["linear", "linear", "linear", "Full"]);
    assert_eq!(kinds("llama-4-maverick"), ["Chunk(8192)", "Chunk(8192)", "Chunk(8192)", "Full"]);
    assert_eq!(kinds("deepseek-v3"), ["latent Full"; 4]);
}

#[test]
fn windows_follow_the_rule_of_each_architecture() {
    let windowed = |model: Model| -> Vec<usize> {
        let is_window =
            |layer: &Layer| matches!(&layer.attention, Attention::Gqa(gqa) if matches!(gqa.mask, Mask::Window(_)));
        model.layers.iter().enumerate().filter(|(_, layer)| is_window(layer)).map(|(index, _)| index).collect()
    };
    let gemma = r#"{"architectures":["Gemma3ForCausalLM"],"num_hidden_layers":12,"hidden_size":64,"num_attention_heads":4,
        "num_key_value_heads":2,"head_dim":16,"intermediate_size":96,"vocab_size":1000,"sliding_window":512,
        "hidden_activation":"gelu_pytorch_tanh"}"#;
    let gemma = Model::from_json(gemma).unwrap();
    assert_eq!(gemma.activation, "gelu_tanh");
    let shapes = gemma.step_shapes(&step("decode[bs=2 tok=2 d=2]"), &Serving::default()).unwrap();
    assert_eq!(
        lines(&shapes, Family::Rmsnorm),
        [
            "final_norm 1 rows=2,hidden=64",
            "input_layernorm 12 rows=2,hidden=64",
            "k_norm 10 rows=4,hidden=16",
            "k_norm 2 rows=4,hidden=16",
            "post_attention_layernorm 12 rows=2,hidden=64",
            "post_feedforward_layernorm 12 rows=2,hidden=64",
            "pre_feedforward_layernorm 12 rows=2,hidden=64",
            "q_norm 10 rows=8,hidden=16",
            "q_norm 2 rows=8,hidden=16",
        ]
    );
    assert_eq!(windowed(gemma), [0, 1, 2, 3, 4, 6, 7, 8, 9, 10], "every sixth layer is full");
    assert_eq!(windowed(changed("mixtral-8x7b", "sliding_window", "4096").unwrap()).len(), 32);
    let mut qwen: serde_json::Value = serde_json::from_str(text("qwen3-8b")).unwrap();
    qwen["use_sliding_window"] = true.into();
    qwen["sliding_window"] = 4096.into();
    assert_eq!(windowed(Model::from_json(&qwen.to_string()).unwrap()), [28, 29, 30, 31, 32, 33, 34, 35]);
    qwen["max_window_layers"] = 35.into();
    assert_eq!(windowed(Model::from_json(&qwen.to_string()).unwrap()), [35]);
}

#[test]
fn sparse_attention_is_capped_per_query() {
    let mut json: serde_json::Value = serde_json::from_str(text("deepseek-v3")).unwrap();
    (json["index_topk"], json["index_n_heads"], json["index_head_dim"]) = (2048.into(), 64.into(), 128.into());
    json["architectures"] = serde_json::json!(["DeepseekV32ForCausalLM"]);
    let sparse = Model::from_json(&json.to_string()).unwrap();
    let serving = Serving::new(8, 1).unwrap();
    // Two sequences of 3 and 6 thousand keys: min(3000, 2048) + min(6000, 2048) pairs of 9000.
    let decode = step("eager_decode[bs=2 tok=2 ctx=[3000, 6000]]");
    let found = sparse.step_shapes(&decode, &serving).unwrap();
    let work = &found.attention[0];
    assert_eq!((work.kind.as_str(), work.layers), ("topk 2048", Some(61)));
    assert_eq!((work.pairs, work.keys, work.nkv), (Count::Exact(4096), Count::Exact(4096), Count::Exact(9000)));
    assert_eq!(role(&found, "mla").shape.int("topk"), Ok(Some(2048)));
    assert_eq!(role(&found, "indexer_q_proj").shape.int("n"), Ok(Some(64 * 128)));
    // Dense sums alone would have counted 9000: the caveat is told.
    assert!(found.notes.iter().any(|note| note.contains("dense attention")));
    json["index_n_heads"] = serde_json::Value::Null;
    assert!(Model::from_json(&json.to_string()).unwrap_err().to_string().contains("`index_n_heads`"));
}

#[test]
fn linear_layers_have_no_pairs() {
    let label = "decode[bs=4 tok=4 d=4 sqsq=4 sqsk=4000 sk=4000]";
    let found = shapes("qwen3-next-80b", label, 2, 1);
    let work: Vec<(&str, Option<u64>, Count)> =
        found.attention.iter().map(|work| (work.kind.as_str(), work.layers, work.pairs)).collect();
    assert_eq!(work, [("linear", Some(36), Count::Exact(0)), ("full", Some(12), Count::Exact(4000))]);
    // Queries with their gate: (2·8 + 2·1)·256; keys and values of 8 and 16 heads of 128: 2·(1024 + 2048).
    assert_eq!(role(&found, "qkv_proj").shape, shape("m=4,n=4608,k=2048"));
    assert_eq!(role(&found, "in_proj_qkvz").shape, shape("m=4,n=6144,k=2048"));
    assert_eq!(role(&found, "in_proj_ba").shape, shape("m=4,n=32,k=2048"));
    assert_eq!(role(&found, "out_proj").shape, shape("m=4,n=2048,k=2048"));
    assert_eq!(role(&found, "gated_delta_net").family, Family::LinearAttention);
}

#[test]
fn a_padded_replay_runs_the_graph_s_rows_but_the_real_attention() {
    let found = shapes("qwen3-8b", "decode[bs=117/128 tok=468 d=117 spec=3 sqsq=1872 sqsk=400000 sk=100000]", 1, 1);
    assert_eq!(role(&found, "qkv_proj").shape.int("m"), Ok(Some(512)));
    let attention = role(&found, "paged_attention");
    assert_eq!(attention.shape.int("batch"), Ok(Some(117)));
    assert_eq!(attention.shape.int("q_len"), Ok(Some(4)));
    // Σ N_Q·N_KV − Σ N_Q(N_Q−1)/2 = 400,000 − 117·6.
    assert_eq!(found.attention[0].pairs, Count::Exact(399_298));
    let heads: Vec<u64> = found
        .expected
        .iter()
        .filter(|expected| expected.role == "lm_head")
        .map(|expected| expected.shape.int("m").unwrap().unwrap())
        .collect();
    assert_eq!(heads, [512, 468]);
}

#[test]
fn what_a_label_lacks_is_named_not_guessed() {
    let native = shapes("qwen3-8b", "step[DECODE bs=64]", 1, 1);
    let attention = role(&native, "paged_attention");
    assert_eq!(attention.missing, ["ctx"]);
    assert!(attention.shape.get("ctx").is_none() && attention.shape.get("ctx_total").is_none());
    assert!(role(&native, "qkv_proj").assumed.iter().any(|text| text.contains("one token a sequence")));
    assert_eq!(native.attention[0].pairs, Count::Unknown);
    let nothing = shapes("qwen3-8b", "execute_diffusion_1_256x256", 1, 1);
    assert!(nothing.expected.is_empty() && !nothing.notes.is_empty());
    let overlap = shapes("qwen3-8b", "decode[bs=64 tok=64 d=64 tbo=1]", 1, 1);
    assert!(overlap.expected.iter().all(|expected| !expected.is_complete()));
    // Prompts among decode tokens, with sums of both together: work of full attention is exact all the same.
    let mixed = shapes("qwen3-8b", "decode[bs=4 tok=13 p=1 d=3 sqsq=103 sqsk=1060 sk=160]", 1, 1);
    assert_eq!(mixed.attention.len(), 1);
    assert_eq!(mixed.attention[0].pairs, Count::Exact(1060 - (103 - 13) / 2));
    assert!(role(&mixed, "paged_attention").missing.contains(&"ctx"));
}

#[test]
fn quantisation_sets_dtypes_of_the_gemms_it_covers() {
    let found = shapes("deepseek-v3", "decode[bs=16 tok=16 d=16]", 8, 1);
    let fp8 = role(&found, "o_proj");
    assert_eq!(fp8.dtypes.get("a"), Some(DtypeTag::Fp8));
    assert_eq!(fp8.dtypes.get("out"), Some(Dtype::Bf16.into()));
    assert_eq!(fp8.shape.word("quant"), Ok(Some("block128")));
    for kept in ["router", "lm_head", "q_absorb"] {
        assert_eq!(role(&found, kept).dtypes.get("b"), Some(Dtype::Bf16.into()), "{kept}");
    }
    let coarse = changed("deepseek-v3", "quantization_config", r#"{"quant_method":"fp8"}"#).unwrap();
    let coarse = coarse.step_shapes(&step("decode[bs=16 tok=16 d=16]"), &Serving::default()).unwrap();
    assert_eq!(role(&coarse, "o_proj").missing, ["quant"]);
    let other = changed("deepseek-v3", "quantization_config", r#"{"quant_method":"quark"}"#).unwrap();
    assert_eq!(other.quant, Quant::Other("quark".to_owned()));
    let other = other.step_shapes(&step("decode[bs=16 tok=16 d=16]"), &Serving::default()).unwrap();
    assert!(role(&other, "moe_gate_up").missing.contains(&"dtypes"));
    assert!(role(&other, "lm_head").is_complete());
}

#[test]
fn documented_defaults_are_listed() {
    let llama = changed("llama-3-8b", "num_key_value_heads", "null").unwrap();
    let Attention::Gqa(gqa) = &llama.layers[0].attention else { panic!("grouped-query attention") };
    assert_eq!((gqa.kv_heads, gqa.head_dim), (32, 128));
    assert_eq!(llama.assumed.len(), 2, "{:?}", llama.assumed);
    let untyped = changed("llama-3-8b", "torch_dtype", "null").unwrap();
    assert_eq!(untyped.dtype, Dtype::Bf16.into());
    assert!(untyped.assumed.iter().any(|text| text.contains("torch_dtype")));
}

#[test]
fn errors_name_the_key_and_the_way_out() {
    for (name, key, value, part) in [
        ("qwen3-8b", "architectures", r#"["KimiK3ForCausalLM"]"#, "`KimiK3ForCausalLM` is not known"),
        ("qwen3-8b", "architectures", "null", "`` is not known"),
        ("qwen3-8b", "hidden_size", "null", "lacks `hidden_size`"),
        ("qwen3-8b", "hidden_size", "0", "`hidden_size` of the model config is 0"),
        ("qwen3-8b", "hidden_size", "\"4096\"", "a whole number"),
        ("qwen3-8b", "num_hidden_layers", "1e6", "`num_hidden_layers`"),
        ("qwen3-8b", "num_hidden_layers", "100000", "at most 4096"),
        ("qwen3-8b", "num_key_value_heads", "5", "must divide"),
        ("qwen3-8b", "layer_types", r#"["full_attention"]"#, "one entry for each of the 36 layers"),
        ("qwen3-8b", "hidden_act", "\"relu2\"", "`hidden_act`"),
        ("qwen3-8b", "torch_dtype", "\"float128\"", "`torch_dtype`"),
        ("gpt-oss-120b", "sliding_window", "null", "lacks `sliding_window`"),
        ("mixtral-8x7b", "num_experts_per_tok", "9", "more than the 8 experts"),
        ("deepseek-v3", "first_k_dense_replace", "null", "lacks `first_k_dense_replace`"),
        ("qwen3-next-80b", "linear_key_head_dim", "null", "lacks `linear_key_head_dim`"),
        ("minimax-m2", "num_local_experts", "null", "routed experts"),
    ] {
        let error = changed(name, key, value).unwrap_err().to_string();
        assert!(error.contains(part), "{name} {key}={value}: {error}");
    }
    for text in ["", "[]", "{", "3", "null"] {
        assert!(matches!(Model::from_json(text), Err(ModelError::Json { .. })), "{text}");
    }
    let missing = Model::read(std::path::Path::new("no/such/config.json")).unwrap_err().to_string();
    assert!(missing.contains("no/such/config.json"), "{missing}");
}

#[test]
fn a_split_that_does_not_divide_is_refused() {
    for (tp, ep, part) in [(0, 1, "from 1"), (1, 0, "from 1"), (3, 2, "divide the other"), (1 << 20, 1, "from 1")] {
        let error = Serving::new(tp, ep).unwrap_err().to_string();
        assert!(error.contains(part), "{tp} {ep}: {error}");
    }
    let decode = step("decode[bs=16 tok=16 d=16]");
    for (name, tp, part) in
        [("qwen3-8b", 3, "query heads 32"), ("minimax-m2", 6, "key/value heads"), ("qwen3-8b", 64, "query heads 32")]
    {
        let error = model(name).step_shapes(&decode, &Serving::new(tp, 1).unwrap()).unwrap_err().to_string();
        assert!(error.contains(part), "{name} tp={tp}: {error}");
    }
}
