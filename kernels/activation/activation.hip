// Activations: silu, gelu or tanh-gelu of each element, by default gated, that is multiplied with the second half of the row
// (x is [rows, 2·hidden], gate then up). The output may be quantised.
//
// - plain and `group`: one chunk of eight elements a work-item; nothing is shared but the scale of a run of lanes.
// - `token_v1`, `token_v2`, `token_v4`: one workgroup a row, 1, 2 or 4 chunks a work-item, held in registers between the two
//   passes that a scale of the whole row needs.
// - `general`: any size, any types, by element.

#include "../include/dynamic.h"
#include "../include/quant.h"

namespace kb {

// In this order in launch rules too.
enum class Act : u32 { silu, gelu, gelu_tanh };

// x / (1 + e^-x)
KB_DEVICE float silu(float x) { return x * rcp(1.0f + exp2(-log2e * x)); }

// x/2 · (1 + erf(x/√2)), erf by Abramowitz and Stegun 7.1.26 (absolute error below 1.5e-7).
KB_DEVICE float gelu(float x) {
    const float z = abs(x) * 0.70710678f;
    const float t = rcp(fma(0.3275911f, z, 1.0f));
    float series = fma(t, 1.061405429f, -1.453152027f);
    series = fma(t, series, 1.421413741f);
    series = fma(t, series, -0.284496736f);
    series = t * fma(t, series, 0.254829592f);
    const float tail = 0.5f * series * exp2(-log2e * z * z);
    return x * (x < 0.0f ? tail : 1.0f - tail);
}

// x/2 · (1 + tanh(y)) = x / (1 + e^-2y) with y = √(2/π) · (x + 0.044715·x³)
KB_DEVICE float gelu_tanh(float x) {
    constexpr float slope = -2.0f * log2e * 0.7978845608f;
    const float y = x * fma(0.044715f * x, x, 1.0f);
    return x * rcp(1.0f + exp2(slope * y));
}

template <Act act>
KB_INLINE float activate(float x) {
    return act == Act::silu ? silu(x) : act == Act::gelu ? gelu(x) : gelu_tanh(x);
}

template <Act act, bool mul>
KB_INLINE f32x8 activate(f32x8 gate, f32x8 up) {
    f32x8 result;
#pragma unroll
    for (u32 element = 0; element < 8; ++element) {
        result[element] = activate<act>(gate[element]);
        if (mul) result[element] *= up[element];
    }
    return result;
}

template <class X, Act act, bool mul>
KB_INLINE void plain(const X* __restrict__ x, X* __restrict__ out, u32 hidden, u32 threads) {
    const u64 row = group_x();
    const u32 column = (group_y() * threads + thread_x()) * 8;
    if (column >= hidden) return;
    const X* gate = x + row * hidden * (mul ? 2 : 1);
    const raw8<X> raw_gate = load_raw8(gate + column);
    raw8<X> raw_up = {};
    if (mul) raw_up = load_raw8(gate + hidden + column);
    store8(out + row * hidden + column, activate<act, mul>(decode8(raw_gate), decode8(raw_up)));
}

template <class X, class Out, Act act>
KB_INLINE void by_group(const X* __restrict__ x, Out* __restrict__ out, float* __restrict__ scale, u32 hidden, u32 threads,
                        u32 group_lanes) {
    const u64 row = group_x();
    const u32 chunk = group_y() * threads + thread_x();
    const bool inside = chunk * 8 < hidden;
    const X* gate = x + row * hidden * 2;
    raw8<X> raw_gate = {}, raw_up = {};
    if (inside) {
        raw_gate = load_raw8(gate + chunk * 8);
        raw_up = load_raw8(gate + hidden + chunk * 8);
    }
    const f32x8 values = activate<act, true>(decode8(raw_gate), decode8(raw_up));
    // Lanes beyond the row take part: the exchange needs all of them.
    const float run_scale =
        reduce_lanes<MaxMagnitude>(largest_magnitude(values), group_lanes) * (1.0f / Out::largest);
    if (!inside) return;
    store8(out + row * hidden + chunk * 8, values * inverse_of(run_scale));
    if ((chunk & (group_lanes - 1)) == 0) {
        const u32 shift = __builtin_ctz(group_lanes);
        scale[row * (hidden / 8 >> shift) + (chunk >> shift)] = run_scale;
    }
}

template <class X, class Out, Act act, u32 chunks>
KB_INLINE void by_token(const X* __restrict__ x, Out* __restrict__ out, float* __restrict__ scale, u32 hidden, u32 threads) {
    __shared__ float scratch[max_waves];
    const u32 thread = thread_x();
    const u64 row = group_x();
    const X* gate = x + row * hidden * 2;
    raw8<X> raw_gate[chunks] = {}, raw_up[chunks] = {};
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        const u32 column = (thread + i * threads) * 8;
        if (column < hidden) {
            raw_gate[i] = load_raw8(gate + column);
            raw_up[i] = load_raw8(gate + hidden + column);
        }
    }
    f32x8 values[chunks];
    float largest = 0.0f;
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        values[i] = activate<act, true>(decode8(raw_gate[i]), decode8(raw_up[i]));
        largest = max(largest, largest_magnitude(values[i]));
    }
    const float row_scale = reduce_group<MaxMagnitude>(largest, threads, scratch) * (1.0f / Out::largest);
    const float multiplier = inverse_of(row_scale);
    if (thread == 0) scale[row] = row_scale;
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        const u32 column = (thread + i * threads) * 8;
        if (column < hidden) store8(out + row * hidden + column, values[i] * multiplier);
    }
}

// ---- Kernels

#define PLAIN(name, X, act, mul)                                                                                         \
    KB_KERNEL(256) kb_activation_##name(const X *__restrict__ x, X *__restrict__ out, u32 hidden, u32 threads) {          \
        plain<X, act, mul>(x, out, hidden, threads);                                                                     \
    }
#define GROUP(name, X, Out, act)                                                                                         \
    KB_KERNEL(256) kb_activation_##name##_group(const X *__restrict__ x, Out *__restrict__ out, float *__restrict__ scale,  \
                                                u32 hidden, u32 threads, u32 group_lanes) {                              \
        by_group<X, Out, act>(x, out, scale, hidden, threads, group_lanes);                                              \
    }
#define TOKEN(name, X, Out, act, chunks, most)                                                                           \
    KB_KERNEL(most) kb_activation_##name##_token_v##chunks(const X *__restrict__ x, Out *__restrict__ out,                \
                                                           float *__restrict__ scale, u32 hidden, u32 threads) {         \
        by_token<X, Out, act, chunks>(x, out, scale, hidden, threads);                                                   \
    }
#define QUANTISED(name, X, Out, act)                                                                                     \
    GROUP(name, X, Out, act)                                                                                             \
    TOKEN(name, X, Out, act, 1, 256)                                                                                     \
    TOKEN(name, X, Out, act, 2, 256)                                                                                     \
    TOKEN(name, X, Out, act, 4, 1024)
#define ACTS(macro, name, ...)                                                                                           \
    macro(name##_silu, __VA_ARGS__, Act::silu) macro(name##_gelu, __VA_ARGS__, Act::gelu)                                \
        macro(name##_gelu_tanh, __VA_ARGS__, Act::gelu_tanh)
#define GATED(name, X, act) PLAIN(name##_mul, X, act, true)
#define UNGATED(name, X, act) PLAIN(name, X, act, false)

ACTS(GATED, bf16, bf16)
ACTS(GATED, f16, f16)
ACTS(GATED, f32, float)
ACTS(UNGATED, bf16, bf16)
ACTS(UNGATED, f16, f16)
ACTS(UNGATED, f32, float)
ACTS(QUANTISED, bf16_fp8, bf16, fp8)
ACTS(QUANTISED, bf16_i8, bf16, int8)
ACTS(QUANTISED, f16_fp8, f16, fp8)
ACTS(QUANTISED, f16_i8, f16, int8)

// Any size, any types. quant: 0 none, 1 one scale a row, 2 one a run of `group` elements.
KB_KERNEL_FIXED(256)
kb_activation_general(const void* __restrict__ x, void* __restrict__ out, float* __restrict__ scale, u32 hidden, u32 group,
                      u32 quant, u32 act, u32 mul, u32 x_kind, u32 out_kind) {
    __shared__ float scratch[max_waves];
    constexpr u32 threads = 256;
    const u32 thread = thread_x();
    const u64 row = group_x();
    const auto value_at = [&](u32 column) {
        const u64 at = row * hidden * (mul != 0 ? 2 : 1) + column;
        const float gate = load_float(x, at, x_kind);
        const float value = act == u32(Act::silu) ? silu(gate) : act == u32(Act::gelu) ? gelu(gate) : gelu_tanh(gate);
        return mul != 0 ? value * load_float(x, at + hidden, x_kind) : value;
    };
    if (quant == 2) {
        // A wave a run.
        for (u32 run = wave_id(); run * group < hidden; run += threads / wave_size) {
            float largest = 0.0f;
            for (u32 i = lane_id(); i < group; i += wave_size) largest = max(largest, abs(value_at(run * group + i)));
            const float run_scale = reduce_wave<MaxMagnitude>(largest) / largest_of(out_kind);
            if (lane_id() == 0) scale[row * (hidden / group) + run] = run_scale;
            const float multiplier = inverse_of(run_scale);
            for (u32 i = lane_id(); i < group; i += wave_size) {
                const u32 column = run * group + i;
                store_any(out, row * hidden + column, out_kind, value_at(column) * multiplier);
            }
        }
        return;
    }
    float multiplier = 1.0f;
    if (quant == 1) {
        float largest = 0.0f;
        for (u32 column = thread; column < hidden; column += threads) largest = max(largest, abs(value_at(column)));
        const float row_scale = reduce_group<MaxMagnitude>(largest, threads, scratch) / largest_of(out_kind);
        if (thread == 0) scale[row] = row_scale;
        multiplier = inverse_of(row_scale);
    }
    for (u32 column = thread; column < hidden; column += threads) {
        store_any(out, row * hidden + column, out_kind, value_at(column) * multiplier);
    }
}

}  // namespace kb
