// Goal: acceptance is what the papers' formulas say (docs/algorithms.md section 5), to 1e-12, and for the
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
#include "verifier/accept/accept.h"

#define TOLERANCE 1e-12
#define GRID 16u

typedef struct {
    toy_drafter_t *drafter;
    enumerator_t *enumerator;
    or_token_tree_t *tree;
    or_residual_t *residual;
    or_traversal_t *traversal;
    uint32_t vocab_size;
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
    or_traversal_create(64, &w->traversal);
    w->vocab_size = 2;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_t *w = *state;
    or_traversal_destroy(&w->traversal);
    or_residual_destroy(&w->residual);
    or_token_tree_destroy(&w->tree);
    enumerator_destroy(&w->enumerator);
    toy_drafter_destroy(&w->drafter);
    free(w);
    return 0;
}

static or_status_t target_dist(void *context, uint32_t node, const int32_t *history,
                               uint32_t history_count, or_distribution_t *dist)
{
    static const int32_t ids[] = {0, 1, 2, 3, 4};
    const world_t *w = context;
    (void)node;
    (void)history;
    (void)history_count;
    *dist = (or_distribution_t){.ids = ids, .weights = w->target, .count = w->vocab_size};
    return OR_OK;
}

// Return the expected number of accepted guesses.
static double accepted_of(world_t *w, const toy_plan_t *plan)
{
    const toy_t toy = {
        .vocab_size = w->vocab_size, .fixed_target = w->target, .fixed_draft = w->draft};
    const uint32_t widths[TOY_VOCAB_MAX] = {0};
    mpq_t accepted, weighted;
    mpq_inits(accepted, weighted, NULL);
    do {
        enumerator_begin(w->enumerator);
        or_chooser_t *chooser = enumerator_chooser(w->enumerator);
        const or_draws_t *draws = toy_drafter_draft(w->drafter, &toy, plan, chooser, w->tree);
        int32_t history[8] = {0};
        const or_accept_job_t job = {.tree = w->tree,
                                     .draws = draws,
                                     .dist = target_dist,
                                     .dist_context = w,
                                     .chooser = chooser,
                                     .residual = w->residual,
                                     .traversal = w->traversal,
                                     .history = history,
                                     .history_count = 1,
                                     .widths = widths};
        or_acceptance_t acceptance;
        assert_int_equal(or_accept(plan->rule, &job, &acceptance), OR_OK);
        mpq_set_ui(weighted, acceptance.accepted_count, 1);
        mpq_mul(weighted, weighted, enumerator_probability(w->enumerator));
        mpq_add(accepted, accepted, weighted);
    } while (enumerator_advance(w->enumerator));
    double result = mpq_get_d(accepted);
    mpq_clears(accepted, weighted, NULL);
    return result;
}

// Return the probability that one of `drafts` guesses is accepted.
static double acceptance_of(world_t *w, or_draft_method_t method, or_accept_rule_t rule,
                            uint32_t drafts)
{
    const toy_plan_t plan = {.method = method,
                             .rule = rule,
                             .shape = {.count = 1, .widths = {drafts}},
                             .nodes = drafts,
                             .depth = 1};
    return accepted_of(w, &plan);
}

// Set the distributions of a point of the grid. The drafter's p is rounded to a distribution of 16 bits; *p becomes
// the rounded value.
static void set_point(world_t *w, double *p, double q)
{
    w->draft[1] = (uint32_t)(*p * OR_DISTRIBUTION_TOTAL + 0.5);
    w->draft[0] = OR_DISTRIBUTION_TOTAL - w->draft[1];
    *p = (double)w->draft[1] / OR_DISTRIBUTION_TOTAL;
    w->target[1] = q;
    w->target[0] = 1 - q;
}

// The formula of RSD, figure 1; if q < p the two tokens change places.
static double multi_round(double p, double q, uint32_t drafts)
{
    if (q < p) {
        p = 1 - p;
        q = 1 - q;
    }
    return 1 - (q - p) * pow(1 - p, drafts - 1);
}

// The acceptance of K-SEQ with two guesses: g (2 - g), with its optimal gamma g.
static double kseq(double p, double q)
{
    double high = q < p ? 1 - p : p;
    double missing = q < p ? q : 1 - q;
    double gamma = ((2 - high) + sqrt((2 - high) * (2 - high) - 4 * missing)) / 2;
    return gamma * (2 - gamma);
}

static double otm(double p, double q, uint32_t drafts)
{
    if (q < p) {
        p = 1 - p;
        q = 1 - q;
    }
    return fmin(1, 2 - q - pow(1 - p, drafts));
}

static void check_point(world_t *w, double p, double q)
{
    set_point(w, &p, q);
    assert_near(acceptance_of(w, OR_DRAFT_MCSD, OR_ACCEPT_KSEQ, 2), kseq(p, q), TOLERANCE);
    for (uint32_t drafts = 1; drafts <= 4; drafts++) {
        assert_near(acceptance_of(w, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, drafts),
                    multi_round(p, q, drafts), TOLERANCE);
        assert_near(acceptance_of(w, OR_DRAFT_MCSD, OR_ACCEPT_OTM, drafts), otm(p, q, drafts),
                    TOLERANCE);
    }
    for (or_accept_rule_t rule = OR_ACCEPT_KSEQ; rule <= OR_ACCEPT_TRAVERSAL; rule++) {
        assert_near(acceptance_of(w, OR_DRAFT_CHAIN, rule, 1), 1 - fabs(p - q), TOLERANCE);
    }
    assert_near(acceptance_of(w, OR_DRAFT_CHAIN, OR_ACCEPT_SPS, 1), 1 - fabs(p - q), TOLERANCE);
    assert_near(acceptance_of(w, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 1), 1 - fabs(p - q),
                TOLERANCE);
    assert_near(acceptance_of(w, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, 2), 1, TOLERANCE);
    assert_near(acceptance_of(w, OR_DRAFT_RSD_C, OR_ACCEPT_TRAVERSAL, 2), 1, TOLERANCE);
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

// Compare with the table of docs/algorithms.md. Its p is no multiple of 1 / 65,536, so agreement
// is only that close.
static void the_table(void **state)
{
    static const struct {
        double p, q, multi_round, kseq, otm;
    } rows[] = {{.2, .8, .52, .536205, .56},
                {.1, .9, .28, .284582, .29},
                {.3, .5, .86, .896510, 1},
                {.5, .9, .8, .815037, .85}};
    world_t *w = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double p = rows[i].p;
        check_point(w, p, rows[i].q);
        set_point(w, &p, rows[i].q);
        assert_near(acceptance_of(w, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, 2), rows[i].multi_round,
                    2.0 / OR_DISTRIBUTION_TOTAL);
        assert_near(acceptance_of(w, OR_DRAFT_MCSD, OR_ACCEPT_KSEQ, 2), rows[i].kseq,
                    2.0 / OR_DISTRIBUTION_TOTAL);
        assert_near(acceptance_of(w, OR_DRAFT_MCSD, OR_ACCEPT_OTM, 2), rows[i].otm,
                    2.0 / OR_DISTRIBUTION_TOTAL);
    }
}

// No rule accepts more of K i.i.d. guesses than this bound: 1 - max over sets S of (p(S)^K -
// q(S)).
static double transport_bound(const double *p, const double *q, uint32_t count, uint32_t drafts)
{
    double most = 0;
    for (uint32_t set = 0; set < 1U << count; set++) {
        double p_of_set = 0;
        double q_of_set = 0;
        for (uint32_t i = 0; i < count; i++) {
            p_of_set += (set >> i & 1) != 0 ? p[i] : 0;
            q_of_set += (set >> i & 1) != 0 ? q[i] : 0;
        }
        most = fmax(most, pow(p_of_set, drafts) - q_of_set);
    }
    return 1 - most;
}

// Set the distributions of a toy after the empty text, and return them as probabilities too.
static void set_toy(world_t *w, const toy_t *toy, double *p, double *q)
{
    uint32_t tokens[TOY_VOCAB_MAX], weights[TOY_VOCAB_MAX];
    double total = 0;
    uint32_t count = toy_draft(toy, NULL, 0, tokens, weights);
    w->vocab_size = toy->vocab_size;
    toy_target(toy, NULL, 0, w->target);
    for (uint32_t id = 0; id < toy->vocab_size; id++) {
        total += w->target[id];
        w->draft[id] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        w->draft[tokens[i]] = weights[i];
    }
    for (uint32_t id = 0; id < toy->vocab_size; id++) {
        p[id] = (double)w->draft[id] / OR_DISTRIBUTION_TOTAL;
        q[id] = w->target[id] / total;
    }
}

static void otm_accepts_as_much_as_is_possible(void **state)
{
    world_t *w = *state;
    double p[TOY_VOCAB_MAX], q[TOY_VOCAB_MAX];
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const toy_t toy = {.seed = seed, .vocab_size = 3 + (uint32_t)seed % 3};
        set_toy(w, &toy, p, q);
        for (uint32_t drafts = 1; drafts <= 3; drafts++) {
            assert_near(acceptance_of(w, OR_DRAFT_MCSD, OR_ACCEPT_OTM, drafts),
                        transport_bound(p, q, toy.vocab_size, drafts), TOLERANCE);
        }
    }
}

// Block verification (Sun et al. 2024, theorem 1). The expected number is the sum over all
// prefixes of P(prefix) a(prefix), where a is min(1, a of the prefix before it times q / p).
static double block_of_two(const double *p, const double *q)
{
    double accepted = 0;
    for (int first = 0; first < 2; first++) {
        double a = fmin(1, q[first] / p[first]);
        accepted += p[first] * a;
        for (int second = 0; second < 2; second++) {
            accepted += p[first] * p[second] * fmin(1, a * q[second] / p[second]);
        }
    }
    return accepted;
}

// With two guesses, q = (1/3, 2/3) and p = (2/3, 1/3), the acceptance is 10/9 token by token and
// 11/9 as a block.
static void the_block_toy(void **state)
{
    world_t *w = *state;
    double third = 1.0 / 3;
    set_point(w, &third, 2.0 / 3);
    const double p[] = {1 - third, third}, q[] = {w->target[0], w->target[1]};
    double once = fmin(p[0], q[0]) + fmin(p[1], q[1]);
    toy_plan_t plan = {.method = OR_DRAFT_CHAIN, .rule = OR_ACCEPT_SPS, .nodes = 2, .depth = 2};
    assert_near(accepted_of(w, &plan), once + once * once, TOLERANCE);
    assert_near(accepted_of(w, &plan), 10.0 / 9, 3.0 / OR_DISTRIBUTION_TOTAL);
    for (plan.rule = OR_ACCEPT_BLOCK; plan.rule <= OR_ACCEPT_TRAVERSAL; plan.rule++) {
        assert_near(accepted_of(w, &plan), block_of_two(p, q), TOLERANCE);
        assert_near(accepted_of(w, &plan), 11.0 / 9, 3.0 / OR_DISTRIBUTION_TOTAL);
    }
}

// The acceptance of one coupled draft: the sum over i of 1 / sum over j of max(p_j / p_i, q_j /
// q_i) (Daliri et al. 2024).
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
        cmocka_unit_test_setup_teardown(otm_accepts_as_much_as_is_possible, setup, teardown),
        cmocka_unit_test_setup_teardown(the_block_toy, setup, teardown),
        cmocka_unit_test(coupled_matches_as_often_as_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
