//! Plans from small inventories.

use super::*;
use kbench_profile::Location;
use kbench_workload::Fp8Flavor;

fn used(shape: &str, calls: u64, total_ns: u64) -> ShapeUse {
    ShapeUse {
        shape: shape.parse().unwrap(),
        dtypes: "bf16".parse().unwrap(),
        calls,
        total_ns,
        provenance: Provenance::Exact,
        assumed: vec!["something".into()],
    }
}

fn row(kernel: &str, family: Family, category: &str, calls: u64, total_ns: u64, shapes: Vec<ShapeUse>) -> Row {
    Row {
        kernel: kernel.into(),
        kernel_raw: kernel.into(),
        family,
        category: category.into(),
        op: None,
        position: None,
        phase: Phase::Decode,
        calls,
        total_ns,
        share: 0.0,
        provenance: Provenance::None,
        shapes,
        location: Location::default(),
    }
}

const NORM: &str = "rows=4,hidden=64";
const ATTENTION: &str = "q_heads=2,kv_heads=1,head_dim=32,ctx=[40]";

fn inventory() -> Inventory {
    let mut inventory = Inventory {
        rows: vec![
            row("norm", Family::Rmsnorm, "RMSNorm", 10, 100, vec![used(NORM, 6, 60)]),
            // The same case with a default written out.
            row("norm2", Family::Rmsnorm, "RMSNorm", 1, 30, vec![used("rows=4,hidden=64,add=false", 1, 30)]),
            row("pa", Family::PagedAttention, "Paged Attention", 24, 500, vec![used(ATTENTION, 24, 500)]),
            row("pa_reduce", Family::PagedAttention, "PA Reduce", 24, 100, vec![used(ATTENTION, 24, 100)]),
            row("rope", Family::LinearAttention, "RoPE", 24, 200, vec![used("in0=[4,64]", 24, 200)]),
            row("gemm", Family::Gemm, "GEMM", 2, 70, vec![]),
        ],
        ..Inventory::default()
    };
    inventory.finish();
    inventory
}

fn plan(selection: &Selection) -> Plan {
    Plan::new(&inventory(), selection, CaseOptions { fp8: Fp8Flavor::Ocp, seed: 1 })
}

fn weights(plan: &Plan) -> Vec<(&str, u64, u64)> {
    plan.cases.iter().map(|case| (case.kernel.as_str(), case.weight.calls, case.weight.total_ns)).collect()
}

#[test]
fn equal_shapes_merge_reductions_add_time_not_calls_and_nothing_is_lost() {
    let plan = plan(&Selection::default());
    assert_eq!(weights(&plan), [("pa", 24, 600), ("norm", 7, 90), ("gemm", 2, 70), ("norm", 4, 40)]);
    // What has no shape is in the plan with its reason.
    let reasons: Vec<&String> = plan.cases.iter().filter_map(|case| case.workload.as_ref().err()).collect();
    assert!(reasons[0].contains("2 of 2 calls of gemm") && reasons[1].contains("4 of 10 calls of norm"), "{reasons:?}");
    assert_eq!(plan.not_replayable, [(Family::LinearAttention, 0.2)]);
    let share: f64 = plan.cases.iter().map(|case| case.weight.share).sum();
    assert!((share - 0.8).abs() < 1e-9);
    assert_eq!(plan.cases[1].assumed, ["something"], "said once");
}

#[test]
fn ids_hold_the_complete_shape() {
    let plan = plan(&Selection::default());
    assert_eq!(plan.cases[1].id, "rmsnorm:bf16:rows=4,hidden=64,add=false,quant=none,eps=1e-6");
}

#[test]
fn selections_cut_from_the_light_end() {
    let top = plan(&Selection { top: Some(1), ..Selection::default() });
    assert_eq!(weights(&top), [("pa", 24, 600)]);
    assert_eq!(top.left_out.0, 3);
    assert!((top.left_out.1 - 0.2).abs() < 1e-9);
    let coverage = plan(&Selection { coverage: Some(0.8), ..Selection::default() });
    assert_eq!(weights(&coverage), [("pa", 24, 600), ("norm", 7, 90)]);
    let family = plan(&Selection { families: vec![Family::Gemm], ..Selection::default() });
    assert_eq!(weights(&family), [("gemm", 2, 70)]);
    let kernel = plan(&Selection { kernel: Some(Regex::new("reduce$").unwrap()), ..Selection::default() });
    assert_eq!(weights(&kernel), [("pa_reduce", 24, 100)]);
    assert!(plan(&Selection { phase: Some(Phase::Prefill), ..Selection::default() }).cases.is_empty());
}
