//! Shapes from the parameters in a kernel's name, filled up by its step's label and its launch.
//!
//! A name alone bounds sizes, it does not give them. A few kernels carry all but the batch in it: there the label gives the batch and the
//! launch geometry what is split over GPUs. The families are those whose name parameters are exact, not bounds of a tile:
//! - `paged_attention_ll4mi` (vLLM, aiter): head size, query heads a KV head, page and dtypes in the name; grid (sequences, partitions, KV heads).
//! - `topksoftmax_{rows}x{experts}x{topk}` (aiter): the router; the rows are those of one workgroup, so the label gives them.
//! - `store_kvcache<bytes>` (SGLang): bytes of one token's row.

use super::run::{Run, RunKernel};
use super::shapes::{Given, ShapeId, Shapes};
use super::steps::StepId;
use crate::inventory::{Phase, Provenance};
use crate::kineto::Geometry;
use crate::labels::{Padding, Step};
use crate::ledger::Shape;
use crate::names::parameters;
use crate::naming::{KernelId, Names};
use kbench_workload::{Dtype, DtypeTag, Dtypes, Family, ShapeMap};
use std::collections::{BTreeMap, HashMap};

/// Parameters that a name carries.
type Parameters = BTreeMap<String, String>;

/// Gives kernels without a shape, or with nothing but the dims of an operator that no family knows, what their name, step and launch tell. A
/// kernel that only finishes what the one before it on its stream began (a reduction) goes with it.
pub(super) fn join(run: &mut Run<'_>, names: &mut Names, shapes: &mut Shapes) {
    let mut read: HashMap<KernelId, Parameters> = HashMap::new();
    let mut known: HashMap<(KernelId, StepId, Option<Geometry>), Option<ShapeId>> = HashMap::new();
    let mut made: Vec<(Family, Shape, ShapeId)> = Vec::new();
    let mut before: Option<(RunKernel<'_>, Family, ShapeId)> = None;
    for index in 0..run.kernels.len() {
        let kernel = run.kernels[index];
        let begun = before.take();
        let Some(step) = kernel.standing.step else { continue };
        let (family, category) = names.class(kernel.id, kernel.op.map(|op| run.trace.name(op)));
        let is_open = kernel.shape.is_none_or(|shape| shapes.get(shape).family.is_none() && family.is_replayable());
        if !is_open {
            continue;
        }
        if let Some((leading, of_family, shape)) = begun
            && category.contains("Reduce")
            && of_family == family
            && leading.event.track == kernel.event.track
            && leading.standing.step == Some(step)
        {
            run.kernels[index].shape = Some(shape);
            continue;
        }
        let shape = *known.entry((kernel.id, step, kernel.geometry)).or_insert_with(|| {
            let found = read.entry(kernel.id).or_insert_with(|| parameters(names.canonical(kernel.id)));
            let shape = shape(family, found, run.steps.get(step), kernel.geometry.and_then(|geometry| geometry.grid))?;
            let same = made.iter().find(|(known, made, _)| *known == family && *made == shape);
            Some(same.map(|(.., id)| *id).unwrap_or_else(|| {
                let id = shapes.add(Given { family: Some(family), shape: shape.clone() });
                made.push((family, shape, id));
                id
            }))
        });
        if let Some(shape) = shape {
            run.kernels[index].shape = Some(shape);
            before = Some((kernel, family, shape));
        }
    }
}

fn shape(family: Family, found: &Parameters, step: &Step, grid: Option<[u32; 3]>) -> Option<Shape> {
    match family {
        Family::PagedAttention => paged_attention(found, step, grid?),
        Family::MoeGate => {
            let (experts, topk) = (number(found, "experts")?, number(found, "topk")?);
            let (rows, assumed) = rows(step)?;
            let shape = ShapeMap::new().with("tokens", rows).with("experts", experts).with("topk", topk);
            Some(named(shape, dtypes(found), assumed))
        }
        Family::KvCache => {
            let bytes = number(found, "row_bytes")?;
            let (rows, mut assumed) = rows(step)?;
            assumed.push(format!("the name tells the {bytes} B of a token's row alone: taken as one head of bf16"));
            let shape = ShapeMap::new().with("tokens", rows).with("kv_heads", 1).with("head_dim", bytes / 2);
            Some(named(shape, Dtypes::uniform(Dtype::Bf16), assumed))
        }
        _ => None,
    }
}

/// Heads from the grid, head size and page from the name, contexts from the label.
fn paged_attention(found: &Parameters, step: &Step, grid: [u32; 3]) -> Option<Shape> {
    let [sequences, _, kv_heads] = grid.map(u64::from);
    let (head_dim, gqa) = (number(found, "head_dim")?, number(found, "gqa")?);
    let page = number(found, "block_size")?;
    // Of a step with prompts the label does not say which of its sequences this kernel served.
    if step.phase != Phase::Decode || sequences != step.graph_batch.or(step.batch())? || kv_heads == 0 {
        return None;
    }
    let part = &step.total;
    let lengths = part.lengths();
    let shape = ShapeMap::new().with("q_heads", kv_heads.checked_mul(gqa)?).with("kv_heads", kv_heads);
    let shape = shape.with("head_dim", head_dim);
    let shape = match lengths.contexts.as_deref() {
        Some([(context, count)]) => shape.with("batch", *count).with("ctx", *context),
        _ => shape.with("batch", part.seqs?).with("ctx_total", u64::try_from(part.sums.nkv?).ok()?),
    };
    let shape = shape.with("q_len", step.q_len()?).with("block_size", page);
    Some(named(shape, dtypes(found), vec!["heads from the launch's grid, contexts from the step's label".to_owned()]))
}

/// Rows of row-parallel kernels, and what was assumed about them.
fn rows(step: &Step) -> Option<(u64, Vec<String>)> {
    let rows = step.rows()?;
    let mut assumed = vec!["rows from the step's label".to_owned()];
    if rows.padding == Padding::NotTold {
        assumed.push("no padding to a graph's batch: the label does not tell of one".to_owned());
    }
    Some((rows.rows, assumed))
}

fn number(found: &Parameters, key: &str) -> Option<u64> {
    found.get(key)?.parse().ok().filter(|number| *number > 0)
}

fn dtypes(found: &Parameters) -> Dtypes {
    let tag = |key: &str| -> Option<DtypeTag> { found.get(key)?.parse().ok() };
    let dtypes = tag("dtype").map_or_else(Dtypes::default, Dtypes::uniform);
    match tag("dtype_kv").filter(|kv| Some(*kv) != tag("dtype")) {
        Some(kv) => dtypes.with("kv", kv),
        None => dtypes,
    }
}

fn named(shape: ShapeMap, dtypes: Dtypes, assumed: Vec<String>) -> Shape {
    Shape { shape, dtypes, provenance: Provenance::Name, assumed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{self, Parsed};
    use crate::names::canonical;
    use kbench_workload::{CaseOptions, Fp8Flavor, case};

    const ATTENTION: &str = "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, (vllm::Fp8KVCacheDataType)0, 1, 128, 256, false, 4, 1, ck_tile::ComposedAttention<0u, false> >(int)";

    fn shape_of(family: Family, name: &str, label: &str, grid: Option<[u32; 3]>) -> Option<String> {
        let Parsed::Step(step) = labels::parse(label) else { panic!("{label}") };
        let found = shape(family, &parameters(&canonical(name)), &step, grid)?;
        assert_eq!(found.provenance, Provenance::Name);
        if family.is_replayable() {
            let built = case(family, &found.shape, &found.dtypes, CaseOptions { fp8: Fp8Flavor::Fnuz, seed: 1 });
            assert!(built.is_ok(), "{}: {:?}", found.shape, built.err());
        }
        Some(format!("{} {}", found.shape, found.dtypes))
    }

    /// Grid and arguments of the Qwen3-8B decode capture: 32 sequences, 8 KV heads, 32 query heads of 128, 32785 tokens of context.
    #[test]
    fn paged_attention_from_name_grid_and_label() {
        let label = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)";
        let of = |label, grid| shape_of(Family::PagedAttention, ATTENTION, label, grid);
        assert_eq!(
            of(label, Some([32, 160, 8])).unwrap(),
            "q_heads=32,kv_heads=8,head_dim=128,batch=32,ctx_total=32785,q_len=1,block_size=1 bf16"
        );
        assert_eq!(of(label, None), None);
        // A grid of another batch, a step with prompts, no contexts.
        assert_eq!(of(label, Some([31, 160, 8])), None);
        let mixed = "execute_40_context_1(sq8sk8sqsq64sqsk64)_generation_32(sq32sk32785sqsq32sqsk32785)";
        assert_eq!(of(mixed, Some([33, 160, 8])), None);
        assert_eq!(of("step[DECODE bs=32]", Some([32, 160, 8])), None);
    }

    #[test]
    fn routers_and_cache_writes_from_name_and_label() {
        let label = "decode[bs=13/16 tok=13 d=13]";
        let gate = shape_of(Family::MoeGate, "aiter::topksoftmax_4x128x8_bf16", label, None);
        assert_eq!(gate.unwrap(), "tokens=16,experts=128,topk=8 bf16");
        let store = "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>((anonymous namespace)::StoreKVCacheParams)";
        assert_eq!(shape_of(Family::KvCache, store, label, None).unwrap(), "tokens=16,kv_heads=1,head_dim=1024 bf16");
        // Bounds are no sizes.
        let norm =
            "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib";
        assert_eq!(shape_of(Family::Rmsnorm, norm, label, Some([16, 1, 1])), None);
    }
}
