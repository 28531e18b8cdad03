// Goal: a drafter that sends wrong hashes, giant, repeated or foreign trees, nonsense or floods costs
// itself its place and nobody else anything; one whose guesses are no use is asked for less, then for
// none, and may come back.
// Method: the real coordinator on a network in memory; the test plays the offender through w->drafter,
// an honest drafter beside it, and a verifier that writes token 5 whatever the tree.
#include <string.h>

#include "coordinator/coordinator_test_support.h"

static or_hello_t drafter_hello(const world_t *w)
{
    return (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)};
}

// A request of the first drafter's, with another number each.
static void begin_text(world_t *w, uint32_t tokens_wanted)
{
    static uint64_t number = 1000;
    or_generate_request_t request = usual_request(tokens_wanted);
    request.request = ++number;
    memset(&w->end, 0, sizeof w->end);
    ask(w, request);
    run(w, 3);
}

// A tree for the round and text that the first drafter knows.
static void draft_next(world_t *w, uint32_t count)
{
    draft(w, w->heard[0].round, w->heard[0].length, w->heard[0].hash, tokens, chain, count);
    run(w, 0);
}

static bool is_cut_off(const world_t *w)
{
    return strstr(w->refusal, "cut off") != NULL;
}

// It plays no part any more: nothing it sends is heard, its sessions go on, and it is counted.
static void assert_is_out(world_t *w)
{
    const or_message_t question = {.type = OR_MSG_STATS_REQUEST};
    assert_true(is_cut_off(w));
    uint32_t opens = w->heard[0].opens;
    begin_text(w, 3);
    run(w, 10);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->heard[0].opens, opens);
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &question), OR_OK);
    run(w, 1);
    assert_int_equal(w->stats.cut_off, 1);
    assert_int_equal(w->stats.drafters, 0);
}

static void wrong_hashes_bring_few_replays_and_no_delay(void **state)
{
    world_t *w = *state;
    join_usual(w);
    begin_text(w, 20);
    uint32_t before = w->heard[0].prefixes;
    for (int i = 0; i < 20; i++) { // within 20 ms
        draft(w, 1, w->heard[0].length, w->heard[0].hash + 1, tokens, chain, 2);
        run(w, 0);
    }
    assert_int_equal(w->heard[0].prefixes, before + 1); // not one each
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH); // it was let go
    assert_non_null(strstr(w->note, "another text"));
    assert_false(is_cut_off(w)); // for one text's mistakes
}

static void wrong_hashes_in_every_text_are_cut_off(void **state)
{
    world_t *w = *state;
    join_usual(w);
    for (int i = 0; i < 10 && !is_cut_off(w); i++) {
        begin_text(w, 4);
        for (int k = 0; k < 12; k++) {
            draft(w, 1, w->heard[0].length, w->heard[0].hash + 1, tokens, chain, 2);
        }
        run(w, 20);
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    }
    assert_is_out(w);
}

static void trees_larger_than_asked_are_cut_off(void **state)
{
    world_t *w = *state;
    join_usual(w);
    for (int i = 0; i < 12 && !is_cut_off(w); i++) {
        begin_text(w, 3);
        draft_next(w, 9); // of 8
        run(w, 20);
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
        assert_int_equal(w->nodes, 0);
    }
    assert_is_out(w);
}

static void other_trees_for_a_round_are_cut_off_and_not_judged(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->slow = true;
    begin_text(w, 2);
    draft_next(w, 4);
    for (int i = 0; i < 200; i++) {
        draft_next(w, 4); // the same: a network does that
    }
    assert_false(is_cut_off(w));
    for (int i = 0; i < 60; i++) {
        draft_next(w, 1 + (uint32_t)i % 3);
    }
    run(w, 5);
    assert_true(is_cut_off(w));
    assert_int_equal(w->trees, 1);
    assert_int_equal(w->nodes, 4); // the first one
    w->slow = false;
    run(w, 1100);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_is_out(w);
}

static void sessions_that_never_were_are_cut_off(void **state)
{
    world_t *w = *state;
    join_usual(w);
    begin_text(w, 2);
    or_session_id_t real = w->session;
    for (int i = 0; i < 300; i++) { // over: no offence
        draft_next(w, 2);
        w->session = real;
    }
    run(w, 5);
    assert_false(is_cut_off(w));
    for (uint64_t i = 0; i < 600; i++) {
        w->session.value = real.value + 1000 + i;
        draft(w, 1, 3, 4, tokens, chain, 2);
        run(w, 0);
    }
    assert_is_out(w);
}

static void nonsense_is_cut_off(void **state)
{
    world_t *w = *state;
    join_usual(w);
    uint64_t random = 7;
    for (int i = 0; i < 40; i++) {
        uint8_t frame[64];
        for (size_t k = 0; k < sizeof frame; k++) {
            frame[k] = (uint8_t)test_below(&random, 256);
        }
        assert_int_equal(or_channel_send(w->drafter.channel, OR_PEER_HUB, frame, sizeof frame),
                         OR_OK);
        run(w, 0);
    }
    assert_is_out(w);
}

// It is not read while it is ignored, whatever it says; then it may greet again.
static void who_was_cut_off_may_come_back_after_a_while(void **state)
{
    world_t *w = *state;
    join_usual(w);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(or_channel_send(w->drafter.channel, OR_PEER_HUB, (const uint8_t *)"?", 1),
                         OR_OK);
    }
    run(w, 5);
    assert_is_out(w);
    run(w, 50000);
    uint32_t opens = w->heard[0].opens;
    begin_text(w, 2);
    assert_int_equal(w->heard[0].opens, opens);
    run(w, 20000);
    begin_text(w, 2);
    assert_int_equal(w->heard[0].opens, opens + 1);
}

// A million frames a second for as long as it may: the honest one beside it then serves alone.
static void a_flood_is_cut_off(void **state)
{
    world_t *w = *state;
    join_usual(w);
    join(w, &w->second, drafter_hello(w));
    run(w, 5);
    w->session.value = 2; // never was
    for (int i = 0; i < 20000 && !is_cut_off(w); i++) {
        draft(w, 1, 3, 4, tokens, chain, 2);
        if (i % 900 == 0) { // what the network holds
            run(w, 0);
        }
    }
    assert_true(is_cut_off(w));
    begin_text(w, 3);
    run(w, 5);
    assert_int_equal(w->heard[1].opens, 1);
    assert_int_equal(w->heard[0].opens, 0);
}

// ---- useless drafters ----

static void useless_guesses_get_a_smaller_budget_then_none(void **state)
{
    world_t *w = *state;
    join_usual(w);
    begin_text(w, 50);
    uint32_t asked = 8;
    for (uint32_t round = 1; round <= 40; round++) {
        assert_int_equal(w->heard[0].round, round);
        draft_next(w, asked);
        asked = w->heard[0].draft_nodes > 0 ? w->heard[0].draft_nodes : asked;
        assert_int_equal(asked, round < 8 ? 8 : round < 16 ? 4 : round < 24 ? 2 : 1);
    }
    assert_int_equal(w->heard[0].cancels, 1);
    run(w, 20); // plainly, without a wait
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.stats.plain_rounds, 10);
    assert_non_null(strstr(w->note, "none of the drafter's guesses was accepted in 40 rounds"));
}

static void an_accepted_guess_restores_the_budget(void **state)
{
    world_t *w = *state;
    join_usual(w);
    begin_text(w, 50);
    for (uint32_t round = 1; round <= 9; round++) {
        draft_next(w, 4);
    }
    assert_int_equal(w->heard[0].draft_nodes, 4);
    w->path[0] = 1;
    w->path_count = 1;
    draft_next(w, 4);
    assert_int_equal(w->heard[0].draft_nodes, 0); // all
    draft_next(w, 8);
    assert_int_equal(w->heard[0].cancels, 0);
}

static void more_than_the_budget_is_a_bad_tree(void **state)
{
    world_t *w = *state;
    join_usual(w);
    begin_text(w, 50);
    for (uint32_t round = 1; round <= 8; round++) {
        draft_next(w, 8);
    }
    draft_next(w, 8); // of 4
    run(w, 60);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_non_null(strstr(w->note, "a tree of 8 nodes, 4 were asked for"));
}

// Another one takes the seat at once; the first may try again later.
static void another_takes_the_seat_and_the_first_may_come_back(void **state)
{
    world_t *w = *state;
    join_usual(w);
    begin_text(w, 200);
    join(w, &w->second, drafter_hello(w));
    run(w, 2);
    uint32_t opens = w->heard[0].opens;
    for (uint32_t round = 1; round <= 40; round++) {
        assert_int_equal(w->heard[1].opens, 0);
        draft_next(w, 1);
    }
    assert_int_equal(w->heard[1].opens, 1);
    leave(&w->second);
    w->slow = true;
    run(w, 15000); // its silence, and half of the rest
    assert_int_equal(w->heard[0].opens, opens);
    run(w, 16000);
    w->slow = false;
    run(w, 11000); // the verifier is asked again
    assert_int_equal(w->heard[0].opens, opens + 1);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_setup, world_teardown)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        WITH_WORLD(wrong_hashes_bring_few_replays_and_no_delay),
        WITH_WORLD(wrong_hashes_in_every_text_are_cut_off),
        WITH_WORLD(trees_larger_than_asked_are_cut_off),
        WITH_WORLD(other_trees_for_a_round_are_cut_off_and_not_judged),
        WITH_WORLD(sessions_that_never_were_are_cut_off),
        WITH_WORLD(nonsense_is_cut_off),
        WITH_WORLD(who_was_cut_off_may_come_back_after_a_while),
        WITH_WORLD(a_flood_is_cut_off),
        WITH_WORLD(useless_guesses_get_a_smaller_budget_then_none),
        WITH_WORLD(an_accepted_guess_restores_the_budget),
        WITH_WORLD(more_than_the_budget_is_a_bad_tree),
        WITH_WORLD(another_takes_the_seat_and_the_first_may_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
