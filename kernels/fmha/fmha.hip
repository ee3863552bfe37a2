// fmha: prefill attention, out = softmax(scale · q kᵀ) v over the keys that a query sees, with online softmax in f32.
//
// A workgroup of four waves takes 128 queries of one head; keys come in tiles of 64 through LDS, and while a tile is computed the
// next is on its way to registers. A wave has 32 queries as two blocks of 16 columns: scores are computed as K·Qᵀ, so that a lane
// holds scores of one query (column l % 16), and four keys in a row of the result are, rounded, an operand of Vᵀ·Pᵀ as they
// stand. Running maximum, sum and the output's factor belong to a lane and need no exchange but the two steps that join the four
// lanes of a query.
//
// Dense sequences [batch, ...] and packed ones (`cu_seqlens_*` not null); causal masks are aligned to the bottom right.
#include "../include/mfma.h"
#include "../include/wave.h"

namespace kb {

constexpr u32 fmha_queries = 128;  // of a workgroup
constexpr u32 fmha_keys = 64;      // of a tile
constexpr u32 fmha_threads = 256;

// What a kernel is called with. Strides in elements: of sequences (0 when packed), tokens and heads. `group`: query heads of a
// key/value head. `tiles`: workgroups along x. `window`: keys that a query sees at most, 0 for all. `scale` includes log2(e).
struct Fmha {
    u16* out;
    const u16* q;
    const u16* k;
    const u16* v;
    const i32* cu_seqlens_q;
    const i32* cu_seqlens_k;
    u32 batch, q_len, kv_len, group, tiles, causal, window;
    float scale;
    u32 q_token, k_token, v_token, out_token;
    u64 q_batch, q_head, k_batch, k_head, v_batch, v_head, out_batch, out_head;
};

// Moves to the sequence of this workgroup and gives its first query. Late tiles, which see the most keys, go first.
//
// Packed sequences: sequence s owns the tiles from cu_seqlens_q[s] / 128 + s on, which are enough for its queries, so that
// Σ q_len / 128 + batch tiles cover all sequences. A tile may lie beyond its sequence's queries.
KB_DEVICE u32 find_sequence(Fmha& f) {
    const u32 slot = f.tiles - 1 - group_x();
    if (f.cu_seqlens_q == nullptr) {
        const u64 sequence = group_z();
        f.q += sequence * f.q_batch;
        f.k += sequence * f.k_batch;
        f.v += sequence * f.v_batch;
        f.out += sequence * f.out_batch;
        return slot * fmha_queries;
    }
    u32 low = 0, high = f.batch;
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (u32(f.cu_seqlens_q[middle]) / fmha_queries + middle <= slot) low = middle;
        else high = middle;
    }
    const u32 q_start = u32(f.cu_seqlens_q[low]), k_start = u32(f.cu_seqlens_k[low]);
    f.q_len = u32(f.cu_seqlens_q[low + 1]) - q_start;
    f.kv_len = u32(f.cu_seqlens_k[low + 1]) - k_start;
    f.q += u64(q_start) * f.q_token;
    f.out += u64(q_start) * f.out_token;
    f.k += u64(k_start) * f.k_token;
    f.v += u64(k_start) * f.v_token;
    return (slot - (q_start / fmha_queries + low)) * fmha_queries;
}

// A range of keys.
struct KeyRange {
    i32 begin, end;
};

// The keys that query `index` sees.
KB_DEVICE KeyRange visible(const Fmha& f, i32 index) {
    const i32 length = i32(f.kv_len);
    i32 end = length;
    if (f.causal) {
        end = length - i32(f.q_len) + index + 1;
        end = end < 0 ? 0 : end > length ? length : end;
    }
    const i32 begin = f.window != 0 && end > i32(f.window) ? end - i32(f.window) : 0;
    return KeyRange{begin, end};
}

// Keys as they lie, one row of dqk elements a key. Chunk c (16 bytes) of a row stands at c ^ (bits 0, 1 and 3 of the row): those
// are the bits in which the rows differ that eight lanes of a fragment read.
template <u32 dqk>
struct KeyTile {
    static constexpr u32 chunks = dqk / 8;
    static constexpr u32 passes = fmha_keys * chunks / fmha_threads;
    static constexpr u32 elements = fmha_keys * dqk;

    KB_INLINE static void fetch(Fragment (&values)[passes], const u16* k, u32 stride, u32 first, u32 last) {
#pragma unroll
        for (u32 p = 0; p < passes; ++p) {
            const u32 item = thread_x() + p * fmha_threads;
            values[p] = load16(k + u64(min_u32(first + item / chunks, last)) * stride + item % chunks * 8);
        }
    }
    KB_INLINE static void store(u16* tile, const Fragment (&values)[passes]) {
#pragma unroll
        for (u32 p = 0; p < passes; ++p) {
            const u32 item = thread_x() + p * fmha_threads;
            const u32 row = item / chunks, key = (row & 3) | (row >> 1 & 4);
            store16(tile + row * dqk + 8 * (item % chunks ^ key), values[p]);
        }
    }
    // Elements 32·step + 8·(l / 16) .. of the key that is row l % 16 of half `half` of the 32 keys from 32·pair on.
    KB_INLINE static Fragment read(const u16* tile, u32 pair, u32 half, u32 step) {
        const u32 lane = lane_id(), index = lane % 16;
        const u32 chunk = (4 * step + lane / 16) ^ (index & 7);
        return load16(tile + (32 * pair + joined_row(half, index)) * dqk + 8 * chunk);
    }
};

// Values transposed, one row of 64 keys for each of dv elements. A work-item turns four keys by eight elements. Chunk c of row d
// stands at c ^ (d % 8) ^ (d / 8 % 8).
template <u32 dv>
struct ValueTile {
    static constexpr u32 chunks = dv / 8;
    static constexpr u32 elements = fmha_keys * dv;
    static constexpr u32 workers = fmha_keys / 4 * chunks;
    static_assert(workers <= fmha_threads && workers % 64 == 0, "at most one block a work-item, by whole waves");

    KB_INLINE static void fetch(Fragment (&values)[4], const u16* v, u32 stride, u32 first, u32 last) {
        if (thread_x() >= workers) return;
        const u32 key = first + thread_x() / chunks * 4;
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            values[j] = load16(v + u64(min_u32(key + j, last)) * stride + thread_x() % chunks * 8);
        }
    }
    KB_INLINE static void store(u16* tile, const Fragment (&values)[4]) {
        if (thread_x() >= workers) return;
        const u32 quad = thread_x() / chunks, d = thread_x() % chunks * 8;
#pragma unroll
        for (u32 e = 0; e < 8; ++e) {
            const u32 w = e / 2;
            const u32x2 row = e % 2 == 0
                ? u32x2{pair_low(values[0][w], values[1][w]), pair_low(values[2][w], values[3][w])}
                : u32x2{pair_high(values[0][w], values[1][w]), pair_high(values[2][w], values[3][w])};
            const u32 chunk = quad / 2 ^ e ^ (d / 8 % 8);
            *reinterpret_cast<u32x2*>(tile + (d + e) * fmha_keys + 8 * chunk + quad % 2 * 4) = row;
        }
    }
    // Keys 32·pair + 8·(l / 16) .. of element 16·block + l % 16.
    KB_INLINE static Fragment read(const u16* tile, u32 block, u32 pair) {
        const u32 lane = lane_id(), index = lane % 16;
        const u32 own = lane / 16 ^ (index & 7) ^ (index >> 3);
        return load16(tile + (16 * block + index) * fmha_keys + 8 * (own ^ (4 * pair ^ (2 * block & 6))));
    }
};

// Joins the four lanes that share a query.
template <class Op>
KB_INLINE float over_query(float value) {
    value = Op::apply(value, float_of(swap_rows(bits_of(value))));
    return Op::apply(value, shuffle_xor(value, 32));
}

// Softmax state of a block of 16 queries, one a lane; `sum` is the lane's own part.
struct Softmax {
    float maximum = -infinity;
    float sum = 0.0f;

    // Takes in the scores of 64 keys, turns them to weights against the new maximum, and gives the factor of what was before.
    // Nothing seen yet leaves the maximum at -∞; the weights are then 0.
    KB_INLINE float update(f32x4 (&scores)[4], float scale) {
        float largest = -infinity;
#pragma unroll
        for (u32 t = 0; t < 4; ++t)
            for (u32 r = 0; r < 4; ++r) largest = max(largest, scores[t][r]);
        const float now = max(maximum, over_query<Max>(largest) * scale);
        const float base = now == -infinity ? 0.0f : now;
        const float factor = exp2(maximum - base);
        maximum = now;
        sum *= factor;
#pragma unroll
        for (u32 t = 0; t < 4; ++t) {
#pragma unroll
            for (u32 r = 0; r < 4; ++r) {
                scores[t][r] = exp2(fma(scores[t][r], scale, -base));
                sum += scores[t][r];
            }
        }
        return factor;
    }
};

// One workgroup.
template <class Matrix, u32 dqk, u32 dv>
KB_INLINE void fmha(Fmha f) {
    constexpr u32 steps = dqk / 32, blocks = dv / 16;
    __shared__ u16 keys[KeyTile<dqk>::elements] __attribute__((aligned(16)));
    __shared__ u16 values[ValueTile<dv>::elements] __attribute__((aligned(16)));
    const u32 tile0 = find_sequence(f);
    if (tile0 >= f.q_len) return;
    const u32 head = group_y(), lane = lane_id();
    f.q += head * f.q_head;
    f.out += head * f.out_head;
    f.k += head / f.group * f.k_head;
    f.v += head / f.group * f.v_head;

    const u32 query0 = tile0 + wave_id() * 32;
    u32 query[2];
    KeyRange sees[2];
    Fragment q[2][steps];
#pragma unroll
    for (u32 c = 0; c < 2; ++c) {
        query[c] = query0 + 16 * c + lane % 16;
        const u32 row = min_u32(query[c], f.q_len - 1);
        sees[c] = visible(f, i32(row));
#pragma unroll
        for (u32 s = 0; s < steps; ++s) q[c][s] = load16(f.q + u64(row) * f.q_token + 32 * s + lane / 16 * 8);
    }
    // What all queries of the wave see, and what any query of the workgroup sees.
    const KeyRange first_sees = visible(f, i32(min_u32(query0, f.q_len - 1)));
    const KeyRange last_sees = visible(f, i32(min_u32(query0 + 31, f.q_len - 1)));
    const u32 begin = u32(visible(f, i32(tile0)).begin) / fmha_keys * fmha_keys;
    const u32 end = u32(visible(f, i32(min_u32(tile0 + fmha_queries, f.q_len) - 1)).end);

    Softmax softmax[2];
    f32x4 out[2][blocks];
#pragma unroll
    for (u32 c = 0; c < 2; ++c)
        for (u32 b = 0; b < blocks; ++b) out[c][b] = f32x4{0, 0, 0, 0};

    Fragment next_k[KeyTile<dqk>::passes], next_v[4];
    // Keys beyond the end are read from the last one; their weights are 0.
    const u32 last = f.kv_len - 1;
    if (begin < end) {
        KeyTile<dqk>::fetch(next_k, f.k, f.k_token, begin, last);
        ValueTile<dv>::fetch(next_v, f.v, f.v_token, begin, last);
    }
    for (u32 key0 = begin; key0 < end; key0 += fmha_keys) {
        barrier();
        KeyTile<dqk>::store(keys, next_k);
        ValueTile<dv>::store(values, next_v);
        barrier();
        if (key0 + fmha_keys < end) {
            KeyTile<dqk>::fetch(next_k, f.k, f.k_token, key0 + fmha_keys, last);
            ValueTile<dv>::fetch(next_v, f.v, f.v_token, key0 + fmha_keys, last);
        }
        const i32 tile_begin = i32(key0), tile_end = i32(key0 + fmha_keys);
        if (tile_begin >= last_sees.end || tile_end <= first_sees.begin) continue;

        // Tile t holds half t % 2 of the 32 keys from 32·(t / 2) on.
        f32x4 scores[2][4];
#pragma unroll
        for (u32 t = 0; t < 4; ++t) {
            scores[0][t] = scores[1][t] = f32x4{0, 0, 0, 0};
#pragma unroll
            for (u32 s = 0; s < steps; ++s) {
                const Fragment k = KeyTile<dqk>::read(keys, t / 2, t % 2, s);
                scores[0][t] = Matrix::multiply(k, q[0][s], scores[0][t]);
                scores[1][t] = Matrix::multiply(k, q[1][s], scores[1][t]);
            }
        }
        if (tile_end > first_sees.end || tile_begin < last_sees.begin) {
#pragma unroll
            for (u32 t = 0; t < 4; ++t) {
#pragma unroll
                for (u32 r = 0; r < 4; ++r) {
                    const i32 key = i32(key0 + t / 2 * 32 + lane / 16 * 8 + t % 2 * 4 + r);
#pragma unroll
                    for (u32 c = 0; c < 2; ++c) {
                        const bool seen = key >= sees[c].begin && key < sees[c].end;
                        scores[c][t][r] = seen ? scores[c][t][r] : -infinity;
                    }
                }
            }
        }
        Fragment weights[2][2];
#pragma unroll
        for (u32 c = 0; c < 2; ++c) {
            const float factor = softmax[c].update(scores[c], f.scale);
#pragma unroll
            for (u32 b = 0; b < blocks; ++b) out[c][b] *= factor;
#pragma unroll
            for (u32 p = 0; p < 2; ++p) {
                weights[c][p] =
                    join(Matrix::pack4_weights(scores[c][2 * p]), Matrix::pack4_weights(scores[c][2 * p + 1]));
            }
        }
#pragma unroll
        for (u32 b = 0; b < blocks; ++b) {
#pragma unroll
            for (u32 p = 0; p < 2; ++p) {
                const Fragment v = ValueTile<dv>::read(values, b, p);
                out[0][b] = Matrix::multiply(v, weights[0][p], out[0][b]);
                out[1][b] = Matrix::multiply(v, weights[1][p], out[1][b]);
            }
        }
    }
#pragma unroll
    for (u32 c = 0; c < 2; ++c) {
        const float sum = over_query<Sum>(softmax[c].sum);
        // A query that sees no key gives zeros.
        const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
        if (query[c] >= f.q_len) continue;
        u16* row = f.out + u64(query[c]) * f.out_token + lane / 16 * 4;
#pragma unroll
        for (u32 b = 0; b < blocks; ++b) *reinterpret_cast<u32x2*>(row + 16 * b) = Matrix::pack4(out[c][b] * factor);
    }
}

}  // namespace kb

// `waves`: waves of a SIMD that the kernel is compiled for, what its LDS leaves.
#define KB_FMHA_KERNEL(name, matrix, dqk, dv, waves)                                                                          \
    KB_KERNEL_FIXED(256) __attribute__((amdgpu_waves_per_eu(waves))) kb_fmha_##name(                                          \
        kb::u16* __restrict__ out, const kb::u16* __restrict__ q, const kb::u16* __restrict__ k,                              \
        const kb::u16* __restrict__ v, const kb::i32* __restrict__ cu_seqlens_q, const kb::i32* __restrict__ cu_seqlens_k,    \
        kb::u32 batch, kb::u32 q_len, kb::u32 kv_len, kb::u32 group, kb::u32 tiles, kb::u32 causal, kb::u32 window,           \
        float scale, kb::u32 q_token, kb::u32 k_token, kb::u32 v_token, kb::u32 out_token, kb::u64 q_batch, kb::u64 q_head,   \
        kb::u64 k_batch, kb::u64 k_head, kb::u64 v_batch, kb::u64 v_head, kb::u64 out_batch, kb::u64 out_head) {              \
        kb::fmha<kb::matrix, dqk, dv>(kb::Fmha{out, q, k, v, cu_seqlens_q, cu_seqlens_k, batch, q_len, kv_len, group, tiles,  \
                                               causal, window, scale, q_token, k_token, v_token, out_token, q_batch, q_head,  \
                                               k_batch, k_head, v_batch, v_head, out_batch, out_head});                       \
    }

KB_FMHA_KERNEL(hd64_bf16, MatrixBf16, 64, 64, 2)
KB_FMHA_KERNEL(hd64_f16, MatrixF16, 64, 64, 2)
KB_FMHA_KERNEL(hd128_bf16, MatrixBf16, 128, 128, 2)
KB_FMHA_KERNEL(hd128_f16, MatrixF16, 128, 128, 2)
KB_FMHA_KERNEL(hd192_hd128_bf16, MatrixBf16, 192, 128, 1)
KB_FMHA_KERNEL(hd192_hd128_f16, MatrixF16, 192, 128, 1)
