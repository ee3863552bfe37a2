// Element types that are known only when the kernel runs, for the general kernels that take every combination of them.
//
// A kind is the same in all work-items, so that the switches below are scalar branches.
#pragma once

#include "vector.h"

namespace kb {

// The numbers that launch rules pass.
enum Kind : u32 {
    kind_bf16 = 0,
    kind_f16 = 1,
    kind_f32 = 2,
    kind_e4m3fn = 3,
    kind_e4m3fnuz = 4,
    kind_e5m2 = 5,
    kind_e5m2fnuz = 6,
    kind_i8 = 7,
};

// Element `index` of a tensor of bf16, f16 or f32.
KB_DEVICE float load_float(const void* tensor, u64 index, u32 kind) {
    if (kind == kind_bf16) return load1(static_cast<const bf16*>(tensor) + index);
    if (kind == kind_f16) return load1(static_cast<const f16*>(tensor) + index);
    return load1(static_cast<const float*>(tensor) + index);
}

// Stores element `index` in any kind. Values for fp8 and int8 are in range, see pack4().
KB_DEVICE void store_any(void* tensor, u64 index, u32 kind, float value) {
    switch (kind) {
        case kind_bf16: return store1(static_cast<bf16*>(tensor) + index, value);
        case kind_f16: return store1(static_cast<f16*>(tensor) + index, value);
        case kind_f32: return store1(static_cast<float*>(tensor) + index, value);
        case kind_e4m3fn: return store1(static_cast<e4m3fn*>(tensor) + index, value);
        case kind_e4m3fnuz: return store1(static_cast<e4m3fnuz*>(tensor) + index, value);
        case kind_e5m2: return store1(static_cast<e5m2*>(tensor) + index, value);
        case kind_e5m2fnuz: return store1(static_cast<e5m2fnuz*>(tensor) + index, value);
        default: return store1(static_cast<int8*>(tensor) + index, value);
    }
}

// The largest value of a quantised kind.
KB_DEVICE float largest_of(u32 kind) {
    switch (kind) {
        case kind_e4m3fn: return e4m3fn::largest;
        case kind_e4m3fnuz: return e4m3fnuz::largest;
        case kind_e5m2:
        case kind_e5m2fnuz: return e5m2::largest;
        default: return int8::largest;
    }
}

}  // namespace kb
