// Goal: the ratio rules ask exactly the questions of docs/algorithms.md section 1, in that order, and
// make of the answers the path that follows from them.
// Method: one node worked out by hand in fractions. A scripted chooser compares every coin it is
// asked for, exactly, and answers as the case says; every answer to the draws is taken in turn,
// which gives the distribution of the last token. Then walks, stop ids, repeated siblings, distributions of one token.
#include <math.h>
#include <string.h>

#include "tests/support/test_support.h"
#include "verifier/accept/accept.h"

#define VOCAB 8
#define ROOT_TOKEN 7

typedef struct {
    uint32_t node, child; // the child's number among its siblings
    double num, den;
    bool falls; // the answer
} coin_t;

typedef struct {
    or_chooser_t chooser;
    const coin_t *coins; // den 0 ends them
    uint32_t coins_asked;
    uint32_t draw_node;
    uint32_t draws_asked;
    uint32_t answers[2], choices[2]; // of the draws; an answer is below `choices`
    double probability;              // of those answers
} script_t;

static bool scripted_coin(or_chooser_t *chooser, or_choice_t at, double num, double den)
{
    script_t *script = (script_t *)chooser;
    const coin_t *coin = &script->coins[script->coins_asked++];
    assert_true(coin->den > 0); // there are no more
    assert_int_equal(at.purpose, OR_RNG_ACCEPT);
    assert_int_equal(at.node, coin->node);
    assert_int_equal(at.draw, coin->child);
    if (!(den > 0 && num * coin->den == den * coin->num)) {
        fail_msg("node %u, child %u: a coin of %.17g / %.17g instead of %g / %g", at.node, at.draw,
                 num, den, coin->num, coin->den);
    }
    return coin->falls;
}

// The answer planned, or the next one that is possible.
static uint32_t scripted_draw(or_chooser_t *chooser, or_choice_t at, const double *weights,
                              uint32_t count)
{
    script_t *script = (script_t *)chooser;
    uint32_t call = script->draws_asked++;
    double total = 0;
    assert_true(call < 2);
    assert_int_equal(at.purpose, OR_RNG_RESIDUAL);
    assert_int_equal(at.node, script->draw_node);
    assert_int_equal(at.draw, call);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(weights[i] >= 0);
        total += weights[i];
        script->choices[call] = weights[i] > 0 ? i + 1 : script->choices[call];
    }
    while (weights[script->answers[call]] == 0) {
        script->answers[call]++;
        assert_true(script->answers[call] < count);
    }
    script->probability *= weights[script->answers[call]] / total;
    return script->answers[call];
}

// ---- the node of the cases: q and p of tokens 0 to 4 ----
//
//     q   0: 2/16   1: 4/16   2: 6/16   3: 1/16   4: 3/16      (listed in another order)
//     p             1: 1/2    2: 1/4    3: 1/4

static const int32_t q_ids[] = {4, 2, 0, 3, 1};
static const double q_weights[] = {3, 6, 2, 1, 4};
static const uint32_t p_tokens[] = {1, 2, 3}, p_weights[] = {32768, 16384, 16384};
static const double q_parts[VOCAB] = {2, 4, 6, 1, 3};

typedef struct {
    or_token_tree_t *tree;
    or_residual_t *residual;
    or_draws_t draws;
    uint32_t dist_index[16], order[16]; // all from the one distribution
    or_reduced_distribution_t dist;
    int32_t history[24];
    const int32_t *ids; // the target's distribution, the same at every node
    const double *weights;
    uint32_t count;
    double given[VOCAB]; // the last distribution's weights, overwritten by the next one's
    uint32_t dists_asked;
    uint32_t widths[VOCAB];
    script_t script;
    or_accept_job_t job;
    or_acceptance_t acceptance;
} fixture_t;

// Every distribution is in the same place, as a sampler has it.
static or_status_t target_dist(void *context, uint32_t node, const int32_t *history,
                               uint32_t history_count, or_distribution_t *dist)
{
    fixture_t *f = context;
    f->dists_asked++;
    assert_int_equal(history_count, 1 + or_token_tree_depths(f->tree)[node]);
    assert_int_equal(history[history_count - 1], or_token_tree_tokens(f->tree)[node]);
    memset(f->given, 0xAA, sizeof f->given);
    memcpy(f->given, f->weights, f->count * sizeof *f->weights);
    *dist = (or_distribution_t){.ids = f->ids, .weights = f->given, .count = f->count};
    return OR_OK;
}

static int setup(void **state)
{
    static fixture_t fixture;
    fixture_t *f = &fixture;
    memset(f, 0, sizeof *f);
    if (or_token_tree_create(16, &f->tree) != OR_OK ||
        or_residual_create(VOCAB, &f->residual) != OR_OK) {
        return -1;
    }
    or_token_tree_reset(f->tree, ROOT_TOKEN);
    f->dist = (or_reduced_distribution_t){p_tokens, p_weights, 3};
    f->draws = (or_draws_t){f->dist_index, f->order, &f->dist, 1};
    f->ids = q_ids;
    f->weights = q_weights;
    f->count = 5;
    f->history[0] = ROOT_TOKEN;
    f->script.chooser = (or_chooser_t){.bernoulli = scripted_coin, .draw = scripted_draw};
    f->job = (or_accept_job_t){.tree = f->tree,
                               .draws = &f->draws,
                               .dist = target_dist,
                               .dist_context = f,
                               .chooser = &f->script.chooser,
                               .residual = f->residual,
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
    return 0;
}

static void grow(fixture_t *f, const int32_t *tokens, const uint32_t *parents, uint32_t count)
{
    or_token_tree_reset(f->tree, ROOT_TOKEN);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(or_token_tree_add(f->tree, parents[i], tokens[i], NULL), OR_OK);
    }
}

static void accept_once(fixture_t *f, or_accept_rule_t rule, const coin_t *coins)
{
    f->script.coins = coins;
    f->script.coins_asked = f->script.draws_asked = 0;
    f->script.probability = 1;
    assert_int_equal(or_accept(rule, &f->job, &f->acceptance), OR_OK);
    assert_true(coins[f->script.coins_asked].den == 0); // every question was asked
}

// The distribution of the last token, drawn at `node`, over every answer to the draws; `parts` as its
// probabilities are to each other.
static void assert_draws(fixture_t *f, or_accept_rule_t rule, const coin_t *coins, uint32_t node,
                         const double parts[VOCAB])
{
    double drawn[VOCAB] = {0}, total = 0;
    script_t *script = &f->script;
    script->draw_node = node;
    script->choices[0] = 1;
    for (script->answers[0] = 0; script->answers[0] < script->choices[0]; script->answers[0]++) {
        script->choices[1] = 1;
        for (script->answers[1] = 0; script->answers[1] < script->choices[1];
             script->answers[1]++) {
            accept_once(f, rule, coins);
            drawn[f->acceptance.next] += script->probability;
        }
    }
    for (int i = 0; i < VOCAB; i++) {
        total += parts[i];
    }
    for (int i = 0; i < VOCAB; i++) {
        if (!(fabs(drawn[i] - parts[i] / total) < 1e-14)) {
            fail_msg("token %d: %.15f instead of %.15f", i, drawn[i], parts[i] / total);
        }
    }
}

static const uint32_t no_parents[8] = {0};

// ---- tests ----

static void without_guesses_the_token_is_the_targets(void **state)
{
    fixture_t *f = *state;
    static const or_accept_rule_t rules[] = {OR_ACCEPT_SPS, OR_ACCEPT_MULTI_ROUND,
                                             OR_ACCEPT_RECURSIVE};
    static const coin_t none[] = {{0}};
    f->job.draws = NULL;
    for (int i = 0; i < 3; i++) {
        assert_draws(f, rules[i], none, 0, q_parts);
        assert_int_equal(f->acceptance.accepted_count, 0);
    }
}

static void sps_by_hand(void **state)
{
    fixture_t *f = *state;
    static const int32_t chain[] = {1, 1};
    static const uint32_t parents[] = {0, 1};
    grow(f, chain, parents, 2);
    // (4/16) / (1/2) rejected: [q - p]+ is 2/16 of 0, 2/16 of 2, 3/16 of 4.
    static const coin_t rejected[] = {{0, 0, 1, 2, false}, {0}};
    static const double residual[VOCAB] = {2, 0, 2, 0, 3};
    assert_draws(f, OR_ACCEPT_SPS, rejected, 0, residual);
    assert_int_equal(f->acceptance.accepted_count, 0);
    static const coin_t both[] = {{0, 0, 1, 2, true}, {1, 0, 1, 2, true}, {0}};
    assert_draws(f, OR_ACCEPT_SPS, both, 2, q_parts);
    assert_int_equal(f->acceptance.accepted_count, 2);
    assert_int_equal(f->acceptance.accepted[0], 1);
    assert_int_equal(f->acceptance.accepted[1], 2);
    static const coin_t second[] = {{0, 0, 1, 2, true}, {1, 0, 1, 2, false}, {0}};
    assert_draws(f, OR_ACCEPT_SPS, second, 1, residual);
    assert_int_equal(f->acceptance.accepted_count, 1);
}

// S loses each token: 1/2 1/4 1/4, then 1/2 1/2, then 1.
static void recursive_by_hand(void **state)
{
    fixture_t *f = *state;
    static const int32_t siblings[] = {1, 2, 3};
    grow(f, siblings, no_parents, 3);
    static const coin_t all_rejected[] = {
        {0, 0, 1, 2, false}, // M = 2/7 of 0, 2/7 of 2, 3/7 of 4
        {0, 1, 4, 7, false}, // (2/7) / (1/2); M = 2/5 of 0, 3/5 of 4
        {0, 2, 0, 1, false}, // M has no 3
        {0}};
    static const double residual[VOCAB] = {[0] = 2, [4] = 3};
    assert_draws(f, OR_ACCEPT_RECURSIVE, all_rejected, 0, residual);
    assert_int_equal(f->acceptance.accepted_count, 0);
    static const coin_t second[] = {{0, 0, 1, 2, false}, {0, 1, 4, 7, true}, {0}};
    assert_draws(f, OR_ACCEPT_RECURSIVE, second, 2, q_parts);
    assert_int_equal(f->acceptance.accepted_count, 1);
    assert_int_equal(f->acceptance.accepted[0], 2);
}

// The order of siblings matters, and is the tree's.
static void recursive_in_another_order(void **state)
{
    fixture_t *f = *state;
    static const int32_t siblings[] = {3, 1};
    grow(f, siblings, no_parents, 2);
    static const coin_t coins[] = {
        {0, 0, 1, 4, false}, // (1/16) / (1/4); M-S: 2/16 of 0, 2/16 of 2, 3/16 of 4, none of 1
        {0, 1, 0, 1, false}, // S = 2/3 of 1, 1/3 of 2; M loses 2: 2/7 - 1/3 < 0
        {0}};
    static const double residual[VOCAB] = {[0] = 2, [4] = 3};
    assert_draws(f, OR_ACCEPT_RECURSIVE, coins, 0, residual);
}

// S stays as it is, and a token drawn twice is tried twice.
static void multi_round_by_hand(void **state)
{
    fixture_t *f = *state;
    static const int32_t siblings[] = {1, 1, 2};
    grow(f, siblings, no_parents, 3);
    static const coin_t all_rejected[] = {
        {0, 0, 1, 2, false},  // M = 2/7 of 0, 2/7 of 2, 3/7 of 4
        {0, 1, 0, 1, false},  // M has no 1 any more; M-S: 8/28 of 0, 1/28 of 2, 12/28 of 4
        {0, 2, 4, 21, false}, // (1/21) / (1/4); M = 2/5 of 0, 3/5 of 4
        {0}};
    static const double residual[VOCAB] = {[0] = 2, [4] = 3};
    assert_draws(f, OR_ACCEPT_MULTI_ROUND, all_rejected, 0, residual);
    static const int32_t two[] = {1, 2};
    grow(f, two, no_parents, 2);
    static const coin_t second[] = {{0, 0, 1, 2, false}, {0, 1, 8, 7, true}, {0}};
    assert_draws(f, OR_ACCEPT_MULTI_ROUND, second, 2, q_parts);
}

// root -> 2 (twice) -> 1: the second 2 is accepted, and the path goes on below the first.
static void of_repeated_siblings_the_first_is_accepted(void **state)
{
    fixture_t *f = *state;
    static const int32_t tokens[] = {2, 1, 2};
    static const uint32_t parents[] = {0, 1, 0};
    grow(f, tokens, parents, 3);
    static const int32_t ids[] = {1, 2};
    static const double weights[] = {1, 63}; // (63/64) / (1/4): only a script rejects that
    f->ids = ids;
    f->weights = weights;
    f->count = 2;
    static const double parts[VOCAB] = {[1] = 1, [2] = 63};
    static const coin_t coins[] = {
        {0, 0, 63, 16, false}, {0, 1, 4, 1, true}, {1, 0, 1, 32, true}, {0}};
    assert_draws(f, OR_ACCEPT_MULTI_ROUND, coins, 2, parts);
    assert_int_equal(f->acceptance.accepted_count, 2);
    assert_int_equal(f->acceptance.accepted[0], 1);
    assert_int_equal(f->acceptance.accepted[1], 2);
}

// M and S bit-identical: the coin is 1 : 1.
static void a_draft_that_is_the_target(void **state)
{
    fixture_t *f = *state;
    static const int32_t ids[] = {3, 1, 2};
    static const double weights[] = {0.5, 1, 0.5};
    static const int32_t siblings[] = {1};
    static const double parts[VOCAB] = {[1] = 2, [2] = 1, [3] = 1};
    static const coin_t coins[] = {{0, 0, 1, 1, true}, {0}};
    static const or_accept_rule_t rules[] = {OR_ACCEPT_SPS, OR_ACCEPT_MULTI_ROUND,
                                             OR_ACCEPT_RECURSIVE};
    f->ids = ids;
    f->weights = weights;
    f->count = 3;
    grow(f, siblings, no_parents, 1);
    for (int i = 0; i < 3; i++) {
        assert_draws(f, rules[i], coins, 1, parts);
        assert_int_equal(f->acceptance.accepted_count, 1);
    }
}

static void a_stop_id_in_the_tree_ends_the_text(void **state)
{
    fixture_t *f = *state;
    static const int32_t tokens[] = {1, 2, 3};
    static const uint32_t parents[] = {0, 1, 2};
    static const uint32_t stop[] = {2};
    static const coin_t coins[] = {{0, 0, 1, 2, true}, {1, 0, 3, 2, true}, {0}};
    grow(f, tokens, parents, 3);
    f->job.stop_ids = stop;
    f->job.stop_count = 1;
    accept_once(f, OR_ACCEPT_RECURSIVE, coins);
    assert_int_equal(f->acceptance.accepted_count, 1);
    assert_int_equal(f->acceptance.next, 2);
    assert_true(f->acceptance.stopped);
    assert_int_equal(f->dists_asked, 2); // nothing is asked of what comes after it
    assert_int_equal(f->script.draws_asked, 0);
}

// Temperature 0: a distribution of one token. With the chooser of processes the path is the greedy one.
static void a_distribution_of_one_token_is_always_followed(void **state)
{
    fixture_t *f = *state;
    static const int32_t ids[] = {3};
    static const double weights[] = {1};
    static const int32_t tokens[] = {1, 3, 2, 3};
    static const uint32_t parents[] = {0, 0, 2, 2};
    static const int32_t chain[] = {3, 1};
    static const uint32_t below[] = {0, 1};
    f->ids = ids;
    f->weights = weights;
    f->count = 1;
    for (uint64_t round = 1; round < 500; round++) {
        or_keyed_chooser_t keyed =
            or_keyed_chooser((or_rng_key_t){5}, round, (or_rng_key_t){0}, NULL);
        f->job.chooser = &keyed.chooser;
        grow(f, tokens, parents, 4);
        for (int multi = 0; multi < 2; multi++) {
            assert_int_equal(or_accept(multi ? OR_ACCEPT_MULTI_ROUND : OR_ACCEPT_RECURSIVE, &f->job,
                                       &f->acceptance),
                             OR_OK);
            assert_int_equal(f->acceptance.accepted_count, 2);
            assert_int_equal(f->acceptance.accepted[0], 2);
            assert_int_equal(f->acceptance.accepted[1], 4);
            assert_int_equal(f->acceptance.next, 3);
        }
        grow(f, chain, below, 2);
        assert_int_equal(or_accept(OR_ACCEPT_SPS, &f->job, &f->acceptance), OR_OK);
        assert_int_equal(f->acceptance.accepted_count, 1);
        assert_int_equal(f->acceptance.next, 3);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(without_guesses_the_token_is_the_targets),
        TEST(sps_by_hand),
        TEST(recursive_by_hand),
        TEST(recursive_in_another_order),
        TEST(multi_round_by_hand),
        TEST(of_repeated_siblings_the_first_is_accepted),
        TEST(a_draft_that_is_the_target),
        TEST(a_stop_id_in_the_tree_ends_the_text),
        TEST(a_distribution_of_one_token_is_always_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
