// Dynamic quantisation: scale = largest magnitude / largest value of the format, stored f32; codes are of value / scale.
#pragma once

#include "vector.h"
#include "wave.h"

namespace kb {

// How the values of a row share scales: not at all, one a row, one a run of `group` elements.
enum class Quant { none, token, group };

// The largest magnitude of eight values; NaN does not count.
KB_DEVICE float largest_magnitude(f32x8 v) {
    float largest = max(abs(v[0]), abs(v[1]));
#pragma unroll
    for (u32 element = 2; element < 8; ++element) largest = max(largest, abs(v[element]));
    return largest;
}

// What values are multiplied with. A row of zeros has no scale to divide by and stays zero.
KB_DEVICE float inverse_of(float scale) { return scale > 0.0f ? 1.0f / scale : 0.0f; }

}  // namespace kb
