// Goal: the verifier judges a drawn tree by exactly the draws that travelled, refuses what are none
// and goes on, and shares the rows of repeated siblings without mixing anything up.
// Method: the real role and model on a network in memory; the test plays the coordinator. At
// temperature 0 the text must be that of plain steps, whatever was drawn.
#include <math.h>
#include <string.h>

#include "verifier/verifier_test_support.h"

static const uint32_t dist_tokens[] = {5, 6, 7}, dist_weights[] = {30000, 30000, 5536};
static const uint32_t other_weights[] = {30000, 30001, 5535}, short_weights[] = {30000, 30000, 1};
static const uint32_t beyond_tokens[] = {5, 6, 4096};
static const or_reduced_distribution_t good_dist = {dist_tokens, dist_weights, 3};
static const uint32_t siblings[] = {1, 2, 3}, zeros[] = {0, 0, 0, 0}, in_order[] = {0, 1, 2};

static or_open_session_t terms_of(or_draft_method_t method, or_accept_rule_t rule)
{
    or_open_session_t open = usual_terms();
    open.draft_method = method;
    open.accept_rule = rule;
    open.private_key = 12345;
    return open;
}

// Siblings, drawn from one distribution in this order.
static or_message_t drawn_tree(const uint32_t *tokens, uint32_t count,
                               const or_reduced_distribution_t *dist)
{
    or_message_t message = tree_of(1, tokens, siblings, count);
    or_draft_tree_t *tree = &message.body.draft_tree;
    tree->dist_index = zeros;
    tree->draw_order = in_order;
    tree->dist_index_count = tree->draw_order_count = count;
    tree->dists = dist;
    tree->dist_count = 1;
    return message;
}

static void draws_that_are_none_are_refused_and_the_session_goes_on(void **state)
{
    bench_t *b = *state;
    static const uint32_t twins[] = {5, 6, 5};
    const or_reduced_distribution_t short_dist = {dist_tokens, short_weights, 3};
    const or_reduced_distribution_t beyond_dist = {beyond_tokens, dist_weights, 3};
    or_message_t message;
    greet_and_open(b, terms_of(OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE));
    say(b, tree_of(1, dist_tokens, siblings, 3));
    expect_refusal(b, "needs the distribution");
    say(b, drawn_tree(dist_tokens, 3, &short_dist));
    expect_refusal(b, "add up to 60001");
    say(b, drawn_tree(twins, 3, &good_dist));
    expect_refusal(b, "repeats a sibling");
    say(b, drawn_tree(beyond_tokens, 3, &good_dist));
    expect_refusal(b, "outside the vocabulary");
    say(b, drawn_tree(dist_tokens, 3, &beyond_dist));
    expect_refusal(b, "outside the vocabulary");
    or_message_t lost = drawn_tree(dist_tokens, 2, &good_dist);
    lost.body.draft_tree.draw_order = in_order + 1; // the first sibling is gone
    say(b, lost);
    expect_refusal(b, "drawn as 1");
    say(b, tree_of(1, NULL, NULL, 0)); // a plain step
    assert_int_equal(hear(b, &message), OR_MSG_VERDICT);
    assert_int_equal(message.body.verdict.accepted_count, 0);
    or_message_fini(&message);
}

static void the_same_nodes_with_other_distributions_are_another_tree(void **state)
{
    bench_t *b = *state;
    const or_reduced_distribution_t other_dist = {dist_tokens, other_weights, 3};
    or_message_t first, again;
    greet_and_open(b, terms_of(OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE));
    say(b, drawn_tree(dist_tokens, 3, &good_dist));
    assert_int_equal(hear(b, &first), OR_MSG_VERDICT);
    say(b, drawn_tree(dist_tokens, 3, &good_dist));
    assert_int_equal(hear(b, &again), OR_MSG_VERDICT);
    assert_int_equal(again.body.verdict.hash, first.body.verdict.hash);
    assert_int_equal(again.body.verdict.next, first.body.verdict.next);
    or_message_fini(&first);
    or_message_fini(&again);
    say(b, drawn_tree(dist_tokens, 3, &other_dist));
    expect_refusal(b, "another tree");
    say(b, tree_of(1, dist_tokens, siblings, 3));
    expect_refusal(b, "another tree");
}

static void illegal_pairs_are_refused(void **state)
{
    bench_t *b = *state;
    static const struct {
        or_draft_method_t method;
        or_accept_rule_t rule;
    } pairs[] = {{OR_DRAFT_MCSD, OR_ACCEPT_RECURSIVE}, {OR_DRAFT_RSD_S, OR_ACCEPT_MULTI_ROUND},
                 {OR_DRAFT_RSD_C, OR_ACCEPT_SPS},      {OR_DRAFT_COUPLED, OR_ACCEPT_NAIVE},
                 {OR_DRAFT_MCSD, OR_ACCEPT_TRAVERSAL}, {OR_DRAFT_RSD_C, OR_ACCEPT_BLOCK},
                 {OR_DRAFT_MULTI, OR_ACCEPT_KSEQ}};
    or_message_t message;
    hear(b, &message);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        or_open_session_t open = terms_of(pairs[i].method, pairs[i].rule);
        say(b, (or_message_t){.type = OR_MSG_OPEN_SESSION, .body.open_session = open});
        expect_error(b, OR_WIRE_REFUSED);
    }
}

static void numbers_of_lossy_rules_are_checked(void **state)
{
    bench_t *b = *state;
    static const float leniences[] = {0, 0.5F, 1e7F, NAN};
    static const float typicals[][2] = {{-0.1F, 1}, {1.5F, 1}, {0.1F, -1}, {NAN, 1}, {0.1F, NAN}};
    or_message_t message;
    hear(b, &message);
    for (size_t i = 0; i < sizeof leniences / sizeof *leniences; i++) {
        or_open_session_t open = terms_of(OR_DRAFT_CHAIN, OR_ACCEPT_LENIENT);
        open.lenience = leniences[i];
        say(b, (or_message_t){.type = OR_MSG_OPEN_SESSION, .body.open_session = open});
        expect_error(b, OR_WIRE_REFUSED);
    }
    for (size_t i = 0; i < sizeof typicals / sizeof *typicals; i++) {
        or_open_session_t open = terms_of(OR_DRAFT_TOPK, OR_ACCEPT_TYPICAL);
        open.typical_epsilon = typicals[i][0];
        open.typical_delta = typicals[i][1];
        say(b, (or_message_t){.type = OR_MSG_OPEN_SESSION, .body.open_session = open});
        expect_error(b, OR_WIRE_REFUSED);
    }
}

// Repeated siblings run once; nodes behind them keep their rows, and the accepted path its cache.
//
//     root ─┬─ a        dist_index   dists[0]: a and text[0]; dists[1]: text[1]
//           ├─ a
//           └─ text[0] ── text[1]
static void rows_of_repeated_siblings_are_shared(void **state)
{
    bench_t *b = *state;
    static const uint32_t back[] = {1, 2, 3, 1}, dist_index[] = {0, 0, 0, 1};
    static const uint32_t order[] = {0, 1, 2, 0}, half[] = {32768, 32768}, all[] = {65536};
    uint32_t text[4], root_dist[2];
    or_message_t verdict;
    greet_and_open(b, terms_of(OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND));
    decode_plainly(b, 4, text);
    uint32_t other = text[0] == 5 ? 6 : 5;
    root_dist[0] = other < text[0] ? other : text[0];
    root_dist[1] = other < text[0] ? text[0] : other;
    const or_reduced_distribution_t dists[] = {{root_dist, half, 2}, {&text[1], all, 1}};
    const uint32_t tokens[] = {other, other, text[0], text[1]};
    or_message_t tree = tree_of(1, tokens, back, 4);
    tree.body.draft_tree.dist_index = dist_index;
    tree.body.draft_tree.draw_order = order;
    tree.body.draft_tree.dist_index_count = tree.body.draft_tree.draw_order_count = 4;
    tree.body.draft_tree.dists = dists;
    tree.body.draft_tree.dist_count = 2;
    say(b, tree);
    assert_int_equal(hear(b, &verdict), OR_MSG_VERDICT);
    assert_int_equal(verdict.body.verdict.accepted_count, 2);
    assert_int_equal(verdict.body.verdict.accepted[0], 3);
    assert_int_equal(verdict.body.verdict.accepted[1], 4);
    assert_int_equal(verdict.body.verdict.next, text[2]);
    uint64_t hash = verdict.body.verdict.hash;
    or_message_fini(&verdict);
    // Round 2 needs what round 1 left in the cache. Now the right token is the repeated one.
    const uint32_t twins[] = {text[3], text[3]};
    const or_reduced_distribution_t sure = {&text[3], all, 1};
    or_message_t next = drawn_tree(twins, 2, &sure);
    next.body.draft_tree.round = 2;
    next.body.draft_tree.base_length = PROMPT + 3;
    next.body.draft_tree.base_hash = hash;
    say(b, next);
    assert_int_equal(hear(b, &verdict), OR_MSG_VERDICT);
    assert_int_equal(verdict.body.verdict.accepted_count, 1);
    assert_int_equal(verdict.body.verdict.accepted[0], 1);
    assert_int_equal(verdict.body.verdict.hash,
                     or_prefix_hash(hash, (uint32_t[]){text[3], verdict.body.verdict.next}, 2));
    or_message_fini(&verdict);
}

// root ─┬─ a ── text[1]       a rule that walks the tree itself turns back where a is wrong, and finds
//       └─ text[0] ── text[1]
static void rules_that_walk_the_tree_find_the_plain_text(void **state)
{
    bench_t *b = *state;
    static const uint32_t back[] = {1, 1, 3, 1}, dist_index[] = {0, 1, 0, 1};
    static const uint32_t order[] = {0, 0, 1, 0}, half[] = {32768, 32768}, all[] = {65536};
    uint32_t text[3], root_dist[2];
    or_message_t verdict;
    greet_and_open(b, terms_of(OR_DRAFT_RSD_C, OR_ACCEPT_TRAVERSAL));
    decode_plainly(b, 3, text);
    uint32_t other = text[0] == 5 ? 6 : 5;
    root_dist[0] = other < text[0] ? other : text[0];
    root_dist[1] = other < text[0] ? text[0] : other;
    const or_reduced_distribution_t dists[] = {{root_dist, half, 2}, {&text[1], all, 1}};
    const uint32_t tokens[] = {other, text[1], text[0], text[1]};
    or_message_t tree = tree_of(1, tokens, back, 4);
    tree.body.draft_tree.dist_index = dist_index;
    tree.body.draft_tree.draw_order = order;
    tree.body.draft_tree.dist_index_count = tree.body.draft_tree.draw_order_count = 4;
    tree.body.draft_tree.dists = dists;
    tree.body.draft_tree.dist_count = 2;
    say(b, tree);
    assert_int_equal(hear(b, &verdict), OR_MSG_VERDICT);
    assert_int_equal(verdict.body.verdict.accepted_count, 2);
    assert_int_equal(verdict.body.verdict.accepted[0], 3);
    assert_int_equal(verdict.body.verdict.accepted[1], 4);
    assert_int_equal(verdict.body.verdict.next, text[2]);
    or_message_fini(&verdict);
}

int main(void)
{
    test_log_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        TEST(draws_that_are_none_are_refused_and_the_session_goes_on),
        TEST(the_same_nodes_with_other_distributions_are_another_tree),
        TEST(illegal_pairs_are_refused),
        TEST(numbers_of_lossy_rules_are_checked),
        TEST(rows_of_repeated_siblings_are_shared),
        TEST(rules_that_walk_the_tree_find_the_plain_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
