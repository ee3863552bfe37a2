//! Names behind aliases of other tools, and kernels of PyTorch, MIOpen, rocPRIM and Inductor.

use super::*;

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
