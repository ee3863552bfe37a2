// Sampling: one token a row of logits. Greedy takes the largest logit, the first of equal ones. Random takes the largest
// softmax(logit / temperature) / noise with exponential noise, which draws from that softmax (the exponential race); it
// compares logit / temperature - log(noise), which orders the same and needs no sum. A temperature of 0 makes a row greedy.
// NaN never wins.
//
// Rows are long and few, so that each is cut into segments: `scan` finds the best of a segment, `pick` the best of a row.

#include "../include/vector.h"
#include "../include/wave.h"

namespace kb {

// A score and where it was found.
struct Best {
    float score = -infinity;
    u32 index = ~0u;

    // Takes a later candidate in: it must be strictly better.
    KB_INLINE void offer(float candidate, u32 at) {
        const bool better = candidate > score;
        score = better ? candidate : score;
        index = better ? at : index;
    }
};

// The best of the wave; of equal scores the one with the smallest index.
KB_DEVICE Best best_of_wave(Best best) {
    const float score = reduce_wave<Max>(best.score);
    return Best{score, reduce_wave_min(best.score == score ? best.index : ~0u)};
}

// How logits become scores, which order as probability / noise do.
struct Row {
    bool greedy;
    // log2(e) / temperature
    float slope;

    KB_INLINE float score(float logit, float noise) const { return greedy ? logit : fma(logit, slope, -log2(noise)); }
};

KB_DEVICE Row row_of(const float* temperature, u32 row) {
    const float t = temperature == nullptr ? 0.0f : temperature[row];
    return Row{t == 0.0f, log2e / t};
}

// 256 work-items over one segment of a row; logits by chunks of eight.
template <class X>
KB_INLINE Best scan_chunks(const X* __restrict__ logits, const float* __restrict__ noise, Row row, u32 first, u32 last) {
    Best best;
    for (u32 column = first + thread_x() * 8; column < last; column += 256 * 8) {
        const f32x8 values = load8(logits + column);
        if (row.greedy) {
#pragma unroll
            for (u32 element = 0; element < 8; ++element) best.offer(values[element], column + element);
        } else {
            const f32x8 drawn = load8(noise + column);
#pragma unroll
            for (u32 element = 0; element < 8; ++element) {
                best.offer(row.score(values[element], drawn[element]), column + element);
            }
        }
    }
    return best;
}

// The same by single elements, for vocabularies that are no multiple of eight.
template <class X>
KB_INLINE Best scan_elements(const X* __restrict__ logits, const float* __restrict__ noise, Row row, u32 first, u32 last) {
    Best best;
    for (u32 column = first + thread_x(); column < last; column += 256) {
        best.offer(row.score(load1(logits + column), row.greedy ? 1.0f : noise[column]), column);
    }
    return best;
}

// Grid (segments, batch). `best_score` and `best_index` are [batch, segments].
template <class X, bool chunked>
KB_INLINE void scan(const X* __restrict__ logits, const float* __restrict__ temperature, const float* __restrict__ noise,
                    float* __restrict__ best_score, u32* __restrict__ best_index, u32 vocab, u32 segment, u32 segments) {
    __shared__ float scores[256 / wave_size];
    __shared__ u32 indices[256 / wave_size];
    const u32 batch_row = group_y();
    const u64 start = u64(batch_row) * vocab;
    const u32 first = group_x() * segment;
    const u32 last = min_u32(vocab, first + segment);
    const Row row = row_of(temperature, batch_row);
    Best best = chunked ? scan_chunks(logits + start, noise + start, row, first, last)
                        : scan_elements(logits + start, noise + start, row, first, last);
    best = best_of_wave(best);
    if (lane_id() == 0) {
        scores[wave_id()] = best.score;
        indices[wave_id()] = best.index;
    }
    barrier_lds();
    if (thread_x() == 0) {
        // Waves interleave, so that equal scores may come in any order.
        for (u32 wave = 1; wave < 256 / wave_size; ++wave) {
            const bool better =
                scores[wave] > best.score || (scores[wave] == best.score && indices[wave] < best.index);
            best = better ? Best{scores[wave], indices[wave]} : best;
        }
        best_score[batch_row * segments + group_x()] = best.score;
        best_index[batch_row * segments + group_x()] = best.index;
    }
}

#define SCAN(name, X, chunked)                                                                                           \
    KB_KERNEL_FIXED(256)                                                                                                 \
    kb_sampling_scan_##name(const X* __restrict__ logits, const float* __restrict__ temperature,                         \
                            const float* __restrict__ noise, float* __restrict__ best_score, u32* __restrict__ best_index, \
                            u32 vocab, u32 segment, u32 segments) {                                                      \
        scan<X, chunked>(logits, temperature, noise, best_score, best_index, vocab, segment, segments);                  \
    }

SCAN(bf16_chunks, bf16, true)
SCAN(f16_chunks, f16, true)
SCAN(f32_chunks, float, true)
SCAN(bf16_elements, bf16, false)
SCAN(f16_elements, f16, false)
SCAN(f32_elements, float, false)

// A wave a row; grid (batch). Segments are in order of their indices, and so are a lane's. A row of nothing but NaN gives 0.
template <class Out>
KB_INLINE void pick(const float* __restrict__ best_score, const u32* __restrict__ best_index, Out* __restrict__ out,
                    u32 segments) {
    const u32 row = group_x();
    Best best;
    for (u32 segment = thread_x(); segment < segments; segment += wave_size) {
        const u32 index = best_index[row * segments + segment];
        const float score = best_score[row * segments + segment];
        const bool better = index != ~0u && (score > best.score || best.index == ~0u);
        best = better ? Best{score, index} : best;
    }
    best = best_of_wave(best);
    if (thread_x() == 0) out[row] = Out(best.index == ~0u ? 0 : best.index);
}

KB_KERNEL(64)
kb_sampling_pick_i32(const float* __restrict__ best_score, const u32* __restrict__ best_index, i32* __restrict__ out,
                     u32 segments) {
    pick(best_score, best_index, out, segments);
}
KB_KERNEL(64)
kb_sampling_pick_i64(const float* __restrict__ best_score, const u32* __restrict__ best_index, i64* __restrict__ out,
                     u32 segments) {
    pick(best_score, best_index, out, segments);
}

}  // namespace kb
