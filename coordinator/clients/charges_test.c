// Goal: what a text keeps is in its owner's account as long as it is kept and not longer; who has no room is told which
// limit that is; the owner's ends make room, others' do not; a client that repeats itself, that does not read, or that
// claims to have more than there is, costs a bounded amount.
// Method: the real coordinator with a small ledger, clients of two owners, and one whose program hangs.
#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator_test_support.h"

#define PROMPT 20000u

static or_ledger_t *ledger;

static int set_up(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    assert_int_equal(or_ledger_create(1 << 20, 0, &ledger), OR_OK);
    config.ledger = ledger;
    config.sessions_max = 4;
    config.waiting_max = 60;
    return world_setup_with(state, config);
}

static int tear_down(void **state)
{
    int failed = world_teardown(state);
    or_ledger_destroy(&ledger); // asserts that nothing is held any more
    return failed;
}

static uint64_t held(or_held_t kind)
{
    or_ledger_usage_t usage;
    or_ledger_usage(ledger, &usage);
    return usage.bytes[kind];
}

static or_generate_request_t large_request(uint64_t number)
{
    static uint32_t prompt[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++) {
        prompt[i] = 3 + i % 2;
    }
    or_generate_request_t request = usual_request(2);
    request.request = number;
    request.plain = true;
    request.prompt_tokens = prompt;
    request.prompt_token_count = PROMPT;
    return request;
}

// Requests that wait, as no verifier is there: how many of them until one is refused.
static uint32_t ask_until_refused(world_t *w, edge_t *edge)
{
    memset(&w->end, 0, sizeof w->end);
    for (uint32_t count = 0; count < 60; count++) {
        ask_through(edge, large_request(100 + count));
        run(w, 700); // as often as a client may ask
        hear_as_client(w, edge);
        if (w->end.finish != OR_FINISH_NONE) {
            return count;
        }
    }
    fail_msg("nothing was refused");
    return 0;
}

static void an_owner_that_waits_has_its_limit_and_others_find_room(void **state)
{
    world_t *w = *state;
    edge_t ben = {0};
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "ada"});
    join_beside(w, &ben, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "ben"});
    uint32_t taken = ask_until_refused(w, &w->client);
    assert_in_range(taken, 3, 6);
    assert_int_equal(w->end.error_code, OR_WIRE_BUSY);
    assert_non_null(strstr(w->error, "owner 'ada' holds"));
    assert_non_null(strstr(w->error, "--memory-max"));
    assert_true(held(OR_HELD_REQUESTS) >= taken * PROMPT * 4);
    assert_true(ask_until_refused(w, &ben) >= 1);
    assert_non_null(strstr(w->error, "owner 'ben' holds"));
    or_ledger_usage_t usage;
    or_ledger_usage(ledger, &usage);
    assert_true(usage.refused[OR_HELD_REQUESTS] + usage.refused[OR_HELD_ANSWERS] >= 2);
    leave(&ben);
}

// A verifier with room for large prompts and long texts, and a client.
static void join_large(world_t *w)
{
    const or_hello_t verifier = {.role = OR_ROLE_VERIFIER,
                                 .vocab_hash = or_vocab_hash(w->vocab),
                                 .model_hash = TARGET,
                                 .arith_id = "any",
                                 .context_max = 2 * PROMPT};
    join(w, &w->verifier, verifier);
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    run(w, 5);
}

// Ends are kept for clients that missed them, until their owner needs the room.
static void an_owners_ends_make_room(void **state)
{
    world_t *w = *state;
    join_large(w);
    for (uint64_t i = 0; i < 20; i++) {
        memset(&w->end, 0, sizeof w->end);
        ask_through(&w->client, large_request(1000 + i));
        run(w, 700);
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    }
    assert_in_range(held(OR_HELD_REQUESTS), PROMPT * 4, (1 << 20) / 2);
}

// The answer that is kept for a client that missed the end counts with the last token.
static void the_last_token_is_charged_for_too(void **state)
{
    world_t *w = *state;
    join_large(w);
    w->slow = true;
    or_generate_request_t request = usual_request(1);
    request.plain = true;
    request.logprobs = OR_LOGPROBS_MAX;
    ask(w, request);
    run(w, 5);
    uint64_t before = held(OR_HELD_ANSWERS);
    w->slow = false;
    run(w, 1500); // the verifier is asked again
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_true(held(OR_HELD_ANSWERS) > before);
}

// The page of what each token was costs more than the tokens.
static void an_answer_that_outgrows_its_room_ends_with_the_reason(void **state)
{
    world_t *w = *state;
    or_hold_t rest;
    join_large(w);
    or_generate_request_t request = usual_request(250);
    request.plain = true;
    request.details = true;
    or_hold_open(&rest, ledger, "others", OR_HELD_BODIES);
    w->slow = true;
    ask(w, request);
    run(w, 2);
    or_ledger_usage_t usage;
    or_ledger_usage(ledger, &usage);
    or_hold_force(&rest, (1 << 20) - usage.largest_owner);
    w->slow = false;
    run(w, 5000);
    or_hold_close(&rest);
    assert_int_equal(w->end.finish, OR_FINISH_ERROR);
    assert_int_equal(w->end.error_code, OR_WIRE_LIMIT);
    assert_non_null(strstr(w->error, "--memory-max"));
}

static void repeating_a_request_brings_few_answers(void **state)
{
    world_t *w = *state;
    join_usual(w);
    or_generate_request_t request = usual_request(50);
    request.plain = true;
    request.request = 5;
    ask_through(&w->client, request);
    run(w, 2000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    uint64_t before = or_link_bytes(w->client.link, OR_PEER_HUB);
    ask_through(&w->client, request);
    run(w, 5);
    uint64_t once = or_link_bytes(w->client.link, OR_PEER_HUB) - before;
    before = or_link_bytes(w->client.link, OR_PEER_HUB);
    for (int i = 0; i < 100; i++) {
        ask_through(&w->client, request);
        run(w, 1);
    }
    assert_true(or_link_bytes(w->client.link, OR_PEER_HUB) - before < 60 * once);
}

// A client's offset is not trusted as a place to read from.
static void an_offset_beyond_the_text_is_no_pointer(void **state)
{
    world_t *w = *state;
    join_large(w);
    w->step_ms = 20;
    w->judges = true;
    or_generate_request_t request = usual_request(50);
    request.plain = true;
    request.request = 6;
    ask_through(&w->client, request);
    run(w, 200);
    const or_message_t message = {
        .type = OR_MSG_RESUME,
        .body.resume = {.request = 6, .offset = UINT32_MAX - 1, .text_offset = UINT64_MAX - 1}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 5000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(w->end.count, 0);
}

// A client that asks for long texts and does not read: what waits for it is bounded, counted, and given back.
static void who_does_not_read_gets_no_more(void **state)
{
    world_t *w = *state;
    edge_t lazy = {0};
    join_large(w);
    join_beside(w, &lazy, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "lazy"});
    or_generate_request_t request = usual_request(200);
    request.plain = true;
    request.details = true;
    request.request = 7;
    ask_through(&lazy, request);
    for (int i = 0; i < 1000; i++) { // what has come is asked for again and again
        const or_message_t message = {.type = OR_MSG_RESUME, .body.resume = {.request = 7}};
        run(w, 300);
        (void)or_link_send(lazy.link, OR_PEER_HUB, &message);
        (void)or_link_tick(lazy.link);
        assert_true(held(OR_HELD_UNSENT) <= (1 << 20) / 2);
    }
    assert_true(held(OR_HELD_UNSENT) > 0);
    leave(&lazy);
    run(w, 20000); // it is lost
    assert_int_equal(held(OR_HELD_UNSENT), 0);
}

// A distribution of 256 tokens is 2 KiB, and a tree has up to one for each of its nodes.
static void distributions_are_in_the_account_until_the_text_ends(void **state)
{
    world_t *w = *state;
    static uint32_t dist_tokens[OR_DISTRIBUTION_ENTRIES_MAX], weights[OR_DISTRIBUTION_ENTRIES_MAX];
    static const uint32_t zero[] = {0};
    const or_reduced_distribution_t dist = {dist_tokens, weights, OR_DISTRIBUTION_ENTRIES_MAX};
    for (uint32_t i = 0; i < OR_DISTRIBUTION_ENTRIES_MAX; i++) {
        dist_tokens[i] = 5 + i;
        weights[i] = OR_DISTRIBUTION_TOTAL / OR_DISTRIBUTION_ENTRIES_MAX;
    }
    join_usual(w);
    w->slow = true;
    or_generate_request_t request = usual_request(1);
    request.draft_method = OR_DRAFT_RSD_C;
    request.accept_rule = OR_ACCEPT_RECURSIVE;
    request.sampling.temperature = 1;
    ask(w, request);
    run(w, 5);
    uint64_t before = held(OR_HELD_ANSWERS);
    const or_message_t tree = {.type = OR_MSG_DRAFT_TREE,
                               .session = w->session,
                               .body.draft_tree = {.round = w->last.round,
                                                   .base_length = w->last.count,
                                                   .base_hash = w->last.hash,
                                                   .tokens = tokens,
                                                   .back = chain,
                                                   .count = 1,
                                                   .dist_index = zero,
                                                   .dist_index_count = 1,
                                                   .draw_order = zero,
                                                   .draw_order_count = 1,
                                                   .dists = &dist,
                                                   .dist_count = 1}};
    assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &tree), OR_OK);
    run(w, 5);
    assert_int_equal(w->trees, 1);
    assert_int_equal(w->nodes, 1);
    // The drafter's, and the one that the verifier was sent.
    assert_true(held(OR_HELD_ANSWERS) - before >= 2 * sizeof dist_tokens * 2);
    w->slow = false;
    run(w, 1500);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_in_range(held(OR_HELD_ANSWERS), 0, before + 512); // of text
}

static void an_end_keeps_nothing_that_only_rounds_need(void **state)
{
    world_t *w = *state;
    join_usual(w);
    or_generate_request_t request = usual_request(2);
    request.draft_ahead = 4;
    request.draft_nodes = 32;
    w->slow = true;
    ask(w, request);
    run(w, 5);
    uint64_t before = held(OR_HELD_REQUESTS);
    w->slow = false;
    run(w, 5000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_true(held(OR_HELD_REQUESTS) > 0); // its client may have missed the end
    assert_true(held(OR_HELD_REQUESTS) < before / 3);
}

// With all that may be asked of each token it would be no frame any more.
static uint32_t next_token, largest_count;
static uint64_t next_byte;

static void follow_pieces(world_t *w, const or_message_t *message)
{
    const or_generate_delta_t *delta = &message->body.generate_delta;
    (void)w;
    if (message->type == OR_MSG_GENERATE_DELTA) {
        assert_int_equal(delta->offset, next_token);
        assert_int_equal(delta->text_offset, next_byte);
        next_token += delta->count;
        next_byte += delta->text_bytes;
        largest_count = delta->count > largest_count ? delta->count : largest_count;
    }
}

static void a_long_answer_comes_in_pieces(void **state)
{
    world_t *w = *state;
    const uint32_t wanted = 10000;
    join_large(w);
    or_generate_request_t request = usual_request(wanted);
    request.plain = true;
    request.details = true;
    request.request = 5;
    ask(w, request);
    run(w, 20000);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    next_token = largest_count = 0;
    next_byte = 0;
    w->look = follow_pieces;
    memset(&w->end, 0, sizeof w->end);
    const or_message_t message = {.type = OR_MSG_RESUME, .body.resume = {.request = 5}};
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &message), OR_OK);
    run(w, 20);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
    assert_int_equal(next_token, wanted);
    assert_true(next_byte > 0);
    assert_in_range(largest_count, 1, 4096);
}

static void stop_strings_are_few_and_short(void **state)
{
    world_t *w = *state;
    static uint8_t bytes[OR_STOP_BYTES_MAX + 1];
    or_wire_bytes_t stops[OR_STOP_STRINGS_MAX + 1];
    join_usual(w);
    memset(bytes, 'x', sizeof bytes);
    for (uint32_t i = 0; i <= OR_STOP_STRINGS_MAX; i++) {
        stops[i] = (or_wire_bytes_t){bytes, 3};
    }
    or_generate_request_t request = usual_request(2);
    request.plain = true;
    request.stop = stops;
    request.stop_count = OR_STOP_STRINGS_MAX + 1;
    request.request = 8;
    ask_through(&w->client, request);
    run(w, 5);
    assert_int_equal(w->end.error_code, OR_WIRE_INVALID);
    assert_non_null(strstr(w->error, "17 stop strings are over 16"));
    stops[0] = (or_wire_bytes_t){bytes, sizeof bytes};
    request.stop_count = 1;
    request.request = 9;
    ask_through(&w->client, request);
    run(w, 5);
    assert_non_null(strstr(w->error, "a stop string of 257 bytes is over 256"));
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        WORLD(an_owner_that_waits_has_its_limit_and_others_find_room),
        WORLD(an_owners_ends_make_room),
        WORLD(an_answer_that_outgrows_its_room_ends_with_the_reason),
        WORLD(the_last_token_is_charged_for_too),
        WORLD(repeating_a_request_brings_few_answers),
        WORLD(an_offset_beyond_the_text_is_no_pointer),
        WORLD(who_does_not_read_gets_no_more),
        WORLD(stop_strings_are_few_and_short),
        WORLD(a_long_answer_comes_in_pieces),
        WORLD(distributions_are_in_the_account_until_the_text_ends),
        WORLD(an_end_keeps_nothing_that_only_rounds_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
