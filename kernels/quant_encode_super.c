// Weights to super-blocks: the scales of eight or sixteen groups are themselves integers times a half, and so
// are the minima:
//
//     weight = (half * group's scale) * integer - (half * group's minimum)
//
// First each group gets the scale and minimum it would like; the halves let the largest be reached;
// then each group's integers are the best near what it wanted, and the halves once more the best for
// all integers chosen.
#include "kernels/quant_encode_internal.h"

#define GROUPS_MAX 16u
#define HALF_BITS 0x7FFF    // all but the sign
#define HALF_LARGEST 0x7BFF // that is finite

typedef struct {
    or_fit_grid_t grid;
    uint32_t group;            // weights of one
    int scale_low, scale_high; // of a group's
    int minimum_high;          // 0: no minima
} kind_t;

typedef struct {
    uint16_t scale, minimum; // halves
    int scales[GROUPS_MAX], minima[GROUPS_MAX];
    float integers[SUPER_WEIGHTS];
    float error; // sum of w * square
} super_t;

typedef struct {
    float scales[GROUPS_MAX], minima[GROUPS_MAX];
} wishes_t;

static const kind_t q4_k = {{0, 15, NULL}, 32, 0, 63, 63};
static const kind_t q5_k = {{0, 31, NULL}, 32, 0, 63, 63};
static const kind_t q2_k = {{0, 3, NULL}, 16, 0, 15, 15};
static const kind_t q3_k = {{-4, 3, NULL}, 16, -32, 31, 0};
static const kind_t q6_k = {{-32, 31, NULL}, 16, -128, 127, 0};
static const kind_t iq4_xs = {IQ4_GRID, 32, -32, 31, 0};

// ---- the choice ----

static void wish(const kind_t *kind, const float *x, const float *w, wishes_t *wishes)
{
    memset(wishes, 0, sizeof *wishes);
    for (uint32_t g = 0; g < SUPER_WEIGHTS / kind->group; g++) {
        const float *group = x + g * kind->group;
        const float *group_w = w + g * kind->group;
        if (kind->minimum_high > 0) {
            or_fit_both(&kind->grid, group, group_w, kind->group, true, &wishes->scales[g],
                        &wishes->minima[g]);
        } else {
            wishes->scales[g] = or_fit_scale(&kind->grid, group, group_w, kind->group);
        }
    }
}

// Return a half with which the largest wished scale is within reach of the largest integer.
static uint16_t reach(const float *wishes, int low, int high)
{
    float outermost = 0;
    for (uint32_t g = 0; g < GROUPS_MAX; g++) {
        float size = wishes[g] < 0 ? -wishes[g] : wishes[g];
        float most = outermost < 0 ? -outermost : outermost;
        outermost = size > most ? wishes[g] : outermost;
    }
    float wanted = outermost / (float)(-low > high ? low : high);
    uint16_t half = nearest_half(wanted);
    float got = or_f16_to_f32(half);
    bool short_of_it = wanted < 0 ? got > wanted : got < wanted;
    return short_of_it && (half & HALF_BITS) < HALF_LARGEST ? half + 1 : half;
}

// The integer nearest to wish / unit, within the limits.
static int nearest(float wanted, float unit, int low, int high)
{
    float place = unit != 0 ? wanted / unit : 0;
    place = place > (float)low ? place : (float)low;
    place = place < (float)high ? place : (float)high;
    return (int)(place < 0 ? place - 0.5f : place + 0.5f);
}

// The best of a group's scales and minima next to those wished for, and its integers.
static float choose_group(const kind_t *kind, const float *x, const float *w, float scale_unit,
                          float minimum_unit, int wanted_scale, int wanted_minimum, int *scale,
                          int *minimum, float *integers)
{
    float best = -1, trial[OR_FIT_MAX];
    int reach_of_minima = kind->minimum_high > 0 ? 1 : 0;
    for (int s = wanted_scale - 1; s <= wanted_scale + 1; s++) {
        for (int m = wanted_minimum - reach_of_minima; m <= wanted_minimum + reach_of_minima; m++) {
            if (s < kind->scale_low || s > kind->scale_high || m < 0 || m > kind->minimum_high) {
                continue;
            }
            float group_scale = scale_unit * (float)s, group_minimum = minimum_unit * (float)m;
            or_fit_round(&kind->grid, x, kind->group, group_scale, group_minimum, trial);
            float error = or_fit_error(x, w, kind->group, trial, group_scale, group_minimum);
            if (best < 0 || error < best) {
                best = error;
                *scale = s;
                *minimum = m;
                memcpy(integers, trial, kind->group * sizeof *trial);
            }
        }
    }
    return best;
}

// Everything but the halves, which are given.
static void choose(const kind_t *kind, const float *x, const float *w, const wishes_t *wishes,
                   super_t *super)
{
    float scale_unit = or_f16_to_f32(super->scale);
    float minimum_unit = or_f16_to_f32(super->minimum);
    super->error = 0;
    for (uint32_t g = 0; g < SUPER_WEIGHTS / kind->group; g++) {
        uint32_t at = g * kind->group;
        int scale = nearest(wishes->scales[g], scale_unit, kind->scale_low, kind->scale_high);
        int minimum = nearest(wishes->minima[g], minimum_unit, 0, kind->minimum_high);
        super->error += choose_group(kind, x + at, w + at, scale_unit, minimum_unit, scale, minimum,
                                     &super->scales[g], &super->minima[g], super->integers + at);
    }
}

// The halves that suit all integers chosen: the weighted regression of x on scale * integer and -minimum.
// They stay as they are where that has no answer.
static void refit(const kind_t *kind, const float *x, const float *w, super_t *super)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (uint32_t i = 0; i < SUPER_WEIGHTS; i++) {
        uint32_t group = i / kind->group;
        double a = super->integers[i] * (float)super->scales[group];
        double b = -super->minima[group];
        aa += (double)w[i] * a * a;
        ab += (double)w[i] * a * b;
        bb += (double)w[i] * b * b;
        ax += (double)w[i] * a * (double)x[i];
        bx += (double)w[i] * b * (double)x[i];
    }
    double spread = aa * bb - ab * ab;
    if (kind->minimum_high > 0 && spread > 0) {
        super->scale = nearest_half((float)((ax * bb - bx * ab) / spread));
        super->minimum = nearest_half((float)((bx * aa - ax * ab) / spread));
    } else if (kind->minimum_high == 0 && aa > 0) {
        super->scale = nearest_half((float)(ax / aa));
    }
}

// Choose a super-block's scales, minima and integers.
static void fit_integers(const kind_t *kind, const float *x, const float *w, super_t *super)
{
    wishes_t wishes;
    wish(kind, x, w, &wishes);
    super->scale = reach(wishes.scales, kind->scale_low, kind->scale_high);
    super->minimum = kind->minimum_high > 0 ? reach(wishes.minima, 0, kind->minimum_high) : 0;
    choose(kind, x, w, &wishes, super);
    super_t again = *super;
    refit(kind, x, w, &again);
    choose(kind, x, w, &wishes, &again);
    if (again.error < super->error) {
        *super = again;
    }
}

static void fit(const kind_t *kind, const float *x, const float *w, super_t *super,
                uint8_t codes[SUPER_WEIGHTS])
{
    fit_integers(kind, x, w, super);
    to_codes(super->integers, kind->grid.lowest, codes, SUPER_WEIGHTS);
}

// ---- the bytes ----

// Write 64 weights as 32 bytes: 32 weights have the low nibbles and 32 the high ones.
static uint8_t *put_paired_nibbles(uint8_t *at, const uint8_t *codes)
{
    for (uint32_t i = 0; i < SUPER_WEIGHTS / 2; i++) {
        uint32_t low = i / 32 * 64 + i % 32;
        at[i] = (uint8_t)((codes[low] & 15) | (codes[low + 32] & 15) << 4);
    }
    return at + SUPER_WEIGHTS / 2;
}

// Write the lowest two bits of 128 weights: byte i has those of i, i + 32, i + 64 and i + 96.
static uint8_t *put_pairs(uint8_t *at, const uint8_t *codes, uint32_t shift)
{
    for (uint32_t i = 0; i < SUPER_WEIGHTS / 4; i++) {
        uint32_t first = i / 32 * 128 + i % 32;
        at[i] = 0;
        for (uint32_t j = 0; j < 4; j++) {
            at[i] |= (uint8_t)((codes[first + 32 * j] >> shift & 3) << 2 * j);
        }
    }
    return at + SUPER_WEIGHTS / 4;
}

// Byte i has bit `shift` of i, i + 32, i + 64, ...
static uint8_t *put_bits(uint8_t *at, const uint8_t *codes, uint32_t shift)
{
    for (uint32_t i = 0; i < 32; i++) {
        at[i] = 0;
        for (uint32_t j = 0; j < 8; j++) {
            at[i] |= (uint8_t)((codes[i + 32 * j] >> shift & 1) << j);
        }
    }
    return at + 32;
}

// Eight scales and minima of 6 bits in 12 bytes: the first four of each in a byte, whose upper two
// bits are the upper ones of the last four; their lower four share a byte.
static uint8_t *put_six_bits(uint8_t *at, const super_t *super)
{
    for (uint32_t j = 0; j < 4; j++) {
        int scale = super->scales[j + 4], minimum = super->minima[j + 4];
        at[j] = (uint8_t)(super->scales[j] | scale >> 4 << 6);
        at[j + 4] = (uint8_t)(super->minima[j] | minimum >> 4 << 6);
        at[j + 8] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
    }
    return at + 12;
}

static void encode_q4_k(const float *x, const float *w, uint8_t *at)
{
    super_t super;
    uint8_t codes[SUPER_WEIGHTS];
    fit(&q4_k, x, w, &super, codes);
    at = put_half(put_half(at, super.scale), super.minimum);
    put_paired_nibbles(put_six_bits(at, &super), codes);
}

static void encode_q5_k(const float *x, const float *w, uint8_t *at)
{
    super_t super;
    uint8_t codes[SUPER_WEIGHTS];
    fit(&q5_k, x, w, &super, codes);
    at = put_half(put_half(at, super.scale), super.minimum);
    put_paired_nibbles(put_bits(put_six_bits(at, &super), codes, 4), codes);
}

static void encode_q2_k(const float *x, const float *w, uint8_t *at)
{
    super_t super;
    uint8_t codes[SUPER_WEIGHTS];
    fit(&q2_k, x, w, &super, codes);
    for (uint32_t g = 0; g < GROUPS_MAX; g++) {
        *at++ = (uint8_t)(super.scales[g] | super.minima[g] << 4);
    }
    at = put_pairs(at, codes, 0);
    put_half(put_half(at, super.scale), super.minimum);
}

// Sixteen scales of 6 bits in 12 bytes: nibbles of the first and the last eight, then four bytes of
// upper pairs.
static uint8_t *put_signed_six_bits(uint8_t *at, const super_t *super)
{
    memset(at, 0, 12);
    for (uint32_t g = 0; g < GROUPS_MAX; g++) {
        int code = super->scales[g] + 32;
        at[g % 8] |= (uint8_t)((code & 15) << 4 * (g / 8));
        at[8 + g % 4] |= (uint8_t)(code >> 4 << 2 * (g / 4));
    }
    return at + 12;
}

static void encode_q3_k(const float *x, const float *w, uint8_t *at)
{
    super_t super;
    uint8_t codes[SUPER_WEIGHTS];
    fit(&q3_k, x, w, &super, codes);
    at = put_bits(at, codes, 2);
    at = put_pairs(at, codes, 0);
    put_half(put_signed_six_bits(at, &super), super.scale);
}

// Write the low nibbles of 128 weights: bytes 0 .. 63 have those of the first 64 and, above them, those of the
// others.
static uint8_t *put_wide_nibbles(uint8_t *at, const uint8_t *codes)
{
    for (uint32_t i = 0; i < SUPER_WEIGHTS / 2; i++) {
        uint32_t low = i / 64 * 128 + i % 64;
        at[i] = (uint8_t)((codes[low] & 15) | (codes[low + 64] & 15) << 4);
    }
    return at + SUPER_WEIGHTS / 2;
}

static void encode_q6_k(const float *x, const float *w, uint8_t *at)
{
    super_t super;
    uint8_t codes[SUPER_WEIGHTS];
    fit(&q6_k, x, w, &super, codes);
    at = put_pairs(put_wide_nibbles(at, codes), codes, 4);
    for (uint32_t g = 0; g < GROUPS_MAX; g++) {
        *at++ = (uint8_t)(int8_t)super.scales[g];
    }
    put_half(at, super.scale);
}

// Eight scales of 6 bits: two bytes of their upper pairs, four of their nibbles.
static uint8_t *put_parted_six_bits(uint8_t *at, const super_t *super)
{
    memset(at, 0, 6);
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        int code = super->scales[b] + 32;
        at[b / 4] |= (uint8_t)(code >> 4 << b % 4 * 2);
        at[2 + b / 2] |= (uint8_t)((code & 15) << b % 2 * 4);
    }
    return at + 6;
}

static void encode_iq4_xs(const float *x, const float *w, uint8_t *at)
{
    super_t super;
    uint8_t codes[SUPER_WEIGHTS];
    fit_integers(&iq4_xs, x, w, &super);
    to_iq4_codes(super.integers, codes, SUPER_WEIGHTS);
    at = put_parted_six_bits(put_half(at, super.scale), &super);
    for (uint32_t b = 0; b < OR_SUPER_BLOCK; b++) {
        at = put_nibbles(at, codes + (size_t)b * OR_QUANT_BLOCK);
    }
}

void or_quant_encode_super_block(or_quant_t type, const float *x, const float *w, uint8_t *at)
{
    static void (*const encoders[OR_QUANT_ENCODED])(const float *, const float *, uint8_t *) = {
        [OR_QUANT_Q4_K] = encode_q4_k, [OR_QUANT_Q5_K] = encode_q5_k,
        [OR_QUANT_Q2_K] = encode_q2_k, [OR_QUANT_Q3_K] = encode_q3_k,
        [OR_QUANT_Q6_K] = encode_q6_k, [OR_QUANT_IQ4_XS] = encode_iq4_xs,
    };
    encoders[type](x, w, at);
}
