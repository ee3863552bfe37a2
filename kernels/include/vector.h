// Loads and stores of eight elements at a time, converted to and from f32.
//
// Eight elements are 16 bytes of bf16 and f16, two times 16 of f32, eight of fp8 and int8. Pointers are aligned to the smaller of
// 16 bytes and the eight elements; tensors of device allocations are, and rows of a multiple of eight elements stay so.
#pragma once

#include "convert.h"

namespace kb {

// 16 bytes, whatever they mean.
template <class T>
KB_INLINE u32x4 load16(const T* pointer) {
    return *reinterpret_cast<const u32x4*>(pointer);
}
template <class T>
KB_INLINE void store16(T* pointer, u32x4 value) {
    *reinterpret_cast<u32x4*>(pointer) = value;
}
// The same for data that is used once: it does not displace what caches hold.
template <class T>
KB_INLINE u32x4 load16_nontemporal(const T* pointer) {
    return __builtin_nontemporal_load(reinterpret_cast<const u32x4*>(pointer));
}
template <class T>
KB_INLINE void store16_nontemporal(T* pointer, u32x4 value) {
    __builtin_nontemporal_store(value, reinterpret_cast<u32x4*>(pointer));
}

// Eight elements as they lie in memory: loaded early, decoded late, so that they wait in few registers.
template <class T>
struct raw8 {
    u32x4 words;
};
template <>
struct raw8<float> {
    u32x4 words;
    u32x4 more;
};

template <class T>
KB_INLINE raw8<T> load_raw8(const T* pointer) {
    static_assert(sizeof(T) == 2, "16-bit elements; f32 has its own");
    return raw8<T>{load16(pointer)};
}
template <>
KB_INLINE raw8<float> load_raw8<float>(const float* pointer) {
    return raw8<float>{load16(pointer), load16(pointer + 4)};
}

KB_DEVICE f32x8 decode8(raw8<bf16> raw) {
    f32x8 values;
#pragma unroll
    for (u32 pair = 0; pair < 4; ++pair) {
        values[2 * pair] = bf16_low(raw.words[pair]);
        values[2 * pair + 1] = bf16_high(raw.words[pair]);
    }
    return values;
}
KB_DEVICE f32x8 decode8(raw8<f16> raw) {
    return __builtin_convertvector(bit_cast<f16x8>(raw.words), f32x8);
}
KB_DEVICE f32x8 decode8(raw8<float> raw) {
    const f32x4 low = bit_cast<f32x4>(raw.words), high = bit_cast<f32x4>(raw.more);
    return f32x8{low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]};
}

template <class T>
KB_INLINE f32x8 load8(const T* pointer) {
    return decode8(load_raw8(pointer));
}

KB_DEVICE void store8(bf16* pointer, f32x8 v) {
    store16(pointer, u32x4{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])});
}
KB_DEVICE void store8(f16* pointer, f32x8 v) {
    store16(pointer, u32x4{pack_f16(v[0], v[1]), pack_f16(v[2], v[3]), pack_f16(v[4], v[5]), pack_f16(v[6], v[7])});
}
KB_DEVICE void store8(float* pointer, f32x8 v) {
    store16(pointer, bit_cast<u32x4>(f32x4{v[0], v[1], v[2], v[3]}));
    store16(pointer + 4, bit_cast<u32x4>(f32x4{v[4], v[5], v[6], v[7]}));
}
// fp8 and int8: the values are in range, see pack4().
template <class Format>
KB_INLINE void store8(Format* pointer, f32x8 v) {
    const u32x2 codes = {pack4<Format>(v[0], v[1], v[2], v[3]), pack4<Format>(v[4], v[5], v[6], v[7])};
    *reinterpret_cast<u32x2*>(pointer) = codes;
}

// Single elements, for tails.
KB_DEVICE float load1(const bf16* pointer) { return to_f32(*pointer); }
KB_DEVICE float load1(const f16* pointer) { return to_f32(*pointer); }
KB_DEVICE float load1(const float* pointer) { return *pointer; }
KB_DEVICE void store1(bf16* pointer, float value) { *pointer = to_bf16(value); }
KB_DEVICE void store1(f16* pointer, float value) { *pointer = f16(value); }
KB_DEVICE void store1(float* pointer, float value) { *pointer = value; }
template <class Format>
KB_INLINE void store1(Format* pointer, float value) {
    *reinterpret_cast<u8*>(pointer) = pack1<Format>(value);
}

}  // namespace kb
