//! Shapes held against what kernels say of themselves: parameters in their names, and the grids they were launched with.
//!
//! Only what the kernel's launch rule fixes is checked:
//! - RMSNorm (aiter's `add_rmsnorm_quant_kernel`, Composable Kernel's `Rmsnorm2dFwd` of one row a block), PyTorch's `vectorized_layer_norm_kernel` and SGLang's
//!   `act_and_mul_kernel`: one workgroup a row.
//! - `paged_attention_ll4mi_QKV`: grid (sequences, partitions, KV heads); aiter's assembly `pa_*`: (KV heads, sequences, 1).
//! - Tensile GEMMs without stream-K: a whole multiple (the split of K) of the tiles that cover m x n, batch by batch.

use super::run::Run;
use super::shapes::{ShapeId, Shapes};
use crate::health::Health;
use crate::inventory::Severity;
use crate::kineto::Geometry;
use crate::names::{parameters, short};
use crate::naming::{KernelId, Names};
use kbench_workload::{Family, ShapeMap};
use std::collections::{BTreeMap, HashMap};

/// Parameters that a name carries.
type Parameters = BTreeMap<String, String>;

/// Kernels that contradict their shapes, with the first example.
#[derive(Default)]
struct Contradictions {
    kernels: u64,
    ns: u128,
    first: Option<String>,
}

/// Reports kernels whose name or grid contradicts the shape that they were given.
pub(super) fn check(run: &Run<'_>, names: &mut Names, shapes: &Shapes, health: &mut Health) {
    type Verdict = [Option<String>; 2];
    let mut read: HashMap<KernelId, Parameters> = HashMap::new();
    let mut verdicts: HashMap<(KernelId, ShapeId, Option<Geometry>), Verdict> = HashMap::new();
    let mut found = [("name_disagrees", "names"), ("grid_disagrees", "launch grids")]
        .map(|(code, what)| (code, what, Contradictions::default()));
    for kernel in &run.kernels {
        let Some(id) = kernel.shape else { continue };
        let given = shapes.get(id);
        let Some(family) = given.family else { continue };
        let verdict = verdicts.entry((kernel.id, id, kernel.geometry)).or_insert_with(|| {
            let name = names.canonical(kernel.id);
            let says = read.entry(kernel.id).or_insert_with(|| parameters(name));
            let grid = kernel.geometry.and_then(|geometry| geometry.grid);
            let by_name = name_contradicts(family, says, &given.shape.shape);
            let by_grid = grid.and_then(|grid| grid_contradicts(family, name, says, &given.shape.shape, grid));
            [by_name, by_grid]
                .map(|reason| reason.map(|reason| format!("{} at {}: {reason}", short(name), given.shape.shape)))
        });
        for (reason, (.., found)) in verdict.iter().zip(&mut found) {
            if let Some(reason) = reason {
                found.kernels += 1;
                found.ns += u128::from(kernel.event.dur_ns);
                found.first.get_or_insert_with(|| reason.clone());
            }
        }
    }
    for (code, what, found) in found {
        if let Some(first) = found.first {
            let text = format!(
                "the {what} of {} kernels ({:.1} % of kernel time) contradict the shapes that were recovered for them; the first: {first}",
                found.kernels,
                100.0 * found.ns as f64 / run.kernel_ns().max(1) as f64
            );
            health.tell(Severity::Warning, code, text);
        }
    }
}

fn number(says: &Parameters, key: &str) -> Option<u64> {
    says.get(key)?.parse().ok()
}

fn size(shape: &ShapeMap, key: &str) -> Option<u64> {
    shape.int(key).ok().flatten()
}

/// Why a name cannot be that of a kernel of the shape.
fn name_contradicts(family: Family, says: &Parameters, shape: &ShapeMap) -> Option<String> {
    let differs = |key: &str, found: Option<u64>| {
        let (said, found) = (number(says, key)?, found?);
        (said != found).then(|| format!("the name says {key} {said}, not {found}"))
    };
    match family {
        Family::PagedAttention => {
            let gqa = size(shape, "q_heads").zip(size(shape, "kv_heads"));
            let gqa = gqa.and_then(|(queries, keys)| queries.checked_div(keys));
            differs("head_dim", size(shape, "head_dim"))
                .or_else(|| differs("gqa", gqa))
                .or_else(|| differs("q_len", size(shape, "q_len")))
        }
        Family::Rmsnorm => {
            let (most, hidden) = (number(says, "hidden_max")?, size(shape, "hidden")?);
            (hidden > most).then(|| format!("the instance covers rows of {most} elements at most, not {hidden}"))
        }
        Family::MoeGate => differs("experts", size(shape, "experts")).or_else(|| differs("topk", size(shape, "topk"))),
        // Padded up to the instance's size.
        Family::Fmha => {
            let (most, head_dim) = (number(says, "head_dim")?, size(shape, "head_dim")?);
            (head_dim > most).then(|| format!("the instance covers heads of {most} elements at most, not {head_dim}"))
        }
        _ => None,
    }
}

/// Why a grid (in workgroups) cannot be that of a kernel of the shape.
fn grid_contradicts(family: Family, name: &str, says: &Parameters, shape: &ShapeMap, grid: [u32; 3]) -> Option<String> {
    let [x, y, z] = grid.map(u64::from);
    // Old traces write a grid of zeros when they know none.
    if x == 0 || y == 0 || z == 0 {
        return None;
    }
    let differs = |what: &str, found: u64, expected: Option<u64>| {
        let expected = expected?;
        (found != expected).then(|| format!("the grid ({x}, {y}, {z}) has {found} {what}, not {expected}"))
    };
    let has = |part: &str| name.contains(part);
    match family {
        Family::Rmsnorm if has("add_rmsnorm_quant_kernel") || has("vectorized_layer_norm_kernel") => {
            differs("rows", x, size(shape, "rows"))
        }
        Family::Rmsnorm if has("Rmsnorm2dFwd") && has("Generic2dBlockShape<ck_tile::sequence<1,") => {
            differs("rows", x, size(shape, "rows"))
        }
        Family::Activation if has("act_and_mul_kernel") => differs("rows", x, size(shape, "rows")),
        Family::PagedAttention => {
            let (sequences, kv_heads) = match () {
                () if has("paged_attention_ll4mi_QKV") => (x, z),
                () if short(name).starts_with("pa_") && z == 1 => (y, x),
                () => return None,
            };
            differs("KV heads", kv_heads, size(shape, "kv_heads"))
                .or_else(|| differs("sequences", sequences, sequences_of(shape).filter(|batch| *batch > sequences)))
        }
        Family::Gemm if has("Cijk_") && !is_stream_k(name) => {
            let tiles = tiles(says, shape)?;
            let groups = x.checked_mul(y)?.checked_mul(z)?;
            let covers = |tiles: u64| groups.is_multiple_of(tiles);
            (!tiles.into_iter().any(covers)).then(|| {
                format!("the grid has {groups} workgroups, no multiple of the {} tiles that cover the output", tiles[0])
            })
        }
        _ => None,
    }
}

/// Sequences of an attention shape. A graph may run more, as padding.
fn sequences_of(shape: &ShapeMap) -> Option<u64> {
    size(shape, "batch").or_else(|| shape.list("ctx").ok().flatten().map(|contexts| contexts.len() as u64))
}

/// Tiles over the output, for tile m along the output's columns (as PyTorch calls a column-major library) and along its rows.
fn tiles(says: &Parameters, shape: &ShapeMap) -> Option<[u64; 2]> {
    let (tile_m, tile_n) = (number(says, "tile_m")?, number(says, "tile_n")?);
    let (m, n) = (size(shape, "m")?, size(shape, "n")?);
    if tile_m == 0 || tile_n == 0 {
        return None;
    }
    let batch = size(shape, "batch").unwrap_or(1);
    let cover = |a: u64, b: u64| a.div_ceil(tile_m).checked_mul(b.div_ceil(tile_n))?.checked_mul(batch);
    let both = [cover(n, m)?, cover(m, n)?];
    both.iter().all(|tiles| *tiles > 0).then_some(both)
}

/// `_SK3_`: workgroups share tiles, so that their number follows from the device.
fn is_stream_k(name: &str) -> bool {
    name.split('_').any(|field| {
        let kind =
            field.strip_prefix("SK").filter(|kind| !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_digit()));
        kind.is_some_and(|kind| kind.bytes().any(|byte| byte != b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::canonical;

    fn contradiction(family: Family, name: &str, shape: &str, grid: [u32; 3]) -> Option<String> {
        let name = canonical(name);
        let (says, shape) = (parameters(&name), shape.parse().unwrap());
        name_contradicts(family, &says, &shape).or_else(|| grid_contradicts(family, &name, &says, &shape, grid))
    }

    const GEMM: &str = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN";
    const NORM: &str =
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib";
    const ATTENTION: &str = "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0, 1, 128, 256, false, 4, 1, ck_tile::ComposedAttention<0u, false> >(int)";
    const HEADS: &str = "q_heads=32,kv_heads=8,head_dim=128,batch=32,ctx_total=32785";

    /// Grids as launched in the Qwen3-8B prefill and decode traces and the BERT one, in workgroups.
    #[test]
    fn real_launches_agree() {
        for (family, name, shape, grid) in [
            (Family::Gemm, GEMM, "m=15360,n=6144,k=4096", [1920, 1, 1]),
            // K split three ways: 3 x 96 tiles.
            (Family::Gemm, "Cijk_Alik_Bljk_BBS_MT64x32x256_MI16x16x1_SN", "m=32,n=6144,k=4096", [288, 1, 1]),
            (Family::Gemm, "Cijk_Ailk_Bljk_B_MT16x448x64_MI16x16x1_SN", "m=8,n=8,k=64,batch=37632", [37632, 1, 1]),
            (Family::Rmsnorm, NORM, "rows=15360,hidden=4096", [15360, 1, 1]),
            (Family::PagedAttention, ATTENTION, HEADS, [32, 160, 8]),
            // A graph of 40 sequences, 8 of them padding.
            (Family::PagedAttention, ATTENTION, HEADS, [40, 160, 8]),
        ] {
            assert_eq!(contradiction(family, name, shape, grid), None, "{name} {shape}");
        }
    }

    #[test]
    fn wrong_shapes_are_told_by_name_or_grid() {
        for (family, name, shape, grid, part) in [
            (Family::Gemm, GEMM, "m=15360,n=6144,k=4096", [1919, 1, 1], "no multiple of the 1920 tiles"),
            (Family::Gemm, GEMM, "m=15360,n=4096,k=4096", [1920, 1, 1], "no multiple"),
            (Family::Rmsnorm, NORM, "rows=15359,hidden=4096", [15360, 1, 1], "15360 rows, not 15359"),
            (Family::Rmsnorm, NORM, "rows=15360,hidden=8192", [15360, 1, 1], "4096 elements at most"),
            (Family::PagedAttention, ATTENTION, HEADS, [32, 160, 4], "4 KV heads, not 8"),
            (Family::PagedAttention, ATTENTION, HEADS, [16, 160, 8], "16 sequences, not 32"),
            (
                Family::PagedAttention,
                ATTENTION,
                "q_heads=32,kv_heads=8,head_dim=64,batch=32,ctx=9",
                [32, 1, 8],
                "head_dim 128, not 64",
            ),
            (
                Family::PagedAttention,
                ATTENTION,
                "q_heads=64,kv_heads=8,head_dim=128,batch=32,ctx=9",
                [32, 1, 8],
                "gqa 4, not 8",
            ),
        ] {
            let found = contradiction(family, name, shape, grid);
            assert!(found.as_ref().is_some_and(|found| found.contains(part)), "{name} {shape}: {found:?}");
        }
    }

    #[test]
    fn what_is_not_fixed_is_not_judged() {
        let stream_k = "Cijk_Alik_Bljk_BBS_MT256x192x64_MI16x16x1_SN_SK3_ISA942";
        assert_eq!(contradiction(Family::Gemm, stream_k, "m=15360,n=6144,k=4096", [304, 1, 1]), None);
        assert!(!is_stream_k("Cijk_Alik_Bljk_BBS_MT256x192x64_SKFTR0_SKXCCM0_SK0"));
        assert_eq!(contradiction(Family::Rmsnorm, NORM, "rows=5,hidden=4096", [0, 0, 0]), None);
        assert_eq!(contradiction(Family::Rmsnorm, "triton_red_fused_rms_norm_0", "rows=5,hidden=64", [9, 1, 1]), None);
    }
}
