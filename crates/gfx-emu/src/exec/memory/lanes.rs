//! Moving the bytes of lanes between registers and memory.

use crate::exec::valu::simd;
use crate::exec::{APERTURE, Env, Flow, PRIVATE_BASE, SHARED_BASE, Vreg, Wave};
use crate::fault::{Access, FaultKind};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m512i;

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
/// `host` is good for `256 * N` bytes, `to` for `N` registers; the host has the features of level `L`.
#[inline(always)]
pub(super) unsafe fn load_rows<const N: usize, const L: u8>(host: *const u8, to: *mut Vreg) {
    #[cfg(target_arch = "x86_64")]
    if L == simd::V4 && N == 4 {
        use std::arch::x86_64::{_mm512_loadu_si512, _mm512_store_si512};
        for part in 0..4 {
            // SAFETY: the caller's: 256 bytes are behind each part, and 16 lanes of each register.
            unsafe {
                let from = host.add(256 * part);
                let rows = [0, 1, 2, 3].map(|i| _mm512_loadu_si512(from.add(64 * i).cast()));
                for (k, words) in by_word(rows).into_iter().enumerate() {
                    _mm512_store_si512((*to.add(k)).0.as_mut_ptr().add(16 * part).cast(), words);
                }
            }
        }
        return;
    }
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
pub(super) unsafe fn store_rows<const N: usize, const L: u8>(host: *mut u8, from: *const Vreg) {
    #[cfg(target_arch = "x86_64")]
    if L == simd::V4 && N == 4 {
        use std::arch::x86_64::{_mm512_load_si512, _mm512_storeu_si512};
        for part in 0..4 {
            // SAFETY: the caller's: 256 bytes are behind each part, and 16 lanes of each register.
            unsafe {
                let words = [0, 1, 2, 3].map(|k| _mm512_load_si512((*from.add(k)).0.as_ptr().add(16 * part).cast()));
                for (i, row) in by_lane(words).into_iter().enumerate() {
                    _mm512_storeu_si512(host.add(256 * part + 64 * i).cast(), row);
                }
            }
        }
        return;
    }
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

/// Four rows of four lanes of four dwords as dword k of 16 lanes, for each k.
///
/// # Safety
/// The host has AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn by_word(rows: [__m512i; 4]) -> [__m512i; 4] {
    use std::arch::x86_64::{_mm512_permutex2var_epi32, _mm512_setr_epi32, _mm512_shuffle_i64x2};
    // SAFETY: the caller's.
    unsafe {
        // Of eight lanes, dwords 0 and 1 (or 2 and 3): eight of each.
        let low = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
        let high = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
        let pair = |index, i: usize| _mm512_permutex2var_epi32(rows[i], index, rows[i + 1]);
        let (first, second) = ([pair(low, 0), pair(high, 0)], [pair(low, 2), pair(high, 2)]);
        [
            _mm512_shuffle_i64x2(first[0], second[0], 0b01_00_01_00),
            _mm512_shuffle_i64x2(first[0], second[0], 0b11_10_11_10),
            _mm512_shuffle_i64x2(first[1], second[1], 0b01_00_01_00),
            _mm512_shuffle_i64x2(first[1], second[1], 0b11_10_11_10),
        ]
    }
}

/// The inverse of [`by_word`].
///
/// # Safety
/// The host has AVX-512 F.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn by_lane(words: [__m512i; 4]) -> [__m512i; 4] {
    use std::arch::x86_64::{
        _mm512_permutex2var_epi64, _mm512_setr_epi64, _mm512_unpackhi_epi32, _mm512_unpacklo_epi32,
    };
    // SAFETY: the caller's.
    unsafe {
        // In each 128 bits: dwords 0 and 1 (2 and 3) of lanes 4n, 4n + 1 (4n + 2, 4n + 3).
        let [a, b, c, d] = words;
        let (front, back) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (front_up, back_up) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        let lanes = |lower: bool, low: __m512i, high: __m512i| {
            let index = if lower {
                _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11)
            } else {
                _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15)
            };
            _mm512_permutex2var_epi64(low, index, high)
        };
        // Lanes 0, 1, 4, 5 and 8, 9, 12, 13; lanes 2, 3, 6, 7 and 10, 11, 14, 15.
        let (x0, x1) = (lanes(true, front, back), lanes(false, front, back));
        let (y0, y1) = (lanes(true, front_up, back_up), lanes(false, front_up, back_up));
        let (first, second) =
            (_mm512_setr_epi64(0, 1, 2, 3, 8, 9, 10, 11), _mm512_setr_epi64(4, 5, 6, 7, 12, 13, 14, 15));
        [
            _mm512_permutex2var_epi64(x0, first, y0),
            _mm512_permutex2var_epi64(x0, second, y0),
            _mm512_permutex2var_epi64(x1, first, y1),
            _mm512_permutex2var_epi64(x1, second, y1),
        ]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Level;

    /// Rows of four dwords at every level: dword k of lane i is `4 * i + k`, and comes back to its place.
    fn rows<const N: usize, const L: u8>() {
        let bytes: Vec<u8> = (0..64 * N as u32).flat_map(u32::to_le_bytes).collect();
        let (mut registers, mut back) = ([Vreg([0; 64]); N], vec![0_u8; bytes.len()]);
        // SAFETY: the sizes are those of the registers; callers name levels that the host has.
        unsafe {
            load_rows::<N, L>(bytes.as_ptr(), registers.as_mut_ptr());
            store_rows::<N, L>(back.as_mut_ptr(), registers.as_ptr());
        }
        for lane in 0..64 {
            for (k, register) in registers.iter().enumerate() {
                assert_eq!(register.0[lane] as usize, N * lane + k);
            }
        }
        assert_eq!(back, bytes);
    }

    #[test]
    fn rows_of_dwords_land_in_their_lanes() {
        rows::<1, { simd::BASE }>();
        rows::<2, { simd::BASE }>();
        rows::<3, { simd::BASE }>();
        rows::<4, { simd::BASE }>();
        if Level::detect() == Level::V4 {
            rows::<2, { simd::V4 }>();
            rows::<4, { simd::V4 }>();
        }
    }
}
