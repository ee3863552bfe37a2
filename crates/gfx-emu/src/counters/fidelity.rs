//! How faithful a run was: which executed operations give the bits that hardware gives, and which may not, and why.
//!
//! `docs/isa-semantics.md` says what the emulator does where; this is its list by operation. Assumptions that concern operands
//! rather than operations (a DPP source lane that EXEC masks off, say) are there only.

use super::mix::{Executed, Mix};
use crate::isa::{Arch, Arithmetic, Class, FloatWidth, Op};
use crate::model::MatrixInput;
use std::collections::BTreeMap;

/// How an operation's results relate to hardware's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fidelity {
    /// The same bits, by AMD's documents or by published bit-exact comparisons with hardware.
    Exact,
    /// Within what the documents promise, with other bits possible: how.
    Approximate(&'static str),
    /// The documents are silent or contradict themselves: what was assumed.
    Assumed(&'static str),
}

impl Fidelity {
    /// The fidelity of an executed operation.
    pub fn of(kind: &Executed, arch: Arch) -> Self {
        let name = kind.op.name();
        match kind.class() {
            Class::Valu => vector(kind.op, name),
            Class::Mfma => matrix(kind, arch),
            Class::Smem if matches!(kind.op, Op::SMemtime | Op::SMemrealtime) => {
                Fidelity::Assumed("clocks advance with the emulated instructions, not with time")
            }
            Class::Salu if kind.op == Op::SGetregB32 => {
                Fidelity::Assumed("registers of place and allocation hold the emulator's places")
            }
            Class::Lds if name.contains("_tr_b4") || name.contains("_tr_b6") => {
                Fidelity::Assumed("the lane pattern is that of the published 8- and 16-bit forms")
            }
            Class::VmemAtomic | Class::Lds if is_float_sum(name) => {
                Fidelity::Approximate("a sum of floats depends on the order of the waves; the emulator's is fixed")
            }
            _ => Fidelity::Exact,
        }
    }
}

fn is_float_sum(name: &str) -> bool {
    name.contains("add_f") || name.contains("add_rtn_f") || name.contains("pk_add")
}

fn vector(op: Op, name: &str) -> Fidelity {
    match op.arithmetic() {
        Some(Arithmetic::Trans(FloatWidth::F64)) => {
            return Fidelity::Approximate(
                "correctly rounded; hardware gives about 24 good bits, which compilers refine",
            );
        }
        Some(Arithmetic::Trans(_)) if ["v_sqrt_f32", "v_rcp_f32"].contains(&name) => {
            return Fidelity::Approximate("correctly rounded; hardware promises 1 ULP");
        }
        Some(Arithmetic::Trans(_)) => {
            return Fidelity::Approximate("correctly rounded but for near-ties; hardware promises 1 ULP");
        }
        _ => {}
    }
    if name.starts_with("v_cvt_") && name.contains("_sr_") {
        return Fidelity::Assumed("stochastic rounding carries into the exponent; the documents contradict themselves");
    }
    if name.starts_with("v_cvt_pknorm") || name.starts_with("v_cvt_norm") {
        return Fidelity::Assumed("rounds to nearest even");
    }
    if name == "v_cvt_pk_u8_f32" {
        return Fidelity::Assumed("truncates, saturates, and takes NaN as 0");
    }
    let narrow = ["_pk32_fp6", "_pk32_bf6", "_pk_fp4", "_2xpk16_fp6", "_2xpk16_bf6"];
    if narrow.iter().any(|part| name.contains(part)) {
        return Fidelity::Assumed("a NaN becomes the largest number; all others are exact");
    }
    Fidelity::Exact
}

fn matrix(kind: &Executed, arch: Arch) -> Fidelity {
    let Some(matrix) = kind.matrix else { return Fidelity::Exact };
    if kind.op.name().ends_with("f8f6f4") {
        return Fidelity::Approximate(
            "32 products are added exactly, then rounded into C; hardware's order is not public",
        );
    }
    match matrix.input {
        MatrixInput::I8 | MatrixInput::F32 | MatrixInput::F64 => Fidelity::Exact,
        _ if arch == Arch::Gfx950 => {
            Fidelity::Assumed("products are added as CDNA 3 does; CDNA 4's order is not public")
        }
        _ if matrix.sparse => Fidelity::Assumed("products are added as in a dense instruction of that type"),
        _ => Fidelity::Exact,
    }
}

/// Operations that are not exact, with how often they ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FidelityRow {
    /// Mnemonic.
    pub mnemonic: String,
    /// How it differs.
    pub fidelity: Fidelity,
    /// Wave instructions executed.
    pub executions: u64,
}

/// How faithful a launch was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FidelityReport {
    /// Wave instructions whose results are exact.
    pub exact: u64,
    /// The others by mnemonic, most executed first.
    pub others: Vec<FidelityRow>,
}

impl FidelityReport {
    /// The report of a launch.
    pub fn of(mix: &Mix, arch: Arch) -> Self {
        let mut report = Self::default();
        let mut others: BTreeMap<(String, Fidelity), u64> = BTreeMap::new();
        for (kind, count) in &mix.executed {
            match Fidelity::of(kind, arch) {
                Fidelity::Exact => report.exact += count,
                fidelity => *others.entry((kind.mnemonic(arch), fidelity)).or_default() += count,
            }
        }
        report.others = others
            .into_iter()
            .map(|((mnemonic, fidelity), executions)| FidelityRow { mnemonic, fidelity, executions })
            .collect();
        report.others.sort_by_key(|row| std::cmp::Reverse(row.executions));
        report
    }

    /// True when every executed operation is exact.
    pub fn is_exact(&self) -> bool {
        self.others.is_empty()
    }
}
