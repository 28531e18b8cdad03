// Goal: guesses that the target does not have (--vocab-map union) are rejected and cost nothing but
// acceptance: under every ratio rule the text stays the target's, and one guess is accepted with
// probability sum min(p, q) over what both have (docs/algorithms.md section 4).
// Method: a target of 4 tokens, a drafter that has two more; trees of two levels. Every draw and every
// choice of the rule is taken in turn, so that a guess outside comes first, last, between, twice and
// alone. Then a drafter that repeats one until probabilities vanish.
#include <math.h>
#include <string.h>

#include "tests/support/test_support.h"
#include "verifier/accept/accept.h"
#include "verifier/every_choice_test_support.h"

#define VOCAB 4
#define ENTRIES 4
#define ROOT_TOKEN 0
#define SURE 3 // after it the target knows what comes
#define NODES_MAX 128
#define TOLERANCE 1e-13

// Probabilities of the token that follows each token of the target, in 16ths.
static const double q[VOCAB][VOCAB] = {{2, 3, 6, 5}, {0, 9, 1, 6}, {8, 4, 4, 0}, {0, 16, 0, 0}};
// Probabilities of the drafter, in 16ths; 4 and 5 are outside.
static const uint32_t p_tokens[] = {1, 2, 4, 5};
static const uint32_t p[VOCAB][ENTRIES] = {{4, 2, 6, 4}, {1, 1, 1, 13}, {2, 8, 5, 1}, {7, 7, 1, 1}};

typedef struct {
    or_accept_rule_t rule;
    uint32_t children; // of the root; below one guess each
    bool replaces;
} plan_t;

static const plan_t plans[] = {
    {OR_ACCEPT_SPS, 1, true},         {OR_ACCEPT_LENIENT, 1, true},
    {OR_ACCEPT_BLOCK, 1, true},       {OR_ACCEPT_KSEQ, 1, true},
    {OR_ACCEPT_OTM, 1, true},         {OR_ACCEPT_MULTI_ROUND, 1, true},
    {OR_ACCEPT_RECURSIVE, 1, true},   {OR_ACCEPT_TRAVERSAL, 1, true},
    {OR_ACCEPT_MULTI_ROUND, 2, true}, {OR_ACCEPT_KSEQ, 2, true},
    {OR_ACCEPT_OTM, 2, true},         {OR_ACCEPT_RECURSIVE, 2, false},
    {OR_ACCEPT_TRAVERSAL, 2, false},  {OR_ACCEPT_MULTI_ROUND, 3, true},
    {OR_ACCEPT_KSEQ, 3, true},        {OR_ACCEPT_OTM, 3, true},
    {OR_ACCEPT_RECURSIVE, 4, false},  {OR_ACCEPT_TRAVERSAL, 3, false},
};

typedef struct {
    or_token_tree_t *tree;
    or_residual_t *residual;
    or_traversal_t *traversal;
    uint32_t weights[VOCAB][ENTRIES];
    or_reduced_distribution_t dists[VOCAB]; // after each token
    uint32_t dist_index[NODES_MAX], order[NODES_MAX];
    or_draws_t draws;
    int32_t history[NODES_MAX + 2];
    uint32_t widths[VOCAB];
    every_choice_t every;
    or_accept_job_t job;
    or_acceptance_t acceptance;
} fixture_t;

static or_status_t target_dist(void *context, uint32_t node, const int32_t *history,
                               uint32_t history_count, or_distribution_t *dist)
{
    static const int32_t ids[] = {0, 1, 2, 3};
    const fixture_t *f = context;
    int32_t last = or_token_tree_tokens(f->tree)[node];
    assert_true(last < VOCAB); // there is no such row
    assert_int_equal(history[history_count - 1], last);
    *dist = (or_distribution_t){.ids = ids, .weights = q[last], .count = VOCAB};
    return OR_OK;
}

static int setup(void **state)
{
    static fixture_t fixture;
    fixture_t *f = &fixture;
    memset(f, 0, sizeof *f);
    if (or_token_tree_create(NODES_MAX, &f->tree) != OR_OK ||
        or_residual_create(VOCAB, &f->residual) != OR_OK ||
        or_traversal_create(NODES_MAX, &f->traversal) != OR_OK) {
        return -1;
    }
    for (uint32_t last = 0; last < VOCAB; last++) {
        for (uint32_t i = 0; i < ENTRIES; i++) {
            f->weights[last][i] = p[last][i] * (OR_DISTRIBUTION_TOTAL / 16);
        }
        f->dists[last] = (or_reduced_distribution_t){p_tokens, f->weights[last], ENTRIES};
    }
    f->draws = (or_draws_t){f->dist_index, f->order, f->dists, VOCAB};
    every_choice_init(&f->every);
    f->job = (or_accept_job_t){.tree = f->tree,
                               .draws = &f->draws,
                               .dist = target_dist,
                               .dist_context = f,
                               .chooser = &f->every.chooser,
                               .residual = f->residual,
                               .traversal = f->traversal,
                               .lenience = 1,
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

// A child of `node`, drawn from what is left of the distribution after its token.
static uint32_t draw_child(fixture_t *f, uint32_t node, uint32_t order,
                           or_distribution_left_t *left, bool replaces)
{
    const or_choice_t at = {OR_RNG_DRAFT, node, order};
    uint32_t child, last = (uint32_t)or_token_tree_tokens(f->tree)[node];
    uint32_t i = f->every.chooser.draw(&f->every.chooser, at, left->weights, ENTRIES);
    assert_int_equal(or_token_tree_add(f->tree, node, (int32_t)p_tokens[i], &child), OR_OK);
    f->dist_index[child - 1] = last;
    f->order[child - 1] = order;
    if (!replaces) {
        or_distribution_left_remove(left, i);
    }
    return child;
}

// Below a guess that the target has, one more; below the first of them where a guess is repeated.
static void draw_tree(fixture_t *f, const plan_t *plan)
{
    or_distribution_left_t left, below;
    or_token_tree_reset(f->tree, ROOT_TOKEN);
    or_distribution_left_init(&left, &f->dists[ROOT_TOKEN]);
    for (uint32_t i = 0; i < plan->children; i++) {
        draw_child(f, 0, i, &left, plan->replaces);
    }
    for (uint32_t node = 1; node <= plan->children; node++) {
        int32_t token = or_token_tree_tokens(f->tree)[node];
        if (token < VOCAB && or_token_tree_find_child(f->tree, 0, token) == node) {
            or_distribution_left_init(&below, &f->dists[token]);
            draw_child(f, node, 0, &below, true);
        }
    }
    assert_int_equal(or_draws_check(&f->draws, f->tree, plan->rule, VOCAB + 2), OR_OK);
}

// The first two tokens of the text; where the round gave only one, plain decoding goes on.
static void add_text(const fixture_t *f, double text[VOCAB][VOCAB])
{
    int32_t said[3];
    uint32_t count = f->acceptance.accepted_count;
    assert_true(count <= 2);
    for (uint32_t i = 0; i < count; i++) {
        said[i] = or_token_tree_tokens(f->tree)[f->acceptance.accepted[i]];
    }
    said[count] = f->acceptance.next;
    for (uint32_t i = 0; i <= count; i++) {
        assert_in_range(said[i], 0, VOCAB - 1);
    }
    for (int32_t second = 0; second < VOCAB; second++) {
        double share = count > 0 ? second == said[1] : q[said[0]][second] / 16;
        text[said[0]][second] += f->every.probability * share;
    }
}

static void the_text_stays_the_targets(void **state)
{
    fixture_t *f = *state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        double text[VOCAB][VOCAB] = {{0}};
        every_choice_init(&f->every);
        do {
            every_choice_begin(&f->every);
            draw_tree(f, &plans[i]);
            assert_int_equal(or_accept(plans[i].rule, &f->job, &f->acceptance), OR_OK);
            add_text(f, text);
        } while (every_choice_advance(&f->every));
        for (int first = 0; first < VOCAB; first++) {
            for (int second = 0; second < VOCAB; second++) {
                double exact = q[ROOT_TOKEN][first] * q[first][second] / 256;
                if (!(fabs(text[first][second] - exact) < TOLERANCE)) {
                    fail_msg("%s, %u guesses: %d %d with %.15f instead of %.15f",
                             or_accept_rule_name(plans[i].rule), plans[i].children, first, second,
                             text[first][second], exact);
                }
            }
        }
    }
}

static void one_guess_is_accepted_as_often_as_can_be(void **state)
{
    fixture_t *f = *state;
    for (size_t i = 0; plans[i].children == 1; i++) {
        double accepted = 0;
        every_choice_init(&f->every);
        do {
            or_distribution_left_t left;
            every_choice_begin(&f->every);
            or_token_tree_reset(f->tree, ROOT_TOKEN);
            or_distribution_left_init(&left, &f->dists[ROOT_TOKEN]);
            draw_child(f, 0, 0, &left, true);
            assert_int_equal(or_accept(plans[i].rule, &f->job, &f->acceptance), OR_OK);
            accepted += f->acceptance.accepted_count > 0 ? f->every.probability : 0;
        } while (every_choice_advance(&f->every));
        assert_true(fabs(accepted - (3 + 2) / 16.0) < TOLERANCE); // min(4, 3) of 1, min(2, 6) of 2
    }
}

// A drafter that is not what it says: the same guess so often that its worth is 0 in a double, where
// the target is so sure of another token that it leaves just that place for it.
static void what_the_target_does_not_have_is_never_taken(void **state)
{
    fixture_t *f = *state;
    static const uint32_t tokens[] = {1, 5}, weights[] = {65535, 1};
    static const or_accept_rule_t rules[] = {OR_ACCEPT_MULTI_ROUND, OR_ACCEPT_KSEQ, OR_ACCEPT_OTM};
    f->dists[SURE] = (or_reduced_distribution_t){tokens, weights, 2};
    f->history[0] = SURE;
    or_token_tree_reset(f->tree, SURE);
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        assert_int_equal(or_token_tree_add(f->tree, 0, 5, NULL), OR_OK);
        f->dist_index[i] = SURE;
        f->order[i] = i;
    }
    for (uint64_t round = 1; round <= 100; round++) {
        or_keyed_chooser_t keyed =
            or_keyed_chooser((or_rng_key_t){5}, round, (or_rng_key_t){0}, NULL);
        f->job.chooser = &keyed.chooser;
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
            assert_int_equal(or_accept(rules[i], &f->job, &f->acceptance), OR_OK);
            assert_int_equal(f->acceptance.accepted_count, 0);
            assert_int_equal(f->acceptance.next, 1);
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_text_stays_the_targets),
        TEST(one_guess_is_accepted_as_often_as_can_be),
        TEST(what_the_target_does_not_have_is_never_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
