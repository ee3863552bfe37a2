use super::*;
use crate::families::testing::{OPTIONS, build, call, check_reference, half_unit};
use crate::{OpCall, Recovered, Role, recover};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn rope(shape: &str, dtypes: &str) -> Rope {
    Rope::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), OPTIONS).unwrap()
}

fn filled(case: &Rope) -> TensorSet {
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    case.fill(5, &mut tensors);
    tensors
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn reference_and_bytes_are_right(
        tokens in 1u64..7,
        q_heads in 1u64..5,
        kv_heads in 0u64..3,
        pairs in 1u64..20,
        rest in 0u64..9,
        part in 0.0f64..1.0,
        inplace: bool,
        style in prop_oneof![Just("neox"), Just("gptj")],
        table in prop_oneof![Just("joint"), Just("split")],
        dtypes in prop_oneof![Just("bf16"), Just("f16"), Just("f32"), Just("bf16,table=f32"), Just("f32,table=bf16")],
    ) {
        let batch = 1 + (part * (tokens - 1) as f64) as u64;
        let shape = format!(
            "tokens={tokens},q_heads={q_heads},kv_heads={kv_heads},head_dim={},rotary_dim={},style={style},\
             inplace={inplace},table={table},max_pos=40,batch={batch}",
            2 * pairs + rest,
            2 * pairs
        );
        let case = rope(&shape, dtypes);
        // f32 rounds each product of values up to 4 and their sum: 3·4·2^-24.
        check_reference(&case, |_| half_unit(case.x, 1e-6));
        prop_assert_eq!(walked(&case), (case.work().bytes_read, case.work().bytes_written, case.work().total_flops()));
    }
}

/// Bytes read and written and operations, by doing what the definition says, element by element.
fn walked(case: &Rope) -> (u128, u128, u128) {
    let tensors = filled(case);
    let (mut table, mut read, mut written, mut flops) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), 0);
    for (token, position) in tensors.get("positions").view::<i64>().iter().enumerate() {
        for head in 0..case.q_heads + case.kv_heads {
            for element in 0..case.head_dim {
                if element < case.rotary_dim {
                    table.insert((*position, element));
                    flops += 3; // two products and their sum
                }
                if element < case.rotary_dim || !case.inplace {
                    read.insert((token, head, element));
                    written.insert((token, head, element));
                }
            }
        }
    }
    let x = u128::from(case.x.bits() / 8);
    let rows = table.len() as u128 * u128::from(case.table_dtype.bits() / 8);
    (rows + 8 * u128::from(case.tokens) + x * read.len() as u128, x * written.len() as u128, flops)
}

#[test]
fn scores_depend_on_the_distance_alone() {
    // What the embedding is for: the product of a query at p and a key at q is that of p + n and q + n.
    for (style, table) in [("neox", "joint"), ("gptj", "split")] {
        let case =
            rope(&format!("tokens=2,q_heads=1,kv_heads=1,head_dim=16,style={style},table={table},max_pos=64"), "f32");
        let score = |positions: [i64; 2]| {
            let mut tensors = filled(&case);
            tensors.get_mut("positions").view_mut::<i64>().copy_from_slice(&positions);
            case.reference(&mut tensors);
            let (q, k) = (tensors.get("q").view::<f32>(), tensors.get("k").view::<f32>());
            q[..16].iter().zip(&k[16..]).map(|(q, k)| f64::from(q * k)).sum::<f64>()
        };
        let first = score([3, 10]);
        assert!((score([20, 27]) - first).abs() < 1e-4);
        assert!((score([3, 11]) - first).abs() > 1e-3);
    }
}

#[test]
fn position_zero_changes_nothing_and_the_rest_of_a_head_never() {
    let case = rope("tokens=3,q_heads=2,kv_heads=1,head_dim=24,rotary_dim=16,max_pos=9,style=gptj", "bf16");
    let mut tensors = filled(&case);
    tensors.get_mut("positions").view_mut::<i64>().copy_from_slice(&[0, 8, 0]);
    let before = tensors.clone();
    case.reference(&mut tensors);
    let (old, new) = (before.get("q").view::<u16>(), tensors.get("q").view::<u16>());
    for (index, (old, new)) in old.iter().zip(new).enumerate() {
        let (token, element) = (index / 48, index % 24);
        assert!(old == new || (token == 1 && element < 16), "{index}");
    }
    assert_ne!(old, new);
}

#[test]
fn work_at_a_real_shape() {
    // A decode step of gpt-oss 20b on MI300X: 32 tokens, 64 and 8 heads of 64, table of 131072 rows.
    let case = rope("tokens=32,q_heads=64,kv_heads=8,head_dim=64,max_pos=131072", "bf16");
    let elements = 32 * 72 * 64;
    // TraceLens: 3 FLOPs and 2·n·bpe bytes an element; positions and table rows come on top.
    assert_eq!(case.work().total_flops(), 3 * elements);
    let rows = case.work().total_bytes() - 2 * elements * 2 - 32 * 8;
    assert!(rows.is_multiple_of(128) && rows <= 32 * 128, "{rows}");
    assert_eq!(case.tensors().iter().filter(|spec| spec.role == Role::InOut).count(), 2);
}

#[test]
fn sequences_are_consecutive() {
    let case = rope("tokens=10,q_heads=1,head_dim=2,max_pos=6,batch=3", "bf16");
    let runs = [0..4, 4..7, 7..10].map(|run| case.positions[run].to_vec());
    for run in runs {
        assert!(run.windows(2).all(|pair| pair[1] == pair[0] + 1) && run.iter().all(|position| *position < 6));
    }
}

#[test]
fn impossible_cases_say_why() {
    let base = "tokens=2,q_heads=1,head_dim=8";
    for (more, dtypes, part) in [
        ("rotary_dim=5", "bf16", "even"),
        ("rotary_dim=10", "bf16", "at most 8"),
        ("batch=3", "bf16", "at most 2"),
        ("batch=1,max_pos=1", "bf16", "position of its own"),
        ("style=yarn", "bf16", "neox"),
        ("table=both", "bf16", "joint"),
        ("heads=1", "bf16", "heads"),
        ("max_pos=99999999999", "bf16", "at most"),
        ("kv_heads=99999", "bf16", "at most"),
        ("", "fp8", "bf16"),
        ("", "bf16,table=i8", "bf16"),
        ("", "bf16,k=bf16", "no such role"),
        ("", "", "needs a dtype"),
    ] {
        let error = build(Family::Rope, &format!("{base},{more}"), dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{more} {dtypes}: {error}");
    }
    assert!(build(Family::Rope, "tokens=2,head_dim=8", "bf16").unwrap_err().to_string().contains("q_heads"));
}

const BF16: &str = "c10::BFloat16";

fn recovered(op: &OpCall) -> (String, String) {
    let Recovered { family, shape, dtypes, .. } = recover(op).unwrap().unwrap();
    assert_eq!(family, Family::Rope);
    build(family, &shape.to_string(), &dtypes.to_string()).unwrap();
    (shape.to_string(), dtypes.to_string())
}

#[test]
fn operators_give_shapes() {
    let vllm = |name| {
        call(
            name,
            &[
                (&[32], "long int"),
                (&[32, 4096], BF16),
                (&[32, 512], BF16),
                (&[], "64"),
                (&[131_072, 64], BF16),
                (&[], "True"),
            ],
        )
    };
    let gpt_oss = "tokens=32,q_heads=64,kv_heads=8,head_dim=64,rotary_dim=64,style=neox,max_pos=131072";
    // As traces of vLLM and SGLang on MI300X have it.
    for name in ["_C::rotary_embedding", "sgl_kernel::rotary_embedding"] {
        assert_eq!(recovered(&vllm(name)), (gpt_oss.to_owned(), "bf16".to_owned()));
    }
    let mut alone = vllm("_C::rotary_embedding");
    alone.args[2] = crate::OpArg::default();
    alone.args[5].concrete = "False".to_owned();
    let shape = gpt_oss.replace("kv_heads=8", "kv_heads=0").replace("neox", "gptj");
    assert_eq!(recovered(&alone).0, shape);

    // ATOM calls aiter with [1, tokens, heads, d] and a table of half the rotary width in f32.
    let q: &[u64] = &[1, 17, 16, 128];
    let k: &[u64] = &[1, 17, 2, 128];
    let table: (&[u64], &str) = (&[4096, 1, 1, 32], "float");
    let tail: [(&[u64], &str); 4] = [(&[1, 17], "long int"), (&[], "1"), (&[], "True"), (&[], "False")];
    let shape =
        "tokens=17,q_heads=16,kv_heads=2,head_dim=128,rotary_dim=64,style=gptj,inplace=true,table=split,max_pos=4096";
    let args: Vec<_> = [(q, BF16), (k, BF16), table, table].into_iter().chain(tail).collect();
    let op = call("aiter::rope_cached_positions_2c_fwd_inplace", &args);
    assert_eq!(recovered(&op), (shape.to_owned(), "bf16,table=f32".to_owned()));
    let args: Vec<_> = [(q, BF16), (k, BF16)].into_iter().chain(args).collect();
    let mut op = call("aiter::rope_cached_positions_2c_fwd_impl", &args);
    assert_eq!(recovered(&op).0, shape.replace("inplace=true", "inplace=false"));
    op.kernels = vec!["void aiter::kn_entry_2c_sbhd_cached_indirect_inplace<...>".to_owned()];
    assert_eq!(recovered(&op).0, shape);
}

#[test]
fn unclear_calls_are_errors() {
    let joint = |query: &[u64], head: &str, table: &[u64], dtype: &str| {
        call(
            "_C::rotary_embedding",
            &[(&[32], "long int"), (query, dtype), (&[32, 512], BF16), (&[], head), (table, BF16), (&[], "True")],
        )
    };
    for (op, part) in [
        (joint(&[32, 4096], "0", &[8, 64], BF16), "head_size"),
        (joint(&[32, 4096], "64", &[8], BF16), "two dimensions"),
        (joint(&[32, 4095], "64", &[8, 64], BF16), "whole heads"),
        (joint(&[u64::MAX, 4096], "64", &[8, 64], BF16), "2^48"),
        (joint(&[32, 4096], "64", &[8, 64], "c10::x"), "c10::x"),
        (joint(&[32, 4096], "64", &[8, 64], "signed char"), "bf16, f16 or f32"),
        (call("_C::rotary_embedding", &[]), "positions"),
        (
            call(
                "aiter::rope_cached_positions_fwd_inplace",
                &[
                    (&[1, 2, 3, 8], BF16),
                    (&[9, 1, 1, 4], BF16),
                    (&[9, 1, 1, 4], BF16),
                    (&[1, 2], "long int"),
                    (&[], "0"),
                    (&[], "True"),
                    (&[], "True"),
                ],
            ),
            "nope_first",
        ),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
    assert!(super::recover(&call("aiter::rope_fwd_impl", &[])).is_none());
}
