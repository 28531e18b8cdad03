// Goal: what a key did is held against it however often it says good-bye and Hello: it brings four unknown vocabularies a
// minute and is told when to come again, its offences are counted on, and nobody else is held up.
// The log says of few of its comings and goings.
// Method: the real coordinator with a keyring in a file of this process, on a virtual clock; the test is a drafter that comes
// over and over again.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log/log.h"
#include "coordinator/coordinator_test_support.h"
#include "coordinator/peers/standing.h"

#define ADA "AdaAdaAdaAdaAdaAdaAdaAdaAdaAdaAdaAdaAdaA"
#define BOB "BobBobBobBobBobBobBobBobBobBobBobBobBobB"

static or_keyring_t *keyring; // the coordinator's

static int setup(void **state)
{
    keyring = open_test_keyring();
    or_coordinator_config_t config = or_coordinator_config_default();
    config.keyring = keyring;
    int failed = world_setup_with(state, config);
    const char *const keys[] = {ADA, BOB};
    for (int i = 0; i < 2; i++) {
        or_key_grant_t grant = {.roles = OR_KEY_DRAFTER};
        snprintf(grant.key, sizeof grant.key, "%s", keys[i]);
        snprintf(grant.name, sizeof grant.name, "%.3s", keys[i]);
        snprintf(grant.owner, sizeof grant.owner, "%.3s", keys[i]);
        authorize_test_key(grant);
    }
    return failed;
}

static int teardown(void **state)
{
    int failed = world_teardown(state);
    close_test_keyring(&keyring);
    return failed;
}

// The drafter says good-bye, if it was there, and Hello.
static void come_again(world_t *w, const char *key, uint64_t vocab_hash)
{
    static const or_message_t good_bye = {.type = OR_MSG_CANCEL,
                                          .body.cancel = {.reason = "good-bye"}};
    if (w->drafter.link != NULL) {
        or_link_send(w->drafter.link, OR_PEER_HUB, &good_bye);
        run(w, 5);
        leave(&w->drafter);
    }
    w->refusal[0] = '\0';
    join(w, &w->drafter,
         (or_hello_t){.role = OR_ROLE_DRAFTER,
                      .vocab_hash = vocab_hash,
                      .vocab_size = vocab_hash == or_vocab_hash(w->vocab) ? 0 : 9});
    or_network_set_key(w->drafter.channel, key);
    run(w, 5);
}

// ---- vocabularies ----

static bool is_put_off(const world_t *w)
{
    return strstr(w->refusal, "unknown vocabularies a minute") != NULL;
}

// So many vocabularies are taken to pieces, each of which is not what was announced, until it is put off.
static uint32_t bring_until_put_off(world_t *w, const char *key)
{
    static uint64_t hash = 1000;
    const or_message_t nonsense = {.type = OR_MSG_VOCABULARY,
                                   .body.vocabulary = {.unpacked_bytes = 9,
                                                       .packed = (const uint8_t *)"?",
                                                       .packed_bytes = 1}};
    uint32_t brought = 0;
    come_again(w, key, ++hash);
    for (uint32_t i = 0; i < 50 && !is_put_off(w); i++) {
        if (w->refusal[0] != '\0') { // turned away for this one
            come_again(w, key, ++hash);
            continue;
        }
        uint32_t asked = w->heard[0].vocab_requests;
        assert_int_equal(or_link_send(w->drafter.link, OR_PEER_HUB, &nonsense), OR_OK);
        run(w, 5);
        brought += w->heard[0].vocab_requests > asked || !is_put_off(w);
    }
    return brought;
}

static void four_unknown_vocabularies_a_minute_come_with_a_key(void **state)
{
    world_t *w = *state;
    run(w, 1100); // the keyring is read
    assert_int_equal(bring_until_put_off(w, ADA), OR_VOCABULARIES_PER_MINUTE);
    uint32_t asked = w->heard[0].vocab_requests;
    come_again(w, ADA, 77); // it is not even asked for it
    assert_true(is_put_off(w));
    assert_int_equal(w->heard[0].vocab_requests, asked);
    assert_int_equal(bring_until_put_off(w, BOB), OR_VOCABULARIES_PER_MINUTE);
    come_again(w, ADA, 77);
    const char *after = strstr(w->refusal, "retry after ");
    assert_non_null(after);
    double wait_s = strtod(after + strlen("retry after "), NULL);
    assert_true(wait_s > 10 && wait_s <= 15.1);
    run(w, (uint32_t)(1000 * wait_s) + 100);
    assert_int_equal(bring_until_put_off(w, ADA), 1);
    run(w, 3600 * 1000 / 10);
    assert_int_equal(bring_until_put_off(w, ADA), OR_VOCABULARIES_PER_MINUTE);
}

// Whoever has the target's ids, or a vocabulary that is known, brings none.
static void the_targets_own_is_never_put_off(void **state)
{
    world_t *w = *state;
    run(w, 1100);
    bring_until_put_off(w, ADA);
    leave(&w->drafter);
    w->refusal[0] = '\0';
    join(w, &w->drafter,
         (or_hello_t){.role = OR_ROLE_DRAFTER, .vocab_hash = or_vocab_hash(w->vocab)});
    or_network_set_key(w->drafter.channel, ADA);
    run(w, 5);
    assert_string_equal(w->refusal, "");
}

// A machine's own drafters have no key, and may be many.
static void who_has_no_key_is_not_held_up(void **state)
{
    (void)state;
    static or_standings_t standings;
    uint32_t retry_ms;
    for (int i = 0; i < 100; i++) {
        assert_true(or_standings_may_bring(&standings, "", 5, &retry_ms));
        or_standings_brought(&standings, "", 5);
    }
}

// ---- offences ----

// Frames that make no sense, three on each connection, until the coordinator has had enough.
static uint32_t connections_until_cut_off(world_t *w, const char *key, uint32_t pause_ms)
{
    for (uint32_t i = 1; i <= 20; i++) {
        come_again(w, key, or_vocab_hash(w->vocab));
        for (int k = 0; k < 3; k++) {
            assert_int_equal(
                or_channel_send(w->drafter.channel, OR_PEER_HUB, (const uint8_t *)"?", 1), OR_OK);
        }
        run(w, 5);
        if (strstr(w->refusal, "cut off") != NULL) {
            return i;
        }
        run(w, pause_ms);
    }
    return 0;
}

static void offences_outlive_a_good_bye(void **state)
{
    world_t *w = *state;
    run(w, 1100);
    assert_int_equal(connections_until_cut_off(w, ADA, 0), 4);
    come_again(w, ADA, or_vocab_hash(w->vocab));
    assert_string_not_equal(w->refusal, "");                   // its key is banned
    assert_int_equal(connections_until_cut_off(w, BOB, 0), 4); // who had done nothing yet
}

static void offences_are_forgotten_on_the_way(void **state)
{
    world_t *w = *state;
    run(w, 1100);
    assert_int_equal(connections_until_cut_off(w, ADA, 60000), 0);
}

// ---- the log ----

// Lines that the coordinator writes while a drafter comes and goes so many times.
static uint32_t lines_of(world_t *w, const char *key, uint32_t times)
{
    uint32_t lines = 0;
    char line[1024];
    FILE *log = tmpfile();
    assert_non_null(log);
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    assert_int_equal(dup2(fileno(log), STDERR_FILENO), STDERR_FILENO);
    or_log_init("hub", OR_LOG_INFO);
    for (uint32_t i = 0; i < times; i++) {
        come_again(w, key, or_vocab_hash(w->vocab));
    }
    or_log_flush();
    assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    close(kept);
    test_log_init();
    rewind(log);
    while (fgets(line, sizeof line, log) != NULL) {
        lines += strstr(line, "drafter") != NULL;
    }
    fclose(log);
    return lines;
}

static void coming_and_going_does_not_fill_the_log(void **state)
{
    world_t *w = *state;
    run(w, 1100);
    assert_in_range(lines_of(w, ADA, 100), OR_LINES_PER_MINUTE, OR_LINES_PER_MINUTE + 2);
    assert_in_range(lines_of(w, BOB, 3), 5, 6);
    run(w, 60000);
    assert_in_range(lines_of(w, ADA, 3), 5, 6);
}

#define WITH_KEYS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    test_log_init();
    const struct CMUnitTest tests[] = {
        WITH_KEYS(four_unknown_vocabularies_a_minute_come_with_a_key),
        WITH_KEYS(the_targets_own_is_never_put_off),
        WITH_KEYS(offences_outlive_a_good_bye),
        WITH_KEYS(offences_are_forgotten_on_the_way),
        WITH_KEYS(coming_and_going_does_not_fill_the_log),
        cmocka_unit_test(who_has_no_key_is_not_held_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
