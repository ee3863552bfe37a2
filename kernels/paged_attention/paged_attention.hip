// paged_attention: one query token a sequence over a key/value cache in pages.
//
// `split`: a workgroup takes a partition of a context for up to 16 query heads of one key/value head. Its four waves take runs of
// 32 keys in turn, straight from the cache to the matrix cores: scores as K·Qᵀ (a column is a query head), the output as Vᵀ·Pᵀ. The
// waves join in LDS. With one partition the result goes to `out`, else the partition's sum of weighted values, maximum and sum of
// weights go to scratch and `reduce` joins them.
//
// Cache layouts: `flash` [page, token, head, element], for which values are turned in registers; `aiter`, keys [page, head, chunk of
// 8 elements, token, 8] and values [page, head, element, token]. Pages hold 2^page_shift tokens, 8 or more.
#include "../include/mfma.h"
#include "../include/wave.h"

namespace kb {

constexpr u32 pa_heads = 16;  // columns
constexpr u32 pa_run = 32;    // keys of a wave at a time
constexpr u32 pa_waves = 4;

// What a kernel is called with. `partial` [batch, q_heads, partitions, dim] and `stats` [batch, q_heads, partitions] (maximum of the
// scaled scores, sum of weights) are scratch. `group`: query heads of a key/value head; `head_tiles` = ⌈group / 16⌉. `table_row`:
// entries of a row of the block table. `partition`: keys, a multiple of 128. `window`: keys that a query sees at most, 0 for all.
// `scale` includes log2(e).
struct PagedAttention {
    u16* out;
    float* partial;
    f32x2* stats;
    const u16* q;
    const u16* k_cache;
    const u16* v_cache;
    const i32* block_table;
    const i32* context_lens;
    u32 q_heads, kv_heads, group, head_tiles, page_shift, table_row, partition, partitions, window;
    float scale;
};

// First key that the query of a context of `length` sees.
KB_DEVICE u32 first_visible(u32 length, u32 window) { return window != 0 && length > window ? length - window : 0; }

// Keys and values of one sequence and head. Tokens beyond the context are read as its last one: their weights are 0, and what lies
// there must not be looked at.
template <u32 dim, bool aiter>
struct Cache {
    static constexpr u32 a_lane = dim / 16;  // elements of a value row that a lane turns, and blocks of 16 elements
    const u16* keys;
    const u16* values;
    const i32* table;
    u32 shift, heads, head, last;

    // Place of a token in [page, token] order.
    KB_INLINE u64 page_of(u32 token) const { return u32(table[token >> shift]); }
    KB_INLINE u32 slot_of(u32 token) const { return token & ((1u << shift) - 1); }

    // Elements 32·step + 8·(l / 16) .. of the key that is row l % 16 of half `half` of the run from `token` on.
    KB_INLINE void read_keys(Fragment (&k)[dim / 32], u32 token, u32 half) const {
        const u32 lane = lane_id();
        const u32 own = min_u32(token + joined_row(half, lane % 16), last);
        const u64 page = page_of(own);
        const u32 slot = slot_of(own), chunk = lane / 16;
        if constexpr (aiter) {
            const u16* start = keys + ((((page * heads + head) * (dim / 8) + chunk) << shift) + slot) * 8;
#pragma unroll
            for (u32 s = 0; s < dim / 32; ++s) k[s] = load16(start + (u64(s) << shift) * 32);
        } else {
            const u16* start = keys + (((page << shift) + slot) * heads + head) * dim + 8 * chunk;
#pragma unroll
            for (u32 s = 0; s < dim / 32; ++s) k[s] = load16(start + 32 * s);
        }
    }

    // Of the tokens 8·(l / 16) .. of the run, the element that is row l % 16 of each block: a_lane · row + block where rows of
    // the cache are turned, else 16 · block + row.
    KB_INLINE void read_values(Fragment (&v)[a_lane], u32 token) const {
        const u32 lane = lane_id(), index = lane % 16;
        const u32 wanted = token + lane / 16 * 8;
        const u32 own = min_u32(wanted, last & ~7u);
        const u64 page = page_of(own);
        const u32 slot = slot_of(own);
        if constexpr (aiter) {
            const u16* start = values + (((page * heads + head) * dim + index) << shift) + slot;
#pragma unroll
            for (u32 b = 0; b < a_lane; ++b) v[b] = load16(start + (u64(16 * b) << shift));
            if (token + pa_run > last + 1) clear_beyond(v, wanted);
        } else {
            const u16* start = values + ((page << shift) * heads + head) * dim + a_lane * index;
            u32 rows[8][a_lane / 2];
#pragma unroll
            for (u32 j = 0; j < 8; ++j) {
                const u16* row = start + u64(slot + min_u32(own + j, last) - own) * heads * dim;
                if constexpr (a_lane == 8) {
                    const u32x4 words = load16(row);
#pragma unroll
                    for (u32 w = 0; w < 4; ++w) rows[j][w] = words[w];
                } else {
                    const u32x2 words = *reinterpret_cast<const u32x2*>(row);
#pragma unroll
                    for (u32 w = 0; w < 2; ++w) rows[j][w] = words[w];
                }
            }
#pragma unroll
            for (u32 w = 0; w < a_lane / 2; ++w) {
#pragma unroll
                for (u32 j = 0; j < 4; ++j) {
                    v[2 * w][j] = pair_low(rows[2 * j][w], rows[2 * j + 1][w]);
                    v[2 * w + 1][j] = pair_high(rows[2 * j][w], rows[2 * j + 1][w]);
                }
            }
        }
    }
    // The output is handed over 64 elements at a time, blocks 4·part .. 4·part + 3: position of row `row` of a block among them, and
    // the first element of the four at positions 4·quad ...
    KB_INLINE static u32 position(u32 block, u32 row) { return aiter ? block % 4 * 16 + row : 4 * row + block % 4; }
    KB_INLINE static u32 element(u32 part, u32 quad) { return aiter ? 64 * part + 4 * quad : a_lane * quad + 4 * part; }

  private:
    // Zeros for the tokens of the lane's eight, from `token` on, that lie beyond the context.
    KB_INLINE void clear_beyond(Fragment (&v)[a_lane], u32 token) const {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) {
            const u32 low = token + 2 * j <= last ? 0xFFFFu : 0, high = token + 2 * j + 1 <= last ? 0xFFFF0000u : 0;
#pragma unroll
            for (u32 b = 0; b < a_lane; ++b) v[b][j] &= low | high;
        }
    }
};

// Joins the four lanes that share a column.
template <class Op>
KB_INLINE float over_column(float value) {
    value = Op::apply(value, float_of(swap_rows(bits_of(value))));
    return Op::apply(value, shuffle_xor(value, 32));
}

// exp2(value - base), and 0 where nothing was seen.
KB_DEVICE float weight_of(float value, float base) { return value == -infinity ? 0.0f : exp2(value - base); }

// One partition.
template <class Matrix, u32 dim, bool aiter>
KB_INLINE void paged_attention_split(PagedAttention p) {
    constexpr u32 steps = dim / 32, blocks = dim / 16;
    // Of 64 elements at a time. Rows are padded by 16 bytes, so that heads lie in different banks.
    __shared__ float outputs[pa_waves][pa_heads][64 + 4] __attribute__((aligned(16)));
    __shared__ float maxima[pa_waves][pa_heads], sums[pa_waves][pa_heads];
    const u32 sequence = group_z(), part = group_y(), lane = lane_id(), wave = wave_id();
    const u32 context = u32(p.context_lens[sequence]);
    const u32 first_key = first_visible(context, p.window);
    const u32 part_begin = part * p.partition;
    const u32 part_end = min_u32(part_begin + p.partition, context);
    if (part_begin >= context || part_end <= first_key) return;

    const u32 kv_head = group_x() / p.head_tiles;
    const u32 tile_head = group_x() % p.head_tiles * pa_heads;
    const u32 head0 = kv_head * p.group + tile_head;
    const u32 heads = min_u32(p.group - tile_head, pa_heads);
    const u64 q_row = u64(sequence) * p.q_heads + head0;
    Fragment q[steps];
#pragma unroll
    for (u32 s = 0; s < steps; ++s) {
        q[s] = load16(p.q + (q_row + min_u32(lane % 16, heads - 1)) * dim + 32 * s + lane / 16 * 8);
    }
    const Cache<dim, aiter> cache{p.k_cache,    p.v_cache, p.block_table + u64(sequence) * p.table_row, p.page_shift, p.kv_heads,
                                  kv_head, context - 1};
    float maximum = -infinity, sum = 0.0f;
    f32x4 out[blocks];
#pragma unroll
    for (u32 b = 0; b < blocks; ++b) out[b] = f32x4{0, 0, 0, 0};

    for (u32 token = part_begin + wave * pa_run; token < part_end; token += pa_waves * pa_run) {
        if (token + pa_run <= first_key) continue;
        Fragment k[2][steps], v[blocks];
        cache.read_keys(k[0], token, 0);
        cache.read_keys(k[1], token, 1);
        cache.read_values(v, token);
        f32x4 scores[2];
        float largest = -infinity;
#pragma unroll
        for (u32 t = 0; t < 2; ++t) {
            scores[t] = f32x4{0, 0, 0, 0};
#pragma unroll
            for (u32 s = 0; s < steps; ++s) scores[t] = Matrix::multiply(k[t][s], q[s], scores[t]);
#pragma unroll
            for (u32 r = 0; r < 4; ++r) {
                const u32 key = token + lane / 16 * 8 + 4 * t + r;
                scores[t][r] = key >= first_key && key < part_end ? scores[t][r] : -infinity;
                largest = max(largest, scores[t][r]);
            }
        }
        // Every run has a visible key, so the maximum is finite from here on.
        const float now = max(maximum, over_column<Max>(largest) * p.scale);
        const float factor = exp2(maximum - now);
        maximum = now;
        sum *= factor;
#pragma unroll
        for (u32 t = 0; t < 2; ++t) {
#pragma unroll
            for (u32 r = 0; r < 4; ++r) {
                scores[t][r] = exp2(fma(scores[t][r], p.scale, -now));
                sum += scores[t][r];
            }
        }
        const Fragment weights = join(Matrix::pack4_weights(scores[0]), Matrix::pack4_weights(scores[1]));
#pragma unroll
        for (u32 b = 0; b < blocks; ++b) out[b] = Matrix::multiply(v[b], weights, out[b] * factor);
    }

    sum = over_column<Sum>(sum);
    const u32 column = lane % 16, quad = lane / 16;
    if (quad == 0) {
        maxima[wave][column] = maximum;
        sums[wave][column] = sum;
    }
    #pragma unroll
    for (u32 part64 = 0; part64 < dim / 64; ++part64) {
        if (part64 != 0) barrier();
#pragma unroll
        for (u32 b = 0; b < blocks; ++b) {
            if (b / 4 != part64) continue;
#pragma unroll
            for (u32 r = 0; r < 4; ++r) outputs[wave][column][Cache<dim, aiter>::position(b, 4 * quad + r)] = out[b][r];
        }
        barrier();
        // 16 heads of 16 quads: one a work-item.
        const u32 head = thread_x() / 16, of_head = thread_x() % 16;
        if (head >= heads) continue;
        float base = maxima[0][head];
        for (u32 w = 1; w < pa_waves; ++w) base = max(base, maxima[w][head]);
        float total = 0.0f;
        f32x4 value = {0, 0, 0, 0};
#pragma unroll
        for (u32 w = 0; w < pa_waves; ++w) {
            const float weight = weight_of(maxima[w][head], base);
            total += weight * sums[w][head];
            value += weight * *reinterpret_cast<const f32x4*>(&outputs[w][head][4 * of_head]);
        }
        const u32 d = Cache<dim, aiter>::element(part64, of_head);
        if (p.partitions == 1) {
            *reinterpret_cast<u32x2*>(p.out + (q_row + head) * dim + d) = Matrix::pack4(value * (1.0f / total));
        } else {
            const u64 row = (q_row + head) * p.partitions + part;
            *reinterpret_cast<f32x4*>(p.partial + row * dim + d) = value;
            if (d == 0) p.stats[row] = f32x2{base, total};
        }
    }
}

// Joins the partitions of one query head of one sequence; a work-item has one element.
template <class Matrix>
KB_INLINE void paged_attention_reduce(PagedAttention p, u32 dim) {
    const u32 head = group_x(), sequence = group_y(), d = thread_x();
    const u32 context = u32(p.context_lens[sequence]);
    const u32 begin = first_visible(context, p.window) / p.partition;
    const u32 end = ceil_div(context, p.partition);
    const u64 row = u64(sequence) * p.q_heads + head;
    const f32x2* stats = p.stats + row * p.partitions;
    float base = -infinity;
    for (u32 part = begin; part < end; ++part) base = max(base, stats[part][0]);
    float total = 0.0f, value = 0.0f;
    for (u32 part = begin; part < end; ++part) {
        const float weight = exp2(stats[part][0] - base);
        total += weight * stats[part][1];
        value += weight * p.partial[(row * p.partitions + part) * dim + d];
    }
    p.out[row * dim + d] = Matrix::narrow(value * (1.0f / total));
}

}  // namespace kb

#define KB_PA_ARGS                                                                                                            \
    kb::u16 *__restrict__ out, float *__restrict__ partial, kb::f32x2 *__restrict__ stats, const kb::u16 *__restrict__ q,     \
        const kb::u16 *__restrict__ k_cache, const kb::u16 *__restrict__ v_cache, const kb::i32 *__restrict__ block_table,    \
        const kb::i32 *__restrict__ context_lens, kb::u32 q_heads, kb::u32 kv_heads, kb::u32 group, kb::u32 head_tiles,       \
        kb::u32 page_shift, kb::u32 table_row, kb::u32 partition, kb::u32 partitions, kb::u32 window, float scale
#define KB_PA_CASE                                                                                                            \
    kb::PagedAttention{out, partial, stats, q, k_cache, v_cache, block_table, context_lens, q_heads, kv_heads, group,         \
                       head_tiles, page_shift, table_row, partition, partitions, window, scale}

// `waves`: waves of a SIMD that registers are limited for, as many as LDS leaves room for.
#define KB_PA_KERNELS(dim, dtype, matrix, waves)                                                                              \
    KB_KERNEL_FIXED(256) __attribute__((amdgpu_waves_per_eu(waves)))                                                          \
    kb_paged_attention_split_flash_hd##dim##_##dtype(KB_PA_ARGS) {                                                            \
        kb::paged_attention_split<kb::matrix, dim, false>(KB_PA_CASE);                                                        \
    }                                                                                                                         \
    KB_KERNEL_FIXED(256) __attribute__((amdgpu_waves_per_eu(waves)))                                                          \
    kb_paged_attention_split_aiter_hd##dim##_##dtype(KB_PA_ARGS) {                                                            \
        kb::paged_attention_split<kb::matrix, dim, true>(KB_PA_CASE);                                                         \
    }

#define KB_PA_REDUCE(dtype, matrix)                                                                                           \
    KB_KERNEL(256) kb_paged_attention_reduce_##dtype(KB_PA_ARGS, kb::u32 dim) {                                               \
        kb::paged_attention_reduce<kb::matrix>(KB_PA_CASE, dim);                                                              \
    }

KB_PA_KERNELS(64, bf16, MatrixBf16, 3)
KB_PA_KERNELS(64, f16, MatrixF16, 3)
KB_PA_KERNELS(128, bf16, MatrixBf16, 3)
KB_PA_KERNELS(128, f16, MatrixF16, 3)
KB_PA_REDUCE(bf16, MatrixBf16)
KB_PA_REDUCE(f16, MatrixF16)
