// Goal: a text whose key has written as much as it may goes on slower and never fails, whether its drafter works
// ahead or not; no drafter is asked for more guesses than the key allows, also where it is allowed less meanwhile.
// Method: the real coordinator with a keyring in a file, the test as all its peers; virtual minutes.

#include "coordinator/coordinator_test_support.h"

#define KEY "000000000000000000000000000000000000000a"
#define A_MINUTE 20u // tokens
#define PROMPT_LENGTH 3

static or_keyring_t *keyring;

// Write the file as `outrider keys` does.
static void allow(uint32_t nodes_max, uint32_t tokens_per_minute)
{
    const or_key_grant_t grant = {.key = KEY,
                                  .name = "ada",
                                  .owner = "ada",
                                  .roles = OR_KEY_CLIENT,
                                  .tokens_per_minute = tokens_per_minute,
                                  .nodes_max = nodes_max};
    authorize_test_key(grant);
}

static int set_up(void **state, uint32_t draft_timeout_ms)
{
    keyring = open_test_keyring();
    allow(5, A_MINUTE);
    or_coordinator_config_t config = or_coordinator_config_default();
    config.keyring = keyring;
    config.draft_timeout_ms = draft_timeout_ms;
    return world_setup_with(state, config);
}

static int setup(void **state)
{
    return set_up(state, 1000);
}

static int set_up_patient(void **state)
{
    return set_up(state, 5000);
}

static int teardown(void **state)
{
    int failed = world_teardown(state);
    close_test_keyring(&keyring);
    return failed;
}

static void begin(world_t *w, or_generate_request_t request)
{
    uint64_t hash = or_vocab_hash(w->vocab);
    join(w, &w->verifier,
         (or_hello_t){.role = OR_ROLE_VERIFIER, .vocab_hash = hash, .model_hash = TARGET});
    join(w, &w->drafter, (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = hash});
    join(w, &w->client, (or_hello_t){.role = OR_ROLE_CLIENT});
    or_network_set_key(w->client.channel, KEY);
    run(w, 5);
    w->judges = true;
    ask(w, request);
    run(w, 5);
}

// The tree that is asked for, of one right word: every round brings two.
static void answer(world_t *w)
{
    const uint32_t word = word_at(w->heard[0].length);
    draft(w, w->heard[0].round, w->heard[0].length, w->heard[0].hash, &word, chain, 1);
}

static void a_text_goes_on_at_the_pace_of_its_key(void **state)
{
    world_t *w = *state;
    for (uint32_t ahead = 0; ahead <= 2; ahead += 2) {
        or_generate_request_t request = usual_request(A_MINUTE + 6);
        int64_t started = w->clock.now_ns;
        uint64_t answered = 0;
        request.draft_ahead = ahead;
        request.ignore_end = true;
        request.request = 100 + ahead;
        if (ahead == 0) {
            begin(w, request);
        } else {
            run(w, 60000); // a minute later it may write as much again
            started = w->clock.now_ns;
            w->written_count = 0;
            ask(w, request);
            run(w, 5);
        }
        while (w->end.request != request.request && w->clock.now_ns - started < 60 * OR_NS_PER_S) {
            if (w->heard[0].round != answered) {
                answered = w->heard[0].round;
                answer(w);
            }
            run(w, 10);
            int64_t seconds = (w->clock.now_ns - started) / OR_NS_PER_S;
            assert_true(w->written_count <= A_MINUTE + 2 + seconds * A_MINUTE / 60 + 2);
        }
        assert_int_equal(w->end.finish, OR_FINISH_LENGTH);
        assert_int_equal(w->written_count, A_MINUTE + 6);
        for (uint32_t i = 0; i < w->written_count; i++) {
            assert_int_equal(w->written[i], word_at(PROMPT_LENGTH + i));
        }
        assert_true(w->clock.now_ns - started > 9 * OR_NS_PER_S); // 4 of them at 3 s each
        assert_int_equal(w->end.stats.plain_rounds, 0);           // no drafter was late for it
    }
}

static void no_drafter_is_asked_for_more_than_the_key_allows(void **state)
{
    world_t *w = *state;
    begin(w, usual_request(1));
    assert_int_equal(w->told_nodes, 5);
}

// One guess cannot be shared by two.
static void nor_are_more_drafters_than_it_has_guesses(void **state)
{
    world_t *w = *state;
    or_generate_request_t request = usual_request(1);
    request.draft_method = OR_DRAFT_MULTI;
    allow(1, 0);
    run(w, 1100);
    join(w, &w->second,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)});
    begin(w, request);
    assert_int_equal(w->heard[0].opens + w->heard[1].opens, 1);
    assert_int_equal(w->heard[0].terms.draft_nodes + w->heard[1].terms.draft_nodes, 1);
}

// The keyring is read again each second.
static void lower(world_t *w, uint32_t nodes_max)
{
    allow(nodes_max, 0);
    run(w, 1100);
}

static void fewer_guesses_hold_for_a_text_under_way(void **state)
{
    world_t *w = *state;
    allow(5, 0);
    begin(w, usual_request(20));
    lower(w, 2);
    answer(w);
    run(w, 5);
    assert_int_equal(w->heard[0].draft_nodes, 2);
    assert_int_equal(w->heard[0].opens, 1); // it is told to build less
    answer(w);
    run(w, 5);
    assert_int_equal(w->trees, 2);
}

static uint32_t nodes_shown; // of the text's tree, as the client last heard

static void note_nodes(world_t *w, const or_message_t *message)
{
    (void)w;
    if (message->type == OR_MSG_STATS && message->body.stats.policy_count > 0) {
        nodes_shown = message->body.stats.policies[0].nodes;
    }
}

static uint32_t ask_for_nodes(world_t *w)
{
    const or_message_t ask = {.type = OR_MSG_STATS_REQUEST};
    w->look = note_nodes;
    nodes_shown = 0;
    assert_int_equal(or_link_send(w->client.link, OR_PEER_HUB, &ask), OR_OK);
    run(w, 5);
    return nodes_shown;
}

// A shape cannot be cut, so its drafter is told anew, and its policy what a tree has now.
static void fewer_guesses_hold_for_a_shape_too(void **state)
{
    static const uint32_t shape[] = {2, 2};
    world_t *w = *state;
    or_generate_request_t request = usual_request(20);
    request.draft_method = OR_DRAFT_RSD_C;
    request.accept_rule = OR_ACCEPT_NAIVE;
    request.draft_shape = shape;
    request.draft_shape_count = 2;
    allow(5, 0);
    begin(w, request);
    assert_int_equal(w->told_nodes, 5);
    lower(w, 2);
    assert_int_equal(ask_for_nodes(w), 5);
    answer(w);
    run(w, 5);
    assert_int_equal(w->heard[0].opens, 2);
    assert_int_equal(w->told_nodes, 2);
    assert_int_equal(ask_for_nodes(w), 2);
}

#define KEYED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define PATIENT(test) cmocka_unit_test_setup_teardown(test, set_up_patient, teardown)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        KEYED(a_text_goes_on_at_the_pace_of_its_key),
        KEYED(no_drafter_is_asked_for_more_than_the_key_allows),
        KEYED(nor_are_more_drafters_than_it_has_guesses),
        PATIENT(fewer_guesses_hold_for_a_text_under_way),
        PATIENT(fewer_guesses_hold_for_a_shape_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
