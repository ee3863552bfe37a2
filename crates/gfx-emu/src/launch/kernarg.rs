//! The kernel argument block as the runtime lays it out: the caller's bytes, then hidden arguments by the metadata.

use super::Launch;
use crate::exec::{PRIVATE_BASE, SHARED_BASE};
use kbench_code_object::{Kernel, ValueKind};

/// Dimensions of every dispatch: HIP launches with three, also where two of them are 1.
const GRID_DIMS: u16 = 3;

/// Kernel argument segments begin at multiples of 16 bytes and compilers count on whole units of it: they widen the load of
/// the last arguments (three dwords to four, seven to eight) past the size that the metadata states.
const UNIT: usize = 16;

/// The whole block: at least as long as the metadata says, in whole units. Hidden arguments that the caller's bytes reach
/// into are the caller's.
pub(super) fn block(kernel: &Kernel, launch: &Launch) -> Vec<u8> {
    let given = launch.kernarg.len();
    let mut block = launch.kernarg.clone();
    block.resize(given.max(kernel.kernarg_size as usize).next_multiple_of(UNIT), 0);
    for arg in kernel.args.iter().filter(|arg| arg.kind.is_hidden()) {
        let (offset, size) = (arg.offset as usize, arg.size as usize);
        let value = hidden(&arg.kind, launch).to_le_bytes();
        let Some(place) = block.get_mut(offset..offset.saturating_add(size)) else { continue };
        if offset >= given {
            let bytes = size.min(8);
            place[..bytes].copy_from_slice(&value[..bytes]);
        }
    }
    block
}

/// The value of a hidden argument. Services that the emulator lacks (printf, host calls, device heap, queues) get null.
fn hidden(kind: &ValueKind, launch: &Launch) -> u64 {
    let [x, y, z] = launch.grid.map(u64::from);
    let [bx, by, bz] = launch.block.map(u64::from);
    match kind {
        ValueKind::HiddenBlockCountX => x,
        ValueKind::HiddenBlockCountY => y,
        ValueKind::HiddenBlockCountZ => z,
        ValueKind::HiddenGroupSizeX => bx,
        ValueKind::HiddenGroupSizeY => by,
        ValueKind::HiddenGroupSizeZ => bz,
        ValueKind::HiddenGridDims => GRID_DIMS.into(),
        ValueKind::HiddenDynamicLdsSize => u64::from(launch.dynamic_lds),
        ValueKind::HiddenPrivateBase => PRIVATE_BASE >> 32,
        ValueKind::HiddenSharedBase => SHARED_BASE >> 32,
        _ => 0,
    }
}

/// The 64-byte dispatch packet (AQL kernel dispatch) that the dispatch pointer shows.
pub(super) fn packet(kernel: &Kernel, launch: &Launch, kernel_object: u64, kernarg: u64) -> [u8; 64] {
    let mut packet = [0; 64];
    let mut put = |offset: usize, bytes: &[u8]| packet[offset..offset + bytes.len()].copy_from_slice(bytes);
    // Header: kernel dispatch (2), system-scope acquire and release fences.
    put(0, &0x0b02_u16.to_le_bytes());
    put(2, &GRID_DIMS.to_le_bytes());
    for axis in 0..3 {
        put(4 + axis * 2, &(launch.block[axis] as u16).to_le_bytes());
        put(12 + axis * 4, &launch.grid[axis].wrapping_mul(launch.block[axis]).to_le_bytes());
    }
    put(24, &kernel.scratch_bytes.to_le_bytes());
    put(28, &kernel.lds_bytes.wrapping_add(launch.dynamic_lds).to_le_bytes());
    put(32, &kernel_object.to_le_bytes());
    put(40, &kernarg.to_le_bytes());
    packet
}
