// kernels_avx512_quant_alone - the product of quantised weights and a single row, compiled twice: with VNNI and without.
//
// A row alone reads each weight once, so nothing is worth a copy: a block goes from memory through registers into the
// chains of its 16 outputs. Panels are read one after the other, each from front to back. In this order of addresses
// the processor's own prefetchers read ahead. They do not where scales are read before the bytes in front of them, or
// where two panels are read by turns.
#pragma once

#include "kernels/avx512/kernels_avx512_quant_block.h"
#include "kernels/avx512/kernels_avx512_quant_dot.h"

#include <string.h>

#define NEAR_AHEAD 2048u // bytes: what is fetched is used before the second-level cache drops it
#define FETCH_LINE 64u

// Fetch as much as a block has, that far ahead of it.
ALWAYS_INLINE void fetch_near(const char *at, size_t bytes)
{
#pragma GCC unroll 9
    for (size_t i = 0; i < bytes; i += FETCH_LINE) {
        _mm_prefetch(at + NEAR_AHEAD + i, _MM_HINT_T1);
    }
}

ALWAYS_INLINE __m512i broadcast_four(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}

// One step of the chains, or two where there is a minimum, for group `h` of a block: one of its halves, or all of it.
ALWAYS_INLINE __m512 step_of_group(or_quant_t type, bool halves, bool minima, const char *panel,
                                   uint32_t b, uint32_t h, const or_q8_block_t *x, __m512 chains)
{
    const uint32_t groups = halves ? GROUPS / HALVES : GROUPS;
    __m512i sums = first_sums(halves ? x->half_biases[h] : x->bias, minima);
#pragma GCC unroll 8
    for (uint32_t g = h * groups; g < (h + 1) * groups; g++) {
        factors_t w = prepare(bytes_of_group(type, panel, b, g), minima);
        sums = dot(sums, &w, broadcast_four(x->quants + 4 * (size_t)g));
    }
    __m512 scale = _mm512_mul_ps(scales_of(type, panel, b, h), _mm512_set1_ps(x->scale));
    chains = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sums), chains);
    if (minima) {
        float sum = halves ? x->scaled_half_sums[h] : x->scaled_sum;
        chains = _mm512_fnmadd_ps(minima_of(type, panel, b, h), _mm512_set1_ps(sum), chains);
    }
    return chains;
}

// The steps of one block.
ALWAYS_INLINE __m512 step_alone(or_quant_t type, bool halves, bool minima, const char *panel,
                                uint32_t b, const or_q8_block_t *x, __m512 chains)
{
    chains = step_of_group(type, halves, minima, panel, b, 0, x, chains);
    return halves ? step_of_group(type, halves, minima, panel, b, 1, x, chains) : chains;
}

ALWAYS_INLINE void multiply_row_alone(or_quant_t type, size_t block_bytes, bool halves, bool minima,
                                      const or_quant_panels_t *w, const or_q8_block_t *x, float *y)
{
    for (uint32_t p = 0; p < w->count; p++) {
        const char *panel = (const char *)w->panels + p * w->panel_bytes;
        __m512 chains = _mm512_setzero_ps();
        for (uint32_t i = 0; i < w->blocks; i++) {
            uint32_t b = w->first + i;
            fetch_near(panel + b * block_bytes, block_bytes);
            chains = step_alone(type, halves, minima, panel, b, x + i, chains);
        }
        _mm512_storeu_ps(y + (size_t)p * OR_PANEL, chains);
    }
}

#define ALONE(name, type, block_bytes, halves, minima, nibbles)                                    \
    static void alone_##name(const or_quant_panels_t *w, const or_q8_block_t *x, float *y)         \
    {                                                                                              \
        multiply_row_alone(type, block_bytes, halves, minima, w, x, y);                            \
    }

QUANT_FORMATS(ALONE)

#define ALONE_OF_TYPE(name, type, block_bytes, halves, minima, nibbles) [type] = alone_##name,

static void (*const multiply_alone[OR_QUANT_TYPES])(const or_quant_panels_t *,
                                                    const or_q8_block_t *,
                                                    float *) = {QUANT_FORMATS(ALONE_OF_TYPE)};
