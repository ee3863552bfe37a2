use super::*;
use crate::families::testing::{OPTIONS, build, call, check_reference};
use crate::{OpCall, Recovered, recover};
use proptest::prelude::*;

fn moe_sort(shape: &str) -> MoeSort {
    MoeSort::new(&shape.parse().unwrap(), &Dtypes::default(), OPTIONS).unwrap()
}

fn sorted(case: &MoeSort) -> TensorSet {
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    case.fill(4, &mut tensors);
    case.reference(&mut tensors);
    tensors
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn reference_and_bytes_are_right(
        tokens in 1u64..40,
        experts in 1u64..30,
        part in 0.0f64..1.0,
        block_m in prop::sample::select(vec![1u64, 4, 16, 32, 64]),
        routing in prop::sample::select(vec!["balanced", "uniform", "zipf"]),
    ) {
        let topk = 1 + (part * (experts.min(16) - 1) as f64) as u64;
        let shape = format!("tokens={tokens},experts={experts},topk={topk},block_m={block_m},routing={routing}");
        let case = moe_sort(&shape);
        check_reference(&case, |name| case.tolerance(name));

        // What was written is what the work counts, and holds every choice once.
        let tensors = sorted(&case);
        let entries = tensors.get("sorted_token_ids").view::<i32>();
        let blocks = tensors.get("sorted_expert_ids").view::<i32>();
        let valid = tensors.get("num_valid_ids").view::<i32>();
        let written = entries.iter().filter(|entry| **entry != -1).count();
        let written_blocks = blocks.iter().filter(|block| **block != -1).count();
        prop_assert_eq!(valid, [written as i32, tokens as i32]);
        prop_assert_eq!(written, written_blocks * block_m as usize);
        prop_assert_eq!(case.work().bytes_written, (written * 8 + written_blocks * 4 + 8) as u128);
        prop_assert_eq!(case.work().bytes_read, u128::from(tokens * topk * 8));
        let (ids, weights) = (tensors.get("topk_ids").view::<i32>(), tensors.get("topk_weights").view::<f32>());
        let given = tensors.get("sorted_weights").view::<f32>();
        let mut choices: Vec<usize> = Vec::new();
        for (place, entry) in entries[..written].iter().enumerate() {
            let (token, slot) = ((entry & 0xFF_FFFF) as usize, (entry >> 24) as usize);
            if token as u64 == tokens {
                prop_assert_eq!((slot as u64, given[place]), (topk, 0.0));
                continue;
            }
            let choice = token * topk as usize + slot;
            prop_assert_eq!(ids[choice], blocks[place / block_m as usize]);
            prop_assert_eq!(given[place], weights[choice]);
            choices.push(choice);
        }
        choices.sort_unstable();
        prop_assert!(choices.into_iter().eq(0..(tokens * topk) as usize));
    }
}

#[test]
fn a_small_table_by_hand() {
    // Dealt in turn: token 0 to experts 0 and 1, token 1 to 1 and 2 (a token takes its experts in order of turns).
    let case = moe_sort("tokens=2,experts=4,topk=2,block_m=2,expert_tokens=[1,2,0,1]");
    assert_eq!(case.ids, [0, 1, 1, 3]);
    let tensors = sorted(&case);
    let pad = 2 << 24 | 2;
    let slot1 = 1 << 24;
    // Expert 0: (0, 0) and padding; 1: (0, 1), (1, 0); 2: nothing; 3: (1, 1) and padding. Capacity 4 + 8 - 2.
    assert_eq!(tensors.get("sorted_token_ids").view::<i32>(), [0, pad, slot1, 1, slot1 | 1, pad, -1, -1, -1, -1]);
    assert_eq!(tensors.get("sorted_expert_ids").view::<i32>(), [0, 1, 3, -1, -1]);
    assert_eq!(tensors.get("num_valid_ids").view::<i32>(), [6, 2]);
}

#[test]
fn capacity_holds_the_worst_routing() {
    // One token an expert: every block but for one row is padding.
    for (tokens, experts, topk, block_m) in [(1, 8, 8, 32), (1, 8, 2, 32), (8, 8, 1, 16), (3, 5, 2, 64)] {
        let case =
            moe_sort(&format!("tokens={tokens},experts={experts},topk={topk},block_m={block_m},routing=balanced"));
        assert!(case.blocks * block_m <= case.capacity(), "{case:?}");
    }
}

#[test]
fn impossible_cases_say_why() {
    for (shape, dtypes, part) in [
        ("experts=8,topk=2", "", "tokens"),
        ("tokens=99999999,experts=8,topk=2", "", "at most"),
        ("tokens=16000000,experts=8,topk=2", "", "tokens·topk"),
        ("tokens=1,experts=8,topk=9", "", "at most 8"),
        ("tokens=1,experts=200,topk=128", "", "at most 127"),
        ("tokens=1,experts=8,topk=2,block_m=0", "", "at least 1"),
        ("tokens=1,experts=8,topk=2,routing=hot", "", "balanced"),
        ("tokens=1,experts=2,topk=1,expert_tokens=[1,1]", "", "sum"),
        ("tokens=1,experts=8,topk=2,hidden=4", "", "hidden"),
        ("tokens=1,experts=8,topk=2", "weights=bf16", "f32"),
        ("tokens=1,experts=8,topk=2", "x=bf16", "no such role"),
    ] {
        let error = build(Family::MoeSort, shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape} {dtypes}: {error}");
    }
    // The dtype that stands for a whole inventory row does not matter here.
    build(Family::MoeSort, "tokens=1,experts=8,topk=2", "bf16").unwrap();
}

fn recovered(op: &OpCall) -> String {
    let Recovered { family, shape, dtypes, .. } = recover(op).unwrap().unwrap();
    assert_eq!(family, Family::MoeSort);
    build(family, &shape.to_string(), &dtypes.to_string()).unwrap();
    shape.to_string()
}

#[test]
fn operators_give_shapes() {
    let ids: (&[u64], &str) = (&[16, 8], "int");
    let weights: (&[u64], &str) = (&[16, 8], "float");
    let table: (&[u64], &str) = (&[8312], "int");
    let text = |value| (&[][..], value);
    let mut args = vec![ids, weights, table, (&[8312], "float"), (&[260], "int"), (&[2], "int")];
    args.extend([(&[16, 7168][..], "c10::BFloat16"), text("256"), text("32"), text(""), text(""), text("0")]);
    for name in ["aiter::moe_sorting_fwd", "aiter::moe_sorting_opus_fwd"] {
        assert_eq!(recovered(&call(name, &args)), "tokens=16,experts=256,topk=8,block_m=32");
    }
    let align = [ids, text("128"), text("64"), table, (&[130], "int"), (&[1], "int")];
    for name in ["_moe_C::moe_align_block_size", "sgl_kernel::moe_align_block_size"] {
        assert_eq!(recovered(&call(name, &align)), "tokens=16,experts=128,topk=8,block_m=64");
    }

    args[9] = (&[256], "int");
    for (op, part) in [
        (call("aiter::moe_sorting_fwd", &args), "some of the experts"),
        (call("aiter::moe_sorting_fwd", &[]), "no tensor"),
        (call("_moe_C::moe_align_block_size", &[ids, text("x")]), "whole number"),
        (call("_moe_C::moe_align_block_size", &[(&[16], "int")]), "two dimensions"),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
}
