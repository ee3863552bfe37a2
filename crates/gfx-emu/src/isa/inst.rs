//! One decoded instruction: what the bits say, in a form that the text and the executor share.

use super::op::Op;

/// An instruction set that the emulator decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// CDNA2: MI210, MI250, MI250X.
    Gfx90a,
    /// CDNA3: MI300A, MI300X, MI308X, MI325X.
    Gfx942,
    /// CDNA4: MI350X, MI355X.
    Gfx950,
    /// RDNA3: RX 7900, PRO W7800 and W7900. Decoded, not executed yet.
    Gfx1100,
}

impl Arch {
    /// Every arch that is decoded.
    pub const ALL: [Arch; 4] = [Arch::Gfx90a, Arch::Gfx942, Arch::Gfx950, Arch::Gfx1100];

    /// Those that are executed as well.
    pub const EXECUTED: [Arch; 3] = [Arch::Gfx90a, Arch::Gfx942, Arch::Gfx950];

    /// LLVM's processor name.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Gfx90a => "gfx90a",
            Arch::Gfx942 => "gfx942",
            Arch::Gfx950 => "gfx950",
            Arch::Gfx1100 => "gfx1100",
        }
    }

    /// Whether the emulator executes it, and not only decodes it.
    ///
    /// # Errors
    /// [`NotExecuted`], which names the arch, where it does not.
    pub fn check_executed(self) -> Result<(), NotExecuted> {
        match Arch::EXECUTED.contains(&self) {
            true => Ok(()),
            false => Err(NotExecuted(self)),
        }
    }

    /// Whether it is of the GFX11 family, whose encodings and register codes differ from those of GFX9.
    pub fn is_gfx11(self) -> bool {
        self == Arch::Gfx1100
    }

    /// Lanes of a wave where a kernel does not say otherwise: kernels of GFX11 may run as either.
    pub fn wave_size(self) -> WaveSize {
        match self.is_gfx11() {
            true => WaveSize::W32,
            false => WaveSize::W64,
        }
    }

    /// The arch of an LLVM processor name; `None` for those the emulator does not decode.
    pub fn from_name(name: &str) -> Option<Self> {
        Arch::ALL.into_iter().find(|arch| arch.name() == name)
    }
}

/// An arch that is decoded and not executed was to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is decoded, not executed yet", .0.name())]
pub struct NotExecuted(pub Arch);

/// Lanes of a wave, and with them how many scalar registers a mask of lanes takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaveSize {
    /// 32 lanes: a mask is one scalar register, VCC is `vcc_lo`.
    W32,
    /// 64 lanes: a mask is a pair.
    W64,
}

impl WaveSize {
    /// Scalar registers of a mask.
    pub fn mask_registers(self) -> u8 {
        match self {
            WaveSize::W32 => 1,
            WaveSize::W64 => 2,
        }
    }
}

/// The bit layout an instruction was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Encoding {
    Sop1,
    Sop2,
    Sopk,
    Sopc,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    /// VOP3 without a scalar destination; compares too (their mask goes to `dst[0]`, a scalar).
    Vop3,
    /// VOP3 with a second, scalar destination (`v_add_co_u32`, `v_div_scale_f32`, `v_mad_u64_u32`).
    Vop3b,
    Vop3p,
    /// Dual issue of GFX11: two operations in one instruction.
    Vopd,
    /// Matrix instructions.
    Mai,
    /// gfx950's scaled matrix instructions: four dwords.
    MaiScale,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
    Mtbuf,
}

/// An operand. Register numbers are the first of the operand's registers; how many there are is in the opcode's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Operand {
    /// Not there.
    #[default]
    None,
    /// A scalar register by GFX9's hardware code 0..=127: s0..s101, flat_scratch 102, xnack_mask 104, vcc 106, ttmp0..15
    /// 108..=123, m0 124, null 125 (reads as 0, writes are dropped), exec 126.
    ///
    /// GFX11 has two differences. Its 102..=105 are s102..s105, and its hardware has null at 124 and m0 at 125: decoding
    /// swaps them, so that m0 is 124 here on every arch.
    Scalar(u8),
    /// An architectural vector register.
    Vgpr(u8),
    /// An accumulation register.
    Agpr(u8),
    /// An inline constant by its hardware code 128..=208 and 240..=248; what it stands for depends on the operand's type.
    Inline(u8),
    /// A 32-bit literal that follows the instruction.
    Literal(u32),
    /// A special source by its hardware code: 235..=239 apertures, 251 vccz, 252 execz, 253 scc, 254 LDS direct.
    Special(u8),
    /// A signed 16-bit immediate (SOPK, SOPP), as it stands in the instruction.
    Imm(u16),
    /// `off`: no register (the address forms of vector memory).
    Off,
}

/// DPP control of a VOP1, VOP2 or VOPC instruction, on GFX11 of VOP3 and VOP3P too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dpp {
    /// `DPP_CTRL`, 9 bits.
    pub ctrl: u16,
    /// Rows whose lanes may be written.
    pub row_mask: u8,
    /// Banks (lanes of four in each row) that may be written.
    pub bank_mask: u8,
    /// The encoded `BOUND_CTRL` bit: set = a source lane outside reads as 0; clear = its lane is not written.
    pub bound_ctrl: bool,
    /// `FI` of GFX11: source lanes that are off in EXEC are read; clear = they count as outside.
    pub fetch_inactive: bool,
}

/// DPP8 control (GFX11): each lane of eight reads one of the eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dpp8 {
    /// The lane (0..=7) that each lane of a group reads.
    pub lanes: [u8; 8],
    /// Source lanes that are off in EXEC are read; otherwise they read as 0.
    pub fetch_inactive: bool,
}

/// SDWA selects of a VOP1, VOP2 or VOPC instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdwa {
    /// `DST_SEL` 0..=6 (byte 0..3, word 0..1, dword).
    pub dst_sel: u8,
    /// `DST_UNUSED`: 0 pad, 1 sign-extend, 2 preserve.
    pub dst_unused: u8,
    /// `SRC0_SEL`, `SRC1_SEL`.
    pub src_sel: [u8; 2],
    /// Sign-extension of each source.
    pub sext: [bool; 2],
}

/// Modifiers. A field that the encoding lacks keeps its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Mods {
    /// Bit i: |src i| (VOP3, DPP, SDWA). VOP3P: `NEG_HI`, bit i negates the high half of src i.
    pub abs: u8,
    /// Bit i: -src i. VOP3P: `NEG` (low halves).
    pub neg: u8,
    /// `OP_SEL`: bits 0..2 the sources, bit 3 the destination.
    pub op_sel: u8,
    /// `OP_SEL_HI`: bits 0..2 (VOP3P).
    pub op_sel_hi: u8,
    /// Output modifier: 0 none, 1 ×2, 2 ×4, 3 ÷2.
    pub omod: u8,
    /// Clamp.
    pub clamp: bool,
    /// DPP.
    pub dpp: Option<Dpp>,
    /// DPP8.
    pub dpp8: Option<Dpp8>,
    /// SDWA.
    pub sdwa: Option<Sdwa>,
    /// Memory: the immediate offset, sign-extended where the encoding is signed. DS: `OFFSET0` in the two-address forms,
    /// the whole 16 bits otherwise.
    pub offset: i32,
    /// DS two-address forms: `OFFSET1`.
    pub offset1: u8,
    /// sc0 (glc on gfx90a and GFX11).
    pub sc0: bool,
    /// sc1 (scc on gfx90a, dlc on GFX11).
    pub sc1: bool,
    /// nt (slc on gfx90a and GFX11).
    pub nt: bool,
    /// DS: global data share.
    pub gds: bool,
    /// MUBUF/MTBUF: an index / an offset register is used.
    pub idxen: bool,
    /// See `idxen`. SMEM: an immediate offset stands beside the offset register.
    pub offen: bool,
    /// Vector memory: the data goes to LDS.
    pub lds: bool,
    /// MUBUF on GFX11: texture fail enable; one more data register takes the status.
    pub tfe: bool,
    /// MTBUF: data format (low 4 bits) and numeric format (next 3); on GFX11 one number of 7 bits for both.
    pub format: u8,
    /// MFMA: `CBSZ`, `ABID`, `BLGP`.
    pub cbsz: u8,
    /// See `cbsz`.
    pub abid: u8,
    /// See `cbsz`.
    pub blgp: u8,
    /// gfx950 `V_MFMA_SCALE`: byte selects of scale A (0) and scale B (1).
    pub scale_sel: [u8; 2],
}

/// A decoded instruction.
///
/// Order of operands: `dst[0]` is the vector or scalar result, `dst[1]` the second result (the carry or mask of VOP3b and
/// of VOP2 carry forms: VCC). `src` follows the assembler's order of sources. Memory: DS `src = [addr, data0, data1]`;
/// FLAT/GLOBAL/SCRATCH `src = [vaddr, vdata, saddr]` (`Off` where not used); MUBUF/MTBUF `src = [vaddr, vdata, srsrc,
/// soffset]`; loads put their data register in `dst[0]`, returning atomics both (`dst[0]` equals the data register);
/// SMEM `dst[0] = sdata` (stores: `src[2]`), `src = [sbase, soffset or None]`; MFMA `src = [a, b, c]` (SMFMAC: `[a, b, idx]`),
/// scaled MFMA `src = [a, b, c]` and `scale`; WMMA `src = [a, b, c]`. VOPD: `op`, `dst[0]` and `src[0..2]` are the first
/// half, `dual`, `dst[1]` and `src[2..4]` the second one; [`Inst::halves`] gives both as instructions of their own.
///
/// `v_cmpx` writes EXEC and the mask operand on GFX9, EXEC alone on GFX11: there `dst[0]` is EXEC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inst {
    /// What it does; of a VOPD instruction the first half.
    pub op: Op,
    /// How it was written.
    pub enc: Encoding,
    /// Its length in bytes: 4, 8, 12 or 16.
    pub size: u8,
    /// Destinations.
    pub dst: [Operand; 2],
    /// Sources.
    pub src: [Operand; 4],
    /// Scales of gfx950's scaled MFMA.
    pub scale: [Operand; 2],
    /// What a VOPD instruction has beside its first half.
    pub dual: Option<Dual>,
    /// Modifiers.
    pub mods: Mods,
}

/// The second half of a VOPD instruction, and what both share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dual {
    /// What the second half does.
    pub op: Op,
    /// The literal of `v_dual_fmaak_f32` and `v_dual_fmamk_f32`, 0 where neither half is one of them.
    pub constant: u32,
}

impl Inst {
    /// The halves of a VOPD instruction as VOP1 and VOP2 instructions; `None` for other encodings.
    ///
    /// Both halves read their sources before either writes its destination.
    pub fn halves(&self) -> Option<[Inst; 2]> {
        let dual = self.dual?;
        let [x0, x1, y0, y1] = self.src;
        let half = |op: Op, dst: Operand, first: Operand, second: Operand| {
            let constant = Operand::Literal(dual.constant);
            let (enc, src) = match op {
                Op::VMovB32 => (Encoding::Vop1, [first, Operand::None, Operand::None]),
                Op::VCndmaskB32 => (Encoding::Vop2, [first, second, Operand::Scalar(VCC)]),
                Op::VFmaakF32 => (Encoding::Vop2, [first, second, constant]),
                Op::VFmamkF32 => (Encoding::Vop2, [first, constant, second]),
                _ => (Encoding::Vop2, [first, second, Operand::None]),
            };
            let src = [src[0], src[1], src[2], Operand::None];
            Inst { op, enc, dst: [dst, Operand::None], src, dual: None, ..*self }
        };
        Some([half(self.op, self.dst[0], x0, x1), half(dual.op, self.dst[1], y0, y1)])
    }
}

/// The code of VCC.
const VCC: u8 = 106;
