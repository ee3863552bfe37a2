// Dynamic quantisation of rows to fp8 or int8: scale = largest magnitude / largest value of the format, out = x / scale.
//
// - `group`: one scale for each run of 8 to 128 elements (a power of two); one chunk of eight elements a work-item, and the
//   lanes of a run find its largest magnitude among themselves.
// - `token_v1`, `token_v2`, `token_v4`: one scale a row; one workgroup a row, which stays in registers.
// - `general`: any size, any types, by element.

#include "../include/dynamic.h"
#include "../include/quant.h"

namespace kb {

// Rows are whole runs, so that the tensor is a sequence of chunks without rows.
template <class X, class Out>
KB_INLINE void by_group(const X* __restrict__ x, Out* __restrict__ out, float* __restrict__ scale, u64 chunks,
                        u32 group_lanes) {
    const u64 chunk = u64(group_x()) * 256 + thread_x();
    const bool inside = chunk < chunks;
    raw8<X> raw = {};
    if (inside) raw = load_raw8(x + chunk * 8);
    const f32x8 values = decode8(raw);
    const float run_scale = reduce_lanes<MaxMagnitude>(largest_magnitude(values), group_lanes) * (1.0f / Out::largest);
    if (!inside) return;
    store8(out + chunk * 8, values * inverse_of(run_scale));
    if ((thread_x() & (group_lanes - 1)) == 0) scale[chunk >> __builtin_ctz(group_lanes)] = run_scale;
}

template <class X, class Out, u32 chunks>
KB_INLINE void by_token(const X* __restrict__ x, Out* __restrict__ out, float* __restrict__ scale, u32 hidden, u32 threads) {
    __shared__ float scratch[max_waves];
    const u32 thread = thread_x();
    const u64 row = group_x();
    raw8<X> raw[chunks] = {};
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        const u32 column = (thread + i * threads) * 8;
        if (column < hidden) raw[i] = load_raw8(x + row * hidden + column);
    }
    float largest = 0.0f;
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) largest = max(largest, largest_magnitude(decode8(raw[i])));
    const float row_scale = reduce_group<MaxMagnitude>(largest, threads, scratch) * (1.0f / Out::largest);
    const float multiplier = inverse_of(row_scale);
    if (thread == 0) scale[row] = row_scale;
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        const u32 column = (thread + i * threads) * 8;
        if (column < hidden) store8(out + row * hidden + column, decode8(raw[i]) * multiplier);
    }
}

// ---- Kernels

#define TOKEN(name, X, Out, chunks, most)                                                                                \
    KB_KERNEL(most) kb_quant_##name##_token_v##chunks(const X *__restrict__ x, Out *__restrict__ out,                     \
                                                      float *__restrict__ scale, u32 hidden, u32 threads) {              \
        by_token<X, Out, chunks>(x, out, scale, hidden, threads);                                                        \
    }
#define QUANT(name, X, Out)                                                                                              \
    KB_KERNEL_FIXED(256)                                                                                                 \
    kb_quant_##name##_group(const X *__restrict__ x, Out *__restrict__ out, float *__restrict__ scale, u64 chunks,        \
                            u32 group_lanes) {                                                                           \
        by_group<X, Out>(x, out, scale, chunks, group_lanes);                                                            \
    }                                                                                                                    \
    TOKEN(name, X, Out, 1, 256)                                                                                          \
    TOKEN(name, X, Out, 2, 256)                                                                                          \
    TOKEN(name, X, Out, 4, 1024)

QUANT(bf16_fp8, bf16, fp8)
QUANT(bf16_i8, bf16, int8)
QUANT(f16_fp8, f16, fp8)
QUANT(f16_i8, f16, int8)
QUANT(f32_fp8, float, fp8)
QUANT(f32_i8, float, int8)

// Any size, any types. `group` is the run that shares a scale, the whole row with quant=per_token.
KB_KERNEL_FIXED(256)
kb_quant_general(const void* __restrict__ x, void* __restrict__ out, float* __restrict__ scale, u32 hidden, u32 group,
                 u32 x_kind, u32 out_kind) {
    __shared__ float scratch[max_waves];
    constexpr u32 threads = 256;
    const u32 thread = thread_x();
    const u64 row = group_x();
    if (group == hidden) {
        float largest = 0.0f;
        for (u32 column = thread; column < hidden; column += threads) {
            largest = max(largest, abs(load_float(x, row * hidden + column, x_kind)));
        }
        const float row_scale = reduce_group<MaxMagnitude>(largest, threads, scratch) / largest_of(out_kind);
        const float multiplier = inverse_of(row_scale);
        if (thread == 0) scale[row] = row_scale;
        for (u32 column = thread; column < hidden; column += threads) {
            const u64 at = row * hidden + column;
            store_any(out, at, out_kind, load_float(x, at, x_kind) * multiplier);
        }
        return;
    }
    // A wave a run.
    for (u32 run = wave_id(); run * group < hidden; run += threads / wave_size) {
        const u64 first = row * hidden + run * group;
        float largest = 0.0f;
        for (u32 i = lane_id(); i < group; i += wave_size) largest = max(largest, abs(load_float(x, first + i, x_kind)));
        const float run_scale = reduce_wave<MaxMagnitude>(largest) / largest_of(out_kind);
        if (lane_id() == 0) scale[row * (hidden / group) + run] = run_scale;
        const float multiplier = inverse_of(run_scale);
        for (u32 i = lane_id(); i < group; i += wave_size) {
            store_any(out, first + i, out_kind, load_float(x, first + i, x_kind) * multiplier);
        }
    }
}

}  // namespace kb
