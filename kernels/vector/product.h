// product - the one product under matmul and under attention's scores and values, for tables that compute in vectors.
//
//     y[r][c] = fma(x[r][k-1], w[k-1][c], ... fma(x[r][0], w[0][c], start))     start: +0, or what y holds
//
//                            step        apart         start
//     matmul   w[n][i]        16      panel_stride      +0
//     scores   k_block[i][p]  32           16           +0
//     values   v_block[i][d]  head_dim     16            y
//
// Lanes are columns, and 16 columns are a strip: a panel, half a K block, or 16 dimensions. Each table multiplies a tile
// of rows and strips with its sums in registers (multiply); the rest is in vector_body.h. Private to kernels.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels_internal.h"

#define STRIP 16u // columns that a tile takes together

typedef enum {
    WEIGHTS_F32,
    WEIGHTS_F16,
    WEIGHTS_BF16,
    WEIGHTS_Q8_KEYS,   // bytes of a K block as or_kv_block_t has it
    WEIGHTS_Q8_VALUES, // likewise of a V block
} weights_t;

typedef struct {
    const void *w; // of `type`; read once for a tile of rows, again for the next tile
    weights_t type;
    size_t step;         // weights from one k to the next
    size_t apart;        // weights from one strip to the next
    const float *scales; // of bytes alone
    size_t scale_step;   // scales from 32 k to the next of keys, from one k to the next of values
    uint32_t k;
    const float *x; // rows x_stride apart
    size_t x_stride;
    float *y; // rows y_stride apart, strips side by side
    size_t y_stride;
    bool continues; // the chains start from what y holds
    // The data that is read after w is prefetched meanwhile, spread evenly: `next_bytes` for each strip, `next_apart`
    // bytes behind those of the strip before. NULL: what comes next in w is prefetched.
    const char *next;
    size_t next_bytes;
    size_t next_apart;
} product_t;

ALWAYS_INLINE size_t bytes_of_weight(weights_t type)
{
    switch (type) {
    case WEIGHTS_F16:
    case WEIGHTS_BF16:
        return sizeof(uint16_t);
    case WEIGHTS_Q8_KEYS:
    case WEIGHTS_Q8_VALUES:
        return sizeof(int8_t);
    case WEIGHTS_F32:
        break;
    }
    return sizeof(float);
}
