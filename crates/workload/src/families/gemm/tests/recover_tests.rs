//! Shapes from operator calls.

use crate::families::testing::{build, call, with_params};
use crate::{Family, OpArg, OpCall, Recovered, Value, recover};

const BF16: &str = "c10::BFloat16";
const FP8: &str = "c10::Float8_e4m3fnuz";
const FLOAT: &str = "float";

fn strided(mut op: OpCall, strides: &[&[i64]]) -> OpCall {
    for (arg, strides) in op.args.iter_mut().zip(strides) {
        arg.strides = strides.to_vec();
    }
    op
}

fn recovered(op: &OpCall) -> Recovered {
    let recovered = recover(op).unwrap_or_else(|| panic!("{} is not known", op.name));
    let recovered = recovered.unwrap_or_else(|error| panic!("{}: {error}", op.name));
    assert_eq!(recovered.family, Family::Gemm);
    build(Family::Gemm, &recovered.shape.to_string(), &recovered.dtypes.to_string()).unwrap();
    recovered
}

fn check(op: &OpCall, shape: &str, dtypes: &str) {
    let got = recovered(op);
    assert_eq!((got.shape.to_string().as_str(), got.dtypes.to_string().as_str()), (shape, dtypes), "{}", op.name);
}

#[test]
fn pytorch_s_products() {
    let mm = call("aten::mm", &[(&[8944, 1024], BF16), (&[1024, 2816], BF16)]);
    check(&strided(mm.clone(), &[&[1024, 1], &[1, 1024]]), "batch=1,m=8944,n=2816,k=1024,trans_b=true", "bf16");
    check(&strided(mm.clone(), &[&[1024, 1], &[2816, 1]]), "batch=1,m=8944,n=2816,k=1024,trans_b=false", "bf16");
    check(
        &strided(mm.clone(), &[&[1, 8944], &[2816, 1]]),
        "batch=1,m=8944,n=2816,k=1024,trans_a=true,trans_b=false",
        "bf16",
    );
    // Without strides the usual layout of weights is assumed, and said.
    let got = recovered(&mm);
    assert_eq!(got.shape.to_string(), "batch=1,m=8944,n=2816,k=1024,trans_b=true");
    assert!(got.assumed[0].contains("[n, k]"), "{:?}", got.assumed);

    let scalars: [(&[u64], &str); 2] = [(&[], "1"), (&[], "1")];
    let addmm = |c: &[u64], beta: &str| {
        let mut args = vec![(c, BF16), (&[32, 2880][..], BF16), (&[2880, 5120][..], BF16), (&[][..], beta)];
        args.push(scalars[1]);
        strided(call("aten::addmm", &args), &[&[1], &[2880, 1], &[1, 2880]])
    };
    check(&addmm(&[5120], "1"), "batch=1,m=32,n=5120,k=2880,trans_b=true,bias=true", "bf16");
    check(&addmm(&[32, 5120], "1"), "batch=1,m=32,n=5120,k=2880,trans_b=true,bias=full", "bf16");
    check(&addmm(&[32, 5120], "0."), "batch=1,m=32,n=5120,k=2880,trans_b=true", "bf16");

    // The rotary embedding's outer product: k is 1.
    let bmm = call("aten::bmm", &[(&[1, 32, 1], FLOAT), (&[1, 1, 559], FLOAT)]);
    check(&strided(bmm, &[&[32, 1, 1], &[559, 559, 1]]), "batch=1,m=32,n=559,k=1,trans_b=false", "f32");
    let bmm = call("aten::bmm", &[(&[128, 16, 512], BF16), (&[128, 512, 128], BF16)]);
    check(&strided(bmm, &[&[512, 65536, 1], &[65536, 1, 512]]), "batch=128,m=16,n=128,k=512,trans_b=true", "bf16");
    let linear = call("aten::linear", &[(&[2, 16, 512], BF16), (&[128, 512], BF16), (&[128], FLOAT)]);
    check(&linear, "batch=1,m=32,n=128,k=512,trans_b=true,bias=true", "a=bf16,b=bf16,out=bf16,bias=f32");
}

#[test]
fn products_with_scales() {
    let scaled_mm = |scale_a: &[u64], scale_b: &[u64]| {
        let none: (&[u64], &str) = (&[], "");
        let args = [
            (&[64, 4096][..], FP8),
            (&[4096, 1000][..], FP8),
            (scale_a, FLOAT),
            (scale_b, FLOAT),
            none,
            none,
            (&[][..], "15"),
        ];
        strided(call("aten::_scaled_mm", &args), &[&[4096, 1], &[1, 4096]])
    };
    let narrow = "a=fp8_e4m3fnuz,b=fp8_e4m3fnuz,out=bf16";
    check(&scaled_mm(&[], &[]), "batch=1,m=64,n=1000,k=4096,quant=per_tensor", narrow);
    check(&scaled_mm(&[64, 1], &[1, 1000]), "batch=1,m=64,n=1000,k=4096,quant=per_token", narrow);
    check(&scaled_mm(&[64, 32], &[8, 32]), "batch=1,m=64,n=1000,k=4096,quant=block128", narrow);
    assert_eq!(recovered(&scaled_mm(&[], &[])).assumed, Vec::<String>::new());
    let mixed = recovered(&scaled_mm(&[], &[1, 1000]));
    assert_eq!(mixed.shape.to_string(), "batch=1,m=64,n=1000,k=4096,quant=per_token");
    assert!(mixed.assumed[0].contains("1 and 1000"), "{:?}", mixed.assumed);

    let blockscale = call(
        "aiter::gemm_a8w8_blockscale",
        &[(&[7, 7168], FP8), (&[2112, 7168], FP8), (&[7, 56], FLOAT), (&[17, 56], FLOAT)],
    );
    check(&blockscale, "batch=1,m=7,n=2112,k=7168,quant=block128", narrow);
    assert!(recovered(&blockscale).assumed.iter().any(|text| text.contains("out is bf16")));
    let with_out = call(
        "aiter::gemm_a8w8_blockscale_bpreshuffle_asm",
        &[(&[7, 7168], FP8), (&[2112, 7168], FP8), (&[7, 2112], "c10::Half"), (&[7, 56], FLOAT), (&[17, 56], FLOAT)],
    );
    check(&with_out, "batch=1,m=7,n=2112,k=7168,quant=block128", "a=fp8_e4m3fnuz,b=fp8_e4m3fnuz,out=f16");
    let int8 = call(
        "aiter::gemm_a8w8",
        &[(&[7, 512], "signed char"), (&[96, 512], "signed char"), (&[7, 1], FLOAT), (&[1, 96], FLOAT), (&[96], FLOAT)],
    );
    check(&int8, "batch=1,m=7,n=96,k=512,quant=per_token,bias=true", "a=i8,b=i8,out=bf16,bias=f32");
    let cutlass = call(
        "_C::cutlass_scaled_mm",
        &[(&[4, 96], BF16), (&[4, 512], FP8), (&[512, 96], FP8), (&[4, 1], FLOAT), (&[96, 1], FLOAT)],
    );
    check(&strided(cutlass, &[&[96, 1], &[512, 1], &[1, 512]]), "batch=1,m=4,n=96,k=512,quant=per_token", narrow);

    // Packed fp4: k is twice the bytes of a row.
    for bytes in ["unsigned char", "c10::Float4_e2m1fn_x2"] {
        let fp4 = call(
            "aiter::gemm_a4w4",
            &[
                (&[33, 256], bytes),
                (&[96, 256], bytes),
                (&[256, 16], "unsigned char"),
                (&[256, 16], "unsigned char"),
                (&[33, 96], BF16),
            ],
        );
        let fp4 = with_params(fp4, &[("K", Value::Int(512))]);
        check(&fp4, "batch=1,m=33,n=96,k=512,quant=mx32", "a=fp4_e2m1,b=fp4_e2m1,out=bf16");
    }
}

#[test]
fn wrappers_and_skinny_products() {
    let wrapped = call("vllm::rocm_unquantized_gemm", &[(&[32, 2880], BF16), (&[5120, 2880], BF16), (&[5120], BF16)]);
    let params = [("M", Value::Int(32)), ("N", Value::Int(5120)), ("K", Value::Int(2880)), ("B", Value::Int(1))];
    check(&with_params(wrapped, &params), "batch=1,m=32,n=5120,k=2880,trans_b=true,bias=true", "bf16");
    let impl_op = call("vllm::rocm_unquantized_gemm_impl", &[(&[1, 64], BF16), (&[8, 64], BF16)]);
    check(&impl_op, "batch=1,m=1,n=8,k=64,trans_b=true", "bf16");
    let mut a16w16 = call("aiter::gemm_a16w16", &[(&[2, 64], BF16), (&[8, 64], BF16), (&[], ""), (&[], "6")]);
    a16w16.args[2] = OpArg::default();
    check(&a16w16, "batch=1,m=2,n=8,k=64,trans_b=true", "a=bf16,b=bf16,out=f32");
    // vLLM's skinny products take the weights first.
    let skinny = call("_rocm_C::wvSplitK", &[(&[8, 64], BF16), (&[2, 64], BF16), (&[], "304")]);
    check(&skinny, "batch=1,m=2,n=8,k=64,trans_b=true", "bf16");
    let hipb = call("aiter::hipb_mm", &[(&[2, 64], BF16), (&[64, 8], BF16), (&[], "1234")]);
    check(&strided(hipb, &[&[64, 1], &[1, 64]]), "batch=1,m=2,n=8,k=64,trans_b=true", "bf16");
}

#[test]
fn parameters_stand_in_for_arguments() {
    let pair = Value::List(vec![Value::Text(BF16.into()); 2]);
    let strides = |row, element| Value::List(vec![Value::Int(row), Value::Int(element)]);
    let params = |stride: Value| {
        with_params(
            call("aten::mm", &[]),
            &[
                ("M", Value::Int(8944)),
                ("N", Value::Int(2816)),
                ("K", Value::Int(1024)),
                ("B", Value::Int(1)),
                ("bias", Value::Bool(false)),
                ("dtype_A_B", pair.clone()),
                ("stride_B", stride),
            ],
        )
    };
    check(&params(strides(1, 1024)), "batch=1,m=8944,n=2816,k=1024,trans_b=true,bias=false", "bf16");
    check(&params(strides(2816, 1)), "batch=1,m=8944,n=2816,k=1024,trans_b=false,bias=false", "bf16");
}

#[test]
fn unclear_calls_are_errors() {
    let mm = call("aten::mm", &[(&[8, 16], BF16), (&[16, 4], BF16)]);
    for (op, part) in [
        (call("aten::mm", &[]), "M"),
        (call("aten::mm", &[(&[8, 16], BF16), (&[17, 4], BF16)]), "k is 16 in a and 17 in b"),
        (call("aten::mm", &[(&[8, 16], BF16), (&[16], BF16)]), "a matrix"),
        (call("aten::mm", &[(&[8, 16], BF16), (&[16, 0], BF16)]), "empty"),
        (call("aten::mm", &[(&[8, 0], BF16), (&[0, 4], BF16)]), "empty"),
        (call("aten::mm", &[(&[8, 16], "c10::complex<float>"), (&[16, 4], BF16)]), "c10::complex<float>"),
        (call("aten::mm", &[(&[8, 16], "double"), (&[16, 4], "double")]), "f64"),
        (call("aten::mm", &[(&[u64::MAX, 2, u64::MAX], BF16), (&[u64::MAX, 4], BF16)]), "2^48"),
        (call("aten::bmm", &[(&[2, 8, 16], BF16), (&[3, 16, 4], BF16)]), "broadcast"),
        (with_params(mm, &[("N", Value::Int(5))]), "arguments say 4"),
        (
            call("aiter::gemm_a8w8", &[(&[7, 512], FP8), (&[96, 512], FP8), (&[5], FLOAT), (&[96], FLOAT)]),
            "no other is known",
        ),
        (call("aiter::gemm_a4w4", &[(&[1, u64::MAX], "unsigned char"), (&[1, u64::MAX], "unsigned char")]), "2^48"),
        (call("aten::addmm", &[(&[3], BF16), (&[8, 16], BF16), (&[16, 4], BF16), (&[], "1")]), "bias"),
    ] {
        let error = recover(&op).unwrap().unwrap_err().to_string();
        assert!(error.contains(part), "{}: {error}", op.name);
    }
    assert!(super::super::recover(&call("aten::convolution", &[(&[8, 16], BF16)])).is_none());
}
