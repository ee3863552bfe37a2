// Device words over compiler builtins: attributes, types, ids, barriers, bit casts, math.
//
// What every kernel of this folder builds on instead of the ROCm headers, so that amdclang++, hipcc, plain clang with the
// AMDGPU target and hiprtc all compile the same source. Device code only. Everything lives in namespace kb: hiprtc brings
// words of its own into the global namespace. Kernels stand in namespace kb too: `using namespace kb` would make `max` and
// others ambiguous there.
#pragma once

#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif

// A device function that is always inlined.
#define KB_DEVICE static __device__ inline __attribute__((always_inline))
// The same inside a class or for templates, where `static` means something else.
#define KB_INLINE __device__ inline __attribute__((always_inline))
// A kernel that runs in workgroups of at most `threads` work-items. Kernels have C names.
#define KB_KERNEL(threads) extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(1, threads))) void
// A kernel that runs in workgroups of exactly `threads` work-items.
#define KB_KERNEL_FIXED(threads) \
    extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(threads, threads))) void

namespace kb {

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using i16 = short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;
using f16 = _Float16;

typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef i32 i32x4 __attribute__((ext_vector_type(4)));
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef f16 f16x4 __attribute__((ext_vector_type(4)));
typedef f16 f16x8 __attribute__((ext_vector_type(8)));

// Lanes of a wave: 64 on GCN and CDNA, 32 as compilers choose it on RDNA.
#if defined(__GFX9__) || defined(__GFX8__)
constexpr u32 wave_size = 64;
#else
constexpr u32 wave_size = 32;
#endif

// ---- Ids. Sizes of the workgroup and the grid are kernel arguments where they vary: reading them through the builtins makes
// the runtime fill hidden arguments.

KB_DEVICE u32 thread_x() { return __builtin_amdgcn_workitem_id_x(); }
KB_DEVICE u32 thread_y() { return __builtin_amdgcn_workitem_id_y(); }
KB_DEVICE u32 thread_z() { return __builtin_amdgcn_workitem_id_z(); }
KB_DEVICE u32 group_x() { return __builtin_amdgcn_workgroup_id_x(); }
KB_DEVICE u32 group_y() { return __builtin_amdgcn_workgroup_id_y(); }
KB_DEVICE u32 group_z() { return __builtin_amdgcn_workgroup_id_z(); }

// Index of the lane in its wave, whatever the workgroup's form.
KB_DEVICE u32 lane_id() {
    u32 low = __builtin_amdgcn_mbcnt_lo(~0u, 0u);
    return wave_size == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, low) : low;
}

// A value that is the same in all lanes, moved to a scalar register.
KB_DEVICE u32 uniform(u32 value) { return __builtin_amdgcn_readfirstlane(value); }

// Index of the wave in a one-dimensional workgroup, in a scalar register.
KB_DEVICE u32 wave_id() { return uniform(thread_x() / wave_size); }

// ---- Barriers.

// All waves of the workgroup have arrived, and see each other's LDS and global writes.
KB_DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// As barrier(), for LDS only where the compiler can say so: global accesses stay in flight across it.
KB_DEVICE void barrier_lds() {
#if __clang_major__ >= 20
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
#else
    barrier();
#endif
}

// ---- Bits.

template <class To, class From>
KB_INLINE To bit_cast(From from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    return __builtin_bit_cast(To, from);
}

KB_DEVICE u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
KB_DEVICE float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }

// Four bytes of high:low (byte 7 is the highest of `high`) chosen by the bytes of `selector`.
KB_DEVICE u32 permute_bytes(u32 high, u32 low, u32 selector) { return __builtin_amdgcn_perm(high, low, selector); }

// ---- Integer arithmetic.

template <class T>
KB_INLINE constexpr T ceil_div(T value, T divisor) {
    return (value + divisor - 1) / divisor;
}

KB_DEVICE u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }
KB_DEVICE u32 max_u32(u32 a, u32 b) { return a > b ? a : b; }

// ---- Math, each one or a few instructions. Errors are those of the hardware: 1 unit in the last place for exp2, log2 and
// reciprocals.

constexpr float log2e = 1.44269504088896340736f;
constexpr float infinity = __builtin_inff();

KB_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KB_DEVICE float abs(float value) { return __builtin_fabsf(value); }
// The larger one; a NaN loses.
KB_DEVICE float max(float a, float b) { return __builtin_fmaxf(a, b); }
KB_DEVICE float min(float a, float b) { return __builtin_fminf(a, b); }
// The middle one of three.
KB_DEVICE float med3(float a, float b, float c) { return __builtin_amdgcn_fmed3f(a, b, c); }
#if __has_builtin(__builtin_amdgcn_exp2f)
KB_DEVICE float exp2(float value) { return __builtin_amdgcn_exp2f(value); }
KB_DEVICE float log2(float value) { return __builtin_amdgcn_logf(value); }
#else
// Compilers before clang 17: the same instruction, with a few more around it for subnormal numbers.
KB_DEVICE float exp2(float value) { return __builtin_exp2f(value); }
KB_DEVICE float log2(float value) { return __builtin_log2f(value); }
#endif
KB_DEVICE float exp(float value) { return exp2(value * log2e); }
KB_DEVICE float rcp(float value) { return __builtin_amdgcn_rcpf(value); }
KB_DEVICE float rsqrt(float value) { return __builtin_amdgcn_rsqf(value); }
// To the nearest whole number, halves to even.
KB_DEVICE float rint(float value) { return __builtin_rintf(value); }

}  // namespace kb
