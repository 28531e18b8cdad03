#include "common/decode/sampling/noise.h"

#include <math.h>
#include <stdbool.h>

#include "common/base/math/lanes.h"
#include "common/decode/sampling/noise_inline.h"

#define BLOCK 64u   // tokens that are screened together
#define ONES_MAX 53 // bits of a uniform

// The tokens of a block that passed the screening.
typedef struct {
    uint32_t count;
    uint32_t at[BLOCK]; // in the block, ascending
    double uniforms[BLOCK];
} contenders_t;

or_rng_key_t or_noise_key(uint64_t seed, uint32_t choice)
{
    return or_rng_key(seed, choice);
}

// Draw the uniforms of the tokens with these keys.
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

double or_noise_uniform(or_rng_key_t key, or_noise_place_t place, uint64_t token_key)
{
    double uniform;
    draw_uniforms(key, place, &token_key, 1, &uniform);
    return uniform;
}

double or_noise_gumbel(or_rng_key_t key, or_noise_place_t place, uint64_t token_key)
{
    return inline_gumbel(or_noise_uniform(key, place, token_key));
}

// Return score + G, or -INFINITY if that is surely below `floor`: then no logarithm is taken. A
// NaN score gives -INFINITY too.
static double perturb(double score, double uniform, double floor)
{
    if (!(score + inline_gumbel_above(uniform) >= floor)) {
        return -INFINITY;
    }
    return score + inline_gumbel(uniform);
}

// Return how many leading ones a uniform must have so that a score of at most `most` is not
// below `floor`. With n bits that are not all ones 1 - U >= 2^-n, so the perturbation is at most
// inline_gumbel_bound(n). The result is more than ONES_MAX if no uniform is enough.
static int ones_needed(double most, double floor)
{
    double room = (floor - most) / NOISE_LN_2;
    int ones = room < ONES_MAX ? 0 : ONES_MAX;
    if (room > 0 && room < ONES_MAX) {
        ones = (int)room;
    }
    while (ones > 0 && !(most + inline_gumbel_bound(ones) < floor)) {
        ones--;
    }
    return ones < ONES_MAX ? ones : ONES_MAX + 1;
}

// Find the tokens of a block (at most BLOCK) that perturb() might not put below `floor`. The
// best score of all is tested first, then the first bits of every uniform: most tokens get no
// further.
static void screen(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                   const double *scores, uint32_t count, const uint64_t *token_keys, double floor,
                   contenders_t *left)
{
    const or_lanes_t *lanes = or_lanes();
    const uint32_t high[2] = {place.zero_width, place.byte_offset};
    uint64_t keys[BLOCK];
    int ones = ones_needed(lanes->largest(scores, count), floor);
    left->count = 0;
    if (ones > ONES_MAX) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = token_keys[ids[i]];
    }
    left->count =
        lanes->philox_ones(key, high, keys, count, (unsigned)(ones < 32 ? ones : 32), left->at);
    for (uint32_t i = 0; i < left->count; i++) {
        keys[i] = keys[left->at[i]];
    }
    draw_uniforms(key, place, keys, left->count, left->uniforms);
}

int32_t or_noise_argmax(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                        const double *scores, uint32_t count, const uint64_t *token_keys)
{
    contenders_t left;
    int32_t best_id = INT32_MAX;
    double best = -INFINITY;
    for (uint32_t first = 0; first < count; first += BLOCK) {
        uint32_t block = count - first < BLOCK ? count - first : BLOCK;
        screen(key, place, ids + first, scores + first, block, token_keys, best, &left);
        for (uint32_t i = 0; i < left.count; i++) {
            uint32_t at = first + left.at[i];
            double score = perturb(scores[at], left.uniforms[i], best);
            bool wins = score > best || (score == best && ids[at] < best_id);
            if (wins && !isnan(scores[at])) {
                best = score;
                best_id = ids[at];
            }
        }
    }
    return best_id != INT32_MAX ? best_id : ids[0];
}

double or_noise_perturb(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                        const double *scores, uint32_t count, const uint64_t *token_keys,
                        double window, double *perturbed)
{
    contenders_t left;
    double best = -INFINITY;
    for (uint32_t first = 0; first < count; first += BLOCK) {
        uint32_t block = count - first < BLOCK ? count - first : BLOCK;
        screen(key, place, ids + first, scores + first, block, token_keys, best - window, &left);
        for (uint32_t i = 0; i < block; i++) {
            perturbed[first + i] = -INFINITY;
        }
        for (uint32_t i = 0; i < left.count; i++) {
            uint32_t at = first + left.at[i];
            perturbed[at] = perturb(scores[at], left.uniforms[i], best - window);
            best = perturbed[at] > best ? perturbed[at] : best;
        }
    }
    return best;
}
