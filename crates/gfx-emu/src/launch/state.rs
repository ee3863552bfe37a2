//! What a wave's registers hold when it starts (LLVM "Initial Kernel Execution State").

use super::Launch;
use super::run::Options;
use crate::exec::{Mode, Vreg, Wave, code};
use crate::isa::Arch;
use kbench_code_object::{Kernel, WorkitemIds};

/// What is the same for every wave of a launch.
#[derive(Debug)]
pub(super) struct Setup {
    arch: Arch,
    /// User SGPRs, in order, without the flat-scratch base, which is known per launch too.
    user: Vec<u32>,
    workgroup_ids: [bool; 3],
    workgroup_info: bool,
    scratch_offset: bool,
    mode: Mode,
    entry: u32,
    vgprs: u16,
    agprs: u16,
    /// Of each wave of a workgroup, work-item ids packed 10 bits each (v0), and the lanes that exist.
    ids: Vec<(Vreg, u64)>,
    waves: u32,
    scratch_bytes: u32,
    poison: Option<u32>,
}

/// Device addresses that the registers show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses {
    pub(super) packet: u64,
    pub(super) kernarg: u64,
    /// Scratch of the whole launch, and its size.
    pub(super) scratch: u64,
    pub(super) scratch_size: u64,
}

/// Where a wave is put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) workgroup: [u32; 3],
    pub(super) wave: u32,
    /// Device address of the wave's scratch.
    pub(super) scratch: u64,
}

/// Registers allocated: architectural and accumulation.
pub(super) fn registers(kernel: &Kernel) -> (u16, u16) {
    let total = kernel.descriptor.allocated_vgprs().max(8) as u16;
    match kernel.accum_offset() {
        Some(offset) if offset < total => (offset, total - offset),
        _ => (total, 0),
    }
}

impl Setup {
    pub(super) fn new(
        options: &Options,
        kernel: &Kernel,
        launch: &Launch,
        kernarg: &[u8],
        entry: u32,
        at: Addresses,
    ) -> Self {
        let arch = options.arch;
        let descriptor = &kernel.descriptor;
        let properties = &descriptor.code_properties;
        let wanted = usize::from(descriptor.rsrc2.user_sgpr_count);
        let scratch_bytes = kernel.scratch_bytes;
        let mut user = Vec::with_capacity(16);
        let pair = |on: bool, value: u64, user: &mut Vec<u32>| {
            if on {
                user.extend([value as u32, (value >> 32) as u32]);
            }
        };
        if properties.enable_sgpr_private_segment_buffer {
            user.extend(scratch_resource(at));
        }
        pair(properties.enable_sgpr_dispatch_ptr, at.packet, &mut user);
        pair(properties.enable_sgpr_queue_ptr, 0, &mut user);
        pair(properties.enable_sgpr_kernarg_segment_ptr, at.kernarg, &mut user);
        pair(properties.enable_sgpr_dispatch_id, 0, &mut user);
        pair(properties.enable_sgpr_flat_scratch_init, at.scratch, &mut user);
        if properties.enable_sgpr_private_segment_size {
            user.push(scratch_bytes);
        }
        let preload = descriptor.kernarg_preload;
        let words = kernarg.chunks(4).map(|bytes| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            u32::from_le_bytes(word)
        });
        let preloaded = words.skip(preload.offset_dwords.into()).take(preload.length_dwords.into());
        user.extend(preloaded);
        user.resize(wanted.max(user.len()), 0);
        let (vgprs, agprs) = registers(kernel);
        let rsrc1 = descriptor.rsrc1.raw;
        // MODE: FP_ROUND and FP_DENORM are rsrc1[19:12], DX10_CLAMP rsrc1[21], IEEE rsrc1[23], FP16_OVFL rsrc1[26].
        let mode = (rsrc1 >> 12 & 0xff) | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9 | (rsrc1 >> 26 & 1) << 23;
        let preload_entry = if preload.length_dwords > 0 { 256 / 4 } else { 0 };
        let architected = arch != Arch::Gfx90a;
        let id_dims = match descriptor.rsrc2.enable_vgpr_workitem_id {
            WorkitemIds::X => 1,
            WorkitemIds::Xy => 2,
            WorkitemIds::Xyz | WorkitemIds::Undefined => 3,
        };
        let waves = launch.work_items().div_ceil(64) as u32;
        Self {
            arch,
            user,
            workgroup_ids: [
                descriptor.rsrc2.enable_sgpr_workgroup_id_x,
                descriptor.rsrc2.enable_sgpr_workgroup_id_y,
                descriptor.rsrc2.enable_sgpr_workgroup_id_z,
            ],
            workgroup_info: descriptor.rsrc2.enable_sgpr_workgroup_info,
            scratch_offset: descriptor.rsrc2.enable_private_segment && !architected,
            mode: Mode(mode),
            entry: entry + preload_entry,
            vgprs,
            agprs,
            ids: (0..waves).map(|wave| ids(launch.block, id_dims, options.poison.unwrap_or(0), wave)).collect(),
            waves,
            scratch_bytes,
            poison: options.poison,
        }
    }

    /// The first program counter, in dwords.
    pub(super) fn entry(&self) -> u32 {
        self.entry
    }

    /// Waves of a workgroup.
    pub(super) fn waves(&self) -> u32 {
        self.waves
    }

    /// Scratch bytes of a wave.
    pub(super) fn wave_scratch(&self) -> u64 {
        u64::from(self.scratch_bytes) * 64
    }

    /// Puts a wave into its first state, reusing its register storage. Registers that hardware leaves undefined are zero, or
    /// the poison.
    pub(super) fn start(&self, wave: &mut Wave, place: Place, scratch: Addresses) {
        let undefined = self.poison.unwrap_or(0);
        wave.sgpr = [undefined; 128];
        reset(&mut wave.vgpr, self.vgprs.into(), undefined);
        reset(&mut wave.agpr, self.agprs.into(), undefined);
        wave.scc = false;
        wave.pc = self.entry;
        wave.mode = self.mode;
        wave.id = place.wave;
        wave.simd = place.wave % 4;
        wave.scratch_base = place.scratch;
        wave.scratch_bytes = self.scratch_bytes;
        wave.executed = 0;
        let mut next = self.user.len().min(102);
        wave.sgpr[..next].copy_from_slice(&self.user[..next]);
        let mut push = |value: u32| {
            if next < 102 {
                wave.sgpr[next] = value;
                next += 1;
            }
        };
        for (axis, on) in self.workgroup_ids.iter().enumerate() {
            if *on {
                push(place.workgroup[axis]);
            }
        }
        if self.workgroup_info {
            push(u32::from(place.wave == 0) << 31 | (place.wave & 31) << 20 | (self.waves & 63));
        }
        let offset = place.scratch.wrapping_sub(scratch.scratch);
        if self.scratch_offset {
            push(offset as u32);
        }
        if self.arch != Arch::Gfx90a {
            wave.set_s64(code::FLAT_SCRATCH, place.scratch);
        }
        wave.set_s32(code::TTMP0 + 6, scratch.packet as u32);
        wave.set_s32(code::TTMP0 + 7, (scratch.packet >> 32) as u32);
        for axis in 0..3 {
            wave.set_s32(code::TTMP0 + 8 + axis as u8, place.workgroup[axis]);
        }
        wave.set_s32(code::TTMP0 + 11, place.wave);
        let (ids, lanes) = self.ids.get(place.wave as usize).copied().unwrap_or((Vreg([undefined; 64]), 0));
        if let Some(v0) = wave.vgpr.first_mut() {
            *v0 = ids;
        }
        wave.set_exec(lanes);
    }
}

/// Makes `count` registers of one word.
fn reset(registers: &mut Vec<Vreg>, count: usize, word: u32) {
    if registers.len() != count || word != 0 {
        registers.clear();
        registers.resize(count, Vreg([word; 64]));
        return;
    }
    // SAFETY: zeros are a register's bits like any others.
    unsafe { registers.as_mut_ptr().write_bytes(0, count) };
}

/// What v0 of a wave of a workgroup holds in the lanes that exist (the others keep `undefined`), and which these are.
fn ids(block: [u32; 3], dims: u32, undefined: u32, wave: u32) -> (Vreg, u64) {
    let [bx, by, bz] = block.map(|size| size.max(1));
    let items = u64::from(bx) * u64::from(by) * u64::from(bz);
    let (mut v0, mut mask) = (Vreg([undefined; 64]), 0_u64);
    for (lane, word) in v0.0.iter_mut().enumerate() {
        let item = wave * 64 + lane as u32;
        if u64::from(item) >= items {
            break;
        }
        mask |= 1 << lane;
        let (x, y, z) = (item % bx, item / bx % by, item / bx / by);
        *word = x | if dims > 1 { y << 10 } else { 0 } | if dims > 2 { z << 20 } else { 0 };
    }
    (v0, mask)
}

/// The buffer resource over scratch: swizzled by lane, 4-byte elements, index stride 64, the lane added as the index.
fn scratch_resource(at: Addresses) -> [u32; 4] {
    let high = (at.scratch >> 32) as u32 & 0xffff;
    [at.scratch as u32, high | 1 << 31, at.scratch_size.min(u64::from(u32::MAX)) as u32, 3 << 21 | 1 << 23]
}
