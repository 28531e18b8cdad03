// Goal: the distribution is the one the header defines, for every filter alone and all together.
// Method: compare with a slow reference that sorts everything and counts by brute force, on
// random logits with ties; then test the edges.
#include "common/decode/sampling/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define VOCAB 257
#define HISTORY 90
#define ROUNDS 2000

typedef struct {
    int32_t id;
    double score;
} entry_t;

static float logits[VOCAB];
static int32_t history[HISTORY];
static entry_t expected[VOCAB];

static int best_first(const void *a, const void *b)
{
    const entry_t *x = a;
    const entry_t *y = b;
    if (x->score != y->score) {
        return x->score > y->score ? -1 : 1;
    }
    return x->id - y->id;
}

static double reference_logit(const or_sampling_t *s, int32_t id, uint32_t history_count)
{
    double logit = isnan(logits[id]) ? -INFINITY : (double)logits[id];
    for (uint32_t i = 0; i < s->bias_count; i++) {
        logit += s->bias[i].id == id ? (double)s->bias[i].bias : 0;
    }
    uint32_t times = 0;
    for (uint32_t back = 1; back <= history_count; back++) {
        bool inside = s->repeat_last_n < 0 || back <= (uint32_t)s->repeat_last_n;
        times += inside && history[history_count - back] == id;
    }
    if (times > 0) {
        logit = logit > 0 ? logit / (double)s->repeat_penalty : logit * (double)s->repeat_penalty;
        logit -= (double)s->presence_penalty + times * (double)s->frequency_penalty;
    }
    return logit;
}

// Fills `expected`, best first, and returns the count.
static uint32_t reference_dist(const or_sampling_t *s, uint32_t history_count)
{
    uint32_t count = 0;
    for (int32_t id = 0; id < VOCAB; id++) {
        double logit = reference_logit(s, id, history_count);
        if (isfinite(logit)) {
            expected[count++] =
                (entry_t){id, s->temperature > 0 ? logit / (double)s->temperature : logit};
        }
    }
    if (count == 0) {
        expected[0] = (entry_t){0, 0};
        return 1;
    }
    qsort(expected, count, sizeof *expected, best_first);
    if (s->temperature == 0) {
        expected[0].score = 0;
        return 1;
    }
    if (s->top_k > 0 && s->top_k < count) {
        count = s->top_k;
    }
    double best = expected[0].score;
    double total = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += exp(expected[i].score - best);
    }
    double mass = 0;
    uint32_t kept = 0;
    while (kept < count && (kept == 0 || s->top_p >= 1 || mass < (double)s->top_p * total)) {
        mass += exp(expected[kept++].score - best);
    }
    uint32_t strong = 0;
    while (strong < kept && exp(expected[strong].score - best) >= (double)s->min_p * (1 - 1e-12)) {
        strong++;
    }
    return strong;
}

static void assert_dist(or_sampler_t *sampler, const or_sampling_t *s, uint32_t history_count)
{
    or_distribution_t dist = or_sampler_distribution(sampler, s, logits, history, history_count);
    uint32_t count = reference_dist(s, history_count);
    entry_t listed[VOCAB];
    assert_int_equal(dist.count, count);
    for (uint32_t i = 0; i < count; i++) {
        listed[i] = (entry_t){dist.ids[i], dist.scores[i]};
    }
    qsort(listed, count, sizeof *listed, best_first);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(listed[i].id, expected[i].id);
        assert_true(fabs(listed[i].score - expected[i].score) <= 1e-12 * fabs(listed[i].score));
    }
}

// Fill in logits, on a coarse grid every other round, so that there are many ties.
static void fill(uint64_t *random, int round)
{
    for (int32_t id = 0; id < VOCAB; id++) {
        double value = 16 * test_uniform(random) - 8;
        logits[id] = (float)(round % 2 == 0 ? floor(value) : value);
        if (test_below(random, 40) == 0) {
            logits[id] = test_below(random, 2) == 0 ? -INFINITY : NAN;
        }
    }
    for (uint32_t i = 0; i < HISTORY; i++) {
        history[i] = (int32_t)test_below(random, 60);
    }
}

static bool coin(uint64_t *random)
{
    return test_below(random, 2) == 0;
}

static or_sampling_t random_sampling(uint64_t *random, const or_logit_bias_t *bias)
{
    static const int32_t windows[] = {-1, 0, 1, 64};
    or_sampling_t s = or_sampling_default();
    s.temperature = coin(random) ? 1 : (float)(0.05 + 2 * test_uniform(random));
    s.top_k = coin(random) ? 0 : (uint32_t)test_below(random, 2 * VOCAB);
    s.top_p = coin(random) ? 1 : (float)test_uniform(random);
    s.min_p = coin(random) ? 0 : (float)(0.3 * test_uniform(random));
    s.repeat_penalty = coin(random) ? 1 : (float)(0.5 + test_uniform(random));
    s.presence_penalty = coin(random) ? 0 : (float)(2 * test_uniform(random) - 1);
    s.frequency_penalty = coin(random) ? 0 : (float)(test_uniform(random) - 0.5);
    s.repeat_last_n = windows[test_below(random, 4)];
    s.bias = bias;
    s.bias_count = coin(random) ? 0 : 2;
    return s;
}

static void distribution_equals_the_slow_reference(void **state)
{
    or_sampler_t *sampler = *state;
    static const or_logit_bias_t bias[] = {{3, 1.5f}, {9, -INFINITY}};
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS; round++) {
        fill(&random, round);
        or_sampling_t s = random_sampling(&random, bias);
        assert_int_equal(or_sampling_check(&s, VOCAB), OR_OK);
        assert_dist(sampler, &s, (uint32_t)test_below(&random, HISTORY + 1));
    }
}

// Turn on one filter after the other, with everything else off.
static void each_filter_alone_equals_the_slow_reference(void **state)
{
    or_sampler_t *sampler = *state;
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS / 10; round++) {
        fill(&random, round);
        or_sampling_t filters[6];
        for (int i = 0; i < 6; i++) {
            filters[i] = or_sampling_default();
        }
        filters[0].top_k = 7;
        filters[1].top_p = 0.7f;
        filters[2].min_p = 0.05f;
        filters[3].repeat_penalty = 1.3f;
        filters[4].presence_penalty = 0.7f;
        filters[5].frequency_penalty = 0.2f;
        for (int i = 0; i < 6; i++) {
            assert_dist(sampler, &filters[i], HISTORY);
        }
    }
}

static void without_filters_ids_ascend(void **state)
{
    or_sampler_t *sampler = *state;
    uint64_t random = test_seed();
    fill(&random, 1);
    or_sampling_t s = or_sampling_default();
    s.top_k = VOCAB + 5;
    or_distribution_t dist = or_sampler_distribution(sampler, &s, logits, NULL, 0);
    for (uint32_t i = 1; i < dist.count; i++) {
        assert_true(dist.ids[i - 1] < dist.ids[i]);
    }
    assert_dist(sampler, &s, 0);
}

static void greedy_takes_the_best_after_bias_and_penalties(void **state)
{
    or_sampler_t *sampler = *state;
    static const or_logit_bias_t bias[] = {{3, 1.5f}, {9, -INFINITY}};
    uint64_t random = test_seed();
    for (int round = 0; round < ROUNDS / 10; round++) {
        fill(&random, round);
        or_sampling_t s = random_sampling(&random, bias);
        s.temperature = 0;
        assert_dist(sampler, &s, (uint32_t)test_below(&random, HISTORY + 1));
    }
}

// The logits are equal, so that every mass is exact: a set that has exactly the mass asked for
// is enough.
static void top_p_stops_where_it_has_its_mass(void **state)
{
    or_sampler_t *sampler = *state;
    or_sampling_t s = or_sampling_default();
    for (int i = 0; i < VOCAB; i++) {
        logits[i] = i < 4 ? 1 : -INFINITY;
    }
    for (uint32_t top_k = 0; top_k <= 4; top_k += 4) {
        logits[4] = top_k == 0 ? -INFINITY : 1; // top-k drops it, and has sorted the others
        s.top_k = top_k;
        for (uint32_t wanted = 1; wanted <= 3; wanted++) {
            s.top_p = (float)wanted / 4;
            or_distribution_t dist = or_sampler_distribution(sampler, &s, logits, NULL, 0);
            assert_int_equal(dist.count, wanted);
            s.top_p = nextafterf(s.top_p, 1);
            dist = or_sampler_distribution(sampler, &s, logits, NULL, 0);
            assert_int_equal(dist.count, wanted + 1);
        }
    }
}

static void edges(void **state)
{
    or_sampler_t *sampler = *state;
    or_sampling_t s = or_sampling_default();
    for (int i = 0; i < VOCAB; i++) {
        logits[i] = 1;
    }
    s.temperature = 0;
    or_distribution_t dist = or_sampler_distribution(sampler, &s, logits, NULL, 0);
    assert_int_equal(dist.count, 1);
    assert_int_equal(dist.ids[0], 0); // ties: the lowest id
    assert_true(dist.scores[0] == 0);
    s.temperature = 1;
    s.top_p = 0;
    dist = or_sampler_distribution(sampler, &s, logits, NULL, 0);
    assert_int_equal(dist.count, 1);
    assert_int_equal(dist.ids[0], 0);
    s.top_p = 1;
    s.top_k = 3;
    dist = or_sampler_distribution(sampler, &s, logits, NULL, 0);
    assert_int_equal(dist.count, 3);
    assert_int_equal(dist.ids[2], 2);
    s.min_p = 1;
    logits[200] = 5;
    dist = or_sampler_distribution(sampler, &s, logits, NULL, 0);
    assert_int_equal(dist.count, 1);
    assert_int_equal(dist.ids[0], 200);
}

static void hopeless_logits_keep_token_0(void **state)
{
    or_sampler_t *sampler = *state;
    static const float bad[] = {-INFINITY, INFINITY, NAN};
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < VOCAB; i++) {
            logits[i] = bad[kind];
        }
        or_sampling_t s = or_sampling_default();
        for (int greedy = 0; greedy < 2; greedy++) {
            s.temperature = greedy ? 0 : 1;
            or_distribution_t dist = or_sampler_distribution(sampler, &s, logits, NULL, 0);
            assert_int_equal(dist.count, 1);
            assert_int_equal(dist.ids[0], 0);
        }
    }
}

static void bad_settings_are_named(void **state)
{
    (void)state;
    static const or_logit_bias_t outside = {VOCAB, 0};
    static const or_logit_bias_t infinite = {0, INFINITY};
    static const or_logit_bias_t no_number = {0, NAN};
    static const or_logit_bias_t many[OR_BIASES_MAX + 1];
    or_sampling_t good = or_sampling_default();
    or_sampling_t bad[12];
    for (int i = 0; i < 12; i++) {
        bad[i] = good;
    }
    bad[0].temperature = -1;
    bad[1].temperature = NAN;
    bad[2].top_p = 1.5f;
    bad[3].min_p = -0.1f;
    bad[4].repeat_penalty = 0;
    bad[5].presence_penalty = INFINITY;
    bad[6].frequency_penalty = NAN;
    bad[7].repeat_last_n = -2;
    bad[8].bias = &outside;
    bad[8].bias_count = 1;
    bad[9].bias = &infinite;
    bad[9].bias_count = 1;
    bad[10].bias = &no_number;
    bad[10].bias_count = 1;
    bad[11].bias = many;
    bad[11].bias_count = OR_BIASES_MAX + 1;
    assert_int_equal(or_sampling_check(&good, VOCAB), OR_OK);
    good.bias = many;
    good.bias_count = OR_BIASES_MAX;
    assert_int_equal(or_sampling_check(&good, VOCAB), OR_OK);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(or_sampling_check(&bad[i], VOCAB), OR_ERR_INVALID);
    }
}

// Callers of or_sampling_is_plain leave out the history, so a penalty window must not be
// overlooked.
static void a_distribution_is_plain_without_bias_and_penalties(void **state)
{
    (void)state;
    static const or_logit_bias_t bias = {0, 0};
    static const int32_t windows[] = {-1, 1, 64, 0}; // the last is off
    or_sampling_t neutral = or_sampling_default();
    for (int w = 0; w < 4; w++) {
        neutral.repeat_last_n = windows[w];
        or_sampling_t penalties[3] = {neutral, neutral, neutral};
        penalties[0].repeat_penalty = 1.1f;
        penalties[1].presence_penalty = -0.5f;
        penalties[2].frequency_penalty = 0.5f;
        assert_true(or_sampling_is_plain(&neutral));
        for (int i = 0; i < 3; i++) {
            assert_int_equal(or_sampling_is_plain(&penalties[i]), windows[w] == 0);
        }
    }
    neutral.bias = &bias;
    neutral.bias_count = 1;
    assert_false(or_sampling_is_plain(&neutral));
}

static int setup(void **state)
{
    return or_sampler_create(VOCAB, (or_sampler_t **)state) == OR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    or_sampler_destroy((or_sampler_t **)state);
    return *state == NULL ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distribution_equals_the_slow_reference),
        cmocka_unit_test(each_filter_alone_equals_the_slow_reference),
        cmocka_unit_test(without_filters_ids_ascend),
        cmocka_unit_test(greedy_takes_the_best_after_bias_and_penalties),
        cmocka_unit_test(top_p_stops_where_it_has_its_mass),
        cmocka_unit_test(edges),
        cmocka_unit_test(hopeless_logits_keep_token_0),
        cmocka_unit_test(bad_settings_are_named),
        cmocka_unit_test(a_distribution_is_plain_without_bias_and_penalties),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
