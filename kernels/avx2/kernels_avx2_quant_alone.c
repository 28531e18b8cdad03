// The product of quantised weights and a single row, for AVX2.
//
// A row alone reads each weight once, so nothing is worth a copy: a block goes from memory through registers into the
// chains of its 16 outputs. Panels are read one after the other, each from front to back, the order of addresses in
// which the processor's own prefetchers read ahead.
#include "kernels/avx2/kernels_avx2_quant_sums.h"

#define AHEAD 2048u // bytes
#define CACHE_LINE 64u

// Fetch as much as a block has, that far ahead of it.
ALWAYS_INLINE void fetch_ahead(const char *at, size_t bytes)
{
#pragma GCC unroll 9
    for (size_t i = 0; i < bytes; i += CACHE_LINE) {
        _mm_prefetch(at + AHEAD + i, _MM_HINT_T1);
    }
}

// The steps of block b.
ALWAYS_INLINE void step_block(or_quant_t type, shape_t s, const void *panel, size_t b,
                              const or_q8_block_t *x, __m256 chains[VECTORS])
{
#pragma GCC unroll 2
    for (uint32_t half = 0; half < VECTORS; half += s.halves) {
#pragma GCC unroll 2
        for (uint32_t g = 0; g < s.groups; g++) {
            __m256i sums[TILE_ROWS][VECTORS];
            sum_group(type, s, panel, b, half, g, x, 0, 1, sums);
            step(type, s, panel, b, half, g, x, sums[0], chains + half);
        }
    }
}

ALWAYS_INLINE void multiply_alone(or_quant_t type, shape_t s, size_t block_bytes,
                                  const or_quant_panels_t *w, const or_q8_block_t *x, float *y)
{
    for (uint32_t p = 0; p < w->count; p++) {
        const char *panel = (const char *)w->panels + p * w->panel_bytes;
        __m256 chains[VECTORS] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        for (size_t i = 0; i < w->blocks; i++) {
            size_t b = w->first + i;
            fetch_ahead(panel + b * block_bytes, block_bytes);
            step_block(type, s, panel, b, x + i, chains);
        }
        _mm256_storeu_ps(y + (size_t)p * OR_PANEL, chains[0]);
        _mm256_storeu_ps(y + (size_t)p * OR_PANEL + WIDTH, chains[1]);
    }
}

#define DEFINE_ALONE(name, type, shape, block_bytes)                                               \
    static void alone_##name(const or_quant_panels_t *w, const or_q8_block_t *x, float *y)         \
    {                                                                                              \
        multiply_alone(type, shape_##shape, block_bytes, w, x, y);                                 \
    }

QUANT_TYPES(DEFINE_ALONE)

#define ALONE_OF_TYPE(name, type, shape, block_bytes) [type] = alone_##name,

const alone_avx2_t multiply_alone_avx2[OR_QUANT_TYPES] = {QUANT_TYPES(ALONE_OF_TYPE)};
