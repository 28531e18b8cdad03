// weights_body - how a tile of a product loads its weights as floats, for tables that compute in vectors; each includes it
// between its vectors and its tile. Private to kernels.
//
// Before the include, that file defines WIDTH, vector_t, spread, load, load_halves and load_quants (vector_body.h), and
//
//     load_bfloats(x)    WIDTH bfloat16 as floats
#pragma once

#include "kernels/quants.h"
#include "kernels/vector/product.h"

#ifdef WIDTH // without vectors this header is empty

#define STRIP_VECTORS (STRIP / WIDTH)

// WIDTH weights, without the scales that they may have.
ALWAYS_INLINE vector_t load_unscaled(weights_t type, const void *at)
{
    switch (type) {
    case WEIGHTS_F16:
        return load_halves(at);
    case WEIGHTS_BF16:
        return load_bfloats(at);
    case WEIGHTS_Q8_KEYS:
    case WEIGHTS_Q8_VALUES:
        return load_quants(at);
    case WEIGHTS_F32:
        break;
    }
    return load(at);
}

// Load vector `v` of step i in a tile that begins with strip `first`; it lies at `at`. *scales stays with the vector from
// step to step: steps share the scales of keys, and two strips one of values. A tile of several strips begins with an even one.
ALWAYS_INLINE vector_t load_weights(const product_t *p, weights_t type, const void *at, size_t i,
                                    uint32_t first, uint32_t v, vector_t *scales)
{
    const float *from = p->scales;
    const vector_t weights = load_unscaled(type, at);
    if (type == WEIGHTS_Q8_VALUES) {
        return spread(from[i * p->scale_step + first / 2 + v / STRIP_VECTORS / 2]) * weights;
    }
    if (type != WEIGHTS_Q8_KEYS) {
        return weights;
    }
    if (i % OR_QUANT_BLOCK == 0) {
        *scales = load(from + i / OR_QUANT_BLOCK * p->scale_step + first * STRIP + v * WIDTH);
    }
    return *scales * weights;
}

#endif
