use super::*;
use crate::families::testing::{OPTIONS, build, call, check_reference, half_unit};
use crate::{OpCall, Recovered, recover};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn kv_cache(shape: &str, dtypes: &str) -> KvCache {
    KvCache::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), OPTIONS).unwrap()
}

/// What the reference itself may be off: nothing for copies, half a unit of what is quantised.
fn tight(case: &KvCache, name: &str) -> Tolerance {
    match case.quant {
        KvQuant::None => Tolerance { abs: 0.0, rel: 0.0, mismatch_share: 0.0 },
        _ if case.scales().contains(&name) => Tolerance { abs: 0.0, rel: 1e-6, mismatch_share: 0.0 },
        _ if case.kv == Dtype::I8 => Tolerance { abs: 0.501, rel: 0.0, mismatch_share: 0.0 },
        _ => half_unit(case.kv, smallest_step(case.kv) * 0.501),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn reference_and_bytes_are_right(
        written in 1u64..9,
        padding in 0u64..3,
        part in 0.0f64..1.0,
        kv_heads in 1u64..4,
        chunks in 1u64..4,
        odd in 0u64..16,
        block in prop::sample::select(vec![1u64, 5, 16, 32]),
        layout in prop::sample::select(vec!["flash", "aiter", "shuffled", "mla"]),
        quant in prop::sample::select(vec!["none", "per_tensor", "per_token"]),
        x in prop::sample::select(vec!["bf16", "f16", "f32"]),
        kv in prop::sample::select(vec!["fp8", "bf8", "i8"]),
        spare in 0u64..3,
    ) {
        let batch = 1 + (part * (written - 1) as f64) as u64;
        let quant = if layout == "mla" && quant == "per_token" { "per_tensor" } else { quant };
        let block = if layout == "shuffled" { block.next_multiple_of(16) } else { block };
        let head_dim = if layout == "flash" { 16 * chunks - odd } else { 16 * chunks };
        let widths = match layout {
            "mla" => format!("kv_lora={head_dim},rope_dim={}", odd + 1),
            _ => format!("kv_heads={kv_heads},head_dim={head_dim}"),
        };
        let shape = format!(
            "tokens={},padding={padding},batch={batch},block_size={block},layout={layout},quant={quant},{widths}",
            written + padding
        );
        let dtypes = if quant == "none" { format!("x={x}") } else { format!("x={x},kv={kv}") };
        let case = kv_cache(&shape, &dtypes);
        let case = kv_cache(&format!("{shape},pages={}", case.pages + spare), &dtypes);
        check_reference(&case, |name| tight(&case, name));
        prop_assert_eq!(walked(&case), (case.work().bytes_read, case.work().bytes_written, case.work().total_flops()));
        check_slots(&case);
    }
}

/// Bytes read and written and operations, by doing what the definition says.
fn walked(case: &KvCache) -> (u128, u128, u128) {
    let (mut read, mut written, mut flops) = (0, 0, 0);
    if case.quant == KvQuant::PerTensor {
        read += 4 * case.scales().len() as u128;
    }
    for slot in &case.slots {
        read += 8;
        if *slot < 0 {
            continue;
        }
        for part in case.parts() {
            for _ in 0..case.kv_heads {
                let width = part.source_dims.last().unwrap();
                for _ in 0..*width {
                    read += u128::from(case.x.bits() / 8);
                    written += u128::from(case.kv.bits() / 8);
                    flops += match case.quant {
                        KvQuant::None => 0,
                        KvQuant::PerTensor => 1, // · 1/scale
                        KvQuant::PerToken => 2,  // maximum, · 1/scale
                    };
                }
                written += if case.quant == KvQuant::PerToken { 4 } else { 0 };
            }
        }
    }
    (read, written, flops)
}

fn check_slots(case: &KvCache) {
    let used: Vec<i64> = case.slots.iter().copied().filter(|slot| *slot >= 0).collect();
    assert_eq!(used.len() as u64, case.tokens - case.padding);
    assert_eq!(used.iter().collect::<BTreeSet<_>>().len(), used.len());
    assert!(used.iter().all(|slot| (*slot as u64) < case.pages * case.block_size));
    // Within a sequence the next token has the next place, in the same page or at the start of another.
    let (each, more) = ((case.tokens - case.padding) / case.batch, (case.tokens - case.padding) % case.batch);
    let mut rest = &used[..];
    for sequence in 0..case.batch {
        let (own, after) = rest.split_at((each + u64::from(sequence < more)) as usize);
        rest = after;
        for pair in own.windows(2) {
            let next = (pair[0] + 1) as u64;
            assert!(
                pair[1] as u64 == next
                    || [next, pair[1] as u64].iter().all(|slot| slot.is_multiple_of(case.block_size))
            );
        }
    }
}

#[test]
fn pages_of_both_families_are_the_same() {
    // What is written here is what a paged_attention case of the same sizes reads.
    for (layout, attention) in [("flash", "flash"), ("aiter", "aiter")] {
        for (quant, scale, dtypes, kv) in [
            ("none", "none", "bf16", "bf16"),
            ("per_token", "per_token", "x=bf16,kv=fp8", "q=bf16,kv=fp8"),
            ("per_tensor", "per_tensor", "x=bf16,kv=fp8", "q=bf16,kv=fp8"),
        ] {
            let writer =
                kv_cache(&format!("tokens=4,kv_heads=2,head_dim=64,pages=9,layout={layout},quant={quant}"), dtypes);
            let reader =
                format!("q_heads=4,kv_heads=2,head_dim=64,ctx=[40,30],pages=9,layout={attention},kv_scale={scale}");
            let reader = build(Family::PagedAttention, &reader, kv).unwrap();
            let of = |specs: Vec<TensorSpec>| {
                let wanted = |spec: &TensorSpec| ["k_cache", "v_cache", "k_scale", "v_scale"].contains(&spec.name);
                let mut found: Vec<_> =
                    specs.into_iter().filter(wanted).map(|spec| (spec.name, spec.dtype, spec.dims)).collect();
                found.sort();
                found
            };
            assert_eq!(of(writer.tensors()), of(reader.tensors()), "{layout} {quant}");
        }
    }
}

#[test]
fn layouts_are_those_of_the_facts() {
    let dims = |layout: &str, name: &str, dtypes: &str, quant: &str| {
        let case = kv_cache(&format!("tokens=1,kv_heads=8,head_dim=128,pages=3,layout={layout},quant={quant}"), dtypes);
        case.tensors().into_iter().find(|spec| spec.name == name).unwrap().dims
    };
    assert_eq!(dims("aiter", "k_cache", "bf16", "none"), [3, 8, 16, 16, 8]);
    assert_eq!(dims("aiter", "v_cache", "bf16", "none"), [3, 8, 128, 16]);
    assert_eq!(dims("shuffled", "k_cache", "x=bf16,kv=i8", "per_token"), [3, 8, 8, 16, 16]);
    assert_eq!(dims("shuffled", "v_cache", "x=bf16,kv=i8", "per_token"), [3, 8, 1, 128, 16]);
    assert_eq!(dims("shuffled", "v_scale", "x=bf16,kv=i8", "per_token"), [3, 8, 16]);
    assert_eq!(dims("flash", "v_cache", "bf16", "none"), [3, 16, 8, 128]);
    let latent = kv_cache("tokens=5,layout=mla,block_size=1", "bf16");
    assert_eq!(latent.tensors().last().unwrap().dims, [5, 1, 576]);
    // aiter counts T·576·2 elements for the latent cache; the slots come on top.
    assert_eq!(latent.work().total_bytes(), 5 * 576 * 2 * 2 + 5 * 8);
}

#[test]
fn zero_vectors_stay_zero() {
    let case = kv_cache("tokens=3,kv_heads=2,head_dim=16,quant=per_token,layout=aiter", "x=bf16,kv=fp8");
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    case.fill(1, &mut tensors);
    tensors.get_mut("key").bytes_mut().fill(0);
    tensors.get_mut("k_cache").bytes_mut().fill(0);
    case.reference(&mut tensors);
    assert!(tensors.get("k_cache").bytes().iter().all(|byte| *byte == 0));
    assert_eq!(tensors.get("k_scale").view::<f32>().iter().filter(|scale| **scale == 0.0).count(), 3 * 2);
    assert!(tensors.get("v_cache").bytes().iter().any(|byte| *byte != 0));
}

#[test]
fn impossible_cases_say_why() {
    for (shape, dtypes, part) in [
        ("kv_heads=1,head_dim=8", "bf16", "tokens"),
        ("tokens=1,head_dim=8", "bf16", "kv_heads"),
        ("tokens=1,kv_heads=1,head_dim=8,padding=1", "bf16", "less than"),
        ("tokens=3,kv_heads=1,head_dim=8,batch=4", "bf16", "at most 3"),
        ("tokens=40,kv_heads=1,head_dim=8,pages=2", "bf16", "need 40 pages"),
        ("tokens=1,kv_heads=1,head_dim=8,block_size=65536,pages=65536", "bf16", "slots"),
        ("tokens=1,kv_heads=4096,head_dim=4096,pages=60000000", "bf16", "2^48"),
        ("tokens=1,kv_heads=1,head_dim=12,layout=aiter", "bf16", "multiple of 8"),
        ("tokens=1,kv_heads=1,head_dim=8,layout=shuffled,block_size=4", "bf16", "multiple of 8"),
        ("tokens=1,kv_heads=1,head_dim=8,layout=mla", "bf16", "kv_lora"),
        ("tokens=1,kv_lora=8,kv_heads=1,head_dim=8", "bf16", "layout=mla only"),
        ("tokens=1,layout=mla,quant=per_token", "x=bf16", "one scale for all"),
        ("tokens=1,layout=paged", "bf16", "shuffled"),
        ("tokens=1,layout=mla,quant=block", "bf16", "per_tensor"),
        ("tokens=1,kv_heads=1,head_dim=8", "bf16,kv=fp8", "quant=per_tensor"),
        ("tokens=1,kv_heads=1,head_dim=8,quant=per_token", "bf16,kv=bf16", "fp8_e4m3fn"),
        ("tokens=1,kv_heads=1,head_dim=8", "fp8", "bf16"),
        ("tokens=1,kv_heads=1,head_dim=8,heads=1", "bf16", "heads"),
        ("tokens=1,kv_heads=1,head_dim=8", "bf16,q=bf16", "no such role"),
    ] {
        let error = build(Family::KvCache, shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape} {dtypes}: {error}");
    }
}

const BF16: &str = "c10::BFloat16";

fn recovered(op: &OpCall) -> (String, String) {
    let Recovered { family, shape, dtypes, .. } = recover(op).unwrap().unwrap();
    assert_eq!(family, Family::KvCache);
    build(family, &shape.to_string(), &dtypes.to_string()).unwrap();
    (shape.to_string(), dtypes.to_string())
}

#[test]
fn operators_give_shapes() {
    let text = |value| (&[][..], value);
    // (kv_cache_dtype, k_scale, v_scale) as vLLM passes them.
    let tail = |dtype| [text(dtype), (&[1][..], "float"), (&[1][..], "float")];
    let slots: (&[u64], &str) = (&[32], "long int");
    let key: (&[u64], &str) = (&[32, 8, 64], BF16);
    let paged = |name, keys, values, dtype| {
        let args: Vec<_> = [key, key, keys, values, slots].into_iter().chain(tail(dtype)).collect();
        call(name, &args)
    };
    for (op, shape, dtypes) in [
        (
            // gpt-oss 20b on MI300X.
            paged(
                "_C_cache_ops::reshape_and_cache_flash",
                (&[224_304, 32, 8, 64], BF16),
                (&[224_304, 32, 8, 64], BF16),
                "auto",
            ),
            "tokens=32,kv_heads=8,head_dim=64,block_size=32,layout=flash,quant=none",
            "bf16",
        ),
        (
            paged(
                "_C_cache_ops::reshape_and_cache_flash",
                (&[99, 16, 8, 64], "unsigned char"),
                (&[99, 16, 8, 64], "unsigned char"),
                "fp8_e5m2",
            ),
            "tokens=32,kv_heads=8,head_dim=64,block_size=16,layout=flash,quant=per_tensor",
            "x=bf16,kv=bf8",
        ),
        (
            paged("_C_cache_ops::reshape_and_cache", (&[99, 8, 8, 16, 8], BF16), (&[99, 8, 64, 16], BF16), "auto"),
            "tokens=32,kv_heads=8,head_dim=64,block_size=16,layout=aiter,quant=none",
            "bf16",
        ),
        (
            paged("aiter::reshape_and_cache", (&[99, 8, 8, 16, 8], BF16), (&[99, 8, 2, 64, 8], BF16), "auto"),
            "tokens=32,kv_heads=8,head_dim=64,block_size=16,layout=shuffled,quant=none",
            "bf16",
        ),
        (
            call(
                "aiter::reshape_and_cache_with_pertoken_quant",
                &[
                    key,
                    key,
                    (&[99, 8, 4, 16, 16], "c10::Float8_e4m3fnuz"),
                    (&[99, 8, 1, 64, 16], "c10::Float8_e4m3fnuz"),
                    (&[8, 1584], "float"),
                    (&[8, 1584], "float"),
                    slots,
                    text("True"),
                ],
            ),
            "tokens=32,kv_heads=8,head_dim=64,block_size=16,layout=shuffled,quant=per_token",
            "x=bf16,kv=fp8_e4m3fnuz",
        ),
        (
            call(
                "_C_cache_ops::concat_and_cache_mla",
                &[
                    (&[7, 512], BF16),
                    (&[7, 64], BF16),
                    (&[9, 1, 576], BF16),
                    (&[7], "long int"),
                    text("auto"),
                    (&[1], "float"),
                ],
            ),
            "tokens=7,kv_lora=512,rope_dim=64,block_size=1,layout=mla,quant=none",
            "bf16",
        ),
        (
            // Qwen3 8b on MI300X.
            call(
                "sglang::store_cache",
                &[
                    (&[15_360, 1024], BF16),
                    (&[15_360, 1024], BF16),
                    (&[835_874, 1024], BF16),
                    (&[835_874, 1024], BF16),
                    (&[15_360], "long int"),
                    text("2048"),
                    text("0"),
                ],
            ),
            "tokens=15360,kv_heads=1,head_dim=1024,block_size=1,layout=flash,quant=none",
            "bf16",
        ),
        (
            call(
                "sglang_profiler::memory_pool__set_kv_buffer_impl_353",
                &[key, key, (&[835_874, 8, 64], BF16), (&[835_874, 8, 64], BF16), slots],
            ),
            "tokens=32,kv_heads=8,head_dim=64,block_size=1,layout=flash,quant=none",
            "bf16",
        ),
    ] {
        assert_eq!(recovered(&op), (shape.to_owned(), dtypes.to_owned()), "{}", op.name);
    }
}

#[test]
fn unclear_calls_are_errors() {
    let flash = |key: &[u64], value: &[u64], cache: &[u64], dtype: &str| {
        call("_C_cache_ops::reshape_and_cache_flash", &[(key, BF16), (value, BF16), (cache, dtype), (cache, dtype)])
    };
    let key: &[u64] = &[2, 8, 64];
    for (op, part) in [
        (flash(key, &[2, 8, 32], &[9, 16, 8, 64], BF16), "other dimensions"),
        (flash(key, key, &[9, 16, 4, 64], BF16), "8 heads of 64"),
        (flash(&[2, 512], key, &[9, 16, 8, 64], BF16), "three dimensions"),
        (flash(key, key, &[9, 16, 8, 64], "c10::x"), "c10::x"),
        (call("_C_cache_ops::reshape_and_cache_flash", &[]), "no tensor"),
        (call("aiter::reshape_and_cache_with_block_quant", &[]), "scale a page"),
        (
            call(
                "_C_cache_ops::concat_and_cache_mla",
                &[(&[7, 512], BF16), (&[7, 64], BF16), (&[9, 1, 656], "unsigned char")],
            ),
            "512 + 64",
        ),
        (call("sglang::store_cache", &[(&[2, 8], BF16), (&[2, 8], BF16), (&[9, 7], BF16)]), "rows"),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
}
