// Lanes of a wave working together: DPP exchanges, reductions over 4 to 64 lanes, over a wave and over a workgroup.
//
// All lanes of the wave must be active: DPP reads nothing useful from a lane that is not.
#pragma once

#include "device.h"

namespace kb {

// DPP controls that every generation has: they exchange within rows of 16 lanes.
constexpr int dpp_xor1 = 0xB1;         // quad_perm [1,0,3,2]
constexpr int dpp_xor2 = 0x4E;         // quad_perm [2,3,0,1]
constexpr int dpp_half_mirror = 0x141; // lane i of 8 reads lane 7 - i
constexpr int dpp_mirror = 0x140;      // lane i of 16 reads lane 15 - i
// Of gfx8 and gfx9 only: the last lane of a row to the whole next row; lane 31 to lanes 32 to 63.
constexpr int dpp_bcast15 = 0x142;
constexpr int dpp_bcast31 = 0x143;

// `value` of the lane that `control` names. Every lane has such a lane under the exchanges within a row.
template <int control>
KB_INLINE u32 dpp(u32 value) {
    return __builtin_amdgcn_update_dpp(0u, value, control, 0xF, 0xF, true);
}
template <int control>
KB_INLINE float dpp(float value) {
    return float_of(dpp<control>(bits_of(value)));
}

// Reductions: an associative, commutative operation and its neutral element.
struct Sum {
    static constexpr float neutral = 0.0f;
    KB_INLINE static float apply(float a, float b) { return a + b; }
};
struct Max {
    static constexpr float neutral = -infinity;
    KB_INLINE static float apply(float a, float b) { return max(a, b); }
};
// The largest of numbers that are not negative and not NaN: the order of their bits is theirs, and integers need no
// quieting of NaN.
struct MaxMagnitude {
    static constexpr float neutral = 0.0f;
    KB_INLINE static float apply(float a, float b) { return float_of(max_u32(bits_of(a), bits_of(b))); }
};
struct Min {
    static constexpr float neutral = infinity;
    KB_INLINE static float apply(float a, float b) { return min(a, b); }
};

// The value of lane `lane ^ 16`: the other row of each half wave.
KB_DEVICE u32 swap_rows(u32 value) {
#if defined(__GFX9__)
    // ds_swizzle in bit mode: xor mask 0x10, and mask 0x1F.
    return __builtin_amdgcn_ds_swizzle(value, 0x401F);
#else
    return __builtin_amdgcn_permlanex16(value, value, 0x76543210u, 0xFEDCBA98u, false, false);
#endif
}

// The value of lane `source`, any lane of the wave, by way of the LDS crossbar (it takes no LDS).
KB_DEVICE u32 shuffle(u32 value, u32 source) { return __builtin_amdgcn_ds_bpermute(source * 4, value); }
KB_DEVICE float shuffle(float value, u32 source) { return float_of(shuffle(bits_of(value), source)); }
// The value of lane `lane ^ mask`.
KB_DEVICE float shuffle_xor(float value, u32 mask) { return shuffle(value, lane_id() ^ mask); }
KB_DEVICE u32 shuffle_xor(u32 value, u32 mask) { return shuffle(value, lane_id() ^ mask); }

// The value of one lane, the same number in every lane, in a scalar register.
KB_DEVICE u32 read_lane(u32 value, u32 lane) { return __builtin_amdgcn_readlane(value, lane); }
KB_DEVICE float read_lane(float value, u32 lane) { return float_of(read_lane(bits_of(value), lane)); }

// Reduces over aligned runs of `lanes` lanes (1, 2, 4, 8, 16 or 32); every lane of a run gets the result.
template <class Op, u32 lanes>
KB_INLINE float reduce_lanes(float value) {
    static_assert(lanes <= 32 && (lanes & (lanes - 1)) == 0, "runs of 1, 2, 4, 8, 16 or 32 lanes");
    if (lanes >= 2) value = Op::apply(value, dpp<dpp_xor1>(value));
    if (lanes >= 4) value = Op::apply(value, dpp<dpp_xor2>(value));
    if (lanes >= 8) value = Op::apply(value, dpp<dpp_half_mirror>(value));
    if (lanes >= 16) value = Op::apply(value, dpp<dpp_mirror>(value));
    if (lanes >= 32) value = Op::apply(value, float_of(swap_rows(bits_of(value))));
    return value;
}

// As reduce_lanes for a number of lanes that is known when the kernel runs and the same in all of them: 1, 2, 4, 8 or 16.
template <class Op>
KB_INLINE float reduce_lanes(float value, u32 lanes) {
    if (lanes >= 2) value = Op::apply(value, dpp<dpp_xor1>(value));
    if (lanes >= 4) value = Op::apply(value, dpp<dpp_xor2>(value));
    if (lanes >= 8) value = Op::apply(value, dpp<dpp_half_mirror>(value));
    if (lanes >= 16) value = Op::apply(value, dpp<dpp_mirror>(value));
    return value;
}

// Reduces over the wave; every lane gets the result (from a scalar register on gfx9).
template <class Op>
KB_INLINE float reduce_wave(float value) {
    value = reduce_lanes<Op, 16>(value);
#if defined(__GFX9__)
    // Rows 1 and 3 take in the rows before them, then rows 2 and 3 take in lane 31; lane 63 has everything.
    const u32 neutral = bits_of(Op::neutral);
    value = Op::apply(value, float_of(__builtin_amdgcn_update_dpp(neutral, bits_of(value), dpp_bcast15, 0xA, 0xF, false)));
    value = Op::apply(value, float_of(__builtin_amdgcn_update_dpp(neutral, bits_of(value), dpp_bcast31, 0xC, 0xF, false)));
    return read_lane(value, 63);
#else
    return Op::apply(value, float_of(swap_rows(bits_of(value))));
#endif
}

// The smallest of the wave's numbers, in every lane.
KB_DEVICE u32 reduce_wave_min(u32 value) {
    value = min_u32(value, dpp<dpp_xor1>(value));
    value = min_u32(value, dpp<dpp_xor2>(value));
    value = min_u32(value, dpp<dpp_half_mirror>(value));
    value = min_u32(value, dpp<dpp_mirror>(value));
#if defined(__GFX9__)
    value = min_u32(value, __builtin_amdgcn_update_dpp(~0u, value, dpp_bcast15, 0xA, 0xF, false));
    value = min_u32(value, __builtin_amdgcn_update_dpp(~0u, value, dpp_bcast31, 0xC, 0xF, false));
    return read_lane(value, 63);
#else
    return min_u32(value, swap_rows(value));
#endif
}

// One value a wave of the largest workgroup (1024 work-items).
constexpr u32 max_waves = 1024 / wave_size;

// Reduces over a one-dimensional workgroup of `threads` work-items, a multiple of the wave size; every work-item gets the
// result. `scratch` is LDS of max_waves floats that nobody else uses before the next barrier after this call.
template <class Op>
KB_INLINE float reduce_group(float value, u32 threads, float* scratch) {
    value = reduce_wave<Op>(value);
    const u32 waves = threads / wave_size;
    if (waves == 1) return value;
    const u32 lane = lane_id();
    if (lane == 0) scratch[wave_id()] = value;
    barrier_lds();
    value = lane < waves ? scratch[lane] : Op::neutral;
    // As many lanes as there can be waves hold values: 16 of 64, or all of 32.
    return wave_size == 64 ? read_lane(reduce_lanes<Op, 16>(value), 0) : reduce_wave<Op>(value);
}

}  // namespace kb
