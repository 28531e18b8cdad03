// Goal: a text whose key has written as much as it may goes on slower and never fails, whether its drafter works
// ahead or not; no drafter is asked for more guesses than the key allows.
// Method: the real coordinator with a keyring in a file, the test as all its peers; virtual minutes.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/coordinator_test_support.h"

#define KEY "000000000000000000000000000000000000000a"
#define A_MINUTE 20u // tokens
#define PROMPT_LENGTH 3

static char path[64];
static or_keyring_t *keyring;

static int setup(void **state)
{
    or_key_grant_t grant = {.key = KEY,
                            .name = "ada",
                            .owner = "ada",
                            .roles = OR_KEY_CLIENT,
                            .tokens_per_minute = A_MINUTE,
                            .nodes_max = 5};
    snprintf(path, sizeof path, "/tmp/pacing-test-%d", (int)getpid());
    unlink(path);
    assert_int_equal(or_keyring_open(path, &keyring), OR_OK);
    assert_int_equal(or_keyring_authorize(keyring, &grant), OR_OK);
    or_coordinator_config_t config = or_coordinator_config_default();
    config.keyring = keyring;
    return world_setup_with(state, config);
}

static int teardown(void **state)
{
    char lock[96];
    world_teardown(state);
    or_keyring_close(&keyring);
    snprintf(lock, sizeof lock, "%s.lock", path);
    unlink(lock);
    return unlink(path);
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

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_text_goes_on_at_the_pace_of_its_key, setup, teardown),
        cmocka_unit_test_setup_teardown(no_drafter_is_asked_for_more_than_the_key_allows, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
