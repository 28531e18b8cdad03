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

static void send_error(world_t *w, edge_t *drafter, or_wire_error_t code, uint32_t retry_ms)
{
    const or_message_t message = {
        .type = OR_MSG_ERROR,
        .session = w->session,
        .body.error = {.code = code, .text = "help", .retry_ms = retry_ms}};
    assert_int_equal(or_link_send(drafter->link, OR_PEER_HUB, &message), OR_OK);
    run(w, 0);
}

// To have lost a session is no offence, and what was on the way when a drafter fell out of step is one.
static void who_asks_for_the_text_is_not_cut_off_at_once(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->slow = true;
    begin_text(w, 2);
    for (int i = 0; i < 600; i++) {
        send_error(w, &w->drafter, OR_WIRE_UNKNOWN_SESSION, 0);
        send_error(w, &w->drafter, OR_WIRE_NEED_PREFIX, 0);
    }
    assert_false(is_cut_off(w));
}

// One that does so in every round of every text is.
static void who_asks_for_the_text_in_every_round_is_cut_off(void **state)
{
    world_t *w = *state;
    join_usual(w);
    for (int i = 0; i < 40 && !is_cut_off(w); i++) {
        begin_text(w, 60);
        for (int round = 0; round < 30 && !is_cut_off(w); round++) {
            send_error(w, &w->drafter, OR_WIRE_NEED_PREFIX, 0);
            send_error(w, &w->drafter, OR_WIRE_NEED_PREFIX, 0);
            draft_next(w, 1);
        }
        const or_message_t enough = {
            .type = OR_MSG_CANCEL, .session = w->session, .body.cancel = {.reason = "enough"}};
        assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &enough), OR_OK);
        run(w, 2);
    }
    assert_is_out(w);
}

// ---- drafters that cost time ----

// Rounds that the drafter holds up, each by so long and then with an empty tree.
static uint32_t rounds_held_up(world_t *w, uint32_t ms)
{
    begin_text(w, 60);
    uint32_t cancels = w->heard[0].cancels;
    for (uint32_t round = 1; round <= 40; round++) {
        if (w->heard[0].cancels > cancels) {
            return round - 1;
        }
        run(w, ms);
        draft_next(w, 0);
    }
    return 40;
}

static void who_answers_just_in_time_with_nothing_leaves(void **state)
{
    world_t *w = *state;
    join_usual(w);
    assert_in_range(rounds_held_up(w, 950), 3, 6);
    run(w, 60);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_non_null(strstr(w->note, "took more time than its guesses saved"));
    assert_in_range(rounds_held_up(w, 950), 2, 3); // with a record there is less patience
}

static void an_empty_tree_is_as_fruitless_as_a_wrong_one(void **state)
{
    world_t *w = *state;
    join_usual(w);
    assert_int_equal(rounds_held_up(w, 0), 40);
    assert_int_equal(w->heard[0].cancels, 1);
    run(w, 60);
    assert_non_null(strstr(w->note, "in 40 rounds"));
}

// It took a seat and says nothing, but lives: in the end another may sit there.
static void a_silent_drafter_leaves_its_seat_to_another(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->slow = true;
    begin_text(w, 200);
    join(w, &w->second, drafter_hello(w));
    run(w, 15000);
    assert_int_equal(w->heard[1].opens, 0);
    run(w, 17000);
    w->slow = false;
    run(w, 11000); // the verifier is asked again
    assert_int_equal(w->heard[1].opens, 1);
}

static void one_that_is_busy_bars_only_itself_and_not_for_ever(void **state)
{
    world_t *w = *state;
    join_usual(w);
    begin_text(w, 200);
    join(w, &w->second, drafter_hello(w));
    run(w, 2);
    send_error(w, &w->drafter, OR_WIRE_BUSY, 4000000000U);
    assert_int_equal(w->heard[1].opens, 1);
    leave(&w->second);
    w->slow = true;
    uint32_t opens = w->heard[0].opens;
    run(w, 9000);
    assert_int_equal(w->heard[0].opens, opens);
    w->slow = false;
    run(w, 12000);
    assert_true(w->heard[0].opens > opens || w->end.finish != OR_FINISH_NONE);
}

// It says so to every text that it is sent, and wants it again after a millisecond.
static void one_that_is_always_busy_is_sent_the_text_seldom(void **state)
{
    world_t *w = *state;
    join_usual(w);
    w->judges = true;
    w->step_ms = 200; // each begins a round that it could draft for
    begin_text(w, 50);
    uint32_t opens = 0;
    while (w->end.finish == OR_FINISH_NONE) {
        if (w->heard[0].opens > opens) {
            opens = w->heard[0].opens;
            send_error(w, &w->drafter, OR_WIRE_BUSY, 1);
        }
        run(w, 1);
    }
    assert_in_range(opens, 4, 6); // in ten seconds: after 0.25, 0.5, 1, 2, and 4
}

// The drafter that helped is chosen of two that have no session.
static void who_was_of_no_use_is_chosen_last(void **state)
{
    world_t *w = *state;
    join_usual(w);
    rounds_held_up(w, 950);
    run(w, 3000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    join(w, &w->second, drafter_hello(w));
    run(w, 2);
    uint32_t opens = w->heard[0].opens;
    begin_text(w, 2);
    assert_int_equal(w->heard[0].opens, opens);
    assert_int_equal(w->heard[1].opens, 1);
}

static void a_row_of_unfit_drafters_does_not_bar_the_next(void **state)
{
    world_t *w = *state;
    join_usual(w);
    begin_text(w, 20);
    for (int i = 0; i < 20; i++) {
        uint32_t opens = w->heard[0].opens;
        assert_int_equal(opens, i + 1);
        join(w, &w->second, drafter_hello(w)); // it is there before the seat is free
        run(w, 2);
        send_error(w, &w->drafter, OR_WIRE_CONTEXT, 0);
        leave(&w->drafter);
        w->drafter = w->second;
        w->second = (edge_t){0};
        w->heard[0].opens += w->heard[1].opens;
        w->heard[1].opens = 0;
    }
    assert_int_equal(w->end.finish, OR_FINISH_NONE);
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
        WITH_WORLD(who_asks_for_the_text_is_not_cut_off_at_once),
        WITH_WORLD(who_asks_for_the_text_in_every_round_is_cut_off),
        WITH_WORLD(who_answers_just_in_time_with_nothing_leaves),
        WITH_WORLD(an_empty_tree_is_as_fruitless_as_a_wrong_one),
        WITH_WORLD(a_silent_drafter_leaves_its_seat_to_another),
        WITH_WORLD(one_that_is_busy_bars_only_itself_and_not_for_ever),
        WITH_WORLD(one_that_is_always_busy_is_sent_the_text_seldom),
        WITH_WORLD(who_was_of_no_use_is_chosen_last),
        WITH_WORLD(a_row_of_unfit_drafters_does_not_bar_the_next),
        WITH_WORLD(useless_guesses_get_a_smaller_budget_then_none),
        WITH_WORLD(an_accepted_guess_restores_the_budget),
        WITH_WORLD(more_than_the_budget_is_a_bad_tree),
        WITH_WORLD(another_takes_the_seat_and_the_first_may_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
