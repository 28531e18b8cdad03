// The tables for AArch64: four outputs in a vector, and every output the same chain as in kernels/ref. Here are the vectors
// and the tiles of a product; vector_body.h has the kernels themselves.
#include "kernels/kernels_internal.h"

#include <arm_neon.h>
#include <string.h>

#include "kernels/canonical.h"
#include "kernels/neon/kernels_neon_internal.h"
#include "kernels/vector/product.h"

#define PAIRS WIDTH    // that rotate_pairs takes
#define TILE_ROWS 6u   // 24 chains, 4 weights, 1 x: 29 of the 32 registers
#define TILE_STRIPS 2u // for a single row: an fma takes four cycles and two can start in each
#define CHUNK 256u     // steps of K that stay in the first-level cache while all rows pass
#define PANELS 1u      // of a chunk

// ---- vectors ----

typedef float32x4_t vector_t;
typedef uint32x4_t words_t;

ALWAYS_INLINE vector_t spread(float x)
{
    return vdupq_n_f32(x);
}

ALWAYS_INLINE vector_t load(const float *x)
{
    return vld1q_f32(x);
}

ALWAYS_INLINE void store(float *y, vector_t v)
{
    vst1q_f32(y, v);
}

ALWAYS_INLINE vector_t load_first(const float *x, uint32_t count)
{
    float lanes[WIDTH] = {0};
    for (uint32_t i = 0; i < count; i++) {
        lanes[i] = x[i];
    }
    return load(lanes);
}

ALWAYS_INLINE void store_first(float *y, vector_t v, uint32_t count)
{
    float lanes[WIDTH];
    store(lanes, v);
    for (uint32_t i = 0; i < count; i++) {
        y[i] = lanes[i];
    }
}

ALWAYS_INLINE vector_t keep_first(vector_t newer, vector_t older, uint32_t count)
{
    const words_t lanes = {0, 1, 2, 3};
    return vbslq_f32(vcltq_u32(lanes, vdupq_n_u32(count)), newer, older);
}

ALWAYS_INLINE vector_t fma_lanes(vector_t a, vector_t b, vector_t c)
{
    return vfmaq_f32(c, a, b);
}

// NEON's own maximum and minimum would let a NaN win; compare and select follows canonical.h.
ALWAYS_INLINE vector_t max_lanes(vector_t newer, vector_t older)
{
    return vbslq_f32(vcgtq_f32(newer, older), newer, older);
}

ALWAYS_INLINE vector_t min_lanes(vector_t a, vector_t b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

ALWAYS_INLINE void rotate_pairs(float *x, const float *cosine, const float *sine)
{
    float32x4x2_t ab = vld2q_f32(x);
    vector_t c = load(cosine);
    vector_t s = load(sine);
    vector_t a = ab.val[0];
    vector_t b = ab.val[1];
    ab.val[0] = fma_lanes(a, c, -(b * s));
    ab.val[1] = fma_lanes(a, s, b * c);
    vst2q_f32(x, ab);
}

ALWAYS_INLINE vector_t load_halves(const uint16_t *x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}

ALWAYS_INLINE vector_t load_bfloats(const uint16_t *x)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x), 16));
}

ALWAYS_INLINE vector_t load_quants(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    int16x8_t numbers = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(numbers)));
}

// ---- activations to integers ----

// Compared as bits, a NaN is the largest of all.
ALWAYS_INLINE float largest_magnitude(const float *x)
{
    uint32x4_t largest = vdupq_n_u32(0);
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i += WIDTH) {
        uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i));
        largest = vmaxq_u32(largest, vandq_u32(bits, vdupq_n_u32(0x7FFFFFFF)));
    }
    return float_of(vmaxvq_u32(largest));
}

// canonical_quantize in every lane. NEON's own maximum would let a NaN through.
ALWAYS_INLINE int32x4_t quantize_lanes(const float *x, float inverse)
{
    const float32x4_t highest = vdupq_n_f32(QUANT_MAX);
    const float32x4_t lowest = vdupq_n_f32(-QUANT_MAX);
    float32x4_t scaled = vmulq_n_f32(vld1q_f32(x), inverse);
    scaled = max_lanes(scaled, lowest);
    return vcvtnq_s32_f32(vminq_f32(scaled, highest));
}

ALWAYS_INLINE int16x8_t quantize_eight(const float *x, float inverse)
{
    int16x4_t low = vmovn_s32(quantize_lanes(x, inverse));
    return vmovn_high_s32(low, quantize_lanes(x + WIDTH, inverse));
}

// Half a block; the sum of its quants.
ALWAYS_INLINE int32_t quantize_half(const float *x, float inverse, int8_t *quants)
{
    int8x8_t low = vmovn_s16(quantize_eight(x, inverse));
    int8x16_t all = vmovn_high_s16(low, quantize_eight(x + 2 * WIDTH, inverse));
    vst1q_s8(quants, all);
    return vaddlvq_s8(all);
}

ALWAYS_INLINE void quantize_block(const float *x, float inverse, int8_t *quants, int32_t sums[2])
{
    for (uint32_t h = 0; h < 2; h++) {
        size_t at = h * (size_t)(OR_QUANT_BLOCK / 2);
        sums[h] = quantize_half(x + at, inverse, quants + at);
    }
}

// ---- tiles of a product ----

#include "kernels/vector/weights_body.h"

// Steps `begin` .. `end` - 1 in `rows` rows from `m` on, `strips` strips from `c` on. `goes_on`: the chains begin with
// what y holds. `type`, `rows` and `strips` are constants wherever this is inlined.
ALWAYS_INLINE void multiply_tile(const product_t *p, weights_t type, uint32_t c, uint32_t strips,
                                 size_t begin, size_t end, uint32_t m, uint32_t rows, bool goes_on)
{
    const size_t x_stride = p->x_stride;
    const size_t y_stride = p->y_stride;
    const float *x = p->x + m * x_stride;
    float *y = p->y + m * y_stride + (size_t)c * STRIP;
    uint32_t vectors = strips * STRIP_VECTORS;
    vector_t chains[TILE_ROWS][TILE_STRIPS * STRIP_VECTORS];
    vector_t scales[TILE_STRIPS * STRIP_VECTORS] = {0};
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (uint32_t v = 0; v < vectors; v++) {
            chains[r][v] = goes_on ? load(&y[r * y_stride + v * WIDTH]) : spread(0.0f);
        }
    }
    for (size_t i = begin; i < end; i++) {
        const size_t line = i * p->step + c * p->apart;
#pragma GCC unroll 8
        for (uint32_t v = 0; v < vectors; v++) {
            const size_t at = line + v / STRIP_VECTORS * p->apart + v % STRIP_VECTORS * WIDTH;
            const char *from = (const char *)p->w + at * bytes_of_weight(type);
            vector_t weights = load_weights(p, type, from, i, c, v, &scales[v]);
#pragma GCC unroll 6
            for (uint32_t r = 0; r < rows; r++) {
                chains[r][v] = vfmaq_n_f32(chains[r][v], weights, x[r * x_stride + i]);
            }
        }
    }
#pragma GCC unroll 6
    for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 8
        for (uint32_t v = 0; v < vectors; v++) {
            store(&y[r * y_stride + v * WIDTH], chains[r][v]);
        }
    }
}

// One strip and all rows, in tiles as even as can be: 7 rows are 4 and 3, not 6 and a lonely 1.
ALWAYS_INLINE void multiply_strip(const product_t *p, weights_t type, uint32_t c, size_t begin,
                                  size_t end, uint32_t rows, bool goes_on)
{
    uint32_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    for (uint32_t m = 0; tiles > 0; tiles--) {
        uint32_t tile_rows = (rows - m + tiles - 1) / tiles;
        switch (tile_rows) {
        case 1:
            multiply_tile(p, type, c, 1, begin, end, m, 1, goes_on);
            break;
        case 2:
            multiply_tile(p, type, c, 1, begin, end, m, 2, goes_on);
            break;
        case 3:
            multiply_tile(p, type, c, 1, begin, end, m, 3, goes_on);
            break;
        case 4:
            multiply_tile(p, type, c, 1, begin, end, m, 4, goes_on);
            break;
        case 5:
            multiply_tile(p, type, c, 1, begin, end, m, 5, goes_on);
            break;
        default:
            multiply_tile(p, type, c, 1, begin, end, m, TILE_ROWS, goes_on);
            break;
        }
        m += tile_rows;
    }
}

ALWAYS_INLINE void multiply(const product_t *p, weights_t type, uint32_t rows, uint32_t strips)
{
    uint32_t c = 0;
    for (; rows == 1 && c + TILE_STRIPS <= strips; c += TILE_STRIPS) {
        multiply_tile(p, type, c, TILE_STRIPS, 0, p->k, 0, 1, p->continues);
    }
    for (; c < strips; c++) {
        for (size_t begin = 0; begin < p->k; begin += CHUNK) {
            size_t end = begin + CHUNK < p->k ? begin + CHUNK : p->k;
            multiply_strip(p, type, c, begin, end, rows, p->continues || begin > 0);
        }
    }
}

#include "kernels/vector/vector_body.h"

const or_kernels_t or_kernels_neon = VECTOR_TABLE("neon", matmul_quants_neon, one_panel);
const or_kernels_t or_kernels_neon_dot =
    VECTOR_TABLE("neon_dot", matmul_quants_neon_dot, one_panel);
