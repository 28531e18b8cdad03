#include "common/decode/chooser.h"

#include "common/decode/sampling/weights_inline.h"

static double uniform(or_chooser_t *chooser, or_choice_t at)
{
    const or_keyed_chooser_t *self = (const or_keyed_chooser_t *)chooser;
    return or_rng_uniform(or_rng_draw(self->key, at.purpose, self->round, at.node, at.draw));
}

// The comparison is strict, so that an impossible outcome never happens.
static bool bernoulli(or_chooser_t *chooser, or_choice_t at, double numerator, double denominator)
{
    return numerator >= denominator || uniform(chooser, at) * denominator < numerator;
}

static uint32_t draw(or_chooser_t *chooser, or_choice_t at, const double *weights, uint32_t count)
{
    double total = inline_weights_total(weights, count);
    return inline_weights_pick(weights, count, uniform(chooser, at) * total);
}

static int32_t token(or_chooser_t *chooser, const or_distribution_t *dist, or_noise_place_t place)
{
    const or_keyed_chooser_t *self = (const or_keyed_chooser_t *)chooser;
    return or_noise_argmax(self->noise_key, place, dist->ids, dist->scores, dist->count,
                           self->token_keys);
}

or_keyed_chooser_t or_keyed_chooser(or_rng_key_t key, uint64_t round, or_rng_key_t noise_key,
                                    const uint64_t *token_keys)
{
    return (or_keyed_chooser_t){.chooser = {bernoulli, draw, uniform, token},
                                .key = key,
                                .round = (uint32_t)round,
                                .noise_key = noise_key,
                                .token_keys = token_keys};
}
