// The kernels for x86-64 with AVX2, FMA and F16C: eight outputs in a vector, every output the same
// chain as in kernels/ref. Compiled for those instructions as a whole; kernels.c hands it out
// only where they exist.
#include "kernels/kernels_internal.h"

#include <immintrin.h>

#include "kernels/avx2/kernels_avx2_internal.h"
#include "kernels/canonical.h"

// ---- element by element ----

// canonical_exp in every lane. min and max return their second operand if either is a NaN, so a NaN
// passes the clamps.
ALWAYS_INLINE __m256 exp_lanes(__m256 x)
{
    x = _mm256_min_ps(_mm256_set1_ps(EXP_HIGHEST), x);
    x = _mm256_max_ps(_mm256_set1_ps(EXP_LOWEST), x);
    __m256 magic = _mm256_set1_ps(ROUND_MAGIC);
    __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(EXP_LOG2E), magic);
    __m256 n = _mm256_sub_ps(shifted, magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_HIGH), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-EXP_LN2_LOW), r);
    __m256 y = _mm256_fmadd_ps(_mm256_set1_ps(EXP_C6), r, _mm256_set1_ps(EXP_C5));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C4));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C3));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C2));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C1));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.0f));
    __m256i one = _mm256_set1_epi32(1);
    __m256i exponent = _mm256_sub_epi32(_mm256_castps_si256(shifted),
                                        _mm256_set1_epi32((int)(ROUND_MAGIC_BITS - 256)));
    __m256i half = _mm256_srli_epi32(exponent, 1);
    __m256i rest = _mm256_sub_epi32(exponent, half);
    __m256i factor = _mm256_slli_epi32(_mm256_sub_epi32(half, one), 23);
    __m256i other_factor = _mm256_slli_epi32(_mm256_sub_epi32(rest, one), 23);
    y = _mm256_mul_ps(y, _mm256_castsi256_ps(factor));
    return _mm256_mul_ps(y, _mm256_castsi256_ps(other_factor));
}

static void rope_pairs_avx2(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t pairs = head_dim / 2;
    uint32_t i = 0;
    for (; i + 4 <= pairs; i += 4) {
        __m256 ab = _mm256_loadu_ps(x + 2 * i);
        __m128 c = _mm_loadu_ps(cosine + i);
        __m128 s = _mm_loadu_ps(sine + i);
        __m256 cs = _mm256_set_m128(_mm_unpackhi_ps(c, s), _mm_unpacklo_ps(c, s));
        __m256 sc = _mm256_set_m128(_mm_unpackhi_ps(s, c), _mm_unpacklo_ps(s, c));
        __m256 b_sc = _mm256_mul_ps(_mm256_movehdup_ps(ab), sc);
        // Even lanes a c - (b s), odd lanes a s + (b c).
        _mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(_mm256_moveldup_ps(ab), cs, b_sc));
    }
    for (; i < pairs; i++) {
        canonical_rotate(&x[2 * i], &x[2 * i + 1], cosine[i], sine[i]);
    }
}

static void rope_halves_avx2(float *x, const float *cosine, const float *sine, uint32_t head_dim)
{
    uint32_t half = head_dim / 2;
    uint32_t i = 0;
    for (; i + WIDTH <= half; i += WIDTH) {
        __m256 a = _mm256_loadu_ps(x + i);
        __m256 b = _mm256_loadu_ps(x + half + i);
        __m256 c = _mm256_loadu_ps(cosine + i);
        __m256 s = _mm256_loadu_ps(sine + i);
        _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
    }
    for (; i < half; i++) {
        canonical_rotate(&x[i], &x[half + i], cosine[i], sine[i]);
    }
}

static void swiglu_avx2(float *gate, const float *up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        __m256 g = _mm256_loadu_ps(gate + i);
        __m256 e = exp_lanes(_mm256_xor_ps(g, _mm256_set1_ps(-0.0f)));
        __m256 silu = _mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(silu, _mm256_loadu_ps(up + i)));
    }
    for (; i < n; i++) {
        gate[i] = canonical_swiglu(gate[i], up[i]);
    }
}

static void add_avx2(float *y, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    }
    for (; i < n; i++) {
        y[i] += x[i];
    }
}

// ---- across lanes ----
//
// The sixteen lanes are two vectors; what is left over of n is added to them by scalar code.

static void rmsnorm_avx2(const float *x, const float *weight, uint32_t n, float eps, float *y)
{
    uint32_t whole = n - n % LANES;
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (uint32_t i = 0; i < whole; i += LANES) {
        __m256 a = _mm256_loadu_ps(x + i);
        __m256 b = _mm256_loadu_ps(x + i + WIDTH);
        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    float squares[LANES];
    _mm256_storeu_ps(squares, low);
    _mm256_storeu_ps(squares + WIDTH, high);
    for (uint32_t i = whole; i < n; i++) {
        squares[i % LANES] = fmaf(x[i], x[i], squares[i % LANES]);
    }
    float factor = canonical_rms_factor(canonical_lane_sum(squares), n, eps);
    __m256 factors = _mm256_set1_ps(factor);
    for (uint32_t i = 0; i < whole; i += WIDTH) {
        __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), factors);
        _mm256_storeu_ps(y + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
    }
    for (uint32_t i = whole; i < n; i++) {
        y[i] = x[i] * factor * weight[i];
    }
}

static float largest_score(const float *scores, uint32_t n)
{
    uint32_t whole = n - n % LANES;
    __m256 low = _mm256_set1_ps(-INFINITY);
    __m256 high = low;
    for (uint32_t i = 0; i < whole; i += LANES) {
        low = _mm256_max_ps(_mm256_loadu_ps(scores + i), low);
        high = _mm256_max_ps(_mm256_loadu_ps(scores + i + WIDTH), high);
    }
    float maxima[LANES];
    _mm256_storeu_ps(maxima, low);
    _mm256_storeu_ps(maxima + WIDTH, high);
    for (uint32_t i = whole; i < n; i++) {
        maxima[i % LANES] = canonical_max(scores[i], maxima[i % LANES]);
    }
    return canonical_lane_max(maxima);
}

static void softmax_avx2(float *scores, uint32_t n)
{
    uint32_t whole = n - n % LANES;
    float max = largest_score(scores, n);
    __m256 maxima = _mm256_set1_ps(max);
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (uint32_t i = 0; i < whole; i += LANES) {
        __m256 a = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(scores + i), maxima));
        __m256 b = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(scores + i + WIDTH), maxima));
        _mm256_storeu_ps(scores + i, a);
        _mm256_storeu_ps(scores + i + WIDTH, b);
        low = _mm256_add_ps(low, a);
        high = _mm256_add_ps(high, b);
    }
    float sums[LANES];
    _mm256_storeu_ps(sums, low);
    _mm256_storeu_ps(sums + WIDTH, high);
    for (uint32_t i = whole; i < n; i++) {
        scores[i] = canonical_exp(scores[i] - max);
        sums[i % LANES] += scores[i];
    }
    float factor = 1.0f / canonical_lane_sum(sums);
    __m256 factors = _mm256_set1_ps(factor);
    for (uint32_t i = 0; i < whole; i += WIDTH) {
        _mm256_storeu_ps(scores + i, _mm256_mul_ps(_mm256_loadu_ps(scores + i), factors));
    }
    for (uint32_t i = whole; i < n; i++) {
        scores[i] *= factor;
    }
}

const or_kernels_t or_kernels_avx2 = {
    .name = "avx2",
    .matmul_f32 = matmul_f32_avx2,
    .matmul_f16 = matmul_f16_avx2,
    .matmul_bf16 = matmul_bf16_avx2,
    .quantize_row = quantize_row_avx2,
    .matmul_quants = matmul_quants_avx2,
    .rmsnorm = rmsnorm_avx2,
    .rope_pairs = rope_pairs_avx2,
    .rope_halves = rope_halves_avx2,
    .swiglu = swiglu_avx2,
    .add = add_avx2,
    .attention_scores = attention_scores_avx2,
    .softmax = softmax_avx2,
    .attention_values = attention_values_avx2,
    .widen_f16 = widen_f16_avx2,
    .widen_q8_0 = widen_q8_0_avx2,
    .widen_q8_0_keys = widen_q8_0_keys_avx2,
};
