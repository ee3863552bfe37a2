//! Per-rank sizes that aiter's tuned configs list for these models, (N, K) of GEMMs and (hidden, width, experts, top-k)
//! of fused MoE.

use super::*;

/// A model, its tensor-parallel ranks, and (N, K) pairs.
type TunedGemms<'a> = (&'a str, u64, &'a [(u64, u64)]);

/// (N, K) of the dense GEMMs of a decode and of a prefill step.
fn gemms(name: &str, tp: u64, ep: u64) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for label in ["decode[bs=16 tok=16 d=16]", "prefill[bs=1 tok=512 ctx=512]"] {
        for expected in shapes(name, label, tp, ep).expected {
            if expected.family == Family::Gemm && expected.shape.get("batch").is_none() {
                let key = |key| expected.shape.int(key).unwrap().unwrap();
                found.push((key("n"), key("k")));
            }
        }
    }
    found
}

#[test]
fn per_rank_gemms_are_those_that_are_tuned_for() {
    let published: &[TunedGemms] = &[
        (
            "deepseek-v3",
            8,
            &[
                (1536, 7168),
                (576, 7168),
                (2112, 7168),
                (3072, 1536),
                (4096, 512),
                (7168, 2048),
                (4608, 7168),
                (7168, 2304),
                (512, 7168),
                (7168, 256),
                (256, 7168),
                (16160, 7168),
            ],
        ),
        ("deepseek-v3", 1, &[(24576, 1536), (32768, 512), (7168, 16384), (36864, 7168), (7168, 18432), (129280, 7168)]),
        ("qwen3-235b-a22b", 1, &[(9216, 4096), (4096, 8192), (128, 4096)]),
        ("qwen3-235b-a22b", 4, &[(2304, 4096), (4096, 2048), (128, 4096)]),
        ("qwen3-235b-a22b", 8, &[(1280, 4096), (4096, 1024), (128, 4096)]),
        ("llama-3-70b", 1, &[(10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672)]),
        ("llama-3-70b", 8, &[(1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584)]),
        ("llama-3.1-405b", 1, &[(18432, 16384), (16384, 16384), (106496, 16384), (16384, 53248)]),
        ("llama-3.1-405b", 8, &[(2304, 16384), (16384, 2048), (13312, 16384), (16384, 6656)]),
        ("minimax-m2", 1, &[(8192, 3072), (3072, 6144)]),
        ("minimax-m2", 2, &[(4096, 3072), (3072, 3072)]),
        ("minimax-m2", 4, &[(2048, 3072)]),
        ("glm-4.7", 4, &[(3584, 5120), (5120, 3072), (6144, 5120)]),
        ("glm-4.7", 8, &[(1792, 5120), (5120, 1536), (3072, 5120)]),
    ];
    for (name, tp, expected) in published {
        let found = gemms(name, *tp, 1);
        for pair in *expected {
            assert!(found.contains(pair), "{name} tp={tp} lacks {pair:?}: {found:?}");
        }
    }
}

#[test]
fn mixtures_of_experts_are_those_that_are_tuned_for() {
    let published: &[(&str, u64, u64, [u64; 4])] = &[
        ("deepseek-v3", 8, 1, [7168, 256, 256, 8]),
        ("deepseek-v3", 8, 1, [7168, 256, 257, 9]),
        ("deepseek-v3", 4, 1, [7168, 512, 256, 8]),
        ("deepseek-v3", 8, 8, [7168, 2048, 32, 8]),
        ("deepseek-v3", 8, 8, [7168, 2048, 33, 9]),
        ("kimi-k2", 8, 1, [7168, 256, 384, 8]),
        ("kimi-k2", 8, 1, [7168, 256, 385, 9]),
        ("kimi-k2", 4, 1, [7168, 512, 384, 8]),
        ("glm-4.7", 8, 1, [5120, 192, 161, 9]),
        ("glm-4.7", 4, 1, [5120, 384, 161, 9]),
        ("glm-4.7", 4, 4, [5120, 1536, 40, 8]),
        ("glm-4.7", 4, 4, [5120, 1536, 41, 9]),
        ("minimax-m2", 1, 1, [3072, 1536, 256, 8]),
        ("minimax-m2", 2, 1, [3072, 768, 256, 8]),
        ("minimax-m2", 4, 1, [3072, 384, 256, 8]),
        ("qwen3-235b-a22b", 8, 1, [4096, 192, 128, 8]),
        ("qwen3-235b-a22b", 4, 1, [4096, 384, 128, 8]),
        ("qwen3-235b-a22b", 8, 8, [4096, 1536, 16, 8]),
        ("qwen3-next-80b", 4, 1, [2048, 128, 512, 10]),
        ("qwen3-next-80b", 2, 1, [2048, 256, 513, 11]),
        ("mixtral-8x7b", 1, 1, [4096, 14336, 8, 2]),
    ];
    for (name, tp, ep, sizes) in published {
        for stage in ["gate_up", "down", "fused"] {
            let found = shapes(name, "decode[bs=16 tok=16 d=16]", *tp, *ep).expected;
            let found: Vec<[u64; 4]> = found
                .iter()
                .filter(|expected| expected.shape.word("stage").ok().flatten() == Some(stage))
                .map(|expected| {
                    ["hidden", "inter", "experts", "topk"].map(|key| expected.shape.int(key).unwrap().unwrap())
                })
                .collect();
            assert!(found.contains(sizes), "{name} tp={tp} ep={ep} {stage} lacks {sizes:?}: {found:?}");
        }
    }
}

#[test]
fn a_padded_expert_width_is_not_made_up() {
    // 2880 / 8 = 360 elements are no whole number of 32-element scale blocks; engines run 512 there.
    let split = shapes("gpt-oss-120b", "decode[bs=16 tok=16 d=16]", 8, 1);
    let experts = role(&split, "moe_down");
    assert_eq!(experts.shape.int("inter"), Ok(Some(360)));
    assert_eq!(experts.missing, ["inter"]);
    assert!(role(&shapes("gpt-oss-120b", "decode[bs=16 tok=16 d=16]", 1, 1), "moe_down").is_complete());
}

#[test]
fn latent_attention_runs_absorbed_in_decode_and_expanded_in_prefill() {
    let decode = shapes("deepseek-v3", "decode[bs=64 tok=64 d=64 sqsq=64 sqsk=65600 sk=65600]", 8, 1);
    assert_eq!(
        lines(&decode, Family::Mla),
        ["mla 61 q_heads=16,kv_heads=1,head_dim=576,v_head_dim=512,batch=64,ctx_total=65600,q_len=1"]
    );
    // 16 heads of 128 non-rotary elements against a latent of 512.
    assert_eq!(role(&decode, "q_absorb").shape, shape("batch=16,m=64,n=512,k=128"));
    assert_eq!(role(&decode, "v_absorb").shape, shape("batch=16,m=64,n=128,k=512"));
    assert!(lines(&decode, Family::Fmha).is_empty());

    let label = "prefill[bs=2 tok=14721 ctx=[7803, 6918]]";
    let prefill = shapes("deepseek-v3", label, 8, 1);
    assert_eq!(
        lines(&prefill, Family::Fmha),
        [
            "prefill_attention 61 q_heads=16,kv_heads=16,head_dim=192,v_head_dim=128,q_lens=[7803,6918],kv_lens=[7803,6918],causal=true"
        ]
    );
    assert!(lines(&prefill, Family::Mla).is_empty());
    assert_eq!(role(&prefill, "q_a_norm").shape, shape("rows=14721,hidden=1536"));
    assert_eq!(role(&prefill, "kv_a_norm").shape, shape("rows=14721,hidden=512"));
    // The head runs on the last token of each prompt.
    assert_eq!(role(&prefill, "lm_head").shape, shape("m=2,n=16160,k=7168"));
}

#[test]
fn dense_and_expert_layers_are_counted_apart() {
    let decode = shapes("deepseek-v3", "decode[bs=16 tok=16 d=16]", 8, 1);
    assert_eq!(role(&decode, "gate_up_proj").calls, 3);
    assert_eq!(role(&decode, "router").calls, 58);
    assert_eq!(role(&decode, "shared_down_proj").calls, 58);
    assert_eq!(role(&decode, "o_proj").calls, 61);
    // Maverick: experts in every second layer; three of four layers attend within chunks of 8192.
    let maverick = shapes("llama-4-maverick", "decode[bs=16 tok=16 d=16]", 8, 1);
    assert_eq!(role(&maverick, "router").calls, 24);
    assert_eq!(role(&maverick, "gate_up_proj").shape, shape("m=16,n=4096,k=5120"));
    let attention: Vec<(&str, Option<u64>)> =
        maverick.attention.iter().map(|work| (work.kind.as_str(), work.layers)).collect();
    assert_eq!(attention, [("chunk 8192", Some(36)), ("full", Some(12))]);
}

#[test]
fn expert_parallel_ranks_run_their_share_of_the_rows() {
    // Within the tensor-parallel group: 64 tokens, 1/8 of the routed rows.
    let within = shapes("deepseek-v3", "decode[bs=64 tok=64 d=64]", 8, 8);
    assert_eq!(role(&within, "moe_gate_up").shape.int("tokens"), Ok(Some(8)));
    // Four groups of two ranks exchange tokens: 4 · 64 tokens over 8 ranks.
    let across = shapes("deepseek-v3", "decode[bs=64 tok=64 d=64]", 2, 8);
    assert_eq!(role(&across, "moe_gate_up").shape.int("tokens"), Ok(Some(32)));
    assert!(role(&across, "moe_gate_up").assumed.iter().any(|text| text.contains("uniform")));
    // 384 experts over 64 ranks are 6, fewer than the 8 a token is routed to: 64 · 64 · 8 / 64 rows, 6 a token.
    let wide = shapes("kimi-k2", "decode[bs=64 tok=64 d=64]", 1, 64);
    let wide = &role(&wide, "moe_gate_up").shape;
    assert_eq!((wide.int("tokens"), wide.int("topk")), (Ok(Some(86)), Ok(Some(6))));
}
