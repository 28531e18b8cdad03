// Goal: a drawn tree reaches the verifier only if its drafter is believed and its draws are what
// they claim to be; what is refused is said, and the text goes on by plain decoding.
// Method: the real coordinator, the test as its peers. Spoilt draws, drafters without trust, distributions
// that must be repeated, keys that must stay where they belong.
#include <string.h>

#include "coordinator/coordinator_test_support.h"

static const uint32_t dist_tokens[] = {5, 6, 7}, dist_weights[] = {30000, 30000, 5536};
static const uint32_t short_weights[] = {30000, 30000, 5535};
static const uint32_t beyond_tokens[] = {5, 6, 4096};
static const or_reduced_distribution_t good_dist = {dist_tokens, dist_weights, 3};
static const or_reduced_distribution_t short_dist = {dist_tokens, short_weights, 3};
static const or_reduced_distribution_t beyond_dist = {beyond_tokens, dist_weights, 3};
static const uint32_t all_siblings[] = {1, 2, 3}, zeros[] = {0, 0, 0}, in_order[] = {0, 1, 2};

static or_generate_request_t ratio_request(uint32_t tokens_wanted, or_draft_method_t method,
                                           or_accept_rule_t rule)
{
    or_generate_request_t request = usual_request(tokens_wanted);
    request.draft_method = method;
    request.accept_rule = rule;
    return request;
}

// A tree of siblings for the round that is due, on one distribution.
static or_message_t drawn_tree(const world_t *w, const uint32_t *children, uint32_t count,
                               const or_reduced_distribution_t *dist)
{
    return (or_message_t){.type = OR_MSG_DRAFT_TREE,
                          .session = w->session,
                          .body.draft_tree = {.round = w->last.round,
                                              .base_length = w->last.count,
                                              .base_hash = w->last.hash,
                                              .tokens = children,
                                              .back = all_siblings,
                                              .count = count,
                                              .dist_index = zeros,
                                              .dist_index_count = dist != NULL ? count : 0,
                                              .draw_order = in_order,
                                              .draw_order_count = dist != NULL ? count : 0,
                                              .dists = dist,
                                              .dist_count = dist != NULL}};
}

static void send_drawn(world_t *w, const or_message_t *tree)
{
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, tree), OR_OK);
}

// Refused with the reason, which the user is told; the text goes on by plain decoding.
static void spoilt_draws_cost_their_sender_the_session(void **state)
{
    world_t *w = *state;
    static const uint32_t twins[] = {5, 6, 5};
    static const uint32_t foreign[] = {5, 6, 8};
    static const struct {
        or_draft_method_t method;
        or_accept_rule_t rule;
        const uint32_t *tokens;
        const or_reduced_distribution_t *dist;
        const char *reason;
    } bad[] = {
        {OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, tokens, &short_dist, "add up to 65535"},
        {OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND, tokens, &short_dist, "add up to 65535"},
        {OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, twins, &good_dist, "repeats a sibling"},
        {OR_DRAFT_RSD_C, OR_ACCEPT_NAIVE, twins, NULL, "repeats a sibling"},
        {OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, beyond_tokens, &good_dist, "outside the vocabulary"},
        {OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, tokens, &beyond_dist, "outside the vocabulary"},
        {OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE, foreign, &good_dist,
         "its distribution does not have"},
        {OR_DRAFT_CHAIN, OR_ACCEPT_SPS, tokens, &good_dist, "chains"},
        {OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE, tokens, NULL, "needs the distribution"},
    };
    join_usual(w);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        w->trees = w->nodes = 0;
        memset(&w->end, 0, sizeof w->end);
        ask(w, ratio_request(3, bad[i].method, bad[i].rule));
        run(w, 5);
        const or_message_t tree = drawn_tree(w, bad[i].tokens, 3, bad[i].dist);
        send_drawn(w, &tree);
        run(w, 20); // well below the draft time-out: the session did not wait
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
        assert_int_equal(w->trees, 3);
        assert_int_equal(w->nodes, 0);
        if (strstr(w->note, bad[i].reason) == NULL) {
            fail_msg("'%s' does not say '%s'", w->note, bad[i].reason);
        }
        const or_message_t forget = {
            .type = OR_MSG_CANCEL, .session = w->session, .body.cancel = {.reason = "done"}};
        assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &forget), OR_OK);
        run(w, 5);
    }
}

static void an_untrusted_drafter_does_not_serve_a_rule_that_would_believe_it(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, ratio_request(3, OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE));
    run(w, 20); // nobody is waited for
    assert_int_equal(w->prefixes, 0);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->trees, 3);
    assert_int_equal(w->nodes, 0);
    assert_non_null(strstr(w->note, "trusted"));
    assert_non_null(strstr(w->note, "recursive"));
    assert_non_null(strstr(w->note, "--accept coupled"));
}

// A rule that no drafter can bias needs no trust.
static void an_untrusted_drafter_serves_all_other_rules(void **state)
{
    world_t *w = *state;
    static const struct {
        or_draft_method_t method;
        or_accept_rule_t rule;
    } pairs[] = {{OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED},
                 {OR_DRAFT_RSD_C, OR_ACCEPT_GREEDY},
                 {OR_DRAFT_RSD_S, OR_ACCEPT_NAIVE}};
    join_usual(w);
    for (uint64_t i = 0; i < 3; i++) {
        w->nodes = 0;
        or_generate_request_t request = ratio_request(1, pairs[i].method, pairs[i].rule);
        request.request = 100 + i;
        ask_and_draft(w, request, 3);
        assert_int_equal(w->nodes, 3);
        assert_int_equal(w->end.request, 100 + i);
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
        assert_string_equal(w->note, "");
    }
}

static void distributions_are_repeated_with_their_tree(void **state)
{
    world_t *w = *state;
    edge_t newer = {0};
    or_message_t received;
    join_usual(w);
    w->slow = true;
    ask(w, ratio_request(1, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE));
    run(w, 5);
    const or_message_t tree = drawn_tree(w, tokens, 3, &good_dist);
    send_drawn(w, &tree);
    run(w, 5);
    assert_int_equal(w->trees, 1);
    assert_int_equal(or_message_decode(w->frames[1], w->frame_bytes[1], &received), OR_OK);
    const or_draft_tree_t *sent = &received.body.draft_tree;
    assert_int_equal(sent->count, 3);
    assert_int_equal(sent->dist_count, 1);
    assert_memory_equal(sent->dist_index, zeros, sizeof zeros);
    assert_memory_equal(sent->draw_order, in_order, sizeof in_order);
    assert_memory_equal(sent->dists[0].tokens, dist_tokens, sizeof dist_tokens);
    assert_memory_equal(sent->dists[0].weights, dist_weights, sizeof dist_weights);
    or_message_fini(&received);
    run(w, 1500); // asked again
    assert_true(w->trees > 1);
    assert_int_equal(w->frame_bytes[0], w->frame_bytes[1]);
    assert_memory_equal(w->frames[0], w->frames[1], w->frame_bytes[0]);
    uint32_t before = w->trees;
    join_beside(w, &newer, // and so is another verifier
                (or_hello_t){.role = OR_ROLE_VERIFIER,
                             .vocab_hash = or_vocab_hash(w->vocab),
                             .model_hash = TARGET});
    leave(&w->verifier);
    w->verifier = newer;
    w->slow = false;
    run(w, 3000);
    assert_true(w->trees > before);
    assert_int_equal(w->frame_bytes[0], w->frame_bytes[1]);
    assert_memory_equal(w->frames[0], w->frames[1], w->frame_bytes[0]);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

static void repeated_siblings_travel_and_are_accepted(void **state)
{
    world_t *w = *state;
    static const uint32_t twins[] = {6, 6, 5};
    join_usual(w);
    w->accepts = true;
    ask(w, ratio_request(2, OR_DRAFT_MCSD, OR_ACCEPT_MULTI_ROUND));
    run(w, 5);
    const or_message_t tree = drawn_tree(w, twins, 3, &good_dist);
    send_drawn(w, &tree);
    run(w, 5);
    assert_int_equal(w->nodes, 3);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.stats.accepted, 1);
    assert_int_equal(w->end.stats.completion_tokens, 2);
    assert_string_equal(w->note, "");
}

// Keys: what the target draws with is no drafter's business, and what a drafter draws with is not
// the verifier's; with rules other than coupled the noise is no drafter's either.
static void each_side_is_told_its_own_keys(void **state)
{
    world_t *w = *state;
    static const struct {
        or_draft_method_t method;
        or_accept_rule_t rule;
    } pairs[] = {{OR_DRAFT_COUPLED, OR_ACCEPT_COUPLED},
                 {OR_DRAFT_RSD_S, OR_ACCEPT_NAIVE},
                 {OR_DRAFT_RSD_S, OR_ACCEPT_RECURSIVE}};
    join_usual(w);
    for (uint64_t i = 0; i < 3; i++) {
        or_generate_request_t request = ratio_request(1, pairs[i].method, pairs[i].rule);
        request.request = 100 + i;
        request.sampling.temperature = 1;
        ask(w, request);
        run(w, 5);
        const or_open_session_t *drafter = &w->drafter_terms, *verifier = &w->verifier_terms;
        assert_int_equal(drafter->accept_rule, pairs[i].rule);
        assert_int_equal(verifier->accept_rule, pairs[i].rule);
        assert_true(drafter->private_key == 0 && verifier->private_key != 0);
        assert_true(drafter->draft_key != 0 && verifier->draft_key == 0);
        assert_true(drafter->draft_key != verifier->private_key);
        assert_true((drafter->noise_key != 0) == (pairs[i].rule == OR_ACCEPT_COUPLED));
        assert_int_equal(drafter->noise_key, verifier->noise_key);
        assert_int_equal(drafter->distribution_entries, OR_DISTRIBUTION_ENTRIES);
        run(w, 1100); // it went on without the drafter
        assert_int_equal(w->end.request, 100 + i);
    }
}

// Under a ratio rule a tree is judged or not by what was asked for, never by what was drawn.
static void a_small_drawn_tree_is_treated_as_the_largest(void **state)
{
    world_t *w = *state;
    uint32_t long_prompt[58];
    uint64_t vocab_hash = or_vocab_hash(w->vocab);
    for (uint32_t i = 0; i < 58; i++) {
        long_prompt[i] = 300 + i;
    }
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER, .vocab_hash = vocab_hash, .model_hash = TARGET});
    join(w, &w->drafter,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = vocab_hash, .context_max = 128});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
    for (uint32_t depth = 6; depth <= 7; depth++) { // 58 + 6 is the context
        or_generate_request_t request = ratio_request(1, OR_DRAFT_RSD_C, OR_ACCEPT_RECURSIVE);
        request.request = depth;
        request.prompt_tokens = long_prompt;
        request.prompt_token_count = 58;
        request.draft_depth = depth;
        w->nodes = 0;
        ask(w, request);
        run(w, 5);
        const or_message_t tree = drawn_tree(w, tokens, 1, &good_dist);
        send_drawn(w, &tree);
        run(w, 5);
        assert_int_equal(w->end.request, depth);
        assert_int_equal(w->nodes, depth == 6 ? 1 : 0);
        assert_string_equal(w->note, "");
    }
}

static int set_up_expecting(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    config.expect_drafter = true;
    return world_setup_with(state, config);
}

// A vocabulary that nobody can read.
static void send_nonsense(world_t *w)
{
    static const uint8_t nonsense[] = "nonsense";
    const or_message_t message = {
        .type = OR_MSG_VOCABULARY,
        .body.vocabulary = {
            .hash = 1, .unpacked_bytes = 100, .packed = nonsense, .packed_bytes = sizeof nonsense}};
    for (int i = 0; i < 10 && w->refusal[0] == '\0'; i++) {
        assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &message), OR_OK);
        run(w, 5);
    }
    assert_non_null(strstr(w->refusal, "vocabulary"));
}

// One with an owner ends the requests of that owner, which wait for it, and nobody else's.
static void a_refused_drafter_ends_those_it_was_for(void **state)
{
    world_t *w = *state;
    edge_t alice = {0};
    uint64_t hash = or_vocab_hash(w->vocab);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER, .vocab_hash = hash, .model_hash = TARGET});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "bob"});
    join_beside(w, &alice, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "alice"});
    join(w, &w->drafter,
         (or_hello_t){
             .role = OR_ROLE_DRAFTER, .owner = "alice", .vocab_hash = 1, .vocab_size = 100});
    ask(w, usual_request(2));
    ask_through(&alice, usual_request(2));
    run(w, 5);
    send_nonsense(w);
    assert_int_equal(w->end.finish, OR_FINISH_NONE);
    hear_as_client(w, &alice);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "vocabulary cannot be used"));
    leave(&w->drafter);
    join(w, &w->second, (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = hash});
    w->end = (or_generate_delta_t){0};
    run(w, 1500); // who drafts nothing is bridged
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    leave(&alice);
}

int main(void)
{
    test_log_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
#define TEST_WITHOUT_TRUST(name)                                                                   \
    cmocka_unit_test_setup_teardown(name, world_setup_without_trust, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(spoilt_draws_cost_their_sender_the_session),
        TEST(distributions_are_repeated_with_their_tree),
        TEST(repeated_siblings_travel_and_are_accepted),
        TEST(each_side_is_told_its_own_keys),
        TEST(a_small_drawn_tree_is_treated_as_the_largest),
        TEST_WITHOUT_TRUST(an_untrusted_drafter_does_not_serve_a_rule_that_would_believe_it),
        TEST_WITHOUT_TRUST(an_untrusted_drafter_serves_all_other_rules),
        cmocka_unit_test_setup_teardown(a_refused_drafter_ends_those_it_was_for, set_up_expecting,
                                        world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
