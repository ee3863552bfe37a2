//! What a kernel's name says about the call: template parameters, tile, dtypes. Hints and bounds, never a shape.

use super::cpp::{self, Parts};
use super::short;
use std::collections::BTreeMap;

/// Parameters read off a name.
type Parameters = BTreeMap<String, String>;

/// Reads the parameters that a canonical name carries. The map is empty for names it knows nothing about.
///
/// Keys, all optional: `dtype`, `dtype_a`, `dtype_w`, `dtype_out`, `dtype_kv`, `quant`, `tile_m`, `tile_n`, `tile_k`,
/// `split_k`, `transpose_a`, `transpose_b`, `arch`, `head_dim`, `head_dim_v`, `block_size` (KV page, tokens), `partition`
/// (tokens), `gqa` (query heads a KV head), `heads`, `q_len`, `rows`, `causal`, `mode`, `experts`, `topk`, `gated`,
/// `activation`, `hidden_max` (the largest row the instance covers), `add`, `row_bytes`. Values are decimal numbers,
/// `true`/`false` or dtype names as inventories write them. A tile or `hidden_max` bounds a size from one side only, so
/// none of it is a shape.
pub fn parameters(canonical: &str) -> BTreeMap<String, String> {
    let mut found = Parameters::new();
    let kernel = short::kernel(canonical);
    let base = kernel.base;
    if canonical.contains("Cijk_") {
        tensile(canonical, &mut found);
    } else if base.starts_with("paged_attention_ll4mi") {
        paged_attention_hip(kernel, &mut found);
    } else if base == "add_rmsnorm_quant_kernel" {
        add_rmsnorm_quant(kernel, &mut found);
    } else if base == "Rmsnorm2dFwd" {
        rmsnorm_ck(kernel, &mut found);
    } else if base.starts_with("Fmha") {
        fmha_ck(kernel, &mut found);
    } else if base.starts_with("store_kvcache") {
        let row = kernel.arguments.and_then(|text| cpp::arguments(text).next()).map(digits);
        put_number(&mut found, "row_bytes", row);
    } else if let Some(tail) = base.strip_prefix("topksoftmax_") {
        topksoftmax(tail, &mut found);
    } else if let Some(tail) = after(base, "matmul_ogs_").or_else(|| after(base, "_matmul_")) {
        matmul_ogs(tail, &mut found);
    } else if let Some(tail) = after(base, "fmha_fwd_") {
        fmha_asm(tail, &mut found);
    } else if base.starts_with("fmoe_") {
        fmoe_asm(base, &mut found);
    } else if base.starts_with("pa_") {
        paged_attention_asm(base, &mut found);
    } else if base.starts_with("mla_") {
        mla_asm(base, &mut found);
    } else if let Some(at) = base.find("gemm_") {
        gemm_asm(base, at, &mut found);
    }
    found
}

fn put(found: &mut Parameters, key: &str, value: impl ToString) {
    found.insert(key.to_owned(), value.to_string());
}

/// Enters a number; anything else is left out.
fn put_number(found: &mut Parameters, key: &str, digits: Option<&str>) {
    if let Some(number) = digits.and_then(|digits| digits.parse::<u64>().ok()) {
        put(found, key, number);
    }
}

/// `key1 x key2 x ...` of a `16x128x256` field, when it has exactly that many numbers.
fn put_tile(found: &mut Parameters, keys: &[&str], field: &str) -> bool {
    let numbers: Option<Vec<u64>> = field.split('x').map(|number| number.parse().ok()).collect();
    match numbers {
        Some(numbers) if numbers.len() == keys.len() => {
            for (key, number) in keys.iter().zip(numbers) {
                put(found, key, number);
            }
            true
        }
        _ => false,
    }
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, tail)| tail)
}

/// The digits a text starts with.
fn digits(text: &str) -> &str {
    let end = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

/// The number behind a prefix in a field: `gqa8` with `gqa` is 8.
fn number_after<'a>(field: &'a str, prefix: &str) -> Option<&'a str> {
    field.strip_prefix(prefix).filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Dtype names as inventories write them; `None` for what is no dtype.
fn dtype(name: &str) -> Option<&'static str> {
    let bare = name.trim().rsplit("::").next().unwrap_or(name).trim_start_matches("__hip_").trim_start_matches("__nv_");
    Some(match bare {
        "bf16" | "bfloat16" | "bfloat16_t" | "BFloat16" | "__bf16" | "noquantBf16" => "bf16",
        "fp16" | "half" | "Half" | "_Float16" | "__half" | "half_t" => "f16",
        "fp32" | "float" => "f32",
        "fp8" | "fp8_t" | "fp8e4nv" | "fp8e4b8" => "fp8",
        "mxfp4" | "fp4" => "fp4_e2m1",
        _ => return None,
    })
}

fn put_dtype(found: &mut Parameters, key: &str, name: &str) {
    if let Some(dtype) = dtype(name) {
        put(found, key, dtype);
    }
}

/// `Cijk_Alik_Bljk_<types>_..._MT<m>x<n>x<k>_..._ISA942`. `Alik` has the summation index first: A is transposed; `Bjlk`
/// has it last of the two: B is transposed. (facts on profile formats 5.2.)
fn tensile(name: &str, found: &mut Parameters) {
    let Some(fields) = after(name, "Cijk_") else { return };
    for (index, field) in fields.split('_').enumerate() {
        match (index, field) {
            (0, "Alik" | "Ailk") => put(found, "transpose_a", field == "Alik"),
            (1, "Bljk" | "Bjlk") => put(found, "transpose_b", field == "Bjlk"),
            (2, types) if found.contains_key("transpose_b") => {
                let dtype = match types {
                    _ if types.starts_with("F8") => Some("fp8"),
                    _ if types.starts_with("I8") => Some("i8"),
                    _ => match types.bytes().next() {
                        Some(b'B') => Some("bf16"),
                        Some(b'H') => Some("f16"),
                        Some(b'S') => Some("f32"),
                        Some(b'D') => Some("f64"),
                        _ => None,
                    },
                };
                if let Some(dtype) = dtype {
                    put(found, "dtype", dtype);
                }
            }
            _ => {
                if let Some(tile) = field.strip_prefix("MT") {
                    put_tile(found, &["tile_m", "tile_n", "tile_k"], tile);
                } else if let Some(arch) = number_after(field, "ISA") {
                    put(found, "arch", format!("gfx{arch}"));
                } else {
                    put_number(found, "split_k", number_after(field, "PostGSU"));
                }
            }
        }
    }
}

/// `<[id,] q type, cache type, [kv enum,] [out type,] block, head, threads, alibi[, soft cap], gqa, ...>`: the flags
/// are found by the first boolean, because versions differ in what stands before. The partition equals the threads.
fn paged_attention_hip(kernel: Parts<'_>, found: &mut Parameters) {
    let arguments: Vec<&str> = kernel.arguments.map(|text| cpp::arguments(text).collect()).unwrap_or_default();
    let types: Vec<&str> = arguments.iter().copied().filter(|text| dtype(text).is_some()).collect();
    if let Some(name) = types.first() {
        put_dtype(found, "dtype", name);
    }
    let is_fp8_cache = arguments.iter().any(|text| text.contains("Fp8KVCacheDataType)") && !text.ends_with(")0"));
    match arguments.iter().position(|text| matches!(*text, "true" | "false")) {
        // The second kernel: <type, out type, head, threads, partition, ...>.
        _ if kernel.base.contains("reduce") => {
            let numbers: Vec<&str> = arguments.iter().copied().filter(|text| text.parse::<u64>().is_ok()).collect();
            put_number(found, "head_dim", numbers.first().copied());
            put_number(found, "partition", numbers.get(2).copied());
        }
        Some(flag) if flag >= 3 => {
            put_number(found, "block_size", arguments.get(flag - 3).copied());
            put_number(found, "head_dim", arguments.get(flag - 2).copied());
            put_number(found, "partition", arguments.get(flag - 1).copied());
            let mut behind = arguments[flag..].iter().copied().filter(|text| !matches!(*text, "true" | "false"));
            put_number(found, "gqa", behind.next());
            if is_fp8_cache {
                put(found, "dtype_kv", "fp8");
            } else if let Some(name) = types.get(1) {
                put_dtype(found, "dtype_kv", name);
            }
        }
        _ => {}
    }
}

/// `<in, out, threads, elements a thread, add, quant, interleave, rows>`: a row has at most threads × elements.
fn add_rmsnorm_quant(kernel: Parts<'_>, found: &mut Parameters) {
    let arguments: Vec<&str> = kernel.arguments.map(|text| cpp::arguments(text).collect()).unwrap_or_default();
    let [input, output, threads, elements, add, quant, ..] = arguments[..] else { return };
    put_dtype(found, "dtype", input);
    put_dtype(found, "dtype_out", output);
    let number = |text: &str| text.parse::<u64>().ok();
    if let Some(hidden) = number(threads).zip(number(elements)).and_then(|(a, b)| a.checked_mul(b)) {
        put(found, "hidden_max", hidden);
    }
    for (key, value) in [("add", add), ("quant", quant)] {
        if matches!(value, "true" | "false") {
            put(found, key, value);
        }
    }
}

/// `Generic2dBlockShape<sequence<1, n>, ...>`: a row has at most n elements; enums tell the fused add and quantisation.
fn rmsnorm_ck(kernel: Parts<'_>, found: &mut Parameters) {
    let text = kernel.arguments.unwrap_or_default();
    if let Some(tail) = after(text, "Rmsnorm2dFwdPipelineProblem<") {
        put_dtype(found, "dtype", tail.split(',').next().unwrap_or_default());
    }
    let row = after(text, "Generic2dBlockShape<")
        .and_then(|tail| after(tail, "sequence<"))
        .and_then(|tail| after(tail, ", "));
    put_number(found, "hidden_max", row.map(digits));
    for (key, mark) in [("add", "Rmsnorm2dFusedAddEnum)"), ("quant", "Rmsnorm2dFusedQuantEnum)")] {
        if let Some(kind) = after(text, mark).map(digits).and_then(|kind| kind.parse::<u32>().ok()) {
            put(found, key, kind != 0);
        }
    }
}

/// Composable kernel attention: the last number of the tile's first sequence is the head dimension it pads to.
fn fmha_ck(kernel: Parts<'_>, found: &mut Parameters) {
    let text = kernel.arguments.unwrap_or_default();
    if let Some(sequence) = after(text, "TileFmhaShape<").and_then(|tail| after(tail, "sequence<")) {
        let sequence = sequence.split('>').next().unwrap_or_default();
        put_number(found, "head_dim", sequence.rsplit(", ").next());
    }
    if let Some(mask) = after(text, "GenericAttentionMask<") {
        put(found, "causal", mask.starts_with("true"));
    }
    if let Some(problem) = after(text, "PipelineProblem<") {
        put_dtype(found, "dtype", problem.split(',').next().unwrap_or_default());
    }
}

/// `{rows}x{experts}x{topk}_{dtype}`.
fn topksoftmax(tail: &str, found: &mut Parameters) {
    for field in tail.split('_') {
        if !put_tile(found, &["rows", "experts", "topk"], field) {
            put_dtype(found, "dtype", field);
        }
    }
}

/// `{layouts}_{out}x{x}x{w}_{m}x{n}x{k}x{split}[_activation]`.
fn matmul_ogs(tail: &str, found: &mut Parameters) {
    for field in tail.split('_') {
        if put_tile(found, &["tile_m", "tile_n", "tile_k", "split_k"], field) {
            continue;
        }
        match field.split('x').collect::<Vec<_>>()[..] {
            // `mxfp4` holds an x itself.
            [output, input, "m", "fp4"] => {
                put_dtype(found, "dtype_out", output);
                put_dtype(found, "dtype_a", input);
                put(found, "dtype_w", "fp4_e2m1");
            }
            [output, input, weight] => {
                put_dtype(found, "dtype_out", output);
                put_dtype(found, "dtype_a", input);
                put_dtype(found, "dtype_w", weight);
            }
            _ => activation(field, found),
        }
    }
}

fn activation(field: &str, found: &mut Parameters) {
    if matches!(field, "silu" | "gelu" | "swiglu") {
        put(found, "activation", field);
    }
}

/// `hd{d}[_hd{dv}]_{dtype}[_causal][_rounding][_group]`.
fn fmha_asm(tail: &str, found: &mut Parameters) {
    let mut causal = false;
    let mut mode = "batch";
    for field in tail.split('_') {
        if let Some(size) = number_after(field, "hd") {
            let key = if found.contains_key("head_dim") { "head_dim_v" } else { "head_dim" };
            put_number(found, key, Some(size));
        }
        causal |= field == "causal";
        if field == "group" {
            mode = "group";
        }
        put_dtype(found, "dtype", field);
    }
    put(found, "causal", causal);
    put(found, "mode", mode);
}

/// The quantisation word of assembly kernels: `pertokenFp8`, `blockscaleFp8`, `noquant`.
fn quantisation(field: &str, found: &mut Parameters) {
    const SCHEMES: &[&str] = &["noquant", "pertoken", "perToken", "blockscale", "per1x32"];
    if let Some(scheme) = SCHEMES.iter().find(|scheme| field.starts_with(*scheme)) {
        put(found, "quant", scheme.to_ascii_lowercase());
        let dtype = match &field[scheme.len()..] {
            "Fp8" => Some("fp8"),
            "Int8" | "I8" => Some("i8"),
            "MXfp4" | "Fp4" => Some("fp4_e2m1"),
            "Bf16" => Some("bf16"),
            _ => None,
        };
        if let Some(dtype) = dtype {
            put(found, "dtype_w", dtype);
        }
    }
}

/// `fmoe_{out}_{quant}_{g1u1|g1u0}_..._{silu|gelu}_..._{m}x{n}`.
fn fmoe_asm(base: &str, found: &mut Parameters) {
    for (index, field) in base.split('_').enumerate() {
        if index == 1 {
            put_dtype(found, "dtype_out", field);
        }
        if matches!(field, "g1u1" | "g1u0") {
            put(found, "gated", field == "g1u1");
        }
        quantisation(field, found);
        activation(field, found);
        put_tile(found, &["tile_m", "tile_n"], field);
    }
}

/// `pa_{dtype}_{quant}_gqa{n}_..._[qlen{n}]`; here the quantised operand is the KV cache.
fn paged_attention_asm(base: &str, found: &mut Parameters) {
    for field in base.split('_') {
        put_dtype(found, "dtype", field);
        quantisation(field, found);
        put_number(found, "gqa", number_after(field, "gqa"));
        put_number(found, "q_len", number_after(field, "qlen"));
    }
    if let Some(dtype) = found.remove("dtype_w") {
        put(found, "dtype_kv", dtype);
    }
}

/// `mla_a{bits}w{bits}_qh{heads}_..._qseqlen{n}_gqaratio{n}`: bits of the query and of the cache.
fn mla_asm(base: &str, found: &mut Parameters) {
    for field in base.split('_') {
        put_number(found, "q_len", number_after(field, "qseqlen"));
        put_number(found, "gqa", number_after(field, "gqaratio"));
        put_number(found, "heads", number_after(field, "qh"));
        if let Some((query, cache)) = field.strip_prefix('a').and_then(|bits| bits.split_once('w')) {
            let dtype = |bits| match bits {
                "16" => Some("bf16"),
                "8" => Some("fp8"),
                _ => None,
            };
            if let Some((query, cache)) = dtype(query).zip(dtype(cache)) {
                put(found, "dtype", query);
                put(found, "dtype_kv", cache);
            }
        }
    }
}

/// `{dtype}gemm_{out}_..._{m}x{n}`.
fn gemm_asm(base: &str, at: usize, found: &mut Parameters) {
    let dtype_a = match &base[..at] {
        "bf16" => Some("bf16"),
        "fp8" => Some("fp8"),
        "I8" => Some("i8"),
        "f4" => Some("fp4_e2m1"),
        _ => None,
    };
    let Some(dtype_a) = dtype_a else { return };
    put(found, "dtype", dtype_a);
    for (index, field) in base[at + "gemm_".len()..].split('_').enumerate() {
        if index == 0 {
            // `fp32bf16`: accumulator or output in f32, then bf16.
            put_dtype(found, "dtype_out", field);
        }
        quantisation(field, found);
        put_tile(found, &["tile_m", "tile_n"], field);
    }
    found.remove("dtype_w");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::canonical;
    use proptest::prelude::*;

    /// Names and meanings: facts on profile formats 6.3 (5), facts on aiter kernels 1.1 to 1.7 and 2.2.
    #[test]
    fn parameters_of_every_kind() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            (
                "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN_ISA942_WG64_4_1",
                &[
                    ("arch", "gfx942"),
                    ("dtype", "bf16"),
                    ("tile_k", "64"),
                    ("tile_m", "256"),
                    ("tile_n", "32"),
                    ("transpose_a", "true"),
                    ("transpose_b", "false"),
                ],
            ),
            (
                "Cijk_Ailk_Bjlk_S_B_Bias_HA_S_SAV_UserArgs_MT32x16x8_MI16x16x1_ISA90",
                &[
                    ("arch", "gfx90"),
                    ("dtype", "f32"),
                    ("tile_k", "8"),
                    ("tile_m", "32"),
                    ("tile_n", "16"),
                    ("transpose_a", "false"),
                    ("transpose_b", "true"),
                ],
            ),
            ("Cijk_SB_BiasS_HAS_ScaleAlphaVec_PostGSU16_VW4", &[("split_k", "16")]),
            (
                "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0, 1, 128, 256, false, 4, 1, ck_tile::ComposedAttention<0u, false> >(int)",
                &[
                    ("block_size", "1"),
                    ("dtype", "bf16"),
                    ("dtype_kv", "bf16"),
                    ("gqa", "4"),
                    ("head_dim", "128"),
                    ("partition", "256"),
                ],
            ),
            (
                // vLLM's form with an fp8 cache; aiter's ragged form has a second flag before the ratio.
                "void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1, __hip_bfloat16, 16, 64, 256, false, true, 8>(int)",
                &[
                    ("block_size", "16"),
                    ("dtype", "bf16"),
                    ("dtype_kv", "fp8"),
                    ("gqa", "8"),
                    ("head_dim", "64"),
                    ("partition", "256"),
                ],
            ),
            (
                "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, __hip_bfloat16, 128, 128, 256, 3, false>(int)",
                &[("dtype", "bf16"), ("head_dim", "128"), ("partition", "256")],
            ),
            (
                "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
                &[
                    ("add", "true"),
                    ("dtype", "bf16"),
                    ("dtype_out", "bf16"),
                    ("hidden_max", "4096"),
                    ("quant", "false"),
                ],
            ),
            (
                "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_27Rmsnorm2dFwdPipelineProblemIDF16bDF16bfDF16bDF16bDF16bffNS_19Generic2dBlockShapeINS_8sequenceIJLi1ELi3072EEEENS5_IJLi1ELi128EEEENS5_IJLi1ELi8EEEEEENS_18Rmsnorm2dFwdTraitsILb1ELb0ELb0ELb0ELNS_21Rmsnorm2dFusedAddEnumE1ELNS_23Rmsnorm2dFusedQuantEnumE0ELNS_22Rmsnorm2dSensitiveEnumE0EEEEENS_33Rmsnorm2dFwdPipelineDefaultPolicyEEENS_17Default2DEpilogueINS_24Default2DEpilogueProblemIfDF16bLb0ELb1ELb0EEEvEEEEJNSM_5KargsEEEEvDpT1_",
                &[("add", "true"), ("dtype", "bf16"), ("hidden_max", "3072"), ("quant", "false")],
            ),
            (
                "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelINS_40BlockFmhaBatchPrefillPipelineQRKSVSAsyncINS_36BlockFmhaBatchPrefillPipelineProblemIDF16bDF16bDF16bffDF16bhfDF16bfDF16bNS_13TileFmhaShapeINS_8sequenceIJLi128ELi128ELi32ELi128ELi32ELi128EEEENS5_IJLi4ELi1ELi1EEEENS5_IJLi32ELi32ELi16EEEES7_S8_Lb1EEELb1ENS_17ComposedAttentionILj0ELb1EEENS_30SimplifiedGenericAttentionMaskILb1EEELb0ELi1ENS_26TileFmhaBatchPrefillTraitsILb1ELb1ELb1ELb1ELb0ELNS_22BlockAttentionBiasEnumE0ELb0ELb0ELb0ELNS_28BlockAttentionQuantScaleEnumE0ELin1ELb0ELb0ELi1ELNS_37BlockAttentionKVCacheMemoryLayoutEnumE1ELNS_36BlockAttentionKVCacheLookupTableEnumE1ELNS_33BlockAttentionKVCacheLoadModeEnumE0EEEEENS_53BlockFmhaBatchPrefillPipelineQRKSVSAsyncDefaultPolicyEEENS_17Default2DEpilogueINS_24Default2DEpilogueProblemIfDF16bLb1ELb1ELb1EEEvEEEEJNSS_21FmhaFwdGroupModeKargsEEEEvDpT1_",
                &[("causal", "true"), ("dtype", "bf16"), ("head_dim", "128")],
            ),
            (
                "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>((anonymous namespace)::StoreKVCacheParams)",
                &[("row_bytes", "2048")],
            ),
            ("aiter::topksoftmax_4x128x8_bf16", &[("dtype", "bf16"), ("experts", "128"), ("rows", "4"), ("topk", "8")]),
            (
                "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",
                &[
                    ("activation", "swiglu"),
                    ("dtype_a", "bf16"),
                    ("dtype_out", "bf16"),
                    ("dtype_w", "fp4_e2m1"),
                    ("split_k", "1"),
                    ("tile_k", "256"),
                    ("tile_m", "16"),
                    ("tile_n", "128"),
                ],
            ),
            (
                "_ZN5aiter24fmha_fwd_hd128_bf16_rtneE",
                &[("causal", "false"), ("dtype", "bf16"), ("head_dim", "128"), ("mode", "batch")],
            ),
            (
                "fmha_fwd_hd192_hd128_bf16_causal_group",
                &[("causal", "true"), ("dtype", "bf16"), ("head_dim", "192"), ("head_dim_v", "128"), ("mode", "group")],
            ),
            (
                "_ZN5aiter31pa_bf16_pertokenFp8_gqa8_2tg_4wE",
                &[("dtype", "bf16"), ("dtype_kv", "fp8"), ("gqa", "8"), ("quant", "pertoken")],
            ),
            (
                "_ZN5aiter47fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256E",
                &[
                    ("activation", "silu"),
                    ("dtype_out", "bf16"),
                    ("dtype_w", "fp8"),
                    ("gated", "true"),
                    ("quant", "blockscale"),
                    ("tile_m", "32"),
                    ("tile_n", "256"),
                ],
            ),
            (
                "mla_a16w8_qh16_qseqlen2_gqaratio16_ps",
                &[("dtype", "bf16"), ("dtype_kv", "fp8"), ("gqa", "16"), ("heads", "16"), ("q_len", "2")],
            ),
            (
                "_ZN5aiter43fp8gemm_bf16_blockscale_BpreShuffle_128x128E",
                &[
                    ("dtype", "fp8"),
                    ("dtype_out", "bf16"),
                    ("quant", "blockscale"),
                    ("tile_m", "128"),
                    ("tile_n", "128"),
                ],
            ),
            ("kernel_unified_attention_2d", &[]),
            ("", &[]),
        ];
        for (raw, expected) in cases {
            let found = parameters(&canonical(raw));
            let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(found, *expected, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_accepted(head in prop::sample::select(vec![
            "Cijk_", "paged_attention_ll4mi<", "add_rmsnorm_quant_kernel<", "Rmsnorm2dFwd<", "FmhaX<", "store_kvcache<",
            "topksoftmax_", "_matmul_ogs_", "fmha_fwd_", "fmoe_", "pa_", "mla_", "bf16gemm_",
        ]), tail in r"[a-z0-9x_<>(),é ]{0,40}") {
            parameters(&format!("{head}{tail}"));
        }
    }
}
