// The two tables for x86-64 with AVX-512: sixteen outputs, or the sixteen lanes of a lane sum, in a vector, and every
// output the same chain as in kernels/ref. The tables differ in how bytes are multiplied. This file is compiled for those
// instructions as a whole; kernels.c uses the tables only on processors that have them. Here are the vectors and a tile
// of a product; tiles_body.h cuts a product into tiles, and vector_body.h has the kernels themselves.
#include "kernels/kernels_internal.h"

#include "kernels/avx512/kernels_avx512_internal.h"
#include "kernels/canonical.h"
#include "kernels/vector/product.h"

#define PAIRS 8u      // that rotate_pairs takes
#define TILE_ROWS 12u // rows that read weights together
#define CHUNK 1024u   // steps of K
#define PANELS 2u     // of a chunk: 128 KiB of floats, which stay in the second-level cache
#define TILE_SUMS 24u // and 2 weights and 1 x: 27 of the 32 registers
#define AHEAD 1024u   // bytes by which a prefetch runs ahead

// ---- vectors ----

typedef __m512 vector_t;
typedef uint32_t words_t __attribute__((vector_size(64)));

ALWAYS_INLINE __mmask16 first_lanes(uint32_t count)
{
    return (__mmask16)((1u << count) - 1);
}

ALWAYS_INLINE vector_t spread(float x)
{
    return _mm512_set1_ps(x);
}

ALWAYS_INLINE vector_t load(const float *x)
{
    return _mm512_loadu_ps(x);
}

ALWAYS_INLINE void store(float *y, vector_t v)
{
    _mm512_storeu_ps(y, v);
}

ALWAYS_INLINE vector_t load_first(const float *x, uint32_t count)
{
    return _mm512_maskz_loadu_ps(first_lanes(count), x);
}

ALWAYS_INLINE void store_first(float *y, vector_t v, uint32_t count)
{
    _mm512_mask_storeu_ps(y, first_lanes(count), v);
}

ALWAYS_INLINE vector_t keep_first(vector_t newer, vector_t older, uint32_t count)
{
    return _mm512_mask_mov_ps(older, first_lanes(count), newer);
}

ALWAYS_INLINE vector_t fma_lanes(vector_t a, vector_t b, vector_t c)
{
    return _mm512_fmadd_ps(a, b, c);
}

// x86's own maximum and minimum return their second operand if either is a NaN, as canonical.h does.
ALWAYS_INLINE vector_t max_lanes(vector_t newer, vector_t older)
{
    return _mm512_max_ps(newer, older);
}

ALWAYS_INLINE vector_t min_lanes(vector_t a, vector_t b)
{
    return _mm512_min_ps(a, b);
}

// Even lanes become a c - (b s), odd lanes a s + (b c).
ALWAYS_INLINE void rotate_pairs(float *x, const float *cosine, const float *sine)
{
    const __m512i from_both =
        _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    __m512 ab = load(x);
    __m512 c = load_first(cosine, PAIRS);
    __m512 s = load_first(sine, PAIRS);
    __m512 cs = _mm512_permutex2var_ps(c, from_both, s);
    __m512 sc = _mm512_permutex2var_ps(s, from_both, c);
    __m512 b_sc = _mm512_mul_ps(_mm512_movehdup_ps(ab), sc);
    store(x, _mm512_fmaddsub_ps(_mm512_moveldup_ps(ab), cs, b_sc));
}

ALWAYS_INLINE vector_t load_halves(const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}

ALWAYS_INLINE vector_t load_bfloats(const uint16_t *x)
{
    __m256i narrow = _mm256_loadu_si256((const __m256i *)x);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
}

ALWAYS_INLINE vector_t load_quants(const int8_t *x)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)x)));
}

// ---- activations to integers ----

// Compared as bits, a NaN is the largest of all.
ALWAYS_INLINE float largest_magnitude(const float *x)
{
    const __m512i without_sign = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i a = _mm512_and_si512(_mm512_castps_si512(load(x)), without_sign);
    __m512i b = _mm512_and_si512(_mm512_castps_si512(load(x + WIDTH)), without_sign);
    return float_of(_mm512_reduce_max_epu32(_mm512_max_epu32(a, b)));
}

// canonical_quantize in every lane.
ALWAYS_INLINE __m512i quantize_lanes(__m512 x, __m512 inverse)
{
    __m512 scaled = _mm512_mul_ps(x, inverse);
    scaled = _mm512_max_ps(scaled, _mm512_set1_ps(-QUANT_MAX));
    scaled = _mm512_min_ps(scaled, _mm512_set1_ps(QUANT_MAX));
    return _mm512_cvtps_epi32(scaled);
}

ALWAYS_INLINE void quantize_block(const float *x, float inverse, int8_t *quants, int32_t sums[2])
{
    __m512i low = quantize_lanes(load(x), spread(inverse));
    __m512i high = quantize_lanes(load(x + WIDTH), spread(inverse));
    _mm_storeu_si128((__m128i *)quants, _mm512_cvtepi32_epi8(low));
    _mm_storeu_si128((__m128i *)(quants + WIDTH), _mm512_cvtepi32_epi8(high));
    sums[0] = _mm512_reduce_add_epi32(low);
    sums[1] = _mm512_reduce_add_epi32(high);
}

// ---- tiles of a product ----

#include "kernels/vector/weights_body.h"

// The place that a tile prefetches from while it computes: with each step, a cache line of each strip. It goes to the
// second-level cache: the first has too few misses under way at a time to keep up with the memory (docs/decisions.md).
typedef struct {
    const char *at;
    size_t step;
    size_t apart;
} fetch_t;

// Rows `m` and on, strips `first` and on. `type`, `rows` and `strips` are constants wherever
// this is inlined. x of every fourth row is a pointer, the rows between are reached from it: few enough
// to stay in registers.
ALWAYS_INLINE void multiply_tile(const product_t *p, weights_t type, uint32_t m, uint32_t first,
                                 const fetch_t *fetch, uint32_t rows, uint32_t strips)
{
    const size_t x_stride = p->x_stride;
    const size_t step = p->step * bytes_of_weight(type);
    const size_t apart = p->apart * bytes_of_weight(type);
    const size_t next_step = fetch->step;
    const size_t next_apart = fetch->apart;
    const char *next = fetch->at;
    const char *w = (const char *)p->w + first * apart;
    const float *x = p->x + m * x_stride;
    const float *x4 = rows > 4 ? x + 4 * x_stride : x;
    const float *x8 = rows > 8 ? x + 8 * x_stride : x;
    float *y = p->y + m * p->y_stride + (size_t)first * WIDTH;
    __m512 sums[TILE_SUMS]; // [rows][strips]
    __m512 scales[8] = {0};
#pragma GCC unroll 24
    for (uint32_t j = 0; j < rows * strips; j++) {
        const float *from = y + j / strips * p->y_stride + j % strips * WIDTH;
        sums[j] = p->continues ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
    }
#pragma GCC unroll 2
    for (uint32_t i = 0; i < p->k; i++, w += step, next += next_step) {
        __m512 weights[8];
#pragma GCC unroll 8
        for (uint32_t c = 0; c < strips; c++) {
            _mm_prefetch(next + c * next_apart, _MM_HINT_T1);
            weights[c] = load_weights(p, type, w + c * apart, i, first, c, &scales[c]);
        }
#pragma GCC unroll 12
        for (uint32_t r = 0; r < rows; r++) {
            const float *quad = r < 4 ? x : r < 8 ? x4 : x8;
            __m512 factor = _mm512_set1_ps(quad[r % 4 * x_stride + i]);
#pragma GCC unroll 8
            for (uint32_t c = 0; c < strips; c++) {
                sums[r * strips + c] = _mm512_fmadd_ps(factor, weights[c], sums[r * strips + c]);
            }
        }
    }
#pragma GCC unroll 24
    for (uint32_t j = 0; j < rows * strips; j++) {
        _mm512_storeu_ps(y + j / strips * p->y_stride + j % strips * WIDTH, sums[j]);
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

#define WIDEST(rows) ((rows) == 1 ? 8u : (rows) <= 4 ? 4u : 2u)
#include "kernels/vector/tiles_body.h"

#include "kernels/vector/vector_body.h"

const or_kernels_t or_kernels_avx512 = VECTOR_TABLE("avx512", matmul_quants_avx512, one_panel);
const or_kernels_t or_kernels_avx512vnni =
    VECTOR_TABLE("avx512vnni", matmul_quants_avx512vnni, one_panel);
