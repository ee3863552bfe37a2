// Matrix cores of gfx90a, gfx942 and gfx950: 16×16 products of 16-bit operands with f32 sums.
//
// One step multiplies a [16 rows × 32 k] with b [16 columns × 32 k]. Lane l of the wave holds eight consecutive k of row (column)
// l % 16, those that start at 8·(l / 16): 16 bytes, so that fragments are read as they lie in memory. gfx950 has this step as one
// instruction; before it are two of depth 16, the first over the lower four k of every lane and the second over the upper four.
// Which k stands where does not matter to a sum as long as a and b agree.
//
// The result is held with row 4·(l / 16) + r in element r of lane l, column l % 16. Four rows of a lane are therefore the
// operand of another product over these rows: `Matrix::pack4` makes half a fragment of them.
#pragma once

#include "convert.h"
#include "vector.h"

#if !defined(__gfx90a__) && !defined(__gfx942__) && !defined(__gfx950__)
#error "kernels on matrix cores are for gfx90a, gfx942 and gfx950"
#endif

namespace kb {

// Eight elements of 16 bits.
using Fragment = u32x4;

typedef i16 i16x4 __attribute__((ext_vector_type(4)));
#if defined(__gfx950__)
typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));
#endif

// A fragment of two halves.
KB_DEVICE Fragment join(u32x2 low, u32x2 high) { return Fragment{low[0], low[1], high[0], high[1]}; }

// Products of bf16.
struct MatrixBf16 {
    // c + a · bᵀ over 32 k.
    KB_INLINE static f32x4 multiply(Fragment a, Fragment b, f32x4 c) {
#if defined(__gfx950__)
        return __builtin_amdgcn_mfma_f32_16x16x32_bf16(bit_cast<bf16x8>(a), bit_cast<bf16x8>(b), c, 0, 0, 0);
#else
        c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<i16x4>(a.lo), bit_cast<i16x4>(b.lo), c, 0, 0, 0);
        return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(bit_cast<i16x4>(a.hi), bit_cast<i16x4>(b.hi), c, 0, 0, 0);
#endif
    }
    // Four f32 rounded to 16 bits each, the first in the low half of the first word.
    KB_INLINE static u32x2 pack4(f32x4 values) {
        return u32x2{pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3])};
    }
    // As pack4 for numbers that are finite and not negative: halves go up instead of to even, which takes half the work.
    KB_INLINE static u32x2 pack4_weights(f32x4 values) {
#if defined(__gfx950__)
        return pack4(values);
#else
        const u32x4 bits = bit_cast<u32x4>(values) + 0x8000u;
        return u32x2{permute_bytes(bits[1], bits[0], 0x07060302u), permute_bytes(bits[3], bits[2], 0x07060302u)};
#endif
    }
    KB_INLINE static float widen(u16 bits) { return float_of(u32(bits) << 16); }
    KB_INLINE static u16 narrow(float value) { return to_bf16(value).bits; }
};

// Products of f16.
struct MatrixF16 {
    // c + a · bᵀ over 32 k.
    KB_INLINE static f32x4 multiply(Fragment a, Fragment b, f32x4 c) {
#if defined(__gfx950__)
        return __builtin_amdgcn_mfma_f32_16x16x32_f16(bit_cast<f16x8>(a), bit_cast<f16x8>(b), c, 0, 0, 0);
#else
        c = __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<f16x4>(a.lo), bit_cast<f16x4>(b.lo), c, 0, 0, 0);
        return __builtin_amdgcn_mfma_f32_16x16x16f16(bit_cast<f16x4>(a.hi), bit_cast<f16x4>(b.hi), c, 0, 0, 0);
#endif
    }
    KB_INLINE static u32x2 pack4(f32x4 values) {
        return u32x2{pack_f16(values[0], values[1]), pack_f16(values[2], values[3])};
    }
    KB_INLINE static u32x2 pack4_weights(f32x4 values) { return pack4(values); }
    KB_INLINE static float widen(u16 bits) { return float(bit_cast<f16>(bits)); }
    KB_INLINE static u16 narrow(float value) { return bit_cast<u16>(f16(value)); }
};

// The low halves of two words, and the high halves: two rows of pairs become two columns of pairs.
KB_DEVICE u32 pair_low(u32 first, u32 second) { return permute_bytes(second, first, 0x05040100u); }
KB_DEVICE u32 pair_high(u32 first, u32 second) { return permute_bytes(second, first, 0x07060302u); }

// Which of 32 rows (keys) row `index` of 16 of half `half` (0, 1) is, so that the results of the two halves joined are a
// fragment over 32 consecutive rows.
KB_DEVICE u32 joined_row(u32 half, u32 index) { return 8 * (index / 4) + 4 * half + index % 4; }

}  // namespace kb
