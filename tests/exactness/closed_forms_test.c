// Goal: acceptance is what the papers' formulas say (ALGORITHMS.md section 5), to 1e-12, and for the
// coupled rule as close as its draws can tell.
//
// Method: two tokens, draft Bernoulli(p), target Bernoulli(q) on a grid; the ratio rules' choices
// are enumerated with the real drafter. The coupled rule draws with noise: its rate of matches over
// many places is compared with the formula, within five standard deviations.
#include <math.h>
#include <stdlib.h>

#include "common/decode/shape.h"
#include "tests/exactness/enumerator.h"
#include "tests/exactness/toy.h"
#include "tests/support/test_support.h"
#include "verifier/accept.h"

#define TOLERANCE 1e-12
#define GRID 16u

typedef struct {
    toy_drafter_t *drafter;
    enumerator_t *enumerator;
    or_token_tree_t *tree;
    or_residual_t *residual;
    double target[TOY_VOCAB_MAX];
    uint32_t draft[TOY_VOCAB_MAX];
} world_t;

static void assert_near(double is, double should_be, double tolerance)
{
    if (!(fabs(is - should_be) <= tolerance)) {
        fail_msg("%.15g, not %.15g", is, should_be);
    }
}

static int setup(void **state)
{
    world_t *w = calloc(1, sizeof *w);
    w->drafter = toy_drafter_create();
    w->enumerator = enumerator_create();
    or_token_tree_create(64, &w->tree);
    or_residual_create(TOY_VOCAB_MAX, &w->residual);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_t *w = *state;
    or_residual_destroy(&w->residual);
    or_token_tree_destroy(&w->tree);
    enumerator_destroy(&w->enumerator);
    toy_drafter_destroy(&w->drafter);
    free(w);
    return 0;
}

static or_status_t target_law(void *context, uint32_t node, const int32_t *history,
                              uint32_t history_count, or_law_t *law)
{
    static const int32_t ids[] = {0, 1};
    const world_t *w = context;
    (void)node;
    (void)history;
    (void)history_count;
    *law = (or_law_t){.ids = ids, .weights = w->target, .count = 2};
    return OR_OK;
}

// The probability that one of `drafts` guesses is accepted.
static double acceptance_of(world_t *w, or_draft_method_t method, or_accept_rule_t rule,
                            uint32_t drafts)
{
    const toy_t toy = {.vocab_size = 2, .fixed_target = w->target, .fixed_draft = w->draft};
    toy_plan_t plan = {.method = method, .rule = rule, .nodes = drafts, .depth = 1};
    plan.shape = (or_shape_t){.count = 1, .widths = {drafts}};
    const uint32_t widths[2] = {0};
    mpq_t accepted;
    mpq_init(accepted);
    do {
        enumerator_begin(w->enumerator);
        or_chooser_t *chooser = enumerator_chooser(w->enumerator);
        const or_draws_t *draws = toy_drafter_draft(w->drafter, &toy, &plan, chooser, w->tree);
        int32_t history[8] = {0};
        const or_accept_job_t job = {.tree = w->tree,
                                     .draws = draws,
                                     .law = target_law,
                                     .law_context = w,
                                     .chooser = chooser,
                                     .residual = w->residual,
                                     .history = history,
                                     .history_count = 1,
                                     .widths = widths};
        or_acceptance_t acceptance;
        assert_int_equal(or_accept(rule, &job, &acceptance), OR_OK);
        if (acceptance.accepted_count > 0) {
            mpq_add(accepted, accepted, enumerator_probability(w->enumerator));
        }
    } while (enumerator_advance(w->enumerator));
    double result = mpq_get_d(accepted);
    mpq_clear(accepted);
    return result;
}

// Laws of the grid's point; the drafter's p is rounded to a law of 16 bits, and *p is what it became.
static void set_point(world_t *w, double *p, double q)
{
    w->draft[1] = (uint32_t)(*p * OR_LAW_TOTAL + 0.5);
    w->draft[0] = OR_LAW_TOTAL - w->draft[1];
    *p = (double)w->draft[1] / OR_LAW_TOTAL;
    w->target[1] = q;
    w->target[0] = 1 - q;
}

// RSD, figure 1; if q < p the two tokens change places.
static double multi_round(double p, double q, uint32_t drafts)
{
    if (q < p) {
        p = 1 - p;
        q = 1 - q;
    }
    return 1 - (q - p) * pow(1 - p, drafts - 1);
}

static void check_point(world_t *w, double p, double q)
{
    set_point(w, &p, q);
    for (uint32_t drafts = 1; drafts <= 4; drafts++) {
        assert_near(acceptance_of(w, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, drafts),
                    multi_round(p, q, drafts), TOLERANCE);
    }
    assert_near(acceptance_of(w, OR_DRAFT_CHAIN, OR_ACCEPT_SPS, 1), 1 - fabs(p - q), TOLERANCE);
    assert_near(acceptance_of(w, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 1), 1 - fabs(p - q),
                TOLERANCE);
    assert_near(acceptance_of(w, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 2), 1, TOLERANCE);
    assert_near(acceptance_of(w, OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, 2), 1, TOLERANCE);
    double once = (1 - p) * (1 - q) + p * q;
    assert_near(acceptance_of(w, OR_DRAFT_RSD_C, OR_ACCEPT_NAIVE, 1), once, TOLERANCE);
}

static void two_tokens_on_a_grid(void **state)
{
    for (uint32_t i = 1; i < GRID; i++) {
        for (uint32_t j = 1; j < GRID; j++) {
            check_point(*state, (double)i / GRID, (double)j / GRID);
        }
    }
}

// The table of ALGORITHMS.md, whose p is no multiple of 1 / 65,536: to that much.
static void the_table(void **state)
{
    static const struct {
        double p, q, multi_round;
    } rows[] = {{.2, .8, .52}, {.1, .9, .28}, {.3, .5, .86}, {.5, .9, .8}};
    world_t *w = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double p = rows[i].p;
        check_point(w, p, rows[i].q);
        set_point(w, &p, rows[i].q);
        assert_near(acceptance_of(w, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 2), rows[i].multi_round,
                    2.0 / OR_LAW_TOTAL);
    }
}

// One draft, coupled: sum over i of 1 / sum over j of max(p_j / p_i, q_j / q_i) (Daliri et al.
// 2024).
static double coupled_match(const double *p, const double *q, uint32_t count)
{
    double match = 0;
    for (uint32_t i = 0; i < count; i++) {
        double sum = 0;
        for (uint32_t j = 0; j < count; j++) {
            sum += fmax(p[j] / p[i], q[j] / q[i]);
        }
        match += 1 / sum;
    }
    return match;
}

static void coupled_matches_as_often_as_it_should(void **state)
{
    enum { PLACES = 200000, TOKENS = 4 };
    static const double pairs[][2][TOKENS] = {{{.4, .3, .2, .1}, {.1, .2, .3, .4}},
                                              {{.7, .1, .1, .1}, {.6, .2, .1, .1}},
                                              {{.25, .25, .25, .25}, {.01, .01, .01, .97}}};
    static const uint64_t keys[TOKENS] = {11, 22, 33, 44};
    static const int32_t ids[TOKENS] = {0, 1, 2, 3};
    (void)state;
    uint64_t seed = test_seed();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double p[TOKENS], q[TOKENS];
        or_rng_key_t key = or_noise_key(seed, (uint32_t)i);
        uint32_t matches = 0;
        for (uint32_t j = 0; j < TOKENS; j++) {
            p[j] = log(pairs[i][0][j]);
            q[j] = log(pairs[i][1][j]);
        }
        for (uint32_t place = 0; place < PLACES; place++) {
            or_noise_place_t at = {place, 0};
            matches += or_noise_argmax(key, at, ids, p, TOKENS, keys) ==
                       or_noise_argmax(key, at, ids, q, TOKENS, keys);
        }
        double expected = coupled_match(pairs[i][0], pairs[i][1], TOKENS);
        double deviation = sqrt(expected * (1 - expected) / PLACES);
        assert_true(fabs((double)matches / PLACES - expected) < 5 * deviation);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_tokens_on_a_grid, setup, teardown),
        cmocka_unit_test_setup_teardown(the_table, setup, teardown),
        cmocka_unit_test(coupled_matches_as_often_as_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
