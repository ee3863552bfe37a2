// moe_gemm: grouped products of a mixture-of-experts layer over sorted tokens.
//
// `sort` makes the table that the products read: the routed tokens of each expert, expert by expert, each padded to whole blocks
// (a token as choice << 24 | token, padding as topk << 24 | tokens), and the expert of each block. A product then is a dense tile
// product whose activation rows are gathered by that table and whose weights are the block's expert's.
//
// `gate_up` computes act(gate) · up (or act alone when not gated) into [tokens·topk, inter]: gate and up columns of a tile alternate
// in blocks of 16, so that a lane holds both. `down` computes weight · product into scratch [tokens·topk, hidden], and `sum` adds
// the parts of a token in the order of its choices, so that results do not depend on timing.
#include "../include/tile_gemm.h"
#include "../include/wave.h"

namespace kb {

constexpr u32 token_mask = 0xFFFFFF;

// ---- Sorting.

constexpr u32 sort_threads = 1024;
constexpr u32 most_experts = 1024;

// The lanes in which `condition` holds, as bits. (A comparison, 33 is "not equal": compilers before 16 have no ballot.)
KB_DEVICE u64 lanes_where(bool condition) { return __builtin_amdgcn_uicmp(u32(condition), 0u, 33); }

// One workgroup an expert: counts all routed tokens by expert, finds from that where its own go, and writes them in the order of
// token and choice. `blocks` are rows of the products' tiles. The last expert's workgroup writes num_valid: rows with padding, tokens.
KB_DEVICE void moe_sort(u32* sorted, u32* block_experts, u32* num_valid, const i32* topk_ids, u32 tokens, u32 topk, u32 experts,
                        u32 block) {
    __shared__ u32 counts[most_experts];
    __shared__ u32 wave_matches[sort_threads / 64];
    __shared__ u32 before;
    const u32 own = group_x(), lane = lane_id(), wave = wave_id();
    const u32 slots = tokens * topk;
    for (u32 e = thread_x(); e < experts; e += sort_threads) counts[e] = 0;
    if (thread_x() == 0) before = 0;
    barrier();
    // Each wave has a run of slots, whole steps of 64.
    const u32 run = ceil_div(ceil_div(slots, 64u), sort_threads / 64) * 64;
    const u32 begin = wave * run, end = min_u32(begin + run, slots);
    u32 matches = 0;
    for (u32 slot = begin + lane; slot < end; slot += 64) {
        const u32 expert = u32(topk_ids[slot]);
        if (expert < experts) __hip_atomic_fetch_add(&counts[expert], 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
        matches += expert == own ? 1 : 0;
    }
    for (u32 mask = 1; mask < 64; mask *= 2) matches += shuffle_xor(matches, mask);
    if (lane == 0) wave_matches[wave] = matches;
    barrier();
    u32 padded = 0;
    for (u32 e = thread_x(); e < own; e += sort_threads) padded += ceil_div(counts[e], block) * block;
    if (padded != 0) __hip_atomic_fetch_add(&before, padded, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    barrier();
    const u32 start = before, count = counts[own], room = ceil_div(count, block) * block;
    u32 next = start;
    for (u32 w = 0; w < wave; ++w) next += wave_matches[w];
    for (u32 base = begin; base < end; base += 64) {
        const u32 slot = base + lane;
        const bool match = slot < end && u32(topk_ids[slot]) == own;
        const u64 ballot = lanes_where(match);
        if (match) {
            const u32 low = __builtin_amdgcn_mbcnt_lo(u32(ballot), 0);
            const u32 token = slot / topk;
            sorted[next + __builtin_amdgcn_mbcnt_hi(u32(ballot >> 32), low)] = (slot - token * topk) << 24 | token;
        }
        next += u32(__builtin_popcountll(ballot));
    }
    for (u32 i = count + thread_x(); i < room; i += sort_threads) sorted[start + i] = topk << 24 | tokens;
    for (u32 b = thread_x(); b < room / block; b += sort_threads) block_experts[start / block + b] = own;
    if (own == experts - 1 && thread_x() == 0) {
        num_valid[0] = start + room;
        num_valid[1] = tokens;
    }
}

// ---- Activations.

enum class Activation : u32 { silu, gelu };

KB_DEVICE float silu(float x) { return x * rcp(1.0f + exp(-x)); }

// x·Φ(x), Φ by the rational approximation 7.1.26 of Abramowitz and Stegun: its error is below 1e-7.
KB_DEVICE float gelu(float x) {
    const float z = abs(x) * 0.70710678f;
    const float t = rcp(fma(0.3275911f, z, 1.0f));
    const float series = t * fma(t, fma(t, fma(t, fma(t, 1.0614054f, -1.4531520f), 1.4214138f), -0.28449672f), 0.25482960f);
    const float upper = 0.5f * series * exp(-z * z);
    return x * (x >= 0.0f ? 1.0f - upper : upper);
}

KB_DEVICE f32x4 activate(f32x4 x, Activation act) {
    f32x4 y;
#pragma unroll
    for (u32 r = 0; r < 4; ++r) y[r] = act == Activation::silu ? silu(x[r]) : gelu(x[r]);
    return y;
}

// ---- Products.

// What a product is called with. `x` has rows of k, one a token or (`x_by_slot`) one a routed token; weights are [experts, n, k];
// `out` has rows of `columns`, one a routed token. `topk_weights` scale the rows of `down`.
struct MoeGemm {
    u16* out;
    const u16* x;
    const u16* w;
    const u32* sorted;
    const u32* block_experts;
    const u32* num_valid;
    const float* topk_weights;
    u32 tokens, topk, columns, k;
    u32 x_by_slot;
    Activation act;
};

enum class Epilogue { gated, plain_activation, weighted };

// One tile: tile_m routed tokens of one expert (workgroup x, so that neighbours read the same weights); tile_n weight rows
// (workgroup y), which are tile_n columns, or tile_n / 2 when gated. k is a multiple of 8, columns are one of 4.
template <class Matrix, u32 tile_n, u32 tile_m, u32 waves_n, Epilogue epilogue>
KB_INLINE void moe_product(MoeGemm p) {
    using Tile = TileGemm<Matrix, ContiguousRows, tile_n, tile_m, waves_n>;
    constexpr bool gated = epilogue == Epilogue::gated;
    __shared__ u16 lds[Tile::lds_elements] __attribute__((aligned(16)));
    const u32 block = group_x(), row0 = block * tile_m;
    if (row0 >= p.num_valid[0]) return;
    const u32 column0 = group_y() * (gated ? tile_n / 2 : tile_n);
    const u16* w = p.w + u64(p.block_experts[block]) * (gated ? 2 * p.columns : p.columns) * p.k;

    Tile tile;
#pragma unroll
    for (u32 i = 0; i < Tile::passes_n; ++i) {
        const u32 row = Tile::fetch_row() + i * Tile::rows_a_pass;
        // Gated: rows 0 to 15 are gate columns 0 to 15, rows 16 to 31 their up columns, and so on.
        const u32 column = column0 + (gated ? row / 32 * 16 + row % 16 : row);
        const u32 half = gated ? row / 16 % 2 : 0;
        tile.rows_n[i] = w + u64(min_u32(column, p.columns - 1) + half * p.columns) * p.k;
    }
#pragma unroll
    for (u32 i = 0; i < Tile::passes_m; ++i) {
        const u32 entry = p.sorted[row0 + Tile::fetch_row() + i * Tile::rows_a_pass];
        // Padding reads the last token's row; nothing is stored for it.
        const u32 token = min_u32(entry & token_mask, p.tokens - 1);
        const u32 choice = min_u32(entry >> 24, p.topk - 1);
        tile.rows_m[i] = p.x + u64(p.x_by_slot ? token * p.topk + choice : token) * p.k;
    }
    tile.run(p.k, lds);

#pragma unroll
    for (u32 j = 0; j < Tile::blocks_m; ++j) {
        const u32 entry = p.sorted[row0 + Tile::first_m() + 16 * j + lane_id() % 16];
        const u32 token = entry & token_mask;
        if (token >= p.tokens) continue;
        const u32 slot = token * p.topk + (entry >> 24);
        u16* row = p.out + u64(slot) * p.columns;
#pragma unroll
        for (u32 i = 0; i < Tile::blocks_n; i += gated ? 2 : 1) {
            const u32 weight_row = Tile::first_n() + 16 * i;
            const u32 column = column0 + (gated ? weight_row / 2 : weight_row) + lane_id() / 16 * 4;
            if (column >= p.columns) continue;
            f32x4 value = tile.sums[i][j];
            if constexpr (gated) {
                value = activate(value, p.act) * tile.sums[i + 1][j];
            } else if constexpr (epilogue == Epilogue::plain_activation) {
                value = activate(value, p.act);
            } else {
                value *= p.topk_weights[slot];
            }
            *reinterpret_cast<u32x2*>(row + column) = Matrix::pack4(value);
        }
    }
}

// out[token] = Σ over its choices of parts[token·topk + choice]; a work-item has eight columns, workgroup x a token.
template <class Matrix>
KB_INLINE void moe_sum(u16* out, const u16* parts, u32 topk, u32 columns) {
    const u32 column = (group_y() * 256 + thread_x()) * 8;
    if (column >= columns) return;
    const u64 token = group_x();
    f32x4 low = {0, 0, 0, 0}, high = {0, 0, 0, 0};
    for (u32 choice = 0; choice < topk; ++choice) {
        const u32x4 words = load16(parts + (token * topk + choice) * columns + column);
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            low[2 * i] += Matrix::widen(u16(words[i]));
            low[2 * i + 1] += Matrix::widen(u16(words[i] >> 16));
            high[2 * i] += Matrix::widen(u16(words[i + 2]));
            high[2 * i + 1] += Matrix::widen(u16(words[i + 2] >> 16));
        }
    }
    store16(out + token * columns + column, join(Matrix::pack4(low), Matrix::pack4(high)));
}

}  // namespace kb

KB_KERNEL_FIXED(1024) kb_moe_gemm_sort(kb::u32* __restrict__ sorted, kb::u32* __restrict__ block_experts,
                                       kb::u32* __restrict__ num_valid, const kb::i32* __restrict__ topk_ids, kb::u32 tokens,
                                       kb::u32 topk, kb::u32 experts, kb::u32 block) {
    kb::moe_sort(sorted, block_experts, num_valid, topk_ids, tokens, topk, experts, block);
}

#define KB_MOE_ARGS                                                                                                           \
    kb::u16 *__restrict__ out, const kb::u16 *__restrict__ x, const kb::u16 *__restrict__ w,                                  \
        const kb::u32 *__restrict__ sorted, const kb::u32 *__restrict__ block_experts, const kb::u32 *__restrict__ num_valid, \
        const float *__restrict__ topk_weights, kb::u32 tokens, kb::u32 topk, kb::u32 columns, kb::u32 k, kb::u32 x_by_slot,  \
        kb::u32 act
#define KB_MOE_CASE                                                                                                           \
    kb::MoeGemm{out,    x,    w,       sorted, block_experts, num_valid, topk_weights,                                        \
                tokens, topk, columns, k,      x_by_slot,     static_cast<kb::Activation>(act)}

// `tile_m` 32: four waves over the weight rows; 128: two by two.
#define KB_MOE_PRODUCTS(tile_m, waves_n, dtype, matrix)                                                                       \
    KB_KERNEL_FIXED(256) kb_moe_gemm_gate_up_m##tile_m##_##dtype(KB_MOE_ARGS) {                                               \
        kb::moe_product<kb::matrix, 128, tile_m, waves_n, kb::Epilogue::gated>(KB_MOE_CASE);                                  \
    }                                                                                                                         \
    KB_KERNEL_FIXED(256) kb_moe_gemm_up_m##tile_m##_##dtype(KB_MOE_ARGS) {                                                    \
        kb::moe_product<kb::matrix, 128, tile_m, waves_n, kb::Epilogue::plain_activation>(KB_MOE_CASE);                       \
    }                                                                                                                         \
    KB_KERNEL_FIXED(256) kb_moe_gemm_down_m##tile_m##_##dtype(KB_MOE_ARGS) {                                                  \
        kb::moe_product<kb::matrix, 128, tile_m, waves_n, kb::Epilogue::weighted>(KB_MOE_CASE);                               \
    }

#define KB_MOE_KERNELS(dtype, matrix)                                                                                         \
    KB_MOE_PRODUCTS(32, 4, dtype, matrix)                                                                                     \
    KB_MOE_PRODUCTS(128, 2, dtype, matrix)                                                                                    \
    KB_KERNEL_FIXED(256) kb_moe_gemm_sum_##dtype(kb::u16* __restrict__ out, const kb::u16* __restrict__ parts, kb::u32 topk,  \
                                                 kb::u32 columns) {                                                           \
        kb::moe_sum<kb::matrix>(out, parts, topk, columns);                                                                   \
    }

KB_MOE_KERNELS(bf16, MatrixBf16)
KB_MOE_KERNELS(f16, MatrixF16)
