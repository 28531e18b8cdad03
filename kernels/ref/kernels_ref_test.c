// Goal: the definition means what the header says: ref's results are right, its exp is good to 2
// ulp, half conversions are exact.
// Method: compare with double precision (error bounds from the lengths of the chains), with the
// one-line definition where bits are promised, and the conversions with arithmetic on their fields,
// over all 65,536 halves and the midpoints between neighbours.
#include "tests/support/test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/canonical.h"
#include "kernels/kernels.h"

#define ULP 0x1p-23 // of 1.0f

static void fill_random(uint64_t *random, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(2.0 * test_uniform(random) - 1.0);
    }
}

static void assert_near(double actual, double expected, double error)
{
    if (!(fabs(actual - expected) <= error)) {
        fail_msg("%.9g differs from %.9g by more than %.3g", actual, expected, error);
    }
}

static void matmul_is_one_chain_and_a_matrix_product(void **state)
{
    (void)state;
    enum { ROWS = 3, K = 172, OUTPUTS = 2 * OR_PANEL };
    static float w[OUTPUTS * K], x[ROWS * K], y[ROWS * OUTPUTS];
    uint64_t random = test_seed();
    fill_random(&random, w, OUTPUTS * K);
    fill_random(&random, x, ROWS * K);
    or_kernels_ref.matmul_f32(w, (size_t)K * OR_PANEL, 2, K, x, K, ROWS, y, OUTPUTS);
    for (size_t m = 0; m < ROWS; m++) {
        for (size_t n = 0; n < OUTPUTS; n++) {
            float chain = 0.0f;
            double product = 0.0;
            double sizes = 0.0;
            for (size_t i = 0; i < K; i++) {
                float weight = w[(n / OR_PANEL * K + i) * OR_PANEL + n % OR_PANEL];
                double term = (double)x[m * K + i] * weight;
                chain = fmaf(x[m * K + i], weight, chain);
                product += term;
                sizes += fabs(term);
            }
            assert_true(bits_of(y[m * OUTPUTS + n]) == bits_of(chain));
            assert_near(y[m * OUTPUTS + n], product, K * ULP * sizes);
        }
    }
}

static void rmsnorm_has_unit_mean_square(void **state)
{
    (void)state;
    enum { N = 172 };
    float x[N], weight[N], y[N];
    uint64_t random = test_seed();
    fill_random(&random, x, N);
    fill_random(&random, weight, N);
    or_kernels_ref.rmsnorm(x, weight, N, 1e-5f, y);
    double squares = 0.0;
    for (size_t i = 0; i < N; i++) {
        squares += (double)x[i] * x[i];
    }
    double factor = 1.0 / sqrt(squares / N + 1e-5f);
    for (size_t i = 0; i < N; i++) {
        double expected = x[i] * factor * weight[i];
        assert_near(y[i], expected, 16 * ULP * fabs(expected));
    }
}

// (a, b) stand side by side in `x`, or half a head apart.
static void assert_rotated(const float *x, const float *rotated, const float *cosine,
                           const float *sine, size_t pairs, size_t step, size_t distance)
{
    for (size_t i = 0; i < pairs; i++) {
        double a = x[i * step];
        double b = x[i * step + distance];
        assert_near(rotated[i * step], a * cosine[i] - b * sine[i], 4 * ULP);
        assert_near(rotated[i * step + distance], a * sine[i] + b * cosine[i], 4 * ULP);
    }
}

static void rope_rotates(void **state)
{
    (void)state;
    enum { HEAD_DIM = 48, PAIRS = HEAD_DIM / 2 };
    float x[HEAD_DIM], rotated[HEAD_DIM], cosine[PAIRS], sine[PAIRS];
    uint64_t random = test_seed();
    fill_random(&random, x, HEAD_DIM);
    for (size_t i = 0; i < PAIRS; i++) {
        double angle = 6.28 * test_uniform(&random);
        cosine[i] = (float)cos(angle);
        sine[i] = (float)sin(angle);
    }
    memcpy(rotated, x, sizeof x);
    or_kernels_ref.rope_pairs(rotated, cosine, sine, HEAD_DIM);
    assert_rotated(x, rotated, cosine, sine, PAIRS, 2, 1);
    memcpy(rotated, x, sizeof x);
    or_kernels_ref.rope_halves(rotated, cosine, sine, HEAD_DIM);
    assert_rotated(x, rotated, cosine, sine, PAIRS, 1, PAIRS);
}

static void swiglu_gates(void **state)
{
    (void)state;
    float gate[] = {-200.0f, -90.0f, -10.0f, -1.0f, -1e-9f, 0.0f, 0.5f, 3.0f, 20.0f, 200.0f};
    enum { N = sizeof gate / sizeof gate[0] };
    float up[N], gated[N];
    uint64_t random = test_seed();
    fill_random(&random, up, N);
    memcpy(gated, gate, sizeof gate);
    or_kernels_ref.swiglu(gated, up, N);
    for (size_t i = 0; i < N; i++) {
        double expected = gate[i] / (1.0 + exp(-(double)gate[i])) * up[i];
        assert_near(gated[i], expected, 8 * ULP * fabs(expected) + 1e-36);
    }
}

static void attention_is_a_weighted_mean(void **state)
{
    (void)state;
    enum { HEAD_DIM = 20 };
    float q[HEAD_DIM], k[HEAD_DIM * OR_KV_BLOCK], v[OR_KV_BLOCK * HEAD_DIM];
    float scores[OR_KV_BLOCK], out[HEAD_DIM] = {0};
    const or_kv_block_t keys = {.numbers = k}, values = {.numbers = v};
    double weights[OR_KV_BLOCK], sum = 0.0;
    uint64_t random = test_seed();
    fill_random(&random, q, HEAD_DIM);
    fill_random(&random, k, HEAD_DIM * OR_KV_BLOCK);
    fill_random(&random, v, OR_KV_BLOCK * HEAD_DIM);
    or_kernels_ref.attention_scores(q, HEAD_DIM, 1, &keys, HEAD_DIM, 0.5f, scores, OR_KV_BLOCK);
    or_kernels_ref.softmax(scores, 0, OR_KV_BLOCK);
    or_kernels_ref.attention_values(scores, OR_KV_BLOCK, 1, &values, HEAD_DIM, OR_KV_BLOCK, out,
                                    HEAD_DIM);
    for (size_t p = 0; p < OR_KV_BLOCK; p++) {
        double dot = 0.0;
        for (size_t d = 0; d < HEAD_DIM; d++) {
            dot += (double)q[d] * k[d * OR_KV_BLOCK + p];
        }
        weights[p] = exp(0.5 * dot);
        sum += weights[p];
    }
    for (size_t d = 0; d < HEAD_DIM; d++) {
        double mean = 0.0;
        for (size_t p = 0; p < OR_KV_BLOCK; p++) {
            mean += weights[p] / sum * v[p * HEAD_DIM + d];
        }
        assert_near(out[d], mean, 64 * ULP);
    }
}

// Sixteen lanes and four steps of the tree, where the order decides the result.
static void lane_sum_follows_the_tree(void **state)
{
    (void)state;
    enum { N = 40 };
    float scores[N], e[N], lanes[16] = {0};
    uint64_t random = test_seed();
    fill_random(&random, scores, N);
    scores[5] = 1.0f; // the maximum
    for (size_t i = 0; i < N; i++) {
        e[i] = canonical_exp(scores[i] - 1.0f);
        lanes[i % 16] += e[i];
    }
    float eights[8], fours[4];
    for (size_t j = 0; j < 8; j++) {
        eights[j] = lanes[j] + lanes[j + 8];
    }
    for (size_t j = 0; j < 4; j++) {
        fours[j] = eights[j] + eights[j + 4];
    }
    float factor = 1.0f / ((fours[0] + fours[2]) + (fours[1] + fours[3]));
    or_kernels_ref.softmax(scores, 0, N);
    for (size_t i = 0; i < N; i++) {
        assert_true(bits_of(scores[i]) == bits_of(e[i] * factor));
    }
}

// A part ends before each multiple of 256, wherever the scores begin, and parts are added in order. Most exponentials are
// of one size, so that another order, or another border, gives another sum.
static void parts_end_at_absolute_positions(void **state)
{
    (void)state;
    enum { N = 1100 };
    static const uint32_t firsts[] = {0, 1, 16, 100, 255, 256, 300, 511};
    float scores[N], e[N];
    uint64_t random = test_seed();
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        float total = 0.0f;
        fill_random(&random, scores, N);
        scores[5] = 1.0f; // the maximum
        for (uint32_t begin = 0, end; begin < N; begin = end) {
            end = begin + 256 - (firsts[i] + begin) % 256;
            end = end < N ? end : N;
            float lanes[16] = {0};
            for (uint32_t s = begin; s < end; s++) {
                e[s] = canonical_exp(scores[s] - 1.0f);
                lanes[(s - begin) % 16] += e[s];
            }
            total += canonical_lane_sum(lanes);
        }
        or_kernels_ref.softmax(scores, firsts[i], N);
        for (size_t s = 0; s < N; s++) {
            assert_true(bits_of(scores[s]) == bits_of(e[s] * (1.0f / total)));
        }
    }
}

// The distance of neighbouring floats at `value`, in the denormal range that of denormals.
static double ulp_at(double value)
{
    int exponent;
    frexp(value, &exponent);
    return ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

static void exp_is_good_to_two_ulps(void **state)
{
    (void)state;
    double worst = 0.0;
    for (uint32_t bits = 0; bits < 0x42D20000u; bits += 977) { // 0 to 105, both signs
        for (uint32_t sign = 0; sign < 2; sign++) {
            float x = float_of(bits | sign << 31);
            double exact = exp(x);
            if (exact < 0x1.fffffep127) {
                double error = fabs(canonical_exp(x) - exact) / ulp_at(exact);
                worst = error > worst ? error : worst;
            }
        }
    }
    print_message("worst error of exp %.3f ulp\n", worst);
    assert_true(worst <= 2.0);
}

static void exp_is_defined_at_the_ends(void **state)
{
    (void)state;
    assert_true(canonical_exp(0.0f) == 1.0f);
    assert_true(canonical_exp(-0.0f) == 1.0f);
    assert_true(canonical_exp(88.8f) == INFINITY);
    assert_true(canonical_exp(1e30f) == INFINITY);
    assert_true(canonical_exp(INFINITY) == INFINITY);
    assert_true(canonical_exp(-103.9f) == 0x1p-149f);
    assert_true(bits_of(canonical_exp(-104.1f)) == 0);
    assert_true(bits_of(canonical_exp(-INFINITY)) == 0);
    assert_true(isnan(canonical_exp(NAN)));
    assert_true(isnan(canonical_exp(-NAN)));
}

static double value_of_half(uint32_t half)
{
    double sign = half & 0x8000 ? -1.0 : 1.0;
    int exponent = (int)(half >> 10 & 31);
    double mantissa = half & 1023;
    return sign * (exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25));
}

static void halves_widen_exactly_and_come_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 1u << 16; half++) {
        float wide = or_f16_to_f32((uint16_t)half);
        uint16_t back = or_f32_to_f16(wide);
        if ((half & 0x7FFF) > 0x7C00) {
            assert_true(isnan(wide));
            assert_int_equal(back, half | 0x0200); // quiet, payload kept
        } else {
            double expected = (half & 0x7FFF) < 0x7C00 ? value_of_half(half)
                                                       : (half & 0x8000 ? -HUGE_VAL : HUGE_VAL);
            assert_true(wide == expected);
            assert_int_equal(signbit(wide) != 0, half >> 15);
            assert_int_equal(back, half);
        }
    }
}

// Between each two neighbours: the midpoint goes to the even, its own neighbours to the nearer.
static void floats_round_to_the_nearest_half(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x7C00; half++) {
        // The half after the largest is infinity, which value_of_half takes for 2^16.
        float middle = (float)((value_of_half(half) + value_of_half(half + 1)) / 2);
        uint32_t even = half + (half & 1);
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign ? -1.0f : 1.0f;
            assert_int_equal(or_f32_to_f16(s * middle), sign | even);
            assert_int_equal(or_f32_to_f16(s * nextafterf(middle, 0.0f)), sign | half);
            assert_int_equal(or_f32_to_f16(s * nextafterf(middle, INFINITY)), sign | (half + 1));
        }
    }
    assert_int_equal(or_f32_to_f16(0x1.fffffep127f), 0x7C00);
    assert_int_equal(or_f32_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(or_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(or_f32_to_f16(-0x1p-149f), 0x8000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_is_one_chain_and_a_matrix_product),
        cmocka_unit_test(rmsnorm_has_unit_mean_square),
        cmocka_unit_test(rope_rotates),
        cmocka_unit_test(swiglu_gates),
        cmocka_unit_test(attention_is_a_weighted_mean),
        cmocka_unit_test(lane_sum_follows_the_tree),
        cmocka_unit_test(parts_end_at_absolute_positions),
        cmocka_unit_test(exp_is_good_to_two_ulps),
        cmocka_unit_test(exp_is_defined_at_the_ends),
        cmocka_unit_test(halves_widen_exactly_and_come_back),
        cmocka_unit_test(floats_round_to_the_nearest_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
