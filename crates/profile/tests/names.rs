//! Classification of every kernel name that the workflow's table, the facts and the traces name. Rows are grouped by
//! source; "facts" are the project's notes on public repositories and traces.

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

/// Facts on aiter kernels, 1.1 and 1.2.
#[test]
fn aiter_attention() {
    check_groups(&[
        (
            PagedAttention,
            "Paged Attention",
            &[
                "_ZN5aiter31pa_bf16_pertokenFp8_gqa8_2tg_4wE",
                "aiter::pa_bf16_noquant_gqa16_1tg_4w_mtp_msk1",
                "pa_bf16_pertokenInt8_gqa10_1tg_4w_qlen2_msk1_hp",
                "_ZN5aiter44PA_A16W8_BLK256_1TG_4W_16mx1_64nx4_MTP_PS_PBE",
                "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, __hip_bfloat16, 16, 128, 256, false, 4, 1, ck_tile::ComposedAttention<0u,false> >(int)",
                "_paged_attn_decode_v1_w_dot_kernel",
                "_paged_attn_decode_v1_wo_dot_kernel_per_token_quant",
                "_paged_attn_decode_v2_w_dot_kernel",
                "kernel_unified_attention_2d",
                "kernel_unified_attention_3d",
            ],
        ),
        (
            PagedAttention,
            "PA Reduce",
            &[
                "paged_attention_ll4mi_reduce_kernel",
                "pa_decode_ps_reduce_hip_kernel",
                "_paged_attn_decode_v2_w_dot_reduce_kernel",
                "reduce_segments",
            ],
        ),
        (
            Fmha,
            "Flash Attention",
            &[
                "_ZN5aiter24fmha_fwd_hd128_bf16_rtneE",
                "fmha_fwd_hd128_bf16_causal_rtna_group",
                "aiter::fmha_fwd_hd192_hd128_bf16_causal",
                "fmha_fwd_hd128_fp8_causal_group",
                "void ck_tile::kentry<2, ck_tile::FmhaFwdKernel<ck_tile::FmhaFwdPipelineX<int> >, int>(int)",
                "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS",
                "_attn_fwd",
                "_fwd_kernel",
                "_sage_fwd_blocked_mxfp4",
                "chunked_pa_prefill",
                "_fwd_kernel_alibi",
                "fmha_fwd_bf16_opus",
            ],
        ),
        (Mla, "MLA", &["_mla_prefill_fwd_kernel"]),
    ]);
}

/// Facts on aiter kernels, 1.3.
#[test]
fn aiter_mixture_of_experts() {
    check_groups(&[
        (
            MoeGemm,
            "MoE Expert GEMM (FP8)",
            &[
                "_ZN5aiter47fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256E",
                "fmoe_bf16_blockscaleFp8_g1u1_novs_silu_1tg_ps_32x128",
                "fmoe_bf16_pertokenFp8_g1u1_vs_multix_silu_1tg_32x384",
                "fmoe_bf16_pertokenFp8_g1u1_tkw1_silu_1tg_32x256",
                "fmoe_bf16_a16_blockscaleFp8_g1u1_16x128_flat_pf3",
                "fmoe_fp8_g1u1_subGU_128",
                "fmoe_stage1_bf16_pertokenFp8_blockscale_g1u1_32x128_3tg_pf2",
                "fmoe_stage1_bf16_pertokenFp8_doweight_g1u1_32x128_pf3",
                "moe_ck2stages_gemm1_256x32x128x128_1x4_MulABScale_v1_Nswizzle0_F8_F8_B16",
                "void ck::kernel_moe_gemm<ck::GridwiseMoeGemmBlockScale<ck::f8_fnuz_t, ck::f8_fnuz_t, float> >(int)",
            ],
        ),
        (MoeGemm, "MoE Expert GEMM (INT8)", &["fmoe_bf16_pertokenInt8_g1u0_vs_smf_silu_1tg_32x512"]),
        (
            MoeGemm,
            "MoE Expert GEMM (BF16)",
            &[
                "fmoe_bf16_noquantBf16_g1u0_vs_atm_inlv_silu_1tg_32x512",
                "fmoe_kernel_func",
                "kernel_moe_gemm_2lds",
                "_fused_moe_kernel",
                "_fused_moe_persistent_kernel",
            ],
        ),
        (
            MoeGemm,
            "MoE Expert GEMM (FP4)",
            &[
                "fmoe_bf16_pertokenMXfp4_g1u1_vs_silu_1tg_32x256",
                "_fused_moe_kernel_mxfp4",
                "_fused_moe_kernel_mxfp4_silu",
                "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",
            ],
        ),
        (
            MoeGemm,
            "MoE Expert GEMM",
            &["_ZN7ck_tile6kentryILi1ENS_16MoeFlatmmKernelIiEEEEvv", "flydsl_moe1_afp8_wfp4", "flydsl_moe2_afp8_wfp4"],
        ),
        (MoeGemm, "MoE Finalize", &["_finalize_matmul_scatter_bf16"]),
        (
            MoeSort,
            "MoE Sort",
            &[
                "ck_tile::MoeSortingKernel",
                "MoeSortingMultiPhaseKernel_P0",
                "MoeSortingMultiPhaseKernel_P0_v2",
                "MoeSortingMultiPhaseKernel_P1",
                "MoeSortingMultiPhaseKernel_P23",
                "MoeSortingClearWorkspaceKernel",
                "moe_sorting_opus_kernel",
                "moe_align_block_size_kernel",
                "_moe_align_block_size_stage1_kernel",
                "_moe_align_block_size_stage4_kernel",
            ],
        ),
    ]);
}

/// Facts on aiter kernels, 1.4 and 1.5.
#[test]
fn aiter_norms_and_gemms() {
    check_groups(&[
        (
            Rmsnorm,
            "RMSNorm",
            &[
                "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
                "rmsnorm_opus_kernel",
                "rmsnorm_quant_opus_kernel",
                "void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<int>, int>(int)",
                "_rms_norm_kernel",
                "_fused_add_rmsnorm_kernel",
                "_quant_rms_norm_kernel",
                "_fused_rms_fp8_group_quant_kernel",
                "triton_red_fused__unsafe_view_add_mean_mul_pow_rsqrt_1",
                "triton_per_fused_add_mean_mul_pow_rsqrt_0",
            ],
        ),
        (
            Gemm,
            "Dense GEMM (BF16)",
            &[
                "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1",
                "bf16gemm_fp32bf16_tn_96x64_splitk_clean",
                "aiter::bf16gemm_bf16_tn_256x256",
                "_gemm_a16_w16_kernel",
                "_batched_gemm_bf16_kernel",
            ],
        ),
        (Gemm, "Dense GEMM (INT8)", &["_ZN5aiter42I8gemm_bf16_perTokenI8_BpreShuffle_112x256E"]),
        (
            Gemm,
            "Dense GEMM (FP8)",
            &[
                "_ZN5aiter43fp8gemm_bf16_blockscale_BpreShuffle_128x128E",
                "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemmMultiD_ABScale_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor> >(int)",
                "a8w8_blockscale_1x128x128_256x128x128x128_16x16_32x32_2x2_intrawave_v3",
                "_gemm_a8w8_blockscale_kernel",
                "_gemm_a8w8_blockscale_preshuffle_kernel",
                "_gemm_a8w8_per_token_scale_kernel",
            ],
        ),
        (
            Gemm,
            "Dense GEMM (FP4)",
            &[
                "aiter::f4gemm_bf16_per1x32Fp4_BpreShuffle_192x128",
                "_gemm_afp4wfp4_kernel",
                "_gemm_afp4wfp4_preshuffle_kernel",
                "_gemm_a16wfp4_kernel",
            ],
        ),
        (
            Gemm,
            "Skinny GEMM",
            &["wv_splitk_small_fp16_bf16_kernel", "wvSplitK_hf_sml_", "wvSplitKQ_hf_sml_", "LLGemm_Silu_kernel"],
        ),
        (
            Gemm,
            "GEMM Split-K Reduce",
            &["_gemm_splitk_reduce_kernel", "Cijk_SB_BiasS_HAS_ScaleAlphaVec_PostGSU16_VW4.kd"],
        ),
        (Gemm, "Dense GEMM", &["opus_gemm_256x256", "flydsl_bpreshuffle_wmma_t256x256x256_x"]),
    ]);
}

/// Facts on aiter kernels, 1.6.
#[test]
fn aiter_small_kernels() {
    check_groups(&[
        (
            Quant,
            "FP8 Activation Quant",
            &[
                "void aiter::dynamic_per_token_scaled_quant_kernel<c10::BFloat16, c10::Float8_e4m3fnuz>(int)",
                "aiter::dynamic_per_group_scaled_quant_kernel<std::bfloat16_t, unsigned char, 32, 128, false, 64, false>",
                "_dynamic_mxfp4_quant_kernel",
                "_dynamic_per_token_quant_fp8_i8_kernel",
                "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(int)",
            ],
        ),
        (Rmsnorm, "RMSNorm", &["_fused_rms_mxfp4_quant_kernel"]),
        (
            Activation,
            "Activation",
            &[
                "_fused_silu_mul_fp8_per_tensor_static_quant_kernel",
                "void aiter::act_and_mul_kernel<std::bfloat16_t>(int)",
                "scaled_act_and_mul_kernel",
                "act_and_mul_quant_kernel",
                "swiglu_act_and_mul_kernel",
            ],
        ),
        (
            KvCache,
            "KV Cache",
            &[
                "reshape_and_cache_kernel",
                "reshape_and_cache_flash_kernel",
                "reshape_and_cache_with_per_token_quant_kernel",
                "reshape_and_cache_with_block_quant_kernel",
                "reshape_and_cache_with_block_quant_kernel_for_asmpa",
                "concat_and_cache_mla_kernel",
                "concat_and_cache_mla_opt_kernel",
                "fuse_qk_rope_concat_and_cache_mla_per_head_kernel",
            ],
        ),
        (
            Rope,
            "RoPE",
            &[
                "void aiter::kn_entry_2c_sbhd_cached_indirect_inplace<aiter::OpCachedFwd, 0, true>(int)",
                "kn_entry_1c_thd_uncached",
                "kn_entry_2c_sbhd_cached_indirect2",
                "kn_entry_1c_2d_cached_inplace",
                "_rope_fwd_kernel",
                "_rope_kernel_sbhd_fwd",
                "_fused_qk_rope_reshape_and_cache_kernel",
                "fusedQKNormRopeQuantCacheShuffleKernel",
                "minimax_qk_norm_rope_kernel",
            ],
        ),
        (
            MoeGate,
            "MoE Gate",
            &[
                "void vllm::moe::topkGatingSoftmax<4, 128, 4, 16, 64, int>(float const*)",
                "aiter::topksoftmax_4x256x8_fp32",
                "grouped_topk_kernel",
                "grouped_topk_opt_sort_kernel",
                "biased_grouped_topk_kernel",
                "moe_fused_gate_kernel",
                "topk_gating_kernel_opt",
            ],
        ),
        (
            Sampling,
            "Sampling",
            &[
                "greedy_sample_kernel",
                "random_sample_kernel",
                "random_sample_outer_exponential_kernel",
                "mix_sample_kernel",
                "mix_sample_outer_exponential_kernel",
                "exponential_kernel",
            ],
        ),
    ]);
}

/// Facts on aiter kernels, 1.7.
#[test]
fn aiter_mla() {
    check_groups(&[
        (
            Mla,
            "MLA",
            &[
                "mla_dec_stage1_bf16_a16w16_subQ16_mqa16",
                "mla_a16w16_qh16_m16x4_n16x1_coex0_mask1_ps",
                "_ZN5aiter43mla_a8w8_qh16_qseqlen1_gqaratio16_psE",
                "mla_a8w8_qh128_m32x4_n16x2_msk1_ps",
                "mla_a16w16_qh64_qseqlen1_gqaratio64_lse_v3_ps",
                "MLA_A16W16_1TG_4W_64mx1_16nx1_Coex0_Msk1_QH16",
                "mla_pfl_qh192_vh128_m32x8_n128x1_causal1",
                "_fwd_grouped_kernel_stage1",
                "_fwd_grouped_kernel_stage1_rope",
                "_mla_decode_fwd_kernel",
            ],
        ),
        (Mla, "MLA Reduce", &["_fwd_kernel_stage2_asm", "kn_mla_reduce_v1", "kn_mla_reduce_v1_ps"]),
        (Mla, "MLA Metadata", &["kn_get_mla_metadata_v1_2"]),
    ]);
}

/// Facts on aiter kernels, 5.1: the alias list of the layer tracing script; its right column in the comment.
#[test]
fn names_behind_the_aliases() {
    check_groups(&[
        // PA (paged_attn)
        (PagedAttention, "Paged Attention", &["pa_bf16"]),
        // GEMM_FP8 (CK dense)
        (Gemm, "Dense GEMM (FP8)", &["kernel_gemm_xdl_cshuffle_v3"]),
        // MoE_GEMM (CK), MoE_GEMM_fused (ASM), MoE_GEMM_flatmm
        (MoeGemm, "MoE Expert GEMM (BF16)", &["kernel_moe_gemm"]),
        (MoeGemm, "MoE Expert GEMM (FP8)", &["fmoe_bf16_blockscaleFp8"]),
        (MoeGemm, "MoE Expert GEMM", &["MoeFlatmm"]),
        // FP8_quant, RMSNorm+Quant
        (Quant, "FP8 Activation Quant", &["dynamic_per_group_scaled_quant"]),
        (Rmsnorm, "RMSNorm", &["add_rmsnorm_quant"]),
        // MoE_gate (topk), MoE_sort_P0, MoE_sort_P23, MoE_sort
        (MoeGate, "MoE Gate", &["grouped_topk"]),
        (MoeSort, "MoE Sort", &["MoeSortingMultiPhaseKernel_P0", "MoeSortingMultiPhaseKernel_P23", "MoeSortingKernel"]),
        // GEMM_BF16 (rocBLAS)
        (Gemm, "Dense GEMM (BF16)", &["Cijk_"]),
        // Triton_copy, Embedding
        (Copy, "Copy", &["triton_poi_fused__to_copy"]),
        (Embedding, "Embedding", &["triton_poi_fused_embedding"]),
        // The alias calls every triton_red_fused RMSNorm_triton; without telling operators it is only a reduction.
        (Reduction, "Reduction", &["triton_red_fused"]),
        // RoPE, KV_cache_quant, Sampling, FlashAttn
        (Rope, "RoPE", &["kn_entry_2c_sbhd"]),
        (KvCache, "KV Cache", &["reshape_and_cache"]),
        (Sampling, "Sampling", &["mix_sample"]),
        (Fmha, "Flash Attention", &["fmha_fwd"]),
        // PA_reduce
        (Gemm, "Skinny GEMM", &["wv_splitk"]),
    ]);
}

/// PyTorch, MIOpen, rocPRIM and Inductor kernels of the traces; what they compute is told by the operator beside them in
/// the trace.
#[test]
fn framework_kernels() {
    check(&[
        (
            "void at::native::elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)::{lambda(int)#1}>(int)",
            Some("aten::copy_"),
            Copy,
            "Copy",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
            Some("aten::copy_"),
            Copy,
            "Copy",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16tofloat32_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)",
            Some("aten::copy_"),
            Copy,
            "Copy",
        ),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(int)",
            Some("aten::cat"),
            Copy,
            "Copy",
        ),
        ("CatArrayBatchedCopy_contig", None, Copy, "Copy"),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::UnaryOpFunctor<long, 2, 1, 1>, at::native::Copy<long, long> >(int)",
            Some("aten::_foreach_copy_"),
            Copy,
            "Copy",
        ),
        ("Memcpy HtoD (Host -> Device)", Some("aten::copy_"), Copy, "Copy"),
        ("Memset (Device)", Some("aten::mean"), Copy, "Fill"),
        ("__amd_rocclr_copyBuffer.kd", None, Copy, "Copy"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)",
            Some("aten::fill_"),
            Copy,
            "Fill",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int)",
            Some("aten::add"),
            Elementwise,
            "Elementwise",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<8, at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}>(int)",
            Some("aten::silu"),
            Activation,
            "Activation",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}>(int)",
            Some("aten::gelu"),
            Activation,
            "Activation",
        ),
        (
            "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_put_kernel_impl<at::native::OpaqueType<4> >(int)::{lambda(char*)#1}>(int)::{lambda(int)#1}>(long)",
            Some("aten::_index_put_impl_"),
            Elementwise,
            "Index / Gather",
        ),
        (
            "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)",
            Some("aten::index"),
            Elementwise,
            "Index / Gather",
        ),
        (
            "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)",
            Some("aten::embedding"),
            Embedding,
            "Embedding",
        ),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >(int)",
            Some("aten::mean"),
            Reduction,
            "Reduction",
        ),
        (
            "void at::native::(anonymous namespace)::cunn_SoftMaxForwardReg<c10::BFloat16, float, c10::BFloat16, at::native::(anonymous namespace)::SoftMaxForwardEpilogue, long, 4>(int)",
            Some("aten::_softmax"),
            Softmax,
            "Softmax",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 3, false, false>(int)",
            Some("aten::_softmax"),
            Softmax,
            "Softmax",
        ),
        (
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int)",
            Some("aten::native_layer_norm"),
            LayerNorm,
            "LayerNorm",
        ),
        (
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)",
            Some("aten::native_layer_norm"),
            LayerNorm,
            "LayerNorm",
        ),
        (
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, true>(int)",
            Some("aten::_fused_rms_norm"),
            Rmsnorm,
            "RMSNorm",
        ),
        (
            "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<float, float, true>(int)",
            Some("aten::_fused_rms_norm_backward"),
            LayerNorm,
            "Norm Backward",
        ),
        (
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
            Some("_C::fused_add_rms_norm"),
            Rmsnorm,
            "RMSNorm",
        ),
        ("MIOpenBatchNormFwdTrainSpatial", Some("aten::miopen_batch_norm"), LayerNorm, "BatchNorm"),
        (
            "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt256x64x8_wt64x16x4_ws1x1_wr2x2",
            Some("aten::miopen_convolution"),
            Conv,
            "Convolution",
        ),
        ("batched_transpose_64x4_half", Some("aten::miopen_convolution"), Conv, "Convolution Layout"),
        ("SubTensorOpWithScalar1d", Some("aten::miopen_convolution"), Conv, "Convolution Layout"),
        (
            "void rocprim::ROCPRIM_400200_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400200_NS::detail::wrapped_scan_config<rocprim::ROCPRIM_400200_NS::default_config, long> >(int)",
            Some("aten::cumsum"),
            Reduction,
            "Scan",
        ),
        ("triton_poi_fused__unsafe_view_mul_silu_2", None, Activation, "Activation"),
        ("triton_poi_fused__unsafe_view_add_3", None, Elementwise, "Elementwise"),
        ("triton_poi_fused_add_bitwise_and_bitwise_not_bitwise_or_ge_lt_mul_sub_0", None, Elementwise, "Elementwise"),
        ("triton_poi_fused_constant_pad_nd_moe_forward_0", None, Copy, "Copy"),
        ("triton_poi_fused__to_copy_1", None, Copy, "Copy"),
        ("triton_poi_fused__to_copy_add_mul_1", None, Elementwise, "Elementwise"),
        ("triton_poi_fused_0", None, Elementwise, "Elementwise"),
        ("triton_red_fused_sum_0", None, Reduction, "Reduction"),
        ("triton_red_fused_native_layer_norm_1", None, LayerNorm, "LayerNorm"),
        ("triton_tem_fused_mm_3", None, Gemm, "Dense GEMM (BF16)"),
        ("bwd_kernel_fuse.kd", None, Other, "Flash Attention Backward"),
        ("void addition_kernel<float>(float*, float const*, float const*, int, int)", None, Elementwise, "Elementwise"),
        ("vecCopy(double*, double*, double*, int, int) (.kd)", None, Copy, "Copy"),
        ("nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT", Some("aten::addmm"), Gemm, "Dense GEMM (BF16)"),
        (
            "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
            None,
            Fmha,
            "Flash Attention",
        ),
        (
            "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_swiGlu_dynBatch_sm100f",
            Some("vllm::moe_forward"),
            MoeGemm,
            "MoE Expert GEMM (FP4)",
        ),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)", None, Comm, "Communication"),
        ("void vllm::cross_device_reduce_2stage<__hip_bfloat16, 8>(int)", None, Comm, "Communication"),
        ("mscclKernel_Sum_float_LL_false", None, Comm, "Communication"),
        // A collective with a norm fused in is no norm: replaying it as one would be wrong.
        (
            "void aiter::allreduce_fusion_kernel_2stage<std::bfloat16_t, rmsnorm_epilogue>(int)",
            None,
            Comm,
            "Communication",
        ),
        ("triton_tem_fused_convolution_1", None, Conv, "Convolution"),
        // Backward kernels are in no family that is replayed.
        ("triton_red_fused__fused_rms_norm_backward_0", None, LayerNorm, "Norm Backward"),
        ("_rms_norm_bwd_kernel", None, LayerNorm, "Norm Backward"),
        (
            "void at::native::vectorized_elementwise_kernel<8, at::native::(anonymous namespace)::silu_backward_kernel(at::TensorIteratorBase&)::{lambda()#1}>(int)",
            None,
            Elementwise,
            "Activation Backward",
        ),
        // Linear attention by the names of its public implementations (fla, mamba).
        ("chunk_gated_delta_rule_fwd_kernel_h_blockdim64", None, LinearAttention, "Linear Attention"),
        ("fused_recurrent_gated_delta_rule_fwd_kernel", None, LinearAttention, "Linear Attention"),
        ("chunk_fwd_kernel_o", None, LinearAttention, "Linear Attention"),
        ("_selective_scan_update_kernel", None, LinearAttention, "Linear Attention"),
        ("_causal_conv1d_update_kernel", None, LinearAttention, "Linear Attention Conv"),
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
