// Choosing the experts of each token: softmax or sigmoid scores, optionally with a bias to choose by and restricted to the best
// groups of experts; the best `topk`, of equal ones the lowest first; weights renormalised and scaled.
//
// A wave takes a token. Each lane holds `slots` neighbouring experts in registers, as logits and as keys: integers whose order is
// the reverse of that of the numbers they are made of, so that the smallest is the best and NaN can be the worst. An expert is
// chosen by a minimum over the wave and a vote; the first lane that votes has the lowest of equal ones. Both scores grow with the
// logit, so that without a bias logits are compared and only the chosen are scored.
#include "../include/dynamic.h"
#include "../include/scan.h"

namespace kb {

// Worse than every number.
constexpr u32 no_key = ~0u;

// The key of a number, and the bits of the number of a key. Zeros of both signs are equal; NaN counts as −infinity.
KB_DEVICE u32 mirrored(u32 bits) { return i32(bits) < 0 ? bits : ~bits & 0x7FFFFFFFu; }
KB_DEVICE u32 key_of(float value) { return mirrored(bits_of(value == value ? value + 0.0f : -infinity)); }
KB_DEVICE float number_of(u32 key) { return float_of(mirrored(key)); }

KB_DEVICE float sigmoid(float value) { return rcp(1.0f + exp(-value)); }

struct Gate {
    u32 tokens;
    u32 experts;
    u32 topk;
    u32 is_sigmoid;
    u32 renormalize;
    u32 bias_kind; // of dynamic.h, when there is a bias
    float scale;
};

struct Groups {
    u32 groups; // at most a wave's lanes
    u32 size;
    u32 kept;
    u32 lanes; // of a group: a power of two
};

KB_DEVICE float to_f32(float value) { return value; }

// The lane's neighbouring logits of a row; −infinity beyond its end.
template <class X, u32 slots>
KB_INLINE void load_logits(const X* __restrict__ row, u32 experts, float (&logits)[slots]) {
    struct alignas(slots * sizeof(X) > 16 ? 16 : slots * sizeof(X)) Run {
        X values[slots];
    };
    const u32 first = lane_id() * slots;
    // Runs are whole and aligned in all lanes or in none.
    if (experts % slots == 0) {
        Run run = {};
        if (first < experts) run = *reinterpret_cast<const Run*>(row + first);
#pragma unroll
        for (u32 slot = 0; slot < slots; ++slot) logits[slot] = first < experts ? to_f32(run.values[slot]) : -infinity;
        return;
    }
#pragma unroll
    for (u32 slot = 0; slot < slots; ++slot) {
        logits[slot] = first + slot < experts ? load1(row + first + slot) : -infinity;
    }
}

// Takes experts of all but the best groups out of the choice. A group's lanes find its best keys together; then every lane counts
// the groups that are better than its own.
template <u32 slots>
KB_INLINE void keep_best_groups(u32 (&keys)[slots], u32* table, Gate gate, Groups groups, bool biased) {
    const u32 lane = lane_id();
#pragma unroll
    for (u32 slot = 0; slot < slots; ++slot) table[lane * slots + slot] = keys[slot];
    wave_order();
    const u32 group = lane / groups.lanes, part = lane & (groups.lanes - 1);
    const u32 first = group * groups.size;
    u32 best = no_key, second = no_key;
    if (group < groups.groups) {
        for (u32 at = part; at < groups.size; at += groups.lanes) {
            const u32 key = table[first + at];
            second = min_u32(second, max_u32(best, key));
            best = min_u32(best, key);
        }
    }
    for (u32 mask = 1; mask < groups.lanes; mask *= 2) {
        const u32 other_best = shuffle_xor(best, mask), other_second = shuffle_xor(second, mask);
        second = min_u32(max_u32(best, other_best), min_u32(second, other_second));
        best = min_u32(best, other_best);
    }
    const u32 key = biased ? key_of(number_of(best) + number_of(second)) : best;
    u32 better = 0;
    for (u32 other = 0; other < groups.groups; ++other) {
        const u32 other_key = read_lane(key, other * groups.lanes);
        better += other_key < key || (other_key == key && other < group) ? 1 : 0;
    }
    if (group < groups.groups && better >= groups.kept) {
        for (u32 at = part; at < groups.size; at += groups.lanes) table[first + at] = no_key;
    }
    wave_order();
#pragma unroll
    for (u32 slot = 0; slot < slots; ++slot) {
        keys[slot] = lane * slots + slot < gate.experts ? table[lane * slots + slot] : no_key;
    }
}

template <class X, u32 slots, bool grouped>
KB_INLINE void choose(const X* __restrict__ all_logits, const void* __restrict__ bias, float* __restrict__ weights,
                      i32* __restrict__ ids, Gate gate, Groups groups) {
    constexpr u32 waves = 256 / wave_size;
    __shared__ u32 tables[grouped ? waves : 1][grouped ? slots * wave_size : 1];
    const u32 token = group_x() * waves + wave_id();
    if (token >= gate.tokens) return;
    const u32 lane = lane_id();
    const bool biased = bias != nullptr;
    float logits[slots];
    load_logits<X, slots>(all_logits + u64(token) * gate.experts, gate.experts, logits);

    // A softmax over all experts where its sum enters a result.
    const bool whole_softmax = !gate.is_sigmoid && (biased || !gate.renormalize);
    float largest = 0.0f, inverse_sum = 1.0f;
    if (whole_softmax) {
        largest = -infinity;
#pragma unroll
        for (u32 slot = 0; slot < slots; ++slot) largest = max(largest, logits[slot]);
        largest = reduce_wave<Max>(largest);
        float sum = 0.0f;
#pragma unroll
        for (u32 slot = 0; slot < slots; ++slot) sum += exp(logits[slot] - largest);
        inverse_sum = 1.0f / reduce_wave<Sum>(sum);
    }

    u32 keys[slots];
#pragma unroll
    for (u32 slot = 0; slot < slots; ++slot) {
        const u32 expert = lane * slots + slot;
        float number = logits[slot];
        if (biased) {
            const float score = gate.is_sigmoid ? sigmoid(number) : exp(number - largest) * inverse_sum;
            number = score + (expert < gate.experts ? load_float(bias, expert, gate.bias_kind) : 0.0f);
        }
        keys[slot] = expert < gate.experts ? key_of(number) : no_key;
    }
    if (grouped) keep_best_groups<slots>(keys, tables[grouped ? wave_id() : 0], gate, groups, biased);

    // Lane r keeps the choice of round r.
    u32 chosen = 0;
    float logit = 0.0f;
    for (u32 round = 0; round < gate.topk; ++round) {
        u32 best = keys[0];
#pragma unroll
        for (u32 slot = 1; slot < slots; ++slot) best = min_u32(best, keys[slot]);
        const u32 winner = reduce_wave_min(best);
        const u32 owner = first_lane(lanes_where(best == winner));
        u32 own_slot = 0;
        float own_logit = logits[0];
#pragma unroll
        for (u32 slot = slots - 1; slot > 0; --slot) {
            const bool here = keys[slot] == winner;
            own_slot = here ? slot : own_slot;
            own_logit = here ? logits[slot] : own_logit;
        }
        if (keys[0] == winner) {
            own_slot = 0;
            own_logit = logits[0];
        }
        const u32 taken = read_lane(own_slot, owner);
        const float taken_logit = read_lane(own_logit, owner);
#pragma unroll
        for (u32 slot = 0; slot < slots; ++slot) {
            if (lane == owner && slot == taken) keys[slot] = no_key;
        }
        chosen = lane == round ? owner * slots + taken : chosen;
        logit = lane == round ? taken_logit : logit;
    }

    // Without a sum over all experts any reference cancels out, and the best logit is the safe one.
    if (!whole_softmax) largest = read_lane(logit, 0);
    float weight = gate.is_sigmoid ? sigmoid(logit) : exp(logit - largest) * inverse_sum;
    weight = lane < gate.topk ? weight : 0.0f;
    const float factor = gate.renormalize ? gate.scale / reduce_wave<Sum>(weight) : gate.scale;
    if (lane < gate.topk) {
        const u64 to = u64(token) * gate.topk + lane;
        weights[to] = weight * factor;
        ids[to] = i32(chosen);
    }
}

#define GATE(name, X, slots)                                                                                             \
    KB_KERNEL_FIXED(256)                                                                                                 \
    kb_moe_gate_##name##_flat_s##slots(const X *__restrict__ logits, const void *__restrict__ bias,                       \
                                       float *__restrict__ weights, i32 *__restrict__ ids, u32 tokens, u32 experts,      \
                                       u32 topk, u32 is_sigmoid, u32 renormalize, u32 bias_kind, float scale) {          \
        const Gate gate = {tokens, experts, topk, is_sigmoid, renormalize, bias_kind, scale};                            \
        choose<X, slots, false>(logits, bias, weights, ids, gate, Groups{1, experts, 1, 1});                             \
    }                                                                                                                    \
    KB_KERNEL_FIXED(256)                                                                                                 \
    kb_moe_gate_##name##_grouped_s##slots(const X *__restrict__ logits, const void *__restrict__ bias,                    \
                                          float *__restrict__ weights, i32 *__restrict__ ids, u32 tokens, u32 experts,   \
                                          u32 topk, u32 is_sigmoid, u32 renormalize, u32 bias_kind, float scale,         \
                                          u32 groups, u32 size, u32 kept, u32 lanes) {                                   \
        const Gate gate = {tokens, experts, topk, is_sigmoid, renormalize, bias_kind, scale};                            \
        choose<X, slots, true>(logits, bias, weights, ids, gate, Groups{groups, size, kept, lanes});                     \
    }
#define GATES(name, X)                                                                                                   \
    GATE(name, X, 1)                                                                                                     \
    GATE(name, X, 2)                                                                                                     \
    GATE(name, X, 4)                                                                                                     \
    GATE(name, X, 8)                                                                                                     \
    GATE(name, X, 16)                                                                                                    \
    GATE(name, X, 32)

GATES(bf16, bf16)
GATES(f16, f16)
GATES(f32, float)

}  // namespace kb
