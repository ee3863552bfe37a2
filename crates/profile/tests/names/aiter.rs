//! Kernels of aiter, by what they compute (facts on aiter kernels).

use super::*;

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
