// gemm: out[m, n] = Σ_k a[m, k] · b[n, k] + bias, 16-bit operands, f32 sums.
//
// Three forms. `tile`: tiles of 128×128 or 64×64 over a and b contiguous along k. `skinny`: few rows of a; a workgroup computes
// 16 columns, its four waves share out k, and weights go from memory to the matrix cores without LDS. `strided`: any strides and
// lengths (transposed operands, k that is no multiple of 8).
#include "../include/tile_gemm.h"

namespace kb {

// Adds the bias to four neighbouring columns and stores them; `columns` of the four exist.
template <class Matrix>
KB_INLINE void store_columns(u16* out, const u16* bias, f32x4 sums, u32 columns, bool aligned) {
    if (columns == 4 && aligned) {
        if (bias != nullptr) {
            const u32x2 pairs = *reinterpret_cast<const u32x2*>(bias);
            sums[0] += Matrix::widen(u16(pairs[0]));
            sums[1] += Matrix::widen(u16(pairs[0] >> 16));
            sums[2] += Matrix::widen(u16(pairs[1]));
            sums[3] += Matrix::widen(u16(pairs[1] >> 16));
        }
        *reinterpret_cast<u32x2*>(out) = Matrix::pack4(sums);
        return;
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        if (i < columns) out[i] = Matrix::narrow(sums[i] + (bias != nullptr ? Matrix::widen(bias[i]) : 0.0f));
    }
}

// What a kernel is called with. `bias_row` is the stride of the bias over rows of the output: 0 for one bias for all rows.
// Strides are in elements.
struct Gemm {
    u16* out;
    const u16* a;
    const u16* b;
    const u16* bias;
    u32 m, n, k;
    u32 bias_row;
    u64 a_batch, b_batch, bias_batch, out_batch;
};

// Moves to batch `group_z()`.
KB_DEVICE void move_to_batch(Gemm& g) {
    const u64 batch = group_z();
    g.a += batch * g.a_batch;
    g.b += batch * g.b_batch;
    g.out += batch * g.out_batch;
    if (g.bias != nullptr) g.bias += batch * g.bias_batch;
}

// Columns from `column` on that exist, at most 4.
KB_DEVICE u32 columns_at(u32 column, u32 n) { return column < n ? min_u32(n - column, 4) : 0; }

// One tile. Rows beyond the operands' ends are read from the last row and not stored. Strides: of a over m and k, of b over n
// and k.
template <class Matrix, class Rows, u32 tile_n, u32 tile_m>
KB_INLINE void gemm_tile(Gemm g, u64 a_row, u64 a_k, u64 b_row, u64 b_k) {
    using Tile = TileGemm<Matrix, Rows, tile_n, tile_m, 2>;
    __shared__ u16 lds[Tile::lds_elements] __attribute__((aligned(16)));
    move_to_batch(g);
    const u32 column0 = group_x() * tile_n;
    const u32 row0 = group_y() * tile_m;
    Tile tile;
    tile.stride_n = b_k;
    tile.stride_m = a_k;
    tile.across_n = b_k != 1;
    tile.across_m = a_k != 1;
#pragma unroll
    for (u32 p = 0; p < Tile::passes_n; ++p) {
        const u32 row = column0 + Tile::fetch_row(tile.across_n) + p * Tile::rows_a_pass;
        tile.rows_n[p] = g.b + min_u32(row, g.n - 1) * b_row;
    }
#pragma unroll
    for (u32 p = 0; p < Tile::passes_m; ++p) {
        const u32 row = row0 + Tile::fetch_row(tile.across_m) + p * Tile::rows_a_pass;
        tile.rows_m[p] = g.a + min_u32(row, g.m - 1) * a_row;
    }
    tile.run(g.k, lds);
    const bool aligned = g.n % 4 == 0;
#pragma unroll
    for (u32 j = 0; j < Tile::blocks_m; ++j) {
        const u32 row = row0 + Tile::first_m() + 16 * j + lane_id() % 16;
        if (row >= g.m) continue;
#pragma unroll
        for (u32 i = 0; i < Tile::blocks_n; ++i) {
            const u32 column = column0 + Tile::first_n() + 16 * i + lane_id() / 16 * 4;
            const u16* bias = g.bias == nullptr ? nullptr : g.bias + u64(row) * g.bias_row + column;
            store_columns<Matrix>(g.out + u64(row) * g.n + column, bias, tile.sums[i][j], columns_at(column, g.n), aligned);
        }
    }
}

// Adds the products of `run` k, from `k` of the lane on; unless `whole`, up to `length` only.
template <class Matrix, u32 blocks, u32 run, bool whole>
KB_INLINE void multiply_run(f32x4 (&sums)[blocks], const u16* weights, const u16* const (&rows)[blocks], u32 k, u32 length) {
    Fragment w[run / 32], x[blocks][run / 32];
#pragma unroll
    for (u32 s = 0; s < run / 32; ++s) w[s] = ContiguousRows::load<whole>(weights, k + 32 * s, length, 1);
#pragma unroll
    for (u32 j = 0; j < blocks; ++j)
        for (u32 s = 0; s < run / 32; ++s) x[j][s] = ContiguousRows::load<whole>(rows[j], k + 32 * s, length, 1);
#pragma unroll
    for (u32 s = 0; s < run / 32; ++s)
        for (u32 j = 0; j < blocks; ++j) sums[j] = Matrix::multiply(w[s], x[j][s], sums[j]);
}

// 16 columns of up to 16·blocks rows. Wave w takes k in runs of 128, every fourth. k is a multiple of 8.
template <class Matrix, u32 blocks>
KB_INLINE void gemm_skinny(Gemm g) {
    constexpr u32 run = 128, waves = 4;
    __shared__ f32x4 parts[waves][blocks][64];
    move_to_batch(g);
    const u32 lane = lane_id(), wave = wave_id();
    const u32 column0 = group_x() * 16;
    const u16* weights = g.b + u64(min_u32(column0 + lane % 16, g.n - 1)) * g.k;
    const u16* rows[blocks];
    f32x4 sums[blocks];
#pragma unroll
    for (u32 j = 0; j < blocks; ++j) {
        rows[j] = g.a + u64(min_u32(16 * j + lane % 16, g.m - 1)) * g.k;
        sums[j] = f32x4{0, 0, 0, 0};
    }
    const u32 lane_k = lane / 16 * 8;
    u32 first = wave * run;
    for (; first + run <= g.k; first += waves * run) {
        multiply_run<Matrix, blocks, run, true>(sums, weights, rows, first + lane_k, g.k);
    }
    if (first < g.k) multiply_run<Matrix, blocks, run, false>(sums, weights, rows, first + lane_k, g.k);
#pragma unroll
    for (u32 j = 0; j < blocks; ++j) parts[wave][j][lane] = sums[j];
    barrier();
    const u32 block = wave;
    const u32 row = 16 * block + lane % 16;
    if (block >= blocks || row >= g.m) return;
    f32x4 sum = parts[0][block][lane];
    for (u32 w = 1; w < waves; ++w) sum += parts[w][block][lane];
    const u32 column = column0 + lane / 16 * 4;
    const u16* bias = g.bias == nullptr ? nullptr : g.bias + u64(row) * g.bias_row + column;
    store_columns<Matrix>(g.out + u64(row) * g.n + column, bias, sum, columns_at(column, g.n), g.n % 4 == 0);
}

}  // namespace kb

#define KB_GEMM_ARGS                                                                                                          \
    kb::u16 *__restrict__ out, const kb::u16 *__restrict__ a, const kb::u16 *__restrict__ b,                                  \
        const kb::u16 *__restrict__ bias, kb::u32 m, kb::u32 n, kb::u32 k, kb::u32 bias_row, kb::u64 a_batch,                 \
        kb::u64 b_batch, kb::u64 bias_batch, kb::u64 out_batch
#define KB_GEMM_CASE kb::Gemm{out, a, b, bias, m, n, k, bias_row, a_batch, b_batch, bias_batch, out_batch}

#define KB_GEMM_KERNELS(dtype, matrix)                                                                                        \
    KB_KERNEL_FIXED(256) kb_gemm_tile128_##dtype(KB_GEMM_ARGS) {                                                              \
        kb::gemm_tile<kb::matrix, kb::ContiguousRows, 128, 128>(KB_GEMM_CASE, k, 1, k, 1);                                    \
    }                                                                                                                         \
    KB_KERNEL_FIXED(256) kb_gemm_tile64_##dtype(KB_GEMM_ARGS) {                                                               \
        kb::gemm_tile<kb::matrix, kb::ContiguousRows, 64, 64>(KB_GEMM_CASE, k, 1, k, 1);                                      \
    }                                                                                                                         \
    KB_KERNEL_FIXED(256) kb_gemm_strided_##dtype(KB_GEMM_ARGS, kb::u64 a_row, kb::u64 a_k, kb::u64 b_row, kb::u64 b_k) {      \
        kb::gemm_tile<kb::matrix, kb::StridedRows, 64, 64>(KB_GEMM_CASE, a_row, a_k, b_row, b_k);                             \
    }                                                                                                                         \
    KB_KERNEL_FIXED(256) kb_gemm_skinny16_##dtype(KB_GEMM_ARGS) { kb::gemm_skinny<kb::matrix, 1>(KB_GEMM_CASE); }             \
    KB_KERNEL_FIXED(256) kb_gemm_skinny32_##dtype(KB_GEMM_ARGS) { kb::gemm_skinny<kb::matrix, 2>(KB_GEMM_CASE); }             \
    KB_KERNEL_FIXED(256) kb_gemm_skinny64_##dtype(KB_GEMM_ARGS) { kb::gemm_skinny<kb::matrix, 4>(KB_GEMM_CASE); }

KB_GEMM_KERNELS(bf16, MatrixBf16)
KB_GEMM_KERNELS(f16, MatrixF16)
