// Votes of a wave, lanes that agree, and prefix sums over a wave and over a workgroup.
#pragma once

#include "wave.h"

namespace kb {

// The lanes for which `condition` holds, lane 0 in bit 0; lanes that are not active do not count.
KB_DEVICE u64 lanes_where(bool condition) {
#if defined(__GFX9__) || defined(__GFX8__)
    return __builtin_amdgcn_ballot_w64(condition);
#else
    return __builtin_amdgcn_ballot_w32(condition);
#endif
}

KB_DEVICE u32 first_lane(u64 lanes) { return __builtin_ctzll(lanes); }
KB_DEVICE u32 count_lanes(u64 lanes) { return __builtin_popcountll(lanes); }

// How many of `lanes` come before this one.
KB_DEVICE u32 count_before(u64 lanes) {
    const u32 low = __builtin_amdgcn_mbcnt_lo(u32(lanes), 0u);
    return wave_size == 64 ? __builtin_amdgcn_mbcnt_hi(u32(lanes >> 32), low) : low;
}

// The lanes of `among` whose `value`, a number of `bits` bits, is this lane's: one vote a bit.
KB_DEVICE u64 lanes_with(u32 value, u32 bits, u64 among) {
    u64 same = among;
    for (u32 bit = 0; bit < bits; ++bit) {
        const bool set = (value >> bit) & 1;
        const u64 votes = lanes_where(set);
        same &= set ? votes : ~votes;
    }
    return same;
}

// LDS accesses of the wave before this point are done before those after it: a wave runs its own in order, so that only the
// compiler has to be told.
KB_DEVICE void wave_order() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// The sum of this lane's value and those before it.
KB_DEVICE u32 inclusive_scan_wave(u32 value) {
    const u32 lane = lane_id();
#pragma unroll
    for (u32 distance = 1; distance < wave_size; distance *= 2) {
        const u32 before = shuffle(value, lane - distance);
        value += lane >= distance ? before : 0;
    }
    return value;
}

struct Prefix {
    u32 before; // sum of the values of work-items before this one
    u32 total;  // sum of all
};

// Prefix sums over a one-dimensional workgroup of `threads` work-items, a multiple of the wave size. `scratch` is LDS of
// max_waves words; nobody else uses it between the barriers before and after.
template <u32 threads>
KB_INLINE Prefix scan_group(u32 value, u32* scratch) {
    constexpr u32 waves = threads / wave_size;
    const u32 own = inclusive_scan_wave(value);
    if (lane_id() == wave_size - 1) scratch[wave_id()] = own;
    barrier_lds();
    u32 before = own - value, total = 0;
#pragma unroll
    for (u32 wave = 0; wave < waves; ++wave) {
        const u32 sum = scratch[wave];
        before += wave < wave_id() ? sum : 0;
        total += sum;
    }
    barrier_lds();
    return Prefix{before, total};
}

}  // namespace kb
