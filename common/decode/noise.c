#include "common/decode/noise.h"

#include <math.h>
#include <string.h>

#include "common/base/math.h"

#define LN_2 0.6931471805599453
#define GUMBEL_MAX 36.8  // -log(-log U) of the largest U, 1 - 2^-53, is 36.74
#define BOUND_SLACK 1e-9 // far more than the rounding of a Gumbel variate and of its bound

or_rng_key_t or_noise_key(uint64_t seed, uint32_t choice)
{
    return or_rng_key(seed, choice);
}

double or_noise_uniform(or_rng_key_t key, or_noise_place_t place, uint64_t token_key)
{
    const uint32_t counter[4] = {(uint32_t)token_key, (uint32_t)(token_key >> 32), place.zero_width,
                                 place.byte_offset};
    uint32_t out[4];
    or_philox(key, counter, out);
    return or_rng_uniform((uint64_t)out[1] << 32 | out[0]);
}

static double gumbel(double uniform)
{
    return -or_ln(-or_ln(uniform));
}

double or_noise_gumbel(or_rng_key_t key, or_noise_place_t place, uint64_t token_key)
{
    return gumbel(or_noise_uniform(key, place, token_key));
}

// No less than the Gumbel variate of U, without a logarithm: -log U >= 1 - U >= 2^e, where e is the exponent of 1 - U, so that
// -log(-log U) <= -e log 2.
static double gumbel_bound(double uniform)
{
    double rest = 1 - uniform;
    uint64_t bits;
    memcpy(&bits, &rest, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    return -exponent * LN_2 + BOUND_SLACK;
}

// The loop of both functions below: who cannot reach `best` is not even hashed, or at least spared the logarithms. -INFINITY then.
// The comparisons are also false for a NaN score.
static double perturb(or_rng_key_t key, or_noise_place_t place, uint64_t token_key, double score,
                      double floor)
{
    if (!(score + GUMBEL_MAX >= floor)) {
        return -INFINITY;
    }
    double uniform = or_noise_uniform(key, place, token_key);
    if (!(score + gumbel_bound(uniform) >= floor)) {
        return -INFINITY;
    }
    return score + gumbel(uniform);
}

int32_t or_noise_argmax(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                        const double *scores, uint32_t count, const uint64_t *token_keys)
{
    int32_t best_id = INT32_MAX;
    double best = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(scores[i])) {
            continue;
        }
        double score = perturb(key, place, token_keys[ids[i]], scores[i], best);
        if (score > best || (score == best && ids[i] < best_id)) {
            best = score;
            best_id = ids[i];
        }
    }
    return best_id != INT32_MAX ? best_id : ids[0];
}

double or_noise_perturb(or_rng_key_t key, or_noise_place_t place, const int32_t *ids,
                        const double *scores, uint32_t count, const uint64_t *token_keys,
                        double window, double *perturbed)
{
    double best = -INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        perturbed[i] = perturb(key, place, token_keys[ids[i]], scores[i], best - window);
        if (perturbed[i] > best) {
            best = perturbed[i];
        }
    }
    return best;
}
