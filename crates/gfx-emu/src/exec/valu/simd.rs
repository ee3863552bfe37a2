//! The few things that need the host's instructions by name: blends under a lane mask, masks out of lanes, permutations.

use crate::exec::Vreg;

/// `Level::Base` as a constant parameter.
pub(in crate::exec) const BASE: u8 = 0;
/// `Level::V3`.
pub(in crate::exec) const V3: u8 = 1;
/// `Level::V4`.
pub(in crate::exec) const V4: u8 = 2;

/// Copies the lanes of `from` that `mask` names.
///
/// # Safety
/// `to` points to a register; for `L` above [`BASE`] the host has the features of that level.
#[inline(always)]
pub(in crate::exec) unsafe fn blend<const L: u8>(to: *mut Vreg, from: &Vreg, mask: u64) {
    #[cfg(target_arch = "x86_64")]
    if L == V4 {
        use std::arch::x86_64::{_mm512_load_si512, _mm512_mask_store_epi32};
        for part in 0..4 {
            // SAFETY: registers are 64 lanes of 4 bytes, aligned to 64; the caller vouches for `to` and the features.
            unsafe {
                let source = _mm512_load_si512(from.0.as_ptr().add(16 * part).cast());
                _mm512_mask_store_epi32(to.cast::<i32>().add(16 * part), (mask >> (16 * part)) as u16, source);
            }
        }
        return;
    }
    for lane in 0..64 {
        // SAFETY: `to` points to a register.
        let slot = unsafe { &mut (*to).0[lane] };
        let keep = (((mask >> lane) & 1) as u32).wrapping_sub(1);
        *slot = (*slot & keep) | (from.0[lane] & !keep);
    }
}

/// Lane i becomes lane `from[i]` (below 64).
///
/// # Safety
/// For `L` above [`BASE`] the host has the features of that level.
#[inline(always)]
pub(in crate::exec) unsafe fn permute<const L: u8>(lanes: &mut Vreg, from: &[u8; 64]) {
    let old = *lanes;
    #[cfg(target_arch = "x86_64")]
    if L == V4 {
        use std::arch::x86_64::{
            _mm_loadu_si128, _mm512_cvtepu8_epi32, _mm512_load_si512, _mm512_mask_blend_epi32,
            _mm512_permutex2var_epi32, _mm512_set1_epi32, _mm512_store_si512, _mm512_test_epi32_mask,
        };
        // SAFETY: as in `blend`; 16 indices are behind each quarter of `from`.
        unsafe {
            let table = |part: usize| _mm512_load_si512(old.0.as_ptr().add(16 * part).cast());
            let tables = [table(0), table(1), table(2), table(3)];
            for part in 0..4 {
                let index = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().add(16 * part).cast()));
                let low = _mm512_permutex2var_epi32(tables[0], index, tables[1]);
                let high = _mm512_permutex2var_epi32(tables[2], index, tables[3]);
                let upper = _mm512_test_epi32_mask(index, _mm512_set1_epi32(32));
                let picked = _mm512_mask_blend_epi32(upper, low, high);
                _mm512_store_si512(lanes.0.as_mut_ptr().add(16 * part).cast(), picked);
            }
        }
        return;
    }
    for lane in 0..64 {
        lanes.0[lane] = old.0[usize::from(from[lane] & 63)];
    }
}

/// Bit i: lane i of `codes` has a bit of `test` set.
///
/// # Safety
/// For `L` above [`BASE`] the host has the features of that level.
#[inline(always)]
pub(super) unsafe fn test<const L: u8>(codes: &Vreg, test: u32) -> u64 {
    let mut mask = 0u64;
    #[cfg(target_arch = "x86_64")]
    if L == V4 {
        use std::arch::x86_64::{_mm512_load_si512, _mm512_set1_epi32, _mm512_test_epi32_mask};
        for part in 0..4 {
            // SAFETY: as in `blend`.
            let bits = unsafe {
                let lanes = _mm512_load_si512(codes.0.as_ptr().add(16 * part).cast());
                _mm512_test_epi32_mask(lanes, _mm512_set1_epi32(test as i32))
            };
            mask |= u64::from(bits) << (16 * part);
        }
        return mask;
    }
    #[cfg(target_arch = "x86_64")]
    if L == V3 {
        use std::arch::x86_64::{
            _mm256_and_si256, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_load_si256, _mm256_movemask_ps,
            _mm256_set1_epi32, _mm256_setzero_si256,
        };
        for part in 0..8 {
            // SAFETY: as in `blend`.
            let clear = unsafe {
                let lanes = _mm256_load_si256(codes.0.as_ptr().add(8 * part).cast());
                let hit = _mm256_and_si256(lanes, _mm256_set1_epi32(test as i32));
                _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(hit, _mm256_setzero_si256())))
            };
            mask |= u64::from(!clear as u8) << (8 * part);
        }
        return mask;
    }
    for lane in 0..64 {
        mask |= u64::from(codes.0[lane] & test != 0) << lane;
    }
    mask
}

/// Lane i is `set` where bit i of the mask is set, else 0.
#[inline(always)]
pub(super) fn spread(mask: u64, set: u32, to: &mut Vreg) {
    for half in 0..2 {
        let bits = (mask >> (32 * half)) as u32;
        for lane in 0..32 {
            to.0[32 * half + lane] = if bits & (1 << lane) != 0 { set } else { 0 };
        }
    }
}
