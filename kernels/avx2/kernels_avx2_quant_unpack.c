// Panels of all quantised types to plain blocks.
#include "kernels/avx2/kernels_avx2_quant_block.h"

ALWAYS_INLINE void unpack_words(or_quant_t type, const void *unit, uint32_t b, plain_block_t *out)
{
#pragma GCC unroll 8
    for (uint32_t word = 0; word < WORDS; word++) {
#pragma GCC unroll 2
        for (uint32_t h = 0; h < VECTORS; h++) {
            _mm256_store_si256((__m256i *)out->words[word][h * WIDTH],
                               word_of(type, unit, b, word, h));
        }
    }
}

ALWAYS_INLINE void unpack_block(or_quant_t type, shape_t s, const void *unit, uint32_t b,
                                plain_block_t *out)
{
    unpack_words(type, unit, b, out);
#pragma GCC unroll 2
    for (uint32_t g = 0; g < s.groups; g++) {
#pragma GCC unroll 2
        for (uint32_t h = 0; h < VECTORS; h++) {
            _mm256_store_ps(out->scales[g] + h * WIDTH, scales_of(type, unit, b, g, h));
            if (s.minima) {
                _mm256_store_ps(out->negated_minima[g] + h * WIDTH,
                                negated_minima_of(type, unit, b, g, h));
            }
        }
    }
}

#define DEFINE_UNPACK(name, type, shape, block_bytes)                                              \
    static void unpack_##name(const void *unit, uint32_t b, plain_block_t *out)                    \
    {                                                                                              \
        unpack_block(type, shape_##shape, unit, b, out);                                           \
    }

QUANT_TYPES(DEFINE_UNPACK)

#define UNPACK_OF_TYPE(name, type, shape, block_bytes) [type] = unpack_##name,

const unpack_avx2_t unpack_avx2[OR_QUANT_TYPES] = {QUANT_TYPES(UNPACK_OF_TYPE)};
