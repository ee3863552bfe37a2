// Element types in memory and their conversion to and from f32: bf16, f16, f32, the four fp8 formats and int8.
//
// Narrow floats round to nearest even. fp8 and int8 are packed four to a u32, the first in the low byte. The hardware's
// conversions are used where it has the format (FNUZ on gfx940 to gfx942, OCP on gfx950 and gfx12), bit arithmetic elsewhere.
#pragma once

#include "device.h"

namespace kb {

#if defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
#define KB_FP8_FNUZ_HARDWARE 1
#else
#define KB_FP8_FNUZ_HARDWARE 0
#endif
#if defined(__gfx950__) || defined(__GFX12__)
#define KB_FP8_OCP_HARDWARE 1
#else
#define KB_FP8_OCP_HARDWARE 0
#endif

// ---- bf16

struct bf16 {
    u16 bits;
};

KB_DEVICE float to_f32(bf16 value) { return float_of(u32(value.bits) << 16); }
// Of the low and of the high half of a pair.
KB_DEVICE float bf16_low(u32 pair) { return float_of(pair << 16); }
KB_DEVICE float bf16_high(u32 pair) { return float_of(pair & 0xFFFF0000u); }

// The bits of the nearest bf16 in the upper half; what is below it is noise. NaN becomes quiet.
KB_DEVICE u32 bf16_rounded(float value) {
    const u32 bits = bits_of(value);
    const u32 rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    return value != value ? bits | 0x400000u : rounded;
}

KB_DEVICE bf16 to_bf16(float value) { return bf16{u16(bf16_rounded(value) >> 16)}; }

// Two values, the first in the low half.
KB_DEVICE u32 pack_bf16(float low, float high) {
#if defined(__gfx950__) || defined(__gfx1250__)
    typedef __bf16 pair __attribute__((ext_vector_type(2)));
    return bit_cast<u32>(__builtin_convertvector(f32x2{low, high}, pair));
#else
    return permute_bytes(bf16_rounded(high), bf16_rounded(low), 0x07060302u);
#endif
}

// ---- f16

KB_DEVICE float to_f32(f16 value) { return float(value); }
KB_DEVICE u32 pack_f16(float low, float high) { return bit_cast<u32>(f16x2{f16(low), f16(high)}); }

// ---- fp8

// A format by its stored mantissa bits, exponent bias, code of the largest finite magnitude and of infinity (0: none), and by
// whether it is FNUZ, where the code of minus zero is the only NaN.
template <u32 mantissa_, u32 bias_, u32 largest_code_, u32 infinity_code_, bool fnuz_, bool hardware_>
struct fp8_format {
    static constexpr u32 mantissa = mantissa_;
    static constexpr u32 bias = bias_;
    static constexpr u32 largest_code = largest_code_;
    static constexpr u32 infinity_code = infinity_code_;
    static constexpr bool fnuz = fnuz_;
    // True when the architecture converts this format by an instruction.
    static constexpr bool hardware = hardware_;
    u8 code;
};

struct e4m3fn : fp8_format<3, 7, 0x7E, 0, false, KB_FP8_OCP_HARDWARE> {
    static constexpr float largest = 448.0f;
};
struct e4m3fnuz : fp8_format<3, 8, 0x7F, 0, true, KB_FP8_FNUZ_HARDWARE> {
    static constexpr float largest = 240.0f;
};
struct e5m2 : fp8_format<2, 15, 0x7B, 0x7C, false, KB_FP8_OCP_HARDWARE> {
    static constexpr float largest = 57344.0f;
};
struct e5m2fnuz : fp8_format<2, 16, 0x7F, 0, true, KB_FP8_FNUZ_HARDWARE> {
    static constexpr float largest = 57344.0f;
};
struct int8 {
    static constexpr float largest = 127.0f;
    i8 code;
};

// The fp8 that the device computes with: FNUZ on gfx940 to gfx942, OCP on all others.
#if KB_FP8_FNUZ_HARDWARE
using fp8 = e4m3fnuz;
using bf8 = e5m2fnuz;
#else
using fp8 = e4m3fn;
using bf8 = e5m2;
#endif

// Limits a value to ±largest of `Format` and keeps NaN: before packing, for values that no scale keeps in range.
template <class Format>
KB_INLINE float saturate(float value) {
    const float limited = med3(value, -Format::largest, Format::largest);
    return value != value ? value : limited;
}

// One code by bit arithmetic; it saturates.
template <class Format>
KB_INLINE u32 encode_fp8(float value) {
    const u32 bits = bits_of(value);
    const u32 magnitude = bits & 0x7FFFFFFFu;
    constexpr u32 dropped = 23 - Format::mantissa;
    // Half a unit less one, plus the lowest kept bit: carries exactly when round to nearest even goes up.
    const u32 rounded = (magnitude + (1u << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1u)) >> dropped;
    const u32 normal = rounded - ((127 - Format::bias) << Format::mantissa);
    // Beside this constant one f32 unit is the unit of the subnormals, so that the adder rounds them.
    constexpr u32 aligned = (151 - Format::bias - Format::mantissa) << 23;
    const u32 subnormal = bits_of(float_of(magnitude) + float_of(aligned)) - aligned;
    const u32 smallest_normal = (128 - Format::bias) << 23;
    const u32 code = min_u32(magnitude < smallest_normal ? subnormal : normal, Format::largest_code);
    const u32 sign = (bits >> 24) & 0x80u;
    const u32 finite = Format::fnuz && code == 0 ? 0 : code | sign;
    const u32 nan = Format::fnuz ? 0x80u : 0x7Fu | sign;
    return magnitude > 0x7F800000u ? nan : finite;
}

// One value from its code, in the low byte of `code`.
template <class Format>
KB_INLINE float decode_fp8(u32 code) {
    const u32 magnitude = code & 0x7Fu;
    const u32 sign = (code & 0x80u) << 24;
    const float normal = float_of((magnitude + ((127 - Format::bias) << Format::mantissa)) << (23 - Format::mantissa));
    const float subnormal = float(magnitude) * float_of((128 - Format::bias - Format::mantissa) << 23);
    float value = magnitude >> Format::mantissa == 0 ? subnormal : normal;
    if (!Format::fnuz && magnitude > Format::largest_code) {
        value = magnitude == Format::infinity_code && Format::infinity_code != 0 ? infinity : float_of(0x7FC00000u);
    }
    if (Format::fnuz && (code & 0xFFu) == 0x80u) return float_of(0x7FC00000u);
    return float_of(bits_of(value) | sign);
}

// Four values to four codes. The values lie within ±largest of the format to within rounding, or are NaN, which stays NaN:
// dynamic scales see to that, saturate() elsewhere.
template <class Format>
KB_INLINE u32 pack4(float a, float b, float c, float d) {
    return encode_fp8<Format>(a) | encode_fp8<Format>(b) << 8 | encode_fp8<Format>(c) << 16 | encode_fp8<Format>(d) << 24;
}

// Four codes to four values.
template <class Format>
KB_INLINE f32x4 unpack4(u32 codes) {
    return f32x4{decode_fp8<Format>(codes), decode_fp8<Format>(codes >> 8), decode_fp8<Format>(codes >> 16),
                 decode_fp8<Format>(codes >> 24)};
}

#if KB_FP8_FNUZ_HARDWARE || KB_FP8_OCP_HARDWARE
template <>
KB_INLINE u32 pack4<fp8>(float a, float b, float c, float d) {
    const int low = __builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false);
    return u32(__builtin_amdgcn_cvt_pk_fp8_f32(c, d, low, true));
}
template <>
KB_INLINE u32 pack4<bf8>(float a, float b, float c, float d) {
    const int low = __builtin_amdgcn_cvt_pk_bf8_f32(a, b, 0, false);
    return u32(__builtin_amdgcn_cvt_pk_bf8_f32(c, d, low, true));
}
template <>
KB_INLINE f32x4 unpack4<fp8>(u32 codes) {
    const f32x2 low = __builtin_bit_cast(f32x2, __builtin_amdgcn_cvt_pk_f32_fp8(int(codes), false));
    const f32x2 high = __builtin_bit_cast(f32x2, __builtin_amdgcn_cvt_pk_f32_fp8(int(codes), true));
    return f32x4{low[0], low[1], high[0], high[1]};
}
template <>
KB_INLINE f32x4 unpack4<bf8>(u32 codes) {
    const f32x2 low = __builtin_bit_cast(f32x2, __builtin_amdgcn_cvt_pk_f32_bf8(int(codes), false));
    const f32x2 high = __builtin_bit_cast(f32x2, __builtin_amdgcn_cvt_pk_f32_bf8(int(codes), true));
    return f32x4{low[0], low[1], high[0], high[1]};
}
#endif

// ---- int8

// Adding 1.5·2^23 rounds to the nearest whole number, halves to even, and leaves it in the low byte; NaN becomes 0.
template <>
KB_INLINE u32 pack4<int8>(float a, float b, float c, float d) {
    constexpr float magic = 12582912.0f;
    const u32 low = permute_bytes(bits_of(b + magic), bits_of(a + magic), 0x0C0C0400u);
    const u32 high = permute_bytes(bits_of(d + magic), bits_of(c + magic), 0x04000C0Cu);
    return low | high;
}
template <>
KB_INLINE f32x4 unpack4<int8>(u32 codes) {
    return f32x4{float(i8(codes)), float(i8(codes >> 8)), float(i8(codes >> 16)), float(i8(codes >> 24))};
}

// One code, for tails.
template <class Format>
KB_INLINE u8 pack1(float value) {
    return u8(pack4<Format>(value, value, value, value));
}

}  // namespace kb
