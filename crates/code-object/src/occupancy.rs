//! Occupancy: how many waves and workgroups of a kernel a compute unit holds at once, and what stops it from holding more.
//!
//! Formulas and their sources are in docs/code-objects.md, "Occupancy".

use crate::kernel::Kernel;
use crate::raw::align_up;
use crate::target::{Generation, Target};
use serde::Serialize;
use thiserror::Error;

/// What a compute unit has for waves. On gfx10 and later in work-group processor mode, all figures are those of the whole
/// work-group processor (two compute units).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ComputeUnit {
    /// What the figures count.
    pub unit: Unit,
    /// SIMDs.
    pub simds: u32,
    /// Wave slots of a SIMD.
    pub wave_slots_per_simd: u32,
    /// VGPRs of a SIMD for one lane of a wave (with AGPRs where the file is unified).
    pub vgprs_per_simd: u32,
    /// VGPRs are allocated in steps of this.
    pub vgpr_granule: u32,
    /// SGPRs of a SIMD; `None` where every wave gets a full set.
    pub sgprs_per_simd: Option<u32>,
    /// LDS in bytes.
    pub lds_bytes: u32,
    /// LDS is allocated in steps of this many bytes.
    pub lds_granule: u32,
    /// Most LDS of a workgroup in bytes.
    pub lds_bytes_per_workgroup: u32,
    /// Workgroups of more than one wave: each takes a barrier.
    pub barriers: u32,
    /// Most work-items of a workgroup.
    pub max_workgroup: u32,
}

/// What occupancy is counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Compute unit.
    #[serde(rename = "CU")]
    ComputeUnit,
    /// Work-group processor: two compute units that share their LDS (gfx10 and later, WGP mode).
    #[serde(rename = "WGP")]
    WorkgroupProcessor,
}

impl Unit {
    /// `CU` or `WGP`.
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::ComputeUnit => "CU",
            Unit::WorkgroupProcessor => "WGP",
        }
    }
}

/// What stops another workgroup from fitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Vector registers (with AGPRs where the file is unified).
    Vgprs,
    /// Scalar registers.
    Sgprs,
    /// LDS.
    Lds,
    /// Wave slots: the hardware's maximum is reached.
    WaveSlots,
    /// Barriers: workgroups of several waves.
    Barriers,
}

impl Resource {
    /// In a word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            Resource::Vgprs => "VGPRs",
            Resource::Sgprs => "SGPRs",
            Resource::Lds => "LDS",
            Resource::WaveSlots => "wave slots",
            Resource::Barriers => "barriers",
        }
    }
}

/// How a kernel is launched, as far as occupancy depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Work-items of a workgroup.
    pub block: u32,
    /// LDS that the launch adds to the kernel's static LDS, bytes.
    pub dynamic_lds_bytes: u32,
}

/// Workgroups that each resource would allow on a unit, were it the only limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WorkgroupLimits {
    /// By vector registers.
    pub vgprs: u32,
    /// By scalar registers; `None` where they do not limit.
    pub sgprs: Option<u32>,
    /// By LDS; `None` when the kernel uses none.
    pub lds: Option<u32>,
    /// By wave slots.
    pub wave_slots: u32,
    /// By barriers; `None` for workgroups of one wave.
    pub barriers: Option<u32>,
}

/// The occupancy of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Occupancy {
    /// CU, or work-group processor.
    pub unit: Unit,
    /// Work-items of a workgroup.
    pub block: u32,
    /// Waves of a workgroup.
    pub waves_per_workgroup: u32,
    /// Static and dynamic LDS of a workgroup in bytes, as requested.
    pub lds_bytes: u32,
    /// VGPRs allocated to a wave, by lane.
    pub allocated_vgprs: u32,
    /// Waves that the registers and slots of one SIMD hold: what compilers print as occupancy.
    pub register_waves_per_simd: u32,
    /// Workgroups on the unit at once.
    pub workgroups: u32,
    /// Waves on a SIMD with that many workgroups, on average.
    pub waves_per_simd: f64,
    /// The same over the wave slots, 0 to 1.
    pub occupancy: f64,
    /// What stops the next workgroup. When several stop it, the one to work on first: registers, LDS, barriers, slots.
    pub limiter: Resource,
    /// What each resource would allow.
    pub limits: WorkgroupLimits,
}

/// Why a kernel cannot run with a launch shape, or is not modelled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OccupancyError {
    /// No model of the processor.
    #[error("occupancy of {0} is not modelled (known: gfx9 to gfx12.0)")]
    UnknownProcessor(&'static str),
    /// Empty or too large for any kernel.
    #[error("a workgroup of {block} work-items is outside 1 to {max}")]
    Block {
        /// Asked for.
        block: u32,
        /// Allowed.
        max: u32,
    },
    /// Too much LDS.
    #[error("a workgroup of {requested} bytes of LDS does not fit: {available} bytes is the most")]
    Lds {
        /// Static and dynamic, bytes.
        requested: u64,
        /// Allowed, bytes.
        available: u32,
    },
    /// The waves of one workgroup need more registers than there are.
    #[error("a workgroup of {waves} waves does not fit: {resource} allow {available} waves on a {unit}", resource = .resource.as_str(), unit = .unit.as_str())]
    Waves {
        /// Needed.
        waves: u32,
        /// Possible.
        available: u32,
        /// By what.
        resource: Resource,
        /// On what.
        unit: Unit,
    },
}

impl ComputeUnit {
    /// The figures of a processor for waves of `wave_size` lanes; `None` where they are not known. `wgp_mode` counts on
    /// gfx10 and later only.
    pub fn of(target: &Target, wave_size: u32, wgp_mode: bool) -> Option<Self> {
        let generation = target.generation();
        let wave32 = wave_size == 32;
        let (unit, simds) = match (generation.is_rdna(), wgp_mode) {
            (false, _) => (Unit::ComputeUnit, 4),
            (true, false) => (Unit::ComputeUnit, 2),
            (true, true) => (Unit::WorkgroupProcessor, 4),
        };
        // A wave64 takes two rows of a file that is counted in rows of 32 lanes.
        let rows = |rows: u32| if wave32 { rows } else { rows / 2 };
        let (vgprs_per_simd, vgpr_granule, wave_slots_per_simd) = match generation {
            Generation::Gfx9 => (256, 4, 10),
            Generation::Gfx90a | Generation::Gfx94x | Generation::Gfx950 => (512, 8, 8),
            Generation::Gfx101 => (rows(1024), rows(8), 20),
            Generation::Gfx103 | Generation::Gfx11 => (rows(1024), rows(16), 16),
            Generation::Gfx11Large | Generation::Gfx120 => (rows(1536), rows(24), 16),
            Generation::Gfx6To8 | Generation::Gfx125 | Generation::Gfx13 => return None,
        };
        let (lds_per_cu, lds_granule) = match generation {
            Generation::Gfx950 => (160 << 10, 1280),
            Generation::Gfx103 | Generation::Gfx11 | Generation::Gfx11Large | Generation::Gfx120 => (64 << 10, 1024),
            _ => (64 << 10, 512),
        };
        let cus = if unit == Unit::WorkgroupProcessor { 2 } else { 1 };
        Some(Self {
            unit,
            simds,
            wave_slots_per_simd,
            vgprs_per_simd,
            vgpr_granule,
            sgprs_per_simd: (!generation.is_rdna()).then_some(800),
            lds_bytes: lds_per_cu * cus,
            lds_granule,
            lds_bytes_per_workgroup: lds_per_cu,
            barriers: 16 * cus,
            max_workgroup: 1024,
        })
    }

    /// Waves that one SIMD's registers hold, and what limits them.
    fn waves_per_simd(&self, vgprs: u32, sgprs: Option<u32>) -> (u32, u32, Option<u32>) {
        let by_vgprs = self.vgprs_per_simd / vgprs.max(self.vgpr_granule);
        let by_sgprs = self.sgprs_per_simd.zip(sgprs).map(|(all, used)| all / used.max(16));
        let waves = by_vgprs.min(by_sgprs.unwrap_or(u32::MAX)).min(self.wave_slots_per_simd);
        (waves, by_vgprs, by_sgprs)
    }
}

impl Kernel {
    /// How many waves and workgroups of this kernel a compute unit holds.
    ///
    /// Registers count as the descriptor makes the hardware allocate them.
    ///
    /// # Errors
    /// When a workgroup of that shape cannot run at all, or the processor is not modelled.
    pub fn occupancy(&self, target: &Target, shape: LaunchShape) -> Result<Occupancy, OccupancyError> {
        let wgp_mode = self.descriptor.rsrc1.wgp_mode == Some(true);
        let unit =
            ComputeUnit::of(target, self.wave_size, wgp_mode).ok_or(OccupancyError::UnknownProcessor(target.name()))?;
        let LaunchShape { block, dynamic_lds_bytes } = shape;
        if block == 0 || block > unit.max_workgroup {
            return Err(OccupancyError::Block { block, max: unit.max_workgroup });
        }
        let requested = u64::from(self.lds_bytes) + u64::from(dynamic_lds_bytes);
        let lds_bytes = match u32::try_from(requested) {
            Ok(bytes) if bytes <= unit.lds_bytes_per_workgroup => bytes,
            _ => return Err(OccupancyError::Lds { requested, available: unit.lds_bytes_per_workgroup }),
        };

        let vgprs = align_up(u64::from(self.descriptor.allocated_vgprs()), u64::from(unit.vgpr_granule)) as u32;
        let (register_waves, by_vgprs, by_sgprs) = unit.waves_per_simd(vgprs, self.descriptor.allocated_sgprs());
        let waves = block.div_ceil(self.wave_size);
        let workgroups_by = |waves_per_simd: u32| (waves_per_simd * unit.simds) / waves;
        let limits = WorkgroupLimits {
            vgprs: workgroups_by(by_vgprs),
            sgprs: by_sgprs.map(workgroups_by),
            lds: match align_up(u64::from(lds_bytes), u64::from(unit.lds_granule)) as u32 {
                0 => None,
                allocated => Some(unit.lds_bytes / allocated),
            },
            wave_slots: workgroups_by(unit.wave_slots_per_simd),
            barriers: (waves > 1).then_some(unit.barriers),
        };
        let (workgroups, limiter) = limits.smallest();
        if workgroups == 0 {
            let available = match limiter {
                Resource::Vgprs => by_vgprs * unit.simds,
                Resource::Sgprs => by_sgprs.unwrap_or(0) * unit.simds,
                _ => unit.wave_slots_per_simd * unit.simds,
            };
            return Err(OccupancyError::Waves { waves, available, resource: limiter, unit: unit.unit });
        }
        let waves_per_simd = f64::from(workgroups * waves) / f64::from(unit.simds);
        Ok(Occupancy {
            unit: unit.unit,
            block,
            waves_per_workgroup: waves,
            lds_bytes,
            allocated_vgprs: vgprs,
            register_waves_per_simd: register_waves,
            workgroups,
            waves_per_simd,
            occupancy: waves_per_simd / f64::from(unit.wave_slots_per_simd),
            limiter,
            limits,
        })
    }

    /// The block for which occupancy is told when no launch is known: the required workgroup, else the most that the kernel
    /// was compiled for, else 256.
    pub fn default_block(&self) -> u32 {
        let required = self.reqd_workgroup.map(|[x, y, z]| x.saturating_mul(y).saturating_mul(z));
        required.or(self.max_workgroup).filter(|&block| block > 0).unwrap_or(256)
    }
}

impl WorkgroupLimits {
    fn smallest(&self) -> (u32, Resource) {
        let mut smallest = (self.vgprs, Resource::Vgprs);
        for (limit, resource) in [
            (self.sgprs, Resource::Sgprs),
            (self.lds, Resource::Lds),
            (self.barriers, Resource::Barriers),
            (Some(self.wave_slots), Resource::WaveSlots),
        ] {
            if let Some(limit) = limit
                && limit < smallest.0
            {
                smallest = (limit, resource);
            }
        }
        smallest
    }
}
