//! Moving the bytes of lanes between registers and memory.

use crate::exec::{APERTURE, Env, Flow, PRIVATE_BASE, SHARED_BASE, Vreg, Wave};
use crate::fault::{Access, FaultKind};

/// Where an address points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// Device memory.
    Global,
    /// This wave's scratch, by byte offset of the lane.
    Scratch,
    /// LDS, by byte offset.
    Lds,
}

/// The space and the address in it of a flat address.
#[inline(always)]
pub(super) fn aperture(address: u64) -> (Space, u64) {
    if address.wrapping_sub(SHARED_BASE) < APERTURE {
        (Space::Lds, address - SHARED_BASE)
    } else if address.wrapping_sub(PRIVATE_BASE) < APERTURE {
        (Space::Scratch, address - PRIVATE_BASE)
    } else {
        (Space::Global, address)
    }
}

/// The host pointer behind a global or LDS access of one lane.
#[inline(always)]
pub(super) fn locate(
    env: &mut Env<'_>,
    space: Space,
    access: Access,
    address: u64,
    bytes: u32,
) -> Result<*mut u8, FaultKind> {
    if space == Space::Global {
        if env.memory.tracks() {
            match access {
                Access::Read | Access::Atomic => env.memory.check_written(address, bytes)?,
                Access::Write => env.memory.mark_written(address, bytes.into()),
            }
        }
        return env.memory.resolve(&mut env.ranges, access, address, bytes);
    }
    let size = env.lds.len() as u64;
    match address.checked_add(bytes.into()) {
        Some(end) if end <= size => Ok(env.lds.as_mut_ptr().wrapping_add(address as usize)),
        _ => Err(FaultKind::LdsRange { access, address: address as u32, bytes, size: size as u32 }),
    }
}

/// Device address of byte `offset` of a lane's scratch: dwords of the 64 lanes lie side by side.
fn scratch_address(wave: &Wave, lane: usize, offset: u64) -> u64 {
    wave.scratch_base + (offset / 4 * 64 + lane as u64) * 4 + offset % 4
}

/// Reads up to 16 bytes of one lane.
#[inline(always)]
pub(super) fn read(
    env: &mut Env<'_>,
    wave: &Wave,
    lane: usize,
    (space, address): (Space, u64),
    bytes: u32,
) -> Result<[u32; 4], FaultKind> {
    let mut words = [0_u32; 4];
    let to = words.as_mut_ptr().cast::<u8>();
    if space == Space::Scratch {
        scratch_bounds(wave, Access::Read, address, bytes)?;
        if address.is_multiple_of(4) && bytes.is_multiple_of(4) {
            for (k, word) in words.iter_mut().enumerate().take(bytes as usize / 4) {
                let at = scratch_address(wave, lane, address + k as u64 * 4);
                let host = env.memory.resolve(&mut env.ranges, Access::Read, at, 4)?;
                // SAFETY: `resolve` vouches for four bytes.
                *word = unsafe { host.cast::<u32>().read_unaligned() };
            }
            return Ok(words);
        }
        for byte in 0..u64::from(bytes) {
            let at = scratch_address(wave, lane, address + byte);
            let host = env.memory.resolve(&mut env.ranges, Access::Read, at, 1)?;
            // SAFETY: `resolve` vouches for one byte; `byte` is below 16.
            unsafe { *to.add(byte as usize) = host.read() };
        }
        return Ok(words);
    }
    let host = locate(env, space, Access::Read, address, bytes)?;
    // SAFETY: `locate` vouches for `bytes`, at most 16.
    unsafe { std::ptr::copy_nonoverlapping(host, to, bytes as usize) };
    Ok(words)
}

/// Writes up to 16 bytes of one lane.
#[inline(always)]
pub(super) fn write(
    env: &mut Env<'_>,
    wave: &Wave,
    lane: usize,
    (space, address): (Space, u64),
    words: &[u32; 4],
    bytes: u32,
) -> Result<(), FaultKind> {
    let from = words.as_ptr().cast::<u8>();
    if space == Space::Scratch {
        scratch_bounds(wave, Access::Write, address, bytes)?;
        if address.is_multiple_of(4) && bytes.is_multiple_of(4) {
            for (k, word) in words.iter().enumerate().take(bytes as usize / 4) {
                let at = scratch_address(wave, lane, address + k as u64 * 4);
                let host = env.memory.resolve(&mut env.ranges, Access::Write, at, 4)?;
                // SAFETY: `resolve` vouches for four bytes.
                unsafe { host.cast::<u32>().write_unaligned(*word) };
            }
            return Ok(());
        }
        for byte in 0..u64::from(bytes) {
            let at = scratch_address(wave, lane, address + byte);
            let host = env.memory.resolve(&mut env.ranges, Access::Write, at, 1)?;
            // SAFETY: `resolve` vouches for one byte; `byte` is below 16.
            unsafe { host.write(*from.add(byte as usize)) };
        }
        return Ok(());
    }
    let host = locate(env, space, Access::Write, address, bytes)?;
    // SAFETY: `locate` vouches for `bytes`, at most 16.
    unsafe { std::ptr::copy_nonoverlapping(from, host, bytes as usize) };
    Ok(())
}

fn scratch_bounds(wave: &Wave, access: Access, address: u64, bytes: u32) -> Result<(), FaultKind> {
    match address.checked_add(bytes.into()) {
        Some(end) if end <= u64::from(wave.scratch_bytes) => Ok(()),
        _ => Err(FaultKind::Memory {
            access,
            address,
            bytes,
            nearest: format!("outside the {} B of scratch of a lane", wave.scratch_bytes),
        }),
    }
}

/// True when lane `i` is at `addresses[0] + i * bytes`, and the run does not wrap.
#[inline(always)]
pub(super) fn is_linear(addresses: &[u64; 64], bytes: u64) -> bool {
    let first = addresses[0];
    // The last lane tells almost always; only then are all looked at.
    if addresses[63] != first.wrapping_add(63 * bytes) || addresses[63] < first {
        return false;
    }
    let mut same = true;
    for lane in 0..64 {
        same &= addresses[lane] == first.wrapping_add(lane as u64 * bytes);
    }
    same
}

/// Loads `N` dwords for each of 64 lanes that lie one after another.
///
/// # Safety
/// `host` is good for `256 * N` bytes, `to` for `N` registers.
#[inline(always)]
pub(super) unsafe fn load_rows<const N: usize>(host: *const u8, to: *mut Vreg) {
    let from = host.cast::<[u32; N]>();
    for lane in 0..64 {
        // SAFETY: the caller's.
        let words = unsafe { from.add(lane).read_unaligned() };
        for (k, word) in words.into_iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { (*to.add(k)).0[lane] = word };
        }
    }
}

/// Stores `N` dwords of each of 64 lanes one after another.
///
/// # Safety
/// As [`load_rows`].
#[inline(always)]
pub(super) unsafe fn store_rows<const N: usize>(host: *mut u8, from: *const Vreg) {
    let to = host.cast::<[u32; N]>();
    for lane in 0..64 {
        let mut words = [0; N];
        for (k, word) in words.iter_mut().enumerate() {
            // SAFETY: the caller's.
            *word = unsafe { (*from.add(k)).0[lane] };
        }
        // SAFETY: the caller's.
        unsafe { to.add(lane).write_unaligned(words) };
    }
}

/// Ends a handler that a lane's access may have stopped.
#[inline(always)]
pub(super) fn finish(env: &mut Env<'_>, outcome: Result<(), (FaultKind, usize)>) -> Flow {
    match outcome {
        Ok(()) => Flow::Next,
        Err((kind, lane)) => env.raise(kind, Some(lane as u8)),
    }
}

/// Calls `each` for the active lanes in order, until one fails.
#[inline(always)]
pub(super) fn for_lanes(
    exec: u64,
    mut each: impl FnMut(usize) -> Result<(), FaultKind>,
) -> Result<(), (FaultKind, usize)> {
    let mut rest = exec;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        each(lane).map_err(|kind| (kind, lane))?;
    }
    Ok(())
}
