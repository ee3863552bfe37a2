//! Classification of every kernel name that the workflow's table, the facts and the traces name. Rows are grouped by
//! source; "facts" are the project's notes on public repositories and traces.

mod aiter;
mod frameworks;

use kbench_profile::names::{Table, canonical};
use kbench_workload::Family::{self, *};

/// A name, the operator where the source has one, family and category.
type Row = (&'static str, Option<&'static str>, Family, &'static str);

fn check(rows: &[Row]) {
    let table = Table::builtin();
    let mut wrong = Vec::new();
    for (raw, op, family, category) in rows {
        let class = table.classify(&canonical(raw), *op);
        if (class.family, class.category.as_str()) != (*family, *category) {
            wrong.push(format!("{raw}: {} / {}, not {family} / {category}", class.family, class.category));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One category per group of names.
fn check_groups(groups: &[(Family, &'static str, &[&'static str])]) {
    let rows: Vec<Row> = groups
        .iter()
        .flat_map(|(family, category, names)| names.iter().map(move |name| (*name, None, *family, *category)))
        .collect();
    check(&rows);
}

/// The categorisation table of the model profiling workflow, row by row, with its category words. `wv_splitk_small_*` is
/// the one exception: the table says PA Reduce, but the kernel is a skinny GEMM (facts on aiter kernels 1.5).
#[test]
fn rows_of_the_workflow_table() {
    check_groups(&[
        (
            Embedding,
            "Embedding",
            &["indexSelectSmallIndex", "triton_poi_fused_embedding", "triton_poi_fused_embedding_0"],
        ),
        (Rmsnorm, "RMSNorm", &["add_rmsnorm_quant_kernel"]),
        (Rope, "RoPE", &["kn_entry_2c_sbhd_cached_indirect"]),
        (KvCache, "KV Cache", &["reshape_and_cache_with_per_token_quant"]),
        (Fmha, "Flash Attention", &["fmha_fwd_", "fmha_fwd_hd128_bf16_causal_rtne"]),
        (PagedAttention, "Paged Attention", &["pa_bf16_", "pa_bf16_pertokenFp8_gqa8_2tg_4w"]),
        (Gemm, "Skinny GEMM", &["wv_splitk_small_", "wv_splitk_small_fp16_bf16_kernel"]),
        (Gemm, "Dense GEMM (BF16)", &["Cijk_", "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x32x512_MI16x16x1"]),
        (
            Gemm,
            "Dense GEMM (FP8)",
            &["kernel_gemm_xdl_cshuffle_v3_blockscale", "kernel_gemm_xdl_cshuffle_v3<x, blockscale>"],
        ),
        (Quant, "FP8 Activation Quant", &["dynamic_per_group_scaled_quant", "dynamic_per_group_scaled_quant_kernel"]),
        (MoeGate, "MoE Gate", &["topkGatingSoftmax", "grouped_topk", "grouped_topk_kernel"]),
        (
            MoeSort,
            "MoE Sort",
            &[
                "MoeSortingKernel",
                "MoeSortingMultiPhaseKernel_P0",
                "MoeSortingMultiPhaseKernel_P0_v2",
                "MoeSortingMultiPhaseKernel_P23",
            ],
        ),
        (MoeGemm, "MoE Expert GEMM (BF16)", &["kernel_moe_gemm"]),
        (
            MoeGemm,
            "MoE Expert GEMM (FP8)",
            &["fmoe_bf16_blockscaleFp8", "fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256"],
        ),
        (Sampling, "Sampling", &["mix_sample_outer_exponential", "mix_sample_outer_exponential_kernel"]),
    ]);
    let splitk = Table::builtin().classify("wv_splitk_small_fp16_bf16_kernel", None);
    assert!(splitk.note.is_some_and(|note| note.contains("PA Reduce")));
}

/// Facts on profile formats, section 10: the kernels of the MI300 traces.
#[test]
fn kernels_of_the_mi300_traces() {
    check_groups(&[
        (
            Gemm,
            "Dense GEMM (BF16)",
            &[
                "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN_ISA942_WG64_4_1",
                "Custom_Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64",
            ],
        ),
        (
            MoeGemm,
            "MoE Expert GEMM (BF16)",
            &[
                "void ck::kernel_moe_gemm<ck::GridwiseMoeGemm<ck::tensor_layout::gemm::RowMajor, unsigned short, unsigned short, float>, true, 2>(ck::Argument)",
            ],
        ),
        (
            MoeGemm,
            "MoE Expert GEMM (FP4)",
            &["_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu"],
        ),
        (MoeGemm, "MoE Finalize", &["_finalize_matmul_scatter_bf16"]),
        (
            MoeSort,
            "MoE Sort",
            &[
                "void ck_tile::kentry<2, ck_tile::MoeSortingKernel<ck_tile::MoeSortingProblemEx<int, float, 2, true, false, false, true, 0> >, ck_tile::MoeSortingKernel<int>::Kargs>(int)",
            ],
        ),
        (
            MoeGate,
            "MoE Gate",
            &[
                "aiter::topksoftmax_4x128x8_bf16",
                "_topk_forward",
                "_sum_bitmatrix_rows",
                "_combined_routing_compute",
                "_combined_routing_memset",
            ],
        ),
        (
            PagedAttention,
            "Paged Attention",
            &[
                "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0, 1, 128, 256, false, 4, 1, ck_tile::ComposedAttention<0u, false> >(int)",
                "kernel_unified_attention_2d",
                "kernel_unified_attention_3d",
            ],
        ),
        (
            PagedAttention,
            "PA Reduce",
            &[
                "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, __hip_bfloat16, 128, 128, 256, 3, false>(int)",
                "reduce_segments",
            ],
        ),
        (
            Fmha,
            "Flash Attention",
            &[
                "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelIiEEEEvv",
                "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernel",
                "attn_fwd",
                "attn_fwd.kd",
                "sage_fwd",
            ],
        ),
        (
            Rmsnorm,
            "RMSNorm",
            &[
                "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
                "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdIiEEEEvv",
                "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwd",
            ],
        ),
        (
            Rope,
            "RoPE",
            &[
                "void rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)",
                "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)",
                "_fused_qk_rope_reshape_and_cache_kernel",
            ],
        ),
        (
            KvCache,
            "KV Cache",
            &[
                "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>((anonymous namespace)::StoreKVCacheParams)",
                "void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0>(int)",
            ],
        ),
        (
            Activation,
            "Activation",
            &[
                "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i",
            ],
        ),
        (
            Embedding,
            "Embedding",
            &[
                "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, 2, -2>(int)",
                "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)",
            ],
        ),
        (
            Sampling,
            "Sampling",
            &[
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(int)",
            ],
        ),
        (Comm, "Communication", &["ncclDevKernel_Generic_1"]),
        (Other, "Scheduler Metadata", &["create_flashinfer_kv_indices_triton"]),
        // Section 10 lists it as "other"; it is the runtime's fill, so it counts as data movement.
        (Copy, "Fill", &["__amd_rocclr_fillBufferAligned.kd"]),
    ]);
}

/// An unknown kernel keeps its place as `other`; its operator is asked first.
#[test]
fn unknown_names() {
    check(&[
        ("my_kernel", None, Other, "Other"),
        ("my_kernel", Some("aten::mm"), Gemm, "Dense GEMM"),
        ("my_kernel", Some("vllm::something"), Other, "Other"),
        ("", None, Other, "Other"),
    ]);
}
