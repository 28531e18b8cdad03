// The two tables for x86-64 with AVX-512: sixteen outputs, or the sixteen lanes of a lane sum, in a
// vector; every output the same chain as in kernels/ref. The tables differ in how bytes are
// multiplied. What is left of an array is a vector with some lanes off. Compiled for those
// instructions as a whole; kernels.c hands the tables out only where they exist.
#include "kernels/kernels_internal.h"

#include "kernels/avx512/kernels_avx512_internal.h"
#include "kernels/canonical.h"

// ---- element by element ----

// canonical_exp in every lane. min and max return their second operand if either is a NaN, so a NaN
// passes the clamps.
ALWAYS_INLINE __m512 exp_lanes(__m512 x)
{
    x = _mm512_min_ps(_mm512_set1_ps(EXP_HIGHEST), x);
    x = _mm512_max_ps(_mm512_set1_ps(EXP_LOWEST), x);
    __m512 magic = _mm512_set1_ps(ROUND_MAGIC);
    __m512 shifted = _mm512_fmadd_ps(x, _mm512_set1_ps(EXP_LOG2E), magic);
    __m512 n = _mm512_sub_ps(shifted, magic);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_HIGH), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-EXP_LN2_LOW), r);
    __m512 y = _mm512_fmadd_ps(_mm512_set1_ps(EXP_C6), r, _mm512_set1_ps(EXP_C5));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(EXP_C4));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(EXP_C3));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(EXP_C2));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(EXP_C1));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(1.0f));
    __m512i one = _mm512_set1_epi32(1);
    __m512i exponent = _mm512_sub_epi32(_mm512_castps_si512(shifted),
                                        _mm512_set1_epi32((int)(ROUND_MAGIC_BITS - 256)));
    __m512i half = _mm512_srli_epi32(exponent, 1);
    __m512i rest = _mm512_sub_epi32(exponent, half);
    __m512i factor = _mm512_slli_epi32(_mm512_sub_epi32(half, one), 23);
    __m512i other_factor = _mm512_slli_epi32(_mm512_sub_epi32(rest, one), 23);
    y = _mm512_mul_ps(y, _mm512_castsi512_ps(factor));
    return _mm512_mul_ps(y, _mm512_castsi512_ps(other_factor));
}

// Eight pairs a vector: even lanes a c - (b s), odd lanes a s + (b c).
static void rope_pairs_avx512(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    const __m512i from_both =
        _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    for (uint32_t i = 0; i < head_dim; i += WIDTH) {
        __mmask16 mask = first_lanes(head_dim - i);
        __mmask16 pairs = first_lanes((head_dim - i) / 2);
        __m512 ab = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 c = _mm512_maskz_loadu_ps(pairs, cosine + i / 2);
        __m512 s = _mm512_maskz_loadu_ps(pairs, sine + i / 2);
        __m512 cs = _mm512_permutex2var_ps(c, from_both, s);
        __m512 sc = _mm512_permutex2var_ps(s, from_both, c);
        __m512 b_sc = _mm512_mul_ps(_mm512_movehdup_ps(ab), sc);
        __m512 rotated = _mm512_fmaddsub_ps(_mm512_moveldup_ps(ab), cs, b_sc);
        _mm512_mask_storeu_ps(x + i, mask, rotated);
    }
}

static void rope_halves_avx512(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t half = head_dim / 2;
    for (uint32_t i = 0; i < half; i += WIDTH) {
        __mmask16 mask = first_lanes(half - i);
        __m512 a = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 b = _mm512_maskz_loadu_ps(mask, x + half + i);
        __m512 c = _mm512_maskz_loadu_ps(mask, cosine + i);
        __m512 s = _mm512_maskz_loadu_ps(mask, sine + i);
        _mm512_mask_storeu_ps(x + i, mask, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
        _mm512_mask_storeu_ps(x + half + i, mask, _mm512_fmadd_ps(a, s, _mm512_mul_ps(b, c)));
    }
}

static void swiglu_avx512(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += WIDTH) {
        __mmask16 mask = first_lanes(n - i);
        __m512 g = _mm512_maskz_loadu_ps(mask, gate + i);
        __m512 e = exp_lanes(_mm512_xor_ps(g, _mm512_set1_ps(-0.0f)));
        __m512 silu = _mm512_div_ps(g, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
        __m512 gated = _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(mask, up + i));
        _mm512_mask_storeu_ps(gate + i, mask, gated);
    }
}

static void add_avx512(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += WIDTH) {
        __mmask16 mask = first_lanes(n - i);
        __m512 sum =
            _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y + i), _mm512_maskz_loadu_ps(mask, x + i));
        _mm512_mask_storeu_ps(y + i, mask, sum);
    }
}

// ---- across lanes ----
//
// The sixteen lanes are a vector; lanes that are off keep what they hold.

static float sum_of_lanes(__m512 lanes)
{
    float sums[LANES];
    _mm512_storeu_ps(sums, lanes);
    return canonical_lane_sum(sums);
}

static float largest_lane(__m512 lanes)
{
    float maxima[LANES];
    _mm512_storeu_ps(maxima, lanes);
    return canonical_lane_max(maxima);
}

static void rmsnorm_avx512(const float *x, const float *weight, uint32_t n, float eps, float *y)
{
    __m512 squares = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n; i += WIDTH) {
        __mmask16 mask = first_lanes(n - i);
        __m512 values = _mm512_maskz_loadu_ps(mask, x + i);
        squares = _mm512_mask3_fmadd_ps(values, values, squares, mask);
    }
    __m512 factor = _mm512_set1_ps(canonical_rms_factor(sum_of_lanes(squares), n, eps));
    for (uint32_t i = 0; i < n; i += WIDTH) {
        __mmask16 mask = first_lanes(n - i);
        __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor);
        __m512 weighted = _mm512_mul_ps(scaled, _mm512_maskz_loadu_ps(mask, weight + i));
        _mm512_mask_storeu_ps(y + i, mask, weighted);
    }
}

static __m512 largest_score(const float *scores, uint32_t n)
{
    __m512 maxima = _mm512_set1_ps(-INFINITY);
    for (uint32_t i = 0; i < n; i += WIDTH) {
        __mmask16 mask = first_lanes(n - i);
        __m512 values = _mm512_maskz_loadu_ps(mask, scores + i);
        maxima = _mm512_mask_max_ps(maxima, mask, values, maxima);
    }
    return _mm512_set1_ps(largest_lane(maxima));
}

static void softmax_avx512(float *scores, uint32_t n)
{
    __m512 max = largest_score(scores, n);
    __m512 sums = _mm512_setzero_ps();
    for (uint32_t i = 0; i < n; i += WIDTH) {
        __mmask16 mask = first_lanes(n - i);
        __m512 e = exp_lanes(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, scores + i), max));
        sums = _mm512_mask_add_ps(sums, mask, sums, e);
        _mm512_mask_storeu_ps(scores + i, mask, e);
    }
    __m512 factor = _mm512_set1_ps(1.0f / sum_of_lanes(sums));
    for (uint32_t i = 0; i < n; i += WIDTH) {
        __mmask16 mask = first_lanes(n - i);
        __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, scores + i), factor);
        _mm512_mask_storeu_ps(scores + i, mask, scaled);
    }
}

// ---- the tables ----

#define TABLE(name_, matmul_quants_)                                                               \
    {                                                                                              \
        .name = name_, .matmul_f32 = matmul_f32_avx512, .matmul_f16 = matmul_f16_avx512,           \
        .matmul_bf16 = matmul_bf16_avx512, .quantize_row = quantize_row_avx512,                    \
        .matmul_quants = matmul_quants_, .rmsnorm = rmsnorm_avx512,                                \
        .rope_pairs = rope_pairs_avx512, .rope_halves = rope_halves_avx512,                        \
        .swiglu = swiglu_avx512, .add = add_avx512, .attention_scores = attention_scores_avx512,   \
        .softmax = softmax_avx512, .attention_values = attention_values_avx512,                    \
        .widen_f16 = widen_f16_avx512, .widen_q8_0 = widen_q8_0_avx512,                            \
        .widen_q8_0_keys = widen_q8_0_keys_avx512,                                                 \
    }

const or_kernels_t or_kernels_avx512 = TABLE("avx512", matmul_quants_avx512);
const or_kernels_t or_kernels_avx512vnni = TABLE("avx512vnni", matmul_quants_avx512vnni);
