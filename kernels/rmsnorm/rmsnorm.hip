// Root-mean-square norm of rows: y = s · weight / √(mean(s²) + eps) with s = x, or s = x + residual (`add`), in which case
// s rounded to x's type replaces the residual while the norm uses the unrounded s. The output may be quantised.
//
// Three forms:
// - `r16`, `r32`: short rows (the heads of a query), 16 or 32 lanes a row, 256 work-items a workgroup, no LDS.
// - `v1`, `v2`, `v4`: one workgroup a row that stays in registers, 1, 2 or 4 chunks of eight elements a work-item; `hidden`
//   is a multiple of eight. Everything is read once, in 16-byte accesses, before the first reduction.
// - `general`: any size and any types, by element; it reads the row two or three times, from cache after the first.
//
// Quantisation per run of `group` elements takes group / 8 neighbouring lanes a run (8 to 128 elements, a power of two).

#include "../include/dynamic.h"
#include "../include/quant.h"

namespace kb {

struct Shape {
    u32 rows;
    u32 hidden;
    // Work-items of a workgroup.
    u32 threads;
    // Lanes that share a scale when quantising by groups.
    u32 group_lanes;
    float inverse_hidden;
    float eps;
};

template <class X, class W, class Out>
struct Tensors {
    const X* __restrict__ x;
    X* __restrict__ residual;
    const W* __restrict__ weight;
    Out* __restrict__ out;
    float* __restrict__ scale;
};

KB_DEVICE float sum_of_squares(f32x8 v) {
    float sum = v[0] * v[0];
#pragma unroll
    for (u32 element = 1; element < 8; ++element) sum = fma(v[element], v[element], sum);
    return sum;
}

// A row in the registers of a workgroup.
template <class X, class W, class Out, bool add, Quant quant, u32 chunks>
KB_INLINE void norm_row(Tensors<X, W, Out> t, Shape shape) {
    __shared__ float scratch[2 * max_waves];
    const u32 thread = thread_x();
    const u32 row = group_x();
    const u32 row_chunks = shape.hidden / 8;
    const X* x = t.x + u64(row) * shape.hidden;
    X* residual = t.residual + u64(row) * shape.hidden;

    raw8<X> raw_x[chunks] = {}, raw_residual[chunks] = {};
    raw8<W> raw_weight[chunks] = {};
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        const u32 chunk = thread + i * shape.threads;
        if (chunk < row_chunks) {
            raw_x[i] = load_raw8(x + chunk * 8);
            if (add) raw_residual[i] = load_raw8(residual + chunk * 8);
            raw_weight[i] = load_raw8(t.weight + chunk * 8);
        }
    }

    f32x8 values[chunks];
    float squares = 0.0f;
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        values[i] = decode8(raw_x[i]);
        if (add) values[i] += decode8(raw_residual[i]);
        squares += sum_of_squares(values[i]);
    }
    if (add) {
#pragma unroll
        for (u32 i = 0; i < chunks; ++i) {
            const u32 chunk = thread + i * shape.threads;
            if (chunk < row_chunks) store8(residual + chunk * 8, values[i]);
        }
    }
    squares = reduce_group<Sum>(squares, shape.threads, scratch);
    const float inverse = rsqrt(fma(squares, shape.inverse_hidden, shape.eps));
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) values[i] = values[i] * inverse * decode8(raw_weight[i]);

    Out* out = t.out + u64(row) * shape.hidden;
    float multiplier = 1.0f;
    if constexpr (quant == Quant::token) {
        float largest = 0.0f;
#pragma unroll
        for (u32 i = 0; i < chunks; ++i) largest = max(largest, largest_magnitude(values[i]));
        largest = reduce_group<MaxMagnitude>(largest, shape.threads, scratch + max_waves);
        const float scale = largest * (1.0f / Out::largest);
        multiplier = inverse_of(scale);
        if (thread == 0) t.scale[row] = scale;
    }
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        const u32 chunk = thread + i * shape.threads;
        if constexpr (quant == Quant::group) {
            const float largest = reduce_lanes<MaxMagnitude>(largest_magnitude(values[i]), shape.group_lanes);
            const float scale = largest * (1.0f / Out::largest);
            multiplier = inverse_of(scale);
            // Runs are aligned to a power of two of lanes, and rows are whole runs.
            if (chunk < row_chunks && (chunk & (shape.group_lanes - 1)) == 0) {
                const u32 shift = __builtin_ctz(shape.group_lanes);
                t.scale[u64(row) * (row_chunks >> shift) + (chunk >> shift)] = scale;
            }
        }
        if (chunk < row_chunks) {
            if constexpr (quant == Quant::none) {
                store8(out + chunk * 8, values[i]);
            } else {
                store8(out + chunk * 8, values[i] * multiplier);
            }
        }
    }
}

// Short rows: `lanes` lanes a row.
template <class X, class W, bool add, u32 lanes>
KB_INLINE void norm_short_rows(Tensors<X, W, X> t, Shape shape) {
    const u32 thread = thread_x();
    const u32 row = group_x() * (256 / lanes) + thread / lanes;
    const u32 column = thread % lanes * 8;
    const bool inside = row < shape.rows && column < shape.hidden;
    const u64 at = u64(row) * shape.hidden + column;

    raw8<X> raw_x = {}, raw_residual = {};
    raw8<W> raw_weight = {};
    if (inside) {
        raw_x = load_raw8(t.x + at);
        if (add) raw_residual = load_raw8(t.residual + at);
        raw_weight = load_raw8(t.weight + column);
    }
    f32x8 values = decode8(raw_x);
    if (add) values += decode8(raw_residual);
    const float squares = reduce_lanes<Sum, lanes>(sum_of_squares(values));
    const float inverse = rsqrt(fma(squares, shape.inverse_hidden, shape.eps));
    if (inside) {
        if (add) store8(t.residual + at, values);
        store8(t.out + at, values * inverse * decode8(raw_weight));
    }
}

// ---- Kernels. `rows` and `threads` are arguments, so that no kernel needs the runtime's hidden ones.

#define ARGUMENTS(X, W, Out)                                                                                             \
    (const X *__restrict__ x, X *__restrict__ residual, const W *__restrict__ weight, Out *__restrict__ out,              \
     float *__restrict__ scale, u32 rows, u32 hidden, u32 threads, u32 group_lanes, float inverse_hidden, float eps)
#define TENSORS(X, W, Out) Tensors<X, W, Out>{x, residual, weight, out, scale}
#define SHAPE Shape{rows, hidden, threads, group_lanes, inverse_hidden, eps}

#define ROW(name, X, W, Out, add, quant, chunks, most)                                                                   \
    KB_KERNEL(most) kb_rmsnorm_##name ARGUMENTS(X, W, Out) {                                                              \
        norm_row<X, W, Out, add, quant, chunks>(TENSORS(X, W, Out), SHAPE);                                              \
    }
#define SHORT_ROWS(name, X, W, add, lanes)                                                                               \
    KB_KERNEL_FIXED(256) kb_rmsnorm_##name ARGUMENTS(X, W, X) {                                                           \
        norm_short_rows<X, W, add, lanes>(TENSORS(X, W, X), SHAPE);                                                      \
    }
#define ROWS(name, X, W, Out, add, quant)                                                                                \
    ROW(name##_v1, X, W, Out, add, quant, 1, 256)                                                                        \
    ROW(name##_v2, X, W, Out, add, quant, 2, 256)                                                                        \
    ROW(name##_v4, X, W, Out, add, quant, 4, 1024)
#define PLAIN(name, X, W)                                                                                                \
    ROWS(name, X, W, X, false, Quant::none)                                                                              \
    ROWS(name##_add, X, W, X, true, Quant::none)                                                                         \
    SHORT_ROWS(name##_r16, X, W, false, 16)                                                                              \
    SHORT_ROWS(name##_r32, X, W, false, 32)                                                                              \
    SHORT_ROWS(name##_add_r16, X, W, true, 16)                                                                           \
    SHORT_ROWS(name##_add_r32, X, W, true, 32)
#define QUANTISED(name, X, W, Out)                                                                                       \
    ROWS(name##_token, X, W, Out, false, Quant::token)                                                                   \
    ROWS(name##_add_token, X, W, Out, true, Quant::token)                                                                \
    ROWS(name##_group, X, W, Out, false, Quant::group)                                                                   \
    ROWS(name##_add_group, X, W, Out, true, Quant::group)

PLAIN(bf16, bf16, bf16)
PLAIN(bf16_w32, bf16, float)
PLAIN(f16, f16, f16)
PLAIN(f32, float, float)
QUANTISED(bf16_fp8, bf16, bf16, fp8)
QUANTISED(bf16_i8, bf16, bf16, int8)
QUANTISED(f16_fp8, f16, f16, fp8)
QUANTISED(f16_i8, f16, f16, int8)

// Any size, any types. quant: 0 none, 1 one scale a row, 2 one a run of `group` elements.
KB_KERNEL_FIXED(256)
kb_rmsnorm_general(const void* __restrict__ x, void* __restrict__ residual, const void* __restrict__ weight,
                   void* __restrict__ out, float* __restrict__ scale, u32 hidden, u32 group, u32 quant, u32 x_kind,
                   u32 weight_kind, u32 out_kind, float inverse_hidden, float eps) {
    __shared__ float scratch[2 * max_waves];
    constexpr u32 threads = 256;
    const u32 thread = thread_x();
    const u64 row = group_x();
    const bool add = residual != nullptr;
    const auto sum = [&](u32 column) {
        const float value = load_float(x, row * hidden + column, x_kind);
        return add ? value + load_float(residual, row * hidden + column, x_kind) : value;
    };
    float squares = 0.0f;
    for (u32 column = thread; column < hidden; column += threads) {
        const float value = sum(column);
        squares = fma(value, value, squares);
    }
    squares = reduce_group<Sum>(squares, threads, scratch);
    const float inverse = rsqrt(fma(squares, inverse_hidden, eps));
    const auto normed = [&](u32 column) { return sum(column) * inverse * load_float(weight, column, weight_kind); };
    // The residual is overwritten where it is read for the last time.
    const auto finish = [&](u32 column, float multiplier) {
        const float value = sum(column);
        if (add) store_any(residual, row * hidden + column, x_kind, value);
        const float result = value * inverse * load_float(weight, column, weight_kind);
        store_any(out, row * hidden + column, out_kind, quant == 0 ? result : result * multiplier);
    };

    if (quant == 2) {
        // A wave a run.
        for (u32 run = wave_id(); run * group < hidden; run += threads / wave_size) {
            float largest = 0.0f;
            for (u32 i = lane_id(); i < group; i += wave_size) largest = max(largest, abs(normed(run * group + i)));
            const float run_scale = reduce_wave<MaxMagnitude>(largest) / largest_of(out_kind);
            if (lane_id() == 0) scale[row * (hidden / group) + run] = run_scale;
            const float multiplier = inverse_of(run_scale);
            for (u32 i = lane_id(); i < group; i += wave_size) finish(run * group + i, multiplier);
        }
        return;
    }
    float multiplier = 1.0f;
    if (quant == 1) {
        float largest = 0.0f;
        for (u32 column = thread; column < hidden; column += threads) largest = max(largest, abs(normed(column)));
        const float row_scale = reduce_group<MaxMagnitude>(largest, threads, scratch + max_waves) / largest_of(out_kind);
        if (thread == 0) scale[row] = row_scale;
        multiplier = inverse_of(row_scale);
    }
    for (u32 column = thread; column < hidden; column += threads) finish(column, multiplier);
}

}  // namespace kb
