//! What kind of work an operation is: what the counters, the issue model and the executor's dispatch tell apart.

use super::inst::{Arch, Encoding};
use super::op::Op;
use super::table::{OperandType, Row, table};

/// The unit an instruction is issued to, and what it does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Scalar ALU.
    Salu,
    /// Scalar loads, stores, atomics, cache control and clocks.
    Smem,
    /// Vector ALU, matrix instructions apart.
    Valu,
    /// Matrix instructions (`v_mfma`, `v_smfmac`, `v_wmma`); moves to and from accumulation registers are VALU.
    Mfma,
    /// LDS, GDS and cross-lane permutes through the LDS crossbar.
    Lds,
    /// Vector memory loads.
    VmemRead,
    /// Vector memory stores.
    VmemWrite,
    /// Vector memory atomics, returning or not.
    VmemAtomic,
    /// Cache write-back and invalidation by the vector memory unit.
    CacheControl,
    /// Branches, calls and jumps.
    Branch,
    /// `s_sendmsg`, `s_sendmsghalt`, `s_sendmsg_rtn`.
    Message,
    /// `s_waitcnt` and the other waits for counters or events.
    Wait,
    /// `s_barrier`.
    Barrier,
    /// The end of the wave.
    End,
    /// Handled by the instruction buffer without a unit: `s_nop`, `s_sleep`, `s_setprio` and the like.
    Internal,
}

/// Arithmetic that `SQ_INSTS_VALU_*` counts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Float additions and subtractions.
    Add(FloatWidth),
    /// Float multiplications.
    Mul(FloatWidth),
    /// Float multiply-adds, fused or not.
    Fma(FloatWidth),
    /// Float transcendentals: exp, log, rcp, rsq, sqrt, sin, cos.
    Trans(FloatWidth),
    /// 32-bit and narrower integer arithmetic, logic, shifts and compares.
    Int32,
    /// The same with 64-bit results or operands.
    Int64,
    /// Conversions.
    Cvt,
}

/// Width of a float operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatWidth {
    /// 16 bits.
    F16,
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
}

impl Op {
    /// Every operation.
    pub fn all() -> impl Iterator<Item = Op> {
        super::op::OPS.iter().copied()
    }

    /// The operation's mnemonic on an arch without an encoding suffix (FLAT's where segments share it); `None` where the
    /// arch lacks the operation.
    pub fn mnemonic(self, arch: Arch) -> Option<&'static str> {
        self.row(arch).map(|row| row.mnemonic)
    }

    /// Whether the arch has the operation.
    pub fn is_on(self, arch: Arch) -> bool {
        self.row(arch).is_some()
    }

    fn row(self, arch: Arch) -> Option<&'static Row> {
        let segments = [Encoding::Flat, Encoding::Global, Encoding::Scratch];
        segments.into_iter().find_map(|enc| table().op(arch, self, enc))
    }

    /// Registers of the first destination and of each source as the table has them, with 0 where there is none. Data of
    /// vector memory and LDS operations stands at its place of [`super::Inst`]: sources are address and data. The f8f6f4
    /// operations take fewer registers for narrower formats.
    pub fn registers(self, arch: Arch) -> Option<(u8, [u8; 4])> {
        let row = self.row(arch)?;
        let mut sources = row.src.map(OperandType::registers);
        if matches!(row.enc, Encoding::Flat | Encoding::Global | Encoding::Scratch | Encoding::Mubuf | Encoding::Mtbuf)
        {
            sources = [0, sources[0], 0, 0];
        }
        Some((row.dst[0].registers(), sources))
    }

    /// What kind of instruction it is.
    pub fn class(self) -> Class {
        let name = self.name();
        let has = |part: &str| name.contains(part);
        match name.split_once('_').map_or(name, |(first, _)| first) {
            "v" if has("mfma") || has("smfmac") || has("wmma") => Class::Mfma,
            "v" => Class::Valu,
            "ds" => Class::Lds,
            "flat" | "buffer" | "tbuffer" => match () {
                () if has("atomic") => Class::VmemAtomic,
                () if has("_load") => Class::VmemRead,
                () if has("_store") => Class::VmemWrite,
                () => Class::CacheControl,
            },
            _ => scalar_class(self, name),
        }
    }

    /// The arithmetic that a vector ALU operation counts as; `None` for moves, selects, lane exchange and everything that
    /// is no vector ALU operation.
    ///
    /// Which integer operations the hardware counts is not public; here they are those on integer and untyped data that
    /// compute (arithmetic, logic, shifts, bit fields, compares, packed and dot products too).
    pub fn arithmetic(self) -> Option<Arithmetic> {
        match self.class() {
            Class::Valu => vector_arithmetic(self.name()),
            _ => None,
        }
    }
}

fn scalar_class(op: Op, name: &str) -> Class {
    let is_memory = [
        "s_load",
        "s_store",
        "s_buffer",
        "s_scratch",
        "s_atomic",
        "s_dcache",
        "s_gl1",
        "s_atc",
        "s_memtime",
        "s_memreal",
    ];
    match op {
        Op::SWaitIdle | Op::SWaitEvent => Class::Wait,
        _ if name.starts_with("s_waitcnt") => Class::Wait,
        Op::SBarrier => Class::Barrier,
        Op::SSendmsg | Op::SSendmsghalt | Op::SSendmsgRtnB32 | Op::SSendmsgRtnB64 => Class::Message,
        Op::SEndpgm | Op::SEndpgmSaved | Op::SEndpgmOrderedPsDone => Class::End,
        Op::SBranch | Op::SCallB64 | Op::SSetpcB64 | Op::SSwappcB64 | Op::SRfeB64 | Op::SRfeRestoreB64 => Class::Branch,
        Op::SNop | Op::SSleep | Op::SSetprio | Op::SSethalt | Op::SSetkill | Op::SWakeup | Op::STrap => Class::Internal,
        Op::SIcacheInv | Op::SIncperflevel | Op::SDecperflevel | Op::STtracedata => Class::Internal,
        Op::STtracedataImm | Op::SVersion | Op::SCodeEnd | Op::SClause | Op::SDelayAlu => Class::Internal,
        Op::SSetInstPrefetchDistance | Op::SRoundMode | Op::SDenormMode => Class::Internal,
        Op::SSubvectorLoopBegin | Op::SSubvectorLoopEnd => Class::Branch,
        _ if name.starts_with("s_cbranch") => Class::Branch,
        _ if is_memory.iter().any(|prefix| name.starts_with(prefix)) => Class::Smem,
        _ => Class::Salu,
    }
}

fn vector_arithmetic(name: &str) -> Option<Arithmetic> {
    let operation = name.strip_prefix("v_")?;
    let is_packed = operation.starts_with("pk_");
    let operation = operation.strip_prefix("pk_").unwrap_or(operation);
    let first = operation.split('_').next()?;
    if operation.starts_with("cvt_") {
        return Some(Arithmetic::Cvt);
    }
    if let Some(width) = float_width(operation) {
        return match first {
            "add" | "sub" | "subrev" => Some(Arithmetic::Add(width)),
            "mul" => Some(Arithmetic::Mul(width)),
            "fma" | "fmac" | "mad" | "mac" | "fmamk" | "fmaak" | "madmk" | "madak" => Some(Arithmetic::Fma(width)),
            "exp" | "log" | "rcp" | "rsq" | "sqrt" | "sin" | "cos" => Some(Arithmetic::Trans(width)),
            _ => None,
        };
    }
    let moves = [
        "mov",
        "cndmask",
        "nop",
        "readlane",
        "readfirstlane",
        "writelane",
        "swap",
        "accvgpr",
        "permlane16",
        "permlane32",
        "permlane64",
        "permlanex16",
        "movreld",
        "movrels",
        "movrelsd",
        "swaprel",
        "pipeflush",
        "clrexcp",
        "screen",
    ];
    // v_pk_mov_b32 moves as well; floats in disguise (cube, div, frexp, dot of floats) are not counted apart.
    if moves.contains(&first) || operation.contains("_f16") || operation.contains("_f32") || operation.contains("_f64")
    {
        return None;
    }
    let is_64 = ["_b64", "_i64", "_u64"].iter().any(|suffix| operation.contains(suffix)) && !is_packed;
    Some(if is_64 { Arithmetic::Int64 } else { Arithmetic::Int32 })
}

/// The width in the last part of a float operation's name. `v_fma_mix` computes in 32 bits.
fn float_width(operation: &str) -> Option<FloatWidth> {
    if operation.starts_with("fma_mix") {
        return Some(FloatWidth::F32);
    }
    // `legacy` in the middle of a name does not matter.
    match operation.rsplit('_').next()? {
        "f16" => Some(FloatWidth::F16),
        "f32" => Some(FloatWidth::F32),
        "f64" => Some(FloatWidth::F64),
        _ => None,
    }
}

/// Every mnemonic of an arch, in the order of the table: with the suffix of each encoding that the operation has, as
/// [`super::Inst::text`] starts.
pub fn mnemonics(arch: Arch) -> Vec<String> {
    let mut names = Vec::new();
    for row in table().rows().iter().filter(|row| row.has(arch)) {
        let is_vop12c = matches!(row.enc, Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc);
        let suffix = |suffix: bool, text: &str| format!("{}{}", row.mnemonic, if suffix { text } else { "" });
        if is_vop12c || row.e64.is_none() {
            names.push(suffix(row.e32_suffix, "_e32"));
        }
        names.extend(row.e64.map(|form| suffix(form.suffix, "_e64")));
        names.extend(row.sdwa.map(|_| suffix(true, "_sdwa")));
        // Compares of GFX11 have DPP forms without a suffix.
        names.extend(row.dpp.map(|_| suffix(row.enc != Encoding::Vopc, "_dpp")));
        names.extend(row.e64_dpp.then(|| suffix(true, "_e64_dpp")));
    }
    names.dedup();
    names
}

/// What the table claims, as Markdown: for every arch how many operations there are by class, and which it lacks of those
/// that another arch has.
pub fn coverage() -> String {
    use std::fmt::Write;
    let classes = [
        Class::Salu,
        Class::Smem,
        Class::Valu,
        Class::Mfma,
        Class::Lds,
        Class::VmemRead,
        Class::VmemWrite,
        Class::VmemAtomic,
        Class::CacheControl,
        Class::Branch,
        Class::Message,
        Class::Wait,
        Class::Barrier,
        Class::End,
        Class::Internal,
    ];
    let mut out = String::from("| class |");
    for arch in Arch::ALL {
        let _ = write!(out, " {} |", arch.name());
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(Arch::ALL.len()));
    out.push('\n');
    for class in classes {
        let _ = write!(out, "| {class:?} |");
        for arch in Arch::ALL {
            let count = super::op::OPS.iter().filter(|op| op.class() == class && op.is_on(arch)).count();
            let _ = write!(out, " {count} |");
        }
        out.push('\n');
    }
    for arch in Arch::ALL {
        let (has, lacks): (Vec<Op>, Vec<Op>) = super::op::OPS.iter().partition(|op| op.is_on(arch));
        let _ = write!(out, "\n## {}: {} operations\n", arch.name(), has.len());
        for class in classes {
            let names: Vec<_> =
                has.iter().filter(|op| op.class() == class).filter_map(|op| op.mnemonic(arch)).collect();
            if !names.is_empty() {
                let _ = write!(out, "\n{class:?}: {}.\n", names.join(", "));
            }
        }
        let names: Vec<_> = lacks.iter().map(|op| op.name()).collect();
        let _ = write!(out, "\nNot on {}: {}.\n", arch.name(), names.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_well_known_operations() {
        let cases = [
            (Op::VAddF32, Class::Valu, Some(Arithmetic::Add(FloatWidth::F32))),
            (Op::VPkMulF32, Class::Valu, Some(Arithmetic::Mul(FloatWidth::F32))),
            (Op::VFmacF64, Class::Valu, Some(Arithmetic::Fma(FloatWidth::F64))),
            (Op::VFmaMixloF16, Class::Valu, Some(Arithmetic::Fma(FloatWidth::F32))),
            (Op::VExpF16, Class::Valu, Some(Arithmetic::Trans(FloatWidth::F16))),
            (Op::VRcpIflagF32, Class::Valu, Some(Arithmetic::Trans(FloatWidth::F32))),
            (Op::VCvtPkrtzF16F32, Class::Valu, Some(Arithmetic::Cvt)),
            (Op::VLshlAddU64, Class::Valu, Some(Arithmetic::Int64)),
            (Op::VAddCoU32, Class::Valu, Some(Arithmetic::Int32)),
            (Op::VMovB32, Class::Valu, None),
            (Op::VCmpGtF32, Class::Valu, None),
            (Op::VAccvgprReadB32, Class::Valu, None),
            (Op::VMfmaF3216x16x16Bf16, Class::Mfma, None),
            (Op::DsRead2st64B32, Class::Lds, None),
            (Op::FlatLoadDwordx4, Class::VmemRead, None),
            (Op::BufferStoreDword, Class::VmemWrite, None),
            (Op::FlatAtomicAdd, Class::VmemAtomic, None),
            (Op::BufferWbl2, Class::CacheControl, None),
            (Op::SBufferLoadDword, Class::Smem, None),
            (Op::SMemtime, Class::Smem, None),
            (Op::SCbranchExecz, Class::Branch, None),
            (Op::SAndSaveexecB64, Class::Salu, None),
            (Op::SWaitcnt, Class::Wait, None),
        ];
        for (op, class, arithmetic) in cases {
            assert_eq!((op.class(), op.arithmetic()), (class, arithmetic), "{op:?}");
        }
    }

    #[test]
    fn registers_of_well_known_operations() {
        assert_eq!(Op::VMfmaF3216x16x16Bf16.registers(Arch::Gfx90a), Some((4, [2, 2, 4, 0])));
        assert_eq!(Op::FlatLoadDwordx4.registers(Arch::Gfx942), Some((4, [0; 4])));
        assert_eq!(Op::FlatAtomicCmpswapX2.registers(Arch::Gfx942), Some((2, [0, 4, 0, 0])));
        assert_eq!(Op::VMovB64.registers(Arch::Gfx90a), None);
    }

    #[test]
    fn one_operation_two_spellings() {
        let op = Op::VMfmaF3216x16x16Bf16;
        assert_eq!(op.mnemonic(Arch::Gfx90a), Some("v_mfma_f32_16x16x16bf16_1k"));
        assert_eq!(op.mnemonic(Arch::Gfx942), Some("v_mfma_f32_16x16x16_bf16"));
    }

    #[test]
    fn gfx11_shares_operations_under_other_names() {
        let names = [
            (Op::VAddU32, "v_add_nc_u32"),
            (Op::DsRead2st64B32, "ds_load_2addr_stride64_b32"),
            (Op::FlatLoadDwordx4, "flat_load_b128"),
            (Op::FlatAtomicSmin, "flat_atomic_min_i32"),
            (Op::BufferLoadUbyteD16Hi, "buffer_load_d16_hi_u8"),
            (Op::SLoadDwordx2, "s_load_b64"),
            (Op::SAndn2B32, "s_and_not1_b32"),
            (Op::VMulLegacyF32, "v_mul_dx9_zero_f32"),
        ];
        for (op, name) in names {
            assert_eq!(op.mnemonic(Arch::Gfx1100), Some(name));
        }
        // Compare and value have changed places, so that these are others.
        assert!(!Op::DsCmpstB32.is_on(Arch::Gfx1100) && Op::DsCmpstoreB32.is_on(Arch::Gfx1100));
    }
}
