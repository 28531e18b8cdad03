// Goal: what or_quant_encode writes decodes to something near, no worse than rounding would, for any
// weights; it writes the same bits on every machine; and what counts more is nearer.
// Method: gaussian weights against a plain encoder written here and against stated bounds; weights that
// are zeros, constants, outliers, denormal, huge, or decoded already; checksums of all bytes; importance
// with heavy tails, equal, or of one weight alone.
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"
#include "tests/support/test_support.h"

#define WEIGHTS 65536u // of a row
#define SUPER 256u

// Bounds on what importance does, and on what decoded weights lose, were measured. They hold for most weights that are drawn, not for
// all: they are checked with weights that are always the same, so that no OR_TEST_SEED can break them.
#define BOUNDS_SEED UINT64_C(0x0123456789abcdef)

// The traits of a type that a plain encoder knows, and what is expected of ours.
typedef struct {
    int lowest, highest; // of a weight's integer
    uint32_t group;
    int scale_most; // of a group's scale; 0: a half of its own
    bool minima;
    float relative_max;   // root of the mean squared error of gaussian weights, of theirs
    float importance_max; // the weighted error with importance, of that without
    uint64_t checksum, importance_checksum;
} expected_t;

static const expected_t types[OR_QUANT_ENCODED] = {
    [OR_QUANT_Q8_0] = {-127, 127, 32, 0, false, 0.0051f, 0.6f, UINT64_C(0x9f13900c50e33eec),
                       UINT64_C(0xf5aaf5efbf604696)},
    [OR_QUANT_Q4_0] = {-8, 7, 32, 0, false, 0.083f, 0.58f, UINT64_C(0x43c780f3cbacc561),
                       UINT64_C(0x8aac23255e55e5cc)},
    [OR_QUANT_IQ4_NL] = {-127, 113, 32, 0, false, 0.075f, 0.51f, UINT64_C(0x503ccc96dec55760),
                         UINT64_C(0x268c0063b2ef62bc)},
    [OR_QUANT_Q5_0] = {-16, 15, 32, 0, false, 0.0411f, 0.6f, UINT64_C(0x6167a4ec7600e5fe),
                       UINT64_C(0x1de01b64c98a14b8)},
    [OR_QUANT_Q4_1] = {0, 15, 32, 0, true, 0.0725f, 0.44f, UINT64_C(0x32a42130a62d780a),
                       UINT64_C(0x6287a0851998391b)},
    [OR_QUANT_Q5_1] = {0, 31, 32, 0, true, 0.0348f, 0.46f, UINT64_C(0x0aa27e984c440381),
                       UINT64_C(0x42326ee4ca8dc1cf)},
    [OR_QUANT_Q4_K] = {0, 15, 32, 63, true, 0.0725f, 0.46f, UINT64_C(0x0abd2726e53b47e4),
                       UINT64_C(0xf5e21e73c0edc40d)},
    [OR_QUANT_Q5_K] = {0, 31, 32, 63, true, 0.0356f, 0.5f, UINT64_C(0xec09d7e4a4606ece),
                       UINT64_C(0x29c162a979d70230)},
    [OR_QUANT_Q2_K] = {0, 3, 16, 15, true, 0.27f, 0.38f, UINT64_C(0x69f0b7bf28e825da),
                       UINT64_C(0xfe721e9a299728df)},
    [OR_QUANT_Q3_K] = {-4, 3, 16, 31, false, 0.148f, 0.51f, UINT64_C(0xabe3d9e783857479),
                       UINT64_C(0x6c7c0794346bb688)},
    [OR_QUANT_Q6_K] = {-32, 31, 16, 127, false, 0.0174f, 0.56f, UINT64_C(0x281d105a4c8c999c),
                       UINT64_C(0xd4262864421b27cf)},
    [OR_QUANT_IQ4_XS] = {-127, 113, 32, 31, false, 0.075f, 0.52f, UINT64_C(0xe95dbf05493f723e),
                         UINT64_C(0xb66956048d3b0f2e)},
    [OR_QUANT_MXFP4] = {-12, 12, 32, 0, false, 0.12f, 0.98f, UINT64_C(0xe499dc3a2b756876),
                        UINT64_C(0xfe7ee02fac40fa34)},
};

static float x[WEIGHTS], y[WEIGHTS], z[WEIGHTS], importance[WEIGHTS];
static uint8_t row[WEIGHTS / 32 * 36], other_row[WEIGHTS / 32 * 36];

static uint32_t units_of(or_quant_t type, uint32_t weights)
{
    return weights / (or_quant_unit_blocks(type) * OR_QUANT_BLOCK);
}

static uint32_t bytes_of(or_quant_t type, uint32_t weights)
{
    return units_of(type, weights) * or_quant_file_bytes(type);
}

static void round_trip_with(or_quant_t type, const float *from, const float *counts,
                            uint32_t weights, float *to)
{
    uint32_t units = units_of(type, weights);
    memset(row, 0xAA, sizeof row);
    memset(to, 0xAA, weights * sizeof *to);
    or_quant_encode(type, from, counts, units, row);
    or_quant_decode(type, row, units, to);
}

static void round_trip(or_quant_t type, const float *from, uint32_t weights, float *to)
{
    round_trip_with(type, from, NULL, weights, to);
}

static double squared_error(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    return sum;
}

// Box and Muller's; the weights of a trained matrix are much like it.
static void fill_gaussian(float *to, float deviation, uint64_t *random)
{
    for (uint32_t i = 0; i < WEIGHTS; i += 2) {
        double radius = sqrt(-2 * log(1 - test_uniform(random)));
        double angle = 6.283185307179586 * test_uniform(random);
        to[i] = deviation * (float)(radius * cos(angle));
        to[i + 1] = deviation * (float)(radius * sin(angle));
    }
}

// ---- a plain encoder: from the least to the greatest weight, without a search ----

static float half(float value)
{
    return or_f16_to_f32(or_f32_to_f16(value));
}

static void plain_group(const expected_t *type, const float *from, float *scale, float *minimum)
{
    float low = from[0], high = from[0], extreme = 0;
    for (uint32_t i = 0; i < type->group; i++) {
        low = fminf(low, from[i]);
        high = fmaxf(high, from[i]);
        extreme = fabsf(from[i]) > fabsf(extreme) ? from[i] : extreme;
    }
    *minimum = type->minima ? -low : 0;
    *scale = type->minima ? (high - low) / (float)type->highest : extreme / (float)type->lowest;
}

static const int8_t *values_of(or_quant_t kind)
{
    return kind == OR_QUANT_IQ4_NL || kind == OR_QUANT_IQ4_XS ? or_iq4_values
           : kind == OR_QUANT_MXFP4                           ? or_mxfp4_values
                                                              : NULL;
}

static void plain_round(or_quant_t kind, const expected_t *type, const float *from, float scale,
                        float minimum, float *to)
{
    for (uint32_t i = 0; i < type->group; i++) {
        float place = scale != 0 ? (from[i] + minimum) / scale : 0;
        float integer = fminf(fmaxf(nearbyintf(place), (float)type->lowest), (float)type->highest);
        const int8_t *values = values_of(kind);
        for (uint32_t v = 0; values != NULL && v < 16; v++) {
            float value = values[v];
            integer = v == 0 || fabsf(value - place) < fabsf(integer - place) ? value : integer;
        }
        to[i] = scale * integer - minimum;
    }
}

// The one with which llama.cpp reaches the largest weight or cuts it by a quarter.
static float power_of_two(float scale)
{
    return scale == 0 ? 0 : exp2f(floorf(log2f(12 * fabsf(scale))) - 3);
}

static float of_unit(float wanted, float unit)
{
    return unit > 0 ? unit * nearbyintf(wanted / unit) : 0;
}

static void plain(or_quant_t kind, const float *from, float *to)
{
    const expected_t *type = &types[kind];
    uint32_t span = type->scale_most > 0 ? SUPER : type->group;
    for (uint32_t at = 0; at < WEIGHTS; at += span) {
        float scales[16], minima[16], scale_unit = 0, minimum_unit = 0;
        for (uint32_t g = 0; g < span / type->group; g++) {
            plain_group(type, from + at + g * type->group, &scales[g], &minima[g]);
            scale_unit = fmaxf(scale_unit, fabsf(scales[g]) / (float)type->scale_most);
            minimum_unit = fmaxf(minimum_unit, minima[g] / (float)type->scale_most);
        }
        for (uint32_t g = 0; g < span / type->group; g++) {
            bool own = type->scale_most == 0;
            float scale = kind == OR_QUANT_MXFP4 ? power_of_two(scales[g])
                          : own                  ? half(scales[g])
                                                 : of_unit(scales[g], half(scale_unit));
            float minimum = own ? half(minima[g]) : of_unit(minima[g], half(minimum_unit));
            plain_round(kind, type, from + at + g * type->group, scale, minimum,
                        to + at + g * type->group);
        }
    }
}

static void gaussian_weights_come_back_better_than_rounded(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    fill_gaussian(x, 0.02f, &random);
    double power = squared_error(x, (float[WEIGHTS]){0}, WEIGHTS);
    for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
        clock_t start = clock();
        round_trip(type, x, WEIGHTS, y);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        plain(type, x, z);
        double error = sqrt(squared_error(x, y, WEIGHTS) / power);
        double rounded = sqrt(squared_error(x, z, WEIGHTS) / power);
        print_message("%-7s error %.5f, rounded %.5f; %.1f M weights/s\n", or_quant_name(type),
                      error, rounded, WEIGHTS / seconds * 1e-6);
        assert_true(error <= rounded);
        assert_true(error <= (double)types[type].relative_max);
    }
}

// ---- weights that are not like it ----

static void zeros_stay_zeros(void **state)
{
    (void)state;
    memset(x, 0, sizeof x);
    for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
        round_trip(type, x, 2 * SUPER, y);
        for (uint32_t i = 0; i < 2 * SUPER; i++) {
            assert_true(y[i] == 0);
        }
    }
}

static void constants_come_back(void **state)
{
    (void)state;
    static const float constants[] = {1, -1, 0.3f, -0.3f, 0.01f, -777};
    for (uint32_t c = 0; c < sizeof constants / sizeof *constants; c++) {
        for (uint32_t i = 0; i < SUPER; i++) {
            x[i] = constants[c];
        }
        for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
            // Values of MXFP4 are up to half of themselves apart, and so are its scales. A half of IQ4_XS is so
            // small that it has few bits.
            float most = type == OR_QUANT_MXFP4 ? 0.2f : type == OR_QUANT_IQ4_XS ? 1e-2f : 5e-3f;
            round_trip(type, x, SUPER, y);
            for (uint32_t i = 0; i < SUPER; i++) {
                assert_true(fabsf(y[i] - x[i]) <= most * fabsf(x[i]));
            }
        }
    }
}

static void an_outlier_is_kept(void **state)
{
    (void)state;
    for (uint32_t place = 0; place < SUPER; place += 37) {
        for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
            for (int sign = -1; sign <= 1; sign += 2) {
                for (uint32_t i = 0; i < SUPER; i++) {
                    x[i] = 0.001f * (float)((int)(i * 7 % 13) - 6);
                }
                x[place] = 3.0f * (float)sign;
                round_trip(type, x, SUPER, y);
                assert_true(fabsf(y[place] - x[place]) < 0.15f);
                assert_true(squared_error(x, y, SUPER) < 0.03);
            }
        }
    }
}

// Finite, and no further away than zero is, but for the least step a half can make.
static void assert_sane(or_quant_t type)
{
    round_trip(type, x, SUPER, y);
    for (uint32_t i = 0; i < SUPER; i++) {
        assert_true(isfinite(y[i]));
    }
    double power = squared_error(x, (float[SUPER]){0}, SUPER);
    assert_true(squared_error(x, y, SUPER) <= 1.001 * power + SUPER * 0x1p-42);
}

static void any_magnitude_is_handled(void **state)
{
    (void)state;
    static const float magnitudes[] = {1e-45f, 1e-40f, 1e-30f, 1e-9f, 6e-8f, 1e-7f, 1e-6f,
                                       1e4f,   1e6f,   1e9f,   1e20f, 1e37f, 3e38f};
    uint64_t random = test_seed();
    for (uint32_t m = 0; m < sizeof magnitudes / sizeof *magnitudes; m++) {
        for (uint32_t i = 0; i < SUPER; i++) {
            x[i] = magnitudes[m] * (float)(2 * test_uniform(&random) - 1);
        }
        for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
            assert_sane(type);
        }
        x[5] = 1; // among weights of another size
        for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
            assert_sane(type);
        }
    }
}

static void what_is_too_large_becomes_the_largest(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SUPER; i++) {
        x[i] = i % 2 == 0 ? 3e38f : -3e38f;
    }
    for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
        round_trip(type, x, SUPER, y);
        for (uint32_t i = 0; i < SUPER; i++) {
            assert_true(x[i] > 0 ? y[i] >= 65504 : y[i] <= -65504);
        }
    }
}

// Weights that were decoded once are on the type's grid: the second time may cost next to nothing.
static void decoded_weights_are_stable(void **state)
{
    (void)state;
    uint64_t random = BOUNDS_SEED;
    fill_gaussian(x, 0.02f, &random);
    double power = squared_error(x, (float[WEIGHTS]){0}, WEIGHTS);
    for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
        round_trip(type, x, WEIGHTS, y);
        double first = squared_error(x, y, WEIGHTS);
        round_trip(type, y, WEIGHTS, z);
        double second = squared_error(y, z, WEIGHTS);
        print_message("%-7s first %.2e, second %.2e\n", or_quant_name(type), sqrt(first / power),
                      sqrt(second / power));
        assert_true(second <= 0.02 * first);
    }
}

// One block less, the others as they were.
static void a_cleared_block_is_zeros(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    fill_gaussian(x, 0.02f, &random);
    for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
        for (uint32_t block = 0; block < or_quant_unit_blocks(type); block++) {
            round_trip(type, x, SUPER, y);
            or_quant_clear(type, block, row);
            or_quant_decode(type, row, SUPER / (or_quant_unit_blocks(type) * OR_QUANT_BLOCK), z);
            for (uint32_t i = 0; i < SUPER; i++) {
                assert_true(z[i] == (i / OR_QUANT_BLOCK == block ? 0 : y[i]));
            }
        }
    }
}

// ---- importance ----

static double weighted_error(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double error = (double)a[i] - (double)b[i];
        sum += (double)importance[i] * error * error;
    }
    return sum;
}

// Columns of 1,024, of which a few count a thousand times as much as most: as activations are.
static void fill_importance(uint64_t *random)
{
    fill_gaussian(importance, 2, random);
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        importance[i] = i < 1024 ? expf(importance[i]) : importance[i - 1024];
    }
}

static void importance_lowers_the_error_that_counts(void **state)
{
    (void)state;
    uint64_t random = BOUNDS_SEED;
    fill_gaussian(x, 0.02f, &random);
    fill_importance(&random);
    for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
        round_trip(type, x, WEIGHTS, y);
        round_trip_with(type, x, importance, WEIGHTS, z);
        double with = weighted_error(x, z, WEIGHTS), without = weighted_error(x, y, WEIGHTS);
        print_message("%-7s %.3f of the weighted error\n", or_quant_name(type), with / without);
        assert_true(with <= (double)types[type].importance_max * without);
    }
}

static void equal_importance_is_none(void **state)
{
    (void)state;
    static const float equal[] = {1, 0, 0.3f, 1e-40f, 3e38f};
    uint64_t random = test_seed();
    fill_gaussian(x, 0.02f, &random);
    for (uint32_t e = 0; e < sizeof equal / sizeof *equal; e++) {
        for (uint32_t i = 0; i < WEIGHTS; i++) {
            importance[i] = equal[e];
        }
        for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
            uint32_t units = units_of(type, 16 * SUPER);
            or_quant_encode(type, x, NULL, units, row);
            or_quant_encode(type, x, importance, units, other_row);
            assert_memory_equal(row, other_row, bytes_of(type, 16 * SUPER));
        }
    }
}

// Everything else may then be cut, and is still finite.
static void one_weight_alone_counts(void **state)
{
    (void)state;
    static const float sizes[] = {1e-40f, 1, 3e38f};
    uint64_t random = BOUNDS_SEED;
    fill_gaussian(x, 0.02f, &random);
    for (uint32_t place = 0; place < SUPER; place += 19) {
        for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
            memset(importance, 0, sizeof importance);
            importance[place] = sizes[place % 3];
            round_trip(type, x, SUPER, z);
            round_trip_with(type, x, importance, SUPER, y);
            // As near as a group's scale of four bits allows.
            assert_true(fabsf(y[place] - x[place]) <=
                        fabsf(z[place] - x[place]) + 0.05f * fabsf(x[place]));
            for (uint32_t i = 0; i < SUPER; i++) {
                assert_true(isfinite(y[i]) && fabsf(y[i]) < 1);
            }
        }
    }
}

// ---- bits ----

static bool is_checksum(or_quant_t type, const char *what, uint64_t expected)
{
    uint64_t checksum = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (uint32_t i = 0; i < bytes_of(type, 16 * SUPER); i++) {
        checksum = (checksum ^ row[i]) * UINT64_C(0x100000001b3);
    }
    if (checksum != expected) {
        print_error("%s: the bytes %s importance have checksum 0x%016llx\n", or_quant_name(type),
                    what, (unsigned long long)checksum);
    }
    return checksum == expected;
}

// Weights and importance made with integers only, so that they are the same everywhere.
static void the_bits_are_the_same_everywhere(void **state)
{
    (void)state;
    uint64_t random = 1;
    uint32_t differing = 0;
    for (uint32_t i = 0; i < 16 * SUPER; i++) {
        int32_t sum = 0;
        for (uint32_t k = 0; k < 4; k++) {
            sum += (int32_t)test_below(&random, 2001) - 1000;
        }
        x[i] = (float)sum * 0x1p-16f;
    }
    for (uint32_t i = 0; i < 16 * SUPER; i++) {
        importance[i] = (float)(1 << test_below(&random, 12)) + (float)test_below(&random, 100);
    }
    for (or_quant_t type = 0; type < OR_QUANT_ENCODED; type++) {
        round_trip(type, x, 16 * SUPER, y);
        differing += !is_checksum(type, "without", types[type].checksum);
        round_trip_with(type, x, importance, 16 * SUPER, y);
        differing += !is_checksum(type, "with", types[type].importance_checksum);
    }
    assert_int_equal(differing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussian_weights_come_back_better_than_rounded),
        cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(constants_come_back),
        cmocka_unit_test(an_outlier_is_kept),
        cmocka_unit_test(any_magnitude_is_handled),
        cmocka_unit_test(what_is_too_large_becomes_the_largest),
        cmocka_unit_test(decoded_weights_are_stable),
        cmocka_unit_test(a_cleared_block_is_zeros),
        cmocka_unit_test(importance_lowers_the_error_that_counts),
        cmocka_unit_test(equal_importance_is_none),
        cmocka_unit_test(one_weight_alone_counts),
        cmocka_unit_test(the_bits_are_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
