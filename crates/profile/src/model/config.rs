//! From `config.json` to a [`Model`].

use super::keys::{Keys, invalid};
use super::{Attention, Gqa, Indexer, Layer, Linear, Mask, Mla, Mlp, Model, ModelError, Moe, NormStyle, QkNorm, Quant};
use kbench_workload::{Dtype, DtypeTag};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// No config of a model is larger; a trace given by mistake is.
const LARGEST_FILE: u64 = 16 << 20;
/// No model has more layers.
const MOST_LAYERS: u64 = 4096;

/// What makes an architecture different from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Llama, Mistral: no biases unless the config says so.
    Llama,
    /// Qwen2: biased query, key and value projections.
    Qwen2,
    /// Qwen3: norms of queries and keys per head.
    Qwen3,
    /// Gemma 2.
    Gemma2,
    /// Gemma 3.
    Gemma3,
    Mixtral,
    Qwen2Moe,
    Qwen3Moe,
    Qwen3Next,
    Glm4Moe,
    MiniMaxM2,
    GptOss,
    Llama4,
    /// DeepSeek V2 and V3, Kimi-K2; with an indexer V3.2 and GLM-5.
    Deepseek,
}

/// Architectures by the names that configs have for them.
pub(super) const ARCHITECTURES: &[(&[&str], Kind)] = &[
    (&["LlamaForCausalLM", "MistralForCausalLM"], Kind::Llama),
    (&["Qwen2ForCausalLM"], Kind::Qwen2),
    (&["Qwen3ForCausalLM"], Kind::Qwen3),
    (&["Gemma2ForCausalLM"], Kind::Gemma2),
    (&["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"], Kind::Gemma3),
    (&["MixtralForCausalLM"], Kind::Mixtral),
    (&["Qwen2MoeForCausalLM"], Kind::Qwen2Moe),
    (&["Qwen3MoeForCausalLM"], Kind::Qwen3Moe),
    (&["Qwen3NextForCausalLM"], Kind::Qwen3Next),
    (&["Glm4MoeForCausalLM"], Kind::Glm4Moe),
    (&["MiniMaxM2ForCausalLM"], Kind::MiniMaxM2),
    (&["GptOssForCausalLM"], Kind::GptOss),
    (&["Llama4ForCausalLM", "Llama4ForConditionalGeneration"], Kind::Llama4),
    (
        &[
            "DeepseekV2ForCausalLM",
            "DeepseekV3ForCausalLM",
            "DeepseekV32ForCausalLM",
            "KimiK2ForCausalLM",
            "KimiK25ForConditionalGeneration",
            "GlmMoeDsaForCausalLM",
        ],
        Kind::Deepseek,
    ),
];

impl Model {
    /// Reads a config file.
    ///
    /// # Errors
    /// When the file cannot be read, is no config, or describes a model that kbench does not know.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let name = || path.display().to_string();
        let fail = |source| ModelError::Read { path: name(), source };
        let mut text = Vec::new();
        File::open(path).map_err(fail)?.take(LARGEST_FILE + 1).read_to_end(&mut text).map_err(fail)?;
        if text.len() as u64 > LARGEST_FILE {
            return Err(ModelError::TooLarge { path: name(), limit: LARGEST_FILE });
        }
        Self::from_json(&String::from_utf8_lossy(&text))
    }

    /// Parses the text of a config. A config that nests the text model (`text_config`) is read through.
    ///
    /// # Errors
    /// When the text is no JSON object, the architecture is not known, or a key is missing or cannot be.
    pub fn from_json(text: &str) -> Result<Self, ModelError> {
        let json = |reason: String| ModelError::Json { reason };
        let value: Value = serde_json::from_str(text).map_err(|error| json(error.to_string()))?;
        let whole = value.as_object().ok_or_else(|| json("it is JSON of another kind".to_owned()))?;
        let mut keys = Keys::new(whole);
        let (name, kind) = architecture(&keys)?;
        keys.architecture = name;
        build(&keys, kind)
    }
}

/// The name of the architecture and what it is; the text model's own name is tried after the whole's.
fn architecture(keys: &Keys<'_>) -> Result<(String, Kind), ModelError> {
    let named = keys.get("architectures").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let names: Vec<&str> = named.chain(keys.text("model_type")?).collect();
    let known = |name: &&str| ARCHITECTURES.iter().find(|(known, _)| known.contains(name)).map(|(_, kind)| *kind);
    match names.iter().find_map(|name| known(name).map(|kind| ((*name).to_owned(), kind))) {
        Some(found) => Ok(found),
        None => Err(ModelError::UnknownArchitecture {
            name: names.first().copied().unwrap_or_default().to_owned(),
            known: super::known_architectures().collect::<Vec<_>>().join(", "),
        }),
    }
}

fn build(keys: &Keys<'_>, kind: Kind) -> Result<Model, ModelError> {
    let mut assumed = Vec::new();
    let count = keys.need("num_hidden_layers", "layers")?;
    if count > MOST_LAYERS {
        return Err(ModelError::Invalid {
            key: "num_hidden_layers".to_owned(),
            found: count.to_string(),
            reason: format!("at most {MOST_LAYERS} layers are possible"),
        });
    }
    let hidden = keys.need("hidden_size", "width of the residual stream")?;
    let vocab = keys.wide("vocab_size")?.ok_or_else(|| keys.missing("vocab_size", "entries of the vocabulary"))?;
    let attentions = attentions(keys, kind, count, hidden, &mut assumed)?;
    let mlps = (0..count).map(|layer| mlp(keys, kind, layer)).collect::<Result<Vec<_>, _>>()?;
    if let Some(extra) = keys.number("num_nextn_predict_layers")?.filter(|extra| *extra > 0) {
        assumed.push(format!("{extra} multi-token-prediction layers belong to the drafter, not to the step"));
    }
    Ok(Model {
        architecture: keys.architecture.clone(),
        hidden,
        vocab,
        dtype: dtype(keys, &mut assumed)?,
        quant: Quant::parse(keys)?,
        activation: activation(keys)?,
        norms: if matches!(kind, Kind::Gemma2 | Kind::Gemma3) { NormStyle::Sandwich } else { NormStyle::Pre },
        layers: attentions.into_iter().zip(mlps).map(|(attention, mlp)| Layer { attention, mlp }).collect(),
        assumed,
    })
}

fn dtype(keys: &Keys<'_>, assumed: &mut Vec<String>) -> Result<DtypeTag, ModelError> {
    let name = match keys.text("torch_dtype")? {
        Some(name) => Some(name),
        None => keys.text("dtype")?,
    };
    let Some(name) = name else {
        assumed.push("the config names no torch_dtype: bf16, as serving engines take it".to_owned());
        return Ok(DtypeTag::Exact(Dtype::Bf16));
    };
    name.parse().map_err(|error: kbench_workload::ShapeError| ModelError::Invalid {
        key: "torch_dtype".to_owned(),
        found: name.to_owned(),
        reason: error.to_string(),
    })
}

fn activation(keys: &Keys<'_>) -> Result<&'static str, ModelError> {
    let key = if keys.get("hidden_activation").is_some() { "hidden_activation" } else { "hidden_act" };
    match keys.text(key)? {
        None | Some("silu" | "swish") => Ok("silu"),
        Some("gelu") => Ok("gelu"),
        Some("gelu_pytorch_tanh" | "gelu_new" | "gelu_fast") => Ok("gelu_tanh"),
        Some(other) => Err(ModelError::Invalid {
            key: key.to_owned(),
            found: other.to_owned(),
            reason: "known are silu, gelu and gelu_pytorch_tanh".to_owned(),
        }),
    }
}

fn attentions(
    keys: &Keys<'_>,
    kind: Kind,
    layers: u64,
    hidden: u64,
    assumed: &mut Vec<String>,
) -> Result<Vec<Attention>, ModelError> {
    if kind == Kind::Deepseek {
        let mla = Attention::Mla(mla(keys)?);
        return Ok(vec![mla; layers as usize]);
    }
    let gqa = gqa(keys, kind, hidden, assumed)?;
    let masks = masks(keys, kind, layers)?;
    masks
        .into_iter()
        .map(|mask| match mask {
            Some(mask) => Ok(Attention::Gqa(Gqa { mask, ..gqa.clone() })),
            None => linear(keys).map(Attention::Linear),
        })
        .collect()
}

fn gqa(keys: &Keys<'_>, kind: Kind, hidden: u64, assumed: &mut Vec<String>) -> Result<Gqa, ModelError> {
    let heads = keys.need("num_attention_heads", "query heads")?;
    let kv_heads = match keys.size("num_key_value_heads")? {
        Some(kv_heads) => kv_heads,
        None => {
            assumed.push("no num_key_value_heads: as many as query heads".to_owned());
            heads
        }
    };
    if !heads.is_multiple_of(kv_heads) {
        return Err(ModelError::Invalid {
            key: "num_key_value_heads".to_owned(),
            found: kv_heads.to_string(),
            reason: format!("it must divide the {heads} query heads"),
        });
    }
    let head_dim = match keys.size("head_dim")? {
        Some(head_dim) => head_dim,
        None if hidden.is_multiple_of(heads) => {
            assumed.push("no head_dim: hidden_size / num_attention_heads".to_owned());
            hidden / heads
        }
        None => return Err(keys.missing("head_dim", "elements of a head; hidden_size is no multiple of the heads")),
    };
    let bias = keys.flag("attention_bias")?;
    let (qkv_bias, out_bias) = match kind {
        Kind::Qwen2 | Kind::Qwen2Moe => (keys.flag("qkv_bias")?.unwrap_or(true), false),
        Kind::GptOss => (bias.unwrap_or(true), bias.unwrap_or(true)),
        Kind::Glm4Moe => (bias.unwrap_or(false), false),
        _ => (bias.unwrap_or(false), bias.unwrap_or(false)),
    };
    let qk_norm = match kind {
        Kind::Qwen3 | Kind::Qwen3Moe | Kind::Qwen3Next | Kind::Gemma3 => QkNorm::PerHead,
        Kind::Glm4Moe if keys.flag("use_qk_norm")?.unwrap_or(false) => QkNorm::PerHead,
        Kind::MiniMaxM2 if keys.flag("use_qk_norm")?.unwrap_or(true) => QkNorm::AllHeads,
        _ => QkNorm::No,
    };
    let gate = kind == Kind::Qwen3Next && keys.flag("attn_output_gate")?.unwrap_or(true);
    Ok(Gqa { heads, kv_heads, head_dim, v_head_dim: head_dim, qkv_bias, out_bias, qk_norm, gate, mask: Mask::Full })
}

fn mla(keys: &Keys<'_>) -> Result<Mla, ModelError> {
    let topk = keys.size("index_topk")?;
    let indexer = match topk {
        Some(_) => Some(Indexer {
            heads: keys.need("index_n_heads", "heads of the sparse indexer")?,
            head_dim: keys.need("index_head_dim", "elements of an indexer head")?,
        }),
        None => None,
    };
    Ok(Mla {
        heads: keys.need("num_attention_heads", "query heads")?,
        q_lora: keys.size("q_lora_rank")?,
        kv_lora: keys.need("kv_lora_rank", "rank of the key/value latent")?,
        rope: keys.need("qk_rope_head_dim", "rotary elements of a head")?,
        nope: keys.need("qk_nope_head_dim", "non-rotary elements of a head")?,
        v_head_dim: keys.need("v_head_dim", "elements of a value")?,
        indexer,
        mask: topk.map_or(Mask::Full, Mask::TopK),
    })
}

fn linear(keys: &Keys<'_>) -> Result<Linear, ModelError> {
    Ok(Linear {
        k_heads: keys.need("linear_num_key_heads", "key heads of linear attention")?,
        v_heads: keys.need("linear_num_value_heads", "value heads of linear attention")?,
        k_dim: keys.need("linear_key_head_dim", "elements of a linear-attention key")?,
        v_dim: keys.need("linear_value_head_dim", "elements of a linear-attention value")?,
        conv: keys.need("linear_conv_kernel_dim", "width of the causal convolution")?,
    })
}

/// The mask of each layer; `None` for linear attention. `layer_types` decides where it is given, else the rule that
/// Hugging Face's config class of the architecture documents.
fn masks(keys: &Keys<'_>, kind: Kind, layers: u64) -> Result<Vec<Option<Mask>>, ModelError> {
    if let Some(types) = keys.per_layer("layer_types", layers as usize)? {
        return types.iter().map(|name| mask_named(keys, name)).collect();
    }
    if let Some(types) = keys.per_layer("attn_type_list", layers as usize)?
        && types.iter().any(|code| code.as_u64() != Some(1))
    {
        let reason = "only full attention (1) is known for it: sizes of lightning attention are not in the config";
        return Err(invalid("attn_type_list", &Value::Array(types.to_vec()), reason));
    }
    let every = |key: &str, default: u64| Ok::<u64, ModelError>(keys.size(key)?.unwrap_or(default));
    let windowed: Box<dyn Fn(u64) -> bool> = match kind {
        Kind::Qwen3Next => {
            let interval = every("full_attention_interval", 4)?;
            return Ok((0..layers).map(|layer| (layer + 1).is_multiple_of(interval).then_some(Mask::Full)).collect());
        }
        Kind::Llama4 => {
            let chunk = keys.size("attention_chunk_size")?;
            let rotary = keys.numbers("no_rope_layers")?.filter(|list| list.len() as u64 == layers);
            let interval = every("no_rope_layer_interval", 4)?;
            let chunked = |layer: u64| match &rotary {
                Some(list) => list[layer as usize] != 0,
                None => !(layer + 1).is_multiple_of(interval),
            };
            let mask = |layer| chunk.filter(|_| chunked(layer)).map_or(Mask::Full, Mask::Chunk);
            return Ok((0..layers).map(|layer| Some(mask(layer))).collect());
        }
        Kind::GptOss | Kind::Gemma2 => Box::new(|layer| layer.is_multiple_of(2)),
        Kind::Gemma3 => {
            let pattern = every("sliding_window_pattern", 6)?;
            Box::new(move |layer| !(layer + 1).is_multiple_of(pattern))
        }
        Kind::Qwen2 | Kind::Qwen3 | Kind::Qwen2Moe | Kind::Qwen3Moe => {
            let used = keys.flag("use_sliding_window")?.unwrap_or(false);
            let from = keys.number("max_window_layers")?.unwrap_or(28);
            Box::new(move |layer| used && layer >= from)
        }
        Kind::Llama | Kind::Mixtral => {
            let used = keys.get("sliding_window").is_some();
            Box::new(move |_| used)
        }
        Kind::Glm4Moe | Kind::MiniMaxM2 | Kind::Deepseek => Box::new(|_| false),
    };
    (0..layers).map(|layer| if windowed(layer) { window(keys).map(Some) } else { Ok(Some(Mask::Full)) }).collect()
}

fn window(keys: &Keys<'_>) -> Result<Mask, ModelError> {
    keys.need("sliding_window", "keys that a sliding-window layer sees").map(Mask::Window)
}

fn mask_named(keys: &Keys<'_>, name: &Value) -> Result<Option<Mask>, ModelError> {
    match name.as_str() {
        Some("full_attention" | "attention") => Ok(Some(Mask::Full)),
        Some("sliding_attention" | "sliding_window") => window(keys).map(Some),
        Some("chunked_attention") => {
            keys.need("attention_chunk_size", "positions of an attention chunk").map(|chunk| Some(Mask::Chunk(chunk)))
        }
        Some("linear_attention") => Ok(None),
        _ => Err(invalid("layer_types", name, "known are full_, sliding_, chunked_ and linear_attention")),
    }
}

fn dense(keys: &Keys<'_>, key: &'static str) -> Result<Mlp, ModelError> {
    let bias = keys.flag("mlp_bias")?.unwrap_or(false);
    Ok(Mlp::Dense { inter: keys.need(key, "width of the MLP")?, bias })
}

/// The MLP of a layer.
fn mlp(keys: &Keys<'_>, kind: Kind, layer: u64) -> Result<Mlp, ModelError> {
    let plain = Moe {
        experts: 0,
        topk: 0,
        inter: 0,
        shared_inter: None,
        shared_gate: false,
        router_bias: false,
        expert_bias: false,
    };
    let topk =
        || keys.need_any(&["num_experts_per_tok", "experts_per_token", "moe_topk"], "experts a token is routed to");
    let experts = || keys.need_any(&["num_experts", "num_local_experts", "n_routed_experts"], "routed experts");
    let shared_of = |width: u64| Ok(keys.number("n_shared_experts")?.filter(|n| *n > 0).map(|n| n * width));
    let moe = match kind {
        Kind::Llama | Kind::Qwen2 | Kind::Qwen3 | Kind::Gemma2 | Kind::Gemma3 => {
            return dense(keys, "intermediate_size");
        }
        Kind::Mixtral | Kind::MiniMaxM2 => {
            let inter = keys.need("intermediate_size", "width of an expert")?;
            let shared_inter = keys.number("shared_intermediate_size")?.filter(|width| *width > 0);
            Moe { experts: experts()?, topk: topk()?, inter, shared_inter, ..plain }
        }
        Kind::GptOss => {
            let inter = keys.need("intermediate_size", "width of an expert")?;
            Moe { experts: experts()?, topk: topk()?, inter, router_bias: true, expert_bias: true, ..plain }
        }
        Kind::Qwen2Moe | Kind::Qwen3Moe | Kind::Qwen3Next => {
            let step = keys.number("decoder_sparse_step")?.unwrap_or(1);
            let dense_only = keys.numbers("mlp_only_layers")?.unwrap_or_default();
            if step == 0 || dense_only.contains(&layer) || !(layer + 1).is_multiple_of(step) {
                return dense(keys, "intermediate_size");
            }
            let inter = keys.need("moe_intermediate_size", "width of an expert")?;
            let shared_inter = keys.number("shared_expert_intermediate_size")?.filter(|width| *width > 0);
            let shared_gate = shared_inter.is_some();
            Moe { experts: experts()?, topk: topk()?, inter, shared_inter, shared_gate, ..plain }
        }
        Kind::Llama4 => {
            let step = keys.size("interleave_moe_layer_step")?.unwrap_or(1);
            let listed = keys.numbers("moe_layers")?.filter(|list| !list.is_empty());
            let is_moe = listed.map_or((layer + 1).is_multiple_of(step), |list| list.contains(&layer));
            if !is_moe {
                return dense(keys, "intermediate_size_mlp");
            }
            let inter = keys.need("intermediate_size", "width of an expert")?;
            Moe { experts: experts()?, topk: topk()?, inter, shared_inter: Some(inter), ..plain }
        }
        Kind::Glm4Moe | Kind::Deepseek => {
            let first_dense = keys.number("first_k_dense_replace")?;
            let first_dense =
                first_dense.ok_or_else(|| keys.missing("first_k_dense_replace", "leading dense layers"))?;
            let every = keys.size("moe_layer_freq")?.unwrap_or(1);
            if layer < first_dense || !layer.is_multiple_of(every) {
                return dense(keys, "intermediate_size");
            }
            let inter = keys.need("moe_intermediate_size", "width of an expert")?;
            Moe { experts: experts()?, topk: topk()?, inter, shared_inter: shared_of(inter)?, ..plain }
        }
    };
    if moe.topk > moe.experts {
        return Err(ModelError::Invalid {
            key: "num_experts_per_tok".to_owned(),
            found: moe.topk.to_string(),
            reason: format!("a token cannot be routed to more than the {} experts", moe.experts),
        });
    }
    Ok(Mlp::Moe(moe))
}
