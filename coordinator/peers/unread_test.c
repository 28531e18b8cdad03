// Goal: what serves everybody is sent what everybody's texts need, whatever one owner asks for; and what waits for such a
// reader is bounded all the same, because new texts wait for it.
// Method: the real coordinator, long prompts of one client, and a verifier that comes back, reads nothing, or reads late.
#include <stdlib.h>

#include "coordinator/coordinator_test_support.h"

#define PROMPT 60000u
#define TEXTS 56u                        // whose prompts together are more than UNREAD_MAX
#define UNREAD_MAX (4u << 20)            // as in peers.c
#define PROMPT_BYTES (2 * PROMPT + 4096) // of a text's first frames

static or_ledger_t *ledger;
static uint32_t ends, words;

static int set_up(void **state)
{
    or_coordinator_config_t config = or_coordinator_config_default();
    assert_int_equal(or_ledger_create(256 << 20, 0, &ledger), OR_OK);
    config.ledger = ledger;
    config.sessions_max = 64;
    config.waiting_max = 200;
    ends = words = 0;
    return world_setup_with(state, config);
}

static int tear_down(void **state)
{
    int failed = world_teardown(state);
    or_ledger_destroy(&ledger);
    return failed;
}

static void count(world_t *w, const or_message_t *message)
{
    (void)w;
    if (message->type == OR_MSG_GENERATE_DELTA) {
        words += message->body.generate_delta.count;
        ends += message->body.generate_delta.finish == OR_FINISH_LENGTH;
    }
}

static or_hello_t large_verifier(const world_t *w)
{
    return (or_hello_t){.role = OR_ROLE_VERIFIER,
                        .vocab_hash = or_vocab_hash(w->vocab),
                        .vocab_size = or_vocab_size(w->vocab),
                        .model_hash = TARGET,
                        .arith_id = "any",
                        .context_max = 2 * PROMPT};
}

static void ask_for(world_t *w, uint32_t texts)
{
    static uint32_t prompt[PROMPT], number;
    for (uint32_t i = 0; i < PROMPT; i++) {
        prompt[i] = 300 + i % 2; // two bytes each
    }
    for (uint32_t i = 0; i < texts; i++) {
        or_generate_request_t request = usual_request(2);
        request.request = ++number;
        request.plain = true;
        request.prompt_tokens = prompt;
        request.prompt_token_count = PROMPT;
        ask(w, request);
        run(w, 100);
    }
}

// The most that any peer has not read.
static uint64_t most_unread(const world_t *w)
{
    uint64_t most = 0;
    for (uint64_t peer = 0; peer < 64; peer++) {
        uint64_t unread = or_link_unread(w->hub, (or_peer_t){peer});
        most = unread > most ? unread : most;
    }
    return most;
}

// Everything is sent anew in one turn, and more of it than a reader of one owner may have waiting.
static void all_texts_go_on_with_a_verifier_that_comes_back(void **state)
{
    world_t *w = *state;
    join(w, &w->verifier, large_verifier(w));
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "ada"});
    run(w, 5);
    w->look = count;
    w->slow = true;
    ask_for(w, TEXTS);
    assert_int_equal(ends, 0);
    leave(&w->verifier);
    run(w, 100);
    w->slow = false;
    join(w, &w->verifier, large_verifier(w));
    run(w, 200);
    assert_int_equal(ends, TEXTS);
}

// Clients without an owner would have less room for it, and it for them.
static void what_waits_for_the_verifier_is_in_no_owners_account(void **state)
{
    world_t *w = *state;
    or_ledger_usage_t usage;
    edge_t late = {0};
    join_beside(w, &late, large_verifier(w));
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "ada"});
    run(w, 5);
    ask_for(w, 4);
    assert_true(most_unread(w) > 4 * PROMPT);
    or_ledger_usage(ledger, &usage);
    assert_int_equal(usage.bytes[OR_HELD_UNSENT], 0);
    leave(&late);
}

// It says that it is alive. What it gets is what had begun, and no text begins before it has read.
static void texts_wait_for_a_verifier_that_does_not_read(void **state)
{
    world_t *w = *state;
    edge_t mute = {0};
    join_beside(w, &mute, large_verifier(w));
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT, .owner = "ada"});
    run(w, 5);
    w->look = count;
    for (int i = 0; i < 3; i++) {
        ask_for(w, TEXTS / 3);
        (void)or_link_tick(mute.link);
    }
    for (int i = 0; i < 60; i++) {
        run(w, 500);
        (void)or_link_tick(mute.link);
        assert_in_range(most_unread(w), 0, UNREAD_MAX + PROMPT_BYTES);
    }
    w->verifier = mute;
    run(w, 200);
    assert_int_equal(ends, TEXTS / 3 * 3);
}

static void token_biases_are_few(void **state)
{
    world_t *w = *state;
    static or_logit_bias_t biases[OR_BIASES_MAX + 1];
    join_usual(w);
    or_generate_request_t request = usual_request(2);
    request.plain = true;
    request.sampling.bias = biases;
    request.sampling.bias_count = OR_BIASES_MAX + 1;
    ask(w, request);
    run(w, 50);
    assert_int_equal(w->end.error_code, OR_WIRE_INVALID);
    assert_string_equal(w->error, "1025 logit biases are over 1024");
    request.sampling.bias_count = OR_BIASES_MAX;
    request.request = 78;
    ask(w, request);
    run(w, 50);
    assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
}

#define WORLD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        WORLD(all_texts_go_on_with_a_verifier_that_comes_back),
        WORLD(what_waits_for_the_verifier_is_in_no_owners_account),
        WORLD(texts_wait_for_a_verifier_that_does_not_read),
        WORLD(token_biases_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
