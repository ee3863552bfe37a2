//! The architectural state of one wave.

/// One vector register: 64 lanes of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Vreg(pub [u32; 64]);

/// Hardware codes of the named scalar registers.
pub mod code {
    #![allow(missing_docs)]
    pub const FLAT_SCRATCH: u8 = 102;
    pub const VCC: u8 = 106;
    pub const TTMP0: u8 = 108;
    pub const M0: u8 = 124;
    pub const EXEC: u8 = 126;
}

/// The MODE register (hwreg 1), as its 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Mode(pub u32);

impl Mode {
    /// Rounding of f32: 0 nearest even, 1 up, 2 down, 3 toward zero.
    pub fn round_f32(self) -> u32 {
        self.0 & 3
    }

    /// Rounding of f16 and f64.
    pub fn round_f16_f64(self) -> u32 {
        (self.0 >> 2) & 3
    }

    /// True when f32 inputs keep their denormals.
    pub fn denorm_in_f32(self) -> bool {
        self.0 & 0x10 != 0
    }

    /// True when f32 results keep their denormals.
    pub fn denorm_out_f32(self) -> bool {
        self.0 & 0x20 != 0
    }

    /// True when f16 and f64 inputs keep their denormals.
    pub fn denorm_in_f16_f64(self) -> bool {
        self.0 & 0x40 != 0
    }

    /// True when f16 and f64 results keep their denormals.
    pub fn denorm_out_f16_f64(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// `DX10_CLAMP`: a clamp turns NaN into 0.
    pub fn dx10_clamp(self) -> bool {
        self.0 & 0x100 != 0
    }

    /// `IEEE`: signalling NaN are quieted, output modifiers ignored.
    pub fn ieee(self) -> bool {
        self.0 & 0x200 != 0
    }

    /// `FP16_OVFL`: overflow gives the largest finite number.
    pub fn fp16_ovfl(self) -> bool {
        self.0 & (1 << 23) != 0
    }

    /// `GPR_IDX_EN`: vector register numbers are offset by M0.
    pub fn gpr_idx(self) -> bool {
        self.0 & (1 << 27) != 0
    }

    /// `VSKIP`: vector instructions are skipped.
    pub fn vskip(self) -> bool {
        self.0 & (1 << 28) != 0
    }

    /// True when f32 and f16/f64 round to nearest even with all denormals kept: what compilers ask for.
    pub fn is_default_float(self) -> bool {
        self.0 & 0xff == 0xf0
    }
}

/// The state of a wave.
#[derive(Clone, Debug)]
pub struct Wave {
    /// Scalar registers by hardware code: s0..s101, FLAT_SCRATCH, XNACK_MASK, VCC, TTMP, M0 and EXEC.
    pub sgpr: [u32; 128],
    /// Architectural vector registers.
    pub vgpr: Vec<Vreg>,
    /// Accumulation registers.
    pub agpr: Vec<Vreg>,
    /// Scalar condition code.
    pub scc: bool,
    /// Program counter: the next step, in dwords from the start of the code segment.
    pub pc: u32,
    /// MODE.
    pub mode: Mode,
    /// Index in the workgroup.
    pub id: u32,
    /// Device address of this wave's scratch, dword d of lane l at `(d * 64 + l) * 4`; 0 when it has none.
    pub scratch_base: u64,
    /// Scratch bytes a lane.
    pub scratch_bytes: u32,
    /// SIMD of the CU that the wave sits on, for HW_ID.
    pub simd: u32,
    /// Instructions executed.
    pub executed: u64,
}

/// Architectural vector registers that an instruction can name.
pub(super) const ARCHITECTURAL: u16 = 256;

impl Wave {
    /// The first of a run of vector registers, by the number that [`super::Compiler::register`] gives.
    ///
    /// # Safety
    /// The run exists: it was checked against this wave's allocation when the step was made.
    #[inline(always)]
    pub(super) unsafe fn registers(&mut self, number: u16) -> *mut Vreg {
        // SAFETY: the caller's.
        unsafe {
            match number.checked_sub(ARCHITECTURAL) {
                None => self.vgpr.as_mut_ptr().add(number.into()),
                Some(number) => self.agpr.as_mut_ptr().add(number.into()),
            }
        }
    }

    /// The EXEC mask.
    #[inline(always)]
    pub fn exec(&self) -> u64 {
        self.s64(code::EXEC)
    }

    /// Sets EXEC.
    #[inline(always)]
    pub fn set_exec(&mut self, mask: u64) {
        self.set_s64(code::EXEC, mask);
    }

    /// VCC.
    #[inline(always)]
    pub fn vcc(&self) -> u64 {
        self.s64(code::VCC)
    }

    /// Sets VCC.
    #[inline(always)]
    pub fn set_vcc(&mut self, mask: u64) {
        self.set_s64(code::VCC, mask);
    }

    /// M0.
    #[inline(always)]
    pub fn m0(&self) -> u32 {
        self.sgpr[usize::from(code::M0)]
    }

    /// A scalar register.
    #[inline(always)]
    pub fn s32(&self, code: u8) -> u32 {
        self.sgpr[usize::from(code & 127)]
    }

    /// A pair of scalar registers.
    #[inline(always)]
    pub fn s64(&self, code: u8) -> u64 {
        let low = usize::from(code & 127);
        u64::from(self.sgpr[low]) | u64::from(self.sgpr[(low + 1) & 127]) << 32
    }

    /// Sets a scalar register.
    #[inline(always)]
    pub fn set_s32(&mut self, code: u8, value: u32) {
        self.sgpr[usize::from(code & 127)] = value;
    }

    /// Sets a pair of scalar registers.
    #[inline(always)]
    pub fn set_s64(&mut self, code: u8, value: u64) {
        let low = usize::from(code & 127);
        self.sgpr[low] = value as u32;
        self.sgpr[(low + 1) & 127] = (value >> 32) as u32;
    }
}

impl Default for Wave {
    fn default() -> Self {
        Self {
            sgpr: [0; 128],
            vgpr: Vec::new(),
            agpr: Vec::new(),
            scc: false,
            pc: 0,
            mode: Mode(0xf0),
            id: 0,
            scratch_base: 0,
            scratch_bytes: 0,
            simd: 0,
            executed: 0,
        }
    }
}
