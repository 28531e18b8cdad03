#include "tests/exactness/enumerator.h"

#include <fenv.h>
#include <stdlib.h>

#include "tests/support/test_support.h"

#define DEPTH_MAX 64u
#define WAYS_MAX 16u

// One choice: its possible outcomes, and the one that is being taken.
typedef struct {
    uint32_t count, taken;
    uint32_t ways[WAYS_MAX];
    mpq_t probabilities[WAYS_MAX];
} level_t;

struct enumerator {
    or_chooser_t chooser; // first
    level_t levels[DEPTH_MAX];
    uint32_t depth; // levels that are decided
    uint32_t at;    // choices made in this run
    mpq_t probability;
    uint64_t uniform_set;
};

// The choice that is due. It was decided before in this run's prefix, or it is new.
static level_t *next_level(enumerator_t *e, bool *is_new)
{
    assert_true(e->at < DEPTH_MAX);
    *is_new = e->at == e->depth;
    level_t *level = &e->levels[e->at++];
    if (*is_new) {
        e->depth++;
        level->count = level->taken = 0;
    }
    return level;
}

static void add_way(level_t *level, uint32_t way, const mpq_t probability)
{
    if (mpq_sgn(probability) > 0) {
        assert_true(level->count < WAYS_MAX);
        level->ways[level->count] = way;
        mpq_set(level->probabilities[level->count++], probability);
    }
}

static uint32_t take(enumerator_t *e, const level_t *level)
{
    assert_true(level->count > 0);
    mpq_mul(e->probability, e->probability, level->probabilities[level->taken]);
    return level->ways[level->taken];
}

static void fill_coin(level_t *level, double numerator, double denominator)
{
    mpq_t heads, tails;
    mpq_inits(heads, tails, NULL);
    mpq_set_d(heads, numerator);
    mpq_set_d(tails, denominator);
    mpq_div(heads, heads, tails);
    mpq_set_ui(tails, 1, 1);
    mpq_sub(tails, tails, heads);
    add_way(level, 1, heads);
    add_way(level, 0, tails);
    mpq_clears(heads, tails, NULL);
}

// Choosing must not change the flags by which a test sees rounding.
static bool bernoulli(or_chooser_t *chooser, or_choice_t at, double numerator, double denominator)
{
    (void)at;
    if (numerator >= denominator || numerator <= 0) {
        return numerator >= denominator;
    }
    enumerator_t *e = (enumerator_t *)chooser;
    fexcept_t flags;
    fegetexceptflag(&flags, FE_ALL_EXCEPT);
    bool is_new;
    level_t *level = next_level(e, &is_new);
    if (is_new) {
        fill_coin(level, numerator, denominator);
    }
    bool heads = take(e, level) == 1;
    fesetexceptflag(&flags, FE_ALL_EXCEPT);
    return heads;
}

static void fill_weights(level_t *level, const double *weights, uint32_t count)
{
    mpq_t total, weight;
    mpq_inits(total, weight, NULL);
    for (uint32_t i = 0; i < count; i++) {
        mpq_set_d(weight, weights[i]);
        mpq_add(total, total, weight);
    }
    for (uint32_t i = 0; i < count; i++) {
        mpq_set_d(weight, weights[i]);
        mpq_div(weight, weight, total);
        add_way(level, i, weight);
    }
    mpq_clears(total, weight, NULL);
}

static uint32_t draw(or_chooser_t *chooser, or_choice_t at, const double *weights, uint32_t count)
{
    (void)at;
    enumerator_t *e = (enumerator_t *)chooser;
    fexcept_t flags;
    fegetexceptflag(&flags, FE_ALL_EXCEPT);
    bool is_new;
    level_t *level = next_level(e, &is_new);
    if (is_new) {
        fill_weights(level, weights, count);
    }
    uint32_t index = take(e, level);
    fesetexceptflag(&flags, FE_ALL_EXCEPT);
    return index;
}

static double uniform(or_chooser_t *chooser, or_choice_t at)
{
    const enumerator_t *e = (const enumerator_t *)chooser;
    return or_rng_uniform(
        or_rng_draw(or_rng_key(e->uniform_set, 0), at.purpose, 0, at.node, at.draw));
}

static int32_t token(or_chooser_t *chooser, const or_distribution_t *dist, or_noise_place_t place)
{
    (void)place;
    return dist->ids[draw(chooser, (or_choice_t){OR_RNG_ACCEPT, 0, 0}, dist->weights, dist->count)];
}

enumerator_t *enumerator_create(void)
{
    enumerator_t *e = calloc(1, sizeof *e);
    assert_non_null(e);
    e->chooser = (or_chooser_t){bernoulli, draw, uniform, token};
    mpq_init(e->probability);
    for (uint32_t i = 0; i < DEPTH_MAX; i++) {
        for (uint32_t j = 0; j < WAYS_MAX; j++) {
            mpq_init(e->levels[i].probabilities[j]);
        }
    }
    return e;
}

void enumerator_destroy(enumerator_t **e_p)
{
    enumerator_t *e = *e_p;
    for (uint32_t i = 0; i < DEPTH_MAX; i++) {
        for (uint32_t j = 0; j < WAYS_MAX; j++) {
            mpq_clear(e->levels[i].probabilities[j]);
        }
    }
    mpq_clear(e->probability);
    free(e);
    *e_p = NULL;
}

or_chooser_t *enumerator_chooser(enumerator_t *e)
{
    return &e->chooser;
}

void enumerator_begin(enumerator_t *e)
{
    e->at = 0;
    mpq_set_ui(e->probability, 1, 1);
}

mpq_srcptr enumerator_probability(const enumerator_t *e)
{
    return e->probability;
}

bool enumerator_advance(enumerator_t *e)
{
    assert_int_equal(e->at, e->depth); // the same choices led elsewhere: not a function of them
    while (e->depth > 0) {
        level_t *level = &e->levels[e->depth - 1];
        if (++level->taken < level->count) {
            return true;
        }
        e->depth--;
    }
    return false;
}

void enumerator_set_uniforms(enumerator_t *e, uint64_t uniform_set)
{
    e->uniform_set = uniform_set;
}
