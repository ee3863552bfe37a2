use super::*;
use crate::isa::{Arch, Encoding, Op};
use crate::model::MatrixOp;

fn kind(name: &str) -> Executed {
    let op = Op::from_name(name).unwrap_or_else(|| panic!("no {name}"));
    Executed { op, encoding: Encoding::Vop3, returns: false, matrix: MatrixOp::of(op) }
}

/// AMD's examples of the operations counter: a 16x16x16 f16 instruction counts 16, a 4x4x1 f32 one with 16 blocks 1.
#[test]
fn matrix_operations_in_units_of_512() {
    let mops = |name: &str| MatrixOp::of(Op::from_name(name).unwrap()).unwrap().flops() / 512;
    assert_eq!(mops("v_mfma_f32_16x16x16_f16"), 16);
    assert_eq!(mops("v_mfma_f32_4x4x1_16b_f32"), 1);
    assert!(Op::all().filter_map(MatrixOp::of).all(|matrix| matrix.flops() % 512 == 0));
}

#[test]
fn the_histogram_adds_up_and_names_segments() {
    let global = Executed { encoding: Encoding::Global, ..kind("flat_load_dword") };
    let flat = Executed { encoding: Encoding::Flat, ..kind("flat_load_dword") };
    let mix = Mix::from_kinds(vec![(kind("v_add_f32"), 7), (global, 9), (flat, 2)]);
    let wanted = [("global_load_dword", 9), ("v_add_f32", 7), ("flat_load_dword", 2)];
    assert_eq!(mix.histogram(Arch::Gfx942), wanted.map(|(name, count)| (name.to_owned(), count)));
}

#[test]
fn fidelity_says_what_may_differ() {
    let mix = Mix::from_kinds(vec![
        (kind("v_add_f32"), 10),
        (kind("v_exp_f32"), 3),
        (kind("v_mfma_f32_16x16x16_f16"), 4),
        (kind("v_mfma_f32_32x32x2_f32"), 5),
        (kind("s_memtime"), 1),
        (kind("flat_atomic_add_f32"), 2),
        (kind("flat_atomic_add"), 6),
    ]);
    let names = |arch| {
        let report = FidelityReport::of(&mix, arch);
        let names: Vec<_> = report.others.iter().map(|row| (row.mnemonic.clone(), row.executions)).collect();
        (report.exact, names)
    };
    let (exact, others) = names(Arch::Gfx942);
    assert_eq!(exact, 25);
    let wanted = [("v_exp_f32", 3), ("flat_atomic_add_f32", 2), ("s_memtime", 1)];
    assert_eq!(others, wanted.map(|(name, count)| (name.to_owned(), count)));
    // How CDNA 4 adds f16 products is not public.
    let (exact, others) = names(Arch::Gfx950);
    assert_eq!((exact, others[0].0.as_str()), (21, "v_mfma_f32_16x16x16_f16"));
    assert!(FidelityReport::of(&Mix::from_kinds(vec![(kind("v_add_f32"), 1)]), Arch::Gfx90a).is_exact());
}

/// Every operation of every arch has a verdict, and those that LLVM and AMD call transcendental are never called exact.
#[test]
fn transcendentals_are_never_exact() {
    let transcendental = ["v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_"];
    for op in Op::all().filter(|op| transcendental.iter().any(|prefix| op.name().starts_with(prefix))) {
        let kind = kind(op.name());
        assert!(matches!(Fidelity::of(&kind, Arch::Gfx942), Fidelity::Approximate(_)), "{op:?}");
    }
}
