// Rotary position embedding: for each pair (a, b) of a head, (a·cos − b·sin, b·cos + a·sin), with the cosine and sine of the
// token's position from a table. Pairs are (i, i + R/2) in the neox style and (2i, 2i + 1) in the gptj style.
//
// A workgroup takes one token: work-item (x, y) turns pairs of every step-th head, so that it loads its cosines and sines once
// and keeps them in registers. Operands may be results. Table rows are found by position, and may be strided, so that joint and
// split tables are the same to the kernel.
#include "../include/dynamic.h"

namespace kb {

struct Sizes {
    u32 q_heads;
    u32 heads; // of queries and keys together
    u32 head_dim;
    u32 rotary_dim;
    u32 moved_dim; // elements of a head that are written: head_dim, or rotary_dim where operands are results
};

// Index of the first element of a head of a token in q, or in k for heads after q's.
KB_DEVICE u64 head_index(u64 token, u32 head, Sizes sizes) {
    const bool is_q = head < sizes.q_heads;
    const u32 heads = is_q ? sizes.q_heads : sizes.heads - sizes.q_heads;
    return (token * heads + (is_q ? head : head - sizes.q_heads)) * sizes.head_dim;
}

// Eight pairs a work-item: in the neox style eight elements of each half, in the gptj style sixteen neighbours.
template <bool neox, class X, class Table>
KB_INLINE void rotate(const i64* __restrict__ positions, const Table* __restrict__ cosines, const Table* __restrict__ sines,
                      const X* q, const X* k, X* q_out, X* k_out, Sizes sizes, u32 table_stride, u32 group_heads,
                      u32 step) {
    const u64 token = group_x();
    const u64 row = u64(positions[token]) * table_stride;
    const u32 half = sizes.rotary_dim / 2;
    const u32 pair = thread_x() * 8;
    const f32x8 cosine = load8(cosines + row + pair);
    const f32x8 sine = load8(sines + row + pair);
    const u32 first = neox ? pair : 2 * pair;
    const u32 second = neox ? pair + half : first + 8;
    for (u32 head = group_y() * group_heads + thread_y(); head < sizes.heads; head += step) {
        const u64 base = head_index(token, head, sizes);
        const X* const in = (head < sizes.q_heads ? q : k) + base;
        X* const out = (head < sizes.q_heads ? q_out : k_out) + base;
        const f32x8 u = load8(in + first), v = load8(in + second);
        if (neox) {
            store8(out + first, u * cosine - v * sine);
            store8(out + second, v * cosine + u * sine);
        } else {
            const f32x16 pairs = __builtin_shufflevector(u, v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            const f32x8 a = __builtin_shufflevector(pairs, pairs, 0, 2, 4, 6, 8, 10, 12, 14);
            const f32x8 b = __builtin_shufflevector(pairs, pairs, 1, 3, 5, 7, 9, 11, 13, 15);
            const f32x8 x = a * cosine - b * sine, y = b * cosine + a * sine;
            store8(out + first, __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11));
            store8(out + second, __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15));
        }
        for (u32 at = sizes.rotary_dim + pair; at < sizes.moved_dim; at += half) store8(out + at, load8(in + at));
    }
}

#define ROPE_STYLE(name, X, Table, style, neox)                                                                          \
    KB_KERNEL(256)                                                                                                       \
    kb_rope_##name##_##style(const i64 *__restrict__ positions, const Table *__restrict__ cosines,                        \
                             const Table *__restrict__ sines, const X *q, const X *k, X *q_out, X *k_out, u32 q_heads,   \
                             u32 heads, u32 head_dim, u32 rotary_dim, u32 moved_dim, u32 table_stride, u32 group_heads,  \
                             u32 step) {                                                                                 \
        const Sizes sizes = {q_heads, heads, head_dim, rotary_dim, moved_dim};                                           \
        rotate<neox, X, Table>(positions, cosines, sines, q, k, q_out, k_out, sizes, table_stride, group_heads, step);   \
    }
#define ROPE(name, X, Table)                                                                                             \
    ROPE_STYLE(name, X, Table, neox, true)                                                                               \
    ROPE_STYLE(name, X, Table, gptj, false)

ROPE(bf16, bf16, bf16)
ROPE(bf16_t32, bf16, float)
ROPE(f16, f16, f16)
ROPE(f16_t32, f16, float)
ROPE(f32, float, float)

// Any sizes, any types: a pair a work-item at a time.
KB_KERNEL_FIXED(256)
kb_rope_general(const i64* __restrict__ positions, const void* __restrict__ cosines, const void* __restrict__ sines,
                const void* q, const void* k, void* q_out, void* k_out, u32 q_heads, u32 heads, u32 head_dim,
                u32 rotary_dim, u32 moved_dim, u32 table_stride, u32 neox, u32 x_kind, u32 table_kind) {
    constexpr u32 threads = 256;
    const Sizes sizes = {q_heads, heads, head_dim, rotary_dim, moved_dim};
    const u64 token = group_x();
    const u64 row = u64(positions[token]) * table_stride;
    const u32 half = rotary_dim / 2;
    const u32 rest = moved_dim - rotary_dim;
    for (u32 at = thread_x(); at < heads * half; at += threads) {
        const u32 head = at / half, pair = at - head * half;
        const void* const in = head < q_heads ? q : k;
        void* const out = head < q_heads ? q_out : k_out;
        const u64 base = head_index(token, head, sizes);
        const u64 first = base + (neox ? pair : 2 * pair), second = neox ? first + half : first + 1;
        const float cosine = load_float(cosines, row + pair, table_kind), sine = load_float(sines, row + pair, table_kind);
        const float a = load_float(in, first, x_kind), b = load_float(in, second, x_kind);
        store_any(out, first, x_kind, a * cosine - b * sine);
        store_any(out, second, x_kind, b * cosine + a * sine);
    }
    for (u32 at = thread_x(); at < heads * rest; at += threads) {
        const u32 head = at / rest;
        const u64 index = head_index(token, head, sizes) + rotary_dim + (at - head * rest);
        const float value = load_float(head < q_heads ? q : k, index, x_kind);
        store_any(head < q_heads ? q_out : k_out, index, x_kind, value);
    }
}

}  // namespace kb
