//! The demangler against others: `c++filt` (GNU binutils 2.40) by its output for chosen names, the crate `cpp_demangle`
//! over generated ones; and against hostile input.

#![allow(clippy::unwrap_used)]

use kbench_profile::names::demangle;
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// Names from traces and names chosen to use each rule. The right column is what `c++filt` prints, with `> >` as `>>`.
const CXXFILT: &[(&str, &str)] = &[
    (
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
        "void aiter::add_rmsnorm_quant_kernel<std::bfloat16_t, std::bfloat16_t, 64, 8, false, false, true, 1>(std::bfloat16_t*, std::bfloat16_t*, float*, std::bfloat16_t*, std::bfloat16_t*, std::bfloat16_t*, double, int, int, int, int, int, int, int, bool)",
    ),
    (
        "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineProblemIDF16bfNS_19Generic2dBlockShapeINS_8sequenceIJLi1ELi3072EEEENS4_IJLi1ELi8EEEEEELNS_21Rmsnorm2dFusedAddEnumE1EEEEEJNS9_5KargsEEEEvDpT1_",
        "void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<ck_tile::Rmsnorm2dFwdPipelineProblem<std::bfloat16_t, float, ck_tile::Generic2dBlockShape<ck_tile::sequence<1, 3072>, ck_tile::sequence<1, 8>>, (ck_tile::Rmsnorm2dFusedAddEnum)1>>, ck_tile::Rmsnorm2dFwdPipelineProblem<std::bfloat16_t, float, ck_tile::Generic2dBlockShape<ck_tile::sequence<1, 3072>, ck_tile::sequence<1, 8>>, (ck_tile::Rmsnorm2dFusedAddEnum)1>::Kargs>(ck_tile::Rmsnorm2dFwdPipelineProblem<std::bfloat16_t, float, ck_tile::Generic2dBlockShape<ck_tile::sequence<1, 3072>, ck_tile::sequence<1, 8>>, (ck_tile::Rmsnorm2dFusedAddEnum)1>::Kargs)",
    ),
    ("_Z1fv", "f()"),
    ("_Z1fILi3EEvPKfRKdOi", "void f<3>(float const*, double const&, int&&)"),
    ("_Z1fPFvvEPA3_i", "f(void (*)(), int (*) [3])"),
    ("_Z1fM1AKFivE", "f(int (A::*)() const)"),
    ("_ZNK1A1gEv", "A::g() const"),
    ("_ZN1AC1Ei", "A::A(int)"),
    ("_ZN1AD0Ev", "A::~A()"),
    ("_ZN1AcvbEv", "A::operator bool()"),
    ("_ZN1AclEi", "A::operator()(int)"),
    ("_ZN12_GLOBAL__N_11kEv", "(anonymous namespace)::k()"),
    ("_ZZ1fvENKUlvE_clEv", "f()::{lambda()#1}::operator()() const"),
    ("_ZZ1fvENKUliE0_clEi", "f()::{lambda(int)#2}::operator()(int) const"),
    ("_Z1fIJidEEvDpRKT_", "void f<int, double>(int const&, double const&)"),
    ("_Z1fIJEEvDpT_", "void f<>()"),
    ("_Z1fIJRiPdEEvDpOT_", "void f<int&, double*>(int&, double*&&)"),
    ("_Z1fSt6vectorIiSaIiEE", "f(std::vector<int, std::allocator<int>>)"),
    ("_Z1fILj5ELm6ELln7ELb1EEvv", "void f<5u, 6ul, -7l, true>()"),
    ("_Z1fILN1a1EE2EEvv", "void f<(a::E)2>()"),
    ("_Z1fIXadL_Z1gvEEEvv", "void f<&(g())>()"),
    ("_Z1fIiENSt9enable_ifIXgtstT_Li2EEvE4typeES1_", "std::enable_if<((sizeof (int))>(2)), void>::type f<int>(int)"),
    ("_Z1fDv4_f", "f(float __vector(4))"),
    ("_Z1fPU3AS1f", "f(float AS1*)"),
    ("_Z1fDn", "f(decltype(nullptr))"),
    ("_ZN1AIiEaSERKS0_", "A<int>::operator=(A<int> const&)"),
    ("_Z1fB3tagv", "f[abi:tag]()"),
    ("_ZL1gi", "g(int)"),
    ("_Z1fPFivEz", "f(int (*)(), ...)"),
];

#[test]
fn as_cxxfilt_prints() {
    let plain = |text: &str| text.replace(' ', "");
    for (mangled, expected) in CXXFILT {
        let found = demangle(mangled).unwrap();
        assert_eq!(plain(&found), plain(expected), "{mangled} gave {found}");
    }
}

/// Names that GNU's and LLVM's demanglers of 2022 refuse: a template parameter's own declaration (`Tn`), `_BitInt`, and
/// assembly kernels with a wrong length (facts on aiter kernels 0.8). Expected by the ABI document and by eye.
#[test]
fn names_that_others_refuse() {
    let cases: &[(&str, &str)] = &[
        (
            "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i",
            "void sgl_hip::activation::act_and_mul_kernel<__hip_bfloat16, &(__hip_bfloat16 silu<__hip_bfloat16>(__hip_bfloat16 const&))>(__hip_bfloat16*, __hip_bfloat16 const*, int)",
        ),
        ("_Z3fooIDF16_DF16bDhDU8_EvT_", "void foo<_Float16, std::bfloat16_t, half, unsigned _BitInt(8)>(_Float16)"),
        ("_Z3fooIu6__bf16EvT_", "void foo<__bf16>(__bf16)"),
        // Right length, too short, too short before a letter pair that is an operator, too long, far too long.
        ("_ZN5aiter24fmha_fwd_hd128_bf16_rtneE", "aiter::fmha_fwd_hd128_bf16_rtne"),
        ("_ZN5aiter19fmha_fwd_hd128_bf16_rtneE", "aiter::fmha_fwd_hd128_bf16_rtne"),
        ("_ZN5aiter22fmha_fwd_hd128_bf16_rtneE", "aiter::fmha_fwd_hd128_bf16_rtne"),
        ("_ZN5aiter25fmha_fwd_hd128_bf16_rtneE", "aiter::fmha_fwd_hd128_bf16_rtne"),
        ("_ZN5aiter99fmha_fwd_hd128_bf16_rtneE", "aiter::fmha_fwd_hd128_bf16_rtne"),
        ("_ZN5aiter31pa_bf16_pertokenFp8_gqa8_2tg_4wE", "aiter::pa_bf16_pertokenFp8_gqa8_2tg_4w"),
        (
            "_ZN5aiter44PA_A16W8_BLK256_1TG_4W_16mx1_64nx4_MTP_PS_PBE",
            "aiter::PA_A16W8_BLK256_1TG_4W_16mx1_64nx4_MTP_PS_PB",
        ),
        // Cut short: the name so far, and the rest as it is.
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsn", "ck_tile::kentry<ILi1ENS_12Rmsn>"),
    ];
    for (mangled, expected) in cases {
        assert_eq!(demangle(mangled).as_deref(), Some(*expected), "{mangled}");
    }
    for text in ["", "_Z", "attn_fwd", "_ZQ", "Z1fv", "_Zé"] {
        assert_eq!(demangle(text), None, "{text}");
    }
}

/// Names that make a demangler which tries alternatives, or prints shared parts without bound, take exponential time.
#[test]
fn hostile_names_take_bounded_time() {
    let started = Instant::now();
    for piece in [
        "S_I", "IJS_", "JS_", "T_I", "N1aI", "XL_Z1gI", "1aI", "Z1fIXL_", "Xcl", "XdtT_", "DTX", "PF", "Ul", "XsrN1aI",
        "M", "A_", "Dp", "Dv4_", "XqufpT_", "U1aI", "TnTn",
    ] {
        for count in [1, 10, 50, 1000, 10_000] {
            for start in ["_Z1fI", "_ZN1aI", "_Z1f", "_Z1fIX"] {
                let name = format!("{start}{}q", piece.repeat(count));
                demangle(&name);
                demangle(&format!("{start}i{}{}Evv", piece.repeat(count), "E".repeat(count)));
            }
        }
    }
    // Each substitution doubles what is printed.
    let mut doubling = String::from("_Z1fI1pIiiE");
    for index in 0..300 {
        let previous = if index == 0 { "S0_".to_owned() } else { format!("S{}_", base36(index)) };
        doubling.push_str(&format!("1pI{previous}{previous}E"));
    }
    demangle(&format!("{doubling}Evv"));
    demangle(&format!("_Z{}", "9".repeat(30_000)));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

fn base36(mut value: usize) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((value % 36) as u32, 36).unwrap().to_ascii_uppercase());
        value /= 36;
        if value == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// Mangled types without substitutions; a repeated name would have to be one, so every class name is unlike the others.
fn mangled_type(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["i", "f", "d", "h", "j", "m", "b", "c", "DF16b", "x"]).prop_map(str::to_owned),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = || mangled_type(depth - 1);
    prop_oneof![
        2 => leaf,
        1 => inner().prop_map(|text| format!("P{text}")),
        1 => inner().prop_map(|text| format!("PK{text}")),
        1 => (any::<u64>(), inner(), inner()).prop_map(|(id, a, b)| format!("{}t{id:016x}I{a}{b}E", 17)),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(a, b)| format!("N17n{a:016x}17c{b:016x}E")),
        1 => (any::<u64>(), 0u32..99).prop_map(|(id, n)| format!("17v{id:016x}ILi{n}ELb1EE")),
        1 => (inner(), inner()).prop_map(|(a, b)| format!("PF{a}{b}E")),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The independent implementation agrees, up to white space.
    #[test]
    fn agrees_with_cpp_demangle(parameters in prop::collection::vec(mangled_type(3), 1..4), id in any::<u64>()) {
        let name = format!("_ZN5aiter17k{id:016x}E{}", parameters.concat());
        let theirs = cpp_demangle::Symbol::new(&name).unwrap().demangle().unwrap();
        let plain = |text: &str| text.replace(' ', "");
        prop_assert_eq!(plain(&demangle(&name).unwrap()), plain(&theirs), "{}", name);
    }

    #[test]
    fn random_names_do_no_harm(tail in "[0-9A-Za-z_.]{0,80}", deep in "[NIJXPKRSTLEZ0-9_a-f]{0,300}") {
        demangle(&format!("_Z{tail}"));
        demangle(&format!("_Z1fI{deep}"));
    }

    /// Real names with bytes changed, removed and repeated.
    #[test]
    fn mutated_names_do_no_harm(
        index in 0..CXXFILT.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, any::<prop::sample::Index>()), 1..8),
    ) {
        const LETTERS: &[u8] = b"NIJLEXPKRSTZDFU0123_abvi";
        let mut bytes = CXXFILT[index].0.as_bytes().to_vec();
        for (at, kind, letter) in edits {
            let at = at.index(bytes.len().max(1));
            match kind {
                0 if at < bytes.len() => bytes[at] = LETTERS[letter.index(LETTERS.len())],
                1 if at < bytes.len() => { bytes.remove(at); }
                2 => bytes.insert(at, LETTERS[letter.index(LETTERS.len())]),
                _ => {
                    let end = (at + 1 + letter.index(12)).min(bytes.len());
                    let piece = bytes[at.min(end)..end].to_vec();
                    for _ in 0..4 {
                        bytes.splice(at..at, piece.iter().copied());
                    }
                }
            }
        }
        let started = Instant::now();
        demangle(&String::from_utf8_lossy(&bytes));
        prop_assert!(started.elapsed() < Duration::from_secs(1));
    }
}
