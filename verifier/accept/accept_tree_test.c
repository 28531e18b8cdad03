// Goal: the rules that walk the tree themselves take the path they should: traversal's questions are
// those of its algorithm, what cannot be accepted is not asked about, and typical acceptance takes the
// longest plausible path; lenient asks for just as much more as it was told.
// Method: trees and distributions worked out by hand; a chooser that notes every coin and answers as told, and
// a target that notes which distributions it was asked for, after which text.
#include <math.h>
#include <string.h>

#include "tests/support/test_support.h"
#include "verifier/accept/accept.h"

#define VOCAB 6
#define ROOT_TOKEN 5
#define NOTED_MAX 32

// p = 1/2, 1/4, 1/4 of tokens 0, 1, 2; q = 1/8, 3/8, 1/2 of tokens 0, 1, 3.
static const uint32_t p_tokens[] = {0, 1, 2}, p_weights[] = {32768, 16384, 16384};
static const int32_t q_ids[] = {3, 0, 1};
static const double q_weights[] = {4, 1, 3};

typedef struct {
    or_chooser_t chooser; // first
    uint32_t coins;
    uint32_t coin_nodes[NOTED_MAX];
    double chances[NOTED_MAX];
    uint32_t falls_at;      // the coin that is true; NOTED_MAX: none
    or_noise_place_t place; // of the token asked for
} script_t;

typedef struct {
    script_t script;
    or_token_tree_t *tree;
    or_residual_t *residual;
    or_traversal_t *traversal;
    uint32_t dist_index[16], order[16];
    or_reduced_distribution_t dist;
    or_draws_t draws;
    int32_t history[24];
    uint32_t widths[VOCAB];
    uint32_t dists_asked, dist_nodes[NOTED_MAX];
    or_accept_job_t job;
    or_acceptance_t acceptance;
} fixture_t;

static bool noted_coin(or_chooser_t *chooser, or_choice_t at, double numerator, double denominator)
{
    script_t *script = (script_t *)chooser;
    uint32_t coin = script->coins++;
    assert_int_equal(at.purpose, OR_RNG_ACCEPT);
    assert_true(coin < NOTED_MAX && denominator > 0);
    script->coin_nodes[coin] = at.node;
    script->chances[coin] = numerator / denominator;
    return coin == script->falls_at;
}

// Always the first that is possible.
static uint32_t first_draw(or_chooser_t *chooser, or_choice_t at, const double *weights,
                           uint32_t count)
{
    (void)chooser;
    (void)at;
    for (uint32_t i = 0; i < count; i++) {
        if (weights[i] > 0) {
            return i;
        }
    }
    fail_msg("nothing to draw");
    return 0;
}

static int32_t noted_token(or_chooser_t *chooser, const or_distribution_t *dist,
                           or_noise_place_t place)
{
    ((script_t *)chooser)->place = place;
    return dist->ids[0];
}

static or_status_t target_dist(void *context, uint32_t node, const int32_t *history,
                               uint32_t history_count, or_distribution_t *dist)
{
    fixture_t *f = context;
    f->dist_nodes[f->dists_asked++] = node;
    assert_int_equal(history_count, 1 + or_token_tree_depths(f->tree)[node]);
    for (uint32_t above = node, i = history_count; i-- > 0;) {
        assert_int_equal(history[i], or_token_tree_tokens(f->tree)[above]);
        above = or_token_tree_parents(f->tree)[above];
    }
    *dist = (or_distribution_t){.ids = q_ids, .weights = q_weights, .count = 3};
    return OR_OK;
}

static int setup(void **state)
{
    static fixture_t fixture;
    fixture_t *f = &fixture;
    memset(f, 0, sizeof *f);
    if (or_token_tree_create(16, &f->tree) != OR_OK ||
        or_residual_create(VOCAB, &f->residual) != OR_OK ||
        or_traversal_create(16, &f->traversal) != OR_OK) {
        return -1;
    }
    f->dist = (or_reduced_distribution_t){p_tokens, p_weights, 3};
    f->draws = (or_draws_t){f->dist_index, f->order, &f->dist, 1};
    f->history[0] = ROOT_TOKEN;
    f->script.chooser =
        (or_chooser_t){.bernoulli = noted_coin, .draw = first_draw, .token = noted_token};
    f->script.falls_at = NOTED_MAX;
    for (uint32_t i = 0; i < VOCAB; i++) {
        f->widths[i] = i + 1;
    }
    f->job = (or_accept_job_t){.tree = f->tree,
                               .draws = &f->draws,
                               .dist = target_dist,
                               .dist_context = f,
                               .chooser = &f->script.chooser,
                               .residual = f->residual,
                               .traversal = f->traversal,
                               .lenience = 2,
                               .typical_epsilon = 0.3,
                               .typical_delta = 10,
                               .history = f->history,
                               .history_count = 1,
                               .widths = f->widths};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_t *f = *state;
    or_token_tree_destroy(&f->tree);
    or_residual_destroy(&f->residual);
    or_traversal_destroy(&f->traversal);
    return 0;
}

static void grow(fixture_t *f, const int32_t *tokens, const uint32_t *parents, uint32_t count)
{
    or_token_tree_reset(f->tree, ROOT_TOKEN);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(or_token_tree_add(f->tree, parents[i], tokens[i], NULL), OR_OK);
    }
}

static void judge(fixture_t *f, or_accept_rule_t rule)
{
    f->script.coins = f->dists_asked = 0;
    assert_int_equal(or_accept(rule, &f->job, &f->acceptance), OR_OK);
}

static void assert_coin(const fixture_t *f, uint32_t coin, uint32_t node, double chance)
{
    assert_true(coin < f->script.coins);
    assert_int_equal(f->script.coin_nodes[coin], node);
    if (!(fabs(f->script.chances[coin] - chance) < 1e-15)) {
        fail_msg("coin %u: %.17g instead of %.17g", coin, f->script.chances[coin], chance);
    }
}

static void assert_path(const fixture_t *f, const uint32_t *nodes, uint32_t count, int32_t next)
{
    assert_int_equal(f->acceptance.accepted_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(f->acceptance.accepted[i], nodes[i]);
    }
    assert_int_equal(f->acceptance.next, next);
}

// root -> 0 -> 1. The child's a is (1/8) / (1/2) = 1/4, the leaf's 1/4 (3/8) / (1/4) = 3/8. When that
// fails R = [q/4 - p]+ is 1/8 of token 3, and a = (1/8) / (1/8 + 3/4) = 1/7.
static void traversal_goes_from_the_leaves_up(void **state)
{
    fixture_t *f = *state;
    static const int32_t tokens[] = {0, 1};
    static const uint32_t parents[] = {0, 1}, path[] = {1, 2};
    grow(f, tokens, parents, 2);
    for (or_accept_rule_t rule = OR_ACCEPT_BLOCK; rule <= OR_ACCEPT_TRAVERSAL; rule++) {
        f->script.falls_at = NOTED_MAX;
        judge(f, rule);
        assert_int_equal(f->script.coins, 2);
        assert_coin(f, 0, 2, 3.0 / 8);
        assert_coin(f, 1, 1, 1.0 / 7);
        assert_path(f, path, 0,
                    1); // R = [q - p]+: 1/8 of token 1, which the distribution has, 1/2 of 3
        f->script.falls_at = 1;
        judge(f, rule);
        assert_path(f, path, 1, 3);
        f->script.falls_at = 0;
        judge(f, rule);
        assert_path(f, path, 2, 3); // q itself, in its own order
    }
}

// root -> 2 -> 1 and root -> 1: q has no 2, so nothing below it is asked about. Then M is [q - p]+,
// 1/5 of 1 and 4/5 of 3, and S 2/3 of 0 and 1/3 of 1.
static void traversal_leaves_out_what_cannot_be(void **state)
{
    fixture_t *f = *state;
    static const int32_t tokens[] = {2, 1, 1};
    static const uint32_t parents[] = {0, 1, 0}, path[] = {3};
    grow(f, tokens, parents, 3);
    f->script.falls_at = 0;
    judge(f, OR_ACCEPT_TRAVERSAL);
    assert_int_equal(f->script.coins, 1);
    assert_coin(f, 0, 3, 3.0 / 5);
    assert_int_equal(f->dists_asked, 2); // the root's, and that of the node where y is drawn
    assert_int_equal(f->dist_nodes[1], 3);
    assert_path(f, path, 1, f->acceptance.next);
}

static void a_stop_id_is_a_leaf(void **state)
{
    fixture_t *f = *state;
    static const int32_t tokens[] = {0, 1, 0};
    static const uint32_t parents[] = {0, 1, 2}, path[] = {1}, stop[] = {1};
    grow(f, tokens, parents, 3);
    f->job.stop_ids = stop;
    f->job.stop_count = 1;
    f->script.falls_at = 0;
    judge(f, OR_ACCEPT_TRAVERSAL);
    assert_coin(f, 0, 2, 3.0 / 8); // not the node below it
    assert_path(f, path, 1, 1);
    assert_true(f->acceptance.stopped);
    assert_int_equal(f->dists_asked, 2); // and none after the end
}

// root -> 1 -> 3 -> 0 and root -> 3: 1 and 3 pass (3/8, 1/2 > 0.3), 0 does not.
static void typical_takes_the_longest_plausible_path(void **state)
{
    fixture_t *f = *state;
    static const int32_t tokens[] = {3, 1, 3, 0};
    static const uint32_t parents[] = {0, 0, 2, 3}, path[] = {2, 3}, stop[] = {3};
    grow(f, tokens, parents, 4);
    f->job.draws = NULL;
    judge(f, OR_ACCEPT_TYPICAL);
    assert_path(f, path, 2, 3);
    assert_int_equal(f->script.coins, 0);
    assert_int_equal(f->script.place.byte_offset, 2 + 4); // after the path's bytes
    f->job.stop_ids = stop;
    f->job.stop_count = 1;
    judge(f, OR_ACCEPT_TYPICAL);
    assert_path(f, path, 1, 3);
    assert_true(f->acceptance.stopped);
}

// Thresholds just below and just above q(1) = 3/8, set by delta exp(-H(q)), then by epsilon.
static void typical_asks_less_where_the_target_is_unsure(void **state)
{
    fixture_t *f = *state;
    static const int32_t tokens[] = {1};
    static const uint32_t parents[] = {0};
    double entropy = -(0.5 * log(0.5) + 0.125 * log(0.125) + 0.375 * log(0.375));
    grow(f, tokens, parents, 1);
    f->job.typical_epsilon = 1;
    f->job.typical_delta = 0.374 / exp(-entropy);
    judge(f, OR_ACCEPT_TYPICAL);
    assert_int_equal(f->acceptance.accepted_count, 1);
    f->job.typical_delta = 0.376 / exp(-entropy);
    judge(f, OR_ACCEPT_TYPICAL);
    assert_int_equal(f->acceptance.accepted_count, 0);
    f->job.typical_epsilon = 0.374;
    judge(f, OR_ACCEPT_TYPICAL);
    assert_int_equal(f->acceptance.accepted_count, 1);
}

static void lenient_asks_for_less_and_draws_as_sps_does(void **state)
{
    fixture_t *f = *state;
    static const int32_t tokens[] = {0};
    static const uint32_t parents[] = {0};
    grow(f, tokens, parents, 1);
    judge(f, OR_ACCEPT_LENIENT);
    assert_coin(f, 0, 0, 2.0 / 4);
    int32_t next = f->acceptance.next;
    judge(f, OR_ACCEPT_SPS);
    assert_coin(f, 0, 0, 1.0 / 4);
    assert_int_equal(f->acceptance.next, next);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(traversal_goes_from_the_leaves_up),
        TEST(traversal_leaves_out_what_cannot_be),
        TEST(a_stop_id_is_a_leaf),
        TEST(typical_takes_the_longest_plausible_path),
        TEST(typical_asks_less_where_the_target_is_unsure),
        TEST(lenient_asks_for_less_and_draws_as_sps_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
