// The table for x86-64 with AVX2, FMA and F16C: eight outputs in a vector, and every output the same chain as in
// kernels/ref. This file is compiled for those instructions as a whole; kernels.c uses the table only on processors that
// have them. Here are the vectors and a tile of a product; tiles_body.h cuts a product into tiles, and vector_body.h has the
// kernels themselves.
#include "kernels/kernels_internal.h"

#include <immintrin.h>

#include "kernels/avx2/kernels_avx2_internal.h"
#include "kernels/canonical.h"
#include "kernels/vector/product.h"

#define PAIRS 4u      // that rotate_pairs takes
#define TILE_ROWS 6u  // rows that read weights together
#define CHUNK 512u    // steps of K: 32 KiB of floats, which stay in the first-level cache
#define PANELS 1u     // of a chunk
#define TILE_SUMS 12u // and 2 weights and 1 x: 15 of the 16 registers
#define AHEAD 1024u   // bytes by which a prefetch runs ahead

// ---- vectors ----

typedef __m256 vector_t;
typedef uint32_t words_t __attribute__((vector_size(32)));

ALWAYS_INLINE vector_t spread(float x)
{
    return _mm256_set1_ps(x);
}

ALWAYS_INLINE vector_t load(const float *x)
{
    return _mm256_loadu_ps(x);
}

ALWAYS_INLINE void store(float *y, vector_t v)
{
    _mm256_storeu_ps(y, v);
}

ALWAYS_INLINE __m256i first_lanes(uint32_t count)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lanes);
}

ALWAYS_INLINE vector_t load_first(const float *x, uint32_t count)
{
    return _mm256_maskload_ps(x, first_lanes(count));
}

ALWAYS_INLINE void store_first(float *y, vector_t v, uint32_t count)
{
    _mm256_maskstore_ps(y, first_lanes(count), v);
}

ALWAYS_INLINE vector_t keep_first(vector_t newer, vector_t older, uint32_t count)
{
    return _mm256_blendv_ps(older, newer, _mm256_castsi256_ps(first_lanes(count)));
}

ALWAYS_INLINE vector_t fma_lanes(vector_t a, vector_t b, vector_t c)
{
    return _mm256_fmadd_ps(a, b, c);
}

// x86's own maximum and minimum return their second operand if either is a NaN, as canonical.h does.
ALWAYS_INLINE vector_t max_lanes(vector_t newer, vector_t older)
{
    return _mm256_max_ps(newer, older);
}

ALWAYS_INLINE vector_t min_lanes(vector_t a, vector_t b)
{
    return _mm256_min_ps(a, b);
}

// Even lanes become a c - (b s), odd lanes a s + (b c).
ALWAYS_INLINE void rotate_pairs(float *x, const float *cosine, const float *sine)
{
    __m256 ab = load(x);
    __m128 c = _mm_loadu_ps(cosine);
    __m128 s = _mm_loadu_ps(sine);
    __m256 cs = _mm256_set_m128(_mm_unpackhi_ps(c, s), _mm_unpacklo_ps(c, s));
    __m256 sc = _mm256_set_m128(_mm_unpackhi_ps(s, c), _mm_unpacklo_ps(s, c));
    __m256 b_sc = _mm256_mul_ps(_mm256_movehdup_ps(ab), sc);
    store(x, _mm256_fmaddsub_ps(_mm256_moveldup_ps(ab), cs, b_sc));
}

ALWAYS_INLINE vector_t load_halves(const uint16_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
}

ALWAYS_INLINE vector_t load_bfloats(const uint16_t *x)
{
    __m128i narrow = _mm_loadu_si128((const __m128i *)x);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
}

ALWAYS_INLINE vector_t load_quants(const int8_t *x)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)x)));
}

// ---- activations to integers ----

ALWAYS_INLINE uint32_t largest_lane(__m256i lanes)
{
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    __m128i two = _mm_max_epu32(four, _mm_unpackhi_epi64(four, four));
    __m128i one = _mm_max_epu32(two, _mm_shuffle_epi32(two, 1));
    return (uint32_t)_mm_cvtsi128_si32(one);
}

ALWAYS_INLINE int32_t sum_of_lanes(__m256i lanes)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    __m128i one = _mm_add_epi32(two, _mm_shuffle_epi32(two, 1));
    return _mm_cvtsi128_si32(one);
}

static float largest_magnitude(const float *x)
{
    __m256i largest = _mm256_setzero_si256();
    for (uint32_t i = 0; i < OR_QUANT_BLOCK; i += WIDTH) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i));
        __m256i magnitudes = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF));
        largest = _mm256_max_epu32(largest, magnitudes);
    }
    return float_of(largest_lane(largest));
}

// canonical_quantize in every lane. max and min return their second operand if either is a NaN.
ALWAYS_INLINE __m256i quantize_lanes(const float *x, __m256 inverse)
{
    __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x), inverse);
    scaled = _mm256_max_ps(scaled, _mm256_set1_ps(-QUANT_MAX));
    scaled = _mm256_min_ps(scaled, _mm256_set1_ps(QUANT_MAX));
    return _mm256_cvtps_epi32(scaled);
}

ALWAYS_INLINE void quantize_block(const float *x, float inverse, int8_t *quants, int32_t sums[2])
{
    // Packing works within halves of a vector; this puts the fours back in order.
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i q0 = quantize_lanes(x, spread(inverse));
    __m256i q1 = quantize_lanes(x + WIDTH, spread(inverse));
    __m256i q2 = quantize_lanes(x + 2 * WIDTH, spread(inverse));
    __m256i q3 = quantize_lanes(x + 3 * WIDTH, spread(inverse));
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q0, q1), _mm256_packs_epi32(q2, q3));
    _mm256_storeu_si256((__m256i *)quants, _mm256_permutevar8x32_epi32(bytes, in_order));
    sums[0] = sum_of_lanes(_mm256_add_epi32(q0, q1));
    sums[1] = sum_of_lanes(_mm256_add_epi32(q2, q3));
}

// ---- tiles of a product ----

#include "kernels/vector/weights_body.h"

// The place that a tile prefetches from while it computes: with each step, a cache line of each strip.
typedef struct {
    const char *at;
    size_t step;
    size_t apart;
} fetch_t;

// Rows `m` and on, strips `first` and on. `type`, `rows` and `strips` are constants wherever this is
// inlined. x of every fourth row is a pointer, the rows between are reached from it: few enough to stay
// in registers.
ALWAYS_INLINE void multiply_tile(const product_t *p, weights_t type, uint32_t m, uint32_t first,
                                 const fetch_t *fetch, uint32_t rows, uint32_t strips)
{
    const size_t x_stride = p->x_stride;
    const size_t step = p->step * bytes_of_weight(type);
    const size_t apart = p->apart * bytes_of_weight(type);
    const size_t next_step = fetch->step;
    const size_t next_apart = fetch->apart;
    const uint32_t vectors = 2 * strips;
    const char *next = fetch->at;
    const char *w = (const char *)p->w + first * apart;
    const float *x = p->x + m * x_stride;
    const float *x4 = rows > 4 ? x + 4 * x_stride : x;
    float *y = p->y + m * p->y_stride + (size_t)first * STRIP;
    __m256 sums[TILE_SUMS]; // [rows][vectors]
    __m256 scales[8] = {0};
#pragma GCC unroll 12
    for (uint32_t j = 0; j < rows * vectors; j++) {
        const float *from = y + j / vectors * p->y_stride + j % vectors * WIDTH;
        sums[j] = p->continues ? load(from) : _mm256_setzero_ps();
    }
    for (uint32_t i = 0; i < p->k; i++, w += step, next += next_step) {
#pragma GCC unroll 4
        for (uint32_t c = 0; c < strips; c++) {
            _mm_prefetch(next + c * next_apart, _MM_HINT_T0);
            const char *at = w + c * apart;
            const char *behind = at + WIDTH * bytes_of_weight(type);
            __m256 *scale = &scales[2 * c];
            __m256 low = load_weights(p, type, at, i, first, 2 * c, scale);
            __m256 high = load_weights(p, type, behind, i, first, 2 * c + 1, scale + 1);
#pragma GCC unroll 6
            for (uint32_t r = 0; r < rows; r++) {
                __m256 factor = _mm256_broadcast_ss((r < 4 ? x : x4) + r % 4 * x_stride + i);
                __m256 *sum = &sums[r * vectors + 2 * c];
                sum[0] = _mm256_fmadd_ps(factor, low, sum[0]);
                sum[1] = _mm256_fmadd_ps(factor, high, sum[1]);
            }
        }
    }
#pragma GCC unroll 12
    for (uint32_t j = 0; j < rows * vectors; j++) {
        _mm256_storeu_ps(y + j / vectors * p->y_stride + j % vectors * WIDTH, sums[j]);
    }
}

// Return the tile's share of the next chunk, or the place that lies ahead in w.
ALWAYS_INLINE fetch_t what_to_fetch(const product_t *p, weights_t type, uint32_t first,
                                    const char *next, size_t next_bytes)
{
    if (next != NULL) {
        return (fetch_t){next + first * p->next_apart, next_bytes / p->k, p->next_apart};
    }
    size_t apart = p->apart * bytes_of_weight(type);
    return (fetch_t){(const char *)p->w + first * apart + AHEAD, p->step * bytes_of_weight(type),
                     apart};
}

#define WIDEST(rows) ((rows) == 1 ? 4u : (rows) == 2 ? 2u : 1u)
#include "kernels/vector/tiles_body.h"

#include "kernels/vector/vector_body.h"

const or_kernels_t or_kernels_avx2 = VECTOR_TABLE("avx2", matmul_quants_avx2, row_panels_avx2);
