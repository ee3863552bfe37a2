//! What an operation counts as: the classes of the SQ's instruction counters.

use super::op::{OPS, Op};
use std::sync::LazyLock;

/// Which unit an operation goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Scalar arithmetic and moves (`SQ_INSTS_SALU`).
    Salu,
    /// Scalar memory and clocks (`SQ_INSTS_SMEM`).
    Smem,
    /// Vector arithmetic (`SQ_INSTS_VALU`).
    Valu,
    /// Matrix (`SQ_INSTS_MFMA`; it counts as VALU too).
    Mfma,
    /// LDS (`SQ_INSTS_LDS`).
    Lds,
    /// Vector memory loads (`SQ_INSTS_VMEM_RD`).
    VmemRead,
    /// Vector memory stores (`SQ_INSTS_VMEM_WR`).
    VmemWrite,
    /// Atomics on device memory (`SQ_INSTS_VMEM_WR`).
    Atomic,
    /// Cache control: write-back and invalidation.
    Cache,
    /// Branches (`SQ_INSTS_BRANCH`).
    Branch,
    /// Messages and the end of the program (`SQ_INSTS_SENDMSG`).
    Message,
    /// Waits, barriers, priorities: handled in the instruction buffer.
    Internal,
}

/// Arithmetic that has counters of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `ADD`: additions and subtractions.
    Add,
    /// `MUL`.
    Mul,
    /// `FMA`: fused or not.
    Fma,
    /// `TRANS`: exp, log, rcp, rsq, sqrt, sin, cos.
    Trans,
}

/// Types that VALU counters tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ValuType {
    F16(Arithmetic),
    F32(Arithmetic),
    F64(Arithmetic),
    Int32,
    Int64,
    Convert,
    Other,
}

/// Class and type of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpClass {
    /// Unit.
    pub class: Class,
    /// Type, of VALU operations.
    pub valu: ValuType,
}

impl Op {
    /// Every operation.
    pub fn all() -> impl Iterator<Item = Op> {
        OPS.iter().copied()
    }

    /// What it counts as.
    pub fn class(self) -> Class {
        self.op_class().class
    }

    /// What it counts as, with its type.
    pub fn op_class(self) -> OpClass {
        static CLASSES: LazyLock<Vec<OpClass>> = LazyLock::new(|| OPS.iter().map(|op| classify(op.name())).collect());
        CLASSES.get(self as usize).copied().unwrap_or(OpClass { class: Class::Internal, valu: ValuType::Other })
    }
}

fn classify(name: &str) -> OpClass {
    let valu = if name.starts_with("v_") { valu_type(name) } else { ValuType::Other };
    OpClass { class: class(name), valu }
}

fn class(name: &str) -> Class {
    const INTERNAL: [&str; 13] = [
        "s_nop", "s_waitcnt", "s_barrier", "s_setprio", "s_sleep", "s_wakeup", "s_sethalt", "s_setkill", "s_icache_inv",
        "s_incperflevel", "s_decperflevel", "s_ttracedata", "ds_nop",
    ];
    if INTERNAL.contains(&name) {
        return Class::Internal;
    }
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["s_endpgm", "s_sendmsg", "s_trap"]) {
        Class::Message
    } else if starts(&["s_branch", "s_cbranch"]) {
        Class::Branch
    } else if starts(&["s_load", "s_buffer", "s_scratch", "s_store", "s_atomic", "s_dcache", "s_mem", "s_atc"]) {
        Class::Smem
    } else if starts(&["s_"]) {
        Class::Salu
    } else if starts(&["v_mfma", "v_smfmac"]) {
        Class::Mfma
    } else if starts(&["v_"]) {
        Class::Valu
    } else if starts(&["ds_"]) {
        Class::Lds
    } else if name.contains("_atomic_") {
        Class::Atomic
    } else if name.contains("_load_") {
        Class::VmemRead
    } else if name.contains("_store_") {
        Class::VmemWrite
    } else {
        Class::Cache
    }
}

fn valu_type(name: &str) -> ValuType {
    let rest = name.trim_start_matches("v_").trim_start_matches("pk_");
    let stem = rest.split('_').next().unwrap_or_default();
    if stem == "cvt" {
        return ValuType::Convert;
    }
    let arithmetic = match stem {
        "add" | "sub" | "subrev" => Some(Arithmetic::Add),
        "mul" => Some(Arithmetic::Mul),
        "fma" | "fmac" | "fmamk" | "fmaak" | "mad" | "mac" | "madmk" | "madak" | "dot2" | "dot2c" => Some(Arithmetic::Fma),
        "exp" | "log" | "rcp" | "rsq" | "sqrt" | "sin" | "cos" => Some(Arithmetic::Trans),
        _ => None,
    };
    let has = |suffix: &str| rest.ends_with(suffix) || rest.contains(&format!("{suffix}_"));
    if let Some(arithmetic) = arithmetic {
        if has("_f32") || rest.starts_with("mad_mix") || rest.starts_with("fma_mix") {
            return ValuType::F32(arithmetic);
        }
        if has("_f16") {
            return ValuType::F16(arithmetic);
        }
        if has("_f64") {
            return ValuType::F64(arithmetic);
        }
    }
    if ["mov", "cndmask", "readlane", "readfirstlane", "writelane", "accvgpr", "nop", "swap"].contains(&stem) {
        return ValuType::Other;
    }
    if has("_u64") || has("_i64") || has("_b64") {
        return ValuType::Int64;
    }
    let integer = ["_u32", "_i32", "_b32", "_u16", "_i16", "_b16", "_u8", "_i8", "_u24", "_i24"];
    if integer.iter().any(|suffix| has(suffix)) { ValuType::Int32 } else { ValuType::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> (Class, ValuType) {
        let class = classify(name);
        (class.class, class.valu)
    }

    #[test]
    fn classes_by_name() {
        assert_eq!(of("v_fma_f32"), (Class::Valu, ValuType::F32(Arithmetic::Fma)));
        assert_eq!(of("v_pk_mul_f32"), (Class::Valu, ValuType::F32(Arithmetic::Mul)));
        assert_eq!(of("v_rsq_f32"), (Class::Valu, ValuType::F32(Arithmetic::Trans)));
        assert_eq!(of("v_subrev_f16"), (Class::Valu, ValuType::F16(Arithmetic::Add)));
        assert_eq!(of("v_cvt_f32_u32"), (Class::Valu, ValuType::Convert));
        assert_eq!(of("v_add_co_u32"), (Class::Valu, ValuType::Int32));
        assert_eq!(of("v_cmp_eq_i64"), (Class::Valu, ValuType::Int64));
        assert_eq!(of("v_min_f64"), (Class::Valu, ValuType::Other));
        assert_eq!(of("v_mfma_f32_16x16x16_bf16").0, Class::Mfma);
        assert_eq!(of("flat_atomic_add_f32").0, Class::Atomic);
        assert_eq!(of("buffer_load_dwordx4").0, Class::VmemRead);
        assert_eq!(of("buffer_wbl2").0, Class::Cache);
        assert_eq!(of("s_cbranch_scc1").0, Class::Branch);
        assert_eq!(of("s_call_b64").0, Class::Salu);
        assert_eq!(of("s_memtime").0, Class::Smem);
        assert_eq!(of("s_endpgm").0, Class::Message);
    }
}
