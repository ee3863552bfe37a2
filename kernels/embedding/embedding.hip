// Embedding: out[token] = table[ids[token]], rows copied as they are, whatever their type.
//
// The id of a row is read once, by the scalar unit; `v16` copies rows of whole 16-byte chunks, one chunk a work-item,
// `v4` and `v2` rows of whole 4-byte and 2-byte ones.

#include "../include/vector.h"

namespace kb {

template <class Id, class Chunk>
KB_INLINE void gather(const Id* __restrict__ ids, const Chunk* __restrict__ table, Chunk* __restrict__ out, u32 row_chunks,
                      u32 threads) {
    const u64 token = group_x();
    const u32 chunk = group_y() * threads + thread_x();
    if (chunk < row_chunks) out[token * row_chunks + chunk] = table[u64(ids[token]) * row_chunks + chunk];
}

#define GATHER(name, Id, Chunk)                                                                                          \
    KB_KERNEL(256) kb_embedding_##name(const Id *__restrict__ ids, const Chunk *__restrict__ table,                       \
                                       Chunk *__restrict__ out, u32 row_chunks, u32 threads) {                           \
        gather(ids, table, out, row_chunks, threads);                                                                    \
    }

GATHER(i32_v16, i32, u32x4)
GATHER(i32_v4, i32, u32)
GATHER(i32_v2, i32, u16)
GATHER(i64_v16, i64, u32x4)
GATHER(i64_v4, i64, u32)
GATHER(i64_v2, i64, u16)

}  // namespace kb
