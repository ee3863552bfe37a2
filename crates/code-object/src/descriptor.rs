//! Kernel descriptors: the 64 bytes that the command processor reads to start a kernel.
//!
//! Layout: LLVM "User Guide for AMDGPU Backend", "Kernel Descriptor" and the tables of `compute_pgm_rsrc1` to `3`. Fields
//! that only some generations have are `Option`s: `None` on the others, where the bits are reserved.

use crate::raw::field;
use crate::target::Generation;
use serde::Serialize;

/// Size of a kernel descriptor in bytes; it is aligned to as much.
pub const DESCRIPTOR_BYTES: u64 = 64;

/// A kernel descriptor, all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KernelDescriptor {
    /// Static LDS of a workgroup, bytes.
    pub group_segment_fixed_size: u32,
    /// Scratch of a work-item, bytes.
    pub private_segment_fixed_size: u32,
    /// Kernel argument block, bytes. Often 0 in hand-made code objects: the metadata decides.
    pub kernarg_size: u32,
    /// Entry point minus the descriptor's own address, bytes.
    pub kernel_code_entry_byte_offset: i64,
    /// `compute_pgm_rsrc1`.
    pub rsrc1: ComputePgmRsrc1,
    /// `compute_pgm_rsrc2`.
    pub rsrc2: ComputePgmRsrc2,
    /// `compute_pgm_rsrc3`.
    pub rsrc3: ComputePgmRsrc3,
    /// `kernel_code_properties`.
    pub code_properties: KernelCodeProperties,
    /// Kernel arguments that the command processor loads into user SGPRs.
    pub kernarg_preload: KernargPreload,
    /// Generation by which the fields were read.
    #[serde(skip)]
    pub generation: Generation,
}

/// `FLOAT_ROUND_MODE`: how results are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundMode {
    /// To nearest, ties to even.
    NearestEven,
    /// Towards positive infinity.
    PlusInfinity,
    /// Towards negative infinity.
    MinusInfinity,
    /// Towards zero.
    Zero,
}

/// `FLOAT_DENORM_MODE`: whether subnormal sources and results are replaced by zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DenormMode {
    /// Sources and results.
    FlushSourceAndResult,
    /// Results only.
    FlushResult,
    /// Sources only.
    FlushSource,
    /// Neither.
    Keep,
}

/// Initial values of the work-item id VGPRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkitemIds {
    /// X only.
    X,
    /// X and Y.
    Xy,
    /// X, Y and Z.
    Xyz,
    /// A reserved value.
    Undefined,
}

/// `compute_pgm_rsrc1`: registers and floating-point mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ComputePgmRsrc1 {
    /// The whole word.
    pub raw: u32,
    /// VGPRs (unified: with AGPRs) in granules, minus one.
    pub granulated_workitem_vgpr_count: u8,
    /// SGPRs in granules: twice (granules of 16, minus one). Reserved (0) on gfx10 and later.
    pub granulated_wavefront_sgpr_count: u8,
    /// Start priority of waves.
    pub priority: u8,
    /// Rounding of f32.
    pub float_round_mode_32: RoundMode,
    /// Rounding of f16 and f64.
    pub float_round_mode_16_64: RoundMode,
    /// Subnormals of f32.
    pub float_denorm_mode_32: DenormMode,
    /// Subnormals of f16 and f64.
    pub float_denorm_mode_16_64: DenormMode,
    /// Privileged mode; the command processor sets it.
    pub privileged: bool,
    /// Clamping turns NaN into 0 (up to gfx11).
    pub dx10_clamp: Option<bool>,
    /// Round-robin between the workgroups of a CU (gfx12).
    pub wg_rr_en: Option<bool>,
    /// Debug mode; the command processor sets it.
    pub debug_mode: bool,
    /// IEEE mode: signalling NaNs are quieted (up to gfx11).
    pub ieee_mode: Option<bool>,
    /// Performance counting off for these waves (gfx12).
    pub disable_perf: Option<bool>,
    /// One wave a time; must be 0.
    pub bulky: bool,
    /// Must be 0.
    pub cdbg_user: bool,
    /// f16 overflow clamps to the largest value instead of infinity (gfx9 and later).
    pub fp16_overflow: Option<bool>,
    /// A workgroup may spread over both CUs of a work-group processor (gfx10 and later).
    pub wgp_mode: Option<bool>,
    /// Loads return in order of issue (gfx10 and later).
    pub mem_ordered: Option<bool>,
    /// Waves make forward progress, oldest first (gfx10 and later).
    pub fwd_progress: Option<bool>,
}

/// `compute_pgm_rsrc2`: initial register contents and exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ComputePgmRsrc2 {
    /// The whole word.
    pub raw: u32,
    /// The kernel has scratch; before architected flat scratch, its wave offset is in an SGPR.
    pub enable_private_segment: bool,
    /// User SGPRs set at start.
    pub user_sgpr_count: u8,
    /// Trap handler; the command processor sets it. `None` where the bit has another meaning (gfx12 and later).
    pub enable_trap_handler: Option<bool>,
    /// Workgroup id X in an SGPR.
    pub enable_sgpr_workgroup_id_x: bool,
    /// Workgroup id Y in an SGPR.
    pub enable_sgpr_workgroup_id_y: bool,
    /// Workgroup id Z in an SGPR.
    pub enable_sgpr_workgroup_id_z: bool,
    /// Workgroup information in an SGPR.
    pub enable_sgpr_workgroup_info: bool,
    /// Work-item ids in VGPRs.
    pub enable_vgpr_workitem_id: WorkitemIds,
    /// Address watch exceptions; the command processor sets it.
    pub enable_exception_address_watch: bool,
    /// Memory violation exceptions; the command processor sets it.
    pub enable_exception_memory: bool,
    /// LDS in granules; 0 in a file, the command processor sets it from the dispatch packet.
    pub granulated_lds_size: u16,
    /// Floating-point and integer exceptions that are reported: bit 0 invalid operation, 1 subnormal source, 2 division by
    /// zero, 3 overflow, 4 underflow, 5 inexact, 6 integer division by zero.
    pub enable_exceptions: u8,
}

/// `compute_pgm_rsrc3`: what each generation has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ComputePgmRsrc3 {
    /// The whole word.
    pub raw: u32,
    /// First AGPR in the unified file: a multiple of 4, 4 to 256 (gfx90a, gfx94x, gfx950).
    pub accum_offset: Option<u16>,
    /// The waves of a workgroup may be on several CUs (gfx90a, gfx94x, gfx950).
    pub tg_split: Option<bool>,
    /// Shared VGPR blocks of 8, for wave64 (gfx10, gfx11).
    pub shared_vgpr_count: Option<u8>,
    /// Instruction prefetch at start, in units of 128 bytes (gfx11 and later).
    pub inst_pref_size: Option<u8>,
    /// Trap at the start of a wave (gfx11).
    pub trap_on_start: Option<bool>,
    /// Trap at the end of a wave (gfx11).
    pub trap_on_end: Option<bool>,
    /// The kernel has image instructions (gfx11 and later).
    pub image_op: Option<bool>,
}

/// `kernel_code_properties`: which user SGPRs are set, and wave kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KernelCodeProperties {
    /// The whole word.
    pub raw: u16,
    /// Scratch buffer descriptor, 4 SGPRs.
    pub enable_sgpr_private_segment_buffer: bool,
    /// Dispatch packet address, 2 SGPRs.
    pub enable_sgpr_dispatch_ptr: bool,
    /// Queue address, 2 SGPRs.
    pub enable_sgpr_queue_ptr: bool,
    /// Kernel argument address, 2 SGPRs.
    pub enable_sgpr_kernarg_segment_ptr: bool,
    /// Dispatch id, 2 SGPRs.
    pub enable_sgpr_dispatch_id: bool,
    /// Flat scratch setup, 2 SGPRs.
    pub enable_sgpr_flat_scratch_init: bool,
    /// Scratch bytes of a work-item, 1 SGPR.
    pub enable_sgpr_private_segment_size: bool,
    /// Waves of 32 lanes (gfx10 and later; otherwise 64).
    pub enable_wavefront_size32: bool,
    /// Stack size is not known at compile time.
    pub uses_dynamic_stack: bool,
}

/// `kernarg_preload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KernargPreload {
    /// Dwords of the argument block that are loaded into user SGPRs. Not 0: execution begins 256 bytes after the entry, where
    /// the hardware can preload.
    pub length_dwords: u8,
    /// First dword loaded.
    pub offset_dwords: u16,
}

impl KernelDescriptor {
    /// Reads a descriptor by the layout of `generation`. Every bit pattern is some descriptor.
    pub fn read(bytes: &[u8; DESCRIPTOR_BYTES as usize], generation: Generation) -> Self {
        let u16_at = |offset| u16::from_le_bytes(field(bytes, offset));
        let u32_at = |offset| u32::from_le_bytes(field(bytes, offset));
        let preload = u16_at(58);
        Self {
            group_segment_fixed_size: u32_at(0),
            private_segment_fixed_size: u32_at(4),
            kernarg_size: u32_at(8),
            kernel_code_entry_byte_offset: i64::from_le_bytes(field(bytes, 16)),
            rsrc1: ComputePgmRsrc1::read(u32_at(48), generation),
            rsrc2: ComputePgmRsrc2::read(u32_at(52), generation),
            rsrc3: ComputePgmRsrc3::read(u32_at(44), generation),
            code_properties: KernelCodeProperties::read(u16_at(56)),
            kernarg_preload: KernargPreload { length_dwords: (preload & 0x7f) as u8, offset_dwords: preload >> 7 },
            generation,
        }
    }

    /// Lanes of a wave: 32 or 64.
    pub fn wave_size(&self) -> u32 {
        let wave32 = self.generation.is_rdna() && self.code_properties.enable_wavefront_size32;
        if wave32 { 32 } else { 64 }
    }

    /// VGPRs that the hardware allocates to a wave (unified: with AGPRs): the granulated count, decoded.
    pub fn allocated_vgprs(&self) -> u32 {
        (u32::from(self.rsrc1.granulated_workitem_vgpr_count) + 1) * self.vgpr_encoding_granule()
    }

    /// SGPRs that the hardware allocates to a wave; `None` on gfx10 and later, where every wave gets all.
    pub fn allocated_sgprs(&self) -> Option<u32> {
        let field = u32::from(self.rsrc1.granulated_wavefront_sgpr_count);
        match self.generation {
            generation if generation.is_rdna() => None,
            Generation::Gfx6To8 => Some((field + 1) * 8),
            _ => Some((field / 2 + 1) * 16),
        }
    }

    /// Registers in one step of the granulated VGPR count.
    fn vgpr_encoding_granule(&self) -> u32 {
        let wave32 = self.wave_size() == 32;
        match self.generation {
            Generation::Gfx90a | Generation::Gfx94x | Generation::Gfx950 => 8,
            Generation::Gfx125 | Generation::Gfx13 if wave32 => 16,
            Generation::Gfx125 | Generation::Gfx13 => 8,
            _ if wave32 => 8,
            _ => 4,
        }
    }
}

fn bits(word: u32, low: u32, width: u32) -> u32 {
    (word >> low) & ((1 << width) - 1)
}

fn bit(word: u32, index: u32) -> bool {
    bits(word, index, 1) == 1
}

impl ComputePgmRsrc1 {
    fn read(raw: u32, generation: Generation) -> Self {
        let gfx12 = generation >= Generation::Gfx120;
        let rdna = generation.is_rdna();
        let round = |low| match bits(raw, low, 2) {
            0 => RoundMode::NearestEven,
            1 => RoundMode::PlusInfinity,
            2 => RoundMode::MinusInfinity,
            _ => RoundMode::Zero,
        };
        let denorm = |low| match bits(raw, low, 2) {
            0 => DenormMode::FlushSourceAndResult,
            1 => DenormMode::FlushResult,
            2 => DenormMode::FlushSource,
            _ => DenormMode::Keep,
        };
        Self {
            raw,
            granulated_workitem_vgpr_count: bits(raw, 0, 6) as u8,
            granulated_wavefront_sgpr_count: bits(raw, 6, 4) as u8,
            priority: bits(raw, 10, 2) as u8,
            float_round_mode_32: round(12),
            float_round_mode_16_64: round(14),
            float_denorm_mode_32: denorm(16),
            float_denorm_mode_16_64: denorm(18),
            privileged: bit(raw, 20),
            dx10_clamp: (!gfx12).then(|| bit(raw, 21)),
            wg_rr_en: gfx12.then(|| bit(raw, 21)),
            debug_mode: bit(raw, 22),
            ieee_mode: (!gfx12).then(|| bit(raw, 23)),
            disable_perf: gfx12.then(|| bit(raw, 23)),
            bulky: bit(raw, 24),
            cdbg_user: bit(raw, 25),
            fp16_overflow: (generation >= Generation::Gfx9).then(|| bit(raw, 26)),
            wgp_mode: rdna.then(|| bit(raw, 29)),
            mem_ordered: rdna.then(|| bit(raw, 30)),
            fwd_progress: rdna.then(|| bit(raw, 31)),
        }
    }
}

impl ComputePgmRsrc2 {
    fn read(raw: u32, generation: Generation) -> Self {
        // gfx12.5 widened the user SGPR count over the bit that was the trap handler's.
        let user_sgpr_bits = if generation >= Generation::Gfx125 { 6 } else { 5 };
        Self {
            raw,
            enable_private_segment: bit(raw, 0),
            user_sgpr_count: bits(raw, 1, user_sgpr_bits) as u8,
            enable_trap_handler: (generation < Generation::Gfx120).then(|| bit(raw, 6)),
            enable_sgpr_workgroup_id_x: bit(raw, 7),
            enable_sgpr_workgroup_id_y: bit(raw, 8),
            enable_sgpr_workgroup_id_z: bit(raw, 9),
            enable_sgpr_workgroup_info: bit(raw, 10),
            enable_vgpr_workitem_id: match bits(raw, 11, 2) {
                0 => WorkitemIds::X,
                1 => WorkitemIds::Xy,
                2 => WorkitemIds::Xyz,
                _ => WorkitemIds::Undefined,
            },
            enable_exception_address_watch: bit(raw, 13),
            enable_exception_memory: bit(raw, 14),
            granulated_lds_size: bits(raw, 15, 9) as u16,
            enable_exceptions: bits(raw, 24, 7) as u8,
        }
    }
}

impl ComputePgmRsrc3 {
    fn read(raw: u32, generation: Generation) -> Self {
        let unified = generation.has_unified_registers();
        let gfx10 = matches!(generation, Generation::Gfx101 | Generation::Gfx103);
        let gfx11 = matches!(generation, Generation::Gfx11 | Generation::Gfx11Large);
        let gfx12 = generation >= Generation::Gfx120;
        let prefetch_bits = if gfx12 { 8 } else { 6 };
        Self {
            raw,
            accum_offset: unified.then(|| (bits(raw, 0, 6) as u16 + 1) * 4),
            tg_split: unified.then(|| bit(raw, 16)),
            shared_vgpr_count: (gfx10 || gfx11).then(|| bits(raw, 0, 4) as u8),
            inst_pref_size: (gfx11 || gfx12).then(|| bits(raw, 4, prefetch_bits) as u8),
            trap_on_start: gfx11.then(|| bit(raw, 10)),
            trap_on_end: gfx11.then(|| bit(raw, 11)),
            image_op: (gfx11 || gfx12).then(|| bit(raw, 31)),
        }
    }
}

impl KernelCodeProperties {
    fn read(raw: u16) -> Self {
        let bit = |index| bit(u32::from(raw), index);
        Self {
            raw,
            enable_sgpr_private_segment_buffer: bit(0),
            enable_sgpr_dispatch_ptr: bit(1),
            enable_sgpr_queue_ptr: bit(2),
            enable_sgpr_kernarg_segment_ptr: bit(3),
            enable_sgpr_dispatch_id: bit(4),
            enable_sgpr_flat_scratch_init: bit(5),
            enable_sgpr_private_segment_size: bit(6),
            enable_wavefront_size32: bit(10),
            uses_dynamic_stack: bit(11),
        }
    }
}
