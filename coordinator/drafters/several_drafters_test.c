// Goal: several drafters serve one session together: their trees reach the verifier as one, merged
// by prefix with every draw under its own distribution; each is told the verdict in its own numbers; one that
// is late, lost or sends rubbish leaves the others at work.
// Method: the real coordinator, the test as verifier and as both drafters, whose trees are scripted.
#include <string.h>

#include "coordinator/coordinator_test_support.h"

// Drafter 0 guesses 5 6, 7; drafter 1 guesses 5 8, 9. Siblings from distributions that tell who drew them.
static const uint32_t guesses[2][3] = {{5, 6, 7}, {5, 8, 9}};
static const uint32_t back[] = {1, 1, 3}, dist_index[] = {0, 1, 0}, order[] = {0, 0, 1};
static const uint32_t dist_tokens[] = {5, 6, 7, 8, 9};
static const uint32_t weights[2][2][5] = {{{65532, 1, 1, 1, 1}, {65531, 2, 1, 1, 1}},
                                          {{65530, 3, 1, 1, 1}, {65529, 4, 1, 1, 1}}};

static edge_t *edge_of(world_t *w, int drafter)
{
    return drafter == 0 ? &w->drafter : &w->second;
}

static void send_as(world_t *w, int drafter, const or_draft_tree_t *tree)
{
    or_message_t message = {
        .type = OR_MSG_DRAFT_TREE, .session = w->session, .body.draft_tree = *tree};
    assert_int_equal(or_link_send(edge_of(w, drafter)->link, OR_PEER_HUB, &message), OR_OK);
}

// The drafter's scripted tree for the round that it knows.
static or_draft_tree_t tree_of(const world_t *w, int drafter, or_reduced_distribution_t *dists)
{
    const heard_t *heard = &w->heard[drafter];
    for (int i = 0; i < 2; i++) {
        dists[i] = (or_reduced_distribution_t){dist_tokens, weights[drafter][i], 5};
    }
    return (or_draft_tree_t){.round = heard->round,
                             .base_length = heard->length,
                             .base_hash = heard->hash,
                             .tokens = guesses[drafter],
                             .back = back,
                             .count = 3,
                             .dist_index = dist_index,
                             .dist_index_count = 3,
                             .draw_order = order,
                             .draw_order_count = 3,
                             .dists = dists,
                             .dist_count = 2};
}

static void draft_as(world_t *w, int drafter)
{
    or_reduced_distribution_t dists[2];
    const or_draft_tree_t tree = tree_of(w, drafter, dists);
    send_as(w, drafter, &tree);
}

static or_generate_request_t multi_request(or_accept_rule_t rule)
{
    or_generate_request_t request = usual_request(8);
    request.draft_method = OR_DRAFT_MULTI;
    request.accept_rule = rule;
    request.draft_nodes = 9;
    return request;
}

static void join_both(world_t *w)
{
    join_usual(w);
    join(w, &w->second,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)});
    run(w, 5);
    assert_true(or_link_welcomed(w->second.link));
}

// A session with both drafters, at its first round.
static void begin(world_t *w, or_accept_rule_t rule)
{
    join_both(w);
    ask(w, multi_request(rule));
    run(w, 5);
    assert_int_equal(w->heard[0].prefixes, 1);
    assert_int_equal(w->heard[1].prefixes, 1);
    assert_int_equal(w->trees, 0);
}

// Return the message that the verifier got last.
static or_message_t last_tree(const world_t *w)
{
    or_message_t message;
    assert_int_equal(or_message_decode(w->frames[1], w->frame_bytes[1], &message), OR_OK);
    return message;
}

static void assert_last_tree(const world_t *w, uint32_t count, const uint32_t *nodes,
                             const uint32_t *distances)
{
    or_message_t message = last_tree(w);
    const or_draft_tree_t *tree = &message.body.draft_tree;
    assert_int_equal(tree->count, count);
    assert_memory_equal(tree->tokens, nodes, count * sizeof *nodes);
    assert_memory_equal(tree->back, distances, count * sizeof *distances);
    or_message_fini(&message);
}

static void trees_are_merged_and_every_draw_keeps_its_distribution(void **state)
{
    world_t *w = *state;
    static const uint32_t nodes[] = {5, 6, 8, 7, 5, 9}, distances[] = {1, 1, 2, 4, 5, 6};
    static const uint32_t orders[] = {0, 0, 1, 1, 2, 3};
    static const uint32_t *const drawn_from[] = {weights[0][0], weights[0][1], weights[1][1],
                                                 weights[0][0], weights[1][0], weights[1][0]};
    begin(w, OR_ACCEPT_MULTI_ROUND);
    draft_as(w, 1); // who is first to send does not matter
    run(w, 5);
    assert_int_equal(w->trees, 0);
    draft_as(w, 0);
    run(w, 5);
    assert_int_equal(w->trees, 1);
    assert_last_tree(w, 6, nodes, distances);
    or_message_t message = last_tree(w);
    const or_draft_tree_t *tree = &message.body.draft_tree;
    assert_int_equal(tree->draw_order_count, 6);
    assert_memory_equal(tree->draw_order, orders, sizeof orders);
    for (int i = 0; i < 6; i++) {
        assert_memory_equal(tree->dists[tree->dist_index[i]].weights, drawn_from[i],
                            5 * sizeof *drawn_from[i]);
    }
    or_message_fini(&message);
}

// A repeated guess is one node under rules that do not count repetitions.
static void other_rules_get_every_path_once(void **state)
{
    world_t *w = *state;
    static const uint32_t nodes[] = {5, 6, 8, 7, 9}, distances[] = {1, 1, 2, 4, 5};
    begin(w, OR_ACCEPT_NAIVE);
    draft_as(w, 0);
    draft_as(w, 1);
    run(w, 5);
    assert_last_tree(w, 5, nodes, distances);
}

// Together they never build more than was asked for, and no two draw alike.
static void each_has_its_share_and_its_key(void **state)
{
    world_t *w = *state;
    static const uint32_t shape[] = {3, 2};
    or_generate_request_t request = multi_request(OR_ACCEPT_MULTI_ROUND);
    begin(w, OR_ACCEPT_MULTI_ROUND);
    assert_int_equal(w->heard[0].terms.draft_nodes, 5); // of 9
    assert_int_equal(w->heard[1].terms.draft_nodes, 4);
    assert_true(w->heard[0].terms.draft_key != 0);
    assert_true(w->heard[1].terms.draft_key != 0);
    assert_true(w->heard[0].terms.draft_key != w->heard[1].terms.draft_key);
    assert_int_equal(w->heard[1].terms.private_key, 0);
    assert_int_equal(w->verifier_terms.draft_nodes, 9);
    request.request = 78;
    request.draft_shape = shape;
    request.draft_shape_count = 2;
    ask(w, request);
    run(w, 5);
    assert_int_equal(w->heard[0].opens, 2);
    assert_int_equal(w->heard[1].opens, 2);
    uint32_t more = w->heard[1].shape[0] == 2; // the idler one is first, both are as idle
    assert_int_equal(w->heard[more].shape[0], 2);
    assert_int_equal(w->heard[more].terms.draft_nodes, 4);
    assert_int_equal(w->heard[1 - more].shape[0], 1);
    assert_int_equal(w->heard[1 - more].terms.draft_nodes, 2);
    assert_int_equal(w->heard[0].shape[1], 2);
    request.request = 79; // one sequence cannot be shared, nor any other method's tree
    request.draft_shape = (const uint32_t[]){1, 2};
    ask(w, request);
    request.request = 80;
    request.draft_shape_count = 0;
    request.draft_method = OR_DRAFT_MCSD;
    ask(w, request);
    run(w, 5);
    assert_int_equal(w->heard[0].opens + w->heard[1].opens, 6);
}

static void each_is_told_the_verdict_in_its_own_numbers(void **state)
{
    world_t *w = *state;
    begin(w, OR_ACCEPT_MULTI_ROUND);
    w->path[0] = 1; // 5, then 8: only drafter 1 guessed that
    w->path[1] = 3;
    w->path_count = 2;
    draft_as(w, 0);
    draft_as(w, 1);
    run(w, 5);
    assert_int_equal(w->heard[0].verdicts, 0);
    assert_int_equal(w->heard[0].prefixes, 2);
    assert_int_equal(w->heard[0].start, 3); // the tail
    assert_int_equal(w->heard[1].verdicts, 1);
    assert_int_equal(w->heard[1].prefixes, 1);
    assert_int_equal(w->heard[1].path_count, 2);
    assert_int_equal(w->heard[1].path[0], 1);
    assert_int_equal(w->heard[1].path[1], 2);
    assert_int_equal(w->heard[0].length, 6);
    assert_true(w->heard[0].hash == w->heard[1].hash);
    w->path[0] = 4; // 7: only drafter 0, whose third node it is
    w->path_count = 1;
    draft_as(w, 0);
    draft_as(w, 1);
    run(w, 5);
    assert_int_equal(w->trees, 2);
    assert_int_equal(w->heard[0].verdicts, 1);
    assert_int_equal(w->heard[0].path_count, 1);
    assert_int_equal(w->heard[0].path[0], 3);
    assert_int_equal(w->heard[1].prefixes, 2);
    draft_as(w, 0); // and nothing accepted is a verdict to both
    draft_as(w, 1);
    run(w, 5);
    assert_int_equal(w->heard[0].verdicts, 2);
    assert_int_equal(w->heard[1].verdicts, 2);
    assert_int_equal(w->heard[0].path_count + w->heard[1].path_count, 0);
}

static void one_that_is_late_is_not_waited_for_until_it_speaks(void **state)
{
    world_t *w = *state;
    begin(w, OR_ACCEPT_MULTI_ROUND);
    draft_as(w, 0);
    run(w, 500);
    assert_int_equal(w->trees, 0);
    run(w, 600); // the draft time-out
    assert_int_equal(w->trees, 1);
    assert_last_tree(w, 3, guesses[0], back);
    draft_as(w, 0);
    run(w, 5);
    assert_int_equal(w->trees, 2);
    assert_int_equal(w->heard[1].verdicts, 0);
    uint32_t prefixes = w->heard[1].prefixes;
    w->heard[1].round = 1; // it answers what is long over
    draft_as(w, 1);
    run(w, 5);
    assert_int_equal(w->heard[1].prefixes, prefixes + 1);
    assert_int_equal(w->heard[1].round, 3);
    draft_as(w, 1);
    run(w, 5);
    assert_int_equal(w->trees, 2);
    draft_as(w, 0);
    run(w, 5);
    assert_int_equal(w->trees, 3);
    assert_int_equal(w->nodes, 3 + 3 + 6);
    draft_as(w, 0);
    run(w, 5);
    assert_int_equal(w->trees, 3); // it is waited for again
}

// Its seat is free for one that comes later, with a key that nobody had before.
static void one_that_is_lost_leaves_the_other_at_work(void **state)
{
    world_t *w = *state;
    begin(w, OR_ACCEPT_MULTI_ROUND);
    uint64_t key = w->heard[1].terms.draft_key;
    leave(&w->second);
    draft_as(w, 0);
    run(w, 400); // the first reminder finds it gone: well below the draft time-out
    assert_int_equal(w->trees, 1);
    assert_last_tree(w, 3, guesses[0], back);
    draft_as(w, 0);
    run(w, 5);
    assert_int_equal(w->trees, 2);
    join(w, &w->second,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)});
    run(w, 5);
    draft_as(w, 0);
    run(w, 5);
    assert_int_equal(w->trees, 3);
    assert_int_equal(w->heard[1].opens, 2);
    assert_int_equal(w->heard[1].terms.draft_nodes, 4);
    assert_true(w->heard[1].terms.draft_key != key);
    assert_true(w->heard[1].terms.draft_key != w->heard[0].terms.draft_key);
    draft_as(w, 0);
    draft_as(w, 1);
    run(w, 5);
    assert_int_equal(w->trees, 4);
    assert_int_equal(w->nodes, 3 + 3 + 3 + 6);
}

static void rubbish_costs_one_the_session_and_not_the_other(void **state)
{
    world_t *w = *state;
    or_reduced_distribution_t dists[2];
    begin(w, OR_ACCEPT_MULTI_ROUND);
    or_draft_tree_t rubbish = tree_of(w, 0, dists);
    rubbish.dist_count = 1; // node 2 names the second
    draft_as(w, 1);
    send_as(w, 0, &rubbish);
    run(w, 5); // nobody is waited for
    assert_int_equal(w->trees, 1);
    assert_last_tree(w, 3, guesses[1], back);
    assert_int_equal(w->heard[1].verdicts, 1);
    for (uint32_t round = 2; round <= 8; round++) {
        draft_as(w, 1);
        run(w, 5);
        assert_int_equal(w->trees, round);
    }
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.stats.plain_rounds, 0);
    assert_int_equal(w->heard[0].verdicts, 0);
    assert_non_null(strstr(w->note, "names distribution 1 of 1"));
}

// More distributions than nodes would not fit where trees are merged.
static void surplus_distributions_are_refused(void **state)
{
    world_t *w = *state;
    or_reduced_distribution_t dists[2], many[4];
    begin(w, OR_ACCEPT_MULTI_ROUND);
    or_draft_tree_t tree = tree_of(w, 0, dists);
    for (int i = 0; i < 4; i++) {
        many[i] = dists[i % 2];
    }
    tree.dists = many;
    tree.dist_count = 4;
    send_as(w, 0, &tree);
    draft_as(w, 1);
    run(w, 5);
    assert_int_equal(w->trees, 1);
    assert_last_tree(w, 3, guesses[1], back);
}

// The round times out with one tree there and no verifier: the next one is asked for a plain step.
static void trees_can_outlive_the_verifier(void **state)
{
    world_t *w = *state;
    edge_t third = {0};
    or_reduced_distribution_t dists[2];
    begin(w, OR_ACCEPT_MULTI_ROUND);
    draft_as(w, 0);
    run(w, 500);
    join_beside(w, &third,
                (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)});
    or_draft_tree_t rubbish = tree_of(w, 1, dists);
    rubbish.dist_count = 1;
    send_as(w, 1, &rubbish); // the third one takes this seat, and time to draft
    run(w, 5);
    leave(&w->verifier);
    run(w, 3000);
    assert_int_equal(w->trees, 0);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET});
    run(w, 5);
    assert_int_equal(w->trees, 1);
    assert_int_equal(w->nodes, 0);
    draft_as(w, 0);
    run(w, 5);
    assert_int_equal(w->trees, 2);
    assert_int_equal(w->nodes, 3);
    leave(&third);
}

int main(void)
{
    test_log_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(trees_are_merged_and_every_draw_keeps_its_distribution),
        TEST(other_rules_get_every_path_once),
        TEST(each_has_its_share_and_its_key),
        TEST(each_is_told_the_verdict_in_its_own_numbers),
        TEST(one_that_is_late_is_not_waited_for_until_it_speaks),
        TEST(one_that_is_lost_leaves_the_other_at_work),
        TEST(rubbish_costs_one_the_session_and_not_the_other),
        TEST(surplus_distributions_are_refused),
        TEST(trees_can_outlive_the_verifier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
