use super::*;
use crate::families::testing::{OPTIONS, build, call, check_reference};
use crate::{OpCall, Recovered, recover};
use proptest::prelude::*;
use std::collections::HashSet;

fn embedding(shape: &str, dtypes: &str) -> Embedding {
    Embedding::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), OPTIONS).unwrap()
}

const EXACT: Tolerance = Tolerance { abs: 0.0, rel: 0.0, mismatch_share: 0.0 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn reference_and_bytes_are_right(
        tokens in 1u64..40,
        vocab in 1u64..60,
        hidden in 1u64..50,
        ids in prop_oneof![Just(""), Just(",ids=uniform"), Just(",ids=zipf")],
        dtypes in prop_oneof![Just("bf16"), Just("f16,ids=i32"), Just("f32,ids=i64")],
    ) {
        let case = embedding(&format!("tokens={tokens},vocab={vocab},hidden={hidden}{ids}"), dtypes);
        check_reference(&case, |_| EXACT);

        // Bytes by walking what a call touches.
        let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
        case.fill(3, &mut tensors);
        let rows: HashSet<i64> =
            (0..tokens as usize).map(|i| narrow::get(case.index, tensors.get("ids").bytes(), i) as i64).collect();
        prop_assert!(rows.iter().all(|id| (0..vocab as i64).contains(id)));
        let row = case.table.bytes(u128::from(hidden));
        let work = case.work();
        prop_assert_eq!(work.bytes_read, tensors.get("ids").bytes().len() as u128 + rows.len() as u128 * row);
        prop_assert_eq!(work.bytes_written, tensors.get("out").bytes().len() as u128);
        prop_assert_eq!(work.total_flops(), 0);
        prop_assert!(case.naive_flops() > 0);
    }
}

#[test]
fn ids_follow_their_distribution() {
    let (tokens, vocab) = (100_000, 1000);
    let zipf = embedding(&format!("tokens={tokens},vocab={vocab},hidden=1"), "bf16").ids;
    for id in [0, 1, 9, 99] {
        let share = f64::ln((f64::from(id) + 2.0) / (f64::from(id) + 1.0)) / f64::ln(1001.0);
        let expected = share * f64::from(tokens);
        let got = zipf.iter().filter(|drawn| f64::from(**drawn) == f64::from(id)).count() as f64;
        // Five standard deviations of a binomial.
        assert!((got - expected).abs() < 5.0 * expected.sqrt(), "{id}: {got} {expected}");
    }
    let uniform = embedding(&format!("tokens={tokens},vocab={vocab},hidden=1,ids=uniform"), "bf16").ids;
    let low = uniform.iter().filter(|id| **id < 250).count() as f64;
    assert!((low - 25_000.0).abs() < 5.0 * 137.0, "{low}");
}

#[test]
fn impossible_cases_say_why() {
    for (shape, dtypes, part) in [
        ("tokens=1,vocab=8", "bf16", "hidden"),
        ("tokens=0,vocab=8,hidden=8", "bf16", "at least 1"),
        ("tokens=16777217,vocab=8,hidden=8", "bf16", "at most 16777216"),
        ("tokens=1,vocab=4294967296,hidden=8", "bf16", "at most 2147483648"),
        ("tokens=1,vocab=2147483648,hidden=1000000", "bf16", "2^48"),
        ("tokens=1,vocab=8,hidden=8,ids=all", "bf16", "zipf or uniform"),
        ("tokens=1,vocab=8,hidden=8", "", "needs a dtype"),
        ("tokens=1,vocab=8,hidden=8", "i8", "embedding takes bf16"),
        ("tokens=1,vocab=8,hidden=8", "bf16,ids=f32", "i32, i64"),
        ("tokens=1,vocab=8,hidden=8,rows=1", "bf16", "rows"),
        ("tokens=1,vocab=8,hidden=8", "bf16,out=bf16", "no such role"),
    ] {
        let error = build(Family::Embedding, shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape} {dtypes}: {error}");
    }
}

const BF16: &str = "c10::BFloat16";

fn recovered(op: &OpCall) -> (String, String) {
    let Recovered { family, shape, dtypes, .. } = recover(op).unwrap().unwrap();
    assert_eq!(family, Family::Embedding);
    (shape.to_string(), dtypes.to_string())
}

#[test]
fn operators_give_shapes() {
    // The recorded call of shared facts, section 6.2.
    let op = call(
        "aten::embedding",
        &[(&[151_936, 1024], BF16), (&[16, 559], "long int"), (&[], "-1"), (&[], "False"), (&[], "False")],
    );
    let wanted = ("tokens=8944,vocab=151936,hidden=1024,ids=zipf".to_owned(), "bf16,ids=i64".to_owned());
    assert_eq!(recovered(&op), wanted);
    let op = call("aten::index_select", &[(&[151_936, 1024], BF16), (&[], "0"), (&[8944], "long int")]);
    assert_eq!(recovered(&op), wanted);
    let op = call("aten::embedding", &[(&[32_000, 4096], "c10::Half"), (&[7], "int")]);
    let wanted = ("tokens=7,vocab=32000,hidden=4096,ids=zipf".to_owned(), "f16,ids=i32".to_owned());
    assert_eq!(recovered(&op), wanted);
}

#[test]
fn unclear_calls_are_errors_and_others_unknown() {
    for (op, part) in [
        (call("aten::embedding", &[]), "no tensor"),
        (call("aten::embedding", &[(&[8], BF16), (&[7], "int")]), "[vocab, hidden]"),
        (call("aten::embedding", &[(&[8, 4], BF16), (&[0], "int")]), "empty"),
        (call("aten::embedding", &[(&[8, 4], "signed char"), (&[7], "int")]), "bf16, f16 or f32"),
        (call("aten::embedding", &[(&[8, 4], BF16), (&[7], "float")]), "i32 or i64"),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
    for op in [
        call("aten::index_select", &[(&[8, 4], BF16), (&[], "1"), (&[2], "long int")]),
        call("aten::index_select", &[(&[8], BF16), (&[], "0"), (&[2], "long int")]),
        call("c10d::embedding", &[(&[8, 4], BF16), (&[7], "int")]),
    ] {
        assert!(super::recover(&op).is_none(), "{}", op.name);
    }
}
