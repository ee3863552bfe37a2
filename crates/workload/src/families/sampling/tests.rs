use super::*;
use crate::families::testing::{OPTIONS, build, call, check_bytes, check_reference};
use crate::{OpCall, Recovered, narrow, recover};
use proptest::prelude::*;

fn sampling(shape: &str, dtypes: &str) -> Sampling {
    Sampling::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), OPTIONS).unwrap()
}

const EXACT: Tolerance = Tolerance { abs: 0.0, rel: 0.0, mismatch_share: 0.0 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn reference_and_work_are_right(
        batch in 1u64..8,
        vocab in 1u64..400,
        mode in prop_oneof![Just("greedy"), Just("random"), Just("mixed")],
        dtypes in prop_oneof![Just("bf16"), Just("f16,out=i64"), Just("f32,out=i32")],
    ) {
        let case = sampling(&format!("batch={batch},vocab={vocab},mode={mode}"), dtypes);
        check_reference(&case, |_| EXACT);
        // Noise of greedy rows is not compulsory.
        if mode != "mixed" {
            check_bytes(&case);
        }
        let mut flops = 0;
        for row in 0..batch {
            let drawn = mode == "random" || (mode == "mixed" && row % 2 == 1);
            for token in 0..vocab {
                flops += if drawn { 3 } else { 0 };
                flops += u128::from(token > 0);
            }
        }
        prop_assert_eq!(case.work().total_flops(), flops);
    }
}

fn filled(case: &Sampling) -> TensorSet {
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    case.fill(5, &mut tensors);
    tensors
}

#[test]
fn mixed_rows_read_half_the_noise() {
    let work = sampling("batch=4,vocab=1000,mode=mixed", "bf16").work();
    assert_eq!(work.bytes_read, 4 * 1000 * 2 + 2 * 1000 * 4 + 4 * 4);
    assert_eq!(work.bytes_written, 4 * 4);
}

#[test]
fn the_first_of_equal_logits_wins_and_nan_never_does() {
    let case = sampling("batch=3,vocab=4", "f32");
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
    let logits = [1.0, 3.0, 3.0, 2.0, nan, -1.0, nan, -1.0, low, low, low, low];
    tensors.get_mut("logits").view_mut::<f32>().copy_from_slice(&logits);
    case.reference(&mut tensors);
    assert_eq!(tensors.get("out").view::<i32>(), [1, 1, 0]);
}

#[test]
fn races_are_won_clearly() {
    let case = sampling("batch=64,vocab=4096,mode=random", "bf16");
    let tensors = filled(&case);
    let (noise, temperature) = (tensors.get("noise").view::<f32>(), tensors.get("temperature").view::<f32>());
    for (row, temperature) in temperature.iter().enumerate() {
        let mut scores: Vec<f64> = (row * 4096..(row + 1) * 4096)
            .map(|at| {
                let logit = narrow::get(Dtype::Bf16, tensors.get("logits").bytes(), at);
                logit / f64::from(*temperature) - f64::from(noise[at]).ln()
            })
            .collect();
        scores.sort_by(f64::total_cmp);
        assert!(scores[4095] - scores[4094] >= CLEAR_LEAD, "{row}");
    }
}

#[test]
fn drawn_tokens_follow_the_softmax() {
    // All rows have the same four logits, so that tokens of many rows are draws from one distribution.
    let (batch, logits) = (20_000_usize, [0.0_f32, 1.0, 2.0, -1.0]);
    let case = sampling(&format!("batch={batch},vocab=4,mode=random"), "f32");
    let mut tensors = filled(&case);
    tensors.get_mut("logits").view_mut::<f32>().chunks_mut(4).for_each(|row| row.copy_from_slice(&logits));
    tensors.get_mut("temperature").view_mut::<f32>().fill(2.0);
    crate::random::fill_exponential(tensors.get_mut("noise"), 77);
    case.reference(&mut tensors);
    let weights = logits.map(|logit| (f64::from(logit) / 2.0).exp());
    let sum: f64 = weights.iter().sum();
    for (token, weight) in weights.iter().enumerate() {
        let share = weight / sum;
        let expected = share * batch as f64;
        let got = tensors.get("out").view::<i32>().iter().filter(|out| **out == token as i32).count() as f64;
        let deviation = (expected * (1.0 - share)).sqrt();
        assert!((got - expected).abs() < 5.0 * deviation, "{token}: {got} {expected}");
    }
}

#[test]
fn impossible_cases_say_why() {
    for (shape, dtypes, part) in [
        ("vocab=8", "bf16", "batch"),
        ("batch=0,vocab=8", "bf16", "at least 1"),
        ("batch=1,vocab=4294967296", "bf16", "at most 2147483648"),
        ("batch=1000000,vocab=2147483648", "bf16", "2^48"),
        ("batch=1,vocab=8,mode=best", "bf16", "greedy, random or mixed"),
        ("batch=1,vocab=8", "", "needs a dtype"),
        ("batch=1,vocab=8", "fp8", "sampling takes bf16"),
        ("batch=1,vocab=8", "bf16,out=f32", "i32, i64"),
        ("batch=1,vocab=8,topk=1", "bf16", "topk"),
        ("batch=1,vocab=8", "bf16,noise=f32", "no such role"),
    ] {
        let error = build(Family::Sampling, shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape} {dtypes}: {error}");
    }
}

const BF16: &str = "c10::BFloat16";
const LOGITS: &[u64] = &[32, 151_936];

fn recovered(op: &OpCall) -> (String, String) {
    let Recovered { family, shape, dtypes, .. } = recover(op).unwrap().unwrap();
    assert_eq!(family, Family::Sampling);
    build(family, &shape.to_string(), &dtypes.to_string()).unwrap();
    (shape.to_string(), dtypes.to_string())
}

#[test]
fn operators_give_shapes() {
    let noisy = |name| {
        let args: &[(&[u64], &str)] =
            &[(&[32], "int"), (LOGITS, "float"), (LOGITS, "float"), (&[32], "float"), (&[], "1e-10")];
        call(name, args)
    };
    for (op, mode, dtypes) in [
        (call("aiter::greedy_sample", &[(&[32], "int"), (LOGITS, BF16)]), "greedy", "bf16,out=i32"),
        (noisy("aiter::random_sample_outer_exponential"), "random", "f32,out=i32"),
        (noisy("aiter::mixed_sample_outer_exponential"), "mixed", "f32,out=i32"),
        (call("aten::argmax", &[(LOGITS, "float"), (&[], "-1"), (&[], "False")]), "greedy", "f32,out=i64"),
        (call("aten::argmax", &[(LOGITS, BF16), (&[], "1")]), "greedy", "bf16,out=i64"),
    ] {
        let shape = format!("batch=32,vocab=151936,mode={mode}");
        assert_eq!(recovered(&op), (shape, dtypes.to_owned()), "{}", op.name);
    }
}

#[test]
fn unclear_calls_are_errors() {
    for (op, part) in [
        (call("aiter::greedy_sample", &[]), "no tensor"),
        (call("aiter::greedy_sample", &[(&[31], "int"), (LOGITS, BF16)]), "32 rows"),
        (call("aiter::greedy_sample", &[(&[32], "float"), (LOGITS, BF16)]), "i32 or i64"),
        (call("aiter::greedy_sample", &[(&[32], "int"), (LOGITS, "int")]), "bf16, f16 or f32"),
        (call("aiter::mixed_sample", &[(&[32], "int"), (LOGITS, BF16)]), "noise itself"),
        (
            call("aiter::random_sample_outer_exponential", &[(&[32], "int"), (LOGITS, BF16), (&[1, 151_936], "float")]),
            "each logit",
        ),
        (call("aten::argmax", &[(LOGITS, BF16), (&[], "0")]), "last dimension"),
        (call("aten::argmax", &[(LOGITS, BF16)]), "last dimension"),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
    assert!(super::recover(&call("aten::argmin", &[(LOGITS, BF16)])).is_none());
}
