use super::*;
use crate::families::testing::{OPTIONS, build, call, check_bytes, check_filled, check_reference};
use crate::{OpCall, Recovered, narrow, recover};
use proptest::prelude::*;

fn moe_gate(shape: &str, dtypes: &str) -> MoeGate {
    MoeGate::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), OPTIONS).unwrap()
}

/// What f32 scores may be off: ids not at all.
fn tight(name: &str) -> Tolerance {
    let rel = if name == "topk_ids" { 0.0 } else { 1e-5 };
    Tolerance { abs: 0.0, rel, mismatch_share: 0.0 }
}

prop_compose! {
    fn any_case()(
        tokens in 1u64..6,
        size in 2u64..20,
        groups in 1u64..6,
        part in 0.0f64..1.0,
        group_part in 0.0f64..1.0,
        score in prop::sample::select(vec!["softmax", "sigmoid"]),
        renormalize: bool,
        bias: bool,
        scale in prop::sample::select(vec!["1", "2.5", "0.125"]),
        logits in prop::sample::select(vec!["bf16", "f16", "f32"]),
        bias_dtype in prop::sample::select(vec!["bf16", "f32"]),
    ) -> MoeGate {
        let topk_groups = 1 + (group_part * (groups - 1) as f64).round() as u64;
        let topk = 1 + (part * ((size * topk_groups).min(32) - 1) as f64).round() as u64;
        let shape = format!(
            "tokens={tokens},experts={},topk={topk},score={score},renormalize={renormalize},bias={bias},groups={groups},\
             topk_groups={topk_groups},scale={scale}",
            size * groups
        );
        moe_gate(&shape, &if bias { format!("{logits},bias={bias_dtype}") } else { logits.to_owned() })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn reference_and_bytes_are_right(case in any_case()) {
        check_reference(&case, tight);
        check_bytes(&case);
        prop_assert_eq!(case.work().total_flops(), walked_flops(&case));
    }

    #[test]
    fn equal_logits_go_to_the_lowest_expert(case in any_case(), seed: u64) {
        // Logits and biases of few values: ties everywhere, between groups too, exact in every dtype. Sigmoids of two logits and
        // sums of two biases that are powers of two leave no near ties.
        let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
        random::fill_uniform_int(tensors.get_mut("logits"), seed, -1, 1);
        if case.bias.is_some() {
            random::fill_uniform_int(tensors.get_mut("bias"), seed, 0, 1);
        }
        check_filled(&case, &mut tensors, tight);
    }
}

/// Counts operations by doing them for one token, as a kernel would that does nothing in vain.
fn walked_flops(case: &MoeGate) -> u128 {
    let biased = case.bias.is_some();
    let mut flops = 0;
    let mut scored = 0;
    for expert in 0..case.experts {
        flops += u128::from(expert > 0); // comparison
        flops += u128::from(biased); // + bias
        let needed = biased || (case.score == Score::Softmax && !case.renormalize);
        scored += u128::from(needed);
    }
    if case.groups > 1 {
        for group in 0..case.groups {
            flops += u128::from(group > 0); // comparison
            flops += u128::from(biased); // best two
        }
    }
    if scored == 0 {
        scored = u128::from(case.topk); // the chosen alone
    }
    for index in 0..scored {
        flops += match case.score {
            Score::Sigmoid => 3,                         // exp, +, reciprocal
            Score::Softmax => 2 + u128::from(index > 0), // −, exp, sum
        };
    }
    let products = if biased { case.experts } else { case.topk };
    flops += if case.score == Score::Softmax { u128::from(products) } else { 0 };
    if case.renormalize && (biased || case.score == Score::Sigmoid) {
        for choice in 0..case.topk {
            flops += 1 + u128::from(choice > 0); // ·, sum
        }
    }
    flops * u128::from(case.tokens)
}

#[test]
fn weights_of_a_known_row() {
    // softmax(ln 1, ln 2, ln 3, ln 4) = 0.1, 0.2, 0.3, 0.4.
    let run = |more: &str| {
        let case = moe_gate(&format!("tokens=1,experts=4,topk=2,{more}"), "f32");
        let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
        let logits: Vec<f32> = [1.0f32, 4.0, 3.0, 2.0].iter().map(|x| x.ln()).collect();
        tensors.get_mut("logits").view_mut::<f32>().copy_from_slice(&logits);
        case.reference(&mut tensors);
        let weights = tensors.get("topk_weights").view::<f32>();
        (tensors.get("topk_ids").view::<i32>().to_vec(), [weights[0], weights[1]])
    };
    let close = |got: [f32; 2], want: [f32; 2]| got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6);
    let (ids, weights) = run("renormalize=false");
    assert!(ids == [1, 2] && close(weights, [0.4, 0.3]), "{ids:?} {weights:?}");
    let (ids, weights) = run("renormalize=true,scale=7");
    assert!(ids == [1, 2] && close(weights, [4.0, 3.0]), "{ids:?} {weights:?}");
    // Sigmoids are x/(1 + x).
    let (_, weights) = run("score=sigmoid,renormalize=false");
    assert!(close(weights, [0.8, 0.75]), "{weights:?}");
    // The group of 1 and 4 has the best expert, so that the third best one stays out.
    let (ids, weights) = run("groups=2,topk_groups=1,renormalize=false");
    assert!(ids == [1, 0] && close(weights, [0.4, 0.1]), "{ids:?} {weights:?}");
}

#[test]
fn a_bias_chooses_but_does_not_weigh() {
    let case = moe_gate("tokens=1,experts=4,topk=1,score=sigmoid,bias=true,groups=2,renormalize=false", "f32");
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    tensors.get_mut("logits").view_mut::<f32>().copy_from_slice(&[3.0, -3.0, 0.0, 0.0]);
    // Groups: σ(3) + σ(−3) = 1 against ½ + ½ + 0.1: the best expert's group loses by the sum of its best two.
    tensors.get_mut("bias").view_mut::<f32>().copy_from_slice(&[0.0, 0.0, 0.0, 0.1]);
    case.reference(&mut tensors);
    assert_eq!(tensors.get("topk_ids").view::<i32>(), [3]);
    assert_eq!(tensors.get("topk_weights").view::<f32>(), [0.5]);
}

#[test]
fn data_leave_no_doubt() {
    // Real routers: gpt-oss, Qwen3, DeepSeek V3, Qwen3-Next, Kimi-K3. The first topk + 1 keys differ by more than f32 noise.
    for (shape, dtypes) in [
        ("tokens=64,experts=32,topk=4", "bf16"),
        ("tokens=64,experts=128,topk=8", "bf16"),
        ("tokens=64,experts=256,topk=8,score=sigmoid,bias=true,groups=8,topk_groups=4,scale=2.5", "bf16"),
        ("tokens=64,experts=512,topk=10", "bf16"),
        ("tokens=64,experts=896,topk=16", "f16"),
        ("tokens=64,experts=896,topk=16,score=sigmoid,bias=true", "f32"),
    ] {
        let case = moe_gate(shape, dtypes);
        let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
        case.fill(3, &mut tensors);
        let bias = reference::bias(&case, &tensors);
        let experts = case.experts as usize;
        let mut firsts = Vec::new();
        for token in 0..case.tokens as usize {
            let logits: Vec<f64> = (0..experts)
                .map(|expert| narrow::get(case.logits, tensors.get("logits").bytes(), token * experts + expert))
                .collect();
            let mut keys = reference::choices(&case, &reference::Row { logits: &logits, bias: &bias }).experts;
            keys.sort_unstable_by(|a, b| b.total_cmp(a));
            let least = keys.windows(2).take(case.topk as usize).map(|pair| pair[0] - pair[1]).fold(1.0, f64::min);
            assert!(least > 1e-6, "{shape}: {least}");
            firsts.push(logits[0].to_bits());
        }
        firsts.sort_unstable();
        firsts.dedup();
        assert!(firsts.len() > 40, "{shape}: tokens have different logits");
    }
}

#[test]
fn work_at_a_real_shape() {
    // gpt-oss 20b decode: (32, 32) bf16 logits, 4 experts a token, softmax of the chosen.
    let work = moe_gate("tokens=32,experts=32,topk=4", "bf16").work();
    assert_eq!((work.bytes_read, work.bytes_written), (32 * 32 * 2, 32 * 4 * 8));
    // 31 comparisons; 4 differences, 4 exponentials, 3 sums, 4 products.
    assert_eq!(work.total_flops(), 32 * (31 + 4 + 4 + 3 + 4));
}

#[test]
fn impossible_cases_say_why() {
    for (shape, dtypes, part) in [
        ("experts=8,topk=2", "bf16", "tokens"),
        ("tokens=1,experts=2000,topk=2", "bf16", "at most 1024"),
        ("tokens=1,experts=64,topk=40", "bf16", "at most 32"),
        ("tokens=1,experts=8,topk=9", "bf16", "at most 8"),
        ("tokens=1,experts=8,topk=2,groups=3", "bf16", "divide"),
        ("tokens=1,experts=8,topk=2,groups=2,topk_groups=3", "bf16", "at most 2"),
        ("tokens=1,experts=8,topk=5,groups=2", "bf16", "fewer than topk"),
        ("tokens=1,experts=8,topk=1,groups=8,bias=true", "bf16", "at least two"),
        ("tokens=1,experts=8,topk=2,score=relu", "bf16", "sigmoid"),
        ("tokens=1,experts=8,topk=2,scale=0", "bf16", "0.001"),
        ("tokens=1,experts=8,topk=2,scale=nan", "bf16", "0.001"),
        ("tokens=1,experts=8,topk=2", "bf16,bias=f32", "without bias=true"),
        ("tokens=1,experts=8,topk=2", "fp8", "bf16"),
        ("tokens=1,experts=8,topk=2,bias=true", "bf16,bias=i8", "bf16"),
        ("tokens=1,experts=8,topk=2,norm=true", "bf16", "norm"),
    ] {
        let error = build(Family::MoeGate, shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape} {dtypes}: {error}");
    }
}

const BF16: &str = "c10::BFloat16";

fn recovered(op: &OpCall) -> (String, String) {
    let Recovered { family, shape, dtypes, .. } = recover(op).unwrap().unwrap();
    assert_eq!(family, Family::MoeGate);
    build(family, &shape.to_string(), &dtypes.to_string()).unwrap();
    (shape.to_string(), dtypes.to_string())
}

#[test]
fn operators_give_shapes() {
    let weights: (&[u64], &str) = (&[16, 8], "float");
    let ids: (&[u64], &str) = (&[16, 8], "int");
    let logits: (&[u64], &str) = (&[16, 256], BF16);
    let bias: (&[u64], &str) = (&[256], "float");
    let text = |value| (&[][..], value);
    let grouped = [text("8"), text("4"), text("True")];
    let deepseek =
        "tokens=16,experts=256,topk=8,score=sigmoid,renormalize=true,bias=true,groups=8,topk_groups=4,scale=2.5";
    for (op, shape, dtypes) in [
        (
            call("_moe_C::topk_softmax", &[weights, ids, ids, logits, text("True")]),
            "tokens=16,experts=256,topk=8,score=softmax,renormalize=true",
            "bf16",
        ),
        (
            call("aiter::topk_softmax", &[weights, ids, ids, logits, text("False"), text("0"), text("")]),
            "tokens=16,experts=256,topk=8,score=softmax,renormalize=false",
            "bf16",
        ),
        (
            call("sgl_kernel::topk_softmax", &[weights, ids, logits, text("True"), text("0.0"), text("")]),
            "tokens=16,experts=256,topk=8,score=softmax,renormalize=true",
            "bf16",
        ),
        (
            call("aiter::topk_sigmoid", &[weights, ids, logits]),
            "tokens=16,experts=256,topk=8,score=sigmoid,renormalize=false",
            "bf16",
        ),
        (
            call(
                "aiter::grouped_topk",
                &[logits, weights, ids, grouped[0], grouped[1], grouped[2], text("True"), text("16.0")],
            ),
            "tokens=16,experts=256,topk=8,score=softmax,renormalize=true,groups=8,topk_groups=4,scale=16",
            "bf16",
        ),
        (
            call(
                "vllm::rocm_aiter_biased_grouped_topk",
                &[logits, bias, weights, ids, grouped[0], grouped[1], grouped[2], text("2.5")],
            ),
            deepseek,
            "bf16,bias=f32",
        ),
        (
            call(
                "aiter::moe_fused_gate",
                &[logits, bias, weights, ids, text("8"), text("4"), text("8"), text("0"), text("2.5")],
            ),
            deepseek,
            "bf16,bias=f32",
        ),
        (
            call(
                "sgl_kernel::moe_fused_gate",
                &[logits, bias, text("8"), text("4"), text("8"), text("0"), text("2.5"), text("True")],
            ),
            deepseek,
            "bf16,bias=f32",
        ),
        (
            // As the trace of gpt-oss 20b on MI300X has it.
            call("TopK", &[(&[32, 32], BF16), text("4"), text("True"), text("1"), text("True"), text(""), text("")]),
            "tokens=32,experts=32,topk=4,score=softmax,renormalize=true",
            "bf16",
        ),
    ] {
        assert_eq!(recovered(&op), (shape.to_owned(), dtypes.to_owned()), "{}", op.name);
    }
}

#[test]
fn unclear_calls_are_errors() {
    let weights: (&[u64], &str) = (&[16, 8], "float");
    let logits: (&[u64], &str) = (&[16, 256], BF16);
    let bias: (&[u64], &str) = (&[256], "float");
    let text = |value| (&[][..], value);
    for (op, part) in [
        (call("_moe_C::topk_softmax", &[weights, weights, weights, (&[9, 256], BF16)]), "9 rows"),
        (call("_moe_C::topk_softmax", &[weights, weights, weights, (&[16], BF16)]), "two dimensions"),
        (call("_moe_C::topk_softmax", &[]), "no tensor"),
        (call("aiter::topk_softmax", &[weights, weights, weights, (&[16, 256], "long int")]), "bf16, f16 or f32"),
        (call("aiter::grouped_topk", &[logits, weights, weights, text("x")]), "whole number"),
        (
            call(
                "sgl_kernel::moe_fused_gate",
                &[logits, bias, text("8"), text("4"), text("9"), text("1"), text("2.5"), text("True")],
            ),
            "shared",
        ),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
    assert!(super::recover(&call("aten::topk", &[(&[400], BF16)])).is_none());
    assert!(super::recover(&call("TopK", &[(&[32, 32], BF16), text("4"), text("False")])).is_none());
}
