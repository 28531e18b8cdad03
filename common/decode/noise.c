#include "common/decode/noise.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/math.h"

#define LN_2 0.6931471805599453
#define BLOCK 128u       // tokens whose uniforms are drawn together
#define BOUND_SLACK 1e-9 // far more than the rounding of a Gumbel variate and of its bound

or_rng_key_t or_noise_key(uint64_t seed, uint32_t choice)
{
    return or_rng_key(seed, choice);
}

// Uniforms of the tokens with these keys.
static void draw_uniforms(or_rng_key_t key, or_noise_place_t place, const uint64_t *token_keys,
                          uint32_t count, double *uniforms)
{
    const uint32_t high[2] = {place.zero_width, place.byte_offset};
    uint64_t bits[BLOCK];
    or_philox_many(key, high, token_keys, count, bits);
    for (uint32_t i = 0; i < count; i++) {
        uniforms[i] = or_rng_uniform(bits[i]);
    }
}

// Uniforms of the next block of ids; returns how many that are.
static uint32_t draw_block(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                           uint32_t left, const uint64_t *token_keys, double uniforms[BLOCK])
{
    uint64_t keys[BLOCK];
    uint32_t count = left < BLOCK ? left : BLOCK;
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = token_keys[ids[i]];
    }
    draw_uniforms(key, place, keys, count, uniforms);
    return count;
}

double or_noise_uniform(or_rng_key_t key, or_noise_place_t place, uint64_t token_key)
{
    double uniform;
    draw_uniforms(key, place, &token_key, 1, &uniform);
    return uniform;
}

static double gumbel(double uniform)
{
    return -or_ln(-or_ln(uniform));
}

double or_noise_gumbel(or_rng_key_t key, or_noise_place_t place, uint64_t token_key)
{
    return gumbel(or_noise_uniform(key, place, token_key));
}

// No less than the Gumbel variate of U, without a logarithm: -log U >= 1 - U >= 2^e, where e is the
// exponent of 1 - U, so that -log(-log U) <= -e log 2.
static double gumbel_bound(double uniform)
{
    double rest = 1 - uniform;
    uint64_t bits;
    memcpy(&bits, &rest, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    return -exponent * LN_2 + BOUND_SLACK;
}

// score + G, or -INFINITY if that is surely below `floor`: then no logarithm is taken. Also for a
// NaN score.
static double perturb(double score, double uniform, double floor)
{
    if (!(score + gumbel_bound(uniform) >= floor)) {
        return -INFINITY;
    }
    return score + gumbel(uniform);
}

int32_t or_noise_argmax(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                        const double *scores, uint32_t count, const uint64_t *token_keys)
{
    double uniforms[BLOCK];
    int32_t best_id = INT32_MAX;
    double best = -INFINITY;
    for (uint32_t first = 0; first < count; first += BLOCK) {
        uint32_t block = draw_block(key, place, ids + first, count - first, token_keys, uniforms);
        for (uint32_t i = 0; i < block; i++) {
            int32_t id = ids[first + i];
            double score = perturb(scores[first + i], uniforms[i], best);
            bool wins = score > best || (score == best && id < best_id);
            if (wins && !isnan(scores[first + i])) {
                best = score;
                best_id = id;
            }
        }
    }
    return best_id != INT32_MAX ? best_id : ids[0];
}

double or_noise_perturb(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                        const double *scores, uint32_t count, const uint64_t *token_keys,
                        double window, double *perturbed)
{
    double uniforms[BLOCK];
    double best = -INFINITY;
    for (uint32_t first = 0; first < count; first += BLOCK) {
        uint32_t block = draw_block(key, place, ids + first, count - first, token_keys, uniforms);
        for (uint32_t i = 0; i < block; i++) {
            double score = perturb(scores[first + i], uniforms[i], best - window);
            perturbed[first + i] = score;
            best = score > best ? score : best;
        }
    }
    return best;
}
