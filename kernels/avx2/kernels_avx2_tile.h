// kernels_avx2_tile - the product that matmul, attention's scores and its values have in common.
//
//     y[r][c] = fma(x[r][k-1], w[k-1][c], ... fma(x[r][0], w[0][c], start))     start: +0, or what y holds
//
// Lanes are columns: sixteen, two vectors, make a strip.
#pragma once

#include <immintrin.h>
#include <stdbool.h>

#include "kernels/avx2/kernels_avx2_internal.h"

#define STRIP 16u
#define TILE_ROWS 6u // rows that read w together

typedef enum {
    WEIGHTS_F32,
    WEIGHTS_F16,
    WEIGHTS_BF16,
    WEIGHTS_NEAR, // floats that lie in a cache: nothing need be asked for
} weights_t;

typedef struct {
    const void *w; // of `type`; read once for TILE_ROWS rows, again for the next ones
    weights_t type;
    size_t step;  // weights from one step of k to the next
    size_t apart; // weights from one strip to the next
    uint32_t k;
    const float *x; // rows x_stride apart
    size_t x_stride;
    float *y; // rows y_stride apart, strips side by side
    size_t y_stride;
    bool continues; // start from what y holds
    // What is to be read after w is asked for meanwhile, spread evenly. NULL: what comes next in w is.
    const char *next;
    size_t next_bytes;
} product_t;

ALWAYS_INLINE size_t bytes_of_weight(weights_t type)
{
    return type == WEIGHTS_F16 || type == WEIGHTS_BF16 ? sizeof(uint16_t) : sizeof(float);
}

// Half a strip.
ALWAYS_INLINE __m256 load_weights(weights_t type, const char *at)
{
    if (bytes_of_weight(type) == sizeof(float)) {
        return _mm256_loadu_ps((const float *)at);
    }
    __m128i narrow = _mm_loadu_si128((const __m128i *)at);
    if (type == WEIGHTS_F16) {
        return _mm256_cvtph_ps(narrow);
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
}

// rows, strips >= 0, k >= 1.
void multiply_avx2(const product_t *product, uint32_t rows, uint32_t strips);
