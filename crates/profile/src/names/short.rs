//! Names of limited width for tables.

use super::cpp::{self, Parts};

/// Launchers that only carry the kernel: its type is their first template argument that is a type.
const WRAPPERS: &[&str] = &["kentry", "kentry_pt", "kentry2"];

/// Kernels that say little without the operation they are instantiated with.
const CARRIERS: &[&str] = &[
    "vectorized_elementwise_kernel",
    "vectorized_templated_elementwise_kernel",
    "elementwise_kernel",
    "elementwise_kernel_manual_unroll",
    "elementwise_kernel_with_index",
    "unrolled_elementwise_kernel",
    "unrolled_elementwise_kernel_for_multi_outputs",
    "legacy_elementwise_kernel",
    "index_elementwise_kernel",
    "distribution_elementwise_grid_stride_kernel",
    "reduce_kernel",
    "multi_tensor_apply_kernel",
    "trampoline_kernel",
    "act_and_mul_kernel",
];

/// Words inside a carrier's arguments that do not name the operation.
const FILLERS: &[&str] = &[
    "anonymous",
    "namespace",
    "gpu_kernel_impl",
    "gpu_kernel_impl_nocast",
    "gpu_index_kernel",
    "opmath_symmetric_gpu_kernel_with_scalars",
    "AUnaryFunctor",
    "BUnaryFunctor",
    "BinaryFunctor",
    "UnaryOpFunctor",
    "BinaryOpScalarFunctor",
    "BinaryOpListAlphaFunctor",
    "ReduceOp",
    "func_wrapper_t",
    "TensorListMetadata",
    "TensorListScalarListMetadata",
    "FusedOptimizerTensorListMetadata",
    "default_config",
    "target_arch",
    "lambda",
    "operator",
    "void",
    "bool",
    "char",
    "short",
    "int",
    "unsigned",
    "signed",
    "long",
    "float",
    "double",
    "half",
    "const",
    "true",
    "false",
    "BFloat16",
    "Half",
    "bfloat16_t",
    "_Float16",
    "__hip_bfloat16",
    "__nv_bfloat16",
    "__half",
];

/// A short name of a canonical name: without result, namespaces, parameters and, mostly, template arguments.
///
/// - PyTorch's generic kernels keep the operation: `vectorized_elementwise_kernel<CUDAFunctor_add>`.
/// - Launchers give what they launch: `ck_tile::kentry<2, ck_tile::MoeSortingKernel<...>, ...>` is `MoeSortingKernel`.
/// - Tensile names keep layouts, types and macro tile: `Cijk_Alik_Bljk_BBS_BH_MT256x32x64`.
pub fn short(canonical: &str) -> String {
    if let Some(tensile) = tensile(canonical) {
        return tensile;
    }
    let Parts { base, arguments } = kernel(canonical);
    let hint = arguments.filter(|_| CARRIERS.contains(&base)).and_then(operation);
    match hint {
        Some(operation) => format!("{base}<{operation}>"),
        None => base.to_owned(),
    }
}

/// The parts of the kernel that really runs: launchers are looked through.
pub(super) fn kernel(canonical: &str) -> Parts<'_> {
    let outer = cpp::parts(canonical);
    let inner = outer
        .arguments
        .filter(|_| WRAPPERS.contains(&outer.base))
        .and_then(|arguments| cpp::arguments(arguments).find(|argument| argument.contains(['<', ':'])))
        .map(cpp::parts)
        .filter(|inner| !inner.base.is_empty());
    if let Some(inner) = inner {
        return inner;
    }
    // A copy's name has words, not a path: `Memcpy HtoD (Host -> Device)`.
    match canonical.split_once(" (") {
        Some((words, _)) if outer.base.is_empty() || words.starts_with("Mem") => Parts { base: words, arguments: None },
        _ if outer.base.is_empty() => Parts { base: canonical, arguments: None },
        _ => outer,
    }
}

/// The first identifier of a carrier's arguments that names an operation: neither a namespace nor a type or wrapper.
fn operation(arguments: &str) -> Option<&str> {
    cpp::identifiers(arguments)
        .find(|(word, behind)| {
            !behind.starts_with("::")
                && !FILLERS.contains(word)
                && !word.starts_with(|first: char| first.is_ascii_digit())
                && !word.starts_with("ROCPRIM_")
        })
        .map(|(word, _)| word)
}

/// Layouts, types and macro tile of a Tensile kernel: the tuning parameters behind them fill hundreds of bytes.
fn tensile(name: &str) -> Option<String> {
    let start = name.find("Cijk_")?;
    let mut kept: Vec<&str> = Vec::new();
    let mut tile = None;
    let mut is_head = true;
    for field in name[start..].split('_') {
        if field.starts_with("MT") && field[2..].starts_with(|next: char| next.is_ascii_digit()) {
            tile = Some(field);
            break;
        }
        is_head &= !matches!(field, "Bias" | "HA" | "HAS" | "SAV" | "UserArgs" | "SN");
        if is_head || field.starts_with("PostGSU") {
            kept.push(field);
        }
    }
    let tile = tile.or_else(|| kept.iter().any(|field| field.starts_with("PostGSU")).then_some(""));
    let prefix = &name[..start];
    tile.map(|tile| {
        kept.extend((!tile.is_empty()).then_some(tile));
        format!("{prefix}{}", kept.join("_"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::canonical;

    /// Names of the traces described in facts on profile formats (section 10); the short form is read off by eye.
    #[test]
    fn short_names() {
        let cases: &[(&str, &str)] = &[
            (
                "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
                "add_rmsnorm_quant_kernel",
            ),
            (
                "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0, 1>(int)",
                "paged_attention_ll4mi_QKV_mfma16_kernel",
            ),
            (
                "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN_LDSB1_WG64_4_1",
                "Cijk_Alik_Bljk_BBS_BH_MT256x32x64",
            ),
            (
                "Custom_Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x128_MI16x16x1",
                "Custom_Cijk_Alik_Bljk_F8BS_BH_MT256x256x128",
            ),
            ("Cijk_SB_BiasS_HAS_ScaleAlphaVec_PostGSU16_VW4.kd", "Cijk_SB_BiasS_PostGSU16"),
            (
                "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
                "vectorized_elementwise_kernel<CUDAFunctor_add>",
            ),
            (
                "void at::native::elementwise_kernel_manual_unroll<128, 8, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&)::{lambda(int, bool)#1}>(int)",
                "elementwise_kernel_manual_unroll<MulFunctor>",
            ),
            (
                "void at::native::elementwise_kernel<512, 1, at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)::{lambda(int)#1}>(int)",
                "elementwise_kernel<direct_copy_kernel_cuda>",
            ),
            (
                "void at::native::vectorized_elementwise_kernel<8, at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}, std::array<char*, 2ul> >(int)",
                "vectorized_elementwise_kernel<silu_kernel>",
            ),
            (
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(int)",
                "reduce_kernel<ArgMaxOps>",
            ),
            (
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::CopyFunctor<int, long, 2, 1, 1>, at::native::Copy<int, long> >(int)",
                "multi_tensor_apply_kernel<CopyFunctor>",
            ),
            (
                "void rocprim::ROCPRIM_400200_NS::detail::trampoline_kernel<rocprim::ROCPRIM_400200_NS::detail::wrapped_scan_config<rocprim::ROCPRIM_400200_NS::default_config, long>, (rocprim::ROCPRIM_400200_NS::detail::target_arch)942>(int)",
                "trampoline_kernel<wrapped_scan_config>",
            ),
            (
                "void ck_tile::kentry<2, ck_tile::MoeSortingKernel<ck_tile::MoeSortingProblemEx<int, float, 2, true> >, ck_tile::MoeSortingKernel<int>::Kargs>(int)",
                "MoeSortingKernel",
            ),
            ("Memcpy HtoD (Host -> Device)", "Memcpy HtoD"),
            ("Memset (Device)", "Memset"),
            (
                "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",
                "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",
            ),
            ("vectorized_elementwise_kernel", "vectorized_elementwise_kernel"),
            ("", ""),
        ];
        for (raw, expected) in cases {
            assert_eq!(short(&canonical(raw)), *expected, "{raw}");
        }
    }
}
