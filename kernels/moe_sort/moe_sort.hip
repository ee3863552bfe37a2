// Sorting the choices of a step's tokens by expert into padded blocks: a stable counting sort without atomics, so that the
// order (expert, then token, then slot) is the same in every run.
//
// Choices in order are cut into chunks, one a wave. A wave counts its chunk's choices of each expert; prefix sums over chunks and
// over experts tell where each wave's choices of each expert go; then it goes through its chunk again and puts them there. Lanes
// with the same expert find each other by votes. Few choices are sorted by one workgroup in one launch, more by three.
#include "../include/scan.h"

namespace kb {

constexpr u32 most_experts = 1024;
constexpr u32 token_bits = 24;

struct Sizes {
    u32 tokens;
    u32 experts;
    u32 topk;
    u32 block_m;
    u32 expert_bits; // of the largest expert number
};

struct Tables {
    i32* token_ids;
    float* weights;
    i32* expert_ids;
    i32* lengths;
};

// Adds the wave's choices `begin` to `end` to its counters.
template <class Counter>
KB_INLINE void count_chunk(const i32* __restrict__ ids, u32 begin, u32 end, u32 expert_bits, Counter* counters) {
    for (u32 base = begin; base < end; base += wave_size) {
        const u32 choice = base + lane_id();
        const bool inside = choice < end;
        const u32 expert = inside ? ids[choice] : 0;
        const u64 same = lanes_with(expert, expert_bits, lanes_where(inside));
        if (inside && count_before(same) == 0) counters[expert] += count_lanes(same);
        wave_order();
    }
}

// Puts the wave's choices `begin` to `end` where `place` of their expert and its counter say.
template <class Counter, class Place>
KB_INLINE void scatter_chunk(const i32* __restrict__ ids, const float* __restrict__ weights, u32 begin, u32 end, Sizes sizes,
                             Counter* counters, Place place, Tables tables) {
    for (u32 base = begin; base < end; base += wave_size) {
        const u32 choice = base + lane_id();
        const bool inside = choice < end;
        const u32 expert = inside ? ids[choice] : 0;
        const u64 same = lanes_with(expert, sizes.expert_bits, lanes_where(inside));
        const u32 rank = count_before(same);
        const u32 used = counters[expert];
        wave_order();
        if (inside && rank == 0) counters[expert] = used + count_lanes(same);
        wave_order();
        if (inside) {
            const u32 to = place(expert) + used + rank;
            const u32 token = choice / sizes.topk, slot = choice - token * sizes.topk;
            tables.token_ids[to] = i32(slot << token_bits | token);
            tables.weights[to] = weights[choice];
        }
    }
}

// What an expert's blocks hold beside its choices: their expert, and padding. By `lanes` work-items, of which this is `lane`.
KB_DEVICE void finish_expert(u32 expert, u32 first_block, u32 count, u32 lane, u32 lanes, Sizes sizes, Tables tables) {
    const u32 blocks = ceil_div(count, sizes.block_m);
    for (u32 block = lane; block < blocks; block += lanes) tables.expert_ids[first_block + block] = i32(expert);
    const u32 first = first_block * sizes.block_m;
    for (u32 at = count + lane; at < blocks * sizes.block_m; at += lanes) {
        tables.token_ids[first + at] = i32(sizes.topk << token_bits | sizes.tokens);
        tables.weights[first + at] = 0.0f;
    }
}

// From the choices of all experts, in LDS, the first block of each; returns the number of blocks.
template <u32 threads>
KB_INLINE u32 first_blocks(const u32* counts, u32* first_block, Sizes sizes, u32* scratch) {
    constexpr u32 each = most_experts / threads;
    u32 blocks[each];
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
        const u32 expert = thread_x() * each + i;
        blocks[i] = expert < sizes.experts ? ceil_div(counts[expert], sizes.block_m) : 0;
        sum += blocks[i];
    }
    const Prefix prefix = scan_group<threads>(sum, scratch);
    u32 before = prefix.before;
#pragma unroll
    for (u32 i = 0; i < each; ++i) {
        first_block[thread_x() * each + i] = before;
        before += blocks[i];
    }
    barrier_lds();
    return prefix.total;
}

KB_DEVICE void store_lengths(u32 blocks, Sizes sizes, Tables tables) {
    tables.lengths[0] = i32(blocks * sizes.block_m);
    tables.lengths[1] = i32(sizes.tokens);
}

// All in one workgroup: up to 65535 choices a wave, meant for a few thousand in all.
KB_KERNEL_FIXED(512)
kb_moe_sort_small(const i32* __restrict__ ids, const float* __restrict__ weights, i32* __restrict__ token_ids,
                  float* __restrict__ sorted_weights, i32* __restrict__ expert_ids, i32* __restrict__ lengths, u32 tokens,
                  u32 experts, u32 topk, u32 block_m, u32 expert_bits) {
    constexpr u32 threads = 512, waves = threads / wave_size;
    __shared__ u16 counters[waves][most_experts];
    __shared__ u32 counts[most_experts];
    __shared__ u32 first_block[most_experts];
    __shared__ u32 scratch[max_waves];
    const Sizes sizes = {tokens, experts, topk, block_m, expert_bits};
    const Tables tables = {token_ids, sorted_weights, expert_ids, lengths};
    const u32 choices = tokens * topk;
    const u32 chunk = ceil_div(choices, waves * wave_size) * wave_size;
    const u32 wave = wave_id();
    const u32 begin = min_u32(wave * chunk, choices), end = min_u32(begin + chunk, choices);

    for (u32 expert = lane_id(); expert < experts; expert += wave_size) counters[wave][expert] = 0;
    wave_order();
    count_chunk(ids, begin, end, expert_bits, counters[wave]);
    barrier_lds();
    for (u32 expert = thread_x(); expert < experts; expert += threads) {
        u32 before = 0;
#pragma unroll
        for (u32 other = 0; other < waves; ++other) {
            const u32 own = counters[other][expert];
            counters[other][expert] = u16(before);
            before += own;
        }
        counts[expert] = before;
    }
    barrier_lds();
    const u32 blocks = first_blocks<threads>(counts, first_block, sizes, scratch);
    if (thread_x() == 0) store_lengths(blocks, sizes, tables);
    scatter_chunk(ids, weights, begin, end, sizes, counters[wave], [&](u32 expert) { return first_block[expert] * block_m; },
                  tables);
    for (u32 expert = wave; expert < experts; expert += waves) {
        finish_expert(expert, first_block[expert], counts[expert], lane_id(), wave_size, sizes, tables);
    }
}

// The first of three launches: counts of each chunk, partial[expert · chunks + chunk].
KB_KERNEL_FIXED(256)
kb_moe_sort_count(const i32* __restrict__ ids, u32* __restrict__ partial, u32 choices, u32 experts, u32 expert_bits,
                  u32 chunk_size, u32 chunks) {
    constexpr u32 waves = 256 / wave_size;
    __shared__ u32 counters[waves][most_experts];
    const u32 wave = wave_id(), chunk = group_x() * waves + wave;
    const u32 begin = min_u32(chunk * chunk_size, choices), end = min_u32(begin + chunk_size, choices);
    for (u32 expert = lane_id(); expert < experts; expert += wave_size) counters[wave][expert] = 0;
    wave_order();
    count_chunk(ids, begin, end, expert_bits, counters[wave]);
    if (chunk >= chunks) return;
    for (u32 expert = lane_id(); expert < experts; expert += wave_size) {
        partial[expert * chunks + chunk] = counters[wave][expert];
    }
}

// The second: a workgroup an expert replaces its counts by the sums of those before, and keeps their total.
KB_KERNEL_FIXED(256)
kb_moe_sort_scan(u32* __restrict__ partial, u32* __restrict__ counts, u32 chunks) {
    constexpr u32 threads = 256;
    __shared__ u32 scratch[max_waves];
    u32* const own = partial + group_x() * chunks;
    u32 carried = 0;
    for (u32 base = 0; base < chunks; base += threads) {
        const u32 chunk = base + thread_x();
        const u32 count = chunk < chunks ? own[chunk] : 0;
        const Prefix prefix = scan_group<threads>(count, scratch);
        if (chunk < chunks) own[chunk] = carried + prefix.before;
        carried += prefix.total;
    }
    if (thread_x() == 0) counts[group_x()] = carried;
}

// The third: every workgroup works out the first blocks for itself, which is cheaper than a launch, puts its waves' chunks in
// their places, and finishes its share of the experts.
KB_KERNEL_FIXED(256)
kb_moe_sort_scatter(const i32* __restrict__ ids, const float* __restrict__ weights, const u32* __restrict__ partial,
                    const u32* __restrict__ all_counts, i32* __restrict__ token_ids, float* __restrict__ sorted_weights,
                    i32* __restrict__ expert_ids, i32* __restrict__ lengths, u32 tokens, u32 experts, u32 topk, u32 block_m,
                    u32 expert_bits, u32 chunk_size, u32 chunks, u32 groups) {
    constexpr u32 threads = 256, waves = threads / wave_size;
    __shared__ u32 counters[waves][most_experts];
    __shared__ u32 counts[most_experts];
    __shared__ u32 first_block[most_experts];
    __shared__ u32 scratch[max_waves];
    const Sizes sizes = {tokens, experts, topk, block_m, expert_bits};
    const Tables tables = {token_ids, sorted_weights, expert_ids, lengths};
    const u32 choices = tokens * topk;
    const u32 wave = wave_id(), chunk = group_x() * waves + wave;
    const u32 begin = min_u32(chunk * chunk_size, choices), end = min_u32(begin + chunk_size, choices);

    for (u32 expert = thread_x(); expert < experts; expert += threads) counts[expert] = all_counts[expert];
    barrier_lds();
    const u32 blocks = first_blocks<threads>(counts, first_block, sizes, scratch);
    if (group_x() == 0 && thread_x() == 0) store_lengths(blocks, sizes, tables);
    if (chunk < chunks) {
        for (u32 expert = lane_id(); expert < experts; expert += wave_size) {
            counters[wave][expert] = first_block[expert] * block_m + partial[expert * chunks + chunk];
        }
        wave_order();
        scatter_chunk(ids, weights, begin, end, sizes, counters[wave], [](u32) { return 0u; }, tables);
    }
    for (u32 expert = group_x(); expert < experts; expert += groups) {
        finish_expert(expert, first_block[expert], counts[expert], thread_x(), threads, sizes, tables);
    }
}

}  // namespace kb
