// kernels_avx512_tile - the product that matmul, attention's scores and its values have in common.
//
//     y[r][c] = fma(x[r][k-1], w[k-1][c], ... fma(x[r][0], w[0][c], start))     start: +0, or what y holds
//
// Lanes are columns: sixteen make a column vector.
#pragma once

#include <stdbool.h>

#include "kernels/avx512/kernels_avx512_internal.h"

#define TILE_ROWS 12u // rows that read w together

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
    size_t apart; // weights from one column vector to the next
    uint32_t k;
    const float *x; // rows x_stride apart
    size_t x_stride;
    float *y; // rows y_stride apart, column vectors side by side
    size_t y_stride;
    bool continues; // start from what y holds
    // What is to be read after w is asked for meanwhile, spread evenly: `next_bytes` for each of two
    // column vectors, the second's `next_apart` behind the first's. NULL: what comes next in w is.
    const char *next;
    size_t next_bytes;
    size_t next_apart;
} product_t;

ALWAYS_INLINE size_t bytes_of_weight(weights_t type)
{
    return type == WEIGHTS_F16 || type == WEIGHTS_BF16 ? sizeof(uint16_t) : sizeof(float);
}

ALWAYS_INLINE __m512 load_weights(weights_t type, const char *at)
{
    if (bytes_of_weight(type) == sizeof(float)) {
        return _mm512_loadu_ps(at);
    }
    __m256i narrow = _mm256_loadu_si256((const __m256i *)at);
    if (type == WEIGHTS_F16) {
        return _mm512_cvtph_ps(narrow);
    }
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
}

// rows, columns (vectors) >= 0, k >= 1.
void multiply_avx512(const product_t *product, uint32_t rows, uint32_t columns);
