// Writing a step's keys and values into a cache in pages, as they are or quantised to fp8 or int8 by a given scale or by one for
// each token and head. A token's slot is a number of 32 bits; −1 goes nowhere.
//
// `rows`: where a token's elements stand together in the cache (flash and latent layouts), a workgroup copies one token.
// `paged`: a run of `lanes` lanes takes a head of a token, and neighbouring runs take neighbouring tokens, which mostly have
// neighbouring slots, so that what the layout scatters is gathered again over the runs. `general` takes everything.
#include "../include/dynamic.h"
#include "../include/quant.h"

namespace kb {

// ---- Codes

// Eight elements as they are stored.
template <class Out>
struct Codes {
    static constexpr u32 count = sizeof(Out) * 2;
    u32 words[count];

    KB_INLINE void store_all(Out* to) const {
        if (count == 2) {
            *reinterpret_cast<u32x2*>(to) = u32x2{words[0], words[1]};
            return;
        }
#pragma unroll
        for (u32 i = 0; i + 4 <= count; i += 4) {
            *(reinterpret_cast<u32x4*>(to) + i / 4) = u32x4{words[i], words[i + 1], words[i + 2], words[i + 3]};
        }
    }
    KB_INLINE void store_one(Out* to, u32 element) const {
        if (sizeof(Out) == 1) *reinterpret_cast<u8*>(to) = u8(words[element / 4] >> (8 * (element % 4)));
        if (sizeof(Out) == 2) *reinterpret_cast<u16*>(to) = u16(words[element / 2 % count] >> (16 * (element % 2)));
        if (sizeof(Out) == 4) *reinterpret_cast<u32*>(to) = words[element % count];
    }
};

KB_DEVICE Codes<bf16> codes_of(raw8<bf16> raw) { return {{raw.words[0], raw.words[1], raw.words[2], raw.words[3]}}; }
KB_DEVICE Codes<f16> codes_of(raw8<f16> raw) { return {{raw.words[0], raw.words[1], raw.words[2], raw.words[3]}}; }
KB_DEVICE Codes<float> codes_of(raw8<float> raw) {
    return {{raw.words[0], raw.words[1], raw.words[2], raw.words[3], raw.more[0], raw.more[1], raw.more[2], raw.more[3]}};
}

// Without quantisation elements stay as they are, which same() says.
template <class X, class Out>
struct same {
    static constexpr bool value = false;
};
template <class X>
struct same<X, X> {
    static constexpr bool value = true;
};

template <class Out, class X>
KB_INLINE Codes<Out> encode(raw8<X> raw, float multiplier) {
    if constexpr (same<X, Out>::value) {
        return codes_of(raw);
    } else {
        f32x8 v = decode8(raw) * multiplier;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) v[i] = saturate<Out>(v[i]);
        return {{pack4<Out>(v[0], v[1], v[2], v[3]), pack4<Out>(v[4], v[5], v[6], v[7])}};
    }
}

// ---- Rows

// Two operands of a token side by side: keys and values, or the latent and the rotary key.
template <class X, class Out>
KB_INLINE void rows(const i64* __restrict__ slots, const X* __restrict__ first, const X* __restrict__ second,
                    Out* __restrict__ first_cache, Out* __restrict__ second_cache, const float* __restrict__ first_scale,
                    const float* __restrict__ second_scale, u32 first_width, u32 second_width, u32 stride, u32 threads) {
    const u64 token = group_x();
    const i64 slot = slots[token];
    if (slot < 0) return;
    float first_multiplier = 1.0f, second_multiplier = 1.0f;
    if (!same<X, Out>::value) {
        first_multiplier = 1.0f / *first_scale;
        second_multiplier = 1.0f / *second_scale;
    }
    for (u32 at = thread_x() * 8; at < first_width + second_width; at += threads * 8) {
        const bool is_first = at < first_width;
        const u32 column = is_first ? at : at - first_width;
        const X* const in = is_first ? first + token * first_width : second + token * second_width;
        Out* const out = (is_first ? first_cache : second_cache) + u64(slot) * stride;
        const Codes<Out> codes = encode<Out>(load_raw8(in + column), is_first ? first_multiplier : second_multiplier);
        codes.store_all(out + column);
    }
}

#define ROWS(name, X, Out)                                                                                               \
    KB_KERNEL(256)                                                                                                       \
    kb_kv_cache_rows_##name(const i64 *__restrict__ slots, const X *__restrict__ first, const X *__restrict__ second,     \
                            Out *__restrict__ first_cache, Out *__restrict__ second_cache,                               \
                            const float *__restrict__ first_scale, const float *__restrict__ second_scale,               \
                            u32 first_width, u32 second_width, u32 stride, u32 threads) {                                \
        rows<X, Out>(slots, first, second, first_cache, second_cache, first_scale, second_scale, first_width,            \
                     second_width, stride, threads);                                                                     \
    }

ROWS(bf16, bf16, bf16)
ROWS(bf16_fp8, bf16, fp8)
ROWS(bf16_i8, bf16, int8)
ROWS(f16, f16, f16)
ROWS(f16_fp8, f16, fp8)
ROWS(f16_i8, f16, int8)
ROWS(f32, float, float)

// ---- Pages

// How an operand's elements stand in the cache; the numbers are those of the launch rules.
enum Form : u32 {
    form_rows = 0,       // [slot, heads, d]
    form_chunks = 1,     // [page, heads, d/x, block, x]
    form_transposed = 2, // [page, heads, d, block]
    form_shuffled = 3,   // [page, heads, block/x, d, x]
};

// One head of a token in the cache.
struct Place {
    u32 slot;
    u32 page;
    u32 in_page;
    u32 head;
    u32 heads;
    u32 dim;
    u32 block;
    u32 form;

    // Index of an element; `x` elements are 16 bytes.
    KB_INLINE u64 element(u32 d, u32 x) const {
        const u64 head_of_page = u64(page) * heads + head;
        if (form == form_rows) return (u64(slot) * heads + head) * dim + d;
        if (form == form_chunks) return ((head_of_page * (dim / x) + d / x) * block + in_page) * x + d % x;
        if (form == form_transposed) return (head_of_page * dim + d) * block + in_page;
        return ((head_of_page * (block / x) + in_page / x) * dim + d) * x + in_page % x;
    }
    // Elements from one to the next in the forms that scatter them.
    KB_INLINE u32 step(u32 x) const { return form == form_transposed ? block : x; }
    // Index of its scale.
    KB_INLINE u64 scale(bool by_slot) const {
        return by_slot ? u64(slot) * heads + head : (u64(page) * heads + head) * block + in_page;
    }
};

KB_DEVICE Place place_of(i64 slot, u32 head, u32 heads, u32 dim, u32 block, u32 form) {
    const u32 own = u32(slot), page = own / block;
    return Place{own, page, own - page * block, head, heads, dim, block, form};
}

template <class X, class Out, u32 lanes, u32 chunks>
KB_INLINE void paged(const i64* __restrict__ slots, const X* __restrict__ key, const X* __restrict__ value,
                     Out* __restrict__ key_cache, Out* __restrict__ value_cache, float* __restrict__ key_scale,
                     float* __restrict__ value_scale, u32 tokens, u32 heads, u32 dim, u32 block, u32 key_form,
                     u32 value_form, u32 by_token) {
    constexpr u32 x = 16 / sizeof(Out);
    const u32 part = thread_x() % lanes;
    const u32 token = group_x() * (256 / lanes) + thread_x() / lanes;
    const u32 head = group_y();
    const bool is_value = group_z() != 0;
    const X* const in = (is_value ? value : key) + (u64(token) * heads + head) * dim;
    const bool inside = token < tokens;

    raw8<X> raw[chunks] = {};
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        const u32 column = (part + i * lanes) * 8;
        if (inside && column < dim) raw[i] = load_raw8(in + column);
    }
    const i64 slot = inside ? slots[token] : -1;
    const u32 form = is_value ? value_form : key_form;
    const Place place = place_of(slot < 0 ? 0 : slot, head, heads, dim, block, form);
    float multiplier = 1.0f;
    if constexpr (!same<X, Out>::value) {
        float* const scales = is_value ? value_scale : key_scale;
        if (by_token) {
            float largest = 0.0f;
#pragma unroll
            for (u32 i = 0; i < chunks; ++i) largest = max(largest, largest_magnitude(decode8(raw[i])));
            const float scale = reduce_lanes<MaxMagnitude, lanes>(largest) * (1.0f / Out::largest);
            multiplier = inverse_of(scale);
            if (slot >= 0 && part == 0) scales[place.scale(key_form == form_rows)] = scale;
        } else {
            multiplier = 1.0f / *scales;
        }
    }
    if (slot < 0) return;
    Out* const out = is_value ? value_cache : key_cache;
#pragma unroll
    for (u32 i = 0; i < chunks; ++i) {
        const u32 column = (part + i * lanes) * 8;
        if (column >= dim) break;
        const Codes<Out> codes = encode<Out>(raw[i], multiplier);
        Out* const to = out + place.element(column, x);
        if (form == form_rows || form == form_chunks) {
            codes.store_all(to);
        } else {
            const u32 step = place.step(x);
#pragma unroll
            for (u32 element = 0; element < 8; ++element) codes.store_one(to + element * step, element);
        }
    }
}

#define PAGED(name, X, Out, lanes, chunks)                                                                               \
    KB_KERNEL_FIXED(256)                                                                                                 \
    kb_kv_cache_paged_##name##_l##lanes##c##chunks(                                                                      \
        const i64 *__restrict__ slots, const X *__restrict__ key, const X *__restrict__ value,                           \
        Out *__restrict__ key_cache, Out *__restrict__ value_cache, float *__restrict__ key_scale,                       \
        float *__restrict__ value_scale, u32 tokens, u32 heads, u32 dim, u32 block, u32 key_form, u32 value_form,        \
        u32 by_token) {                                                                                                  \
        paged<X, Out, lanes, chunks>(slots, key, value, key_cache, value_cache, key_scale, value_scale, tokens, heads,   \
                                     dim, block, key_form, value_form, by_token);                                        \
    }
// Few lanes a head where the layout scatters, so that a wave holds many tokens; more where a head's elements stand together.
#define SCATTERED(name, X, Out) PAGED(name, X, Out, 4, 4) PAGED(name, X, Out, 4, 8)
#define TOGETHER(name, X, Out) PAGED(name, X, Out, 16, 1) PAGED(name, X, Out, 16, 2)

SCATTERED(bf16, bf16, bf16)
SCATTERED(bf16_fp8, bf16, fp8)
SCATTERED(bf16_i8, bf16, int8)
SCATTERED(f16, f16, f16)
SCATTERED(f16_fp8, f16, fp8)
SCATTERED(f16_i8, f16, int8)
TOGETHER(bf16_fp8, bf16, fp8)
TOGETHER(bf16_i8, bf16, int8)
TOGETHER(f16_fp8, f16, fp8)
TOGETHER(f16_i8, f16, int8)

// ---- Everything else

// A wave a token, head and operand, an element a lane at a time. `quant`: 0 none, 1 by a given scale, 2 by a scale of the token's
// head. With `stride` > 0 a token's place in the cache has that many elements, and the second operand begins at `second_first`.
KB_KERNEL_FIXED(256)
kb_kv_cache_general(const i64* __restrict__ slots, const void* __restrict__ key, const void* __restrict__ value,
                    void* __restrict__ key_cache, void* __restrict__ value_cache, float* key_scale, float* value_scale,
                    u32 tokens, u32 heads, u32 key_dim, u32 value_dim, u32 block, u32 key_form, u32 value_form, u32 stride,
                    u32 second_first, u32 quant, u32 x_kind, u32 kv_kind) {
    const u32 token = group_x() * (256 / wave_size) + wave_id();
    if (token >= tokens) return;
    const i64 slot = slots[token];
    if (slot < 0) return;
    const u32 head = group_y();
    const bool is_value = group_z() != 0;
    const void* const in = is_value ? value : key;
    void* const out = is_value ? value_cache : key_cache;
    float* const scales = is_value ? value_scale : key_scale;
    const u32 dim = is_value ? value_dim : key_dim;
    const u64 base = (u64(token) * heads + head) * dim;
    const Place place = place_of(slot, head, heads, dim, block, is_value ? value_form : key_form);
    const u32 x = kv_kind == kind_f32 ? 4 : kv_kind <= kind_f16 ? 8 : 16;
    const float limit = kv_kind > kind_f32 ? largest_of(kv_kind) : infinity;
    float multiplier = 1.0f;
    if (quant == 1) multiplier = 1.0f / *scales;
    if (quant == 2) {
        float largest = 0.0f;
        for (u32 d = lane_id(); d < dim; d += wave_size) largest = max(largest, abs(load_float(in, base + d, x_kind)));
        const float scale = reduce_wave<MaxMagnitude>(largest) / limit;
        multiplier = inverse_of(scale);
        if (lane_id() == 0) scales[place.scale(key_form == form_rows)] = scale;
    }
    for (u32 d = lane_id(); d < dim; d += wave_size) {
        const float own = load_float(in, base + d, x_kind);
        const float scaled = own * multiplier;
        const float stored = quant == 0 ? own : scaled != scaled ? scaled : med3(scaled, -limit, limit);
        const u64 row = u64(place.slot) * stride + (is_value ? second_first : 0) + d;
        store_any(out, stride > 0 ? row : place.element(d, x), kv_kind, stored);
    }
}

}  // namespace kb
