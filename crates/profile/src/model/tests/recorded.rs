//! Against shapes and counts that real traces recorded for the same steps (read off the traces' operator arguments and
//! kernel counts with a JSON reader).

use super::*;
use kbench_workload::Dtype;

/// SGLang, Qwen3-8B, decode of 32 sequences on one MI300X: operator arguments of the capture trace, 36 layers.
#[test]
fn qwen3_8b_decode() {
    let label = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)";
    let found = shapes("qwen3-8b", label, 1, 1);
    assert_eq!(
        lines(&found, Family::Gemm),
        [
            "down_proj 36 m=32,n=4096,k=12288",
            "gate_up_proj 36 m=32,n=24576,k=4096",
            "lm_head 1 m=32,n=151936,k=4096",
            "o_proj 36 m=32,n=4096,k=4096",
            "qkv_proj 36 m=32,n=6144,k=4096",
        ]
    );
    // aiter::rmsnorm of (1024, 128) and (256, 128) 36 times each, of (32, 4096) once, aiter::add_rmsnorm 72 times.
    assert_eq!(
        lines(&found, Family::Rmsnorm),
        [
            "final_norm 1 rows=32,hidden=4096,add=true",
            "input_layernorm 1 rows=32,hidden=4096",
            "input_layernorm 35 rows=32,hidden=4096,add=true",
            "k_norm 36 rows=256,hidden=128",
            "post_attention_layernorm 36 rows=32,hidden=4096,add=true",
            "q_norm 36 rows=1024,hidden=128",
        ]
    );
    assert_eq!(
        lines(&found, Family::PagedAttention),
        ["paged_attention 36 q_heads=32,kv_heads=8,head_dim=128,batch=32,ctx_total=32785,q_len=1"]
    );
    assert_eq!(lines(&found, Family::Activation), ["act_and_mul 36 rows=32,hidden=12288,kind=silu,mul=true"]);
    assert!(found.expected.iter().all(Expected::is_complete));
}

/// The same server, prefill of 15 prompts of 1024 tokens.
#[test]
fn qwen3_8b_prefill() {
    let label = "execute_15360_context_15(sq15360sk15360sqsq15728640sqsk15728640)_generation_0(sq0sk0sqsq0sqsk0)";
    let found = shapes("qwen3-8b", label, 1, 1);
    assert_eq!(role(&found, "qkv_proj").shape, shape("m=15360,n=6144,k=4096"));
    assert_eq!(role(&found, "q_norm").shape, shape("rows=491520,hidden=128"));
    assert_eq!(role(&found, "k_norm").shape, shape("rows=122880,hidden=128"));
    // 15 · 15,728,640 = 15,360²: the prompts are equal, and nothing was cached.
    assert_eq!(
        lines(&found, Family::Fmha),
        ["prefill_attention 36 q_heads=32,kv_heads=8,head_dim=128,batch=15,q_len=1024,kv_len=1024,causal=true"]
    );
    // 15 · 1024 · 1025 / 2 pairs.
    assert_eq!(found.attention[0].pairs, Count::Exact(7_872_000));
    assert_eq!(found.attention[0].keys, Count::Exact(15_360));
}

/// SGLang, Qwen3-30B-A3B, decode of 16 sequences on one MI300X: kernel counts of the replayed graph. 96 add_rmsnorm of
/// the hidden size with and 1 without residual, 96 norms of heads, 48 GEMMs each of qkv, o and router, 1 output head,
/// 96 expert GEMMs, 48 paged attentions, sorts and gates.
#[test]
fn qwen3_30b_decode() {
    let label = "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)";
    let found = shapes("qwen3-30b-a3b", label, 1, 1);
    let calls = |role: &str, add: bool| -> u64 {
        let of_role = found.expected.iter().filter(|expected| expected.role == role);
        of_role.filter(|expected| expected.shape.get("add").is_some() == add).map(|expected| expected.calls).sum()
    };
    let residual = ["input_layernorm", "post_attention_layernorm", "final_norm"];
    assert_eq!(residual.iter().map(|role| calls(role, true)).sum::<u64>(), 96);
    assert_eq!(residual.iter().map(|role| calls(role, false)).sum::<u64>(), 1);
    assert_eq!(calls("q_norm", false) + calls("k_norm", false), 96);
    for role in ["qkv_proj", "o_proj", "router", "paged_attention", "moe_gate", "moe_sort", "rope"] {
        assert_eq!(calls(role, false), 48, "{role}");
    }
    assert_eq!(calls("moe_gate_up", false) + calls("moe_down", false), 96);
    // From the public figures by hand: (32 + 2·4)·128 = 5120, 32·128 = 4096.
    assert_eq!(
        lines(&found, Family::Gemm),
        [
            "lm_head 1 m=16,n=151936,k=2048",
            "o_proj 48 m=16,n=2048,k=4096",
            "qkv_proj 48 m=16,n=5120,k=2048",
            "router 48 m=16,n=128,k=2048",
        ]
    );
    assert_eq!(
        role(&found, "moe_gate_up").shape,
        shape("tokens=16,hidden=2048,inter=768,experts=128,topk=8,stage=gate_up,gated=true,act=silu")
    );
    assert_eq!(
        role(&found, "paged_attention").shape,
        shape("q_heads=32,kv_heads=4,head_dim=128,batch=16,ctx_total=8193,q_len=1")
    );
    assert!(found.expected.iter().all(Expected::is_complete));
}

/// vLLM, gpt-oss-20b, decode of 32 sequences on one MI300: operator arguments of the capture trace, 24 layers, biased
/// projections, 12 layers with a window of 128 (kernel_unified_attention_2d) and 12 with full attention (3d).
#[test]
fn gpt_oss_20b_decode() {
    let label = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)";
    let found = shapes("gpt-oss-20b", label, 1, 1);
    for (name, sizes) in [
        ("qkv_proj", "m=32,n=5120,k=2880,bias=true"),
        ("o_proj", "m=32,n=2880,k=4096,bias=true"),
        ("router", "m=32,n=32,k=2880,bias=true"),
        ("lm_head", "m=32,n=201088,k=2880"),
    ] {
        assert_eq!(role(&found, name).shape, shape(sizes), "{name}");
    }
    assert_eq!(
        lines(&found, Family::PagedAttention),
        [
            "paged_attention 12 q_heads=64,kv_heads=8,head_dim=64,batch=32,ctx_total=55086,q_len=1",
            "paged_attention 12 q_heads=64,kv_heads=8,head_dim=64,batch=32,ctx_total=55086,q_len=1,window=128",
        ]
    );
    // The full layers read 55,086 keys. The window leaves at most 32 · 128; at least, if one sequence has nearly all of
    // the context, 31 · 1 + 128.
    let work = |kind: &str| found.attention.iter().find(|work| work.kind == kind).unwrap();
    assert_eq!((work("full").pairs, work("full").keys), (Count::Exact(55_086), Count::Exact(55_086)));
    assert_eq!(work("window 128").keys, Count::Between { least: 159, most: 4096 });
    assert_eq!(work("window 128").pairs, Count::Between { least: 159, most: 4096 });
    let experts = role(&found, "moe_gate_up");
    assert_eq!(experts.dtypes.get("w"), Some(Dtype::Fp4E2m1.into()));
    assert_eq!(experts.shape.word("quant"), Ok(Some("mx32")));
    assert_eq!(role(&found, "qkv_proj").dtypes.get("b"), Some(Dtype::Bf16.into()));
}

/// vLLM, gpt-oss-120b on 8 B200: the eager prefill of one prompt of 888 tokens; its label holds no context length.
#[test]
fn gpt_oss_120b_prefill_of_eight_ranks() {
    let found = shapes("gpt-oss-120b", "execute_context_1(888_788544)_generation_0(0)", 8, 1);
    for (name, sizes) in [
        ("qkv_proj", "m=888,n=640,k=2880,bias=true"),
        ("o_proj", "m=888,n=2880,k=512,bias=true"),
        ("router", "m=888,n=128,k=2880,bias=true"),
        ("input_layernorm", "rows=888,hidden=2880"),
    ] {
        assert_eq!(role(&found, name).shape, shape(sizes), "{name}");
    }
    let attention = role(&found, "prefill_attention");
    assert_eq!(attention.shape, shape("q_heads=8,kv_heads=1,head_dim=64,batch=1,q_len=888,causal=true,window=128"));
    assert_eq!(attention.missing, ["kv_lens"]);
}
