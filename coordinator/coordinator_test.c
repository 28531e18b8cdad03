// Goal: a request is served whatever drafters do; what a peer gets wrong costs that peer only, and
// is answered with a sentence.
// Method: the real coordinator on a network in memory. The test plays all its peers: a verifier
// that always writes token 5, a client, and drafters that are wrong in every way the wire allows.
// (Drawn trees: drafting_test.c.)
#include <string.h>

#include "coordinator/coordinator_test_support.h"

static void a_silent_drafter_is_bridged(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, usual_request(4));
    run(w, 900);
    assert_int_equal(w->trees, 0); // it is given its second
    run(w, 300);
    assert_int_equal(w->trees, 4); // then nobody waits for it any more
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.stats.plain_rounds, 4);
    assert_true(w->prefixes >= 2); // it was reminded
}

static void a_late_drafter_is_waited_for_once_it_speaks(void **state)
{
    world_t *w = *state;
    static const uint32_t five = 5;
    join_usual(w);
    w->slow = true;
    ask(w, usual_request(3));
    run(w, 1100); // the first round goes on without it
    assert_int_equal(w->trees, 1);
    draft(w, 1, w->last.count, w->last.hash, tokens, chain, 2); // too late, but a sign of life
    run(w, 5);
    w->slow = false;
    run(w, 950); // asked again, the verifier answers: the second round waits for a tree
    assert_int_equal(w->end.finish, OR_FINISH_NONE);
    draft(w, 2, w->last.count + 1, or_prefix_hash(w->last.hash, &five, 1), tokens, chain, 2);
    run(w, 10);
    assert_int_equal(w->nodes, 2);
}

static void ask_another(world_t *w)
{
    static uint64_t number = 1000;
    or_generate_request_t request = usual_request(3);
    request.request = ++number;
    ask(w, request);
}

// A text that begins later does not wait for it at all, until it has spoken, be it of a text that is over, or long after.
static void a_drafter_that_one_text_gave_up_is_late_for_the_next(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask_another(w);
    run(w, 1100);
    assert_int_equal(w->trees, 3);
    run(w, 300);
    ask_another(w);
    run(w, 20); // well below the draft time-out
    assert_int_equal(w->trees, 6);
    draft(w, 1, w->last.count, w->last.hash, tokens, chain, 2);
    run(w, 5);
    ask_another(w);
    run(w, 400); // it is waited for again
    assert_int_equal(w->trees, 6);
    run(w, 700);
    assert_int_equal(w->trees, 9);
    run(w, 10000);
    ask_another(w);
    run(w, 400); // and after ten time-outs once more
    assert_int_equal(w->trees, 9);
}

static void a_good_tree_reaches_the_verifier(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask_and_draft(w, usual_request(1), 8);
    assert_int_equal(w->nodes, 8);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

static void a_tree_on_another_prefix_brings_the_prefix_again(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, usual_request(1));
    run(w, 5);
    uint32_t before = w->prefixes;
    draft(w, w->last.round, w->last.count, w->last.hash + 1, tokens, chain, 2);
    draft(w, w->last.round + 5, w->last.count, w->last.hash, tokens, chain,
          2); // of the future: ignored
    run(w, 5);
    assert_int_equal(w->trees, 0);
    assert_int_equal(w->prefixes, before + 1);
}

// Each bad tree costs the drafter the session; the text goes on.
static void bad_trees_cost_their_sender_the_session(void **state)
{
    world_t *w = *state;
    static const uint32_t beyond[] = {4096};
    static const uint32_t zero[] = {0};
    static const uint32_t far[] = {2};
    const struct {
        const uint32_t *tokens, *back;
        uint32_t count;
    } bad[] = {{beyond, chain, 1}, {tokens, zero, 1}, {tokens, far, 1}, {tokens, chain, 9}};
    join_usual(w);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        w->trees = 0;
        w->nodes = 0;
        memset(&w->end, 0, sizeof w->end);
        or_generate_request_t request = usual_request(3);
        ask(w, request);
        run(w, 5);
        draft(w, w->last.round, w->last.count, w->last.hash, bad[i].tokens, bad[i].back,
              bad[i].count);
        run(w, 20); // well below the draft time-out: the session did not wait
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
        assert_int_equal(w->trees, 3);
        assert_int_equal(w->nodes, 0);
        const or_message_t forget = {
            .type = OR_MSG_CANCEL, .session = w->session, .body.cancel = {.reason = "done"}};
        assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &forget), OR_OK);
        run(w, 5);
    }
}

static void a_forged_verdict_ends_the_text_with_an_error(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->forged_hash = 1;
    or_generate_request_t request = usual_request(3);
    request.plain = true;
    ask(w, request);
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_int_equal(w->end.count, 0); // nothing of it was shown
}

static void a_tree_that_the_verifier_refuses_is_replaced_by_a_plain_step(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->refused_trees = 1;
    ask(w, usual_request(1));
    run(w, 5);
    draft(w, w->last.round, w->last.count, w->last.hash, tokens, chain, 8);
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->nodes, 0);
}

static void a_drafter_is_told_no_secret(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, usual_request(1));
    run(w, 5);
    assert_true(w->prefixes > 0);
    assert_int_equal(w->drafter_secret, 0);
}

// Drafters that cannot serve are not asked in turn for ever.
static void two_unfit_drafters_leave_a_plain_text(void **state)
{
    world_t *w = *state;
    edge_t second = {0};
    or_link_event_t event;
    or_peer_t from;
    or_message_t message;
    join_usual(w);
    join_beside(w, &second,
                (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)});
    ask(w, usual_request(4));
    for (int i = 0; i < 50 && w->end.finish == OR_FINISH_NONE; i++) {
        edge_t *edges[] = {&w->drafter, &second};
        for (int k = 0; k < 2; k++) {
            const or_message_t unfit = {
                .type = OR_MSG_ERROR,
                .session = w->session,
                .body.error = {.code = OR_WIRE_CONTEXT, .text = "too long for me"}};
            while (or_link_receive(edges[k]->link, &event, &from, &message) == OR_OK) {
                if (event == OR_LINK_MESSAGE) {
                    drafter_notes(w, &message);
                    or_message_fini(&message);
                }
            }
            or_link_tick(edges[k]->link);
            if (w->session.value != 0) {
                assert_int_equal(or_link_send(edges[k]->link, OR_PEER_HUB, &unfit), OR_OK);
            }
        }
        run(w, 1);
    }
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_true(w->end.stats.elapsed_us < 500 * 1000);
    leave(&second);
}

static void a_full_verifier_serves_in_order_of_arrival(void **state)
{
    world_t *w = *state;
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET,
                      .sessions_max = 1});
    run(w, 5);
    for (uint64_t id = 1; id <= 5; id++) {
        or_generate_request_t request = usual_request(4);
        request.plain = true;
        request.request = id;
        ask(w, request);
        run(w, 1);
    }
    run(w, 100);
    assert_int_equal(w->ended, 5);
    for (uint64_t id = 1; id <= 5; id++) {
        assert_int_equal(w->order[id - 1], id);
    }
}

// Another verifier than the one it was told of takes smaller trees: that is not the drafter's
// fault. (One that builds more than it was told is at fault.)
static void the_verifiers_limit_is_told_and_costs_no_drafter_its_session(void **state)
{
    world_t *w = *state;
    uint32_t many[65], back[65];
    uint64_t vocab_hash = or_vocab_hash(w->vocab);
    edge_t newer = {0};
    static const uint32_t five = 5;
    for (uint32_t i = 0; i < 65; i++) {
        many[i] = 300 + i;
        back[i] = i + 1; // all children of the root
    }
    const or_hello_t drafter = {.role = OR_ROLE_DRAFTER, .vocab_hash = vocab_hash, .nodes_max = 80};
    or_hello_t verifier = {
        .role = OR_ROLE_VERIFIER, .vocab_hash = vocab_hash, .model_hash = TARGET, .nodes_max = 48};
    join(w, &w->verifier, verifier);
    join(w, &w->drafter, drafter);
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
    or_generate_request_t request = usual_request(3);
    request.draft_nodes = 64;
    ask(w, request);
    run(w, 5);
    assert_int_equal(w->told_nodes, 48);
    verifier.nodes_max = 32;
    join_beside(w, &newer, verifier);
    leave(&w->verifier);
    w->verifier = newer;
    draft(w, 1, w->last.count, w->last.hash, many, back, 40);
    run(w, 5);
    assert_int_equal(w->trees, 1);
    assert_int_equal(w->nodes, 0); // a plain step instead
    uint64_t hash = or_prefix_hash(w->last.hash, &five, 1);
    draft(w, 2, w->last.count + 1, hash, many, back, 30);
    run(w, 5);
    assert_int_equal(w->nodes, 30);
    draft(w, 3, w->last.count + 2, or_prefix_hash(hash, &five, 1), many, back, 49);
    run(w, 5);
    assert_int_equal(w->nodes, 30);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_non_null(strstr(w->note, "49 nodes"));
}

static void another_target_is_refused(void **state)
{
    world_t *w = *state;
    join(w, &w->drafter, // the test's ear for refusals
         (or_hello_t){.role = OR_ROLE_VERIFIER,
                      .vocab_hash = or_vocab_hash(w->vocab),
                      .model_hash = TARGET + 1});
    run(w, 5);
    assert_non_null(strstr(w->refusal, "target.gguf"));
}

// The newer of two verifiers serves; when it goes the older one does, unless it computes otherwise.
static void the_verifier_that_is_left_serves(void **state)
{
    world_t *w = *state;
    edge_t newer = {0};
    or_hello_t hello = {
        .role = OR_ROLE_VERIFIER, .vocab_hash = or_vocab_hash(w->vocab), .model_hash = TARGET};
    join_usual(w);
    join_beside(w, &newer, hello);
    leave(&newer);
    or_generate_request_t request = usual_request(3);
    request.plain = true;
    ask(w, request);
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

// It is not waited for, although its link is still up.
static void a_verifier_that_says_good_bye_is_gone_at_once(void **state)
{
    world_t *w = *state;
    edge_t newer = {0};
    const or_message_t good_bye = {.type = OR_MSG_CANCEL, .body.cancel = {.reason = "stopped"}};
    or_hello_t hello = {
        .role = OR_ROLE_VERIFIER, .vocab_hash = or_vocab_hash(w->vocab), .model_hash = TARGET};
    join_usual(w);
    join_beside(w, &newer, hello);
    or_generate_request_t request = usual_request(3);
    request.plain = true;
    ask(w, request);
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_NONE); // the newer one never answers
    assert_int_equal(or_link_send(newer.link, OR_PEER_HUB, &good_bye), OR_OK);
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    leave(&newer);
}

static void a_text_is_not_continued_with_other_arithmetic(void **state)
{
    world_t *w = *state;
    edge_t newer = {0};
    or_hello_t hello = {.role = OR_ROLE_VERIFIER,
                        .arith_id = "another",
                        .vocab_hash = or_vocab_hash(w->vocab),
                        .model_hash = TARGET};
    join_usual(w);
    ask(w, usual_request(3));
    run(w, 5); // it waits for the drafter's tree
    join_beside(w, &newer, hello);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "arithmetic"));
    leave(&newer);
}

static void a_coordinator_that_stops_says_so(void **state)
{
    world_t *w = *state;
    join_usual(w);
    ask(w, usual_request(3));
    run(w, 5);
    or_coordinator_shutdown(w->coordinator);
    run(w, 5);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "shutting down"));
}

static void another_vocabulary_costs_a_verifier_its_place(void **state)
{
    world_t *w = *state;
    join(w, &w->drafter, // the drafter's edge hears what a verifier is told
         (or_hello_t){.role = OR_ROLE_VERIFIER, .vocab_hash = 1, .vocab_size = 1024});
    run(w, 5);
    assert_non_null(strstr(w->refusal, "vocabulary"));
    assert_non_null(strstr(w->refusal, "target.gguf"));
}

static void without_a_verifier_a_request_ends_with_advice(void **state)
{
    world_t *w = *state;
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
    ask(w, usual_request(1));
    run(w, 6000);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "outrider-verifier"));
}

static void bad_requests_are_answered(void **state)
{
    world_t *w = *state;
    uint32_t many[80];
    static const uint32_t beyond[] = {4096};
    for (uint32_t i = 0; i < 80; i++) {
        many[i] = 5;
    }
    static const uint32_t widths[] = {4, 2, 0, 2000};
    or_generate_request_t bad[12];
    for (int i = 0; i < 12; i++) {
        bad[i] = usual_request(4);
    }
    bad[0].prompt_tokens = many; // longer than the context of 64
    bad[0].prompt_token_count = 80;
    bad[1].prompt_tokens = beyond;
    bad[1].prompt_token_count = 1;
    bad[2].sampling.top_p = 7;
    bad[3].draft_nodes = 100000;
    bad[4].draft_method = 42;
    bad[5].accept_rule = OR_ACCEPT_GREEDY;
    bad[5].sampling.temperature = 1;
    for (int i = 6; i < 12; i++) {
        bad[i].accept_rule = OR_ACCEPT_RECURSIVE;
        bad[i].draft_method = OR_DRAFT_RSD_C;
        bad[i].draft_shape = widths;
        bad[i].draft_shape_count = 2;
    }
    bad[6].draft_method = OR_DRAFT_MCSD; // draws with replacement
    bad[7].draft_shape_count = 3;        // a width of 0
    bad[8].draft_shape = widths + 3;     // more nodes than a tree has
    bad[8].draft_shape_count = 1;
    bad[9].draft_method = OR_DRAFT_CHAIN; // has no shape
    bad[10].distribution_entries = 257;
    bad[11].draft_shape_count = 33; // only its length is looked at
    static const uint32_t too_many[33] = {1};
    bad[11].draft_shape = too_many;
    join_usual(w);
    for (int i = 0; i < 12; i++) {
        memset(&w->end, 0, sizeof w->end);
        ask(w, bad[i]);
        run(w, 10);
        assert_int_equal(w->end.finish, OR_FINISH_ERROR);
        assert_true(strlen(w->error) > 10);
        leave(&w->client); // the next request comes from a new client
        join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
        run(w, 10);
    }
}

static void a_repeated_request_is_the_same_request(void **state)
{
    world_t *w = *state;
    join_usual(w);
    or_generate_request_t request = usual_request(3);
    request.plain = true;
    ask(w, request);
    ask(w, request);
    run(w, 300); // repetitions at once have one answer
    ask(w, request);
    run(w, 20);
    assert_int_equal(w->trees, 3);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.offset, 0); // told again from the beginning
    assert_int_equal(w->end.count, 3);
}

// A client may ask for things that no command line asks for.
static void trees_of_no_level_are_refused(void **state)
{
    world_t *w = *state;
    join_usual(w);
    or_generate_request_t request = usual_request(2);
    request.draft_method = OR_DRAFT_MULTI;
    request.accept_rule = OR_ACCEPT_NAIVE;
    request.draft_depth = 0;
    ask(w, request);
    run(w, 5);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_non_null(strstr(w->error, "--plain"));
}

int main(void)
{
    test_log_init();
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_silent_drafter_is_bridged),
        TEST(a_late_drafter_is_waited_for_once_it_speaks),
        TEST(a_drafter_that_one_text_gave_up_is_late_for_the_next),
        TEST(a_good_tree_reaches_the_verifier),
        TEST(a_tree_on_another_prefix_brings_the_prefix_again),
        TEST(bad_trees_cost_their_sender_the_session),
        TEST(a_forged_verdict_ends_the_text_with_an_error),
        TEST(a_tree_that_the_verifier_refuses_is_replaced_by_a_plain_step),
        TEST(a_drafter_is_told_no_secret),
        TEST(two_unfit_drafters_leave_a_plain_text),
        TEST(a_full_verifier_serves_in_order_of_arrival),
        TEST(the_verifiers_limit_is_told_and_costs_no_drafter_its_session),
        TEST(another_target_is_refused),
        TEST(the_verifier_that_is_left_serves),
        TEST(a_verifier_that_says_good_bye_is_gone_at_once),
        TEST(a_text_is_not_continued_with_other_arithmetic),
        TEST(a_coordinator_that_stops_says_so),
        TEST(another_vocabulary_costs_a_verifier_its_place),
        TEST(without_a_verifier_a_request_ends_with_advice),
        TEST(bad_requests_are_answered),
        TEST(a_repeated_request_is_the_same_request),
        TEST(trees_of_no_level_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
