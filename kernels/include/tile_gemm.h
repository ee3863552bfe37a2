// A product of two row-major operands, both contiguous along k, in tiles of one workgroup: the core of `gemm` and `moe_gemm`.
//
// 256 work-items compute [tile_n weight rows × tile_m activation rows] in depths of 64. While a depth is multiplied out of LDS
// the next one is on its way from memory to registers. In LDS a row is 128 bytes, eight chunks of 16; chunk c of row r stands at
// c ^ (r % 8), so that neither the writes of consecutive chunks nor the reads of one chunk of consecutive rows meet in a bank.
#pragma once

#include "mfma.h"

namespace kb {

constexpr u32 tile_depth = 64;
constexpr u32 tile_threads = 256;

// Reads eight k of rows whose length is a multiple of 8, at 16-byte boundaries. `whole`: all of them are there; else those beyond
// `length` are zeros.
struct ContiguousRows {
    template <bool whole>
    KB_INLINE static Fragment load(const u16* row, u32 k, u32 length, u64) {
        return whole || k < length ? load16(row + k) : Fragment{0, 0, 0, 0};
    }
};

// Reads elements `stride` apart, of any length.
struct StridedRows {
    template <bool whole>
    KB_INLINE static Fragment load(const u16* row, u32 k, u32 length, u64 stride) {
        u32 values[8];
#pragma unroll
        for (u32 i = 0; i < 8; ++i) values[i] = whole || k + i < length ? row[(k + i) * stride] : 0;
        Fragment fragment;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) fragment[i] = values[2 * i] | values[2 * i + 1] << 16;
        return fragment;
    }
};

// `waves_n` waves of the four share out the weight rows, 4 / waves_n the activation rows.
template <class Matrix, class Rows, u32 tile_n, u32 tile_m, u32 waves_n>
struct TileGemm {
    static constexpr u32 waves_m = 4 / waves_n;
    static constexpr u32 wave_n = tile_n / waves_n;
    static constexpr u32 wave_m = tile_m / waves_m;
    static constexpr u32 blocks_n = wave_n / 16;
    static constexpr u32 blocks_m = wave_m / 16;
    static constexpr u32 rows_a_pass = tile_threads / 8;
    static constexpr u32 passes_n = tile_n / rows_a_pass;
    static constexpr u32 passes_m = tile_m / rows_a_pass;
    static constexpr u32 lds_elements = (tile_n + tile_m) * tile_depth;
    static_assert(tile_n % rows_a_pass == 0 && tile_m % rows_a_pass == 0, "a pass of the workgroup fetches whole rows");
    static_assert(wave_n % 16 == 0 && wave_m % 16 == 0, "a wave multiplies blocks of 16");

    // Row of the tile and chunk that the work-item fetches in pass 0; pass p fetches row + p · rows_a_pass. `across`: consecutive
    // work-items take consecutive rows, for operands that are stored along their rows.
    KB_INLINE static u32 fetch_row(bool across = false) { return across ? thread_x() % rows_a_pass : thread_x() / 8; }
    KB_INLINE static u32 fetch_chunk(bool across = false) { return across ? thread_x() / rows_a_pass : thread_x() % 8; }
    // First weight row and first activation row of the wave, in the tile.
    KB_INLINE static u32 first_n() { return wave_id() / waves_m * wave_n; }
    KB_INLINE static u32 first_m() { return wave_id() % waves_m * wave_m; }

    const u16* rows_n[passes_n];
    const u16* rows_m[passes_m];
    bool across_n = false;
    bool across_m = false;
    u64 stride_n = 1;
    u64 stride_m = 1;
    // Sums: element r of lane l is weight row 16·i + 4·(l / 16) + r of the wave's, activation row 16·j + l % 16.
    f32x4 sums[blocks_n][blocks_m];

    // Multiplies rows of `length`; `lds` has lds_elements.
    KB_INLINE void run(u32 length, u16* lds) {
        u16* tile_of_n = lds;
        u16* tile_of_m = lds + tile_n * tile_depth;
#pragma unroll
        for (u32 i = 0; i < blocks_n; ++i)
            for (u32 j = 0; j < blocks_m; ++j) sums[i][j] = f32x4{0, 0, 0, 0};
        Fragment next_n[passes_n], next_m[passes_m];
        fetch(next_n, next_m, 0, length);
        for (u32 k = 0; k < length; k += tile_depth) {
            barrier();
            store<passes_n>(tile_of_n, next_n, across_n);
            store<passes_m>(tile_of_m, next_m, across_m);
            barrier();
            if (k + tile_depth < length) fetch(next_n, next_m, k + tile_depth, length);
            multiply(tile_of_n, tile_of_m);
        }
    }

  private:
    KB_INLINE void fetch(Fragment (&next_n)[passes_n], Fragment (&next_m)[passes_m], u32 k, u32 length) {
        // The last depth alone has k that may not be there.
        if (k + tile_depth <= length) {
            load<true>(next_n, next_m, k, length);
        } else {
            load<false>(next_n, next_m, k, length);
        }
    }

    template <bool whole>
    KB_INLINE void load(Fragment (&next_n)[passes_n], Fragment (&next_m)[passes_m], u32 k, u32 length) {
        const u32 at_n = k + 8 * fetch_chunk(across_n);
        const u32 at_m = k + 8 * fetch_chunk(across_m);
#pragma unroll
        for (u32 p = 0; p < passes_n; ++p) next_n[p] = Rows::template load<whole>(rows_n[p], at_n, length, stride_n);
#pragma unroll
        for (u32 p = 0; p < passes_m; ++p) next_m[p] = Rows::template load<whole>(rows_m[p], at_m, length, stride_m);
    }

    template <u32 passes>
    KB_INLINE void store(u16* tile, const Fragment (&values)[passes], bool across) {
        const u32 row = fetch_row(across);
        const u32 chunk = fetch_chunk(across) ^ (row % 8);
#pragma unroll
        for (u32 p = 0; p < passes; ++p) {
            *reinterpret_cast<Fragment*>(tile + (row + p * rows_a_pass) * tile_depth + 8 * chunk) = values[p];
        }
    }

    KB_INLINE void multiply(const u16* tile_of_n, const u16* tile_of_m) {
        const u32 row = lane_id() % 16;
        const u16* from_n = tile_of_n + (first_n() + row) * tile_depth;
        const u16* from_m = tile_of_m + (first_m() + row) * tile_depth;
#pragma unroll
        for (u32 step = 0; step < tile_depth / 32; ++step) {
            const u32 chunk = (4 * step + lane_id() / 16) ^ (row % 8);
            Fragment a[blocks_n], b[blocks_m];
#pragma unroll
            for (u32 i = 0; i < blocks_n; ++i) a[i] = load16(from_n + 16 * i * tile_depth + 8 * chunk);
#pragma unroll
            for (u32 j = 0; j < blocks_m; ++j) b[j] = load16(from_m + 16 * j * tile_depth + 8 * chunk);
#pragma unroll
            for (u32 i = 0; i < blocks_n; ++i)
                for (u32 j = 0; j < blocks_m; ++j) sums[i][j] = Matrix::multiply(a[i], b[j], sums[i][j]);
        }
    }
};

}  // namespace kb
