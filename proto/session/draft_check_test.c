// Goal: a tree off the wire is judged only if the session's rule can judge it; what is refused
// leaves an empty tree behind and a reason.
// Method: messages that went through the codec, good and bad, for rules with and without distributions.
// (Every way of spoiling draws: common/decode/draws_test.c.)
#include "proto/session/draft_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_support.h"

#define VOCAB 10
#define ROOT 3

static const uint32_t dist_tokens[] = {1, 2, 5}, dist_weights[] = {30000, 30000, 5536};
static const uint32_t bad_weights[] = {30000, 30000, 5537};
static const or_reduced_distribution_t dist = {dist_tokens, dist_weights, 3};
static const or_reduced_distribution_t bad_dist = {dist_tokens, bad_weights, 3};
static const uint32_t zeros[] = {0, 0, 0}, in_order[] = {0, 1, 2};
static const uint32_t siblings[] = {1, 2, 3}, chain[] = {1, 1, 1};
static const uint32_t tokens[] = {1, 2, 5}, twins[] = {1, 2, 1}, beyond[] = {1, 2, 10};

static or_token_tree_t *tree;

static int setup(void **state)
{
    (void)state;
    return or_token_tree_create(3, &tree) == OR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    or_token_tree_destroy(&tree);
    return 0;
}

// Three children of the root, drawn one after the other.
static or_draft_tree_t usual(const uint32_t *children)
{
    return (or_draft_tree_t){.round = 1,
                             .tokens = children,
                             .back = siblings,
                             .count = 3,
                             .dist_index = zeros,
                             .dist_index_count = 3,
                             .draw_order = in_order,
                             .draw_order_count = 3,
                             .dists = &dist,
                             .dist_count = 1};
}

// By wire, as a peer's message comes.
static or_status_t check(const or_draft_tree_t *sent, or_accept_rule_t rule)
{
    const or_message_t message = {.type = OR_MSG_DRAFT_TREE, .body.draft_tree = *sent};
    or_message_t received;
    uint8_t *frame;
    size_t bytes;
    assert_int_equal(or_message_encode(&message, &frame, &bytes), OR_OK);
    assert_int_equal(or_message_decode(frame, bytes, &received), OR_OK);
    or_token_tree_reset(tree, 9);
    or_status_t status = or_draft_tree_check(&received.body.draft_tree, rule, ROOT, VOCAB, tree);
    if (status == OR_OK && sent->dist_count > 0) {
        const or_draws_t draws = or_draft_tree_draws(&received.body.draft_tree);
        assert_int_equal(draws.dist_count, sent->dist_count);
        assert_memory_equal(draws.dist_index, sent->dist_index, sent->count * 4);
        assert_memory_equal(draws.order, sent->draw_order, sent->count * 4);
        assert_memory_equal(draws.dists[0].tokens, sent->dists[0].tokens, sent->dists[0].count * 4);
        assert_memory_equal(draws.dists[0].weights, sent->dists[0].weights,
                            sent->dists[0].count * 4);
    }
    assert_int_equal(or_token_tree_count(tree), status == OR_OK ? sent->count : 0);
    assert_int_equal(or_token_tree_tokens(tree)[0], ROOT);
    or_message_fini(&received);
    free(frame);
    return status;
}

static void expect_refusal(const or_draft_tree_t *sent, or_accept_rule_t rule, const char *reason)
{
    assert_int_equal(check(sent, rule), OR_ERR_INVALID);
    if (strstr(or_error_text(), reason) == NULL) {
        fail_msg("'%s' does not say '%s'", or_error_text(), reason);
    }
}

static void good_trees_pass(void **state)
{
    (void)state;
    or_draft_tree_t sent = usual(tokens);
    assert_int_equal(check(&sent, OR_ACCEPT_RECURSIVE), OR_OK);
    assert_int_equal(check(&sent, OR_ACCEPT_MULTI_ROUND), OR_OK);
    assert_int_equal(check(&sent, OR_ACCEPT_COUPLED), OR_OK); // distributions it has no use for
    sent = usual(twins);
    assert_int_equal(check(&sent, OR_ACCEPT_MULTI_ROUND), OR_OK);
    const or_draft_tree_t empty = {.round = 1}; // a plain step needs no distributions
    assert_int_equal(check(&empty, OR_ACCEPT_RECURSIVE), OR_OK);
    const or_draft_tree_t bare = {.tokens = tokens, .back = siblings, .count = 3};
    assert_int_equal(check(&bare, OR_ACCEPT_COUPLED), OR_OK);
    assert_int_equal(check(&bare, OR_ACCEPT_GREEDY), OR_OK);
    assert_int_equal(check(&bare, OR_ACCEPT_NAIVE), OR_OK);
}

static void repeated_siblings_are_for_multi_round_alone(void **state)
{
    (void)state;
    static const or_accept_rule_t rules[] = {OR_ACCEPT_COUPLED, OR_ACCEPT_GREEDY, OR_ACCEPT_NAIVE,
                                             OR_ACCEPT_SPS, OR_ACCEPT_RECURSIVE};
    const or_draft_tree_t sent = usual(twins);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        expect_refusal(&sent, rules[i], "repeats a sibling");
    }
}

static void what_a_ratio_rule_cannot_judge_is_refused(void **state)
{
    (void)state;
    static const or_accept_rule_t rules[] = {OR_ACCEPT_SPS, OR_ACCEPT_MULTI_ROUND,
                                             OR_ACCEPT_RECURSIVE};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        or_draft_tree_t bare = {.tokens = tokens, .back = chain, .count = 3};
        expect_refusal(&bare, rules[i], or_accept_rule_name(rules[i]));
        or_draft_tree_t sent = usual(tokens);
        sent.back = chain;
        sent.draw_order = zeros;
        assert_int_equal(check(&sent, rules[i]), OR_OK);
        sent.dists = &bad_dist;
        expect_refusal(&sent, rules[i], "add up to 65537");
        sent.dists = &dist;
        sent.tokens = beyond;
        expect_refusal(&sent, rules[i], "outside the vocabulary");
        sent.tokens = tokens;
        sent.dist_index = in_order;
        expect_refusal(&sent, rules[i], "names distribution 1 of 1");
    }
    const or_draft_tree_t bush = usual(tokens);
    expect_refusal(&bush, OR_ACCEPT_SPS, "chains");
}

// Half of what a rule needs is nothing: hand-built, since the codec demands equal lengths.
static void distribution_and_order_are_needed_of_every_node(void **state)
{
    (void)state;
    or_draft_tree_t sent = usual(tokens);
    sent.dist_index_count = 0;
    assert_int_equal(or_draft_tree_check(&sent, OR_ACCEPT_RECURSIVE, ROOT, VOCAB, tree),
                     OR_ERR_INVALID);
    sent = usual(tokens);
    sent.draw_order_count = 2;
    assert_int_equal(or_draft_tree_check(&sent, OR_ACCEPT_RECURSIVE, ROOT, VOCAB, tree),
                     OR_ERR_INVALID);
    assert_int_equal(or_token_tree_count(tree), 0);
}

static void too_many_nodes_are_refused(void **state)
{
    (void)state;
    static const uint32_t four[] = {1, 2, 5, 1}, back[] = {1, 1, 1, 1};
    const or_draft_tree_t sent = {.tokens = four, .back = back, .count = 4};
    assert_int_equal(or_draft_tree_check(&sent, OR_ACCEPT_COUPLED, ROOT, VOCAB, tree), OR_ERR_FULL);
    assert_int_equal(or_draft_tree_check(&sent, OR_ACCEPT_SPS, ROOT, VOCAB, tree), OR_ERR_FULL);
    assert_int_equal(or_token_tree_count(tree), 0);
}

// Three guesses of a text, one after the other.
static or_draft_tree_t strings(const double *psi)
{
    return (or_draft_tree_t){
        .round = 1, .tokens = tokens, .back = chain, .count = 3, .psi = psi, .psi_count = 3};
}

static void slrs_needs_a_chain_and_its_psi(void **state)
{
    (void)state;
    static const double psi[] = {1, 0.5, 5e-324};
    static const double spoilt[][3] = {{1, -0.1, 1}, {1.1, 1, 1}, {1, 1, NAN}, {1, INFINITY, 1}};
    static const uint32_t forked[] = {1, 1, 2};
    or_draft_tree_t sent = strings(psi);
    assert_int_equal(check(&sent, OR_ACCEPT_SLRS), OR_OK);
    const or_draft_tree_t empty = {.round = 1};
    assert_int_equal(check(&empty, OR_ACCEPT_SLRS), OR_OK);
    sent.back = forked;
    expect_refusal(&sent, OR_ACCEPT_SLRS, "chains");
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        sent = strings(spoilt[i]);
        expect_refusal(&sent, OR_ACCEPT_SLRS, "no probability");
    }
    sent.psi_count = 0;
    expect_refusal(&sent, OR_ACCEPT_SLRS, "needs the psi");
    sent.psi_count = 2; // the codec would not let this pass
    assert_int_equal(or_draft_tree_check(&sent, OR_ACCEPT_SLRS, ROOT, VOCAB, tree), OR_ERR_INVALID);
    sent = strings(psi);
    expect_refusal(&sent, OR_ACCEPT_COUPLED, "psi is for rule slrs");
    expect_refusal(&sent, OR_ACCEPT_SPS, "psi is for rule slrs");
}

// With a target of 5 tokens the last one here is outside.
static void nothing_follows_what_the_target_does_not_have(void **state)
{
    (void)state;
    static const uint32_t moved[] = {5, 1, 2};
    static const double psi[] = {1, 0.5, 0}, no_psi[] = {1, 0, 0};
    or_draft_tree_t sent = usual(tokens);
    assert_int_equal(check(&sent, OR_ACCEPT_RECURSIVE), OR_OK);
    assert_int_equal(or_draft_outside_check(&sent, tree, 5), OR_OK);
    sent = usual(moved);
    assert_int_equal(check(&sent, OR_ACCEPT_RECURSIVE), OR_OK);
    assert_int_equal(or_draft_outside_check(&sent, tree, 5), OR_OK); // a leaf, though the first
    sent.back = chain;
    sent.draw_order = zeros;
    assert_int_equal(check(&sent, OR_ACCEPT_RECURSIVE), OR_OK);
    assert_int_equal(or_draft_outside_check(&sent, tree, 5), OR_ERR_INVALID);
    assert_int_equal(or_draft_outside_check(&sent, tree, 6), OR_OK);
    sent = strings(psi);
    assert_int_equal(check(&sent, OR_ACCEPT_SLRS), OR_OK);
    assert_int_equal(or_draft_outside_check(&sent, tree, 5), OR_OK);
    assert_int_equal(or_draft_outside_check(&sent, tree, 6), OR_ERR_INVALID); // a psi of 0
    sent = strings(no_psi);
    assert_int_equal(check(&sent, OR_ACCEPT_SLRS), OR_OK);
    assert_int_equal(or_draft_outside_check(&sent, tree, 5), OR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_trees_pass),
        cmocka_unit_test(repeated_siblings_are_for_multi_round_alone),
        cmocka_unit_test(what_a_ratio_rule_cannot_judge_is_refused),
        cmocka_unit_test(distribution_and_order_are_needed_of_every_node),
        cmocka_unit_test(too_many_nodes_are_refused),
        cmocka_unit_test(slrs_needs_a_chain_and_its_psi),
        cmocka_unit_test(nothing_follows_what_the_target_does_not_have),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
