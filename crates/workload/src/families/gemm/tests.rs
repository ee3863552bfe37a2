use super::*;
use crate::families::testing::{OPTIONS, build, check_bytes, check_filled, check_reference, half_unit};
use proptest::prelude::*;

mod recover_tests;

fn gemm(shape: &str, dtypes: &str) -> Gemm {
    Gemm::new(&shape.parse().unwrap(), &dtypes.parse().unwrap(), OPTIONS).unwrap()
}

/// Half a unit of the output and the noise of f32 sums of k products near one.
fn tight(case: &Gemm) -> Tolerance {
    half_unit(case.out, case.k as f64 * 3e-7 + 1e-6)
}

/// Dtypes with the scales that go with them, and the multiple that k must be of.
fn operands() -> impl Strategy<Value = (&'static str, &'static str, u64)> {
    prop_oneof![
        Just(("bf16", "none", 1)),
        Just(("f16", "none", 1)),
        Just(("f32", "none", 1)),
        Just(("a=bf16,b=f16,out=f32", "none", 1)),
        Just(("fp8", "per_tensor", 1)),
        Just(("fp8", "per_token", 1)),
        Just(("a=fp8_e4m3fn,b=bf8,out=f16", "per_token", 1)),
        Just(("i8,out=bf16", "per_token", 1)),
        Just(("fp8,out=f32", "block128", 1)),
        Just(("a=bf16,b=fp8", "block128", 1)),
        Just(("fp4", "mx32", 32)),
        Just(("a=bf16,b=fp4", "mx32", 32)),
        Just(("a=fp8_e4m3fn,b=fp4", "mx32", 32)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn reference_bytes_and_flops_are_right(
        (m, n, k) in (1u64..9, 1u64..11, 1u64..9),
        long in prop_oneof![Just(1u64), Just(37)],
        batch in 1u64..4,
        (bias, bias_dtype) in prop_oneof![Just(("false", "")), Just(("true", "")), Just(("full", ",bias=bf16"))],
        (dtypes, quant, multiple) in operands(),
        (trans_a, trans_b) in (any::<bool>(), any::<bool>()),
    ) {
        let (trans_a, trans_b) = if quant == "none" { (trans_a, trans_b) } else { (false, true) };
        let k = k * long * multiple;
        let shape = format!("batch={batch},m={m},n={n},k={k},bias={bias},quant={quant},trans_a={trans_a},trans_b={trans_b}");
        let case = gemm(&shape, &format!("{dtypes}{bias_dtype}"));
        check_reference(&case, |_| tight(&case));
        check_bytes(&case);
        prop_assert_eq!(case.work().total_flops(), walked_flops(&case));
    }
}

/// Counts a multiplication and an addition for each pair that is multiplied, and the bias.
fn walked_flops(case: &Gemm) -> u128 {
    let mut flops = 0;
    for _ in 0..case.batch * case.m * case.n {
        (0..case.k).for_each(|_| flops += 2);
        flops += u128::from(case.bias != Bias::None);
    }
    flops
}

#[test]
fn blocks_of_scales_reach_their_elements_over_ragged_edges() {
    for (m, n, k, a_grid, b_grid) in
        [(3, 130, 129, [3, 2], [2, 2]), (2, 257, 1300, [2, 11], [3, 11]), (200, 5, 384, [200, 3], [1, 3])]
    {
        let case = gemm(&format!("m={m},n={n},k={k},quant=block128"), "fp8,out=f32");
        check_reference(&case, |_| tight(&case));
        assert_eq!((case.quant.a_grid(&case), case.quant.b_grid(&case)), (a_grid, b_grid));
    }
}

#[test]
fn tiles_of_every_kind_agree_with_the_naive_form() {
    for shape in
        ["m=197,n=70,k=1030,bias=true", "m=1,n=2100,k=40", "batch=2,m=193,n=65,k=33,trans_a=true,trans_b=false"]
    {
        let case = gemm(shape, "bf16");
        check_reference(&case, |_| tight(&case));
    }
}

#[test]
fn a_known_product() {
    // [1 2; 3 4] · [5 6; 7 8] = [19 22; 43 50], b given as columns, and the bias [10, 20].
    let case = gemm("m=2,n=2,k=2,bias=true", "f32");
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    tensors.get_mut("a").view_mut::<f32>().copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
    tensors.get_mut("b").view_mut::<f32>().copy_from_slice(&[5.0, 7.0, 6.0, 8.0]);
    tensors.get_mut("bias").view_mut::<f32>().copy_from_slice(&[10.0, 20.0]);
    check_filled(&case, &mut tensors, |_| tight(&case));
    assert_eq!(tensors.get("out").view::<f32>(), [29.0, 42.0, 53.0, 70.0]);
}

#[test]
fn wrong_values_are_seen() {
    // The tolerance of a bf16 product of realistic depth finds one missing product in each sum.
    let case = gemm("m=4,n=64,k=512", "bf16");
    let mut tensors = TensorSet::zeroed(&case.tensors()).unwrap();
    case.fill(3, &mut tensors);
    let right = case.naive(&tensors, "out", &(0..256).collect::<Vec<_>>());
    for row in 0..4 {
        narrow::set(Dtype::Bf16, tensors.get_mut("a").bytes_mut(), row * 512, 0.0);
    }
    let wrong = case.naive(&tensors, "out", &(0..256).collect::<Vec<_>>());
    assert!(crate::verify::compare(&right, &right, case.tolerance("out")).passed);
    assert!(!crate::verify::compare(&right, &wrong, case.tolerance("out")).passed);
}

#[test]
fn work_at_real_shapes() {
    // The lm head of gpt-oss-20b at 32 tokens: 1.16 GB of weights.
    let work = gemm("m=32,n=201088,k=2880", "bf16").work();
    assert_eq!(work.total_flops(), 2 * 32 * 201_088 * 2880);
    assert_eq!(work.bytes_read, 2 * (32 * 2880 + 201_088 * 2880));
    assert_eq!(work.bytes_written, 2 * 32 * 201_088);
    // TraceLens gives 51.58 GFLOP and 71.0 MiB for aten::mm 8944x2816x1024 (shared facts, section 3.5).
    let work = gemm("m=8944,n=2816,k=1024", "bf16").work();
    assert_eq!(work.total_flops(), 51_581_550_592);
    assert!((work.total_bytes() as f64 / 1024.0 / 1024.0 - 71.0078125).abs() < 1e-9);
}

#[test]
fn counts_beyond_64_bits_do_not_wrap() {
    let case = gemm("m=16777216,n=16777216,k=16777216", "bf16");
    assert_eq!(case.work().total_flops(), 1_u128 << 73);
}

#[test]
fn impossible_cases_say_why() {
    for (shape, dtypes, part) in [
        ("m=1,n=1", "bf16", "`k`"),
        ("m=1,n=1,k=0", "bf16", "at least 1"),
        ("batch=0,m=1,n=1,k=1", "bf16", "at least 1"),
        ("m=16777217,n=16777217,k=1", "bf16", "2^48"),
        ("m=18446744073709551615,n=1,k=18446744073709551615", "bf16", "2^48"),
        ("m=1,n=1,k=1", "", "needs a dtype"),
        ("m=1,n=1,k=1", "f64", "gemm takes"),
        ("m=1,n=1,k=1", "fp8", "have scales"),
        ("m=1,n=1,k=1,quant=per_token", "bf16", "fp8"),
        ("m=1,n=1,k=1,quant=per_token,trans_b=false", "fp8", "stored"),
        ("m=1,n=1,k=64,quant=block128", "fp4", "mx32"),
        ("m=1,n=1,k=33,quant=mx32", "fp4", "multiple of 32"),
        ("m=1,n=1,k=32,quant=int4", "fp4", "per_tensor"),
        ("m=1,n=1,k=1,bias=maybe", "bf16", "true or false"),
        ("m=1,n=1,k=1", "bf16,out=fp8", "out="),
        ("m=1,n=1,k=1", "bf16,bias=f32", "no bias"),
        ("m=1,n=1,k=1", "bf16,c=bf16", "no such role"),
        ("m=1,n=1,k=1,lda=4", "bf16", "lda"),
    ] {
        let error = build(Family::Gemm, shape, dtypes).unwrap_err().to_string();
        assert!(error.contains(part), "{shape} {dtypes}: {error}");
    }
}
